"""Reductions that one walk can find together, although the second needs the result of the first.

Goes in: the nodes of a group and the pass of each.  Comes out: for a max (or min) the sum of a softmax, or the place of
an argmax, and for a sum the squares of the distances to its mean: what can be kept up to date while the first is found.
A new maximum shrinks the sum so far (`exp(x - new) = exp(x - old) * exp(old - new)`), or moves the place; a new mean of
k numbers adds `(x - mean)**2 * k / (k - 1)`, which never cancels.  Milakov and Gimelshein, "Online normalizer
calculation for softmax" (2018); Chan, Golub and LeVeque, "Updating formulae and a pairwise algorithm for computing
sample variances" (1979).  Mirrors `online_softmax_reduce` and `WelfordReduction` in `torch/_inductor`.  Taught in
chapter 12.
"""

import dataclasses

from . import ir
from .ir import Load, Op


def partners(nodes, level):
    """name of a first reduction -> the node found with it: sum(exp(x - max)), min(where(x == extreme, place, count)),
    or sum((x - sum / count)**2).  Its body has no other value of the group in it than the first reduction's."""
    bodies = {n.name: n.body for n in nodes if not n.is_reduction}
    firsts = {n.name: n for n in nodes if n.kind in ("max", "min", "sum") and n.inner}

    def expand(node):
        if isinstance(node, Load) and node.buffer in bodies:
            return ir.transform(bodies[node.buffer], {}, expand)
        return None

    found, seconds = {}, set()
    for node in nodes:
        if node.kind in ("sum", "min") and node.inner:
            body = ir.transform(node.body, {}, expand)
            wanted = shifted(node, body)
            if wanted is None:
                continue
            x, load, kinds = wanted
            first = firsts.get(load.buffer) if isinstance(load, Load) else None
            if first is None or first.kind not in kinds or first.name in found or first.name in seconds:
                continue
            if level[node.name] == level[first.name] + 1 and ir.transform(first.body, {}, expand) is x:
                found[first.name] = dataclasses.replace(node, body=body)
                seconds.add(node.name)
    return found


def shifted(node, body):
    """(x, load of its first reduction, what kinds that may be) if this is the second of a pair."""
    if node.kind == "sum":
        if not isinstance(body, Op):
            return None
        inner = body.args[0]
        if not (isinstance(inner, Op) and inner.name == "sub"):
            return None
        x, first = inner.args
        if body.name == "exp":
            return x, first, ("max",)
        if body.name == "square" or body.name == "mul" and body.args[1] is inner:
            count = ir.constant(ir.product(v.size for v in node.inner), body.dtype)
            if isinstance(first, Op) and first.name == "truediv" and first.args[1] is count:
                return x, first.args[0], ("sum",)
        return None
    if not (isinstance(body, Op) and body.name == "where" and isinstance(body.args[1], ir.IndexExpr)):
        return None
    wins = body.args[0]
    while isinstance(wins, Op) and wins.name == "logical_or":  # ... or x is NaN
        wins = wins.args[0]
    return (*wins.args, ("max", "min")) if isinstance(wins, Op) and wins.name == "eq" else None
