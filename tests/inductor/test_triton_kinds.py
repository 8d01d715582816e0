"""Kernels for symbolic sizes: which kinds of launch there are, and what each of them is compiled to."""

import re

import pytest
import torch
import torch.nn.functional as F
from torch.fx.experimental.proxy_tensor import make_fx

pytest.importorskip("triton")

from triton.backends.compiler import GPUTarget  # noqa: E402

from minicompile import inductor  # noqa: E402
from minicompile.aot.decompositions import decomposition_table  # noqa: E402
from minicompile.inductor.codegen import triton, triton_launch  # noqa: E402

H100 = GPUTarget("cuda", 90, 32)


def module_of(function, *inputs):
    """The text of a function's kernels whose sizes are all symbolic, as if its tensors were on a GPU."""
    graph = make_fx(function, decomposition_table=decomposition_table(), tracing_mode="symbolic")(*inputs)
    return inductor.codegen(inductor.schedule(triton.on_device(inductor.lower(graph, inputs))), "triton").kernels


def kernels_of(*program):
    """name -> kernel"""
    return {k.__name__: k for k in triton_launch.kernels(triton_launch.module(module_of(*program)))}


def ptx(kernel, kind):
    return kernel.compile(H100, kind=kind).asm["ptx"]


def test_sizes_that_are_multiples_of_sixteen_allow_wide_accesses():
    (kernel,) = kernels_of(lambda x: [x * 3 + 1], torch.empty(512, 2048)).values()
    assert kernel.likely == 0 and "ld.global.v4" in ptx(kernel, 0) and "st.global.v4" in ptx(kernel, 0)
    assert "v4" not in ptx(kernel, 4) and "v4" not in ptx(kernel, 1)
    (kernel,) = kernels_of(lambda x: [x * 3 + 1], torch.empty(511, 2047)).values()
    assert kernel.likely == 4


def test_indices_take_64_bits_only_where_sizes_need_them():
    (kernel,) = kernels_of(lambda x, y: [torch.cat((x, y), 1) + 1], *torch.empty(2, 64, 64)).values()
    assert "div.s64" not in ptx(kernel, 0) + ptx(kernel, 0).replace("rem", "div")
    assert any(word in ptx(kernel, 2) for word in ("div.s64", "rem.s64", "div.u64", "rem.u64"))


def test_indices_stay_below_the_largest_tensor():
    """Whose size is a parameter anyway."""
    (kernel,) = kernels_of(lambda x, row: [torch.relu(x + row) * row], torch.empty(64, 64), torch.empty(64)).values()
    assert kernel.reach == kernel.sizes[0] and kernel.grid == f"cdiv({kernel.reach}, XBLOCK)" and len(kernel.sizes) == 2


@pytest.mark.parametrize(
    ("sizes", "kind"),
    [
        ((64, 128), 0),
        ((64, 2), 8),
        ((3, 128), 4),
        ((5, 7), 12),
        ((1 << 31, 16), 2),
        ((-16, 1 << 31), 2),
        ((-16, -32), 0),
    ],
)
def test_the_kind_of_a_launch(sizes, kind):
    made = triton_launch.kernel("in0: *fp32, n0: i64, n1: i64", grid="n0", num_warps=4, reach="n1")(lambda *a: None)
    names = {"in0_": 1 << 20, "n0": sizes[0], "n1": sizes[1]}
    assert eval(made.kind_text(), names) == kind
    assert eval(made.kind_text(), {**names, "in0_": 4}) == kind + 1


def test_what_indices_stay_below_leaves_room_for_the_last_block():
    made = triton_launch.kernel("in0: *fp32, n0: i64", grid="n0", num_warps=4, reach="n0")(lambda *a: None)
    assert eval(made.kind_text(), {"in0_": 0, "n0": 2**31 - 2**20 - 16}) == 0
    assert eval(made.kind_text(), {"in0_": 0, "n0": 2**31 - 2**20}) == 2


def test_rows_of_any_length_are_held_where_they_fit_and_walked_where_not():
    program = (lambda x: [F.softmax(x, -1)], torch.empty(4096, 1000))
    short, long = kernels_of(*program).values()
    assert short.constants["RBLOCK"] == 1024 and long.rare and not short.rare
    text, calls = module_of(*program), []
    namespace = triton_launch.module(text)
    for name in (short.__name__, long.__name__):
        namespace[name] = lambda *arguments, name=name: calls.append(name.rsplit("_", 1)[1])
    number = int(re.search(r"if n(\d) <= 1024", text)[1])
    for length in (1000, 1024, 1025):
        namespace["run_0"](None, None, *(4096 if k != number else length for k in range(len(short.sizes))))
    assert calls == ["short", "short", "long"]


def test_long_columns_of_any_length_are_shared_by_programs():
    kernels = kernels_of(lambda x: [x.sum(0)], torch.empty(16384, 2048))
    assert [name.rsplit("_", 1)[1] for name in kernels] == ["parts", "join"]
