"""Passes over rows that do not fit in a block: accumulators, and the sum of a softmax in the same pass as its maximum.

Goes in: the nodes of one pass.  Comes out: `for r_start in range(...)` with an accumulator for each reduction, which is
reduced at the end.  Mirrors the looped reductions and `online_softmax_reduce` of `torch/_inductor/codegen/triton.py`.
Taught in chapter 12.
"""

import torch

from .. import ir
from ..ir import Load, Op
from ..ops import OPS, REDUCTIONS
from .triton_expr import compute, indent, literal, typed


class LoopedReductions:
    """The part of `LoopKernel` that walks along rows."""

    def find_online(self):
        """name of a max -> the sum(exp(x - max)) that can be kept up to date while the max is found."""
        full = {n.name: n.body for n in self.nodes if n.inner and not n.is_reduction}
        peaks = {n.name: n for n in self.nodes if n.kind == "max" and n.inner}

        def expand(node):
            if isinstance(node, Load) and node.buffer in full:
                return ir.transform(full[node.buffer], {}, expand)
            return None

        self.online = {}
        for node in self.nodes:
            body = ir.transform(node.body, {}, expand) if node.kind == "sum" and node.inner else None
            if not (isinstance(body, Op) and body.name == "exp" and getattr(body.args[0], "name", "") == "sub"):
                continue
            x, peak = body.args[0].args
            found = peaks.get(peak.buffer) if isinstance(peak, Load) else None
            if found is not None and ir.transform(found.body, {}, expand) is x and found.name not in self.online:
                if self.level[node.name] == self.level[found.name] + 1:
                    self.online[found.name] = node
        self.early = {n.name for n in self.online.values()}

    def needed_nodes(self, level):
        """What a pass has to compute: its reductions, its stored rows, and the rows that these are made of."""
        full = [n for n in self.nodes if n.inner and self.level[n.name] == level and n.name not in self.early]
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
        writer.push(*self.inner)
        self.define(writer, r, f"{first}r_start")
        for node in full:
            if not node.is_reduction:
                self.emit(writer, node)
            elif node.name in self.online:
                self.accumulate_online(writer, node, totals[node.name], totals[self.online[node.name].name])
            else:
                joined = combine(node, totals[node.name], self.operand(writer, node))
                joined = f"tl.where(rmask, {joined}, {totals[node.name]})" if r.masked else joined
                writer.line(f"{totals[node.name]} = {joined}")
        lines = writer.pop()
        writer.line(f"for r_start in range(0, {count or writer.size(r.numel)}, {r.constant}):")
        for line in indent(lines):
            writer.line(line)
        writer.forget([n.name for n in full if not n.is_reduction])
        for node in reductions:
            text, more = totals[node.name], ""
            if node.name in self.early:
                peak = next(name for name, total in self.online.items() if total is node)
                top = writer.forwards[peak].text
                text, more = f"{text} * rt.exp_below({totals[peak]}, {top})", f" + ({top} - {top})"  # all -inf: NaN
            self.reduced(writer, node, text, more)

    def accumulate_online(self, writer, node, peak, total):
        """A new maximum shrinks the sum so far: sum(exp(x - new)) = sum(exp(x - old)) * exp(old - new)."""
        writer.line(f"old = {peak}")
        writer.line(f"new = {self.masked_operand(writer, node)}")
        writer.line(f"{peak} = rt.maximum(old, new)")
        writer.line(f"{total} = {total} * rt.exp_below(old, {peak}) + rt.exp_below(new, {peak})")

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
