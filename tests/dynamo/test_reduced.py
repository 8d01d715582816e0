"""What values say of themselves to `copy` and `pickle`: `__reduce_ex__` of each kind, by each protocol, is eager's."""

import collections
import copy
import enum
import fractions
import functools
import re
import types

import pytest
import torch

import minicompile


class Plain:
    pass


class Slotted:
    __slots__ = ("a",)


class Colour(enum.Enum):
    RED = 1


class Words(list):
    pass


class Number(int):
    pass


PARTIAL = functools.partial(len, "a")
PARTIAL.noted = 1  # one that has no attributes yet is given an empty `__dict__` by whoever asks for it
Pair = collections.namedtuple("Pair", "a b")
VALUES = [
    *(0, True, 1.5, 1j, "a", b"a", None, ..., NotImplemented, (1, 2), [1], {"a": 1}, {1}, frozenset({1}), range(3)),
    *(slice(1, 2), bytearray(b"a"), collections.deque([1]), collections.OrderedDict(a=1), Pair(1, 2), Words([1])),
    *(collections.defaultdict(int), collections.Counter("a"), Plain, int, len, [].append, Plain(), Number(3)),
    *(Colour.RED, Colour, Slotted(), torch.float32, torch.device("cpu"), torch.strided, torch.Size([1])),
    *(torch.contiguous_format, torch.finfo(torch.half), torch.add, torch.nn.functional.relu, object(), str.join),
    *(fractions.Fraction(1, 2), re.compile("a"), PARTIAL, types.SimpleNamespace(a=1)),
    *({}.keys(), types.MappingProxyType({}), property(len), list[int], int | str, memoryview(b"a"), (1).__add__),
]


def shown(value):
    if isinstance(value, tuple):
        return type(value), *map(shown, value)
    if isinstance(value, Exception):
        return type(value), str(value)
    if hasattr(value, "__next__"):
        return type(value), list(value)
    return type(value) if type(value).__repr__ is object.__repr__ else repr(value)


ARGUMENTS = [0, 1, 2, 3, 4, 5, True, -1, 1 << 40, "a", 2.0, None]
ASKED = {
    f"__reduce_ex__({each!r})": functools.partial(lambda each, v: v.__reduce_ex__(each), each) for each in ARGUMENTS
}
ASKED |= {
    "__reduce__()": lambda v: v.__reduce__(),
    "__copy__()": lambda v: v.__copy__(),
    "__deepcopy__({})": lambda v: v.__deepcopy__({}),
    "__getnewargs__()": lambda v: v.__getnewargs__(),
    "object.__reduce__(v)": lambda v: object.__reduce__(v),
    "object.__reduce_ex__(v, 2)": lambda v: object.__reduce_ex__(v, 2),
    "object.__getstate__(v)": lambda v: object.__getstate__(v),
    "copy(v)": copy.copy,
}


@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
def test_a_value_reduces_to_what_eager_says(value):
    for name, ask in ASKED.items():

        def program(x, v, ask=ask):
            try:
                return x + 1, ask(v)
            except Exception as error:
                return x + 1, error

        expected = shown(program(torch.ones(1), value)[1])
        minicompile.reset()
        assert shown(minicompile.compile(program, backend="eager")(torch.ones(1), value)[1]) == expected, name


def test_constants_and_objects_reduce_without_a_break():
    def program(x, v):
        return x + 1, (0).__reduce_ex__(2)[1], v.__reduce_ex__(4)[1], [1].__reduce_ex__(2)[1]

    compiled = minicompile.compile(program, backend="eager", fullgraph=True)
    assert compiled(torch.ones(1), Plain())[1:] == ((int, 0), (Plain,), (list,))


GIVEN = [(), (1,), Pair(1, 2), 5, [1], None]
BOTH = [((), {}), ((1,), {}), ((1,), {"a": 1}), 5, None, (), ((1,),), ([], {}), ((), []), (1, 2, 3)]


@pytest.mark.parametrize("base", [object, list, dict])
@pytest.mark.parametrize("name, values", [("__getnewargs__", GIVEN), ("__getnewargs_ex__", BOTH)])
def test_what_a_class_says_of_its_arguments_is_checked(base, name, values):
    def reduced(made):
        try:
            return made.__reduce_ex__(2)
        except (TypeError, ValueError) as error:
            return error

    for value in values:
        made = type("Made", (base,), {name: lambda self, value=value: value})()
        minicompile.reset()
        assert shown(minicompile.compile(reduced, backend="eager")(made)) == shown(reduced(made)), value
