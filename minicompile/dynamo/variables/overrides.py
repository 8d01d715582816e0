"""`__torch_function__` during capture: classes and modes that see each call of a function of torch before torch does.

Goes in: a call of a function of torch, or of a method, operator or attribute of tensors.  Comes out: what the code that
overrides it, inlined, answers; None where PyTorch asks nobody.  What that code is to be handed (`torch.Tensor.add` for
`x + 1`, the defaults of `F.relu` filled in), PyTorch says itself: the call is made on stand-ins under a mode that
raises what it gets.
Mirrors `torch/_dynamo/variables/torch_function.py`.  Taught in chapter 06.
"""

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._device import DeviceContext

from ..builder import guarded, wraps
from ..guard_checks import ambient_state
from ..polyfills import overrides
from ..source import CallSource, ConstantSource
from .base import ValueVariable, refuse_arguments, unsupported
from .constant import ConstantVariable

STATES = overrides.STATES


def is_overridden(tx, *values):
    """Whether code of the user's may see a call with these arguments first."""
    if tx.side_effects.function_modes:
        return torch._C._get_torch_function_state() != STATES.ALL_DISABLED
    return any(value.has_torch_function() for value in values) and torch._C._is_torch_function_enabled()


class Handed(Exception):
    """What PyTorch hands to `__torch_function__`."""

    def __init__(self, function, types, args, kwargs):
        super().__init__(function)
        self.function, self.types, self.args, self.kwargs = function, types, args, kwargs


class Recorder(TorchFunctionMode):
    def __torch_function__(self, function, types, args=(), kwargs=None):
        raise Handed(function, types, args, kwargs)


class StandIns:
    """Values that PyTorch takes for the arguments of a call, and the way back to their trackers."""

    def __init__(self, tx):
        self.tx = tx
        self.trackers, self.values = {}, []  # id of a stand-in -> its tracker; the stand-ins, kept alive

    def of(self, tracker):
        tracker = tracker.realize()
        value = self.make(tracker)
        self.values.append(value)
        if not isinstance(tracker, ConstantVariable):
            self.trackers[id(value)] = tracker
        return value

    def make(self, tracker):
        if isinstance(tracker, ConstantVariable):
            return tracker.value
        cls = tracker.python_type()
        if issubclass(cls, torch.Tensor):
            return torch.Tensor._make_subclass(cls, torch.empty(0))
        if cls in (list, tuple):
            return cls(map(self.of, tracker.unpack(self.tx)))
        if tracker.has_torch_function():
            return object.__new__(cls)
        return tracker  # PyTorch only passes it on

    def tracker(self, value):
        """The tracker of what PyTorch made of the arguments."""
        if id(value) in self.trackers:
            return self.trackers[id(value)]
        if type(value) in (list, tuple):
            return self.tx.build_sequence(type(value), map(self.tracker, value))
        if type(value) is dict:
            return self.tx.build_dict({key: self.tracker(item) for key, item in value.items()})
        return self.tx.build(value)

    def overloaded(self, types):
        """The trackers of the first values of these types."""
        return [self.trackers[id(next(value for value in self.values if type(value) is cls))] for cls in types]


def dispatch(tx, function, args, kwargs):
    """`function(*args, **kwargs)`, answered by who overrides it; None where it is for PyTorch to answer."""
    stand_ins = StandIns(tx)
    values, named = list(map(stand_ins.of, args)), {name: stand_ins.of(value) for name, value in kwargs.items()}
    try:
        with Recorder():
            function(*values, **named) if named else function(*values)  # C code tells no keywords from none
    except Handed as found:
        handed = found.with_traceback(None)  # which would keep this frame in a cycle
    except Exception:  # whatever is wrong with the arguments, the call in the graph will say
        return None
    else:
        return None
    overloaded = stand_ins.overloaded(handed.types) if torch._C._is_torch_function_enabled() else []
    if not overloaded and not tx.side_effects.function_modes:
        return None
    parts = [handed.function, tx.build_tuple(overloaded), handed.types, stand_ins.tracker(handed.args)]
    parts += [] if handed.kwargs is None else [stand_ins.tracker(handed.kwargs)]
    result = tx.inline(overrides.call_torch_function, list(map(tx.build, parts))).realize()
    if isinstance(result, ConstantVariable) and result.value is NotImplemented:
        unsupported("operator raised", f"nobody who overrides {handed.function} takes these arguments")
    return result


