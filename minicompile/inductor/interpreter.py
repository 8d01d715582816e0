"""The IR, run by ATen: no compiler needed, slow, and an independent check of lowering and of the code generators.

Goes in: an `IRGraph`.  Comes out: a callable on tensors.  Every loop nest is evaluated on whole index tensors: a loop
variable is an `arange` along its own dimension.  Mirrors nothing in PyTorch.  Taught in chapter 09.
"""

import torch

from . import ir
from .indexing import FloorDiv, Indirect, Var
from .ir import Constant, Extern, IndexExpr, Load, Masked, MultiOutput, Pointwise, Reduction, Scan, Scatter, View
from .ops import OPS, REDUCTIONS

_COMBINE = {"sum": torch.cumsum, "prod": torch.cumprod, "max": torch.cummax, "min": torch.cummin}
_SCATTER = {"add": "sum", "prod": "prod", "max": "amax", "min": "amin"}


class Interpreter:
    """callable(list or *tensors) -> list of tensors."""

    def __init__(self, graph):
        self.graph, self.layouts = graph, graph.layouts

    @torch.no_grad()
    def __call__(self, *args):
        if len(args) == 1 and isinstance(args[0], (list, tuple)):
            args = args[0]
        values = {**self.graph.constants, **dict(zip(self.graph.inputs, args, strict=True))}
        for buffer in self.graph.buffers:
            values[buffer.name] = self.compute(buffer, values)
        return [view_of(values[o.buffer], o.layout) if isinstance(o, View) else o for o in self.graph.outputs]

    def compute(self, buffer, values):
        data, layout = buffer.data, buffer.layout
        if isinstance(data, MultiOutput):
            return restride(values[data.source][data.path], layout)
        if isinstance(data, Extern):
            fetch = lambda v: view_of(values[v.buffer], v.layout)  # noqa: E731
            args, kwargs = torch.utils._pytree.tree_map_only(View, fetch, (data.args, data.kwargs))
            result = data.target(*args, **kwargs)
            return restride(result, layout) if layout is not None else result
        return restride(EVALUATE[type(data)](data, values, layout.device), layout)


def view_of(tensor, layout):
    return torch.as_strided(tensor, layout.size, layout.stride, tensor.storage_offset() + layout.offset)


def restride(tensor, layout):
    """The tensor with the strides of a layout."""
    if tensor.stride() == tuple(layout.stride) and tensor.dtype == layout.dtype:
        return tensor
    return torch.empty_strided(layout.size, layout.stride, dtype=layout.dtype, device=layout.device).copy_(tensor)


class Evaluator:
    """Evaluates expressions over a loop nest: every value is a tensor that broadcasts over the loops."""

    def __init__(self, variables, values, device):
        self.values, self.device, self.memo = values, device, {}
        self.size = [v.size for v in variables]
        self.vars = {}
        for k, var in enumerate(variables):
            shape = [1] * len(variables)
            shape[k] = var.size
            self.vars[var] = torch.arange(var.size, device=device).reshape(shape)

    def full(self, expr):
        if 0 in self.size:  # nothing is evaluated, not even a division by zero
            return torch.empty(self.size, dtype=expr.dtype, device=self.device)
        return self.value(expr).expand(self.size)

    def value(self, expr):
        for node in ir.walk(expr):
            if node not in self.memo:
                self.memo[node] = self.compute(node)
        return self.memo[expr]

    def compute(self, node):
        if isinstance(node, Constant):
            return torch.tensor(node.value, dtype=node.dtype, device=self.device)
        if isinstance(node, IndexExpr):
            return torch.as_tensor(self.index(node.index), device=self.device).to(node.dtype)
        if isinstance(node, Load):
            return self.load(node)
        args = [self.memo[a] for a in node.args]
        if isinstance(node, Masked):
            return torch.where(*args)
        if node.name in ("cast", "bitcast"):
            return args[0].to(node.dtype) if node.name == "cast" else args[0].view(node.dtype)
        return OPS[node.name].eager(*args)

    def load(self, node):
        """Gather by position.  What lies outside is only ever looked at under a mask: any element does."""
        tensor = self.values[node.buffer]
        if tensor.numel() == 0:
            return torch.zeros((), dtype=tensor.dtype, device=tensor.device)
        position = []
        for value, size in zip(node.position, tensor.shape, strict=True):
            position.append(torch.as_tensor(self.index(value), device=tensor.device).clamp(0, size - 1))
        return tensor[tuple(position)] if position else tensor

    def index(self, value):
        result = value.constant
        for atom, c in value.terms:
            result = result + self.atom(atom) * c
        return result

    def atom(self, atom):
        if isinstance(atom, Var):
            return self.vars[atom]
        if isinstance(atom, Indirect):
            return self.indirect(atom)
        inside = self.index(atom.index)
        return inside // atom.divisor if isinstance(atom, FloorDiv) else inside % atom.divisor

    def indirect(self, atom):
        found = self.value(atom.expr)
        if atom.wrap:
            found = torch.where(found < 0, found + atom.size, found)
        if atom.check and bool(((found < 0) | (found >= atom.size)).any()):
            raise IndexError("index out of range in self")
        return found


def _reduction(data, values, device):
    body = Evaluator(data.vars + data.reduced, values, device).full(data.body)
    kept = len(data.vars)
    if not data.reduced:
        return torch.zeros_like(body, dtype=torch.int64) if data.kind.startswith("arg") else body.clone()
    flat = body.flatten(kept)
    if flat.shape[-1] == 0:
        identity = REDUCTIONS[data.kind].identity(body.dtype)
        return torch.full(flat.shape[:-1], identity, dtype=body.dtype, device=device)
    return REDUCTIONS[data.kind].eager(flat, -1)


def _scan(data, values, device):
    body = Evaluator(data.vars, values, device).full(data.body)
    result = _COMBINE[data.kind](body, data.dim)
    return result.values if isinstance(result, tuple) else result


def _scatter(data, values, device):
    result = Evaluator(data.vars, values, device).full(data.initial).clone(memory_format=torch.contiguous_format)
    points = Evaluator(data.points, values, device)
    body = points.full(data.body).reshape(-1)
    flat = torch.zeros(points.size, dtype=torch.int64, device=device)
    for value, var in zip(data.position, data.vars, strict=True):
        flat = flat * var.size + points.index(value)
    if data.mode == "store":
        result.view(-1).index_put_((flat.reshape(-1),), body)
    else:
        result.view(-1).scatter_reduce_(0, flat.reshape(-1), body, _SCATTER[data.mode])
    return result


EVALUATE = {
    Pointwise: lambda data, values, device: Evaluator(data.vars, values, device).full(data.body).clone(),
    **{Reduction: _reduction, Scan: _scan, Scatter: _scatter},
}
