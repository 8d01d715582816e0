"""Breaks inside callees: the callee is cut in two, and the caller's graph goes on with its rest."""

import contextlib
import traceback
import weakref

import pytest
import torch
from torch import nn

import minicompile
from minicompile import config, record
from minicompile.dynamo import _eval_frame
from minicompile.testing import CompileCounter


def stop(*values):
    """A print is something no graph can hold."""
    print(end="")


def simple(x):
    return in_two(x + 1) * 3


def in_two(x):
    y = x * 2
    stop()
    return y + x


def three_deep(x):
    x = x + 1
    return simple(x) - x


def twice(x):
    return in_two(in_two(x)) + 1


def with_keywords(x):
    def callee(a, *rest, scale=2, **named):
        a = a * scale
        stop()
        return a + rest[0] + named["b"]

    return callee(x, x + 1, b=x * 3) + callee(*[x, x], **{"b": x, "scale": 3})


def closures(x):
    count = 0

    def callee(y):
        nonlocal count
        count += 1
        y = y + count
        stop()
        count += 10
        return y * count

    return callee(callee(x)) + count, count


def raises_behind_the_break(x):
    try:
        return raising(x) + 1
    except KeyError as error:
        return x * 10, error.args, [frame.name for frame in traceback.extract_tb(error.__traceback__)]


def raising(x):
    y = x + 1
    stop()
    raise KeyError(tuple(y.shape))


def handles_inside(x):
    return handling(x) + 1


def handling(x):
    try:
        x = x + 1
        stop()
        raise ValueError("inside")
    except ValueError:
        x = x * 5
        stop()
    finally:
        x = x - 1
        stop()
    return x


def the_instruction_raises(x):
    log = []

    def callee(x):
        y = x * 2
        with contextlib.ExitStack() as stack:
            stack.callback(log.append, "left")
            int("no number") if y.sum() > 0 else None
        return y

    try:
        return callee(x)
    except ValueError as error:
        return x - 1, log, str(error)


def with_a_mode(x):
    def callee(y):
        with torch.no_grad():
            z = y * 2
            stop()
            return z + 1, torch.is_grad_enabled()

    result, enabled = callee(x)
    return result, enabled, torch.is_grad_enabled(), (x * 2).requires_grad


def branches(x):
    return branch(x - 1) + branch(x + 1)


def branch(x):
    if x.sum() > 0:
        return x * 2
    return x * 3


def in_a_loop(x):
    for k in range(5):
        x = in_two(x) + k
    return x


def recursive(x, depth=3):
    x = x + 1
    stop()
    return recursive(x * 2, depth - 1) if depth else x


def shows_locals(x):
    def callee(a, b):
        c = a + b
        return c * len(sorted(locals()))

    return callee(x, x * 2) + 1


def the_stack(x):
    def callee(a):
        a = a + 1
        names = [frame.name for frame in traceback.extract_stack()]
        return a * 2, names[names.index("the_stack") :]

    return callee(x)


def calls_a_callable(x):
    class Scale:
        def __init__(self, factor):
            self.factor = factor

        def __call__(self, x):
            x = x * self.factor
            stop()
            self.factor = self.factor + 1
            return x

    scale = Scale(2)
    return scale(scale(x)) + 1, scale.factor


def a_list_grows(x):
    found = []

    def callee(y):
        found.append(y + 1)
        stop()
        found.append(y + 2)
        return sum(found)

    return callee(x) * callee(x * 2), len(found)


class Noisy:
    def __init__(self, log):
        self.log = log

    def __del__(self):
        self.log.append("died")


def dies_in_the_callee(x):
    log = []

    def callee(x):
        noisy = Noisy(log)
        stop(noisy)
        del noisy
        log.append("deleted")
        stop()
        return x + 1

    y = callee(x)
    log.append("returned")
    return y * 2, log


def a_generator_is_open(x):
    def numbers():
        try:
            yield x + 1
            yield x + 2
        finally:
            log.append("closed")

    def callee(x):
        stream = numbers()
        x = x + next(stream)
        stop()
        return x + next(stream)

    log = []
    return callee(x) + 1, log


def iterators_over_generators(x):
    def callee(x):
        first, second = (x * k for k in range(3)), (k for k in range(3))
        stop()
        for a, b in zip(first, second):
            x = x + a * b
        return x

    return callee(x) * 2


