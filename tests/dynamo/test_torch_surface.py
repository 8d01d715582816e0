"""Modules of every kind, optimizers, distributions, random numbers, results and attributes of tensors."""

import functools

import pytest
import torch
import torch.nn.functional as F
from torch import distributions, nn

import minicompile
from minicompile import record, testing


def tensor(*shape, requires_grad=False, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator).requires_grad_(requires_grad)


def check(fn, *args, backend="eager", graphs=1, graph_breaks=0, **options):
    compiler = functools.partial(minicompile.compile, backend=backend)
    return testing.check(fn, *args, compiler=compiler, graphs=graphs, graph_breaks=graph_breaks, **options)


def check_made(make, *args, calls=2, graphs=1, graph_breaks=0, backend="eager", rtol=1e-5, atol=1e-6):
    """For what cannot be copied: `make()` gives the function to run in eager, and once more the one to compile."""
    minicompile.reset()
    functions = [make(), minicompile.compile(make(), backend=backend)]
    for _ in range(calls):
        expected, actual = [testing.observe(function, None, args, {}) for function in functions]
        lines = testing._compare_observed(expected, actual, functions[0], "", False, rtol=rtol, atol=atol)
        assert not lines, "\n".join(lines)
    counted = record.stats()
    assert (counted["graphs"], counted["graph_breaks"]) == (graphs, graph_breaks), counted


# --- modules ------------------------------------------------------------------------------------------
class LazyModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.LazyLinear(4), nn.LazyBatchNorm1d()

    def forward(self, x):
        return self.second(self.first(x))


def test_lazy_modules_are_initialised_by_the_first_call():
    check_made(lambda: (torch.manual_seed(1), LazyModel())[1], tensor(5, 3))
    model = LazyModel()
    minicompile.compile(model, backend="eager", fullgraph=True)(tensor(5, 3))
    assert type(model.first) is nn.Linear and model.first.weight.shape == (4, 3)
    assert type(model.second) is nn.BatchNorm1d and model.second.num_batches_tracked == 1


def test_lazy_convolution():
    check_made(
        lambda: nn.Sequential(nn.LazyConv2d(4, 3), nn.ReLU(), nn.Flatten(), nn.LazyLinear(2)), tensor(2, 3, 8, 8)
    )


class Symmetric(nn.Module):
    def forward(self, x):
        return x.triu() + x.triu(1).transpose(-1, -2)


def symmetric():
    layer = nn.Linear(3, 3)
    nn.utils.parametrize.register_parametrization(layer, "weight", Symmetric())
    return layer


PARAMETRIZED = {
    "weight_norm": lambda: nn.utils.parametrizations.weight_norm(nn.Linear(3, 4)),
    "spectral_norm": lambda: nn.utils.parametrizations.spectral_norm(nn.Linear(3, 4)),
    "spectral_norm in evaluation": lambda: nn.utils.parametrizations.spectral_norm(nn.Linear(3, 4)).eval(),
    "orthogonal": lambda: nn.utils.parametrizations.orthogonal(nn.Linear(3, 3)),
    "own": symmetric,
    "old weight_norm": lambda: nn.utils.weight_norm(nn.Linear(3, 4)),
    "old spectral_norm": lambda: nn.utils.spectral_norm(nn.Linear(3, 4)),
}


@pytest.mark.filterwarnings("ignore:.*weight_norm.* is deprecated")
@pytest.mark.parametrize("name", PARAMETRIZED)
def test_parametrizations(name):
    torch.manual_seed(0)
    check_made(lambda: (torch.manual_seed(1), PARAMETRIZED[name]())[1], tensor(2, 3))


def hooked():
    layer = nn.Linear(3, 3)
    layer.register_forward_hook(lambda module, args, output: output * 2)
    layer.register_forward_pre_hook(lambda module, args: (args[0] + 1,))
    layer.register_forward_hook(lambda module, args, kwargs, output: output + 1, with_kwargs=True)
    return layer


def test_forward_hooks():
    check(nn.Sequential(hooked(), nn.ReLU()), tensor(2, 3))
    check(hooked(), tensor(2, 3))


