"""Backward of some of the results of a compiled region, then of others: as in eager, where each has its own graph.

Scenarios as in `autograd_scenarios.py`, which lists them all.
"""

import torch
from autograd_scenarios import failure, leaf, network, scenario
from torch import nn
from torch.nn import functional as F


def second_time(function):
    return (failure(function) or ("", ""))[1].startswith("Trying to backward through the graph a second time")


# --- what may follow what -----------------------------------------------------------------------------
@scenario
def independent_results(compiler):
    x = leaf(3)
    y, z = compiler(lambda x: (x.sin(), x.cos()))(x)
    z.sum().backward()
    first = x.grad.clone()
    y.sum().backward()
    return first, x.grad, second_time(y.sum().backward), second_time(z.sum().backward)


@scenario
def shared_operator_that_saves(compiler):
    def fn(x):
        h = x.exp()
        return h.sin(), h.cos()

    x = leaf(3)
    y, z = compiler(fn)(x)
    y.sum().backward()
    return second_time(z.sum().backward), x.grad


@scenario
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


@scenario
def product_with_a_number(compiler):
    """Eager saves the number, so it refuses the second backward, although nothing that is kept is needed for it."""
    x = leaf(3)
    y = compiler(lambda x: x * 2)(x)
    y.sum().backward()
    return second_time(y.sum().backward)


def chain(x, w):
    a, b = x.exp(), w.exp()
    return a.sin(), a * b, b.cos()


@scenario
def chain_of_shared_operators(compiler):
    """The first and the last share none."""
    seen = []
    for first, second in ((0, 2), (2, 0), (0, 1), (1, 2), (1, 0)):
        results = compiler(chain)(leaf(3), leaf(3, seed=5))
        results[first].sum().backward()
        seen.append(second_time(results[second].sum().backward))
    return seen


@scenario
def retained(compiler):
    x = leaf(3)
    y, z = compiler(lambda x: (x.sin(), x.cos()))(x)
    for result, retain in ((y, True), (y, False), (z, True), (z, True), (z, False)):
        result.sum().backward(retain_graph=retain)
    return x.grad, second_time(y.sum().backward), second_time(z.sum().backward)


@scenario
def all_at_once_and_then_one(compiler):
    x = leaf(3)
    y, z = compiler(lambda x: (x.sin(), x.cos()))(x)
    (y + z).sum().backward()
    return x.grad, second_time(y.sum().backward)


@scenario
def halves_of_one_tensor(compiler):
    x = leaf(4, 6)
    mean, variance = compiler(lambda x: [t.exp() for t in x.chunk(2, 1)])(x)
    mean.sum().backward()
    first = x.grad.clone()
    variance.sum().backward()
    return first, x.grad


@scenario
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


@scenario
def rows_of_what_was_concatenated(compiler):
    def fn(x, w):
        rows = torch.cat([x, w]).unbind(0)
        return rows[0].sin(), rows[4].cos(), (x * w).relu()

    x, w = leaf(3, 4), leaf(3, 4, seed=9)
    for result in compiler(fn)(x, w):
        result.sum().backward()
    return x.grad, w.grad


@scenario
def one_by_one(compiler):
    """More combinations than are compiled."""
    x = leaf(12)
    for result in compiler(lambda x: tuple(x[i].sin() * x for i in range(12)))(x):
        result.sum().backward()
    return x.grad


@scenario
def infinite_slope_of_the_other(compiler):
    """Zeros in the place of a missing gradient would become nan."""
    x = torch.tensor([0.0, 1.0], requires_grad=True)
    y, _ = compiler(lambda x: (x * 2, x.log()))(x)
    y.sum().backward()
    return x.grad


@scenario
def gradient_of_zeros_and_none(compiler):
    x, w = leaf(3), leaf(3, seed=5)
    y, _ = compiler(lambda x, w: (x.sign(), w.sin()))(x, w)
    y.sum().backward()
    return x.grad, w.grad


@scenario
def results_changed_between(compiler):
    """Only what the second backward reads was changed."""
    x = leaf(3)
    y, z = compiler(lambda x: (x.exp(), (x * 3).exp()))(x)
    total, other = y.sum(), z.sum()
    z.mul_(2)
    total.backward()
    return x.grad, failure(other.backward)[1].startswith("one of the variables needed for gradient computation")


@scenario
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


# --- as people train ----------------------------------------------------------------------------------
@scenario
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


@scenario
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


@scenario
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


# --- inputs that only some results depend on ------------------------------------------------------------
@scenario
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


@scenario
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


@scenario
def all_at_once_where_inputs_are_of_some(compiler):
    x, w = leaf(3), leaf(3, seed=4)
    y, z = compiler(lambda x, w: (x.exp(), w.cos() + x))(x.sin(), w.sin())
    (y * z).sum().backward()
    return x.grad, w.grad, second_time(y.sum().backward), second_time(z.sum().backward)


@scenario
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


@scenario
def input_that_gets_no_gradient(compiler):
    """Its own graph, which has been freed, is not run again, and its hooks are not called."""
    x, w, called = leaf(3), leaf(3, seed=4), []
    h = (x * w).exp()
    h.sum().backward()
    h.grad_fn.register_hook(lambda *grads: called.append(grads))
    y = compiler(lambda h, w: h.detach() * w.sin())(h, w)
    y.sum().backward()
    return x.grad, w.grad, called


class OneGradient(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, y):
        return x * y

    @staticmethod
    def backward(ctx, gradient):
        return gradient, None


@scenario
def input_without_a_gradient_that_autograd_gets_to(compiler):
    """Its hooks are called, and find none."""
    x, w, called = leaf(3), leaf(3, seed=4), []
    h = w.sin()
    h.grad_fn.register_hook(lambda of_inputs, of_outputs: called.append(of_outputs[0] is None))
    compiler(lambda x, h: OneGradient.apply(x, h) * 2)(x, h).sum().backward()
    return x.grad, w.grad, called


@scenario
def gradients_in_memory_of_their_own(compiler):
    """Who writes one, as `clip_grad_norm_` does, does not write another, nor what was given in."""
    seen = []
    for fn in (
        lambda a, b: a + b.view(3, 3),
        lambda a, b: a * 1 + b.view(3, 3) * 1,
        lambda a, b: a * 2 + b.view(3, 3) * 2,
        lambda a, b: a / 1 + b.reshape(3, 3).t() / 1,
    ):
        a, b, given = leaf(3, 3), leaf(9), torch.ones(3, 3)
        y = compiler(fn)(a, b)
        (y * given).backward(given, retain_graph=True)
        of_a, of_b = torch.autograd.grad(y * 1, [a, b], given)
        for written in (a.grad, b.grad):  # what `autograd.grad` gives may share memory in eager
            written.mul_(3)
            seen += [a.grad.clone(), b.grad.clone(), of_a.clone(), of_b.clone(), given.clone()]
    return seen
