"""Which of several ways is fastest: measured once, remembered on disk.

Goes in: candidates by name, each a function that makes a callable.  Comes out: the name of the fastest.
Mirrors `torch/_inductor/select_algorithm.py`.  Taught in chapter 13.
"""

import concurrent.futures
import os
import statistics
import time

import torch

from .. import cache, record
from . import cuda_graphs

CALLS, ROUNDS = 10, 7  # calls in one measurement on a GPU; measurements


def timer(call, device):
    """Seconds of a call; on a GPU of its kernels, without the time that launching them takes.

    On a CPU the least: what other processes take is no part of a call, and the median has chosen the slower way.
    """
    call()
    if device.type != "cuda":
        return min(_clocked(call) for _ in range(ROUNDS))
    pool = torch.cuda.graph_pool_handle()
    replay, _ = cuda_graphs.capture(lambda _: [call() for _ in range(CALLS)], [], pool)
    replay()
    return statistics.median(_replayed(replay) for _ in range(ROUNDS))


def _clocked(call):
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


def _replayed(replay):
    began, ended = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    began.record()
    replay()
    ended.record()
    ended.synchronize()
    return began.elapsed_time(ended) / 1e3 / CALLS


def choose(candidates, key, device, unfit=(), lead=1.0):
    """The name of the fastest candidate.  key: texts that say what is measured.  unfit: raised by one that is none.

    lead: how many times as fast as the first one it must be, or the first is taken: where two are near each other a
    busy machine decides, and the choice stays.
    """
    hardware = torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu"
    name = f"choice-{cache.key_of(hardware, *candidates, *key, str(lead))}"
    path = cache.get(name)
    if path is not None:
        return cache.unseal(path.read_bytes()).decode()
    times = {}
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        made = {each: pool.submit(make) for each, make in candidates.items()}
    for each, future in made.items():
        try:
            times[each] = timer(future.result(), device)
        except unfit:
            record.log("perf", "autotune: %s does not fit on the device", each)
    best, first = min(times, key=times.get), next(iter(candidates))
    if first in times and times[first] < lead * times[best]:
        best = first
    cache.put(name, best.encode())
    record.log("perf", "autotune: %s of %s", best, {each: f"{1e6 * t:.1f} us" for each, t in times.items()})
    return best


def tensor_of(layout):
    """(a tensor with this layout, its memory as one row: elements that share a place cannot be written through it)"""
    tensor = torch.empty_strided(layout.size, layout.stride, dtype=layout.dtype, device=layout.device)
    return tensor, torch.empty(0, dtype=layout.dtype, device=layout.device).set_(tensor.untyped_storage())
