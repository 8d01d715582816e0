"""Rows as text: the table that the benchmark prints, and the machine that it was measured on.

Goes in: a list of dicts.  Comes out: an aligned table that is also valid Markdown, and lines that sum it up.
"""

import pathlib
import platform
import statistics
import sys

import torch

# key of a row: (heading, format); a table shows the columns that at least one of its rows has.
COLUMNS = {
    "pattern": ("pattern", "{}"),
    "model": ("model", "{}"),
    "mode": ("mode", "{}"),
    "correct": ("correct", "{}"),
    "graphs": ("graphs", "{}"),
    "torch_graphs": ("torch's", "{}"),
    "graph_breaks": ("breaks", "{}"),
    "kernels": ("kernels", "{}"),
    "torch_kernels": ("torch's kernels", "{}"),
    "extern_calls": ("extern", "{}"),
    "fallbacks": ("fallback", "{}"),
    "ideal_mb": ("ideal MB", "{:.1f}"),
    "moved_mb": ("moved MB", "{:.1f}"),
    "compile_s": ("compile s", "{:.1f}"),
    "ours_cold_s": ("cold s", "{:.2f}"),  # the first call with empty caches on disk, and with filled ones
    "torch_cold_s": ("torch cold s", "{:.2f}"),
    "ours_warm_s": ("warm s", "{:.2f}"),
    "torch_warm_s": ("torch warm s", "{:.2f}"),
    "eager_ms": ("eager ms", "{:.4f}"),
    "ours_ms": ("ours ms", "{:.4f}"),
    "ratio": ("× eager", "{:.2f}"),
    "torch_ms": ("torch ms", "{:.4f}"),
    "torch_ratio": ("torch × eager", "{:.2f}"),
    "against_torch": ("× torch", "{:.2f}"),
    "copy_ms": ("a copy's ms", "{:.4f}"),
    "traffic_ms": ("reads and fills ms", "{:.4f}"),
    "arithmetic_ms": ("arithmetic ms", "{:.4f}"),
    "floor_share": ("of the slower's speed", "{:.0%}"),
    "share": ("of a copy's speed", "{:.0%}"),
    "traffic_share": ("of the speed of reads and fills", "{:.0%}"),
    "eager_peak_mb": ("eager peak MB", "{:.0f}"),
    "ours_peak_mb": ("ours peak MB", "{:.0f}"),
    "torch_peak_mb": ("torch peak MB", "{:.0f}"),
    "note": ("note", "{}"),
}


def table(rows, columns=COLUMNS):
    """The rows as a Markdown table; numbers are aligned to the right, a missing value is a dash.

    columns: as `COLUMNS`.
    """
    shown = [key for key in columns if any(row.get(key) not in (None, "") for row in rows)]
    lines = [[columns[key][0] for key in shown]]
    lines += [["–" if row.get(k) is None else columns[k][1].format(row[k]) for k in shown] for row in rows]
    widths = [max(len(line[i]) for line in lines) for i in range(len(shown))]
    right = [any(isinstance(row.get(key), int | float) for row in rows) for key in shown]
    pad = [str.rjust if is_right else str.ljust for is_right in right]
    padded = [[p(cell, width) for p, cell, width in zip(pad, line, widths, strict=True)] for line in lines]
    text = ["| " + " | ".join(line) + " |" for line in padded]
    rule = ["-" * (w + 1) + (":" if is_right else "-") for w, is_right in zip(widths, right, strict=True)]
    return "\n".join([text[0], "|" + "|".join(rule) + "|", *text[1:]])


# (the numerator's key, the denominator's or "", what the quotient is)
_MEANS = [
    ("ratio", "", "eager's speed"),
    ("torch_ratio", "", "eager's speed (torch.compile)"),
    ("against_torch", "", "torch.compile's speed"),
    ("torch_cold_s", "ours_cold_s", "as fast as torch.compile in the first call, caches empty"),
    ("torch_warm_s", "ours_warm_s", "as fast as torch.compile in the first call, caches filled"),
]


def summary(rows):
    """Lines below the table: geometric means with the slowest row, and the median share of a copy's speed."""
    lines = []
    for above, below, text in _MEANS:
        kept = [row for row in rows if row.get(above) and row.get(below or above)]
        kept = [row for row in kept if not below or row.get("torch_kernels") != 0]  # else it compiled nothing
        found = {_name(row): row[above] / (row[below] if below else 1) for row in kept}
        if found:
            slowest = min(found, key=found.get)
            mean = statistics.geometric_mean(found.values())
            lines.append(f"{mean:.2f} times {text} over {len(found)}; least {found[slowest]:.2f} ({slowest})")
    for key, speed in (("share", "a copy's speed"), ("floor_share", "the speed of a copy or of the arithmetic alone")):
        shares = {_name(row): row[key] for row in rows if row.get(key)}
        if shares:
            under = [name for name, share in shares.items() if share < 0.7]
            lines.append(
                f"share of {speed}: median {statistics.median(shares.values()):.0%} of {len(shares)}; "
                f"under 70%: {', '.join(under) or 'none'}"
            )
    return lines


def _name(row):
    return row.get("pattern") or f"{row['model']}, {row['mode']}"


def machine(device="cpu"):
    """What the numbers depend on, for the JSON file and the line above the table."""
    import minicompile

    found = {
        "machine": platform.machine(),
        "cpu": _cpu_name(),
        "threads": torch.get_num_threads(),
        "system": platform.platform(),
        "python": sys.version.split()[0],
        "torch": torch.__version__,
        "triton": _version("triton"),
        "minicompile": _version("minicompile") or minicompile.__name__,
    }
    if device == "cuda":
        found["gpu"] = torch.cuda.get_device_name()
    return found


def _cpu_name():
    try:
        lines = pathlib.Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), platform.processor())


def _version(package):
    from importlib import metadata

    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None
