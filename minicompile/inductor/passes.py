"""Passes over the lowered graph, before scheduling: dead code, and inlining of cheap producers into their consumers.

Goes in: an `IRGraph`, with a buffer for every operator.  Comes out: an `IRGraph` with fewer, larger buffers, and a
`FusionDecision` for each buffer that vanished.  Mirrors what `torch/_inductor/ir.py` decides in `realize_hint` and
friends.  Taught in chapter 10.
"""

import dataclasses

from . import ir
from .indexing import hint, index
from .ir import Buffer, Extern, Load, MultiOutput, Pointwise, Scatter, View
from .symbols import buffer_symbols, symbols_in

MAX_BODY = 160  # expressions in one body: beyond this a producer stays a buffer
CHEAP, CHEAP_ON_GPU = 4, 32  # cost at or below which computing a value twice is better than storing it


@dataclasses.dataclass
class FusionDecision:
    """Why two things became one, or why they did not.  bytes_saved: memory traffic that the fusion avoids."""

    a: str
    b: str
    fused: bool
    why: str
    bytes_saved: object = 0

    def __str__(self):
        return f"{'fuse' if self.fused else 'keep'} {self.a} + {self.b}: {self.why} ({self.bytes_saved} bytes)"


def buffer_reads(buffer):
    """Names of the buffers that a buffer reads, in a fixed order."""
    data = buffer.data
    if isinstance(data, Extern):
        return list(dict.fromkeys(v.buffer for v in data.views()))
    if isinstance(data, MultiOutput):
        return [data.source]
    return list(dict.fromkeys(load.buffer for expr in loop_exprs(data) for load in ir.loads(expr)))


def loop_exprs(data):
    """The expressions of a loop nest."""
    if isinstance(data, Scatter):
        return (data.initial, data.body, *(ir.IndexExpr(i, ir.torch.int64) for i in data.position))
    return (data.body,)


def dead_code(graph):
    """Drop buffers that nothing reads, except calls that are there for what they do."""
    live = {o.buffer for o in graph.outputs if isinstance(o, View)} | symbols_in(graph.outputs)
    kept, binding = [], any(getattr(buffer.data, "binds", ()) for buffer in graph.buffers)
    for buffer in reversed(graph.buffers):
        binds = (symbol for symbol, _ in getattr(buffer.data, "binds", ()))
        if buffer.name in live or getattr(buffer.data, "ordered", False) or not live.isdisjoint(binds):
            kept.append(buffer)
            live.update(buffer_reads(buffer), buffer_symbols(buffer) if binding else ())
    return dataclasses.replace(graph, buffers=kept[::-1])


def split_arg(graph):
    """argmax = the smallest number of a position whose element is the max (or NaN, if there is one):

    two plain reductions, the second in the narrowest type that holds the number.
    """
    buffers = []
    for buffer in graph.buffers:
        data = buffer.data
        if isinstance(data, ir.Reduction) and data.kind in ("argmax", "argmin"):
            best = f"{buffer.name}_best"
            layout = dataclasses.replace(buffer.layout, dtype=data.body.dtype)
            extreme = dataclasses.replace(data, kind=data.kind[3:])
            buffers.append(Buffer(best, layout, extreme, buffer.origin))
            wins = ir.op("eq", data.body, Load(best, tuple(map(index, data.vars)), data.body.dtype))
            if data.body.dtype.is_floating_point:
                wins = ir.op("logical_or", wins, ir.op("isnan", data.body))
            count, place = ir.product(v.size for v in data.reduced), f"{buffer.name}_place"
            dtype = ir.index_dtype(count)
            number = (ir.index_expr(n, dtype) for n in (ir.flat_position(data.reduced), count))
            first = ir.Reduction(data.vars, data.reduced, "min", ir.op("where", wins, *number))
            buffers.append(Buffer(place, dataclasses.replace(buffer.layout, dtype=dtype), first, buffer.origin))
            found = ir.op("cast", Load(place, tuple(map(index, data.vars)), dtype), dtype=buffer.layout.dtype)
            buffer = dataclasses.replace(buffer, data=Pointwise(data.vars, found))
        buffers.append(buffer)
    return dataclasses.replace(graph, buffers=buffers)


