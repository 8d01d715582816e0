"""Results that are computed from other results, where autograd can be asked for a gradient half way.

Goes in: autograd's graph at the time of the trace.  Comes out: a `Junction` for each tensor of the user's that other
results are computed from, and what eager frees by a backward that ends there.  `a.retain_grad()`, a hook on `a` and
`torch.autograd.grad(b, a)` want the gradient that arrives at the junction `a`; it is inside the backward graph, which
computes it together with all others.  Where somebody looks, that graph is cut at the junctions: `cut`.
Mirrors nothing in PyTorch, where the results of a compiled region know nothing of each other.  Taught in chapter 08.
"""

import dataclasses

import torch
from torch import fx

from ..errors import Unsupported
from .outputs import unwrap, views_of
from .provenance import saves

aten = torch.ops.aten
HOOKED = (
    "hook on a result that others need",
    "the graph puts a hook on a tensor that it returns, and computes other results from it",
    "put the hook on `tensor.clone()`, or outside of the compiled region",
)


@dataclasses.dataclass(frozen=True)
class Junction:
    """place: the tensor when the graph runs: ("result", i), ("input", i), which was written, or ("output", i), a view.

    tangent: the number of the tangent that is its own gradient; None: a view, whose gradient goes on to its base.
    leads: the tangents from which autograd gets here without passing another junction.  behind: the junctions, by
    number, that follow.  total: the node of the backward graph that is the gradient which arrives here.
    """

    place: tuple
    tangent: object
    leads: frozenset
    behind: frozenset
    total: str = None


@dataclasses.dataclass(frozen=True, eq=False)
class Candidate:
    """A tensor that the user gets.  base: if it is a view, of which result."""

    tensor: torch.Tensor
    place: tuple
    tangent: object = None
    base: object = None

    @property
    def is_view(self):
        return self.tangent is None


def edge_of(tensor):
    edge = torch.autograd.graph.get_gradient_edge(tensor)
    return edge.node, edge.output_nr


def walk(root, stops):
    """(the functions of autograd that are reached without going past a stop, the stops)"""
    seen, hit, todo = set(), set(), [root]
    while todo:
        function = todo.pop()
        if function not in seen:
            seen.add(function)
            for edge in function.next_functions:
                if edge in stops:
                    hit.add(edge)
                elif edge[0] is not None:
                    todo.append(edge[0])
    return seen, hit


