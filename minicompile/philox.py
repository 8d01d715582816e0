"""Random numbers that a kernel computes where it needs them: Philox-2x32-10, a function of a seed and a position.

Goes in: a seed that the device's generator draws (`seed`: so `torch.manual_seed` rules, and a CUDA graph draws anew at
each replay), and the number of an element.  Comes out: `minicompile::seed` and `minicompile::uniform` as operators of
PyTorch, and the arithmetic of the second on tensors.  Forward and backward compute the same numbers from the same seed.
Salmon et al., "Parallel random numbers: as easy as 1, 2, 3" (2011).  Mirrors `torch/_inductor/inductor_prims.py`.
Taught in chapter 12.
"""

import math

import torch

from . import config

MULTIPLIER, WEYL, ROUNDS, WORD = 0xD256D193, 0x9E3779B9, 10, 0xFFFFFFFF


def in_kernel(device):
    """Are random numbers of this device computed in kernels, instead of drawn by eager's?"""
    return device.type == "cuda" and not config.fallback_random


def words(seed, index):
    """Both 32-bit words for a seed and the number of an element, as int64."""
    key, high, low = seed & WORD, (seed >> 32 ^ index >> 32) & WORD, index & WORD
    for _ in range(ROUNDS):
        product = low * MULTIPLIER  # wraps where it has more than 63 bits: all 64 are there
        low, high = (product >> 32 ^ key ^ high) & WORD, product & WORD
        key = key + WEYL & WORD
    return low, high


def uniform_at(seed, index, word=0):
    """A float32 in [0, 1), of 24 random bits."""
    return (words(seed, index.long())[word] >> 8).float() * 2**-24


def draw_seeds(count, device):
    """Seeds from the device's generator, in one draw; each at a multiple of 16 bytes, as kernels like it."""
    drawn = torch.randint(-(2**63), 2**63 - 1, (count, 2), dtype=torch.int64, device=device)
    return list(drawn.select(1, 0).unbind())


def seed(device):
    return draw_seeds(1, device)[0]


def uniform(seed, size, word):
    return uniform_at(seed, torch.arange(math.prod(size), device=seed.device), word).reshape(size)


library = torch.library.Library("minicompile", "FRAGMENT")


def define(schema, function, fake, tag):
    """An operator; fake: its result without its numbers."""
    name = schema.split("(")[0]
    library.define(schema, tags=(tag,))
    library.impl(name, function, "CompositeExplicitAutograd")
    torch.library.register_fake(f"minicompile::{name}", fake, lib=library)


define(
    "seed(Device device) -> Tensor",
    seed,
    lambda device: torch.empty((), dtype=torch.int64, device=device),
    torch.Tag.nondeterministic_seeded,
)
define(  # what inductor makes of all the `seed`s of a graph
    "seeds(int count, Device device) -> Tensor[]",
    draw_seeds,
    lambda count, device: [torch.empty((), dtype=torch.int64, device=device) for _ in range(count)],
    torch.Tag.nondeterministic_seeded,
)
define(
    "uniform(Tensor seed, SymInt[] size, int word) -> Tensor",
    uniform,
    lambda seed, size, word: torch.empty(size, dtype=torch.float32, device=seed.device),
    torch.Tag.pointwise,
)


def uniform_like(x, *more):
    """Numbers for the elements of a tensor, in the order of its memory; for each word in `more`, others as well."""
    order = sorted(range(x.dim()), key=lambda d: -x.stride(d)) if not x.is_contiguous() else list(range(x.dim()))
    first, size = torch.ops.minicompile.seed(x.device), [x.shape[d] for d in order]
    back = [order.index(d) for d in range(x.dim())]
    made = [torch.ops.minicompile.uniform(first, size, word).permute(back) for word in (0, *more)]
    return made if more else made[0]
