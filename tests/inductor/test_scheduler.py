"""Fusion, its reasons and bytes; memory planning; index algebra; determinism."""

import pytest
import sympy
import torch
import torch.nn.functional as F
from patterns import PATTERNS, aten_graph

from minicompile import config, inductor
from minicompile.inductor import memory
from minicompile.inductor.indexing import Var, delinearize, flatten, index


def schedule_of(function, *inputs):
    return inductor.schedule(inductor.lower(aten_graph(function, *inputs), inputs))


def kernels(groups):
    return [g for g in groups.groups if g.kind not in ("extern", "output")]


def test_softmax_moves_each_byte_once():
    x = torch.randn(64, 128)
    groups = schedule_of(lambda x: F.softmax(x, -1), x)
    assert groups.bytes_after == 2 * x.nbytes
    assert groups.bytes_before > 3 * groups.bytes_after


def test_every_decision_has_a_reason():
    groups = schedule_of(PATTERNS["norm_backward"][0], *PATTERNS["norm_backward"][1]())
    assert groups.decisions and all(d.why for d in groups.decisions)
    assert "fuse" in groups.why() and all(d.bytes_saved > 0 for d in groups.decisions if "share" in d.why)


def test_no_fusion_across_a_call_that_lies_between():
    groups = schedule_of(lambda x: (x.relu() @ x) + x.relu().sum(), torch.randn(8, 8))
    order = [g.kind for g in groups.groups]
    assert order.count("extern") == 1
    groups = schedule_of(lambda x: (x * 2 @ x).exp() + x * 2, torch.randn(8, 8))
    assert [g.kind for g in groups.groups] == ["loops", "extern", "loops"]


def test_a_consumer_that_reads_elsewhere_is_not_fused():
    groups = schedule_of(lambda x: (lambda s: s + s.flip(0))(x.cumsum(0).sum(1)), torch.randn(6, 4))
    assert any("another place" in d.why for d in groups.decisions if not d.fused)


def test_siblings_share_a_read():
    groups = schedule_of(lambda x: (x.sum(1), x.amax(1), x.exp()), torch.randn(64, 32))
    assert len(kernels(groups)) == 1


def test_siblings_that_read_in_another_order_share_nothing():
    """Rows and columns of a square tensor: the loops are equal in size, and one would read in jumps."""
    groups = schedule_of(lambda x: (x.sum(0), x.sum(1)), torch.randn(32, 32))
    assert len(kernels(groups)) == 2
    assert [d.why for d in groups.decisions] == ["they read what they share at different places"]


def test_unfused_when_switched_off():
    with config.patch(fusion=False):
        groups = schedule_of(lambda x: x.relu().add(1).mul(2), torch.randn(4))
    assert len(kernels(groups)) == 3


def test_output_is_deterministic():
    function, make, _ = PATTERNS["add_layer_norm"]
    inputs = make()
    texts = {str(inductor.codegen(schedule_of(function, *inputs))) for _ in range(3)}
    assert len(texts) == 1


def test_equal_layers_share_a_kernel():
    def layers(x, w):
        return [F.gelu(x @ w[k]) for k in range(4)]

    source = inductor.codegen(schedule_of(layers, torch.randn(8, 8), torch.randn(4, 8, 8)))
    assert len(source.kernel_names) > 1 and len(set(source.kernel_names)) == 1


def test_memory_is_taken_over_and_inputs_are_not_written():
    def layers(x, w):
        for _ in range(6):
            x = (x @ w).tanh()
        return x

    x, w = torch.randn(64, 64), torch.randn(64, 64) / 8
    before = x.clone()
    groups = schedule_of(layers, x, w)
    plan = memory.plan(groups)
    fresh = [name for new in plan.allocate for name, old in new if old is None]
    assert len(fresh) <= 3, plan
    call = inductor.load(inductor.codegen(groups))
    first, second = call(x, w)[0], call(x, w)[0]
    assert torch.allclose(first, layers(x, w), atol=1e-5) and first.data_ptr() != second.data_ptr()
    assert torch.equal(x, before)


def test_outputs_that_are_views_and_inputs():
    x = torch.randn(4, 6)
    call = inductor.compile(aten_graph(lambda x: (x.t(), x, x.relu()[1:, 2]), x), (x,))
    transposed, same, part = call(x)
    assert transposed.data_ptr() == same.data_ptr() == x.data_ptr() and transposed.stride() == (1, 6)
    assert torch.equal(part, x.relu()[1:, 2]) and part.stride() == x.relu()[1:, 2].stride()


