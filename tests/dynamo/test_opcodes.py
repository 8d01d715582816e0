"""Every opcode of the running Python is captured, inlined or breaks, and none crashes."""

import dis

import pytest
import torch
from opcode_samples import PROGRAMS, opcodes_of

import minicompile
from minicompile.dynamo.bytecode import decode
from minicompile.dynamo.bytecode_versions import TABLE
from minicompile.dynamo.symbolic_convert import InstructionTranslator

OPCODES = {name for name, number in dis.opmap.items() if number < 256 and not name.startswith("INSTRUMENTED_")}
NOT_IN_FUNCTIONS = {
    "RESERVED": "no instruction",
    "CACHE": "room for the specialised form of the one before",
    "INTERPRETER_EXIT": "the frame that the interpreter begins with",
    "ENTER_EXECUTOR": "written by the interpreter in place of a hot JUMP_BACKWARD",
    "EXIT_INIT_CHECK": "the frame that the interpreter puts around `__init__`",
    "PRINT_EXPR": "the prompt of the interpreter",
    "IMPORT_STAR": "modules",
}
# Those without a method: they break ("instruction not captured"), or stand in code that the hook leaves alone.
BREAK = {
    "CALL_INTRINSIC_2": "type parameters",
    **dict.fromkeys(("BEFORE_ASYNC_WITH", "END_ASYNC_FOR", "GET_AITER", "GET_ANEXT", "GET_AWAITABLE"), "coroutines"),
    "ASYNC_GEN_WRAP": "coroutines",
    **dict.fromkeys(("STORE_NAME", "DELETE_NAME", "LOAD_LOCALS", "LOAD_CLASSDEREF"), "bodies of classes"),
    **dict.fromkeys(("LOAD_FROM_DICT_OR_GLOBALS", "LOAD_FROM_DICT_OR_DEREF"), "bodies of classes"),
}


def handled_by(opname):
    """What takes care of an opcode: the normaliser, a method of the translator, or a break."""
    if opname in TABLE:
        return f"normalised by {TABLE[opname].__qualname__}"
    if hasattr(InstructionTranslator, opname):
        return f"captured by {getattr(InstructionTranslator, opname).__qualname__}"
    if opname in ("EXTENDED_ARG", "SET_FUNCTION_ATTRIBUTE"):
        return "taken in by the instruction beside it"
    if opname in BREAK:
        return f"breaks or is left alone: {BREAK[opname]}"
    if opname in NOT_IN_FUNCTIONS:
        return f"not in functions: {NOT_IN_FUNCTIONS[opname]}"
    return None


def test_every_opcode_has_somebody_who_takes_care_of_it():
    table = {name: handled_by(name) for name in sorted(OPCODES)}
    print("\n".join(f"{name:32} {how}" for name, how in table.items()))  # pytest -s
    assert not [name for name, how in table.items() if how is None]
    assert not [name for name in BREAK if hasattr(InstructionTranslator, name)]


def test_the_samples_hold_every_opcode():
    found = set().union(*(opcodes_of(compile(source, "<sample>", "exec")) for source in PROGRAMS.values()))
    missing = OPCODES - found - set(NOT_IN_FUNCTIONS)
    assert not missing


@pytest.mark.parametrize("name", PROGRAMS)
def test_samples_do_the_same_compiled(name):
    results = []
    for compiler in (None, minicompile.compile):
        space = {"__name__": "sample"}
        exec(compile(PROGRAMS[name], __file__, "exec"), space)
        f = space["f"] if compiler is None else compiler(space["f"], backend="eager")
        results.append([repr(f(torch.ones(2, 2))) for _ in range(2)])
    assert results[0] == results[1]
    assert minicompile.record.compilations, "nothing was captured"


@pytest.mark.parametrize("name", PROGRAMS)
def test_what_the_samples_decode_to_has_a_method_or_breaks(name):
    todo = [compile(PROGRAMS[name], "<sample>", "exec")]
    while todo:
        code = todo.pop()
        todo += [const for const in code.co_consts if hasattr(const, "co_code")]
        for instruction in decode(code):
            assert hasattr(InstructionTranslator, instruction.opname) or instruction.opname in BREAK, instruction
