"""Checks for chapter 04: the same constant, reading paths once, what to ask first, a module that need not recompile."""

import enum
import itertools

import torch

import minicompile
from minicompile.testing import CompileCounter

from .verdict import expect, judge


# --- 1: the same constant -------------------------------------------------------------------------------
class Count(int):
    """An int by another name: its `repr` is an int's, too."""


class Level(enum.IntEnum):
    LOW = 1


def check_04_1(same):
    """same(value, expected) -> whether a graph captured with `expected` may run with `value`."""
    nan = float("nan")
    trials = [
        expect(same, (3, 3), True, "the same number"),
        expect(same, (3, 4), False, "another number"),
        expect(same, (10**20, int("1" + "0" * 20)), True, "equal numbers need not be one object"),
        expect(same, (True, 1), False, "True is equal to 1, and not the same"),
        expect(same, (2, 2.0), False, "2.0 is equal to 2, and makes another dtype"),
        expect(same, (Level.LOW, 1), False, "a member of an IntEnum is equal to its number"),
        expect(same, (Count(3), 3), False, "a subclass may compute differently, even if it looks the same"),
        expect(same, (-0.0, 0.0), False, "0.0 and -0.0 are equal; divide by them"),
        expect(same, (float("nan"), nan), True, "nan is not equal to itself, but it is the same constant"),
        expect(same, (None, 0), False, "None is no number"),
        expect(same, ("ab", "a" + "b"), True, "equal texts"),
        expect(same, ("1", 1), False, "a text is no number"),
        expect(same, ((1, 2), (1, 2)), True, "equal tuples"),
        expect(same, ((1, 2), (1, 2, 3)), False, "tuples of different length"),
        expect(same, ((1, (True,)), (1, (1,))), False, "inside a tuple, inside a tuple"),
        expect(same, ((Count(3),), (3,)), False, "a subclass inside a tuple"),
        expect(same, ((nan, -0.0), (float("nan"), -0.0)), True, "nan inside a tuple"),
        expect(same, ((), ()), True, "empty tuples"),
    ]
    return judge(trials, "neither stale nor needless: same_constant in guard_checks.py")


# --- 2: reading paths once --------------------------------------------------------------------------------
DEEP = [("self", "heads", 0, "scale"), ("self", "heads", 0, "proj", "weight"), ("self", "heads", 1, "scale")]
TYPED = [("s", 1, "a"), ("s", True, "a"), ("s", "1", "a"), ("s", 1, "b")]


def prefixes(paths):
    """Every path to be read: those of a step or more."""
    return {spelled(path[:k]) for path in paths for k in range(2, len(path) + 1)}


def spelled(path):
    """Equal only for paths whose steps have the same types too."""
    return tuple((type(step), step) for step in path)


def check_04_2(reads):
    """reads(paths) -> all paths that have to be read, each once, parents before children."""

    def trial(paths, about):
        def run():
            got = reads(list(paths))
            if got is None:
                return "your function returned None; write its body first"
            spellings = [spelled(tuple(path)) for path in got]
            wanted = prefixes(paths)
            for k, path in enumerate(spellings):
                if path in spellings[:k]:
                    return f"{about}: {tuple(got[k])} is read twice"
                if path not in wanted:
                    return f"{about}: nobody needs {tuple(got[k])}"
                if len(path) > 2 and path[:-1] not in spellings[:k]:
                    return f"{about}: {tuple(got[k])} is read before the value that it is read from"
            missing = wanted - set(spellings)
            if missing:
                lost = tuple(step for _, step in min(missing, key=len))
                return f"{about}: {lost} is missing from {got}"
            return None

        return run

    trials = [
        trial([("x", "shape")], "one path of one step"),
        trial([("self", "a", "b", "c")], "a path of three steps is three reads"),
        trial([("x",), ("x", "shape"), ("y",)], "roots are arguments: they are there already"),
        trial(DEEP, "three paths that share their beginnings"),
        trial(DEEP[::-1], "the same paths in another order"),
        trial([("self", "a", "b"), ("self", "a")], "a path that is the beginning of an earlier one"),
        trial([("self", "a"), ("other", "a")], "two roots share nothing"),
        trial(TYPED, "s[1], s[True] and s['1']"),
        trial([], "no paths at all"),
    ]
    return judge(trials, "that is what the check of a model does: each module is read once")


# --- 3: what to ask first -----------------------------------------------------------------------------------
def expected_cost(checks):
    """Each check is paid for if all before it held."""
    total, reached = 0.0, 1.0
    for _, cost, chance in checks:
        total += reached * cost
        reached *= 1 - chance
    return total


