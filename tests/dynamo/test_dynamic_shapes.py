"""Sizes and ints that change from call to call: how often a program compiles, what it assumes, and its values."""

import collections
import math

import pytest
import torch

import minicompile
from minicompile.testing import CompileCounter


def run(fn, calls, graphs, breaks=0, **options):
    """Compare every call with eager and count graphs.  Returns the texts of the shape guards of the newest graph."""
    counter = CompileCounter()
    minicompile.reset()
    compiled = minicompile.compile(fn, backend=counter, **options)
    before = minicompile.stats()["graph_breaks"]
    for arguments in calls:
        expected, result = fn(*arguments), compiled(*arguments)
        torch.testing.assert_close(result, expected, rtol=0, atol=0)
    assert counter.graphs == graphs
    assert minicompile.stats()["graph_breaks"] - before == breaks
    entry = minicompile.record.compilations[-1]
    return [str(guard) for guard in entry.artifacts("capture")[0].guards if guard.kind == "shape"]


def vectors(*sizes):
    return [(torch.arange(float(n)),) for n in sizes]


def test_the_second_size_makes_a_dimension_symbolic():
    guards = run(lambda x: x * 2 + x.shape[0], vectors(4, 6, 9, 100), graphs=2)
    assert guards == ["x.shape[0] > 1"]


def test_sizes_0_and_1_are_graphs_of_their_own():
    run(lambda x: x * 2, vectors(4, 6, 1, 0, 1, 0, 8), graphs=4)


def test_dynamic_true_needs_one_graph_and_false_one_for_each_size():
    run(lambda x: x * 2, vectors(4, 6, 9), graphs=1, dynamic=True)
    run(lambda x: x * 2, vectors(4, 6, 9), graphs=3, dynamic=False)


def test_only_the_changing_dimension_is_symbolic():
    guards = run(lambda x: x.sum(1), [(torch.ones(n, 3),) for n in (2, 5, 7)], graphs=2)
    assert guards == ["x.shape[0] > 1"]


def test_a_condition_on_a_size_is_a_guard_with_the_users_line():
    def choose(x):
        return x + 1 if x.shape[0] > 5 else x - 1

    guards = run(choose, vectors(4, 6, 9, 3, 2), graphs=3)
    assert guards == ["x.shape[0] > 1", "x.shape[0] <= 5"]
    newest = minicompile.record.compilations[-1].artifacts("capture")[0].guards
    line = choose.__code__.co_firstlineno + 1
    assert [f"test_dynamic_shapes.py:{line}" in g.user_location for g in newest if g.kind == "shape"] == [False, True]


def test_sizes_that_must_agree_become_one():
    pairs = [(torch.ones(n), torch.ones(n)) for n in (3, 5, 8)]
    guards = run(lambda x, y: x + y, pairs, graphs=2)
    assert "y.shape[0] == x.shape[0]" in guards or "x.shape[0] == y.shape[0]" in guards


