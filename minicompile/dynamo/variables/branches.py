"""`torch.cond` during capture: both branches as nested graphs, and a node that runs one of them.

Goes in: `torch.cond(pred, true_fn, false_fn, operands)`.  Comes out: a call of `run_branch`; where the predicate is a
Python value, the branch itself, inlined.  Branches compute tensors and change nothing.
Mirrors CondHigherOrderVariable in `torch/_dynamo/variables/higher_order_ops.py`.  Taught in chapter 06.
"""

import torch
from torch import fx
from torch.utils import _pytree as pytree

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
from .base import unsupported
from .constant import ConstantVariable
from .higher_order import leaves_of
from .tensor import TensorVariable, wrap_result


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
        capture_branch(tx, function.realize(), operands, word)
        for function, word in ((true_fn, "true"), (false_fn, "false"))
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
    node.meta["example_value"] = result
    return wrap_result(tx, node, result)


def described(results):
    """What both branches must have in common."""
    leaves, structure = pytree.tree_flatten(results)
    return structure, [(t.shape, t.stride(), t.dtype, t.device) for t in leaves]


def capture_branch(tx, function, operands, word):
    """(example results, node of the nested graph, nodes of what it takes)."""
    output = tx.output
    effects, versions = effects_of(output), tensor_versions(output)
    with nested_graph(output) as nested:
        results = function.call_function(tx, list(operands), {}).realize().as_proxy()
        results = pytree.tree_map_only(fx.Node, lambda node: local_node(output, node), results)
    written = [n for n in nested.lifted if version_of(n) != versions.get(n, 0)]
    if written or changed_since(output, effects):
        unsupported("function with a graph of its own", "a branch of torch.cond changes something outside of it")
    values = pytree.tree_leaves(example_values(results))
    if not all(isinstance(value, torch.Tensor) for value in values):
        unsupported("function with a graph of its own", "a branch of torch.cond returns something else than tensors")
    lifted = [n.meta["example_value"] for n in nested.lifted]
    storages = {value.untyped_storage()._cdata for value in lifted if isinstance(value, torch.Tensor)}
    if any(value.untyped_storage()._cdata in storages for value in values):
        unsupported("function with a graph of its own", "a branch of torch.cond returns what it was given")
    body = attach(output, nested.close(results, f"{word}_branch"), f"{word}_branch")
    return example_values(results), body, tuple(nested.lifted)


HANDLERS = {torch.cond: call_cond}
