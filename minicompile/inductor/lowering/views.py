"""Views: another shape over the same elements, by arithmetic on positions.  Nothing is computed and nothing is copied.

Goes in: a `TensorValue`.
Comes out: one whose `load` rewrites the position first.  Joins (`cat`, `stack`, `pad`) and functional
writes into a view (`slice_scatter`) are here too: they choose by position which element to load.
Mirrors the `View` classes of `torch/_inductor/ir.py`.  Taught in chapter 09.
"""

import functools

import torch

from .. import ir
from ..graph import TensorValue, current, size_of
from ..indexing import delinearize, flatten, from_data, hint, index
from .common import aten, broadcast, called, canonical_dims, cast, fake, promote, register_lowering
from .pointwise import copy_of
from .slices import may_count_from_the_end, replaced, slice_bounds


@register_lowering(aten.alias, aten.detach, aten.lift, aten.lift_fresh)
def alias(x, *ignored, **kwargs):
    return x


@register_lowering(aten.view.default, aten.reshape, aten._unsafe_view, aten._reshape_alias)
def view(x, size, *ignored):
    """The same row-major number in another shape."""
    size = tuple(size)
    if -1 in size:
        rest = ir.product(n for n in size if n != -1)
        size = tuple((ir.quotient(ir.product(x.size), rest) if rest != 0 else 0) if n == -1 else n for n in size)
    if size == x.size:
        return x
    if 0 in size:
        return x.view(size, lambda position: tuple(index(0) for _ in x.size))
    return x.view(size, lambda position: _regroup(position, size, x.size))


def _regroup(position, size, old):
    """Dimensions that are merged or split are matched group by group, so that the arithmetic stays local."""
    result, i, j = [], 0, 0
    while j < len(old):
        first_i, first_j = i, j
        new_count, old_count = 1, old[j]
        j += 1
        if i < len(size):
            new_count, i = size[i], i + 1
        while new_count != old_count:
            if isinstance(new_count, int) and isinstance(old_count, int) and new_count < old_count and i < len(size):
                new_count, i = new_count * size[i], i + 1
            elif isinstance(new_count, int) and isinstance(old_count, int) and j < len(old):
                old_count, j = old_count * old[j], j + 1
            else:  # symbolic sizes that do not cancel, or an empty tensor: one group of all that is left
                i, j = len(size), len(old)
                break
        address = flatten(position[first_i:i], size[first_i:i])
        result.extend(delinearize(address, old[first_j:j]))
    return tuple(result)


@register_lowering(aten.view.dtype)
def view_dtype(x, dtype):
    if dtype.itemsize != x.dtype.itemsize or torch.bool in (dtype, x.dtype):
        return NotImplemented
    if dtype == x.dtype:
        return x
    return TensorValue(x.device, dtype, x.size, lambda position: ir.op("bitcast", x.load(position), dtype=dtype))


@register_lowering(aten.expand)
def expand(x, size, implicit=False):
    missing = len(size) - x.ndim
    return broadcast(x, tuple(x.size[d - missing] if n == -1 else n for d, n in enumerate(size)))


@register_lowering(aten.permute)
def permute(x, dims):
    dims = [d % x.ndim for d in dims]
    inverse = sorted(range(x.ndim), key=dims.__getitem__)
    return x.view([x.size[d] for d in dims], lambda position: tuple(position[k] for k in inverse))


@register_lowering(aten.squeeze)
def squeeze(x, dims=None):
    dims = canonical_dims(x, dims) if dims != [] else []
    gone = {d for d in dims if x.size[d] == 1}
    kept = [d for d in range(x.ndim) if d not in gone]

    def reindex(position):
        values = iter(position)
        return tuple(index(0) if d in gone else next(values) for d in range(x.ndim))

    return x.view([x.size[d] for d in kept], reindex) if gone else x


@register_lowering(aten.unsqueeze)
def unsqueeze(x, dim):
    dim = dim % (x.ndim + 1)
    return x.view((*x.size[:dim], 1, *x.size[dim:]), lambda position: (*position[:dim], *position[dim + 1 :]))


@register_lowering(aten.diagonal)
def diagonal(x, offset=0, dim1=0, dim2=1):
    dim1, dim2 = dim1 % x.ndim, dim2 % x.ndim
    kept = [d for d in range(x.ndim) if d not in (dim1, dim2)]
    count = size_of(fake().shape[-1])

    def reindex(position):
        result = dict(zip(kept, position[:-1], strict=True))
        result |= {dim1: position[-1] + max(-offset, 0), dim2: position[-1] + max(offset, 0)}
        return tuple(result[d] for d in range(x.ndim))

    return x.view((*(x.size[d] for d in kept), count), reindex)


