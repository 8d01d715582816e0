"""What random programs use, part two: objects of kind U, a class for each part of Python's object model.

No class here holds state: the eager and the compiled run of a program share them.
"""

import abc
import contextlib
import dataclasses
import functools
import math
import types
import typing

from .builtin_classes import *  # noqa: F403 (for the programs)

__all__ = (
    "Point Typed Heat Meta Tagged Frozen Options Bottom Shape Square Perm Level Row Table Couple Word Number Money "
    "Chain Steps Chameleon Methods Quiet Copied Place Alike Sealed Bag Fallback Top shown drive"
).split()


class Point:
    """Slots; equality without a hash."""

    __slots__ = ("value", "y")

    def __init__(self, value=0, y=1):
        self.value, self.y = value, y

    def __eq__(self, other):
        return isinstance(other, Point) and (self.value, self.y) == (other.value, other.y)

    def __repr__(self):
        return f"Point({self.value}, {self.y})"


class Typed:
    """A data descriptor that keeps its value under a name of its own."""

    def __init__(self, kind):
        self.kind = kind

    def __set_name__(self, owner, name):
        self.name = "_" + name

    def __get__(self, instance, owner=None):
        return self if instance is None else getattr(instance, self.name, -1)

    def __set__(self, instance, value):
        if not isinstance(value, self.kind):
            raise TypeError(f"{self.name[1:]} must be {self.kind.__name__}")
        setattr(instance, self.name, value)

    def __delete__(self, instance):
        delattr(instance, self.name)


class OnDemand:
    """A descriptor without __set__: what the instance holds comes first."""

    def __init__(self, function):
        self.function = function

    def __set_name__(self, owner, name):
        self.name = name

    def __get__(self, instance, owner=None):
        if instance is None:
            return self
        made = instance.__dict__[self.name] = self.function(instance)
        return made


class Heat:
    value = Typed(int)

    def __init__(self, value=0):
        self.value = value

    @OnDemand
    def doubled(self):
        return self.value * 2

    @functools.cached_property
    def cached(self):
        return [self.value]

    def act(self, p=1):
        return self.doubled + p + len(self.cached)


class Meta(type):
    """Classes with items, members, a length and attributes that are made up."""

    def __call__(cls, *args, **kwargs):
        made = super().__call__(*args, **kwargs)
        made.extra = len(args)
        return made

    def __getitem__(cls, key):
        return (cls.__name__, key)

    def __len__(cls):
        return 4

    def __contains__(cls, item):
        return item == 1

    def __iter__(cls):
        yield from (1, 2)

    def __getattr__(cls, name):
        if name == "made_up":
            return 5
        raise AttributeError(name)

    def __instancecheck__(cls, instance):
        return super().__instancecheck__(instance) or instance == 3

    @property
    def level(cls):
        return len(cls.__mro__)


class Tagged(metaclass=Meta):
    def __init__(self, value=0):
        self.value = value

    def act(self, p=1):
        return p + type(self).level + Tagged.made_up + len(type(self))


@dataclasses.dataclass(frozen=True, slots=True, order=True)
class Frozen:
    value: int = 0
    rest: tuple = ()

    def act(self, p=1):
        return dataclasses.replace(self, value=p).value


@dataclasses.dataclass(kw_only=True)
class Options:
    value: int = 1
    items: list = dataclasses.field(default_factory=list)
    total: int = dataclasses.field(init=False, repr=False, compare=False)
    shared: typing.ClassVar[int] = 3
    extra: dataclasses.InitVar[int] = 2

    def __post_init__(self, extra):
        self.total = self.value + extra


class Top:
    def __init__(self, value=0, **more):
        super().__init__(**more)
        self.value, self.trail = value, ["top"]

    def act(self, p=1):
        self.trail.append("top")
        return p


class Left(Top):
    def __init__(self, value=0, left=1, **more):
        super().__init__(value, **more)
        self.left = left

    def act(self, p=1):
        self.trail.append("left")
        return super().act(p + self.left)


class Right(Top):
    def act(self, p=1):
        self.trail.append("right")
        return super().act(p) * 2


