"""Trace a captured graph to ATen operators; with gradients, forward and backward in one joint graph.

Goes in: an FX graph and example inputs.  Comes out: an `AOTGraph`: the functional graph (`forward`), and for training
the joint graph, its split into `forward` and `backward`, and the tensors saved between them.  The backward is what
`torch.autograd.grad` does while `make_fx` watches.
Mirrors `torch/_functorch/_aot_autograd/graph_capture.py`.  Taught in chapter 08.
"""

import dataclasses

import torch
from torch import fx
from torch._dispatch.python import enable_python_dispatcher
from torch._subclasses.fake_tensor import DataDependentOutputException, DynamicOutputShapeException
from torch._subclasses.functional_tensor import FunctionalTensor, disable_functional_mode
from torch.fx._lazy_graph_module import _use_lazy_graph_module
from torch.fx.experimental.proxy_tensor import disable_proxy_modes_tracing, get_proxy_mode, make_fx, track_tensor_tree
from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode

from ..errors import Unsupported
from ..lazy_graph import LazyGraphModule
from . import assertions, attention, channels_last, checkpoints, freeze, functionalize, junctions, keeping, partial
from .decompositions import decomposition_table, rules_above_autograd
from .graph import AOTGraph
from .outputs import NEW_LEAF, is_dense, storage_key, unwrap, with_eager_strides
from .partitioner import partition
from .passes import optimize
from .provenance import Provenance, gradient_functions
from .sharing import OTHER_MEMORY


class Recording:
    """What the traced function finds out while `make_fx` runs it.

    inference: then nothing requires grad.  fields: of the `AOTGraph`, where there is a backward.
    """

    program = provenance = None
    forward_names = ()  # of the nodes that exist before the backward begins
    stand_ins = ()  # names of the copies that stand for inputs which may be written

    def __init__(self, inference):
        self.inference, self.fields = inference, {}


def new_place(name, like):
    """A placeholder of the backward (the gradient of a result), added to the graph in the middle of the trace."""
    tracer = get_proxy_mode().tracer
    value = unwrap(like)
    options = {"dtype": value.dtype, "device": value.device}
    with disable_proxy_modes_tracing(), disable_functional_mode(), torch.no_grad():
        if is_dense(value):
            fake = torch.empty_strided(value.shape, value.stride(), **options)
        else:
            fake = torch.empty(value.shape, **options)
    proxy = tracer.create_proxy("placeholder", name, (), {})
    track_tensor_tree(fake, proxy, constant=None, tracer=tracer)
    return FunctionalTensor.to_functional(fake)


def reject_new_leaves(targets, leaves):
    """A tensor that the graph itself makes trainable would lose its gradient: only inputs get one."""
    known = {id(leaf) for leaf in leaves}
    for function in gradient_functions(t.grad_fn for t in targets):
        if hasattr(function, "variable") and id(function.variable) not in known:
            raise Unsupported(*NEW_LEAF)


def in_order(mutation, primals, program, last):
    """The mutation, marked if it comes before the last tensor is saved."""
    counted = program.written_at.get(storage_key(primals[mutation.index]), -1)  # else an operator that saves wrote it
    return dataclasses.replace(mutation, early=mutation.how in ("no_grad", "data") and counted <= last)


REFUSED_BACKWARD = {  # what eager refuses only when the backward runs: part of autograd's message -> why
    "backward through the graph a second time": (
        "result of a graph that was freed",
        "the program takes gradients inside, and returns what it took them of",
        "return the detached tensor, or pass retain_graph=True",
    ),
    "modified by an inplace operation": (
        "write to a value that backward needs",
        "the graph writes in place to a tensor whose old value its own backward reads",
        "use the out-of-place operator",
    ),
    "detached in-place": (
        "detach_ of a value that backward needs",
        "the graph detaches in place a tensor that its own backward reads",
        "use detach()",
    ),
}
WRITTEN_IN_BACKWARD = (
    "write in the backward",
    "the backward of a custom function writes to an input or a result of the graph",
    "return what it computes, or write to it after the backward",
)


@functionalize.refused(REFUSED_BACKWARD)
def kept_by_eager(*what):
    search = keeping.Search(*what)
    return search.kept, search.functions


@functionalize.refused(REFUSED_BACKWARD)
def differentiate(targets, sources, tangents, left_alone):
    """The gradients."""
    before = [unwrap(t) for t in left_alone]
    with torch._C._DisableAutocast():  # backward operators run in the types that the forward chose
        grads = torch.autograd.grad(targets, sources, tangents, allow_unused=True)
    if any(unwrap(t) is not value for t, value in zip(left_alone, before, strict=True)):
        raise Unsupported(*WRITTEN_IN_BACKWARD)
    return grads


