"""Matrix products: operands whose rows start anywhere are padded where that pays, and which library multiplies."""

import pytest
import torch
from patterns import aten_graph
from torch._subclasses import FakeTensorMode

import minicompile
from minicompile import config, inductor, record
from minicompile.inductor import epilogues, ir
from minicompile.inductor.lowering import extern


def row_major(*size):
    return torch.randn(*size, dtype=torch.bfloat16)


def column_major(*size):
    return torch.randn(*size[::-1], dtype=torch.bfloat16).t()


@pytest.mark.parametrize("sizes", [(16, 24, 8), (16, 13, 8), (16, 24, 11), (9, 16, 8), (9, 13, 11), (1, 13, 3)])
@pytest.mark.parametrize("left", [row_major, column_major])
@pytest.mark.parametrize("right", [row_major, column_major])
def test_padded_products_are_the_products(sizes, left, right, monkeypatch):
    m, n, k = sizes
    monkeypatch.setattr(extern, "pays", lambda *facts: True)

    def program(a, b, bias):
        return [torch.mm(a.relu(), b), torch.addmm(bias, a, b) * 2, torch.addmm(bias, a, b, beta=2)]

    inputs = (left(m, k), right(k, n), row_major(n))
    graph = aten_graph(program, *inputs)
    for result, expected in zip(inductor.compile(graph, inputs)(*inputs), program(*inputs), strict=True):
        assert result.stride() == expected.stride()
        torch.testing.assert_close(result, expected, rtol=2e-2, atol=2e-2)


def shapes(m, n, k, monkeypatch):
    """The operands of the product of a contiguous matrix and a transposed one, as the call gets them."""
    monkeypatch.setattr(extern, "pays", lambda *facts: True)
    inputs = (row_major(m, k), row_major(n, k))
    graph = inductor.lower(aten_graph(lambda a, b: [torch.mm(a, b.t()) + 1], *inputs), inputs)
    (call,) = [b.data for b in graph.buffers if isinstance(b.data, inductor.graph.Extern)]
    return [view.layout.size for view in call.views()]


def test_only_what_is_contiguous_in_memory_is_padded(monkeypatch):
    assert shapes(9, 16, 8, monkeypatch) == [(9, 8), (8, 16)]
    assert shapes(9, 13, 8, monkeypatch) == [(9, 8), (8, 16)]
    assert shapes(9, 16, 11, monkeypatch) == [(9, 16), (16, 16)]


def test_a_matrix_and_its_transpose_are_padded_once(monkeypatch):
    monkeypatch.setattr(extern, "pays", lambda *facts: True)
    inputs = (row_major(16, 13), row_major(16, 8), row_major(13, 8))
    graph = aten_graph(lambda grad, x, weight: [torch.mm(grad.t(), x), torch.mm(grad, weight)], *inputs)
    schedule = inductor.schedule(inductor.lower(graph, inputs))
    stored = [name for group in schedule.groups if group.kind == "loops" for name in group.stored]
    assert len(stored) == 2  # the gradient and the weight


def test_padding_pays_for_a_vocabulary_on_a_gpu():
    with FakeTensorMode():
        half = torch.empty(1, device="cuda", dtype=torch.bfloat16)
        single = torch.empty(1, device="cuda")
    assert extern.pays(half, 8192, 30522, 768) and extern.pays(half, 8192, 768, 30522)
    assert not extern.pays(single, 8192, 30522, 768) and not extern.pays(half, 64, 30522, 768)
    assert not extern.pays(half, 8192, 30522, 64) and not extern.pays(
        torch.empty(1, dtype=half.dtype), 8192, 30522, 768
    )


@pytest.mark.parametrize("reads_it", ["never", "later", "in the product"])
def test_a_product_is_added_where_the_sum_lies_if_nobody_reads_that_again(reads_it):
    def program(a, b):
        first = a.sin() @ b
        second = torch.addmm(first, first if reads_it == "in the product" else a, b)
        return [torch.addmm(second, a, b), *([first] if reads_it == "later" else [])]

    inputs = (torch.randn(8, 8), torch.randn(8, 8))
    compiled = inductor.compile(aten_graph(program, *inputs), inputs)
    for result, expected in zip(compiled(*inputs), program(*inputs), strict=True):
        torch.testing.assert_close(result, expected)
    python = compiled.source.python
    assert "buf3 = buf2  # in its memory" in python and ("buf2 = buf1  # in" in python) == (reads_it == "never")


