"""Triton kernels: one function a group of loops (two for a reduction that programs share).

Goes in: a `Schedule`.  Comes out: a `Source`: the kernels, and the wrapper that calls them; `load` makes it run.
Mirrors `torch/_inductor/codegen/triton.py`.  Taught in chapter 12.

    pointwise    each program takes XBLOCK neighbours, or a YBLOCK x XBLOCK tile where memory orders differ (transpose)
    persistent   each program holds XBLOCK whole rows: softmax and layer norm read their input once (where the length is
                 symbolic there is a looped kernel, too, for rows that turn out longer than the block)
    looped       each program walks along XBLOCK rows, RBLOCK elements at a time, once for each pass
    shared       few, long rows: programs reduce parts of a row, and a second kernel joins the parts
"""

import dataclasses

import torch

from ...errors import CompilerNotFound
from .. import ir, memory
from ..dependencies import Addresses, merge_loops
from ..scheduler import levels
from . import triton_tiles as tiles
from . import wrapper
from .common import Kernel, summary_of
from .triton_expr import Axis, TritonWriter, function, indent, typed
from .triton_loops import LoopedReductions
from .triton_split import SharedReductions


def wide(node, stored, addresses, var):
    """How many accesses of a node step by one element along a loop; stores count double."""
    score = sum(address.coefficient(var) == 1 for _, address in addresses.reads(node))
    return score + 2 * (node.name in stored and not node.is_reduction and node.store.coefficient(var) == 1)