class Bottom(Left, Right):
    def act(self, p=1):
        self.trail.append("bottom")
        return super(Bottom, self).act(p) - 1


class Shape(abc.ABC):
    @abc.abstractmethod
    def area(self):
        """Of this shape."""

    @property
    def value(self):
        return self.area()

    def __init_subclass__(cls, *, sides=0, **more):
        super().__init_subclass__(**more)
        cls.sides = sides

    def __class_getitem__(cls, item):
        return f"{cls.__name__}[{item}]"


class Square(Shape, sides=4):
    def __init__(self, edge=1):
        self.edge = edge

    def area(self):
        return self.edge**2

    def act(self, p=1):
        return self.sides + p


class Chameleon:
    """Every way an attribute is read, written and deleted, by methods of its own."""

    def __init__(self, value=1):
        object.__setattr__(self, "seen", [])
        self.value = value

    def __getattribute__(self, name):
        if name == "secret":
            return object.__getattribute__(self, "value") + 1
        return super().__getattribute__(name)

    def __setattr__(self, name, value):
        self.seen.append(name)
        super().__setattr__(name, value)

    def __delattr__(self, name):
        self.seen.append("del " + name)
        super().__delattr__(name)

    def __dir__(self):
        return ["value"]

    def act(self, p=1):
        return self.secret + p


@functools.total_ordering
class Methods:
    """Methods of each kind; an order made of one comparison."""

    def __init__(self, value=1):
        self.value = value

    def add(self, p, by=1):
        return self.value + p * by

    act = functools.partialmethod(add, by=2)

    @functools.singledispatchmethod
    def kind(self, p):
        return "any"

    @kind.register
    def _(self, p: int):
        return "int"

    @kind.register(list)
    def _(self, p):
        return "list"

    @classmethod
    def make(cls, *args):
        return cls(*args)

    @staticmethod
    def double(p):
        return p * 2

    def __lt__(self, other):
        return self.value < other.value

    def __eq__(self, other):
        return self.value == other.value


class Quiet(contextlib.ContextDecorator):
    """A context manager that is a decorator, too."""

    def __init__(self, value=0):
        self.value = value

    def __enter__(self):
        self.value += 1
        return self.value

    def __exit__(self, kind, error, traceback):
        self.value -= 2
        return kind is not None and issubclass(kind, LookupError)


class Copied:
    """Says itself how it is copied."""

    def __init__(self, value=0):
        self.value = value

    def __copy__(self):
        return type(self)(self.value + 1)

    def __deepcopy__(self, memo):
        return type(self)([self.value])


class Alike:
    """Equal by value, hashed by value: a key."""

    def __init__(self, value=0):
        self.value = value

    def __eq__(self, other):
        return isinstance(other, Alike) and self.value == other.value

    def __hash__(self):
        return hash(("alike", self.value))


class Sealed:
    """Read-only after the start."""

    __slots__ = ("value", "_done")

    def __init__(self, value=0):
        self.value = value
        self._done = True

    def __setattr__(self, name, value):
        if hasattr(self, "_done"):
            raise AttributeError(f"{name} is sealed")
        object.__setattr__(self, name, value)


class Fallback:
    """A property that fails with AttributeError asks __getattr__."""

    def __init__(self, value=0):
        self.start = value

    @property
    def value(self):
        if self.start < 1:
            raise AttributeError("no value")
        return self.start

    @value.deleter
    def value(self):
        self.start = 0

    def __getattr__(self, name):
        return ["made", name] if name != "never" else object.__getattribute__(self, name)

    __call__ = types.MethodType(lambda *args: len(args), 1)


def shown(value):
    """What a value says of itself, without addresses."""
    return str(value).split(" at 0x")[0][:40], math.floor(value) if hasattr(type(value), "__floor__") else None


def drive(generator, script):
    """Send, throw and close as the script says; the log of what came."""
    log = []
    for step in script:
        try:
            if step == "close":
                log.append(generator.close())
            elif isinstance(step, type):
                log.append(generator.throw(step(len(log))))
            else:
                log.append(generator.send(step))
        except StopIteration as stop:
            log.append(("stop", stop.value))
        except Exception as error:
            log.append((type(error).__name__, str(error)[:40]))
    return log
