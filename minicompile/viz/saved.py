"""What training keeps and what the graph passes do, as bars and lines.

Goes in: bytes that were measured, and `AOTGraph`s.  Comes out: Pictures.
Mirrors nothing in PyTorch.  Taught in chapter 08.
"""

import textwrap

import torch

from ..aot.memory import effort
from . import style
from .joint import readable_bytes
from .picture import Canvas, from_figure, name_bars

ANYWAY, EXTRA = "#c3c8ce", style.STAGE_COLOURS["codegen"]
BEFORE, AFTER = "#c3c8ce", style.STAGE_COLOURS["aot"]


class SavedBytes:
    """What autograd kept of one run: a context manager around the forward.  Each storage counts once.

    inputs: the tensors that are in memory anyway, such as arguments and parameters.  tensors: every tensor that was
    saved, in order.  anyway, extra: bytes of those that are inputs, and of the others.
    """

    def __init__(self, *inputs):
        self.given = {t.untyped_storage().data_ptr() for t in inputs}
        self.tensors, self.storages = [], {}

    def __enter__(self):
        self.hooks = torch.autograd.graph.saved_tensors_hooks(self.note, lambda tensor: tensor)
        self.hooks.__enter__()
        return self

    def __exit__(self, *exception):
        self.hooks.__exit__(*exception)

    def note(self, tensor):
        storage = tensor.untyped_storage()
        self.tensors.append(tensor)
        self.storages[storage.data_ptr()] = storage.nbytes()
        return tensor

    @property
    def anyway(self):
        return sum(size for place, size in self.storages.items() if place in self.given)

    @property
    def extra(self):
        return sum(size for place, size in self.storages.items() if place not in self.given)

    def __repr__(self):
        total = self.anyway + self.extra
        return f"{total:,} bytes: {self.anyway:,} in memory anyway, {self.extra:,} kept for the backward only"


def draw_saved(measured, title="What is kept from forward to backward"):
    """measured: {function: {way of running it: SavedBytes}}."""
    heights = [len(ways) for ways in measured.values()]
    size = (9, 0.8 + 0.8 * len(measured) + 0.36 * sum(heights))
    figure, axes = style.subplots(len(measured), 1, figsize=size, height_ratios=heights, squeeze=False)
    lines = []
    for panel, (function, ways) in zip(axes[:, 0], measured.items(), strict=True):
        anyway, extra = ([getattr(w, part) / 2**20 for w in ways.values()] for part in ("anyway", "extra"))
        panel.barh(list(ways), anyway, color=ANYWAY, label="in memory anyway")
        panel.barh(list(ways), extra, left=anyway, color=EXTRA, label="for the backward only")
        ends = [a + b for a, b in zip(anyway, extra, strict=True)]
        name_bars(panel, ends, [readable_bytes(saved.extra) for saved in ways.values()])
        panel.set_title(function, loc="left", fontsize=12)
        lines += [function, *(f"  {way:14} {saved}" for way, saved in ways.items())]
    axes[-1, 0].set_xlabel("MB")
    figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="upper right", ncols=2)
    return from_figure(figure, "\n".join(lines), f"{title}: bytes for each way of running each function", title)


def extra_bytes(graph):
    """Bytes that are kept for the backward only: neither inputs nor results."""
    return sum(s.bytes for s in graph.saved if s.source[0] == "extra")


def recompute_effort(graph):
    """Bytes of traffic, or arithmetic that takes as long, of what the backward computes again."""
    again = set(graph.recomputed)
    return sum(effort(node) for node in graph.joint.graph.nodes if node.name in again)


def draw_budget(graphs, title="Saved bytes against computing again"):
    """graphs: {config.activation_memory_budget: AOTGraph}."""
    figure, (above, below) = style.subplots(2, 1, figsize=(9, 5), sharex=True)
    budgets = sorted(graphs)
    kept, again, peaks = (
        [measure(graphs[b]) / 2**20 for b in budgets]
        for measure in (extra_bytes, recompute_effort, lambda graph: graph.peak_memory())
    )
    above.plot(budgets, kept, "o-", color=EXTRA, label="kept for the backward only")
    above.plot(budgets, peaks, "s--", color=style.STAGE_COLOURS["capture"], label="peak, simulated")
    below.plot(budgets, again, "o-", color=style.STAGE_COLOURS["lower"], label="computed again")
    for panel, label in ((above, "MB"), (below, "MB of traffic")):
        panel.set_ylabel(label)
        panel.set_ylim(0, 1.1 * panel.dataLim.ymax)  # room for the highest mark
        panel.legend(loc="best")
    above.set_title(title, loc="left")
    below.set_xlabel("activation_memory_budget   (1: the minimum cut)")
    figure.align_ylabels()
    figure.tight_layout()
    rows = zip(budgets, kept, again, peaks, strict=True)
    text = [f"budget {b:<5} kept {k:6.2f} MB   again {a:6.2f} MB   peak {p:6.2f} MB" for b, k, a, p in rows]
    return from_figure(figure, "\n".join(text), "Bytes kept, work done twice, and peak memory for each budget")


def draw_passes(graph, title="What each pass takes away"):
    """`graph.passes`: the nodes before and after each; those that change nothing in one line at the end."""
    changed = [row for row in graph.passes if row[1] != row[2]]
    idle = [name for name, before, after in graph.passes if before == after]
    left, width, leading = 270, 430, 34
    names = ", ".join(name.replace("_", " ") for name in idle)
    rest = textwrap.wrap(f"nothing to do: {names}", 120) if idle else []
    canvas = Canvas(left + width + 150, 66 + leading * len(changed) + 16 * len(rest), title)
    most = max(before for _, before, _ in graph.passes)
    for k, (name, before, after) in enumerate(changed):
        y = 54 + leading * k
        canvas.text(16, y + 17, name.replace("_", " "), 13)
        canvas.box(left, y + 2, width * before / most, 22, BEFORE, radius=3)
        canvas.box(left, y + 2, width * after / most, 22, AFTER, radius=3)
        canvas.text(left + width * before / most + 8, y + 18, f"{before} → {after} nodes", 13)
    for k, line in enumerate(rest):
        canvas.text(16, 54 + leading * len(changed) + 20 + 16 * k, line, 11.5, style.MUTED)
    return canvas.picture(graph.pass_table(), f"Nodes before and after each of {len(graph.passes)} passes")
