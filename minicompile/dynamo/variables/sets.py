"""set and frozenset during capture.

Goes in: existing sets (guarded by their elements, and by their order once it matters), and those of the program.
Comes out: the same methods, computed by CPython's own sets on the keys that stand for the elements.
Mirrors `torch/_dynamo/variables/sets.py`.  Taught in chapter 06.

The order of a set is CPython's, because `real` is a set of keys with the same hashes that saw the same changes: that of
an existing set itself until it changes, and from then on nobody knows its order.  Elements that hash by address have no
order that a program could rely on: they keep the order in which they came.
"""

import operator

from ..builder import wraps
from ..source import CallSource, ItemSource
from .base import VariableTracker, refuse_arguments, unsupported
from .constant import COMPARISONS, NONE, BuiltinObject, ConstantVariable, boolean
from .elements import (
    SPELLED,
    check_unchanged,
    constants,
    each,
    guard_hashes,
    guard_keys,
    hashable,
    holds_new_keys,
    refuse_unknown_number,
)
from .iterators import KeyedIterator


def hashed_by_address(key):
    """Whether what stands for an element has another hash than the element: that of its tracker."""
    if isinstance(key, (tuple, frozenset)):
        return any(map(hashed_by_address, key))
    is_marker = isinstance(key, type) and issubclass(key, VariableTracker)
    return is_marker or isinstance(key, VariableTracker)


