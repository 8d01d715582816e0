"""Examples: more of PyTorch's surface, as models and training loops use it."""

import copy
import math

import numpy as np
import torch
import torch.nn.functional as F
from corpus import I, X, example
from corpus_modules import MLP, seeded
from torch import nn


class Doubling(torch.Tensor):
    @classmethod
    def __torch_function__(cls, f, ty, a=(), k=None):
        r = super().__torch_function__(f, ty, a, k or {})
        return r

    @property
    def twice(self):
        return self * 2


@example("tensor subclasses", make=True)
def subclass_argument():
    return lambda x: x.as_subclass(Doubling).twice.sum().as_subclass(torch.Tensor)


@example("tensor subclasses", make=True)
def subclass_in_module():
    class M(nn.Module):
        def __init__(self):
            super().__init__()
            self.w = torch.ones(3).as_subclass(Doubling)

        def forward(self, x):
            return (F.relu(x * self.w) + 1).as_subclass(torch.Tensor)

    return M()


class LogMode(torch.overrides.TorchFunctionMode):
    def __init__(self):
        self.seen = []

    def __torch_function__(self, f, ty, a=(), k=None):
        self.seen.append(getattr(f, "__name__", "?"))
        return f(*a, **(k or {}))


@example("__torch_function__ modes")
def mode_that_logs(x):
    with LogMode() as m:
        y = F.relu(x) + x.shape[0]
    return y, m.seen


@example("__torch_function__ modes")
def mode_nested(x):
    with LogMode() as a, LogMode() as b:
        y = torch.sin(x)
    return y, a.seen, b.seen


class Wrapper:
    def __init__(self, v):
        self.v = v

    @classmethod
    def __torch_function__(cls, f, ty, a=(), k=None):
        un = lambda q: q.v if isinstance(q, Wrapper) else q
        return Wrapper(f(*[un(q) for q in a], **(k or {})))


@example("__torch_function__ modes")
def wrapper_type(x):
    return torch.sum(torch.add(Wrapper(x), 2), 0).v


@example("numpy calls on tensors", X, np.arange(6.0).reshape(2, 3))
def numpy_in_place(x, a):
    a[0] += 1
    return x + torch.from_numpy(a)[0], a


@example("numpy calls on tensors")
def numpy_constants(x):
    return x * np.pi + np.float64(2) + np.prod(x.shape), np.array([1.0, 2.0])


@example("numpy calls on tensors", np.arange(4.0))
def numpy_only(a):
    return np.sin(a) + a.sum(), np.where(a > 1, a, 0), a[::2], np.concatenate([a, a])


@example("grad modes")
def inference_decorated(x):
    @torch.inference_mode()
    def f(t):
        return t * 2

    return f(x) + 1


@example("grad modes", X.clone().requires_grad_())
def set_grad_enabled_calls(x):
    torch.set_grad_enabled(False)
    y = x * 2
    torch.set_grad_enabled(True)
    return y, x * 3


@example("autocast")
def autocast_nested_dtype(x):
    with torch.autocast("cpu", torch.bfloat16):
        y = F.linear(x, x)
        z = y.float() @ y.float()
        return y, z, torch.get_autocast_dtype("cpu")


@example("RNG")
def generator_object(x):
    g = torch.Generator().manual_seed(3)
    return x + torch.rand(3, generator=g)


@example("RNG")
def rng_state_around(x):
    s = torch.get_rng_state()
    a = torch.rand(3)
    torch.set_rng_state(s)
    return x + a, torch.rand(3).equal(a)


@example("RNG")
def bernoulli_dropout(x):
    return (
        F.dropout(x, 0.5, training=True),
        torch.bernoulli(x.sigmoid()),
        torch.randperm(4),
        torch.randint(0, 5, (2,)),
        torch.normal(0.0, 1.0, (2,)),
    )


@example("torch.func")
def func_grad_of_closure(x):
    w = torch.ones(3)
    return torch.func.grad(lambda p: (p * x).sum() ** 2)(w), torch.func.grad_and_value(lambda p: (p**2).sum())(w)


@example("torch.func")
def func_vmap_in_dims(x):
    return torch.vmap(lambda a, b: (a * b).sum(), in_dims=(0, None), out_dims=0)(x, torch.ones(3)), torch.vmap(
        torch.sin, chunk_size=2
    )(x)


