"""The device functions that generated Triton kernels call: arithmetic with ATen's rules, reductions, checked indices.

Goes in: blocks of values.  Comes out: blocks of values.  `ops.py` names them `rt....`; kernels import this module as
`rt`. On a GPU they are compiled into the kernel.  The interpreter has a copy of this module (see `triton_interpret.py`)
whose functions are plain Python on the interpreter's blocks.  Mirrors `torch/_inductor/runtime/triton_helpers.py`.
Taught in chapter 12.
"""

import triton.language as tl

if "jit" not in globals():  # the interpreter's copy brings its own
    from triton import jit
    from triton.language.extra import libdevice

    from .triton_random import uniform, uniform_pairs, uniform_pairs_down, uniform_word  # noqa: F401

# --- types --------------------------------------------------------------------------------------------


@jit
def to_float(x):
    """Half types are computed in float32 ..."""
    return x.to(tl.float32)


@jit
def to_half(x, dtype: tl.constexpr):
    """... and rounded when they are stored."""
    return x.to(tl.float32).to(dtype)


@jit
def cast(x, dtype: tl.constexpr):
    """Tensor.to: rounds half types (which stay float32 values here); floats to small integers go through a wide one."""
    if dtype == tl.int1:
        return x != 0
    elif dtype == tl.bfloat16 or dtype == tl.float16:
        return to_float(to_half(x, dtype))
    elif x.dtype.is_floating() and (dtype == tl.int8 or dtype == tl.int16):
        return x.to(tl.int32).to(dtype)
    elif x.dtype.is_floating() and dtype == tl.uint8:
        return x.to(tl.int64).to(dtype)
    else:
        return x.to(dtype)


@jit
def bitcast(x, source: tl.constexpr, dtype: tl.constexpr):
    """The same bits as another dtype; half types are float32 values outside."""
    if source == tl.bfloat16 or source == tl.float16:
        x = to_half(x, source)
    if dtype == tl.bfloat16 or dtype == tl.float16:
        return to_float(x.to(dtype, bitcast=True))
    else:
        return x.to(dtype, bitcast=True)


# --- division -----------------------------------------------------------------------------------------


@jit
def div(a, b):
    """IEEE division (`/` alone is approximate for float32 in Triton)."""
    if a.dtype == tl.float32:
        return tl.div_rn(a, b)
    else:
        return a / b


@jit
def reciprocal(a):
    return div(tl.full([], 1, a.dtype), a)


@jit
def sqrt(a):
    if a.dtype == tl.float32:
        return tl.sqrt_rn(a)
    else:
        return libdevice.sqrt(a)


@jit
def truncdiv(a, b):
    if a.dtype.is_floating():
        return libdevice.trunc(div(a, b))
    else:
        return a // b


@jit
def fmod(a, b):
    if a.dtype.is_floating():
        return libdevice.fmod(a, b)
    else:
        return a % b


@jit
def _opposite(r, b):
    """Has a nonzero remainder the other sign than the divisor?"""
    return (r != 0) & ((r < 0) != (b < 0))


@jit
def remainder(a, b):
    r = fmod(a, b)
    return tl.where(_opposite(r, b), r + b, r)


@jit
def floordiv(a, b):
    """floor(a / b); floats as ATen does: from the exact remainder, so that the quotient is never one off."""
    if a.dtype.is_floating():
        r = fmod(a, b)
        quotient = div(a - r, b)
        quotient = tl.where(_opposite(r, b), quotient - 1, quotient)
        whole = libdevice.floor(quotient)
        whole = tl.where(quotient - whole > 0.5, whole + 1, whole)
        whole = tl.where(quotient == 0, libdevice.copysign(quotient, div(a, b)), whole)
        return tl.where(b == 0, div(a, b), whole)
    else:
        quotient = a // b
        return tl.where(_opposite(a - quotient * b, b), quotient - 1, quotient)


# --- extremes: a NaN wins maximum and minimum, and loses fmax and fmin; of equals (0.0, -0.0) the first stays --


@jit
def maximum(a, b):
    return tl.where((b > a) | (b != b), b, a)


@jit
def minimum(a, b):
    return tl.where((b < a) | (b != b), b, a)


@jit
def fmax(a, b):
    return tl.where((b > a) | (a != a), b, a)


@jit
def fmin(a, b):
    return tl.where((b < a) | (a != a), b, a)


# --- signs and bits -----------------------------------------------------------------------------------


@jit
def abs(a):
    if a.dtype.is_floating():
        return libdevice.abs(a)
    elif a.dtype.is_int_signed():
        return tl.where(a < 0, -a, a)
    else:
        return a


@jit
def neg(a):
    """The sign bit flipped (Triton before 3.9 makes `-a` from `0 - a`, which loses it for 0.0)."""
    if a.dtype.is_floating():
        return a * -1.0
    else:
        return -a


@jit
def sign(a):
    """-1, 0 or 1; eager's answer for a NaN is 0."""
    return (a > 0).to(a.dtype) - (a < 0).to(a.dtype)


@jit
def isinf(a):
    if a.dtype.is_floating():
        return (a == float("inf")) | (a == float("-inf"))
    else:
        return (a != a) & (a == a)


@jit
def signbit(a):
    if a.dtype == tl.float64:
        return a.to(tl.int64, bitcast=True) < 0
    elif a.dtype.is_floating():
        return a.to(tl.float32).to(tl.int32, bitcast=True) < 0
    else:
        return a < 0


