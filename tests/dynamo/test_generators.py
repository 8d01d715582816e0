"""Generators that are driven by hand (what `throw` and `close` do where a `yield from` hands them on), and those that a
graph break leaves behind, half used."""

import itertools

import pytest
import torch

import minicompile
from minicompile.testing import check


def inner(log, count):
    try:
        while count:
            log.append((yield count))
            count -= 1
    except ValueError as error:
        log.append(("caught", str(error)))
        log.append((yield "handled"))
        return "from the handler"
    except GeneratorExit:
        log.append("exit")
        raise
    finally:
        log.append("finally")
    return "end"


def delegating(log, count):
    try:
        log.append((yield from inner(log, count)))
        log.append((yield from [1, 2, 3]))
    except KeyError as error:
        log.append(("outside", str(error)))
        yield "handled outside"
    yield "last"


def delegating_twice(log, count):
    yield from delegating(log, count)
    yield "very last"


class Counter:
    def __init__(self):
        self.count = 0

    def __iter__(self):
        return self

    def __next__(self):
        self.count += 1
        if self.count > 3:
            raise StopIteration(77)
        return self.count


class CounterThatCatches(Counter):
    def throw(self, *thrown):
        return "thrown", str(thrown)


class CounterThatEnds(Counter):
    def throw(self, error):
        raise StopIteration("result")

    def close(self):
        raise OSError("close")


def over(log, iterator):
    try:
        log.append((yield from iterator))
    except Exception as error:
        log.append(repr(error))
    yield "last"


def drive(x, make, script):
    log = []
    generator = make(log)
    for step in script:
        try:
            if step == "next":
                log.append(("next", next(generator)))
            elif step == "close":
                log.append(("close", generator.close()))
            elif step == "in a handler":
                try:
                    raise IndexError("handled")
                except IndexError:
                    log.append(generator.throw(ValueError))
            else:
                log.append(("throw", generator.throw(step)))
        except BaseException as error:
            log.append((type(error), str(error), type(error.__context__), type(error.__cause__)))
    return log, x + 1


MAKERS = {
    "generator": lambda log: delegating(log, 2),
    "generator at its end": lambda log: delegating_twice(log, 0),
    "generator of a generator": lambda log: delegating_twice(log, 2),
    "iterator": lambda log: over(log, Counter()),
    "iterator with throw": lambda log: over(log, CounterThatCatches()),
    "iterator that ends": lambda log: over(log, CounterThatEnds()),
    "list": lambda log: over(log, [1, 2, 3]),
}
STEPS = ["next", ValueError, KeyError, "close", StopIteration, "in a handler", GeneratorExit]


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)
def test_what_is_thrown_into_a_yield_from(make):
    for first, second in itertools.product(STEPS, STEPS):
        script = ["next", "next", first, second, "next"]
        minicompile.reset()
        compiled = minicompile.compile(drive, backend="eager", fullgraph=True)
        assert str(compiled(torch.ones(1), make, script)) == str(drive(torch.ones(1), make, script)), script


# --- across graph breaks ----------------------------------------------------------------------------------
def broken(value=None):
    """A print is something no graph can hold."""
    print(end="")
    return value


def multiples(x, count):
    for k in range(count):
        x = x.sin()
        yield x * k


def rest_is_summed(x):
    stream = (x * k for k in range(4))
    y = next(stream)
    broken()
    return y + sum(stream)


def moved_from_break_to_break(x):
    stream = multiples(x, 6)
    first = next(stream)
    broken()
    second = next(stream)
    broken()
    return [first, second, *stream], next(stream, "end")


def stays_the_object_it_was(x):
    stream = multiples(x, 6)
    shelf = [stream, {"stream": stream}]
    next(stream)
    broken()
    y = next(shelf[1]["stream"])
    broken()
    return shelf[0] is stream, y, stream.gi_frame.f_locals["k"], stream.gi_code.co_name, list(stream), stream.gi_frame


def two_of_them_zipped(x):
    longer, shorter = multiples(x, 5), (y + 1 for y in multiples(x, 3))
    next(longer)
    broken()
    return [a + b for a, b in zip(longer, shorter)], list(longer), list(shorter)


