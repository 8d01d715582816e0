"""The gallery of graph breaks: a small function for every kind of the registry, and the same function mended.

Goes in: nothing.  Comes out: EXAMPLES, {kind: Example} in the order of minicompile/dynamo/break_kinds.py.
Chapter 05 shows them; tests/dynamo/test_break_kinds.py runs each, eager against compiled.
"""

from minicompile.dynamo.break_kinds import BREAK_KINDS

from . import calls as calls  # each file fills the table
from . import classes as classes
from . import data as data
from . import frames as frames
from . import tensors as tensors
from .card import breaks_of as breaks_of
from .card import show as show
from .example import GALLERY
from .example import Example as Example

EXAMPLES = {kind: GALLERY[kind] for kind in BREAK_KINDS if kind in GALLERY}
