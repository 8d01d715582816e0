"""torch's operators that loop: `while_loop`, `scan` and `map` in one graph, values and gradients as a Python loop's."""

import pytest
import torch
from torch._higher_order_ops.map import map as map_operator
from torch._higher_order_ops.scan import scan
from torch._higher_order_ops.while_loop import while_loop

import minicompile
from minicompile.testing import CompileCounter

BACKENDS = ("eager", "inductor")
WEIGHT = torch.randn(3, 3, generator=torch.Generator().manual_seed(0)) * 0.3
X = torch.randn(4, 3, generator=torch.Generator().manual_seed(1))


def check(program, expected, backend, *arguments):
    """The compiled program, in one graph, gives this; returns its result."""
    found = minicompile.compile(program, backend=backend, fullgraph=True)(*arguments)
    torch.testing.assert_close(found, expected)
    return found


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("limit", [0, 1, 5])
def test_while_loop(limit, backend):
    def program(x, limit):
        return while_loop(
            lambda k, y: (k < limit) & (y.sum() < 1e6), lambda k, y: (k + 1, y @ WEIGHT + 1), (torch.tensor(0), x)
        )

    y = X
    for _ in range(limit):
        y = y @ WEIGHT + 1
    found = check(program, (torch.tensor(limit), y), backend, X, torch.tensor(limit))
    assert found[1] is not X and found[1].data_ptr() != X.data_ptr()


def test_while_loop_gives_gradients_of_what_it_takes_and_reads():
    weight, x = WEIGHT.clone().requires_grad_(), X.clone().requires_grad_()

    def program(x, count):
        return while_loop(lambda k, y: k < count, lambda k, y: (k + 1, (y @ weight).tanh()), (torch.tensor(0), x))[1]

    for count in (3, 0):
        y = x
        for _ in range(count):
            y = (y @ weight).tanh()
        expected = torch.autograd.grad(y.sum(), (x, weight), materialize_grads=True)
        found = minicompile.compile(program, backend="eager")(x, torch.tensor(count))
        assert torch.equal(found, y)
        torch.testing.assert_close(torch.autograd.grad(found.sum(), (x, weight)), expected)


def test_one_while_loop_for_every_count():
    counter = CompileCounter()
    compiled = minicompile.compile(
        lambda n: while_loop(lambda k, total: k < n, lambda k, total: (k + 1, total + k), (torch.tensor(0),) * 2),
        backend=counter,
    )
    for n in (0, 3, 10):
        assert compiled(torch.tensor(n))[1] == sum(range(n))
    assert counter.graphs == 1


def test_a_while_loop_that_changes_something_outside_breaks():
    seen = []

    def program(x):
        def body(k, y):
            seen.append(1)
            return k + 1, y * 2

        return while_loop(lambda k, y: k < 3, body, (torch.tensor(0), x))[1]

    with pytest.raises(minicompile.errors.Unsupported, match="while_loop"):
        minicompile.compile(program, backend="eager", fullgraph=True)(X)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("reverse", [False, True])
def test_scan(reverse, backend):
    x, weight = X.clone().requires_grad_(), WEIGHT.clone().requires_grad_()

    def step(carry, row):
        state = torch.tanh(carry["state"] @ weight + row["x"])
        return {"state": state}, (state * 2, row["x"].sum())

    def program(x):
        return scan(step, {"state": torch.zeros(3)}, {"x": x}, reverse=reverse)

    carry, rows = {"state": torch.zeros(3)}, []
    for k in reversed(range(4)) if reverse else range(4):
        carry, row = step(carry, {"x": x[k]})
        rows.append(row)
    columns = tuple(torch.stack(column[::-1] if reverse else column) for column in zip(*rows))
    found = check(program, (carry, columns), backend, x)
    totals = [result["state"].sum() + parts[0].sum() for result, parts in ((carry, columns), found)]
    expected, actual = (torch.autograd.grad(total, (x, weight)) for total in totals)
    torch.testing.assert_close(actual, expected)


@pytest.mark.parametrize("backend", BACKENDS)
def test_map(backend):
    def program(x, bias):
        return map_operator(lambda row, b: {"sine": row["x"].sin() + b, "twice": (row["x"] * 2,)}, {"x": x}, bias)

    check(program, {"sine": X.sin() + WEIGHT[0], "twice": (X * 2,)}, backend, X, WEIGHT[0])
