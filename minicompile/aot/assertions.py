"""What operators and the program stated of numbers that nobody knows before the graph runs becomes part of the graph.

Goes in: a traced graph, and what `ShapeEnv` noted while it was traced (`u0 <= 8`, because a tensor of 8 rows is cut
after u0 of them).  Comes out: the graph with an `_assert_scalar` for each statement, right behind the numbers that it
is about: a compiler may drop the operator that would have complained.
Mirrors `torch/fx/passes/runtime_assert.py`.  Taught in chapter 07.
"""

import sympy
import torch
from torch import fx
from torch.fx.experimental.symbolic_shapes import canonicalize_bool_expr, free_unbacked_symbols
from torch.utils._sympy.interp import sympy_interp
from torch.utils._sympy.reference import PythonReferenceAnalysis

from ..errors import Unsupported
from .nodes import computed

aten = torch.ops.aten
NUMBERS = (torch.SymInt, torch.SymFloat)


def symbols(env):
    """All that there are now."""
    return set() if env is None else {*env.var_to_range}


def stated(graph):
    """The expressions that the graph asserts already."""
    conditions = [n.args[0].meta["val"] for n in graph.nodes if n.target is aten._assert_scalar.default]
    return {canonicalize_bool_expr(c.node._expr) for c in conditions if isinstance(c, torch.SymBool)}


class Places:
    """Where each symbol is known: symbol -> (node, operator that asks the node for it, or None, its argument)."""

    def __init__(self, graph):
        self.graph, self.of, self.offsets = graph, {}, set()
        self.order = {node: k for k, node in enumerate(graph.nodes)}
        for node in sorted(graph.nodes, key=lambda node: node.meta.get("backward", True)):  # the tangents come last
            value = node.meta.get("val")
            self.note(value, node, None)
            if isinstance(value, torch.Tensor):
                for d, size in enumerate(value.shape):
                    self.note(size, node, aten.sym_size.int, d)
                if isinstance(value.storage_offset(), torch.SymInt):
                    self.offsets |= value.storage_offset().node._expr.free_symbols

        # no operator brings a size that is negative
        sizes = [symbol for symbol, (_, operator, *_) in self.of.items() if operator is aten.sym_size.int]
        self.certain = {sympy.Le(0, symbol) for symbol in sizes}

    def note(self, number, *place):
        if isinstance(number, NUMBERS) and number.node._expr.is_symbol:
            self.of.setdefault(number.node._expr, place)
        elif isinstance(number, torch.SymBool):
            for symbol in free_unbacked_symbols(number):
                self.of.setdefault(symbol, (place[0], torch.sym_ite, 1, 0))

    def proxy(self, symbol):
        """The number, as a proxy that adds to the graph."""
        node, operator, *arguments = self.of[symbol]
        return fx.Proxy(node if operator is None else self.graph.call_function(operator, (node, *arguments)))


def insert(graph, env, known):
    """known: the symbols that existed before the graph was traced: what capture alone speaks of, is stated again."""
    noted = env.deferred_runtime_asserts.values() if env is not None else ()
    statements = [statement.expr for several in noted for statement in several]
    already, places = stated(graph), Places(graph) if statements else None
    for expression in statements:
        missing = expression.free_symbols - places.of.keys()
        # nobody relies on where a slice begins in memory
        if expression in already | places.certain or missing & known or missing and missing <= places.offsets:
            continue
        if missing:
            raise Unsupported("statement about the inside of an operator", f"nothing in the graph tells {missing}")
        last = max((places.of[s][0] for s in expression.free_symbols), key=places.order.__getitem__)
        if last.op == "placeholder":
            last = [n for n in graph.nodes if n.op == "placeholder"][-1]
        before = set(graph.nodes)
        with graph.inserting_before(last.next):
            names = {s: places.proxy(s) for s in expression.free_symbols}
            condition = sympy_interp(PythonReferenceAnalysis, names, expression).node
            check = graph.call_function(
                aten._assert_scalar.default, (condition, f"the data does not give {expression}")
            )
        for node in graph.nodes:
            if node not in before:
                node.meta = {"val": computed(node) if node is not check else None, "backward": last.meta["backward"]}
        condition.meta["val"] = env.create_symboolnode(expression)  # which nothing that is known now decides
