"""Operators of PyTorch's own table against eager, stage by stage: values, dtypes and strides, forward and backward."""

import warnings

import op_sweep
import pytest
import torch

FAST = """add sub mul div.no_rounding_mode div.floor_rounding div.trunc_rounding remainder fmod pow where clamp maximum
softmax log_softmax logsumexp sum mean prod amax amin argmax argmin max.reduction_with_dim var std_mean any all cumsum
cat stack split chunk unbind permute expand narrow unfold diagonal flip roll tril triu reshape squeeze as_strided
gather scatter scatter_add index_select index_add index_put index_copy index_fill take masked_fill __getitem__
nn.functional.embedding nn.functional.layer_norm nn.functional.group_norm nn.functional.batch_norm
nn.functional.gelu nn.functional.silu nn.functional.hardswish nn.functional.cross_entropy nn.functional.nll_loss
nn.functional.max_pool2d nn.functional.avg_pool2d nn.functional.adaptive_avg_pool2d nn.functional.conv2d
nn.functional.interpolate.nearest nn.functional.interpolate.bilinear nn.functional.pad.reflect
nn.functional.pad.constant nn.functional.unfold matmul addmm baddbmm linalg.vector_norm""".split()


def run(patterns, **how):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        results = list(op_sweep.sweep(patterns, **how))
    assert results, f"no operator is called {patterns}"
    wrong = {name: list(dict.fromkeys(problems)) for name, problems, _, _ in results if problems}
    assert not wrong, "\n".join(f"{name}: {'; '.join(problems)}" for name, problems in wrong.items())


@pytest.mark.parametrize("name", FAST)
def test_operator(name):
    if name in ("argmax", "argmin", "any", "all"):
        run([name], count=4)
    else:
        run([name], count=4, grad=True)


@pytest.mark.parametrize("layout", ["transposed", "channels_last", "strided"])
def test_strides_follow_eager(layout):
    names = ["add", "where", "sum", "softmax", "cat", "nn.functional.max_pool2d", "nn.functional.interpolate.nearest"]
    run(names, count=3, change=lambda t: op_sweep.relayout(layout, t))


def test_special_values():
    names = (
        "maximum minimum clamp fmax fmin pow sign relu amax argmax max.reduction_with_dim softmax where isnan".split()
    )
    run([*names, "nn.functional.relu", "nn.functional.max_pool2d"], count=3, change=op_sweep.special)


def test_one_kernel_file_in_cpp():
    """The same check through the C++ kernels, for a few operators: `test_op_db.py` does them all."""
    run(["softmax", "cat", "gather", "nn.functional.max_pool2d", "nn.functional.layer_norm"], count=2, stage="cpp")


def test_a_wrong_result_is_found():
    good = torch.tensor([1.0, 2.0, float("nan")])
    assert op_sweep.difference(good, good.clone()) == ""
    assert "units" in op_sweep.difference(good, good * (1 + 1e-5))
    assert "nan" in op_sweep.difference(good, torch.nan_to_num(good))
    assert "strides" in op_sweep.difference(torch.zeros(2, 3), torch.zeros(3, 2).t())
    assert "became" in op_sweep.difference(good, good.double())
    assert "values" in op_sweep.difference(torch.tensor([1, 2]), torch.tensor([1, 3]))
