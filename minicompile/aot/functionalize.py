"""Run a captured graph on functional tensors and find out what it did to its inputs and where its outputs live.

Goes in: an FX graph as capture made it (in-place operators, views and all) and its example inputs.  Comes out: a
`Program`: which inputs were written, and for each output whether it is an input, a view of one, a fresh tensor, a view
of a fresh tensor or a plain Python value.  A functional tensor takes every in-place operator and gives a new value
instead, and remembers which view of which storage it is: after one run the graph has no mutation, and who shares memory
with whom is known.
Mirrors `torch/_functorch/_aot_autograd/collect_metadata_analysis.py`.  Taught in chapter 08.
"""

import copy
import dataclasses

import torch
from torch import fx
from torch._subclasses import FakeTensor, FakeTensorMode
from torch._subclasses.functional_tensor import FunctionalTensor
from torch.fx.experimental.symbolic_shapes import ShapeEnv
from torch.utils.checkpoint import checkpoint

from ..errors import Unsupported
from .recurrent import RECURRENT

_views_of = torch._C._functionalization.get_view_meta_sequence
replay_views = torch._C._functionalization.apply_view_meta_sequence


NEW_LEAF = (
    "leaf made in the graph",
    "the graph makes a tensor with requires_grad=True, and a result depends on it",
    "make trainable tensors outside the compiled region",
)


# --- inputs -----------------------------------------------------------------------------------------
def example_values(gm, inputs):
    """The examples; where capture left a fake tensor for a real input, that one: its sizes may be symbolic."""
    places = [n for n in gm.graph.nodes if n.op == "placeholder"]
    captured = [n.meta.get("example_value", n.meta.get("val")) for n in places]
    pairs = zip(captured, inputs, strict=True) if len(captured) == len(inputs) else ((None, i) for i in inputs)
    return [seen if isinstance(seen, FakeTensor) else given for seen, given in pairs]


def fake_mode_of(values):
    """The mode that the examples were made under, or a new one."""
    for value in values:
        if isinstance(value, FakeTensor):
            return value.fake_mode
    return FakeTensorMode(shape_env=ShapeEnv(), allow_non_fake_inputs=True)


def fakeify(mode, value, requires_grad):
    """A fresh fake leaf for a tensor, never the caller's own, which may share memory with another."""
    if not isinstance(value, torch.Tensor):
        return value
    if type(value) not in (torch.Tensor, torch.nn.Parameter, torch.nn.Buffer, FakeTensor):
        raise Unsupported(
            "tensor subclass",
            f"a {type(value).__name__} is an input of the graph",
            "unwrap the subclass before the compiled region",
        )
    with torch.no_grad():
        fake = value if isinstance(value, FakeTensor) else mode.from_tensor(value, static_shapes=True)
        fresh = fake.detach()
    return fresh.requires_grad_(requires_grad)


def lift_constants(gm):
    """The tensors that the graph holds itself, by attribute path: they become inputs of the compiled graphs."""
    constants = {}
    for node in gm.graph.nodes:
        if node.op == "get_attr":
            value = gm
            for part in node.target.split("."):
                value = getattr(value, part)
            if isinstance(value, torch.Tensor):
                constants[node.target] = value
        elif node.op == "call_module":
            module = gm.get_submodule(node.target)
            for name, value in (*module.named_parameters(), *module.named_buffers()):
                constants[f"{node.target}.{name}"] = value
    return constants


