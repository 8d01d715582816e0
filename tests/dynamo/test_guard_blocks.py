"""Steps of a guard program that are skipped while a class, an object's keys or a tuple stand as they were.

Whatever was asked before, the check answers as the Python that a report shows.
"""

import copy
import gc
import pickle
import random
import weakref

import pytest
import torch

import minicompile
from minicompile.dynamo.guard_checks import ambient_state
from minicompile.dynamo.guards import GuardSet
from minicompile.dynamo.source import AttrSource, ConstantSource, ItemSource, LocalSource
from minicompile.testing import CompileCounter

X = LocalSource("x")
X_CODE = (lambda x: x).__code__


def both(*guards):
    """The check of the one argument `x`, which asks its Python too; both must agree."""
    guard_set = GuardSet(ambient_state())
    for guard in guards:
        guard_set.add(*guard)
    function = guard_set.build(X_CODE)
    namespace = function.writer.namespace
    exec(compile(function.source_text, "<guards>", "exec"), namespace)

    def check(x=None):
        answer = function.check(None, x)
        assert answer is namespace["guard"](None, x), function.first_failure(None, (x,))
        return answer

    return check


def method(self):
    return 1


class Meta(type):
    pass


def family(meta=type):
    """(a class, its base, a class that may become its base, facts about the class)"""
    root = meta("Root", (), {})
    base = meta("Base", (root,), {"inherited": 3, "__call__": method})
    other = meta("Other", (root,), {"inherited": 4, "__call__": method})
    cls = meta("Class", (base,), {"own": "text", "method": method})
    where = ConstantSource(cls, "Class")
    facts = [
        *(("equals", AttrSource(where, name), value) for name, value in (("own", "text"), ("inherited", 3))),
        *(("is", AttrSource(where, name), method) for name in ("method", "__call__")),
        *(("class_lacks", where, name) for name in ("absent", "missing")),
    ]
    return cls, base, other, facts


CHANGES = {
    "attribute changed": (lambda cls, base, other: setattr(cls, "own", "texts"), False),
    "attribute deleted": (lambda cls, base, other: delattr(cls, "own"), False),
    "attribute hidden": (lambda cls, base, other: setattr(cls, "inherited", 5), False),
    "attribute added": (lambda cls, base, other: setattr(cls, "absent", None), False),
    "method replaced": (lambda cls, base, other: setattr(cls, "method", lambda self: 2), False),
    "special method replaced": (lambda cls, base, other: setattr(cls, "__call__", lambda self: 2), False),
    "base's attribute changed": (lambda cls, base, other: setattr(base, "inherited", 5), False),
    "base's attribute deleted": (lambda cls, base, other: delattr(base, "inherited"), False),
    "base's attribute added": (lambda cls, base, other: setattr(base, "missing", 1), False),
    "root's attribute added": (lambda cls, base, other: setattr(base.__base__, "missing", 1), False),
    "another base": (lambda cls, base, other: setattr(cls, "__bases__", (other,)), False),
    "a property": (lambda cls, base, other: setattr(cls, "own", property(lambda self: "text")), False),
    "another attribute": (lambda cls, base, other: setattr(cls, "unasked", 1), True),
    "the same value again": (lambda cls, base, other: setattr(cls, "inherited", 3), True),
    "its name": (lambda cls, base, other: setattr(cls, "__name__", "Renamed"), True),
}


@pytest.mark.parametrize("meta", [type, Meta])
@pytest.mark.parametrize("name", CHANGES)
def test_a_changed_class(meta, name):
    change, holds = CHANGES[name]
    cls, base, other, facts = family(meta)
    check = both(*facts)
    assert [check() for _ in range(3)] == [True] * 3
    change(cls, base, other)
    assert [check() for _ in range(3)] == [holds] * 3


def test_a_changed_metaclass():
    meta = type("Meta", (type,), {})
    cls, *_, facts = family(meta)
    check = both(*facts)
    assert check() and check()
    meta.absent = 1
    assert not check() and not check()
    del meta.absent
    assert check() and check()
    meta.own = property(lambda cls: "other")
    assert not check()
    del meta.own
    cls.__class__ = type("Else", (type,), {"missing": 1})
    assert not check()


def test_a_value_of_a_class_becomes_a_descriptor():
    plain = type("Plain", (), {})
    value = plain()
    cls, *_, facts = family()
    cls.value = value
    check = both(*facts, ("is", AttrSource(ConstantSource(cls, "Class"), "value"), value))
    assert check() and check()
    plain.__get__ = lambda self, instance, owner: 5
    assert not check()


