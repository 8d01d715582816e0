"""Checks for chapter 08: what crosses, what is computed again, the cheapest choice, a program without writes."""

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from .verdict import expect, judge

# --- 1: what crosses --------------------------------------------------------------------------------------
PLAIN = {"x": [], "a": ["x"], "b": ["a"], "g": [], "c": ["g", "a"], "d": ["c", "b"]}
CROSSINGS = [  # (graph, tangents, what crosses, what this tries)
    (PLAIN, {"g"}, ["a", "b"], "two values that the backward reads"),
    ({"x": [], "y": ["x"], "g": [], "d": ["g", "x"]}, {"g"}, ["x"], "an input crosses like any other value"),
    ({"x": [], "y": ["x"], "g": [], "d": ["g"]}, {"g"}, [], "a sum needs nothing of its input"),
    ({"x": [], "a": ["x"], "g": [], "d": ["g", "a"], "e": ["d", "a"]}, {"g"}, ["a"], "one value that is read twice"),
    (
        {"x": [], "y": ["x"], "g": [], "s": ["x"], "t": ["s"], "d": ["g", "t"]},
        {"g"},
        ["t"],
        "s and t stand behind the tangent, but do not depend on it",
    ),
    (
        {"x": [], "b": ["x"], "a": ["x"], "g": [], "d": ["g", "a"], "e": ["d", "b"]},
        {"g"},
        ["b", "a"],
        "the order is that of the graph, not of the readers",
    ),
    (
        {"x": [], "g": [], "y": ["x"], "h": [], "d": ["g", "y"], "e": ["h", "x"], "f": ["d", "e"]},
        {"g", "h"},
        ["x", "y"],
        "two results, so two tangents, and a forward value between them",
    ),
    ({"x": [], "y": ["x"]}, set(), [], "no tangent, no backward"),
]


def check_08_1(crossing):
    """crossing(graph, tangents) -> the names of the forward values that the backward reads, in order."""
    trials = [expect(crossing, (copied(g), set(t)), wanted, f"{about}: {g}") for g, t, wanted, about in CROSSINGS]
    return judge(trials, "this is what the toy saved, every one of them")


def copied(graph):
    return {name: list(reads) for name, reads in graph.items()}


# --- 2: what is computed again ----------------------------------------------------------------------------
CHAIN = {"x": [], "a": ["x"], "b": ["a"], "c": ["b"]}
DIAMOND = {"x": [], "w": [], "a": ["x", "w"], "b": ["a"], "c": ["a"], "d": ["c", "b"], "e": ["d"]}
RECOMPUTATIONS = [  # (graph, crossing, saved, draws, wanted or ValueError, what this tries)
    (CHAIN, {"c"}, set(), set(), ["a", "b", "c"], "a chain: what c is made of, too"),
    (CHAIN, {"c"}, {"c"}, set(), [], "c is saved, so a and b are not needed"),
    (CHAIN, {"c"}, {"b"}, set(), ["c"], "what is saved stops it: a is not needed"),
    (CHAIN, {"c", "a"}, {"b"}, set(), ["a", "c"], "a is needed for itself, although b is saved"),
    (CHAIN, {"x", "a"}, set(), set(), ["a"], "an input is there already"),
    (DIAMOND, {"d"}, set(), set(), ["a", "b", "c", "d"], "a diamond: a once, and before its readers"),
    (DIAMOND, {"b", "c"}, {"a"}, set(), ["b", "c"], "two readers of what is saved"),
    (DIAMOND, {"d"}, {"b"}, set(), ["a", "c", "d"], "b is saved, but c still needs a"),
    (CHAIN, {"c"}, {"b"}, {"a"}, ["c"], "a draws, and is not run again"),
    (CHAIN, {"c"}, {"b"}, {"b"}, ["c"], "b draws, and is saved"),
    (CHAIN, {"c"}, set(), {"b"}, ValueError, "b draws, and c needs it"),
    (CHAIN, set(), set(), {"a", "b"}, [], "nothing crosses"),
]


def check_08_2(again):
    """again(graph, crossing, saved, draws) -> what the backward has to run again, in order, or ValueError."""

    def trial(graph, crossing, saved, draws, wanted, about):
        def run():
            shown = f"{about}: {graph}, crossing {sorted(crossing)}, saved {sorted(saved)}, draws {sorted(draws)}"
            try:
                got = again(copied(graph), set(crossing), set(saved), set(draws))
            except ValueError:
                return None if wanted is ValueError else f"{shown}: expected {wanted}, and you raised ValueError"
            if got is None:
                return "your function returned None; write its body first"
            if wanted is ValueError:
                return f"{shown}: other numbers would be drawn; expected ValueError, got {got}"
            return None if list(got) == wanted else f"{shown}: expected {wanted}, got {got}"

        return run

    return judge([trial(*case) for case in RECOMPUTATIONS], "this is the list that the package calls recomputed")


