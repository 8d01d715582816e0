"""inductor: an ATen graph becomes loop IR, fused kernels and a wrapper that calls them.  Mirrors `torch/_inductor/`."""

from .graph import GraphLowering, IRGraph
from .lowering import LOWERINGS


def lower(gm, example_inputs=()):
    """ATen graph -> IRGraph."""
    return GraphLowering(gm, example_inputs, LOWERINGS).run()


__all__ = ["IRGraph", "lower"]
