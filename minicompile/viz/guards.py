"""Guards as a tree of paths, with the first that fails marked.

Goes in: the guards of a compiled frame and, if they are to be asked, a function and its arguments.
Comes out: a GuardTree, whose picture has a line for each value that was looked at and a box for each fact about it.
Mirrors nothing in PyTorch (its guard manager prints such a tree: `TORCH_LOGS=guards`).  Taught in chapter 04.
"""

import dataclasses

from ..dynamo.guards import AMBIENT_NAMES, GUARD_KINDS, AliasGuard
from . import style
from .picture import PAGE, Canvas

HOLDS, FAILS, FIRST = "holds", "fails", "fails first"
FILLS = {HOLDS: "#e7f1f8", FAILS: "#f7d9c8", FIRST: style.STAGE_COLOURS["codegen"]}
SIZE, LINE, INDENT = 12, 24, 22
CHARACTER = SIZE * 0.605  # width of one in the mono font
LONGEST_LABEL = 40


@dataclasses.dataclass
class Branch:
    """One value: the last step of its path, the facts about it, and the values that are read from it."""

    name: str
    facts: list = dataclasses.field(default_factory=list)  # (text, state)
    children: dict = dataclasses.field(default_factory=dict)  # name -> Branch

    def rows(self, depth=0, above=""):
        """(depth, label, facts) of every value that is worth a line: one with facts, or from which paths part."""
        shown = bool(self.facts) or len(self.children) != 1
        if shown:
            yield depth, self.name.removeprefix(above), self.facts
        for child in self.children.values():
            within = self.name if shown and child_of(child.name, self.name) else above
            yield from child.rows(depth + shown, within)

    def holds(self):
        return all(state == HOLDS for _, state in self.facts) and all(child.holds() for child in self.children.values())


def child_of(name, parent):
    """Whether `self.heads` is spelled as something of `self`."""
    return name.startswith(parent) and name[len(parent) :].startswith((".", "["))


class GuardTree:
    """`roots`: name -> Branch; `shared`: (text, state) of facts about several values; `failure`: GuardFailure or None.

    guards: a GuardFunction.  call: (function, *arguments) of the frame for which they are asked; None: all hold.
    """

    def __init__(self, guards, call=None):
        self.guards, self.roots, self.shared, self.failure = guards, {}, [], None
        failing = []
        if call is not None:
            function, *arguments = call
            failing = guards.failures(function, arguments)
            self.failure = guards.first_failure(function, arguments)
        in_modes = self.failure is not None and self.failure.what in AMBIENT_NAMES
        self.modes = FIRST if in_modes else HOLDS
        for guard in guards.guard_set:
            state = HOLDS if all(guard is not each for each in failing) else FAILS
            if state is FAILS and guard is failing[0] and not in_modes:
                state = FIRST
            if guard.kind in GUARD_KINDS:
                self.branch(guard.source).facts.append((str(guard).replace(guard.source.name, "·", 1), state))
            else:
                if isinstance(guard, AliasGuard) and not guard.same:
                    self.shared.append((f"{len(guard.sources)} different tensors", state))
                else:
                    self.shared.append((str(guard), state))

    def branch(self, source):
        siblings = self.roots if source.parent is None else self.branch(source.parent).children
        return siblings.setdefault(source.name, Branch(source.name))

    def rows(self):
        """(depth, label, facts) for each line of the picture.  Where something fails, the trees that hold share one."""
        yield 0, "modes of the thread", [("as they were", self.modes)]
        failing = [root for root in self.roots.values() if not root.holds()]
        for root in failing or self.roots.values():
            yield from root.rows()
        if failing and len(failing) < len(self.roots):
            yield 0, "everything else", [("holds", HOLDS)]
        if self.shared:
            yield 0, "between them", self.shared

    def __repr__(self):
        lines = []
        for depth, label, facts in self.rows():
            marks = "; ".join(text if state == HOLDS else f"{text} <- {state.upper()}" for text, state in facts)
            lines.append(f"{'  ' * depth}{label}{': ' if marks else ''}{marks}")
        return "\n".join(lines)

    def _repr_mimebundle_(self, include=None, exclude=None):
        return draw_guards(self)._repr_mimebundle_(include, exclude)


def short(label):
    """The end of a long name says more than its beginning."""
    return label if len(label) <= LONGEST_LABEL else "…" + label[1 - LONGEST_LABEL :]


def boxes(facts, room):
    """Facts in lines: a new line where the next box would not fit into `room` pixels."""
    lines, used = [[]], 0
    longest = int((room - 14) / CHARACTER)
    for text, state in facts:
        text = text if len(text) <= longest else text[: longest - 1] + "…"
        width = len(text) * CHARACTER + 14
        if lines[-1] and used + width > room:
            lines.append([])
            used = 0
        lines[-1].append((text, state, used, width))
        used += width + 8
    return lines


def draw_guards(tree, title="What is asked before the compiled code runs again"):
    """A line for each value, indented under the value that it is read from; a box for each fact about it."""
    rows = [(depth, short(label), facts) for depth, label, facts in tree.rows()]
    labels = max(depth * INDENT + len(label) * CHARACTER for depth, label, _ in rows)
    left, width = 16 + labels + 18, PAGE
    placed = [(depth, label, boxes(facts, width - left - 16)) for depth, label, facts in rows]
    top = 76 if tree.failure else 50
    canvas = Canvas(width, top + LINE * sum(len(lines) for _, _, lines in placed) + 12, title)
    if tree.failure:
        canvas.text(16, 54, f"{tree.failure.what}: was {tree.failure.old!r}, is {tree.failure.new!r}", 14, FILLS[FIRST])
    y, open_at = top, {}  # depth -> y of the last value there
    for depth, label, lines in placed:
        x = 16 + depth * INDENT
        if depth:
            canvas.line(x - 12, open_at[depth - 1] + 20, x - 12, y + 11, style.RULE)
            canvas.line(x - 12, y + 11, x - 3, y + 11, style.RULE)
        open_at[depth] = y
        canvas.text(x, y + 15, label, SIZE, mono=True, bold=True)
        for line in lines:
            for text, state, at, size in line:
                canvas.box(left + at, y + 1, size, LINE - 4, FILLS[state])
                canvas.text(left + at + 7, y + 15, text, SIZE, "#ffffff" if state == FIRST else style.INK, mono=True)
            y += LINE
    count = sum(len(facts) for _, _, facts in rows)
    failed = f"; the first that fails: {tree.failure.what}" if tree.failure else ""
    return canvas.picture(repr(tree), f"{count} facts about {len(rows)} values, as a tree of paths{failed}")
