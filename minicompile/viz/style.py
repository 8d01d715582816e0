"""One style for the whole course: colours, fonts, sizes.

Goes in: nothing.  Comes out: constants, and `use_style()` for matplotlib.  Mirrors nothing in PyTorch.  Taught nowhere.

The colours are Okabe and Ito's, which colour-blind readers tell apart.  Every picture lies on a white card, so that it
reads the same in a dark notebook.
"""

STAGE_COLOURS = {
    "source": "#4d4d4d",
    "capture": "#0072B2",
    "aot": "#E69F00",
    "lower": "#009E73",
    "schedule": "#CC79A7",
    "codegen": "#D55E00",
    "load": "#56B4E9",
}
STAGE_TITLES = {
    "source": "your function",
    "capture": "dynamo: capture",
    "aot": "aot: forward, backward",
    "lower": "inductor: loop IR",
    "schedule": "inductor: fusion",
    "codegen": "inductor: code",
    "load": "inductor: build and load",
}
COST_COLOURS = {
    "python + dispatch": "#0072B2",
    "launch": "#E69F00",
    "memory traffic": "#009E73",
    "arithmetic": "#999999",
}
INK, MUTED, CARD, RULE = "#1f2328", "#6a737d", "#ffffff", "#d0d7de"
SANS = "DejaVu Sans, Helvetica, Arial, sans-serif"
MONO = "DejaVu Sans Mono, Menlo, Consolas, monospace"


def use_style():
    """Set matplotlib's defaults: readable at lecture size, deterministic SVG."""
    import matplotlib

    matplotlib.rcParams.update(
        {
            "figure.figsize": (9, 4.2),
            "figure.dpi": 110,
            "figure.facecolor": CARD,
            "savefig.facecolor": CARD,
            "axes.facecolor": CARD,
            "axes.edgecolor": MUTED,
            "axes.labelcolor": INK,
            "axes.titlesize": 14,
            "axes.labelsize": 12,
            "axes.spines.top": False,
            "axes.spines.right": False,
            "axes.axisbelow": True,
            "axes.grid": True,
            "grid.color": "#e8ebee",
            "xtick.color": INK,
            "ytick.color": INK,
            "xtick.labelsize": 11,
            "ytick.labelsize": 11,
            "legend.frameon": False,
            "legend.fontsize": 11,
            "font.family": "DejaVu Sans",
            "svg.fonttype": "path",
            "svg.hashsalt": "minicompile",
        }
    )


def subplots(*shape, **options):
    """A figure and its axes, in this style."""
    import matplotlib.pyplot as plt

    use_style()
    return plt.subplots(*shape, **options)
