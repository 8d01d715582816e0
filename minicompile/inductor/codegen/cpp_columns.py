"""Reductions along columns: the reduced loop is not the contiguous one, so that a vector holds many results at once.

Goes in: a group whose last outer loop is contiguous.  Comes out: a tile of columns at a time, with an accumulator for
each column. Mirrors the outer-loop vectorisation of `torch/_inductor/codegen/cpp.py`.  Taught in chapter 11.
"""

import dataclasses

from .. import ir
from ..indexing import hint
from .common import Forward
from .cpp_expr import COMPUTE
from .cpp_kept import COLUMNS
from .cpp_loops import GROWN, Loop, TileLoop, acc_type, combine, identity, sums_up, total_type

WIDE = 1024  # the same, where rows are read once only
CHUNKS = 32  # parts of the rows that are reduced in parallel and then combined in order
STEP = 4  # rows that are added to the accumulators at once, and read side by side
ROWS = 32  # rows summed in float32, STEP at a time, before they are added to float64 totals


def is_multiple(size, step):
    """Whether a size is known to be a multiple."""
    return isinstance(size, int) and size % step == 0


def blocks(loops):
    """(the loops around, the one that is cut into blocks of about ROWS rows, those inside, its steps in a block)."""
    cut, count = len(loops) - 1, 1
    while cut > 0 and isinstance(loops[cut].var.size, int) and count * loops[cut].var.size <= ROWS:
        count *= loops[cut].var.size
        cut -= 1
    return loops[:cut], loops[cut], loops[cut + 1 :], max(1, ROWS // count)


class ColumnReductions:
    """The part of `LoopKernel` for column reductions."""

    def column_reduction(self):
        *others, x = self.outer
        width = self.likely(x.size)
        trips = ir.product(self.likely(v.size) for v in others)
        one_pass = max(self.level.values()) <= 0  # then the rows can be shared out, and the columns lie together
        self.tile_size = min(width, WIDE if one_pass else COLUMNS if trips * (width // COLUMNS) >= 8 else 64)
        tiles = GROWN if self.grows(x.size) else -(-width // self.tile_size)
        rows = ir.product(self.likely(v.size) for v in self.inner)
        split = self.few_rows(trips * tiles) and rows >= 2 * ROWS
        tile = TileLoop(f"{x}_tile", "0", self.size(x.size), self.tile_size, tiles)
        whole = self.tile_size >= COLUMNS and is_multiple(x.size, self.tile_size)  # the compiler knows its steps then
        high = f"{x}_tile + {self.tile_size}" if whole else f"{x}_end"
        column = Loop(x, f"{x}_tile", high, length=self.tile_size)

        def columns(body, nodes=()):
            self.vector_loop(self.simd(), [column], nodes, body)

        def body():
            if not whole:
                self.line(f"const int64_t {x}_end = m_min<int64_t>({x}_tile + {self.tile_size}, {self.size(x.size)});")
            self.plan_rows()
            for node in self.outer_nodes(-1):
                self.column_value(node, x, columns)
            for level, full in self.passes():
                self.column_pass(full, x, columns, split)
                for node in self.outer_nodes(level):
                    self.column_value(node, x, columns)

        loops = [self.loop(v) for v in others] + [tile]
        self.nest([(None, [loop]) for loop in loops] if split else self.parallel(loops), body)

    def column_pass(self, full, x, columns, split):
        reductions, tile = [n for n in full if n.is_reduction], self.tile_size
        at = f"[{x} - {x}_tile]"
        sums = [n for n in full if n.name in self.first_of and n.kind == "sum"]  # for them a block is walked again
        under = lambda arrays: {name: text + at for name, text in arrays.items()}  # noqa: E731
        first, *rest = [self.loop(v) for v in self.inner]
        names = {n.name: self.fresh("acc", n.name) for n in reductions}
        totals = {n.name: self.fresh("total", n.name) for n in reductions}

        def fill(arrays, kind):
            columns(lambda: [self.line(f"{arrays[n.name]}{at} = {identity(n, kind(n))};") for n in reductions])

        def block(loops):
            """Some rows, accumulated in the body's own precision and then added to the totals."""
            for node in reductions:
                self.line(f"{acc_type(node)} {names[node.name]}[{tile}];")
            if reductions:
                fill(names, acc_type)
            *around, along = loops

            def walk(nodes):
                self.nest([(None, [loop]) for loop in around], lambda: self.some_rows(nodes, names, along, columns, at))

            walk([n for n in full if n not in sums])
            if sums:
                self.end_pass([n for n in full if not n.is_reduction])
                for first in (self.first_of[n.name] for n in sums):
                    self.forwards[first] = Forward(f"m_peak({names[first]}{at})", x)
                walk(sums)
            if reductions:
                columns(lambda: self.join(reductions, under(totals), under(names), total_type))

        def rows(first):
            around, cut, inside, step = blocks([first, *rest])
            if not reductions or self.is_short(cut.var.size, step):
                self.nest([(None, [loop]) for loop in around], lambda: block([cut, *inside]))
                return
            some = TileLoop("block", cut.low, cut.high, step, -(-hint(cut.var.size) // step))
            high = f"block + {step}"
            if not is_multiple(cut.var.size, step):
                high = f"m_min<int64_t>({high}, {cut.high})"
            part = dataclasses.replace(cut, low="block", high=high)
            self.nest([(None, [loop]) for loop in (*around, some)], lambda: block([part, *inside]))

        for node in reductions:
            self.line(f"{total_type(node)} {totals[node.name]}[{tile}];")
        if reductions:
            fill(totals, total_type)
        if split:
            self.split_rows(reductions, totals, first, fill, rows, columns, at)
        else:
            rows(first)
        for node in reductions:
            text = f"({COMPUTE[node.body.dtype]}){self.result(node, under(totals))}"
            self.column_value(node, x, columns, text)
        self.end_pass(full)

    def column_value(self, node, x, columns, result=None):
        """A value for each column of the tile, kept in an array for later passes; result: that of a reduction."""
        name = self.fresh("value", node.name)
        self.line(f"{COMPUTE[node.body.dtype]} {name}[{self.tile_size}];")
        place = f"{name}[{x} - {x}_tile]"

        def body():
            text = self.value(node.body) if result is None else result
            self.line(f"{place} = {text};")
            self.forwards[node.name] = Forward(place, x)
            if node.name in self.stored:
                self.store(node.name, node.store, place)

        columns(body)
        self._facts.clear()

    def some_rows(self, full, names, loop, columns, at):
        """A loop over rows: STEP of them at once, which read and write the accumulators once; then what is left.

        Accumulators of a narrow tile stay in registers anyway.
        """
        reductions, row, rest = [n for n in full if n.is_reduction], loop.var, loop.low
        if reductions and self.tile_size >= COLUMNS:
            here = {name: f"{text}_here" for name, text in names.items()}

            def point():
                self.offset(row, f"{row}_step + {row}_in")
                self.point_of_pass(full, here)

            def column():
                for n in reductions:
                    start = identity(n, acc_type(n)) if sums_up(n) else f"{names[n.name]}{at}"
                    self.line(f"{acc_type(n)} {here[n.name]} = {start};")
                self.nest([(f"#pragma GCC unroll {STEP}", [Loop(f"{row}_in", "0", str(STEP))])], point)
                for n in reductions:
                    place, sums = f"{names[n.name]}{at}", here[n.name]
                    self.line(f"{place} = {combine(n, place, sums, acc_type(n)) if sums_up(n) else sums};")

            rest = loop.high
            if not is_multiple(row.size, ROWS if loop.low == "block" else STEP):
                rest = f"{names[reductions[0].name]}_rest"
                self.line(f"const int64_t {rest} = {loop.high} - ({loop.high} - {loop.low}) % {STEP};")
            self.nest([(None, [Loop(f"{row}_step", loop.low, rest, STEP)])], lambda: columns(column))
        if rest != loop.high:
            arrays = {name: text + at for name, text in names.items()}

            def one():
                self.fetch_below(full, row)
                columns(lambda: self.point_of_pass(full, arrays), full)

            self.nest([(None, [Loop(row, rest, loop.high)])], one)

    def split_rows(self, reductions, totals, first, fill, rows, columns, at):
        """Threads share the rows: a set of partial totals for each chunk."""
        count = ir.product(v.size for v in self.inner)  # a chunk has to be worth its set of totals
        chunks = min(CHUNKS, first.var.size, -(-count // ROWS)) if isinstance(count, int) else CHUNKS
        parts = {n.name: f"{totals[n.name]}_part" for n in reductions}
        for node in reductions:
            self.line(f"{total_type(node)} {parts[node.name]}[{chunks}][{self.tile_size}];")

        def chunk():
            for node in reductions:
                self.line(f"{total_type(node)}* {totals[node.name]} = {parts[node.name]}[chunk];")
            fill(totals, total_type)
            _, cut, _, step = blocks([self.loop(v) for v in self.inner])
            step = step if cut.var is first.var and is_multiple(first.var.size, step) else 1  # no block is cut
            low, high = (f"{first.high} / {step} * {k} / {chunks} * {step}" for k in ("chunk", "(chunk + 1)"))
            rows(dataclasses.replace(first, low=low, high=high))

        self.nest([(self.parallel_for(), [Loop("chunk", "0", str(chunks))])], chunk)
        into = {n: text + at for n, text in totals.items()}
        part = {n: f"{text}[chunk]{at}" for n, text in parts.items()}
        join = lambda: columns(lambda: self.join(reductions, into, part, total_type))  # noqa: E731
        self.nest([(None, [Loop("chunk", "0", str(chunks))])], join)
