"""What random programs use, part four: coroutines, finalizers, managers that fail, odd answers, class hooks.

No class here holds state: the eager and the compiled run of a program share them.
"""

import contextlib
import contextvars
import functools

__all__ = (
    "noisy awaited collect later ticks AsyncLog Failing Odd Finalized Registered Named Prepared Counted counted "
    "nested_scopes Swap thrice held_open Typewriter"
).split()


def noisy(log, n=2):
    """A generator that says how it ends."""
    try:
        while n > 0:
            n -= 1
            got = yield n
            log.append(got)
    except GeneratorExit:
        log.append("exit")
        raise
    except KeyError as error:
        log.append(repr(error))
    finally:
        log.append("finally")


class later:
    """Awaitable; suspends once for each step."""

    def __init__(self, value, steps=1):
        self.value, self.steps = value, steps

    def __await__(self):
        for step in range(self.steps):
            yield step
        return self.value


def awaited(coroutine):
    """Runs a coroutine to its end, as an event loop would; its result and what it waited for."""
    waits = []
    try:
        while True:
            waits.append(coroutine.send(None))
    except StopIteration as stop:
        return stop.value, waits


async def ticks(n, log=None):
    try:
        for i in range(n % 4):
            yield await later(i, i % 2)
    finally:
        if log is not None:
            log.append("ticked")


async def collect(n):
    return [i async for i in ticks(n) if i != 1], {i: j async for i, j in pairs(n)}


async def pairs(n):
    async for i in ticks(n):
        yield i, n


class AsyncLog:
    def __init__(self, log, swallows=()):
        self.log, self.swallows = log, swallows

    async def __aenter__(self):
        self.log.append(await later("aenter"))
        return len(self.log)

    async def __aexit__(self, kind, error, traceback):
        self.log.append(await later(kind and kind.__name__))
        return kind is not None and issubclass(kind, self.swallows)


class Failing:
    """A context manager that fails on the way in or out, by its number."""

    def __init__(self, log, where=0):
        self.log, self.where = log, where

    def __enter__(self):
        self.log.append("in")
        if self.where == 1:
            raise ValueError("enter")
        return self.where

    def __exit__(self, kind, error, traceback):
        self.log.append(kind and kind.__name__)
        if self.where == 2:
            raise KeyError("exit")
        return self.where == 3


class Odd:
    """Special methods whose answers are of classes that nobody expects, or that fail."""

    def __init__(self, value=0):
        self.value = value

    def __bool__(self):
        if self.value == 1:
            raise ValueError("truth")
        return self.value > 1

    def __len__(self):
        return self.value

    def __eq__(self, other):
        return [self.value] if self.value != 3 else NotImplemented

    def __lt__(self, other):
        if self.value == 2:
            raise KeyError("order")
        return self.value

    def __contains__(self, item):
        return [item] * self.value

    def __iter__(self):
        return self if self.value > 2 else iter([self.value])

    def __next__(self):
        self.value -= 1
        if self.value < 0:
            raise StopIteration("end")
        return self.value

    def __hash__(self):
        return self.value if self.value != 4 else hash([])

    def __index__(self):
        return self.value if self.value >= 0 else True

    def __getitem__(self, key):
        return key

    def __str__(self):
        return f"odd{self.value}" if self.value != 2 else 5

    def __iadd__(self, other):
        return NotImplemented if self.value == 1 else (self, other)

    def __radd__(self, other):
        return "radd", self.value

    def __call__(self, *args, **kwargs):
        return len(args), sorted(kwargs)


class Finalized:
    """Says when it dies."""

    def __init__(self, log, name="dead"):
        self.log, self.name = log, name

    def __del__(self):
        if isinstance(getattr(self, "log", None), list):  # the start may have failed
            self.log.append(self.name)


class Registered:
    """Knows the classes that derive from it, and of which kind they are."""

    def __init_subclass__(cls, kind="none", **more):
        super().__init_subclass__(**more)
        cls.kind, cls.line = kind, [*getattr(cls, "line", ()), cls.__name__]

    def act(self, p=1):
        return len(self.line) + p


class Named:
    """A descriptor that knows where it stands, and counts in the object who reads it."""

    def __init__(self, start=0):
        self.start = start

    def __set_name__(self, owner, name):
        self.owner, self.name = owner.__name__, name

    def __get__(self, instance, owner=None):
        if instance is None:
            return self.owner, self.name
        instance.__dict__["reads"] = instance.__dict__.get("reads", self.start) + 1
        return instance.__dict__["reads"]

    def __set__(self, instance, value):
        instance.__dict__["written", self.name] = value


class Prepared(type):
    """A metaclass with a namespace of its own, which changes how its classes are made and called."""

    @classmethod
    def __prepare__(meta, name, bases, **more):
        return {"order": [name], **more}

    def __new__(meta, name, bases, namespace, **more):
        namespace["order"] = [*namespace["order"], *(key for key in namespace if key[0] != "_")]
        return super().__new__(meta, name, bases, namespace)

    def __init__(cls, name, bases, namespace, **more):
        super().__init__(name, bases, namespace)

    def __call__(cls, *args, **kwargs):
        made = super().__call__(*args, **kwargs)
        return made if not args else (made, args)


class Counted:
    """A decorator that is an object and, in classes, a method."""

    def __init__(self, function):
        functools.update_wrapper(self, function)
        self.function, self.calls = function, 0

    def __call__(self, *args, **kwargs):
        self.calls += 1
        return self.function(*args, **kwargs)

    def __get__(self, instance, owner=None):
        return self if instance is None else functools.partial(self, instance)


def counted(function):
    """A decorator that keeps its state in the function it makes."""

    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        wrapper.calls += 1
        wrapper.seen[len(args)] = wrapper.calls
        return function(*args, **kwargs)

    wrapper.calls, wrapper.seen = 0, {}
    return wrapper


def nested_scopes(log, n):
    """Generators inside generators that share a variable."""
    total = n

    def outer():
        nonlocal total
        for i in range(2):
            total += i

            def inner():
                nonlocal total
                total *= 2
                got = yield total
                log.append(got)
                return total

            got = yield from inner()
            yield got, i

    return outer()


class Swap:
    """Becomes an object of another class, and changes its own attributes as a dict."""

    def __init__(self, value=1):
        vars(self).update(value=value, made=True)

    def act(self, p=1):
        self.__class__ = Swapped
        return p

    def forget(self):
        self.__dict__ = {"value": 0}
        return self


class Swapped(Swap):
    def act(self, p=1):
        self.__dict__.pop("made", None)
        return -p


def thrice(function, value):
    """Calls back, and hands on what it raises as another exception."""
    try:
        return [function(value) for _ in range(3)]
    except LookupError as error:
        raise RuntimeError("thrice") from error


@contextlib.contextmanager
def held_open(variable, value):
    """Sets a context variable for a block."""
    token = variable.set(value)
    try:
        yield token.old_value is contextvars.Token.MISSING
    finally:
        variable.reset(token)


class Typewriter(str):
    """A text whose methods answer with texts of its class."""

    def __add__(self, other):
        return Typewriter(str.__add__(self, str(other)))

    def __getitem__(self, index):
        return Typewriter(super().__getitem__(index))

    def __format__(self, spec):
        return f"[{super().__format__(spec)}]"

    def __contains__(self, item):
        return super().__contains__(str(item))
