"""One record of what the compiler did: explain(), logs, the pictures and the tests all read it.

Goes in: each stage opens `with record.stage("aot") as snapshot:` and leaves its result in `snapshot.artifact`.
Comes out: `record.compilations`, a bounded list with one entry per compiled frame, and `record.counters`.
Mirrors `torch/_dynamo/utils.py` (counters, CompilationMetrics) and `torch/_logging`.  Taught in chapter 15.
"""

import collections
import contextlib
import dataclasses
import functools
import gc
import logging
import operator
import threading
import time
import warnings

from . import config

STAGES = ("capture", "aot", "lower", "schedule", "codegen", "load")  # in pipeline order; one colour each in viz

LOG_NAMES = tuple("graph_breaks recompiles guards bytecode graph_code aot fusion output_code perf".split())


@dataclasses.dataclass
class Later:
    """An artifact that is made when somebody looks at it."""

    make: object


class Snapshot:
    """What one stage produced: `artifact` has a readable `__repr__`; `seconds` is wall time, children included."""

    def __init__(self, stage, start):
        self.stage, self.start, self.seconds, self._artifact = stage, start, 0.0, None

    @property
    def artifact(self):
        if isinstance(self._artifact, Later):
            self._artifact = self._artifact.make()
        return self._artifact

    @artifact.setter
    def artifact(self, value):
        self._artifact = value


@dataclasses.dataclass
class Compilation:
    """The story of one frame (or one bare backend call): its stages in the order in which they ended."""

    name: str
    location: str = ""
    snapshots: list = dataclasses.field(default_factory=list)
    breaks: list = dataclasses.field(default_factory=list)  # Unsupported
    recompile_reason: str = ""
    seconds: float = 0.0
    start: float = 0.0

    def artifacts(self, stage):
        return [s.artifact for s in self.snapshots if s.stage == stage]


compilations = collections.deque(maxlen=256)
counters = collections.Counter()  # graphs, graph_breaks, recompiles, kernels, extern_calls, fallbacks, cache_hits, ...
break_reasons = collections.Counter()  # kind -> count
_local = threading.local()
_warned = set()
_frozen = set()  # by whom: counting frozen objects takes a while, so it is asked no more
at_end_of_call = operator.call  # dynamo's, once it is imported: a function waits for the end of the outermost call


def current():
    """The Compilation in progress on this thread, or None."""
    return getattr(_local, "current", None)


@contextlib.contextmanager
def compilation(name, location=""):
    """Open the record of one frame.  Nested compilations (a resume function's) restore the outer one."""
    entry = Compilation(name, location, start=time.perf_counter())
    compilations.append(entry)
    with reopen(entry):
        try:
            yield entry
        finally:
            entry.seconds = time.perf_counter() - entry.start


@contextlib.contextmanager
def reopen(entry):
    """Add to an earlier record: what is compiled late (a backward) belongs to the frame that asked for it."""
    outer, _local.current = current(), entry
    try:
        with contextlib.nullcontext() if outer else without_collector():
            yield entry
    finally:
        _local.current = outer


@contextlib.contextmanager
def without_collector():
    """No search for cycles: compiling makes so many objects that a sixth of its time would go into looking at them.

    In the end those that live count as old, so that the next search for young ones passes them by.
    """
    if not gc.isenabled():  # the program's own doing, or another thread's compilation
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        if not _frozen and not gc.get_freeze_count():
            gc.freeze()
            gc.unfreeze()
        else:
            _frozen.add("by the program")
        gc.enable()


def since(start):
    """The entries of compilations that began when `time.perf_counter()` was `start`, or later."""
    return [entry for entry in compilations if entry.start >= start]


@contextlib.contextmanager
def stage(name):
    """Time one stage and keep its artifact.  Works outside a compilation too (a notebook that runs one stage)."""
    assert name in STAGES, name
    snapshot = Snapshot(name, time.perf_counter())
    try:
        yield snapshot
    finally:
        snapshot.seconds = time.perf_counter() - snapshot.start
        if current() is not None:
            current().snapshots.append(snapshot)


def log(name, message, *args):
    """Print under the `MINICOMPILE_LOGS` name; quiet unless the name is switched on.  args: may be functions."""
    assert name in LOG_NAMES, name
    if name in config.logs.replace(" ", "").split(","):
        logger = logging.getLogger(f"minicompile.{name}")
        if not logger.handlers:
            handler = logging.StreamHandler()
            handler.setFormatter(logging.Formatter("[%(name)s] %(message)s"))
            logger.addHandler(handler)
            logger.setLevel(logging.DEBUG)
            logger.propagate = False
        logger.debug(message, *(arg() if callable(arg) else arg for arg in args))


def warn_once(message):
    """One warning a process for each text, of the line that called compiled code: an error that eager survived, say.

    It comes when that call ends: the program may have filters and catchers of its own for what it warns about itself.
    """
    if message not in _warned:
        _warned.add(message)
        at_end_of_call(functools.partial(warnings.warn, message, stacklevel=2))


def stats():
    """Counts since the last `reset()`: a dict that tests and `minicompile.stats()` read."""
    names = "graphs graph_breaks recompiles kernels extern_calls fallbacks cache_hits saved_bytes".split()
    return {**{name: counters[name] for name in names}, "break_reasons": dict(break_reasons)}


def reset():
    """Forget every record and set the counters to zero."""
    compilations.clear()
    counters.clear()
    break_reasons.clear()