class SetVariable(BuiltinObject):
    """`items`: key -> tracker of the element, in iteration order; `real`: the keys.  cls: set or frozenset.

    existing: the set that exists, until it changes: `items` are in its order then.
    guard_order: adds the guard that the existing set has this order.
    """

    has_identity = True

    def __init__(self, items, source=None, cls=set, real=None, existing=None, order_known=True):
        super().__init__(source)
        self.items, self.cls, self.real = items, cls, set(items) if real is None else real
        self.original, self.order_known = dict(items) if source is not None else {}, order_known
        self.existing, self.guard_order = existing, None

    @classmethod
    def of(cls, tx, trackers, kind=set):
        """A new set of these elements."""
        new = cls({}, cls=kind)
        for tracker in trackers:
            key = hashable(tx, tracker)
            new.items.setdefault(key, tracker)
            new.real.add(key)
        return new

    def has_known_order(self):
        return self.existing is not None or len(self.items) <= 1 or not any(map(hashed_by_address, self.items))

    def in_order(self):
        """`items` in the order in which CPython iterates."""
        self.depend_on_order()
        if self.existing is None and self.has_known_order():
            if not self.order_known and len(self.items) > 1:
                unsupported("builtin on an unknown value", f"the order of {self}, which capture has changed")
            return {key: self.items[key] for key in self.real}
        if self.existing is None and len(self.items) > 1 and not all(map(hashed_by_address, self.items)):
            unsupported("builtin on an unknown value", f"the order of {self}, where addresses come between values")
        return self.items

    def depend_on_order(self):
        """Call before the order, or a set made from this one, is used."""
        if self.existing is not None and self.guard_order is not None:
            self.guard_order()
            self.guard_order = None

    def mutated(self, tx):
        """Call before the contents change."""
        tx.side_effects.mutated(self)
        if self.existing is not None:
            self.real, self.existing, self.order_known = set(self.real), None, False

    def as_python_constant(self):
        return self.cls(constants(self, self.items.values()))

    def key(self):
        return frozenset(self.items)

    def children(self):
        if self.source is None:
            return list(self.items.values())
        return [item for part in self.changes() for item in part]

    def held(self):
        return self.items.values()

    def changes(self):
        """(elements to take out, elements to add); 1 may have been replaced by True."""
        now, before = self.items, self.original
        gone = [item for key, item in before.items() if now.get(key) is not item]
        return gone, [item for key, item in now.items() if before.get(key) is not item]

    def iterate(self, tx):
        return KeyedIterator(tx, self, "elements")

    method___iter__ = iterate

    def unpack(self, tx):
        return list(self.in_order().values())

    def operand(self, tx, other, wanted=None):
        """The elements of any iterable by key, until all that are wanted were among them."""
        other, found, missing = read_from(tx, other), {}, set(wanted or ())
        if isinstance(other, SetVariable):
            return other.items
        for item in each(tx, other):
            key = hashable(tx, item)
            found[key] = item
            if key in missing:
                missing.remove(key)
                if not missing:
                    break
        return found

    def operands(self, tx, name, others):
        """An intersection takes no more elements than it has to, of each operand in turn."""
        wanted = set(self.items) if name == "intersection" else None
        for other in others:
            row = self.operand(tx, other, wanted)
            wanted = wanted and wanted & row.keys()
            yield row

    # --- looking ------------------------------------------------------------------------------------
    def method___len__(self, tx):
        return ConstantVariable(len(self.items))

    def method___contains__(self, tx, item):
        item = item.builtin_part(tx)
        if isinstance(item, SetVariable):  # CPython looks for a frozenset of the same elements
            return boolean(frozenset(item.items) in self.items)
        refuse_unknown_number(item, self.items)
        return boolean(hashable(tx, item) in self.items)

    def method_copy(self, tx):
        return self if self.cls is frozenset else self.copied(set)

    def copied(self, kind):
        self.depend_on_order()
        return SetVariable(dict(self.items), cls=kind, real=set(self.real), order_known=self.order_known)

    method___copy__ = method_copy

    def method___hash__(self, tx):
        if self.cls is set:
            tx.raise_observed(TypeError, "unhashable type: 'set'")
        return tx.fold(hash, [self], {})

    # --- changing -----------------------------------------------------------------------------------
    def method_add(self, tx, item):
        key = hashable(tx, item)
        if key not in self.items:
            self.mutated(tx)
            self.items[key] = item
            self.real.add(key)
        return NONE

    def method_discard(self, tx, item):
        key = hashable(tx, item)
        if key in self.items:
            self.mutated(tx)
            del self.items[key]
            self.real.discard(key)
        return NONE

    def method_remove(self, tx, item):
        if not self.method___contains__(tx, item).value:
            tx.raise_observed(KeyError, item)
        return self.method_discard(tx, item)

    def method_pop(self, tx):
        if not self.items:
            tx.raise_observed(KeyError, "pop from an empty set")
        key = next(iter(self.in_order()))
        self.mutated(tx)
        self.real.discard(key)
        return self.items.pop(key)

    def method_clear(self, tx):
        self.mutated(tx)
        self.items = {}
        self.real.clear()
        return NONE

    def method_update(self, tx, *others):
        for other in others:
            if isinstance(other := read_from(tx, other), SetVariable):
                self.method___ior__(tx, other)
                continue
            for item in each(tx, other):
                self.method_add(tx, item)
        return NONE

    def method___init__(self, tx, iterable=None, /):
        if self.cls is frozenset:
            return NONE
        self.method_clear(tx)
        return NONE if iterable is None else self.method_update(tx, iterable)

    def method_difference_update(self, tx, *others):
        for other in others:
            other = read_from(tx, other)
            for item in list(other.items.values()) if isinstance(other, SetVariable) else each(tx, other):
                self.method_discard(tx, item)
            if self.existing is None:
                self.real.difference_update(())  # gives room back, where much has gone
        return NONE

    # --- having it again ----------------------------------------------------------------------------

    def reconstruct(self, codegen):
        if self.cls is frozenset and self.existing is not None:
            return codegen.load_const(self.existing)
        if self.cls is frozenset:
            codegen.load_const(frozenset)
        elif holds_new_keys(codegen, self.items.values()):
            self.fill = self.replay
            return codegen.build_set(0)
        items = self.in_order()
        if list(set(iter(self.items))) == list(items):
            items = self.items  # as they came: where hashes collide, the first has the first place
        for key, item in items.items():
            check_unchanged(key)
            codegen.push_key(item)
        codegen.build_set(len(self.items))
        if self.cls is frozenset:
            codegen.call_function(1)

    def replay(self, codegen):
        for key in (*self.original, *self.items):
            check_unchanged(key)
        codegen.load_const(_apply)
        codegen(self)
        for part in self.changes():
            for item in part:
                codegen.push_key(item)
            codegen.build_tuple(len(part))
        codegen.call_function(3)
        codegen.pop_top()


def _apply(existing, removed, added):
    """Bring an existing set up to date; no method of a subclass runs."""
    set.difference_update(existing, removed)
    set.update(existing, added)


