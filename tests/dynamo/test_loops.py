"""Loops with a graph break in the body: as many compilations as the loop has pieces, however often it goes round."""

import collections
import functools
import itertools
import json
import math
import operator
import random
import types
import warnings

import pytest
import torch

import minicompile
from minicompile import config
from minicompile.testing import CompileCounter


def breaking(*values):
    """A print is something no graph can hold."""
    print(end="")
    return values[0] if values else None


def over_range(x, n):
    for i in range(n):
        x = x + 1
        breaking(i)
    return x


def over_range_used(x, n):
    for i in range(n):
        x = x * 2
        breaking()
        x = x + i
    return x


def over_list(x, n):
    for t in [x * k for k in range(n)]:
        x = x + t
        breaking()
    return x


def over_enumerate(x, n):
    for k, t in enumerate([x] * n):
        x = x + t
        breaking(k)
    return x


def over_zip(x, n):
    for k, t in zip(range(n), [x] * n):
        x = x + t
        breaking(k)
    return x


def over_items(x, n):
    for name, t in {str(k): x + k for k in range(n)}.items():
        x = x + t
        breaking(name)
    return x


def tensors(x, n):
    for k in range(n):
        yield x + k


def over_generator(x, n):
    for t in tensors(x, n):
        x = x + t
        breaking()
    return x


def over_reversed_set_and_map(x, n):
    for k in reversed(sorted(set(map(abs, range(n))))):
        x = x + 1
        breaking(k)
    return x


def counting(x, n):
    i = 0
    while i < n:
        x = x + 1
        breaking()
        i += 1
    return x


def growing_list(x, n):
    out = []
    for _ in range(n):
        out.append(x + len(out))
        breaking()
    return torch.stack(out)


def growing_dict(x, n):
    out = {}
    for k in range(n):
        out[k] = x + 1
        breaking()
    return sum(out.values())


def comprehension(x, n):
    return torch.stack([breaking(x + 1) * 2 for _ in range(n)])


def two_breaks(x, n):
    for i in range(n):
        x = x + 1
        breaking()
        x = x * 0.5
        breaking(i)
        x = x - 1
    return x


def nested_loops(x, n):
    for _ in range(n):
        for j in range(2):
            x = x + 1
            breaking(j)
        x = x * 0.5
    return x


def in_with_and_try(x, n):
    for _ in range(n):
        with torch.no_grad():
            x = x + 1
            breaking()
        try:
            x = x + 1
            breaking()
        finally:
            x = x * 0.5
    return x


def raising(x, n):
    for i in range(n):
        try:
            x = x + 1
            breaking()
            if i % 2:
                raise ValueError(i)
        except ValueError as error:
            x = x * 0.5
            breaking(error)
    return x


class Counter:
    def __init__(self):
        self.count = 0


def counting_attribute(x, n):
    counter = Counter()
    for t in [x] * n:
        counter.count += 1
        x = x + t
        breaking()
    return x + counter.count


class Layers(torch.nn.Module):
    def __init__(self, n):
        super().__init__()
        self.layers = torch.nn.ModuleList(torch.nn.Linear(4, 4) for _ in range(n))

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
            breaking()
        return x


@functools.cache
def layers(n):
    torch.manual_seed(n)
    return Layers(n)


def over_modules(x, n):
    return layers(n)(x)


LOOPS = {  # function: most compilations, of frames and resume functions
    over_range: 5,
    over_range_used: 7,
    over_list: 5,
    over_enumerate: 5,
    over_zip: 5,
    over_items: 5,
    over_generator: 4,
    over_reversed_set_and_map: 5,
    counting: 7,
    growing_list: 13,
    growing_dict: 10,
    comprehension: 9,
    two_breaks: 6,
    nested_loops: 8,
    in_with_and_try: 7,
    raising: 14,
    counting_attribute: 10,
    over_modules: 9,  # the modules are made in a cached function, which draws random numbers
}


@pytest.mark.parametrize("loop", LOOPS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("rounds", [4, 40])
def test_a_loop_is_compiled_a_fixed_number_of_times(loop, rounds):
    x = torch.ones(4)
    minicompile.reset()
    counter = CompileCounter()
    compiled = minicompile.compile(loop, backend=counter)
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message=".*was compiled")
        for n in (rounds, rounds, rounds):
            assert torch.equal(compiled(x, n), loop(x, n))
    own = [entry for entry in minicompile.record.compilations if entry.name.split(".<resume")[0] != "breaking"]
    assert len(own) <= LOOPS[loop], [(entry.name, entry.recompile_reason) for entry in own]
    before = len(minicompile.record.compilations)
    compiled(x, rounds)
    assert len(minicompile.record.compilations) == before


def test_a_loop_whose_breaks_are_rare_is_captured_in_stretches():
    def sometimes(x, n):
        for i in range(n):
            if i == 0:
                breaking()
            x = x + 1
        return x

    minicompile.reset()
    counter = CompileCounter()
    assert torch.equal(minicompile.compile(sometimes, backend=counter)(torch.ones(2), 20), torch.full((2,), 21.0))
    assert counter.stats() == {"graphs": 1, "ops": 20}


