"""The two side tables of a code object: source positions, and exception handlers.

Goes in: a position and a handler per instruction.  Comes out: the bytes of `co_linetable` and `co_exceptiontable`,
whose formats are described in CPython's Objects/locations.md and Objects/exception_handling_notes.txt; they are the
same in 3.11, 3.12 and 3.13.  Mirrors a part of `torch/_dynamo/bytecode_transformation.py`.  Taught in chapter 02.
"""

import itertools

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
