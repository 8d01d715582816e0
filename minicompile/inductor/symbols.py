"""The symbols of a graph's sizes: what they are called in kernels and in the wrapper, and where each is read.

Goes in: SymInts, SymFloats and SymBools of the ATen graph.  Comes out: SymPy expressions in `SizeSymbol`s; for each
symbol the Python text that reads it from the inputs, or the result that brings it (`nonzero`, `.item()`): a symbol that
nobody knew during capture is bound when the call that makes it has returned, and used behind that.
Mirrors `defs_subgraph`, `unbacked_bindings` and `SizeVarAllocator` in `torch/_inductor`.  Taught in chapter 07.
"""

import sympy
import torch
from torch.utils._sympy.functions import CleanDiv
from torch.utils._sympy.functions import FloorDiv as SizeDiv
from torch.utils._sympy.printers import PythonPrinter
from torch.utils._sympy.symbol import SymT, symbol_is_type

from . import ir
from .floats import FloatValue
from .indexing import Indirect, Quotient, SizeSymbol
from .ir import Extern, MultiOutput, View

UNBACKED = (SymT.UNBACKED_INT, SymT.UNBACKED_FLOAT)
UNBACKED_HINT = 1024  # what heuristics take for a size that nobody knew during capture


class UnknownSize(Exception):
    """A symbolic size that cannot be read from the inputs of the graph, nor from a result."""


class Symbols:
    """names: ShapeEnv's symbol -> SizeSymbol; bound: ShapeEnv's that something brings; results: those of results.

    guarded: {what is made of sizes: the number or the one size that guards say it is}.
    """

    def __init__(self):
        self.names, self.bound, self.results, self.guarded = {}, set(), set(), None

    def name(self, symbol, env):
        """The SizeSymbol of one of ShapeEnv's."""
        if symbol not in self.names:
            self.names[symbol] = SizeSymbol(f"s{len(self.names)}", hint_of(env, symbol), **facts(env, symbol))
        return self.names[symbol]

    def expression(self, value):
        """A SymInt or SymFloat in SizeSymbols; not in those that come later, though they may be stated to be equal."""
        found = value.node.expr
        if any(symbol_is_type(s, UNBACKED) and s not in self.bound for s in found.free_symbols):
            found = value.node._expr
        env = value.node.shape_env
        if self.guarded is None:
            self.guarded = guarded_sizes(env)
        quotients = {made: n for made, n in self.guarded.items() if n.is_Integer and isinstance(made, SizeDiv)}
        found = plain(found).xreplace(quotients)  # nothing is read from one; from what is linear a size may be
        made = found.xreplace({s: self.name(s, env) for s in found.free_symbols})
        return int(made) if made.is_Integer else made

    def same(self, sizes, others):
        """Whether sizes are equal wherever the guards hold, however they are written."""
        if sizes == others:
            return True
        equal = {made.xreplace(self.names): n.xreplace(self.names) for made, n in (self.guarded or {}).items()}
        one, other = ([settled(plain(sympy.sympify(n)), equal) for n in each] for each in (sizes, others))
        return one == other

    def condition(self, value, lowering):
        """A SymBool as text: nothing that it states is taken for granted."""
        stated, env = value.node._expr, value.node.shape_env
        names = {s: self.name(s, env) for s in stated.free_symbols}
        plain = {s: sympy.Symbol(n.name, integer=n.is_integer, real=True) for s, n in names.items()}
        return FloatValue(PythonPrinter().doprint(stated.xreplace(plain)), lowering, frozenset(names.values()))

    def brought(self, value, place=""):
        """(SizeSymbol, text behind the value's name) of each symbol that a value brings which nobody knew."""
        if isinstance(value, (tuple, list)):
            for k, part in enumerate(value):
                yield from self.brought(part, f"{place}[{k}]")
        elif isinstance(value, torch.Tensor):
            for kind, numbers in (("size", value.shape), ("stride", value.stride())):
                for d, number in enumerate(numbers):
                    yield from self.brought(number, f"{place}.{kind}({d})")
        elif isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool)):
            alone = value.node._expr.is_symbol or isinstance(value, torch.SymBool)  # which is `u0 == 1`
            for symbol in value.node._expr.free_symbols - self.bound if alone else ():
                if symbol_is_type(symbol, UNBACKED):
                    self.bound.add(symbol)
                    yield self.name(symbol, value.node.shape_env), place

    def read_from(self, inputs, numbers):
        """How each symbol is read from the inputs: where it stands alone, or else from an expression linear in it."""
        places = []
        for name, layout in inputs.items():
            value = numbers.get(name)
            places += [(value, name)] if value is not None else []
            if layout is not None:
                for question, sizes in (("size", layout.size), ("stride", layout.stride)):
                    known = [(n, d) for d, n in enumerate(sizes) if isinstance(n, sympy.Expr)]
                    places += [(n, f"{question}({name}, {d})") for n, d in known]
        found = {}
        for expression, text in places:
            if expression.is_symbol:
                found.setdefault(expression, text)
        for expression, text in places:
            unknown = [s for s in expression.free_symbols if s not in found]
            if not self.results.isdisjoint(unknown):  # comes later
                continue
            if len(unknown) == 1 and expression.is_polynomial(unknown[0]) and sympy.degree(expression, unknown[0]) == 1:
                factor, rest = sympy.Poly(expression, unknown[0]).all_coeffs()
                found[unknown[0]] = f"({text} - ({rest})) // ({factor})"
        missing = set(self.names.values()) - self.results - found.keys()
        if missing:
            raise UnknownSize(f"no input tells the sizes {sorted(map(str, missing))}")
        return found