def test_a_class_may_answer_by_code():
    """What a descriptor says changes without a change of the class."""
    said = ["text"]
    cls, *_, facts = family()
    cls.own = type("Says", (), {"__get__": lambda self, instance, owner: said[0]})()
    check = both(*facts)
    assert check() and check()
    said[0] = "other"
    assert not check()


def test_random_changes_of_classes():
    rng = random.Random(0)
    cls, base, other, facts = family()
    checks = [both(*facts), both(*facts[:3]), both(*facts[2:]), both(facts[0]), both(facts[-1])]
    names = ["own", "inherited", "method", "__call__", "absent", "missing", "unasked"]
    values = {"own": "text", "inherited": 3, "method": method, "__call__": method}
    for _ in range(3000):
        owner, name = rng.choice([cls, cls, base, base.__base__, other]), rng.choice(names)
        if rng.random() < 0.1:
            cls.__bases__ = (rng.choice([base, other]),)
        elif rng.random() < 0.5 and name in vars(owner):
            delattr(owner, name)
        else:
            setattr(owner, name, rng.choice([values.get(name, 1), values.get(name, 1), 7]))
        if rng.random() < 0.1:
            for each in names:
                for place in (cls, base, base.__base__):
                    if each in vars(place):
                        delattr(place, each)
            cls.own, base.inherited, cls.method, base.__call__, cls.__bases__ = "text", 3, method, method, (base,)
        for check in checks:
            check()


# --- keys -----------------------------------------------------------------------------------------------
NAMES = [f"name{k}" for k in range(6)]
LACKS = [("lacks_attribute", X, name) for name in NAMES[:3]]


class Layer(torch.nn.Module):
    pass


class Table(dict):
    """Has a dict of its own behind its items."""


def with_many_attributes():
    layer = Layer()
    for k in range(40):
        setattr(layer, f"other{k}", k)
    return layer


def test_a_name_that_other_instances_have():
    cls = type("Class", (), {})
    first, second = cls(), cls()
    check = both(*LACKS)
    assert check(first) and check(second) and check(first)
    second.name0 = 1
    assert not check(second) and check(first) and check(first)
    first.name1 = 1
    assert not check(first)
    del first.name1, second.name0
    assert check(first) and check(second)
    first.name1 = 1
    assert not check(first) and check(second)


def test_a_dict_that_is_replaced_or_shared():
    first, second = Layer(), Layer()
    check = both(*LACKS)
    assert check(first) and check(first)
    second.name0 = 1
    first.__dict__ = second.__dict__
    assert not check(first)
    first.__dict__ = {"name4": 1}
    assert check(first) and check(first)
    first.__dict__["name2"] = 1
    assert not check(first)
    first.__dict__ = {1: 2}
    assert check(first)
    first.__dict__["name2"] = 1
    assert not check(first)
    first.__class__ = type("Else", (torch.nn.Module,), {})
    assert not check(first)


def test_keys_that_are_freed():
    """Addresses of tables return: other classes, and objects that have come to a class with the table of another."""
    check, common = both(*LACKS), type("Common", (), {})
    for adopted in (False, True):
        for turn in range(200):
            thing = type("Class", (), {})()
            setattr(thing, NAMES[turn % 2 * 5], turn)
            if adopted:
                thing.__class__ = common
            assert check(thing) is (turn % 2 == 1)
            del thing
            gc.collect(0)


def test_keys_that_look_like_others():
    thing, names = Layer(), ["first", "second"]
    check = both(*LACKS)
    thing.__dict__ = dict.fromkeys(names)
    assert check(thing) and check(thing)
    thing.__dict__ = {id(names[0]): names[1], "name0": 1}
    assert not check(thing)


@pytest.mark.parametrize(
    "make",
    [Layer, with_many_attributes, Table, lambda: copy.deepcopy(Layer()), lambda: pickle.loads(pickle.dumps(Layer()))],
)
def test_random_changes_of_keys(make):
    rng = random.Random(1)
    things = [make() for _ in range(4)]
    checks = [both(*LACKS), both(*LACKS), both(LACKS[0]), both(LACKS[1], LACKS[2])]
    for _ in range(2000):
        thing, name = rng.choice(things), rng.choice(NAMES)
        way = rng.random()
        if way < 0.4:
            setattr(thing, name, 1)
        elif way < 0.8:
            vars(thing).pop(name, None)
        elif way < 0.85:
            vars(thing).update({"".join(["na", "me", name[4:]]): 2})
        elif way < 0.88:
            things[rng.randrange(4)] = make()
        elif way < 0.9:
            thing.__dict__ = dict(rng.choice(things).__dict__)
        for each in rng.sample(things, 2):
            for check in checks:
                check(each)


