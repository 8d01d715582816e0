"""Run a captured graph on functional tensors and find out what it did to its inputs and where its outputs live.

Goes in: an FX graph as capture made it (in-place operators, views and all) and its example inputs.  Comes out: a
`Program`: which inputs were written, and for each output whether it is an input, a view of one, a fresh tensor, a view
of a fresh tensor or a plain Python value.  A functional tensor takes every in-place operator and gives a new value
instead, and remembers which view of which storage it is: after one run the graph has no mutation, and who shares memory
with whom is known.
Mirrors `torch/_functorch/_aot_autograd/collect_metadata_analysis.py`.  Taught in chapter 08.
"""

import contextlib
import copy
import dataclasses
import functools
import itertools
import math
import operator

import torch
from torch import fx
from torch._subclasses import FakeTensor, FakeTensorMode
from torch._subclasses.functional_tensor import FunctionalTensor, FunctionalTensorMode
from torch.fx.experimental.symbolic_shapes import ShapeEnv
from torch.utils.checkpoint import checkpoint

from ..errors import Unsupported
from . import checkpoints
from .layouts import LAYOUTS, bernoulli_, laid_out_as_in_eager
from .outputs import OutputPlanner, has_overlap, is_dense, storage_key, unwrap, views_of, with_eager_strides
from .overlap import extent
from .recurrent import RECURRENT
from .refusals import Casts, check_arguments
from .repeats import Repeats, makes_new
from .sharing import Aliases, Memories

AUTOGRAD_MUTATION = (
    "input autograd mutation",
    "the graph changes requires_grad of a tensor that it was given",
    "call requires_grad_ or detach_ outside the compiled region",
)
OVERLAPPING_WRITE = (
    "write to a tensor that overlaps itself",
    "the graph writes in place to a tensor of which several elements share one place in memory",
    "write to a clone() of it",
)
STALE_VIEW = (
    "write to a view of what has another shape now",
    "the graph writes to a view whose base was turned in place (`t_`, `squeeze_`) since, and autograd views it again",
    "turn a view of the base instead: `x = x.t()`",
)
SPARSE = (
    "tensor without strides",
    "an operator of the graph makes a sparse tensor",
    "make it outside the compiled region",
)
NO_FUNCTIONAL_FORM = {  # PyTorch knows no way to make these functional, or one that draws other numbers
    torch.ops.aten.bernoulli_.Tensor: bernoulli_,
    torch.ops.aten.bernoulli_.float: bernoulli_,
    torch.ops.aten.polygamma_.default: lambda x, n: x.copy_(torch.ops.aten.polygamma(n, x)),
}
REFUSED_WRITES = {  # part of a message -> kind, explanation, hint
    "more than one element of the written-to tensor": OVERLAPPING_WRITE,
    "being mutated that has internal overlap": OVERLAPPING_WRITE,
    "out of bounds for storage": (
        "write beside a tensor that was given",
        "the graph writes with as_strided to memory that does not belong to its input",
        "give the whole tensor to the compiled function",
    ),
}
OVERLAPPING = ("expand", "unfold", "as")  # views, by the first word of their name, that may show one place twice


@contextlib.contextmanager
def refused(reasons):
    """What PyTorch does not trace, or eager refuses, is left to eager.  {part of a message: kind, explanation, hint}"""
    try:
        yield
    except RuntimeError as error:
        for text, reason in reasons.items():
            if text in str(error):
                raise Unsupported(*reason) from error
        raise


# --- inputs -----------------------------------------------------------------------------------------
def example_values(gm, inputs):
    """The examples; where capture left a fake tensor for a real input, that one: its sizes may be symbolic."""
    places = [n for n in gm.graph.nodes if n.op == "placeholder"]
    captured = [n.meta.get("example_value", n.meta.get("val")) for n in places]
    pairs = zip(captured, inputs, strict=True) if len(captured) == len(inputs) else ((None, i) for i in inputs)
    return [seen if isinstance(seen, FakeTensor) else given for seen, given in pairs]


