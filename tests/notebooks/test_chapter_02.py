"""Chapter 02: plausible wrong answers fail with a message that helps; the control-flow graph is right."""

import collections
import dis
import pathlib
import sys

import pytest

from minicompile import viz
from minicompile.dynamo.bytecode import CallArguments, Instruction, assemble, decode
from minicompile.dynamo.bytecode_analysis import stack_effect, successors
from minicompile.viz.control_flow import basic_blocks, edges

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "notebooks"))

from exercises import chapter_02  # noqa: E402


# ---- 1: operators ---------------------------------------------------------------------------------------------------
def by_text(code):
    return collections.Counter(i.argrepr for i in dis.get_instructions(code) if i.opname == "BINARY_OP")


def only_this_code(code):
    return collections.Counter(i.argval.rstrip("=") for i in decode(code) if i.opname == "BINARY_OP")


def one_level(code):
    inner = [c for c in code.co_consts if hasattr(c, "co_code")]
    return sum(map(only_this_code, inner), only_this_code(code))


# ---- 2: depth -------------------------------------------------------------------------------------------------------
def added_up(instructions):
    depth = deepest = 0
    for instruction in instructions:
        deepest = max(deepest, depth)
        depth += stack_effect(instruction)
    return deepest


def walked(instructions, handlers=True, lasti=True):
    index = {id(i): k for k, i in enumerate(instructions)}
    depths, todo = {}, [(0, 0)]
    while todo:
        k, depth = todo.pop()
        if k in depths:
            continue
        depths[k] = depth
        following = instructions[k + 1] if k + 1 < len(instructions) else None
        todo += [(index[id(t)], depth + effect) for t, effect in successors(instructions[k], following)]
        handler = instructions[k].exc
        if handler is not None and handlers:
            todo.append((index[id(handler.target)], handler.depth + 1 + (lasti and handler.lasti)))
    return max(depths.values())


def without_handlers(instructions):
    return walked(instructions, handlers=False)


def without_lasti(instructions):
    return walked(instructions, lasti=False)


# ---- 3: b - a -------------------------------------------------------------------------------------------------------
def is_plus(instruction):
    return instruction.opname == "BINARY_OP" and instruction.argval == "+"


def only_the_operator(code):
    instructions = decode(code)
    for instruction in instructions:
        if is_plus(instruction):
            instruction.argval = "-"
    return assemble(instructions, code)


def inserted_before(code):
    out = []
    for instruction in decode(code):
        if is_plus(instruction):
            out.append(Instruction("SWAP", 2, positions=instruction.positions, exc=instruction.exc))
            instruction.argval = "-"
        out.append(instruction)
    return assemble(out, code)


def bare_copy(code):
    out = []
    for instruction in decode(code):
        out.append(instruction)
        if is_plus(instruction):
            instruction.opname, instruction.arg, instruction.argval = "SWAP", 2, 2
            out.append(Instruction("BINARY_OP", argval="-"))
    return assemble(out, code)


def with_the_handler_only(code):
    out = []
    for instruction in decode(code):
        out.append(instruction)
        if is_plus(instruction):
            instruction.opname, instruction.arg, instruction.argval = "SWAP", 2, 2
            out.append(Instruction("BINARY_OP", argval="-", exc=instruction.exc))
    return assemble(out, code)


def augmented_too(code):
    out = []
    for instruction in decode(code):
        out.append(instruction)
        if instruction.opname == "BINARY_OP" and "+" in instruction.argval:
            new = Instruction("BINARY_OP", argval="-", exc=instruction.exc, positions=instruction.positions)
            instruction.opname, instruction.arg, instruction.argval = "SWAP", 2, 2
            out.append(new)
    return assemble(out, code)


# ---- 4: returns -----------------------------------------------------------------------------------------------------
def calls(log):
    one = Instruction("CALL", argval=CallArguments(1))
    return [Instruction("LOAD_CONST", argval=log), Instruction("COPY", 2), one, Instruction("POP_TOP")]


