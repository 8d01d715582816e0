"""What a VariableTracker is, in a few words, without looking at it: looking would guard it.

Goes in: a tracker, as capture left it.  Comes out: its kind (a colour in the pictures) and a short text.
Mirrors nothing in PyTorch.  Taught in chapters 03 and 06.
"""

import types

from ..dynamo.variables.base import LazyVariable
from ..dynamo.variables.cells import CellVariable
from ..dynamo.variables.constant import ConstantVariable
from ..dynamo.variables.containers import Sequence
from ..dynamo.variables.dicts import DictVariable
from ..dynamo.variables.functions import BoundMethodVariable, BuiltinMethodVariable, FunctionVariable
from ..dynamo.variables.iterators import IteratorVariable
from ..dynamo.variables.objects import UserDefinedObjectVariable
from ..dynamo.variables.sets import SetVariable
from ..dynamo.variables.tensor import TensorVariable
from ..dynamo.variables.tuples import TupleVariable

KIND_COLOURS = {
    "lazy": "#e9ecef",
    "tensor": "#cfe5f3",
    "constant": "#d3efe5",
    "container": "#fbe6c2",
    "object": "#f3dce9",
    "function": "#ffffff",
}
LONGEST = 46  # characters of a description


def describe_tracker(tracker, depth=2):
    """(kind, text): ("tensor", "mul: float32[3]"), ("lazy", "lazy x"), ("constant", "2"), ("container", "[1, 2]")."""
    kind, text = _describe(tracker, depth)
    return kind, text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"


def _describe(tracker, depth):
    if isinstance(tracker, LazyVariable):
        if tracker.variable is None:
            return "lazy", f"lazy {tracker.source.name}" if tracker.source is not None else "unbound"
        tracker = tracker.variable
    if isinstance(tracker, TensorVariable):
        return "tensor", f"{tracker.node.name}: {str(tracker.fake.dtype)[6:]}{list(tracker.fake.shape)}"
    if isinstance(tracker, ConstantVariable):
        value = tracker.value
        return "constant", f"code {value.co_name}" if isinstance(value, types.CodeType) else repr(value)
    if isinstance(tracker, Sequence | DictVariable | SetVariable):
        return "container", _container(tracker, depth)
    if isinstance(tracker, CellVariable):
        return "object", f"cell {tracker.frame_name or ''}".rstrip()
    if isinstance(tracker, UserDefinedObjectVariable):
        name = tracker.cls.__name__
        return "object", f"new {name}" if tracker.source is None else f"{name} {tracker.source.name}"
    if isinstance(tracker, BoundMethodVariable):
        return "function", f"method {_describe(tracker.function, 0)[1].removeprefix('function ')}"
    if isinstance(tracker, BuiltinMethodVariable):
        return "function", f"method {tracker.name}"
    if isinstance(tracker, FunctionVariable):
        return "function", f"function {tracker.code.co_name}"
    if isinstance(tracker, IteratorVariable):
        position = getattr(tracker, "position", "")
        place = "at the end" if position is None else f"at {position}".removesuffix("at ")
        return "object", f"{tracker.python_type().__name__} {place}".rstrip()
    return "function", repr(tracker).replace("Variable(", " ", 1).removesuffix(")")


def _container(tracker, depth):
    """The elements as far as capture knows them; the class stands in front where the brackets do not tell it."""
    cls = tracker.python_type().__name__
    if depth == 0:
        return f"{cls} of {len(tracker.items)}"

    def inner(item):
        return _describe(item, depth - 1)[1]

    if isinstance(tracker, DictVariable):
        items = [f"{inner(key)}: {inner(value)}" for key, value in list(tracker.items.values())[:6]]
        return f"{'' if cls == 'dict' else cls}{{{', '.join(items)}}}"
    if isinstance(tracker, SetVariable):
        items = [inner(item) for item in list(tracker.items.values())[:6]]
        return f"{cls}{{{', '.join(items)}}}"
    items = [inner(tracker.items[k]) for k in range(min(len(tracker.items), 6))]
    if isinstance(tracker, TupleVariable):
        return f"{'' if cls == 'tuple' else cls}({', '.join(items)}{',' if len(items) == 1 else ''})"
    return f"{'' if cls == 'list' else cls}[{', '.join(items)}]"
