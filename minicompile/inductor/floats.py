"""Floats that are another at each call.

Goes in: a SymFloat of the ATen graph: an input, or what the graph computes of such.  Comes out: a number that lowerings
take as any other: Python text for the wrapper and for ATen calls, an expression for kernels.
Mirrors `torch/fx/passes/_tensorify_python_scalars.py`.  Taught in chapter 07.
"""

import sympy
import torch
from torch.utils._sympy.printers import PythonPrinter

from .expr import LateNumber, op
from .ir import Extern, Layout

# what SymPy says to `if size > 3` and to float(size)
NEEDS_A_NUMBER = ("truth value of Relational", "Cannot convert expression to")


class FloatValue(LateNumber):
    """A float that is another at each call: `text` computes it in the wrapper.  What has to know it is left to ATen.

    symbols: the SizeSymbols in its text.
    """

    def __init__(self, text, lowering, symbols=frozenset()):
        self.text, self.lowering, self.symbols, self.tensors = text, lowering, symbols, {}

    def __repr__(self):
        return self.text

    def element(self, dtype):
        """Kernels load it from a float64 tensor without dimensions."""
        device = self.lowering.node.meta["val"].device
        if device not in self.tensors:
            layout = Layout(device, torch.float64, (), (), 0)
            keywords = {"dtype": torch.float64, "device": device}
            data = Extern(torch.ops.aten.scalar_tensor.default, (self,), keywords, "number")
            self.tensors[device] = self.lowering.add_buffer(layout, data)
        return op("cast", self.tensors[device].load(()), dtype=dtype)

    def unknown(self, *others):
        raise TypeError(f"{NEEDS_A_NUMBER[1]} that changes: {self.text}")

    __bool__ = __float__ = __int__ = __index__ = __neg__ = __abs__ = __eq__ = __ne__ = __lt__ = __le__ = unknown
    __gt__ = __ge__ = __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = unknown
    __rtruediv__ = __pow__ = __rpow__ = __floordiv__ = __mod__ = unknown
    __hash__ = object.__hash__


def computed_float(node, arguments, lowering):
    """What the wrapper writes for a node that computes a float of floats and sizes."""
    module = {"_operator": "operator", "math": "math"}.get(node.target.__module__, "torch")
    late = [a for a in arguments if isinstance(a, (FloatValue, sympy.Expr))]
    texts = [PythonPrinter().doprint(a) if isinstance(a, sympy.Expr) else repr(a) for a in arguments]
    symbols = (a.symbols if isinstance(a, FloatValue) else a.free_symbols for a in late)
    return FloatValue(f"{module}.{node.target.__name__}({', '.join(texts)})", lowering, frozenset().union(*symbols))
