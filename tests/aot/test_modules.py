"""Small real models behind aot.compile: outputs, gradients and buffers as in eager, in training and evaluation."""

import pytest
import torch
from aot_helpers import assert_same, check_module, compiled
from torch import nn

F = nn.functional


class Tied(nn.Module):
    """A language model in small: the embedding is the output layer too."""

    def __init__(self):
        super().__init__()
        self.embed, self.head = nn.Embedding(11, 8), nn.Linear(8, 11, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, tokens):
        return F.cross_entropy(self.head(self.embed(tokens)).view(-1, 11), tokens.view(-1))


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.qkv, self.out = nn.LayerNorm(16), nn.Linear(16, 48), nn.Linear(16, 16)

    def forward(self, x):
        q, k, v = (t.view(2, 5, 2, 8).transpose(1, 2) for t in self.qkv(self.norm(x)).split(16, 2))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return x + self.out(y.transpose(1, 2).reshape(2, 5, 16))


class Cell(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = nn.LSTMCell(4, 6)

    def forward(self, x):
        h = c = torch.zeros(x.shape[1], 6)
        for step in x:
            h, c = self.cell(step, (h, c))
        return h, c


class Ema(nn.Module):
    """Writes a buffer from a parameter under no_grad and reads it afterwards."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(4))
        self.register_buffer("ema", torch.zeros(4))

    def forward(self, x):
        with torch.no_grad():
            self.ema.mul_(0.5).add_(self.weight)
        return (x * self.weight).sum() + self.ema.sum()


def floats(*shape):
    def make():
        x = torch.randn(*shape, generator=torch.Generator().manual_seed(1)).requires_grad_()
        return [x], [x]

    return make


def tokens(*shape):
    return lambda: ([], [torch.randint(0, 11, shape, generator=torch.Generator().manual_seed(1))])


def bn_net():
    return nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(inplace=True), nn.MaxPool2d(2), nn.Flatten())


MODELS = {
    "mlp": (lambda: nn.Sequential(nn.Linear(4, 8), nn.GELU(), nn.Linear(8, 3)), floats(2, 5, 4)),
    "batch norm": (bn_net, floats(4, 3, 8, 8)),
    "group norm": (lambda: nn.Sequential(nn.Conv1d(4, 4, 3), nn.GroupNorm(2, 4), nn.SiLU()), floats(2, 4, 9)),
    "dropout": (lambda: nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.5), nn.Linear(8, 3)), floats(2, 5, 4)),
    "tied": (Tied, tokens(2, 7)),
    "attention": (Attention, floats(2, 5, 16)),
    "encoder layer": (lambda: nn.TransformerEncoderLayer(16, 2, 32, dropout=0.1, batch_first=True), floats(2, 5, 16)),
    "lstm cell": (Cell, floats(3, 2, 4)),
    "ema": (Ema, floats(4)),
    "embedding bag": (lambda: nn.EmbeddingBag(11, 4), tokens(2, 7)),
}


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("table", ["no decompositions", "decompositions"])
@pytest.mark.parametrize("name", MODELS)
def test_model(name, table, training):
    build, make = MODELS[name]
    torch.manual_seed(0)
    check_module(build().train(training), make, exact=False, decompositions={} if table.startswith("no") else None)


@pytest.mark.parametrize("name", ["batch norm", "tied", "attention", "lstm cell"])
def test_model_without_gradients(name):
    build, make = MODELS[name]
    torch.manual_seed(0)
    with torch.no_grad():
        check_module(build().train(), make, exact=False)


def test_batch_norm_writes_each_buffer_once_and_without_a_version():
    """Eager does not raise the version of the running statistics: two forwards before a backward are allowed."""
    model = nn.BatchNorm1d(3)
    versions = [b._version for b in model.buffers()]
    function = compiled(model)
    x = torch.randn(5, 3, requires_grad=True)
    (function(x).square().sum() + function(x * 2).square().sum()).backward()
    twin = nn.BatchNorm1d(3)
    y = x.detach().clone().requires_grad_()
    (twin(y).square().sum() + twin(y * 2).square().sum()).backward()
    assert [b._version - v for b, v in zip(model.buffers(), versions, strict=True)] == [0, 0, 2]
    assert_same(x.grad, y.grad, False, "gradient")
    for ours, theirs in zip(model.buffers(), twin.buffers(), strict=True):
        assert_same(ours, theirs, False, "buffer")


def test_training_loop():
    """Twenty steps of AdamW: losses as in eager, gradients freed with set_to_none."""
    losses = {}
    for kind in ("eager", "ours"):
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.BatchNorm1d(16), nn.Linear(16, 1))
        function = model if kind == "eager" else compiled(model)
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
        x, y = torch.randn(32, 4), torch.randn(32, 1)
        losses[kind] = []
        for _ in range(20):
            optimizer.zero_grad(set_to_none=True)
            loss = F.mse_loss(function(x), y)
            loss.backward()
            optimizer.step()
            losses[kind].append(loss.item())
    assert losses["eager"] == pytest.approx(losses["ours"], rel=1e-4)
    assert losses["ours"][-1] < losses["ours"][0] * 0.9


def test_gradient_accumulation():
    model, x = nn.Linear(4, 3), torch.randn(2, 4)
    function = compiled(model)
    function(x).sum().backward()
    once = model.weight.grad.clone()
    function(x).sum().backward()
    assert_same(once * 2, model.weight.grad, False, "accumulated")


@pytest.mark.parametrize("dtype", [torch.bfloat16])
def test_autocast(dtype):
    """Casts are part of the graph, in the forward; the backward is not cast again, wherever it runs."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))
    x = torch.randn(3, 8)
    grads = []
    for function in (model, compiled(model)):
        model.zero_grad()
        with torch.autocast("cpu", dtype):
            out = function(x)
            loss = out.float().square().sum()
        assert out.dtype == dtype
        loss.backward()
        grads.append([p.grad.clone() for p in model.parameters()])
    for a, b in zip(*grads, strict=True):
        torch.testing.assert_close(a, b, rtol=2e-2, atol=2e-2)


def test_compiled_graph_runs_without_autocast():
    """The traced graph has its casts; a bfloat16 exp inside it stays bfloat16 when it runs under autocast."""

    def compiler(gm, inputs):
        def call(args):
            assert (torch.ones(2, 2) @ torch.ones(2, 2)).dtype == torch.float32
            return gm(*args)

        call._boxed_call = True
        return call

    w = torch.randn(4, 4, requires_grad=True)
    with torch.autocast("cpu", torch.bfloat16):
        out = compiled(lambda x: F.layer_norm(x @ w, (4,)).sum(), forward_compiler=compiler)(torch.randn(4, 4))
        out.backward()
    assert w.grad.dtype == torch.float32


def test_autocast_inside():
    def fn(x, w):
        with torch.autocast("cpu", torch.bfloat16):
            y = x @ w
        return y.float() + x.sum()

    x, w = torch.randn(4, 4), torch.randn(4, 4, requires_grad=True)
    a, b = fn(x, w), compiled(fn)(x, w)
    assert_same(a, b, False, "value")
    (ga,), (gb,) = torch.autograd.grad(a.sum(), w), torch.autograd.grad(b.sum(), w)
    assert_same(ga, gb, False, "gradient")