THREE = 3
OPERATIONS = [
    lambda i, x: x + i,
    lambda i, x: i + x,
    lambda i, x: 3 + i,
    lambda i, x: i + 3,
    lambda i, x: i + i,
    lambda i, x: i - 3.5,
    lambda i, x: -i,
    lambda i, x: ~i,
    lambda i, x: abs(i),
    lambda i, x: not i,
    lambda i, x: bool(i),
    lambda i, x: i == 3,
    lambda i, x: 3 == i,
    lambda i, x: 3 != i,
    lambda i, x: (i, 1) == (3, 1),
    lambda i, x: 1 < i < 3,
    lambda i, x: i is None,
    lambda i, x: i is i,
    lambda i, x: i is THREE,
    lambda i, x: i in [1, 3],
    lambda i, x: [3, 1].count(i),
    lambda i, x: [0, 1, 2, 3, 4, 5, 6].index(i),
    lambda i, x: 3 in [i],
    lambda i, x: {3: "a"}.get(i),
    lambda i, x: {i: "a"},
    lambda i, x: {i, 3},
    lambda i, x: {i: 2}.get(3),
    lambda i, x: [5, 6, 7, 8, 9, 10, 11][i],
    lambda i, x: "abcdefgh"[i],
    lambda i, x: "abcdefgh"[:i],
    lambda i, x: x[i % 2],
    lambda i, x: x[:i],
    lambda i, x: x.repeat(i),
    lambda i, x: torch.full((2,), i),
    lambda i, x: torch.zeros(i),
    lambda i, x: f"{i}",
    lambda i, x: f"{i:04d}",
    lambda i, x: "%d" % i,  # noqa: UP031
    lambda i, x: "{}".format(i),  # noqa: UP032
    lambda i, x: str(i) + repr(i),
    lambda i, x: list(range(i)),
    lambda i, x: max(i, 2),
    lambda i, x: min([i, 2]),
    lambda i, x: sum([i, 2]),
    lambda i, x: sorted([2, i]),
    lambda i, x: divmod(i, 2),
    lambda i, x: divmod(7, i),
    lambda i, x: 2**i,
    lambda i, x: i**2,
    lambda i, x: pow(i, 2, 5),
    lambda i, x: hash(i),
    lambda i, x: (int(i), float(i), complex(i)),
    lambda i, x: isinstance(i, int) and type(i) is int and callable(i),
    lambda i, x: hasattr(i, "real"),
    lambda i, x: i.bit_length() + i.real,
    lambda i, x: "ab" * i,
    lambda i, x: [x] * i,
    lambda i, x: math.sqrt(i),
    lambda i, x: operator.add(1, i),
    lambda i, x: operator.index(i),
    lambda i, x: slice(i),
    lambda i, x: {1: i}[1],
    lambda i, x: [i][0] + 1,
    lambda i, x: functools.partial(operator.add, i)(1),
    lambda i, x: (lambda k=i: k + 1)(),
    lambda i, x: [k for k in range(10) if k < i],
    lambda i, x: i or 5,
    lambda i, x: 1 if i else 2,
    lambda i, x: "abc".find("c", i),
    lambda i, x: [*range(9)][i:],
    lambda i, x: round(i, 1),
    lambda i, x: chr(i + 65),
    lambda i, x: getattr(i, "missing", 1),
]


@pytest.mark.parametrize("number", range(len(OPERATIONS)))
def test_what_can_be_done_with_a_value_that_varies(number):
    operation = OPERATIONS[number]

    def loop(x, out):
        for i in range(1, 7):
            x = x + 1
            breaking()
            try:
                out.append(operation(i, x))
            except TypeError as error:
                out.append(str(error))
        return x

    expected, found = [], []
    loop(torch.ones(2), expected)
    minicompile.compile(loop, backend="eager")(torch.ones(2), found)
    assert repr(found) == repr(expected)


def test_containers_that_vary():
    def loop(x, items, table):
        seen = []
        for k in range(6):
            items.append(k)
            table[k] = x
            breaking()
            seen.append((len(items), items[-1], k in table, list(table), bool(items), [*items], sum(items)))
            first, *rest = items
            seen.append((first, rest, items[1:], items == rest, table == {}))
            x = x + len(seen)
        return x, seen

    expected = loop(torch.ones(2), [0], {})
    found = minicompile.compile(loop, backend="eager")(torch.ones(2), [0], {})
    assert repr(found) == repr(expected)


def test_a_flag_that_alternates_has_a_graph_for_each_value():
    def loop(x, n):
        flag = False
        for _ in range(n):
            x = x * 2 if flag else x + 1
            breaking()
            flag = not flag
        return x

    minicompile.reset()
    counter = CompileCounter()
    compiled = minicompile.compile(loop, backend=counter)
    assert torch.equal(compiled(torch.ones(2), 20), loop(torch.ones(2), 20))
    assert counter.graphs <= 5 < config.recompile_limit


