"""Chapter 03: plausible wrong answers to its exercises fail, with a message that helps."""

import pathlib
import sys

import pytest
import torch
from torch import fx

import minicompile

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "notebooks"))

from exercises import chapter_03  # noqa: E402


def always_records(graph, function, left, right):
    return graph.call_function(function, (left, right))


def asks_the_left_one(graph, function, left, right):
    return graph.call_function(function, (left, right)) if isinstance(left, fx.Node) else function(left, right)


def folds_numbers_only(graph, function, left, right):
    if isinstance(left, (int, float)) and isinstance(right, (int, float)):
        return function(left, right)
    return graph.call_function(function, (left, right))


def hides_errors(graph, function, left, right):
    if isinstance(left, fx.Node) or isinstance(right, fx.Node):
        return graph.call_function(function, (left, right))
    try:
        return function(left, right)
    except ZeroDivisionError:
        return graph.call_function(function, (left, right))


def simplifies(graph, function, left, right):
    return 0 if left is right else hides_errors(graph, function, left, right)


def swaps(graph, function, left, right):
    if isinstance(right, fx.Node):
        left, right = right, left
    return hides_errors(graph, function, left, right)


CONDITIONS = {
    "POP_JUMP_IF_TRUE": lambda top: top,
    "POP_JUMP_IF_FALSE": lambda top: not top,
    "POP_JUMP_IF_NONE": lambda top: top is None,
    "POP_JUMP_IF_NOT_NONE": lambda top: top is not None,
}


def never_refuses(instruction, index_of, position, stack):
    condition = CONDITIONS.get(instruction.opname, lambda top: True)
    if instruction.opname == "JUMP" or (instruction.opname in CONDITIONS and condition(stack.pop())):
        return index_of[id(instruction.argval)]
    return position + 1


def forgets_to_pop(instruction, index_of, position, stack):
    condition = CONDITIONS.get(instruction.opname, lambda top: instruction.opname == "JUMP")
    return index_of[id(instruction.argval)] if condition(stack[-1]) else position + 1


def compares_with_true(instruction, index_of, position, stack):
    if instruction.opname == "POP_JUMP_IF_FALSE":
        return index_of[id(instruction.argval)] if stack.pop() is False else position + 1
    return never_refuses(instruction, index_of, position, stack)


def refuses_every_question(instruction, index_of, position, stack):
    if instruction.opname in CONDITIONS and isinstance(stack[-1], fx.Node):
        raise NotImplementedError
    return never_refuses(instruction, index_of, position, stack)


def pops_for_jump_too(instruction, index_of, position, stack):
    if instruction.is_jump:
        top = stack.pop()
        jumps = CONDITIONS.get(instruction.opname, lambda top: True)(top)
        return index_of[id(instruction.argval)] if jumps else position + 1
    return position + 1


def positional_only(fn, args, kwargs):
    return {**dict(zip(fn.__code__.co_varnames, args)), **kwargs}


def ignores_keyword_defaults(fn, args, kwargs):
    import inspect

    bound = inspect.signature(fn).bind(*args, **kwargs)
    return dict(bound.arguments)


def by_hand(fn, args, kwargs):
    code = fn.__code__
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    positional = names[: code.co_argcount]
    found = dict(zip(positional[len(positional) - len(fn.__defaults__ or ()) :], fn.__defaults__ or ()))
    found.update(fn.__kwdefaults__ or {})
    found.update(zip(positional, args))
    found.update({name: value for name, value in kwargs.items() if name in names})
    if code.co_flags & 4:
        found["rest"] = tuple(args[len(positional) :])
    if code.co_flags & 8:
        found["options"] = {name: value for name, value in kwargs.items() if name not in names}
    if not all(name in found for name in names):
        raise TypeError("an argument is missing")
    return found


def calls_it(fn, args, kwargs):
    fn(*args, **kwargs)
    return {}


def copies(fn, args, kwargs):
    import copy
    import inspect

    bound = inspect.signature(fn).bind(*(copy.copy(a) if isinstance(a, list) else a for a in args), **kwargs)
    bound.apply_defaults()
    return dict(bound.arguments)


def all_arguments(fn, *args):
    return set(fn.__code__.co_varnames[: fn.__code__.co_argcount])


def mentioned(fn, *args):
    names = set(fn.__code__.co_varnames[: fn.__code__.co_argcount])
    return {step.text.split()[-1] for step in minicompile.step(fn, *args) if step.opname == "LOAD_FAST"} & names


def not_lazy_at_the_end(fn, *args):
    names = fn.__code__.co_varnames[: fn.__code__.co_argcount]
    last = minicompile.step(fn, *args)[-1].locals
    return {name for name in names if last[name][0] != "lazy"}


def tensors_only(fn, *args):
    return {name for name, value in zip(fn.__code__.co_varnames, args) if isinstance(value, torch.Tensor)}


WRONG = [  # (check, wrong answer, what the message must speak of)
    (chapter_03.check_03_1, always_records, "2 + 3, both known"),
    (chapter_03.check_03_1, asks_the_left_one, "'int' and 'Node'"),
    (chapter_03.check_03_1, folds_numbers_only, "text is a Python value too"),
    (chapter_03.check_03_1, hides_errors, "1 // 0"),
    (chapter_03.check_03_1, simplifies, "do not simplify"),
    (chapter_03.check_03_1, swaps, "the node must be sub"),
    (chapter_03.check_03_2, never_refuses, "nobody knows its truth"),
    (chapter_03.check_03_2, forgets_to_pop, "the stack should be"),
    (chapter_03.check_03_2, compares_with_true, "0 is false"),
    (chapter_03.check_03_2, refuses_every_question, "a tensor is not None"),
    (chapter_03.check_03_2, pops_for_jump_too, "pops nothing"),
    (chapter_03.check_03_3, positional_only, "defaults count"),
    (chapter_03.check_03_3, ignores_keyword_defaults, "defaults count"),
    (chapter_03.check_03_3, by_hand, "passes b twice"),
    (chapter_03.check_03_3, calls_it, "do not call the function"),
    (chapter_03.check_03_3, copies, "never copied"),
    (chapter_03.check_03_4, all_arguments, "never mentions"),
    (chapter_03.check_03_4, mentioned, "ignores it"),
    (chapter_03.check_03_4, not_lazy_at_the_end, "overwritten"),
    (chapter_03.check_03_4, tensors_only, "x * n"),
]


@pytest.mark.parametrize("check, answer, about", WRONG, ids=lambda v: getattr(v, "__name__", None))
def test_a_wrong_answer_fails_and_hears_why(check, answer, about):
    verdict = check(answer)
    assert not verdict.passed
    assert about in verdict.message, verdict.message


def by_the_film(fn, *args):
    """The other way to answer exercise 4: an argument was looked at if it ever was no longer lazy, and still itself."""
    names = fn.__code__.co_varnames[: fn.__code__.co_argcount]
    seen, current = set(), set(names)
    for step in minicompile.step(fn, *args):
        if step.depth == 0 and step.opname == "STORE_FAST":
            current.discard(step.text.split()[-1])
        if step.shown is fn.__code__:
            seen |= {name for name in current if step.locals[name][0] != "lazy"}
    return seen


def test_both_ways_to_answer_the_last_exercise_are_right():
    verdict = chapter_03.check_03_4(by_the_film)
    assert verdict.passed, verdict
