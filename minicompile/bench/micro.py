"""One row of the micro benchmark: a pattern is compiled by both compilers, checked, counted, and only then timed.

Goes in: the name of a pattern and settings.  Comes out: a dict with the keys of `tables.COLUMNS`.  Eager, ours,
torch.compile's and a plain copy of as many bytes as an ideal kernel moves take turns in one run; `share` is how near
ours comes to that copy.  A copy reads as much as it writes, a sum over columns only reads, and int8 that becomes float
mostly writes: `traffic_share` is how near ours comes to reading as many bytes as the pattern reads (a sum) and then
filling as many as it writes.  On one core the arithmetic alone is timed, too: our kernel on so few rows that a cache
holds them.  Where it takes longer than the copy, no kernel can reach the copy's speed; `floor_share` is how near ours
comes to the slower of the two.  Mirrors `benchmarks/dynamo/microbenchmarks/` in the PyTorch repository.  Taught in
chapter 10.
"""

import math
import tempfile

import torch
from torch.utils._pytree import tree_leaves

import minicompile
from minicompile import accuracy, config, record
from minicompile.inductor.passes import extern_bytes

from . import first_calls, timing
from .patterns import PATTERNS, Maker, nbytes
from .suite import failure, full_precision, turns


def run(name, settings):
    """The row of one pattern, under no_grad.  A failure is a row too, with its reason in `note`."""
    row = {"pattern": name, "correct": None, "note": ""}
    try:
        with torch.no_grad():
            _fill(row, PATTERNS[name], settings)
    except Exception as error:  # a benchmark goes on with the next pattern; the table and the exit status tell
        row.update(failure(error))
    return row


def _fill(row, pattern, settings):
    inputs = pattern.inputs(Maker(settings.size, settings.device, settings.dtype))
    with turns(settings.turns) as wait:
        variants = {"eager": pattern.function, "ours": _ours(row, pattern, inputs, settings)}
        with full_precision():
            expected = tree_leaves(pattern.function(*inputs))
            if settings.check:
                check(pattern, inputs, expected, tree_leaves(variants["ours"](*inputs)))
                row["correct"] = "yes"
        row["ideal_mb"], written = pattern.ideal(inputs, expected) / 1e6, nbytes(expected)
        if settings.torch_compile:
            variants["torch"] = _theirs(row, pattern, inputs)
        if settings.timed:
            wait()
            _time(row, pattern, variants, inputs, settings, written)


def _first_calls(row, key, compiled, inputs, reset):
    """Seconds of the first call with an empty cache on disk, and of the first one after a reset with it filled."""
    for temperature in ("cold", "warm"):
        reset()
        function = compiled()
        row[f"{key}_{temperature}_s"] = first_calls.seconds(lambda: function(*inputs))  # noqa: B023 (called at once)
    return function


def _ours(row, pattern, inputs, settings):
    def compiled():
        return minicompile.compile(pattern.function, backend=settings.backend, mode=settings.compile_mode)

    with tempfile.TemporaryDirectory() as folder, config.patch(cache_dir=folder):
        function = _first_calls(row, "ours", compiled, inputs, minicompile.reset)
    row.update(minicompile.stats())
    plans = [plan for entry in record.compilations for plan in entry.artifacts("schedule")]
    row["moved_mb"] = sum(plan.bytes_after + extern_bytes(plan.graph) for plan in plans) / 1e6
    return function


def _theirs(row, pattern, inputs):
    from torch._inductor.utils import fresh_cache

    with fresh_cache():
        return _first_calls(row, "torch", lambda: torch.compile(pattern.function), inputs, torch.compiler.reset)


def check(pattern, inputs, eager, ours):
    """AssertionError where ours is further from float64 than eager allows, or random draws are not what they should."""
    if pattern.differs is not None:
        wrong = [line for line in (pattern.differs(ours, inputs),) if line]
    else:
        exact = tree_leaves(pattern.function(*accuracy.double(inputs)))
        names = [f"output {number}" for number in range(len(eager))]
        assert len(ours) == len(eager), f"{len(ours)} outputs where eager has {len(eager)}"
        wrong = accuracy.excess_errors(list(zip(names, ours, eager, exact, strict=True)))
    assert not wrong, "; ".join(wrong)


CACHED = 64  # this part of the rows fits into the cache of a core
MUCH = 1.0  # megabytes; a GPU that moves less waits for the launch


def _alone(pattern, inputs, settings):
    """(two calls: ours on a part of the rows, and one that computes next to nothing; how many parts make the whole)"""
    part = pattern.inputs(Maker(settings.size, settings.device, settings.dtype, part=CACHED))
    function, nothing = (
        minicompile.compile(f, backend=settings.backend, mode=settings.compile_mode, dynamic=False)
        for f in (pattern.function, torch.neg)
    )
    one = torch.ones(1)
    calls = {"part": lambda: function(*part), "nothing": lambda: nothing(one)}
    return calls, inputs[0].numel() / part[0].numel()


def _moves(ideal, written, device):
    """Two calls that do nothing but move so many bytes: a copy, and a sum with a fill that writes so many of them."""
    one, other = (torch.randn(math.ceil(ideal / 8), device=device) for _ in range(2))
    read, filled = (torch.randn(math.ceil(n / 4), device=device) for n in (ideal - written, written))
    return {"copy": lambda: other.copy_(one), "traffic": lambda: (read.sum(), filled.fill_(1))}


def _time(row, pattern, variants, inputs, settings, written):
    calls = {name: lambda function=function: function(*inputs) for name, function in variants.items()}
    calls |= _moves(row["ideal_mb"] * 1e6, written, settings.device)
    one_core = settings.device == "cpu" and torch.get_num_threads() == 1
    alone, times = _alone(pattern, inputs, settings) if one_core else ({}, 1)
    timings = timing.interleaved({**calls, **alone}, settings.device, settings.rounds, clock=settings.clock)
    bounds = [timings["copy"]]
    if alone:
        rounds = zip(timings.pop("part").samples, timings.pop("nothing").samples, strict=True)
        timings["arithmetic"] = timing.Timing([times * (part - nothing) for part, nothing in rounds])
        bounds.append(timings["arithmetic"])
    timing.note(row, timings)
    row["copy_gb_s"] = row["ideal_mb"] / row["copy_ms"]
    floor = max(bounds, key=lambda bound: bound.median)
    row["memory_bound"] = floor is bounds[0] and (one_core or not row["extern_calls"] and row["ideal_mb"] > MUCH)
    row["floor_share"], *_ = timing.ratio(floor, timings["ours"])
    row["traffic_share"], *_ = timing.ratio(timings["traffic"], timings["ours"])
    if row["memory_bound"]:
        row["share"] = row["floor_share"]
