"""Dynamic shapes: which sizes of a frame's inputs are symbols, and what the graph assumed about these symbols.

Goes in: a tensor (or an int) of the outside world with its Source, and the sizes that this code has seen before.
Comes out: a fake tensor whose changing sizes are symbols (`s0`), and, when capture ends, one guard for each assumption:
`x.shape[0] > 1`, `y.shape[0] == x.shape[0]`, `x.shape[1] % 2 == 0`.
Mirrors `torch/_dynamo/variables/builder.py` (automatic dynamic) and the guards of
`torch/fx/experimental/symbolic_shapes.py`, whose `ShapeEnv` does the reasoning here too.  Taught in chapter 07.

A size is static the first time and a symbol from the second different value on.  Sizes 0 and 1 stay static: they change
what broadcasting means.

A number that nobody knows before the graph runs (`u0`: read from data, or another in each round of a loop) is an
unbacked symbol: it has no value now, so that no guard can be about it.  Where an operator or the program has to know
it, the graph breaks; what the program states of it (`torch._check(u0 < 8)`) is checked when the graph runs.
"""

import contextlib
import dataclasses
import functools
import threading

import torch
from torch._dispatch.python import enable_python_dispatcher
from torch._guards import Source as TorchSource
from torch._subclasses.meta_utils import safe_grad
from torch.fx.experimental import sym_node
from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv, StatelessSymbolicContext, free_unbacked_symbols
from torch.utils._sympy.printers import PythonPrinter

from .. import config, errors
from .guard_checks import spelled
from .guards import ShapeGuard
from .source import AttrSource, ModuleAttrSource, SizeSource, path_of

CHANGING = None  # in a history: this size had two values
LARGEST_INT = (1 << 62) - 1  # ShapeEnv takes what is larger for infinity
LARGEST_FLOAT = torch.finfo(torch.float32).max  # operators refuse larger ones; NaN and infinity follow other rules

add_expressions = sym_node._optimized_add
# Of a node that was once a sum of symbols PyTorch takes the terms, also when it is known as something else since: with
# `a + b == 7` it says that `(a + b) + c` is c.
sym_node._optimized_add = lambda left, right, *were_sums: add_expressions(left, right)


@dataclasses.dataclass(frozen=True)
class SymbolSource(TorchSource):
    """What ShapeEnv knows of our Source: something with a name that a symbol can remember."""

    source: object

    @property
    def name(self):
        return self.source.name


class SizeHistory:
    """The sizes of the inputs of one code object, by source: the number that was always there, or CHANGING."""

    def __init__(self):
        self.seen = {}

    def note(self, source, sizes):
        """Merge this call's sizes in.  Returns what is known now; another rank starts afresh."""
        before = self.seen.get(source)
        if before is not None and len(before) == len(sizes):
            sizes = [new if new == old else CHANGING for new, old in zip(sizes, before)]
        self.seen[source] = list(sizes)
        return self.seen[source]


def marked(tensor, name):
    """The dimensions that the user marked, by `mark_dynamic` of ours or of torch._dynamo."""
    return getattr(tensor, name, ())


@functools.cache
def import_parts_of_torch():
    """The first ShapeEnv imports modules whose code keeps its frame, and with it all that called it, in a cycle.

    That must not be the program's frames, whose values would live on: it is done in a thread of its own.
    """
    importing = threading.Thread(target=ShapeEnv)
    importing.start()
    importing.join()


