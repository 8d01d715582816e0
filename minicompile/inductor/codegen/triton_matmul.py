"""Matrix products in Triton, with the loops before and after them in the same kernel; `mode="max-autotune"`.

Goes in: a `Schedule`.  Comes out: one in which some calls of cuBLAS, with the loops that feed a product or read its
result, are one `ProductGroup`: those that were measured to be faster so.  Each program computes a tile of YBLOCK x
XBLOCK, RBLOCK numbers of each row and column at a time, in float32; tiles that share rows run side by side, so that
these stay in the L2 cache.  Mirrors `torch/_inductor/kernel/mm.py` and `select_algorithm.py`.  Taught in chapter 13.
"""

import dataclasses
import functools

import torch

from ... import config
from .. import autotune, ir
from ..dependencies import Addresses
from ..graph import IRGraph
from ..indexing import Var, delinearize, flatten, index
from ..ir import Extern, View
from ..scheduler import Group, Schedule
from . import triton_tiles as tiles
from . import wrapper
from .triton import LoopKernel, generate, load
from .triton_expr import Axis, function, indent, storage

aten = torch.ops.aten
PRODUCTS = (aten.mm.default, aten.addmm.default, aten.bmm.default)
DTYPES = (torch.bfloat16, torch.float16, torch.float32)
CHEAP = 4  # what computing an operand may cost: each tile of a row does it again
HEIGHT = 8  # rows of tiles that run side by side
CONFIGS = (  # YBLOCK, XBLOCK, RBLOCK, warps, stages of the pipeline that loads ahead
    (128, 256, 64, 8, 3),
    (128, 128, 64, 8, 3),
    (128, 128, 32, 4, 4),
    (128, 64, 64, 4, 4),
    (64, 128, 64, 4, 4),
    (64, 64, 64, 4, 4),
    (64, 32, 128, 4, 4),
    (32, 64, 128, 4, 4),
    (16, 64, 128, 4, 5),
)


@dataclasses.dataclass
class ProductGroup(Group):
    """One kernel: a product, the loops that make its operands (before: name -> node) and those that read its result."""

    before: dict = dataclasses.field(default_factory=dict)
    tile: tuple = ()


def sizes_of(data):
    """(batch or None, M, N, K) of a product."""
    a, b = (view.layout.size for view in data.args[-2:])
    return (a[0] if len(a) == 3 else None, a[-2], b[-1], a[-1])


def suits(buffer):
    """Is this a product that the template computes?"""
    data = buffer.data
    if not (isinstance(data, Extern) and data.kind == "extern" and data.target in PRODUCTS) or data.kwargs:
        return False
    views = data.args
    known = all(isinstance(v, View) and all(isinstance(n, int) for n in v.layout.size) for v in views)
    dtype, on_gpu = buffer.layout.dtype, buffer.layout.device.type == "cuda"
    if not known or {v.layout.dtype for v in views} != {dtype} or dtype not in DTYPES:
        return False
    if dtype == torch.float32 and on_gpu and not torch.backends.cuda.matmul.allow_tf32:
        return False  # no tensor cores: nothing to win over cuBLAS
    bias = len(views) == 2 or len(views[0].layout.size) == 1
    return bias and buffer.layout.is_contiguous() and all(n for n in sizes_of(data) if n is not None)


def in_order(variables, address):
    """The variables from slowest to fastest, if the address numbers their points in row-major order; else None."""
    if not all(isinstance(v.size, int) and isinstance(address.coefficient(v), int) for v in variables):
        return None
    order = sorted(variables, key=lambda v: -address.coefficient(v))
    return order if flatten([index(v) for v in order], [v.size for v in order]) is address else None


def relabel(variables, address, number):
    """The mapping of loop variables to new ones under which `address` becomes `number`; None if there is none."""
    order = in_order(variables, address)
    return order and dict(zip(order, delinearize(number, [v.size for v in order]), strict=True))


