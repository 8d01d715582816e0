"""Classes, metaclasses, dataclasses, enums and descriptors of the less usual kinds during capture, against eager."""

import collections
import dataclasses
import enum
import functools
import typing

import pytest
import torch
from worlds import same

import minicompile
from minicompile.testing import differences

X = torch.tensor([1.0, 2.0, 3.0])


def twice(function, **options):
    same(lambda: (function, [(X,), (X,)]), **options)


T_ = typing.TypeVar("T_")


class Box(typing.Generic[T_]):
    def __init__(self, v):
        self.v = v

    def __class_getitem__(cls, i):
        return super().__class_getitem__(i)


@typing.runtime_checkable
class HasV(typing.Protocol):
    def go(self): ...


class Impl:
    def go(self):
        return 3


def test_generic():
    def f(x):
        b = Box[int](x)
        c = Box(2)
        return b.v + c.v, isinstance(Impl(), HasV), isinstance(3, HasV), isinstance(b, Box)

    twice(f)


class PM:
    def add(self, a, b=0):
        return a + b

    add5 = functools.partialmethod(add, 5)

    @functools.singledispatchmethod
    def kind(self, v):
        return "obj"

    @kind.register
    def _(self, v: int):
        return "int"


def test_partialmethod():
    twice(lambda x: x + PM().add5(b=2) + PM().add5())


def test_singledispatchmethod():
    twice(lambda x: (x + 1, PM().kind(3), PM().kind("a")), fullgraph=False)


class Meta(type):
    def __getattr__(cls, n):
        if n.startswith("v_"):
            return n[2:]
        raise AttributeError(n)

    def __contains__(cls, k):
        return k == 1

    def __iter__(cls):
        return iter([1, 2])

    def __getitem__(cls, k):
        return k * 2

    @property
    def p(cls):
        return cls.q + 1

    q = 4


class WithMeta(metaclass=Meta):
    q = 9

    def __init_subclass__(cls, **k):
        cls.made = k


class Sub(WithMeta, z=1):
    pass


def test_meta():
    twice(
        lambda x: (
            x,
            WithMeta.v_abc,
            1 in WithMeta,
            list(WithMeta),
            WithMeta[3],
            WithMeta.p,
            Sub.made,
            Sub.p,
            hasattr(WithMeta, "zz"),
            type(Sub) is Meta,
        )
    )


class Base:
    def __init__(self, **k):
        super().__init__()
        self.k = dict(k)


class Mix1(Base):
    def __init__(self, a=1, **k):
        super().__init__(**k)
        self.a = a


class Mix2(Base):
    def __init__(self, b=2, **k):
        super().__init__(**k)
        self.b = b


class Dia(Mix1, Mix2):
    pass


def test_diamond_and_new():
    def f(x):
        d = Dia(a=5, b=6, c=7)
        e = type(d)(b=1)
        g = d.__class__.__new__(d.__class__)
        h = object.__new__(Dia)
        g.a = 1
        return x + d.a + d.b, d.k, e.b, g.a, isinstance(h, Base), hasattr(h, "a"), Dia.__mro__[1].__name__, vars(d)

    twice(f)


class Prop:
    def __init__(self):
        self._v = 1

    @property
    def v(self):
        return self._v

    @v.setter
    def v(self, n):
        self._v = n

    @v.deleter
    def v(self):
        self._v = None

    ro = property(lambda self: self._v)


def test_props():
    def program():
        p = Prop()

        def f(x):
            p.v = p.v + 1
            a = p.v
            q = Prop()
            del q.v
            try:
                p.ro = 3
            except AttributeError as e:
                t = str(e)
            try:
                del p.ro
            except AttributeError as e:
                t += str(e)
            return x + a, q.v, t, Prop.v.fget is not None, isinstance(Prop.v, property)

        return f, [(X,), (X,)], lambda: p.__dict__

    same(program)


class SlotBase:
    __slots__ = ("a", "__weakref__")


class SlotSub(SlotBase):
    __slots__ = ("b",)

    def __init__(self):
        self.a = 1
        self.b = 2


@dataclasses.dataclass(slots=True)
class SD:
    a: int
    b: float = 2.0
    c: list = dataclasses.field(default_factory=list, repr=False)


@dataclasses.dataclass(kw_only=True)
class KW:
    a: int
    iv: dataclasses.InitVar[int] = 3
    cv: typing.ClassVar[int] = 7
    n: object = None

    def __post_init__(self, iv):
        self.z = iv


