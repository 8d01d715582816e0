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


def uniform_at(seed, index, word=None):
    """A float32 in [0, 1), of 24 random bits.

    word: which of an element's own two; None: an element and its neighbour share two, which is half the work.
    """
    index = index.long()
    first, second = words(seed, index if word is not None else index >> 1)
    chosen = torch.where(index & 1 == 0, first, second) if word is None else (first, second)[word]
    return (chosen >> 8).float() * 2**-24


def draw_seeds(count, device):
    """Seeds from the device's generator, in one draw; each at a multiple of 16 bytes, as kernels like it."""
    if count == 1:  # half of the time: one alone is no part of a larger tensor
        return [torch.empty((), dtype=torch.int64, device=device).random_(-(2**63), 2**63 - 1)]
    drawn = torch.randint(-(2**63), 2**63 - 1, (count, 2), dtype=torch.int64, device=device)
    return list(drawn.select(1, 0).unbind())


def seed(device):
    return draw_seeds(1, device)[0]


def uniform(seed, size, word=None):
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
    "uniform(Tensor seed, SymInt[] size, int? word=None) -> Tensor",
    uniform,
    lambda seed, size, word=None: torch.empty(size, dtype=torch.float32, device=seed.device),
    torch.Tag.pointwise,
)


def uniform_like(x, words=(None,)):
    """Numbers for the elements of a tensor, in the order of its memory: for each word in `words`."""
    order = sorted(range(x.dim()), key=lambda d: -x.stride(d)) if not x.is_contiguous() else list(range(x.dim()))
    first, size = torch.ops.minicompile.seed(x.device), [x.shape[d] for d in order]
    back = [order.index(d) for d in range(x.dim())]
    made = [torch.ops.minicompile.uniform(first, size, word).permute(back) for word in words]
    return made if len(words) > 1 else made[0]
