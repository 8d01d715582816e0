"""Examples: autograd.Function, checkpoint, torch.func, optimizers, distributions, random numbers, numpy, subclasses."""

import numpy as np
import torch
from corpus import NOTHING, V, X, example
from corpus_modules import MLP, seeded
from torch import nn
from torch.overrides import TorchFunctionMode
from torch.utils.checkpoint import checkpoint


# --- torch.autograd.Function ----------------------------------------------------------------------------
class StraightThrough(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.round()

    @staticmethod
    def backward(ctx, grad):
        return grad


class Scale(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, factor):
        ctx.save_for_backward(x)
        ctx.factor = factor
        return x * factor, x.sum()

    @staticmethod
    def backward(ctx, grad, grad_sum):
        (x,) = ctx.saved_tensors
        return grad * ctx.factor + 0 * x + grad_sum, None


class NewStyle(torch.autograd.Function):
    @staticmethod
    def forward(x, n):
        return x**n

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.x, ctx.n = inputs

    @staticmethod
    def backward(ctx, grad):
        return ctx.n * ctx.x ** (ctx.n - 1) * grad, None


G = X.clone().requires_grad_()


@example("torch.autograd.Function", G)
def straight_through(x):
    return StraightThrough.apply(x) * 2


@example("torch.autograd.Function", G, 3)
def function_with_saved_tensors(x, factor):
    y, total = Scale.apply(x, factor)
    return y + total


@example("torch.autograd.Function", G)
def function_with_setup_context(x):
    return NewStyle.apply(x, 3)


@example("torch.autograd.Function", make=True)
def function_in_module():
    class Quantized(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(3, 3)

        def forward(self, x):
            return self.linear(StraightThrough.apply(x)) * StraightThrough.apply(self.linear.weight).sum()

    return seeded(Quantized)


# --- torch.utils.checkpoint -----------------------------------------------------------------------------
@example("torch.utils.checkpoint", make=True)
def checkpoint_of_module():
    net = seeded(MLP)
    return lambda x: checkpoint(net, x, use_reentrant=False) + 1


@example("torch.utils.checkpoint", G)
def checkpoint_of_function(x):
    def block(t, k):
        return torch.sin(t) * k

    return checkpoint(block, x, 3, use_reentrant=False)


# --- torch.func -----------------------------------------------------------------------------------------
@example("torch.func")
def func_grad(x):
    return torch.func.grad(lambda t: (t**3).sum())(x)


@example("torch.func")
def func_grad_and_value(x):
    gradient, value = torch.func.grad_and_value(lambda t: t.sin().sum())(x)
    return gradient + value


@example("torch.func", X, V)
def func_vmap(x, v):
    return torch.vmap(lambda row: row @ v)(x), torch.func.vmap(torch.add, in_dims=(0, None))(x, v)


@example("torch.func")
def func_vmap_of_grad(x):
    return torch.func.vmap(torch.func.grad(lambda row: row.pow(2).sum()))(x)


@example("torch.func", V)
def func_jacobian(v):
    return torch.func.jacrev(lambda t: t**2)(v), torch.func.jacfwd(lambda t: t.sin())(v)


@example("torch.func", V)
def func_vjp_and_jvp(v):
    output, pull = torch.func.vjp(torch.sin, v)
    return pull(output)[0], torch.func.jvp(torch.cos, (v,), (v,))[1]


@example("torch.func", make=True)
def func_functional_call():
    net = seeded(MLP)

    def forward(x):
        doubled = {name: p * 2 for name, p in net.named_parameters()}
        return torch.func.functional_call(net, doubled, (x,))

    return forward


@example("torch.func", G)
def autograd_grad_inside(x):
    y = (x * x).sum()
    (gradient,) = torch.autograd.grad(y, x, create_graph=True)
    return gradient * 2


# --- optimizers -----------------------------------------------------------------------------------------
def train_step(make_optimizer):
    net = seeded(MLP)
    optimizer = make_optimizer(net.parameters())
    for p in net.parameters():
        p.grad = torch.ones_like(p) * 0.1

    def step():
        optimizer.step()

    return step, [p for p in net.parameters()]


@example("optimizers' step compiled", NOTHING, make=True)
def sgd_step():
    return train_step(lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9))


@example("optimizers' step compiled", NOTHING, make=True)
def adam_step():
    return train_step(lambda p: torch.optim.AdamW(p, lr=0.1))


@example("optimizers' step compiled", NOTHING, make=True)
def rmsprop_step():
    return train_step(lambda p: torch.optim.RMSprop(p, lr=0.1, foreach=False))


@example("optimizers' step compiled", make=True)
def whole_training_step():
    net = seeded(MLP)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)

    def step(x):
        optimizer.zero_grad()
        loss = net(x).pow(2).mean()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step, list(net.parameters())


# --- torch.distributions, random numbers ----------------------------------------------------------------
@example("torch.distributions basics", X, V)
def normal_distribution(x, v):
    normal = torch.distributions.Normal(v, torch.ones(3), validate_args=False)
    return normal.log_prob(x), normal.rsample(), normal.entropy()


@example("torch.distributions basics")
def categorical_distribution(x):
    categorical = torch.distributions.Categorical(logits=x)
    return categorical.sample(), categorical.log_prob(torch.zeros(4, dtype=torch.int64)), categorical.probs


