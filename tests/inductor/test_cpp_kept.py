"""Rows that later passes read again stay near: the same values, wherever they are kept."""

import re

import pytest
import torch
from patterns import aten_graph

from minicompile import inductor
from minicompile.inductor.codegen import cpp_kept, cpp_stream


def compiled(function, *inputs):
    return inductor.compile(aten_graph(function, *inputs), inputs)


def kernels(call):
    return call.source.kernels.removeprefix(call.source.prelude)


def exponentials(x):
    return (x - x.amax(0)).exp()


def sqrt_of_mean(x):
    return (x.float() * x).mean(0).sqrt()


# name -> function, arrays of a tile, those that an input is copied to
COLUMNS = {
    "softmax: the exponentials take the input's place": (lambda x: (e := exponentials(x)) / e.sum(0), 1, 1),
    "the input is read after the exponentials": (lambda x: (e := exponentials(x)) / e.sum(0) + x, 2, 1),
    "and by what is computed again": (lambda x: (e := exponentials(x)) / (e.sum(0) + (x - x.amax(0)).abs()), 2, 1),
    "moments": (lambda x: (x - x.mean(0)) / (x - x.mean(0)).square().mean(0).sqrt(), 1, 1),
    "half": (lambda x: x.half() / sqrt_of_mean(x.half()), 1, 1),
    "what may lie outside": (lambda x: (y := torch.nn.functional.pad(x, (0, 0, 1, 2))) - y.mean(0), 0, 0),
}


@pytest.mark.parametrize("name", COLUMNS)
@pytest.mark.parametrize("shape", [(300, 130), (33, 64), (7, 5, 70)])
def test_tiles_of_columns(name, shape, monkeypatch):
    monkeypatch.setattr(cpp_kept, "NEAR", 1)
    function, arrays, copies = COLUMNS[name]
    x = torch.randn(shape)
    call = compiled(function, x)
    torch.testing.assert_close(call(x)[0], function(x))
    text = kernels(call)
    assert len(set(re.findall(r"row\d", text))) == arrays
    assert len(re.findall(r"row\d\[.*\] = in0\[", text)) == copies


def test_what_is_near_already_is_read_again():
    x = torch.randn(300, 130)
    assert " = in0[" in kernels(compiled(lambda x: x - x.mean(0), x))
    assert "row0" not in kernels(compiled(lambda x: x - x.mean(0), x))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_a_large_result_that_is_read_again_goes_to_memory_from_its_row(dtype, monkeypatch):
    for name, value in {"LARGE": 1, "SHORT": 2}.items():
        monkeypatch.setattr(cpp_stream, name, value)

    def function(x, y):
        z = x + y
        return z, (z - z.mean(1, keepdim=True)) * 2

    x, y = torch.randn(37, 101, dtype=dtype), torch.randn(37, 101, dtype=dtype)
    call = compiled(function, x, y)
    assert "m_stream(&out0[101*x0], row0, 101);" in kernels(call) and kernels(call).count("m_stream(") == 2
    monkeypatch.undo()
    plain = compiled(function, x, y)
    assert "m_stream" not in kernels(plain)
    for ours, others, eager in zip(call(x, y), plain(x, y), function(x, y), strict=True):
        assert torch.equal(ours, others)
        torch.testing.assert_close(ours, eager, atol=0.02 if dtype == torch.bfloat16 else 1e-5, rtol=1e-5)
