"""The artifact: names, text, passes, partition, where nodes come from, symbolic sizes."""

import pytest
import torch
from aot_helpers import check, compiled, run_gm

from minicompile import aot, config

F = torch.nn.functional
aten = torch.ops.aten


def leaf(*shape):
    return torch.randn(*shape).requires_grad_()


def trace(fn, *inputs, **options):
    return aot.trace(torch.fx.symbolic_trace(fn), list(inputs), **options)


def targets(gm):
    return [n.target for n in gm.graph.nodes if n.op == "call_function"]


def test_text_is_deterministic_and_complete():
    def fn(x, w):
        x.add_(1)
        return (x @ w).relu().view(-1), x, x.detach()[0]

    texts = {repr(trace(fn, leaf(2, 3) * 1, leaf(3, 4))) for _ in range(2)}
    (text,) = texts
    for part in (
        "writes x (copy_)",
        "output 0: result 0.view",
        "output 1: input x\n",
        "output 2: input x.detach.select_int (no grad)",
        "forward(self, x, w):",
        "saved: ",
        "backward(self, ",
        "tangent_0",
    ):
        assert part in text, (part, text)
    assert "0x" not in text


def test_html_shows_both_graphs():
    graph = trace(lambda x, w: (x @ w < 1) * w.sin(), leaf(2, 2), leaf(2, 2))
    text = graph._repr_html_()
    assert text.count("<pre>") == 3 and "saved: " in text and "aten.sin.default" in text
    assert trace(lambda x: x + 1, torch.ones(2))._repr_html_().count("<pre>") == 1


def test_inference_graph_is_the_whole_artifact():
    graph = trace(lambda x: x.relu() + 1, torch.ones(3))
    assert (
        graph.backward is None
        and graph.joint is None
        and targets(graph.forward) == [aten.relu.default, aten.add.Tensor]
    )
    assert repr(graph).startswith("AOTGraph(traced=4, optimized=4 nodes)")


def test_every_stage_runs_by_itself():
    x, w = leaf(2, 3), leaf(3, 4)
    graph = trace(lambda x, w: torch.tanh(x @ w), x, w)
    out, *saved = graph.forward(x.detach(), w.detach())
    tangent = torch.randn(2, 4)
    position = {"input": [x.detach(), w.detach()], "result": [out], "extra": saved}
    values = [position[s.source[0]][s.source[1]] for s in graph.saved]
    expected = torch.autograd.grad(torch.tanh(x @ w), [x, w], tangent)
    for ours in (graph.backward(*values, tangent), graph.joint(x.detach(), w.detach(), tangent)[1:]):
        for a, b in zip(ours, expected, strict=True):
            torch.testing.assert_close(a, b)


def test_nodes_know_the_user_line():
    def fn(x, w):
        y = x @ w
        return y.sin().sum()

    seen = []

    def keep(gm, inputs):
        seen.append(gm)
        return gm

    compiled(fn, {}, forward_compiler=keep)(leaf(2, 3), leaf(3, 4)).backward()
    lines = [{n.target: n.meta["stack_trace"] for n in gm.graph.nodes if n.op == "call_function"} for gm in seen]
    assert "y = x @ w" in lines[0][aten.mm.default] and "y = x @ w" in lines[1][aten.mm.default]
    assert "return y.sin()" in lines[0][aten.sin.default] and "return y.sin()" in lines[1][aten.cos.default]


# --- passes -----------------------------------------------------------------------------------------
def test_equal_expressions_are_computed_once():
    graph = trace(lambda x: (x.sin() + 1) * (x.sin() + 1) * x.cos(), torch.ones(3))
    assert targets(graph.forward).count(aten.sin.default) == 1
    assert targets(graph.forward).count(aten.add.Tensor) == 1


def test_expressions_that_only_look_equal():
    fn = lambda x: (x + 1) * (x + 1.5) * (x + True)  # noqa: E731
    assert targets(trace(fn, torch.ones(3)).forward).count(aten.add.Tensor) == 3
    draws = trace(lambda x: (torch.rand_like(x), torch.rand_like(x) + x), torch.ones(3), decompositions={})
    assert targets(draws.forward).count(aten.rand_like.default) == 2


def test_unused_random_draw_stays():
    def fn(x):
        torch.rand_like(x)
        return x * torch.rand_like(x)

    x = torch.ones(3)
    function = aot.compile(torch.fx.symbolic_trace(fn), [x], forward_compiler=run_gm, decompositions={})
    torch.manual_seed(0)
    expected = fn(x)
    torch.manual_seed(0)
    assert torch.equal(function(x)[0], expected)


@pytest.mark.parametrize(
    "fn",
    [
        lambda x: x.view(3, 4).view(12).view(3, 4) * 2,
        lambda x: x.expand(3, 4)[:, 0:4].contiguous() * 2,
        lambda x: (x * 2).clone().detach(),
        lambda x: (x.to(torch.float32) * 2).to(torch.float32),
        lambda x: x.float().float() * 2,
        lambda x: (x * 2).double().float(),
    ],
)
def test_what_changes_nothing_goes(fn):
    with torch.no_grad():
        assert targets(trace(fn, torch.ones(3, 4), decompositions={}).forward) == [aten.mul.Tensor]


