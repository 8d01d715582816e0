"""Slices: views that take a range of a dimension, one place of it, or several ranges side by side.

Goes in: a `TensorValue` and bounds: numbers, expressions of symbolic sizes, or numbers that are read from data.
Comes out: one whose `load` moves the position first.  What is read from data may lie outside or count from the end:
ATen takes the view then, and says what eager says.
Mirrors `slice_`, `select` and `split` in `torch/_inductor/lowering.py`.  Taught in chapter 09.
"""

import sympy

from .. import ir
from ..graph import size_of
from ..indexing import from_data, hint, index
from .common import aten, fake, register_lowering


def replaced(position, dim, value):
    return (*position[:dim], value, *position[dim + 1 :])


@register_lowering(aten.select.int)
def select(x, dim, at):
    dim = dim % x.ndim
    if from_data(at):  # ATen checks it
        return NotImplemented
    at = at + x.size[dim] if hint(at) < 0 else at  # a guard says which
    size = (*x.size[:dim], *x.size[dim + 1 :])
    return x.view(size, lambda position: (*position[:dim], index(at), *position[dim:]))


def slice_bounds(n, start, end):
    """Python's slice rules.  On which side of 0 and of the size a symbolic bound lies, guards say."""
    start, end = clamped(0 if start is None else start, n), clamped(n if end is None else end, n)
    return start, end if from_data(n, start, end) or hint(end) >= hint(start) else start


def clamped(bound, n):
    if from_data(bound, n):
        return n if isinstance(bound, int) and bound >= 2**63 - 1 else bound
    bound = bound + n if hint(bound) < 0 else bound
    return 0 if hint(bound) < 0 else n if hint(bound) > hint(n) else bound


def may_count_from_the_end(*bounds):
    return from_data(*bounds) and any(isinstance(b, sympy.Expr) and not b.is_nonnegative for b in bounds)


@register_lowering(aten.slice.Tensor)
def slice_tensor(x, dim=0, start=None, end=None, step=1):
    if may_count_from_the_end(start, end):
        return NotImplemented
    count = size_of(fake().shape[dim]) if from_data(start, end) else None  # no more than there are
    return slice_(x, dim, start, end, step, count)


def slice_(x, dim=0, start=None, end=None, step=1, count=None):
    dim = dim % x.ndim
    start, end = slice_bounds(x.size[dim], start, end)
    count = ir.quotient(end - start + step - 1, step) if count is None else count
    size = (*x.size[:dim], count, *x.size[dim + 1 :])
    return x.view(size, lambda position: replaced(position, dim, position[dim] * step + start))


@register_lowering(aten.split_with_sizes)
def split_with_sizes(x, sizes, dim=0):
    result, start = [], 0
    for n in sizes:
        result.append(slice_(x, dim, start, start + n))
        start = start + n
    return result


@register_lowering(aten.unbind.int)
def unbind(x, dim=0):
    return [select(x, dim, k) for k in range(len(fake()))]
