"""From an ATen graph to IR buffers: runs the graph on `TensorValue`s, calling one lowering per node.

Goes in: a functional ATen `GraphModule` whose nodes carry `meta["val"]`.  Comes out: an `IRGraph`: inputs, constants,
buffers and outputs, printable.  Mirrors `torch/_inductor/graph.py` and the `TensorBox` of `ir.py`.  Taught in chapter
09.

Every node that computes gets a buffer of its own, with the strides that eager would give it; views stay index
arithmetic. The scheduler then decides which of the buffers are ever stored.
"""

import dataclasses
import functools
import operator
import threading

import sympy
import torch
from torch.utils import _pytree as pytree

from . import ir
from .floats import NEEDS_A_NUMBER, FloatValue, computed_float
from .indexing import hint, index
from .ir import Buffer, Extern, Layout, Load, MultiOutput, Pointwise, Reduction, View
from .symbols import Symbols

DTYPES = frozenset(
    (torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)
    + (torch.float16, torch.bfloat16, torch.float32, torch.float64)
)
_local = threading.local()


def current():
    """The GraphLowering at work on this thread: for lowerings that realize buffers or read the node's fake value."""
    return _local.graph


class TensorValue:
    """A tensor during lowering: a function from a position (a tuple of Index) to the expression of its element.

    base: the name of the buffer (or input) of which this is a pure view, else None: a computation not stored yet.
    """

    def __init__(self, device, dtype, size, inner, base=None):
        self.device, self.dtype, self.size = torch.device(device), dtype, tuple(size)
        self.inner, self.base, self._memo = inner, base, {}

    def __repr__(self):
        return f"TensorValue({ir.short(self.dtype)}{list(self.size)}: {self.body()})"

    @property
    def ndim(self):
        return len(self.size)

    def load(self, position):
        """The element at a position: an Expr of this dtype."""
        position = tuple(index(i) for i in position)
        assert len(position) == len(self.size), (position, self.size)
        if position not in self._memo:
            self._memo[position] = ir.keep_checks(self.inner(position), position, self.size)
        return self._memo[position]

    def body(self, variables=None):
        return self.load(variables if variables is not None else ir.loop_vars(self.size))

    def view(self, size, reindex):
        """A view: `reindex` maps a position of the view to a position of this tensor."""
        return TensorValue(self.device, self.dtype, size, lambda position: self.load(reindex(position)), self.base)

    def realize(self, stride=None):
        """Store the value in a buffer (if it is not a view of one already), with these strides (default contiguous)."""
        return self if self.base is not None else current().store(self, stride)

    def strided(self):
        """The `View` that says where the elements of a realized value lie, or None when no strides can say it."""
        load = self.body()
        if self.base is None or not isinstance(load, Load):
            return None
        layout, variables = current().layouts[self.base], ir.loop_vars(self.size)
        if load.dtype == layout.dtype and self.size == layout.size and load.position == tuple(map(index, variables)):
            return View(self.base, layout)  # with the strides of dimensions of size 1, which kernels look at
        address = layout.address(load.position)
        if not address.is_affine() or not set(address.vars()) <= set(variables):
            return None
        stride, next_step = [], 1
        for v in reversed(variables):  # a dimension of size 1 has the stride that a contiguous tensor would have there
            stride.append(next_step if v.size == 1 else address.coefficient(v))
            next_step = stride[-1] * v.size
        stride = tuple(reversed(stride))
        return View(self.base, Layout(self.device, self.dtype, self.size, stride, address.constant))