def guarded_sizes(env):
    """What guards compare with a number or with one size: `view` says `s0 // 3` for the 4 that it was asked for."""
    found = {}
    for guard in env.guards:
        stated = settled(plain(env.simplify(guard.expr)), found)
        if isinstance(stated, sympy.Eq) and not any(symbol_is_type(s, UNBACKED) for s in stated.free_symbols):
            for made, size in (stated.args, stated.args[::-1]):
                if size.is_Integer and not made.is_Integer or size.is_Symbol and not made.is_Atom:
                    found[made] = size
    return found


def settled(expression, equal):
    """With what is equal to a number, or to one size, put in until nothing is left."""
    while (simpler := expression.xreplace(equal)) != expression:
        expression = simpler
    return expression


def plain(expression):
    """With one operator for quotients: ShapeEnv has another where it knows that nothing is left over."""
    return expression.replace(CleanDiv, SizeDiv) if expression.has(CleanDiv) else expression


def hint_of(env, symbol):
    """The value of a ShapeEnv symbol during capture, or a likely one."""
    known = env.backed_var_to_val if hasattr(env, "backed_var_to_val") else env.var_to_val  # its older name
    if symbol in known:
        return int(known[symbol])
    span = env.var_to_range[symbol]
    return int(max(span.lower, min(span.upper, UNBACKED_HINT)))


def facts(env, symbol):
    """What holds of a symbol wherever it is used: what the program states of it is checked before."""
    if symbol_is_type(symbol, SymT.UNBACKED_FLOAT):
        return {"from_data": True, "real": True}
    if not symbol_is_type(symbol, SymT.UNBACKED_INT):
        return {"integer": True, "positive": True}
    lower = env.var_to_range[symbol].lower
    sign = {"positive": True} if lower >= 1 else {"nonnegative": True} if lower >= 0 else {}
    return {"from_data": True, "integer": True, **sign}


# --- who needs them -----------------------------------------------------------------------------------
def symbols_in(value):
    """The SizeSymbols of a number, an index, an expression or a View, or of several."""
    if isinstance(value, (tuple, list)):
        return set().union(*map(symbols_in, value))
    if isinstance(value, dict):
        return symbols_in(list(value.values()))
    if isinstance(value, sympy.Basic):
        return value.free_symbols
    if isinstance(value, FloatValue):
        return value.symbols
    if isinstance(value, View):
        return symbols_in(value.layout)
    if isinstance(value, ir.Layout):
        return symbols_in([value.size, value.stride, value.offset])
    return set()


def symbols_of_index(value):
    found = symbols_in([value.constant, *(c for _, c in value.terms)])
    for atom in value.atoms():
        if isinstance(atom, Quotient):
            found |= symbols_in(atom.divisor) | symbols_in([atom.index.constant, *(c for _, c in atom.index.terms)])
        elif isinstance(atom, Indirect):
            found |= symbols_in(atom.size)
    return found


def buffer_symbols(buffer):
    """The SizeSymbols that must be known to compute a buffer."""
    data, found = buffer.data, symbols_in(buffer.layout)
    if isinstance(data, Extern):
        return (found | symbols_in([data.args, data.kwargs])) - {symbol for symbol, _ in data.binds}
    if isinstance(data, MultiOutput):
        return found
    for variables in (getattr(data, name, ()) for name in ("vars", "reduced", "points")):
        found |= symbols_in([v.size for v in variables])
    roots = [value for value in vars(data).values() if isinstance(value, ir.Expr)]
    found |= set().union(*(symbols_of_index(i) for i in getattr(data, "position", ())))
    return found.union(*(symbols_of_index(i) for root in roots for node in ir.walk(root) for i in ir.indices(node)))


def waiting(buffers, reads):
    """{buffer: the calls that it waits for, without reading them}: those that bring its symbols, and what is stated.

    What reads the result of such a call waits for the statements too: a size that is stated to be 5 is 5 in kernels.
    reads: buffer -> names.
    """
    latest, brings, result = {}, {}, {}
    if not any(isinstance(b.data, Extern) and b.data.binds for b in buffers):
        return result
    for buffer in buffers:
        data, symbols = buffer.data, buffer_symbols(buffer).union(*(brings.get(name, ()) for name in reads(buffer)))
        result[buffer.name] = {latest[s] for s in symbols if s in latest}
        if isinstance(data, MultiOutput):
            brings[buffer.name] = brings.get(data.source, ())
        if isinstance(data, Extern):
            brings[buffer.name] = {symbol for symbol, _ in data.binds}
            states = symbols if not data.operator._schema.returns else ()
            latest.update(dict.fromkeys([*brings[buffer.name], *states], buffer.name))
    return result
