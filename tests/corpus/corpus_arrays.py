"""Examples: NumPy beside tensors, strings of dimensions, subclasses and modes, contexts, iterators, dataclasses."""

import collections
import contextlib
import dataclasses
import functools
import itertools
import operator
import string
import types

import numpy as np
import torch
from corpus import example
from torch import Tensor
from torch.overrides import TorchFunctionMode


@example("numpy")
def np_sincos(x):
    pos = np.arange(4)[:, None]
    i = np.arange(3)[None]
    angle = pos / np.power(10000, 2 * (i // 2) / 3)
    angle[:, 0::2] = np.sin(angle[:, 0::2])
    angle[:, 1::2] = np.cos(angle[:, 1::2])
    return x + torch.from_numpy(angle).float()


@example("numpy")
def np_grid(x):
    gh, gw = np.meshgrid(np.arange(2, dtype=np.float32), np.arange(3, dtype=np.float32))
    grid = np.stack([gw, gh], axis=0).reshape([2, 1, 2, 3])
    return torch.tensor(grid).sum() + x


def parse(pattern):
    left, right = [s.strip() for s in pattern.split("->")]
    return (left.split(), right.split())


@functools.lru_cache(256)
def recipe(pattern, shape):
    l, r = parse(pattern)
    return (tuple((l.index(a) for a in r)), {a: s for a, s in zip(l, shape)})


@example("einops")
def my_rearrange(x):
    perm, sizes = recipe("b h c -> h c b", tuple(x[None].shape))
    return (x[None].permute(perm), sizes["c"])


@example("einops")
def einsum_names(x):
    letters = iter(string.ascii_lowercase)
    names = collections.defaultdict(lambda: next(letters))
    eq = (
        ",".join(("".join((names[n] for n in t.split())) for t in ("batch in", "out in")))
        + "->"
        + "".join((names[n] for n in "batch out".split()))
    )
    return torch.einsum(eq, x, x)


class Logged(Tensor):
    calls = []

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        cls.calls.append(getattr(func, "__name__", "?"))
        return super().__torch_function__(func, types, args, kwargs or {})


@example("subclass")
def logged_subclass(x):
    del Logged.calls[:]
    y = x.as_subclass(Logged)
    z = (y + 1).relu()
    return (z.as_subclass(Tensor), list(Logged.calls))


class Wrap:
    def __init__(self, t, name):
        self.t, self.name = (t, name)

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        args = [a.t if isinstance(a, Wrap) else a for a in args]
        return Wrap(func(*args, **kwargs or {}), func.__name__)


@example("subclass")
def wrapped_duck(x):
    w = torch.add(Wrap(x, "in"), 1)
    return (torch.mul(w, w).t, w.name)


class Scale(TorchFunctionMode):
    def __torch_function__(self, func, types, args=(), kwargs=None):
        out = func(*args, **kwargs or {})
        return out * 2 if func is torch.sin else out


@example("modes")
def mode_scale(x):
    with Scale():
        y = torch.sin(x) + torch.cos(x)
    return y + torch.sin(x)


@contextlib.contextmanager
def patched(obj, **kw):
    old = {k: getattr(obj, k) for k in kw}
    for k, v in kw.items():
        setattr(obj, k, v)
    try:
        yield obj
    finally:
        for k, v in old.items():
            setattr(obj, k, v)


@example("contextlib")
def patched_attr(x):
    ns = types.SimpleNamespace(scale=1.0, shift=0)
    with patched(ns, scale=3.0) as n, contextlib.suppress(KeyError):
        x = x * n.scale
        {}["a"]
    return x * ns.scale


@example("contextlib")
def null_or_autocast(x):
    ctx = torch.autocast("cpu", dtype=torch.bfloat16) if x.dim() == 2 else contextlib.nullcontext()
    with ctx, contextlib.closing(types.SimpleNamespace(close=lambda: None)):
        y = x @ x.T
    return (y, torch.is_autocast_enabled("cpu"))


@example("itertools")
def windows(x):
    return (
        sum(((a * b).sum() for a, b in itertools.pairwise(x))),
        list(itertools.accumulate([1, 2, 3], operator.mul)),
        [list(g) for _, g in itertools.groupby("aab")],
        list(itertools.combinations(range(3), 2)),
    )


@example("itertools")
def batched_rows(x):
    it = iter(x)
    chunks = list(iter(lambda: tuple(itertools.islice(it, 2)), ()))
    return (
        [torch.stack(c) for c in chunks],
        list(itertools.zip_longest([1], [2, 3], fillvalue=0)),
        list(itertools.starmap(pow, [(2, 3)])),
        list(itertools.compress("abc", [1, 0, 1])),
    )


@dataclasses.dataclass(frozen=True, order=True, slots=True)
class Box:
    lo: float
    hi: float = 1.0
    tags: tuple = dataclasses.field(default=(), compare=False)

    def scaled(self, k):
        return dataclasses.replace(self, hi=self.hi * k)


@dataclasses.dataclass(kw_only=True)
class Config:
    dim: int = 3
    layers: list = dataclasses.field(default_factory=lambda: [1, 2])
    extra: dataclasses.InitVar[int] = 2
    total: int = dataclasses.field(init=False, repr=False)

    def __post_init__(self, extra):
        self.total = self.dim * extra


@example("dataclasses")
def data_classes(x):
    b = Box(0.5).scaled(3)
    c = Config(dim=2)
    d = dataclasses.asdict(c)
    fields = [f.name for f in dataclasses.fields(c)]
    try:
        b.lo = 3
    except dataclasses.FrozenInstanceError as e:
        msg = str(e)
    return (
        x * b.hi + c.total,
        d,
        fields,
        msg,
        Box(1) < Box(2),
        hash(b) == hash(Box(0.5, 3.0)),
        dataclasses.is_dataclass(c),
        repr(b),
        dataclasses.astuple(b),
    )


@example("numpy")
def np_ints(x):
    i = np.arange(1, 4)
    a = (
        i / 2,
        2 / i,
        i / i,
        np.sqrt(i),
        np.exp(i),
        np.sin(i),
        np.log(i),
        np.arctan2(i, i),
        np.true_divide(i, 3),
        np.power(i, 2),
        np.power(i, 0.5),
        i**0.5,
    )
    return [torch.from_numpy(v) for v in a]


@example("numpy")
def np_small(x):
    i = np.array([1, 2, 3], dtype=np.int8)
    b = i > 1
    a = (i / 2, np.sqrt(i), i / i, np.exp(b), i / b, np.sqrt(np.int16(4)), b / 3, i / np.float32(2), i / np.int64(2))
    return [torch.as_tensor(v) for v in a]


@example("numpy", torch.arange(6).reshape(2, 3))
def np_from_tensor(t):
    i = t.numpy()
    return (
        torch.from_numpy(i / 2),
        torch.from_numpy(np.sqrt(i)),
        torch.from_numpy(np.floor(i / 2)),
        torch.from_numpy(np.ceil(i)),
    )
