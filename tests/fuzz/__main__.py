"""`python -m tests.fuzz --minutes 10 --seed 1 --processes 2`: random programs until the time is up.

Prints the shares of programs that have a graph, a break, an exception; every mismatch, shrunk; ends with 1 if there
was one.  Each process works through batches with seeds of their own, and leaves the program that it is about to run in
a file, so that one which kills the process is known too.
"""

import argparse
import collections
import os
import pathlib
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
BATCH = 100  # programs with one seed


def work(seed, deadline, folder):
    """One process: batches of programs until the deadline."""
    from . import runner

    runner.prepare()
    total, batch = collections.Counter(), 0
    while time.time() < deadline:
        batch_seed = seed + batch
        for failure in runner.run_batch(batch_seed, BATCH, total, deadline, folder / f"{seed}.program"):
            total["mismatches"] += 1
            print(f"== seed {batch_seed}\n{failure}", flush=True)
        batch += 1
        (folder / f"{seed}.counts").write_text(repr(dict(total)))
    (folder / f"{seed}.program").unlink(missing_ok=True)


def main():
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--work", metavar="FOLDER", help=argparse.SUPPRESS)  # of a process of its own
    options = parser.parse_args()
    deadline = time.time() + 60 * options.minutes
    if options.work:
        return work(options.seed, deadline, pathlib.Path(options.work))
    with tempfile.TemporaryDirectory() as folder:
        return supervise(options, pathlib.Path(folder))


def supervise(options, folder):
    """Start the processes, add up their counts, report those that died."""
    print(f"fuzz: seed {options.seed}, {options.processes} processes, {options.minutes} minutes", flush=True)
    command = [sys.executable, "-m", "tests.fuzz", "--minutes", str(options.minutes), "--work", str(folder)]
    seeds = [options.seed + 1_000_000 * k for k in range(options.processes)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    processes = [subprocess.Popen([*command, "--seed", str(s)], cwd=ROOT, env=environment) for s in seeds]
    total, died = collections.Counter(), 0
    for seed, process in zip(seeds, processes):
        if process.wait() != 0:
            died += 1
            program = folder / f"{seed}.program"
            print(f"== process died with {process.returncode} in\n{program.read_text() if program.exists() else ''}")
        counts = folder / f"{seed}.counts"
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
