"""How an example enters the gallery.

Goes in: `@example(kind)` above a function that breaks, `@mended(function)` above its mended twin.
Comes out: a row of GALLERY.
"""

import dataclasses
import inspect

import torch

GALLERY = {}  # kind -> Example


@dataclasses.dataclass
class Example:
    """arguments, mended_arguments: k -> the arguments of call k.  also: other kinds, without which this cannot come.

    settings: of minicompile.config, without which another kind comes.
    """

    kind: str
    function: object
    arguments: object
    also: tuple = ()
    settings: dict = dataclasses.field(default_factory=dict)
    mended: object = None
    mended_arguments: object = None

    @property
    def source(self):
        return source_of(self.function)

    @property
    def mended_source(self):
        return source_of(self.mended) if self.mended is not None else ""


def source_of(function):
    """The function as it is written, without its entry into the gallery."""
    lines = inspect.getsource(function).splitlines()
    return "\n".join(line for line in lines if not line.startswith(("@example", "@mended")))


def one_tensor(k):
    """The arguments of most examples: other values at each call."""
    return (torch.arange(6.0).reshape(2, 3) - 2 * k,)


def example(kind, arguments=one_tensor, also=(), **settings):
    """This function breaks, with just this kind."""

    def register(function):
        assert kind not in GALLERY, kind
        GALLERY[kind] = Example(kind, function, arguments, also, settings)
        return function

    return register


def mended(function, arguments=None):
    """This function computes the same as `function`, and does not break.  arguments: where the mend is there."""

    def register(better):
        row = next(row for row in GALLERY.values() if row.function is function)
        row.mended, row.mended_arguments = better, arguments or row.arguments
        return better

    return register
