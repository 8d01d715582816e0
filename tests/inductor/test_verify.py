"""The verifier refuses IR that was broken by hand, and says where."""

import dataclasses

import pytest
import torch
from patterns import aten_graph

from minicompile import inductor
from minicompile.inductor import ir, verify
from minicompile.inductor.indexing import Var, index
from minicompile.inductor.ir import Load, Op, Pointwise


@pytest.fixture
def graph():
    def function(x, w):
        return (x * w).sum(1)

    inputs = torch.randn(4, 6), torch.randn(6)
    result = inductor.lower(aten_graph(function, *inputs), inputs)
    verify.verify_graph(result)
    return result


def broken(graph, number, **changes):
    buffers = list(graph.buffers)
    buffers[number] = dataclasses.replace(buffers[number], **changes)
    return dataclasses.replace(graph, buffers=buffers)


def body_of(graph, change):
    """The graph with the body of its first buffer changed."""
    data = graph.buffers[0].data
    return broken(graph, 0, data=dataclasses.replace(data, body=change(data.body, data.vars)))


CASES = {
    "is not within": lambda body, v: Load("arg0", (index(v[0]), index(v[1]) + 1), torch.float32),
    "another rank": lambda body, v: Load("arg0", (index(v[0]),), torch.float32),
    "arg0 holds": lambda body, v: Op("add", (Load("arg0", tuple(map(index, v)), torch.int32),) * 2, torch.int32),
    "before it is computed": lambda body, v: Load("buf7", tuple(map(index, v)), torch.float32),
    "unknown loop variable": lambda body, v: Load("arg0", (index(Var("z9", 4)), index(v[1])), torch.float32),
    "does not take": lambda body, v: Op("add", (body, ir.constant(1, torch.int64)), torch.float32),
    "its rule says": lambda body, v: Op("lt", (body, body), torch.float32),
    "unknown operation": lambda body, v: Op("frobnicate", (body,), torch.float32),
    "layout says": lambda body, v: ir.op("cast", body, dtype=torch.float64),
}


@pytest.mark.parametrize("message", CASES)
def test_bad_expressions(graph, message):
    with pytest.raises(verify.IRError, match=message):
        verify.verify_graph(body_of(graph, CASES[message]))


def test_wrong_ranges_and_names(graph):
    data = graph.buffers[0].data
    with pytest.raises(verify.IRError, match="loops over"):
        verify.verify_graph(broken(graph, 0, data=Pointwise(ir.loop_vars((4, 5)), data.body)))
    with pytest.raises(verify.IRError, match="defined twice"):
        verify.verify_graph(broken(graph, 1, name="buf0"))
    with pytest.raises(verify.IRError, match="unknown reduction"):
        verify.verify_graph(broken(graph, 1, data=dataclasses.replace(graph.buffers[1].data, kind="median")))
    with pytest.raises(verify.IRError, match="never computed"):
        verify.verify_graph(dataclasses.replace(graph, buffers=graph.buffers[:1]))


def test_loads_under_a_mask_may_lie_outside():
    def function(x):
        return torch.nn.functional.pad(x, (2, 1))

    graph = inductor.lower(aten_graph(function, torch.randn(3, 4)), (torch.randn(3, 4),))
    verify.verify_graph(graph)
    assert "masked(" in str(graph)


def test_schedule_that_reads_before_it_stores(graph):
    def function(x):
        return (x.relu() @ x).relu() @ x

    x = torch.randn(4, 4)
    groups = inductor.schedule(inductor.lower(aten_graph(function, x), (x,)))
    verify.verify_schedule(groups)
    groups.groups.reverse()
    with pytest.raises(verify.IRError, match="not stored yet"):
        verify.verify_schedule(groups)
