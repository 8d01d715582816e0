"""ATen operator -> IR, a short function or one table row each.

Goes in: an ATen operator's arguments, with `TensorValue`s in place of tensors.  Comes out: a `TensorValue` (or a list of them).
Returning NotImplemented calls the ATen kernel instead.  Mirrors `torch/_inductor/lowering.py`.  Taught in chapter 09.
"""

import torch

from . import ir
from .graph import TensorValue, current
from .indexing import index

aten = torch.ops.aten
LOWERINGS = {}  # OpOverload or OpOverloadPacket -> function


def register_lowering(*targets):
    """Decorator: this function lowers these operators (an overload, or a packet for all its overloads)."""

    def decorate(function):
        for target in targets:
            LOWERINGS[target] = function
        return function

    return decorate


def broadcast(value, size):
    """Expand a TensorValue to a size by ATen's rules."""
    missing = len(size) - value.ndim

    def reindex(position):
        return tuple(index(0) if n == 1 else i for i, n in zip(position[missing:], value.size, strict=True))

    return value if value.size == tuple(size) else value.view(size, reindex)


def pointwise(name, dtype, *operands):
    """Apply a scalar operation elementwise to tensors and numbers, broadcast together and cast to `dtype`."""
    tensors = [x for x in operands if isinstance(x, TensorValue)]
    size = torch.broadcast_shapes(*(t.size for t in tensors))
    tensors = [broadcast(x, size) if isinstance(x, TensorValue) else x for x in operands]

    def inner(position):
        args = [
            ir.op("cast", x.load(position), dtype=dtype) if isinstance(x, TensorValue) else ir.constant(x, dtype)
            for x in tensors
        ]
        return ir.op(name, *args)

    device = next(t.device for t in tensors if isinstance(t, TensorValue))
    sample = inner(ir.loop_vars(size))
    return TensorValue(device, sample.dtype, size, inner)


@register_lowering(aten.add.Tensor, aten.add.Scalar)
def add(a, b, alpha=1):
    dtype = current().node.meta["val"].dtype
    if alpha != 1:
        b = pointwise("mul", dtype, b, alpha) if isinstance(b, TensorValue) else b * alpha
    return pointwise("add", dtype, a, b)


@register_lowering(aten.sum.dim_IntList, aten.sum.default)
def sum_(x, dims=None, keepdim=False, dtype=None):
    dtype = current().node.meta["val"].dtype
    dims = [d % x.ndim for d in dims] if dims else list(range(x.ndim))
    typed = TensorValue(x.device, dtype, x.size, lambda position: ir.op("cast", x.load(position), dtype=dtype))
    result = current().reduction(typed, dims, "sum")
    if not keepdim:
        return result
    size = tuple(1 if d in dims else n for d, n in enumerate(x.size))
    return result.view(size, lambda position: tuple(i for d, i in enumerate(position) if d not in dims))
