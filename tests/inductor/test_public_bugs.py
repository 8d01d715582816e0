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


def test_175154_a_size_that_stays_the_same_is_copied():
    """Eager's kernel then ignores the factor; torch's Python rule, which stands above autograd, does not."""

    def function(x):
        return F.interpolate(x, scale_factor=1.3, mode="nearest"), F.interpolate(x, scale_factor=2.6, mode="nearest")

    x = torch.tensor([[[[1.0, 2.0]]]])
    for want, got in zip(*check(function, x), strict=True):
        assert_bitwise(want, got)
    gradients = []
    for run in (function, minicompile.compile(function, dynamic=True)):
        leaf = x.clone().requires_grad_()
        sum(y.sum() for y in run(leaf)).backward()
        gradients.append(leaf.grad)
    assert_bitwise(*gradients)


@pytest.mark.parametrize("dynamic", [False, True])
def test_195422_dropout_with_nothing_to_do_returns_its_input(dynamic):
    def function(x):
        y = F.dropout(F.dropout(x, 0.0), 0.5, training=False)
        y += y
        return y

    x = torch.ones(2, 2)
    minicompile.compile(function, dynamic=dynamic, fullgraph=True)(x)
    assert_bitwise(x, torch.full((2, 2), 2.0))


def test_197067_a_gradient_of_zeros_has_no_memory():
    x = torch.tensor([1.0, -2.0], requires_grad=True)

    def function(x):
        (gradient,) = torch.autograd.grad(torch.sgn(x * 2).sum(), x)
        return gradient[-1] + 10

    (zeros,) = torch.autograd.grad(torch.sgn(x).sum(), x)
    add = minicompile.compile(lambda x: x + 10)
    assert minicompile.compile(function)(x) == 10
    for tensor in (torch.ones(2), zeros):
        assert_bitwise(add(tensor), tensor + 10)


def test_targets_of_multilabel_margin_loss_end_at_minus_one():
    x, target = torch.tensor([[0.1, 0.2, 0.4, 0.8]]), torch.tensor([[3, 0, -1, 1]])
    want, got = check(lambda x: F.multilabel_margin_loss(x, target, reduction="none"), x)
    torch.testing.assert_close(got, torch.tensor([0.85]))
    assert_bitwise(want, got)


@pytest.mark.parametrize("scale, offset", [(1e-30, 0), (1e18, 0), (1, 1e5)])
def test_197089_moments_are_taken_in_float64_as_in_eager(scale, offset):
    """In float32 the squares underflow or overflow, and the digits are lost beside a large mean."""

    def function(x):
        return x.std(-1), torch.var_mean(x, -1), torch.std_mean(x, 0, correction=0), x.var(0)

    x = torch.randn(6, 50) * scale + offset
    want, got = check(function, x.requires_grad_())
    torch.testing.assert_close(got, want, rtol=1e-6, atol=0)
    assert torch.autograd.grad(got[0].sum(), x)[0].any()


def test_a_single_point_scattered_into_a_tensor_of_symbolic_size():
    def function(x, index):
        x[index] = 1.0
        return x

    compiled = minicompile.compile(function, dynamic=True, fullgraph=True)
    for size in (5, 7):
        assert_bitwise(compiled(torch.zeros(size), torch.tensor([-1])), torch.eye(size)[-1])


@pytest.mark.parametrize("target", ["cpp", "triton"])
@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.int32], ids=str)
def test_143566_shifting_everything_out(dtype, target):
    if target == "triton":
        pytest.importorskip("triton")
    x, places = torch.tensor([1, 127, 5, 64], dtype=dtype) * 3, torch.tensor([7, 8, 100, 31], dtype=dtype)
    for want, got in zip(*check(lambda x, n: (x >> n, x << n, x >> 9), x, places, target=target), strict=True):
        assert torch.equal(want, got)
