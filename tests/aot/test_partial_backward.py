"""Backward of some of the results of a compiled region, then of others: as in eager, where each has its own graph."""

import gc
import weakref

import pytest
import torch
from autograd_scenarios import failure, leaf, network
from torch import nn
from torch.nn import functional as F

import minicompile
from minicompile import aot, config
from minicompile.aot import partial

PROGRAMS = []


def program(function):
    PROGRAMS.append(function)
    return function


def second_time(function):
    return (failure(function) or ("", ""))[1].startswith("Trying to backward through the graph a second time")


# --- what may follow what -----------------------------------------------------------------------------
@program
def independent_results(compiler):
    x = leaf(3)
    y, z = compiler(lambda x: (x.sin(), x.cos()))(x)
    z.sum().backward()
    first = x.grad.clone()
    y.sum().backward()
    return first, x.grad, second_time(y.sum().backward), second_time(z.sum().backward)


@program
def shared_operator_that_saves(compiler):
    def fn(x):
        h = x.exp()
        return h.sin(), h.cos()

    x = leaf(3)
    y, z = compiler(fn)(x)
    y.sum().backward()
    return second_time(z.sum().backward), x.grad


@program
def shared_operator_that_saves_nothing(compiler):
    def fn(x):
        h = x + 1
        return h.sum(), h.cos()

    x = leaf(3)
    y, z = compiler(fn)(x)
    y.backward()
    z.sum().backward()
    y.backward()
    return second_time(z.sum().backward), x.grad


@program
def product_with_a_number(compiler):
    """Eager saves the number, so it refuses the second backward, although nothing that is kept is needed for it."""
    x = leaf(3)
    y = compiler(lambda x: x * 2)(x)
    y.sum().backward()
    return second_time(y.sum().backward)


def chain(x, w):
    a, b = x.exp(), w.exp()
    return a.sin(), a * b, b.cos()


@program
def chain_of_shared_operators(compiler):
    """The first and the last share none."""
    seen = []
    for first, second in ((0, 2), (2, 0), (0, 1), (1, 2), (1, 0)):
        results = compiler(chain)(leaf(3), leaf(3, seed=5))
        results[first].sum().backward()
        seen.append(second_time(results[second].sum().backward))
    return seen


@program
def retained(compiler):
    x = leaf(3)
    y, z = compiler(lambda x: (x.sin(), x.cos()))(x)
    for result, retain in ((y, True), (y, False), (z, True), (z, True), (z, False)):
        result.sum().backward(retain_graph=retain)
    return x.grad, second_time(y.sum().backward), second_time(z.sum().backward)


@program
def all_at_once_and_then_one(compiler):
    x = leaf(3)
    y, z = compiler(lambda x: (x.sin(), x.cos()))(x)
    (y + z).sum().backward()
    return x.grad, second_time(y.sum().backward)


@program
def halves_of_one_tensor(compiler):
    x = leaf(4, 6)
    mean, variance = compiler(lambda x: [t.exp() for t in x.chunk(2, 1)])(x)
    mean.sum().backward()
    first = x.grad.clone()
    variance.sum().backward()
    return first, x.grad


@program
def halves_of_a_symbolic_size(compiler):
    function = compiler(lambda x: [t.exp() for t in x.chunk(2, 1)])
    seen = []
    for rows in (4, 5, 7):
        x = leaf(rows, 6)
        mean, variance = function(x)
        variance.sum().backward()
        seen.append(x.grad.clone())
        mean.sum().backward()
        seen.append(x.grad)
    return seen


@program
def rows_of_what_was_concatenated(compiler):
    def fn(x, w):
        rows = torch.cat([x, w]).unbind(0)
        return rows[0].sin(), rows[4].cos(), (x * w).relu()

    x, w = leaf(3, 4), leaf(3, 4, seed=9)
    for result in compiler(fn)(x, w):
        result.sum().backward()
    return x.grad, w.grad


@program
def one_by_one(compiler):
    """More combinations than are compiled."""
    x = leaf(12)
    for result in compiler(lambda x: tuple(x[i].sin() * x for i in range(12)))(x):
        result.sum().backward()
    return x.grad


@program
def infinite_slope_of_the_other(compiler):
    """Zeros in the place of a missing gradient would become nan."""
    x = torch.tensor([0.0, 1.0], requires_grad=True)
    y, _ = compiler(lambda x: (x * 2, x.log()))(x)
    y.sum().backward()
    return x.grad


@program
def gradient_of_zeros_and_none(compiler):
    x, w = leaf(3), leaf(3, seed=5)
    y, _ = compiler(lambda x, w: (x.sign(), w.sin()))(x, w)
    y.sum().backward()
    return x.grad, w.grad


