"""Numbers that change from call to call: sizes of inputs with symbolic dimensions, ints, and what is computed of them.

Goes in: a SymInt, SymFloat or SymBool with the graph node that computes it.  Comes out: arithmetic as graph nodes.
Where Python needs the number itself (a loop's length, a list's index, a branch) it is looked at: the value of this call
is taken, and that it is this value becomes a guard; a number that only the graph knows breaks the graph there.
Mirrors `SymNodeVariable` in `torch/_dynamo/variables/tensor.py`.  Taught in chapter 07.
"""

import math
import operator

import torch
from torch.utils._sympy.functions import FloorDiv
from torch.utils._sympy.symbol import SymT, symbol_is_type

from ..builder import wraps
from ..dynamic_shapes import LARGEST_INT, is_symbolic
from .base import NotConstant, VariableTracker, is_question, unsupported
from .constant import ConstantVariable

PYTHON_TYPES = {torch.SymInt: int, torch.SymFloat: float, torch.SymBool: bool}
# functions of numbers that a graph can hold, and what stands for them there
GRAPH_FUNCTIONS = {
    int: torch.sym_int,
    float: torch.sym_float,
    min: torch.sym_min,
    max: torch.sym_max,
    math.sqrt: torch._sym_sqrt,
    math.log2: torch._sym_log2,
    math.floor: math.floor,
    math.ceil: math.ceil,
    math.trunc: math.trunc,
    round: round,
}


# what a graph computes of floats as Python does, to the last bit
FLOAT_ARITHMETIC = {operator.add, operator.sub, operator.mul, operator.truediv, operator.neg}
REMAINDERS = {operator.mod, operator.floordiv}
BITWISE = {operator.and_, operator.or_, operator.xor}
COMPARISONS = {operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge}
# What has to hold of the right operand and 0: SymPy also simplifies what would raise (`n % n`, `0 << n`), takes a
# number divided twice for one divided by the product, a power for an int, and has one zero.
CONDITIONS = {
    **dict.fromkeys([*REMAINDERS, operator.truediv], operator.gt),
    **dict.fromkeys([operator.lshift, operator.rshift, operator.pow], operator.ge),
}


class SymNodeVariable(VariableTracker):
    """node: the FX node that computes the number; symbol: what is known of it.

    varies: it is another number in each round of a loop, so that looking at it breaks the graph instead.
    """

    def __init__(self, output, node, symbol, source=None, varies=False):
        super().__init__(source)
        self.output, self.node, self.symbol, self.varies = output, node, symbol, varies

    def python_type(self):
        return PYTHON_TYPES[type(self.symbol)]

    def is_known(self):
        """Whether a guard can ask for it."""
        return not self.varies and self.output.sizes.knows(self.symbol.node.expr)

    def became_known(self):
        """Whether a guard says which number it is."""
        return self.symbol.node.hint is not None and not is_symbolic(self.symbol)

    def is_python_constant(self):
        return self.is_known()  # who asks gets it, guarded

    def as_python_constant(self):
        if not is_question():
            self.check_varies()
            for number in self.inexact() or [self.symbol] * (not self.became_known()):
                PYTHON_TYPES[type(number)](number)
                self.output.take_question()
        if self.symbol.node.hint is None:
            raise NotConstant(self)
        return self.python_type()(self.symbol.node.hint)  # of a float SymPy knows it less exactly

    def floats(self):
        """The symbols of floats that are in it, also of those that are known by now."""
        symbols = self.symbol.node._expr.free_symbols if self.python_type() is not int else ()
        return [s for s in symbols if symbol_is_type(s, (SymT.FLOAT, SymT.UNBACKED_FLOAT))]

    def inexact(self):
        """The numbers of the outside world that are in it, where SymPy does not compute as Python: all of a float."""
        sizes = self.output.sizes
        known = sizes.numbers if self.python_type() is float else sizes.floats
        return [known[symbol] for symbol in self.symbol.node.expr.free_symbols if symbol in known]

    def is_exact(self):
        """Whether SymPy, asked about it, says what Python says: of a float only where nothing was computed."""
        return self.symbol.node.expr.is_symbol or not (self.is_known() and self.inexact())

    def check_varies(self):
        if self.varies:
            name = self.source.name if self.source is not None else self.node.name
            unsupported("value that varies in a loop", f"{name} is another number each time")

    def known(self):
        """The number, as a constant: a guard from here on."""
        return ConstantVariable(self.as_python_constant())

    def is_immutable(self):
        return True

    def is_literal(self):
        return False

    def as_proxy(self):
        return self.node

    def truth(self, tx):
        from .float_questions import answer

        if not self.is_known():
            self.check_varies()
        if type(self.symbol) is torch.SymFloat and not self.symbol.node.expr.is_symbol:
            answered = answer(tx, bool, self)
            if answered is not None:
                return answered.value
        number = self.symbol if type(self.symbol) is torch.SymBool else self.symbol != 0
        truth = bool(number)
        self.output.take_question()
        return truth

    def var_getattr(self, tx, name):
        return self.known().var_getattr(tx, name)

    def call_method(self, tx, name, args, kwargs):
        return self.known().call_method(tx, name, args, kwargs)

    def reconstruct(self, codegen):
        codegen.load_graph_output(self.node)

    def __repr__(self):
        return f"SymNodeVariable({self.node.name}: {self.symbol})"


