"""functools.partial during capture.

Goes in: `functools.partial(...)` made by the program or existing.  Comes out: the call of the wrapped function.
Mirrors `torch/_dynamo/variables/functions.py` (FunctoolsPartialVariable).  Taught in chapter 06.
"""

import functools

from ..builder import wraps
from ..source import AttrSource
from .base import VariableTracker, unsupported
from .builtins import HANDLERS
from .tuples import TupleVariable


class PartialVariable(VariableTracker):
    """`function`, `args` (a list) and `keywords` (a dict by name) are trackers.

    seen: the dict of keywords, of one that exists, or that the program has asked for it.
    """

    cls = functools.partial
    has_identity = True
    had_attributes = False

    def __init__(self, function, args, keywords, seen=None, source=None):
        super().__init__(source)
        self.function, self.args, self.keywords, self.seen = function, args, keywords, seen

    def has_attributes(self, tx):
        """Whether somebody has given it some: `partialmethod` does."""
        return bool(tx.side_effects.pending_attributes(self)) or self.had_attributes

    def dict_of_keywords(self, tx):
        if self.seen is None:
            self.seen = tx.build_dict(self.keywords)
        return self.seen

    def keywords_now(self, tx):
        if self.seen is None:
            return self.keywords
        return {key.as_python_constant(): value for key, value in self.seen.look(tx).values()}

    def call_function(self, tx, args, kwargs):
        return self.function.realize().call_function(tx, [*self.args, *args], {**self.keywords_now(tx), **kwargs})

    def var_getattr(self, tx, name):
        parts = {
            "func": lambda: self.function,
            "args": lambda: TupleVariable(self.args),
            "keywords": lambda: self.dict_of_keywords(tx),
        }
        if name in parts:
            return parts[name]()
        pending = tx.side_effects.load_attr(self, name)
        if pending is not None and pending is not tx.side_effects.DELETED:
            return pending
        if name == "__class__":
            return tx.build(functools.partial)
        if hasattr(functools.partial, name):
            unsupported("attribute written in C", f"`{name}` of {self}")
        tx.raise_observed(AttributeError, f"'functools.partial' object has no attribute '{name}'")

    def var_setattr(self, tx, name, value):
        if self.source is None:
            tx.side_effects.new_object(self)
        tx.side_effects.store_attr(self, name, value)

    def children(self):
        keywords = self.keywords.values() if self.seen is None else [self.seen]
        return [self.function, *self.args, *keywords]

    def reconstruct(self, codegen):
        if isinstance(self.function.realize(), PartialVariable):  # it gets later what keeps it from being flattened
            self.seen = self.dict_of_keywords(codegen.output.current_translator)
        if self.seen is not None:
            return codegen.call(partial_with, *self.children())
        codegen.call(functools.partial, *self.children(), kw_names=self.keywords)


def make_partial(tx, function, /, *args, **kwargs):
    function = function.realize()
    if not tx.truth(tx.call(callable, function)):
        tx.raise_observed(TypeError, "the first argument must be callable")
    if isinstance(function, PartialVariable) and not function.has_attributes(tx):  # CPython flattens too
        return PartialVariable(function.function, [*function.args, *args], {**function.keywords_now(tx), **kwargs})
    return PartialVariable(function, list(args), kwargs)


HANDLERS[functools.partial] = make_partial


@wraps(functools.partial)
def wrap_partial(output, value, source):
    output.guard("type", source, functools.partial)

    def part(name):
        return output.wrap(getattr(value, name), source and AttrSource(source, name)).realize()

    made = PartialVariable(part("func"), list(part("args").items), {}, part("keywords"), source)
    made.had_attributes = bool(vars(value))
    return made


def partial_with(function, *args):
    """A partial object whose dict of keywords is the last argument itself."""
    *args, keywords = args
    made = functools.partial(callable)
    made.__setstate__((function, tuple(args), keywords, None))
    return made
