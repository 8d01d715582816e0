"""What values cannot do, in CPython's words: every operator and builtin on objects of many classes, with right operands
and wrong ones."""

import collections
import contextlib
import dataclasses
import datetime
import functools
import itertools
import math
import operator
import re
import types
import typing
import weakref

import numpy
import pytest
import torch
from fuzz import builtin_classes, classes, corners, prelude

import minicompile


def matched(subject, pattern):
    match subject:
        case pattern(part):
            return part


NAMESPACE = {
    **{name: getattr(classes, name) for name in (*classes.__all__, *builtin_classes.__all__)},
    **{name: getattr(prelude, name) for name in ("Box", "Pair", "Color", "Failure", "countdown", "Record")},
    **dict(
        Odd=corners.Odd,
        collections=collections,
        contextlib=contextlib,
        functools=functools,
        math=math,
        operator=operator,
    ),
    **dict(datetime=datetime, re=re, matched=matched, Unmatched=type("Unmatched", (), {"__match_args__": None})),
    **dict(torch=torch, types=types, dataclasses=dataclasses, weakref=weakref, itertools=itertools, numpy=numpy),
}
MAKERS = """
Point(n) ; Tagged(n) ; Frozen(n) ; Perm.READ ; Row(n, 1) ; Table({1: 2}) ; Couple(n, 1) ; Word(n) ; Number(n) ; Money(n)
Chain(n) ; Sealed(n) ; Box(n) ; Box ; 5 ; 'text' ; [1, 2] ; {'k': 1} ; {1, 2} ; None ; iter([1]) ; range(n) ; slice(n)
collections.deque([1]) ; functools.partial(int, 1) ; types.SimpleNamespace(value=n) ; torch.Size([n, 1]) ; object()
str.upper ; 'a'.__add__ ; len ; {}.keys() ; [].append
Tagged ; operator.methodcaller('index') ; re.match('a', 'a') ; itertools.chain() ; datetime.date(2000, 1, 1)
"""
EXPRESSIONS = """
i + n ; n + i ; i + i ; 'a' + i ; i - n ; i * 2 ; 2 * i ; 'ab' * i ; i * i ; i ** 2 ; i @ i ; i | i ; divmod(n, i)
i < n ; n >= i ; operator.iadd(i, n) ; operator.isub(i, i) ; operator.concat(i, i) ; -i ; abs(i) ; round(i) ; int(i)
len(i) ; list(reversed(i)) ; list(i)[:2] ; next(i) ; i[0] ; i['k'] ; i[:1] ; [1, 2][i:] ; (1, 2)[i] ; 'ab'[i]
range(3)[i] ; collections.deque([1])[i] ; n in i ; i(n) ; vars(i) ; [*i][:2] ; len([n, *i]) ; max(*i, n) ; dict(**i)
{**i} ; ''.join(i) ; functools.reduce(operator.add, i) ; functools.partial(i, 1) and 1 ; isinstance(n, i) ; dict(i)
{1, i} & {i} ; [].index(i) ; {}[i] ; setattr(i, 'fresh', n) ; delattr(i, 'stale') ; setattr(i, '__module__', 'm')
operator.setitem(i, 0, n) ; sum(i) ; operator.setitem({1}, i, 0) ; operator.delitem(Point(n), i) ; range(None, i)
range(i, None) ; range(i, i, [])
type(i)() ; type(i)(n) ; len([object.__new__(type(i))]) ; list.__new__(type(i), n) ; object.__new__(i)
types.MappingProxyType(i) ; types.MethodType(i, n) ; types.MethodType(len, i) ; types.SimpleNamespace(i)
type(i).__name__ ; list(enumerate([n], i)) ; sorted([1, 2], reverse=i) ; collections.deque([n, 1], i)
numpy.int64(n) == i ; i + numpy.float32(n) ; [n].__add__(i) ; [n].__mul__(i) ; (n,) + i ; [n].index(n, i)
operator.countOf(i, 'q') ; operator.delitem(i, 'k') ; '%c' % i ; 'a'.translate(i) ; matched(n, i) ; matched(i, type(i))
"""


