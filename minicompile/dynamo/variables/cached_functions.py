"""Existing functions with an lru_cache: called as often, and with the same answers, as in eager.

Goes in: such a function, and arguments that are constants or objects known by identity.  Comes out: what its cache has
for them, as an existing value; anything else breaks the graph: the cache is not to be skipped.

A guard reads the answer without a call, which would be counted (`cache_info`); where the cache has none, it makes the
call ahead of its turn.  The new code makes each call that is not made yet, in the order of the program.
PyTorch has no such file: torch.compile traces the function below the cache.  Taught in chapter 06.
"""

import collections
import contextlib
import functools
import gc
import sys
import types
import weakref

from ..builder import guarded, wraps
from ..source import CallSource, ConstantSource
from .base import ValueVariable, as_observed, unsupported
from .constant import NONE
from .elements import SPELLED
from .functions import BoundMethodVariable

PURE = {"torch", *sys.stdlib_module_names}  # packages whose cached functions give the same answer at any time


class CachedFunctionVariable(ValueVariable):
    """A function under `functools.lru_cache`."""

    def call_function(self, tx, args, kwargs):
        values, named = [self.known(tx, a) for a in args], {k: self.known(tx, v) for k, v in kwargs.items()}
        wrapped = getattr(self.value, "__wrapped__", None)
        objects = [argument for argument in (*args, *kwargs.values()) if not argument.is_python_constant()]
        changed = has_changed_something(tx.output)
        if changed and (sees_program(tx, wrapped) or sees_changes(tx.output, [o.realize().value for o in objects])):
            unsupported("cached function", f"{self.value.__qualname__} can see what the program works on")
        if (
            not objects
            and isinstance(wrapped, types.FunctionType)
            and (wrapped.__module__ or "").partition(".")[0] in PURE
        ):
            return tx.fold_python(self.value, values, named)
        call = self.cached_call(tx, values, named)
        try:
            result = call.answer()
        except Exception as error:  # of which a cache keeps nothing
            unsupported("cached function", f"{self.value.__qualname__} raises {type(error).__name__}")
        tx.output.cached_calls.append(call)
        return tx.output.lazy(result, CallSource(ConstantSource(call, repr(call)), CachedCall.answer))

    def cached_call(self, tx, values, named):
        """Each call once.  A cache that forgets what one call of the program has asked gives no lasting answers."""
        with as_observed(tx):
            key = key_in_cache(self.value, values, named)
        size = self.value.cache_parameters()["maxsize"]
        calls = [call for call in tx.output.cached_calls if call.function is self.value]
        known = next((call for call in calls if call.key == key and call.types == types_of(values, named)), None)
        if size is not None and len({id(call) for call in calls}) + (known is None) > size:
            unsupported("cached function", f"{self.value.__qualname__} keeps {size} results only")
        return known or CachedCall(self.value, tuple(values), named, key)

    def call_method(self, tx, name, args, kwargs):
        if name in ("cache_info", "cache_clear"):
            unsupported("cached function", f"`{name}` of {self.value.__qualname__}")
        return super().call_method(tx, name, args, kwargs)

    def known(self, tx, argument):
        """The Python value of a constant argument, or of an object that is equal only to itself."""
        argument = argument.realize()
        if argument.is_python_constant():
            return argument.as_python_constant()
        value, name = getattr(argument, "value", None), self.value.__qualname__
        cls = type(value)
        by_identity = cls.__hash__ is object.__hash__ and cls.__eq__ is object.__eq__
        if argument.source is None or value is None or not by_identity:
            unsupported("cached function", f"{name} keeps a cache, and its arguments are not all constants")
        tx.guard("is", argument.source, value)
        return value

    def method___get__(self, tx, instance, owner=NONE):
        return BoundMethodVariable(self, instance)


def has_changed_something(output):
    """Whether eager has done something up to here that is yet to be done."""
    effects = output.side_effects
    return bool(effects.order or effects.globals or output.changed_inputs())


def sees_changes(output, objects):
    """Whether anything that these objects lead to is changed by the program up to here."""
    effects = output.side_effects
    changed = {id(value) for value, tracker in output.variables_by_id.values() if tracker in effects.order}
    changed |= {id(graph_input.value) for graph_input in output.changed_inputs()}
    found = reachable(objects)
    return found is None or not changed.isdisjoint(found)


def reachable(objects, limit=10_000):
    """The ids of all that objects lead to, but for modules, classes and globals; None where there is too much."""
    found, todo = set(), list(objects)
    while todo:
        value = todo.pop()
        if id(value) in found or issubclass(type(value), (types.ModuleType, type)):
            continue
        if len(found) == limit:
            return None
        found.add(id(value))
        is_function = issubclass(type(value), types.FunctionType)
        todo += (value.__closure__ or ()) if is_function else gc.get_referents(value)
    return found


def sees_program(tx, function):
    return any(tx.output.known(value) is not None for value in shared_state(function))


def shared_state(function):
    """The objects that a function can reach by name: what it closes over, and its globals that may change."""
    code = getattr(function, "__code__", None)
    for cell in getattr(function, "__closure__", None) or ():
        yield cell
        with contextlib.suppress(ValueError):  # an empty one
            yield cell.cell_contents
    for name in code.co_names if code is not None else ():
        value = function.__globals__.get(name)
        if not issubclass(type(value), (types.ModuleType, types.FunctionType, type)):
            yield value


# --- the cache ------------------------------------------------------------------------------------------
def cache_of(function):
    """The dict in which it looks up its answers: the last one that it refers to, but for its own `__dict__`."""
    return [r for r in gc.get_referents(function) if type(r) is dict and r is not vars(function)][-1]


def key_in_cache(function, values, named):
    """What the function makes of its arguments."""
    typed = function.cache_parameters()["typed"]
    probe = functools.lru_cache(maxsize=None, typed=typed)(lambda *args, **kwargs: None)
    probe(*values, **named)
    return next(iter(cache_of(probe)))


def types_of(values, named):
    return tuple(map(type, (*values, *named.values())))


calls_ahead = weakref.WeakKeyDictionary()  # function -> Counter of the keys for which it was called ahead


def short_text(value):
    """For reports: without addresses."""
    return repr(value) if type(value) in SPELLED else f"<{type(value).__name__}>"


class CachedCall:
    """function(*args, **named), and the key of its answer in the cache."""

    def __init__(self, function, args, named, key):
        self.function, self.args, self.named, self.key = function, args, named, key
        self.cache, self.types = cache_of(function), types_of(args, named)
        self.is_bounded = function.cache_parameters()["maxsize"] is not None

    def answer(self):
        """What the cache has.  Where that is nothing, the function is called, ahead of its turn."""
        if self.key in self.cache:
            if not self.is_bounded:
                return self.cache[self.key]
            _, *links = gc.get_referents(self.function)  # behind its class: key, answer and class of each link
            return links[3 * links[::3].index(self.key) + 1]
        result = self.function(*self.args, **self.named)
        calls_ahead.setdefault(self.function, collections.Counter())[self.key] += 1
        return result

    def take_turn(self):
        ahead = calls_ahead.get(self.function, ())
        if self.key not in ahead:
            return self.function(*self.args, **self.named)
        ahead[self.key] -= 1
        if not ahead[self.key]:
            del ahead[self.key]

    def __repr__(self):
        arguments = [*map(short_text, self.args), *(f"{k}={short_text(value)}" for k, value in self.named.items())]
        return f"{self.function.__qualname__}({', '.join(arguments)})"


wraps(functools._lru_cache_wrapper)(guarded("is", CachedFunctionVariable))
