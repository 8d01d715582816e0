"""Checks for chapter 12: a masked kernel, the largest of a row, fetched sectors, a softmax's sum in one walk.

Kernels run in Triton's interpreter, and every access is looked at before it happens.
"""

import torch
import triton.language as tl  # noqa: F401  (the kernels that are checked name it)

from minicompile.inductor.codegen import triton_interpret
from minicompile.viz import record_launches

from .verdict import judge

rt = triton_interpret.ops()  # the device functions that generated kernels call, for the interpreter
NAN, INF = float("nan"), float("inf")
NOTHING = "your kernel stored nothing; write its body first"


def run(kernel, programs, *args, **constants):
    """Run a kernel; its recorded launch.  Raises IndexError where it leaves a tensor."""
    with record_launches() as launches:
        triton_interpret.run(triton_interpret.interpreted(kernel), (programs,), args, constants)
    return launches[-1]


def stores(launch, name):
    return sum(int(access.used.sum()) for access in launch.of(name) if access.stored)


def same(got, wanted):
    return torch.equal(got.nan_to_num(9e9), wanted.nan_to_num(9e9)) and torch.equal(got.isnan(), wanted.isnan())


# --- 1: a masked kernel -----------------------------------------------------------------------------------
RELUS = [  # (numbers, block, what this tries)
    ([-1.0, 2.0, -3.0, 4.0], 4, "one block that is full"),
    ([-1.0, 2.0, -3.0, 4.0] * 3, 4, "three full blocks"),
    ([1.0, -2.0, 3.0, -4.0, 5.0], 4, "the second block has one element"),
    ([3.0], 16, "one element for sixteen lanes"),
    ([0.0, -0.0, 1e-40, -1e-40, 3e38], 2, "very small and very large numbers"),
    ([INF, -INF, -INF, 1.0], 4, "infinities: -inf becomes 0"),
    ([NAN, -1.0, 1.0, NAN], 4, "a NaN stays a NaN"),
    ([float(k - 500) for k in range(1000)], 128, "a thousand numbers, the last block sticks out"),
]


