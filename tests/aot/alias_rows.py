"""The aliasing table: (name, function, maker of its inputs), by what the function does."""

import torch
from alias_rows_corners import CORNERS
from alias_rows_shared import SHARED
from alias_rows_writes import WRITING
from alias_worlds import (
    World,
    channels_last,
    laid_out,
    leaf,
    leaves,
    made_in,
    module_and,
    non_leaves,
    of_base,
    plain,
    plain_of,
    strided,
    transposed,
    under,
)

F = torch.nn.functional


# --- outputs that are inputs, views of inputs, views of each other ----------------------------------
def views_of_result(x):
    y = x * 2
    return y.view(-1), y.t(), y[0], y


def views_of_result_turned_later(x):
    y = x * 2
    row, diagonal = y[0], y.diagonal()
    y.unsqueeze_(0).transpose_(0, 1)
    return y, row, diagonal, y[:, 0]


def write_to_view_of_result_turned_later(x):
    y = x * 2
    row = y[0]
    y.t_()
    row.mul_(3)
    return y


def view_then_base_later(x):
    y = x.exp()
    v = y[1:]
    return v, v.t(), x.t()


def views_of_two(x):
    a, b = x * 2, x * 3
    return a[0], b[0], a[1], b


def split_and_whole(x):
    y = x * 2
    a, b = y.split(2)
    return a, b, y


def detached_and_view(x):
    y = x * 2
    return y.detach(), y[0], y


def alias_under_no_grad(x):
    y = x * 2
    with torch.no_grad():
        v = y[0]
    return v, y


def no_grad_view_of_input(x):
    with torch.no_grad():
        v = x[0]
    return v, x * 2


def complex_views(x):
    z = torch.view_as_complex(x.view(4, 2, 2))
    return z, z.real, z.conj()


def clones(x):
    return x.clone(), x.contiguous(), x.t().contiguous(), x.detach().clone()


def nested_expand(x):
    y = x.sum(1, keepdim=True)
    return y.expand(4, 4), y, y.expand(4, 4)[0]


