"""Scatters and scans in Triton: loops whose points depend on each other.

Goes in: a `Scatter` or `Scan` buffer.  Comes out: its kernels.  A scatter first writes the initial values, then each
point stores or adds to its place: with atomics where the hardware has them (the order of a float sum is then not fixed,
as in eager on CUDA), else in parallel along the loops that pick different places for sure and in order along the
others.
Mirrors `scatter` and `scan` in `torch/_inductor/ir.py`.  Taught in chapter 12.
"""

import torch

from .. import ir
from ..dependencies import make_node
from ..ir import Buffer, Pointwise
from ..ops import COMBINES, OPS, REDUCTIONS
from . import triton_tiles as tiles
from .triton import LoopKernel
from .triton_expr import Axis, compute, function, indent, literal, typed
from .triton_loops import combine

ATOMIC = {  # what `tl.atomic_...` can do without surprises (a float maximum would lose NaNs)
    "add": (torch.int32, torch.int64, torch.float32, torch.float64),
    "max": (torch.int32, torch.int64),
    "min": (torch.int32, torch.int64),
}


class ScatterKernel(LoopKernel):
    """Two functions under one: `initial`, and `points`."""

    def generate(self):
        buffer = self.nodes[0]
        data = buffer.data
        start = make_node(Buffer(buffer.name, buffer.layout, Pointwise(data.vars, data.initial)), self.addresses)
        self.nodes, self.outer, self.inner = [start], start.outer, ()
        self.reads = sorted({load.buffer for load in ir.loads(data.initial)})
        functions = {"initial": self.pointwise()}
        index = [ir.IndexExpr(i, torch.int64) for i in data.position]
        self.reads = sorted({load.buffer for e in (data.body, *index) for load in ir.loads(e)} - {buffer.name})
        functions["points"] = self.points(buffer, data)
        return self.in_turn(functions, [f"scatter_{data.mode}"], [data.initial, data.body])

    def points(self, buffer, data):
        writer = self.writer(self.reads, [buffer.name], [])
        mode, dtype = data.mode, data.body.dtype
        atomic = mode == "store" or dtype in ATOMIC.get(mode, ())
        if torch.are_deterministic_algorithms_enabled() and (mode == "store" or dtype.is_floating_point):
            atomic = False
        loops = tuple(v for v in data.points if v.size != 1)
        safe = loops if atomic else tuple(v for v in loops if any(i.terms == ((v, 1),) for i in data.position))
        block, num_warps = tiles.pointwise(ir.product(v.size for v in safe), self.interpreted)
        x = Axis("x", safe, block)
        x.masked = not x.whole()
        writer.use_axes([x])
        self.start(writer, (x,))
        order = [v for v in loops if v not in safe]
        for depth, var in enumerate(order):
            writer.use_axes([*writer.axes, Axis(f"p{depth}", (var,), None, masked=False)])
            writer.push(var)
        self.point(writer, buffer, data, atomic)
        for depth, var in reversed(list(enumerate(order))):
            lines = writer.pop()
            writer.line(f"for p{depth} in range({writer.size(var.size)}):", *indent(lines))
        grid = f"cdiv({writer.size(x.numel)}, XBLOCK)"
        return function("@NAME@", writer, writer.pop(), grid, num_warps, {"XBLOCK": block}), writer

    def point(self, writer, buffer, data, atomic):
        value = writer.value(data.body)
        place = writer.index(buffer.layout.address(data.position))
        have = writer.axes_of_address(buffer.layout.address(data.position))
        place = f"{writer.names[buffer.name]} + {writer.spread(place, have, {'x'})}"
        masked = "".join(f", {m}" for m in [writer.mask({"x"})] if m)
        value = value if value.isidentifier() or "(" in value else typed(value, data.body.dtype)
        if atomic and data.mode != "store":
            writer.line(f"tl.atomic_{data.mode}({place}, {value}{masked}, sem='relaxed')")
            return
        if data.mode != "store":
            writer.line(f"old = {writer.loaded(f'tl.load({place}{masked})', data.body.dtype)}")
            value = OPS[COMBINES[data.mode]].triton.format("old", value)
        writer.line(f"tl.store({place}, {writer.stored_as(buffer.name, value)}{masked})")
        if not atomic:
            writer.line("tl.debug_barrier()  # the next point may read what this one wrote")


class ScanKernel(LoopKernel):
    """Each program carries XBLOCK rows, RBLOCK elements at a time."""

    def generate(self):
        buffer = self.nodes[0]
        data, layout = buffer.data, buffer.layout
        along = data.vars[data.dim]
        self.outer = tuple(v for v in data.vars if v is not along and v.size != 1)
        self.inner = (along,) if along.size != 1 else ()
        self.nodes = [make_node(Buffer(buffer.name, layout, Pointwise(data.vars, data.body)), self.addresses)]
        writer = self.writer(self.reads, [buffer.name], [])
        xnumel = ir.product(v.size for v in self.outer)
        columns = any(layout.address(data.vars).coefficient(v) == 1 for v in self.outer)
        hold = isinstance(along.size, int)
        self.tile = tiles.reduction(xnumel, along.size, columns, 2, 1, 1, self.interpreted, hold)
        self.tile.persistent = False
        x, r = self.reduction_axes(writer)
        self.start(writer, (x,))
        self.scan(writer, data, r, layout.address(data.vars), buffer.name)
        constants = {x.constant: x.block, r.constant: r.block}
        grid = f"cdiv({writer.size(x.numel)}, XBLOCK)"
        text = function("@NAME@", writer, writer.pop(), grid, self.tile.num_warps, constants)
        return self.finish(text, writer, [f"scan_{data.kind}"], [data.body])

    def scan(self, writer, data, r, address, name):
        """The row as a whole if it fits in a block; else block by block, each going on where the last one ended."""
        dtype, kind = data.body.dtype, data.kind
        start = literal(REDUCTIONS[kind].identity(dtype), dtype)
        whole = isinstance(r.numel, int) and r.block >= r.numel
        if not whole:
            writer.line(f"carry = tl.full([XBLOCK, 1], {start}, {compute(dtype)})")
        writer.push(*self.inner)
        self.define(writer, r, None if whole else "r_start")
        value = self.operand(writer, data)
        value = f"tl.where(rmask, {value}, {typed(start, dtype)})" if r.masked else value
        if not {"x", "r"} <= writer.axes_under(data.body):
            value = f"tl.broadcast_to({value}, [XBLOCK, RBLOCK])"
        writer.line(f"row = {value}")
        running = f"rt.scan_{kind}(row)"
        writer.line(f"running = {running if whole else combine(data, running, 'carry')}")
        writer.store(name, address, "running", {"x", "r"})
        if not whole:
            writer.scopes[-1].stores.append(f"carry = {combine(data, 'carry', f'rt.reduce_{kind}(row)')}")
        lines = writer.pop()
        head = f"for r_start in range(0, {writer.size(r.numel)}, RBLOCK):"
        writer.line(*(lines if whole else (head, *indent(lines))))