class Search:
    """Finds the junctions of a traced program.  shared: inputs share memory, and are no junctions then."""

    def __init__(self, program, primals, differentiable, targets, shared):
        self.program, self.primals, self.first = program, primals, len(program.mutations)
        self.tangents = {position: number for number, position in enumerate(differentiable)}
        self.written = {m.index: k for k, m in enumerate(program.mutations) if m.how == "copy_" and not shared}
        self.targets, self.inputs_share, self.totals = targets, shared, {}
        self.edges, self.found, self.paths = [], [], []
        self.stops = self.candidates()
        if len(self.stops) > 1:
            self.nearest = {edge: self.onward(edge, c) for edge, c in self.stops.items() if c.is_view}
            self.follow_views()
            used = closure(set().union(*(hit for _, hit in self.walk_all())), self.nearest)
            if used:
                bases = [self.base(self.stops[edge].base) for edge in used if self.stops[edge].base is not None]
                self.stops = {edge: self.stops[edge] for edge in used} | {edge_of(c.tensor): c for c in bases}
                self.finish()

    def walk_all(self):
        """For each target what is between it and the next stops."""
        stops = [{e for e, c in self.stops.items() if c.tangent != n} for n in range(len(self.targets))]
        return [walk(edge_of(target)[0], others) for target, others in zip(self.targets, stops, strict=True)]

    def onward(self, edge, view):
        """The stops that follow a view."""
        base = set() if view.base is None else {edge_of(self.base(view.base).tensor)}
        return walk(edge[0], self.stops.keys() | base)[1] & self.stops.keys()

    def follow_views(self):
        """A view of another output is made from that, so that autograd knows the one as a part of the other."""
        for edge, view in self.stops.items():
            for following in self.nearest.get(edge, ()):
                other = self.stops[following]
                chain, start = ([v.as_tuple() for v in views_of(c.tensor.elem)] for c in (view, other))
                (_, k), (_, through) = view.place, other.place
                spec = self.program.outputs[k]
                if other.is_view and (spec.geometry is not None or chain[: len(start)] == start):
                    views = None if spec.geometry is not None else views_of(view.tensor.elem)[len(start) :]
                    self.program.outputs[k] = dataclasses.replace(spec, views=views, through=through)

    def candidates(self):
        """edge -> what the user could look at there."""
        found = {}
        for index, position in self.written.items():
            if position in self.tangents:
                found[edge_of(self.primals[index])] = self.base(position)
        for k, (spec, tensor) in enumerate(zip(self.program.outputs, self.program.planner.outputs, strict=True)):
            if not isinstance(tensor, torch.Tensor) or not tensor.requires_grad or tensor.is_leaf:
                continue
            position, viewed = self.first + spec.index, spec.views is not None or spec.geometry is not None
            if spec.kind == "graph" and not viewed and position in self.tangents:
                found.setdefault(edge_of(tensor), self.base(position))
            elif viewed and not (spec.kind == "input" and self.inputs_share):
                base = position if spec.kind == "graph" else self.written.get(spec.index)
                found.setdefault(edge_of(tensor), Candidate(tensor, ("output", k), base=base))
        return found

    def base(self, position):
        """A result, or the input that gets it."""
        if position < self.first:
            index = self.program.mutations[position].index
            return Candidate(self.primals[index], ("input", index), self.tangents.get(position))
        tensor = self.program.planner.results[position - self.first]  # before it was laid out
        return Candidate(tensor, ("result", position), self.tangents.get(position))

    def finish(self):
        if any(c.tensor._backward_hooks for c in self.stops.values()):
            raise Unsupported(*HOOKED)
        self.edges, self.found = list(self.stops), list(self.stops.values())
        self.paths = self.walk_all()
        number = {edge: k for k, edge in enumerate(self.edges)}
        self.next = [{number[e] for e in hit} for _, hit in self.paths]  # the junctions after each target
        onward = [  # and after each junction
            {number[e] for e in self.onward(edge, c)} if c.is_view else self.next[c.tangent]
            for edge, c in self.stops.items()
        ]
        self.behind = [closure(each, onward) for each in onward]
        self.frees = self.shared()  # before a backward frees it
        for k, c in enumerate(self.found):
            c.tensor.register_hook(lambda gradient, k=k: self.totals.__setitem__(k, gradient))

    @property
    def views(self):
        """Those that are views of inputs: the gradient that arrives there needs a place in the graph."""
        return [c.tensor for c in self.found if c.tangent is None and c.base is None]

    def cuts(self, grad_inputs, places, rewrites):
        """What an `AOTGraph` knows of the junctions.

        grad_inputs: its own.  places: (input, leaf).  rewrites: as `Rewrites.leads` has them.
        """
        if not self.found:
            return {}
        reach, made = {}, self.junctions()
        for (index, _), leads in zip(places, self.reach([leaf for _, leaf in places]), strict=True):
            reach[index] = leads | reach.get(index, frozenset())
        dependence = [*(reach[i] for i in grad_inputs), *rewrites, *(j.leads for j in made)]
        return {"junctions": made, "cut_dependence": dependence, "cut_frees": self.frees}

    def junctions(self):
        tangent, made = len(self.targets), []
        for k, c in enumerate(self.found):
            number = c.tangent
            if number is None and c.base is None:
                number, tangent = tangent, tangent + 1
            leads = frozenset(n for n, following in enumerate(self.next) if k in following)
            made.append(Junction(c.place, number, leads, frozenset(self.behind[k])))
        return made

    def gradients(self):
        """What arrives at each."""
        return [unwrap(self.totals.get(k)) for k in range(len(self.found))]

    def shared(self):
        """For each target those whose backward cannot run after one from it to the next junctions."""
        held = [{f for f in functions if saves(f)} for functions, _ in self.paths]
        tangents = [c.tangent for c in self.found]
        runs = [{n} | {tangents[k] for j in each for k in {j} | self.behind[j]} for n, each in enumerate(self.next)]
        shares = [{k for k, others in enumerate(held) if mine & others} for mine in held]
        return [frozenset(k for k, parts in enumerate(runs) if parts & shared) for shared in shares]

    def reach(self, leaves):
        """For each leaf the targets that lead to it past no junction."""
        ends = [edge_of(leaf)[0] for leaf in leaves]
        return [frozenset(n for n, (functions, _) in enumerate(self.paths) if end in functions) for end in ends]


