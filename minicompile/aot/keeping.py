"""What eager keeps for the backward, and whether somebody wrote to it since.

Goes in: autograd's graph at the time of the trace.  Comes out: a `Kept` for each tensor of the user's that eager's
functions have saved.  They are all that the backward may read of what the user can write to: eager's has values of its
own for the rest.  When the graph runs, a write to one that our backward does not read is found by a `Watch`.
Mirrors nothing in PyTorch, whose compiled regions save what is cheapest.  Taught in chapter 08.
"""

import dataclasses
import functools

import torch
from torch import fx
from torch.utils.checkpoint import checkpoint

from .nodes import base_of, is_tensor, is_view
from .outputs import share_version, storage_key, unwrap
from .provenance import gradient_functions, unpacked

top_hooks = torch._C._autograd._top_saved_tensors_default_hooks
INFERENCE = (
    "Inference tensors cannot be saved for backward. Please do not use Tensors created in inference mode in "
    "computation tracked by autograd. To work around this, you can make a clone to get a normal tensor and use it in "
    "autograd, or use `torch.no_grad()` instead of `torch.inference_mode()`."
)


@dataclasses.dataclass(frozen=True)
class Kept:
    """place: ("input", i) or ("result", i).  tangents: whose backward reads it.  text: what eager's complaint calls it.

    later: how often the program's own writes are counted after autograd saved it.
    """

    place: tuple
    tangents: frozenset
    text: str
    later: int = 0


# --- at the time of the trace -------------------------------------------------------------------------
class Search:
    """Finds what eager keeps.  aliases: what is known of inputs that share memory."""

    def __init__(self, program, primals, targets, provenance, aliases):
        self.program, self.found, self.places = program, {}, {}
        self.first = len(program.mutations)
        tensors = [*enumerate(primals), *program.replaced.items()]
        for i, tensor in tensors:
            if i not in aliases.owners:  # of those that share memory the graph gets aliases
                self.add(("input", i), tensor)
        for k, tensor in enumerate(program.planner.results):
            self.add(("result", self.first + k), tensor)
        reached = {}  # function -> the targets that lead to it
        for number, target in enumerate(targets):
            for function in gradient_functions([target.grad_fn]):
                reached.setdefault(function, set()).add(number)
        for function in sorted(reached, key=lambda f: -f._sequence_nr()):  # as the backward runs them
            captured = provenance.sequences.get(function._sequence_nr())
            if captured is not None and captured.target is checkpoint:
                saved = provenance.given.get(captured, ())
            else:
                saved = unpacked(function)
            for tensor in saved:
                self.note(tensor, reached[function])

    def add(self, place, tensor):
        if isinstance(tensor, torch.Tensor):
            self.places.setdefault(storage_key(tensor), []).append((place, tensor))

    def note(self, saved, tangents):
        for place, tensor in self.places.get(storage_key(saved), ()):
            if saved is tensor or share_version(saved, tensor):
                text, before = self.found.get(place, (described(saved), frozenset()))
                self.found[place] = text, before | tangents
                return

    @property
    def kept(self):
        return [Kept(place, tangents, text, self.later(place)) for place, (text, tangents) in self.found.items()]

    def later(self, place):
        kind, number = place
        left = [m for m in self.program.mutations if kind == "input" and not m.early and m.how != "memory"]
        return sum(m.writes for m in left if m.index == number)


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
@functools.cache
def nothing():
    return torch.empty(0)


def counter_of(tensor):
    """A tensor that counts the same writes and holds no memory; autograd's graph holds a leaf anyway."""
    if tensor.is_inference():
        raise RuntimeError(INFERENCE)
    if tensor.requires_grad and tensor.is_leaf:
        return tensor
    counter = tensor.detach()
    counter.data = nothing()
    return counter


class Watch:
    """Of the tensors that eager keeps for a node those whose versions autograd does not look at for us."""

    def __init__(self, graph, node, checked):
        self.kept = [k for k in graph.kept if k.tangents & node.tangents and k.place not in checked]
        self.places = [(k.place[0] == "input", k.place[1], k.later) for k in self.kept]

    def begin(self, ctx, inputs, outputs):
        if not self.kept:
            return
        if top_hooks(False) is not None:  # the program's, as a checkpoint has them: autograd looks nowhere then
            ctx.counters = ctx.versions = []
            return
        ctx.counters = [counter_of(inputs[i] if is_input else outputs[i]) for is_input, i, _ in self.places]
        ctx.versions = [c._version + later for c, (_, _, later) in zip(ctx.counters, self.places, strict=True)]

    def check(self, ctx, present):
        now = [counter._version for counter in ctx.counters] if self.kept else []
        if not self.kept or now == ctx.versions:
            return
        for kept, version, expected in zip(self.kept, now, ctx.versions, strict=True):
            if version != expected and not kept.tangents.isdisjoint(present):
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
