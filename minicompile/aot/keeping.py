"""What eager keeps for the backward, and whether somebody wrote to it since.

Goes in: autograd's graph at the time of the trace.  Comes out: a `Kept` for each tensor of the user's that eager's
functions have saved.  They are all that the backward may read of what the user can write to: eager's has values of its
own for the rest.  When the graph runs, a write to one that our backward does not read is found by a `Watch`.
Mirrors nothing in PyTorch, whose compiled regions save what is cheapest.  Taught in chapter 08.
"""

import dataclasses

import torch
from torch import fx
from torch.utils.checkpoint import checkpoint

from ._saved import watch
from .junctions import closure
from .nodes import base_of, is_tensor, is_view
from .outputs import share_version, storage_key, unwrap
from .provenance import gradient_functions, unpacked

top_hooks = torch._C._autograd._top_saved_tensors_default_hooks


@dataclasses.dataclass(frozen=True)
class Kept:
    """place: ("input", i) or ("result", i).  tangents: whose backward reads it.  text: what eager's complaint calls it.

    functions: which of the `Functions` read it.  later: how often the program's own writes are counted after autograd
    saved it.
    """

    place: tuple
    tangents: frozenset
    functions: tuple
    text: str
    later: int = 0


@dataclasses.dataclass(frozen=True)
class Functions:
    """Autograd's graph as eager has it.

    roots: where each tangent begins.  following: for each function those that it leads to.  ends: (function, input).
    """

    roots: tuple = ()
    following: tuple = ()
    ends: tuple = ()

    def running(self, present, wanted):
        """The functions that run for gradients of these inputs where these tangents, by number, have one."""
        before = {}
        for k, following in enumerate(self.following):
            for other in following:
                before.setdefault(other, []).append(k)
        roots = [root for k, root in enumerate(self.roots) if k in present]
        return closure(roots, self.following) & closure([f for f, i in self.ends if i in wanted], before)


# --- at the time of the trace -------------------------------------------------------------------------
class Search:
    """Finds what eager keeps.  leaves: (input, what has its gradient).  counters: whose inputs share memory."""

    def __init__(self, program, primals, targets, leaves, provenance, counters):
        self.program, self.counters, self.found, self.places = program, counters, {}, {}
        self.first = len(program.mutations)
        for i, tensor in [*enumerate(primals), *program.replaced.items()]:
            self.add(("input", i), tensor)
        for k, tensor in enumerate(program.planner.results):
            self.add(("result", self.first + k), tensor)
        reached = {}  # function -> the targets that lead to it
        for number, target in enumerate(targets):
            for function in gradient_functions([target.grad_fn]):
                reached.setdefault(function, set()).add(number)
        functions = sorted(reached, key=lambda f: -f._sequence_nr())  # as the backward runs them
        for number, function in enumerate(functions):
            captured = provenance.sequences.get(function._sequence_nr())
            if captured is not None and captured.target is checkpoint:
                saved = provenance.given.get(captured, ())
            else:
                saved = unpacked(function)
            for tensor in saved:
                self.note(tensor, reached[function], number)
        self.functions = graph_of(functions, targets, leaves) if self.found else Functions()

    def add(self, place, tensor):
        if isinstance(tensor, torch.Tensor):
            self.places.setdefault(storage_key(tensor), []).append((place, tensor))

    def note(self, saved, tangents, function):
        for place, tensor in self.places.get(storage_key(saved), ()):
            if saved is tensor or share_version(saved, tensor):
                kept = self.found.get(place) or Kept(place, frozenset(), (), described(saved), self.later(place))
                tangents, functions = kept.tangents | tangents, (*kept.functions, function)
                self.found[place] = dataclasses.replace(kept, tangents=tangents, functions=functions)
                return

    @property
    def kept(self):
        return [*self.found.values()]

    def later(self, place):
        """Also the writes to others that have the same counter."""
        kind, number = place
        left = [m for m in self.program.mutations if kind == "input" and not m.early and m.how != "memory"]
        counter = self.counters.get(number, number)
        return sum(m.writes for m in left if self.counters.get(m.index, m.index) == counter)


def graph_of(functions, targets, leaves):
    number = {function: k for k, function in enumerate(functions)}
    ends = [(torch.autograd.graph.get_gradient_edge(leaf).node, i) for i, leaf in leaves]
    return Functions(
        tuple(number[target.grad_fn] for target in targets),
        tuple(tuple(sorted({number[f] for f, _ in each.next_functions if f in number})) for each in functions),
        tuple((number[function], i) for function, i in ends if function in number),
    )


def described(tensor):
    function, value = None if tensor._is_view() else tensor.grad_fn, unwrap(tensor)
    sizes = "" if not all(isinstance(n, int) for n in value.shape) else f" {list(value.shape)}"
    text = f"[{value.type()}{sizes}]"
    name = "" if function is None else function.name().partition("Backward")[0]
    known = name.rpartition(":")[2] not in ("", "Error")
    return f"{text}, which is output {tensor.output_nr} of {name}," if known else text


