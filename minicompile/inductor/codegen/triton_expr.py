"""How loads, constants, indices and operations are written in Triton: the bottom half of the Triton generator.

Goes in: expressions, and the `Axis`es of a tile.  Comes out: Triton text.  A value is a block over the axes that it
depends on: `[XBLOCK]`, or `[XBLOCK, 1]`, `[1, RBLOCK]`, `[XBLOCK, RBLOCK]` where the tile has two axes.
Mirrors `TritonOverrides` and `IterationRanges` of `torch/_inductor/codegen/triton.py`.  Taught in chapter 12.
"""

import dataclasses
import math

import sympy
import torch

from ... import config
from .. import ir
from ..indexing import Index, Indirect, Var, divides, from_data, hint
from ..ops import OPS
from .common import ExprWriter

TYPES = {  # dtype -> (Triton's name for a kernel argument, its dtype in a kernel)
    torch.bool: ("i1", "tl.int1"),
    torch.uint8: ("u8", "tl.uint8"),
    torch.int8: ("i8", "tl.int8"),
    torch.int16: ("i16", "tl.int16"),
    torch.int32: ("i32", "tl.int32"),
    torch.int64: ("i64", "tl.int64"),
    torch.float16: ("fp16", "tl.float16"),
    torch.bfloat16: ("bf16", "tl.bfloat16"),
    torch.float32: ("fp32", "tl.float32"),
    torch.float64: ("fp64", "tl.float64"),
}
# What arithmetic means for truth values.
BOOL = {
    "add": "{0} | {1}",
    "mul": "{0} & {1}",
    "maximum": "{0} | {1}",
    "minimum": "{0} & {1}",
    "abs": "{0}",
    "square": "{0}",
}


def storage(dtype):
    return TYPES[dtype][1]


def compute(dtype):
    """Half types are computed in float32."""
    return "tl.float32" if dtype in ir.HALF else TYPES[dtype][1]


def pointer(dtype):
    return f"*{TYPES[dtype][0]}"


def literal(value, dtype):
    """A number as Triton text."""
    if not dtype.is_floating_point:
        return str(value)
    value = float(value)
    return repr(value) if math.isfinite(value) else f'float("{value}")'


def typed(text, dtype):
    """A literal with its dtype."""
    return f"tl.full([], {text}, {compute(dtype)})"


@dataclasses.dataclass
class Axis:
    """One direction of a tile: the loop variables that its index runs over, last one fastest.

    block: how many neighbours one program takes; None: one, and the index is a plain number.  place: its dimension.
    """

    name: str
    vars: tuple
    block: int | None
    place: int = 0
    masked: bool = True  # does the last block stick out?
    start: str | None = None  # the text of the number of the block

    @property
    def numel(self):
        return ir.product(v.size for v in self.vars)

    @property
    def constant(self):
        return f"{self.name.upper()}BLOCK"

    def whole(self):
        """True when the blocks fill the axis exactly."""
        return self.block is None or isinstance(self.numel, int) and self.numel > 0 and self.numel % self.block == 0


