"""Split the joint graph into forward and backward, and decide what to save between them.

Goes in: an `AOTGraph` with a joint graph.  Comes out: the same object with `forward`, `backward`, `saved`, `recomputed`.
Mirrors `torch/_functorch/partitioners.py`.  Taught in chapter 08.
"""

import dataclasses

import torch
from torch import fx


@dataclasses.dataclass(frozen=True)
class SavedTensor:
    """One value kept from forward to backward, and why it is kept and not computed again.

    source: "input" i, "result" i (an output of forward anyway) or "extra" (forward returns it for this purpose only).
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


def size_in_bytes(value):
    if not isinstance(value, torch.Tensor):
        return 8
    numel = value.numel()
    return int(numel if isinstance(numel, int) else numel.node.hint or 0) * value.element_size()


def extract(joint, inputs, compute, outputs, name):
    """A GraphModule with `inputs` as placeholders, the nodes of `compute` in the joint graph's order, and `outputs`."""
    graph, environment = fx.Graph(), {}
    for node in inputs:
        environment[node] = graph.placeholder(node.name)
        environment[node].meta = dict(node.meta)
    for node in joint.graph.nodes:
        if node in compute and node not in environment:
            environment[node] = graph.node_copy(node, environment.__getitem__)
    graph.output([environment[n] if isinstance(n, fx.Node) else n for n in outputs])
    return fx.GraphModule(joint, graph, name)


def needed_for(outputs, stop):
    """Every node that `outputs` depend on, down to and without the nodes in `stop`."""
    found, todo = set(), [n for n in outputs if isinstance(n, fx.Node)]
    while todo:
        node = todo.pop()
        if node not in found and node not in stop:
            found.add(node)
            todo.extend(node.all_input_nodes)
    return found


def partition(graph):
    """Fill in the split of `graph.joint`."""
    joint, nodes = graph.joint, list(graph.joint.graph.nodes)
    outputs = list(nodes[-1].args[0])
    results, grads = outputs[: graph.result_count], outputs[graph.result_count :]
    places = [n for n in nodes if n.op == "placeholder"]
    primals = [n for n in places if not n.meta["backward"]]
    tangents = [n for n in places if n.meta["backward"]]
    forward = {n for n in nodes if n.op != "output" and not n.meta["backward"]}
    crossing = needed_for(grads, forward)
    saved = sorted(
        {i for n in crossing for i in n.all_input_nodes if i in forward} | {g for g in grads if g in forward},
        key={n: i for i, n in enumerate(nodes)}.__getitem__,
    )
    saved = [n for n in saved if n.op != "get_attr"]
    mutated = {primals[m.index] for m in graph.mutations}
    finish(graph, primals, tangents, results, grads, saved, mutated)


def finish(graph, primals, tangents, results, grads, saved, mutated):
    joint, extra = graph.joint, []
    graph.saved = []
    saved = [n for n in saved if is_tensor(n)] + [n for n in saved if not is_tensor(n)]
    for node in saved:
        value = node.meta["val"]
        if node in primals and node not in mutated:
            source, why = ("input", primals.index(node)), "is an input anyway"
        elif node in results:
            source, why = ("result", results.index(node)), "is an output anyway"
        else:
            source, why = ("extra", len(extra)), "the backward reads it"
            extra.append(node)
        shape, dtype = (tuple(value.shape), value.dtype) if is_tensor(node) else ((), type(value).__name__)
        graph.saved.append(SavedTensor(node.name, shape, dtype, size_in_bytes(value), why, source))
    forward_outputs = [*results, *extra]
    keep = needed_for(forward_outputs, set(primals)) | effects(joint, backward=False)
    graph.forward = extract(joint, primals, keep, forward_outputs, "forward")
    for node in graph.forward.graph.output_node().args[0][len(results) :]:
        if node.op == "placeholder":  # written after the forward: keep the old value
            with graph.forward.graph.inserting_before(graph.forward.graph.output_node()):
                copy = graph.forward.graph.call_function(torch.ops.aten.clone.default, (node,))
                copy.meta = dict(node.meta)
            graph.forward.graph.output_node().args = (
                [*graph.forward.graph.output_node().args[0][: len(results)]]
                + [copy if n is node else n for n in graph.forward.graph.output_node().args[0][len(results) :]],
            )
    graph.forward.recompile()
    inputs = [*saved, *tangents]
    keep = needed_for(grads, set(inputs)) | effects(joint, backward=True)
    graph.recomputed = [
        n.name for n in joint.graph.nodes if n in keep and not n.meta["backward"] and n.op == "call_function"
    ]
    graph.backward = extract(joint, inputs, keep, grads, "backward")
    graph.grad_dependence = [tangents_behind(g, tangents) for g in grads]


def is_tensor(node):
    return isinstance(node.meta["val"], torch.Tensor)


def effects(joint, backward):
    return {
        n for n in joint.graph.nodes if n.op == "call_function" and n.is_impure() and n.meta["backward"] == backward
    }


def tangents_behind(grad, tangents):
    reached = needed_for([grad], set())
    return {i for i, t in enumerate(tangents) if t in reached}
