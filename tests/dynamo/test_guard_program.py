"""The guard check in C answers as the Python that a report shows, for values that hold, differ, or cannot be read."""

import copy
import types

import pytest
import torch

import minicompile
from minicompile.dynamo import eval_frame


class Holder:
    def __init__(self):
        self.flag, self.scale, self.items, self.table = True, 2.0, [1, 2], {"a": 3}


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.BatchNorm1d(2))
        self.note = None

    def forward(self, x, holder, n, text="t", *rest, **options):
        x = self.layers(x) * holder.scale if holder.flag else x
        x = x + holder.items[0] + len(holder.items) + holder.table["a"] + n + len(text)
        if self.note is None and not hasattr(self, "missing") and "extra" not in options:
            x = x + sum(rest)
        return x


def inputs():
    torch.manual_seed(0)
    return Model(), torch.ones(3, 2), Holder(), 5, "t", (1,), {"bias": 1}


def replace(place, value):
    return lambda arguments: (*arguments[:place], value, *arguments[place + 1 :])


def after(act):
    def apply(arguments):
        act(*arguments)
        return arguments

    return apply


CHANGES = {
    "nothing": lambda arguments: arguments,
    "another tensor": replace(1, torch.zeros(3, 2)),
    "dtype": replace(1, torch.ones(3, 2, dtype=torch.float64)),
    "shape": replace(1, torch.ones(4, 2)),
    "stride": replace(1, torch.ones(2, 3).t()),
    "requires_grad": replace(1, torch.ones(3, 2, requires_grad=True)),
    "no tensor": replace(1, 3),
    "parameter": replace(1, torch.nn.Parameter(torch.ones(3, 2))),
    "int": replace(3, 6),
    "bool for int": replace(3, True),
    "float for int": replace(3, 5.0),
    "equal text": replace(4, "".join(["t"])),
    "text": replace(4, "tt"),
    "another object": lambda a: (a[0], a[1], copy.deepcopy(a[2]), *a[3:]),
    "another class": replace(2, types.SimpleNamespace(flag=True, scale=2.0, items=[1, 2], table={"a": 3})),
    "unreadable": replace(2, object()),
    "attribute gone": after(lambda m, x, h, *r: delattr(h, "scale")),
    "float attribute": after(lambda m, x, h, *r: setattr(h, "scale", 3.0)),
    "flag": after(lambda m, x, h, *r: setattr(h, "flag", False)),
    "list item": after(lambda m, x, h, *r: h.items.__setitem__(0, 7)),
    "list length": after(lambda m, x, h, *r: h.items.append(7)),
    "list empty": after(lambda m, x, h, *r: h.items.clear()),
    "dict value": after(lambda m, x, h, *r: h.table.__setitem__("a", 4)),
    "dict key gone": after(lambda m, x, h, *r: h.table.clear()),
    "module attribute": after(lambda m, *r: setattr(m, "note", 1)),
    "new attribute": after(lambda m, *r: setattr(m, "missing", 1)),
    "training": after(lambda m, *r: m.eval()),
    "inner training": after(lambda m, *r: m.layers[1].eval()),
    "hook": after(lambda m, *r: m.layers[0].register_forward_hook(lambda *a: None)),
    "own forward": after(lambda m, *r: setattr(m.layers[0], "forward", lambda x: x)),
    "another layer": after(lambda m, *r: m.layers.__setitem__(0, torch.nn.Linear(2, 2))),
    "another kind of layer": after(lambda m, *r: m.layers.__setitem__(0, torch.nn.Identity())),
    "weight frozen": after(lambda m, *r: m.layers[0].weight.requires_grad_(False)),
    "weight twice": after(lambda m, *r: setattr(m.layers[1], "weight", m.layers[1].bias)),
    "rest": replace(5, (2,)),
    "more rest": replace(5, (1, 2)),
    "option": replace(6, {"bias": 1, "extra": 2}),
}


@pytest.fixture(scope="module")
def checks():
    """The check in C, and the Python function of the same text."""
    minicompile.reset()
    model, x, holder, n, text, rest, options = inputs()
    minicompile.compile(model, backend="eager")(x, holder, n, text, *rest, **options)
    _, check = eval_frame.frame_states.get(Model.forward.__code__).compiled[-1]
    namespace = check.guards.writer.namespace
    exec(compile(check.guards.source_text, "<guards>", "exec"), namespace)
    return check, namespace["guard"]


@pytest.mark.parametrize("name", CHANGES)
def test_the_check_answers_as_its_python(checks, name):
    check, python = checks
    arguments = CHANGES[name](inputs())
    expected = python(Model.forward, *arguments)
    assert check(Model.forward, *arguments) is expected
    failure = check.guards.first_failure(Model.forward, arguments)
    assert (failure is None) is expected, failure
    assert expected is (name in ("nothing", "another tensor", "equal text", "another object", "another layer"))


def test_modes_and_errors(checks):
    check, python = checks
    with torch.no_grad():
        assert check(Model.forward, *inputs()) is python(Model.forward, *inputs()) is False
    with pytest.raises(TypeError, match="takes 8 arguments"):
        check(Model.forward)
