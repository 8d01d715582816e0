"""Numbers and shapes that are read from data: a break by default, in one graph with `config.capture_scalar_outputs`.

The asserts of this file are programs too: PYTEST_DONT_REWRITE.
"""

import pytest
import torch

import minicompile
from minicompile import config, record
from minicompile.errors import Unsupported
from minicompile.testing import CompileCounter, differences

T = torch.tensor


def narrowed(x, lengths):
    n = lengths[0].item()
    return x.narrow(0, 0, n) * 2 + n, n * 2, torch.zeros(n, 2), torch.arange(n), x[:n].expand(2, n, 4)


def bounded(x, lengths):
    a, b = lengths.tolist()
    torch._check(0 <= a)
    torch._check(a <= b)
    return x[a:b].sum(), x[:b] * 2, x[a], x[:, 1][a], x[..., a, :], torch.ones(b).view(b, 1), torch.tensor([a, b])


def from_the_end(x, lengths):
    a, b = lengths.tolist()
    return x[a:] + 1, x[a] * 2, x[:b].sum(0), x * a


def written(x, lengths):
    n, x = lengths[0].item(), x.clone()
    torch._check(0 <= n)
    torch._check(n < 9)
    x[n] = 1
    x[1, n % 4] = n
    x[:n] = 2
    x[: lengths[1]] *= 3
    return x


def masked(x, lengths):
    y = x[x > 0]
    return y * 2, y.sum(), y.shape[0], (x > 0).nonzero(), torch.masked_select(x, x > 0), torch.where(x[:, 0] > 0)


def counted(x, lengths):
    values, counts = torch.unique(lengths, return_counts=True)
    return torch.repeat_interleave(x[:2], lengths.abs(), dim=0), values * 2, counts, len(values)


def floats(x, lengths):
    f, positive = x[0, 0].item(), (x[0, 0] > 0).item()
    return x * f, f * 2.0, x.clamp(max=f), x + float(x[1, 0]), positive, float(lengths[0]), x * int(x[0, 1])


def packed(x, lengths):
    return torch.cat([row[: abs(n)] for row, n in zip(x, lengths.tolist())])


NEAR, FAR = (T([3, 4]), T([2, 9]), T([0, 5])), (T([3, -4]), T([-5, 2]), T([-1, 8]))
PROGRAMS = {narrowed: NEAR, bounded: NEAR, from_the_end: FAR, written: NEAR}
PROGRAMS |= {masked: NEAR, counted: FAR, floats: FAR, packed: FAR}


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_one_graph_serves_all_data(program):
    compiled, backend = minicompile.compile(program, backend=(counter := CompileCounter()), fullgraph=True), counter
    with config.patch(capture_scalar_outputs=True):
        for k, lengths in enumerate(PROGRAMS[program]):
            x = torch.randn(9, 4) - (0, 1, 9)[k]  # the last has nothing above zero
            assert not (lines := differences(program(x, lengths), compiled(x, lengths))), lines
    assert backend.graphs == 1 and not record.counters["graph_errors"]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_by_default_they_break(program):
    compiled, x = minicompile.compile(program, backend="eager"), torch.randn(9, 4)
    for lengths in PROGRAMS[program]:
        assert not (lines := differences(program(x, lengths), compiled(x, lengths))), lines
    kinds = {error.kind for entry in record.compilations for error in entry.breaks}
    assert kinds <= {"tensor read as a number", "tensor read as a list or array", "data-dependent operator"} and kinds
    assert all(
        "capture_scalar_outputs" in e.hint for c in record.compilations for e in c.breaks if "list" not in e.kind
    )


# --- what has to be known -------------------------------------------------------------------------------
def branches(x, n):
    n = n.item()
    return x * 2 if n > 3 else x + n


def loops(x, n):
    for k in range(n.item()):
        x = x + k
    return x


def formats(x, n):
    n = n.item()
    return x * n, f"{n} rows"


def iterates(x, n):
    return [row * 2 for row in x[: n.item()]]


@pytest.mark.parametrize("program", [branches, loops, formats, iterates], ids=lambda program: program.__name__)
def test_a_number_that_has_to_be_known_breaks_the_graph(program):
    with config.patch(capture_scalar_outputs=True):
        compiled = minicompile.compile(program, backend="eager")
        for n in (2, 5, 4, 0):
            x = torch.randn(6, 2)
            assert not (lines := differences(program(x, T(n)), compiled(x, T(n)))), lines
        breaks = [error for entry in record.compilations for error in entry.breaks]
        assert {error.kind for error in breaks} == {"number read from data"}
        assert "is read at" in breaks[0].explanation and program.__name__ in breaks[0].explanation
        assert program.__name__ in breaks[0].user_location and "torch._check" in breaks[0].hint
        minicompile.reset()
        with pytest.raises(Unsupported, match="number read from data"):
            minicompile.compile(program, backend="eager", fullgraph=True)(torch.randn(6, 2), T(2))


def test_what_is_stated_is_known_behind_it():
    def program(x, n):
        n = n.item()
        torch._check(n > 3)
        return x * 2 if n > 2 else x

    with config.patch(capture_scalar_outputs=True):
        assert torch.equal(
            minicompile.compile(program, fullgraph=True, backend="eager")(torch.ones(2), T(4)), T([2.0, 2])
        )


