"""Autograd around a compiled region: what may be saved, freed, retained, hooked, and what must raise."""

import pytest
import torch
from aot_helpers import backend, compiled, run_gm

from minicompile import aot, config, record
from minicompile.errors import MinicompileError


def leaf(*shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(2)).requires_grad_()


def test_saved_tensor_changed_in_place_raises():
    x, w = torch.randn(3), leaf(3)
    out = compiled(lambda x, w: (x * w).sum())(x, w)
    x.mul_(10)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        out.backward()


def test_saved_output_changed_in_place_raises():
    x = leaf(3)
    out = compiled(lambda x: torch.exp(x))(x)
    out.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        out.sum().backward()


def test_output_that_backward_does_not_read_may_be_changed():
    """`a` could be saved to compute `cos(a + 3)` again; eager does not save it, so it must stay free."""
    x = leaf(3)

    def fn(x):
        a = x * 2
        return a, torch.sin(a + 3)

    for function in (fn, compiled(fn)):
        x.grad = None
        a, b = function(x)
        a.mul_(5)
        (a.sum() + b.sum()).backward()
    expected = 10 + 2 * torch.cos(x.detach() * 2 + 3)
    torch.testing.assert_close(x.grad, expected)


def test_graph_that_overwrites_what_its_backward_needs():
    """Eager runs the forward and refuses the backward."""

    def fn(s, w):
        y = (s * w).sum()
        s.zero_()
        return y

    out = compiled(fn)(torch.randn(3), leaf(3))
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        out.backward()


def test_clone_protects_from_later_writes():
    state, w = torch.randn(3), leaf(3)
    out = compiled(lambda s, w: (s.clone() * w).sum())(state, w)
    before = state.clone()
    state.zero_()
    out.backward()
    assert torch.equal(w.grad, before)


def test_input_written_after_it_was_read():
    """The graph itself overwrites what its backward needs: the old value is kept."""

    def fn(s, w):
        y = (s.clone() * w).sum()
        s.zero_()
        return y

    state, w = torch.randn(3), leaf(3)
    before = state.clone()
    compiled(fn)(state, w).backward()
    assert torch.equal(w.grad, before) and not state.any()


def test_backward_twice():
    x = leaf(3)
    out = compiled(lambda x: x.sin().sum())(x)
    out.backward(retain_graph=True)
    first = x.grad.clone()
    out.backward()
    assert torch.equal(x.grad, first * 2)
    with pytest.raises(RuntimeError, match="second time"):
        out.backward()


def test_double_backward_raises():
    x = leaf(3)
    out = compiled(lambda x: x.sin().sum())(x)
    (grad,) = torch.autograd.grad(out, x, create_graph=True)
    assert torch.allclose(grad, x.cos())
    with pytest.raises(MinicompileError, match="double backward"):
        grad.sum().backward()


def test_double_backward_raises_where_only_intermediates_are_saved():
    """Without the inputs among the saved tensors the error must still be an error, not a missing term."""
    x = leaf(3)
    out = compiled(lambda x: (x * 2).cos().sin().sum())(x * 1)
    (grad,) = torch.autograd.grad(out, x, create_graph=True)
    with pytest.raises(MinicompileError, match="double backward"):
        torch.autograd.grad(grad.sum(), x)


def test_conjugate_gradient():
    x = torch.randn(3, dtype=torch.complex64, requires_grad=True)
    grads = []
    for function in (lambda x: x * 2j, compiled(lambda x: x * 2j)):
        out = function(x)
        grads.append(torch.autograd.grad((out.conj() * out.detach()).real.sum(), x)[0])
    torch.testing.assert_close(*grads)


def test_number_input_that_changes():
    gm = torch.fx.symbolic_trace(lambda x, n: x * n)
    function = aot.compile(gm, [torch.ones(2), 3], forward_compiler=run_gm)
    assert function(torch.ones(2), 3)[0].tolist() == [3, 3] and function(torch.ones(2), 5)[0].tolist() == [5, 5]


def test_unused_output_gives_no_gradient():
    """Eager gives None, not zeros, to an input that only reaches an output which nobody used."""
    x, y = leaf(3), leaf(3)
    a, _ = compiled(lambda x, y: (x.sin(), y.cos()))(x, y)
    a.sum().backward()
    assert x.grad is not None and y.grad is None


def test_zero_stands_for_an_unused_output():
    x = leaf(3)
    a, _ = compiled(lambda x: (x.sin(), x.cos()))(x)
    a.sum().backward()
    torch.testing.assert_close(x.grad, x.detach().cos())


@pytest.mark.parametrize("shape", ["expanded", "transposed", "strided"])
def test_tangents_of_any_layout(shape):
    x, w = leaf(4, 4), leaf(4, 4)
    tangent = {
        "expanded": torch.ones(1, 1).expand(4, 4),
        "transposed": torch.arange(16.0).view(4, 4).t(),
        "strided": torch.arange(64.0).view(8, 8)[::2, ::2],
    }[shape]
    grads = []
    for function in (torch.matmul, compiled(lambda x, w: torch.matmul(x, w))):
        grads.append(torch.autograd.grad(function(x, w), [x, w], tangent))
    for a, b in zip(*grads, strict=True):
        torch.testing.assert_close(a, b)


