"""Lists, tuples, dicts, sets and deques during capture, against eager: methods, errors, aliasing, replayed writes."""

import copy
import itertools
import operator
import types
from collections import Counter, OrderedDict, defaultdict, deque, namedtuple
from typing import NamedTuple

import pytest
import torch

import minicompile
from minicompile.testing import check

X = torch.tensor([1.0, 2.0])
Point = namedtuple("Point", "x y", defaults=[5])


class Pair(NamedTuple):
    a: torch.Tensor
    b: int = 2

    def total(self):
        return self.a + self.b

    @property
    def double(self):
        return self.b * 2

    @classmethod
    def make(cls, a):
        return cls(a, 7)


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


# --- list -------------------------------------------------------------------------------------------
def list_methods(x):
    a = [3, 1, 2]
    a.append(x)
    a.extend((7, 8))
    a.extend(i * 2 for i in range(2))
    a.insert(1, "in")
    a.insert(-1, None)
    a.insert(100, "end")
    out = [a.pop(), a.pop(0), a.pop(-2), a[:1].index(3) if a[0] == 3 else a[0], len(a), a.copy(), "in" in a]
    a.reverse()
    b = list(a)
    a.clear()
    return a, b, out, x + 1


def list_slices(x):
    a = list(range(10))
    b = a[2:5] + a[::-2] + a[-3:] + a[100:]
    a[1:3] = ["p", "q", "r"]
    a[::4] = (x, x, x)
    del a[2:4]
    del a[-1]
    a[0] = 0
    a[-1] = "last"
    return a, b, a[slice(1, 4)], a[True]


def list_operators(x):
    a = [1, 2]
    b = a
    a += [3]
    a += (4,)
    a *= 2
    c = a + [x]
    d = a * 2 + 2 * [0]
    return a is b, b, c, d, c is not a, [1, 2] < [1, 3], [1, 2] == [1, 2.0], [1] != [1], [2] >= [1, 5], [] <= [1]


def list_sorting(x):
    a = [3, -1, 2, -5]
    b = sorted(a), sorted(a, reverse=True), sorted(a, key=abs), sorted(a, key=lambda v: (v % 2, v))
    a.sort(key=lambda v: -v)
    words = sorted(["b", "A", "c"], key=str.lower)
    rows = sorted([(x, 2), (x + 1, 1)], key=lambda row: row[1])
    return a, b, words, rows, sorted({"z": 1, "a": 2}), sorted("hello")


def list_unpacking(x):
    a, *b, c = [1, x, 3, 4]
    (d, e), f = [(1, 2), 3]
    return a, b, c, d, e, f, [*b, *range(2)], (*b, x), {**{"a": 1}, "b": x}


def list_comprehensions(x):
    squares = [i * i for i in range(5) if i % 2]
    nested = [[x * i for i in range(2)] for _ in range(2)]
    return squares, nested, {i: x + i for i in range(2)}, {i % 2 for i in range(4)}, sum(x * i for i in range(3))


def aliasing(x):
    inner = [1]
    a, b = [inner, inner], (inner, x)
    inner.append(2)
    a[0].append(3)
    c = a + [inner]
    c[2].append(4)
    d = a.copy()
    d.append(5)
    return inner, a, b, c, d, a[0] is a[1], a[0] is b[0], c[2] is inner, d[0] is inner


def nested_mutable_operands(x):
    inner = [1]
    both = [inner] + [[2]]
    both[0].append(9)
    twice = [[]] * 2
    twice[0].append(x)
    return inner, both, twice, twice[0] is twice[1]


def contains_by_identity(x):
    y = x + 1
    return y in [x, y][1:], [x, y].index(x), (y, x).index(y)


def list_in_condition(x):
    a = []
    if not a:
        a.append(1)
    return x if a else -x, bool([]), bool([0]), [] or "empty", [1] and "full"


@named(
    *(list_methods, list_slices, list_operators, list_sorting, list_unpacking, list_comprehensions, aliasing),
    *(nested_mutable_operands, contains_by_identity, list_in_condition),
)
def test_list(fn):
    whole(fn, X)


