"""set and frozenset during capture.

Goes in: existing sets (guarded by their elements, in order), and those that the program makes.
Comes out: the same methods, computed by CPython's own sets on the keys that stand for the elements.
Mirrors `torch/_dynamo/variables/sets.py`.  Taught in chapter 06.

The order of a set of constants is CPython's, because `real` is a set of those constants that saw the same changes.
Elements that hash by address have no order that a program could rely on: they keep the order in which they came.
"""

import operator

from ..builder import wraps
from ..source import CallSource, ItemSource
from .constant import COMPARISONS, NONE, BuiltinObject, ConstantVariable, boolean
from .dicts import hashable, refuse_unknown_number
from .elements import constants, next_or_none


class SetVariable(BuiltinObject):
    """`items`: key -> tracker of the element, in iteration order; `real`: the keys.  cls: set or frozenset."""

    def __init__(self, items, source=None, cls=set, real=None):
        super().__init__(source)
        self.items, self.cls, self.real = items, cls, set(items) if real is None else real
        self.original = dict(items) if source is not None else {}

    @classmethod
    def of(cls, tx, trackers, kind=set):
        """A new set of these elements."""
        new = cls({}, cls=kind)
        for tracker in trackers:
            key = hashable(tx, tracker)
            new.items.setdefault(key, tracker)
            new.real.add(key)
        return new

    def in_order(self):
        """`items` in the order in which CPython iterates."""
        if all(tracker.is_python_constant() for tracker in self.items.values()):
            self.items = {key: self.items[key] for key in self.real}
        return self.items

    def is_immutable(self):
        return self.cls is frozenset and self.is_python_constant()

    def as_python_constant(self):
        return self.cls(constants(self, self.items.values()))

    def key(self):
        return frozenset(self.items)

    def children(self):
        if self.source is None:
            return list(self.items.values())
        return [item for part in self.changes() for item in part]

    def changes(self):
        """(elements to take out, elements to add); 1 may have been replaced by True."""
        now, before = self.items, self.original
        gone = [item for key, item in before.items() if now.get(key) is not item]
        return gone, [item for key, item in now.items() if before.get(key) is not item]

    def truth(self, tx):
        return bool(self.items)

    def iterate(self, tx):
        from .iterators import KeyedIterator

        return KeyedIterator(tx, self, "elements")

    def unpack(self, tx):
        return list(self.in_order().values())

    def operand(self, tx, other):
        """The elements of any iterable by key."""
        other = other.realize()
        if isinstance(other, SetVariable):
            return other.items
        return {hashable(tx, item): item for item in other.unpack(tx)}

    # --- looking ------------------------------------------------------------------------------------
    def method___len__(self, tx):
        return ConstantVariable(len(self.items))

    def method___iter__(self, tx):
        return self.iterate(tx)

    def method___contains__(self, tx, item):
        item = item.realize()
        if isinstance(item, SetVariable):  # CPython looks for a frozenset of the same elements
            return boolean(frozenset(item.items) in self.items)
        refuse_unknown_number(item, self.items)
        return boolean(hashable(tx, item) in self.items)

    def method_copy(self, tx):
        return SetVariable(dict(self.items), cls=self.cls, real=self.real.copy())

    method___copy__ = method_copy

    def method___hash__(self, tx):
        if self.cls is set:
            tx.raise_observed(TypeError, "unhashable type: 'set'")
        return tx.fold(hash, [self], {})

    # --- changing -----------------------------------------------------------------------------------
    def method_add(self, tx, item):
        key = hashable(tx, item)
        if key not in self.items:
            tx.side_effects.mutated(self)
            self.items[key] = item
            self.real.add(key)
        return NONE

    def method_discard(self, tx, item):
        key = hashable(tx, item)
        if self.items.pop(key, None) is not None:
            tx.side_effects.mutated(self)
            self.real.discard(key)
        return NONE

    def method_remove(self, tx, item):
        if not self.method___contains__(tx, item).value:
            tx.raise_observed(KeyError, item)
        return self.method_discard(tx, item)

    def method_pop(self, tx):
        if not self.items:
            tx.raise_observed(KeyError, "pop from an empty set")
        tx.side_effects.mutated(self)
        key = next(iter(self.in_order()))
        self.real.discard(key)
        return self.items.pop(key)

    def method_clear(self, tx):
        tx.side_effects.mutated(self)
        self.items, self.real = {}, set()
        return NONE

    def method_update(self, tx, *others):
        for other in others:
            iterator = other.iterate(tx) if other.realize() is not self else self.method_copy(tx).iterate(tx)
            while (item := next_or_none(tx, iterator)) is not None:
                self.method_add(tx, item)
        return NONE

    def become(self, tx, other):
        tx.side_effects.mutated(self)
        self.items, self.real = other.items, other.real
        return self

    # --- having it again ----------------------------------------------------------------------------

    def reconstruct(self, codegen):
        if self.cls is frozenset:
            codegen.push_function(frozenset)
        for item in self.in_order().values():
            codegen.push_key(item)
        codegen.build_set(len(self.items))
        if self.cls is frozenset:
            codegen.call_function(1)

    def replay(self, codegen):
        codegen.push_function(_apply)
        codegen(self)
        for part in self.changes():
            for item in part:
                codegen(item)
            codegen.build_tuple(len(part))
        codegen.call_function(3)
        codegen.pop_top()