@example("torch.distributions basics", V)
def kl_of_distributions(v):
    p = torch.distributions.Normal(v, 1.0)
    q = torch.distributions.Normal(0.0, torch.ones(3))
    return torch.distributions.kl_divergence(p, q)


@example("RNG")
def random_tensors(x):
    noise = torch.randn_like(x) + torch.rand(4, 3) + torch.randint(0, 5, (3,)) + torch.randn(3)
    return x + noise, torch.randperm(4), torch.bernoulli(torch.full((3,), 0.5)), x.clone().uniform_()


@example("RNG")
def manual_seed_inside(x):
    torch.manual_seed(5)
    return x + torch.rand(3)


@example("RNG", X, torch.Generator())
def generator_argument(x, generator):
    return x + torch.rand(3, generator=generator)


@example("RNG")
def generator_made_inside(x):
    generator = torch.Generator().manual_seed(3)
    return x + torch.randn(3, generator=generator)


@example("RNG")
def fork_rng(x):
    with torch.random.fork_rng():
        torch.manual_seed(1)
        noise = torch.rand(3)
    return x + noise + torch.rand(3)


@example("RNG")
def multinomial_and_state(x):
    state = torch.get_rng_state()
    chosen = torch.multinomial(x.softmax(1), 2)
    torch.set_rng_state(state)
    return chosen, torch.multinomial(x.softmax(1), 2)


# --- numpy ----------------------------------------------------------------------------------------------
@example("numpy calls on tensors")
def numpy_of_tensor(x):
    array = x.numpy()
    return torch.from_numpy(np.tanh(array) + 1)


@example("numpy calls on tensors")
def numpy_numbers(x):
    scale = np.sqrt(2) * np.float32(3) + np.prod([1, 2])
    return x * float(scale) + int(np.int64(2))


@example("numpy calls on tensors", X, np.arange(3.0))
def numpy_argument(x, array):
    return x + torch.as_tensor(array), array.shape[0]


@example("numpy calls on tensors", np.arange(6.0).reshape(2, 3))
def numpy_program(array):
    centred = array - array.mean(axis=0, keepdims=True)
    return np.dot(centred, centred.T).sum()


# --- tensor subclasses and modes ------------------------------------------------------------------------
class Named(torch.Tensor):
    def double(self):
        return self * 2


class Logged(torch.Tensor):
    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        return super().__torch_function__(function, types, args, kwargs or {})


class AddIsSub(TorchFunctionMode):
    def __torch_function__(self, function, types, args=(), kwargs=None):
        if function is torch.add:
            function = torch.sub
        return function(*args, **(kwargs or {}))


class Quantity:
    """Not a tensor, but torch functions take it."""

    def __init__(self, value):
        self.value = value

    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        return Quantity(function(*[a.value if isinstance(a, Quantity) else a for a in args], **(kwargs or {})))


@example("tensor subclasses", NOTHING, make=True)
def subclass_with_methods():
    x = X.clone().as_subclass(Named)
    return lambda: x.double() + 1


@example("tensor subclasses", NOTHING, make=True)
def subclass_with_torch_function():
    x = X.clone().as_subclass(Logged)
    return lambda: torch.relu(x) + 1


@example("tensor subclasses")
def subclass_made_inside(x):
    return x.as_subclass(Named).double()


@example("tensor subclasses", make=True)
def parameter_of_subclass():
    weight = nn.Parameter(torch.ones(3))
    return lambda x: x * weight + isinstance(weight, nn.Parameter)


@example("__torch_function__ modes")
def torch_function_mode(x):
    with AddIsSub():
        y = torch.add(x, 1)
    return torch.add(y, 1)


@example("__torch_function__ modes", Quantity(X))
def torch_function_of_other_class(quantity):
    return torch.sin(quantity).value + torch.add(quantity, 1).value


@example("__torch_function__ modes")
def disable_torch_function(x):
    with torch._C.DisableTorchFunctionSubclass():
        return x + 1


# --- higher-order and the rest --------------------------------------------------------------------------
@example("torch.* with callables")
def tree_map_of_tensors(x):
    return torch.utils._pytree.tree_map(lambda t: t * 2, {"a": x, "b": [x]})["b"][0]


@example("torch.* with callables", make=True)
def exponential_moving_average():
    net, average = seeded(MLP), seeded(MLP)

    @torch.no_grad()
    def update():
        for a, p in zip(average.parameters(), net.parameters()):
            a.mul_(0.9).add_(p, alpha=0.1)

    def forward(x):
        update()
        return average(x)

    return forward, list(average.parameters())


@example("torch.* with callables", make=True)
def lr_schedule_and_state():
    step = torch.tensor(0)

    def forward(x):
        step.add_(1)
        return x * torch.clamp(step / 10, max=1.0)

    return forward, [step]


@example("torch.* with callables", X, also=[(-X.abs(),), (X.abs(),)])
def cond(x):
    return torch.cond(x.sum() > 0, lambda t: t * 2, lambda t: t - 1, (x,))


@example("torch.* with callables", make=True)
def cond_with_weights():
    first, second = (seeded(lambda: nn.Linear(3, 3)) for _ in range(2))
    return lambda x: torch.cond(x.mean() > 0, lambda t: first(t) + 1, lambda t: second(t).relu(), (x,))
