"""Build and load generated C++: find a compiler, compile into the cache, load through `ctypes`, call through `_launch`.

Goes in: C++ text.  Comes out: the functions in it, callable on tensors.  Mirrors `torch/_inductor/cpp_builder.py`.
Taught in chapter 11.
"""

import ctypes
import functools
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from ... import cache, config, record
from ...errors import CompilerNotFound, MinicompileError
from ..ops import ERROR_INDEX
from ._launch import Launcher

# Of what `-O3` adds to `-O2` these parts make kernels faster; all of it takes half as long again to compile.
GCC_O3 = ["-O2", "-ftree-vectorize", "-fvect-cost-model=dynamic", "-fpeel-loops", "-fipa-cp-clone"]
# No -ffast-math: NaN, infinities and signed zeros are the program's.  No contraction: a * b + c rounds twice, as
# eager does.
FLAGS = [
    *("-std=c++17", *GCC_O3, "-march=native", "-fopenmp", "-fno-math-errno", "-fno-trapping-math"),
    *("-ffp-contract=off", "-fwrapv", "-Wno-psabi", "-Wno-unknown-pragmas", "-shared", "-fPIC"),
]
if platform.machine() in ("x86_64", "AMD64"):  # of AVX-512 GCC takes half on a Xeon: up to 1.9 times as slow
    FLAGS.append("-mprefer-vector-width=512")
LIBRARIES = ["-lmvec", "-lm"] if sys.platform == "linux" else ["-lm"]


@functools.cache
def find_compiler(preferred=""):
    """(path, version text) of the C++ compiler."""
    for name in (preferred,) if preferred else ("g++", "clang++", "c++"):
        path = shutil.which(name)
        if path:
            told = subprocess.run([path, "--version"], capture_output=True, text=True, check=False)
            return path, told.stdout.split("\n")[0]
    raise CompilerNotFound(
        f"no C++ compiler found (looked for {preferred or 'g++, clang++'}); install one: `apt install g++`, "
        "`dnf install gcc-c++`, `xcode-select --install` or `conda install cxx-compiler`"
    )


@functools.cache
def flags_of(compiler, version):
    """FLAGS as this compiler knows them: Clang finds vector math by a flag, and its OpenMP is a package of its own."""
    if "clang" not in version:
        return FLAGS
    with tempfile.TemporaryDirectory() as folder:
        probe = [compiler, "-fopenmp", "-shared", "-x", "c++", "-", "-o", f"{folder}/probe.so"]
        threads = subprocess.run(probe, input="", capture_output=True, text=True, check=False).returncode == 0
    vectors = ["-fveclib=libmvec"] if sys.platform == "linux" and platform.machine() == "x86_64" else []
    common = [flag for flag in FLAGS if flag not in (*GCC_O3, "-fopenmp")]
    return [*common, "-O3", "-fopenmp" if threads else "-fopenmp-simd", *vectors]


def build(source, extra=()):
    """C++ text -> path of a shared library, from the cache where possible.  extra: flags behind the usual ones."""
    compiler, version = find_compiler(config.cpp_compiler)
    flags = [*flags_of(compiler, version), *extra]
    command = [*flags, *LIBRARIES]
    name = cache.name_of(cache.processor(), source, version, " ".join(command))
    found = cache.get(f"{name}.so")
    if found is not None:
        record.counters["cache_hits"] += 1
        return found
    with tempfile.TemporaryDirectory(dir=cache.directory(), prefix=".build-") as folder:
        text, library = Path(folder) / "kernels.cpp", Path(folder) / "kernels.so"
        text.write_text(source)
        arguments = [compiler, *flags, str(text), "-o", str(library), *LIBRARIES]
        done = subprocess.run(arguments, capture_output=True, text=True, check=False, env={**os.environ, "LC_ALL": "C"})
        if done.returncode != 0:
            raise MinicompileError(f"{compiler} failed on generated code:\n{done.stderr[:8000]}")
        return cache.put(f"{name}.so", library.read_bytes())


def raise_error(code):
    """What eager raises for the error flags of a kernel."""
    if code & ERROR_INDEX:
        raise IndexError("index out of range in self")
    raise RuntimeError("ZeroDivisionError")


def launcher(function, tensors, numbers):
    """A callable for `int function(void** arguments)` on so many tensors, and numbers behind them."""
    return Launcher(ctypes.cast(function, ctypes.c_void_p).value, tensors, numbers, raise_error)


def load(source, counts, extra=()):
    """Build C++ text; its functions `run_0`, `run_1`, ... by name.  counts: how many tensors and numbers each takes."""
    if not counts:
        return {}
    library = ctypes.CDLL(str(build(source, extra)))
    return {name: launcher(getattr(library, name), *count) for name, count in counts.items()}
