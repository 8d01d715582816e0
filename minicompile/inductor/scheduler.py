"""Fusion: which loop nests become one kernel, and why.

Goes in: an `IRGraph`.  Comes out: a `Schedule`: groups in execution order, each with its nodes on common loops, the
buffers that it has to store, and a `FusionDecision` for every pair that was looked at; bytes moved before and after.
Deterministic. Mirrors `torch/_inductor/scheduler.py`.  Taught in chapter 10.

A group of loops runs `for outer: for inner`: a node covers both ("full"), or only the outer ones: results of
reductions over the inner loops, and what is computed from these.  A group without reductions has no inner loops.
"""

import dataclasses
import functools

import networkx as nx

from .. import config
from . import epilogues, ir, memory, online, passes, ranges
from .dependencies import (
    Addresses,
    SchedulerNode,
    common_loops,
    levels,
    make_node,
    match_loops,
    merge_loops,
    pair_loops,
)
from .indexing import hint
from .ir import Extern, MultiOutput, Pointwise, Reduction, View
from .passes import FusionDecision, buffer_reads
from .symbols import waiting

MAX_NODES = 64  # in one kernel: compile time grows faster than the gain beyond
MIN_PARALLEL = 16  # outer iterations that a group with several passes needs, when the passes are long
LONG_PASS = 1 << 16
GPU_PROGRAMS, GPU_ROW, GPU_WORK = 132, 1 << 14, 1 << 18  # the same on a GPU; below that much work a launch costs more
GPU_SUMS, GPU_HELD = 4, 1 << 10  # reductions that a GPU's thread has registers for, where its rows are longer than that
SCRATCH = 1 << 16  # bytes of a row that a kernel keeps beside its loops


@dataclasses.dataclass
class Group:
    """One kernel (kind "loops"), or one buffer that is emitted by itself (kind "scatter", "scan", "extern",
    "output").
    """

    kind: str
    nodes: list  # SchedulerNode, or the Buffer itself for other kinds
    outer: tuple = ()
    inner: tuple = ()
    stored: tuple = ()  # names that something outside reads
    reads: tuple = ()  # names read from outside
    touched: dict | None = None  # names read or written, remembered

    @property
    def names(self):
        return [n.name for n in self.nodes]

    def __str__(self):
        head = f"{self.kind} {' + '.join(self.names)}"
        if self.kind != "loops":
            return f"{head}: {self.nodes[0]}"
        body = "\n".join(
            f"    {n.name}{'' if n.name in self.stored else ' (local)'} = {n.kind}: {n.body}" for n in self.nodes
        )
        return f"{head}  ({ir.ranges_text(self.outer, self.inner)})\n{body}"


@dataclasses.dataclass
class Schedule:
    """What the code generators take."""

    graph: object
    groups: list
    decisions: list
    bytes_before: object = 0
    bytes_after: object = 0

    def __str__(self):
        lines = [f"{k}. {group}" for k, group in enumerate(self.groups)]
        return "\n".join([*lines, f"bytes moved: {self.bytes_before} before fusion, {self.bytes_after} after"])

    __repr__ = __str__

    def why(self):
        """The table of decisions, as text."""
        return "\n".join(map(str, self.decisions))


