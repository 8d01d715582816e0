"""Scatters and scans: loops whose points depend on each other.

Goes in: a `Scatter` or `Scan` buffer.  Comes out: its kernel.  A scatter runs in parallel along the loops that pick
different elements of the result for sure, and in order along the others: no atomics, the same bits every time.
Mirrors `scatter` and `scan` in `torch/_inductor/ir.py`.  Taught in chapter 11.
"""

import dataclasses

import torch

from ... import config
from .. import ir
from ..dependencies import make_node
from ..indexing import hint
from ..ir import Buffer, Pointwise
from ..ops import COMBINES, OPS, REDUCTIONS
from .cpp import EXTREMES, LoopKernel
from .cpp_expr import COMPUTE
from .cpp_loops import Loop, TileLoop, literal

BLOCK = 64  # elements of a row that are added up in vectors


class ScatterKernel(LoopKernel):
    def generate(self):
        buffer = self.nodes[0]
        data = buffer.data
        self.start(buffer, data)
        if self.layouts[buffer.name].numel() != 0:
            self.scatter(buffer, data)
        parts = [(None, data.initial, False), (None, data.body, data.mode in EXTREMES)]
        return self.finish([f"scatter_{data.mode}"], parts)

    def start(self, buffer, data):
        """result = initial"""
        node = make_node(Buffer(buffer.name, buffer.layout, Pointwise(data.vars, data.initial)), self.addresses)
        self.nodes, self.outer, self.inner, self.bodies = [node], list(node.outer), [], [node.body]
        self.pointwise()
        scope = self.scopes[-1]  # a single element has no loop at whose end its store would be written
        scope.lines.extend(scope.stores)
        scope.stores.clear()
        self.forwards.clear()
        self._facts.clear()

    def scatter(self, buffer, data):
        self.outer = [v for v in data.points if v.size != 1]
        self.nodes, self.bodies = [], [data.body]
        safe = [v for v in self.outer if any(i.terms == ((v, 1),) for i in data.position)]
        x = next((v for v in safe if buffer.layout.address(data.position).coefficient(v) == 1), None)
        rest = [v for v in self.outer if v is not x]
        loops = [self.loop(v) for v in rest if v in safe]
        if x is not None:
            threads = config.cpp_threads or torch.get_num_threads()
            width = max(64, -(-hint(x.size) // threads // 64) * 64)
            tile = TileLoop(f"{x}_tile", "0", self.size(x.size), width, -(-hint(x.size) // width))
            loops.append(tile)
        nest = self.parallel(loops) + [(None, [self.loop(v)]) for v in rest if v not in safe]
        if x is not None:
            high = f"m_min<int64_t>({x}_tile + {tile.step}, {self.size(x.size)})"
            nest.append((self.simd(), [Loop(x, f"{x}_tile", high)]))
        self.nest(nest, lambda: self.point(buffer, data))

    def point(self, buffer, data):
        value = self.value(data.body)
        place = f"{self.names[buffer.name]}[{self.index(buffer.layout.address(data.position))}]"
        dtype = data.body.dtype
        if data.mode != "store":
            old = f"m_load({place})" if dtype in ir.HALF else f"({place} != 0)" if dtype == ir.torch.bool else place
            value = OPS[COMBINES[data.mode]].cpp.format(old, f"({COMPUTE[dtype]}){value}")
        self.line(f"{place} = {self.stored_as(buffer.name, value)};")


class ScanKernel(LoopKernel):
    def generate(self):
        buffer = self.nodes[0]
        data, layout = buffer.data, buffer.layout
        along = data.vars[data.dim]
        self.outer, self.inner = [v for v in data.vars if v is not along and v.size != 1], [along]
        self.nodes, self.bodies = [], [data.body]
        address = layout.address(data.vars)
        x = next((v for v in self.outer if address.coefficient(v) == 1), None)
        loops = [self.loop(v) for v in self.outer if v is not x]
        if x is not None:
            tile = TileLoop(f"{x}_tile", "0", self.size(x.size), 64, -(-hint(x.size) // 64))
            loops.append(tile)
        self.nest(self.parallel(loops), lambda: self.scan(buffer, data, along, x, address))
        return self.finish([f"scan_{data.kind}"], [(None, data.body, data.kind in EXTREMES)])

    def scan(self, buffer, data, along, x, address):
        """One run along the dimension; with x, for 64 neighbouring columns at once.  Float sums are kept in double."""
        dtype = data.body.dtype
        ctype = "double" if dtype.is_floating_point and data.kind in ("sum", "prod") else COMPUTE[dtype]
        start = literal(REDUCTIONS[data.kind].identity(dtype), dtype)
        acc = self.fresh("acc", buffer.name)
        at = f"{acc}[{x} - {x}_tile]" if x is not None else acc
        columns = []
        if x is None:
            self.line(f"{ctype} {acc} = {start};")
        else:
            high = f"m_min<int64_t>({x}_tile + 64, {self.size(x.size)})"
            columns = [(self.simd(), [Loop(x, f"{x}_tile", high)])]
            self.line(f"{ctype} {acc}[64];")
            self.nest(columns, lambda: self.line(f"{at} = {start};"))

        def point():
            value = self.value(data.body)
            self.line(f"{at} = {OPS[REDUCTIONS[data.kind].combine].cpp.format(at, f'({ctype}){value}')};")
            put(at)

        def put(text):
            self.line(f"{self.names[buffer.name]}[{self.index(address)}] = {self.stored_as(buffer.name, text)};")

        loop = self.loop(along)
        if x is None and data.kind == "sum" and dtype != torch.float64:  # exact, or in more digits: any order will do
            loop = dataclasses.replace(loop, low=f"{acc}_rest")
            self.line(f"const int64_t {loop.low} = {loop.high} & -{BLOCK};")
            self.nest([(None, [Loop("block", "0", loop.low, BLOCK)])], lambda: self.block(data, along, acc, ctype, put))
        self.nest([(None, [loop]), *columns], point)

    def block(self, data, along, acc, ctype, put):
        """BLOCK elements at once: what each is, in vectors; their sums; their places, in vectors."""
        part = f"{acc}_part"
        lanes = [(self.simd(), [Loop("lane", "0", str(BLOCK))])]

        def each(body):
            self.offset(along, "block + lane")
            body()

        self.line(f"alignas(64) {ctype} {part}[{BLOCK}];")
        self.nest(lanes, lambda: each(lambda: self.line(f"{part}[lane] = {self.value(data.body)};")))
        self.line(f"m_scan<{BLOCK}>({part}, {acc});")
        self.nest(lanes, lambda: each(lambda: put(f"{part}[lane]")))
