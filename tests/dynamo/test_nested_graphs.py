"""autograd.Function, checkpoint and torch.func: one graph with nested graphs, values and gradients as in eager."""

import contextlib
import copy
import functools

import pytest
import torch
from torch import nn
from torch.func import (
    functional_call,
    grad,
    grad_and_value,
    hessian,
    jacfwd,
    jacrev,
    jvp,
    stack_module_state,
    vjp,
    vmap,
)
from torch.utils.checkpoint import checkpoint, checkpoint_sequential, create_selective_checkpoint_contexts

import minicompile
from minicompile import record, testing

BACKENDS = ("eager", "aot_eager")


def tensor(*shape, requires_grad=True, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator).requires_grad_(requires_grad)


def check(fn, *args, backend="eager", graphs=1, graph_breaks=0, **options):
    compiler = functools.partial(minicompile.compile, backend=backend)
    testing.check(fn, *args, compiler=compiler, graphs=graphs, graph_breaks=graph_breaks, **options)
    assert not record.counters["aot_rejected"]


# --- autograd.Function --------------------------------------------------------------------------------
class TwiceExp(torch.autograd.Function):
    """Its backward is wrong on purpose: the gradient must be the user's, not autograd's."""

    @staticmethod
    def forward(ctx, x):
        y = x.exp()
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, gradient):
        (y,) = ctx.saved_tensors
        return gradient * y * 2


class Product(torch.autograd.Function):
    """In the other form, with setup_context."""

    @staticmethod
    def forward(x, y):
        return x * y

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, gradient):
        x, y = ctx.saved_tensors
        return gradient * y, gradient * x * 3


class Scale(torch.autograd.Function):
    """A number, and a tensor that may be missing."""

    @staticmethod
    def forward(ctx, x, factor, weight=None):
        ctx.factor = factor
        ctx.save_for_backward(x, weight)
        return x * factor if weight is None else x * factor * weight

    @staticmethod
    def backward(ctx, gradient):
        x, weight = ctx.saved_tensors
        needs = ctx.needs_input_grad[2:]
        of_weight = (gradient * x * ctx.factor).sum(0) if any(needs) else None
        return (gradient * ctx.factor * (1 if weight is None else weight), None, of_weight)[: 2 + len(needs)]


class RowMax(torch.autograd.Function):
    """Two results, one without gradient; a size on the context."""

    @staticmethod
    def forward(ctx, x):
        values, indices = x.max(1)
        ctx.mark_non_differentiable(indices)
        ctx.save_for_backward(indices)
        ctx.shape = x.shape
        return values, indices

    @staticmethod
    def backward(ctx, gradient, _):
        (indices,) = ctx.saved_tensors
        return torch.zeros(ctx.shape).scatter(1, indices[:, None], gradient[:, None])


class Branches(torch.autograd.Function):
    """Wants to know which gradients are missing."""

    @staticmethod
    def forward(ctx, x):
        ctx.set_materialize_grads(False)
        return x * 2, x * 3

    @staticmethod
    def backward(ctx, first, second):
        total = 0
        if first is not None:
            total = total + 20 * first
        if second is not None:
            total = total + 30 * second
        return total


