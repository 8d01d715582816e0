"""The loop IR: expressions over loads, and the buffers whose loop nests compute them.

Goes in: what the lowerings build.  Comes out: a list of `Buffer`s, each with a `Layout` and one `data`: `Pointwise`,
`Reduction`, `Scatter`, `Extern` (an ATen call) or `MultiOutput`; printable, hash-consed, without mutation. Mirrors
`torch/_inductor/ir.py` and `ops_handler.py`.  Taught in chapter 09.

    buf0: float32[8, 16] = pointwise(i0 < 8, i1 < 16): relu(arg0[i0, i1])

A load names a *position* (one index per dimension), never an address: the address follows from the buffer's layout,
when code is generated.  A view is index arithmetic on positions.  Loop variables are `i0, i1, ...` (positions of the
result) and `r0, r1, ...` (reduced away).
"""

import dataclasses
from typing import Any

import torch

from .indexing import Indirect, Interned, Var, flatten, index
from .ops import OPS, REDUCTIONS

HALF = (torch.float16, torch.bfloat16)  # computed in float32


def short(dtype):
    return str(dtype).removeprefix("torch.")


def product(size):
    result = 1
    for n in size:
        result = result * n
    return result


def contiguous_strides(size):
    strides, step = [], 1
    for n in reversed(size):
        strides.append(step)
        step = step * (n if not isinstance(n, int) else max(n, 1))
    return tuple(reversed(strides))


@dataclasses.dataclass(frozen=True)
class Layout:
    """Where the elements of a buffer lie: sizes, strides and offset are `int | sympy.Expr`, in elements."""

    device: torch.device
    dtype: torch.dtype
    size: tuple
    stride: tuple
    offset: Any = 0

    @staticmethod
    def contiguous(device, dtype, size):
        return Layout(device, dtype, tuple(size), contiguous_strides(size))

    def address(self, position):
        result = index(self.offset)
        for i, step in zip(position, self.stride, strict=True):
            result = result + index(i) * step
        return result

    def numel(self):
        return product(self.size)

    def nbytes(self):
        return self.numel() * self.dtype.itemsize

    def is_contiguous(self):
        return all(
            n == 1 or a == b for n, a, b in zip(self.size, self.stride, contiguous_strides(self.size), strict=True)
        )

    def __str__(self):
        text = f"{short(self.dtype)}[{', '.join(map(str, self.size))}]"
        return text if self.is_contiguous() else f"{text}(strides {', '.join(map(str, self.stride))})"


# --- expressions ------------------------------------------------------------------------------------


class Expr(metaclass=Interned):
    """A scalar value at one point of a loop nest.  Interned: structurally equal expressions are one object."""

    __slots__ = ("dtype", "_walk", "_loads", "__weakref__")
    args = ()  # sub-expressions

    def rebuild(self, args, rewrite_index):
        """The same node with other sub-expressions and with `rewrite_index` applied to each Index in it."""
        return self


class Load(Expr):
    """buffer[position]: the element of a buffer (or graph input) at one index per dimension."""

    __slots__ = ("buffer", "position")

    def __init__(self, buffer, position, dtype):
        self.buffer, self.position, self.dtype = buffer, position, dtype

    def rebuild(self, args, rewrite_index):
        return Load(self.buffer, tuple(rewrite_index(i) for i in self.position), self.dtype)

    def __repr__(self):
        return f"{self.buffer}[{', '.join(map(str, self.position))}]"


class Fetch(Load):
    """A load that names its address instead of a position: what the scheduler's loops hold."""

    __slots__ = ()

    def __init__(self, buffer, address, dtype):
        super().__init__(buffer, (address,), dtype)

    def rebuild(self, args, rewrite_index):
        return Fetch(self.buffer, rewrite_index(self.position[0]), self.dtype)


class Constant(Expr):
    """A Python number in a dtype."""

    __slots__ = ("value",)

    def __init__(self, value, dtype):
        self.value, self.dtype = value, dtype

    @classmethod
    def key(cls, value, dtype):
        return type(value), repr(value), dtype  # 1, 1.0 and True differ; so do 0.0 and -0.0; NaN equals itself

    def __repr__(self):
        return repr(self.value)


class IndexExpr(Expr):
    """An index as a number: `arange`, masks such as `i0 < n`, symbolic sizes."""

    __slots__ = ("index",)

    def __init__(self, value, dtype):
        self.index, self.dtype = value, dtype

    def rebuild(self, args, rewrite_index):
        return IndexExpr(rewrite_index(self.index), self.dtype)

    def __repr__(self):
        return f"index({self.index})"


