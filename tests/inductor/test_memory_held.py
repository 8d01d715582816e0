"""How long memory is held: what the forward saved, what waits for a buffer of its size, what fits across shapes."""

import pytest
import torch
import torch.nn.functional as F
from patterns import aten_graph

import minicompile
from minicompile import aot, inductor, record
from minicompile.aot.partitioner import Cut
from minicompile.inductor import ir, memory


def test_a_backward_graph_frees_what_it_has_read():
    def program(x, a, b):
        return ((x @ a).relu() @ b).relu().sum()

    inputs = [torch.randn(8, 8, requires_grad=True) for _ in range(3)]
    minicompile.compile(program)(*inputs).backward()
    forward, backward = (a.python for c in record.compilations for a in c.artifacts("codegen"))
    assert "args.clear()" in backward and "args.clear()" not in forward
    freed = {name for line in backward.splitlines() if "del " in line for name in line.split("del ")[1].split(", ")}
    arguments = backward.split(" = args")[0].split("\n")[1].replace(" ", "").strip(",").split(",")
    returned = backward.rsplit("return", 1)[1]
    assert arguments and all(name in freed or name in returned for name in arguments)


def test_the_list_of_a_backward_graph_is_emptied():
    graph = aten_graph(lambda g, y: [torch.mm(g * y, y)], torch.randn(4, 4), torch.randn(4, 4))
    g, y = torch.randn(4, 4), torch.randn(4, 4)
    expected = torch.mm(g * y, y)
    for name, left in (("forward", 2), ("backward", 0)):
        graph.meta["minicompile"] = name
        args = [g, y]
        (result,) = inductor.compile(graph, (g, y))(args)
        torch.testing.assert_close(result, expected)
        assert len(args) == left


def plan(function, *inputs, device="cpu"):
    from minicompile.inductor.codegen import triton

    graph = inductor.lower(aten_graph(function, *inputs), inputs)
    return str(memory.plan(inductor.schedule(triton.on_device(graph) if device == "cuda" else graph)))


def test_a_product_is_overwritten_by_what_is_computed_of_it_in_another_shape():
    x = torch.randn(6, 4)
    text = plan(lambda x, w: [torch.mm(torch.mm(x, w).view(2, 3, 4).relu().view(6, 4), w)], x, torch.randn(4, 4))
    assert "in the memory of" in text


@pytest.mark.parametrize(("rows", "waits"), [(16, True), (1 << 18, False)])
def test_large_memory_of_a_gpu_does_not_wait(rows, waits):
    pytest.importorskip("triton")

    def program(x, w):
        y = torch.mm(x, w)
        z = torch.mm(y, w)  # y is dead behind it, and as large as the next product
        return [torch.mm(z, w).sum(), torch.mm(z.relu(), w) + 1]

    text = plan(program, torch.empty(rows, 16), torch.empty(16, 16), device="cuda")
    assert ("in the memory of" in text.split("\n2.")[1].split("\n")[0]) == waits


def test_what_a_residual_block_adds_to_is_saved_and_not_computed_again(monkeypatch):
    def program(x, weights):
        for w in weights:
            x = x + torch.tanh(F.layer_norm(x, (16,))) @ w * 2
        return x.sum()

    def again():
        graphs = []

        def backend(gm, inputs):
            graphs.append(aot.trace(gm, inputs))
            return gm.forward

        minicompile.reset()
        x, weights = torch.randn(64, 16), [torch.randn(16, 16, requires_grad=True) for _ in range(4)]
        minicompile.compile(program, backend=backend)(x.requires_grad_(), weights)
        return sum(name.startswith("add") for name in graphs[0].recomputed)

    few = again()
    monkeypatch.setattr(Cut, "outlives", lambda self, node: False)
    assert few < again()


def test_the_tuple_of_a_call_is_freed_when_its_parts_are_taken():
    """Attention gives its result in a tuple: kept to the end of a graph, those of all layers would add up."""

    def layers(x):
        for _ in range(3):
            x = F.scaled_dot_product_attention(x, x, x).relu()
        return [x]

    x = torch.randn(1, 2, 64, 16)
    schedule = inductor.schedule(inductor.lower(aten_graph(layers, x), (x,)))
    sources = {b.data.source for b in schedule.graph.buffers if isinstance(b.data, ir.MultiOutput)}
    calls = [(k, group.nodes[0].name) for k, group in enumerate(schedule.groups) if group.nodes[0].name in sources]
    freed = memory.plan(schedule).free
    assert len(calls) == 3 and all(name in freed[k + 1] for k, name in calls)


def gelu_backward(gradient, weight, x):
    gradient = torch.mm(gradient, weight)
    gradient = torch.ops.aten.gelu_backward(gradient, x)
    return [torch.mm(gradient, weight), gradient.sum(0)]


def softmax_of_a_product(x, weight):
    return [torch.mm(torch.mm(x, weight).softmax(-1), weight)]