def _apply(existing, removed, added):
    """Bring an existing set up to date; no method of a subclass runs."""
    set.difference_update(existing, removed)
    set.update(existing, added)


def _algebra(name, symbol):
    """`a.union(*iterables)`, `a |= b`, `a.update(*iterables)` and `a | b`, the last for sets only."""

    def method(self, tx, *others):
        rows = [self.operand(tx, other) for other in others]
        reals = [o.realize().real if isinstance(o.realize(), SetVariable) else row for o, row in zip(others, rows)]
        real = getattr(set, name)(self.real, *reals)
        kept = {key: key for key in real}
        trackers = {id(key): tracker for row in (*reversed(rows), self.items) for key, tracker in row.items()}
        merged = dict.fromkeys(key for row in (self.items, *rows) for key in row)
        items = {kept[key]: trackers[id(kept[key])] for key in merged if key in kept}  # 1 or True
        return SetVariable(items, cls=self.cls, real=real)

    def operation(self, tx, other):
        return method(self, tx, other) if is_set(other) else ConstantVariable(NotImplemented)

    def reflected(self, tx, other):
        return method(tx.call(set, other), tx, self) if is_set(other) else ConstantVariable(NotImplemented)

    def in_place(self, tx, other):
        if self.cls is frozenset or not is_set(other):
            return ConstantVariable(NotImplemented)
        return self.become(tx, method(self, tx, other))

    def update(self, tx, *others):
        self.become(tx, method(self, tx, *others))
        return NONE

    for target, function in ((name, method), (f"__{symbol}__", operation), (f"__r{symbol}__", reflected)):
        setattr(SetVariable, f"method_{target}", function)
    setattr(SetVariable, f"method___i{symbol}__", in_place)
    if name != "union":
        setattr(SetVariable, f"method_{name}_update", update)


def is_set(variable):
    """An operand of `|`, `&`, `-`, `^`: a set, or a view of a dict's keys or items."""
    return issubclass(variable.python_type(), (set, frozenset, type({}.keys()), type({}.items())))


for _row in ("union or", "intersection and", "difference sub", "symmetric_difference xor"):
    _algebra(*_row.split())


def _comparison(name):
    compare = getattr(operator, name)

    def method(self, tx, other):
        if not is_set(other):
            return ConstantVariable(NotImplemented)
        return boolean(compare(set(self.items), set(self.operand(tx, other))))

    return method


def _question(name):
    def method(self, tx, other):
        return boolean(getattr(set, name)(set(self.items), set(self.operand(tx, other))))

    return method


for _name in COMPARISONS:
    setattr(SetVariable, f"method___{_name}__", _comparison(_name))
for _name in ("issubset", "issuperset", "isdisjoint"):
    setattr(SetVariable, f"method_{_name}", _question(_name))


@wraps(set, frozenset)
def wrap_set(output, value, source):
    output.guard("type", source, type(value))
    output.guard("keys", source, list(value))
    items = {}
    for index, element in enumerate(value):
        tracker = output.wrap(element, ItemSource(CallSource(source, list), index) if source else None).realize()
        key = hashable(output.current_translator, tracker)
        items[element if tracker.is_python_constant() else key] = tracker
    known = all(tracker.is_python_constant() for tracker in items.values())
    return SetVariable(items, source, type(value), set(value) if known else None)
