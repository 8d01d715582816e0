"""Iterators during capture: of sequences, dicts and sets, and enumerate, zip, map, filter, iter(callable, sentinel).

Goes in: what the program iterates over, and existing iterators (passed in, or left on the stack by a graph break);
these tell what they iterate over and how far they are. Comes out: `next(tx)`, and the iterator anew at the same
position.  An existing one is moved forward after the graph. Mirrors `torch/_dynamo/variables/iter.py`.  Taught in
chapter 06.  Those of itertools are in polyfills.py.
"""

import collections
import contextlib
import gc
import operator
import sys

from ..builder import wraps
from ..polyfills.iterators import late_iterator
from ..source import CallSource
from .base import ObservedException, unsupported
from .constant import BuiltinObject, ConstantVariable
from .elements import contains_itself, holds_new_keys
from .objects import UserDefinedObjectVariable


class IteratorVariable(BuiltinObject):
    """An iterator is its own iterable.  Subclasses implement `advance`: the next tracker, or None at the end."""

    has_identity = True

    def iterate(self, tx):
        return self

    def next(self, tx):
        tx.side_effects.mutated(self)
        tx.output.steps += 1
        tx.output.check_patience()
        item = self.advance(tx)
        return item if item is not None else tx.raise_observed(StopIteration)

    method___iter__, method___next__ = iterate, next

    def replay(self, codegen):
        """Nothing to do where all the state is in inner iterators, which are replayed themselves."""


# --- over a container -----------------------------------------------------------------------------------
class ContainerIterator(IteratorVariable):
    """`opener(owner)` is a fresh iterator of this kind; this one is at `position`, or EXHAUSTED."""

    EXHAUSTED, holds = None, ("owner",)
    is_inner = False  # whether only a loop, or another iterator, has it: then nobody sees what class it is of

    def __init__(self, owner, opener, position, source=None):
        super().__init__(source)
        self.owner, self.opener, self.position = owner, opener, position

    def python_type(self):
        return type(self.opener(self.owner.empty()))

    def held(self):
        """At its end it lets go of its container."""
        return [] if self.position is self.EXHAUSTED else self.owner.held()

    replay_order = 1  # when the containers have their final contents

    def is_valid(self):
        """Whether a fresh iterator over the container as it is now, moved on, is this one."""
        return True

    def reconstruct(self, codegen):
        """Changes of an existing container are replayed later, and would end an iterator that exists by then: all but
        one of a list, which moves to its position then."""
        if not self.is_valid():
            unsupported("value across a break", "it is needed after a graph break")
        if self.owner.whole is not None and self.owner.whole.overrides("__iter__", "__reversed__"):
            unsupported("subclass of a builtin", f"an iterator over {self.owner.whole}, made past its own `__iter__`")
        if not (self.owner in codegen.side_effects.mutated_containers or self.owner_is_filled_later(codegen)):
            return codegen.call(iterator_at, self.opener, self.owner, self.position)
        if issubclass(self.owner.python_type(), list):
            codegen.call(self.opener, self.owner)
            return codegen.side_effects.replay_later(self)
        if not self.is_inner:
            unsupported("value across a break", f"an iterator over {self.owner}, which changes after it was made")
        size = len(self.owner.items)
        codegen.call(late_iterator, self.owner, self.kind, self.backwards, self.position, size, self.complaint)

    def owner_is_filled_later(self, codegen):
        """Whether the container that capture made is there before its contents."""
        if self.owner.whole is not None:
            return self.owner.whole.source is None
        return self.owner.source is None and contains_itself(self.owner, codegen.acyclic)

    def replay(self, codegen):
        codegen.run(move, self, self.owner, self.position)


class SequenceIterator(ContainerIterator):
    """Over something with live `items`: list, tuple, str, range, deque.  position: the index of the next element."""

    kind = "elements"

    @property
    def complaint(self):
        return "deque mutated during iteration" if self.owner.python_type() is collections.deque else None

    def __init__(self, owner, position=0, step=1, source=None):
        super().__init__(owner, iter if step == 1 else reversed, position, source)
        self.backwards = step == -1
        self.step, self.generation = step, getattr(owner, "generation", 0)

    def is_valid(self):
        return self.position is self.EXHAUSTED or getattr(self.owner, "generation", 0) == self.generation

    def advance(self, tx):
        items = self.owner.items
        if not self.is_valid():
            tx.raise_observed(RuntimeError, self.complaint)
        if self.position is self.EXHAUSTED or not 0 <= self.position < len(items):
            self.position = self.EXHAUSTED
            return None
        self.position += self.step
        return items[self.position - self.step]


