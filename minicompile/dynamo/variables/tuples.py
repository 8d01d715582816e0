"""Immutable sequences during capture: tuple, named tuples and C struct sequences, torch.Size, slice, range.

Goes in: existing ones (guarded by type and length, elements lazy) and those that the program makes.
Comes out: what `containers.Sequence` answers, fields by name, and constants where everything inside is known.
Mirrors `torch/_dynamo/variables/lists.py`.  Taught in chapter 06.
"""

import operator
import sys

import torch

from ..builder import wraps, wraps_if
from ..skip_files import attributes_of
from ..source import AttrSource, ItemSource
from .base import ValueVariable, unsupported
from .constant import COMPARISONS, NONE, NOT_IMPLEMENTED, BuiltinObject, ConstantItems, ConstantVariable
from .containers import LARGEST, ListVariable, Sequence, wrap_items
from .descriptors import class_lookup, descriptor_get, dict_source, type_lookup
from .elements import constants, plain
from .iterators import SequenceIterator
from .refusals import check_index


class TupleVariable(Sequence):
    cls = base = tuple

    def __init__(self, items, source=None):
        super().__init__(tuple(items), source)

    def like(self, items):
        return TupleVariable(items)

    def key(self):
        return tuple(item.key() for item in self.items)

    def as_proxy(self):
        return tuple(item.as_item() for item in self.items)

    def method___hash__(self, tx):
        if not self.is_python_constant():
            unsupported("builtin on an unknown value", f"hash() of {self}")
        return tx.fold(hash, [TupleVariable(self.items)], {})

    def reconstruct(self, codegen):
        codegen.push(list(self.items))


class SizeVariable(TupleVariable):
    """torch.Size: slices and sums stay sizes."""

    cls = torch.Size

    def like(self, items):
        if not all(issubclass(item.python_type(), int) for item in items):
            unsupported("builtin on an unknown value", "a torch.Size of what is no number")
        return SizeVariable(items)

    def method___radd__(self, tx, other):
        items = self.operand(tx, other)
        return NOT_IMPLEMENTED if items is None else self.like([*items, *self.items])

    def empty(self):
        return torch.Size()

    def method_numel(self, tx):
        total = ConstantVariable(1)
        for item in self.items:
            total = tx.call(operator.mul, total, item)
        return total

    def reconstruct(self, codegen):
        codegen.call(torch.Size, list(self.items))


class SliceVariable(BuiltinObject):
    """`items`: the trackers of start, stop and step.  It compares as a tuple of them."""

    has_identity = True
    cls, base = slice, tuple

    def __init__(self, items, source=None):
        super().__init__(source)
        self.items = items

    def as_python_constant(self):
        return slice(*(item.as_python_constant() for item in self.items))

    def as_proxy(self):
        return slice(*(item.as_item() for item in self.items))

    def children(self):
        return self.items

    def var_getattr(self, tx, name):
        if name in ("start", "stop", "step"):
            return self.items[("start", "stop", "step").index(name)]
        return super().var_getattr(tx, name)

    def method_indices(self, tx, length):
        return tx.fold(plain(tx, self).indices, [length], {})

    def operand(self, tx, other):
        """What another slice compares with, else None."""
        return other.realize().items if isinstance(other.realize(), SliceVariable) else None

    def reconstruct(self, codegen):
        codegen.push_all(self.items)
        codegen.build_slice(3)


for _name in COMPARISONS:
    setattr(SliceVariable, f"method___{_name}__", getattr(Sequence, f"method___{_name}__"))


class RangeVariable(ValueVariable, BuiltinObject):
    """A range with known bounds."""

    cls = range

    def __init__(self, value, source=None):
        super().__init__(value, source)
        self.items = ConstantItems(value)

    def empty(self):
        return range(0)

    def iterate(self, tx):
        if abs(self.value.stop) > sys.maxsize or abs(self.value.start) > sys.maxsize:
            unsupported("large container", f"iterating over {self.value}")
        return SequenceIterator(self)

    method___iter__ = iterate

    def unpack(self, tx):
        if len(self.value) > LARGEST:
            unsupported("large container", f"all elements of {self.value}")
        return list(self.items)

    def call_method(self, tx, name, args, kwargs):
        if name in ("__iter__", "__reversed__"):
            return super().call_method(tx, name, args, kwargs)
        if type_lookup(range, name) is not None and tx.can_fold(self, args, kwargs):
            return tx.fold(getattr(self.value, name), args, kwargs)
        return super().call_method(tx, name, args, kwargs)

    def var_getattr(self, tx, name):
        if name in ("start", "stop", "step"):
            return ConstantVariable(getattr(self.value, name))
        return super().var_getattr(tx, name)

    def method___getitem__(self, tx, index):
        check_index(tx, self, index)
        return tx.fold(operator.getitem, [self, ConstantVariable(plain(tx, index))], {})

    def method___reversed__(self, tx):
        return RangeVariable(self.value[::-1]).iterate(tx)


