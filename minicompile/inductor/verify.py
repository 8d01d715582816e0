"""The IR verifier: every buffer typed, in range, and computed before it is read.

Goes in: an `IRGraph` or a `Schedule`.  Comes out: nothing, or `IRError` that names the buffer and what is wrong with
it. Runs after every pass when `config.verify_ir` is set (tests set it).  Mirrors nothing in PyTorch.  Taught in
chapter 09.
"""

from ..errors import InternalError
from . import ir
from .indexing import Indirect, Var
from .ir import Buffer, Extern, IndexExpr, Load, Masked, MultiOutput, Op, Pointwise, Reduction, Scan, Scatter, View
from .ops import OPS, REDUCTIONS


class IRError(InternalError):
    """The loop IR is malformed."""


def _require(condition, buffer, message):
    if not condition:
        raise IRError(f"{buffer.name}: {message}\n  {buffer}")


def verify_graph(graph):
    """Check a whole graph."""
    known = {name: layout for name, layout in graph.inputs.items() if layout is not None}
    known.update(graph.layouts)
    seen = {*graph.inputs, *graph.constants}
    for buffer in graph.buffers:
        _require(buffer.name not in seen, buffer, "defined twice")
        verify_buffer(buffer, known, seen)
        seen.add(buffer.name)
    for output in graph.outputs:
        if isinstance(output, View) and output.buffer not in seen:
            raise IRError(f"output {output} was never computed")


def verify_buffer(buffer, layouts, seen):
    data = buffer.data
    if isinstance(data, (Extern, MultiOutput)):
        for name in [data.source] if isinstance(data, MultiOutput) else [v.buffer for v in data.views()]:
            _require(name in seen, buffer, f"reads {name} before it is computed")
        return
    result = [v.size for v in data.vars]
    _require(
        tuple(result) == tuple(buffer.layout.size), buffer, f"loops over {result}, layout has {buffer.layout.size}"
    )
    _require(len(buffer.layout.stride) == len(buffer.layout.size), buffer, "sizes and strides differ in number")
    for expr, variables in bodies(data, buffer):
        verify_expr(expr, set(variables), buffer, layouts, seen)
    dtype = data.body.dtype
    dtype = ir.reduction_dtype(data.kind, dtype) if isinstance(data, Reduction) else dtype
    _require(dtype == buffer.layout.dtype, buffer, f"computes {dtype}, layout says {buffer.layout.dtype}")


def bodies(data, buffer):
    """(expression, loop variables in scope) of a loop nest."""
    if isinstance(data, Reduction):
        _require(data.kind in REDUCTIONS, buffer, f"unknown reduction {data.kind}")
        return [(data.body, data.vars + data.reduced)]
    if isinstance(data, Scatter):
        _require(data.initial.dtype == data.body.dtype, buffer, "scatters another dtype than it starts from")
        _require(len(data.position) == len(data.vars), buffer, "scatters to a position of another rank")
        position = [(IndexExpr(i, ir.torch.int64), data.points) for i in data.position]
        return [(data.initial, data.vars), (data.body, data.points), *position]
    assert isinstance(data, (Pointwise, Scan)), data
    return [(data.body, data.vars)]


def verify_expr(root, scope, buffer, layouts, seen):
    """Types, scope and ranges of an expression.

    Loads under a mask may lie outside: their mask keeps them from happening.
    """
    masked = {n for m in ir.walk(root) if isinstance(m, Masked) for part in m.args[1:] for n in ir.walk(part)}
    for node in ir.walk(root):
        for value in ir.indices(node):
            for atom in value.atoms():
                _require(
                    not isinstance(atom, Var) or atom in scope, buffer, f"{node} uses the unknown loop variable {atom}"
                )
                if isinstance(atom, Indirect):
                    narrow = () if atom.check or atom.wrap else (ir.torch.int32,)
                    _require(atom.expr.dtype in (ir.torch.int64, *narrow), buffer, f"address {atom} is no int64")
        if isinstance(node, Op):
            _require(node.name in OPS, buffer, f"unknown operation {node.name}")
            try:
                dtype = OPS[node.name].result_dtype([a.dtype for a in node.args], node.dtype)
            except TypeError as error:
                raise IRError(f"{buffer.name}: {error}\n  {buffer}") from None
            _require(dtype == node.dtype, buffer, f"{node} has dtype {node.dtype}, its rule says {dtype}")
        elif isinstance(node, Masked):
            condition, body, other = node.args
            _require(condition.dtype == ir.torch.bool and body.dtype == other.dtype, buffer, f"{node} mixes dtypes")
        elif isinstance(node, Load):
            verify_load(node, buffer, layouts, seen, node not in masked)


def verify_load(load, buffer, layouts, seen, check_range):
    _require(load.buffer in seen, buffer, f"reads {load.buffer} before it is computed")
    layout = layouts[load.buffer]
    _require(load.dtype == layout.dtype, buffer, f"{load} is {load.dtype}, {load.buffer} holds {layout.dtype}")
    _require(len(load.position) == len(layout.size), buffer, f"{load} has another rank than {load.buffer}: {layout}")
    empty = any(isinstance(v, Var) and v.size == 0 for i in load.position for v in i.vars())
    for position, size in zip(load.position, layout.size, strict=True):
        numbers = (size, position.constant, *(v.size for v in position.vars()))
        unknown = not all(isinstance(n, int) for n in numbers)  # nobody can tell
        inside = unknown or position.within(size) or size == 0
        _require(
            inside or empty or not check_range,
            buffer,
            f"{load}: {position} is not within 0 <= index < {size} of {load.buffer}",
        )


def verify_schedule(schedule):
    """Groups run after what they read, every buffer is computed once, and what crosses groups is stored."""
    done = {*schedule.graph.inputs, *schedule.graph.constants}
    names = [n for group in schedule.groups for n in group.names]
    for group in schedule.groups:
        first = group.nodes[0]
        holder = first if isinstance(first, Buffer) else first.buffer
        for name in group.reads:
            _require(name in done, holder, f"its kernel reads {name}, which is not stored yet")
        done.update(group.stored)
    if sorted(names) != sorted(b.name for b in schedule.graph.buffers):
        raise IRError("the schedule does not compute every buffer exactly once")
