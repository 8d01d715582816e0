"""Everything a user can see of one call: outputs, inputs after it, who shares memory with whom, gradients, exceptions.

Goes in: a function and a world, the tensors that it is called with and those around them.  Comes out: a dict of plain
values and copies of tensors, equal for two calls that nobody can tell apart.
"""

import contextlib
import dataclasses

import torch
from torch.utils._pytree import tree_leaves

IN_PLACE = "has been modified by an inplace operation"
MODES = {"grad": torch.enable_grad, "no_grad": torch.no_grad, "inference": torch.inference_mode}


@dataclasses.dataclass
class World:
    """args: what the function is called with.  around: tensors that it does not see: leaves, bases of views."""

    args: list
    around: list = dataclasses.field(default_factory=list)

    def tensors(self):
        found = [t for t in tree_leaves(self.args) if isinstance(t, torch.Tensor)]
        for module in (a for a in self.args if isinstance(a, torch.nn.Module)):
            found += [*module.parameters(), *module.buffers()]
        return found + self.around


def look(tensor, known, version=0):
    """One tensor without its values.  `known`: tensors whose identity and memory it may share, in an order."""
    place = next(i for i, t in enumerate(known) if t is tensor)
    seen = {
        "type": (type(tensor), tensor.dtype),
        "layout": (tuple(tensor.shape), tensor.stride(), tensor.storage_offset(), tensor.is_conj(), tensor.is_neg()),
        "is": place,
        "shares memory with": memory_of(tensor, known),
        "requires_grad": history_of(tensor),
        "is_inference": tensor.is_inference(),
        "view of": base_of(tensor, known),
    }
    if not tensor.is_inference():
        seen["version"] = tensor._version - version
    return seen


def history_of(tensor):
    """What autograd says of it; a view may be in a state where it refuses the question."""
    try:
        return tensor.requires_grad, tensor.is_leaf, tensor.grad_fn is not None
    except RuntimeError as error:
        return failure(error)


def memory_of(tensor, known):
    storage = tensor.untyped_storage()._cdata
    return [i for i, t in enumerate(known) if t.untyped_storage()._cdata == storage]


def base_of(tensor, known):
    """None, the number of the tensor that it is a view of, or what that base looks like if nobody holds it."""
    if not tensor._is_view():
        return None
    base = tensor._base
    held = [i for i, t in enumerate(known) if t is base]
    return held[0] if held else (tuple(base.shape), base.stride(), history_of(base))


def values(tensors):
    with torch.no_grad():
        return [t.detach().resolve_conj().clone() for t in tensors]


def failure(error):
    if IN_PLACE in str(error):
        return f"{type(error).__name__}: {IN_PLACE}"  # the rest names functions and versions
    return f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"


def tangent_for(tensor, seed):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn([*tensor.shape], generator=generator, dtype=torch.float64).to(tensor.dtype)


def backward(outputs, known):
    """The gradients of all leaves; of everything that has a history now, inputs too."""
    try:
        targets = [t for t in known if t.requires_grad and t.grad_fn is not None]
        if not targets:
            return None
        torch.autograd.backward(targets, [tangent_for(t, i) for i, t in enumerate(targets)])
    except RuntimeError as error:
        return failure(error)
    return [t.grad.clone() if history_of(t)[1] is True and t.grad is not None else None for t in known]


def observe(function, world, mode="grad", poke=None):
    """One call.  `poke`: the number of the output that the caller writes in place before the backward."""
    before = world.tensors()
    versions = [0 if t.is_inference() else t._version for t in before]
    seen = {}
    torch.manual_seed(5)
    try:
        with MODES[mode]():
            outputs = [*tree_leaves(function(*world.args))]
    except Exception as error:
        outputs, seen["raises"] = [], failure(error)
    fresh = [o for o in outputs if isinstance(o, torch.Tensor)]
    if poke is not None and poke < len(fresh):
        try:
            fresh[poke].add_(1)
        except RuntimeError as error:
            seen["poke raises"] = failure(error)
    known = before + fresh
    seen["plain outputs"] = [o if not isinstance(o, torch.Tensor) else "tensor" for o in outputs]
    seen["looks"] = [look(t, known, v) for t, v in zip(known, versions + [0] * len(fresh), strict=True)]
    seen["values"] = values(known)
    with contextlib.nullcontext() if mode != "inference" else torch.inference_mode():
        seen["gradients"] = backward(fresh, known) if mode != "inference" else None
    seen["values after the backward"] = values(known)
    return seen


def compare(function, compiled, make, mode, poke=None):
    """Differences between the two, each called with a world of its own."""
    expected, actual = observe(function, make(), mode, poke), observe(compiled, make(), mode, poke)
    if poke is not None and IN_PLACE in str(expected["gradients"]) and not isinstance(actual["gradients"], str):
        # Eager keeps what it computed, and refuses the backward once the caller wrote to it; the compiled backward may
        # compute it again, and gives the right gradient.
        expected["gradients"] = observe(function, make(), mode)["gradients"]
    return differences(expected, actual)


def differences(expected, actual, where=""):
    """Lines that name what differs; empty if nothing does."""
    if isinstance(expected, torch.Tensor) and isinstance(actual, torch.Tensor):
        try:
            torch.testing.assert_close(actual, expected, rtol=1e-5, atol=1e-6, equal_nan=True)
        except AssertionError as error:
            return [f"{where}: {str(error).splitlines()[0]} {expected.tolist()} -> {actual.tolist()}"]
        return []
    if isinstance(expected, dict) and isinstance(actual, dict):
        keys = [*expected, *(k for k in actual if k not in expected)]
        pairs = [(k, expected.get(k, "nothing"), actual.get(k, "nothing")) for k in keys]
        return [line for k, e, a in pairs for line in differences(e, a, f"{where} {k}".strip())]
    if type(expected) is type(actual) and isinstance(expected, list) and len(expected) == len(actual):
        pairs = enumerate(zip(expected, actual, strict=True))
        return [line for i, (e, a) in pairs for line in differences(e, a, f"{where}[{i}]")]
    same = type(expected) is type(actual) and not isinstance(expected, torch.Tensor) and expected == actual
    return [] if same else [f"{where}: eager {expected}, compiled {actual}"]
