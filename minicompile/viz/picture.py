"""A picture that a notebook shows as SVG, and a terminal, a test or a screen reader as text.

Goes in: SVG markup, its text form, a one-sentence description.  Comes out: an object with Jupyter's display methods.
Mirrors nothing in PyTorch.  Taught in chapter 00.
"""

import io
import re
from html import escape

from . import style


class Picture:
    """`svg`: self-contained markup; `text`: the same facts as plain text; `alt`: what it shows, in one sentence."""

    def __init__(self, svg, text, alt):
        self.svg, self.text, self.alt = _described(svg, alt), text, alt

    def _repr_mimebundle_(self, include=None, exclude=None):
        return {"image/svg+xml": self.svg, "text/plain": self.text}

    def __repr__(self):
        return self.text

    def save(self, path):
        """Write the SVG to a file."""
        with open(path, "w", encoding="utf-8") as file:
            file.write(self.svg)


PAGE = 900  # pixels: notebooks show an SVG as an image of its own size, and cut what is wider than the page


def _described(svg, alt):
    """Give the outermost <svg> a <title>, for screen readers and tooltips, and a width that a page has."""
    start = svg.index("<svg")
    end = svg.index(">", start) + 1
    head = svg[start : end - 1] + ' role="img" style="max-width:100%;height:auto">'
    (width, unit), (height, _) = (
        re.search(rf'\b{side}="([\d.]+)(pt|px)?"', head).groups() for side in ("width", "height")
    )
    pixels = float(width) * (4 / 3 if unit == "pt" else 1)
    if pixels > PAGE:
        scale = PAGE / float(width)
        head = head.replace(f'width="{width}{unit or ""}"', f'width="{PAGE}"', 1)
        head = head.replace(f'height="{height}{unit or ""}"', f'height="{float(height) * scale:.0f}"', 1)
    return f"{head}<title>{escape(alt)}</title>{svg[end:]}"


def from_figure(figure, text, alt, heading="", **layout):
    """A Picture of a matplotlib figure; the figure is closed, so that the notebook does not show it twice.

    heading: a title above all panels.  layout: of `tight_layout`, for a figure of several.
    """
    import matplotlib.pyplot as plt

    if heading:
        figure.suptitle(heading, fontsize=14, x=0.01, ha="left")
        figure.tight_layout(**layout)
    buffer = io.StringIO()
    figure.savefig(buffer, format="svg", bbox_inches="tight", metadata={"Date": None, "Creator": None})
    plt.close(figure)
    return Picture(buffer.getvalue(), text, alt)


def name_bars(axes, ends, texts):
    """Horizontal bars from the top down, each with a text at its end."""
    for k, (end, text) in enumerate(zip(ends, texts, strict=True)):
        axes.text(end + max(ends) * 0.01, k, text, va="center", fontsize=11)
    axes.set_xlim(0, max(ends) * 1.13)
    axes.invert_yaxis()
    axes.grid(axis="y", visible=False)


class Canvas:
    """Collects SVG elements by hand, for pictures that are boxes and text."""

    def __init__(self, width, height, title=""):
        self.width, self.height, self.parts = width, height, []
        if title:
            self.text(16, 30, title, 16, bold=True)

    def box(self, x, y, width, height, fill, stroke="none", radius=6):
        place = f'x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}"'
        self.parts.append(f'<rect {place} rx="{radius}" fill="{fill}" stroke="{stroke}"/>')

    def polygon(self, points, fill, stroke="none"):
        text = " ".join(f"{x:g},{y:g}" for x, y in points)
        self.parts.append(f'<polygon points="{text}" fill="{fill}" stroke="{stroke}"/>')

    def line(self, x1, y1, x2, y2, colour, width=1.5):
        self.parts.append(
            f'<line x1="{x1:g}" y1="{y1:g}" x2="{x2:g}" y2="{y2:g}" stroke="{colour}" stroke-width="{width:g}"/>'
        )

    def text(self, x, y, text, size=13, colour=style.INK, anchor="start", mono=False, bold=False):
        family, weight = (style.MONO if mono else style.SANS), ("bold" if bold else "normal")
        font = f'font-family="{family}" font-size="{size:g}" font-weight="{weight}" fill="{colour}"'
        self.parts.append(
            f'<text x="{x:g}" y="{y:g}" {font} text-anchor="{anchor}" xml:space="preserve">{escape(text)}</text>'
        )

    def legend(self, meanings, x, y):
        """A small box and a text for each (colour, text), in a row; returns where it ends."""
        for colour, text in meanings:
            self.box(x, y, 16, 12, colour, radius=2)
            self.text(x + 22, y + 11, text, 12)
            x += 42 + 7 * len(text)
        return x

    def picture(self, text, alt):
        head = (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {self.width:g} {self.height:g}" '
            f'width="{self.width:g}" height="{self.height:g}">'
        )
        card = f'<rect width="{self.width:g}" height="{self.height:g}" rx="8" fill="{style.CARD}"/>'
        return Picture("\n".join([head, card, *self.parts, "</svg>"]), text, alt)
