"""Checks for chapter 13: the traffic of tiles, a matrix product in Triton, a race, a replayed graph that is safe."""

import torch
import triton.language as tl  # noqa: F401  (the kernels that are checked name it)

from .chapter_12 import NAN, NOTHING, run, stores
from .verdict import expect, judge

# --- 1: the traffic of tiles ------------------------------------------------------------------------------
TRAFFIC = [  # (m, n, k, rows, columns, what this tries)
    (64, 64, 64, 16, 16, "tiles that divide"),
    (64, 64, 64, 64, 64, "one tile: everything once"),
    (64, 64, 64, 1, 1, "a program for each element"),
    (128, 64, 32, 64, 16, "another size in each direction"),
    (64, 128, 32, 16, 64, "wide tiles"),
    (100, 64, 64, 16, 16, "rows that do not divide: the last tile loads only what is there"),
    (64, 70, 10, 64, 64, "columns that do not divide"),
    (5, 7, 3, 16, 16, "a tile that is larger than the matrix"),
    (1, 1000, 1000, 16, 128, "one row"),
    (64, 64, 0, 16, 16, "nothing to add up"),
]


def check_13_1(traffic):
    """traffic(m, n, k, rows, columns) -> numbers that all programs load together."""
    trials = []
    for *sizes, about in TRAFFIC:
        m, n, k, rows, columns = sizes
        wanted = sum(
            min(rows, m - top) * k + k * min(columns, n - left)
            for top in range(0, m, rows)
            for left in range(0, n, columns)
        )
        shown = f"{about}: ({m} x {k}) @ ({k} x {n}), tiles of {rows} x {columns}"
        trials.append(expect(traffic, sizes, wanted, shown))
    return judge(trials, "and each doubling of a tile halves it")


# --- 2: a matrix product ----------------------------------------------------------------------------------
PRODUCTS = [  # (m, n, k, tile, what this tries)
    (16, 16, 16, 16, "one tile"),
    (32, 32, 32, 16, "four tiles, two steps each"),
    (16, 48, 16, 16, "wider than high"),
    (48, 16, 32, 16, "higher than wide"),
    (20, 16, 16, 16, "rows that do not fill the last tile"),
    (16, 20, 16, 16, "columns that do not fill the last tile"),
    (16, 16, 20, 16, "an inner size that does not fill the last step"),
    (17, 33, 5, 16, "nothing that divides"),
    (1, 1, 1, 16, "one number"),
]


