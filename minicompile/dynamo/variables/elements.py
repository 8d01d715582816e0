"""What all containers need of their elements: comparing, hashing, sorting, counting, and the Python values.

Goes in: trackers.  Comes out: Python values that C code can work with.  `Element` is the trick that keeps this short:
it compares as the tracked value would, so that CPython's own `index`, `sort`, `min` and `max` run on trackers, in its
order of comparisons and with its errors; `UserKey` does the same for the keys of dicts and sets.
Mirrors parts of `torch/_dynamo/variables/lists.py` and `HashableTracker` of `dicts.py`.  Taught in chapter 06.
"""

import collections
import operator

from ..distinct_objects import note_keys
from ..guard_checks import KeyOfType
from ..source import CallSource, ItemSource
from .base import (
    NotConstant,
    ObservedException,
    VariableTracker,
    as_observed,
    can_change,
    complain,
    type_name,
    unsupported,
)
from .called_back import calls_back
from .constant import FALSE, NONE, BuiltinObject, ConstantVariable
from .descriptors import type_lookup
from .refusals import Refusal


class Element:
    """A tracker that can be compared and hashed by C code, as its value would be."""

    __slots__ = ("tx", "variable")

    def __init__(self, tx, variable):
        self.tx, self.variable = tx, variable.realize()

    def __eq__(self, other):
        """Identity comes first; of constants it is asked only where it matters: it would be one more guard."""
        questions = [self.tx.is_same, self.tx.equals]
        if self.variable.is_literal() and other.variable.is_literal():
            questions.reverse()
        return any(question(self.variable, other.variable) for question in questions)

    def __hash__(self):
        return hash(hashable(self.tx, self.variable))

    def __repr__(self):
        return self.tx.call(repr, self.variable).as_python_constant()


def _ordering(compare):
    def method(self, other):
        self.tx.output.take_round()
        return self.tx.truth(self.tx.call(compare, self.variable, other.variable))

    return method


for _name in ("lt", "le", "gt", "ge"):
    setattr(Element, f"__{_name}__", _ordering(getattr(operator, _name)))


def hashable(tx, variable):
    """The key that stands for a tracker; raises the program's TypeError for a value that cannot be hashed."""
    variable = variable.realize()
    if issubclass(variable.python_type(), tuple):
        return tuple(hashable(tx, item) for item in variable.unpack(tx))
    if variable.python_type().__hash__ is None:
        tx.raise_observed(TypeError, f"unhashable type: '{type_name(variable.python_type())}'")
    if isinstance(variable, ConstantVariable):
        tx.fold(hash, [variable], {})  # a union or an annotation may hold what cannot be hashed
    by_method = hasattr(variable, "hashes_by_method") and variable.hashes_by_method(tx)
    if by_method:
        return UserKey(tx, variable)
    stand_in = variable.key()
    note_keys(tx.output, stand_in)
    return stand_in


def elements(tx, items):
    return [Element(tx, item) for item in items]


def iterator_of(tx, iterable):
    """`iter(iterable)` for a loop, or for an iterator over iterators."""
    iterable = iterable.realize()
    iterator = iterable.iterate(tx).realize()
    if isinstance(iterable, BuiltinObject) and iterator is not iterable:
        iterator.is_inner = True
    return iterator


def each(tx, iterable):
    """The elements as C code takes them from an iterator: what it does with one comes before the next is made."""
    iterator = iterator_of(tx, iterable)
    while (item := next_or_none(tx, iterator)) is not None:
        yield item


def plain(tx, variable):
    """The Python int, slice or other constant that C code takes as an index or a count."""
    variable = variable.realize()
    if variable.python_type() is slice:
        for part in variable.items:
            if not is_none(part) and type_lookup(part.python_type(), "__index__") is None:
                tx.raise_observed(TypeError, "slice indices must be integers or None or have an __index__ method")
        return slice(*(plain(tx, part) for part in variable.items))
    if variable.is_python_constant():
        cls, value = variable.python_type(), variable.as_python_constant()
        if issubclass(cls, int) or not calls_back(value) or type_lookup(cls, "__index__") is None:
            return value
    return tx.call(operator.index, variable).as_python_constant()


_visited = []


def constants(container, items):
    """The Python values of the items of a container.  One that contains itself is no constant."""
    if container in _visited:
        raise NotConstant(container)
    _visited.append(container)
    try:
        return [item.as_python_constant() for item in items]
    finally:
        _visited.pop()


