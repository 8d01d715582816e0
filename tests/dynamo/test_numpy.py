"""NumPy in the graph: the results are numpy's in type, dtype, shape, layout and memory; the rest runs in eager."""

import collections
import functools

import numpy as np
import pytest
import torch

import minicompile
from minicompile import testing


def check(fn, *args, backend="eager", graphs=1, graph_breaks=0, **options):
    compiler = functools.partial(minicompile.compile, backend=backend)
    return testing.check(fn, *args, compiler=compiler, graphs=graphs, graph_breaks=graph_breaks, **options)


A = np.arange(6.0).reshape(2, 3) + 0.5
F = A.astype(np.float32)

EXPRESSIONS = [
    lambda a, f: a.sum(),
    lambda a, f: a.mean(axis=0),
    lambda a, f: np.max(a, axis=1, keepdims=True),
    lambda a, f: (a.T @ a, a.T, a[0], a[:, 1:], a[0, 1], a[..., None]),
    lambda a, f: np.where(a > 1, a, f),
    lambda a, f: (f + 1, f * 2.0, f + np.float64(1), f + np.float32(1), 1 / f, f**2, -f, abs(f), f // 2, f % 2),
    lambda a, f: (a == f, a < 3, (a > 1) & (f > 2), ~(a > 1)),
    lambda a, f: np.concatenate([a, f], axis=1),
    lambda a, f: np.stack((a, f)).reshape(-1, 2),
    lambda a, f: (np.zeros(3), np.ones((2, 2), dtype=np.int32), np.arange(4), np.linspace(0, 1, 5), np.eye(2)),
    lambda a, f: np.sqrt(np.exp(a)) + np.log1p(f),
    lambda a, f: np.linalg.norm(a),
    lambda a, f: np.linalg.inv(a @ a.T),
    lambda a, f: np.einsum("ij,kj->ik", a, f),
    lambda a, f: (np.argmax(a), np.argsort(-a, axis=1), np.cumsum(a), np.clip(a, 1, 3)),
    lambda a, f: (a.shape, a.dtype, f.dtype == np.float32, a.ndim, a.size, len(a), a.strides, a.nbytes, a.itemsize),
    lambda a, f: (a.astype(np.float32), a.astype("int64"), a.copy(), a.reshape(3, 2), a.ravel(), a.flatten()),
    lambda a, f: (np.array([1, 2.5]), np.array([[1], [2]]), np.asarray(a) is a, np.array(a) is a),
    lambda a, f: [row.sum() for row in a],
    lambda a, f: torch.from_numpy(a) + torch.as_tensor(f) + torch.tensor(a, dtype=torch.float32),
    lambda a, f: (np.outer(a[0], f[1]), np.dot(a[0], f[1]), np.vdot(a, f), np.matmul(a, f.T)),
    lambda a, f: np.split(a, 3, axis=1),
    lambda a, f: (np.full((2, 2), 7.0), np.ones_like(f), np.tile(f, 2), np.repeat(f, 2, axis=0), np.flip(a, 1).copy()),
    lambda a, f: a.sum() + f.sum() * np.float32(2) + 1,
    lambda a, f: (np.broadcast_to(a[0], (2, 3)).sum(), np.expand_dims(a, 0), np.squeeze(a[None]), np.moveaxis(a, 0, 1)),
    lambda a, f: (np.fft.fft(f).real, np.conj(a + 1j * f), (a + 1j * f).imag),
    lambda a, f: (a.std(), a.var(axis=0, ddof=1), np.median(a), np.percentile(a, 50)),
    lambda a, f: [np.array([1, 2, 3]) / 2, 2 / np.arange(1, 4), np.sqrt(np.arange(3)), np.exp(np.array([True, False]))],
    lambda a, f: [np.array([1, 2], np.int8) / 2, np.sqrt(np.array([1, 2], np.int16)), np.array([1]) / np.array([True])],
]


@pytest.mark.parametrize("number", range(len(EXPRESSIONS)))
def test_expressions(number):
    stats = testing.check(
        EXPRESSIONS[number], A, F, compiler=functools.partial(minicompile.compile, backend="eager"), calls=3
    )
    assert stats["graphs"] or stats["graph_breaks"] or number == 15


def test_most_expressions_are_one_graph():
    broken = []
    for number, expression in enumerate(EXPRESSIONS):
        minicompile.reset()
        minicompile.compile(expression, backend="eager")(A.copy(), F.copy())
        broken += [number] if minicompile.record.stats()["graph_breaks"] else []
    assert len(broken) <= 4, broken


def test_inductor_runs_a_numpy_program():
    def run(array):
        centred = array - array.mean(axis=0, keepdims=True)
        return np.tanh(centred @ centred.T), centred.sum()

    check(run, A, backend="inductor", rtol=1e-6, atol=1e-6)


def test_writes_reach_the_array():
    def run(array, other):
        array[0] = other[1] * 2
        array += 1
        view = array.T
        view[1:] *= 2
        np.add(array, 1, out=other)
        return view, array, array.sum()

    check(run, A, A + 1)


def test_numbers_are_read_when_they_are_made():
    def run(array):
        first, row = array[0, 0], array[0]
        array += 1
        return first, row, array

    check(run, A)


def test_one_array_under_two_names():
    def run(a, b):
        a += 1
        return a + b

    compiled = minicompile.compile(run, backend="eager")
    a, b = np.ones(3), np.zeros(3)
    assert compiled(a, b).tolist() == [2, 2, 2]
    same = np.ones(3)
    assert compiled(same, same).tolist() == [4, 4, 4]
    assert minicompile.record.stats()["recompiles"] == 1


def test_between_tensors_and_arrays():
    def run(x):
        array = x.detach().numpy()
        y = torch.from_numpy(array)
        y.add_(1)
        return x * 2, np.asarray(x.detach()).sum(), array.mean(axis=1), y

    check(run, torch.ones(2, 3))


def test_other_arrays_need_other_graphs():
    def run(array):
        return array * 2

    def outcome(function, array):
        try:
            found = function(array)
        except Exception as error:
            return type(error)
        return type(found), found.dtype, found.tolist()

    compiled = minicompile.compile(run, backend="eager")
    read_only = np.ones(3)
    read_only.flags.writeable = False
    for array in (np.ones(3), np.ones(3, np.float32), np.ones((3, 2)).T, np.ones(4)[::-1], np.array(["a"]), read_only):
        assert outcome(compiled, array) == outcome(run, array)


def test_what_needs_elements_breaks():
    def run(array):
        if array.sum() > 3:
            array = array * 2
        return float(array.max()), array.tolist(), f"{array[0, 0]}", np.unique(array)

    testing.check(run, A, compiler=functools.partial(minicompile.compile, backend="eager"))


def test_constants_are_numpys():
    scale = np.float32(-0.0)

    def run(x, n):
        width = np.prod(x.shape[1:])
        return x.reshape(width, -1) * np.sqrt(2) + n, np.copysign(1, scale), np.float32(1) / np.float64(3), np.pi

    check(run, torch.ones(2, 3), np.int64(2), also=[(torch.ones(2, 3), np.int64(3))], graphs=2)


class Asked(type):
    def __eq__(cls, other):
        return 5

    __hash__ = type.__hash__


class Metaclassed(metaclass=Asked):
    pass


class Sized(type):
    def __len__(cls):
        return 2

    def __getitem__(cls, index):
        return index if index < 2 else [][0]


class SizedClass(metaclass=Sized):
    dtype = np.dtype("float32")


class WithDtype:
    dtype = np.dtype("float32")


STRANGERS = [
    lambda s: np.float32() == SizedClass,
    lambda s: (np.float32() == Metaclassed, Metaclassed == np.float32(), Metaclassed != np.float64(2)),
    lambda s: np.zeros(2) == SizedClass,
    lambda s: np.add(np.zeros(2), SizedClass),
    lambda s: (np.dtype("f4") == WithDtype(), np.dtype("f4") == WithDtype, np.dtype("f8") == SizedClass),
    lambda s: (np.dtype("f4") == s, s == np.dtype("f4"), np.dtype("f4") == "float32", np.dtype("f4") == torch.float32),
    lambda s: np.float64(2) * s + np.float64(1),
    lambda s: np.float32(1) in [s, Metaclassed],
]


@pytest.mark.parametrize("number", range(len(STRANGERS)))
def test_numpy_takes_any_operand(number):
    expression = STRANGERS[number]
    compiled = minicompile.compile(lambda x, s: (expression(s), x + 1), backend="eager")
    for stranger in (WithDtype(), 3, "float32"):
        try:
            expected = expression(stranger)
        except TypeError as error:
            with pytest.raises(TypeError) as raised:
                compiled(torch.ones(1), stranger)
            assert str(raised.value) == str(error)
        else:
            found = compiled(torch.ones(1), stranger)[0]
            assert type(found) is type(expected) and repr(found) == repr(expected)


def test_a_negative_zero_is_another_constant():
    def run(x, number):
        return x * np.copysign(1, number)

    compiled = minicompile.compile(run, backend="eager")
    assert compiled(torch.ones(1), np.float32(0.0)).item() == 1
    assert compiled(torch.ones(1), np.float32(-0.0)).item() == -1


def test_random_numbers_are_numpys():
    def run(x):
        return x + np.random.rand(), np.random.default_rng(0).normal()

    np.random.seed(0)
    expected = run(torch.ones(1))
    np.random.seed(0)
    found = minicompile.compile(run, backend="eager")(torch.ones(1))
    assert found[0].equal(expected[0]) and found[1] == expected[1]


def test_errors_are_numpys():
    def run(array):
        try:
            return array @ array
        except ValueError as error:
            return str(error)[:20], array + 1

    testing.check(run, A, compiler=functools.partial(minicompile.compile, backend="eager"))


def test_numbers_that_are_no_numbers_and_operands_that_are_no_arrays():
    class Pair:
        def __len__(self):
            return 2

        def __getitem__(self, index):
            return [1, 2][index]

    def run(x):
        text, day = np.asarray(["a", "b"])[0], np.datetime64("2020-01-01")
        told = [np.asarray([text, "c"]).tolist(), np.maximum(day, day), np.asarray([day]).size]
        return x + 1, told, (np.int64(1) == Pair()).tolist(), (Pair() * np.float32(2)).tolist()

    assert str(minicompile.compile(run, backend="eager")(torch.ones(1))) == str(run(torch.ones(1)))


NUMBERS = [
    kind(1) for kind in (np.float64, np.float32, np.float16, np.int64, np.int32, np.uint8, np.bool_, np.complex64)
]


@pytest.mark.parametrize("number", NUMBERS, ids=lambda number: type(number).__name__)
def test_numbers_of_numpys_as_arguments(number):
    """PyTorch takes some for Python's numbers, asks others for their dtype, and reads the rest as floats."""

    def outcome(function):
        try:
            return [(t, t.dtype) for t in function()]
        except (TypeError, IndexError) as error:
            return repr(error)

    def run(x, outcome=outcome, number=number):
        y = x + 1
        calls = [
            lambda: [torch.tensor(number), torch.as_tensor(number), torch.tensor(number, dtype=torch.int8)],
            lambda: [torch.tensor([number, 1]), y],
            lambda: [x + number, number * x, x.long() * number, x.bool() + number, x.half() ** number],
            lambda: [torch.where(x > 0, number, x), torch.full((2,), number)],
            lambda: [torch.arange(number)],
            lambda: [x[number]],
            lambda: [x[[number]]],
            lambda: [x[0:number]],
            lambda: [x.reshape([number, -1])],
        ]
        return [outcome(call) for call in calls]

    compiled = minicompile.compile(run, backend="eager")
    for found, expected in zip(compiled(torch.ones(2)), run(torch.ones(2)), strict=True):
        assert str(found) == str(expected)


def test_what_a_graph_cannot_write_is_left_to_eager():
    def run(x):
        several = collections.deque([1, 2])
        return torch.tensor(several), np.asarray(several), x[collections.deque([0])], torch.ones(2) * several[1]

    testing.check(run, torch.ones(2), compiler=functools.partial(minicompile.compile, backend="eager"))


def test_python_types_as_dtypes():
    check(lambda x: (x.numpy().astype(int), np.zeros(2, dtype=float), np.ones(2, bool)), torch.ones(2))


@pytest.mark.parametrize("transform", [torch.vmap, torch.func.jacfwd])
@pytest.mark.parametrize("convert", [np.array, np.asarray])
def test_a_tensor_inside_of_a_transform_has_no_memory_for_an_array(transform, convert):
    def program(x):
        return transform(convert)(x)

    for call in (program, minicompile.compile(program, backend="eager")):
        with pytest.raises(RuntimeError, match="Cannot access data pointer"):
            call(torch.ones(2, 2))


@pytest.mark.parametrize("convert", [np.array, np.asarray])
def test_an_array_from_outside_of_a_transform(convert):
    def program(x):
        y = torch.vmap(lambda row: row + torch.from_numpy(convert(x)).sum())(x)
        return y, torch.vmap(lambda row: convert(x))(x)

    messages = []
    for call in (program, minicompile.compile(program, backend="eager")):
        with pytest.raises(ValueError, match="must only return Tensors, got type .*ndarray") as caught:
            call(torch.ones(2, 2))
        messages.append(str(caught.value))
    assert messages[0] == messages[1]


INDICES = [np.array(1), np.int32(-1), np.array([0, 2], np.int16), np.array([0.0, 1.0]), np.array([[1], [3]])]
INDICES += [(slice(None), np.array(1)), (slice(np.int8(1), None), np.int32(2)), (np.array([0, 1]), [2, 0])]


@pytest.mark.parametrize("number", range(len(INDICES)))
def test_tensors_are_indexed_by_numpys_values(number):
    def read_and_written(x, index):
        y = x * 1
        y[index] += 2
        return x[index] * 2, y

    check(read_and_written, torch.randn(4, 3), INDICES[number])


def test_one_place_of_a_tensor_is_a_view():
    def select(x):
        return x[np.array(1)]

    x = torch.randn(4, 3)
    assert minicompile.compile(select, backend="eager")(x).data_ptr() == x[1].data_ptr()
