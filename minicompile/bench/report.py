"""The stage report: a folder with one readable file per stage of everything that was compiled.

Goes in: entries of `record.compilations`.  Comes out: `index.html` (all in one page), `index.md`, and a folder per
compiled frame: its graph, guards and bytecode, the ATen graphs, the loop IR, the fusion decisions, kernels and wrapper.
Mirrors `TORCH_COMPILE_DEBUG=1` and tlparse.  Taught in chapter 00.
"""

import html
import pathlib
import re

from .. import record


def _graph(capture):
    if capture.graph_module is None:
        return "no graph: nothing here is an operation on tensors\n"
    return capture.graph_module.print_readable(print_output=False)


# stage -> (file name, what it shows, artifact -> text); "{ext}" is the ending of the kernels' language
PARTS = {
    "capture": [
        ("1_graph.py", "the captured FX graph", _graph),
        ("1_guards.txt", "the guards: what must hold for this graph to be used again", lambda a: repr(a.guards)),
        ("1_bytecode.txt", "the bytecode that runs instead of the function's own", lambda a: a.bytecode),
    ],
    "aot": [("2_aten.txt", "the functional ATen graphs, and what forward saves for backward", repr)],
    "lower": [("3_loops.txt", "loop IR: one line per buffer", repr)],
    "schedule": [("4_fusion.txt", "the groups, and why each pair was fused or not", lambda a: f"{a}\n\n{a.why()}")],
    "codegen": [
        ("5_kernels.{ext}", "the kernels", lambda a: a.kernels.removeprefix(a.prelude).lstrip()),
        ("6_wrapper.py", "the wrapper: allocate, call, free", lambda a: a.python),
    ],
}
STYLE = """body { font: 16px/1.5 system-ui, sans-serif; max-width: 75rem; margin: 2rem auto; padding: 0 1rem }
pre { overflow-x: auto; padding: .75rem; border: 1px solid #8886; border-radius: .4rem; font: 13px/1.35 monospace }
summary { cursor: pointer } :root { color-scheme: light dark }"""


def files_of(entry):
    """[(file name, title, seconds, text)] of one compilation, in pipeline order.

    A stage that comes twice in one frame came for the forward graph first, and for the backward graph then.
    """
    found = []
    for stage, parts in PARTS.items():
        snapshots = [s for s in entry.snapshots if s.stage == stage and s.artifact is not None]
        for number, snapshot in enumerate(snapshots):
            label = "" if len(snapshots) == 1 else ("_forward", "_backward", *map(str, range(2, 9)))[number]
            ending = "py" if getattr(snapshot.artifact, "target", "") == "triton" else "cpp"
            for name, title, text in parts:
                file = name.format(ext=ending).replace(".", f"{label}.")
                body = text(snapshot.artifact).rstrip() + "\n"
                found.append((file, title + label.replace("_", ", "), snapshot.seconds, body))
    return sorted(found, key=lambda file: file[0][0])


def write(folder="minicompile_report", compilations=None, summary=""):
    """Write the report and return the path of its index.html.  An older report there is replaced."""
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("[0-9][0-9]_*/[0-9]_*"):
        old.unlink()
    compilations = list(record.compilations if compilations is None else compilations)
    pages, listing = [], ["# What minicompile did", "", summary, ""]
    for number, entry in enumerate(compilations, 1):
        name = f"{number:02d}_{re.sub(r'[^A-Za-z0-9_.]+', '_', entry.name)}"
        (folder / name).mkdir(exist_ok=True)
        notes = [f"recompiled because {entry.recompile_reason}"] if entry.recompile_reason else []
        notes += [f"graph break: {error}" for error in entry.breaks]
        listing += [f"## {number}. {entry.name}", f"`{entry.location}`, {entry.seconds:.2f} s", *notes, ""]
        pages.append(f"<h2>{number}. {html.escape(entry.name)}</h2><p><code>{html.escape(entry.location)}</code></p>")
        pages += [f"<p>{html.escape(note)}</p>" for note in notes]
        for file, title, seconds, text in files_of(entry):
            (folder / name / file).write_text(text)
            listing.append(f"- [{file}]({name}/{file}): {title}")
            head = f'<a href="{name}/{file}">{file}</a>: {html.escape(title)} ({seconds:.3f} s)'
            pages.append(f"<details><summary>{head}</summary><pre>{html.escape(text)}</pre></details>")
        listing.append("")
    (folder / "index.md").write_text("\n".join(listing))
    body = f"<h1>What minicompile did</h1><pre>{html.escape(summary)}</pre>" + "\n".join(pages)
    head = f'<meta charset="utf-8"><title>minicompile report</title><style>{STYLE}</style>'
    page = f'<!doctype html><html lang="en">{head}'
    (folder / "index.html").write_text(f"{page}<body>{body}</body></html>\n")
    return folder / "index.html"