def by_input(places, grads, reach):
    """({input: (gradient, the tangents that lead to it)}, {input: the tangents from which autograd gets there})"""
    found, connected = {}, {}
    for (i, _), g, leads in zip(places, grads, reach, strict=True):
        if leads:  # even where there is no gradient
            connected[i] = leads | connected.get(i, frozenset())
        if g is not None:
            found[i] = (g + found[i][0], leads | found[i][1]) if i in found else (g, leads)
    return found, connected


def traced_function(gm, example_inputs, constant_names, recording, sharing):
    """The function that `make_fx` runs: forward, and if any result needs it, backward.  It returns a flat list."""

    def run(*fakes):
        with functionalize.FunctionalMode() as mode:
            leaves = [FunctionalTensor.to_functional(f) if isinstance(f, torch.Tensor) else f for f in fakes]
            provenance = recording.provenance = Provenance(get_proxy_mode().tracer.graph)
            # An input with history may be written in place, which autograd refuses for a leaf: a copy stands for it.
            primals = [
                leaf.clone() if needs_grad(leaf) and torch.is_grad_enabled() and not example.is_leaf else leaf
                for leaf, example in zip(leaves, example_inputs, strict=True)
            ]
            recording.stand_ins = {n.name for n in get_proxy_mode().tracer.graph.nodes}
            if sharing is not None:
                sharing.connect(leaves, primals, mode.aliases)
                primals = primals[: len(sharing.values)]
            program = functionalize.run_functional(
                gm, primals, constant_names, provenance, recording.inference, mode.aliases
            )
            recording.program = program
            moved = {i: with_eager_strides(t.detach()) for i, t in program.replaced.items()}
            new_values = [moved[m.index] if m.how == "memory" else primals[m.index] for m in program.mutations]
            results = [*new_values, *program.results]
            provenance.mark(None)
            values = [*map(unwrap, results)]
            recording.forward_names = {n.name for n in get_proxy_mode().tracer.graph.nodes}
            mutated = [m.how == "copy_" for m in program.mutations] + [True] * len(program.results)
            differentiable = [i for i, r in enumerate(results) if mutated[i] and needs_grad(r)]
            places = [*enumerate(leaves), *program.replaced.items()]  # an input may be two leaves, one after the other
            places = [(i, leaf) for i, leaf in places if needs_grad(leaf)]
            sources = [leaf for _, leaf in places]
            targets = [results[i] for i in differentiable]
            reject_new_leaves(targets, sources)
            if not targets or not sources:
                return values
            search = junctions.Search(program, primals, differentiable, targets, sharing is not None)
            tangents = [new_place(f"tangent_{n}", like) for n, like in enumerate([*targets, *search.views])]
            frees, reach, last = partial.shared_by(targets, sources)
            program.mutations = [m if sharing else in_order(m, primals, program, last) for m in program.mutations]
            rewrites = checkpoints.Rewrites(program, primals, provenance, targets, sharing is not None)
            kept, functions = kept_by_eager(program, primals, targets, places, provenance, mode.aliases.counters)
            rewrites.begin(new_place)
            provenance.follow_backward(targets)
            others = rewrites.left_alone([*primals, *results])
            grads = differentiate([*targets, *search.views], sources, tangents, others)
            provenance.mark(None)
            found, connected = by_input(places, grads, reach)
            inputs, leads = sorted(found), rewrites.leads.values()
            rewritten, new_values = rewrites.end()
            recording.fields = {
                **{"differentiable": differentiable, "frees": frees, "connected": connected},
                **{"kept": kept, "functions": functions, "rewritten": rewritten},
                **{"grad_inputs": inputs, "grad_dependence": [*(found[i][1] for i in inputs), *leads]},
                **search.cuts(inputs, places, leads),
            }
            return values + [unwrap(found[i][0]) for i in inputs] + new_values + search.gradients()

    return run


def needs_grad(value):
    return isinstance(value, torch.Tensor) and value.requires_grad


def fake_inputs(gm, inputs, constants, sharing):
    """(examples, fake tensors and symbols, fake mode) of all that the graph takes; sharing: if inputs share memory."""
    examples = [*inputs, *constants.values()]
    values = sharing.values if sharing else [*functionalize.example_values(gm, inputs), *constants.values()]
    fake_mode = functionalize.fake_mode_of(values)
    if sharing is not None:  # the memories take the gradients
        examples = [*(e.detach() if i in sharing.members else e for i, e in enumerate(examples)), *sharing.memories]
        values = [*values, *sharing.fakes(fake_mode)]
    pairs = zip(values, examples, strict=True)
    return (
        examples,
        [functionalize.fakeify(fake_mode, value, needs_grad(example)) for value, example in pairs],
        fake_mode,
    )


