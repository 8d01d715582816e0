"""Handlers of the builtins that ask about a value, and of attribute access: isinstance, type, len, hash, getattr, ...

Goes in: trackers (lazy or not).  Comes out: a tracker.  See builtins.py for the rest.
Mirrors parts of `torch/_dynamo/variables/builtin.py`.  Taught in chapter 03.
"""

import abc
import importlib.util
import inspect
import sys
import threading
import types
import typing
import weakref

import torch

from ..source import CallSource, ConstantSource
from .base import ObservedException, is_made, type_name, unsupported
from .constant import BuiltinObject, ConstantVariable, boolean
from .descriptors import class_lookup, guard_mro
from .exceptions import TracebackVariable
from .functions import BoundMethodVariable, UserFunctionVariable
from .refusals import answered, attribute_name, refuse
from .tensor import TensorVariable

HANDLERS = {}


def handles(function):
    def register(handler):
        HANDLERS[function] = handler
        return handler

    return register


# --- classes --------------------------------------------------------------------------------------------
def flatten(tx, classes, depth=0):
    """The classes of `isinstance(x, classes)`: one, a union, or nested tuples of them."""
    if isinstance(classes, tuple) or typing.get_origin(classes) in (typing.Union, types.UnionType):
        for part in classes if isinstance(classes, tuple) else classes.__args__:
            if depth > 100:
                unsupported("deep recursion", "isinstance() of tuples in tuples in tuples")
            yield from flatten(tx, type(None) if part is None and not isinstance(classes, tuple) else part, depth + 1)
    else:
        yield classes


PLAIN_METAS = (type, abc.ABCMeta, type(torch.Tensor))


@handles(isinstance)
def is_instance(tx, value, classes):
    value, cls = value.realize(), value.python_type()
    for candidate in flatten(tx, classes.as_python_constant()):
        if cls is candidate or is_kind(tx, value, cls, candidate, "__instancecheck__", isinstance):
            return boolean(True)
    return boolean(False)


@handles(issubclass)
def is_subclass(tx, cls, classes):
    cls = cls.realize()
    if not cls.is_python_constant():
        tx.raise_observed(TypeError, "issubclass() arg 1 must be a class")
    if not isinstance(cls.as_python_constant(), type):
        return tx.fold(issubclass, [cls, classes], {})
    for candidate in flatten(tx, classes.as_python_constant()):
        if is_kind(tx, cls, cls.as_python_constant(), candidate, "__subclasscheck__", issubclass):
            return boolean(True)
    return boolean(False)


def is_kind(tx, value, cls, candidate, hook, check):
    """Ask the candidate's metaclass, as CPython does; a hook written in Python is inlined."""
    meta = type(candidate)
    guard_mro(tx, cls)
    if meta is type and candidate in cls.__mro__:
        return True
    if check is isinstance:
        cls = claimed_class(tx, value)
    if meta is abc.ABCMeta:
        return is_registered(tx, cls, candidate)
    if meta in PLAIN_METAS:
        return issubclass(cls, candidate)
    if isinstance(value, TensorVariable) and meta is type(torch.FloatTensor):
        return value.fake.dtype is candidate.dtype and value.fake.is_cuda == candidate.is_cuda
    protocol = isinstance(candidate, type(typing.Protocol)) and candidate._is_protocol
    if protocol and check is isinstance and candidate not in cls.__mro__:
        if not getattr(candidate, "_is_runtime_protocol", False):
            text = "Instance and class checks can only be used with @runtime_checkable protocols"
            tx.raise_observed(TypeError, text)
        names = typing._get_protocol_attrs(candidate)
        return all(has_attribute(tx, value, ConstantVariable(name)).value for name in names)
    function = getattr(meta, hook, None)
    if isinstance(function, types.FunctionType) and function.__module__ not in ("abc", "typing"):
        return tx.truth(tx.inline(function, [tx.build(candidate), value]))
    if value.is_python_constant() or function is None:
        return tx.truth(tx.fold_python(check, [value.as_python_constant(), candidate], {}))
    if function in (type.__instancecheck__, type.__subclasscheck__, abc.ABCMeta.__instancecheck__):
        return issubclass(cls, candidate)
    unsupported("method written in C", f"{check.__name__}() asks {meta.__name__}.{hook}")


def claimed_class(tx, value):
    """What `value.__class__` is: a proxy says what it is."""
    cls = value.python_type()
    if class_lookup(tx, cls, "__class__").owner is object and cls not in weakref.ProxyTypes:
        return cls
    return value.var_getattr(tx, "__class__").as_python_constant()


def is_registered(tx, cls, candidate):
    """What an abstract base class says; "no" holds until some class is registered somewhere."""
    hook = getattr(candidate.__subclasshook__, "__func__", None)  # None: object's own
    if hook is not None and hook.__module__.partition(".")[0] not in sys.stdlib_module_names:
        unsupported("function left to eager", f"{candidate.__qualname__}.__subclasshook__ decides")
    answer = issubclass(cls, candidate)
    if not answer:
        tx.guard("equals", CallSource(ConstantSource(abc, "abc"), registrations), abc.get_cache_token())
    return answer


def registrations(module):
    """A number that grows with each `register` of an abstract base class."""
    return module.get_cache_token()


@handles(callable)
def is_callable(tx, value):
    value = value.realize()
    if value.is_python_constant():
        return boolean(callable(value.as_python_constant()))
    return boolean(callable(value) or class_lookup(tx, value.python_type(), "__call__"))  # noqa: B004 (of the class)


