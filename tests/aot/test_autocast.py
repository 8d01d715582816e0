"""Autocast: casts stand in the graph where eager has them; the types of results and gradients are eager's."""

import copy

import pytest
import torch
from torch import nn

import minicompile
from minicompile import aot

F = nn.functional
TYPES = {"bfloat16": torch.bfloat16, "float16": torch.float16}


def numbers(*shape, seed=3, dtype=torch.float32):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).to(dtype).requires_grad_()


def region_inside(x, w, dtype):
    with torch.autocast("cpu", dtype):
        y = x @ w
    return y, y.float() + x.sum()


def switched_off_inside(x, w, dtype):
    y = x @ w
    with torch.autocast("cpu", enabled=False):
        z = y.float() @ w
    return y, z, z @ w


def switched_on_inside_off(x, w, dtype):
    with torch.autocast("cpu", enabled=False):
        a = x @ w
        with torch.autocast("cpu", dtype):
            b = x @ w
        c = x @ w
    return a, b, c


def other_type_inside(x, w, dtype):
    other = torch.float16 if dtype == torch.bfloat16 else torch.bfloat16
    with torch.autocast("cpu", other):
        y = x @ w
    return y, y.float() @ (w * 1)  # a cast of `w` itself is cached, whatever the type: eager raises


def float32_operators(x, w, dtype):
    y = x @ w
    return y.softmax(1), F.mse_loss(y, w), y.exp(), F.layer_norm(y, (4,)), F.gelu(y), y.sum()


def promoting_operators(x, w, dtype):
    y = x @ w
    return torch.cat([y, x]), torch.stack([x, y]), y + x, torch.where(x > 0, x, y.float())


def weight_used_twice(x, w, dtype):
    return (x @ w) @ w


def written_result(x, w, dtype):
    y = x @ w
    y.add_(x)
    y[0] = 1.0
    return y


def decorated(x, w, dtype):
    @torch.autocast("cpu", dtype=dtype)
    def inner(x, w):
        return x @ w

    with torch.autocast("cpu", enabled=False):
        return inner(x, w), x @ w


def questions(x, w, dtype):
    enabled = torch.is_autocast_enabled("cpu")
    return x @ w * (2.0 if enabled and torch.get_autocast_dtype("cpu") == dtype else 3.0)


def attention(x, w, dtype):
    q = (x @ w).view(1, 2, 2, 4)
    return F.scaled_dot_product_attention(q, q, q, is_causal=True)


def convolution(x, w, dtype):
    return F.conv1d(x.view(1, 4, 4), w.view(4, 4, 1)), F.linear(x, w, x.sum(0))


def mixed(x, w, dtype):
    """Inputs that are half already, beside full ones and integers."""
    half = x.to(dtype)
    return half @ w, half + x, half * x.long(), torch.einsum("ij,jk->ik", half, w), F.embedding(x.long().abs(), w)


def after_a_break(x, w, dtype):
    y = x @ w
    print(end="")
    return y @ w


class Cast(torch.autograd.Function):
    """As a fused kernel would be wrapped: the forward in float32, the backward in the same state."""

    @staticmethod
    @torch.amp.custom_fwd(device_type="cpu", cast_inputs=torch.float32)
    def forward(ctx, x, w):
        ctx.save_for_backward(x, w)
        return x @ w

    @staticmethod
    @torch.amp.custom_bwd(device_type="cpu")
    def backward(ctx, g):
        x, w = ctx.saved_tensors
        return g @ w.t(), x.t() @ g


class NoCast(torch.autograd.Function):
    """The forward runs under the caller's autocast, and so does the backward."""

    @staticmethod
    @torch.amp.custom_fwd(device_type="cpu")
    def forward(ctx, x, w):
        ctx.save_for_backward(x, w)
        return x @ w

    @staticmethod
    @torch.amp.custom_bwd(device_type="cpu")
    def backward(ctx, g):
        x, w = ctx.saved_tensors
        return (g @ w.t().to(g.dtype)).float(), (x.t().to(g.dtype) @ g).float()


def custom_in_float32(x, w, dtype):
    return Cast.apply(x @ w, w)


def custom_in_half(x, w, dtype):
    return NoCast.apply(x, w)


def parameter_in_two_types(x, w, dtype):
    """Autocast reuses what it cast a parameter to first."""
    other = torch.float16 if dtype == torch.bfloat16 else torch.bfloat16
    y = w @ w
    with torch.autocast("cpu", other):
        z = w @ w
        with torch.autocast("cpu", other, cache_enabled=False):
            return y, z, x @ x, w @ w


PROGRAMS = [
    parameter_in_two_types,
    region_inside,
    switched_off_inside,
    switched_on_inside_off,
    other_type_inside,
    float32_operators,
    promoting_operators,
    weight_used_twice,
    written_result,
    decorated,
    questions,
    attention,
    convolution,
    mixed,
    after_a_break,
    custom_in_float32,
    custom_in_half,
]


