"""Launches of Triton kernels on a GPU: what the driver is given, and what kernels share."""

import contextlib
import types

import pytest
import torch
from torch._subclasses import FakeTensorMode

pytest.importorskip("triton")

from minicompile import inductor  # noqa: E402
from minicompile.inductor.codegen import triton_launch  # noqa: E402


def launched(monkeypatch, version, *kernels):
    """Kernels as on a GPU with this version of Triton, of which `loads` and `calls` tell."""
    loads, calls = [], []

    class Run:
        global_scratch_size = profile_scratch_size = launch_cooperative_grid = launch_pdl = 0

        def __init__(self, kind):
            self.kind = kind

        def __call__(self, *args):
            calls.append((self.kind, args))

        launch = __call__

    class Compiled:
        function, packed_metadata, metadata = "function", "metadata", Run

        def __init__(self, kernel, kind):
            sizes = dict.fromkeys(kernel.sizes, "i32")
            self.src = types.SimpleNamespace(signature=kernel.signature | sizes | {"XBLOCK": "constexpr"})
            self.kind = kind

        @property
        def run(self):
            loads.append((self.kind, *self.src.signature.values()))
            return Run(self.kind)

    monkeypatch.setattr(triton_launch, "TRITON_VERSION", version)
    monkeypatch.setattr(triton_launch.TritonKernel, "compile", lambda self, kind: Compiled(self, kind))
    monkeypatch.setattr(torch.cuda, "device", lambda index: contextlib.nullcontext())
    monkeypatch.setattr(torch._C, "_cuda_getCurrentRawStream", lambda device: 77, raising=False)
    made = [triton_launch.kernel(*facts, num_warps=4, XBLOCK=64, **more)(f) for *facts, more, f in kernels]
    return loads, calls, *(each.on_device(0) for each in made)


def test_launcher_passes_what_the_driver_needs(monkeypatch):
    """On a GPU: the launcher that Triton made is called with grid, stream, pointers and sizes."""

    def kernel(in0, out0, s0, XBLOCK):
        pass

    facts = ("in0: *fp32, out0: *bf16, s0: i64", {"grid": "cdiv(s0, XBLOCK)"}, kernel)
    loads, calls, launch = launched(monkeypatch, (3, 9), facts)
    base = torch.empty(1000)
    base = base[(-base.data_ptr() % 16) // 4 :]
    launch(base, base, 128)
    pointer = base.data_ptr()
    tail = ("function", "metadata", None, None, None, pointer, pointer, 128)
    assert calls == [(0, (2, 1, 1, 77, *tail))]
    launch(base, base, 0)
    assert len(calls) == 1  # nothing to do: nothing launched
    launch(base[1:], base, 5)
    launch(base[1:], base, 5)
    assert [c[0] for c in calls] == [0, 5, 5]
    assert set(loads) == {(kind, "*i8", "*i8", "i32") for kind in (0, 5)}


@pytest.mark.parametrize("count", [1, 8, 9])
def test_kernels_share_launchers_where_triton_builds_them_of_c(count, monkeypatch):
    def kernel(*pointers, XBLOCK):
        pass

    facts = (", ".join(f"in{k}: *fp32" for k in range(count)), {"grid": "5"}, kernel)
    loads, calls, launch = launched(monkeypatch, (3, 6), facts)
    tensors = torch.empty(count, 64).unbind()
    launch(*tensors)
    full = 16 if count > 8 else 8
    assert set(loads) == {(0, *["*i8"] * full)}
    pointers = [t.data_ptr() for t in tensors] + [None] * (full - count)
    head = (5, 1, 1, 77, "function", 0, 0, None, None, "metadata", None, None, None)
    assert calls == [(0, (*head, *pointers))]


def test_what_the_first_kernel_waits_for_is_made_before_it_is_there(monkeypatch):
    """The launcher for pointers, and with it the driver: once for a device, and for no CPU."""
    made = []
    monkeypatch.setattr(triton_launch, "make_driver", lambda device: made.append("driver"))
    inductor.get_triton_ready.cache_clear()
    inductor.expect([torch.ones(2), 3])
    assert not inductor.get_triton_ready.cache_info().currsize
    loads, *_ = launched(monkeypatch, (3, 6))
    with FakeTensorMode():
        tensor = torch.empty(2, device="cuda:0")
    inductor.expect([3, tensor])
    assert inductor.get_triton_ready(tensor.device).result(60) is None
    inductor.get_triton_ready.cache_clear()
    assert made == ["driver"] and loads == [(0, *["*i8"] * 8)]


def test_the_kernel_that_does_nothing_compiles():
    target = pytest.importorskip("triton.backends.compiler").GPUTarget("cuda", 90, 32)
    (nothing,) = triton_launch.kernels(triton_launch.module(triton_launch.NOTHING))
    assert "nothing" in nothing.compile(target).asm["ptx"]
