"""Views, reductions, indexing and windows against eager, by the IR interpreter and the C++ kernels."""

import functools

import pytest
import torch
import torch.nn.functional as F
from lowering_checks import BACKENDS, HALVES, check, inf, nan
from op_sweep import functional_graph, tensors

import minicompile
from minicompile import config, inductor, record

aten = torch.ops.aten
VIEWS = {
    "view": lambda x: x.view(4, 15, 2),
    "merge": lambda x: x.view(2, 60),
    "reshape copy": lambda x: x.transpose(0, 2).reshape(10, 12),
    "minus one": lambda x: x.view(-1, 5),
    "permute": lambda x: x.permute(2, 0, 3, 1),
    "expand": lambda x: x[:, :1].expand(2, 7, 4, 5),
    "slice": lambda x: x[:, 1:, ::2, -3:],
    "empty slice": lambda x: x[:, 3:1],
    "select": lambda x: x[1, -1],
    "unsqueeze": lambda x: x.unsqueeze(-1).unsqueeze(0),
    "squeeze": lambda x: x[:1, :, :1].squeeze(),
    "diagonal": lambda x: x.diagonal(1, 2, 3),
    "diagonal below": lambda x: x.diagonal(-1, -1, 0),
    "unfold": lambda x: x.unfold(3, 3, 2),
    "as_strided": lambda x: x.as_strided((3, 4), (7, 2), 5),
    "as_strided of a view": lambda x: x[1].as_strided((2, 3), (1, 4)),
    "flip": lambda x: x.flip(0, 3),
    "roll": lambda x: x.roll((1, -7), (0, 3)),
    "roll all": lambda x: x.roll(5),
    "repeat": lambda x: x.repeat(2, 1, 3, 1, 1),
    "tile": lambda x: x.tile((2, 2)),
    "repeat_interleave": lambda x: x.repeat_interleave(3, 1),
    "split": lambda x: x.split(2, 3),
    "chunk": lambda x: x.chunk(3, 1),
    "unbind": lambda x: x.unbind(2),
    "movedim": lambda x: x.movedim(0, -1),
    "bitcast": lambda x: x.view(torch.int32) + 1,
    "cat": lambda x: torch.cat([x, x[:, :, :1], x[:, :, 2:]], 2),
    "cat many": lambda x: torch.cat([x[:, :, :1]] * 11, 2),
    "cat types": lambda x: torch.cat([x, x.double(), x.int()], -1),
    "cat empty": lambda x: torch.cat([x.new_empty(0), x, x[:, :, :0]], 2),
    "stack": lambda x: torch.stack([x, x * 2], 2),
    "pad": lambda x: F.pad(x, (1, 2, -1, 3), value=7.0),
    "pad reflect": lambda x: F.pad(x, (1, 2, 0, 1), mode="reflect"),
    "pad circular": lambda x: F.pad(x, (1, 2, 0, 1), mode="circular"),
    "tril": lambda x: x.tril(1),
    "triu": lambda x: x.triu(-1),
    "slice_scatter": lambda x: x.slice_scatter(x[:, :, :2] * 2, 2, 0, 4, 2),
    "select_scatter": lambda x: x.select_scatter(x[0] * 2, 0, -1),
    "diagonal_scatter": lambda x: x.diagonal_scatter(torch.zeros(2, 3, 4), 1, 2, 3),
    "clone": lambda x: x.permute(0, 2, 3, 1).clone(memory_format=torch.contiguous_format),
    "channels_last": lambda x: (x * 2).contiguous(memory_format=torch.channels_last),
    "pixel_shuffle": lambda x: F.pixel_shuffle(x.reshape(1, 12, 2, 5), 2),
}


