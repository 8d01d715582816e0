"""Which ATen operators are rewritten into smaller ones before loops are made of them, and how.

Goes in: nothing.  Comes out: `decomposition_table()`, a dict from OpOverload to a function of the same signature; `make_fx` applies it while it traces.
"""

import functools

import torch
import torch._decomp

aten = torch.ops.aten

# Rules that torch ships and that are not in its "core ATen" set.
EXTRA = """
    _adaptive_avg_pool2d_backward _batch_norm_no_update _batch_norm_with_update_functional _native_batch_norm_legit
    _native_batch_norm_legit_functional _native_batch_norm_legit_no_training _log_softmax _softmax _to_copy
    adaptive_max_pool2d addmv batch_norm_backward dist elu gelu hardtanh index_select lcm leaky_relu linalg_vector_norm
    native_batch_norm native_group_norm native_layer_norm nll_loss2d_backward permute_copy rrelu_with_noise_backward
    tril_indices triu_indices unbind_copy upsample_bilinear2d
"""
KEEP = """
    addmm mm bmm baddbmm convolution convolution_backward _scaled_dot_product_flash_attention_for_cpu
    embedding native_dropout bernoulli
    max_pool2d_with_indices _to_copy clamp_min clamp_max sum any all squeeze split unbind cat stack
    slice_scatter select_scatter
"""


def _overloads(names):
    for name in names.split():
        packet = getattr(aten, name)
        for overload in packet.overloads():
            yield getattr(packet, overload)


@functools.cache
def decomposition_table():
    """dict[OpOverload, function]"""
    table = dict(torch._decomp.core_aten_decompositions())
    table.update(torch._decomp.get_decompositions(list(_overloads(EXTRA))))
    for op in _overloads(KEEP):
        table.pop(op, None)
    return table