@dataclasses.dataclass
class KW2(KW):
    more: str = "m"


@dataclasses.dataclass(frozen=True, order=True)
class FR:
    a: int
    b: str = "q"

    def with_a(self, a):
        return dataclasses.replace(self, a=a)


def test_slots():
    def program():
        e = SlotSub()

        def f(x):
            sl = SlotSub()
            del sl.b
            e.b += 1
            d = SD(1)
            d.c.append(x)
            d.b = 5
            return x + e.b, hasattr(sl, "b"), sl.a, d.b, d.c, repr(SD(2)), SD(1) == SD(1), SD(1)

        def g(x):
            r = f(x)
            return r[:-1], r[-1].a, type(r[-1]).__name__

        return g, [(X,), (X,)], lambda: (e.a, e.b)

    same(program)


def test_dataclasses():
    def f(x):
        k = KW(a=1, iv=9, n=x)
        k2 = KW2(a=2, more="z")
        fr = FR(3).with_a(5)
        nested = KW(a=1, n=[FR(1)])
        return (
            x + k.z,
            k.cv,
            repr(KW(a=1)),
            k2.z,
            k2.more,
            fr.a,
            FR(1) < FR(2),
            FR(1) == FR(1),
            [q.name for q in dataclasses.fields(KW2)],
            dataclasses.is_dataclass(k),
            dataclasses.is_dataclass(KW),
            dataclasses.asdict(KW(a=1, n=[1])),
            dataclasses.astuple(FR(2)),
            dataclasses.asdict(nested)["n"][0]["a"],
        )

    twice(f)


def test_dataclass_key():
    def f(x):
        d = {FR(1): 2}
        return x + d[FR(1)]

    twice(f, fullgraph=False)


def test_enum_more():
    class C(enum.IntEnum):
        A = 1
        B = 2

    class S(str, enum.Enum):
        X = "x"
        Y = "y"

        @property
        def up(self):
            return self.value.upper()

        @classmethod
        def dflt(cls):
            return cls.X

        def __str__(self):
            return "S!" + self.name

    class F(enum.Flag):
        P = enum.auto()
        Q = enum.auto()

    class Au(enum.Enum):
        @staticmethod
        def _generate_next_value_(n, *a):
            return n.lower()

        ONE = enum.auto()

    def f(x, e=C.A):
        d = {C.A: 1, S.X: 2}
        return (
            x * C.B,
            C.A < C.B,
            C(2).name,
            S("x").up,
            S.dflt() is S.X,
            str(S.Y),
            S.X == "x",
            d["x"],
            (F.P | F.Q).value,
            F.P in (F.P | F.Q),
            Au.ONE.value,
            [m.value for m in S],
            C.A + 1,
            isinstance(C.A, int),
            e is C.A,
            S.__members__["Y"].value,
            len(S),
            hasattr(S, "Z"),
            f"{C.A}",
            list(C),
            e == 1,
            bool(F.P & F.Q),
        )

    twice(f, fullgraph=False)


def test_property_on_instance_of_new_with_exception():
    class Q:
        @property
        def bad(self):
            raise AttributeError("inner")

        def __getattr__(self, n):
            return ("ga", n)

    twice(lambda x: (x, Q().bad, Q().zzz))


def test_class_body_in_function():
    def f(x):
        class L:
            k = 2

            def go(self, y):
                return y * self.k

        return L().go(x)

    twice(f, fullgraph=False)


def test_defaults_and_descriptors_that_the_program_sets():
    class Box:
        pass

    def program(x, number):
        def add(p, q=()):
            return [*q, p]

        before = add(1)
        add.__defaults__ = ([number],)
        Box.twice = property(lambda self: number * 2)
        found = Box().twice
        after, add.__defaults__ = add(2), None
        try:
            return before, after, found, add(3), x + 1
        except TypeError as error:
            return before, after, found, str(error), x + 1

    compiled = minicompile.compile(program, backend="eager")
    for number in (4, 5):
        assert compiled(torch.ones(2), number)[:4] == program(torch.ones(2), number)[:4]


