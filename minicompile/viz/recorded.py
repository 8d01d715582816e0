"""Figures of a GPU: drawn from what was recorded on one, with its name, or from what is measured on the one here.

Goes in: the JSON files in `notebooks/recorded`, written by `python -m minicompile.bench`.  Comes out: Pictures.
Mirrors nothing in PyTorch.  Taught in chapters 12 and 13.
"""

import json
import statistics

from . import style
from .picture import from_figure

OURS, THEIRS = style.STAGE_COLOURS["codegen"], style.STAGE_COLOURS["capture"]


def load_recorded(path):
    """The file's contents, a dict."""
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def machine_of(recorded):
    """`NVIDIA H200, torch 2.11.0`"""
    return f"{recorded.get('gpu') or recorded['cpu']}, torch {recorded['torch'].split('+')[0]}"


def measure_bandwidth(names, device="cuda", size="large"):
    """The same as a recording, for a few of the benchmark's patterns on this machine."""
    from ..bench import micro, suite, tables

    settings = suite.Settings(device=device, size=size)
    return {**tables.machine(device), "rows": [micro.run(name, settings) for name in names]}


def shares(recorded):
    """{pattern: (our share of a copy's speed, torch.compile's or None)}, the fastest first."""
    found = {}
    for row in recorded["rows"]:
        if row.get("share"):
            theirs = row.get("torch_ms") and row["share"] * row["ours_ms"] / row["torch_ms"]
            found[row["pattern"]] = (row["share"], theirs)
    return dict(sorted(found.items(), key=lambda pair: -pair[1][0]))


def draw_bandwidth(recorded, title="Speed, as a share of a plain copy's"):
    """One line a pattern: how near it comes to a copy of as many bytes as an ideal kernel moves."""
    found = shares(recorded)
    rows = [(name, 100 * ours, theirs and 100 * theirs) for name, (ours, theirs) in found.items()]
    figure, axes = pairs_of_dots(rows, 100, f"{title} ({machine_of(recorded)})", "lower left")
    axes.annotate("a copy", (100, len(found) - 0.6), (4, 0), textcoords="offset points", fontsize=11, color=style.MUTED)
    axes.set_xlabel("% of the speed of a copy")
    figure.tight_layout()
    median = statistics.median(ours for ours, _ in found.values())
    lines = [
        f"{name:18} {ours:5.0%}" + (f"  torch.compile {other:5.0%}" if other else "")
        for name, (ours, other) in found.items()
    ]
    text = "\n".join([f"{machine_of(recorded)}: median {median:.0%} of a copy's speed", *lines])
    return from_figure(figure, text, f"{title}, for {len(found)} patterns: median {median:.0%}")


def pairs_of_dots(rows, goal, title, legend):
    """(figure, axes) with a line for each (name, ours, torch.compile's or None); a rule at `goal`."""
    figure, axes = style.subplots(figsize=(9.5, 1.3 + 0.25 * len(rows)))
    axes.axvline(goal, color=style.INK, linewidth=1.5)
    for place, (_, ours, theirs) in enumerate(rows):
        if theirs:
            axes.plot([theirs, ours], [place, place], color=style.RULE, linewidth=3, zorder=1)
    look = {"linestyle": "none", "marker": "o", "markersize": 7}
    theirs = [(other, place) for place, (_, _, other) in enumerate(rows) if other]
    if theirs:
        axes.plot(*zip(*theirs), color=THEIRS, markerfacecolor=style.CARD, label="torch.compile", **look)
    axes.plot([ours for _, ours, _ in rows], range(len(rows)), color=OURS, label="minicompile", **look)
    axes.set_yticks(range(len(rows)), [name for name, _, _ in rows], fontsize=10)
    axes.set_ylim(len(rows) - 0.4, -0.6)
    axes.set_xlim(left=0)
    axes.set_title(title, loc="left")
    axes.legend(loc=legend)
    return figure, axes