def rows(text):
    return [row.strip() for line in text.strip().splitlines() for row in line.split(" ; ")]


CAUGHT = """
def program(i, n, x):
    y = x + 1
    try:
        result = {}
    except Exception as error:  # what is not caught would be raised by eager itself
        result = type(error), [str(argument) for argument in error.args], error.__cause__
    return result, y
"""


def observed(function, maker):
    try:
        result = function(NAMESPACE[maker](2), 2, torch.ones(2))
    except Exception as error:
        return type(error), [str(argument).split(" at 0x")[0] for argument in error.args], error.__cause__
    return type(result), str(result).split(" at 0x")[0]


for _maker in rows(MAKERS):
    NAMESPACE[_maker] = eval(f"lambda n: {_maker}", NAMESPACE)


@pytest.mark.parametrize("expression", rows(EXPRESSIONS))
def test_an_operation_on_objects_of_every_kind(expression):
    source = CAUGHT.format(expression)
    for maker in rows(MAKERS):
        namespace = dict(NAMESPACE)
        exec(source, namespace)
        minicompile.reset()
        compiled = minicompile.compile(namespace["program"], backend="eager")
        assert observed(compiled, maker) == observed(namespace["program"], maker), maker


@pytest.mark.parametrize("thing", ["n", "Box", "Record", "None", "'text'", "Color.RED"])
def test_what_is_raised_must_be_an_exception(thing):
    for statement in (f"raise {thing}", f"raise Failure(n) from {thing}", f"next(g := countdown(2)), g.throw({thing})"):
        namespace = dict(NAMESPACE)
        exec(f"def program(i, n, x):\n    y = x + 1\n    {statement}\n    return y", namespace)
        minicompile.reset()
        compiled = minicompile.compile(namespace["program"], backend="eager")
        assert observed(compiled, "5") == observed(namespace["program"], "5"), statement


def test_a_generator_keeps_its_name_across_a_break():
    def program(x):
        generator = prelude.countdown(3)
        first = next(generator) + x
        minicompile.graph_break()
        return first, generator, list(generator)

    _, generator, rest = minicompile.compile(program, backend="eager")(torch.ones(2))
    assert (generator.__name__, generator.__qualname__, rest) == ("countdown", "countdown", [2, 1])


def keywords_behind_a_break(mapping, x):
    minicompile.graph_break()
    try:
        return dict(k=1, **mapping), x + 1
    finally:
        minicompile.graph_break()


def keywords_of_a_method_in_a_loop(mapping, x):
    results = []
    for name in ("k", "other"):
        try:
            results.append(types.SimpleNamespace(**mapping, **{name: name}).k)
        except (TypeError, AttributeError) as error:
            minicompile.graph_break()
            results.append(str(error))
    return results, x + 1


@pytest.mark.parametrize("function", [keywords_behind_a_break, keywords_of_a_method_in_a_loop])
def test_what_stands_behind_two_stars(function):
    """On 3.13 the interpreter finds the name of the function for the message below a NULL."""
    for mapping in ({}, {"z": 1}, {"k": 3}, 5, [("z", 1)], {1: 2}, None):
        found = []
        for program in (function, minicompile.compile(function, backend="eager")):
            try:
                found.append(str(program(mapping, torch.ones(2))))
            except TypeError as error:
                found.append(str(error))
        assert found[0] == found[1], mapping


