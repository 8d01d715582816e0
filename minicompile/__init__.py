"""minicompile: torch.compile, small enough to read.

Comes out: the public names, nothing else.  Mirrors `torch/compiler/__init__.py`.  Taught in chapter 00.
"""

import importlib.machinery
import pathlib
import sys

if sys.implementation.name != "cpython" or not (3, 11) <= sys.version_info[:2] <= (3, 13):
    raise ImportError(
        "minicompile reads CPython's bytecode and frames, and supports CPython 3.11, 3.12 and 3.13; "
        f"this is {sys.implementation.name} {sys.version.split()[0]}"
    )
_folder, _suffixes = pathlib.Path(__file__).parent, importlib.machinery.EXTENSION_SUFFIXES
_extensions = ("dynamo/_eval_frame", "dynamo/_guards", "inductor/codegen/_launch")
if not all(any((_folder / (name + suffix)).exists() for suffix in _suffixes) for name in _extensions):
    raise ImportError(
        f"minicompile's frame hook is not built for this Python ({sys.executable}): "
        "run `make setup`, or `pip install -e .` with it, in the source folder"
    )

from . import config as config  # noqa: E402
from . import errors as errors  # noqa: E402
from . import record as record  # noqa: E402
from .backends import list_backends as list_backends  # noqa: E402
from .backends import lookup_backend as lookup_backend  # noqa: E402
from .compiler import OptimizedModule as OptimizedModule  # noqa: E402
from .compiler import compile as compile  # noqa: E402
from .compiler import reset as reset  # noqa: E402
from .dynamo.capture import capture as capture  # noqa: E402
from .dynamo.decorators import allow_in_graph as allow_in_graph  # noqa: E402
from .dynamo.decorators import assume_constant_result as assume_constant_result  # noqa: E402
from .dynamo.decorators import disable as disable  # noqa: E402
from .dynamo.decorators import graph_break as graph_break  # noqa: E402
from .dynamo.decorators import mark_dynamic as mark_dynamic  # noqa: E402
from .dynamo.decorators import mark_static as mark_static  # noqa: E402
from .dynamo.decorators import maybe_mark_dynamic as maybe_mark_dynamic  # noqa: E402
from .explain import explain as explain  # noqa: E402
from .record import stats as stats  # noqa: E402
from .viz.film_strip import step as step  # noqa: E402
