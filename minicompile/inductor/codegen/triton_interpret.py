"""Triton kernels on CPU tensors: Triton's interpreter, and what it lacks.

Goes in: a kernel's Python function and CPU tensors.  Comes out: the kernel's effect, one program after the other, with
NumPy blocks. The kernel's text is the one that a GPU compiles.  Its library functions (`libdevice`, reductions, scans)
have no interpreter in Triton: here they are ATen's and NumPy's.  Mirrors `triton/runtime/interpreter.py`.  Taught in
chapter 12.
"""

import functools
import importlib.util
import types
import warnings

import numpy as np
import torch
import triton.language as tl
from triton.runtime import interpreter as triton_interpreter

from . import triton_ops, triton_random

_ATEN = """exp exp2 expm1 log log2 log10 log1p sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh erf erfc
erfinv
    lgamma sqrt rsqrt floor ceil trunc abs fmod pow atan2 hypot copysign nextafter""".split()


def block(data, like):
    """A NumPy array as a block of the interpreter, in the type of another block."""
    return _block(np.asarray(data, dtype=like.handle.data.dtype), like.type.scalar)


def _block(data, dtype):
    type_ = tl.block_type(dtype, list(data.shape)) if data.ndim else dtype
    return tl.core.tensor(triton_interpreter.TensorHandle(data, dtype), type_)


def _elementwise(function):
    def call(*blocks):
        arrays = [torch.from_numpy(np.ascontiguousarray(b.handle.data)) for b in blocks]
        return block(function(*arrays).numpy(), blocks[0])

    return call


def _splat(builder, type_, scalar):
    """Triton's own goes by the handle's type, which after a comparison is the type of what was compared."""
    return triton_interpreter.TensorHandle(np.full(type_.shape, scalar.data.reshape(-1)[0]), scalar.dtype.scalar)


triton_interpreter.InterpreterBuilder.create_splat = _splat
LIBDEVICE = types.SimpleNamespace(**{name: _elementwise(getattr(torch, name)) for name in _ATEN})
LIBDEVICE.nearbyint = _elementwise(torch.round)


_HALF = {tl.float16: (torch.float16, np.float16), tl.bfloat16: (torch.bfloat16, np.uint16)}


def to_half(x, dtype):
    """Rounded to nearest even, as a GPU does.  The interpreter's bfloat16 blocks are arrays of bits."""
    kind, storage = _HALF[dtype]
    rounded = torch.from_numpy(np.ascontiguousarray(x.handle.data)).to(kind)
    return _block(rounded.view(torch.int16).numpy().view(storage), dtype)


def to_float(x):
    kind, _ = _HALF[x.type.scalar]
    bits = torch.from_numpy(np.ascontiguousarray(x.handle.data).view(np.int16))
    return _block(bits.view(kind).float().numpy(), tl.float32)


def _reduction(function, keepdims=True):
    extra = {"keepdims": True} if keepdims else {}
    return lambda x: block(function(x.handle.data, axis=1, **extra), x)


def dot(a, b, acc, precision):
    """In float32, as the interpreter's own for bfloat16 is not."""
    a, b = (to_float(x) if x.type.scalar in _HALF else x for x in (a, b))
    return block(np.matmul(a.handle.data, b.handle.data) + acc.handle.data, acc)


def checked(i, size, used):
    """What eager raises."""
    number = lambda v: v.handle.data if isinstance(v, tl.core.tensor) else v  # noqa: E731
    if np.any(((number(i) < 0) | (number(i) >= number(size))) & number(used)):
        raise IndexError("index out of range in self")
    return i


def _copy(module, **own):
    """A module executed once more, with `jit` and other names of its own."""
    spec = importlib.util.spec_from_file_location(f"{module.__name__}_interpreted", module.__file__)
    copy = importlib.util.module_from_spec(spec)
    vars(copy).update(jit=lambda function: function, **own)
    spec.loader.exec_module(copy)
    return copy


@functools.cache
def ops():
    """The interpreter's copy of `triton_ops`."""
    draws = {name: f for name, f in vars(_copy(triton_random)).items() if name.startswith("uniform")}
    module = _copy(triton_ops, libdevice=LIBDEVICE, **draws)
    module.checked, module.to_half, module.to_float, module.dot = checked, to_half, to_float, dot
    module.digamma = _elementwise(torch.digamma)
    for name, ufunc in (("sum", np.add), ("prod", np.multiply), ("max", np.maximum), ("min", np.minimum)):
        setattr(module, f"reduce_{name}", _reduction(ufunc.reduce))
        setattr(module, f"scan_{name}", _reduction(ufunc.accumulate, keepdims=False))
    module.reduce_any, module.reduce_all = _reduction(np.any), _reduction(np.all)
    return module


def run(function, grid, args, constants):
    """Run every program of the grid.  Raises what eager would for an index out of range."""
    try:
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            function[grid](*args, **constants)
    except triton_interpreter.InterpreterError as error:
        cause = error.__cause__
        while isinstance(cause, triton_interpreter.InterpreterError):
            cause = cause.__cause__
        raise (cause if isinstance(cause, IndexError) else error) from None


def interpreted(function):
    """A kernel's Python function for Triton's interpreter."""
    return triton_interpreter.InterpretedFunction(function)
