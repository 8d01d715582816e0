"""Windows over images: pooling and nearest-neighbour resizing, forward and backward.

Goes in: a `TensorValue` whose last dimensions are spatial.
Comes out: a lazy one that reads every element of its window in one expression.
The backward of an overlapping pool asks, for each input element, which windows it lies in: no scatter.
Mirrors `max_pool2d_with_indices` and `upsample_nearestnd` in `torch/_inductor/lowering.py`.  Taught in chapter 09.
"""

import functools
import itertools
import math

import torch

from .. import ir
from ..graph import TensorValue, size_of
from ..indexing import index
from ..ops import lowest
from .common import aten, fake, register_lowering
from .views import masked

MAX_COVERING = 9  # windows over one element
MAX_WINDOW = 25  # elements; a longer expression compiles slowly and spills registers


def per_side(kernel, stride, *others):
    """Pooling arguments as two numbers each; no stride is the kernel's size."""
    lists = [[value] if isinstance(value, int) else list(value) for value in (kernel, stride or kernel, *others)]
    return [value * 2 if len(value) == 1 else value for value in lists]


def whole_windows(size, output_size):
    """The window of a pool whose windows all have the same shape and lie side by side; else None."""
    fits = static(size, output_size) and not any(n % m for n, m in zip(size, output_size, strict=True))
    return [n // m for n, m in zip(size, output_size, strict=True)] if fits else None


def inside(position, size):
    """The conditions 0 <= i < n that do not hold by the loop ranges anyway."""
    conditions = []
    for i, n in zip(position, size, strict=True):
        low, high = i.bounds()
        if low < 0:
            conditions.append(ir.compare("ge", i, 0))
        if high >= n:
            conditions.append(ir.compare("lt", i, n))
    return conditions


def load_or(x, position, fill):
    """x at a position, `fill` outside of x."""
    return masked(inside(position, x.size), x.load(position), fill)


def window(kernel):
    return itertools.product(*map(range, kernel))


def static(*values):
    return all(isinstance(n, int) and n > 0 for value in values for n in value)


# --- max pooling ------------------------------------------------------------------------------------


@register_lowering(aten.max_pool2d_with_indices)
def max_pool2d_with_indices(x, kernel_size, stride=(), padding=0, dilation=1, ceil_mode=False):
    """A NaN wins, else the first of the greatest; padding never does.  The index counts within one plane."""
    kernel, stride, padding, dilation = per_side(kernel_size, stride, padding, dilation)
    if math.prod(kernel) > MAX_WINDOW or not static(x.size[-2:]) or (any(padding) and dilation != [1, 1]):
        return NotImplemented
    size, width = tuple(map(size_of, fake()[0].shape)), x.size[-1]
    low = ir.constant(lowest(x.dtype), x.dtype)

    def best(position):
        *outer, y0, x0 = position
        first = [i * s - p for i, s, p in zip((y0, x0), stride, padding, strict=True)]
        start = [ir.op("maximum", ir.index_expr(i), ir.constant(0, torch.int64)) for i in first]
        start = [ir.index_expr(i) if i.bounds()[0] >= 0 else e for i, e in zip(first, start, strict=True)]
        place = ir.op("add", ir.op("mul", start[0], ir.constant(width, torch.int64)), start[1])
        value = low
        for offset in window(kernel):
            at = [i + k * d for i, k, d in zip(first, offset, dilation, strict=True)]
            candidate = load_or(x, (*outer, *at), low)
            wins = ir.op("gt", candidate, value)
            if x.dtype.is_floating_point:
                wins = ir.op("logical_or", wins, ir.op("isnan", candidate))
            value = ir.op("where", wins, candidate, value)
            place = ir.op("where", wins, ir.index_expr(at[0] * width + at[1]), place)
        return value, place

    best = functools.cache(best)
    values = TensorValue(x.device, x.dtype, size, lambda position: best(position)[0])
    return [values, TensorValue(x.device, torch.int64, size, lambda position: best(position)[1])]


def covering(i, k, stride, padding, dilation):
    """The windows along one dimension that may hold position i, in order."""
    last = (i + padding) // stride
    return [last - j for j in reversed(range(-(-((k - 1) * dilation + 1) // stride)))]


def in_vectors(x):
    """Whether elements of one window after the other lie side by side in the result: on a CPU, channels."""
    return x.device.type != "cpu" or (fake().dim() == 4 and fake().stride(1) == 1)


@register_lowering(aten.max_pool2d_with_indices_backward)
def max_pool2d_backward(grad, x, kernel_size, stride, padding, dilation, ceil_mode, indices):
    """Each input element takes the gradient of the windows that chose it."""
    kernel, stride, padding, dilation = per_side(kernel_size, stride, padding, dilation)
    windows = math.prod(-(-((k - 1) * d + 1) // s) for k, s, d in zip(kernel, stride, dilation, strict=True))
    most = MAX_COVERING if in_vectors(x) else 1  # ATen's CPU kernel scatters: one visit a window, not one an element
    if windows > most or not static(x.size[-2:], grad.size[-2:]):
        return NotImplemented
    dtype = torch.float32 if x.dtype in ir.HALF else x.dtype
    zero, nowhere = ir.constant(0, x.dtype), ir.constant(-1, torch.int64)

    def inner(position):
        *outer, row, column = position
        here = ir.index_expr(row * x.size[-1] + column)
        total = ir.constant(0, dtype)
        rows = covering(row, kernel[0], stride[0], padding[0], dilation[0])
        columns = covering(column, kernel[1], stride[1], padding[1], dilation[1])
        for at in itertools.product(rows, columns):
            chosen = ir.op("eq", load_or(indices, (*outer, *at), nowhere), here)
            part = ir.Masked(chosen, grad.load((*outer, *at)), zero)
            total = ir.op("add", total, ir.op("cast", part, dtype=dtype))
        return ir.op("cast", total, dtype=x.dtype)

    return TensorValue(x.device, x.dtype, x.size, inner)


# --- average pooling --------------------------------------------------------------------------------


def _overlap(first, k, n, padding):
    """How many elements of a window lie inside [0, n + padding) as an expression."""
    end = ir.op("minimum", ir.index_expr(first + k), ir.constant(n + padding, torch.int64))
    start = ir.index_expr(first)
    if padding == 0 and first.bounds()[0] < 0:
        start = ir.op("maximum", start, ir.constant(0, torch.int64))
    return ir.op("sub", end, start)


@register_lowering(aten.avg_pool2d)
def avg_pool2d(x, kernel_size, stride=(), padding=0, ceil_mode=False, count_include_pad=True, divisor_override=None):
    kernel, stride, padding = per_side(kernel_size, stride, padding)
    if not x.dtype.is_floating_point or math.prod(kernel) > MAX_WINDOW or not static(x.size[-2:]):
        return NotImplemented
    return average(x, kernel, stride, padding, ceil_mode, count_include_pad, divisor_override)


def divisors(x, kernel, padding, ceil_mode, count_include_pad, divisor_override):
    """The function from where a window of x begins to what its sum is divided by."""
    dtype = torch.float32 if x.dtype in ir.HALF else x.dtype
    varying = divisor_override is None and (ceil_mode or (any(padding) and not count_include_pad))

    def divisor(first):
        if not varying:
            return ir.constant(divisor_override or math.prod(kernel), dtype)
        spans = [
            _overlap(i, k, n, p if count_include_pad else 0)
            for i, k, n, p in zip(first, kernel, x.size[-2:], padding, strict=True)
        ]
        return ir.op("cast", ir.op("mul", *spans), dtype=dtype)

    return divisor


def average(x, kernel, stride, padding, ceil_mode=False, count_include_pad=True, divisor_override=None):
    size = tuple(map(size_of, fake().shape))
    dtype = torch.float32 if x.dtype in ir.HALF else x.dtype
    zero = ir.constant(0, x.dtype)
    divisor = divisors(x, kernel, padding, ceil_mode, count_include_pad, divisor_override)

    def inner(position):
        outer, last = position[:-2], position[-2:]
        first = [i * s - p for i, s, p in zip(last, stride, padding, strict=True)]
        total = ir.constant(0, dtype)
        for offset in window(kernel):
            at = [i + k for i, k in zip(first, offset, strict=True)]
            total = ir.op("add", total, ir.op("cast", load_or(x, (*outer, *at), zero), dtype=dtype))
        total = total if divisor_override == 1 else ir.op("truediv", total, divisor(first))
        return ir.op("cast", total, dtype=x.dtype)

    return TensorValue(x.device, x.dtype, size, inner)


@register_lowering(aten._adaptive_avg_pool2d)
def adaptive_avg_pool2d(x, output_size):
    """Where the output divides the input, every window has the same shape."""
    kernel = whole_windows(x.size[-2:], output_size)
    if kernel is None or math.prod(kernel) > MAX_WINDOW:
        return NotImplemented
    return average(x, kernel, kernel, [0, 0])


@register_lowering(aten.avg_pool2d_backward)
def avg_pool2d_backward(grad, x, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override):
    """Each input element takes its share of the gradient of every window that it lies in."""
    kernel, stride, padding = per_side(kernel_size, stride, padding)
    most = MAX_COVERING if in_vectors(x) or max(stride) == 1 else 4 if max(stride) == 2 else 1  # ATen's scatters
    windows = math.prod(-(-k // s) for k, s in zip(kernel, stride, strict=True))
    if windows > most or not static(x.size[-2:], grad.size[-2:]):
        return NotImplemented
    dtype = torch.float32 if x.dtype in ir.HALF else x.dtype
    divisor = divisors(x, kernel, padding, ceil_mode, count_include_pad, divisor_override)

    def inner(position):
        *outer, row, column = position
        total = ir.constant(0, dtype)
        sides = [covering(i, k, s, p, 1) for i, k, s, p in zip((row, column), kernel, stride, padding, strict=True)]
        for at in itertools.product(*sides):
            first = [i * s - p for i, s, p in zip(at, stride, padding, strict=True)]
            conditions = inside(at, grad.size[-2:])
            for i, start, k in zip((row, column), first, kernel, strict=True):
                conditions += inside([i - start], [k])
            share = ir.op("truediv", ir.op("cast", grad.load((*outer, *at)), dtype=dtype), divisor(first))
            total = ir.op("add", total, masked(conditions, share, ir.constant(0, dtype)))
        return ir.op("cast", total, dtype=x.dtype)

    return TensorValue(x.device, x.dtype, x.size, inner)


@register_lowering(aten._adaptive_avg_pool2d_backward)
def adaptive_avg_pool2d_backward(grad, x):
    kernel = whole_windows(x.size[-2:], grad.size[-2:])
    return avg_pool2d_backward(grad, x, kernel, kernel, 0, False, True, None) if kernel else NotImplemented


# --- resizing to the nearest ------------------------------------------------------------------------


def nearest_source(n_in, n_out, scale, exact):
    """For each output position eager's source position, in its float32 arithmetic, and the scale."""
    ratio = torch.tensor(1.0 / scale if scale else n_in / n_out, dtype=torch.float32)
    i = torch.arange(n_out, dtype=torch.float32)
    if n_in == n_out:
        source = i
    elif n_out == 2 * n_in and not exact:
        source = torch.floor(i / 2)
    else:
        source = torch.floor((i + 0.5 if exact else i) * ratio)
    return source.clamp(max=n_in - 1).long(), ratio.item()


def nearest_index(i, n_in, n_out, scale, exact):
    """The source position: i // k where that is what eager computes, else eager's arithmetic as an expression."""
    source, ratio = nearest_source(n_in, n_out, scale, exact)
    k = n_out // n_in
    if k and n_out == k * n_in and torch.equal(source, torch.arange(n_out) // k):
        return i // k
    number = ir.op("cast", ir.index_expr(i), dtype=torch.float32)
    if exact:
        number = ir.op("add", number, ir.constant(0.5, torch.float32))
    number = ir.op("floor", ir.op("mul", number, ir.constant(ratio, torch.float32)))
    number = ir.op("minimum", ir.op("cast", number, dtype=torch.int64), ir.constant(n_in - 1, torch.int64))
    return index(ir.indirect(number, n_in, False, False))


def upsample(x, size, scales, exact):
    n = len(size)
    if not static(x.size[-n:], size):
        return NotImplemented
    scales = (list(scales) + [None] * n)[:n]

    def inner(position):
        places = [nearest_index(*args, exact) for args in zip(position[-n:], x.size[-n:], size, scales, strict=True)]
        return x.load((*position[:-n], *places))

    return TensorValue(x.device, x.dtype, (*x.size[:-n], *size), inner)


for _name, _exact in (("upsample_nearest", False), ("_upsample_nearest_exact", True)):
    register_lowering(*(getattr(aten, f"{_name}{n}d").default for n in (1, 2, 3)))(
        lambda x, size, *scales, exact=_exact: upsample(x, size, scales, exact)
    )


@register_lowering(aten.upsample_nearest2d_backward.default)
def upsample_nearest2d_backward(grad, output_size, input_size, *scales):
    """Whole factors: each input element sums its block of the gradient."""
    size = tuple(map(size_of, fake().shape))[-2:]
    block = whole_windows(output_size, size)
    if block is None or math.prod(block) > MAX_WINDOW:
        return NotImplemented
    for n, m, k, scale in zip(size, output_size, block, (*scales, None, None), strict=False):
        if not torch.equal(nearest_source(n, m, scale, False)[0], torch.arange(m) // k):
            return NotImplemented
    return average(grad, block, block, [0, 0], divisor_override=1)
