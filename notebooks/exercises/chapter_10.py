"""Checks for chapter 10: bytes that are moved, what lies between, loops that match, a scheduler."""

from .verdict import expect, judge

# --- 1: traffic -------------------------------------------------------------------------------------------
SIZES = {"x": 100, "y": 10, "a": 100, "b": 100, "c": 100, "s": 1}
TRAFFIC = [  # (kernels, results, bytes, what this tries)
    ([[("a", ["x"])]], {"a"}, 200, "one kernel reads x and writes a"),
    ([[("a", ["x"])], [("b", ["a"])]], {"b"}, 400, "a is written by one and read by the other"),
    ([[("a", ["x"]), ("b", ["a"])]], {"b"}, 200, "a stays inside"),
    ([[("a", ["x"]), ("b", ["a"])]], {"a", "b"}, 300, "the caller wants a as well"),
    ([[("a", ["x"]), ("b", ["x", "a"])]], {"b"}, 200, "x is read by two lines of one kernel"),
    ([[("a", ["x", "x"])]], {"a"}, 200, "x is read twice by one line"),
    ([[("a", ["x"])], [("b", ["x"])]], {"a", "b"}, 400, "x is read by two kernels"),
    ([[("a", ["x"]), ("b", ["a"])], [("c", ["a"])]], {"b", "c"}, 500, "a is read inside and outside: written once"),
    ([[("a", ["x"])], [("b", ["a"])], [("c", ["a"])]], {"b", "c"}, 600, "a is read by two other kernels"),
    ([[("s", ["x"])], [("b", ["x", "s"])]], {"b"}, 302, "a sum is small"),
    ([[("s", ["x"]), ("b", ["x", "s"])]], {"b"}, 200, "a sum that stays inside"),
    ([[("a", ["x"]), ("b", ["y"])]], {"b"}, 210, "nobody wants a, so nobody writes it"),
    ([[("a", [])]], {"a"}, 100, "a is made of nothing"),
    ([], set(), 0, "no kernel"),
]


def check_10_1(traffic):
    """traffic(kernels, sizes, results) -> bytes."""
    trials = [
        expect(traffic, (copied(kernels), dict(SIZES), set(results)), wanted, f"{about}: {kernels}, results {results}")
        for kernels, results, wanted, about in TRAFFIC
    ]
    return judge(trials, "`Schedule.bytes_after` is this number")


def copied(kernels):
    return [[(name, list(reads)) for name, reads in kernel] for kernel in kernels]


# --- 2: in between ----------------------------------------------------------------------------------------
LINE = {"a": set(), "b": {"a"}, "c": {"b"}, "d": {"c"}}
BOTH = {"a": set(), "b": {"a"}, "c": {"a", "b"}}
WIDE = {"a": set(), "b": {"a"}, "c": {"a"}, "d": {"b", "c"}, "e": {"d", "a"}, "f": set()}
BETWEEN = [  # (reads, a, b, may they fuse, what this tries)
    (LINE, "a", "b", True, "b reads a, and nothing else"),
    (LINE, "a", "c", False, "b lies between"),
    (LINE, "a", "d", False, "two lie between"),
    (LINE, "d", "a", False, "the same, asked from the other end"),
    (LINE, "c", "b", True, "c reads b, asked from the other end"),
    (BOTH, "a", "c", False, "c reads a itself, and b as well, which reads a"),
    (BOTH, "b", "c", True, "a lies before both, not between"),
    (WIDE, "b", "c", True, "two readers of a, side by side"),
    (WIDE, "b", "d", True, "c does not read b"),
    (WIDE, "a", "e", False, "a long way around leads through d"),
    (WIDE, "f", "e", True, "they have nothing to do with each other"),
    (WIDE, "a", "f", True, "nor have these"),
]


def check_10_2(may_fuse):
    """may_fuse(reads, a, b) -> whether no third kernel has to run after one and before the other."""

    def trial(reads, a, b, wanted, about):
        plain = {name: set(sources) for name, sources in reads.items()}
        return expect(may_fuse, (plain, a, b), wanted, f"{about}: {a} and {b} in {reads}")

    return judge([trial(*case) for case in BETWEEN], "no kernel will wait for itself")