class DoubleInPlace(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        x.mul_(2)
        ctx.mark_dirty(x)
        return x

    @staticmethod
    def backward(ctx, gradient):
        return gradient * 5


class Nested(torch.autograd.Function):
    """Calls another one, forward and backward."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return TwiceExp.apply(x)

    @staticmethod
    def backward(ctx, gradient):
        (x,) = ctx.saved_tensors
        return TwiceExp.apply(x) * gradient


class Kept(torch.autograd.Function):
    """Tensors as attributes, a dict and a list among the arguments, a number among the results."""

    @staticmethod
    def forward(ctx, x, settings, others):
        ctx.y, ctx.settings, ctx.count = x.exp(), settings, len(others)
        return ctx.y * settings["k"] + others[0], settings["k"], None

    @staticmethod
    def backward(ctx, gradient, *_):
        return gradient * ctx.y * ctx.settings["k"] * ctx.count, None, None


class Flat(torch.autograd.Function):
    """Its result is a view of a tensor that autograd knows nothing of."""

    @staticmethod
    def forward(ctx, x):
        return (x * 2).view(-1)

    @staticmethod
    def backward(ctx, gradient):
        return gradient.reshape(2, 3) * 5


class Same(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x

    @staticmethod
    def backward(ctx, gradient):
        return -gradient


class Once(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * 2

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, gradient):
        (x,) = ctx.saved_tensors
        return gradient * x


class MixedPrecision(torch.autograd.Function):
    @staticmethod
    @torch.amp.custom_fwd(device_type="cpu")
    def forward(ctx, x, w):
        ctx.save_for_backward(x, w)
        return x @ w

    @staticmethod
    @torch.amp.custom_bwd(device_type="cpu")
    def backward(ctx, gradient):
        x, w = ctx.saved_tensors
        return gradient @ w.t(), x.t() @ gradient * 2


def row_max(x):
    values, indices = RowMax.apply(x)
    return values * 2, indices


def three_times(x):
    for _ in range(3):
        x = TwiceExp.apply(x * 0.1)
    return x


def without_grad(x):
    with torch.no_grad():
        return Scale.apply(x, 2.0), TwiceExp.apply(x)


FUNCTIONS = {
    "saved": (lambda x: TwiceExp.apply(x.sin()).sum(), tensor(4)),
    "stacked": (three_times, tensor(3)),
    "arguments": (lambda x, w: Scale.apply(x, 3.0, w) + Scale.apply(x, 2), tensor(4, 3), tensor(3, seed=1)),
    "needs_input_grad": (lambda x, w: Scale.apply(x, 3.0, w), tensor(4, 3), tensor(3, requires_grad=False)),
    "results": (row_max, tensor(4, 3)),
    "setup_context": (lambda x, y: Product.apply(x, y).relu(), tensor(3), tensor(3, seed=1)),
    "one input": (lambda x, y: Product.apply(x, y), tensor(3), tensor(3, requires_grad=False)),
    "the same input twice": (lambda x: Product.apply(x, x), tensor(3)),
    "first gradient": (lambda x: Branches.apply(x)[0] * 2, tensor(3)),
    "second gradient": (lambda x: Branches.apply(x)[1] * 2, tensor(3)),
    "both gradients": (lambda x: sum(Branches.apply(x)), tensor(3)),
    "dirty": (lambda x: DoubleInPlace.apply(x.clone()) + 1, tensor(3)),
    "nested": (lambda x: Nested.apply(x) * 2, tensor(3)),
    "attributes": (lambda x, y: Kept.apply(x, {"k": 3}, [y, 2]), tensor(3), tensor(3, seed=1)),
    "view of its inside": (lambda x: Flat.apply(x), tensor(2, 3)),
    "its input": (lambda x: Same.apply(x.sin()) + Same.apply(x), tensor(2, 3)),
    "once_differentiable": (lambda x: Once.apply(x), tensor(3)),
    "custom_fwd": (lambda x, w: MixedPrecision.apply(x, w), tensor(3, 3), tensor(3, 3, seed=1)),
    "no_grad": (without_grad, tensor(3)),
    "expanded gradient": (lambda x: TwiceExp.apply(x).sum(0).t(), tensor(4, 3)),
}


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_autograd_function(name, backend):
    fn, *args = FUNCTIONS[name]
    check(fn, *args, backend=backend)


@pytest.mark.parametrize("name", ["saved", "results", "setup_context", "dirty", "view of its inside"])
def test_autograd_function_in_kernels(name):
    fn, *args = FUNCTIONS[name]
    check(fn, *args, backend="inductor")


def test_autograd_function_of_a_module():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(3, 3)

        def forward(self, x):
            return Product.apply(self.layer(x), x)

    check(Model(), tensor(2, 3))


def test_saved_tensor_that_is_written_is_an_error_as_in_eager():
    def fn(x):
        y = x.sin()
        z = Product.apply(y, x)
        y.add_(1)
        return z

    compiled = minicompile.compile(fn, backend="eager")
    for function in (fn, compiled):
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            function(tensor(3)).sum().backward()


def test_double_backward_through_the_users_backward():
    x = tensor(3)
    results = []
    for function in (
        lambda x: TwiceExp.apply(x).sum(),
        minicompile.compile(lambda x: TwiceExp.apply(x).sum(), backend="eager"),
    ):
        (first,) = torch.autograd.grad(function(x), x, create_graph=True)
        results.append(torch.autograd.grad(first.sum(), x)[0])
    torch.testing.assert_close(results[1], results[0])
    assert record.counters["graph_breaks"] == 0


def test_backward_with_effects_breaks():
    seen = []

    class Counts(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            seen.append("forward")
            return x * 2

        @staticmethod
        def backward(ctx, gradient):
            seen.append("backward")
            return gradient

    compiled = minicompile.compile(lambda x: Counts.apply(x) + len(seen), backend="eager")
    y = compiled(tensor(3))
    assert seen == ["forward"]
    y.sum().backward()
    assert seen == ["forward", "backward"] and record.break_reasons["custom autograd function"] == 1


def test_value_that_escapes_a_forward_breaks():
    kept = {}

    class Keeps(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            kept["y"] = x * 2
            return kept["y"] + 1

        @staticmethod
        def backward(ctx, gradient):
            return gradient

    y = minicompile.compile(lambda x: Keeps.apply(x), backend="eager")(tensor(3))
    assert y.requires_grad and not kept["y"].requires_grad
    assert record.break_reasons["function with a graph of its own"] >= 1


class Reversed(torch.autograd.Function):
    """The usual layer of domain adaptation: only the backward reads the number, and a tensor from outside."""

    @staticmethod
    def forward(ctx, x, factor):
        ctx.factor = factor
        return x.view_as(x)

    @staticmethod
    def backward(ctx, gradient):
        return -ctx.factor * gradient * WEIGHTS, None


WEIGHTS = torch.tensor([1.0, 2.0, 3.0])


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_number_that_only_the_backward_reads_may_change(backend):
    fn = minicompile.compile(lambda x, factor: Reversed.apply(x.sin(), factor), backend=backend, fullgraph=True)
    for factor in (0.5, 0.25, 0.125):
        x = tensor(3)
        fn(x, factor).sum().backward()
        torch.testing.assert_close(x.grad, -factor * WEIGHTS * x.detach().cos())
    assert minicompile.stats()["graphs"] == 2 and not record.counters["aot_rejected"]


STATE = {"scale": 2.0}


class ReadsState(torch.autograd.Function):
    """What the backward reads is eager's: what is there when it runs."""

    number = 2.0

    @staticmethod
    def forward(ctx, x, box, name):
        ctx.box, ctx.name = box if name == "item" else (1, 2), name
        return x.view_as(x)

    @staticmethod
    def backward(ctx, gradient):
        read = {
            "item": lambda: ctx.box[0],
            "global": lambda: STATE["scale"],
            "class attribute": lambda: ReadsState.number,
            "tuple": lambda: ctx.box[1],
        }
        return read[ctx.name]() * gradient, None, None


@pytest.mark.parametrize("name, breaks", [("item", 1), ("global", 1), ("class attribute", 1), ("tuple", 0)])
def test_a_backward_reads_what_is_there_when_it_runs(name, breaks):
    box, x = [2.0], tensor(3)
    y = minicompile.compile(lambda x, box: ReadsState.apply(x, box, name), backend="aot_eager")(x, box)
    try:
        box[0], STATE["scale"], ReadsState.number = 5.0, 5.0, 5.0
        y.sum().backward()
        assert x.grad.tolist() == [2.0 if name == "tuple" else 5.0] * 3
        assert record.break_reasons["custom autograd function"] == breaks
    finally:
        STATE["scale"], ReadsState.number = 2.0, 2.0


def scaled_by(scale, shifts=(1, 2)):
    """A class for these numbers, which its backward has in closure cells."""
    total = sum(shifts)

    class Scaled(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * scale + total

        @staticmethod
        def backward(ctx, gradient):
            return (lambda: gradient * scale * shifts[1] * total)()

    return Scaled


def rescaled():
    scale = 2.0

    class Scaled(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * scale

        @staticmethod
        def backward(ctx, gradient):
            return gradient * scale

    def rescale():
        nonlocal scale
        scale = 5.0

    return Scaled, rescale


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_class_that_a_function_makes(backend):
    for scale in (2.0, 3, True):
        cls, x = scaled_by(scale), tensor(3)
        minicompile.compile(lambda x: cls.apply(x).sin(), backend=backend, fullgraph=True)(x).sum().backward()
        torch.testing.assert_close(x.grad, (x * scale + 3).cos().detach() * scale * 6)


def test_a_closure_cell_that_somebody_rebinds():
    cls, rescale = rescaled()
    x = tensor(3)
    y = minicompile.compile(lambda x: cls.apply(x), backend="aot_eager")(x)
    rescale()
    y.sum().backward()
    assert x.grad.tolist() == [5.0] * 3 and record.break_reasons["custom autograd function"] == 1


def test_a_closure_cell_of_a_function_that_still_runs():
    factor = 2.0

    class Local(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * factor

        @staticmethod
        def backward(ctx, gradient):
            return gradient * factor

    x = tensor(3)
    y = minicompile.compile(lambda x: Local.apply(x), backend="aot_eager")(x)
    factor = 5.0
    y.sum().backward()
    assert x.grad.tolist() == [5.0] * 3


# --- checkpoint ---------------------------------------------------------------------------------------
class Block(nn.Module):
    def __init__(self, reentrant, dropout=0.0):
        super().__init__()
        self.inside = nn.Sequential(nn.Linear(8, 8), nn.GELU(), nn.Linear(8, 8), nn.Dropout(dropout))
        self.reentrant = reentrant

    def forward(self, x):
        return x + checkpoint(self.inside, x, use_reentrant=self.reentrant)


def two_results(x, y):
    a, b = checkpoint(lambda u, v: (u.sin() * v, u + v), x, y, use_reentrant=True)
    return a * b


def twice(x):
    return checkpoint(lambda a: checkpoint(torch.sin, a * 2, use_reentrant=False).exp(), x, use_reentrant=False)


LAYERS = nn.Sequential(*(nn.Linear(4, 4) for _ in range(4)))
CHECKPOINTS = {
    "not reentrant": (Block(False), tensor(2, 8)),
    "reentrant": (Block(True), tensor(2, 8)),
    "operator": (lambda x: checkpoint(torch.sin, x, use_reentrant=False), tensor(3)),
    "keywords": (
        lambda x: checkpoint(lambda a, k=1: (a.sin() * k, a), x, k=3, use_reentrant=False, preserve_rng_state=False),
        tensor(3),
    ),
    "sequential": (lambda x: checkpoint_sequential(LAYERS, 2, x, use_reentrant=False), tensor(3, 4)),
    "results": (two_results, tensor(3), tensor(3, seed=1)),
    "nested": (twice, tensor(3)),
    "custom function": (
        lambda x: checkpoint(lambda a: TwiceExp.apply(a.sin()).cos(), x, use_reentrant=False),
        tensor(3),
    ),
}


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", CHECKPOINTS)
def test_checkpoint(name, backend):
    fn, *args = CHECKPOINTS[name]
    check(fn, *args, backend=backend)


@pytest.mark.parametrize("reentrant", [False, True])
def test_dropout_in_a_checkpoint_draws_the_same_again(reentrant):
    check(Block(reentrant, dropout=0.5), tensor(2, 8))  # eager: the very numbers
    minicompile.reset()
    compiled = minicompile.compile(Block(reentrant, dropout=0.5), backend="aot_eager", fullgraph=True)
    with torch.no_grad():
        compiled.inside[2].weight.copy_(torch.eye(8))
        compiled.inside[2].bias.fill_(1000)  # so that what was dropped is known from the result
    x = tensor(2, 8)
    y = compiled(x)
    (of_bias,) = torch.autograd.grad(y.sum(), compiled.inside[2].bias)
    torch.testing.assert_close(of_bias, ((y - x).detach() > 0).sum(0) * 2.0)


@pytest.mark.parametrize("reentrant", [False, True])
def test_checkpoint_saves_only_what_goes_in(reentrant):
    def saved(model):
        minicompile.reset()
        minicompile.compile(model, backend="aot_eager", fullgraph=True)(tensor(32, 8)).sum().backward()
        (graph,) = [graph for entry in record.compilations for graph in entry.artifacts("aot")]
        return sum(value.bytes for value in graph.saved if value.source[0] != "input"), graph

    checkpointed, graph = saved(nn.Sequential(Block(reentrant), Block(reentrant), Block(reentrant)))

    class Plain(Block):
        def forward(self, x):
            return x + self.inside(x)

    plain, _ = saved(nn.Sequential(Plain(False), Plain(False), Plain(False)))
    assert checkpointed == 2 * 32 * 8 * 4 and plain >= 3 * checkpointed
    names = [node.name for node in graph.backward.graph.nodes if node.op == "call_function"]
    first = [names.index(name) for name in graph.recomputed]
    assert any(number not in first for number in range(max(first))), "all is computed again before the backward begins"


def two_products(x, w):
    return ((x @ w).tanh() @ w).sigmoid().sin() @ w


def every_second_product():
    """With a state of its own: made anew for each checkpoint."""
    seen = []

    def policy(context, operator, *args, **kwargs):
        if operator is torch.ops.aten.mm.default:
            seen.append(context.op_output.shape)
        return operator is torch.ops.aten.mm.default and len(seen) == 2

    return create_selective_checkpoint_contexts(policy)


PRODUCTS = functools.partial(create_selective_checkpoint_contexts, [torch.ops.aten.mm.default])


@pytest.mark.parametrize("contexts, kept", [(PRODUCTS, ["mm", "mm_1"]), (every_second_product, ["mm_1"])])
def test_a_policy_says_what_a_checkpoint_keeps(contexts, kept):
    def fn(x, w):
        return checkpoint(two_products, x, w, use_reentrant=False, context_fn=contexts)

    check(fn, tensor(3, 3), tensor(3, 3, seed=1), backend="aot_eager")
    (graph,) = [graph for entry in record.compilations for graph in entry.artifacts("aot")]
    assert [saved.name for saved in graph.saved if "policy" in saved.why] == kept
    assert {"tanh", "sigmoid", "sin"} <= set(graph.recomputed) and not set(kept) & set(graph.recomputed)


def test_other_contexts_of_a_checkpoint_are_left_to_eager():
    def contexts():
        return torch.autograd.graph.save_on_cpu(), contextlib.nullcontext()

    fn = minicompile.compile(
        lambda x: checkpoint(torch.sin, x, use_reentrant=False, context_fn=contexts), backend="aot_eager"
    )
    x = tensor(3)
    fn(x).sum().backward()
    torch.testing.assert_close(x.grad, x.detach().cos())
    assert record.counters["aot_rejected"] == 1


def test_checkpoint_of_a_function_that_changes_an_object_is_left_to_eager():
    class Counting(nn.Module):
        calls = 0

        def inside(self, x):
            self.calls += 1
            return x.sin()

        def forward(self, x):
            return checkpoint(self.inside, x, use_reentrant=False)

    check(Counting(), tensor(4, 3), graphs=0, graph_breaks=1)


def test_reentrant_checkpoint_without_a_gradient_to_its_arguments():
    w = tensor(3)
    fn = minicompile.compile(lambda x: checkpoint(lambda a: a * w, x, use_reentrant=True), backend="eager")
    with pytest.warns(UserWarning, match="None of the inputs"):
        assert not fn(tensor(3, requires_grad=False)).requires_grad


# --- torch.func ---------------------------------------------------------------------------------------
LINEAR = nn.Linear(3, 2)
MLP = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
OUTSIDE = vmap(grad(lambda a, w: (a * w).sin().sum()), in_dims=(0, None))
ENSEMBLE = [nn.Linear(3, 2) for _ in range(3)]
STACKED = stack_module_state(ENSEMBLE)
META = copy.deepcopy(ENSEMBLE[0]).to("meta")


def per_sample_gradients(x, y):
    def loss(parameters, x, y):
        return nn.functional.mse_loss(functional_call(LINEAR, parameters, (x,)), y)

    return vmap(grad(loss), in_dims=(None, 0, 0))(dict(LINEAR.named_parameters()), x, y)


def of_a_closure(x, w):
    def inner(a):
        return (a * w).sin().sum()

    return grad(inner)(x) + w


def with_vjp(x):
    y, back = vjp(torch.sin, x)
    return y, back(torch.ones_like(y))[0]


def written_inside(x):
    def body(a):
        a = a.clone()
        a.add_(1)
        a[0] = 5
        return a

    return vmap(body)(x)


def counted(x):
    seen = []

    def body(a):
        seen.append(len(seen))
        return a.sin().sum()

    return grad(body)(x), seen


def through_a_transform(x, w):
    return (grad(lambda a: (a * w).sin().sum())(x) * w).sum()


def plain(*shape, seed=0):
    return tensor(*shape, requires_grad=False, seed=seed)


TRANSFORMS = {
    "grad": (lambda x: grad(lambda a: a.sin().sum())(x), plain(3)),
    "grad of grad": (lambda x: grad(grad(lambda a: a.sin() * a))(x), plain()),
    "grad of an input that needs one": (lambda x: grad(lambda a: a.sin().sum())(x) * 2, tensor(3)),
    "grad_and_value": (lambda x: grad_and_value(lambda a: a.sin().sum())(x), plain(3)),
    "has_aux": (lambda x: grad(lambda a: (a.sin().sum(), {"y": a * 2}), has_aux=True)(x), plain(3)),
    "argnums": (lambda x, y: grad(lambda a, b: (a * b).sum(), argnums=(0, 1))(x, y), plain(3), plain(3, seed=1)),
    "closure": (of_a_closure, plain(3), plain(3, seed=1)),
    "gradient through": (through_a_transform, plain(3), tensor(3, seed=1)),
    "vmap": (lambda x, y: vmap(torch.dot)(x, y), plain(4, 3), plain(4, 3, seed=1)),
    "a number in vmap of vmap": (lambda x: vmap(vmap(lambda number: number * 2 + 1))(x), plain(4, 3)),
    "in_dims": (
        lambda x, y: vmap(lambda a, b: a * b.sum(), in_dims=(0, None), out_dims=1)(x, y),
        plain(4, 3),
        plain(3, seed=1),
    ),
    "vmap of dicts": (
        lambda d: vmap(lambda q: {"sum": q["a"] + q["b"], "list": [q["a"].sum()]})(d),
        {"a": plain(4, 3), "b": plain(4, 3, seed=1)},
    ),
    "vmap of vmap": (
        lambda x, y: vmap(vmap(lambda a, b: a * b, in_dims=(0, None)), in_dims=(None, 0))(x, y),
        plain(4),
        plain(3, seed=1),
    ),
    "vmap in chunks": (lambda x: vmap(lambda a: a.sin(), chunk_size=2)(x), plain(4, 3)),
    "vmap with random numbers": (lambda x: vmap(lambda a: a + torch.rand(3), randomness="different")(x), plain(4, 3)),
    "vmap of writes": (written_inside, plain(4, 3)),
    "per-sample gradients": (per_sample_gradients, plain(4, 3), plain(4, 2, seed=1)),
    "made outside": (lambda x, w: OUTSIDE(x, w) + 1, plain(4, 3), plain(3, seed=1)),
    "ensemble": (
        lambda x: vmap(lambda p, b, x: functional_call(META, (p, b), (x,)), in_dims=(0, 0, None))(*STACKED, x),
        plain(5, 3),
    ),
    "functional_call": (
        lambda x, w, b: functional_call(LINEAR, {"weight": w, "bias": b}, (x,)),
        plain(4, 3),
        tensor(2, 3),
        tensor(2),
    ),
    "gradient of a module": (
        lambda x: grad(lambda p: functional_call(MLP, p, (x,)).sum())(dict(MLP.named_parameters())),
        plain(5, 3),
    ),
    "vjp": (with_vjp, plain(3)),
    "jvp": (lambda x, t: jvp(torch.sin, (x,), (t,)), plain(3), plain(3, seed=1)),
    "jacrev": (lambda x: jacrev(lambda a: a.sin() * a.sum())(x), plain(3)),
    "jacfwd": (lambda x: jacfwd(lambda a: a.sin() * a.sum())(x), plain(3)),
    "hessian": (lambda x: hessian(lambda a: a.sin().prod())(x), plain(3)),
    "hessian-vector product": (
        lambda x, v: jvp(grad(lambda a: a.sin().prod()), (x,), (v,))[1],
        plain(3),
        plain(3, seed=1),
    ),
    "effects": (counted, plain(3)),
}


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", TRANSFORMS)
def test_transform(name, backend):
    fn, *args = TRANSFORMS[name]
    check(fn, *args, backend=backend, aliasing=False)


@pytest.mark.parametrize("name", ["per-sample gradients", "hessian", "vmap of writes"])
def test_transform_in_kernels(name):
    fn, *args = TRANSFORMS[name]
    check(fn, *args, backend="inductor", aliasing=False)


def test_value_that_escapes_a_transform_breaks():
    def fn(x):
        seen = []

        def body(a):
            seen.append(a)
            return a.sin().sum()

        return grad(body)(x), len(seen)

    y, count = minicompile.compile(lambda x: fn(x), backend="eager")(plain(3))
    torch.testing.assert_close(y, plain(3).cos())
    assert count == 1


def test_error_in_a_transform_is_eagers():
    def fn(x):
        return grad(lambda a: a.sin())(x)

    with pytest.raises(RuntimeError, match="to return a scalar Tensor"):
        minicompile.compile(fn, backend="eager")(plain(3))
    assert torch._C._functorch.peek_interpreter_stack() is None


def test_break_in_a_transform_runs_it_in_eager():
    def fn(x):
        return vmap(lambda a: a.sin() if print() is None else a)(x)

    minicompile.compile(fn, backend="eager")(plain(3, 2))
    assert record.counters["graph_breaks"] == 1 and record.break_reasons["print or input"] == 1


def test_graphs_are_printed_with_their_nested_graphs():
    captured = minicompile.capture(lambda x: TwiceExp.apply(vmap(torch.sin)(x)), tensor(3))
    text = captured.graphs[0].print_readable(print_output=False)
    assert "class vmap_impl_body_0" in text and "TwiceExp_0" in captured.graphs[0].code


class Turned(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.view(-1)

    @staticmethod
    def backward(ctx, gradient):
        return gradient.reshape(2, 3) * 5


@pytest.mark.parametrize(
    "fn", [Turned.apply, Same.apply, lambda x: Same.apply(x).view(-1), lambda x: Turned.apply(x)[1]]
)
def test_custom_function_that_returns_a_view_of_an_input_is_left_to_eager_by_aot(fn):
    compiler = functools.partial(minicompile.compile, backend="aot_eager")
    testing.check(lambda x: fn(x), tensor(2, 3), compiler=compiler, graphs=1, graph_breaks=0)
    assert record.counters["aot_rejected"] == 1


# --- gradients inside, and hooks ------------------------------------------------------------------------
def penalty(x):
    (gradient,) = torch.autograd.grad(MLP(x).sum(), x, create_graph=True)
    return ((gradient.norm(2, 1) - 1) ** 2).mean()


def hooked(x, w):
    y = x * 2
    y.register_hook(lambda gradient: gradient * w + 1)
    return y.sin()


def unhooked(x, w):
    y = x * 2
    handle = y.register_hook(lambda gradient: gradient * w)
    handle.remove()
    return y.sin()


INSIDE = {
    "grad": (lambda x: torch.autograd.grad((x * x).sum(), x)[0] * 2, tensor(3)),
    "create_graph": (lambda x: torch.autograd.grad((x**3).sum(), x, create_graph=True)[0].pow(2).sum(), tensor(3)),
    "unused": (lambda x, y: torch.autograd.grad((x * 2).sum(), (x, y), allow_unused=True), tensor(3), tensor(3)),
    "penalty": (penalty, tensor(5, 3)),
    "functional": (lambda x: torch.autograd.functional.jacobian(lambda a: a.sin(), x), plain(3)),
    "hook": (hooked, tensor(3), plain(3)),
    "hook removed": (unhooked, tensor(3), plain(3)),
}


@pytest.mark.parametrize("backend", [*BACKENDS, "inductor"])
@pytest.mark.parametrize("name", INSIDE)
def test_gradients_inside(name, backend):
    fn, *args = INSIDE[name]
    check(fn, *args, backend=backend)


def test_gradient_of_what_was_computed_before_breaks():
    w = tensor(3)

    def fn(x, y):
        return torch.autograd.grad((x * y).sum(), x)[0]

    x = w * 2
    check_fn = minicompile.compile(fn, backend="eager")
    torch.testing.assert_close(check_fn(x, x.sin()), fn(x, x.sin()))
    assert record.break_reasons["backward inside a compiled function"] == 1


def test_hook_with_effects_breaks():
    seen = []

    def fn(x):
        y = x * 2
        y.register_hook(lambda gradient: seen.append(gradient.shape))
        return y.sin()

    minicompile.compile(fn, backend="eager")(tensor(3)).sum().backward()
    assert len(seen) == 1 and record.break_reasons["tensor hook"] == 1


def test_what_is_returned_with_its_graph_freed_is_left_to_eager_by_aot():
    def fn(x):
        y = (x * x).sum()
        return y, torch.autograd.grad(y, x)[0]

    compiled = minicompile.compile(fn, backend="aot_eager")
    for expected, actual in zip(fn(tensor(3)), compiled(tensor(3))):
        torch.testing.assert_close(actual, expected)
    assert record.counters["aot_rejected"] == 1
