"""functools during capture: partial objects and functions with an lru_cache.

Goes in: `functools.partial(...)` made by the program or existing; existing cached functions.
Comes out: the call of the wrapped function.  A cached function is really called where its arguments are constants (its
cache then answers, as in eager), and a guard asks it each time; anything else breaks: the cache is not to be skipped.
Mirrors `torch/_dynamo/variables/functions.py` (FunctoolsPartialVariable).  Taught in chapter 06.
"""

import contextlib
import functools
import logging
import sys
import types

from ..builder import guarded, wraps
from ..source import AttrSource, CallSource, ConstantSource
from .base import ValueVariable, VariableTracker, unsupported
from .builtins import HANDLERS
from .constant import NONE
from .functions import BoundMethodVariable
from .tuples import TupleVariable


class PartialVariable(VariableTracker):
    """`function`, `args` (a list) and `keywords` (a dict by name) are trackers.

    seen: the dict of keywords, of one that exists, or that the program has asked for it.
    """

    cls = functools.partial
    has_identity = True
    had_attributes = False

    def __init__(self, function, args, keywords, seen=None, source=None):
        super().__init__(source)
        self.function, self.args, self.keywords, self.seen = function, args, keywords, seen

    def has_attributes(self, tx):
        """Whether somebody has given it some: `partialmethod` does."""
        return bool(tx.side_effects.pending_attributes(self)) or self.had_attributes

    def dict_of_keywords(self, tx):
        if self.seen is None:
            self.seen = tx.build_dict(self.keywords)
        return self.seen

    def keywords_now(self, tx):
        if self.seen is None:
            return self.keywords
        return {key.as_python_constant(): value for key, value in self.seen.look(tx).values()}

    def call_function(self, tx, args, kwargs):
        return self.function.realize().call_function(tx, [*self.args, *args], {**self.keywords_now(tx), **kwargs})

    def var_getattr(self, tx, name):
        parts = {
            "func": lambda: self.function,
            "args": lambda: TupleVariable(self.args),
            "keywords": lambda: self.dict_of_keywords(tx),
        }
        if name in parts:
            return parts[name]()
        pending = tx.side_effects.load_attr(self, name)
        if pending is not None and pending is not tx.side_effects.DELETED:
            return pending
        if name == "__class__":
            return tx.build(functools.partial)
        if hasattr(functools.partial, name):
            unsupported("attribute written in C", f"`{name}` of {self}")
        tx.raise_observed(AttributeError, f"'functools.partial' object has no attribute '{name}'")

    def var_setattr(self, tx, name, value):
        if self.source is None:
            tx.side_effects.new_object(self)
        tx.side_effects.store_attr(self, name, value)

    def children(self):
        keywords = self.keywords.values() if self.seen is None else [self.seen]
        return [self.function, *self.args, *keywords]

    def reconstruct(self, codegen):
        if isinstance(self.function.realize(), PartialVariable):  # it gets later what keeps it from being flattened
            self.seen = self.dict_of_keywords(codegen.output.current_translator)
        if self.seen is not None:
            return codegen.call_object(lambda: codegen.push_function(partial_with), self.children())
        codegen.push_function(functools.partial)
        for part in self.children():
            codegen(part)
        codegen.call_function(len(self.children()), tuple(self.keywords))


def make_partial(tx, function, /, *args, **kwargs):
    function = function.realize()
    if not tx.truth(tx.call(callable, function)):
        tx.raise_observed(TypeError, "the first argument must be callable")
    if isinstance(function, PartialVariable) and not function.has_attributes(tx):  # CPython flattens too
        return PartialVariable(function.function, [*function.args, *args], {**function.keywords_now(tx), **kwargs})
    return PartialVariable(function, list(args), kwargs)


HANDLERS[functools.partial] = make_partial


@wraps(functools.partial)
def wrap_partial(output, value, source):
    output.guard("type", source, functools.partial)

    def part(name):
        return output.wrap(getattr(value, name), source and AttrSource(source, name)).realize()

    made = PartialVariable(part("func"), list(part("args").items), {}, part("keywords"), source)
    made.had_attributes = bool(vars(value))
    return made


def partial_with(function, *args):
    """A partial object whose dict of keywords is the last argument itself."""
    *args, keywords = args
    made = functools.partial(callable)
    made.__setstate__((function, tuple(args), keywords, None))
    return made


PURE = {"torch", *sys.stdlib_module_names}  # packages whose cached functions give the same answer at any time


class CachedFunctionVariable(ValueVariable):
    """A function under `functools.lru_cache`."""

    def call_function(self, tx, args, kwargs):
        for value in shared_state(getattr(self.value, "__wrapped__", None)):
            if tx.output.known(value) is not None:
                unsupported("cached function", f"{self.value.__qualname__} can see what the program works on")
        values, named = [self.known(tx, a) for a in args], {k: self.known(tx, v) for k, v in kwargs.items()}
        if (self.value.__module__ or "").partition(".")[0] in PURE:
            return tx.fold_python(self.value, values, named)
        arguments = tuple(values), tuple(named.items()), self.told_apart(tx, [*values, *named.values()])
        try:
            result = ask_cache(self.value, *arguments)
        except Exception as error:  # of which a cache keeps nothing
            unsupported("cached function", f"{self.value.__qualname__} raises {type(error).__name__}")
        kept = CallSource(ConstantSource(self.value, self.value.__qualname__), ask_cache, arguments)
        return tx.output.lazy(result, kept)  # what the cache has at each call; it may have been cleared

    def told_apart(self, tx, values):
        """What may get another answer: 1.0 than 1, and what other calls have pushed out of the cache since."""
        size, calls = self.value.cache_parameters()["maxsize"], tx.output.cached_calls[self.value]
        if size == 0:
            unsupported("cached function", f"{self.value.__qualname__} keeps nothing")
        tx.output.cached_calls[self.value] += 1
        return calls // size if size else 0, *(type(value).__qualname__ for value in values)

    def call_method(self, tx, name, args, kwargs):
        if name in ("cache_info", "cache_clear"):
            unsupported("cached function", f"`{name}` of {self.value.__qualname__}")
        return super().call_method(tx, name, args, kwargs)

    def known(self, tx, argument):
        """The Python value of a constant argument, or of a logger (`warning_once(self, message)` warns once)."""
        argument = argument.realize()
        if argument.is_python_constant():
            return argument.as_python_constant()
        if not issubclass(argument.python_type(), logging.Logger):
            name = self.value.__qualname__
            unsupported("cached function", f"{name} keeps a cache, and its arguments are not all constants")
        tx.guard("is", argument.source, argument.value)
        return argument.value

    def method___get__(self, tx, instance, owner=NONE):
        return BoundMethodVariable(self, instance)


def ask_cache(function, args, named, told_apart):
    return function(*args, **dict(named))


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


wraps(functools._lru_cache_wrapper)(guarded("is", CachedFunctionVariable))
