"""From the normalised instruction set to real opcodes: the second half of what differs between Python versions.

Goes in: normalised instructions, and the pool that constants, names and locals are added to.  Comes out: instructions
of the running version with real args, ready to encode.  Each row of `TABLE` is an opcode and what it becomes.
Mirrors a part of `torch/_dynamo/bytecode_transformation.py`.  Taught in chapter 02.
"""

import dis
import re

from .bytecode_analysis import stack_effect
from .bytecode_versions import (
    BINARY,
    COMPARE,
    COMPARE_SHIFT,
    CONVERSIONS,
    INTRINSICS_1,
    NAME_SHIFTS,
    NORMALISED_JUMPS,
    NULL_FIRST,
    NULL_LOCAL,
    PY312,
    PY313,
    ExceptionHandler,
    Instruction,
)

OPPOSITE = {"TRUE": "FALSE", "FALSE": "TRUE", "NONE": "NOT_NONE", "NOT_NONE": "NONE"}


def insert_null(values):
    """Put a NULL below the `values` topmost values (no values: on top)."""
    return [Instruction("PUSH_NULL"), *(Instruction("SWAP", n) for n in range(values + 1, 1, -1))]


def take_null(values, pool):
    """The way back: the NULL below the `values` topmost values goes into a local variable, which it leaves unbound."""
    store = Instruction("STORE_FAST", argval=NULL_LOCAL)
    pool.declare([store])
    return [*(Instruction("SWAP", n) for n in range(2, values + 2)), store]


def _name(instruction, pool):
    shift, is_method = NAME_SHIFTS.get(instruction.opname, 0), id(instruction) in pool.methods
    opname = "LOAD_METHOD" if is_method and not PY312 else instruction.opname
    return [Instruction(opname, pool.name(instruction.argval) << shift | (is_method and PY312))]


def _load_super_attr(instruction, pool):
    name, two_arguments = instruction.argval
    return [Instruction("LOAD_SUPER_ATTR", pool.name(name) << 2 | two_arguments << 1)]


def _call(instruction, pool):
    """`callable, arg1, .., argn`: CPython also takes arg1 where a method's self would stand, so that no NULL is needed
    (its own decorators and `with` blocks are called that way), unless there is no positional argument."""
    nargs, names = instruction.argval.nargs, instruction.argval.kwnames
    if id(instruction) in pool.methods:
        out = []
    elif nargs == len(names):
        out = insert_null(nargs + 1 if NULL_FIRST else nargs)
    else:
        out, nargs = [], nargs - 1
    if PY313:
        if names:
            return [*out, Instruction("LOAD_CONST", pool.constant(names)), Instruction("CALL_KW", nargs)]
        return [*out, Instruction("CALL", nargs)]
    if names:
        out.append(Instruction("KW_NAMES", pool.constant(names)))
    return [*out, *([] if PY312 else [Instruction("PRECALL", nargs)]), Instruction("CALL", nargs)]


def _call_function_ex(instruction, pool):
    has_kwargs = bool(instruction.argval)
    above = 1 + has_kwargs + (1 if NULL_FIRST else 0)
    return [*insert_null(above), Instruction("CALL_FUNCTION_EX", int(has_kwargs))]


def _dict_merge(instruction, pool):
    """3.13 finds the function that it complains about below a NULL, which we put there for good only at the call."""
    if not PY313:
        return [instruction.copy()]
    return [*insert_null(3), instruction.copy(), *take_null(2, pool)]


def _compare_op(instruction, pool):
    mask = COMPARE[instruction.argval] if PY312 else 0
    return [Instruction("COMPARE_OP", dis.cmp_op.index(instruction.argval) << COMPARE_SHIFT | mask)]


def _make_function(instruction, pool):
    flags = instruction.arg or 0
    if not PY313:
        return [Instruction("MAKE_FUNCTION", flags)]
    attributes = [Instruction("SET_FUNCTION_ATTRIBUTE", bit) for bit in (8, 4, 2, 1) if flags & bit]
    return [Instruction("MAKE_FUNCTION"), *attributes]


def _format_value(instruction, pool):
    conversion, has_specification = instruction.argval
    if not PY313:
        return [Instruction("FORMAT_VALUE", CONVERSIONS.index(conversion) | has_specification << 2)]
    convert = [Instruction("CONVERT_VALUE", CONVERSIONS.index(conversion))] if conversion else []
    if convert and has_specification:
        convert = [Instruction("SWAP", 2), *convert, Instruction("SWAP", 2)]
    return [*convert, Instruction("FORMAT_WITH_SPEC" if has_specification else "FORMAT_SIMPLE")]


def _intrinsic(instruction, pool):
    if not PY312:
        return [Instruction(instruction.opname)]
    if instruction.opname == "PREP_RERAISE_STAR":
        return [Instruction("CALL_INTRINSIC_2", 1)]
    return [Instruction("CALL_INTRINSIC_1", {name: n for n, name in INTRINSICS_1.items()}[instruction.opname])]


