"""What is dear and depends on the innermost loop alone is computed once, in a table, and is the same value."""

import re

import pytest
import torch
import torch.nn.functional as F
from patterns import aten_graph

from minicompile import inductor
from minicompile.inductor.codegen import cpp_tables

IMAGE = torch.randn(4, 24, 9, 7).to(memory_format=torch.channels_last)
CHANNELS = [torch.rand(24) + 0.5 for _ in range(4)]
ROWS = torch.randn(40, 24)


def normalized(x, mean, variance, weight, bias):
    return F.batch_norm(x, mean, variance, weight, bias)


def frequencies(x):
    return torch.sin(x.unsqueeze(1) * torch.rsqrt(torch.arange(32) + 1.0))


def padded(x, w):
    """An element that is there for some places only."""
    return F.pad(1 / w, (3, 0)) * x


PROGRAMS = {  # name -> (program, inputs, how many tables)
    "batch norm": (lambda *a: [normalized(*a)], (IMAGE, *CHANNELS), 1),
    "channel by channel": (lambda *a: [normalized(*a)], (IMAGE.contiguous(), *CHANNELS), 0),
    "batch norm in half": (lambda *a: [normalized(*a)], (IMAGE.bfloat16(), *CHANNELS), 1),
    "mean of columns": (lambda *a: [normalized(*a).relu().mean((2, 3))], (IMAGE, *CHANNELS), 1),
    "sum of rows": (lambda x, w: [(x / w.sqrt()).sum(1), (x * w.exp()).sum(1)], (ROWS, CHANNELS[0]), 2),
    "softmax": (lambda x, w: [torch.softmax(x * torch.log1p(w), 1)], (ROWS, CHANNELS[0]), 1),
    "frequencies": (lambda x: [frequencies(x)], (torch.rand(50),), 1),
    "in double": (lambda x, w: [x / w.sqrt().sqrt()], (ROWS.double(), CHANNELS[0].double()), 1),
    "one in the other": (lambda x, w: [x * w.sqrt(), x + w.sqrt().exp()], (ROWS, CHANNELS[0]), None),
    "under a mask": (lambda x, w: [padded(x, w)], (torch.randn(40, 27), CHANNELS[0]), 0),
    "few rows": (lambda x, w: [x / w.sqrt()], (ROWS[:8], CHANNELS[0]), 0),
    "cheap": (lambda x, w: [x * (w + 1)], (ROWS, CHANNELS[0]), 0),
    "picked": (lambda x, w, i: [x / w[i].sqrt()], (ROWS, CHANNELS[0], torch.randint(24, (24,))), None),
    "long rows": (lambda x, w: [x / w.sqrt()], (torch.randn(16, 5000), torch.rand(5000)), 0),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_tables_hold_the_values(name, monkeypatch):
    program, inputs, tables = PROGRAMS[name]
    graph = aten_graph(program, *inputs)
    compiled = inductor.compile(graph, inputs)
    got = compiled(*inputs)
    double = [x.double() if x.is_floating_point() else x for x in inputs]
    for result, eager, exact in zip(got, program(*inputs), program(*double), strict=True):
        assert result.stride() == eager.stride() and result.dtype == eager.dtype
        torch.testing.assert_close(result, exact.to(result.dtype))
    text = str(compiled.source)
    assert tables is None or len(re.findall(r"alignas\(64\) \w+ table", text)) == tables, text
    monkeypatch.setattr(cpp_tables, "DEAR", 1 << 30)
    plain = inductor.compile(graph, inputs)
    assert "table0" not in str(plain.source)
    for result, expected in zip(got, plain(*inputs), strict=True):
        torch.testing.assert_close(result, expected)


def test_the_root_is_outside_of_the_loop_over_pixels():
    text = str(inductor.compile(aten_graph(lambda *a: [normalized(*a)], IMAGE, *CHANNELS), ()).source)
    root, pixels = text.index("m_sqrt("), text.index("x0 < 252")
    assert root < pixels and text.count("m_sqrt(") == 1
