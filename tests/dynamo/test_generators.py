"""Generators that are driven by hand: what `throw` and `close` do where a `yield from` hands them on."""

import itertools

import pytest
import torch

import minicompile


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
