"""Iteration space and memory: which cell each load and store of a loop nest touches, step by step.

Goes in: an `IRGraph`, the name of one of its buffers, and inputs (addresses may be loaded, conditions too).  Comes out:
a Picture: the loop's steps in order on the left, the memory of every load and of the store on the right, each cell in
the colour of the step that touches it.  Mirrors nothing in PyTorch.  Taught in chapter 09.
"""

import dataclasses
import textwrap

import torch

from ..inductor import ir
from ..inductor.interpreter import Evaluator, Interpreter
from ..inductor.ir import Load, Masked, Reduction
from . import style
from .picture import PAGE, Canvas

MOST = 72  # steps and cells that a picture holds
CELL, HIGH, NUMBERS = 32, 26, 12  # a cell, and the line of cell numbers below
PALE, DEEP = (0xE3, 0xF4, 0xEE), (0x00, 0x5A, 0x42)  # the first and the last step


@dataclasses.dataclass
class Access:
    """One load, or the store.  addresses: for each step the cell that it touches, or None where a mask forbids it."""

    text: str
    address: object  # Index
    addresses: list
    cells: int
    stored: bool = False

    def steps_of(self):
        """{cell: the steps that touch it}"""
        found = {}
        for step, cell in enumerate(self.addresses):
            if cell is not None:
                found.setdefault(cell, []).append(step)
        return found

    def stride(self, length):
        """How far the address moves from one step of the innermost loop to the next; None: now so, now so."""
        rows = [self.addresses[k : k + length] for k in range(0, len(self.addresses), length)]
        jumps = {b - a for row in rows for a, b in zip(row, row[1:]) if a is not None and b is not None}
        return jumps.pop() if len(jumps) == 1 else None

    def __str__(self):
        return f"{'writes' if self.stored else 'reads'} {self.text} at address {self.address}"


class AddressMap:
    """What every step of one loop nest touches.  sizes: of the loops, the innermost one last."""

    def __init__(self, graph, name, inputs=()):
        interpreter = Interpreter(graph)
        values = {**graph.constants, **dict(zip(graph.inputs, inputs))}
        for buffer in graph.buffers:
            if buffer.name == name:
                break
            values[buffer.name] = interpreter.compute(buffer, values)
        self.buffer, self.data = buffer, buffer.data
        self.variables = (*self.data.vars, *getattr(self.data, "reduced", ()))
        self.sizes = [v.size for v in self.variables]
        device = buffer.layout.device
        self.evaluator = Evaluator(self.variables, values, device)
        self.steps = ir.product(self.sizes)
        layouts, happens = graph.layouts, needed(self.data.body, self.evaluator)
        self.accesses = [
            self.access(load, layouts[load.buffer], load.position, happens[load]) for load in ir.loads(self.data.body)
        ]
        target = Load(name, tuple(map(ir.index, self.data.vars)), buffer.layout.dtype)
        self.accesses.append(self.access(target, buffer.layout, target.position, torch.tensor(True), stored=True))

    def access(self, load, layout, position, happens, stored=False):
        address = layout.address(position)
        flat = torch.as_tensor(self.evaluator.index(address)).expand(self.sizes).flatten().tolist()
        allowed = happens.expand(self.sizes).flatten().tolist()
        cells = 1 + sum((n - 1) * step for n, step in zip(layout.size, layout.stride)) if 0 not in layout.size else 0
        touched = [cell if now else None for cell, now in zip(flat, allowed)]
        return Access(repr(load), address, touched, cells, stored)

    @property
    def innermost(self):
        return self.sizes[-1] if self.sizes else 1

    def __repr__(self):
        kind = self.data.kind if isinstance(self.data, Reduction) else type(self.data).__name__.lower()
        lines = [f"{self.buffer.name}, {kind}: {self.steps} steps of ({ir.ranges_text(self.variables)})"]
        for access in self.accesses:
            cells = [["-" if a is None else str(a) for a in row] for row in self.rows(access.addresses)]
            lines += [f"  {access}", "    " + " | ".join(" ".join(row) for row in cells)]
        return "\n".join(lines)

    def rows(self, values):
        """One value for each step, in rows of the innermost loop."""
        return [values[k : k + self.innermost] for k in range(0, len(values), self.innermost)]


def needed(root, evaluator):
    """{expression: a tensor over the loops that says in which steps its value is asked for}"""
    found = {root: torch.tensor(True)}
    for node in reversed(ir.walk(root)):  # users first
        asked = found.get(node, torch.tensor(False))
        conditions = [torch.tensor(True)] * len(node.args)
        if isinstance(node, Masked):
            holds = evaluator.value(node.args[0])
            conditions = [torch.tensor(True), holds, ~holds]
        for child, condition in zip(node.args, conditions):
            found[child] = found.get(child, torch.tensor(False)) | (asked & condition)
        for index in ir.indices(node):
            for atom in index.atoms():
                if hasattr(atom, "expr"):
                    found[atom.expr] = found.get(atom.expr, torch.tensor(False)) | asked
    return found