WRONG_CALLS = """
bool(2, 3) ; bool(x=1) ; sorted([], foo=1) ; sorted() ; sorted(iterable=[]) ; sum([], foo=1) ; len(obj=[])
iter([], 1, 2) ; next(iter([]), 1, 2) ; getattr(1, 'a', 2, 3) ; vars(1, 2) ; round(1, 2, 3) ; zip(foo=1)
enumerate([], foo=1) ; list(a=1) ; range(1, 2, 3, 4) ; slice() ; isinstance(1, 2, 3) ; hasattr(1) ; reversed([], [])
dict({}, {}) ; set([], []) ; filter(1) ; map() ; str(1, 2, 3, 4) ; int(y=1) ; float(x=1) ; [].append() ; [].sort(1)
min(1, foo=2) ; round(1, foo=2) ; callable(obj=1) ; [].index() ; {}.get() ; functools.reduce(function=max)
operator.itemgetter(0)(i, n) ; operator.methodcaller('index')() ; operator.attrgetter('real')(obj=n)
(lambda a, /: a)(a=1) ; (lambda a, b, c: 0)() ; (lambda a, *, b, c: 0)() ; (lambda a, *, b, c: 0)(1) ; (lambda: 0)(1)
weakref.ref(Box)(1) ; weakref.ref(Box)(k=1) ; weakref.ref(i)(k=1) ; weakref.ref(x)(n) ; weakref.ref(Box, print)(1)
(lambda a, *, b=1: 0)(1, 2, b=3) ; (lambda a: 0)(1, 2, z=3) ; (lambda a: 0)(1, a=2) ; (lambda *a, b: 0)()
enumerate([], None) ; enumerate([], 1.5) ; itertools.islice([]) ; itertools.islice([], 1, 2, 3, 4) ; itertools.repeat()
itertools.zip_longest([], foo=1) ; itertools.combinations([], 1, 2) ; itertools.permutations([], Money(1))
itertools.count(1, 2, 3) ; [*itertools.filterfalse(0, [1])] ; [*itertools.accumulate([1, 2], '')]
operator.getitem(x) ; operator.setitem([], 1) ; functools.reduce(max, [1], initial=1) ; collections.defaultdict(0)
[1].index(1, None) ; (1,).index(1, 'a') ; collections.deque([1]).index(1, 1.5) ; {}.get(key=1) ; {}.pop(key=1)
{1: 2}.popitem(None) ; x.register_hook() ; x.__len__(z=1) ; x.is_shared(n) ; torch.tensor() ; torch.is_tensor(x, n)
torch.as_tensor(x, n) ; torch.numel() ; torch.Tensor.add() ; torch.autograd.grad() ; torch.Size(x)
[1].__add__(Odd(0)) ; (1,).__mul__([1]) ; 'a'.__add__(x) ; [1] * [1] ; operator.imul([1], [2])
operator.attrgetter('real', 1) ; operator.methodcaller(None) ; matched(Unmatched(), Unmatched)
{}.update({}, {}) ; Box(1).__dict__.update({}, {}) ; collections.OrderedDict().update({}, {}) ; Box(1, 2, 3)
collections.OrderedDict({}, {}) ; collections.defaultdict(int, {}, {}) ; collections.defaultdict(int).update({}, {})
"""


@pytest.mark.parametrize("call", rows(WRONG_CALLS))
def test_wrong_arguments(call):
    namespace = dict(NAMESPACE, before=[])
    exec(f"def program(i, n, x):\n    y = x + 1\n    before.append(y)\n    return {call}, y", namespace)
    minicompile.reset()
    compiled = minicompile.compile(namespace["program"], backend="eager")
    expected = observed(namespace["program"], "5")
    assert expected[0] is TypeError and observed(compiled, "5") == expected
    assert len(namespace["before"]) == 2  # what was done before is done


def test_operands_of_classes_derived_from_builtins_are_named():
    def program(text, number, x):
        told = []
        for call in (lambda: text + number, lambda: text * text, lambda: object.__repr__(5)[:4], lambda: "%d" % number):
            try:
                told.append(call())
            except TypeError as error:
                told.append(str(error))
        return told, x + 1

    arguments = classes.Word("k"), classes.Number(2), torch.ones(2)
    told = minicompile.compile(program, backend="eager")(*arguments)[0]
    assert told == program(*arguments)[0] and told[0] == 'can only concatenate str (not "Number") to str'