@named(
    lambda x: [].pop(),
    lambda x: [1].pop(3),
    lambda x: [1][5],
    lambda x: (1,)[5],
    lambda x: [1]["a"],
    lambda x: [1, 2].remove(3),
    lambda x: [1, 2].index(3),
    lambda x: (1, 2).index(3),
    lambda x: [1] + (2,),
    lambda x: (1,) + [2],
    lambda x: [1] * 1.5,
    lambda x: [1] < 3,
    lambda x: [1, "a"] < [1, 2],
    lambda x: sorted([1, "a"]),
    lambda x: [1, 2].foo,
    lambda x: [].append(),
    lambda x: [].append(1, 2),
    lambda x: list(5),
    lambda x: {}["missing"],
    lambda x: {}.pop("missing"),
    lambda x: {}.popitem(),
    lambda x: {[]: 1},
    lambda x: {(1, [2]): 1},
    lambda x: {1, 2}.remove(3),
    lambda x: set().pop(),
    lambda x: {1} | [2],
    lambda x: {1} < [2],
    lambda x: {1: 2} < {1: 3},
    lambda x: {1}[0],
    lambda x: hash([1]),
    lambda x: dict([(1, 2, 3)]),
    lambda x: dict([1]),
    lambda x: deque([], 2).popleft(),
    lambda x: deque([1, 2], 2).insert(0, 3),
    lambda x: deque([1])[4],
    lambda x: OrderedDict().popitem(),
    lambda x: OrderedDict().move_to_end(3),
    lambda x: defaultdict(None)[1],
    lambda x: Point(),
    lambda x: Point(1, 2, 3),
    lambda x: Point(1)._replace(z=1),
    lambda x: Point(1).z,
    lambda x: range(3)[7],
    lambda x: range(1, 2, 0),
    lambda x: slice(1).foo,
    lambda x: frozenset([1]).add(2),
)
def test_errors(fn):
    whole(complaint, fn, X)


def assign_tuple(x):
    t = (1, 2)
    t[0] = 3


def assign_unequal(x):
    a = [1, 2, 3, 4]
    a[::2] = [1]


def assign_not_iterable(x):
    a = [1]
    a[:] = 5


def assign_out_of_range(x):
    a = [1]
    a[4] = 5


def delete_out_of_range(x):
    a = [1]
    del a[4]


def unpack_too_few(x):
    a, b, c = [1, 2]


def unpack_too_many(x):
    a, b = [1, 2, 3]


def attribute_on_list(x):
    [].x = 3


def grows_while_iterating(x):
    d = {1: 2}
    for k in d:
        d[k + 10] = 1


def set_grows_while_iterating(x):
    s = {1}
    for k in s:
        s.add(k + 10)


def deque_grows_while_iterating(x):
    s = deque([1])
    for k in s:
        s.append(k + 10)


@named(
    *(assign_tuple, assign_unequal, assign_not_iterable, assign_out_of_range, delete_out_of_range, unpack_too_few),
    *(unpack_too_many, attribute_on_list, grows_while_iterating, set_grows_while_iterating),
    deque_grows_while_iterating,
)
def test_statement_errors(fn):
    whole(complaint, fn, X)


def caught(x):
    """Errors of containers are ordinary exceptions of the program."""
    seen = []
    for action in (
        lambda: [].pop(),
        lambda: {}["k"],
        lambda: {1}.remove(2),
        lambda: [1].index(2),
        lambda: next(iter([])),
        lambda: [1] + (2,),
        lambda: int("x"),
        lambda: 1 // 0,
    ):
        try:
            action()
        except (LookupError, ValueError, TypeError, StopIteration, ArithmeticError) as error:
            seen.append((type(error).__name__, str(error)))
    return x + len(seen), seen


def test_errors_are_caught_by_the_program():
    whole(caught, X)


