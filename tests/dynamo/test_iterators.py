"""Iterators during capture, against eager: each kind, exhaustion, sharing, and loops that break in the middle."""

import collections
import functools
import heapq
import itertools
import math
import operator
import re
import sys

import pytest
import torch
from worlds import same

import minicompile
from minicompile.testing import check

X = torch.tensor([1.0, 2.0])


def named(*functions):
    """Parameters with readable ids: the line of each function."""
    return pytest.mark.parametrize("fn", [pytest.param(f, id=f"line{f.__code__.co_firstlineno}") for f in functions])


def whole(fn, *args):
    """The function is one graph (no break) and does what eager does, twice."""
    check(fn, *args, compiler=lambda f: minicompile.compile(f, backend="eager", fullgraph=True), exact=True)


def broken(fn, *args):
    """With graph breaks it does what eager does, twice."""
    counts = check(fn, *args, compiler=lambda f: minicompile.compile(f, backend="eager"), exact=True)
    assert counts["graph_breaks"] > 0


def complaint(action, x):
    """What the captured program itself sees of an error."""
    try:
        return "no error", action(x)
    except Exception as error:
        return type(error).__name__, str(error)


class Countdown:
    def __init__(self, n):
        self.n = n

    def __iter__(self):
        return self

    def __next__(self):
        if self.n == 0:
            raise StopIteration
        self.n -= 1
        return self.n


class Indexed:
    def __len__(self):
        return 3

    def __getitem__(self, index):
        if index >= 3:
            raise IndexError(index)
        return index * 10


# --- builtin iterators ------------------------------------------------------------------------------------
def sequences(x):
    it = iter([1, x, 3])
    first = next(it)
    rest = list(it)
    return first, rest, next(it, "end"), list(it), list(iter("ab")), list(iter((1, 2))), list(iter(range(3))), [*b"ab"]


def live_list(x):
    a, seen = [1, 2], []
    for v in a:
        seen.append(v)
        if len(a) < 5:
            a.append(v * 10)
    return a, seen


def shared_iterator(x):
    it = iter(range(6))
    pairs = list(zip(it, it))
    it = iter([1, 2, 3, 4])
    return pairs, [(a, next(it)) for a in it], iter(it) is it


def enumerates(x):
    out = [(i, v) for i, v in enumerate("ab")] + list(enumerate([x], start=5)) + list(enumerate(range(2), -1))
    e = enumerate("abc")
    return out, next(e), list(e)


def zips(x):
    z = zip([1, 2, 3], "ab", (x, x))
    it = iter([1, 2, 3])
    consumed = list(zip(it, [10])), next(it)
    return (
        next(z),
        list(z),
        list(zip()),
        list(zip([1])),
        consumed,
        dict(zip("ab", [1, 2], strict=True)),
        list(zip(*[(1, 2), (3, 4)])),
    )


def maps(x):
    def double(v):
        return v * 2

    m = map(double, [1, x])
    f = filter(None, [0, 1, "", "a"])
    return (
        *(
            next(m),
            list(m),
            list(map(operator.add, [1, 2], [x, x])),
            list(map(str, range(3))),
            list(map(max, [1, 5], [3, 2])),
        ),
        *(
            list(f),
            list(filter(lambda v: v > 1, [1, 2, 3])),
            list(map(lambda *a: a, "ab", "cd")),
            sum(map(double, [x, x])),
        ),
    )


def reverseds(x):
    r = reversed([1, 2, 3])
    return (
        *(
            next(r),
            list(r),
            list(reversed((1, x))),
            list(reversed("abc")),
            list(reversed(range(4))),
            list(reversed({1: 2, 3: 4})),
        ),
        *(list(reversed({1: 2, 3: 4}.values())), list(reversed(collections.deque([1, 2]))), list(reversed(Indexed()))),
    )


def callable_iterators(x):
    stack = [3, 2, 1, 0, 9]
    return list(iter(stack.pop, 2)), stack, list(iter(functools.partial(next, iter([1, 2, 3])), 3))


