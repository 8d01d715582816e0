"""Between which numbers an expression lies, so that an index that is in range for sure is not checked at run time.

Goes in: an `IRGraph`.  Comes out: the graph, its loaded indices without a wrap or a check that nothing needs: those of
a resize are made of `arange` and `clamp`.  Interval arithmetic over the bodies of pointwise buffers.  Mirrors
`torch/_inductor/bounds.py`.  Taught in chapter 10.
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


def unchecked(graph):
    """The graph without checks of what is in range for sure."""
    loops = [b.data for b in graph.buffers if isinstance(b.data, ir.Loops)]
    named = (i for data in loops for e in passes.loop_exprs(data) for node in ir.walk(e) for i in ir.indices(node))
    if not any(unsettled(atom) for i in named for atom, _ in i.terms):
        return graph
    ranges = Ranges(graph)

    def settle(atom):
        if not unsettled(atom):
            return atom
        low, high = ranges.of(atom.expr) or (-1, 0)
        inside = not atom.check or isinstance(atom.size, int) and high < atom.size
        return Indirect(atom.expr, atom.size, False, False) if low >= 0 and inside else atom

    def settled(value):
        if not any(unsettled(atom) for atom, _ in value.terms):
            return value
        return functools.reduce(
            operator.add, (index(settle(atom)) * c for atom, c in value.terms), index(value.constant)
        )

    def replace(node):
        if isinstance(node, Load):
            return Load(node.buffer, tuple(map(settled, node.position)), node.dtype)
        return IndexExpr(settled(node.index), node.dtype) if isinstance(node, IndexExpr) else None

    buffers = [
        dataclasses.replace(b, data=passes.rebuilt(b.data, replace)) if isinstance(b.data, ir.Loops) else b
        for b in graph.buffers
    ]
    return dataclasses.replace(graph, buffers=buffers)