# Eager itself cannot view these, or its kernel gives other strides than its own meta function.
NOT_OF = {
    "contiguous": "",
    "channels_last": "view, merge, minus one, as_strided, bitcast, roll",
    "sliced": "view, merge, minus one, as_strided, as_strided of a view, slice_scatter, select_scatter, "
    "diagonal_scatter",
}


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("layout", ["contiguous", "channels_last", "sliced"])
def test_views(layout, backend):
    x = torch.randn(2, 3, 4, 5)
    cases = dict(VIEWS)
    if layout == "channels_last":
        x = x.contiguous(memory_format=torch.channels_last)
    elif layout == "sliced":
        x = torch.randn(2, 3, 4, 10)[..., ::2]
    for name in NOT_OF[layout].split(", "):
        cases.pop(name, None)
    computed = {f"{name} of a result": (lambda x, f=f: f(x * 2)) for name, f in cases.items()}
    check(cases | computed if layout == "contiguous" else cases, x, backend=backend, exact="all")


def test_views_of_nothing_and_of_one():
    cases = {
        "empty view": lambda e, s: e.view(3, 0, 2),
        "empty flip": lambda e, s: e.flip(0) + 1,
        "empty roll": lambda e, s: e.roll(1, 0),
        "empty cat": lambda e, s: torch.cat([e, e]),
        "empty sum": lambda e, s: (e.sum(0), e.sum(), e.prod(1), e.mean(1), e.any(), e.all(0)),
        "empty softmax": lambda e, s: F.softmax(e, 1),
        "empty index": lambda e, s: s.view(1)[torch.zeros(0, dtype=torch.long)],
        "scalar view": lambda e, s: s.view(1, 1).expand(2, 3),
        "scalar sum": lambda e, s: (s.sum(), s.amax(0), s.softmax(0), s.argmax(), s.cumsum(0)),
        "scalar squeeze": lambda e, s: s.squeeze().unsqueeze(0),
    }
    check(cases, torch.empty(0, 6), torch.tensor(2.5))


REDUCTIONS = {
    "sum": torch.sum,
    "mean": torch.mean,
    "amax": torch.amax,
    "amin": torch.amin,
    "var": torch.var,
    "logsumexp": torch.logsumexp,
    "norm": lambda x, dim, keepdim: torch.linalg.vector_norm(x, 2, dim, keepdim),
    "any": torch.any,
    "all": torch.all,
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, *HALVES], ids=str)
def test_reductions(dtype):
    cases = {
        f"{name} {dims} {keep}": (lambda x, f=f, d=dims, k=keep: f(x, d, keepdim=k))
        for name, f in REDUCTIONS.items()
        for dims in ((0,), (1, -1), (0, 1, 2))
        for keep in (False, True)
    }
    for name in ("argmax", "argmin", "max", "min", "prod"):
        for dim in (0, -1):
            cases[f"{name} {dim}"] = lambda x, f=getattr(torch, name), d=dim: tensors(f(x, d))
    cases |= {
        "max all": lambda x: torch.max(x),
        "argmin all": lambda x: x.argmin(),
        "sum type": lambda x: x.sum(dtype=torch.float64),
    }
    check(cases, torch.randn(5, 4, 7).to(dtype).transpose(0, 2))


def test_reductions_of_integers_and_nan():
    cases = {
        "sums": lambda i, b, x: (i.sum(0), b.sum(), b.sum(1), i.prod(1), i.sum(dtype=torch.float32), b.float().mean()),
        "extremes": lambda i, b, x: (
            i.amax(1),
            b.amax(0),
            i.max(1),
            i.argmin(0),
            b.any(1),
            i.all(),
            b.long().cumsum(1),
        ),
        "nan": lambda i, b, x: (
            x.amax(1),
            x.argmax(1),
            x.argmin(0),
            x.max(1),
            x.min(0),
            x.sum(1),
            x.any(1),
            x.cumsum(0),
        ),
        "ties": lambda i, b, x: (i.clamp(0, 1).argmax(1), i.clamp(0, 1).max(0)),
    }
    x = torch.randn(4, 6)
    x[1, 2] = x[1, 4] = nan
    x[2, 0] = inf
    check(cases, torch.randint(-5, 9, (4, 6)), torch.randn(4, 6) > 0, x)


