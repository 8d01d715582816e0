"""The budget for what is kept between forward and backward, and the count of what is alive."""

import copy

import pytest
import torch

import minicompile
from minicompile import aot, config, record
from minicompile.aot.memory import Budget
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
    layers = [torch.nn.Conv2d(3, 4, 3), torch.nn.BatchNorm2d(4), torch.nn.ReLU(), torch.nn.MaxPool2d(2)]
    return torch.nn.Sequential(*layers, torch.nn.Conv2d(4, 4, 3), torch.nn.Flatten(), torch.nn.Linear(16, 5)), (
        torch.randn(2, 3, 10, 10)
    )


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


@pytest.mark.parametrize("make", [gpt, convolutions])
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
    for budget in (1, 0.6, 0.3, 0):
        with config.patch(activation_memory_budget=budget):
            graphs.append(aot.trace(gm, inputs))
    peaks = [graph.peak_memory() for graph in graphs]
    assert peaks == sorted(peaks, reverse=True) and peaks[-1] < share * peaks[0]
    work = [len(graph.recomputed) for graph in graphs]
    assert work[0] < work[-1] and 0 < sum(s.bytes for s in extra(graphs[-1])) < sum(s.bytes for s in extra(graphs[0]))


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
