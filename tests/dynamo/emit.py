"""Instructions for tests of the assembler: `emit.load_fast("a")` is `[Instruction("LOAD_FAST", argval="a")]`.

Any opcode goes by its name in lower case.  What it returns is a list, to concatenate and `assemble`.
"""

from minicompile.dynamo.bytecode import CallArguments, Instruction

COUNTS = ("BUILD_", "UNPACK_", "LIST_", "SET_", "DICT_", "COPY", "SWAP", "IS_OP", "CONTAINS_OP", "RAISE_", "RERAISE")


def __getattr__(name):
    opname = name.upper()

    def emit(*argument):
        number = opname.startswith(COUNTS) and argument
        return [Instruction(opname, *argument) if number else Instruction(opname, None, *argument)]

    return emit


def call(nargs, kwnames=()):
    return [Instruction("CALL", argval=CallArguments(nargs, tuple(kwnames)))]


def call_function_ex(has_kwargs=False):
    return [Instruction("CALL_FUNCTION_EX", argval=has_kwargs)]


def call_constant(function, pushes, nargs, kwnames=()):
    """`pushes` are the instructions that push the arguments."""
    return [Instruction("LOAD_CONST", argval=function), *pushes, *call(nargs, kwnames)]


def make_function(code, freevars=(), flags=0):
    cells = [Instruction("LOAD_CLOSURE", argval=key) for key in freevars]
    closure = [*cells, Instruction("BUILD_TUPLE", len(freevars))] if freevars else []
    flags |= 8 if freevars else 0
    return [*closure, Instruction("LOAD_CONST", argval=code), Instruction("MAKE_FUNCTION", flags)]


def prologue(cellvars=()):
    """What CPython expects at the start of a plain function."""
    return [*(Instruction("MAKE_CELL", argval=name) for name in cellvars), Instruction("RESUME", 0)]


def at(instructions, positions, exc=None):
    """Give all instructions one source position (and exception handler); returns them."""
    for instruction in instructions:
        instruction.positions, instruction.exc = positions, exc
    return instructions
