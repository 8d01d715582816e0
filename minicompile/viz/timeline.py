"""Where the time of a compilation went.

Goes in: an Explanation.  Comes out: one bar a stage.  Mirrors `torch._dynamo.utils.compile_times`.  Taught in chapter
15.
"""

from . import style
from .picture import from_figure


def draw_stage_times(explanation, title="One compilation"):
    """Horizontal bars, milliseconds for each stage, in pipeline order."""
    seconds = explanation.seconds_by_stage()
    names = [style.STAGE_TITLES[stage] for stage in seconds]
    values = [1000 * value for value in seconds.values()]
    figure, axes = style.subplots(figsize=(9, 3.2))
    axes.barh(names, values, color=[style.STAGE_COLOURS[stage] for stage in seconds])
    axes.invert_yaxis()
    axes.grid(axis="y", visible=False)
    axes.set_xlabel("milliseconds")
    axes.set_title(title, loc="left")
    for k, value in enumerate(values):
        axes.text(value + max(values) * 0.01, k, f"{value:.0f} ms", va="center", fontsize=11)
    axes.set_xlim(0, max(values) * 1.15)
    text = "\n".join(f"{name}: {value:.0f} ms" for name, value in zip(names, values))
    return from_figure(figure, text, "Milliseconds that each stage of one compilation took")