@dataclasses.dataclass
class IRGraph:
    """The lowered graph.

    inputs: name -> Layout (or None for a number); constants: name -> tensor; outputs: View, number or None.
    sizes: SizeSymbol -> the Python text that reads it from the inputs.  spends: it empties the list of its inputs, so
    that those that nobody else holds (what the forward saved) die when they have been read for the last time.
    """

    inputs: dict
    constants: dict
    buffers: list
    outputs: list
    sizes: dict = dataclasses.field(default_factory=dict)
    spends: bool = False

    def __str__(self):
        lines = [f"{name}: {layout}" for name, layout in self.inputs.items()]
        lines += [f"{name}: constant {ir.short(t.dtype)}{list(t.shape)}" for name, t in self.constants.items()]
        lines += [str(buffer) for buffer in self.buffers]
        return "\n".join([*lines, f"return {', '.join(map(str, self.outputs))}"])

    __repr__ = __str__

    @functools.cached_property
    def layouts(self):
        """name -> Layout of everything that can be loaded."""
        result = {name: layout for name, layout in self.inputs.items() if layout is not None}
        result.update((name, layout_of(t)) for name, t in self.constants.items())
        result.update((b.name, b.layout) for b in self.buffers if b.layout is not None)
        return result

    @property
    def device(self):
        """The device that the loops run on (CPU when the graph has nothing else)."""
        devices = [b.layout.device for b in self.buffers if b.layout is not None]
        return next((d for d in devices if d.type != "cpu"), torch.device("cpu"))


def size_of(value):
    """A size as `int | sympy.Expr` of SizeSymbols."""
    return current().symbols.expression(value) if isinstance(value, (torch.SymInt, torch.SymFloat)) else int(value)


def layout_of(tensor):
    size, stride = tuple(map(size_of, tensor.shape)), tuple(map(size_of, tensor.stride()))
    return Layout(tensor.device, tensor.dtype, size, stride, 0)


def walk(size, stride, source):
    """(size, stride, stride in the source) of as few dimensions as go over the same places in the same order."""
    found = []
    for n, *steps in sorted(zip(size, stride, source, strict=True), key=lambda dimension: -hint(dimension[1])):
        if found and found[-1][1:] == (n * steps[0], n * steps[1]):
            found[-1] = (found[-1][0] * n, *steps)
        elif n != 1:
            found.append((n, *steps))
    return tuple(found)


def dense_strides(tensor):
    """The strides for a new buffer: eager's where no two elements meet, else contiguous (never expanded)."""
    layout = layout_of(tensor)
    expected = 1
    pairs = [(s, n) for s, n in zip(layout.stride, layout.size, strict=True) if n != 1]
    for step, n in sorted(pairs, key=lambda pair: (hint(pair[0]), hint(pair[1]))):
        if hint(step) < hint(expected):
            return ir.contiguous_strides(layout.size)
        expected = step * n
    return layout.stride


