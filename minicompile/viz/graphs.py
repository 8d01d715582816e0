"""FX graphs drawn with Graphviz.

Goes in: a GraphModule (captured, or of ATen operations).  Comes out: a Picture whose nodes carry operator, shape and
dtype, with deterministic ids.  Mirrors `torch/fx/passes/graph_drawer.py`.  Taught in chapters 03 and 08.

Graphviz is used through the `dot` program, else through pygraphviz (whose wheels carry the libraries), and where
neither is there the picture is the DOT text.
"""

import importlib.util
import shutil
import subprocess
import sys
import warnings
from html import escape

import torch

from . import style
from .picture import Picture

KIND_COLOURS = {
    "placeholder": "#e7f1f8",
    "get_attr": "#e7f1f8",
    "output": "#f3f3f3",
    "call_function": "#ffffff",
    "call_method": "#ffffff",
    "call_module": "#ffffff",
}


def draw_graph(gm, title=""):
    """A Picture of an FX graph, top to bottom."""
    text = gm.print_readable(print_output=False).strip() if hasattr(gm, "print_readable") else str(gm.graph)
    operations = sum(node.op.startswith("call") for node in gm.graph.nodes)
    look = "rankdir=TB; nodesep=0.25; ranksep=0.3; fontsize=14"
    return render(_dot_lines(gm.graph), text, f"{title or 'FX graph'}: {operations} operations", title, look)


def target_name(target):
    """`add`, `aten.mm`, `relu`: the operator without its module path and overload."""
    name = target if isinstance(target, str) else getattr(target, "__name__", str(target))
    return name.removesuffix(".default").removesuffix(".Tensor")


def describe(value):
    """`float32 [2, 3]`, or nothing for what is no tensor."""
    if isinstance(value, torch.Tensor):
        return f"{str(value.dtype)[6:]} {list(value.shape)}"
    return ""


def _dot_lines(graph):
    yield 'node [shape=box, style="rounded,filled", fontname="DejaVu Sans", fontsize=12, height=0.3];'
    yield f'node [color="{style.MUTED}"];'
    yield f'edge [color="{style.MUTED}", arrowsize=0.6];'
    ids = {node: f"n{k}" for k, node in enumerate(graph.nodes)}
    for node, name in ids.items():
        value = node.meta.get("val", node.meta.get("example_value"))
        head = "output" if node.op == "output" else node.name if node.op == "placeholder" else target_name(node.target)
        facts = describe(value)
        rows = f"<B>{escape(head)}</B>" + (f'<BR/><FONT POINT-SIZE="10">{facts}</FONT>' if facts else "")
        yield f'{name} [label=<{rows}>, fillcolor="{KIND_COLOURS[node.op]}"];'
        for source in node.all_input_nodes:
            yield f"{ids[source]} -> {name};"


_missing_reported = False


def render(lines, text, alt, title="", look="rankdir=TB; nodesep=0.22; ranksep=0.28; fontsize=16"):
    """SVG of a graph in DOT's words by whatever Graphviz there is; else the DOT text, and what to install.

    lines: of the graph; look: its attributes; text: lines, or all of them as one.
    """
    global _missing_reported
    head = [f'digraph G {{ bgcolor="{style.CARD}"; fontname="DejaVu Sans"; {look};']
    head += [f'label="{title}"; labelloc=t;'] if title else []
    dot, text = "\n".join([*head, *lines, "}"]), text if isinstance(text, str) else "\n".join(text)
    if shutil.which("dot"):
        svg = subprocess.run(["dot", "-Tsvg"], input=dot, capture_output=True, text=True, check=True).stdout
        return Picture(svg[svg.index("<svg") :], text, alt)
    if importlib.util.find_spec("pygraphviz") is None:
        if not _missing_reported:
            _missing_reported = True
            warnings.warn("no Graphviz: graphs are shown as DOT text; install graphviz or pygraphviz", stacklevel=3)
        return DotText(dot, text, alt)
    # in a process of its own: the library writes font warnings to the terminal
    code = "import sys, pygraphviz; print(pygraphviz.AGraph(sys.stdin.read()).draw(format='svg', prog='dot').decode())"
    svg = subprocess.run([sys.executable, "-c", code], input=dot, capture_output=True, text=True, check=True).stdout
    return Picture(svg[svg.index("<svg") :], text, alt)


class DotText(Picture):
    """What a picture is without Graphviz: its DOT source."""

    def __init__(self, dot, text, alt):
        self.dot, self.text, self.alt = dot, text, alt

    def _repr_mimebundle_(self, include=None, exclude=None):
        return {"text/plain": self.dot}
