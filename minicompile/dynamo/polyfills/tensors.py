"""Helpers of torch that are written in C, or that mean nothing in a graph, written in Python.

See polyfills/__init__.py.
"""

import threading

import torch
from torch._higher_order_ops.map import map_impl
from torch._higher_order_ops.scan import scan_op
from torch.utils import _pytree as pytree


class NullContext:
    """`torch.profiler.record_function(...)`: what it would name runs as part of a graph."""

    def __init__(self, *args, **kwargs):
        pass

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        pass


def group_tensors_by_device_and_dtype(lists, with_indices=False):
    """`torch._C._group_tensors_by_device_and_dtype`: {(device, dtype) of the first list: (parts of lists, numbers)}."""
    groups = {}
    for index, tensor in enumerate(lists[0]):
        key = (tensor.device, tensor.dtype)
        if key not in groups:
            groups[key] = ([[] for _ in lists], [])
        for part, values in zip(groups[key][0], lists):
            if values:
                part.append(values[index])
        if with_indices:
            groups[key][1].append(index)
    return groups


def addcdiv_(tensor, numerator, denominator, *, value=1):
    """With a tensor as `value`, whose number the operator would ask for."""
    return tensor.add_(numerator / denominator * value)


def addcmul_(tensor, first, second, *, value=1):
    return tensor.add_(first * second * value)


def foreach(method):
    """`torch._foreach_addcdiv_(tensors, first, second, scalars)` with a tensor of scalars."""

    def run(tensors, first, second, scalars):
        for tensor, a, b, value in zip(tensors, first, second, scalars):
            method(tensor, a, b, value=value)

    return run


def map_rows(function, xs, arguments):
    """The operator below `torch._higher_order_ops.map`, a call for each row."""
    return stacked([function(*[x[k] for x in xs], *arguments) for k in range(xs[0].shape[0])])


def scan_rows(function, carry, xs, additional_inputs=()):
    """The operator below `torch._higher_order_ops.scan`: `function` gives the next carry and a row of results."""
    rows = []
    for k in range(xs[0].shape[0]):
        result, row = function(*carry, *[x[k] for x in xs], *additional_inputs)
        carry = pytree.tree_leaves(result)
        rows.append(row)
    return result, stacked(rows)


def stacked(rows):
    columns = zip(*[pytree.tree_leaves(row) for row in rows])
    return pytree.tree_unflatten([torch.stack(column) for column in columns], pytree.tree_structure(rows[0]))


_entered = threading.local()  # .modes: [(what `_InferenceMode` was before, the context)], innermost last


def set_inference_mode(enabled):
    """Switch the mode as `with torch.inference_mode(enabled)` does, for another call to switch it back."""
    if torch.is_inference_mode_enabled() == enabled:
        return None
    modes = vars(_entered).setdefault("modes", [])
    if modes and modes[-1][0] == enabled:
        return modes.pop()[1].__exit__(None, None, None)
    before, context = torch.is_inference_mode_enabled(), torch._C._InferenceMode(enabled)
    context.__enter__()
    modes.append((before, context))


def autocast_nesting():
    """How many autocast blocks the thread is in."""
    torch.autocast_increment_nesting()
    return torch.autocast_decrement_nesting()


def set_autocast_nesting(depth):
    while autocast_nesting() < depth:
        torch.autocast_increment_nesting()
    while autocast_nesting() > depth:
        torch.autocast_decrement_nesting()


class InferenceMode:
    """`torch._C._InferenceMode`."""

    def __init__(self, enabled):
        self.enabled = enabled

    def __enter__(self):
        self.before = torch.is_inference_mode_enabled()
        if self.before != self.enabled:
            set_inference_mode(self.enabled)

    def __exit__(self, *exception):
        if self.before != self.enabled:
            set_inference_mode(self.before)


def copied(tensor, memo):
    """`Tensor.__deepcopy__` of one that is nothing else than its elements."""
    if id(tensor) not in memo:
        memo[id(tensor)] = tensor.clone(memory_format=torch.preserve_format)
    return memo[id(tensor)]


def is_alone(tensor):
    """Whether a tensor has its memory for itself, and nothing beside it: then its deep copy is a clone."""
    if tensor.layout is not torch.strided or tensor.is_quantized or tensor.is_conj() or tensor.is_neg():
        return False
    if tensor.requires_grad or tensor.grad is not None or tensor.__dict__:
        return False
    storage = tensor.untyped_storage()
    is_dense = torch.empty_like(tensor, device="meta").stride() == tensor.stride()
    owners = torch._C._storage_Use_Count(storage._cdata)  # the tensor, and `storage`
    return is_dense and storage.nbytes() == tensor.nbytes and owners == 2


POLYFILLS = {
    torch._C._InferenceMode: InferenceMode,
    torch.autograd.profiler.record_function: NullContext,
    torch.optim.Optimizer.zero_grad: torch.optim.Optimizer.zero_grad.__wrapped__,  # which is marked to run in eager
    torch._C._group_tensors_by_device_and_dtype: group_tensors_by_device_and_dtype,
    map_impl: map_rows,
    scan_op: scan_rows,
}
METHODS = {"addcdiv_": addcdiv_, "addcmul_": addcmul_}  # where `value` is a tensor
