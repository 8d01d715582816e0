"""Questions about normalised instructions: where control goes, how deep the stack is, which locals are still needed.

Goes in: what `bytecode.decode` returns.  Comes out: plain lists and sets, one entry per instruction, and a readable
listing.  Mirrors `torch/_dynamo/bytecode_analysis.py`.  Taught in chapter 02.
"""

import collections
import dis
import types

from .bytecode_versions import GENERATOR_START_DEPTH, ExceptionHandler

# Net effect on the stack where it is not the real opcode's (see the head of `bytecode.py`).
EFFECTS = {
    **dict.fromkeys(("JUMP", "LOAD_ATTR", "CONVERT_VALUE", "UNARY_NOT", "UNARY_POSITIVE"), lambda i: 0),
    **dict.fromkeys(("LIST_TO_TUPLE", "ASYNC_GEN_WRAP"), lambda i: 0),
    **dict.fromkeys(("LOAD_GLOBAL", "LOAD_CLOSURE", "COPY"), lambda i: 1),
    **dict.fromkeys((f"POP_JUMP_IF_{test}" for test in ("TRUE", "FALSE", "NONE", "NOT_NONE")), lambda i: -1),
    "PREP_RERAISE_STAR": lambda i: -1,
    "LOAD_SUPER_ATTR": lambda i: -2,
    "CALL": lambda i: -i.argval.nargs,
    "CALL_FUNCTION_EX": lambda i: -2 if i.argval else -1,
    "MAKE_FUNCTION": lambda i: -(i.arg or 0).bit_count(),
    "FORMAT_VALUE": lambda i: -1 if i.argval[1] else 0,
    "COMPARE_OP": lambda i: -1,
}
READS = {"LOAD_FAST", "LOAD_FAST_AND_CLEAR", "DELETE_FAST", "LOAD_CLOSURE"} | {
    # a cell lives on through these: writing its content needs the cell
    "LOAD_DEREF",
    "STORE_DEREF",
    "DELETE_DEREF",
    "MAKE_CELL",
    "LOAD_CLASSDEREF",
    "LOAD_FROM_DICT_OR_DEREF",
}


def stack_effect(instruction, jump=False):
    """Values pushed less values popped, when it jumps or when it does not."""
    if instruction.opname == "FOR_ITER":
        return -1 if jump else 1
    if instruction.opname in EFFECTS:
        return EFFECTS[instruction.opname](instruction)
    arg = (instruction.arg or 0) if instruction.opcode >= dis.HAVE_ARGUMENT else None
    return dis.stack_effect(instruction.opcode, arg, jump=jump)


def successors(instruction, following):
    """[(next instruction, stack effect)]: `following` stands behind it in the list (None at the end)."""
    out = [(instruction.argval, stack_effect(instruction, jump=True))] if instruction.is_jump else []
    if not instruction.is_terminal and following is not None:
        out.append((following, stack_effect(instruction)))
    return out


def stack_depths(instructions):
    """How many values are on the stack before each instruction; None where execution never comes."""
    generator = any(instruction.opname == "RETURN_GENERATOR" for instruction in instructions)
    return depths_by(stack_effect, instructions, GENERATOR_START_DEPTH if generator else 0)


def depths_by(effect, instructions, start):
    """The depths, by `effect(instruction, jump)`: the same however an instruction is reached, or ValueError."""
    index = {id(instruction): k for k, instruction in enumerate(instructions)}
    depths, todo = [None] * len(instructions), [(0, start)]
    while todo:
        k, depth = todo.pop()
        if k == len(instructions):
            raise ValueError("the last instruction does not return, raise or jump")
        if depths[k] is not None:
            if depths[k] != depth:
                raise ValueError(f"{instructions[k]} (number {k}) is reached with {depths[k]} and with {depth} values")
            continue
        instruction, depths[k] = instructions[k], depth
        if instruction.exc is not None:
            handler = instruction.exc
            todo.append((index[id(handler.target)], handler.depth + 1 + handler.lasti))
        if instruction.is_jump:
            todo.append((index[id(instruction.argval)], depth + effect(instruction, True)))
        if not instruction.is_terminal:
            todo.append((k + 1, depth + effect(instruction, False)))
    return depths


def live_sets(instructions):
    """The slot keys that may still be read before they are written, before each instruction (backward liveness)."""
    index = {id(instruction): k for k, instruction in enumerate(instructions)}
    nowhere = len(instructions)
    flow = []
    for k, i in enumerate(instructions):
        following, target = nowhere if i.is_terminal else k + 1, index[id(i.argval)] if i.is_jump else nowhere
        handler = index[id(i.exc.target)] if i.exc is not None else nowhere
        written, read = {i.argval} if i.opname == "STORE_FAST" else (), {i.argval} if i.opname in READS else ()
        flow.append((k, following, target, handler, written, read))
    flow.reverse()
    live = [frozenset()] * (nowhere + 1)
    changed = True
    while changed:
        changed = False
        for k, following, target, handler, written, read in flow:
            # an exception may come before or after the write
            before = (live[following] | live[target]).difference(written).union(read, live[handler])
            if before != live[k]:
                live[k], changed = before, True
    return live[:-1]


