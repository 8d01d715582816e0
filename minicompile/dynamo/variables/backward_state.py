"""What the backward of a custom autograd function reads besides gradients and what its forward left for it.

Goes in: the capture of a backward.  Comes out: whether it reads anything that may be different when the backward runs:
a global, an attribute, an item of a list, a closure cell that some code rebinds.  Capture sees the values of now, eager
those of then.  Functions, classes and modules are taken to stay what they are, and so is what PyTorch's own code reads.
Mirrors nothing in PyTorch, whose captured backward has the values of the capture.  Taught in chapter 06.
"""

import contextlib
import dis
import enum
import functools
import inspect
import sys
import types

import torch

from ..source import AttrSource, ConstantSource, ItemSource
from .base import LazyVariable

STAYS = (  # whoever changes such an object or rebinds its name changes the program
    types.FunctionType,
    types.BuiltinFunctionType,
    types.MethodDescriptorType,
    types.WrapperDescriptorType,
    types.MethodWrapperType,
    types.GetSetDescriptorType,
    types.ModuleType,
    types.MethodType,
    staticmethod,
    classmethod,
    property,
    type,
)
PLAIN = (int, float, complex, bool, str, bytes, type(None), type(...), slice, range, enum.Enum)
PLAIN_TENSORS = (torch.dtype, torch.device, torch.layout, torch.memory_format, torch.Size)
UNCHANGING = (*PLAIN, *PLAIN_TENSORS, torch.Tensor, tuple, frozenset, *STAYS)
LIBRARIES = ("torch", "minicompile", *sys.stdlib_module_names)


def is_library(name):
    return name.partition(".")[0] in LIBRARIES


def is_code(value):
    """A function, class or module, or an operator of PyTorch's."""
    return isinstance(value, STAYS) or is_library(getattr(type(value), "__module__", "")) and callable(value)


def stays(value):
    """Is it a value that nobody can change, or code?"""
    if isinstance(value, tuple | frozenset):
        return all(map(stays, value))
    return isinstance(value, (*PLAIN, *PLAIN_TENSORS, torch.Tensor)) or is_code(value)


def of_library(source):
    """Is it a library's module or function, or the defaults of any function?"""
    if getattr(source, "attribute", None) == "__closure__":
        return is_library(getattr(known(source.parent), "__globals__", {}).get("__name__", ""))
    value = getattr(source, "value", None)
    is_module = isinstance(value, types.ModuleType) and is_library(value.__name__)
    return is_module or getattr(source, "attribute", None) in ("__defaults__", "__kwdefaults__")


def known(source):
    """What is there now, if it is an attribute of what needs no path."""
    if isinstance(source, ConstantSource):
        return source.value
    return getattr(known(source.parent), source.attribute, None) if isinstance(source, AttrSource) else None


# --- closure cells ------------------------------------------------------------------------------------
def is_filled_once(source):
    """Is this a constant in a cell that no code will rebind?  All that could is in the function that made the cell."""
    if not isinstance(source, AttrSource) or source.attribute != "cell_contents":
        return False
    item = source.parent
    function = known(item.parent.parent) if isinstance(item, ItemSource) else None
    if not isinstance(function, types.FunctionType) or not stays(function.__closure__[item.key].cell_contents):
        return False
    name = function.__code__.co_freevars[item.key]
    makers = [code for code in codes_around(function) if name in code.co_cellvars]
    if not makers or makers[-1].co_flags & (inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR):
        return False
    return not any(rebinds(code, name) for code in (*inside(makers[-1], name), *running(makers[-1].co_filename)))


def codes_around(function):
    """The code of the functions and classes that it is defined in, the outermost first; none if that is not found."""
    start = function.__qualname__.partition(".<locals>")[0].split(".")
    try:
        outermost = inspect.unwrap(functools.reduce(getattr, start[1:], function.__globals__[start[0]]))
    except (KeyError, AttributeError):
        return []
    return path_to(function.__code__, getattr(outermost, "__code__", None)) or []


def path_to(target, code):
    for inner in constants(code):
        if inner is target:
            return [code]
        path = path_to(target, inner)
        if path is not None:
            return [code, *path]
    return None


def constants(code):
    return [value for value in getattr(code, "co_consts", ()) if isinstance(value, types.CodeType)]


def inside(code, name):
    """The code in it that has its variable of this name."""
    for inner in constants(code):
        if name in inner.co_freevars:
            yield inner
            yield from inside(inner, name)


def running(filename):
    """The code of that file that some thread is in."""
    for frame in sys._current_frames().values():
        while frame is not None:
            if frame.f_code.co_filename == filename:
                yield frame.f_code
            frame = frame.f_back


def rebinds(code, name):
    writes = (i for i in dis.get_instructions(code) if i.opname in ("STORE_DEREF", "DELETE_DEREF"))
    return any(i.argval == name for i in writes)


# --- what the backward reads ----------------------------------------------------------------------------
def way_to(source):
    """The source and all that it is read from."""
    while source is not None:
        yield source
        source = source.parent


class Reads:
    """Notes which existing values a backward comes to.  found: in words, what may have changed by then."""

    def __init__(self, tx):
        self.tx, self.found, self.given = tx, [], []

    def left_on(self, context):
        """What the forward left there: a list, or an object of the program's, may change."""
        for name, tracker in self.tx.side_effects.pending_attributes(context).items():
            if tracker is self.tx.side_effects.DELETED or tracker.source is None:
                continue
            if stays(tracker.value) if hasattr(tracker, "value") else issubclass(tracker.python_type(), UNCHANGING):
                self.given.append(tracker.source)
            else:
                self.found.append(f"`ctx.{name}`")

    @contextlib.contextmanager
    def noted(self):
        output, effects = self.tx.output, self.tx.side_effects
        lazy, load_cell = output.lazy, effects.load_cell

        def noting(value, source):
            self.note(value, source)
            return lazy(value, source)

        def noting_cell(cell):  # also one that the forward has read
            if isinstance(cell.contents, LazyVariable):
                self.note(cell.contents.value, cell.contents.source)
            return load_cell(cell)

        output.lazy, effects.load_cell = noting, noting_cell
        try:
            yield
        finally:
            del output.lazy, effects.load_cell

    def note(self, value, source):
        if source is not None and not self.is_fixed(value, source):
            self.found.append(f"`{source.name}`")

    def is_fixed(self, value, source):
        running = self.tx.output.current_translator
        library = running is not None and is_library(str(running.globals_dict.get("__name__", "")))
        fixed = is_code(value) or isinstance(value, torch.Tensor) or library
        return fixed or any(s in self.given or of_library(s) or is_filled_once(s) for s in way_to(source))
