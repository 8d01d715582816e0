"""Builtin functions, operators, strings and numbers during capture, against eager."""

import cmath
import collections
import collections.abc
import copy
import enum
import functools
import math
import numbers
import operator
import os.path
import pathlib
import re
import sys
import types
import typing

import pytest
import torch

import minicompile
from minicompile.testing import check

X = torch.tensor([1.0, 2.0])


def named(*functions):
    """Parameters with readable ids: the line of each function."""
    return pytest.mark.parametrize("fn", [pytest.param(f, id=f"line{f.__code__.co_firstlineno}") for f in functions])


def whole(fn, *args):
    """The function is one graph (no break) and does what eager does, twice."""
    check(fn, *args, compiler=lambda f: minicompile.compile(f, backend="eager", fullgraph=True), exact=True)


def complaint(action, x):
    """What the captured program itself sees of an error."""
    try:
        return "no error", action(x)
    except Exception as error:
        return type(error).__name__, str(error)


class Color(enum.Enum):
    RED = 1
    BLUE = "b"

    def shout(self):
        return self.name.upper() + "!"


class Number:
    """Has every operator; says which one was asked."""

    def __init__(self, v):
        self.v = v

    def __add__(self, other):
        return ("add", self.v, other)

    def __radd__(self, other):
        return ("radd", self.v, other)

    def __iadd__(self, other):
        self.v += other
        return self

    def __mul__(self, other):
        return NotImplemented

    def __rmul__(self, other):
        return ("rmul", self.v, other)

    def __rsub__(self, other):
        return ("rsub", other)

    def __neg__(self):
        return -self.v

    def __abs__(self):
        return 77

    def __invert__(self):
        return "inverted"

    def __eq__(self, other):
        return isinstance(other, Number) and self.v == other.v

    def __lt__(self, other):
        return self.v < other.v

    def __hash__(self):
        return hash(self.v)

    def __len__(self):
        return 3

    def __bool__(self):
        return self.v != 0

    def __index__(self):
        return self.v

    def __contains__(self, item):
        return item == self.v

    def __getitem__(self, key):
        return ("item", key)

    def __setitem__(self, key, value):
        self.v = (key, value)

    def __delitem__(self, key):
        self.v = key

    def __call__(self, *args, **kwargs):
        return args, kwargs

    def __round__(self, digits=None):
        return ("round", digits)

    def __divmod__(self, other):
        return ("divmod", other)

    def __format__(self, spec):
        return f"<{self.v}:{spec}>"

    def __str__(self):
        return "text"

    def __repr__(self):
        return f"Number({self.v})"

    def __float__(self):
        return 1.5

    def __pow__(self, other):
        return ("pow", other)

    def __matmul__(self, other):
        return "matmul"


class Special(Number):
    def __radd__(self, other):
        return ("special radd", self.v)


# --- operators ----------------------------------------------------------------------------------------
def numbers_and_operators(x):
    a, b = 7, -3
    return (
        *(
            a + b,
            a - b,
            a * b,
            a / b,
            a // b,
            a % b,
            a**2,
            a << 1,
            a >> 1,
            a & 3,
            a | 8,
            a ^ 1,
            -a,
            +a,
            ~a,
            divmod(a, b),
        ),
        *(
            a < b,
            a <= 7,
            a == 7.0,
            a != b,
            a > b,
            a >= b,
            not a,
            a and b,
            a or b,
            1 < a < 10,
            True + True,
            pow(2, 5),
            pow(2, 5, 7),
        ),
        *(
            0.1 + 0.2,
            1e300 * 1e300,
            7.5 // 2,
            -7 % 3,
            1j * 1j,
            2**-1,
            "a" + "b",
            "ab" * 2,
            "%s-%d" % ("k", 3),
            b"a" + b"b",
        ),
    )


