"""Objects and classes of the user during capture, against eager."""

import abc
import collections
import dataclasses
import functools
import sys
import types

import pytest
import torch
from worlds import same

import minicompile

X = torch.tensor([1.0, 2.0, 3.0])


# --- attributes -------------------------------------------------------------------------------------
class Point:
    scale = 2.0

    def __init__(self, a, b):
        self.a, self.b = a, b

    def total(self):
        return self.a + self.b

    @property
    def double(self):
        return self.a * 2

    @double.setter
    def double(self, value):
        self.a = value / 2

    @staticmethod
    def static(x):
        return x + 1

    @classmethod
    def make(cls, x):
        return cls(x, cls.scale)

    @functools.cached_property
    def cached(self):
        return self.a * 10


def test_reads_of_every_kind():
    def program():
        p = Point(3.0, 4)

        def f(x):
            return x * p.total() + p.double + p.static(p.scale) + Point.make(1.0).total() + Point.static(2) + p.cached

        return f, [(X,), (X,)], lambda: dict(p.__dict__)

    same(program, recompiles=None)


def test_changes_between_calls_are_noticed():
    def program():
        class P(Point):
            pass

        p = P(3.0, 4)

        def f(x):
            return x * p.a + p.scale + p.total()

        def instance_attribute():
            p.a = 5.0

        def class_attribute():
            Point.scale = 3.0

        def shadow_by_subclass():
            P.scale = 4.0

        def shadow_by_instance():
            p.scale = 5.0

        def method():
            P.total = lambda self: 100

        def instance_method():
            p.total = lambda: 200

        def other_class():
            p.__class__ = Point

        def undo():
            Point.scale = 2.0

        changes = [instance_attribute, class_attribute, shadow_by_subclass, shadow_by_instance, method, instance_method]
        steps = [(X,)]
        for change in [*changes, other_class, undo]:
            steps += [change, (X,)]
        return f, steps

    same(program)


def test_attribute_that_appears():
    def program():
        p = Point(1.0, 2)

        def f(x):
            return x + getattr(p, "extra", 0) + (1 if hasattr(p, "more") else 2) + len(vars(p))

        def add():
            p.extra = 7

        def add_to_class():
            Point.more = 1

        def remove():
            del Point.more

        return f, [(X,), add, (X,), add_to_class, (X,), remove, (X,)]

    same(program)


def test_writes_are_replayed_once_and_in_place():
    def program():
        p = Point(1.0, 2)

        def f(x):
            p.a += 1
            p.double = p.double + 4
            p.new = x * 2
            del p.b
            p.b = p.a
            p.__dict__["raw"] = 5
            return x + p.a, p is not None

        return f, [(X,), (X,)], lambda: sorted(p.__dict__.items(), key=lambda item: item[0])

    same(program)


def test_delete_and_missing():
    def program():
        p = Point(1.0, 2)

        def f(x):
            if hasattr(p, "a"):
                del p.a
            try:
                return p.a
            except AttributeError as e:
                return x + 1, e.args
            return x

        return f, [(X,), (X,)], lambda: dict(p.__dict__)

    same(program)


def test_getattr_setattr_getattribute():
    class Proxy:
        def __init__(self):
            object.__setattr__(self, "store", {"a": 2})

        def __getattr__(self, name):
            try:
                return self.store[name]
            except KeyError:
                raise AttributeError(name) from None

        def __setattr__(self, name, value):
            self.store[name] = value * 2

        def __delattr__(self, name):
            del self.store[name]

    class Doubling:
        def __init__(self, a):
            self.a = a

        def __getattribute__(self, name):
            value = super().__getattribute__(name)
            return value * 2 if name == "a" else value

    def program():
        p, d = Proxy(), Doubling(4)

        def f(x):
            p.b = p.a + 1
            p.c = 1
            del p.c
            d.a = d.a + 1
            return x + p.b + d.a + Doubling(3).a, getattr(p, "nope", "none")

        return f, [(X,), (X,)], lambda: (p.store, d.__dict__)

    same(program)