def test_inputs_with_an_offset():
    base = torch.randn(100)
    x = base[10:34].view(4, 6)
    call = inductor.compile(aten_graph(lambda x: (x.t() + 1, x[2:].t(), x @ x.t()), x), (x,))
    for a, e in zip(call(x), (x.t() + 1, x[2:].t(), x @ x.t()), strict=True):
        assert torch.allclose(a, e) and a.stride() == e.stride()


@pytest.mark.parametrize("value", [40, -41, 10**9])
def test_index_out_of_range_raises(value):
    w, i = torch.randn(40, 8), torch.tensor([1, 2, value, 3])
    call = inductor.compile(aten_graph(lambda w, i: w[i] * 2, w, i.clamp(0, 3)), (w, i))
    with pytest.raises(IndexError):
        call(w, i)
    assert torch.equal(call(w, i.clamp(0, 3))[0], w[i.clamp(0, 3)] * 2)


def test_sum_is_at_least_as_accurate_as_eager():
    x = torch.rand(1 << 22)
    exact = x.double().sum()
    call = inductor.compile(aten_graph(lambda x: x.sum(), x), (x,))
    assert abs(call(x)[0].double() - exact) <= abs(x.sum().double() - exact) + 1e-7 * exact


@pytest.mark.parametrize("size, dim", [((10_000_000,), 0), ((64, 100_000), 1), ((100_000, 64), 0)])
def test_rounding_that_always_goes_one_way_does_not_add_up(size, dim):
    """0.1 many times: the errors of a float do not cancel, so few are added before a double takes over."""
    x = torch.full(size, 0.1)
    call, exact = inductor.compile(aten_graph(lambda x: x.sum(dim), x), (x,)), x.double().sum(dim)
    assert ((call(x)[0] - exact) / exact).abs().max() < 1e-6


# --- index algebra ----------------------------------------------------------------------------------


def test_reshapes_simplify():
    a, b, c = Var("a", 4), Var("b", 6), Var("c", 8)
    address = flatten((index(a), index(b), index(c)), (4, 6, 8))
    assert str(address) == "48*a + 8*b + c"
    assert list(map(str, delinearize(address, (24, 8)))) == ["6*a + b", "c"]
    assert flatten(delinearize(address, (12, 16)), (12, 16)) is address
    x = Var("x", 192)
    assert flatten(delinearize(index(x), (4, 6, 8)), (4, 6, 8)) is index(x)
    assert (index(x) // 8) % 6 // 2 is index(x) // 16 % 3


def test_index_arithmetic_is_exact():
    x, y = Var("x", 7), Var("y", 5)
    for constant in (-3, 0, 4):
        value = index(x) * 6 + index(y) * 4 + constant
        for divisor in (1, 2, 3, 4, 8):
            quotient, rest = value // divisor, value % divisor
            for i in range(7):
                for j in range(5):
                    at = {x: index(i), y: index(j)}
                    number = 6 * i + 4 * j + constant
                    assert quotient.substitute(at).constant == number // divisor
                    assert rest.substitute(at).constant == number % divisor


def test_symbolic_sizes():
    n = sympy.Symbol("s0", integer=True, positive=True)
    i, j = Var("i", 5), Var("j", n)
    address = flatten((index(i), index(j)), (5, n))
    assert delinearize(address, (5, n)) == (index(i), index(j))
    assert address.within(5 * n) and not address.within(4 * n)


def test_what_is_used_by_parts_is_computed_there():
    """The gates of an LSTM cell: a sum of two products, of which each quarter goes its own way, is no kernel."""

    def cell(x, h, c, w, u):
        i, f, g, o = (x @ w + h @ u).chunk(4, 1)
        c = f.sigmoid() * c + i.sigmoid() * g.tanh()
        return o.sigmoid() * c.tanh(), c

    x, h, c, w, u = (torch.randn(n) for n in ((4, 8), (4, 8), (4, 8), (8, 32), (8, 32)))
    inputs = (x, h, c, w, u)
    call = inductor.compile(aten_graph(cell, *inputs), inputs)
    torch.testing.assert_close(tuple(call(*inputs)), cell(*inputs))
    assert len(kernels(schedule_of(cell, *inputs))) == 1
