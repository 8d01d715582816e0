"""Strings with the numbers of tensors in them: `f"loss {loss:.3f}"` is put together when the graph has run.

Goes in: a tensor of no dimensions and a format.  Comes out: a str of which nothing is known yet; who looks at it breaks
the graph.  Mirrors StringFormatVariable in `torch/_dynamo/variables/misc.py`.  Taught in chapter 05.
"""

import torch

from .base import unsupported
from .constant import ConstantVariable
from .varying import VaryingVariable


class TextVariable(VaryingVariable):
    """parts: strings, and (tensor as it was when it was formatted, format)."""

    def __init__(self, parts):
        super().__init__(str, None)
        self.parts = parts

    def call_method(self, tx, name, args, kwargs):
        unsupported("tensor printed", f"`{name}` of a string with the value of a tensor in it")

    def children(self):
        return [part[0] for part in self.parts if not isinstance(part, str)]

    def reconstruct(self, codegen):
        codegen.push_function("".join)
        for part in self.parts:
            if isinstance(part, str):
                codegen.load_const(part)
            else:
                codegen.push_function(format)
                codegen(part[0])
                codegen.load_const(part[1])
                codegen.call_function(2)
        codegen.build_list(len(self.parts))
        codegen.call_function(1)

    def __repr__(self):
        return "TextVariable()"


def format_number(tx, tensor, spec):
    """`format(tensor, spec)` of a tensor of no dimensions, whose value may change before the string is made."""
    try:
        format(python_number(tensor.fake), spec)
    except ValueError as error:
        tx.raise_observed(ValueError, str(error))
    copied = tensor.call_method(tx, "detach", [], {}).call_method(tx, "clone", [], {})
    return TextVariable([(copied, spec)])


def python_number(fake):
    if fake.is_complex():
        return 0j
    if fake.is_floating_point():
        return 0.0
    return False if fake.dtype == torch.bool else 0


def join(tx, items):
    """BUILD_STRING."""
    parts = []
    for item in items:
        parts += item.parts if isinstance(item, TextVariable) else [item.as_python_constant()]
    if all(isinstance(part, str) for part in parts):
        return ConstantVariable("".join(parts))
    return TextVariable(parts)
