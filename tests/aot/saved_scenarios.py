"""What autograd keeps of a compiled region, and hooks that pack it: scenarios as in `autograd_scenarios.py`."""

import weakref

import torch
from autograd_scenarios import failure, leaf, network, scenario
from torch.utils.checkpoint import checkpoint


@scenario
def save_on_cpu(compiler):
    model, x = network(), leaf(2, 3)
    with torch.autograd.graph.save_on_cpu():
        out = compiler(model)(x)
    out.sum().backward()
    return [p.grad for p in model.parameters()], x.grad


@scenario
def offloaded(compiler):
    x = leaf(3)
    with torch.autograd.graph.save_on_cpu():
        y, z = compiler(lambda x: (x.exp(), x.cos()))(x)
    y.sum().backward()
    z.sum().backward()
    return x.grad


@scenario
def packed_tensors(compiler):
    """Hooks that replace what is saved: the backward reads what unpack gives."""
    x = leaf(3)
    with torch.autograd.graph.saved_tensors_hooks(lambda t: t * 2, lambda t: t):
        out = compiler(lambda x: (x * x.detach()).sum())(x)
    out.backward()
    return x.grad


@scenario
def packing_that_raises(compiler):
    """The exception is the hook's, which ran once."""
    calls, x = [], leaf(3)

    def refuse(t):
        calls.append(tuple(t.shape))
        raise ValueError("not kept")

    with torch.autograd.graph.saved_tensors_hooks(refuse, lambda t: t):
        return failure(lambda: compiler(lambda x: x.sin())(x)), calls


@scenario
def checkpoint_around_compiled(compiler):
    """Its second forward stops, by an exception, when everything is there that the backward reads."""
    seen = []
    for options in ({"use_reentrant": False}, {"use_reentrant": True}):
        layers, x = [compiler(network()) for _ in range(2)], leaf(5, 3)
        y = checkpoint(lambda x, layers=layers: layers[1](layers[0](x).sum(1, keepdim=True) * x), x, **options)
        y.square().sum().backward()
        seen += [x.grad, *(p.grad for layer in layers for p in layer.parameters())]
    return seen


@scenario
def saving_disabled(compiler):
    x = leaf(3)

    def call():
        with torch.autograd.graph.disable_saved_tensors_hooks("not here"):
            with torch.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t):
                return compiler(lambda x: x.sin())(x)

    return failure(call)


@scenario
def memory_is_freed(compiler):
    """After the backward nothing keeps the saved tensors alive."""
    w = leaf(3)
    x = torch.ones(3)
    out = compiler(lambda x, w: (x * w).sum())(x, w)
    alive = weakref.ref(x)
    del x
    kept = alive() is not None
    out.backward()
    return kept, alive() is None
