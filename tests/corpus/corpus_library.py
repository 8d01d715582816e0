"""Examples: the standard library and rarer parts of the language."""

import abc
import ast
import bisect
import collections
import contextlib
import dataclasses
import datetime
import decimal
import enum
import fractions
import functools
import hashlib
import heapq
import inspect
import io
import itertools
import json
import operator
import os
import pathlib
import random
import statistics
import string
import sys
import textwrap
import types
import typing

import torch
from corpus import X, example


@example("collections of the standard library")
def heap_queue(x):
    heap = []
    for k in (3, 1, 2):
        heapq.heappush(heap, (k, str(k)))
    return x * heapq.heappop(heap)[0], heapq.nsmallest(2, [3, 1, 2]), heap


@example("collections of the standard library")
def bisecting(x):
    rows = [1, 3, 5]
    bisect.insort(rows, 4)
    return x + bisect.bisect_left(rows, 3), rows


@example("standard library")
def fractions_and_decimals(x):
    return x * float(fractions.Fraction(1, 3) + fractions.Fraction(1, 6)), decimal.Decimal("1.5") + 1


@example("standard library")
def dates(x):
    return x + datetime.date(2024, 1, 31).day, datetime.timedelta(seconds=90).total_seconds()


@example("standard library")
def statistics_of_numbers(x):
    return x + statistics.mean([1, 2, 3]) + statistics.median([1, 5, 2])


@example("standard library")
def json_round_trip(x):
    return x * json.loads(json.dumps({"a": [1, 2]}))["a"][1]


@example("standard library")
def path_parts(x):
    p = pathlib.PurePosixPath("a/b") / "c.txt"
    return x + len(p.parts), p.suffix, p.stem, str(p)


@example("standard library")
def string_io(x):
    out = io.StringIO()
    out.write("ab")
    out.write("c")
    return x + len(out.getvalue())


@example("string and bytes methods")
def format_spec_class(x):
    pass
    return x + len(f"{3.5:>8.2f}|{10:#x}|{'a':^5}|{1_000:,}"), "{0[a]} {1.real}".format({"a": 1}, 2)


@example("string and bytes methods")
def string_template(x):
    return x + len(string.Template("$a b").substitute(a=12))


@example("string and bytes methods")
def text_wrap(x):
    return x + len(textwrap.wrap("aa bb cc", 5)), textwrap.shorten("hello world", 8)


@example("standard library")
def environment(x):
    return x + len(os.environ.get("SURELY_NOT_SET", "ab")), os.path.join("a", "b"), os.sep


@example("standard library")
def python_version(x):
    return x + (sys.version_info >= (3, 11)), sys.maxsize > 0, sys.byteorder


@example("string and bytes methods")
def int_bytes(x):
    return x + int.from_bytes((258).to_bytes(2, "big"), "little"), (5).bit_count()


@example("star-expressions")
def unpack_nested(x):
    (a, (b, *c)), d = (1, (2, 3, 4)), {"k": 5}
    return x * a + b + sum(c) + d["k"]


@example("closures shared between functions")
def conditional_lambda_defaults(x):
    fs = [lambda t, k=k: t + k for k in range(3)]
    return fs[0](x) + fs[2](x)


@example("dict views and ordering")
def dict_merge_operators(x):
    a = {"p": 1} | {"q": 2}
    a |= {"p": 3}
    return x * a["p"] + a["q"], {**a, "z": 0}


@example("dict views and ordering")
def dict_comprehension_sorted(x):
    d = {k: v for k, v in sorted({"b": 2, "a": 1}.items(), key=lambda kv: kv[1], reverse=True)}
    return x + list(d.values())[0], min(d, key=d.get), max(d.values())


@example("sets")
def set_operations(x):
    s = {1, 2} | {3} & {3, 4} ^ {5}
    return x + len(s), s - {1}, s.issubset(range(9)), frozenset(s).isdisjoint({9})