def test_user_descriptor():
    class Positive:
        def __set_name__(self, owner, name):
            self.name = "_" + name

        def __get__(self, instance, owner):
            return self if instance is None else getattr(instance, self.name)

        def __set__(self, instance, value):
            if value < 0:
                raise ValueError("negative")
            setattr(instance, self.name, value)

    class Lazy:
        def __init__(self, function):
            self.function = function

        def __get__(self, instance, owner):
            value = self.function(instance)
            instance.__dict__[self.function.__name__] = value
            return value

    class Account:
        amount = Positive()

        def __init__(self, amount):
            self.amount = amount

        @Lazy
        def twice(self):
            return self.amount * 2

    def program():
        a = Account(3)

        def f(x):
            a.amount = a.amount + 1
            try:
                a.amount = -1
            except ValueError as e:
                return x + a.amount + a.twice, str(e)

        return f, [(X,), (X,)], lambda: dict(a.__dict__)

    same(program)


def test_slots():
    class Slotted:
        __slots__ = ("a", "b")

        def __init__(self, a):
            self.a = a

    def program():
        s = Slotted(2.0)

        def f(x):
            t = Slotted(x)
            t.b = t.a * s.a
            s.b = 3
            try:
                t.c = 1
            except AttributeError:
                t.a = 5
            return t, t.b + s.b, hasattr(Slotted(1), "b")

        def change():
            s.a = 7.0

        return lambda x: f(x)[1:], [(X,), change, (X,)], lambda: (s.a, s.b)

    same(program)


# --- objects made during capture -----------------------------------------------------------------------
@dataclasses.dataclass(order=True)
class Data:
    a: int
    b: list = dataclasses.field(default_factory=list)
    c: int = dataclasses.field(default=0, compare=False)

    def __post_init__(self):
        self.c = self.a + 1


@dataclasses.dataclass(frozen=True)
class Frozen:
    a: object
    b: int = 2


def test_dataclasses():
    def f(x):
        d, e = Data(1, [x]), Data(1)
        d.b.append(2)
        fr = Frozen(x)
        try:
            fr.b = 1
        except dataclasses.FrozenInstanceError as error:
            e.b.append(str(error))
        changed = dataclasses.replace(fr, b=5)
        return d, e, x + d.c, Data(1) == Data(1), Data(1) < Data(2), Data(3) != Data(1), changed, repr(Data(4, [1]))

    same(lambda: (f, [(X,), (X,)]))


def test_new_objects_refer_to_each_other():
    class Node:
        def __init__(self, value, parent=None):
            self.value, self.parent, self.children = value, parent, []
            if parent is not None:
                parent.children.append(self)

    def program():
        registry = []

        def f(x):
            root = Node(x)
            child = Node(x + 1, root)
            registry.append(root)
            return child

        def state():
            root = registry[-1]
            return len(registry), root.children[0].parent is root, root.value, root.children[0].value

        return (lambda x: f(x).parent.value), [(X,), (X,)], state

    same(program)


def test_identity_and_type_survive():
    def program():
        p = Point(1, 2)

        def f(x):
            q = Point(x, 1)
            q.other = p
            return q, q is p, p.__class__ is Point, type(q) is Point, q.__class__.__name__, isinstance(q, Point)

        def g(x):
            q, *rest = f(x)
            return q.other is p, type(q) is Point, q.a, rest

        return g, [(X,), (X,)]

    same(program)


def test_custom_new_and_metaclass():
    class Single:
        instance = None

        def __new__(cls, value):
            if cls.instance is None:
                cls.instance = super().__new__(cls)
            return cls.instance

        def __init__(self, value):
            self.value = value

    class Meta(type):
        registry = 5

        @property
        def size(cls):
            return 11

        def __call__(cls, *args):
            made = super().__call__(*args)
            made.tagged = True
            return made

        def __len__(cls):
            return 3

    class Tagged(metaclass=Meta):
        def __init__(self, a):
            self.a = a

    def program():
        Single.instance = Single.__new__(Single, 0)

        def f(x):
            t = Tagged(3)
            return (
                x + Single(4).value + t.a + Tagged.registry + Tagged.size + len(Tagged),
                t.tagged,
                Single(1) is Single(2),
            )

        return f, [(X,), (X,)], lambda: Single.instance.value

    same(program)