def protocols(x):
    it = Countdown(3)
    return (
        next(it),
        list(it),
        list(it),
        list(Indexed()),
        10 in Indexed(),
        2 in Countdown(5),
        [v for v in Countdown(2)],
        sum(Countdown(4)),
        max(Countdown(3)),
    )


def generators(x):
    def gen(n):
        for i in range(n):
            yield x * i

    g = gen(3)
    first = next(g)
    return (
        first,
        list(g),
        list(g),
        [v for v in gen(2)],
        sum(gen(3)),
        [*gen(1)],
        dict(enumerate(gen(2))),
        any(i > 2 for i in range(9)),
    )


def lazy_order(x):
    seen = []

    def note(v):
        seen.append(v)
        return v

    m = map(note, [1, 2, 3])
    seen.append("made")
    first = next(m)
    pairs = list(zip(map(note, "ab"), map(note, "cd")))
    found = any(note(v) == 2 for v in [1, 2, 3])
    return first, pairs, found, seen


def tensor_iteration(x):
    a, b = x
    rows = [r * 2 for r in torch.ones(2, 2)]
    return a, b, rows, list(x), [v for v in zip(x, x)], len(x), sum(x), list(enumerate(x)), list(reversed(x))


@named(
    *(
        sequences,
        live_list,
        shared_iterator,
        enumerates,
        zips,
        maps,
        reverseds,
        callable_iterators,
        protocols,
        generators,
    ),
    *(lazy_order, tensor_iteration),
)
def test_iterators(fn):
    whole(fn, X)


@named(
    lambda x: next(iter([])),
    lambda x: next([1]),
    lambda x: iter(5),
    lambda x: iter(None),
    lambda x: list(zip([1], [], strict=True)),
    lambda x: list(zip([], [1], strict=True)),
    lambda x: list(zip([1], [1], [1, 2], strict=True)),
    lambda x: reversed({1}),
    lambda x: reversed(5),
    lambda x: list(map(lambda v: v, 5)),
    lambda x: enumerate(),
    lambda x: list(itertools.islice([1], -1)),
    lambda x: functools.reduce(lambda a, b: a, []),
    lambda x: list(map(lambda a: a, [1], [2])),
)
def test_errors(fn):
    whole(complaint, fn, X)


# --- itertools and functools --------------------------------------------------------------------------------
@named(
    lambda x: (
        list(itertools.chain([1], (x,), "ab"))
        + list(itertools.chain.from_iterable([[1], [2, 3]]))
        + list(itertools.chain())
    ),
    lambda x: [list(itertools.islice(itertools.count(*a), 3)) for a in [(), (5,), (1, 2), (0.5, 0.25)]],
    lambda x: list(itertools.repeat(x, 2)) + list(itertools.islice(itertools.repeat(1), 2)),
    lambda x: list(itertools.islice(itertools.cycle([1, x]), 5)) + list(itertools.cycle([])),
    lambda x: [
        list(itertools.islice(range(10), *a)) for a in [(3,), (2, 5), (1, 9, 3), (None,), (2, None), (0, None, 4)]
    ],
    lambda x: list(itertools.takewhile(lambda v: v < 3, [1, 2, 5, 1])),
    lambda x: list(itertools.dropwhile(lambda v: v < 3, [1, 2, 5, 1])),
    lambda x: list(itertools.filterfalse(None, [0, 1, 2])) + list(itertools.filterfalse(lambda v: v % 2, range(5))),
    lambda x: list(itertools.compress("abcd", [1, 0, True, False])),
    lambda x: list(itertools.starmap(pow, [(2, 3), (3, 2)])) + list(itertools.starmap(lambda a, b: a * b, [(x, 2)])),
    lambda x: list(itertools.accumulate([1, 2, 3])) + list(itertools.accumulate([1, 2], operator.mul, initial=10)),
    lambda x: (
        list(itertools.accumulate([x, x])) + list(itertools.accumulate([])) + list(itertools.accumulate([3, 1, 4], max))
    ),
    lambda x: list(itertools.pairwise([1, x, 3])) + list(itertools.pairwise([1])),
    lambda x: list(itertools.zip_longest([1, 2], "a", [])) + list(itertools.zip_longest([1], [], fillvalue=x)),
    lambda x: [(k, list(g)) for k, g in itertools.groupby([1, 1, 2, 1])] + [k for k, _ in itertools.groupby("aabb")],
    lambda x: [(k, [v for v in g]) for k, g in itertools.groupby([1, 3, 2, 5], key=lambda v: v % 2)],
    lambda x: [list(t) for t in itertools.tee([1, x, 3])] + [next(t) for t in itertools.tee([1, 2], 3)],
    lambda x: (
        list(itertools.product([1, 2], "ab")) + list(itertools.product([0, 1], repeat=2)) + list(itertools.product())
    ),
    lambda x: list(itertools.permutations([1, 2, x])) + list(itertools.permutations("abc", 2)),
    lambda x: list(itertools.combinations([1, 2, 3], 2)) + list(itertools.combinations_with_replacement([1, x], 2)),
    lambda x: functools.reduce(lambda a, b: a * b, [x, 2, 3]) + functools.reduce(operator.add, [1, 2], 10),
    lambda x: [operator.itemgetter(1)([1, 2]), operator.itemgetter(0, 1)("ab"), operator.attrgetter("ndim")(x)],
    lambda x: [operator.methodcaller("count", 1)([1, 1]), operator.countOf([1, 2, 1], 1), operator.indexOf([5, 6], 6)],
    lambda x: sorted([3, 1, 2], key=functools.cmp_to_key(lambda a, b: b - a)),
    lambda x: sorted([(1, "b"), (0, "a")], key=operator.itemgetter(1)),
)
def test_itertools(fn):
    whole(fn, X)


