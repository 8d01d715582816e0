"""The micro patterns: small functions of the kind that fusion is for, each with the bytes that an ideal kernel moves.

Goes in: nothing.  Comes out: `PATTERNS`, name -> `Pattern`.  Sizes are rows x columns, `SIZES` by name.  The ideal
reads each input once and writes each output once; where less is needed (an embedding reads only the rows that it
takes), the entry says so.  Mirrors `benchmarks/dynamo/microbenchmarks/` in the PyTorch repository.  Taught in chapter
10.
"""

import dataclasses
from collections.abc import Callable

import torch
import torch.nn.functional as F

SIZES = {"small": (32, 64), "medium": (4096, 1024), "large": (16384, 2048)}  # tests; a CPU; a GPU


class Maker:
    """Makes the inputs of a pattern: random, never zeros; the same for the same size, device, type and seed.

    part: with so many times fewer rows.
    """

    def __init__(self, size, device="cpu", dtype=torch.float32, seed=0, part=1):
        rows, self.columns = SIZES[size]
        self.rows = max(rows // part, 1)
        self.device, self.dtype = device, dtype
        self.generator = torch.Generator(device).manual_seed(seed)

    def __call__(self, *shape):
        return torch.randn(shape, device=self.device, dtype=self.dtype, generator=self.generator)

    def integers(self, high, *shape, dtype=torch.int64, low=0):
        return torch.randint(low, high, shape, device=self.device, dtype=dtype, generator=self.generator)

    @property
    def matrix(self):
        return self(self.rows, self.columns)

    @property
    def vector(self):
        return self(self.columns)

    @property
    def images(self):
        """(16, channels, 32, 32) with as many numbers as the matrix."""
        return self(16, max(self.rows * self.columns >> 14, 8), 32, 32)


def nbytes(values):
    return sum(t.nbytes for t in values)


def every_byte_once(inputs, outputs):
    return nbytes(inputs) + nbytes(outputs)


@dataclasses.dataclass(frozen=True)
class Pattern:
    """function(*inputs(maker)) -> tensor or tuple.  ideal(inputs, outputs) -> bytes.

    differs(got, inputs) -> a line or None: how the result of random draws is checked; without it float64 is the judge.
    """

    function: Callable
    inputs: Callable
    ideal: Callable = every_byte_once
    differs: Callable | None = None


# --- the functions that do not fit into a line -------------------------------------------------------
def masked_softmax(x, mask):
    return F.softmax(x.masked_fill(mask, float("-inf")), -1)


def rms_norm(x, weight):
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6) * weight


def add_layer_norm(x, y, weight, bias):
    total = x + y
    return total, F.layer_norm(total, weight.shape, weight, bias)


def naive_attention(q, k, v):
    return F.softmax(q @ k.mT * q.shape[-1] ** -0.5, -1) @ v


def rotary(x, cos, sin):
    left, right = x.chunk(2, -1)
    return x * cos + torch.cat((-right, left), -1) * sin


def adam(weight, gradient, mean, square):
    mean = mean.lerp(gradient, 0.1)
    square = square * 0.999 + gradient * gradient * 0.001
    return weight - 1e-3 * (mean / 0.1) / ((square / 0.001).sqrt() + 1e-8), mean, square


def dequantize(x, scale, zero_point):
    return (x.to(scale.dtype) - zero_point) * scale


def tiny_operations(x):
    for number in range(50):
        x = torch.sin(x) * 1.01 + number
    return x


def dropout_add(x, y):
    return F.dropout(x, 0.5) + y


def dropout_differs(got, inputs):
    """Each place holds y, or 2x + y; the share of the kept is near one half."""
    (result,), (x, y) = got, inputs
    dropped, kept = (torch.isclose(result, e, rtol=1e-2, atol=1e-2) for e in (y, 2 * x + y))
    share, sure = (kept & ~dropped).sum() / (kept ^ dropped).sum(), 4 * x.numel() ** -0.5
    if not (dropped | kept).all():
        return "a place holds neither y nor 2x + y"
    return None if abs(share - 0.5) < 0.5 * sure else f"{share:.3f} of the places are kept"


def attention_inputs(m):
    heads, length = max(m.rows * m.columns >> 16, 2), 256 if m.columns > 64 else 16
    return tuple(m(heads, length, 64) for _ in range(3))


