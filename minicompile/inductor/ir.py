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
from math import prod as product
from typing import Any

import torch
from torch.utils._sympy.functions import FloorDiv

from .expr import (  # noqa: F401
    HALF,
    TURNS,
    Constant,
    Expr,
    Fetch,
    IndexExpr,
    Load,
    Masked,
    Op,
    compare,
    constant,
    cost,
    index_dtype,
    index_expr,
    indices,
    indirect,
    keep_checks,
    loads,
    op,
    short,
    side,
    transform,
    walk,
)
from .indexing import Var, flatten, index
from .ops import REDUCTIONS


def quotient(number, divisor):
    """number // divisor; of sizes as PyTorch writes it (Python's `//` of SymPy's would make another expression)."""
    return number // divisor if isinstance(number, int) and isinstance(divisor, int) else FloorDiv(number, divisor)


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

    def span(self):
        """Bytes from the first element to the last: more than it has where it lies as a part of something wider."""
        last = sum((n - 1) * step for n, step in zip(self.size, self.stride, strict=True))
        return 0 if 0 in self.size else (last + 1) * self.dtype.itemsize

    def is_contiguous(self):
        return all(
            n == 1 or a == b for n, a, b in zip(self.size, self.stride, contiguous_strides(self.size), strict=True)
        )

    def __str__(self):
        text = f"{short(self.dtype)}[{', '.join(map(str, self.size))}]"
        return text if self.is_contiguous() else f"{text}(strides {', '.join(map(str, self.stride))})"


# --- loop nests and calls ---------------------------------------------------------------------------


def loop_vars(size, prefix="i"):
    return tuple(Var(f"{prefix}{k}", n) for k, n in enumerate(size))


def ranges_text(variables, inner=()):
    text = ", ".join(f"{v} < {v.size}" for v in variables)
    return f"{text} | {ranges_text(inner)}" if inner else text


@dataclasses.dataclass(frozen=True)
class Pointwise:
    """result[vars] = body, for every position."""

    vars: tuple
    body: Expr

    def __str__(self):
        return f"pointwise({ranges_text(self.vars)}): {self.body}"


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
        return f"{self.kind}({ranges_text(self.vars)} | {ranges_text(self.reduced)}): {self.body}"


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
        return f"scan_{self.kind}({ranges_text(self.vars)} along {self.vars[self.dim]}): {self.body}"


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
        put = f"{ranges_text(self.points)}: [{where}] <- {self.body}"
        return f"scatter_{self.mode}({ranges_text(self.vars)}: {self.initial}; {put})"


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
    binds: (SizeSymbol, text behind the result's name) of each size that nobody knows before the call has returned.
    """

    target: Any  # torch._ops.OpOverload
    args: tuple
    kwargs: dict
    kind: str = "fallback"
    binds: tuple = ()

    @property
    def operator(self):
        """Also where the target calls a user's operator on copies of what it writes into."""
        return self.args[0] if isinstance(self.target, torch._ops.HigherOrderOperator) else self.target

    @property
    def ordered(self):
        """Must the call run, and in its turn?  Assertions must, and random draws, which advance the generator."""
        operator = self.operator
        return not operator._schema.returns or torch.Tag.nondeterministic_seeded in operator.tags

    def views(self):
        return [v for v in torch.utils._pytree.tree_leaves((self.args, self.kwargs)) if isinstance(v, View)]

    def __str__(self):
        args = [str(a) for a in self.args] + [f"{k}={v}" for k, v in self.kwargs.items()]
        binds = "".join(f"; {symbol} = its {place.strip('.') or 'value'}" for symbol, place in self.binds)
        return f"{self.kind} {self.target}({', '.join(args)}){binds}"


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
