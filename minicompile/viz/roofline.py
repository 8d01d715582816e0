"""The roofline: how fast a program could be at most, by the bytes it moves and the work it does, and how fast it is.

Goes in: a function and its arguments.  Comes out: measured limits of this machine, a point for each way of running it,
and a Picture.  Work is counted as in `inductor/ops.py`: 1 for an addition, 4 for a division, 16 for an exp.
Mirrors nothing in PyTorch; after Williams, Waterman and Patterson, "Roofline" (2009).  Taught in chapter 10.
"""

import dataclasses
import time

import torch
from torch.fx.experimental.proxy_tensor import make_fx

from .. import config, inductor, record
from ..bench.timing import interleaved
from ..compiler import compile, reset
from ..inductor import ir
from ..inductor.indexing import hint
from . import style
from .joint import readable_bytes
from .picture import from_figure

LARGE, SMALL, TERMS = 1 << 24, 1 << 14, 32


@dataclasses.dataclass
class Point:
    """One way of running a program."""

    name: str
    work: float  # operations
    bytes: float
    seconds: float

    @property
    def intensity(self):
        """Operations for each byte that is moved."""
        return self.work / self.bytes

    @property
    def speed(self):
        """Operations in a second."""
        return self.work / self.seconds

    def __repr__(self):
        return (
            f"{self.name:16} {self.work / 1e6:8.1f} M operations, {readable_bytes(self.bytes):>8} moved: "
            f"{self.intensity:6.2f} operations a byte, {self.speed / 1e9:6.2f} G operations a second"
        )


@dataclasses.dataclass
class Roof:
    """What one thread of this machine can do: bandwidth in bytes a second, peak in operations a second."""

    bandwidth: float
    peak: float

    def at(self, intensity):
        """The most operations a second for a program with so many operations a byte."""
        return min(self.peak, self.bandwidth * intensity)

    def __repr__(self):
        ridge = self.peak / self.bandwidth
        text = f"{self.bandwidth / 1e9:.1f} GB a second, {self.peak / 1e9:.1f} G operations a second"
        return f"{text}: both are busy at {ridge:.1f} operations a byte"


def one_thread(calls, rounds=9):
    """{name: least seconds} of functions on one thread, in time that the processor spent on them."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with torch.no_grad():
            timings = interleaved(calls, rounds=rounds, clock=time.process_time)
    finally:
        torch.set_num_threads(threads)
    return {name: min(timing.samples) / 1e3 for name, timing in timings.items()}


def terms(x):
    """Operations that do not wait for each other, on numbers that stay in the cache."""
    sums = [x * (1 + k / TERMS) for k in range(TERMS)]
    while len(sums) > 1:
        sums = [a + b for a, b in zip(sums[::2], sums[1::2])]
    return sums[0]


def measure_roof():
    """The bandwidth of a copy that no cache holds, and the speed of multiplications and additions."""
    source, small = torch.rand(LARGE), torch.rand(SMALL)
    target = torch.empty_like(source)
    with config.patch(cpp_threads=1):  # by hand: functions of this package are not captured
        work = inductor.compile(make_fx(terms, tracing_mode="fake")(small), [small])
    seconds = one_thread({"copy": lambda: target.copy_(source), "work": lambda: work(small)})
    return Roof(2 * source.nbytes / seconds["copy"], (2 * TERMS - 1) * SMALL / seconds["work"])


def effort(schedule):
    """(operations, bytes) of the kernels of a schedule."""
    work = 0
    for group in schedule.groups:
        for node in group.nodes if group.kind == "loops" else ():
            points = hint(ir.product(v.size for v in (*node.outer, *node.inner)))
            work += points * (ir.cost(node.body) + node.is_reduction)
    return work, schedule.bytes_after


def measure_points(fn, *args):
    """Points of `fn(*args)`: eager, kernels without fusion, fused kernels.

    The work and the bytes of eager are those of the kernels without fusion: right where each operator of `fn` is one.
    """
    calls, efforts = {"eager": lambda: fn(*args)}, {}
    for name, options in (("no fusion", {"fusion": False}), ("fused", {})):
        reset()
        with torch.no_grad():
            run = compile(fn, options={"cpp_threads": 1, **options})
            run(*args)
        efforts[name] = effort(record.compilations[0].artifacts("schedule")[0])
        calls[name] = lambda run=run: run(*args)
    efforts["eager"] = efforts["no fusion"]
    seconds = one_thread(calls)
    return [Point(name, *efforts[name], seconds[name]) for name in calls]


MARKERS = {"eager": "s", "no fusion": "D", "fused": "o"}


def draw_roofline(roof, programs, title="Roofline, one thread"):
    """programs: {name: [Point, ...]}."""
    figure, axes = style.subplots(figsize=(9, 5))
    points = [point for row in programs.values() for point in row]
    low = min(point.intensity for point in points) / 2
    high = max([roof.peak / roof.bandwidth * 4, *(2 * point.intensity for point in points)])
    ridge = roof.peak / roof.bandwidth
    xs = [low, ridge, high]
    axes.plot(xs, [roof.at(x) / 1e9 for x in xs], color=style.INK, linewidth=2)
    middle = (low * ridge) ** 0.5
    axes.annotate(
        f"memory: {roof.bandwidth / 1e9:.0f} GB/s", (middle, roof.at(middle) / 1e9), (-8, 6), ha="right", fontsize=11,
        textcoords="offset points",
    )  # fmt: skip
    axes.annotate(
        f"arithmetic: {roof.peak / 1e9:.0f} G/s", (high, roof.peak / 1e9), (-4, 7), ha="right", fontsize=11,
        textcoords="offset points",
    )  # fmt: skip
    colours = list(style.STAGE_COLOURS.values())[1:]
    for (name, row), colour in zip(programs.items(), colours):
        axes.plot([p.intensity for p in row], [p.speed / 1e9 for p in row], color=colour, linewidth=1, alpha=0.6)
        for point in row:
            filled = colour if point.name == "fused" else style.CARD
            label = f"{name}: {point.name}"
            look = {"marker": MARKERS[point.name], "markersize": 9, "linestyle": "none", "label": label}
            axes.plot(point.intensity, point.speed / 1e9, color=colour, markerfacecolor=filled, **look)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel("operations for each byte that is moved")
    axes.set_ylabel("G operations a second")
    axes.set_title(title, loc="left")
    axes.legend(loc="lower right", fontsize=10)
    figure.tight_layout()
    text = [repr(roof), *(f"{name}: {point}" for name, row in programs.items() for point in row)]
    return from_figure(figure, "\n".join(text), f"{title}: two limits, and where {len(points)} runs lie below them")
