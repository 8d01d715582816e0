"""Matrix products in Triton: in the interpreter against eager, compiled for GPUs, and how one is chosen."""

import os

import pytest
import torch
import torch.nn.functional as F

pytest.importorskip("triton")

from patterns import aten_graph  # noqa: E402
from test_triton import bounds  # noqa: E402, F401 (a fixture)

import minicompile  # noqa: E402
from minicompile import config, inductor, record  # noqa: E402
from minicompile.inductor import autotune  # noqa: E402
from minicompile.inductor.codegen import triton, triton_matmul  # noqa: E402

FLOATS = (torch.float32, torch.bfloat16, torch.float16)


def rn(*size):
    return torch.randn(*size)


CASES = {  # name -> function, inputs, groups that are left
    "mm": (lambda a, b: a @ b, lambda: (rn(64, 96), rn(96, 128)), 1),
    "odd": (lambda a, b: a @ b, lambda: (rn(100, 70), rn(70, 90)), 1),
    "small": (lambda a, b: a @ b, lambda: (rn(1, 3), rn(3, 5)), 1),
    "many_tiles": (lambda a, b: a @ b, lambda: (rn(700, 33), rn(33, 300)), 1),
    "transposed": (lambda a, b: a.t() @ b.t(), lambda: (rn(70, 40), rn(90, 70)), 1),
    "rows_apart": (lambda a, b: a[:, 3:40] @ b[::2], lambda: (rn(60, 50), rn(74, 90)), 1),
    "bias_relu": (lambda a, b, c: torch.addmm(c, a, b).relu(), lambda: (rn(90, 64), rn(64, 128), rn(128)), 1),
    "gelu_residual": (
        lambda x, w, c, y: F.gelu(F.linear(x, w, c)) * 0.5 + y,
        lambda: (rn(3, 25, 64), rn(90, 64), rn(90), rn(3, 25, 90)),
        1,
    ),
    "residual_by_columns": (lambda a, b, y: a @ b + y.t(), lambda: (rn(40, 30), rn(30, 50), rn(50, 40)), 1),
    "bmm": (lambda a, b: torch.bmm(a, b).sin(), lambda: (rn(3, 40, 33), rn(3, 33, 50)), 1),
    "heads": (lambda q, k: (q @ k.mT) * 0.125, lambda: (rn(2, 3, 20, 16), rn(2, 3, 24, 16)), 1),
    "prologue": (lambda a, b: (a * 2).mm(b.relu()), lambda: (rn(40, 30), rn(30, 50)), 1),
    "both_results": (lambda a, b: (lambda c: (c, c.exp()))(a @ b), lambda: (rn(40, 30), rn(30, 50)), 1),
    "sum_after": (lambda a, b: (a @ b).sum(1), lambda: (rn(40, 30), rn(30, 50)), 2),
    "shared_operand": (lambda a, b: ((a + 1) @ b, (a + 1) @ (b * 3)), lambda: (rn(40, 30), rn(30, 50)), 3),
    "same_operand": (lambda a: a.exp() @ a.exp(), lambda: (rn(40, 40),), 2),
}


@pytest.fixture
def chosen(monkeypatch):
    """Every product is a Triton kernel: the first one, or that with these tiles."""
    pick = {}

    def choose(candidates, key, device, unfit):
        return pick.get("name") or next(name for name in candidates if name != "aten")

    monkeypatch.setattr(autotune, "choose", choose)
    return pick


def tuned(function, inputs, on_gpu=False):
    graph = inductor.lower(aten_graph(function, *inputs), inputs)
    return triton_matmul.tuned(inductor.schedule(triton.on_device(graph) if on_gpu else graph))


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_products(name, dtype, chosen, bounds):  # noqa: F811
    function, make, groups = CASES[name]
    inputs = [x.to(dtype) for x in make()]
    schedule = tuned(function, inputs)
    assert len(schedule.groups) == groups and any(g.kind == "product" for g in schedule.groups)
    results = inductor.load(inductor.codegen(schedule, "triton"))(*inputs)
    eager, exact = function(*inputs), function(*(x.double() for x in inputs))
    eager, exact = ((t,) if isinstance(t, torch.Tensor) else t for t in (eager, exact))
    for got, one, want in zip(results, eager, exact, strict=True):
        assert (got.dtype, got.stride()) == (one.dtype, one.stride())
        error, allowed = (got.double() - want).abs().max(), (one.double() - want).abs().max()
        assert error <= 1.5 * allowed + 4 * torch.finfo(dtype).eps * want.abs().max()


@pytest.mark.parametrize("tile", triton_matmul.CONFIGS, ids=str)
def test_every_tile(tile, chosen, monkeypatch):
    monkeypatch.setattr(triton_matmul, "configs", lambda data, interpreted: [tile])
    a, b, c = rn(300, 150), rn(150, 270), rn(270)
    schedule = tuned(lambda a, b, c: torch.addmm(c, a, b).relu(), (a, b, c))
    (got,) = inductor.load(inductor.codegen(schedule, "triton"))(a, b, c)
    torch.testing.assert_close(got, torch.addmm(c, a, b).relu(), rtol=1e-5, atol=1e-4)


def test_what_is_no_product_of_the_template_is_left_alone(chosen):
    integers = torch.ones(8, 8, dtype=torch.int64)
    x = rn(8, 8)
    for function, inputs in (
        (lambda a: a.mm(a), (integers,)),
        (lambda a: a.double() @ a.double(), (x,)),
        (lambda a: torch.addmm(a, a, a), (x,)),
        (lambda a: torch.addmm(a[0], a, a, beta=2), (x,)),
        (lambda a: a[:0] @ a, (x,)),
    ):
        assert all(g.kind != "product" for g in tuned(function, inputs).groups)
    assert all(g.kind != "product" for g in tuned(lambda a: a @ a, (x,), on_gpu=True).groups)  # without TensorFloat-32


