"""Calls of ATen kernels that no loop of ours would beat: matrix products, convolutions, attention.

Goes in: an operator's arguments.  Comes out: a `TensorValue` that reads the call's result.
Mirrors `torch/_inductor/kernel/` (`mm.py`, `conv.py`) and `ExternKernel` in `ir.py`.  Taught in chapter 13.
"""

from ..graph import current, layout_of
from .common import LOWERINGS, aten, fake, register_lowering

EXTERN = """
    mm addmm bmm baddbmm addbmm _addmm_activation _int_mm _scaled_mm _grouped_mm dot vdot mv addmv
    convolution convolution_backward mkldnn_rnn_layer mkldnn_rnn_layer_backward
    _scaled_dot_product_flash_attention_for_cpu _scaled_dot_product_flash_attention_for_cpu_backward
    _scaled_dot_product_flash_attention _scaled_dot_product_flash_attention_backward
    _scaled_dot_product_efficient_attention _scaled_dot_product_efficient_attention_backward
    _scaled_dot_product_cudnn_attention _scaled_dot_product_cudnn_attention_backward
"""


def call(*args, **kwargs):
    return current().extern(current().node.target, args, kwargs, "extern")


for name in EXTERN.split():
    if hasattr(aten, name):
        LOWERINGS[getattr(aten, name)] = call


@register_lowering(aten.bernoulli.p)
def bernoulli(x, p=0.5, generator=None):
    """A random mask, by eager's own generator and in eager's order.  Only the size and strides of x matter."""
    like = layout_of(fake())
    kind = {"dtype": like.dtype, "device": like.device}
    memory = current().extern(aten.empty_strided.default, (like.size, like.stride), kind, "extern")
    return current().extern(aten.bernoulli.p, (memory, p), {"generator": generator}, "extern")


@register_lowering(aten._assert_scalar)
def assert_scalar(condition, text):
    return current().extern(aten._assert_scalar.default, (condition, text), {}, "number")
