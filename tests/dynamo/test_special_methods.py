"""Special methods, enums, named tuples and subclasses of builtins during capture, against eager."""

import collections
import copy  # noqa: F401
import dataclasses
import enum
import heapq
import itertools  # noqa: F401
import operator
import re  # noqa: F401
import types  # noqa: F401
from typing import NamedTuple

import pytest
import torch
from worlds import same

import minicompile

X = torch.tensor([1.0, 2.0, 3.0])


# --- special methods ------------------------------------------------------------------------------------
class Vector:
    def __init__(self, *items):
        self.items = list(items)

    def __len__(self):
        return len(self.items)

    def __getitem__(self, i):
        return self.items[i]

    def __setitem__(self, i, value):
        self.items[i] = value

    def __delitem__(self, i):
        del self.items[i]

    def __contains__(self, value):
        return value in self.items

    def __call__(self, x, *, k=1):
        return x * k * len(self)

    def __bool__(self):
        return len(self) > 1

    def __add__(self, other):
        return Vector(*self.items, *other.items) if isinstance(other, Vector) else NotImplemented

    def __radd__(self, other):
        return Vector(other, *self.items)

    def __iadd__(self, other):
        self.items.extend(other.items)
        return self

    def __neg__(self):
        return Vector(*[-i for i in self.items])

    def __eq__(self, other):
        return isinstance(other, Vector) and self.items == other.items

    def __hash__(self):
        return len(self.items)

    def __lt__(self, other):
        return len(self) < len(other)

    def __repr__(self):
        return f"Vector({self.items})"

    def __enter__(self):
        self.items.append("in")
        return self

    def __exit__(self, *exc):
        self.items.append(exc[0].__name__ if exc[0] else "out")
        return True


def test_special_methods():
    def program():
        v = Vector(1, 2)

        def f(x):
            v[0] += 1
            w = v + Vector(5)
            w += v
            u = 7 + w
            del u[1]
            try:
                v + 1
            except TypeError as e:
                text = str(e)
            found = (
                len(u),
                u[0],
                5 in u,
                bool(Vector(1)),
                -v == Vector(-v[0], -2),
                v != w,
                v < w,
                repr(u),
                f"{v}",
                text,
            )
            return x + v(x, k=2), found, not v, [i + 1 for i in u], sorted([w, v])[0] is v

        return f, [(X,), (X,)], lambda: v.items

    same(program)


def test_context_manager_object():
    def program():
        v = Vector(1)

        def f(x):
            with v as w:
                x = x + len(w)
            with v:
                raise KeyError("gone")
            return x * 2

        return f, [(X,), (X,)], lambda: v.items

    same(program)


def test_iterator_object():
    class Count:
        def __init__(self, n):
            self.i, self.n = 0, n

        def __iter__(self):
            return self

        def __next__(self):
            if self.i >= self.n:
                raise StopIteration
            self.i += 1
            return self.i

    class ByIndex:
        def __getitem__(self, i):
            if i > 2:
                raise IndexError(i)
            return i * 10

    def program():
        c = Count(5)

        def f(x):
            first = next(c)
            return x + first + sum(c) + sum(ByIndex()), list(Count(2)), [*ByIndex()]

        def again():
            c.i = 2

        return f, [(X,), again, (X,)], lambda: c.i

    same(program)


# --- enum, named tuple, builtin subclasses -----------------------------------------------------------------
class Color(enum.Enum):
    RED = 1
    BLUE = 2

    def mix(self, x):
        return x * self.value


class Bits(enum.Flag):
    A = 1
    B = 2


class Named(NamedTuple):
    a: object
    b: int = 3

    def total(self):
        return self.a + self.b


def test_enum():
    def program():
        class Holder:
            color = Color.RED

        def f(x):
            both = Bits.A | Bits.B
            names = [c.name for c in Color]
            if Holder.color is Color.RED:
                x = x + 1
            return (
                Color(2).mix(x),
                names,
                Color["RED"] == Color.RED,
                (both & Bits.A) is Bits.A,
                Bits.B in both,
                len(Color),
            )

        def change():
            Holder.color = Color.BLUE

        return f, [(X,), change, (X,)]

    same(program)


def test_named_tuple():
    Made = collections.namedtuple("Made", "u v", defaults=(5,))

    def f(x, n):
        m = Made(x)._replace(v=6)
        a, b = n
        return m, n.total() + m.u * m.v + a, Named(x).b, n._asdict()["b"], m == (x, 6) if False else len(m), n._fields

    same(lambda: (f, [(X, Named(X)), (X, Named(X, 4))]))