@pytest.mark.parametrize("bias", [True, False], ids=["bias", "no bias"])
def test_onednn_multiplies_where_it_was_measured_to_be_faster(bias, monkeypatch):
    monkeypatch.setattr(extern, "onednn_is_faster", lambda: True)
    monkeypatch.setattr(extern, "WORK", 1)
    layer = torch.nn.Linear(24, 40, bias=bias)
    compiled = minicompile.compile(lambda x, y: (layer(x).relu(), x @ y), dynamic=True)
    for rows in (5, 7, 1):
        x, y = torch.randn(2, rows, 24, requires_grad=True), torch.randn(24, 16)
        got, want = compiled(x, y), (layer(x).relu(), x @ y)
        torch.testing.assert_close(got, want)
        ours, eager = (torch.autograd.grad(r[0].sum(), [x, *layer.parameters()]) for r in (got, want))
        torch.testing.assert_close(ours, eager)
    texts = [s.python for e in record.compilations for s in e.artifacts("codegen")]
    counts = [(text.count("_linear_pointwise"), text.count("torch.mm(")) for text in texts]
    assert counts[0] == (1, 1) and counts[-1][0] == 0 < counts[-1][1]  # y is not turned around, as in the backward


@pytest.mark.parametrize(("addmm", "faster"), [(2.0, True), (1.4, False), (0.9, False)])
def test_the_library_of_products_is_measured_once(addmm, faster, monkeypatch, tmp_path):
    """And oneDNN, which may not be worth its reordering of weights, is taken where it is clearly faster."""
    times = iter([addmm, 1.0])
    monkeypatch.setattr(
        extern.autotune, "timer", lambda call, device: next(times) if call().shape == (256, 1024) else 0
    )
    state = torch.get_rng_state()
    with config.patch(cache_dir=str(tmp_path)):
        for _ in range(2):  # the second time from the disk
            extern.onednn_is_faster.cache_clear()
            assert extern.onednn_is_faster() == faster
    extern.onednn_is_faster.cache_clear()
    assert torch.equal(state, torch.get_rng_state())


IMAGE = torch.randn(2, 6, 5, 3).to(memory_format=torch.channels_last)
CONVOLUTIONS = {  # name -> (image, weight's size, options, whether it is the product of pixels and channels)
    "pixels": (IMAGE, (4, 6, 1, 1), {}, True),
    "no bias": (IMAGE, (4, 6, 1, 1), {"bias": None}, True),
    "one pixel": (torch.randn(2, 6, 1, 1), (4, 6, 1, 1), {}, True),
    "part of an image": (IMAGE[:, :, 1:, ::2], (4, 6, 1, 1), {}, None),
    "no image": (IMAGE[:0], (4, 6, 1, 1), {}, False),
    "strided": (IMAGE, (4, 6, 1, 1), {"stride": 2}, False),
    "padded": (IMAGE, (4, 6, 1, 1), {"padding": 1}, False),
    "by groups": (IMAGE, (4, 3, 1, 1), {"groups": 2}, False),
    "windows": (IMAGE, (4, 6, 1, 2), {}, False),
    "channel by channel": (IMAGE.contiguous(), (4, 6, 1, 1), {}, None),
    "doubles": (IMAGE.double(), (4, 6, 1, 1), {}, False),
}


@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_a_convolution_of_single_pixels_is_one_product(name):
    image, size, options, product = CONVOLUTIONS[name]
    weight, bias = torch.randn(size, dtype=image.dtype), torch.randn(size[0], dtype=image.dtype)
    options = {"bias": bias, **options}
    program = lambda x, w: [torch.conv2d(x, w, **options), torch.conv2d(x, w, **options).relu()]  # noqa: E731
    compiled = minicompile.compile(program)
    with torch.no_grad():
        got, want = compiled(image, weight), program(image, weight)
    for result, expected in zip(got, want, strict=True):
        assert result.stride() == expected.stride()
        torch.testing.assert_close(result, expected)
    (text,) = [s.python for e in record.compilations for s in e.artifacts("codegen")]
    assert product is None or ("mm(" in text) == product == ("torch.convolution(" not in text)


def test_what_others_take_from_a_call_counts_for_nothing(monkeypatch):
    """Most calls of one way were interrupted; what it takes by itself is the least."""
    times = iter([5.0, 5.0, 1.0, 5.0, 5.0, 5.0, 5.0])
    monkeypatch.setattr(extern.autotune, "_clocked", lambda call: next(times))
    assert extern.autotune.timer(lambda: None, torch.device("cpu")) == 1.0


