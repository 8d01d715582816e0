"""Runs test modules of CPython's `test` package, each in a forked child: plain, or with every test function compiled.

Goes in: a module's name and a mode.  Comes out: one JSON line an event: a test's start, its outcome, the counts.

PyTorch and minicompile are imported once, in the parent, for both modes: only the hook makes the difference.  When a
child crashes or hangs, the test that it was in has that as its outcome, and another child goes on behind it.
"""

import collections
import contextlib
import gc
import importlib
import json
import os
import pathlib
import random
import resource
import signal
import sys
import sysconfig
import tempfile
import time
import traceback
import unittest
import warnings

import torch

import minicompile
from minicompile import config, record
from minicompile.dynamo import eval_frame, skip_files

TESTS = os.path.join(sysconfig.get_path("stdlib"), "test") + os.sep
MEMORY_LIMIT = 8 << 30


class Outcomes(unittest.TestResult):
    """Writes what happens to each test; the worst of its parts (subtests, clean-ups) counts."""

    def __init__(self, stream):
        super().__init__()
        self.stream = stream
        self.seen = collections.Counter()
        self.outcome, self.details, self.start = None, [], time.perf_counter()

    def write(self, *event):
        self.stream.write(json.dumps(event) + "\n")
        self.stream.flush()

    def name_of(self, test):
        name = test.id().removeprefix("test.")
        return name if self.seen[name] < 2 else f"{name} ({self.seen[name]})"

    def startTest(self, test):
        self.seen[test.id().removeprefix("test.")] += 1
        self.outcome, self.details, self.start = None, [], time.perf_counter()
        random.seed(0)
        self.write("start", self.name_of(test))

    def stopTest(self, test):
        seconds = round(time.perf_counter() - self.start, 3)
        self.write("stop", self.name_of(test), self.outcome or "no outcome", "\n".join(self.details), seconds)
        self.outcome, self.details = None, []  # 3.12.1 does not start a test that it skips

    def note(self, outcome, test, error=None):
        rank = ["success", "skip", "expected failure", "unexpected success", "fail", "error"]
        if self.outcome is None or rank.index(outcome) > rank.index(self.outcome):
            self.outcome = outcome
        if error is not None:
            self.details.append(self._exc_info_to_string(error, test) if isinstance(error, tuple) else error)

    def addSuccess(self, test):
        self.note("success", test)

    def addError(self, test, error):
        if not isinstance(test, unittest.TestCase):  # setUpModule, setUpClass
            return self.write("stop", test.id(), "error", self._exc_info_to_string(error, test))
        self.note("error", test, error)

    def addFailure(self, test, error):
        self.note("fail", test, error)

    def addSkip(self, test, reason):
        self.note("skip", test, reason) if isinstance(test, unittest.TestCase) else None

    def addExpectedFailure(self, test, error):
        self.note("expected failure", test, error)

    def addUnexpectedSuccess(self, test):
        self.note("unexpected success", test)

    def addSubTest(self, test, subtest, error):
        if error is not None:
            self.note("fail" if issubclass(error[0], test.failureException) else "error", test, error)


# --- compiled ---------------------------------------------------------------------------------------------------
class Frames(collections.Counter):
    """How many frames the hook was asked about, and what became of them."""

    def watch(self):
        convert, compile_frame = eval_frame.convert_frame, eval_frame.compile_frame

        def counting_convert(options, code, function, arguments):
            answer = convert(options, code, function, arguments)
            self["left alone"] += not answer
            return answer

        def counting_compile(options, code, function, arguments, state, entry, again=False):
            answer = compile_frame(options, code, function, arguments, state, entry, again)
            if again:
                return answer
            capture = next(iter(entry.artifacts("capture")), None)
            self["given up" if answer is None else "broken" if capture.break_error is not None else "whole"] += 1
            return answer

        eval_frame.convert_frame, eval_frame.compile_frame = counting_convert, counting_compile


def capture_everything():
    """The tests have no tensors, and are part of the standard library: neither shall keep the hook from them."""
    eval_frame.concerns_tensors = lambda code, function, arguments: True
    skip_files.CAPTURED_FOLDERS += (TESTS,)
    config.strict = True
    record.warn_once = lambda message: None  # tests that count warnings mean those of the program

    def call_compiled(self, method):
        minicompile.compile(method, backend="eager")()

    unittest.TestCase._callTestMethod = call_compiled


# --- one module -------------------------------------------------------------------------------------------------
def tests_in(suite):
    for test in suite:
        if isinstance(test, unittest.TestSuite):
            yield from tests_in(test)
        else:
            yield test


