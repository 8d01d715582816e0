"""What every lowering uses: the registry, type promotion, broadcasting, elementwise construction.

Goes in: `TensorValue`s and numbers.  Comes out: a lazy `TensorValue` whose element is an expression of theirs.
Mirrors `make_pointwise` and `promote_constants` in `torch/_inductor/lowering.py`.  Taught in chapter 09.
"""

import functools

import torch
from torch._prims_common import ELEMENTWISE_TYPE_PROMOTION_KIND as KIND
from torch._prims_common import elementwise_dtypes

from .. import ir
from ..expr import LateNumber
from ..graph import TensorValue, current
from ..indexing import index

aten = torch.ops.aten
LOWERINGS = {}  # OpOverload or OpOverloadPacket -> function


def register_lowering(*targets):
    """Decorator: this function lowers these operators (an overload, or a packet for all its overloads)."""

    def decorate(function):
        for target in targets:
            LOWERINGS[target] = function
        return function

    return decorate


def fake():
    """The fake tensor that the node at work stands for: the size, strides, dtype and device that eager gives."""
    return current().node.meta["val"]


def called():
    """The name of the operator at work, without its overload."""
    return current().node.target.overloadpacket.__name__


# --- types ------------------------------------------------------------------------------------------


@functools.cache
def _sample(kind, has_dims):
    """The smallest thing that promotes like an operand."""
    return (
        torch.empty((1,) if has_dims else (), dtype=kind, device="meta") if isinstance(kind, torch.dtype) else kind(1)
    )


@functools.cache
def _promote(keys, kind):
    return elementwise_dtypes(*(_sample(*key) for key in keys), type_promotion_kind=kind)[1]


def promote(*operands, kind=KIND.DEFAULT):
    """The dtype that eager computes an elementwise operator in: 0-dim tensors and numbers weigh less."""
    keys = tuple(
        (x.dtype, x.ndim > 0) if isinstance(x, TensorValue) else (number_type(x), False)
        for x in operands
        if x is not None
    )
    return _promote(keys, kind)


def number_type(x):
    """The Python type of a number; a symbolic size is an int."""
    if isinstance(x, LateNumber):
        return float
    return type(x) if isinstance(x, (bool, int, float, complex)) else int


def cast(x, dtype):
    """The value in another dtype."""
    if x.dtype == dtype:
        return x
    return TensorValue(x.device, dtype, x.size, lambda position: ir.op("cast", x.load(position), dtype=dtype))


# --- shapes -----------------------------------------------------------------------------------------


def broadcast(value, size):
    """Expand a TensorValue to a size by ATen's rules."""
    missing = len(size) - value.ndim

    def reindex(position):
        return tuple(index(0) if n == 1 else i for i, n in zip(position[missing:], value.size, strict=True))

    return value if value.size == tuple(size) else value.view(size, reindex)


def broadcast_size(*sizes):
    """The common size; a size 1 gives way, whatever the other is."""
    result = []
    for k in range(max(map(len, sizes), default=0)):
        column = [s[len(s) - 1 - k] for s in sizes if len(s) > k]
        result.append(next((n for n in column if n != 1), 1))
    return tuple(reversed(result))


def keepdim_size(x, dims):
    return tuple(1 if d in dims else n for d, n in enumerate(x.size))


def canonical_dims(x, dims):
    """Dimensions as a sorted list of numbers in range; None or [] is all of them."""
    if isinstance(dims, int):
        dims = [dims]
    if dims is None or len(dims) == 0:
        return list(range(x.ndim))
    return sorted({d % x.ndim for d in dims}) if x.ndim else []


def canonical_dim(x, dim):
    return dim % x.ndim if x.ndim else 0


# --- elementwise ------------------------------------------------------------------------------------


def moved(x, device):
    """x computed on another device, where it reads no memory (constants, what follows from positions); else None."""
    load = x.body()
    source = next((b.data for b in current().buffers if isinstance(load, ir.Load) and b.name == load.buffer), None)
    if not isinstance(source, ir.Pointwise) or ir.loads(source.body):
        return None

    def inner(position):
        return ir.transform(source.body, dict(zip(source.vars, x.load(position).position, strict=True)))

    return TensorValue(device, x.dtype, x.size, inner)


def on_device(x, device):
    """A 0-dim CPU tensor beside CUDA tensors: a constant is inlined, anything else is copied over."""
    if x.device == device or x.device.type != "cpu" or device.type == "cpu":
        return x
    inlined = moved(x, device)
    if inlined is not None:
        return inlined
    with fake().fake_mode:
        like = torch.empty(x.size, dtype=x.dtype, device=device)
    return current().extern(aten._to_copy.default, (x,), {"device": device}, fake=like)


def rejected_by_eager():
    """Arguments that eager's kernel refuses: call that kernel, so that it raises what it raises."""
    graph, node = current(), current().node
    return graph.extern(node.target, *torch.fx.node.map_arg((node.args, node.kwargs), graph.env.__getitem__))


def number_value(x, dtype, device):
    """A number as a tensor without dimensions."""
    return TensorValue(device, dtype, (), lambda position: ir.constant(x, dtype))


def elementwise(function, operands, dtype, device=None):
    """function(*expressions) at every point of the operands, broadcast together and cast to `dtype`.

    dtype None leaves each tensor in its own (numbers are not allowed then).
    """
    tensors = [x for x in operands if isinstance(x, TensorValue)]
    size = broadcast_size(*(t.size for t in tensors))
    device = device or next((t.device for t in tensors if t.ndim), tensors[0].device)
    operands = [broadcast(on_device(x, device), size) if isinstance(x, TensorValue) else x for x in operands]

    def inner(position):
        return function(*(_element(x, position, dtype) for x in operands))

    return TensorValue(device, inner(ir.loop_vars(size)).dtype, size, inner)


def _element(x, position, dtype):
    if not isinstance(x, TensorValue):
        return ir.constant(x, dtype)
    value = x.load(position)
    return value if dtype is None else ir.op("cast", value, dtype=dtype)


def apply(name, *operands, dtype=None):
    """A row of `ops.OPS` on tensors and numbers; dtype: what to compute in (default: promoted as eager does)."""
    dtype = dtype or promote(*operands)
    return elementwise(lambda *exprs: ir.op(name, *exprs), operands, dtype)
