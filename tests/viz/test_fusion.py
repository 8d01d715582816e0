"""The pictures of chapter 10 say what the scheduler did: kernels, bytes, reasons; points of the roofline."""

import pytest
import torch

import minicompile
from minicompile.inductor import passes, scheduler
from minicompile.viz import draw_bytes, draw_fusion, draw_roofline, draw_why, measure_points
from minicompile.viz.fusion import Kernels, ideal_bytes
from minicompile.viz.roofline import Point, Roof, effort


def stages_of(fn, *args, **options):
    minicompile.reset()
    with torch.no_grad():
        first = minicompile.explain(fn, options=options)(*args).compilations[0]
    return first.artifacts("lower")[0], first.artifacts("schedule")[0]


def norm(x):
    return x * torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-6)


def product(x, weight):
    y = x.exp()
    return (y @ weight).relu() + y


@pytest.fixture
def x():
    return torch.randn(64, 64)


def test_kernels_before_and_after(x):
    picture = draw_fusion(*stages_of(norm, x))
    assert repr(picture).split("\n") == [
        "before: 6 kernels, 83,968 bytes moved by kernels",
        "  0. mul (buf0)",
        "  1. mean (buf1)",
        "  2. mean (buf2)",
        "  3. add (buf3)",
        "  4. rsqrt (buf4)",
        "  5. mul_1 (buf5)",
        "after: 1 kernel, 32,768 bytes moved by kernels",
        "  0. mul (buf0) + mean (buf1) + mean (buf2) + add (buf3) + rsqrt (buf4) + mul_1 (buf5)",
    ]
    assert picture.svg == draw_fusion(*stages_of(norm, x)).svg
    assert ">kernel<" in picture.svg and "16 KB" in picture.svg


def test_calls_stay_apart_and_are_no_kernels(x):
    graph, schedule = stages_of(product, x, x)
    lines = repr(draw_fusion(graph, schedule)).split("\n")
    assert lines[0].startswith("before: 3 kernels, 1 call, ")
    after = lines[lines.index(next(line for line in lines if line.startswith("after"))) :]
    assert after[0].startswith("after: 2 kernels, 1 call, ") and after[2] == "  1. mm (buf1)"


def test_what_was_dissolved_is_drawn_where_it_went(x):
    def twice(x):
        y = x + 1
        return y.sum(0), y.sum(1)

    graph, schedule = stages_of(twice, x)
    kernels = Kernels(scheduler.prepare(graph), [g.names for g in schedule.groups])
    assert kernels.places["buf0"] == [0, 1] and [kernels.members(k) for k in (0, 1)] == [
        ["buf0", "buf1"],
        ["buf0", "buf2"],
    ]


def test_argmax_becomes_two_reductions(x):
    graph, schedule = stages_of(lambda x: x.argmax(1), x)
    assert "argmax (buf0_best)" in repr(draw_fusion(graph, schedule))
    assert "argmax" in draw_why(graph, schedule).svg


def test_the_table_has_every_decision(x):
    graph, schedule = stages_of(product, x, x)
    picture = draw_why(graph, schedule)
    assert repr(picture) == schedule.why() and len(schedule.decisions) == 2
    assert picture.svg.count("✗") == sum(not d.fused for d in schedule.decisions) == 1
    assert "another kernel lies between them" in picture.svg


def test_bytes_and_the_least(x):
    graph, schedule = stages_of(norm, x)
    assert ideal_bytes(graph) == 2 * x.nbytes == schedule.bytes_after
    text = repr(draw_bytes({"norm": (graph, schedule)})).split("\n")
    assert [line.split()[-2] for line in text[1:]] == ["83,968", "32,768", "32,768"]
    assert schedule.bytes_before == passes.bytes_moved(scheduler.prepare(graph))


def test_effort_counts_what_the_kernels_do(x):
    _, schedule = stages_of(lambda x: (x * 2 + 1).exp(), x)
    assert effort(schedule) == (64 * 64 * (1 + 1 + 16), 2 * x.nbytes)
    _, schedule = stages_of(lambda x: (x * x).sum(1), x)
    assert effort(schedule)[0] == 64 * 64 * 2  # a product and an addition for each element


def test_points_and_roof(x):
    eager, no_fusion, fused = points = measure_points(norm, x)
    assert [p.name for p in points] == ["eager", "no fusion", "fused"]
    assert eager.bytes == no_fusion.bytes == 83968 and fused.bytes == 32768
    assert fused.intensity > no_fusion.intensity and all(p.seconds > 0 for p in points)
    roof = Roof(10e9, 100e9)
    assert [roof.at(k) for k in (1, 10, 50)] == [10e9, 100e9, 100e9]
    text = repr(draw_roofline(roof, {"norm": [Point("fused", 4e6, 2e6, 1e-3)]})).split("\n")
    assert text[0].endswith("both are busy at 10.0 operations a byte")
    assert "2.00 operations a byte,   4.00 G operations a second" in text[1]
