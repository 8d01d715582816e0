"""Which user's line does an ATen node come from?

Goes in: the graph that is being traced, and `mark(node)` whenever another node of the captured graph begins to run.
Comes out: `origins`, traced node name -> captured node.  In the backward, autograd's sequence numbers lead from each
gradient function to the captured node whose operator made it.
Mirrors `torch/fx/traceback.py`.  Taught in chapter 08.
"""

import functools
import itertools

import torch
from torch.utils._pytree import tree_leaves
from torch.utils.checkpoint import checkpoint

KEPT = ("val", "unbacked_bindings")


def gradient_functions(roots):
    """Every node of autograd's graph that the roots lead to."""
    todo, seen = list(roots), set()
    while todo:
        function = todo.pop()
        if function is not None and function not in seen:
            seen.add(function)
            todo.extend(following for following, _ in function.next_functions)
            yield function


@functools.cache
def saving(kind):
    """The attributes of such a node of autograd's graph that hold what it saved, packed."""
    return [name for name in dir(kind) if name.startswith("_raw_saved")]


def kind_of(function):
    of_python = torch.autograd.function.BackwardCFunction  # each class of the user's has a kind of its own
    return of_python if isinstance(function, of_python) else type(function)


def saves(function):
    """Does this node of autograd's graph hold tensors, so that it runs only once unless the graph is retained?"""
    return any(getattr(function, name) for name in saving(kind_of(function)))


def unpacked(function):
    """The tensors that it holds."""
    kind = kind_of(function)
    names = [n.removeprefix("_raw_") if kind is not type(function) else n.removeprefix("_raw") for n in saving(kind)]
    return [t for t in tree_leaves([getattr(function, n) for n in names]) if isinstance(t, torch.Tensor)]


def last_of(graph):
    return next(iter(reversed(graph.nodes)), None)


def nodes_since(last, graph):
    """What was added to a graph behind this node, the newest first."""
    return itertools.takewhile(lambda node: node is not last, reversed(graph.nodes))


class Provenance:
    def __init__(self, graph):
        self.graph, self.origins, self.current, self.last = graph, {}, None, None
        self.sequences = {}  # autograd sequence number -> captured node
        self.given = {}  # captured checkpoint -> the tensors that it was given by the program
        self.kept = set()  # names of traced nodes in checkpoints, whose policy keeps them

    def mark(self, captured):
        """What was traced since the last mark belongs to its node; what follows belongs to `captured`."""
        if self.current is not None:
            self.origins.update((node.name, self.current) for node in nodes_since(self.last, self.graph))
        self.last, self.current = last_of(self.graph), captured

    def run(self, captured, function):
        """Run one node of the captured graph."""
        self.mark(captured)
        start = torch.autograd._get_sequence_nr()
        result = function()
        self.sequences.update(dict.fromkeys(range(start, torch.autograd._get_sequence_nr()), captured))
        return result

    def follow_backward(self, tensors):
        """Let every gradient function say whose it is before it runs."""
        for function in gradient_functions(t.grad_fn for t in tensors):
            captured = self.sequences.get(function._sequence_nr())
            function.register_prehook(lambda grads, captured=captured: self.mark(captured))

    def meta(self, node):
        """What a node of the final graph keeps: its value, and where it comes from."""
        meta, captured = {k: node.meta[k] for k in KEPT if k in node.meta}, self.origins.get(node.name)
        if captured is not None:
            meta["origin"] = captured.name
            meta["stack_trace"] = captured.meta.get("stack_trace")
            if captured.target is checkpoint:
                meta["checkpoint"], meta["kept"] = captured.name, node.name in self.kept
        return meta
