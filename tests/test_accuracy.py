"""The accuracy check must be able to fail: wrong values, gradients, buffers and draws are planted and must be named."""

import copy

import pytest
import torch
import torch.nn as nn
import torch.nn.functional as F

from minicompile.accuracy import check_inference, check_training, double, excess_errors, same_draws


class Small(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.norm, self.last = nn.Linear(6, 8), nn.BatchNorm1d(8), nn.Linear(8, 3)

    def forward(self, x):
        return self.last(F.dropout(F.gelu(self.norm(self.first(x))), 0.25, self.training))


@pytest.fixture
def model():
    torch.manual_seed(0)
    return Small()


X, Y = torch.randn(16, 6, generator=torch.Generator().manual_seed(1)), torch.arange(16) % 3


def loss(output):
    return F.cross_entropy(output, Y)


def identity(module):
    return module


class Hooked(nn.Module):
    """A wrapper that changes what goes through one layer."""

    def __init__(self, module, change):
        super().__init__()
        self.module, self.change = module, change

    def forward(self, x):
        handle = self.module.norm.register_forward_hook(lambda module, inputs, output: self.change(output))
        try:
            return self.module(x)
        finally:
            handle.remove()


def test_faithful_compilers_pass(model):
    check_inference(model.eval(), (X,), compiler=identity)
    check_training(model.train(), loss, (X,), compiler=identity)
    check_training(model, loss, (X,), compiler=lambda m: torch.compile(m, backend="aot_eager"))
    torch.compiler.reset()


def test_reassociated_sums_pass(model):
    """Another order of summation is as good as eager's: an error of eager's size is no fault."""

    class Reordered(nn.Module):
        def __init__(self, module):
            super().__init__()
            self.module = module

        def forward(self, x):
            order = torch.arange(x.shape[1] - 1, -1, -1)
            first = self.module.first
            h = F.linear(x[:, order], first.weight[:, order]) + first.bias
            return self.module.last(F.dropout(F.gelu(self.module.norm(h)), 0.25, self.module.training))

    check_training(model, loss, (X,), compiler=Reordered)


def test_wrong_values_are_named(model):
    with pytest.raises(AssertionError, match=r"inference, call 1: 1 differences\noutput: error"):
        check_inference(model.eval(), (X,), compiler=lambda m: Hooked(m, lambda y: y * (1 + 1e-4)))
    with pytest.raises(AssertionError, match="dtype"):
        check_inference(model.eval(), (X,), compiler=lambda m: lambda x: m(x).double())
    with pytest.raises(AssertionError, match=r"output: error nan, .* at \(1, 1\): compiled nan"):
        one_nan = torch.zeros(16, 3).index_put((torch.tensor(1), torch.tensor(1)), torch.tensor(torch.nan))
        check_inference(model.eval(), (X,), compiler=lambda m: lambda x: m(x) + one_nan)


def test_wrong_gradients_are_named(model):
    def scaled(y):  # the value stays, the gradient is 1.001 times too large
        return y.detach() + 1.001 * (y - y.detach())

    with pytest.raises(AssertionError) as error:
        check_training(model, loss, (X,), compiler=lambda m: Hooked(m, scaled))
    assert "gradient of first.weight: error" in str(error.value) and "gradient of last.weight" not in str(error.value)


def test_missing_gradient_is_named(model):
    match = r"gradient of first.weight: eager has torch.float32 \(8, 6\), compiled none"
    with pytest.raises(AssertionError, match=match):
        check_training(model, loss, (X,), compiler=lambda m: Hooked(m, lambda y: y.detach()))


def test_stale_statistics_are_named(model):
    class Frozen(nn.Module):
        def __init__(self, module):
            super().__init__()
            self.module = module

        def forward(self, x):
            saved = copy.deepcopy(dict(self.module.named_buffers()))
            output = self.module(x)
            for name, buffer in self.module.named_buffers():
                buffer.data.copy_(saved[name])  # .data: autograd does not look
            return output

    with pytest.raises(AssertionError) as error:
        check_training(model, loss, (X,), compiler=Frozen)
    for name in ("running_mean", "running_var", "num_batches_tracked"):
        assert f"buffer norm.{name}: " in str(error.value)


def test_another_dropout_mask_is_named(model):
    with pytest.raises(AssertionError, match="loss: error"):
        check_training(model, loss, (X,), compiler=lambda m: lambda x: (torch.rand(1), m(x))[1])


def test_float64_draws_what_float32_draws():
    def draws(x):
        torch.manual_seed(3)
        dropped = F.dropout(x, 0.5)
        return dropped, torch.randn_like(x), torch.empty_like(x).normal_(), torch.rand(4, dtype=x.dtype), x.bernoulli()

    x = torch.rand(40)
    with same_draws():
        wide = draws(x.double())
    for narrow, other in zip(draws(x), wide, strict=True):
        assert other.dtype == torch.float64
        torch.testing.assert_close(other, narrow.double())


def test_no_reference_is_an_error():
    """Where eager itself is far from the reference the check would say nothing: it must not pass."""
    one, other = torch.ones(3), torch.full((3,), 2.0)
    lines = excess_errors([("y", one, one, other.double())])
    assert len(lines) == 1 and "nothing to compare with" in lines[0]
    near, far = torch.full((3,), 1.5).bfloat16(), torch.full((3,), 5.0).bfloat16()  # half precision may be noisy
    assert not excess_errors([("y", near, near, one.double())])
    assert "nothing to compare with" in excess_errors([("y", far, far, one.double())])[0]


def test_double_leaves_the_original_alone(model):
    wide = double(model)
    assert wide.first.weight.dtype == torch.float64 and model.first.weight.dtype == torch.float32
    assert double((X, 3, Y))[0].dtype == torch.float64 and double((X, 3, Y))[2] is Y


def test_nan_must_be_where_eager_has_it():
    eager, actual = torch.tensor([1.0, torch.nan, torch.inf]), torch.tensor([1.0, torch.inf, torch.inf])
    assert excess_errors([("y", eager.clone(), eager, eager.double())]) == []
    lines = excess_errors([("y", actual, eager, eager.double())])
    assert lines == ["y: eager has inf or nan in 2 of 3 places, compiled inf or nan in 2 of 3 places"]


def test_many_small_excesses_are_one_fault():
    """Each tensor is within its own allowance, but all of them are five times worse than eager."""
    reference = [torch.randn(100, generator=torch.Generator().manual_seed(i)).double() for i in range(8)]
    eager = [(t + 1e-5).float() for t in reference]
    group = [(f"t{i}", (t + 5e-5).float(), e, t) for i, (t, e) in enumerate(zip(reference, eager, strict=True))]
    lines = excess_errors(group)
    assert len(lines) == 1 and lines[0].startswith("t0 to t7, together: error 0.00141, eager's own is 0.000283")
