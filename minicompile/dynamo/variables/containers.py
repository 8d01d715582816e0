"""Mutable sequences during capture: list and deque, and what they share with the tuples of `tuples.py`.

Goes in: existing sequences (guarded by type and length, elements lazy) and those that the program makes.
Comes out: the same methods, run by CPython itself on Python lists of trackers.
Mirrors `torch/_dynamo/variables/lists.py`.  Taught in chapter 06.
"""

import collections
import operator

from ..builder import wraps
from ..source import CallSource, ItemSource
from .base import as_observed, complain, stand_in, unsupported
from .constant import COMPARISONS, FALSE, NONE, BuiltinObject, ConstantVariable, boolean
from .descriptors import class_lookup, type_lookup
from .elements import Element, compare_items, constants, contains_itself, elements, listed_or, next_or_none, plain, sort
from .iterators import SequenceIterator
from .refusals import check_index

LARGEST = 100_000  # elements that `[x] * n` may make during capture


class Sequence(BuiltinObject):
    """`items`: a list (for a deque: a deque) of trackers, which may be lazy."""

    has_identity = True

    def __init__(self, items, source=None):
        super().__init__(source)
        self.items = items

    def like(self, items):
        """A new sequence of the same kind."""
        return type(self)(items)

    def has_torch_function(self):
        return any(item.has_torch_function() for item in self.items)

    def empty(self):
        return self.base()

    def as_python_constant(self):
        return self.cls(constants(self, self.items))

    def as_proxy(self):
        return self.cls([item.as_item() for item in self.items])

    def children(self):
        return self.items

    def iterate(self, tx):
        return SequenceIterator(self)

    def unpack(self, tx):
        return list(self.items)

    def method___len__(self, tx):
        return ConstantVariable(len(self.items))

    method___iter__ = iterate

    def method___reversed__(self, tx):
        return SequenceIterator(self, len(self.items) - 1, -1)

    def method___getitem__(self, tx, index):
        check_index(tx, self, index)
        index = plain(tx, index)
        with as_observed(tx):
            found = self.items[index]
        return self.like(found) if isinstance(index, slice) else found

    def method___contains__(self, tx, item):
        return boolean(Element(tx, item) in elements(tx, self.items))

    def method_index(self, tx, item, *bounds):
        kinds = [bound.python_type() for bound in bounds]
        indices = [type_lookup(kind, "__index__") is not None for kind in kinds]
        bounds = [plain(tx, b) if is_index else stand_in(kind) for b, kind, is_index in zip(bounds, kinds, indices)]
        row = self.items if isinstance(self.items, collections.deque) else self.base()
        if not all(indices):
            complain(tx, type(row)().index, None, *bounds)
        try:
            return ConstantVariable(type(row)(elements(tx, self.items)).index(Element(tx, item), *bounds))
        except ValueError as error:
            tx.raise_observed(ValueError, *error.args)

    def method_count(self, tx, item):
        return ConstantVariable(elements(tx, self.items).count(Element(tx, item)))

    def operand(self, tx, other):
        """The elements of another sequence that this one can be compared with and added to, else None."""
        other = other.builtin_part(tx)
        if isinstance(other, Sequence):
            return other.items if other.base is self.base else None
        return other.unpack(tx) if issubclass(other.python_type(), self.base) else None

    def method___add__(self, tx, other):
        items = self.operand(tx, other)
        if items is None:
            complain(tx, self.empty().__add__, stand_in(other.python_type()))
            return ConstantVariable(NotImplemented)  # a torch.Size is a number in that
        return self.like([*self.items, *items])

    def method___mul__(self, tx, count):
        kind = count.python_type()
        if not class_lookup(tx, kind, "__index__"):
            complain(tx, self.empty().__mul__, stand_in(kind))
        count = plain(tx, count)
        if len(self.items) * count > LARGEST:
            unsupported("large container", f"a {self.base.__name__} of {len(self.items) * count:,} elements")
        return self.like(self.items * count)

    method___rmul__ = method___mul__


