"""Where each output of a captured graph lives: an input, a view of one, a fresh tensor, a view of a fresh tensor.

Goes in: the functional tensors of one run.  Comes out: an `OutputSpec` for each output, which says how to make it at
run time, and the results that the compiled graph has to return for that.
Mirrors `OutputAliasInfo` in `torch/_functorch/_aot_autograd/schemas.py`.  Taught in chapter 08.
"""

import collections
import dataclasses

import torch
from torch._subclasses.functional_tensor import FunctionalTensor
from torch.fx.experimental.symbolic_shapes import guard_or_false, guard_or_true

from ..errors import Unsupported
from .nodes import hinted

views_of = torch._C._functionalization.get_view_meta_sequence
replay_views = torch._C._functionalization.apply_view_meta_sequence

NEW_LEAF = (
    "leaf made in the graph",
    "the graph makes a tensor with requires_grad=True, and a result depends on it",
    "make trainable tensors outside the compiled region",
)


def storage_key(tensor):
    return tensor.untyped_storage()._cdata


def unwrap(value):
    """The traced value behind a functional tensor, after all pending writes to its storage."""
    if not isinstance(value, FunctionalTensor):
        return value
    torch._sync(value)
    return torch._from_functional_tensor(value.elem)


def with_eager_strides(tensor):
    """The result with eager's strides: the functional form of a write may lay its value out in another way."""
    if isinstance(tensor, FunctionalTensor) and unwrap(tensor).stride() != tensor.stride() and is_dense(tensor):
        layout = torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device=tensor.device)
        return layout.copy_(tensor)
    return tensor


def write_input(tensor, value, writes):
    """What autograd does not see.  writes: how often the program's tensor counts that."""
    with torch.no_grad():
        (tensor if writes else tensor.data).copy_(value)
    torch.autograd.graph.increment_version([tensor] * (writes - 1))


@dataclasses.dataclass(frozen=True)
class OutputSpec:
    """How to make one output of the user's graph at run time.

    kind: "constant" (the value itself), "input" (that object), "graph" (a result of the compiled graph).
    index: which input or result.  views: replayed on it, or None.  needs_grad: in which grad mode, if it matters.
    geometry: instead of views where sizes are symbolic or the base has another shape now: (sizes, strides, offset),
    each a number or ("result", i).
    own_version: a tensor on the same memory that counts its writes for itself, as `.data` gives.
    through: the output that it is a view of, where autograd knows it as that.
    """

    kind: str
    index: int = -1
    value: object = None
    views: object = None
    needs_grad: bool = None
    geometry: tuple = None
    own_version: bool = False
    through: int = None


SPLITS = {  # views that an operator makes several of at once -> that operator
    "split_Tensor_ViewMeta": torch._VF.split,  # `torch.split` would go through Python twice
    "split_with_sizes_ViewMeta": torch._VF.split_with_sizes,
    "unbind_int_ViewMeta": torch.unbind,
}


def split_of(spec):
    """(what is split and how, the operator, its arguments, which piece) of an output that is one of several views."""
    operator = SPLITS.get(type(spec.views[-1]).__name__) if spec.views else None
    if operator is None:
        return None
    steps = [(type(v).__name__, v.as_tuple()) for v in spec.views]
    (_, (_, piece, _, _, *arguments)) = steps.pop()
    key = str((spec.kind, spec.index, spec.through, spec.needs_grad, steps, operator, arguments))
    return key, operator, arguments, piece


