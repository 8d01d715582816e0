"""Existing functions with an lru_cache: called as often, in the same order, and with the same answers, as in eager.

Goes in: such a function, and arguments that are constants or objects known by identity.  Comes out: what its cache has
for them, as an existing value; a guard reads it without a call, which would be counted (`cache_info`).  The new code
makes each call, in the order of the program.
What the cache has not yet, only the function can tell.  Where nobody can see when it runs (`unseen_calls.py`), capture
runs it, and the new code's call makes the cache take down this answer; else the graph breaks before the call, until
the cache has the answer.
PyTorch has no such file: torch.compile traces the function below the cache.  Taught in chapter 06.
"""

import functools
import gc
import sys
import types

from .. import _eval_frame
from ..builder import guarded, wraps
from ..source import CallSource, ConstantSource
from ..unseen_calls import answer_for, why_seen
from .base import ValueVariable, as_observed, unsupported
from .constant import NONE
from .elements import SPELLED
from .functions import BoundMethodVariable

PURE = {"torch", *sys.stdlib_module_names}  # packages whose cached functions give the same answer at any time


def is_pure(function):
    return type(function) is types.FunctionType and (function.__module__ or "").partition(".")[0] in PURE


class CachedFunctionVariable(ValueVariable):
    """A function under `functools.lru_cache`."""

    def call_function(self, tx, args, kwargs):
        values, named = [self.known(tx, a) for a in args], {k: self.known(tx, v) for k, v in kwargs.items()}
        plain = all(argument.is_python_constant() for argument in (*args, *kwargs.values()))
        if plain and is_pure(getattr(self.value, "__wrapped__", None)):
            return tx.fold_python(self.value, values, named)
        if tx.output.is_trial:
            unsupported("cached function", f"{self.value.__qualname__} counts its calls")
        call = self.cached_call(tx, values, named)
        source = ConstantSource(call, repr(call))
        if not call.is_known() and (why := call.why_not_run(tx.output)) is not None:
            tx.guard("is", CallSource(source, CachedCall.is_answered), False)
            unsupported("cached function", f"{call} is to run when its turn comes: {why}")
        tx.guard("is", CallSource(source, CachedCall.is_known), True)
        tx.output.cached_calls.append(call)
        return tx.output.lazy(call.answer(), CallSource(source, CachedCall.answer))

    def cached_call(self, tx, values, named):
        with as_observed(tx):
            call = CachedCall(self.value, tuple(values), named)
        same = (c for c in tx.output.cached_calls if (c.function, c.key, c.types) == (self.value, call.key, call.types))
        return next(same, call)

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


def short_text(value):
    """For reports: without addresses."""
    return repr(value) if type(value) in SPELLED else f"<{type(value).__name__}>"


class CachedCall:
    """function(*args, **named), and the key of its answer in the cache."""

    def __init__(self, function, args, named):
        self.function, self.args, self.named = function, args, named
        self.wrapped = getattr(function, "__wrapped__", None)
        self.key, self.cache = key_in_cache(function, args, named), cache_of(function)
        self.types = tuple(map(type, (*args, *named.values())))
        self.made = []  # the answer, if the cache has it not yet

    def is_answered(self):
        return self.key in self.cache

    def is_known(self):
        """Also while the compiled call goes on of which the capture ran the function."""
        return bool(self.made) or self.is_answered()

    def answer(self):
        if not self.is_answered():
            return self.made[0]
        if self.function.cache_parameters()["maxsize"] is None:
            return self.cache[self.key]
        _, *links = gc.get_referents(self.function)  # behind its class: key, answer and class of each link
        return links[3 * links[::3].index(self.key) + 1]

    def why_not_run(self, output):
        """Run the function, for this capture; or say what speaks against it."""
        size = self.function.cache_parameters()["maxsize"]
        new = {id(call) for call in output.cached_calls if call.function is self.function and call.made}
        if size is not None and len(self.cache) + len(new) >= size:
            return f"its cache has room for {size} results"
        if type(self.wrapped) is not types.FunctionType:
            return "it is not written in Python"
        why = why_seen(output, self.wrapped, self.args, self.named)
        if why is None:
            self.made.append(self.wrapped(*self.args, **self.named))
            running = []
            _eval_frame.at_end(lambda: running and self.made.clear())  # at once, where no compiled call goes on
            running.append(self)
        return why

    def take_turn(self):
        """The call itself."""
        if self.made and not self.is_answered():
            answer_for(self.wrapped.__code__, self.made.pop(), self.function, self.args, self.named)
        else:
            self.function(*self.args, **self.named)

    def __repr__(self):
        arguments = [*map(short_text, self.args), *(f"{k}={short_text(value)}" for k, value in self.named.items())]
        return f"{self.function.__qualname__}({', '.join(arguments)})"


wraps(functools._lru_cache_wrapper)(guarded("is", CachedFunctionVariable))