INDEXING = {
    "one": lambda x, i, j, m: x[i],
    "second": lambda x, i, j, m: x[:, i],
    "both": lambda x, i, j, m: x[i, j],
    "apart": lambda x, i, j, m: x[i, :, j],
    "broadcast": lambda x, i, j, m: x[i.view(-1, 1), j],
    "with slice": lambda x, i, j, m: x[1:, None, i, ..., j],
    "two-dim": lambda x, i, j, m: x[:, i.view(2, 2)],
    "int32": lambda x, i, j, m: x[i.int()],
    "number": lambda x, i, j, m: x[1, i],
    "list": lambda x, i, j, m: x[[0, -1]],
    "index_select": lambda x, i, j, m: x.index_select(2, i.abs()),
    "take": lambda x, i, j, m: x.take(i * 7),
    "gather": lambda x, i, j, m: x.gather(1, i.abs().view(1, 4, 1).expand(2, 4, 2)),
    "embedding": lambda x, i, j, m: F.embedding(i.abs(), x[0], padding_idx=1),
    "masked_fill": lambda x, i, j, m: x.masked_fill(m, -1.0),
    "mask put": lambda x, i, j, m: x.index_put((m,), torch.tensor(3.0)),
    "put": lambda x, i, j, m: x.index_put((i, j), torch.ones(4, 3)),
    "put none": lambda x, i, j, m: torch.ops.aten.index_put(x, [None, i], torch.ones(4, 3)),
    "accumulate": lambda x, i, j, m: x.index_put((i.view(-1, 1), j), torch.tensor(1.0), accumulate=True),
    "index_add": lambda x, i, j, m: x.index_add(1, i.abs(), torch.ones(3, 4, 3), alpha=2.0),
    "index_copy": lambda x, i, j, m: x.index_copy(0, i.abs()[:2], torch.ones(2, 3, 3)),
    "index_fill": lambda x, i, j, m: x.index_fill(2, i.abs(), 5.0),
    "scatter": lambda x, i, j, m: x.scatter(0, i.abs().view(1, 2, 2), 4.0),
    "scatter_add": lambda x, i, j, m: x.scatter_add(2, i.abs().view(2, 2, 1).expand(2, 2, 3), x),
    "scatter_reduce": lambda x, i, j, m: x.scatter_reduce(1, i.abs().view(1, 4, 1), x[:1, :1].expand(1, 4, 3), "amax"),
    "scatter_mean": lambda x, i, j, m: x.scatter_reduce(1, i.abs().view(1, 4, 1), x[:1, :1].expand(1, 4, 3), "mean"),
    "one_hot": lambda x, i, j, m: F.one_hot(i.abs(), 4),
    "isin": lambda x, i, j, m: torch.isin(i, j),
}


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_indexing(dtype, backend):
    i, j = torch.tensor([0, -1, 2, 1]), torch.tensor([1, 2, -3, 0])
    cases = {n: (lambda x, i, j, m, f=f: f(x, i, j, m)) for n, f in INDEXING.items()}
    if dtype != torch.float32:
        cases = {n: f for n, f in cases.items() if n in ("one", "apart", "gather", "masked_fill", "scatter", "take")}
    check(cases, torch.randn(3, 3, 3).to(dtype), i, j, torch.randn(3, 3, 3) > 0, backend=backend)


BAD = {
    "index": lambda x, i: x[i],
    "embedding": lambda x, i: F.embedding(i, x),
    "gather": lambda x, i: x.gather(0, i.view(1, -1)),
    "index_select": lambda x, i: x.index_select(0, i),
    "take": lambda x, i: x.take(i),
    "scatter": lambda x, i: x.scatter(0, i.view(1, -1), 1.0),
    "index_put": lambda x, i: x.index_put((i,), torch.zeros(2, 4)),
    "division": lambda x, i: i // (i - i),
}


# In these no value depends on the index.
BAD_THOUGH_UNSEEN = {
    "constant": lambda x, i: torch.full((3, 4), 2.0)[i] + 1,
    "expanded": lambda x, i: x[:1].expand(3, 4).gather(0, i.view(1, -1)),
    "0-d": lambda x, i: x[0, 0].take(i),
    "one class": lambda x, i: F.cross_entropy(x[:2, :1], i, reduction="none"),
    "no columns": lambda x, i: x[:, :0].index_select(0, i),
    "no rows": lambda x, i: x[:0][i],
    "no rows, gather": lambda x, i: x[:0].gather(0, i.view(1, -1)),
    "no rows, scatter": lambda x, i: x[:0].scatter(0, i.view(1, -1), 1.0),
    "no rows, put": lambda x, i: x[:0].index_put((i,), torch.ones(())),
    "no rows, select": lambda x, i: x[:0].index_select(1, i),
}


