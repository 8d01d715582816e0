"""Source line <-> loop IR <-> generated line: every generated line says of which line of the function it is."""

import pytest
import torch

import minicompile
from minicompile.inductor.codegen import cpp_build
from minicompile.viz import LineMap, draw_lines, draw_scaling, measure_threads, measure_widths, report_text
from minicompile.viz.scaling import vector_report


def compilation_of(fn, *args, **options):
    minicompile.reset()
    with torch.no_grad():
        return minicompile.explain(fn, options=options)(*args).compilations[0]


def softmax(x, scale):
    x = x * scale
    shifted = x - x.amax(-1, keepdim=True)
    e = shifted.exp()
    return e / e.sum(-1, keepdim=True)


def product(x, weight):
    h = x * 2 + 1
    y = torch.relu(h @ weight)
    return y + h.mean(0)


def lines_with(lines, *parts):
    found = [numbers for numbers, text in lines.code if any(part in text for part in parts)]
    assert found, (parts, lines)
    return found


@pytest.fixture
def lines():
    return LineMap(softmax, compilation_of(softmax, torch.randn(512, 128), torch.ones(128)))


def test_the_ir_knows_its_lines(lines):
    assert [number for number, _ in lines.ir] == [2, 3, 3, 4, 5, 5] and lines.used == [2, 3, 4, 5]
    assert lines.ir[1][1] == "buf1 = max over r0: buf0[i0, r0]"


def test_what_was_dissolved_keeps_its_line(lines):
    assert lines_with(lines, " * ", " = in0[", " = in1[") == [[2]] * 6  # the product runs in two passes
    assert lines_with(lines, "m_maximum", "m_inf", " - (float)") == [[3]] * 3
    assert lines_with(lines, "m_exp", "row0[r0] = ") == [[4]] * 2


def test_accumulators_stores_and_loops(lines):
    assert lines_with(lines, " / ", "out0[r0", "= 0.0f;") == [[5]] * 3
    assert lines_with(lines, "for (", "#pragma", "return", "static int") and not any(
        lines_with(lines, "for (", "#pragma", "return", "static int")
    )


def test_several_kernels_columns_and_a_call():
    lines = LineMap(product, compilation_of(product, torch.randn(64, 64), torch.randn(64, 64)))
    assert [number for number, _ in lines.ir] == [2, 2, 3, 3, 4, 4, 4]
    assert sum("static int" in text for _, text in lines.code) == 2
    assert lines_with(lines, "float acc1[", "double total2[", "float value6[") == [[4]] * 3
    assert lines_with(lines, " ? float(0) : ") == [[3]] and lines_with(lines, "* 2.0f") == [[2]]


def test_one_expression_of_two_lines_has_both():
    def twice(x, y):
        a = x * 2 + y
        b = x * 2 - y
        return a, b

    lines = LineMap(twice, compilation_of(twice, torch.randn(8), torch.randn(8)))
    assert lines_with(lines, " + ") == [[2]] and lines_with(lines, "t2 - ", " - t") == [[3]]


def test_the_picture(lines):
    picture = draw_lines(lines)
    assert repr(picture) == repr(lines) and picture.svg == draw_lines(lines).svg
    assert "   4        const float t10 = m_exp(t9);" in repr(lines).split("\n")
    assert lines._repr_mimebundle_()["image/svg+xml"] == picture.svg


def test_the_report_of_the_vectoriser():
    source = compilation_of(softmax, torch.randn(512, 128), torch.ones(128)).artifacts("codegen")[0]
    compiler, version = cpp_build.find_compiler()
    if "g++" not in compiler or "clang" in version:
        assert report_text(source) == source.kernels.rstrip()
        return
    lines = source.kernels.split("\n")
    assert [lines[k - 1].strip()[:18] for k in sorted(vector_report(source))] == ["for (int64_t r0 = "] * 3
    assert report_text(source).count("floats at once") == 3


def test_scaling_runs_one_text_in_several_widths(monkeypatch):
    built = []
    load = cpp_build.load
    monkeypatch.setattr(
        cpp_build, "load", lambda text, counts, extra=(): built.append(extra) or load(text, counts, extra)
    )
    x = torch.randn(1 << 12)
    widths = measure_widths(lambda x: (x * 2).exp(), x)
    assert 1 in widths and all(seconds > 0 for seconds in widths.values())
    assert ("-fno-tree-vectorize", "-fno-tree-slp-vectorize") in built and len(built) >= 3
    threads = measure_threads(lambda x: (x * 2).exp(), x, most=2)
    assert list(threads) == [1, 2]
    picture = draw_scaling({"exp": {1: 8.0, 4: 2.0}}, {"exp": {1: 1.0, 2: 0.5}})
    assert repr(picture).split("\n") == [
        "exp: 1 floats at once 1.0x, 4 floats at once 4.0x",
        "exp: 1 threads 1.0x, 2 threads 2.0x",
    ]
