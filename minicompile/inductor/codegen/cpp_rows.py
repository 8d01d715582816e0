"""Reductions along rows: the reduced loop is the contiguous one, so that a vector holds parts of one result.

Goes in: a group whose last inner loop is contiguous.  Comes out: for each pass a vector loop over a row, with partial
results side by side and the next row fetched meanwhile.  Mirrors the inner-loop vectorisation of
`torch/_inductor/codegen/cpp.py`.  Taught in chapter 11.
"""

import dataclasses

from .. import ir
from ..indexing import index
from .common import Forward
from .cpp_expr import COMPUTE
from .cpp_loops import LIGHT, LINE, Loop, TileLoop, acc_type, clause, combine, identity, sums_up, total_type
from .cpp_pairs import LANES, PairReductions

BLOCK = 2048  # elements summed in float32, side by side in lanes, before they are added to a float64 total
CHUNKS = 64  # parts of a reduction that are computed in parallel and then combined in order
AHEAD = 1 << 17  # bytes of a row that is fetched while the one before it is computed


class RowReductions(PairReductions):
    """The part of `LoopKernel` for reductions along rows."""

    def row_reduction(self):
        split = self.few_rows(ir.product(self.likely(v.size) for v in self.outer))

        def body():
            self.plan_rows()
            for node in self.outer_nodes(-1):
                self.emit(node)
            for level, full in self.passes():
                self.row_pass(full, split)
                for node in self.outer_nodes(level):
                    self.emit(node)

        loops = [self.loop(v) for v in self.outer]
        self.nest([(None, [loop]) for loop in loops] if split else self.parallel(loops), body)

    def row_pass(self, full, split):
        """One run over the reduced loops: `acc` per vector loop, added to `total`."""
        reductions = [n for n in full if n.is_reduction]
        *outside, last = [self.loop(v) for v in self.inner]
        depth = len(self.scopes) - 1
        ahead = self.next_rows(full)
        simple = (
            not outside and not split and (not any(map(sums_up, reductions)) or self.is_short(last.var.size, BLOCK))
        )
        names = {n.name: self.fresh("acc", n.name) for n in reductions}
        totals = {n.name: names[n.name] if simple else self.fresh("total", n.name) for n in reductions}
        for node in reductions if not simple else ():
            self.line(f"{total_type(node)} {totals[node.name]} = {identity(node, total_type(node))};")

        def along(low, high):
            aside = ahead or any(map(sums_up, reductions)) or sum(ir.cost(n.body) for n in full) <= LIGHT
            lanes = reductions and (aside or self.pairs) and self.likely(last.var.size) >= 4 * LANES
            for node in reductions:
                kind = total_type(node) if lanes else acc_type(node)
                self.line(f"{kind} {names[node.name]} = {identity(node, kind)};")
            if lanes:
                self.lanes(full, names, Loop(last.var, low, high), ahead)
            else:
                clauses = [(clause(n), names[n.name]) for n in reductions]
                body = lambda: self.point_of_pass(full, names)  # noqa: E731
                self.vector_loop(self.simd(clauses), [Loop(last.var, low, high)], full, body)
            if not simple:
                self.join(reductions, totals, names, total_type)

        if simple:
            along("0", last.high)
        elif outside:
            self.shared(outside, reductions, totals, split, lambda: along("0", last.high))
        else:
            size = last.var.size
            block = TileLoop("block", "0", last.high, BLOCK, -(-size // BLOCK) if isinstance(size, int) else size)
            high = f"m_min<int64_t>(block + {BLOCK}, {last.high})"
            self.shared([block], reductions, totals, split, lambda: along("block", high))
        for node in reductions:
            text = f"({COMPUTE[node.body.dtype]}){self.result(node, totals)}"
            self.forwards[node.name] = Forward(text, depth)
            self._facts.clear()
            if node.name in self.stored:
                self.store(node.name, node.store, text)
        self.end_pass(full)

    def next_rows(self, full):
        """(buffer, address) of what the first of several passes reads, one row further on."""
        row = ir.product(self.likely(v.size) for v in self.inner)
        if not self.outer or max(self.level.values()) <= 0 or any(self.level[n.name] for n in full):
            return []
        along, across, found = self.inner[-1], self.outer[-1], {}
        for name, address in (read for n in full for read in self.addresses.reads(n)):
            near = row * self.layouts[name].dtype.itemsize <= AHEAD and name in self.group.reads
            if near and address.is_affine() and address.coefficient(along) == 1 and address.coefficient(across) != 0:
                found[name, address.substitute({across: index(across) + 1})] = None
        return list(found)

    def lanes(self, full, names, loop, ahead):
        """A vector loop with LANES partial results side by side, added to `acc`.

        ahead: what to fetch meanwhile: processors do not foresee the next row while this one is walked again.
        """
        var, reductions = loop.var, [n for n in full if n.is_reduction]
        parts = {n.name: f"{names[n.name]}_lanes" for n in reductions}
        self.made.update((part, name) for name, part in parts.items())
        for n in reductions:
            self.line(f"alignas(64) {acc_type(n)} {parts[n.name]}[{LANES}];")
            self.line(f"for (int k = 0; k < {LANES}; ++k) {parts[n.name]}[k] = {identity(n, acc_type(n))};")

        def some(first, count):
            def lane():
                self.offset(var, f"{first} + lane")
                self.point_of_pass(full, {name: f"{part}[lane]" for name, part in parts.items()})

            self.nest([(self.simd(), [Loop("lane", "0", count)])], lane)

        def step():
            for name, address in ahead:
                step = LINE // self.layouts[name].dtype.itemsize
                line = Loop(var, f"{var}_lanes", f"{var}_lanes + {LANES}", step)
                self.line(f"{line} __builtin_prefetch(&{self.names[name]}[{self.index(address)}]);")
            some(f"{var}_lanes", str(LANES))

        end, size = loop.high, var.size
        if isinstance(size, int) and loop.low == "0":
            end = str(size // LANES * LANES)
        elif not isinstance(size, int) or size % LANES:
            end = f"{names[reductions[0].name]}_rest"
            self.line(f"const int64_t {end} = {loop.high} & -{LANES};")
        self.nest([("#pragma GCC unroll 1", [Loop(f"{var}_lanes", loop.low, end, LANES)])], step)
        if end != loop.high:
            some(end, f"{loop.high} - {end}")
        self.gather_lanes(reductions, names, parts)

    def gather_lanes(self, reductions, names, parts):
        """The lanes' results become one."""
        for n in reductions:
            total, part, kind = names[n.name], f"{parts[n.name]}[k]", acc_type(n)
            if n.name in self.first_of:
                first = self.first_of[n.name]
                part = f"(m_ties({parts[first]}[k], {names[first]}) ? {part} : {identity(n, kind)})"
            self.line(f"#pragma omp simd reduction({clause(n)}:{total})")
            self.line(f"for (int k = 0; k < {LANES}; ++k) {total} = {combine(n, total, part, kind)};")

    def shared(self, loops, reductions, totals, split, body):
        """The loops around the vector loop; with `split`, the first one in CHUNKS parts that threads share."""
        if not split:
            self.nest([(None, [loop]) for loop in loops], body)
            return
        first, *rest = loops
        trips = first.trips if isinstance(first, TileLoop) else first.var.size
        chunks = max(1, min(CHUNKS, trips)) if isinstance(trips, int) else CHUNKS
        for node in reductions:
            self.line(f"{total_type(node)} {totals[node.name]}_part[{chunks}];")
        low, high = (
            f"({first.high} + {first.step - 1}) / {first.step} * {k} / {chunks} * {first.step}"
            for k in ("chunk", "(chunk + 1)")
        )
        part = dataclasses.replace(first, low=low, high=f"m_min<int64_t>({high}, {first.high})")

        def chunk():
            for node in reductions:
                self.line(f"{total_type(node)} {totals[node.name]} = {identity(node, total_type(node))};")
            self.nest([(None, [loop]) for loop in (part, *rest)], body)
            for node in reductions:
                self.line(f"{totals[node.name]}_part[chunk] = {totals[node.name]};")

        self.nest([(self.parallel_for(), [Loop("chunk", "0", str(chunks))])], chunk)
        parts = {n.name: f"{totals[n.name]}_part[chunk]" for n in reductions}
        self.nest([(None, [Loop("chunk", "0", str(chunks))])], lambda: self.join(reductions, totals, parts, total_type))
