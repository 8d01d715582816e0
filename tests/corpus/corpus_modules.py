"""Examples: nn.Module of every kind, as users write them: containers, state, dispatch."""

import torch
from corpus import X, example
from torch import nn


def seeded(make):
    """A module with the same weights every time."""
    torch.manual_seed(0)
    return make()


class MLP(nn.Module):
    def __init__(self, width=3):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(width, 5), nn.ReLU(), nn.Linear(5, width))

    def forward(self, x):
        return x + self.net(x)


@example("nn.Module containers", make=True)
def sequential():
    return seeded(MLP)


class Lists(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(3, 3) for _ in range(3))
        self.heads = nn.ModuleDict({"a": nn.Linear(3, 2), "b": nn.Identity()})
        self.scales = nn.ParameterList(nn.Parameter(torch.ones(3) * k) for k in range(2))
        self.table = nn.ParameterDict({"bias": nn.Parameter(torch.ones(3))})

    def forward(self, x, name="a"):
        for layer, scale in zip(self.layers[:2], self.scales):
            x = layer(x) * scale
        x = self.layers[-1](x) + self.table["bias"]
        return self.heads[name](x), len(self.layers), list(self.heads), "b" in self.heads


@example("nn.Module containers", X, also=[(X, "b")], make=True)
def module_list_and_dict():
    return seeded(Lists)


@example("nn.Module containers", make=True)
def sequential_indexing():
    net = seeded(MLP).net

    def forward(x):
        for k in range(len(net) - 1):
            x = net[k](x)
        for name, child in net.named_children():
            x = x + len(name) * isinstance(child, nn.Linear)
        return x

    return forward


class Counting(nn.Module):
    def __init__(self):
        super().__init__()
        self.calls = 0
        self.register_buffer("mean", torch.zeros(3))
        self.last = None

    def forward(self, x):
        self.calls += 1
        self.mean.lerp_(x.mean(0), 0.1)
        self.last = x.detach()
        return x - self.mean


@example("attribute writes in forward", make=True)
def attribute_writes():
    module = Counting()
    return module, module.__dict__


class LazyBuffer(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("mask", None, persistent=False)

    def forward(self, x):
        if self.mask is None or self.mask.shape[0] != x.shape[0]:
            self.mask = torch.ones(x.shape[0], x.shape[0]).tril()
        return self.mask @ x


@example("buffers registered lazily", X, also=[(X[:3],)], make=True)
def buffer_assigned_in_forward():
    module = LazyBuffer()
    return module, module._buffers


class LateRegistration(nn.Module):
    def forward(self, x):
        if not hasattr(self, "table"):
            self.register_buffer("table", torch.arange(3.0))
        return x + self.table


@example("buffers registered lazily", make=True)
def register_buffer_in_forward():
    module = LateRegistration()
    return module, module._buffers


class Cache(nn.Module):
    """A key-value cache that grows."""

    def __init__(self):
        super().__init__()
        self.keys = []

    def forward(self, x):
        self.keys.append(x)
        return torch.cat(self.keys).sum(0)


@example("attribute writes in forward", make=True)
def growing_cache():
    module = Cache()
    return module, module.keys


# --- dispatch -------------------------------------------------------------------------------------------
class Many(nn.Module):
    def __init__(self):
        super().__init__()
        self.proj = nn.Linear(3, 3)

    def encode(self, x):
        return self.proj(x)

    def decode(self, x):
        return x @ self.proj.weight

    def forward(self, x):
        return self.decode(self.encode(x))


@example("nn.Module methods", make=True)
def module_methods():
    return seeded(Many)


@example("nn.Module methods", make=True)
def compiled_method_of_module():
    return seeded(Many).encode


class Inherited(Many):
    def forward(self, x, *, scale=1.0):
        return super().forward(x) * scale


@example("nn.Module methods", make=True)
def module_inheritance():
    return seeded(Inherited)


class CallOverridden(Many):
    def __call__(self, x):
        return super().__call__(x + 1)


@example("nn.Module methods", make=True)
def call_overridden():
    module = seeded(CallOverridden)
    return lambda x: module(x)


class Dynamic(nn.Module):
    def __init__(self):
        super().__init__()
        for k in range(3):
            setattr(self, f"layer{k}", nn.Linear(3, 3))

    def forward(self, x):
        for k in range(3):
            x = getattr(self, f"layer{k}")(x)
        return x + self.get_parameter("layer0.bias") + self.get_submodule("layer1").bias


@example("nn.Module methods", make=True)
def layers_by_name():
    return seeded(Dynamic)


class GetAttr(nn.Module):
    def __init__(self, module):
        super().__init__()
        self.module = module

    def __getattr__(self, name):
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(self.module, name)

    def forward(self, x):
        return self.module(x) + self.proj.bias


@example("nn.Module methods", make=True)
def wrapper_with_getattr():
    return GetAttr(seeded(Many))


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(12, 3)
        self.head = nn.Linear(3, 12, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, ids):
        return self.head(self.embed(ids)), self.head.weight is self.embed.weight


@example("nn.Module methods", torch.arange(6), make=True)
def tied_weights():
    return seeded(Tied)