class GraphRunner(fx.Interpreter):
    """Interpret the captured graph, with the constants replaced, and remember the first tensor of every storage."""

    def __init__(self, gm, constants, provenance):
        super().__init__(gm, garbage_collect_values=False)
        self.constants, self.bases, self.provenance = constants, {}, provenance

    def get_attr(self, target, args, kwargs):
        value = self.constants[target] if target in self.constants else super().get_attr(target, args, kwargs)
        return self.nested(value) if isinstance(value, torch.nn.Module) else value

    def nested(self, module):
        """A nested graph, or a module that holds some, to be run as this graph is."""
        if isinstance(module, fx.GraphModule):
            return NestedRunner(self, module)
        copied = copy.copy(module)
        copied._modules = {name: self.nested(child) for name, child in module._modules.items()}
        return copied

    def call_module(self, target, args, kwargs):
        module, prefix = self.fetch_attr(target), f"{target}."
        replaced = {n[len(prefix) :]: value for n, value in self.constants.items() if n.startswith(prefix)}
        return torch.func.functional_call(module, replaced, args, kwargs)

    def call_function(self, target, args, kwargs):
        if target is checkpoint:  # the partitioner recomputes what is in it
            return args[0](*args[1:])
        return super().call_function(RECURRENT.get(target, target), args, kwargs)

    def run_node(self, node):
        if "as_strided" in str(node.target):
            check_memory_layout(self.env[node.args[0]])
        result = self.run_and_note(node, lambda: super(GraphRunner, self).run_node(node))
        if isinstance(result, FunctionalTensor) and not _views_of(result.elem):
            self.bases.setdefault(storage_key(result), result)
        return result

    def run_and_note(self, node, run):
        return self.provenance.run(node, run)


class NestedRunner(torch.nn.Module):
    """A nested graph on functional tensors; what it does belongs to the node that calls it."""

    def __init__(self, outer, gm):
        super().__init__()
        self.runner = GraphRunner(gm, {}, outer.provenance)
        self.runner.bases = outer.bases
        self.runner.run_and_note = lambda node, run: run()

    def forward(self, *inputs):
        return self.runner.run(*inputs)


def check_memory_layout(tensor):
    """`as_strided` reads memory, not elements: the traced value must lie in memory as the user's tensor does."""
    value = unwrap(tensor)
    if (value.stride(), value.storage_offset()) != (tensor.stride(), tensor.storage_offset()):
        raise Unsupported(
            "as_strided of a written tensor",
            "the graph writes a tensor that has holes in memory and then reads its memory with as_strided",
            "index the tensor instead",
        )


# --- what the graph did -----------------------------------------------------------------------------
@dataclasses.dataclass(frozen=True)
class InputMutation:
    """Input `index` gets a new value.  `how`: "copy_" (autograd sees it), "no_grad" (not), "data" (nor the version)."""

    index: int
    how: str


@dataclasses.dataclass(frozen=True)
class OutputSpec:
    """How to make one output of the user's graph at run time.

    kind: "constant" (the value itself), "input" (that object), "graph" (a result of the compiled graph).
    index: which input or result.  views: replayed on it, or None.  needs_grad: in which grad mode, if it matters.
    geometry: instead of views where sizes are symbolic: (sizes, strides, offset), each a number or ("result", i).
    """

    kind: str
    index: int = -1
    value: object = None
    views: object = None
    needs_grad: bool = None
    geometry: tuple = None


@dataclasses.dataclass
class Program:
    """Everything about the graph's behaviour that the compiled, functional graph cannot say itself."""

    mutations: list
    outputs: list
    results: list  # functional tensors or symbolic numbers that the compiled graph computes, besides new input values


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


def _mutation(index, primal, history):
    """What happened to one input.  `history` is its (version, grad_fn, requires_grad) before the run."""
    version, grad_fn, requires_grad = history
    if torch._functionalize_has_metadata_mutation(primal.elem) or torch._functionalize_was_storage_changed(primal.elem):
        raise Unsupported(
            "input metadata mutation",
            "the graph changes the shape, strides or storage of a tensor that it was given",
            "return a new tensor instead of calling resize_, t_, set_ or assigning .data",
        )
    mutated = torch._functionalize_has_data_mutation(primal.elem)
    if primal.requires_grad != requires_grad and (requires_grad or primal.grad_fn is None):
        raise Unsupported(
            "input autograd mutation",
            "the graph changes requires_grad of a tensor that it was given",
            "call requires_grad_ or detach_ outside the compiled region",
        )
    if not mutated:
        return None
    if primal.grad_fn is not grad_fn:
        return InputMutation(index, "copy_")
    return InputMutation(index, "no_grad" if primal._version != version else "data")


