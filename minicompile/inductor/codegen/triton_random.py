"""The device functions that compute random numbers: Philox-2x32-10, as philox.py defines it.

Goes in: a seed, and a block of numbers of elements.  Comes out: a block of float32 numbers in [0, 1).  `triton_ops.py`
hands them on.  Mirrors `tl.rand` of Triton and `triton_helpers.py` of PyTorch.  Taught in chapter 12.
"""

import triton.language as tl

if "jit" not in globals():  # the interpreter's copy brings its own
    from triton import jit


@jit
def _words(seed, index):
    """Philox-2x32-10 of a seed and a number; see philox.py."""
    if index.dtype == tl.int64:
        seed = seed ^ (index & -(1 << 32))
    key, high, low = seed.to(tl.uint32), (seed >> 32).to(tl.uint32), index.to(tl.uint32)
    for _ in tl.static_range(10):
        product = low.to(tl.uint64) * 0xD256D193
        low, high = (product >> 32).to(tl.uint32) ^ key ^ high, product.to(tl.uint32)
        key = key + 0x9E3779B9
    return low, high


@jit
def _unit(word):
    return (word >> 8).to(tl.float32) * 5.9604644775390625e-08


@jit
def uniform_word(seed, index, word: tl.constexpr):
    """One of the two words of an element."""
    low, high = _words(seed, index)
    return _unit(low if word == 0 else high)


@jit
def uniform(seed, index):
    """An element has one word of the pair that it shares with its neighbour."""
    low, high = _words(seed, index >> 1)
    return _unit(tl.where(index % 2 == 0, low, high))


@jit
def uniform_pairs(seed, index):
    """The same where both of a pair lie side by side along the last axis: the words are computed once for the two."""
    if len(index.shape) == 1:
        even, _ = tl.split(tl.reshape(index, [index.shape[0] // 2, 2]))
    else:
        even, _ = tl.split(tl.reshape(index, [index.shape[0], index.shape[1] // 2, 2]))
    low, high = _words(seed, even >> 1)
    return _unit(tl.reshape(tl.join(low, high), index.shape))


@jit
def uniform_pairs_down(seed, index):
    """... and where they lie along the first of two axes."""
    return tl.trans(uniform_pairs(seed, tl.trans(index)))