class Output(collections.OrderedDict):
    """The essentials of Hugging Face's ModelOutput."""

    def __post_init__(self):
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if value is not None:
                self[field.name] = value

    def __getitem__(self, key):
        return dict(self.items())[key] if isinstance(key, str) else self.to_tuple()[key]

    def __setattr__(self, name, value):
        if name in self.keys() and value is not None:
            super().__setitem__(name, value)
        super().__setattr__(name, value)

    def __setitem__(self, key, value):
        super().__setitem__(key, value)
        super().__setattr__(key, value)

    def to_tuple(self):
        return tuple(self[k] for k in self.keys())


@dataclasses.dataclass
class Hidden(Output):
    last: object = None
    states: object = None
    extra: object = None


def test_ordered_dict_dataclass():
    def f(x, given):
        out = Hidden(last=x * 2, states=(x, x + 1))
        out.last = out[0] + 1
        out["extra"] = given.last + given["states"][0]
        return out, len(out), list(out), out.to_tuple()[0], "extra" in out, out.states[1]

    same(lambda: (f, [(X, Hidden(X, (X,))), (X, Hidden(X, (X * 2,)))]))


def test_builtin_subclasses():
    class Stack(list):
        def push(self, item):
            self.append(item)
            return self

    class Bag(dict):
        def __missing__(self, key):
            return key * 2

    class Text(str):
        def shout(self):
            return self.upper() + "!"

    class Number(int):
        def __add__(self, other):
            return Number(int(self) + other + 100)

    class Pair(tuple):
        def __new__(cls, a, b):
            self = super().__new__(cls, (a, b))
            self.note = "pair"
            return self

    def program():
        s, b = Stack([1, 2]), Bag(a=1)

        def f(x):
            s.push(3)
            t = Stack([x]).push(4)
            t.name = "t"
            b["n"] = len(s)
            p = Pair(x, 5)
            return (
                x + s[-1] + t[0] * b["a"] + b["zz"[:0] + "q"].count("q"),
                t,
                Text("a").shout(),
                Number(1) + 2,
                p[1],
                p.note,
            )

        def grow():
            s.append(9)

        return f, [(X,), grow, (X,)], lambda: (list(s), dict(b))

    same(program)


def test_lru_cached_method_binds_self():
    def program():
        class Model:
            calls = 0

            def __init__(self, k):
                self.k = k

            def scale(self, n):
                return self.k * n

        m = Model(3)

        def f(x):
            bound = m.scale
            return x * bound(2), bound.__self__ is m, bound.__func__ is Model.scale, bound.__name__

        return f, [(X,), (X,)]

    same(program)


def test_operators_on_aliases_of_classes_ask_the_class_of_the_alias():
    def f(x):
        alias = list[int]
        told = []
        for call in (lambda: (int | str)(3), lambda: alias + 1, lambda: len(alias)):
            try:
                told.append(call())
            except TypeError as error:
                told.append(str(error))
        return x + 1, [alias == other for other in (1, [1], list[int])], alias in [[1], 2], [*alias] == [*alias], told

    same(lambda: (f, [(X,)]), fullgraph=False)
    assert f(X)[1:3] == ([False, False, True], False)


def test_a_bound_method_is_bound_once_and_for_all_where_it_says_so():
    """`method.__get__` is its own from 3.13 on, and the function's before."""

    class Owner:
        def who(self):
            return self

    class Other:
        pass

    def f(x, owner, other):
        other.who = owner.who.__get__(other, Other)
        return x + 1, other.who() is owner

    expected = f(torch.ones(1), Owner(), Other())[1]
    assert minicompile.compile(f, backend="eager")(torch.ones(1), Owner(), Other())[1] is expected


def test_format_takes_a_text_and_a_metaclass_may_call_by_a_function_written_in_c():
    class Plain:
        def __format__(self, spec):
            return f"<{spec}>"

    class Joined(type):
        __call__ = ":".join

    class Joins(metaclass=Joined):
        pass

    def f(x, spec):
        try:
            return x + 1, Joins(["a", "bc"]), format(Plain(), spec)
        except TypeError as error:
            return x, str(error)

    same(lambda: (f, [(X, "3"), (X, None), (X, 4)]), fullgraph=False)


class Counted:
    """Says how many elements it has, in one of three ways."""

    def __init__(self, number):
        self.number = number


class Indexed(Counted):
    __len__ = lambda self: self.number  # noqa: E731

    def __getitem__(self, index):
        return [0, 1][index]


class Sized(Indexed):
    __iter__ = lambda self: iter([0, 1])  # noqa: E731


class Hinting(Counted):
    __iter__ = Sized.__iter__

    def __length_hint__(self):
        return self.number


