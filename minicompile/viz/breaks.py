"""One function with graph breaks: which lines run in which graph, what runs in eager, and the resume functions between.

Goes in: what `minicompile.capture` returned, for one call or for several calls of one function; and pairs of timings.
Comes out: Pictures.  Mirrors tlparse's list of compiled frames.  Taught in chapter 05.
"""

import collections
import inspect
import re
import types
from html import escape

from ..dynamo.nested_breaks import CallerContinuation
from ..dynamo.resume_code import is_resume_code
from . import style
from .graphs import render, target_name
from .picture import from_figure

GRAPH, EAGER, PALE = style.STAGE_COLOURS["capture"], style.STAGE_COLOURS["source"], "#f3f3f3"


class Part:
    """One frame of the function: its beginning, or a resume function.

    captures: of all calls; empty where none came here.  times: how often one call captured it.
    """

    def __init__(self, code):
        self.code, self.captures, self.times = code, [], 0

    @property
    def title(self):
        name = self.code.co_qualname.rpartition("<locals>.")[2]
        return name.partition(".<")[2].rstrip(">") if is_resume_code(self.code) else name

    @property
    def capture(self):
        """The last one, which holds for more values than those before."""
        return self.captures[-1] if self.captures else None

    @property
    def operations(self):
        """[(line, name)] of the graph's operations."""
        module = self.capture and self.capture.graph_module
        nodes = [node for node in module.graph.nodes if node.op.startswith("call")] if module else []
        return [(line_of(node), target_name(node.target)) for node in nodes]

    @property
    def place(self):
        """The UserPlace in this function where the graph breaks; None where it does not."""
        error = self.capture and self.capture.break_error
        return error.places[-1] if error else None

    @property
    def next_codes(self):
        """The resume functions that its new bytecode can call."""
        instructions = [i for capture in self.captures for i in capture.instructions]
        constants = [i.argval for i in instructions if i.opname == "LOAD_CONST"]
        callers = [value for value in constants if isinstance(value, CallerContinuation)]
        with_callees = [code for caller in callers for code in caller.codes]  # what a callee's break leaves to do
        found = [value for value in constants if isinstance(value, types.CodeType) and is_resume_code(value)]
        return list(dict.fromkeys(with_callees or found))

    def lines(self):
        """What happens here, as (text, colour) rows."""
        if self.capture is None:
            return [("not captured yet", PALE)]
        names = [name for _, name in self.operations]
        shown = ", ".join(names[:4]) + (f", ... ({len(names)})" if len(names) > 4 else "")
        rows = [(f"captured {self.times} times; the last:", PALE)] if self.times > 1 else []
        rows += [(f"graph: {shown}", GRAPH)] if names else []
        if self.place is None:
            return [*rows, ("return", PALE)]
        source = self.place.lines()[1:2] or ["?"]
        return [*rows, (f"eager: {shorten(source[0].strip())}", EAGER), (self.capture.break_error.kind, PALE)]


def shorten(text, width=30):
    return text if len(text) <= width else text[: width - 3] + "..."


def line_of(node):
    """The line of the function's own source that an operation comes from (the outermost of its stack)."""
    found = re.findall(r"line (\d+), in", node.meta.get("stack_trace") or "")
    return int(found[0]) if found else None


def parts_of(captures):
    """{code: Part} of one function, in the order in which they ran; those that no call came to, last."""
    parts, root = {}, captures[0].frames[0].code
    for captured in captures:
        for frame in captured.frames:
            if frame.code is root or is_resume_code(frame.code) and frame.code.co_filename == root.co_filename:
                part = parts.setdefault(frame.code, Part(frame.code))
                part.captures.append(frame)
                part.times = max(part.times, sum(other.code is frame.code for other in captured.frames))
    for part in list(parts.values()):
        for code in part.next_codes:
            parts.setdefault(code, Part(code))
    return parts