def clamped_products(x, weight, bias):
    first = torch.relu(torch.addmm(bias, x, weight.t()))
    second = torch.addmm(bias, first, weight)
    third = torch.addmm(bias, second, weight)
    return torch.relu(second), torch.relu(third * 2), torch.relu(torch.addmm(bias, x, x)).sin(), torch.relu(x @ x)


@pytest.mark.parametrize("keeps_nan", [True, False])
def test_relu_is_part_of_the_call_where_it_alone_reads_the_product(keeps_nan, monkeypatch):
    """Tried on the CPU, which has the operator too."""
    monkeypatch.setattr(epilogues, "DEVICE", "cpu")
    monkeypatch.setattr(epilogues, "keeps_nan", lambda call: keeps_nan)
    inputs = [torch.randn(size, dtype=torch.bfloat16) for size in ((8, 8), (8, 8), (8,))]
    inputs[0][0, 0] = float("nan")
    compiled = inductor.compile(aten_graph(clamped_products, *inputs), inputs)
    for result, expected in zip(compiled(*inputs), clamped_products(*inputs), strict=True):
        torch.testing.assert_close(result, expected, equal_nan=True)
    assert compiled.source.python.count("_addmm_activation") == keeps_nan
    assert compiled.source.python.count("torch.addmm(") == 4 - keeps_nan


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs cuBLAS")
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
@pytest.mark.parametrize("size", [(1, 8, 3), (64, 96, 32), (256, 1000, 40), (33, 17, 29)])
def test_relu_on_a_gpu_keeps_nan(dtype, size):
    rows, inner, columns = size
    layer, x = torch.nn.Linear(inner, columns, device="cuda", dtype=dtype), torch.randn(rows, inner, device="cuda")
    x[0] = float("nan")
    x = x.to(dtype)
    torch.testing.assert_close(minicompile.compile(lambda x: layer(x).relu())(x), layer(x).relu(), equal_nan=True)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_the_bias_is_added_by_the_kernel_that_reads_the_product(dtype):
    """If it alone does: no result, no operand of another call, both also seen from another side.  MKL has no halves."""

    def program(x, weight, bias):
        read, turned = torch.addmm(bias, x, weight), torch.addmm(bias, x, weight.t())
        twice, operand = torch.addmm(bias, x, weight, beta=2), torch.addmm(bias, x + 1, weight)
        halves = [half.sum(0) for half in torch.addmm(bias, x + 2, weight).split(3, 0)]
        return torch.tanh(read), turned.view(2, 3, 7).transpose(0, 1), turned.sin(), twice, operand.t() @ x, *halves

    inputs = [torch.randn(size, dtype=dtype) for size in ((6, 7), (7, 7), (7,))]
    compiled = inductor.compile(aten_graph(program, *inputs), inputs)
    tolerance = {"rtol": 2e-2, "atol": 1e-1} if dtype == torch.bfloat16 else {}
    for result, expected in zip(compiled(*inputs), program(*inputs), strict=True):
        assert result.stride() == expected.stride()
        torch.testing.assert_close(result, expected, **tolerance)
    python = compiled.source.python
    assert (python.count("torch.mm("), python.count("torch.addmm(")) == ((1, 5) if dtype == torch.bfloat16 else (3, 3))


@pytest.mark.parametrize("size, stride", [((4,), (0,)), ((3, 4), (0, 1)), ((3, 4), (1, 5)), ((0, 4), (4, 1))])
def test_numbers_to_try_a_product_with_fill_also_what_shares_its_memory(size, stride):
    tensor, memory = extern.autotune.tensor_of(ir.Layout(torch.device("cpu"), torch.bfloat16, size, stride))
    memory.fill_(float("nan"))
    assert (tensor.shape, tensor.stride()) == (size, stride) and tensor.isnan().all()


def test_a_kernel_that_loses_nan_is_found_out(monkeypatch):
    """Also where the bias is one number for all."""
    sizes = [((8,), (0,)), ((4, 6), (6, 1)), ((6, 8), (8, 1))]
    layouts = [ir.Layout(torch.device("cpu"), torch.bfloat16, *size) for size in sizes]
    product = ir.Extern(torch.ops.aten.addmm.default, tuple(ir.View("arg", layout) for layout in layouts), {}, "extern")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert epilogues.keeps_nan(product)
    monkeypatch.setattr(epilogues, "TARGET", lambda *args: torch.addmm(*args).nan_to_num(0.0))
    assert not epilogues.keeps_nan(product)
