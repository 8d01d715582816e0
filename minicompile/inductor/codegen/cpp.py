"""C++/OpenMP kernels: one function a group of loops.

Goes in: a `Group`.  Comes out: a `Kernel` (the text of a C++ function, the buffers it takes).  `#pragma omp parallel
for` outside, `#pragma omp simd` inside; values that nodes hand to each other stay in registers; rows that a later
pass needs again stay in a small scratch array.  Mirrors `torch/_inductor/codegen/cpp.py`.  Taught in chapter 11.

    pointwise   for outer (parallel): for x (simd): all nodes
    rows        for outer (parallel): for each pass: for r (simd): reduce        the reduced loop is contiguous
    columns     for outer, tile (parallel): for each pass: for r: for x (simd)   the last outer loop is contiguous
"""

import dataclasses

import sympy

from .. import ir, memory, passes
from ..conditions import decided, hoist_conditions, masks_around, pieces
from ..dependencies import Addresses, merge_loops
from ..indexing import Indirect, hint, index
from ..scheduler import levels
from . import wrapper
from .common import Kernel, needs_error, summary_of
from .cpp_columns import ColumnReductions
from .cpp_expr import chooses_twice, indent
from .cpp_kept import KeptRows
from .cpp_loops import LIGHT, LINE, Loop
from .cpp_prelude import PRELUDE
from .cpp_rows import AHEAD, RowReductions
from .cpp_stream import StreamedStores
from .cpp_tables import Tables
from .cpp_turned import TurnedLoads

EXTREMES = ("max", "min", "argmax", "argmin")
PIECE = 16  # points of a piece of a loop, at least: one vector


