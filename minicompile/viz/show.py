"""Source code in a notebook: shown from the package, with file and line, never pasted.

Goes in: a function, class, method or module of the package, or generated text.  Comes out: highlighted code.
Mirrors nothing in PyTorch.  Taught in chapter 00.
"""

import inspect
import os
import textwrap
from html import escape

from . import style

_ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


class Listing:
    """Code with a caption; HTML in a notebook, text elsewhere."""

    def __init__(self, caption, code, language="python"):
        self.caption, self.code, self.language = caption, code, language

    def _repr_mimebundle_(self, include=None, exclude=None):
        from pygments import highlight
        from pygments.formatters import HtmlFormatter
        from pygments.lexers import get_lexer_by_name

        wrap = "white-space:pre-wrap;word-break:normal;overflow-wrap:anywhere"  # a notebook's own style cuts words
        formatter = HtmlFormatter(
            noclasses=True, nobackground=True, style="default", prestyles=f"font-family:{style.MONO};{wrap}"
        )
        body = highlight(self.code, get_lexer_by_name(self.language), formatter)
        box = (
            f"background:{style.CARD};color:{style.INK};border:1px solid {style.RULE};border-radius:6px;"
            "padding:8px 14px;overflow-x:auto;font-size:12.5px;line-height:1.35"
        )
        caption = f'<div style="color:{style.MUTED};font-size:12px">{escape(self.caption)}</div>'
        return {"text/html": f'<div style="{box}">{caption}{body}</div>', "text/plain": repr(self)}

    def __repr__(self):
        return f"# {self.caption}\n{self.code}"


def show_source(thing, first="", last=None):
    """The source of a function, class or module; `first`, `last`: only from a line with this text to one with that."""
    lines, start = inspect.getsourcelines(thing)
    path = os.path.relpath(inspect.getsourcefile(thing), _ROOT)
    begin = next(k for k, line in enumerate(lines) if first in line)
    end = len(lines) if last is None else next(k for k, line in enumerate(lines) if k >= begin and last in line) + 1
    return Listing(f"{path}, line {max(start + begin, 1)}", textwrap.dedent("".join(lines[begin:end])).rstrip())


def show_c(name, source="_eval_frame.c"):
    """A function of the frame hook, or of another C or C++ file in dynamo, by its name."""
    path = os.path.join("minicompile", "dynamo", source)
    with open(os.path.join(_ROOT, path), encoding="utf-8") as file:
        lines = file.read().split("\n")
    start = next(k for k, line in enumerate(lines) if line.startswith(f"{name}(")) - 1  # its type stands above
    stop = lines.index("}", start) + 1
    return Listing(f"{path}, line {start + 1}", "\n".join(lines[start:stop]), "c++" if source.endswith("cpp") else "c")


def show_text(text, caption, language="python", lines=None):
    """Generated text (a graph, a kernel, a wrapper) as a listing; `lines`: at most so many, then an ellipsis."""
    parts = str(text).rstrip().split("\n")
    if lines is not None and len(parts) > lines:
        parts = [*parts[:lines], f"... ({len(parts) - lines} more lines)"]
    return Listing(caption, "\n".join(parts), language)
