"""Functions of torch: those that become graph nodes, those that read or switch a mode, those that are constants.

Goes in: `torch.add`, `F.linear`, `torch.ops.aten.mm`, ...  Comes out: a graph operation, or a handler's answer.
Mirrors `torch/_dynamo/variables/torch.py` and `trace_rules.py`.  Taught in chapters 03 and 06.

All other Python in torch (nn.Module, context managers, initialisers) is inlined like the user's own code:
`torch.no_grad()` needs no tracker of its own, because its `__enter__` ends in the mode setter
`torch._C._set_grad_enabled`.
"""

import types

import torch
import torch.nn.functional as F
from torch._subclasses.fake_tensor import DataDependentOutputException

from ...errors import Unsupported
from ..builder import guarded, wraps_if
from ..polyfills import tensors
from . import data_numbers, modes, numpy_arrays, overrides, wrong_calls
from .base import ValueVariable, unsupported
from .constant import TRUE
from .functions import UserFunctionVariable
from .overrides import dispatch, is_overridden
from .tensor import TensorVariable, graph_call, tensors_among

C_CALLABLES = (
    types.BuiltinFunctionType,
    types.MethodDescriptorType,
    types.WrapperDescriptorType,
    torch._ops.OpOverload,
    torch._ops.OpOverloadPacket,
)
GRAPH_NAMESPACES = (torch._C._VariableFunctions, torch._C._nn, torch._C._fft, torch._C._linalg, torch._C._special)
GRAPH_MODULES = {"torch.functional", "torch.nn.functional", "torch._jit_internal", "torch.special", "torch.fft"}


def _graph_builtins():
    """The C functions of the namespaces that hold operators (by identity: their `__module__` is unreliable)."""
    found = {F.scaled_dot_product_attention, torch._C._get_tracing_state}
    for namespace in GRAPH_NAMESPACES:
        for name in dir(namespace):
            value = getattr(namespace, name)
            if not name.startswith("__") and callable(value):
                found.add(value)
    return found


GRAPH_BUILTINS = _graph_builtins()


def is_graph_function(value):
    """Whether a call of `value` is one node of the graph."""
    if isinstance(value, (torch._ops.OpOverload, torch._ops.OpOverloadPacket)):
        return True
    if isinstance(value, types.FunctionType):
        return value.__module__ in GRAPH_MODULES and value not in HANDLERS
    if isinstance(value, C_CALLABLES):
        return value in GRAPH_BUILTINS
    return False


class TorchFunctionVariable(ValueVariable):
    """A function of torch whose call is a graph node, or has a row in HANDLERS."""

    def call_function(self, tx, args, kwargs):
        args = [a.realize() for a in args]
        kwargs = {k: v.realize() for k, v in kwargs.items()}
        if is_overridden(tx, *args, *kwargs.values()) and self.value not in NEVER_OVERRIDDEN:
            answer = dispatch(tx, self.value, args, kwargs)
            if answer is not None:
                return answer
        handler = HANDLERS.get(self.value)
        if handler is not None and not wrong_calls.takes(handler, tx, *args, **kwargs):
            unsupported("torch call left to eager", f"{self.name} with arguments that it may not take")
        if handler is not None:
            return handler(tx, *args, **kwargs)
        if self.value in modes.CALLS:
            return modes.mode_call(tx, self.value, args, kwargs)
        if self.value in BREAKING:
            unsupported("torch call left to eager", f"{self.name} {BREAKING[self.value]}")
        if "out" in kwargs:
            return call_with_out(tx, self.value, args, kwargs)
        try:
            return graph_call(tx, self.value, args, kwargs)
        except Unsupported as error:
            asks = isinstance(error.__context__, DataDependentOutputException)
            if not asks or not isinstance(self.value, types.FunctionType):
                raise
        # Its Python asks for a number: it is followed like the user's own, to the place that asks.
        return UserFunctionVariable(self.value, self.source).call_function(tx, args, kwargs)

    def var_getattr(self, tx, name):
        return tx.constant_getattr(self, name)

    @property
    def name(self):
        return getattr(self.value, "__name__", str(self.value))

    def __repr__(self):
        return f"TorchFunctionVariable({self.name})"


