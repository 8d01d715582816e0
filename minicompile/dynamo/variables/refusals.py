"""What CPython says where a value cannot do what is asked of it, and makes of the answers of special methods.

Goes in: a function written in C, and the trackers of its operands, or what a `__len__`, a `__bool__`, ... returned.
Comes out: what the function returns, or the exception of the captured program, in the words of the running version.
The function is really called, on objects that can as little, whose classes have the same names, or whose method gives
the same answer.
PyTorch has no such file: torch.compile leaves the frame to eager there, or takes the answers as they are.  Taught in
chapter 06.
"""

import collections
import operator
import types

from .base import can_change, complain, stand_in, type_name, unsupported
from .descriptors import class_lookup, descriptor_get, dict_of, type_lookup
from .wrong_calls import EXAMPLES


def check_index(tx, sequence, index):
    """Whatever stands in `sequence[index]`: the sequence says what it wants there."""
    cls = index.python_type()
    if cls is not slice and type_lookup(cls, "__index__") is None:
        complain(tx, operator.getitem, sequence.empty(), stand_in(cls))


def attribute_name(tx, name, derived=False):
    """The text that is to name an attribute.  derived: one of a class that derives from str will do."""
    cls = name.realize().python_type()
    if not issubclass(cls, str):
        tx.raise_observed(TypeError, f"attribute name must be string, not '{type_name(cls)}'")
    if not name.is_python_constant():
        unsupported("builtin on an unknown value", f"{name} as the name of an attribute")
    name = name.as_python_constant()
    if type(name) is not str and not derived:  # a `__dict__` keeps the very object, and messages only its text
        unsupported("builtin on an unknown value", f"{name!r} as the name of an attribute")
    return name


# From 3.13 on the message tells of a missing `__dict__`, but not of a class with a `__setattr__` of its own.
BY_ITSELF = {
    "__setattr__": lambda self, name, value: object.__setattr__(self, name, value),
    "__delattr__": lambda self, name: object.__delattr__(self, name),
}


def refuse_attribute(tx, function, owner, name, *value, made=None):
    """Setting or deleting: the object has no `__dict__`, and what its class has is none that can be set.

    made: an object that stands for one which has a `__dict__`, and nothing of this name in it.
    """
    cls = owner.python_type()
    found = type_lookup(cls, name)
    asked = f"{name}_" if found is None else name  # a stand-in's class has some, such as `__module__`
    attributes = {} if found is None else {name: None}
    if any(type_lookup(cls, each).owner is not object for each in BY_ITSELF):
        attributes |= BY_ITSELF
    try:
        function(made or stand_in(cls, **attributes), asked, *value)
    except (AttributeError, TypeError) as error:
        noted = getattr(error, "name", None) is not None  # from 3.13 on
        text = str(error).replace(f"'{asked}'", f"'{name}'")
        tx.raise_observed(type(error), text, **({"name": name, "obj": owner} if noted else {}))


def unset_slot(tx, cls, name, function=getattr):
    """What the slot of that name says that has no value, when it is read or deleted."""
    places = {"__module__": cls.__module__, "__qualname__": cls.__qualname__}
    complain(tx, function, type(cls.__name__, (), {"__slots__": (name,), **places})(), name)


def refuse(tx, function, *operands):
    """None of the operands can do it."""
    complain(tx, function, *map(refusing, operands))
    unsupported("builtin on an unknown value", f"{function.__name__} of {', '.join(map(str, operands))}")


class Asked(Exception):
    """Says that an index was asked for its number."""


def asks_for_index(function, container):
    """setitem or delitem of what has no items: a class that could have some asks first, as of a sequence."""

    def say(self):
        raise Asked

    try:
        function(refusing(container), type("", (), {"__index__": say})(), *[None] * (function is operator.setitem))
    except (Asked, TypeError) as error:
        return isinstance(error, Asked)


MUTABLE = (list, dict, set, bytearray, collections.deque)


def refusing(operand):
    """The object itself, or one like it, where its class is written in C: its slots make the text."""
    cls, value = operand.python_type(), getattr(operand.realize(), "value", None)
    if can_change(cls) or issubclass(cls, MUTABLE):
        return stand_in(cls)
    return value if type(value) is cls else EXAMPLES[cls] if cls in EXAMPLES else stand_in(cls)


AS_IF_ABSENT = {
    "__eq__",
    "__ne__",
    "__lt__",
    "__le__",
    "__gt__",
    "__ge__",
    "__hash__",
}  # and what operators.py asks for
NONE_ASKED = {"__iter__": iter, "__contains__": lambda container: None in container, "__reversed__": reversed}


def refuse_none(tx, cls, name):
    """A special method is None (`__iter__ = None`): what the class derives from has it, and this one has not."""
    if name not in AS_IF_ABSENT:
        complain(tx, NONE_ASKED.get(name, lambda owner: operator.call(None)), stand_in(cls, **{name: None}))


def is_iterable(cls):
    """What `iter()` accepts: `__getitem__` makes a class that is written in Python a sequence, one in C mostly not."""
    return any(
        "__iter__" in dict_of(base) or ("__getitem__" in dict_of(base) and can_change(base)) for base in cls.__mro__
    )


def function_text(tx, function):
    """How the interpreter names a function that is called with wrong arguments: `module.function()`."""
    name = module = None
    if issubclass(function.python_type(), types.FunctionType):
        found = [function.var_getattr(tx, attribute) for attribute in ("__qualname__", "__module__")]
        name, module = (each.realize().as_python_constant() for each in found)
    elif function.is_python_constant():
        value = function.as_python_constant()
        name, module = getattr(value, "__qualname__", None), getattr(value, "__module__", None)
    if name is None:
        unsupported("builtin on an unknown value", f"{function} is called with wrong arguments")
    return f"{name}()" if module in (None, "builtins") else f"{module}.{name}()"


TAKEN_AS_THEY_ARE = {"__bool__": bool, "__str__": str, "__repr__": str, "__format__": str, "__index__": int}


def answered(tx, function, method, answer):
    """`function(object)`, which asked this method of the object."""
    answer = answer.realize()
    if method == "__len__" and type_lookup(answer.python_type(), "__index__") is not None:
        answer = tx.call(operator.index, answer).realize()
    cls = answer.python_type()
    if cls is TAKEN_AS_THEY_ARE.get(method):
        return answer
    if cls is int and not answer.is_literal() and method in ("__len__", "__hash__"):  # it changes from call to call
        if method == "__len__" and tx.truth(tx.call(operator.lt, answer, tx.build(0))):
            tx.raise_observed(ValueError, "__len__() should return >= 0")
        return tx.build(-2) if method == "__hash__" and tx.equals(answer, tx.build(-1)) else answer
    if answer.is_python_constant():
        return tx.fold_python(function, [answering(method, answer.as_python_constant())], {})
    tx.fold_python(function, [answering(method, stand_in(cls))], {})  # complains
    unsupported("builtin on an unknown value", f"{function.__name__}() of an object whose {method} returns {answer}")


def truth_by_method(tx, variable):
    """`bool(variable)` by the methods of its class."""
    for name in ("__bool__", "__len__"):
        found = class_lookup(tx, variable.python_type(), name)
        if found is not None:
            return tx.truth(answered(tx, bool, name, descriptor_get(tx, found, variable).call_function(tx, [], {})))
    return True


def answering(method, answer):
    """An object whose method gives this answer."""
    return type("Answering", (), {method: lambda self, *arguments: answer})()


class Refusal(str):
    """What iterating raises TypeError with this text."""

    def __iter__(self):
        raise TypeError(str(self))