def check_13_2(product):
    """product(a, b, out, m, n, k, TILE): out = a @ b, a tile of out for each program."""

    def trial(m, n, k, tile, about):
        def look():
            generator = torch.Generator().manual_seed(0)
            a, b = (torch.randint(-3, 4, size, generator=generator).float() for size in ((m, k), (k, n)))
            out = torch.full((m, n), NAN)
            shown = f"{about}: ({m} x {k}) @ ({k} x {n}), tiles of {tile}"
            try:
                launch = run(product, -(-m // tile) * -(-n // tile), a, b, out, m, n, k, TILE=tile)
            except IndexError as error:
                return f"{shown}: {error}"
            if not stores(launch, "out"):
                return NOTHING
            wrong = (out != a @ b).nonzero().tolist()
            if wrong:
                i, j = wrong[0]
                return f"{shown}: out[{i}, {j}] should be {(a @ b)[i, j].item()}, got {out[i, j].item()}"
            return None

        return look

    return judge([trial(*case) for case in PRODUCTS], "a matrix product of any size")


# --- 3: a race --------------------------------------------------------------------------------------------
class Kernels:
    """Candidates with made-up times: {name: (is it right, seconds of each measurement)}; an exception is raised."""

    def __init__(self, candidates):
        self.candidates, self.asked = candidates, []

    def right(self, name):
        return self.answer(name, self.candidates[name][0])

    def seconds(self, name):
        times = self.candidates[name][1]
        self.asked.append(name)
        return self.answer(name, times[min(self.asked.count(name), len(times)) - 1])

    def answer(self, name, value):
        if isinstance(value, Exception):
            raise value
        return value


BAD = RuntimeError("out of resource: shared memory")
RACES = [  # (candidates, the winner, what this tries)
    ({"a": (True, [3.0]), "b": (True, [2.0]), "c": (True, [4.0])}, "b", "the fastest is in the middle"),
    ({"a": (True, [3.0]), "b": (False, [0.1])}, "a", "the fastest one computes something else"),
    ({"a": (BAD, [1.0]), "b": (True, [2.0])}, "b", "the first one cannot be compiled"),
    ({"a": (True, [2.0]), "b": (True, [BAD])}, "a", "one fails when it is measured"),
    ({"a": (True, [9.0, 1.0, 1.0]), "b": (True, [2.0, 2.0, 2.0])}, "a", "the first call is slow: it loads the kernel"),
    ({"a": (True, [2.0]), "b": (True, [3.0, 3.0, 1.9])}, "b", "somebody else used the machine for a while"),
    ({"only": (True, [5.0])}, "only", "a single one"),
]


def check_13_3(choose):
    """choose(names, right, seconds, known, key) -> the name of the fastest right one, also left in known[key]."""

    def trial(candidates, winner, about):
        def look():
            kernels, known = Kernels(candidates), {"other": "x"}
            got = choose(list(candidates), kernels.right, kernels.seconds, known, "shape")
            if got is None:
                return "your function returned None; write its body first"
            if got != winner:
                return f"{about}: {winner!r} should win, not {got!r}"
            if known != {"other": "x", "shape": winner}:
                return f"{about}: the winner should stand in known['shape']: {known}"
            asked = len(kernels.asked)
            again = choose(list(candidates), kernels.right, kernels.seconds, known, "shape")
            if again != winner or len(kernels.asked) != asked:
                return f"{about}: a race that was run before is run again"
            return None

        return look

    def nobody():
        kernels, known = Kernels({"a": (False, [1.0]), "b": (BAD, [1.0])}), {}
        try:
            got = choose(["a", "b"], kernels.right, kernels.seconds, known, "shape")
        except ValueError:
            return "a race that nobody wins leaves nothing in known" if known else None
        return f"none of them is right: raise ValueError, do not return {got!r}"

    return judge([*(trial(*case) for case in RACES), nobody], "right first, then fast, and never twice")


# --- 4: a replayed graph ----------------------------------------------------------------------------------
def recording():
    """(replay, buffers, results) of (a + b, a * 2): it knows three addresses, and nothing else."""
    a, b, total, twice = torch.zeros(2, 3), torch.zeros(3), torch.zeros(2, 3), torch.zeros(2, 3)

    def replay():
        torch.add(a, b, out=total)
        torch.mul(a, 2, out=twice)

    return replay, [a, b], [total, twice]


A, B = torch.arange(6.0).reshape(2, 3), torch.tensor([10.0, 20.0, 30.0])
CALLS = [  # (arguments, what this tries)
    ((A, B), "the first call"),
    ((A + 1, B * 2), "other values"),
    ((A.t().contiguous().t(), B), "an argument with other strides"),
    ((A[:1].expand(2, 3), B[:1].expand(3)), "expanded arguments"),
    ((torch.full((2, 3), NAN), B), "NaN"),
]


def check_13_4(graphed):
    """graphed(replay, buffers, results) -> function(*arguments) -> results that are the caller's own."""

    def trial():
        replay, buffers, results = recording()
        function = graphed(replay, list(buffers), list(results))
        if function is None:
            return "your function returned None; write its body first"
        kept = []
        for (a, b), about in CALLS:
            before = a.clone(), b.clone()
            got = function(a, b)
            wanted = [a + b, a * 2]
            if got is None or len(got) != 2:
                return f"{about}: return the two results"
            for value, want in zip(got, wanted):
                if not torch.equal(value.nan_to_num(9e9), want.nan_to_num(9e9)):
                    return f"{about}: expected {want.tolist()}, got {value.tolist()}"
            if not all(torch.equal(x.nan_to_num(9e9), y.nan_to_num(9e9)) for x, y in zip((a, b), before)):
                return f"{about}: an argument was changed"
            for earlier, want, name in kept:
                if not torch.equal(earlier.nan_to_num(9e9), want.nan_to_num(9e9)):
                    return f"{about}: the result of {name} was overwritten by this call"
            kept += [(value, want, about) for value, want in zip(got, wanted)]
        return None

    def own_results():
        replay, buffers, results = recording()
        function = graphed(replay, list(buffers), list(results))
        (total, _), wanted = function(A, B), A + B
        total.zero_()
        again = function(total, B)
        if not torch.equal(again[0], torch.zeros(2, 3) + B):
            return "a result that is the next call's argument: it was changed before it was read"
        return (
            None
            if torch.equal(function(A, B)[0], wanted)
            else "the caller wrote into its result, and the next was wrong"
        )

    return judge([trial, own_results], "in goes a copy, out comes a copy")