def common_buffers(graph):
    """Loop nests that compute the same thing with the same layout become one buffer (unless it is a graph output)."""
    outputs = {o.buffer for o in graph.outputs if isinstance(o, View)}
    known, renamed, kept = {}, {}, []
    for buffer in graph.buffers:
        data = buffer.data
        if isinstance(data, ir.Loops):
            for name in buffer_reads(buffer):
                if name in renamed:
                    layout = graph.layouts[name]
                    variables = ir.loop_vars(layout.size)
                    data = replace_loads(
                        data, name, variables, Load(renamed[name], tuple(map(index, variables)), layout.dtype)
                    )
            buffer = dataclasses.replace(buffer, data=data)
            if buffer.name not in outputs and (data, buffer.layout) in known:
                renamed[buffer.name] = known[data, buffer.layout]
                continue
            known.setdefault((data, buffer.layout), buffer.name)
        elif isinstance(data, Extern):
            names = {v.buffer for v in data.views() if v.buffer in renamed}
            if names:
                swap = lambda v: dataclasses.replace(v, buffer=renamed.get(v.buffer, v.buffer))  # noqa: E731
                args, kwargs = ir.torch.utils._pytree.tree_map_only(View, swap, (data.args, data.kwargs))
                buffer = dataclasses.replace(buffer, data=dataclasses.replace(data, args=args, kwargs=kwargs))
        kept.append(buffer)
    return dataclasses.replace(graph, buffers=kept)


def bytes_moved(graph):
    """Bytes that the loop nests would read and write if each were a kernel."""
    layouts, total = graph.layouts, 0
    for buffer in graph.buffers:
        if isinstance(buffer.data, ir.Loops):
            total += sum(layouts[name].nbytes() for name in [buffer.name, *buffer_reads(buffer)])
    return total


def extern_bytes(graph):
    """Bytes that ATen calls read and write at least."""
    calls = [b.data for b in graph.buffers if isinstance(b.data, ir.Extern)]
    written = [b.layout for b in graph.buffers if b.layout is not None and not isinstance(b.data, ir.Loops)]
    return sum(layout.nbytes() for layout in [*written, *(v.layout for call in calls for v in call.views())])


def replace_loads(data, name, variables, body):
    """Put a producer's body in place of every load of it."""

    def replace(node):
        if isinstance(node, Load) and node.buffer == name:
            value = ir.transform(body, dict(zip(variables, node.position, strict=True)))
            return ir.keep_checks(value, node.position, [v.size for v in variables])
        return None

    return rebuilt(data, replace)


def rebuilt(data, replace):
    """A loop nest whose expressions went through `ir.transform` with `replace`."""
    memo = {}

    def expr(e):
        return ir.transform(e, {}, replace, memo)

    if isinstance(data, Scatter):
        position = tuple(expr(ir.IndexExpr(i, ir.torch.int64)).index for i in data.position)
        return dataclasses.replace(data, initial=expr(data.initial), body=expr(data.body), position=position)
    return dataclasses.replace(data, body=expr(data.body))


def _points(data):
    """How many times the body of a loop nest runs."""
    size = [v.size for v in data.vars]
    if isinstance(data, ir.Reduction):
        size += [v.size for v in data.reduced]
    if isinstance(data, Scatter):
        size = [v.size for v in data.points]
    return ir.product(size)


