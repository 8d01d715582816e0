"""Split the joint graph into forward and backward, and decide what to save between them.

Goes in: an `AOTGraph` with a joint graph.  Comes out: the same with `forward`, `backward`, `saved`, `recomputed`.
Whatever the backward needs is either saved, which costs its bytes, or computed again from something that is saved.
The cheapest choice is a minimum cut between the inputs and the backward.
Mirrors `torch/_functorch/partitioners.py`.  Taught in chapter 08.
"""

import dataclasses
import operator

import networkx as nx
import torch
from torch import fx

from .. import config
from ..lazy_graph import LazyGraphModule
from .keeping import Sources
from .memory import Budget
from .nodes import base_of, brings_symbol, has_effect, is_random, is_tensor, is_view, needed_for, size_in_bytes

aten = torch.ops.aten
# Prices in memory traffic, per byte of the tensor: 1 to read it from memory, 1 to write it.  Computing it again where
# it is used is CHEAP, or SLOW for exp and its like: a GPU has arithmetic to spare, a CPU has less.
CHEAP, SLOW = 0.05, {"cpu": 0.5}
SLOW_POINTWISE = set(
    "exp exp2 expm1 log log1p log2 sin cos tan tanh erf erfc pow sigmoid gelu silu atan2 lgamma".split()
)
# Neither recomputed nor a reason to have their arguments in memory: they fuse with what computes these.
REDUCTIONS = set("sum mean prod amax amin max min any all argmax argmin var var_mean std logsumexp norm".split())
# Recomputed besides pointwise operators and views: they read what they write, or nothing.
RECOMPUTABLE = set(
    "clone _to_copy full full_like scalar_tensor zeros ones zeros_like ones_like arange constant_pad_nd".split()
)


@dataclasses.dataclass(frozen=True)
class SavedTensor:
    """One value kept from forward to backward, and why it is kept and not computed again.

    source: ("input", i), ("result", i), an output of forward anyway, or ("extra", i), returned for this purpose only.
    """

    name: str
    shape: tuple
    dtype: object
    bytes: int
    why: str
    source: tuple

    @property
    def is_tensor(self):
        return isinstance(self.dtype, torch.dtype)

    def __str__(self):
        size = "x".join(map(str, self.shape)) or "scalar"
        return f"{self.name}: {str(self.dtype).removeprefix('torch.')}[{size}], {self.bytes:,} bytes, {self.why}"


# --- what things cost -------------------------------------------------------------------------------
def recompute_cost(node):
    """Bytes-equivalent of running the node again in the backward; None: never."""
    if node.op != "call_function" or has_effect(node) or brings_symbol(node):
        return None
    if is_view(node) or node.target is operator.getitem or not is_tensor(node):
        return 0 if is_view(node) or not is_multi_output(node) else None
    if node.target is aten.clone.default and base_of(node.args[0]).op == "placeholder":
        return None  # the user's own protection against later writes to that input
    name = operator_name(node)
    if torch.Tag.pointwise in getattr(node.target, "tags", ()) or name in RECOMPUTABLE:
        slow = SLOW.get(node.meta["val"].device.type, 0.1)
        return (slow if name in SLOW_POINTWISE else CHEAP) * size_in_bytes(node)
    return None


def leaves_checkpoint(node):
    """Does anything outside of the checkpointed function that made it read the value, itself or through a view?"""
    forward = [user for user in node.users if not user.meta.get("backward")]
    return any(
        u.meta.get("checkpoint") != node.meta["checkpoint"] or is_view(u) and leaves_checkpoint(u) for u in forward
    )


def checkpoint_cost(node):
    """In a checkpointed function: everything is computed again, but for what it returns, what its policy keeps, and for
    random draws."""
    if node.meta.get("checkpoint") is None or is_view(node):
        return recompute_cost(node)
    drawn = is_random(node.args[0] if node.target is operator.getitem else node)
    kept = node.meta["kept"] or leaves_checkpoint(node)
    return None if drawn or kept or has_effect(node) or brings_symbol(node) else 0


