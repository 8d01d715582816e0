"""copy.copy and copy.deepcopy during capture.

Goes in: the tracker of anything.  Comes out: that of its copy; parts that are shared stay shared.
Mirrors `torch/_dynamo/polyfills/copy.py`.  Taught in chapter 06.
"""

import collections
import copy

from .base import unsupported
from .constant import ConstantVariable
from .containers import DequeVariable, ListVariable
from .copies import copy_object
from .dicts import DictVariable
from .instance_dict import InstanceDictVariable
from .objects import UserDefinedObjectVariable
from .sets import SetVariable
from .tuples import RangeVariable, SliceVariable, TupleVariable


def shallow_copy(tx, value):
    value = value.realize()
    if isinstance(value, (ConstantVariable, TupleVariable, RangeVariable, SliceVariable)):
        return value
    if value.python_type() is frozenset:
        return value
    if isinstance(value, UserDefinedObjectVariable):
        return copy_object(tx, value, {}, lambda attribute: attribute)
    refuse_attributes(tx, value)
    if not hasattr(type(value), "method___copy__"):
        unsupported("object copy", f"copy.copy of {value}")
    return value.call_method(tx, "copy", [], {})


def refuse_attributes(tx, value):
    """Those of an OrderedDict go with a copy, and not with what `copy()` makes of it."""
    if value.python_type() is collections.OrderedDict:
        if value.source is not None or tx.side_effects.pending_attributes(value):
            unsupported("object copy", f"{value}, which may have attributes")


def deep_copy(tx, value, memo=None):
    """Shared parts stay shared: `memo` maps trackers to their copies."""
    value, memo = value.realize(), {} if memo is None else memo
    if not isinstance(memo, dict):
        unsupported("object copy", "copy.deepcopy with a memo")
    if value not in memo:
        again = COPIERS.get(type(value))
        if isinstance(value, UserDefinedObjectVariable):
            again = deep_copy_object
        if isinstance(value, InstanceDictVariable):
            return deep_copy(tx, value.snapshot(tx), memo)
        if again is None and not (value.is_immutable() and value.is_python_constant()):
            unsupported("object copy", f"copy.deepcopy of {value}")
        memo[value] = value if again is None else again(tx, value, memo)
    return memo[value]


def copy_sequence(tx, value, memo):
    memo[value] = made = value.like([])
    made.items.extend(deep_copy(tx, item, memo) for item in value.items)
    return made


def copy_tuple(tx, value, memo):
    items = [deep_copy(tx, item, memo) for item in value.items]
    if value in memo:  # it was reached through itself
        return memo[value]
    same = all(new is old.realize() for new, old in zip(items, value.items))
    return value if same else value.like(items)


def copy_dict(tx, value, memo):
    refuse_attributes(tx, value)
    memo[value] = made = DictVariable(cls=value.cls, factory=value.factory)
    for key, item in list(value.look(tx).values()):
        made.method___setitem__(tx, deep_copy(tx, key, memo), deep_copy(tx, item, memo))
    return made


def copy_set(tx, value, memo):
    return SetVariable.of(tx, [deep_copy(tx, item, memo) for item in value.unpack(tx)], value.cls)


def deep_copy_object(tx, value, memo):
    return copy_object(tx, value, memo, lambda attribute: deep_copy(tx, attribute, memo), deep=True)


COPIERS = {
    ListVariable: copy_sequence,
    DequeVariable: copy_sequence,
    TupleVariable: copy_tuple,
    DictVariable: copy_dict,
    SetVariable: copy_set,
}

HANDLERS = {copy.copy: shallow_copy, copy.deepcopy: deep_copy}
