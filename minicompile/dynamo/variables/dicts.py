"""Mappings during capture: dict, OrderedDict, defaultdict, their views, mappingproxy.

Goes in: existing dicts, and those that the program makes.  Comes out: the same methods on `items`, a Python dict from
`key` (what stands for the key: see `hashable`) to the pair of trackers (key, value).
Mirrors `torch/_dynamo/variables/dicts.py`.  Taught in chapter 06.

An existing dict is guarded by single keys ("has_key", "lacks_key") while it is only asked for those; the first look at
all of it (len, iteration) guards the list of keys.
"""

import collections
import operator

from ..builder import wraps
from ..skip_files import attributes_of
from ..source import AttrSource
from .base import complain, refuse_arguments, unsupported
from .constant import NONE, TRUE, BuiltinObject, ConstantVariable, boolean
from .descriptors import type_lookup
from .dict_views import DictView
from .elements import (
    SPELLED,
    check_unchanged,
    constants,
    contains_itself,
    element_source,
    elements,
    guard_hashes,
    guard_keys,
    has,
    hashable,
    holds_new_keys,
    is_none,
    keys_list,
    keys_of,
    ordered_pairs,
    pairs_in,
    pairs_in_turn,
    refuse_unknown_number,
    values_list,
)
from .iterators import KeyedIterator, mapping_base


def viewed(kind):
    return lambda self, tx: DictView(self, kind)


