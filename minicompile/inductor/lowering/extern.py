"""Calls of ATen kernels that no loop of ours would beat: matrix products, convolutions, attention.

Goes in: an operator's arguments.  Comes out: a `TensorValue` that reads the call's result.
Mirrors `torch/_inductor/kernel/` (`mm.py`, `conv.py`) and `ExternKernel` in `ir.py`.  Taught in chapter 13.
"""

import functools
import operator

import torch
from torch._subclasses.fake_tensor import unset_fake_temporarily

from ... import config, philox  # noqa: F401 (its operators)
from .. import autotune, ir
from ..graph import TensorValue, current, layout_of
from ..indexing import flatten, hint
from .common import LOWERINGS, apply, aten, fake, register_lowering
from .slices import slice_
from .views import constant_pad_nd, permute, view

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


@register_lowering(aten.convolution.default)
def convolution(x, weight, bias, *rest):
    """cuDNN adds the bias in a kernel of its own, which then reads and writes everything: ours fuse that."""
    if x.device.type == "cpu":
        return pixels(x, weight, bias) if is_product(x, weight, *rest) else call(x, weight, bias, *rest)
    result = call(x, weight, None, *rest)
    return result if bias is None else apply("add", result, view(bias, (bias.size[0], *(1,) * (weight.ndim - 2))))


def is_product(x, weight, stride, padding, dilation, transposed, output_padding, groups):
    """Is it the same matrix for each pixel, whose channels lie side by side?"""
    small = {*weight.size[2:], *stride, groups} == {1} and not any(padding) and not transposed and 0 not in x.size
    return small and x.dtype == torch.float32 and fake().dim() == 4 and fake().stride(1) == 1


def pixels(x, weight, bias):
    """All pixels at once, into memory of ours: oneDNN takes its own, and on one thread ATen goes image by image."""
    channels, results = x.size[1], weight.size[0]
    rows = view(permute(x, (0, 2, 3, 1)).realize(), (-1, channels))
    made = product(rows, permute(view(weight, (results, channels)), (1, 0)), bias)
    return permute(view(made, (x.size[0], *x.size[2:], results)), (0, 3, 1, 2))


# Draws that read nothing of their first argument but its size and strides.
DRAWS = """
    bernoulli.p rand_like randn_like randint_like
    normal_functional uniform exponential cauchy geometric log_normal random
"""


@register_lowering(*(operator.attrgetter(name)(aten) for name in DRAWS.split()))
def draw(x, *args, **kwargs):
    """By eager's own generator and in eager's order.  Only the size and strides of x matter, which it need not have."""
    like = layout_of(fake())
    kind = {"dtype": like.dtype, "device": like.device}
    memory = current().extern(aten.empty_strided.default, (like.size, like.stride), kind, "extern")
    return current().extern(current().node.target, (memory, *args), kwargs, "extern")


@register_lowering(torch.ops.minicompile.seed)
def seed(device):
    """The seeds of a graph are drawn together."""
    graph, device = current(), torch.device(device)
    if device not in graph.seeds:
        same = [n for n in graph.gm.graph.nodes if n.target is graph.node.target and torch.device(n.args[0]) == device]
        graph.seeds[device] = iter(
            graph.extern(torch.ops.minicompile.seeds.default, (len(same), device), {}, "extern", [fake()] * len(same))
        )
    return next(graph.seeds[device])


@register_lowering(torch.ops.minicompile.uniform)
def uniform(seed, size, word=None):
    name = "uniform" if word is None else f"uniform_{word}"

    def inner(position):
        number = flatten(position, tuple(size))
        return ir.op(name, seed.load(()), ir.index_expr(number, ir.index_dtype(number)))

    return TensorValue(seed.device, torch.float32, size, inner)


@register_lowering(aten._assert_scalar)
def assert_scalar(condition, text):
    return current().extern(aten._assert_scalar.default, (condition, text), {}, "number")


# --- padding -----------------------------------------------------------------------------------------
# Half matrices whose rows start anywhere: on a GPU padding them is worth a copy, where a size that is contiguous in
# memory is no multiple of 8.  Rows that start at multiples of 16 bytes are what the fast kernels of cuBLAS ask for (a
# vocabulary of 50257 takes three times as long as one of 50264).  The zeros are written by the kernel that makes the
# operand, if there is one.  See `torch/_inductor/fx_passes/pad_mm.py`.
ALIGNED = 8  # elements of a half type in 16 bytes
FLOPS, BYTES = 7e14, 4e12  # a second, of an H100; unaligned products run at half the speed, or less


