"""Triton: mean and variance in one walk over the rows: where the kernel is looped, and where programs share a row."""

import pytest
import torch
import torch.nn.functional as F

pytest.importorskip("triton")

from patterns import aten_graph  # noqa: E402
from test_triton import bounds, check, source_of, tiles  # noqa: E402, F401 (a fixture)

from minicompile import inductor  # noqa: E402
from minicompile.inductor import online  # noqa: E402
from minicompile.inductor.codegen import triton  # noqa: E402
from minicompile.inductor.scheduler import levels  # noqa: E402

FORMS = {  # what a kernel's text has -> sizes of tiles
    "persistent": {},
    "looped": {"INTERPRETED": 128, "PERSISTENT": 64, "PERSISTENT_PASSES": 64, "PARTS": 1},
    "_parts(": {"INTERPRETED": 128, "PERSISTENT": 64, "PERSISTENT_PASSES": 64},
}


def statistics(x):
    """Mean and 1 / std of channels, in float32 as eager takes them on a GPU."""
    return torch.ops.aten._native_batch_norm_legit.no_stats(x, None, None, True, 0.1, 0.0)[1:]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("shape", [(4, 3, 1024), (5, 2, 1037), (1, 2, 129)], ids=str)
def test_moments_of_numbers_far_from_zero(form, shape, monkeypatch, bounds):  # noqa: F811
    x = torch.randn(shape) + 1e4
    x[:, 0] -= 2e4
    with tiles(monkeypatch, **FORMS[form]):
        source = source_of(statistics, x)
        mean, scale = inductor.load(source)(x)
    found = "for r_start" in source.kernels, "_parts(" in source.kernels, "spread_step" in source.kernels
    long = shape != (1, 2, 129)  # a row of two blocks is not shared
    assert found == (form != "persistent", form == "_parts(" and long, form != "persistent")
    want = statistics(x.double())
    torch.testing.assert_close(mean.double(), want[0], rtol=3e-7, atol=0)
    torch.testing.assert_close(scale.double(), want[1], rtol=1e-4, atol=0)
    assert scale[0] != scale[1]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64], ids=str)
def test_variances_of_rows_columns_and_everything(form, dtype, monkeypatch, bounds):  # noqa: F811
    x = torch.randn(6, 1003).to(dtype)
    with tiles(monkeypatch, **FORMS[form]):
        check(lambda x: (*torch.var_mean(x, 1), x.std(0), x.var(), x.var(1, correction=0)), x)
        check(lambda x: F.layer_norm(x, (1003,)), x)
        check(lambda x: F.batch_norm(x[None], None, None, training=True), x)


@pytest.mark.parametrize("value", [float("inf"), float("nan"), 3.0])
def test_a_row_that_is_not_finite_or_constant(value, monkeypatch, bounds):  # noqa: F811
    x = torch.randn(3, 1000)
    x[0, 700], x[1] = value, 3.0
    for form in ("looped", "_parts("):
        with tiles(monkeypatch, **FORMS[form]):
            check(lambda x: x.var(1), x)


def test_what_is_no_variance_is_walked_twice(monkeypatch, bounds):  # noqa: F811
    """Another divisor, other numbers, a sum that is a partner itself: each reads its rows again."""

    def chained(x):
        e = (x - x.amax(1, keepdim=True)).exp()
        return (e - e.sum(1, keepdim=True) / 1000).square().sum(1)

    functions = (
        lambda x: (x - x.sum(1, keepdim=True) / 999).square().sum(1),
        lambda x: (x - x.abs().mean(1, keepdim=True)).square().sum(1),
        chained,
    )
    x = torch.randn(6, 1000)
    with tiles(monkeypatch, **FORMS["looped"]):
        for function in functions:
            assert "spread_step" not in source_of(function, x).kernels
            check(function, x)
        assert "spread_step" in source_of(lambda x: (x - x.mean(1, keepdim=True)).square().sum(1), x).kernels


@pytest.mark.parametrize("shape", [(16, 64, 128, 128), (16, 2048, 32, 32)], ids=str)
def test_batch_norm_reads_its_input_twice_or_once(shape):
    x = torch.empty(shape, dtype=torch.bfloat16, device="meta")
    graph = inductor.lower(aten_graph(lambda x: F.batch_norm(x, None, None, training=True).relu(), x), [x])
    source = inductor.codegen(inductor.schedule(triton.on_device(graph)), "triton")
    assert source.kernels.count("tl.load(in0") == (2 if shape[1] == 64 else 1)


@pytest.mark.parametrize("square", [lambda d: d * d, torch.square, lambda d: d**2])
def test_partners_are_found_however_the_square_is_written(square):
    x = torch.randn(6, 1000)
    graph = inductor.lower(aten_graph(lambda x: square(x - x.mean(1, keepdim=True)).sum(1), x), [x])
    assert any(online.partners(g.nodes, levels(g.nodes)) for g in inductor.schedule(graph).groups)
