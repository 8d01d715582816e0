"""Chapter 05: wrong answers fail with a message that helps; the cards of the gallery are what was reported."""

import pathlib
import sys

import pytest
import torch

import minicompile

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "notebooks"))

import break_gallery  # noqa: E402
from exercises import chapter_05  # noqa: E402
from exercises.chapter_05 import Next  # noqa: E402


# ---- 1: what a resume function needs ---------------------------------------------------------------------
def every_load(program, place):
    return {name for what, name, *_ in (row + ("",) for row in program[place:]) if what == "load"}


def straight_on(program, place):
    found, stored = set(), set()
    for what, *rest in program[place:]:
        if what == "return":
            break
        if what == "load" and rest[0] not in stored:
            found.add(rest[0])
        if what == "store":
            stored.add(rest[0])
    return found


def one_visit_each(program, place):
    """Follows jumps, but believes that a place it has seen once has nothing more to say."""
    found, seen, todo = set(), set(), [(place, frozenset())]
    while todo:
        at, stored = todo.pop()
        if at in seen:
            continue
        seen.add(at)
        what, *rest = program[at]
        if what == "load" and rest[0] not in stored:
            found.add(rest[0])
        stored = stored | {rest[0]} if what == "store" else stored
        if what not in ("jump", "return"):
            todo.append((at + 1, stored))
        if what in ("jump", "branch"):
            todo.insert(0, (rest[0], stored))
    return found


# ---- 2: the trampoline -------------------------------------------------------------------------------------
def recursive(function, *arguments):
    result = function(*arguments)
    return recursive(result.function, *result.arguments) if isinstance(result, Next) else result


def once(function, *arguments):
    result = function(*arguments)
    return result.function(*result.arguments) if isinstance(result, Next) else result


def by_truth(function, *arguments):
    result = function(*arguments)
    while result and not isinstance(result, int):
        result = result.function(*result.arguments)
    return result


def swallows(function, *arguments):
    try:
        result = function(*arguments)
        while isinstance(result, Next):
            result = result.function(*result.arguments)
        return result
    except Exception:
        return None


# ---- 3: reading a report -----------------------------------------------------------------------------------
def of_the_root(fn, *args):
    breaks = minicompile.capture(fn, *args).breaks
    return (breaks[0].kind, breaks[0].places[-1].lines()[1].strip()) if breaks else None


def expects_one(fn, *args):
    error = minicompile.capture(fn, *args).breaks[0]
    return error.kind, error.places[0].lines()[1].strip()


def with_its_indentation(fn, *args):
    breaks = minicompile.capture(fn, *args).breaks
    return (breaks[0].kind, breaks[0].places[0].lines()[1]) if breaks else None


# ---- 4: mending --------------------------------------------------------------------------------------------
def adds_nan(x):
    y = x - x.mean()
    y = torch.where(y.abs().sum() > 1, y / 2, y)
    return y, torch.relu(y).sum()


def always_halves(x):
    y = (x - x.mean()) / 2
    return y, torch.where(y > 0, y, 0).sum()


def one_break_left(x):
    y = x - x.mean()
    y = torch.where(y.abs().sum() > 1, y / 2, y)
    return y, y[y > 0].sum()


WRONG = [  # (check, wrong answer, what the message must speak of)
    (chapter_05.check_05_1, every_load, "stored before it is loaded"),
    (chapter_05.check_05_1, straight_on, "goes on at its target"),
    (chapter_05.check_05_1, one_visit_each, "one of the two ways"),
    (chapter_05.check_05_2, recursive, "overflow the stack"),
    (chapter_05.check_05_2, once, "several breaks"),
    (chapter_05.check_05_2, by_truth, "that is the result|has no attribute"),
    (chapter_05.check_05_2, swallows, "must reach the caller"),
    (chapter_05.check_05_3, of_the_root, "the break is in `inner`"),
    (chapter_05.check_05_3, expects_one, "IndexError"),
    (chapter_05.check_05_3, with_its_indentation, "no break at all|a function that prints"),
    (chapter_05.check_05_4, adds_nan, "nan is not positive"),
    (chapter_05.check_05_4, always_halves, "is not halved"),
    (chapter_05.check_05_4, one_break_left, "it still breaks: data-dependent operator"),
    (chapter_05.check_05_4, chapter_05.troubled, "it still breaks: tensor read as a number"),
]


@pytest.mark.parametrize("check, answer, about", WRONG, ids=lambda v: getattr(v, "__name__", None))
def test_a_wrong_answer_fails_and_hears_why(check, answer, about):
    verdict = check(answer)
    assert not verdict.passed
    assert any(part in verdict.message for part in about.split("|")), verdict.message


# ---- the gallery -------------------------------------------------------------------------------------------
def test_cards_show_the_function_its_report_and_its_mend():
    cards = break_gallery.show(break_gallery.data).cards
    assert [card.kind.name for card in cards][:2] == ["data-dependent branch", "tensor read as a number"]
    for card in cards:
        assert card.row.source.startswith("def ") and card.mend.startswith("def ")
        assert card.report.startswith(f"{card.kind.name}: ") and "  at: break_gallery/data.py:" in card.report
        html = card._repr_html_()
        assert card.kind.name in html and "<script" not in html


def test_every_example_is_in_one_of_the_groups():
    modules = (getattr(break_gallery, name) for name in "data tensors calls classes frames".split())
    shown = [card.kind.name for module in modules for card in break_gallery.show(module).cards]
    assert sorted(shown) == sorted(break_gallery.EXAMPLES)
