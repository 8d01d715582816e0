"""Between which numbers an expression lies: an index that is in range for sure is not checked at run time, and is
computed and kept in 32 bits.

Goes in: an `IRGraph`.  Comes out: the graph, its loaded indices without a wrap or a check that nothing needs, and
narrow: those of a resize are made of `arange` and `clamp`.  Interval arithmetic over the bodies of pointwise buffers.
Mirrors `torch/_inductor/bounds.py`.  Taught in chapter 10.
"""

import dataclasses
import functools
import math
import operator

from . import ir, passes
from .indexing import Indirect, index
from .ir import Constant, IndexExpr, Load, Masked, Pointwise

SLACK = 0.01  # more than what any type rounds


def _products(a, b):
    found = [x * y for x in a for y in b]
    return min(found), max(found)


def _rounded(down, up):
    return lambda a: (down(a[0]), up(a[1]))


OPERATIONS = {
    "add": lambda a, b: (a[0] + b[0], a[1] + b[1]),
    "sub": lambda a, b: (a[0] - b[1], a[1] - b[0]),
    "neg": lambda a: (-a[1], -a[0]),
    "mul": _products,
    "maximum": lambda a, b: (max(a[0], b[0]), max(a[1], b[1])),
    "minimum": lambda a, b: (min(a[0], b[0]), min(a[1], b[1])),
    "where": lambda _, a, b: (min(a[0], b[0]), max(a[1], b[1])),
    "floor": _rounded(math.floor, math.floor),
    "ceil": _rounded(math.ceil, math.ceil),
    "trunc": _rounded(math.trunc, math.trunc),
    "round": _rounded(math.floor, math.ceil),
    "cast": lambda a: a,
}


class Ranges:
    """of(expression): (lowest, highest), or None where nothing is known.  A NaN has no range."""

    def __init__(self, graph):
        self.known, self.buffers = {}, {}
        for buffer in graph.buffers:
            if isinstance(buffer.data, Pointwise):
                self.buffers[buffer.name] = self.of(buffer.data.body)

    def of(self, root):
        if root not in self.known:
            for node in ir.walk(root):  # operands first: no deep recursion
                if node not in self.known:
                    self.known[node] = self.stored(node, self.computed(node))
        return self.known[root]

    def computed(self, node):
        if isinstance(node, Constant):
            return (node.value, node.value)
        if isinstance(node, IndexExpr):
            return node.index.bounds()
        if isinstance(node, Load):
            return self.buffers.get(node.buffer)
        parts = [self.known[a] for a in node.args]
        name = "where" if isinstance(node, Masked) else node.name
        if name == "where":
            parts[0] = (False, True)
        return None if name not in OPERATIONS or None in parts else OPERATIONS[name](*parts)

    @staticmethod
    def stored(node, found):
        """The range as the node's type holds it."""
        if found is None or not all(isinstance(n, (int, float)) and math.isfinite(n) for n in found):
            return None
        low, high = found
        if node.dtype.is_floating_point:
            return low - SLACK * abs(low), high + SLACK * abs(high)
        if node.dtype == ir.torch.bool:
            return (False, True)
        info, low, high = ir.torch.iinfo(node.dtype), math.trunc(low), math.trunc(high)
        return (low, high) if info.min <= low and high <= info.max else None


def unsettled(atom):
    return type(atom) is Indirect and (atom.check or atom.wrap)


def some_index(graph, wanted):
    """Does an index of a loop nest name an atom that is wanted?"""
    loops = [b.data for b in graph.buffers if isinstance(b.data, ir.Loops)]
    named = (i for data in loops for e in passes.loop_exprs(data) for node in ir.walk(e) for i in ir.indices(node))
    return any(wanted(atom) for i in named for atom, _ in i.terms)


def replacement(change):
    """For `ir.transform`: change(atom) for each loaded index."""

    def changed(value):
        if not any(type(atom) is Indirect for atom, _ in value.terms):
            return value
        parts = (index(change(atom) if type(atom) is Indirect else atom) * c for atom, c in value.terms)
        return functools.reduce(operator.add, parts, index(value.constant))

    def replace(node):
        if isinstance(node, Load):
            return Load(node.buffer, tuple(map(changed, node.position)), node.dtype)
        return IndexExpr(changed(node.index), node.dtype) if isinstance(node, IndexExpr) else None

    return replace


