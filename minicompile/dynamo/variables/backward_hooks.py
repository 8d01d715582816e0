"""Full backward hooks of modules: the graph sets them up, and autograd calls them when the backward runs.

Goes in: the `BackwardHook` that `nn.Module._call_impl` makes, and the tensors that it lets through.
Comes out: nodes of the graph that do the same.  The hooks are the user's own functions, called as in eager; a backend
that traces the graph cannot see into that time, so it leaves such a graph to eager.
Mirrors `torch/_dynamo/variables/nn_module.py` and compiled autograd's hooks.  Taught in chapter 06.
"""

import types
import weakref

import torch
from torch._subclasses.functional_tensor import FunctionalTensor
from torch.utils.hooks import BackwardHook

from ..break_kinds import break_error
from .base import unsupported
from .higher_order import GraphValueVariable
from .tensor import TensorVariable, wrap_result


def maker_of(module, hooks, pre_hooks):
    """The function that the graph calls for a new BackwardHook; it keeps nothing alive."""
    parts = weakref.ref(module), *(list(map(weakref.ref, functions)) for functions in (hooks, pre_hooks))

    def backward_hook():
        return BackwardHook(parts[0](), *([function() for function in functions] for functions in parts[1:]))

    return backward_hook


def let_through(hook, method, values):
    """`hook.setup_input_hook(values)` and its like, as the graph calls it."""
    if any(isinstance(value, FunctionalTensor) for value in values):
        raise break_error("tensor hook", "the graph sets a backward hook of a module, which runs Python code")
    return getattr(hook, method)(values)


class BackwardHookVariable(GraphValueVariable):
    """A BackwardHook in the graph."""

    def method_setup_input_hook(self, tx, args):
        return tx.build_tuple(self.let_through(tx, "setup_input_hook", args.unpack(tx)))

    def method_setup_output_hook(self, tx, result):
        result = result.realize()
        if result.python_type() is tuple:
            return tx.build_tuple(self.let_through(tx, "setup_output_hook", result.unpack(tx)))
        return self.let_through(tx, "setup_output_hook", [result])[0]

    def let_through(self, tx, method, values):
        """The values, of which the tensors have gone through the hook."""
        values = [value.realize() for value in values]
        tensors = [value for value in values if isinstance(value, TensorVariable)]
        changes = torch.is_grad_enabled() and any(tensor.fake.requires_grad for tensor in tensors)
        arguments = self.node, method, tuple(value.as_proxy() for value in values)
        node = tx.output.create_node("call_function", let_through, arguments)
        if not changes:
            return values
        with tx.output.fake_mode:
            results = [t.fake.view_as(t.fake) if t in tensors else None for t in values]
        found = wrap_result(tx, node, tuple(results)).unpack(tx)
        return [new if value in tensors else value for value, new in zip(values, found)]


def existing(tx, tracker):
    """The object behind a tracker, guarded to be the same at each call."""
    tracker = tracker.realize()
    value = getattr(tracker, "value", None)
    if tracker.source is None or not isinstance(value, (types.FunctionType, torch.nn.Module)):
        unsupported("tensor hook", f"a backward hook of a module: {tracker} was made in the compiled function")
    tx.guard("is", tracker.source, value)
    return value


def make_backward_hook(tx, module, user_hooks, user_pre_hooks):
    hooks, pre_hooks = ([existing(tx, hook) for hook in each.unpack(tx)] for each in (user_hooks, user_pre_hooks))
    module = existing(tx, module)
    node = tx.output.create_node("call_function", maker_of(module, hooks, pre_hooks))
    node.meta["example_value"] = BackwardHook(module, hooks, pre_hooks)
    return BackwardHookVariable(node)


HANDLERS = {BackwardHook: make_backward_hook}
