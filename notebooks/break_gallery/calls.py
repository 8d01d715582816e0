"""Breaks at calls that capture does not follow."""

import functools
import logging
import time

import torch

import minicompile

from .example import example, mended, one_tensor


@example("print or input")
def announce(x):
    y = x * 2
    print("doubled")
    return y + 1


@mended(announce)
def announce_in_eager(x):
    y = x * 2
    if not torch.compiler.is_compiling():
        print("doubled")
    return y + 1


def first_line(path):
    with open(path) as file:
        return file.readline()


@example("file access")
def scale_by_length(x):
    return x * len(first_line(__file__))


@mended(scale_by_length, lambda k: (torch.arange(6.0).reshape(2, 3) - 2 * k, first_line(__file__)))
def scale_by_length_of(x, line):
    return x * len(line)


def count_names(x):
    y = x * 2
    return y * len(locals())


@example("introspection")
def count(x):
    return count_names(x) + 1


@mended(count)
def count_without_locals(x):
    y = x * 2
    return y * len((x, y)) + 1


@example("function written in C")
def with_a_clock(x):
    start = time.perf_counter()
    y = x * 2
    return y, time.perf_counter() >= start


@mended(with_a_clock)
def without_a_clock(x):
    y = x * 2
    return y, True


LOGGER = logging.getLogger("gallery")


@example("function left to eager")
def logged(x):
    y = x * 2
    LOGGER.debug("doubled")
    return y + 1


@mended(logged)
def logged_in_eager(x):
    y = x * 2
    if not torch.compiler.is_compiling():
        LOGGER.debug("doubled")
    return y + 1


@minicompile.disable
def fragile(x):
    return x * 2


@example("disabled function")
def use_disabled(x):
    return fragile(x + 1) + 1


@mended(use_disabled)
def use_plain(x):
    return (x + 1) * 2 + 1


def halve(x, todo):
    if not todo:
        return x
    todo.pop()
    return halve(x / 2, todo)


@example("deep recursion", lambda k: (*one_tensor(k), [None] * 203))
def halve_often(x, todo):
    return halve(x, todo) + 1


@mended(halve_often)
def halve_in_a_loop(x, todo):
    while todo:
        todo.pop()
        x = x / 2
    return x + 1


async def fetch(number):
    return number * 2


def wait_for(number):
    try:
        fetch(number).send(None)
    except StopIteration as stop:
        return stop.value


@example("coroutine")
def scale_by_fetched(x):
    return x * wait_for(3)


@mended(scale_by_fetched, lambda k: (torch.arange(6.0).reshape(2, 3) - 2 * k, wait_for(3)))
def scale_by(x, factor):
    return x * factor


@functools.lru_cache
def rows(x):
    return x.shape[0] * 2


@example("cached function")
def add_rows(x):
    return x + rows(x)


@functools.lru_cache
def twice(size):
    return size * 2


@mended(add_rows)
def add_rows_by_constant(x):
    return x + twice(x.shape[0])
