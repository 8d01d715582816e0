"""Small functions that between them use every kind of loop nest: the cases of several tests, and of `why.py`-like play.

`PATTERNS[name]` is (function, maker of its inputs, kernels that the C++ schedule may have at most, or None).
"""

import torch
import torch.nn.functional as F
from torch.fx.experimental.proxy_tensor import make_fx

from minicompile.aot.decompositions import decomposition_table

rn, ri = torch.randn, torch.randint


def aten_graph(function, *inputs):
    """The functional ATen graph that aot would hand to inductor (for functions without mutation)."""
    return make_fx(function, tracing_mode="fake", decomposition_table=decomposition_table())(*inputs)


def with_nan(*size):
    return torch.where(torch.rand(*size) > 0.97, float("nan"), rn(*size))


def rotary(x, cos, sin):
    half = x.shape[-1] // 2
    return x * cos + torch.cat((-x[..., half:], x[..., :half]), -1) * sin


def divisions(a, b):
    return a // b, a % b, torch.fmod(a, b), torch.div(a, b, rounding_mode="trunc")


def wrapping(a, b):
    return a + b, a * b, a - b, ~a, a << 1, a >> 2, -a


PATTERNS = {
    "relu_add_mul": (lambda x: x.relu().add(1).mul(2), lambda: (rn(64, 128),), 1),
    "gelu": (F.gelu, lambda: (rn(64, 128),), 1),
    "gelu_tanh": (lambda x: F.gelu(x, approximate="tanh"), lambda: (rn(64, 128),), 1),
    "softmax": (lambda x: F.softmax(x, -1), lambda: (rn(64, 128),), 1),
    "softmax_columns": (lambda x: F.softmax(x, 1), lambda: (rn(6, 128, 33),), 1),
    "softmax_first": (lambda x: F.softmax(x, 0), lambda: (rn(700, 3),), 1),
    "softmax_bf16": (lambda x: F.softmax(x, -1), lambda: (rn(64, 128).bfloat16(),), 1),
    "log_softmax": (lambda x: F.log_softmax(x, -1), lambda: (rn(64, 128),), 1),
    "layer_norm": (lambda x, w, b: F.layer_norm(x, (128,), w, b), lambda: (rn(64, 128), rn(128), rn(128)), 1),
    "group_norm_silu": (lambda x, w, b: F.silu(F.group_norm(x, 4, w, b)), lambda: (rn(4, 16, 9, 9), rn(16), rn(16)), 1),
    "batch_norm": (
        lambda x, w, b, m, v: F.batch_norm(x, m, v, w, b),
        lambda: (rn(4, 16, 9, 9), rn(16), rn(16), rn(16), torch.rand(16)),
        1,
    ),
    "var": (lambda x: x.var(1), lambda: (rn(4, 160, 9),), 1),
    "std_all": (lambda x: x.std(), lambda: (rn(4, 160, 9),), 2),
    "argmax": (lambda x: x.argmax(1), lambda: (rn(40, 160).round(),), 1),
    "argmin_nan": (lambda x: x.argmin(0), lambda: (with_nan(40, 160),), 1),
    "max_dim": (lambda x: x.max(1), lambda: (rn(40, 160),), 1),
    "amax_nan": (lambda x: (x.amax(1), x.amin(0)), lambda: (with_nan(40, 160),), 2),
    "any_all": (lambda x: (x.any(1), x.all(0), x.all()), lambda: (rn(40, 160) > 1,), 3),
    "prod": (lambda x: x.prod(1), lambda: (rn(40, 16),), 1),
    "sum_rows": (lambda x: x.sum(1), lambda: (rn(40, 9000),), 1),
    "sum_columns": (lambda x: x.sum(0) + 1, lambda: (rn(3000, 70),), 1),
    "sum_middle": (lambda x: x.sum((0, 2)), lambda: (rn(30, 70, 33),), 1),
    "sum_all": (lambda x: x.sum(), lambda: (rn(300, 700),), 1),
    "sum_tall": (lambda x: x.sum(0), lambda: (rn(70000, 3),), 1),
    "cumsum": (lambda x: (x.cumsum(1), x.cumsum(0)), lambda: (rn(40, 160),), None),
    "embedding": (lambda w, i: F.embedding(i, w), lambda: (rn(40, 16), ri(0, 40, (3, 5))), 1),
    "index": (lambda w, i: w[i], lambda: (rn(40, 16), ri(-40, 40, (3, 5))), 1),
    "gather": (lambda w, i: w.gather(1, i), lambda: (rn(40, 16), ri(0, 16, (40, 5))), 1),
    "scatter_add": (lambda w, i, s: w.scatter_add(1, i, s), lambda: (rn(40, 16), ri(0, 16, (40, 5)), rn(40, 5)), 1),
    "index_put": (
        lambda w, i, s: w.index_put((i,), s, accumulate=True),
        lambda: (rn(40, 16), ri(0, 40, (60,)), rn(60, 16)),
        1,
    ),
    "embedding_backward": (
        lambda g, i: torch.ops.aten.embedding_dense_backward(g, i, 40, -1, False),
        lambda: (rn(3, 50, 160), ri(0, 40, (3, 50))),
        1,
    ),
    "cat": (lambda a, b: torch.cat([a, b * 2], 1).relu(), lambda: (rn(4, 5, 6), rn(4, 3, 6)), 1),
    "pad": (lambda a: F.pad(a, (1, 2, 3, 0)), lambda: (rn(4, 5, 6),), 1),
    "linear_relu": (lambda a, b, c: F.relu(F.linear(a, b, c)), lambda: (rn(40, 50), rn(16, 50), rn(16)), 1),
    "conv_relu": (lambda a, b, c: F.relu(F.conv2d(a, b, c)), lambda: (rn(2, 3, 16, 16), rn(8, 3, 3, 3), rn(8)), 1),
    "conv_relu_channels_last": (
        lambda a, b, c: F.relu(F.conv2d(a, b, c)),
        lambda: (rn(2, 3, 16, 16).to(memory_format=torch.channels_last), rn(8, 3, 3, 3), rn(8)),
        1,
    ),
    "attention": (
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True),
        lambda: tuple(rn(2, 4, 16, 8) for _ in range(3)),
        None,
    ),
    "integer_division": (divisions, lambda: (ri(-50, 50, (100,)), ri(1, 9, (100,)) * torch.tensor([1, -1] * 50)), 1),
    "float_division": (divisions, lambda: (rn(100) * 20, rn(100)), 1),
    "uint8": (wrapping, lambda: (ri(0, 255, (100,), dtype=torch.uint8), ri(0, 255, (100,), dtype=torch.uint8)), 1),
    "tril": (lambda a: a.tril(), lambda: (rn(10, 10),), 1),
    "transpose_add": (lambda a, b: a.t() + b, lambda: (rn(70, 330), rn(330, 70)), 1),
    "transpose_view": (lambda a: a.transpose(1, 2).contiguous().view(4, -1) * 2, lambda: (rn(4, 50, 64),), 1),
    "max_pool": (lambda a: F.max_pool2d(a, 2), lambda: (rn(2, 3, 16, 16),), None),
    "avg_pool": (lambda a: F.avg_pool2d(a, 2), lambda: (rn(2, 3, 16, 16),), 1),
    "bilinear": (lambda a: F.interpolate(a, scale_factor=2, mode="bilinear"), lambda: (rn(2, 3, 16, 16),), None),
    "half": (lambda a, b: (a * b + a).sigmoid(), lambda: (rn(100, 33).half(), rn(33).half()), 1),
    "bfloat16": (lambda a, b: (a * b + a).tanh(), lambda: (rn(100, 33).bfloat16(), rn(33).bfloat16()), 1),
    "cross_entropy": (lambda a, t: F.cross_entropy(a, t), lambda: (rn(100, 33), ri(0, 33, (100,))), 2),
    "sort": (lambda a: a.sort(1), lambda: (rn(100, 33),), None),
    "topk": (lambda a: a.topk(3), lambda: (rn(100, 33),), None),
    "arange": (lambda a: a + torch.arange(33), lambda: (rn(100, 33),), 1),
    "where": (lambda a: torch.where(a > 0, a, 0.0), lambda: (rn(100, 33),), 1),
    "flip_roll": (lambda a: a.flip(0) + a.roll(3, 1), lambda: (rn(100, 33),), 1),
    "empty": (lambda a: (a + 1, a.sum(0), a.sum()), lambda: (rn(0, 33),), None),
    "zero_dim": (lambda a: (a + 1, a.sum(), a.exp()), lambda: (rn(()),), 1),
    "expand": (lambda a: a.expand(10, 33) * 2, lambda: (rn(33),), 1),
    "strided": (lambda a: a[::2, 1:] * 2 + a[1::2, :-1], lambda: (rn(20, 33),), 1),
    "logsumexp": (lambda a: a.logsumexp(1), lambda: (rn(20, 33),), 1),
    "channels_last": (lambda a: (a * 2).relu(), lambda: (rn(2, 3, 16, 16).to(memory_format=torch.channels_last),), 1),
    "unfold": (lambda a: F.unfold(a, 3), lambda: (rn(2, 3, 16, 16),), 1),
    "repeat": (lambda a: a.repeat(2, 3), lambda: (rn(3, 16),), 1),
    "one_hot": (lambda a: F.one_hot(a, 10), lambda: (ri(0, 10, (7,)),), None),
    "split": (lambda a: [t * 2 for t in a.split(3, 1)], lambda: (rn(4, 9),), None),
    "reshape": (lambda a: a.view(2, 8, 4).permute(2, 0, 1).reshape(8, 8) + 1, lambda: (rn(64),), 1),
    "rotary": (rotary, lambda: (rn(2, 3, 8), rn(3, 8), rn(3, 8)), 1),
    "swiglu": (lambda a: F.silu(a[:, :32]) * a[:, 32:], lambda: (rn(20, 64),), 1),
    "add_layer_norm": (
        lambda x, y, w, b: (lambda s: (s, F.layer_norm(s, (128,), w, b)))(x + y),
        lambda: (rn(64, 128), rn(64, 128), rn(128), rn(128)),
        1,
    ),
    "rms_norm": (
        lambda x, w: x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * w,
        lambda: (rn(64, 128), rn(128)),
        1,
    ),
    "masked_softmax": (
        lambda x, m: F.softmax(x.masked_fill(m, float("-inf")), -1),
        lambda: (rn(64, 128), rn(64, 128) > 1),
        1,
    ),
    "dropout_like": (lambda x, m: x * (m > 0.1) * 1.1 + x, lambda: (rn(64, 128), torch.rand(64, 128)), 1),
    "norm_backward": (
        lambda g, x, w: ((g * w) - (g * w * x).mean(-1, keepdim=True) * x, (g * x).sum(0), g.sum(0)),
        lambda: (rn(64, 128), rn(64, 128), rn(128)),
        2,
    ),
}
