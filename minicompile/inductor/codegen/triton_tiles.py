"""How big the tiles are: block sizes and warps, from the number of elements and what each costs.

Goes in: sizes.  Comes out: block sizes.  The rules are what a memory-bound kernel wants on an A100 or H100: 16-byte
accesses, 4 to 16 elements a thread in flight, and enough programs for every multiprocessor; where there are fewer
elements than threads, one each: then nothing counts but how soon a thread is done.  The interpreter gets larger blocks:
it pays for each program, not for each element.  Mirrors `torch/_inductor/runtime/triton_heuristics.py`.
Taught in chapter 12.
"""

import dataclasses

from torch.utils._sympy.functions import FloorDiv

from ..indexing import hint

MULTIPROCESSORS = 132  # of an H100; an A100 has 108
THREADS = 1024 * MULTIPROCESSORS  # half of what an H100 holds at a time
INTERPRETED = 1 << 15  # elements of a block in the interpreter
PERSISTENT = 1024  # longest row that is always held in registers
PERSISTENT_PASSES = 16384  # ... when it would be read several times otherwise
COLUMN, COLUMN_PASSES = 256, 2048  # the same two of columns, beside each of which others lie
WIDE = 8192  # elements of a long row at a time, when it is read again and again
SYMBOLIC = 64  # the shortest row that kernels for any length are made for
PARTS = 4 * MULTIPROCESSORS  # programs that share a reduction with few results


def power(value):
    """The smallest power of two that is not smaller."""
    return 1 << max(0, int(value) - 1).bit_length()


def clamp(value, low, high):
    return max(low, min(value, high))


def warps(elements, each=8):
    """Warps for a block, `each` elements a thread."""
    return clamp(power(elements) // (32 * each), 1, 16)


def pointwise(numel, interpreted):
    """(XBLOCK, num_warps)

    A mask that ends anywhere forbids wide accesses; then neighbouring threads take neighbouring elements.
    """
    wide = hint(numel) % 16 == 0
    numel = power(hint(numel))
    if interpreted:
        return min(numel, INTERPRETED), 4
    block = clamp(numel // MULTIPROCESSORS, 128, 1024 if wide else 512)
    block = min(power(block), max(numel, 1))
    return block, warps(block, clamp(power(numel // THREADS), 1, 8 if wide else 4))


def transposed(rows, columns, interpreted):
    """(YBLOCK, XBLOCK, num_warps)"""
    side = 128 if interpreted else 32
    return min(power(hint(rows)), side), min(power(hint(columns)), side if interpreted else 64), 4


@dataclasses.dataclass
class ReductionTile:
    x: int
    r: int
    num_warps: int
    persistent: bool
    parts: int = 1  # programs that share the reduced loop
    chunk: object = 0  # elements of it that each takes: a number, or made of symbolic sizes


def reduction(xnumel, rnumel, columns, passes, walks, loads, interpreted, hold=True, half=False):
    """How a reduction is tiled.

    columns: neighbours lie along x, not along the reduced loop; passes: how often results of a row are needed to go on;
    walks: how often a loop would read the row; loads: buffers of which it reads rows again; hold: whether a block may
    hold a row; half: what is large and read has two bytes an element, so that a thread takes twice as many.
    """
    x, r = hint(xnumel), hint(rnumel) if isinstance(rnumel, int) else max(hint(rnumel), SYMBOLIC)
    limit = PERSISTENT if passes == 1 else PERSISTENT_PASSES // (1 if loads <= 2 else 2)
    if columns:
        limit = min(limit, COLUMN if passes == 1 else max(COLUMN_PASSES // power(loads), COLUMN))
    persistent = hold and power(r) <= limit
    size = INTERPRETED if interpreted else 4096 if columns else 2048
    if persistent:
        rblock = power(r)
        xblock = clamp(size // rblock, 1, power(x))
        while not interpreted and xblock > 1 and x // xblock < 2 * MULTIPROCESSORS:
            xblock //= 2
        if columns:
            xblock = max(xblock, min(16, power(x)))
        return ReductionTile(xblock, rblock, warps(xblock * rblock, 16 if half and not columns else 8), True)
    beside = 64 if half or interpreted else 32  # 128 bytes of each row at a time
    xblock = clamp(power(x), 1, beside) if columns else 1 if r >= size else clamp(size // power(r), 1, power(x))
    rblock = clamp(size // xblock, 1, power(r)) if isinstance(rnumel, int) else size // xblock
    tile = ReductionTile(xblock, rblock, warps(xblock * rblock), False)
    if walks >= 3 and xblock == 1 and r > WIDE and not interpreted:  # few rows at a time: they stay in the L2 cache
        tile.r, tile.num_warps = WIDE, 32
    programs = -(-x // xblock)
    blocks = -(-r // rblock)
    if walks == 1 and programs < MULTIPROCESSORS and blocks >= 4:
        parts = clamp(PARTS // max(programs, 1), 1, blocks // 2)
        tile.parts = -(-blocks // -(-blocks // parts))
        turn = tile.parts * rblock  # what all of them take at a time
        tile.chunk = FloorDiv(rnumel + turn - 1, turn) * rblock
        tile.chunk = int(tile.chunk) if isinstance(rnumel, int) else tile.chunk
    return tile
