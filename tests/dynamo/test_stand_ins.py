"""Objects whose class has a polyfill are of the original class, and in its state, wherever they leave the frame."""

import copy
import functools
import itertools
import operator
import sys
import warnings

import pytest
import torch

import minicompile

X = torch.ones(2)
WORDS = "aabbbc"
MAKES = {
    "count": lambda: itertools.count(2, 3),
    "repeat": lambda: itertools.repeat(4),
    "repeat times": lambda: itertools.repeat(4, 3),
    "cycle": lambda: itertools.cycle([1, 2, 3]),
    "cycle of nothing": lambda: itertools.cycle([]),
    "chain": lambda: itertools.chain([1, 2], [3], (), "ab"),
    "chain.from_iterable": lambda: itertools.chain.from_iterable([[1, 2], [3]]),
    "islice": lambda: itertools.islice(range(10), 1, 8, 3),
    "islice of nothing": lambda: itertools.islice(range(10), 7, 3),
    "takewhile": lambda: itertools.takewhile(lambda v: v < 2, [1, 1, 3, 1]),
    "dropwhile": lambda: itertools.dropwhile(lambda v: v < 2, [1, 1, 3, 1]),
    "filterfalse": lambda: itertools.filterfalse(None, [0, 1, 0]),
    "compress": lambda: itertools.compress("abcd", [1, 0, 1, 1]),
    "starmap": lambda: itertools.starmap(pow, [(2, 3), (3, 2)]),
    "accumulate": lambda: itertools.accumulate([1, 2, 3]),
    "accumulate initial": lambda: itertools.accumulate([1, 2, 3], max, initial=2),
    "pairwise": lambda: itertools.pairwise([1, 2, 3, 4]),
    "zip_longest": lambda: itertools.zip_longest([1, 2], "abc", [], fillvalue=9),
    "groupby": lambda: itertools.groupby(WORDS),
    "groupby key": lambda: itertools.groupby([1, 3, 2, 4, 5], lambda v: v % 2),
    "tee": lambda: itertools.tee([1, 2, 3])[0],
}
if sys.version_info >= (3, 12):
    MAKES["batched"] = lambda: itertools.batched(range(5), 2)


def rest(value):
    """What an iterator still gives, and the iterators in it."""
    if isinstance(value, (tuple, list)):
        return [rest(element) for element in value]
    if type(value).__module__ == "itertools":
        return type(value), [rest(element) for element in itertools.islice(value, 10)]
    return value


