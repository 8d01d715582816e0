"""Random masks as eager draws them, several times as fast: the same numbers of the same generator.

Goes in: what `aten.bernoulli.p` takes.  Comes out: its result, with the default CPU generator left as eager leaves it.
Mirrors `at::mt19937` and `bernoulli_distribution` in `aten/src/ATen/core/`.  Taught in chapter 11.
"""

import ctypes
import functools
import math

import torch

from . import cpp_build

FEW = 1 << 10  # draws that eager makes sooner than a generator's state is copied
STATE = 5056  # bytes of a state

# The state as `get_state` gives it: int32 left at 8, uint64 next at 16, uint64 words[624] at 24.  `left` counts down to
# the draw that makes new words.  A double is made of two words: it is below p where its 53 bits are.
SOURCE = r"""
#include <cstdint>
#include <cstring>
static inline uint32_t twist(uint32_t a, uint32_t b) {
  return (((a & 0x80000000u) | (b & 0x7fffffffu)) >> 1) ^ (b & 1 ? 0x9908b0dfu : 0);
}
static void renew(uint32_t* s) {
  for (int k = 0; k < 227; ++k) s[k] = s[k + 397] ^ twist(s[k], s[k + 1]);
  for (int k = 227; k < 623; ++k) s[k] = s[k - 227] ^ twist(s[k], s[k + 1]);
  s[623] = s[396] ^ twist(s[623], s[0]);
}
extern "C" void draw(char* state, uint8_t* out, int64_t n, uint64_t below) {
  uint64_t wide[624], next;
  uint32_t s[624], words[625];
  int32_t left, carried = 0;
  memcpy(&left, state + 8, 4);
  memcpy(&next, state + 16, 8);
  memcpy(wide, state + 24, sizeof(wide));
  for (int k = 0; k < 624; ++k) s[k] = (uint32_t)wide[k];
  while (n > 0) {
    if (left == 1) {
      renew(s);
      left = 625;
      next = 0;
    }
    const int64_t wanted = 2 * n - carried;
    const int32_t taken = wanted < left - 1 ? (int32_t)wanted : left - 1;
    for (int k = 0; k < taken; ++k) {
      uint32_t y = s[next + k];
      y ^= y >> 11;
      y ^= (y << 7) & 0x9d2c5680u;
      y ^= (y << 15) & 0xefc60000u;
      words[carried + k] = y ^ (y >> 18);
    }
    left -= taken;
    next += taken;
    const int32_t pairs = (carried + taken) / 2;
    for (int k = 0; k < pairs; ++k)
      out[k] = ((uint64_t)(words[2 * k] & 0x1fffff) << 32 | words[2 * k + 1]) < below;
    carried = (carried + taken) % 2;
    if (carried) words[0] = words[2 * pairs];
    out += pairs;
    n -= pairs;
  }
  for (int k = 0; k < 624; ++k) wide[k] = s[k];
  memcpy(state + 8, &left, 4);
  memcpy(state + 16, &next, 8);
  memcpy(state + 24, wide, sizeof(wide));
}
"""


@functools.cache
def _draw():
    """The function, where it does what eager does: eager has another generator on some processors."""
    function = ctypes.CDLL(str(cpp_build.build(SOURCE))).draw
    function.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_uint64]
    function.restype = None
    generator = torch.Generator().manual_seed(5)
    state, wanted = generator.get_state(), torch.empty(1001, dtype=torch.bool)
    if len(state) != STATE:
        return None
    got = _fill(function, state, torch.empty_like(wanted), 0.3)
    wanted.bernoulli_(0.3, generator=generator)
    return function if torch.equal(got, wanted) and torch.equal(state, generator.get_state()) else None


def _fill(function, state, mask, p):
    function(state.data_ptr(), mask.data_ptr(), mask.numel(), math.ceil(p * 2**53))
    return mask


def bernoulli(like, p, generator=None):
    """`aten.bernoulli.p`."""
    plain = generator is None and like.dtype == torch.bool and like.device.type == "cpu" and like.is_contiguous()
    if not plain or like.numel() < FEW or not 0 <= p <= 1 or _draw() is None:
        return torch.ops.aten.bernoulli.p(like, p, generator=generator)
    state = torch.default_generator.get_state()
    mask = _fill(_draw(), state, torch.empty_like(like), p)
    torch.default_generator.set_state(state)
    return mask
