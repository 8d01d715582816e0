"""What is not in the text of Triton kernels: loads of the same number by every thread, casts that change nothing."""

import re

import pytest
import torch
import torch.nn.functional as F

pytest.importorskip("triton")

from patterns import aten_graph  # noqa: E402
from test_triton import bounds, check, source_of, tiles  # noqa: E402, F401 (a fixture)

from minicompile import config, inductor  # noqa: E402
from minicompile.inductor.codegen import triton  # noqa: E402


def cat(x, y):
    return torch.cat((x, y), 1).relu() * y[:, :1]


UNIFORM = {  # name -> function, sizes of inputs
    "channels": (lambda x, a, b: (x * a[:, None, None] + b[:, None, None]).sin(), [(4, 16, 8, 8), (16,), (16,)]),
    "images": (lambda x, a: x / a[:, None, None, None], [(4, 16, 8, 8), (4,)]),
    "expanded": (lambda a: a[:, None].expand(8, 128).exp(), [(8,)]),
    "transposed": (lambda x, a: x.mT + a[:, None, None], [(4, 64, 64), (4,)]),
    "normalized": (lambda x: F.silu(F.group_norm(x, 4)), [(4, 16, 8, 8)]),
    "masked": (cat, [(4, 16, 8, 8), (4, 16, 8, 8)]),
    "gathered": (lambda x, a: x * a.argsort()[:, None] + a[a.argsort()][:, None], [(8, 128), (8,)]),
}


@pytest.mark.parametrize("name", UNIFORM)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_numbers_that_are_the_same_in_a_block(name, dtype, monkeypatch, bounds):  # noqa: F811
    function, sizes = UNIFORM[name]
    inputs = [torch.randn(size).to(dtype) for size in sizes]
    with tiles(monkeypatch, INTERPRETED=64, PERSISTENT=8, PERSISTENT_PASSES=8):
        check(function, *inputs)
        if name in ("channels", "images", "expanded"):
            assert "= tl.program_id(0)" in source_of(function, *inputs).kernels


@pytest.mark.parametrize("capability", [80, 90])
def test_a_channels_statistics_are_loaded_once_for_a_block(capability):
    x, a = torch.empty(16, 64, 64, 64, device="meta"), torch.empty(64, device="meta")
    graph = inductor.lower(aten_graph(lambda x, a: x * a[:, None, None], x, a), [x, a])
    (compiled,) = triton.compile_for(
        inductor.codegen(inductor.schedule(triton.on_device(graph)), "triton"), capability
    ).values()
    ptx = compiled.asm["ptx"]
    assert ptx.count("ld.global.v4") == 2 and ptx.count("ld.global.b32") <= 1


@pytest.mark.parametrize("emulate", [False, True])
def test_half_values_are_float32_already(emulate):
    x = torch.randn(30, 40).bfloat16()
    functions = (lambda x: x.float().sin().to(x.dtype), lambda x: F.softmax(x, -1), lambda x: (x + x.float()).mean())
    with config.patch(emulate_precision_casts=emulate):
        for function in functions:
            text = source_of(function, x).kernels
            assert "rt.to_float" in text and not re.search(r"rt\.cast\(\w+, tl\.float32\)", text)
            check(function, x)


def test_a_kernel_on_a_gpu_has_few_sums_over_long_columns():
    """A weight that twelve layers share: one kernel for all sums would keep its accumulators in slow memory."""
    layers = [torch.empty(4096, 64) for _ in range(12)]
    graph = inductor.lower(aten_graph(lambda *xs: sum(x.sum(0) for x in xs), *layers), layers)
    sums = [sum(n.is_reduction for n in g.nodes) for g in inductor.schedule(triton.on_device(graph)).groups]
    assert sum(sums) == 12 and max(sums) == 4
    assert len(inductor.schedule(graph).groups) < len(sums)


@pytest.mark.parametrize("capability", [80, 90])
def test_columns_of_a_softmax_are_read_once(capability):
    """Each program holds 16 of them, as many neighbours as 64 bytes have; longer ones are read twice."""
    for length, walks in ((512, 0), (2048, 0), (4096, 2)):
        x = torch.empty(16, length, 1024, device="meta")
        graph = inductor.lower(aten_graph(lambda x: F.softmax(x, 1), x), [x])
        source = inductor.codegen(inductor.schedule(triton.on_device(graph)), "triton")
        assert source.kernels.count("for r_start in") == walks
        (compiled,) = triton.compile_for(source, capability).values()
        assert "ld.global.v4" in compiled.asm["ptx"]
