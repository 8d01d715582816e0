"""One walk finds two reductions: an extreme with its place, along columns a maximum with the sum of a softmax."""

import math

import pytest
import torch
import torch.nn.functional as F
from patterns import aten_graph

from minicompile import inductor

SHAPES = [(9, 257), (5, 1000), (3, 4166), (40, 70), (300, 600), (4099, 48)]
DTYPES = [torch.float32, torch.float64, torch.bfloat16, torch.int8, torch.int32, torch.int64]


def compiled(function, *inputs):
    return inductor.compile(aten_graph(function, *inputs), inputs)


def places(x):
    return *x.max(0), *x.max(1), *x.min(0), *x.min(1), x.argmax(0), x.argmin(1), x.argmax()


def equal(got, wanted):
    return all(torch.equal(a.nan_to_num(123.0), b.nan_to_num(123.0)) for a, b in zip(got, wanted, strict=True))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_the_first_of_equal_extremes_wins(shape, dtype):
    """Few values: most extremes are there several times, in other lanes, blocks of rows and parts of threads."""
    x = torch.randint(-3, 4, shape, generator=torch.Generator().manual_seed(shape[0])).to(dtype)
    lowest, highest = (-math.inf, math.inf) if dtype.is_floating_point else (torch.iinfo(dtype).min, 5)
    x[1], x[:, 2], x[2, -1], x[-1, 3] = lowest, lowest, highest, highest
    assert equal(compiled(places, x)(x), places(x))


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_the_first_nan_is_the_extreme(shape):
    x = torch.randn(shape, generator=torch.Generator().manual_seed(shape[1]))
    x[0, -1] = x[1, 0] = x[1, 30] = x[-1, 7] = x[2, 7] = math.nan
    x[0, 0] = x[:, 5] = math.inf
    x[:, 6] = -math.inf
    x[:, 8], x[1::2, 8] = 0.0, -0.0
    x[2] = math.nan
    assert equal(compiled(places, x)(x), places(x))


def test_pairs_share_a_walk():
    x = torch.randn(400, 512)
    assert compiled(lambda x: tuple(x.max(1)), x).source.kernels.count("r0_lanes += 64") == 1
    kernels = compiled(lambda x: F.softmax(x, 0), torch.randn(5000, 300))
    text = kernels.source.kernels.removeprefix(kernels.source.prelude)
    assert text.count("block += 32") == 1 and "m_peak" in text


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
@pytest.mark.parametrize("shape", [(5, 40), (64, 300), (1000, 70), (4099, 300), (2, 5000, 20)], ids=str)
def test_softmax_along_columns(shape, dtype):
    """Where the maximum moves with every block, where it never does, and where there is nothing but -inf."""
    x = torch.randn(shape, generator=torch.Generator().manual_seed(shape[0])) * 5
    x[..., 0] = torch.arange(shape[-2]) * 0.5
    x[..., 1] = -torch.arange(shape[-2]) * 0.5
    x[..., 2], x[..., :-1, 3], x[..., 1:, 4] = -math.inf, -math.inf, -math.inf
    x[..., 0, 5], x[..., -1, 6], x[..., 1, 7], x[..., 8] = math.inf, math.inf, math.nan, 1e4
    x = x.to(dtype)

    def functions(x):
        return F.softmax(x, -2), F.log_softmax(x, -2), F.softmax(x + 1, -2).sum(-1)

    for got, wanted, exact in zip(compiled(functions, x)(x), functions(x), functions(x.double()), strict=True):
        assert torch.equal(got.isnan(), wanted.isnan())
        off, eager = ((t.double() - exact).nan_to_num(0, 0, 0).abs().max() for t in (got, wanted))
        assert off <= 3 * eager + torch.finfo(dtype).eps * (32 if dtype == torch.float64 else 1), (off, eager)


@pytest.mark.parametrize("dim", [0, 1])
def test_variances_are_as_exact_as_eagers(dim):
    """One pass, of distances to the first element: which may lie far from the others, and these far from zero."""
    x = torch.randn(300, 600, generator=torch.Generator().manual_seed(0))
    x = x if dim else x.T.contiguous()
    rows = x if dim else x.T
    rows[1] += 1e6
    rows[2, 0], rows[3], rows[4] = 1e8, 3.0, 1e-25 * rows[4]
    rows[5], rows[6, 0], rows[7, 9], rows[8, 0] = 1e30 * rows[5], math.nan, math.nan, math.nan

    def functions(x):
        return (
            *torch.var_mean(x, dim),
            x.std(dim, correction=0),
            x[:1, :1].var(dim),
            torch.where(x < 2.9, x, math.inf).var(dim),
        )

    for got, wanted, exact in zip(compiled(functions, x)(x), functions(x), functions(x.double()), strict=True):
        finite = wanted.isfinite()
        assert torch.equal(got[~finite].nan_to_num(7.0), wanted[~finite].nan_to_num(7.0))
        torch.testing.assert_close(got[finite], exact[finite].float(), rtol=2e-7, atol=1e-44)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("length", [1, 2, 40, 1000])
def test_means_beside_variances_of_infinite_rows(length, dtype):
    """Eager updates the mean with each element: inf - inf is NaN as soon as there is another one."""
    x = torch.linspace(-1, 1, length).expand(9, length).clone().to(dtype)
    for row, (place, number) in enumerate([(p, n) for p in (0, length // 2, -1) for n in (math.inf, -math.inf)]):
        x[row, place] = number
    x[6, length // 3] = x[7, 0] = x[8, -1] = math.nan
    x[7, -1] = math.inf

    def functions(x, y):
        along = ((x, 1), (y, 0))
        return [part for t, d in along for f in (torch.var_mean, torch.std_mean) for part in f(t, d, correction=0)]

    parts = x, x.T.contiguous()
    for got, wanted in zip(compiled(functions, *parts)(*parts), functions(*parts), strict=True):
        torch.testing.assert_close(got, wanted, equal_nan=True)