def fake_mode_of(values):
    """The mode that the examples were made under, or a new one."""
    known = next((value.fake_mode for value in values if isinstance(value, FakeTensor)), None)
    return known or FakeTensorMode(shape_env=ShapeEnv(), allow_non_fake_inputs=True)


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
    if requires_grad and fresh.is_inference():
        raise Unsupported("trainable inference tensor", "the graph gives an input the memory of an inference tensor")
    return fresh.requires_grad_(requires_grad)


def lift_constants(gm):
    """The tensors that the graph holds itself, by attribute path: they become inputs of the compiled graphs."""
    constants = {}
    for node in gm.graph.nodes:
        if node.op == "get_attr":
            value = operator.attrgetter(node.target)(gm)
            if isinstance(value, torch.Tensor):
                constants[node.target] = value
        elif node.op == "call_module":
            module = gm.get_submodule(node.target)
            for name, value in (*module.named_parameters(), *module.named_buffers()):
                constants[f"{node.target}.{name}"] = value
    return constants


class FunctionalMode(FunctionalTensorMode):
    """In-place operators become functional ones; what looks for errors is traced as it is, where the program has it.

    aliases: `sharing.Aliases` where inputs share memory.
    """

    def __init__(self):
        super().__init__()
        self.aliases, self.repeats = Aliases(), Repeats()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if not makes_new(func) or self.aliases.storages:
            return self.trace(func, types, args, kwargs or {})
        return self.repeats.call(self, func, args, kwargs or {}, lambda: self.trace(func, types, args, kwargs or {}))

    def trace(self, func, types, args, kwargs):
        if func is torch.ops.aten._linalg_check_errors.default:
            return func(unwrap(args[0]), *args[1:], **kwargs)
        check_arguments(func, args, kwargs)
        if func in NO_FUNCTIONAL_FORM:
            with self:
                return NO_FUNCTIONAL_FORM[func](*args, **kwargs)
        if writes_lists(func) and share_memory(
            args
        ):  # eager's loop reads what it just wrote; the functional form does not
            raise Unsupported(*OVERLAPPING_WRITE)
        result = super().__torch_dispatch__(func, types, args, kwargs)
        if writes_lists(func):  # which is counted nowhere else
            torch.autograd.graph.increment_version(written_by(func, args))
        if self.aliases.storages:
            self.aliases.follow(func, args, kwargs, result)
        if func not in LAYOUTS:
            return result
        with self:
            return laid_out_as_in_eager(func, args, result)


@functools.cache
def writes_lists(func):
    """A foreach function in place."""
    arguments = [a for a in func._schema.arguments if isinstance(a.type, torch.ListType)]
    return any(a.alias_info is not None and a.alias_info.is_write for a in arguments)


def share_memory(lists):
    """Do tensors at different places of these lists?"""
    pairs = [pair for each in lists if isinstance(each, list | tuple) for pair in enumerate(each)]
    tensors = [(k, t) for k, t in pairs if isinstance(t, FunctionalTensor)]
    return any(k != place and meet(t, other) for (k, t), (place, other) in itertools.combinations(tensors, 2))


def meet(a, b):
    """May two tensors share memory?"""
    if storage_key(a) != storage_key(b):
        return False
    (first, end), (other_first, other_end) = bytes_of(a), bytes_of(b)
    return first < other_end and other_first < end


def bytes_of(tensor):
    """Where in storage it begins and ends; all of it where sizes are symbolic."""
    offset = tensor.storage_offset()
    if not all(type(n) is int for n in (offset, *tensor.shape, *tensor.stride())):
        return 0, math.inf
    return (offset * tensor.itemsize, offset * tensor.itemsize + extent(tensor)) if tensor.numel() else (0, 0)


def written_by(func, args):
    pairs = [(a.alias_info, each) for a, each in zip(func._schema.arguments, args) if isinstance(each, list | tuple)]
    return [t for alias, each in pairs if alias is not None and alias.is_write for t in each]


