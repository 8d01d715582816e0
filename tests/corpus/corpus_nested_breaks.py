"""Examples: breaks in nested calls, and those that the user asks for."""

import torch
import torch.nn.functional as F
from corpus import example
from corpus_breaks import show
from corpus_modules import MLP, seeded
from torch import nn


# --- in nested calls ------------------------------------------------------------------------------------
def helper(x):
    y = x + 1
    show()
    return y * 2


@example("in nested calls")
def break_in_callee(x):
    y = x * 3
    z = helper(y)
    return z - 1


@example("in nested calls")
def break_two_calls_deep(x):
    def middle(t):
        return helper(t + 1) * 2

    return middle(x) + middle(x * 2)


@example("in nested calls", make=True)
def break_in_submodule():
    class Noisy(nn.Module):
        def __init__(self):
            super().__init__()
            self.net = MLP()

        def forward(self, x):
            x = self.net(x)
            show()
            return F.relu(x)

    return seeded(lambda: nn.Sequential(nn.Linear(3, 3), Noisy(), nn.Linear(3, 2)))


@example("in nested calls")
def break_in_method(x):
    class Layer:
        def __call__(self, t):
            show()
            return t + 1

    layers = [Layer(), Layer()]
    for layer in layers:
        x = layer(x) * 2
    return x


@example("in nested calls")
def break_in_closure(x):
    factor = x.sum()

    def scaled(t):
        show()
        return t * factor

    return scaled(x) + factor


@example("in nested calls")
def break_in_generator(x):
    def stream():
        for k in range(2):
            show()
            yield x + k

    total = 0
    for part in stream():
        total = total + part
    return total


@example("in nested calls")
def break_in_sort_key(x):
    def key(n):
        show()
        return -n

    return x * sorted([1, 3, 2], key=key)[0]


@example("in nested calls")
def break_in_property(x):
    class Lazy:
        @property
        def value(self):
            show()
            return x + 1

    return Lazy().value * 2


class Base:
    @classmethod
    def scaled(cls, x, k):
        show()
        return x * k

    def shifted(self, x, k):
        show()
        return x - k


class Derived(Base):
    @classmethod
    def scaled(cls, x, k):
        return super().scaled(x, k or 3)

    def shifted(self, x, k):
        y = super().shifted(x + 1, k or 3)
        show()
        return super().shifted(y, 2)


@example("in nested calls")
def break_in_super_method(x):
    return Derived.scaled(x, 0) + Derived().shifted(x, 1)


@example("disable and graph_break")
def torch_compiler_disable(x):
    @torch.compiler.disable
    def eager(t):
        return t * 2

    return eager(x + 1) - 1


@example("disable and graph_break")
def dynamo_graph_break(x):
    y = x + 1
    torch._dynamo.graph_break()
    return y * 2


@example("disable and graph_break")
def is_compiling(x):
    return x + 1 if torch.compiler.is_compiling() or torch.jit.is_scripting() else x + 1
