"""PyTorch's own operator table (op_db), eager against compiled: operator x dtype, passed / fell back / failed.

    python tests/inductor/run_op_db.py --table                    print the table as it was recorded
    python tests/inductor/run_op_db.py --record --samples 6       what has no row yet, six samples a cell
    python tests/inductor/run_op_db.py --record --redo failed     the operators with a failed cell once more
    python tests/inductor/run_op_db.py 'linalg*' --dtype float32 -v

"passed": kernels or library calls only.  "fell back": the same results, but an operator was left to ATen or the graph
broke.  "accepted": what differs, and why that is accepted, stands in `op_worker.ACCEPTED`.

Shapes, dtypes, strides, aliases, the inputs afterwards and exceptions are the same.  Values may differ from eager's by
a few units in the last place or, where eager itself is inexact, by three times eager's own distance from float64.
"""

import argparse
import fnmatch
import json
import os
import pathlib
import subprocess
import sys
from collections import Counter

HERE = pathlib.Path(__file__).resolve().parent
FIGURES = HERE / "op_db.json"
STATUSES = ("passed", "fell back", "accepted", "failed")


class Worker:
    """A process that runs operators, one after the other."""

    def __init__(self):
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(HERE.parent.parent)}
        command = [sys.executable, str(HERE / "op_worker.py")]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        )

    def run(self, **request):
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def row_of(outcomes):
    """What the figures keep of an operator: the dtypes of each status, the cases, what was left to ATen."""
    row = {status: [d for d, o in outcomes.items() if o["status"] == status] for status in STATUSES}
    row["cases"] = sum(outcome["cases"] for outcome in outcomes.values())
    row["left to ATen"] = sorted({reason for outcome in outcomes.values() for reason in outcome["why"]})
    return {key: value for key, value in row.items() if value}


def load():
    return json.loads(FIGURES.read_text()) if FIGURES.exists() else {}


def save(table):
    lines = (f"{json.dumps(name)}: {json.dumps(row)}" for name, row in sorted(table.items()))
    FIGURES.write_text("{\n" + ",\n".join(lines) + "\n}\n")


def merged(row, new):
    """A row with the cells of some dtypes done again."""
    again = {dtype for status in STATUSES for dtype in new.get(status, ())}
    kept = {status: [d for d in row.get(status, ()) if d not in again] for status in STATUSES}
    result = {status: sorted(kept[status] + new.get(status, [])) for status in STATUSES}
    result["cases"] = max(row.get("cases", 0), new.get("cases", 0))
    result["left to ATen"] = sorted({*row.get("left to ATen", ()), *new.get("left to ATen", ())})
    return {key: value for key, value in result.items() if value}


def totals(table):
    counts = Counter()
    for row in table.values():
        counts["operators"] += 1
        counts["cases"] += row.get("cases", 0)
        for status in STATUSES:
            counts[status] += len(row.get(status, ()))
    counts["cells"] = sum(counts[status] for status in STATUSES)
    return {key: counts[key] for key in ("operators", "cells", *STATUSES, "cases")}


def print_table(table):
    """Operators x dtypes, one letter a cell."""
    dtypes = sorted({d for row in table.values() for status in STATUSES for d in row.get(status, ())})
    width = max(map(len, table), default=0)
    for k, dtype in enumerate(dtypes):
        print(" " * width, "  |" * k + f"  {dtype}")
    for name, row in sorted(table.items()):
        letter = {d: status_letter for status, status_letter in zip(STATUSES, "p-aF") for d in row.get(status, ())}
        print(f"{name:{width}}", "".join(f"  {letter.get(d, ' ')}" for d in dtypes))
    print("p passed, - fell back, a accepted, F failed:", totals(table))


def chosen(table, options):
    from op_worker import dtypes_of, full_name, op_db

    for op in op_db:
        name, row = full_name(op), table.get(full_name(op), {})
        if options.operators and not any(fnmatch.fnmatch(name, pattern) for pattern in options.operators):
            continue
        dtypes = dtypes_of(op)
        if options.redo:
            dtypes = [d for d in dtypes if d in row.get(options.redo, ())]
        elif options.record and not options.operators:
            dtypes = [d for d in dtypes if not any(d in row.get(status, ()) for status in STATUSES)]
        dtypes = [d for d in dtypes if not options.dtype or d in options.dtype]
        if dtypes:
            yield name, dtypes


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("operators", nargs="*", help="patterns of names; all by default")
    parser.add_argument("--dtype", action="append", help="repeatable; all that the operator supports by default")
    parser.add_argument("--samples", type=int, default=0, help="samples a cell, spread over all; 0 takes all")
    parser.add_argument("--seconds", type=int, default=240, help="limit of one cell")
    parser.add_argument("--record", action="store_true", help="write the figures, row by row")
    parser.add_argument("--redo", choices=STATUSES, help="cells that have this status in the figures")
    parser.add_argument("--table", action="store_true", help="only print the figures")
    parser.add_argument("-v", "--verbose", action="store_true", help="what was left to ATen, and every problem")
    options = parser.parse_args()
    figures, table = load(), {}
    if options.table:
        return print_table(figures)
    worker = Worker()
    for name, dtypes in list(chosen(figures, options)):
        outcomes = worker.run(name=name, dtypes=dtypes, count=options.samples, seconds=options.seconds)
        table[name] = row_of(outcomes)
        report(name, outcomes, options.verbose)
        if options.record:
            figures = load()  # another run may have written meanwhile
            save(figures | {name: merged(figures.get(name, {}), table[name])})
    worker.close()
    print(totals(table))


def report(name, outcomes, verbose):
    """The problems of an operator, each kind of text once."""
    seen = Counter()
    for dtype, outcome in outcomes.items():
        for case, text in outcome["problems"].items():
            seen[text.split("(")[0]] += 1
            if verbose or seen[text.split("(")[0]] == 1:
                print(f"{name} {dtype} {case}: {text}", flush=True)
    if verbose:
        print(name, {d: (o["status"], o["cases"], o["why"]) for d, o in outcomes.items()}, flush=True)


if __name__ == "__main__":
    main()
