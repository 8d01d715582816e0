"""`torch.autograd.gradcheck` in float64 through compiled functions, for each lowering that has a gradient."""

import pytest
import torch
from gradient_rows import FAMILIES
from torch.utils._pytree import tree_leaves

import minicompile
from minicompile import aot
from minicompile.inductor.lowering import LOWERINGS

aten = torch.ops.aten
# Lowerings that no program of the table leads to, by the reason.
WITHOUT = {
    "makes tensors, or asks for sizes": """arange empty empty_like empty_permuted empty_strided eye fill full full_like
        iota lift lift_fresh lift_fresh_copy new_empty new_empty_strided
        scalar_tensor seed uniform _efficientzerotensor sym_numel sym_size sym_storage_offset sym_stride bernoulli
        _assert_scalar cauchy exponential geometric log_normal normal_functional rand_like randint_like randn_like
        random""",
    "gives integers or truth values": """__lshift__ __rshift__ all any argmax argmin bitwise_and bitwise_left_shift
        bitwise_not bitwise_or bitwise_right_shift bitwise_xor eq ge gt isinf isnan le logical_and
        logical_not logical_or logical_xor lt ne nextafter signbit""",
    "other operators, or nothing, by the time that aot is done": """_reshape_alias _unsafe_view addmv alias alias_copy
        contiguous convert_element_type detach dot mv reshape true_divide vdot""",
    "other operators where a gradient is wanted": """upsample_nearest1d upsample_nearest2d upsample_nearest3d
        upsample_nearest2d_backward _upsample_nearest_exact1d _upsample_nearest_exact2d _upsample_nearest_exact3d""",
    "half or integers only, or of other devices": """_addmm_activation _grouped_mm _int_mm _scaled_mm
        _scaled_dot_product_cudnn_attention _scaled_dot_product_cudnn_attention_backward
        _scaled_dot_product_efficient_attention _scaled_dot_product_efficient_attention_backward
        _scaled_dot_product_flash_attention _scaled_dot_product_flash_attention_backward mkldnn_rnn_layer
        mkldnn_rnn_layer_backward""",
}


def inputs():
    """Twelve different numbers in (0.2, 0.8) each, no two of them close: kinks are far."""
    generator = torch.Generator().manual_seed(1)
    spread = [0.21 + 0.58 * torch.randperm(12, generator=generator).double() / 11.7 + k for k in (0.0, 0.013)]
    return [s.view(3, 4).requires_grad_() for s in spread]


def flat(function):
    return lambda x, y: tuple(t for t in tree_leaves(function(x, y)) if t.requires_grad)


def whole(family):
    """All programs of a family in one function: one compilation."""
    programs = [flat(function) for function in FAMILIES[family].values()]
    return lambda x, y: tuple(t for program in programs for t in program(x, y))


@pytest.mark.parametrize("family", FAMILIES)
def test_family(family):
    function = minicompile.compile(whole(family), fullgraph=True)
    assert torch.autograd.gradcheck(function, inputs(), fast_mode=True), family


@pytest.mark.slow
@pytest.mark.parametrize("family, name", [(family, name) for family, rows in FAMILIES.items() for name in rows])
def test_row(family, name):
    """Each by itself, and with all numbers of the Jacobian: says which program is wrong."""
    function = minicompile.compile(flat(FAMILIES[family][name]), fullgraph=True)
    assert torch.autograd.gradcheck(function, inputs())


def test_every_lowering_is_in_the_table():
    reached = set()
    for family in FAMILIES:
        captured = []
        backend = lambda gm, examples: captured.append((gm, examples)) or gm.forward  # noqa: E731, B023
        minicompile.compile(whole(family), backend=backend, fullgraph=True)(*inputs())
        graph = aot.trace(*captured[0])
        reached |= {node.target for node in graph.joint.graph.nodes if node.op == "call_function"}
    reached |= {getattr(target, "overloadpacket", None) for target in reached}
    names = {str(getattr(target, "overloadpacket", target)).split(".")[-1] for target in reached}
    explained = {name for names in WITHOUT.values() for name in names.split()}
    known = {str(getattr(target, "overloadpacket", target)).split(".")[-1] for target in LOWERINGS}
    missing = known - names - explained
    assert not missing, " ".join(sorted(missing))
    assert explained <= known
