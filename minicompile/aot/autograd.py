"""Hand a compiled graph over to autograd.

Goes in: an `AOTGraph` with a backward, and its compiled forward.  Comes out: a `torch.autograd.Function`, as a callable
on a list of inputs: it saves what the backward reads, and compiles the backward when it is needed for the first time.
Mirrors `torch/_functorch/_aot_autograd/runtime_wrappers.py` (AOTDispatchAutograd).  Taught in chapter 08.
"""

import threading

import torch

from .. import config, record
from ..errors import MinicompileError
from . import graph_cache
from .graph import Examples
from .outputs import is_dense
from .provenance import gradient_functions

is_batched = torch._C._functorch.is_legacy_batchedtensor
DOUBLE_BACKWARD = (
    "minicompile does not support double backward: a gradient that was computed with create_graph=True through a "
    "compiled region cannot be differentiated again.  Run that region outside `minicompile.compile`."
)


def boxed(function):
    """Call every compiled graph the same way: one list of inputs, which it may empty."""
    return function if getattr(function, "_boxed_call", False) else lambda args: function(*args)


class LazyBackward:
    """Compiles the backward at the first backward pass: a forward that never needs it does not pay for it.

    Each combination of results that have a gradient has a backward of its own.
    """

    def __init__(self, graph, compiler):
        self.graph, self.compiler, self.parts = graph, compiler, {}
        self.lock, self.compilation = threading.Lock(), record.current()

    def part(self, absent):
        """(the `Part` of the backward, the function that runs it) where these results, by number, have no gradient."""
        if absent not in self.parts:
            with self.lock:
                if absent not in self.parts:
                    part = graph_cache.part_of(self.graph, absent)
                    few = len(self.parts) < config.recompile_limit
                    self.parts[absent] = part, self.compile(part.gm) if few else by_operators(part.gm)
        return self.parts[absent]

    def compile(self, gm):
        with record.reopen(self.compilation):
            try:
                return without_autocast(boxed(self.compiler(gm, Examples(gm))))
            except Exception as error:
                if config.strict:
                    raise
                record.warn_once(f"minicompile could not compile a backward graph and runs it in eager: {error}")
                return without_autocast(boxed(gm))


def by_operators(gm):
    """Also for gradients that `is_grads_batched=True` batches: kernels take plain tensors only."""
    return without_autocast(boxed(gm.forward))


class NoDoubleBackward(torch.autograd.Function):
    """Marks a gradient made under create_graph=True: differentiating it again is an error, not a wrong number."""

    @staticmethod
    def forward(ctx, gradient, *history):
        return gradient.detach()

    @staticmethod
    def backward(ctx, *grads):
        raise MinicompileError(DOUBLE_BACKWARD)


class Keeper(torch.autograd.Function):
    """A node of autograd that nothing leads to: it saves tensors until it is told to free them."""

    @staticmethod
    def forward(ctx, root, tensors):
        ctx.save_for_backward(*tensors)
        return torch.empty(0)

    @staticmethod
    def backward(ctx, grad):
        raise AssertionError("nothing leads to a keeper")


class SavedTensors:
    """Where a `CompiledFunction` keeps what its backward reads, and until when.

    Autograd frees what a node has saved once it ran.  Where in eager other results could still run their own backward,
    keepers save: one for each set of results with whose gradients the tensors are read.
    """

    def __init__(self, graph):
        everything = frozenset(range(len(graph.frees)))
        self.frees, self.together = graph.frees, all(freed == everything for freed in graph.frees)
        self.count, self.groups = sum(s.is_tensor for s in graph.saved), {}
        for k, tangents in enumerate(graph.saved_readers[: self.count]):
            self.groups.setdefault(tangents, []).append(k)
        self.results = [s.source[0] == "result" for s in graph.saved]
        self.root = torch.zeros((), requires_grad=True)

    def save(self, ctx, tensors):
        if self.together:
            ctx.save_for_backward(*tensors)
            return
        # a result would keep this node alive, and this node the keeper
        tensors = [t.detach() if result else t for t, result in zip(tensors, self.results, strict=False)]
        with torch.enable_grad():
            ctx.keepers = [Keeper.apply(self.root, [tensors[k] for k in group]) for group in self.groups.values()]
        ctx.freed = frozenset()

    def load(self, ctx, present, wanted):
        """The tensors; None for those that are not read now."""
        if self.together:
            return ctx.saved_tensors
        if not ctx.freed.isdisjoint(present):
            list(ctx.saved_tensors)  # there are none, but this raises what eager does: the node ran already
        tensors = [None] * self.count
        for group, keeper in zip(self.groups.values(), ctx.keepers, strict=True):
            if not set(wanted).isdisjoint(group):
                for k, tensor in zip(group, keeper.grad_fn.saved_tensors, strict=True):
                    tensors[k] = tensor
        return tensors

    def free(self, ctx, present):
        """What no later backward may read, unless the graph is retained."""
        if self.together:
            ctx.maybe_clear_saved_tensors()
        elif not torch._C._autograd._get_current_graph_task_keep_graph():
            ctx.freed = ctx.freed.union(*(self.frees[i] for i in present))
            for tangents, keeper in zip(self.groups, ctx.keepers, strict=True):
                if tangents <= ctx.freed:
                    keeper.grad_fn.maybe_clear_saved_tensors()