def call_with_out(tx, function, args, kwargs):
    """`out=` writes into its argument and returns that object; a wrong shape would resize it, so that breaks."""
    out = kwargs["out"].realize()
    targets = out.unpack(tx) if issubclass(out.python_type(), (list, tuple)) else [] if tx.is_none(out) else [out]
    targets = [target.realize() for target in targets]
    if not all(isinstance(target, TensorVariable) for target in targets):
        unsupported("torch call left to eager", f"{function.__name__} with an `out` that is no tensor")
    before = [tuple(target.fake.shape) for target in targets]
    result = graph_call(tx, function, args, kwargs)
    if before != [tuple(target.fake.shape) for target in targets]:
        unsupported("tensor storage", "the out tensor has another shape than the result", "give it the right shape")
    return result


# --- handlers -------------------------------------------------------------------------------------------
def _constant(value):
    return lambda tx, *args, **kwargs: tx.build(value)


def _of_fake(function):
    """A pure question about a tensor's metadata, answered by its fake."""

    def handler(tx, tensor, *args):
        if not isinstance(tensor, TensorVariable):
            return tx.fold(function, [tensor, *args], {})
        return tensor.metadata(tx, function.__name__, [a.as_python_constant() for a in args])

    return handler


def _torch_tensor(tx, data, **kwargs):
    """`torch.tensor(numbers)` is a graph constant; of tensors it reads their data."""
    if data_numbers.holds_unknown(data):
        return data_numbers.make_tensor(tx, data, **kwargs)
    if not data.is_python_constant() and data.python_type() is not numpy_arrays.numpy.ndarray:
        unsupported("tensor read as a number", "torch.tensor() of tensors reads their data", "use torch.stack")
    return numpy_arrays.reading(torch.tensor, copy=True)(tx, data, **kwargs)


def _autograd_grad(tx, outputs, inputs, *args, **kwargs):
    """Gradients inside the graph.  What came before an input of the graph has a history that the graph cannot see."""
    wanted = {id(tensor) for tensor in tensors_among([inputs])}
    for graph_input in tx.output.tensor_inputs():
        value = graph_input.value
        alone = wanted == {id(tx.output.known(value))}
        if value.requires_grad and (value._backward_hooks or not (value.is_leaf or alone)):
            word = "has hooks" if value._backward_hooks else "was computed before"
            unsupported("backward inside a compiled function", f"autograd.grad, where {graph_input.source.name} {word}")
    return graph_call(tx, torch.autograd.grad, [outputs, inputs, *args], kwargs)


def make_tensor(tx, *args, **kwargs):
    """`torch.Tensor(2, 3)`, `torch.Tensor([2, 3])` and `torch.Tensor(tensor)`."""
    return make_legacy_tensor(tx, torch.get_default_dtype(), None, args, kwargs)


def make_legacy_tensor(tx, dtype, only, args, kwargs):
    """What the old constructors make.  only: the dtype of tensors that they take, or None for any."""
    args = [a.realize() for a in args]
    if len(args) == 1 and isinstance(args[0], TensorVariable) and not kwargs and only in (None, args[0].fake.dtype):
        return graph_call(tx, torch.ops.aten.alias.default, args, {})
    if kwargs or any(not a.is_python_constant() for a in args):
        unsupported(
            "operator argument", "torch.Tensor() of an unknown value, or on a device", "use torch.tensor or torch.empty"
        )
    if len(args) == 1 and args[0].python_type() in (list, tuple):
        return graph_call(tx, torch.tensor, args, {"dtype": tx.build(dtype)})
    sizes = args[0] if args and args[0].python_type() is torch.Size else tx.build_list(args or [tx.build(0)])
    return graph_call(tx, torch.empty, [sizes], {"dtype": tx.build(dtype)})


def make_typed_tensor(tx, cls, args, kwargs):
    """`torch.FloatTensor(...)`, `torch.LongTensor(...)`: the class is a name for tensors of this dtype."""
    if cls.is_cuda or cls.is_sparse:
        unsupported("class written in C", f"{cls.__name__}() makes a tensor of another device or layout")
    return make_legacy_tensor(tx, cls.dtype, cls.dtype, args, kwargs)


def make_parameter(tx, data=None, requires_grad=TRUE):
    """`nn.Parameter(data)`: a new leaf, made by the graph."""
    data = graph_call(tx, torch.empty, [tx.build(0)], {}) if data is None else data.realize()
    if not isinstance(data, TensorVariable):
        unsupported("operator argument", f"nn.Parameter of {data}")
    made = graph_call(tx, torch.nn.Parameter, [data, requires_grad], {})
    made.cls = torch.nn.Parameter
    return made