TAKERS = [
    lambda made: [*made],
    tuple,
    sorted,
    lambda made: (lambda *args: args)(*made),
    lambda made: [0].extend(made),
    lambda made: operator.setitem([2, 3], slice(1), made),
    lambda made: "".join(map(str, made)),
    set,
    collections.deque,
    reversed,
    lambda made: (lambda first, *rest: rest)(*made),
    lambda made: [(first, rest) for first, *rest in [made]],
    len,
    bool,
]


@pytest.mark.parametrize("number", [-1, 2, 1.5, None, 2**70, -(2**70), NotImplemented])
def test_who_makes_a_list_asks_how_long_it_will_be(number):
    def program(x, take, make, number):
        try:
            return x + 1, take(make(number))
        except Exception as error:
            return x, type(error), str(error)

    compiled = minicompile.compile(program, backend="eager")
    for make in (Indexed, Sized, Hinting):
        for take in TAKERS:
            minicompile.reset()
            expected, found = (f(torch.ones(1), take, make, number)[1:] for f in (program, compiled))
            assert list(map(type, expected)) == list(map(type, found)), (make, take)
            assert str(expected) == str(found) or take is reversed, (make, take)


def test_a_number_that_changes_is_no_length_below_zero_and_no_truth():
    def program(x, number):
        answers = []
        for ask in (len, lambda made: [*made], hash, bool, list):
            try:
                answers.append(ask(Asked(number)))
            except (TypeError, ValueError) as error:
                answers.append(str(error))
        return x + 1, answers

    class Asked(Sized):
        __hash__ = __bool__ = Indexed.__len__

    compiled = minicompile.compile(program, backend="eager")
    for number in (2, 5, -1, 7, -3):
        assert compiled(torch.ones(1), number)[1] == program(torch.ones(1), number)[1]


def test_a_tuple_of_another_class_is_reversed():
    class Backwards(tuple):
        def __getitem__(self, index):
            return super().__getitem__(index) * 2

    def program(x):
        return x + 1, type(reversed(Backwards((1, 2)))), list(reversed(Backwards((1, 2))))

    assert minicompile.compile(program, backend="eager")(torch.ones(1))[1:] == program(torch.ones(1))[1:]


class Reflected:
    """What a sequence gets in its place, where CPython asks it as a number first."""

    def __radd__(self, other):
        return "radd", len(other)

    def __rmul__(self, other):
        return "rmul", len(other)

    __iter__, __index__ = Sized.__iter__, lambda self: 2


class Added(list):
    def __add__(self, other):
        return "add", len(self), len(list(other))


def test_in_place_operators_of_sequences_ask_numbers_first():
    def program(x, make, other):
        kept, added, times = make(), make(), make()
        same_one = added
        added += other
        try:
            times *= other
        except TypeError as error:
            times = str(error)
        return x + 1, added, added is same_one, times, kept

    for make in (lambda: [1], lambda: collections.deque([1]), lambda: Added([1])):
        for other in (Reflected(), [2], (2,)):
            compiled = minicompile.compile(program, backend="eager")
            assert compiled(X, make, other)[1:] == program(X, make, other)[1:], other


def test_what_cannot_be_done_is_told_as_in_eager():
    class Indexable(type):
        def __getitem__(cls, name):
            return name

    class OfIndexable(metaclass=Indexable):
        pass

    class Slotted:
        __slots__ = ("value",)

    def program(x, action):
        try:
            return x + 1, action()
        except (AttributeError, TypeError) as error:
            return x, str(error)

    def forget(made):
        del made.value

    actions = [
        lambda: "".join("a") % OfIndexable(),
        lambda: iter(3, 1),
        lambda: forget(Slotted()),
        lambda: Slotted().value,
    ]
    for action in actions:
        minicompile.reset()
        compiled = minicompile.compile(program, backend="eager")
        assert compiled(X, action)[1] == program(X, action)[1]


class Both(tuple):
    pass


@pytest.mark.parametrize("left", ["a", b"a", [1], (1,), Both(), torch.Size([1]), None, 1.5])
def test_a_product_with_a_sequence_names_the_operand_that_is_no_number(left):
    def program(x, left, right):
        try:
            return x + 1, left * right
        except TypeError as error:
            return x, str(error)

    compiled = minicompile.compile(program, backend="eager")
    for right in ("a", [1], (1,), Both(), torch.Size([1]), None):
        minicompile.reset()
        assert compiled(X, left, right)[1] == program(X, left, right)[1], right