def left_by(program, *args, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return rest(minicompile.compile(program, backend="eager", **options)(X, *args)[1:])


@pytest.mark.parametrize("taken", [0, 1, 2, 5])
@pytest.mark.parametrize("kind", MAKES)
def test_an_iterator_of_itertools_leaves_the_frame_as_one(kind, taken):
    make = MAKES[kind]

    def program(x, kind):
        iterator = make()
        for _ in range(taken):
            next(iterator, None)
        return x + 1, type(iterator) is kind, isinstance(iterator, kind), hasattr(iterator, "rest"), iterator

    kind = type(make())
    expected = make()
    for _ in range(taken):
        next(expected, None)
    assert left_by(program, kind, fullgraph=True) == [True, True, False, rest(expected)]


def test_groups_and_their_iterator_stay_together():
    def program(x):
        groups = itertools.groupby(WORDS)
        old = next(groups)[1]
        key, group = next(groups)
        minicompile.graph_break()
        return x, next(group), key, old, group, groups

    assert left_by(program) == rest(program(X)[1:]) and program(X)[1] == "b"


def test_tees_share_what_they_read():
    def program(x, source):
        first, second, third = itertools.tee(source, 3)
        got = [next(first), next(first), next(second)]
        return x, got, third, copy.copy(second), first

    source = iter(range(5))
    result = minicompile.compile(program, backend="eager")(X, source)
    assert result[1] == [0, 1, 0] and next(source) == 2
    assert [list(tee) for tee in result[2:]] == [[0, 1, 3, 4], [1, 3, 4], [3, 4]]


def test_an_unused_cache_leaves_the_frame_as_one():
    def program(x):
        @functools.lru_cache(maxsize=3)
        def cached(p):
            return [p]

        cached.extra = 5
        return x + 1, cached, type(cached), callable(cached), hasattr(cached, "hits"), cached.extra

    _, cached, kind, *facts = minicompile.compile(program, backend="eager", fullgraph=True)(X)
    assert type(cached) is kind is functools._lru_cache_wrapper and facts == [True, False, 5]
    assert cached(1) is cached(1) and cached.cache_info() == (1, 1, 3, 1) and cached.extra == 5
    assert cached.__name__ == "cached" and cached.__wrapped__(2) == [2]


def test_a_cache_that_was_used_is_made_in_eager():
    def program(x):
        @functools.cache
        def cached(p):
            return [p]

        first = cached(1)
        return x + 1, cached, first

    _, cached, first = minicompile.compile(program, backend="eager")(X)
    assert cached(1) is first and cached.cache_info().misses == 1


def test_keys_that_compare_by_a_function_leave_the_frame_as_such():
    def program(x):
        key = functools.cmp_to_key(lambda a, b: b - a)
        return x + 1, sorted([1, 3, 2], key=key), key, key(4), key(4).obj, key(1) > key(2)

    _, ordered, key, four, obj, greater = minicompile.compile(program, backend="eager", fullgraph=True)(X)
    assert ordered == [3, 2, 1] and obj == 4 and greater and type(key) is type(four) is type(functools.cmp_to_key(None))
    assert four.obj == 4 and four < key(3)


def test_an_iterator_of_a_dict_that_changes_is_no_other_one():
    def program(x, d):
        iterator = iter(d)
        d["z"] = 1
        return x + 1, type(iterator), iterator

    _, kind, iterator = minicompile.compile(program, backend="eager")(X, {"a": 1})
    assert type(iterator) is kind is type(iter({}))
    with pytest.raises(RuntimeError, match="dictionary changed size during iteration"):
        next(iterator)


def test_what_an_original_has_not_its_polyfill_has_not():
    def program(x):
        counter = itertools.count()
        found = [hasattr(counter, name) for name in ("value", "__next__", "skip", "__len__")]
        return x, found, operator.length_hint(itertools.repeat(1, 4)), repr(counter), counter.__next__()

    assert left_by(program) == [[False, True, False, False], 4, "count(0)", 0]


def test_originals_look_at_their_arguments():
    def program(x):
        made = [repr(itertools.count(True)), repr(itertools.count(2, True)), repr(itertools.repeat(1, True))]
        for make in (
            lambda: itertools.count("a"),
            lambda: itertools.repeat(1, None),
            lambda: itertools.tee([], "a"),
            lambda: list(itertools.starmap(abs, [1])),
        ):
            try:
                make()
            except TypeError as error:
                made.append(str(error))
        return x, made

    whole = minicompile.compile(program, backend="eager", fullgraph=True)
    assert whole(X)[1] == program(X)[1] and len(program(X)[1]) == 7


def test_the_keywords_of_a_partial_are_one_dict():
    def program(x, existing):
        made = functools.partial(max, 1, key=abs)
        made.keywords["key"], existing.keywords["end"] = (lambda value: -value), 5
        same = made.keywords is made.keywords, existing.keywords is existing.keywords
        return x + 1, same, existing.keywords, made, made.keywords, made(2), existing()

    existing = functools.partial(dict, start=3)
    compiled = minicompile.compile(program, backend="eager", fullgraph=True)
    _, same, existing_keywords, made, keywords, smaller, both = compiled(X, existing)
    assert same == (True, True) and existing_keywords is existing.keywords and made.keywords is keywords
    assert smaller == made(2) == 1 and both == existing() == {"start": 3, "end": 5}


def test_a_derived_dict_is_copied_by_its_contents():
    class Derived(dict):
        def keys(self):
            return ["z"]

        def __missing__(self, key):
            return key

    class Iterated(Derived):
        def __iter__(self):
            return super().__iter__()

    def program(x, derived):
        return x, dict(derived), {**derived}, (lambda **named: named)(**derived), "{k}".format(**derived)

    compiled = minicompile.compile(program, backend="eager")
    assert compiled(X, Derived(k=1))[1:] == ({"k": 1}, {"k": 1}, {"k": 1}, "1")
    assert minicompile.compile(lambda x, d: ({**d}, x + 1), backend="eager")(X, Iterated(k=1))[0] == {"z": "z"}


def test_a_name_error_has_the_name():
    def program(x):
        try:
            return missing_name  # noqa: F821
        except NameError as error:
            return x + 1, error.name, str(error)

    expected = "missing_name", "name 'missing_name' is not defined"
    assert minicompile.compile(program, backend="eager", fullgraph=True)(X)[1:] == expected
