"""Random numbers that kernels compute, as on a GPU: here through Triton's interpreter, and compiled for GPUs."""

import pytest
import torch
import torch.nn.functional as F

pytest.importorskip("triton")

from patterns import aten_graph  # noqa: E402

import minicompile  # noqa: E402
from minicompile import config, inductor, philox, record  # noqa: E402
from minicompile.inductor.codegen import triton  # noqa: E402


@pytest.fixture
def in_kernel(monkeypatch):
    """As if CPU tensors were on a GPU."""
    monkeypatch.setattr(philox, "in_kernel", lambda device: not config.fallback_random)
    with config.patch(cpu_backend="triton"):
        yield


def compiled(function, seed=None, **options):
    call = minicompile.compile(function, **options)

    def run(*args):
        if seed is not None:
            torch.manual_seed(seed)
        return call(*args)

    return run


def kernels():
    return [source for entry in record.compilations for source in entry.artifacts("codegen")]


@pytest.mark.parametrize(
    "counter, key, want",
    [
        ((0, 0), 0, (0xFF1DAE59, 0x6CD10DF2)),
        ((0xFFFFFFFF, 0xFFFFFFFF), 0xFFFFFFFF, (0x2C3F628B, 0xAB4FD7AD)),
        ((0x243F6A88, 0x85A308D3), 0x13198A2E, (0xDD7CE038, 0xF62A4C12)),
    ],
)
def test_known_answers(counter, key, want):
    """Those that the authors of Philox publish."""
    seed = torch.tensor((counter[1] - (1 << 32 if counter[1] >> 31 else 0)) * 2**32 + key)
    assert tuple(w.item() for w in philox.words(seed, torch.tensor(counter[0]))) == want


@pytest.mark.parametrize("first", [0, 2**31 - 3, 2**32 - 2, 5 * 2**40], ids=str)
def test_kernels_compute_the_same_bits(first):
    seeds = torch.tensor([0, -1, 1 << 40, -(2**63), 2**63 - 1, 12345678901234567])

    def draw(seed, i):
        return [torch.stack([torch.ops.minicompile.uniform(s, [6], w) for s in seed.unbind()]) for w in (0, 1, None)]

    graph = aten_graph(draw, seeds, seeds)
    with config.patch(cpu_backend="triton"):
        got = inductor.compile(graph, [seeds, seeds])(seeds, seeds)
    for result, word in zip(got, (0, 1, None), strict=True):
        assert torch.equal(result, philox.uniform_at(seeds[:, None], torch.arange(6), word))
    pairs = philox.uniform_at(seeds[:, None], torch.arange(first - first % 2, first + 6))[:, first % 2 :]
    assert len(pairs.unique()) == 36 and (pairs >= 0).all() and (pairs < 1).all()


@pytest.mark.parametrize("dtype, p", [(torch.float32, 0.25), (torch.bfloat16, 0.1), (torch.float16, 0.1)], ids=str)
@pytest.mark.parametrize("form", ["contiguous", "channels_last", "transposed"])
def test_forward_and_backward_agree(dtype, p, form, in_kernel):
    x = torch.rand(4, 6, 20, 20) + 0.5
    x = x.to(memory_format=torch.channels_last) if form == "channels_last" else x
    x = x.transpose(0, 3) if form == "transposed" else x
    x = x.to(dtype).requires_grad_()
    call = compiled(lambda x: F.dropout(x, p), seed=1)
    y = call(x)
    y.backward(torch.ones_like(y))
    assert y.stride() == F.dropout(x, p).stride() and x.grad.stride() == x.stride()
    kept = y != 0
    factor = torch.tensor(1 / (1 - p), dtype=torch.float32)
    assert torch.equal(y, torch.where(kept, (x.float() * factor).to(dtype), 0))
    assert torch.equal(x.grad, torch.where(kept, factor.to(dtype), 0))
    assert abs(kept.double().mean() - (1 - p)) < 4 * (p * (1 - p) / x.numel()) ** 0.5
    forward, backward = kernels()
    assert forward.kernels.count("rt.uniform") == backward.kernels.count("rt.uniform") == 1
    assert "native_dropout" not in forward.python + backward.python


def test_the_seed_is_saved_and_not_the_mask(in_kernel):
    def model(x):
        return F.dropout(F.dropout(x, 0.5) + 1, 0.1).sin()

    minicompile.compile(model)(torch.randn(64, 64, requires_grad=True)).sum().backward()
    (traced,) = [a for entry in record.compilations for a in entry.artifacts("aot")]
    seeds = [saved.bytes for saved in traced.saved if saved.dtype == torch.int64]
    assert seeds == [8, 8] and not any(saved.dtype == torch.bool for saved in traced.saved)


