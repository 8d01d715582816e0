"""aot.compile against eager: values, gradients, writes to inputs, aliasing, layouts, autograd flags."""

import pytest
import torch
from aot_helpers import check

F = torch.nn.functional


def inputs(*shapes, grad=True, leaf=True, layout=None):
    """A maker of (leaves, inputs): fresh tensors at each call, equal values each time."""

    def make():
        generator = torch.Generator().manual_seed(3)
        leaves = [torch.randn(s, generator=generator) for s in shapes]
        if layout is not None:
            leaves = [layout(t) for t in leaves]
        leaves = [t.requires_grad_(grad) for t in leaves]
        return leaves, [t if leaf else t * 1 for t in leaves]

    return make


def set_first(x, value):
    x[0] = value
    return x


def in_no_grad(fn):
    with torch.no_grad():
        return fn()


def in_enable_grad(fn):
    with torch.enable_grad():
        return fn()


def write_no_grad(x, w):
    with torch.no_grad():
        x.add_(1)
    return x * w


def write_detached(x):
    x.detach().add_(1)
    return x * 2


def write_between(x, w):
    y = x * 2 + w
    x.add_(1)
    return y + x


def write_view_of_input(x):
    y = x.permute(1, 0)
    y.index_add_(0, torch.tensor([0, 2]), torch.ones(2, 3))
    return y, x.sum()


def write_intermediate_view(x):
    y = x * 2
    v = y[0]
    v.mul_(3)
    return y, v


def write_chain(x):
    y = x + 1
    a = y.view(-1)
    b = y[1:]
    a.add_(1)
    b.mul_(2)
    return y, a, b, a * b.sum()


def detach_inplace(x):
    y = x * 2.0
    y.detach_()
    return y + x, y


def detach_then_write(x):
    t = x.detach()
    x.mul_(2)
    return x, t


def swap(x, y):
    t = x.clone()
    x.copy_(y)
    y.copy_(t)
    return x + y


def scatter_write(x, y):
    x[:, 1:] = y[:, :-1]
    x[0].zero_()
    return x.relu()


def lots(x):
    a, b = x.chunk(2, dim=1)
    return a, b, a + b, None, 3, "text", x, x.shape[0], (a * 2).long()


def layout_like(t):
    """A result of autograd with the strides of `t`."""
    return torch.cat([t * 1, t * 0], 1)[:, : t.shape[1]] if t.stride() != (t.t() * 1).t().stride() else t * 1