def test_attributes_of_enum_members_are_objects_that_change():
    class Kind(enum.Enum):
        ONE = 1
        PAIR = [1, 2]

        def __init__(self, value):
            self.more = [value]

    def program(x, kind):
        kind.more.append(3)
        found = [hasattr(Kind.ONE, "extra")]
        return x + kind.count, kind.more, kind.value, found, kind.name

    compiled = minicompile.compile(program, backend="eager", fullgraph=True)
    for count in (1, 2):
        Kind.PAIR.count = count
        if count == 2:
            Kind.ONE.extra = 1
        result, more, value, found, name = compiled(torch.ones(1), Kind.PAIR)
        assert result == 1 + count and more is Kind.PAIR.more and value is Kind.PAIR.value and name == "PAIR"
        assert more == [[1, 2], *[3] * count] and found == [count == 2]


def test_an_unset_slot_says_so_in_the_words_of_the_version():
    class Slotted:
        __slots__ = ("p", "q")

    def program(x):
        made = Slotted()
        made.p = 1
        del made.p
        found = []
        for name in ("p", "q"):
            try:
                getattr(made, name)
            except AttributeError as error:
                found.append(str(error))
        return x, found

    twice(program)


def test_cells_of_comprehensions_live_in_what_they_made():
    def program(x):
        i = 7
        made = [lambda: i for i in range(3)]
        return x + 1, [f() for f in made], made[0](), (lambda: i)()

    twice(program)


class HidesDict(type):
    @property
    def __dict__(cls):
        cls.executed = True


def test_no_property_of_a_metaclass_runs_when_an_object_is_made():
    class Thing(metaclass=HidesDict):
        executed = False

        def __init__(self):
            self.spam = 42

    compiled = minicompile.compile(lambda x: (x + 1, Thing().spam), backend="eager", fullgraph=True)
    assert str(compiled(torch.ones(1))) == "(tensor([2.]), 42)" and not Thing.executed


class Silent(type):
    def __getattribute__(cls, name):
        return None


class Loud(type):
    def __getattribute__(cls, name):
        raise ValueError(name)


class Nameless(type):
    __name__ = __mro__ = __dictoffset__ = property(lambda cls: 1 / 0)


@pytest.mark.parametrize("metaclass", [Silent, Loud, Nameless])
def test_a_metaclass_that_says_by_itself_what_its_classes_are_is_left_to_eager(metaclass):
    class Counter(metaclass=metaclass):
        def __init__(self, start):
            self.start = start

        def __add__(self, other):
            return self.start + other

    def methods(x, counter):
        other = Counter(3)
        other.step = 2
        return x + (counter + 1) + (other + 1), type(counter) is Counter, isinstance(counter, Counter), other.__dict__

    def read(x, counter):
        try:
            return x + 1, type(counter).start
        except (ValueError, AttributeError) as error:
            return x + 2, type(error)

    def changes(x, counter):
        counter.step = 1
        torch._dynamo.graph_break()
        del counter.step
        try:
            counter.missing
        except AttributeError as error:
            return x + 1, error.args

    for function in (methods, read, changes):
        compiled = minicompile.compile(function, backend="eager")
        for _ in range(2):
            assert str(compiled(torch.ones(1), Counter(1))) == str(function(torch.ones(1), Counter(1)))


class Kept(typing.Generic[typing.TypeVar("S")]):
    def __init__(self, value=()):
        self.value = value


FORMS = [typing.Optional, typing.Literal, typing.Union, typing.Any, typing.ClassVar, typing.Optional[int], typing.List]
FORMS += [typing.List[int], typing.Annotated[int, 1], typing.Annotated[list, 1], typing.Deque[int], int | str]
FORMS += [list[int], Kept[int], typing.Annotated[Kept[int], 1], typing.NewType("Number", int)]


@pytest.mark.parametrize("form", FORMS, ids=str)
def test_a_call_of_what_typing_has_is_a_call_of_its_method(form):
    def program(x, arguments):
        try:
            made = form(*arguments)
            return x + 1, type(made), getattr(made, "value", made), getattr(made, "__orig_class__", None)
        except Exception as error:
            return x + 1, repr(error)

    for arguments in ((), ((),), (1, 2)):
        compiled = minicompile.compile(program, backend="eager", fullgraph=True)
        assert compiled(torch.ones(1), arguments)[1:] == program(torch.ones(1), arguments)[1:]


class Kinds:
    @staticmethod
    def static():
        return 1

    @classmethod
    def made(cls):
        return cls

    @property
    def read(self):
        return self

    @functools.cached_property
    def cached(self):
        return self


