"""What an operator was traced to is copied for the next one of the same form: and for no other."""

import pytest
import torch
import torch.nn.functional as F

import minicompile
from minicompile import aot
from minicompile.aot import functionalize
from minicompile.testing import check


@pytest.fixture
def runs(monkeypatch):
    """The operators that were traced, not copied."""
    seen, original = [], functionalize.FunctionalMode.trace

    def trace(self, func, types, args, kwargs):
        seen.append(str(func))
        return original(self, func, types, args, kwargs)

    monkeypatch.setattr(functionalize.FunctionalMode, "trace", trace)
    return seen


def test_equal_layers_are_traced_once(runs):
    def layers(count):
        runs.clear()
        body = torch.nn.Sequential(*(torch.nn.Sequential(torch.nn.LayerNorm(8), torch.nn.GELU()) for _ in range(count)))
        graph = torch.fx.symbolic_trace(body)
        x = torch.randn(4, 8, requires_grad=True)
        text = str(aot.trace(graph, [x]))
        return len([op for op in runs if "layer_norm" in op or "gelu" in op]), text.count("erf")

    assert layers(2)[0] == layers(6)[0] == 4
    assert layers(6)[1] > layers(2)[1]


PAIRS = {
    "numbers": lambda x, y: F.elu(x, 1.0) + F.elu(x, 2.0),
    "zeros": lambda x, y: torch.copysign(x, 0.0) + 2 * torch.copysign(x, -0.0),
    "kinds of numbers": lambda x, y: torch.add(x.long(), 2).float() + torch.add(x.long(), 2.5),
    "one tensor or two": lambda x, y: F.mse_loss(x, x) + F.mse_loss(x, y) + F.mse_loss(y, x),
    "order": lambda x, y: F.smooth_l1_loss(x, y) + torch.sub(x, y) + torch.sub(y, x),
    "strides": lambda x, y: F.layer_norm(x, (4,)) + F.layer_norm(y.t(), (4,)) + F.layer_norm(x, (4,)).t(),
    "offsets": lambda x, y: F.gelu(x[1:]) + F.gelu(x[:-1]),
    "dtypes": lambda x, y: F.gelu(x.double()).float() + F.gelu(x),
    "keywords": lambda x, y: F.gelu(x, approximate="tanh") + F.gelu(x) + F.gelu(x, approximate="none"),
    "written in between": lambda x, y: F.gelu(z := x.clone()) + F.gelu(z.mul_(2)) + F.gelu(z),
    "views written": lambda x, y: (z := y.clone(), z[0].zero_(), F.silu(z), z.t().add_(1), F.silu(z))[-1],
    "constants": lambda x, y: F.gelu(torch.tensor(1.0)) + F.gelu(torch.tensor(2.0)) + x,
    "results that are arguments": lambda x, y: F.dropout(x, 0.5, False).mul(2) + F.dropout(y, 0.5, False),
    "several results": lambda x, y: torch.var_mean(x)[0] + torch.var_mean(y)[1] * torch.var_mean(x)[1],
    "list of results": lambda x, y: sum(torch._foreach_add([x, y], 1)) + sum(torch._foreach_add([y, x], 1)),
}


@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.parametrize("name", PAIRS)
def test_what_differs_is_not_taken_for_the_same(name, grad):
    x, y = torch.randn(4, 4), torch.randn(4, 4)
    check(PAIRS[name], x.requires_grad_(grad), y.requires_grad_(grad))


def test_every_draw_is_a_draw():
    check(lambda x: (F.dropout(x, 0.5), F.dropout(x, 0.5), torch.rand_like(x), torch.rand_like(x)), torch.ones(64))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_inside_of_autocast_rules_are_others(dtype):
    def both(x):
        outside = F.gelu(x) + F.smooth_l1_loss(x, x.relu())
        with torch.autocast("cpu", dtype):
            inside = F.gelu(x) + F.smooth_l1_loss(x, x.relu()), x @ x
        return outside, inside, F.gelu(x), x @ x

    check(both, torch.randn(4, 4))


def test_symbolic_sizes_are_left_to_the_trace():
    def both(x):
        return F.gelu(x) + F.gelu(x + 1), F.layer_norm(x, (4,)) + F.layer_norm(x * 2, (4,))

    check(both, torch.randn(3, 4), compiler=lambda fn: minicompile.compile(fn, dynamic=True))
