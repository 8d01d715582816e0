"""Fusion: kernels before and after as clusters, the table of why and why not, and the bytes that are moved.

Goes in: an `IRGraph` and the `Schedule` that was made of it.  Comes out: Pictures.
Mirrors `torch/_inductor/debug.py`, which draws PyTorch's groups.  Taught in chapter 10.
"""

from ..inductor import passes, scheduler
from ..inductor.ir import Extern, MultiOutput, View
from . import style
from .graphs import render
from .joint import BACKWARD, CROSSES, PALE, graph_style, in_words, readable_bytes
from .picture import PAGE, Canvas, from_figure, name_bars

LOOPS, KERNEL = "#f4dfec", "#fbf3f8"  # a loop nest; the kernel around it
KEPT, FUSED = style.STAGE_COLOURS["codegen"], style.STAGE_COLOURS["lower"]


class Kernels:
    """Which buffers run in which kernel: places[name] are the numbers of its kernels, several where it was dissolved
    into several readers."""

    def __init__(self, graph, groups):
        self.graph, self.groups, self.layouts = graph, groups, graph.layouts
        self.places = {name: [k] for k, names in enumerate(groups) for name in names}
        self.reads = {b.name: passes.buffer_reads(b) for b in graph.buffers}
        users = {name: [n for n, reads in self.reads.items() if name in reads] for name in self.reads}
        for name in reversed(list(self.reads)):
            if name not in self.places:
                self.places[name] = sorted({k for user in users[name] for k in self.places[user]})
        self.outputs = [o.buffer for o in graph.outputs if isinstance(o, View)]
        self.calls = {b.name for b in graph.buffers if isinstance(b.data, (Extern, MultiOutput))}
        self.origins = {b.name: b.origin for b in graph.buffers}

    def members(self, k):
        return [name for name in self.reads if k in self.places[name]]

    def is_call(self, k):
        return all(name in self.calls for name in self.members(k))

    def nbytes(self, name):
        layout = self.layouts.get(name)
        return layout.nbytes() if layout is not None else 0

    def home(self, name):
        """The kernel that stores a buffer; None: it is an input."""
        return next((k for k, names in enumerate(self.groups) if name in names), None)


def draw_fusion(graph, schedule, title=""):
    """Every operator a kernel on the left, what the scheduler made of them on the right.  Red goes through memory."""
    before = scheduler.prepare(graph)
    panels = {
        "before": (Kernels(before, [[b.name] for b in before.buffers]), schedule.bytes_before),
        "after": (Kernels(before, [g.names for g in schedule.groups]), schedule.bytes_after),
    }
    lines, text = [*graph_style()], []
    for word, (kernels, moved) in panels.items():
        calls = sum(kernels.is_call(k) for k in range(len(kernels.groups)))
        count = counted(len(kernels.groups) - calls, "kernel") + (f", {counted(calls, 'call')}" if calls else "")
        heading = f"{word}: {count}, {readable_bytes(moved)} moved"
        lines += [f'subgraph cluster_{word} {{ label="{heading}"; color="{style.CARD}"; fontsize=15;']
        lines += [*panel_lines(word, kernels), "}"]
        text.append(f"{word}: {count}, {moved:,} bytes moved by kernels")
        text += [f"  {k}. {' + '.join(names_of(kernels, k))}" for k in range(len(kernels.groups))]
    alt = f"{len(before.buffers)} operators, each a kernel, and the {len(schedule.groups)} kernels that they became"
    return render(lines, text, alt, title)


def counted(number, word):
    return f"{number} {word}{'' if number == 1 else 's'}"


def names_of(kernels, k):
    return [f"{kernels.origins[name]} ({name})" for name in kernels.members(k)]


def panel_lines(word, kernels):
    """DOT: inputs, a cluster for each kernel, and the edges."""
    ids = {}

    def node(key, texts, fill, extra=""):
        ids[key] = f"{word}_{len(ids)}"
        return f'{ids[key]} [label=<{in_words(texts)}>, fillcolor="{fill}"{extra}];'

    read = {name for reads in kernels.reads.values() for name in reads}
    for name in kernels.layouts:
        if name in read and name not in kernels.reads:
            yield node((None, name), [name], PALE, f', color="{style.RULE}"')
    for k in range(len(kernels.groups)):
        members, call = kernels.members(k), kernels.is_call(k)
        if len(members) > 1:
            look = f'fontcolor="{style.MUTED}"; fillcolor="{KERNEL}"; color="{style.STAGE_COLOURS["schedule"]}"'
            yield f'subgraph cluster_{word}_{k} {{ style="rounded,filled"; fontsize=11; {look};'
            yield 'label="one\\lkernel\\l"; labelloc=b; labeljust=l;'  # beside the arrow that leaves it
        for name in members:
            yield node((k, name), [kernels.origins[name], name], BACKWARD if call else LOOPS)
        if len(members) > 1:
            yield "}"
    for k in range(len(kernels.groups)):
        labelled = set()
        for name in kernels.members(k):
            for source in kernels.reads[name]:
                if (k, source) in ids:
                    yield f"{ids[k, source]} -> {ids[k, name]};"
                    continue
                label = "" if source in labelled else readable_bytes(kernels.nbytes(source))
                labelled.add(source)
                yield through_memory(ids[kernels.home(source), source], ids[k, name], label)
    for number, name in enumerate(kernels.outputs):
        yield node(("result", number), ["result"], PALE, f', color="{style.RULE}"')
        size = readable_bytes(kernels.nbytes(name))
        yield through_memory(ids[kernels.home(name), name], ids["result", number], size)