def user_operators(x):
    n, m, s = Number(2), Number(2), Special(5)
    out = (n + 1, 1 + n, 2 * n, 5 - n, n + s, n == m, n != m, n < s, s > n, -n, abs(n), ~n, n == 3, 3 == n, n @ 1, n**3)
    items = (
        len(n),
        bool(n),
        n[1],
        n["k":2],
        2 in n,
        3 not in n,
        n(1, k=2),
        [10, 20, 30][n],
        "abc"[n],
        range(5)[n],
    )
    more = (
        round(n),
        round(n, 2),
        divmod(n, 3),
        f"{n:>4}",
        str(n),
        repr(n),
        [n],
        float(n),
        hash(n) == hash(2),
        {n: 1}[m] if False else 0,
    )
    n[3] = 4
    del m["q"]
    p = q = Number(1)
    p += 5
    return out, items, str(more), n.v, m.v, p is q, q.v, [1] + [n.v], [1, 2] * s


def in_place_operators(x):
    a, s = 5, "a"
    a += 2
    a -= 1
    a *= 3
    a //= 2
    a **= 2
    a %= 50
    a <<= 1
    a |= 1
    a ^= 2
    a &= 0xFF
    s += "b"
    y = x + 0
    y += 1
    y *= 2
    z = 3
    z += x
    return a, s, y, z


def operator_module(x):
    return (
        *(
            operator.add(x, 1),
            operator.mul(2, 3),
            operator.getitem([1, 2], 0),
            operator.contains([1], 1),
            operator.not_([]),
        ),
        *(
            operator.truth([0]),
            operator.is_(None, None),
            operator.is_not(1, None),
            operator.index(5),
            operator.concat([1], [2]),
        ),
        *(
            operator.neg(x),
            operator.abs(-3),
            operator.eq(1, 1),
            operator.iadd([1], [2]),
            operator.pow(2, 3),
            operator.inv(4),
        ),
    )


def identity(x):
    a, b = [1], [1]
    return (
        a is a,
        a is b,
        a is not b,
        None is None,
        x is x,
        (x + 1) is x,
        True is True,
        int is int,
        len is len,
        Color.RED is Color.RED,
    )


@named(numbers_and_operators, user_operators, in_place_operators, operator_module, identity)
def test_operators(fn):
    whole(fn, X)


@named(
    lambda x: 1 + "a",
    lambda x: "a" + 1,
    lambda x: 1 < "a",
    lambda x: None < None,
    lambda x: -"a",
    lambda x: ~1.5,
    lambda x: 1 // 0,
    lambda x: 1.0 % 0,
    lambda x: Number(1) * 2,
    lambda x: Number(1) - 2,
    lambda x: Number(1) <= Number(2),
    lambda x: None[0],
    lambda x: 5[0],
    lambda x: 1 in 5,
    lambda x: "a" in 5,
    lambda x: 1 in "a",
    lambda x: "abc"[9],
    lambda x: len(5),
    lambda x: len(),
    lambda x: len([], []),
    lambda x: int("x"),
    lambda x: int([]),
    lambda x: float("y"),
    lambda x: chr(-1),
    lambda x: ord("ab"),
    lambda x: max([]),
    lambda x: min(5),
    lambda x: sum(["a"]),
    lambda x: sum(["a"], ""),
    lambda x: hash({}),
    lambda x: isinstance(1, 5),
    lambda x: issubclass(1, int),
    lambda x: getattr(5, "foo"),  # noqa: B009
    lambda x: getattr([], "foo"),  # noqa: B009
    lambda x: Color(5),
    lambda x: Color["GREEN"],
    lambda x: math.sqrt(-1),
    lambda x: math.factorial(-1),
    lambda x: "{}".format(),
    lambda x: "a".join([1]),
    lambda x: "a".foo,
    lambda x: "a".index("b"),
    lambda x: (5).real.foo,
    lambda x: None.foo,
    lambda x: None(),
    lambda x: "a"(),
    lambda x: abs("a"),
    lambda x: round("a"),
    lambda x: divmod(1, 0),
    lambda x: pow(0, -1),
    lambda x: bytes([300]),
    lambda x: f"{5:z}",
    lambda x: setattr([], "a", 1),
    lambda x: {}.get(),
    lambda x: sorted([1], 5),
)
def test_errors(fn):
    whole(complaint, fn, X)


