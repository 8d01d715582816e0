"""The rows of the aliasing table whose inputs share memory with an input that is written."""

import torch
from alias_worlds import World, after, leaf, numbers, of_base, then, under

F = torch.nn.functional


def shared(*views, shape=(4, 4), grad=False):
    return of_base(*views, shape=shape, grad=grad)


def with_weight(*views, shape=(4, 4)):
    """Views of a plain base, and a leaf."""

    def make():
        base = numbers(*shape)
        return World([*(view(base) for view in views), leaf(4, seed=7)], [base])

    return make


def of_leaf(*views):
    """Views of a leaf, which the function does not see."""

    def make():
        base = leaf(4, 4)
        return World([view(base) for view in views], [base])

    return make


def of_input_leaf(*views):
    """A leaf and views of it."""

    def make():
        base = leaf(4, 4)
        return World([base, *(view(base) for view in views)])

    return make


def leaves_on_one_memory(*views):
    """Parameters that share memory, as those in one flat buffer do: each has a gradient of its own."""

    def make():
        base = numbers(4, 4)
        return World([view(base).requires_grad_() for view in (lambda b: b.data, *views)], [base])

    return make


def detached(x, *_):
    return x.detach()


def whole(b):
    return b


def first_rows(b):
    return b[:3]


def last_rows(b):
    return b[1:]


def add_one(x, *_):
    x.add_(1)


def both(x, y, *_):
    x.add_(1)
    y.mul_(2)


def read_write_read(x, y):
    before = y * 2
    x.mul_(3)
    return before, y * 2, x + y.sum()


def write_in_turn(x, y):
    for k in range(3):
        x.add_(k)
        y[0].mul_(2)
    return x.sum(), y


def chain_of_views(x, y):
    v = x[1:].t()[0]
    v.zero_()
    return v, y, y[0], x


def shift(x, y):
    """Each row becomes the one before."""
    y.copy_(x.clone())
    return x


def roll_cache(cache, window, new):
    cache[:-1] = cache[1:].clone()
    window[-1] = new
    return window.softmax(-1), cache.sum(0)


def ema(average, row, w):
    with torch.no_grad():
        average.mul_(0.9).add_(w, alpha=0.1)
    return row * w


def normalize(mean, statistics, w):
    out = F.batch_norm(w * statistics, mean, torch.ones(4), training=True)
    return out, statistics


def three(x, y, z):
    x.add_(1)
    z.mul_(2)
    return x * y[: len(x)], y[-len(z) :] + z


def view_of_written(x, y):
    x.mul_(2)
    return y.view(-1), y[0], x.t(), y.detach()


def mixed_history(x, y, w):
    x.add_(w)
    return y * 2, x.sum()


def detached_write(x, y):
    y.add_(1)
    return x * 2, y


def in_columns(x, y):
    x[:, 0] = y[:, -1]
    y.relu_()
    return x, y * 1


def write_under_no_grad(x, y):
    with torch.no_grad():
        x.mul_(2)
    return (x * y.sum()).sum(), y * 3


def saved_then_written(x, y):
    out = y.exp() * y
    x.add_(1)
    return out


def scale_each(x, y):
    torch._foreach_mul_([x, y], 2.0)
    return x.sum(), y * 3


def swap_halves(a, b, c):
    t = a.clone()
    a.copy_(b)
    b.copy_(t)
    return c * 2


