"""Kernels on sizes that are read from data: bound when the call that brings them returns, arguments behind it."""

import pytest
import torch
import torch.nn.functional as F

import minicompile
from minicompile import config, record
from minicompile.testing import differences

TARGETS = ["cpp", pytest.param("triton", marks=pytest.mark.skipif(torch.cuda.is_available(), reason="interpreted"))]
WEIGHT, ROWS = torch.randn(4, 3), torch.randn(5, 4)
# of the rows of x that begin with a positive number, which may be none, and a number from 0 to 5
ON_PICKED_ROWS = {
    "pointwise": lambda y, n: (y * 2 + n).relu() * y.shape[0],
    "rows": lambda y, n: (F.softmax(y, 1), y.max(1), y.argmax(1), y.var(1), F.layer_norm(y, (4,))),
    "columns": lambda y, n: (y.sum(0), y.prod(0), (y > 1).all(0), y.cumsum(0), F.softmax(y, 0)),
    "all": lambda y, n: (y.mean(), y.norm(), (y > 1).any(), y.numel() + n, len(y)),
    "matmul": lambda y, n: (F.linear(y, WEIGHT.t()).relu(), y @ y.t(), y[None].expand(2, -1, -1) @ WEIGHT),
    "joined": lambda y, n: (torch.cat([y, ROWS, y * 2]), torch.stack([y, y + 1]), F.pad(y, (1, 2, 0, 3))),
    "repeated": lambda y, n: (
        y.repeat(2, 3),
        ROWS.repeat(n, 1),
        ROWS[0].expand(n, 4) * 2,
        ROWS.repeat_interleave(n, 0),
    ),
    "viewed": lambda y, n: (
        y.t().contiguous() + 1,
        y.view(-1, 2) * 2,
        y.flip(0),
        y[::2],
        y[: y.shape[0] // 2],
        y.tril(),
    ),
    "indexed": lambda y, n: (y.gather(1, (y > 1).long()[:, :2]), F.embedding((y > 1).long(), WEIGHT), ROWS[n - 1]),
    "scattered": lambda y, n: torch.zeros(3, 4).index_add(0, (y[:, 0] > 1).long(), y),
    "made": lambda y, n: (torch.arange(n) * 2.5 + n, torch.eye(n), torch.full((n, 2), 3.0), y.new_zeros(len(y), n)),
    "again": lambda y, n: (y[y[:, 0] > 1.5] * 2, (y > 1.5).nonzero().sum(0), torch.unique((y > 1).long()) + 1),
    "numbers": lambda y, n: (n % 3, n // 2, n * n - 1, -n, abs(n - 2), min(n, 3), max(n, len(y)), n / 2, y * n),
    "split": lambda y, n: [part + 1 for part in torch.split(ROWS, [n % 5, 5 - n % 5])],
    "attention": lambda y, n: F.scaled_dot_product_attention(y[None], y[None], y[None]),
    "convolution": lambda y, n: F.conv1d(y[:, None], torch.ones(2, 1, 2)).relu(),
}
WHICH = (6, torch.tensor(3)), (0, torch.tensor(0)), (1, torch.tensor(1)), (9, torch.tensor(5))  # rows picked, number


def picking(function):
    def program(x, number):
        n = number.item()
        torch._check(0 <= n)
        torch._check(n <= 5)
        return function(x[x[:, 0] > 0], n)

    return program


def rows_of_which(count):
    x = torch.rand(9, 4) + 0.5
    x[torch.randperm(9)[count:], 0] *= -1
    return x


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", ON_PICKED_ROWS)
def test_one_compile_serves_every_number_of_rows(name, target):
    program = picking(ON_PICKED_ROWS[name])
    compiled = minicompile.compile(program, fullgraph=True)
    with config.patch(capture_scalar_outputs=True, cpu_backend=target):
        for count, number in WHICH:
            x = rows_of_which(count)
            lines = differences(program(x, number), compiled(x, number), exact=False)
            assert not lines, (count, lines)
    assert minicompile.stats()["graphs"] == 1 and not record.counters["aot_rejected"]


@pytest.mark.parametrize("target", TARGETS)
def test_the_wrapper_binds_a_size_and_kernels_take_it(target):
    compiled = minicompile.compile(lambda x: x[x > 0].sin() * 2, fullgraph=True)
    with config.patch(capture_scalar_outputs=True, cpu_backend=target):
        compiled(torch.randn(50))
    (source,) = record.compilations[-1].artifacts("codegen")
    lines = [line.strip() for line in source.python.splitlines()]
    bound = next(k for k, line in enumerate(lines) if line.endswith(".size(0)"))
    symbol = lines[bound].split(" = ")[0]
    assert "index.Tensor" in lines[bound - 1]
    assert any(line.startswith("run_") and f", {symbol})" in line for line in lines[bound:])
    assert record.counters["kernels"] == 2  # the mask, and what follows


@pytest.mark.graph_errors
@pytest.mark.parametrize("target", TARGETS)
def test_no_kernel_reads_behind_a_size_that_does_not_hold(target):
    def program(x, n):
        n = n.item()
        return x.narrow(0, 0, n) + torch.zeros(n, 1)

    compiled = minicompile.compile(program, fullgraph=True)
    with config.patch(capture_scalar_outputs=True, cpu_backend=target):
        for n in (3, 100_000_000, 5, -1):
            x, n = torch.ones(5, 2), torch.tensor(n)
            try:
                expected = program(x, n)
            except RuntimeError as error:
                with pytest.raises(RuntimeError) as raised:
                    compiled(x, n)
                assert str(raised.value) == str(error)
            else:
                assert torch.equal(compiled(x, n), expected)
    assert record.counters["graph_errors"] == 2


@pytest.mark.graph_errors
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("largest", [lambda y: y.max(), lambda y: y.min(0)[0]])
def test_the_extreme_of_nothing_is_eagers_error(largest, target):
    def program(x):
        return largest(x[x[:, 0] > 0]) * 2

    compiled = minicompile.compile(program, fullgraph=True)
    with config.patch(capture_scalar_outputs=True, cpu_backend=target):
        for count in (4, 1, 0, 9):
            x = rows_of_which(count)
            if count:
                assert torch.equal(compiled(x), program(x))
            else:
                with pytest.raises((RuntimeError, IndexError)) as expected:
                    program(x)
                with pytest.raises(expected.type) as raised:
                    compiled(x)
                assert str(raised.value) == str(expected.value)


def test_the_truth_of_a_comparison_is_an_address():
    """GCC 12 takes -1 for it in a vector loop, unless it does not know."""

    def program(x):
        places = (x > 0).long()
        return x.gather(1, places[:, :2]), places, x.gather(1, places), x[0][(x[1] > 0).long()]

    for shape in ((4, 5), (7, 40)):
        x = torch.randn(*shape)
        assert not differences(program(x), minicompile.compile(program)(x))
