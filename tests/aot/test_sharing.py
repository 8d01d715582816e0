"""Graphs for inputs that share memory: how many there are, what they are, and when there is none."""

import pytest
import torch
from alias_observation import compare
from alias_worlds import of_base

import minicompile
from minicompile import aot, config, record
from minicompile.aot import overlap


def write_and_read(x, y):
    x.mul_(2)
    return (x * y).sum(), y + 1


def rows(n, grad):
    return of_base(lambda b: b[:-1], lambda b: b[1:], shape=(n, 3), grad=grad)


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
@pytest.mark.parametrize("grad", [False, True])
def test_one_graph_for_all_sizes(backend, grad):
    compiled = minicompile.compile(write_and_read, backend=backend, dynamic=True)
    for n in (5, 9, 4, 7):
        assert not compare(write_and_read, compiled, rows(n, grad), "grad")
    assert record.counters["alias_graphs"] == 1 and record.counters["graphs"] == 1
    assert not record.counters["alias_fallbacks"]


def test_sizes_that_no_graph_is_for_all_of():
    """Holes: each size has a graph of its own."""
    compiled = minicompile.compile(write_and_read, backend="aot_eager", dynamic=True)
    for n in (5, 9, 5, 9):
        make = of_base(lambda b: b[:, 1:], lambda b: b[:, :-1], shape=(n, n))
        assert not compare(write_and_read, compiled, make, "grad")
    assert record.counters["alias_graphs"] == 2 and not record.counters["alias_fallbacks"]


def test_as_many_as_the_limit_says():
    with config.patch(recompile_limit=2):
        compiled = minicompile.compile(write_and_read, backend="aot_eager")
        for k in (1, 2, 3, 4, 5, 6, 1, 2):
            make = of_base(lambda b: b[:8], lambda b, k=k: b[k : k + 8], shape=(16, 3))
            assert not compare(write_and_read, compiled, make, "grad")
    assert record.counters["alias_graphs"] == 4 and record.counters["alias_fallbacks"] == 2


def test_shared_and_apart_in_turn():
    compiled = minicompile.compile(write_and_read, backend="aot_eager")
    apart = of_base(lambda b: b[:4], lambda b: b[4:], shape=(8, 3))
    shared = of_base(lambda b: b[:4], lambda b: b[1:5], shape=(8, 3))
    for make in (apart, shared, apart, shared):
        assert not compare(write_and_read, compiled, make, "grad")
    assert record.counters["alias_graphs"] == 1


def test_a_hook_on_a_view_runs():
    """The gradient of the base would not pass it: such a call runs in eager."""

    def gradients(function):
        seen, base = [], torch.ones(4, requires_grad=True) * 1
        x, y = base[:3], base[1:]
        y.register_hook(seen.append)
        function(x, y)[0].backward()
        return seen

    def fn(x, y):
        out = (y * 3).sum()
        x.detach().add_(1)
        return out, x

    torch.testing.assert_close(gradients(minicompile.compile(fn, backend="aot_eager")), gradients(fn))
    assert record.counters["alias_fallbacks"] == 1


def test_the_graph():
    gm, base, graphs = torch.fx.symbolic_trace(write_and_read), torch.ones(4, 3), []
    function = aot.compile(gm, [base[:3], base[1:]], forward_compiler=lambda gm, inputs: graphs.append(gm) or gm)
    function(base[:3], base[1:])
    graph = graphs[-1]
    assert [n.name for n in graph.graph.nodes if n.op == "placeholder"] == ["x", "y", "memory_0"]
    assert not any(n.users for n in graph.graph.nodes if n.name in ("x", "y"))
    assert "as_strided" not in graph.code


@pytest.mark.parametrize(
    "offset, rows, place", [(9, [(3, 4), (2, 1)], 1), (11, [(3, 4), (2, 1)], 0), (8, [(3, 4), (4, 1)], 0)]
)
def test_place_in_row(offset, rows, place):
    assert overlap.place_in_row(offset, rows) == place