# --- tuple, named tuple, Size, slice, range -------------------------------------------------------------
def tuples(x):
    t = (1, x, "s") + (2,)
    return (
        t,
        t[1:],
        t[::-1],
        t * 2,
        t[1:].index(x),
        t[2:].index("s"),
        t[2:].count(2),
        len(t),
        (1, 2) < (1, 3),
        (1,) == [1],
        hash((1, 2)),
        t[-1],
    )


def named_tuples(x):
    p = Point(x)
    q = p._replace(y=x * 2)
    x0, y0 = q
    pair = Pair(x)
    return (
        *(p, q, x0, y0, p.x is x, q._asdict(), Point._fields, p._fields, p[1], p[:1], Point._make([1, 2]), len(q)),
        *(
            pair,
            pair.total(),
            pair.double,
            Pair.make(x),
            isinstance(pair, tuple),
            type(p) is Point,
            p == (x, 5),
            repr(Point(1)),
        ),
    )


def returned_types(x):
    best = x.max(0)
    return best.values, best.indices, best[0], type(best).__name__, torch.sort(x).values


def sizes(x):
    s = x.shape
    return (
        s,
        s[0],
        s + (3,),
        s[:1],
        type(s[:1]) is torch.Size,
        s.numel(),
        len(s),
        s == (2,),
        torch.Size([1, 2]),
        x.size(0) in s,
    )


def slices(x):
    s = slice(0, 2)
    return x[s], s.start, s.stop, s.step, s.indices(5), s == slice(0, 2), [1, 2, 3][s], slice(3), slice(1, 9, 2)


def ranges(x):
    r = range(1, 10, 3)
    return (
        r,
        list(r),
        r[1],
        r[-1],
        r[1:],
        len(r),
        4 in r,
        5 in r,
        r.index(4),
        r.start,
        r.step,
        r == range(1, 11, 3),
        list(reversed(r)),
        bool(range(0)),
    )


@named(tuples, named_tuples, returned_types, sizes, slices, ranges)
def test_immutable_sequences(fn):
    whole(fn, X)


# --- deque ----------------------------------------------------------------------------------------------
def deques(x):
    d = deque([1, 2, 3], maxlen=4)
    d.append(4)
    d.appendleft(0)
    d.extend([7, 8])
    d.extendleft([9])
    d.rotate()
    d.rotate(-2)
    out = d.copy(), d.pop(), d.popleft(), len(d), d[0], d.maxlen, d.count(7), d.index(d[1])
    d.insert(0, "i")
    d.remove("i")
    d.reverse()
    d[0] = x
    del d[0]
    e = deque("abc") + deque("d")
    d += [6]
    return d, out, e, e == deque("abcd"), list(e), deque([1], 2), list(reversed(e)), e * 2


def test_deque():
    whole(deques, X)


# --- dict -----------------------------------------------------------------------------------------------
def dict_methods(x):
    d = {"a": 1, 2: x}
    d["b"] = 3
    d.setdefault("a", 9)
    d.setdefault("new", []).append(x)
    d.update({"c": 4}, e=5)
    d.update([("p", 1), ("q", 2)])
    out = [
        d.get("a"),
        d.get("zz"),
        d.get("zz", 7),
        d.pop("c"),
        d.pop("zz", None),
        d.popitem(),
        "a" in d,
        len(d),
        2 not in d,
    ]
    del d["b"]
    e = d.copy()
    e["only"] = 1
    f = d | {"u": 1}
    f |= {"v": 2}
    return d, e, f, out, list(d), list(d.values()), list(d.items()), list(reversed(d)), dict(a=1), dict([(1, 2)], b=3)


def dict_keys(x):
    d = {
        1: "int",
        1.5: "f",
        None: "n",
        (1, 2): "t",
        frozenset([1]): "s",
        int: "cls",
        torch.float32: "dt",
        x: "tensor",
        len: "fn",
    }
    d[True] = "bool is 1"
    return d[1], d[1.0], d[None], d[1, 2], d[frozenset([1])], d[int], d[torch.float32], d[x], d[len], len(d), x + 1 in d


