"""Small functions through every stage: exact counts, bitwise results, breaks, and errors that are eager's."""

import pytest
import torch
import torch.nn as nn

import minicompile
from minicompile.errors import Unsupported
from minicompile.testing import check


def chain(x):
    return x.relu().add(1).mul(2)


def test_a_chain_is_one_graph_and_one_kernel():
    special = torch.tensor([-0.0, 0.0, torch.nan, torch.inf, -torch.inf, 1e-45, -1.5, 3.0])
    for x in (special, torch.randn(1000), torch.randn(6, 8).t(), torch.randn(8, 8)[::2, ::3], torch.tensor(2.0)):
        counts = {"graphs": 1, "kernels": 1, "graph_breaks": 0, "extern_calls": 0, "fallbacks": 0, "recompiles": 0}
        check(chain, x, exact=True, **counts)


def test_softmax_and_layer_norm_in_one_kernel_each():
    x = torch.randn(32, 65)
    check(lambda x: torch.softmax(x, -1), x, graphs=1, kernels=1, extern_calls=0, fallbacks=0)
    norm = nn.LayerNorm(65).requires_grad_(False)
    check(lambda x: norm(x), x, graphs=1, kernels=1, extern_calls=0, fallbacks=0)


def test_a_write_to_an_argument_reaches_it():
    def update(x, y):
        x.mul_(2)
        y[1:].add_(x[1:])
        return x.sum(), y.view(-1)

    check(update, torch.randn(4, 3), torch.randn(4, 3), graphs=1, graph_breaks=0)


def with_print(x):
    y = torch.sin(x)
    print(end="")
    return torch.cos(y) + 1


def with_item(x):
    scale = x.abs().max().item()
    return x / scale


def with_branch(x):
    if x.sum() > 0:
        return x * 2
    return x - 1


def in_a_loop(x):
    for i in range(3):
        x = x + i
        print(end="")
        x = x * 2
    return x


def under_no_grad(x):
    with torch.no_grad():
        scale = torch.exp(x)
        print(end="")
        scale = scale + 1
    return x * scale


def under_no_grad_then_grad(x):
    with torch.no_grad():
        print(end="")
    return torch.tanh(x) if torch.is_grad_enabled() else x


BREAKS = [with_print, with_item, with_branch, in_a_loop, under_no_grad, under_no_grad_then_grad]


@pytest.mark.parametrize("function", BREAKS)
def test_a_break_changes_nothing_but_speed(function):
    for sign in (1.0, -1.0):
        x = (sign * (torch.rand(5) + 0.1)).requires_grad_()
        counted = check(function, x, also=[(-x.detach(),)])
        assert counted["graphs"] >= 1 and counted["graph_breaks"] >= 1


def test_fullgraph_names_the_break():
    with pytest.raises(Unsupported) as error:
        minicompile.compile(with_print, fullgraph=True)(torch.ones(2))
    assert error.value.kind and error.value.explanation and error.value.hint
    line = with_print.__code__.co_firstlineno + 2
    assert f"test_small.py:{line}" in str(error.value) and "with_print" in str(error.value)


def wrong_shapes(x, y):
    z = x * 2
    return z @ y


def wrong_index(x, table):
    return table["no such key"] + x


@pytest.mark.parametrize("function", [wrong_shapes, wrong_index])
def test_an_error_is_eagers_with_its_line(function):
    check(function, torch.ones(2, 3), torch.ones(4, 5) if function is wrong_shapes else {"key": 1})


def test_a_model_of_two_files_and_a_closure():
    """State in closures, globals, lists and attributes is read and written as in eager."""

    class Counting(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer, self.calls, self.seen = nn.Linear(4, 4), 0, []

        def forward(self, x):
            self.calls += 1
            self.seen.append(x.shape[0])
            return self.layer(x) * len(self.seen)

    model = Counting()
    compiled = minicompile.compile(model)
    for n in range(1, 4):
        x = torch.randn(3, 4)
        torch.testing.assert_close(compiled(x), model.layer(x) * n)
        assert model.calls == n and model.seen == [3] * n
