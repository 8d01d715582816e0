"""What random programs use: classes with every kind of special method, helpers, functions that break graphs."""

# ruff: noqa: F401 (imported for the programs)

import bisect
import collections
import contextlib
import contextvars
import copy
import dataclasses
import enum
import functools
import heapq
import inspect
import itertools
import math
import operator
import re
import types
import warnings
import weakref

import torch
import torch.utils.checkpoint

import minicompile

from . import classes, corners, library
from .classes import *  # noqa: F403 (for the programs)
from .corners import *  # noqa: F403
from .library import *  # noqa: F403

__all__ = (
    "bisect collections contextlib contextvars copy dataclasses enum functools heapq inspect itertools math operator "
    "re types warnings weakref torch minicompile pause swallow untraced Pair Record Color Box Loud Guarded Manager "
    "Net Failure SubFailure traced scaled countdown relay given twice total_of doubled hooked match_of"
).split() + [*classes.__all__, *corners.__all__, *library.__all__]

Pair = collections.namedtuple("Pair", "left right")


class Failure(Exception):
    def __init__(self, number=0, *rest):
        super().__init__(number, *rest)
        self.number = number


class SubFailure(Failure, LookupError):
    """Caught as two kinds."""


class Color(enum.Enum):
    RED = 1
    BLUE = 2

    def next(self):
        return Color.BLUE if self is Color.RED else Color.RED


@dataclasses.dataclass(order=True)
class Record:
    size: int
    items: list = dataclasses.field(default_factory=list)

    def grow(self, by=1):
        self.size += by
        return self


class Box:
    """Operators with their reflected and in-place forms, items, a property, a call, comparison."""

    shared = 3

    def __init__(self, v=0):
        self.v = v
        self.items = [v]

    def __add__(self, other):
        if isinstance(other, Box):
            return type(self)(self.v + other.v)
        return type(self)(self.v + other) if isinstance(other, int) else NotImplemented

    def __radd__(self, other):
        return type(self)(self.v - 1)

    def __iadd__(self, other):
        self.items.append(other)
        return self

    def __neg__(self):
        return type(self)(-self.v)

    def __mul__(self, other):
        return other * (self.v + 1)

    __rmul__ = __mul__

    def __getitem__(self, key):
        if isinstance(key, slice):
            return self.items[key]
        return self.items[key] if isinstance(key, int) else getattr(self, key)

    def __setitem__(self, key, value):
        self.items[key] = value

    def __delitem__(self, key):
        del self.items[key]

    def __len__(self):
        return len(self.items)

    def __contains__(self, item):
        return item in self.items

    def __iter__(self):
        yield from self.items

    def __eq__(self, other):
        return isinstance(other, Box) and self.v == other.v

    def __hash__(self):
        return hash(self.v)

    def __lt__(self, other):
        return self.v < other.v

    def __bool__(self):
        return self.v != 0

    def __call__(self, p, by=1):
        return (p + self.v * by) % 9

    @property
    def double(self):
        return self.v * 2

    @double.setter
    def double(self, value):
        self.v = value // 2

    @classmethod
    def make(cls, v):
        return cls(v)

    @staticmethod
    def clip(v):
        return max(-3, min(v, 3))

    def scale(self, x):
        return x * self.v


class Loud(Box):
    """Overrides with super(), makes up attributes, keeps a count in the class."""

    __slots__ = ("slot",)

    def __init__(self, v=0):
        super().__init__(v + 1)
        self.slot = v

    def __getattr__(self, name):
        if name.startswith("made_"):
            return len(name)
        raise AttributeError(name)

    def __setattr__(self, name, value):
        super().__setattr__(name, value + 1 if name == "v" and isinstance(value, int) else value)

    def __add__(self, other):
        return super().__add__(other)

    def __len__(self):
        return super().__len__() + 1

    def scale(self, x):
        return super().scale(x) + 1


class Guarded:
    """A descriptor that checks."""

    def __init__(self):
        self._limit = 2

    @property
    def limit(self):
        return self._limit

    @limit.setter
    def limit(self, value):
        if value > 3:
            raise ValueError(f"limit {value}")
        self._limit = value


class Manager:
    """`swallows`: the exception classes that leave the block silently."""

    def __init__(self, log, swallows=()):
        self.log, self.swallows = log, swallows

    def __enter__(self):
        self.log.append("enter")
        return self

    def __exit__(self, kind, error, traceback):
        self.log.append("exit" if kind is None else kind.__name__)
        return kind is not None and issubclass(kind, self.swallows)


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.calls, self.scale = 0, 2.0
        self.register_buffer("seen", torch.zeros(()))
        self.weight = torch.nn.Parameter(torch.tensor(0.5))
        self.parts = torch.nn.ModuleList([torch.nn.Tanh(), torch.nn.Sequential(torch.nn.ReLU(), torch.nn.Dropout(0.5))])

    def deep(self, x):
        for index, part in enumerate(self.parts):
            x = part(x) * (index + self.weight)
        return x

    def forward(self, x):
        self.calls += 1
        self.seen.add_(1)
        return torch.relu(x * self.scale) + self.weight.detach()


@minicompile.disable
def pause(value=None):
    """Breaks the graph; hands back what it got."""
    return value


@minicompile.disable
def swallow(items):
    """Breaks the graph, and changes what it got."""
    items.append(len(items))
    return items


@minicompile.disable
def untraced(x):
    """Breaks the graph around an operation."""
    return x + 1


class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        return grad * 2 + ctx.saved_tensors[0] * 0


doubled = Doubled.apply


def hooked(module, x):
    """A call with a hook that is removed again."""
    handle = module.register_forward_hook(lambda m, args, out: out + m.scale)
    try:
        return module(x)
    finally:
        handle.remove()


def relay(items):
    """A generator that delegates, and hands on what the inner one returns."""
    got = yield from items
    yield "relayed"
    return got


def match_of(subject):
    """Every kind of pattern."""
    match subject:
        case Point(value=0) | Heat(value=1):  # noqa: F405 (and so on)
            return "value"
        case [] | {}:
            return "empty"
        case [1, *rest] | [_, _, *rest]:
            return rest
        case {"k1": value, **rest}:
            return value, rest
        case Place(0 | 1, name=name) | Pair(int(), name):  # noqa: F405
            return name
        case Frozen(value, ()) if value:  # noqa: F405
            return value
        case Color.RED | Level.HIGH:  # noqa: F405
            return "member"
        case True | None | 2.5:
            return "constant"
        case int(value) | float(value) | str(value) | complex(real=value):
            return value
        case (Failure() | Box()) as found:
            return type(found).__name__
        case object(value=value):
            return value
    return "other"


@contextlib.contextmanager
def given(log, value):
    log.append("given")
    try:
        yield value
    except ArithmeticError:
        log.append("arithmetic")
    finally:
        log.append("taken")


def traced(function):
    """A decorator."""

    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        result = function(*args, **kwargs)
        return result + 1 if isinstance(result, int) else result

    return wrapper


def scaled(by=1, /, *, offset=0):
    """A decorator with arguments."""
    return lambda function: lambda *args, **kwargs: function(*args, **kwargs) * by + offset


def countdown(n):
    """A generator that can be sent to and thrown into."""
    try:
        while n > 0:
            got = yield n
            n = n - 1 if got is None else got % 4
    except ValueError as error:
        yield str(error)
    finally:
        n = 0
    return "done"


def twice(p):
    return p + p


def total_of(*args, **kwargs):
    return (sum(args) + len(kwargs)) % 9