def dict_views(x):
    d = {"a": 1, "b": x}
    keys, values, items = d.keys(), d.values(), d.items()
    d["c"] = 3
    return (
        *(len(keys), list(keys), list(values), list(items), "c" in keys, 3 in [v for v in values if v is not x]),
        *(
            keys & {"a"},
            keys | {"z"},
            keys - {"a"},
            {"a"} & keys,
            keys == {"a", "b", "c"},
            sorted(keys),
            ("a", 1) in items,
        ),
        *(list(reversed(keys)), keys.isdisjoint({"q"}), set(keys), [k + str(i) for i, k in enumerate(d)]),
    )


def dict_comparison(x):
    return (
        *({"a": 1, "b": 2} == {"b": 2, "a": 1.0}, {1: 2} != {1: 3}, {} == [], {1: x} == {1: x}),
        *(OrderedDict(a=1, b=2) == OrderedDict(b=2, a=1), OrderedDict(a=1, b=2) == {"b": 2, "a": 1}),
    )


def ordered_dicts(x):
    d = OrderedDict([("a", 1), ("b", x)])
    d["c"] = 3
    d.move_to_end("a")
    first = list(d)
    d.move_to_end("c", last=False)
    out = d.popitem(last=False), list(d), list(reversed(d)), type(d) is OrderedDict
    d.update(z=1)
    return d, first, out, d.copy(), OrderedDict.fromkeys("ab", 0), d | {"y": 1}


def default_dicts(x):
    d = defaultdict(list)
    d["a"].append(x)
    d["b"].append(1)
    n = defaultdict(int)
    for c in "hello":
        n[c] += 1
    e = defaultdict(lambda: x * 2, k=1)
    return d, n, e["new"], e["k"], dict(e), d.default_factory is list, "q" in d, d.get("q"), len(d)


def counters(x):
    c = Counter("hello")
    c.update("oo")
    return c["l"], c["zz"], c.most_common(1), sum(c.values()), dict(c), x


def mapping_proxies(x):
    p = types.MappingProxyType({"a": x})
    return p["a"], list(p), len(p), "a" in p, dict(p), p.get("q", 1)


def fromkeys(x):
    return dict.fromkeys([1, 2]), dict.fromkeys("ab", x), {}.fromkeys([3]) if False else None


@named(
    *(dict_methods, dict_keys, dict_views, dict_comparison, ordered_dicts, default_dicts, counters, mapping_proxies),
    fromkeys,
)
def test_dict(fn):
    whole(fn, X)


# --- set ------------------------------------------------------------------------------------------------
def set_methods(x):
    s = {3, 1}
    s.add(2)
    s.discard(9)
    s.discard(1)
    s.update([4, 5], (6,))
    s.remove(3)
    t = s.copy()
    t.clear()
    out = [
        len(s),
        4 in s,
        s.union([9], [10]),
        s.intersection([4, 5]),
        s.difference([4]),
        s.symmetric_difference([4, 77]),
    ]
    s.intersection_update([4, 5, 6])
    s.difference_update([4])
    s.symmetric_difference_update([5, 8])
    return s, t, out, s.issubset([6, 8, 9]), s.issuperset([6]), s.isdisjoint([1]), s.pop() in (6, 8), sorted(s)


def set_changes(x):
    """By iterators, which give their elements once; what comes before a wrong argument is taken out."""
    s, t, u, told = {1, 2, 3}, {1, 2, 3}, {1, 2, 3}, []
    s.difference_update(iter([1]), iter([9]))
    t.symmetric_difference_update(iter([1, 8]))
    u.intersection_update(iter([1, 2]))
    calls = (
        lambda: u.difference_update([1], 5),
        lambda: u.symmetric_difference_update(),
        lambda: u.symmetric_difference([1], [2]),
        lambda: u.copy(None),
    )
    for call in calls:
        try:
            call()
        except TypeError as error:
            told.append(str(error))
    return s, t, u, told, x + 1


