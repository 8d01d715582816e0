"""One row of the benchmark: a model is compiled, checked, counted, and only then timed.

Goes in: an `Entry`, a mode and settings.  Comes out: a dict with the keys of `tables.COLUMNS`.
Mirrors `benchmarks/dynamo/common.py` in the PyTorch repository.  Taught in chapter 16.
"""

import contextlib
import copy
import dataclasses
import fcntl
import tempfile
import time
import traceback
from collections.abc import Callable

import torch

import minicompile
from minicompile import accuracy, config
from minicompile.testing import CompileCounter

from . import first_calls, timing
from .models import MODELS

MODES = ("inference", "training")


@dataclasses.dataclass
class Settings:
    """What the command line sets; `torch_compile`: time torch.compile too (its graphs are counted in any case)."""

    device: str = "cpu"
    size: str = "small"
    dtype: torch.dtype = torch.float32
    rounds: int = 15
    check: bool = True
    timed: bool = True
    torch_compile: bool = False
    backend: str = "inductor"
    compile_mode: str | None = None  # ours: None, "reduce-overhead", "max-autotune"
    clock: Callable = time.perf_counter
    turns: str | None = None  # a file to lock: rows are compiled side by side, and timed while nothing else runs


SEEDS = 3


def run(name, mode, settings):
    """The row of one model in one mode.  A failure is a row too, with its reason in `note`.

    Where one value of millions is so near zero that rounding decides what its ReLU passes on, a gradient is another one
    and not less right.  So a model that differs from eager is tried with other weights and data: chance does not strike
    each time, a fault does.  The note tells.
    """
    entry, cold = MODELS[name], {}
    with tempfile.TemporaryDirectory(prefix="minicompile-bench-") as folder:
        for seed in range(SEEDS):
            note = f"differs with seed {seed - 1}" if seed else ""
            row = {"model": name, "mode": mode, "correct": None, "note": note, **cold}
            minicompile.reset()
            torch.compiler.reset()
            try:
                if settings.timed and not cold:
                    cold = first_calls.cold(name, mode, settings, folder)
                    row.update(cold)
                with first_calls.caches(folder):
                    _fill(row, entry, mode, settings, seed)
                break
            except Exception as error:  # a benchmark goes on with the next model; the table and the exit status tell
                row.update(failure(error))
                if row["correct"] == "error":
                    break
    return row


def failure(error):
    """What a row says of an exception: "no" where a result was wrong, "error" where there was none."""
    return {
        "correct": "no" if isinstance(error, AssertionError) else "error",
        "note": f"{type(error).__name__}: {'; '.join(str(error).splitlines()[:2])}"[:90],
        "traceback": traceback.format_exc(),
    }


def build(entry, mode, settings, seed=0):
    """(model, arguments, keyword arguments, loss of an output)."""
    model, batch = entry.build(settings.size, settings.device, seed)
    if settings.dtype != torch.float32:
        model, batch.args = model.to(settings.dtype), _cast(batch.args, settings.dtype)
        batch.kwargs = dict(zip(batch.kwargs, _cast(batch.kwargs.values(), settings.dtype), strict=True))
    model.train(mode == "training")
    kwargs = entry.training_kwargs(batch) if mode == "training" else batch.kwargs
    return model, batch.args, kwargs, lambda output: entry.loss(output, batch.target)


def _cast(values, dtype):
    return tuple(v.to(dtype) if isinstance(v, torch.Tensor) and v.is_floating_point() else v for v in values)


def step(call, args, kwargs, loss, mode):
    """A function without arguments that is timed: a forward under no_grad, or forward, loss and backward."""

    def infer():
        with torch.no_grad():
            call(*args, **kwargs)

    def train():
        loss(call(*args, **kwargs)).backward()
        for parameter in parameters:
            parameter.grad = None

    parameters = list(call.parameters())
    return infer if mode == "inference" else train


def _fill(row, entry, mode, settings, seed):
    model, args, kwargs, loss = build(entry, mode, settings, seed)

    def compiler(module):
        """Compile, and make the first call, timed and counted, without a trace in the module's buffers."""
        state = copy.deepcopy(module.state_dict())
        compiled = minicompile.compile(module, backend=settings.backend, mode=settings.compile_mode)
        temperature = "warm" if settings.timed else "cold"  # timed: another process has filled the cache
        row[f"ours_{temperature}_s"] = first_calls.seconds(step(compiled, args, kwargs, loss, mode))
        row.update(minicompile.stats())
        module.load_state_dict(state)
        return compiled

    with turns(settings.turns) as wait:
        with full_precision(), config.patch(fallback_random=settings.check):
            if not settings.check:
                compiler(copy.deepcopy(model))
            elif mode == "inference":
                accuracy.check_inference(model, args, kwargs, compiler)
            else:
                accuracy.check_training(model, loss, args, kwargs, compiler)
        row["correct"] = "yes" if settings.check else None
        row["torch_graphs"] = torch_graphs(entry, mode, settings)
        if settings.timed:
            _time(row, model, (args, kwargs, loss, mode), settings, wait)


@contextlib.contextmanager
def turns(file):
    """A function that waits until all other processes with this file wait, too, or have ended; then they take turns."""
    if file is None:
        yield lambda: None
        return
    with open(file) as lock:
        fcntl.flock(lock, fcntl.LOCK_SH)
        yield lambda: fcntl.flock(lock, fcntl.LOCK_EX)


@contextlib.contextmanager
def full_precision():
    """Without TensorFloat-32, in which eager itself is too far from float64 to be compared with.  Timing allows it."""
    backends = (torch.backends.cudnn, torch.backends.cuda.matmul) if torch.cuda.is_available() else ()
    before = [backend.allow_tf32 for backend in backends]
    try:
        for backend in backends:
            backend.allow_tf32 = False
        yield
    finally:
        for backend, value in zip(backends, before, strict=True):
            backend.allow_tf32 = value


def _time(row, model, rest, settings, wait):
    """One model for all: weights of a copy lie on other pages.  Random numbers are drawn in kernels."""
    minicompile.reset()
    ours = minicompile.compile(model, backend=settings.backend, mode=settings.compile_mode)
    variants = {"eager": step(model, *rest), "ours": step(ours, *rest)}
    if settings.torch_compile:
        variants["torch"] = step(torch.compile(model, mode=settings.compile_mode), *rest)
        row["torch_warm_s"] = first_calls.seconds(variants["torch"])
    on_gpu = settings.device == "cuda"
    if on_gpu:
        torch.cuda.empty_cache()  # the others need it meanwhile
    wait()
    timing.note(row, timing.interleaved(variants, settings.device, settings.rounds, clock=settings.clock))
    if on_gpu and settings.compile_mode is None:  # memory of recorded launches is taken for good
        row.update({f"{name}_peak_mb": peak_memory(call) / 1e6 for name, call in variants.items()})


def peak_memory(call):
    """The most bytes of GPU memory that a call takes beyond what was taken before it."""
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    call()
    torch.cuda.synchronize()
    return torch.cuda.max_memory_allocated() - before


def torch_graphs(entry, mode, settings):
    """Into how many graphs torch.compile captures the same call.  Nothing is compiled, and small sizes will do."""
    counter = CompileCounter()
    small = dataclasses.replace(settings, size="small", device="cpu", dtype=torch.float32)
    model, args, kwargs, _ = build(entry, mode, small)
    with torch.no_grad() if mode == "inference" else contextlib.nullcontext():
        torch.compile(model, backend=counter)(*args, **kwargs)
    torch.compiler.reset()
    return counter.graphs