@pytest.mark.graph_errors
@pytest.mark.parametrize("name", BAD_THOUGH_UNSEEN)
def test_bad_values_raise_where_no_value_depends_on_them(name):
    x, bad, function = torch.randn(3, 4), torch.tensor([0, 77]), BAD_THOUGH_UNSEEN[name]
    outcomes = []
    for call in (function, minicompile.compile(function)):
        with pytest.raises((IndexError, RuntimeError)) as caught:
            call(x, bad)
        outcomes.append((caught.type, str(caught.value)))
    assert outcomes[0] == outcomes[1]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", BAD)
def test_bad_values_raise_as_in_eager(name, backend):
    """An index out of range and an integer division by zero raise what eager raises."""
    x, function = torch.randn(3, 4), BAD[name]
    good, bad = torch.tensor([0, 1]), torch.tensor([0, 77])
    with pytest.raises((IndexError, RuntimeError)) as expected:
        function(x, bad)
    with config.patch(cpu_backend=backend):
        call = inductor.compile(functional_graph(lambda *v: [function(*v)], (x, good)), (x, good))
    with pytest.raises((IndexError, RuntimeError)) as actual:
        call(x, bad)
    assert actual.type is expected.type
    assert str(actual.value).split("\n")[0] == str(expected.value).split("\n")[0]


WINDOWS = {
    "max": lambda x: F.max_pool2d(x, 3, 2, 1, return_indices=True),
    "max ceil": lambda x: F.max_pool2d(x, 2, ceil_mode=True, return_indices=True),
    "max dilated": lambda x: F.max_pool2d(x, 2, 1, dilation=2, return_indices=True),
    "max big": lambda x: F.max_pool2d(x, 6, return_indices=True),
    "average": lambda x: F.avg_pool2d(x, 2),
    "average padded": lambda x: F.avg_pool2d(x, 3, 2, 1),
    "average inside": lambda x: F.avg_pool2d(x, 3, 2, 1, count_include_pad=False),
    "average ceil": lambda x: F.avg_pool2d(x, (2, 3), ceil_mode=True),
    "average divisor": lambda x: F.avg_pool2d(x, 2, divisor_override=3),
    "adaptive": lambda x: F.adaptive_avg_pool2d(x, (4, 2)),
    "adaptive odd": lambda x: F.adaptive_avg_pool2d(x, 3),
    "global": lambda x: F.adaptive_avg_pool2d(x, 1),
    "nearest": lambda x: F.interpolate(x, scale_factor=2),
    "nearest thrice": lambda x: F.interpolate(x, scale_factor=3),
    "nearest odd": lambda x: F.interpolate(x, size=(11, 3)),
    "nearest scale": lambda x: F.interpolate(x, scale_factor=1.7),
    "exact": lambda x: F.interpolate(x, size=(5, 13), mode="nearest-exact"),
    "bilinear": lambda x: F.interpolate(x, size=(5, 13), mode="bilinear"),
    "bilinear corners": lambda x: F.interpolate(x, scale_factor=2, mode="bilinear", align_corners=True),
}


@pytest.mark.parametrize("backend", BACKENDS)
def test_windows(backend):
    check(WINDOWS, torch.randn(2, 3, 8, 6).round(decimals=1), backend=backend)


RESIZED = {
    "linear": ((2, 3, 47), {"size": 101}),
    "bilinear": ((2, 3, 33, 47), {"scale_factor": 2.7}),
    "trilinear": ((1, 2, 9, 8, 47), {"size": (20, 19, 101), "align_corners": True}),
}