# --- tuples ---------------------------------------------------------------------------------------------
def facts_of(source, expected):
    items = [("equals", ItemSource(source, k), value) for k, value in enumerate(expected)]
    return [("type", source, tuple), ("length", source, len(expected)), *items]


def test_a_tuple_of_constants():
    check = both(*facts_of(X, (1, 0.0, True, "a")))
    held = [(1, 0.0, True, "a") for _ in range(2)] + [tuple([1, 0.0, True, "a"])]
    others = [(1, -0.0, True, "a"), (1, 0.0, 1, "a"), (1.0, 0.0, True, "a"), (1, 0.0, True), (1, 0.0, True, "a", 2)]
    others += [[1, 0.0, True, "a"], type("Tuple", (tuple,), {})((1, 0.0, True, "a")), None, ()]
    for _ in range(3):
        for each in held:
            assert check(each) and check(each)
        for each in others:
            assert not check(each) and not check(each)


def test_no_tuple_of_other_objects_is_kept():
    thing = torch.ones(1)
    start = [("type", X, tuple), ("length", X, 2)]
    for facts in (start, facts_of(X, (1, 2))[:-1], [*start, *(("present", ItemSource(X, k)) for k in range(2))]):
        check = both(*facts)
        assert check((1, thing))
    gone = weakref.ref(thing)
    del thing
    gc.collect()
    assert gone() is None


def test_a_list_in_a_tuple_or_a_class_may_change():
    inner = [1]
    thing, cls = (inner,), type("Class", (), {"inner": inner})
    check = both(("type", X, tuple), ("length", X, 1), ("equals", ItemSource(X, 0), [1]))
    check_class = both(("equals", AttrSource(ConstantSource(cls, "Class"), "inner"), [1]))
    assert check(thing) and check(thing) and check_class() and check_class()
    inner.append(2)
    assert not check(thing) and not check_class()


# --- compiled -------------------------------------------------------------------------------------------
class Scale(torch.nn.Module):
    factor = 2.0

    def __init__(self):
        super().__init__()
        self.weight, self.sizes = torch.nn.Parameter(torch.ones(2)), (2, 3)

    def forward(self, x):
        scale = self.factor * self.sizes[0] + self.sizes[1]
        return x * self.weight * (scale if not hasattr(self, "shift") else self.shift)


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = type("First", (Scale,), {})(), type("Second", (Scale,), {})()

    def forward(self, x):
        return self.second(self.first(x))


def rebase(model):
    type(model.first).__bases__ = (type("Half", (Scale,), {"factor": 0.5}),)


MODEL_CHANGES = {
    "class attribute": lambda m: setattr(type(m.first), "factor", 5.0),
    "class attribute added": lambda m: setattr(type(m.second), "shift", 7),
    "attribute added": lambda m: setattr(m.second, "shift", 7),
    "base": rebase,
    "class assigned": lambda m: setattr(m.first, "__class__", type("Third", (Scale,), {"factor": 3.0})),
    "forward of the class": lambda m: setattr(type(m.first), "forward", lambda self, x: x),
    "forward of its own": lambda m: setattr(m.first, "forward", lambda x: x + 1),
    "call of the class": lambda m: setattr(type(m.first), "__call__", lambda self, x: x - 1),
    "weight hidden": lambda m: m.first.__dict__.__setitem__("weight", 3.0),
    "sizes": lambda m: setattr(m.second, "sizes", (2, 4)),
    "sizes of a class": lambda m: (delattr(m.second, "sizes"), setattr(type(m.second), "sizes", (4, 4))),
    "hook": lambda m: m.second.register_forward_hook(lambda module, arguments, result: result * 2),
}


@pytest.mark.parametrize("copied", [False, True])
@pytest.mark.parametrize("name", MODEL_CHANGES)
def test_a_changed_model(name, copied):
    minicompile.reset()
    model, counter, x = Model(), CompileCounter(), torch.ones(2)
    model = copy.deepcopy(model) if copied else model
    compiled = minicompile.compile(model, backend=counter)
    for _ in range(3):
        assert torch.equal(compiled(x), model(x))
    assert counter.graphs == 1
    MODEL_CHANGES[name](model)
    for _ in range(3):
        assert torch.equal(compiled(x), model(x))
    assert counter.graphs == 2
