"""Backward of some results only: what eager frees by it and what it leaves, and the graph that computes no more.

Goes in: autograd's graph at the time of the trace, and the backward graph.  Comes out: which results lose their own
backward by that of others, because they share an operator that saved tensors; and, where some results have no gradient,
the part of the backward graph that the others need.  To feed it zeros would be slower, and wrong where it multiplies
by inf.  Mirrors nothing in PyTorch, where a compiled region has one backward.  Taught in chapter 08.
"""

import dataclasses

import torch
from torch import fx

from ..errors import Unsupported
from ..lazy_graph import LazyGraphModule
from .assertions import Places
from .junctions import cut
from .nodes import has_effect, needed_for
from .provenance import gradient_functions, saves

aten = torch.ops.aten


# --- what eager does --------------------------------------------------------------------------------
def shared_by(targets, leaves):
    """(for each target those whose backward cannot run after its own, for each leaf the targets that lead to it,
    autograd's clock when the last tensor was saved)."""
    ends = {torch.autograd.graph.get_gradient_edge(leaf).node: k for k, leaf in enumerate(leaves)}
    reach, held, known = [set() for _ in leaves], [], {}  # held: for each target the functions that hold tensors
    for number, target in enumerate(targets):
        held.append(set())
        for function in gradient_functions([target.grad_fn]):
            if function not in known:
                known[function] = saves(function)
            if known[function]:
                held[-1].add(function)
            if function in ends:
                reach[ends[function]].add(number)
    frees = [{k for k, others in enumerate(held) if mine & others} for mine in held]
    last = max((function._sequence_nr() for function, holds in known.items() if holds), default=-1)
    return [frozenset(f) for f in frees], [frozenset(r) for r in reach], last


# --- what the graph reads ---------------------------------------------------------------------------
def dependence(gm, tangents):
    """node -> the tangents, by number, that it depends on."""
    found = {node: frozenset([i]) for i, node in enumerate(tangents)}
    for node in gm.graph.nodes:
        if node not in found:
            found[node] = frozenset().union(*(found[i] for i in node.all_input_nodes))
    return found


def tangents_of(graph, places):
    """Those among the inputs of the backward, which are: saved values, tangents, inputs that it writes."""
    return places[len(graph.saved) : len(graph.saved) + graph.tangent_count]


def readers(graph):
    """For each saved value the tangents with which the backward reads it."""
    gm, everything = graph.backward, frozenset(range(len(graph.differentiable)))
    places = [n for n in gm.graph.nodes if n.op == "placeholder"]
    behind, read = dependence(gm, tangents_of(graph, places)), {}
    for node in reversed(gm.graph.nodes):
        with_tangents = behind[node] or read.get(node, everything)
        if node.op == "output":
            wanted = zip(node.args[0], graph.grad_dependence, strict=True)
            pairs = [(g, behind[g] or leads) for g, leads in wanted if isinstance(g, fx.Node)]
        else:
            pairs = [(i, with_tangents) for i in node.all_input_nodes]
        for i, tangents in pairs:
            read[i] = read.get(i, frozenset()) | tangents
    return [read.get(n, everything) for n in places[: len(graph.saved)]]


def note_backward(graph):
    """What autograd has to know of the backward graph: who reads what, and the layouts that it was traced for."""
    graph.saved_readers = readers(graph)
    places = [n.meta["val"] for n in graph.backward.graph.nodes if n.op == "placeholder"]
    tangents = tangents_of(graph, places)
    if all(isinstance(n, int) for t in tangents for n in (*t.shape, *t.stride())):  # else each call has its own
        graph.tangent_layouts = [(t.shape, t.stride(), t.dtype, t.device) for t in tangents]


# --- the part of the graph --------------------------------------------------------------------------
@dataclasses.dataclass(frozen=True)
class Part:
    """A backward for some of the results.

    reads: the positions of its inputs among those of the whole backward.  grads: (position among the whole's gradients,
    position among the outputs of `gm`).
    """

    gm: fx.GraphModule
    reads: list
    grads: list


