"""`python -m minicompile demo`: a GPT, compiled; what it became; how much faster it is; and a report of every stage.

Goes in: options, see `--help`.  Comes out: a summary on the terminal and the folder that `report.write` makes.
"""

import argparse

import torch

import minicompile
from minicompile import accuracy, record

from . import report, timing
from .models import SIZES, ZOO
from .suite import Settings, build, step
from .tables import table


def parse(arguments):
    about = "compile a small GPT, compare it with eager, and write down what every stage made of it"
    parser = argparse.ArgumentParser(prog="python -m minicompile demo", description=about)
    parser.add_argument("--model", default="gpt", choices=ZOO, metavar="MODEL", help="default: gpt")
    parser.add_argument("--size", default="medium", choices=SIZES)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu", choices=["cpu", "cuda"])
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--out", default="minicompile_report", help="the report's folder (default: %(default)s)")
    return parser.parse_args(arguments)


def compare(mode, options, rows, entries):
    """Compile, check and time the model in one mode; add a row to the table and the compilations to the report."""
    minicompile.reset()
    settings = Settings(device=options.device, size=options.size)
    model, args, kwargs, loss = build(ZOO[options.model], mode, settings)
    if mode == "inference":
        compiled = accuracy.check_inference(model, args, kwargs)
    else:
        compiled = accuracy.check_training(model, loss, args, kwargs)
    entries += record.compilations
    row = {
        "mode": mode,
        **minicompile.stats(),
        "correct": "yes",
        "compile_s": sum(entry.seconds for entry in record.compilations),
    }
    variants = {"eager": step(model, args, kwargs, loss, mode), "ours": step(compiled, args, kwargs, loss, mode)}
    timing.note(row, timing.interleaved(variants, options.device, options.rounds))
    rows.append(row)
    return row


def describe(entries):
    """What each compiled frame became, in a line."""
    lines = []
    for entry in entries:
        for capture in entry.artifacts("capture"):
            nodes = len(capture.graph_module.graph.nodes) if capture and capture.graph_module is not None else 0
            kernels = [name for source in entry.artifacts("codegen") for name in source.kernel_names]
            stages = ", ".join(f"{s.stage} {s.seconds:.2f} s" for s in entry.snapshots if s.stage != "capture")
            lines.append(f"{entry.name}: a graph of {nodes} nodes, {len(set(kernels))} kernels written; {stages}")
    return "\n".join(lines)


def excerpt(title, text, lines=14):
    """The first lines of a stage's text, under a title."""
    rows = str(text).strip().split("\n")
    more = [f"    ... {len(rows) - lines} more lines in the report"] if len(rows) > lines else []
    return "\n".join([f"\n{title}:", *(f"    {row[:116]}" for row in rows[:lines]), *more])


def show(entry):
    """The beginning of the captured graph, of the ATen graph, and of the kernels, of one compiled frame."""
    capture, source = entry.artifacts("capture")[0], entry.artifacts("codegen")[0]
    print(excerpt("captured graph", capture.graph_module.code))
    print(excerpt("ATen graph", entry.artifacts("aot")[0].forward.code))
    print(excerpt("kernels", source.kernels, 22))


def main(arguments=None):
    options, rows, entries = parse(arguments), [], []
    print(f"{options.model} ({options.size}) on {options.device}: compile, compare with eager, time ...")
    for mode in ("inference", "training"):
        row = compare(mode, options, rows, entries)
        print(f"  {mode}: same results as eager, {row['ratio']:.2f} times its speed")
    show(entries[0])
    summary = f"\n{table(rows)}\n\n{describe(entries)}"
    path = report.write(options.out, entries, summary)
    print(f"\n{summary}\n\nevery stage, readable: {path}")
    return 0
