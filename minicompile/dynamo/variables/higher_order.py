"""Functions of torch that take functions: torch.func's transforms, checkpoint, cond, while_loop, flex_attention.

Goes in: such a call.  Comes out: one node of the graph, which calls the same function of torch with a nested graph in
place of the user's function.  A transform itself runs for real, on fake tensors: when it calls its function, that one
is captured on the tensors that it gets (batched, wrapped for a gradient, ...), so transforms nest.
Mirrors `torch/_dynamo/variables/higher_order_ops.py` and `functorch.py` there.  Taught in chapter 06.
"""

import functools
import operator
import types

import torch
from torch import fx
from torch._functorch import eager_transforms, vmap
from torch._higher_order_ops.flex_attention import flex_attention, math_attention
from torch._higher_order_ops.while_loop import while_loop_op
from torch._subclasses.fake_tensor import unset_fake_temporarily
from torch.utils import _pytree as pytree
from torch.utils.checkpoint import checkpoint

from ... import errors
from ..nested_graphs import (
    attach,
    changed_since,
    effects_of,
    example_values,
    local_node,
    nested_graph,
    tensor_versions,
    version_of,
)
from .base import VariableTracker, unsupported
from .constant import ConstantVariable
from .functions import NestedFunctionVariable, is_something
from .tensor import TensorVariable, graph_call, operator_raised, wrap_result


def leaves_of(*structure):
    """The tensors of nested arguments, in order."""
    return [leaf for leaf in pytree.tree_leaves(structure) if isinstance(leaf, torch.Tensor)]


# --- the function's body --------------------------------------------------------------------------------
class Body:
    """Called once, with example values: captures the function on them, and returns the example of its result."""

    def __init__(self, tx, function, name):
        self.tx, self.function, self.name = tx, function, name
        self.node = self.error = None

    def __call__(self, *args, **kwargs):
        output = self.tx.output
        if self.node is not None:  # once for each chunk: the example of this one's result is all that is missing
            if changed_since(output, self.before):
                unsupported("function with a graph of its own", f"{self.name} runs its function twice, which writes")
            return self.node.meta["example_value"](*leaves_of(args, kwargs), *map(example_values, self.lifted))
        self.before = effects_of(output)
        try:
            with nested_graph(output) as nested, unset_fake_temporarily():
                args = [self.argument(nested, value) for value in args]
                kwargs = {name: self.argument(nested, value) for name, value in kwargs.items()}
                results = self.function.call_function(self.tx, args, kwargs).realize().as_proxy()
                results = pytree.tree_map_only(fx.Node, lambda node: local_node(output, node), results)
            self.lifted = tuple(nested.lifted)
            self.node = attach(output, nested.close(results, f"{self.name}_body"), f"{self.name}_body")
        except Exception as error:
            self.error = error
            raise
        return example_values(results)

    def argument(self, nested, value):
        """The tracker of an argument of the function."""
        if isinstance(value, torch.Tensor):
            return TensorVariable(nested.argument("argument", value), value)
        if isinstance(value, (tuple, list)):
            return self.tx.build_sequence(type(value), [self.argument(nested, item) for item in value])
        if isinstance(value, dict):
            return self.tx.build_dict({key: self.argument(nested, item) for key, item in value.items()})
        return self.tx.build(value)


def capture_pure(tx, function, args, kwargs, complaint, may_write=lambda node: False):
    """(the nested graph of a call, the nodes of its result, and of the values that it writes).

    It computes tensors and changes nothing else.
    """
    output = tx.output
    effects, versions = effects_of(output), tensor_versions(output)
    with nested_graph(output) as nested:
        results = function.realize().call_function(tx, list(args), kwargs).realize().as_proxy()
        results = pytree.tree_map_only(fx.Node, lambda node: local_node(output, node), results)
    written = [n for n in nested.lifted if version_of(n) != versions.get(n, 0)]
    if changed_since(output, effects) or not all(map(may_write, written)):
        unsupported("function with a graph of its own", complaint)
    return nested, results, written


