"""The Triton kernels, run by Triton's interpreter, against eager: patterns, types, strides, sizes, tiles, errors."""

import contextlib
import os
import subprocess
import sys

import pytest
import torch
import torch.nn.functional as F
from torch.fx.experimental.proxy_tensor import make_fx

pytest.importorskip("triton")

import numpy as np  # noqa: E402
import triton.runtime.interpreter as triton_runtime  # noqa: E402
from patterns import PATTERNS, aten_graph  # noqa: E402
from test_patterns import assert_same  # noqa: E402

import minicompile  # noqa: E402
from minicompile import config, inductor, record  # noqa: E402
from minicompile.aot.decompositions import decomposition_table  # noqa: E402
from minicompile.inductor.codegen import triton, triton_interpret, triton_launch, triton_tiles  # noqa: E402
from minicompile.inductor.indexing import hint  # noqa: E402

FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
INTEGERS = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)
SPECIAL = [0.0, -0.0, 1.0, -1.0, 2.5, -3.5, float("nan"), float("inf"), -float("inf"), 1e-42, -7.0, 0.3, 120.0]


def source_of(function, *inputs):
    return inductor.codegen(inductor.schedule(inductor.lower(aten_graph(function, *inputs), inputs)), "triton")


def run(function, *inputs):
    return inductor.load(source_of(function, *inputs))(*inputs)


def check(function, *inputs):
    assert_same(run(function, *inputs), function(*inputs))


def assert_bitwise(function, *inputs):
    expected = function(*inputs)
    expected = [expected] if isinstance(expected, torch.Tensor) else expected
    for actual, want in zip(run(function, *inputs), expected, strict=True):
        assert (actual.shape, actual.stride(), actual.dtype) == (want.shape, want.stride(), want.dtype)
        bits = {2: torch.int16, 4: torch.int32, 8: torch.int64}.get(want.itemsize) if want.is_floating_point() else None
        same = (
            actual == want if bits is None else (actual.view(bits) == want.view(bits)) | actual.isnan() & want.isnan()
        )
        assert same.all(), (actual, want)


@pytest.fixture
def bounds(monkeypatch):
    """Every address that a kernel reads or writes, unless masked out, lies in one of its tensors."""
    builder, ranges, checked = triton_runtime.interpreter_builder, [], []
    run_kernel = triton_interpret.run

    def run(function, grid, args, constants):
        ranges[:] = [(a.data_ptr(), a.data_ptr() + extent(a)) for a in args if isinstance(a, torch.Tensor)]
        run_kernel(function, grid, args, constants)

    def checking(method):
        def access(pointers, *rest):
            mask = rest[0] if method.__name__ == "create_masked_load" else rest[1]
            used = np.atleast_1d(pointers.data)[np.broadcast_to(mask.data, np.atleast_1d(pointers.data).shape)]
            inside = np.zeros(used.shape, bool)
            for low, high in ranges:
                inside |= (used >= low) & (used < high)
            assert inside.all(), "an access outside of every tensor"
            checked.append(used.size)
            return method(pointers, *rest)

        return access

    monkeypatch.setattr(triton_interpret, "run", run)
    for name in ("create_masked_load", "create_masked_store"):
        monkeypatch.setattr(builder, name, checking(getattr(builder, name)))
    return checked


def extent(tensor):
    """Bytes from the first element to the end of the last."""
    if tensor.numel() == 0:
        return 0
    return (sum((n - 1) * s for n, s in zip(tensor.shape, tensor.stride())) + 1) * tensor.itemsize


def test_bounds_are_really_checked(bounds):
    x = torch.randn(8)
    source = source_of(lambda x: x + 1, x)
    inductor.load(source)(x)
    assert sum(bounds) == 16
    source.kernels = source.kernels.replace("in0 + x", "in0 + x + 1")
    with pytest.raises(Exception, match="outside of every tensor"):
        inductor.load(source)(x)


@contextlib.contextmanager
def tiles(monkeypatch, **sizes):
    with monkeypatch.context() as patch:
        for name, value in sizes.items():
            patch.setattr(triton_tiles, name, value)
        yield


@pytest.mark.parametrize("name", PATTERNS)
def test_pattern(name, bounds):
    function, make, _ = PATTERNS[name]
    check(function, *make())


# Small blocks: many programs, blocks that stick out, rows that do not fit, rows that programs share.
SMALL = (
    "softmax",
    "softmax_columns",
    "layer_norm",
    "var",
    "argmin_nan",
    "amax_nan",
    "any_all",
    "transpose_add",
)


@pytest.mark.parametrize("name", [n for n in SMALL if n in PATTERNS])
@pytest.mark.parametrize("persistent", [8, 4096])
def test_small_tiles(name, persistent, monkeypatch, bounds):
    function, make, _ = PATTERNS[name]
    with tiles(monkeypatch, INTERPRETED=64, PERSISTENT=persistent, PERSISTENT_PASSES=persistent):
        check(function, *make())