class OutputPlanner:
    """Sorts the outputs of the user's graph by where their memory is."""

    def __init__(self, primals, bases, outputs):
        self.inputs = {id(p): i for i, p in enumerate(primals) if isinstance(p, torch.Tensor)}
        self.input_storage = {storage_key(p): i for i, p in enumerate(primals) if isinstance(p, torch.Tensor)}
        self.primals, self.bases, self.results, self.result_index = primals, bases, [], {}
        tensors = {id(o): o for o in outputs if isinstance(o, FunctionalTensor)}
        self.members = {}  # storage -> how many distinct outputs live in it
        for tensor in tensors.values():
            self.members[storage_key(tensor)] = self.members.get(storage_key(tensor), 0) + 1
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
        if value.requires_grad and value.is_leaf:
            raise Unsupported(*NEW_LEAF)
        key, views = storage_key(value), _views_of(value.elem)
        index = self.input_storage.get(key)
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
        if base is None or base is value or own_gradient or self.stands_alone(value, key):
            return OutputSpec("graph", self.result(value))
        return self.view("graph", self.result(base), base, value, views)

    def view(self, kind, index, base, value, views):
        """A view of an input or result: its chain of view operators, or its geometry if that has symbolic sizes."""
        mode = value.requires_grad if base.requires_grad else None
        if not any(v.has_symbolic_inputs for v in views):
            return OutputSpec(kind, index, views=views, needs_grad=mode)
        if value.dtype != base.dtype:
            raise Unsupported("symbolic view of another type", "an output is a view with a different dtype")
        numbers = (value.shape, value.stride(), (value.storage_offset() - base.storage_offset(),))
        geometry = tuple(tuple(self.number(n) for n in group) for group in numbers)
        return OutputSpec(kind, index, needs_grad=mode, geometry=geometry)

    def number(self, value):
        return ("result", self.result(value)) if isinstance(value, torch.SymInt) else value

    def base_of(self, value, key):
        base = value._base
        if base is not None and storage_key(base) == key and not _views_of(base.elem):
            known = self.bases.setdefault(key, base)
            return known
        return self.bases.get(key)

    def stands_alone(self, value, key):
        """A lone output outside autograd that fills its memory without holes needs no base: nobody can tell."""
        alone = self.members[key] == 1 and not value.requires_grad
        return alone and value.untyped_storage().nbytes() == value.numel() * value.element_size() and is_dense(value)


def has_own_gradient(view, base):
    """Does a custom function stand between a view and its base?  To view the base again would lose its backward."""
    function = view.grad_fn
    while function is not None and function is not base.grad_fn:
        if isinstance(function, torch.autograd.function.BackwardCFunction):
            return True
        following = function.next_functions
        function = following[0][0] if following else None
    return False


def is_dense(tensor):
    """Each element once, without holes, in some order of the dimensions."""
    expected = 1
    for stride, size in sorted(zip(tensor.stride(), tensor.shape, strict=True)):
        if size != 1:
            if stride != expected:
                return False
            expected = expected * size
    return True


def run_functional(gm, primals, constant_names, provenance):
    """Run the graph on functional inputs, inside a trace that records every operator.  Returns the `Program`."""
    count = len(primals) - len(constant_names)
    history = [(p._version, p.grad_fn, p.requires_grad) if isinstance(p, torch.Tensor) else None for p in primals]
    runner = GraphRunner(gm, dict(zip(constant_names, primals[count:], strict=True)), provenance)
    outputs = runner.run(*primals[:count], enable_io_processing=False)
    outputs = list(outputs) if isinstance(outputs, tuple | list) else [outputs]
    tensors = [(i, p, history[i]) for i, p in enumerate(primals) if isinstance(p, torch.Tensor)]
    mutations = [m for m in (_mutation(*entry) for entry in tensors) if m is not None]
    planner = OutputPlanner(primals, runner.bases, outputs)
    return Program(mutations, planner.specs, [with_eager_strides(r) for r in planner.results])