def test_sparse_tangent():
    x, tangent = leaf(3, 3), torch.eye(3).to_sparse()
    compiled(lambda x: x.sin())(x).backward(tangent)
    torch.testing.assert_close(x.grad, x.detach().cos() * torch.eye(3))


def test_hooks_on_inputs_and_outputs():
    x, seen = leaf(3), []
    x.register_hook(lambda g: seen.append("input"))
    out = compiled(lambda x: x.sin())(x)
    out.register_hook(lambda g: seen.append("output") or g * 2)
    out.sum().backward()
    assert seen == ["output", "input"]
    torch.testing.assert_close(x.grad, 2 * x.detach().cos())


def test_output_may_be_changed_in_place():
    def use(function):
        x = leaf(4, 3)
        out, view = function(x)
        out += 1
        view.mul_(3)
        (out.sum() + view.sum()).backward()
        return out.detach(), view.detach(), x.grad

    def fn(x):
        y = x.cumsum(0) * 2
        return y, y[1:].t()

    for a, b in zip(use(fn), use(compiled(fn)), strict=True):
        torch.testing.assert_close(a, b)


def test_multi_output_view_forbids_in_place_as_in_eager():
    for function in (lambda x: (x * 2).unbind(0), compiled(lambda x: (x * 2).unbind(0))):
        with pytest.raises(RuntimeError, match="multiple views"):
            function(leaf(2, 3))[0].add_(1)


def test_leaf_written_in_place_raises_as_in_eager():
    gm = torch.fx.symbolic_trace(lambda x: x.add_(1))
    x = leaf(3)
    before = x.detach().clone()
    function = aot.compile(gm, [x], forward_compiler=run_gm)
    with pytest.raises(RuntimeError, match="leaf Variable"):
        function(x)
    assert torch.equal(x, before)


def test_training_graph_under_no_grad():
    x = leaf(3)
    function = aot.compile(torch.fx.symbolic_trace(lambda x: x.sin()), [x], forward_compiler=run_gm)
    with torch.no_grad():
        (out,) = function(x)
    assert not out.requires_grad and torch.equal(out, x.sin())


def test_backward_is_compiled_late_and_recorded_with_its_forward():
    calls = []

    def backward_compiler(gm, inputs):
        with record.stage("codegen") as snapshot:
            snapshot.artifact = "the backward"
        calls.append(len(inputs))
        return gm

    x = leaf(3)
    gm = torch.fx.symbolic_trace(lambda x: x.sin())
    with record.compilation("fn") as entry:
        function = aot.compile(gm, [x], forward_compiler=run_gm, backward_compiler=backward_compiler)
    (out,) = function(x)
    assert calls == [] and isinstance(entry.artifacts("aot")[0], aot.AOTGraph)
    out.sum().backward()
    function(x)[0].sum().backward()
    assert calls == [2] and entry.artifacts("codegen") == ["the backward"]


def test_backward_that_does_not_compile():
    def fails(gm, inputs):
        raise NotImplementedError("no such operator")

    x, gm = leaf(3), torch.fx.symbolic_trace(lambda x: x.sin())
    function = aot.compile(gm, [x], forward_compiler=run_gm, backward_compiler=fails)
    with config.patch(strict=False), pytest.warns(UserWarning, match="no such operator"):
        function(x)[0].sum().backward()
    assert torch.equal(x.grad, x.detach().cos())
    function = aot.compile(gm, [x], forward_compiler=run_gm, backward_compiler=fails)
    with config.patch(strict=True), pytest.raises(NotImplementedError):
        function(x)[0].sum().backward()


def test_compilers_get_what_they_are_for():
    seen = []

    def compiler(name):
        def call(gm, inputs):
            seen.append((name, len(inputs)))
            return gm

        return call

    kinds = {f"{kind}_compiler": compiler(kind) for kind in ("forward", "backward", "inference")}
    x, w = leaf(3), leaf(3)
    function = torch.compile(lambda x, w: x * w, backend=backend(**kinds))
    function(x, w).sum().backward()
    with torch.no_grad():
        function(x, w)
    assert seen == [("forward", 2), ("backward", 3), ("inference", 2)]


def test_boxed_compiler():
    def compiler(gm, inputs):
        def call(args):
            values = list(args)
            args.clear()
            return gm(*values)

        call._boxed_call = True
        return call

    x, w = leaf(3), leaf(3)
    function = compiled(lambda x, w: (x * w, x), forward_compiler=compiler)
    out, same = function(x, w)
    assert same is x
    out.sum().backward()
    assert torch.equal(x.grad, w.detach())


SPLITS = {
    "chunk": lambda y: y.chunk(2, -1),
    "split": lambda y: y.t().split([3, 5]),
    "unbind": lambda y: y.unbind(0)[1:3],
}


@pytest.mark.parametrize("name", SPLITS)
def test_views_that_one_operator_makes_have_one_gradient(name):
    """As in eager: not one with zeros around for each of them, and a sum."""
    first, second = compiled(lambda x, w: SPLITS[name](x @ w))(torch.randn(4, 6), torch.randn(6, 8, requires_grad=True))
    assert first.grad_fn is second.grad_fn and first.data_ptr() != second.data_ptr()
