"""Transposes: what lies side by side along another loop than the vector loop is turned first, a block at a time.

Goes in: a pointwise kernel that reads `y[j, i]` where it writes `out[i, j]`.  Comes out: loops over blocks; each block
of `y` is turned into an array that a second-level cache holds, and then all reads and writes are along rows.  Both
sides of a block are long: short pieces of many rows cost a look-up of a page each, and no processor foresees where the
next one lies.  Mirrors `TilingSelect` of `torch/_inductor/codegen/cpp.py`.  Taught in chapter 11.
"""

from .. import ir
from ..indexing import Var, hint, index
from .cpp_expr import stored_type
from .cpp_loops import LINE, Loop, LoopWriter, TileLoop

SIDE = 16  # elements of the shorter side of a block, at least: a cache line of floats
LENGTH = 256  # elements of a block along the rows of what is turned
ACROSS = 128  # and across them, at most
ROWS = 4  # of a block, by which what is read along rows is fetched ahead
NEAR = 1 << 20  # bytes that are in a second-level cache already
TURNED = 1 << 17  # bytes of all turned blocks: a part of a second-level cache


def is_across(address, u, v):
    return address.coefficient(u) == 1 and address.coefficient(v) not in (0, 1)


class TurnedLoads(LoopWriter):
    """The part of `LoopKernel` for transposes."""

    turned = {}  # load -> its place in a turned block

    def transposed(self):
        """(u, v): some load steps by one along u while the vector loop runs along v."""
        if len(self.outer) < 2 or hint(self.outer[-1].size) < SIDE // 2:
            return None
        v = self.outer[-1]
        for _, address in (read for n in self.nodes for read in self.addresses.reads(n)):
            for u in self.outer[:-1]:
                if is_across(address, u, v) and hint(u.size) >= SIDE // 2:
                    return u, v
        return None

    def in_blocks(self, u, v):
        """The loops: over blocks, and inside of a block along its rows."""
        across = dict.fromkeys(x for n in self.nodes for x in ir.loads(n.body) if is_across(self.addresses.of(x), u, v))
        masked = self.masked_loads()
        usable = [
            x for x in across if x.buffer in self.group.reads and x not in masked and self.addresses.of(x).is_affine()
        ]
        far = any(hint(self.layouts[x.buffer].nbytes()) > NEAR for x in usable)
        width = SIDE if len(usable) < len(across) else ACROSS if far else 2 * SIDE  # lines picked from have to stay
        while width > SIDE and LENGTH * width * sum(x.dtype.itemsize for x in usable) > TURNED:
            width //= 2
        blocks, inside = [], []
        for var, step in ((u, LENGTH), (v, width)):
            size, block = self.size(var.size), f"{var}_block"
            whole = isinstance(var.size, int) and var.size % step == 0
            high = f"{block} + {step}" if whole else f"m_min<int64_t>({block} + {step}, {size})"
            blocks.append(TileLoop(block, "0", size, step, -(-hint(var.size) // step)))
            inside.append(Loop(var, block, high, length=step))
        others = [self.loop(w) for w in self.outer if w not in (u, v)]

        def block():
            self.turn(usable, u, v, width)
            self.nest([(None, inside[:1])], row)

        def row():
            self.fetch_later_rows(u, v, width)
            self.vector_loop(self.simd(), inside[1:], self.nodes, lambda: self.points(self.nodes))

        self.nest(self.parallel([*others, *blocks]), block)

    def turn(self, loads, u, v, width):
        """Arrays with the blocks of these loads, their rows along v."""
        start = {w: index(Var(f"{w}_block", w.size)) for w in (u, v)}
        rows, columns = (
            f"m_min<int64_t>({most}, {self.size(w.size)} - {w}_block)" for w, most in ((v, width), (u, LENGTH))
        )
        for load in loads:
            address, name = self.addresses.of(load), f"turned{len(self.turned)}"
            first, step = self.index(address.substitute(start)), self.size(address.coefficient(v))
            self.line(f"alignas(64) {stored_type(load.dtype)} {name}[{LENGTH * width}];")
            self.line(f"m_turn<{width}>({self.names[load.buffer]} + {first}, {step}, {rows}, {columns}, {name});")
            self.made[name] = load
            self.turned[load] = f"{name}[({u} - {u}_block)*{width} + {v} - {v}_block]"

    def fetch_later_rows(self, u, v, width):
        """What is read along rows already: each row of a block is too short for processors to foresee the next one."""
        start = {u: index(u) + ROWS, v: index(Var(f"{v}_block + ahead", v.size))}
        for name, address in dict.fromkeys(read for n in self.nodes for read in self.addresses.reads(n)):
            if name in self.group.reads and address.is_affine() and address.coefficient(v) == 1 and u in address.vars():
                line = Loop("ahead", "0", str(width), LINE // self.layouts[name].dtype.itemsize)
                self.line(f"{line} __builtin_prefetch(&{self.names[name]}[{self.index(address.substitute(start))}]);")

    def place(self, expr, address, mask):
        return self.turned.get(expr) or super().place(expr, address, mask)