def set_operators(x):
    a, b = {1, 2, 3}, frozenset([2, 3, 4])
    c = a
    c |= {7}
    c -= {1}
    d = set(a)
    d &= b
    d ^= {2, 99}
    return (
        *(
            a,
            a is c,
            d,
            a | b,
            b | a,
            a & b,
            a - b,
            a ^ b,
            type(b | a) is frozenset,
            a <= {2, 3, 7, 8},
            a < a,
            a >= {2},
        ),
        *(
            a == {2, 3, 7},
            a != b,
            {1} == frozenset([1]),
            b > {2},
            hash(b) == hash(frozenset([4, 3, 2])),
            {frozenset([1]): 5}[frozenset([1])],
        ),
        *(frozenset([1]) in {frozenset([1])}, {1}, bool(set()), {"a"} <= {"a": 1}.keys()),
    )


def set_of_objects(x):
    y = x + 1
    s = {x, y, x}
    s.add(y)
    return len(s), x in s, [t for t in s if t is x][0], x + 1 in s, {torch.float32, torch.float32, int}


def set_iteration(x):
    return list({5, 1, 9, 33, 2}), [v for v in {"k"}], list(set(range(20)) - {3}), sum({1, 2, 3})


@named(set_methods, set_changes, set_operators, set_of_objects, set_iteration)
def test_set(fn):
    whole(fn, X)


# --- existing containers: guards and replay -----------------------------------------------------------
def change_list(x, a):
    a.append(x)
    a[0] = a[0] + 1
    del a[1]
    a.sort(key=lambda v: 0 if isinstance(v, torch.Tensor) else 1)


def change_dict(x, d):
    d["new"] = x * 2
    d["a"] += 1
    del d["b"]
    d["b"] = d.pop("c")
    d.setdefault("list", []).append(x)


def change_set(x, s):
    s.add(7)
    s.discard(1)
    s |= {8}


def change_deque(x, d):
    d.appendleft(x)
    d.pop()
    d.rotate(1)


def change_ordered(x, d):
    d.move_to_end("a")
    d["z"] = x
    d.popitem(last=False)


def change_ordered_with_new(x, d):
    d["z"] = x
    d.move_to_end("a")


def change_default(x, d):
    d["new"].append(x)
    d["old"].append(1)


def change_nested(x, a):
    a["list"][0]["deep"].append(x)
    a["list"].append(a["list"][0])
    a["self"] = a


def change_bytes_like(x, a):
    a[:] = [v * 2 for v in a if v > 1]
    a.extend(a)
    a *= 2


@pytest.mark.parametrize(
    "fn, value",
    [
        (change_list, [1, 2, 3]),
        (change_dict, {"a": 1, "b": 2, "c": 3, "d": 4}),
        (change_set, {1, 2}),
        (change_deque, deque([1, 2, 3], 3)),
        (change_ordered, OrderedDict(a=1, b=2, c=3)),
        (change_ordered_with_new, OrderedDict(b=2, a=1)),
        (change_default, defaultdict(list, old=[0])),
        (change_nested, {"list": [{"deep": []}]}),
        (change_bytes_like, [1, 2, 3]),
    ],
    ids=lambda v: getattr(v, "__name__", ""),
)
def test_changes_of_arguments_are_replayed(fn, value):
    function = minicompile.compile(fn, backend="eager", fullgraph=True)
    for _ in range(2):
        eager, compiled = copy.deepcopy(value), copy.deepcopy(value)
        fn(X, eager)
        function(X, compiled)
        assert compiled == eager if isinstance(value, set) else repr(eager) == repr(compiled)
        assert type(eager) is type(compiled)
    assert minicompile.stats()["recompiles"] == 0


def two_names(x, a, b):
    a.append(x)
    b.append(2)
    return a is b, len(a), len(b)


def test_one_list_under_two_names():
    compiled = minicompile.compile(two_names, backend="eager", fullgraph=True)
    for _ in range(2):
        one, two = [], []
        assert compiled(X, one, one) == (True, 2, 2) and len(one) == 2 and one[1] == 2
        assert compiled(X, one, two) == (False, 3, 1) and len(one) == 3 and two == [2]


