"""What symbolic sizes cost: kernels for any size against kernels for this size, interleaved in one run.

Goes in: nothing (`python scripts/dynamic_cost.py [rounds] [cuda]`).  Comes out: a table of milliseconds a call at round
sizes and their ratio (1.00 = no cost).  Both are compiled from one function, with `dynamic=False` and `dynamic=True`.
On a CPU it is the time that one thread computes: what others do meanwhile does not count.
"""

import statistics
import sys
import time

import torch
import torch.nn.functional as F

import minicompile
from minicompile.bench.tables import table
from minicompile.bench.timing import interleaved, ratio

COLUMNS = {
    "what": ("what", "{}"),
    "static": ("static ms", "{:.4f}"),
    "dynamic": ("dynamic ms", "{:.4f}"),
    "ratio": ("dynamic / static", "{:.2f}"),
}


def gelu(x):
    return F.gelu(x * 1.5 + 1) * x


def add_to_rows(x, row):
    return torch.relu(x + row) * row


def transposed(x):
    return x.t().contiguous() + 1


def softmax(x):
    return torch.softmax(x * 2, -1)


def layer_norm(x):
    return F.layer_norm(x, x.shape[-1:]) * 2 + 1


def sum_of_columns(x):
    return (x * x).sum(0)


def linear_and_gelu(x, weight, bias):
    return F.gelu(F.linear(x, weight, bias))


def loss_and_gradient(x, weight):
    return (F.gelu(x @ weight) * x).sum()


def cat_and_relu(x, row):
    return torch.cat((x, row.expand_as(x)), 1).relu() + 1


def small_cases():
    """Where the host's work is most of the time."""
    x, row = torch.randn(64, 64), torch.randn(64)
    yield gelu, (torch.randn(16),)
    yield gelu, (x,)
    yield add_to_rows, (x, row)
    yield softmax, (x,)
    yield layer_norm, (x,)
    yield sum_of_columns, (x,)
    yield cat_and_relu, (x, row)
    yield linear_and_gelu, (x, torch.randn(64, 64), row)
    yield loss_and_gradient, (x, torch.randn(64, 64, requires_grad=True))


def large_cases(rows, columns, side):
    x, row = torch.randn(rows, columns), torch.randn(columns)
    yield gelu, (x,)
    yield add_to_rows, (x, row)
    yield transposed, (x,)
    yield softmax, (x,)
    yield layer_norm, (x,)
    yield sum_of_columns, (x,)
    yield cat_and_relu, (x, row)
    yield linear_and_gelu, (torch.randn(side, side), torch.randn(side, side), torch.randn(side))
    yield loss_and_gradient, (torch.randn(side, side), torch.randn(side, side, requires_grad=True))


def row(function, inputs, rounds, device):
    inputs = [value.detach().to(device).requires_grad_(value.requires_grad) for value in inputs]
    minicompile.reset()  # nothing that was compiled for another case's sizes
    both = {name: minicompile.compile(function, dynamic=name == "dynamic") for name in ("static", "dynamic")}
    leaves = [value for value in inputs if value.requires_grad]
    step = (lambda f: torch.autograd.grad(f(*inputs), leaves)) if leaves else (lambda f: f(*inputs))
    calls = {name: lambda f=f: step(f) for name, f in both.items()}
    times = interleaved(calls, device=device, rounds=rounds, clock=time.process_time)
    what = f"{function.__name__} {' '.join('x'.join(map(str, value.shape)) for value in inputs)}"
    medians = {name: timing.median for name, timing in times.items()}
    return {"what": what, **medians, "ratio": 1 / ratio(times["static"], times["dynamic"])[0]}


def cases(device):
    yield from small_cases()
    yield from large_cases(1024, 1024, 256)
    if device == "cuda":
        yield from large_cases(16384, 2048, 4096)


if __name__ == "__main__":
    numbers = [int(argument) for argument in sys.argv[1:] if argument.isdigit()]
    device = "cuda" if "cuda" in sys.argv else "cpu"
    torch.set_num_threads(1)
    rows = [row(function, inputs, *(numbers or [25]), device) for function, inputs in cases(device)]
    print(table(rows, COLUMNS))
    worst = max(rows, key=lambda row: row["ratio"])
    print(
        f"dynamic takes {statistics.median(row['ratio'] for row in rows):.2f} of static's time; most: {worst['what']}"
    )
