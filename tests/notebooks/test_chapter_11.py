"""Chapter 11's exercises: plausible wrong answers fail, with a message that helps."""

import pathlib
import struct
import sys

import pytest
import torch

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "notebooks"))

from exercises import chapter_11  # noqa: E402


# ---- 1: literals -------------------------------------------------------------------------------------------
def as_python_writes_it(value):
    return repr(value)


def six_digits(value):
    return f"{value:.6f}f"


def without_infinity(value):
    return f"({value!r}f)"


def special(value):
    value = torch.tensor(value, dtype=torch.float32).item()
    if value != value:
        return "std::numeric_limits<float>::quiet_NaN()"
    if value in (float("inf"), -float("inf")):
        return f"{'-' if value < 0 else ''}std::numeric_limits<float>::infinity()"
    return value


def without_brackets(value):
    found = special(value)
    return found if isinstance(found, str) else f"{found!r}f"


def loses_minus_zero(value):
    found = special(value)
    return f"({found})" if isinstance(found, str) else f"({found or 0.0!r}f)"


def by_its_bits(value):
    return f"{struct.unpack('<I', struct.pack('<f', value))[0]}u"


# ---- 2: shares ---------------------------------------------------------------------------------------------
def in_steps(n, parts, block):
    bounds = [n * k // parts for k in range(parts + 1)]
    return list(zip(bounds, bounds[1:]))


def rest_to_the_last(n, parts, block):
    each = n // block // parts * block
    return [(k * each, (k + 1) * each if k < parts - 1 else n) for k in range(parts)]


def round_up(n, parts, block):
    each = -(-n // (parts * block)) * block
    return [(min(n, k * each), min(n, (k + 1) * each)) for k in range(parts)]


def with_fractions(n, parts, block):
    return [(n * k / parts, n * (k + 1) / parts) for k in range(parts)]


def full_blocks_only(n, parts, block):
    blocks = n // block
    bounds = [blocks * k // parts * block for k in range(parts + 1)]
    return list(zip(bounds, bounds[1:]))


def none_for_the_idle(n, parts, block):
    blocks = -(-n // block)
    bounds = [min(n, blocks * k // parts * block) for k in range(parts + 1)]
    return [(low, high) for low, high in zip(bounds, bounds[1:]) if low < high]


# ---- 4: each value once ------------------------------------------------------------------------------------
def every_time(expression):
    lines = []

    def name_of(e):
        if isinstance(e, str):
            return e
        key = (e[0], *map(name_of, e[1:]))
        lines.append((f"t{len(lines) + 1}", key))
        return lines[-1][0]

    name_of(expression)
    return lines


def by_object(expression):
    lines, seen = [], {}

    def name_of(e):
        if isinstance(e, str):
            return e
        if id(e) not in seen:
            key = (e[0], *map(name_of, e[1:]))
            lines.append((f"t{len(lines) + 1}", key))
            seen[id(e)] = lines[-1][0]
        return seen[id(e)]

    name_of(expression)
    return lines


def in_any_order(expression):
    lines, known = [], {}

    def name_of(e):
        if isinstance(e, str):
            return e
        key = (e[0], *sorted(map(name_of, e[1:])))
        if key not in known:
            known[key] = f"t{len(lines) + 1}"
            lines.append((known[key], key))
        return known[key]

    name_of(expression)
    return lines


def users_first(expression):
    return [(f"t{k}", right) for k, (_, right) in enumerate(reversed(by_object(expression)), 1)]


def nested(expression):
    return [("t1", expression)] if isinstance(expression, tuple) else []


def names_too(expression):
    return [("t1", ("copy", "x")), *by_object(expression)] if expression == "x" else by_object(expression)


WRONG = [  # (check, wrong answer, what the message must speak of)
    (chapter_11.check_11_1, as_python_writes_it, "is no float in C++"),
    (chapter_11.check_11_1, six_digits, "0.1 should be|-- is another operator"),
    (chapter_11.check_11_1, without_infinity, "the compiler says"),
    (chapter_11.check_11_1, without_brackets, "-- is another operator"),
    (chapter_11.check_11_1, loses_minus_zero, "minus zero"),
    (chapter_11.check_11_1, by_its_bits, "is no float in C++"),
    (chapter_11.check_11_2, in_steps, "a block is cut in two"),
    (chapter_11.check_11_2, rest_to_the_last, "one thread has"),
    (chapter_11.check_11_2, round_up, "one thread has"),
    (chapter_11.check_11_2, with_fractions, "whole numbers"),
    (chapter_11.check_11_2, full_blocks_only, "the last step is"),
    (chapter_11.check_11_2, none_for_the_idle, "expected 4 pairs"),
    (chapter_11.check_11_3, lambda: "a > b ? a : b", "the first is NaN"),
    (chapter_11.check_11_3, lambda: "a < b ? b : a", "the second is NaN"),
    (chapter_11.check_11_3, lambda: "fmaxf(a, b)", "is a call of a function"),
    (chapter_11.check_11_3, lambda: "(a > b || b != b) ? a : b", "NaN"),
    (chapter_11.check_11_3, lambda: "a != a ? a : b != b ? b : a < b ? a : b", "the second is larger"),
    (chapter_11.check_11_3, lambda: "a > b ? a", "the compiler says"),
    (chapter_11.check_11_3, lambda: "(int)(a > b ? a : b)", "NaN|larger"),
    (chapter_11.check_11_4, every_time, "a sum that is used twice"),
    (chapter_11.check_11_4, by_object, "not the same object"),
    (chapter_11.check_11_4, in_any_order, "both stay"),
    (chapter_11.check_11_4, users_first, "used before it is computed"),
    (chapter_11.check_11_4, nested, "two operations"),
    (chapter_11.check_11_4, names_too, "not the same object|mere name"),
]


@pytest.mark.parametrize("check, answer, about", WRONG, ids=lambda v: getattr(v, "__name__", None))
def test_a_wrong_answer_fails_and_hears_why(check, answer, about):
    verdict = check(answer)
    assert not verdict.passed
    assert any(part in verdict.message for part in about.split("|")), verdict.message