class Op(Expr):
    """A row of `ops.OPS` applied to expressions.  Build with `op(name, ...)`, which finds the dtype."""

    __slots__ = ("args", "name")

    def __init__(self, name, args, dtype):
        self.name, self.args, self.dtype = name, args, dtype

    def rebuild(self, args, rewrite_index):
        return Op(self.name, args, self.dtype)

    def __repr__(self):
        extra = f", {short(self.dtype)}" if self.name in OPS and OPS[self.name].rule == "given" else ""
        return f"{self.name}({', '.join(map(repr, self.args))}{extra})"


class Masked(Expr):
    """`body` where `condition` holds, else `other`.

    Loads in `body` happen only where it holds, loads in `other` only where it does not: elsewhere they may lie outside.
    """

    __slots__ = ("args",)

    def __init__(self, condition, body, other):
        self.args, self.dtype = (condition, body, other), body.dtype

    def rebuild(self, args, rewrite_index):
        return Masked(*args)

    def __repr__(self):
        return "masked({!r}, {!r}, {!r})".format(*self.args)


def op(name, *args, dtype=None):
    """An `Op` with its dtype from the operation's type rule;

    casts that change nothing vanish, casts of constants fold.
    """
    if name == "cast":
        (x,) = args
        if x.dtype == dtype:
            return x
        if isinstance(x, Constant):
            return constant(torch.tensor(x.value, dtype=x.dtype).to(dtype).item(), dtype)
        if isinstance(x, IndexExpr) and dtype in (torch.int32, torch.int64):
            return IndexExpr(x.index, dtype)
    return Op(name, tuple(args), OPS[name].result_dtype([a.dtype for a in args], dtype))


def constant(value, dtype):
    """A number in a dtype, converted as ATen converts scalars (rounded to half types too)."""
    if not isinstance(value, (bool, int, float)):
        return op("cast", IndexExpr(index(value), torch.int64), dtype=dtype)  # a symbolic size
    if dtype in HALF or dtype == torch.float32:
        value = torch.tensor(value, dtype=torch.float64).to(dtype).item()
    return Constant(
        float(value) if dtype.is_floating_point else bool(value) if dtype == torch.bool else int(value), dtype
    )


def index_expr(value, dtype=torch.int64):
    value = index(value)
    if value.is_constant and isinstance(value.constant, int):
        return constant(value.constant, dtype)
    return op("cast", IndexExpr(value, torch.int64), dtype=dtype)


def indirect(expr, size, wrap=True, check=True):
    """An Index that is loaded: an integer expression as the address within a dimension of `size`."""
    if isinstance(expr, Constant) and isinstance(size, int) and -size <= expr.value < size:
        return index(expr.value % size)
    if isinstance(expr, IndexExpr) and isinstance(size, int) and expr.index.within(size):
        return expr.index
    return index(Indirect(op("cast", expr, dtype=torch.int64), size, wrap, check))


def walk(root):
    """Every expression below `root`, each once, operands before users; those inside indirect indices too."""
    found = getattr(root, "_walk", None)
    if found is None:
        found = root._walk = tuple(_walk(root))
    return found


def _walk(root):
    seen, order, stack = set(), [], [(root, False)]
    while stack:
        node, done = stack.pop()
        if done:
            order.append(node)
        elif node not in seen:
            seen.add(node)
            stack.append((node, True))
            stack.extend((a, False) for a in reversed((*node.args, *_indirect_args(node))))
    return order


def _indirect_args(node):
    return [a.expr for value in indices(node) for a in value.atoms() if type(a) is Indirect] if not node.args else ()


def indices(node):
    """The indices that an expression names itself."""
    return node.position if isinstance(node, Load) else (node.index,) if isinstance(node, IndexExpr) else ()


def transform(root, mapping, replace=None, memo=None):
    """Rebuild an expression with loop variables substituted (Var -> Index).

    replace(node) may give another expression for an already rebuilt node; None keeps it.
    """
    memo = {} if memo is None else memo
    identity = all(i.terms == ((v, 1),) and i.constant == 0 for v, i in mapping.items()) and replace is None

    def rewrite_index(value):
        return value.substitute(mapping, visit)

    def visit(node):
        if node not in memo:
            new = node.rebuild(tuple(visit(a) for a in node.args), rewrite_index)
            other = replace(new) if replace else None
            memo[node] = new if other is None else other
        return memo[node]

    if identity:
        return root
    for node in walk(root):  # operands first: no deep recursion
        visit(node)
    return visit(root)


