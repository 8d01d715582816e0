"""Passes over rows that do not fit in a block: accumulators; a softmax's sum is found with its maximum, a variance
with its mean.

Goes in: the nodes of one pass.  Comes out: `for r_start in range(...)` with an accumulator for each reduction, which is
reduced at the end.  Mirrors the looped reductions and `online_softmax_reduce` of `torch/_inductor/codegen/triton.py`.
Taught in chapter 12.
"""

import torch

from .. import ir, online
from ..ops import OPS, REDUCTIONS
from .triton_expr import compute, indent, literal, typed


class LoopedReductions:
    """The part of `LoopKernel` that walks along rows."""

    def find_online(self):
        """The reductions that are found in the walk of the one that they need; see online.py."""
        self.online = online.partners(self.nodes, self.level)
        self.peak_of = {node.name: peak for peak, node in self.online.items()}
        kinds = {n.name: n.kind for n in self.nodes}
        self.spreads = {name for name, first in self.peak_of.items() if kinds[first] == "sum"}

    def needed_nodes(self, level):
        """What a pass has to compute: its reductions, its stored rows, and the rows that these are made of."""
        full = [n for n in self.nodes if n.inner and self.level[n.name] == level and n.name not in self.peak_of]
        wanted = {n.name for n in full if n.is_reduction or n.name in self.stored}
        for node in reversed(full):
            if node.name in wanted:
                wanted |= {load.buffer for load in ir.loads(node.body)}
        return [n for n in full if n.name in wanted]

    def looped_pass(self, writer, level, first="", count=None):
        """One run over the reduced loops, or over `count` elements from `first` on."""
        full, r = self.needed_nodes(level), writer.axes[1]
        if not full:
            return
        reductions = [n for n in full if n.is_reduction]
        reductions += [self.online[n.name] for n in reductions if n.name in self.online]
        totals = {n.name: f"acc{writer.count + k}" for k, n in enumerate(reductions, 1)}
        writer.count += len(reductions)
        for node in reductions:
            writer.line(f"{totals[node.name]} = {self.identity(node)}")
        squares = next((n for n in reductions if n.name in self.spreads), None)
        if squares is not None:  # how many elements each lane has had
            shape = "[1, RBLOCK]" if r.masked else "[1, 1]"
            writer.line(f"seen = tl.full({shape}, 0.0, {compute(squares.body.dtype)})")
        writer.push(*self.inner)
        self.define(writer, r, f"{first}r_start")
        if squares is not None:
            writer.line(f"seen = seen + {'tl.where(rmask, 1.0, 0.0)' if r.masked else '1.0'}")
        for node in full:
            if not node.is_reduction:
                self.emit(writer, node)
            elif node.name in self.online:
                total = self.online[node.name]
                self.accumulate_online(writer, node, total, totals[node.name], totals[total.name])
            else:
                joined = combine(node, totals[node.name], self.operand(writer, node))
                joined = f"tl.where(rmask, {joined}, {totals[node.name]})" if r.masked else joined
                writer.line(f"{totals[node.name]} = {joined}")
        lines = writer.pop()
        head = f"for r_start in range(0, {count or writer.size(r.numel)}, {r.constant}):"
        writer.line(head, *indent(lines))
        writer.forget([n.name for n in full if not n.is_reduction])
        for node in reductions:
            peak = self.peak_of.get(node.name)
            self.reduced(writer, node, totals[node.name], peak and totals[peak], whole=count is None)

    def accumulate_online(self, writer, peak, total, peaks, totals):
        """One step of an extreme (or a sum) and its partner; `peaks`, `totals`: their accumulators."""
        if total.name in self.spreads:
            writer.line(f"new = {self.masked_operand(writer, peak)}")
            writer.line(f"{peaks} = {peaks} + new")
            step = f"rt.spread_step(new, {peaks}, seen)"
            step = f"tl.where(rmask, {step}, 0.0)" if writer.axes[1].masked else step
            writer.line(f"{totals} = {totals} + {step}")
            return
        writer.line(f"old = {peaks}")
        writer.line(f"new = {self.masked_operand(writer, peak)}")
        writer.line(f"{peaks} = rt.{peak.kind}imum(old, new)")
        if total.kind == "sum":
            writer.line(f"{totals} = {totals} * rt.exp_below(old, {peaks}) + rt.exp_below(new, {peaks})")
            return
        place = next(e for e in ir.walk(total.body) if isinstance(e, ir.IndexExpr))
        sign = ">" if peak.kind == "max" else "<"
        better = f"(r_start == 0) | (new {sign} old) | ((new != new) & (old == old))"  # NaN wins; the first of equals
        writer.line(f"{totals} = tl.where({better}, {writer.value(place)}, {totals})")

    def reduced(self, writer, node, text, peaks=None, whole=True):
        """Reduce a block to its result.  peaks: the block of extremes (or sums) that a partner's block goes with."""
        more = ""
        if peaks is not None:
            top = writer.forwards[self.peak_of[node.name]].text
            if node.name in self.spreads:
                text = f"rt.spread_lanes({text}, {peaks}, {top}, seen)"
            elif node.kind == "sum":
                text = f"{text} * rt.exp_below({peaks}, {top})"
                more = f" + ({top} - {top})" if whole else ""  # a row of -inf only sums up to NaN, a part of it to 0
            else:
                text = f"tl.where(({peaks} == {top}) | ({peaks} != {peaks}), {text}, {self.neutral(node)})"
        writer.count += 1
        name = f"t{writer.count}"
        writer.line(f"{name} = rt.reduce_{node.kind}({text}){more}")
        writer.forward(node.name, name, {"x"})
        if node.name in self.stored:
            writer.store(node.name, node.store, name, {"x"})

    def masked_operand(self, writer, node):
        """The value to reduce, with the neutral element where the row has ended."""
        text = self.operand(writer, node)
        if writer.axes[1].masked:
            text = f"tl.where(rmask, {text}, {typed(self.neutral(node), node.body.dtype)})"
        return text

    def identity(self, node):
        return f"tl.full([XBLOCK, RBLOCK], {self.neutral(node)}, {compute(node.body.dtype)})"

    def neutral(self, node):
        return literal(REDUCTIONS[node.kind].identity(node.body.dtype), node.body.dtype)


def combine(node, a, b):
    if node.body.dtype == torch.bool:
        return f"{a} {'|' if node.kind in ('any', 'max') else '&'} {b}"
    return OPS[REDUCTIONS[node.kind].combine].triton.format(a, b)
