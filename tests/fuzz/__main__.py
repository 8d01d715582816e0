"""`python -m tests.fuzz --minutes 10 --seed 1 --processes 2`: random programs until the time is up, or `--batches` are.

Prints the shares of programs that have a graph, a break, an exception; every mismatch, shrunk; ends with 1 if there
was one.  Batches have the seeds from `--seed` on, whichever process takes them; a process leaves the program that it
is about to run in a file, so that one which kills it is known too.
"""

import argparse
import collections
import itertools
import os
import pathlib
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
BATCH = 100  # programs with one seed


def work(number, seeds, deadline, folder):
    """One process: batches of programs with these seeds until the deadline."""
    from . import runner

    runner.prepare()
    total = collections.Counter()
    for seed in itertools.takewhile(lambda _: time.time() < deadline, seeds):
        for failure in runner.run_batch(seed, BATCH, total, deadline, folder / f"{number}.program"):
            total["mismatches"] += 1
            print(f"== seed {seed}\n{failure}", flush=True)
        (folder / f"{number}.counts").write_text(repr(dict(total)))
    (folder / f"{number}.program").unlink(missing_ok=True)


def main():
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--batches", type=int, default=sys.maxsize // 2, help=f"of {BATCH} programs, at most")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--work", nargs=2, metavar=("NUMBER", "FOLDER"), help=argparse.SUPPRESS)  # of one process
    options = parser.parse_args()
    deadline = time.time() + 60 * options.minutes
    if options.work:
        number = int(options.work[0])
        seeds = range(options.seed + number, options.seed + options.batches, options.processes)
        return work(number, seeds, deadline, pathlib.Path(options.work[1]))
    with tempfile.TemporaryDirectory() as folder:
        return supervise(options, pathlib.Path(folder))


def supervise(options, folder):
    """Start the processes, add up their counts, report those that died."""
    print(f"fuzz: seed {options.seed}, {options.processes} processes, {options.minutes} minutes", flush=True)
    command = [sys.executable, "-m", "tests.fuzz"]
    command += [f"--{name}={getattr(options, name)}" for name in ("minutes", "seed", "batches", "processes")]
    environment, numbers = {**os.environ, "OMP_NUM_THREADS": "1"}, range(options.processes)
    processes = [
        subprocess.Popen([*command, "--work", str(number), str(folder)], cwd=ROOT, env=environment)
        for number in numbers
    ]
    total, died = collections.Counter(), 0
    for number, process in zip(numbers, processes):
        if process.wait() != 0:
            died += 1
            program = folder / f"{number}.program"
            print(f"== process died with {process.returncode} in\n{program.read_text() if program.exists() else ''}")
        counts = folder / f"{number}.counts"
        total.update(eval(counts.read_text()) if counts.exists() else {})
    programs = max(total["programs"], 1)
    shares = ", ".join(f"{100 * total[name] / programs:.0f}% {text}" for name, text in SHARES.items())
    print(f"fuzz: {total['programs']} programs, {total['mismatches']} mismatches, {died} crashes; {shares}")
    print(f"fuzz: {total['graphs']} graphs, {total['breaks']} breaks")
    return 1 if total["mismatches"] or died else 0


SHARES = {
    "graph": "with a graph",
    "break": "with a break",
    "exception": "that raise",
    "graph raised": "with a graph that raises",
}

if __name__ == "__main__":
    sys.exit(main())