@pytest.mark.skipif(sys.version_info < (3, 12), reason="itertools.batched is new in 3.12")
def test_batched():
    whole(lambda x: list(itertools.batched([1, x, 3], 2)), X)


# --- loops that break ---------------------------------------------------------------------------------------
BREAKING_LOOPS = {
    "list": lambda x: [1, x, 3],
    "tuple": lambda x: (1, 2, 3),
    "range": lambda x: range(3),
    "str": lambda x: "abc",
    "dict": lambda x: {"a": 1, "b": 2},
    "dict items": lambda x: {"a": 1, "b": x}.items(),
    "dict values": lambda x: {"a": 1, "b": x}.values(),
    "set": lambda x: {1, 2},
    "deque": lambda x: collections.deque([1, 2]),
    "reversed": lambda x: reversed([1, 2, 3]),
    "reversed dict": lambda x: reversed({1: 2, 3: 4}),
    "enumerate": lambda x: enumerate([x, 2, 3]),
    "zip": lambda x: zip([1, 2, 3], "abc"),
    "zip strict": lambda x: zip([1, 2], "ab", strict=True),
    "map": lambda x: map(lambda v: v * 2, [1, x]),
    "filter": lambda x: filter(lambda v: v != 2, [1, 2, 3]),
    "callable": lambda x: iter([1, 2, 3].pop, 1),
    "enumerate of zip": lambda x: enumerate(zip([1, 2], [3, 4])),
    "chain": lambda x: itertools.chain([1], [2]),
    "islice of count": lambda x: itertools.islice(itertools.count(), 3),
    "accumulate": lambda x: itertools.accumulate([1, x, 3]),
    "product": lambda x: itertools.product([1, 2], [x]),
    "user iterator": lambda x: Countdown(3),
}


@pytest.mark.parametrize("kind", BREAKING_LOOPS)
def test_loop_with_a_break_in_its_body(kind):
    make = BREAKING_LOOPS[kind]

    def fn(x):
        seen, total = [], x
        for item in make(x):
            total = total + 1
            minicompile.graph_break()
            seen.append(item)
            total = total * 2
        return total, seen

    broken(fn, X)


@pytest.mark.parametrize("kind", BREAKING_LOOPS)
def test_iterator_that_is_used_around_a_break(kind):
    make = BREAKING_LOOPS[kind]

    def fn(x):
        it = iter(make(x))
        first = next(it)
        y = x + 1
        minicompile.graph_break()
        second = next(it)
        minicompile.graph_break()
        return y, first, second, list(it), list(it)

    broken(fn, X)


