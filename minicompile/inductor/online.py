"""Reductions that one walk can find together, although the second needs the result of the first.

Goes in: the nodes of a group and the pass of each.  Comes out: for a max (or min) the sum of a softmax, or the place of
an argmax, that can be kept up to date while the extreme itself is found: a new maximum shrinks the sum so far
(`exp(x - new) = exp(x - old) * exp(old - new)`), or moves the place.  Milakov and Gimelshein, "Online normalizer
calculation for softmax" (2018).  Mirrors `online_softmax_reduce` in `torch/_inductor`.  Taught in chapter 12.
"""

from . import ir
from .ir import Load, Op


def partners(nodes, level):
    """name of a max or min -> the node found with it: sum(exp(x - max)), or min(where(x == max, place, count))."""
    full = {n.name: n.body for n in nodes if n.inner and not n.is_reduction}
    extremes = {n.name: n for n in nodes if n.kind in ("max", "min") and n.inner}

    def expand(node):
        if isinstance(node, Load) and node.buffer in full:
            return ir.transform(full[node.buffer], {}, expand)
        return None

    found = {}
    for node in nodes:
        if node.kind in ("sum", "min") and node.inner:
            wanted = shifted(node, ir.transform(node.body, {}, expand))
            if wanted is None:
                continue
            x, extreme = wanted
            first = extremes.get(extreme.buffer) if isinstance(extreme, Load) else None
            if first is None or first.name in found or ir.transform(first.body, {}, expand) is not x:
                continue
            if level[node.name] == level[first.name] + 1 and (node.kind == "min" or first.kind == "max"):
                found[first.name] = node
    return found


def shifted(node, body):
    """(x, load of its extreme) if this is the second reduction of a softmax or of an argmax."""
    if node.kind == "sum":
        inner = body.args[0] if isinstance(body, Op) and body.name == "exp" else None
        return inner.args if isinstance(inner, Op) and inner.name == "sub" else None
    if not (isinstance(body, Op) and body.name == "where" and isinstance(body.args[1], ir.IndexExpr)):
        return None
    wins = body.args[0]
    while isinstance(wins, Op) and wins.name == "logical_or":  # ... or x is NaN
        wins = wins.args[0]
    return wins.args if isinstance(wins, Op) and wins.name == "eq" else None
