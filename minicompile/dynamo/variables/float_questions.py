"""Questions about floats that change from call to call: the guard is about the answer, not about the float.

Goes in: `rate * 2 > 0.5`, `int(rate * 10)`, `math.isnan(rate)`, where `rate` is a symbol.  Comes out: the answer of
this call as a constant, and a guard, in the program's own arithmetic, that it is the same at other calls.  SymPy would
round in another order than Python does: so it is not asked where a float was computed.
Mirrors `evaluate_expr` of `torch/fx/experimental/symbolic_shapes.py`.  Taught in chapter 07.
"""

import math
import operator

import torch

from ..guards import ShapeGuard
from .constant import ConstantVariable
from .symbolic import COMPARISONS, GRAPH_FUNCTIONS, SymNodeVariable, is_arithmetic
from .tensor import graph_call

QUESTIONS = {
    operator.lt: "{} < {}",
    operator.le: "{} <= {}",
    operator.gt: "{} > {}",
    operator.ge: "{} >= {}",
    operator.eq: "{} == {}",
    operator.ne: "{} != {}",
    bool: "bool({})",
    int: "int({})",
    round: "round({})",
    math.floor: "math.floor({})",
    math.ceil: "math.ceil({})",
    math.trunc: "math.trunc({})",
    math.isnan: "math.isnan({})",
    math.isinf: "math.isinf({})",
    math.isfinite: "math.isfinite({})",
}
COMPUTED = {  # target of a node -> the same in Python
    operator.add: "({} + {})",
    operator.sub: "({} - {})",
    operator.mul: "({} * {})",
    operator.truediv: "({} / {})",
    operator.neg: "(-{})",
    operator.floordiv: "({} // {})",
    operator.mod: "({} % {})",
    operator.pow: "({} ** {})",
    torch.sym_float: "float({})",
    torch.sym_int: "int({})",
    torch._sym_sqrt: "math.sqrt({})",
}


class Formula:
    """Python text with `{0}`, `{1}`, ... for the numbers from outside: their sources, and their values in this call."""

    def __init__(self, sizes):
        self.sizes, self.sources, self.values = sizes, [], []

    def text(self, value):
        """The text of a number or of a node that computes one; None where it is not computed of known numbers."""
        node = value
        value = value.meta["example_value"] if isinstance(value, torch.fx.Node) else value
        if isinstance(value, (int, float)):
            return repr(value).join("()") if math.isfinite(value) else f"float('{value}')"
        if value.node._expr in self.sizes.sources:
            return self.place(self.sizes.sources[value.node._expr], value.node.hint)
        parts = [self.text(argument) for argument in node.args] if node.target in COMPUTED else [None]
        return None if None in parts else COMPUTED[node.target].format(*parts)

    def place(self, source, value):
        if source not in self.sources:
            self.sources.append(source)
            self.values.append(value)
        return f"{{{self.sources.index(source)}}}"


def is_computed(operand):
    """Whether it is a float that was computed of known symbols."""
    return isinstance(operand, SymNodeVariable) and operand.is_known() and bool(operand.inexact())


def answer(tx, function, *operands):
    """A ConstantVariable, or None where this is no such question.  What ShapeEnv answers exactly is left to it."""
    if QUESTIONS.get(function, "").count("{}") != len(operands):
        return None
    operands = [operand.realize() for operand in operands]
    computed = [operand for operand in operands if is_computed(operand)]
    if function in GRAPH_FUNCTIONS:  # which the graph computes of a float that comes from ints
        computed = [operand for operand in computed if operand.floats()]
    exact = function in COMPARISONS and all(operand.is_exact() for operand in computed)
    return None if exact or not computed or not is_arithmetic(operands) else ask(tx, function, *operands)


def ask(tx, function, *operands):
    """A ConstantVariable and its guard; None where a number comes from something else than arithmetic."""
    formula = Formula(tx.output.sizes)
    texts = [formula.text(o.node if isinstance(o, SymNodeVariable) else o.value) for o in operands]
    if None in texts:
        return None
    question = QUESTIONS[function].format(*texts)
    names = [f"v{k}" for k in range(len(formula.values))]
    try:
        found = eval(question.format(*names), {"math": math, **dict(zip(names, formula.values))})
    except ArithmeticError:  # the program is to meet it
        return None
    text = question if found is True else f"not {question}" if found is False else f"{question} == {found!r}"
    tx.output.guards.add_shape(ShapeGuard(text, tuple(formula.sources), tx.output.user_location, real=True))
    return ConstantVariable(found)


def absolute(tx, operand):
    """abs() of a float whose sign becomes a guard; None for other numbers, and for zeros."""
    for function, result in ((operator.gt, operand), (operator.lt, None)):
        answered = ask(tx, function, operand, ConstantVariable(0)) if is_computed(operand) else None
        if answered is not None and answered.value:
            return result or graph_call(tx, operator.neg, [operand], {})
    return None
