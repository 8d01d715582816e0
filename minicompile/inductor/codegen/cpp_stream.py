"""Stores past the caches: a result that no cache keeps until it is read goes to memory directly.

Goes in: a vector loop and the nodes that it stores.  Comes out: the loop in pieces that are computed into a small array
and then sent off, a cache line at a time.  An ordinary store first fetches the line that it is about to overwrite: a
copy moves three bytes for two.  Mirrors nothing in PyTorch.  Taught in chapter 11.
"""

import platform

from .. import ir
from ..indexing import Var, index
from ..memory import KEPT
from .cpp_expr import stored_type
from .cpp_loops import LIGHT, Loop, LoopWriter, TileLoop

ABLE = platform.machine() in ("x86_64", "AMD64")
LARGE = 1 << 24  # bytes of a result that caches do not keep, beside what is read for it
PIECE = 1024  # elements that are computed before they are sent off
PIECES = 16  # of them that one thread takes at a time
SHORT = 64  # elements of a row that is worth it, at least


SEND = r"""
// --- stores past the caches, of whole lines; m_fence: what comes behind it comes later
#ifdef __AVX512F__
#define M_WIDE 64
#define M_WIDE_STORE __builtin_ia32_movntps512
#elif defined(__AVX__)
#define M_WIDE 32
#define M_WIDE_STORE __builtin_ia32_movntps256
#endif
template <typename T> static void m_stream(T* __restrict to, const T* __restrict from, int64_t count) {
  int64_t k = 0;
#ifdef M_WIDE
  typedef float V __attribute__((vector_size(M_WIDE)));
  const int64_t line = 64 / sizeof(T), head = m_min<int64_t>((-(uintptr_t)to & 63) / sizeof(T), count);
  for (; k < head; ++k) to[k] = from[k];
  for (; k + line <= count; k += line)
    for (int part = 0; part < 64; part += M_WIDE) {
      V v;
      __builtin_memcpy(&v, (const char*)(from + k) + part, M_WIDE);
#ifdef __clang__
      __builtin_nontemporal_store(v, (V*)((char*)(to + k) + part));
#else
      M_WIDE_STORE((float*)((char*)(to + k) + part), v);
#endif
    }
#endif
  for (; k < count; ++k) to[k] = from[k];
}
M_INLINE void m_fence() {
#ifdef __AVX__
  __builtin_ia32_sfence();
#endif
}
"""


class StreamedStores(LoopWriter):
    """The part of `LoopKernel` for large results."""

    def streamed(self, nodes, var):
        """The nodes whose results go past the caches: large, side by side along the loop, and not read here again."""
        if self.group.kind != "loops":
            return []
        again = {(load.buffer, self.level[n.name]) for n in self.nodes for load in ir.loads(n.body)}
        later = {n.name for n in nodes if any(name == n.name and k > self.level[n.name] for name, k in again)}
        return [n for n in nodes if n.name not in later and self.goes_far(n, var)]

    def goes_far(self, node, var):
        """Whether a result is large, alone in its memory, and stored side by side along a loop that is long."""
        if node.is_reduction or node.name not in self.stored or not self.names[node.name].startswith("out"):
            return False
        size, long = self.layouts[node.name].nbytes(), isinstance(var.size, int) and var.size >= SHORT
        side_by_side = node.store.is_affine() and node.store.coefficient(var) == 1
        large = isinstance(size, int) and LARGE <= size <= KEPT  # beyond, it is new in each call: zeros in a cache
        return long and side_by_side and large and ABLE and self.waits()

    def waits(self):
        """Whether nothing is computed meanwhile, and what is read lies where processors foresee it."""
        full = [n for n in self.nodes if n.inner or not self.inner]
        light = self.columns or sum(ir.cost(n.body) for n in full) <= LIGHT
        return light and all(address.is_affine() for n in full for _, address in self.addresses.reads(n))

    def in_parts(self, loop):
        """One long loop as one over parts, which threads share, and one inside a part."""
        x, step = loop.var, PIECE * PIECES
        part = TileLoop(f"{x}_part", loop.low, loop.high, step, -(-x.size // step))
        high = f"{part.var} + {step}"
        return [part, Loop(x, part.var, high if x.size % step == 0 else f"m_min<int64_t>({high}, {loop.high})")]

    def vector_loop(self, pragma, loops, nodes, body):
        """Loops of which the last is a vector loop over these nodes."""
        *around, loop = loops
        x, streamed = loop.var, self.streamed(nodes, loop.var) if nodes else ()
        if not streamed:
            self.nest([(pragma, loops)], body)
            return

        def piece(start, end, size):
            from_start = "" if start == "0" else f" - {start}"
            count = size if end == f"{start} + {size}" else f"{end}{from_start}"
            arrays = [(node, self.fresh("near", node.name)) for node in streamed]
            for node, near in arrays:
                self.line(f"alignas(64) {stored_type(self.layouts[node.name].dtype)} {near}[{size}];")
                self.near[node.name] = f"{near}[{x}{from_start}]"
            self.nest([(pragma, [Loop(x, start, end)])], body)
            for node, near in arrays:
                del self.near[node.name]
                self.send(node, x, start, near, count)

        def some():
            last = f"{start} + {PIECE}"
            whole = x.size % PIECE == 0 and (loop.low == f"{x}_part" or (loop.low, loop.high) == ("0", str(x.size)))
            self.line(f"const int64_t {end} = {last if whole else f'm_min<int64_t>({last}, {loop.high})'};")
            piece(start, end, PIECE)

        length, start, end = loop.length or x.size, f"{x}_piece", f"{x}_until"
        if length > PIECE:
            self.nest([(None, [*around, Loop(start, loop.low, loop.high, PIECE)])], some)
        elif around:
            self.nest([(None, around)], lambda: piece(loop.low, loop.high, length))
        else:
            piece(loop.low, loop.high, length)

    def send(self, node, x, start, near, count):
        """What an array holds goes to where a node is stored, from `start` on."""
        first = self.index(node.store.substitute({x: index(0 if start == "0" else Var(start, x.size))}))
        self.line(f"m_stream(&{self.names[node.name]}[{first}], {near}, {count});")
        self.streams = True
