"""Chapter 04: plausible wrong answers to its exercises fail, with a message that helps."""

import pathlib
import sys

import pytest
import torch

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "notebooks"))

from exercises import chapter_04  # noqa: E402


# ---- 1: the same constant --------------------------------------------------------------------------------
def equal(value, expected):
    return value == expected


def identical(value, expected):
    return value is expected


def type_and_equal(value, expected):
    return type(value) is type(expected) and value == expected


def same_text(value, expected):
    return repr(value) == repr(expected)


def type_and_text(value, expected):
    return type(value) is type(expected) and repr(value) == repr(expected)


def not_in_tuples(value, expected):
    if type(value) is not type(expected):
        return False
    return repr(value) == repr(expected) if isinstance(value, float) else value == expected


# ---- 2: reading paths once --------------------------------------------------------------------------------
def every_step(paths):
    return [path[:k] for path in paths for k in range(2, len(path) + 1)]


def by_equality(paths):
    return list(dict.fromkeys(every_step(paths)))


def whole_paths(paths):
    return [path for path in paths if len(path) > 1]


def roots_too(paths):
    found = {}
    for path in paths:
        for k in range(1, len(path) + 1):
            found.setdefault(chapter_04.spelled(path[:k]), path[:k])
    return list(found.values())


def longest_first(paths):
    found = {chapter_04.spelled(part): part for part in every_step(paths)}
    return sorted(found.values(), key=len, reverse=True)


# ---- 3: what to ask first ----------------------------------------------------------------------------------
def cheapest(checks):
    return [name for name, cost, chance in sorted(checks, key=lambda check: check[1])]


def likeliest(checks):
    return [name for name, cost, chance in sorted(checks, key=lambda check: -check[2])]


def likeliest_then_cheapest(checks):
    return [name for name, cost, chance in sorted(checks, key=lambda check: (-check[2], check[1]))]


def divides(checks):
    return [name for name, cost, chance in sorted(checks, key=lambda check: check[1] / check[2])]


def drops_the_sure(checks):
    return divides([check for check in checks if check[2]])


# ---- 4: a module that need not recompile ---------------------------------------------------------------------
class CountsEverything(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("steps", torch.zeros(()))

    def forward(self, x):
        self.steps += 1
        return x * (1 - 0.5**self.steps)


class InAList(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.steps = [0]

    def forward(self, x):
        if self.training:
            self.steps[0] += 1
        return x * (1 - 0.5 ** self.steps[0])


class ReadsTheTensor(CountsEverything):
    def forward(self, x):
        if self.training:
            self.steps += 1
        return x * (1 - 0.5 ** self.steps.item())


class WithADimension(CountsEverything):
    def __init__(self):
        super().__init__()
        self.steps = torch.zeros(1)

    def forward(self, x):
        if self.training:
            self.steps += 1
        return x * (1 - 0.5**self.steps)


class Shares(torch.nn.Module):
    steps = torch.zeros(())

    def forward(self, x):
        if self.training:
            self.steps += 1
        return x * (1 - 0.5**self.steps)


WRONG = [  # (check, wrong answer, what the message must speak of)
    (chapter_04.check_04_1, equal, "True is equal to 1"),
    (chapter_04.check_04_1, identical, "need not be one object"),
    (chapter_04.check_04_1, type_and_equal, "0.0 and -0.0"),
    (chapter_04.check_04_1, same_text, "a subclass may compute differently"),
    (chapter_04.check_04_1, type_and_text, "a subclass inside a tuple"),
    (chapter_04.check_04_1, not_in_tuples, "inside a tuple"),
    (chapter_04.check_04_2, every_step, "is read twice"),
    (chapter_04.check_04_2, by_equality, "is missing from"),
    (chapter_04.check_04_2, whole_paths, "before the value that it is read from"),
    (chapter_04.check_04_2, roots_too, "nobody needs ('x',)"),
    (chapter_04.check_04_2, longest_first, "before the value that it is read from"),
    (chapter_04.check_04_3, cheapest, "fails more often first"),
    (chapter_04.check_04_3, likeliest, "the cheap one first"),
    (chapter_04.check_04_3, likeliest_then_cheapest, "costs a ninth"),
    (chapter_04.check_04_3, divides, "ZeroDivisionError"),
    (chapter_04.check_04_3, drops_the_sure, "are not all the names"),
    (chapter_04.check_04_4, CountsEverything, "everything is still missing"),
    (chapter_04.check_04_4, InAList, "graphs; the second because of self.steps[0] == "),
    (chapter_04.check_04_4, ReadsTheTensor, "the graph breaks: tensor read as a number"),
    (chapter_04.check_04_4, WithADimension, "unusual inputs"),
    (chapter_04.check_04_4, Shares, "everything is still missing|count by themselves|should give"),
    (chapter_04.check_04_4, chapter_04.Annealed, "graphs; the second because of self.steps == "),
]


@pytest.mark.parametrize("check, answer, about", WRONG, ids=lambda v: getattr(v, "__name__", None))
def test_a_wrong_answer_fails_and_hears_why(check, answer, about):
    verdict = check(answer)
    assert not verdict.passed
    assert any(part in verdict.message for part in about.split("|")), verdict.message