def loads(root):
    """Every load below `root`, each once."""
    found = getattr(root, "_loads", None)
    if found is None:
        found = root._loads = tuple(node for node in walk(root) if isinstance(node, Load))
    return found


def cost(root):
    """About how many vector instructions one point takes."""
    return sum(OPS[node.name].cost for node in walk(root) if isinstance(node, Op))


# --- loop nests and calls ---------------------------------------------------------------------------


def loop_vars(size, prefix="i"):
    return tuple(Var(f"{prefix}{k}", n) for k, n in enumerate(size))


def _ranges(variables):
    return ", ".join(f"{v} < {v.size}" for v in variables)


@dataclasses.dataclass(frozen=True)
class Pointwise:
    """result[vars] = body, for every position."""

    vars: tuple
    body: Expr

    def __str__(self):
        return f"pointwise({_ranges(self.vars)}): {self.body}"


@dataclasses.dataclass(frozen=True)
class Reduction:
    """result[vars] = combine over reduced of body.  kind: a row of `ops.REDUCTIONS`.

    For argmax/argmin the result is the row-major number of `reduced` of the first winner.
    """

    vars: tuple
    reduced: tuple
    kind: str
    body: Expr

    def __str__(self):
        return f"{self.kind}({_ranges(self.vars)} | {_ranges(self.reduced)}): {self.body}"


@dataclasses.dataclass(frozen=True)
class Scan:
    """result[.., k, ..] = combine of body over 0..k along one dimension (`vars[dim]`).

    kind: "sum", "prod", "max", "min".
    """

    vars: tuple
    dim: int
    kind: str
    body: Expr

    def __str__(self):
        return f"scan_{self.kind}({_ranges(self.vars)} along {self.vars[self.dim]}): {self.body}"


@dataclasses.dataclass(frozen=True)
class Scatter:
    """result = initial everywhere; then, for every point in order, result[position] is stored/combined with body.

    mode: "store" (the last one wins), or "add", "prod", "max", "min".  `initial` is an expression over `vars`.
    """

    vars: tuple
    initial: Expr
    points: tuple
    position: tuple
    body: Expr
    mode: str

    def __str__(self):
        where = ", ".join(map(str, self.position))
        put = f"{_ranges(self.points)}: [{where}] <- {self.body}"
        return f"scatter_{self.mode}({_ranges(self.vars)}: {self.initial}; {put})"


@dataclasses.dataclass(frozen=True)
class View:
    """A tensor argument of an ATen call: a strided view of a buffer."""

    buffer: str
    layout: Layout

    def __str__(self):
        return f"{self.buffer}:{self.layout}"


@dataclasses.dataclass(frozen=True)
class Extern:
    """A call of an ATen operator.  args/kwargs hold numbers, lists and `View`s.

    kind: "extern" for the calls we want (matmul, convolution, attention), "fallback" where there is no lowering.
    """

    target: Any  # torch._ops.OpOverload
    args: tuple
    kwargs: dict
    kind: str = "fallback"

    @property
    def ordered(self):
        """Must the call run, and in its turn?  Assertions must, and random draws, which advance the generator."""
        return not self.target._schema.returns or torch.Tag.nondeterministic_seeded in self.target.tags

    def views(self):
        found = []
        torch.utils._pytree.tree_map_only(View, found.append, (self.args, self.kwargs))
        return found

    def __str__(self):
        args = [str(a) for a in self.args] + [f"{k}={v}" for k, v in self.kwargs.items()]
        return f"{self.kind} {self.target}({', '.join(args)})"


@dataclasses.dataclass(frozen=True)
class MultiOutput:
    """Result number `path` of a call that returns several tensors."""

    source: str
    path: int

    def __str__(self):
        return f"{self.source}[{self.path}]"


Loops = (Pointwise, Reduction, Scan, Scatter)


@dataclasses.dataclass
class Buffer:
    """One computed value.  layout is None for a call with several results (its `MultiOutput`s have layouts)."""

    name: str
    layout: Layout | None
    data: Any
    origin: str = ""  # the FX node that asked for it

    @property
    def size(self):
        return self.layout.size

    def __str__(self):
        return f"{self.name}: {self.layout} = {self.data}" if self.layout else f"{self.name} = {self.data}"


def flat_position(variables):
    """The row-major number of a point."""
    return flatten(tuple(index(v) for v in variables), tuple(v.size for v in variables))


def reduction_dtype(kind, dtype):
    """The dtype of a reduction's result, given its body's."""
    assert kind in REDUCTIONS, kind
    return torch.int64 if kind in ("argmax", "argmin") else dtype
