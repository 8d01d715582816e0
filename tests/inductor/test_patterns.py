"""Every pattern: C++ kernels and the IR interpreter against eager, and how many kernels fusion leaves."""

import pytest
import torch
from patterns import PATTERNS, aten_graph

from minicompile import inductor
from minicompile.inductor.interpreter import Interpreter

HALF_ERROR = {torch.float16: 2e-3, torch.bfloat16: 2e-2}  # eager rounds after every operation, kernels at the end


def assert_same(actual, expected):
    expected = [expected] if isinstance(expected, torch.Tensor) else list(expected)
    assert len(actual) == len(expected)
    for a, e in zip(actual, expected, strict=True):
        assert (a.shape, a.stride(), a.dtype) == (e.shape, e.stride(), e.dtype)
        error = HALF_ERROR.get(e.dtype, 1e-4)
        torch.testing.assert_close(a, e, rtol=error, atol=error, equal_nan=True)


@pytest.mark.parametrize("name", PATTERNS)
def test_pattern(name):
    function, make, most_kernels = PATTERNS[name]
    inputs = make()
    graph = inductor.lower(aten_graph(function, *inputs), inputs)
    expected = function(*inputs)
    assert_same(Interpreter(graph)(*inputs), expected)
    groups = inductor.schedule(graph)
    assert_same(inductor.load(inductor.codegen(groups))(*inputs), expected)
    kernels = [g for g in groups.groups if g.kind not in ("extern", "output")]
    assert most_kernels is None or len(kernels) <= most_kernels, f"{groups}\n{groups.why()}"
    assert groups.bytes_after <= groups.bytes_before


@pytest.mark.parametrize("name", ["softmax", "cat", "layer_norm", "transpose_add", "norm_backward"])
def test_unfused_kernels_agree(name):
    function, make, _ = PATTERNS[name]
    inputs = make()
    graph = inductor.lower(aten_graph(function, *inputs), inputs)
    groups = inductor.scheduler.schedule(graph, fuse=False)
    assert len(groups.groups) == len(groups.graph.buffers)
    assert_same(inductor.load(inductor.codegen(groups))(*inputs), function(*inputs))


def test_chain_is_one_kernel_and_bitwise_equal():
    def chain(x):
        return x.relu().add(1).mul(2)

    x = torch.cat(
        [torch.randn(10001) * 100, torch.tensor([float("nan"), float("inf"), -float("inf"), -0.0, 0.0, 1e-42])]
    )
    call = inductor.compile(aten_graph(chain, x), (x,))
    assert len(call.source.kernel_names) == 1
    assert torch.equal(call(x)[0].view(torch.int32), chain(x).view(torch.int32))
