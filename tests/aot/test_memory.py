"""The budget for what is kept between forward and backward, and the count of what is alive."""

import copy

import pytest
import torch

import minicompile
from minicompile import aot, config, record
from minicompile.aot.memory import Budget, Choice
from minicompile.aot.partitioner import Split

F = torch.nn.functional
aten = torch.ops.aten
BUDGETS = (1, 0.9, 0.6, 0.4, 0.2, 0)


class Block(torch.nn.Module):
    def __init__(self, width=16, heads=2):
        super().__init__()
        self.norms = torch.nn.ModuleList(torch.nn.LayerNorm(width) for _ in range(2))
        self.qkv, self.project = torch.nn.Linear(width, 3 * width), torch.nn.Linear(width, width)
        self.up, self.down = torch.nn.Linear(width, 4 * width), torch.nn.Linear(4 * width, width)
        self.heads, self.dropout = heads, torch.nn.Dropout(0.2)

    def forward(self, x):
        batch, length, width = x.shape
        parts = self.qkv(self.norms[0](x)).split(width, 2)
        q, k, v = (t.view(batch, length, self.heads, width // self.heads).transpose(1, 2) for t in parts)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(x.shape)
        x = x + self.dropout(self.project(y))
        return x + self.dropout(self.down(F.gelu(self.up(self.norms[1](x)))))


def gpt():
    return torch.nn.Sequential(Block(), Block()), torch.randn(2, 6, 16)


def convolutions():
    nn = torch.nn
    layers = [m for n in (3, 4, 4) for m in (nn.Conv2d(n, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU())]
    last = [nn.MaxPool2d(2), nn.Conv2d(4, 4, 3), nn.Flatten(), nn.Linear(36, 5)]
    return nn.Sequential(*layers, *last), torch.randn(2, 3, 10, 10)


def train(model, x, compiled):
    """(output, gradients, buffers) of one step."""
    torch.manual_seed(3)
    out = compiled(x)
    out.square().sum().backward()
    return out, [p.grad for p in model.parameters()], list(model.buffers())


def graph_of(budget, model, x, backend="aot_eager"):
    minicompile.reset()
    result = train(model, x, minicompile.compile(model, backend=backend, options={"activation_memory_budget": budget}))
    ((graph,),) = [c.artifacts("aot") for c in record.compilations]
    return graph, result


def extra(graph):
    return [s for s in graph.saved if s.source[0] == "extra"]


@pytest.mark.parametrize("make", [gpt, pytest.param(convolutions, marks=pytest.mark.slow)])
def test_smaller_budgets_save_less_and_gradients_stay_right(make):
    torch.manual_seed(0)
    model, x = make()
    right = train(twin := copy.deepcopy(model), x, twin)
    memory, peaks = [], []
    for budget in BUDGETS:
        graph, result = graph_of(budget, copy.deepcopy(model), x)
        torch.testing.assert_close(result, right, rtol=1e-4, atol=1e-5)
        peaks.append(graph.peak_memory())
        memory.append(peaks[-1] + sum(s.bytes for s in extra(graph)))
        drawn = {n.name for n in graph.joint.graph.nodes if n.target in (aten.bernoulli.p, aten.native_dropout.default)}
        assert not drawn & set(graph.recomputed) and "peak memory: " in repr(graph)
    limits = [memory[-1] + budget * (memory[0] - memory[-1]) for budget in BUDGETS]
    assert all(bytes <= limit for bytes, limit in zip(memory, limits)) and len(set(memory)) > 2
    assert peaks == sorted(peaks, reverse=True)
    assert any(name.startswith(("addmm", "convolution")) for name in graph.recomputed)


class Residual(torch.nn.Module):
    def __init__(self, channels):
        super().__init__()
        conv, norm = torch.nn.Conv2d, torch.nn.BatchNorm2d
        layers = [conv(channels, channels, 3, padding=1, bias=False), norm(channels), torch.nn.ReLU()]
        self.layers = torch.nn.Sequential(*layers, conv(channels, channels, 3, padding=1, bias=False), norm(channels))

    def forward(self, x):
        return (x + self.layers(x)).relu()


def tower(layer, count, *shape):
    return lambda: (torch.nn.Sequential(*(m for _ in range(count) for m in layer())), torch.randn(shape))


TOWERS = {  # and the share of the peak that is left at budget 0
    "gpt": (tower(lambda: [Block(32)], 3, 4, 32, 32), 0.6),
    "resnet": (tower(lambda: [Residual(4)], 6, 2, 4, 12, 12), 0.5),
    "mlp": (tower(lambda: [torch.nn.Linear(32, 32), torch.nn.GELU(), torch.nn.LayerNorm(32)], 12, 128, 32), 0.6),
}


@pytest.mark.parametrize("name", TOWERS)
def test_the_peak_falls_with_the_budget(name):
    """With little kept, long chains would be alive at once: what stands between two blocks is kept instead."""
    captured = []
    make, share = TOWERS[name]
    model, x = make()
    minicompile.compile(model, backend=lambda gm, inputs: captured.append((gm, inputs)) or gm.forward)(x)
    ((gm, inputs),) = captured
    graphs = []
    for budget in (1, 0.5, 0):
        with config.patch(activation_memory_budget=budget):
            graphs.append(aot.trace(gm, inputs))
    peaks = [graph.peak_memory() for graph in graphs]
    assert peaks == sorted(peaks, reverse=True) and peaks[-1] < share * peaks[0]
    work = [len(graph.recomputed) for graph in graphs]
    assert work[0] < work[-1] and 0 < sum(s.bytes for s in extra(graphs[-1])) < sum(s.bytes for s in extra(graphs[0]))


def test_with_the_budget_both_what_is_kept_and_the_peak_fall():
    """A choice that lowers their sum, but keeps more or has a higher peak, is none."""
    rows = [(30, 100, 0), (20, 95, 1), (25, 80, 2), (10, 99, 3), (15, 90, 4), (12, 90, 5)]
    choices = [Choice(frozenset([work]), kept, peak, work) for kept, peak, work in rows]
    assert [c.work for c in Budget.useful(choices)] == [0, 1, 4, 5]


def test_budget_of_kernels():
    torch.manual_seed(0)
    model, x = gpt()
    right = train(twin := copy.deepcopy(model), x, twin)
    torch.testing.assert_close(graph_of(0.3, model, x, "inductor")[1], right, rtol=1e-4, atol=1e-5)


def trace(fn, *inputs, budget=1.0):
    with config.patch(activation_memory_budget=budget):
        return aot.trace(torch.fx.symbolic_trace(fn), list(inputs))


def test_old_value_of_a_written_input_is_kept_at_any_budget():
    def fn(mask, w):
        y = (mask.float() @ w).relu()
        mask.logical_not_()
        return y * y

    mask, w = torch.rand(3, 3) < 0.5, torch.randn(3, 3).requires_grad_()
    whys = [s.why for s in extra(trace(fn, mask, w, budget=0))]
    assert whys[0] == "an input's old value, which the graph overwrites"


def test_cheapest_for_its_bytes_goes_first():
    """Two products of one size: the one over 2 numbers is computed again before the one over 64."""
    shapes = ((64, 64), (64, 64), (64, 2), (2, 64))
    inputs = [torch.randn(shape).requires_grad_() for shape in shapes]
    split = Split(trace(lambda x, w, a, b: (a @ b).sin() * (x @ w).sin(), *inputs))
    kept = [sorted(n.name for n in stop) for stop in Budget(split, split.cut().saved()).less()]
    assert [names for names, before in zip(kept, [None, *kept]) if names != before] == [["mm", "mm_1"], ["mm_1"], []]


def test_reasons():
    """`cos` takes as many bytes as `mm`, but is in memory, where the next product reads it."""
    inputs = [torch.randn(8, 8).requires_grad_() for _ in range(3)]
    graph = trace(lambda x, w, v: (x @ w).cos() @ v, *inputs)
    whys = {s.name: s.why for s in extra(graph)}
    assert whys == {"mm": "aten.mm.default is not worth running twice", "cos": "aten.mm.default reads it from memory"}
    graph = trace(lambda x, w: x.sin().sin().sin().sin().sin().sin().sin().sin() * w, torch.randn(8, 8), inputs[0])
    assert {s.why for s in extra(graph)} == {"costs less than to make it again"}


def test_random_attention_is_kept():
    """The kernel draws its dropout itself; without dropout it may run twice."""
    from minicompile.aot.nodes import is_random

    graph = torch.fx.Graph()
    q = graph.placeholder("q")
    target = aten._scaled_dot_product_flash_attention.default
    calls = [graph.call_function(target, (q, q, q, *p)) for p in ((0.5,), (0.0,), ())]
    assert [is_random(c) for c in calls] == [True, False, False]
    assert is_random(graph.call_function(target, (q, q, q), {"dropout_p": 0.5}))


def test_explain_tells_the_memory():
    model, x = convolutions()
    told = minicompile.explain(model, backend="aot_eager")(x)
    assert told.stats["saved_bytes"] > 0 and f"saves {told.stats['saved_bytes']:,} bytes, peak " in repr(told)
    with torch.no_grad():
        told = minicompile.explain(lambda x: x + 1, backend="aot_eager")(x)
    assert told.stats["saved_bytes"] == 0 and "bytes, peak" not in repr(told)


# --- how much is alive ------------------------------------------------------------------------------
N = 400  # bytes of one tensor


@pytest.mark.parametrize(
    "fn, expected",
    [
        (lambda x: x + 1, N),
        (lambda x: x.sin().cos().sin(), 2 * N),  # one is read while the next is written
        (lambda x: x.sin() + x.cos(), 3 * N),
        (lambda x: (lambda view: x.cos() + view)(x.sin().view(10, 10).t()), 3 * N),  # a view keeps its base alive
        (lambda x: (x.sin(), x.cos(), x.tan()), 3 * N),
        (lambda x: x.t(), 0),
    ],
)
def test_peak_of_a_forward(fn, expected):
    with torch.no_grad():
        assert aot.trace(torch.fx.symbolic_trace(fn), [torch.randn(10, 10)]).peak_memory() == expected


def test_peak_of_a_step():
    """In the forward y = x @ w and z = sin(y).  In the backward z, the tangent, y and cos(y), then z, the tangent,

    cos(y) and their product, last z, the product and two gradients: four at a time.
    """
    graph = trace(lambda x, w: torch.sin(x @ w), *(torch.randn(10, 10).requires_grad_() for _ in range(2)))
    assert [s.name for s in extra(graph)] == ["mm"]
    assert graph.peak_memory() == 4 * N


# --- what need not be saved -----------------------------------------------------------------------------
def saved_of(model, *shape):
    """(operator, dtype, shape) of what is kept for the backward only, and the graph."""
    torch.manual_seed(0)
    found = []
    backend = lambda gm, examples: found.append(aot.trace(gm, examples)) or gm.forward  # noqa: E731
    minicompile.reset()
    minicompile.compile(model, backend=backend)(torch.randn(*shape))
    return [(s.name, s.dtype, s.shape) for s in extra(found[0])], found[0]


def same_gradients(model, *shape):
    twin, x = copy.deepcopy(model), torch.randn(*shape)
    model(x).square().sum().backward()
    minicompile.compile(twin)(x).square().sum().backward()
    for p, q in zip(model.parameters(), twin.parameters(), strict=True):
        torch.testing.assert_close(q.grad, p.grad, rtol=1e-4, atol=1e-5)


def test_indices_of_a_pool_are_kept_in_two_bytes_and_its_input_is_not():
    model = torch.nn.Sequential(
        *(torch.nn.Conv2d(3, 4, 3, bias=False), torch.nn.BatchNorm2d(4), torch.nn.SiLU(), torch.nn.MaxPool2d(3, 2, 1)),
        torch.nn.Conv2d(4, 4, 3),
    )
    kept, graph = saved_of(model, 2, 3, 18, 18)
    assert [shape for _, dtype, shape in kept if dtype == torch.int16] == [(2, 4, 8, 8)]
    assert not any(dtype == torch.int64 and len(shape) == 4 for _, dtype, shape in kept)
    assert [shape for *_, shape in kept].count((2, 4, 16, 16)) == 1  # of the convolution; not that of silu
    assert "empty_strided" in graph.backward.code
    same_gradients(model, 2, 3, 18, 18)


def test_averages_keep_no_input():
    model = torch.nn.Sequential(torch.nn.Linear(6, 6), torch.nn.AvgPool1d(2), torch.nn.AdaptiveAvgPool1d(2))
    assert not saved_of(model, 4, 6)[0]
    same_gradients(model, 4, 6)


def test_a_frozen_convolution_keeps_no_input():
    model = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.Tanh(), torch.nn.Conv2d(4, 4, 3))
    model[2].weight.requires_grad_(False)
    model[2].bias.requires_grad_(False)
    kept, graph = saved_of(model, 2, 3, 8, 8)
    assert [shape for *_, shape in kept] == [(2, 4, 6, 6)]  # tanh's own, once; no copies of inputs in channels last
    copies = [n for n in graph.backward.graph.nodes if n.target is aten.clone.default]
    assert all(c.args[0].args[0].target is not aten.empty_strided.default for c in copies)  # it holds nothing
    (model(torch.ones(2, 3, 8, 8))).sum().backward()
    expected = model[0].weight.grad.clone()
    model.zero_grad()
    minicompile.compile(model)(torch.ones(2, 3, 8, 8)).sum().backward()
    torch.testing.assert_close(model[0].weight.grad, expected, rtol=1e-4, atol=1e-5)


def test_a_mask_is_kept_in_one_byte_instead_of_what_it_is_made_of():
    class Feed(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.up, self.down = torch.nn.Linear(8, 16), torch.nn.Linear(16, 8)

        def forward(self, x):
            return self.down(F.dropout(F.relu(self.up(x)), 0.5))

    kept, graph = saved_of(Feed(), 4, 8)
    assert sorted(str(dtype) for _, dtype, _ in kept) == ["torch.bool", "torch.bool", "torch.float32"]
    (mask,) = [n for n in graph.forward.graph.nodes if n.target is aten.le.Scalar]
    names = [n.name for n in graph.forward.graph.nodes]
    assert names.index(mask.name) == names.index(mask.args[0].name) + 1  # right behind what it is made of
    assert sum(s.bytes for s in extra(graph)) < 3 * 4 * 16 * 4
