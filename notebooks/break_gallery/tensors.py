"""Breaks at tensors that are more than a plain tensor, and at what autograd does by itself."""

import torch
from torch.utils.checkpoint import checkpoint

from .example import example, mended


def meters(k):
    """Three lengths, as tensors of a class that looks at each operator.

    The class stands at the end of this file.
    """
    return (torch.arange(3.0).add(k).as_subclass(Meters),)


@example("tensor subclass", meters)
def in_feet(length):
    return (length * 3.28).as_subclass(torch.Tensor)


@mended(in_feet, lambda k: (torch.arange(3.0).add(k),))
def plain_in_feet(length):
    return length * 3.28


def diagonal(k):
    return torch.eye(3) * (k + 1), torch.ones(3)


@example("unusual tensor", lambda k: (diagonal(k)[0].to_sparse(), torch.ones(3)))
def product(matrix, x):
    return torch.mv(matrix, x) + 1


@mended(product, diagonal)
def dense_product(matrix, x):
    return torch.mv(matrix, x) + 1


@example("tensor attribute")
def flatten(x):
    y = x.view(-1)
    shares_memory = y._base is x
    return y + 1, shares_memory


@mended(flatten)
def flatten_known(x):
    y = x.view(-1)
    shares_memory = True
    return y + 1, shares_memory


@example("tensor attribute write")
def exchange_data(x):
    y = x.clone()
    y.data = torch.zeros(2, 3)
    return y + 1


@mended(exchange_data)
def write_elements(x):
    y = x.clone()
    y.copy_(torch.zeros(2, 3))
    return y + 1


def weighted(k):
    return torch.ones(3), (torch.ones(3) * (k + 1)).requires_grad_()


@example("backward inside a compiled function", weighted)
def train_step(x, w):
    loss = (x * w).square().sum()
    loss.backward()
    return loss.detach()


@mended(train_step, weighted)
def compute_loss(x, w):
    loss = (x * w).square().sum()
    return loss.detach()


GRADIENTS = []


@example("tensor hook", weighted)
def keep_gradient(x, w):
    y = x * w
    y.register_hook(GRADIENTS.append)
    return y.sum()


@mended(keep_gradient)
def double_gradient(x, w):
    y = x * w
    y.register_hook(lambda gradient: gradient * 2)
    return y.sum()


class Double(torch.autograd.Function):
    """Two times a tensor, with a backward that counts."""

    calls = []

    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, gradient):
        Double.calls.append("backward")
        return gradient * 2


@example("custom autograd function", weighted)
def doubled(x, w):
    return Double.apply(w) + x


@mended(doubled)
def doubled_by_autograd(x, w):
    return w * 2 + x


def three_numbers(k):
    return (torch.arange(3.0) + k,)


@example("torch call left to eager", three_numbers)
def add_to_new(x):
    return x.new(2, 3).zero_() + x


@mended(add_to_new, three_numbers)
def add_to_zeros(x):
    return x.new_zeros(2, 3) + x


class Money:
    """A number that torch does not know."""

    amount = 3


@example("operator argument")
def add_money(x):
    try:
        return torch.add(x, Money())
    except TypeError:
        return x + Money.amount


@mended(add_money)
def add_amount(x):
    return torch.add(x, Money().amount)


STEPS = []


@example("function with a graph of its own", weighted)
def checkpointed(x, w):
    def block(value):
        STEPS.append("block")
        return torch.sin(value * w)

    return checkpoint(block, x, use_reentrant=False).detach()


@mended(checkpointed)
def checkpointed_without_effect(x, w):
    def block(value):
        return torch.sin(value * w)

    return checkpoint(block, x, use_reentrant=False).detach()


class Meters(torch.Tensor):
    """A tensor that looks at each operator."""

    @classmethod
    def __torch_dispatch__(cls, operator, types, args=(), kwargs=None):
        with torch._C._DisableTorchDispatch():
            return operator(*args, **(kwargs or {}))
