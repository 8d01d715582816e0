"""Checks for chapter 09: the walk through memory, positions of a reshape, a lowering, a decomposition."""

import itertools
import math

import torch
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils._python_dispatch import TorchDispatchMode

from minicompile.inductor import interpreter, verify
from minicompile.inductor.graph import GraphLowering, TensorValue
from minicompile.inductor.lowering import LOWERINGS

from .verdict import expect, judge

# --- 1: the walk ------------------------------------------------------------------------------------------
WALKS = [  # (sizes, strides, offset, addresses, what this tries)
    ((2, 3), (3, 1), 0, [0, 1, 2, 3, 4, 5], "a matrix in order"),
    ((3, 2), (1, 3), 0, [0, 3, 1, 4, 2, 5], "its transpose"),
    ((2, 2), (6, 2), 1, [1, 3, 7, 9], "every second column, from the second on"),
    ((4,), (1,), 5, [5, 6, 7, 8], "one dimension, and not from the beginning"),
    ((2, 3), (0, 1), 0, [0, 1, 2, 0, 1, 2], "a row that is broadcast: stride 0"),
    ((2, 1, 2), (2, 9, 1), 0, [0, 1, 2, 3], "three dimensions, one of them of size 1"),
    ((2, 2, 2), (1, 2, 4), 0, [0, 4, 2, 6, 1, 5, 3, 7], "three dimensions, the first is the contiguous one"),
    ((3,), (-1,), 2, [2, 1, 0], "a flipped row: a negative stride"),
    ((), (), 7, [7], "a tensor without dimensions has one element"),
    ((2, 0), (1, 1), 0, [], "no columns, no elements"),
    ((0, 2), (2, 1), 3, [], "no rows, no elements"),
]


def check_09_1(walk):
    """walk(sizes, strides, offset) -> the addresses, in order, the last dimension innermost."""
    trials = [
        expect(walk, (sizes, strides, offset), wanted, f"{about}: sizes {sizes}, strides {strides}, offset {offset}")
        for sizes, strides, offset, wanted, about in WALKS
    ]
    return judge(trials, "this is what the picture shows below each access")


# --- 2: another shape -------------------------------------------------------------------------------------
SHAPES = [  # (new size, old size, what this tries)
    ((2, 6), (3, 4), "rows become longer"),
    ((12,), (3, 4), "all in one row"),
    ((3, 4), (12,), "one row becomes a matrix"),
    ((4, 3, 2), (2, 3, 4), "three dimensions into three others"),
    ((2, 1, 6), (3, 1, 4), "dimensions of size 1"),
    ((6,), (2, 3), "the two old sizes differ"),
    ((1,), (), "into a tensor without dimensions: its position is ()"),
    ((), (1, 1), "out of a tensor without dimensions"),
    ((5, 7), (7, 5), "no size divides another"),
]


def check_09_2(old_position):
    """old_position(position, new, old) -> the position in the old tensor, as a tuple."""

    def trial(new, old, about):
        def run():
            numbers = torch.arange(math.prod(old)).reshape(old)
            again = numbers.reshape(new)
            for position in itertools.product(*map(range, new)):
                got = old_position(position, new, old)
                if got is None:
                    return "your function returned None; write its body first"
                shown = f"{about}: position {position} of {new}, which was {old}: "
                wanted = next(p for p in itertools.product(*map(range, old)) if numbers[p] == again[position])
                if tuple(got) != wanted:
                    return f"{shown}expected {wanted}, got {got}"
            return None

        return run

    return judge([trial(*case) for case in SHAPES], "`delinearize` in indexing.py does that with loop variables")


# --- 3: a lowering ----------------------------------------------------------------------------------------
ROTATIONS = [  # (shape, k, dims, what this tries)
    ((3, 4), 1, (0, 1), "by 90 degrees"),
    ((3, 4), 2, (0, 1), "by 180 degrees: the size stays"),
    ((3, 4), 3, (0, 1), "by 270 degrees"),
    ((3, 4), 0, (0, 1), "not at all"),
    ((3, 4), 5, (0, 1), "five times is once"),
    ((3, 4), -1, (0, 1), "backwards"),
    ((3, 4), 1, (1, 0), "from the second dimension towards the first"),
    ((2, 3, 4), 1, (0, 2), "three dimensions"),
    ((2, 3, 4), 1, (-1, 1), "dimensions that are counted from the end"),
    ((2, 3, 4), -6, (1, -1), "backwards, more than once around"),
    ((0, 3), 1, (0, 1), "no elements"),
]


