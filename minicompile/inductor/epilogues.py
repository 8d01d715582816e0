"""What a library computes on a matrix product's result before it stores it: on a GPU, `relu`.

Goes in: an `IRGraph` after inlining, when a pointwise buffer is what is left of its operators.  Comes out: the same
graph, where a product with a bias and the `relu` that alone reads it are one call.  cuBLAS takes the larger of a number
and zero, and which of them it takes for NaN differs from kernel to kernel: float32 has lost it.  So the very product
is tried first.
Mirrors `addmm_activation` in `torch/_inductor/fx_passes/post_grad.py`.  Taught in chapter 13.
"""

import dataclasses

import torch
from torch._subclasses.fake_tensor import unset_fake_temporarily

from . import autotune, ir
from .indexing import index
from .passes import FusionDecision, buffer_reads

aten = torch.ops.aten


def with_activations(graph):
    """(the graph, a decision for each `relu` that became part of a call)"""
    made, readers, decisions = {b.name: b for b in graph.buffers}, {}, []
    for buffer in graph.buffers:
        for name in buffer_reads(buffer):
            readers.setdefault(name, []).append(buffer)
    outputs, calls = {o.buffer for o in graph.outputs if isinstance(o, ir.View)}, {}
    for name, (buffer, *others) in readers.items():
        product = made.get(name)
        alone = product is not None and name not in outputs and not others
        if alone and is_relu_of(buffer, product) and keeps_nan(product.data):
            calls[name], calls[buffer.name] = None, dataclasses.replace(product.data, target=TARGET)
            why = "the library computes it on what it stores"
            decisions.append(FusionDecision(name, buffer.name, True, why, 2 * buffer.layout.nbytes()))
    buffers = [dataclasses.replace(b, data=calls.get(b.name, b.data)) for b in graph.buffers]
    return dataclasses.replace(graph, buffers=[b for b in buffers if b.data is not None]), decisions


DEVICE, TARGET = "cuda", aten._addmm_activation.default


def is_relu_of(buffer, product):
    """Is the buffer `relu` of each element of a product of halves, in its place?  One with a bias, on a GPU."""
    data, call, layout = buffer.data, product.data, product.layout
    if not (isinstance(call, ir.Extern) and call.target is aten.addmm.default and isinstance(data, ir.Pointwise)):
        return False
    alike = layout == buffer.layout and layout.device.type == DEVICE and layout.dtype in ir.HALF
    bias = call.args[0].layout.size
    if not alike or call.kwargs or len(bias) != 1 or not all(isinstance(n, int) for n in (*bias, *layout.size)):
        return False
    return data.body is ir.op("relu", ir.Load(product.name, tuple(map(index, data.vars)), layout.dtype))


def keeps_nan(call):
    """Does the library's kernel for these operands keep NaN?  Tried on the device, if there is room."""
    if not torch.cuda.is_available():
        return False
    try:
        with unset_fake_temporarily(), torch.no_grad():
            args = [autotune.tensor_of(view.layout) for view in call.args]
            for _, memory in args:
                memory.fill_(float("nan"))
            return bool(TARGET(*(tensor for tensor, _ in args)).isnan().all())
    except torch.OutOfMemoryError:
        return False
