"""Checks for chapter 07: counting graphs, broadcasting symbolic sizes, strides in symbols, a loop over a size."""

import torch

import minicompile
from minicompile.testing import CompileCounter

from .verdict import expect, judge

# --- 1: counting graphs -----------------------------------------------------------------------------------
SIZES = [  # (sizes of the calls, graphs, what this tries)
    ([7], 1, "one call"),
    ([7, 7, 7], 1, "the same size three times"),
    ([4, 6], 2, "a second size"),
    ([4, 6, 9, 100, 5], 2, "five sizes: the second makes the dimension symbolic"),
    ([4, 6, 4], 2, "back to the first: its entry is still there, and the other would take it too"),
    ([4, 6, 1], 3, "1 is never symbolic"),
    ([4, 6, 1, 0], 4, "0 and 1 are static, each by itself"),
    ([4, 6, 1, 0, 1, 0, 9], 4, "0 and 1 a second time"),
    ([1, 4, 6], 2, "1 comes first: 4 is already the second size"),
    ([4, 1, 6], 3, "4 and 1 are static; only then comes a symbolic one"),
    ([0, 1, 2, 3], 3, "0, 1, and a symbolic size"),
    ([4, 1, 4, 4], 2, "4 has an entry, although the dimension has become symbolic in between"),
    ([], 0, "no call at all"),
]


def check_07_1(graphs):
    """graphs(sizes) -> how many graphs dynamic=None makes for a function of one vector."""
    trials = [expect(graphs, (list(sizes),), wanted, f"{about}, {sizes}") for sizes, wanted, about in SIZES]
    return judge(trials, "you can now say in advance what a loader with a last, smaller batch will cost")


# --- 2: broadcasting ----------------------------------------------------------------------------------------
class Size:
    """A number of this call, greater than 1, with a name for all calls.  Comparing it notes the question."""

    def __init__(self, number, name, notes):
        self.number, self.name, self.notes = number, name, notes

    def __eq__(self, other):
        self.notes.append(f"{self.name} == {other}")
        return self.number == (other.number if isinstance(other, Size) else other)

    def __ne__(self, other):
        return not self == other

    __hash__ = None

    def __repr__(self):
        return self.name


def spelled(shape):
    return [str(size) for size in shape]


def check_07_2(broadcast):
    """broadcast(a, b) -> the shape of the sum as a tuple, or ValueError; asks only what has to be asked."""

    def trial(build, wanted, questions, about):
        def run():
            notes = []
            s, t, u = Size(5, "s", notes), Size(7, "t", notes), Size(5, "u", notes)
            a, b = build(s, t, u)
            shown = f"{about}: {a} and {b}"
            try:
                got = broadcast(a, b)
            except ValueError:
                return None if wanted is None else f"{shown} fit, and you raised ValueError"
            if got is None:
                return "your function returned None; write its body first"
            if wanted is None:
                return f"{shown} do not fit: expected ValueError, got {got}"
            if not isinstance(got, tuple) or spelled(got) not in [spelled(each) for each in wanted]:
                return f"{shown}: expected {wanted[0]}, got {got}"
            asked = [set(note.split(" == ")) for note in notes]
            for note, parts in zip(notes, asked):
                if parts not in [set(question.split(" == ")) for question in questions]:
                    return f"{shown}: you asked {note}, which becomes a guard that nobody needs"
            if len(asked) < len(questions):
                return f"{shown}: nobody asked {questions[0]}, so the next call may have other sizes"
            return None

        return run

    trials = [
        trial(lambda s, t, u: ((3, 4), (3, 4)), [("3", "4")], [], "ints only"),
        trial(lambda s, t, u: ((3, 1), (1, 4)), [("3", "4")], [], "an int 1 gives way"),
        trial(lambda s, t, u: ((3,), (4,)), None, [], "two ints"),
        trial(lambda s, t, u: ((2, 3, 4), (4,)), [("2", "3", "4")], [], "shapes are compared from the right"),
        trial(lambda s, t, u: ((4,), (2, 3, 4)), [("2", "3", "4")], [], "the shorter one may come first"),
        trial(lambda s, t, u: ((), (3,)), [("3",)], [], "a tensor without dimensions"),
        trial(lambda s, t, u: ((0,), (1,)), [("0",)], [], "0 and 1: nothing is repeated no times"),
        trial(lambda s, t, u: ((s, 4), (1, 4)), [("s", "4")], [], "a symbolic size and an int 1"),
        trial(lambda s, t, u: ((4,), (s, 4)), [("s", "4")], [], "a symbolic size and nothing"),
        trial(lambda s, t, u: ((s, t), (s, t)), [("s", "t")], [], "the same symbolic sizes"),
        trial(lambda s, t, u: ((s,), (u,)), [("s",), ("u",)], ["s == u"], "two symbolic sizes that are equal today"),
        trial(lambda s, t, u: ((s,), (t,)), None, [], "two symbolic sizes that differ"),
        trial(
            lambda s, t, u: ((s, 3), (5, 3)), [("5", "3")], ["s == 5"], "a symbolic size and an int: now it is known"
        ),
        trial(lambda s, t, u: ((5,), (s,)), [("5",)], ["s == 5"], "the int may come first"),
        trial(lambda s, t, u: ((s,), (6,)), None, [], "a symbolic size and another int"),
        trial(lambda s, t, u: ((0,), (s,)), None, [], "a symbolic size is never 0"),
    ]
    return judge(trials, "this is what PyTorch asks a SymInt when it adds two tensors")


