"""The picture of graph breaks: lines, graphs and resume functions of real captures."""

import inspect

import torch

import minicompile
from minicompile import viz


def branching(x):
    y = x * 2
    if y.sum() > 10:
        y = y / y.sum()
    return y + 1


def looping(x):
    for k in range(3):
        x = x * 2
        print(end="")
    return x + k


def test_both_ways_of_a_branch():
    first = inspect.getsourcelines(branching)[1]
    captures = [minicompile.capture(branching, torch.full((3,), value)) for value in (-1.0, 9.0)]
    picture = viz.draw_breaks(branching, *captures, title="two ways")
    assert picture.text.splitlines() == [
        "1: branching",
        "    graph: mul, sum, gt",
        "    eager: if y.sum() > 10:",
        "    data-dependent branch",
        f"    -> resume at line {first + 3}",
        f"    -> resume at line {first + 4}",
        f"2: resume at line {first + 4}",
        "    graph: add",
        "    return",
        f"3: resume at line {first + 3}",
        "    graph: sum, truediv, add",
        "    return",
    ]
    assert picture.alt == "3 frames of branching, 3 graphs"
    assert "<svg" not in picture.text and picture.svg.count("<title>") >= 1


def test_a_way_that_no_call_went_is_shown_as_such():
    picture = viz.draw_breaks(branching, minicompile.capture(branching, torch.full((3,), -1.0)))
    assert "    not captured yet" in picture.text.splitlines()


def test_a_loop_points_back():
    picture = viz.draw_breaks(looping, minicompile.capture(looping, torch.ones(2)))
    first = inspect.getsourcelines(looping)[1]
    text = picture.text
    assert "captured 2 times; the last:" in text and text.count(f"-> resume at line {first + 1}") == 4
    assert f"resume at line {first + 1} (2)" in text, "two frames go on at this line"


def test_before_and_after():
    picture = viz.draw_before_after([("print", 2e-6, 1e-6), ("item", 3e-6, 1e-6)])
    assert [line.split() for line in picture.text.splitlines()[1:]] == [["print", "2.0", "1.0"], ["item", "3.0", "1.0"]]


def halved(x):
    y = x * 2
    print(end="")
    return y + 1


def caller(x):
    return halved(x) * 3


def test_a_break_in_a_callee_leads_to_the_rest_of_both():
    picture = viz.draw_breaks(caller, minicompile.capture(caller, torch.ones(2)))
    first, second = repr(picture).split("2: ")
    assert "graph: mul" in first and "eager: return halved(x) * 3" in first and "-> resume at line" in first
    assert "graph: add, mul" in second and "not captured" not in second
