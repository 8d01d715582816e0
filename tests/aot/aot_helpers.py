"""Compare a program run in eager with the same program behind `aot.compile`."""

import copy

import torch

from minicompile import aot


def run_gm(gm, example_inputs):
    """The simplest compiler: the graph as Python, operator by operator.  It checks that the graph is functional."""
    for node in gm.graph.nodes:
        if isinstance(node.target, torch._ops.OpOverload):
            assert not node.target._schema.is_mutable, f"{node.target} in a functional graph"
    return gm


def backend(decompositions=None, **compilers):
    compilers = {"forward_compiler": run_gm, **compilers}
    return lambda gm, inputs: aot.compile(gm, inputs, decompositions=decompositions, **compilers)


def compiled(fn, decompositions=None, dynamic=False, **compilers):
    torch._dynamo.reset()
    return torch.compile(fn, backend=backend(decompositions, **compilers), dynamic=dynamic, fullgraph=True)


def describe(outputs, inputs):
    """What a user can see of the outputs, except the values: types, layouts, autograd flags, who aliases whom."""
    tensors = [t for t in (*inputs, *outputs) if isinstance(t, torch.Tensor)]
    storages = [t.untyped_storage()._cdata for t in tensors]
    seen = []
    for out in outputs:
        if not isinstance(out, torch.Tensor):
            seen.append((type(out), out))
            continue
        same = [i for i, t in enumerate(tensors) if t is out]
        memory = [i for i, s in enumerate(storages) if s == out.untyped_storage()._cdata]
        seen.append(
            (out.dtype, tuple(out.shape), out.stride(), out.requires_grad, out.is_leaf, tuple(same), tuple(memory))
        )
    return seen


def tangent_for(out, seed):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(out.shape, generator=generator, dtype=out.real.dtype).to(out.dtype)


def run(fn, make_inputs, backward, calls):
    """Everything to compare about `calls` calls of fn."""
    report = []
    for _ in range(calls):
        leaves, inputs = make_inputs()
        versions = [t._version for t in inputs if isinstance(t, torch.Tensor)]
        torch.manual_seed(7)
        outputs = fn(*inputs)
        outputs = outputs if isinstance(outputs, tuple) else (outputs,)
        tensors = [t for t in inputs if isinstance(t, torch.Tensor)]
        entry = {
            "outputs": [o.detach().clone() if isinstance(o, torch.Tensor) else o for o in outputs],
            "seen": describe(outputs, inputs),
            "inputs": [t.detach().clone() for t in tensors],
            "inputs require grad": [t.requires_grad for t in tensors],
            "writes": [t._version - v for t, v in zip(tensors, versions, strict=True)],
        }
        targets = [o for o in (*outputs, *tensors) if isinstance(o, torch.Tensor) and o.requires_grad and not o.is_leaf]
        if backward and targets:
            torch.autograd.backward(targets, [tangent_for(t, i) for i, t in enumerate(targets)])
            entry["grads"] = [leaf.grad for leaf in leaves]
        report.append(entry)
    return report


def assert_same(expected, actual, exact, what):
    if isinstance(expected, torch.Tensor):
        assert isinstance(actual, torch.Tensor), what
        if exact:
            assert torch.equal(expected, actual) or torch.allclose(expected, actual, rtol=0, atol=0, equal_nan=True), (
                what,
                expected,
                actual,
            )
        torch.testing.assert_close(actual, expected, rtol=1e-4, atol=1e-5, equal_nan=True, msg=lambda m: f"{what}: {m}")
    elif isinstance(expected, list):
        assert len(expected) == len(actual), what
        for i, (e, a) in enumerate(zip(expected, actual, strict=True)):
            assert_same(e, a, exact, f"{what}[{i}]")
    else:
        assert expected == actual, (what, expected, actual)


def check(fn, make_inputs, *, backward=True, exact=True, calls=2, dynamic=False, decompositions=None, twin=None):
    """Eager and compiled must agree.  `make_inputs() -> (leaves, inputs)`; `twin` is a second fn with its own state."""
    twin = twin or fn
    function = compiled(twin, {} if exact else decompositions, dynamic)
    expected, actual = run(fn, make_inputs, backward, calls), run(function, make_inputs, backward, calls)
    for call, (e, a) in enumerate(zip(expected, actual, strict=True)):
        assert e.keys() == a.keys()
        for key in e:
            if key == "writes":  # one copy_ at the end stands for all writes
                assert [w > 0 for w in e[key]] == [w > 0 for w in a[key]], (call, key, e[key], a[key])
            else:
                # gradients of several uses are added in another order
                assert_same(e[key], a[key], exact and key != "grads", f"call {call}: {key}")


def check_module(module, make_inputs, **options):
    """The same for a module: parameters' gradients and buffers are compared too."""
    twin = copy.deepcopy(module)
    check(module, make_inputs, twin=twin, **options)
    for (name, p), q in zip(module.named_parameters(), twin.parameters(), strict=True):
        assert_same(p.grad, q.grad, False, f"gradient of {name}")
    for (name, p), q in zip(module.named_buffers(), twin.buffers(), strict=True):
        assert_same(p, q, False, f"buffer {name}")