# --- builtins -------------------------------------------------------------------------------------------
@named(
    lambda x: [abs(-3), abs(x - 5), abs(-1.5), abs(3 + 4j)],
    lambda x: [all([1, 2]), all([1, 0]), all([]), any([0, 1]), any([]), any(v > 1 for v in (1, 2))],
    lambda x: [bin(5), hex(255), oct(8), ord("a"), chr(97), ascii("é"), repr("a"), repr([1, "b", (2,), {3: None}])],
    lambda x: [bool(), bool([]), bool("a"), bool(0.0), bool(None), bool(Number(0))],
    lambda x: [int(), int("12"), int(3.9), int("ff", 16), int(True), int(Number(4)), int("0b1", base=2), int(b"7")],
    lambda x: [
        float(),
        float("1.5"),
        float(3),
        float("nan") != 0,
        float("-inf"),
        complex(1, 2),
        complex("1j"),
        float(x.dim()),
    ],
    lambda x: [
        str(),
        str(5),
        str(None),
        str([1, "a"]),
        str({1: 2}),
        str(1.0),
        str(int),
        str(torch.float32),
        str(Color.RED),
    ],
    lambda x: [list(), tuple(), set(), frozenset(), dict(), list("ab"), tuple([1]), set("aa"), dict(a=x)],  # noqa: C408
    lambda x: [callable(len), callable(5), callable(lambda: 1), callable(int), callable(Number(1)), callable(X.add)],
    lambda x: [
        divmod(7, 2),
        divmod(-7.5, 2),
        round(2.5),
        round(2.567, 2),
        round(15, -1),
        pow(2, 3),
        pow(x, 2),
        pow(2.0, 0.5),
    ],
    lambda x: [
        max(1, 2),
        max([3, 1]),
        min("b", "a"),
        max([1, -5], key=abs),
        min([], default=x),
        max({1: 0, 2: 0}),
        max(1, 2.5),
    ],
    lambda x: [
        max([(1, "a"), (1, "b")]),
        min([[2], [1, 5]]),
        max("abc"),
        min(3, 1, 2, key=lambda v: -v),
        max(Number(1), Number(2)).v,
    ],
    lambda x: [
        sum([1, 2]),
        sum([x, x]),
        sum([[1], [2]], []),
        sum((0.1, 0.2, 0.3)),
        sum([x], 5),
        sum([]),
        sum([1], start=2),
    ],
    lambda x: [len("ab"), len([1]), len({1: 2}), len(x), len(range(5)), len(b"abc"), len({1})],
    lambda x: [
        hash(1) == hash(1.0),
        hash("a") == hash("a"),
        hash((1, "b")) == hash((1, "b")),
        hash(frozenset([1])) != 5,
    ],
    lambda x: [
        format(3.14159, ".2f"),
        format(5),
        format("a", ">3"),
        f"{5:03d}|{'x'!r:>5}|{1.5=}",
        f"{[1]}",
        f"{x.shape}",
        f"{x.dtype}",
    ],
    lambda x: [
        isinstance(1, int),
        isinstance(True, int),
        isinstance("a", (int, str)),
        isinstance(x, torch.Tensor),
        isinstance([], list),
    ],
    lambda x: [
        isinstance(1, int | str),
        isinstance(None, int | None),
        isinstance(x, (list, (tuple, torch.Tensor))),
        isinstance(1, ()),
    ],
    lambda x: [
        isinstance([], collections.abc.Sequence),
        isinstance({}, collections.abc.Mapping),
        isinstance(5, numbers.Number),
    ],
    lambda x: [
        isinstance(x, torch.nn.Parameter),
        isinstance(len, types.BuiltinFunctionType),
        isinstance(iter([]), collections.abc.Iterator),
    ],
    lambda x: [
        isinstance(lambda: 1, collections.abc.Callable),
        isinstance((), collections.abc.Hashable),
        isinstance([], collections.abc.Hashable),
    ],
    lambda x: [
        issubclass(bool, int),
        issubclass(list, (tuple, dict)),
        issubclass(dict, collections.abc.Mapping),
        issubclass(Special, Number),
    ],
    lambda x: [
        type(1) is int,
        type(x) is torch.Tensor,
        type([]),
        type({}) == dict,
        type(Number(1)).__name__,
        type(None),
        type(len),
    ],
    lambda x: [
        (1).__class__,
        [].__class__ is list,
        "a".__class__.__name__,
        x.__class__,
        type(int),
        {}.__class__ is dict,
    ],
    lambda x: [
        getattr(x, "ndim"),
        getattr(5, "zz", None),
        hasattr([], "append"),
        hasattr([], "zz"),
        getattr([1], "pop")(),
    ],  # noqa: B009
    lambda x: [
        hasattr(5, "real"),
        hasattr(x, "foo"),
        hasattr(Color, "RED"),
        getattr(Color, "nope", 3),
        hasattr(frozenset(), "add"),
    ],
    lambda x: [
        list.append,
        dict.get({1: 2}, 1),
        str.upper("a"),
        list.__len__([1]),
        int.__add__(1, 2),
        str.join(",", ["a", "b"]),
    ],
    lambda x: [
        sorted([3, 1]),
        sorted("ba", reverse=True),
        sorted([x, x + 1], key=lambda v: v.dim()),
        sorted([2, 1], key=None),
    ],
    lambda x: [
        slice(1, 2),
        slice(None),
        range(3),
        range(1, 7, 2),
        slice(3).stop,
        bytes(2),
        bytes([1, 2]),
        bytes("é", "utf8"),
    ],
    lambda x: [
        vars(Number(3)),
        Number(1).__dict__,
        Color.RED.name,
        Color.BLUE.value,
        Color("b"),
        Color["RED"],
        Color.RED.shout(),
    ],
    lambda x: [
        [c.name for c in Color],
        len(Color),
        Color.RED in Color,
        {Color.RED: x}[Color.RED],
        Color.RED == Color.BLUE,
        list(Color),
    ],
    lambda x: [
        copy.copy([1]),
        copy.deepcopy({1: [2]}),
        functools.partial(pow, 2)(3),
        functools.partial(max, key=abs)(-3, 1),
    ],
)
def test_builtins(fn):
    whole(fn, X)