@pytest.mark.parametrize(
    "cls", [Kinds, enum.Enum("Color", "RED"), type("Derived", (Kinds,), {"new": Kinds.__dict__["made"]})]
)
def test_what_the_dict_of_a_class_has_is_not_what_the_class_gives(cls):
    def program(x):
        return x + 1, [type(value).__name__ for value in cls.__dict__.values()], "static" in cls.__dict__

    twice(program)


def test_each_call_makes_a_named_tuple_class_of_its_own():
    def make(x):
        box = collections.namedtuple("Box", "low high")
        return box, box(x + 1, x), [box(1, 2)]

    compiled, classes = minicompile.compile(make, backend="eager"), []
    for number in range(3):
        x = torch.full((2,), float(number))
        box, made, (other,) = compiled(x)
        assert type(made) is box is type(other) and torch.equal(made.low, x + 1)
        assert box.__module__ == __name__ and repr(other) == "Box(low=1, high=2)"
        classes.append(box)
    assert len(set(classes)) == 3 and minicompile.record.stats()["graph_breaks"] == 0


class Shifted:
    amount = 2

    def shift(self, x):
        return x + self.amount


def make_classes(x, y):
    """Closures over an argument and over the class itself, `super`, a tensor and a list in the namespace."""
    seen = []

    def scaled(self, value, *, by=3):
        seen.append(type(self) is cls)
        return super(cls, self).shift(value) * y * self.scale * by

    cls = type("Scaled", (Shifted,), {"scaled": scaled, "scale": x * 2, "made": seen, "__len__": lambda self: 4})
    other = type("Other", (cls,), dict(amount=5))
    cls.count = 1
    made, derived = cls(), other()
    module = type("Layer", (torch.nn.Module,), {"forward": lambda self, value: value * len(made)})()
    flags = isinstance(derived, Shifted), issubclass(other, cls), hasattr(other, "count"), cls.made is seen
    return cls, made, derived.scaled(x), made.scaled(x, by=1), module(x), flags, bool(made), repr(cls)[-8:], seen


def test_each_call_makes_a_class_of_its_own_by_type(monkeypatch):
    compiled, classes = minicompile.compile(make_classes, backend="eager"), []
    for number in range(4):
        if number == 2:
            monkeypatch.setattr(Shifted, "shift", lambda self, x: x - self.amount)
        if number == 3:
            monkeypatch.setattr(Shifted, "__len__", lambda self: 0, raising=False)
        x = torch.full((2,), float(number))
        expected, found = make_classes(x, 3.0), compiled(x, 3.0)
        assert not differences(expected[2:], found[2:])
        cls, made = found[:2]
        assert type(made) is cls and cls.__mro__[1:] == (Shifted, object) and not differences(made.scale, x * 2)
        assert list(vars(cls)) == list(vars(expected[0])) and cls.__module__ == __name__
        assert not differences(made.scaled(x), expected[1].scaled(x))
        assert found[-1] == [False, True, True] and cls.made is found[-1]
        classes.append(cls)
    stats = minicompile.record.stats()
    assert len(set(classes)) == 4 and (stats["graph_breaks"], stats["recompiles"]) == (0, 1)


@pytest.mark.parametrize("arguments", [("N", (int, str), {}), ("N", (bool,), {}), ("N", ()), (3, (), {})])
def test_what_type_refuses(arguments):
    def program(x):
        try:
            type(*arguments)
        except TypeError as error:
            return x + 1, str(error)

    twice(program)


@pytest.mark.parametrize("make", [lambda: collections.namedtuple("Made", "a b"), lambda: type("Made", (), {"a": 1})])
def test_what_a_made_class_is_put_into_holds_that_of_the_call(make):
    def program(x):
        cls = make()
        joined = cls | str, typing.Optional[cls], list[cls], (cls, 1), [cls, {"a": cls}], typing.Union[cls, str]
        return x + 1, cls, joined, joined[0] == joined[-1], cls.__mro__, cls.mro(), cls.__bases__

    compiled = minicompile.compile(program, backend="eager")
    for _ in range(2):
        _, cls, joined, equal, mro, listed, bases = compiled(X)
        assert [each.__args__[0] for each in (*joined[:3], joined[-1])] == [cls] * 4 and equal
        assert joined[3] == (cls, 1) and joined[4] == [cls, {"a": cls}]
        assert mro == cls.__mro__ and listed == list(mro) and bases == cls.__bases__
