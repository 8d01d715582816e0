"""Chapter 01: plausible wrong answers fail with a message that helps; the time lines tell what the hook did."""

import pathlib
import sys
import types

import pytest
import torch

import minicompile
from minicompile import viz
from minicompile.dynamo import _eval_frame as hook

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "notebooks"))

from exercises import chapter_01  # noqa: E402
from exercises.chapter_01 import returning  # noqa: E402


# ---- 1: frames entered ----------------------------------------------------------------------------------------------
def asked_once(fn, *args):
    names = []
    hook.call(lambda code, function, arguments: bool(names.append(code.co_name)), fn, *args)
    return names


def all_that_a_profiler_sees(fn, *args):
    names = []
    sys.setprofile(lambda frame, event, arg: names.append(frame.f_code.co_name) if event == "call" else None)
    try:
        fn(*args)
    finally:
        sys.setprofile(None)
    return names


remembered = []


def never_emptied(fn, *args):
    hook.call(lambda code, function, arguments: remembered.append(code.co_name), fn, *args)
    return remembered


def left_on(fn, *args):
    names = []
    hook.set_callback(lambda code, function, arguments: names.append(code.co_name))
    fn(*args)
    hook.set_callback(None)
    return names


# ---- 2: argument slots ----------------------------------------------------------------------------------------------
def as_written(function, args, kwargs):
    return (*args, *kwargs.values())


def last_frame(function, args, kwargs):
    seen = []
    hook.call(lambda code, called, arguments: seen.append(arguments), function, *args, **kwargs)
    return seen[-1]


def in_order_of_the_signature(function, args, kwargs):
    import inspect

    bound = inspect.signature(function).bind(*args, **kwargs)
    bound.apply_defaults()
    return tuple(bound.arguments.values())


# ---- 3: constants ---------------------------------------------------------------------------------------------------
def by_equality(old, new):
    def callback(code, function, arguments):
        return code.replace(co_consts=tuple(new if c == old else c for c in code.co_consts)), None

    return callback


def same(constant, old):
    return type(constant) is type(old) and constant == old


def not_inside_tuples(old, new):
    def callback(code, function, arguments):
        consts = tuple(new if same(c, old) else c for c in code.co_consts)
        return (code.replace(co_consts=consts), None) if consts != code.co_consts else False

    return callback


def always_a_copy(old, new):
    def put(constant):
        if isinstance(constant, tuple):
            return tuple(map(put, constant))
        return new if same(constant, old) else constant

    return lambda code, function, arguments: (code.replace(co_consts=put(code.co_consts)), None)


# ---- 4: results -----------------------------------------------------------------------------------------------------
def without_a_guard(code, function, args):
    return returning(code, function(*args)), None


def guarded_by(holds):
    def remember(code, function, args):
        return returning(code, function(*args)), lambda now, *others: holds(function, args, now, others)

    return remember


by_value = guarded_by(lambda function, args, now, others: now is function and args == others)
by_type_and_value = guarded_by(
    lambda function, args, now, others: (
        now is function and args == others and list(map(type, args)) == list(map(type, others))
    )
)
by_text = guarded_by(lambda function, args, now, others: repr(args) == repr(others))
eager = lambda code, function, args: None


WRONG = [  # (check, wrong answer, what the message must speak of)
    (chapter_01.check_01_1, lambda fn, *args: None, "write its body first"),
    (chapter_01.check_01_1, asked_once, "g called twice"),
    (chapter_01.check_01_1, all_that_a_profiler_sees, "a generator is no plain function"),
    (chapter_01.check_01_1, never_emptied, "expected ['f'], got"),
    (chapter_01.check_01_1, left_on, "fn raised, and the hook stayed on"),
    (chapter_01.check_01_2, as_written, "a default that nobody passed|in another order"),
    (chapter_01.check_01_2, last_frame, "whose frame does not count"),
    (chapter_01.check_01_2, in_order_of_the_signature, "keyword-only slots come before"),
    (chapter_01.check_01_3, by_equality, "three constants"),
    (chapter_01.check_01_3, not_inside_tuples, "folds (2, 7)"),
    (chapter_01.check_01_3, always_a_copy, "answer False there"),
    (chapter_01.check_01_4, eager, "never replaced anything"),
    (chapter_01.check_01_4, without_a_guard, "another argument"),
    (chapter_01.check_01_4, by_value, "1, True and 1.0"),
    (chapter_01.check_01_4, by_type_and_value, "changed between two calls"),
    (chapter_01.check_01_4, by_text, "two closures"),
]


@pytest.mark.parametrize("check, answer, about", WRONG, ids=lambda v: getattr(v, "__name__", None))
def test_a_wrong_answer_fails_and_hears_why(check, answer, about):
    remembered.clear()
    verdict = check(answer)
    assert not verdict.passed
    assert any(part in verdict.message for part in about.split("|")), verdict.message
    assert hook.set_callback(None) is None


def test_returning_keeps_the_signature_and_the_cells():
    n = 3

    def f(a, *rest, k=1, **more):
        return n, (lambda: a)

    code = returning(f.__code__, "known")
    again = types.FunctionType(code, {}, "f", f.__defaults__, f.__closure__)
    again.__kwdefaults__ = f.__kwdefaults__
    assert again(1, 2, k=3, z=4) == "known"


# ---- the picture ----------------------------------------------------------------------------------------------------
def test_time_lines_tell_what_the_hook_did():
    def add_one(x):
        return x + 1

    minicompile.reset()
    single, double = torch.ones(2), torch.ones(2, dtype=torch.float64)
    timeline = viz.record_calls(add_one, (single,), (single,), (double,), (single,), (single,))
    assert timeline.story.split("\n") == [
        "1. compile add_one, graph of 1 operations",
        "2. guard add_one: holds, graph of 1 operations",
        "3. guard add_one: fails, compile add_one, graph of 1 operations",
        "4. guard add_one: fails, guard add_one: holds, graph of 1 operations",
        "5. guard add_one: holds, graph of 1 operations",
    ]
    for call, inside in timeline.calls:
        assert call.start <= inside[0].start and inside[-1].stop <= call.stop
    picture = viz.draw_calls(timeline)
    assert "float64 [2]" in picture.svg and picture.text == repr(timeline)


def test_time_lines_show_frames_that_are_left_alone():
    def double(x):
        return x * 2

    def looks_at_its_frame(x):
        assert sys._getframe().f_code.co_name == "looks_at_its_frame"
        return double(x)

    minicompile.reset()
    story = viz.record_calls(looks_at_its_frame, (torch.ones(1, 2),)).story
    assert "left alone looks_at_its_frame, compile double, graph of" in story


def test_a_c_function_is_shown_whole():
    code = viz.show_c("eval_hook").code
    assert code.split("\n")[1].startswith("eval_hook(") and code.endswith("}") and code.count("\n}") == 1