def trace(gm, inputs, decompositions=None, sharing=None):
    """Functional ATen graph of `gm`, with its backward where grad mode is on and an input requires grad."""
    captured, gm = gm, attention.rewrite(gm)
    constants = functionalize.lift_constants(gm)
    examples, fakes, fake_mode = fake_inputs(gm, inputs, constants, sharing)
    table = decomposition_table() if decompositions is None else decompositions
    recording, known = Recording(torch.is_inference_mode_enabled()), assertions.symbols(fake_mode.shape_env)
    run = traced_function(gm, examples, list(constants), recording, sharing)
    grad_enabled = torch.is_grad_enabled()
    # Inference mode is left, because its tensors have no views and versions to follow; grad mode stays as it was.
    with fake_mode, enable_python_dispatcher(), torch.inference_mode(False), torch.set_grad_enabled(grad_enabled):
        try:
            with rules_above_autograd(), _use_lazy_graph_module(True):
                traced = make_fx(run, decomposition_table=table)(*fakes)
        except (DataDependentOutputException, GuardOnDataDependentSymNode) as error:
            raise Unsupported("branch on data", f"the graph goes one way or another by a tensor: {error}") from error
        except DynamicOutputShapeException as error:
            raise Unsupported(
                "size read from data", f"the backward makes a tensor of a size from data: {error}"
            ) from error
    placeholders = [n.name for n in gm.graph.nodes if n.op == "placeholder"]
    memories, program = sharing.names() if sharing else [], recording.program
    names = [*placeholders, *(n.replace(".", "_") for n in constants), *memories]
    result_count = len(program.mutations) + len(program.results)
    functional = tidy(traced, list(zip(names, fakes, strict=True)), recording)
    assertions.insert(functional, fake_mode.shape_env, known)
    counts = optimize(functional, result_count, len(recording.fields.get("junctions", ())))
    functional = channels_last.rewrite(functional, fake_mode)
    forward = LazyGraphModule(traced, functional, "joint" if recording.fields.get("grad_inputs") else "forward")
    graph = AOTGraph(
        placeholders,
        constants,
        program.mutations,
        program.outputs,
        forward,
        result_count=result_count,
        result_versions={i: n for i, n in enumerate(program.versions, len(program.mutations)) if n},
        **recording.fields,
        sharing=sorted(sharing.members) if sharing else [],
        memories=memories,
        input_needs_grad=[*map(needs_grad, (*inputs, *constants.values()))],
        input_is_tensor=[isinstance(f, torch.Tensor) for f in fakes],
        numbers={i: v for i, v in enumerate(inputs) if isinstance(v, int | float | bool)},
        grad_enabled=grad_enabled,
        captured=captured,
        fake_mode=fake_mode,
        node_counts={"traced": len(traced.graph.nodes), "optimized": len(functional.nodes)},
        passes=[("attention", len(captured.graph.nodes), len(gm.graph.nodes)), *counts],
    )
    if graph.grad_inputs:
        split(graph)
    elif not grad_enabled and "frozen" in captured.meta and sharing is None:
        freeze.fold(graph, captured.meta["frozen"])
    return graph


def split(graph):
    """The joint graph into forward and backward."""
    graph.joint = graph.forward
    partition(graph)
    junctions.take_totals(graph)
    old = {graph.input_names[m.index] for m in graph.moved.values()}
    if any(s.name in old for s in graph.saved):  # eager reads there what the input has when the backward runs
        raise Unsupported(*OTHER_MEMORY)
    graph.node_counts.update(forward=len(graph.forward.graph.nodes), backward=len(graph.backward.graph.nodes))


def tidy(traced, inputs, recording):
    """Name the placeholders after the user's, put the tangents behind them, mark what is forward and what backward."""
    graph, environment = fx.Graph(), {}
    nodes = list(traced.graph.nodes)
    places = [n for n in nodes if n.op == "placeholder"]
    for node, (name, fake) in zip(places, inputs, strict=False):
        environment[node] = graph.placeholder(name)
        node.meta.setdefault("val", fake)
    for node in places[len(inputs) :]:
        environment[node] = graph.placeholder(node.target)
    for node in nodes:
        if node.op == "output":
            graph.output(fx.map_arg(list(node.args[0]), environment.__getitem__))
        elif node.op != "placeholder":
            environment[node] = graph.node_copy(node, environment.__getitem__)
        if node.op != "output":
            environment[node].meta = {
                **recording.provenance.meta(node),
                "backward": node.name not in recording.forward_names,
            }
            environment[node].meta["stands_for_input"] = node.name in recording.stand_ins
    if recording.fields.get("grad_inputs"):
        result_count = len(recording.program.mutations) + len(recording.program.results)
        recording.fields["unchecked"] = keeping.read_unchecked(graph, recording.fields["kept"], result_count)
    return graph
