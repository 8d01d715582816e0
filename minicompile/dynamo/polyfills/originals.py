"""What an object of a polyfill's class is once it leaves the compiled frame: the original, in the same state.

Goes in: attributes of the polyfill's object, those that a function's parameters name.  Comes out: an object of the
class written in C that goes on as the polyfill's would have.  See `polyfills/__init__.py`, `variables/stand_ins.py`.
"""

import collections
import functools
import itertools
import warnings

from . import caches, iterators
from .iterators import Missing


def skip(iterator, count):
    """The iterator behind its next `count` elements."""
    collections.deque(itertools.islice(iterator, count), maxlen=0)
    return iterator


def in_state(iterator, state):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of 3.12, about what 3.14 has no more
        iterator.__setstate__(state)
    return iterator


def repeat(value, times):
    return itertools.repeat(value) if times is None else itertools.repeat(value, times)


def cycle(first_round, saved, index, are_saved):
    if index:
        return skip(itertools.cycle(saved), index % len(saved))
    if are_saved:
        return in_state(itertools.cycle(first_round), (saved, True))
    return skip(itertools.cycle(itertools.chain(saved, first_round)), len(saved))


def chain(iterables, active):
    return itertools.chain(active, itertools.chain.from_iterable(iterables))


def islice(rest, position, wanted, stop, step):
    return itertools.islice(rest, wanted - position, None if stop is None else stop - position, step)


def takewhile(predicate, rest, done):
    return itertools.takewhile(predicate, () if done else rest)


def dropwhile(predicate, rest, started):
    return itertools.dropwhile((lambda item: False) if started else predicate, rest)


def accumulate(rest, function, total, started):
    if started and total is None:  # as `initial` it would mean that there is none
        return skip(itertools.accumulate(itertools.chain((None,), rest), function), 1)
    return skip(itertools.accumulate(rest, function, initial=total), int(started))


def pairwise(rest, previous):
    return itertools.pairwise(rest if previous is Missing else itertools.chain([previous], rest))


def batched(rest, size, strict):
    return itertools.batched(rest, size, **({"strict": True} if strict else {}))


def zip_longest(iterators, fill):
    return itertools.zip_longest(*(() if iterator is None else iterator for iterator in iterators), fillvalue=fill)


def groupby(rest, key, item, item_key, group_key):
    """`item` is Missing where it has been given: a group of the original gives it."""
    made = itertools.groupby(rest, key)
    if item_key is Missing:
        return made
    if item is not Missing:
        return in_state(made, (item_key, item, group_key))
    in_state(made, (group_key, None, group_key))
    next(itertools._grouper(made, group_key))
    return made


def group(groups, key, ended):
    return itertools._grouper(itertools.groupby(()) if ended else groups, key)


def tee_source(rest, seen):
    """A tee of all elements, those that were seen first."""
    (made,) = itertools.tee(itertools.chain(seen, rest), 1)
    skip(made.__copy__(), len(seen))
    return made


def tee(shared, index):
    return skip(shared.__copy__(), index)


def compared_by(compare, obj, has_obj):
    made = functools.cmp_to_key(compare)
    return made(obj) if has_obj else made


class Original:
    """cls: the class written in C; again: the function above, whose parameters name the attributes that it needs.

    Where it is the class itself, `state` names the attributes that it takes.
    """

    def __init__(self, cls, again, state=None):
        self.cls, self.again = cls, again
        self.state = state.split() if state else again.__code__.co_varnames[: again.__code__.co_argcount]


def made_alike(cls, state):
    return Original(cls, cls, state)


NAMES = "repeat cycle chain islice takewhile dropwhile accumulate pairwise batched zip_longest groupby"
ORIGINALS = {
    **{
        getattr(iterators, name): Original(getattr(itertools, name), globals()[name])
        for name in NAMES.split()
        if hasattr(itertools, name)
    },
    iterators.count: made_alike(itertools.count, "value step"),
    iterators.filterfalse: made_alike(itertools.filterfalse, "predicate rest"),
    iterators.compress: made_alike(itertools.compress, "data selectors"),
    iterators.starmap: made_alike(itertools.starmap, "function rest"),
    iterators._Group: Original(itertools._grouper, group),
    iterators._Shared: Original(itertools._tee, tee_source),
    iterators._Tee: Original(itertools._tee, tee),
    caches.lru_cache_wrapper: made_alike(functools._lru_cache_wrapper, "user_function maxsize typed cache_info_class"),
    caches.ComparedBy: Original(type(functools.cmp_to_key(None)), compared_by),
}