def run_module(name, compiled, skip, only, stream):
    """In the child: run the tests of a module behind the first `skip`; with `only`, those whose id contains it."""
    from test import support

    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_LIMIT, MEMORY_LIMIT))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    support.use_resources = []
    module = importlib.import_module("test." + name)
    tests = list(tests_in(unittest.defaultTestLoader.loadTestsFromModule(module)))
    tests = [test for test in tests if only in test.id()]
    frames = Frames()
    if compiled:
        frames.watch()
        capture_everything()
    outcomes = Outcomes(stream)
    outcomes.seen.update(test.id().removeprefix("test.") for test in tests[:skip])
    warnings.simplefilter("default")
    unittest.TestSuite(tests[skip:]).run(outcomes)
    outcomes.write("frames", {**frames, "breaks": record.counters["graph_breaks"]})
    outcomes.write("reasons", dict(record.break_reasons.most_common(40)))
    outcomes.write("end")


def run_child(name, compiled, skip, only, events, log):
    """Fork; returns the child's process id."""
    child = os.fork()
    if child:
        return child
    status = 1
    try:
        os.setsid()
        output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(output, 1), os.dup2(output, 2)
        with tempfile.TemporaryDirectory() as folder, open(events, "a") as stream:
            os.chdir(folder)
            run_module(name, compiled, skip, only, stream)
            os.chdir("/")
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush(), sys.stderr.flush()
        os._exit(status)


def processor_seconds(process):
    """What a process has used: on a busy machine the clock on the wall says nothing."""
    fields = pathlib.Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


PATIENCE = 4  # seconds on the wall for each of the processor: a test may wait, or hang


def wait_for(child, events, test_seconds, module_seconds):
    """Until the child ends, or one test or all take too long.  Returns None, "crash" or "timeout", and what it used."""
    events.touch()
    start, used, written = time.time(), 0.0, None
    while True:
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            return "crash" if status else None, used
        now, used = time.time(), processor_seconds(child)
        if written != (written := os.path.getsize(events)):
            last, used_before = now, used
        limits = ((now - start, used, module_seconds), (now - last, used - used_before, test_seconds))
        if any(wall > PATIENCE * limit or processor > limit for wall, processor, limit in limits):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child, signal.SIGKILL)
            os.waitpid(child, 0)
            return "timeout", used
        time.sleep(0.02)


def run_one(name, compiled, folder, only="", test_seconds=40, module_seconds=400):
    """All tests of a module in one mode: {"outcomes": {id: outcome}, "details": {id: text}, "frames": {..}, ..}."""
    mode = "compiled" if compiled else "plain"
    events, log = (pathlib.Path(folder, f"{name}.{mode}.{end}") for end in ("events", "log"))
    for file in (events, log):
        file.write_text("")
    result = {"outcomes": {}, "details": {}, "frames": collections.Counter(), "reasons": collections.Counter()}
    skip, start = 0, time.monotonic()
    while True:
        read = len(events.read_text())
        child = run_child(name, compiled, skip, only, events, log)
        end, used = wait_for(child, events, test_seconds, module_seconds)
        module_seconds -= used
        new = events.read_text()[read:]
        open_test, done = read_events(new, result)
        skip += done + (open_test is not None)
        if open_test is not None:
            result["outcomes"][open_test] = end
        finished = new.endswith('["end"]\n')
        if not finished and (not done and open_test is None or module_seconds < 0):
            result["outcomes"]["module"] = end or "no end"
        if finished or "module" in result["outcomes"]:
            break
    result["wall"] = round(time.monotonic() - start, 1)
    return result


def read_events(text, result):
    """Adds a child's events to the result.  Returns the test that it was in at its end, and how many it finished."""
    open_test, done = None, 0
    for line in text.splitlines():
        kind, *rest = json.loads(line)
        if kind == "start":
            open_test = rest[0]
        elif kind == "stop":
            done += rest[0] == open_test
            open_test = None
            result["outcomes"][rest[0]] = rest[1]
            if rest[2]:
                result["details"][rest[0]] = rest[2]
        elif kind in ("frames", "reasons"):
            result[kind].update(rest[0])
    return open_test, done


def warm_up():
    """What the first capture imports, and what the collector need not look at again, is done once for all children."""
    minicompile.compile(lambda x: x + 1, backend="eager")(torch.ones(1))
    gc.collect()
    gc.freeze()


def main():
    """Reads one JSON request a line from standard input, answers one JSON line each."""
    out = os.fdopen(os.dup(1), "w")
    warm_up()
    for line in sys.stdin:
        out.write(json.dumps(run_one(**json.loads(line))) + "\n")
        out.flush()


if __name__ == "__main__":
    main()
