"""Reductions with few results and long rows: programs share a row, a second kernel joins their partial results.

Goes in: a group of loops with one walk over the rows.  Comes out: its two kernels, and the Python function that calls
them.  No atomics: the same bits every time.  Mirrors split reductions in `torch/_inductor/ir.py`.  Taught in chapter
12.
"""

import torch

from .. import ir
from . import triton_tiles as tiles
from .triton_expr import Axis, compute, function, pointer, typed


class SharedReductions:
    """The part of `LoopKernel` that splits reductions."""

    def shared_reduction(self):
        """Two kernels: each program reduces a part of a row; then the parts are joined, and the outer nodes follow."""
        reductions = [n for n in self.nodes if n.is_reduction]  # an extreme comes before its partner
        late = [n for n in self.nodes if not n.inner and self.level[n.name] >= 0]
        early = [n for n in self.nodes if n not in late and n not in reductions]
        functions = {"parts": self.parts_kernel(reductions, early), "join": self.join_kernel(reductions, late)}
        size = f"({self.tile.parts}, {functions['join'][1].size(ir.product(v.size for v in self.outer))})"
        return self.in_turn(functions, parts=[(f"part{k}", size, part_dtype(n)) for k, n in enumerate(reductions)])

    def add_parts(self, writer, reductions):
        """Parameters for the partial results."""
        for k, node in enumerate(reductions):
            writer.types.append((f"part{k}", pointer(getattr(torch, part_dtype(node).removeprefix("torch.")))))

    def parts_kernel(self, reductions, early):
        kept = [n for n in self.stored if n in {e.name for e in early}]
        reads = self.needed([*reductions, *early])
        writer = self.writer(reads, kept, self.nodes)
        self.add_parts(writer, reductions)
        x, r = self.reduction_axes(writer)
        writer.line(f"part = {writer.program()} % {self.tile.parts}")
        self.start(writer, (x,), f"{writer.program()} // {self.tile.parts}")
        chunk = writer.size(self.tile.chunk)
        for node in early:
            if not node.inner:
                self.emit(writer, node)
        stored, self.stored = self.stored, kept
        r.masked = r.numel != self.tile.parts * self.tile.chunk
        self.looped_pass(writer, 0, f"part * {chunk} + ", chunk)
        self.stored = stored
        for k, node in enumerate(reductions):
            text = writer.forwards[node.name].text
            place = f"part{k} + part*{writer.size(x.numel)} + x"
            writer.scopes[-1].stores.append(f"tl.store({place}, {text}{', xmask' if x.masked else ''})")
        constants = {x.constant: x.block, r.constant: r.block}
        grid = f"cdiv({writer.size(x.numel)}, XBLOCK) * {self.tile.parts}"
        return function("@NAME@", writer, writer.pop(), grid, self.tile.num_warps, constants), writer

    def join_kernel(self, reductions, late):
        kept = [n for n in self.stored if n in {e.name for e in [*reductions, *late]}]
        writer = self.writer(self.needed(late), kept, self.nodes)
        self.add_parts(writer, reductions)
        block = tiles.power(self.tile.parts)
        xblock = tiles.clamp(2048 // block, 1, min(32, tiles.power(tiles.hint(ir.product(v.size for v in self.outer)))))
        x, r = Axis("x", self.outer, xblock, 0), Axis("r", self.inner, block, 1, block != self.tile.parts)
        x.masked = not x.whole()
        writer.use_axes([x, r])
        self.start(writer, (x,))
        writer.line("part = tl.arange(0, RBLOCK)[None, :]")
        conditions = [*(["xmask"] if x.masked else []), *([f"(part < {self.tile.parts})"] if r.masked else [])]
        mask = " & ".join(conditions)
        blocks = {}
        for k, node in enumerate(reductions):
            text = f"tl.load(part{k} + part*{writer.size(x.numel)} + x{', ' + mask if mask else ''})"
            text += ".to(tl.int1)" if node.body.dtype == torch.bool else ""
            if r.masked:
                text = f"tl.where(part < {self.tile.parts}, {text}, {typed(self.neutral(node), node.body.dtype)})"
            blocks[node.name] = f"block{k}"
            writer.line(f"block{k} = {text}")
        squares = next((n for n in reductions if n.name in self.spreads), None)
        if squares is not None:  # how many elements each part has had
            chunk = writer.size(self.tile.chunk)
            left = f"tl.minimum(tl.maximum({writer.size(r.numel)} - part * {chunk}, 0), {chunk})"
            writer.line(f"seen = ({left}).to({compute(squares.body.dtype)})")
        for node in reductions:
            peak = self.peak_of.get(node.name)
            self.reduced(writer, node, blocks[node.name], peak and blocks[peak])
        for node in late:
            self.emit(writer, node)
        constants = {x.constant: x.block, r.constant: r.block}
        grid = f"cdiv({writer.size(x.numel)}, XBLOCK)"
        return function("@NAME@", writer, writer.pop(), grid, tiles.warps(xblock * block), constants), writer

    def needed(self, nodes):
        """Buffers from outside that some nodes read, directly or through nodes that are computed again."""
        bodies, found, stack = {n.name: n.body for n in self.nodes}, set(), [n.body for n in nodes]
        reductions = {n.name for n in self.nodes if n.is_reduction}
        seen = set()
        while stack:
            for load in ir.loads(stack.pop()):
                if load.buffer in bodies and load.buffer not in reductions and load.buffer not in seen:
                    seen.add(load.buffer)
                    stack.append(bodies[load.buffer])
                found.add(load.buffer)
        return [name for name in self.reads if name in found]


def part_dtype(node):
    """What partial results are kept in: half types in float32."""
    return "torch.float32" if node.body.dtype in ir.HALF else str(node.body.dtype)