def test_identity_of_arguments_survives():
    inner = [1]
    outer = {"a": inner, "b": (inner, X)}

    def fn(x, d):
        d["c"] = d["a"]
        d["a"].append(2)
        return d["b"], d

    out, same = minicompile.compile(fn, backend="eager", fullgraph=True)(X, outer)
    assert same is outer and out is outer["b"] and outer["c"] is inner and inner == [1, 2] and out[1] is X


def test_lists_that_contain_themselves():
    def fn(x):
        a = [x + 1]
        a.append(a)
        d = {"d": a}
        d["self"] = d
        return a, d

    a, d = minicompile.compile(fn, backend="eager", fullgraph=True)(X)
    assert a[1] is a and d["self"] is d and d["d"] is a and torch.equal(a[0], X + 1)


def recompiles_of(fn, *calls):
    minicompile.reset()
    compiled = minicompile.compile(fn, backend="eager", fullgraph=True)
    for args in calls:
        assert repr(compiled(*args)) == repr(fn(*args)), args
    return minicompile.stats()["recompiles"]


def test_guards():
    assert recompiles_of(lambda x, a: x * a[0], (X, [2, 3]), (X, [2, 4]), (X, [2, 3])) == 0
    assert recompiles_of(lambda x, a: x * a[0], (X, [2, 3]), (X, [5, 3]), (X, (5, 3)), (X, [5])) == 3
    assert recompiles_of(lambda x, d: x * d["k"], (X, {"k": 1}), (X, {"k": 1, "other": 2})) == 0
    assert recompiles_of(lambda x, d: x * d.get("k", 5), (X, {}), (X, {"q": 1}), (X, {"k": 3})) == 1
    assert recompiles_of(lambda x, d: x * len(d), (X, {"a": 1}), (X, {"b": 1})) == 1
    assert recompiles_of(lambda x, s: x * (3 in s), (X, {1, 3}), (X, {1})) == 1
    assert recompiles_of(lambda x, r: (x + r.stop, len(r)), (X, range(0)), (X, range(-3)), (X, range(-3))) == 1
    assert recompiles_of(lambda x, a: (x, a), (X, [1]), (X, [2]), (X, "anything")) == 0


def test_keys_that_are_objects():
    parameter = torch.nn.Parameter(torch.ones(2))
    state = {parameter: {"step": 1, "mean": torch.zeros(2)}, int: 2, (1, "a"): 3, torch.float32: 4}

    def fn(p, d):
        entry = d[p]
        entry["step"] += 1
        entry["mean"] = entry["mean"] + p.detach()
        d[int] = d[torch.float32] + d[1, "a"]
        d[p.detach()] = 1
        return entry["mean"] * entry["step"], len(d)

    compiled = minicompile.compile(fn, backend="eager", fullgraph=True)
    out, count = compiled(parameter, state)
    assert torch.equal(out, torch.full((2,), 2.0)) and count == 5 == len(state)
    assert state[parameter]["step"] == 2 and state[int] == 7


def test_copies():
    def fn(x):
        inner = [1, [2]]
        a = {"i": inner, "j": inner, "t": (1, 2), "n": (inner,), "x": {3}}
        b, c = copy.copy(a), copy.deepcopy(a)
        inner.append(x)
        s = copy.copy(inner), copy.copy((1, 2)), copy.copy({1}), copy.copy(deque([1]))
        return a, b, c, c["i"] is c["j"], c["n"][0] is c["i"], c["i"] is not inner, b["i"] is inner, s, copy.deepcopy(3)

    whole(fn, X)