TABLE = {
    **dict.fromkeys((dis.opname[op] for op in dis.hasname), _name),
    **dict.fromkeys((*INTRINSICS_1.values(), "PREP_RERAISE_STAR"), _intrinsic),
    "LOAD_CONST": lambda i, pool: [Instruction("LOAD_CONST", pool.constant(i.argval), i.argval)],
    # 3.12 and later crash on an unbound local in LOAD_FAST: the checking form is always right
    "LOAD_FAST": lambda i, pool: [Instruction("LOAD_FAST_CHECK" if PY312 else "LOAD_FAST", argval=i.argval)],
    "LOAD_CLOSURE": lambda i, pool: [Instruction("LOAD_FAST" if PY313 else "LOAD_CLOSURE", argval=i.argval)],
    "LOAD_SUPER_ATTR": _load_super_attr,
    "CALL": _call,
    "CALL_FUNCTION_EX": _call_function_ex,
    "COMPARE_OP": _compare_op,
    "DICT_MERGE": _dict_merge,
    "BINARY_OP": lambda i, pool: [Instruction("BINARY_OP", BINARY.index(i.argval))],
    "UNARY_NOT": lambda i, pool: [*([Instruction("TO_BOOL")] if PY313 else []), Instruction("UNARY_NOT")],
    "MAKE_FUNCTION": _make_function,
    "FORMAT_VALUE": _format_value,
    "CONVERT_VALUE": lambda i, pool: [
        Instruction("CONVERT_VALUE" if PY313 else "FORMAT_VALUE", CONVERSIONS.index(i.argval))
    ],
}


# ---- methods --------------------------------------------------------------------------------------------------------
PUSH_ONE = re.compile("LOAD_|BUILD_|BINARY_|UNARY_|COMPARE_|CALL|FORMAT_|MAKE_FUNCTION|IS_OP|CONTAINS_OP")


def method_calls(instructions):
    """Ids of attributes that are only loaded to be called, and of their calls: no bound method is made there, which
    an error of a method written in C would tell by another name.

    Nothing comes between but what makes the arguments.
    """
    targets = {id(instruction.argval) for instruction in instructions if instruction.is_jump}
    found, stack, handler = set(), [], None  # stack: what has pushed each value, as far as that is known
    for instruction in instructions:
        if id(instruction) in targets or instruction.exc != handler or not PUSH_ONE.match(instruction.opname):
            stack.clear()
        handler = instruction.exc
        if not (stack and PUSH_ONE.match(instruction.opname) or instruction.opname == "LOAD_ATTR"):
            continue
        pops = 1 - stack_effect(instruction)
        taken = stack[-pops:] if 0 < pops <= len(stack) else []
        del stack[len(stack) - min(pops, len(stack)) :]
        if taken and instruction.opname == "CALL" and taken[0].opname == "LOAD_ATTR":
            found.update(map(id, (taken[0], instruction)))
        stack.append(instruction)
    return found


# ---- jumps ----------------------------------------------------------------------------------------------------------
def _pop_jump(instruction, backward, following):
    test = instruction.opname.partition("_IF_")[2]
    truth = [Instruction("TO_BOOL")] if PY313 and test in ("TRUE", "FALSE") else []
    if not PY312:
        return [Instruction(f"POP_JUMP_{'BACKWARD' if backward else 'FORWARD'}_IF_{test}", argval=instruction.argval)]
    if not backward:
        return [*truth, Instruction(f"POP_JUMP_IF_{test}", argval=instruction.argval)]
    if following is None:
        raise ValueError(f"{instruction} is the last instruction")
    skip = Instruction(f"POP_JUMP_IF_{OPPOSITE[test]}", argval=following)
    return [*truth, skip, Instruction("JUMP_BACKWARD", argval=instruction.argval)]


def _jump(instruction, backward, following):
    if instruction.opname == "JUMP":
        if backward and instruction.argval.opname == "SEND":  # a signal is for the innermost generator to see
            return [Instruction("JUMP_BACKWARD_NO_INTERRUPT", argval=instruction.argval)]
        return [Instruction("JUMP_BACKWARD" if backward else "JUMP_FORWARD", argval=instruction.argval)]
    return _pop_jump(instruction, backward, following)


def _landing(target, before):
    """3.12 and later: an exhausted FOR_ITER jumps to an END_FOR, which it skips, so one has to stand before its target;
    `before`, the instruction that would run into it, jumps over it."""
    skip = [] if before is None or before.is_terminal else [Instruction("JUMP_FORWARD", argval=target)]
    return [*skip, Instruction("END_FOR"), *([Instruction("POP_TOP")] if PY313 else [])]


def lower(instructions, pool):
    """Real instructions for normalised ones; targets move along to the first real instruction of what they became."""
    pool.declare(instructions)
    pool.methods = method_calls(instructions)
    index = {id(instruction): k for k, instruction in enumerate(instructions)}
    if len(index) != len(instructions):
        raise ValueError("the same Instruction object stands twice in the list")
    loop_ends = {id(i.argval) for i in instructions if PY312 and i.opname == "FOR_ITER"}
    out, first, landings = [], {}, {}
    for k, instruction in enumerate(instructions):
        new = []
        if id(instruction) in loop_ends:
            new = _landing(instruction, instructions[k - 1] if k else None)
            landings[id(instruction)] = next(each for each in new if each.opname == "END_FOR")
        landed = len(new)
        if instruction.opname in NORMALISED_JUMPS:
            following = instructions[k + 1] if k + 1 < len(instructions) else None
            new += _jump(instruction, index.get(id(instruction.argval), k) <= k, following)
        elif instruction.opname in TABLE:
            new += TABLE[instruction.opname](instruction, pool)
        else:
            new.append(instruction.copy())
        for each in new:
            each.positions, each.exc, each.offset = instruction.positions, instruction.exc, instruction.offset
        first[id(instruction)] = new[landed]
        out += new
    for each in out:
        if each.is_jump:
            places = landings if PY312 and each.opname == "FOR_ITER" else first
            each.argval = places.get(id(each.argval), each.argval)
        if each.exc is not None:
            each.exc = ExceptionHandler(first.get(id(each.exc.target), each.exc.target), each.exc.depth, each.exc.lasti)
    return out