@pytest.mark.parametrize(
    "call", ["collections.deque([1], maxlen=n)", "enumerate([n], start=n)", "sorted([n], key=abs)"]
)
def test_right_keywords_of_what_is_written_in_c(call):
    namespace = dict(NAMESPACE)
    exec(f"def program(i, n, x):\n    return list({call}), x + 1", namespace)
    minicompile.reset()
    compiled = minicompile.compile(namespace["program"], backend="eager", fullgraph=True)
    assert observed(compiled, "5") == observed(namespace["program"], "5")


@pytest.mark.parametrize("use", ["{key: 1}", "{key}", "key in {1: 2}", "hash(key)"])
def test_a_type_that_holds_what_cannot_be_hashed(use):
    namespace = {"key": typing.Annotated[int, []]}
    exec(f"def program(i, n, x):\n    return {use}, x + 1", namespace)
    minicompile.reset()
    expected = observed(namespace["program"], "5")
    assert expected[0] is TypeError and observed(minicompile.compile(namespace["program"]), "5") == expected


def test_a_constant_has_the_attributes_of_its_own_class():
    def program(x):
        has = [hasattr(value, name) for value in (1, None, "a", 2.5) for name in ("__getitem__", "join", "__mod__")]
        return x + 1, has, getattr(1, "format", "none")

    minicompile.reset()
    x = torch.ones(2)
    assert minicompile.compile(program, fullgraph=True)(x)[1:] == program(x)[1:]


@torch.compiler.allow_in_graph
def scaled(x, kinds):
    return x + len(kinds)


def test_an_enum_of_c_has_no_text_for_the_graph():
    x, kind = torch.ones(2), torch.nn.functional.ScalingType.TensorWise
    compiled = minicompile.compile(lambda x: scaled(x * 2, [kind]))
    assert torch.equal(compiled(x), scaled(x * 2, [kind]))
    assert minicompile.stats()["break_reasons"] == {"operator argument": 1}


class Indexed:
    def __getitem__(self, index):
        return (1, 2)[index]


@pytest.mark.parametrize("value", [numpy.int64(3), numpy.float32(1), 3, None, object(), torch.float32, Indexed()])
def test_what_cannot_be_unpacked(value):
    def program(x, value):
        told = []
        for use in (
            lambda: [a + b for a, b in [value]],
            lambda: max(*value),
            lambda: [0, 1].__setitem__(slice(1), value),
        ):
            try:
                told.append(use())
            except TypeError as error:
                told.append(str(error))
        return x + 1, told

    assert str(minicompile.compile(program)(torch.ones(2), value)) == str(program(torch.ones(2), value))


def test_what_has_no_items_asks_for_an_index_all_the_same():
    class Asked(Indexed):
        def __index__(self):
            log.append("asked")
            return [0][self.number]

    def function(number):
        for owner in (object(), {1}, (1, 2), "text", 5, int, len, iter([1])):
            for change in (operator.delitem, lambda owner, index: operator.setitem(owner, index, 1), operator.getitem):
                index = Asked()
                index.number = number
                try:
                    change(owner, index)
                except Exception as error:
                    log.append(repr(error))

    log, compiled = [], minicompile.compile(function, backend="eager", fullgraph=True)
    for number in (0, 1):
        function(number)
        expected, log[:] = list(log), []
        compiled(number)
        assert log == expected and log.count("asked") > 5
        log.clear()


@pytest.mark.parametrize(
    "value", [[1], {1: 2}, {1}, (1,), iter([1]), range(2), torch.ones(1), slice(1), zip(), {}.keys()]
)
def test_what_cannot_be_called(value):
    def function(value):
        try:
            value()
        except TypeError as error:
            return str(error)

    compiled = minicompile.compile(function, backend="eager", fullgraph=True)
    assert compiled(value) == function(value)