def check_12_1(relu):
    """relu(x, out, n, BLOCK): out = the larger one of x and 0, a block for each program."""

    def trial(numbers, block, about):
        def look():
            x, out = torch.tensor(numbers), torch.full((len(numbers),), 777.0)
            launch = run(relu, -(-len(numbers) // block), x, out, len(numbers), BLOCK=block)
            if not stores(launch, "out"):
                return NOTHING
            missing = (out == 777).nonzero().flatten().tolist()
            if missing:
                return f"{about}: elements {missing[:4]} of out were not written; which block is a program's own?"
            wanted = x.relu()
            if not same(out, wanted):
                k = next(k for k in range(len(numbers)) if not same(out[k], wanted[k]))
                return f"{about}: relu of {numbers[k]} should be {wanted[k].item()}, got {out[k].item()}"
            count = stores(launch, "out")
            if count > len(numbers):
                return f"{about}: {count} stores for {len(numbers)} elements: programs do each other's work"
            return None

        return look

    return judge([trial(*case) for case in RELUS], "every element once, and none beyond the end")


# --- 2: the largest of a row ------------------------------------------------------------------------------
def rows_of(rows, columns, stride, fill):
    """(rows, columns) numbers made by `fill`; between the rows lie large ones that belong to nobody."""
    memory = torch.full((rows * stride,), 1e6)
    x = memory.as_strided((rows, columns), (stride, 1))
    return x.copy_(fill(torch.arange(rows * columns).reshape(rows, columns).float()))


ROWS = [  # (rows, columns, stride, numbers, what this tries)
    (4, 8, 8, lambda k: k, "rows that fill the block"),
    (3, 5, 5, lambda k: k, "five columns for eight lanes"),
    (3, 5, 5, lambda k: -1 - k, "all numbers are negative: a lane without an element must not win"),
    (2, 6, 9, lambda k: k, "rows with a gap between them"),
    (2, 6, 9, lambda k: -1 - k, "negative numbers, and a gap"),
    (2, 3, 3, lambda k: torch.full_like(k, -INF), "nothing but minus infinity"),
    (2, 7, 7, lambda k: torch.where(k % 2 == 0, -3e38, -INF), "the smallest numbers that there are"),
    (2, 4, 4, lambda k: torch.where(k == 1, NAN, k), "a NaN wins"),
    (5, 1, 1, lambda k: k - 3, "rows of one number"),
    (3, 100, 128, lambda k: (k * 37 % 101) - 200, "a hundred columns"),
]


def check_12_2(row_max):
    """row_max(x, out, columns, stride, BLOCK): out[row] = the largest of a row, a program for each row."""

    def trial(rows, columns, stride, fill, about):
        def look():
            x, out = rows_of(rows, columns, stride, fill), torch.full((rows,), 777.0)
            block = 1 << (columns - 1).bit_length()
            launch = run(row_max, rows, x, out, columns, stride, BLOCK=block)
            if not stores(launch, "out"):
                return NOTHING
            wanted = x.amax(1)
            for row in range(rows):
                if not same(out[row], wanted[row]):
                    got = "nothing" if out[row] == 777 else out[row].item()
                    return f"{about}: the largest of row {row} should be {wanted[row].item()}, got {got}"
            return None

        return look

    return judge([trial(*case) for case in ROWS], "no lane wins that has no element")


# --- 3: sectors -------------------------------------------------------------------------------------------
LANES = range(32)
WARPS = [  # (addresses, bytes each, sectors, what this tries)
    ([4 * k for k in LANES], 4, 4, "32 neighbouring floats"),
    ([4 * k + 4 for k in LANES], 4, 5, "neighbours that start 4 bytes too late"),
    ([8 * k for k in LANES], 4, 8, "every second float"),
    ([8 * k for k in LANES], 8, 8, "32 neighbouring doubles"),
    ([4000 * k for k in LANES], 4, 32, "a column of a matrix with rows of 1,000 floats"),
    ([640] * 32, 4, 1, "all read the same element"),
    ([4 * (31 - k) for k in LANES], 4, 4, "neighbours, backwards"),
    ([4 * k if k < 10 else None for k in LANES], 4, 2, "a mask: the last 22 lanes read nothing"),
    ([None] * 32, 4, 0, "nobody reads anything"),
    ([2 * k for k in LANES], 2, 2, "32 neighbouring numbers of two bytes"),
    ([16 * k for k in LANES], 16, 16, "16 bytes each"),
    ([0, 1_000_000] + [None] * 30, 4, 2, "two that lie far apart"),
    ([24] + [None] * 31, 16, 2, "16 bytes across a border"),
]


def check_12_3(sectors):
    """sectors(addresses, size) -> pieces of 32 bytes that are fetched."""

    def trial(addresses, size, wanted, about):
        def look():
            got = sectors(list(addresses), size)
            if got is None:
                return "your function returned None; write its body first"
            return None if got == wanted else f"{about}: expected {wanted}, got {got!r}"

        return look

    return judge([trial(*case) for case in WARPS], "this is what a transpose is slow by")


# --- 4: the sum of a softmax in one walk ------------------------------------------------------------------
WALKS = [  # (the blocks of a row, what this tries)
    ([[1.0, 2.0]], "one block"),
    ([[3.0, 2.0], [1.0, 0.0]], "the largest comes first"),
    ([[0.0, 1.0], [2.0, 3.0], [4.0, 5.0]], "the largest grows from block to block"),
    ([[1000.0, 999.0], [998.0, 1001.0]], "exp(1000) is infinite, and a sum of 1.5 is not"),
    ([[-2000.0, -2001.0], [-2000.0, -2005.0]], "exp(-2000) is 0, and the sum is not"),
    ([[-INF, -INF], [1.0, 2.0]], "a block of nothing but minus infinity: exp(-inf - -inf) is NaN"),
    ([[1.0, 2.0], [-INF, -INF], [3.0, -INF]], "minus infinity later on"),
    ([[5.0], [5.0], [5.0]], "equal ones"),
    ([[1.0, NAN], [2.0, 3.0]], "a NaN: so is the sum"),
]


def check_12_4(online):
    """online(blocks) -> (largest of all, sum of exp(x - largest)).  Each block lies in the memory of the one before."""

    def trial(blocks, about):
        def look():
            row = torch.tensor(blocks, dtype=torch.float64)
            register = torch.empty(row.shape[1])
            got = online(register.copy_(block) for block in row)
            if got is None:
                return "your function returned None; write its body first"
            largest, total = (float(value) for value in got)
            wanted = row.amax().item()
            total_wanted = (row - wanted).exp().sum().item()
            shown = f"{about}: {blocks}"
            if largest != wanted and wanted == wanted:
                return f"{shown}: the largest is {wanted}, got {largest}"
            if not torch.isclose(torch.tensor(total), torch.tensor(total_wanted), rtol=1e-5, equal_nan=True):
                return f"{shown}: the sum should be {total_wanted:.5g}, got {total:.5g}"
            return None

        return look

    return judge([trial(*case) for case in WALKS], "one walk, and no number leaves its range")