@example("try/except/finally/else")
def try_in_loop_continue(x):
    for k in range(4):
        try:
            if k == 1:
                continue
            if k == 3:
                break
            x = x + k
        finally:
            x = x * 2
    else:
        x = x * 0
    return x


@example("closures shared between functions")
def nested_functions_recursive(x):
    def fact(n):
        return 1 if n < 2 else n * fact(n - 1)

    return x * fact(5)


@example("closures shared between functions")
def mutual_recursion(x):
    def even(n):
        return True if n == 0 else odd(n - 1)

    def odd(n):
        return False if n == 0 else even(n - 1)

    return x + even(6) + odd(3)


@example("classes defined inside functions")
def global_counter_class_attr(x):
    class C:
        n = 0

    for _ in range(3):
        C.n += 1
    return x + C.n


@example("typing constructs")
def assert_never_and_type_alias(x):
    Pair = tuple[int, int]
    p: Pair = (1, 2)
    return x + p[0]


@example("generators and generator expressions")
def generator_expression_any(x):
    return x + any(k > 2 for k in range(5)) + all(k for k in (1, 2)) + next((k for k in range(9) if k > 4), -1)


@example("itertools")
def zip_longest_and_strict(x):
    return x + sum(a * (b or 1) for a, b in itertools.zip_longest([1, 2, 3], [4])), list(zip("ab", [1, 2], strict=True))


@example("itertools")
def itertools_various(x):
    r = (
        list(itertools.accumulate([1, 2, 3], operator.mul)),
        list(itertools.pairwise("abc")),
        list(itertools.islice(itertools.count(2, 3), 3)),
    )
    return x + r[0][-1], r, list(itertools.groupby("aab"))[0][0]


@example("functools.lru_cache")
def functools_cache_inside(x):
    @functools.cache
    def fib(n):
        return n if n < 2 else fib(n - 1) + fib(n - 2)

    return x * fib(10)


class Degrees:
    def __init__(self, c):
        self.c = c

    def __format__(self, spec):
        return f"{self.c}{spec}"

    def __bytes__(self):
        return b"abc"

    def __index__(self):
        return 2

    def __round__(self, n=0):
        return 7

    def __complex__(self):
        return 1j

    def __contains__(self, k):
        return k == self.c

    def __reversed__(self):
        return iter([3, 2])

    def __divmod__(self, o):
        return 4, o

    def __matmul__(self, o):
        return 5

    def __dir__(self):
        return ["q"]


@example("operator overloading with reflected forms", X, Degrees(3))
def rare_special_methods(x, v):
    return x[v] + round(v) + (3 in v) + list(reversed(v))[0] + divmod(v, 6)[1] + v @ 1, f"{v:C}", bytes(v), hex(v)


@dataclasses.dataclass(order=True, slots=True)
class Slotted:
    a: int
    b: list = dataclasses.field(default_factory=list, compare=False)


@example("dataclasses", X, Slotted(2))
def dataclass_slots(x, s):
    s.b.append(1)
    o = dataclasses.replace(s, a=5)
    return x * o.a, o > s, dataclasses.asdict(s), [f.name for f in dataclasses.fields(s)]


@dataclasses.dataclass
class Settings:
    x: int = 1
    y: int = dataclasses.field(init=False)
    z: dataclasses.InitVar[int] = 3

    def __post_init__(self, z):
        self.y = self.x + z


@example("dataclasses")
def dataclass_post_init(x):
    return x + Settings(2).y, Settings(4, z=1)


class Letter(enum.StrEnum):
    A = "a"
    B = "b"


@example("enums", X, Letter.A)
def string_enum(x, e):
    return x + (e == "a") + len(e.upper()), {"a": 1}[e], Letter("b") is Letter.B


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 5


@example("enums", X, Level.HIGH)
def int_enum(x, e):
    return x * e + Level.LOW, e > 3, Level(1).name


