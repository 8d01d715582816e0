"""ATen operator -> IR: a table row or a short function each, in one file per family.

Goes in: an ATen operator's arguments, with `TensorValue`s in place of tensors.
Comes out: a `TensorValue` (or a list of them).  Returning NotImplemented calls the ATen kernel instead, as having no
lowering does.
Mirrors `torch/_inductor/lowering.py`.  Taught in chapter 09.
"""

from . import creation, extern, index_ops, pointwise, pooling, reductions, scatter, views  # noqa: F401 (register)
from .common import LOWERINGS, register_lowering

__all__ = ["LOWERINGS", "register_lowering"]