# --- 3: strides -----------------------------------------------------------------------------------------------
def check_07_3(strides):
    """strides(shape) -> ints and expressions: the strides of a contiguous tensor."""

    def trial(shape, about):
        def run():
            got = strides(tuple(shape))
            if got is None:
                return "your function returned None; write its body first"
            if len(got) != len(shape):
                return f"{about}: {shape} has {len(shape)} dimensions, got {got}"
            for number in (2, 3, 7):
                values = {name: number + k for k, name in enumerate(("s0", "s1", "s2"))}
                sizes = [values.get(size, size) for size in shape]
                wanted = list(torch.empty(sizes, device="meta").stride())
                numbers = [eval(each, {}, values) if isinstance(each, str) else each for each in got]
                if numbers != wanted:
                    return f"{about}: {shape} with {values} has strides {wanted}, got {got}, which is {numbers}"
            for k, each in enumerate(got):
                if isinstance(each, str) and not any(isinstance(size, str) for size in shape[k + 1 :]):
                    return f"{about}: stride {k} of {shape} depends on no name, so it must be an int, not {each!r}"
            return None

        return run

    trials = [
        trial((2, 3, 4), "ints only"),
        trial(("s0",), "one symbolic size"),
        trial(("s0", 3), "a name in front: its size is in no stride"),
        trial((3, "s0"), "a name at the end is in every stride but its own"),
        trial(("s0", 3, "s1"), "two names"),
        trial(("s0", "s1", "s2"), "three names"),
        trial((2, 3, 3), "the same size twice behind the first"),
        trial(("s1", "s0", "s0"), "the same name twice behind the first"),
        trial((4, 1, "s0", 1), "sizes of 1"),
        trial((2, 0, 3), "a size of 0 counts as 1 in the strides"),
        trial(("s0", 0, "s1"), "a size of 0 between two names"),
        trial((), "no dimensions"),
    ]
    return judge(trials, "the wrapper of this chapter allocates with strides like these")


# --- 4: a loop over a size --------------------------------------------------------------------------------------
def falling(x):
    """The sum of all rows, the first as it is, the second halved, the third divided by three, ..."""
    total = torch.zeros(x.shape[1:])
    for k in range(x.shape[0]):
        total = total + x[k] / (k + 1)
    return total


def check_07_4(mended):
    """mended(x) -> what falling(x) computes, in two graphs for all lengths."""
    nan, inf = float("nan"), float("inf")
    cases = [
        (torch.ones(3, 2), "three rows"),
        (torch.arange(12.0).reshape(4, 3), "four rows with different numbers"),
        (torch.arange(12.0).reshape(3, 4).t(), "a transposed tensor"),
        (torch.arange(10.0)[::3], "a vector: rows are numbers, the result has no dimensions"),
        (torch.arange(24.0).reshape(2, 3, 4), "rows of two dimensions"),
        (torch.ones(1, 5), "one row"),
        (torch.empty(0, 5), "no rows: the sum is zero"),
        (torch.empty(3, 0), "rows without elements"),
        (torch.tensor([[nan, 1.0], [2.0, -inf]]), "nan and minus infinity stay in their column"),
        (torch.arange(6).reshape(3, 2), "integers: the result is not"),
        (torch.ones(3, 2, dtype=torch.float64), "float64 stays float64"),
    ]

    def trial(x, about):
        def run():
            got, wanted = mended(x), falling(x)
            if got is None:
                return "your function returned None; write its body first"
            if got.shape != wanted.shape or got.dtype != wanted.dtype:
                kinds = f"{wanted.dtype} {tuple(wanted.shape)}, got {got.dtype} {tuple(got.shape)}"
                return f"{about}: the result should be {kinds}"
            if not torch.allclose(got, wanted, equal_nan=True):
                return f"{about}: expected {wanted.tolist()}, got {got.tolist()}"
            return None

        return run

    def few_graphs():
        minicompile.reset()
        counter = CompileCounter()
        compiled = minicompile.compile(mended, backend=counter)
        for n in range(2, 9):
            compiled(torch.ones(n, 3))
        stats = minicompile.stats()
        if stats["graph_breaks"]:
            return f"the graph breaks: {', '.join(stats['break_reasons'])}"
        if counter.graphs > 2:
            reason = minicompile.record.compilations[-1].recompile_reason.partition("\n")[0]
            return f"7 lengths made {counter.graphs} graphs; the last because of {reason}"
        return None

    return judge([*(trial(*case) for case in cases), few_graphs], "the loop is gone, and with it the number")