def _algebra(name, symbol):
    """`a.union(*iterables)`, `a |= b`, `a.update(*iterables)` and `a | b`, the last for sets only."""

    change = getattr(set, "update" if name == "union" else f"{name}_update")

    def combine(self, tx, others, called=name):
        """The result, and what a real set is to be changed with."""
        if name == "symmetric_difference" and len(others) != 1:
            refuse_arguments(tx, getattr(self.empty(), called), others)
        self.depend_on_order()
        rows = list(self.operands(tx, name, others))
        reals = [real_of(read_from(tx, other), row) for other, row in zip(others, rows)]
        real = getattr(set, name)(set(self.real) if self.cls is frozenset else self.real, *reals)
        kept = {key: key for key in real}
        trackers = {id(key): tracker for row in (*reversed(rows), self.items) for key, tracker in row.items()}
        merged = dict.fromkeys(key for row in (self.items, *rows) for key in row)
        items = {kept[key]: trackers[id(kept[key])] for key in merged if key in kept}  # 1 or True
        known = all(part.order_known for part in (self, *others) if isinstance(part, SetVariable))
        return SetVariable(items, cls=self.cls, real=real, order_known=known), reals

    def method(self, tx, *others):
        return combine(self, tx, others)[0]

    def operation(self, tx, other):
        return method(self, tx, other) if is_set(other) else ConstantVariable(NotImplemented)

    def reflected(self, tx, other):
        if not is_set(other):
            return ConstantVariable(NotImplemented)
        return method(tx.call(other.python_type(), other), tx, self)

    def in_place(self, tx, other):
        if self.cls is frozenset or not is_set(other):
            return ConstantVariable(NotImplemented)
        update(self, tx, other)
        return self

    def update(self, tx, *others):
        result, reals = combine(self, tx, others, change.__name__)
        self.mutated(tx)
        self.items = result.items
        change(self.real, *reals)
        return NONE

    for target, function in ((name, method), (f"__{symbol}__", operation), (f"__r{symbol}__", reflected)):
        setattr(SetVariable, f"method_{target}", function)
    setattr(SetVariable, f"method___i{symbol}__", in_place)
    if not hasattr(SetVariable, f"method_{change.__name__}"):
        setattr(SetVariable, f"method_{name}_update", update)


def real_of(variable, row):
    """What CPython reads the keys of a row from: it makes room for those of a set or dict first."""
    if isinstance(variable, SetVariable):
        variable.depend_on_order()
        return variable.real
    return row if variable.python_type() is dict else list(row)


def read_from(tx, variable):
    """What the elements of an operand come from: those of a set, whatever its `__iter__` says; others are asked."""
    return variable.builtin_part(tx) if is_set(variable) else variable.realize()


def is_set(variable):
    """An operand of `|`, `&`, `-`, `^`; views of dicts answer for themselves."""
    return issubclass(variable.python_type(), (set, frozenset))


for _row in ("union or", "intersection and", "difference sub", "symmetric_difference xor"):
    _algebra(*_row.split())


def _comparison(name):
    compare = getattr(operator, name)

    def method(self, tx, other):
        if not is_set(other):
            return ConstantVariable(NotImplemented)
        return boolean(compare(set(self.items), set(self.operand(tx, other))))

    return method


def _question(name, each_is_inside=None):
    """each_is_inside: what must hold of each element of the other; the first for which it does not ends the search."""

    def method(self, tx, other):
        other = read_from(tx, other)
        if each_is_inside is not None and not isinstance(other, SetVariable):
            found = (hashable(tx, item) in self.items for item in each(tx, other))
            return boolean(all(inside is each_is_inside for inside in found))
        wanted = self.items if SUBSET_STOPS else None
        return boolean(getattr(set, name)(set(self.items), set(self.operand(tx, other, wanted))))

    return method


def _stops():
    """Whether `issubset` takes no more elements than it has to; it does from 3.12 on."""
    elements = iter((1, 2))
    return {1}.issubset(elements) and next(elements, None) is not None


SUBSET_STOPS = _stops()


for _name in COMPARISONS:
    setattr(SetVariable, f"method___{_name}__", _comparison(_name))
for _name, _each_is_inside in (("issubset", None), ("issuperset", True), ("isdisjoint", False)):
    setattr(SetVariable, f"method_{_name}", _question(_name, _each_is_inside))


@wraps(set, frozenset)
def wrap_set(output, value, source):
    output.guard("type", source, type(value))
    if type(value) in (set, frozenset) and all(type(element) in SPELLED for element in value):
        output.guard("elements", source, frozenset(value))
        items = {element: ConstantVariable(element) for element in value}
        new = SetVariable(items, source, type(value), value, value)
        new.guard_order = lambda: guard_keys(output, source, items.values())
        return new
    items = {}
    for index, element in enumerate(value):
        tracker = output.wrap(element, ItemSource(CallSource(source, list), index) if source else None).realize()
        key = hashable(output.current_translator, tracker)
        items[element if tracker.is_python_constant() else key] = tracker
    guard_keys(output, source, items.values())
    guard_hashes(output, source, value, items)
    known = all(tracker.is_python_constant() for tracker in items.values())
    return SetVariable(items, source, type(value), value if known else None, value)
