"""Fold what is made of frozen parameters alone, and put what scales and shifts a product into its weight and bias.

Goes in: the `AOTGraph` of an inference, and the names of its constants that nobody will write to (dynamo guards them).
Comes out: the same, with fewer operators, and other constants: a convolution followed by batch norm is a convolution.
Mirrors `torch/_inductor/constant_folding.py` and `fx_passes/binary_folding.py`.  Taught in chapter 13.
"""

import dataclasses

import torch
from torch import fx

from .nodes import base_of, drop_dead_code, has_effect, is_tensor, is_view, replace, same_tensor, size_in_bytes
from .passes import last_placeholder

aten = torch.ops.aten
LARGE = 1 << 20  # bytes up to which a constant may be larger than what it is made of
PRODUCTS = {  # operator -> (where its weight is, where its bias is, the weight's dimension of channels)
    aten.convolution.default: (1, 2, 0),
    aten.addmm.default: (2, 0, 1),
    aten.mm.default: (1, None, 1),
}
CHANNELS = 1  # dimension of their results
SCALES, SHIFTS = (aten.mul.Tensor, aten.div.Tensor), (aten.add.Tensor, aten.sub.Tensor)


class Folder:
    """The graph, and the values of its nodes that are known."""

    def __init__(self, graph, frozen):
        self.graph, self.fake_mode = graph.forward.graph, graph.fake_mode
        places = [n for n in self.graph.nodes if n.op == "placeholder"]
        self.names = dict(zip(places, [*graph.input_names, *graph.constants], strict=True))
        written = {places[m.index] for m in graph.mutations}  # statistics of batch norm, which capture does not see
        fixed = [n for n in places if self.names[n] in frozen and n not in written]
        self.values = {n: graph.constants[self.names[n]] for n in fixed}
        self.made = {}  # placeholder of a new constant -> its value
        results = [n for n in self.graph.output_node().args[0] if isinstance(n, fx.Node)]
        self.given_away = {base_of(n) for n in results} | set(results)
        self.roots = {n: {n} for n in self.values}  # constant node -> the frozen parameters that it is made of

    def find(self):
        """Every node that is made of frozen parameters and numbers, in `roots`."""
        for node in self.graph.nodes:
            inputs = node.all_input_nodes
            if node.op != "call_function" or has_effect(node) or node in self.given_away:
                continue
            if all(i in self.roots for i in inputs) and not any(isinstance(a, fx.Node) for a in node.kwargs.values()):
                roots = set().union(*(self.roots[i] for i in inputs))
                made_of = sum(map(size_in_bytes, roots))
                if not is_tensor(node) or is_view(node) or size_in_bytes(node) <= max(LARGE, made_of):
                    self.roots[node] = roots

    def value(self, node):
        """The tensor itself."""
        if node not in self.values:
            args, kwargs = fx.map_arg((node.args, node.kwargs), self.value)
            self.values[node] = node.target(*args, **kwargs)
        return self.values[node]

    def constant(self, value):
        """A new placeholder for a tensor."""
        with self.graph.inserting_after(last_placeholder(self.graph)):
            node = self.graph.placeholder(f"folded_{len(self.made)}")
        node.meta = {"val": self.fake_mode.from_tensor(value, static_shapes=True), "backward": False}
        self.values[node] = self.made[node] = value
        self.roots[node] = {node}
        return node

    def fold(self):
        """Each constant that something else reads becomes a placeholder."""
        for node in list(self.roots):
            read = any(user not in self.roots for user in node.users)
            if read and node not in self.names and self.roots[node] and is_tensor(node):
                node.replace_all_uses_with(self.constant(self.value(node)), lambda user: user not in self.roots)

    # --- scale and shift ----------------------------------------------------------------------------
    def absorb(self):
        """`convolution(x, w) * a + b`, with a and b constant for each channel, is `convolution(x, w * a, b)`."""
        for node in list(self.graph.nodes):
            if node.target in SCALES + SHIFTS and not node.kwargs:
                swapped = node.target in (aten.mul.Tensor, aten.add.Tensor)
                for product, other in (node.args, node.args[::-1])[: 1 + swapped]:
                    if self.absorbs(node, product, other):
                        replace(self.graph, node, product)
                        break

    def absorbs(self, node, product, other):
        """Let `product` do what `node` does to it.  False where that is not possible."""
        if not isinstance(product, fx.Node) or product.target not in PRODUCTS or len(product.users) > 1:
            return False
        weight_at, bias_at, channels = PRODUCTS[product.target]
        args = list(product.args)
        bias, operand = None if bias_at is None else args[bias_at], self.per_channel(other, product.meta["val"])
        known = args[weight_at] in self.values and (
            bias is None or bias in self.values and self.values[bias].dim() == 1
        )
        transposed = product.target is aten.convolution.default and args[6]
        if transposed or product.kwargs or not known or operand is None or not same_tensor(node, product):
            return False
        bias, dtype = None if bias is None else self.values[bias].double(), node.meta["val"].dtype
        if node.target in SCALES:
            scale = operand if node.target is aten.mul.Tensor else 1 / operand
            if not scale.isfinite().all():
                return False
            shape = [1] * args[weight_at].meta["val"].dim()
            shape[channels] = -1
            args[weight_at] = self.constant((self.values[args[weight_at]].double() * scale.view(shape)).to(dtype))
            bias = None if bias is None else bias * scale
        else:
            bias = (0 if bias is None else bias) + (operand if node.target is aten.add.Tensor else -operand)
        if bias is not None and bias_at is None:
            product.target, bias_at = aten.addmm.default, 0
            args.insert(0, None)
        if bias is not None:
            args[bias_at] = self.constant(bias.to(dtype))
        product.args = tuple(args)
        return True

    def per_channel(self, operand, like):
        """The factor or summand of each channel in float64; None unless it is known and the same along the others."""
        if isinstance(operand, int | float):
            operand = torch.full((), operand, dtype=torch.float64, device=like.device)
        elif operand in self.values:
            operand = self.values[operand].double()
        else:
            return None
        if operand.dim() > like.dim() or not like.is_floating_point():
            return None
        shape = [1] * (like.dim() - operand.dim()) + list(operand.shape)
        if any(size != 1 for d, size in enumerate(shape) if d != CHANNELS):
            return None
        return operand.reshape(-1).expand(like.shape[CHANNELS])


