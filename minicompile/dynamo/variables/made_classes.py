"""Classes that the program makes by a call: `collections.namedtuple("Box", "low high")`, `type(name, bases, dict)`.

Goes in: the call.  Comes out: the tracker of a class that capture made in the same way, to look at; the new bytecode
makes another one at each call, and whatever needs the class gets that one (`load_const` of codegen.py).  For what is
in its namespace and is no constant, something stands in the model, whose tracker is that of the real thing.
PyTorch has no such file.  Taught in chapter 06.
"""

import collections
import types

from .base import ValueVariable, as_observed, complain, mark_made, unsupported
from .classes import UserDefinedClassVariable
from .descriptors import type_lookup
from .functions import NestedFunctionVariable


class MadeClassVariable(UserDefinedClassVariable):
    """A class that the program makes by a call on constants: another one each time, `value` is like it."""

    has_identity = True

    def __init__(self, value, function, args, kwargs):
        super().__init__(value)
        self.call = function, args, kwargs

    def reconstruct(self, codegen):
        function, args, kwargs = self.call
        codegen.call(function, *args, *kwargs.values(), kw_names=tuple(kwargs))


def make_named_tuple(tx, *args, **kwargs):
    """`collections.namedtuple("Box", "low high")`."""
    if not tx.can_fold(None, args, kwargs) or "module" in kwargs:
        unsupported("class definition", "collections.namedtuple of names that are not known")
    constants = [a.as_python_constant() for a in args]
    named = {name: value.as_python_constant() for name, value in kwargs.items()}
    named["module"] = tx.globals_dict.get("__name__", "__main__")
    try:
        made = collections.namedtuple(*constants, **named)
    except (TypeError, ValueError) as error:
        tx.raise_python_exception(error)
    return tx.output.remember(made, MadeClassVariable(made, collections.namedtuple, constants, named))


class TypedClassVariable(UserDefinedClassVariable):
    """A class that the program makes by `type(name, bases, namespace)`."""

    has_identity = True

    def __init__(self, value, name, bases, namespace):
        super().__init__(value)
        self.name, self.bases, self.namespace_given = name, bases, namespace

    def children(self):
        return [*self.bases, *self.namespace_given.values()]

    def reconstruct(self, codegen):
        names, values = list(self.namespace_given), list(self.namespace_given.values())
        codegen.call(make_class, self.name, self.bases, names, values)


def make_class(name, bases, names, values):
    return type(name, bases, dict(zip(names, values)))


class Attribute:
    """Stands in a model for an attribute that is no constant."""


CONVERTED = {"__new__", "__init_subclass__", "__class_getitem__", "__classcell__", "__slots__", "__del__"}


def standing_for(tx, tracker):
    """What a model has for an attribute: the constant itself, or something that is known to be the tracker's value."""
    cls = tracker.python_type()
    if type_lookup(cls, "__set_name__") or (type_lookup(cls, "__get__") and not issubclass(cls, types.FunctionType)):
        unsupported("class definition", f"type() with {tracker} in the namespace, a descriptor")
    if tracker.is_literal() or isinstance(tracker, ValueVariable):
        return tracker.as_python_constant()
    stand_in = Attribute()
    if isinstance(tracker, NestedFunctionVariable):
        cells = tuple(types.CellType() for _ in tracker.code.co_freevars)
        stand_in = types.FunctionType(tracker.code, tracker.globals_dict, closure=cells)
    tx.output.remember(stand_in, tracker)
    return stand_in


def type_of(tx, /, *args, **kwargs):
    """`type(value)`, or `type(name, bases, namespace)`."""
    if len(args) == 1 and not kwargs:
        return tx.build(args[0].python_type())
    if len(args) != 3:
        complain(tx, type, *args, **kwargs)
    name, bases, namespace = (argument.realize() for argument in args)
    known = name.is_python_constant() and bases.is_python_constant() and namespace.python_type() is dict
    items = tx.call(dict, namespace).look(tx).values() if known and not kwargs else ()
    values = {key.as_python_constant(): value.realize() for key, value in items if key.python_type() is str}
    if len(values) != len(items) or not known or kwargs:
        unsupported("class definition", "type(name, bases, namespace) of what is not known")
    base_classes = bases.as_python_constant()
    values.setdefault("__module__", tx.build(tx.globals_dict.get("__name__", "builtins")))
    simple = all(type(base) is type for base in base_classes) and not CONVERTED & set(values)
    if not simple or any(type_lookup(base, "__init_subclass__").owner is not object for base in base_classes):
        unsupported("class definition", "type(name, bases, namespace) calls more than itself")
    parts = {key: standing_for(tx, value) for key, value in values.items()}
    with as_observed(tx):
        made = type(name.as_python_constant(), base_classes, parts)
    mark_made(made)
    result = TypedClassVariable(made, name.as_python_constant(), bases.unpack(tx), values)
    tx.side_effects.new_object(result)
    return tx.output.remember(made, result)


HANDLERS = {collections.namedtuple: make_named_tuple, type: type_of}
