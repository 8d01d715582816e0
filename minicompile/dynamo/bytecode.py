"""Bytecode as data: `decode(code) -> [Instruction]`, `assemble(instructions, code, **changes) -> code`.

Goes in: a code object of CPython 3.11, 3.12 or 3.13.  Comes out: a list of `Instruction` in ONE normalised instruction
set, the same for all three, and back.  The files bytecode*.py are the only ones that know Python versions
(`bytecode_versions.py` and `bytecode_lower.py` hold the differences; `bytecode_analysis.py` asks questions about
normalised instructions).
Mirrors `torch/_dynamo/bytecode_transformation.py`.  Taught in chapter 02.

The normalised instruction set
------------------------------
It is CPython's, with the names and meanings that `dis` documents, except:

- There are no NULLs.  A call is `callable, arg1, .., argn` and then `CALL`, argval = `CallArguments(nargs, kwnames)`
  (nargs counts them all; the last len(kwnames) of them are keyword arguments).  It pops n + 1 values and pushes one.
  No PUSH_NULL, PRECALL, KW_NAMES, CALL_KW; no method form (LOAD_METHOD is LOAD_ATTR and leaves one value).
  `CALL_FUNCTION_EX`: `callable, args[, kwargs]`; argval says whether kwargs is there.
- Stack indexes and depths (`SWAP`, `COPY`, `ExceptionHandler.depth`) count values in that NULL-free stack.
- `LOAD_GLOBAL`, `LOAD_ATTR`, `LOAD_SUPER_ATTR` push one value.  argval: the name; for LOAD_SUPER_ATTR (3.12 and later)
  the pair (name, True for the two-argument form of super); it pops `super, class, self`.
- Locals: `LOAD_FAST` (raises if unbound: also stands for LOAD_FAST_CHECK), `STORE_FAST`, `DELETE_FAST`,
  `LOAD_FAST_AND_CLEAR` (3.12 and later, pushes "unbound" for an unbound local; STORE_FAST puts that back),
  `LOAD_CLOSURE` (pushes the cell itself), `LOAD_DEREF`, `STORE_DEREF`, `DELETE_DEREF`, `MAKE_CELL`.  argval is the slot
  key: the name, or `(name,)` for a free variable whose name is also a local's or cell's (an inlined comprehension may
  do that).  Super-instructions (LOAD_FAST_LOAD_FAST, ..) come apart.
- Constants: `LOAD_CONST` with the object itself in argval, any object at all.  RETURN_CONST comes apart.
- Jumps: `JUMP` (forward or backward), `POP_JUMP_IF_TRUE`, `.._FALSE`, `.._NONE`, `.._NOT_NONE`, `FOR_ITER` (pushes the
  next item; when exhausted pops the iterator and jumps), `SEND` (generators).  argval is the target Instruction.
  JUMP_IF_TRUE_OR_POP becomes COPY 1, POP_JUMP_IF_TRUE, POP_TOP.  No END_FOR.
- Truth: POP_JUMP_IF_TRUE, POP_JUMP_IF_FALSE and UNARY_NOT test any object.  TO_BOOL appears nowhere near them.
- `COMPARE_OP`: argval is "<", "<=", "==", "!=", ">" or ">=".  `BINARY_OP`: argval is "+", .., "+=", ..
  `IS_OP`, `CONTAINS_OP`: arg 1 inverts.  BINARY_SLICE and STORE_SLICE come apart (BUILD_SLICE 2, BINARY_SUBSCR).
- `UNARY_POSITIVE`, `LIST_TO_TUPLE`, `ASYNC_GEN_WRAP`, `PREP_RERAISE_STAR` (not CALL_INTRINSIC_n with these meanings).
- `MAKE_FUNCTION` with flags in arg: 1 defaults, 2 keyword defaults, 4 annotations, 8 closure; it pops the code object,
  then closure, annotations, keyword defaults, defaults.  No SET_FUNCTION_ATTRIBUTE.
- f-strings: `FORMAT_VALUE` with argval (str, repr, ascii or None; True if a format specification is on top of the
  value).  3.13 converts beforehand: `CONVERT_VALUE`, argval str, repr or ascii.
- EXTENDED_ARG, CACHE, specialised forms and unreachable instructions are gone.  RESUME, COPY_FREE_VARS, NOP stay.
- What only generators, coroutines and class bodies use (SEND, YIELD_VALUE, LOAD_CLASSDEREF, ..) stays as it is.

`arg` is the plain number of an instruction that takes one (BUILD_TUPLE 3), else None: the assembler works it out from
argval, adds constants, names and new locals where the code lacks them, and picks each jump's opcode by its direction.
`exact=True` (in both functions) leaves all of this out: real opcodes, raw args, for the rewrite that changes nothing.
"""

