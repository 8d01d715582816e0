"""Chapter 07: wrong answers to its exercises fail, with a message that helps; its counts are the package's."""

import itertools
import pathlib
import sys

import pytest
import torch

import minicompile
from minicompile.testing import CompileCounter

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "notebooks"))

from exercises import chapter_07  # noqa: E402


# ---- 1: counting graphs ------------------------------------------------------------------------------------
def one_each(sizes):
    return len(set(sizes))


def two_at_most(sizes):
    return min(2, len(set(sizes)))


def zero_and_one_together(sizes):
    return min(2, len({n for n in sizes if n > 1})) + any(n < 2 for n in sizes)


def small_ones_apart(sizes):
    """Forgets that a size of 0 or 1 is a first size too."""
    return min(2, len({n for n in sizes if n > 1})) + len({n for n in sizes if n < 2})


@pytest.mark.parametrize("sizes, wanted, about", chapter_07.SIZES, ids=str)
def test_the_package_makes_as_many_graphs(sizes, wanted, about):
    counter = CompileCounter()
    minicompile.reset()
    compiled = minicompile.compile(lambda x: x * 2 + 1, backend=counter)
    for n in sizes:
        assert torch.equal(compiled(torch.ones(n)), torch.full((n,), 3.0))
    assert counter.graphs == wanted


# ---- 2: broadcasting ---------------------------------------------------------------------------------------
def sizes_from_the_right(a, b):
    return itertools.zip_longest(reversed(a), reversed(b), fillvalue=1)


def asks_for_one(a, b):
    result = []
    for x, y in sizes_from_the_right(a, b):
        if x == 1:
            result.append(y)
        elif y == 1 or x == y:
            result.append(x)
        else:
            raise ValueError
    return tuple(result[::-1])


def asks_of_itself(a, b):
    result = []
    for x, y in sizes_from_the_right(a, b):
        if type(y) is int and y == 1:
            result.append(x)
        elif type(x) is int and x == 1:
            result.append(y)
        elif x == y:
            result.append(x)
        else:
            raise ValueError
    return tuple(result[::-1])


def keeps_the_open_one(a, b):
    result = []
    for x, y in sizes_from_the_right(a, b):
        if x is y or (type(y) is int and y == 1):
            result.append(x)
        elif type(x) is int and x == 1:
            result.append(y)
        elif x == y:
            result.append(y if type(x) is int else x)
        else:
            raise ValueError
    return tuple(result[::-1])


def compares_numbers(a, b):
    """Looks into the Size, so that nobody learns that it was compared."""
    number = lambda size: getattr(size, "number", size)
    result = []
    for x, y in sizes_from_the_right(a, b):
        if number(x) != number(y) and 1 not in (number(x), number(y)):
            raise ValueError
        result.append(y if number(x) == 1 or type(y) is int and y != 1 else x)
    return tuple(result[::-1])


def from_the_left(a, b):
    return tuple(y if type(x) is int and x == 1 else x for x, y in itertools.zip_longest(a, b, fillvalue=1))


def takes_the_larger(a, b):
    result = []
    for x, y in sizes_from_the_right(a, b):
        if type(x) is int and type(y) is int:
            if x != y and 1 not in (x, y):
                raise ValueError
            result.append(max(x, y))
        else:
            result.append(x)
    return tuple(result[::-1])


# ---- 3: strides --------------------------------------------------------------------------------------------
def always_text(shape):
    return ["*".join(map(str, shape[k + 1 :])) or "1" for k in range(len(shape))]


def with_its_own(shape):
    return ["*".join(map(str, shape[k:])) for k in range(len(shape))]


def product(sizes, empty=0):
    number, names = 1, []
    for size in sizes:
        if isinstance(size, str):
            names.append(size)
        else:
            number *= size or empty
    return "*".join([str(number), *names]) if names else number


def zero_is_zero(shape):
    return [product(shape[k + 1 :]) for k in range(len(shape))]


def backwards(shape):
    return [product(shape[k + 1 :], 1) for k in range(len(shape))][::-1]


def names_once(shape):
    return [product(dict.fromkeys(s for s in shape[k + 1 :]), 1) for k in range(len(shape))]


# ---- 4: a loop over a size -----------------------------------------------------------------------------------
def matrices_only(x):
    return (x / torch.arange(1, x.shape[0] + 1)[:, None]).sum(0)


def from_zero(x):
    return (x / torch.arange(x.shape[0]).reshape(-1, *[1] * (x.dim() - 1))).sum(0)


def through_a_product(x):
    return torch.tensordot(1 / torch.arange(1, x.shape[0] + 1), x, dims=1)


def unbinds(x):
    rows = [row / (k + 1) for k, row in enumerate(x.unbind(0))]
    return sum(rows, torch.zeros(x.shape[1:]))


WRONG = [  # (check, wrong answer, what the message must speak of)
    (chapter_07.check_07_1, one_each, "five sizes"),
    (chapter_07.check_07_1, two_at_most, "1 is never symbolic"),
    (chapter_07.check_07_1, zero_and_one_together, "0 and 1 are static, each by itself"),
    (chapter_07.check_07_1, small_ones_apart, "1 comes first"),
    (chapter_07.check_07_2, asks_for_one, "a guard that nobody needs"),
    (chapter_07.check_07_2, asks_of_itself, "you asked t == t"),
    (chapter_07.check_07_2, keeps_the_open_one, "now it is known"),
    (chapter_07.check_07_2, compares_numbers, "nobody asked s == u"),
    (chapter_07.check_07_2, from_the_left, "two ints"),
    (chapter_07.check_07_2, takes_the_larger, "0 and 1"),
    (chapter_07.check_07_3, always_text, "it must be an int"),
    (chapter_07.check_07_3, with_its_own, "ints only"),
    (chapter_07.check_07_3, zero_is_zero, "a size of 0 counts as 1"),
    (chapter_07.check_07_3, backwards, "ints only"),
    (chapter_07.check_07_3, names_once, "the same size twice behind"),
    (chapter_07.check_07_4, matrices_only, "a vector"),
    (chapter_07.check_07_4, from_zero, "three rows"),
    (chapter_07.check_07_4, through_a_product, "should have same dtype"),
    (chapter_07.check_07_4, unbinds, "graphs; the last because of x.shape[0] == "),
    (chapter_07.check_07_4, chapter_07.falling, "graphs; the last because of x.shape[0] == "),
]


@pytest.mark.parametrize("check, answer, about", WRONG, ids=lambda v: getattr(v, "__name__", None))
def test_a_wrong_answer_fails_and_hears_why(check, answer, about):
    verdict = check(answer)
    assert not verdict.passed
    assert any(part in verdict.message for part in about.split("|")), verdict.message