def test_nested_loops_with_breaks():
    def fn(x):
        seen = []
        for i in range(2):
            for name, v in {"a": i, "b": x}.items():
                minicompile.graph_break()
                seen.append((i, name, v))
                x = x + i
        return x, seen

    broken(fn, X)


def test_loop_over_a_list_that_changes_around_a_break():
    def fn(x):
        a, seen = [1, 2], []
        for v in a:
            if len(a) < 4:
                a.append(v + 10)
            minicompile.graph_break()
            seen.append(v)
            x = x + v
        return x, a, seen

    broken(fn, X)


# --- existing iterators -----------------------------------------------------------------------------------------
EXISTING = {
    "list": lambda: iter([1, 2, 3, 4]),
    "advanced list": lambda: (lambda it: [next(it), it][1])(iter([1, 2, 3, 4])),
    "exhausted list": lambda: (lambda it: [list(it), it][1])(iter([1])),
    "tuple": lambda: iter((1, 2, 3, 4)),
    "str": lambda: iter("abcd"),
    "range": lambda: iter(range(5)),
    "advanced range": lambda: (lambda it: [next(it), it][1])(iter(range(5))),
    "reversed": lambda: reversed([1, 2, 3, 4]),
    "dict": lambda: iter({"a": 1, "b": 2, "c": 3}),
    "dict values": lambda: iter({"a": 1, "b": 2, "c": 3}.values()),
    "dict items": lambda: iter({"a": 1, "b": 2, "c": 3}.items()),
    "set": lambda: iter({1, 2, 3}),
    "enumerate": lambda: enumerate([5, 6, 7, 8]),
    "zip": lambda: zip([1, 2, 3], iter([4, 5, 6])),
    "enumerate of zip": lambda: enumerate(zip([1, 2, 3], [4, 5, 6]), 1),
    "map": lambda: map(len, ["a", "bb", "ccc", ""]),
    "filter": lambda: filter(None, [0, 1, 2, 3]),
    "callable": lambda: iter([1, 2, 3, 4].pop, 1),
}


@pytest.mark.parametrize("kind", EXISTING)
def test_existing_iterators_move_on(kind):
    def fn(x, it):
        return x + 1, next(it, None), next(it, None)

    compiled = minicompile.compile(fn, backend="eager", fullgraph=True)
    for _ in range(2):
        ours, theirs = EXISTING[kind](), EXISTING[kind]()
        assert compiled(X, ours)[1:] == fn(X, theirs)[1:]
        assert list(ours) == list(theirs)


def test_position_of_an_iterator_is_guarded():
    compiled = minicompile.compile(lambda x, it: (x, next(it)), backend="eager", fullgraph=True)
    it = iter([5, 6])
    assert [compiled(X, it)[1], compiled(X, it)[1]] == [5, 6]


def test_existing_iterators_of_changed_containers_are_left_to_eager():
    def fn(x, it):
        return x + 1, next(it, None)

    compiled = minicompile.compile(fn, backend="eager")
    for container, change in (({1: 2}, lambda d: d.update({3: 4})), ({1}, lambda s: s.add(2))):
        it = iter(container)
        change(container)
        with pytest.raises(RuntimeError, match="changed size"):
            compiled(X, it)
    it = iter(collections.deque([1, 2, 3]))
    assert [compiled(X, it)[1] for _ in range(4)] == [1, 2, 3, None]


def test_existing_itertools_are_left_to_eager():
    def fn(x, it):
        return x + 1, next(it), list(it)

    compiled = minicompile.compile(fn, backend="eager")
    assert compiled(X, itertools.chain([1], [2]))[1:] == (1, [2])


def test_unpacking_reads_no_further_than_it_must():
    def f(x, it):
        found = []
        for target in (it, iter([1, 2, 3, 4]), 5, None, (i for i in (1, 2, 3, 4))):
            try:
                first, second = target
            except (ValueError, TypeError) as error:
                found.append((str(error), list(target) if hasattr(target, "__next__") else None))
        return x + 1, found

    same(lambda: (f, [(X, iter([7, 8, 9, 10]))]))


