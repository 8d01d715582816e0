"""Warnings that come out while capture itself runs something for the program: a function on constants, a `__get__`.

They would name a line of ours, and what is compiled would not warn again: the graph breaks, and eager warns.
PyTorch has no such file: torch.compile lets them go.  Taught in chapter 05.
"""

import sys
import threading
import warnings

from .base import unsupported


class WarningsAreBreaks:
    """`with` this around what runs for real.  Warnings of other threads go where they went."""

    def __enter__(self):
        self.show, self.message, thread = warnings._showwarnmsg, None, threading.get_ident()

        def note(message):
            if threading.get_ident() != thread:
                return self.show(message)
            self.message = message
            forget(message)

        warnings._showwarnmsg = note

    def __exit__(self, kind, error, traceback):
        warnings._showwarnmsg = self.show
        if self.message is not None or (kind is not None and issubclass(kind, Warning)):
            text = error if self.message is None else self.message.message
            unsupported("function left to eager", f"it warns: {text}")


def forget(message):
    """It was not shown: the next one from the same place shall be."""
    frame = sys._getframe(1)
    while frame is not None:
        if frame.f_code.co_filename == message.filename:
            frame.f_globals.pop("__warningregistry__", None)
        frame = frame.f_back
    warnings.onceregistry.pop((str(message.message), message.category), None)