class GraphRunner(fx.Interpreter):
    """Interpret the captured graph, with the constants replaced, and remember the first tensor of every storage."""

    def __init__(self, gm, constants, provenance, inference, aliases, memories):
        super().__init__(gm, garbage_collect_values=False)
        self.constants, self.bases, self.provenance, self.inference = constants, {}, provenance, inference
        self.aliases, self.memories = aliases, memories
        self.second_runs = {}  # captured node -> what it does in the backward
        self.written_at = {}
        self.casts = Casts()

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
            results, second = checkpoints.run(args[0], args[1:], kwargs, self.provenance)
            if second is not None:
                if self.second_runs is None:
                    raise checkpoints.differs("is called by another nested graph")
                self.second_runs[self.provenance.current] = second
            return results
        if target is setattr:
            return self.memories.replace(*args, self.env)
        self.casts.switch(target, args)
        if target is torch._C._set_grad_enabled and self.inference:
            return None  # even under enable_grad() autograd records nothing
        return super().call_function(RECURRENT.get(target, target), args, kwargs)

    def run_node(self, node):
        if "as_strided" in str(node.target):
            check_memory_layout(self.env[node.args[0]], self.aliases)
        if node.target == "requires_grad_" and node.args[0].op == "placeholder":
            if self.env[node.args[0]].requires_grad != (node.args[1:] != (False,)):
                raise Unsupported(*AUTOGRAD_MUTATION)
        given = [self.env[n] for n in node.all_input_nodes if isinstance(self.env[n], FunctionalTensor)]
        clock = torch.autograd._get_sequence_nr()
        self.casts.note([self.env[n] for n in node.all_input_nodes if n.op in ("placeholder", "get_attr")])
        versions = [tensor._version for tensor in given]
        result = self.run_and_note(node, lambda: super(GraphRunner, self).run_node(node))
        for tensor, version in zip(given, versions, strict=True):
            if tensor._version != version:
                check_write(tensor)
                self.written_at[storage_key(tensor)] = clock
                if any(other is not tensor and overlap_in_part(tensor, other) for other in given):
                    raise Unsupported(*OVERLAPPING_WRITE)
        if isinstance(result, torch.Tensor) and result.layout != torch.strided:
            raise Unsupported(*SPARSE)
        if isinstance(result, FunctionalTensor) and not views_of(result.elem):
            self.bases.setdefault(storage_key(result), result)
        return result

    def run_and_note(self, node, run):
        return self.provenance.run(node, run)


class NestedRunner(torch.nn.Module):
    """A nested graph on functional tensors; what it does belongs to the node that calls it."""

    def __init__(self, outer, gm):
        super().__init__()
        self.runner = GraphRunner(gm, {}, outer.provenance, outer.inference, outer.aliases, Memories([], outer.aliases))
        self.runner.bases, self.runner.second_runs = outer.bases, None
        self.runner.run_and_note = lambda node, run: run()

    def forward(self, *inputs):
        return self.runner.run(*inputs)


def check_memory_layout(tensor, aliases):
    """`as_strided` reads memory, not elements: the traced value must lie in memory as the user's tensor does."""
    value = unwrap(tensor)
    if storage_key(tensor) in aliases.storages:
        raise Unsupported("as_strided of shared memory", "the graph reads the memory of inputs that share it")
    if (value.stride(), value.storage_offset()) != (tensor.stride(), tensor.storage_offset()):
        raise Unsupported(
            "as_strided of a written tensor",
            "the graph writes a tensor that has holes in memory and then reads its memory with as_strided",
            "index the tensor instead",
        )


def check_write(tensor):
    """The functional form of a write knows elements; where two of them are one place in memory, only eager is right."""
    if has_overlap(tensor) or any(type(v).__name__.split("_")[0] in OVERLAPPING for v in views_of(tensor.elem)):
        raise Unsupported(*OVERLAPPING_WRITE)
    base = tensor._base if tensor.requires_grad else None
    turns, views = ([type(v) for v in views_of(t.elem)] if t is not None else [] for t in (base, tensor))
    if turns and (len(views) <= len(turns) or views[: len(turns)] != turns):
        raise Unsupported(*STALE_VIEW)


