"""Conditions on sizes and numbers are computed in C++ and say what Python says, of huge numbers too."""

import itertools
import math

import pytest
import torch

from minicompile.dynamo.guard_checks import ambient_state
from minicompile.dynamo.guard_conditions import condition_program
from minicompile.dynamo.guards import GuardSet, ShapeGuard
from minicompile.dynamo.source import LocalSource, SizeSource

A, B = LocalSource("a"), LocalSource("b")
CODE = (lambda a, b: None).__code__
WHOLE = [
    "{0} > 1",
    "{0} == {1}",
    "{0} != 2*{1} - 3",
    "{0}*{1} <= 100",
    "{0} // {1} == -2",
    "({0} % {1}) < 2",
    "{0}*{0}*{1} >= {0} + {1}",
    "-{0} < {1} and {0} > 3",
    "not ({0} > {1})",
    "{0} > 5 or {1} > 5",
    "max({0}, {1}, 4) == 4",
    "min({0}, {1}) < 0",
    "abs({0}) == {1}",
    "{0} + 1 == 9007199254740993",
]
INTS = [0, 1, -1, 2, 3, -7, 40, 5, 1 << 40, 1 << 53, (1 << 53) - 1, -(1 << 62), (1 << 63) - 1, -(1 << 63), 1 << 64]
REAL = [
    "{0} > 0.25",
    "{0} == {1}",
    "abs({0}) <= 3.4e38",
    "{0}*2 - {1} >= 1",
    "{0}/{1} < 0.3",
    "0.1*{0} + 0.2 == {1}",
    "-{0} != {1}",
]
FLOATS = [0.0, -0.0, 1.0, 0.25, 0.1, 0.3, 0.1 + 0.2, -2.5, 1e300, math.inf, -math.inf, math.nan, 3, True, 1 << 70]


def answer_of_python(text, a, b):
    try:
        return bool(eval(text.format("a", "b"), {"a": a, "b": b}))
    except ArithmeticError:
        return False


def check_of(text, sources=(A, B), real=False):
    guards = GuardSet(ambient_state())
    guards.add_shape(guard := ShapeGuard(text, sources if "{1}" in text else sources[:1], "", real))
    assert condition_program(guard) is not None, "left to Python"
    check = guards.build(CODE).check
    return lambda a, b: check(None, a, b)


@pytest.mark.parametrize("text, values, real", [(t, INTS, False) for t in WHOLE] + [(t, FLOATS, True) for t in REAL])
def test_a_condition_says_what_python_says(text, values, real):
    check = check_of(text, real=real)
    answers = [(a, b, answer_of_python(text, a, b)) for a, b in itertools.product(values, values)]
    assert {answer for _, _, answer in answers} == {True, False}, "these values tell nothing"
    for a, b, answer in answers:
        assert check(a, b) is answer, (a, b)


def test_numbers_of_tensors():
    size, stride, offset = SizeSource(A, "shape", 1), SizeSource(A, "stride", 0), SizeSource(B, "storage_offset")
    check = check_of("{0} == {1}", (stride, size))
    x = torch.ones(6, 4)
    assert check(x, x) is True and check(x.t(), x) is False and check(x[:, :2], x) is False
    for other in (x[0], 5, None, object(), torch.ones(())):
        assert check(other, x) is False
    check = check_of("{1} == 2 + {0}*{0}", (size, offset))
    assert check(x, x.view(-1)[18:]) is True and check(x, x.view(-1)[17:]) is False
    wide = torch.ones(1).expand(1 << 40, 1)  # the square of its size is no number of C
    size = SizeSource(A, "shape", 0)
    assert check_of("{0}*{0} > 5", (size,))(wide, x) is True and check_of("{0}*{0} == 0", (size,))(wide, x) is False


@pytest.mark.parametrize("text", ["{0} ** 2 == {1}", "math.ceil({0}) > 1", "1 < {0} < 5", "{0} / 2 > {1}", "{0} & 1"])
def test_what_c_does_not_compute_is_left_to_python(text):
    guard = ShapeGuard(text, (A, B) if "{1}" in text else (A,))
    assert condition_program(guard) is None
    guards = GuardSet(ambient_state())
    guards.add_shape(guard)
    check = guards.build(CODE).check
    for a, b in itertools.product([1, 2, 3, 4, 9], [1, 2, 3, 4, 9]):
        assert check(None, a, b) is bool(eval(text.format("a", "b"), {"a": a, "b": b, "math": math}))