def operator_name(node):
    return node.target._schema.name.split("::")[-1] if isinstance(node.target, torch._ops.OpOverload) else ""


def read_from_memory(node, backward):
    """The matmul or its like on that side that reads this value, itself or through a view, which is in memory then."""
    for user in node.users:
        if is_view(user):
            reader = read_from_memory(user, backward)
        else:
            here = user.op == "call_function" and user.meta["backward"] == backward
            found = here and recompute_cost(user) is None and operator_name(user) not in REDUCTIONS
            reader = user if found else None
        if reader is not None:
            return reader
    return None


def depths(nodes):
    """node -> how many matmuls or their like have to run one after the other before it."""
    found = {}
    for node in nodes:
        below = max((found[i] for i in node.all_input_nodes if i in found), default=0)
        called = node.op == "call_function" and node.target is not operator.getitem and not is_random(node)
        waits = called and recompute_cost(node) is None and operator_name(node) not in REDUCTIONS
        found[node] = below + waits
    return found


def is_multi_output(node):
    return isinstance(node.meta.get("val"), tuple | list)


# --- the cut ----------------------------------------------------------------------------------------
class Cut:
    """The choice for one joint graph.  Inputs cost nothing to keep, so they are not part of the network."""

    def __init__(self, forward, crossing, results, mutated, sources):
        self.results, self.mutated, self.sources = set(results), mutated, sources
        self.free = {n for n in forward if n.op in ("placeholder", "get_attr") and n not in mutated}
        self.crossing = crossing
        self.closure = needed_for(crossing, self.free)
        self.order = [n for n in forward if n in self.closure]
        cost = {n: None if sources.is_read_once(n) else checkpoint_cost(n) for n in self.order}
        self.again = {n for n in self.order if n.meta.get("checkpoint") and cost[n] == 0}
        for node, price in cost.items():  # to be read by a matmul in the backward, it would be written and read there
            if price and read_from_memory(node, backward=True):
                cost[node] += 2 * size_in_bytes(node)
        self.cost, self.depths = cost, depths(forward)
        self.fixed = {n for n, c in cost.items() if c is None or (c > 0 and not config.partition_recompute)}
        for node in self.order:  # what only a fixed node reads has no say
            if node.target is operator.getitem and node.args[0] in self.fixed:
                self.fixed.add(node)

    def save_cost(self, node):
        """None: cannot be saved (a view: save its base; a tuple: save its items)."""
        if is_multi_output(node) or is_view(node) and not brings_symbol(node) or node in self.again:
            return None
        if node in self.results and base_of(node) not in self.sources.hidden:
            return size_in_bytes(node) / 2  # the user holds it anyway
        copied = node in self.mutated or node in self.results
        in_memory = node in self.fixed and not copied or read_from_memory(node, backward=False) or self.outlives(node)
        return size_in_bytes(node) * (1 if in_memory else 2)

    def outlives(self, node):
        """Is it read again after the next matmul, as what a residual block adds to is?  Then it waits in memory."""
        readers = [u for u in node.users if u in self.depths]
        return any(
            self.outlives(u) if is_view(u) else self.depths[u] > self.depths[node] and recompute_cost(u) is not None
            for u in readers
        )

    def network(self):
        """Each node is an edge (in -> out) of its saving cost; source -> in is its recompute cost; out -> users."""
        network, inside = nx.DiGraph(), self.closure
        for node in self.order:
            enter, leave, cost = (node, "in"), (node, "out"), self.save_cost(node)
            if node in self.fixed:
                if cost is not None:
                    network.add_edge("source", leave, capacity=cost)
                elif not is_multi_output(node):
                    network.add_edge("source", leave)
            else:
                network.add_edge("source", enter, capacity=self.cost[node])
                network.add_edge(enter, leave, **({} if cost is None else {"capacity": cost}))
            for user in node.users:
                if user in inside and user not in self.fixed:
                    network.add_edge(leave, (user, "in"))
            if node in self.crossing:
                network.add_edge(leave, "sink")
        return network

    def saved(self):
        """The nodes to save, in order."""
        network, chosen = self.network(), set()
        inner = network.subgraph(n for n in network if n not in ("source", "sink"))
        for part in nx.weakly_connected_components(inner):
            piece = network.subgraph({*part, "source", "sink"})
            if "source" not in piece or "sink" not in piece:
                continue
            kept, _ = nx.minimum_cut(piece, "source", "sink", flow_func=nx.algorithms.flow.shortest_augmenting_path)[1]
            for node in {n for n, _ in part}:
                enters = node in self.fixed or (node, "in") in kept
                if enters and (node, "out") in part and (node, "out") not in kept:
                    chosen.add(node)
        return chosen