@register_lowering(aten.unfold)
def unfold(x, dim, size, step):
    if x.ndim == 0:
        return view(x, [1]) if size else NotImplemented
    dim = dim % x.ndim
    count = ir.quotient(x.size[dim] - size, step) + 1
    result = (*x.size[:dim], count, *x.size[dim + 1 :], size)
    return x.view(result, lambda position: replaced(position[:-1], dim, position[dim] * step + position[-1]))


@register_lowering(aten.flip)
def flip(x, dims):
    dims = {d % x.ndim for d in dims} if x.ndim else set()

    def flipped(position):
        return tuple(x.size[d] - 1 - i if d in dims else i for d, i in enumerate(position))

    return copy_of(x.view(x.size, flipped))


@register_lowering(aten.roll)
def roll(x, shifts, dims=()):
    if 0 in x.size:
        return copy_of(x)
    if not dims:
        return view(roll(view(x, [ir.product(x.size)]), shifts, [0]), x.size)
    every = tuple((d % x.ndim, s) for s, d in zip(shifts, dims, strict=True))
    if len(dict(every)) != len(dims):
        return NotImplemented

    def inner(position, left=every):
        if not left:
            return x.load(position)
        (d, by), *rest = left
        i, n, ahead = position[d], x.size[d], -by % x.size[d]
        if not isinstance(n, int):
            return inner(replaced(position, d, (i + ahead) % n), rest)
        here, wrapped = (inner(replaced(position, d, i + by), rest) for by in (ahead, ahead - n))
        return ir.Masked(ir.compare("lt", i, n - ahead), here, wrapped)

    return TensorValue(x.device, x.dtype, x.size, inner)


@register_lowering(aten.repeat)
def repeat(x, repeats):
    missing = len(repeats) - x.ndim
    x = broadcast(x, (*[1] * missing, *x.size))
    size = tuple(n * r for n, r in zip(x.size, repeats, strict=True))
    wrapped = lambda p: tuple(i if n == 0 else i % n for i, n in zip(p, x.size, strict=True))  # noqa: E731
    return copy_of(x.view(size, wrapped))


def physical_position(address, layout):
    """The position in a dense buffer of the element at an address (a number of elements from its start)."""
    order = sorted(range(len(layout.size)), key=lambda d: (layout.stride[d], layout.size[d]), reverse=True)
    digits = dict(zip(order, delinearize(address, tuple(layout.size[d] for d in order)), strict=True))
    return tuple(digits[d] for d in range(len(order)))


def is_dense(layout):
    step = 1
    for stride, n in sorted((s, n) for s, n in zip(layout.stride, layout.size, strict=True) if n != 1):
        if stride != step:
            return False
        step = stride * n
    return True


@register_lowering(aten.as_strided)
def as_strided(x, size, stride, offset=None):
    """Element `sum(i * stride) + offset` of the storage; inputs are passed from their first element on."""
    x = x.realize()
    strided, layout = x.strided(), current().layouts[x.base]
    if strided is None or not is_dense(layout) or layout.offset != 0:
        return NotImplemented
    source = current().node.args[0].meta["val"]
    base_offset = source.storage_offset() - strided.layout.offset  # where the buffer starts in eager's storage
    start = strided.layout.offset if offset is None else offset - base_offset

    def reindex(position):
        address = index(start)
        for i, step in zip(position, stride, strict=True):
            address = address + i * step
        if 0 in layout.size:
            return tuple(index(0) for _ in layout.size)
        return physical_position(address, layout)

    return current().value_of(x.base).view(tuple(size), reindex)


# --- joins and functional writes --------------------------------------------------------------------


def in_range(i, start, end, size):
    """The condition start <= i < end on a position of a dimension, without the parts that always hold."""
    parts = []
    if not (isinstance(start, int) and start <= 0):
        parts.append(ir.compare("ge", i, start))
    if end != size:
        parts.append(ir.compare("lt", i, end))
    return parts


def masked(conditions, body, other):
    """`body` where all conditions hold, else `other`."""
    if not conditions:
        return body
    return ir.Masked(functools.reduce(functools.partial(ir.op, "logical_and"), conditions), body, other)


MAX_CAT = 8  # more operands than this: one ATen call copies them faster than a loop that asks which one it is in