@example("torch.func")
def func_jac(x):
    return (
        torch.func.jacrev(lambda a: a.sin())(x[0]),
        torch.func.hessian(lambda a: (a**3).sum())(x[0]),
        torch.func.jacfwd(torch.cos)(x[1]),
    )


@example("torch.func", make=True)
def functional_call_swapped():
    m = seeded(MLP)
    return lambda x: torch.func.functional_call(m, {k: v * 2 for k, v in m.named_parameters()}, (x,))


@example("torch.func", make=True)
def stacked_modules():
    ms = [seeded(MLP) for _ in range(2)]
    params, buffers = torch.func.stack_module_state(ms)
    base = copy.deepcopy(ms[0]).to("meta")
    return lambda x: torch.vmap(lambda p, b, t: torch.func.functional_call(base, (p, b), (t,)), in_dims=(0, 0, None))(
        params, buffers, x
    )


@example("torch.utils.checkpoint", X.clone().requires_grad_())
def checkpoint_sequential_(x):
    return torch.utils.checkpoint.checkpoint_sequential([nn.ReLU(), nn.Sigmoid()], 2, x, use_reentrant=False)


@example("optimizers' step compiled", make=True)
def ema_swa():
    m = seeded(MLP)
    a = torch.optim.swa_utils.AveragedModel(m)

    def f(x):
        a.update_parameters(m)
        return a(x)

    return f


@example("hooks of all kinds", make=True)
def forward_hook_always():
    m = seeded(MLP)
    seen = []
    m.net[0].register_forward_hook(lambda mod, a, o: seen.append(o.shape), always_call=True)
    return m, seen


@example("hooks of all kinds", make=True)
def state_dict_hooks():
    m = seeded(MLP)
    m.register_state_dict_post_hook(lambda mod, sd, p, l: None)
    return lambda x: m(x) + sum(v.sum() for v in m.state_dict().values())


@example("state_dict reads", make=True)
def load_state_dict_inside():
    m = seeded(MLP)
    other = seeded(MLP)

    def f(x):
        m.load_state_dict(other.state_dict())
        return m(x)

    return f


@example("parametrizations", make=True)
def weight_norm_and_spectral():
    m = nn.Sequential(
        nn.utils.parametrizations.weight_norm(nn.Linear(3, 3)), nn.utils.parametrizations.orthogonal(nn.Linear(3, 3))
    )
    return m


@example("nn.Module containers", make=True)
def parameter_list_dict():
    class M(nn.Module):
        def __init__(self):
            super().__init__()
            self.ps = nn.ParameterList([torch.ones(3), torch.zeros(3)])
            self.pd = nn.ParameterDict({"a": torch.ones(3)})
            self.md = nn.ModuleDict({"r": nn.ReLU()})

        def forward(self, x):
            for p in self.ps:
                x = x + p
            for k, m in self.md.items():
                x = m(x)
            return x * self.pd["a"] + len(self.ps) + ("a" in self.pd)

    return M()


@example("nn.Module methods", make=True)
def module_apply_and_named():
    m = seeded(MLP)

    def f(x):
        n = [k for k, _ in m.named_modules()]
        m.train(False)
        m.requires_grad_(True)
        return m(x) + len(n) + sum(p.numel() for p in m.parameters()) + len(list(m.children()))

    return f


@example("nn.Module methods", make=True)
def multihead():
    m = seeded(lambda: nn.MultiheadAttention(3, 1, batch_first=True))
    return lambda x: m(x[None], x[None], x[None], need_weights=True)


@example("nn.Module methods", make=True)
def gru_sequence():
    m = seeded(lambda: nn.GRU(3, 4, 2, batch_first=True))
    return lambda x: m(x[None])[0]


@example("nn.Module containers", make=True)
def batch_norm_sync_stats():
    return seeded(
        lambda: nn.Sequential(nn.BatchNorm1d(3), nn.LayerNorm(3), nn.GroupNorm(1, 3), nn.Dropout(0.0), nn.Flatten())
    )