def test_a_very_long_loop_is_left_to_eager_from_the_limit_on():
    def inner(x, k):
        return x + k

    def loop(x, n):
        total = 0
        for k in range(n):
            total += k
            if k % 1000 == 999:
                x = inner(x, total)
        return x * 2

    counter = CompileCounter()
    with config.patch(loop_limit=100):
        compiled = minicompile.compile(loop, backend=counter)
        for n in (50, 5000, 6000):
            assert torch.equal(compiled(torch.ones(2), n), loop(torch.ones(2), n))
    assert minicompile.record.break_reasons == {"long loop": 2}
    assert counter.graphs == 3  # the callee is captured by itself, the second time with a symbolic number


def test_python_that_makes_no_operation_is_left_in_the_end_and_the_rest_is_captured():
    """Neither a loop in C over an iterator that is long, nor calls that go on and on, has a jump that is counted."""

    def table():
        return sum(a * b for a in range(40) for b in range(40))

    def taken(x):
        return (x * table()).relu() + any(itertools.repeat(None, 10**6))

    def numbers():
        return [random.random() for _ in range(600)]

    def drawn(x):
        return x + len(numbers())

    class Number(int):
        pass

    rows = [Number(k * 37 % 101) for k in range(300)]

    def ranked(x):
        return x + sorted(rows)[7]

    with config.patch(loop_limit=100):
        for function, graphs in ((taken, 2), (drawn, 1), (ranked, 1)):
            counter, x = CompileCounter(), torch.ones(2)
            minicompile.record.break_reasons.clear()
            assert torch.equal(minicompile.compile(function, backend=counter)(x), function(x))
            assert set(minicompile.record.break_reasons) == {"long loop"} and counter.graphs == graphs


def test_many_questions_about_numbers_that_change_are_left_to_eager():
    """Each answer is one of SymPy's and one more guard, in a loop of Python's and in one of C's."""
    values = types.SimpleNamespace()

    def ranked(x):
        return x + sorted(values.rows)[3]

    def counted(x):
        return x + sum(1 for a, b in zip(values.rows, values.rows[1:]) if a < b)

    def halved(x, n):
        turns = 0
        while n > turns:
            turns += 1
        return x + turns

    with config.patch(loop_limit=1000):
        for function in (ranked, counted):
            for count, reasons in ((15, {}), (120, {"long loop": 1})):
                minicompile.reset()
                compiled = minicompile.compile(function, backend="eager")
                for seed in range(2):
                    values.rows = [(k * 37 + seed) % 101 for k in range(count)]
                    assert torch.equal(compiled(torch.ones(2)), function(torch.ones(2)))
                assert minicompile.record.break_reasons == reasons
        minicompile.reset()
        compiled = minicompile.compile(halved, backend="eager")
        for n in (5, 6, 150):
            assert torch.equal(compiled(torch.ones(2), n), halved(torch.ones(2), n))
        assert minicompile.record.break_reasons == {"long loop": 1}


def test_a_method_of_a_number_with_one_that_varies():
    class Small(int):
        pass

    def loop(x, n, log):
        for _ in range(2):
            log.append((0).__add__(n) % 9)
            breaking()
        return x

    compiled = minicompile.compile(loop, backend="eager")
    for number in (1, Small(2), 3, Small(4)):
        log = []
        compiled(torch.ones(2), number, log)
        assert log == [number, number]


def test_a_loop_that_asks_a_tensor_goes_on_in_one_function_for_each_way():
    def halved(x):
        rounds = 0
        while x.norm() > 1:
            x = x / 2
            rounds += 1
        return x, rounds

    counter, x = CompileCounter(), torch.full((2,), 100.0)
    minicompile.record.counters["graph_breaks"] = 0
    result, rounds = minicompile.compile(halved, backend=counter)(x)
    assert rounds == 8 and torch.equal(result, x / 256)
    assert (counter.graphs, minicompile.record.counters["graph_breaks"]) == (3, 3)  # 0 rounds, and any other number


def test_who_asks_why_a_guard_failed_adds_no_key_to_a_defaultdict():
    def program(x, given, n):
        for _, value in collections.defaultdict(int, given).items():
            print(end="")
            x = x + value * n
            x, *_ = torch.stack([x, x])
        return x

    compiled = minicompile.compile(program, backend="eager")
    for given, n in (({"a": 0, "b": 2}, 1), ({"a": 0, "b": 2}, 2), ({"a": 0}, 1), ({"c": 3, "d": 4, "a": 1}, 1)):
        assert torch.equal(compiled(torch.ones(2), given, n), program(torch.ones(2), given, n))


def test_a_dict_that_is_being_built_at_a_break_and_is_another_then():
    def fn(x, a, base):
        x = x + 1
        while a:
            first, [] = {**base, 0: json.loads("[1, [2]]")}

    compiled = minicompile.compile(fn, backend="eager")
    for base in ({}, {1: 2}, {"b": 1}):
        for call in (fn, compiled):
            with pytest.raises((TypeError, ValueError), match="unpack"):
                call(torch.ones(1), [1], base)
