"""Who writes to what eager keeps for a backward gets eager's error, and who writes elsewhere the gradient of eager."""

import pytest
import torch
from written_rows import ROWS

import minicompile

SHAPES = {"a": (3, 3), "h": (3, 3), "H": (3, 3), "M": (3, 3)}
KNOWN = {  # what differs, and why
    "wanted_computed_again": "it raises: what eager saves is computed again from what was written"
}


def tensors(names):
    made = {"m": torch.tensor([True, False, True]), "i": torch.tensor([2, 1, 0])}
    for name in names:
        x = torch.rand(SHAPES.get(name, (3,)), generator=torch.Generator().manual_seed(ord(name))) + 0.1
        made.setdefault(name, x.requires_grad_() * 1 if name == "h" else x.requires_grad_(name.isupper()))
    if "v" in names and "a" in names:
        made |= {"v": made["a"][1], "d": made["a"].data[2]}
    return {name: made[name] for name in names}


def observe(function, names, write, ask):
    """(what the backward raises: the versions that it complains of, the gradients of all leaves, all versions)"""
    torch.manual_seed(0)
    given, complaint = tensors(names), None
    try:
        out = function(*given.values())
        write(out, given)
        ask(out, given)
    except RuntimeError as error:
        text, _, complaint = str(error).partition(" is at version ")
        assert "modified by an inplace operation" in text
    gradients = [None if complaint or not t.is_leaf else t.grad for t in given.values()]
    return complaint, gradients, [t._version for t in given.values()]


@pytest.mark.parametrize("name, function, names, write, ask", ROWS, ids=[row[0] for row in ROWS])
@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_as_in_eager(name, function, names, write, ask, backend):
    complaint, gradients, versions = observe(function, names, write, ask)
    compiled = minicompile.compile(function, backend=backend)
    for _ in range(2):
        actual = observe(compiled, names, write, ask)
        assert ((complaint, versions) == (actual[0], actual[2])) == (name not in KNOWN), actual
        if name not in KNOWN:
            torch.testing.assert_close(actual[1], gradients)


def test_between_two_pieces():
    """A graph break, and behind it a write to what the first piece has saved."""

    def fn(x, w):
        y = x * w
        minicompile.graph_break()
        with torch.no_grad():
            x.add_(1)
        return y.sum()

    for function in (fn, minicompile.compile(fn, backend="aot_eager")):
        with pytest.raises(RuntimeError, match="is at version 1; expected version 0"):
            function(torch.ones(3), torch.ones(3, requires_grad=True)).backward()


def test_what_is_watched_is_not_kept_alive():
    import weakref

    x, w = torch.ones(3, 3), torch.ones(3, requires_grad=True)
    out = minicompile.compile(lambda x, w: (x > w).float() * w + x.exp(), backend="aot_eager")(x, w)
    memory = weakref.ref(x)
    del x
    assert memory() is None
    out.sum().backward()