class DictVariable(BuiltinObject):
    """cls: dict, OrderedDict or defaultdict (then `factory` is a tracker)."""

    has_identity = True

    def __init__(self, items=None, source=None, cls=dict, factory=NONE):
        super().__init__(source)
        self.items = items = {} if items is None else items
        self.cls, self.factory = cls, factory
        self.original = dict(items) if source is not None else {}
        self.keys_guarded = source is None
        self.born, self.births = {}, 0  # key -> its number among the keys put in during capture

    @classmethod
    def of(cls, tx, pairs, kind=dict):
        """A new dict of (key tracker, value tracker) pairs."""
        new = cls({}, cls=kind)
        new.update(tx, pairs)
        return new

    def update(self, tx, pairs):
        for key, value in pairs:
            self.method___setitem__(tx, key, value)

    # --- looking ------------------------------------------------------------------------------------
    def look(self, tx):
        """Everything about the keys is about to be used."""
        if not self.keys_guarded:
            self.keys_guarded = True
            guard_keys(tx, self.source, [key for key, _ in self.original.values()])
        return self.items

    def find(self, tx, key):
        """(stand-in for the key, its pair of trackers or None)."""
        stand_in = hashable(tx, key)
        refuse_unknown_number(key, self.items)
        if not self.keys_guarded:
            if key.is_python_constant():
                tx.guard("has_key" if stand_in in self.original else "lacks_key", self.source, stand_in)
            else:
                self.look(tx)
        return stand_in, self.items.get(stand_in)

    def as_python_constant(self):
        pairs = list(self.items.values())
        keys, values = constants(self, [k for k, _ in pairs]), constants(self, [v for _, v in pairs])
        first = [self.factory.as_python_constant()] if self.cls is collections.defaultdict else []
        return self.cls(*first, zip(keys, values))

    def as_proxy(self):
        return {key.as_python_constant(): value.as_proxy() for key, value in self.items.values()}

    def iterate(self, tx):
        return KeyedIterator(tx, self, "keys")

    method___iter__ = iterate

    def unpack(self, tx):
        return [key for key, _ in self.look(tx).values()]

    def method___len__(self, tx):
        return ConstantVariable(len(self.look(tx)))

    def method___reversed__(self, tx):
        return DictView(self, "keys").method___reversed__(tx)

    def method___contains__(self, tx, key):
        return boolean(self.find(tx, key)[1] is not None)

    def method_get(self, tx, key, default=NONE):
        pair = self.find(tx, key)[1]
        return default if pair is None else pair[1]

    def method___getitem__(self, tx, key):
        pair = self.find(tx, key)[1]
        if pair is not None:
            return pair[1]
        return self.method___missing__(tx, key)

    def method___missing__(self, tx, key):
        if self.cls is not collections.defaultdict or is_none(self.factory):
            tx.raise_observed(KeyError, key)
        value = self.factory.call_function(tx, [], {})
        self.method___setitem__(tx, key, value)
        return value

    method_keys, method_values, method_items = map(viewed, ("keys", "values", "items"))

    def var_getattr(self, tx, name):
        if name == "default_factory" and self.cls is collections.defaultdict:
            return self.factory
        pending = tx.side_effects.load_attr(self, name)
        if pending is not None and pending is not tx.side_effects.DELETED:
            return pending
        if self.cls is collections.OrderedDict and self.source is not None and type_lookup(self.cls, name) is None:
            if name in self.had:
                return tx.output.lazy(self.had[name], AttrSource(self.source, name))
            tx.guard("lacks_attribute", self.source, name)
        return super().var_getattr(tx, name)

    def var_setattr(self, tx, name, value):
        """An OrderedDict takes attributes (`state_dict._metadata`)."""
        if self.cls is not collections.OrderedDict or type_lookup(self.cls, name) is not None:
            return super().var_setattr(tx, name, value)
        if self.source is None:
            tx.side_effects.new_object(self)
        tx.side_effects.store_attr(self, name, value)

    # --- comparing ----------------------------------------------------------------------------------
    def method___eq__(self, tx, other):
        other = other.builtin_part(tx)
        if not issubclass(other.python_type(), dict):
            return ConstantVariable(NotImplemented)
        ours, theirs = self.look(tx), dict_items(tx, other)
        equal = len(ours) == len(theirs) and all(
            key in theirs and elements(tx, [value]) == elements(tx, [theirs[key][1]])
            for key, (_, value) in ours.items()
        )
        if equal and collections.OrderedDict is self.cls is other.python_type():
            equal = list(ours) == list(theirs)
        return boolean(equal)

    def method___ne__(self, tx, other):
        answer = self.method___eq__(tx, other)
        return answer if answer.value is NotImplemented else boolean(not answer.value)

    def method___or__(self, tx, other):
        if not issubclass(other.python_type(), dict):
            return ConstantVariable(NotImplemented)
        return self.method_copy(tx).method___ior__(tx, other)

    def method___ror__(self, tx, other):
        if not issubclass(other.python_type(), dict):
            return ConstantVariable(NotImplemented)
        new = DictVariable(dict(dict_items(tx, other)), cls=self.cls, factory=self.factory)
        return new.method___ior__(tx, self)

    def method___ior__(self, tx, other):
        self.method_update(tx, other)
        return self

    # --- changing -----------------------------------------------------------------------------------
    def method___setitem__(self, tx, key, value):
        stand_in, pair = self.find(tx, key)
        if pair is None and stand_in in self.original:
            self.look(tx)  # deleted before: it comes back at the end, so the order of all keys matters
        tx.side_effects.mutated(self)
        if pair is None:
            self.births += 1
            self.born[stand_in] = self.births
        self.items[stand_in] = (pair[0] if pair else key, value)
        return NONE

    def method___delitem__(self, tx, key):
        self.remove(tx, key)
        return NONE

    def remove(self, tx, key):
        """Take a key out; returns its value."""
        stand_in, pair = self.find(tx, key)
        if pair is None:
            tx.raise_observed(KeyError, key)
        tx.side_effects.mutated(self)
        del self.items[stand_in]
        return pair[1]

    def method_pop(self, tx, key, default=None):
        if default is not None and self.find(tx, key)[1] is None:
            return default
        return self.remove(tx, key)

    def method_popitem(self, tx, last=TRUE):
        if last is not TRUE and self.cls is not collections.OrderedDict:
            refuse_arguments(tx, self.empty().popitem, [last])
        if not self.look(tx):
            name = "dictionary" if self.cls is collections.OrderedDict else "popitem(): dictionary"
            tx.raise_observed(KeyError, f"{name} is empty")
        stand_in = next(reversed(self.items) if tx.truth(last) else iter(self.items))
        tx.side_effects.mutated(self)
        return tx.build_tuple(list(self.items.pop(stand_in)))

    def method_move_to_end(self, tx, key, last=TRUE):
        self.look(tx)
        stand_in, pair = self.find(tx, key)
        order, to_end = list(self.items), tx.truth(last)
        self.remove(tx, key)
        if order[-1 if to_end else 0] != stand_in:
            self.births += 1  # its iterators hear of it
        rest = {} if to_end else dict(self.items)
        for other in rest:
            del self.items[other]
        self.items.update({stand_in: pair, **rest})
        return NONE

    def method_setdefault(self, tx, key, default=NONE):
        pair = self.find(tx, key)[1]
        if pair is not None:
            return pair[1]
        self.method___setitem__(tx, key, default)
        return default

    def method_clear(self, tx):
        self.look(tx)
        tx.side_effects.mutated(self)
        self.items.clear()
        return NONE

    def method_copy(self, tx):
        return DictVariable(dict(self.look(tx)), cls=self.cls, factory=self.factory)

    method___copy__ = method_copy

    def method_fromkeys(self, tx, *args):
        return tx.call(self.cls.fromkeys, *args)

    def method___init__(self, tx, /, *args, **kwargs):
        if self.cls is collections.defaultdict:
            if self.source is not None:
                unsupported("builtin on an unknown value", f"`__init__` of {self}, which exists already")
            factory, args = args[0].realize() if args else NONE, args[1:]
            is_callable = type_lookup(factory.python_type(), "__call__") is not None
            complain(tx, self.cls, None if is_callable or is_none(factory) else 0)
            self.factory = factory
        if len(args) > 1:
            refuse_arguments(tx, mapping_base(self.empty()), args)
        return self.method_update(tx, *args, **kwargs)

    def method_update(self, tx, /, *others, **named):
        if len(others) > 1:
            refuse_arguments(tx, self.empty().update, others)
        for other in others:
            in_order = self.cls is collections.OrderedDict and other.python_type() is not dict
            self.update(tx, (ordered_pairs if in_order else pairs_of)(tx, other.realize(), self.empty().update))
        for name, value in named.items():
            self.method___setitem__(tx, ConstantVariable(name), value)
        return NONE

    # --- having it again ----------------------------------------------------------------------------
    def children(self):
        gone, changed = ({}, self.items) if self.source is None else self.changes()
        return [self.factory, *(key for key, _ in gone.values()), *(part for pair in changed.values() for part in pair)]

    def held(self):
        return [part for pair in self.items.values() for part in pair]

    def changes(self):
        """(keys to delete, items to store) that turn the dict as it was into what it is now, order included."""
        now, before = self.items, self.original
        kept = [k for k in now if k in before and before[k][0] is now[k][0]]  # 1 may have been replaced by True
        same = set(kept)
        if kept != [k for k in before if k in same] or kept != list(now)[: len(kept)]:  # moved: all of it anew
            return dict(before), dict(now)
        gone = {k: pair for k, pair in before.items() if k not in same}
        return gone, {k: pair for k, pair in now.items() if k not in same or before[k][1] is not pair[1]}

    def reconstruct(self, codegen):
        if contains_itself(self, codegen.acyclic) or holds_new_keys(codegen, [key for key, _ in self.items.values()]):
            self.fill = self.replay
        wrapped = self.cls is not dict
        if wrapped:
            codegen.load_const(self.cls)
        if self.cls is collections.defaultdict:
            codegen(self.factory)
        self.push_items(codegen, {} if hasattr(self, "fill") else self.items)
        if wrapped:
            codegen.call_function(1 + (self.cls is collections.defaultdict))

    def push_items(self, codegen, items):
        for stand_in, (key, value) in items.items():
            check_unchanged(stand_in)
            codegen.push_key(key)
            codegen(value)
        codegen.build_map(len(items))

    def replay(self, codegen):
        deleted, stored = self.changes()
        codegen.load_const(_apply)
        codegen(self)
        for stand_in, (key, _) in deleted.items():
            check_unchanged(stand_in)
            codegen(key)
        codegen.build_tuple(len(deleted))
        self.push_items(codegen, stored)
        codegen.call_function(3)
        codegen.pop_top()


