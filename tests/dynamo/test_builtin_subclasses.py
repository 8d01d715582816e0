"""Objects of classes that derive from builtins, and special methods, against eager."""

import collections
import dataclasses
import functools
import types
import typing

import pytest
import torch
from worlds import same

import minicompile

X = torch.tensor([1.0, 2.0, 3.0])


def twice(function, **options):
    same(lambda: (function, [(X,), (X,)]), **options)


@functools.total_ordering
class Ord:
    def __init__(self, k):
        self.k = k

    def __eq__(self, o):
        return self.k == o.k

    def __lt__(self, o):
        return self.k < o.k

    def __hash__(self):
        return hash(self.k)


def test_total_ordering():
    def f(x):
        a, b = Ord(1), Ord(2)
        return (
            x,
            a <= b,
            a > b,
            a >= b,
            max(a, b).k,
            sorted([b, a])[0].k,
            a in [Ord(1)],
            [Ord(1), b].index(Ord(1)),
            min([b, a], key=lambda o: -o.k).k,
        )

    twice(f)


def test_hash_keys():
    def f(x):
        d = {Ord(1): 5, Ord(2): 6}
        return x + d[Ord(1)], Ord(3) in d, len({Ord(1), Ord(1)})

    twice(f, fullgraph=False)


class It:
    def __init__(self, n):
        self.n = n

    def __iter__(self):
        for i in range(self.n):
            yield i * 2

    def __reversed__(self):
        return iter([9, 8])

    def __index__(self):
        return self.n

    def __int__(self):
        return self.n + 1

    def __float__(self):
        return self.n + 0.5

    def __round__(self, d=0):
        return ("r", d)

    def __abs__(self):
        return "abs"

    def __invert__(self):
        return "inv"

    def __pos__(self):
        return "pos"

    def __matmul__(self, o):
        return ("mm", o)

    def __rmatmul__(self, o):
        return ("rmm", o)

    def __pow__(self, o, m=None):
        return ("pow", o, m)

    def __divmod__(self, o):
        return ("dm", o)

    def __str__(self):
        return "It!"

    def __format__(self, spec):
        return f"<{spec}>"

    def __bool__(self):
        return False

    def __length_hint__(self):
        return 3

    def __rsub__(self, o):
        return ("rsub", o)

    def __imul__(self, o):
        self.n *= o
        return self

    def __ge__(self, o):
        return ("ge", o)


def test_specials():
    def f(x):
        i = It(3)
        y = [1, 2, 3, 4, 5][: It(2)]
        j = It(2)
        j *= 4
        return (
            x + int(i),
            list(i),
            list(reversed(i)),
            y,
            range(It(2)),
            float(i),
            round(i),
            round(i, 2),
            abs(i),
            ~i,
            +i,
            i @ 2,
            3 @ i,
            i**2,
            divmod(i, 4),
            str(i),
            f"{i:abc}{i!s}",
            not i,
            4 - i,
            j.n,
            i >= 4,
            4 <= i,
            4 in i,
            [0, 1, 2, 3][i],
            x.sum(0) if i else 7,
        )

    twice(f)


def test_user_dict_classes():
    class Cfg(dict):
        def __getattr__(self, n):
            try:
                return self[n]
            except KeyError:
                raise AttributeError(n)

        def __setattr__(self, n, v):
            self[n] = v

    class L(list):
        def __init__(self, *a):
            super().__init__(a)
            self.tag = 1

        def __getitem__(self, i):
            return super().__getitem__(i) * 2

    class C(collections.UserDict):
        pass

    class Cnt(collections.Counter):
        pass

    class DD(collections.defaultdict):
        pass

    class S(set):
        def add(self, v):
            super().add(v + 1)

    def program():
        c = Cfg(a=1, n=Cfg(z=2))
        l = L(1, 2)
        u = C(a=1)
        st = S([1])
        dd = collections.defaultdict(list)

        def f(x):
            c.b = c.a + c.n.z
            c["q"] = hasattr(c, "nope")
            l.append(4)
            u["k"] = u["a"] + 1
            st.add(5)
            dd["x"].append(1)
            n = Cfg()
            n.t = x
            m = L(3, 4)
            m.append(x)
            return (
                x + c.b + l[2],
                l,
                len(u),
                6 in st,
                n,
                m.tag,
                dict(c),
                list(l),
                n.t,
                c.get("zz", 3),
                {**c}["a"],
                sum(l),
                m[2],
            )

        return f, [(X,), (X,)], lambda: (dict(c), list(l), u.data, set(st), dict(dd))

    same(program, fullgraph=False)