def test_super_and_multiple_inheritance():
    class A:
        def __init__(self):
            self.log = ["A"]

        def go(self, x):
            return x + 1

        @classmethod
        def name(cls):
            return cls.__name__ + "A"

    class B(A):
        def __init__(self):
            super().__init__()
            self.log.append("B")

        def go(self, x):
            return super().go(x) * 2

        @classmethod
        def name(cls):
            return super().name() + "B"

    class C(A):
        def __init__(self):
            super().__init__()
            self.log.append("C")

        def go(self, x):
            return super(C, self).go(x) * 3  # noqa: UP008

    class D(B, C):
        def go(self, x):
            inner = lambda: super(D, self).go(x)  # noqa: E731
            return inner() - 1

    def f(x):
        d = D()
        return d.go(x), d.log, D.name(), [c.__name__ for c in D.__mro__]

    same(lambda: (f, [(X,), (X,)]))


def test_abstract_class_and_wrong_calls():
    class Base(abc.ABC):
        @abc.abstractmethod
        def f(self): ...

    class Plain:
        pass

    def f(x):
        texts = []
        for make in (lambda: Base(), lambda: Plain(1), lambda: Point(1), lambda: Plain().nothing, lambda: Plain()()):
            try:
                make()
            except (TypeError, AttributeError) as e:
                texts.append(type(e).__name__)
        return x + len(texts), texts

    same(lambda: (f, [(X,)]))


def test_class_attribute_writes():
    def program():
        class Counter:
            count = 0
            seen = []

            def step(self):
                type(self).count += 1
                self.seen.append(type(self).count)
                return self.count

        c = Counter()

        def f(x):
            return x + c.step() + c.step() + Counter.count

        return f, [(X,), (X,)], lambda: (Counter.count, Counter.seen)

    same(program)


@pytest.mark.parametrize("name", ["__name__", "__qualname__", "__module__", "__doc__", "__mro__", "__bases__"])
def test_class_metadata(name):
    def f(x):
        return x + 1, getattr(Point, name) == getattr(Frozen, name), name in Point.__dict__

    same(lambda: (f, [(X,)]))


def make_cell(late):
    def drop(x):
        nonlocal late
        del late
        return x + 1

    def put(x):
        nonlocal late
        late = x.shape[0]
        return x + late

    return drop, put


def test_a_cell_of_the_function_is_deleted_and_written_once():
    (drop, put), x = make_cell(1), torch.ones(3)
    assert torch.equal(minicompile.compile(drop, backend="eager")(x), x + 1)
    with pytest.raises(ValueError, match="Cell is empty"):
        _ = drop.__closure__[0].cell_contents
    captured = minicompile.capture(put, x)
    assert put.__closure__[0].cell_contents == 3
    (text,) = captured.bytecode.values()
    assert text.split("PUSH_EXC_INFO")[0].count("STORE_DEREF") == 1 and "STORE_ATTR" not in text


def class_with_properties_that_lack_an_accessor():
    class Inner:
        @property
        def read(self):
            return 1

        alias = read
        nothing = property()
        write = property(None, lambda self, value: None)

        def read_nothing(self):
            return super().nothing

    class Outer(Inner):
        def read_nothing(self):
            return super().nothing

    Inner.late = property()
    return Outer


@pytest.mark.parametrize("name", ["read", "alias", "nothing", "write", "late"])
def test_properties_say_what_they_lack(name):
    """With the whole name of the class, and the property's own name or none."""

    def function(x, cls):
        thing, told = cls(), []
        for use in (lambda: getattr(thing, name), lambda: setattr(thing, name, 1), lambda: delattr(thing, name)):
            try:
                use()
            except AttributeError as error:
                told.append(str(error))
        try:
            thing.read_nothing()
        except AttributeError as error:
            told.append(str(error))
        return told, x + 1

    cls = class_with_properties_that_lack_an_accessor()
    found = minicompile.compile(function, backend="eager", fullgraph=True)(torch.ones(1), cls)
    assert found == function(torch.ones(1), cls)


