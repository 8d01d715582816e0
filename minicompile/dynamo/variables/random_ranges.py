"""A branch on a random number that every draw decides alike: no draw of `torch.rand([])` is below a rate of 0.0.

Goes in: the FX node of a condition.  Comes out: its truth, or None where draws differ.  Models that skip layers at
random ask so for each layer, with a rate that is mostly 0: the draw stays in the graph, and the graph whole.  Nothing
like it is in PyTorch, whose graph breaks at each layer.  Taught in chapter 05.
"""

import operator

import torch

LOWEST, ABOVE = 0.0, 1.0  # torch.rand draws from LOWEST on, and stays below ABOVE
COMPARISONS = {getattr(operator, name): name for name in ("lt", "le", "gt", "ge")}
COMPARISONS |= {getattr(torch, name): name for name in COMPARISONS.values()}
MIRRORED = {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le"}  # 0.1 > draw as draw < 0.1
ALWAYS = {  # whether every draw is on this side of a number
    "lt": lambda number: number >= ABOVE,
    "le": lambda number: number >= ABOVE,
    "gt": lambda number: number <= LOWEST - 1,  # what is just below 0 may be 0 in the type of the draw
    "ge": lambda number: number <= LOWEST,
}
OPPOSITE = {"lt": "ge", "le": "gt", "gt": "le", "ge": "lt"}


def known_truth(condition):
    """True or False where `condition` compares a draw, which nothing else has changed meanwhile, with such a number."""
    name, operands = comparison(condition)
    if name is None or condition.users:
        return None
    draw, number = operands
    if type(draw) in (int, float):
        draw, number, name = number, draw, MIRRORED[name]
    if type(number) not in (int, float) or not is_draw(draw):
        return None
    return True if ALWAYS[name](number) else False if ALWAYS[OPPOSITE[name]](number) else None


def comparison(node):
    """("lt" and its kin, both operands), or (None, ())."""
    name = node.target if node.op == "call_method" else COMPARISONS.get(node.target)
    known = name in ALWAYS and len(node.args) == 2 and not node.kwargs
    return (name, node.args) if known else (None, ())


def is_draw(node):
    """Is it what `torch.rand` has drawn?  Comparisons alone have seen it: what writes to it is among its users."""
    drawn = isinstance(node, torch.fx.Node) and node.target is torch.rand and "out" not in node.kwargs
    return drawn and all(comparison(user)[0] for user in node.users)
