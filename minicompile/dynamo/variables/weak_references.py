"""Weak references and proxies.

Goes in: the tracker of a weak reference, or what one is made to.  Comes out: that of what is referred to.
Mirrors parts of `torch/_dynamo/variables/misc.py`.  Taught in chapter 06.
"""

import sys
import types
import weakref

from ..builder import wraps
from ..skip_files import attributes_of
from ..source import CallSource
from .base import VariableTracker, as_observed, can_change, complain, unsupported
from .constant import NONE
from .descriptors import type_lookup
from .elements import is_none
from .objects import placed


def dereference(reference):
    return reference()


def refuse_arguments(tx, args, kwargs):
    """A reference is called without any."""
    complain(tx, weakref.ref(object), *args, **kwargs)


def refuse_dead(tx, value):
    """What the captured program has let go of is still there during capture, and when guards are checked."""
    if not is_kept_by_a_module(value) and (tx.side_effects.order or tx.root().has_dropped_an_argument()):
        unsupported(
            "object with a finalizer",
            "a weak reference is asked after the program let go of objects: it may have died with them",
            "ask it before, or keep what it refers to in a variable",
        )


def is_kept_by_a_module(value):
    """A class or function that is found where it says."""
    if not isinstance(value, NAMED):
        return False
    kept = sys.modules.get(value.__module__)
    for name in value.__qualname__.split("."):
        kept = attributes_of(kept).get(name) if isinstance(kept, (type, types.ModuleType)) else None
    return kept is value


NAMED = (type, types.FunctionType, types.BuiltinFunctionType)


class WeakReferenceVariable(VariableTracker):
    """An existing weak reference.  referent: what it refers to, read anew and guarded when somebody looks."""

    def __init__(self, value, source, referent):
        super().__init__(source)
        self.value, self.referent = value, referent

    def python_type(self):
        return type(self.value)

    def key(self):
        """Equal to every other reference to what is equal."""
        if self.referent.value is None:
            return super().key()
        refuse_dead(self.referent.output.current_translator, self.referent.value)
        return WeakReferenceVariable, self.referent.key()

    def method___eq__(self, tx, other):
        other = other.realize()
        if isinstance(other, NewWeakReferenceVariable):
            other = other.reference
        if not isinstance(other, WeakReferenceVariable):
            return tx.build(NotImplemented)
        refuse_dead(tx, self.referent.value)
        refuse_dead(tx, other.referent.value)
        if self.referent.value is None or other.referent.value is None:
            return tx.build(tx.is_same(self, other))
        return tx.build(tx.equals(self.referent, other.referent))

    def method___ne__(self, tx, other):
        answer = self.method___eq__(tx, other)
        return answer if answer.value is NotImplemented else tx.build(not answer.value)

    def call_function(self, tx, args, kwargs):
        refuse_arguments(tx, args, kwargs)
        refuse_dead(tx, self.referent.value)
        return self.referent


class NewWeakReferenceVariable(VariableTracker):
    """`weakref.ref(referent, callback)`.  reference: the tracker of one to the same that has no callback."""

    has_identity = True
    holds, maker = ("referent", "callback"), weakref.ref

    def __init__(self, referent, callback, reference):
        super().__init__()
        self.referent, self.callback, self.reference = referent, callback, reference

    def python_type(self):
        return weakref.ReferenceType

    def key(self):
        return self.reference.key()

    def method___eq__(self, tx, other):
        return self.reference.method___eq__(tx, other)

    def method___ne__(self, tx, other):
        return self.reference.method___ne__(tx, other)

    def call_function(self, tx, args, kwargs):
        return self.reference.call_function(tx, args, kwargs)


def make_reference(tx, referent, callback=NONE):
    """`weakref.ref(...)` of what was there before; other objects may die while the reference lives."""
    value = getattr(referent, "value", None)
    if isinstance(value, NAMED) and not is_kept_by_a_module(value):  # compiled code and its guards would keep it
        unsupported("object with a finalizer", f"a weak reference to {referent}, which no module keeps")
    referent = referent.realize()
    is_class = issubclass(referent.python_type(), type)
    if not is_class and (referent.source is None or not hasattr(referent, "value")):
        unsupported("class written in C", f"a weak reference to {referent}")
    with as_observed(tx):
        reference = weakref.ref(referent.value)
    source = CallSource(placed(referent.value, referent.source), weakref.ref)
    reference = tx.output.lazy(reference, source).realize()
    return reference if is_none(callback) else NewWeakReferenceVariable(referent, callback, reference)


def referent(proxy):
    """What a proxy stands for; None where that is gone."""
    try:
        return proxy.__init__.__self__
    except ReferenceError:
        return None


def asks_referent(name):
    def ask(self, tx, *arguments):
        return getattr(self.referent(tx), name)(tx, *arguments)

    return ask


class WeakProxyVariable(VariableTracker):
    """An existing weak proxy: what is asked of it, it asks of what it stands for (even what class that is of)."""

    def __init__(self, value, source):
        super().__init__(source)
        self.value = value

    def python_type(self):
        return type(self.value)

    def is_immutable(self):
        return True

    def referent(self, tx):
        found = referent(self.value)
        lookup = None if found is None else type_lookup(type(found), "__getattribute__").owner
        if found is None or can_change(lookup):
            unsupported("attribute written in C", "a weak proxy of what is gone, or decides what its attributes are")
        refuse_dead(tx, found)
        return tx.output.lazy(found, CallSource(placed(self.value, self.source), referent)).realize()

    var_getattr, var_setattr, var_delattr = map(asks_referent, ("var_getattr", "var_setattr", "var_delattr"))
    call_function, truth = asks_referent("call_function"), asks_referent("truth")

    def call_method(self, tx, name, args, kwargs):
        if name.startswith("__"):  # of an operator: how a proxy passes it on depends on the operator
            unsupported("method written in C", f"`{name}` of a weak proxy")
        return self.referent(tx).call_method(tx, name, args, kwargs)

    def iterate(self, tx):
        unsupported("method written in C", "`__iter__` of a weak proxy")

    next = iterate

    def reconstruct(self, codegen):
        codegen.load_const(self.value)


@wraps(weakref.ProxyType, weakref.CallableProxyType)
def wrap_weak_proxy(output, value, source):
    return WeakProxyVariable(value, source)


@wraps(weakref.ReferenceType)
def wrap_weak_reference(output, value, source):
    output.guard("type", source, type(value))
    source = placed(value, source)
    return WeakReferenceVariable(value, source, output.lazy(value(), CallSource(source, dereference)))


HANDLERS = {weakref.ref: make_reference}