def test_globals_that_are_also_looked_at_as_a_dict():
    namespace = {}
    exec("def set_value():\n    global value\n    value = 2\n", namespace)
    set_value = namespace["set_value"]

    def after(x):
        set_value()
        return x + 1, namespace["value"]

    def before(x):
        found = namespace["value"]
        set_value()
        return x + 1, found, namespace["value"]

    def through_the_function(x):
        set_value()
        return x + 1, set_value.__globals__["value"]

    for function in (after, before, through_the_function):
        for call in (function, minicompile.compile(function, backend="eager")):
            namespace["value"] = 1
            assert call(torch.ones(1))[1:] == ((1, 2) if function is before else (2,)) and namespace["value"] == 2


@pytest.mark.skipif(sys.version_info < (3, 12), reason="type parameters are new in 3.12")
def test_what_a_type_parameter_is_bound_to_is_found_when_it_is_read():
    namespace = {}
    exec("class Scope:\n    T = int\n    def method[U: T](self): ...\n    type Alias = T\n", namespace)
    scope = namespace["Scope"]
    exec("def unknown[U: Undefined](): ...", namespace)

    def f(x):
        scope.T = float
        try:
            namespace["unknown"].__type_params__[0].__bound__  # noqa: B018
        except NameError as error:
            return x + 1, scope.method.__type_params__[0].__bound__, scope.Alias.__value__, str(error)

    assert minicompile.compile(f, backend="eager")(torch.ones(1))[1:3] == (float, float)


def test_pop_of_an_instance_dict_raises_where_the_key_is_missing():
    class Box:
        pass

    def f(x, box):
        found = [box.__dict__.pop("value"), box.__dict__.pop("value", 3), box.__dict__.pop("value", None)]
        try:
            found.append(box.__dict__.pop("value"))
        except KeyError as error:
            found.append(error.args)
        return x + 1, found

    for call in (f, minicompile.compile(f, backend="eager")):
        box = Box()
        box.value = 1
        assert call(torch.ones(1), box)[1] == [1, 3, None, ("value",)] and not vars(box)


def test_views_and_iterators_of_an_instance_dict_see_its_changes():
    def run(x):
        box, told = types.SimpleNamespace(first=1, second=x), []
        keys, values, items = vars(box).keys(), vars(box).values(), vars(box).items()
        box.third = 3
        told += [list(keys), len(values), ("third", 3) in items, keys & {"third", "none"}]
        del box.first
        told.append(sorted(keys))
        for name, _ in items:
            vars(box)["third"] = told.append(name)
        for change in (lambda: setattr(box, "more", 4), lambda: delattr(box, "more")):
            try:
                for name in vars(box):
                    told.append(name)
                    change()
            except RuntimeError as error:
                told.append(str(error))
        return x + 1, told, keys, dict(items)

    x = torch.ones(1)
    assert str(minicompile.compile(run, backend="eager", fullgraph=True)(x)) == str(run(x))


class Nothing:
    def __call__(self, *args):
        return None


class Refuses:
    """Whatever is asked of its instances in Python raises: only `object`'s own methods get through."""

    __slots__ = ("slot", "__dict__")

    def __getattribute__(self, name):
        raise ValueError(name)

    __setattr__ = __delattr__ = __getattribute__


class OnlyDelete:
    def __delattr__(self, name):
        raise ValueError(name)


class HasNoReader:
    """CPython makes no descriptor for the `__dict__` that its instances have."""

    __dict__ = 7


class HidesDict(OnlyDelete):
    @property
    def __dict__(self):
        raise ValueError

    __getattribute__ = __setattr__ = __delattr__ = Nothing()


