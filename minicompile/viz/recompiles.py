"""Calls of a function against the entries of its cache: compiled, asked and refused, used; and which sizes each takes.

Goes in: a function, and the arguments of each call.  Comes out: a CompileHistory, recorded from the real hook and its
guards, as a picture and as text; sizes against recompiles, and the sizes that each entry takes, as pictures.
Mirrors tlparse's page of recompiles.  Taught in chapters 04 and 07.
"""

import dataclasses
import itertools

from .. import record
from ..dynamo import _eval_frame, eval_frame
from . import style
from .graphs import describe
from .picture import Canvas, from_figure

COMPILED, USED, REFUSED, EAGER = "compiled", "used", "refused", "eager"
FILLS = {
    COMPILED: style.STAGE_COLOURS["capture"],
    USED: style.STAGE_COLOURS["load"],
    REFUSED: "#f7d9c8",
    EAGER: "#c3c8ce",
}
MEANINGS = {
    COMPILED: "compiled in this call",
    USED: "its guards hold: used",
    REFUSED: "its guards fail",
    EAGER: "given up: eager",
}


@dataclasses.dataclass
class Entry:
    """One compiled frame: its guard check, and what it was captured as.

    reason: why it was compiled, "" for the first; a line for each entry that did not fit, newest first.
    """

    number: int
    reason: str
    check: object
    capture: object


@dataclasses.dataclass
class Call:
    """`steps`: [(Entry, COMPILED, USED or REFUSED)] in the order of asking."""

    label: str
    steps: list = dataclasses.field(default_factory=list)

    @property
    def compiles(self):
        return sum(what == COMPILED for _, what in self.steps)

    @property
    def eager(self):
        """Whether no entry ran."""
        return all(what == REFUSED for _, what in self.steps)


class CompileHistory:
    """Has a `backend` and a callback like those of `compile(fn, backend="eager")`, which also write down what happens.

    options: as those of `compile`.
    """

    def __init__(self, **options):
        self.entries, self.calls = [], []
        self.callback = self.convert_frame  # one object: the hook knows an entry's callback by identity
        self.options = eval_frame.CompileOptions(lambda gm, example_inputs: gm.forward, "eager", **options)

    def convert_frame(self, code, function, arguments):
        answer = eval_frame.convert_frame(self.options, code, function, arguments)
        if not answer or answer == eval_frame.AS_IT_IS:
            return answer
        new_code, check = answer
        compilation = record.compilations[-1]
        (capture,) = compilation.artifacts("capture")
        entry = Entry(len(self.entries) + 1, without_paths(compilation.recompile_reason), check, capture)
        self.entries.append(entry)
        self.calls[-1].steps.append((entry, COMPILED))

        def asked(*frame):
            holds = check(*frame)
            self.calls[-1].steps.append((entry, USED if holds else REFUSED))
            return holds

        return new_code, asked

    def call(self, function, *arguments):
        """Call it under the hook and write down what happened."""
        label = ", ".join(describe(each) or getattr(each, "__name__", None) or repr(each) for each in arguments)
        self.calls.append(Call(label))
        return _eval_frame.call(self.callback, function, *arguments)

    @property
    def compiles(self):
        return len(self.entries)

    def __repr__(self):
        lines = []
        for number, call in enumerate(self.calls, 1):
            steps = [f"{what} {entry.number}" for entry, what in call.steps] + [EAGER] * call.eager
            lines.append(f"{number}. {call.label}: {', '.join(steps)}")
        lines += [f"entry {entry.number}: {entry.reason or 'first call'}" for entry in self.entries]
        return "\n".join(lines)

    def _repr_mimebundle_(self, include=None, exclude=None):
        return draw_recompiles(self)._repr_mimebundle_(include, exclude)


def without_paths(reason):
    """`x.shape[0]: was 8, is 9` of each line of a reason that also names the file and the line."""
    lines = [line.rpartition(" (")[0] if line.endswith(")") and " (" in line else line for line in reason.splitlines()]
    return "\n".join(lines)


def record_recompiles(function, *calls, **options):
    """Run `function(*arguments)` for each tuple of arguments in `calls`.  Returns the CompileHistory."""
    history = CompileHistory(**options)
    for arguments in calls:
        history.call(function, *arguments)
    return history


def draw_recompiles(history, title="Calls and cache entries"):
    """A column for each call, a row for each entry with the reason for which it was compiled."""
    column, row, top = 40, 46, 88
    reasons = [entry.reason.partition("\n")[0] for entry in history.entries]  # what failed in the newest entry
    left = 46 + max([210, *(7.3 * len(reason) for reason in reasons)])
    gave_up = any(call.eager for call in history.calls)
    rows = len(history.entries) + gave_up
    width = max(left + column * len(history.calls) + 16, 780)
    key = history.calls if len({call.label for call in history.calls}) > 1 else []
    below = top + row * rows + 14
    canvas = Canvas(width, below + 34 + 20 * len(key), title)
    canvas.text(16, 66, "entry, and why it was compiled", 12.5, style.MUTED)
    for number, call in enumerate(history.calls):
        x = left + column * number
        canvas.text(x + column / 2 - 2, 66, str(number + 1), 13, anchor="middle", bold=True)
        if call.eager:
            canvas.box(x, top + row * (rows - 1), column - 4, row - 12, FILLS[EAGER])
        for turn, (entry, what) in enumerate(call.steps, 1):
            y = top + row * (entry.number - 1)
            canvas.box(x, y, column - 4, row - 12, FILLS[what])
            ink = "#ffffff" if what == COMPILED else style.INK
            canvas.text(x + column / 2 - 2, y + 22, str(turn), 13, ink, "middle", bold=what != REFUSED)
    for entry, reason in zip(history.entries, reasons):
        y = top + row * (entry.number - 1)
        canvas.text(16, y + 22, str(entry.number), 14, bold=True)
        canvas.text(34, y + 22, reason or "first call", 12, mono=bool(reason))
    if gave_up:
        canvas.text(34, top + row * (rows - 1) + 22, "eager", 12)
    seen = {what for call in history.calls for _, what in call.steps} | ({EAGER} if gave_up else set())
    x = canvas.legend([(FILLS[what], MEANINGS[what]) for what in MEANINGS if what in seen], 16, below)
    canvas.text(x, below + 11, "numbers: the order within a call", 12, style.MUTED)
    for number, call in enumerate(key, 1):
        canvas.text(16, below + 30 + 20 * number - 8, f"{number:>2}  {call.label}", 12, style.MUTED, mono=True)
    alt = f"{len(history.calls)} calls and {history.compiles} compiled entries: which were asked, refused, used"
    return canvas.picture(repr(history), alt)


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
    runs = itertools.groupby(enumerate(numbers), lambda pair: pair[1] - pair[0])
    groups = [[n for _, n in run] for _, run in runs]
    return ", ".join(f"{g[0]} to {g[-1]}" if len(g) > 1 else str(g[0]) for g in groups) or "none"


def draw_coverage(coverage, title="Which sizes each entry takes"):
    """A row for each entry, a cell for each size."""
    cell, leading = 24, 17
    most = max(len(text) for _, texts, _ in coverage.rows for text in texts)
    left = 44 + 7.4 * max(most, 28)
    width = left + cell * len(coverage.sizes) + 16
    heights = [max(34, leading * len(texts) + 16) for _, texts, _ in coverage.rows]
    canvas = Canvas(width, 74 + sum(heights) + 10, title)
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
