"""Twenty steps of AdamW stay on eager's loss curve: dropout draws the same numbers, rounding stays rounding."""

import copy

import pytest
import torch
from torch import nn

import minicompile
from minicompile.accuracy import double, same_draws

F = nn.functional
STEPS = 20


class Block(nn.Module):
    """A residual block of convolutions."""

    def __init__(self, channels):
        super().__init__()
        self.conv1, self.norm1 = nn.Conv2d(channels, channels, 3, padding=1), nn.BatchNorm2d(channels)
        self.conv2, self.norm2 = nn.Conv2d(channels, channels, 3, padding=1), nn.BatchNorm2d(channels)

    def forward(self, x):
        return F.relu(x + self.norm2(self.conv2(F.relu(self.norm1(self.conv1(x))))))


class GPT(nn.Module):
    """Two blocks of causal attention with dropout, and tied embeddings."""

    def __init__(self, vocabulary=23, width=16, length=8):
        super().__init__()
        self.tokens, self.places = nn.Embedding(vocabulary, width), nn.Embedding(length, width)
        self.blocks = nn.ModuleList(nn.TransformerEncoderLayer(width, 2, 32, 0.1, batch_first=True) for _ in range(2))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, vocabulary, bias=False)
        self.head.weight = self.tokens.weight

    def forward(self, tokens):
        length = tokens.shape[1]
        x = self.tokens(tokens) + self.places(torch.arange(length))
        mask = torch.full((length, length), float("-inf"), dtype=x.dtype).triu(1)
        for block in self.blocks:
            x = block(x, src_mask=mask)
        return self.head(self.norm(x))


def classes(logits, seed, count):
    generator = torch.Generator().manual_seed(seed)
    return F.cross_entropy(logits, torch.randint(0, count, (len(logits),), generator=generator))


def floats(*shape):
    return lambda seed: torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def tokens(seed):
    return torch.randint(0, 23, (4, 8), generator=torch.Generator().manual_seed(seed))


# name: (model, its input at a step, loss of its output at a step)
MODELS = {
    "mlp": (
        lambda: nn.Sequential(nn.Linear(6, 32), nn.GELU(), nn.Dropout(0.2), nn.Linear(32, 5)),
        floats(16, 6),
        lambda out, seed: classes(out, seed, 5),
    ),
    "resnet": (
        lambda: nn.Sequential(nn.Conv2d(3, 8, 3), Block(8), nn.MaxPool2d(2), Block(8), nn.Flatten(), nn.Linear(72, 5)),
        floats(8, 3, 8, 8),
        lambda out, seed: classes(out, seed, 5),
    ),
    "gpt": (GPT, tokens, lambda out, seed: F.cross_entropy(out[:, :-1].flatten(0, 1), tokens(seed)[:, 1:].flatten())),
    "transformer": (
        lambda: nn.Sequential(nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, 0.3), 2), nn.Linear(8, 1)),
        floats(5, 4, 8),
        lambda out, seed: out.square().mean(),
    ),
}


def curve(model, function, name, cast=lambda x: x):
    """The losses, and the parameters at the end."""
    _, make, loss_of = MODELS[name]
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    losses = []
    for step in range(STEPS):
        torch.manual_seed(step)
        optimizer.zero_grad()
        loss = loss_of(function(cast(make(step % 4))), step % 4)
        loss.backward()
        optimizer.step()
        losses.append(loss.detach().double())
    return torch.stack(losses), [p.detach().double() for p in model.parameters()]


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
@pytest.mark.parametrize("name", MODELS)
def test_loss_curve(name, backend):
    torch.manual_seed(0)
    eager_model = MODELS[name][0]()
    our_model, exact_model = copy.deepcopy(eager_model), double(eager_model)
    eager, _ = curve(eager_model, eager_model, name)
    with same_draws():
        exact, _ = curve(exact_model, exact_model, name, double)
    ours, _ = curve(our_model, minicompile.compile(our_model, backend=backend, fullgraph=True), name)
    own = (eager - exact).abs().max()
    assert own < 1e-3 and (ours - exact).abs().max() <= 3 * max(
        own, 4 * torch.finfo(torch.float32).eps * exact.abs().max()
    )
    assert ours[-1] < ours[0]