# --- str, bytes, int, float -------------------------------------------------------------------------------
@named(
    lambda x: [
        "a,b".split(","),
        "a b".split(),
        " a ".strip(),
        "ab".upper(),
        "Ab".lower(),
        "ab".title(),
        "a".center(5, "*"),
        "ab".find("b"),
    ],
    lambda x: [
        "-".join(["a", "b"]),
        "-".join(c for c in "abc"),
        "".join(map(str, [1, 2])),
        "a".startswith(("a", "b")),
        "abc".endswith("c"),
    ],
    lambda x: [
        "abc".replace("b", "x", 1),
        "ab".partition("a"),
        "a\nb".splitlines(),
        "abc"[::-1],
        "abc"[1:],
        "b" in "abc",
        "abc".count("b"),
    ],
    lambda x: [
        "{} {k} {0}".format(1, k=2) if False else "{0} {k}".format(1, k=2),
        "%d%%" % 5,
        "%(a)s" % {"a": 1},
        "a" < "b",
        "a".zfill(3),
    ],
    lambda x: [
        "abc".translate(str.maketrans("a", "b")),
        "é".encode(),
        b"ab".decode(),
        b"ab"[0],
        b"ab".hex(),
        bytes.fromhex("ff"),
        "ab",
    ],
    lambda x: [
        "1".isdigit(),
        "a".isalpha(),
        "a1".isalnum(),
        "A".isupper(),
        "x".removeprefix("x"),
        "a_b".rsplit("_", 1),
        "ab".index("b"),
    ],
    lambda x: [
        (5).bit_length(),
        (255).to_bytes(2, "big"),
        int.from_bytes(b"\x01\x00", "big"),
        (2.5).is_integer(),
        (0.5).as_integer_ratio(),
    ],
    lambda x: [
        (3).real,
        (3 + 4j).imag,
        (3 + 4j).conjugate(),
        (1.5).hex(),
        float.fromhex("0x1p3"),
        (7).bit_count(),
        (5).numerator,
    ],
    lambda x: [
        math.pi,
        math.sqrt(2),
        math.floor(1.5),
        math.ceil(1.2),
        math.log(8, 2),
        math.inf,
        math.isnan(math.nan),
        math.gcd(4, 6),
    ],
    lambda x: [
        math.prod([1, 2, 3]),
        math.prod([x, 2]),
        math.hypot(3, 4),
        math.isclose(1, 1 + 1e-12),
        math.fsum([0.1] * 3),
        math.comb(5, 2),
    ],
    lambda x: [
        cmath.sqrt(-1),
        cmath.phase(1j),
        math.copysign(1, -0.0),
        math.trunc(1.7),
        math.modf(1.5),
        math.frexp(8),
        math.isqrt(17),
    ],
    lambda x: [
        re.sub("a", "b", "aa"),
        re.match(r"(\w)(\d)", "a1").group(2),
        re.findall("a", "aba"),
        re.compile("b").search("abc").start(),
    ],
    lambda x: [
        bool(re.match("x", "y")),
        re.split(",", "a,b"),
        os.path.join("a", "b"),
        os.path.splitext("a.py"),
        re.escape("a.b"),
    ],
    lambda x: [
        typing.Optional[int],
        list[int],
        dict[str, int],
        typing.cast(int, 5),
        typing.get_origin(list[int]),
        int | None,
    ],
    lambda x: [
        torch.float32 == x.dtype,
        x.dtype is torch.float32,
        x.device.type,
        torch.device("cpu") == x.device,
        x.dtype.is_floating_point,
    ],
    lambda x: [
        [i for i in "abc"],
        list("ab"),
        tuple("ab"),
        dict(zip("ab", b"cd")),
        sorted("cab"),
        max("abc"),
        "abc".__len__(),
        len("abc"),
    ],
)
def test_methods_of_constants(fn):
    whole(fn, X)