def part(graph, absent, piece="whole", asked=None):
    """What is left of the backward graph where the results that have no gradient are these, by number.

    asked: the inputs whose gradients are wanted, if not all are.
    piece: "whole"; or of the graph cut at the junctions what goes to the inputs ("cut") or to junctions ("ahead").
    """
    if piece == "whole" and not absent and asked is None:
        return Part(graph.backward, [*range(place_count(graph))], [(k, k) for k in range(len(graph.grad_dependence))])
    whole, leads = (graph.backward, graph.grad_dependence) if piece == "whole" else (cut(graph), graph.cut_dependence)
    first = len(leads) - len(graph.junctions) if piece != "whole" else len(leads)
    wanted = range(first, len(leads)) if piece == "ahead" else range(first)
    unasked = {k for k, i in enumerate(graph.grad_inputs) if asked is not None and i not in asked}
    wanted = [k for k in wanted if not leads[k] <= absent and k not in unasked]
    try:
        return Builder(graph, whole, wanted, absent, piece != "ahead").part
    except Unsupported:  # zeros stand for the missing gradients
        return Part(whole, [*range(place_count(graph))], [(k, k) for k in wanted])


def place_count(graph):
    return len(graph.saved) + graph.tangent_count + len(graph.rewritten)


class Builder:
    """wanted: outputs, by number.  with_effects: also what must run although nobody reads it."""

    def __init__(self, graph, whole, wanted, absent, with_effects):
        self.graph, self.environment = fx.Graph(), {}
        places = [n for n in whole.graph.nodes if n.op == "placeholder"]
        behind = dependence(whole, tangents_of(graph, places))
        # What depends on tangents is linear in them: zero if all of them are.
        self.zero = {n for n, tangents in behind.items() if tangents and tangents <= absent}
        outputs = whole.graph.output_node().args[0]
        wanted = [(k, outputs[k]) for k in wanted if outputs[k] is not None and outputs[k] not in self.zero]
        effects = [n for n in whole.graph.nodes if with_effects and n.op == "call_function" and has_effect(n)]
        alive = needed_for([*(g for _, g in wanted), *effects], self.zero)
        for node in whole.graph.nodes:
            if node in alive:
                self.environment[node] = self.copied(node)
        self.graph.output([self.environment[g] for _, g in wanted])
        gm = LazyGraphModule(whole, self.graph, "backward")
        gm.meta.update(whole.meta)
        reads = [k for k, n in enumerate(places) if n in alive]
        self.part = Part(gm, reads, [(k, position) for position, (k, _) in enumerate(wanted)])

    def copied(self, node):
        zeros = [n for n in node.all_input_nodes if n in self.zero]
        if zeros and node.target is aten.add.Tensor and not node.kwargs:
            (other,) = [n for n in node.args if n not in self.zero]
            value, kept = node.meta["val"], other.meta["val"]
            if value.shape == kept.shape and value.dtype == kept.dtype:
                return self.environment[other]
        for n in zeros:
            if n not in self.environment:
                self.environment[n] = self.zeros(n)
        return self.graph.node_copy(node, self.environment.__getitem__)

    def zeros(self, node):
        value = node.meta["val"]
        options = {"dtype": value.dtype, "device": value.device}
        made = self.graph.call_function(aten.full.default, ([*map(self.size, value.shape)], 0), options)
        with value.fake_mode:
            made.meta = {**node.meta, "val": torch.full(value.shape, 0, **options)}
        return made

    def size(self, number):
        """A size as an argument: one that is symbolic where an input tells it."""
        if isinstance(number, int):
            return number
        place = Places(self.graph).of.get(number.node._expr)
        if place is None:
            raise Unsupported("size of a missing gradient", f"no input of the backward tells {number}")
        node, operator, *arguments = place
        if operator is None:
            return node
        made = self.graph.call_function(operator, (node, *arguments))
        made.meta = {"val": number, "backward": True}
        return made
