"""The guard check in C answers as the Python that a report shows, for values that hold, differ, or cannot be read."""

import collections
import copy
import gc
import itertools
import random
import sys
import types
import weakref

import pytest
import torch

import minicompile
from minicompile.dynamo import eval_frame
from minicompile.dynamo.guard_checks import ambient_state, tensor_properties
from minicompile.dynamo.guards import GuardSet
from minicompile.dynamo.source import AttrSource, CallSource, ItemSource, LocalSource, SizeSource


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


# --- one guard at a time ----------------------------------------------------------------------------------
X = LocalSource("x")
X_CODE = (lambda x: x).__code__
ABSENT = object()


def guard_of(*guards):
    """A check of the one argument `x`, called as `check(x)`."""
    guard_set = GuardSet(ambient_state())
    for guard in guards:
        guard_set.add(*guard)
    check = guard_set.build(X_CODE).check
    return lambda x: check(None, x)


class Asked(BaseException):
    pass


class Strange:
    """An object that must not be asked anything."""

    def __eq__(self, other):
        raise Asked("equality")

    def __bool__(self):
        raise Asked("truth")

    def __getattr__(self, name):
        raise Asked(name)

    __hash__ = None


class StrangeLookup(Strange):
    def __getattribute__(self, name):
        raise Asked(name)


@pytest.mark.parametrize("cls", [Strange, StrangeLookup])
def test_nothing_is_asked_of_an_object_of_another_kind(cls):
    strange = cls()
    tensor, item = tensor_properties(torch.ones(2)), ItemSource(X, 0)
    facts = [
        *(("equals", X, constant) for constant in (3, 2.5, "a", None, (1,), frozenset({1}))),
        *(("type", X, int), ("is", X, None), ("tensor", X, tensor), ("code", X, X_CODE), ("plain_call", X)),
        *(("length", X, 1), ("keys", X, ["a"]), ("has_key", X, "a"), ("lacks_key", X, "a")),
        *(("present", AttrSource(X, "a")), ("equals", AttrSource(X, "a"), 1), ("equals", AttrSource(item, "a"), 1)),
        *(("equals", item, 1), ("equals", ItemSource(X, "a"), 1), ("equals", SizeSource(X, "shape", 0), 1)),
    ]
    for fact in facts:
        assert guard_of(fact)(strange) is False, fact
    for fact in facts[:9]:
        inside = (fact[0], item, *fact[2:])
        assert guard_of(inside)([strange]) is False and guard_of(inside)({0: strange}) is False


class Raises:
    def __len__(self):
        raise ZeroDivisionError

    def __getitem__(self, key):
        raise ZeroDivisionError

    def __contains__(self, key):
        raise ZeroDivisionError


def test_what_raises_does_not_hold_and_what_ends_the_program_does():
    for fact in (("length", X, 1), ("has_key", X, 1), ("lacks_key", X, 1), ("equals", ItemSource(X, 0), 1)):
        assert guard_of(fact)(Raises()) is False
    stop = type("Stop", (), {"__len__": lambda self: (_ for _ in ()).throw(Asked)})
    with pytest.raises(Asked):
        guard_of(("length", X, 1))(stop())


def test_descriptors_come_before_and_behind_the_instance():
    class Plain:
        kept = None

    thing = Plain()
    thing.kept = thing.other = 5
    kept, other = (guard_of(("equals", AttrSource(X, name), 5)) for name in ("kept", "other"))
    for _ in range(3):
        assert kept(thing) is True and other(thing) is True
    Plain.other = property(lambda self: 6)
    assert other(thing) is False
    Plain.other = 7  # no data descriptor: the instance's own comes first
    assert other(thing) is True
    del thing.other
    assert other(thing) is False
    Plain.other = 5
    assert other(thing) is True
    thing.__dict__ = {"other": 8, "kept": 5}
    assert other(thing) is False and kept(thing) is True
    thing.__class__ = type("Else", (), {"__slots__": ("__dict__", "__weakref__"), "kept": property(lambda self: 4)})
    assert kept(thing) is False