# --- values ---------------------------------------------------------------------------------------------
@handles(len)
def length(tx, value):
    value = value.realize()
    cls = value.python_type()
    if not class_lookup(tx, cls, "__len__"):
        return refuse(tx, len, value)
    answer = value.call_method(tx, "__len__", [], {})
    return answer if isinstance(value, (BuiltinObject, TensorVariable)) else answered(tx, len, "__len__", answer)


@handles(hash)
def hash_of(tx, value):
    value = value.realize()
    if isinstance(value, ConstantVariable):
        return value.call_method(tx, "__hash__", [], {})
    cls = value.python_type()
    if cls.__hash__ is None:
        tx.raise_observed(TypeError, f"unhashable type: '{type_name(cls)}'")
    if cls.__hash__ is object.__hash__ or isinstance(value, TensorVariable):
        unsupported("identity as a number", f"hash() of {value} depends on its address")
    answer = value.call_method(tx, "__hash__", [], {})
    return answer if isinstance(value, BuiltinObject) else answered(tx, hash, "__hash__", answer)


class IdVariable(BuiltinObject):
    """`id(value)`: good for comparing and as a key; the number itself is not known during capture."""

    cls = int
    holds, maker = ("value",), id

    def __init__(self, value):
        super().__init__()
        self.value = value

    def key(self):
        known = self.value.is_immutable()
        return IdVariable, id(self.value.as_python_constant()) if known else self.value

    def call_method(self, tx, name, args, kwargs):
        other = args[0].realize() if args else None
        if name not in ("__eq__", "__ne__") or (other.python_type() is int and not isinstance(other, IdVariable)):
            unsupported("identity as a number", f"`{name}` of id(...)")
        return super().call_method(tx, name, args, kwargs)

    def method___eq__(self, tx, other):
        other = other.realize()
        return boolean(isinstance(other, IdVariable) and tx.is_same(self.value, other.value))

    def method___ne__(self, tx, other):
        return boolean(not self.method___eq__(tx, other).value)


@handles(sys.exc_info)
def exception_info(tx):
    """Of the exception being handled."""
    current = tx.handled_exception()
    if current is None:
        return tx.build((None, None, None))
    return tx.build_tuple([tx.build(current.realize().python_type()), current, TracebackVariable()])


class ThreadIdVariable(IdVariable):
    """`threading.get_ident()`."""

    holds, maker = (), threading.get_ident


THIS_THREAD = ThreadIdVariable(ConstantVariable("the running thread"))
HANDLERS[id] = lambda tx, value: IdVariable(value.realize())
HANDLERS[threading.get_ident] = lambda tx: THIS_THREAD
HANDLERS[sys.exception] = lambda tx: tx.handled_exception() or ConstantVariable(None)


@handles(importlib.util.find_spec)
def find_spec(tx, name, package=None):
    """A module that is not there: the guard looks for it anew, as the program does."""
    constant = name.as_python_constant() if name.is_python_constant() else ""
    known = type(constant) is str and constant and "." not in constant and constant not in sys.modules
    if known and importlib.util.find_spec(constant) is None:
        tx.guard("is", CallSource(ConstantSource(constant, repr(constant)), importlib.util.find_spec), None)
        return ConstantVariable(None)
    function = UserFunctionVariable(importlib.util.find_spec)
    return function.call_function(tx, [name] if package is None else [name, package], {})


@handles(inspect.signature)
def signature_of(tx, function, **kwargs):
    """Of a function that exists, or of a method bound during capture."""
    function, bound = function.realize(), False
    if isinstance(function, BoundMethodVariable):
        function, bound = function.function.realize(), True
    if not function.is_python_constant():
        unsupported("introspection", f"inspect.signature of {function}")
    if tx.side_effects.pending_attributes(function):
        unsupported("introspection", f"inspect.signature of {function}, which was changed before")
    value = function.as_python_constant()
    if is_made(value):
        unsupported("introspection", f"inspect.signature of {function}, a class that is made here")
    value = types.MethodType(value, object()) if bound else value
    return tx.fold_python(inspect.signature, [value], {k: v.as_python_constant() for k, v in kwargs.items()})


# --- attributes -----------------------------------------------------------------------------------------
@handles(getattr)
def get_attribute(tx, value, name, default=None, /):
    value, name = value.realize(), attribute_name(tx, name, derived=True)
    try:
        found = value.var_getattr(tx, name)
    except ObservedException as error:
        if not tx.exception_matches(error, AttributeError):
            raise
        if default is not None:
            return default
        attribute_name(tx, tx.build(name))
        error.variable.realize().lacked(tx, value, name)
        raise
    if default is not None:
        tx.guard("present", found.source)
    return found


@handles(hasattr)
def has_attribute(tx, value, name):
    missing = ConstantVariable(None)
    return boolean(get_attribute(tx, value, name, missing) is not missing)


@handles(setattr)
def set_attribute(tx, value, name, new):
    value.realize().var_setattr(tx, attribute_name(tx, name), new)
    return tx.build(None)


@handles(delattr)
def delete_attribute(tx, value, name):
    value.realize().var_delattr(tx, attribute_name(tx, name))
    return tx.build(None)


@handles(vars)
def variables_of(tx, value=None, /):
    if value is None:
        unsupported("introspection", "vars() reads the locals of its frame")
    missing = ConstantVariable(None)
    found = get_attribute(tx, value, ConstantVariable("__dict__"), missing)
    return found if found is not missing else refuse(tx, vars, value)
