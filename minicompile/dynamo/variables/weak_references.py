"""Weak references and proxies.

Goes in: the tracker of a weak reference, or what one is made to.  Comes out: that of what is referred to.
Mirrors parts of `torch/_dynamo/variables/misc.py`.  Taught in chapter 06.
"""

import weakref

from ..builder import wraps
from ..source import CallSource
from .base import NotConstant, ValueVariable, VariableTracker, as_observed, can_change, complain, unsupported
from .constant import NONE
from .descriptors import type_lookup
from .elements import is_none
from .objects import placed


def dereference(reference):
    return reference()


def refuse_arguments(tx, args, kwargs):
    """A reference is called without any."""
    complain(tx, weakref.ref(object), *args, **kwargs)


def refuse_dead(tx):
    """What the captured program has let go of is still there during capture, and when guards are checked."""
    if tx.side_effects.order or tx.root().has_dropped_an_argument():
        unsupported(
            "object with a finalizer",
            "a weak reference is asked after the program let go of objects: it may have died with them",
            "ask it before, or keep what it refers to in a variable",
        )


class WeakReferenceVariable(ValueVariable):
    """An existing weak reference: what it refers to is read anew, and guarded, when somebody looks."""

    def as_python_constant(self):
        """One to a class stands for the class."""
        if not isinstance(self.value(), type):
            raise NotConstant(self)
        return self.value

    def key(self):
        """Equal to every other reference to the object, where the object is equal only to itself."""
        cls = type(self.value())
        plain = cls.__hash__ is object.__hash__ and cls.__eq__ is object.__eq__
        return self.value if plain else super().key()

    def call_function(self, tx, args, kwargs):
        refuse_arguments(tx, args, kwargs)
        refuse_dead(tx)
        return tx.output.lazy(self.value(), CallSource(self.source, dereference))


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

    def call_function(self, tx, args, kwargs):
        return self.reference.call_function(tx, args, kwargs)


def make_reference(tx, referent, callback=NONE):
    """`weakref.ref(...)` of what was there before; other objects may die while the reference lives."""
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
        refuse_dead(tx)
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
    return WeakReferenceVariable(value, placed(value, source))


HANDLERS = {weakref.ref: make_reference}
