"""Constants: immutable values that capture knows outright, so that everything done to them happens during capture.

Goes in: numbers, strings, None, dtypes, devices, enum members, compiled regular expressions and their matches.
Comes out: folded results.  An operation with a value that is not known answers NotImplemented, as CPython's types do
for a stranger, so that the other operand gets its turn.
Mirrors `torch/_dynamo/variables/constant.py`.  Taught in chapter 03.

`BuiltinObject` is the base of every tracker whose class is written in C: which attributes exist is asked of the class.
"""

import enum
import functools
import inspect
import operator
import re
import types
import typing

import torch
from torch.torch_version import TorchVersion

from ..builder import guarded, wraps, wraps_if
from ..polyfills import text
from ..skip_files import attributes_of
from ..source import CallSource
from .base import ACTS, ObservedException, ValueVariable, VariableTracker, complain, stand_in, type_name, unsupported
from .called_back import calls_back
from .descriptors import C_METHODS, class_lookup, descriptor_get, is_data_descriptor, type_lookup
from .functions import BuiltinMethodVariable
from .refusals import check_index, refuse_attribute, truth_by_method
from .tables import METHOD_POLYFILLS
from .varying import VaryingVariable
from .wrong_calls import call_handler

ARITHMETIC = "add sub mul truediv floordiv mod pow matmul and or xor lshift rshift divmod".split()
HAVE_COPIES = (float, complex, str, bytes, range, torch.device)  # an equal value may be another object
COMPARISONS = "eq ne lt le gt ge".split()
BINARY_METHODS = frozenset(
    [f"__{name}__" for name in COMPARISONS]
    + [f"__{prefix}{name}__" for name in ARITHMETIC for prefix in ("", "r", "i")]
)


class BuiltinObject(VariableTracker):
    """A value of a class written in C.  `cls` is that class."""

    cls = object
    had = None  # of an existing OrderedDict: its attributes

    def var_getattr(self, tx, name):
        if name == "__class__":
            return tx.build(self.python_type())
        cls = self.python_type()
        if type_lookup(cls, name) is None:  # `hasattr(list, "__or__")` is true: classes have it, lists do not
            tx.raise_observed(AttributeError, f"'{type_name(cls)}' object has no attribute '{name}'")
        if callable(getattr(cls, name)):
            return BuiltinMethodVariable(self, name)
        unsupported("builtin on an unknown value", f"`{name}` of a {cls.__name__}")

    def var_setattr(self, tx, name, value):
        self.refuse_attribute(tx, setattr, name, None)
        unsupported("attribute write", f"`{name}` of a {self.python_type().__name__}")

    def var_delattr(self, tx, name):
        self.refuse_attribute(tx, delattr, name)
        unsupported("attribute write", f"deleting `{name}` of a {self.python_type().__name__}")

    def refuse_attribute(self, tx, function, name, *value):
        """Hardly a builtin takes attributes, or lets its own be changed."""
        cls = self.python_type()
        found = type_lookup(cls, name)
        if type_lookup(cls, "__dict__") is None and (found is None or not is_data_descriptor(found.attribute)):
            refuse_attribute(tx, function, self, name, *value)

    def call_descriptor(self, tx, descriptor, args, kwargs):
        if descriptor is object.__init__ or descriptor.__name__ == "__init__" and not hasattr(self, "method___init__"):
            return NONE
        return super().call_descriptor(tx, descriptor, args, kwargs)

    def method_polyfill(self, name):
        found = type_lookup(self.python_type(), name)
        written_in_c = found is not None and isinstance(found.attribute, C_METHODS)
        return METHOD_POLYFILLS.get(found.attribute) if written_in_c else None

    def method___getstate__(self, tx):
        cls = self.python_type()
        if type_lookup(cls, "__dict__") is not None:
            if self.had or tx.side_effects.pending_attributes(self) or self.source is not None and self.had is None:
                unsupported("object copy", f"{self}, which may have attributes")
            if self.source is not None:
                tx.guard("keys", CallSource(self.source, attributes_of), [])
        return NONE

    def empty(self):
        """Some value of the class, to ask for the text of an error."""
        return self.python_type()()

    def call_method(self, tx, name, args, kwargs):
        handler, cls = getattr(self, f"method_{name}", None), self.python_type()
        if handler is not None:
            return call_handler(tx, lambda *a, **k: getattr(self.empty(), name)(*a, **k), handler, args, kwargs)
        polyfill = self.method_polyfill(name)
        if polyfill is not None:
            return tx.inline(polyfill, [self, *args], kwargs)
        if type_lookup(cls, name) is None:
            return self.var_getattr(tx, name).call_function(tx, args, kwargs)
        if name in BINARY_METHODS and cls.__module__ != "typing":  # `TypeVar("T") | anything`
            refuse_numbers_that_vary(name, args)
            return ConstantVariable(NotImplemented)
        unsupported("builtin on an unknown value", f"`{name}` of a {cls.__name__} with these arguments")