# --- building the two graphs ------------------------------------------------------------------------
def late(joint, compute, inputs, outputs):
    """The nodes of `compute` in order, where what is recomputed comes right before its reader: it dies soon."""
    position, placed, there = {n: i for i, n in enumerate(joint.graph.nodes)}, [], set(inputs)
    for node in sorted(compute, key=position.__getitem__):
        if node.meta["backward"] or node in outputs:
            needed = sorted(needed_for([node], there), key=position.__getitem__)
            placed.extend(needed)
            there.update(needed)
    return placed


def extract(joint, inputs, compute, outputs, name):
    """A GraphModule with `inputs` as placeholders, the nodes of `compute`, which are in order, and `outputs`."""
    graph, environment = fx.Graph(), {}
    for node in inputs:
        environment[node] = graph.placeholder(node.name)
        environment[node].meta = dict(node.meta)
    for node in compute:
        if node not in environment:
            environment[node] = graph.node_copy(node, environment.__getitem__)
    graph.output([environment[n] if isinstance(n, fx.Node) else n for n in outputs])
    gm = LazyGraphModule(joint, graph, name)
    gm.meta["minicompile"] = name  # not to be captured
    return gm


def keep_old_values(gm, result_count):
    """An input or a result that may be written after the forward and is read by the backward is copied in between."""
    output = gm.graph.output_node()
    values = list(output.args[0])
    written = {v for v in values[result_count:] if v.op == "placeholder" or v in values[:result_count]}
    if not written:
        return
    for position in range(result_count, len(values)):
        if values[position] in written:
            with gm.graph.inserting_before(output):
                copy = gm.graph.call_function(aten.clone.default, (values[position],))
            copy.meta = dict(values[position].meta)
            values[position] = copy
    output.args = (values,)
    gm.recompile()


def effects(joint, backward):
    """Nodes of one side that must run although nobody reads them."""
    nodes = (n for n in joint.graph.nodes if n.op == "call_function" and n.meta["backward"] == backward)
    return {n for n in nodes if has_effect(n)}


def describe(node, primals, results, mutated):
    """Where a saved value comes from, and the reason in words."""
    if node in mutated:
        return "extra", "an input's old value, which the graph overwrites"
    if node in primals:
        return "input", "is an input anyway"
    if node in results:
        return "result", "is an output anyway"
    source = node.args[0] if node.target is operator.getitem else node
    if is_random(source):
        return "extra", f"{source.target} may draw random numbers"
    if node.meta.get("checkpoint"):
        why = (
            "is kept by the policy of its checkpoint"
            if node.meta["kept"]
            else "is what a checkpointed function returns"
        )
        return "extra", why
    if source is not node or recompute_cost(node) is None:
        return "extra", f"{source.target} is not worth running twice"
    reader = read_from_memory(node, backward=True) or read_from_memory(node, backward=False)
    return "extra", "costs less than to make it again" if reader is None else f"{reader.target} reads it from memory"