def rotary_inputs(m):
    length = max(m.columns // 4, 8)
    return m(max(m.rows * m.columns // length // 64, 1), length, 64), m(length, 64), m(length, 64)


def taken_rows(inputs, outputs):
    """Of a table only the rows that an index names: as many bytes as they have in the output."""
    table, index, *rest = inputs
    return nbytes([index, *rest]) + 2 * nbytes(outputs)


M = lambda *parts: lambda m: tuple(getattr(m, part) for part in parts)  # noqa: E731
row_index = lambda m: m.integers(m.rows, m.rows)  # noqa: E731

PATTERNS = {
    "relu_add_mul": Pattern(lambda x: x.relu().add(1).mul(2), M("matrix")),
    "gelu": Pattern(F.gelu, M("matrix")),
    "gelu_tanh": Pattern(lambda x: F.gelu(x, approximate="tanh"), M("matrix")),
    "swiglu": Pattern(lambda x, gate: F.silu(gate) * x, M("matrix", "matrix")),
    "softmax_rows": Pattern(lambda x: F.softmax(x, -1), M("matrix")),
    "softmax_columns": Pattern(lambda x: F.softmax(x, 0), M("matrix")),
    "masked_softmax": Pattern(masked_softmax, lambda m: (m.matrix, m.matrix > 1)),
    "logsumexp": Pattern(lambda x: torch.logsumexp(x, -1), M("matrix")),
    "layer_norm": Pattern(lambda x, w, b: F.layer_norm(x, w.shape, w, b), M("matrix", "vector", "vector")),
    "add_layer_norm": Pattern(add_layer_norm, M("matrix", "matrix", "vector", "vector")),
    "rms_norm": Pattern(rms_norm, M("matrix", "vector")),
    "group_norm_silu": Pattern(lambda x: F.silu(F.group_norm(x, 8)), M("images")),
    "batch_norm_relu": Pattern(lambda x: F.relu(F.batch_norm(x, None, None, training=True)), M("images")),
    "cross_entropy": Pattern(F.cross_entropy, lambda m: (m.matrix, m.integers(m.columns, m.rows))),
    "naive_attention": Pattern(naive_attention, attention_inputs),
    "rotary": Pattern(rotary, rotary_inputs),
    "adam": Pattern(adam, lambda m: (m.matrix, m.matrix, m.matrix, m.matrix.square())),
    "sum_rows": Pattern(lambda x: x.sum(1), M("matrix")),
    "sum_columns": Pattern(lambda x: x.sum(0), M("matrix")),
    "mean_rows": Pattern(lambda x: x.mean(1), M("matrix")),
    "mean_columns": Pattern(lambda x: x.mean(0), M("matrix")),
    "var_rows": Pattern(lambda x: x.var(1), M("matrix")),
    "var_columns": Pattern(lambda x: x.var(0), M("matrix")),
    "max_rows": Pattern(lambda x: x.max(1), M("matrix")),
    "max_columns": Pattern(lambda x: x.max(0), M("matrix")),
    "argmax_rows": Pattern(lambda x: x.argmax(1), M("matrix")),
    "argmax_columns": Pattern(lambda x: x.argmax(0), M("matrix")),
    "sum_all": Pattern(lambda x: x.sum(), M("matrix")),
    "cumsum": Pattern(lambda x: x.cumsum(-1), M("matrix")),
    "embedding_add": Pattern(
        lambda table, i, x: F.embedding(i, table) + x, lambda m: (m.matrix, row_index(m), m.matrix), taken_rows
    ),
    "transpose_add": Pattern(lambda x, y: x + y.mT, lambda m: (m.matrix, m(m.columns, m.rows))),
    "cat_pointwise": Pattern(lambda x, y: torch.cat((x, y), 1).relu() + 1, M("matrix", "matrix")),
    "pad_pointwise": Pattern(lambda x: F.pad(x, (1, 2, 3, 4)).relu() + 1, M("matrix")),
    "gather": Pattern(
        lambda x, i: torch.gather(x, 1, i) * 2,
        lambda m: (m.matrix, m.integers(m.columns, m.rows, m.columns // 2)),
        taken_rows,
    ),
    "index_add": Pattern(lambda x, i, y: x.index_add(0, i, y), lambda m: (m.matrix, row_index(m), m.matrix)),
    "dropout_add": Pattern(dropout_add, M("matrix", "matrix"), differs=dropout_differs),
    "matmul_bias_relu": Pattern(
        lambda x, w, b: torch.relu(x @ w + b),
        lambda m: (m.matrix, m(m.columns, m.columns), m.vector),
    ),
    "bilinear": Pattern(
        lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"),
        lambda m: (m(4, max(m.rows * m.columns >> 14, 4), 32, 32),),
    ),
    "int8_dequantize": Pattern(
        dequantize, lambda m: (m.integers(127, m.rows, m.columns, dtype=torch.int8, low=-128), m.vector, m.vector)
    ),
    "tiny_operations": Pattern(tiny_operations, lambda m: (m(64, 64),)),
}