def _apply(existing, deleted, stored):
    """Bring an existing dict up to date; no method of a subclass runs."""
    base = collections.OrderedDict if isinstance(existing, collections.OrderedDict) else dict
    for key in deleted:
        base.__delitem__(existing, key)
    for key, value in stored.items():
        base.__setitem__(existing, key, value)


def dict_items(tx, variable):
    """The items (key -> pair of trackers) of any mapping's tracker."""
    variable = variable.realize()
    if isinstance(variable, DictVariable):
        return variable.look(tx)
    return DictVariable.of(tx, pairs_of(tx, variable)).items


def pairs_of(tx, variable, update=dict):
    """(key, value) trackers of a mapping or of an iterable of pairs, one by one, as `update(variable)` takes them."""
    variable = variable.realize()
    if has(tx, variable, "keys"):
        return merged(tx, variable)
    return pairs_in_turn(tx, variable.iterate(tx).realize(), update)


def merged(tx, variable, check=lambda key: None):
    """(key, value) trackers of a mapping, as `{**variable}` takes them.  check: called before a value is read."""
    derived = issubclass(variable.python_type(), dict) and hasattr(variable, "base_type")
    if derived and type_lookup(variable.cls, "__iter__").attribute is dict.__iter__:  # else it is asked for its keys
        variable = variable.base(tx)
    if not isinstance(variable, DictVariable):
        for key in keys_of(tx, variable):
            check(key)
            yield key, tx.call(operator.getitem, variable, key)
        return
    for key, value in (pairs := list(variable.look(tx).values())):
        check(key)
        yield key, value
        if len(variable.items) != len(pairs):
            tx.raise_observed(RuntimeError, "dict mutated during update")


# --- existing objects -----------------------------------------------------------------------------------
@wraps(dict, collections.OrderedDict, collections.defaultdict)
def wrap_dict(output, value, source):
    if any(namespace == id(value) for namespace, _ in output.side_effects.globals):
        unsupported("introspection", "globals that were set before are looked at as a dict")
    output.guard("type", source, type(value))
    items, factory, pairs = {}, NONE, pairs_in(value)
    for index, (key, element) in enumerate(pairs):
        key_source = None if type(key) in SPELLED else element_source(source, keys_list, key, index)
        key_tracker = output.wrap(key, key_source).realize()
        element = output.lazy(element, element_source(source, values_list, key, index))
        items[hashable(output.current_translator, key_tracker)] = (key_tracker, element)
    guard_hashes(output, source, value, items)
    if isinstance(value, collections.defaultdict):
        factory = output.lazy(value.default_factory, AttrSource(source, "default_factory") if source else None)
    tracker = DictVariable(items, source, type(value), factory)
    tracker.had = attributes_of(value)
    if any(type(key) not in SPELLED for key, _ in pairs):
        tracker.look(output)
    return tracker
