"""What is dear and the same in each turn of the outer loops: computed once, in a table as long as the vector loop.

Goes in: nodes on their loops.  Comes out: the same nodes, which look such values up, and a loop in front of all others
that fills the tables.  C++ compilers take a value out of the loops inside of which nothing changes it; this one changes
with the innermost loop and is a vector: `1 / sqrt(variance[channel] + eps)`, channels last.  Mirrors nothing in
PyTorch.  Taught in chapter 11.
"""

import dataclasses

import torch

from .. import ir
from ..indexing import hint, index
from .common import needs_error
from .cpp_expr import COMPUTE
from .cpp_loops import Loop

DEAR = 4  # cost of a division or a root
LENGTH = 4096  # elements that have room on the stack
TURNS = 16  # of the outer loops, from which on a table is worth its loop


class Tables:
    """The part of `LoopKernel` for tables."""

    tables = ()  # (expression, the load that looks it up)

    def look_up(self, nodes, loops):
        """The nodes with tables along the last of the loops."""
        if not loops or not isinstance(loops[-1].size, int) or loops[-1].size > LENGTH:
            return nodes
        if ir.product(hint(v.size) for v in loops[:-1]) < TURNS:
            return nodes
        var, found, todo = loops[-1], {}, [n.body for n in nodes]
        while todo:
            expr = todo.pop()
            if self.repeats(expr, var):
                name = f"table{len(found)}"
                found.setdefault(expr, ir.Load(name, (index(var),), expr.dtype))
                self.layouts[name] = ir.Layout.contiguous(torch.device("cpu"), expr.dtype, (var.size,))
                self.names[name], self.made[name] = name, expr
            elif not isinstance(expr, ir.Masked):  # what is computed under a mask might not be there without
                todo += expr.args
        result = [dataclasses.replace(n, body=ir.transform(n.body, {}, found.get)) for n in nodes]
        used = {load for n in result for load in ir.loads(n.body)}
        self.tables = [(expr, load) for expr, load in found.items() if load in used]
        return result

    def repeats(self, expr, var):
        """Is it dear, and does nothing change it but the innermost loop?"""
        return (
            isinstance(expr, ir.Op)
            and expr.dtype in (torch.float32, torch.float64)
            and ir.cost(expr) >= DEAR
            and self.facts(expr)[0] == {var}
            and all(load.buffer in self.group.reads for load in ir.loads(expr))
            and not needs_error(expr)
        )

    def fill_tables(self):
        """The loop in front of all others."""
        if not self.tables:
            return
        (var,) = self.facts(self.tables[0][0])[0]
        for expr, load in self.tables:
            self.line(f"alignas(64) {COMPUTE[expr.dtype]} {load.buffer}[{var.size}];")

        def point():
            for expr, load in self.tables:
                self.line(f"{load.buffer}[{var}] = {self.value(expr)};")

        self.nest([(self.simd(), [Loop(var, "0", self.size(var.size))])], point)