@pytest.mark.parametrize("register", ["register_full_backward_hook", "register_full_backward_pre_hook"])
def test_backward_hooks(register):
    layer = nn.Linear(3, 3)
    hook = (
        (lambda m, gi, go: (gi[0] * 2,)) if register == "register_full_backward_hook" else (lambda m, go: (go[0] * 2,))
    )
    getattr(layer, register)(hook)
    check(nn.Sequential(layer, nn.ReLU()), tensor(2, 3, requires_grad=True))


class BufferMadeInForward(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 3)

    def forward(self, x):
        if not hasattr(self, "mask"):
            self.register_buffer("mask", torch.tril(torch.ones(3, 3)))
        return self.layer(x) @ self.mask


class BufferSetInForward(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("positions", None, persistent=False)

    def forward(self, x):
        if self.positions is None:
            self.positions = torch.arange(3.0)
        return x + self.positions


class ParameterKeptInForward(nn.Module):
    def forward(self, x):
        if not hasattr(self, "weight"):
            self.weight = nn.Parameter(torch.ones(3))
        return x * self.weight


class AttributesWritten(nn.Module):
    def __init__(self):
        super().__init__()
        self.last = None
        self.register_buffer("total", torch.zeros(3))

    def forward(self, x):
        self.last = x * 2
        self.total = self.total + x.sum(0)
        self.total += 1
        return self.last + self.total


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("model", [BufferMadeInForward, BufferSetInForward, ParameterKeptInForward, AttributesWritten])
def test_the_second_call_finds_what_the_first_made(model, backend):
    check(model(), tensor(2, 3), backend=backend, graphs=1 if model is AttributesWritten else 2, calls=3)


class ParameterInForward(nn.Module):
    def forward(self, x):
        return x * nn.Parameter(torch.ones(3))


class ModulesInForward(nn.Module):
    def forward(self, x):
        layer = nn.Linear(3, 2)
        nn.init.constant_(layer.weight, 0.5)
        nn.init.zeros_(layer.bias)
        return nn.ReLU()(x).sum() + layer(x)


class StateDict(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 3)

    def forward(self, x):
        y = self.layer(x)
        for name, value in self.state_dict().items():
            y = y + value.sum() * len(name)
        return y


class Lists(nn.Module):
    def __init__(self):
        super().__init__()
        self.list = nn.ParameterList([nn.Parameter(tensor(3, seed=i)) for i in range(3)])
        self.dict = nn.ParameterDict({"a": nn.Parameter(tensor(3)), "b": nn.Parameter(tensor(3))})

    def forward(self, x):
        for i, parameter in enumerate(self.list):
            x = x * parameter + i
        for name in self.dict:
            x = x + self.dict[name]
        return x + self.list[-1] + len(self.list) + self.dict["a"] + ("c" in self.dict)


@pytest.mark.parametrize("model", [ParameterInForward, ModulesInForward, StateDict, Lists])
def test_one_graph(model):
    check(model(), tensor(2, 3, requires_grad=True))


def test_a_parameter_made_in_forward_is_a_parameter():
    y = minicompile.compile(lambda x: nn.Parameter(x * 2, requires_grad=False), backend="eager", fullgraph=True)(
        tensor(3)
    )
    assert type(y) is nn.Parameter and not y.requires_grad
    torch.testing.assert_close(y.data, tensor(3) * 2)


# --- optimizers ---------------------------------------------------------------------------------------
OPTIMIZERS = {
    "SGD": lambda p: torch.optim.SGD(p, 0.1),
    "SGD with momentum": lambda p: torch.optim.SGD(p, 0.1, momentum=0.9, weight_decay=0.01, foreach=False),
    "SGD foreach": lambda p: torch.optim.SGD(p, 0.1, momentum=0.9, nesterov=True, foreach=True),
    "Adam": lambda p: torch.optim.Adam(p, 0.1, foreach=False),
    "Adam foreach": lambda p: torch.optim.Adam(p, 0.1, foreach=True),
    "Adam amsgrad": lambda p: torch.optim.Adam(p, 0.1, amsgrad=True, weight_decay=0.1),
    "AdamW": lambda p: torch.optim.AdamW(p, 0.1),
    "AdamW foreach": lambda p: torch.optim.AdamW(p, 0.1, foreach=True, maximize=True),
    "RMSprop": lambda p: torch.optim.RMSprop(p, 0.01),
    "Adagrad": lambda p: torch.optim.Adagrad(p, 0.01),
}


def optimized(make, then=None):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 2))
    for index, parameter in enumerate(model.parameters()):
        parameter.grad = torch.linspace(-1, 1, parameter.numel()).view(parameter.shape) + index
    optimizer = make(list(model.parameters()))
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.5) if then == "scheduler" else None

    def step():
        optimizer.step()
        if scheduler is not None:
            scheduler.step()
        return [parameter.detach().clone() for parameter in model.parameters()]

    return step


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_optimizer_step(name):
    graphs = 1 if name in ("SGD", "Adagrad") else 2  # the first step makes the state
    make = functools.partial(optimized, OPTIMIZERS[name])
    check_made(make, calls=4, graphs=graphs, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["SGD with momentum", "AdamW", "Adam foreach"])
