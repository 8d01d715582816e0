"""The iterators of itertools in Python: their state is in attributes.

Goes in and comes out: what the originals take and give.  See `polyfills/__init__.py`.
"""

import itertools
import operator


class Missing:
    """The default of an argument that may be None."""


class Iterator:
    def __iter__(self):
        return self


class late_iterator(Iterator):
    """An iterator over a container (of a dict: "keys", "values" or "items") that is opened when it is first used."""

    def __init__(self, container, kind, backwards, position, size, complaint):
        self.container, self.kind, self.backwards, self.position = container, kind, backwards, position
        self.size, self.complaint = size, complaint
        self.iterator = iter(()) if position is None else None

    def __next__(self):
        if self.iterator is None:
            if self.complaint and len(self.container) != self.size:
                raise RuntimeError(self.complaint)
            view = self.container if self.kind == "elements" else getattr(self.container, self.kind)()
            self.iterator = reversed(view) if self.backwards else iter(view)
            skipped = self.position
            if self.backwards and self.kind == "elements":  # of a sequence: the position is an index
                skipped = len(view) - 1 - self.position
            for _ in range(skipped if skipped >= 0 else len(view)):
                next(self.iterator)
        return next(self.iterator)


def defines(value, *names):
    """Whether the class of a value has one of these special methods; what its metaclass has does not count."""
    return any(name in vars(base) for base in type(value).__mro__ for name in names)


def is_number(value):
    return defines(value, "__index__", "__float__", "__int__", "__complex__")


class count(Iterator):
    def __init__(self, start=0, step=1):
        if not (is_number(start) and is_number(step)):
            raise TypeError("a number is required")
        if isinstance(start, int) and isinstance(step, int) and step == 1:
            start, step = int(start), 1
        self.value, self.step = start, step

    def __next__(self):
        value = self.value
        self.value = value + self.step
        return value

    def __repr__(self):
        step = "" if type(self.step) is int and self.step == 1 else f", {self.step!r}"
        return f"count({self.value!r}{step})"


class repeat(Iterator):
    def __init__(self, object, times=Missing):
        self.value, self.times = object, None if times is Missing else max(int(operator.index(times)), 0)

    def __next__(self):
        if self.times is not None:
            if self.times <= 0:
                raise StopIteration
            self.times -= 1
        return self.value

    def __length_hint__(self):
        if self.times is None:
            raise TypeError("len() of unsized object")
        return self.times

    def __repr__(self):
        return f"repeat({self.value!r}{'' if self.times is None else f', {self.times}'})"


class cycle(Iterator):
    def __init__(self, iterable):
        self.first_round, self.saved, self.index, self.are_saved = iter(iterable), [], 0, False

    def __next__(self):
        for item in self.first_round:
            if not self.are_saved:
                self.saved.append(item)
            return item
        if not self.saved:
            raise StopIteration
        self.index += 1
        return self.saved[(self.index - 1) % len(self.saved)]

    def __reduce__(self):
        given = self.index % max(len(self.saved), 1)
        return itertools.cycle, (self.first_round,), (self.saved[given:] + self.saved[:given], self.are_saved)

    def __setstate__(self, state):
        if not isinstance(state, tuple):
            raise TypeError("state is not a tuple")
        if len(state) != 2:
            raise TypeError(f"function takes exactly 2 arguments ({len(state)} given)")
        if not isinstance(state[0], list):
            raise TypeError(f"argument 1 must be list, not {type(state[0]).__name__}")
        self.saved, self.index, self.are_saved = state[0], 0, operator.index(state[1]) != 0


class chain(Iterator):
    def __init__(self, *iterables):
        self.iterables, self.active = iter(iterables), iter(())

    def __next__(self):
        while True:
            for item in self.active:
                return item
            self.active = iter(next(self.iterables))

    def __reduce__(self):
        return itertools.chain, (), (self.iterables, self.active)

    def __setstate__(self, state):
        if not isinstance(state, tuple):
            raise TypeError("state is not a tuple")
        if len(state) not in (1, 2):
            wanted = "most 2 arguments" if state else "least 1 argument"
            raise TypeError(f"function takes at {wanted} ({len(state)} given)")
        if not all(hasattr(each, "__next__") for each in state):
            raise TypeError("Arguments must be iterators.")
        self.iterables, self.active = (*state, iter(()))[:2]


def chain_from_iterable(iterables):
    result = chain()
    result.iterables = iter(iterables)
    return result


def _is_at_least(least, number):
    try:
        return number is None or operator.index(number) >= least
    except TypeError:
        return False


class islice(Iterator):
    def __init__(self, iterable, start, stop=Missing, step=1, /):
        if stop is Missing:
            start, stop = 0, start
        if not _is_at_least(0, stop):
            raise ValueError("Stop argument for islice() must be None or an integer: 0 <= x <= sys.maxsize.")
        if not _is_at_least(0, start):
            raise ValueError("Indices for islice() must be None or an integer: 0 <= x <= sys.maxsize.")
        if not _is_at_least(1, step):
            raise ValueError("Step for islice() must be a positive integer or None.")
        self.rest, self.position, self.wanted = iter(iterable), 0, operator.index(start or 0)
        self.stop, self.step = stop if stop is None else operator.index(stop), operator.index(step or 1)

    def __next__(self):
        if self.stop is not None and self.wanted >= self.stop:
            while self.position < self.stop:  # the original steps over the rest, too
                self.skip()
            raise StopIteration
        while self.position < self.wanted:
            self.skip()
        item = self.skip()
        self.wanted += self.step
        return item

    def skip(self):
        item = next(self.rest)
        self.position += 1
        return item


