"""Examples: typing, copy, inspect, functools and the text modules of the library, in a model's code."""

import bisect
import copy
import functools
import heapq
import inspect
import operator
import re
import statistics
import string
import textwrap
import types
import typing
from typing import (
    Generic,
    List,
    NamedTuple,
    Optional,
    Protocol,
    TypedDict,
    TypeVar,
    cast,
    get_origin,
    overload,
    runtime_checkable,
)

import torch
from corpus import example
from torch import Tensor, nn

T = TypeVar("T")


class Stack(Generic[T]):
    def __init__(self, items: Optional[List[T]] = None):
        self.items: List[T] = list(items or [])

    def push(self, v: T) -> "Stack[T]":
        self.items.append(v)
        return self

    def pop(self) -> T:
        return self.items.pop()


class NT(NamedTuple):
    a: Tensor
    b: int = 2

    def both(self):
        return self.a * self.b


class TD(TypedDict, total=False):
    k: int


@runtime_checkable
class HasLen(Protocol):
    def __len__(self) -> int: ...


@example("typing")
def typed(x):
    s: Stack[int] = Stack[int]([1]).push(2)
    n = NT(x)
    d: TD = TD(k=3)
    v = cast(Tensor, n.a)
    return (
        n.both() + s.pop() + d["k"],
        get_origin(List[int]) is list,
        isinstance([1], HasLen),
        n._replace(b=5).both(),
        typing.get_args(Optional[int]),
        n._asdict()["b"],
    )


@overload
def ov(x: int) -> int: ...


@overload
def ov(x: Tensor) -> Tensor: ...


def ov(x):
    return x + 1


@example("typing")
def overloaded(x):
    hints = typing.get_type_hints(NT)
    return (ov(x) * ov(1), list(hints))


@example("copy")
def copies(x):
    cfg = {"a": [1, 2], "b": x}
    d = copy.copy(cfg)
    e = copy.deepcopy({"a": [1, [2]], "s": {3}, "t": (4, [5])})
    d["a"].append(3)
    e["t"][1].append(6)
    ns = copy.copy(types.SimpleNamespace(a=1, b=[2]))
    ns.b.append(3)
    return (x + len(cfg["a"]), d, e, ns.b)


class Cfg:
    def __init__(self):
        self.d = 3
        self.sub = types.SimpleNamespace(q=1)

    def to_dict(self):
        return copy.deepcopy(self.__dict__)

    def __copy__(self):
        new = type(self).__new__(type(self))
        new.__dict__.update(self.__dict__)
        new.copied = True
        return new


@example("copy")
def copied_config(x):
    c = Cfg()
    c2 = copy.copy(c)
    c3 = copy.deepcopy(c)
    c3.sub.q = 5
    return (x * c2.d + c.sub.q, c2.copied, sorted(c.to_dict()), hasattr(c3, "copied"))


def takes(a, b=2, *args, c, d=4, **kw):
    return a


@example("inspect")
def bound_args(x):
    sig = inspect.signature(takes)
    names = [p.name for p in sig.parameters.values() if p.default is not inspect.Parameter.empty]
    b = sig.bind(1, c=3)
    b.apply_defaults()
    return (
        x + b.arguments["b"],
        names,
        inspect.isfunction(takes),
        inspect.isclass(nn.Linear),
        list(inspect.getfullargspec(takes).kwonlyargs),
    )


@example("stdlib")
def heaps_bisect(x):
    h = []
    for k in (3, 1, 2):
        heapq.heappush(h, (k, str(k)))
    return (
        x + heapq.heappop(h)[0],
        bisect.bisect_left([1, 3, 5], 4),
        heapq.nlargest(2, [1, 5, 3]),
        statistics.mean([1, 2, 3]),
    )


@example("stdlib")
def strings(x):
    key = "model.layers.0.attn.q_proj.weight"
    m = re.match("model\\.layers\\.(\\d+)\\.(.*)", key)
    new = re.sub("q_proj", "qkv", key)
    return (
        x + int(m.group(1)),
        m.groups(),
        new,
        key.rsplit(".", 1),
        key.split(".")[2].isdigit(),
        f"{3.14159:.2f}|{'a':>3}|{5:03d}",
        "-".join(map(str, range(3))),
        textwrap.shorten("hello world", 8),
        string.Template("$a b").substitute(a=1),
        "%s-%d" % ("a", 3),
    )


@example("functools")
def dispatching(x):

    @functools.singledispatch
    def f(a):
        return "other"

    @f.register
    def _(a: int):
        return "int"

    @f.register(list)
    def _(a):
        return "list"

    return (x + 1, f(1), f([1]), f("s"))


@example("functools")
def composed(x):
    compose = lambda *fs: functools.reduce(lambda f, g: lambda v: g(f(v)), fs)
    return compose(
        torch.relu, functools.partial(torch.mul, other=2), operator.methodcaller("sum", dim=0), operator.itemgetter(0)
    )(x)


@example("misc")
def finfo(x):
    return (
        x.masked_fill(x > 0, torch.finfo(x.dtype).min) + torch.finfo(torch.float16).eps,
        torch.iinfo(torch.int32).max,
        torch.promote_types(torch.float16, torch.int32),
        torch.result_type(x, 1),
        x.dtype.is_floating_point,
        torch.can_cast(torch.float, torch.int),
    )
