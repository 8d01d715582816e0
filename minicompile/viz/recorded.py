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
    import matplotlib.pyplot as plt

    style.use_style()
    found = shares(recorded)
    names, places = list(found), range(len(found))
    figure, axes = plt.subplots(figsize=(9.5, 1.3 + 0.235 * len(found)))
    axes.axvline(100, color=style.INK, linewidth=1.5)
    for place, (ours, theirs) in zip(places, found.values()):
        if theirs:
            axes.plot([100 * theirs, 100 * ours], [place, place], color=style.RULE, linewidth=3, zorder=1)
    theirs = [(100 * other, place) for place, (_, other) in zip(places, found.values()) if other]
    if theirs:
        axes.plot(*zip(*theirs), "o", color=THEIRS, markerfacecolor=style.CARD, markersize=7, label="torch.compile")
    axes.plot([100 * ours for ours, _ in found.values()], places, "o", color=OURS, markersize=7, label="minicompile")
    axes.annotate("a copy", (100, len(found) - 0.6), (4, 0), textcoords="offset points", fontsize=11, color=style.MUTED)
    axes.set_yticks(places, names, fontsize=10)
    axes.set_ylim(len(found) - 0.4, -0.6)
    axes.set_xlim(left=0)
    axes.set_xlabel("% of the speed of a copy")
    axes.set_title(f"{title} ({machine_of(recorded)})", loc="left")
    axes.legend(loc="lower left")
    figure.tight_layout()
    median = statistics.median(ours for ours, _ in found.values())
    lines = [
        f"{name:18} {ours:5.0%}" + (f"  torch.compile {other:5.0%}" if other else "")
        for name, (ours, other) in found.items()
    ]
    text = "\n".join([f"{machine_of(recorded)}: median {median:.0%} of a copy's speed", *lines])
    return from_figure(figure, text, f"{title}, for {len(found)} patterns: median {median:.0%}")
