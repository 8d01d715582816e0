"""FX graph in, functional ATen graphs out: forward and, for training, backward.

`trace(gm, inputs)` gives the readable `AOTGraph`; `compile(gm, inputs, forward_compiler=...)` a callable that runs it.
Mirrors `torch/_functorch/aot_autograd.py`.  Taught in chapter 08.
"""

import torch

from .. import record
from ..errors import Unsupported
from . import autograd, runtime
from .graph import AOTGraph, Examples
from .graph_cache import traced
from .joint import trace
from .overlap import SharedMemory
from .partitioner import SavedTensor
from .sharing import Sharing

__all__ = ["AOTGraph", "SavedTensor", "compile", "trace"]


def compile(
    gm, example_inputs, *, forward_compiler, backward_compiler=None, inference_compiler=None, decompositions=None
):
    """A callable that does what `gm` does, through graphs that the compilers made.

    Each compiler is `(aten_gm, example_inputs) -> callable`; they see functional ATen graphs.  A graph that cannot be
    made functional runs in eager; `record` then holds the `Unsupported` that says why.
    """
    compilers = forward_compiler, backward_compiler or forward_compiler, inference_compiler or forward_compiler
    try:
        graph = on_record(gm, example_inputs, decompositions)
    except Unsupported:
        record.counters["aot_rejected"] += 1
        return runtime.eager(gm)

    def compile_shared(groups, values, examples, memories):
        shared = on_record(gm, examples[: len(graph.input_names)], decompositions, Sharing(groups, values, memories))
        return runtime.build(shared, gm, compiled(shared, *compilers))

    run_shared = SharedMemory(graph, runtime.eager(gm), compile_shared)
    return runtime.build(graph, gm, compiled(graph, *compilers), run_shared)


def on_record(gm, example_inputs, decompositions, sharing=None):
    """`trace`, on record."""
    with record.stage("aot") as snapshot:
        try:
            graph = snapshot.artifact = traced(gm, example_inputs, decompositions, sharing)
        except Unsupported as reason:
            snapshot.artifact = reason
            raise
    record.log("aot", "%s", graph)
    record.counters["saved_bytes"] += graph.saved_bytes
    return graph


def compiled(graph, forward_compiler, backward_compiler, inference_compiler):
    """The compiled graph, as a callable on a list of inputs; for training, as autograd's."""
    # which results the user gets (the others are consumed at once, or kept for the backward), and whether some are kept
    trains = graph.backward is not None
    graph.forward.meta["results"] = ([*graph.moved, *range(len(graph.mutations), graph.result_count)], trains)
    if trains:
        graph.backward.meta["results"] = (range(0), True)
    ambient = torch._C._is_any_autocast_enabled()
    adapt = (lambda f: autograd.without_autocast(autograd.boxed(f))) if ambient else autograd.boxed
    run = adapt((forward_compiler if trains else inference_compiler)(graph.forward, Examples(graph.forward)))
    run = runtime.with_eager_state(graph, run)
    return autograd.autograd_function(graph, run, autograd.LazyBackward(graph, backward_compiler)) if trains else run
