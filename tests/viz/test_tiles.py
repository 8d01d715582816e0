"""The pictures of chapters 12 and 13: what each program of a kernel touched, and figures recorded on a GPU."""

import pathlib

import pytest
import torch

tl = pytest.importorskip("triton.language")

from minicompile import config  # noqa: E402
from minicompile.compiler import compile  # noqa: E402
from minicompile.inductor.codegen import triton_interpret  # noqa: E402
from minicompile.viz import draw_tiles, record_launches  # noqa: E402
from minicompile.viz import recorded as recordings  # noqa: E402

RECORDED = pathlib.Path(__file__).parents[2] / "notebooks" / "recorded"


def launch(kernel, programs, *args, **constants):
    with record_launches() as launches:
        triton_interpret.run(triton_interpret.interpreted(kernel), (programs,), args, constants)
    return launches[0]


def double(x, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, 2 * tl.load(x + i, i < n), i < n)


def turned(x, out, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + 64 * (i % 64) + i // 64))


def test_every_access_is_recorded_with_its_program_and_mask():
    x, out = torch.arange(10.0), torch.zeros(10)
    found = launch(double, 3, x, out, 10, BLOCK=4)
    assert torch.equal(out, 2 * x)
    assert [a.places[a.used].tolist() for a in found.of("x")] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
    assert [(a.program, a.stored) for a in found.of("out")] == [(0, True), (1, True), (2, True)]
    assert "program 2: elements 8 to 9, 2 of 4 lanes masked" in repr(found)
    picture = draw_tiles(found)
    assert picture.text == repr(found) and "3 programs" in picture.alt and picture.svg.count("masked-lanes") > 1


def test_an_access_outside_of_every_tensor_is_not_made():
    memory = torch.zeros(16)
    with pytest.raises(IndexError, match="program 2 writes element 10 of out, which has 10"):
        launch(double, 3, torch.ones(12), memory[:10], 12, BLOCK=4)
    assert not memory[10:].any()


def test_a_warp_fetches_whole_sectors():
    x, out = torch.randn(64, 64), torch.empty(64, 64)
    found = launch(turned, 32, x, out, BLOCK=128)
    traffic = found.traffic()
    assert torch.equal(out, x.t())
    assert traffic == {"x": (16384, 8 * 16384), "out": (16384, 16384)}
    assert found.only(3).traffic()["out"] == (512, 512) and "program 3" in repr(found.only(3))


def test_what_is_replaced_is_put_back():
    before = triton_interpret.run
    with pytest.raises(ZeroDivisionError), record_launches():
        1 / 0  # noqa: B018
    assert triton_interpret.run is before


def test_generated_kernels_leave_their_launches():
    x = torch.randn(5, 7)
    with config.patch(cpu_backend="triton"), torch.no_grad(), record_launches() as launches:
        compiled = compile(lambda x: torch.softmax(x, 1).sum())
        compiled(x)
    touched = {place for access in launches[0].of("in0") for place in access.places[access.used].tolist()}
    assert touched == set(range(35))


def test_recorded_figures():
    micro = recordings.load_recorded(RECORDED / "micro_h200.json")
    found = recordings.shares(micro)
    assert len(found) > 30 and all(0 < ours < 1.2 for ours, _ in found.values())
    picture = recordings.draw_bandwidth(micro)
    assert picture.text.startswith("NVIDIA H200, torch 2.") and "gelu" in picture.text
    fresh = recordings.measure_bandwidth(["gelu"], device="cpu", size="small")
    fresh["rows"][0]["share"] = 0.5  # there is one where the copy takes longer than the arithmetic, which depends
    assert recordings.shares(fresh)["gelu"] == (0.5, None) and recordings.draw_bandwidth(fresh).text


def test_recorded_race_launches_and_modes():
    race, launches, modes = (
        recordings.load_recorded(RECORDED / f"{name}_h200.json")
        for name in ("block_size_race", "launch_timeline", "reduce_overhead")
    )
    assert "the rules take 1024 and 4 warps" in recordings.draw_race(race).text
    found = {recordings.kind_of(kernel)[0] for way in launches["ways"].values() for _, _, kernel in way["kernels"]}
    assert found == {"generated", "copy", "eager's elementwise", "eager's layer norm", "matrix product"}
    assert "CUDA graph: 1 launch, 25 kernels" in recordings.draw_launches(launches).text
    assert len(recordings.draw_modes(modes).text.split("\n")) == 1 + len(modes["rows"])