class ConstantItems:
    """The trackers of the elements of a constant sequence, made when they are asked for."""

    def __init__(self, value):
        self.value = value

    def __len__(self):
        return len(self.value)

    def __getitem__(self, index):
        return ConstantVariable(self.value[index])


CALL_BACK = ("__mod__", "format", "format_map")  # methods of a text that ask their arguments for their texts


class ConstantVariable(ValueVariable, BuiltinObject):
    """`value` itself."""

    def empty(self):
        return self.value

    def var_getattr(self, tx, name):
        found = class_lookup(tx, type(self.value), name)
        if found is not None and type(found.attribute) in (types.FunctionType, property):
            return descriptor_get(tx, found, self)
        if type_lookup(type(self.value), name) is None:  # the methods below are those of texts
            return tx.constant_getattr(self, name)
        return VariableTracker.var_getattr(self, tx, name)

    def call_method(self, tx, name, args, kwargs):
        written_in_python = isinstance(getattr(type(self.value), name, None), types.FunctionType)
        if written_in_python and not isinstance(self.value, enum.Flag):
            return self.var_getattr(tx, name).call_function(tx, args, kwargs)
        if self.method_polyfill(name) is not None:
            return super().call_method(tx, name, args, kwargs)
        given = args = [a.realize() for a in args]
        is_number, is_text = isinstance(self.value, int | float | complex), isinstance(self.value, str | bytes)
        if is_number or (is_text and name not in CALL_BACK):
            args, kwargs = [a.as_operand() for a in args], {key: a.as_operand() for key, a in kwargs.items()}
        if name == "__hash__" and isinstance(self.value, float | complex) and self.value != self.value:
            unsupported("identity as a number", "the hash of NaN depends on its address")
        if name not in ACTS and hasattr(self.value, name) and tx.can_fold(self, args, kwargs):
            try:
                result = tx.fold(self.method(name), args, kwargs)
                is_itself = self.value is not None and getattr(result, "value", None) is self.value
                return self if is_itself else result  # the copy of a match is the match
            except ObservedException as error:
                if tx.exception_matches(error, TypeError):
                    self.refuse_operands(tx, name, args, given)
                raise
        return super().call_method(tx, name, args, kwargs)

    def refuse_operands(self, tx, name, operands, given):
        """The message of a TypeError names the classes of the operands as they were given."""
        if any(operand is not argument for operand, argument in zip(operands, given)):
            method = self.method(name)
            if name in BINARY_METHODS and hasattr(operator, name):
                method = functools.partial(getattr(operator, name), self.value)
            complain(tx, method, *(stand_in(argument.python_type()) for argument in given))

    def method(self, name):
        """`list[int].__eq__` is list's, but `list[int] == ...` asks the class of `list[int]`, as for all such names."""
        special = getattr(type(self.value), name, None) if name.startswith("__") and name.endswith("__") else None
        direct = special is None or self.value is None  # descriptors take None for no instance
        return getattr(self.value, name) if direct else special.__get__(self.value)

    def call_function(self, tx, args, kwargs):
        found = class_lookup(tx, type(self.value), "__call__")
        if found is not None and isinstance(found.attribute, types.FunctionType):  # of `typing.List[int]`
            return descriptor_get(tx, found, self).call_function(tx, args, kwargs)
        origin = typing.get_origin(self.value)
        if not isinstance(origin, type) or origin is types.UnionType:
            tx.raise_observed(TypeError, f"'{type_name(type(self.value))}' object is not callable")
        made = tx.build(origin).call_function(tx, args, kwargs).realize()  # `Box[int](3)`
        if getattr(made, "cls", None) is origin and hasattr(made, "generic_setattr") and made.has_instance_dict():
            made.generic_setattr(tx, "__orig_class__", self)
        return made

    def truth(self, tx):
        if calls_back(self.value):
            return truth_by_method(tx, self)
        return tx.fold(bool, [self], {}).value if self.value is NotImplemented else super().truth(tx)  # it warns

    @property
    def items(self):
        """The elements of a str or bytes."""
        return ConstantItems(self.value)

    def iterate(self, tx):
        from .iterators import SequenceIterator

        if isinstance(self.value, (str, bytes)):
            return SequenceIterator(self)
        if isinstance(getattr(type(self.value), "__iter__", None), types.FunctionType):
            return self.var_getattr(tx, "__iter__").call_function(tx, [], {}).realize()
        if hasattr(type(self.value), "__iter__"):
            unsupported("builtin on an unknown value", f"iter() of {self}")
        return super().iterate(tx)

    def unpack(self, tx):
        return list(self.items) if isinstance(self.value, (str, bytes)) else super().unpack(tx)

    def method_join(self, tx, iterable):
        """`"".join(iterable)` where the iterable is not a container of constants yet."""
        from .elements import listed_or

        items = listed_or(tx, iterable, lambda: complain(tx, self.value.join, None))
        return tx.fold(self.value.join, [tx.build_list(items)], {})

    def method___getitem__(self, tx, index):
        """An index that is an object with `__index__`, or a slice with such."""
        from .elements import plain

        if not isinstance(self.value, (str, bytes)):
            unsupported("builtin on an unknown value", f"`[]` of {self}")
        check_index(tx, self, index)
        return tx.fold(operator.getitem, [self, tx.build(plain(tx, index))], {})

    def method___add__(self, tx, other):
        if isinstance(self.value, (str, bytes)):
            complain(tx, self.value.__add__, stand_in(other.python_type()))
        refuse_numbers_that_vary("__add__", [other])
        return NOT_IMPLEMENTED

    def method___mul__(self, tx, other):
        """`"ab" * count` where the count is an object with `__index__`."""
        if not isinstance(self.value, (str, bytes)):
            return NOT_IMPLEMENTED
        if type_lookup(other.python_type(), "__index__") is None:
            complain(tx, self.value.__mul__, stand_in(other.python_type()))
        return tx.fold(operator.mul, [self, tx.call(operator.index, other)], {})

    method___rmul__ = method___mul__

    def method___mod__(self, tx, other):
        if isinstance(self.value, str):
            return tx.call_polyfill(text.percent, self, other)
        if isinstance(self.value, bytes):
            unsupported("builtin on an unknown value", "`%` formatting of a value that is not known during capture")
        return ConstantVariable(NotImplemented)

    def method_format(self, tx, /, *args, **kwargs):
        """Of a str, with arguments that are no constants."""
        return tx.call_polyfill(text.format_template, self, tx.build_tuple(args), tx.build_dict(kwargs))

    def __repr__(self):
        shown = enum.Enum.__repr__ if isinstance(self.value, enum.Enum) else repr  # not by the program's own method
        return f"ConstantVariable({shown(self.value)})"


