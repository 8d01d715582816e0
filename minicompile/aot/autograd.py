"""Hand a compiled graph over to autograd.

Goes in: an `AOTGraph` with a backward, and its compiled forward.  Comes out: `torch.autograd.Function`s, as a callable
on a list of inputs: they save what the backward reads, and compile it when it is needed for the first time.
Mirrors `torch/_functorch/_aot_autograd/runtime_wrappers.py` (AOTDispatchAutograd).  Taught in chapter 08.
"""

import collections
import dataclasses
import threading

import torch

from .. import config, record
from ..errors import MinicompileError
from . import graph_cache, junctions
from ._saved import asked
from .graph import Examples
from .outputs import is_dense, write_input
from .provenance import gradient_functions
from .saving import SavedTensors, place_of

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

    Each combination of results that have a gradient has a backward of its own; so have the pieces of one that is cut,
    and what some inputs alone need, which is compiled when it is asked for again.
    """

    def __init__(self, graph, compiler):
        self.graph, self.compiler, self.parts, self.once = graph, compiler, {}, {}
        self.lock, self.compilation = threading.Lock(), record.current()

    def part(self, present, piece="whole", asked=None):
        """(the `Part` of the backward, the function that runs it) where these results, by number, have a gradient.

        asked: the inputs whose gradients are wanted, if not all are.
        """
        key = present, piece, asked
        if key not in self.parts:
            with self.lock:
                if key not in self.parts:
                    absent = frozenset(range(self.graph.tangent_count)) - present
                    part = self.once.get(key) or graph_cache.part_of(self.graph, absent, piece, asked)
                    if asked is not None and key not in self.once:
                        self.once[key] = part
                        return part, by_operators(part.gm)
                    few = len(self.parts) < config.recompile_limit
                    self.parts[key] = part, self.compile(part.gm) if few else by_operators(part.gm)
        return self.parts[key]

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


def layout_of(result):
    """(shape, stride, dtype, device) that the gradient of a result must have."""
    stride = result.stride() if is_dense(result) else torch.empty(result.shape, device="meta").stride()
    return result.shape, stride, result.dtype, result.device


@dataclasses.dataclass(frozen=True)
class Node:
    """One of autograd's for some results of a graph.  tangents, results: by number.  inputs: those that it leads to."""

    tangents: frozenset
    results: list
    inputs: list


def nodes_of(graph):
    """(one node for everything, a node for each part of the results that shares no operator which saves tensors).

    A backward runs, and frees, everything that a node leads to: in eager what other results alone lead to is left.
    """
    everything = frozenset(range(len(graph.differentiable)))
    whole, parts, left = Node(everything, [*range(graph.result_count)], [*graph.connected]), [], everything
    while left:
        tangents = grown = graph.frees[min(left)] | {min(left)}
        while (grown := tangents.union(*(graph.frees[i] for i in tangents))) != tangents:
            tangents = grown
        inputs = [index for index, leads in graph.connected.items() if leads & tangents]
        parts.append(Node(tangents, [graph.differentiable[i] for i in sorted(tangents)], inputs))
        left -= tangents
    return whole, parts


def autograd_function(graph, forward, backward):
    """The `torch.autograd.Function`s of this graph, as a callable on a list of inputs."""
    whole, parts = nodes_of(graph)
    apply = apply_of(function_of(whole, graph, backward))
    apart = [(node, apply_of(function_of(node, graph, backward))) for node in parts] if len(parts) > 1 else ()
    of_some = [i for i in graph.connected if any(i not in node.inputs for node in parts)]

    def run(inputs):
        before = torch.is_grad_enabled()
        torch._C._set_grad_enabled(False)  # a quarter of what `no_grad()` costs
        try:
            outputs = forward([*inputs])
        finally:
            torch._C._set_grad_enabled(before)
        if all(inputs[i].is_leaf for i in of_some):
            return apply(inputs, outputs, *(inputs[i] for i in whole.inputs))
        results = list(outputs[: graph.result_count])
        for node, apply_part in apart:
            made = apply_part(inputs, outputs, *(inputs[i] for i in node.inputs))
            for position, result in zip(node.results, made, strict=True):
                results[position] = result
        return tuple(results)

    return run


def apply_of(function):
    """Its `apply`, without what that prepares for transforms of torch.func, a third of its time, if there are none."""
    plain, has_transforms = super(torch.autograd.Function, function).apply, torch._C._are_functorch_transforms_active
    return lambda *args: (function.apply if has_transforms() else plain)(*args)


