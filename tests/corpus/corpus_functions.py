"""Examples: functions, decorators, functools, operator."""

import functools
import logging
import operator

import torch
import torch.nn.functional as F
from corpus import X, Y, example

logger = logging.getLogger("corpus")


# --- functions ------------------------------------------------------------------------------------------
def with_everything(a, /, b, *rest, c=3, **more):
    return a + b + sum(rest) + c + sum(more.values())


@example("decorators")
def all_kinds_of_arguments(x):
    return with_everything(x, 1, 2, 3, c=4, d=5), with_everything(x, b=2)


def traced(function):
    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        wrapper.calls += 1
        return function(*args, **kwargs)

    wrapper.calls = 0
    return wrapper


def times(n):
    def decorate(function):
        @functools.wraps(function)
        def repeated(x):
            for _ in range(n):
                x = function(x)
            return x

        return repeated

    return decorate


@times(3)
def halve(x):
    return x / 2


@example("decorators")
def decorated_with_arguments(x):
    return halve(x), halve.__name__


@example("decorators", make=True)
def decorator_that_counts():
    @traced
    def double(x):
        return x * 2

    def forward(x):
        return double(double(x)), double.calls

    return forward


@example("decorators")
def decorator_in_function(x):
    @times(2)
    def shift(t):
        return t + 1

    return shift(x)


@example("closures shared between functions")
def recursion(x):
    def power(t, n):
        return t if n == 1 else t * power(t, n - 1)

    return power(x, 4)


@example("closures shared between functions")
def lambdas_in_a_dict(x):
    table = {"relu": F.relu, "half": lambda t: t / 2, "neg": operator.neg}
    for name in ("half", "relu", "neg"):
        x = table[name](x)
    return x


def with_mutable_default(x, seen=[]):
    seen.append(len(seen))
    return x + len(seen)


@example("decorators", make=True)
def mutable_default():
    with_mutable_default.__defaults__[0].clear()
    return with_mutable_default, with_mutable_default.__defaults__[0]


@example("decorators", make=True)
def function_attributes():
    def forward(x):
        forward.last = x.shape[0]
        return x + getattr(forward, "last", 0)

    return forward


# --- functools ------------------------------------------------------------------------------------------
@example("functools.partial")
def partial_of_function(x):
    normalize = functools.partial(F.normalize, dim=1)
    return normalize(x, p=1.0), normalize.keywords


@example("functools.partial", X, functools.partial(torch.add, alpha=3))
def partial_from_outside(x, function):
    return function(x, x)


@example("functools.partial")
def partial_of_partial(x):
    add = functools.partial(functools.partial(with_everything, x), 2)
    return add(3, c=0, d=1)


@example("functools.reduce", [X, Y, X])
def reduce_tensors(tensors):
    return functools.reduce(torch.add, tensors), functools.reduce(operator.mul, [1, 2, 3], 10)


@functools.cache
def table_of_factors(n):
    return [k * 2 for k in range(n)]


@example("functools.lru_cache")
def lru_cache_of_numbers(x):
    return x * table_of_factors(3)[2]


@functools.cache
def positions(n):
    return torch.arange(n, dtype=torch.float32)


@example("functools.lru_cache")
def cache_of_tensors(x):
    return x + positions(3)


@functools.singledispatch
def describe(value):
    return 1


@describe.register
def _(value: int):
    return value * 10


@describe.register(torch.Tensor)
def _(value):
    return value + 5


@example("functools.singledispatch")
def singledispatch(x):
    return describe(x) * describe(3) + describe("text")


class Basis:
    def __init__(self, n):
        self.n = n

    @functools.cached_property
    def table(self):
        return torch.arange(float(self.n))


@example("functools.cached_property", X, Basis(3))
def cached_property(x, basis):
    return x * basis.table + basis.table


@example("functools.wraps")
def wraps_in_function(x):
    def original(t):
        """Doubles."""
        return t * 2

    @functools.wraps(original)
    def wrapper(t):
        return original(t) + 1

    return wrapper(x), wrapper.__name__, wrapper.__doc__, wrapper.__wrapped__(x)


@functools.total_ordering
class Level:
    def __init__(self, n):
        self.n = n

    def __eq__(self, other):
        return self.n == other.n

    def __lt__(self, other):
        return self.n < other.n


@example("functools.wraps", X, Level(1), Level(2))
def total_ordering(x, a, b):
    return x + 1 if a >= b else x - 1


class Methods:
    def __init__(self):
        self.k = 2

    def scale(self, x, by):
        return x * by + self.k

    double = functools.partialmethod(scale, by=2)


@example("functools.partial", X, Methods())
def partial_method(x, methods):
    return methods.double(x)


# --- operator -------------------------------------------------------------------------------------------
@example("operator", X, Methods())
def operator_getters(x, methods):
    second = operator.itemgetter(1, 0)([5, 6, 7])
    return x * operator.attrgetter("k")(methods) + second[0], operator.methodcaller("sum", 0)(x)


@example("operator")
def operator_functions(x):
    y = operator.add(x, operator.mul(x, 2))
    y = operator.iadd(y, 1)
    return operator.matmul(y, y.T), operator.contains([1, 2], 2), operator.index(3)