def is_arithmetic(operands):
    """Numbers, of which one at least is symbolic (a bool is none: SymPy does not compare it with numbers)."""
    return any(isinstance(v, SymNodeVariable) for v in operands) and all(
        isinstance(v, SymNodeVariable) or (isinstance(v, ConstantVariable) and fits_graph(v.value)) for v in operands
    )


def fits_graph(value):
    """A number of the size that a graph works with."""
    return type(value) is float or (type(value) is int and abs(value) <= LARGEST_INT)


def settled(function, *operands):
    """The operands; as constants where a graph, or SymPy for a guard, says not quite what Python says."""
    operands = tuple(v.known() if isinstance(v, SymNodeVariable) and v.became_known() else v for v in operands)
    if not is_arithmetic(operands):
        return operands
    symbolic = [v for v in operands if isinstance(v, SymNodeVariable)]
    floats = [v for v in symbolic if v.floats() or (function in COMPARISONS and not v.is_exact())]
    constants = [v.value for v in operands if isinstance(v, ConstantVariable)]
    if sympy_errs(function, operands) or not is_regular(function, operands):
        return tuple(v.known() if isinstance(v, SymNodeVariable) else v for v in operands)
    is_exact = all(math.isfinite(value) and (value or type(value) is int) for value in constants)
    if not floats and is_exact and not (function in REMAINDERS and any(v.python_type() is float for v in operands)):
        return operands
    if function in COMPARISONS and is_exact and all(v.symbol.node.expr.is_symbol for v in floats):
        return operands
    if function in FLOAT_ARITHMETIC and is_exact and 0 not in constants:
        try:
            if is_symbolic(function(*(v.symbol if isinstance(v, SymNodeVariable) else v.value for v in operands))):
                return operands
        except ArithmeticError:  # which the program is to meet
            pass
    return tuple(v.known() if isinstance(v, SymNodeVariable) else v for v in operands)


def sympy_errs(function, operands):
    """`&` and its like have no assumptions and ShapeEnv has wrong bounds of them; where SymPy does not see that it
    compares numbers (those, roots, logarithms), ShapeEnv says that `a < a`."""
    symbolic = [v for v in operands if isinstance(v, SymNodeVariable)]
    if function in BITWISE:
        return all(v.is_known() for v in symbolic) and any(v.python_type() is int for v in operands)
    return function in COMPARISONS and any(getattr(v.symbol.node.expr, "is_real", True) is None for v in symbolic)


def is_regular(function, operands):
    """Whether it gives a number that a graph works with; that the program is not to meet an error is a guard."""
    hints = [v.symbol.node.hint if isinstance(v, SymNodeVariable) else v.value for v in operands]
    if None not in hints:
        try:
            result = function(*hints)
        except (ArithmeticError, TypeError, ValueError):
            return False
        if type(result) is int and not fits_graph(result):
            return False
    left, right = operands[0], operands[-1]
    divided = function in REMAINDERS and isinstance(left, SymNodeVariable) and left.symbol.node.expr.has(FloorDiv)
    if function not in CONDITIONS or isinstance(right, ConstantVariable):
        return not divided or right.value > 0
    if None in hints and not divided:
        result = function(*(v.symbol if isinstance(v, SymNodeVariable) else v.value for v in operands))
        if is_symbolic(result) and right.symbol.node.expr.free_symbols <= result.node.expr.free_symbols:
            return True  # SymPy has the operand still: the graph computes it
    holds = bool(CONDITIONS[function](right.symbol, 0))
    right.output.sizes.locate(right.output.user_location)
    return holds


def refuse_question(output, question):
    """An operator, or the program, asks for the truth or the number of a SymPy expression that only the graph knows."""
    reads = {str(s): output.sizes.reads[s] for s in question.free_symbols if s in output.sizes.reads}
    if not reads:
        unsupported("value that varies in a loop", f"`{question}` is asked, which is another each time")
    places = ", ".join(f"{name} is read at {place}" for name, place in sorted(reads.items()))
    unsupported("number read from data", f"`{question}` has to be known, where {places}")


@wraps(torch.SymInt, torch.SymFloat, torch.SymBool)
def wrap_symbol(output, value, source):
    """A symbolic number that no graph node computes is looked at."""
    number = PYTHON_TYPES[type(value)](value)
    output.sizes.locate(output.user_location)
    return ConstantVariable(number)
