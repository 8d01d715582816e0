"""How loads, constants, indices and operations are written in C++: the bottom half of the C++ generator.

Goes in: expressions.  Comes out: C++ text.  Mirrors `CppOverrides` of `torch/_inductor/codegen/cpp.py`.  Taught in
chapter 11.
"""

import math

import torch

from ... import config
from .. import ir
from ..ops import OPS
from .common import ExprWriter

STORAGE = {
    torch.bool: "bool",
    torch.uint8: "uint8_t",
    torch.int8: "int8_t",
    torch.int16: "int16_t",
    torch.int32: "int32_t",
    torch.int64: "int64_t",
    torch.float16: "half",
    torch.bfloat16: "bfloat16",
    torch.float32: "float",
    torch.float64: "double",
}
COMPUTE = {dtype: "float" if dtype in ir.HALF else name for dtype, name in STORAGE.items()}


def literal(value, dtype):
    """A number as C++ text of a dtype's compute type."""
    ctype = COMPUTE[dtype]
    if dtype == torch.bool:
        return "true" if value else "false"
    if dtype.is_floating_point:
        value = float(value)
        if math.isnan(value):
            return f"m_nan<{ctype}>()"
        if math.isinf(value):
            return f"(-m_inf<{ctype}>())" if value < 0 else f"m_inf<{ctype}>()"
        text = repr(value) + ("f" if ctype == "float" else "")
        return f"({text})" if text.startswith("-") else text
    if value == -(2**63):
        return "INT64_MIN"
    return f"{ctype}({value}LL)" if abs(value) >= 2**31 else f"{ctype}({value})"


# Operations that are a `?:` in C++, and those that compare.
CHOOSING = frozenset("where relu maximum minimum fmax fmin exp sigmoid erf sign floordiv remainder".split())
COMPARING = CHOOSING | frozenset("eq ne lt le gt ge isnan isinf".split())


def chooses_twice(parts):
    """Does a comparison of a kernel depend on what another one chose?

    parts: (name by which other parts load the value, or None; expression; whether a max or min is taken of it).
    """
    chosen = set()
    for name, body, extreme in parts:
        for node in ir.walk(body):
            after = node.buffer in chosen if isinstance(node, ir.Load) else not chosen.isdisjoint(node.args)
            if after and getattr(node, "name", "") in COMPARING:
                return True
            if after or isinstance(node, ir.Masked) or getattr(node, "name", "") in CHOOSING:
                chosen.add(node)
        if body in chosen:
            if extreme:
                return True
            chosen.add(name)
    return False


def stored_type(dtype):
    return "uint8_t" if dtype == torch.bool else STORAGE[dtype]  # GCC does not vectorise loads of bool


def indent(lines, depth=1):
    return ["  " * depth + line for line in lines]


class CppWriter(ExprWriter):
    """Expressions in C++, and the parameters of a kernel.  first_lines: before all others."""

    errors, first_lines, jumps = False, (), False  # jumps: GCC would make some of `?:`, and no vectors then
    streams, near = False, {}  # near: name -> the place of an array that is sent off later (see cpp_stream.py)
    DIVISION, REMAINDER = ("/", "m_floor_index"), ("%", "m_mod_index")

    def bind(self, reads, writes, storage):
        """Give every buffer a parameter; buffers that share memory share it."""
        self.params, self.names, self.declared, self.types = [], {}, [], []
        for members, written, param in self.sharing(reads, writes, storage):
            self.params.append(written[0] if written else members[0])
            ctype = stored_type(self.layouts[members[0]].dtype)
            restrict = "" if param.startswith("io") else " __restrict"
            self.types.append(f"{'' if written else 'const '}{ctype}*")
            self.declared.append(f"{self.types[-1]}{restrict} {param}")
            self.names.update(dict.fromkeys(members, param))

    def function(self, body):
        """The whole function, with `@NAME@` in place of its name."""
        declared = [*self.declared, *(f"int64_t {name}" for name in self.numbers.values())]
        head = f"{'M_NO_JUMPS ' if self.jumps else ''}static int @NAME@({', '.join(declared)})"
        start = [*self.first_lines, "int err = 0;"] if self.errors else self.first_lines
        end = [*(["m_fence();"] if self.streams else ()), f"return {'err' if self.errors else '0'};"]
        return "\n".join([head + " {", *indent([*start, *body, *end]), "}"])

    def arguments(self):
        """What the function takes, as a call of another version of it passes it on."""
        return ", ".join([*(self.names[name] for name in self.params), *self.numbers.values()])

    # --- ExprWriter ---

    def constant(self, expr):
        return literal(expr.value, expr.dtype)

    def assign(self, name, dtype, text):
        return f"const {COMPUTE[dtype]} {name} = {text};"

    def load(self, expr, address, mask):
        layout = self.layouts[expr.buffer]
        if isinstance(layout.numel(), int) and layout.numel() == 0:
            return literal(0, expr.dtype)
        text = self.place(expr, address, mask)
        text = f"m_load({text})" if expr.dtype in ir.HALF else f"({text} != 0)" if expr.dtype == torch.bool else text
        return text if mask is None else f"{self.value(mask)} ? {text} : {literal(0, expr.dtype)}"

    def place(self, expr, address, mask):
        return f"{self.names[expr.buffer]}[{self.index(address, mask)}]"

    def store(self, name, address, text, late=False):
        place = self.near.get(name) or f"{self.names[name]}[{self.index(address)}]"
        line = f"{place} = {self.stored_as(name, text)};"
        (self.scopes[-1].stores if late else self.scopes[-1].lines).append(line)

    def stored_as(self, name, text):
        """A computed value, rounded to how a buffer is stored."""
        dtype = self.layouts[name].dtype
        return f"m_store<{STORAGE[dtype]}>::to({text})" if dtype in ir.HALF else text

    def operation(self, expr, args, mask):
        spec = OPS[expr.name]
        if mask is not None and "{err}" in spec.cpp:  # masked out: divide by one
            args = [args[0], f"({self.value(mask)} ? {args[1]} : {literal(1, expr.dtype)})"]
        names = STORAGE if spec.rule == "given" else COMPUTE
        source = expr.args[0].dtype
        if expr.name == "bitcast" and source in ir.HALF + (torch.int16,):
            args = [f"m_store<{STORAGE[source]}>::to({args[0]})"]
        text = spec.cpp.format(*args, type=names[expr.dtype], src=names[source], store=STORAGE[expr.dtype], err="err")
        if expr.name == "bitcast" and expr.dtype in ir.HALF:
            return f"m_load({text})"
        half = expr.dtype in ir.HALF and spec.rule != "given"
        return f"m_cast<{STORAGE[expr.dtype]}, float>({text})" if half and config.emulate_precision_casts else text

    def select(self, condition, body, other, dtype):
        return f"{condition} ? {body} : {other}"

    def index_value(self, expr, mask):
        return f"({COMPUTE[expr.dtype]})({self.index(expr.index, mask)})"

    def indirect(self, atom, text, mask):
        if any(n.dtype == torch.bool or getattr(n, "buffer", None) in self.forwards for n in ir.walk(atom.expr)):
            text = f"m_opaque({text})"
        if not atom.check and not atom.wrap:
            return text
        used = "true" if mask is None else self.value(mask)
        return f"m_index({text}, {self.size(atom.size)}, {str(atom.wrap).lower()}, {used}, err)"