# name: (function, inputs); every one is run with and without gradients
PURE = {
    "plain": (lambda x, w: torch.tanh(x @ w), inputs((3, 4), (4, 5))),
    "same output twice": (lambda x: (lambda y: (y, y))(x * 2), inputs((3, 4))),
    "equal expressions stay two tensors": (lambda x: (x + 1, x + 1), inputs((3, 4))),
    "clone of input": (lambda x: (x.clone(), x + 1), inputs((3, 4))),
    "clone of output": (lambda x: (lambda y: (y, y.clone()))(x * 2), inputs((3, 4))),
    "clone alone": (lambda x: (x * 2).clone(), inputs((3, 4))),
    "to same dtype with copy": (lambda x: x.to(torch.float32, copy=True), inputs((3, 4))),
    "to same dtype": (lambda x: x.to(torch.float32), inputs((3, 4))),
    "input returned": (lambda x, y: (x, x * y), inputs((3, 4), (3, 4))),
    "only inputs": (lambda x, y: (y, x), inputs((3, 4), (3, 4))),
    "view of input": (lambda x: (x.view(-1), x * 2), inputs((3, 4))),
    "transposed input": (lambda x: x.t(), inputs((3, 4))),
    "slice of input": (lambda x: x[1:, ::2], inputs((3, 4))),
    "diagonal and unsqueeze": (lambda x: x.diagonal().unsqueeze(0), inputs((3, 4))),
    "expanded input": (lambda x: x.expand(2, 3, 4), inputs((3, 4))),
    "chunks of input": (lambda x: x.chunk(2, dim=1), inputs((3, 4))),
    "unbind of input": (lambda x: x.unbind(0), inputs((3, 4))),
    "as_strided input": (lambda x: x.as_strided((2, 2), (1, 2), 1) * 2, inputs((3, 4))),
    "detached input": (lambda x: (x.detach(), x * 2), inputs((3, 4))),
    "view of intermediate": (lambda x: (x * 2).view(-1), inputs((3, 4))),
    "slice of intermediate": (lambda x: (x * 2)[:, 1], inputs((3, 4))),
    "expand of intermediate": (lambda x: (x * 2).expand(2, 3, 4), inputs((3, 4))),
    "two views of intermediate": (lambda x: (lambda y: (y.view(-1), y.t()))(x * 2), inputs((3, 4))),
    "base and view": (lambda x: (lambda y: (y, y[0]))(x * 2), inputs((3, 4))),
    "base and detached": (lambda x: (lambda y: (y, y.detach()))(x * 2), inputs((3, 4))),
    "two detached views": (lambda x: (lambda y: (y.detach(), y[0].detach(), x + 1))(x * 2), inputs((3, 4))),
    "chunks of intermediate": (lambda x: (x * 2).chunk(2, dim=1), inputs((3, 4))),
    "view made under no_grad": (lambda x: (lambda y: (in_no_grad(lambda: y.view(-1)), y))(x * 2), inputs((3, 4))),
    "no_grad region": (lambda x: in_no_grad(lambda: x * 2) * x, inputs((3, 4))),
    "no_grad output": (lambda x: (in_no_grad(lambda: x * 2), x * 3), inputs((3, 4))),
    "enable_grad output": (lambda x: (in_enable_grad(lambda: x + 1), x + 1), inputs((3, 4))),
    "integer output": (lambda x: (x.argmax(1), x * 2, (x > 0)), inputs((3, 4))),
    "detached inside": (lambda x, w: (x * w.detach()).sum() + w.sum(), inputs((3, 4), (3, 4))),
    "many kinds": (lots, inputs((3, 4))),
    "unused input": (lambda x, y: x * 2, inputs((3, 4), (3, 4))),
    "constant output": (lambda x: (torch.ones(3), x * 2), inputs((3, 4))),
    "tensor literal": (lambda x: x[:, :2] + torch.tensor([1.0, 2.0]), inputs((3, 4))),
    "scalar tensors": (lambda x: (x.sum(), x.mean() * x), inputs((3, 4))),
    "complex": (lambda x: torch.view_as_real(torch.view_as_complex(x.view(3, 2, 2)) * 2j), inputs((3, 4))),
    "dropout": (lambda x: F.dropout(x, 0.5) * F.dropout(x, 0.3), inputs((30, 40))),
    "random": (lambda x: x * torch.rand(3, 4) + torch.randn_like(x), inputs((3, 4))),
    "unused draw": (lambda x: (torch.rand(3), x * torch.rand(3, 4))[1], inputs((3, 4))),
    "transposed layout": (lambda x: (x * 2, x.t().contiguous()), inputs((3, 4), layout=lambda t: t.t())),
    "channels last": (
        lambda x: (x * 2, F.avg_pool2d(x, 2)),
        inputs((2, 3, 4, 4), layout=lambda t: t.to(memory_format=torch.channels_last)),
    ),
    "empty": (lambda x: (x * 2, x.sum()), inputs((0, 4))),
    "intermediate written": (write_intermediate_view, inputs((3, 4))),
    "views written": (write_chain, inputs((3, 4))),
    "relu_": (lambda x: (x * 2).relu_(), inputs((3, 4))),
    "detach_": (detach_inplace, inputs((3, 4))),
    "out=": (lambda x: torch.add(x.detach(), 1, out=torch.empty(3, 4)), inputs((3, 4))),
}


