"""The GPT as its users use it: the AdamW training loop, tied weights, and sampling with a growing sequence."""

import copy

import pytest
import torch
import torch.nn as nn
from test_zoo import TORCH

from minicompile.bench.models import ZOO
from minicompile.bench.models.gpt import sample
from minicompile.testing import seed_everything

SAMPLING = {"new_tokens": 14, "context": 12, "temperature": 0.9, "top_k": 5}


def train(model, batch, steps, call=None, wrong=lambda model: None):
    """The losses of a training loop in nanoGPT's style: AdamW in two groups, gradient clipping, fresh dropout."""
    optimizer, losses = model.configure_optimizer(lr=3e-3), []
    for step in range(steps):
        seed_everything(step)
        _, loss = (model if call is None else call)(batch.args[0], batch.target)
        loss.backward()
        wrong(model)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        losses.append(loss.item())
    return losses


def close(curve, eager):
    return torch.allclose(torch.tensor(curve), torch.tensor(eager), rtol=1e-4, atol=0)


@pytest.mark.parametrize("name", ["gpt", "gpt_manual"])
def test_loss_curve(name, subject):
    model, batch = ZOO[name].build()
    twin = copy.deepcopy(model).train()
    eager = train(model.train(), batch, steps=12)
    assert eager[-1] < eager[0] - 0.5, "the model does not learn, so this test would show nothing"
    curve = train(twin, batch, steps=12, call=subject.compile(twin))
    assert close(curve, eager), f"eager {eager}\ncompiled {curve}"
    subject.assert_counts(graphs=1, graph_breaks=0, recompiles=0)


def test_loss_curve_can_fail():
    """A gradient that is lost, or goes to the wrong one of two equal blocks, bends the curve."""
    model, batch = ZOO["gpt"].build()
    model.train()
    eager = train(copy.deepcopy(model), batch, steps=12)
    assert close(train(copy.deepcopy(model), batch, steps=12), eager)

    def lose(model):
        model.transformer.blocks[0].mlp.widen.weight.grad = None

    def swap(model):
        one, other = (block.mlp.widen.weight for block in model.transformer.blocks)
        one.grad, other.grad = other.grad, one.grad

    for wrong in (lose, swap):
        assert not close(train(copy.deepcopy(model), batch, steps=12, wrong=wrong), eager)


def test_tied_weights_get_both_gradients(subject):
    model, batch = ZOO["gpt"].build(dropout=0.0)
    parts = []
    for use in ("token", "head"):  # the same model untied: what each use contributes
        untied = copy.deepcopy(model)
        untied.head.weight = nn.Parameter(untied.head.weight.detach().clone())
        untied(batch.args[0], batch.target)[1].backward()
        parts.append(untied.transformer.token.weight.grad if use == "token" else untied.head.weight.grad)
    compiled = subject.compile(model)
    compiled(batch.args[0], batch.target)[1].backward()
    assert model.head.weight is model.transformer.token.weight
    assert len(list(compiled.parameters())) == len(list(model.parameters()))
    torch.testing.assert_close(model.head.weight.grad, parts[0] + parts[1])


@pytest.mark.parametrize("name", ["gpt", "gpt_manual"])
def test_sampling(name, subject):
    """The same tokens as eager's, with a sequence that grows and then slides."""
    sample_twice(name, subject)


def test_sampling_needs_few_graphs(subject):
    """Nine different lengths: the first is compiled as it is, the second with a symbolic length."""
    sample_twice("gpt", subject)
    subject.assert_counts(graphs=TORCH["gpt_sampling"]["inference"]["graphs"], graph_breaks=0)


def sample_twice(name, subject):
    model, batch = ZOO[name].build()
    start, compiled = batch.args[0][:, :4], subject.compile(model)
    for seed in range(2):
        seed_everything(seed)
        eager = sample(model, start, **SAMPLING)
        seed_everything(seed)
        assert torch.equal(sample(compiled, start, **SAMPLING), eager)
    assert eager.shape == (2, 18)


def test_too_long_a_sequence_raises_what_eager_raises(subject):
    model, _ = ZOO["gpt"].build()
    compiled = subject.compile(model)
    with torch.no_grad(), pytest.raises(AssertionError, match="33 tokens do not fit into a context of 32"):
        compiled(torch.zeros(1, 33, dtype=torch.long))


def test_manual_attention_is_attention():
    """The zoo's two GPTs are one model: what differs between their compiled forms is the compiler's doing."""
    one, batch = ZOO["gpt"].build()
    other, _ = ZOO["gpt_manual"].build()
    torch.testing.assert_close(one(*batch.args, batch.target), other(*batch.args, batch.target))
