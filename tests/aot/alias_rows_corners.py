"""The rows of the aliasing table where kernels, operators and custom backwards meet memory in ways of their own."""

import torch
from alias_worlds import World, buffer_and_leaf, laid_out, leaves, numbers, plain


# --- results of operators that write into memory they are given -----------------------------------------
def products(x, w):
    y = x @ w
    return y, y.t(), (y.relu() @ w)[0], torch.baddbmm(x[None], x[None], w[None])


def product_over_dead_memory(x, w):
    """The second takes over the memory of a value that is read for the last time."""
    return torch.addmm((x @ w).sin(), x, w)


def products_written(x, w):
    y, z = x @ w, torch.bmm(x[None], w[None])
    z[0].mul_(2)
    return y.add_(1), z


# --- negative views: memory has the values with the other sign ------------------------------------------
def negative(*views):
    def make():
        base = torch.complex(numbers(3, 4), numbers(3, 4, seed=4))
        return World([view(base) for view in views], [base])

    return make


def imaginary(t):
    return t.conj().imag


def negative_views(x):
    y = torch._neg_view(x * 2)
    return y, y + 1, y[0], torch._neg_view(x).exp()


def negative_written(x, y):
    x.add_(1)
    return x * 2, y.sum(), x @ y.t(), torch.cat([x, y])


# --- backwards that write --------------------------------------------------------------------------------
class AddsInBackward(torch.autograd.Function):
    """Counts the gradient into a buffer that it was given."""

    @staticmethod
    def forward(ctx, x, buffer):
        ctx.buffer = buffer
        return x * 2

    @staticmethod
    def backward(ctx, g):
        ctx.buffer.detach()[0].add_(g.sum().sin())
        return g * 3, None


class WritesItsResult(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        y = x * 2
        ctx.result = y.detach()
        return y

    @staticmethod
    def backward(ctx, g):
        ctx.result.add_(g)
        return g * 3


class WritesItsOwn(torch.autograd.Function):
    """What nobody else sees may be written."""

    @staticmethod
    def forward(ctx, x):
        ctx.own = x * 2
        return ctx.own.sin()

    @staticmethod
    def backward(ctx, g):
        return ctx.own.add_(g)


def hook_that_writes(buffer, x):
    y = x * 2

    def add(g):
        buffer.add_(g)

    y.register_hook(add)
    return y.sin()


CORNERS = [
    ("products", products, leaves((4, 4), (4, 4))),
    ("products, plain", products, plain((4, 4), (4, 4))),
    ("products in columns", products, laid_out(lambda t: t.t().contiguous().t(), (4, 4), (4, 4))),
    ("product over dead memory", product_over_dead_memory, plain((4, 4), (4, 4))),
    ("products written", products_written, leaves((4, 4), (4, 4))),
    ("imaginary part of a conjugate", lambda z: (imaginary(z) * 2, imaginary(z)), negative(lambda z: z)),
    ("negative views", negative_views, leaves((4, 4))),
    ("negative input", lambda x: (x * 2, x.t(), x.sum(), x.resolve_neg()), negative(imaginary)),
    ("negative inputs written", negative_written, negative(imaginary, lambda t: torch._neg_view(t.real))),
    ("backward that writes an input", lambda b, x: AddsInBackward.apply(x, b), buffer_and_leaf((4,), (4,))),
    ("backward that writes a result", lambda x: WritesItsResult.apply(x), leaves((4,))),
    ("backward that writes its own", lambda x: WritesItsOwn.apply(x), leaves((4,))),
    ("hook that writes an input", hook_that_writes, buffer_and_leaf((4,), (4,))),
]
