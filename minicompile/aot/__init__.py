"""FX graph in, functional ATen graphs out: forward and, for training, backward.

`trace(gm, inputs)` gives the readable `AOTGraph`; `compile(gm, inputs, forward_compiler=...)` a callable that runs it.
Mirrors `torch/_functorch/aot_autograd.py`.  Taught in chapter 08.
"""

import functools

import torch

from .. import record
from ..errors import Unsupported
from . import autograd, runtime
from .graph import AOTGraph, Examples
from .graph_cache import traced
from .joint import trace
from .partitioner import SavedTensor

__all__ = ["AOTGraph", "SavedTensor", "compile", "trace"]


def compile(
    gm, example_inputs, *, forward_compiler, backward_compiler=None, inference_compiler=None, decompositions=None
):
    """A callable that does what `gm` does, through graphs that the compilers made.

    Each compiler is `(aten_gm, example_inputs) -> callable`; they see functional ATen graphs.  A graph that cannot be
    made functional runs in eager; `record` then holds the `Unsupported` that says why.
    """
    with record.stage("aot") as snapshot:
        try:
            graph = snapshot.artifact = traced(gm, example_inputs, decompositions)
        except Unsupported as reason:
            snapshot.artifact = reason
            record.counters["aot_rejected"] += 1
            return runtime.eager(gm)
    record.log("aot", "%s", graph)
    record.counters["saved_bytes"] += graph.saved_bytes
    # which results the user gets (the others are consumed at once, or kept for the backward), and whether some are kept
    trains = graph.backward is not None
    graph.forward.meta["results"] = (range(len(graph.mutations), graph.result_count), trains)
    if trains:
        graph.backward.meta["results"] = (range(0), True)
    ambient = torch._C._is_any_autocast_enabled()
    adapt = (lambda f: autograd.without_autocast(autograd.boxed(f))) if ambient else autograd.boxed
    finish = functools.partial(runtime.with_eager_state, graph)
    examples = Examples(graph.forward)
    if graph.backward is None:
        compiler = inference_compiler or forward_compiler
        return runtime.build(graph, gm, finish(adapt(compiler(graph.forward, examples))))
    forward = finish(adapt(forward_compiler(graph.forward, examples)))
    backward = autograd.LazyBackward(graph, backward_compiler or forward_compiler)
    return runtime.build(graph, gm, autograd.autograd_function(graph, forward, backward))