NAMES = """
iter contains reversed add radd iadd hash eq lt len bool getitem call index enter exit next int str format setitem
delitem neg round abs divmod pow float missing
""".split()
OPERATIONS = [iter, reversed, hash, len, bool, operator.index, next, int, str, format, operator.neg, round, abs, float]
OPERATIONS += [list, tuple, max, sorted, sum, enumerate, zip, operator.not_, lambda a: [*a], lambda a: [1 for _ in a]]
OPERATIONS += [lambda a: 1 in a, lambda a: None not in a, lambda a: a + 1, lambda a: 1 + a, lambda a: a == 1]
OPERATIONS += [lambda a: a[0], lambda a: a[0:1], lambda a: a(), lambda a: [1][a], lambda a: range(a), lambda a: {a}]
OPERATIONS += [lambda a: operator.setitem(a, 1, 2), lambda a: operator.delitem(a, 1), lambda a: divmod(a, 1)]
OPERATIONS += [
    lambda a: operator.iadd(a, 1),
    lambda a: a < 1,
    lambda a: f"{a}",
    lambda a: 2**a,
    lambda a: 1 if a else 2,
]


@pytest.mark.parametrize("number", range(len(OPERATIONS)))
@pytest.mark.parametrize("base", [object, list, dict, collections.UserDict])
def test_a_special_method_that_is_none_is_taken_back(base, number):
    cls = type("Taken", (base,), {f"__{name}__": None for name in NAMES if base is not collections.UserDict})

    def program(x):
        made = cls()
        try:
            result = OPERATIONS[number](made)
        except (TypeError, LookupError, ValueError) as error:
            return x + 1, type(error), str(error)
        return x + 1, type(result)

    assert minicompile.compile(program, backend="eager")(X)[1:] == program(X)[1:]


class Doubling:
    def __init__(self, by=2):
        self.by = by

    def scale(self, x):
        return self.by * x


class Tripling(Doubling):
    def behind(self):
        found = super()
        return found.__class__, found.__thisclass__, found.__self_class__, found.__self__ is self, found.scale(5)


BY_NAME = """
Doubling().scale.__call__(3)                      type(Doubling().scale).__call__(Doubling().scale, (1,))
Doubling().scale.__class__                        types.MethodType(len, [1]).__call__()
Tripling().behind()                               types.MappingProxyType({1: 2}).__eq__("a")
types.MappingProxyType({1: 2}).__eq__({1: 2})     list(called(itertools.accumulate([1, 2]), [5]))
list(called(itertools.chain([1], [2]), 7, 8))     list(called(itertools.takewhile(bool, [1, 0]), (), {}))
next(called(itertools.repeat(1), None))           itertools.repeat.__init__(itertools.repeat(1), 5)
called(OSError(2, "no")).args                     type(called(OSError(2, "no"), 3, "b")), called(KeyError(1), 2).args
(lambda found: (copy.copy(found) is found, found.__deepcopy__({}) is found))(re.match("a", "ab"))
{1: 2}.keys().__init__(5)                         {1: 2}.keys().__rand__({1}), {1: 2}.items().__xor__([])
"""


@pytest.mark.parametrize("text", [part for line in BY_NAME.splitlines() for part in line.split("  ") if part])
def test_a_special_method_called_by_its_name(text):
    def called(made, *arguments):
        assert made.__init__(*arguments) is None
        return made

    program = eval(f"lambda x: (x + 1, {text})", {**globals(), "called": called})
    assert str(minicompile.compile(program, backend="eager")(X)) == str(program(X))


class Noted(list):
    noted = 0

    def append(self, item):
        self.noted += 1
        super().append(item)


def test_what_is_called_by_its_name_is_called_when_the_program_runs():
    """Not once during capture."""
    module = types.ModuleType("module")

    def f(x, items, step):
        def run(item):
            items.append(item + step)

        list.append.__call__(items, 4)
        heapq.heappush.__call__(items, 0)
        operator.methodcaller("append", 6).__call__(items)
        module.__setattr__("level", step)
        torch._dynamo.graph_break()
        run.__call__(1)
        type(run).__call__(run, 2)
        list.extend.__call__(items, map(run.__call__, (3,)))
        module.__setattr__("level", module.level + 1)
        module.__setattr__("other", 1)
        module.__delattr__("other")
        return x + 1, items, module.level, hasattr(module, "other")

    compiled = minicompile.compile(f, backend="eager")
    for step in (1, 2, 2, 3):
        assert compiled(X, [5], step)[1:] == f(X, [5], step)[1:]


def test_a_method_in_c_that_the_class_overrides_stays_the_one_in_c():
    def f(x, items):
        plain, own, size = list.append.__get__(items), items.append, list.__len__.__get__(items)
        torch._dynamo.graph_break()
        plain(1), own(2)
        return x + 1, items, items.noted, size()

    compiled = minicompile.compile(f, backend="eager")
    for _ in range(2):
        assert compiled(X, Noted([3]))[1:] == f(X, Noted([3]))[1:] == ([3, 1, 2], 1, 3)