SHARED = [
    ("rows: first written", then(add_one, lambda x, y: (x * 2, y * y)), shared(first_rows, last_rows)),
    ("rows: both written, history", then(both, lambda x, y: (x * y, y)), shared(first_rows, last_rows, grad=True)),
    ("read, write, read", read_write_read, shared(first_rows, last_rows)),
    ("read, write, read, history", read_write_read, shared(first_rows, last_rows, grad=True)),
    ("written in turn", write_in_turn, shared(whole, last_rows)),
    ("written in turn, history", write_in_turn, shared(whole, last_rows, grad=True)),
    ("chain of views", chain_of_views, shared(whole, last_rows)),
    ("chain of views, history", chain_of_views, shared(whole, last_rows, grad=True)),
    ("shift", shift, shared(first_rows, last_rows)),
    ("shift, history", shift, shared(first_rows, last_rows, grad=True)),
    ("cache and window", roll_cache, with_weight(whole, lambda b: b[1:])),
    (
        "cache and window, both with holes",
        roll_cache,
        with_weight(lambda b: b[:, :4], lambda b: b[1:, :4], shape=(5, 6)),
    ),
    ("moving average and its row", lambda a, r, w: ema(a, r, w), with_weight(whole, lambda b: b[2])),
    ("batch norm's mean and its matrix", normalize, with_weight(lambda b: b[1], whole)),
    ("three in a row", three, shared(first_rows, whole, last_rows)),
    ("three in a row, history", three, shared(lambda b: b[:2], lambda b: b[1:3], lambda b: b[2:], grad=True)),
    ("views of what was written", view_of_written, shared(whole, last_rows)),
    ("views of what was written, history", view_of_written, shared(whole, last_rows, grad=True)),
    ("a plain view gets a history", mixed_history, with_weight(whole, last_rows)),
    ("a plain base gets a history", mixed_history, with_weight(last_rows, whole)),
    ("detached alias does not get one", mixed_history, with_weight(whole, lambda b: b.detach()[1:])),
    ("detached alias written", detached_write, shared(whole, detached, grad=True)),
    ("detached part written", detached_write, shared(whole, lambda b: b.detach()[1:], grad=True)),
    ("written under its detached alias", lambda x, y: detached_write(y, x), shared(whole, detached, grad=True)),
    ("data written", detached_write, shared(whole, lambda b: b.data[1:], grad=True)),
    ("data written, plain", detached_write, shared(whole, lambda b: b.data)),
    ("columns", in_columns, shared(lambda b: b[:, :3], lambda b: b[:, 1:])),
    ("columns, history", in_columns, shared(lambda b: b[:, :3], lambda b: b[:, 1:], grad=True)),
    ("interleaved columns", in_columns, shared(lambda b: b[:, ::2], lambda b: b[:, 1::2], grad=True)),
    ("in three dimensions", in_columns, shared(lambda b: b[:2, 1:, ::2], lambda b: b[1:, 1:, :3], shape=(3, 4, 5))),
    ("transposed", in_columns, shared(lambda b: b[:, :3].t(), lambda b: b[:, 1:].t(), grad=True)),
    ("diagonal", then(add_one, lambda x, y: (x, y * 2)), shared(torch.diagonal, whole)),
    ("diagonal, history", then(add_one, lambda x, y: (x, y * 2)), shared(torch.diagonal, whole, grad=True)),
    ("expanded row is read", then(add_one, lambda x, y: (x, y * 2)), shared(whole, lambda b: b[1:2].expand(4, 4))),
    ("one element", then(add_one, lambda x, y: (x, y * 2)), shared(lambda b: b[1, 2], whole, grad=True)),
    ("other type is read", then(add_one, lambda x, y: (x, y.abs())), shared(whole, lambda b: b[1:].view(torch.int32))),
    ("complex and its parts", then(add_one, lambda x, y: (x, y * 2)), shared(whole, lambda b: b.view(torch.complex64))),
    ("bytes", then(add_one, lambda x, y: (x, y // 2)), shared(whole, lambda b: b.view(torch.uint8)[1:])),
    ("leaf and view under no_grad", write_under_no_grad, of_input_leaf(last_rows)),
    ("view and view of a leaf under no_grad", write_under_no_grad, of_leaf(first_rows, last_rows)),
    ("leaf and detached alias", lambda x, y: detached_write(x, y), of_input_leaf(lambda b: b.detach()[1:])),
    ("two leaves under no_grad", write_under_no_grad, leaves_on_one_memory(lambda b: b.data[1:])),
    ("leaf written raises", then(add_one, lambda x, y: x * y.sum()), of_input_leaf(last_rows)),
    ("view of a leaf written raises", then(add_one, lambda x, y: x.sum() + y), of_leaf(first_rows, last_rows)),
    ("partial overlap of operands raises", lambda x, y: x.add_(y), shared(first_rows, last_rows)),
    ("backward needs what is written", saved_then_written, shared(first_rows, last_rows)),
    (
        "backward needs what is written raises",
        lambda x, y, w: (y * w, x.add_(1))[0],
        with_weight(first_rows, last_rows),
    ),
    ("foreach of both, in eager", scale_each, shared(first_rows, last_rows)),
    ("foreach of both with a history, in eager", scale_each, shared(first_rows, last_rows, grad=True)),
    ("swap", swap_halves, shared(lambda b: b[:2], lambda b: b[2:], whole, grad=True)),
    ("everything under no_grad", under(torch.no_grad, write_in_turn), of_input_leaf(last_rows)),
    (
        "view made under no_grad is read",
        after(torch.no_grad, add_one, lambda x, y: y * x.sum()),
        of_input_leaf(lambda b: after(torch.no_grad, lambda t: None, lambda t: t[1:])(b)),
    ),
]
