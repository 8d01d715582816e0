"""Reading at computed places: indexing, gather, embedding.

Goes in: values and integer tensors.
Comes out: a lazy `TensorValue` whose load has an `Indirect` position: an integer that the kernel loads,
checks against the size (eager's IndexError otherwise) and uses as an address.
Mirrors `index_impl` and `gather` in `torch/_inductor/lowering.py`.  Taught in chapter 09.
"""

import torch

from .. import ir
from ..graph import TensorValue, current
from ..indexing import delinearize, index
from .common import aten, broadcast, broadcast_size, canonical_dim, register_lowering
from .views import replaced, view

INTEGERS = (torch.int64, torch.int32, torch.int16, torch.int8)


class Places:
    """Which element of x each position of `x[indices]` is, by NumPy's rules for mixed indices.

    indices: one TensorValue or None (a whole dimension) for each leading dimension of x.
    """

    def __init__(self, x_size, indices, check=True):
        self.x_size, self.check = x_size, check
        self.given = [d for d, i in enumerate(indices) if i is not None]
        self.shape = broadcast_size(*(indices[d].size for d in self.given))  # of the index tensors together
        self.indices = {d: broadcast(indices[d], self.shape) for d in self.given}
        whole = [d for d in range(len(x_size)) if d not in self.given]
        adjacent = self.given == list(range(self.given[0], self.given[-1] + 1))
        self.start = self.given[0] if adjacent else 0  # where the index dimensions stand in the result
        self.whole = whole
        sizes = [x_size[d] for d in whole]
        self.size = (*sizes[: self.start], *self.shape, *sizes[self.start :])

    def source(self, position):
        """A position of the result -> the position in x."""
        end = self.start + len(self.shape)
        at = position[self.start : end]
        result = dict(zip(self.whole, (*position[: self.start], *position[end:]), strict=True))
        for d, values in self.indices.items():
            result[d] = ir.indirect(values.load(at), self.x_size[d], True, self.check)
        return tuple(result[d] for d in range(len(self.x_size)))


def integer_indices(indices, x):
    """False where x has too few dimensions, and where an index is a mask: only the data knows the result's size."""
    return len(indices) <= x.ndim and all(i is None or i.dtype in INTEGERS for i in indices)


@register_lowering(aten.index.Tensor, aten._unsafe_index.Tensor)
def index_tensor(x, indices):
    if not integer_indices(indices, x):
        return NotImplemented
    places = Places(x.size, indices, current().node.target is aten.index.Tensor)
    return TensorValue(x.device, x.dtype, places.size, lambda position: x.load(places.source(position)))


@register_lowering(aten._unsafe_masked_index)
def unsafe_masked_index(x, mask, indices, fill):
    """x[indices] where the mask holds, else fill; the other indices may be anything."""
    places = Places(x.size, indices, False)
    mask = broadcast(mask, places.size)

    def inner(position):
        return ir.Masked(mask.load(position), x.load(places.source(position)), ir.constant(fill, x.dtype))

    return TensorValue(x.device, x.dtype, places.size, inner)


@register_lowering(aten.index_select)
def index_select(x, dim, indices):
    if x.ndim == 0 or 0 in x.size:
        return NotImplemented
    dim = canonical_dim(x, dim)
    indices = view(indices, [1]) if indices.ndim == 0 else indices

    def inner(position):
        at = ir.indirect(indices.load((position[dim],)), x.size[dim], False)
        return x.load(replaced(position, dim, at))

    return TensorValue(x.device, x.dtype, replaced(x.size, dim, indices.size[0]), inner)


@register_lowering(aten.gather)
def gather(x, dim, indices, sparse_grad=False):
    if x.ndim == 0 or x.ndim != indices.ndim:
        return NotImplemented
    dim = canonical_dim(x, dim)

    def inner(position):
        return x.load(replaced(position, dim, ir.indirect(indices.load(position), x.size[dim], False)))

    return TensorValue(x.device, x.dtype, indices.size, inner)


@register_lowering(aten.embedding)
def embedding(weight, indices, padding_idx=-1, scale_grad_by_freq=False, sparse=False):
    def inner(position):
        at = ir.indirect(indices.load(position[:-1]), weight.size[0], False)
        return weight.load((at, position[-1]))

    return TensorValue(weight.device, weight.dtype, (*indices.size, weight.size[1]), inner)


@register_lowering(aten.take)
def take(x, indices):
    count = ir.product(x.size)

    def inner(position):
        at = index(ir.indirect(indices.load(position), count))
        return ir.keep_checks(x.load(delinearize(at, x.size)), (at,), x.size)

    return TensorValue(x.device, x.dtype, indices.size, inner)