def test_what_a_class_has_and_lacks():
    """Changes of a class, of a base and of a metaclass are seen, whatever was found before."""

    class Meta(type):
        pass

    for meta in (type, Meta):
        base = meta("Base", (), {"other": 1})
        cls = meta("Derived", (base,), {"kept": 1})
        method, value = (lambda self: 1), guard_of(("equals", AttrSource(X, "kept"), 1))
        lacks, has = guard_of(("class_lacks", X, "name")), guard_of(("is", AttrSource(X, "method"), method))
        for owner in (cls, base) if meta is type else (cls, base, Meta):
            for _ in range(3):
                assert lacks(cls) is True and has(cls) is False and value(cls) is True
            owner.name, owner.method = 1, method
            for _ in range(3):
                assert lacks(cls) is False and has(cls) is (owner is not Meta)
            del owner.name, owner.method
        assert lacks(cls) is True and has(cls) is False
        cls.method, cls.kept = method, 2
        assert has(cls) is True and has(base) is False and value(cls) is False
        thing = cls()
        thing.method, thing.kept = method, 1
        for asked, holds in ((thing, True), (cls, False), (thing, True), (base, False)):
            assert value(asked) is holds
        assert has(thing) is True and has(cls) is True and lacks(thing) is False
        del thing.method
        assert has(thing) is False  # a bound method is another object
        cls.kept = property(lambda self: 5)
        assert value(thing) is False and value(cls) is False
        base.kept, base.method = 1, method
        del cls.kept, cls.method
        assert value(cls) is True and has(cls) is True and has(base) is True and value(thing) is True


def test_an_attribute_of_a_class_may_become_a_descriptor():
    plain = type("Plain", (), {})
    kept = plain()
    cls = type("Class", (), {"kept": kept})
    guard = guard_of(("is", AttrSource(X, "kept"), kept))
    assert guard(cls) is True and guard(cls()) is True
    plain.__get__ = lambda self, instance, owner: 5
    assert guard(cls) is False and guard(cls()) is False
    del plain.__get__
    assert guard(cls) is True


def test_places_in_dicts_are_found_again():
    """Random changes of a dict, asked by one program that remembers where keys stood."""
    rng = random.Random(0)
    names = [f"key{k}" for k in range(12)]
    guards = {name: guard_of(("equals", ItemSource(X, name), 1)) for name in names}
    attributes = {name: guard_of(("equals", AttrSource(X, name), 1)) for name in names}
    holder = types.SimpleNamespace()
    things = [{}, type("Thing", (torch.nn.Module,), {})().__dict__, vars(type("Plain", (), {})())]
    owner = type("Owner", (), {})
    objects = [owner(), owner(), torch.nn.Module(), holder]
    for _ in range(3000):
        name, value = rng.choice(names), rng.choice([1, 2, ABSENT])
        for table in things:
            table.pop(name, None) if value is ABSENT else table.__setitem__(name, value)
        for thing in rng.sample(objects, 2):
            if value is not ABSENT:
                setattr(thing, name, value)
            elif hasattr(thing, name):
                delattr(thing, name)
        if rng.random() < 0.02:
            things[0] = {"".join(key): each for key, each in sorted(things[0].items(), key=lambda _: rng.random())}
        asked = rng.choice(names)
        for table in things:
            assert guards[asked](table) is (table.get(asked) == 1)
        for thing in objects:
            assert attributes[asked](thing) is (getattr(thing, asked, None) == 1)


def test_keys_that_are_no_strings():
    for key in (1, 2.5, (1, "a"), None, b"a", ABSENT):
        guard = guard_of(("equals", ItemSource(X, key), 1))
        assert guard({key: 1}) is True and guard({"a": 0, key: 1}) is True
        assert guard({key: 2}) is False and guard({}) is False
    large = {f"name{k}": k for k in range(3000)}
    guard = guard_of(("equals", ItemSource(X, "name2000"), 2000))
    for _ in range(3):
        assert guard(large) is True
    large["name2000"] = 1
    assert guard(large) is False and guard({"name2000": 2000}) is True


@pytest.mark.parametrize("count", [2, 5, 9, 30])
def test_all_are_different_objects(count):
    """Addresses are remembered from call to call: any sequence of calls has the answers of a first call."""
    rng = random.Random(count)
    guard_set = GuardSet(ambient_state())
    guard_set.add_alias(tuple(ItemSource(X, k) for k in range(count)), same=False)
    check = guard_set.build(X_CODE).check
    pool = [torch.ones(1) for _ in range(count + 20)]
    now = rng.sample(pool, count)
    for _ in range(2000):
        if rng.random() < 0.1:
            now = rng.sample(pool, count)
        for _ in range(rng.choice([0, 1, 2])):
            now[rng.randrange(count)] = rng.choice(pool)
        assert check(None, now) is (len(set(map(id, now))) == count)
        if rng.random() < 0.5:
            now = list(dict.fromkeys(now))
            now += rng.sample([each for each in pool if not any(each is other for other in now)], count - len(now))