def test_iterators_of_a_list_that_changes_are_list_iterators():
    def f(x, a):
        fresh, moved, back, done = iter(a), iter(a), reversed(a), iter(a)
        next(moved), next(back), list(done)
        a.reverse()
        a.extend([4, 5])
        return x + 1, fresh, moved, back, done

    def program():
        def call(x, a):
            _, *iterators = f(x, a)
            return [(type(i).__name__, list(i)) for i in iterators], a

        return call, [(X, [1, 2, 3])]

    same(program)


def test_a_new_generator_with_cells_of_its_own_leaves_the_frame():
    def program():
        def f(x, n):
            def count(p, /, step=1):
                read = lambda: p + n  # noqa: E731
                yield read()
                p += step
                yield read()

            return x + 1, count(n), count(n, step=5)

        def call(x, n):
            out, *generators = f(x, n)
            return out, [list(g) for g in generators]

        return call, [(X, 1), (X, 2)]

    same(program)


# --- generators that nobody holds any more are closed, and their `finally` runs -----------------------------
def noted(log):
    try:
        yield from range(3)
    finally:
        log.append("closed")


def outer(log):
    try:
        yield from noted(log)
    finally:
        log.append("outer")


def left_by_break(x, log):
    for k in noted(log):
        x = x + k
        if k == 1:
            break
    log.append("after loop")
    return x


def left_in_helper(x, log):
    def helper():
        stream = noted(log)
        return next(stream) + next(stream)

    y = x + helper()
    log.append("after helper")
    return y


def rebound_and_returned(x, log):
    stream = noted(log)
    next(stream)
    stream = None
    log.append("rebound")
    other = noted(log)
    return x + next(other), other


def held_by_list(x, log):
    stream = noted(log)
    next(stream)
    items = [stream]
    del stream
    log.append("held")
    items.clear()
    log.append("gone")
    return x + 1


def held_by_iterators(x, log):
    a, *rest = (k for k in noted(log))
    pairs = zip(noted(log), noted(log))
    next(pairs)
    log.append(any(k == 1 for k in noted(log)))
    return x + a


def delegating(x, log):
    stream = outer(log)
    next(stream)
    return x + 1


@pytest.mark.parametrize(
    "function",
    [left_by_break, left_in_helper, rebound_and_returned, held_by_list, held_by_iterators, delegating],
)
def test_dropped_generators_are_closed(function):
    def program():
        log = []

        def run(x):
            result = function(x, log)
            return result[0] if isinstance(result, tuple) else result

        return run, [(torch.ones(2),), (torch.ones(2),)], lambda: list(log)

    same(program)


def test_an_iterator_made_by_c_code_is_another_one_at_each_call():
    program = minicompile.compile(lambda x: (x + 1, [m.span() for m in re.finditer("k", "akbk")]), backend="eager")
    for _ in range(3):
        assert program(torch.ones(2))[1] == [(1, 2), (3, 4)]


def test_an_enumerate_over_a_range_goes_on_where_it_was():
    def start():
        stream, plain = enumerate(range(10, 30, 2)), iter(range(5))

        def run(x):
            taken = []
            for k, n in stream:
                if k % 3 == 2:
                    break
                taken.append((k, n))
            return x + 1, taken, next(plain, None)

        return run

    eager, compiled = start(), minicompile.compile(start(), backend="eager", fullgraph=True)
    for _ in range(6):
        expected, found = eager(torch.ones(2)), compiled(torch.ones(2))
        assert found[1:] == expected[1:]


# --- iterators of containers that are filled after they exist ---------------------------------------------
class DerivedList(list):
    pass


class DerivedDict(dict):
    pass


class DerivedSet(set):
    pass


class DerivedDeque(collections.deque):
    pass


def list_in_itself(x):
    items = [x, 2]
    items.append(items)
    return items


