"""Tensors from nothing: constants and counters.  They cost no memory traffic, because every reader computes them anew.

Goes in: numbers.  Comes out: a lazy `TensorValue` of constants or positions.
Mirrors `full`, `iota` and `arange` in `torch/_inductor/lowering.py`.  Taught in chapter 09.
"""

import torch

from .. import ir
from ..graph import TensorValue, current, size_of
from .common import aten, fake, register_lowering


def filled(value, like=None):
    """A constant in the shape, dtype and device of the node's fake value."""
    like = fake() if like is None else like
    return made(lambda position: ir.constant(value, like.dtype), like)


def made(inner, like):
    """What a function of positions computes, in the shape, dtype and device of a fake value."""
    return TensorValue(like.device, like.dtype, tuple(map(size_of, like.shape)), inner)


register_lowering(aten.full.default)(lambda size, value, **kwargs: filled(value))
register_lowering(aten.full_like, aten.fill.Scalar)(lambda x, value, **kwargs: filled(value))
register_lowering(aten.scalar_tensor)(lambda value, **kwargs: filled(value))


@register_lowering(aten.lift_fresh_copy)
def lift_fresh_copy(x):
    """`torch.tensor(2.0)` in the user's code: one number is written into the kernels, more are read from memory."""
    literal = current().constants.get(x.base)
    if literal is not None and literal.ndim == 0:
        return filled(literal.item())
    return TensorValue(x.device, x.dtype, x.size, x.load)


@register_lowering(
    aten.empty.memory_format, aten.empty_like, aten.empty_permuted, aten.new_empty, aten.new_empty_strided,
    aten._efficientzerotensor.default,
)  # fmt: skip
def empty(*args, **kwargs):
    """Uninitialised memory is made of zeros: any value will do, and a constant is free."""
    return filled(0)


class Uninitialised(TensorValue):
    """The same, but where an operator of ATen asks for memory it gets some that nobody filled."""

    def realize(self, stride=None):
        kind = {"dtype": self.dtype, "device": self.device}
        size, stride = self.like.shape, self.like.stride() if stride is None else stride
        return current().extern(aten.empty_strided.default, (size, stride), kind, "extern", self.like)


@register_lowering(aten.empty_strided)
def empty_strided(*args, **kwargs):
    zeros = filled(0)
    result = Uninitialised(zeros.device, zeros.dtype, zeros.size, zeros.inner)
    result.like = fake()
    return result


@register_lowering(aten.arange.start_step, aten.arange.start, aten.arange.default)
def arange(start, end=None, step=1, **kwargs):
    start = 0 if end is None else start
    return counter(start, step, fake())


def counter(start, step, like):
    """start + step * i; eager computes floating counters in double, and integer ones in integers."""
    if not like.dtype.is_floating_point:
        start, step = (int(v) if isinstance(v, float) else v for v in (start, step))

    def inner(position):
        (i,) = position
        if not like.dtype.is_floating_point:
            return ir.op("cast", ir.index_expr(i * step + start), dtype=like.dtype)
        number = ir.op("cast", ir.index_expr(i), dtype=torch.float64)
        scaled = ir.op("mul", ir.constant(step, torch.float64), number)
        value = ir.op("add", ir.constant(start, torch.float64), scaled)
        return ir.op("cast", value, dtype=like.dtype)

    return made(inner, like)


register_lowering(torch.ops.prims.iota)(lambda length, *, start, step, **kwargs: counter(start, step, fake()))


@register_lowering(aten.eye)
def eye(*args, **kwargs):
    dtype = fake().dtype
    return made(lambda position: ir.op("cast", ir.op("eq", *map(ir.index_expr, position)), dtype=dtype), fake())


register_lowering(aten.sym_size.int)(lambda x, dim: x.size[dim])
register_lowering(aten.sym_numel)(lambda x: ir.product(x.size))
register_lowering(aten.sym_stride.int, aten.sym_storage_offset)(lambda x, *dim: size_of(fake()))
