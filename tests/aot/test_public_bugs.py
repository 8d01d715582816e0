"""Programs after PyTorch's public issues about aliasing, mutation and gradients; the number is the issue's."""

import pytest
import torch
import torch.nn.functional as F

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


def test_198364_strides_are_those_of_the_kernels(backend):
    """Rules for fake tensors say others: PyTorch's issues 198364, 183771, 174963."""

    def function(x, y, image, z):
        elementwise = torch.copysign(x, y - 1.5), x // y, torch.div(y, x, rounding_mode="floor"), torch.xlogy(x, y)
        more = torch.special.xlog1py(x, y), torch.addr(x, y[:, 0], y[0], beta=0.0), z.angle(), torch.copysign(x, -1.0)
        padded = F.pad(image, (1, 1, 1, 1), "reflect"), F.pad(image, (1, 1, 1, 1), "replicate")
        others = image.roll(1, 2), image.roll((1, 2), (2, 3)), F.logsigmoid(image), F.rrelu(image), x.roll(1, 0)
        shuffled = F.channel_shuffle(image, 2), F.channel_shuffle(image.mT, 2)
        return *elementwise, *more, *padded, *others, *shuffled, F.binary_cross_entropy(x, y - 1, reduction="none")

    x, y, z = torch.rand(6, 5).mT, torch.rand(5, 6) + 1, torch.complex(torch.rand(3, 2), torch.rand(3, 2)).t()
    image = torch.randn(2, 6, 4, 4).contiguous(memory_format=torch.channels_last)
    compiled = minicompile.compile(function, backend=backend, fullgraph=True)
    for want, got in zip(function(x, y, image, z), compiled(x, y, image, z), strict=True):
        assert want.stride() == got.stride()
        torch.testing.assert_close(want, got)


@pytest.mark.graph_errors
def test_a_write_whose_source_overlaps_it_is_refused_as_in_eager(backend):
    writes = {
        "copy_": lambda x: x[1:].copy_(x[:-1]),
        "add_": lambda x: x[2:].add_(x[:-2]),
        "transposed": lambda x: x[:4].view(2, 2).mul_(x[:4].view(2, 2).t()),
    }
    for name, write in writes.items():
        with pytest.raises(RuntimeError, match="refer to a single memory location"):
            write(torch.arange(6.0))
        with pytest.raises(RuntimeError, match="refer to a single memory location"):
            minicompile.compile(write, backend=backend)(torch.arange(6.0))
            raise AssertionError(name)

    def allowed(x):
        x[:3].add_(x[3:])
        x.mul_(x)
        x[1:] = x[:-1].clone()
        return x

    compiled = minicompile.compile(allowed, backend=backend, fullgraph=True)
    assert torch.equal(compiled(torch.arange(6.0)), allowed(torch.arange(6.0)))


def test_the_gradient_of_dropout_of_a_transpose_has_eagers_strides(backend):
    def gradient(function):
        torch.manual_seed(0)
        x = torch.ones(4, 6, requires_grad=True)
        function(x).sum().backward()
        return x.grad

    def dropped(x):
        return F.dropout(x.t(), 0.5)

    expected, actual = gradient(dropped), gradient(minicompile.compile(dropped, backend=backend))
    assert torch.equal(actual, expected) and actual.stride() == expected.stride() == (6, 1)