def pairs_in(mapping):
    """The items of an existing dict."""
    try:
        return list(mapping.items())
    except KeyError:  # of an OrderedDict that was changed behind its back, or whose keys have another hash now
        unsupported("key with its own equality", "a dict does not find one of its own keys")


def has(tx, variable, name):
    """Whether C code finds an attribute: it asks the object, where one of a C class without attributes has no say."""
    cls = variable.python_type()
    if can_change(cls) or type_lookup(cls, "__dict__") is not None:
        return tx.truth(tx.call(hasattr, variable, ConstantVariable(name)))
    return type_lookup(cls, name) is not None


def listed_or(tx, iterable, refuse):
    """All elements; where `iter()` raises a TypeError, whatever it says, `refuse()` says another."""
    try:
        iterator = iterable.iterate(tx).realize()
    except ObservedException as error:
        if not tx.exception_matches(error, TypeError):
            raise
        refuse()
    return iterator.listed(tx)


def keys_of(tx, mapping):
    """What its `keys()` gives, all at once."""
    keys = mapping.var_getattr(tx, "keys").call_function(tx, [], {}).realize()
    names = [type_name(each.python_type()) for each in (mapping, keys)]
    text = "{}.keys() returned a non-iterable (type {})".format(*names)
    return listed_or(tx, keys, lambda: tx.raise_observed(TypeError, text))


def ordered_pairs(tx, variable, update):
    """(key, value) trackers of what an OrderedDict is updated with: each key when its turn comes, and `items()` too."""
    if has(tx, variable, "keys"):
        for key in each(tx, variable.var_getattr(tx, "keys").call_function(tx, [], {})):
            yield key, tx.call(operator.getitem, variable, key)
        return
    if has(tx, variable, "items"):
        variable = variable.var_getattr(tx, "items").call_function(tx, [], {}).realize()
    yield from pairs_in_turn(tx, variable.iterate(tx).realize(), update)


def pairs_in_turn(tx, iterator, update):
    """(key, value) trackers of an iterable of pairs, as `update` takes them."""
    for index, item in enumerate(iter(lambda: next_or_none(tx, iterator), None)):
        try:
            pair = item.unpack(tx)
        except ObservedException as raised:
            if not tx.exception_matches(raised, TypeError):
                raise
            refusal = Refusal(tx.call(str, raised.variable).as_python_constant())
            complain(tx, update, [*[(0, 0)] * index, refusal])
        if len(pair) != 2:
            complain(tx, update, [*[(0, 0)] * index, (0,) * len(pair)])
        yield pair


def keys_list(mapping):
    return list(mapping)


def values_list(mapping):
    return list(mapping.values())


def guard_keys(output, source, trackers):
    """These are all the keys of a dict, or elements of a set, in this order."""
    keys = [t.as_python_constant() if t.is_python_constant() else KeyOfType(t.python_type()) for t in trackers]
    output.guard("keys", source, keys)


SPELLED = (int, str, bool, type(None))  # keys that a guard's text and a report can spell


def element_source(source, mapping_reader, key, index):
    """`d[key]`, or by position (`list(d.values())[index]`) where the key has no literal."""
    if source is None:
        return None
    if type(key) in SPELLED:
        return ItemSource(source, key)
    return ItemSource(CallSource(source, mapping_reader), index)


def contains_itself(container, acyclic):
    """Such a container exists first and is filled later.

    acyclic: a set of what is known to lead to no such container, which grows: each part of a deep one is asked about.
    """
    is_open, todo, cycle = {}, [] if container in acyclic else [container], False
    while todo:
        item = todo[-1]
        if item in is_open:
            is_open[todo.pop()] = False
            continue
        is_open[item] = True
        for child in item.children():
            child = child.realize()
            if child is container:
                return True
            cycle |= is_open.get(child, False)
            if child.source is None and child not in is_open and child not in acyclic:
                todo.append(child)
    if not cycle:
        acyclic.update(is_open)
    return False


def holds_new_keys(codegen, keys):
    """Keys that get their attributes before they are hashed: one of these may be the container, which exists first."""
    return any(key.realize() in codegen.side_effects.new_objects for key in keys)


def compare_items(tx, compare, ours, theirs, length_first):
    """As CPython: by the first elements that differ, else by length; comparing elements may change the sequences.

    length_first: whether other lengths are enough to be unequal (a tuple compares its elements even so).
    """
    if length_first and len(ours) != len(theirs) and compare in (operator.eq, operator.ne):
        return compare is operator.ne
    index = 0
    while index < min(len(ours), len(theirs)):
        left, right = Element(tx, ours[index]), Element(tx, theirs[index])
        if not left == right and index < min(len(ours), len(theirs)):
            return compare is operator.ne if compare in (operator.eq, operator.ne) else compare(left, right)
        index += 1
    return compare(len(ours), len(theirs))


