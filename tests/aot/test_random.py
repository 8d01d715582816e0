"""Random numbers: compiled code draws what eager draws, bit by bit, and leaves the generator where eager leaves it.

So it is on a CPU, where the option `fallback_random` changes nothing; for kernels of a GPU see
tests/inductor/test_random_kernels.py.
"""

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

import minicompile

F = nn.functional


def numbers(*shape, grad=True):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(3)).requires_grad_(grad)


def unused(x):
    torch.rand(3)
    return x * torch.rand_like(x)


def in_order(x):
    a = torch.rand(5)
    b = F.dropout(x, 0.5)
    c = torch.randn(7)
    d = torch.randint(0, 10, (3,))
    return a, b, c, d, torch.randperm(6), F.dropout(x, 0.2)


def equal_calls(x):
    """Two draws that look alike are two draws."""
    return torch.rand(4) - torch.rand(4), F.dropout(x, 0.5) - F.dropout(x, 0.5)


def in_a_branch(x):
    return F.dropout(x, 0.5, training=x.shape[0] > 2) + torch.rand(1)


def in_a_loop(x):
    for _ in range(3):
        x = F.dropout(x.sin(), 0.3)
    return x


def after_a_break(x):
    y = F.dropout(x, 0.5)
    print(end="")
    return y * torch.rand_like(x)


def noise_that_is_read_twice(x):
    noise = torch.randn_like(x)
    return (x + noise).sin() * noise.exp()


def between_integers(x):
    a = torch.empty(5).random_(1, 100)
    return a, x.detach().clone().random_(-3, 3), torch.empty(4, dtype=torch.int64).random_(10), x.double().random_(2, 9)


def written_in_place(x):
    y = x * 1
    return y.detach().bernoulli_(0.3), torch.empty(5).normal_(), torch.empty(4).uniform_(2, 3), y


def written_views(x):
    y = torch.zeros(6, 4)
    y[::2].normal_()
    y[:, 1].exponential_()
    return y


def given_generator(x):
    generator = torch.Generator().manual_seed(11)
    return torch.rand(4, generator=generator) + torch.rand(4), torch.randperm(5, generator=generator)


def seeds_itself(x):
    torch.manual_seed(42)
    return torch.rand(3), F.dropout(x, 0.5)


def attention(x):
    return F.scaled_dot_product_attention(x[None], x[None], x[None], dropout_p=0.4)


def checkpointed(x):
    return checkpoint(lambda t: F.dropout(t.sin(), 0.5).exp(), x, use_reentrant=False)


def checkpointed_twice(x):
    x = checkpoint(lambda t: F.dropout(t.sin(), 0.5), x, use_reentrant=False)
    return checkpoint(lambda t: torch.rand_like(t) * t, x, use_reentrant=False)


def module(build):
    """A module as a function of its input, the same weights each time."""
    torch.manual_seed(1)
    made = build()
    return lambda x: made(x)


PROGRAMS = {
    "rand": lambda x: torch.rand(4, 5),
    "randn": lambda x: torch.randn(4, 5),
    "rand of double": lambda x: torch.rand(4, 5, dtype=torch.float64),
    "randn of bfloat16": lambda x: torch.randn(40, dtype=torch.bfloat16),
    "randn of many": lambda x: torch.randn(1000),
    "rand_like": lambda x: torch.rand_like(x) + x,
    "rand_like of transposed": lambda x: torch.rand_like(x.t()) + x.t(),
    "randn_like of expanded": lambda x: torch.randn_like(x[:1].expand(6, 4)),
    "randint": lambda x: torch.randint(2, 9, (4, 5)),
    "randint_like": lambda x: torch.randint_like(x, 9),
    "randperm": lambda x: torch.randperm(9),
    "bernoulli": lambda x: torch.bernoulli(x.sigmoid()),
    "multinomial": lambda x: torch.multinomial(x.softmax(1), 3),
    "normal": lambda x: torch.normal(x, 0.5),
    "poisson": lambda x: torch.poisson(x.abs() * 3),
    "exponential_": lambda x: torch.empty(5).exponential_(),
    "gumbel_softmax": lambda x: F.gumbel_softmax(x, hard=True),
    "rrelu": lambda x: F.rrelu(x, training=True),
    "dropout": lambda x: F.dropout(x, 0.5),
    "dropout of transposed": lambda x: F.dropout(x.t(), 0.5),
    "dropout of channels_last": lambda x: F.dropout(
        x.view(1, 2, 3, 4).contiguous(memory_format=torch.channels_last), 0.5
    ),
    "dropout of strided": lambda x: F.dropout(x[:, ::2], 0.5),
    "dropout of everything": lambda x: F.dropout(x, 1.0),
    "dropout of nothing": lambda x: F.dropout(x, 0.0),
    "dropout in evaluation": lambda x: F.dropout(x, 0.5, training=False),
    "dropout in place": lambda x: F.dropout(x * 1, 0.5, inplace=True),
    "dropout of half": lambda x: F.dropout(x.half(), 0.5).float(),
    "dropout1d": lambda x: F.dropout1d(x, 0.5),
    "dropout2d": lambda x: F.dropout2d(x.view(1, 2, 3, 4), 0.5),
    "alpha_dropout": lambda x: F.alpha_dropout(x, 0.5, training=True),
    "alpha_dropout of transposed": lambda x: F.alpha_dropout(x.t(), 0.5, training=True),
    "alpha_dropout of channels_last": lambda x: F.alpha_dropout(
        x.view(1, 2, 3, 4).contiguous(memory_format=torch.channels_last), 0.5, training=True
    ),
    "bernoulli_ of transposed": lambda x: torch.empty_like(x.t()).bernoulli_(0.3) + 1,
    "bernoulli_ of strided": lambda x: (x.detach() * 1)[:, ::2].bernoulli_(0.3),
    "bernoulli_ of a tensor": lambda x: torch.empty_like(x.t()).bernoulli_(x.detach().sigmoid().t()) * 2,
    "bernoulli_ of one row": lambda x: torch.empty_like(x.t()).bernoulli_(x.detach()[:, 0].sigmoid()),
    "feature_alpha_dropout": lambda x: F.feature_alpha_dropout(x, 0.5, training=True),
    "attention": attention,
    "unused draw": unused,
    "in order": in_order,
    "equal calls": equal_calls,
    "in a branch": in_a_branch,
    "in a loop": in_a_loop,
    "after a break": after_a_break,
    "noise that is read twice": noise_that_is_read_twice,
    "between integers": between_integers,
    "written in place": written_in_place,
    "written views": written_views,
    "given generator": given_generator,
    "seeds itself": seeds_itself,
    "checkpointed": checkpointed,
    "checkpointed twice": checkpointed_twice,
    "lstm with dropout": module(lambda: nn.LSTM(4, 4, 2, dropout=0.5)),
    "encoder layer": module(lambda: nn.TransformerEncoderLayer(4, 2, 8, dropout=0.3)),
    "mlp with dropout": module(lambda: nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.5), nn.Linear(8, 4), nn.Dropout())),
}


