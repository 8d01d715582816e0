"""Modes: what is global in torch and read by its operations: grad mode, autocast, default dtype, attention's kernels.

Goes in: a call of a function that switches or reads such a mode.  Comes out: a constant, the mode switched during
capture and noted in the graph, and a guard where every frame's ambient state does not have it.
Mirrors `torch/_dynamo/variables/ctx_manager.py` and `torch.py`.  Taught in chapter 06.
"""

import functools
import operator

import torch
import torch.nn.functional as F

from ..polyfills import tensors
from ..source import CallSource, ConstantSource
from .base import unsupported
from .tensor import TensorVariable, graph_call

SDP_BACKENDS = ("flash", "mem_efficient", "math", "cudnn", "overrideable")


def sdp_state(name):
    return lambda enabled: (getattr(torch._C, f"_get_{name}_sdp_enabled")(),)


# setter -> function that reads the state as the setter's arguments, given the arguments of this call.  During capture
# the mode is really switched (fake tensors feel it), noted in the graph, and undone when capture ends; the new bytecode
# then switches it for good.
MODES = {
    torch._C._set_grad_enabled: lambda enabled: (torch.is_grad_enabled(),),
    torch.set_autocast_enabled: lambda device, enabled: (device, torch.is_autocast_enabled(device)),
    torch.set_autocast_dtype: lambda device, dtype: (device, torch.get_autocast_dtype(device)),
    torch.set_autocast_cache_enabled: lambda enabled: (torch.is_autocast_cache_enabled(),),
    torch.set_default_dtype: lambda dtype: (torch.get_default_dtype(),),
    torch._C._set_default_dtype: lambda dtype: (torch.get_default_dtype(),),
    **{getattr(torch._C, f"_set_sdp_use_{name}"): sdp_state(name) for name in SDP_BACKENDS},
    torch._C._set_sdp_priority_order: lambda order: (torch._C._get_sdp_priority_order(),),
    tensors.set_inference_mode: lambda enabled: (torch.is_inference_mode_enabled(),),
    torch._C._set_torch_function_state: lambda state: (torch._C._get_torch_function_state(),),
    tensors.set_autocast_nesting: lambda depth: (tensors.autocast_nesting(),),
}
# a graph runs with all overriding off; and it clears the autocast cache, but does not count
NOT_IN_GRAPHS = {torch._C._set_torch_function_state, tensors.set_autocast_nesting}
STATE_READERS = {
    torch.is_grad_enabled,
    torch.is_inference_mode_enabled,
    torch.get_default_dtype,
    torch.is_autocast_enabled,
    torch.get_autocast_dtype,
    torch.is_autocast_cache_enabled,
    torch.are_deterministic_algorithms_enabled,
    torch._C._get_tracing_state,
    torch._C._is_torch_function_enabled,
    torch._C._is_torch_function_all_disabled,
    torch._C._get_torch_function_state,
    torch._C._accelerator_getAccelerator,
    torch._C._len_torch_dispatch_stack,
    torch._C._get_default_device,
    torch.cuda.is_available,
    torch.amp.is_autocast_available,
    torch.amp.autocast_mode.is_autocast_available,
    torch._C._is_autocast_available,
    torch._C._get_privateuse1_backend_name,
}


# reader -> its setter: these are not in the ambient state, and guarded where they are read
ATTENTION_READERS = {
    **{getattr(torch._C, f"_get_{n}_sdp_enabled"): getattr(torch._C, f"_set_sdp_use_{n}") for n in SDP_BACKENDS},
    torch._C._get_sdp_priority_order: torch._C._set_sdp_priority_order,
}
GUARDED_READERS = {
    **ATTENTION_READERS,
    torch.get_num_threads: torch.set_num_threads,
    tensors.autocast_nesting: tensors.set_autocast_nesting,
}


CALLS = {*MODES, *STATE_READERS, *GUARDED_READERS}


def mode_call(tx, function, args, kwargs):
    """Read or switch an ambient mode.  Readers are constants: every frame guards the ambient state."""
    constants = [a.as_python_constant() for a in args]
    named = {k: v.as_python_constant() for k, v in kwargs.items()}
    if function is tensors.set_inference_mode and tx.output.in_inference_mode:
        unsupported("torch call left to eager", "what is computed in inference mode, and what is not, are two graphs")
    if function in MODES:
        before = MODES[function](*constants)
        result = tx.fold_python(function, constants, named)  # which may refuse the arguments
        tx.side_effects.set_mode(function, before, tuple(constants))
        if function is tensors.set_inference_mode:  # for a graph, no more than a grad mode
            function, constants = torch._C._set_grad_enabled, [torch.is_grad_enabled()]
        if function not in NOT_IN_GRAPHS:
            tx.output.create_node("call_function", function, tuple(constants))
        return result
    if function in GUARDED_READERS and GUARDED_READERS[function] not in tx.side_effects.modes:
        tx.guard("equals", CallSource(ConstantSource(function, function.__name__), operator.call), function())
    return tx.fold_python(function, constants, named)


@functools.cache
def settle_attention(device):
    """On some GPUs the first attention puts cuDNN's kernel first in the order: let it do so before a guard reads it."""
    row = torch.zeros(1, 1, 1, 8, device=device, dtype=torch.float16)
    torch._fused_sdp_choice(row, row, row)


def _attention(tx, *args, **kwargs):
    """Which kernels it is traced to depends on what is allowed now."""
    for tensor in (*args, *kwargs.values()):
        if isinstance(tensor, TensorVariable) and tensor.fake.is_cuda:
            settle_attention(tensor.fake.device)
    for reader in ATTENTION_READERS:
        mode_call(tx, reader, [], {})
    return graph_call(tx, F.scaled_dot_product_attention, list(args), kwargs)


def _nest_autocast(step):
    def handler(tx):
        depth = tx.build(mode_call(tx, tensors.autocast_nesting, [], {}).as_python_constant() + step)
        mode_call(tx, tensors.set_autocast_nesting, [depth], {})
        return depth

    return handler


def _clear_autocast_cache(tx):
    """What autocast has cast once is used until the outermost block ends: by a graph that eager runs, too."""
    tx.output.create_node("call_function", torch.clear_autocast_cache)
    return tx.build(None)


HANDLERS = {
    torch.autocast_increment_nesting: _nest_autocast(1),
    torch.autocast_decrement_nesting: _nest_autocast(-1),
    torch.clear_autocast_cache: _clear_autocast_cache,
    F.scaled_dot_product_attention: _attention,
}
