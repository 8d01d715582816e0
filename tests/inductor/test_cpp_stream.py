"""Large results go past the caches, in pieces: the same values, whatever their type, alignment and order of loops."""

import pytest
import torch
import torch.nn.functional as F
from patterns import PATTERNS, aten_graph

from minicompile import inductor
from minicompile.inductor.codegen import cpp_stream


def compiled(function, *inputs):
    return inductor.compile(aten_graph(function, *inputs), inputs)


def streams(call):
    return call.source.kernels.removeprefix(call.source.prelude).count("m_stream(")


@pytest.fixture
def small_pieces(monkeypatch):
    for name, value in {"LARGE": 1, "SHORT": 2, "PIECE": 24, "PIECES": 2, "LIGHT": 1000}.items():
        monkeypatch.setattr(cpp_stream, name, value)


@pytest.mark.parametrize("name", "relu_add_mul softmax softmax_columns batch_norm layer_norm masked_softmax".split())
def test_results_in_pieces_are_the_same(name, small_pieces):
    function, make, _ = PATTERNS[name]
    inputs = make()
    call = compiled(function, *inputs)
    assert streams(call)
    expected = function(*inputs)
    for ours, theirs in zip(call(*inputs), expected if isinstance(expected, tuple) else (expected,), strict=True):
        torch.testing.assert_close(ours, theirs)


UNEVEN = {
    "rows that begin anywhere": lambda x: F.pad(x, (1, 2, 3, 4)).relu() + 1,
    "loops in pieces": lambda x: torch.cat((x, x.neg(), x[:, :5]), 1) + 1,
    "whole numbers": lambda x: (x * 10).to(torch.int8) + 1,
    "truth values": lambda x: x > 0,
    "half": lambda x: x.bfloat16() + 1,
    "double": lambda x: x.double() + 1,
    "several results": lambda x: (x + 1, x.mT * 2, x > 1),
    "a row that is read again": lambda x: ((y := x * 2 + 1), y - y.amax(1, keepdim=True)),
}


@pytest.mark.parametrize("name", UNEVEN)
def test_lines_are_filled_whatever_the_alignment(name, small_pieces):
    x = torch.randn(37, 101)
    expected = UNEVEN[name](x)
    call = compiled(UNEVEN[name], x)
    assert streams(call)
    for ours, theirs in zip(call(x), expected if isinstance(expected, tuple) else (expected,), strict=True):
        assert torch.equal(ours, theirs) and ours.dtype == theirs.dtype


def test_what_a_cache_keeps_what_is_dear_and_what_is_written_in_place_is_stored_as_ever(monkeypatch):
    big, small = torch.randn(4096, 1024), torch.randn(64, 1024)
    assert streams(compiled(lambda x: x.relu() + 1, big)) == 1
    assert streams(compiled(lambda x: x.relu() + 1, small)) == 0
    assert streams(compiled(lambda x: F.gelu(x), big)) == 0
    assert streams(compiled(lambda x, i: x[i] + 1, big, torch.arange(4096))) == 0
    twice = lambda x: torch.cat((x, x)).relu() + 1  # noqa: E731 (32 MB)
    assert streams(compiled(twice, big)) == 2  # halves
    monkeypatch.setattr(cpp_stream, "KEPT", 1 << 24)
    assert streams(compiled(twice, big)) == 0, "memory that is not kept is new in each call"