class Pair(typing.NamedTuple):
    a: torch.Tensor
    b: int = 2

    def both(self):
        return self.a * self.b


@example("typing constructs", Pair(X))
def typed_named_tuple(n):
    return n.both(), n._replace(b=3), n._asdict()["b"], Pair._fields


@example("classes defined inside functions", X)
def protocol_and_abstract(x):
    class A(abc.ABC):
        @abc.abstractmethod
        def f(self): ...

    class B(A):
        def f(self):
            return 3

    return x + B().f()


class Doubling:
    def __set_name__(self, owner, name):
        self.name = "_" + name

    def __get__(self, o, t=None):
        return self if o is None else getattr(o, self.name, 1)

    def __set__(self, o, v):
        setattr(o, self.name, v * 2)


class Doubled:
    v = Doubling()


@example("descriptors")
def descriptor_set_name(x):
    o = Doubled()
    o.v = 4
    return x * o.v + Doubled().v


class Registered:
    subs = []

    def __init_subclass__(cls, **kw):
        Registered.subs.append(cls.__name__)


class RegisteredChild(Registered):
    pass


@example("metaclasses")
def init_subclass_seen(x):
    return x + len(Registered.subs), RegisteredChild.__mro__[1].__name__


class Meta(type):
    def __call__(cls, *a):
        o = super().__call__(*a)
        o.made = True
        return o

    def __contains__(cls, k):
        return k == 1

    def __getitem__(cls, k):
        return k * 2

    @property
    def size(cls):
        return 9


class Made(metaclass=Meta):
    def __init__(self, n):
        self.n = n


@example("metaclasses")
def metaclass_protocols(x):
    return x + Made(2).n + Made(1).made + (1 in Made) + Made[4] + Made.size


class Singleton:
    _i = None

    def __new__(cls):
        if cls._i is None:
            cls._i = super().__new__(cls)
            cls._i.n = 0
        cls._i.n += 1
        return cls._i


@example("metaclasses")
def singleton_new(x):
    return x + (Singleton() is Singleton())


class Numbered:
    def __getattr__(self, n):
        if n.startswith("k"):
            return int(n[1:])
        raise AttributeError(n)


@example("__getattr__/__getattribute__/__setattr__", X, Numbered())
def getattr_fallback(x, g):
    return x * g.k3 + hasattr(g, "zz") + getattr(g, "q", 5)


class Manager:
    def __init__(self, log):
        self.log = log

    def __enter__(self):
        self.log.append("in")
        return self

    def __exit__(self, t, v, tb):
        self.log.append(t and t.__name__)
        return t is KeyError


@example("user context managers", X, [])
def suppressing_manager(x, log):
    with Manager(log):
        x = x + 1
        {}["a"]
    with contextlib.suppress(ZeroDivisionError):
        1 / 0
    return x, log


@example("ExitStack")
def exit_stack_callbacks(x):
    log = []
    with contextlib.ExitStack() as stack:
        stack.callback(log.append, 1)
        stack.enter_context(Manager(log))
        stack.push(lambda *a: log.append("p"))
    return x + len(log), log


@example("contextlib")
def redirect_and_closing(x):
    class R:
        def close(self):
            self.closed = True

    r = R()
    with contextlib.closing(r), contextlib.nullcontext(3) as n:
        pass
    return x + n + r.closed


@example("cause/context")
def exception_notes_chain(x):
    try:
        try:
            raise ValueError("a")
        except ValueError as e:
            e.add_note("n")
            raise KeyError("b") from e
    except KeyError as k:
        return x + len(k.__cause__.__notes__), type(k.__context__).__name__


@example("generators and generator expressions")
def exception_in_generator_finally(x):
    log = []

    def g():
        try:
            yield 1
            yield 2
        finally:
            log.append("f")

    for v in g():
        if v == 1:
            break
    return x + v, log


