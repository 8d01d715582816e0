"""`torch.autograd.Function.apply` during capture.

Goes in: the class and the arguments.  Comes out: its `forward`, inlined, where no gradient is wanted of it; else a
break, because a custom backward is not captured.  Mirrors AutogradFunctionApplyVariable of
`torch/_dynamo/variables/higher_order_ops.py`.  Taught in chapter 06.
"""

import torch
from torch.autograd.function import FunctionCtx, _SingleLevelFunction

from .base import unsupported
from .classes import new_plain_object
from .tensor import TensorVariable


def apply(tx, cls, *args, **kwargs):
    tensors = [value for value in (arg.realize() for arg in args) if isinstance(value, TensorVariable)]
    grad_enabled = torch.is_grad_enabled()
    if grad_enabled and any(tensor.fake.requires_grad for tensor in tensors):
        unsupported("custom autograd function", f"{cls.as_python_constant().__qualname__} has a backward of its own")
    tx.call(torch._C._set_grad_enabled, tx.build(False))
    try:
        return forward(tx, cls, list(args), kwargs)
    finally:
        tx.call(torch._C._set_grad_enabled, tx.build(grad_enabled))


def forward(tx, cls, args, kwargs):
    context = new_plain_object(tx, FunctionCtx, [], {})
    tx.side_effects.store_attr(context, "needs_input_grad", tx.build((False,) * len(args)))
    run = cls.var_getattr(tx, "forward")
    if cls.as_python_constant().setup_context is _SingleLevelFunction.setup_context:
        return run.call_function(tx, [context, *args], kwargs)
    output = run.call_function(tx, args, kwargs)
    cls.var_getattr(tx, "setup_context").call_function(tx, [context, tx.build_tuple(args), output], {})
    return output


HANDLERS = {torch.autograd.Function.apply.__func__: apply}
