"""Copies (copy.copy, copy.deepcopy), and weak references.

Goes in: the tracker of anything, or of a weak reference.  Comes out: that of its copy, in which parts that are shared
stay shared; or of what is referred to.
Mirrors `torch/_dynamo/polyfills/copy.py` and parts of `variables/misc.py`.  Taught in chapter 06.
"""

import collections
import copy
import copyreg
import weakref

from ..builder import wraps
from ..source import CallSource, CellSource, ConstantSource, LocalSource
from .base import NotConstant, ObservedException, ValueVariable, VariableTracker, complain, unsupported
from .classes import new_plain_object
from .constant import NONE, ConstantVariable
from .containers import DequeVariable, ListVariable
from .descriptors import BoundDescriptorVariable, type_lookup
from .dicts import DictVariable
from .elements import is_none
from .instance_dict import InstanceDictVariable
from .objects import UserDefinedObjectVariable, placed
from .sets import SetVariable
from .tuples import RangeVariable, SliceVariable, TupleVariable

# Looked up on the class, so that no answer of the object itself counts.
CLASS_HOOKS = "__copy__", "__reduce__", "__getnewargs__", "__getnewargs_ex__", "__new__"


def copy_object(tx, value, memo, copy_attribute, deep=False):
    """What copy.copy and copy.deepcopy make of an ordinary object: one of its class with (copied) attributes.

    They ask the object for its hooks, in this order: its `__getattribute__`, `__getattr__` or dict may have answers.
    """
    table = copyreg.dispatch_table
    hooked = any(value.python_method(tx, name) for name in CLASS_HOOKS) or value.cls in table
    tx.guard("lacks_key", ConstantSource(table, "copyreg.dispatch_table"), value.cls)
    if (
        hooked
        or tx.output.known(table) is not None
        or type_lookup(value.cls, "__new__").owner is not object
        or not value.has_instance_dict()
    ):
        refuse(value)
    if deep and not is_none(ask(tx, value, "__deepcopy__")):
        refuse(value)
    for method in (object.__reduce_ex__, object.__reduce__, object.__getstate__):
        answer = ask(tx, value, method.__name__)
        own = isinstance(answer, BoundDescriptorVariable) and answer.descriptor is method
        if not own or answer.instance.realize() is not value:
            refuse(value)
    attributes = {name: value.stored_attribute(tx, name) for name in value.view().names(tx)}
    slots = {}
    for name in copyreg._slotnames(value.cls):
        try:
            slots[name] = tx.call(getattr, value, tx.build(name))
        except ObservedException as observed:
            if not tx.exception_matches(observed, AttributeError):
                raise
    memo[value] = made = new_plain_object(tx, value.cls, [], {})
    attributes, slots = ({name: copy_attribute(each) for name, each in part.items()} for part in (attributes, slots))
    if (attributes or slots) and tx.truth(tx.call(hasattr, made, tx.build("__setstate__"))):
        refuse(value)
    if attributes:
        answer = ask(tx, made, "__dict__")
        if not isinstance(answer, InstanceDictVariable) or answer.owner.realize() is not made:
            refuse(value)
    for name, attribute in attributes.items():
        tx.side_effects.store_attr(made, name, attribute)
    for name, attribute in slots.items():
        tx.call(setattr, made, tx.build(name), attribute)
    return made


def ask(tx, value, name):
    return tx.call(getattr, value, tx.build(name), NONE).realize()


def refuse(value):
    unsupported("object copy", f"{value}, whose class has a way of its own to be copied")


def dereference(reference):
    return reference()


def refuse_arguments(tx, args, kwargs):
    """A reference is called without any."""
    complain(tx, weakref.ref(object), *args, **kwargs)


class WeakReferenceVariable(ValueVariable):
    """An existing weak reference: what it refers to is read anew, and guarded, when somebody looks."""

    def as_python_constant(self):
        """One to a class stands for the class."""
        if not isinstance(self.value(), type):
            raise NotConstant(self)
        return self.value

    def call_function(self, tx, args, kwargs):
        """What the captured program has let go of is still there during capture, and when guards are checked."""
        refuse_arguments(tx, args, kwargs)
        if tx.side_effects.order or tx.root().has_dropped_an_argument():
            unsupported(
                "object with a finalizer",
                "a weak reference is asked after the program let go of objects: it may have died with them",
                "ask it before, or keep what it refers to in a variable",
            )
        return tx.output.lazy(self.value(), CallSource(self.source, dereference))


class NewWeakReferenceVariable(VariableTracker):
    """`weakref.ref(cls, callback)`: equal, as a key, to every other reference to the class."""

    has_identity = True
    holds, maker = ("cls", "callback"), weakref.ref

    def __init__(self, cls, callback):
        super().__init__()
        self.cls, self.callback = cls, callback

    def python_type(self):
        return weakref.ReferenceType

    def key(self):
        return weakref.ref(self.cls.as_python_constant())

    def call_function(self, tx, args, kwargs):
        refuse_arguments(tx, args, kwargs)
        return self.cls


def make_reference(tx, referent, callback=NONE):
    """`weakref.ref(...)` of a class; other objects may die while the reference lives."""
    referent = referent.realize()
    if not referent.is_python_constant() or not isinstance(referent.as_python_constant(), type):
        unsupported("class written in C", f"a weak reference to {referent}")
    if isinstance(referent.source, (LocalSource, CellSource)):  # may be made anew at each call, and die after it
        unsupported("class written in C", f"a weak reference to {referent}, which the frame holds")
    if is_none(callback):
        return tx.build(weakref.ref(referent.as_python_constant()))
    return NewWeakReferenceVariable(referent, callback)


class WeakProxyVariable(VariableTracker):
    """An existing weak proxy: what is asked of it, eager asks of what it stands for (even what class it is of)."""

    def __init__(self, value, source):
        super().__init__(source)
        self.value = value

    def is_immutable(self):
        return True

    def ask(self, *question):
        unsupported("attribute written in C", "a weak proxy passes everything on to an object that may be gone")

    python_type = var_getattr = var_setattr = var_delattr = call_method = call_function = truth = iterate = next = ask

    def reconstruct(self, codegen):
        codegen.load_const(self.value)


@wraps(weakref.ProxyType, weakref.CallableProxyType)
def wrap_weak_proxy(output, value, source):
    return WeakProxyVariable(value, source)


@wraps(weakref.ReferenceType)
def wrap_weak_reference(output, value, source):
    output.guard("type", source, type(value))
    return WeakReferenceVariable(value, placed(value, source))


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

HANDLERS = {weakref.ref: make_reference, copy.copy: shallow_copy, copy.deepcopy: deep_copy}