def sharing_a_cell(x):
    n = 1

    def counting():
        nonlocal n
        while n < 6:
            n += 1
            yield x * n

    stream = counting()
    next(stream)
    broken()
    y = next(stream)
    n += 1
    z = next(stream)
    broken(n)
    return y, z, n, list(stream), n


def with_blocks_inside(x):
    log = []

    def guarded():
        try:
            with torch.no_grad():
                log.append((yield x * 2))
                yield torch.is_grad_enabled()
            yield x * 3
        finally:
            log.append("finally")

    stream = guarded()
    next(stream)
    broken()
    inside = stream.send("sent")
    broken(torch.is_grad_enabled())
    return inside, next(stream), stream.close(), log


def delegated(x):
    def inner():
        yield (yield x)
        return 7

    def outer():
        yield (yield from inner())

    stream = outer()
    next(stream)
    broken()
    sent = stream.send(x + 4)
    broken()
    return sent, list(stream)


def not_started_yet(x, first=next):
    stream = multiples(x, count=4)
    broken()
    y = first(stream)
    broken()
    return y, list(stream)


def changed_list(x):
    values = [1, 2, 3]
    stream = (value * x for value in values)
    next(stream)
    broken()
    values.append(9)
    y = next(stream)
    values.append(10)
    broken()
    return y, list(stream), values


def local_deleted(x):
    def forgetful():
        y = x
        yield y
        del y
        yield 1
        try:
            yield y  # noqa: F821 (that is the question)
        except UnboundLocalError as error:
            yield str(error)

    stream = forgetful()
    next(stream)
    broken()
    next(stream)
    broken()
    return list(stream)


def raises_inside(x):
    def failing():
        yield x
        raise ValueError("inside")

    stream = failing()
    next(stream)
    broken()
    try:
        next(stream)
    except ValueError as error:
        text = str(error)
    broken()
    return text, list(stream)


def in_a_handler(x):
    def handling():
        try:
            raise ValueError("caught")
        except ValueError as error:
            yield x + 1
            yield str(error)

    x = x.sin()
    stream = handling()
    y = next(stream)
    broken()
    return y * 2, list(stream)


ACROSS_BREAKS = {
    rest_is_summed: (2, 1),
    moved_from_break_to_break: (3, 2),
    two_of_them_zipped: (2, 1),
    sharing_a_cell: (3, 2),
    with_blocks_inside: (2, 2),
    delegated: (1, 2),
    not_started_yet: (2, 2),
    changed_list: (3, 2),
    local_deleted: (0, 2),
    raises_inside: (0, 2),
    in_a_handler: (2, 3),
}


@pytest.mark.parametrize("function", ACROSS_BREAKS, ids=lambda function: function.__name__)
def test_what_a_break_left_behind_goes_on_in_the_next_graph(function):
    graphs, breaks = ACROSS_BREAKS[function]
    check(function, torch.rand(3), graphs=graphs, graph_breaks=breaks, recompiles=0)


def test_it_stays_the_object_it_was():
    check(stays_the_object_it_was, torch.rand(3), recompiles=0)


def test_elsewhere_it_is_left_to_eager():
    """At each call it is at another place."""
    make = minicompile.compile(lambda x: multiples(x, 20), backend="eager")
    step = minicompile.compile(lambda stream, x: next(stream) + x, backend="eager")
    compiled, x = make(torch.ones(2)), torch.rand(2)
    minicompile.record.counters.clear()
    for value in multiples(torch.ones(2), 20):
        assert torch.equal(step(compiled, x), value + x)
    assert minicompile.record.counters["recompiles"] == 0


def test_what_it_holds_dies_when_it_goes_on():
    """A loop drops what the body made, and the end of a generator all that it has."""
    log = []

    class Noted:
        def __init__(self, name):
            self.name = name

        def __del__(self):
            log.append(self.name)

    def holding(x):
        noted = Noted("first")
        yield x
        noted = Noted("second")
        log.append("between")
        yield x + 1
        del noted

    def function(x):
        stream = holding(x)
        next(stream)
        broken()
        y = next(stream)
        log.append("moved")
        broken()
        return y, list(stream), log.append("end")

    function(torch.ones(1))
    expected = log[:]
    log.clear()
    minicompile.compile(function, backend="eager")(torch.ones(1))
    assert log == expected == ["first", "between", "moved", "second", "end"]