class Finder:
    """Looks for products, and for the loops around each."""

    def __init__(self, schedule):
        self.schedule, self.addresses = schedule, Addresses(schedule.graph.layouts)
        self.outputs = {o.buffer for o in schedule.graph.outputs if isinstance(o, View)}
        self.readers, self.maker = {}, {}
        for group in schedule.groups:
            for name in group.reads:
                self.readers.setdefault(name, []).append(group)
            self.maker.update(dict.fromkeys(group.stored, group))

    def products(self):
        """Lists of groups that could be one: what makes operands, the call, what reads the result first."""
        for group in self.schedule.groups:
            if group.kind == "extern" and suits(group.nodes[0]):
                buffer = group.nodes[0]
                before = [self.maker[v.buffer] for v in buffer.data.args[-2:] if self.is_before(v.buffer)]
                after = [g for g in self.readers.get(buffer.name, [])[:1] if self.is_after(g, buffer.name)]
                yield [*(g for g in before[:1]), *(g for g in before[1:] if g is not before[0]), group, *after]

    def is_before(self, name):
        group = self.maker.get(name)
        if group is None or group.kind != "loops" or group.inner or len(group.nodes) != 1 or name in self.outputs:
            return False
        node = group.nodes[0]
        alone = len(self.readers[name]) == 1 and ir.cost(node.body) <= CHEAP
        return alone and in_order(node.outer, node.store) is not None

    def is_after(self, group, name):
        if group.kind != "loops" or group.inner:
            return False
        read = {address for n in group.nodes for found, address in self.addresses.reads(n) if found == name}
        return len(read) == 1 and in_order(group.outer, *read) is not None

    def group_of(self, parts, tile):
        """The ProductGroup that such groups become."""
        k = next(k for k, g in enumerate(parts) if g.kind == "extern")
        buffer, inside = parts[k].nodes[0], {n for g in parts for n in g.stored}
        before = {g.nodes[0].name: g.nodes[0] for g in parts[:k]}
        others = [g for g in self.readers.get(buffer.name, []) if g not in parts[k + 1 :]]
        kept = (buffer.name,) if others or buffer.name in self.outputs else ()
        nodes = [buffer, *(n for g in parts[k + 1 :] for n in g.nodes)]
        stored = kept + tuple(n for g in parts[k + 1 :] for n in g.stored)
        reads = tuple(dict.fromkeys(n for g in parts for n in g.reads if n not in inside))
        return ProductGroup("product", nodes, stored=stored, reads=reads, before=before, tile=tile)