class NamedTupleVariable(TupleVariable):
    """A named tuple (of a Python class) or a struct sequence (torch.return_types.*)."""

    def __init__(self, items, cls, source=None):
        super().__init__(items, source)
        self.cls = cls

    @property
    def fields(self):
        return self.cls._fields if hasattr(self.cls, "_fields") else self.cls.__match_args__

    def as_python_constant(self):
        return make_named(self.cls, constants(self, self.items))

    def as_proxy(self):
        return make_named(self.cls, [item.as_proxy() for item in self.items])

    def var_getattr(self, tx, name):
        pending = tx.side_effects.load_attr(self, name)
        if pending is not None and pending is not tx.side_effects.DELETED:
            return pending
        if name in self.fields:
            return self.items[self.fields.index(name)]
        if name in self.attributes:
            return self.attributes[name]
        found = class_lookup(tx, self.cls, name)
        if found is None or name in vars(tuple):
            return super().var_getattr(tx, name)
        return descriptor_get(tx, found, self)

    def c_attribute(self, tx, found):
        if found.name == "__class__":
            return tx.build(self.cls)
        if found.name != "__dict__":
            unsupported("builtin on an unknown value", f"`{found.name}` of a {self.cls.__name__}")
        return tx.build_dict({**self.attributes, **tx.side_effects.pending_attributes(self)})

    attributes = {}  # of a subclass without __slots__: what its instances' __dict__ held

    def var_setattr(self, tx, name, value):
        if name in self.fields or not hasattr(self.cls, "__dict__") or self.cls.__dictoffset__ == 0:
            return super().var_setattr(tx, name, value)
        tx.side_effects.store_attr(self, name, value)

    def call_descriptor(self, tx, descriptor, args, kwargs):
        if descriptor.__name__ == "__init__":
            return NONE
        return super().call_method(tx, descriptor.__name__, args, kwargs)

    def call_method(self, tx, name, args, kwargs):
        found = class_lookup(tx, self.cls, name)
        if found is None or issubclass(tuple, found.owner):  # not overridden
            return super().call_method(tx, name, args, kwargs)
        return descriptor_get(tx, found, self).call_function(tx, args, kwargs)

    def reconstruct(self, codegen):
        codegen.call(make_named, self.cls, list(self.items))


def make_named(cls, items):
    """The named tuple or struct sequence with these items; no `__new__` of a subclass runs again."""
    return tuple.__new__(cls, items) if hasattr(cls, "_fields") else cls(items)


def is_named_tuple_class(cls):
    """A class made by collections.namedtuple or typing.NamedTuple (or derived from one), or a C struct sequence."""
    return isinstance(cls, type) and issubclass(cls, tuple) and (hasattr(cls, "_fields") or hasattr(cls, "n_fields"))


def build_sequence(cls, items):
    """The tracker of a new list, tuple, named tuple or struct sequence of these trackers."""
    if is_named_tuple_class(cls):
        return NamedTupleVariable(items, cls)
    return {list: ListVariable, tuple: TupleVariable, torch.Size: SizeVariable}[cls](list(items))


@wraps(tuple)
def wrap_tuple(output, value, source):
    return TupleVariable(wrap_items(output, value, source), source)


@wraps_if(lambda value: is_named_tuple_class(type(value)), order=20)
def wrap_named_tuple(output, value, source):
    tracker = NamedTupleVariable(wrap_items(output, value, source), type(value), source)
    if type_lookup(type(value), "__dict__") is not None:
        extra, place = attributes_of(value), dict_source(source, type(value))
        output.guard("keys", place, list(extra))
        tracker.attributes = {n: output.lazy(v, ItemSource(place, n) if place else None) for n, v in extra.items()}
    return tracker


@wraps(torch.Size)
def wrap_size(output, value, source):
    output.guard("equals", source, value)
    return SizeVariable(map(ConstantVariable, value), source)


@wraps(range)
def wrap_range(output, value, source):
    output.guard("type", source, range)
    for name in ("start", "stop", "step"):  # empty ranges are equal whatever their bounds
        output.guard("equals", source and AttrSource(source, name), getattr(value, name))
    return RangeVariable(value, source)


@wraps(slice)
def wrap_slice(output, value, source):
    output.guard("type", source, slice)
    names = ("start", "stop", "step")
    parts = [output.lazy(getattr(value, n), AttrSource(source, n) if source is not None else None) for n in names]
    return SliceVariable(parts, source)
