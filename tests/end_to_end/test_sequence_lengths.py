"""Inputs of many sizes: text generated token by token, and batches of sentences, with at most three compiles."""

import random

import pytest
import torch

from minicompile.bench.models import ZOO
from minicompile.testing import seed_everything


def assert_few_graphs(subject, most=3):
    graphs = (subject.stats() or {}).get("graphs", 0)
    assert graphs <= most, f"{graphs} graphs"
    subject.assert_counts(graph_breaks=0)


@pytest.mark.parametrize("name", ["gpt", "gpt_manual"])
@torch.no_grad()
def test_sampling_with_every_length(name, subject):
    """One token, two, ... 256: at each length the scores of the next token are eager's."""
    model, batch = ZOO[name].build(context=256, dropout=0.0)
    compiled, text = subject.compile(model), batch.args[0][:, :1]
    seed_everything(0)
    while text.size(1) <= 256:
        expected, found = model(text)[0], compiled(text)[0]
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
        token = torch.multinomial(expected[:, -1].softmax(-1), num_samples=1)
        text = torch.cat([text, token], dim=1)
    assert_few_graphs(subject)


def sentences(model, batch, length):
    """Padded sentences and their mask; the first is as long as all may be."""
    lengths = torch.randint(1, length + 1, (batch, 1))
    lengths[0] = length
    mask = (torch.arange(length) < lengths).long()
    return torch.randint(1, model.word.num_embeddings, (batch, length)) * mask, mask


def pairs(count):
    """Different (batch, length), in no order; some batches are of one sentence."""
    return random.Random(0).sample([(b, n) for b in range(1, 17) for n in range(2, 65)], count)


@torch.no_grad()
def test_encoder_over_batches_and_lengths(subject):
    model, _ = ZOO["bert_encoder"].build(length=64)
    model.eval()
    compiled = subject.compile(model)
    for batch, length in [(4, 16), (1, 8), *pairs(16)]:
        ids, mask = sentences(model, batch, length)
        expected, found = model(ids, attention_mask=mask), compiled(ids, attention_mask=mask)
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
    assert_few_graphs(subject)


def test_training_the_encoder_over_batches_and_lengths(subject):
    """The gradients of all weights, too."""
    model, _ = ZOO["bert_encoder"].build(length=64, dropout=0.0)
    compiled = subject.compile(model)
    weights = list(model.parameters())
    for batch, length in [(4, 16), (1, 8), *pairs(3)]:
        ids, mask = sentences(model, batch, length)
        losses = [call(ids, attention_mask=mask)[0].logsumexp(-1).mean() for call in (model, compiled)]
        torch.testing.assert_close(losses[1], losses[0], rtol=1e-4, atol=1e-5)
        expected, found = (torch.autograd.grad(loss, weights, allow_unused=True) for loss in losses)
        for one, other in zip(expected, found, strict=True):
            torch.testing.assert_close(other, one, rtol=1e-3, atol=1e-5)
    assert_few_graphs(subject)