MADE_ANEW = (types.UnionType, types.GenericAlias, re.Match, inspect.Signature)


class MadeConstantVariable(ConstantVariable):
    """The result of a folded call that makes another object each time: `int | None`, `list[int]`, a match."""

    has_identity = True

    def __init__(self, value, function, args, kwargs):
        super().__init__(value)
        self.function, self.args, self.kwargs = function, args, kwargs

    def reconstruct(self, codegen):
        codegen.load_const(self.function)
        for argument in (*self.args, *self.kwargs.values()):
            codegen.load_const(argument)
        codegen.call_function(len(self.args) + len(self.kwargs), tuple(self.kwargs))


def refuse_numbers_that_vary(name, args):
    """One that changes from round to round is no stranger, for whom `NotImplemented` would be the answer."""
    from .symbolic import SymNodeVariable

    for argument in args:
        if isinstance(argument.realize(), (SymNodeVariable, VaryingVariable)):
            unsupported("value that varies in a loop", f"`{name}` with {argument}")


NOT_IMPLEMENTED = ConstantVariable(NotImplemented)
NONE, TRUE, FALSE = ConstantVariable(None), ConstantVariable(True), ConstantVariable(False)


def boolean(value):
    """The tracker of True or False."""
    return TRUE if value else FALSE


@wraps(int, float)
def wrap_number(output, value, source):
    """A constant, or a graph input where the number changes from call to call."""
    if source is not None and output.sizes.is_changing(value, source):
        return output.add_number(value, source)
    return wrap_constant(output, value, source)


wrap_constant = guarded("equals", ConstantVariable)
wraps(complex, bool, str, bytes, type(None), type(Ellipsis), type(NotImplemented))(wrap_constant)
wraps(torch.dtype, torch.layout, torch.memory_format, torch.finfo, torch.iinfo, re.Pattern)(wrap_constant)


# Enum members, and `list[int]`, `int | None`, `Optional[T]` and their like, which only annotations and isinstance use.
# pybind11's enums, whose members are equal by value, are constants too; so is `torch.__version__`.
SINGLETONS = (enum.Enum, TorchVersion, types.UnionType, types.GenericAlias, typing._Final, typing.TypeVar)


def is_pybind_enum(value):
    return type(type(value)) is type(torch._C._SDPBackend) and hasattr(type(value), "__members__")


wraps_if(is_pybind_enum, order=10)(wrap_constant)


wrap_singleton = wraps(re.Match, types.CodeType)(guarded("is", ConstantVariable))
wraps_if(lambda value: issubclass(type(value), SINGLETONS), order=10)(wrap_singleton)
