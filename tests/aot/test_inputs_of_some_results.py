"""Inputs that only some results depend on: what is in front of them is left until those results have their backward."""

import pytest
import torch
from autograd_scenarios import failure, leaf
from test_partial_backward import second_time

import minicompile

PROGRAMS = []


def program(function):
    PROGRAMS.append(function)
    return function


@program
def inputs_of_some_results_only(compiler):
    """What is in front of the other result is left for its own backward."""
    seen = []
    for first, second in ((0, 1), (1, 0)):
        x, w, p = leaf(3), leaf(3, seed=4), leaf(3, seed=5)
        results = compiler(lambda x, w, p: (x.exp() * p, (w + 1).cos() * p))(x.sin(), w.sin(), p)
        results[first].sum().backward()
        seen += [x.grad is None, w.grad is None, p.grad.clone()]
        results[second].sum().backward()
        seen += [x.grad, w.grad, p.grad, second_time(results[first].sum().backward)]
    return seen


@program
def inputs_of_some_results_and_of_all(compiler):
    """The first two share an operator that saves, so that one node is for both."""

    def fn(a, b, c, d):
        shared = a.exp()
        return shared * b, shared.sin(), c.sin() + d, d * 1.0

    seen, leaves = [], [leaf(3, seed=k) for k in range(4)]
    for order in ((0, 3, 2), (2, 1), (3, 2, 0), (1, 0)):
        results = compiler(fn)(*(t.tanh() for t in leaves))
        for k in order:
            seen.append(failure(results[k].sum().backward) is None)
            seen.append([None if t.grad is None else t.grad.clone() for t in leaves])
    return seen


@program
def all_at_once_where_inputs_are_of_some(compiler):
    x, w = leaf(3), leaf(3, seed=4)
    y, z = compiler(lambda x, w: (x.exp(), w.cos() + x))(x.sin(), w.sin())
    (y * z).sum().backward()
    return x.grad, w.grad, second_time(y.sum().backward), second_time(z.sum().backward)


@program
def written_inputs_of_some(compiler):
    def fn(x, w):
        x.mul_(2)
        return x.exp(), w.sin(), w > 0

    x, w = leaf(3), leaf(3, seed=4)
    h = x.sin()
    y, z, mask = compiler(fn)(h, w.sin())
    z.sum().backward()
    (y.sum() + h.sum()).backward()
    return x.grad, w.grad, mask


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
@pytest.mark.parametrize("scenario", PROGRAMS, ids=lambda f: f.__name__)
def test_as_in_eager(scenario, backend):
    expected = scenario(lambda fn: fn)
    actual = scenario(lambda fn: minicompile.compile(fn, backend=backend))
    torch.testing.assert_close(actual, expected, rtol=1e-5, atol=1e-6)


def test_one_node_where_it_makes_no_difference():
    fn = minicompile.compile(lambda x, w: (x.exp(), w.cos()), backend="aot_eager")
    x, w = leaf(3), leaf(3)
    y, z = fn(x, w)
    assert y.grad_fn is z.grad_fn
    y, z = fn(x.sin(), w)
    assert y.grad_fn is not z.grad_fn
