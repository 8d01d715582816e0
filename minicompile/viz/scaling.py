"""What vectors and threads bring: one kernel built for vectors of several widths and run by several threads; and what
the compiler says about the loops that it made vectors of.

Goes in: the `Compilation` of a function in the record, and inputs.  Comes out: seconds, and a Picture.
Mirrors nothing in PyTorch.  Taught in chapter 11.
"""

import re
import subprocess
import tempfile
from pathlib import Path

import torch

from .. import config, record
from ..bench.timing import interleaved
from ..compiler import compile, reset
from ..errors import MinicompileError
from ..inductor.codegen import cpp_build, wrapper
from . import style
from .picture import from_figure
from .roofline import one_thread

NO_VECTORS = ("-fno-tree-vectorize", "-fno-tree-slp-vectorize")
WIDTHS = (128, 256, 512)  # bits; a float has 32


def vector_report(source):
    """{line of a loop in `source.kernels`: bytes of its vectors} by GCC's own report; empty with another compiler."""
    compiler, _ = cpp_build.find_compiler(config.cpp_compiler)
    with tempfile.TemporaryDirectory() as folder:
        text = Path(folder) / "kernels.cpp"
        text.write_text(source.prelude + source.kernels)
        command = [compiler, *cpp_build.FLAGS, "-fopt-info-vec-optimized", "-c", str(text), "-o", str(text) + ".o"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    first, lines, found = source.prelude.count("\n"), source.kernels.split("\n"), {}
    for line, width in re.findall(r"kernels\.cpp:(\d+):\d+: optimized: +loop vectorized using (\d+) byte", done.stderr):
        place = int(line) - first  # the loop's first statement, or the pragma above it
        if place > 0:
            place += "#pragma" in lines[place - 1]
            place = max((k for k in range(1, place + 1) if lines[k - 1].lstrip().startswith("for (")), default=place)
            found[place] = max(int(width), found.get(place, 0))
    return found


def report_text(source):
    """The kernels, and behind the head of each loop how many floats its vectors hold."""
    found = vector_report(source)
    lines = enumerate(source.kernels.rstrip().split("\n"), 1)
    return "\n".join(f"{line}  // {found[k] // 4} floats at once" if k in found else line for k, line in lines)


def measure_widths(fn, x):
    """{floats at once: seconds} of the kernels of fn(x), on one thread."""
    reset()
    with torch.no_grad():
        compile(fn, options={"cpp_threads": 1})(x)
    source = record.compilations[0].artifacts("codegen")[0]
    scalar = re.sub(r"(#pragma omp parallel for) simd", r"\1", source.kernels)
    scalar = re.sub(r" *#pragma omp simd.*\n", "", scalar)
    variants = {1: (scalar, NO_VECTORS)}
    variants |= {bits // 32: (source.kernels, (f"-mprefer-vector-width={bits}",)) for bits in WIDTHS}
    loaded = {}
    for floats, (kernels, flags) in variants.items():
        try:
            runs = cpp_build.load(source.prelude + kernels, source.counts, flags)
        except MinicompileError:  # this processor, or its compiler, has no such vectors
            continue
        loaded[floats] = wrapper.load(source, runs)
    return one_thread({floats: lambda run=run: run([x]) for floats, run in loaded.items()}, rounds=15)


def measure_threads(fn, x, most=None):
    """{threads: seconds}, by the clock on the wall: the least of many short runs, as others may use the machine."""
    calls = {}
    for count in range(1, (most or torch.get_num_threads()) + 1):
        reset()
        calls[count] = compile(fn, options={"cpp_threads": count})
    with torch.no_grad():
        variants = {count: lambda run=run: run(x) for count, run in calls.items()}
        timings = interleaved(variants, rounds=101, sample_ms=0.1)
    return {count: min(timing.samples) / 1e3 for count, timing in timings.items()}


def draw_scaling(widths, threads, title="How many times as fast"):
    """widths: {program: {floats at once: seconds}}; threads: {program: {threads: seconds}}."""
    figure, panels = style.subplots(1, 2, figsize=(9, 4.2))
    colours, lines = list(style.STAGE_COLOURS.values())[1:], []
    for panel, programs, label in zip(panels, (widths, threads), ("floats at once", "threads")):
        steps = sorted({step for row in programs.values() for step in row})
        panel.plot(steps, steps, "--", color="#9aa1a8", linewidth=1.2, label="in proportion")
        for (name, row), colour in zip(programs.items(), colours):
            speed = [row[min(row)] / row[step] for step in row]
            panel.plot(list(row), speed, "o-", color=colour, label=name, linewidth=2)
            for step, value in zip(row, speed):
                panel.annotate(
                    f"{value:.1f}", (step, value), (0, 7), textcoords="offset points", ha="center", fontsize=10
                )
            lines.append(f"{name}: " + ", ".join(f"{s} {label} {v:.1f}x" for s, v in zip(row, speed)))
        if steps[-1] >= 4:
            panel.set_xscale("log", base=2)
            panel.set_yscale("log", base=2)
            panel.yaxis.set_major_formatter("{x:g}")
        panel.set_xticks(steps, [str(step) for step in steps])
        panel.minorticks_off()
        panel.set_xlabel(label)
        panel.margins(0.12)
    panels[0].set_ylabel("times as fast as one")
    panels[0].legend(loc="upper left")
    return from_figure(figure, "\n".join(lines), f"{title}: with wider vectors, and with more threads", title)