def up(n):
    return -(-n // ALIGNED) * ALIGNED


def pays(x, m, n, k):
    """Is the time that padding saves more than that of copying everything?"""
    known = x.device.type == "cuda" and x.dtype in ir.HALF and all(isinstance(s, int) for s in (m, n, k))
    return known and 2 * m * n * k / FLOPS > 4 * (m * n + n * k + m * k) / BYTES


def padded(x, rows, columns):
    """x with zeros below and on the right, in its own order in memory: a matrix and its transpose are padded once."""
    if x.size == (rows, columns):
        return x
    stride = current().as_view(x).layout.stride
    if stride[0] == 1 and stride[1] != 1:
        return permute(padded(permute(x, (1, 0)), columns, rows), (1, 0))
    return constant_pad_nd(x, (0, columns - x.size[1], 0, rows - x.size[0])).realize()


@register_lowering(aten.mm.default)
def mm(a, b):
    return product(a, b)


@register_lowering(aten.addmm.default)
def addmm(bias, a, b, beta=1, alpha=1):
    if bias.ndim != 1 or (beta, alpha) != (1, 1):
        return call(bias, a, b, beta=beta, alpha=alpha)
    return product(a, b, bias)


def product(a, b, bias=None):
    (m, k), n = a.size, b.size[1]
    if not pays(a, m, n, k):
        much = a.device.type == "cpu" and a.dtype == torch.float32 and hint(m * n * k) >= WORK
        if much and onednn_is_faster():
            return linear(a, b, bias)
        return multiply(a, b, bias) if bias is None or not copies_bias(a) else with_bias(multiply(a, b, None), bias)
    a, b = a.realize(), b.realize()
    strides = [current().as_view(x).layout.stride for x in (a, b)]
    rows = up(m) if strides[0][0] == 1 else m
    inner = up(k) if strides[0][1] == 1 or strides[1][0] == 1 else k
    if (rows, up(n), inner) == (m, n, k):
        return multiply(a, b, bias)
    bias = None if bias is None else constant_pad_nd(bias, (0, up(n) - n))
    result = multiply(padded(a, rows, inner), padded(b, inner, up(n)), bias)
    return slice_(slice_(result, 0, 0, m), 1, 0, n)


def copies_bias(x):
    """Does ATen copy the bias first, for MKL to add the product, while kernels of ours could add it for nothing?"""
    ours = config.cpu_backend == "cpp"  # in Triton, which then stands for a GPU, as there
    by_mkl = ours and x.device.type == "cpu" and x.dtype in (torch.float32, torch.float64)
    return by_mkl and loops_alone_read(current().node)


def loops_alone_read(node):
    """Neither the caller nor another call reads the result, itself or seen from another side."""
    for user in node.users:
        if user.op == "output" or getattr(user.target, "_opname", None) in EXTERN.split():
            return False
        seen = user.target is operator.getitem or getattr(user.target, "is_view", False)
        if seen and not loops_alone_read(user):
            return False
    return True


def with_bias(result, bias):
    """Added by the kernel that reads the result.  On a Xeon the copy takes 3% to 25% of a product's time."""
    return apply("add", result, view(bias, (1, bias.size[0])))


def multiply(a, b, bias):
    """The call itself."""
    if bias is None:
        return matrix(aten.mm.default, (a, b), a, b.size[1])
    return matrix(aten.addmm.default, (bias, a, b), a, b.size[1])


def matrix(target, args, like, columns):
    """A call of which the result is a matrix with as many rows as `like` has."""
    layout = ir.Layout.contiguous(like.device, like.dtype, (like.size[0], columns))
    args = tuple(current().as_view(a) if isinstance(a, TensorValue) else a for a in args)
    return current().add_buffer(layout, ir.Extern(target, args, {}, "extern"))


# --- oneDNN ------------------------------------------------------------------------------------------
WORK = 1 << 26  # multiplications from which it matters which library does them
LEAD = 1.5  # times as fast oneDNN must be: 2.2 on an AMD EPYC; a lead that a busy machine could feign is none


@functools.cache
def onednn_is_faster():
    """Does oneDNN multiply faster than what `addmm` calls?  That is MKL, which is slow on AMD's processors."""
    if not (torch.backends.mkldnn.is_available() and torch._C._get_mkldnn_enabled()):
        return False
    with unset_fake_temporarily(), torch.no_grad():
        x, weight, bias = (torch.ones(size) for size in ((256, 512), (1024, 512), (1024,)))
        ways = {
            "addmm": lambda: functools.partial(torch.addmm, bias, x, weight.t()),
            "linear": lambda: functools.partial(torch.ops.mkldnn._linear_pointwise, x, weight, bias, "none", [], ""),
        }
        return autotune.choose(ways, ("products of float32",), x.device, lead=LEAD) == "linear"


def linear(x, b, bias):
    """The product by oneDNN, where `b` is a weight turned around, as `nn.Linear` has it."""
    weight = current().as_view(permute(b, (1, 0)))
    if weight.layout.stride != (b.size[0], 1):
        return multiply(x, b, bias)
    return matrix(torch.ops.mkldnn._linear_pointwise.default, (x, weight, bias, "none", [], ""), x, b.size[1])