class GraphValueVariable(VariableTracker):
    """A value that exists only in the graph: a nested graph, or the function that `torch.func.vjp` returns."""

    def __init__(self, node):
        super().__init__()
        self.node = node

    def python_type(self):
        return type(self.node.meta["example_value"])

    def as_proxy(self):
        return self.node

    def call_function(self, tx, args, kwargs):
        return graph_call(tx, operator.call, [self, *args], kwargs)


# --- torch.func -----------------------------------------------------------------------------------------
def in_graph(transform):
    """The transform as the graph calls it: on a nested graph, with what that reads from around it."""

    def call(body, lifted, *args, **kwargs):
        return transform(lambda *inner, **named: body(*leaves_of(inner, named), *lifted), *args, **kwargs)

    call.__name__ = call.__qualname__ = transform.__name__.strip("_")
    return call


def captured(transform):
    """The handler of a transform that takes its function first."""
    target = in_graph(transform)

    def handler(tx, function, *args, **kwargs):
        node_args = tuple(value.realize().as_proxy() for value in args)
        node_kwargs = {name: value.realize().as_proxy() for name, value in kwargs.items()}
        body = Body(tx, function.realize(), target.__name__)
        try:
            with tx.output.fake_mode:
                result = transform(body, *example_values(node_args), **example_values(node_kwargs))
        except Exception as error:
            if error is body.error or isinstance(error, errors.MinicompileError):
                raise
            operator_raised(tx, target.__name__, error)
        if body.node is None:
            unsupported("function with a graph of its own", f"{target.__name__} does not call its function")
        node = tx.output.create_node("call_function", target, (body.node, body.lifted, *node_args), node_kwargs)
        return wrap_result(tx, node, result)

    return handler


# --- checkpoint -----------------------------------------------------------------------------------------
CHECKPOINT_OPTIONS = ("use_reentrant", "context_fn", "determinism_check", "debug", "early_stop", "preserve_rng_state")