def test_breaks_keep_containers():
    def fn(x):
        inner = [x]
        a = {"i": inner, "t": (inner, 1), "s": {1, 2}, "d": deque([inner], 3), "o": OrderedDict(k=inner), "p": Pair(x)}
        a["dd"] = defaultdict(list, {"q": inner})
        minicompile.graph_break()
        a["i"].append(x + 1)
        a["dd"]["new"].append(1)
        d = a.pop("d")
        return a, list(d), d.maxlen, a["t"][0] is inner, d[0] is inner, a["o"]["k"] is inner, a["dd"]["q"] is inner

    check(fn, X, compiler=lambda f: minicompile.compile(f, backend="eager"), exact=True, graph_breaks=1)


def test_a_sort_that_fails_leaves_the_list_half_sorted():
    def fn(x, a, b):
        found = []
        for reverse in (False, True):
            for items in (a, [3, 2, 1, "a", 0, 5], [5, 1, [], 0]):
                try:
                    items.sort(key=lambda v: (found.append(len(items)), v)[1], reverse=reverse)
                except TypeError as error:
                    found.append(str(error))
                found.append(list(items))
        try:
            b.sort(key=lambda v: b.append(v) or v)
        except ValueError as error:
            found.append(str(error))
        return x + 1, found

    check(
        fn, X, [2, 0, "enter", 2, 1], [3, 1, 2], compiler=lambda f: minicompile.compile(f, backend="eager"), exact=True
    )


def test_removing_what_is_not_in_a_deque_says_what():
    def fn(x, q):
        try:
            q.remove("k")
        except ValueError as error:
            return x + 1, str(error)

    check(fn, X, deque([1]), compiler=lambda f: minicompile.compile(f, backend="eager"), exact=True)


def test_tensors_as_keys_are_other_ones_at_the_next_call():
    program = minicompile.compile(lambda x, table, group: (table[x] * x, len(table), x in group), backend="eager")
    for number in (1.0, 2.0, 3.0):
        x = torch.full((2, 2), number)
        result, length, found = program(x, {x: 2, "k": 1}, {x, 3})
        assert torch.equal(result, x * 2) and (length, found) == (2, True)


def test_what_sizes_and_slices_of_iterators_are_made_of():
    def fn(x, flag):
        found = [torch.Size([flag, 4]), type(torch.Size([flag])[0])]
        for make in (
            lambda: torch.Size([1]) + [2],
            lambda: [1] + (2,),
            lambda: torch.Size(["a"]),
            lambda: list(itertools.islice([1, 2], "a")),
            lambda: list(itertools.islice([1, 2], flag)),
            lambda: list(itertools.islice([1, 2, 3], 0, None, 2.0)),
        ):
            try:
                found.append(make())
            except (TypeError, ValueError) as error:
                found.append((type(error), str(error)))
        return x + 1, found

    for flag in (True, 2):
        compiled = minicompile.compile(fn, backend="eager")
        found, expected = compiled(torch.ones(2), flag)[1], fn(torch.ones(2), flag)[1]
        assert found == expected and type(found[0]) is torch.Size


def test_places_that_are_no_index():
    def fn(x, items, wrong):
        found = []
        for change in (lambda: operator.setitem(items, wrong, 1), lambda: operator.delitem(items, wrong)):
            try:
                change()
            except TypeError as error:
                found.append(str(error))
        return x + 1, found

    for items in ([1, 2], deque([1, 2])):
        for wrong in (None, "a", 1.5):
            compiled = minicompile.compile(fn, backend="eager")
            assert compiled(torch.ones(2), items, wrong)[1] == fn(torch.ones(2), items, wrong)[1]


class HashedByValue:
    def __init__(self, value):
        self.value = value

    def __hash__(self):
        return self.value

    def __eq__(self, other):
        return self.value == other.value


class DerivedNumber(int):
    pass


SETS = {
    "own hash": lambda: {HashedByValue(k) for k in (3, 1, 18, 2)},
    "derived": lambda: {DerivedNumber(3), DerivedNumber(1), 2},
    "tuples": lambda: {(HashedByValue(3), 1), (HashedByValue(1), 2)},
    "changed": lambda: ({HashedByValue(3), HashedByValue(1)} | {HashedByValue(0)}) - {HashedByValue(3)},
    "frozen": lambda: frozenset([HashedByValue(3), HashedByValue(1)]),
    "keys": lambda: {HashedByValue(3): 1, HashedByValue(1): 2}.keys() & [HashedByValue(1), HashedByValue(3)],
}