def observe(function, mode):
    """Three calls after one seed: outputs, gradients, the state of the generator after each."""
    torch.manual_seed(7)
    seen = []
    for _ in range(3):
        x = numbers(6, 4)
        with torch.enable_grad() if mode == "training" else torch.no_grad():
            outputs = function(x)
        outputs = [o for o in (outputs if isinstance(outputs, tuple) else (outputs,)) if isinstance(o, torch.Tensor)]
        seen.append(torch.get_rng_state())
        targets = [o for o in outputs if o.requires_grad]
        if targets:
            torch.autograd.backward([t.sin().sum() for t in targets])
        seen += [[o.detach() for o in outputs], x.grad, torch.get_rng_state()]
    return seen


@pytest.mark.parametrize("mode", ["training", "inference"])
@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_draws_are_those_of_eager(name, backend, mode):
    function = PROGRAMS[name]
    expected = observe(function, mode)
    actual = observe(minicompile.compile(function, backend=backend), mode)
    for e, a in zip(expected, actual, strict=True):
        same(e, a)


def same(expected, actual):
    if isinstance(expected, list):
        assert len(expected) == len(actual)
        for e, a in zip(expected, actual, strict=True):
            same(e, a)
    elif isinstance(expected, torch.Tensor) and expected.is_floating_point():
        torch.testing.assert_close(actual, expected, rtol=1e-5, atol=1e-6, equal_nan=True)  # what is computed of them
    else:
        assert actual is None if expected is None else torch.equal(expected, actual)


@pytest.mark.parametrize("name", ["dropout", "rand_like", "in order", "noise that is read twice", "mlp with dropout"])
def test_draws_of_any_size(name):
    function = PROGRAMS[name]
    same(observe(function, "training"), observe(minicompile.compile(function, dynamic=True), "training"))


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_raw_draws_are_equal_bit_by_bit(backend):
    def fn(x):
        y = torch.ones(50)
        return torch.rand(50), torch.randn(50), F.dropout(y, 0.3), torch.bernoulli(y * 0.4), torch.rand(5, 5).t()

    results = []
    for function in (fn, minicompile.compile(fn, backend=backend)):
        torch.manual_seed(5)
        results.append(function(None))
    assert all(torch.equal(e, a) for e, a in zip(*results, strict=True))


def test_reproducible_under_a_seed():
    function = minicompile.compile(lambda x: F.dropout(x, 0.5) + torch.randn_like(x))
    x, results = numbers(6, 4), []
    for seed in (1, 2, 1):
        torch.manual_seed(seed)
        results.append(function(x))
    assert torch.equal(results[0], results[2]) and not torch.equal(results[0], results[1])


def test_forward_and_backward_agree():
    """The gradient of dropout is its mask, scaled: what the forward zeroed gets no gradient."""
    function = minicompile.compile(lambda x: F.dropout(x.exp(), 0.5))
    for _ in range(3):
        x = numbers(60, 40)
        out = function(x)
        out.sum().backward()
        torch.testing.assert_close(x.grad, out.detach())
        assert 0.4 < (out == 0).float().mean() < 0.6


def test_retained_graph_does_not_draw_again():
    function, x = minicompile.compile(lambda x: F.dropout(x, 0.5).sum()), numbers(30)
    out = function(x)
    state = torch.get_rng_state()
    (first,) = torch.autograd.grad(out, x, retain_graph=True)
    (second,) = torch.autograd.grad(out, x)
    assert torch.equal(first, second) and torch.equal(state, torch.get_rng_state())


def test_no_draw_is_computed_again():
    """However cheap: the partition saves what is drawn."""
    from minicompile import aot

    def fn(x):
        return (x + torch.rand_like(x)).sin().exp() * F.dropout(x, 0.5).cos()

    graph = aot.trace(torch.fx.symbolic_trace(fn), [numbers(6, 4)])
    computed = [n for n in graph.backward.graph.nodes if n.op == "call_function"]
    drawing = [n.name for n in computed if "rand" in str(n.target) or "bernoulli" in str(n.target)]
    assert not drawing and not any("rand" in name or "bernoulli" in name for name in graph.recomputed)
