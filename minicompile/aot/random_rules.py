"""Random numbers as graphs: on a CPU what eager draws, on a GPU what kernels compute from a seed.

Goes in: ATen operators that draw.  Comes out: rules for `decompositions.py`, where the arithmetic around the draws is
made of small operators, which fuse.  Mirrors `torch/_inductor/fx_passes/replace_random.py`.  Taught in chapter 09.
"""

import math

import torch

from .. import philox
from .layouts import drawn

aten = torch.ops.aten


def native_dropout(x, p, train):
    """Only the mask is drawn."""
    if x.device.type != "cpu" and not philox.in_kernel(x.device):
        return NotImplemented  # eager draws in its own kernel there, by other rules
    if p == 0 or train is False:
        return x.clone(), torch.ones_like(x, dtype=torch.bool)
    if p == 1:  # `torch.dropout` draws nothing then
        return x * 0.0 if x.device.type == "cpu" else torch.zeros_like(x), torch.zeros_like(x, dtype=torch.bool)
    drawn_here = philox.in_kernel(x.device)
    mask = philox.uniform_like(x) < 1 - p if drawn_here else drawn(torch.empty_like(x), 1 - p, torch.bool)
    return x * mask * (1 / (1 - p)), mask


def native_dropout_backward(grad, mask, scale):
    """The factor is not rounded to a half type."""
    return grad * mask * scale


def bernoulli(x, p=0.5, generator=None):
    if not philox.in_kernel(x.device) or generator is not None:
        return NotImplemented
    return (philox.uniform_like(x) < p).to(x.dtype)


def rand_like(x, *, dtype=None, **kwargs):
    """In a half type, numbers just below 1 become 1, which becomes 0: as in eager."""
    dtype = dtype or x.dtype
    if not narrow(x, dtype):
        return NotImplemented
    made = philox.uniform_like(x).to(dtype)
    return torch.where(made == 1, 0, made) if dtype != torch.float32 else made


def randn_like(x, *, dtype=None, **kwargs):
    """Box and Muller: an exponential distance and an angle."""
    dtype = dtype or x.dtype
    if not narrow(x, dtype):
        return NotImplemented
    distance, angle = philox.uniform_like(x, (0, 1))
    return (torch.sqrt(-2 * torch.log(1 - distance)) * torch.cos(2 * math.pi * angle)).to(dtype)


def narrow(x, dtype):
    return philox.in_kernel(x.device) and dtype in (torch.float32, torch.float16, torch.bfloat16)


def sized(rule):
    """The same for operators that take a size."""

    def draw(size, *, dtype=None, layout=None, device=None, pin_memory=None):
        device = torch.device(device or "cpu")
        if not philox.in_kernel(device) or layout not in (None, torch.strided):
            return NotImplemented
        return rule(torch.empty(size, dtype=dtype, device=device))

    return draw


RULES = {
    aten.native_dropout.default: native_dropout,
    aten.native_dropout_backward.default: native_dropout_backward,
    aten.bernoulli.p: bernoulli,
    aten.rand_like.default: rand_like,
    aten.randn_like.default: randn_like,
    aten.rand.default: sized(rand_like),
    aten.randn.default: sized(randn_like),
}
