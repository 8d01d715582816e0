"""The expressions of the loop IR: scalar values at one point of a loop nest.

Goes in: operands.  Comes out: interned `Expr` nodes (equal expressions are one object), and the functions that walk and
rewrite them.  Mirrors `torch/_inductor/ops_handler.py` and `OpsValue`.  Taught in chapter 09.
"""

import functools

import sympy
import torch

from .indexing import Indirect, Interned, index
from .ops import OPS

HALF = (torch.float16, torch.bfloat16)  # computed in float32


def short(dtype):
    return str(dtype).removeprefix("torch.")


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
        return settled(self.name, args) or Op(self.name, args, self.dtype)

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
        condition, body, other = args
        return (body if condition.value else other) if isinstance(condition, Constant) else Masked(*args)

    def __repr__(self):
        return "masked({!r}, {!r}, {!r})".format(*self.args)


def op(name, *args, dtype=None):
    """An `Op` with its dtype from the operation's type rule;

    casts that change nothing vanish, casts of constants fold, and so does what no point has to ask.
    """
    if name == "cast":
        (x,) = args
        if x.dtype == dtype:
            return x
        if isinstance(x, Constant):
            return constant(torch.tensor(x.value, dtype=x.dtype).to(dtype).item(), dtype)
        if isinstance(x, IndexExpr) and dtype in (torch.int32, torch.int64):
            return IndexExpr(x.index, dtype)
    return settled(name, args) or Op(name, tuple(args), OPS[name].result_dtype([a.dtype for a in args], dtype))


# Comparison of v with 0 -> whether it holds for small v, and the first v for which that changes.
TURNS = {"lt": (True, 0), "le": (True, 1), "ge": (False, 0), "gt": (False, 1)}
NEUTRAL = {"logical_and": True, "bitwise_and": True, "logical_or": False, "bitwise_or": False}  # changes nothing


def side(expr):
    """One side of a comparison of indices, as an Index; else None."""
    value = expr.index if isinstance(expr, IndexExpr) else getattr(expr, "value", None)
    return index(value) if isinstance(expr, IndexExpr) or type(value) is int else None


def settled(name, args):
    """What an operation comes to at every point of its loops, or None where that depends.  No check gets lost."""
    if name in NEUTRAL and all(a.dtype == torch.bool for a in args):
        rest = [a for a in args if not (isinstance(a, Constant) and a.value == NEUTRAL[name])]
        return (rest or args)[0] if len(rest) < 2 else None
    if name not in TURNS or not any(isinstance(a, IndexExpr) for a in args):
        return None
    sides = [side(a) for a in args]
    if None in sides or args[0].dtype != torch.int64 and index_dtype(*sides) == torch.int64:  # it may not fit
        return None
    difference = sides[0] - sides[1]
    (low, high), (before, turn) = difference.bounds(), TURNS[name]
    if not (difference.is_affine() and isinstance(low, int) and isinstance(high, int)) or low < turn <= high:
        return None
    return Constant(before if high < turn else not before, torch.bool)


class LateNumber:
    """A number that is known at run time only."""

    def element(self, dtype):
        """The expression that reads it."""
        raise NotImplementedError


def constant(value, dtype):
    """A number in a dtype, converted as ATen converts scalars (rounded to half types too)."""
    if isinstance(value, LateNumber):
        return value.element(dtype)
    if not isinstance(value, (bool, int, float)):
        made = size_expr(value) if isinstance(value, sympy.Expr) else index_expr(value)
        return op("cast", made, dtype=dtype)
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


def index_dtype(*values):
    """int32, in which processors count fastest, where it holds every value of these indices; else int64."""
    bounds = [bound for value in values for bound in index(value).bounds()]
    fits = all(isinstance(b, int) and -(2**31) <= b < 2**31 for b in bounds)
    return torch.int32 if fits else torch.int64


def compare(name, a, b):
    """A comparison of two indices."""
    dtype = index_dtype(a, b)
    return op(name, index_expr(a, dtype), index_expr(b, dtype))


def indirect(expr, size, wrap=True, check=True):
    """An Index that is loaded: an integer expression as the address within a dimension of `size`."""
    if isinstance(expr, Constant) and isinstance(size, int) and -size <= expr.value < size:
        return index(expr.value % size)
    if isinstance(expr, IndexExpr) and isinstance(size, int) and expr.index.within(size):
        return expr.index
    return index(Indirect(op("cast", expr, dtype=torch.int64), size, wrap, check))


def keep_checks(value, position, size):
    """`value`, as read in a tensor of `size` at a position.  Loaded indices are checked even where the value does not
    depend on them: in an expanded or constant tensor, and in one without elements."""
    wanted = dict.fromkeys(a for i in position for a in i.atoms() if type(a) is Indirect and a.check)
    if wanted:
        nodes = () if 0 in size else walk(value)
        used = {atom for node in nodes for i in indices(node) for atom in i.atoms()}
        for atom in wanted:
            if atom not in used:
                value = op("where", compare("ge", index(atom), 0), value, constant(0, value.dtype))
    return value


def walk(root):
    """Every expression below `root`, each once, operands before users; those inside indirect indices too."""
    if (found := getattr(root, "_walk", None)) is not None:
        return found
    seen, order, stack = set(), [], [(root, False)]
    while stack:
        node, done = stack.pop()
        if done:
            order.append(node)
        elif node not in seen:
            seen.add(node)
            stack.append((node, True))
            loaded = (a.expr for value in indices(node) for a in value.atoms() if type(a) is Indirect)
            stack.extend((a, False) for a in reversed(node.args or tuple(loaded)))
    root._walk = tuple(order)
    return root._walk


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


# SymPy's functions of sizes, and those that ShapeEnv adds -> operation on float64
SIZE_OPERATIONS = {"Add": "add", "Mul": "mul", "FloatTrueDiv": "truediv", "IntTrueDiv": "truediv", "FloatPow": "pow"}
SIZE_OPERATIONS |= {"Pow": "pow", "OpaqueUnaryFn_sqrt": "sqrt"}


def size_expr(value):
    """A number made of symbolic sizes as an expression: int64 where it is an integer, else float64."""
    if value.is_integer:
        return index_expr(value)
    if value.is_number:
        return constant(float(value), torch.float64)
    kind = type(value).__name__
    parts = [op("cast", size_expr(part), dtype=torch.float64) for part in value.args]
    if kind == "ToFloat":
        return parts[0]
    if kind not in SIZE_OPERATIONS:
        raise TypeError(f"Cannot convert expression to loops: {value}")
    if len(parts) == 1:
        return op(SIZE_OPERATIONS[kind], parts[0])
    return functools.reduce(functools.partial(op, SIZE_OPERATIONS[kind]), parts)