def colour_of(step, steps):
    """From pale to deep along the steps; and a colour for text that can be read on it."""
    part = step / max(steps - 1, 1)
    rgb = [round(a + (b - a) * part) for a, b in zip(PALE, DEEP)]
    return "#{:02x}{:02x}{:02x}".format(*rgb), ("#ffffff" if part > 0.45 else style.INK)


def in_short(steps):
    """`3`, `0–3`, `0, 4`, or how many there are."""
    if len(steps) > 1 and steps == list(range(steps[0], steps[-1] + 1)):
        return f"{steps[0]}–{steps[-1]}"
    text = ", ".join(map(str, steps))
    return text if len(text) <= 4 else f"{len(steps)}×"


def draw_addresses(graph, name, inputs=(), title=None):
    """The picture of an AddressMap."""
    found = AddressMap(graph, name, inputs)
    if found.steps > MOST or any(access.cells > MOST for access in found.accesses):
        raise ValueError(f"too large to draw: {found.steps} steps; take sizes of at most {MOST} elements")
    rows, left = found.rows(list(range(found.steps))), 96
    across = left + CELL * found.innermost + 40  # where the memory begins
    per_row = max(4, (PAGE - across - 20) // CELL)
    heights = [60 + (HIGH + NUMBERS) * max(1, -(-access.cells // per_row)) for access in found.accesses]
    titles = [title] if title else textwrap.wrap(str(found.buffer), 100, subsequent_indent="    ")
    top = 44 + 18 * len(titles)
    canvas = Canvas(PAGE, top + max(sum(heights), 34 + HIGH * len(rows)) + 8)
    for k, line in enumerate(titles):
        canvas.text(16, 30 + 18 * k, line, 14, bold=True, mono=title is None)
    draw_steps(canvas, found, rows, left, top)
    y = top
    for access, height in zip(found.accesses, heights):
        draw_memory(canvas, found, access, across, y, per_row)
        y += height
    alt = f"{found.steps} steps of a loop nest, and for {len(found.accesses)} accesses which cells they touch"
    return canvas.picture(repr(found), alt)


def draw_steps(canvas, found, rows, left, top):
    """The iteration space: a cell for each step, numbered in the order in which they run."""
    *outer, last = found.variables if found.variables else (None,)
    canvas.text(16, top, "steps", 12.5, style.MUTED)
    for column in range(found.innermost if last is not None else 0):
        label = f"{last}={column}" if column == 0 else str(column)
        canvas.text(left + CELL * column + CELL / 2 - 1, top + 26, label, 11, style.MUTED, "middle")
    for number, row in enumerate(rows):
        y, rest, place = top + 34 + HIGH * number, number, []
        for var in reversed(outer):
            place.append(f"{var}={rest % var.size}")
            rest //= var.size
        canvas.text(left - 10, y + 17, " ".join(reversed(place)), 11, style.MUTED, "end")
        for column, step in enumerate(row):
            fill, ink = colour_of(step, found.steps)
            canvas.box(left + CELL * column, y, CELL - 2, HIGH - 2, fill, radius=3)
            canvas.text(left + CELL * column + CELL / 2 - 1, y + 16, str(step), 11, ink, "middle")


STRIDES = {0: "the same cell again", 1: "the next cell", None: "not always as far"}


def draw_memory(canvas, found, access, x, y, per_row):
    """One tensor's memory: each cell in the colour of the steps that touch it, white where none does."""
    verb, stride = ("writes" if access.stored else "reads"), access.stride(found.innermost)
    canvas.text(x, y, verb, 12.5, style.MUTED)
    canvas.text(x + 46, y, access.text, 12.5, mono=True, bold=True)
    words = STRIDES.get(stride, f"{stride} cells on" if stride and stride > 0 else f"{-(stride or 0)} cells back")
    move = f",  each inner step: {words}" if found.innermost > 1 else ""
    canvas.text(x, y + 19, f"address {access.address}{move}", 11.5, style.MUTED)
    touched = access.steps_of()
    for cell in range(access.cells):
        left, top = x + CELL * (cell % per_row), y + 28 + (HIGH + NUMBERS) * (cell // per_row)
        canvas.text(left + CELL / 2 - 1, top + HIGH + 8, str(cell), 8.5, style.MUTED, "middle")
        steps = touched.get(cell)
        if not steps:
            canvas.box(left, top, CELL - 2, HIGH - 2, style.CARD, style.RULE, radius=3)
            continue
        fill, ink = colour_of(sum(steps) / len(steps), found.steps)
        canvas.box(left, top, CELL - 2, HIGH - 2, fill, radius=3)
        text = in_short(steps)
        canvas.text(left + CELL / 2 - 1, top + 16, text, 11 if len(text) < 5 else 9, ink, "middle")