class ProductKernel(LoopKernel):
    """A ProductGroup -> a `Kernel`."""

    def __init__(self, group, schedule, shared):
        super().__init__(group, schedule, shared)
        self.buffer, *self.nodes = group.nodes
        self.before, self.blocks = group.before, group.tile
        self.batch, self.m, self.n, self.k = sizes_of(self.buffer.data)

    def generate(self):
        writer = self.writer(self.reads, self.stored, self.nodes)
        rows = Axis("y", (Var("m", self.m),), self.blocks[0])
        columns = Axis("x", (Var("n", self.n),), self.blocks[1], 1)
        batch = [Axis("z", (Var("b", self.batch),), None, masked=False)] if self.batch else []
        along = [Axis(name, (Var(name, self.k),), self.blocks[2], place) for name, place in (("r", 1), ("s", 0))]
        for axis in (rows, columns, *along):
            axis.masked = not axis.whole()
        result = [*batch, rows, columns]
        place = [axis.vars[0] for axis in result]
        writer.use_axes(result)
        self.order(writer, result)
        self.walk(writer, result, along)
        bias = self.buffer.data.args[0] if len(self.buffer.data.args) == 3 else None
        if bias is not None:
            term = ir.Fetch(bias.buffer, bias.layout.address((index(columns.vars[0]),)), bias.layout.dtype)
            writer.line(f"acc = acc + {writer.value(ir.op('cast', term, dtype=torch.float32))}")
        if config.emulate_precision_casts and self.buffer.layout.dtype in ir.HALF:
            writer.line(f"acc = rt.cast(acc, {storage(self.buffer.layout.dtype)})")
        writer.forward(self.buffer.name, "acc", {"y", "x"})
        number = flatten([index(v) for v in place], [v.size for v in place])
        if self.buffer.name in self.stored:
            writer.store(self.buffer.name, number, "acc", {"y", "x"})
        for node in self.nodes:
            (read,) = {a for n in self.nodes for name, a in self.addresses.reads(n) if name == self.buffer.name}
            self.emit(writer, node.renamed(relabel(node.outer, read, number), tuple(place), ()))
        blocks = dict(zip(("YBLOCK", "XBLOCK", "RBLOCK"), self.blocks, strict=False))
        grid = " * ".join([f"cdiv({self.m}, YBLOCK)", f"cdiv({self.n}, XBLOCK)", *([str(self.batch)] if batch else [])])
        text = function("@NAME@", writer, writer.pop(), grid, self.blocks[3], blocks, stages=self.blocks[4])
        return self.finish(text, writer, [self.buffer.data.target.overloadpacket.__name__])

    def order(self, writer, result):
        """Which tile this program computes."""
        down, across = -(-self.m // self.blocks[0]), -(-self.n // self.blocks[1])
        writer.line(f"program = {writer.program()}")
        if self.batch:
            writer.line(f"z = program // {down * across}")
            writer.line(f"program = program % {down * across}")
        if min(down, across) == 1:
            first = ("0", "program") if down == 1 else ("program", "0")
        else:
            writer.line(f"group = program // {HEIGHT * across}")
            writer.line(f"height = tl.minimum({down} - group * {HEIGHT}, {HEIGHT})")
            inside = f"program % {HEIGHT * across}"
            first = (f"group * {HEIGHT} + {inside} % height", f"{inside} // height")
        for axis, number in zip(result[-2:], first, strict=True):
            self.define(writer, axis, number)
        for axis in result:
            writer.depth_of_var.update(dict.fromkeys(axis.vars, 0))

    def walk(self, writer, result, along):
        """The loop over K."""
        r, s = along
        writer.line("acc = tl.full([YBLOCK, XBLOCK], 0.0, tl.float32)")
        writer.axes = [*result, *along]
        writer.axis_of.update({v: axis for axis in along for v in axis.vars})
        writer.push(*r.vars, *s.vars)
        for axis, side in ((r, "[None, :]"), (s, "[:, None]")):
            writer.line(f"{axis.name} = r_start + tl.arange(0, RBLOCK){side}")
            if axis.masked:
                writer.line(f"{axis.name}mask = {axis.name} < {self.k}")
        outer = [axis.vars[0] for axis in result[:-2]]
        first, second = self.buffer.data.args[-2:]
        self.operand(writer, "a", first, [*outer, result[-2].vars[0], r.vars[0]], r)
        self.operand(writer, "b", second, [*outer, s.vars[0], result[-1].vars[0]], s)
        exact = "tf32" if torch.backends.cuda.matmul.allow_tf32 else "ieee"
        writer.line(f'acc = rt.dot(a, b, acc, "{exact}")')
        lines = writer.pop()
        writer.line(f"for r_start in range(0, {self.k}, RBLOCK):", *indent(lines))
        writer.axes = result

    def operand(self, writer, name, view, position, axis):
        """A tile of an operand, loaded or computed, in its own type; zero behind the end of K."""
        address, dtype = view.layout.address(tuple(map(index, position))), view.layout.dtype
        node = self.before.get(view.buffer)
        if node is None:
            text = writer.load_text(ir.Fetch(view.buffer, address, dtype), address, None)
        else:
            text = writer.value(ir.transform(node.body, relabel(node.outer, node.store, address)))
            text = f"{text}.to({storage(dtype)})"
        writer.line(f"{name} = {text}")
        if axis.masked:
            writer.line(f"{name} = tl.where({axis.name}mask, {name}, 0.0)")


# --- measuring ----------------------------------------------------------------------------------------


def configs(data, interpreted):
    """The tiles that suit a product: none much larger than it."""
    _, m, n, _ = sizes_of(data)
    if interpreted:
        return [(64, 64, 32, 4, 3), (32, 128, 64, 4, 3)]
    fit = [c for c in CONFIGS if c[0] <= max(16, tiles.power(m)) and c[1] <= max(32, tiles.power(n))]
    return fit or [CONFIGS[-1]]


def alone(schedule, groups):
    """A schedule of these groups only."""
    made = {name for g in groups for name in g.names}
    layouts = schedule.graph.layouts
    stored = {name for g in groups for name in g.stored}
    read = dict.fromkeys(name for g in groups for name in g.reads if name not in made)
    later = {name for g in schedule.groups if not any(g is each for each in groups) for name in g.reads}
    later |= {o.buffer for o in schedule.graph.outputs if isinstance(o, View)}
    buffers = [b for b in schedule.graph.buffers if b.name in made]
    outputs = [View(name, layouts[name]) for name in layouts if name in stored & later]
    graph = IRGraph({name: layouts[name] for name in read}, {}, buffers, outputs)
    return Schedule(graph, groups, [])


def runner(source, inputs, made):
    """A function without arguments that runs such a schedule on numbers made up.  made: those there are, by name."""
    call = wrapper.load(source, load(source))
    tensors = [made.setdefault(name, made_up(layout)) if name not in made else made[name] for name, layout in inputs]
    return lambda: call(tensors)


def made_up(layout):
    """Random numbers, of which the user's generator does not know."""
    tensor, memory = autotune.tensor_of(layout)
    if layout.dtype.is_floating_point:
        memory.normal_(generator=torch.Generator(layout.device).manual_seed(0))
    else:
        memory.zero_()
    return tensor


def tuned(schedule):
    """The schedule with each product, and the loops around it, in the way that was measured to be fastest."""
    from triton.runtime.errors import OutOfResources

    finder, groups = Finder(schedule), list(schedule.groups)
    for parts in list(finder.products()):
        if not all(any(part is g for g in groups) for part in parts):
            continue  # some of it is in another product's kernel
        data = next(g for g in parts if g.kind == "extern").nodes[0].data
        ways = {"aten": parts}
        for tile in configs(data, schedule.graph.device.type == "cpu"):
            ways[str(tile)] = [finder.group_of(parts, tile)]
        candidates, texts, made = {}, [], {}
        for name, way in ways.items():
            small = alone(schedule, way)
            source = generate(small)
            candidates[name] = functools.partial(runner, source, list(small.graph.inputs.items()), made)
            texts.append(str(source))
        best = autotune.choose(candidates, texts, schedule.graph.device, OutOfResources)
        if best != "aten":
            last = next(k for k, g in enumerate(groups) if g is parts[-1])
            groups[last] = ways[best][0]
            groups = [g for g in groups if not any(g is part for part in parts)]
    return dataclasses.replace(schedule, groups=groups)
