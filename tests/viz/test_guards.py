"""The pictures of guards: paths as a tree, the first failure marked, calls against entries, sizes against entries."""

import torch

import minicompile
from minicompile import viz
from minicompile.dynamo import _eval_frame


class Head(torch.nn.Module):
    def __init__(self, scale):
        super().__init__()
        self.scale = scale

    def forward(self, x):
        return x * self.scale


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = Head(2.0), Head(3.0)

    def forward(self, x):
        return self.first(x) + self.second(x)


def tree_of(change=lambda model: None, x=None):
    model, example = Model(), torch.ones(2)
    minicompile.reset()
    minicompile.compile(model, backend="eager")(example)
    ((check, _),) = _eval_frame.entries(Model.forward.__code__)
    change(model)
    return viz.GuardTree(check.guards, (Model.forward, model, example if x is None else x))


def test_facts_stand_under_the_value_that_they_are_about():
    lines = repr(tree_of()).splitlines()
    start = lines.index("self: type(·) is Model")
    assert lines[start + 1] == "  ._modules"
    assert lines[start + 2].startswith("    .first: type(·) is Head; ")
    assert lines[start + 3] == "      .scale: · == 2.0"
    assert lines[start + 5] == "      .scale: · == 3.0"
    assert "FAILS" not in repr(tree_of())


def test_the_first_failure_is_marked_and_told():
    tree = tree_of(lambda model: setattr(model.second, "scale", 4.0))
    assert "      .scale: · == 3.0 <- FAILS FIRST" in repr(tree).splitlines()
    assert "everything else: holds" in repr(tree).splitlines()
    assert "Model: " not in repr(tree)
    assert (tree.failure.old, tree.failure.new) == (3.0, 4.0)
    assert "was 3.0, is 4.0" in viz.draw_guards(tree).svg
    tree = tree_of(lambda model: setattr(model.second, "scale", 4.0), torch.ones(3))
    assert sum("FAILS FIRST" in line for line in repr(tree).splitlines()) == 1
    assert "<- FAILS" in repr(tree).replace("<- FAILS FIRST", "")


def test_modes_of_the_thread_come_first():
    with torch.no_grad():
        guards = tree_of().guards
    tree = viz.GuardTree(guards, (Model.forward, Model(), torch.ones(2)))
    assert repr(tree).splitlines()[0] == "modes of the thread: as they were <- FAILS FIRST"


def multiply(x, k):
    return x * k


def test_entries_in_the_order_in_which_they_are_asked():
    x, wide = torch.ones(2), torch.ones(2, dtype=torch.float64)
    minicompile.reset()
    history = viz.record_recompiles(multiply, (x, True), (wide, True), (x, True), (x, True))
    assert repr(history).splitlines() == [
        "1. float32 [2], True: compiled 1",
        "2. float64 [2], True: refused 1, compiled 2",
        "3. float32 [2], True: refused 2, used 1",
        "4. float32 [2], True: used 1",
        "entry 1: first call",
        "entry 2: x.dtype: was torch.float32, is torch.float64",
    ]
    assert viz.draw_recompiles(history).svg.startswith("<svg")


def test_calls_behind_the_limit_run_in_eager():
    minicompile.reset()
    with minicompile.config.patch(recompile_limit=2):
        calls = [(torch.ones(n),) for n in (2, 3, 4, 5)]
        history = viz.record_recompiles(lambda x: x + 1, *calls, dynamic=False)
    assert [call.compiles for call in history.calls] == [1, 1, 0, 0]
    refused = "refused 2, refused 1, eager"
    assert repr(history).splitlines()[2:4] == [f"3. float32 [4]: {refused}", f"4. float32 [5]: {refused}"]
    assert "eager from call 3 on" in viz.draw_sizes([2, 3, 4, 5], {"static": history}).text


def split(x):
    return x + 1 if x.shape[0] > 5 else x - 1


def test_the_sizes_that_an_entry_takes():
    minicompile.reset()
    make = lambda n: (torch.ones(n),)
    history = viz.record_recompiles(split, *map(make, (4, 7, 3, 1)))
    coverage = viz.Coverage(history, split, make, range(10))
    assert repr(coverage).splitlines() == [
        "entry 1: 4",
        "    x.shape == (4,)",
        "entry 2: 6 to 9",
        "    x.shape[0] > 1",
        "    x.shape[0] > 5",
        "entry 3: 2 to 5",
        "    x.shape[0] > 1",
        "    x.shape[0] <= 5",
        "entry 4: 1",
        "    x.shape == (1,)",
    ]
    assert "4 entries" in viz.draw_coverage(coverage).svg
