"""The three costs of eager, measured: Python and dispatch, launch, memory traffic.

Goes in: a chain of operators and sizes.  Comes out: seconds for each cost, and one bar a size.
Mirrors nothing in PyTorch.  Taught in chapter 00.

How each is measured.  Python + dispatch: the chain on one element, where nothing else is left to do.  Launch (GPU
only): the chain on one element replayed from a CUDA graph, where neither Python nor the dispatcher runs.  Memory
traffic: a plain copy of the same size, once for each operator.  Arithmetic is what remains.

`python -m minicompile.viz.costs FILE` records the figures of the GPU that it runs on.
"""

import dataclasses
import json
import sys
import time

import torch

from . import style
from .picture import from_figure


@dataclasses.dataclass
class Costs:
    """Seconds for one run of the chain on `elements` float32 numbers."""

    machine: str
    elements: int
    operators: int
    total: float
    dispatch: float
    launch: float
    memory: float

    @property
    def parts(self):
        """{name: seconds}.  On a GPU the host runs ahead, so that dispatch costs only where it outlasts the device."""
        known = max(self.dispatch, self.launch + self.memory) if self.launch else self.dispatch + self.memory
        values = (self.dispatch, self.launch, self.memory, max(self.total - known, 0.0))
        return dict(zip(style.COST_COLOURS, values))

    def __repr__(self):
        parts = ", ".join(f"{name} {1e6 * value:.1f} us" for name, value in self.parts.items())
        return f"{self.elements:>10,} elements: {1e6 * self.total:.1f} us = {parts}"


def best_time(function, repeats=7, seconds=0.02, wait=lambda: None):
    """The least time of one call, in seconds: the calls of a repeat are as many as fit into `seconds`."""
    function()
    wait()
    start = time.perf_counter()
    function()
    wait()
    count = max(1, int(seconds / max(time.perf_counter() - start, 1e-7)))
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        for _ in range(count):
            function()
        wait()
        times.append((time.perf_counter() - start) / count)
    return min(times)


def measure_costs(chain, operators, sizes, device="cpu"):
    """Costs of `chain(x)`, a function of `operators` elementwise float32 operators, for each size (in elements)."""
    gpu = device == "cuda"
    machine = torch.cuda.get_device_name() if gpu else "this CPU"
    wait = torch.cuda.synchronize if gpu else lambda: None
    tiny = torch.rand(1, device=device)
    dispatch = best_time(lambda: chain(tiny), wait=wait)
    launch = best_time(replay_of(chain, tiny), wait=wait) if gpu else 0.0
    rows = []
    for elements in sizes:
        x = torch.rand(elements, device=device)
        copy = max(copy_time(x, gpu, wait) - copy_time(tiny, gpu, wait), 0.0)
        total = best_time(lambda x=x: chain(x), wait=wait)
        rows.append(Costs(machine, elements, operators, total, min(dispatch, total), launch, copy * operators))
    return rows


def copy_time(x, gpu, wait):
    """Seconds for x's way through memory and back: on the CPU a clone, into fresh memory as eager's results are; on a
    GPU, whose allocator keeps its memory, the cheapest kernel that reads and writes, replayed without the host."""
    y = torch.empty_like(x)
    return best_time(replay_of(lambda x: torch.neg(x, out=y), x) if gpu else lambda: x.clone(), wait=wait)


def replay_of(chain, x):
    """The chain's kernels as a CUDA graph: what is left when nobody has to issue them one by one."""
    graph = torch.cuda.CUDAGraph()
    chain(x)
    with torch.cuda.graph(graph):
        chain(x)
    return graph.replay


def record_costs(path, sizes=(1_000, 1_000_000, 100_000_000)):
    """Measure chapter 00's chain on the GPU here and write the rows as JSON."""

    def chain(x):
        return 0.5 * x * (1 + torch.tanh(0.7978845608 * (x + 0.044715 * x * x * x)))

    rows = measure_costs(chain, 9, sizes, "cuda")
    with open(path, "w", encoding="utf-8") as file:
        json.dump([dataclasses.asdict(row) for row in rows], file, indent=1)
    print("\n".join(map(repr, rows)))


def load_costs(path):
    """Costs recorded on another machine: a JSON list of the fields of Costs."""
    with open(path, encoding="utf-8") as file:
        return [Costs(**row) for row in json.load(file)]


def draw_costs(rows, title="Where eager's time goes"):
    """One bar for each row, to 100%, split into the costs; its length in time stands at the end."""
    figure, axes = style.subplots(figsize=(9.5, 1.4 + 0.55 * len(rows)))
    names = [f"{row.elements:,}" for row in rows]
    left = [0.0] * len(rows)
    for part, colour in style.COST_COLOURS.items():
        shares = [100 * row.parts[part] / sum(row.parts.values()) for row in rows]
        axes.barh(names, shares, left=left, color=colour, label=part, height=0.66)
        for k, share in enumerate(shares):
            if share >= 9:
                axes.text(left[k] + share / 2, k, f"{share:.0f}%", ha="center", va="center", color="white", fontsize=11)
        left = [a + b for a, b in zip(left, shares)]
    for k, row in enumerate(rows):
        axes.text(101, k, readable(row.total), va="center", fontsize=11)
    axes.invert_yaxis()
    axes.set_xlim(0, 112)
    axes.set_xticks([0, 25, 50, 75, 100], ["0", "25%", "50%", "75%", "100%"])
    axes.grid(visible=False)
    axes.set_ylabel("elements")
    axes.set_title(f"{title} ({rows[0].machine})", loc="left", pad=34)
    axes.legend(loc="lower left", bbox_to_anchor=(-0.01, 1.0), ncols=4)
    return from_figure(figure, "\n".join(map(repr, rows)), f"{title}: shares of the costs at {len(rows)} sizes")


def readable(seconds):
    """`3.2 us`, `4.1 ms`."""
    return f"{1e6 * seconds:.1f} us" if seconds < 1e-3 else f"{1e3 * seconds:.1f} ms"


if __name__ == "__main__":
    record_costs(sys.argv[1])