class LoopKernel(SharedReductions, LoopedReductions):
    """A group of loops -> a `Kernel`."""

    def __init__(self, group, schedule, shared):
        self.addresses = Addresses(schedule.graph.layouts)
        self.layouts = self.addresses.layouts
        self.nodes, self.stored, self.reads, self.shared = group.nodes, list(group.stored), list(group.reads), shared
        self.numbers = {}  # what depends on symbolic sizes, for all functions of the kernel: expression -> parameter
        self.interpreted = schedule.graph.device.type == "cpu"
        if group.kind == "loops":
            self.arrange(group)

    # --- loop order ---

    def arrange(self, group):
        """Put the loop along which memory is contiguous last; merge loops."""
        full = [n for n in self.nodes if n.inner] or self.nodes

        def contiguity(var):
            return sum(wide(n, self.stored, self.addresses, var) for n in full)

        def ordered(variables):
            best = max(reversed(variables), key=contiguity) if variables else None
            return tuple(sorted(variables, key=lambda v: v is best)), contiguity(best) if variables else 0

        outer, across = ordered(group.outer)
        inner, along = ordered(group.inner)
        self.columns = bool(inner) and across > along
        if inner and not self.columns:
            outer = group.outer
        nodes = [dataclasses.replace(n, outer=outer, inner=inner if n.inner else ()) for n in self.nodes]
        self.nodes = merge_loops(nodes, self.addresses)
        longest = max(self.nodes, key=lambda n: len(n.inner))
        self.outer, self.inner, self.level = longest.outer, longest.inner, levels(self.nodes)

    def writer(self, reads, stored, nodes):
        """A fresh writer that recomputes what nodes of this kernel hand on and nobody forwarded."""
        writer = TritonWriter(self.addresses)
        writer.numbers = self.numbers
        bodies = {n.name: n.body for n in nodes}
        writer.local_load = lambda load: writer.value(bodies[load.buffer]) if load.buffer in bodies else None
        writer.bind(reads, stored, self.shared)
        return writer

    # --- the kernel ---

    def generate(self):
        if not self.inner:
            text, writer = self.pointwise()
            return self.finish(text, writer)
        last = max(self.level.values())
        early = [n for n in self.nodes if n.inner and self.level[n.name] < last]
        along = {v for n in early for v in n.inner}
        held = {name for n in early for name, address in self.addresses.reads(n) if address.vars() & along}
        xnumel, rnumel = (ir.product(v.size for v in vs) for vs in (self.outer, self.inner))
        self.find_online()
        walks = sum(bool(self.needed_nodes(level)) for level in range(last + 1))
        facts = (xnumel, rnumel, self.columns, last + 1, walks, len(held & set(self.reads)), self.interpreted)
        layouts = [self.layouts[name] for name in self.reads]
        most = max((tiles.hint(layout.numel()) for layout in layouts), default=0)
        half = all(layout.dtype.itemsize <= 2 for layout in layouts if 2 * tiles.hint(layout.numel()) > most)
        self.tile = tiles.reduction(*facts, half=half)
        if self.tile.parts > 1:
            return self.shared_reduction()
        if not self.tile.persistent or isinstance(rnumel, int):
            return self.finish(*self.rows())
        return self.short_or_long(rnumel, lambda: tiles.reduction(*facts, hold=False))

    def short_or_long(self, rnumel, tile_of_long):
        """Two kernels and the Python function that calls the one for this length of a row."""
        texts, held = [], self.tile.r
        lines = [f"    if {{length}} <= {held}:", "        return @NAME@_short({short})", "    @NAME@_long({long})"]
        arguments = {}
        for name in ("short", "long"):
            text, writer = self.rows(rare=name == "long")
            texts.append(text.replace("@NAME@", f"@NAME@_{name}", 1))
            arguments[name] = ", ".join([text for text, _ in writer.types] + writer.size_names)
            self.tile = tile_of_long()
        body = "\n".join(lines).format(length=writer.size(rnumel), **arguments)
        sizes = ", ".join([text for text, _ in writer.types] + list(self.numbers.values()))
        return self.finish("\n\n\n".join([*texts, f"def @NAME@({sizes}):\n{body}"]), writer)

    def in_turn(self, functions, words=(), bodies=None, parts=()):
        """A Python function that calls kernels one after the other.

        functions: suffix -> (text, writer) of a kernel.  parts: (name, size, dtype) of what the first hands on to the
        second, behind the other parameters of both.
        """
        params = list(dict.fromkeys(p for _, writer in functions.values() for p in writer.params))
        names, types = {name: f"a{k}" for k, name in enumerate(params)}, {}
        lines = [f"def @NAME@({', '.join([*names.values(), *self.numbers.values()])}):"]
        lines += [f"    {part} = scratch({size}, {dtype}, {names[params[0]]})" for part, size, dtype in parts]
        for suffix, (_, writer) in functions.items():
            args = [names[p] for p in writer.params] + [part for part, _, _ in parts] + writer.size_names
            lines.append(f"    @NAME@_{suffix}({', '.join(args)})")
            types |= dict(zip(writer.params, [kind for _, kind in writer.types], strict=False))
        texts = [text.replace("@NAME@", f"@NAME@_{suffix}", 1) for suffix, (text, _) in functions.items()]
        kernel = self.finish("\n\n\n".join([*texts, "\n".join(lines)]), writer, words, bodies)
        kernel.params, kernel.types = params, [types[p] for p in params] + ["i64"] * len(self.numbers)
        return kernel

    def rows(self, rare=False):
        """(text, writer) of the kernel that has whole rows."""
        last = max(self.level.values())
        writer = self.writer(self.reads, self.stored, self.nodes)
        x, r = self.reduction_axes(writer)
        self.start(writer, (x,) if not self.tile.persistent else (x, r))
        self.outer_nodes(writer, -1)
        for level in range(last + 1):
            self.reduction_pass(writer, level)
            self.outer_nodes(writer, level)
        constants = {x.constant: x.block, r.constant: r.block}
        grid = f"cdiv({writer.size(x.numel)}, XBLOCK)"
        return function("@NAME@", writer, writer.pop(), grid, self.tile.num_warps, constants, rare), writer

    def finish(self, text, writer, words=(), bodies=None):
        words = [*words, *(n.kind for n in self.nodes if bodies is None and n.is_reduction)]
        summary = summary_of(words, bodies or [n.body for n in self.nodes])
        types = [kind for _, kind in writer.types] + ["i64"] * len(self.numbers)
        return Kernel(text, writer.params, list(self.numbers), types, summary)

    def start(self, writer, axes, programs=""):
        """Define the index and the mask of each axis of the grid, at the top of the kernel; the last varies fastest."""
        writer.use_axes(writer.axes or list(axes))
        grid = [axis for axis in axes if axis.name != "r"]
        programs = programs or writer.program()
        if len(grid) > 1:
            writer.line(f"program = {programs}")
            programs = "program"
        for axis in reversed(grid):
            count = writer.size(axis.numel)
            if axis.block:
                count = f"(({count} + {axis.constant} - 1) // {axis.constant})"
            number = programs if axis is grid[0] else f"{programs} % {count}"
            self.define(writer, axis, number)
            if axis is not grid[0]:
                programs = f"program // {count}" if programs == "program" else f"({programs}) // {count}"
        for axis in axes:
            writer.depth_of_var.update(dict.fromkeys(axis.vars, 0))
            if axis.name == "r":
                self.define(writer, axis, None)

    def define(self, writer, axis, start):
        """index = start * BLOCK + 0, 1, 2, ...; and its mask."""
        side = "" if len([a for a in writer.axes if a.block]) == 1 else ("[:, None]", "[None, :]")[axis.place]
        steps = f"tl.arange(0, {axis.constant}){side}"
        if axis.block is None:
            writer.line(f"{axis.name} = {start}")
        elif start is None:
            writer.line(f"{axis.name} = {steps}")
        else:
            number = f"({start})" if " " in start else start
            start = start if axis.name == "r" else f"{number} * {axis.constant}"
            writer.line(f"{axis.name} = {start} + {steps}")
            axis.start = None if axis.name == "r" else number
        if axis.masked:
            writer.line(f"{axis.name}mask = {axis.name} < {writer.size(axis.numel)}")

    def emit(self, writer, node):
        """Compute a node, hand its value on, store it if somebody outside needs it."""
        text = writer.value(node.body)
        writer.forward(node.name, text, writer.axes_under(node.body))
        if node.name in self.stored:
            want = {a.name for a in writer.axes if a.name != "r" or node.inner}
            writer.store(node.name, node.store, text, want)

    # --- pointwise ---

    def pointwise(self):
        writer = self.writer(self.reads, self.stored, self.nodes)
        writer.uniform = not any(isinstance(e, ir.Masked) for n in self.nodes for e in ir.walk(n.body))
        axes, num_warps = self.pointwise_axes()
        self.start(writer, axes)
        for node in self.nodes:
            self.emit(writer, node)
        blocks = {axis.constant: axis.block for axis in axes if axis.block}
        parts = [f"cdiv({writer.size(a.numel)}, {a.constant})" if a.block else writer.size(a.numel) for a in axes]
        return function("@NAME@", writer, writer.pop(), " * ".join(parts), num_warps, blocks), writer

    def pointwise_axes(self):
        tile = self.transposed()
        if tile is None:
            block, num_warps = tiles.pointwise(ir.product(v.size for v in self.outer), self.interpreted)
            axis = Axis("x", self.outer, block)
            axis.masked = not axis.whole()
            return [axis], num_warps
        u, v = tile
        yblock, xblock, num_warps = tiles.transposed(u.size, v.size, self.interpreted)
        axes = [Axis("y", (u,), yblock, 0), Axis("x", (v,), xblock, 1)]
        for axis in axes:
            axis.masked = not axis.whole()
        others = tuple(w for w in self.outer if w not in tile)
        return [*([Axis("z", others, None, masked=False)] if others else []), *axes], num_warps

    def transposed(self):
        """(u, v): some access steps by one along u while others do along v."""
        if len(self.outer) < 2:
            return None
        v = self.outer[-1]
        for node in self.nodes:
            found = [a for _, a in self.addresses.reads(node)] + ([node.store] if node.name in self.stored else [])
            for address in found:
                for u in self.outer[:-1]:
                    if address.coefficient(u) == 1 and address.coefficient(v) not in (0, 1):
                        if tiles.hint(u.size) >= 8 and tiles.hint(v.size) >= 8:
                            return u, v
        return None

    # --- reductions ---

    def reduction_axes(self, writer):
        x, r = Axis("x", self.outer, self.tile.x, 0), Axis("r", self.inner, self.tile.r, 1)
        for axis in (x, r):
            axis.masked = not axis.whole()
        writer.use_axes([x, r])
        return x, r

    def outer_nodes(self, writer, level):
        for node in self.nodes:
            if not node.inner and self.level[node.name] == level:
                self.emit(writer, node)

    def reduction_pass(self, writer, level):
        """Everything that runs over the reduced loops, up to the results that later passes need."""
        if not self.tile.persistent:
            self.looped_pass(writer, level)
            return
        for node in self.nodes:
            if node.inner and self.level[node.name] == level:
                if node.is_reduction:
                    self.reduced(writer, node, self.block_of(writer, node))
                else:
                    self.emit(writer, node)

    def operand(self, writer, node):
        text = writer.value(node.body)
        return text if text.isidentifier() else typed(text, node.body.dtype) if "(" not in text else text

    def block_of(self, writer, node):
        """The value to reduce, as a whole block."""
        text = self.masked_operand(writer, node)
        if not {"x", "r"} <= writer.axes_under(node.body):
            text = f"tl.broadcast_to({text}, [XBLOCK, RBLOCK])"
        return text