class OutputPlanner:
    """Sorts the outputs of the user's graph by where their memory is."""

    def __init__(self, primals, bases, outputs, aliases):
        self.inputs = {id(p): i for i, p in enumerate(primals) if isinstance(p, torch.Tensor)}
        self.input_storage = {storage_key(p): i for i, p in enumerate(primals) if isinstance(p, torch.Tensor)}
        self.primals, self.bases, self.outputs, self.results, self.result_index = primals, bases, outputs, [], {}
        self.aliases = aliases
        tensors = {id(o): o for o in outputs if isinstance(o, FunctionalTensor)}
        self.members = collections.Counter(map(storage_key, tensors.values()))  # storage -> distinct outputs in it
        self.specs = [self.plan(o) for o in outputs]

    def result(self, value):
        """The index of `value` among the compiled graph's results: the same object twice is one result."""
        if id(value) not in self.result_index:
            self.result_index[id(value)] = len(self.results)
            self.results.append(value)
        return self.result_index[id(value)]

    def plan(self, value):
        if isinstance(value, torch.SymInt | torch.SymFloat | torch.SymBool):
            return OutputSpec("graph", self.result(value))
        if not isinstance(value, torch.Tensor):
            if isinstance(value, tuple | list | dict):
                raise Unsupported("nested output", "the graph returns a container inside its tuple of outputs")
            return OutputSpec("constant", value=value)
        if id(value) in self.inputs:
            return OutputSpec("input", self.inputs[id(value)])
        if value.requires_grad and is_leaf(value):
            raise Unsupported(*NEW_LEAF)
        key = storage_key(value)
        index = self.aliases.input_of(value) if key in self.aliases.storages else self.input_storage.get(key)
        views = views_of(value.elem)[0 if index is None else len(views_of(self.primals[index].elem)) :]
        base = self.base_of(value, key) if index is None else self.primals[index]
        own_gradient = base is not None and base is not value and has_own_gradient(value, base)
        if own_gradient and (index is not None or self.members[key] > 1):
            raise Unsupported(
                "view with a gradient of its own",
                "a custom autograd function returns a view of an input or of another result",
                "return a copy from the custom function",
            )
        if index is not None:
            return self.view("input", index, base, value, views)
        lone = self.members[key] == 1 and not value._is_view()  # as eager's result of a reshape that copied
        if base is None or base is value or own_gradient or lone or self.stands_alone(value, key):
            return OutputSpec("graph", self.result(value))
        return self.view("graph", self.result(base), base, value, views)

    def view(self, kind, index, base, value, views):
        """A view of an input or result: its chain of view operators, or its geometry where these would not do."""
        mode = value.requires_grad if base.requires_grad else None
        own = not share_version(value, base)
        turned = kind == "graph" and views_of(base.elem)  # since then, in place: `base.t_()`
        if not turned and not any(v.has_symbolic_inputs for v in views):
            return OutputSpec(kind, index, views=views, needs_grad=mode, own_version=own)
        if value.dtype != base.dtype:
            raise Unsupported("view of another type", "an output is a view with a different dtype and symbolic sizes")
        numbers = (value.shape, value.stride(), (value.storage_offset() - base.storage_offset(),))
        geometry = tuple(tuple(self.number(n) for n in group) for group in numbers)
        return OutputSpec(kind, index, needs_grad=mode, geometry=geometry, own_version=own)

    def number(self, value):
        return ("result", self.result(value)) if isinstance(value, torch.SymInt) else value

    def base_of(self, value, key):
        base = value._base
        if base is not None and storage_key(base) == key and not views_of(base.elem):
            known = self.bases.setdefault(key, base)
            return known
        return self.bases.get(key)

    def stands_alone(self, value, key):
        """A lone output outside autograd that fills its memory without holes needs no base: nobody can tell."""
        alone = self.members[key] == 1 and not value.requires_grad
        filled = alone and value.untyped_storage().nbytes() == value.numel() * value.element_size()
        return guard_or_false(filled) and is_dense(value)


def has_own_gradient(view, base):
    """Does a custom function stand between a view and its base?  To view the base again would lose its backward."""
    function = view.grad_fn
    while function is not None and function is not base.grad_fn:
        if isinstance(function, torch.autograd.function.BackwardCFunction):
            return True
        following = function.next_functions
        function = following[0][0] if following else None
    return False


def is_leaf(tensor):
    """`tensor.is_leaf`; autograd refuses the question where the base of a view was written in another grad mode."""
    try:
        return tensor.is_leaf
    except RuntimeError as error:
        raise Unsupported("view that autograd refuses", str(error), "make the view after the write") from error


def share_version(view, base):
    """Is a write to the one counted by the other?"""
    before, seen = base._version, view._version
    torch.autograd.graph.increment_version(base)
    shared = view._version != seen
    torch._C._autograd._unsafe_set_version_counter((base,), (before,))
    return shared


def has_overlap(tensor):
    """May two elements be one place in memory?"""
    extent, pairs = 1, zip(tensor.stride(), tensor.shape, strict=True)
    for stride, size in sorted(pairs, key=lambda pair: tuple(map(hinted, pair))):
        if guard_or_true(size > 1):
            if guard_or_true(stride < extent):
                return not tensor.is_contiguous()
            extent += stride * (size - 1)
    return False


def is_dense(tensor):
    """Each element once, without holes, in some order of the dimensions; of sizes that nobody knows, for certain."""
    expected, pairs = 1, zip(tensor.stride(), tensor.shape, strict=True)
    for stride, size in sorted(pairs, key=lambda pair: tuple(map(hinted, pair))):
        if guard_or_true(size != 1):
            if not guard_or_false(stride == expected):
                return False
            expected = expected * torch.sym_max(size, 1)  # as the strides of a tensor without elements are
    return True