def fold(graph, frozen):
    """Freeze an AOTGraph without backward.  Keeps `graph.passes` up to date."""
    before = len(graph.forward.graph.nodes)
    with torch.inference_mode(False), torch.no_grad():
        folder = Folder(graph, frozen)
        folder.find()
        folder.fold()
        folder.absorb()
    drop_dead_code(folder.graph)
    use_constants(graph, folder)
    graph.forward.recompile()
    graph.passes.append(("freeze", before, len(graph.forward.graph.nodes)))
    graph.node_counts["frozen"] = len(graph.forward.graph.nodes)


def use_constants(graph, folder):
    """Drop the constants that nobody reads any more, and add the new ones: the inputs have other numbers then."""
    named = {s.index for s in (*graph.mutations, *graph.outputs) if getattr(s, "kind", "input") == "input"}
    count, kept = len(graph.input_names), []
    for index, (node, name) in enumerate(folder.names.items()):
        if index < count or node.users or index in named:
            kept.append(index)
        else:
            folder.graph.erase_node(node)
            del graph.constants[name]
    position = {old: new for new, old in enumerate(kept)}
    made = [n for n in folder.graph.nodes if n in folder.made and n.users]
    for node in set(folder.made) - set(made):
        folder.graph.erase_node(node)
    graph.constants.update((node.name, folder.made[node]) for node in made)
    graph.mutations[:] = [dataclasses.replace(m, index=position[m.index]) for m in graph.mutations]
    graph.outputs[:] = [
        dataclasses.replace(s, index=position[s.index]) if s.kind == "input" else s for s in graph.outputs
    ]
    for flags, new in ((graph.input_needs_grad, False), (graph.input_is_tensor, True)):
        flags[:] = [*(flags[i] for i in kept), *[new] * len(made)]
