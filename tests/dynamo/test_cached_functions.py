"""Functions with an lru_cache: answers, counts and calls, against eager."""

import functools

import pytest
import torch
from worlds import same

import minicompile

X = torch.tensor([1.0, 2.0])


def counted(body, between=(), makes=lambda n: n * 2, **options):
    """A program that calls a cached function in `body(cached, x)`: answers, counts, and what it was called with."""

    def program():
        asked = []

        @functools.lru_cache(**options)
        def cached(n):
            asked.append(n)
            return makes(n)

        steps = [step for change in between for step in (lambda change=change: change(cached), (X,))]
        return lambda x: body(cached, x), [(X,), (X,), *steps], lambda: (tuple(cached.cache_info()), asked)

    return program


WHOLE = [
    counted(lambda cached, x: x + cached(3) + cached(3) + cached(4)),
    counted(lambda cached, x: x + cached(3), [lambda c: c.cache_clear(), lambda c: c(3), lambda c: c.cache_clear()]),
    counted(lambda cached, x: x + cached(1), [lambda c: [c(n) for n in range(2, 9)], lambda c: c(1)], maxsize=3),
    counted(lambda cached, x: (cached(1), cached(1.0), cached(True)), typed=True, maxsize=None),
    counted(lambda cached, x: (cached(1), cached(1.0), cached(2.0), cached(2))),
    counted(lambda cached, x: (cached(3) is cached(3), cached(3) + x), makes=lambda n: torch.full((2, 2), n)),
    counted(lambda cached, x: (cached(3).append(len(x)), cached(3)), makes=lambda n: [n]),
    counted(lambda cached, x: x + cached(3) + cached(4) + cached(3), maxsize=2),
]
BROKEN = [
    counted(lambda cached, x: x + cached(3) + cached(4) + cached(3), maxsize=1),
    counted(lambda cached, x: x + cached(3) + cached(3), maxsize=0),
    counted(lambda cached, x: (x + cached(3), cached.cache_info(), cached(3))),
    counted(lambda cached, x: (x + cached(3), cached.cache_clear(), cached(3))),
    counted(lambda cached, x: (cached(3), minicompile.graph_break(), cached(3), x + 1)),
]


@pytest.mark.parametrize("program", WHOLE)
def test_a_cache_counts_the_calls_of_eager(program):
    same(program)


@pytest.mark.parametrize("program", BROKEN)
def test_and_across_breaks(program):
    same(program, fullgraph=False)


def test_keys_that_cannot_be_hashed_are_no_call():
    def body(cached, x):
        try:
            return cached([3])
        except TypeError as error:
            return str(error), x + 1

    same(counted(body))


class WithCachedMethod:
    scale = 2

    @functools.lru_cache  # noqa: B019 (as models have it)
    def scaled(self, n):
        return self.scale * n


@pytest.mark.parametrize("changes", [0, 1])
def test_a_cached_method_sees_its_object_as_it_is_at_the_call(changes):
    def program():
        made = WithCachedMethod()
        WithCachedMethod.scaled.cache_clear()

        def f(x):
            if changes:
                made.scale += changes
            return x * made.scaled(3) + made.scaled(4)

        return f, [(X,), (X,)], lambda: tuple(WithCachedMethod.scaled.cache_info())

    same(program, fullgraph=not changes)


@pytest.mark.graph_errors
def test_a_graph_that_raises_counts_no_call_twice():
    def program():
        function, _, state = counted(lambda cached, x: x[x] + cached(3))()
        return function, [(torch.tensor([0, index]),) for index in (1, 7, 1, 7)], state

    same(program)


def test_an_object_of_a_cached_method_is_looked_at_only_if_it_leads_to_a_change():
    class Once:
        def __init__(self):
            self.seen, self.heard = [], []

        @functools.lru_cache  # noqa: B019
        def count(self, word):
            self.heard.append(word)
            return len(self.seen)

    def program():
        once, log = Once(), []

        def other(x):
            log.append("called")
            return x * (1 + once.count("a"))

        return other, [(X,), (X,)], lambda: (log, once.seen, once.heard)

    def seen():
        once = Once()

        def own(x):
            once.seen.append("called")
            return x * (1 + once.count("a"))

        return own, [(X,), (X,)], lambda: (once.seen, once.heard)

    same(program)
    same(seen, fullgraph=False)
