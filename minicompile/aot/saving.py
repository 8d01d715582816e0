"""Where a node of autograd keeps what its backward reads, until when, and what of it must not have been written.

Goes in: an `AOTGraph`, and the tensors of a call.  Comes out, in the backward: those that it reads, or what eager
raises.
Mirrors `torch/_functorch/_aot_autograd/runtime_wrappers.py` (AOTDispatchAutograd).  Taught in chapter 08.
"""

import torch

from ._saved import unpack
from .keeping import Watch


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
        places = self.known_places = [place_of(graph, saved.source) for saved in graph.saved[: self.count]]
        # Autograd looks at the versions of what it unpacks.  Where eager does not, with some of these gradients or with
        # all, it gets an alias that counts its own writes.
        users = [(k, place) for k, place in enumerate(places) if place is not None]
        self.unchecked = [k for k, place in users if not read[k] <= kept.get(place, frozenset())]
        checked = {place for k, place in users if k not in self.unchecked and read[k] == kept[place]}
        self.watch = Watch(graph, node, checked)
        self.kept, self.functions, self.matter = graph.kept, graph.functions, {}

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

    def load(self, ctx, present, reads, known, some=None):
        """The tensors; None for those that are not read now.  known: those that are loaded already, by number.

        some: those that must not have been written, if not all.
        """
        if not ctx.freed.isdisjoint(present):
            refuse_second_time()
        nodes = [(self.places, ctx)] if self.together else zip(self.groups.values(), (k.grad_fn for k in ctx.keepers))
        for group, function in nodes:
            if some is not None:
                numbers = [k for k in group if k in some and k not in known]
                known.update(zip(numbers, unpack(function, [group.index(k) for k in numbers]), strict=True))
            elif (self.together or not set(reads).isdisjoint(group)) and not (known and known.keys() >= set(group)):
                known.update(zip(group, function.saved_tensors, strict=True))
        return [known.get(k) for k in range(self.count)]

    def that_matter(self, present, piece, asked, reads):
        """(saved tensors, by number, the places of these and others) that must not have been written.

        For the gradients of some inputs these are what eager's functions read that run then, and what is read here.
        """
        if asked is None:
            return None, None
        key = present, piece, asked
        if key not in self.matter:
            running = self.functions.running(present, asked)
            places = {kept.place for kept in self.kept if not running.isdisjoint(kept.functions)}
            checked = {k for k in self.places if k not in self.unchecked and self.known_places[k] in places}
            read = {k for k in reads if k < self.count}
            self.matter[key] = checked | read, places | {self.known_places[k] for k in read}
        return self.matter[key]

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