def closure(start, following):
    """What is reached.  following: a list, or a dict in which what leads nowhere may be missing."""
    found, todo = set(), list(start)
    while todo:
        k = todo.pop()
        if k not in found:
            found.add(k)
            todo.extend(following.get(k, ()) if isinstance(following, dict) else following[k])
    return found


def take_totals(graph):
    """Let the last outputs of the backward graph, which are what arrives at the junctions, be known by name only."""
    output = graph.backward.graph.output_node()
    values = list(output.args[0])
    first = len(values) - len(graph.junctions)
    names = [v.name if isinstance(v, fx.Node) else None for v in values[first:]]
    graph.junctions = [dataclasses.replace(j, total=name) for j, name in zip(graph.junctions, names, strict=True)]
    output.args = (values[:first],)
    graph.backward.recompile()


def cut(graph):
    """The backward graph, where what is behind a junction reads the gradient of that; last it gives what arrives."""
    whole, new, made, read = graph.backward, fx.Graph(), {}, {}
    place = [n for n in whole.graph.nodes if n.op == "placeholder"][len(graph.saved) :]
    own = {j.total: place[j.tangent] for j in graph.junctions if j.tangent is not None}
    for node in whole.graph.nodes:
        if node.op == "output":
            totals = [made.get(j.total) for j in graph.junctions]
            grads = [made[v.name] if isinstance(v, fx.Node) else v for v in node.args[0]]
            new.output([*(read.get(g, g) for g in grads), *totals])
            continue
        copied = made[node.name] = new.node_copy(node, lambda n: read.get(made[n.name], made[n.name]))
        if node.name in own:
            read[copied] = like(new, made[own[node.name].name], copied)
    gm = fx.GraphModule(whole, new, "backward")
    gm.meta.update(whole.meta)
    return gm


def like(graph, node, other):
    """The node with the strides of the other, as those expect who read that."""
    value, wanted = node.meta["val"], other.meta["val"]
    if value.stride() == wanted.stride():
        return node
    options = {"dtype": wanted.dtype, "device": wanted.device}
    empty = graph.call_function(aten.empty_strided.default, (list(wanted.shape), list(wanted.stride())), options)
    made = graph.call_function(aten.copy.default, (empty, node))
    empty.meta = made.meta = {**other.meta, "val": wanted}
    return made


# --- when the graph runs ----------------------------------------------------------------------------
class Cut:
    """A backward that runs in pieces.  ran: the results whose piece did.  tensors: what was saved, by number."""

    def __init__(self):
        self.ran, self.tensors = set(), {}


def cut_now(ctx, store):
    """That of the backward which is running.  At its end it is freed as a whole, for its pieces share saved tensors."""
    task, keep = torch._C._current_graph_task_id(), torch._C._autograd._get_current_graph_task_keep_graph()
    if task not in ctx.cuts:
        ctx.cuts[task] = Cut()

        def finish():
            ran = ctx.cuts.pop(task).ran
            if not keep:
                store.free_cut(ctx, ran)

        torch.autograd.Variable._execution_engine.queue_callback(finish)
    return ctx.cuts[task]


def pieces(graph, ctx, present):
    """[(which piece of the backward graph, the tangents that it takes)], in the node of the region."""
    cut = ctx.cuts.get(torch._C._current_graph_task_id()) if graph.junctions else None
    if cut is None:
        return [("whole", present)]
    whole = frozenset(i for i in present - cut.ran if any(i in j.leads for j in graph.junctions))
    return [("cut", present - whole), *([("whole", whole)] if whole else [])]


def gradients(graph):
    """The function that a link calls when somebody looks at the gradients before it."""
    first = len(graph.cut_dependence) - len(graph.junctions)

    def of_junctions(ctx, number, gradient):
        found = dict(ctx.run(ctx, {number: gradient}, "ahead"))
        return tuple(found.get(first + k) for k, j in enumerate(graph.junctions) if number in j.leads)

    return of_junctions