@pytest.mark.parametrize("mode", RESIZED)
def test_linear_resizing_is_as_exact_as_eagers(mode):
    shape, how = RESIZED[mode]
    x = torch.randn(shape)
    resize = functools.partial(F.interpolate, mode=mode, **how)
    eager, exact, ours = resize(x), resize(x.double()), minicompile.compile(resize)(x)
    assert (ours - exact).abs().mean() <= 1.1 * (eager - exact).abs().mean()
    assert (ours - exact).abs().max() <= 1.5 * (eager - exact).abs().max()


@pytest.mark.parametrize("name", [n for n in WINDOWS if n != "exact"])
def test_windows_backward(name):
    def gradient(x):
        out = tensors(WINDOWS[name](x))[0]
        weight = (torch.arange(out.numel()) % 5 + 1.0).view(out.shape)
        return torch.autograd.grad((out * weight).sum(), x)[0]

    check({name: gradient}, torch.randn(2, 3, 8, 6).round(decimals=1).requires_grad_())


PLACES, MASK = torch.tensor([3, -1, 0, 2]), torch.tensor([True, False, True, True])
SELDOM = {  # operators that mostly come from rules for other operators
    "index_copy": lambda x: x.index_copy(0, torch.tensor([2, 0]), x[:2] * 2),
    "index_copy at a number": lambda x: x.index_copy(0, torch.tensor(1), x[:1] * 2),
    "embedding backward": lambda x: aten.embedding_dense_backward(x, PLACES.abs(), 5, 1, False),
    "embedding backward, all rows": lambda x: aten.embedding_dense_backward(x, PLACES.abs(), 5, -1, False),
    "masked index": lambda x: aten._unsafe_masked_index(x, MASK[:, None], [PLACES], 7.0),
    "masked put": lambda x: aten._unsafe_masked_index_put_accumulate(x, MASK[:, None], [PLACES], x * 2),
    "nearest backward": lambda x: aten.upsample_nearest2d_backward(x.view(1, 1, 4, 6), [4, 6], [1, 1, 2, 3]),
    "nearest backward, odd": lambda x: aten.upsample_nearest2d_backward(x.view(1, 1, 4, 6), [4, 6], [1, 1, 3, 4]),
    "adaptive backward": lambda x: aten._adaptive_avg_pool2d_backward(x.view(1, 1, 4, 6), x.new_zeros(1, 1, 8, 6)),
    "angle": torch.angle,
    "copy": lambda x: aten.copy(x, x[:1] + 1),
    "bits of halves": lambda x: x.view(torch.int16),
    "roll twice": lambda x: x.roll((1, 2), (0, 0)),
    "as_strided of rows": lambda x: x[:, ::2].as_strided((2, 3), (6, 2), 1),
    "scatter a number": lambda x: x.scatter(0, PLACES.abs()[None, :], 0.1, reduce="multiply"),
    "where of numbers": lambda x: torch.where(x > 0, 2.5, 1.0),
    "where and a number": lambda x: torch.where(x > 0, x, 1),
    "masked_fill by a tensor": lambda x: x.masked_fill(x > 0, x.new_tensor(2.5)),
    "clamp by a column": lambda x: x.clamp(x[:, :1] - 1, x[:, :1]),
}


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_what_comes_seldom(dtype, backend):
    check(SELDOM, torch.randn(4, 6).to(dtype), backend=backend)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64, torch.bool])
def test_running_extremes_take_the_latest(dtype, backend):
    x = torch.tensor([1.0, 1.0, 0.0, -0.0, 3.0, 2.0, 3.0, nan, 5.0, nan, inf])
    x = x if dtype.is_floating_point else x.nan_to_num(4, 7)
    x = torch.stack([x.roll(k) for k in range(7)]).to(dtype)
    cases = {
        "max of columns": lambda x: torch.cummax(x, 0),
        "max of rows": lambda x: torch.cummax(x, 1),
        "min, transposed": lambda x: torch.cummin(x.t(), 0),
        "min of every other": lambda x: torch.cummin(x[:, ::2], -1),
        "a number": lambda x: torch.cummax(x[0, 0], 0),
        "nothing": lambda x: torch.cummin(x[:0], 1),
    }
    check(cases, x, backend=backend, exact="all")
    assert not record.counters["fallbacks"]