# --- a whole schedule ---------------------------------------------------------------------------------


def make_kernel(group, schedule, shared):
    from .triton_matmul import ProductKernel
    from .triton_scatter import ScanKernel, ScatterKernel

    kinds = {"loops": LoopKernel, "scatter": ScatterKernel, "scan": ScanKernel, "product": ProductKernel}
    return kinds[group.kind](group, schedule, shared).generate()


def generate(schedule):
    """Schedule -> Source."""
    plan = memory.plan(schedule, after_reads=True)
    made = wrapper.generate(schedule, plan, lambda group: make_kernel(group, schedule, plan.storage))
    device = schedule.graph.device
    direct = all(b.layout is None or b.layout.device == device for b in schedule.graph.buffers)
    parts = [f'device = torch.device("{device}")\ndirect = {direct}'] if made.runs else []
    parts += [text.replace("@NAME@", name) for text, name in made.texts.items()]
    for run in made.runs:
        given = {number: f"n{k}" for k, number in enumerate(run.numbers)}
        body = indent(
            [f"{name}({', '.join([*args, *(given[n] for n in numbers)])})" for name, args, numbers in run.calls]
        )
        parts.append("\n".join([f"def {run.name}({', '.join([*run.buffers, *given.values()])}):", *body]))
    counts = {run.name: (len(run.buffers), len(run.numbers)) for run in made.runs}
    names = [name for run in made.runs for name, _, _ in run.calls]
    text = "\n\n\n".join(parts)
    return wrapper.Source("triton", made.wrapper.finish(), text + "\n", counts, schedule.graph.constants, names)


