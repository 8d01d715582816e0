"""How a row of the guard table is written: a world, a function, and changes of the world between two calls.

    row("a global is rebound", "SCALE = 2", "lambda x: x * SCALE", due("SCALE = 3"), kept("OTHER = 1"))

setup: Python that makes the world (a namespace, in which `x` is a small tensor already).  function: a lambda whose
parameters are passed by name from the world; "" where setup defines `f`.  Each change is Python run in the world before
the next call: `due`, where that call must compile, `kept`, where it must not.
"""

import collections
import contextlib
import copy
import dataclasses
import enum
import functools
import math
import types

import torch

ROWS = []


@dataclasses.dataclass(frozen=True)
class Change:
    text: str
    compiles: bool


@dataclasses.dataclass(frozen=True)
class Row:
    name: str
    setup: str
    function: str
    changes: tuple
    options: dict

    def __str__(self):
        return self.name


def due(text):
    return Change(text, True)


def kept(text):
    return Change(text, False)


def row(name, setup, function, *changes, **options):
    """options: those of `compile`."""
    assert changes and all(name != other.name for other in ROWS), name
    ROWS.append(Row(name, setup, function, changes, options))


class World:
    """The namespace of one run.  `stack`: modes entered here end with the row."""

    def __init__(self, setup, function):
        self.stack = contextlib.ExitStack()
        self.names = dict(
            torch=torch, nn=torch.nn, F=torch.nn.functional, math=math, enum=enum, types=types, copy=copy,
            collections=collections, functools=functools, partial=functools.partial, dataclass=dataclasses.dataclass,
            x=torch.arange(6.0).view(2, 3) + 1, enter=self.stack.enter_context, later=self.stack.callback,
            __name__="world",
        )  # fmt: skip
        self.run(setup)
        if function:
            self.run(f"f = {function}")

    def run(self, text):
        torch.manual_seed(0)
        exec(compile(text, "<world>", "exec"), self.names)

    def arguments(self, code):
        count = code.co_argcount + code.co_kwonlyargcount
        return {name: self.names[name] for name in code.co_varnames[:count] if name in self.names}
