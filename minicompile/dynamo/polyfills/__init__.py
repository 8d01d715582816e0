"""Functions and iterators of the standard library that are written in C, written here in Python.

Goes in and comes out: what the originals take and give.  The translator inlines these in place of the originals (the
table is in `variables/builtins.py`), so an algorithm needs no tracker of its own: iterators keep their state in
attributes, so a graph break in the middle of a loop leaves a working iterator behind.
Mirrors `torch/_dynamo/polyfills/`.  Taught in chapter 06.
"""

import operator
import sys
import types

from .iterators import Missing
from .text import match_no_class, type_name


# --- builtins, functools and math ---------------------------------------------------------------------------------
def measure(value):
    """What `list(value)` asks before it takes the elements; the answer is only a hint."""
    try:
        return len(value)
    except TypeError:
        pass
    try:
        method = type(value).__length_hint__
    except AttributeError:
        return None
    try:
        hint = method(value)
    except TypeError:
        return None
    if hint is NotImplemented:
        return None
    if not isinstance(hint, int):
        raise TypeError(f"__length_hint__ must be an integer, not {type_name(type(hint))}")
    if not -sys.maxsize - 1 <= hint <= sys.maxsize:
        raise OverflowError("Python int too large to convert to C ssize_t")
    if hint < 0:
        raise ValueError("__length_hint__() should return >= 0")
    return hint


def reduce(function, iterable, initial=Missing, /):
    iterator = _iterator_or_none(iterable)
    if iterator is None:
        raise TypeError("reduce() arg 2 must support iteration")
    if initial is Missing:
        for initial in iterator:  # noqa: B007 (the first element is the start)
            break
        else:
            raise TypeError("reduce() of empty iterable with no initial value")
    for item in iterator:
        initial = function(initial, item)
    return initial


def _iterator_or_none(iterable):
    try:
        return iter(iterable)
    except TypeError:
        return None


def prod(iterable, /, *, start=1):
    for item in iterable:
        start = start * item
    return start


def identity(value, /):
    return value


# --- operator -------------------------------------------------------------------------------------------
def itemgetter(item, /, *items):
    if not items:
        return lambda obj: obj[item]
    return lambda obj: tuple([obj[i] for i in (item, *items)])


def attrgetter(name, /, *names):
    if not all(isinstance(each, str) for each in (name, *names)):
        raise TypeError("attribute name must be a string")
    if not names:
        return lambda obj: _attribute(obj, name)
    return lambda obj: tuple([_attribute(obj, n) for n in (name, *names)])


def _attribute(obj, dotted):
    for name in dotted.split("."):
        obj = getattr(obj, name)
    return obj


def methodcaller(name, /, *args, **kwargs):
    if not isinstance(name, str):
        raise TypeError("method name must be a string")
    return lambda obj: getattr(obj, name)(*args, **kwargs)


def searched(iterable):
    """The iterator of what is searched; whatever TypeError there is instead, C code says another."""
    try:
        return iter(iterable)
    except TypeError:
        pass
    raise TypeError(f"argument of type '{type_name(type(iterable))}' is not iterable")


def countOf(iterable, wanted):
    count = 0
    for item in searched(iterable):
        if item is wanted or item == wanted:
            count += 1
    return count


def indexOf(iterable, wanted):
    for index, item in enumerate(searched(iterable)):
        if item is wanted or item == wanted:
            return index
    raise ValueError("sequence.index(x): x not in sequence")


def length_hint(obj, default=0, /):
    hint = measure(obj)
    return operator.index(default) if hint is None else hint


# --- collections ----------------------------------------------------------------------------------------
def fromkeys(cls, iterable, value=None):
    result = cls()
    for key in iterable:
        result[key] = value
    return result


def count_elements(mapping, iterable):
    """`collections.Counter.update` on an iterable."""
    for item in iterable:
        mapping[item] = mapping.get(item, 0) + 1


# --- match statements -----------------------------------------------------------------------------------
def match_keys(subject, keys):
    """The values of all keys as a tuple, or None where one is missing."""
    found = []
    for place, key in enumerate(keys):
        if key in keys[:place]:
            raise ValueError(f"mapping pattern checks duplicate key ({key!r})")
        value = subject.get(key, Missing)
        if value is Missing:
            return None
        found.append(value)
    return tuple(found)


MATCHED_AS_A_WHOLE = (bool, bytearray, bytes, dict, float, frozenset, int, list, set, str, tuple)


def match_class(subject, cls, count, names):
    """The attributes that a class pattern with `count` positional parts and these keywords asks for, or None."""
    if not isinstance(cls, type):
        match_no_class(None)
    if not isinstance(subject, cls):
        return None
    found = []
    if count:
        positional = getattr(cls, "__match_args__", Missing)
        if positional is Missing and issubclass(cls, MATCHED_AS_A_WHOLE):
            found.append(subject)
            allowed = 1
        else:
            positional = () if positional is Missing else positional
            if type(positional) is not tuple:
                raise TypeError(f"{type_name(cls)}.__match_args__ must be a tuple (got {type_name(type(positional))})")
            allowed = len(positional)
            names = (*positional[:count], *names)
        if count > allowed:
            text = f"{type_name(cls)}() accepts {allowed} positional sub-pattern{'s' * (allowed != 1)} ({count} given)"
            raise TypeError(text)
    for place, name in enumerate(names):
        if type(name) is not str:
            raise TypeError(f"__match_args__ elements must be strings (got {type_name(type(name))})")
        if name in names[:place]:
            raise TypeError(f"{type_name(cls)}() got multiple sub-patterns for attribute {name!r}")
        try:
            found.append(getattr(subject, name))
        except AttributeError:
            return None
    return tuple(found)


# --- types.SimpleNamespace ------------------------------------------------------------------------------
def attributes_of(self):
    """Past a `__getattribute__` of a subclass."""
    return object.__getattribute__(self, "__dict__")


def namespace_init(self, /, *values, **more):
    if values and sys.version_info < (3, 13):
        raise TypeError("no positional arguments expected")
    if len(values) > 1:
        raise TypeError(f"{type(self).__name__} expected at most 1 argument, got {len(values)}")
    for mapping in map(dict, values):
        if not all(isinstance(key, str) for key in mapping):
            raise TypeError("keywords must be strings")
        attributes_of(self).update(mapping)
    attributes_of(self).update(more)


def namespace_eq(self, other, /):
    if not issubclass(type(other), types.SimpleNamespace):
        return NotImplemented
    return attributes_of(self) == attributes_of(other)


def namespace_repr(self, /):
    name = "namespace" if type(self) is types.SimpleNamespace else type(self).__name__
    return f"{name}({', '.join(f'{key}={value!r}' for key, value in attributes_of(self).items())})"
