"""Comparisons of indices: which side of a `cat`, of a `pad` or of a triangle's edge a point lies on.

Goes in: nodes on their loops.  Comes out: comparisons in as few loop variables as they need, and a loop cut into pieces
in which every comparison along it is decided, so that no point of a piece asks.  Mirrors
`loop splitting` in `torch/_inductor/codegen/cpp.py`.  Taught in chapter 11.
"""

import dataclasses

import torch

from . import ir
from .indexing import hint, index
from .ir import Constant, IndexExpr, Masked


def hoist_conditions(node):
    """Comparisons of indices in the fewest loop variables: `64*x0 + x1 < 192` is `x0 < 3` when x1 < 64."""

    def replace(expr):
        if not (isinstance(expr, ir.Op) and expr.name in ("lt", "ge") and isinstance(expr.args[0], IndexExpr)):
            return None
        value, limit = expr.args[0].index, expr.args[1]
        if not isinstance(limit, ir.Constant):
            return None
        for _, c in sorted(value.terms, key=lambda term: -hint(term[1])):
            if isinstance(c, int) and c > 1 and limit.value % c == 0 and (value // c).is_affine():
                quotient = IndexExpr(value // c, limit.dtype)
                return ir.op(expr.name, quotient, ir.constant(limit.value // c, limit.dtype))
        return None

    return dataclasses.replace(node, body=ir.transform(node.body, {}, replace))


def _turn(expr, var):
    """(the first value of a loop variable at which a comparison is no longer what it was, what it was), or None."""
    if not (isinstance(expr, ir.Op) and expr.name in ir.TURNS):
        return None
    if None in (sides := [ir.side(a) for a in expr.args]):
        return None
    difference = sides[0] - sides[1]
    step = difference.coefficient(var)
    before, offset = ir.TURNS[expr.name]
    if step not in (1, -1) or not difference.is_affine():
        return None
    rest = difference - index(var) * step
    return (offset - rest, before) if step == 1 else (rest + 1 - offset, not before)


def pieces(nodes, var):
    """(edges, the nodes as they are in each of the pieces between them): a loop cut where comparisons change.

    An edge that depends on other loops or on symbolic sizes may lie anywhere: only if it is the only one it is cut at.
    """
    turns = {e: turn for n in nodes for e in ir.walk(n.body) if (turn := _turn(e, var)) is not None}
    edges = list(dict.fromkeys(edge for edge, _ in turns.values()))
    if all(isinstance(n, int) for n in (var.size, *(e.constant for e in edges))) and all(e.is_constant for e in edges):
        edges = sorted((e for e in edges if 0 < e.constant < var.size), key=lambda e: e.constant)
    elif len(edges) > 1:
        edges = []

    def piece(number):
        known = {e: before == (edges.index(edge) >= number) for e, (edge, before) in turns.items() if edge in edges}
        return decided(nodes, known)

    return edges, [piece(number) for number in range(len(edges) + 1)]


def decided(nodes, known):
    """The nodes with comparisons whose outcome is known, {comparison: bool}, and without what these leave out."""

    def decide(expr):
        if expr in known:
            return ir.constant(known[expr], torch.bool)
        if isinstance(expr, ir.Op) and expr.name == "logical_and":
            return next((a for a in expr.args if isinstance(a, Constant) and not a.value), None)
        return None

    return [dataclasses.replace(n, body=ir.transform(n.body, {}, decide)) for n in nodes]


def masks_around(nodes, var):
    """Comparisons that mask something in a loop and are the same all along it: compilers make no vectors of these."""
    masks = (m.args[0] for n in nodes for m in ir.walk(n.body) if isinstance(m, Masked))
    found = dict.fromkeys(e for m in masks for e in ir.walk(m) if isinstance(e, ir.Op) and e.name in ir.TURNS)
    return [e for e in found if all((side := ir.side(a)) is not None and var not in side.vars() for a in e.args)]
