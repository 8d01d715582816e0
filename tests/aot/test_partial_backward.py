"""Backward of some of the results of a compiled region: what is kept, and until when.

That it gives what eager gives: `partial_scenarios.py`.
"""

import gc
import weakref

import pytest
import torch
from autograd_scenarios import leaf

import minicompile
from minicompile import aot, config
from minicompile.aot import partial


def alive_after(fn, uses):
    """Which of the inputs are alive after the call, and after the backward of each of these results."""
    inputs = [torch.full((3,), 1.0 + k) for k in range(2)]
    results = minicompile.compile(fn, backend="aot_eager")(*inputs, leaf(3))
    watched = [weakref.ref(t) for t in inputs]
    del inputs
    seen = [[r() is not None for r in watched]]
    for use in uses:
        results[use].sum().backward()
        seen.append([r() is not None for r in watched])
    return seen


def test_what_only_seen_results_read_is_freed():
    assert alive_after(lambda a, b, w: (a * w, b * w), [0, 1]) == [[True, True], [False, True], [False, False]]
    # autograd keeps a product of data, not what it was made of
    assert alive_after(lambda a, b, w: (a * b * w, b * w), [0, 1]) == [[False, True], [False, True], [False, False]]
    assert alive_after(lambda a, b, w: (a * w + b * w, w.exp()), [0]) == [[True, True], [False, False]]


@pytest.mark.parametrize("used", [(), (0,), (0, 1)])
def test_nothing_outlives_the_graph(used):
    """Results are among what is saved; no cycle may hold them."""
    gc.disable()
    try:
        x = leaf(3) + 0
        watched = weakref.ref(x)
        results = minicompile.compile(lambda x: (x.exp(), x.tanh()), backend="aot_eager")(x)
        for k in used:
            results[k].sum().backward()
        del x, results
        assert watched() is None
    finally:
        gc.enable()


def graph_of(fn, *inputs):
    return aot.trace(torch.fx.symbolic_trace(fn), list(inputs))


def test_a_region_whose_results_share_what_is_saved_is_one_node():
    """The usual case saves as ever: no tensor is kept by two nodes."""
    graph = graph_of(lambda x: (x.exp().sin(), x.exp().sum()), leaf(3))
    assert graph.frees == [{0}, {1}]
    x = leaf(3)
    y, z = minicompile.compile(lambda x: (lambda h: (h.sin(), h.sum()))(x.exp()), backend="aot_eager")(x)
    assert y.grad_fn is z.grad_fn and len(y.grad_fn.saved_tensors) == 1 and not hasattr(y.grad_fn, "keepers")


def test_the_part_of_a_backward():
    graph = graph_of(lambda x, w: (x.exp() + w, torch.cat([x.sin(), w])), leaf(3), leaf(3))
    part = partial.part(graph, frozenset([1]))
    assert [n.name for n in part.gm.graph.nodes if n.op == "placeholder"] == ["exp", "tangent_0"]
    assert part.grads == [(0, 0), (1, 1)] and "cat" not in part.gm.code and "add" not in part.gm.code
    other = partial.part(graph, frozenset([0]))
    assert "exp" not in other.gm.code and "tangent_0" not in other.gm.code


def test_zeros_are_made_where_an_operator_joins():
    graph = graph_of(lambda x: (lambda halves: (halves[0].exp(), halves[1].exp()))(x.chunk(2, 1)), leaf(2, 4))
    for absent in (0, 1):
        part = partial.part(graph, frozenset([absent]))
        code = part.gm.code
        assert code.count("aten.full.default([2, 2], 0") == 1 and f"tangent_{absent}" not in code


def test_one_backward_is_compiled_for_each_combination():
    x, compiled = leaf(3), []
    gm = torch.fx.symbolic_trace(lambda x: (x.sin(), x.cos(), x.exp()))

    def backward_compiler(gm, inputs):
        compiled.append(gm)
        return gm

    with config.patch(recompile_limit=2):
        function = aot.compile(gm, [x], forward_compiler=lambda gm, inputs: gm, backward_compiler=backward_compiler)
        for _ in range(2):
            for result in function(x):
                result.sum().backward()
    torch.testing.assert_close(x.grad, 2 * (x.cos() - x.sin() + x.exp()).detach())
    assert len(compiled) == 2


def test_one_node_where_it_makes_no_difference():
    fn = minicompile.compile(lambda x, w: (x.exp(), w.cos()), backend="aot_eager")
    x, w = leaf(3), leaf(3)
    y, z = fn(x, w)
    assert y.grad_fn is z.grad_fn
    y, z = fn(x.sin(), w)
    assert y.grad_fn is not z.grad_fn


def test_some_inputs_need_a_part_that_is_compiled_when_it_is_asked_for_again():
    compiled = []

    def backward_compiler(gm, inputs):
        compiled.append([n.target for n in gm.graph.nodes].count(torch.ops.aten.mm.default))
        return gm

    x, w = leaf(3, 4), leaf(4, 3)
    gm = torch.fx.symbolic_trace(lambda x, w: (x @ w).sin())
    function = aot.compile(gm, [x, w], forward_compiler=lambda gm, inputs: gm, backward_compiler=backward_compiler)
    for count in (0, 1, 1):
        (y,) = function(x, w)
        (gradient,) = torch.autograd.grad(y.sum(), x)
        torch.testing.assert_close(gradient, (x @ w).cos().detach() @ w.detach().t())
        assert compiled == [1] * count
    function(x, w)[0].sum().backward()
    assert compiled == [1, 2]