@example("F.* with Python bodies")
def loss_functions(x):
    y = torch.tensor([0, 1, 2, 0])
    return (
        F.cross_entropy(x, y)
        + nn.NLLLoss()(x.log_softmax(1), y)
        + F.mse_loss(x, x * 2)
        + nn.HuberLoss()(x, x + 1)
        + F.kl_div(x.log_softmax(1), x.softmax(1), reduction="batchmean")
    )


@example("torch.* functions and Tensor methods")
def indexing_kinds(x):
    m = x > 0
    return (
        x[[0, 2]],
        x[:, None, 1],
        x[..., -1],
        x[torch.tensor([1, 0])],
        x[1:3, ::2],
        torch.where(m, x, 0),
        x.masked_fill(m, 1),
        x[torch.tensor([0, 1]), torch.tensor([1, 2])],
        x[I[:2, 0] // 6],
    )


@example("torch.* functions and Tensor methods")
def scatter_gather(x):
    i = torch.tensor([[0, 1, 0]])
    return (
        x.gather(0, i),
        x.scatter(0, i, 1.0),
        x.index_add(0, torch.tensor([0]), x[:1]),
        torch.zeros(4, 3).scatter_reduce(0, i, x, "amax"),
        x.index_select(1, torch.tensor([2])),
        x.take_along_dim(x.argsort(1), 1),
    )


@example("torch.* functions and Tensor methods")
def einsum_and_friends(x):
    return (
        torch.einsum("ij,kj->ik", x, x),
        torch.tensordot(x, x, dims=([1], [1])),
        torch.kron(x, x),
        torch.linalg.norm(x),
        torch.cdist(x, x),
        torch.outer(x[0], x[1]),
        torch.block_diag(x, x),
    )


@example("tuple results")
def sort_topk(x):
    v, i = x.sort(dim=1)
    t = x.topk(2)
    return (
        v,
        i,
        t.values,
        t.indices,
        torch.unique_consecutive(torch.tensor([1, 1, 2])),
        x.kthvalue(1).values,
        x.median(1),
    )


@example("torch.Size arithmetic")
def shape_arithmetic(x):
    b, c = x.shape
    s = torch.Size([b, c // 3]) + (1,)
    return (
        x.view(b, -1, 1).expand(b, c, 2),
        s.numel(),
        x.new_zeros(*s),
        x.reshape(*x.shape[:-1], 1, -1),
        math.prod(x.shape),
    )


@example("dtype/device objects")
def dtype_tables(x):
    d = {torch.float32: torch.float64}[x.dtype]
    return (
        x.to(d),
        torch.finfo(x.dtype).eps,
        torch.iinfo(torch.int8).max,
        torch.promote_types(torch.int8, torch.float16),
        torch.result_type(x, 1),
        d.is_floating_point,
        d.itemsize,
        torch.can_cast(torch.int8, torch.float32),
    )


@example("tuple results")
def tensor_lists(x):
    ts = [x[k] for k in range(4)]
    a, *b = torch.unbind(x)
    return (
        torch.stack(ts[::-1]),
        torch.cat(b),
        torch.chunk(x, 2),
        torch.split(x, [1, 3]),
        torch.meshgrid(x[0], x[1], indexing="ij"),
        torch.broadcast_tensors(x, x[0]),
    )


@example("torch.* functions and Tensor methods")
def complex_ops(x):
    z = torch.polar(x.abs(), x)
    return (
        z.abs(),
        z.conj().resolve_conj().imag,
        torch.view_as_real(z),
        torch.fft.rfft(x),
        torch.fft.ifft(z).real,
        z.angle(),
    )


@example("torch.* functions and Tensor methods")
def foreach_ops(x):
    return torch._foreach_add([x, x], 1), torch._foreach_mul([x], [x]), torch._foreach_norm([x, x])


@example("torch.* functions and Tensor methods")
def custom_op_call(x):
    return (
        torch.ops.aten.add.Tensor(x, x),
        torch.ops.aten.relu(x),
        torch.ops.aten.native_layer_norm(x, [3], None, None, 1e-5)[0],
    )


@example("assert")
def checks_and_asserts(x):
    torch._check(x.shape[0] == 4)
    torch._assert(x.dim() == 2, "two")
    assert x.shape[1] == 3, f"{x.shape}"
    return x + 1


@example("torch.* functions and Tensor methods")
def type_queries(x):
    return (
        isinstance(x, torch.FloatTensor),
        x.type(),
        x.is_floating_point(),
        x.type(torch.float64),
        torch.is_tensor(x),
        x.is_contiguous(),
        x.stride(),
        x.element_size(),
        x.storage_offset(),
        x.ndim,
        x.T.is_contiguous(),
    )


@example("torch.distributions basics")
def distributions_more(x):
    n = torch.distributions.Normal(x, 1.0)
    c = torch.distributions.Categorical(logits=x)
    return (
        n.log_prob(x),
        n.cdf(x),
        c.entropy(),
        torch.distributions.kl_divergence(n, torch.distributions.Normal(0.0, 2.0)),
        torch.distributions.Beta(x.exp(), 1.0).mean,
        torch.distributions.Independent(n, 1).log_prob(x),
    )


class Clamp(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, lo):
        ctx.save_for_backward(x)
        ctx.lo = lo
        return x.clamp(min=lo)

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * (x > ctx.lo), None


@example("torch.autograd.Function", X.clone().requires_grad_())
def custom_function(x):
    return Clamp.apply(x, 0.1) * 2


@example("disable and graph_break")
def disable_region(x):
    @torch.compiler.disable
    def eager(t):
        return t + 1

    return eager(x * 2) * 3


@example("SDPA backends")
def sdpa_kernel_block(x):
    from torch.nn.attention import SDPBackend, sdpa_kernel

    q = x[None, None]
    with sdpa_kernel(SDPBackend.MATH):
        return F.scaled_dot_product_attention(q, q, q, is_causal=True)


@example("F.* with Python bodies")
def flex_like_masks(x):
    m = torch.tril(torch.ones(4, 4, dtype=torch.bool))
    s = (x @ x.T).masked_fill(~m, float("-inf")).softmax(-1)
    return s @ x, torch.triu_indices(3, 3), m.sum()


@example("torch.* with callables")
def profiler_record(x):
    with torch.profiler.record_function("a"):
        y = x + 1
    with torch.autograd.profiler.record_function("b"):
        y = y * 2
    return y


@example("grad modes", X.clone().requires_grad_())
def detach_and_requires_grad(x):
    y = x.detach().requires_grad_()
    z = (y * 2).sum()
    with torch.enable_grad():
        w = x.clone()
    return z, w, y.requires_grad, x.is_leaf, y.is_leaf, z.grad_fn is not None


@example("torch.* with callables")
def pytree_things(x):
    flat, spec = torch.utils._pytree.tree_flatten({"a": x, "b": (x, 1)})
    return torch.utils._pytree.tree_unflatten([f * 2 for f in flat], spec), len(flat)


@example("tuple results")
def named_result_types(x):
    r = torch.max(x, dim=1)
    q = torch.linalg.svd(x)
    return r.values, r[1], r._fields if hasattr(r, "_fields") else 0, q.S, torch.aminmax(x).min, torch.frexp(x)


@example("torch.* functions and Tensor methods")
def tensor_methods_rare(x):
    return (
        x.movedim(0, 1),
        x.unflatten(1, (3, 1)),
        x.diff(),
        x.roll(1, 0),
        x.flip(0),
        x.rot90(),
        x.unfold(0, 2, 1),
        x.repeat_interleave(2, 1),
        x.cumsum(0),
        x.logsumexp(1),
        x.tile(2),
        x.trapz() if hasattr(x, "trapz") else x,
        x.nan_to_num(),
        x.heaviside(x),
        x.lerp(x, 0.5),
        x.addmm(x, torch.eye(3)),
        x.count_nonzero(),
        x.var_mean() if hasattr(x, "var_mean") else x,
    )


@example("hooks of all kinds", make=True)
def backward_pre_hook():
    module = seeded(MLP)
    module.net[0].register_full_backward_pre_hook(lambda owner, grad_output: None)
    return module


@example("optimizers' step compiled", make=True)
def scheduler_step():
    net = seeded(MLP)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1)
    for parameter in net.parameters():
        parameter.grad = torch.ones_like(parameter)

    def step(x):
        optimizer.step()
        scheduler.step()
        return net(x) * optimizer.param_groups[0]["lr"]

    return step
