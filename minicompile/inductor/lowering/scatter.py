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


def scattered(initial, point_size, position_of, value_of, mode):
    """initial, then value_of(point, dtype) stored at (or combined with) position_of(point), for every point in order.

    Combining half numbers is done in float32 and rounded once.
    """
    dtype = torch.float32 if initial.dtype in ir.HALF and mode != "store" else initial.dtype
    variables, points = ir.loop_vars(initial.size), ir.loop_vars(point_size, "p")
    at = tuple(index(p) for p in points)
    body, start = value_of(at, dtype), cast(initial, dtype).body(variables)
    data = ir.Scatter(variables, start, points, tuple(position_of(at)), body, mode)
    layout = ir.Layout.contiguous(initial.device, dtype, initial.size)
    return cast(current().add_buffer(layout, data), initial.dtype)


def elements_of(source):
    """What `scattered` takes: at each point the source's element, or the one number that it is."""

    def value_of(at, dtype):
        number = not isinstance(source, TensorValue)
        return ir.constant(source, dtype) if number else ir.op("cast", source.load(at), dtype=dtype)

    return value_of


def scatter_along(x, dim, indices, source, mode):
    """scatter: the point's own position, with the loaded index in place of dimension `dim`."""
    if x.ndim == 0 or x.ndim != indices.ndim or 0 in x.size:  # no loop would check the indices
        return NotImplemented
    dim = canonical_dim(x, dim)

    def position_of(at):
        return replaced(at, dim, ir.indirect(indices.load(at), x.size[dim], False))

    return scattered(x, indices.size, position_of, elements_of(source), mode)


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
    element = elements_of(broadcast(values, places.size))

    def value_of(at, dtype):
        value = element(at, dtype)
        return value if condition is None else ir.op("where", condition.load(at), value, ir.constant(0, dtype))

    return scattered(x, places.size, places.source, value_of, "add" if accumulate else "store")


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
def index_add(x, dim, indices, source, alpha=1, mode="add"):
    if x.ndim == 0 or x.dtype == torch.bool and mode == "add" or 0 in x.size:
        return NotImplemented
    dim = canonical_dim(x, dim)
    indices = view(indices, [1]) if indices.ndim == 0 else indices
    size = replaced(x.size, dim, indices.size[0])
    if source.size != size:  # eager raises, or takes one element for the only row
        return NotImplemented

    def position_of(at):
        return replaced(at, dim, ir.indirect(indices.load((at[dim],)), x.size[dim], False))

    def value_of(at, dtype):
        value = ir.op("cast", source.load(at), dtype=dtype)
        return value if alpha == 1 else ir.op("mul", value, ir.constant(alpha, dtype))

    return scattered(x, size, position_of, value_of, mode)


register_lowering(aten.index_copy)(functools.partial(index_add, mode="store"))


@register_lowering(aten.embedding_dense_backward)
def embedding_dense_backward(grad, indices, num_weights, padding_idx, scale_grad_by_freq):
    """Each row of grad is added to the row of the weight that it came from; the padding row gets nothing."""
    if scale_grad_by_freq:
        return NotImplemented
    rows = broadcast(view(indices, [*indices.size, 1]), grad.size)

    def position_of(at):
        return (ir.indirect(indices.load(at[:-1]), num_weights, False), at[-1])

    def value_of(at, dtype):
        value = ir.op("cast", grad.load(at), dtype=dtype)
        if padding_idx < 0:
            return value
        row = rows.load(at)
        keep = ir.op("ne", row, ir.constant(padding_idx, row.dtype))
        return ir.op("where", keep, value, ir.constant(0, dtype))

    return scattered(filled(0), grad.size, position_of, value_of, "add")