def observe(function, dtype, training, outside=True):
    """Outputs and gradients of two calls."""
    seen = []
    for _ in range(2):
        x, w = numbers(4, 4), numbers(4, 4, seed=4)
        with torch.set_grad_enabled(training), torch.autocast("cpu", dtype, enabled=outside):
            outputs = function(x, w, dtype)
        outputs = outputs if isinstance(outputs, tuple) else (outputs,)
        if training:
            sum(o.float().square().sum() for o in outputs).backward()
        seen += [*(o.detach() for o in outputs), x.grad, w.grad]
    return seen


@pytest.mark.parametrize("dtype", TYPES.values(), ids=TYPES)
@pytest.mark.parametrize("training", [True, False], ids=["training", "inference"])
@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda f: f.__name__)
def test_as_in_eager(program, backend, training, dtype):
    outside = program is not region_inside
    expected = observe(program, dtype, training, outside)
    actual = observe(minicompile.compile(program, backend=backend), dtype, training, outside)
    for e, a in zip(expected, actual, strict=True):
        assert (e is None) == (a is None)
        if e is not None:
            assert e.dtype == a.dtype, (e.dtype, a.dtype)
            tolerance = 2e-2 if dtype == torch.bfloat16 else 4e-3
            torch.testing.assert_close(
                a.float(), e.float(), rtol=tolerance, atol=tolerance * e.float().abs().max().item()
            )


def test_casts_of_the_graph_are_those_of_eager():
    """Each product is of half tensors, the loss of float32 ones; the weight is cast once, for forward and backward."""
    gm = torch.fx.symbolic_trace(lambda x, w: F.mse_loss((x @ w) @ w, x))
    with torch.autocast("cpu", torch.bfloat16):
        graph = aot.trace(gm, [numbers(4, 4), numbers(4, 4)], decompositions={})
    nodes = list(graph.joint.graph.nodes)
    kinds = {str(n.target): {a.meta["val"].dtype for a in n.all_input_nodes} for n in nodes if n.op == "call_function"}
    assert kinds["aten.mm.default"] == {torch.bfloat16} and kinds["aten.mse_loss.default"] == {torch.float32}
    casts = [n for n in nodes if n.target is torch.ops.aten._to_copy.default and n.args[0].name == "w"]
    assert len(casts) == 1


def test_another_state_is_another_graph():
    function = minicompile.compile(lambda x, w: x @ w, backend="aot_eager")
    x, w, seen = numbers(4, 4), numbers(4, 4), []
    for enabled, dtype in (
        (True, torch.bfloat16),
        (False, torch.bfloat16),
        (True, torch.float16),
        (True, torch.bfloat16),
    ):
        with torch.autocast("cpu", dtype, enabled=enabled):
            seen.append(function(x, w).dtype)
    assert seen == [torch.bfloat16, torch.float32, torch.float16, torch.bfloat16]


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_backward_under_autocast(backend):
    """The types of the backward are those that the forward chose, in whatever state it runs."""
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
    twin = copy.deepcopy(model)
    for each, function in ((model, model), (twin, minicompile.compile(twin, backend=backend))):
        with torch.autocast("cpu", torch.bfloat16):
            function(numbers(3, 4)).float().square().sum().backward()
    for p, q in zip(model.parameters(), twin.parameters(), strict=True):
        assert p.grad.dtype == q.grad.dtype == torch.float32
        torch.testing.assert_close(p.grad, q.grad, rtol=2e-2, atol=2e-2)


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_grad_scaler(backend):
    """Scaled steps, one of which overflows and is skipped; unscale_ and clipping between."""
    seen = []
    for compiler in (lambda m: m, lambda m: minicompile.compile(m, backend=backend)):
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
        function, optimizer = compiler(model), torch.optim.SGD(model.parameters(), 0.1)
        scaler, steps = torch.amp.GradScaler("cpu", init_scale=2.0**14, growth_interval=2), []
        for step in range(6):
            optimizer.zero_grad()
            with torch.autocast("cpu", torch.float16):
                loss = function(numbers(3, 4, seed=step).detach() * (1e4 if step == 2 else 1)).float().square().mean()
            scaler.scale(loss).backward()
            scaler.unscale_(optimizer)
            norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            scaler.step(optimizer)
            scaler.update()
            steps.append((scaler.get_scale(), norm.isfinite().item()))
        seen.append((steps, [p.detach().clone() for p in model.parameters()]))
    (expected_steps, expected), (actual_steps, actual) = seen
    assert expected_steps == actual_steps and not all(finite for _, finite in actual_steps)
    for e, a in zip(expected, actual, strict=True):
        torch.testing.assert_close(a, e, rtol=1e-2, atol=1e-2)
