"""Small programs after public bug reports of torch.compile, eager against captured: Python's semantics and effects.

A program returns (function, steps, state); a step is the arguments of a call, or changes the world between calls.  The
number is the report's (pytorch/pytorch, unless said).
"""

import collections
import contextlib
import functools

import numpy
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from worlds import same

X = torch.tensor([2.0])


class Lying(set):
    """Its `__iter__` and `__len__` are not asked by C code."""

    def __iter__(self):
        return iter([99])

    def __len__(self):
        return 17


class LyingList(list):
    def __iter__(self):
        return iter([9, 9])


class LyingTuple(tuple):
    def __iter__(self):
        return iter([8, 8, 8])


def set_subclasses_as_operands():
    lying = Lying({1, 2})

    def function(x, s):
        a, b, c, d = {1, 2}, {1, 3}, {1, 9}, {1, 9}
        b.update(s)
        c.intersection_update(s)
        d -= s
        made = Lying([4])
        return a == s, a | s, s & a, a - s, b, c, d, set(s), {7} | made, a.issubset(s), a.union(s, [3]), len(s), list(s)

    return function, [(X, lying), (X, lying)]


def sequence_subclasses_as_operands():
    row, pair = LyingList([1, 2]), LyingTuple((4, 5))

    def function(x, row, pair):
        grown = [0]
        grown.extend(row)
        return [0] + row, row + [0], (1,) + pair, row == [1, 2], [1, 1] < row, grown, list(row), "%s %s" % pair

    return function, [(X, row, pair)]


def keys_moved_to_the_front():
    ordered = collections.OrderedDict(a=1, b=2)

    def function(x, ordered):
        ordered["z"] = x
        ordered.move_to_end("z", last=False)
        ordered.pop("b", None)
        return list(ordered)

    return function, [(X, ordered), (X, ordered)], lambda: list(ordered.items())


def metaclass_with_getattr_and_instancecheck():
    class Meta(type):
        def __getattr__(cls, name):
            return name

        def __instancecheck__(cls, instance):
            return instance == 5 or type.__instancecheck__(cls, instance)

    class Kind(metaclass=Meta):
        pass

    def function(x):
        return isinstance(5, Kind), isinstance(4, Kind), isinstance(Kind(), Kind), Kind.anything

    return function, [(X,)]


def caches_looked_into_and_cleared():
    calls = []

    @functools.cache
    def cached(number):
        calls.append(number)
        return number * len(calls)

    def function(x):
        before = cached.cache_info().currsize
        first = cached(1)
        cached.cache_clear()
        return x + first + cached(1), before, cached.cache_info().misses

    return function, [(X,), (X,)], lambda: list(calls)


def cached_functions_that_raise():
    world = {}

    @functools.cache
    def cached(number):
        return world[number]

    def function(x):
        try:
            return x + cached(1)
        except KeyError as error:
            return x * 2, error.args

    return function, [(X,), (X,), lambda: world.update({1: 5}), (X,), world.clear, (X,)]


class Watching(TorchDispatchMode):
    """Sees each operation once, and changes one."""

    def __init__(self, seen):
        super().__init__()
        self.seen = seen

    def __torch_dispatch__(self, operator, types, args=(), kwargs=None):
        self.seen.append(str(operator))
        result = operator(*args, **(kwargs or {}))
        return result + 5 if operator is torch.ops.aten.mul.Tensor else result


def dispatch_modes_inside_and_around():
    seen, stack = [], contextlib.ExitStack()

    def function(x):
        with Watching(seen):
            y = x * 2
        return y + 1

    steps = [(X,), lambda: stack.enter_context(Watching(seen)), (X,), stack.close, (X,)]
    return function, steps, lambda: [name for name in seen if "mul" in name or "add" in name]


def arrays_resized_in_place():
    def function(x):
        array = numpy.arange(6)
        other = array
        array.resize(3, 2)
        array[0] = 9
        return torch.from_numpy(array.T.copy()) + x, other.shape, len(array)

    return function, [(X,), (X,)]


def questions_about_sparse_results():
    def function(x):
        sparse = x.to_sparse()
        return sparse._nnz(), sparse.coalesce().values().shape, x * 2

    return function, [(torch.tensor([[1.0, 0.0], [0.0, 2.0]]),), (torch.tensor([[0.0, 0.0], [0.0, 2.0]]),)]


def quantized_results():
    def function(x):
        quantized = torch.quantize_per_tensor(x, 0.1, 0, torch.quint8)
        return quantized.dequantize(), quantized.int_repr(), quantized.dtype

    return function, [(X,), (X / 3,)]


BROKEN = [
    (94565, questions_about_sparse_results),
    (94565, quantized_results),
    (113539, arrays_resized_in_place),
    (164119, dispatch_modes_inside_and_around),
    (146598, caches_looked_into_and_cleared),
    (146598, cached_functions_that_raise),
]


def branches_with_an_int_that_changes():
    weight = torch.ones(1)

    def function(x, k):
        return torch.cond(x.sum() > 1, lambda y: y * k + weight, lambda y: y - weight, (x,))

    return function, [(X, 2), (X, 3), (-X, 4)]


def the_class_of_none():
    def function(x, y):
        names = {type(None): "nothing", ...: "dots"}
        methods = None.__eq__(None), None.__bool__(), None.__repr__(), None.__hash__() == hash(None)
        return names[None.__class__], isinstance(y, None.__class__), None.__class__ is type(y), methods

    return function, [(X, None), (X, 1)]


PROGRAMS = [
    (101980, the_class_of_none),
    (113235, branches_with_an_int_that_changes),
    (186671, set_subclasses_as_operands),
    (186671, sequence_subclasses_as_operands),
    (184673, keys_moved_to_the_front),
    (174050, metaclass_with_getattr_and_instancecheck),
]


def rows(programs):
    return pytest.mark.parametrize("program", [pytest.param(p, id=f"{number}-{p.__name__}") for number, p in programs])


@rows(PROGRAMS)
def test_public_bug(program):
    same(program)


@rows(BROKEN)
def test_public_bug_with_a_break(program):
    same(program, fullgraph=False)