def read_unchecked(graph, kept, result_count):
    """The places, besides those that are kept, that the traced backward reads, or a checkpoint when it runs again."""
    inputs = [n for n in graph.nodes if n.op == "placeholder" and not n.meta["backward"]]
    results = graph.output_node().args[0][:result_count]
    places = {owner(n): ("result", k) for k, n in enumerate(results) if isinstance(n, fx.Node)}
    places |= {n: ("input", i) for i, n in enumerate(inputs)}
    readers = [n for n in graph.nodes if n.op == "call_function" and (n.meta["backward"] or n.meta.get("checkpoint"))]
    again = {n for n in readers if not n.meta["backward"]}
    read = {}
    for reader in readers:
        for node in map(owner, reader.all_input_nodes):
            if node in places and (reader not in again or places[node][0] == "input"):
                read[places[node]] = None
    return [place for place in read if place not in {k.place for k in kept}]


def owner(node):
    """The node whose memory this is; of the copy that stands for an input, the input."""
    node = base_of(node)
    return node.args[0] if node.op == "call_function" and node.meta.get("stands_for_input") else node


# --- in the partition ---------------------------------------------------------------------------------
class Sources:
    """What the backward may read of the inputs and results, by node of the joint graph.

    hidden: those that it may not read, as the program may write to them.  unchecked: what it reads as it is by then.
    once: that and what eager keeps for some results only: it may read them, but not compute anything of the forward
    again from them.
    """

    def __init__(self, graph, primals, results, tangents):
        first, tensors = len(graph.mutations), len(graph.input_names)  # before `first` are values that nobody sees
        kinds = ("input", primals[:tensors], 0), ("result", results[first:], first)
        node_of = {(kind, i): n for kind, nodes, start in kinds for i, n in enumerate(nodes, start)}
        overwritten = {("input", index) for index in graph.overwritten}
        node_of = {p: n for p, n in node_of.items() if p not in overwritten and isinstance(n, fx.Node) and is_tensor(n)}
        kept = {k.place: k.tangents for k in graph.kept}
        known = kept.keys() | set(graph.unchecked)
        self.hidden = {n for place, n in node_of.items() if place not in known}
        self.unchecked = {node_of[place] for place in graph.unchecked if place in node_of}
        self.once = set(self.unchecked)
        if len(tangents) > 1:
            wanted = influence(graph.joint, tangents)
            self.once |= {n for p, n in node_of.items() if p in kept and not wanted[n] <= kept[p]}

    def is_read_once(self, node):
        """Does it compute something from such a tensor?"""
        again = node.op != "call_function" or node.meta.get("checkpoint")
        return not again and not is_view(node) and any(base_of(i) in self.once for i in node.all_input_nodes)


def influence(joint, tangents):
    """node of the forward -> the tangents whose backward reads it, or something that is computed from it."""
    behind, found = {n: frozenset([i]) for i, n in enumerate(tangents)}, {}
    for node in joint.graph.nodes:
        if node not in behind:
            behind[node] = frozenset().union(*(behind[i] for i in node.all_input_nodes))
    for node in reversed(joint.graph.nodes):
        mine = found.setdefault(node, frozenset()) | (behind[node] if node.op != "output" else frozenset())
        for i in node.all_input_nodes if node.op != "output" else ():
            found[i] = found.get(i, frozenset()) | mine
    return found


# --- when the graph runs ------------------------------------------------------------------------------
class Watch:
    """Of the tensors that eager keeps for a node those whose versions autograd does not look at for us."""

    def __init__(self, graph, node, checked):
        self.kept = [k for k in graph.kept if k.tangents & node.tangents and k.place not in checked]
        self.places = [(k.place[0] == "input", k.place[1]) for k in self.kept]
        self.later = tuple(k.later for k in self.kept)

    def begin(self, ctx, inputs, outputs):
        if self.kept:
            kept, hooked = [inputs[i] if is_input else outputs[i] for is_input, i in self.places], top_hooks(False)
            # the program's hooks, as a checkpoint has them: autograd looks nowhere then
            ctx.watch = watch(kept, self.later) if hooked is None else None

    def check(self, ctx, present, read=None):
        """read: the places that matter, if only some gradients are wanted."""
        if self.kept and ctx.watch is not None:
            for k, version, expected in ctx.watch.written():
                kept = self.kept[k]
                if not kept.tangents.isdisjoint(present) and (read is None or kept.place in read):
                    complain(f"{kept.text} is at version {version}; expected version {expected} instead.")


def complain(what):
    """Raise what autograd raises, in its own words, of this tensor."""
    with torch.enable_grad():
        written = torch.zeros((), requires_grad=True).exp()
    written.detach().add_(1)
    try:
        written.grad_fn._saved_result  # noqa: B018
    except RuntimeError as error:
        before, _, rest = str(error).partition("[")
        raise RuntimeError(before + what + rest.partition("instead.")[2]) from None
