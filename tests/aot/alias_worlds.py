"""The tensors that the rows of the aliasing table are called with: makers of a fresh `World` at each call."""

import torch
from alias_observation import World


def numbers(*shape, seed=3, dtype=torch.float32):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float32).to(dtype)


def leaf(*shape, seed=3):
    return numbers(*shape, seed=seed).requires_grad_()


def plain(*shapes):
    """Tensors that need no gradient."""
    return lambda: World([numbers(*shape, seed=i) for i, shape in enumerate(shapes)])


def leaves(*shapes):
    return lambda: World([leaf(*shape, seed=i) for i, shape in enumerate(shapes)])


def non_leaves(*shapes):
    """Results of autograd, which may be written in place."""

    def make():
        around = [leaf(*shape, seed=i) for i, shape in enumerate(shapes)]
        return World([t * 1 for t in around], around)

    return make


def buffer_and_leaf(buffer, weight):
    return lambda: World([numbers(*buffer), leaf(*weight, seed=1)])


def of_base(*views, shape=(4, 4), grad=False):
    """Views of one base, which the function does not see."""

    def make():
        root = leaf(*shape) if grad else numbers(*shape)
        base = root * 1 if grad else root
        return World([view(base) for view in views], [root, base] if grad else [base])

    return make


def laid_out(layout, *shapes, grad=False):
    """Tensors in an unusual layout; with `grad` they are results of autograd."""

    def make():
        around = [layout(numbers(*shape, seed=i)).requires_grad_(grad) for i, shape in enumerate(shapes)]
        return World([layout(t * 1) for t in around], around) if grad else World(around)

    return make


def transposed(t):
    return t.transpose(-1, -2).contiguous().transpose(-1, -2)


def channels_last(t):
    return t.contiguous(memory_format=torch.channels_last)


def strided(t):
    return t.repeat_interleave(2, -1)[..., ::2]


def made_in(mode, make):
    """The same tensors, made under no_grad or inference_mode."""

    def inside():
        with mode():
            return make()

    return inside


class Stateful(torch.nn.Module):
    """Two buffers, one of which is a view of the other, and a parameter."""

    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(numbers(4))
        self.register_buffer("state", numbers(3, 4, seed=1))
        self.register_buffer("row", self.state[1])
        self.register_buffer("steps", torch.zeros((), dtype=torch.long))
        self.norm = torch.nn.BatchNorm1d(4)


def module_and(*shapes):
    return lambda: World([Stateful(), *(numbers(*shape, seed=i + 5) for i, shape in enumerate(shapes))])


def module_and_leaf(*shapes):
    return lambda: World([Stateful(), *(leaf(*shape, seed=i + 5) for i, shape in enumerate(shapes))])


def plain_of(dtype):
    return lambda: World([numbers(4, 4, dtype=dtype)])


def integers():
    return World([torch.arange(4)])


def expanded_and_plain():
    return World([numbers(1, 4).expand(4, 4), numbers(4, 4, seed=1)])


def view_of_leaf(view):
    def make():
        base = leaf(4, 4)
        return World([view(base)], [base])

    return make


# --- parts of functions -------------------------------------------------------------------------------
def then(write, read):
    """A function that writes, and then reads what may have changed."""

    def fn(*args):
        write(*args)
        return read(*args)

    return fn


def under(mode, body):
    def fn(*args):
        with mode():
            return body(*args)

    return fn


def after(mode, body, read):
    """`body` under the mode, then `read` outside."""

    def fn(*args):
        with mode():
            body(*args)
        return read(*args)

    return fn