def check_09_3(rot90):
    """rot90(x, k, dims): the lowering of aten.rot90, put in place of whatever lowers it."""

    def trial(shape, k, dims, strided, about):
        def run():
            x = torch.arange(float(math.prod(shape))).reshape(shape)
            x = x.repeat_interleave(2, -1)[..., ::2] if strided else x
            gm = make_fx(lambda x: torch.rot90(x, k, dims), tracing_mode="fake")(x)
            answers = []

            def rule(*args):
                answers.append(rot90(*args))
                return answers[0].realize() if isinstance(answers[0], TensorValue) else NotImplemented

            shown = f"{about}: k = {k}, dims = {dims} of {shape}"
            try:
                graph = GraphLowering(gm, [x], {**LOWERINGS, torch.ops.aten.rot90: rule}).run()
            except AssertionError as error:
                return f"{shown}: {str(error).split(': ', 1)[-1]}"
            if answers[0] is None:
                return "your function returned None; write its body first"
            if not isinstance(answers[0], TensorValue):
                return f"{shown}: return a TensorValue, for example x.view(size, reindex)"
            verify.verify_graph(graph)
            (got,), wanted = interpreter.Interpreter(graph)(x), torch.rot90(x, k, dims)
            if got.shape != wanted.shape:
                return f"{shown}: expected the size {tuple(wanted.shape)}, got {tuple(got.shape)}"
            return None if torch.equal(got, wanted) else f"{shown}: expected {wanted.tolist()}, got {got.tolist()}"

        return run

    trials = [trial(*case[:3], strided, case[3]) for case in ROTATIONS for strided in (False, True)]
    return judge(trials, "the package would call eager here; yours fuses with its neighbours")


# --- 4: a decomposition -----------------------------------------------------------------------------------
class Simple(TorchDispatchMode):
    """Raises where the operator itself, or one that contains it, is called."""

    FORBIDDEN = ("logsumexp", "log_softmax", "softmax", "logaddexp", "logcumsumexp")

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if any(name in str(func) for name in self.FORBIDDEN):
            raise ValueError(f"{func} is what you are to take apart")
        return func(*args, **(kwargs or {}))


def check_09_4(logsumexp):
    """logsumexp(x) -> torch.logsumexp(x, -1), in simpler operators."""
    nan, inf = float("nan"), float("inf")
    grid = torch.linspace(-3, 3, 12).reshape(3, 4)
    cases = [
        (grid, "three rows of four"),
        (grid[0], "one row"),
        (grid.t(), "a transposed tensor"),
        (grid[:, ::2], "every second column"),
        (torch.tensor([[1000.0, 1000.0]]), "exp(1000) is infinite"),
        (torch.tensor([[-1000.0, -1000.0]]), "exp(-1000) is 0, and the logarithm of 0 is -inf"),
        (torch.tensor([[-inf, 0.0], [-inf, 5.0]]), "minus infinity beside a number counts nothing"),
        (torch.tensor([[-inf, -inf]]), "nothing but minus infinity"),
        (torch.tensor([[inf, 0.0], [inf, inf]]), "infinity"),
        (torch.tensor([[inf, -inf]]), "both infinities"),
        (torch.tensor([[nan, 1.0], [2.0, 3.0]]), "nan in one row"),
        (grid.double(), "float64 stays float64"),
        (torch.ones(2, 1, 3), "three dimensions"),
        (torch.tensor(2.5), "a tensor without dimensions"),
        (torch.empty(0, 3), "no rows"),
    ]

    def trial(x, about):
        def run():
            before, wanted = x.clone(), torch.logsumexp(x, -1)
            with Simple():
                got = logsumexp(x)
            if got is None:
                return "your function returned None; write its body first"
            if not torch.equal(before.nan_to_num(), x.nan_to_num()):
                return f"{about}: you changed x"
            if got.dtype != wanted.dtype or got.shape != wanted.shape:
                kinds = f"{wanted.dtype} {tuple(wanted.shape)}, got {got.dtype} {tuple(got.shape)}"
                return f"{about}: expected {kinds}"
            if not torch.allclose(got, wanted, rtol=1e-5, atol=1e-6, equal_nan=True):
                return f"{about}: {x.tolist()} gives {wanted.tolist()}, got {got.tolist()}"
            return None

        return run

    return judge([trial(*case) for case in cases], "PyTorch's own rule reads much the same")
