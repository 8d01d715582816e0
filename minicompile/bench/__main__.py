"""`python -m minicompile.bench models` and `... micro`: compiled, checked against eager, counted and timed.

Goes in: options, see `--help`.  Comes out: a table of models or patterns: graphs, breaks, kernels, the ratio to eager,
torch.compile's beside ours, and with `--json FILE` every number with the machine's name; the same command goes on
where an interrupted one ended.  Exit status 1: a row failed.  Taught in chapter 16.
"""

import argparse
import concurrent.futures
import contextlib
import dataclasses
import fnmatch
import json
import pathlib
import sys
import tempfile
import time
import types

import torch

from . import micro, suite
from .models import MODELS, SIZES
from .patterns import PATTERNS
from .suite import MODES, Settings
from .tables import machine, summary, table
from .worker import Worker, quiet

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}


def parse(arguments):
    parser = argparse.ArgumentParser(prog="python -m minicompile.bench", description=__doc__.split("\n\n")[0])
    parser.add_argument("suite", nargs="?", default="models", choices=["models", "micro"], help="default: models")
    parser.add_argument("--only", "--models", default="*", help="names, by commas, with wildcards: gpt,hf_*")
    parser.add_argument("--mode", default="inference,training", help="of models: inference, training or both (default)")
    parser.add_argument("--compile-mode", help="the mode of both compilers: reduce-overhead, max-autotune")
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--size", choices=SIZES, help="default: medium on the CPU, large on a GPU")
    parser.add_argument("--dtype", default="float32", choices=DTYPES)
    parser.add_argument("--backend", default="inductor", help="ours: eager, aot_eager or inductor (default)")
    parser.add_argument("--rounds", type=int, default=15, help="of interleaved measurements (default: 15)")
    parser.add_argument("--cpu-time", action="store_true", help="time by what the process computes, not by the clock")
    parser.add_argument("--torch", action="store_true", help="time torch.compile too")
    parser.add_argument("--no-check", action="store_true", help="do not compare with eager first")
    parser.add_argument("--no-time", action="store_true", help="compile, check and count only")
    parser.add_argument("--isolate", action="store_true", help="run in a process that is replaced if it breaks")
    parser.add_argument("--together", type=int, default=1, help="models compiled side by side, then timed in turn")
    parser.add_argument("--limit", type=int, default=600, help="seconds for one row in such a process (default: 600)")
    parser.add_argument("--json", type=pathlib.Path, metavar="FILE", help="write everything; what is there is kept")
    parser.add_argument("--list", action="store_true", help="print the names")
    chosen = parser.parse_args(arguments)
    known = MODELS if chosen.suite == "models" else PATTERNS
    chosen.names = [n for n in known if any(fnmatch.fnmatch(n, p) for p in chosen.only.split(","))]
    chosen.modes = [mode for mode in MODES if mode in chosen.mode.split(",")]
    if not chosen.names:
        parser.error(f"no name in {chosen.suite} matches {chosen.only!r}; there are: {', '.join(known)}")
    if not chosen.modes:
        parser.error(f"no mode in {chosen.mode!r}; the modes are: {', '.join(MODES)}")
    if chosen.rounds < 3:
        parser.error("--rounds needs at least 3")
    if chosen.device == "cuda" and not torch.cuda.is_available():
        parser.error("no CUDA device is visible to PyTorch")
    return chosen


@contextlib.contextmanager
def progress(total):
    """A bar on a terminal."""
    try:
        from tqdm import tqdm
    except ModuleNotFoundError:
        yield types.SimpleNamespace(update=lambda: None)
        return
    with tqdm(total=total, unit="row", disable=not sys.stderr.isatty()) as bar:
        yield bar


def jobs(chosen):
    """[(what identifies the row, the function that makes it, its first arguments)]"""
    if chosen.suite == "micro":
        return [({"pattern": name}, micro.run, (name,)) for name in chosen.names]
    pairs = [(name, mode) for name in chosen.names for mode in chosen.modes]
    return [({"model": name, "mode": mode}, suite.run, (name, mode)) for name, mode in pairs]


def finished(chosen, about):
    """The rows of an earlier, interrupted run of the same kind."""
    if chosen.json is None or not chosen.json.exists():
        return []
    earlier = json.loads(chosen.json.read_text())
    rows = earlier.pop("rows")
    if earlier != about:
        raise SystemExit(f"{chosen.json} holds rows of another machine or other settings; name another file")
    return rows


def measure(chosen, settings, about):
    """All rows; the file is written after each: a long run that is cut off keeps what it has."""
    rows = finished(chosen, about)
    todo = [job for job in jobs(chosen) if not any(job[0].items() <= row.items() for row in rows)]
    apart = chosen.device == "cuda" or chosen.isolate or chosen.together > 1
    workers = [Worker(quiet, chosen.limit) for _ in range(chosen.together)] if apart else [None]
    with tempfile.NamedTemporaryFile() as file, progress(len(todo)) as bar:
        if chosen.together > 1:
            settings = dataclasses.replace(settings, turns=file.name)
        while todo:
            batch, todo = todo[: chosen.together], todo[chosen.together :]
            for row in side_by_side(workers, batch, settings):
                rows.append(row)
                bar.update()
                if chosen.json:
                    chosen.json.write_text(json.dumps({**about, "rows": rows}, indent=1) + "\n")
    for worker in filter(None, workers):
        worker.stop()
    return rows


def side_by_side(workers, batch, settings):
    """The rows of a batch, one worker each, as they are ready."""
    if workers == [None]:
        return [function(*arguments, settings) for _, function, arguments in batch]
    with concurrent.futures.ThreadPoolExecutor(len(workers)) as pool:
        for worker in workers[: len(batch)]:
            pool.submit(worker.start)
    pool = concurrent.futures.ThreadPoolExecutor(len(workers))
    futures = [
        pool.submit(worker.run, function, *arguments, settings, **names)
        for worker, (names, function, arguments) in zip(workers, batch, strict=False)
    ]
    return (future.result() for future in concurrent.futures.as_completed(futures))


def main(arguments=None):
    chosen = parse(arguments)
    if chosen.list:
        print("\n".join(chosen.names))
        return 0
    quiet()
    size = chosen.size or ("large" if chosen.device == "cuda" else "medium")
    settings = Settings(
        **{"device": chosen.device, "size": size, "dtype": DTYPES[chosen.dtype], "rounds": chosen.rounds},
        **{"check": not chosen.no_check, "timed": not chosen.no_time, "compile_mode": chosen.compile_mode},
        **{"torch_compile": chosen.torch, "backend": chosen.backend},
        clock=time.process_time if chosen.cpu_time else time.perf_counter,
    )
    where = machine(chosen.device)
    print(", ".join(f"{name} {value}" for name, value in where.items() if value))
    print(f"size {size}, {chosen.dtype}; × eager: how many times faster than eager")
    print("cold s, warm s: the first call in a process of its own, with empty caches on disk and with filled ones\n")
    options = "suite dtype rounds compile_mode backend cpu_time".split()
    chose = {name: getattr(chosen, name) for name in options}
    rows = measure(chosen, settings, {**where, "size": size, **chose})
    print(table(rows), *summary(rows), sep="\n")
    for mode in chosen.modes if len({row.get("mode") for row in rows}) > 1 else ():
        print(f"{mode}:", *summary([row for row in rows if row["mode"] == mode]), sep="\n")
    failed = [row for row in rows if row["correct"] in ("no", "error")]
    if failed:
        print(f"\n{len(failed)} of {len(rows)} rows failed; tracebacks: {chosen.json or '--json FILE keeps them'}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
