"""Timing that can be trusted: variants take turns, medians are compared, and nothing cold is measured.

Goes in: named functions without arguments that do the same work.  Comes out: a `Timing` for each.
A machine that slows down for a while slows all variants down: each round runs every variant once, and a ratio is the
median of the ratios within rounds.  Whoever runs after a large copy finds its own arrays gone from the caches: nobody
has the same neighbour before it in every round, and the first call of each turn is not measured.  Taught in chapter 00.
"""

import dataclasses
import statistics
import time

import torch


@dataclasses.dataclass
class Timing:
    """Milliseconds a call: one number a round, in the order of the rounds."""

    samples: list

    @property
    def median(self):
        return statistics.median(self.samples)

    @property
    def spread(self):
        """Half of the middle half's width, relative to the median: how far to trust the number."""
        low, _, high = statistics.quantiles(self.samples, n=4)
        return (high - low) / 2 / self.median

    def __repr__(self):
        return f"{self.median:.3f} ms ±{self.spread:.0%}"


def ratio(base, other):
    """How many times faster `other` is than `base`, and the lower and upper quartile over the rounds."""
    each = sorted(a / b for a, b in zip(base.samples, other.samples, strict=True))
    low, middle, high = statistics.quantiles(each, n=4)
    return middle, low, high


def note(row, timings):
    """Write what was measured into a row of a table, with how many times faster than eager ours and torch's are."""
    for name, measured in timings.items():
        row[f"{name}_ms"], row[f"{name}_samples_ms"] = measured.median, measured.samples
    row["ratio"], row["ratio_low"], row["ratio_high"] = ratio(timings["eager"], timings["ours"])
    if "torch" in timings:
        row["torch_ratio"], *_ = ratio(timings["eager"], timings["torch"])
        row["against_torch"], *_ = ratio(timings["torch"], timings["ours"])


def _once(function, calls, device, clock):
    """Milliseconds a call over `calls` calls in a row: device time on a GPU (gaps included), else by the clock."""
    if device == "cuda":
        start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        torch.cuda.synchronize()
        start.record()
        for _ in range(calls):
            function()
        stop.record()
        torch.cuda.synchronize()
        return start.elapsed_time(stop) / calls
    began = clock()
    for _ in range(calls):
        function()
    return (clock() - began) * 1e3 / calls


def interleaved(variants, device="cpu", rounds=15, sample_ms=20.0, warm_up=3, clock=time.perf_counter):
    """{name: Timing} of {name: function}.  Each sample repeats its call until it lasts about `sample_ms`.

    clock: `time.process_time` counts what the process computes, all threads together, and not what others do meanwhile.

    The first `warm_up` calls of each variant (compilation, autotuning, allocator) are not measured.
    """
    assert rounds >= 3, "quartiles of fewer than 3 rounds mean nothing"
    names, calls, samples = list(variants), {}, {name: [] for name in variants}
    for name in names:
        for _ in range(warm_up):
            variants[name]()
        calls[name] = max(1, int(sample_ms / max(_once(variants[name], 1, device, clock), 1e-3)))
    for number in range(rounds):
        turn = names[number % len(names) :] + names[: number % len(names)]
        for name in turn if number // len(names) % 2 == 0 else turn[::-1]:
            variants[name]()  # its own arrays come back into the caches
            samples[name].append(_once(variants[name], calls[name], device, clock))
    return {name: Timing(samples[name]) for name in names}