def test_optimizer_step_in_kernels(name):
    make = functools.partial(optimized, OPTIMIZERS[name])
    check_made(make, calls=3, graphs=2, backend="inductor", rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["SGD", "Adam", "AdamW", "Adagrad"])
def test_a_fused_optimizer_is_a_kernel_already(name):
    steps = [optimized(lambda p: getattr(torch.optim, name)(p, 0.1, fused=True)) for _ in range(2)]
    compiled = minicompile.compile(steps[1], backend="aot_eager")
    for _ in range(3):
        torch.testing.assert_close(compiled(), steps[0]())
    assert set(minicompile.record.break_reasons) == {"torch call left to eager"}


def test_parameter_groups_and_a_scheduler():
    def make(parameters):
        groups = [{"params": parameters[:1], "weight_decay": 0.1}, {"params": parameters[1:], "lr": 0.01}]
        return torch.optim.AdamW(groups, lr=0.1)

    step = optimized(make, "scheduler"), minicompile.compile(optimized(make, "scheduler"), backend="eager")
    for _ in range(3):
        expected, actual = step[0](), step[1]()
        torch.testing.assert_close(actual, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("keep", [False, True])
def test_zero_grad(keep):
    def make():
        model = nn.Linear(3, 3)
        optimizer = torch.optim.SGD(model.parameters(), 0.1)

        def zero():
            for parameter in model.parameters():
                parameter.grad = torch.ones_like(parameter)
            optimizer.zero_grad(set_to_none=not keep)
            return [parameter.grad for parameter in model.parameters()]

        return zero

    check_made(make, graphs=1)


@pytest.mark.parametrize("clip", [nn.utils.clip_grad_norm_, nn.utils.clip_grad_value_])
@pytest.mark.parametrize("foreach", [False, True])
def test_clip_gradients(clip, foreach):
    def make():
        model = nn.Linear(3, 3)
        for parameter in model.parameters():
            parameter.grad = torch.ones_like(parameter) * 3

        def run():
            norm = clip(model.parameters(), 0.5, foreach=foreach)
            return norm, [parameter.grad.clone() for parameter in model.parameters()]

        return run

    check_made(make)


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
def test_whole_train_step_breaks_at_backward_only(backend):
    def make():
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
        optimizer = torch.optim.AdamW(model.parameters(), 0.1)

        def step(x):
            optimizer.zero_grad()
            loss = model(x).pow(2).mean()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            return loss.detach()

        return step

    eager, compiled = make(), minicompile.compile(make(), backend=backend)
    for number in range(4):
        torch.testing.assert_close(
            compiled(tensor(8, 3, seed=number)), eager(tensor(8, 3, seed=number)), rtol=1e-3, atol=1e-4
        )
    assert set(record.break_reasons) == {"backward inside a compiled function"}


# --- branches on data of which one side raises ----------------------------------------------------------
def checked(x):
    if not (x > -100).all():
        raise ValueError(f"too small: {x.min().item():.1f}")
    return x.sin()


def asserted(x):
    y = x * 2
    if y.isnan().any():
        raise FloatingPointError("not a number")
    return y


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
@pytest.mark.graph_errors
def test_a_check_of_the_data_is_an_assertion_of_the_graph(backend):
    check(checked, tensor(3, requires_grad=True), backend=backend)
    compiled = minicompile.compile(checked, backend=backend)
    compiled(tensor(3))
    with pytest.raises(ValueError, match="too small: -200.0"):
        compiled(torch.tensor([1.0, -200.0, 3.0]))
    torch.testing.assert_close(compiled(tensor(3)), tensor(3).sin())
    check(asserted, tensor(3), backend=backend)
    with pytest.raises(FloatingPointError, match="not a number"):
        minicompile.compile(asserted, backend=backend)(torch.tensor([1.0, torch.nan, 3.0]))


@pytest.mark.graph_errors
def test_a_check_that_is_caught():
    def fn(x):
        try:
            return checked(x)
        except ValueError:
            return x * 0

    compiled = minicompile.compile(fn, backend="eager", fullgraph=True)
    torch.testing.assert_close(compiled(tensor(3)), tensor(3).sin())
    torch.testing.assert_close(compiled(torch.tensor([1.0, -200.0, 3.0])), torch.zeros(3))


@pytest.mark.graph_errors
def test_a_check_in_a_function_that_writes_its_inputs_breaks():
    def fn(x):
        x.add_(1)
        return checked(x)

    compiled = minicompile.compile(fn, backend="eager")
    for function in (fn, compiled):
        x = torch.tensor([1.0, -200.0, 3.0])
        with pytest.raises(ValueError, match="too small: -199.0"):
            function(x)
        assert x.tolist() == [2.0, -199.0, 4.0]
    assert record.break_reasons["data-dependent branch"] >= 1


def test_a_branch_that_goes_on_both_ways_breaks():
    def fn(x):
        if x.sum() > 0:
            return x * 2
        return x * 3

    check(fn, tensor(3), graphs=2, graph_breaks=1)


# --- distributions ------------------------------------------------------------------------------------
def normal(mean, deviation, x):
    d = distributions.Normal(mean, deviation)
    return d.log_prob(x), d.entropy(), d.rsample(), d.sample((2,)), d.mean, d.variance, d.cdf(x)


def categorical(logits):
    d = distributions.Categorical(logits=logits)
    drawn = d.sample()
    return drawn, d.log_prob(drawn), d.entropy(), d.probs


def categorical_of_probabilities(x):
    d = distributions.Categorical(x.softmax(-1))
    drawn = d.sample()
    return drawn, d.log_prob(drawn), d.entropy()


def bernoulli(logits):
    d = distributions.Bernoulli(logits=logits)
    drawn = d.sample()
    return drawn, d.log_prob(drawn), d.entropy(), d.mean


def divergences(a, b):
    return (
        distributions.kl_divergence(distributions.Normal(a, 1.0), distributions.Normal(b, 2.0)),
        distributions.kl_divergence(distributions.Categorical(logits=a), distributions.Categorical(logits=b)),
    )


def independent(mean, x):
    d = distributions.Independent(distributions.Normal(mean, torch.ones_like(mean)), 1)
    return d.log_prob(x), d.rsample()


def others(a, x):
    return (
        distributions.Uniform(a, a + 1).rsample(),
        distributions.Exponential(a.exp()).log_prob(x.abs()),
        distributions.Beta(a.exp(), a.exp()).mean,
        distributions.Laplace(a, 1.0).log_prob(x),
    )


DISTRIBUTIONS = {
    normal: (tensor(3, requires_grad=True), tensor(3).abs() + 0.1, tensor(3, seed=1)),
    categorical: (tensor(4, 3, requires_grad=True),),
    categorical_of_probabilities: (tensor(4, 3, requires_grad=True),),
    bernoulli: (tensor(4, requires_grad=True),),
    divergences: (tensor(4, requires_grad=True), tensor(4, seed=1)),
    independent: (tensor(2, 4, requires_grad=True), tensor(2, 4, seed=1)),
    others: (tensor(4, requires_grad=True), tensor(4, seed=1)),
}


@pytest.mark.parametrize("fn", DISTRIBUTIONS)
def test_distributions_with_their_arguments_validated(fn):
    check(fn, *DISTRIBUTIONS[fn])


def test_distribution_in_kernels():
    def fn(mean, deviation, x):
        d = distributions.Normal(mean, deviation)
        return d.log_prob(x), d.entropy()

    check(fn, *DISTRIBUTIONS[normal], backend="inductor")


@pytest.mark.graph_errors
def test_a_distribution_refuses_what_eager_refuses():
    compiled = minicompile.compile(lambda m, s: distributions.Normal(m, s).sample(), backend="eager")
    compiled(tensor(3), tensor(3).abs() + 0.1)
    with pytest.raises(ValueError, match="Expected parameter scale"):
        compiled(tensor(3), -tensor(3).abs())


# --- random numbers -----------------------------------------------------------------------------------
def draws(x):
    return (
        F.dropout(x, 0.5) + torch.randn_like(x) + torch.rand(3) + x.clone().normal_() + x.clone().uniform_(0, 1),
        torch.randint(0, 5, (3,)) + torch.randperm(3) + torch.multinomial(torch.ones(3), 3),
        torch.bernoulli(torch.full((3,), 0.5)),
    )


def test_draws_are_eagers():
    check(draws, tensor(3))


def test_seed_generator_and_state_are_eagers():
    generator = torch.Generator()

    def seeded(x):
        torch.manual_seed(5)
        return x + torch.rand(3)

    def with_generator(x):
        generator.manual_seed(3)
        return x + torch.rand(3, generator=generator)

    def with_state(x):
        state = torch.get_rng_state()
        first = torch.rand(3)
        torch.set_rng_state(state)
        return x + first - torch.rand(3)

    def forked(x):
        with torch.random.fork_rng():
            torch.manual_seed(1)
            first = torch.rand(3)
        return x + first + torch.rand(3)

    for fn in (seeded, with_generator, with_state, forked):
        minicompile.reset()
        expected = testing.observe(fn, None, (tensor(3),), {})
        actual = testing.observe(minicompile.compile(fn, backend="eager"), None, (tensor(3),), {})
        assert expected.error is None and actual.error is None
        torch.testing.assert_close(actual.output, expected.output, rtol=0, atol=0)


# --- results and attributes of tensors ------------------------------------------------------------------
def with_out(x):
    out = torch.empty(3)
    torch.sin(x, out=out)
    torch.add(x, 1, out=out)
    return out


def with_two_outs(x, values, indices):
    result = torch.max(x, 1, out=(values, indices))
    return result.values + 1, result[1]


def resized(x):
    out = torch.empty(0)
    torch.sin(x, out=out)
    return out + 1


@pytest.mark.parametrize("out", [5, "a", 1.5, torch.Size([1]), [5], object(), None])
@pytest.mark.parametrize("function", [torch.add, torch.max])
def test_an_out_that_is_no_tensor_is_pytorchs_to_refuse(function, out):
    def program(x):
        try:
            return x + 1, str(function(x, 0, out=out))
        except (TypeError, RuntimeError) as error:
            return x, (type(error), str(error))

    minicompile.reset()
    assert minicompile.compile(program, backend="eager")(torch.ones(2))[1] == program(torch.ones(2))[1]


def gradient_written(x):
    x.grad = torch.ones_like(x) * 2
    return x * x.grad


def gradient_taken_away(x):
    x.grad = None
    return x * 2


def sizes(x):
    size = x.shape
    return x.reshape(size.numel()), size + (1,), size[1:] * 2, type(size[:1]), size == (3, 4), x.new_zeros(*size[:1], 5)


def dtypes(x):
    wide = torch.promote_types(torch.int32, x.dtype)
    return x + torch.finfo(x.dtype).eps, torch.iinfo(torch.int32).max, wide, torch.result_type(x, 1.0), x.to(wide)


def constructors(x):
    return x + torch.Tensor([1, 2, 3]) + torch.Tensor(3).fill_(2), torch.Tensor([]).shape


RESULTS = {
    with_out: (tensor(3),),
    with_two_outs: (tensor(3, 4), torch.empty(3), torch.empty(3, dtype=torch.long)),
    gradient_written: (tensor(3, requires_grad=True),),
    gradient_taken_away: (tensor(3, requires_grad=True),),
    sizes: (tensor(3, 4),),
    dtypes: (tensor(3),),
    constructors: (tensor(3),),
}


@pytest.mark.parametrize("fn", RESULTS)
def test_results(fn):
    check(fn, *RESULTS[fn], backward=fn is not gradient_written)


def test_out_that_is_resized_breaks():
    check(resized, tensor(3), graphs=2, graph_breaks=1)


def test_gradient_that_does_not_fit_is_refused_as_in_eager():
    def fn(x):
        x.grad = torch.ones(5)
        return x

    with pytest.raises(RuntimeError, match="attempting to assign a gradient of size"):
        minicompile.compile(fn, backend="eager")(tensor(3, requires_grad=True))