def copy_instructions(instructions):
    """Copies of instructions, jumping and raising among themselves."""
    copies = [instruction.copy() for instruction in instructions]
    by_id = {id(old): new for old, new in zip(instructions, copies)}
    for copy in copies:
        if copy.is_jump:
            copy.argval = by_id[id(copy.argval)]
        if copy.exc is not None:
            copy.exc = ExceptionHandler(by_id[id(copy.exc.target)], copy.exc.depth, copy.exc.lasti)
    return copies


def placed_at(instructions, positions):
    """Give instructions that we made the place of the user's one that they stand for."""
    for instruction in instructions:
        if instruction.positions[0] is None:
            instruction.positions = positions
    return instructions


def reachable(instructions):
    """Those that execution can come to from the first."""
    index = {id(instruction): k for k, instruction in enumerate(instructions)}
    seen, todo = set(), [0]
    while todo:
        k = todo.pop()
        while k < len(instructions) and k not in seen:
            seen.add(k)
            instruction = instructions[k]
            if instruction.is_jump:
                todo.append(index[id(instruction.argval)])
            if instruction.exc is not None:
                todo.append(index[id(instruction.exc.target)])
            if instruction.is_terminal:
                break
            k += 1
    return [instruction for k, instruction in enumerate(instructions) if k in seen]


def prologue_length(instructions):
    """The number of first instructions, up to RESUME: they make cells and copy free variables."""
    return 1 + next(k for k, i in enumerate(instructions) if i.opname == "RESUME")


def labels(instructions):
    """{id of an instruction that others jump or raise to: its label, `L1`, `L2`, ..}."""
    targets = {id(i.argval) for i in instructions if i.is_jump}
    targets |= {id(i.exc.target) for i in instructions if i.exc is not None}
    found = [id(instruction) for instruction in instructions if id(instruction) in targets]
    return {target: f"L{number}" for number, target in enumerate(found, 1)}


def format_instructions(instructions):
    """A listing with labels and lines: the same text for the same code on every run."""
    names = labels(instructions)
    lines, last = [], None
    for instruction in instructions:
        label = names.get(id(instruction), "")
        line = instruction.line if instruction.line not in (None, last) else ""
        last = instruction.line or last
        handler = f"   # except -> {names[id(instruction.exc.target)]}" if instruction.exc is not None else ""
        argument = argument_text(instruction, names)
        text = f"{line!s:>5} {label + ':' if label else '':>5} {instruction.opname:<22} {argument}"
        lines.append((text + handler).rstrip())
    return "\n".join(lines)


def argument_text(instruction, names):
    """An instruction's argument as its listing shows it; `names` are the labels."""
    if instruction.is_jump:
        return names[id(instruction.argval)]
    if instruction.opname == "CALL":
        call = instruction.argval
        return f"{call.nargs}" + (f" {', '.join(call.kwnames)}" if call.kwnames else "")
    if instruction.opname == "LOAD_CONST":
        value = instruction.argval
        plain = isinstance(value, (str, bytes, int, float, complex, tuple, frozenset, type(None), type(Ellipsis)))
        name = getattr(value, "__qualname__", getattr(value, "co_qualname", ""))
        return repr(value) if plain else f"<{f'{type(value).__name__} {name}'.strip()}>"
    return "" if instruction.argval is None else str(instruction.argval)


def cells_made_inside(instructions):
    """The cells of inlined comprehensions: made in the middle of the code, not in its prologue."""
    return {i.argval for i in instructions[prologue_length(instructions) :] if i.opname == "MAKE_CELL"}


def shadows_a_cell(code, instructions):
    """Whether an inlined comprehension has a cell of its own under a name that the code around it uses too.

    Both have one place in the frame then, which the comprehension takes over for a while.
    """
    inner = cells_made_inside(instructions)
    arguments = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    made_before = [i.argval for i in instructions[: prologue_length(instructions)] if i.opname == "MAKE_CELL"]
    cleared = {i.argval for i in instructions if i.opname == "LOAD_FAST_AND_CLEAR"}
    if inner.intersection(arguments) or (inner | cleared).intersection((*code.co_freevars, *made_before)):
        return True
    uses = collections.Counter((i.opname, i.argval) for i in instructions if isinstance(i.argval, str))
    return any(
        uses["LOAD_FAST", name] or uses["STORE_FAST", name] > 2 * uses["LOAD_FAST_AND_CLEAR", name] for name in inner
    )


def settled_cells(code, instructions):
    """The cells made by `code` that keep their first value: no function inside, second place or loop writes them."""
    at = {id(instruction): k for k, instruction in enumerate(instructions)}
    loops = [(at[id(i.argval)], k) for k, i in enumerate(instructions) if i.is_jump and at[id(i.argval)] <= k]
    writes = collections.Counter(code.co_varnames[: code.co_argcount + code.co_kwonlyargcount])
    for k, instruction in enumerate(instructions):
        if instruction.opname in ("STORE_DEREF", "DELETE_DEREF"):
            writes[instruction.argval] += 2 if any(start <= k <= end for start, end in loops) else 1
    writes.update(written_inside(code))
    return {name for name in code.co_cellvars if writes[name] == 1}


def written_inside(code):
    """Names that functions inside this one write (`nonlocal`), twice each: nobody knows when."""
    inner = [const for const in code.co_consts if isinstance(const, types.CodeType)]
    written = [i.argval for each in inner for i in dis.get_instructions(each) if i.opname == "STORE_DEREF"]
    return 2 * written + [name for each in inner for name in written_inside(each)]
