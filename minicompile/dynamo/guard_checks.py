"""What guards ask at run time: pure questions about values and about the ambient modes.

Goes in: a value and what was expected.  Comes out: whether it still holds.  guards.py writes the function that asks.
Mirrors `torch/csrc/dynamo/guards.cpp`.  Taught in chapter 04.
"""

import dataclasses
import math
import struct
import types

import torch

from ._guards import AMBIENT_NAMES as AMBIENT_NAMES
from ._guards import ambient_state as ambient_state  # the thread's modes that change what an operator does


def same_constant(value, expected):
    """Equal in type and value, elementwise in tuples; NaN equals itself, 0.0 is not -0.0, True is not 1."""
    if type(value) is not type(expected):
        return False
    if isinstance(expected, (tuple, list)):
        return len(value) == len(expected) and all(map(same_constant, value, expected))
    if isinstance(expected, (set, frozenset)):
        return value == expected and sorted(map(repr, value)) == sorted(map(repr, expected))
    if isinstance(expected, dict):
        return same_constant(list(value.items()), list(expected.items()))
    if isinstance(expected, float):
        return (math.isnan(value) and math.isnan(expected)) or struct.pack("d", value) == struct.pack("d", expected)
    if isinstance(expected, complex):
        return same_constant(value.real, expected.real) and same_constant(value.imag, expected.imag)
    if isinstance(value, torch.Tensor) or isinstance(type(value).__eq__, types.FunctionType):  # as the key of a dict
        return value is expected
    return value == expected


def same_elements(value, expected):
    """The elements of a set are these, in any order; True is not 1."""
    return {(type(element), element) for element in value} == {(type(element), element) for element in expected}


@dataclasses.dataclass(frozen=True)
class KeyOfType:
    """Expected of a key that is no constant: guards of its own say what it is, and none keeps it alive."""

    cls: type


def same_keys(mapping, expected):
    """The keys of a dict are these, in this order."""
    return len(mapping) == len(expected) and all(
        type(key) is wanted.cls if type(wanted) is KeyOfType else key is wanted or same_constant(key, wanted)
        for key, wanted in zip(mapping, expected)
    )


def tensor_properties(tensor, fake=None):
    """Everything about a tensor that a graph depends on, apart from its data.  sizes and strides in elements.

    fake: the tensor that stands for it in a graph, which may have symbolic sizes; these are None here.
    """
    fake = tensor if fake is None else fake
    return (
        type(tensor),
        tensor.dtype,
        tuple(n if isinstance(n, int) else None for n in fake.shape),
        tuple(n if isinstance(n, int) else None for n in fake.stride()) if tensor.layout is torch.strided else None,
        tensor.requires_grad,
        torch._C._dispatch_keys(tensor).raw_repr(),
        tensor.device,
    )


TENSOR_PROPERTY_NAMES = ("type", "dtype", "shape", "stride", "requires_grad", "dispatch keys", "device")


def tensor_matches(tensor, expected):
    """Cheapest and most likely to differ first."""
    kind, dtype, shape, stride, requires_grad, keys, device = expected
    return (
        type(tensor) is kind
        and same_numbers(tensor.shape, shape)
        and tensor.dtype is dtype
        and tensor.requires_grad is requires_grad
        and torch._C._dispatch_keys(tensor).raw_repr() == keys
        and (stride is None or same_numbers(tensor.stride(), stride))
        and tensor.device == device
    )


def same_numbers(numbers, expected):
    """Equal sizes or strides; None is expected of a symbolic one, about which there are guards of its own."""
    return numbers == expected or (
        None in expected
        and len(numbers) == len(expected)
        and all(wanted is None or number == wanted for number, wanted in zip(numbers, expected))
    )


def all_distinct(*tensors):
    """No two of these tensors are one object."""
    return len(set(map(id, tensors))) == len(tensors)


def slot_is_unset(instance, descriptor):
    """A slot holds nothing (no user code runs)."""
    try:
        descriptor.__get__(instance)
    except AttributeError:
        return True
    return False


def has_no_hooks(module):
    """A module call is then just its `forward`."""
    hooks = module._forward_hooks, module._forward_pre_hooks, module._backward_hooks, module._backward_pre_hooks
    return not any(hooks) and "_call_impl" not in vars(module) and "_compiled_call_impl" not in vars(module)


_module_hooks = torch.nn.modules.module
GLOBAL_HOOKS = (  # of all modules
    _module_hooks._global_forward_hooks,
    _module_hooks._global_forward_pre_hooks,
    _module_hooks._global_backward_hooks,
    _module_hooks._global_backward_pre_hooks,
)


def no_global_hooks():
    """No hook that is registered for all modules."""
    return not any(GLOBAL_HOOKS)


def spelled(value, text=repr):
    """For reports: its text; a huge number has no decimal one."""
    try:
        return hex(value) if type(value) is int and value.bit_length() > 1000 else text(value)
    except Exception:  # whatever a `__repr__` of the program raises, of an object that is half made perhaps
        return f"<{type(value).__name__}>"


class Frozen:
    """Tensors to which nobody may write; it keeps their memory, so that nothing else can come to lie there."""

    def __init__(self):
        self.names, self.tensors, self.versions, self.memory, self.places = [], [], [], [], []

    def add(self, name, tensor):
        """Returns an alias of the tensor."""
        self.names.append(name)
        self.tensors.append(tensor)
        self.versions.append(tensor._version)
        self.memory.append(tensor.detach())
        self.places.append(tensor.data_ptr())
        return self.memory[-1]

    def unwritten(self):
        same = [tensor._version for tensor in self.tensors] == self.versions
        return same and [tensor.data_ptr() for tensor in self.tensors] == self.places

    def written(self):
        """For reports."""
        states = zip(self.names, self.tensors, self.versions, self.places)
        return [name for name, t, version, place in states if (t._version, t.data_ptr()) != (version, place)]
