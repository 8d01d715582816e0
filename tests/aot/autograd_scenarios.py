"""What autograd does around a compiled region: hooks, accumulation, saved tensors.

Each scenario is a function of a compiler: it builds its own tensors and modules, and returns what can be seen.
"""

import torch
from torch import nn


def leaf(*shape, seed=2):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).requires_grad_()


def failure(function):
    """The exception that the function raises, as (type, text)."""
    try:
        function()
    except Exception as error:
        return type(error).__name__, str(error)
    return None


def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))


SCENARIOS = []


def scenario(function):
    SCENARIOS.append(function)
    return function


# --- scenarios ----------------------------------------------------------------------------------------
@scenario
def retain_graph(compiler):
    x = leaf(3)
    out = compiler(lambda x: (x.sin() * x).sum())(x)
    seen = []
    for _ in range(3):
        out.backward(retain_graph=True)
        seen.append(x.grad.clone())
    return seen


@scenario
def backward_twice(compiler):
    x = leaf(3)
    out = compiler(lambda x: (x.sin() * x).sum())(x)
    out.backward()
    return failure(out.backward), x.grad


@scenario
def backward_twice_of_a_sum(compiler):
    """Nothing is saved in eager: a second backward is allowed."""
    x = leaf(3)
    out = compiler(lambda x: x.sum())(x)
    out.backward()
    return failure(out.backward), x.grad


@scenario
def accumulation(compiler):
    model, x = network(), leaf(5, 3)
    function = compiler(model)
    for scale in (1.0, 0.5):
        (function(x) * scale).sum().backward()
    return [p.grad for p in model.parameters()], x.grad


@scenario
def accumulation_is_in_place(compiler):
    """`grad` stays one tensor while it is added to."""
    model = network()
    function = compiler(model)
    function(torch.ones(2, 3)).sum().backward()
    first = [p.grad for p in model.parameters()]
    function(torch.ones(2, 3)).sum().backward()
    return [p.grad is g for p, g in zip(model.parameters(), first, strict=True)]


@scenario
def gradients_do_not_share_memory(compiler):
    x, y = leaf(3), leaf(3, seed=3)
    compiler(lambda x, y: x + y)(x, y).sum().backward()
    x.grad.mul_(2)
    return x.grad, y.grad


@scenario
def two_outputs_one_used(compiler):
    x, y = leaf(3), leaf(3, seed=3)
    a, b = compiler(lambda x, y: (x.sin(), y.cos()))(x, y)
    used = torch.autograd.grad(b.sum(), [x, y], allow_unused=True, retain_graph=True)
    return used, failure(lambda: torch.autograd.grad(a.sum(), [y]))


@scenario
def two_outputs_one_after_the_other(compiler):
    x = leaf(3)
    a, b = compiler(lambda x: (x.sin(), (x * x).cos()))(x)
    first = torch.autograd.grad(a.sum(), x, retain_graph=True)
    return first, torch.autograd.grad(b.sum(), x)


@scenario
def gradient_of_one_of_many(compiler):
    model, x = network(), leaf(5, 3)
    out = compiler(model)(x)
    return torch.autograd.grad(out.sum(), [model[0].weight, x])


@scenario
def is_grads_batched(compiler):
    """Which needs vmap over the backward."""
    x = leaf(3)
    out = compiler(lambda x: x.sin() * 2)(x)
    return torch.autograd.grad(out, x, torch.eye(3), is_grads_batched=True)


@scenario
def no_gradient_for_frozen(compiler):
    model = network()
    model[0].weight.requires_grad_(False)
    compiler(model)(torch.ones(2, 3)).sum().backward()
    return [p.grad for p in model.parameters()]


@scenario
def hook_on_output(compiler):
    x, seen = leaf(3), []
    out = compiler(lambda x: x.sin())(x)
    out.register_hook(lambda g: seen.append(("output", g.clone())) or g * 3)
    x.register_hook(lambda g: seen.append(("input", g.clone())) or g * 2)
    out.retain_grad()
    out.sum().backward()
    return seen, x.grad, out.grad


@scenario
def hook_on_parameters(compiler):
    model, seen = network(), []
    for name, parameter in model.named_parameters():
        parameter.register_hook(lambda g, name=name: seen.append((name, g.clone())) or g * 2)
        parameter.register_post_accumulate_grad_hook(
            lambda p, name=name: seen.append((f"after {name}", p.grad.clone()))
        )
    compiler(model)(torch.ones(2, 3)).sum().backward()
    return sorted(seen, key=lambda entry: entry[0]), [p.grad for p in model.parameters()]


@scenario
def optimizer_in_backward(compiler):
    """Each parameter is stepped and its gradient freed as soon as it is there."""
    model = network()
    optimizers = {p: torch.optim.SGD([p], 0.1) for p in model.parameters()}

    def step(parameter):
        optimizers[parameter].step()
        optimizers[parameter].zero_grad()

    for parameter in model.parameters():
        parameter.register_post_accumulate_grad_hook(step)
    function = compiler(model)
    losses = []
    for _ in range(3):
        loss = function(torch.ones(2, 3)).square().sum()
        loss.backward()
        losses.append(loss.detach())
    return losses, list(model.parameters()), [p.grad for p in model.parameters()]