def layout_of(result):
    """(shape, stride, dtype, device) that the gradient of a result must have."""
    stride = result.stride() if is_dense(result) else torch.empty(result.shape, device="meta").stride()
    return result.shape, stride, result.dtype, result.device


def autograd_function(graph, forward, backward):
    """The `torch.autograd.Function` of this graph, as a callable on a list of inputs."""
    result_count, input_count = graph.result_count, len(graph.input_names) + len(graph.constants)
    differentiable = set(graph.differentiable)
    plain = [i for i in range(result_count) if i not in differentiable]
    sources = [
        (kind, index + result_count if kind == "extra" else index) for kind, index in (s.source for s in graph.saved)
    ]
    store, count = SavedTensors(graph), sum(s.is_tensor for s in graph.saved)
    from_inputs = [(i, kind == "input", index) for i, (kind, index) in enumerate(sources)]
    layouts, positions = graph.tangent_layouts, list(graph.differentiable)
    everything = frozenset(range(len(positions)))

    class CompiledFunction(torch.autograd.Function):
        @staticmethod
        def forward(ctx, *inputs):
            outputs = forward([*inputs])
            kept = [inputs[index] if is_input else outputs[index] for _, is_input, index in from_inputs]
            store.save(ctx, kept[:count])
            ctx.numbers = kept[count:]
            ctx.layouts = layouts or [layout_of(outputs[i]) for i in positions]
            ctx.set_materialize_grads(False)
            if plain:
                ctx.mark_non_differentiable(*(outputs[i] for i in plain if isinstance(outputs[i], torch.Tensor)))
            return tuple(outputs[:result_count])

        @staticmethod
        def backward(ctx, *grads):
            grads = [grads[i] for i in positions]
            present = {i for i, g in enumerate(grads) if g is not None}
            part, run = backward.part(everything - present)
            saved = [*store.load(ctx, present, part.reads), *ctx.numbers]
            args = [saved[k] if k < len(saved) else fit(k - len(saved), grads, ctx.layouts) for k in part.reads]
            if any(is_batched(g) for g in grads if g is not None):
                run = by_operators(part.gm)
            store.free(ctx, present)
            del grads, saved  # the list alone holds them now: they die when they have been read
            results = run(args)
            if torch.is_grad_enabled():  # create_graph=True
                history = leaves_behind(ctx)
                results = [NoDoubleBackward.apply(r, *history) for r in results]
            full = [None] * input_count
            for k, position in part.grads:
                full[graph.grad_inputs[k]] = results[position]
            return tuple(full)

    apply = CompiledFunction.apply
    return lambda inputs: apply(*inputs)


def leaves_behind(function):
    """The leaves that autograd reaches from here, and one that always needs a gradient."""
    leaves = [f.variable for f in gradient_functions([function]) if hasattr(f, "variable")]
    return [torch.zeros((), requires_grad=True), *leaves]


def without_autocast(function):
    """The graph holds the casts already; running it must not add others."""

    def run(args):
        if not torch._C._is_any_autocast_enabled():
            return function(args)
        with torch._C._DisableAutocast():
            return function(args)

    return run


def fit(number, grads, layouts):
    """The gradient of one result as the backward graph expects it: zeros for none, strides as traced."""
    grad, (shape, stride, dtype, device) = grads[number], layouts[number]
    if grad is None:
        return torch.empty_strided(shape, stride, dtype=dtype, device=device).zero_()
    if grad.is_conj() or grad.is_neg():
        grad = grad.resolve_conj().resolve_neg()
    if grad.stride() == stride or is_batched(grad):
        return grad
    return torch.empty_strided(shape, stride, dtype=dtype, device=device).copy_(grad)