class TritonWriter(ExprWriter):
    """Expressions in Triton, and the parameters of a kernel."""

    DIVISION, REMAINDER = ("//", "rt.floordiv"), ("%", "rt.remainder")

    def __init__(self, addresses):
        super().__init__(addresses)
        self.layouts = addresses.layouts
        self.params, self.types, self.names = [], [], {}
        self.axes, self.axis_of, self.local_axes = [], {}, {}
        self.wide, self.asserts = False, False  # wide: some index needs 64 bits
        self.uniform = False  # numbers that are the same in a whole block are written as numbers
        self.reach = {}  # symbolic numbers that indices stay below: which type they need is seen at the launch

    def bind(self, reads, writes, shared):
        """Give every buffer a parameter; buffers that share memory share it."""
        for names, _, param in self.sharing(reads, writes, shared):
            layout = self.layouts[names[0]]
            self.params.append(names[0])
            self.types.append((param, pointer(layout.dtype)))
            self.names.update(dict.fromkeys(names, param))
            self.reaches(layout.address(tuple(n - 1 for n in layout.size)).constant + 1)

    def reaches(self, extent):
        """Indices go up to here."""
        if isinstance(extent, int):
            self.wide = self.wide or extent >= 2**31 - 2**20
        else:
            self.reach[sympy.expand(extent)] = None

    def index_type(self):
        """The type that indices need, or "" for that of the number of a program."""
        return "tl.int64" if self.wide else "index" if self.reach else ""

    def program(self):
        """The number of the program, in the type that indices need."""
        kind = self.index_type()
        return f"tl.program_id(0).to({kind})" if kind else "tl.program_id(0)"

    # --- axes ---

    def use_axes(self, axes):
        self.axes = axes
        self.axis_of.update({v: axis for axis in axes for v in axis.vars})
        self.reaches(ir.product(axis.numel for axis in axes))

    def axes_under(self, *exprs):
        """The axes that values depend on, as a set of names."""
        found = set()
        for expr in exprs:
            if expr is not None:
                used, local, _ = self.facts(expr)
                found |= {self.axis_of[v].name for v in used}
                found.update(*(self.local_axes[name] for name in local))
        return found

    def axes_of_address(self, address):
        found = {self.axis_of[v].name for v in address.vars()}
        return found | self.axes_under(*(a.expr for a in address.atoms() if isinstance(a, Indirect)))

    def mask(self, names, condition=None):
        """The text of the mask over some axes (and an Expr), or ""."""
        parts = [f"{axis.name}mask" for axis in self.axes if axis.name in names and axis.masked]
        if condition is not None:
            parts.append(self.value(condition))
        return " & ".join(parts)

    def spread(self, address, have, want):
        """An address, as a block over more axes than it names."""
        extra = [
            f" + 0*{axis.name}" for axis in self.axes if axis.name in want and axis.name not in have and axis.block
        ]
        return "".join(extra).removeprefix(" + ") if extra and address == "0" else address + "".join(extra)

    # --- indices ---

    def terms(self, value, mask):
        """Neighbouring loops whose strides fit together are one number again: contiguous stays visibly contiguous."""
        terms = dict(value.terms)
        for axis in self.axes:
            for first, last in self.runs(axis, terms):
                yield self.run(axis, first, last), terms[axis.vars[last]]
        yield from ((self.atom(atom, mask), c) for atom, c in value.terms if atom not in self.axis_of)

    def runs(self, axis, terms):
        """(first, last) numbers of variables whose coefficients make them one."""
        found, k = [], len(axis.vars) - 1
        while k >= 0:
            last = k
            if axis.vars[k] in terms:
                step = terms[axis.vars[k]]
                while k > 0 and terms.get(axis.vars[k - 1]) == step * axis.vars[k].size:
                    step = step * axis.vars[k].size
                    k -= 1
                found.append((k, last))
            k -= 1
        return found[::-1]

    def run(self, axis, first, last):
        """The name of the number that the variables first..last of an axis make together."""
        if first == 0 and last == len(axis.vars) - 1:
            return axis.name
        depth = self.depth_of_var[axis.vars[first]]
        key = (axis.name, first, last)
        if key not in self.scopes[depth].values:
            below = ir.product(v.size for v in axis.vars[last + 1 :])
            number, steps = (
                (axis.name, below) if not self.is_uniform(axis, below) else (axis.start, below // axis.block)
            )
            text = number if isinstance(steps, int) and steps == 1 else f"{number} // {self.size(steps)}"
            if first:
                count = self.size(ir.product(v.size for v in axis.vars[first : last + 1]))
                text = f"{text} % {count}"
            name = "_".join([axis.name, *(str(k) for k in range(first, last + 1))])
            self.scopes[depth].lines.append(f"{name} = {text}")
            self.scopes[depth].values[key] = name
        return self.scopes[depth].values[key]

    def is_uniform(self, axis, below):
        """Has a number that changes every `below` steps along an axis one value in each block?"""
        return self.uniform and axis.start and isinstance(below, int) and below % axis.block == 0 and not axis.masked

    def indirect(self, atom, text, mask):
        kind = self.index_type()
        if kind and atom.expr.dtype == torch.int32:
            text = f"{text}.to({kind})"
        if atom.wrap:
            text = f"rt.wrapped({text}, {self.size(atom.size)})"
        if atom.check:
            self.asserts = True
            used = self.mask(self.axes_under(atom.expr, mask), mask)
            text = f"rt.checked({text}, {self.size(atom.size)}, {used or 1})"
        return text

    def index_value(self, expr, mask):
        if expr.index.is_constant and isinstance(expr.index.constant, int):
            return typed(literal(expr.index.constant, expr.dtype), expr.dtype)
        return f"({self.index(expr.index, mask)}).to({compute(expr.dtype)})"

    # --- values ---

    def assign(self, name, dtype, text):
        return f"{name} = {text}"

    def define(self, key, dtype, text, depth):
        if not isinstance(key[0], ir.Constant) and text.isidentifier():  # it has a name already
            self.scopes[depth].values[key] = text
            return text
        return super().define(key, dtype, text, depth)

    def constant(self, expr):
        text = literal(expr.value, expr.dtype)
        return typed(text, expr.dtype) if expr.dtype in (torch.bool, torch.float64) else text

    def load(self, expr, address, mask):
        return self.loaded(self.load_text(expr, address, mask), expr.dtype)

    def load_text(self, expr, address, mask):
        """The load itself: half types are not widened yet."""
        layout = self.layouts[expr.buffer]
        if isinstance(layout.numel(), int) and layout.numel() == 0:
            return f"tl.full([], 0, {storage(layout.dtype)})"
        have = self.axes_of_address(address)
        want = have | self.axes_under(mask)
        condition = self.mask(want, mask)
        place = self.spread(self.index(address, mask), have, want)
        return f"tl.load({self.names[expr.buffer]} + {place}{', ' + condition if condition else ''})"

    def loaded(self, text, dtype):
        if dtype in ir.HALF:
            return f"rt.to_float({text})"
        return f"{text}.to(tl.int1)" if dtype == torch.bool else text

    def store(self, name, address, text, want):
        """want: the axes of the block that is stored."""
        place = self.spread(self.index(address), self.axes_of_address(address), want)
        condition = self.mask(want)
        text = self.stored_as(name, text)
        self.scopes[-1].stores.append(
            f"tl.store({self.names[name]} + {place}, {text}{', ' + condition if condition else ''})"
        )

    def stored_as(self, name, text):
        dtype = self.layouts[name].dtype
        return (
            f"rt.to_half({text if text.isidentifier() else typed(text, dtype)}, {storage(dtype)})"
            if dtype in ir.HALF
            else text
        )

    def operation(self, expr, args, mask):
        spec = OPS[expr.name]
        if expr.name == "cast" and expr.dtype == torch.float32 and expr.args[0].dtype in ir.HALF:
            return args[0]  # a float32 value already
        template = self.in_pairs(expr) if expr.name == "uniform" else spec.triton
        if expr.args[0].dtype == torch.bool:
            template = BOOL.get(expr.name, template)
        known = [a.isidentifier() for a in args]
        free = any(known[1:]) if expr.name == "where" else any(known) and "(" not in template
        if not free:  # a bare number takes the type of what stands beside it: only where that is right
            args = [a if k or "(" in a else typed(a, e.dtype) for a, k, e in zip(args, known, expr.args, strict=True)]
        text = template.format(*args, type=storage(expr.dtype), src=storage(expr.args[0].dtype))
        half = expr.dtype in ir.HALF and spec.rule != "given" and config.emulate_precision_casts
        return f"rt.cast({text}, {storage(expr.dtype)})" if half else text

    def in_pairs(self, expr):
        """How random numbers are written: cheaper where an even element and the next lie side by side in a block."""
        number = expr.args[1]
        index = number.index if isinstance(number, ir.IndexExpr) else Index((), number.value)
        steps = {var: step for var, step in index.terms if isinstance(var, Var)}
        for axis in self.axes if len(steps) == len(index.terms) else ():
            if axis.block and axis.block > 1 and axis.vars and steps.get(axis.vars[-1]) == 1:
                last = axis.vars[-1]
                others = [index.constant, *(step for var, step in steps.items() if var is not last)]
                others += [last.size] if len(axis.vars) > 1 else []
                if all(isinstance(n, int) and n % 2 == 0 for n in others):
                    down = axis.place == 0 and sum(bool(a.block) for a in self.axes) > 1
                    return f"rt.uniform_pairs{'_down' if down else ''}({{0}}, {{1}})"
        return OPS[expr.name].triton

    def select(self, condition, body, other, dtype):
        if not body.isidentifier() and not other.isidentifier() and "(" not in body:
            body = typed(body, dtype)
        return f"tl.where({condition}, {body}, {other})"

    # --- nodes ---

    def forward(self, name, text, axes):
        """axes: those of the block that the value is."""
        super().forward(name, text)
        self.local_axes[name] = axes

    def forget(self, names):
        for name in names:
            self.forwards.pop(name, None)
        self._facts.clear()


def indent(lines):
    return ["    " + line for line in lines]


def largest(extents):
    """Without those of which another one is a multiple: sizes that are not read from data are 1 or more."""
    return [e for e in extents if not any(e is not f and not from_data(f) and divides(e, f) for f in extents)]


def likely(writer, reach):
    """The kind of launch that the hints tell; see `TritonKernel`."""
    sizes = list(map(hint, writer.numbers))
    wide = hint(reach) >= 2**31 - 2**20 or any(abs(n) >= 2**31 for n in sizes)
    return 2 * wide + sum(4 << k for k, n in enumerate(sizes) if n % 16)


def function(name, writer, body, grid, num_warps, constants, rare=False, stages=None):
    """The whole kernel.

    grid: text of the number of programs; constants: block sizes; rare: not compiled ahead; stages: of the pipeline.
    """
    reach = writer.reach and sympy.Max(*largest(writer.reach))
    more = f', reach="{writer.size(reach)}"' if writer.reach and not writer.wide else ""
    writer.size_names = list(writer.numbers.values())
    if writer.numbers:
        more += f", likely={likely(writer, reach or 0)}"
    types = ", ".join(f"{text}: {kind}" for text, kind in [*writer.types, *((s, "i64") for s in writer.size_names)])
    blocks = "".join(f", {k}={v}" for k, v in constants.items())
    more += (", asserts=True" if writer.asserts else "") + (", rare=True" if rare else "")
    more += f", num_stages={stages}" if stages else ""
    fixed = [*constants, *(["index"] if writer.numbers else [])]
    params = [text for text, _ in writer.types] + writer.size_names + [f"{k}: tl.constexpr" for k in fixed]
    head = [
        f'@kernel("{types}", grid="{grid}", num_warps={num_warps}{blocks}{more})',
        f"def {name}({', '.join(params)}):",
    ]
    return "\n".join([*head, *indent(body or ["pass"])])