def through_memory(source, target, label):
    look = f'color="{CROSSES}", penwidth=1.8, fontcolor="{CROSSES}", fontsize=11, fontname="DejaVu Sans"'
    return f'{source} -> {target} [label=" {label} ", {look}];'


# --- why ---------------------------------------------------------------------------------------------
def draw_why(graph, schedule, title="Why fused, why not"):
    """`schedule.decisions` as a table, in the order in which they were made, with operators in place of buffers."""
    origins = {b.name: b.origin for b in (*scheduler.prepare(graph).buffers, *schedule.graph.buffers)}
    leading, columns = 25, (16, 44, 250, 456)
    canvas = Canvas(PAGE, 84 + leading * len(schedule.decisions), title)
    for x, word in zip(columns[1:], ("first", "second", "reason")):
        canvas.text(x, 60, word, 12, style.MUTED)
    canvas.text(PAGE - 16, 60, "saves", 12, style.MUTED, "end")
    for k, decision in enumerate(schedule.decisions):
        y = 84 + leading * k
        if k % 2 == 0:
            canvas.box(8, y - 17, PAGE - 16, leading, "#f6f8fa", radius=3)
        canvas.text(columns[0], y, "✓" if decision.fused else "✗", 14, FUSED if decision.fused else KEPT, bold=True)
        for x, names in zip(columns[1:], (decision.a, decision.b)):
            canvas.text(x, y, shortened([origins[name] for name in names.split("+")], 26), 11.5, mono=True)
        canvas.text(columns[3], y, decision.why, 11.5, style.INK if decision.fused else KEPT)
        saved = readable_bytes(decision.bytes_saved) if decision.bytes_saved else ""
        canvas.text(PAGE - 16, y, saved, 11.5, style.MUTED, "end")
    fused = sum(decision.fused for decision in schedule.decisions)
    alt = f"{len(schedule.decisions)} decisions: {fused} times fused, each with its reason"
    return canvas.picture(schedule.why(), alt)


def shortened(names, width):
    text = " + ".join(names)
    return text if len(text) <= width else f"{names[0]} + … + {names[-1]}"


# --- bytes -------------------------------------------------------------------------------------------
def ideal_bytes(graph):
    """Bytes of a kernel that reads every input once and writes every result once."""
    layouts, read = graph.layouts, {name for buffer in graph.buffers for name in passes.buffer_reads(buffer)}
    names = [name for name in layouts if name in read and not name.startswith("buf")]
    return sum(layouts[name].nbytes() for name in [*names, *(o.buffer for o in graph.outputs if isinstance(o, View))])


def draw_bytes(programs, title="Bytes that the kernels move"):
    """programs: {name: (IRGraph, Schedule)}.  Three bars each: an operator a kernel, fused, every byte once."""
    figure, axes = style.subplots(len(programs), 1, figsize=(9, 0.7 + 1.15 * len(programs)), squeeze=False)
    lines, colours = [], ("#c3c8ce", style.STAGE_COLOURS["schedule"], "#ffffff")
    for panel, (name, (graph, schedule)) in zip(axes[:, 0], programs.items()):
        moved = {
            "every operator a kernel": schedule.bytes_before,
            "fused": schedule.bytes_after,
            "every byte once": ideal_bytes(graph),
        }
        values = [count / 2**20 for count in moved.values()]
        panel.barh(list(moved), values, color=colours, height=0.7, edgecolor=style.MUTED, linewidth=0.8)
        name_bars(panel, values, map(readable_bytes, moved.values()))
        panel.set_title(name, loc="left", fontsize=12)
        lines += [name, *(f"  {word:24} {count:>12,} bytes" for word, count in moved.items())]
    axes[-1, 0].set_xlabel("MB")
    alt = f"{title}: before, after and at least, for {len(programs)} programs"
    return from_figure(figure, "\n".join(lines), alt, title)