def test_manual_seed_rules_and_calls_differ(in_kernel):
    x = torch.ones(50, 50)
    call = minicompile.compile(lambda x: (F.dropout(x, 0.5), F.dropout(x, 0.5)))
    torch.manual_seed(7)
    first, second = call(x), call(x)
    torch.manual_seed(7)
    again = call(x)
    assert all(map(torch.equal, first, again))
    results = [*first, *second]
    for k, a in enumerate(results):
        for b in results[:k]:
            assert 0.4 < (a == b).double().mean() < 0.6
    assert kernels()[0].python.count("seeds(2, ") == 1  # one draw for all


def test_draws_look_random(in_kernel):
    x = torch.empty(200, 500)
    call = compiled(lambda x: (torch.rand_like(x), torch.randn_like(x), torch.rand(200, 500)), seed=3)
    for uniform in (call(x)[0], call(x)[2]):
        got = uniform.double().flatten()
        assert abs(got.mean() - 0.5) < 4 * (1 / 12 / len(got)) ** 0.5 and abs(got.var() - 1 / 12) < 1e-3
        steps = torch.arange(1, len(got) + 1) / len(got)
        assert (got.sort().values - steps).abs().max() < 1.95 / len(got) ** 0.5  # Kolmogorov and Smirnov, 0.1 %
        for lag in (1, 2, 4, 500):
            assert abs(torch.corrcoef(torch.stack([got[lag:], got[:-lag]]))[0, 1]) < 4 / len(got) ** 0.5
    normal = call(x)[1].double().flatten()
    share = [(normal.abs() < k).double().mean().item() for k in (1, 2, 3)]
    assert share == pytest.approx([0.6827, 0.9545, 0.9973], abs=6e-3)
    assert abs(normal.mean()) < 4 / len(normal) ** 0.5 and abs((normal**3).mean()) < 0.05


def test_other_draws(in_kernel):
    x = torch.empty(100, 100)

    def draws(x):
        half = torch.rand_like(x, dtype=torch.bfloat16)
        return half, torch.bernoulli(x, 0.3), F.dropout(x.new_ones(3), 1.0), torch.rand(3, dtype=torch.float64)

    half, coin, nothing, double = compiled(draws, seed=0)(x)
    assert half.dtype == torch.bfloat16 and half.max() < 1 and half.float().mean() == pytest.approx(0.5, abs=0.02)
    assert set(coin.unique().tolist()) == {0.0, 1.0} and coin.mean() == pytest.approx(0.3, abs=0.02)
    assert nothing.tolist() == [0, 0, 0] and double.dtype == torch.float64


@pytest.mark.parametrize("size", [(40, 64), (40, 63), (300, 2), (2, 3000), (5, 1), (1, 1)], ids=str)
def test_every_tile_draws_the_same(size, in_kernel):
    """Pairs lie along rows, along columns, or cross from one row to the next."""

    def draw(x):
        kept = F.dropout(x, 0.5)
        return kept, kept.sum(0), kept.sum(1), kept.t() + 1, kept.sum()

    kept, down, along, turned, total = minicompile.compile(draw)(torch.ones(size))
    assert 0.3 < (kept != 0).float().mean() < 0.7 or kept.numel() < 100
    assert torch.equal(turned, kept.t() + 1)
    assert torch.equal(down, kept.sum(0)) and torch.equal(along, kept.sum(1)) and torch.equal(total, kept.sum())


def test_sizes_that_change(in_kernel):
    call = minicompile.compile(lambda x: F.dropout(x, 0.5), dynamic=True)
    for n in (5, 40, 300):
        x = torch.rand(n, 7, requires_grad=True) + 0.5
        x.retain_grad()
        y = call(x)
        y.sum().backward()
        assert torch.equal(y != 0, x.grad != 0) and (n < 10 or 0.3 < (y != 0).float().mean() < 0.7)


def test_fallback_random_draws_what_eager_draws(in_kernel):
    def draw(x):
        return F.dropout(x, 0.5), torch.rand_like(x), torch.randn(3)

    x = torch.randn(30, 30)
    call = compiled(draw, seed=2, options={"fallback_random": True})
    got = call(x)
    torch.manual_seed(2)
    assert all(map(torch.equal, got, draw(x)))


@pytest.mark.parametrize("capability", [80, 90])
def test_dropout_compiles_for_gpus(capability, in_kernel):
    x = torch.empty(1 << 10, 1 << 10, dtype=torch.bfloat16)
    graph = aten_graph(lambda x, y: torch.ops.aten.native_dropout(x, 0.5, True)[0] + y, x, x)
    source = inductor.codegen(inductor.schedule(triton.on_device(inductor.lower(graph, [x, x]))), "triton")
    (compiled,) = triton.compile_for(source, capability).values()
    ptx = compiled.asm["ptx"]
    assert "ld.global.v4" in ptx and "st.global.v4" in ptx
    wide = ptx.count("mul.wide.u32") + ptx.count("mul.hi.u32")
    assert 30 < wide <= 40  # ten rounds for eight elements, which are four pairs, in 32 bits
