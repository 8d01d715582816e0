"""Graphs with tensors of several devices, lowered with fake tensors: no GPU is needed to see what would be called."""

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx

from minicompile import inductor
from minicompile.aot.decompositions import decomposition_table
from minicompile.inductor.ir import Extern

GPU = torch.device("cuda", 0)


def moved(x):
    return torch.ops.aten._to_copy.default(x, device=GPU)


def scheduled(function, *shapes, dtype=torch.float32):
    """The schedule for inputs on a GPU."""
    with FakeTensorMode():
        inputs = [torch.empty(shape, device=GPU, dtype=dtype) for shape in shapes]
        graph = make_fx(function, decomposition_table=decomposition_table())(*inputs)
    return inductor.schedule(inductor.lower(graph, inputs))


def calls(function, *shapes):
    """The ATen operators that are called, and how many kernels there are."""
    groups = scheduled(function, *shapes).groups
    externs = [b.data for g in groups for b in g.nodes if isinstance(getattr(b, "data", None), Extern)]
    return [(e.target, *e.args) for e in externs], sum(g.kind == "loops" for g in groups)


def test_what_reads_no_memory_is_computed_where_it_is_wanted():
    found = calls(lambda x: [x + moved(torch.arange(8)), moved(torch.full((), 4096))], (4, 8))
    assert found == ([], 2)
    found, kernels = calls(lambda x: [x + moved(torch.arange(8).view(2, 4).t())], (4, 2))
    assert (found, kernels) == ([], 1)


def test_values_of_a_cpu_tensor_are_copied():
    found, _ = calls(lambda x: [x + moved(torch.rand(8))], (4, 8))
    assert torch.ops.aten._to_copy.default in [target for target, *_ in found]


def test_the_bias_of_a_convolution_is_added_by_a_kernel():
    """A call of cuDNN with a bias costs a kernel of its own, that reads and writes the whole result."""
    found, kernels = calls(lambda x, w, b: [torch.conv2d(x, w, b).relu()], (2, 3, 9, 9), (6, 3, 3, 3), (6,))
    assert [f[0] for f in found] == [torch.ops.aten.convolution.default] and found[0][3] is None and kernels == 1


@pytest.mark.parametrize("dtype, warps", [(torch.float32, 8), (torch.bfloat16, 4)])
def test_a_thread_takes_twice_as_many_elements_of_two_bytes(dtype, warps):
    """As a race on an H200 has found: rows of 768 in blocks of two, by 4 warps in half precision."""
    schedule = scheduled(lambda x, y: [(x + y).softmax(-1)], (16384, 768), (16384, 768), dtype=dtype)
    assert f"num_warps={warps}, XBLOCK=2, RBLOCK=1024" in inductor.codegen(schedule, "triton").kernels


@pytest.mark.parametrize("size, tile", [(4096, "num_warps=4, XBLOCK=128"), (1 << 24, "num_warps=4, XBLOCK=1024")])
def test_a_thread_takes_one_element_where_there_are_more_threads(size, tile):
    """50 sines of 4096 numbers: 6 us on an H200 with one element a thread, 31 with four."""
    assert tile in inductor.codegen(scheduled(lambda x: [x.sin() * 2], (size,)), "triton").kernels