def test_copies_that_somebody_can_tell_stay():
    with torch.no_grad():
        both = trace(lambda x: (lambda y: (y, y.clone()))(x * 2), torch.ones(3), decompositions={})
        own = trace(lambda x: x.clone(), torch.ones(3), decompositions={})
        layout = trace(lambda x: x.t().contiguous().view(-1), torch.ones(3, 4), decompositions={})
    assert aten.clone.default in targets(both.forward)
    assert targets(own.forward) == [aten.clone.default]
    assert aten.clone.default in targets(layout.forward)


def test_narrowing_cast_stays():
    graph = trace(lambda x: x.bfloat16().float() * 2, torch.ones(3), decompositions={})
    assert targets(graph.forward).count(aten._to_copy.default) == 2


def test_weights_are_cast_once():
    with torch.autocast("cpu", torch.bfloat16):
        graph = trace(lambda x, w: (x @ w) + (x.sin() @ w), leaf(4, 4), leaf(4, 4), decompositions={})
    casts = [n for n in graph.joint.graph.nodes if n.target is aten._to_copy.default and n.args[0].name == "w"]
    assert len(casts) == 1


# --- partition --------------------------------------------------------------------------------------
def test_cheap_values_are_recomputed_and_matmuls_are_not():
    def fn(x, w):
        y = (x @ w) * 2
        return (y.sin() * (y + 1).cos() + y).sum()

    graph = trace(fn, leaf(8, 8), leaf(8, 8))
    assert [s.name for s in graph.saved if s.source[0] == "extra"] == ["mm"]
    assert {"mul", "add"} <= set(graph.recomputed) and "mm" not in graph.recomputed
    with config.patch(partition_recompute=False):
        plain = trace(fn, leaf(8, 8), leaf(8, 8))
    assert not {"add", "sin", "cos"} & set(plain.recomputed)


def test_random_values_are_saved():
    graph = trace(lambda x: F.dropout(x.sin(), 0.5) * 2, leaf(8, 8), decompositions={})
    (mask,) = [s for s in graph.saved if s.source[0] == "extra"]
    assert mask.dtype == torch.bool and "random" in mask.why
    assert not any("dropout" in name for name in graph.recomputed)


def test_narrow_values_are_saved_rather_than_wide_ones():
    """The mean is smaller than what it was made of, and the cast smaller than its source."""
    graph = trace(lambda x, w: ((x @ w).sum(1, keepdim=True).exp() * 3).sin(), leaf(64, 64), leaf(64, 64))
    extra = [s for s in graph.saved if s.source[0] == "extra"]
    assert sum(s.bytes for s in extra) == 64 * 4 and graph.saved_bytes == sum(s.bytes for s in graph.saved)


def test_old_value_of_a_written_input_is_copied():
    def fn(mask, w):
        y = mask.float() * w
        mask.logical_not_()
        return y

    mask, w = torch.tensor([True, False, True]), leaf(3)
    gm = torch.fx.symbolic_trace(fn)
    graph = aot.trace(gm, [mask, w], decompositions={})
    (saved,) = graph.saved
    assert saved.bytes == 3 and saved.source == ("extra", 0) and "old value" in saved.why
    assert targets(graph.forward)[-1] == aten.clone.default
    aot.compile(gm, [mask, w], forward_compiler=run_gm)(mask, w)[0].sum().backward()
    assert mask.tolist() == [False, True, False] and w.grad.tolist() == [1, 0, 1]


def test_partition_of_a_long_graph_is_quick():
    """Three thousand nodes in one piece: the network must not be searched node by node."""

    def fn(x, w):
        parts = []
        for i in range(200):
            x = torch.tanh(x * w) + x.sin()
            if i % 5 == 0:
                parts.append(x)
        return sum(p.cos() for p in parts)

    graph = trace(fn, leaf(16), leaf(16))
    assert graph.node_counts["optimized"] > 2000 and graph.saved_bytes < 200 * 2 * 64


# --- symbolic sizes ---------------------------------------------------------------------------------
DYNAMIC = {
    "views": lambda x: (x.view(-1), x[1:], (x * 2)[:, 1:], (x.sin() * x.shape[0]).reshape(x.shape[1], -1)),
    "sizes": lambda x: ((x * 2).view(-1), x.shape[0] * 2, x.expand(x.shape[1], *x.shape)),
    "mean": lambda x: x.mean(1) * x.shape[1],
    "softmax": lambda x: torch.softmax(x @ x.t(), -1),
    "written": lambda x: x.mul_(x.shape[0]).view(x.shape[1], x.shape[0]),
}


@pytest.mark.parametrize("grad", [True, False])
@pytest.mark.parametrize("name", DYNAMIC)
def test_symbolic_sizes(name, grad):
    sizes = iter(2 * [(3, 4), (5, 6), (7, 2)])

    def make():
        x = torch.randn(*next(sizes), generator=torch.Generator().manual_seed(0)).requires_grad_(grad)
        return [x], [x * 1]

    check(DYNAMIC[name], make, calls=3, dynamic=True)
