"""minicompile.step: what the film shows is what capture did, and its slider works in a browser."""

import html
import json
import re
import shutil
import subprocess

import pytest
import torch

import minicompile
from minicompile.viz.film_strip import Recorder


def scale(t, k):
    if k > 1:
        return t * k
    return t


def blend(x, n):
    y = x + 1
    return torch.relu(scale(y, n))


def broken(x):
    y = x * 2
    print("between")
    return y + 1


def uses_cell(x):
    count = 0

    def bump():
        nonlocal count
        count += 1
        return x + count

    return bump()


def raises_and_catches(x, table):
    try:
        return x + table["missing"]
    except KeyError:
        return x - 1


def find(strip, text, nth=0):
    return [step for step in strip if step.text == text][nth]


def test_each_step_has_stack_locals_and_the_graph_as_it_grew():
    strip = minicompile.step(blend, torch.ones(3), 2)
    assert torch.equal(strip.result, blend(torch.ones(3), 2))
    assert strip[0].locals == {"x": ("lazy", "lazy x"), "n": ("lazy", "lazy n")}
    assert find(strip, "LOAD_CONST 1").stack == [("lazy", "lazy x"), ("constant", "1")]
    assert find(strip, "BINARY_OP +").stack == [("tensor", "add: float32[3]")]
    (frame,) = strip.frames
    grown = [(text, frame.steps[born].text) for text, born in frame.nodes]
    assert grown == [
        ("input x: float32[3]", "BINARY_OP +"),
        ("add = add(x, 1): float32[3]", "BINARY_OP +"),
        ("mul = mul(add, 2): float32[3]", "BINARY_OP *"),
        ("relu = relu(mul): float32[3]", "CALL 1"),
    ]
    assert strip[-1].text == "RETURN_VALUE" and strip[-1].note == "the frame returns: the graph is complete"


def test_an_inlined_call_is_walked_through_one_level_deeper():
    strip = minicompile.step(blend, torch.ones(3), 2)
    call = find(strip, "CALL 2")
    inside = [step for step in strip if step.depth == 1]
    assert call.depth == 0 and call.shown is scale.__code__ and call.locals["t"] == ("tensor", "add: float32[3]")
    assert [step.opname for step in inside][:4] == ["RESUME", "LOAD_FAST", "LOAD_CONST", "COMPARE_OP"]
    assert inside[0].locals["k"] == ("lazy", "lazy n"), "nobody has looked at it yet"
    assert find(strip, "COMPARE_OP >").locals["k"] == ("constant", "2"), "the comparison looked"
    assert inside[-1].opname == "RETURN_VALUE" and inside[-1].shown is blend.__code__
    assert inside[-1].stack[-1] == ("tensor", "mul: float32[3]")


def test_a_break_ends_the_first_part_and_the_resume_function_follows(capsys):
    strip = minicompile.step(broken, torch.ones(3))
    assert capsys.readouterr().out == "between\n"
    first, second = strip.frames
    assert first.steps[-1].text == "LOAD_CONST 'between'"
    assert "graph break before CALL" in first.steps[-1].note
    assert [text for text, _ in first.nodes][-1].startswith("mul = mul(x, 2)")
    assert second.title == "resume function of broken"
    assert [text for text, _ in second.nodes][-1].startswith("add = add(y, 1)")
    assert len([step for step in strip if step.text == "BINARY_OP *"]) == 1, "the attempt before the restart is gone"
    text = repr(strip)
    assert text.count("graph break before CALL") == 1 and "resume function of broken: " in text
    assert text.endswith("the frame returns: the graph is complete")


def test_a_film_of_modules(recwarn):
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU(), torch.nn.MultiheadAttention(4, 2))
    x = torch.randn(3, 4)
    strip = minicompile.step(lambda x: model[2](*[model[:2](x)] * 3), x)
    assert torch.equal(strip.result[0], model[2](*[model[:2](x)] * 3)[0])
    assert max(step.depth for step in strip) >= 2
    assert not [warning for warning in recwarn if "internal error" in str(warning.message)]


