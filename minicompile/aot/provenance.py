"""Which user's line does an ATen node come from?

Goes in: the graph that is being traced, and `mark(node)` whenever another node of the captured graph begins to run.
Comes out: `origins`, traced node name -> captured node.  In the backward, autograd's sequence numbers lead from each
gradient function to the captured node whose operator made it.  Mirrors `torch/fx/traceback.py`.  Taught in chapter 08.
"""

import torch
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


class Provenance:
    def __init__(self, graph):
        self.graph, self.origins, self.current, self.last = graph, {}, None, None
        self.sequences = {}  # autograd sequence number -> captured node

    def mark(self, captured):
        """What was traced since the last mark belongs to its node; what follows belongs to `captured`."""
        for node in reversed(self.graph.nodes):
            if node is self.last:
                break
            if self.current is not None:
                self.origins[node.name] = self.current
        self.last, self.current = next(iter(reversed(self.graph.nodes)), None), captured

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
                meta["checkpoint"] = captured.name
        return meta