@example("send/throw/close")
def generator_send_loop(x):
    def acc():
        total = 0
        while True:
            got = yield total
            if got is None:
                return total
            total += got

    a = acc()
    next(a)
    a.send(3)
    a.send(4)
    try:
        next(a)
    except StopIteration as s:
        return x * s.value


@example("iteration protocols")
def iterator_class_getitem(x):
    class S:
        def __getitem__(self, i):
            if i > 2:
                raise IndexError
            return i

        def __len__(self):
            return 3

    return x + sum(S()) + list(reversed(S()))[0] + (2 in S())


@example("match")
def match_patterns(x):
    out = []
    for v in ([1, 2, 3], {"k": 1, "z": 2}, (1,), "s", 3, None, Slotted(1)):
        match v:
            case [a, *rest]:
                out.append((a, len(rest)))
            case {"k": k, **r}:
                out.append((k, r))
            case Slotted(a=n) if n > 0:
                out.append(n)
            case str() | None:
                out.append("sn")
            case int(n):
                out.append(n)
    return x + len(out), out


@example("string and bytes methods")
def string_formatting_percent(x):
    return x + len("%5.2f|%-4s|%03d|%r" % (1.5, "a", 7, "q")), "%(a)s" % {"a": 1}


@example("string and bytes methods")
def bytes_memoryview(x):
    m = memoryview(b"abc")
    return x + m[0] + len(m)


@example("collections of the standard library")
def array_module(x):
    import array

    return x + array.array("i", [1, 2])[1]


@example("global")
def local_import(x):
    import math as m
    from collections import OrderedDict

    return x * m.floor(2.5) + len(OrderedDict(a=1))


@example("standard library")
def hashing(x):
    return x + len(hashlib.md5(b"a").hexdigest())


@example("standard library")
def literal_eval(x):
    return x + ast.literal_eval("[1, 2]")[1]


@example("collections.SimpleNamespace")
def types_simple(x):
    ns = types.SimpleNamespace(a=1)
    ns.b = 2
    return x + ns.a + ns.b, isinstance(len, types.BuiltinFunctionType), types.MethodType(lambda s: 4, 1)()


@example("inspect.signature")
def inspect_things(x):
    def g(a, b=2):
        return a

    return (
        x + len(inspect.signature(g).parameters),
        inspect.isfunction(g),
        inspect.isclass(int),
        callable(g),
        g.__name__,
    )


@example("operator")
def operator_module(x):
    return operator.add(x, 1) * operator.itemgetter(1)([5, 6]) + operator.attrgetter("shape")(x)[
        0
    ], operator.methodcaller("sum")(x)


@example("standard library")
def random_with_seed(x):
    r = random.Random(3)
    return x * r.random() + r.randint(1, 3)


@example("string and bytes methods")
def complex_formatting(x):
    return x + len(repr({"a": (1, 2.5, None, True, b"x", 1j)}))


@example("lists and tuples")
def slices_and_del(x):
    a = list(range(10))
    a[2:5] = [0]
    del a[::2]
    a.insert(1, 99)
    a.sort()
    a.reverse()
    return x + len(a), a, a.index(99)


@example("collections of the standard library")
def deque_rotate(x):
    d = collections.deque([1, 2, 3], maxlen=3)
    d.append(4)
    d.rotate(1)
    d.extendleft([9])
    return x + d[0], list(d)


@example("collections of the standard library")
def counter_ops(x):
    c = collections.Counter("aab") + collections.Counter("b")
    return x + c["a"], c.most_common(1), sorted(c.elements())


@example("collections of the standard library")
def ordered_dict_moves(x):
    o = collections.OrderedDict(a=1, b=2)
    o.move_to_end("a")
    o.popitem(last=False)
    return x + o["a"], list(o)


@example("collections of the standard library")
def user_list(x):
    class L(collections.UserList):
        pass

    l = L([1, 2])
    l.append(3)
    return x + len(l) + l[0]
