"""Sizes against recompiles: how often a program compiles as its sizes change, and which sizes each entry takes.

Goes in: CompileHistories (recompiles.py) of real calls.  Comes out: Pictures.
Mirrors nothing in PyTorch.  Taught in chapter 07.
"""

from . import style
from .picture import Canvas, from_figure

LINES = [style.STAGE_COLOURS["codegen"], style.STAGE_COLOURS["capture"], style.STAGE_COLOURS["lower"]]
TAKES, REFUSES = style.STAGE_COLOURS["load"], "#f1f3f5"


def draw_sizes(sizes, histories, title="Sizes against recompiles"):
    """sizes: the size in each call, as bars.  histories: {label: CompileHistory} of these calls, a line each."""
    figure, (above, below) = style.subplots(2, 1, figsize=(9, 5), sharex=True, height_ratios=[1, 2.2])
    calls = range(1, len(sizes) + 1)
    above.bar(calls, sizes, color="#c3c8ce", width=0.7)
    above.set_ylabel("size")
    above.set_title(title, loc="left")
    lines = []
    for shift, ((label, history), colour) in enumerate(zip(histories.items(), LINES)):
        assert len(history.calls) == len(sizes)
        counts = [sum(call.compiles for call in history.calls[:k]) + 0.05 * shift for k in calls]  # all to be seen
        eager = [k for k in calls if history.calls[k - 1].eager]
        below.plot(calls, counts, "-", color=colour, drawstyle="steps-post", label=label, linewidth=2)
        compiled = [k for k in calls if history.calls[k - 1].compiles]
        below.plot(compiled, [counts[k - 1] for k in compiled], "o", color=colour, markersize=6)
        if eager:
            below.plot(eager, [counts[k - 1] for k in eager], "x", color=colour, markersize=7)
        lines.append(f"{label}: compiled in calls {compiled}" + (f", eager from call {eager[0]} on" if eager else ""))
    below.set_ylabel("compiled so far")
    below.set_xlabel("call   (dot: compiles;  cross: given up, runs in eager)")
    below.set_ylim(bottom=0)
    below.yaxis.get_major_locator().set_params(integer=True)
    below.legend(loc="upper left")
    figure.align_ylabels()
    figure.tight_layout()
    text = "\n".join([f"sizes: {list(sizes)}", *lines])
    return from_figure(figure, text, "Size in each call, and how many times each way of compiling has compiled by then")


class Coverage:
    """Which sizes each entry of a cache takes: its guards, asked about every size.

    function, make: the arguments for size n are `make(n)`.  rows: [(Entry, texts of its size guards, {n: taken})].
    """

    def __init__(self, history, function, make, sizes):
        self.sizes = list(sizes)
        self.rows = []
        for entry in history.entries:
            taken = {n: bool(entry.check(function, *make(n))) for n in self.sizes}
            self.rows.append((entry, size_guards(entry), taken))

    def __repr__(self):
        lines = []
        for entry, texts, taken in self.rows:
            lines.append(f"entry {entry.number}: {ranges([n for n, takes in taken.items() if takes])}")
            lines += [f"    {text}" for text in texts]
        return "\n".join(lines)

    def _repr_mimebundle_(self, include=None, exclude=None):
        return draw_coverage(self)._repr_mimebundle_(include, exclude)


def size_guards(entry):
    """The guards about sizes, in words: those about symbols, else the shapes that are constants of this entry."""
    guards = list(entry.capture.guards)
    symbolic = [str(guard) for guard in guards if guard.kind == "shape"]
    if symbolic:
        return symbolic
    return [f"{g.source.name}.shape == {tuple(g.expected[2])}" for g in guards if g.kind == "tensor"]


def ranges(numbers):
    """`2 to 5, 9` of sorted whole numbers."""
    groups = []
    for n in numbers:
        if groups and n == groups[-1][-1] + 1:
            groups[-1].append(n)
        else:
            groups.append([n])
    return ", ".join(f"{g[0]} to {g[-1]}" if len(g) > 1 else str(g[0]) for g in groups) or "none"


def draw_coverage(coverage, title="Which sizes each entry takes"):
    """A row for each entry, a cell for each size."""
    cell, leading = 24, 17
    most = max(len(text) for _, texts, _ in coverage.rows for text in texts)
    left = 44 + 7.4 * max(most, 28)
    width = left + cell * len(coverage.sizes) + 16
    heights = [max(34, leading * len(texts) + 16) for _, texts, _ in coverage.rows]
    canvas = Canvas(width, 74 + sum(heights) + 10)
    canvas.text(16, 30, title, 16, bold=True)
    canvas.text(16, 62, "entry, and its guards about sizes", 12.5, style.MUTED)
    for k, n in enumerate(coverage.sizes):
        canvas.text(left + cell * k + cell / 2 - 1, 62, str(n), 11.5, anchor="middle")
    y = 74
    for (entry, texts, taken), height in zip(coverage.rows, heights):
        canvas.text(16, y + 20, str(entry.number), 14, bold=True)
        for k, text in enumerate(texts):
            canvas.text(36, y + 20 + leading * k, text, 12, mono=True)
        for k, takes in enumerate(taken.values()):
            canvas.box(left + cell * k, y + 3, cell - 2, 24, TAKES if takes else REFUSES, radius=4)
        y += height
    alt = f"{len(coverage.rows)} entries, and for each of {len(coverage.sizes)} sizes whether its guards hold"
    return canvas.picture(repr(coverage), alt)