@register_lowering(aten.cat)
def cat(tensors, dim=0):
    tensors = [x for x in tensors if x.size != (0,)] or tensors[:1]
    dtype = promote(*tensors)
    dim = dim % tensors[0].ndim
    tensors = [cast(x, dtype) for x in tensors if x.size[dim] != 0] or [cast(tensors[0], dtype)]
    if len(tensors) > MAX_CAT:
        return current().extern(aten.cat.default, (tensors, dim), {}, "extern")
    total = sum(x.size[dim] for x in tensors)
    size = replaced(tensors[0].size, dim, total)
    starts = [sum(x.size[dim] for x in tensors[:k]) for k in range(len(tensors))]

    def inner(position):
        i = position[dim]
        result = tensors[-1].load(replaced(position, dim, i - starts[-1]))
        for x, start, end in reversed(list(zip(tensors, starts, starts[1:], strict=False))):
            inside = ir.op("lt", ir.index_expr(i), ir.index_expr(end))
            result = ir.Masked(inside, x.load(replaced(position, dim, i - start)), result)
        return result

    return TensorValue(tensors[0].device, dtype, size, inner)


def padded(x, pad):
    """((before, after) of each dimension, the size); pad: pairs from the last dimension backwards."""
    pads = [(0, 0)] * (x.ndim - len(pad) // 2) + list(zip(pad[::2], pad[1::2], strict=True))[::-1]
    return pads, tuple(n + a + b for n, (a, b) in zip(x.size, pads, strict=True))


@register_lowering(aten.constant_pad_nd)
def constant_pad_nd(x, pad, value=0):
    """pad: (before, after) from the last dimension backwards; negative numbers cut off."""
    pads, size = padded(x, pad)
    fill = ir.constant(value, x.dtype)

    def inner(position):
        inside, source = [], []
        for i, n, total, (before, _) in zip(position, x.size, size, pads, strict=True):
            inside += in_range(i, before, before + n, total)
            source.append(i - before)
        return masked(inside, x.load(source), fill)

    return TensorValue(x.device, x.dtype, size, inner)


@register_lowering(
    *(getattr(aten, f"{kind}_pad{n}d").default for kind in ("reflection", "replication") for n in (1, 2, 3))
)
def edge_pad(x, pad):
    """Mirrored at the first and the last element, or these again and again."""
    mirrored = "reflection" in current().node.target.__name__
    pads, size = padded(x, pad)

    def inner(position, source=()):
        if len(source) == x.ndim:
            return x.load(source)
        n, (before, after) = x.size[len(source)], pads[len(source)]
        i = position[len(source)] - before
        result = inner(position, (*source, i))
        if before > 0:
            first = -i if mirrored else index(0)
            result = ir.Masked(ir.compare("ge", i, 0), result, inner(position, (*source, first)))
        if after > 0:
            last = index(n - 1) - (i - (n - 1)) if mirrored else index(n - 1)
            result = ir.Masked(ir.compare("lt", i, n), result, inner(position, (*source, last)))
        return result

    return TensorValue(x.device, x.dtype, size, inner)


@register_lowering(aten.slice_scatter)
def slice_scatter(x, source, dim=0, start=None, end=None, step=1):
    dim = dim % x.ndim
    n = x.size[dim]
    if may_count_from_the_end(start, end):
        return NotImplemented
    start, end = slice_bounds(n, start, end)
    source = broadcast(cast(source, x.dtype), replaced(x.size, dim, ir.quotient(end - start + step - 1, step)))

    def inner(position):
        i = position[dim]
        inside = in_range(i, start, end, n)
        if step != 1:
            inside.append(ir.op("eq", ir.index_expr((i - start) % step), ir.constant(0, torch.int64)))
        return masked(inside, source.load(replaced(position, dim, (i - start) // step)), x.load(position))

    return TensorValue(x.device, x.dtype, x.size, inner)


@register_lowering(aten.select_scatter)
def select_scatter(x, source, dim, at):
    dim = dim % x.ndim
    if from_data(at):
        return NotImplemented
    at = at + x.size[dim] if hint(at) < 0 else at
    return slice_scatter(x, unsqueeze(source, dim), dim, at, at + 1)


@register_lowering(aten.diagonal_scatter)
def diagonal_scatter(x, source, offset=0, dim1=0, dim2=1):
    dim1, dim2 = dim1 % x.ndim, dim2 % x.ndim
    kept = [d for d in range(x.ndim) if d not in (dim1, dim2)]

    def inner(position):
        on = ir.op("eq", ir.index_expr(position[dim1] + offset), ir.index_expr(position[dim2]))
        at = position[dim1] - max(-offset, 0)
        return ir.Masked(on, cast(source, x.dtype).load((*(position[d] for d in kept), at)), x.load(position))

    return TensorValue(x.device, x.dtype, x.size, inner)


@register_lowering(aten.tril, aten.triu)
def triangle(x, diagonal=0):
    lower = called() == "tril"

    def inner(position):
        i, j = position[-2:]
        keep = ir.compare("le" if lower else "ge", j - i, diagonal)
        return ir.op("where", keep, x.load(position), ir.constant(0, x.dtype))

    return TensorValue(x.device, x.dtype, x.size, inner)
