"""What is in memory when; and how to keep less of it between forward and backward, for more work in the backward.

Goes in: an `AOTGraph`, or what the minimum cut would save of its joint graph.  Comes out: the most bytes that are alive
at one time; or a smaller choice within `config.activation_memory_budget`.
Mirrors `torch/_functorch/_activation_checkpointing/knapsack.py`.  Taught in chapter 08.
"""

import dataclasses
import itertools
import math
import operator

import torch

from .nodes import base_of, brings_symbol, has_effect, hinted, is_random, is_tensor, is_view, needed_for, size_in_bytes

aten = torch.ops.aten
FLOPS_PER_BYTE = 10  # what a processor computes in the time in which it moves one byte
STEPS = 12  # in which the minimum cut is taken apart
ENDLESS = 2**60
STRETCHES = (2, 3, 4, 6, 8, 12, 16, 24, 32)  # into which the forward is cut
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


@dataclasses.dataclass(frozen=True)
class Choice:
    """stop: the values at which computing again stops.  work: what is done twice.

    kept: bytes between forward and backward, while other graphs run.  peak: bytes at one time while this one runs.
    """

    stop: frozenset
    kept: int
    peak: int
    work: float

    @property
    def memory(self):
        return self.kept + self.peak


class Budget:
    """Chooses what is saved, so that the memory of a step falls with the budget, for as little work as possible.

    Two kinds of choices: to drop values that the minimum cut saves, those first that are cheap to make again for their
    bytes; and, as the more is dropped the longer are the chains that have to be alive at once, to save what is alive
    between two stretches of the forward, where that is little, and to compute all else in a stretch again.
    """

    def __init__(self, split, saved):
        """split: a `partitioner.Split`; saved: what its minimum cut saves."""
        self.split, self.saved = split, saved
        self.free = ({*split.primals} | {*split.results}) - split.mutated  # in memory anyway
        self.once = {n for n in split.forward if n.op == "call_function" and is_tensor(n) and runs_once(n)}
        self.computed = [n for n in split.forward if n.op == "call_function"]

    def choose(self, budget):
        """budget: 1 is the memory of the minimum cut, 0 the least of all choices."""
        useful = self.useful([self.measure(stop) for stop in (self.saved, *self.less(), *self.checkpoints())])
        limit = useful[-1].memory + budget * (useful[0].memory - useful[-1].memory)
        return next(choice for choice in useful if choice.memory <= limit).stop

    @staticmethod
    def useful(choices):
        """The first choice, and those with more and more work for less memory: less is kept, and the peak is lower."""
        found = choices[:1]
        for choice in sorted(choices[1:], key=lambda c: (c.work, c.memory)):
            last = found[-1]
            if choice.memory < last.memory and choice.peak <= last.peak and choice.kept <= last.kept:
                found.append(choice)
        return found

    def measure(self, stop):
        stop = frozenset(stop | self.once)
        saved, split = self.split.saved(stop), self.split
        extra = [n for n in saved if split.describe(n)[0] == "extra"]
        most, alive = peak(split.forward_order(extra), [*split.results, *extra], 0, ())
        order, tangents = split.backward_order(saved), split.tangents
        alive += sum(map(size_in_bytes, tangents))
        most = max(most, peak(order, split.grads, alive, [*extra, *tangents])[0])
        kept = sum(map(size_in_bytes, extra))
        return Choice(stop, kept, most, sum(effort(n) for n in order if not n.meta["backward"]))

    def less(self):
        """The minimum cut without its cheapest values: without more and more of them."""
        loose = [n for n in self.split.saved(self.saved) if n in self.saved - self.free - self.once]
        loose.sort(key=self.worth)
        for count in range(STEPS):
            yield self.saved - set(loose[: len(loose) * (count + 1) // STEPS])

    def worth(self, node):
        """Of computing it again, per byte that it takes."""
        between = needed_for([node], (self.saved - {node}) | self.split.places | self.once)
        return sum(map(effort, between)) / max(size_in_bytes(node), 1)

    # --- stretches --------------------------------------------------------------------------------
    def checkpoints(self):
        """The forward in some stretches of equal size, the first of which are computed again."""
        position, last = {n: i for i, n in enumerate(self.computed)}, {}
        for n in self.computed:
            for read in n.all_input_nodes:
                last[base_of(read)] = position[n]
        sizes = [0 if is_view(n) else size_in_bytes(n) for n in self.computed]
        until, alive = list(itertools.accumulate(sizes)), self.alive_after(position, last)
        for count in STRETCHES if until else ():
            width = until[-1] / count
            ends = sorted({self.end_near(k * width, width, until, alive) for k in range(1, count)})
            for again in sorted({math.ceil(len(ends) * part) for part in (0.25, 0.5, 0.75, 1)} | {len(ends) + 1}):
                kept = [n for end in ends[:again] for n in self.computed if position[n] <= end < last.get(n, -1)]
                start = ends[again - 1] if again <= len(ends) else len(position)  # of what is not computed again
                rest = {n for n in self.saved if n in self.free or position.get(n, -1) > start}
                yield rest | {n for n in kept if is_tensor(n) and not is_view(n)}

    def alive_after(self, position, last):
        """Bytes that the rest of the forward reads after each of its nodes; endless where a tuple is among it."""
        change = [0] * (len(self.computed) + 1)
        for n, start in position.items():
            if not is_view(n) and n in last:
                size = ENDLESS if isinstance(n.meta["val"], tuple | list) else size_in_bytes(n)
                change[start] += size
                change[last[n]] -= size
        return list(itertools.accumulate(change))

    @staticmethod
    def end_near(wanted, width, until, alive):
        """The place with the least alive, not further than half a stretch from where it should be."""
        near = [i for i, size in enumerate(until) if abs(size - wanted) <= width / 2]
        near = near or [min(range(len(until)), key=lambda i: abs(until[i] - wanted))]
        return min(near, key=lambda i: (alive[i], abs(until[i] - wanted)))


# --- how much is alive ------------------------------------------------------------------------------
def peak(order, outputs, alive, freed):
    """(most bytes alive at one time, bytes alive at the end) of nodes that run in this order.

    alive: bytes at the start.  freed: values among them that die after their last use; outputs live on.
    """
    last = {base_of(read): position for position, node in enumerate(order) for read in (node, *node.all_input_nodes)}
    dying = {}
    for node in last.keys() - {base_of(n) for n in outputs if isinstance(n, torch.fx.Node)}:
        dying.setdefault(last[node], []).append(node)
    most, born = alive, set(freed)
    for position, node in enumerate(order):
        if node.op == "call_function" and is_tensor(node) and not is_view(node):
            alive += size_in_bytes(node)
            born.add(node)
        most = max(most, alive)
        alive -= sum(size_in_bytes(n) for n in dying.get(position, ()) if n in born)
    return most, alive


def peak_of(gm, alive, freed):
    *order, output = gm.graph.nodes
    return peak(order, output.args[0], alive, freed)


def peak_memory(graph):
    """The most bytes that a call and its backward hold at one time, besides the inputs."""
    most, alive = peak_of(graph.forward, 0, ())
    if graph.backward is None:
        return most
    places = [n for n in graph.backward.graph.nodes if n.op == "placeholder"]
    tangents = places[len(graph.saved) :]
    freed = [n for n, s in zip(places, graph.saved, strict=False) if s.source[0] == "extra"]
    alive += sum(map(size_in_bytes, tangents))
    return max(most, peak_of(graph.backward, alive, [*freed, *tangents])[0])