class Inliner:
    """Walks the buffers in order and dissolves the cheap ones."""

    def __init__(self, graph):
        self.graph, self.decisions = graph, []
        self.on_gpu = graph.device.type == "cuda"
        self.cheap = CHEAP_ON_GPU if self.on_gpu else CHEAP
        self.data = {b.name: b.data for b in graph.buffers}
        self.layouts = graph.layouts
        self.pinned = {o.buffer for o in graph.outputs if isinstance(o, View)}
        self.users = {}
        for buffer in graph.buffers:
            for name in buffer_reads(buffer):
                self.users.setdefault(name, []).append(buffer.name)
                if isinstance(buffer.data, (Extern, MultiOutput)):
                    self.pinned.add(name)

    def run(self):
        gone = set()
        for reason in (self.reason, self.made) if self.on_gpu else (self.reason,):
            for buffer in self.graph.buffers:
                data, name = self.data[buffer.name], buffer.name
                can_go = isinstance(data, Pointwise) and name not in self.pinned | gone and self.users.get(name)
                why = reason(buffer, data) if can_go else None
                if why:
                    self.dissolve(buffer, data, why)
                    gone.add(name)
        buffers = [dataclasses.replace(b, data=self.data[b.name]) for b in self.graph.buffers if b.name not in gone]
        return dataclasses.replace(self.graph, buffers=buffers)

    def uses(self, name):
        """(consumer's data, load) for every distinct load of a buffer."""
        found = []
        for user in self.users[name]:
            data = self.data[user]
            sites = dict.fromkeys(load for e in loop_exprs(data) for load in ir.loads(e) if load.buffer == name)
            found += [(data, load) for load in sites]
        return found

    def too_long(self, data, uses):
        size = len(ir.walk(data.body))
        return size > 1 and any(size * len(uses) + len(ir.walk(e)) > MAX_BODY for d, _ in uses for e in loop_exprs(d))

    def made(self, buffer, data):
        """A GPU makes a number faster than it loads it; what other buffers should be does not depend on that."""
        dear = ir.loads(data.body) or ir.cost(data.body) > self.cheap or self.too_long(data, self.uses(buffer.name))
        return None if dear else "made of numbers only"

    def reason(self, buffer, data):
        """Why this buffer should not exist, or None."""
        price, reads, uses = ir.cost(data.body), ir.loads(data.body), self.uses(buffer.name)
        if self.too_long(data, uses):
            return None
        if price <= 1 and not reads:
            return "made of numbers only"
        if price <= 1 and len(reads) == 1:
            return "one instruction on one load: cheaper to repeat than to store"
        ratios = [_ratio(_points(d), _points(data)) for d, _ in uses]
        repeated = max(ratios, default=1)
        if uses and sum(ratios) <= 1:  # once, or by parts: it is computed no more often
            return "used once"
        reduced = any(
            isinstance(self.data.get(r.buffer), ir.Reduction) for r in reads
        )  # fuses with its reduction instead
        if price <= 16 and repeated >= 8 and len(uses) <= 2 and not reduced:
            return "small: cheaper to repeat than a kernel of its own"
        if price * len(uses) * min(repeated, 8) > self.cheap * 2 or repeated > 2:
            return None
        wide = {r.buffer for r in reads if self.layouts[r.buffer].numel() == buffer.layout.numel()}
        if len(wide) <= 1:
            return "cheap, and its input would be read anyway"
        if hint(sum(self.layouts[name].nbytes() for name in wide)) <= hint(buffer.layout.nbytes()):
            return "cheap, and its inputs take no more bytes"
        return None

    def dissolve(self, buffer, data, why):
        saved, reads = buffer.layout.nbytes() * 2, dict.fromkeys(load.buffer for load in ir.loads(data.body))
        for user in self.users[buffer.name]:
            self.data[user] = replace_loads(self.data[user], buffer.name, data.vars, data.body)
            for name in reads:
                if user not in self.users[name]:
                    self.users[name].append(user)
            self.decisions.append(FusionDecision(buffer.name, user, True, why, saved))
            saved = 0
        for name in reads:
            self.users[name].remove(buffer.name)


def _ratio(a, b):
    return hint(a) / max(hint(b), 1)


def inline(graph):
    """Dissolve cheap producers.  Returns (graph, decisions)."""
    inliner = Inliner(graph)
    return inliner.run(), inliner.decisions
