"""Examples: torch.func, distributions, optimizers' helpers, and modules that are changed while they run."""

import collections
import copy

import torch
from corpus import example
from torch import nn
from torch.distributions import Independent, Normal, TransformedDistribution, kl_divergence
from torch.distributions.transforms import TanhTransform
from torch.func import functional_call, grad, jvp, stack_module_state, vmap
from torch.nn.utils import clip_grad_norm_, parameters_to_vector, vector_to_parameters


def ensembled():
    nets = [nn.Linear(3, 2) for _ in range(3)]
    params, buffers = stack_module_state(nets)
    base = copy.deepcopy(nets[0]).to("meta")

    def call(p, b, x):
        return functional_call(base, (p, b), (x,))

    return lambda x: vmap(call, (0, 0, None))(params, buffers, x)


example("func", make=True)(ensembled)


def per_sample_grads():
    net = nn.Linear(3, 1)

    def loss(p, x):
        return functional_call(net, p, (x[None],)).square().sum()

    return lambda x: vmap(grad(loss), (None, 0))({k: v.detach() for k, v in net.named_parameters()}, x)


example("func", make=True)(per_sample_grads)


@example("func")
def hessian_vector(x):
    f = lambda y: (y**3).sum()
    return jvp(grad(f), (x,), (torch.ones_like(x),))[1]


def maml():
    net = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))

    def f(x):
        params = dict(net.named_parameters())

        def inner(p):
            return functional_call(net, p, (x,)).pow(2).mean()

        for _ in range(2):
            g = grad(inner)(params)
            params = {k: p - 0.1 * g[k] for k, p in params.items()}
        return inner(params)

    return f


example("func", make=True)(maml)


def vae():
    enc, dec = (nn.Linear(3, 4), nn.Linear(2, 3))

    def f(x):
        mu, lv = enc(x).chunk(2, -1)
        q = Normal(mu, (0.5 * lv).exp())
        z = q.rsample()
        return (dec(z), kl_divergence(q, Normal(0.0, 1.0)).sum(-1))

    return f


example("distributions", make=True)(vae)


@example("distributions")
def squashed(x):
    d = TransformedDistribution(Independent(Normal(x, x.abs() + 1), 1), [TanhTransform(cache_size=1)])
    a = d.rsample()
    return (a, d.log_prob(a))


def clip():
    net = nn.Linear(3, 1)
    for p in net.parameters():
        p.grad = torch.ones_like(p)

    def f(x):
        norm = clip_grad_norm_(net.parameters(), 1.0)
        return x * norm

    return (f, net)


example("optim", make=True)(clip)


def ema_update():
    net, ema = (nn.Linear(3, 1), nn.Linear(3, 1))

    @torch.no_grad()
    def f(x):
        for (n, p), (m, e) in zip(net.named_parameters(), ema.named_parameters()):
            assert n == m
            e.mul_(0.9).add_(p, alpha=0.1)
        torch._foreach_lerp_(list(ema.parameters()), list(net.parameters()), 0.5)
        return ema(x)

    return (f, ema)


example("optim", make=True)(ema_update)


def to_vector():
    net = nn.Linear(3, 1)

    def f(x):
        v = parameters_to_vector(net.parameters())
        with torch.no_grad():
            vector_to_parameters(v * 0.5, net.parameters())
        return x * v.norm()

    return (f, net)


example("optim", make=True)(to_vector)


def load_state():
    a, b = (nn.Linear(3, 3), nn.Linear(3, 3))

    def f(x):
        b.load_state_dict(a.state_dict())
        return b(x)

    return (f, b)


example("modules", make=True)(load_state)


def freeze():
    net = nn.Sequential(nn.Linear(3, 3), nn.Dropout(), nn.BatchNorm1d(3))

    def f(x):
        net.requires_grad_(False)
        net.eval()
        y = net(x)
        net.train()
        net.requires_grad_(True)
        return y

    return (f, net)


example("modules", make=True)(freeze)


def apply_init():
    net = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3))

    def init(m):
        if isinstance(m, nn.Linear):
            nn.init.constant_(m.weight, 0.1)
            nn.init.zeros_(m.bias)

    def f(x):
        net.apply(init)
        return net(x)

    return (f, net)


example("modules", make=True)(apply_init)


def spectral():
    net = nn.utils.parametrizations.spectral_norm(nn.Linear(3, 3)).eval()
    return net


example("modules", make=True)(spectral)


def get_sub():
    net = nn.Sequential(collections.OrderedDict(a=nn.Sequential(nn.Linear(3, 3)), b=nn.ReLU()))

    def f(x):
        s = net.get_submodule("a.0")
        p = net.get_parameter("a.0.weight")
        return (s(x) @ p, [n for n, _ in net.named_modules()], sum((q.numel() for q in net.parameters())))

    return f


example("modules", make=True)(get_sub)


def lazy_linear():
    net = nn.Sequential(nn.LazyLinear(4), nn.ReLU(), nn.LazyLinear(2))
    net(torch.ones(1, 3))
    return net


example("modules", make=True)(lazy_linear)


def swap_forward():
    net = nn.Linear(3, 3)

    def f(x):
        old = net.forward
        net.forward = lambda y: old(y) * 2
        try:
            return net(x)
        finally:
            net.forward = old

    return (f, net)


example("modules", make=True)(swap_forward)


def module_add():

    class M(nn.Module):
        def __init__(self):
            super().__init__()
            self.l = nn.Linear(3, 3)

        def forward(self, x):
            if not hasattr(self, "cache"):
                self.register_buffer("cache", torch.zeros(3), persistent=False)
            self.cache = self.cache + x.detach().sum(0)
            return self.l(x) + self.cache

    return M()


example("modules", make=True)(module_add)