def in_forward(nodes, once):
    """What can run in the forward: also what autograd did in the backward, if that waits for no gradient.

    It may be smaller than what it is made of, such as `x <= 0`: one byte an element.  It comes right behind that.
    once: inputs and results that the backward reads as they are by then.
    """
    place = {}
    for node in nodes:
        inputs = node.all_input_nodes
        sizes = [size_in_bytes(i) if i in place and config.partition_recompute else 0 for i in inputs]
        if node.op != "output" and not node.meta["backward"]:
            place[node] = (len(place), 0)
        elif not all(sizes) or size_in_bytes(node) > max(sizes, default=-1):
            continue
        elif once.isdisjoint(map(base_of, inputs)) and recompute_cost(node) is not None:
            place[node] = (max(place[i] for i in inputs)[0], len(place))
    return sorted(place, key=place.get)


class Split:
    """The joint graph of an `AOTGraph`, and what follows from where computing again stops."""

    def __init__(self, graph):
        self.joint, nodes = graph.joint, list(graph.joint.graph.nodes)
        outputs = list(nodes[-1].args[0])
        self.results, self.grads = outputs[: graph.result_count], outputs[graph.result_count :]
        places = [n for n in nodes if n.op == "placeholder"]
        self.primals, self.tangents = [[n for n in places if n.meta["backward"] == side] for side in (False, True)]
        self.sources = Sources(graph, self.primals, self.results, self.tangents)
        self.forward = in_forward(nodes, self.sources.unchecked)
        self.places = {n for n in self.forward if n.op == "placeholder"}
        self.mutated = {self.primals[index] for index in graph.overwritten} | self.sources.hidden

    def needed_in_backward(self, stop):
        return needed_for([*self.grads, *effects(self.joint, backward=True)], stop)

    def cut(self):
        """The cheapest values to save."""
        inside = set(self.forward)
        crossing = {i for n in self.needed_in_backward(inside) for i in n.all_input_nodes if i in inside}
        crossing |= {g for g in self.grads if g in inside}
        return Cut(self.forward, crossing, self.results, self.mutated, self.sources)

    def saved(self, stop):
        """What the backward reads from the forward if it computes again what is not in `stop`."""
        read = {i for n in self.needed_in_backward(stop | self.places) for i in n.all_input_nodes} | set(self.grads)
        saved = [n for n in self.forward if n in read and (n in stop or n in self.places)]
        return [n for n in saved if is_tensor(n)] + [n for n in saved if not is_tensor(n)]

    def describe(self, node):
        if node in self.sources.hidden:
            return "extra", "eager does not keep it, so that the program may write to it"
        return describe(node, self.primals, self.results, self.mutated)

    def forward_order(self, extra):
        compute = needed_for([*self.results, *extra, *effects(self.joint, backward=False)], set())
        return [n for n in self.forward if n in compute]

    def backward_order(self, saved):
        inputs = [*saved, *self.tangents]
        return late(self.joint, self.needed_in_backward(set(inputs)), inputs, self.grads)


def partition(graph):
    """Fill in the split of `graph.joint`."""
    split = Split(graph)
    stop = split.cut().saved()
    if config.activation_memory_budget < 1:
        stop = Budget(split, stop).choose(config.activation_memory_budget)
    saved = split.saved(stop)
    build(graph, split, saved)


def build(graph, split, saved):
    """Make `forward` and `backward` around what is saved."""
    joint, extra = split.joint, []
    position = {"input": split.primals.index, "result": split.results.index, "extra": extra.index}
    for node in saved:
        source, why = split.describe(node)
        if source == "extra":
            extra.append(node)
        value = node.meta["val"]
        shape, dtype = (tuple(value.shape), value.dtype) if is_tensor(node) else ((), type(value).__name__)
        entry = SavedTensor(node.name, shape, dtype, size_in_bytes(node), why, (source, position[source](node)))
        graph.saved.append(entry)
    in_order = split.forward_order(extra)
    graph.forward = extract(joint, split.primals, in_order, [*split.results, *extra], "forward")
    keep_old_values(graph.forward, len(split.results))
    in_order = split.backward_order(saved)
    again = {n for n in in_order if not n.meta["backward"]}
    graph.recomputed = [n.name for n in joint.graph.nodes if n in again]
    graph.backward = extract(joint, [*saved, *split.tangents], in_order, split.grads, "backward")
