"""The picture of chapter 09: which cell each step of a loop nest touches, as the tensors themselves say."""

import pytest
import torch

import minicompile
from minicompile.inductor.ir import Reduction
from minicompile.viz import AddressMap, draw_addresses
from minicompile.viz.addresses import colour_of, in_short


def graph_of(fn, *args):
    with torch.no_grad():
        return minicompile.explain(fn)(*args).compilations[0].artifacts("lower")[0]


def cells(tensor):
    """The addresses of a tensor's elements, in row-major order."""
    numbers = torch.arange(tensor.untyped_storage().nbytes() // tensor.itemsize)
    return numbers.as_strided(tensor.size(), tensor.stride(), tensor.storage_offset()).flatten().tolist()


def test_addresses_are_those_of_the_tensors():
    x, y = torch.randn(3, 4), torch.randn(4, 3)
    graph = graph_of(lambda x, y: x.t() + y, x, y)
    first, second, store = AddressMap(graph, "buf0").accesses
    assert (first.addresses, second.addresses) == (cells(x.t()), cells(y))
    assert store.stored and store.addresses == cells(x.t() + y)  # the strides that eager gives the result
    assert [a.stride(3) for a in (first, second, store)] == [4, 1, 4]


def test_a_broadcast_and_a_reduction_touch_cells_more_than_once():
    graph = graph_of(lambda x, y: x + y, torch.ones(3, 4), torch.ones(3, 1))
    whole, column, _ = AddressMap(graph, "buf0").accesses
    assert column.addresses == [0] * 4 + [1] * 4 + [2] * 4 and column.stride(4) == 0 and whole.stride(4) == 1
    graph = graph_of(lambda x: x.sum(0), torch.ones(3, 4))
    assert isinstance(graph.buffers[0].data, Reduction)
    load, store = AddressMap(graph, "buf0").accesses
    assert load.addresses == [0, 4, 8, 1, 5, 9, 2, 6, 10, 3, 7, 11]
    assert store.steps_of() == {0: [0, 1, 2], 1: [3, 4, 5], 2: [6, 7, 8], 3: [9, 10, 11]}


def test_what_a_mask_forbids_is_not_touched():
    graph = graph_of(lambda x, y: torch.cat([x, y, x]), torch.ones(1, 2), torch.ones(2, 2))
    found = {access.text: access.addresses for access in AddressMap(graph, "buf0").accesses}
    none = [None, None]
    assert found["arg0[i0, i1]"] == [0, 1, *none, *none, *none]
    assert found["arg1[i0 - 1, i1]"] == [*none, 0, 1, 2, 3, *none]
    assert found["arg0[i0 - 3, i1]"] == [*none, *none, *none, 0, 1]


def test_addresses_that_are_loaded():
    rows, table = torch.tensor([4, 0, -1]), torch.arange(10.0).reshape(5, 2)
    graph = graph_of(lambda rows, table: table[rows] * 2, rows, table)
    found = next(a for a in AddressMap(graph, graph.buffers[0].name, [rows, table]).accesses if "at<5>" in a.text)
    assert found.addresses == [8, 9, 0, 1, 8, 9]


def test_later_buffers_and_scalars():
    graph = graph_of(lambda x: x.cumsum(0).repeat(2), torch.arange(3.0))
    assert AddressMap(graph, "buf1", [torch.arange(3.0)]).accesses[0].addresses == [0, 1, 2, 0, 1, 2]
    found = AddressMap(graph_of(lambda x: x * 2, torch.tensor(1.0)), "buf0")
    assert found.steps == 1 and [a.addresses for a in found.accesses] == [[0], [0]]
    assert "1 steps" in draw_addresses(graph_of(lambda x: x * 2, torch.tensor(1.0)), "buf0").alt


def test_the_picture_says_what_its_text_says():
    graph = graph_of(lambda x: x.repeat(1, 2), torch.ones(3, 2))
    picture = draw_addresses(graph, "buf0")
    assert repr(picture).split("\n") == [
        "buf0, pointwise: 12 steps of (i0 < 3, i1 < 4)",
        "  reads arg0[i0, (i1)%2] at address (i1)%2 + 2*i0",
        "    0 1 0 1 | 2 3 2 3 | 4 5 4 5",
        "  writes buf0[i0, i1] at address 4*i0 + i1",
        "    0 1 2 3 | 4 5 6 7 | 8 9 10 11",
    ]
    assert "each inner step: not always as far" in picture.svg and "each inner step: the next cell" in picture.svg
    assert picture.svg == draw_addresses(graph, "buf0").svg
    with pytest.raises(ValueError, match="too large to draw"):
        draw_addresses(graph_of(lambda x: x * 2, torch.ones(100)), "buf0")


def test_colours_and_labels():
    assert colour_of(0, 12)[0] != colour_of(11, 12)[0] and colour_of(0, 1)[0] == colour_of(0, 12)[0]
    assert [in_short(s) for s in ([3], [0, 1, 2], [0, 6], [0, 5, 10, 15])] == ["3", "0–2", "0, 6", "4×"]
