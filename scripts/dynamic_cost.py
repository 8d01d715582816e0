"""What symbolic sizes cost: kernels for any size against kernels for this size, interleaved in one run.

Goes in: nothing (`python scripts/dynamic_cost.py [rounds] [cuda]`).  Comes out: a table of milliseconds a call at round
sizes and their ratio (1.00 = no cost).  Both are compiled from one function, with `dynamic=False` and `dynamic=True`.
"""

import sys

import torch
import torch.nn.functional as F

import minicompile
from minicompile.bench.tables import table
from minicompile.bench.timing import interleaved, ratio

COLUMNS = {
    "what": ("what", "{}"),
    "static": ("static ms", "{:.3f}"),
    "dynamic": ("dynamic ms", "{:.3f}"),
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


def cases():
    x, row = torch.randn(1024, 1024), torch.randn(1024)
    yield gelu, (x,)
    yield gelu, (torch.randn(64, 64),)
    yield add_to_rows, (x, row)
    yield transposed, (x,)
    yield softmax, (x,)
    yield layer_norm, (x,)
    yield sum_of_columns, (x,)
    yield linear_and_gelu, (torch.randn(256, 256), torch.randn(256, 256), torch.randn(256))


@torch.no_grad()
def row(function, inputs, rounds, device):
    inputs = [value.to(device) for value in inputs]
    both = {name: minicompile.compile(function, dynamic=name == "dynamic") for name in ("static", "dynamic")}
    times = interleaved({name: lambda f=f: f(*inputs) for name, f in both.items()}, device=device, rounds=rounds)
    what = f"{function.__name__} {' '.join('x'.join(map(str, value.shape)) for value in inputs)}"
    medians = {name: timing.median for name, timing in times.items()}
    return {"what": what, **medians, "ratio": 1 / ratio(times["static"], times["dynamic"])[0]}


if __name__ == "__main__":
    numbers = [int(argument) for argument in sys.argv[1:] if argument.isdigit()]
    device = "cuda" if "cuda" in sys.argv else "cpu"
    print(table([row(function, inputs, *(numbers or [25]), device) for function, inputs in cases()], COLUMNS))
