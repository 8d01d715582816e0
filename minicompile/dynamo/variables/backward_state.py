"""What the backward of a custom autograd function reads besides gradients and what its forward left for it.

Goes in: the capture of a backward.  Comes out: whether it reads anything that may be different when the backward runs:
a global, a closure cell, an attribute, an item of a list.  Capture sees the values of now, eager those of then.
Functions, classes and modules are taken to stay what they are, and so is what PyTorch's own code reads.
Mirrors nothing in PyTorch, whose captured backward has the values of the capture.  Taught in chapter 06.
"""

import contextlib
import enum
import sys
import types

import torch

from ..source import AttrSource, ConstantSource

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
        output = self.tx.output
        lazy = output.lazy

        def noting(value, source):
            if source is not None and not self.is_fixed(value, source):
                self.found.append(f"`{source.name}`")
            return lazy(value, source)

        output.lazy = noting
        try:
            yield
        finally:
            del output.lazy

    def is_fixed(self, value, source):
        running = self.tx.output.current_translator
        library = running is not None and is_library(str(running.globals_dict.get("__name__", "")))
        fixed = is_code(value) or isinstance(value, torch.Tensor) or library
        return fixed or any(s in self.given or of_library(s) for s in way_to(source))