PROGRAMS = {  # graphs, graph breaks
    simple: (2, 1),
    three_deep: (2, 1),
    twice: (3, 2),
    with_keywords: (3, 2),
    closures: (3, 2),
    raises_behind_the_break: None,
    handles_inside: None,
    the_instruction_raises: None,
    with_a_mode: (2, 1),
    branches: None,
    in_a_loop: None,
    recursive: None,
    shows_locals: (2, 1),
    the_stack: (2, 1),
    calls_a_callable: None,
    a_list_grows: (3, 2),
    dies_in_the_callee: None,
    a_generator_is_open: None,
    iterators_over_generators: None,
}


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda f: f.__name__)
def test_programs(program):
    x = torch.tensor([1.0, 2.0], requires_grad=program is with_a_mode)
    for argument in (x, x * 2):
        expected = program(argument)
        counter = CompileCounter()
        compiled = minicompile.compile(program, backend=counter)
        for _ in range(3):
            assert repr(compiled(argument)) == repr(expected)
    if PROGRAMS[program] is not None:
        minicompile.reset()
        before = record.counters["graph_breaks"]
        counter = CompileCounter()
        minicompile.compile(program, backend=counter)(x)
        assert (counter.graphs, record.counters["graph_breaks"] - before) == PROGRAMS[program]


class Inner(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(3, 3)
        self.seen = []

    def forward(self, x):
        x = self.linear(x)
        self.seen = [frame.name for frame in traceback.extract_stack()]
        return x.relu()


class Outer(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.inner, self.last = nn.Linear(3, 3), nn.Sequential(Inner(), nn.Tanh()), nn.Linear(3, 3)

    def forward(self, x):
        return self.last(self.inner(self.first(x)))


def test_a_break_in_a_submodule_leaves_two_graphs_and_the_stack_as_it_is():
    torch.manual_seed(0)
    model, x = Outer(), torch.randn(2, 3)
    expected = model(x)
    names = model.inner[0].seen[-9:]
    assert names == ["_wrapped_call_impl", "_call_impl", "forward"] * 3
    counter = CompileCounter()
    compiled = minicompile.compile(model, backend=counter)
    for _ in range(2):
        torch.testing.assert_close(compiled(x), expected)
        assert model.inner[0].seen[-9:] == names
    assert counter.graphs == 2


@pytest.mark.filterwarnings("error:.*was compiled")
def test_every_way_out_of_a_callee_has_its_own_rest():
    """More breaks than the recompile limit: each rest has code of its own, so none is recompiled."""

    def callee(x):
        x = x + 1
        stop(), stop(), stop(), stop(), stop(), stop(), stop(), stop(), stop(), stop(), stop(), stop()
        return x * 2

    def program(x):
        return callee(x) + 1

    before = record.counters["recompiles"]
    compiled = minicompile.compile(program, backend="eager")
    torch.testing.assert_close(compiled(torch.ones(2)), program(torch.ones(2)))
    assert record.counters["recompiles"] == before


def test_the_option_leaves_callees_whole():
    counter = CompileCounter()
    with config.patch(nested_graph_breaks=False):
        minicompile.compile(simple, backend=counter)(torch.ones(2))
    assert counter.graphs == 4


def test_gradients_flow_through_the_cut():
    x = torch.ones(3, requires_grad=True)
    for backend in ("aot_eager", "inductor"):
        (grad,) = torch.autograd.grad(minicompile.compile(three_deep, backend=backend)(x).sum(), x)
        torch.testing.assert_close(grad, torch.full((3,), 8.0))


class Dying:
    def __del__(self):
        pass


def nested(levels):
    value = []
    for _ in range(levels):
        value = [value]
    return value


KNOWN, WATCHED = Dying(), []


def watched():
    """An object whose death a weak reference would tell."""
    WATCHED[:] = [set()]
    return WATCHED, weakref.ref(WATCHED[0]), WATCHED.pop()


@pytest.mark.parametrize(
    ("make", "ends"),
    [
        (lambda: torch.ones(2), False),
        (lambda: torch.nn.Parameter(torch.ones(2)), False),
        (lambda: (1, "text", None, {"a": [object()]}), False),
        (lambda: KNOWN, False),
        (lambda: {"a": [KNOWN]}, False),
        (Dying, True),
        (lambda: {"a": [(Dying(),)]}, True),
        (lambda: (n for n in range(3)), True),
        (watched, True),
        (lambda: nested(400), False),
        (lambda: nested(100_000), True),
    ],
)
def test_what_is_left_of_a_callee_ends_first_where_a_death_might_be_seen(make, ends):
    rest = _eval_frame.Continuation([lambda value: _eval_frame.Continuation([lambda value: "ended", value()]), make])
    result = _eval_frame.call_piece(rest, torch.Tensor)
    assert (result == "ended") == ends