class Scheduler:
    def __init__(self, graph):
        self.graph, self.decisions = graph, []
        self.on_gpu = graph.device.type == "cuda"
        self.layouts = graph.layouts
        self.addresses = Addresses(self.layouts)
        self.groups = [self.make_group(b) for b in graph.buffers]
        self.users = {}
        for buffer in graph.buffers:
            for name in buffer_reads(buffer):
                self.users.setdefault(name, set()).add(buffer.name)
        self.outputs = {o.buffer for o in graph.outputs if isinstance(o, View)}
        self.producer = {b.name: k for k, b in enumerate(graph.buffers)}  # name -> number of its group
        self.depends = [{self.producer[n] for n in buffer_reads(b) if n in self.producer} for b in graph.buffers]
        self.refused = {}
        for name, calls in waiting(graph.buffers, buffer_reads).items():
            self.depends[self.producer[name]] |= {self.producer[call] for call in calls}
        ordered = [k for k, b in enumerate(graph.buffers) if getattr(b.data, "ordered", False)]
        for before, after in zip(ordered, ordered[1:], strict=False):
            self.depends[after].add(before)

    def make_group(self, buffer):
        if isinstance(buffer.data, (Pointwise, Reduction)):
            node = make_node(buffer, self.addresses)
            return Group("loops", [node], node.outer, node.inner)
        kinds = {Extern: "extern", MultiOutput: "output"}
        return Group(kinds.get(type(buffer.data), type(buffer.data).__name__.lower()), [buffer])

    # --- the loop ---

    def run(self, fuse=True):
        while fuse and self.fuse_round():
            pass
        self.finish()
        after = self.bytes_moved()
        order = self.topological()
        if self.on_gpu:
            memory.put_off(order, self)
            memory.free_first(order, self)
        return Schedule(self.graph, [self.groups[k] for k in order], self.decisions, 0, after)

    def fuse_round(self):
        """Try every pair that shares a buffer, most bytes first.  True when something fused."""
        progress = False
        for score, a, b in self.candidates():
            pair = self.groups[a], self.groups[b]
            if None in pair or sum(len(group.nodes) for group in pair) > MAX_NODES:
                continue
            key = tuple(tuple(group.names) for group in pair)
            if key in self.refused:
                continue
            fused, why = self.try_fuse(a, b)
            self.decisions.append(
                FusionDecision("+".join(key[0]), "+".join(key[1]), fused is not None, why, score if fused else 0)
            )
            if fused is None:
                self.refused[key] = why
                continue
            self.replace(a, b, fused)
            progress = True
        return progress

    def candidates(self):
        """(bytes shared, first, second), best first, ties by order."""
        touching = {}
        for k, group in enumerate(self.groups):
            if group is not None and group.kind == "loops":
                for name in self.touched(group):
                    touching.setdefault(name, []).append(k)
        scores = {}
        for name, members in touching.items():
            nbytes = hint(self.layouts[name].nbytes())
            for i, a in enumerate(members):
                for b in members[i + 1 : i + 17]:  # a buffer that everybody reads: neighbours only
                    scores[a, b] = scores.get((a, b), 0) + nbytes * (2 if self.producer.get(name) in (a, b) else 1)
        return sorted(((s, a, b) for (a, b), s in scores.items()), key=lambda t: (-t[0], t[1], t[2]))

    def touched(self, group):
        if group.touched is None:
            loads = [load.buffer for n in group.nodes for load in ir.loads(n.body)]
            group.touched = dict.fromkeys([*group.names, *loads])
        return group.touched

    def reaches(self, source, target, skip_direct=False):
        """Does group `target` depend on group `source` (through others, with skip_direct)?"""
        stack, seen = [d for d in self.depends[target] if not (skip_direct and d == source)], set()
        while stack:
            k = stack.pop()
            if k == source:
                return True
            if k not in seen:
                seen.add(k)
                stack.extend(self.depends[k])
        return False

    def replace(self, a, b, fused):
        self.groups[a], self.groups[b] = fused, None
        self.depends[a] = (self.depends[a] | self.depends[b]) - {a, b}
        self.depends[b] = set()
        for deps in self.depends:
            if b in deps:
                deps.discard(b)
                deps.add(a)
        for name in fused.names:
            self.producer[name] = a

    def topological(self):
        """Each group behind those that it needs, and as early as its number allows."""
        needs = {k: sorted(self.depends[k]) for k, group in enumerate(self.groups) if group is not None}
        return list(nx.dfs_postorder_nodes(nx.DiGraph(needs)))

    # --- one pair ---

    def try_fuse(self, a, b):
        """(fused group or None, why)."""
        if self.reaches(a, b, skip_direct=True) or self.reaches(b, a, skip_direct=True):
            return None, "another kernel lies between them"
        if a in self.depends[b] or b not in self.depends[a]:
            first, second = self.groups[a], self.groups[b]
        else:
            first, second = self.groups[b], self.groups[a]
        if first.nodes[0].buffer.layout.device != second.nodes[0].buffer.layout.device:
            return None, "on different devices"
        why = "loops do not match"
        for mapping in self.mappings(first, second):
            fused, why = self.overlay(first, second, *mapping)
            if fused is not None:
                return fused, why
        return None, why

    def mappings(self, first, second):
        """Candidate (outer, inner, renaming of first's loops, of second's) that put both groups on common loops.

        Loops are matched by the address at which both touch a shared buffer, largest buffer first; at last in order.
        """
        shared = [n for n in self.touched(first) if n in self.touched(second)]
        shared.sort(key=lambda n: -hint(self.layouts[n].numel()))
        lead, other = (first, second) if first.inner or not second.inner else (second, first)
        ways = [
            functools.partial(match_loops, address_first=x, address_second=y)
            for name in shared
            for x in self.addresses_of(lead, name)[:2]
            for y in self.addresses_of(other, name)[:2]
        ]
        for pair in [*ways, pair_loops]:
            for whole in (True, False):
                found = common_loops(lead, other, pair, whole)
                if found:
                    outer, inner, map_lead, map_other = found
                    yield (outer, inner, map_lead, map_other) if lead is first else (outer, inner, map_other, map_lead)

    def addresses_of(self, group, name):
        found = [n.store for n in group.nodes if n.name == name]
        found += [address for n in group.nodes for read, address in self.addresses.reads(n) if read == name]
        return list(dict.fromkeys(found))

    def overlay(self, first, second, outer, inner, map_a, map_b):
        """Put both groups on common loops, if every dependency between them allows it."""
        nodes = []
        for group, mapping in ((first, map_a), (second, map_b)):
            memo = {}
            for node in group.nodes:
                reduced = {x for v in node.inner for x in mapping[v].vars()}
                if node.is_reduction and reduced != set(inner):
                    return None, "a reduction would run over other loops"
                used = reduced | {x for v in node.outer for x in mapping[v].vars()}
                nodes.append(node.renamed(mapping, outer, inner if used & set(inner) else (), memo))
        why = self.illegal(nodes, len(first.nodes), outer, inner)
        if why:
            return None, why
        nodes = merge_loops(nodes, self.addresses)
        loops = max(nodes, key=lambda n: len(n.inner))
        return Group("loops", nodes, loops.outer, loops.inner), "share " + ", ".join(
            n for n in self.touched(first) if n in self.touched(second)
        )

    def illegal(self, nodes, split, outer, inner):
        """Why the nodes cannot run on these loops, or None.  The first `split` of them are the first group's."""
        inner_set, stores = set(inner), {n.name: n for n in nodes[:split]}
        # A reduction owns all inner loops, and its result, as every outer value, is one for each outer step.
        for node in nodes:
            if node.is_reduction and set(node.inner) != inner_set:
                return "a reduction would run over other loops"
            if node.store.vars() & inner_set and (node.is_reduction or not node.inner):
                return "a result would depend on the reduced loops"
        # What the second group reads of the first has just been written, at this place, and is complete.
        for node in nodes[split:]:
            for name, address in self.addresses.reads(node):
                source = stores.get(name)
                if source is None:
                    continue
                if address is not source.store:
                    return f"{node.name} reads {name} at another place than it is written"
                if source.inner and not source.is_reduction and not node.inner:
                    return f"{node.name} needs all of {name}"
        # Two that only read the same gain nothing where they read it at different times.
        first, second = (
            {pair for n in part for pair in self.addresses.reads(n)} for part in (nodes[:split], nodes[split:])
        )
        if not any(name in stores for name, _ in second) and first.isdisjoint(second):
            return "they read what they share at different places"
        if inner and self.starved(nodes, outer, inner) and self.walks_again(nodes):
            return "few outer iterations: the passes run in parallel by themselves"
        long = self.on_gpu and hint(ir.product(v.size for v in inner)) > GPU_HELD
        return "its sums would fill the registers" if long and sum(n.is_reduction for n in nodes) > GPU_SUMS else None

    def starved(self, nodes, outer, inner):
        """Are there too few rows to keep all processors busy, and are they long?"""
        rows, length = (hint(ir.product(v.size for v in variables)) for variables in (outer, inner))
        if not self.on_gpu:
            return rows < MIN_PARALLEL and length > LONG_PASS
        reads = [a for n in nodes if n.inner for _, a in self.addresses.reads(n) if not a.vars().isdisjoint(inner)]
        if any(address.coefficient(v) == 1 for address in reads for v in outer):  # a program takes columns side by side
            rows, length = rows // 32, length * 32
        return rows < GPU_PROGRAMS and length > GPU_ROW and rows * length > GPU_WORK

    def walks_again(self, nodes):
        """Does a pass need the result of another one, so that rows are read twice?"""
        passes = levels(nodes)
        together = {n.name for n in online.partners(nodes, passes).values()} if self.on_gpu else ()
        return any(n.inner and passes[n.name] > 0 and n.name not in together for n in nodes)

    # --- the end ---

    def finish(self):
        """Which buffers must be stored, and what each group reads from outside."""
        for group in self.groups:
            if group is None:
                continue
            names = set(group.names)
            if group.kind == "loops":
                group.stored = tuple(n for n in group.names if n in self.outputs or self.users.get(n, set()) - names)
                group.nodes = merge_loops(group.nodes, self.addresses)
                loops = max(group.nodes, key=lambda n: len(n.inner))
                group.outer, group.inner = loops.outer, loops.inner
                group.stored += tuple(n for n in repeated(group.nodes) if n not in group.stored)
                group.reads = tuple(n for n in self.touched(group) if n not in names)
            else:
                group.stored, group.reads = tuple(group.names), tuple(buffer_reads(group.nodes[0]))

    def bytes_moved(self):
        """Bytes that all kernels read and write: every buffer a group touches counts once."""
        kernels = [group for group in self.groups if group is not None and group.kind not in ("extern", "output")]
        return sum(self.layouts[n].nbytes() for group in kernels for n in (*group.stored, *group.reads))