@pytest.mark.skipif(os.environ.get("TRITON_INTERPRET") == "1", reason="the interpreter compiles nothing")
@pytest.mark.parametrize("capability, instruction", [(80, "mma.sync"), (90, "wgmma.mma_async")])
@pytest.mark.parametrize("dtype", FLOATS[1:], ids=str)
def test_tensor_cores(capability, instruction, dtype, chosen):
    chosen["name"] = "(128, 128, 32, 4, 4)"
    half = lambda *size: torch.empty(size, dtype=dtype, device="meta")  # noqa: E731
    programs = (
        (lambda a, w, c, y: F.gelu(F.linear(a, w, c)) + y, (512, 256), (1024, 256), (1024,), (512, 1024)),
        (lambda a, b: torch.bmm(a, b) * 2, (4, 256, 64), (4, 64, 256)),
        (lambda a, b: a.relu() @ b, (1000, 64), (64, 504)),
    )
    for function, *sizes in programs:
        schedule = tuned(function, [half(*size) for size in sizes], on_gpu=True)
        source = inductor.codegen(schedule, "triton")
        (compiled,) = triton.compile_for(source, capability).values()
        ptx = compiled.asm["ptx"]
        assert instruction in ptx and "cp.async" in ptx and "st.global.v4" in ptx
        assert ("mask" in source.kernels) == (sizes[0][0] == 1000)  # no bounds where sizes divide


# --- the choice -----------------------------------------------------------------------------------------


def test_the_fastest_is_chosen_and_remembered(monkeypatch, tmp_path):
    times, made = {"a": 3.0, "b": 1.0, "c": 2.0}, []

    def candidate(name):
        made.append(name)
        return name

    monkeypatch.setattr(autotune, "timer", lambda call, device: times[call])
    candidates = {name: lambda name=name: candidate(name) for name in times}
    cpu = torch.device("cpu")
    with config.patch(cache_dir=str(tmp_path / "cache")):
        assert autotune.choose(candidates, ["one"], cpu) == "b" and sorted(made) == ["a", "b", "c"]
        times["a"] = 0.5
        assert autotune.choose(candidates, ["one"], cpu) == "b" and len(made) == 3  # nothing is made again
        assert autotune.choose(candidates, ["another"], cpu) == "a"
        (entry, *_) = (tmp_path / "cache").glob("choice-*")
        for path in (tmp_path / "cache").glob("choice-*"):
            path.write_bytes(b"damaged")
        assert autotune.choose(candidates, ["one"], cpu) == "a"


def test_a_candidate_that_does_not_fit_is_none(monkeypatch, tmp_path):
    from triton.runtime.errors import OutOfResources

    def too_large():
        raise OutOfResources(1 << 20, 1 << 17, "shared memory")

    monkeypatch.setattr(autotune, "timer", lambda call, device: call)
    with config.patch(cache_dir=str(tmp_path / "cache")):
        candidates = {"a": too_large, "b": lambda: 1.0}
        assert autotune.choose(candidates, ["x"], torch.device("cpu"), OutOfResources) == "b"
        with pytest.raises(ZeroDivisionError):
            autotune.choose({"a": lambda: 1 / 0}, ["y"], torch.device("cpu"))


@pytest.mark.parametrize("fastest", ["aten", "triton"])
def test_mode_max_autotune(fastest, monkeypatch, tmp_path):
    monkeypatch.setattr(autotune, "timer", lambda call, device: call() and (fastest == "aten") == has_product(call))
    linear, x = torch.nn.Linear(32, 48), rn(5, 32)
    expected = linear(x).relu().sum()
    expected.backward()
    gradient, linear.weight.grad = linear.weight.grad, None
    state = torch.get_rng_state()
    with config.patch(cpu_backend="triton", cache_dir=str(tmp_path / "cache")):
        loss = minicompile.compile(lambda x: linear(x).relu().sum(), mode="max-autotune-no-cudagraphs")(x)
        loss.backward()
    torch.testing.assert_close(loss, expected)
    torch.testing.assert_close(linear.weight.grad, gradient)
    assert torch.equal(torch.get_rng_state(), state)  # the numbers to measure with are not the user's
    text = "".join(str(source) for entry in record.compilations for source in entry.artifacts("codegen"))
    assert ("rt.dot" in text) == (fastest == "triton") and ("addmm" in text)


def has_product(call):
    (function,) = [cell.cell_contents for cell in call.__closure__ if hasattr(cell.cell_contents, "source")]
    return "rt.dot" in function.source.kernels


def test_a_gpu_is_timed_by_replaying_many_calls(monkeypatch):
    """Without the time of launching them."""
    calls, replays, clock = [], [], [0.0]

    class Event:
        def __init__(self, enable_timing):
            assert enable_timing

        def record(self):
            self.at = clock[0]

        def synchronize(self):
            pass

        def elapsed_time(self, other):
            return other.at - self.at

    def capture(call, inputs, pool):
        call(inputs)

        def replay():
            replays.append(pool)
            clock[0] += 5.0 * autotune.CALLS  # milliseconds

        return replay, []

    monkeypatch.setattr(torch.cuda, "Event", Event)
    monkeypatch.setattr(torch.cuda, "graph_pool_handle", lambda: "pool")
    monkeypatch.setattr(autotune.cuda_graphs, "capture", capture)
    assert autotune.timer(lambda: calls.append(1), torch.device("cuda")) == pytest.approx(5e-3)
    assert len(calls) == 1 + autotune.CALLS and len(replays) == 1 + autotune.ROUNDS