def _comparison(name):
    compare = getattr(operator, name)

    def method(self, tx, other):
        items = self.operand(tx, other)
        if items is None:
            return ConstantVariable(NotImplemented)
        return boolean(compare_items(tx, compare, self.items, items, self.base is not tuple))

    return method


for _name in COMPARISONS:
    setattr(Sequence, f"method___{_name}__", _comparison(_name))


class MutableSequence(Sequence):
    """What list and deque share.  Every change is announced first, so that it is replayed on an existing object."""

    def change(self, tx, name, *args):
        """Run CPython's own method on the trackers."""
        tx.side_effects.mutated(self)
        self.reshaped(name)
        with as_observed(tx):
            return getattr(self.items, name)(*args) or NONE

    def reshaped(self, name):
        """A deque notes changes that end its iterators."""

    def method_extend(self, tx, iterable):
        """Elements arrive one by one: the iterable may raise half-way, or look at this list."""
        return self.each(tx, "append", iterable)

    def each(self, tx, name, iterable):
        if iterable.realize() in (self, self.whole):  # what it had before
            iterable = tx.build_list(iterable.unpack(tx))
        iterator = iterable.iterate(tx)
        if self.base is list:
            iterable.measure(tx)
        tx.side_effects.mutated(self)
        while True:
            item = next_or_none(tx, iterator)
            if item is None:
                return NONE
            self.reshaped(name)
            getattr(self.items, name)(item)

    def method_copy(self, tx):
        return self.like(self.items.copy())

    method___copy__ = method_copy

    def method_remove(self, tx, item):
        wanted = Element(tx, item)
        for index, candidate in enumerate(list(self.items)):
            if Element(tx, candidate) == wanted:
                return self.change(tx, "__delitem__", index)
        tx.raise_observed(ValueError, self.not_found.format(wanted))

    def method___delitem__(self, tx, index):
        check_index(tx, self, index)
        return self.change(tx, "__delitem__", plain(tx, index))

    def method___setitem__(self, tx, index, value):
        check_index(tx, self, index)
        index = plain(tx, index)
        if isinstance(index, slice):
            value = listed_or(tx, value, lambda: complain(tx, operator.setitem, self.empty(), index, None))
        return self.change(tx, "__setitem__", index, value)

    def method___iadd__(self, tx, iterable):
        self.method_extend(tx, iterable)
        return self

    def method___imul__(self, tx, count):
        repeated = self.method___mul__(tx, count).items
        tx.side_effects.mutated(self)
        self.reshaped("__imul__")
        self.items = repeated
        return self

    def key(self):
        unsupported("key with its own equality", f"a {self.cls.__name__} as a dict key or set element")

    def reconstruct(self, codegen):
        items = self.items
        if contains_itself(self, codegen.acyclic):
            self.fill, items = self.replay, ()
        self.push_new(codegen, items)


def refill_list(existing, items):
    """Make an existing list hold exactly these items; no method of a subclass runs."""
    list.__setitem__(existing, slice(None), items)


def assign_deque(existing, items):
    """As many items as before: the deque's iterators go on."""
    for index, item in enumerate(items):
        collections.deque.__setitem__(existing, index, item)


class ListVariable(MutableSequence):
    cls = base = list
    not_found = "list.remove(x): x not in list"

    def method___init__(self, tx, iterable=None, /):
        self.change(tx, "clear")
        return NONE if iterable is None else self.method_extend(tx, iterable)

    def replay(self, codegen):
        codegen.run(refill_list, self, list(self.items))

    def method_sort(self, tx, *, key=NONE, reverse=FALSE):
        tx.side_effects.mutated(self)
        items, self.items[:] = list(self.items), []  # as in CPython, which nobody can look at meanwhile
        try:
            sort(tx, items, key, reverse)
        finally:
            changed, self.items[:] = len(self.items) > 0, items
        if changed:
            tx.raise_observed(ValueError, "list modified during sort")
        return NONE

    def push_new(self, codegen, items):
        codegen.push_all(items)
        codegen.build_list(len(items))


