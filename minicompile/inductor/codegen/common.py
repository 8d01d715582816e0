"""What the code generators share: emitting expressions once, in the outermost scope where their value is known.

Goes in: expressions of a group's nodes.  Comes out: statements in nested `Scope`s.  A generator says how a load, a
constant, an index and an operation are written; `ExprWriter` does common subexpressions, hoisting, masks and the
values that nodes of one kernel hand to each other.  Mirrors `torch/_inductor/codegen/common.py` (`CSE`, `Kernel`).
Taught in chapter 11.
"""

import dataclasses

from .. import ir
from ..indexing import FloorDiv, Indirect, Var
from ..ir import Constant, IndexExpr, Load, Masked, Op
from ..ops import OPS


class Scope:
    """The statements of one loop body, and the values that they have computed."""

    def __init__(self):
        self.lines, self.values, self.stores = [], {}, []


@dataclasses.dataclass
class Forward:
    """The value of a buffer of this kernel, known without loading it:

    its text, and the variable or depth of its scope.
    """

    text: str
    where: object


@dataclasses.dataclass
class Kernel:
    """A function in the target language: `text` has `@NAME@` in place of its name.

    params: buffer names in the order of the arguments; numbers: what it takes behind them, made of symbolic sizes.
    """

    text: str
    params: list
    numbers: list
    types: list  # of the parameters, in the target language
    summary: str


def summary_of(words, bodies):
    """The name of a kernel: the first few things that it does."""
    words = [*words, *(o.name for body in bodies for o in ir.walk(body) if isinstance(o, Op) and o.name != "cast")]
    return "_".join(list(dict.fromkeys(words))[:5]) or "copy"