PURE = [
    ("input returned", lambda x: x, leaves((4, 4))),
    ("input returned twice", lambda x: (x, x), leaves((4, 4))),
    ("input and result", lambda x, y: (y, x * y, x), leaves((4, 4), (4, 4))),
    ("non-leaf returned", lambda x: (x, x + 1), non_leaves((4, 4))),
    ("view of leaf", lambda x: (x.view(-1), x.t(), x[1:]), leaves((4, 4))),
    ("view of non-leaf", lambda x: (x.view(-1), x.t(), x[1:]), non_leaves((4, 4))),
    ("view of plain", lambda x: (x.view(-1), x.t(), x[1:]), plain((4, 4))),
    ("view of view", lambda x: (x.t(), x[0], x * 1), of_base(lambda b: b[1:, 1:], grad=True)),
    ("view of transposed", lambda x: (x.t(), x[0], x * 2), laid_out(transposed, (4, 4), grad=True)),
    ("alias by reshape", lambda x: (x.reshape(-1), x.reshape(4, 4), x.flatten(0)), leaves((4, 4))),
    ("reshape that copies", lambda x: x.t().reshape(-1), leaves((4, 4))),
    ("contiguous that copies or not", clones, leaves((4, 4))),
    ("contiguous of transposed", clones, laid_out(transposed, (4, 4))),
    ("squeeze and unsqueeze", lambda x: (x.unsqueeze(0).squeeze(0), x.unsqueeze(-1)), leaves((4, 4))),
    ("unbind", lambda x: x.unbind(0), leaves((4, 4))),
    ("chunk of result", lambda x: (x * 2).chunk(2), leaves((4, 4))),
    ("split and whole", split_and_whole, leaves((4, 4))),
    ("views of result", views_of_result, leaves((4, 4))),
    ("views of result, plain", views_of_result, plain((4, 4))),
    ("views of result, turned later", views_of_result_turned_later, leaves((3, 4))),
    ("views of result, turned later, plain", views_of_result_turned_later, plain((3, 4))),
    ("view of result, turned later and written", write_to_view_of_result_turned_later, leaves((3, 4))),
    ("view of result, turned later and written, plain", write_to_view_of_result_turned_later, plain((3, 4))),
    ("views of two results", views_of_two, leaves((4, 4))),
    ("view without its base", view_then_base_later, leaves((4, 4))),
    ("detached and view", detached_and_view, leaves((4, 4))),
    ("detach of input", lambda x: (x.detach(), x.detach()[0]), leaves((4, 4))),
    ("data of input", lambda x: (x.data, x * 1), leaves((4, 4))),
    ("view made under no_grad", alias_under_no_grad, leaves((4, 4))),
    ("view of input made under no_grad", no_grad_view_of_input, leaves((4, 4))),
    ("expanded result", nested_expand, leaves((4, 4))),
    ("expanded input", lambda x: (x.expand(2, 4, 4), x + 1), leaves((4, 4))),
    ("input is expanded", lambda x: (x, x * 2, x[0]), of_base(lambda b: b[:1].expand(4, 4), grad=True)),
    ("as_strided", lambda x: (x.as_strided((2, 2), (1, 2), 1), x * 1), leaves((4, 4))),
    ("diagonal", lambda x: (x.diagonal(), (x * 2).diagonal()), leaves((4, 4))),
    ("unfold", lambda x: (x.unfold(0, 2, 1), (x * 2).unfold(0, 2, 2)), leaves((4, 4))),
    ("complex views", complex_views, leaves((4, 4))),
    (
        "real as complex",
        lambda x: (torch.view_as_real(x.conj()), x.imag, x.conj()),
        plain_of(torch.complex64),
    ),
    ("view of dtype", lambda x: (x.view(torch.int32), (x * 2).view(torch.int32)), plain((4, 4))),
    ("channels_last", lambda x: (x * 2, x[0], F.relu(x)), laid_out(channels_last, (2, 3, 4, 4), grad=True)),
    ("strided", lambda x: (x * 2, x[0], x.sum(0)), laid_out(strided, (4, 4), grad=True)),
    ("same tensor twice", lambda x, y: (x, y, x * y), lambda: (lambda t: World([t, t]))(leaf(4, 4))),
    ("two views of one base", lambda x, y: (x * y, x, y[0]), of_base(lambda b: b[:3], lambda b: b[1:], grad=True)),
    ("base and its view", lambda x, y: (x[1:], y, x + 1), of_base(lambda b: b, lambda b: b[0], grad=True)),
    ("integer and bool results", lambda x: (x.argmax(0), x > 0, x.long()[0], x.shape[0]), leaves((4, 4))),
    ("plain values", lambda x: (None, 3, "text", x.dim(), x.sum()), leaves((4, 4))),
    ("empty", lambda x: (x, x * 2, x[:0], x.view(-1)), leaves((0, 4))),
    ("0-dim", lambda x: (x, x * 2, x.view(1), x[None]), leaves(())),
    ("made under inference mode", lambda x: (x * 2, x.view(-1), x), made_in(torch.inference_mode, plain((4, 4)))),
    ("module's buffers", lambda m, x: (m.state, m.row, x + m.state, m.weight), module_and((3, 4))),
    ("module's views", lambda m, x: (m.state[0], m.row * 1, m.weight[1:], m.weight.detach()), module_and((3, 4))),
]


# --- writes to results ------------------------------------------------------------------------------
def write_result_and_view(x):
    y = x * 2
    v = y[0]
    v.mul_(3)
    y.add_(1)
    return y, v


def write_into_new(x):
    y = torch.zeros(4, 4)
    y[0] = x[0]
    y[1:] = x[1:] * 2
    return y, y[0]


def write_detached_result(x):
    y = x * 2
    y.detach().add_(1)
    return y


def write_result_under_no_grad(x):
    y = x + 1
    with torch.no_grad():
        y.mul_(2)
    return y, y * x