class DequeVariable(MutableSequence):
    cls = base = collections.deque
    not_found = "{!r} is not in deque"
    generation = 0  # of its structure: the iterators of another one have ended

    def reshaped(self, name):
        self.generation += name not in ("__setitem__", "reverse")

    def __init__(self, items, source=None, maxlen=None):
        bound = items.maxlen if isinstance(items, collections.deque) and maxlen is None else maxlen
        super().__init__(collections.deque(items, bound), source)

    def like(self, items):
        return DequeVariable(items, maxlen=self.items.maxlen)

    def as_python_constant(self):
        return collections.deque(constants(self, self.items), self.items.maxlen)

    def var_getattr(self, tx, name):
        if name == "maxlen":
            return ConstantVariable(self.items.maxlen)
        return super().var_getattr(tx, name)

    def matches(self, tx, item):
        """Whether each element equals the item, asked one by one; a comparison must not change the deque."""
        generation = self.generation
        for element in list(self.items):
            yield Element(tx, element) == Element(tx, item)
            if self.generation != generation:
                tx.raise_observed(RuntimeError, "deque mutated during iteration")

    def method___contains__(self, tx, item):
        return boolean(any(self.matches(tx, item)))

    def method_count(self, tx, item):
        return ConstantVariable(sum(self.matches(tx, item)))

    def method_extendleft(self, tx, iterable):
        return self.each(tx, "appendleft", iterable)

    def method___init__(self, tx, iterable=None, maxlen=NONE):
        empty = tx.build(collections.deque).call_function(tx, [tx.build(()), maxlen], {})
        self.change(tx, "clear")
        self.items = empty.items
        return NONE if iterable is None else self.method_extend(tx, iterable)

    def push_new(self, codegen, items):
        codegen.call(collections.deque, list(items), self.items.maxlen)

    def replay(self, codegen):
        if self.source is not None and not self.generation:
            return codegen.run(assign_deque, self, list(self.items))
        codegen.run(collections.deque.__init__, self, list(self.items), self.items.maxlen)  # its iterators end


def _change(name, numbers):
    """A method that CPython's own does all of; numbers: how many of its first arguments are indices or counts."""

    def method(self, tx, *args):
        return self.change(tx, name, *(plain(tx, arg) for arg in args[:numbers]), *args[numbers:])

    return method


for _name, _numbers in {"append": 0, "insert": 1, "pop": 1, "clear": 0, "reverse": 0}.items():
    setattr(MutableSequence, f"method_{_name}", _change(_name, _numbers))
for _name, _numbers in {"appendleft": 0, "popleft": 0, "rotate": 1}.items():
    setattr(DequeVariable, f"method_{_name}", _change(_name, _numbers))


@wraps(list, collections.deque)
def wrap_sequence(output, value, source):
    items = wrap_items(output, value, source)
    if type(value) is list:
        return ListVariable(items, source)
    return wrap_deque(output, value, items, source)


def maxlen_of(value):
    return collections.deque.maxlen.__get__(value)  # a subclass may have another


def wrap_deque(output, value, items, source):
    output.guard("equals", source and CallSource(source, maxlen_of), maxlen_of(value))
    return DequeVariable(items, source, maxlen_of(value))


def wrap_items(output, value, source):
    """Guard type and length of a sequence; its elements stay lazy."""
    output.guard("type", source, type(value))
    output.guard("length", source, len(value))
    if len(value) > LARGEST:
        unsupported("large container", f"a {type(value).__name__} of {len(value):,} elements")
    return [output.lazy(item, ItemSource(source, i) if source else None) for i, item in enumerate(value)]
