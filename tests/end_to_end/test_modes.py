"""What a compiled model must do over its life: train() and eval(), dropout, batch norm's statistics, other sizes."""

import copy

import torch
import torch.nn as nn
import torch.nn.functional as F

from minicompile.bench.models import ZOO
from minicompile.testing import check, seed_everything


def counts(subject):
    return {"compiler": subject.compile, "stats": lambda: subject.stats() or {}}


def only_if_counted(subject, **expected):
    """Expected counts for `check`, which knows no subject: only those that the subject keeps."""
    counted = subject.stats() or {}
    return {name: value for name, value in expected.items() if name in counted}


def test_train_and_eval_switch(subject):
    """One graph each, chosen by `self.training`; the statistics move in train mode only."""
    model, batch = ZOO["mobile_cnn"].build(batch=2)
    twin = copy.deepcopy(model)
    compiled = subject.compile(twin)
    for training in (False, True, False, True):
        before = {name: b.clone() for name, b in twin.named_buffers()}
        model.train(training)
        compiled.train(training)
        assert twin.training == training
        outputs = []
        for call in (model, compiled):
            seed_everything(7)
            outputs.append(call(*batch.args))
        torch.testing.assert_close(outputs[1], outputs[0], rtol=1e-4, atol=1e-5)
        moved = [name for name, b in twin.named_buffers() if not torch.equal(b, before[name])]
        assert len(moved) == (len(before) if training else 0)
        for (name, a), b in zip(model.named_buffers(), twin.buffers(), strict=True):
            torch.testing.assert_close(b, a, msg=lambda text, name=name: f"{name}: {text}")
    subject.assert_counts(graphs=2, graph_breaks=0)


def test_dropout_forward_and_backward_agree(subject):
    """The gradient is non-zero exactly where the output is, with the same scale, and every call draws anew."""
    compiled = subject.compile(lambda x: F.dropout(torch.sin(x), 0.4))
    masks = []
    for _ in range(3):
        x = (torch.rand(40, 40) + 0.2).requires_grad_()
        y = compiled(x)
        y.sum().backward()
        torch.testing.assert_close(x.grad, (y / torch.sin(x) * torch.cos(x)).detach())
        masks.append(y != 0)
        assert 0.5 < masks[-1].float().mean() < 0.7
    assert not torch.equal(masks[0], masks[1]) and not torch.equal(masks[1], masks[2])
    subject.assert_counts(graphs=1, graph_breaks=0)


def test_random_state_moves_as_in_eager(subject):
    """What is drawn after a compiled call is what would have been drawn after the eager one."""
    model, batch = ZOO["vae"].build()
    following = []
    for call in (model, subject.compile(model)):
        seed_everything(3)
        call(*batch.args)
        following.append(torch.rand(3))
    assert torch.equal(*following)


def test_another_batch_size_compiles_once_more(subject):
    """The second size makes the batch symbolic; the third needs nothing new."""
    model, _ = ZOO["mlp_mixer"].build()
    images = [(torch.randn(n, 3, 16, 16),) for n in (5, 4, 9)]
    expected = only_if_counted(subject, graphs=2, graph_breaks=0)
    check(model, torch.randn(3, 3, 16, 16), also=images, rtol=1e-4, atol=1e-5, **counts(subject), **expected)


def test_lstm_state_is_carried(subject):
    """Truncated back-propagation: the state of one call is an input of the next."""
    model, batch = ZOO["lstm_cell"].build(dropout=0.0)
    twin = copy.deepcopy(model)
    for call in (model, subject.compile(twin)):
        state = None
        for part in batch.args[0].split(3, dim=1):
            logits, state = call(part, state)
            logits.square().mean().backward()
            state = [tuple(t.detach() for t in pair) for pair in state]
    for (name, a), b in zip(model.named_parameters(), twin.parameters(), strict=True):
        torch.testing.assert_close(b.grad, a.grad, msg=lambda text, name=name: f"{name}: {text}")
    subject.assert_counts(graphs=2, graph_breaks=0)


def test_a_frozen_layer_gets_no_gradient(subject):
    model, batch = ZOO["mlp_mixer"].build()
    model.patch.requires_grad_(False)
    loss = subject.compile(model)(*batch.args).square().mean()
    loss.backward()
    assert model.patch.weight.grad is None and model.head.weight.grad is not None


def test_a_gradient_for_the_input(subject):
    model, batch = ZOO["unet"].build()
    check(model, batch.args[0].requires_grad_(), rtol=1e-3, atol=1e-4, **counts(subject))


def test_gradients_accumulate_over_two_backwards(subject):
    layer, x = nn.Linear(4, 4), torch.randn(3, 4)
    compiled = subject.compile(layer)
    compiled(x).sum().backward()
    first = layer.weight.grad.clone()
    compiled(x).sum().backward()
    torch.testing.assert_close(layer.weight.grad, 2 * first)


def test_weights_changed_in_place_are_seen(subject):
    """Parameters are inputs of the graph: a step of the optimizer, or a loaded state, needs no new graph."""
    layer, x = nn.Linear(4, 4), torch.randn(3, 4)
    compiled = subject.compile(layer)
    compiled(x)
    layer.load_state_dict({"weight": torch.eye(4), "bias": torch.ones(4)})
    torch.testing.assert_close(compiled(x), x + 1)
    subject.assert_counts(graphs=1, recompiles=0)