# --- partial, cached functions, getters ---------------------------------------------------------------------
def scaled(x, factor=2, *, shift=0):
    return x * factor + shift


existing_partial = functools.partial(scaled, factor=3)
item_getter = operator.itemgetter("k")
calls = []


@functools.lru_cache
def cached(n):
    calls.append(n)
    return n * 2


def partials(x):
    p = functools.partial(scaled, x, shift=1)
    q = functools.partial(p, 5)
    return (
        p(),
        q(),
        q(shift=2),
        existing_partial(x),
        p.func is scaled,
        p.args,
        p.keywords,
        q.args,
        isinstance(p, functools.partial),
    )


def partial_of_method(x):
    return (
        functools.partial(x.add, 1)(),
        functools.partial(torch.add, x)(2),
        list(map(functools.partial(pow, 2), [1, 2])),
    )


def getters(x):
    return (
        item_getter({"k": x}),
        sorted([{"k": 2}, {"k": 1}], key=item_getter),
        list(map(operator.itemgetter(0), [(1, 2), (3, 4)])),
    )


def decorators(x):
    def plus(n):
        def decorate(f):
            @functools.wraps(f)
            def wrapper(*args, **kwargs):
                return f(*args, **kwargs) + n

            return wrapper

        return decorate

    @plus(3)
    def body(v):
        return v * 2

    return body(x), body.__name__


@named(partials, partial_of_method, getters, decorators)
def test_functional(fn):
    whole(fn, X)


def test_partial_after_a_break():
    def fn(x):
        p = functools.partial(scaled, x, factor=4)
        minicompile.graph_break()
        return p(), p.keywords

    check(fn, X, compiler=lambda f: minicompile.compile(f, backend="eager"), exact=True, graph_breaks=1)


def test_lru_cache_is_honoured():
    compiled = minicompile.compile(lambda x: x + cached(3) + cached(3), backend="eager")  # which notes its calls
    calls.clear(), cached.cache_clear()
    assert torch.equal(compiled(X), X + 12) and calls == [3]
    compiled(X)
    cached(3)
    assert calls == [3]


# --- what must break ------------------------------------------------------------------------------------------
@named(
    lambda x: print("", end=""),
    lambda x: id(x) < 0,
    lambda x: id(x) == 0,
    lambda x: id(x) in {1: 2},
    lambda x: f"{x + 1}",
    lambda x: str(x + 1),
    lambda x: hash(x + 1) == 0,
    lambda x: int(x.sum()),
    lambda x: [1, 2, 3][(x.sum() - 3).int()],
    lambda x: max(x.sum(), x.max()),
    lambda x: bool(x.sum()),
    lambda x: sorted([x.sum(), x.max()]),
    lambda x: x.sum() in [x.max(), 3.0],
    lambda x: copy.deepcopy(x + 1) + 1,
    lambda x: len(globals()) > 3,
    lambda x: object().__hash__() == 0,
)
def test_breaks(fn):
    counts = check(fn, X, compiler=lambda f: minicompile.compile(f, backend="eager"), exact=True)
    assert counts["graph_breaks"] >= 1


