"""The benchmark's other models, where `timm` and `transformers` are installed: a training step, and twenty of AdamW.

In images of two samples, batch norm makes much of a little rounding: eager's own error is that of its worst of several
runs, whose parameters differ by rounding.
"""

import copy

import pytest
import torch
from test_loss_curves import curve

from minicompile.accuracy import double, same_draws, training_step
from minicompile.bench.models.further import FURTHER

pytestmark = pytest.mark.slow
RUNS = 4


def rounded_otherwise(model, seed):
    """The model, its parameters half a unit in the last place off; seed 0: the model itself."""
    generator, copied = torch.Generator().manual_seed(seed), copy.deepcopy(model)
    for p in copied.parameters() if seed else ():
        p.data.mul_(1 + (torch.rand(p.shape, generator=generator) - 0.5) * torch.finfo(p.dtype).eps)
    return copied


@pytest.fixture
def case(request):
    entry = FURTHER[request.param]
    model, batch = entry.build()
    return entry, model.train(), (batch.args, entry.training_kwargs(batch), batch.target)


def errors_of(step, exact):
    """Of the loss, and of all gradients together, relative to their size."""
    pairs = [(g, exact.gradients[name]) for name, g in step.gradients.items() if g is not None]
    squares = [sum((g.double() - x).square().sum() for g, x in pairs), sum(x.square().sum() for _, x in pairs)]
    return torch.stack([(step.loss.double() - exact.loss).abs() / exact.loss.abs(), (squares[0] / squares[1]).sqrt()])


@pytest.mark.parametrize("case", FURTHER, indirect=True)
def test_step(case, subject):
    entry, model, (args, kwargs, target) = case
    loss, own = lambda output: entry.loss(output, target), []  # noqa: E731
    for seed in range(RUNS):
        eager = rounded_otherwise(model, seed)
        with same_draws():
            exact = training_step(double(eager), double(args), double(kwargs), loss)
        ours = copy.deepcopy(eager)
        own.append(errors_of(training_step(eager, args, kwargs, loss), exact))
        if seed == 0:
            got = errors_of(training_step(ours, args, kwargs, loss, subject.compile(ours)), exact)
    own = torch.stack(own).amax(0).clamp(min=4 * torch.finfo(torch.float32).eps)
    print(f"eager's errors of loss and gradients {own.tolist()}, compiled {got.tolist()}")
    assert (got <= 3 * own).all()


@pytest.mark.parametrize("case", FURTHER, indirect=True)
def test_loss_curve(case, subject):
    entry, model, data = case
    exact, ours = double(model), copy.deepcopy(model)
    with same_draws():
        reference = curve(entry, exact, exact, *map(double, data))
    copies = [rounded_otherwise(model, seed) for seed in range(RUNS)]
    own = max((curve(entry, each, each, *data) - reference).abs().max() for each in copies)
    compiled = curve(entry, ours, subject.compile(ours), *data)
    got, rounding = (compiled - reference).abs().max(), 4 * torch.finfo(torch.float32).eps * reference.abs().max()
    print(f"eager's error {own:.2e}, compiled {got:.2e}; loss to {compiled[-1]:.4f}")
    assert got <= 3 * max(own, rounding) and compiled[-1] < compiled[0]
