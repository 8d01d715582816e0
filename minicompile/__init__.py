"""minicompile: torch.compile, small enough to read.

Comes out: the public names, nothing else.  Mirrors `torch/compiler/__init__.py`.  Taught in chapter 00.
"""

import sys

if sys.implementation.name != "cpython" or not (3, 11) <= sys.version_info[:2] <= (3, 13):
    raise ImportError(
        "minicompile reads CPython's bytecode and frames, and supports CPython 3.11, 3.12 and 3.13; "
        f"this is {sys.implementation.name} {sys.version.split()[0]}"
    )
try:
    from .dynamo import _eval_frame as _eval_frame
except ImportError as error:
    raise ImportError(
        f"minicompile's frame hook is not built for this Python ({sys.executable}); "
        f"run `{sys.executable} -m pip install -e .` in the source folder (or `make setup`)"
    ) from error
