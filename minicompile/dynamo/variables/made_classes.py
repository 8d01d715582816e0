"""Classes that the program makes by a call: `collections.namedtuple("Box", "low high")`.

Goes in: the call, on constants.  Comes out: the tracker of a class that capture made in the same way, to look at; the
new bytecode makes another one at each call, and whatever needs the class gets that one (`load_const` of codegen.py).
PyTorch has no such file.  Taught in chapter 06.
"""

import collections

from .base import unsupported
from .classes import UserDefinedClassVariable


class MadeClassVariable(UserDefinedClassVariable):
    """A class that the program makes by a call on constants: another one each time, `value` is like it."""

    has_identity = True

    def __init__(self, value, function, args, kwargs):
        super().__init__(value)
        self.call = function, args, kwargs

    def reconstruct(self, codegen):
        function, args, kwargs = self.call
        codegen.call(function, *args, *kwargs.values(), kw_names=tuple(kwargs))


def make_named_tuple(tx, *args, **kwargs):
    """`collections.namedtuple("Box", "low high")`."""
    if not tx.can_fold(None, args, kwargs) or "module" in kwargs:
        unsupported("class definition", "collections.namedtuple of names that are not known")
    constants = [a.as_python_constant() for a in args]
    named = {name: value.as_python_constant() for name, value in kwargs.items()}
    named["module"] = tx.globals_dict.get("__name__", "__main__")
    try:
        made = collections.namedtuple(*constants, **named)
    except (TypeError, ValueError) as error:
        tx.raise_python_exception(error)
    return tx.output.remember(made, MadeClassVariable(made, collections.namedtuple, constants, named))


HANDLERS = {collections.namedtuple: make_named_tuple}
