"""What random programs use, part three: classes that are numbers, texts, containers or iterators, or act like them."""

import collections
import enum
import typing

__all__ = "Perm Level Row Table Couple Word Number Money Chain Steps Place Bag".split()


class Perm(enum.Flag):
    READ = enum.auto()
    WRITE = enum.auto()
    BOTH = READ | WRITE


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 3

    @classmethod
    def _missing_(cls, value):
        return cls.LOW if value == 0 else None

    def act(self, p=1):
        return self.value + p


class Row(list):
    def __init__(self, *items):
        super().__init__(items)
        self.value = len(items)

    def __getitem__(self, index):
        found = super().__getitem__(index)
        return found * 10 if isinstance(found, int) else found

    def append(self, item):
        self.value += 1
        super().append(item)

    def act(self, p=1):
        self.append(p)
        return sum(self)


class Table(dict):
    def __missing__(self, key):
        self[key] = made = [key]
        return made

    def act(self, p=1):
        return self[p][0] + len(self)


class Couple(tuple):
    __slots__ = ()

    def __new__(cls, *items):
        return super().__new__(cls, items)

    @property
    def value(self):
        return self[0]

    def __add__(self, other):
        return type(self)(*super().__add__(tuple(other)))


class Word(str):
    def __new__(cls, text=""):
        made = super().__new__(cls, f"w{text}")
        made.value = len(made)
        return made

    def upper(self):
        return super().upper() + "!"


class Number(int):
    def __add__(self, other):
        return Number(super().__add__(other) + 1)

    @property
    def value(self):
        return int(self) + 1

    def act(self, p=1):
        return self + p


class Money:
    """Every conversion and the rarer operators."""

    def __init__(self, value=0):
        self.value = value

    def __int__(self):
        return self.value

    def __index__(self):
        return self.value

    def __float__(self):
        return self.value / 2

    def __complex__(self):
        return complex(self.value, 1)

    def __round__(self, digits=0):
        return self.value + digits

    def __floor__(self):
        return self.value - 1

    def __format__(self, spec):
        return f"<{self.value:{spec}}>"

    def __str__(self):
        return f"${self.value}"

    def __bytes__(self):
        return bytes([self.value % 7])

    def __divmod__(self, other):
        return divmod(self.value, other)

    def __rdivmod__(self, other):
        return other, self.value

    def __pow__(self, other, mod=None):
        return Money(pow(self.value, 2, mod))

    def __rpow__(self, other):
        return "rpow"

    def __matmul__(self, other):
        return NotImplemented

    def __rsub__(self, other):
        return Money(other - self.value) if isinstance(other, int) else NotImplemented

    def __isub__(self, other):
        return Money(self.value - 2)

    def __lshift__(self, other):
        return [self, other]

    def __rand__(self, other):
        return other

    def __invert__(self):
        return Money(-self.value)

    def __pos__(self):
        return self

    def __abs__(self):
        return Money(abs(self.value))

    def __ge__(self, other):
        return self.value >= int(other)

    def __hash__(self):
        return self.value % 3

    def __eq__(self, other):
        return self.value == other.value if isinstance(other, Money) else NotImplemented


class Chain:
    """Only __getitem__ and __len__."""

    def __init__(self, value=2):
        self.value = value

    def __len__(self):
        return self.value % 4

    def __getitem__(self, index):
        if not 0 <= index < len(self):
            raise IndexError(index)
        return self.value + index


class Steps:
    """An iterator that can be reversed and says its length."""

    def __init__(self, value=2):
        self.value = value % 4

    def __iter__(self):
        return self

    def __next__(self):
        if self.value <= 0:
            raise StopIteration(self.value)
        self.value -= 1
        return self.value

    def __reversed__(self):
        return iter(["back", self.value])

    def __length_hint__(self):
        return self.value


class Place(typing.NamedTuple):
    value: int
    name: str = "here"

    def act(self, p=1):
        return self._replace(value=p).value


T = typing.TypeVar("T")


class Bag(collections.UserList, typing.Generic[T]):
    """Python all the way down; a generic class."""

    @property
    def value(self):
        return len(self.data)

    def act(self, p=1):
        self.append(p)
        return self[-1]
