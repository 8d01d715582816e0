"""The pipeline as a strip of arrows, one function's snapshots at every stage side by side, and the time of each stage.

Goes in: the name of the stage that a chapter is about, or an Explanation.  Comes out: Pictures.
Mirrors tlparse's index page and `torch._dynamo.utils.compile_times`.  Taught in chapters 00 and 15.
"""

import inspect
import textwrap

from . import style
from .picture import Canvas, from_figure, name_bars

ORDER = ("source", "capture", "aot", "lower", "schedule", "codegen", "load")


def stage_strip(lit=None):
    """The pipeline, with the stage `lit` in its colour and the others pale; None: all in colour."""
    width, height, gap = 112, 46, 6
    canvas = Canvas(len(ORDER) * (width + gap) + 22, height + 16)
    for k, stage in enumerate(ORDER):
        x, y, bright = 8 + k * (width + gap), 8, lit in (None, stage)
        colour = style.STAGE_COLOURS[stage] if bright else "#eceff2"
        notch = 12
        tip = (x + width + notch, y + height / 2)
        points = [(x, y), (x + width, y), tip, (x + width, y + height), (x, y + height)]
        canvas.polygon([*points, (x + notch, y + height / 2)] if k else points, colour)
        head, _, tail = style.STAGE_TITLES[stage].partition(": ")
        ink = "#ffffff" if bright else style.MUTED
        canvas.text(x + width / 2 + notch / 2, y + (19 if tail else 28), head, 12.5, ink, "middle", bold=True)
        canvas.text(x + width / 2 + notch / 2, y + 35, tail, 10, ink, "middle")
    names = [f"[{style.STAGE_TITLES[s]}]" if s == lit else style.STAGE_TITLES[s] for s in ORDER]
    return canvas.picture(
        " -> ".join(names), f"The pipeline{f'; this chapter: {style.STAGE_TITLES[lit]}' if lit else ''}"
    )


def snapshot_texts(fn, explanation):
    """{stage: its text} of the first compiled frame: source, FX and ATen graph, loop IR, fusion, kernel, wrapper."""
    source = textwrap.dedent(inspect.getsource(inspect.unwrap(fn)))
    texts = {"source": source}
    entry = explanation.compilations[0]
    for stage in ORDER[1:]:
        artifacts = [a for a in entry.artifacts(stage) if a is not None]
        if artifacts:
            texts[stage] = stage_text(stage, artifacts[0])
    if "codegen" in texts:  # what is loaded is the wrapper, which calls the kernels
        texts["load"] = entry.artifacts("codegen")[0].python.strip()
    return texts


def stage_text(stage, artifact):
    """The part of a stage's artifact that fits a panel."""
    if stage == "capture" and artifact.graph_module is not None:
        return artifact.graph_module.code.strip()
    if stage == "aot":
        return artifact.forward.code.strip()
    if stage == "codegen":
        return artifact.kernels.strip()
    return str(artifact).strip()


def draw_snapshots(fn, explanation, columns=2, lines=13, width=62):
    """Panels with the text of every stage, in pipeline order, each under its colour."""
    texts = snapshot_texts(fn, explanation)
    size, leading, pad = 11, 14.5, 10
    panel_width, panel_height = width * size * 0.605 + 2 * pad, lines * leading + 48
    rows = -(-len(texts) // columns)
    canvas = Canvas(columns * (panel_width + 14) + 14, rows * (panel_height + 14) + 14)
    for k, (stage, text) in enumerate(texts.items()):
        x, y = 14 + k % columns * (panel_width + 14), 14 + k // columns * (panel_height + 14)
        canvas.box(x, y, panel_width, panel_height, "#fafbfc", style.RULE)
        canvas.box(x, y, panel_width, 26, style.STAGE_COLOURS[stage])
        canvas.text(x + pad, y + 18, f"{k + 1}  {style.STAGE_TITLES[stage]}", 13, "#ffffff", bold=True)
        for n, line in enumerate(clip(text, lines, width)):
            canvas.text(x + pad, y + 46 + n * leading, line, size, mono=True)
    plain = "\n\n".join(f"{style.STAGE_TITLES[stage]}\n{text}" for stage, text in texts.items())
    return canvas.picture(plain, f"{len(texts)} snapshots of one function, from its source to machine code")


def clip(text, lines, width):
    """At most `lines` lines of `width` characters: long ones go on in the next where there is room, else in "…"."""
    rows = [row.rstrip() for row in text.split("\n") if row.strip()]
    wrapped = [piece for row in rows for piece in wrap(row, width)]
    if len(wrapped) <= lines:
        return wrapped
    rows = [row if len(row) <= width else row[: width - 1] + "…" for row in rows]
    return rows if len(rows) <= lines else [*rows[: lines - 1], f"… {len(rows) - lines + 1} more lines"]


def wrap(row, width):
    """A line of code in several, all but the first indented further."""
    indent = " " * (len(row) - len(row.lstrip()) + 8)
    return textwrap.wrap(row, width, subsequent_indent=indent, break_on_hyphens=False)


def draw_stage_times(explanation, title="One compilation"):
    """Horizontal bars, milliseconds for each stage, in pipeline order."""
    seconds = explanation.seconds_by_stage()
    names = [style.STAGE_TITLES[stage] for stage in seconds]
    values = [1000 * value for value in seconds.values()]
    figure, axes = style.subplots(figsize=(9, 3.2))
    axes.barh(names, values, color=[style.STAGE_COLOURS[stage] for stage in seconds])
    name_bars(axes, values, [f"{value:.0f} ms" for value in values])
    axes.set_xlabel("milliseconds")
    axes.set_title(title, loc="left")
    text = "\n".join(f"{name}: {value:.0f} ms" for name, value in zip(names, values))
    return from_figure(figure, text, "Milliseconds that each stage of one compilation took")