class LoopKernel(RowReductions, ColumnReductions, KeptRows, Tables, TurnedLoads, StreamedStores):
    def __init__(self, group, schedule, storage, serial=None, short=None):
        self.near = {}
        self.layouts = dict(schedule.graph.layouts)  # tables are added to it
        super().__init__(Addresses(self.layouts))
        self.serial, self.short, self.limits = serial, short, {}  # limits: C++ condition -> what is true under it
        self.group, self.nodes = group, group.nodes
        self.stored = set(group.stored)
        self.bind(group.reads, group.stored, storage)
        self.errors = any(
            needs_error(e) for n in self.nodes for e in passes.loop_exprs(n if hasattr(n, "body") else n.data)
        )
        self.turned = {}

    # --- loop order ---

    def contiguity(self, var, nodes):
        """How many bytes are accessed in steps of one element in this loop; stores count double."""
        score = 0
        for node in nodes:
            found = [(name, 1) for name, address in self.addresses.reads(node) if address.coefficient(var) == 1]
            if node.name in self.stored and not node.is_reduction and node.store.coefficient(var) == 1:
                found.append((node.name, 2))
            score += sum(weight * hint(self.layouts[name].nbytes()) for name, weight in found)
        return score

    def arrange(self):
        """Choose the loop order and the kind of kernel; merge loops."""
        group = self.group
        outer, inner = list(group.outer), list(group.inner)
        full = [n for n in self.nodes if n.inner] or self.nodes
        last = lambda vs: max(reversed(vs), key=lambda v: self.contiguity(v, full))  # noqa: E731
        self.columns = False
        if inner:
            best = last(inner)
            inner.sort(key=lambda v: v is best)
            if outer:
                across = last(outer)
                self.columns = self.contiguity(across, full) > self.contiguity(best, full)
                if self.columns:
                    outer.sort(key=lambda v: v is across)
        elif outer:
            best = last(outer)
            outer.sort(key=lambda v: v is best)
        nodes = [dataclasses.replace(n, outer=tuple(outer), inner=tuple(inner) if n.inner else ()) for n in self.nodes]
        nodes = [hoist_conditions(n) for n in merge_loops(nodes, self.addresses)]
        widest = max(nodes, key=lambda n: len(n.inner))
        self.outer, self.inner = list(widest.outer), list(widest.inner)
        self.nodes = self.look_up(nodes, self.inner + self.outer if self.columns else self.outer + self.inner)
        self.level, self.bodies = levels(self.nodes), [n.body for n in self.nodes]
        self.find_pairs()

    def loop_sizes(self):
        return [v.size for v in self.outer + self.inner]

    def cost(self):
        return sum(2 + len(ir.loads(e)) + ir.cost(e) // 2 for e in self.bodies)

    # --- the function ---

    def generate(self):
        self.arrange()
        self.fill_tables()
        if not self.inner:
            self.pointwise()
        elif self.columns:
            self.column_reduction()
        else:
            self.row_reduction()
        kinds = [n.kind for n in self.nodes if n.is_reduction]
        at_points = [n.name if n.inner == tuple(self.inner) and not n.is_reduction else None for n in self.nodes]
        parts = zip(at_points, (n.body for n in self.nodes), (n.kind in EXTREMES for n in self.nodes), strict=True)
        return self.finish(kinds, list(parts))

    def finish(self, words, parts):
        """parts: as `chooses_twice` takes them."""
        numbers, summary = list(self.numbers), summary_of(words, [body for _, body, _ in parts])
        self.jumps = chooses_twice(parts)
        return Kernel(self.function(self.pop()), self.params, numbers, self.types, summary)

    def emit(self, node, late=False):
        """Compute a node here, hand its value on, store it if somebody outside needs it."""
        text = self.value(node.body)
        self.forward(node.name, text)
        if node.name in self.stored:
            self.store(node.name, node.store, text, late)

    # --- pointwise ---

    def pointwise(self):
        across = self.transposed()
        if across is not None:
            self.in_blocks(*across)
            return
        loops, last = [self.loop(v) for v in self.outer], self.outer[-1] if self.outer else None
        if len(loops) == 1 and self.streamed(self.nodes, last) and not pieces(self.nodes, last)[0]:
            loops = self.in_parts(loops[0])
        self.cut(self.parallel(loops, simd=not self.picks()))

    def points(self, nodes):
        for node in nodes:
            self.emit(node, late=True)

    def cut(self, levels):
        """The loops; the vector loop in pieces if comparisons change along it: no point of a piece has to ask."""
        if not levels:
            self.points(self.nodes)
            return
        *outside, (pragma, inside) = levels
        loop = inside[-1]
        edges, parts = pieces(self.nodes, loop.var) if len(inside) == 1 else ((), ())
        if not edges or self.likely(loop.var.size) < PIECE * len(parts):
            edges, parts = (), [self.nodes]
        bounds = [loop.low, *(self.edge(e, loop.high) for e in edges), loop.high]

        def body():
            self.line(*(self.fetch_rows(loop.var) if outside else ()))
            for low, high, nodes in zip(bounds[:-1], bounds[1:], parts, strict=True):
                loops = [*inside[:-1], Loop(loop.var, low, high)]
                self.unmasked(
                    nodes,
                    loop.var,
                    lambda nodes, loops=loops: self.vector_loop(pragma, loops, nodes, lambda: self.points(nodes)),
                )

        self.nest(outside, body)

    def unmasked(self, nodes, var, write):
        """A vector loop twice where all of it may lie under a mask: where no mask hides anything, and elsewhere."""
        masks = masks_around(nodes, var) if self.likely(var.size) >= PIECE else ()
        if not masks:
            write(nodes)
            return

        def branch(nodes):
            self.push()
            write(nodes)
            return indent(self.pop())

        whole, part = branch(decided(nodes, dict.fromkeys(masks, True))), branch(nodes)
        condition = " && ".join(self.value(mask) for mask in masks)
        self.line(f"if ({condition}) {{", *whole, "} else {", *part, "}")

    def fetch_rows(self, var):
        """Loops that fetch rows from which most lines will be picked, in an order that processors do not foresee."""
        for name, address in dict.fromkeys(read for n in self.nodes for read in self.addresses.reads(n)):
            picked = [a for a, c in address.terms if type(a) is Indirect and c == 1 and var in self.facts(a.expr)[0]]
            row, per_line = hint(picked[0].size) if picked else 0, LINE // self.layouts[name].dtype.itemsize
            near = row * self.layouts[name].dtype.itemsize <= AHEAD and name in self.group.reads
            if len(picked) == 1 and near and 4 * per_line <= row <= self.likely(var.size) * per_line:
                first = address - index(picked[0])
                if first.is_affine() and var not in first.vars():
                    line = Loop("ahead", "0", self.size(picked[0].size), per_line)
                    yield f"{line} __builtin_prefetch(&{self.names[name]}[{self.index(first)} + ahead]);"

    def edge(self, edge, limit):
        """The text of a place in a loop, which may lie outside of it where it is known at run time only."""
        text = self.index(edge)
        return text if isinstance(edge.constant, int) and edge.is_constant else f"m_within({text}, {limit})"

    def picks(self):
        """Little work on elements picked one by one from afar: vectors would only have to be put together first."""
        inside, found = set(self.outer[-1:]), False
        if inside and list(self.fetch_rows(self.outer[-1])):
            return False
        for node in self.nodes:
            for _, address in self.addresses.reads(node):
                found |= any(type(a) is Indirect and self.facts(a.expr)[0] & inside for a in address.atoms())
        return found and sum(ir.cost(n.body) for n in self.nodes) <= LIGHT

    # --- reductions ---

    def passes(self):
        """(level, full nodes) of each pass."""
        last = max(self.level.values())
        for k in range(last + 1):
            yield k, [n for n in self.nodes if n.inner and self.level[n.name] == k]

    def outer_nodes(self, level):
        return [n for n in self.nodes if not n.inner and self.level[n.name] == level]

    def local_load(self, expr):
        """A row computed in an earlier pass: from the scratch row, or from where it was stored, or computed again."""
        if expr.buffer in self.scratch:
            return f"{self.scratch[expr.buffer]}[{self.row_index()}]"
        node = next((n for n in self.nodes if n.name == expr.buffer), None)
        if node is None or expr.buffer in self.stored:
            return None
        return self.value(node.body)

    def few_rows(self, trips):
        """One pass over long rows and few of them: the rows themselves are shared out among threads."""
        return trips < 16 and max(self.level.values()) <= 0 and self.threaded()

    def point_of_pass(self, full, names):
        """One point of the reduced loops; names: of the accumulators."""
        for node in full:
            if node.is_reduction:
                self.take(node, names)
                continue
            self.emit(node)
        self.fill_rows(full)

    def end_pass(self, full):
        """Values of single points are gone; kept rows can be read from now on."""
        for node in full:
            if not node.is_reduction:
                self.forwards.pop(node.name, None)
        self.end_rows(full)
        self._facts.clear()


def module(texts, runs, params):
    """The file: every kernel once, and one `extern "C"` function for each run of kernels between ATen calls."""
    parts = [text.replace("@NAME@", name) for text, name in texts.items()]
    for run in runs:
        lines = [f'extern "C" int {run.name}(void** p) {{', "  int err = 0;"]
        for kernel, arguments, numbers in run.calls:
            casts = [f"({ctype})p[{run.buffers.index(a)}]" for a, ctype in zip(arguments, params[kernel], strict=True)]
            casts += [f"(int64_t)p[{len(run.buffers) + run.numbers.index(n)}]" for n in numbers]
            lines.append(f"  err |= {kernel}({', '.join(casts)});")
        parts.append("\n".join([*lines, "  return err;", "}"]))
    return "\n\n".join(parts) + "\n"


def make_kernel(group, schedule, storage):
    """The kernel of a group that is no ATen call."""
    from .cpp_scatter import ScanKernel, ScatterKernel  # these are LoopKernels too

    kind = {"loops": LoopKernel, "scatter": ScatterKernel, "scan": ScanKernel}[group.kind]
    kernel = kind(group, schedule, storage)
    if not any(isinstance(kernel.layouts[name].numel(), sympy.Expr) for name in kernel.params):
        return kernel.generate()
    return versions(lambda **which: kind(group, schedule, storage, **which))


def versions(make):
    """A kernel with symbolic sizes: for few points, for short rows and for all others, as far as these differ."""
    writer = make(serial=True, short=True)
    kernel, limits, text, choices = writer.generate(), writer.limits, "", []
    for name, short in (("_small", "short" in limits.values()), ("_short", False)):
        conditions = [limit for limit, kind in limits.items() if name == "_small" or kind == "short"]
        if conditions:
            text += kernel.text.replace("@NAME@", f"@NAME@{name}") + "\n\n"
            choices.append(f"if ({' && '.join(conditions)}) return @NAME@{name}({writer.arguments()});")
            numbers, writer = writer.numbers, make(serial=False, short=short)
            writer.numbers, writer.first_lines = numbers, () if short else choices
            kernel = writer.generate()
    return dataclasses.replace(kernel, text=text + kernel.text)


def generate(schedule):
    """Schedule -> Source."""
    plan = memory.plan(schedule)
    made = wrapper.generate(schedule, plan, lambda group: make_kernel(group, schedule, plan.storage))
    counts = {run.name: (len(run.buffers), len(run.numbers)) for run in made.runs}
    kernels = module(made.texts, made.runs, made.types) if made.runs else ""
    names = [name for run in made.runs for name, _, _ in run.calls]
    return wrapper.Source("cpp", made.wrapper.finish(), kernels, counts, schedule.graph.constants, names, PRELUDE)