class KeyedIterator(ContainerIterator):
    """Over a dict or a set.  position: how many elements it has given."""

    replay_order = -1  # before: a dict or set that changes ends its iterators

    def __init__(self, tx, owner, kind, backwards=False, position=0, source=None):
        super().__init__(owner, OPENERS[kind, backwards], position, source)
        keys = owner.in_order() if kind == "elements" else owner.look(tx)
        if source is not None:  # it was made before capture changed the container
            keys = owner.original
        self.kind, self.order, self.size = kind, list(reversed(keys) if backwards else keys), len(keys)
        self.backwards, self.since = backwards, getattr(owner, "births", 0) if source is None else 0
        self.name = "Set" if kind == "elements" else "dictionary"
        if owner.cls is collections.OrderedDict:
            self.complaint = "OrderedDict mutated during iteration"
        else:
            self.complaint = f"{self.name} changed size during iteration"

    def advance(self, tx):
        items, kind = self.owner.items, self.kind
        is_ordered = self.owner.cls is collections.OrderedDict
        if is_ordered and self.position == len(self.order):
            self.position = self.EXHAUSTED
        if self.position is self.EXHAUSTED:
            return None
        if len(items) != self.size or is_ordered and self.owner.births > self.since:
            self.size, self.position = -1, self.EXHAUSTED if is_ordered else self.position  # whatever comes then
            tx.raise_observed(RuntimeError, self.complaint)
        if getattr(self.owner, "births", 0) > self.since:
            self.follow_changes(self.owner)
        if self.position == len(self.order):
            self.position = self.EXHAUSTED
            return None
        if self.position == self.size:
            self.position = self.EXHAUSTED
            tx.raise_observed(RuntimeError, f"{self.name} keys changed during iteration")
        key = self.order[self.position]
        self.position += 1
        return items[key] if kind == "elements" else dict_element(tx, items[key], kind)

    def owner_is_filled_later(self, codegen):
        elements = self.owner.items.values()
        keys = elements if self.kind == "elements" else [key for key, _ in elements]
        return super().owner_is_filled_later(codegen) or self.owner.source is None and holds_new_keys(codegen, keys)

    def is_valid(self):
        if self.position is self.EXHAUSTED:
            return True
        if self.position and self.kind == "elements" and not self.owner.has_known_order():
            return False
        as_it_was = getattr(self.owner, "births", 0) == self.since
        return as_it_was and list(self.owner.items) == self.order[:: -1 if self.backwards else 1]

    def follow_changes(self, owner):
        """Keys that were put in since (perhaps again) come at the end; deleted ones do not come any more."""
        new = [key for key in owner.items if owner.born.get(key, 0) > self.since]
        rest = [key for key in self.order[self.position :] if key in owner.items and key not in new]
        self.order[self.position :] = rest if self.backwards else rest + new
        self.since = owner.births


class IndexIterator(IteratorVariable):
    """`iter()` or (step -1) `reversed()` of an object that has only `__getitem__`.  index: of the next element."""

    def __init__(self, owner, index, step, source=None):
        super().__init__(source)
        self.owner, self.index, self.step = owner, index, step

    def python_type(self):
        return INDEX_ITERATOR if self.step == 1 else reversed

    def advance(self, tx):
        if self.owner is None or self.index < 0:
            return None
        if self.index == sys.maxsize:
            tx.raise_observed(OverflowError, "iter index too large")
        try:
            item = self.owner.call_method(tx, "__getitem__", [ConstantVariable(self.index)], {})
        except ObservedException as observed:
            if not (tx.exception_matches(observed, IndexError) or tx.exception_matches(observed, StopIteration)):
                raise
            self.owner = None  # once at its end, it stays there
            return None
        self.index += self.step
        return item

    def measure(self, tx):
        if self.owner is not None:
            self.owner.measure(tx)

    def children(self):
        return () if self.owner is None else (self.owner,)

    def reconstruct(self, codegen):
        opener = iter if self.step == 1 else reversed
        if self.owner is None or self.index < 0:
            return codegen.load_const(iterator_by_index(ByIndex(), opener, None))
        if self.step == -1:
            unsupported("value across a break", "to make it anew would ask for the length of its object again")
        codegen.call(iterator_by_index, self.owner, opener, self.index)

    def replay(self, codegen):
        if self.owner is None:
            unsupported("iterator from outside", "an existing iterator by index came to its end")
        codegen.run(self.python_type().__setstate__, self, self.index)


class ByIndex:
    """What has only `__getitem__`: nothing is in it."""

    def __getitem__(self, index):
        raise IndexError

    def __len__(self):
        return 0


INDEX_ITERATOR = type(iter(ByIndex()))