def check_04_3(order):
    """order(checks) -> the names, in an order of the least expected cost."""

    def trial(checks, about):
        def run():
            got = order(list(checks))
            if got is None:
                return "your function returned None; write its body first"
            by_name = {name: (name, cost, chance) for name, cost, chance in checks}
            if sorted(got) != sorted(by_name):
                return f"{about}: {list(got)} are not all the names"
            best = min(expected_cost(each) for each in itertools.permutations(checks))
            cost = expected_cost([by_name[name] for name in got])
            if cost > best * (1 + 1e-9):
                return f"{about}: {list(got)} costs {cost:.2f} on average, and {best:.2f} is possible"
            return None

        return run

    trials = [
        trial([("type", 1, 0.5)], "one check"),
        trial([("a", 5, 0.5), ("b", 1, 0.5)], "equally likely to fail: the cheap one first"),
        trial([("a", 2, 0.1), ("b", 2, 0.9)], "equally cheap: the one that fails more often first"),
        trial([("shape", 4, 0.8), ("type", 1, 0.01)], "a check that nearly always fails may cost more"),
        trial([("shape", 9, 0.3), ("flag", 1, 0.2)], "one that fails a little less often, and costs a ninth"),
        trial([("always", 1, 0.0), ("shape", 50, 0.01)], "a check that never fails can wait, however cheap"),
        trial([("a", 1, 0.0), ("b", 3, 0.0), ("c", 2, 1.0)], "a check that surely fails ends it at once"),
        trial(
            [("type", 1, 0.02), ("dtype", 2, 0.1), ("shape", 3, 0.4), ("keys", 8, 0.05), ("grad", 1, 0.2)],
            "five checks",
        ),
        trial([], "no checks"),
    ]
    return judge(trials, "cost per chance to be done: the same rule orders the filters of a database")


# --- 4: a module that need not recompile --------------------------------------------------------------------
class Annealed(torch.nn.Module):
    """Fades in: each step of training halves what is missing."""

    def __init__(self):
        super().__init__()
        self.steps = 0

    def forward(self, x):
        if self.training:
            self.steps += 1
        return x * (1 - 0.5**self.steps)


def check_04_4(Mended):
    """Mended() -> a module that computes what Annealed() does, in two graphs."""

    def follows(modes, inputs, about, answer=None):
        def run():
            theirs, ours = Annealed(), answer() if answer else Mended()
            for step, training in enumerate(modes):
                x = inputs[step % len(inputs)]
                wanted, got = theirs.train(training)(x), ours.train(training)(x)
                if got is None:
                    return "your forward returned None; write its body first"
                if got.dtype != wanted.dtype or got.shape != wanted.shape:
                    return (
                        f"{about}: expected {wanted.dtype}, {tuple(wanted.shape)}, got {got.dtype}, {tuple(got.shape)}"
                    )
                if not torch.allclose(got, wanted, equal_nan=True):
                    return f"{about}: call {step + 1} should give {wanted.tolist()}, got {got.tolist()}"
            return None

        return run

    def independent():
        first, second = Mended(), Mended()
        first(torch.ones(1)), first(torch.ones(1))
        got = second(torch.ones(1)).item()
        return None if got == 0.5 else f"two modules count by themselves: the first call of another gave {got}, not 0.5"

    def few_graphs():
        minicompile.reset()
        counter = CompileCounter()
        module = Mended()
        compiled = minicompile.compile(module, backend=counter)
        for training in (True,) * 6 + (False,) * 6:
            module.train(training)
            compiled(torch.ones(2))
        stats = minicompile.stats()
        if stats["graph_breaks"]:
            return f"the graph breaks: {', '.join(stats['break_reasons'])}"
        reasons = [entry.recompile_reason for entry in minicompile.record.compilations if entry.recompile_reason]
        return (
            f"12 calls made {counter.graphs} graphs; the second because of {reasons[0]}" if len(reasons) > 1 else None
        )

    x, nan = torch.tensor([1.0, -2.0]), float("nan")
    trials = [
        follows([True] * 6, [x], "six steps of training"),
        follows([False, False], [x], "evaluation before any training: everything is still missing"),
        follows([True, False, False, True], [x], "evaluation does not count as a step"),
        follows([True] * 3, [torch.tensor([nan, float("inf")]), torch.empty(0), torch.tensor(3.0)], "unusual inputs"),
        follows([True] * 2, [x.double(), torch.arange(3), x.bfloat16()], "other dtypes keep theirs"),
        independent,
        few_graphs,
    ]
    return judge(trials, "what changes is in a tensor, so no guard asks which number it is")
