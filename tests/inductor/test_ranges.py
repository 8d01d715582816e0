"""Indices that are in range for sure are not checked at run time; all others are."""

import pytest
import torch
import torch.nn.functional as F
from patterns import aten_graph

from minicompile import inductor
from minicompile.inductor import ir
from minicompile.inductor.codegen import triton
from minicompile.inductor.indexing import Indirect, Var, index


def compiled(function, *inputs):
    return inductor.compile(aten_graph(function, *inputs), inputs)


def text(call):
    return call.source.kernels.removeprefix(call.source.prelude)


SURE = {
    "bilinear": lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"),
    "bilinear, corners": lambda x: F.interpolate(x, size=(5, 50), mode="bilinear", align_corners=True),
    "arange": lambda x: x[:, (torch.arange(40) * 3).clamp(0, 2)],
    "from the end": lambda x: x[:, :, torch.arange(8) + 3],
    "floats": lambda x: x[:, :, :, (torch.arange(9).float() * 1.1 - 0.5).clamp(min=0).long()],
}
UNSURE = {
    "one too many": lambda x: x[:, :, torch.arange(9) + torch.arange(3).amax()],
    "below": lambda x: x[:, :, torch.arange(9) - 2],
    "a NaN": lambda x: x[:, (x[0, 0, 0, :3].log() * 0).clamp(0, 1).long().clamp(max=2)],
}


@pytest.mark.parametrize("name", SURE)
def test_what_is_in_range_for_sure_is_not_checked(name):
    x = torch.randn(2, 3, 11, 12)
    call = compiled(SURE[name], x)
    assert "m_index" not in text(call)
    torch.testing.assert_close(call(x)[0], SURE[name](x))


@pytest.mark.parametrize("name", UNSURE)
def test_what_may_lie_outside_is_checked(name):
    x = torch.rand(2, 3, 11, 12)
    call = compiled(UNSURE[name], x)
    assert "m_index" in text(call)
    assert torch.equal(call(x)[0], UNSURE[name](x))


def test_an_index_of_data_is_checked():
    def pick(x, i):
        return x[:, (i + 1).clamp(max=10)]

    x, i = torch.randn(4, 11), torch.tensor([0, 9, 50, -3])
    call = compiled(pick, x, i)
    assert torch.equal(call(x, i)[0], pick(x, i))
    with pytest.raises(IndexError):
        call(x, torch.tensor([0, 1, 2, -30]))


NARROW = ("bilinear", "bilinear, corners", "arange", "from the end", "floats")
WIDE = {
    "a product beyond 32 bits": lambda x: x[:, :, (torch.arange(9) * 2**33).clamp(max=7)],
    "a float beyond 32 bits": lambda x: x[:, :, (torch.arange(9).float() * 1e12).long().clamp(max=7)],
    "numbers that are a result": lambda x: (x[:, (at := torch.arange(9).clamp(max=2))], at),
}


@pytest.mark.parametrize("name", NARROW)
def test_indices_that_fit_are_computed_and_kept_in_32_bits(name):
    x = torch.randn(2, 3, 11, 12)
    graph = inductor.schedule(inductor.lower(aten_graph(SURE[name], x), (x,))).graph
    assert not any("int64" in str(buffer) for buffer in graph.buffers), graph
    torch.testing.assert_close(compiled(SURE[name], x)(x)[0], SURE[name](x))


@pytest.mark.parametrize("name", WIDE)
def test_values_that_need_64_bits_have_them(name):
    x = torch.randn(2, 3, 11, 12)
    expected = WIDE[name](x)
    found = compiled(WIDE[name], x)(x)
    for a, b in zip(found, expected if isinstance(expected, tuple) else (expected,), strict=True):
        assert torch.equal(a, b) and a.dtype == b.dtype


def test_a_gpu_makes_the_indices_of_a_resize_where_they_are_used():
    """No table is stored: one kernel, which counts in 32 bits; and in 64 where its addresses need them."""
    for size, count in ((4, 64), 0), ((2048, 2048), 5):
        x = torch.empty(1, 1, 32, 32).expand(*size, 32, 32)
        graph = aten_graph(SURE["bilinear"], x)
        moved = triton.on_device(inductor.lower(graph, (x,)))
        kernels = inductor.codegen(inductor.schedule(moved), "triton").kernels
        assert kernels.count("@kernel") == 1 and kernels.count("tl.int64") == count, kernels


ROW, FLAG = Var("row", 8), ir.Load("flags", (index(0),), torch.bool)
AT = index(Indirect(ir.Load("rows", (index(0),), torch.int64), 8))
SETTLED = {
    "from the first on": (lambda: ir.compare("ge", index(ROW), 0), True),
    "below its size": (lambda: ir.compare("lt", index(ROW), 8), True),
    "beyond its size": (lambda: ir.compare("gt", index(ROW) * 3, 21), False),
    "in the middle": (lambda: ir.compare("le", index(ROW), 4), None),
    "a loaded index, which is checked": (lambda: ir.compare("ge", AT, 0), None),
    "beyond 32 bits": (
        lambda: ir.op("lt", ir.IndexExpr(index(ROW) + 2**31, torch.int32), ir.constant(0, torch.int32)),
        None,
    ),
    "a flag and true": (lambda: ir.op("bitwise_and", ir.constant(True, torch.bool), FLAG), FLAG),
    "a flag or false": (lambda: ir.op("logical_or", FLAG, ir.constant(False, torch.bool)), FLAG),
    "a flag and false, which may be checked": (
        lambda: ir.op("logical_and", FLAG, ir.constant(False, torch.bool)),
        None,
    ),
}


@pytest.mark.parametrize("name", SETTLED)
def test_what_no_point_has_to_ask_is_settled(name):
    made, wanted = SETTLED[name][0](), SETTLED[name][1]
    if isinstance(wanted, ir.Expr):
        assert made is wanted
    else:
        assert (made.value if isinstance(made, ir.Constant) else None) == wanted


def test_a_mask_of_all_heads_is_no_kernel_of_its_own():
    """A comparison that always holds, a product with true and a cast are cheaper to repeat than to store."""

    def masked(scores, mask):
        kept = (torch.arange(12)[:, None] >= 0) & torch.ones(1, dtype=torch.bool) & mask[:, None, None, :].bool()
        return torch.where(kept.expand(2, 1, 12, 12), 0.0, scores)

    graph = aten_graph(masked, torch.randn(2, 4, 12, 12), torch.ones(2, 12, dtype=torch.int64))
    assert len(inductor.schedule(inductor.lower(graph)).groups) == 1