def test_instance_check_of_a_metaclass():
    class Meta(type):
        def __instancecheck__(cls, instance):
            return instance == cls.wanted

    class Five(metaclass=Meta):
        wanted = 5

    whole(lambda x: [isinstance(5, Five), isinstance(6, Five), isinstance(x.dim() + 4, Five)], X)


def test_a_cached_function_that_sees_what_the_program_works_on_runs_at_its_turn():
    def fn(x, items):
        count = 0

        @functools.lru_cache
        def cached_inside(n=0):
            nonlocal count
            count += 1
            items.append(n)
            return count

        items.append(cached_inside())
        count += 5
        cached_inside(), cached_inside(1)
        return x + count, items

    check(fn, X, [3], compiler=lambda f: minicompile.compile(f, backend="eager"), exact=True)


def test_getters_made_by_the_program_are_getters_outside():
    def program(x, items):
        first, both = operator.itemgetter(0), operator.attrgetter("real", "imag")
        split = operator.methodcaller("split", sep="k")
        minicompile.graph_break()
        return x * first(items), first, both, split, [first(items), both(2), split("akb"), {first: 1}[first]]

    result, first, both, split, found = minicompile.compile(program, backend="eager")(torch.ones(2), [3, 4])
    assert torch.equal(result, torch.full((2,), 3.0)) and found == [3, (2, 0), ["a", "b"], 1]
    assert type(first) is operator.itemgetter and type(both) is operator.attrgetter
    assert first([5]) == 5 and both(1j) == (0.0, 1.0) and split("xky") == ["x", "y"]
    with pytest.raises(TypeError, match="itemgetter expected 1 argument, got 0"):
        minicompile.compile(lambda x: (operator.itemgetter(), x + 1), backend="eager")(torch.ones(2))


def test_a_cache_made_inside():
    def run(x):
        calls = []

        @functools.lru_cache(maxsize=2)
        def square(n):
            calls.append(n)
            return n * n

        @functools.cache
        def fibonacci(n):
            return n if n < 2 else fibonacci(n - 1) + fibonacci(n - 2)

        numbers = [square(n) for n in (1, 2, 1, 3, 1, 2)]
        info = square.cache_info()
        square.cache_clear()
        parts = os.fspath(pathlib.PurePosixPath("a") / "b.c"), pathlib.PurePosixPath("a/b.c").suffix, sys.intern("ab")
        return x * fibonacci(12), numbers, calls, tuple(info), square.cache_info().hits, square.__name__, parts

    check(run, X, compiler=lambda f: minicompile.compile(f, backend="eager", fullgraph=True))


class WithPartialMethod:
    def add(self, number, by=1):
        return number + by

    act = functools.partialmethod(add, by=2)


def test_a_partial_with_attributes_is_not_flattened():
    def function(x):
        outer = functools.partial(WithPartialMethod().act)
        named = functools.partial(max, 3)
        named.note = 1
        again = functools.partial(named, 4)
        return outer, again, functools.partial(functools.partial(max, 1), 2), x + outer(1) + again(5)

    for found in (function(torch.ones(1)), minicompile.compile(function, backend="eager")(torch.ones(1))):
        outer, again, flat, total = found
        assert outer.func.keywords == {"by": 2} and outer.keywords == {} and outer.func.__self__.act(1) == 3
        assert again.func.func is max and again.func.note == 1 and again.args == (4,)
        assert flat.func is max and flat.args == (1, 2) and total.tolist() == [9.0]


@pytest.mark.parametrize(
    "call",
    [
        lambda n: max(),
        lambda n: min(key=n),
        lambda n: map(n),
        lambda n: slice(),
        lambda n: slice(n, n, n, n),
        lambda n: str.upper(n),
        lambda n: list.append(),
    ],
)
def test_calls_with_too_few_arguments(call):
    def function(x, n):
        try:
            return call(n), x
        except TypeError as error:
            return str(error), x

    compiled = minicompile.compile(function, backend="eager", fullgraph=True)
    assert compiled(torch.ones(1), 2) == function(torch.ones(1), 2)
