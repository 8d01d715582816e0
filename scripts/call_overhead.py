"""What a warm call costs beyond eager: minicompile against torch.compile, both with backend="eager", in one run.

Goes in: nothing (`python scripts/call_overhead.py [rounds]`).  Comes out: a table of microseconds and their ratio: what
a call of `x + 1` takes more than eager, and what the guard check of a module takes that has many parameters.
"""

import statistics
import sys

import torch
from torch import nn
from torch._dynamo.eval_frame import _debug_get_cache_entry_list

import minicompile
from minicompile.bench.tables import table
from minicompile.bench.timing import interleaved
from minicompile.dynamo.eval_frame import frame_states

COLUMNS = {
    "what": ("what", "{}"),
    "ours": ("minicompile us", "{:.2f}"),
    "theirs": ("torch.compile us", "{:.2f}"),
    "ratio": ("ratio", "{:.2f}"),
}


class Layers(nn.Module):
    """A module with 4 parameters a layer, which computes next to nothing."""

    def __init__(self, layers):
        super().__init__()
        self.linears = nn.ModuleList(nn.Linear(1, 1) for _ in range(layers))
        self.norms = nn.ModuleList(nn.LayerNorm(1) for _ in range(layers))

    def forward(self, x):
        for linear, norm in zip(self.linears, self.norms):
            x = x + linear.weight + linear.bias + norm.weight + norm.bias
        return x


def increment(x):
    return x + 1


def compiled_by_both(function, x):
    both = {"ours": minicompile.compile(function, backend="eager"), "theirs": torch.compile(function, backend="eager")}
    for call in both.values():
        call(x)
    return both


def row(what, times, base):
    """base: milliseconds a round that are no overhead."""
    ours, theirs = ([(t - e) * 1e3 for t, e in zip(times[key].samples, base)] for key in ("ours", "theirs"))
    ratio = statistics.median(a / b for a, b in zip(ours, theirs))
    return {"what": what, "ours": statistics.median(ours), "theirs": statistics.median(theirs), "ratio": ratio}


def call_row(x, rounds):
    calls = {"eager": increment, **compiled_by_both(increment, x)}
    times = interleaved({key: lambda f=f: f(x) for key, f in calls.items()}, rounds=rounds, sample_ms=5)
    return row("a call of x + 1 adds", times, times["eager"].samples)


def guards_row(layers, x, rounds):
    model = Layers(layers)
    compiled_by_both(model, x)
    function = Layers.forward
    _, check = frame_states.get(function.__code__).compiled[-1]
    theirs = next(e.guard_manager for e in _debug_get_cache_entry_list(function.__code__))
    local_variables = {"self": model, "x": x}
    assert check(function, model, x) and theirs.check(local_variables)
    checks = {"ours": lambda: check(function, model, x), "theirs": lambda: theirs.check(local_variables)}
    times = interleaved(checks, rounds=rounds, sample_ms=5)
    minicompile.reset()
    torch._dynamo.reset()
    return row(f"the guards of {4 * layers} parameters", times, [0] * rounds)


if __name__ == "__main__":
    torch.set_num_threads(1)
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 30
    x = torch.ones(1, 1)
    print(table([call_row(x, count), *(guards_row(layers, x, count) for layers in (5, 25, 75))], COLUMNS))