def test_cells_and_caught_exceptions_are_shown():
    strip = minicompile.step(uses_cell, torch.ones(3))
    assert find(strip, "STORE_DEREF count", 1).locals["count (cell)"] == ("constant", "1")
    strip = minicompile.step(raises_and_catches, torch.ones(3), {})
    failing = strip.steps.index(find(strip, "BINARY_SUBSCR"))
    assert strip[failing].stack[-1][1] == "new KeyError", "the exception lies on the stack of the handler"
    assert strip[-1].opname == "RETURN_VALUE"


def test_what_is_not_captured_says_so():
    with pytest.raises(ValueError, match="nothing to film"):
        minicompile.step(lambda: 1)
    with pytest.raises(ZeroDivisionError):
        minicompile.step(lambda x: x + 1 // 0, torch.ones(3))


def test_nothing_is_watched_otherwise(monkeypatch):
    monkeypatch.setattr(Recorder, "__call__", lambda *_: pytest.fail("nobody asked for a film"))
    compiled = minicompile.compile(blend, backend="eager")
    assert torch.equal(compiled(torch.ones(3), 2), blend(torch.ones(3), 2))


def test_text_form():
    text = repr(minicompile.step(blend, torch.ones(3), 2))
    assert text.startswith("blend: ")
    assert re.search(r"CALL 2 *\n.*    RESUME 0 .*\{t = add: float32\[3\], k = lazy n\}", text)
    assert "+ mul = mul(add, 2): float32[3]" in text


def film_of(markup):
    return json.loads(html.unescape(re.search(r'data-film="([^"]*)"', markup).group(1)))


def test_html_is_self_contained_without_ids_and_keeps_the_text_form():
    strip = minicompile.step(blend, torch.ones(3), 2)
    markup = strip._repr_html_()
    film = film_of(markup)
    assert len(film["steps"]) == len(strip)
    assert not re.search(r'\bid="|src=|href=|https?:', markup)
    assert film["steps"][film["start"]]["text"] == "BINARY_OP +", "it opens where the graph has its first operation"
    assert html.escape(repr(strip)) in markup
    step = next(s for s in film["steps"] if s["text"] == "COMPARE_OP >")
    code = film["codes"][step["code"]]
    assert code["name"] == "scale" and code["source"][step["line"] - code["first"]].strip() == "if k > 1:"
    assert "COMPARE_OP" in code["listing"][step["index"]]
    assert [film["values"][k] for k in step["stack"]] == [["constant", "True"]]


MOVE = """<script>
var strips = document.querySelectorAll(".mc-strip"), seen = [];
function say(k) { seen.push(strips[k].querySelector(".mc-where b").textContent); }
function move(k, step) {
  var slider = strips[k].querySelector("input");
  slider.value = step; slider.dispatchEvent(new Event("input"));
}
say(0); say(1); move(0, 3); say(0); say(1);
strips[1].querySelectorAll("button")[3].click(); say(1); say(0);
strips[0].querySelectorAll("button")[2].click(); say(0);
seen.push(strips[0].querySelectorAll(".mc-graph > div").length);
document.title = JSON.stringify(seen);
</script>"""


@pytest.mark.skipif(not shutil.which("chromium"), reason="no chromium")
def test_the_slider_moves_in_a_browser_and_two_strips_do_not_clash(tmp_path, capsys):
    first, second = minicompile.step(blend, torch.ones(3), 2), minicompile.step(broken, torch.ones(3))
    page = tmp_path / "page.html"
    page.write_text(f"<html><body>{first._repr_html_()}{second._repr_html_()}{MOVE}</body></html>")
    command = ["chromium", "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path}", "--dump-dom"]
    dom = subprocess.run([*command, page.as_uri()], capture_output=True, text=True, timeout=120, check=True).stdout
    seen = json.loads(html.unescape(re.search(r"<title>(.*)</title>", dom).group(1)))
    label = lambda strip, k: f"step {k + 1} of {len(strip)}:  {strip[k].text}"
    starts = [strip.steps.index(find(strip, text)) for strip, text in ((first, "BINARY_OP +"), (second, "BINARY_OP *"))]
    assert seen == [
        label(first, starts[0]),
        label(second, starts[1]),
        label(first, 3),
        label(second, starts[1]),
        label(second, len(second) - 1),
        label(first, 3),
        label(first, 4),
        2,
    ]