def on_device(graph, device="cuda:0"):
    """The IR graph as if its tensors were on a GPU: to see its kernels, and to compile them, without having one."""

    def move(layout):
        return layout and dataclasses.replace(layout, device=torch.device(device))

    inputs = {name: move(layout) for name, layout in graph.inputs.items()}
    buffers = [dataclasses.replace(b, layout=move(b.layout)) for b in graph.buffers]
    return dataclasses.replace(graph, inputs=inputs, buffers=buffers)


def compile_for(source, capability=90):
    """kernel name -> Triton's CompiledKernel (its `asm` has ttir, ttgir, llir, ptx, cubin), for any GPU; needs none."""
    from triton.backends.compiler import GPUTarget

    from . import triton_launch

    found = triton_launch.kernels(triton_launch.module(source.kernels))
    return {k.__name__: k.compile(GPUTarget("cuda", capability, 32)) for k in found}


def load(source):
    """Source -> its functions `run_0`, `run_1`, ..."""
    if not source.counts:
        return {}
    try:
        from . import triton_launch
    except ImportError as error:
        raise CompilerNotFound(f"Triton cannot be imported ({error}); install it: `pip install triton`") from error
    namespace = triton_launch.module(source.kernels)
    if namespace["device"].type == "cuda":
        triton_launch.build(namespace, namespace["device"])
    return {name: namespace[name] for name in source.counts}


__all__ = ["Kernel", "LoopKernel", "compile_for", "generate", "load", "on_device"]