def sort(tx, items, key=NONE, reverse=FALSE):
    """Sort a list of trackers in place, by CPython's own sort; an error on the way leaves it half sorted, as there."""
    ranked = elements(tx, items)
    by = None if is_none(key) else lambda e: Element(tx, key.call_function(tx, [e.variable], {}))
    if not issubclass(reverse.python_type(), int):  # until 3.12 it must be one
        with as_observed(tx):
            [].sort(reverse=reverse.as_python_constant())
    try:
        ranked.sort(key=by, reverse=tx.truth(reverse))
    finally:
        items[:] = [element.variable for element in ranked]


def is_none(variable):
    variable = variable.realize()
    return isinstance(variable, ConstantVariable) and variable.value is None


def next_or_none(tx, iterator):
    """The next element, or None at the end."""
    try:
        return iterator.next(tx)
    except ObservedException as stop:
        if tx.exception_matches(stop, StopIteration):
            return None
        raise


def refuse_unknown_number(key, items):
    """`id(x)` may equal an integer that the container holds; only between two ids capture knows."""
    if not key.is_python_constant() and key.python_type() is int and any(type(k) is int for k in items):
        unsupported("identity as a number", "`id(...)` as the key of a container of integers")


class UserKey:
    """A dict key whose class defines `__hash__` or `__eq__` in Python: both are inlined when the dict asks."""

    def __init__(self, tx, variable):
        self.tx, self.variable = tx, variable
        self.hash = self.ask(lambda: tx.call(hash, variable).as_python_constant())
        self.attributes = dict(tx.side_effects.pending_attributes(variable))

    def __hash__(self):
        return self.hash

    def __eq__(self, other):
        """other: also what stands for an object that is equal only to itself, or a constant of the same hash."""
        if isinstance(other, UserKey):
            other = other.variable
        elif not isinstance(other, VariableTracker):
            other = self.tx.build(other)
        return self.variable is other or self.ask(lambda: self.tx.equals(self.variable, other))

    def ask(self, question):
        """The code that makes the container anew asks again: no harm where the answer is a matter of the key alone."""
        effects = self.tx.side_effects
        before, answer = effects.activity, question()
        if effects.activity != before:
            self.refuse("compares by code that changes something, or looks at what was changed")
        return answer

    def check_unchanged(self):
        if self.attributes != self.tx.side_effects.pending_attributes(self.variable):
            self.refuse("was changed when it was a key already")

    def refuse(self, reason):
        unsupported("key with its own equality", f"{self.variable}, which {reason}")


def check_unchanged(stand_in):
    """Before a key is put into a container anew, or taken out."""
    if isinstance(stand_in, (tuple, frozenset)):
        for part in stand_in:
            check_unchanged(part)
    elif isinstance(stand_in, UserKey):
        stand_in.check_unchanged()


# --- the hashes that a container keeps ------------------------------------------------------------------
class Hashed:
    """Anything of this hash."""

    def __init__(self, number):
        self.number = number

    def __hash__(self):
        return self.number


def guard_hashes(output, source, container, stand_ins):
    """An existing dict or set keeps the hash that a key had when it was put in; it finds no key that has another now.

    stand_ins: of all its keys, in their order.  An OrderedDict asks for the hash each time, and has raised KeyError.
    """
    classes = frozenset(type(key) for key, stand_in in zip(container, stand_ins) if hashes_by_code(stand_in))
    if not classes or isinstance(container, collections.OrderedDict):
        return
    kept = hash_of_hashes(container, classes)
    own = [Hashed(hash(stand_in)) for key, stand_in in zip(container, stand_ins) if type(key) in classes]
    if kept != hash(frozenset(own)):
        unsupported("key with its own equality", "a dict or set holds a key that had another hash when it was put in")
    if source is not None:
        output.guard("equals", CallSource(source, hash_of_hashes, (classes,)), kept)


def hash_of_hashes(container, classes):
    """Made of the kept hashes of the keys of these classes; no code of the program runs here."""
    keys = frozenset(dict.copy(container) if isinstance(container, dict) else container)
    return hash(keys.difference([key for key in keys if type(key) not in classes]))


def hashes_by_code(stand_in):
    if isinstance(stand_in, (tuple, frozenset)):
        return any(map(hashes_by_code, stand_in))
    return isinstance(stand_in, UserKey)