def test_one_object_behind_several_names():
    guard_set = GuardSet(ambient_state())
    guard_set.add_alias(tuple(ItemSource(X, k) for k in range(3)), same=True)
    check = guard_set.build(X_CODE).check
    for each in itertools.product("ab", repeat=3):
        assert check(None, each) is (len(set(each)) == 1)


def test_an_address_that_returns_is_another_object():
    """What a guard compares by address stays alive with the guard."""
    cls = type("Local", (), {})
    gone, value = weakref.ref(cls), cls()
    by_type, by_identity = guard_of(("type", X, cls)), guard_of(("is", X, value))
    assert by_type(value) is True and by_identity(value) is True
    del cls, value
    gc.collect()
    assert gone() is not None
    for _ in range(200):
        other = type("Local", (), {})
        assert by_type(other()) is False and by_identity(other()) is False
    del by_type, by_identity, other
    gc.collect()
    assert gone() is None


def test_nothing_is_kept_of_what_was_asked(checks):
    """What each check keeps would be there once for each round.

    A few more or fewer say nothing: the interpreter counts the blocks of the threads of the test runner too, and what
    earlier tests left behind may need several collections until its finalizers have freed it.
    """
    check, _ = checks
    rounds, some = 10_000, 5_000
    held, arguments = inputs(), [inputs(), inputs()]
    failing = [replace(1, torch.ones(4, 2))(inputs()), replace(4, "tt")(inputs()), replace(2, object())(inputs())]
    everything = [each for group in (held, *arguments, *failing) for each in group]
    model = held[0]
    everything += [*model.modules(), *model.parameters(), *held[2].__dict__.values(), model.__dict__, model._modules]
    before = [sys.getrefcount(each) for each in everything]
    blocks = []
    for _ in range(3):
        for _ in range(rounds):
            check(Model.forward, *held)
            check(Model.forward, *arguments[0])
            for each in failing:
                check(Model.forward, *each)
        gc.collect()
        blocks.append(sys.getallocatedblocks())
    after = [sys.getrefcount(each) for each in everything]
    assert max(abs(a - b) for a, b in zip(after, before)) < some and blocks[-1] - blocks[0] < some


def test_no_way_of_reading_keeps_a_reference():
    class Thing:
        pass

    value, module = Thing(), types.ModuleType("module")
    by_slot = type("Slots", (), {"__slots__": ("value",)})()
    function, thing, cls = (lambda x=value: x), Thing(), type("Class", (), {"value": value})
    for owner in (module, by_slot, thing):
        owner.value = value
    attribute, item = AttrSource(X, "value"), ItemSource(X, 0)
    ways = [
        *((owner, attribute, value) for owner in (module, by_slot, thing, cls, cls())),
        *((owner, item, value) for owner in ([value], (value,), {0: value}, collections.UserList([value]))),
        *(({"key": value}, ItemSource(X, "key"), value), (value, CallSource(X, type), Thing)),
        *(
            (function, AttrSource(X, "__code__"), function.__code__),
            (function, AttrSource(X, "__globals__"), globals()),
        ),
        (function, ItemSource(AttrSource(X, "__defaults__"), 0), value),
        (types.CellType(value), AttrSource(X, "cell_contents"), value),
    ]
    for owner, source, expected in ways:
        guard, counted = guard_of(("is", source, expected)), (owner, expected)
        assert guard(owner) is True and guard(None) is False, source
        before = [sys.getrefcount(each) for each in counted]
        for _ in range(1000):
            guard(owner)
        assert [sys.getrefcount(each) for each in counted] == before, source


def test_checks_die_with_their_frames():
    def build():
        guards = GuardSet(ambient_state())
        guards.add("equals", AttrSource(X, "a"), 1)
        guards.add("tensor", AttrSource(X, "b"), tensor_properties(torch.ones(2)))
        function = guards.build(X_CODE)
        function.check.guards = function
        return weakref.ref(function)

    gone = [build() for _ in range(10)]
    gc.collect()
    assert not any(each() for each in gone)
