"""Programs after PyTorch's public issues about aliasing, mutation and gradients; the number is the issue's."""

import pytest
import torch

import minicompile

pytestmark = pytest.mark.parametrize("backend", ["aot_eager", "inductor"])


def test_equal_results_of_operators_that_return_several_do_not_share_memory(backend):
    def function(x):
        return x.sort(stable=True).indices, x.argsort(stable=True), x.max(0).values, x.max(0).values

    results = minicompile.compile(function, backend=backend, fullgraph=True)(torch.tensor([[3.0, 1.0], [2.0, 4.0]]))
    assert len({result.data_ptr() for result in results}) == 4
    results[0].zero_()
    assert results[1].tolist() == [[1, 0], [0, 1]]


def test_140171_as_strided_beside_the_view_that_was_given(backend):
    def function(x):
        x.as_strided((10,), (1,), storage_offset=5).add_(1)

    want, got = torch.arange(20), torch.arange(20)
    function(want[:10])
    minicompile.compile(function, backend=backend)(got[:10])
    assert torch.equal(want, got)


def test_backward_with_a_size_from_data_runs_in_eager(backend):
    def function(x, source):
        return (x.masked_scatter(x.detach() > 0, source) * x).sum()

    gradients = []
    for run in (function, minicompile.compile(function, backend=backend)):
        x, source = torch.tensor([1.0, -2.0, 3.0], requires_grad=True), torch.arange(3.0, requires_grad=True)
        run(x, source).backward()
        gradients.append((x.grad, source.grad))
    torch.testing.assert_close(*gradients, rtol=0, atol=0)
