"""Operators that were traced before on tensors of the same form: their nodes are copied, and nothing is run.

Goes in: an operator on functional tensors, and the function that traces it.  Comes out: its result.  Models are made of
equal layers: what an operator becomes (its rule's operators, their fake values) is found out once for each form of
its arguments.  Left to the trace are views and writes, which functional tensors follow, and symbolic sizes.
Mirrors nothing in PyTorch.  Taught in chapter 08.
"""

import functools

import torch
from torch import fx
from torch._subclasses import FakeTensor
from torch._subclasses.functional_tensor import FunctionalTensor
from torch.fx.experimental.proxy_tensor import get_proxy_mode, get_proxy_slot, track_tensor
from torch.utils._mode_utils import no_dispatch

from .nodes import is_pure
from .outputs import storage_key, unwrap, views_of
from .overlap import extent
from .provenance import KEPT, last_of, nodes_since

PLAIN = (type(None), bool, int, str, torch.dtype, torch.device, torch.layout, torch.memory_format)


class NoForm(Exception):
    """The argument is no plain value: it may be another one, or another kind of tensor, the next time."""


@functools.cache
def makes_new(func):
    """An ATen operator all of whose results are new tensors."""
    return is_pure(func) and all(r.alias_info is None and "Tensor" in str(r.type) for r in func._schema.returns)


def node_of(fake):
    """The node that computes a traced value; None for a constant, whose numbers the trace may read."""
    slot = get_proxy_slot(fake, get_proxy_mode().tracer, None)
    return slot.proxy.node if slot is not None and slot.constant is None else None


def form_of(value, nodes):
    """What a rule can know of an argument.  nodes: those of the tensors so far, each once; it is added to."""
    if type(value) is FunctionalTensor:
        fake = unwrap(value)
        node = node_of(fake) if type(fake) is FakeTensor and fake.layout == torch.strided else None
        if node is None or fake._has_symbolic_sizes_strides:
            raise NoForm
        if node not in nodes:
            nodes.append(node)
        keys = torch._C._dispatch_keys(fake).raw_repr()
        return nodes.index(node), fake.shape, fake.stride(), fake.storage_offset(), fake.dtype, fake.device, keys
    if isinstance(value, list | tuple):
        return type(value), *(form_of(part, nodes) for part in value)
    if type(value) is float:
        return float, repr(value)  # 0.0 is not -0.0
    if type(value) not in PLAIN:
        raise NoForm
    return type(value), value


def state():
    """What else rules go by: casts are made inside of them too."""
    if not torch._C._is_any_autocast_enabled():
        return torch.is_grad_enabled()
    types = [(torch.is_autocast_enabled(d), torch.get_autocast_dtype(d)) for d in ("cpu", "cuda")]
    return torch.is_grad_enabled(), *types, torch._C._dispatch_tls_local_exclude_set().raw_repr()


class Traced:
    """What one call added to the graph.  Raises NoForm where that is not all there is to it.

    operands: the nodes of its tensors; nodes: those that were added; results: for each, its node and fake value.
    """

    def __init__(self, operands, nodes, result):
        self.operands, self.nodes, self.kind = operands, nodes, type(result)
        values = list(result) if self.kind in (tuple, list) else [result]
        self.results = [None if value is None else self.result(value) for value in values]
        storages = [storage_key(fake) for _, fake in filter(None, self.results)]
        known = {*operands, *nodes}
        if len({*storages}) < len(storages) or any(n.op != "call_function" for n in nodes):
            raise NoForm
        if not known.issuperset(n for node in nodes for n in node.all_input_nodes):
            raise NoForm

    def result(self, value):
        """Only a new tensor in memory of its own can be made again."""
        fake = unwrap(value) if type(value) is FunctionalTensor else None
        if fake is None or fake._has_symbolic_sizes_strides or fake.layout != torch.strided or views_of(value.elem):
            raise NoForm
        node, whole = node_of(fake), extent(fake) == fake.untyped_storage().nbytes() and fake.storage_offset() == 0
        if node not in self.nodes or not whole or fake.is_conj() or fake.is_neg():
            raise NoForm
        return node, fake

    def again(self, operands, mode):
        """The same nodes behind other tensors, and the result."""
        tracer, copies = get_proxy_mode().tracer, dict(zip(self.operands, operands, strict=True))
        for node in self.nodes:
            args, kwargs = fx.map_arg((node.args, node.kwargs), copies.__getitem__)
            name = getattr(node.target, "overloadpacket", node.target).__name__
            copies[node] = tracer.graph.create_node("call_function", node.target, args, kwargs, name)
            copies[node].meta = {kept: node.meta[kept] for kept in KEPT if kept in node.meta}
        results = []
        for found in self.results:
            results.append(None if found is None else self.fresh(copies[found[0]], found[1], tracer, mode))
        return self.kind(results) if self.kind in (tuple, list) else results[0]

    def fresh(self, node, like, tracer, mode):
        with no_dispatch():
            meta = torch.empty_strided(like.shape, like.stride(), dtype=like.dtype, device="meta")
        fake = FakeTensor(like.fake_mode, meta, like.device)
        track_tensor(fake, fx.Proxy(node, tracer), constant=None, tracer=tracer)
        return FunctionalTensor(torch._to_functional_tensor(fake), mode)


class Repeats:
    """What was traced so far, by operator and form of arguments."""

    def __init__(self):
        self.traced = {}

    def call(self, mode, func, args, kwargs, trace):
        operands, known = [], None
        try:
            key = func, state(), form_of(args, operands), form_of((*kwargs, *kwargs.values()), operands)
            known = self.traced.get(key)
        except NoForm:
            return trace()
        if known is not None:
            return known.again(operands, mode)
        graph = get_proxy_mode().tracer.graph
        last, result = last_of(graph), trace()
        try:
            self.traced[key] = Traced(operands, [*nodes_since(last, graph)][::-1], result)
        except NoForm:
            pass
        return result