class takewhile(Iterator):
    def __init__(self, predicate, iterable):
        self.predicate, self.rest, self.done = predicate, iter(iterable), False

    def __next__(self):
        if self.done:
            raise StopIteration
        item = next(self.rest)
        if self.predicate(item):
            return item
        self.done = True
        raise StopIteration


class dropwhile(Iterator):
    def __init__(self, predicate, iterable):
        self.predicate, self.rest, self.started = predicate, iter(iterable), False

    def __next__(self):
        item = next(self.rest)
        while not self.started and self.predicate(item):
            item = next(self.rest)
        self.started = True
        return item


class filterfalse(Iterator):
    def __init__(self, predicate, iterable):
        self.predicate, self.rest = bool if predicate is None else predicate, iter(iterable)

    def __next__(self):
        item = next(self.rest)
        while self.predicate(item):
            item = next(self.rest)
        return item


class compress(Iterator):
    def __init__(self, data, selectors):
        self.data, self.selectors = iter(data), iter(selectors)

    def __next__(self):
        while True:
            item = next(self.data)
            if next(self.selectors):
                return item


class starmap(Iterator):
    def __init__(self, function, iterable):
        self.function, self.rest = function, iter(iterable)

    def __next__(self):
        return self.function(*tuple(next(self.rest)))


class accumulate(Iterator):
    def __init__(self, iterable, func=None, *, initial=None):
        self.rest, self.function = iter(iterable), operator.add if func is None else func
        self.total, self.started = initial, False

    def __next__(self):
        if self.started:
            self.total = self.function(self.total, next(self.rest))
        elif self.total is None:
            self.total = next(self.rest)
        self.started = True
        return self.total


class pairwise(Iterator):
    def __init__(self, iterable):
        self.rest, self.previous = iter(iterable), Missing

    def __next__(self):
        if self.previous is Missing:
            self.previous = next(self.rest)
        pair = (self.previous, next(self.rest))
        self.previous = pair[1]
        return pair


class batched(Iterator):
    def __init__(self, iterable, n, *, strict=False):
        n = operator.index(n)
        if n < 1:
            raise ValueError("n must be at least one")
        self.rest, self.size, self.strict = iter(iterable), n, strict

    def __next__(self):
        batch = []
        for item in self.rest:
            batch.append(item)
            if len(batch) == self.size:
                return tuple(batch)
        if not batch:
            raise StopIteration
        if self.strict:
            raise ValueError("batched(): incomplete batch")
        return tuple(batch)


class zip_longest(Iterator):
    def __init__(self, *iterables, fillvalue=None):
        self.iterators, self.fill, self.running = [iter(i) for i in iterables], fillvalue, len(iterables)

    def __next__(self):
        if not self.iterators:
            raise StopIteration
        row = []
        for index, iterator in enumerate(self.iterators):
            item = next(iterator, Missing) if iterator is not None else Missing
            if item is Missing:
                if iterator is not None:
                    self.iterators[index] = None
                    self.running -= 1
                if self.running == 0:
                    self.iterators = []
                    raise StopIteration
                item = self.fill
            row.append(item)
        return tuple(row)


class groupby(Iterator):
    def __init__(self, iterable, key=None):
        self.rest, self.key = iter(iterable), key
        self.item = self.item_key = self.group_key = Missing  # item: Missing when it has been given
        self.group = None  # the one that has been given last; older ones are empty

    def in_group(self, key):
        return key is self.item_key or key == self.item_key

    def advance(self):
        item = next(self.rest)
        self.item_key = item if self.key is None else self.key(item)
        self.item = item

    def __next__(self):
        if self.group is not None:
            self.group.ended, self.group = True, None
        while self.item_key is Missing or self.group_key is not Missing and self.in_group(self.group_key):
            self.advance()
        self.group_key = self.item_key
        self.group = _Group(self, self.group_key)
        return self.group_key, self.group


class _Group(Iterator):
    def __init__(self, groups, key):
        self.groups, self.key, self.ended = groups, key, False

    def __next__(self):
        groups = self.groups
        if self.ended:
            raise StopIteration
        if groups.item is Missing:
            groups.advance()
        if not groups.in_group(self.key):
            raise StopIteration
        item, groups.item = groups.item, Missing
        return item


def tee(iterable, n=2):
    n = operator.index(n)
    if n < 0:
        raise ValueError("n must be >= 0")
    first = iter(iterable)
    if not hasattr(first, "__copy__"):
        first = _Tee(first)
    return tuple([first, *[first.__copy__() for _ in range(n - 1)]][:n])


class _Shared:
    def __init__(self, rest):
        self.rest, self.seen, self.running = rest, [], False

    def advance(self):
        if self.running:
            raise RuntimeError("cannot re-enter the tee iterator")
        self.running = True
        try:
            self.seen.append(next(self.rest))
        finally:
            self.running = False


class _Tee(Iterator):
    def __init__(self, iterable):
        again = isinstance(iterable, itertools._tee)
        self.shared, self.index = (iterable.shared, iterable.index) if again else (_Shared(iter(iterable)), 0)

    def __next__(self):
        if self.index == len(self.shared.seen):
            self.shared.advance()
        self.index += 1
        return self.shared.seen[self.index - 1]

    def __copy__(self):
        return _Tee(self)