def draw_race(recorded, title="gelu(x) * x, 134 MB read and 134 MB written"):
    """Speed of one kernel by the size of its blocks, a line for each number of warps; a star: what the rules take."""
    figure, axes = style.subplots(figsize=(9, 4.4))
    lines, by_warps = {}, sorted({row["num_warps"] for row in recorded["rows"]})
    for warps, colour in zip(by_warps, list(style.STAGE_COLOURS.values())[1:]):
        rows = [(row["XBLOCK"], row["gb_s"] / 1000) for row in recorded["rows"] if row["num_warps"] == warps]
        axes.plot(*zip(*rows), "o-", color=colour, linewidth=2, label=f"{warps} warp{'s' if warps > 1 else ''}")
        lines[warps] = f"{warps:2} warps: " + ", ".join(f"{block} {speed:.2f} TB/s" for block, speed in rows)
    block, warps = recorded["chosen"]
    speed = next(r["gb_s"] for r in recorded["rows"] if [r["XBLOCK"], r["num_warps"]] == recorded["chosen"]) / 1000
    axes.plot(block, speed, "*", color=style.INK, markersize=17, label="what the rules take", linestyle="none")
    axes.set_xscale("log", base=2)
    axes.set_xticks(sorted({row["XBLOCK"] for row in recorded["rows"]}), labels=None)
    axes.xaxis.set_major_formatter("{x:g}")
    axes.set_ylim(bottom=0)
    axes.set_xlabel("elements in a block")
    axes.set_ylabel("TB a second")
    axes.set_title(f"{title} ({machine_of(recorded)})", loc="left")
    axes.legend(loc="lower right", ncols=2)
    figure.tight_layout()
    text = [machine_of(recorded), *lines.values(), f"the rules take {block} and {warps} warps: {speed:.2f} TB/s"]
    return from_figure(figure, "\n".join(text), f"Race of {len(recorded['rows'])} block sizes: {title}")


KINDS = {  # what a kernel's name tells -> (its kind, colour)
    "kernel_": ("generated", style.STAGE_COLOURS["codegen"]),
    "Memcpy": ("copy", style.STAGE_COLOURS["load"]),
    "elementwise": ("eager's elementwise", style.STAGE_COLOURS["aot"]),
    "layer_nor": ("eager's layer norm", style.STAGE_COLOURS["schedule"]),
    "": ("matrix product", style.STAGE_COLOURS["capture"]),
}


def kind_of(name):
    """(kind, colour) of a kernel on a GPU."""
    return next(kind for part, kind in KINDS.items() if part in name)


def draw_launches(recorded, title="One call, launch by launch"):
    """For each way of calling: when the host launched, and when the GPU worked."""
    ways, used, text = recorded["ways"], {}, [machine_of(recorded)]
    figure, panels = style.subplots(len(ways), 1, figsize=(9.5, 1.2 + 1.35 * len(ways)), sharex=True)
    for panel, (name, way) in zip(panels, ways.items()):
        spans = [(start, end - start) for start, end in way["launches"]]
        panel.broken_barh(spans, (1.1, 0.7), color=style.MUTED)
        for start, end, kernel in way["kernels"]:
            kind, colour = kind_of(kernel)
            used[kind] = panel.broken_barh([(start, end - start)], (0.1, 0.7), color=colour)
        busy = sum(end - start for start, end, _ in way["kernels"])
        last = max(end for _, end, _ in way["kernels"])
        count, launches = len(way["kernels"]), len(way["launches"])
        plural = "launch" if launches == 1 else "launches"
        text.append(f"{name}: {launches} {plural}, {count} kernels, GPU busy {busy:.0f} of {last:.0f} us")
        text[-1] += f"; without the profiler {1000 * way['milliseconds']:.0f} us a call"
        panel.set_title(f"{name}: {1000 * way['milliseconds']:.0f} µs a call", loc="left", fontsize=12)
        panel.set_yticks([0.45, 1.45], ["GPU", "host"])
        panel.set_ylim(0, 2)
        panel.grid(axis="y", visible=False)
    panels[-1].set_xlabel("microseconds, with a profiler at work, which slows the host")
    figure.legend(used.values(), used, loc="lower left", ncols=len(used), fontsize=10)
    alt = f"{title}: the host's launches and the GPU's kernels, for {', '.join(ways)}"
    return from_figure(figure, "\n".join(text), alt, f"{title} ({machine_of(recorded)})", rect=(0, 0.05, 1, 1))


def draw_modes(recorded, title='mode="reduce-overhead", times as fast as eager'):
    """One line for each model and mode: torch.compile's ratio and ours."""
    rows = [
        (f"{row['model']}, {row['mode']}", row["ratio"], row["torch_ratio"])
        for row in sorted(recorded["rows"], key=lambda row: -(row.get("ratio") or 0))
        if row.get("ratio")
    ]
    figure, _ = pairs_of_dots(rows, 1, f"{title} ({machine_of(recorded)})", "lower right")
    figure.tight_layout()
    lines = [f"{name:28} {ours:.2f}x  torch.compile {theirs:.2f}x" for name, ours, theirs in rows]
    return from_figure(figure, "\n".join([machine_of(recorded), *lines]), f"{title}, for {len(rows)} rows")