def repeated(nodes):
    """Values that a later pass would have to compute again, too dear for that and too long to keep in a scratch row."""
    level, found = levels(nodes), []
    for node in nodes:
        size = ir.product(hint(v.size) for v in node.inner) * node.body.dtype.itemsize
        if node.inner and not node.is_reduction and size > SCRATCH:
            loads = ir.loads(node.body)
            if ir.cost(node.body) + 2 * len(loads) > 12:
                readers = [m for m in nodes if m.inner and any(load.buffer == node.name for load in ir.loads(m.body))]
                if any(level[m.name] > level[node.name] for m in readers):
                    found.append(node.name)
    return found


def prepare(graph):
    """The graph to fuse: without dead code and needless checks, argmax in two reductions, nothing twice."""
    return passes.common_buffers(passes.split_arg(ranges.unchecked(passes.dead_code(graph))))


def schedule(graph, fuse=True):
    """IRGraph -> Schedule."""
    graph = prepare(graph)
    decisions, before = [], passes.bytes_moved(graph)
    if fuse:
        graph, decisions = passes.inline(graph)
    if fuse and not config.max_autotune:  # there our own kernels compete, which compute more of what follows
        graph, clamped = epilogues.with_activations(graph)
        decisions += clamped
    scheduler = Scheduler(ranges.narrowed(graph))
    scheduler.decisions += decisions
    result = scheduler.run(fuse)
    result.bytes_before = before
    return result


__all__ = ["Group", "Schedule", "SchedulerNode", "levels", "prepare", "schedule"]