@program
def results_changed_between(compiler):
    """Only what the second backward reads was changed."""
    x = leaf(3)
    y, z = compiler(lambda x: (x.exp(), (x * 3).exp()))(x)
    total, other = y.sum(), z.sum()
    z.mul_(2)
    total.backward()
    return x.grad, failure(other.backward)[1].startswith("one of the variables needed for gradient computation")


@program
def written_input_and_result(compiler):
    def fn(x, w):
        x.mul_(w)
        return w.exp()

    w, x = leaf(3), leaf(3, seed=4) + 0
    y = compiler(fn)(x, w)
    y.sum().backward()
    first = w.grad.clone()
    x.sum().backward()
    return first, w.grad


@program
def offloaded(compiler):
    x = leaf(3)
    with torch.autograd.graph.save_on_cpu():
        y, z = compiler(lambda x: (x.exp(), x.cos()))(x)
    y.sum().backward()
    z.sum().backward()
    return x.grad


# --- as people train ----------------------------------------------------------------------------------
@program
def discriminator(compiler):
    """The losses of real and of generated data, each with its own backward."""
    model = nn.Sequential(nn.Linear(3, 4), nn.LeakyReLU(0.2), nn.Dropout(0.5), nn.Linear(4, 1))
    for k, p in enumerate(model.parameters()):
        nn.init.constant_(p, 0.1 * (k + 1))

    def losses(real, fake):
        scores = model.eval()(real), model(fake)
        return [F.binary_cross_entropy_with_logits(s, torch.full_like(s, k)) for k, s in enumerate(scores)]

    d_real, d_fake = compiler(losses)(leaf(5, 3).detach(), leaf(5, 3, seed=4).detach())
    d_real.backward()
    first = [p.grad.clone() for p in model.parameters()]
    d_fake.backward()
    return first, [p.grad for p in model.parameters()]


@program
def actor_and_critic(compiler):
    """A shared trunk: the first loss retains; two optimizers step on their own parameters."""
    trunk, actor, critic = (network() for _ in range(3))
    trunk[2], actor[0], critic[0] = nn.Linear(4, 3), nn.Linear(3, 4), nn.Linear(3, 4)
    for module in (trunk, actor, critic):
        for p in module.parameters():
            nn.init.constant_(p, 0.3)
    optimizers = [torch.optim.SGD([*m.parameters(), *trunk.parameters()], 0.1) for m in (actor, critic)]

    def act(state):
        h = trunk(state)
        return actor(h).log_softmax(1), critic(h)[:, 0]

    function, seen = compiler(act), []
    for step in range(3):
        policy, value = function(leaf(6, 3, seed=step).detach())
        advantage = (1 - value).detach()
        for optimizer in optimizers:
            optimizer.zero_grad()
        (-(policy[:, 0] * advantage).mean()).backward(retain_graph=True)
        seen.append([p.grad.clone() for p in trunk.parameters()])
        (1 - value).square().mean().backward()
        seen += [[p.grad.clone() for p in m.parameters()] for m in (trunk, actor, critic)]
        for optimizer in optimizers:
            optimizer.step()
    return seen


@program
def tasks_one_after_the_other(compiler):
    """Losses that share the trunk: the gradients of the trunk by task, then the heads'."""
    trunk, heads = network(), [nn.Linear(2, 1), nn.Linear(2, 3)]
    for p in [p for m in (trunk, *heads) for p in m.parameters()]:
        nn.init.constant_(p, 0.2)

    def losses(x):
        h = trunk(x)
        return heads[0](h).square().mean(), heads[1](h).log_softmax(1)[:, 0].mean()

    results = compiler(losses)(leaf(5, 3).detach())
    shared = [torch.autograd.grad(r, list(trunk.parameters()), retain_graph=True) for r in results]
    own = [torch.autograd.grad(r, list(m.parameters()), retain_graph=True) for r, m in zip(results, heads, strict=True)]
    results[1].backward()
    return shared, own, second_time(results[0].backward)


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
@pytest.mark.parametrize("scenario", PROGRAMS, ids=lambda f: f.__name__)
def test_as_in_eager(scenario, backend):
    expected = scenario(lambda fn: fn)
    actual = scenario(lambda fn: minicompile.compile(fn, backend=backend))
    torch.testing.assert_close(actual, expected, rtol=1e-5, atol=1e-6)


# --- what is kept, and until when -----------------------------------------------------------------------
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
    assert alive_after(lambda a, b, w: (a * b * w, b * w), [0, 1]) == [[True, True], [False, True], [False, False]]
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
    assert [n.name for n in part.gm.graph.nodes if n.op == "placeholder"] == ["x", "tangent_0"]
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
