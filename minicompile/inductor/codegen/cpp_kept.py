"""Rows that stay near: what a later pass of a reduction reads again.

Goes in: the passes of a reduction over a row, or over a tile of columns.  Comes out: small arrays beside its loops, for
rows that are dear to compute; for results that are large and read again, which go from there to memory past the caches;
and for narrow tiles of an input, whose rows lie so far apart that a second-level cache has few places for them.
Mirrors nothing in PyTorch.  Taught in chapter 11.
"""

from .. import ir
from ..indexing import Var, hint, index
from ..scheduler import SCRATCH
from .cpp_expr import COMPUTE, stored_type
from .cpp_loops import LINE, Loop, LoopWriter

COLUMNS = 256  # columns that one pass over the rows reduces at once; a tile of fewer is narrow
ON_STACK = 4096  # elements of kept rows that have room on the stack, where their length is symbolic
DEAR, DEAR_COST = 1 << 20, 16  # bytes of kept rows of this cost (an exponential): what a second-level cache holds
NEAR = 1 << 20  # bytes of an input that are in a second-level cache already
BELOW = 8  # rows by which a narrow tile is fetched ahead


class KeptRows(LoopWriter):
    """The part of `LoopKernel` for what passes hand on."""

    scratch, kept, sent = {}, {}, {}  # name of a node, load of an input, name of a stored node -> its row

    def plan_rows(self):
        """The arrays.  pending: those of `scratch` before a pass has filled them; inputs: load -> (row, that pass)."""
        self.scratch, self.kept, self.sent, self.pending, self.inputs, self.rows = {}, {}, {}, {}, {}, 0
        later = [n for n in self.nodes if n.inner and not n.is_reduction and self.loads_of(n)]
        dear = [n for n in later if n.name not in self.stored and self.is_dear(ir.cost(n.body))]
        readers = self.readers({n.name for n in dear})
        for load, nodes in readers.items():
            if self.is_kept(load, nodes):
                name = self.room(stored_type(load.dtype), load, load.dtype.itemsize)
                self.inputs[load] = name, min(self.level[n.name] for n in nodes)
        free = {load: name for load, (name, _) in self.inputs.items() if stored_type(load.dtype) == "float"}
        for node in dear:
            kind = COMPUTE[node.body.dtype]
            over = [load for load in free if kind == "float" and self.is_last(node, readers[load])]
            self.pending[node.name] = free.pop(over[0]) if over else self.room(kind, node.name)
        for node in later if not self.columns and len(self.inner) == 1 else ():
            there = all(self.addresses.of(x) == node.store for x in self.loads_of(node))
            if there and self.row_bytes() <= SCRATCH and self.goes_far(node, self.inner[0]):
                self.sent[node.name] = name = self.room(stored_type(self.layouts[node.name].dtype), node.name)
                self.near[node.name] = f"{name}[{self.inner[0]}]"

    def loads_of(self, node):
        """Those of later passes."""
        later = (m for m in self.nodes if m.inner and self.level[m.name] > self.level[node.name])
        return [load for m in later for load in ir.loads(m.body) if load.buffer == node.name]

    def is_dear(self, cost):
        return cost > 4 and self.row_bytes() <= (DEAR if cost >= DEAR_COST else SCRATCH)

    # --- arrays ---

    def row_bytes(self, size=4):
        return hint(ir.product(v.size for v in self.inner)) * (self.tile_size if self.columns else 1) * size

    def row_index(self):
        place = self.index(ir.flat_position(self.inner))
        return f"({place})*{self.tile_size} + {self.outer[-1]} - {self.outer[-1]}_tile" if self.columns else place

    def room(self, kind, what, size=4):
        """A new array for a row, or for a tile of columns."""
        name, number, length = f"row{self.rows}", self.rows, ir.product(v.size for v in self.inner)
        width, self.rows, self.made[name] = self.tile_size if self.columns else 1, self.rows + 1, what
        if isinstance(length, int) and self.row_bytes(size) <= SCRATCH:
            self.line(f"alignas(64) {kind} {name}[{length * width}];")
        elif self.is_short(length, ON_STACK // width):
            self.line(f"alignas(64) {kind} {name}[{ON_STACK}];")
        else:
            self.line(f"{kind}* __restrict {name} = m_scratch<{kind}, {number}>({self.size(length * width)});")
        return name

    # --- inputs ---

    def readers(self, dear):
        """{load of an input: the nodes that read it}, also by computing again what is neither dear nor stored."""
        local = {n.name: n for n in self.nodes if not n.is_reduction and n.name not in self.stored | dear}
        found = {}

        def visit(node, reader):
            for load in ir.loads(node.body):
                if load.buffer in local:
                    visit(local[load.buffer], reader)
                elif load.buffer in self.group.reads and reader not in found.setdefault(load, []):
                    found[load].append(reader)

        for node in self.nodes:
            if node.inner:
                visit(node, node)
        return found

    def is_kept(self, load, nodes):
        """Whether a narrow tile of an input, which several passes read, is kept.

        Where a block is walked twice (`first_of`) a row could be read after the one that takes its place is written.
        """
        several = len({self.level[n.name] for n in nodes}) > 1 and not self.first_of
        fits = several and self.row_bytes(load.dtype.itemsize) <= DEAR and load not in self.masked_loads()
        return fits and self.is_far_apart(load.buffer, self.addresses.of(load))

    def is_far_apart(self, name, address):
        """Whether a tile of this input is narrow and has its rows in many pages."""
        if not self.columns or self.tile_size >= COLUMNS or name not in self.group.reads:
            return False
        along = address.is_affine() and address.coefficient(self.outer[-1]) == 1
        return along and {*self.inner} <= {*address.vars()} and hint(self.layouts[name].nbytes()) > NEAR

    def is_last(self, node, readers):
        """Whether it reads an input, in the last pass that does: its row may take the input's place."""
        return node in readers and max(self.level[n.name] for n in readers) == self.level[node.name]

    def fetch_below(self, full, row):
        """What a narrow tile reads some rows further on: processors do not foresee what lies so far apart."""
        x = self.outer[-1]
        start = {row: index(row) + BELOW, x: index(Var(f"{x}_tile + ahead", x.size))}
        near = {(load.buffer, self.addresses.of(load)) for load in self.kept}
        for name, address in dict.fromkeys(read for n in full for read in self.addresses.reads(n)):
            if (name, address) not in near and self.is_far_apart(name, address):
                step = LINE // self.layouts[name].dtype.itemsize
                line = Loop("ahead", "0", str(self.tile_size), step)
                self.line(f"{line} __builtin_prefetch(&{self.names[name]}[{self.index(address.substitute(start))}]);")

    # --- in a pass ---

    def fill_rows(self, full):
        """At one point, when its nodes are computed."""
        for load, (name, level) in self.inputs.items():
            if any(self.level[n.name] == level for n in full):
                self.line(f"{name}[{self.row_index()}] = {super().place(load, self.addresses.of(load), None)};")
        for node in full:
            if node.name in self.pending:
                self.line(f"{self.pending[node.name]}[{self.row_index()}] = {self.forwards[node.name].text};")

    def end_rows(self, full):
        """Rows that a pass has filled can be read from now on, and results go to memory."""
        for load, (name, level) in self.inputs.items():
            if any(self.level[n.name] == level for n in full):
                self.kept[load] = name
        for node in full:
            if node.name in self.pending:
                self.scratch[node.name] = self.pending.pop(node.name)
            if node.name in self.sent:
                del self.near[node.name]
                self.send(node, self.inner[0], "0", self.sent[node.name], self.inner[0].size)

    def place(self, expr, address, mask):
        row = self.kept.get(expr) or self.sent.get(expr.buffer)
        return f"{row}[{self.row_index()}]" if row else super().place(expr, address, mask)
