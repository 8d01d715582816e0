"""CPython's own regression tests, run plain and with every test function compiled.

Goes in: the Python versions and modules to run (all by default).  Comes out: a table, modules x versions, of how many
tests have the same outcome; with --record, the figures in `figures-<version>.json` (those of other modules stay).

    python tests/cpython/run_cpython.py --record                     everything: an hour or so
    python tests/cpython/run_cpython.py --version 3.12 test_scope    one module, and which of its tests differ
    python tests/cpython/run_cpython.py --version 3.12 test_scope --only testFreeVar -v    and how they end
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile
from collections import Counter

from cpython_modules import LEFT_OUT, MODULES

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
VERSIONS = ("3.11", "3.12", "3.13")


def interpreter_of(version):
    """The environment's interpreter of a version: the running one, or what `make setup` made; None if missing."""
    if version == "%d.%d" % sys.version_info[:2]:
        return sys.executable
    folders = [ROOT / f".venv-python{version}", ROOT / ".venv"]
    for python in (folder / "bin" / "python" for folder in folders):
        if python.exists():
            command = [python, "-c", "import sys; print('%d.%d' % sys.version_info[:2])"]
            if subprocess.run(command, capture_output=True, text=True).stdout.strip() == version:
                return str(python)
    return None


def has_module(python, names):
    """Those of the test modules that this Python has."""
    program = "import sys, importlib.util as u; print(*[n for n in sys.argv[1:] if u.find_spec('test.' + n)])"
    return subprocess.run([python, "-c", program, *names], capture_output=True, text=True, check=True).stdout.split()


class Worker:
    """A process of one Python version that runs modules, one after the other."""

    def __init__(self, python, folder):
        self.folder = folder
        environment = {**os.environ, "PYTHONHASHSEED": "0", "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
        self.process = subprocess.Popen(
            [python, str(HERE / "cpython_worker.py")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
        )

    def run(self, **request):
        self.process.stdin.write(json.dumps({"folder": self.folder, **request}) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def compare(worker, name, only=""):
    """Run a module both ways.  Returns its row of the table, and the story of each test whose outcome differs."""
    plain, compiled = (worker.run(name=name, compiled=flag, only=only) for flag in (False, True))
    different, stories = {}, {}
    ends = [result["outcomes"].pop("module", None) for result in (plain, compiled)]  # of what went on behind no test
    unfinished = ends[1] == "timeout"  # the tests behind were not reached
    slow = [test for test in plain["outcomes"] if compiled["outcomes"].get(test, "timeout" * unfinished) == "timeout"]
    for test in {**plain["outcomes"], **compiled["outcomes"]}:
        before, after = plain["outcomes"].get(test), compiled["outcomes"].get(test)
        if before != after and test not in slow:
            different[test] = [before, after]
            stories[test] = f"{test}: {before} -> {after}\n{compiled['details'].get(test, '')}"
    if ends[0] != ends[1] and not unfinished:
        different["module"], stories["module"] = ends, f"module: {ends[0]} -> {ends[1]}"
    left_out = sorted(test for test in different if test in LEFT_OUT)
    row = {
        "tests": len(plain["outcomes"]),
        "same": len(plain["outcomes"]) - sum(test in plain["outcomes"] for test in different) - len(slow),
        "left out": left_out,
        "out of time": sorted(slow),
        "different": {test: different[test] for test in sorted(different) if test not in left_out},
        "frames": compiled["frames"],
    }
    return row, stories, (plain["wall"], compiled["wall"]), compiled["reasons"]


def run_version(version, python, names, options):
    table = {}
    with tempfile.TemporaryDirectory() as folder:
        worker = Worker(python, options.keep or folder)
        for name in has_module(python, names):
            row, stories, wall, reasons = compare(worker, name, options.only)
            table[name] = row
            counts = {kind: len(row[kind]) for kind in ("left out", "out of time", "different")} | row["frames"]
            counts = "  ".join(f"{kind} {count}" for kind, count in counts.items())
            print(f"{version} {name:28} tests {row['tests']:4}  same {row['same']:4}  {counts}  {wall} s", flush=True)
            for test, story in stories.items():
                print(story if options.verbose else story.splitlines()[0], flush=True)
            if options.verbose:
                print(reasons)
            if options.record:
                record(version, table)
        worker.close()
    return table


def record(version, table):
    """Put the rows of a table into the figures of a version."""
    path = HERE / f"figures-{version}.json"
    modules = (json.loads(path.read_text())["modules"] if path.exists() else {}) | table
    path.write_text(json.dumps({"total": total(modules), "modules": modules}, indent=1, sort_keys=True) + "\n")


def total(table):
    rows = table.values()
    return {
        "modules": len(rows),
        "tests": sum(row["tests"] for row in rows),
        "same": sum(row["same"] for row in rows),
        **{kind: sum(len(row[kind]) for row in rows) for kind in ("left out", "out of time", "different")},
        "frames": dict(sum((Counter(row["frames"]) for row in rows), Counter())),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("modules", nargs="*", default=MODULES)
    parser.add_argument("--version", action="append", choices=VERSIONS, help="repeatable; all three by default")
    parser.add_argument("--only", default="", help="only tests whose id contains this text")
    parser.add_argument("--record", action="store_true", help="write the figures")
    parser.add_argument("--keep", help="a folder for the events and the output of the tests")
    parser.add_argument("-v", "--verbose", action="store_true", help="print the traceback of each differing test")
    options = parser.parse_args()
    for version in options.version or VERSIONS:
        python = interpreter_of(version)
        if python is None:
            print(f"{version}: no environment (make setup PYTHON=python{version})")
            continue
        table = run_version(version, python, options.modules, options)
        print(version, total(table), flush=True)


if __name__ == "__main__":
    main()
