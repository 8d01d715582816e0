"""How long the first call of a model takes in a process that compiled nothing before, with empty caches on disk.

Goes in: a model, a mode, settings, and a folder for the caches of both compilers.  Comes out: keys of a row.
Before the clock starts all is imported, and eager made a step: whoever comes first would pay for loading the device's
libraries.  With the folder filled, the process that makes the row finds it warm.
"""

import contextlib
import os
import pickle
import subprocess
import sys
import time
from unittest import mock

import torch

import minicompile
import minicompile.inductor
from minicompile import config


@contextlib.contextmanager
def caches(folder):
    """Inside, both compilers keep what they make in `folder`, and know of no other.  Both are imported."""
    import torch._dynamo
    import torch._inductor.compile_fx  # noqa: F401
    from torch._inductor.utils import clear_caches

    clear_caches()
    theirs = {"TORCHINDUCTOR_CACHE_DIR": f"{folder}/torch", "TRITON_CACHE_DIR": f"{folder}/triton"}
    with config.patch(cache_dir=f"{folder}/ours"), mock.patch.dict(os.environ, theirs):
        yield
    clear_caches()


def cold(name, mode, settings, folder):
    """Seconds of first calls by a new process, of which the last line of output tells."""
    asked = pickle.dumps((name, mode, settings, str(folder)))
    done = subprocess.run([sys.executable, "-m", __name__], input=asked, capture_output=True, check=False)
    if done.returncode:
        raise RuntimeError(f"first calls in a new process: {done.stderr.decode().splitlines()[-1]}")
    return pickle.loads(done.stdout[done.stdout.index(_MARK) + len(_MARK) :])


_MARK = b"minicompile-row:"


def seconds(call):
    """Of one call; a GPU's work included."""
    began = time.perf_counter()
    call()
    if torch.cuda.is_initialized():
        torch.cuda.synchronize()
    return time.perf_counter() - began


def measure(name, mode, settings, folder):
    """{"ours_cold_s": seconds}, and torch.compile's where the settings ask for it."""
    from . import suite

    def of(compiler):
        model, *rest = suite.build(suite.MODELS[name], mode, settings)
        return seconds(suite.step(compiler(model, mode=settings.compile_mode), *rest, mode))

    found = {}
    of(lambda model, mode: model)
    with caches(folder), config.patch(fallback_random=settings.check):
        found["ours_cold_s"] = of(lambda model, mode: minicompile.compile(model, backend=settings.backend, mode=mode))
        if settings.torch_compile:
            from torch._inductor import metrics

            found["torch_cold_s"] = of(torch.compile)
            found["torch_kernels"] = metrics.generated_kernel_count
    return found


def main():
    from .worker import quiet

    quiet()
    found = measure(*pickle.loads(sys.stdin.buffer.read()))
    sys.stdout.buffer.write(_MARK + pickle.dumps(found))


if __name__ == "__main__":
    main()
