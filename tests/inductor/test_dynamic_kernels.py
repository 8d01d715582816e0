"""Kernels with symbolic sizes: one compilation serves every size, with eager's values, shapes and strides."""

import pytest
import torch
import torch.nn.functional as F

import minicompile

SIZES = ((4, 6), (5, 9), (7, 33), (8, 8), (6, 40))
PROGRAMS = {
    "pointwise": lambda x: (x * 2 + 1).relu() * x.shape[1],
    "softmax": lambda x: torch.softmax(x, -1) * 3,
    "column sum": lambda x: x.sum(0) + 1,
    "mean": lambda x: x.mean() + x.shape[0],
    "layer norm": lambda x: F.layer_norm(x, (x.shape[-1],)),
    "cat": lambda x: torch.cat([x, x * 2], 1),
    "transpose": lambda x: x.t().contiguous() + 1,
    "reshape": lambda x: (x.reshape(-1) + 1).view(x.shape[1], x.shape[0]),
    "slice": lambda x: x[:, : x.shape[1] // 2] * 2,
    "last row": lambda x: x[x.shape[0] - 1] * 2,
    "matmul": lambda x: (x @ x.t()).relu(),
    "causal mask": lambda x: torch.tril(x @ x.t()),
    "positions": lambda x: torch.arange(x.shape[1], device=x.device) + x,
    "gather": lambda x: x.gather(1, torch.zeros(x.shape[0], 2, dtype=torch.long, device=x.device)),
    "cumsum": lambda x: x.cumsum(1),
    "argmax": lambda x: x.argmax(1),
    "pad": lambda x: F.pad(x, (1, 2)),
    "attention": lambda x: F.scaled_dot_product_attention(x[None], x[None], x[None]),
    "variance": lambda x: x.var(1),
    "flip": lambda x: x.flip(1),
    "embedding": lambda x: F.embedding((x > 0).long(), torch.ones(3, 4, device=x.device)),
    "pool": lambda x: F.avg_pool1d(x[None], 2),
    "scatter": lambda x: torch.zeros_like(x).scatter_add(1, (x > 0).long(), x),
    "roll": lambda x: x.roll(1, 1),
    "diagonal": lambda x: (x @ x.t()).diagonal() + 1,
    "jacobian": lambda x: torch.func.jacrev(lambda y: y.sum(0) * 2)(x),
    "repeat": lambda x: x.repeat(2, 3),
    "top two": lambda x: x.topk(2)[0] + 1,
    "standardise": lambda x: (x - x.mean(1, keepdim=True)) / x.std(1, keepdim=True),
}
DEVICES = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", PROGRAMS)
def test_one_compilation_serves_every_size(name, device):
    fn = PROGRAMS[name]
    compiled = minicompile.compile(fn)
    for size in SIZES:
        x = torch.randn(*size, device=device)
        result, expected = compiled(x), fn(x)
        assert result.stride() == expected.stride()
        torch.testing.assert_close(result, expected, rtol=1e-4, atol=1e-4)
    looks = name == "pool" and torch.__version__ < "2.12"  # its rule looks at the length there
    assert minicompile.stats()["graphs"] == 2 + looks  # the first size, and all others


@pytest.mark.skipif(torch.cuda.is_available(), reason="kernels are compiled there, not interpreted")
def test_triton_kernels_take_sizes():
    """The same through Triton's interpreter."""
    pytest.importorskip("triton")
    for name in ("pointwise", "softmax", "column sum", "transpose", "mean", "scatter", "cumsum"):
        minicompile.reset()
        compiled = minicompile.compile(PROGRAMS[name])
        with minicompile.config.patch(cpu_backend="triton"):
            for size in SIZES:
                x = torch.randn(*size)
                torch.testing.assert_close(compiled(x), PROGRAMS[name](x), rtol=1e-4, atol=1e-4)
        assert minicompile.stats()["graphs"] == 2


@pytest.mark.parametrize("device", DEVICES)
def test_gradients_at_every_size(device):
    model = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.LayerNorm(8), torch.nn.GELU(), torch.nn.Linear(8, 3))
    model = model.to(device)
    compiled = minicompile.compile(model)
    for rows in (3, 5, 8, 64):
        x = torch.randn(rows, 6, device=device)
        gradients = []
        for call in (model, compiled):
            model.zero_grad()
            F.cross_entropy(call(x), torch.arange(rows, device=device) % 3).backward()
            gradients.append([p.grad.clone() for p in model.parameters()])
        torch.testing.assert_close(*gradients, rtol=1e-4, atol=1e-5)
    assert minicompile.stats()["graphs"] == 2