class SymbolicSizes:
    """The symbols of one capture.

    dynamic: as `compile(dynamic=...)`.  history: a SizeHistory.  varying: the sources of what changes in a loop.
    """

    def __init__(self, dynamic, history, varying):
        self.dynamic, self.history, self.varying = dynamic, history, varying
        import_parts_of_torch()
        reads = config.capture_scalar_outputs
        self.env = ShapeEnv(duck_shape=False, allow_scalar_outputs=reads, allow_dynamic_output_shape_ops=reads)
        self.reads = {}  # symbol of a number that an operator reads from data -> the user's line
        self.floats = {}  # symbol of a float -> its SymFloat
        self.sources = {}  # symbol -> the Source of its first appearance
        self.numbers = {}  # symbol of an input's size, or of an int or float from outside -> what is known of it
        self.inputs = []  # (source, shape, strides) of tensors with a symbolic size: in-place operators may change them
        self.promised = []  # (source, fake tensor, dimension) that the user wants symbolic
        self.locations = {}  # position in env.guards -> the user's line

    # --- inputs -------------------------------------------------------------------------------------
    def dimensions(self, tensor, source):
        """For each dimension whether it is symbolic."""
        fixed = isinstance(tensor, torch.nn.Parameter)
        known = self.history.note(source, tensor.shape)
        automatic = [size is CHANGING for size in known] if self.dynamic is None else [self.dynamic] * tensor.dim()
        marks = {*marked(tensor, "_dynamo_dynamic_indices"), *marked(tensor, "_dynamo_weak_dynamic_indices")}
        wanted = {d % tensor.dim() for d in marks}
        static = {d % tensor.dim() for d in marked(tensor, "_dynamo_static_indices")}
        return [
            d in wanted or (automatic[d] and d not in static and not fixed and tensor.shape[d] > 1)
            for d in range(tensor.dim())
        ]

    def fake_tensor(self, fake_mode, tensor, source):
        """The fake tensor of an input."""
        dynamic = self.dimensions(tensor, source)
        if not any(dynamic):
            return fake_mode.from_tensor(tensor, static_shapes=True)
        kinds = [DimDynamic.DYNAMIC if d else DimDynamic.STATIC for d in dynamic]
        context = StatelessSymbolicContext(dynamic_sizes=kinds)
        fake = fake_mode.from_tensor(tensor, source=SymbolSource(source), symbolic_context=context)
        self.remember_layout(fake, source)
        if fake._is_view():  # its base came along too, and symbols of the one may have become those of the other
            self.remember_layout(fake._base, AttrSource(source, "_base"))
        self.inputs.append((source, fake.shape, fake.stride()))
        self.promised += [(source, fake, d % fake.dim()) for d in marked(tensor, "_dynamo_dynamic_indices")]
        return fake

    def is_changing(self, value, source):
        """Whether an int or float becomes a symbol.  In a loop 0 and 1 do too: the next round has another."""
        if type(value) is float:
            changing = abs(value) <= LARGEST_FLOAT and self.history.note(source, [value])[0] is CHANGING
            return changing and self.dynamic is not False
        if type(value) is not int or abs(value) > LARGEST_INT or isinstance(source, ModuleAttrSource):
            return False  # what a module keeps is its configuration
        changing = self.history.note(source, [value])[0] is CHANGING
        at_once = self.dynamic and not any(isinstance(place, AttrSource) for place in path_of(source))
        wanted = (changing or at_once) and self.dynamic is not False
        return wanted and (value not in (0, 1) or source in self.varying)

    def number(self, value, source):
        """A symbol for an int or float that changes from call to call."""
        name = SymbolSource(source)
        if type(value) is float:
            expression = self.env.create_unspecified_symbol(value, name, DimDynamic.DYNAMIC)
            self.floats[expression] = symbol = self.env.create_symfloatnode(expression, hint=value, source=name)
        else:
            expression = self.env.create_symbol(
                value, name, DimDynamic.DYNAMIC, positive=None, do_not_specialize_zero_one=True
            )
            symbol = self.env.create_symintnode(expression, hint=value, source=name)
        self.remember(symbol, source)
        return symbol

    def unknown_number(self, value):
        """A symbol for a number, int or float, that comes from outside and that no guard can ask for."""
        symbol = self.env.create_unbacked_symfloat() if isinstance(value, float) else self.env.create_unbacked_symint()
        self.env.pending_fresh_unbacked_symbols.clear()
        return symbol

    def note_reads(self, user_location):
        """New symbols since the last call are numbers that an operator at this line reads from data."""
        self.reads.update(dict.fromkeys(self.env.pending_fresh_unbacked_symbols, user_location))
        self.env.pending_fresh_unbacked_symbols.clear()

    def knows(self, expression):
        return not free_unbacked_symbols(expression)

    def remember(self, size, source):
        if is_symbolic(size) and size.node._expr.is_symbol:  # `expr` is what ShapeEnv has replaced it by since
            self.sources.setdefault(size.node._expr, source)
            self.numbers.setdefault(size.node._expr, size)

    def dispatcher(self):
        """The context in which fake tensors go through PyTorch's Python rules, which keep sizes symbolic."""
        return enable_python_dispatcher() if self.env.var_to_range else contextlib.nullcontext()

    def remember_layout(self, fake, source):
        gradient = safe_grad(fake)  # it came along, with symbols of its own, and has the sizes of its tensor
        for shape in (fake.shape,) if gradient is None else (fake.shape, gradient.shape):
            for index, size in enumerate(shape):
                self.remember(size, SizeSource(source, "shape", index))
        for index, stride in enumerate(fake.stride()):
            self.remember(stride, SizeSource(source, "stride", index))
        self.remember(fake.storage_offset(), SizeSource(source, "storage_offset"))

    # --- assumptions --------------------------------------------------------------------------------
    def locate(self, user_location):
        """Assumptions made since the last call were made for this line of the user's."""
        for index in range(len(self.locations), len(self.env.guards)):
            self.locations[index] = user_location

    def guards(self):
        """ShapeGuards for everything that was assumed about the symbols."""
        for source, fake, dimension in self.promised:
            if not is_symbolic(fake.shape[dimension]):
                raise errors.ConstraintViolated(self.complaint(source, fake, dimension))
        for source in self.sources.values():
            if isinstance(source, SizeSource) and source.kind == "shape":
                yield ShapeGuard("{} > 1", (source,))
        for symbol, number in self.floats.items():
            known, value = symbol in self.env.replacements, number.node.hint
            exact = f"{{}} == {value!r}" if value else f"same_constant({{}}, {value!r})"  # there are two zeros
            text = exact if known else f"abs({{}}) <= {LARGEST_FLOAT!r}"
            yield ShapeGuard(text, (self.sources[symbol],), real=True)
        for source, shape, strides in self.inputs:
            for kind, numbers in (("shape", shape), ("stride", strides)):
                for index, number in enumerate(numbers):
                    place = SizeSource(source, kind, index)
                    if is_symbolic(number) and self.sources.get(number.node.expr) != place:
                        yield self.guard(number.node.expr, place)
        first = {}
        same = {symbol: first.setdefault(source, symbol) for symbol, source in self.sources.items()}
        for symbol, expression in self.env.replacements.items():
            if symbol in self.sources.keys() - self.floats.keys() and expression.xreplace(same) != same[symbol]:
                yield self.guard(expression, self.sources[symbol])
        for index, assumed in enumerate(self.env.guards):
            if assumed.expr.xreplace(same) != True:  # noqa: E712 (SymPy's True)
                yield self.guard(assumed.expr, None, self.locations.get(index, ""))

    def complaint(self, source, fake, dimension):
        place = SizeSource(source, "shape", dimension)
        found = [(str(self.guard(g.expr)), self.locations.get(k, "")) for k, g in enumerate(self.env.guards)]
        why = "; ".join(f"{text} ({where})" for text, where in found if place.name in text)
        return f"{place.name} is marked dynamic, but the program needs {int(fake.shape[dimension])} there: {why}"

    def guard(self, expression, equal_to=None, user_location=""):
        """`expression` holds; or, with a source, its value is the one of the expression."""
        printer = SourcePrinter(self.sources)
        text = printer.doprint(expression)
        if equal_to is not None:
            text = f"{printer.place(equal_to)} == {text}"
        real = not self.floats.keys().isdisjoint(expression.free_symbols)
        return ShapeGuard(text, tuple(printer.places), user_location, real)


class SourcePrinter(PythonPrinter):
    """Python for an expression of symbols; `{k}` stands for the k-th source in `places`."""

    def __init__(self, sources):
        super().__init__()
        self.sources, self.places = sources, []

    def _print_Integer(self, expression):
        return spelled(int(expression), str)

    def place(self, source):
        if source not in self.places:
            self.places.append(source)
        return f"{{{self.places.index(source)}}}"

    def _print_Float(self, number):
        return repr(float(number))

    def _print_Symbol(self, symbol):
        return self.place(self.sources[symbol])


def is_symbolic(value):
    """Whether it is a size, number or truth value that is not known during capture."""
    return isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool)) and not value.node.expr.is_number
