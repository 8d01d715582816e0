"""Iterators made of other iterators during capture: enumerate, zip, map, filter, iter(callable, sentinel).

Goes in: those that the program makes, and existing ones, which tell their parts by `__reduce__()`.
Comes out: `next(tx)`, and the iterator anew from its parts.
Mirrors `torch/_dynamo/variables/iter.py`.  Taught in chapter 06.
"""

import collections
import itertools

from ..builder import wraps
from ..source import CallSource, ItemSource
from .base import unsupported
from .constant import ConstantVariable
from .elements import is_none, next_or_none
from .iterators import ContainerIterator, IteratorVariable


class ComposedIterator(IteratorVariable):
    """`cls(*parts)`: an iterator made of other iterators and a few values, all of them trackers."""

    def __init__(self, parts, source=None):
        super().__init__(source)
        self.parts = list(parts)

    def children(self):
        return self.parts


class EnumerateVariable(ComposedIterator):
    cls = maker = enumerate

    @property
    def replay_order(self):
        return min(leaf.replay_order for leaf in leaves(self.parts[0])) if self.source is not None else 0

    def advance(self, tx):
        iterator, count = self.parts
        item = next_or_none(tx, iterator)
        if item is None:
            return None
        self.parts[1] = ConstantVariable(count.as_python_constant() + 1)
        return tx.build_tuple([count, item])

    def replay(self, codegen):
        """The count moves by `next` alone; the inner iterator, which moves too, is put into place afterwards."""
        owners = dict.fromkeys(leaf.owner for leaf in leaves(self.parts[0]))
        codegen.run(move_count, self, self.parts[1], *owners)


def move_count(iterator, count, *containers):
    """Bring an existing enumerate to this count; a list may have become shorter since."""
    missing = count - iterator.__reduce__()[1][1]
    lists = [container for container in containers if isinstance(container, list)]
    for container in lists:
        list.extend(container, [None] * missing)
    for _ in range(missing):
        next(iterator)
    for container in lists:
        list.__delitem__(container, slice(list.__len__(container) - missing, None))


class ZipVariable(ComposedIterator):
    """`strict` is kept apart from the iterators."""

    cls = zip

    def __init__(self, parts, source=None, strict=False):
        super().__init__(parts, source)
        self.strict = strict

    def advance(self, tx):
        row = []
        for index, iterator in enumerate(self.parts):
            item = next_or_none(tx, iterator)
            if item is None:
                if self.strict:
                    self.check(tx, index)
                return None
            row.append(item)
        return tx.build_tuple(row) if row else None

    def check(self, tx, index):
        """Iterator `index` has ended first: with strict=True all must end here."""
        words, first = ("shorter", index) if index else ("longer", 1)
        if index == 0:
            longer = [k for k in range(1, len(self.parts)) if next_or_none(tx, self.parts[k]) is not None][:1]
            if not longer:
                return
            first = longer[0]
        others = "argument 1" if first == 1 else f"arguments 1-{first}"
        tx.raise_observed(ValueError, f"zip() argument {first + 1} is {words} than {others}")

    def reconstruct(self, codegen):
        codegen.call(zip, *self.parts, self.strict, kw_names=("strict",))


class MapVariable(ComposedIterator):
    cls = maker = map

    def advance(self, tx):
        function, *iterators = self.parts
        row = []
        for iterator in iterators:
            item = next_or_none(tx, iterator)
            if item is None:
                return None
            row.append(item)
        return function.realize().call_function(tx, row, {})


class FilterVariable(ComposedIterator):
    cls = maker = filter

    def advance(self, tx):
        function, iterator = self.parts
        while (item := next_or_none(tx, iterator)) is not None:
            keep = item if is_none(function) else function.realize().call_function(tx, [item], {})
            if tx.truth(keep):
                return item
        return None


class CallableIterator(ComposedIterator):
    """`iter(function, sentinel)`."""

    cls = type(iter(int, 1))

    def advance(self, tx):
        if not self.parts:
            return None
        function, sentinel = self.parts
        item = function.realize().call_function(tx, [], {})
        if tx.equals(item, sentinel):
            self.parts = []
            return None
        return item

    def reconstruct(self, codegen):
        codegen.call(iter, *self.parts) if self.parts else codegen.call(at_its_end)

    def replay(self, codegen):
        if not self.parts:
            unsupported("iterator from outside", "an existing iter(callable, sentinel) came to its end")


def at_its_end():
    """`iter(function, sentinel)` that has met its sentinel."""
    iterator = iter(int, 0)
    next(iterator, None)
    return iterator


class CombinatorialIterator(IteratorVariable):
    """`product`, `permutations` and their like: these read all their input first, so the original works on trackers."""

    def __init__(self, function, pools, rest):
        super().__init__()
        self.function, self.pools, self.rest = function, pools, rest
        self.rows, self.given = function(*(pool.items for pool in pools), **rest), 0

    def python_type(self):
        return self.function

    def advance(self, tx):
        row = next(self.rows, None)
        self.given += 1
        return row if row is None else tx.build_tuple(row)

    def children(self):
        return self.pools

    def reconstruct(self, codegen):
        codegen.call(combinations_from, self.function, self.given, self.rest, *self.pools)


def combinations_from(function, given, rest, *pools):
    """The iterator behind its first `given` rows."""
    iterator = function(*pools, **rest)
    collections.deque(itertools.islice(iterator, given), maxlen=0)
    return iterator


def parts_of(iterator):
    """The arguments that would make this iterator anew."""
    return iterator.__reduce__()[1]


@wraps(enumerate, zip, map, filter, CallableIterator.cls)
def wrap_composed_iterator(output, value, source):
    output.guard("type", source, type(value))
    if source is None and type(value) is CallableIterator.cls:  # C code holds what it calls: a scanner of `re`
        unsupported("iterator from outside", "an iterator made by C code would be one for all calls")
    reduced = value.__reduce__()
    parts = [
        output.wrap(part, ItemSource(CallSource(source, parts_of), k) if source else None).realize()
        for k, part in enumerate(reduced[1])
    ]
    if type(value) is enumerate and not can_be_put_back(leaves(parts[0])):
        unsupported("iterator from outside", f"an enumerate over {parts[0]}, which cannot be put back into place")
    if type(value) is zip:
        return ZipVariable(parts, source, strict=reduced[2:] == (True,))
    if type(value) is CallableIterator.cls and len(parts) == 1:
        parts = []
    return COMPOSED[type(value)](parts, source)


def can_be_put_back(iterators):
    """Whether these can be moved by `next` first and to their positions afterwards, all at one time of the replay."""
    return None not in iterators and len({iterator.replay_order for iterator in iterators}) == 1


def leaves(iterator):
    """The container iterators that a zip of zips ends in; None for anything else.

    One that goes backwards over a list may stand anywhere behind the end of it, where `next` does not find back.
    """
    if isinstance(iterator, ZipVariable):
        return [leaf for part in iterator.parts for leaf in leaves(part)]
    is_good = isinstance(iterator, ContainerIterator) and iterator.python_type() is not type(reversed([]))
    return [iterator if is_good else None]


COMPOSED = {v.cls: v for v in (EnumerateVariable, ZipVariable, MapVariable, FilterVariable, CallableIterator)}