class Contexts(torch.nn.Module):
    """What a checkpoint is given as `context_fn`, as a part of the graph."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self):
        return self.function()


def existing(tx, tracker):
    """The object that a tracker stands for: a function that needs nothing of the frame, a constant, or a partial."""
    tracker = tracker.realize()
    made = isinstance(tracker, NestedFunctionVariable)
    if made and not tracker.code.co_freevars and not any(map(is_something, tracker.given.values())):
        return types.FunctionType(tracker.code, tracker.globals_dict)
    if tracker.cls is functools.partial:
        args = [existing(tx, each) for each in tracker.args]
        kwargs = {name: existing(tx, each) for name, each in tracker.keywords_now(tx).items()}
        return functools.partial(existing(tx, tracker.function), *args, **kwargs)
    if tracker.is_python_constant():
        return tracker.as_python_constant()
    if not hasattr(tracker, "value"):
        unsupported(
            "function with a graph of its own", f"{tracker}, which chooses what a checkpoint keeps, is made here"
        )
    if tracker.source is not None:
        tx.guard("is", tracker.source, tracker.value)
    return tracker.value


def call_checkpoint(tx, function, *args, **kwargs):
    """A node that calls the same `checkpoint` on a nested graph; where no gradient is wanted, only the function."""
    options = {name: kwargs.pop(name) for name in CHECKPOINT_OPTIONS if name in kwargs}
    if not torch.is_grad_enabled():
        return function.realize().call_function(tx, list(args), kwargs)
    reentrant = tx.truth(options.get("use_reentrant", tx.build(True)))
    tensors = [arg for arg in (a.realize() for a in args) if isinstance(arg, TensorVariable)]
    if reentrant and (options.get("context_fn") or kwargs or not any(t.fake.requires_grad for t in tensors)):
        unsupported("function with a graph of its own", "checkpoint decides at run time what this call does")
    if "context_fn" in options:
        contexts = Contexts(existing(tx, options["context_fn"]))
        options["context_fn"] = GraphValueVariable(attach(tx.output, contexts, "checkpoint_contexts"))
    complaint = "checkpoint runs twice what changes something outside"

    def is_buffer(node):
        outside = node.op == "placeholder" and node.graph is tx.output.root_graph
        return outside and not node.meta["example_value"].requires_grad

    nested, results, written = capture_pure(tx, function, args, kwargs, complaint, is_buffer)
    nested.gather(written)
    closed, given = nested.close(results, "checkpoint_body"), {tensor.node for tensor in tensors}
    closed.meta["given"] = [k for k, node in enumerate(nested.lifted) if node in given]  # the others it finds itself
    body = attach(tx.output, closed, "checkpoint_body")
    operands = [GraphValueVariable(node) for node in (body, *nested.lifted)]
    if written:  # in a tuple: checkpoint remembers the version of each tensor that it is given
        operands.append(tx.build_sequence(tuple, map(GraphValueVariable, written)))
    return graph_call(tx, checkpoint, operands, options)


# --- torch.cond: a node that runs one of two nested graphs ------------------------------------------------
class AllDifferentiable(torch.autograd.Function):
    """Results of one branch that depend on all that either takes: what this one leaves out has a gradient of zeros."""

    @staticmethod
    def forward(ctx, count, *values):
        ctx.count, ctx.inputs = count, [torch.empty_like(value, device="meta") for value in values[count:]]
        ctx.devices = [value.device for value in values[count:]]
        return tuple(value.view_as(value) for value in values[:count])

    @staticmethod
    def backward(ctx, *gradients):
        zeros = [torch.zeros_like(like, device=device) for like, device in zip(ctx.inputs, ctx.devices)]
        return None, *gradients, *zeros


def run_branch(predicate, true_body, true_inputs, false_body, false_inputs):
    """As the graph calls it."""
    results = true_body(*true_inputs) if predicate else false_body(*false_inputs)
    return with_gradients(results, (true_inputs, false_inputs))


def with_gradients(results, inputs):
    wanted = list({id(leaf): leaf for leaf in leaves_of(inputs) if leaf.requires_grad}.values())
    leaves, structure = pytree.tree_flatten(results)
    if not wanted or not torch.is_grad_enabled():
        return results
    return pytree.tree_unflatten(AllDifferentiable.apply(len(leaves), *leaves, *wanted), structure)


def call_cond(tx, pred, true_fn, false_fn, operands=None):
    pred, operands = pred.realize(), [] if operands is None else operands.unpack(tx)
    if isinstance(pred, ConstantVariable):
        return (true_fn if tx.truth(pred) else false_fn).realize().call_function(tx, operands, {})
    if not isinstance(pred, TensorVariable) or pred.fake.numel() != 1:
        unsupported("function with a graph of its own", f"torch.cond of {pred}")
    branches = [
        capture_branch(tx, function, operands, word) for function, word in ((true_fn, "true"), (false_fn, "false"))
    ]
    (true_results, *true_parts), (false_results, *false_parts) = branches
    if described(true_results) != described(false_results):
        unsupported("function with a graph of its own", "the branches of torch.cond give different kinds of tensors")
    inputs = true_parts[1], false_parts[1]
    with tx.output.fake_mode:
        fresh = pytree.tree_map(
            lambda t: torch.empty_strided(t.shape, t.stride(), dtype=t.dtype, device=t.device), true_results
        )
        result = with_gradients(fresh, example_values(inputs))
    node = tx.output.create_node("call_function", run_branch, (pred.node, *true_parts, *false_parts))
    return wrap_result(tx, node, result)


def described(results):
    """What both branches must have in common."""
    leaves, structure = pytree.tree_flatten(results)
    return structure, [(t.shape, t.stride(), t.dtype, t.device) for t in leaves]


def capture_branch(tx, function, operands, word):
    """(example results, node of the nested graph, nodes of what it takes)."""
    complaint = "a branch of torch.cond changes something outside of it"
    nested, results, _ = capture_pure(tx, function, operands, {}, complaint)
    values = pytree.tree_leaves(example_values(results))
    if not all(isinstance(value, torch.Tensor) for value in values):
        unsupported("function with a graph of its own", "a branch of torch.cond returns something else than tensors")
    lifted = [n.meta["example_value"] for n in nested.lifted]
    storages = {value.untyped_storage()._cdata for value in lifted if isinstance(value, torch.Tensor)}
    if any(value.untyped_storage()._cdata in storages for value in values):
        unsupported("function with a graph of its own", "a branch of torch.cond returns what it was given")
    body = attach(tx.output, nested.close(results, f"{word}_branch"), f"{word}_branch")
    return example_values(results), body, tuple(nested.lifted)


# --- torch's while_loop: a node that runs two nested graphs -----------------------------------------------
def run_while(condition, condition_inputs, body, body_inputs, carried):
    """As the graph calls it."""
    values = tuple(value.clone() for value in carried)
    while condition(*values, *condition_inputs):
        values = body(*values, *body_inputs)
    return with_gradients(values, (carried, condition_inputs, body_inputs))


def call_while_loop(tx, condition, body, carried, additional):
    nodes, before = tuple(value.realize().as_proxy() for value in carried.unpack(tx)), effects_of(tx.output)
    parts = Body(tx, condition.realize(), "condition"), Body(tx, body.realize(), "loop_body")
    values = example_values(nodes)
    if not all(isinstance(value, torch.Tensor) for value in values) or additional.unpack(tx):
        unsupported("function with a graph of its own", "while_loop carries something else than tensors")
    predicate, results = (part(*values) for part in parts)
    asks = isinstance(predicate, torch.Tensor) and predicate.numel() == 1
    if not asks or described(results) != described(values) or changed_since(tx.output, before):
        complaint = "the functions of while_loop give something else than they take, or change something outside"
        unsupported("function with a graph of its own", complaint)
    inputs = [given for part in parts for given in (part.node, part.lifted)]
    with tx.output.fake_mode:
        fresh = tuple(torch.empty_like(value) for value in results)
        result = with_gradients(fresh, example_values((nodes, parts[0].lifted, parts[1].lifted)))
    node = tx.output.create_node("call_function", run_while, (*inputs, nodes))
    return wrap_result(tx, node, result)


# --- flex attention ---------------------------------------------------------------------------------------
def attention_of_scores(score_body, score_lifted, mask_body, mask_lifted, query, key, value, scale):
    """As the graph calls it: torch's written-out form, which batches both functions over all scores."""

    def score_mod(*inner):
        return score_body(*inner, *score_lifted)

    def mask_mod(*inner):
        return mask_body(*inner, *mask_lifted)

    return math_attention(query, key, value, score_mod, (mask_mod,), scale, {})