def test_kinds_of_reduction(monkeypatch):
    x = torch.randn(3, 1000)
    softmax = lambda x: F.softmax(x, -1)
    assert "for r_start" not in source_of(softmax, x).kernels
    with tiles(monkeypatch, PERSISTENT_PASSES=512, INTERPRETED=128):
        looped = source_of(softmax, x)
        assert looped.kernels.count("for r_start") == 2 and len(looped.kernel_names) == 1  # max and sum in one pass
    with tiles(monkeypatch, PERSISTENT=64, INTERPRETED=64):
        shared = source_of(lambda x: (x.sum(1), x.amax()), x)
        assert "_parts(" in shared.kernels and "_join(" in shared.kernels
        check(lambda x: (x.sum(1), x.amax(), (x > 3).any(), x.double().mean()), x)
        check(lambda x: (x.argmax(), x.exp().sum()), x)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64], ids=str)
def test_softmax_of_long_rows(dtype, monkeypatch, bounds):
    x = torch.randn(6, 1000)
    x[1], x[2, 3], x[3, 999], x[4, :990] = -float("inf"), float("nan"), float("inf"), -float("inf")
    x, target = x.to(dtype), torch.randint(0, 1000, (6,))
    with tiles(monkeypatch, INTERPRETED=128, PERSISTENT=64, PERSISTENT_PASSES=64):
        check(lambda x: (F.softmax(x, -1), F.log_softmax(x, -1)), x)
        check(lambda x: (x - x.amax(1, keepdim=True)).exp().sum(1), x)
        check(lambda x: F.softmax(x, 0), x)
        check(lambda x: F.layer_norm(x, (1000,)), x[:1].abs().nan_to_num(1.0, 1.0))
        check(lambda x, t: F.cross_entropy(x, t), x[:1], target[:1])


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64], ids=str)
def test_an_extreme_and_its_place_are_found_in_one_walk(dtype, monkeypatch, bounds):
    x = torch.randn(6, 1000).round()  # full of ties
    if dtype.is_floating_point:
        x[1], x[2, 3:700:200], x[3, 999], x[4, 990:] = -float("inf"), float("nan"), float("inf"), float("nan")
    x = x.to(dtype)

    def places(x, dim):
        return x.argmax(dim), x.argmin(dim), *x.to(torch.float32).max(dim)

    for blocks in ({"PARTS": 1}, {}):  # rows are walked whole, or shared by programs
        with tiles(monkeypatch, INTERPRETED=128, PERSISTENT=64, PERSISTENT_PASSES=64, **blocks):
            assert source_of(lambda x: x.argmax(1), x).kernels.count("for r_start") == 1
            check(lambda x: (*places(x, 1), *places(x, 0), x.argmax()), x)


def test_long_columns_are_shared_by_programs():
    """Few columns, each long: a program for 64 columns would leave a GPU idle; a softmax reads its input twice."""

    def kernels(function, x):
        return triton.generate(
            inductor.schedule(triton.on_device(inductor.lower(aten_graph(function, x), [x])))
        ).kernels

    x = torch.empty(16384, 2048, dtype=torch.bfloat16, device="meta")
    softmax = kernels(lambda x: F.softmax(x, 0), x)
    assert softmax.count("@kernel") == 3 and softmax.count("exp_below") == 4 and softmax.count("2048*r)") == 1
    assert kernels(lambda x: x.var(0), x).count("_parts(in0") == 1 == kernels(lambda x: x.var(0), x).count("2048*r)")
    assert kernels(lambda x: F.softmax(x, 1), x).count("@kernel") == 1


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_bitwise_arithmetic(dtype):
    x = torch.tensor(SPECIAL, dtype=dtype)
    y = torch.randn(13, dtype=torch.float64).to(dtype)
    assert_bitwise(lambda x: x.relu(), x)
    assert_bitwise(lambda x: x + 1, x)
    assert_bitwise(lambda x, y: x * y, x, y)
    assert_bitwise(lambda x, y: (torch.maximum(x, y), torch.minimum(x, y), x < y, x.abs(), -x), x, y)


