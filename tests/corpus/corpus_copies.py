"""Examples: classes made by calls of type(), copies of modules and tensors, `.data` exchanged, dicts as attributes."""

import contextlib
import copy
import functools

import torch
from corpus import example
from torch import nn


@example("classes")
def type_called(x):

    def forward(self, y):
        return y * self.scale

    cls = type("Scaled", (), {"scale": 3.0, "forward": forward})
    return cls().forward(x) + 1


@example("classes")
def type_called_module(x):
    cls = type("Scaled", (nn.Module,), {"scale": 3.0, "forward": lambda self, y: y * self.scale})
    return cls()(x) + 1


class Base:
    def shift(self, x):
        return x + self.amount


@example("classes")
def type_called_base(x):
    cls = type("Derived", (Base,), dict(amount=2))
    return cls().shift(x * 2) + 1


@example("functools")
def wraps_a_class(x):

    @functools.wraps(nn.Linear)
    def make(*args, **kwargs):
        return nn.Linear(*args, **kwargs)

    return x * len(make.__name__) + len(make.__doc__)


def clones(module, n):
    return nn.ModuleList([copy.deepcopy(module) for _ in range(n)])


def deep_copies():
    linear = nn.Linear(3, 3)

    def f(x):
        layers = nn.ModuleList([copy.deepcopy(linear) for _ in range(2)])
        for l in layers:
            x = l(x)
        return x

    return f


example("copy", make=True)(deep_copies)


def deep_copies_seq():
    seq = nn.Sequential(nn.Linear(3, 3), nn.LayerNorm(3), nn.ReLU())

    def f(x):
        layers = clones(seq, 2)
        for l in layers:
            x = l(x)
        return x

    return f


example("copy", make=True)(deep_copies_seq)


def data_swap():
    lin = nn.Linear(3, 3)

    def f(x):
        old = lin.weight.data
        try:
            lin.weight.data = old * 2
            return lin(x)
        finally:
            lin.weight.data = old

    return (f, lin)


example("data", make=True)(data_swap)


def ema_swap():
    lin = nn.Linear(3, 3)
    shadow = lin.weight.detach().clone() * 0.5

    def f(x):
        old = lin.weight.data.clone()
        try:
            lin.weight.data.copy_(shadow)
            return lin(x)
        finally:
            lin.weight.data.copy_(old)

    return (f, lin)


example("data", make=True)(ema_swap)


def data_swap_with_finally():
    lin = nn.Linear(3, 3)

    @contextlib.contextmanager
    def scaled():
        old = lin.weight.data
        lin.weight.data = old * 2
        try:
            yield
        finally:
            lin.weight.data = old

    def f(x):
        with scaled():
            return lin(x)

    return (f, lin)


example("data", make=True)(data_swap_with_finally)


def made_param():
    p = nn.Parameter(torch.randn(3))

    def f(x):
        q = nn.Parameter(p.data.clone(), p.requires_grad)
        return (x * q, q)

    return f


example("copy", make=True)(made_param)


@example("x")
def deepcopy_tensor(x):
    y = copy.deepcopy(x)
    y += 1
    return x * y


@example("x")
def deepcopy_list(x):
    y = copy.deepcopy([x, x, {"a": x}])
    y[0].add_(1)
    return (y, x)


def copied_model():
    m = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3), nn.ReLU())

    def f(x):
        n = copy.deepcopy(m)
        y = n(x)
        return (y + m(x), n)

    return (f, m)


example("copy", make=True)(copied_model)


def copied_in_clones():
    layer = nn.TransformerEncoderLayer(6, 2, 8, dropout=0.0, batch_first=True)

    def f(x):
        enc = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        return enc(torch.cat([x, x], -1)[None])

    return (f, layer)


example("copy", make=True)(copied_in_clones)


class AttrDict(dict):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.__dict__ = self


@example("dict")
def own_dict_init(x):
    d = AttrDict(a=1)
    d.scale = 2
    d["shift"] = 3
    del d.a
    e = d.copy()
    return (x * d["scale"] + d.shift, d, vars(d) is d, list(d.items()), hasattr(d, "a"), d.__dict__, e)


@example("dict")
def own_dict_nested(x):
    d = AttrDict(a=AttrDict(b=x))
    d.a.c = x + 1
    return (d.a.b + d["a"]["c"], d, d.keys(), "a" in d)
