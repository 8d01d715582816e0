"""Results that eager's kernels lay out, or draw, in another order than PyTorch's rules for fake tensors say.

Goes in: an operator, its arguments and the result.  Comes out: the result with eager's strides, which the caller sees.
Mirrors nothing in PyTorch.  Taught in chapter 08.
"""

import functools

import torch
from torch._prims_common import suggest_memory_format

aten = torch.ops.aten


def contiguous(x, *others):
    return torch.contiguous_format


def like_input(x, *others):
    """Channels last if the input is, else contiguous."""
    return suggest_memory_format(x)


def elementwise(*tensors):
    """The strides that the inputs agree on: those of their product, which nobody reads."""
    return functools.reduce(torch.mul, tensors).stride()


def drawn(x, p, dtype, generator=None):
    """What `bernoulli_` draws into a tensor: in the order of its memory."""
    order = list(range(x.dim())) if x.is_contiguous() else sorted(range(x.dim()), key=lambda d: -x.stride(d))
    if isinstance(p, torch.Tensor):
        made = aten.bernoulli.default(p.expand(x.shape).permute(order).contiguous(), generator=generator)
    else:
        memory = torch.empty([x.shape[d] for d in order], dtype=dtype, device=x.device)
        made = aten.bernoulli.p(memory, p, generator=generator)
    return made.permute([order.index(d) for d in range(x.dim())])


def bernoulli_(x, p=0.5, generator=None):
    return x.copy_(drawn(x, p, x.dtype, generator))


LAYOUTS = {
    aten.addr.default: lambda x, a, b: elementwise(x, torch.outer(a, b)),
    aten.angle.default: lambda x: torch.contiguous_format if x.is_complex() else torch.preserve_format,
    aten.binary_cross_entropy.default: elementwise,
    aten.channel_shuffle.default: like_input,
    aten.copysign.Tensor: elementwise,
    aten.div.Tensor_mode: elementwise,
    aten.floor_divide.default: elementwise,
    aten.log_sigmoid_forward.default: contiguous,
    aten.native_dropout_backward.default: elementwise,
    aten.reflection_pad2d.default: like_input,
    aten.replication_pad2d.default: like_input,
    aten.roll.default: like_input,
    aten.rrelu_with_noise.default: contiguous,
    aten.rrelu_with_noise_functional.default: contiguous,
    aten.special_xlog1py.default: elementwise,
    aten.xlogy.Tensor: elementwise,
}


def laid_out_as_in_eager(op, args, result):
    """The (first) result, copied where its strides are others.  Symbolic sizes are left alone: none is to be known."""
    first = result[0] if isinstance(result, tuple) else result
    tensors = [a for a in args if isinstance(a, torch.Tensor)]
    if op not in LAYOUTS or not all(type(n) is int for t in (first, *tensors) for n in (*t.shape, *t.stride())):
        return result
    layout = LAYOUTS[op](*tensors)
    if isinstance(layout, torch.memory_format):
        first = first if layout == torch.preserve_format else first.contiguous(memory_format=layout)
    elif first.dim() and tuple(first.stride()) != tuple(layout) and len(layout) == first.dim():
        first = torch.empty_strided(first.shape, layout, dtype=first.dtype, device=first.device).copy_(first)
    return (first, *result[1:]) if isinstance(result, tuple) else first