@scenario
def hook_on_grad_fn(compiler):
    x, seen = leaf(3), []
    out = compiler(lambda x: x.sin())(x)
    out.grad_fn.register_prehook(lambda grads: seen.append(grads[0].clone()))
    out.grad_fn.register_hook(lambda inputs, outputs: seen.append(len(outputs)))
    out.sum().backward()
    return seen, x.grad


@scenario
def full_backward_hook(compiler):
    model, seen = network(), []
    model.register_full_backward_hook(lambda module, given, got: seen.append((given, got)))
    model.register_full_backward_pre_hook(lambda module, got: seen.append(got))
    x = leaf(2, 3)
    compiler(model)(x).sum().backward()
    return seen, x.grad


@scenario
def inner_backward_hook(compiler):
    model, seen = network(), []
    model[0].register_full_backward_hook(lambda module, given, got: seen.append(got) or (given[0] * 2,))
    x = leaf(2, 3)
    compiler(model)(x).sum().backward()
    return seen, x.grad


@scenario
def hook_on_intermediate(compiler):
    def fn(x):
        y = x.sin()
        y.register_hook(lambda g: g * 2)
        return y.exp().sum()

    x = leaf(3)
    compiler(fn)(x).backward()
    return x.grad


@scenario
def input_written_after_forward(compiler):
    x, w = torch.arange(3.0), leaf(3)
    out = compiler(lambda x, w: (x * w).sum())(x, w)
    x.add_(1)
    return failure(out.backward)[0]


@scenario
def parameter_written_after_forward(compiler):
    model, x = network(), leaf(2, 3)
    out = compiler(model)(x)
    with torch.no_grad():
        model[2].weight.add_(1)
    return failure(out.sum().backward)[0]


@scenario
def output_written_after_forward(compiler):
    x = leaf(3)
    out = compiler(lambda x: x.exp())(x)
    out.add_(1)
    return failure(out.sum().backward)[0]


@scenario
def anomaly(compiler):
    """A nan in the backward is an error under detect_anomaly."""
    x = torch.zeros(3, requires_grad=True)
    with torch.autograd.detect_anomaly(check_nan=True):
        out = compiler(lambda x: (x.sqrt() * 0).sum())(x)
        kind, text = failure(out.backward)
    return kind, "nan values" in text


@scenario
def anomaly_without_nan(compiler):
    x = leaf(3)
    with torch.autograd.detect_anomaly():
        compiler(lambda x: x.sin().sum())(x).backward()
    return x.grad


@scenario
def detached_output(compiler):
    x = leaf(3)
    out = compiler(lambda x: (x.sin(), x.cos().detach()))(x)
    return [(o.requires_grad, o.grad_fn is None) for o in out], failure(out[1].sum().backward)


@scenario
def no_grad_call(compiler):
    function, x = compiler(lambda x: x.sin()), leaf(3)
    with torch.no_grad():
        first = function(x)
    second = function(x)
    return first.requires_grad, second.requires_grad


@scenario
def backward_in_no_grad(compiler):
    x = leaf(3)
    out = compiler(lambda x: x.sin().sum())(x)
    with torch.no_grad():
        out.backward()
    return x.grad


@scenario
def gradient_inside(compiler):
    """`torch.autograd.grad` inside the compiled function."""

    def fn(x):
        y = (x.sin() * x).sum()
        (g,) = torch.autograd.grad(y, x)
        return g * 2

    return compiler(fn)(leaf(3))


@scenario
def backward_inside(compiler):
    x = leaf(3)

    def fn(x):
        y = x.sin().sum()
        y.backward()
        return y.detach()

    return compiler(fn)(x), x.grad


@scenario
def chained_regions(compiler):
    """Two compiled functions, one after the other, and eager code between them."""
    f, g = compiler(lambda x: x.sin()), compiler(lambda x: x.exp())
    x = leaf(3)
    g(f(x) * 2).sum().backward()
    return x.grad


@scenario
def twice_in_one_backward(compiler):
    f, x = compiler(lambda x: x.sin() * x), leaf(3)
    f(f(x)).sum().backward()
    return x.grad


@scenario
def complex_gradient(compiler):
    x = torch.randn(3, dtype=torch.complex64, generator=torch.Generator().manual_seed(1)).requires_grad_()
    compiler(lambda x: (x * x.conj()).real.sum())(x).backward()
    return x.grad


@scenario
def grad_layout(compiler):
    """Gradients have the strides of their parameter."""
    x = torch.randn(3, 4).t().requires_grad_()
    y = torch.randn(2, 3, 4, 4).to(memory_format=torch.channels_last).requires_grad_()
    (compiler(lambda x, y: (x * 2).sum() + (y.sin()).sum())(x, y)).backward()
    return x.grad.stride(), y.grad.stride()