FILLED_LATER = {
    "list": lambda x: DerivedList([x, 1, 2]),
    "dict": lambda x: DerivedDict(a=x, b=2),
    "items": lambda x: DerivedDict(a=x, b=2).items(),
    "set": lambda x: DerivedSet([1, 2, 3]),
    "deque": lambda x: DerivedDeque([x, 1, 2]),
    "reversed": lambda x: reversed(DerivedList([x, 1, 2])),
    "enumerate": lambda x: enumerate(DerivedList([x, 1, 2])),
    "in itself": list_in_itself,
}


@pytest.mark.parametrize("make", FILLED_LATER.values(), ids=FILLED_LATER)
def test_a_break_while_a_container_made_inside_is_iterated(make):
    def loop(x):
        count = 0
        for item in make(x):
            print(end="")
            x, count = x + count, count + 1
            if count > 9:
                break
        return x, count

    def rest(x):
        iterator = iter(make(x))
        first = next(iterator)
        print(end="")
        return [type(item) for item in iterator], first

    for program in (loop, rest):
        expected = program(torch.ones(2))
        assert repr(minicompile.compile(program, backend="eager")(torch.ones(2))) == repr(expected)


@pytest.mark.parametrize("turn", [iter, reversed, enumerate])
def test_an_iterator_over_a_list_that_became_shorter(turn):
    """It stands behind the end, where no iterator can be put; the list may grow again."""

    def loop(x, items):
        count = 0
        for item in turn(items):
            count += 1
            items.clear()
            print(end="")
            items.append(item)
            if count > 5:
                break
        return x + count, items

    def rest(x, iterator, items):
        next(iterator), next(iterator)
        del items[1:]
        x = x + 1
        print(end="")
        items += [7, 8, 9]
        return x, list(iterator)

    def made_here(x, items):
        items = list(items)
        return rest(x, turn(items), items)

    for items in ([3, 1, 2], [0, 5], DerivedList([4, 5, 6])):
        expected, found = list(items), list(items)
        again = type(items)(items), type(items)(items)
        assert repr(minicompile.compile(loop, backend="eager")(torch.ones(2), found)) == repr(
            loop(torch.ones(2), expected)
        )
        compiled = minicompile.compile(rest, backend="eager")
        eager = rest(torch.ones(2), turn(again[0]), again[0])
        assert repr(compiled(torch.ones(2), turn(again[1]), again[1])) == repr(eager)
        compiled = minicompile.compile(made_here, backend="eager")
        assert repr(compiled(torch.ones(2), items)) == repr(made_here(torch.ones(2), items))


def test_the_attributes_of_a_class_are_gone_through_across_breaks():
    class Base:
        one, two = 1, "two"

    def program(x):
        seen = []
        for each in (vars(Base), vars(Base).keys(), vars(Base).values(), vars(Base).items()):
            for element in each:
                print(end="")
                seen.append(str(element)[:20])
        return x + 1, seen

    assert minicompile.compile(program, backend="eager")(X)[1] == program(X)[1]


def test_an_accumulation_that_stands_at_none_goes_on_behind_a_break():
    def program(x):
        running = itertools.accumulate([None, None, None], operator.is_)
        first = next(running)
        print(end="")
        return x + 1, first, list(running)

    assert minicompile.compile(program, backend="eager")(X)[1:] == program(X)[1:] == (None, [True, False])


def test_iterators_of_tensors_and_arrays_are_of_eagers_classes():
    def program(x):
        array = x.numpy()
        rows = iter(array)
        first = next(rows) + 1
        array[1] = 7  # the iterator reads it when it comes there
        made = [iter(x), reversed(x), rows, enumerate(x), iter(x.unbind())]
        return first, [type(each) for each in made], [list(map(str, each)) for each in made]

    for function in (program, minicompile.compile(program, backend="eager")):
        first, kinds, contents = function(torch.ones(2, 2))
        assert first.tolist() == [2.0, 2.0] and contents[2] == ["[7. 7.]"]
        assert kinds == [type(iter(())), kinds[1], type(iter(X.numpy())), enumerate, type(iter(()))]


