"""Arithmetic of ints that change from call to call, and of ints read from data: values, types and errors of eager."""

import operator

import pytest
import torch

import minicompile
from minicompile import config

VALUES = [
    (5, 2),
    (7, 3),
    (4, 2),
    (6, 3),
    (0, 0),
    (0, -3),
    (-1, -2),
    (3, -1),
    (-7, 2),
    (2, 0),
    (1 << 62, 3),
    (-(1 << 63), -1),
    (6, (1 << 63) - 1),
]


def once_a_sum(n, m):
    """Behind hex() ShapeEnv knows the sum as a number."""
    total = n + m
    return hex(total), hex(total + m), list(range(total + n, total + n + 2))


def once_a_sum_then_a_product(n, m):
    total = n + m
    if total == 3 * m:
        return total, total + m, [7] * ((total + m) % 4)
    return total - m


PROGRAMS = {
    "sum": once_a_sum,
    "product": once_a_sum_then_a_product,
    "n % n": lambda n, m: (m, n % n),
    "n // n": lambda n, m: (m, n // n),
    "n / n": lambda n, m: (m, n / n),
    "(m % n) / n": lambda n, m: (m, (m % n) / n, (n - n) / m),
    "zero": lambda n, m: (m, 0 if n else (n / -2, n / m, n * -1.5, n * (m + 0.5))),
    "0 % n": lambda n, m: (m, (n - n) % n),
    "n * m // m": lambda n, m: n * m // m,
    "0 << n": lambda n, m: (m, 0 << n % 70 - 3),
    "0 >> n": lambda n, m: (m, (n - n) >> m % 7 - 3),
    "1 ** n": lambda n, m: (m, 1**n, 2 ** (n % 9 - 4)),
    "0 ** n": lambda n, m: (n, 0 ** (m % 5 - 2)),
    "n // -2 // n": lambda n, m: (m, n // -2 // n),
    "n // 2 // -3": lambda n, m: (m, n // 2 // -3, n // 2 % -3),
    "n // m // m": lambda n, m: n // m // m,
    "divmod": lambda n, m: (divmod(n, 3), divmod(n, m), divmod(7, m)),
    "n ** 2 % 7": lambda n, m: (m, n**2 % 7, (n * n).bit_length()),
    "n << 3": lambda n, m: (m, (n << 3).bit_length(), [n << 3][0] % 5),
    "n == 2 ** 62 + 1": lambda n, m: (m, n == (1 << 62) + 1, n + m > 1 << 62),
    "bits": lambda n, m: (n.bit_length(), m.bit_length()),
}


def outcome(function, *numbers):
    try:
        return repr(function(torch.ones(2), *numbers))
    except (ArithmeticError, TypeError, ValueError) as error:
        return repr(error)


@pytest.mark.graph_errors
@pytest.mark.parametrize("read", [False, True], ids=["arguments", "data"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_ints(name, read):
    def program(x, n, m):
        if read:
            n, m = n.item(), m.item()
        return x + 1, PROGRAMS[name](n, m)

    with config.patch(capture_scalar_outputs=read, recompile_limit=20):
        for values in (VALUES, VALUES[::-1]):
            minicompile.reset()
            compiled = minicompile.compile(program, backend="eager")
            for numbers in values:
                arguments = map(torch.tensor, numbers) if read else numbers
                numbers = list(arguments)
                assert outcome(compiled, *numbers) == outcome(program, *numbers), numbers


def test_a_guard_tells_large_ints_apart():
    compiled = minicompile.compile(lambda x, n: (x, n.bit_count()), backend="eager")
    for n in (3, (1 << 53) + 1, 1 << 53, (1 << 60) + 1, 1 << 60, (1 << 62) - 1):
        assert compiled(torch.ones(1), n)[1] == n.bit_count()


@pytest.mark.parametrize("function", [operator.mod, operator.floordiv, operator.truediv])
def test_a_size_divides_without_a_guard(function):
    compiled = minicompile.compile(lambda x: x * function(8, x.shape[0]), backend="eager", dynamic=True)
    for size in (2, 4):
        assert compiled(torch.ones(size)).tolist() == [function(8, size)] * size
    capture = minicompile.record.compilations[-1].artifacts("capture")[0]
    assert [str(guard) for guard in capture.guards if guard.kind == "shape"] == ["x.shape[0] > 1"]


@pytest.mark.parametrize("read", [False, True])
@pytest.mark.parametrize("name", ["invert", "and_", "or_", "xor", "lshift", "rshift", "matmul", "iand", "imatmul"])
def test_operators_of_ints_refuse_floats(name, read):
    function = getattr(operator, name)

    def program(x, n, m):
        if read:
            n, m = n.item(), m.item()
        return x + 1, function(n) if name == "invert" else function(n, m)

    with config.patch(capture_scalar_outputs=read, strict=True):
        compiled = minicompile.compile(program, backend="eager")
        for numbers in [(1, 2), (1.5, 2), (3, 5), (2.5, 3), (1, 1.5), (1.5, 2.5)]:
            numbers = list(map(torch.tensor, numbers)) if read else numbers
            assert outcome(compiled, *numbers) == outcome(program, *numbers), numbers
