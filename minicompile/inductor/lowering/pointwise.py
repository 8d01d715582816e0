"""Elementwise operators: a table row each, and short functions where eager does something of its own.

Goes in: `TensorValue`s and numbers.  Comes out: a lazy `TensorValue`.
Mirrors `register_pointwise` in `torch/_inductor/lowering.py`.  Taught in chapter 09.
"""

import functools
import math
import operator

import torch

from .. import ir
from ..graph import TensorValue
from .common import (
    KIND,
    apply,
    aten,
    broadcast,
    called,
    cast,
    elementwise,
    fake,
    moved,
    number_value,
    promote,
    register_lowering,
    rejected_by_eager,
)
from .creation import filled

# ATen operator -> scalar operation, for those that compute and answer in the promoted dtype.
SAME = """abs neg bitwise_and bitwise_or bitwise_xor bitwise_not maximum minimum fmax fmin remainder fmod relu sign
hypot nextafter"""
# ... that turn integers into floats first.
FLOAT = """sqrt rsqrt reciprocal sigmoid exp exp2 expm1 log log2 log10 log1p sin cos tan asin acos atan sinh cosh tanh
asinh acosh atanh erf erfc erfinv lgamma digamma atan2 copysign"""
# ... whose answer is a bool.
COMPARE = "eq ne lt le gt ge"
# ... on truth values.
LOGICAL = "logical_and logical_or logical_xor logical_not"
# ... that leave integers alone.
ROUND = "floor ceil trunc round.default=round"

# Eager rounds a number to bfloat16/float16 before it adds it, but multiplies and divides by the number itself.
EXACT_NUMBERS = {"cpu": ("mul", "truediv", "floordiv"), "cuda": ("mul", "truediv", "floordiv", "add", "sub")}


def binary(name, *operands, kind=KIND.DEFAULT):
    """A scalar operation in eager's type, with eager's rounding of numbers beside half tensors."""
    dtype = promote(*operands, kind=kind)
    if dtype in ir.HALF and name in EXACT_NUMBERS.get(fake().device.type, ()):
        if any(not isinstance(x, TensorValue) or x.ndim == 0 for x in operands):
            halves = [cast(x, dtype) if isinstance(x, TensorValue) and x.ndim else x for x in operands]
            return cast(apply(name, *halves, dtype=torch.float32), dtype)
    return apply(name, *operands, dtype=dtype)


def _register_table():
    def rule(name, how):
        return lambda *operands, **kwargs: how(name, *operands, **kwargs)

    def rounding(name, x):
        return apply(name, x) if x.dtype.is_floating_point else copy_of(x)

    kinds = {
        SAME: binary,
        FLOAT: lambda name, *x: binary(name, *x, kind=KIND.INT_TO_FLOAT),
        COMPARE: binary,
        LOGICAL: lambda name, *x: apply(name, *x, dtype=torch.bool),
        ROUND: rounding,
    }
    for names, how in kinds.items():
        for entry in names.split():
            target, _, name = entry.partition("=")
            register_lowering(operator.attrgetter(target)(aten))(rule(name or target, how))


_register_table()


def copy_of(x):
    """The same elements in memory of their own."""
    return TensorValue(x.device, x.dtype, x.size, x.load)


@register_lowering(aten.add, aten.sub)
def add(a, b, alpha=1):
    name, dtype = called(), promote(a, b)
    if name == "sub" and any(isinstance(x, TensorValue) and x.dtype == torch.bool for x in (a, b)):
        return rejected_by_eager()
    if dtype == torch.bool and name == "add":
        return apply("logical_or", a, b, dtype=dtype)
    if alpha == 1:
        return binary(name, a, b)
    if dtype not in ir.HALF:
        return apply(name, a, apply("mul", b, alpha, dtype=dtype) if isinstance(b, TensorValue) else b * alpha)
    alpha = ir.constant(alpha, dtype).value  # eager rounds alpha to the half type, and the product not at all
    halves = [cast(x, dtype) if isinstance(x, TensorValue) else ir.constant(x, dtype).value for x in (a, b)]
    scaled = apply("mul", halves[1], alpha, dtype=torch.float32)
    return cast(apply(name, halves[0], scaled, dtype=torch.float32), dtype)


@register_lowering(aten.mul)
def mul(a, b):
    if promote(a, b) == torch.bool:
        return apply("logical_and", a, b, dtype=torch.bool)
    return binary("mul", a, b)


@register_lowering(aten.div, aten.true_divide)
def div(a, b, rounding_mode=None):
    if rounding_mode is None:
        return binary("truediv", a, b, kind=KIND.INT_TO_FLOAT)
    return binary({"floor": "floordiv", "trunc": "truncdiv"}[rounding_mode], a, b)


@register_lowering(aten.signbit)
def signbit(x):
    return apply("signbit" if x.dtype.is_floating_point else "lt", x, *(() if x.dtype.is_floating_point else (0,)))


