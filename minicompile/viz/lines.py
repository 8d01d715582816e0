"""Source line, loop IR and generated line of one function, in the same colours.

Goes in: a function and the `Compilation` of it in the record.  Comes out: a `LineMap`, and a Picture of it.
A generated line leads to the expression that it computes (`ExprWriter.made`), this one to the operator that asked for
it, through all that was dissolved, and the operator to the user's line.  Mirrors what `TORCH_LOGS=output_code` prints
as comments.  Taught in chapter 11.
"""

import inspect
import re
import textwrap

from ..inductor import ir, memory, scheduler
from ..inductor.codegen.cpp import LoopKernel
from ..inductor.ir import Expr, Load, Pointwise
from . import style
from .picture import PAGE, Canvas

# Pale ones of Okabe and Ito's colours, for one source line each.
COLOURS = ["#bfe0f2", "#fbdca6", "#b5e3d2", "#f0cfe1", "#f6ecae", "#f3c3a8", "#c9cdf0", "#d9d9d9"]
ASSIGNED = re.compile(r"^\s*(?:const )?(?:[\w:]+\*? )?(\w+)(?:\[.*?\])? = ")
DECLARED = re.compile(r"^\s*\w+ (\w+)\[.*\];$")


class Origins:
    """For every expression of a kernel: the buffers of the lowered graph that asked for it."""

    def __init__(self, graph, kept):
        self.bodies = {b.name: b.data.body for b in graph.buffers if hasattr(b.data, "body")}
        self.kept, self.found, self.seen = kept, {}, set()

    def add_node(self, node):
        """node.body is the definition of its buffer, with those of dissolved buffers in place of their loads."""
        if node.name in self.bodies:
            self.match(node.body, self.bodies[node.name], node.name)
        for expr in ir.walk(node.body):
            self.found.setdefault(expr, {node.name})

    def match(self, expr, definition, owner):
        """Walk both in step; at a load of a buffer that is no more, go on in that buffer's definition."""
        if (expr, definition, owner) in self.seen:
            return
        self.seen.add((expr, definition, owner))
        if isinstance(definition, Load) and definition.buffer in self.bodies and definition.buffer not in self.kept:
            self.match(expr, self.bodies[definition.buffer], definition.buffer)
            return
        self.found.setdefault(expr, set()).add(owner)
        if len(expr.args) == len(definition.args):
            for part, defined in zip(expr.args, definition.args):
                self.match(part, defined, owner)


class LineMap:
    """source: [(number, text)]; ir: [(number or None, text)]; code: [(numbers, text)], for each kernel one after the
    other.  A number is a line of `source`."""

    def __init__(self, fn, compilation):
        fn = inspect.unwrap(fn)
        lines, self.first = inspect.getsourcelines(fn)
        self.source = list(enumerate(textwrap.dedent("".join(lines)).rstrip().split("\n"), 1))
        nodes = compilation.artifacts("aot")[0].forward.graph.nodes
        self.line_of_node = {node.name: self.user_line(node, fn.__name__) for node in nodes}
        graph, schedule = compilation.artifacts("lower")[0], compilation.artifacts("schedule")[0]
        graph = scheduler.prepare(graph)
        self.line_of = {b.name: self.line_of_node.get(b.origin) for b in graph.buffers}
        self.ir = [(self.line_of[b.name], in_short(b)) for b in graph.buffers]
        self.code = []
        storage = memory.plan(schedule).storage
        origins = Origins(graph, {name for group in schedule.groups for name in group.names})
        for group in schedule.groups:
            if group.kind == "loops":
                self.add_kernel(LoopKernel(group, schedule, storage), origins)

    def user_line(self, node, name):
        """The line of the function that a node comes from, counted from its first one."""
        found = re.findall(rf"line (\d+), in {re.escape(name)}\n", node.meta.get("stack_trace") or "")
        return int(found[-1]) - self.first + 1 if found else None

    def add_kernel(self, kernel, origins):
        written = kernel.generate()
        for node in kernel.nodes:
            origins.add_node(node)
        stored = {}
        for name in kernel.stored:
            stored.setdefault(kernel.names[name], []).append(name)
        for text in written.text.replace("@NAME@", f"kernel_{written.summary}").split("\n"):
            self.code.append((self.lines_of(text, kernel, stored, origins), text))

    def lines_of(self, text, kernel, stored, origins):
        """The source lines that a generated line works for."""
        match = ASSIGNED.match(text) or DECLARED.match(text)
        thing = match and (stored.get(match[1]) or kernel.made.get(match[1]))
        names = (
            origins.found.get(thing, ()) if isinstance(thing, Expr) else [thing] if isinstance(thing, str) else thing
        )
        return sorted({self.line_of[n] for n in names or () if self.line_of.get(n) is not None})

    @property
    def used(self):
        """The source lines that anything comes from, in order."""
        found = {number for number, _ in self.ir} | {n for numbers, _ in self.code for n in numbers}
        return sorted(found - {None})

    def __repr__(self):
        lines = [f"{number:>4}  {text}" for number, text in self.source]
        lines += ["", *(f"{number or '':>4}  {text}" for number, text in self.ir)]
        return "\n".join([*lines, "", *(f"{','.join(map(str, numbers)):>4}  {text}" for numbers, text in self.code)])

    def _repr_mimebundle_(self, include=None, exclude=None):
        return draw_lines(self)._repr_mimebundle_(include, exclude)


def in_short(buffer):
    """A buffer without its type: `buf0 = sum over r0: arg0[i0, r0]`."""
    data = buffer.data
    if isinstance(data, Pointwise):
        return f"{buffer.name} = {data.body}"
    if isinstance(data, ir.Reduction):
        return f"{buffer.name} = {data.kind} over {', '.join(map(str, data.reduced))}: {data.body}"
    return f"{buffer.name} = {data}"


def draw_lines(lines, title="Source, loop IR, generated code"):
    """Three listings; what comes from one source line has its colour.  Chips at the left: all lines of a shared one."""
    colours = {number: COLOURS[k % len(COLOURS)] for k, number in enumerate(lines.used)}
    size, leading, half = 11.5, 17, PAGE / 2
    top = max(len(lines.source), len(lines.ir))
    canvas = Canvas(PAGE, 98 + leading * (top + len(lines.code)) + 34, title)

    def listing(x, y, width, heading, rows):
        canvas.text(x, y, heading, 12, style.MUTED)
        for k, (numbers, text) in enumerate(rows):
            base = y + 20 + leading * k
            for chip, number in enumerate(numbers):
                canvas.box(x + 13 * chip, base - 12, 11, 15, colours[number], style.MUTED, radius=2)
                canvas.text(x + 13 * chip + 5.5, base, str(number), 9, style.INK, "middle")
            left = x + 13 * max(2, min(len(numbers), 3)) + 6
            if numbers:
                canvas.box(left - 3, base - 12.5, width - left + x, leading - 1, colours[numbers[-1]], radius=2)
            room = int((width - left + x) / (size * 0.605))
            canvas.text(left, base, text if len(text) <= room else text[: room - 1] + "…", size, mono=True)

    known = set(colours)
    source = [([number] if number in known else [], text) for number, text in lines.source]
    listing(16, 58, half - 24, "your function", source)
    listing(half + 8, 58, half - 24, "loop IR", [([n] if n else [], text) for n, text in lines.ir])
    listing(16, 58 + leading * (top + 2), PAGE - 32, "generated code", lines.code)
    alt = (
        f"A function of {len(lines.source)} lines, its {len(lines.ir)} buffers, {len(lines.code)} lines of C++ for them"
    )
    return canvas.picture(repr(lines), alt)