def call_flex_attention(tx, query, key, value, score_mod, block_mask, scale, kernel_options):
    """The operator below `torch.nn.attention.flex_attention`.  Blocks that a block mask leaves out are computed too."""
    nodes = tuple(operand.realize().as_proxy() for operand in (query, key, value, scale))
    score = Body(tx, score_mod.realize(), "score_mod")
    mask = Body(tx, block_mask.unpack(tx)[-1].realize(), "mask_mod")
    try:
        with tx.output.fake_mode:
            result = attention_of_scores(score, (), mask, (), *example_values(nodes))
    except Exception as error:
        if error is score.error or error is mask.error or isinstance(error, errors.MinicompileError):
            raise
        operator_raised(tx, "flex_attention", error)
    parts = (score.node, score.lifted, mask.node, mask.lifted, *nodes)
    node = tx.output.create_node("call_function", attention_of_scores, parts)
    return wrap_result(tx, node, result)


HANDLERS = {
    checkpoint: call_checkpoint,
    flex_attention: call_flex_attention,
    while_loop_op: call_while_loop,
    torch.cond: call_cond,
    **{
        transform: captured(transform)
        for transform in (
            vmap.vmap_impl,
            eager_transforms.grad_and_value_impl,
            eager_transforms._vjp_with_argnums,
            eager_transforms._jvp_with_argnums,
        )
    },
}
