"""Building blocks of new bytecode: each function returns the normalised instructions for one thing.

Goes in: names, constants, counts.  Comes out: a list of `Instruction` to concatenate and `assemble`; the head of
`bytecode.py` says what they mean.  Stack comments read bottom to top.
Mirrors the `create_*` helpers of `torch/_dynamo/bytecode_transformation.py`.  Taught in chapters 02 and 05.
"""

from .bytecode import CallArguments, Instruction


def _plain(opname):
    """An opcode without an argument."""

    def emit():
        return [Instruction(opname)]

    emit.__name__, emit.__doc__ = opname.lower(), f"[{opname}]"
    return emit


def _counted(opname):
    """An opcode whose argument is a plain number."""

    def emit(n):
        return [Instruction(opname, n)]

    emit.__name__, emit.__doc__ = opname.lower(), f"[{opname} n]"
    return emit


def _resolved(opname):
    """An opcode whose argument the assembler finds: of a constant, a name, a slot key, an operator, a jump target."""

    def emit(argval):
        return [Instruction(opname, argval=argval)]

    emit.__name__, emit.__doc__ = opname.lower(), f"[{opname} argval]"
    return emit


pop_top, nop, return_value = _plain("POP_TOP"), _plain("NOP"), _plain("RETURN_VALUE")
binary_subscr, store_subscr = _plain("BINARY_SUBSCR"), _plain("STORE_SUBSCR")  # container, key | value, container, key
delete_subscr, get_iter = _plain("DELETE_SUBSCR"), _plain("GET_ITER")
list_to_tuple, unary_not = _plain("LIST_TO_TUPLE"), _plain("UNARY_NOT")
before_with, push_exc_info, pop_except = _plain("BEFORE_WITH"), _plain("PUSH_EXC_INFO"), _plain("POP_EXCEPT")

build_tuple, build_list, build_set = _counted("BUILD_TUPLE"), _counted("BUILD_LIST"), _counted("BUILD_SET")
build_map, build_slice, build_string = _counted("BUILD_MAP"), _counted("BUILD_SLICE"), _counted("BUILD_STRING")
unpack_sequence, unpack_ex = _counted("UNPACK_SEQUENCE"), _counted("UNPACK_EX")
list_append, list_extend = _counted("LIST_APPEND"), _counted("LIST_EXTEND")  # n: how deep the list is, below the item
set_update, dict_update, dict_merge = _counted("SET_UPDATE"), _counted("DICT_UPDATE"), _counted("DICT_MERGE")
copy, swap = _counted("COPY"), _counted("SWAP")  # COPY 1 duplicates the top; SWAP 2 exchanges the two topmost
is_op, contains_op = _counted("IS_OP"), _counted("CONTAINS_OP")  # 1 inverts
raise_varargs, reraise = _counted("RAISE_VARARGS"), _counted("RERAISE")

load_const, load_fast, store_fast = _resolved("LOAD_CONST"), _resolved("LOAD_FAST"), _resolved("STORE_FAST")
delete_fast, load_closure = _resolved("DELETE_FAST"), _resolved("LOAD_CLOSURE")
load_deref, store_deref, delete_deref = _resolved("LOAD_DEREF"), _resolved("STORE_DEREF"), _resolved("DELETE_DEREF")
load_global, store_global = _resolved("LOAD_GLOBAL"), _resolved("STORE_GLOBAL")
delete_global = _resolved("DELETE_GLOBAL")
load_attr, store_attr, delete_attr = _resolved("LOAD_ATTR"), _resolved("STORE_ATTR"), _resolved("DELETE_ATTR")
compare_op, binary_op = _resolved("COMPARE_OP"), _resolved("BINARY_OP")
jump, for_iter = _resolved("JUMP"), _resolved("FOR_ITER")
pop_jump_if_true, pop_jump_if_false = _resolved("POP_JUMP_IF_TRUE"), _resolved("POP_JUMP_IF_FALSE")
pop_jump_if_none, pop_jump_if_not_none = _resolved("POP_JUMP_IF_NONE"), _resolved("POP_JUMP_IF_NOT_NONE")


def call(nargs, kwnames=()):
    """callable, arg1, .., argn -> result; the last len(kwnames) arguments are keyword arguments."""
    return [Instruction("CALL", argval=CallArguments(nargs, tuple(kwnames)))]


def call_function_ex(has_kwargs=False):
    """callable, tuple of arguments[, dict of keyword arguments] -> result."""
    return [Instruction("CALL_FUNCTION_EX", argval=has_kwargs)]


def call_constant(function, pushes, nargs, kwnames=()):
    """Call an object held in the code's constants: `pushes` are the instructions that push its arguments."""
    return [*load_const(function), *pushes, *call(nargs, kwnames)]


def rotate_down(n):
    """v1, .., vn -> vn, v1, .., vn-1: the top goes below the n - 1 values under it."""
    return [Instruction("SWAP", k) for k in range(n, 1, -1)]


def rotate_up(n):
    """v1, .., vn -> v2, .., vn, v1: the value n deep comes to the top."""
    return [Instruction("SWAP", k) for k in range(2, n + 1)]


def make_function(code, freevars=(), flags=0):
    """Push a new function of `code`, whose free variables are the cells `freevars` of the running frame.

    flags: 1, 2, 4 if a tuple of defaults, a dict of keyword defaults, annotations have been pushed (in that order)."""
    closure = [Instruction("LOAD_CLOSURE", argval=key) for key in freevars]
    if freevars:
        closure += build_tuple(len(freevars))
    return [*closure, *load_const(code), Instruction("MAKE_FUNCTION", flags | (8 if freevars else 0))]


def prologue(cellvars=(), freevars=()):
    """What CPython expects at the start of a plain function: cells made, free variables copied, RESUME."""
    copy_free = [Instruction("COPY_FREE_VARS", len(freevars))] if freevars else []
    return [*copy_free, *(Instruction("MAKE_CELL", argval=name) for name in cellvars), Instruction("RESUME", 0)]


def at(instructions, positions, exc=None):
    """Give all instructions one source position (and exception handler); returns them."""
    for instruction in instructions:
        instruction.positions = positions
        instruction.exc = exc
    return instructions
