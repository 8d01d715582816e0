"""Checkpoints whose second run writes buffers or draws anew: gradients, buffers, versions and draws as in eager."""

import copy

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

import minicompile
from minicompile import record

F = nn.functional


class Region(nn.Module):
    """Batch norm and dropout in a checkpoint, `times` times over the same layers."""

    def __init__(self, dropout=0.0, times=1, **options):
        super().__init__()
        self.inside = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3), nn.Dropout(dropout), nn.ReLU())
        self.options, self.times = {"use_reentrant": False, **options}, times

    def forward(self, x):
        x = x * 2
        for _ in range(self.times):
            x = checkpoint(self.inside, x, **self.options)
        return x * 3


class Counter(nn.Module):
    """What it returns depends on what it wrote, so that the second run computes other values."""

    def __init__(self):
        super().__init__()
        self.register_buffer("count", torch.zeros(()).double())
        self.linear = nn.Linear(3, 3)

    def inside(self, x):
        self.count.add_(1)
        return (F.dropout(self.linear(x) * self.count, 0.5) * self.count).sin()

    def forward(self, x):
        return checkpoint(self.inside, x, use_reentrant=False)


class Draws(nn.Module):
    def __init__(self, reentrant=False):
        super().__init__()
        self.linear, self.reentrant = nn.Linear(3, 3), reentrant

    def inside(self, x):
        return F.dropout(self.linear(x).sin(), 0.5).exp() * torch.rand(3)

    def forward(self, x):
        return checkpoint(self.inside, x * 1, use_reentrant=self.reentrant, preserve_rng_state=False)


class TwoRegions(nn.Module):
    """Two results; each step takes gradients of one, or of both."""

    def __init__(self):
        super().__init__()
        self.first, self.second = Region(), Region(0.5)

    def forward(self, x):
        return self.first(x), self.second(x)


class Mixed(Region):
    def forward(self, x):
        with torch.autocast("cpu", torch.bfloat16):
            return super().forward(x).double()


MODELS = {
    "batch norm": Region,
    "twice": lambda: Region(times=2),
    "with dropout": lambda: Region(0.5, times=2),
    "draws anew": lambda: Region(0.5, preserve_rng_state=False),
    "reentrant": lambda: Region(0.5, times=2, use_reentrant=True),
    "reentrant draws anew": lambda: Region(0.5, use_reentrant=True, preserve_rng_state=False),
    "to the end": lambda: Region(early_stop=False),
    "values that change": Counter,
    "only draws": Draws,
    "only draws, reentrant": lambda: Draws(reentrant=True),
    "two results": TwoRegions,
    "nothing changes": lambda: Region(preserve_rng_state=False).eval(),
}


def observed(model, function):
    """All that three steps show; between them buffers are written, and the number of rows changes."""
    seen = []
    for step in range(3):
        torch.manual_seed(step)
        x = torch.randn(4 + step // 2, 3, dtype=torch.float64, requires_grad=True)
        results = [function(x) for _ in range(2)]  # two forwards, then their backwards
        flat = [r for result in results for r in (result if isinstance(result, tuple) else [result])]
        for buffers in range(2):
            seen += [b.clone() for b in model.buffers()] + [b._version for b in model.buffers()]
            for k, result in enumerate(flat) if not buffers else ():
                if len(flat) == 2 or k % 2 != step:
                    result.square().sum().backward(retain_graph=step == 1)
                    if step == 1:
                        result.sum().backward()
        seen += [*(r.detach() for r in flat), x.grad, torch.rand(1)]
        seen += [p.grad for p in model.parameters()]
        with torch.no_grad():
            for b in model.buffers():
                b.mul_(2)
    return seen


CASES = [
    *((name, "aot_eager") for name in MODELS),
    *((name, backend) for name in ("with dropout", "only draws") for backend in ("eager", "inductor")),
]


@pytest.mark.parametrize("name, backend", CASES)
def test_second_run(name, backend):
    torch.manual_seed(0)
    made = MODELS[name]().double()
    model, ours = copy.deepcopy(made), copy.deepcopy(made)
    expected = observed(model, model)
    actual = observed(ours, minicompile.compile(ours, backend=backend, fullgraph=True))
    torch.testing.assert_close(actual, expected)
    assert not record.counters["aot_rejected"]


def test_autocast_is_on_in_the_second_run():
    torch.manual_seed(0)
    model = Mixed()
    x, ours = torch.randn(4, 3), copy.deepcopy(model)
    for m, f in ((model, model), (ours, minicompile.compile(ours, backend="aot_eager", fullgraph=True))):
        f(x).sum().backward()
    for a, b in zip(model.buffers(), ours.buffers(), strict=True):
        torch.testing.assert_close(b, a)
    assert not record.counters["aot_rejected"]


def statistics_alone(x, mean, variance):
    """No version counts what batch norm writes."""
    return checkpoint(lambda a: F.batch_norm(a, mean, variance, training=True).sin(), x, use_reentrant=False)


def other_draws(x, mean, variance):
    def inside(a):
        mean.add_(1)
        return a * torch.poisson(mean)

    return checkpoint(inside, x, use_reentrant=False)


def nested(x, mean, variance):
    def inner(a):
        return F.dropout(a.sin(), 0.5).exp()

    def outer(a):
        return checkpoint(inner, a * 2, use_reentrant=False, preserve_rng_state=False).sin()

    return checkpoint(outer, x, use_reentrant=False)


@pytest.mark.parametrize("program", [statistics_alone, other_draws, nested])
def test_what_the_trace_cannot_repeat_runs_in_eager(program):
    seen = []
    for function in (program, minicompile.compile(program, backend="aot_eager")):
        torch.manual_seed(0)
        x, mean, variance = torch.randn(4, 3, requires_grad=True), torch.ones(3), torch.ones(3)
        function(x, mean, variance).sum().backward()
        seen.append([x.grad, mean, variance])
    assert record.counters["aot_rejected"] == 1
    torch.testing.assert_close(seen[1], seen[0])


class Written(nn.Module):
    """Some buffers are written before the last tensor is saved, one after it."""

    def __init__(self):
        super().__init__()
        self.linear, self.norm = nn.Linear(3, 3), nn.BatchNorm1d(3)
        self.register_buffer("before", torch.zeros(()))
        self.register_buffer("behind", torch.zeros(()))

    def forward(self, x):
        self.before.add_(1)
        y = self.norm(self.linear(x)) * self.before
        self.behind.add_(1).mul_(2)
        return y + 1


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_compiled_code_in_a_checkpoint_stops_where_eager_does(backend):
    """With what it has written by then."""
    seen, made = [], Written().double()
    for compiler in (lambda m: m, lambda m: minicompile.compile(m, backend=backend)):
        model = copy.deepcopy(made)
        function, x = compiler(model), torch.ones(4, 3).double().cumsum(0).requires_grad_()
        for _ in range(2):
            checkpoint(
                function, checkpoint(function, x, use_reentrant=False), use_reentrant=True
            ).sin().sum().backward()
        gradients = [x.grad, *(p.grad for p in model.parameters())]
        seen.append([gradients, list(model.buffers()), [b._version for b in model.buffers()]])
    torch.testing.assert_close(seen[1], seen[0])
