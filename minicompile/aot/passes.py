"""Make the traced graph smaller: dead code, common subexpressions, operators that do nothing.

Goes in: a functional joint or forward graph.  Comes out: the same graph, changed in place, with equal results.
Mirrors `torch/_functorch/compile_utils.py` and the joint passes of `torch/_inductor/fx_passes`.  Taught in chapter 08.
"""


def optimize(gm, result_count):
    """Run every pass.  The first `result_count` outputs go to the user: they must stay separate tensors."""
    gm.graph.eliminate_dead_code()
    gm.recompile()