def test_the_wrapper_reads_the_sizes_from_the_inputs():
    compiled = minicompile.compile(lambda x: x.sum(0) + 1, dynamic=True)
    compiled(torch.randn(4, 6))
    source = str(minicompile.record.compilations[-1].artifacts("codegen")[0])
    assert "s0 = size(arg0, " in source and "int64_t n0" in source


def test_a_row_that_is_needed_twice_is_kept():
    """Of any length, also one longer than the first: each thread has a row of its own."""

    def rows(x):
        return torch.softmax(x * 2, -1)

    compiled = minicompile.compile(rows, dynamic=True)
    for shape in ((5, 7), (33, 1000), (4, 5000), (64, 9)):
        x = torch.randn(shape)
        torch.testing.assert_close(compiled(x), rows(x))
    assert minicompile.stats()["graphs"] == 1
    sources = [source.kernels for source in minicompile.record.compilations[-1].artifacts("codegen")]
    assert any("m_scratch<float, 0>(n1)" in text for text in sources)


FEW_AND_MANY = ((5, 7), (3, 50_000), (50_000, 3), (300, 700), (2, 5000), (5000, 2))
GROWING = ("pointwise", "softmax", "column sum", "mean", "layer norm", "transpose", "cumsum", "scatter", "argmax")


@pytest.mark.parametrize("first", FEW_AND_MANY[:4], ids=str)
def test_whether_threads_share_the_work_is_decided_by_the_sizes_of_the_call(first):
    """Whatever the sizes were at first: the kernel is there for few points and for many."""
    for name in GROWING if first == FEW_AND_MANY[0] else GROWING[:4]:
        compiled = minicompile.compile(PROGRAMS[name], dynamic=True)
        for shape in (first, *FEW_AND_MANY):
            x = torch.randn(shape)
            torch.testing.assert_close(compiled(x), PROGRAMS[name](x), rtol=1e-4, atol=1e-3)
        assert minicompile.stats()["graphs"] == 1, name
        text = minicompile.record.compilations[-1].artifacts("codegen")[0].kernels
        assert text.count("_small(") >= 2 and "#pragma omp parallel for" in text and " return kernel_0_" in text
        few, many = text.split("_small(")[1].split("\n}")[0], text.rsplit("_small(", 1)[1]
        assert "parallel" not in few and "if(parallel: " in many
        minicompile.reset()


def test_short_rows_are_not_added_up_in_blocks_however_many_there_are():
    """The length of a row decides by itself: 1024 rows of 1000 pay for no blocks, longer rows have them."""
    compiled = minicompile.compile(PROGRAMS["layer norm"], dynamic=True)
    for shape in ((1024, 1000), (8, 3), (1024, 2049), (2, 70_000), (20_000, 2)):
        x = torch.randn(shape)
        torch.testing.assert_close(compiled(x), PROGRAMS["layer norm"](x), rtol=1e-4, atol=1e-4)
    assert minicompile.stats()["graphs"] == 1
    text = minicompile.record.compilations[-1].artifacts("codegen")[0].kernels
    short, others = (text.rsplit(name, 1)[1].split("\n}")[0] for name in ("_short(const", "_add(const"))
    assert "if(parallel: " in short and "block" not in short and "block" in others
    assert "if (n1 <= 2048) return kernel_0" in others


def test_a_kernel_of_known_sizes_is_written_once():
    compiled = minicompile.compile(PROGRAMS["softmax"], dynamic=False)
    compiled(torch.randn(300, 700))
    text = minicompile.record.compilations[-1].artifacts("codegen")[0].kernels
    assert "_small(" not in text and "if(parallel" not in text and "#pragma omp parallel for" in text


