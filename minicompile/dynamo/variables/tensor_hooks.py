"""`tensor.register_hook(hook)` of a tensor of the graph: a hook that will see later what it sees now is a nested graph.

Goes in: such a call.  Comes out: a node that registers the nested graph; or a break, where the hook reads what may
have changed when the backward pass calls it (eager reads it then): a list, an attribute, a variable that is set again.
Mirrors `method_register_hook` in `torch/_dynamo/variables/tensor.py`.  Taught in chapter 06.
"""

import dis
import types

import torch

from ..bytecode_analysis import settled_cells
from ..nested_graphs import changed_since, effects_of
from .base import unsupported
from .functions import NestedFunctionVariable
from .higher_order import Body, GraphValueVariable
from .tensor import TensorVariable

SETTLED = (int, float, complex, bool, str, type(None), torch.dtype, torch.device)


def register_hook(tensor, body, lifted):
    """As the graph calls it."""
    return tensor.register_hook(lambda gradient: body(gradient, *lifted))


def capture_hook(tx, tensor, hook):
    """The node, and the handle that it returns."""
    hook = hook.realize()
    if not reads_what_stays(tx, hook):
        unsupported("tensor hook", "the hook reads what may have changed when it is called")
    body, before = Body(tx, hook, "hook"), effects_of(tx.output)
    with torch.no_grad(), tx.output.fake_mode:
        body(torch.empty_like(tensor.fake))
    if changed_since(tx.output, before):
        unsupported("tensor hook", "the hook changes objects outside of it")
    node = tx.output.create_node("call_function", register_hook, (tensor.node, body.node, body.lifted))
    return HookHandleVariable(node)


def reads_what_stays(tx, hook):
    """Whether a hook's variables are tensors and constants set once, and its globals modules and their functions."""
    if not isinstance(hook, NestedFunctionVariable):
        return hook.is_python_constant() and isinstance(hook.as_python_constant(), types.BuiltinFunctionType)
    names = {i.argval for i in dis.get_instructions(hook.code) if i.opname == "LOAD_GLOBAL"}
    scopes = (hook.globals_dict, hook.builtins_dict)
    found = [next((scope[name] for scope in scopes if name in scope), None) for name in names]
    if not all(isinstance(value, (types.ModuleType, types.BuiltinFunctionType, type)) for value in found):
        return False
    contents = [cell.load(tx) for cell in hook.cells(tx)]
    settled = settled_cells(tx.code, tx.instructions).issuperset(hook.code.co_freevars)
    return settled and not hook.defaults(tx) and all(map(stays, contents))


def stays(value):
    """Whether it is a tensor of the graph, or a constant."""
    if value is None or isinstance(value := value.realize(), TensorVariable):
        return value is not None
    return value.is_python_constant() and isinstance(value.as_python_constant(), SETTLED)


class HookHandleVariable(GraphValueVariable):
    """What `register_hook` returns."""

    def python_type(self):
        return torch.utils.hooks.RemovableHandle

    def method_remove(self, tx):
        tx.output.create_node("call_method", "remove", (self.node,))
        return tx.build(None)