def resize_result(x):
    y = (x * 2).detach()
    y.resize_(2, 8)
    return y


def transpose_result(x):
    y = x * 2
    y.t_()
    return y, y.unsqueeze_(0)


def detach_result(x):
    y = x * 2
    z = y.sin()
    y.detach_()
    return y, z, y * x


def set_data_of_result(x):
    y = x * 2
    y.data = x.detach() * 3
    return y


def write_split(x):
    y = x * 2
    a, b = y[:2], y[2:]
    a.add_(b)
    return y, b


def scale_parts_at_once(x):
    y = x * 1
    torch._foreach_mul_([y, y[1:], x * 2], 2.0)
    return y


def scale_parts_apart(x):
    y = x * 1
    torch._foreach_mul_([y[:1], y[2:], y[1:2]], 2.0)
    torch._foreach_add_([y[0], y[1]], [y[2], y[3]])
    return y, y[2]


def scale_several(x):
    y, z = x * 1, x * 2
    torch._foreach_mul_([y, z], 2.0)
    torch._foreach_add_([y, z], [x, y])
    return y, z


def copy_between(x):
    y = torch.empty(4, 4)
    y.copy_(x)
    z = y.clone()
    z.fill_(2)
    return y, z


RESULTS = [
    ("relu_", lambda x: (x * 2).relu_(), leaves((4, 4))),
    ("write to result and its view", write_result_and_view, leaves((4, 4))),
    ("write into a new tensor", write_into_new, leaves((4, 4))),
    ("write to detached result", write_detached_result, leaves((4, 4))),
    ("write to result under no_grad", write_result_under_no_grad, leaves((4, 4))),
    ("write to parts", write_split, leaves((4, 4))),
    ("copy_ into new", copy_between, leaves((4, 4))),
    ("foreach of parts", scale_parts_at_once, leaves((4, 4))),
    ("foreach", scale_several, leaves((4, 4))),
    ("foreach of parts that do not meet", scale_parts_apart, leaves((4, 4))),
    ("foreach of parts that do not meet, plain", scale_parts_apart, plain((4, 4))),
    ("foreach, plain", scale_several, plain((4, 4))),
    ("foreach of parts, plain", scale_parts_at_once, plain((4, 4))),
    ("result resized", resize_result, leaves((4, 4))),
    ("result transposed in place", transpose_result, leaves((4, 4))),
    ("result detached in place", detach_result, leaves((4, 4))),
    ("result's data replaced", set_data_of_result, leaves((4, 4))),
    ("out=", lambda x: torch.add(x, 1, out=torch.empty(4, 4)), plain((4, 4))),
    ("out= of another size", lambda x: torch.add(x, 1, out=torch.empty(0)), plain((4, 4))),
    ("requires_grad_ of result", lambda x: (x.detach() * 1).requires_grad_(), leaves((4, 4))),
    ("requires_grad_ and used", lambda x: ((x.detach() * 1).requires_grad_() * x).sum(), leaves((4, 4))),
    ("index_put_", lambda x: (x * 1).index_put_((torch.tensor([0, 1]),), torch.ones(4)), leaves((4, 4))),
    ("masked_fill_", lambda x: (x * 1).masked_fill_(x > 0, 0.0), leaves((4, 4))),
    ("write to expanded result raises", lambda x: x.sum(0).expand(4, 4).add_(1), leaves((4, 4))),
    ("write to split raises", lambda x: (x * 1).unbind(0)[0].add_(1), leaves((4, 4))),
    ("write to what exp needs", lambda x: x.exp().add_(1), leaves((4, 4))),
    ("write to what sin needs", lambda x: (lambda y: (y.sin(), y.mul_(2)))(x * 1), leaves((4, 4))),
    ("unknown in-place shape raises", lambda x: (x * 1).add_(torch.ones(2, 4, 4)), leaves((4, 4))),
]


# --- functions with their own gradient --------------------------------------------------------------
class Scale(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, g):
        return g * 3