@pytest.mark.parametrize("name", PURE)
@pytest.mark.parametrize("mode", ["grad", "no_grad", "no leaf", "inference"])
def test_pure(name, mode):
    fn, make = PURE[name]
    if mode == "grad":
        check(fn, make)
    elif mode == "no leaf":
        check(fn, lambda: (lambda leaves: (leaves, [t * 1 for t in leaves]))(make()[0]))
    else:
        with torch.inference_mode() if mode == "inference" else torch.no_grad():
            check(fn, make) if mode == "no_grad" else None
        if mode == "inference":
            check(fn, lambda: ([], [t.detach() for t in make()[0]]))


WRITES = {
    "add_": (lambda x: x.add_(1) * 2, (3, 4)),
    "returned": (lambda x: x.add_(1), (3, 4)),
    "written twice": (lambda x: x.add_(1).mul_(3).sum(), (3, 4)),
    "item": (lambda x: set_first(x, 2.0).sum(), (3, 4)),
    "view of written": (lambda x: x.add_(1)[1:], (3, 4)),
    "view written": (write_view_of_input, (3, 4)),
    "from another": (lambda x, w: (x.mul_(w), x + w), (3, 4), (3, 4)),
    "read before": (write_between, (3, 4), (3, 4)),
    "swap": (swap, (3, 4), (3, 4)),
    "parts": (scatter_write, (3, 4), (3, 4)),
    "detached alias": (detach_then_write, (3, 4)),
    "copy_": (lambda x, w: (x.copy_(w), w * 2), (3, 4), (3, 4)),
    "zero_": (lambda x: (x.zero_(), x + 1), (3, 4)),
}


@pytest.mark.parametrize("name", WRITES)
@pytest.mark.parametrize("layout", ["contiguous", "transposed", "strided"])
@pytest.mark.parametrize("mode", ["grad", "plain"])
def test_writes(name, mode, layout):
    fn, *shapes = WRITES[name]
    layouts = {
        "contiguous": None,
        "transposed": lambda t: t.t().contiguous().t(),
        "strided": lambda t: t.repeat_interleave(2, 0)[::2].detach(),
    }
    make = inputs(*shapes, grad=mode == "grad", layout=layouts[layout])

    def make_inputs():
        leaves, _ = make()
        if mode == "plain":
            return leaves, leaves
        return leaves, [layout_like(t) for t in leaves]

    check(fn, make_inputs, exact=layout == "contiguous", decompositions={})


@pytest.mark.parametrize("fn", [write_no_grad, lambda x, w: write_detached(x) * w])
@pytest.mark.parametrize("leaf", [True, False])
def test_writes_hidden_from_autograd(fn, leaf):
    check(fn, inputs((3, 4), (3, 4), leaf=leaf))


def test_write_from_differentiable_into_buffer():
    """The buffer gets a history: gradients flow through what was stored in it."""

    def make():
        (w,), _ = inputs((3, 4))()
        return [w], [torch.ones(3, 4), w]

    check(lambda buffer, w: (buffer.mul_(w), buffer.sum() * 2), make)


def fill(w):
    y = w * 2
    a = torch.empty(3, 4)
    a.copy_(y)
    return a, y


def copy_input(w):
    a = torch.empty(3, 4)
    a.copy_(w)
    return a


@pytest.mark.parametrize("fn", [fill, copy_input, lambda w: (w.to(torch.float32, copy=True), w.clone())])
def test_copies_are_tensors_of_their_own(fn):
    check(fn, inputs((3, 4)), exact=False)
    with torch.no_grad():
        check(fn, inputs((3, 4)), exact=False)


def test_write_into_view_input():
    """The input is a view of a tensor that the graph does not see; the base gets the value and the history."""

    def make():
        (w,), _ = inputs((3, 4))()
        base = w * 1
        return [w], [base[1]]

    check(lambda x: x.mul_(2).sum(), make)
