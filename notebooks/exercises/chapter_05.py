"""Checks for chapter 05: what a resume function needs, the trampoline, reading a report, mending breaks."""

import torch

import minicompile

from .verdict import expect, judge

# --- 1: what a resume function needs --------------------------------------------------------------------
STRAIGHT = [("load", "x"), ("store", "y"), ("load", "y"), ("load", "x"), ("return",)]
KILLED = [("load", "a"), ("store", "b"), ("load", "b"), ("return",), ("load", "q")]
BRANCH = [("load", "x"), ("branch", 5), ("store", "y"), ("load", "y"), ("jump", 6), ("load", "z"), ("return",)]
LOOP = [("load", "n"), ("branch", 5), ("load", "x"), ("store", "x"), ("jump", 0), ("return",)]
TWO_WAYS = [("branch", 2), ("store", "y"), ("load", "y"), ("return",)]


def check_05_1(needed):
    """needed(program, place) -> the set of names that may be loaded, before they are stored, from `place` on."""
    trials = [
        expect(needed, (STRAIGHT, 2), {"x", "y"}, "both are loaded behind the break"),
        expect(needed, (STRAIGHT, 4), set(), "nothing is loaded any more"),
        expect(needed, (STRAIGHT, 0), {"x"}, "`y` is stored before it is loaded: nobody needs the old one"),
        expect(needed, (KILLED, 1), set(), "`b` is stored first, and nothing runs behind a return"),
        expect(needed, (BRANCH, 1), {"z"}, "a branch goes on at its target or at the next instruction"),
        expect(needed, (BRANCH, 4), set(), "a jump goes on at its target only"),
        expect(needed, (TWO_WAYS, 0), {"y"}, "one of the two ways loads `y` without a store: that is enough"),
        expect(needed, (LOOP, 3), {"n"}, "a loop: round again `n` is loaded; `x` was stored on the way"),
        expect(needed, (LOOP, 4), {"n", "x"}, "a loop: behind the store, the next round loads `x`"),
        expect(needed, ([("jump", 0)], 0), set(), "a loop without an end must not hang the compiler"),
    ]
    return judge(trials, "that is liveness: dead values are neither rebuilt nor kept alive")


# --- 2: the trampoline ------------------------------------------------------------------------------------
class Next:
    """What a piece of a function returns where the graph broke again: call this next."""

    def __init__(self, function, *arguments):
        self.function, self.arguments = function, arguments


def count_down(n, steps):
    return Next(count_down, n - 1, steps + 1) if n > 0 else steps


def fails(n):
    if n == 0:
        raise LookupError("in the last piece")
    return Next(fails, n - 1)


def check_05_2(run):
    """run(function, *arguments) -> what the last piece returns."""

    def passes_on():
        try:
            run(fails, 2)
        except LookupError:
            return None
        return "an exception in a piece must reach the caller"

    def flat():
        try:
            got = run(count_down, 50_000, 0)
        except RecursionError:
            return "50,000 pieces overflow the stack: return to a loop between two pieces"
        return None if got == 50_000 else f"50,000 pieces: expected 50000, got {got!r}"

    def returns(value):
        return lambda: value

    def is_itself(value):
        def trial():
            got = run(Next, returns(value))
            return None if got is value else f"a piece may return {value!r}: that is the result, got {got!r}"

        return trial

    trials = [
        expect(run, (max, 2, 3), 3, "a function that does not break at all"),
        expect(run, (count_down, 1, 0), 1, "one break"),
        expect(run, (count_down, 3, 0), 3, "several breaks, each with two arguments"),
        *(is_itself(value) for value in (0, None, (), print, (print, 1))),
        passes_on,
        flat,
    ]
    return judge(trials, "a loop with a thousand breaks now runs on a flat stack")


# --- 3: reading a report ------------------------------------------------------------------------------------
def no_break(x):
    return x * 2


def prints(x):
    y = x + 1
    print(end="")
    return y * 2


def inner(x):
    y = x * 2
    return y if y.sum() > 0 else -y


def outer(x):
    return inner(x) + 1


def only_when_large(x):
    if x.shape[0] > 3:
        x = x / x.max().item()
    return x


def check_05_3(first_break):
    """first_break(fn, *args) -> (kind, the source line that breaks, without its indentation), or None."""
    four, two = torch.arange(4.0), torch.ones(2)
    trials = [
        expect(first_break, (prints, two), ("print or input", 'print(end="")'), "a function that prints"),
        expect(first_break, (prints, two), ("print or input", 'print(end="")'), "the same function once more"),
        expect(
            first_break,
            (outer, two),
            ("data-dependent branch", "return y if y.sum() > 0 else -y"),
            "the break is in `inner`, so the line to mend is there",
        ),
        expect(
            first_break,
            (only_when_large, four),
            ("tensor read as a number", "x = x / x.max().item()"),
            "four elements take the branch",
        ),
    ]

    def none(function, about):
        def trial():
            got = first_break(function, two)
            return None if got is None else f"{about}: expected None, got {got!r}"

        return trial

    trials += [none(no_break, "no break at all"), none(only_when_large, "two elements do not come to the break")]
    return judge(trials, "you can now find the line to mend in a program that you did not write")


# --- 4: mending -------------------------------------------------------------------------------------------
def troubled(x):
    """Three breaks: centre, halve where large, and add up what is positive."""
    y = x - x.mean().item()
    if y.abs().sum() > 1:
        y = y / 2
    positive = y[y > 0]
    return y, positive.sum()


def check_05_4(mended):
    """mended(x) -> the same pair as troubled(x), in one graph."""
    nan, inf = float("nan"), float("inf")
    cases = [
        (torch.tensor([1.0, 2.0, 6.0]), "a large one: `y` is halved"),
        (torch.tensor([0.1, 0.2, 0.3]), "a small one: `y` is not halved"),
        (torch.arange(8.0)[::2], "every second element of a tensor"),
        (torch.empty(0), "an empty tensor"),
        (torch.tensor(3.0), "a number without dimensions"),
        (torch.tensor([[1.0, -1.0], [2.0, 0.5]]), "a matrix"),
        (torch.tensor([nan, 1.0]), "nan is not positive, so it is not added up"),
        (torch.tensor([-inf, 1.0, 2.0]), "minus infinity"),
    ]

    def trial(x, about):
        def run():
            got, wanted = mended(x), troubled(x)
            if got is None:
                return "your function returned None; write its body first"
            for name, ours, theirs in zip(("y", "the sum"), got, wanted, strict=True):
                if not torch.equal(torch.isnan(ours), torch.isnan(theirs)) or not torch.allclose(
                    ours.nan_to_num(7), theirs.nan_to_num(7)
                ):
                    return f"{about}: {name} should be {theirs.tolist()}, got {ours.tolist()}"
            return None

        return run

    def whole():
        minicompile.reset()
        breaks = minicompile.capture(mended, torch.arange(3.0)).breaks
        return f"it still breaks: {breaks[0].kind}; hint: {breaks[0].hint}" if breaks else None

    return judge([*(trial(*case) for case in cases), whole], "three breaks became none, and one graph holds it all")
