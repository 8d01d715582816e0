"""`python -m minicompile.bench`: the model zoo, compiled, checked against eager, counted and timed.

Goes in: options, see `--help`.  Comes out: a table of model, graphs, breaks, kernels and the ratio to eager, with
torch.compile's graphs beside ours, and with `--json FILE` every number with the machine's name.  Exit status 1: a model
failed.  Taught in chapter 16.
"""

import argparse
import fnmatch
import json
import pathlib
import sys

import torch

from .models import SIZES, ZOO
from .suite import MODES, Settings, run
from .tables import machine, table
from .worker import Worker, quiet

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}


def parse(arguments):
    parser = argparse.ArgumentParser(prog="python -m minicompile.bench", description=__doc__.split("\n\n")[0])
    parser.add_argument("--models", default="*", help="names or patterns, by commas: gpt,hf_* (default: all)")
    parser.add_argument("--mode", default="inference,training", help="inference, training or both (default)")
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--size", choices=SIZES, help="default: medium on the CPU, large on a GPU")
    parser.add_argument("--dtype", default="float32", choices=DTYPES)
    parser.add_argument("--backend", default="inductor", help="ours: eager, aot_eager or inductor (default)")
    parser.add_argument("--rounds", type=int, default=15, help="of interleaved measurements (default: 15)")
    parser.add_argument("--torch", action="store_true", help="time torch.compile too")
    parser.add_argument("--no-check", action="store_true", help="do not compare with eager first")
    parser.add_argument("--no-time", action="store_true", help="compile, check and count only")
    parser.add_argument("--isolate", action="store_true", help="run in a process that is replaced if it breaks")
    parser.add_argument("--limit", type=int, default=600, help="seconds for one row in such a process (default: 600)")
    parser.add_argument("--json", type=pathlib.Path, metavar="FILE", help="write everything that was measured")
    parser.add_argument("--list", action="store_true", help="print the names of the models")
    chosen = parser.parse_args(arguments)
    chosen.names = [n for n in ZOO if any(fnmatch.fnmatch(n, p) for p in chosen.models.split(","))]
    chosen.modes = [mode for mode in MODES if mode in chosen.mode.split(",")]
    if not chosen.names:
        parser.error(f"no model matches {chosen.models!r}; the models are: {', '.join(ZOO)}")
    if not chosen.modes:
        parser.error(f"no mode in {chosen.mode!r}; the modes are: {', '.join(MODES)}")
    if chosen.rounds < 3:
        parser.error("--rounds needs at least 3")
    if chosen.device == "cuda" and not torch.cuda.is_available():
        parser.error("no CUDA device is visible to PyTorch")
    return chosen


def progress(items):
    """The items, with a bar on a terminal."""
    try:
        from tqdm import tqdm
    except ModuleNotFoundError:
        return items
    return tqdm(items, unit="row", disable=not sys.stderr.isatty())


def main(arguments=None):
    chosen = parse(arguments)
    if chosen.list:
        print("\n".join(chosen.names))
        return 0
    quiet()
    size = chosen.size or ("large" if chosen.device == "cuda" else "medium")
    settings = Settings(
        **{"device": chosen.device, "size": size, "dtype": DTYPES[chosen.dtype], "rounds": chosen.rounds},
        **{"check": not chosen.no_check, "timed": not chosen.no_time},
        **{"torch_compile": chosen.torch, "backend": chosen.backend},
    )
    where, rows = machine(chosen.device), []
    print(", ".join(f"{name} {value}" for name, value in where.items() if value))
    print(f"size {size}, {chosen.dtype}; × eager: how many times faster than eager")
    print("each call is warm; the first call is not (it compiles, or reads minicompile's cache on disk)\n")
    worker = Worker(quiet, chosen.limit) if chosen.device == "cuda" or chosen.isolate else None
    for name, mode in progress([(name, mode) for name in chosen.names for mode in chosen.modes]):
        rows.append(worker.run(name, mode, settings) if worker else run(ZOO[name], mode, settings))
        if chosen.json:  # after every row: a long run that is cut off keeps what it has
            everything = {**where, "size": size, "dtype": chosen.dtype, "rounds": chosen.rounds, "rows": rows}
            chosen.json.write_text(json.dumps(everything, indent=1) + "\n")
    if worker:
        worker.stop()
    print(table(rows))
    failed = [row for row in rows if row["correct"] in ("no", "error")]
    if failed:
        print(f"\n{len(failed)} of {len(rows)} rows failed; tracebacks: {chosen.json or '--json FILE keeps them'}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