def overlap_in_part(a, b):
    """Whether two dense tensors share some memory but are not the same: as operands of a write, eager refuses them."""
    known = meet(a, b) and math.inf not in (*bytes_of(a), *bytes_of(b))
    return known and is_dense(a) and is_dense(b) and (bytes_of(a), a.stride()) != (bytes_of(b), b.stride())


# --- what the graph did -----------------------------------------------------------------------------
@dataclasses.dataclass(frozen=True)
class InputMutation:
    """Input `index` gets a new value.  `how`: "copy_" (autograd sees it), "no_grad" (not), "data" (nor the version);
    or "memory": the input gets that of the value, as by `input.data = value`.

    writes: by how much the program raises the version of the tensor.  early: before autograd saves the last tensor,
    where who stops the program (a checkpoint, when it runs it again) sees it written.
    """

    index: int
    how: str
    writes: int = 0
    early: bool = False


@dataclasses.dataclass
class Program:
    """Everything about the graph's behaviour that the compiled, functional graph cannot say itself."""

    mutations: list
    outputs: list
    planner: OutputPlanner
    results: list  # functional tensors or symbolic numbers that the compiled graph computes, besides new input values
    versions: list  # of each result: how often the program wrote to it in place
    replaced: dict  # input -> what stands for it in the end, if that has other memory
    second_runs: dict  # captured node -> `SecondRun`
    written_at: dict  # storage of an input -> autograd's clock when the last operator that counts as a write began


def _mutation(index, primal, owner, history, written):
    """What happened to one input.  `history` is its (version, grad_fn, requires_grad) before the run.

    owner: what it is a view of if inputs share memory, else the input itself.  written: if it was, then by its name.
    """
    version, grad_fn, requires_grad = history
    if torch._functionalize_has_metadata_mutation(primal.elem) or torch._functionalize_was_storage_changed(primal.elem):
        raise Unsupported(
            "input metadata mutation",
            "the graph changes the shape, strides or storage of a tensor that it was given",
            "return a new tensor instead of calling resize_, t_, set_ or assigning .data",
        )
    mutated = torch._functionalize_has_data_mutation(primal.elem) and written
    if mutated:
        check_write(primal)
    if owner.requires_grad != requires_grad and (requires_grad or owner.grad_fn is None):
        raise Unsupported(*AUTOGRAD_MUTATION)
    if not mutated:
        return None
    writes = owner._version - version
    if owner.grad_fn is not grad_fn:
        return InputMutation(index, "copy_", writes)
    return InputMutation(index, "no_grad" if writes else "data", writes)


def run_functional(gm, primals, constant_names, provenance, inference, aliases):
    """Run the graph on functional inputs, inside a trace that records every operator.  Returns the `Program`.

    inference: whether the graph was captured in inference mode.  aliases: what is known of inputs that share memory.
    """
    count = len(primals) - len(constant_names)
    owners = [aliases.owners.get(i, p) for i, p in enumerate(primals)]
    history = [(o._version, o.grad_fn, o.requires_grad) if isinstance(o, torch.Tensor) else None for o in owners]
    constants = dict(zip(constant_names, primals[count:], strict=True))
    memories = Memories(primals, aliases, count)
    runner = GraphRunner(gm, constants, provenance, inference, aliases, memories)
    with refused(REFUSED_WRITES):
        outputs = runner.run(*primals[:count], enable_io_processing=False)
    outputs = list(outputs) if isinstance(outputs, tuple | list) else [outputs]
    tensors = [(i, p) for i, p in enumerate(primals) if isinstance(p, torch.Tensor)]
    found = [_mutation(i, p, owners[i], history[i], aliases.is_written(i)) for i, p in tensors]
    memories.check(outputs, [m.index for m in found if m is not None])
    found += [InputMutation(i, "memory", memories.written(i)) for i in memories.replaced]
    mutations = aliases.mutations([m for m in found if m is not None])
    planner = OutputPlanner(memories.current, runner.bases, outputs, aliases)
    versions = [r._version if isinstance(r, torch.Tensor) else 0 for r in planner.results]
    results = [with_eager_strides(r) for r in planner.results]
    return Program(
        mutations, planner.specs, planner, results, versions, memories.replaced, runner.second_runs, runner.written_at
    )
