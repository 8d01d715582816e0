"""What PyTorch's C code does for `__torch_function__`, written in Python.  See polyfills/__init__.py."""

import torch
from torch.overrides import _pop_mode_temporarily
from torch.utils._device import DeviceContext

STATES = torch._C._TorchFunctionState


class TorchFunctionSwitch:
    """A context manager that switches overriding by classes, or all of it, off or on."""

    def __enter__(self):
        self.before = torch._C._get_torch_function_state()
        torch._C._set_torch_function_state(self.state(self.before))

    def __exit__(self, *exception):
        torch._C._set_torch_function_state(self.before)


class DisableTorchFunctionSubclass(TorchFunctionSwitch):
    def state(self, before):
        return STATES.ALL_DISABLED if before == STATES.ALL_DISABLED else STATES.SUBCLASSES_DISABLED


class DisableTorchFunction(TorchFunctionSwitch):
    def state(self, before):
        return STATES.ALL_DISABLED


class EnableTorchFunction(TorchFunctionSwitch):
    def state(self, before):
        return STATES.ENABLED


def call_torch_function(function, overloaded, types, args, *kwargs):
    """Ask the innermost mode, then each value whose class overrides.  kwargs: a dict, or nothing at all."""
    if torch._C._is_torch_function_mode_enabled():
        with _pop_mode_temporarily() as mode:
            result = mode.__torch_function__(function, types, args, *kwargs)
        if result is not NotImplemented:
            return result
    for value in overloaded:
        result = value.__torch_function__(function, types, args, *kwargs)
        if result is not NotImplemented:
            return result
    return NotImplemented


def enter_device(device):
    """`with torch.device(...)`."""
    torch._C._push_on_torch_function_stack(DeviceContext(device))
    return device


def exit_device(device, *exception):
    torch._C._pop_torch_function_stack()


POLYFILLS = {
    torch._C.DisableTorchFunctionSubclass: DisableTorchFunctionSubclass,
    torch._C.DisableTorchFunction: DisableTorchFunction,
    torch._C._EnableTorchFunction: EnableTorchFunction,
}