class ExprWriter:
    """Writes expressions into a stack of scopes.  Depth k is `self.scopes[k]`; depth 0 is the function body.

    A generator adds how it writes what is no common ground: `constant(expr)`, `load(expr, address, mask)`,
    `operation(expr, args, mask)`, `select(condition, body, other, dtype)`, `assign(name, dtype, text)`, and of indices
    `index_value(expr, mask)`, `indirect(atom, text, mask)`, DIVISION and REMAINDER: (operator, function for any sign).
    """

    def __init__(self, addresses):
        self.addresses, self.scopes, self.depth_of_var = addresses, [Scope()], {}
        self.forwards, self.count, self._facts = {}, 0, {}
        self.made = {}  # name of a value in the text -> the expression, or the name of the node, that it is
        self.numbers = {}  # what depends on symbolic sizes: expression -> name of the kernel's parameter

    def local_load(self, expr):
        """A load of a buffer of this kernel that is not forwarded: another way to its value, or None to load it."""

    def sharing(self, reads, writes, storage):
        """(buffers that share memory, those of them that are written, the parameter that they have together).

        storage: name -> whose memory it is in.
        """
        members, kinds = {}, []
        for name in dict.fromkeys((*reads, *writes)):
            members.setdefault(storage.get(name, name), []).append(name)
        for names in members.values():
            written = [name for name in names if name in writes]
            kinds.append("io" if written and len(names) > 1 else "out" if written else "in")
            yield names, written, f"{kinds[-1]}{kinds.count(kinds[-1]) - 1}"

    # --- scopes ---

    def push(self, *variables):
        self.scopes.append(Scope())
        for var in variables:
            self.depth_of_var[var] = len(self.scopes) - 1

    def pop(self):
        """Close the innermost scope; its statements, stores last."""
        scope = self.scopes.pop()
        return [*scope.lines, *scope.stores]

    def line(self, *texts):
        self.scopes[-1].lines.extend(texts)

    # --- values ---

    def value(self, expr, mask=None):
        """The text of an expression's value; `mask` is the condition (an Expr) under which it is needed."""
        if isinstance(expr, Constant):
            return self.constant(expr)
        if isinstance(expr, Load) and expr.buffer in self.forwards:
            return self.forwards[expr.buffer].text
        mask_key = mask if mask is not None and self.facts(expr)[2] else None
        key = (expr, mask_key)
        found = self.lookup(key)
        if found is not None:
            return found
        if isinstance(expr, Load):
            other = self.local_load(expr)
            text = other if other is not None else self.load(expr, self.addresses.of(expr), mask_key)
        elif isinstance(expr, IndexExpr):
            text = self.index_value(expr, mask)
        elif isinstance(expr, Masked):
            condition, body, other = expr.args
            inside, outside = condition, ir.op("logical_not", condition)
            if mask is not None:
                inside, outside = (ir.op("logical_and", mask, side) for side in (inside, outside))
            text = self.select(
                self.value(condition, mask), self.value(body, inside), self.value(other, outside), expr.dtype
            )
        else:
            text = self.operation(expr, [self.value(a, mask) for a in expr.args], mask_key)
        return self.define(key, expr.dtype, text, self.depth(expr, mask_key))

    def forward(self, name, text, where=None):
        """From here on, a load of this buffer is this value.  where: see Forward; by default the innermost scope."""
        self.forwards[name] = Forward(text, len(self.scopes) - 1 if where is None else where)
        self._facts.clear()

    def facts(self, expr):
        """(loop variables, buffers of this kernel, whether it must be masked) of an expression, remembered."""
        if expr not in self._facts:
            for node in ir.walk(expr):
                if node not in self._facts:
                    self._facts[node] = self._own_facts(node)
        return self._facts[expr]

    def _own_facts(self, node):
        if isinstance(node, Load) and node.buffer in self.forwards:
            return frozenset(), frozenset((node.buffer,)), False
        masked = isinstance(node, Load) or isinstance(node, Op) and "{err}" in OPS[node.name].cpp
        used, local = set(), set()
        parts = list(node.args)
        for value in (self.addresses.of(node),) if isinstance(node, Load) else ir.indices(node):
            used |= value.vars()
            parts += [a.expr for a in value.atoms() if isinstance(a, Indirect)]
        for part in parts:
            more, buffers, fails = self.facts(part)
            used, local, masked = used | more, local | buffers, masked or fails
        return frozenset(used), frozenset(local), masked

    def lookup(self, key):
        for scope in self.scopes:
            if key in scope.values:
                return scope.values[key]
        return None

    def define(self, key, dtype, text, depth):
        """Give a value a name, in the scope of this depth; who asks for it again is given the name."""
        name = self.fresh("t", key[0])
        scope = self.scopes[depth]
        scope.lines.append(self.assign(name, dtype, text))
        scope.values[key] = name
        return name

    def fresh(self, prefix, thing):
        """A new name in the text, for an expression, or for a node by its name."""
        self.count += 1
        self.made[f"{prefix}{self.count}"] = thing
        return f"{prefix}{self.count}"

    def depth(self, expr, mask=None):
        """The outermost scope in which an expression can be computed."""
        deepest = 0
        for root in (expr, mask) if mask is not None else (expr,):
            used, local, _ = self.facts(root)
            places = [*used, *(self.forwards[name].where for name in local)]
            deepest = max([deepest, *(p if isinstance(p, int) else self.depth_of_var[p] for p in places)])
        return deepest

    # --- addresses ---

    def index(self, value, mask=None):
        """The text of an index."""
        parts = [t if isinstance(c, int) and c == 1 else f"{self.size(c)}*{t}" for t, c in self.terms(value, mask)]
        if not parts or not (isinstance(value.constant, int) and value.constant == 0):
            parts.append(self.size(value.constant))
        return " + ".join(parts).replace("+ -", "- ")

    def terms(self, value, mask):
        """(text, what it is multiplied by) of each part of an index."""
        return ((self.atom(atom, mask), c) for atom, c in value.terms)

    def size(self, value):
        return str(value) if isinstance(value, int) else self.numbers.setdefault(value, f"n{len(self.numbers)}")

    def atom(self, atom, mask):
        if isinstance(atom, Var):
            return str(atom)
        if isinstance(atom, Indirect):
            key = (atom, mask)
            found = self.lookup(key)
            if found is None:
                text = self.indirect(atom, self.value(atom.expr, mask), mask)
                found = self.define(key, ir.torch.int64, text, self.depth(atom.expr, mask))
            return found
        return self.division(atom, self.index(atom.index, mask), isinstance(atom, FloorDiv))

    def division(self, atom, text, floor):
        """A quotient or remainder of an index; where it cannot be negative, the target's own operator is right."""
        low, _ = atom.index.bounds()
        plain, function = self.DIVISION if floor else self.REMAINDER
        if isinstance(low, int) and low >= 0:
            return f"(({text}) {plain} {self.size(atom.divisor)})"
        return f"{function}({text}, {self.size(atom.divisor)})"


def needs_error(expr):
    """Can this expression make the kernel fail at run time (index out of range, integer division by zero)?"""
    for node in ir.walk(expr):
        if isinstance(node, Op) and "{err}" in OPS[node.name].cpp:
            return True
        if any(isinstance(a, Indirect) and (a.check or a.wrap) for value in ir.indices(node) for a in value.atoms()):
            return True
    return False
