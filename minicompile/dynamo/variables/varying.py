"""Values of a loop that change from one graph break to the next: an iterator's position, a counter, a growing list.

Goes in: a source whose guard failed when a resume function inside a loop was called again, and its value now.
Comes out: a tracker that knows the class only (a float becomes an input of the graph).  What needs more breaks the
graph and runs in eager; so a loop with a break in its body is compiled a fixed number of times, however often it goes
round.
torch.compile leaves a frame with a break in a loop to eager altogether; its nearest kin is automatic dynamic
(`torch/_dynamo/pgo.py`).  Taught in chapter 05.
"""

import types

import torch

from ..source import CallSource
from .base import VariableTracker, unsupported

FACTS_THAT_VARY = ("equals", "length", "keys", "has_key", "lacks_key")
FEW_VALUES = (bool, type(None))  # these are worth a graph each


class VaryingVariable(VariableTracker):
    """An existing value of a known class.  Nothing else about it is guarded."""

    def __init__(self, cls, source):
        super().__init__(source)
        self.cls = cls

    def is_immutable(self):
        """Two of them may be one object: nothing that would show it is captured."""
        return True

    def call_method(self, tx, name, args, kwargs):
        unsupported("value that varies in a loop", f"`{name}` of {self.source.name}, which is another at each break")

    def truth(self, tx):
        return self.call_method(tx, "__bool__", [], {})

    def iterate(self, tx):
        return self.call_method(tx, "__iter__", [], {})

    def next(self, tx):
        return self.call_method(tx, "__next__", [], {})

    def update(self, tx, pairs):
        """The dict of `{**a, **b}` or `f(**a, **b)`, where a break lies between."""
        return self.call_method(tx, "update", [], {})

    def call_function(self, tx, args, kwargs):
        return self.call_method(tx, "__call__", args, kwargs)

    def var_getattr(self, tx, name):
        return self.call_method(tx, name, [], {})


def can_vary(value):
    """Tensors and modules have better guards than their identity; of a few values, each is worth a graph."""
    return not issubclass(type(value), (torch.Tensor, torch.nn.Module, types.FunctionType, *FEW_VALUES))


def wrap_varying(output, value, source):
    output.guard("type", source, type(value))
    if type(value) is float:  # which a graph can take as it comes
        return output.add_unknown_number(value, source)
    return VaryingVariable(type(value), source)


def varying_source(source):
    """The value whose state a guard was about: what a guard computes of an iterator is the iterator's state."""
    found = part = source
    while part is not None:
        if isinstance(part, CallSource):
            found = part.parent
        part = part.parent
    return found


def add_varying(varying, failed_guards):
    """Add to `varying` ({source: None}) what these failed guards were about."""
    for guard in failed_guards:
        if guard.kind in FACTS_THAT_VARY and type(guard.expected) not in FEW_VALUES:
            varying[varying_source(guard.source)] = None