# --- builtins that take an iterator: what they do with an element comes before the next ------------------
class Noted:
    """Notes what is done with it."""

    def __init__(self, number, log):
        self.number, self.log = number, log

    def __radd__(self, other):
        self.log.append(("add", self.number))
        return other + self.number

    def __lt__(self, other):
        self.log.append(("compare", self.number))
        return self.number < other.number

    def __gt__(self, other):
        return other < self

    def __eq__(self, other):
        return self is other

    def __hash__(self):
        self.log.append(("hash", self.number))
        return self.number

    def __iter__(self):
        return iter((self.number, 1))


TAKERS = """
sum(i) ; sum(i, 5) ; max(i) ; min(i, key=lambda e: log.append(1) or e) ; max(i, default=1) ; any(i) ; all(i) ; set(i)
frozenset(i) ; {1}.union(i) ; {1}.intersection(i) ; {1}.difference(i) ; {1}.symmetric_difference(i) ; {1}.isdisjoint(i)
{0, 1}.issuperset(i) ; {1}.issubset(i) ; set().update(i) ; {1: 2}.keys() & i ; {1: 2}.keys() | i ; {*i} ; dict(i)
dict.fromkeys(i) ; {}.update(i) ; [].extend(i) ; collections.deque(i) ; functools.reduce(lambda a, e: e.number, i)
math.prod(map(hash, i)) ; 5 in i ; operator.countOf(i, 3) ; collections.Counter(i) ; heapq.nlargest(1, i) ; sorted(i)
list(itertools.accumulate(map(hash, i))) ; [a for a, _ in i] ; dict(zip(i, i))
max(i, 3, default=2) ; bytes(map(hash, i)) ; bool(next(i))
"""


@pytest.mark.parametrize("fails_at", [None, 1])
@pytest.mark.parametrize("take", [take for line in TAKERS.strip().splitlines() for take in line.split(" ; ")])
def test_elements_are_worked_on_one_by_one(take, fails_at):
    modules = (collections, functools, heapq, itertools, math, operator)
    namespace = {module.__name__: module for module in modules}
    exec(f"def take(i, log):\n    return {take}", namespace)

    def program(x, log, take, wrap):
        def elements():
            for k in range(3):
                log.append(k)
                if k == fails_at:
                    raise KeyError(k)
                yield Noted(k, log)

        iterator = wrap(elements())
        try:
            log.append(type(take(iterator, log)))
            log.append(len(list(iterator)))
        except (KeyError, TypeError) as error:
            log.append(str(error))
        return x + 1, log.append(next(iterator, None) is None)

    for wrap in (iter, lambda elements: map(lambda e: e, elements)):
        seen = []
        for function in (program, minicompile.compile(program, backend="eager")):
            log = []
            function(torch.ones(2), log, namespace["take"], wrap)
            seen.append(log)
        assert seen[0] == seen[1]


def grown(made, key):
    made[key] = 1


CHANGES = {
    "put in": lambda made: grown(made, "new"),
    "put in and taken out": lambda made: (grown(made, "new"), made.pop("new")),
    "exchanged": lambda made: (made.pop("b"), grown(made, "new")),
    "set again": lambda made: grown(made, "b"),
    "moved": lambda made: made.move_to_end("a") if hasattr(made, "move_to_end") else None,
    "not moved": lambda made: made.move_to_end("c") if hasattr(made, "move_to_end") else None,
}


@pytest.mark.parametrize("given", [0, 1, 3])
@pytest.mark.parametrize("cls", [dict, collections.OrderedDict])
@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_an_iterator_of_a_dict_that_changed_goes_on_as_cpython_says(cls, change, given):
    def f(x):
        made, seen = cls(a=1, b=2, c=3), []
        iterator = iter(made)
        for _ in range(given):
            seen.append(next(iterator))
        change(made)
        for step in range(5):
            if step == 2:
                made.pop("new", None)
            try:
                seen.append(next(iterator))
            except (RuntimeError, StopIteration) as error:
                seen.append((type(error), str(error)))
        return x + 1, seen

    assert minicompile.compile(f, backend="eager")(torch.ones(1))[1] == f(torch.ones(1))[1]
