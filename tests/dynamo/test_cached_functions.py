"""Functions with an lru_cache: answers, counts and calls, against eager."""

import functools
import gc

import pytest
import torch
from worlds import same

import minicompile
from minicompile import record

X = torch.tensor([1.0, 2.0])


def counted(body, between=(), makes=lambda n: n * 2, notes=False, **options):
    """A program that calls a cached function in `body(cached, x)`: answers, counts, and what it was called with.

    notes: whether the cached function itself notes it, which is not to be done ahead of its turn.
    """

    def program():
        asked = []

        @functools.lru_cache(**options)
        def cached(n):
            if notes:
                asked.append(n)
            return makes(n)

        steps = [step for change in between for step in (lambda change=change: change(cached), (X,))]
        return lambda x: body(cached, x), [(X,), (X,), *steps], lambda: (tuple(cached.cache_info()), asked)

    return program


def both(*arguments, **options):
    return [counted(*arguments, notes=notes, **options) for notes in (False, True)]


WHOLE, NOTED = zip(
    both(lambda cached, x: x + cached(3) + cached(3) + cached(4)),
    both(lambda cached, x: x + cached(3), [lambda c: c.cache_clear(), lambda c: c(3), lambda c: c.cache_clear()]),
    both(lambda cached, x: x + cached(1), [lambda c: [c(n) for n in range(2, 9)], lambda c: c(1)], maxsize=8),
    both(lambda cached, x: (cached(1), cached(1.0), cached(True)), typed=True, maxsize=None),
    both(lambda cached, x: (cached(1), cached(1.0), cached(2.0), cached(2))),
    both(lambda cached, x: (cached(3) is cached(3), cached(3) + x), makes=lambda n: torch.full((2, 2), n)),
    both(lambda cached, x: (cached(3).append(len(x)), cached(3)), makes=lambda n: [n]),
    both(lambda cached, x: x + cached(3) + cached(4) + cached(3), maxsize=2),
)
BROKEN = [
    *both(lambda cached, x: x + cached(1), [lambda c: [c(n) for n in range(2, 9)], lambda c: c(1)], maxsize=3),
    *both(lambda cached, x: x + cached(3) + cached(4) + cached(3), maxsize=1),
    *both(lambda cached, x: x + cached(3) + cached(3), maxsize=0),
    *both(lambda cached, x: (x + cached(3), cached.cache_info(), cached(3))),
    *both(lambda cached, x: (x + cached(3), cached.cache_clear(), cached(3))),
    *both(lambda cached, x: (cached(3), minicompile.graph_break(), cached(3), x + 1)),
    counted(lambda cached, x: (x + torch.rand(2), cached(3)), makes=lambda n: torch.rand(n)),
    counted(lambda cached, x: (x, cached(3).close()), makes=lambda n: iter([n])),
    counted(lambda cached, x: (cached(3), x[7], cached(4))),
]


@pytest.mark.parametrize("program", WHOLE)
def test_a_cache_counts_the_calls_of_eager(program):
    same(program)


@pytest.mark.parametrize("program", [*BROKEN, *NOTED])
def test_and_across_breaks(program):
    same(program, fullgraph=False)


def test_the_graph_no_longer_breaks_when_the_cache_has_the_answer():
    function, _, state = counted(lambda cached, x: x + cached(3), notes=True)()
    minicompile.reset()
    compiled = minicompile.compile(function, backend="eager")
    for _ in range(3):
        assert compiled(X).tolist() == [7.0, 8.0]
    assert state() == ((2, 1, 128, 1), [3])
    assert (record.counters["graph_breaks"], record.counters["recompiles"]) == (1, 1)
    assert minicompile.explain(function)(X).breaks == []


@pytest.mark.parametrize("known", [[1], [1, 2], [2, 1], [2, 3], [1, 2, 3]])
@pytest.mark.parametrize("asks", [[1, 4], [4, 1], [1, 4, 2, 1], [4, 5, 1, 4]])
@pytest.mark.parametrize("maxsize", [2, 3, 4])
def test_a_bounded_cache_forgets_what_it_forgets_in_eager(known, asks, maxsize):
    def program():
        @functools.lru_cache(maxsize)
        def cached(n):
            return (n, n)

        def body(x):
            return x + 1, [cached(n) for n in asks]

        def state():
            kept = gc.get_referents(cached)[1:-1]  # links in the order of their age: key, answer, class of each
            return tuple(cached.cache_info()), [part for part in kept if type(part) is int]

        return body, [lambda: [cached(n) for n in known], (X,), (X,)], state

    same(program, fullgraph=False)


def asking(*effects):
    """Programs that call a cached function which does one of these."""

    def program(effect):
        seen = []

        @functools.lru_cache
        def cached(n):
            seen.append(n)
            effect(n)
            return len(seen)

        def body(x):
            seen.append("before")
            try:
                return x + cached(3) + cached(3)
            except (ValueError, RuntimeError) as error:
                return str(error), x + 1

        return body, [(X,), (X,)], lambda: (seen, tuple(cached.cache_info()))

    return [lambda effect=effect: program(effect) for effect in effects]


def refuses(n):
    raise ValueError(n)


@pytest.mark.parametrize("program", asking(refuses, lambda n: bool(X), lambda n: X.sum() > n or refuses(n), print))
def test_a_function_that_raises_or_asks_is_called_once(program):
    same(program, fullgraph=False)


def test_a_cached_function_that_changes_what_the_program_changes():
    def program():
        a = [1]

        def body(x):
            @functools.cache
            def cached(*others, **named):
                a.append(x)

            a.append(cached(*a, n=2))
            return a

        return body, [(X,)]

    same(program, fullgraph=False)


def test_cached_functions_that_call_each_other():
    def program():
        @functools.lru_cache
        def fibonacci(n):
            return n if n < 2 else fibonacci(n - 1) + fibonacci(n - 2)

        return lambda x: x + fibonacci(30), [(X,), (X,)], lambda: tuple(fibonacci.cache_info())

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
        return function, [(torch.tensor([0, index]),) for index in (7, 1, 7, 1)], state

    same(program)


def test_a_cached_method_may_see_what_the_program_has_not_changed():
    class Once:
        def __init__(self):
            self.seen = []

        @functools.lru_cache  # noqa: B019
        def count(self, word):
            return len(self.seen), word

    def program(own):
        once, log = Once(), []

        def body(x):
            (once.seen if own else log).append("called")
            return x * (1 + once.count("a")[0])

        return body, [(X,), (X,)], lambda: (log, once.seen)

    same(lambda: program(own=False))
    same(lambda: program(own=True), fullgraph=False)