import dis
import itertools

from . import bytecode_versions as versions
from .bytecode_analysis import depths_by
from .bytecode_lower import lower
from .bytecode_versions import CallArguments, ExceptionHandler, Instruction

__all__ = ["CallArguments", "ExceptionHandler", "Instruction", "assemble", "decode", "slot_keys"]


def slot_keys(varnames, cellvars, freevars):
    """The keys of a frame's local slots, in CPython's order: locals, cells that are no arguments, free variables."""
    keys = [*varnames, *(name for name in cellvars if name not in varnames)]
    return keys + [(name,) if name in keys else name for name in freevars]


def decode(code, exact=False):
    """The instructions of `code`, normalised unless `exact`."""
    instructions = _decode_exact(code)
    return instructions if exact else versions.normalise(instructions, code)


def _decode_exact(code):
    raw, positions = code.co_code, list(code.co_positions())
    keys = slot_keys(code.co_varnames, code.co_cellvars, code.co_freevars)
    instructions, by_offset = [], {}
    start = offset = arg = 0
    while offset < len(raw):
        opcode, arg = raw[offset], arg << 8 | raw[offset + 1]
        offset += 2
        if opcode == dis.EXTENDED_ARG:
            continue
        opname, after = dis.opname[opcode], offset + 2 * versions.CACHES[opcode]
        instruction = Instruction(opname, arg, arg, positions[(offset - 2) // 2], offset=offset - 2)
        if opcode in versions.JUMPS:
            instruction.argval = versions.jump_target(opname, arg, offset, after)
        else:
            instruction.argval = versions.resolve(instruction, code, keys)
        for covered in range(start, after, 2):  # EXTENDED_ARG prefixes and caches too
            by_offset[covered] = instruction
        instructions.append(instruction)
        start, offset, arg = after, after, 0
    for instruction in instructions:
        if instruction.is_jump:
            instruction.argval = by_offset[instruction.argval]
    for entry in dis._parse_exception_table(code):
        handler = ExceptionHandler(by_offset[entry.target], entry.depth, entry.lasti)
        for covered in range(entry.start, entry.end, 2):
            by_offset[covered].exc = handler
    return instructions


def assemble(instructions, code, exact=False, **changes):
    """A code object made of `instructions`; all else comes from `code`, or from `changes` (co_name, co_varnames, ..).

    Raises ValueError for instructions that would crash the interpreter: a missing jump target, an instruction that
    stands twice in the list, an unknown name, a negative stack depth, an end without a return.
    """
    pool = Pool(code, changes)
    if not exact:
        instructions = lower(instructions, pool)
    index = _index(instructions)
    args = [_encode_arg(instruction, pool) for instruction in instructions]
    sizes, offsets = _lay_out(instructions, args, index)
    out = bytearray()
    for instruction, arg, size in zip(instructions, args, sizes, strict=True):
        caches = versions.CACHES[instruction.opcode]
        for byte in range(size - 1 - caches, 0, -1):
            out += bytes((dis.EXTENDED_ARG, arg >> 8 * byte & 255))
        out += bytes((instruction.opcode, arg & 255)) + bytes(2 * caches)
    first_line = changes.get("co_firstlineno", code.co_firstlineno)
    flags = changes.get("co_flags", code.co_flags)
    return code.replace(
        **changes
        | pool.changes()
        | {
            "co_code": bytes(out),
            "co_linetable": encode_locations([i.positions for i in instructions], sizes, first_line),
            "co_exceptiontable": encode_exceptions([i.exc for i in instructions], offsets, index),
            "co_stacksize": _stack_size(instructions, flags),
        }
    )


class Pool:
    """The constants, names and local slots of the new code: the old code's, and what the instructions add."""

    def __init__(self, code, changes):
        self.constants = list(changes.get("co_consts", code.co_consts))
        self.names = list(changes.get("co_names", code.co_names))
        self.varnames = list(changes.get("co_varnames", code.co_varnames))
        self.cellvars = changes.get("co_cellvars", code.co_cellvars)
        self.freevars = changes.get("co_freevars", code.co_freevars)
        self.methods = ()  # ids of instructions: see bytecode_lower.py
        self._constant_index = {id(value): k for k, value in enumerate(self.constants)}
        self._keys = None

    def constant(self, value):
        """By identity: equal constants of other types or signs (0, 0.0, -0.0, False) must not be mixed up."""
        if id(value) not in self._constant_index:
            self._constant_index[id(value)] = len(self.constants)
            self.constants.append(value)
        return self._constant_index[id(value)]

    def name(self, name):
        if name not in self.names:
            self.names.append(name)
        return self.names.index(name)

    def declare(self, instructions):
        """Add the locals that the instructions store (or clear) but the code does not have."""
        known = set(slot_keys(self.varnames, self.cellvars, self.freevars))
        for instruction in instructions:
            writes = instruction.opname in ("STORE_FAST", "LOAD_FAST_AND_CLEAR")
            if writes and instruction.argval not in known:
                known.add(instruction.argval)
                self.varnames.append(instruction.argval)

    def slot(self, key):
        if self._keys is None:
            self._keys = {k: n for n, k in enumerate(slot_keys(self.varnames, self.cellvars, self.freevars))}
        if key not in self._keys:
            raise ValueError(f"no local variable {key!r}")
        return self._keys[key]

    def is_cell(self, key):
        return key in self.cellvars or self.slot(key) >= len(self._keys) - len(self.freevars)

    def changes(self):
        return {
            "co_consts": tuple(self.constants),
            "co_names": tuple(self.names),
            "co_varnames": tuple(self.varnames),
            "co_nlocals": len(self.varnames),
        }


def _index(instructions):
    index = {id(instruction): k for k, instruction in enumerate(instructions)}
    for instruction in instructions:
        if instruction.opname not in dis.opmap:
            raise ValueError(f"unknown opcode {instruction.opname}")
        if instruction.is_jump and id(instruction.argval) not in index:
            raise ValueError(f"the target of {instruction} is not in the list")
        if instruction.exc is not None and id(instruction.exc.target) not in index:
            raise ValueError(f"the exception handler of {instruction} is not in the list")
    return index


def _encode_arg(instruction, pool):
    if instruction.is_jump:
        return 0  # worked out by _lay_out
    if instruction.opname in versions.PAIRS:
        first, second = instruction.argval
        return pool.slot(first) << 4 | pool.slot(second)
    if instruction.opname in versions.SLOTS:
        if instruction.opname in versions.CELL_SLOTS and not pool.is_cell(instruction.argval):
            raise ValueError(f"{instruction}: not a cell or free variable")
        return pool.slot(instruction.argval)
    arg = instruction.arg or 0
    if not 0 <= arg < 1 << 31:
        raise ValueError(f"{instruction}: argument out of range")
    return arg


def _lay_out(instructions, args, index):
    """Sizes (code units) and offsets of all instructions; fills in the jumps' args, growing them until all fits."""

    def size(arg, instruction):
        return 1 + (arg > 0xFF) + (arg > 0xFFFF) + (arg > 0xFFFFFF) + versions.CACHES[instruction.opcode]

    sizes = [size(arg, instruction) for arg, instruction in zip(args, instructions, strict=True)]
    jumps = [(k, instruction) for k, instruction in enumerate(instructions) if instruction.is_jump]
    grown = True
    while grown:
        grown, offsets = False, [0]
        for each in sizes:
            offsets.append(offsets[-1] + each)
        for k, jump in jumps:
            args[k] = versions.jump_arg(jump, offsets[k + 1], offsets[index[id(jump.argval)]])
            if args[k] < 0:
                raise ValueError(f"{jump} goes in the wrong direction")
            if size(args[k], jump) > sizes[k]:
                sizes[k], grown = size(args[k], jump), True
    return sizes, offsets


def _real_effect(instruction, jump):
    takes_argument = instruction.opcode >= dis.HAVE_ARGUMENT
    arg = 0 if jump else instruction.arg or 0
    return dis.stack_effect(instruction.opcode, arg if takes_argument else None, jump=jump)


def _stack_size(instructions, flags):
    """The deepest stack.  Verifies that it is the same however an instruction is reached, and never negative."""
    start = versions.GENERATOR_START_DEPTH if flags & versions.GENERATOR_FLAGS else 0
    reached = [(i, d) for i, d in zip(instructions, depths_by(_real_effect, instructions, start)) if d is not None]
    for instruction, depth in reached:
        if depth < (instruction.arg if instruction.opname in ("SWAP", "COPY") else 0):
            raise ValueError(f"the stack is empty below {instruction}")
    return max(depth for _, depth in reached)


# ---- side tables: see CPython's Objects/locations.md and Objects/exception_handling_notes.txt -----------------------
NO_LOCATION, NO_COLUMNS, LONG, ONE_LINE = 15, 13, 14, 10  # entry kinds of the line table; 0 to 9 are the short forms


def _append_big_endian(out, value, first=0):
    """The exception table's numbers: 6 bits a byte, the highest first; `first` marks the start of an entry."""
    parts = [value & 63]
    while value > 63:
        value >>= 6
        parts.append(value & 63)
    for k, part in enumerate(reversed(parts)):
        out.append(part | (64 if k < len(parts) - 1 else 0) | (first if k == 0 else 0))


def _append_little_endian(out, value):
    """The line table's numbers: 6 bits a byte, the lowest first."""
    while value > 63:
        out.append(value & 63 | 64)
        value >>= 6
    out.append(value)


def _append_location(out, units, position, line):
    """The entries of `units` code units at one position; returns the line that the next entry counts from."""
    start, end, column, end_column = position
    while units > 0:
        length, units = min(units, 8) - 1, units - 8
        if start is None:
            out.append(0x80 | NO_LOCATION << 3 | length)
            continue
        delta, line = start - line, start
        signed = -delta << 1 | 1 if delta < 0 else delta << 1
        if column is None or end_column is None:
            out.append(0x80 | NO_COLUMNS << 3 | length)
            _append_little_endian(out, signed)
        elif end == start and delta == 0 and column < 80 and 0 <= end_column - column < 16:
            out += bytes((0x80 | column >> 3 << 3 | length, (column & 7) << 4 | end_column - column))
        elif end == start and 0 <= delta < 3 and column < 128 and end_column < 128:
            out += bytes((0x80 | ONE_LINE + delta << 3 | length, column, end_column))
        else:
            out.append(0x80 | LONG << 3 | length)
            for number in (signed, end - start, column + 1, end_column + 1):
                _append_little_endian(out, number)
    return line


def encode_locations(positions, sizes, first_line):
    """co_linetable.  Equal neighbours share entries, as CPython's own compiler has them."""
    out, line = bytearray(), first_line
    for position, group in itertools.groupby(zip(positions, sizes, strict=True), key=lambda pair: pair[0]):
        line = _append_location(out, sum(size for _, size in group), position, line)
    return bytes(out)


def encode_exceptions(handlers, offsets, index):
    """co_exceptiontable: one entry per run of instructions with the same handler (`index`: id of target -> number)."""
    out, start = bytearray(), 0
    for handler, group in itertools.groupby(handlers):
        end = start + len(list(group))
        if handler is not None:
            _append_big_endian(out, offsets[start], first=128)
            _append_big_endian(out, offsets[end] - offsets[start])
            _append_big_endian(out, offsets[index[id(handler.target)]])
            _append_big_endian(out, handler.depth << 1 | handler.lasti)
        start = end
    return bytes(out)
