"""Runs random programs eager and compiled, and says how they differ.

Goes in: a Program, or a seed.  Comes out: counts for the statistics; a Mismatch with all differences, and the shrunk
program.
"""

import collections
import gc
import linecache
import logging
import resource
import signal
import sys
import time
import traceback
import types
import warnings
from pathlib import Path

import torch
from hypothesis import HealthCheck, Phase, given, seed, settings

import minicompile
from minicompile import record

from . import prelude
from .modules import programs
from .observe import difference, observe
from .shrink import shrink

FILE = "<program>"
CPU_SECONDS = {"eager": 2, "compiled": 60}  # that one call may take; it takes a tenth of one
MEMORY = 4 << 30  # bytes that one call may add to the process: a loop in C takes no signal, and would fill the machine


class Mismatch(AssertionError):
    """Compiled did something else than eager: `parts` says in what, the text has all differences."""

    def __init__(self, parts, text):
        super().__init__(text)
        self.parts = parts


def default_compiler(function):
    return minicompile.compile(function, backend="eager")


def prepare():
    """A process that only fuzzes: internal errors raise, nothing is said about operators that fail on fake tensors."""
    torch.set_num_threads(1)
    minicompile.config.strict = True
    logging.getLogger("torch._subclasses.fake_tensor").setLevel(logging.CRITICAL)


def namespaces(text):
    """Two modules made from the same text, which share nothing but code objects."""
    linecache.cache[FILE] = (len(text), None, text.splitlines(True), FILE)
    code = compile(text.replace("from fuzz.prelude import *\n", "\n"), FILE, "exec")
    for _ in range(2):
        namespace = {name: getattr(prelude, name) for name in prelude.__all__}
        namespace["__name__"] = "fuzzed"
        exec(code, namespace)
        yield namespace


class TooLong(BaseException):
    """Raised by the timer."""


def timed(which, *call):
    """`observe(*call)` within CPU_SECONDS and MEMORY; else TooLong, or a MemoryError for the program."""
    expired = []

    def too_long(signal_number, frame):
        expired.append(frame)
        raise TooLong

    # Again each second: what is raised in a finalizer, or under the program's own `except BaseException`, goes no
    # further.  Nor in a callback of the collector, which is where a program that fills the memory would always be.
    signal.signal(signal.SIGVTALRM, too_long)
    callbacks, gc.callbacks[:] = list(gc.callbacks), []
    limits = resource.getrlimit(resource.RLIMIT_AS)
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    if limits[0] == resource.RLIM_INFINITY:
        resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + MEMORY, limits[1]))
    signal.setitimer(signal.ITIMER_VIRTUAL, CPU_SECONDS[which], 1)
    try:
        seen = observe(*call)
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        resource.setrlimit(resource.RLIMIT_AS, limits)
        gc.callbacks[:] = callbacks
    if expired:
        raise TooLong
    return seen


def deeper(frames, function, *args):
    """A call from so many frames further inside."""
    return deeper(frames - 1, function, *args) if frames else function(*args)


def looking(frame, event, argument):
    """A trace function that asks each tensor of the program's frames whether it is a leaf."""
    if frame.f_code.co_filename == FILE:
        for value in frame.f_locals.values():
            if isinstance(value, torch.Tensor):
                value.is_leaf
        return looking


def looked_at(function):
    def call(*args):
        sys.settrace(looking)
        try:
            return function(*args)
        finally:
            sys.settrace(None)

    return call


LEAF = "a leaf Variable that requires grad is being used in an in-place operation"


def is_steady(program, worlds, expected):
    """Whether eager does the same in the last of these worlds when the stack is deeper: endless recursion does not.

    Where that ends is no promise either, and its text and line are a matter of how many frames each call takes.
    Nor does a write to a view whose base got a history after it: it raises LEAF, unless someone has asked the view.
    Nor does what tells an address, as `hash(object())`; that may come again by chance, hence three times.
    """
    if "RecursionError" in repr((expected[1], expected[-1])):
        return False
    for depth in (17, 18, 19):
        eager, _ = namespaces(program.text)
        function = looked_at(eager["fn"]) if LEAF in repr(expected) else eager["fn"]
        try:
            *_, again = (deeper(depth, timed, "eager", function, eager, FILE, world) for world in worlds)
        except TooLong:
            return False
        if again != expected:
            return False
    return True


def run(program, compiler=default_compiler):
    """Counts for the statistics, or a Mismatch.  A program that does not end, or is not steady, counts for nothing."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SyntaxWarning)
        warnings.simplefilter("ignore", UserWarning)
        eager, compiled = namespaces(program.text)
        if not isinstance(compiled["fn"], types.FunctionType):
            raise TypeError("no program: `fn` is to be a function")
        minicompile.reset()
        function, counts = compiler(compiled["fn"]), collections.Counter(programs=1)
        for number, world in enumerate(program.worlds):
            try:
                expected = timed("eager", eager["fn"], eager, FILE, world)
            except TooLong:
                return collections.Counter(endless=1)
            try:
                actual = timed("compiled", function, compiled, FILE, world)
            except TooLong:
                raise Mismatch(("time",), f"it runs for more than {CPU_SECONDS['compiled']} seconds") from None
            if expected != actual and not is_steady(program, program.worlds[: number + 1], expected):
                return collections.Counter(unsteady=1)
            if expected != actual:
                parts, lines = difference(expected, actual)
                raise Mismatch(parts, "\n".join([f"call {number + 1} (world {world}) differs", *lines]))
            counts["exception"] |= expected[1] != ("NoneType", "None")
    for name, counter in (("graph", "graphs"), ("break", "graph_breaks"), ("graph raised", "graph_errors")):
        counts[name] = int(record.counters[counter] > 0)
    return counts + collections.Counter(graphs=record.counters["graphs"], breaks=record.counters["graph_breaks"])


def failure_of(program, compiler=default_compiler):
    """The Mismatch of a program, or None."""
    try:
        run(program, compiler)
    except Mismatch as mismatch:
        return mismatch


def shrunk(program, parts, compiler=default_compiler):
    """The smallest program found that differs in the same respects."""

    def fails(candidate):
        try:
            found = failure_of(candidate, compiler)
        except Exception:  # no longer a program that can be loaded
            return False
        return found is not None and found.parts == parts

    return shrink(program, fails)


def run_batch(batch_seed, count, total, deadline=float("inf"), current_program=None, compiler=default_compiler):
    """Run `count` programs, adding to the counts `total`; a list with the text of each failure, shrunk."""
    failures, different = [], []

    @seed(batch_seed)
    @settings(
        max_examples=count, deadline=None, database=None, phases=[Phase.generate], suppress_health_check=HealthCheck
    )
    @given(programs)
    def each(program):
        if time.time() > deadline:
            return
        if current_program is not None:
            current_program.write_text(str(program))
        try:
            total.update(run(program, compiler))
        except Mismatch as mismatch:
            total["programs"] += 1
            different.append((program, mismatch.parts, str(mismatch)))
        except Exception:
            total["programs"] += 1
            failures.append(f"{traceback.format_exc()}\n{program}")

    each()
    for program, parts, text in different:  # no exception is being handled here: a program can ask for it
        if current_program is not None:
            current_program.write_text(str(program))
        small = shrunk(program, parts, compiler)
        failures.append(f"{failure_of(small, compiler) or text}\n{small}")
    return failures