class RefusingTuple(collections.namedtuple("RefusingTuple", "left right")):
    __getattribute__ = __setattr__ = Refuses.__getattribute__

    def __new__(cls):
        return super().__new__(cls, 1, 2)


class RefusingNamespace(types.SimpleNamespace):
    __getattribute__ = __setattr__ = Refuses.__getattribute__


@pytest.mark.parametrize("cls", [Refuses, HasNoReader, HidesDict, OnlyDelete, RefusingTuple, RefusingNamespace])
@pytest.mark.parametrize("new", [True, False])
def test_no_read_and_no_write_of_ours_asks_the_methods_of_the_program(cls, new):
    def f(x, given):
        thing = given or cls()
        object.__setattr__(thing, "kept", x)
        hidden = cls in (HasNoReader, HidesDict)
        seen = [] if hidden else list(object.__getattribute__(thing, "__dict__"))
        if cls is not RefusingTuple:
            object.__setattr__(thing, "gone", 1)
            minicompile.graph_break()
            object.__delattr__(thing, "gone")
        if cls is Refuses:
            object.__setattr__(thing, "slot", 5)
            object.__delattr__(thing, "slot")
        minicompile.graph_break()
        seen.append(object.__getattribute__(thing, "kept") + 1)
        return seen, None if hidden else object.__getattribute__(thing, "__dict__")

    compiled = minicompile.compile(f, backend="eager")
    for _ in range(2):
        given = [None if new else cls() for _ in range(2)]
        assert str(compiled(X, given[0])) == str(f(X, given[1]))


def test_a_namespace_compares_and_prints_past_its_methods():
    def f(x):
        namespace = RefusingNamespace(a=1)
        return x + 1, namespace == RefusingNamespace(a=1), repr(namespace)

    assert f(X)[1:] == minicompile.compile(f, backend="eager", fullgraph=True)(X)[1:]


def test_the_tables_of_a_module_are_read_past_its_own_lookup():
    class Module(torch.nn.Module):
        def __getattribute__(self, name):
            if name == "_modules":
                raise ValueError(name)
            return super().__getattribute__(name)

        def forward(self, x):
            return object.__getattribute__(self, "_modules")["layer"](x)

    module = Module()
    object.__getattribute__(module, "_modules")["layer"] = torch.nn.Linear(3, 3)
    for _ in range(2):
        assert torch.equal(minicompile.compile(module, backend="eager")(X), module(X))


# --- entries of `__dict__` for which the class has a descriptor -------------------------------------------
class Behind:
    __slots__ = ("slot", "__dict__")

    @property
    def shown(self):
        return self.__dict__["shown"] * 2

    @shown.setter
    def shown(self, value):
        self.__dict__["shown"] = value


@pytest.mark.parametrize("existing", [True, False])
def test_entries_behind_a_descriptor(existing):
    def program():
        given = Behind()
        given.__dict__["slot"] = given.shown = 5

        def f(x):
            b = given if existing else Behind()
            found = [b.__dict__.get("shown"), list(vars(b)), hasattr(b, "slot")]
            b.shown, b.slot, b.__dict__["slot"] = 3, 4, 6
            found += [list(b.__dict__), b.slot, b.shown, len(vars(b)), dict(vars(b))]
            del b.__dict__["shown"]
            b.__dict__["shown"] = 7
            del b.slot
            return x * b.shown, found, list(b.__dict__.items()), hasattr(b, "slot"), b.__dict__["slot"], b.__dict__

        return f, [(X,), (X,)], lambda: list(given.__dict__.items())

    same(program)


def test_a_function_that_wraps_a_class():
    def program():
        def f(x):
            @functools.wraps(torch.nn.Linear, assigned=("__name__", "__doc__"))
            def make(*arguments):
                return torch.nn.Linear(*arguments)

            known = list(vars(make)) == [*vars(torch.nn.Linear), "__wrapped__"]
            return x + 1, make.__module__, make.__doc__ == torch.nn.Linear.__doc__, known, vars(make)["__module__"]

        return f, [(X,), (X,)]

    same(program)