def last_only(code, log):
    instructions = decode(code)
    where = max(k for k, i in enumerate(instructions) if i.opname == "RETURN_VALUE")
    return assemble([*instructions[:where], *calls(log), *instructions[where:]], code)


def jumped_over(code, log):
    out = []
    for instruction in decode(code):
        out += [*calls(log), instruction] if instruction.opname == "RETURN_VALUE" else [instruction]
    return assemble(out, code)


def without_pop(code, log):
    out = []
    for instruction in decode(code):
        out += [*calls(log)[:-1], instruction] if instruction.opname == "RETURN_VALUE" else [instruction]
    return assemble(out, code)


WRONG = [  # (check, wrong answer, what the message must speak of)
    (chapter_02.check_02_1, by_text, "`+=` is a `+`"),
    (chapter_02.check_02_1, only_this_code, "functions inside functions"),
    (chapter_02.check_02_1, one_level, "at any depth"),
    (chapter_02.check_02_2, lambda instructions: len(instructions), "no branches"),
    (chapter_02.check_02_2, added_up, "after a branch"),
    (chapter_02.check_02_2, without_handlers, "in an exception handler"),
    (chapter_02.check_02_2, without_lasti, "lasti"),
    (chapter_02.check_02_3, only_the_operator, "one plus"),
    (chapter_02.check_02_3, inserted_before, "the jump must find the swap"),
    (chapter_02.check_02_3, bare_copy, "the handler must still cover it"),
    (chapter_02.check_02_3, with_the_handler_only, "keep the positions"),
    (chapter_02.check_02_3, augmented_too, "+= stays +="),
    (chapter_02.check_02_4, last_only, "two returns, the first"),
    (chapter_02.check_02_4, jumped_over, "a return that is jumped to"),
    (chapter_02.check_02_4, without_pop, "should still return"),
    (chapter_02.check_02_4, lambda code, log: decode(code), "return a code object"),
]


@pytest.mark.parametrize("check, answer, about", WRONG, ids=lambda v: getattr(v, "__name__", None))
def test_a_wrong_answer_fails_and_hears_why(check, answer, about):
    verdict = check(answer)
    assert not verdict.passed
    assert about in verdict.message, verdict.message


# ---- the picture ----------------------------------------------------------------------------------------------------
def clip(values, limit):
    total = 0
    for value in values:
        if value > limit:
            value = limit
        total += value
    return total


def test_blocks_and_edges():
    blocks = basic_blocks(decode(clip.__code__))
    assert [block[0].opname for block in blocks] == ["RESUME", "FOR_ITER"] + ["STORE_FAST"] + ["LOAD_FAST"] * 3
    assert sorted(edges(blocks)) == [
        (0, 1, "next"),
        (1, 2, "next"),
        (1, 5, "jump"),
        (2, 3, "next"),
        (2, 4, "jump"),
        (3, 4, "next"),
        (4, 1, "jump"),
    ]


def test_exceptions_are_edges():
    def safe(a, b):
        try:
            return a / b
        except ZeroDivisionError:
            return 0

    blocks = basic_blocks(decode(safe.__code__))
    handlers = {blocks[b][0].opname for _, b, kind in edges(blocks) if kind == "exception"}
    assert handlers == {"PUSH_EXC_INFO", "COPY"}
    dividing = next(k for k, block in enumerate(blocks) if any(i.opname == "BINARY_OP" for i in block))
    assert any(a == dividing and kind == "exception" for a, _, kind in edges(blocks))


def test_the_picture_shows_the_depth_of_the_stack():
    picture = viz.draw_control_flow(clip, title="clip")
    assert "■■■" in picture.svg and "6 blocks, the stack at most 3 deep" in picture.alt
    assert (
        picture.svg
        == viz.draw_control_flow(clip.__code__, title="clip").svg
        == viz.draw_control_flow(decode(clip.__code__), title="clip").svg
    )
    line = next(line for line in picture.text.split("\n") if "COMPARE_OP" in line)
    assert line.startswith("  3 ")
