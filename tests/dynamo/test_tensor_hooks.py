"""A hook on a tensor of the graph reads lists, variables and globals when it is called, not when it is registered."""

import sys

import pytest
import torch

import minicompile
from minicompile import record

FACTOR = 2.0


def reads_a_list(x, a):
    y = x * 2
    y.register_hook(lambda gradient: gradient * a[0])
    a.insert(0, 5.0)
    return y.sum()


def reads_a_variable_set_again(x, a):
    y, k = x * 2, 3
    y.register_hook(lambda gradient: gradient * k)
    k = 7
    return y.sum() + k


def reads_a_loop_variable(x, a):
    for k in range(1, 4):
        x = x * 2
        x.register_hook(lambda gradient: gradient * k)
    return x.sum()


def reads_what_another_sets(x, a):
    y, k = x * 2, 3

    def turn():
        nonlocal k
        k += 1

    y.register_hook(lambda gradient: gradient * k)
    turn()
    return y.sum()


def reads_a_global(x, a):
    y = x * 2
    y.register_hook(lambda gradient: gradient * FACTOR)
    return y.sum()


def reads_an_argument(x, a, k=4):
    y = x * 2
    y.register_hook(lambda gradient: torch.clamp(gradient * k * x.detach(), max=1.0))
    return y.sum()


@pytest.mark.parametrize(
    "fn",
    [
        reads_a_list,
        reads_a_variable_set_again,
        reads_a_loop_variable,
        reads_what_another_sets,
        reads_a_global,
        reads_an_argument,
    ],
)
def test_a_hook_reads_its_variables_when_it_is_called(fn, monkeypatch):
    def gradient(function):
        x = torch.arange(1.0, 4.0, requires_grad=True)
        monkeypatch.setattr(sys.modules[__name__], "FACTOR", 2.0)
        loss = function(x, [1.0])
        monkeypatch.setattr(sys.modules[__name__], "FACTOR", 10.0)
        loss.backward()
        return x.grad

    compiled = minicompile.compile(fn, backend="eager")
    assert torch.equal(gradient(fn), gradient(compiled)) and torch.equal(gradient(fn), gradient(compiled))
    assert bool(record.break_reasons["tensor hook"]) is (fn is not reads_an_argument)