@jit
def bitwise_not(a):
    if a.dtype == tl.uint8:  # which Triton 3.7's interpreter cannot invert
        return 255 - a
    else:
        return ~a


@jit
def shl(a, b):
    width: tl.constexpr = a.dtype.primitive_bitwidth
    outside = (b < 0) | (b >= width)
    return tl.where(outside, 0, a << tl.where(outside, 0, b)).to(a.dtype)


@jit
def shr(a, b):
    """Keeps the sign; shifting everything out leaves the sign alone, or nothing."""
    width: tl.constexpr = a.dtype.primitive_bitwidth
    everything = (b < 0) | (b >= width)
    shifted = a >> tl.where(everything, width - 1, b).to(a.dtype)
    if a.dtype.is_int_signed():
        return shifted
    else:
        return tl.where(everything, 0, shifted).to(a.dtype)


# --- functions of floating numbers ----------------------------------------------------------------------


@jit
def sigmoid(a):
    return div(tl.full([], 1, a.dtype), 1 + libdevice.exp(-a))


@jit
def exp_below(a, peak):
    """exp(a - peak) for a running maximum: nothing seen yet (-inf) counts nothing, whatever the peak is."""
    return tl.where(a == float("-inf"), 0.0, libdevice.exp(a - peak))


@jit
def spread_step(x, total, seen):
    """What the newest of `seen` numbers, whose sum is `total`, adds to the squared distances to their mean."""
    away = x - total * (1.0 / seen)
    return away * away * (seen / tl.maximum(seen - 1.0, 1.0))


@jit
def spread_lanes(squares, totals, total, seen):
    """Squared distances to the mean of each lane -> to the mean of all; totals: the sum of each, total: of all."""
    seen = tl.broadcast_to(seen, totals.shape)
    mean = total / tl.maximum(reduce_sum(seen), 1.0)
    lane = totals / tl.maximum(seen, 1.0)
    return squares + (lane - mean) * (lane - mean) * seen


@jit
def pow(a, b):
    if a.dtype.is_floating():
        return libdevice.pow(a, b)
    else:
        result, base, left = a * 0 + 1, a, b
        for _ in range(64):  # square and multiply; wraps as integers do
            result = tl.where((left & 1) != 0, result * base, result)
            base = base * base
            left = tl.where(left > 0, left >> 1, 0).to(b.dtype)
        one, minus_one = a == 1, a == -1 if a.dtype.is_int_signed() else a != a
        negative = tl.where(one, 1, tl.where(minus_one, 1 - 2 * (b & 1), 0)).to(a.dtype)
        return tl.where(b < 0, negative, result)


@jit
def digamma(a):
    """Reflection for negative numbers, recurrence up to 10, then the asymptotic series."""
    x = a.to(tl.float64)
    whole = libdevice.floor(x) == x
    reflect = (x <= 0) & (x == x)
    pi: tl.constexpr = 3.141592653589793
    fraction = x - libdevice.trunc(x)
    start = tl.where(reflect, -pi / libdevice.tan(pi * fraction), 0.0)
    y = tl.where(reflect, 1.0 - x, x)
    for _ in range(10):
        small = y < 10
        start = tl.where(small, start - 1.0 / tl.where(small, y, 1.0), start)
        y = tl.where(small, y + 1.0, y)
    z = 1.0 / (y * y)
    series = z * (1.0 / 12 - z * (1.0 / 120 - z * (1.0 / 252 - z * (1.0 / 240 - z * (5.0 / 660 - z * 691.0 / 32760)))))
    result = start + libdevice.log(y) - 0.5 / y - series
    result = tl.where(reflect & whole, float("nan"), result)
    result = tl.where(x == 0, libdevice.copysign(x * 0 + float("inf"), neg(x)), result)
    return result.to(a.dtype)


# --- indices ------------------------------------------------------------------------------------------


@jit
def wrapped(i, size):
    """Negative indices count from the end."""
    return tl.where(i < 0, i + size, i)


@jit
def checked(i, size, used):
    """The index, which stops the program where it is used and out of range: never a wild read."""
    tl.device_assert((i >= 0) & (i < size) | (used == 0), "index out of range in self")
    return i


# --- reductions over the last axis of a block, which stays with size 1; and scans along it ----------------


@jit
def _add(a, b):
    return a + b


@jit
def _mul(a, b):
    return a * b


@jit
def _or(a, b):
    return a | b


@jit
def _and(a, b):
    return a & b


@jit
def reduce_sum(x):
    return tl.reduce(x, 1, _add, keep_dims=True)


@jit
def reduce_prod(x):
    return tl.reduce(x, 1, _mul, keep_dims=True)


@jit
def reduce_max(x):
    return tl.reduce(x, 1, maximum, keep_dims=True)


@jit
def reduce_min(x):
    return tl.reduce(x, 1, minimum, keep_dims=True)


@jit
def reduce_any(x):
    return tl.reduce(x.to(tl.int32), 1, _or, keep_dims=True) != 0


@jit
def reduce_all(x):
    return tl.reduce(x.to(tl.int32), 1, _and, keep_dims=True) != 0


@jit
def dot(a, b, acc, precision: tl.constexpr):
    return tl.dot(a, b, acc, input_precision=precision)


@jit
def scan_sum(x):
    return tl.associative_scan(x, 1, _add)


@jit
def scan_prod(x):
    return tl.associative_scan(x, 1, _mul)


@jit
def scan_max(x):
    return tl.associative_scan(x, 1, maximum)


@jit
def scan_min(x):
    return tl.associative_scan(x, 1, minimum)