class GraphLowering:
    """Interprets the FX graph with lowerings in place of operators."""

    def __init__(self, gm, example_inputs, lowerings):
        self.gm, self.lowerings, self.example_inputs = gm, lowerings, list(example_inputs)
        self.inputs, self.constants, self.buffers, self.outputs, self.copies = {}, {}, [], [], {}
        self.layouts, self.node, self.env = {}, None, {}
        self.numbers = {}  # name of an input that is a number -> its expression
        self.symbols = Symbols()
        self.seeds = {}  # device -> those that its draws have not taken yet

    # --- what lowerings use ---

    def value_of(self, name):
        """The TensorValue that reads a stored buffer."""
        layout = self.layouts[name]
        return TensorValue(layout.device, layout.dtype, layout.size, lambda p: Load(name, p, layout.dtype), name)

    def add_buffer(self, layout, data):
        name = f"buf{len(self.buffers)}"
        self.buffers.append(Buffer(name, layout, data, self.node.name if self.node is not None else ""))
        if layout is None:
            return name
        self.layouts[name] = layout
        return self.value_of(name)

    def store(self, value, stride=None):
        """A Pointwise buffer for a value (also a copy of a view)."""
        layout = Layout(value.device, value.dtype, value.size, tuple(stride or ir.contiguous_strides(value.size)))
        variables = ir.loop_vars(value.size)
        return self.add_buffer(layout, Pointwise(variables, value.body(variables)))

    def reduction(self, value, dims, kind, stride=None):
        """Reduce over `dims`; the result has the other dimensions.  Realized at once."""
        dims = sorted({d % value.ndim for d in dims}) if value.ndim else []
        kept = [d for d in range(value.ndim) if d not in dims]
        size = tuple(value.size[d] for d in kept)
        variables = ir.loop_vars(size)
        reduced = ir.loop_vars([value.size[d] for d in dims], "r")
        position = dict([*zip(kept, variables, strict=True), *zip(dims, reduced, strict=True)])
        body = value.load(position[d] for d in range(value.ndim))
        dtype = ir.reduction_dtype(kind, body.dtype)
        layout = Layout(value.device, dtype, size, tuple(stride or ir.contiguous_strides(size)))
        return self.add_buffer(layout, Reduction(variables, reduced, kind, body))

    def extern(self, target, args, kwargs, kind="fallback", fake=None, binds=()):
        """Call an ATen operator; the result has the structure of the node's fake value (or of `fake`)."""
        fake = self.node.meta.get("val") if fake is None else fake
        args, kwargs = pytree.tree_map_only(TensorValue, self.as_view, (tuple(args), dict(kwargs)))
        data = Extern(target, args, kwargs, kind, binds)
        if isinstance(fake, torch.Tensor):
            return self.add_buffer(layout_of(fake), data)
        source = self.add_buffer(None, data)
        if not isinstance(fake, (tuple, list)):  # a number, or an assertion: called for what it does
            return None
        return [
            self.add_buffer(layout_of(f), MultiOutput(source, k)) if isinstance(f, torch.Tensor) else f
            for k, f in enumerate(fake)
        ]

    def as_view(self, value):
        """The strided view of a value that an ATen kernel can take; stored or copied first where there is none."""
        value = value.realize()
        return value.strided() or self.store(value).strided()

    # --- the interpreter ---

    def run(self):
        outer = getattr(_local, "graph", None)
        _local.graph = self
        try:
            inputs = iter(self.example_inputs)
            for node in self.gm.graph.nodes:
                self.node = node
                if node.op == "placeholder":
                    self.env[node] = self.placeholder(node, next(inputs, None))
                elif node.op == "output":
                    self.output(node)
                else:
                    self.env[node] = getattr(self, node.op)(node)
        finally:
            _local.graph = outer
        sizes = self.symbols.read_from(self.inputs, self.numbers)
        spends = self.gm.meta.get("minicompile") == "backward"
        return IRGraph(self.inputs, self.constants, self.buffers, self.outputs, sizes, spends)

    def placeholder(self, node, example):
        name = f"arg{len(self.inputs)}"
        value = node.meta.get("val", example)
        list(self.symbols.brought(value))  # symbols that need no result to bring them
        if not isinstance(value, torch.Tensor):
            self.inputs[name] = None
            if isinstance(value, torch.SymFloat):
                return FloatValue(name, self)
            if isinstance(value, torch.SymInt):
                value = size_of(value)
                self.numbers[name] = value if isinstance(value, sympy.Expr) else None
            return value
        self.inputs[name] = self.layouts[name] = layout_of(value)
        return self.value_of(name)

    def get_attr(self, node):
        value = operator.attrgetter(node.target)(self.gm)
        if not isinstance(value, torch.Tensor):
            return value
        name = f"const{len(self.constants)}"
        self.constants[name], self.layouts[name] = value, layout_of(value)
        return self.value_of(name)

    def call_function(self, node):
        value = node.meta.get("val")
        args, kwargs = torch.fx.node.map_arg((node.args, node.kwargs), lambda n: self.env[n])
        brought = tuple(self.symbols.brought(value))
        if brought:
            self.symbols.results |= {symbol for symbol, _ in brought}
            result = self.extern(node.target, args, kwargs, binds=brought)
        if isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool)):
            return self.number(node, args, value)
        if brought:
            return result
        if not isinstance(node.target, torch._ops.OpOverload):  # operator.getitem, arithmetic on sizes
            mutates = isinstance(node.target, torch._ops.HigherOrderOperator)  # of a user's operator, on copies
            return self.extern(node.target, args, kwargs) if mutates else node.target(*args, **kwargs)
        result = NotImplemented
        if self.supported(node):
            rule = self.lowerings.get(node.target) or self.lowerings.get(node.target.overloadpacket)
            if rule is not None:
                result = self.apply(rule, args, kwargs)
        if result is NotImplemented:
            return self.extern(
                node.target, args, kwargs, "extern" if node.target.namespace == "minicompile" else "fallback"
            )
        return self.realize_results(result, node.meta.get("val"))

    def number(self, node, args, value):
        """What is computed of numbers that are others at each call."""
        if isinstance(value, torch.SymBool):
            return self.symbols.condition(value, self)
        if isinstance(value, torch.SymFloat) and any(isinstance(a, FloatValue) for a in args):
            return computed_float(node, args, self)
        made = size_of(value)
        if isinstance(value, torch.SymFloat) and made.is_symbol:
            return FloatValue(str(made), self, frozenset((made,)))
        return made

    def apply(self, rule, args, kwargs):
        """A rule that has to know a symbolic size leaves the operator to ATen."""
        try:
            return rule(*args, **kwargs)
        except TypeError as error:
            if any(text in str(error) for text in NEEDS_A_NUMBER):
                return NotImplemented
            raise

    def supported(self, node):
        """Can loops read and make its tensors?  Of a negative view, memory holds the values with the other sign."""
        values = [n.meta.get("val") for n in node.all_input_nodes] + [node.meta.get("val")]
        tensors = [t for t in pytree.tree_leaves(values) if isinstance(t, torch.Tensor)]
        plain = (t.layout == torch.strided and not t.is_quantized and not t.is_neg() for t in tensors)
        return all(plain) and all(t.dtype in DTYPES for t in tensors)

    def realize_results(self, result, fake):
        if isinstance(result, TensorValue):
            assert isinstance(fake, torch.Tensor)
            expected = tuple(map(size_of, fake.shape))
            assert result.dtype == fake.dtype and self.symbols.same(result.size, expected), (
                f"{self.node.format_node()}: lowered to {result}, not {fake.dtype}{list(expected)}"
            )
            return result.realize(dense_strides(fake))
        if isinstance(result, (tuple, list)):
            return [self.realize_results(r, f) for r, f in zip(result, fake, strict=True)]
        return result

    def output(self, node):
        values = torch.fx.node.map_arg(node.args[0], lambda n: self.env[n])
        fakes = torch.fx.node.map_arg(node.args[0], lambda n: n.meta.get("val"))
        if not isinstance(values, (tuple, list)):
            values, fakes = (values,), (fakes,)
        for value, fake in zip(values, fakes, strict=True):
            self.outputs.append(self.output_view(value, fake) if isinstance(value, TensorValue) else value)

    def copied(self, value, view, stride):
        """A copy with these strides.  Views of the same elements, which share memory in eager, share it."""
        key = view and (view.buffer, view.layout.offset, walk(value.size, stride, view.layout.stride))
        if key not in self.copies or key is None:
            self.copies[key] = self.store(value, stride).strided()
        layout = Layout(value.device, value.dtype, value.size, stride)
        return dataclasses.replace(self.copies[key], layout=layout)

    def output_view(self, value, fake):
        """A graph output has eager's strides: a view of a buffer where that has them, else a copy."""
        want = layout_of(fake) if fake is not None else Layout.contiguous(value.device, value.dtype, value.size)
        view = value.realize(want.stride).strided()
        same = view is not None and all(
            n == 1 or a == b for n, a, b in zip(want.size, view.layout.stride, want.stride, strict=True)
        )
        if not same:
            view = self.copied(value, view, dense_strides(fake))
        return View(view.buffer, dataclasses.replace(view.layout, stride=want.stride if same else view.layout.stride))
