"""Hand a compiled graph over to autograd.

Goes in: an `AOTGraph` with a backward, and its compiled forward.  Comes out: `torch.autograd.Function`s, as a callable
on a list of inputs: they save what the backward reads, and compile it when it is needed for the first time.
Mirrors `torch/_functorch/_aot_autograd/runtime_wrappers.py` (AOTDispatchAutograd).  Taught in chapter 08.
"""

import dataclasses
import threading

import torch

from .. import config, record
from ..errors import MinicompileError
from . import graph_cache
from .graph import Examples
from .outputs import is_dense, write_input
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
    """Where a node of autograd keeps what its backward reads, and until when.

    Autograd frees what a node has saved once it ran.  Where in eager other results could still run their own backward,
    keepers save: one for each set of results with whose gradients the tensors are read.
    """

    def __init__(self, graph, node):
        self.frees = {tangent: graph.frees[tangent] for tangent in node.tangents}
        self.together = all(freed >= node.tangents for freed in self.frees.values())
        self.count, self.groups = sum(s.is_tensor for s in graph.saved), {}
        for k, tangents in enumerate(graph.saved_readers[: self.count]):
            if tangents & node.tangents:
                self.groups.setdefault(tangents & node.tangents, []).append(k)
        self.places = sorted(k for group in self.groups.values() for k in group)
        self.others = [s.source[0] == "result" and s.source[1] not in node.results for s in graph.saved]
        self.results = [s.source[0] == "result" for s in graph.saved]
        self.root = torch.zeros((), requires_grad=True)

    def save(self, ctx, tensors):
        # a result would keep its node alive, and this node the keeper, or the other node
        detached = self.others if self.together else self.results
        tensors = [t.detach() if result else t for t, result in zip(tensors, detached, strict=False)]
        if self.together:
            ctx.save_for_backward(*(tensors[k] for k in self.places))
            return
        with torch.enable_grad():
            ctx.keepers = [Keeper.apply(self.root, [tensors[k] for k in group]) for group in self.groups.values()]
        ctx.freed = frozenset()

    def load(self, ctx, present, wanted):
        """The tensors; None for those that are not read now."""
        tensors = [None] * self.count
        if self.together:
            for k, tensor in zip(self.places, ctx.saved_tensors, strict=True):
                tensors[k] = tensor
            return tensors
        if not ctx.freed.isdisjoint(present):
            list(ctx.saved_tensors)  # there are none, but this raises what eager does: the node ran already
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
    apply = function_of(whole, graph, backward).apply
    apart = [(node, function_of(node, graph, backward).apply) for node in parts] if len(parts) > 1 else ()
    of_some = [i for i in graph.connected if any(i not in node.inputs for node in parts)]

    def run(inputs):
        with torch.no_grad():
            outputs = forward([*inputs])
        if all(inputs[i].is_leaf for i in of_some):
            return apply(inputs, outputs, *(inputs[i] for i in whole.inputs))
        results = list(outputs[: graph.result_count])
        for node, apply_part in apart:
            made = apply_part(inputs, outputs, *(inputs[i] for i in node.inputs))
            for position, result in zip(node.results, made, strict=True):
                results[position] = result
        return tuple(results)

    return run


def function_of(node, graph, backward):
    """The `torch.autograd.Function` that stands for one node.

    It is given the inputs and outputs of the compiled forward, and the inputs that it leads to once more.
    """
    positions, everything = list(graph.differentiable), frozenset(range(len(graph.differentiable)))
    mine = {positions[i] for i in node.tangents}
    plain = [k for k, i in enumerate(node.results) if i not in mine]
    place = {tangent: node.results.index(positions[tangent]) for tangent in node.tangents}
    place_of_input = {index: k for k, index in enumerate(node.inputs)}
    sources = [
        (True, graph.moved[index].index)  # the input has that memory now, and counts its writes
        if kind == "result" and index in graph.moved
        else (kind == "input", index + graph.result_count if kind == "extra" else index)
        for kind, index in (s.source for s in graph.saved)
    ]
    store, count = SavedTensors(graph, node), sum(s.is_tensor for s in graph.saved)

    class CompiledFunction(torch.autograd.Function):
        @staticmethod
        def forward(ctx, inputs, outputs, *reached):
            kept = [inputs[index] if is_input else outputs[index] for is_input, index in sources]
            store.save(ctx, kept[:count])
            ctx.numbers, ctx.rewritten = kept[count:], [inputs[i] for i, _ in graph.rewritten]
            ctx.layouts = graph.tangent_layouts or [layout_of(outputs[i]) for i in positions]
            ctx.set_materialize_grads(False)
            results = tuple(outputs[i] for i in node.results)
            if plain:
                ctx.mark_non_differentiable(*(results[k] for k in plain if isinstance(results[k], torch.Tensor)))
            return results

        @staticmethod
        def backward(ctx, *given):
            grads = [given[place[i]] if i in place else None for i in range(len(positions))]
            present = {i for i, g in enumerate(grads) if g is not None}
            part, run = backward.part(everything - present)
            saved = [*store.load(ctx, present, part.reads), *ctx.numbers]
            args = [saved[k] if k < len(saved) else given_now(k - len(saved), grads, ctx) for k in part.reads]
            if any(is_batched(g) for g in grads if g is not None):
                run = by_operators(part.gm)
            store.free(ctx, present)
            del given, grads, saved  # the list alone holds them now: they die when they have been read
            results = run(args)
            written = [(k - len(graph.grad_inputs), results[at]) for k, at in part.grads if k >= len(graph.grad_inputs)]
            for k, value in written:
                write_input(ctx.rewritten[k], value, graph.rewritten[k][1])
            if torch.is_grad_enabled():  # create_graph=True
                history = leaves_behind(ctx)
                results = [NoDoubleBackward.apply(r, *history) for r in results]
            full = [None] * len(node.inputs)
            for k, position in part.grads[: len(part.grads) - len(written)]:
                full[place_of_input[graph.grad_inputs[k]]] = results[position]
            return None, None, *full

    return CompiledFunction


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
