"""Two reductions in one walk: a max (or min) with its place, along long columns a max with the sum of a softmax.

Goes in: the nodes of a group, and accumulators.  Comes out: statements that take an element, join partial results, and
give the final ones.  online.py finds the pairs.  Mirrors `argmax` and the Welford vectors of
`torch/_inductor/codegen/cpp.py`.  Taught in chapter 11.

    place   each lane keeps the first place of its maximum; of lanes that tie the smallest place wins
    sum     a block of rows is walked twice, while the cache has it: for its maximum, and for the sum of
            exp(x - maximum); sums shrink when they meet a larger maximum
"""

import torch

from .. import ir, online
from ..scheduler import levels
from .cpp_loops import LoopWriter, acc_type, combine, identity, total_type

LONG = 1 << 12  # rows of a narrow tile that a cache holds: these may well be walked once more
LANES = 64  # partial results of a row: sums of few numbers, and none waits for the step before


class PairReductions(LoopWriter):
    """The part of `LoopKernel` for pairs.  pairs: name of the first -> the second; first_of: the other way.

    maxima: what is made of a maximum alone, by name.
    """

    maxima = frozenset()

    def find_pairs(self):
        """Pairs that are worth it; the second of each is computed in the pass of the first."""
        found = {} if not self.inner else online.partners(self.nodes, self.level)
        rows = ir.product(self.likely(v.size) for v in self.inner)
        if not self.columns or rows <= LONG:
            wide = found and (self.columns or self.likely(self.inner[-1].size) >= 4 * LANES)
            found = {first: second for first, second in found.items() if wide and second.kind == "min"}
        first_kind = {n.name: n.kind for n in self.nodes}
        self.maxima = {name for name, kind in first_kind.items() if kind == "max"}
        self.maxima |= {n.name for n in self.nodes if not n.inner and self.of_maximum(n.body)}
        self.pairs = {first: second for first, second in found.items() if first_kind[first] != "sum"}
        self.first_of = {second.name: first for first, second in self.pairs.items()}
        made = {second.name: second for second in self.pairs.values()}
        self.nodes = [made.get(n.name, n) for n in self.nodes]
        self.level = levels(self.nodes, self.first_of)

    def of_maximum(self, expr):
        return any(load.buffer in self.maxima for load in ir.loads(expr))

    def operation(self, expr, args, mask):
        """exp(x - maximum) is a part of a sum that is 1 at least: it needs no subnormal numbers."""
        inner = expr.args[0]
        part = expr.name == "exp" and isinstance(inner, ir.Op) and inner.name == "sub"
        if part and expr.dtype == torch.float32 and self.of_maximum(inner.args[1]):
            return f"m_exp({args[0]})"
        return super().operation(expr, args, mask)

    def take(self, node, names):
        """One element into the accumulators; a place goes with its maximum."""
        if node.name in self.first_of and node.kind == "min":
            return
        name, ctype, value = names[node.name], acc_type(node), self.value(node.body)
        second = self.pairs.get(node.name)
        if second is None or second.kind == "sum":
            self.line(f"{name} = {combine(node, name, value, ctype)};")
            return
        place = names[second.name]
        number = self.value(second.body.args[1])
        wins = self.fresh("wins", node.name)
        value = f"({ctype}){value}"
        self.line(f"const bool {wins} = m_{'above' if node.kind == 'max' else 'below'}({value}, {name});")
        self.line(f"{name} = m_pick({wins}, {value}, {name});")
        self.line(f"{place} = m_pick({wins}, {number}, {place});")

    def join(self, nodes, into, parts, kind):
        """Partial results into others; `kind` is the type that they have."""
        for node in nodes:
            total, part = into[node.name], parts[node.name]
            second = self.pairs.get(node.name)
            if second is not None:
                before = self.fresh("before", node.name)
                self.line(f"const {kind(node)} {before} = {total};")
            if node.name not in self.first_of:
                self.line(f"{total} = {combine(node, total, part, kind(node))};")
            if second is None:
                continue
            this, that = into[second.name], parts[second.name]
            if second.kind == "sum":
                self.line(f"{this} = {this} * m_shrunk({before}, {total}) + {that} * m_shrunk({part}, {total});")
            else:
                none = identity(second, kind(second))
                this, that = (f"(m_ties({v}, {total}) ? {p} : {none})" for v, p in ((before, this), (part, that)))
                self.line(f"{into[second.name]} = m_minimum({this}, {that});")

    def result(self, node, totals):
        """The text of a result: the first place where no number is above the lowest one; NaN where all are -inf."""
        total = totals[node.name]
        if node.name not in self.first_of:
            return total
        if node.kind == "sum":
            first = totals[self.first_of[node.name]]
            return f"({total} + ({first} - {first}))"
        return f"({total} == {identity(node, total_type(node))} ? 0 : {total})"