def test_what_a_kernel_takes_is_checked():
    """The launcher of C++ kernels in C: tensors with memory of their own, then sizes."""
    compiled = minicompile.compile(lambda x: x + 1, dynamic=True)
    x = torch.randn(4, 6)
    compiled(x)
    call = minicompile.record.compilations[-1].artifacts("load")[0]
    run = call.__closure__[0].cell_contents.__globals__["run_0"]
    result = torch.empty(4, 6)
    assert run(x, result, 24) is None and torch.equal(result, x + 1)
    for wrong in ((x, result), (x, 24, result), (x, result, "24"), (x, None, 24), (x, result, 24.0)):
        with pytest.raises(TypeError):
            run(*wrong)
    with pytest.raises(OverflowError):
        run(x, result, 1 << 64)
    with pytest.raises(RuntimeError):
        run(x, torch.empty(4, 6).to_sparse(), 24)
    with pytest.raises(TypeError, match="one of its dimensions"):
        call.__closure__[0].cell_contents.__globals__["size"](x, 2)


REWRITTEN = {  # sizes that PyTorch's rules write in another way than the program asks for them
    "view": (lambda x: x.view(1, 2, 3, 4) + 1, (2, 12)),
    "view of a product": (lambda x: x.view(2, 3, 4) * 2, (4, 6)),
    "flat, then split": (lambda x: x.view(24).view(3, 8) + torch.ones(3, 8), (4, 6)),
    "reshape of a transpose": (lambda x: x.t().reshape(3, 8).softmax(1), (4, 6)),
    "inferred": (lambda x: x.view(2, 2, -1).cumsum(1), (4, 6)),
    "another's shape": (lambda x, y: x.view(y.shape) + y, (4, 6), (3, 8)),
    "another's shape, three dimensions": (lambda x, y: x.reshape(y.shape) * 2, (4, 6), (2, 3, 4)),
    "inferred from another": (lambda x, y: x.view(y.shape[0] * 2, -1) + 1, (4, 6), (3, 8)),
    "every second row": (lambda x: F.dropout(x[::2], 0.5), (5, 6)),
    "windows": (lambda x: x.unfold(1, 3, 2) * 2, (4, 7)),
    "channels last": (
        lambda x: F.dropout(x.view(1, 2, 3, 4).to(memory_format=torch.channels_last), 0.5),
        (2, 12),
    ),
}


@pytest.mark.parametrize("name", REWRITTEN)
def test_sizes_that_guards_say_are_equal(name):
    fn, *sizes = REWRITTEN[name]
    tensors = [torch.randn(size, requires_grad=True) for size in sizes]
    results = []
    for function in (fn, minicompile.compile(fn, dynamic=True)):
        torch.manual_seed(0)
        result = function(*tensors)
        results.append((result, *torch.autograd.grad((result * result).sum(), tensors[0])))
    for expected, result in zip(*results, strict=True):
        assert result.stride() == expected.stride()
        torch.testing.assert_close(result, expected)


def test_guards_still_tell_other_sizes_apart():
    """A size that was proved equal by a guard is asked for again when the shape is another."""
    compiled = minicompile.compile(lambda x, y: x.view(y.shape) + y, dynamic=True)
    for size, other in (((4, 6), (3, 8)), ((4, 6), (8, 3)), ((9, 5), (3, 15)), ((10, 6), (4, 15))):
        x, y = torch.randn(size), torch.randn(other)
        assert torch.equal(compiled(x, y), x.view(other) + y)
    with pytest.raises(RuntimeError, match="invalid for input of size"):
        compiled(torch.randn(4, 6), torch.randn(5, 5))


def written_by_place(x, i, j):
    x = x.clone()
    x[i] = 7
    x[i:j] += 1
    return x


BY_PLACE = {
    "one": lambda x, i, j: x[i] + 1,
    "range": lambda x, i, j: x[:, i:j] * 2,
    "rest": lambda x, i, j: x[i:] + x[:, :j].sum(),
    "written": written_by_place,
}


@pytest.mark.parametrize("name", BY_PLACE)
@pytest.mark.parametrize(
    "first", [(0, 1, -1, -2), (2, 1, 0, -2), (-1, -2, 1, 0), (0, 2, 3, 9), (0, 2, -3, -9)], ids=str
)
def test_places_count_from_the_end_and_past_it(name, first):
    fn, compiled = BY_PLACE[name], minicompile.compile(BY_PLACE[name], backend="inductor")
    for i, j in zip(first, (5, -1, 2, -9)):
        x = torch.randn(4, 5)
        try:
            expected = fn(x, i, j)
        except IndexError:
            with pytest.raises(IndexError):
                compiled(x, i, j)
        else:
            torch.testing.assert_close(compiled(x, i, j), expected)