class TensorAttributeVariable(ValueVariable):
    """`torch.Tensor.shape.__get__`, as `__torch_function__` is handed it."""

    def call_function(self, tx, args, kwargs):
        tensor, *values = [arg.realize() for arg in args]
        descriptor, access = self.value.__self__, self.value.__name__
        if not issubclass(tensor.python_type(), torch.Tensor):
            unsupported("attribute written in C", f"Tensor.{descriptor.__name__} of {tensor}")
        if access == "__get__":
            return tensor.torch_attribute(tx, descriptor.__name__)
        if access != "__set__":
            unsupported("tensor attribute write", f"Tensor.{descriptor.__name__}.{access}")
        tensor.set_torch_attribute(tx, descriptor.__name__, *values)
        return tx.build(None)


# --- tensors of classes that override -------------------------------------------------------------------
def is_overriding(value):
    return overrides_torch(type(value))


def overrides_torch(cls):
    """Whether a class has a `__torch_function__` that does something; torch.Tensor's is left out."""
    method = getattr(cls, "__torch_function__", None)
    return cls is not torch.Tensor and method not in (None, torch._C._disabled_torch_function_impl)


def plain_tensor(tensor):
    """The tensor itself, or one of class torch.Tensor that stands for it."""
    if not is_overriding(tensor):
        return tensor
    with torch._C.DisableTorchFunction():
        plain = tensor.detach() if tensor.is_leaf else tensor.as_subclass(torch.Tensor)
        return plain.requires_grad_(tensor.requires_grad)


def without_overriding(function):
    """The function of tensors that runs with nobody overriding: who overrides is in the graph already."""

    def call(*args):
        with torch._C.DisableTorchFunction():
            return function(*args)

    return call


# --- the stack of modes ---------------------------------------------------------------------------------
def mode_at(module, index):
    return module._get_function_stack_at(index)


def existing_modes(output, stack):
    """The trackers of the modes that are on when the frame is entered."""
    place = ConstantSource(torch._C, "torch._C")
    return [output.wrap(mode, CallSource(place, mode_at, (index,))) for index, mode in enumerate(stack)]


class FunctionModesOff:
    """While a frame is captured, torch function modes are on for the captured program only.

    stack: those that were on; ambient: what guards ask of all modes.
    """

    def __init__(self):
        self.stack, self.ambient = [], ambient_state()

    def __enter__(self):
        self.stack = [torch._C._pop_torch_function_stack() for _ in range(torch._C._len_torch_function_stack())][::-1]
        return self

    def __exit__(self, *exception):
        for mode in self.stack:
            torch._C._push_on_torch_function_stack(mode)

    def may_watch(self):
        """Whether some mode would see it when guards read the sizes of tensors."""
        return any(type(mode) is not DeviceContext for mode in self.stack)


def push_mode(tx, mode):
    tx.side_effects.function_modes.append(mode)
    return tx.build(None)


def pop_mode(tx):
    if not tx.side_effects.function_modes:
        tx.raise_observed(RuntimeError, "trying to pop from empty mode stack")
    return tx.side_effects.function_modes.pop()


def modes_enabled(tx):
    on = torch._C._get_torch_function_state() != STATES.ALL_DISABLED
    return tx.build(on and bool(tx.side_effects.function_modes))


def has_torch_function(tx, *values):
    """`has_torch_function((a, b))`, `has_torch_function_unary(a)` and `has_torch_function_variadic(a, b)`."""
    return tx.build(is_overridden(tx, *(value.realize() for value in values)))


class DeviceVariable(ConstantVariable):
    """A torch.device, which is a constant, and for `with` a mode."""

    def call_method(self, tx, name, args, kwargs):
        block = {"__enter__": overrides.enter_device, "__exit__": overrides.exit_device}.get(name)
        if name == "__enter__" and args:
            refuse_arguments(tx, self.value.__enter__, args)
        return tx.inline(block, [self, *args]) if block is not None else super().call_method(tx, name, args, kwargs)


wraps(torch.device)(guarded("equals", DeviceVariable))


HANDLERS = {
    torch._C._push_on_torch_function_stack: push_mode,
    torch._C._pop_torch_function_stack: pop_mode,
    torch._C._len_torch_function_stack: lambda tx: tx.build(len(tx.side_effects.function_modes)),
    torch._C._get_function_stack_at: lambda tx, k: tx.side_effects.function_modes[k.as_python_constant()],
    torch._C._is_torch_function_mode_enabled: modes_enabled,
    torch._C._has_torch_function: has_torch_function,
    torch._C._has_torch_function_unary: has_torch_function,
    torch._C._has_torch_function_variadic: has_torch_function,
}
