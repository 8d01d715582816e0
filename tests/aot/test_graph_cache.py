"""What is kept of a captured graph: a hit does what a miss did, and whatever changes the result is a miss."""

import os
import subprocess
import sys

import pytest
import torch
import torch.nn.functional as F
from test_alias_table import check
from torch.utils.checkpoint import checkpoint

import minicompile
from minicompile import aot, cache, config, record
from minicompile.aot import graph_cache
from minicompile.aot.content import Unnameable


@pytest.fixture(autouse=True)
def folder(tmp_path):
    path = tmp_path / "cache"
    with config.patch(cache_dir=str(path), graph_cache=True):
        yield path


# --- a hit does what a miss did ---------------------------------------------------------------------
class Normalized(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear, self.norm = torch.nn.Linear(6, 6), torch.nn.BatchNorm1d(6)
        self.register_buffer("calls", torch.zeros((), dtype=torch.int64))

    def forward(self, x):
        self.calls += 1
        return F.dropout(self.norm(self.linear(x)).relu(), 0.3, self.training), x.shape[0]


def views(x):
    y = x * 2
    return y, y[1:].t(), x.detach().view(-1), y.unsqueeze(0), torch.float32, "text"


def writes(x):
    x = x * 1
    x[:, [-1]] = 0.5  # an index that becomes a constant of the graph
    return x.sin(), x


def checkpointed(x):
    return checkpoint(lambda y: y.exp().sin().exp(), x, use_reentrant=False) * 3


def in_autocast(x):
    with torch.autocast("cpu", torch.bfloat16):
        return x @ x.t(), x + 1


def attention(x):
    return ((x @ x.mT) * 0.5).softmax(-1) @ x


def one_of_two(x):
    return x.exp().sum(), (x.detach() * float("inf")).sum(), x.sin()


PROGRAMS = {f.__name__: f for f in (views, writes, checkpointed, in_autocast, attention, one_of_two)} | {"module": None}


def observed(name, trains):
    """Results, gradients, buffers and counts of two calls."""
    torch.manual_seed(3)
    program = PROGRAMS[name] or Normalized()
    compiled, seen = minicompile.compile(program), []
    for _ in range(2):
        x = torch.randn(4, 6, requires_grad=trains)
        outputs = compiled(x)
        outputs = outputs if isinstance(outputs, tuple) else (outputs,)
        seen += outputs
        if trains:
            outputs[0].sum().backward()  # of some results only
            seen.append(x.grad)
    if isinstance(program, torch.nn.Module):
        seen += [*program.buffers(), *(p.grad for p in program.parameters())]
    record.counters["cache_hits"] = 0
    return seen, minicompile.stats(), repr(record.compilations[0].artifacts("aot")[0])


@pytest.mark.parametrize("trains", [True, False])
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_hit_is_what_a_miss_was(name, trains):
    first, counts, text = observed(name, trains)
    assert not record.counters["graph_cache_hits"]
    minicompile.reset()
    second, again, text_again = observed(name, trains)
    assert record.counters["graph_cache_hits"] == 1 and counts == again and text == text_again
    for a, b in zip(first, second, strict=True):
        if isinstance(a, torch.Tensor):
            assert torch.equal(a, b) or torch.equal(a.isnan(), b.isnan())
            assert (a.stride(), a.requires_grad, a._version) == (b.stride(), b.requires_grad, b._version)
        else:
            assert a is b or a == b


def test_the_stages_are_there_for_who_asks():
    def story():
        minicompile.reset()
        found = minicompile.explain(torch.nn.functional.gelu)(torch.arange(8.0)).compilations[0]
        return {stage: str(found.artifacts(stage)[0]) for stage in ("aot", "lower", "schedule", "codegen")}

    assert story() == story() and record.counters["graph_cache_hits"] == 1


# --- what the key sees ------------------------------------------------------------------------------
def double(x, w):
    return F.linear(x, w) * 2, x.reshape(-1)[2:]


def keys(program=double, tensors=None, trains=False):
    """The keys of the graphs that a program is captured in."""
    found = []

    def backend(gm, inputs):
        found.append(graph_cache.key_of(gm, inputs))
        return gm.forward

    minicompile.reset()
    x, w = tensors or (torch.randn(4, 3), torch.randn(5, 3))
    minicompile.compile(program, backend=backend)(x, w.requires_grad_(trains))
    return found


def memory(*shape):
    return torch.zeros(100).as_strided(shape, (shape[1], 1))


both = torch.zeros(100)
DIFFERENT = {
    "the same": {},
    "number": {"program": lambda x, w: (F.linear(x, w) * 3, x.reshape(-1)[2:])},
    "type of a number": {"program": lambda x, w: (F.linear(x, w) * 2.0, x.reshape(-1)[2:])},
    "operator": {"program": lambda x, w: (F.linear(x, w) + 2, x.reshape(-1)[2:])},
    "argument": {"program": lambda x, w: (F.linear(x, w) * 2, x.reshape(-1)[3:])},
    "order of results": {"program": lambda x, w: (x.reshape(-1)[2:], F.linear(x, w) * 2)},
    "dtype": {"tensors": (torch.randn(4, 3).double(), torch.randn(5, 3).double())},
    "shape": {"tensors": (torch.randn(2, 3), torch.randn(5, 3))},
    "stride": {"tensors": (torch.randn(3, 4).t(), torch.randn(5, 3))},
    "offset": {"tensors": (torch.zeros(100)[5:17].view(4, 3), torch.randn(5, 3))},
    "memory behind": {"tensors": (memory(4, 3), torch.randn(5, 3))},
    "aliasing": {"tensors": (both.as_strided((4, 3), (3, 1)), both.as_strided((5, 3), (3, 1)))},
    "no aliasing": {"tensors": (memory(4, 3), memory(5, 3))},
    "requires grad": {"trains": True},
    "parameter": {"tensors": (torch.randn(4, 3), torch.nn.Parameter(torch.randn(5, 3), requires_grad=False))},
    "no leaf": {"tensors": (torch.randn(4, 3, requires_grad=True) * 1, torch.randn(5, 3))},
}


def test_the_key_sees_graph_and_inputs():
    found = {name: keys(**options) for name, options in DIFFERENT.items()}
    assert keys() == found["the same"] and len(found["the same"]) == 1
    values = [key for several in found.values() for key in several]
    repeated = [name for name, several in found.items() if any(values.count(key) > 1 for key in several)]
    assert set(repeated) <= {"parameter", "the same"}, repeated  # a parameter is to the backend what a tensor is


def test_the_key_sees_settings():
    changes = {name: not value if type(value) is bool else value * 2 + 1 for name, value in numbers().items()}
    texts = {name: value + "x" for name, value in config.snapshot().items() if type(value) is str}
    seen = {name: one_changed(name, value) for name, value in {**changes, **texts}.items()}
    same = {name for name, key in seen.items() if key == cache.settings()}
    assert same == set(cache.UNRELATED)


def numbers():
    return {name: value for name, value in config.snapshot().items() if type(value) is not str}


def one_changed(name, value):
    with config.patch(**{name: value}):
        return cache.settings()


MODES = {  # how a mode is set, how it was, and another value
    "default dtype": (torch.set_default_dtype, torch.float32, torch.float64),
    "deterministic": (torch.use_deterministic_algorithms, False, True),
    "threads": (torch.set_num_threads, torch.get_num_threads(), torch.get_num_threads() + 1),
    "precision": (torch.set_float32_matmul_precision, "highest", "medium"),
    "oneDNN": (torch._C._set_mkldnn_enabled, True, False),
    "flash attention": (torch._C._set_sdp_use_flash, True, False),
    "fill": (torch._C._set_deterministic_fill_uninitialized_memory, True, False),
    "grad mode": (torch._C._set_grad_enabled, True, False),
    "autocast": (lambda on: torch.set_autocast_enabled("cpu", on), False, True),
    "type of autocast": (lambda dtype: torch.set_autocast_dtype("cpu", dtype), torch.bfloat16, torch.float16),
    "TF32": (torch._C._set_cudnn_allow_tf32, True, False),
}


@pytest.mark.parametrize("name", MODES)
def test_the_key_sees_modes(name):
    change, was, value = MODES[name]
    before = cache.settings()
    change(value)
    try:
        assert cache.settings() != before
    finally:
        change(was)
    assert cache.settings() == before


def test_another_compiler_has_other_keys(monkeypatch):
    before = keys()
    for name in ("compiler_version", "environment"):
        with monkeypatch.context() as patched:
            patched.setattr(cache, name, lambda: "another")
            assert keys() != before


def test_a_package_that_changes_meanwhile_has_keys_that_no_other_process_has(monkeypatch):
    before = cache.compiler_version.__wrapped__()
    assert before == cache.compiler_version.__wrapped__()
    monkeypatch.setattr(cache, "_LOADED", 0)
    assert len({before, cache.compiler_version.__wrapped__(), cache.compiler_version.__wrapped__()}) == 3


# --- what has no key --------------------------------------------------------------------------------
class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        return grad * 2


@torch.library.custom_op("graph_cache_test::negative", mutates_args=())
def negative(x: torch.Tensor) -> torch.Tensor:
    return -x


@negative.register_fake
def _(x):
    return torch.empty_like(x)


negative.register_autograd(lambda ctx, grad: -grad)


@minicompile.allow_in_graph
def users(x):
    return x * 2


NO_KEY = {
    "custom gradient": lambda x, w: Doubled.apply(x),
    "custom operator": lambda x, w: torch.ops.graph_cache_test.negative(x),
    "the user's function": lambda x, w: users(x),
}


@pytest.mark.parametrize("name", NO_KEY)
def test_what_has_no_content_is_traced(name, folder):
    with pytest.raises(minicompile.errors.BackendCompilerFailed, match="Unnameable"):
        keys(NO_KEY[name], (torch.ones(3, requires_grad=True), torch.ones(3)))
    minicompile.reset()
    x = torch.ones(3, requires_grad=True)
    minicompile.compile(NO_KEY[name])(x, x).sum().backward()
    assert not list(folder.glob("*.json"))


def test_symbolic_sizes_frozen_data_and_modes_have_no_key(folder):
    compiled = minicompile.compile(torch.sin, dynamic=True)
    assert torch.equal(compiled(torch.ones(3)), torch.ones(3).sin())
    with torch.no_grad():
        minicompile.compile(torch.nn.Linear(2, 2), options={"freeze": True})(torch.ones(1, 2))
    assert not list(folder.glob("*.json"))
    gm = torch.fx.symbolic_trace(lambda x: x.sin())
    with torch.autograd.graph.save_on_cpu(), pytest.raises(Unnameable, match="hooks"):
        graph_cache.key_of(gm, [torch.ones(3)])
    with torch.overrides.BaseTorchFunctionMode(), pytest.raises(Unnameable, match="modes"):
        graph_cache.key_of(gm, [torch.ones(3)])


def test_a_function_that_claims_to_be_torchs_has_no_key():
    def forged(x):
        return x

    forged.__module__, forged.__qualname__ = "torch", "sin"
    with pytest.raises(Unnameable):
        aot.content.function_name(forged)
    assert aot.content.read(aot.content.write(torch.sin)) is torch.sin


# --- the files --------------------------------------------------------------------------------------
def run_once():
    minicompile.reset()
    x = torch.arange(6.0, requires_grad=True)
    minicompile.compile(lambda x: (x.exp() * 2).sum())(x).backward()
    assert torch.allclose(x.grad, 2 * x.detach().exp())
    return record.counters["graph_cache_hits"]


def test_a_view_that_autograd_refuses_questions_has_a_key():
    """Whether it is a leaf cannot be asked of a view whose base was written in inference mode."""
    check("writes: overlapping: first written, grad", "inference", "aot_eager")


@pytest.mark.parametrize("damage", ["cut", "changed", "empty", "unsealed"])
def test_damaged_entries_are_misses(folder, damage):
    assert [run_once(), run_once()] == [0, 1]
    for path in folder.glob("*.json"):
        content = path.read_bytes()
        half = len(content) // 2
        changed = content[:half] + bytes([content[half] ^ 1]) + content[half + 1 :]
        path.write_bytes({"cut": content[:half], "changed": changed, "empty": b""}.get(damage, cache.unseal(content)))
    assert [run_once(), run_once()] == [0, 1]


PROCESS = """
import torch, minicompile
from minicompile.bench.models import ZOO
model, batch = ZOO["gpt_manual"].build("small")
model.train()
torch.manual_seed(0)
minicompile.compile(model)(*batch.args, targets=batch.target)[1].backward()
total = sum(p.grad.double().abs().sum().item() for p in model.parameters())
print(minicompile.record.counters["graph_cache_hits"], total.hex())
"""


def test_processes_share_what_they_keep(folder):
    """Two at once, then a third: which traces nothing and lowers nothing, and has the same gradients."""
    environment = {**os.environ, "MINICOMPILE_CACHE_DIR": str(folder), "OMP_NUM_THREADS": "1"}

    def start(program):
        return subprocess.Popen([sys.executable, "-c", program], env=environment, stdout=subprocess.PIPE, text=True)

    found = [process.communicate()[0].split() for process in [start(PROCESS), start(PROCESS)]]
    refuse = "import minicompile.aot.graph_cache as g, minicompile.inductor as i\ng.trace = i.lower = None\n"
    found.append(start(refuse + PROCESS).communicate()[0].split())
    assert found[2][0] == "1" and len({total for _, total in found}) == 1
