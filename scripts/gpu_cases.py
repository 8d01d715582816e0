"""What `check_gpu.py` runs: operators against eager, functions and a transformer block to time."""

import torch
import torch.nn.functional as F


def special(*more):
    return torch.tensor([0.0, -0.0, 1, 2.5, -3.5, float("nan"), float("inf"), -float("inf"), 1e-40, -7, 0.3, *more])


UNARY = """exp log sin cos tan tanh erf erfc lgamma digamma sigmoid sign isinf round signbit reciprocal rsqrt sqrt expm1
    log1p exp2 log2 log10 asin acos atan sinh cosh asinh acosh atanh floor ceil trunc abs neg
    square isnan relu""".split()
BIG = 3_000_001

OPS = {
    "unary": (lambda x: [getattr(torch, name)(x) for name in UNARY], lambda: (special(),)),
    "unary_double": (lambda x: [getattr(torch, name)(x) for name in UNARY], lambda: (special().double(),)),
    "chain_bitwise": (lambda x: x.relu().add(1).mul(2), lambda: (torch.cat([torch.randn(BIG) * 99, special()]),)),
    "casts": (
        lambda x: [x.to(d) for d in (torch.int8, torch.int16, torch.int32, torch.int64, torch.bool, torch.bfloat16)],
        lambda: (torch.randn(1001) * 50,),
    ),
    "strided": (lambda x: x[::2, 1::3] + 1, lambda: (torch.randn(200, 300),)),
    "unaligned": (lambda x: x[1:] * 2 + x[:-1], lambda: (torch.randn(BIG),)),
    "empty": (lambda x: (x + 1, x.sum(), x.sum(0), x.amax(1)), lambda: (torch.randn(0, 5),)),
    "sum_all_big": (lambda x: (x.sum(), x.amax(), x.double().mean()), lambda: (torch.rand(BIG * 7),)),
    "sum_rows_long": (lambda x: x.sum(1), lambda: (torch.rand(3, 1 << 20),)),
    "sum_columns_tall": (lambda x: x.sum(0), lambda: (torch.rand(70000, 33),)),
    "sum_columns_wide": (lambda x: x.sum(0), lambda: (torch.rand(8192, 768),)),
    "sum_middle": (lambda x: x.sum((0, 2)), lambda: (torch.rand(37, 65, 129),)),
    "softmax_50257": (lambda x: F.softmax(x, -1), lambda: (torch.randn(33, 50257),)),
    "softmax_4096_bf16": (lambda x: F.softmax(x, -1), lambda: (torch.randn(333, 4096).bfloat16(),)),
    "layer_norm_12288": (lambda x: F.layer_norm(x, (12288,)), lambda: (torch.randn(64, 12288),)),
    "cross_entropy": (
        lambda x, t: F.cross_entropy(x, t),
        lambda: (torch.randn(512, 50257), torch.randint(0, 50257, (512,))),
    ),
    "argmax_ties": (lambda x: (x.argmax(-1), x.argmin(0), x.argmax()), lambda: (torch.randn(333, 4000).round(),)),
    "transpose": (lambda x, y: x.t() + y, lambda: (torch.randn(3000, 2000), torch.randn(2000, 3000))),
    "nchw_to_nhwc": (lambda x: x.permute(0, 2, 3, 1).contiguous() * 2, lambda: (torch.randn(8, 64, 56, 56),)),
    "embedding_backward": (
        lambda g, i: torch.ops.aten.embedding_dense_backward(g, i, 1000, -1, False),
        lambda: (torch.randn(64, 128, 96), torch.randint(0, 1000, (64, 128))),
    ),
    "scatter_add": (
        lambda x, i, s: x.scatter_add(1, i, s),
        lambda: (torch.zeros(500, 3000), torch.randint(0, 3000, (500, 700)), torch.randn(500, 700)),
    ),
    "scatter_prod": (
        lambda x, i, s: x.scatter_reduce(0, i, s, "prod"),
        lambda: (torch.randn(70, 30), torch.randint(0, 30, (20, 6)), torch.randn(20, 6)),
    ),
    "scatter_amax": (
        lambda x, i, s: x.scatter_reduce(0, i, s, "amax"),
        lambda: (torch.randn(70, 30), torch.randint(0, 30, (20, 6)), torch.randn(20, 6)),
    ),
    "cumsum": (lambda x: (x.cumsum(-1), x.cumsum(0), x.cumprod(1)), lambda: (torch.rand(70, 3000) + 0.5,)),
}


def half(*size):
    return torch.randn(*size, device="cuda", dtype=torch.bfloat16)


def single(*size):
    return torch.randn(*size, device="cuda")


TIMES = {  # name -> (function, inputs, bytes moved at least)
    "relu_add_mul 64M fp32": (lambda x: x.relu().add(1).mul(2), lambda: (single(1 << 26),), 8 << 26),
    "gelu 64M bf16": (lambda x: F.gelu(x), lambda: (half(1 << 26),), 4 << 26),
    "add+gelu 64M bf16": (lambda x, y: F.gelu(x + y), lambda: (half(1 << 26), half(1 << 26)), 6 << 26),
    "softmax 16384x2048 bf16": (lambda x: F.softmax(x, -1), lambda: (half(16384, 2048),), 4 * 16384 * 2048),
    "softmax 4096x50257 fp32": (lambda x: F.softmax(x, -1), lambda: (single(4096, 50257),), 8 * 4096 * 50257),
    "layer_norm 65536x1024 bf16": (
        lambda x, w, b: F.layer_norm(x, (1024,), w, b),
        lambda: (half(65536, 1024), half(1024), half(1024)),
        4 * 65536 * 1024,
    ),
    "sum all 128M fp32": (lambda x: x.sum(), lambda: (single(1 << 27),), 4 << 27),
    "sum columns 65536x1024 fp32": (lambda x: x.sum(0), lambda: (single(65536, 1024),), 4 * 65536 * 1024),
    "sum rows 65536x1024 fp32": (lambda x: x.sum(1), lambda: (single(65536, 1024),), 4 * 65536 * 1024),
    "transpose+add 8192 fp32": (lambda x, y: x.t() + y, lambda: (single(8192, 8192), single(8192, 8192)), 12 << 26),
    "embedding 65536x1024 bf16": (
        lambda w, i: F.embedding(i, w) * 2,
        lambda: (half(50257, 1024), torch.randint(0, 50257, (65536,), device="cuda")),
        4 * 65536 * 1024,
    ),
    "cross_entropy 8192x50257 fp32": (
        lambda x, t: F.cross_entropy(x, t),
        lambda: (single(8192, 50257), torch.randint(0, 50257, (8192,), device="cuda")),
        4 * 8192 * 50257,
    ),
}


class Block(torch.nn.Module):
    """A transformer block, 1024 wide."""

    def __init__(self, width=1024, heads=16):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = torch.nn.LayerNorm(width), torch.nn.LayerNorm(width)
        self.qkv, self.out = torch.nn.Linear(width, 3 * width), torch.nn.Linear(width, width)
        self.up, self.down = torch.nn.Linear(width, 4 * width), torch.nn.Linear(4 * width, width)

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(b, t, 3, self.heads, c // self.heads).permute(2, 0, 3, 1, 4).unbind(0)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(b, t, c)
        x = x + self.out(y)
        return x + self.down(F.gelu(self.up(self.norm2(x)), approximate="tanh"))