class ViewOf(torch.autograd.Function):
    """Returns a view of its input, with a gradient that is not that view's."""

    @staticmethod
    def forward(ctx, x):
        return x.view(-1)

    @staticmethod
    def backward(ctx, g):
        return (g * 3).view(4, 4)


class Same(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x

    @staticmethod
    def backward(ctx, g):
        return g * 3


class Dirty(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        x.mul_(2)
        ctx.mark_dirty(x)
        return x

    @staticmethod
    def backward(ctx, g):
        return g * 3


class Pair(torch.autograd.Function):
    """One of two gradients is None; the second output is not differentiable."""

    @staticmethod
    def forward(ctx, x, y):
        order = x.argsort(0)
        ctx.mark_non_differentiable(order)
        return x * y, order

    @staticmethod
    def backward(ctx, g, _):
        return g, None


FUNCTIONS = [
    ("own gradient", lambda x: Scale.apply(x), leaves((4, 4))),
    ("own gradient and a view", lambda x: (lambda y: (y[0], y))(Scale.apply(x)), leaves((4, 4))),
    ("own gradient, then written", lambda x: Scale.apply(x).add_(1), leaves((4, 4))),
    ("view with own gradient", lambda x: ViewOf.apply(x), leaves((4, 4))),
    ("view of a result with own gradient", lambda x: ViewOf.apply(x * 1), leaves((4, 4))),
    ("view with own gradient beside its base", lambda x: (lambda y: (y, ViewOf.apply(y)))(x * 1), leaves((4, 4))),
    ("same tensor with own gradient", lambda x: Same.apply(x), leaves((4, 4))),
    ("same result with own gradient", lambda x: Same.apply(x * 1), leaves((4, 4))),
    ("input marked dirty", lambda x: (Dirty.apply(x), x), non_leaves((4, 4))),
    ("result marked dirty", lambda x: Dirty.apply(x * 1), leaves((4, 4))),
    ("leaf marked dirty raises", lambda x: Dirty.apply(x), leaves((4, 4))),
    ("None gradient", lambda x, y: Pair.apply(x, y), leaves((4, 4), (4, 4))),
]


# --- what eager gives no gradient -------------------------------------------------------------------
def no_grad_inside(x, w):
    with torch.no_grad():
        y = x * w
    return y, y * x


NO_GRADIENT = [
    ("unused", lambda x, y: x * 2, leaves((4,), (4,))),
    ("only its shape", lambda x, y: x * y.shape[0], leaves((4,), (4,))),
    ("detached", lambda x, y: x * y.detach(), leaves((4,), (4,))),
    ("only an integer of it", lambda x, y: x * y.argmax(), leaves((4,), (4,))),
    ("comparison", lambda x, y: torch.where(y > 0, x, -x), leaves((4,), (4,))),
    ("zero times", lambda x, y: x + y * 0, leaves((4,), (4,))),
    ("overwritten", lambda x, y: (x * 1).copy_(y), leaves((4,), (4,))),
    ("zeroed", lambda x: (x * 1).zero_(), leaves((4,))),
    ("no_grad inside", no_grad_inside, leaves((4,), (4,))),
    ("no_grad everywhere", under(torch.no_grad, lambda x, y: (x * y, x, x[0])), leaves((4,), (4,))),
    ("inference_mode inside", under(torch.inference_mode, lambda x, y: x * y), leaves((4,), (4,))),
    ("enable_grad inside", under(torch.enable_grad, lambda x, y: (x * y, x[0])), leaves((4,), (4,))),
    ("is_grad_enabled", lambda x: (x * 2, torch.is_grad_enabled(), x.requires_grad), leaves((4,))),
]

TABLES = {
    **WRITING,
    "shared": SHARED,
    "pure": PURE,
    "results": RESULTS,
    "functions": FUNCTIONS,
    "no gradient": NO_GRADIENT,
    "corners": CORNERS,
}
ROWS = {f"{table}: {name}": (function, make) for table, rows in TABLES.items() for name, function, make in rows}
assert len(ROWS) == sum(map(len, TABLES.values())), "two rows have one name"