@pytest.mark.parametrize(
    "fn",
    [
        lambda x: x.view(x.shape[0], -1, 2).sum(1),
        lambda x: torch.arange(x.size(0)) + torch.ones(x.shape[0], 1),
        lambda x: torch.cat([x, x[: x.shape[0] // 2]]),
        lambda x: x.reshape(-1).numel() * 2 + x.dim(),
        lambda x: (x + 1, *x.shape, x.shape[0] + 1, len(x), x.stride()[0], x.numel(), max(x.shape[0], 2)),
        lambda x: x.new_zeros(x.shape[0] * 2, 3),
        lambda x: x + x.size(dim=0) + x.stride(dim=0),
        lambda x: (x + 1, x.shape[1] == 4, hash(x.shape[1]), x.shape[1:] == (4,)),
        lambda x: x[x.shape[0] - 1],
        lambda x: {"x": x + 1, "n": x.shape[0], "half": x.shape[0] / 2, "negative": -x.shape[0]},
        lambda x: x.expand(3, *x.shape).permute(2, 0, 1).reshape(4, -1),
        lambda x: torch.nn.functional.pad(x, (0, 0, 1, x.shape[0])),
        lambda x: x.mean(0, keepdim=True) * (x.shape[0] ** 0.5),
    ],
)
def test_operations_on_sizes(fn):
    run(fn, [(torch.arange(n * 4.0).view(n, 4),) for n in (3, 5, 8, 12)], graphs=2)


def test_a_loop_over_a_size_is_unrolled_for_that_size():
    def loop(x):
        for row in range(x.shape[0]):
            x = x + row
        return x

    guards = run(loop, vectors(2, 3, 4), graphs=3)
    assert "x.shape[0] == 4" in guards


def test_ints_that_change_become_symbols():
    x = torch.ones(3)
    run(lambda x, n: x * n + n // 2, [(x, n) for n in (5, 7, 9, -4)], graphs=2)
    run(lambda x, n: x.new_full((n,), 2.0), [(x, n) for n in (5, 7, 9)], graphs=2)
    run(lambda x, n: x * n, [(x, True), (x, False), (x, 2), (x, 3), (x, 4)], graphs=4)


def test_an_int_as_index_or_key_is_looked_at():
    x, items = torch.ones(3), [1.0, 2.0, 3.0, 4.0]
    run(lambda x, n: x * items[n], [(x, n) for n in (2, 3)] * 2, graphs=2)
    run(lambda x, n: x * {2: 5, 3: 6}[n], [(x, n) for n in (2, 3)] * 2, graphs=2)
    run(lambda x, n: x + len(f"{n} of them"), [(x, n) for n in (2, 3)] * 2, graphs=2)


def test_a_counter_in_a_loop_with_breaks_stays_in_the_graph():
    def loop(x, n):
        for i in range(n):
            x = x * (i + 2) + i
            minicompile.graph_break()
        return x

    minicompile.reset()
    counter = CompileCounter()
    compiled = minicompile.compile(loop, backend=counter)
    for n in (4, 12, 30):
        assert torch.equal(compiled(torch.ones(3), n), loop(torch.ones(3), n))
    assert counter.graphs <= 6


def test_parameters_stay_static():
    module = torch.nn.Linear(4, 4)
    guards = run(lambda x: module(x) @ module.weight, [(torch.ones(n, 4),) for n in (2, 3, 5)], graphs=2)
    assert guards == ["x.shape[0] > 1"]


def test_strides_follow_sizes():
    transposed = [(torch.arange(n * 6.0).view(6, n).t(),) for n in (3, 4, 5)]
    run(lambda x: x.contiguous() + 1, transposed, graphs=2)
    plain = [(torch.arange(n * 6.0).view(n, 6),) for n in (3, 4, 5)]
    run(lambda x: x.contiguous() + 1, [transposed[0], plain[0], transposed[1], plain[1], *plain, *transposed], graphs=4)


def test_marked_dimensions_are_symbolic_at_once():
    calls = vectors(4, 6, 9)
    for (x,) in calls:
        minicompile.mark_dynamic(x, 0)
    run(lambda x: x * 2, calls, graphs=1)
    fixed = vectors(4, 6, 9)
    for (x,) in fixed:
        minicompile.mark_static(x)
    run(lambda x: x * 2, fixed, graphs=3)


def test_torch_marks_are_read_too():
    calls = vectors(4, 6, 9)
    for (x,) in calls:
        torch._dynamo.mark_dynamic(x, 0)
    run(lambda x: x * 2, calls, graphs=1)


def test_a_marked_dimension_that_must_be_one_number_is_an_error():
    def loop(x):
        for row in range(x.shape[0]):
            x = x + row
        return x

    x = torch.ones(4)
    minicompile.mark_dynamic(x, 0)
    with minicompile.config.patch(strict=False):
        with pytest.raises(minicompile.errors.ConstraintViolated, match=r"x.shape\[0\] is marked dynamic.*in loop"):
            minicompile.compile(loop, backend="eager")(x)
    y = torch.ones(4)
    minicompile.maybe_mark_dynamic(y, 0)
    assert torch.equal(minicompile.compile(loop, backend="eager")(y), loop(y))


def test_a_recompile_says_which_size_changed():
    def double(x):
        return x * 2

    compiled = minicompile.compile(double, backend="eager", dynamic=False)
    compiled(torch.ones(3, 8))
    compiled(torch.ones(3, 9))
    reason = minicompile.record.compilations[-1].recompile_reason
    line = double.__code__.co_firstlineno + 1
    assert reason.startswith("x.shape[1]: was 8, is 9 (") and f"test_dynamic_shapes.py:{line}" in reason


def test_a_size_that_became_known_is_a_number():
    run(lambda x: (x + 1, x.shape == (4, 3), hash(x.shape) == hash((4, 3))), [(torch.ones(4, 3),)], 1, dynamic=True)


def test_min_and_max_give_one_of_their_arguments():
    x = torch.ones(3)
    run(lambda x, n: x * max(n, 2) + min(n, 7), [(x, n) for n in (3, 5, 9, 4)], graphs=2)
    compiled = minicompile.compile(lambda n, x: (max(0.5, n), x + 1), backend="eager", dynamic=True)
    for n in (3, 5):
        result = compiled(n, x)[0]
        assert result == n and type(result) is int


def with_gradient(size):
    leaf = torch.ones(size, requires_grad=True)
    (leaf * leaf).sum().backward()
    return (leaf,)


def test_a_gradient_has_the_sizes_of_its_tensor():
    guards = run(lambda x: x * x.shape[0], [with_gradient(n) for n in (3, 4, 7)], graphs=2)
    assert guards == ["x.shape[0] > 1"]
    run(lambda x: x + x.grad * x.grad.shape[0], [with_gradient(n) for n in (3, 4, 7)], graphs=2)


def test_a_gradient_of_the_base_has_the_sizes_of_the_base():
    def f(w):
        view = w.t()
        view.sum().backward()  # a break; the view comes back with its base and the base's gradient
        return view * view.shape[1]

    run(f, [(torch.ones(n, 2, requires_grad=True),) for n in (3, 4, 7)], graphs=4, breaks=2)


def views(step):
    return [(torch.arange(60.0)[k * step : k * step + 4].view(2, 2),) for k in (0, 1, 2, 5, 2)]


def test_an_offset_counts_where_the_program_asks_for_it():
    run(lambda x: x * 2, views(step=2), graphs=1)
    run(lambda x: x * x.storage_offset(), views(step=2), graphs=4)
    run(lambda x: x[1] * x[1].storage_offset(), views(step=2), graphs=4)
    growing = [(torch.arange(60.0)[k : 3 * k],) for k in (6, 7, 9)]
    run(lambda x: x * (x.storage_offset() > 3), growing, graphs=1, dynamic=True)


COUNTER = 1


def test_a_global_int_that_changes_may_be_read_again():
    def program(x):
        global COUNTER
        y = x * COUNTER
        COUNTER += COUNTER
        return y + COUNTER

    global COUNTER
    counter = CompileCounter()
    compiled = minicompile.compile(program, backend=counter)
    for number in (3, 4, 6, 9):
        results = []
        for fn in (program, compiled):
            COUNTER = number
            results.append((fn(torch.ones(2)).tolist(), COUNTER))
        assert results[0] == results[1]
    assert counter.graphs == 2


def test_an_input_may_be_a_view_and_may_be_turned():
    def turned(x):
        x.swapaxes_(0, 1)
        return x * x.shape[0]

    views = [
        lambda: torch.ones(2, 3),
        lambda: torch.ones(4, 5),
        lambda: torch.ones(6, 6),
        lambda: torch.ones(3, 4).t(),
        lambda: torch.ones(2, 3)[:, ::2],
        lambda: torch.ones(8, 9)[::2, ::3],
        lambda: torch.ones(7, 9)[1:, 3:],
    ]
    compiled = minicompile.compile(turned, backend="eager")
    for make in views * 2:
        expected, actual = make(), make()
        assert torch.equal(compiled(actual), turned(expected))
        assert (actual.shape, actual.stride()) == (expected.shape, expected.stride())


@pytest.mark.parametrize(
    "ask",
    [
        lambda y, n: y[n],
        lambda y, n: y[-1],
        lambda y, n: y.__setitem__(n, 1.0),
        lambda y, n: torch.Tensor.__getitem__(y, n),
        lambda y, n: y.size(n),
        lambda y, n: y.stride(dim=n),
    ],
)
def test_what_a_tensor_without_dimensions_refuses(ask):
    """PyTorch's own `[]` on one that stands at a symbolic offset ends the process."""

    def function(x, n):
        y = x[x.shape[0] - 1][0]
        try:
            return ask(y, n)
        except IndexError as error:
            return torch.tensor(list(str(error).encode())), y

    run(function, [(torch.arange(4.0 * size).view(size, 4), size) for size in (2, 3, 5)], graphs=2, breaks=2)


@pytest.mark.parametrize("ask", [lambda y, n: y[n], lambda y, n: y[-1], lambda y, n: y.__setitem__(n, 1.0)])
def test_a_tensor_without_dimensions_is_not_indexed_during_capture(ask):
    """It would read a size that is not there, and crash only now and then."""

    def function(x, n):
        try:
            return ask(x.sum(), n)
        except IndexError:
            return x + 1

    first, *_ = minicompile.capture(function, torch.ones(3), 1).breaks
    assert "an index of a 0-dim tensor" in str(first)


Pair = collections.namedtuple("Pair", "left right")


@pytest.mark.parametrize(
    ("ask", "graphs"),
    [
        (lambda x, n, r: (n,) + x.shape, 2),
        (lambda x, n, r: x.shape.index(4), 3),
        (lambda x, n, r: Pair(n, 7).index(7), 3),
        (lambda x, n, r: torch.broadcast_shapes(x.shape, (1,))[0] + 1, 2),
        (lambda x, n, r: torch.broadcast_shapes(x.shape, (1, 1)), 2),
        (lambda x, n, r: x.nbytes + n, 2),
        (lambda x, n, r: n % math.inf, 3),
        (lambda x, n, r: n * 0.0, 3),
        (lambda x, n, r: n % 2.5, 3),
        (lambda x, n, r: n // 0.3, 3),
        (lambda x, n, r: n < math.nan, 3),
        (lambda x, n, r: n * math.inf - n * math.inf, 3),
        (lambda x, n, r: r - math.floor(r), 3),
        (lambda x, n, r: (r**n, r**n), 3),
        (lambda x, n, r: round(r, 2), 3),
        (lambda x, n, r: (round(n), round(n * 5, -1)), 3),
        (lambda x, n, r: sorted([3, 1], key=lambda i: n & 7), 3),
        (lambda x, n, r: 1 if (n - 5 & n - 5) >= 0 else 2, 3),
        (lambda x, n, r: 1 if (x.shape[0] | n) < (x.shape[0] | n) else 2, 3),
        (lambda x, n, r: 1 if math.sqrt(n) + 1 < math.sqrt(n) + 1 else 2, 2),
        (lambda x, n, r: [i for i in range(8) if (n ^ i) > (n ^ i)], 3),
        (lambda x, n, r: (math.sqrt(n) * 2, n << 1, n >> 1), 2),
    ],
)
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_sizes_and_numbers_as_python_has_them(backend, ask, graphs):
    def function(x, n, r):
        return ask(x, n, r), x + 1

    compiled = minicompile.compile(function, backend=backend, fullgraph=True)
    for n, r in ((3, 0.125), (5, -0.375), (7, -0.0)):
        x = torch.ones(n, 4)
        assert repr(compiled(x, n, r)) == repr(function(x, n, r))
    assert minicompile.stats()["graphs"] == graphs


def test_gradients_beside_a_number_that_changes():
    run(
        lambda w, n: torch.autograd.grad((w * n).sum(), w),
        [(torch.ones(2, requires_grad=True), n) for n in (2, 3, 4)],
        2,
    )