@register_lowering(aten.isnan, aten.isinf)
def is_special(x):
    if not x.dtype.is_floating_point:
        return elementwise(lambda e: ir.constant(False, torch.bool), [x], None)
    return apply(called(), x)


register_lowering(aten.bitwise_left_shift, aten.__lshift__)(functools.partial(apply, "left_shift"))
register_lowering(aten.bitwise_right_shift, aten.__rshift__)(functools.partial(apply, "right_shift"))


@register_lowering(aten.pow)
def pow_(base, exponent):
    """Eager computes small constant exponents by multiplication and roots."""
    dtype = promote(base, exponent, kind=KIND.BOOL_TO_LONG)
    if not isinstance(base, TensorValue):
        if base == 1:
            return elementwise(lambda e: ir.constant(1, dtype), [exponent], dtype)
        if base == 2 and dtype.is_floating_point:
            return apply("exp2", exponent, dtype=dtype)
    if isinstance(exponent, TensorValue):
        return apply("pow", base, exponent, dtype=dtype)
    powers = {
        0: lambda x: ir.constant(1, dtype),
        1: lambda x: x,
        2: lambda x: ir.op("mul", x, x),
        3: lambda x: ir.op("mul", ir.op("mul", x, x), x),
        0.5: lambda x: ir.op("sqrt", x),
        -0.5: lambda x: ir.op("rsqrt", x),
        -1: lambda x: ir.op("reciprocal", x),
        -2: lambda x: ir.op("reciprocal", ir.op("mul", x, x)),
    }
    roots = dtype != torch.float16 or fake().device.type != "cpu"  # whose kernel has none: (-inf) ** 0.5 is inf there
    if exponent in powers and (dtype.is_floating_point and (roots or exponent % 1 == 0) or exponent in (0, 1, 2, 3)):
        return elementwise(powers[exponent], [base], dtype)
    if not dtype.is_floating_point and exponent < 0:
        return NotImplemented  # eager raises
    return apply("pow", base, exponent, dtype=dtype)


@register_lowering(aten.clamp)
def clamp(x, min=None, max=None):
    """A NaN in x stays; min > max gives max."""
    dtype = promote(x, min, max)
    x = x if min is None else apply("maximum", x, min, dtype=dtype)
    return x if max is None else apply("minimum", x, max, dtype=dtype)


@register_lowering(aten.where)
def where(condition, a, b):
    return choice(cast(condition, torch.bool), a, b, dtype=promote(a, b))


def choice(condition, *values, dtype):
    """The first of two values, tensors or numbers, where a condition holds, else the second."""
    device = fake().device
    values = [cast(x, dtype) if isinstance(x, TensorValue) else number_value(x, dtype, device) for x in values]
    return elementwise(functools.partial(ir.op, "where"), [condition, *values], None, device)


@register_lowering(aten.masked_fill)
def masked_fill(x, mask, value):
    return choice(mask, value, x, dtype=x.dtype)


@register_lowering(aten._to_copy)
def to_copy(x, dtype=None, layout=None, device=None, pin_memory=None, non_blocking=False, memory_format=None):
    if not isinstance(x, TensorValue):  # a number, of which a nested vmap has made a tensor
        return filled(x)
    device = torch.device(device or x.device)
    x = x if device == x.device else moved(x, device)
    if x is None:
        return NotImplemented
    return copy_of(cast(x, dtype or x.dtype))


register_lowering(torch.ops.prims.convert_element_type)(lambda x, dtype: copy_of(cast(x, dtype)))
register_lowering(aten.clone, aten.contiguous, aten.alias_copy)(lambda x, memory_format=None: copy_of(x))


@register_lowering(aten.copy)
def copy(x, source, non_blocking=False):
    if source.device != x.device and source.ndim:
        return NotImplemented
    result = elementwise(lambda e: e, [source], x.dtype, device=x.device)
    return copy_of(broadcast(result, x.size))


@register_lowering(aten.leaky_relu)
def leaky_relu(x, negative_slope=0.01):
    """Eager's compares and multiplies in opmath."""
    dtype = torch.float32 if x.dtype in ir.HALF else x.dtype

    def function(e):
        slope = ir.op("mul", e, ir.constant(negative_slope, dtype))
        return ir.op("where", ir.op("gt", e, ir.constant(0, dtype)), e, slope)

    return cast(elementwise(function, [x], dtype), x.dtype)


@register_lowering(aten.angle)
def angle(x):
    dtype = promote(x, kind=KIND.INT_TO_FLOAT)

    def function(e):
        zero, pi = ir.constant(0, dtype), ir.constant(math.pi, dtype)
        value = ir.op("where", ir.op("lt", e, zero), pi, zero)
        return ir.op("where", ir.op("isnan", e), e, value)

    return elementwise(function, [x], dtype)
