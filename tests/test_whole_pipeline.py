"""Small programs through all stages, default backend: what eager raises, modes, training, the issue's own measure."""

import pytest
import torch
from torch import nn

import minicompile
from minicompile import testing


def test_three_pointwise_operators_are_one_graph_and_one_kernel_bitwise_equal():
    def f(x):
        return x.relu().add(1).mul(2)

    values = torch.tensor([float("nan"), float("inf"), -float("inf"), -0.0, 1e-40, 3.0] * 50)
    testing.check(f, values, exact=True, graphs=1, kernels=1, graph_breaks=0, fallbacks=0)


REJECTED = {
    "a bool tensor is subtracted": lambda x: 1 - (x < 0),
    "the maximum of nothing": lambda x: x[:0].max(),
    "the maximum of nothing, by dimension": lambda x: x[:0].max(0),
    "shapes do not match": lambda x: x + x[:2],
    "an index is out of bounds": lambda x: x[torch.tensor([99])],
    "an integer is divided by zero": lambda x: 1 // (x.long() * 0),
}


@pytest.mark.graph_errors
@pytest.mark.parametrize("function", REJECTED.values(), ids=REJECTED)
def test_what_eager_refuses_raises_eagers_exception(function):
    x = torch.randn(5)
    with pytest.raises(Exception) as eager:
        function(x)
    compiled = minicompile.compile(function)
    for _ in range(2):
        with pytest.raises(type(eager.value)) as ours:
            compiled(x)
        assert str(ours.value) == str(eager.value)


@pytest.mark.graph_errors
def test_an_exception_that_the_graph_raises_meets_the_users_handler():
    def f(x):
        try:
            return 10 // x
        except RuntimeError:
            return x + 2

    compiled = minicompile.compile(f)
    assert [compiled(torch.tensor(v)).item() for v in (1, 0, 5)] == [10, 2, 2]


def test_grad_mode_that_changes_across_a_break():
    def f(x):
        with torch.no_grad():
            a = x * 2
            print(end="")
            b = a * x
        return b, x * 3, torch.is_grad_enabled()

    x = torch.ones(2, requires_grad=True)
    b, c, enabled = minicompile.compile(f)(x)
    assert not b.requires_grad and c.requires_grad and enabled
    c.sum().backward()
    assert x.grad.tolist() == [3.0, 3.0]


def test_a_mode_that_the_function_leaves_set():
    def f(x):
        torch.set_grad_enabled(False)
        with torch.enable_grad():
            a = x * 2
        return a, x * 5

    try:
        a, b = minicompile.compile(f, fullgraph=True)(torch.ones(1, requires_grad=True))
        assert a.requires_grad and not b.requires_grad and not torch.is_grad_enabled()
    finally:
        torch.set_grad_enabled(True)


def test_autocast_inside_and_outside():
    def inside(x, w):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            y = x @ w
        return y, x @ w

    x, w = torch.randn(4, 4), torch.randn(4, 4)
    testing.check(inside, x, w, graphs=1, graph_breaks=0)
    outside = minicompile.compile(lambda x, w: x @ w)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert outside(x, w).dtype == torch.bfloat16
    assert outside(x, w).dtype == torch.float32


def test_batch_norm_in_training_updates_its_buffers_once_a_call():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU())
    testing.check(model, torch.randn(2, 3, 8, 8), graphs=1, graph_breaks=0)


def test_dropout_agrees_with_eager_and_with_its_own_backward():
    x = torch.randn(64, 64, requires_grad=True)
    testing.check(lambda x: nn.functional.dropout(x, 0.5) * x, x, graphs=1, graph_breaks=0)


def test_a_training_loop_with_adamw():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.LayerNorm(16), nn.Linear(16, 1))
    import copy

    twin = copy.deepcopy(model)
    compiled = minicompile.compile(model)
    losses = []
    for run, parameters in ((compiled, model.parameters()), (twin, twin.parameters())):
        torch.manual_seed(1)
        optimizer = torch.optim.AdamW(parameters, lr=0.01)
        losses.append([])
        for _ in range(10):
            x = torch.randn(32, 8)
            loss = (run(x) - x.sum(1, keepdim=True)).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses[-1].append(loss.item())
    assert losses[0] == pytest.approx(losses[1], rel=1e-4) and losses[0][-1] < losses[0][0]
    assert minicompile.stats()["graphs"] == 1
