"""The pictures of chapter 08 say what the graphs say: what crosses, what is saved, what is computed again, prices."""

import itertools

import pytest
import torch

import minicompile
from minicompile import aot
from minicompile.viz import SavedBytes, draw_budget, draw_cut, draw_joint, draw_passes, draw_saved, draw_split
from minicompile.viz.joint import cut_of, readable_bytes, saved_nodes, total_price
from minicompile.viz.saved import extra_bytes, recompute_effort


def chain(x):
    return torch.tanh(x * 2) * x


def layer(x, w):
    return x + torch.tanh((x / x.abs().mean(-1, keepdim=True)) @ w).pow(3)


def graph_of(fn, *args, **options):
    graphs = []

    def backend(gm, inputs):
        graphs.append(aot.trace(gm, inputs))
        return gm.forward

    minicompile.reset()
    minicompile.compile(fn, backend=backend, options=options)(*args)
    return graphs[0]


@pytest.fixture
def x():
    return torch.ones(8, 16, requires_grad=True)


@pytest.fixture
def weight():
    return torch.eye(16, requires_grad=True)


def test_bytes_in_words():
    counts = (0, 0.5, 1023, 1024, 1536, 4 * 2**20, 5 * 2**30)
    assert [readable_bytes(n) for n in counts] == ["0", "0.5 B", "1023 B", "1 KB", "1.5 KB", "4 MB", "5 GB"]


def test_joint_graph(x):
    picture = draw_joint(graph_of(chain, x))
    assert repr(picture).split("\n")[-3:] == [
        "  2 values cross, 1,024 bytes",
        "    x: float32 [8, 16], 512 bytes",
        "    tanh: float32 [8, 16], 512 bytes",
    ]
    assert "gradient of x" in picture.svg and "tangent_0" in picture.svg
    assert picture.svg.count("#d55e00") >= 3  # two edges, and at least one border


def test_split_shows_what_is_saved_and_what_is_computed_again(x):
    graph = graph_of(chain, x)
    text = repr(draw_split(graph))
    assert "x: float32[8x16], 512 bytes, is an input anyway" in text
    assert text.endswith("computed again: mul, tanh")
    kept = graph_of(chain, x, partition_recompute=False)
    assert repr(draw_split(kept)).endswith("computed again: nothing")


def test_two_pictures_of_one_program_are_equal(x):
    assert draw_split(graph_of(chain, x)).svg == draw_split(graph_of(chain, x)).svg


def test_no_choice_is_cheaper_than_the_cut(x, weight):
    graph = graph_of(layer, x, weight)
    cut = cut_of(graph)
    best = total_price(cut, saved_nodes(cut, graph))
    sets = itertools.chain.from_iterable(itertools.combinations(cut.order, k) for k in range(len(cut.order) + 1))
    prices = [price for price in (total_price(cut, set(nodes)) for nodes in sets) if price is not None]
    assert best == pytest.approx(min(prices)) and len(prices) > 10


def test_prices_in_the_picture_of_the_cut(x, weight):
    minimum, all_of_it = graph_of(layer, x, weight), graph_of(layer, x, weight, partition_recompute=False)
    picture = draw_cut({"save all": all_of_it, "minimum cut": minimum})
    first, second = (repr(picture).split(f"{label}: ")[1] for label in ("save all", "minimum cut"))
    price = [float(part.split(" bytes")[0].replace(",", "")) for part in (first, second)]
    assert price[1] < price[0]
    row = next(line for line in second.split("\n") if line.split()[:1] == ["mm"])
    assert row.split() == ["mm", "save", "512", "again", "never", "saved"]
    assert "never" in picture.svg and "the backward" in picture.svg


def test_a_budget_runs_again_what_the_cut_would_not(x, weight):
    graph = graph_of(layer, x, weight, activation_memory_budget=0.0)
    assert "mm" in graph.recomputed and total_price(cut_of(graph), saved_nodes(cut_of(graph), graph)) is None
    lines = repr(draw_cut({"budget 0": graph})).split("\n")
    assert lines[1] == "budget 0"
    assert any(line.split() == ["mm", "save", "512", "again", "never", "computed", "again"] for line in lines)


def test_writes_to_inputs_and_symbolic_sizes(x, weight):
    def program(x, weight, total):
        y = torch.tanh(x @ weight) * total.clone()
        total.add_(x.shape[0])
        return y

    total = torch.ones(())
    minicompile.mark_dynamic(x, 0)
    graph = graph_of(program, x, weight, total)
    assert total.item() == 9 and len(graph.mutations) == 1
    assert "result" in draw_joint(graph).svg and "result" in draw_split(graph).svg
    picture = draw_cut({"minimum cut": graph})
    assert repr(picture).split("\n")[1].endswith(" bytes of traffic")
    assert ">total</text>" in picture.svg  # an old value that is kept, although it is an input


def test_saved_bytes_of_a_run(x, weight):
    with SavedBytes(x) as kept:
        y = x @ weight
    assert (kept.anyway, kept.extra) == (512, 1024)  # the weight was not named among the inputs
    with SavedBytes(x, weight) as kept:
        (x[:4] * 1.0).mul(x[:4])  # views of one memory count once
    assert kept.anyway == 512
    with torch.no_grad(), SavedBytes(x) as kept:
        y = x * x
    assert repr(kept) == "0 bytes: 0 in memory anyway, 0 kept for the backward only"
    with SavedBytes(x) as kept:
        pass
    y = x * x  # the hooks are gone
    assert not kept.tensors and y.requires_grad


def test_bars_of_saved_bytes(x):
    with SavedBytes(x) as kept:
        chain(x)
    picture = draw_saved({"chain": {"eager": kept}})
    assert repr(picture).split("\n") == [
        "chain",
        "  eager          1,024 bytes: 512 in memory anyway, 512 kept for the backward only",
    ]


def test_budget(x, weight):
    graphs = {b: graph_of(layer, x, weight, activation_memory_budget=b) for b in (0.0, 1.0)}
    assert extra_bytes(graphs[0.0]) < extra_bytes(graphs[1.0])
    assert recompute_effort(graphs[0.0]) > recompute_effort(graphs[1.0]) > 0
    assert [line.split()[:2] for line in repr(draw_budget(graphs)).split("\n")] == [
        ["budget", "0.0"],
        ["budget", "1.0"],
    ]


def test_passes(x):
    graph = graph_of(lambda x: torch.tanh(x) * torch.tanh(x), x)
    picture = draw_passes(graph)
    before, after = next(row[1:] for row in graph.passes if row[0] == "share_common_subexpressions")
    assert f"{before} → {after} nodes" in picture.svg and "nothing to do: " in picture.svg
