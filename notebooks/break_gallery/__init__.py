"""The gallery of graph breaks: a small function for every kind of the registry, and the same function mended.

Goes in: nothing.  Comes out: EXAMPLES, {kind: Example} in the order of minicompile/dynamo/break_kinds.py.
Chapter 05 shows them; tests/dynamo/test_break_kinds.py runs each, eager against compiled.
"""

from minicompile.dynamo.break_kinds import BREAK_KINDS

from . import calls, classes, data, frames, tensors  # noqa: F401  (each fills the table)
from .example import GALLERY, Example

EXAMPLES = {kind: GALLERY[kind] for kind in BREAK_KINDS if kind in GALLERY}

__all__ = ["BREAK_KINDS", "EXAMPLES", "GALLERY", "Example"]
