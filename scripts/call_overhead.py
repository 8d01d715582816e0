"""What a warm call costs beyond eager: minicompile against torch.compile, both with backend="eager", in one run.

Goes in: nothing (`python scripts/call_overhead.py [rounds]`).  Comes out: microseconds and their ratio: what a call of
`x + 1` takes more than eager.  guard_time.py has the guard checks alone.
"""

import statistics
import sys

import torch

import minicompile
from minicompile.bench.tables import table
from minicompile.bench.timing import interleaved

COLUMNS = {
    "what": ("what", "{}"),
    "ours": ("minicompile us", "{:.2f}"),
    "theirs": ("torch.compile us", "{:.2f}"),
    "ratio": ("ratio", "{:.2f}"),
}


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


if __name__ == "__main__":
    torch.set_num_threads(1)
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 30
    print(table([call_row(torch.ones(1, 1), count)], COLUMNS))
