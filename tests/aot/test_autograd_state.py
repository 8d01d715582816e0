"""Autograd around compiled regions: each scenario beside eager, and what is an error."""

import junction_scenarios  # noqa: F401 (adds its scenarios)
import partial_scenarios  # noqa: F401
import pytest
import saved_scenarios  # noqa: F401
import torch
from autograd_scenarios import SCENARIOS, leaf, network

import minicompile
from minicompile.errors import MinicompileError


@pytest.mark.filterwarnings("ignore:Anomaly Detection")
@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda f: f.__name__)
def test_as_in_eager(scenario, backend):
    torch.manual_seed(0)
    expected = scenario(lambda fn: fn)
    torch.manual_seed(0)
    actual = scenario(lambda fn: minicompile.compile(fn, backend=backend))
    same(expected, actual)


def same(expected, actual):
    if isinstance(expected, torch.Tensor):
        torch.testing.assert_close(actual, expected, rtol=1e-5, atol=1e-6)
    elif isinstance(expected, tuple | list):
        assert type(expected) is type(actual) and len(expected) == len(actual), (expected, actual)
        for e, a in zip(expected, actual, strict=True):
            same(e, a)
    else:
        assert expected == actual, (expected, actual)


def test_pieces_are_made_at_once_where_a_result_follows_from_them():
    """Else each has zeros for the others' gradients, and a sum adds them up."""

    def moments(x, w):
        mean, deviation = (x @ w).chunk(2, dim=-1)
        return (mean * deviation).sin(), mean, deviation

    x, w = leaf(4, 3), leaf(3, 6, seed=5)
    _, mean, deviation = minicompile.compile(moments, backend="aot_eager")(x, w)
    assert mean.grad_fn is deviation.grad_fn
    assert (mean.output_nr, deviation.output_nr) == (0, 1)


# --- double backward ----------------------------------------------------------------------------------
def test_gradient_penalty_is_one_clear_error():
    critic, x = minicompile.compile(network(), backend="aot_eager"), leaf(4, 3)
    (gradient,) = torch.autograd.grad(critic(x).sum(), x, create_graph=True)
    assert gradient.requires_grad
    penalty = (gradient.norm(dim=1) - 1).square().mean()
    with pytest.raises(MinicompileError, match="double backward"):
        penalty.backward()


def test_hessian_is_one_clear_error():
    function = minicompile.compile(lambda x: x.sin().sum(), backend="aot_eager")
    with pytest.raises(MinicompileError, match="double backward"):
        torch.autograd.functional.hessian(function, torch.ones(3))


def test_create_graph_without_a_second_backward():
    """Optimizers such as those that only look at gradients: the first backward is right, and nothing raises."""
    model = network()
    twin = network()
    minicompile.compile(model, backend="aot_eager")(torch.ones(2, 3)).sum().backward(create_graph=True)
    twin(torch.ones(2, 3)).sum().backward(create_graph=True)
    for p, q in zip(model.parameters(), twin.parameters(), strict=True):
        torch.testing.assert_close(p.grad, q.grad)


def test_outside_of_the_region_double_backward_works():
    x = leaf(3)
    y = minicompile.compile(lambda x: x * 2, backend="aot_eager")(x).detach().requires_grad_()
    (gradient,) = torch.autograd.grad((y**3).sum(), y, create_graph=True)
    gradient.sum().backward()
    torch.testing.assert_close(y.grad, 6 * y.detach())
