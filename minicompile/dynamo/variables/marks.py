"""Functions that the user marked for the compiler, with minicompile's decorators or with those of torch.compile.

Goes in: a function that exists.  Comes out: a tracker that breaks the graph at a call, puts the call into the graph as
it is, makes it during capture once and for all, or leaves it out.  Those of torch are told by their marks, or looked up
among the modules that the user's program has imported; nothing is imported for it.
Mirrors `torch/_dynamo/variables/functions.py` (SkipFunctionVariable) and `decorators.py`.  Taught in chapter 05.
"""

import sys

from ..builder import guarded, wraps_if
from ..decorators import ALLOWED
from ..skip_files import TORCH_FOLDER
from ..source import ConstantSource
from .base import ValueVariable, unsupported
from .tensor import TensorVariable, graph_call


class MarkedFunctionVariable(ValueVariable):
    """`value`: the function."""

    has_identity = True


class DisabledFunctionVariable(MarkedFunctionVariable):
    """`disable`, `graph_break`: never seen into."""

    def call_function(self, tx, args, kwargs):
        unsupported("disabled function", f"{self.value.__qualname__} is marked to run in eager")


class GraphBreakVariable(DisabledFunctionVariable):
    """torch's own code (an optimizer's `step`) breaks the graph where torch.compile needs it, and ours does not."""

    def call_function(self, tx, args, kwargs):
        if tx.code.co_filename.startswith(TORCH_FOLDER):
            return tx.build(None)
        return super().call_function(tx, args, kwargs)


class IgnoredFunctionVariable(MarkedFunctionVariable):
    """Another compiler's book-keeping, which says nothing to the program: torch.compile tags every new nn.Module."""

    def call_function(self, tx, args, kwargs):
        return tx.build(None)


class AllowedFunctionVariable(MarkedFunctionVariable):
    """`allow_in_graph`: a node of the graph, whatever happens inside."""

    def call_function(self, tx, args, kwargs):
        return graph_call(tx, self.value, args, kwargs)


class ConstantResultVariable(MarkedFunctionVariable):
    """`assume_constant_result`: called during capture; what it returned then is taken for what it will return."""

    def call_function(self, tx, args, kwargs):
        values = [self.real_value(tx, a) for a in args], {k: self.real_value(tx, v) for k, v in kwargs.items()}
        try:
            result = self.value(*values[0], **values[1])
        except Exception as error:  # whatever it raises, the captured program sees
            tx.raise_python_exception(error)
        return tx.output.wrap(result, ConstantSource(result, f"{self.value.__name__}()"))

    def real_value(self, tx, tracker):
        tracker = tracker.realize()
        if tracker.is_python_constant():
            return tracker.as_python_constant()
        if tracker.source is not None and not tx.side_effects.order:
            if isinstance(tracker, TensorVariable):
                return tx.output.input_value(tracker)
            if hasattr(tracker, "value"):
                return tracker.value
        unsupported("disabled function", f"{self.value.__qualname__} has a constant result, but of unknown arguments")


BY_NAME = {  # the function is one of these
    ("torch._dynamo.decorators", "graph_break"): GraphBreakVariable,
    ("torch._dynamo.decorators", "skip_frame"): DisabledFunctionVariable,
    ("torch._dynamo.decorators", "mark_dynamic"): DisabledFunctionVariable,
    ("torch._dynamo.decorators", "maybe_mark_dynamic"): DisabledFunctionVariable,
    ("torch._dynamo.decorators", "mark_static"): IgnoredFunctionVariable,
    ("torch._dynamo.decorators", "mark_static_address"): IgnoredFunctionVariable,
    ("torch._dynamo.mutation_guard", "tag"): IgnoredFunctionVariable,
}
BY_ATTRIBUTE = {  # the function has one of these, set to something true
    "_minicompile_disabled": DisabledFunctionVariable,
    "_torchdynamo_disable": DisabledFunctionVariable,
    "_dynamo_forbidden": DisabledFunctionVariable,
    "_dynamo_marked_constant": ConstantResultVariable,
}


def is_allowed(value):
    rules = sys.modules.get("torch._dynamo.trace_rules")
    return id(value) in ALLOWED or (rules is not None and id(value) in rules._allowed_callable_ids)


def wrap_marked(output, value, source):
    """The tracker of a marked function, or None."""
    found = BY_NAME.get((value.__module__, value.__name__))
    for attribute, candidate in BY_ATTRIBUTE.items():
        if found is None and getattr(value, attribute, False):
            found = candidate
    if found is None and is_allowed(value):
        found = AllowedFunctionVariable
    if found is None:
        return None
    output.guard("is", source, value)
    return found(value, source)


wraps_if(is_allowed, order=6)(guarded("is", AllowedFunctionVariable))  # a class, or a function written in C
