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
from .graph import Examples
from .keeping import Watch
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

    Each combination of results that have a gradient has a backward of its own; so have the pieces of one that is cut.
    """

    def __init__(self, graph, compiler):
        self.graph, self.compiler, self.parts = graph, compiler, {}
        self.lock, self.compilation = threading.Lock(), record.current()

    def part(self, present, piece="whole"):
        """(the `Part` of the backward, the function that runs it) where these results, by number, have a gradient."""
        key = present, piece
        if key not in self.parts:
            with self.lock:
                if key not in self.parts:
                    absent = frozenset(range(self.graph.tangent_count)) - present
                    part = graph_cache.part_of(self.graph, absent, piece)
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


class Keeper(torch.autograd.Function):
    """A node of autograd that nothing leads to: it saves tensors until it is told to free them."""

    @staticmethod
    def forward(ctx, root, tensors):
        ctx.save_for_backward(*tensors)
        return torch.empty(0)

    @staticmethod
    def backward(ctx, grad):
        raise AssertionError("nothing leads to a keeper")


def refuse_second_time():
    """Raise what autograd raises for a node that ran already."""
    with torch.enable_grad():
        x = torch.zeros((), requires_grad=True)
        y = x.exp()
    torch.autograd.grad(y, x)
    y.grad_fn._saved_result  # noqa: B018


class SavedTensors:
    """Where a node of autograd keeps what its backward reads, and until when.

    Autograd frees what a node has saved once it ran.  Where in eager other results could still run their own backward,
    keepers save: one for each set of results with whose gradients the tensors are read.
    """

    def __init__(self, graph, node):
        self.frees = {tangent: graph.frees[tangent] for tangent in node.tangents}
        self.cut_frees = graph.cut_frees
        self.together = all(freed >= node.tangents for freed in self.frees.values())
        self.count, self.groups = sum(s.is_tensor for s in graph.saved), {}
        for k, tangents in enumerate(graph.saved_readers[: self.count]):
            if tangents & node.tangents:
                self.groups.setdefault(tangents & node.tangents, []).append(k)
        self.places = sorted(k for group in self.groups.values() for k in group)
        self.others = [s.source[0] == "result" and s.source[1] not in node.results for s in graph.saved]
        self.results = [s.source[0] == "result" for s in graph.saved]
        self.root = torch.zeros((), requires_grad=True)
        kept = {k.place: k.tangents & node.tangents for k in graph.kept}
        read = [node.tangents if self.together else tangents & node.tangents for tangents in graph.saved_readers]
        places = [place_of(graph, saved.source) for saved in graph.saved[: self.count]]
        # Autograd looks at the versions of what it unpacks.  Where eager does not, with some of these gradients or with
        # all, it gets an alias that counts its own writes.
        users = [(k, place) for k, place in enumerate(places) if place is not None]
        self.unchecked = [k for k, place in users if not read[k] <= kept.get(place, frozenset())]
        checked = {place for k, place in users if k not in self.unchecked and read[k] == kept[place]}
        self.watch = Watch(graph, node, checked)

    def save(self, ctx, tensors):
        # a result would keep its node alive, and this node the keeper, or the other node
        detached = self.others if self.together else self.results
        tensors = [t.detach() if result else t for t, result in zip(tensors, detached, strict=False)]
        for k in self.unchecked:
            tensors[k] = tensors[k].data
        ctx.freed = frozenset()  # results whose backward cannot run any more
        if self.together:
            ctx.save_for_backward(*(tensors[k] for k in self.places))
            return
        with torch.enable_grad():
            ctx.keepers = [Keeper.apply(self.root, [tensors[k] for k in group]) for group in self.groups.values()]

    def load(self, ctx, present, wanted, known):
        """The tensors; None for those that are not read now.  known: those that are loaded already, by number."""
        if not ctx.freed.isdisjoint(present):
            refuse_second_time()
        if self.together and not known:
            known.update(zip(self.places, ctx.saved_tensors, strict=True))
        for group, keeper in () if self.together else zip(self.groups.values(), ctx.keepers, strict=True):
            if group[0] not in known and not set(wanted).isdisjoint(group):
                known.update(zip(group, keeper.grad_fn.saved_tensors, strict=True))
        return [known.get(k) for k in range(self.count)]

    def free(self, ctx, present):
        """What no later backward may read, unless the graph is retained."""
        if self.together:
            ctx.maybe_clear_saved_tensors()
        elif not torch._C._autograd._get_current_graph_task_keep_graph():
            ctx.freed = ctx.freed.union(*(self.frees[i] for i in present))
            self.clear(ctx)

    def free_cut(self, ctx, ran):
        """The same after a backward that was cut: ran: the results whose piece did."""
        ctx.freed = ctx.freed.union(*(self.cut_frees[i] for i in ran))
        if not self.together:
            self.clear(ctx)
        elif ctx.freed >= self.frees.keys():
            ctx.maybe_clear_saved_tensors()

    def clear(self, ctx):
        for tangents, keeper in zip(self.groups, ctx.keepers, strict=True):
            if tangents <= ctx.freed:
                keeper.grad_fn.maybe_clear_saved_tensors()


def place_of(graph, source):
    """Which input or result a saved value is, as the user sees them; None: it is neither."""
    kind, number = source
    if kind == "result" and number in graph.moved:
        return "input", graph.moved[number].index  # the input has that memory now, and counts its writes
    return source if kind == "input" or kind == "result" and number >= len(graph.mutations) else None


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


def runner_of(graph, store, backward):
    """The function that runs a piece of the backward graph for a node: `run(ctx, {tangent: gradient}, piece)`."""

    def run(ctx, grads, piece):
        """[(which output of the backward graph, its value)]"""
        part, function = backward.part(frozenset(grads), piece)
        if piece == "whole":
            saved = store.load(ctx, grads.keys(), part.reads, {})
            store.watch.check(ctx, grads.keys())
        else:
            cut = junctions.cut_now(ctx, store)
            saved = store.load(ctx, grads.keys() - cut.ran, part.reads, cut.tensors)
            store.watch.check(ctx, grads.keys())
            cut.ran.update(grads)
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
    run = runner_of(graph, store, backward)

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