def rewritten(buffer, replace):
    if not isinstance(buffer.data, ir.Loops):
        return buffer
    return dataclasses.replace(buffer, data=passes.rebuilt(buffer.data, replace))


def unchecked(graph):
    """The graph without checks of what is in range for sure."""
    if not some_index(graph, unsettled):
        return graph
    ranges = Ranges(graph)

    def settle(atom):
        low, high = ranges.of(atom.expr) or (-1, 0)
        inside = not atom.check or isinstance(atom.size, int) and high < atom.size
        return Indirect(atom.expr, atom.size, False, False) if low >= 0 and inside else atom

    return dataclasses.replace(graph, buffers=[rewritten(b, replacement(settle)) for b in graph.buffers])


# --- 32 bits where these are enough ---

EXACT = frozenset("add sub neg mul maximum minimum where".split())  # in 32 bits as in 64, if all values fit
ASKING = frozenset("cast eq ne lt le gt ge".split())  # the same of narrow operands


class Narrower:
    """narrow(int64 expression): the same in int32, or None where a part of it may not fit."""

    def __init__(self, graph):
        self.ranges, self.memo, self.tables = Ranges(graph), {}, set()  # tables: names of narrow buffers

    def narrow(self, root):
        for node in ir.walk(root):
            if node not in self.memo:
                self.memo[node] = self._narrow(node) if node.dtype == ir.torch.int64 else node
        return self.memo[root]

    def _narrow(self, node):
        low, high = self.ranges.of(node) or (0, 2**31)
        if low < -(2**31) or high >= 2**31 or isinstance(node, Load):
            return None
        if not node.args or getattr(node, "name", "") == "cast":
            return ir.op("cast", *(node.args or (node,)), dtype=ir.torch.int32)
        args = [self.memo[a] for a in node.args]
        if None in args:
            return None
        return Masked(*args) if isinstance(node, Masked) else ir.op(node.name, *args) if node.name in EXACT else None

    def settle(self, atom):
        expr = None if unsettled(atom) else self.narrow(atom.expr)
        return atom if expr is None else Indirect(expr, atom.size, False, False)

    def replace(self, node):
        """For `ir.transform`."""
        if isinstance(node, ir.Op) and node.name in ASKING and node.args[0].dtype == ir.torch.int64:
            args = [self.narrow(a) for a in node.args]
            if None not in args:
                return ir.op(node.name, *args, dtype=node.dtype)
        if not isinstance(node, Load) or node.buffer not in self.tables:
            return replacement(self.settle)(node)
        load = replacement(self.settle)(Load(node.buffer, node.position, ir.torch.int32))
        return ir.op("cast", load, dtype=node.dtype)


def narrowed(graph):
    """The graph whose loaded indices have 32 bits where these are enough, and so the tables that only loops read."""
    if not some_index(graph, lambda atom: type(atom) is Indirect and not unsettled(atom)):
        return graph
    narrower, buffers = Narrower(graph), []
    calls = [b for b in graph.buffers if not isinstance(b.data, ir.Loops)]
    others = {o.buffer for o in graph.outputs if isinstance(o, ir.View)}.union(*map(passes.buffer_reads, calls))
    for buffer in graph.buffers:
        buffer = rewritten(buffer, narrower.replace)
        if isinstance(buffer.data, Pointwise) and buffer.name not in others and buffer.layout.dtype == ir.torch.int64:
            body = narrower.narrow(buffer.data.body)
            if body is not None:
                narrower.tables.add(buffer.name)
                layout = dataclasses.replace(buffer.layout, dtype=ir.torch.int32)
                buffer = dataclasses.replace(buffer, layout=layout, data=Pointwise(buffer.data.vars, body))
        buffers.append(buffer)
    return dataclasses.replace(graph, buffers=buffers)