def plain_values(items):
    return [getattr(item[0] if isinstance(item, tuple) else item, "value", item) for item in items]


@pytest.mark.parametrize("make", SETS.values(), ids=SETS)
def test_the_order_of_a_set_is_that_of_the_hashes(make):
    def function(x):
        return plain_values(make()), plain_values([next(iter(make()))]), x + 1

    compiled = minicompile.compile(function, backend="eager", fullgraph=True)
    assert str(compiled(torch.ones(1))) == str(function(torch.ones(1)))


@pytest.mark.parametrize("new", [Exception, lambda: HashedByValue(7), object])
def test_a_break_while_a_set_of_new_objects_is_iterated(new):
    def function(x, items):
        count = 0
        for _ in range(3):
            for item in set(items):
                count += 1
                print(end="")
            for item in {item: None for item in items}.keys():
                count += 1
                print(end="")
            items.append(new())
        return x + count

    assert minicompile.compile(function, backend="eager")(torch.zeros(1), [1, 2, 3]) == function(
        torch.zeros(1), [1, 2, 3]
    )


class Renamed:
    """A key whose hash may change."""

    def __init__(self, name):
        self.name = name

    def __hash__(self):
        return hash(self.name)

    def __eq__(self, other):
        return isinstance(other, Renamed) and self.name == other.name


def test_a_key_whose_hash_has_changed_is_not_found():
    """A dict, or a set, keeps the hash that a key had when it was put in."""

    def program(x, make):
        key, answers = Renamed("a"), []
        container = make(key)
        minicompile.graph_break()
        key.name = "b"
        answers.append((key in container, Renamed("a") in container, len(container)))
        again = make(key)
        key.name = "c"
        minicompile.graph_break()
        answers.append((key in again, Renamed("b") in again, key in make(key)))
        return x + 1, answers, len(container), [each is key for each in (*container, *again)]

    for make in (lambda key: {key: 1}, lambda key: {key}, lambda key: {(key, 2): 3, key: 4}):
        compiled = minicompile.compile(program, backend="eager")
        for _ in range(2):
            assert compiled(torch.ones(2), make)[1:] == program(torch.ones(2), make)[1:]


@pytest.mark.parametrize("wrong", [[1], [(1, 2), 3], [(1,)], [(1, 2), (1, 2, 3)], ["abc"], [None], [()], 3])
def test_each_mapping_has_its_own_words_for_what_are_no_pairs(wrong):
    def program(x):
        said = []
        for cls in (dict, OrderedDict, defaultdict, lambda w: OrderedDict().update(w), lambda w: dict(w, a=1)):
            try:
                cls(wrong)
            except (TypeError, ValueError) as error:
                said.append((type(error), str(error)))
        return x + 1, said

    assert minicompile.compile(program, backend="eager", fullgraph=True)(X)[1] == program(X)[1]


@pytest.mark.parametrize("own", [set(), {2}, {0, 1, 2}, frozenset({1, 2})])
@pytest.mark.parametrize("name", ["intersection", "issubset", "issuperset", "isdisjoint", "difference", "union"])
def test_a_set_takes_no_more_elements_than_it_has_to(own, name):
    def program(x, given):
        elements, others = iter(given), (n for n in (1, 2, 3, 4))
        said = []
        for arguments in ((elements,), (others, elements), (given,)):
            try:
                said.append(getattr(own, name)(*arguments))
            except TypeError as error:
                said.append(str(error))
        return x + 1, said, list(elements), list(others)

    for given in ([2, 0, 2, 1, []], [0, 2, 5, 6, 7], [2, 1, 3, 4], [[], 2]):
        compiled = minicompile.compile(program, backend="eager", fullgraph=True)
        assert compiled(X, given)[1:] == program(X, given)[1:]