def iterator_by_index(owner, opener, index):
    """A new iterator at this index; at its end, where there is none."""
    iterator = opener(owner)
    if index is None:
        return next(iterator, None) or iterator
    iterator.__setstate__(index)
    return iterator


def dict_element(tx, pair, kind):
    """What iterating over `d.keys()`, `d.values()` or `d.items()` gives for a pair of trackers."""
    return tx.build_tuple(list(pair)) if kind == "items" else pair[kind == "values"]


def mapping_base(mapping):
    """The builtin class whose methods see the contents of a mapping."""
    return collections.OrderedDict if isinstance(mapping, collections.OrderedDict) else dict


def _opener(kind, backwards):
    def opener(mapping):
        view = getattr(mapping_base(mapping), kind)(mapping)
        return reversed(view) if backwards else iter(view)

    return opener


OPENERS = {(kind, back): _opener(kind, back) for kind in ("keys", "values", "items") for back in (False, True)}
OPENERS["elements", False] = iter
KEYED_TYPES = {type(OPENERS[kind, back]({})): (kind, back) for kind, back in OPENERS if kind != "elements"}
KEYED_TYPES[type(iter(set()))] = ("elements", False)


def iterator_at(opener, owner, position):
    """A new iterator over `owner` at this position."""
    iterator = opener(owner)
    if position is ContainerIterator.EXHAUSTED or hasattr(iterator, "__setstate__"):
        return move(iterator, owner, position)
    for _ in range(position):
        next(iterator)
    return iterator


RANGE_ITERATOR = type(iter(range(0)))


def move(iterator, owner, position):
    """Bring an existing iterator to this position; doing it twice does no harm."""
    if position is ContainerIterator.EXHAUSTED:
        collections.deque(iterator, maxlen=0)
    elif type(iterator) is RANGE_ITERATOR and sys.version_info >= (3, 12):  # which forget where they began
        iterator.__setstate__(max(0, operator.length_hint(iterator) - (len(owner) - position)))
    elif hasattr(iterator, "__setstate__"):
        set_position(iterator, owner, position)
    else:
        with contextlib.suppress(RuntimeError):  # the container was changed: the next user of the iterator hears it
            while position_of(iterator) < position:
                next(iterator)
    return iterator


def set_position(iterator, owner, position):
    """No iterator is told a position behind the end of its container; that of a list which became shorter has one."""
    missing = position + 1 - list.__len__(owner) if isinstance(owner, list) else 0
    if missing > 0:
        list.extend(owner, [None] * missing)
    iterator.__setstate__(position)
    if missing > 0:
        list.__delitem__(owner, slice(-missing, None))


def owner_of(iterator):
    """The container that an iterator runs over; an empty one where it is exhausted."""
    if type(iterator) in KEYED_TYPES:
        found = [r for r in gc.get_referents(iterator) if isinstance(r, (dict, set, frozenset))]
        return found[0] if found else ({} if KEYED_TYPES[type(iterator)][0] != "elements" else set())
    return iterator.__reduce__()[1][0]


def position_of(iterator):
    """The position in terms of ContainerIterator; CHANGED if its container was changed under it."""
    if type(iterator) in KEYED_TYPES:
        with contextlib.suppress(RuntimeError):
            iterator.__reduce__()  # iterates over a copy of itself
            return len(owner_of(iterator)) - iterator.__length_hint__()
        return CHANGED
    state = iterator.__reduce__()[2:]
    return (state[0] or 0) if state else ContainerIterator.EXHAUSTED


CHANGED = "changed"
# no deque: its iterators do not tell whether they are still good
FORWARD = {type(iter(v)) for v in ([], (), "a", "\xe9", b"", range(0))}
BACKWARD = {type(reversed([])), reversed}


@wraps(*FORWARD, *BACKWARD, *KEYED_TYPES, INDEX_ITERATOR)
def wrap_container_iterator(output, value, source):
    output.guard("type", source, type(value))
    position, owner = position_of(value), owner_of(value)
    output.guard("equals", source and CallSource(source, position_of), position)
    owner = output.wrap(owner, source and CallSource(source, owner_of)).realize()
    by_index = type(value) is INDEX_ITERATOR and position is not ContainerIterator.EXHAUSTED
    if by_index or (type(value) is reversed and isinstance(owner, UserDefinedObjectVariable)):
        return IndexIterator(owner, position, -1 if type(value) is reversed else 1, source)
    if not isinstance(owner, BuiltinObject) or position == CHANGED:
        unsupported("iterator from outside", f"an iterator over {owner}")
    if type(value) in KEYED_TYPES:
        return KeyedIterator(output, owner, *KEYED_TYPES[type(value)], position, source)
    return SequenceIterator(owner, position, -1 if type(value) in BACKWARD else 1, source)
