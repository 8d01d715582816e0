"""The aliasing table against eager: everything that a user can see of a call, in three grad modes, by two ways in."""

import pytest
import torch
from alias_observation import compare, observe
from alias_rows import ROWS
from aot_helpers import run_gm

import minicompile
from minicompile import aot, record

POKES = (None, None, 0, 1, 2)  # two calls, the second of compiled code; then the caller writes to an output

VIEW_OF_FUNCTION = "autograd does not know that the result is a view, so that writing to it is allowed"
MARKED_DIRTY = "eager counts what is marked as dirty as one more write"
# What is not as in eager, and why that is left so: (row, mode, poke) -> reason.  A row that agrees again fails here.
KNOWN = {
    ("functions: view with own gradient", "no_grad", 0): "only the words: it was made by a captured function",
    ("functions: view with own gradient", "inference", 0): "as under no_grad",
    **{
        (f"functions: {row} result with own gradient", mode, poke): VIEW_OF_FUNCTION
        for row in ("view of a", "same")
        for mode in ("grad", "no_grad")
        for poke in (None, 0)
    },
    **{
        (f"functions: {row}", mode, poke): MARKED_DIRTY
        for row in ("input marked dirty", "leaf marked dirty raises")
        for mode in ("no_grad", "inference")
        for poke in (None, 0, 1)
    },
    **{("functions: result marked dirty", "no_grad", poke): MARKED_DIRTY for poke in (None, 0)},
}


def directly(gm, examples):
    """aot.compile without capture's examples: at the first call, for the very tensors that it is called with."""
    compiled = []

    def run(*inputs):
        if not compiled:
            compiled.append(aot.compile(gm, inputs, forward_compiler=run_gm, decompositions={}))
        return compiled[0](*inputs)

    return run


def row(name, *marks):
    """Its parameter: programs that raise in the middle of a graph do so in compiled code too, and are then run anew."""
    in_the_middle = "raises" in name and ("expanded" in name or name.startswith("shared"))
    return pytest.param(name, marks=[*marks, *[pytest.mark.graph_errors] * in_the_middle])


SLOW_BUT_CORNERS = [row(n, *[pytest.mark.slow] * (not n.startswith("corners"))) for n in ROWS]


@pytest.mark.parametrize("mode", ["grad", "no_grad", pytest.param("inference", marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", [row(name) for name in ROWS])
def test_captured(name, mode):
    check(name, mode, "aot_eager")


@pytest.mark.parametrize("name", SLOW_BUT_CORNERS)
def test_directly(name):
    check(name, "grad", directly)


@pytest.mark.parametrize("name", SLOW_BUT_CORNERS)
def test_by_kernels(name):
    function, make = ROWS[name]
    compiled = minicompile.compile(function, backend="inductor")
    for _ in range(2):
        assert bool(compare(function, compiled, make, "grad")) == ((name, "grad", None) in KNOWN)


def check(name, mode, backend):
    function, make = ROWS[name]
    compiled = minicompile.compile(function, backend=backend)
    torch.manual_seed(0)
    outputs = observe(function, make(), mode)["plain outputs"].count("tensor")
    for poke in POKES:
        if poke is None or poke < outputs:
            found = compare(function, compiled, make, mode, poke)
            assert bool(found) == ((name, mode, poke) in KNOWN), (poke, found)


BREAKS = ("shared: a plain view gets a history",)  # then a graph takes a tensor whose base the graph before it wrote


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
@pytest.mark.parametrize("name", [n for n in ROWS if n.startswith("shared") and "raises" not in n and "eager" not in n])
def test_shared_memory_is_compiled(name, backend):
    """No call runs in eager; values by kernels too."""
    function, make = ROWS[name]
    compiled = minicompile.compile(function, backend=backend)
    assert not compare(function, compiled, make, "grad")
    assert not record.counters["alias_fallbacks"]
    assert bool(record.counters["alias_graphs"]) == (not record.counters["graph_breaks"]) == (name not in BREAKS)


MOVED = ("", " for a leaf", " in columns", " twice")


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
@pytest.mark.parametrize("name", [*(f"other memory{each}" for each in MOVED), "moving average by data"])
def test_other_memory_is_compiled(name, backend):
    function, make = ROWS[f"metadata: {name}"]
    compiled = minicompile.compile(function, backend=backend)
    assert not compare(function, compiled, make, "grad") and not compare(function, compiled, make, "grad")
    assert not record.counters["aot_rejected"] and not record.counters["graph_breaks"]


def test_the_table_is_large():
    assert len(ROWS) >= 80