def test_str_int_subclass():
    class P(str):
        def __new__(cls, v, n):
            o = super().__new__(cls, v)
            o.n = n
            return o

        def __truediv__(self, o):
            return P(self + "/" + o, self.n + 1)

    class Whole(int):
        def __add__(self, o):
            return Whole(super().__add__(o))

        def __repr__(self):
            return f"I({int(self)})"

    class Fl(float):
        pass

    def program():
        p = P("a", 1)
        i = Whole(4)

        def f(x):
            q = p / "b"
            j = i + 3
            return (
                x * i + x[Whole(1)] + Fl(2.5),
                type(q).__name__,
                q.n,
                q.upper(),
                len(q),
                q == "a/b",
                j,
                repr(j),
                i * 2,
                {q: 1}["a/b"],
                j > 6,
                str(Fl(1.5)),
                f"{q}-{j}",
                isinstance(j, Whole),
                "%d" % j,
                q.split("/"),
            )

        return f, [(X,), (X,)]

    same(program, fullgraph=False)


def test_namedtuple_sub():
    class N(typing.NamedTuple):
        a: object
        b: int = 2

        @property
        def c(self):
            return self.b * 2

        def __add__(self, o):
            return N(self.a + o.a, self.b + o.b)

        @classmethod
        def mk(cls, v):
            return cls(v)

    class N2(N):
        def __new__(cls, a):
            return super().__new__(cls, a, 9)

    def f(x):
        n = N(x) + N.mk(x * 2)
        m = N2(x)
        a, *r = n
        return (
            n,
            list(m),
            type(m).__name__,
            n.c,
            n._replace(b=7),
            n[0] + 1,
            a,
            r,
            N._fields,
            n == n,
            N._make([x, 3]),
            m.b,
            isinstance(m, tuple),
            N(1) < N(2),
            hash(N(1, 2)) == hash((1, 2)),
            max(N(1), N(3)).a,
        )

    twice(f, fullgraph=True)


def test_simple_namespace():
    def program():
        ns = types.SimpleNamespace(a=1, b=[1])

        def f(x):
            ns.a += 1
            ns.b.append(2)
            ns.c = x * 2
            n2 = types.SimpleNamespace(q=x)
            return x + ns.a, n2.q, ns.b

        return f, [(X,), (X,)], lambda: ns.__dict__

    same(program, fullgraph=False)


@dataclasses.dataclass(frozen=True)
class FrozenKey:
    a: int
    b: str = "q"


def test_keys_with_a_hash_of_their_own():
    def program():
        store = {}
        old = FrozenKey(5)

        def f(x):
            d = {FrozenKey(1): 2, Ord(1): 5}
            d[FrozenKey(1)], d[FrozenKey(2)] = 3, 4
            store[FrozenKey(7)] = x * 2
            seen = {FrozenKey(1), FrozenKey(1), Ord(2), Ord(2)}
            found = FrozenKey(1) in d, Ord(9) in d, d.get(FrozenKey(3), 8), len(seen), FrozenKey(1) in seen
            popped = d.pop(FrozenKey(2)), {old: 1}[FrozenKey(5)], [FrozenKey(1), FrozenKey(2)].index(FrozenKey(2))
            return x + d[FrozenKey(1)] + d[Ord(1)], found, popped, len(d)

        return f, [(X,), (X,)], lambda: (len(store), next(iter(store)).a)

    same(program)


def test_a_key_nobody_asked_for_may_change():
    class Registry(dict):
        def get(self, key):
            return super().get(str(key)) or 0

    def program():
        registry = Registry({"1": 5})

        def f(x):
            return x + registry.get(1) + registry.get(2)

        def other():
            registry["9"] = 1

        return f, [(X,), other, (X,), (X,)]

    same(program, recompiles=0)


def test_what_a_derived_container_is_made_of():
    class Row(list):
        pass

    class Table(dict):
        pass

    class Group(set):
        pass

    def program(x, items):
        found = []
        for cls in (Row, Table, Group):
            for arguments in ((), ([],), (items, items), (items, 2, 3)):
                try:
                    found.append(len(cls(*arguments)))
                except TypeError as error:
                    found.append(str(error))
        return x + 1, found

    compiled = minicompile.compile(program, backend="eager")
    assert compiled(torch.ones(2), [1, 2])[1] == program(torch.ones(2), [1, 2])[1]


class LongerList(list):
    pass


class LongerDeque(collections.deque):
    pass


@pytest.mark.parametrize("kind", [list, LongerList, collections.deque, LongerDeque])
def test_a_list_is_made_longer_by_itself(kind):
    def program(x):
        items = kind([x, 1])
        items += items
        items.extend(items)
        if hasattr(items, "extendleft"):
            items.extendleft(items)
        return type(items), [type(item) for item in items]

    x = torch.ones(2)
    assert minicompile.compile(program, backend="eager")(x) == program(x)


