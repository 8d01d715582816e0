"""An example of the gallery as a card: the function, its report, the function mended.

Goes in: a kind.  Comes out: an object that a notebook shows as HTML and a terminal as text.
"""

import contextlib
import inspect
import io
import os
from html import escape

from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import PythonLexer

import minicompile
from minicompile import config, record
from minicompile.dynamo.break_kinds import BREAK_KINDS
from minicompile.viz import style

from .example import GALLERY

FOLDER = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep


def breaks_of(function, arguments, **settings):
    """The graph breaks of one compiled call, whether it returns or raises."""
    minicompile.reset()
    with contextlib.suppress(ValueError), contextlib.redirect_stdout(io.StringIO()), config.patch(**settings):
        minicompile.compile(function, backend="eager")(*arguments)
    return [error for entry in record.compilations for error in entry.breaks]


class Card:
    """`kind`: a row of the registry; `report`: what minicompile says of the first break of its example."""

    def __init__(self, kind):
        self.kind, self.row = BREAK_KINDS[kind], GALLERY[kind]
        errors = breaks_of(self.row.function, self.row.arguments(0), **self.row.settings)
        self.report = str(
            next((error for error in errors if error.kind == kind), "it does not break any more")
        ).replace(FOLDER, "")

    @property
    def mend(self):
        text = self.row.mended_source or "# nothing to mend"
        given = self.row.mended_arguments not in (None, self.row.arguments)
        return text + ("\n\n# called with other arguments" if given else "")

    def __repr__(self):
        return f"{self.kind.explanation}\n\n{self.row.source}\n\n{self.report}\n\n{self.mend}"

    def _repr_html_(self):
        column = "flex:1 1 340px;min-width:0;overflow-x:auto"
        return (
            f'<div style="background:{style.CARD};color:{style.INK};border:1px solid {style.RULE};border-radius:6px;'
            'padding:8px 14px;margin:10px 0;font-size:13px;line-height:1.35">'
            f'<b style="font-size:15px">{escape(self.kind.name)}</b> &#160;{escape(self.kind.explanation)}'
            f'<div style="display:flex;flex-wrap:wrap;gap:18px;margin-top:6px"><div style="{column}">'
            f'{heading("breaks")}{code(self.row.source)}</div><div style="{column}">{heading("mended")}'
            f'{code(self.mend)}</div></div><pre style="margin:6px 0;padding:6px 10px;overflow-x:auto;color:{style.INK};'
            f'background:#f6f8fa;font:12px/1.35 {style.MONO}">{escape(self.report)}</pre></div>'
        )


class Cards:
    """Several cards, one below the other."""

    def __init__(self, kinds):
        self.cards = [Card(kind) for kind in kinds]

    def __repr__(self):
        return "\n\n\n".join(f"=== {card.kind.name}: {card!r}" for card in self.cards)

    def _repr_html_(self):
        return "".join(card._repr_html_() for card in self.cards)


def show(module):
    """The cards of all examples in one file of the gallery."""
    return Cards([kind for kind in BREAK_KINDS if inspect.getmodule(GALLERY[kind].function) is module])


def heading(text):
    return f'<div style="color:{style.MUTED};font-size:12px">{text}</div>'


def code(text):
    formatter = HtmlFormatter(
        noclasses=True, nobackground=True, style="default", prestyles=f"margin:0;font:12px/1.35 {style.MONO}"
    )
    return highlight(text, PythonLexer(), formatter)
