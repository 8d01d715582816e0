"""What is in memory when; and how to keep less of it between forward and backward, for more work in the backward.

Goes in: an `AOTGraph`, or what the minimum cut would save of its joint graph.  Comes out: the most bytes that are alive
at one time; or a smaller choice within `config.activation_memory_budget`.
Mirrors `torch/_functorch/_activation_checkpointing/knapsack.py`.  Taught in chapter 08.
"""

import operator

import torch

from .nodes import base_of, brings_symbol, has_effect, hinted, is_random, is_tensor, is_view, needed_for, size_in_bytes

aten = torch.ops.aten
FLOPS_PER_BYTE = 10  # what a processor computes in the time in which it moves one byte
FLOPS = {  # of what reads its inputs more than once, by these inputs
    aten.mm.default: lambda a, b: 2 * a.numel() * b.shape[-1],
    aten.bmm.default: lambda a, b: 2 * a.numel() * b.shape[-1],
    aten.addmm.default: lambda bias, a, b: 2 * a.numel() * b.shape[-1],
    aten.convolution.default: lambda x, w, *rest: 2 * x.numel() * w.numel() // x.shape[1],
    aten._scaled_dot_product_flash_attention_for_cpu.default: lambda q, k, v, *rest: 4 * q.numel() * k.shape[-2],
}


def effort(node):
    """Bytes-equivalent of running the node once, by itself."""
    if is_view(node) or node.target is operator.getitem:
        return 0
    moved = size_in_bytes(node) + sum(size_in_bytes(i) for i in node.all_input_nodes)
    if node.target not in FLOPS:
        return moved
    values = [a.meta["val"] if isinstance(a, torch.fx.Node) else a for a in node.args]
    return moved + hinted(FLOPS[node.target](*values)) / FLOPS_PER_BYTE


def runs_once(node):
    """A random draw would draw again, a size be read from data again; an input that is copied may change."""
    source = node.args[0] if node.target is operator.getitem else node
    copied = node.target is aten.clone.default and base_of(node.args[0]).op == "placeholder"
    return copied or is_random(source) or has_effect(source) or brings_symbol(source)


class Budget:
    """Drops saved values until the rest is within the budget.

    This is a knapsack: each value weighs its bytes, and is worth what it costs to compute it again from the others.
    Values go in the order of worth per byte, the lightest worth first, so that a smaller budget never saves more.
    """

    def __init__(self, read_across, forward, results, mutated):
        """read_across(stop) -> the values that the backward reads if it computes again what is not in `stop`."""
        self.read_across = read_across
        self.inputs = {n for n in forward if n.op == "placeholder"}
        self.free = (self.inputs | set(results)) - mutated  # in memory anyway; of a mutated input a copy is kept
        self.once = {
            n
            for n in forward
            if n.op == "call_function" and not isinstance(n.meta.get("val"), tuple | list) and runs_once(n)
        }

    def extra_bytes(self, stop):
        """What is kept for the backward only."""
        return sum(size_in_bytes(n) for n in self.read_across(stop) if n not in self.free)

    def worth(self, node, saved):
        """Of computing it again, per byte that it takes."""
        between = needed_for([node], (saved - {node}) | self.inputs | self.once)
        return sum(map(effort, between)) / max(size_in_bytes(node), 1)

    def choose(self, saved, budget):
        """The values at which computing again stops: `saved`, less what goes first."""
        limit = budget * self.extra_bytes(saved)
        stop = best = saved | self.once
        smallest = self.extra_bytes(stop)
        loose = [n for n in self.read_across(saved) if n in saved and n not in self.free and n not in self.once]
        for node in sorted(loose, key=lambda n: self.worth(n, saved)):
            if smallest <= limit:
                break
            stop = stop - {node}
            size = self.extra_bytes(stop)
            if size < smallest:
                best, smallest = stop, size
        return best


# --- how much is alive ------------------------------------------------------------------------------
def peak(gm, alive, freed):
    """(most bytes alive at one time, bytes alive at the end) of a graph run operator by operator.

    alive: bytes at the start.  freed: placeholders among them that die after their last use; outputs live on.
    """
    nodes = list(gm.graph.nodes)
    last = {}
    for position, node in enumerate(nodes):
        for read in (node, *node.all_input_nodes):
            last[base_of(read)] = position
    dying = {}
    for node, position in last.items():
        dying.setdefault(position, []).append(node)
    most, born = alive, set(freed)
    for position, node in enumerate(nodes):
        if node.op == "call_function" and is_tensor(node) and not is_view(node):
            alive += size_in_bytes(node)
            born.add(node)
        most = max(most, alive)
        if node.op != "output":
            alive -= sum(size_in_bytes(n) for n in dying.get(position, ()) if n in born)
    return most, alive


def peak_memory(graph):
    """The most bytes that a call and its backward hold at one time, besides the inputs."""
    most, alive = peak(graph.forward, 0, ())
    if graph.backward is None:
        return most
    places = [n for n in graph.backward.graph.nodes if n.op == "placeholder"]
    tangents = places[len(graph.saved) :]
    freed = [n for n, s in zip(places, graph.saved, strict=False) if s.source[0] == "extra"]
    alive += sum(map(size_in_bytes, tangents))
    return max(most, peak(graph.backward, alive, [*freed, *tangents])[0])
