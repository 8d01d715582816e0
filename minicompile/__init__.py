"""minicompile: torch.compile, small enough to read.

Comes out: the public names, nothing else.  Mirrors `torch/compiler/__init__.py`.  Taught in chapter 00.
"""

# ruff: noqa: E402, F401 (the public names, once the interpreter is known to be one of ours)
import importlib.machinery
import pathlib
import sys

if sys.implementation.name != "cpython" or not (3, 11) <= sys.version_info[:2] <= (3, 13):
    raise ImportError(
        "minicompile reads CPython's bytecode and frames, and supports CPython 3.11, 3.12 and 3.13; "
        f"this is {sys.implementation.name} {sys.version.split()[0]}"
    )
_folder, _suffixes = pathlib.Path(__file__).parent, importlib.machinery.EXTENSION_SUFFIXES
_extensions = "aot/_link aot/_saved dynamo/_eval_frame dynamo/_guards inductor/codegen/_launch inductor/codegen/_memory"
if not all(any((_folder / (name + suffix)).exists() for suffix in _suffixes) for name in _extensions.split()):
    raise ImportError(
        f"minicompile's frame hook is not built for this Python ({sys.executable}): "
        "run `make setup`, or `pip install -e .` with it, in the source folder"
    )

from . import config, errors, record
from .backends import list_backends, lookup_backend
from .compiler import OptimizedModule, compile, reset
from .dynamo.capture import capture
from .dynamo.decorators import (
    allow_in_graph,
    assume_constant_result,
    disable,
    graph_break,
    mark_dynamic,
    mark_static,
    maybe_mark_dynamic,
)
from .explain import explain
from .record import stats
from .viz.film_strip import step
