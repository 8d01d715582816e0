"""Every kernel of a few small models, forward and backward, compiled for real GPUs without having one."""

import os

import pytest
import torch
import torch.nn.functional as F

pytest.importorskip("triton")

from patterns import aten_graph  # noqa: E402

from minicompile import inductor  # noqa: E402
from minicompile.inductor.codegen import triton  # noqa: E402

pytestmark = pytest.mark.skipif(os.environ.get("TRITON_INTERPRET") == "1", reason="the interpreter compiles nothing")


class Perceptron(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.words = torch.nn.Embedding(50, 32)
        self.norm, self.up, self.down = torch.nn.LayerNorm(32), torch.nn.Linear(32, 64), torch.nn.Linear(64, 50)

    def forward(self, tokens):
        return self.down(F.gelu(self.up(self.norm(self.words(tokens))))).flatten(0, 1)


class Convolutions(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.norm, self.head = torch.nn.Conv2d(3, 8, 3), torch.nn.GroupNorm(2, 8), torch.nn.Linear(8, 50)

    def forward(self, images):
        return self.head(F.silu(self.norm(self.conv(images))).mean((2, 3)))


MODELS = {
    "perceptron": (Perceptron, lambda: torch.zeros(4, 6, dtype=torch.int64), 24, torch.float32),
    "perceptron_bf16": (Perceptron, lambda: torch.zeros(4, 6, dtype=torch.int64), 24, torch.bfloat16),
    "convolutions": (Convolutions, lambda: torch.zeros(4, 3, 12, 12), 4, torch.float32),
}


def cuda_source(graph, inputs):
    """The Triton source of an ATen graph, as if its tensors were on a GPU."""
    return inductor.codegen(inductor.schedule(triton.on_device(inductor.lower(graph, inputs))), "triton")


def training_source(model, make_input, count, dtype):
    """Loss and gradients of a model."""
    model = model().to(dtype)
    names, parameters = zip(*model.named_parameters(), strict=True)

    def step(x, target, *parameters):
        output = torch.func.functional_call(model, dict(zip(names, parameters, strict=True)), (x,))
        loss = F.cross_entropy(output.float(), target)
        return [loss, *torch.autograd.grad(loss, parameters)]

    inputs = (make_input(), torch.zeros(count, dtype=torch.int64), *parameters)
    return cuda_source(aten_graph(step, *inputs), inputs)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("capability", [80, 90])
def test_kernels_compile(name, capability):
    kernels = triton.compile_for(training_source(*MODELS[name]), capability)
    assert len(kernels) >= 3
    for compiled in kernels.values():
        assert f".target sm_{capability}" in compiled.asm["ptx"] and compiled.asm["cubin"][:4] == b"\x7fELF"
        assert not compiled.metadata.enable_fp_fusion


def test_long_rows_and_shared_reductions_compile():
    x = torch.empty(64, 50257)
    graph = aten_graph(lambda x: [F.softmax(x, -1), x.sum(), F.softmax(x, 0), x.cumsum(1)], x)
    kernels = triton.compile_for(cuda_source(graph, (x,)))
    assert {"parts", "join"} <= {name.rsplit("_", 1)[1] for name in kernels}


def test_more_than_two_to_the_31_elements():
    x = torch.empty(3 << 30, dtype=torch.int8, device="meta")
    source = cuda_source(aten_graph(lambda x: [x + 1, x.amax(), x.view(3, -1).sum(0, dtype=torch.int8)], x), (x,))
    for name, compiled in triton.compile_for(source).items():
        wide = "to(tl.int64)" in source.kernels.split(f"def {name}(")[1].split("\n\n")[0]
        assert wide or name.endswith("_join")
        assert compiled.asm["cubin"]


def test_contiguous_accesses_are_sixteen_bytes_wide_and_multiplications_stay_apart():
    x, y = torch.empty(1 << 20), torch.empty(1 << 20, dtype=torch.bfloat16)
    source = cuda_source(aten_graph(lambda x, y: [x * 3 + 1, y * 2], x, y), (x, y))
    for compiled in triton.compile_for(source).values():
        ptx = compiled.asm["ptx"]
        assert "ld.global.v4" in ptx and "st.global.v4" in ptx
        assert "fma.rn" not in ptx
