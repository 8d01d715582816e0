"""Calls of a function against the entries of its cache: compiled, asked and refused, used.

Goes in: a function, and the arguments of each call.  Comes out: a CompileHistory, recorded from the real hook and its
guards, as a picture and as text.  Mirrors tlparse's page of recompiles.  Taught in chapters 04 and 07.
"""

import dataclasses

from .. import record
from ..dynamo import _eval_frame, eval_frame
from . import style
from .graphs import describe
from .picture import Canvas

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
    canvas = Canvas(width, below + 34 + 20 * len(key))
    canvas.text(16, 30, title, 16, bold=True)
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
    x = 16
    seen = {what for call in history.calls for _, what in call.steps} | ({EAGER} if gave_up else set())
    for what in (what for what in MEANINGS if what in seen):
        canvas.box(x, below, 16, 12, FILLS[what], radius=2)
        canvas.text(x + 22, below + 11, MEANINGS[what], 12)
        x += 44 + 6.6 * len(MEANINGS[what])
    canvas.text(x, below + 11, "numbers: the order within a call", 12, style.MUTED)
    for number, call in enumerate(key, 1):
        canvas.text(16, below + 30 + 20 * number - 8, f"{number:>2}  {call.label}", 12, style.MUTED, mono=True)
    alt = f"{len(history.calls)} calls and {history.compiles} compiled entries: which were asked, refused, used"
    return canvas.picture(repr(history), alt)
