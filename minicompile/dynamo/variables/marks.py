"""Functions that the user marked for the compiler, with minicompile's decorators or with those of torch.compile.

Goes in: a function that exists.  Comes out: a tracker that breaks the graph at a call, puts the call into the graph as
it is, makes it during capture once and for all, or leaves it out.  Those of torch are told by their marks, or looked up
among the modules that the user's program has imported; nothing is imported for it.
Mirrors `torch/_dynamo/variables/functions.py` (SkipFunctionVariable) and `decorators.py`.  Taught in chapter 05.
"""

import functools
import sys

from ..builder import guarded, wraps_if
from ..decorators import ALLOWED
from ..skip_files import TORCH_FOLDER
from ..source import ConstantSource
from .base import ValueVariable, unsupported
from .tensor import TensorVariable, graph_call


class MarkedFunctionVariable(ValueVariable):
    """`value`: the function; call: what a call of it does, with the translator, the function and its arguments."""

    has_identity = True

    def __init__(self, value, source, call):
        super().__init__(value, source)
        self.call = call

    def call_function(self, tx, args, kwargs):
        return self.call(tx, self.value, args, kwargs)


def leave_to_eager(tx, function, args, kwargs):
    """`disable`: never seen into."""
    unsupported("disabled function", f"{function.__qualname__} is marked to run in eager")


def break_graph(tx, function, args, kwargs):
    """torch's own code (an optimizer's `step`) breaks the graph where torch.compile needs it, and ours does not."""
    if tx.code.co_filename.startswith(TORCH_FOLDER):
        return tx.build(None)
    leave_to_eager(tx, function, args, kwargs)


def ignore(tx, function, args, kwargs):
    """Another compiler's book-keeping, which says nothing to the program: torch.compile tags every new nn.Module."""
    return tx.build(None)


def call_once(tx, function, args, kwargs):
    """`assume_constant_result`: called during capture; what it returned then is taken for what it will return."""
    values = [real_value(tx, function, a) for a in args], {k: real_value(tx, function, v) for k, v in kwargs.items()}
    try:
        result = function(*values[0], **values[1])
    except Exception as error:  # whatever it raises, the captured program sees
        tx.raise_python_exception(error)
    return tx.output.wrap(result, ConstantSource(result, f"{function.__name__}()"))


def real_value(tx, function, tracker):
    tracker = tracker.realize()
    if tracker.is_python_constant():
        return tracker.as_python_constant()
    if tracker.source is not None and not tx.side_effects.order:
        if isinstance(tracker, TensorVariable):
            return tx.output.input_value(tracker)
        if hasattr(tracker, "value"):
            return tracker.value
    unsupported("disabled function", f"{function.__qualname__} has a constant result, but of unknown arguments")


BY_NAME = {  # the function is one of these
    ("torch._dynamo.decorators", "graph_break"): break_graph,
    ("torch._dynamo.decorators", "skip_frame"): leave_to_eager,
    ("torch._dynamo.decorators", "mark_dynamic"): leave_to_eager,
    ("torch._dynamo.decorators", "maybe_mark_dynamic"): leave_to_eager,
    ("torch._dynamo.decorators", "mark_static"): ignore,
    ("torch._dynamo.decorators", "mark_static_address"): ignore,
    ("torch._dynamo.mutation_guard", "tag"): ignore,
}
BY_ATTRIBUTE = {  # the function has one of these, set to something true
    "_minicompile_disabled": leave_to_eager,
    "_torchdynamo_disable": leave_to_eager,
    "_dynamo_forbidden": leave_to_eager,
    "_dynamo_marked_constant": call_once,
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
        found = graph_call  # a node of the graph, whatever happens inside
    if found is None:
        return None
    output.guard("is", source, value)
    return MarkedFunctionVariable(value, source, found)


# a class, or a function written in C
wraps_if(is_allowed, order=6)(guarded("is", functools.partial(MarkedFunctionVariable, call=graph_call)))