def test_chain_is_bitwise_and_one_kernel():
    x = torch.cat([torch.randn(100_001) * 100, torch.tensor(SPECIAL)])
    chain = lambda x: x.relu().add(1).mul(2)
    assert_bitwise(chain, x)
    assert len(source_of(chain, x).kernel_names) == 1


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_integers_wrap_and_divide(dtype):
    info = torch.iinfo(dtype)
    x = torch.tensor([info.min, info.max, 0, 1, 7, info.min + 1, 100, 3], dtype=dtype)
    y = torch.tensor([3, 2, 1, 7, 5, 2, 9, 3], dtype=dtype)
    if info.min < 0:
        y = torch.where(torch.arange(8) % 3 == 0, -y, y)
    assert_bitwise(lambda x, y: (x + y, x - y, x * y, -x, x.abs()), x, y)
    assert_bitwise(lambda x, y: (x // y, x % y, torch.fmod(x, y), torch.div(x, y, rounding_mode="trunc")), x, y)
    assert_bitwise(lambda x, y: (x & y, x | y, x ^ y, ~x, torch.maximum(x, y), x < y, x.sign()), x, y)
    assert_bitwise(lambda x: (x << 1, x >> 1, x.sum(), x.amax(), x.amin(), x * x), x)


def test_truth_values():
    x, y = torch.rand(50) < 0.5, torch.rand(50) < 0.5
    check(lambda x, y: (x & y, x | y, x ^ y, ~x, x + y, x * y, x.any(), y.all(), x.sum(), x.float(), x < y), x, y)


def test_casts():
    x = torch.tensor([0.0, -0.0, 1.5, -2.7, 100.9, 0.1, 3.0])
    check(lambda x: [x.to(d) for d in (torch.bool, torch.float16, torch.bfloat16, torch.float64)], x)
    check(lambda x: [x.to(d) for d in (torch.int8, torch.int16, torch.int32, torch.int64)], x)
    check(lambda x: x.abs().to(torch.uint8), x)
    check(lambda x: [x.to(d) for d in (torch.float32, torch.bool, torch.int8, torch.uint8)], torch.tensor([300, -1, 0]))
    half = torch.arange(-32768, 32768, dtype=torch.int16)
    assert_bitwise(lambda h: (h.float() * 1.0, h.float().half()), half.view(torch.bfloat16))
    assert_bitwise(lambda h: (h.float() * 1.0, h.float().bfloat16()), half.view(torch.float16))


FUNCTIONS = """exp log sin cos tan tanh erf erfc lgamma digamma sigmoid sign isinf isnan round signbit reciprocal rsqrt
    sqrt expm1 log1p exp2 log2 log10 asin acos atan sinh cosh asinh acosh atanh floor ceil trunc square""".split()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_functions_of_special_numbers(dtype):
    check(lambda x: [getattr(torch, name)(x) for name in FUNCTIONS], torch.tensor(SPECIAL, dtype=dtype))


@pytest.mark.parametrize("size", [(), (1,), (1, 1), (7,), (129,), (3, 5, 7), (0,), (0, 5), (5, 0)], ids=str)
def test_sizes(size):
    x = torch.randn(size)
    check(lambda x: (x + 1, x.sum(), F.relu(x) * 2), x)
    if len(size) > 1:
        check(lambda x: (x.sum(0), x.sum(1), x.flip(0)), x)


@pytest.mark.parametrize(
    "view",
    [
        lambda x: x.t(),
        lambda x: x[::2, 1::3],
        lambda x: x[:, 5],
        lambda x: x[3:, 4:],
        lambda x: x.flip(0),
        lambda x: x[:1].expand(9, 30),
        lambda x: x.reshape(3, 4, 30).permute(2, 0, 1),
    ],
)
def test_strides(view):
    base = torch.randn(12, 30)
    check(lambda x: (view(x) * 2 + 1, view(x).sum(0)), base)  # the view inside the graph
    check(lambda x: (x * 2 + 1, x.sum(0)), view(base))  # a strided input


@pytest.mark.parametrize("mode", ["sum", "prod", "amax", "amin"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64, torch.int8], ids=str)
def test_scatter_modes(mode, dtype):
    x, s = (torch.randn(6, 5) * 4).to(dtype), (torch.randn(9, 5) * 4).to(dtype)
    i = torch.randint(0, 6, (9, 5))
    check(lambda x, i, s: x.scatter_reduce(0, i, s, mode), x, i, s)


def test_deterministic_mode_uses_no_atomics():
    x, s, i = torch.zeros(6), torch.randn(9), torch.randint(0, 6, (9,))
    add = lambda x, i, s: x.scatter_add(0, i, s)
    assert "tl.atomic_add" in source_of(add, x, i, s).kernels
    torch.use_deterministic_algorithms(True)
    try:
        assert "tl.atomic" not in source_of(add, x, i, s).kernels
        check(add, x, i, s)
    finally:
        torch.use_deterministic_algorithms(False)


def test_scatter_keeps_nan():
    x, i, s = torch.zeros(4), torch.tensor([1, 1, 2]), torch.tensor([float("nan"), 5.0, -1.0])
    check(lambda x, i, s: (x.scatter_reduce(0, i, s, "amax"), x.scatter_reduce(0, i, s, "amin")), x, i, s)


def test_scans():
    x = torch.rand(5, 300) + 0.5
    check(lambda x: (x.cumsum(1), x.cumsum(0), x.cumprod(1), (x * 10).to(torch.int32).cumsum(1)), x)


def test_index_out_of_range_raises_what_eager_raises():
    w, good, bad = torch.randn(9, 4), torch.tensor([-9, 8]), torch.tensor([3, 9])
    call = inductor.load(source_of(lambda w, i: w[i] * 2, w, good))
    assert torch.equal(call(w, good)[0], w[good] * 2)
    with pytest.raises(IndexError, match="out of range"):
        call(w, bad)


def test_half_rounds_to_nearest_even():
    x = torch.tensor([1.0 + k / 512 for k in range(16)])
    assert_bitwise(lambda x: x.to(torch.bfloat16), x)
    assert_bitwise(lambda x: x.half() + x.bfloat16().half(), x)


def test_training_step_of_a_small_model():
    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Linear(12, 24), torch.nn.GELU(), torch.nn.LayerNorm(24), torch.nn.Linear(24, 5)
    )
    x, target = torch.randn(7, 12), torch.randint(0, 5, (7,))
    F.cross_entropy(model(x), target).backward()
    expected = [p.grad.clone() for p in model.parameters()]
    model.zero_grad()
    with config.patch(cpu_backend="triton"):
        F.cross_entropy(minicompile.compile(model)(x), target).backward()
    for p, want in zip(model.parameters(), expected, strict=True):
        torch.testing.assert_close(p.grad, want, rtol=1e-4, atol=1e-6)
    sources = [a for c in record.compilations for a in c.artifacts("codegen")]
    assert sources and all(s.target == "triton" for s in sources)


def test_symbolic_sizes_are_kernel_arguments():
    """As the wrapper does: they are passed behind the tensors."""
    x = torch.randn(37, 53)
    for function in (lambda x: [x.sum(0)], lambda x: [x.t() + 1], lambda x: [x.sum()]):
        table = decomposition_table()
        graph = make_fx(function, decomposition_table=table, tracing_mode="symbolic")(x)
        groups = inductor.schedule(inductor.lower(graph, (x,)))
        (group,) = groups.groups
        kernel = triton.make_kernel(group, groups, {})
        text = kernel.text.replace("@NAME@", "kernel_0")
        namespace = triton_launch.module('device = torch.device("cpu")\n' + text)
        (want,) = function(x)
        values = {"arg0": x, group.names[0]: torch.empty_strided(want.shape, want.stride())}
        namespace["kernel_0"](*[values[name] for name in kernel.params], *map(hint, kernel.numbers))
        torch.testing.assert_close(values[group.names[0]], want, rtol=1e-4, atol=1e-4)
        assert "i64" in kernel.types and "37" not in text and "53" not in text


def test_equal_kernels_are_written_once():
    def layers(x):
        for _ in range(3):
            x = torch.mm(F.gelu(x), x)
        return x

    source = source_of(layers, torch.randn(16, 16))
    assert len(source.kernel_names) == 3 and source.kernels.count("@kernel") == 1


def test_text_is_deterministic():
    function, make, _ = PATTERNS["layer_norm"]
    inputs = make()
    assert str(source_of(function, *inputs)) == str(source_of(function, *inputs))


def test_without_triton_the_aten_interpreter_runs(monkeypatch):
    monkeypatch.setitem(sys.modules, "minicompile.inductor.codegen.triton_launch", None)
    monkeypatch.delattr(sys.modules["minicompile.inductor.codegen"], "triton_launch")
    x = torch.randn(5)
    record._warned.clear()
    with config.patch(cpu_backend="triton"), pytest.warns(UserWarning, match="install it: `pip install triton`"):
        call = inductor.compile(aten_graph(lambda x: [x * 2], x), (x,))
    assert torch.equal(call(x)[0], x * 2)


def test_environment_variable_selects_the_interpreter():
    code = (
        "import torch, minicompile\n"
        "from minicompile import record\n"
        "f = lambda x: x.relu().add(1).mul(2)\n"
        "x = torch.randn(1000)\n"
        "assert torch.equal(minicompile.compile(f)(x), f(x))\n"
        "(c,) = record.compilations; (s,) = c.artifacts('codegen'); assert s.target == 'triton', s.target\n"
    )
    environment = {**os.environ, "TRITON_INTERPRET": "1"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_blocks_whose_end_is_anywhere_take_four_elements_a_thread():
    assert triton_tiles.pointwise(1 << 25, False) == (1024, 4)  # 8 elements a thread: 16 bytes of a half type
    assert triton_tiles.pointwise((1 << 25) + 1, False) == (512, 4)
