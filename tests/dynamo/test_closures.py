"""Functions made inside: the variables that they share, as cells of the frame that made them; their attributes."""

import collections

import pytest
import torch
from worlds import same

import minicompile

X = torch.ones(2)


def test_a_variable_that_is_read_from_an_argument_keeps_it_when_the_argument_is_rebound():
    """Both are cells of the frame: the argument's gets the new list, but not before the other was read from it."""

    def rebound(x, a):
        first, second = a, (a, x + 1)
        a = [first]

        def look():
            return a, first, second

        first = {second[1].numel(): first}
        return look

    def swapped(x, a, b):
        a, b = b, a
        return x * 2, lambda: (a, b)

    x, given = torch.ones(2), [7]
    a, first, second = minicompile.compile(rebound, backend="eager")(x, given)()
    assert a == [given] and a[0] is given and first == {2: given} and first[2] is given
    assert second[0] is given and torch.equal(second[1], x + 1)
    assert minicompile.compile(swapped, backend="eager")(x, 1, 2)[1]() == (2, 1)


def test_an_own_cell_that_is_emptied_is_an_unbound_local_wherever_it_is_read():
    """Behind breaks it is a free variable of what goes on; also in a handler that eager came to, and of a callee."""

    def program():
        def told(read):
            try:
                read()
            except NameError as error:
                return type(error), str(error), type(error.__context__)

        def empty(cell):
            del cell.cell_contents

        def f(x):
            value, found = x + 1, []
            read = lambda: value  # noqa: E731, F821
            minicompile.graph_break()
            empty(read.__closure__[0])
            found.append(told(read))
            try:
                {}["missing"]
            except KeyError:
                minicompile.graph_break()
                try:
                    value  # noqa: B018
                except UnboundLocalError as error:
                    found.append((str(error), type(error.__context__)))
            minicompile.graph_break()
            try:
                del value
            except UnboundLocalError as error:
                found.append((str(error), type(error.__context__)))
            return x * 2, found

        def outer(x):
            return f(x)[1], told(lambda: f(x) and missing)  # noqa: F821

        return outer, [(torch.ones(2),), (torch.ones(2),)]

    same(program, fullgraph=False)


# --- the attributes of functions ------------------------------------------------------------------------
def existing(a, *, b=2):
    return a, b


def made():
    def function(a: int = 3, *, b=2):
        "Text."
        return a, b

    return function


ATTRIBUTES = "__annotations__ __doc__ __module__ __defaults__ __kwdefaults__ __name__ __qualname__ other".split()
Pair = collections.namedtuple("Pair", "left right")
VALUES = [3, "s", (1,), (), None, {}, {"b": 5}, {"a": 5, "c": 6}, Pair(1, 2), collections.OrderedDict(b=2), [1]]


@pytest.mark.parametrize("number", range(len(VALUES)))
def test_an_attribute_of_a_function_takes_what_cpython_lets_it_take(number):
    def program(x):
        seen, function, value = [], made(), VALUES[number]
        for name in ATTRIBUTES:
            try:
                setattr(function, name, value)
                seen.append((getattr(function, name), getattr(function, name) is value))
            except TypeError as error:
                seen.append(str(error))
        try:
            existing.__name__ = value
        except TypeError as error:
            seen.append(str(error))
        try:
            seen.append(function())
        except TypeError as error:
            seen.append(str(error))
        return x + 1, seen, function.__defaults__, function.__kwdefaults__

    expected, actual = program(X), minicompile.compile(program, backend="eager", fullgraph=True)(X)
    assert repr(actual) == repr(expected)


def test_an_attribute_of_a_function_is_deleted():
    def program(x):
        seen, function = [], made()
        function.other = 1
        for name in [*ATTRIBUTES, "other"]:
            try:
                delattr(function, name)
                seen.append(getattr(function, name, "gone"))
            except (TypeError, AttributeError) as error:
                seen.append(str(error))
        try:
            function()
        except TypeError as error:
            seen.append(str(error))
        return x + 1, seen

    assert repr(minicompile.compile(program, backend="eager", fullgraph=True)(X)) == repr(program(X))


def test_defaults_are_objects_of_the_function():
    def program(x):
        function, defaults = made(), (1, 2, 3)
        function.__defaults__, named = defaults, function.__kwdefaults__
        named["b"] = 7
        before = function()
        minicompile.graph_break()
        named["b"] = 8
        same = function.__defaults__ is defaults, function.__kwdefaults__ is named, function.__kwdefaults__
        return x + 1, before, function(), same, existing(1)

    assert repr(minicompile.compile(program, backend="eager")(X)) == repr(program(X))
    assert program(X)[1:3] == ((3, 7), (3, 8))


def test_named_defaults_that_came_later_are_guarded():
    def function(*, b):
        return b

    def program(x):
        try:
            return x + function()
        except TypeError:
            return x

    compiled = minicompile.compile(program, backend="eager")
    assert compiled(X).equal(X)
    function.__kwdefaults__ = {"b": 2}
    assert compiled(X).equal(X + 2)


@pytest.mark.parametrize("kind", [list, lambda items: dict(enumerate(items)), collections.deque])
def test_what_lies_in_a_changed_container_is_not_read_again_from_an_argument_that_was_rebound(kind):
    def f(x, held, other):
        def rebind():
            nonlocal x, held
            x = other[0]
            held.update({7: 7}) if isinstance(held, dict) else held.append(7)
            held = dict(held) if isinstance(held, dict) else [*held]

        following = x + 1
        rebind()
        minicompile.graph_break()
        return x, held, following

    x = torch.ones(2)
    compiled = minicompile.compile(f, backend="eager")
    for _ in range(2):
        held = kind([1, x])
        now, copied, _ = compiled(x, held, [3])
        assert now == 3 and copied is not held
        assert held[1] is x and copied[1] is x and len(held) == len(copied) == 3
