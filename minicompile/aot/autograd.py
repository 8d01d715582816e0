"""Hand a compiled graph over to autograd.

Goes in: an `AOTGraph` with a backward, and its compiled forward.  Comes out: a `torch.autograd.Function`, as a callable
on a list of inputs: it saves what the backward reads, and compiles the backward when it is needed for the first time.
Mirrors `torch/_functorch/_aot_autograd/runtime_wrappers.py` (AOTDispatchAutograd).  Taught in chapter 08.
"""

import threading
import warnings

import torch

from .. import config, record
from ..errors import MinicompileError
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
    """Compiles the backward at the first backward pass: a forward that never needs it does not pay for it."""

    def __init__(self, graph, compiler):
        self.graph, self.compiler, self.function = graph, compiler, None
        self.lock, self.compilation = threading.Lock(), record.current()

    def __call__(self, args):
        if self.function is None:
            with self.lock:
                if self.function is None:
                    self.function = self.compile()
        return self.function(args)

    def by_operators(self, args):
        """For gradients that `is_grads_batched=True` batches: kernels take plain tensors only."""
        return self.graph.backward.forward(*args)

    def compile(self):
        gm = self.graph.backward
        examples = [n.meta["val"] for n in gm.graph.nodes if n.op == "placeholder"]
        with record.reopen(self.compilation):
            try:
                return without_autocast(boxed(self.compiler(gm, examples)))
            except Exception as error:
                if config.strict:
                    raise
                warnings.warn(
                    f"minicompile could not compile a backward graph and runs it in eager: {error}", stacklevel=2
                )
                return without_autocast(boxed(gm))


class NoDoubleBackward(torch.autograd.Function):
    """Marks a gradient made under create_graph=True: differentiating it again is an error, not a wrong number."""

    @staticmethod
    def forward(ctx, gradient, *history):
        return gradient.detach()

    @staticmethod
    def backward(ctx, *grads):
        raise MinicompileError(DOUBLE_BACKWARD)


def layout_of(result):
    """(shape, stride, dtype, device) that the gradient of a result must have."""
    stride = result.stride() if is_dense(result) else torch.empty(result.shape, device="meta").stride()
    return result.shape, stride, result.dtype, result.device


def tangent_layouts(graph):
    """The layouts that the backward was traced for; None if sizes are symbolic, so that each call has its own."""
    places = [n.meta["val"] for n in graph.backward.graph.nodes if n.op == "placeholder"]
    tangents = places[len(graph.saved) :]
    static = all(isinstance(n, int) for t in tangents for n in (*t.shape, *t.stride()))
    return [(t.shape, t.stride(), t.dtype, t.device) for t in tangents] if static else None


def autograd_function(graph, forward, backward):
    """The `torch.autograd.Function` of this graph, as a callable on a list of inputs."""
    result_count, input_count = graph.result_count, len(graph.input_names) + len(graph.constants)
    differentiable = set(graph.differentiable)
    plain = [i for i in range(result_count) if i not in differentiable]
    sources = [
        (kind, index + result_count if kind == "extra" else index) for kind, index in (s.source for s in graph.saved)
    ]
    count = sum(s.is_tensor for s in graph.saved)
    from_inputs = [(i, kind == "input", index) for i, (kind, index) in enumerate(sources)]
    layouts, positions = tangent_layouts(graph), list(graph.differentiable)
    dependence = graph.grad_dependence

    class CompiledFunction(torch.autograd.Function):
        @staticmethod
        def forward(ctx, *inputs):
            outputs = forward([*inputs])
            kept = [inputs[index] if is_input else outputs[index] for _, is_input, index in from_inputs]
            ctx.save_for_backward(*kept[:count])
            ctx.numbers = kept[count:]
            ctx.layouts = layouts or [layout_of(outputs[i]) for i in positions]
            ctx.set_materialize_grads(False)
            if plain:
                ctx.mark_non_differentiable(*(outputs[i] for i in plain if isinstance(outputs[i], torch.Tensor)))
            return tuple(outputs[:result_count])

        @staticmethod
        def backward(ctx, *grads):
            grads = [grads[i] for i in positions]
            absent = {i for i, g in enumerate(grads) if g is None}
            tangents = [fit(g, layout) for g, layout in zip(grads, ctx.layouts, strict=True)]
            args = [*(ctx.saved_tensors if count else ()), *ctx.numbers, *tangents]  # which may be freed already
            run = backward.by_operators if any(map(is_batched, tangents)) else backward
            if torch.is_grad_enabled():  # create_graph=True
                history = leaves_behind(ctx)
                results = [NoDoubleBackward.apply(r, *history) for r in run(args)]
            else:
                ctx.maybe_clear_saved_tensors()
                del grads, tangents  # the list alone holds them now: they die when they have been read
                results = run(args)
            full = [None] * input_count
            for index, result, needs in zip(graph.grad_inputs, results, dependence, strict=True):
                if not absent or not needs <= absent:
                    full[index] = result
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


def fit(grad, layout):
    """The gradient of one result as the backward graph expects it: zeros for none, strides as traced."""
    shape, stride, dtype, device = layout
    if grad is None:
        return torch.empty_strided(shape, stride, dtype=dtype, device=device).zero_()
    if grad.is_conj() or grad.is_neg():
        grad = grad.resolve_conj().resolve_neg()
    if grad.stride() == stride or is_batched(grad):
        return grad
    return torch.empty_strided(shape, stride, dtype=dtype, device=device).copy_(grad)
