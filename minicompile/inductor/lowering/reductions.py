"""Reductions: sum, mean, extremes and where they are, truth, products; and scans (cumsum and its kin).

Goes in: a `TensorValue` and dimensions.
Comes out: one that reads a `Reduction` (or `Scan`) buffer, with or without the reduced dimensions.
Half sums accumulate in float32, which is why they are cast before and after.
Mirrors `make_reduction` in `torch/_inductor/lowering.py`.  Taught in chapter 09.
"""

import sympy
import torch

from .. import ir
from ..graph import TensorValue, current
from ..indexing import from_data
from .common import (
    apply,
    aten,
    called,
    canonical_dims,
    cast,
    elementwise,
    fake,
    keepdim_size,
    register_lowering,
    rejected_by_eager,
)
from .creation import filled
from .pointwise import copy_of
from .views import replaced


def nothing_to_choose(x, dims):
    """An extreme of no elements: eager raises.  Of sizes that are read from data it is asked when the graph runs."""
    for n in (x.size[d] for d in dims):
        if from_data(n) and not n.is_positive:
            text = "an extreme of no elements"
            current().extern(aten._assert_scalar.default, (sympy.Gt(n, 0), text), {}, "number", fake=())
    return any(x.size[d] == 0 for d in dims)


def reduce(x, dims, kind, keepdim=False):
    """x reduced over canonical `dims`; a reduction over nothing is the value itself."""
    if not dims:
        return filled(0) if kind in ("argmax", "argmin") else copy_of(x)
    if kind in ("argmax", "argmin") and x.dtype == torch.bool:
        x = cast(x, torch.uint8)
    result = current().reduction(x, dims, kind)
    if not keepdim:
        return result
    return result.view(
        keepdim_size(x, dims), lambda position: tuple(i for d, i in enumerate(position) if d not in dims)
    )


def total(x, dims, kind, keepdim, dtype):
    """A sum or product of elements of this dtype; those of half types are kept in float32."""
    wide, dims = torch.float32 if dtype in ir.HALF else dtype, canonical_dims(x, dims)
    x = cast(cast(x, dtype), wide)
    if kind == "sum" and dtype.is_floating_point and ir.product(x.size[d] for d in dims) == 1:
        x = apply("add", x, 0.0)  # eager begins with 0.0: a -0.0 alone is no sum
    return reduce(x, dims, kind, keepdim)


@register_lowering(aten.sum)
def sum_(x, dims=None, keepdim=False, dtype=None):
    dtype = fake().dtype
    if dtype == torch.bool:
        return NotImplemented
    return cast(total(x, dims, "sum", keepdim, dtype), dtype)


@register_lowering(aten.mean)
def mean(x, dims=None, keepdim=False, dtype=None):
    summed = total(x, dims, "sum", keepdim, fake().dtype)
    count = ir.constant(ir.product(x.size[d] for d in canonical_dims(x, dims)), summed.dtype)
    return cast(elementwise(lambda e: ir.op("truediv", e, count), [summed], summed.dtype), fake().dtype)


@register_lowering(aten.prod)
def prod(x, dims=None, keepdim=False, dtype=None):
    return cast(total(x, dims, "prod", keepdim, fake().dtype), fake().dtype)


@register_lowering(aten.amax, aten.amin, aten.argmax, aten.argmin, aten.max.default, aten.min.default)
def extreme(x, dims=None, keepdim=False):
    dims = canonical_dims(x, dims)
    if nothing_to_choose(x, dims):
        return rejected_by_eager()
    return reduce(x, dims, {"amax": "max", "amin": "min"}.get(called(), called()), keepdim)


@register_lowering(aten.any, aten.all)
def truth(x, dims=None, keepdim=False):
    dims = [] if dims == [] else canonical_dims(x, dims)
    return cast(reduce(cast(x, torch.bool), dims, called(), keepdim), fake().dtype)  # uint8 answers in uint8


@register_lowering(aten.max.dim, aten.min.dim)
def extreme_dim(x, dim, keepdim=False):
    dims = canonical_dims(x, dim)
    if not dims:
        return [copy_of(x), filled(0, fake()[1])]
    if nothing_to_choose(x, dims):
        return rejected_by_eager()
    return [reduce(x, dims, kind, keepdim) for kind in (called(), f"arg{called()}")]


def scan(x, dim, kind, dtype):
    """A running reduction along one dimension; kernels keep sums wider: half types in float, on the CPU in double."""
    if x.ndim == 0:
        return copy_of(cast(x, dtype))
    if 0 in x.size:
        return filled(0)
    variables = ir.loop_vars(x.size)
    layout = ir.Layout.contiguous(x.device, dtype, x.size)
    return current().add_buffer(layout, ir.Scan(variables, dim % x.ndim, kind, cast(x, dtype).body(variables)))


@register_lowering(aten.cumsum, aten.cumprod)
def cumulative(x, dim, dtype=None):
    return scan(x, dim, called().removeprefix("cum"), fake().dtype)


@register_lowering(aten.cummax, aten.cummin)
def running_extreme(x, dim):
    """The latest of equal elements, and of NaNs, is the one that counts: its place is the largest so far."""
    if x.ndim == 0 or 0 in x.size:
        return [copy_of(x), filled(0, fake()[1])]
    dim = dim % x.ndim
    best = scan(x, dim, called().removeprefix("cum"), torch.uint8 if x.dtype == torch.bool else x.dtype)

    def place(position):
        value = x.load(position)
        is_best = ir.op("eq", value, ir.op("cast", best.load(position), dtype=x.dtype))
        if x.dtype.is_floating_point:
            is_best = ir.op("logical_or", is_best, ir.op("isnan", value))
        return ir.op("where", is_best, ir.index_expr(position[dim], torch.int64), ir.constant(0, torch.int64))

    places = scan(TensorValue(x.device, torch.int64, x.size, place), dim, "max", torch.int64)

    def chosen(position):
        return x.load(replaced(position, dim, ir.indirect(places.load(position), x.size[dim], False, False)))

    return [TensorValue(x.device, x.dtype, x.size, chosen), places]