def test_a_copy_of_a_frozenset_of_another_class_is_a_plain_one_and_sizes_are_eagers():
    class Frozen(frozenset):
        pass

    class Number(int):
        pass

    class Word(str):
        pass

    def f(x, frozen):
        copied, number, letters = frozen.copy(), Number(2**40), iter(Word("abc"))
        sizes = number.__sizeof__(), type(letters).__name__, next(letters), type(iter("a")).__name__
        return x + 1, copied is frozen, type(copied), copied == frozen, sizes, letters, iter(Word("\xe9"))

    compiled = minicompile.compile(f, backend="eager")
    for frozen in (Frozen("ab"), Frozen(), Frozen("ab")):
        *expected, rest, other = f(torch.ones(1), frozen)[1:]
        *found, letters, another = compiled(torch.ones(1), frozen)[1:]
        assert found == expected and expected[:3] == [False, frozenset, True]
        assert type(letters) is type(rest) is type(another) is type(other) and list(letters) == list(rest)


ASKED = (
    "__module__",
    "__name__",
    "__qualname__",
    "__doc__",
    "__text_signature__",
    "__wrapped__",
    "__dict__",
    "__func__",
)
TABLE, PLAIN_ERROR = type("Table", (dict,), {}), type("PlainError", (Exception,), {})
BOUND = {
    "method": TABLE(a=1).get,
    "slot": TABLE(a=1).__len__,
    "class method": TABLE.fromkeys,
    "method of an exception": PLAIN_ERROR(1).with_traceback,
    "slot of object": PLAIN_ERROR(1).__init__,
}


@pytest.mark.parametrize("bound", BOUND.values(), ids=BOUND)
def test_a_bound_method_written_in_c_has_its_own_attributes(bound):
    """Not those of what it was made of."""

    def f(x, owner, name):
        method, found = getattr(owner, name), []
        for asked in ASKED:
            try:
                found.append(getattr(method, asked))
            except AttributeError as error:
                found.append(str(error))
        return x + 1, found, method.__class__, method.__self__ is owner

    compiled, x = minicompile.compile(f, backend="eager", fullgraph=True), torch.ones(1)
    assert str(compiled(x, bound.__self__, bound.__name__)) == str(f(x, bound.__self__, bound.__name__))


@pytest.mark.parametrize("base", [list, dict, set, collections.deque, collections.OrderedDict])
def test_an_object_is_changed_that_its_owner_has_let_go_of(base):
    """Not what the owner holds by then."""
    add = {list: "append", collections.deque: "append", set: "add"}.get(base, "setdefault")

    def f(x, owner, kept):
        one, owner["one"] = owner["one"], 4
        getattr(one, add)(5)

        def read():
            return one

        torch._dynamo.graph_break()
        other = read()
        one = base()
        getattr(other, add)(6)
        return x + 1, kept, read() is one

    derived = type("Derived", (base,), {})
    results = []
    for call in (f, minicompile.compile(f, backend="eager")):
        kept = derived()
        owner = {"one": kept}
        _, found, is_read = call(X, owner, kept)
        assert found is kept and is_read and owner == {"one": 4}
        results.append(list(kept))
    assert results[0] == results[1] == [5, 6]


@pytest.mark.parametrize("base", [dict, collections.OrderedDict, collections.defaultdict, collections.Counter])
def test_only_an_ordered_dict_writes_by_the_methods_of_a_subclass(base):
    def f(x):
        log = []

        class Logged(base):
            def __setitem__(self, key, value):
                log.append(key)
                super().__setitem__(key, value)

            def __delitem__(self, key):
                log.append(("gone", key))
                super().__delitem__(key)

        made = Logged(None, a=1) if base is collections.defaultdict else Logged(a=1)
        made.update(b=2), made.setdefault("c", 3), made.setdefault("c", 4)
        made |= {"d": 5}
        return x + 1, made.pop("a"), made.pop("z", 0), made.popitem(), list(made.items()), log

    assert minicompile.compile(f, backend="eager")(X)[1:] == f(X)[1:]


def test_only_numbers_and_texts_see_the_plain_value_of_an_operand():
    class Number(int):
        def __repr__(self):
            return f"Number({int(self)})"

    def f(x, n):
        texts = []
        for operation in (
            lambda: typing.TypeVar("V") | n,
            lambda: typing.Optional[int] | n,
            lambda: n | typing.TypeVar("V"),
            lambda: list[int] == n,
            lambda: (int | str) == n,
            lambda: 3 | n,
            lambda: None == n,  # noqa: E711
            lambda: range(3) == n,
        ):
            try:
                texts.append(repr(operation()))
            except TypeError as error:
                texts.append(str(error))
        return x + 1, texts

    for number in (Number(2), 2, Number(3)):
        assert minicompile.compile(f, backend="eager")(X, number)[1] == f(X, number)[1]
