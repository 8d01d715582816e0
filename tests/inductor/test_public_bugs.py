"""Programs after PyTorch's public issues about generated code, each with eager's values; the number is the issue's."""

import pytest
import torch
import torch.nn.functional as F

import minicompile


def check(function, *inputs, target="cpp"):
    with minicompile.config.patch(cpu_backend=target):
        return function(*inputs), minicompile.compile(function, fullgraph=True)(*inputs)


def assert_bitwise(want, got):
    assert (want.dtype, want.shape, want.stride()) == (got.dtype, got.shape, got.stride())
    same = (want == got) & (torch.signbit(want) == torch.signbit(got)) | want.isnan() & got.isnan()
    assert same.all(), (want, got)


@pytest.mark.parametrize("target", ["cpp", "triton", "interpreter"])
def test_194347_of_zeros_the_first_is_the_extreme(target):
    def function(x, y):
        return [f(x, y) for f in (torch.minimum, torch.maximum, torch.fmin, torch.fmax)]

    if target == "triton":
        pytest.importorskip("triton")
    zeros = torch.tensor([0.0, -0.0, 1.0, float("nan")]), torch.tensor([-0.0, 0.0, float("nan"), 1.0])
    for want, got in zip(*check(function, *zeros, target=target), strict=True):
        assert_bitwise(want, got)


def test_130394_strides_with_holes():
    def function(x):
        y = torch.empty_strided((3, 4), (1, 5))
        y.copy_(x)
        return y, torch.as_strided_scatter(x, x[:2, 0], (2,), (4,)), y + 1

    for want, got in zip(*check(function, torch.arange(12.0).view(3, 4)), strict=True):
        assert_bitwise(want, got)


@pytest.mark.parametrize("shape", [(4, 5), (2, 5, 3)], ids=str)
def test_gradient_of_nll_loss_is_zero_beside_the_class(shape):
    """Also where the gradient is negative (no -0.0), infinite or NaN (no NaN), and where a row is ignored."""

    def function(x, target, weight):
        plain = F.nll_loss(x, target, weight, reduction="none")
        return -plain.sum() + F.nll_loss(x * 2, target) * float("inf")

    target = torch.arange(shape[0] * shape[-1] if len(shape) > 2 else shape[0]) % 5
    target = target.view(shape[0], *shape[2:])
    target[0] = -100
    gradients = []
    for run in (function, minicompile.compile(function, fullgraph=True)):
        x = torch.randn(shape, generator=torch.Generator().manual_seed(1), requires_grad=True)
        run(x, target, torch.arange(5.0)).backward()
        gradients.append(x.grad)
    assert_bitwise(*gradients)
