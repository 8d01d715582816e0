"""Writing at computed places: scatter and its kin, index_put, index_add, the backward of an embedding.

Goes in: an initial value, integer tensors, new values.  Comes out: a `TensorValue` that reads a `Scatter` buffer.
Mirrors `scatter_reduce_` and `index_put_` in `torch/_inductor/lowering.py`.  Taught in chapter 09.
"""

import functools

import torch

from .. import ir
from ..graph import TensorValue, current
from ..indexing import index
from .common import aten, broadcast, canonical_dim, cast, register_lowering
from .creation import filled
from .index_ops import Places, integer_indices
from .views import replaced, view

MODES = {"sum": "add", "add": "add", "prod": "prod", "multiply": "prod", "amax": "max", "amin": "min"}


def scatter_buffer(initial, point_size, position_of, body_of, mode):
    """initial, then body_of(point) stored at (or combined with) position_of(point), for every point in order."""
    variables, points = ir.loop_vars(initial.size), ir.loop_vars(point_size, "p")
    at = tuple(index(p) for p in points)
    body = body_of(at)
    data = ir.Scatter(variables, initial.body(variables), points, tuple(position_of(at)), body, mode)
    layout = ir.Layout.contiguous(initial.device, initial.dtype, initial.size)
    return current().add_buffer(layout, data)


def in_accumulator(x, mode, build):
    """Combining half numbers is done in float32 and rounded once."""
    if x.dtype in ir.HALF and mode != "store":
        return cast(build(cast(x, torch.float32), torch.float32), x.dtype)
    return build(x, x.dtype)


def scatter_along(x, dim, indices, source, mode):
    """scatter: the point's own position, with the loaded index in place of dimension `dim`."""
    if x.ndim == 0 or x.ndim != indices.ndim or 0 in x.size:  # no loop would check the indices
        return NotImplemented
    dim = canonical_dim(x, dim)

    def position_of(at):
        return replaced(at, dim, ir.indirect(indices.load(at), x.size[dim], False))

    def build(initial, dtype):
        def body_of(at):
            value = source.load(at) if isinstance(source, TensorValue) else ir.constant(source, dtype)
            return ir.op("cast", value, dtype=dtype)

        return scatter_buffer(initial, indices.size, position_of, body_of, mode)

    return in_accumulator(x, mode, build)


register_lowering(aten.scatter.src, aten.scatter.value)(functools.partial(scatter_along, mode="store"))
register_lowering(aten.scatter_add)(functools.partial(scatter_along, mode="add"))
register_lowering(aten.scatter.reduce, aten.scatter.value_reduce)(
    lambda x, dim, indices, source, *, reduce: scatter_along(x, dim, indices, source, MODES[reduce])
)


@register_lowering(aten.scatter_reduce.two)
def scatter_reduce(x, dim, indices, source, reduce, *, include_self=True):
    if reduce not in MODES or not include_self:
        return NotImplemented
    return scatter_along(x, dim, indices, source, MODES[reduce])


def put(x, indices, values, accumulate, check=True, condition=None):
    """x[indices] = values (or +=); `condition` leaves points out."""
    if not integer_indices(indices, x) or x.dtype == torch.bool and accumulate or 0 in x.size:
        return NotImplemented
    places = Places(x.size, indices, check)
    values = broadcast(values, places.size)
    mode = "add" if accumulate else "store"

    def build(initial, dtype):
        def body_of(at):
            value = ir.op("cast", values.load(at), dtype=dtype)
            return value if condition is None else ir.op("where", condition.load(at), value, ir.constant(0, dtype))

        return scatter_buffer(initial, places.size, places.source, body_of, mode)

    return in_accumulator(x, mode, build)


@register_lowering(aten.index_put)
def index_put(x, indices, values, accumulate=False):
    mask = indices[0] if len(indices) == 1 else None
    if mask is not None and mask.dtype == torch.bool and not accumulate and ir.product(values.size) == 1:
        return _masked_put(x, mask, view(values, []))
    return put(x, indices, values, accumulate)


def _masked_put(x, mask, value):
    """x[mask] = one number: the size that only the data knows is not needed."""

    def inner(position):
        number = ir.op("cast", value.load(()), dtype=x.dtype)
        return ir.op("where", mask.load(position[: mask.ndim]), number, x.load(position))

    return TensorValue(x.device, x.dtype, x.size, inner)


@register_lowering(aten._unsafe_masked_index_put_accumulate)
def masked_index_put_accumulate(x, mask, indices, values):
    """Adds values where the mask holds; elsewhere it adds 0 at an index that is clamped into range."""
    clamped = []
    for n, i in zip(x.size, indices, strict=False):
        clamped.append(i if i is None else _clamped(i, n))
    places = Places(x.size, indices)
    return put(x, clamped, values, True, check=False, condition=broadcast(mask, places.size))


def _clamped(indices, n):
    def inner(position):
        value = ir.op("cast", indices.load(position), dtype=torch.int64)
        value = ir.op("maximum", value, ir.constant(-n, torch.int64))
        return ir.op("minimum", value, ir.constant(n - 1, torch.int64))

    return TensorValue(indices.device, torch.int64, indices.size, inner)


@register_lowering(aten.index_add)
def index_add(x, dim, indices, source, alpha=1):
    if x.ndim == 0 or x.dtype == torch.bool or 0 in x.size:
        return NotImplemented
    dim = canonical_dim(x, dim)
    indices = view(indices, [1]) if indices.ndim == 0 else indices
    return _index_along(x, dim, indices, source, alpha, "add")


@register_lowering(aten.index_copy)
def index_copy(x, dim, indices, source):
    if x.ndim == 0 or 0 in x.size:
        return NotImplemented
    indices = view(indices, [1]) if indices.ndim == 0 else indices
    return _index_along(x, canonical_dim(x, dim), indices, source, 1, "store")


def _index_along(x, dim, indices, source, alpha, mode):
    size = replaced(x.size, dim, indices.size[0])
    if source.size != size:  # eager raises, or takes one element for the only row
        return NotImplemented

    def position_of(at):
        return replaced(at, dim, ir.indirect(indices.load((at[dim],)), x.size[dim], False))

    def build(initial, dtype):
        def body_of(at):
            value = ir.op("cast", source.load(at), dtype=dtype)
            return value if alpha == 1 else ir.op("mul", value, ir.constant(alpha, dtype))

        return scatter_buffer(initial, size, position_of, body_of, mode)

    return in_accumulator(x, mode, build)


@register_lowering(aten.embedding_dense_backward)
def embedding_dense_backward(grad, indices, num_weights, padding_idx, scale_grad_by_freq):
    """Each row of grad is added to the row of the weight that it came from; the padding row gets nothing."""
    if scale_grad_by_freq:
        return NotImplemented
    zero = filled(0)
    rows = broadcast(view(indices, [*indices.size, 1]), grad.size)

    def position_of(at):
        return (ir.indirect(indices.load(at[:-1]), num_weights, False), at[-1])

    def build(initial, dtype):
        def body_of(at):
            value = ir.op("cast", grad.load(at), dtype=dtype)
            if padding_idx < 0:
                return value
            row = rows.load(at)
            keep = ir.op("ne", row, ir.constant(padding_idx, row.dtype))
            return ir.op("where", keep, value, ir.constant(0, dtype))

        return scatter_buffer(initial, grad.size, position_of, body_of, "add")

    return in_accumulator(zero, "add", build)