def read_again(x, weight):
    y = torch.mm(x, weight)
    early = y.exp()
    return [torch.mm(early, weight), torch.mm(y / early.sum(-1, keepdim=True), weight)]


@pytest.mark.parametrize(
    ("program", "count"),
    [(gelu_backward, 3), (softmax_of_a_product, 2), (read_again, 2)],
    ids=lambda value: getattr(value, "__name__", value),
)
@pytest.mark.parametrize("held", [True, False], ids=["held", "looped"])
def test_a_kernel_that_walks_along_rows_overwrites_what_no_later_walk_reads(program, count, held, monkeypatch):
    pytest.importorskip("triton")
    from minicompile.inductor.codegen import triton_tiles

    if not held:
        monkeypatch.setattr(triton_tiles, "PERSISTENT", 1)
        monkeypatch.setattr(triton_tiles, "PERSISTENT_PASSES", 1)
        monkeypatch.setattr(triton_tiles, "INTERPRETED", 64)
    inputs = [torch.randn(48, 48) / 4 for _ in range(count)]
    schedule = inductor.schedule(inductor.lower(aten_graph(program, *inputs), inputs))
    source = inductor.codegen(schedule, "triton")
    assert "in its memory" in source.python and "io0" in source.kernels
    for actual, expected in zip(inductor.load(source)(*inputs), program(*inputs), strict=True):
        torch.testing.assert_close(actual, expected)


def test_what_frees_more_runs_first_on_a_gpu():
    pytest.importorskip("triton")
    from minicompile.inductor.codegen import triton

    def backward(gradient, w1, saved1, w2, saved2):
        inner = torch.mm(gradient, w2)
        weights = [torch.mm(gradient.t(), saved2)]
        inner = inner * saved1
        return [torch.mm(inner, w1), torch.mm(inner.t(), saved1), *weights, inner.sum(0)]

    rows, width = 1 << 15, 64
    shapes = ((rows, width), (2 * width, width), (rows, 2 * width), (width, 2 * width), (rows, 2 * width))
    inputs = [torch.empty(shape) for shape in shapes]
    graph = aten_graph(backward, *inputs)
    graph.meta["minicompile"] = "backward"
    lowered = triton.on_device(inductor.lower(graph, inputs))
    calls = [g.nodes[0].data.args for g in inductor.schedule(lowered).groups if g.kind == "extern"]
    assert [args[1].buffer for args in calls] == ["arg4", "arg3", "arg2", "arg1"]


@pytest.mark.parametrize("rows", [1 << 14, 1 << 10])
def test_a_large_result_made_of_little_comes_last_on_a_gpu(rows):
    """The gradient of a table of vectors; a small one stays where it is, near what it reads."""
    pytest.importorskip("triton")
    from minicompile.inductor.codegen import triton

    def backward(gradient, indices, saved, weight):
        table = torch.ops.aten.embedding_dense_backward(gradient, indices, rows, -1, False)
        return [table, torch.mm(gradient * saved, weight)]

    inputs = [torch.empty(64, 64), torch.zeros(64, dtype=torch.int64), torch.empty(64, 64), torch.empty(64, 64)]
    graph = aten_graph(backward, *inputs)
    graph.meta["minicompile"] = "backward"
    graph = triton.on_device(inductor.lower(graph, inputs))
    groups = [g for g in inductor.schedule(graph).groups if g.kind != "constant"]
    table = next(k for k, g in enumerate(groups) if graph.outputs[0].buffer in g.stored)
    assert (table == len(groups) - 1) == (rows == 1 << 14) and len(groups) > 2


def test_a_padded_product_and_a_view_of_it_are_copied_once(monkeypatch):
    from minicompile.inductor.lowering import extern

    monkeypatch.setattr(extern, "pays", lambda *sizes: True)

    def program(x, w):
        y = torch.mm(x, w)
        return [y.view(2, 3, 5), y, y.t(), y.view(2, 3, 5).amax(-1)]

    inputs = torch.randn(6, 4), torch.randn(4, 5)
    compiled = inductor.compile(aten_graph(program, *inputs), inputs)
    results = compiled(*inputs)
    for actual, expected in zip(results, program(*inputs), strict=True):
        torch.testing.assert_close(actual, expected)
        assert actual.stride() == expected.stride()
    assert len({result.data_ptr() for result in results}) == 2 and "(6, 8)" in str(compiled.source)


def test_a_sum_is_written_into_the_padded_product_that_it_reads(monkeypatch):
    from minicompile.inductor.lowering import extern

    monkeypatch.setattr(extern, "pays", lambda *sizes: True)

    def program(x, w, z):
        return [torch.mm(x.t(), w) + z.sin()]

    inputs = torch.randn(4, 31), torch.randn(4, 8), torch.randn(31, 8)  # 32 rows, of which one is not read
    compiled = inductor.compile(aten_graph(program, *inputs), inputs)
    torch.testing.assert_close(compiled(*inputs), program(*inputs))
    assert "(32, 8)" in str(compiled.source) and "# in its memory" in str(compiled.source)