# --- 3: same loops ----------------------------------------------------------------------------------------
MATCHES = [  # (first, second, wanted, what this tries)
    ((0, {"i": (8, 1)}), (0, {"j": (8, 1)}), {"j": "i"}, "one loop each"),
    (
        (0, {"i0": (3, 4), "i1": (4, 1)}),
        (0, {"j0": (3, 4), "j1": (4, 1)}),
        {"j0": "i0", "j1": "i1"},
        "both in order",
    ),
    (
        (0, {"i0": (3, 4), "i1": (4, 1)}),
        (0, {"j0": (4, 1), "j1": (3, 4)}),
        {"j0": "i1", "j1": "i0"},
        "the second one runs over the transpose",
    ),
    ((0, {"i": (8, 1)}), (0, {"j": (8, 2)}), None, "another step: every second cell"),
    ((0, {"i": (8, 1)}), (0, {"j": (4, 1)}), None, "another size"),
    ((0, {"i": (8, 1)}), (1, {"j": (8, 1)}), None, "the neighbour's cell"),
    ((0, {"i": (8, 1)}), (7, {"j": (8, -1)}), None, "the same cells, from the other end"),
    ((0, {"i0": (3, 4), "i1": (4, 1)}), (0, {"j0": (4, 4), "j1": (3, 1)}), None, "the right steps, the wrong sizes"),
    ((0, {"i0": (3, 4), "i1": (4, 1)}), (0, {"j0": (12, 1)}), None, "two loops and one: a loop would have to be split"),
    ((0, {"i0": (3, 0), "i1": (4, 1)}), (0, {"j1": (4, 1)}), None, "a row that is read three times, and one read once"),
    (
        (5, {"i0": (2, 12), "i1": (3, 1), "i2": (4, 3)}),
        (5, {"j0": (4, 3), "j1": (2, 12), "j2": (3, 1)}),
        {"j0": "i2", "j1": "i0", "j2": "i1"},
        "three loops, and both begin at 5",
    ),
    ((3, {}), (3, {}), {}, "a single cell: no loops"),
    ((3, {}), (4, {}), None, "two single cells"),
]


def check_10_3(match):
    """match(first, second) -> {variable of second: variable of first}, or None.  Stubs also return None: so first."""

    def trial(first, second, wanted, about):
        def run():
            got = match((first[0], dict(first[1])), (second[0], dict(second[1])))
            shown = f"{about}: first {first}, second {second}"
            if got == wanted:
                return None
            if got is None:
                return f"your function returned None; write its body first, or: {shown}: expected {wanted}"
            return f"{shown}: expected {wanted}, got {got}"

        return run

    return judge([trial(*case) for case in MATCHES], "`match_loops` also splits loops where one is the product of two")


# --- 4: a scheduler ---------------------------------------------------------------------------------------
E, ROW = (64, 32), (32, 64)
PROGRAMS = [  # (kernels, results, the least bytes, what this tries)
    ({"a": (E, ["x"]), "b": (E, ["a"]), "c": (E, ["b"])}, {"c"}, 200, "a chain becomes one kernel"),
    ({"a": (E, ["x"]), "b": (ROW, ["a"])}, {"b"}, 400, "other loops"),
    ({"a": (E, ["x"]), "b": (E, ["x"])}, {"a", "b"}, 300, "two readers of x, side by side"),
    ({"a": (E, ["x"]), "m": (None, ["a"]), "b": (E, ["m", "a"])}, {"b"}, 700, "a call between"),
    ({"a": (None, ["x"]), "b": (None, ["a"])}, {"b"}, 400, "calls stay alone"),
    (
        {"a": (E, ["x"]), "m": (None, ["a"]), "b": (E, ["a"]), "c": (E, ["m", "b"])},
        {"c"},
        700,
        "b may join a or c, and with c it is not stored",
    ),
    (
        {"a": (E, ["x"]), "b": (ROW, ["x"]), "c": (E, ["a"]), "d": (ROW, ["b"])},
        {"c", "d"},
        400,
        "two chains that take turns",
    ),
    (
        {"a": (E, ["x"]), "b": (ROW, ["a"]), "c": (E, ["a", "b"]), "d": (E, ["c", "a"])},
        {"d"},
        700,
        "b reads a and is read by c: it lies between",
    ),
    ({"a": (E, []), "b": (E, [])}, {"a", "b"}, 200, "nothing is read"),
    ({}, set(), 0, "no kernel"),
]


def moved(groups, kernels, results):
    """Bytes that are moved when each group is a kernel and every array has 100 bytes."""
    total = 0
    for group in groups:
        read = {source for name in group for source in kernels[name][1]} - set(group)
        outside = results | {s for name, (_, reads) in kernels.items() if name not in group for s in reads}
        total += 100 * (len(read) + len(set(group) & outside))
    return total


def impossible(groups, kernels):
    """Why these groups cannot run in this order, or None."""
    names = [name for group in groups for name in group]
    if sorted(names) != sorted(kernels):
        return f"every kernel must be in one group: {groups}"
    done = set()
    for group in groups:
        loops = {kernels[name][0] for name in group}
        if len(group) > 1 and (len(loops) > 1 or None in loops):
            return f"{group} have other loops, or one is a call"
        late = {s for name in group for s in kernels[name][1] if s in kernels and s not in group} - done
        if late:
            return f"{group} reads {sorted(late)}, which has not run yet: {groups}"
        done.update(group)
    return None


def check_10_4(schedule):
    """schedule(kernels, results) -> groups in an order that runs, and that moves the least bytes."""

    def trial(kernels, results, least, about):
        def run():
            given = {name: (loops, list(reads)) for name, (loops, reads) in kernels.items()}
            got = schedule(given, set(results))
            if got is None:
                return "your function returned None; write its body first"
            groups = [list(group) for group in got]
            wrong = impossible(groups, kernels)
            if wrong:
                return f"{about}: {wrong}"
            total = moved(groups, kernels, results)
            return None if total <= least else f"{about}: {groups} moves {total} bytes, {least} would do ({kernels})"

        return run

    return judge([trial(*case) for case in PROGRAMS], "this is a scheduler; the real one also finds the loops")