# --- what is stated and does not hold ------------------------------------------------------------------
def checks(x, n):
    n = n.item()
    torch._check(n < 5, lambda: f"{n} is too large")
    return x * n


def checks_value(x, n):
    n = n.item()
    torch._check_value(n < 5, lambda: "too large")
    return x * n


def asserts(x, n):
    n = n.item()
    assert n < 5, "too large"
    return x * n


def raises(x, n):
    n = n.item()
    if n >= 5:
        raise KeyError(n)
    return x * n


def catches(x, n):
    n = n.item()
    try:
        assert n < 5
    except AssertionError:
        return x - 1
    return x * n


def writes_first(x, n):
    x.add_(1)
    n = n.item()
    torch._check(n < 5, lambda: "too large")
    return x * n


def outcome(function, *arguments):
    try:
        return function(*arguments), arguments
    except Exception as error:
        return type(error), str(error), arguments


@pytest.mark.graph_errors
@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
@pytest.mark.parametrize("program", [checks, checks_value, asserts, raises, catches], ids=lambda p: p.__name__)
def test_an_assertion_that_fails_is_eagers_exception(program, backend):
    with config.patch(capture_scalar_outputs=True):
        compiled = minicompile.compile(program, backend=backend, fullgraph=True)
        for n in (3, 7, 4, 5):
            expected, found = (outcome(f, torch.ones(3), T(n)) for f in (program, compiled))
            assert not (lines := differences(expected, found)), (n, lines)
    assert minicompile.stats()["graphs"] == 1 and record.counters["graph_errors"] == 2


@pytest.mark.graph_errors
@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
def test_an_assertion_behind_a_write_is_checked_too(backend):
    with config.patch(capture_scalar_outputs=True):
        compiled = minicompile.compile(writes_first, backend=backend, fullgraph=True)
        assert torch.equal(compiled(torch.ones(3), T(4)), torch.full((3,), 8.0))
        with pytest.raises(RuntimeError):
            compiled(torch.ones(3), T(7))


def test_an_assert_behind_a_write_breaks():
    """The graph would raise a RuntimeError, and the frame could not run again."""

    def program(x, n):
        x.add_(1)
        n = n.item()
        assert n < 5, "too large"
        return x * n

    with config.patch(capture_scalar_outputs=True):
        compiled = minicompile.compile(program, backend="eager")
        for n in (3, 7):
            expected, found = (outcome(f, torch.ones(3), T(n)) for f in (program, compiled))
            assert not differences(expected, found)


@pytest.mark.graph_errors
def test_a_function_of_torch_that_asks_a_tensor_is_followed():
    """`F.gaussian_nll_loss` raises where a variance is negative: it is no node, but its Python is captured."""

    def program(x, target, variance):
        return torch.nn.functional.gaussian_nll_loss(x * 2, target, variance) + 1

    counter = CompileCounter()
    compiled = minicompile.compile(program, backend=counter, fullgraph=True)
    x, target = torch.randn(4), torch.randn(4)
    for variance in (torch.rand(4), torch.zeros(4), -torch.ones(4)):
        graphs = counter.graphs
        expected, found = (outcome(f, x, target, variance) for f in (program, compiled))
        assert not differences(expected, found)
    assert graphs == 1 and expected[0] is ValueError


# --- guards ----------------------------------------------------------------------------------------------
def test_guards_are_about_inputs_only():
    def program(x, n):
        n = n.item()
        torch._check(n == x.shape[0])
        return torch.zeros(n) + x[:, 0]

    with config.patch(capture_scalar_outputs=True):
        compiled = minicompile.compile(program, backend="eager", fullgraph=True)
        for rows in (3, 4, 5, 9):
            x = torch.randn(rows, 2)
            assert torch.equal(compiled(x, T(rows)), program(x, T(rows)))
    assert minicompile.stats()["graphs"] == 2
    text = "\n".join(
        str(guard) for entry in record.compilations for c in entry.artifacts("capture") for guard in c.guards
    )
    assert "u0" not in text and "shape[0]" in text


def test_the_number_in_an_argument_is_an_index():
    def read(x, i):
        return x[i] + 1, x[:, i], x[i:], x[i]

    compiled, counter = compiled_with_counter(read)
    for number in (0, 2, 3, -1, -2):
        x, i = torch.randn(4, 4), T(number)
        assert not differences(read(x, i), compiled(x, i), "result")
    assert counter.graphs == 3 and record.stats()["graph_breaks"] == 0  # the first, the others, those from the end
    with pytest.raises(IndexError, match="index 7 is out of bounds"):
        compiled(torch.randn(4, 4), T(7))


def test_a_number_that_the_graph_has_written_is_no_index_yet():
    def write(x, i):
        i += 1
        return x[i] + 1

    compiled, _ = compiled_with_counter(write)
    for number in (0, 1, 2):
        x = torch.randn(4, 4)
        assert torch.equal(compiled(x, T(number)), write(x, T(number)))


def compiled_with_counter(fn):
    counter = CompileCounter()
    return minicompile.compile(fn, backend=counter), counter
