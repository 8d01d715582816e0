"""A GraphModule whose Python code is written when it first runs: most graphs only pass through the stages.

Goes in: what a `torch.fx.GraphModule` takes.  Comes out: one.  Mirrors `torch/fx/_lazy_graph_module.py`, whose
`forward` calls the module as a whole: a run goes through hooks for all modules, and prints where the graph raised.
"""

from torch.fx._lazy_graph_module import _LazyGraphModule


class LazyGraphModule(_LazyGraphModule):
    """Its `forward` is the graph's code and nothing else."""

    def _lazy_forward(self, *args, **kwargs):
        self.real_recompile()
        return self.forward(*args, **kwargs)

    forward = _lazy_forward
