"""Operators between a tensor and what is no tensor: who is asked, in which order, and with the real tensor."""

import collections
import datetime
import enum
import fractions
import operator
import pathlib
import typing

import pytest
import torch

import minicompile


class Base:
    """Answers with what it was asked."""

    def __add__(self, other):
        return ("add", other)

    def __radd__(self, other):
        return ("radd", other)

    def __or__(self, other):
        return ("or", other)

    def __ror__(self, other):
        return ("ror", other)

    def __eq__(self, other):
        return ("eq", other)

    def __hash__(self):
        return 1


class Meta(Base, type):
    pass


class Of(metaclass=Meta):
    pass


class Number(Base, float):
    pass


class Text(Base, str):
    pass


class Row(Base, list):
    pass


class Pair(Base, collections.namedtuple("Pair", "left right")):
    pass


class Member(Base, enum.Enum):
    A = 1


class Whole(Base, int, enum.Enum):
    A = 1


class Spelled(str, enum.Enum):
    A = "%s"


class Adds(Base):
    def __iadd__(self, other):
        return ("iadd", other)


NEW = [Base, lambda: Of, lambda: Number(2), lambda: Text("s"), lambda: Row([1, 2]), lambda: Pair(1, 2), Adds]
NEW += [lambda: Member.A, lambda: Whole.A]
OTHERS = [lambda: typing.Optional[int], lambda: typing.TypeVar("T"), lambda: typing.ForwardRef("a"), lambda: int | str]
OTHERS += [lambda: fractions.Fraction(1, 2), lambda: datetime.timedelta(1), lambda: pathlib.PurePath("a"), lambda: int]
OTHERS += [
    lambda: {1: 2},
    lambda: "a",
    lambda: b"a",
    lambda: [1.0, 2.0],
    lambda: (1, 2),
    lambda: None,
    lambda: slice(1),
]
TEXTS = [lambda: "a%s", lambda: b"a%a", lambda: Spelled.A, lambda: Text("%s %%"), lambda: "%d"]


@pytest.mark.graph_errors
@pytest.mark.parametrize("number", range(len(NEW + OTHERS + TEXTS)))
def test_the_operand_is_asked_as_in_eager(number):
    make = (NEW + OTHERS + TEXTS)[number]
    for function in (operator.add, operator.or_, operator.eq, operator.mod, operator.iadd, operator.ior, divmod, pow):
        for order in (1, -1):

            def program(x):
                try:
                    return function(*[x + 1, make()][::order])
                except Exception as error:
                    return type(error), str(error)

            minicompile.reset()
            x = torch.ones(2, dtype=torch.int64) if function is operator.or_ else torch.ones(2)
            assert repr(minicompile.compile(program, backend="eager")(x)) == repr(program(x)), function


def test_an_operand_with_code_of_its_own_needs_no_break():
    def program(x):
        return [make() + x for make in (Base, lambda: Number(2), lambda: Text("s"), lambda: Pair(1, 2), Adds)]

    minicompile.reset()
    answers = minicompile.compile(program, backend="eager", fullgraph=True)(torch.ones(2))
    assert [kind for kind, _ in answers] == ["add"] * 5