def draw_breaks(fn, *captures, title=""):
    """The source on the left, each line with the graphs that compute it; the frames on the right, each with its end."""
    parts = parts_of(captures)
    numbers = {code: k for k, code in enumerate((c for c, p in parts.items() if p.operations), 1)}
    names = names_of(parts)
    heads = {code: f"{numbers[code]}: {name}" if code in numbers else name for code, name in names.items()}
    lines, first = inspect.getsourcelines(fn)
    dot = ['node [shape=plain, fontname="DejaVu Sans", fontsize=10.5];']
    dot.append(f'edge [color="{style.MUTED}", arrowsize=0.7];')
    dot.append(f"source [label=<{source_table(lines, first, parts, numbers)}>];")
    ids = {code: f"p{k}" for k, code in enumerate(parts)}
    done = set()  # what a loop goes back to
    for code, part in parts.items():
        done.add(code)
        dot.append(f"{ids[code]} [label=<{part_table(part, heads[code])}>];")
        for target in part.next_codes:
            ends = ":n -> {}:n [constraint=false]" if target in done else ":out:e -> {}:in:w"
            dot.append(f"{ids[code]}{ends.format(ids[target])};")
    dot.append(f"source -> {ids[next(iter(parts))]} [style=dotted, arrowhead=none];")
    alt = f"{len(parts)} frames of {fn.__qualname__}, {len(numbers)} graphs"
    look = "rankdir=LR; nodesep=0.25; ranksep=0.3; fontsize=14"
    return render(dot, text_of(parts, names, heads), alt, title, look)


def table(rows):
    cells = "".join(f"<TR>{row}</TR>" for row in rows)
    return f'<TABLE BORDER="0" CELLBORDER="1" CELLSPACING="0" CELLPADDING="3" COLOR="{style.RULE}">{cells}</TABLE>'


def cell(text, fill, align="LEFT", font="", port=""):
    ink = "#ffffff" if fill in (GRAPH, EAGER) else style.INK
    room = " " * (1 + len(text) // 12)  # a browser's font may be a little wider
    body = escape(text + room).replace(" ", "&#160;")
    return f'<TD PORT="{port}" ALIGN="{align}" BGCOLOR="{fill}"><FONT COLOR="{ink}" {font}>{body}</FONT></TD>'


def source_table(lines, first, parts, numbers):
    """Each line with the numbers of the graphs that compute it, and "eager" where a graph breaks."""
    rows = []
    for number, line in enumerate(lines, first):
        graphs = [str(numbers[c]) for c, p in parts.items() if any(number == at for at, _ in p.operations)]
        breaks = any(p.place is not None and p.place.positions[0] == number for p in parts.values())
        mark = ", ".join(graphs) + (" + eager" if graphs and breaks else "eager" if breaks else "")
        fill = EAGER if breaks else GRAPH if graphs else style.CARD
        rows.append(cell(mark, fill, "CENTER") + cell(line.rstrip(), style.CARD, font='FACE="DejaVu Sans Mono"'))
    return table(rows)


def names_of(parts):
    """{code: what its frame is called}: resume functions at one line (a loop has several) are told apart."""
    names, seen = {}, collections.Counter()
    for code, part in parts.items():
        seen[part.title] += 1
        names[code] = part.title + (f" ({seen[part.title]})" if seen[part.title] > 1 else "")
    return names


def part_table(part, head):
    return table(
        [cell(head, style.CARD, port="in"), *(cell(t, c, port=("out" if c == EAGER else "")) for t, c in part.lines())]
    )


def text_of(parts, names, heads):
    blocks = []
    for code, part in parts.items():
        ways = [f"    -> {names[target]}" for target in part.next_codes]
        blocks.append("\n".join([heads[code], *(f"    {text}" for text, _ in part.lines()), *ways]))
    return "\n".join(blocks)


def draw_before_after(rows, title="microseconds a call"):
    """rows: (label, seconds before, seconds after), drawn as pairs of bars."""
    figure, axes = style.subplots(figsize=(9, 0.46 * len(rows) + 1.1))
    for k, (_, before, after) in enumerate(reversed(rows)):
        axes.barh(k + 0.19, before * 1e6, 0.36, color=EAGER, label="with the break" if k == 0 else None)
        axes.barh(k - 0.19, after * 1e6, 0.36, color=GRAPH, label="mended" if k == 0 else None)
    axes.set_yticks(range(len(rows)), [label for label, _, _ in reversed(rows)])
    axes.set_xlabel(title)
    axes.grid(axis="y", visible=False)
    axes.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=2)
    text = "\n".join(f"{label:36s} {before * 1e6:8.1f} {after * 1e6:8.1f}" for label, before, after in rows)
    return from_figure(figure, f"{'kind':36s} {'before':>8s} {'after':>8s}\n{text}", f"{title}, before and after")