def runner_of(graph, node, store, backward):
    """The function that runs a piece of the backward graph for a node: `run(ctx, {tangent: gradient}, piece)`."""

    def run(ctx, grads, piece):
        """[(which output of the backward graph, its value)]"""
        wanted, present = None if piece == "ahead" else asked(), frozenset(grads)
        wanted = None if wanted is None else frozenset(node.inputs[k] for k in wanted)
        part, function = backward.part(present, piece, wanted)
        some, places = store.that_matter(present, piece, wanted, part.reads)
        if piece == "whole":
            saved = store.load(ctx, present, part.reads, {}, some)
        else:
            cut = junctions.cut_now(ctx, store)
            saved = store.load(ctx, present - cut.ran, part.reads, cut.tensors, some)
            cut.ran.update(grads)
        store.watch.check(ctx, present, places)
        saved += ctx.numbers
        given = [None] * graph.tangent_count
        for i in grads:
            given[i] = grads[i]
        args = [saved[k] if k < len(saved) else given_now(k - len(saved), given, ctx) for k in part.reads]
        if any(is_batched(g) for g in grads.values()):
            function = by_operators(part.gm)
        if piece == "whole":
            store.free(ctx, grads)
        grads.clear()
        del given, saved  # the list alone holds them now: they die when they have been read
        results = function(args)
        if torch.is_grad_enabled():  # create_graph=True
            history = leaves_behind(ctx)
            results = [NoDoubleBackward.apply(r, *history) for r in results]
        return [(k, results[position]) for k, position in part.grads]

    return run


def function_of(node, graph, backward):
    """The `torch.autograd.Function` that stands for one node.

    It is given the inputs and outputs of the compiled forward, and the inputs that it leads to once more.
    """
    positions = list(graph.differentiable)
    mine = {positions[i] for i in node.tangents}
    plain = [k for k, i in enumerate(node.results) if i not in mine]
    place = {tangent: node.results.index(positions[tangent]) for tangent in node.tangents}
    place_of_input = {index: k for k, index in enumerate(node.inputs)}
    places = [place_of(graph, s.source) or s.source for s in graph.saved]
    sources = [(kind == "input", i + graph.result_count if kind == "extra" else i) for kind, i in places]
    store, count = SavedTensors(graph, node), sum(s.is_tensor for s in graph.saved)
    run = runner_of(graph, node, store, backward)

    class CompiledFunction(torch.autograd.Function):
        @staticmethod
        def forward(ctx, inputs, outputs, *reached):
            kept = [inputs[index] if is_input else outputs[index] for is_input, index in sources]
            store.save(ctx, kept[:count])
            store.watch.begin(ctx, inputs, outputs)
            ctx.numbers, ctx.rewritten = kept[count:], [inputs[i] for i, _ in graph.rewritten]
            ctx.layouts = graph.tangent_layouts or [layout_of(outputs[i]) for i in positions]
            if graph.junctions:
                ctx.cuts = {}
            ctx.set_materialize_grads(False)
            results = tuple(outputs[i] for i in node.results)
            if plain:
                ctx.mark_non_differentiable(*(results[k] for k in plain if isinstance(results[k], torch.Tensor)))
            return results

        @staticmethod
        def backward(ctx, *given):
            full = [None] * len(node.inputs)
            grads = {i: given[k] for i, k in place.items() if given[k] is not None}
            del given
            for piece, present in junctions.pieces(graph, ctx, frozenset(grads)):
                for k, result in run(ctx, {i: grads.pop(i) for i in present}, piece):
                    if k < len(graph.grad_inputs):
                        at = place_of_input[graph.grad_inputs[k]]
                        full[at] = result if full[at] is None else full[at] + result
                    else:
                        number = k - len(graph.grad_inputs)
                        write_input(ctx.rewritten[number], result, graph.rewritten[number][1])
            return None, None, *full

    CompiledFunction._backward_cls.run = staticmethod(run)
    CompiledFunction._backward_cls._register_hook_dict = hooks_for_gradients
    return CompiledFunction


class Hooks(collections.OrderedDict):
    """Hooks of one result, which are not called where it has no gradient, but others of the region have."""

    def __setitem__(self, key, hook):
        super().__setitem__(key, lambda gradient: None if gradient is None else hook(gradient))


def hooks_for_gradients(node, tensor):
    """`Tensor.register_hook` calls this with a tensor that had no hooks."""
    tensor._backward_hooks = Hooks()
    torch._C._FunctionBase._register_hook_dict(node, tensor)


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


def given_now(number, grads, ctx):
    """What the backward graph reads besides saved values: an input that it writes, or the gradient of one result as it
    was traced: zeros for none, and its strides."""
    if number >= len(grads):
        return ctx.rewritten[number - len(grads)]
    grad, (shape, stride, dtype, device) = grads[number], ctx.layouts[number]
    if grad is None:
        return torch.empty_strided(shape, stride, dtype=dtype, device=device).zero_()
    if grad.layout != torch.strided or grad.is_conj() or grad.is_neg():
        grad = grad.to_dense().resolve_conj().resolve_neg()
    if grad.stride() == stride or is_batched(grad):
        return grad
    return torch.empty_strided(shape, stride, dtype=dtype, device=device).copy_(grad)
