"""Weak references and proxies.

Goes in: the tracker of a weak reference, or what one is made to.  Comes out: that of what is referred to.
Mirrors parts of `torch/_dynamo/variables/misc.py`.  Taught in chapter 06.
"""

import weakref

from ..builder import wraps
from ..source import CallSource, CellSource, LocalSource
from .base import NotConstant, ValueVariable, VariableTracker, complain, unsupported
from .constant import NONE
from .elements import is_none
from .objects import placed


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


HANDLERS = {weakref.ref: make_reference}