# --- 3: the cheapest choice -------------------------------------------------------------------------------
CHOICES = [  # (graph, crossing, price of saving, price of computing again, the least total, what this tries)
    (CHAIN, {"c"}, {"a": 8, "b": 8, "c": 8}, {"a": 1, "b": 1, "c": 1}, 3, "cheap operators: compute all again"),
    (CHAIN, {"c"}, {"a": 8, "b": 8, "c": 2}, {"a": 1, "b": 1, "c": 1}, 2, "one small value: save it"),
    (CHAIN, {"c"}, {"a": 8, "b": 2, "c": 8}, {"a": 5, "b": 5, "c": 1}, 3, "save b, which the backward never reads"),
    (CHAIN, {"c"}, {"a": 8, "b": 4, "c": 8}, {"a": None, "b": 1, "c": 1}, 5, "a may never run again"),
    (CHAIN, {"c"}, {"a": None, "b": None, "c": 9}, {"a": None, "b": 1, "c": 1}, 9, "a can neither be saved nor run"),
    (
        DIAMOND,
        {"b", "c"},
        {"a": 9, "b": 4, "c": 4, "d": 1, "e": 1},
        {"a": 5, "b": 1, "c": 1, "d": 1, "e": 1},
        7,
        "a is needed by both, and computed once",
    ),
    (
        DIAMOND,
        {"b", "c"},
        {"a": 5, "b": 4, "c": 4, "d": 1, "e": 1},
        {"a": 6, "b": 1, "c": 1, "d": 1, "e": 1},
        7,
        "one saved value serves two readers",
    ),
    (
        DIAMOND,
        {"b", "e"},
        {"a": 9, "b": 3, "c": 9, "d": 2, "e": 9},
        {"a": 9, "b": 1, "c": 1, "d": 1, "e": 1},
        6,
        "d is saved in place of e, and b for itself",
    ),
    (CHAIN, {"x"}, {"a": 8, "b": 8, "c": 8}, {"a": 1, "b": 1, "c": 1}, 0, "inputs are free"),
    (CHAIN, set(), {"a": 8, "b": 8, "c": 8}, {"a": 1, "b": 1, "c": 1}, 0, "nothing crosses"),
]


def check_08_3(cheapest):
    """cheapest(graph, crossing, save, again) -> the least price at which the backward can have what it reads."""
    trials = [
        expect(
            cheapest,
            (copied(graph), set(crossing), dict(save), dict(again)),
            wanted,
            f"{about}: crossing {sorted(crossing)}, save {save}, again {again}, graph {graph}",
        )
        for graph, crossing, save, again, wanted, about in CHOICES
    ]
    return judge(trials, "a minimum cut finds the same, also for ten thousand values")


# --- 4: without writes ------------------------------------------------------------------------------------
def centre_table(table, x):
    """Adds x to the first row of the table, and takes that row's mean off the whole table."""
    first = table[0]
    before = first.sum()
    first.add_(x)
    table.sub_(first.mean())
    return before, first * 2


class NoWrites(TorchDispatchMode):
    """Raises where an operator writes to one of its arguments."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if func._schema.is_mutable:
            raise ValueError(f"{func._schema.name.split('::')[-1]} writes to a tensor")
        return func(*args, **(kwargs or {}))


def check_08_4(pure):
    """pure(table, x) -> (new table, before, result) of centre_table, without any write."""
    nan, inf = float("nan"), float("inf")
    grid = torch.arange(12.0).reshape(3, 4)
    cases = [
        (grid, torch.ones(4), "three rows of four"),
        (grid + 1, torch.arange(4.0), "other values"),
        (torch.arange(12.0).reshape(4, 3).t(), torch.ones(4), "a transposed table"),
        (grid[:, ::2], torch.ones(2), "every second column of a table"),
        (grid[:1], torch.ones(4), "one row"),
        (grid, torch.tensor(2.0), "x without dimensions"),
        (grid, torch.ones(1), "x of one number, which is repeated"),
        (torch.tensor([[1.0, nan], [2.0, 3.0]]), torch.ones(2), "nan in the first row"),
        (torch.tensor([[1.0, 2.0], [-inf, 3.0]]), torch.ones(2), "minus infinity behind the first row"),
        (torch.empty(2, 0), torch.empty(0), "rows without elements"),
        (grid, torch.ones(4, dtype=torch.float64), "x in float64: a write keeps the type of the table"),
        (grid.to(torch.bfloat16), torch.full((4,), 0.3), "a table in bfloat16: each write rounds"),
    ]

    def trial(table, x, about):
        def run():
            given, expected = (table.clone(), x.clone()), table.clone()
            wanted = (expected, *centre_table(expected, x))
            with NoWrites():
                got = pure(*given)
            if got is None:
                return "your function returned None; write its body first"
            if not torch.equal(given[0].nan_to_num(), table.nan_to_num()) or len(got) != 3:
                return f"{about}: return three tensors, and leave the table as it is"
            for name, a, b in zip(("the new table", "before", "the result"), got, wanted, strict=True):
                if a.dtype != b.dtype or a.shape != b.shape:
                    kinds = f"{b.dtype} {tuple(b.shape)}, got {a.dtype} {tuple(a.shape)}"
                    return f"{about}: {name} should be {kinds}"
                if not torch.allclose(a, b, rtol=0, atol=0, equal_nan=True):
                    return f"{about}: {name} should be {b.tolist()}, got {a.tolist()}"
            return None

        return run

    return judge([trial(*case) for case in cases], "a compiler could now reorder, share and drop these operators")
