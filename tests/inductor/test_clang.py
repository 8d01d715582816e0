"""Clang builds the same kernels; without its OpenMP they run on one thread.  Skipped where there is no clang++."""

import shutil

import pytest
import torch
import torch.nn.functional as F
from patterns import aten_graph

from minicompile import config, inductor
from minicompile.inductor.codegen import cpp_build

pytestmark = pytest.mark.skipif(not shutil.which("clang++"), reason="no clang++ found")

CASES = {
    "pointwise": (lambda x: (F.gelu(x) + x.tanh().sin()).clamp(-1, 1), (4096, 40)),
    "streamed": (lambda x: x.relu() + 1, (4096, 1024)),
    "transpose": (lambda x: x.mT * 2 + 1, (1031, 391)),
    "rows": (lambda x: (x.softmax(-1), x.argmax(-1), x.var(-1)), (300, 1000)),
    "columns": (lambda x: (x.softmax(0), x.argmin(0), x.sum(0)), (5000, 300)),
    "scan": (lambda x: x.cumsum(-1), (30, 1000)),
    "half": (lambda x: (x.half() * 2, x.bfloat16().float().sum(0)), (300, 300)),
    "whole numbers": (lambda x: (x * 10).to(torch.int8) // 3, (300, 300)),
    "scatter": (lambda x: torch.zeros(300).index_add(0, x[:, 0].abs().long(), x[:, 1]), (300, 300)),
}


@pytest.mark.parametrize("name", CASES)
def test_clang_builds_the_same_kernels(name):
    function, shape = CASES[name]
    x = torch.randn(shape, generator=torch.Generator().manual_seed(0))
    with config.patch(cpp_compiler="clang++"):
        call = inductor.compile(aten_graph(function, x), (x,))
        assert "clang" in cpp_build.find_compiler(config.cpp_compiler)[1]
        ours = call(x)
    expected = function(x)
    for got, want in zip(ours, expected if isinstance(expected, tuple) else (expected,), strict=True):
        torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-4)


def test_an_index_that_is_out_of_range_is_an_error():
    x, i = torch.randn(64, 300), torch.randint(0, 300, (64, 200))
    with config.patch(cpp_compiler="clang++"):
        call = inductor.compile(aten_graph(lambda x, i: torch.gather(x, 1, i) * 2, x, i), (x, i))
        assert torch.equal(call(x, i)[0], torch.gather(x, 1, i) * 2)
        i[5, 7] = 300
        with pytest.raises((IndexError, RuntimeError)):
            call(x, i)


def test_without_its_openmp_clang_builds_kernels_for_one_thread(tmp_path, monkeypatch):
    compiler = tmp_path / "clang++"
    compiler.write_text(
        '#!/bin/sh\nfor a; do test "$a" = -fopenmp && { echo "cannot find -lomp" >&2; exit 1; }; done\n'
        f'exec {shutil.which("clang++")} "$@"\n'
    )
    compiler.chmod(0o755)
    x = torch.randn(300, 1000)
    monkeypatch.setattr(cpp_build.cache, "get", lambda name: None)
    with config.patch(cpp_compiler=str(compiler)):
        (ours,) = inductor.compile(aten_graph(lambda x: x.softmax(-1), x), (x,))(x)
    torch.testing.assert_close(ours, x.softmax(-1))