def _with_tensor_value(function, method):
    """A foreach function whose last argument, a tensor, holds the number for each element of the lists."""

    def handler(tx, *args, **kwargs):
        if isinstance(args[-1], TensorVariable):
            return tx.inline(tensors.foreach(method), args)
        return graph_call(tx, function, args, kwargs)

    return handler


def _recurrent(function):
    """A recurrent layer on a GPU is one cuDNN kernel, which PyTorch's rules for tracing would take apart wrongly."""

    def handler(tx, *args, **kwargs):
        if any(isinstance(a, TensorVariable) and a.fake.is_cuda for a in args):
            unsupported("torch call left to eager", f"torch.{function.__name__} is left to cuDNN")
        return graph_call(tx, function, args, kwargs)

    return handler


def _assert(tx, condition, message=None):
    if isinstance(condition, TensorVariable):
        unsupported("data-dependent branch", "torch._assert looks at the data of a tensor")
    if not condition.truth(tx):
        tx.raise_observed(AssertionError, "" if message is None else message.as_python_constant())
    return tx.build(None)


HANDLERS = {
    torch.is_tensor: lambda tx, value: tx.build(isinstance(value, TensorVariable)),
    torch.is_floating_point: _of_fake(torch.is_floating_point),
    torch.is_complex: _of_fake(torch.is_complex),
    torch.is_conj: _of_fake(torch.is_conj),
    torch.is_neg: _of_fake(torch.is_neg),
    torch.is_signed: _of_fake(torch.is_signed),
    torch.numel: _of_fake(torch.numel),
    torch.tensor: _torch_tensor,
    torch.as_tensor: numpy_arrays.reading(torch.as_tensor, copy=False),
    torch.from_numpy: numpy_arrays.from_numpy,
    torch.autograd.grad: _autograd_grad,
    **{
        getattr(torch, f"_foreach_{name}"): _with_tensor_value(getattr(torch, f"_foreach_{name}"), method)
        for name, method in tensors.METHODS.items()
    },
    **{function: _recurrent(function) for function in (torch.lstm, torch.gru, torch.rnn_tanh, torch.rnn_relu)},
    torch._assert: _assert,
    torch.compiler.is_compiling: _constant(True),
    torch.compiler.is_dynamo_compiling: _constant(True),
    torch.compiler.is_exporting: _constant(False),
    torch.jit.is_scripting: _constant(False),
    torch.jit.is_tracing: _constant(False),
    torch._jit_internal.is_scripting: _constant(False),
    torch._C._get_tracing_state: _constant(None),
    torch._C._log_api_usage_once: _constant(None),
    **modes.HANDLERS,
    **overrides.HANDLERS,
    **data_numbers.HANDLERS,
}

# functions that capture leaves to eager, and why
BREAKING = {
    torch.manual_seed: "seeds the global generator",
    torch.seed: "seeds the global generator",
    torch.save: "writes a file",
    torch.load: "reads a file",
    torch.quantize_per_tensor: "gives a quantized tensor",  # of which its fake knows nothing
    **dict.fromkeys(  # one kernel already, and PyTorch has no functional form of all of them
        (torch._fused_sgd_, torch._fused_adam_, torch._fused_adamw_, torch._fused_adagrad_), "is an optimizer's kernel"
    ),
}
NEVER_OVERRIDDEN = {*overrides.HANDLERS, *modes.CALLS, *BREAKING}
NEVER_OVERRIDDEN -= {torch._C._set_grad_enabled}
ALWAYS_TRACKED = {*HANDLERS, *modes.CALLS, *BREAKING}


def is_tracked(value):
    if not issubclass(type(value), (types.FunctionType, *C_CALLABLES)):
        return False
    return value in ALWAYS_TRACKED or is_graph_function(value)


wrap_torch_function = guarded("is", TorchFunctionVariable)


class TensorMethodVariable(TorchFunctionVariable):
    """`torch.Tensor.relu`: an unbound method, called with the tensor first."""

    def call_function(self, tx, args, kwargs):
        instance = args[0].realize() if args else None
        if not isinstance(instance, TensorVariable):
            unsupported("torch call left to eager", f"{self.name} of {instance}")
        return instance.torch_method(tx, self.name, args[1:], kwargs)


def _is_tensor_method(value):
    if issubclass(type(value), (types.MethodDescriptorType, types.WrapperDescriptorType)):
        return issubclass(value.__objclass__, torch._C.TensorBase) or value.__objclass__ is torch._C.TensorBase
    return False


wraps_if(is_tracked, order=1)(wrap_torch_function)
wraps_if(_is_tensor_method, order=2)(guarded("is", TensorMethodVariable))
