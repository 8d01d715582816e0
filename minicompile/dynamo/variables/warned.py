"""Warnings that come out while capture itself runs something for the program, or the graph does what eager would do.

What capture runs on constants (a function, a `__get__`) would name a line of ours, and what is compiled would not warn
again: the graph breaks, and eager warns.  An operator that warns stays in the graph: the new bytecode warns in its
place, at each call and at the program's line, and neither capture, backend nor graph does.
PyTorch has no such file: torch.compile lets them go.  Taught in chapter 05.
"""

import collections
import dataclasses
import functools
import sys
import threading
import warnings

from .base import unsupported


class Listener:
    """`with` this around what may warn: `hear(message)` says whether it takes a warning of this thread."""

    listening, changing, show = collections.defaultdict(list), threading.Lock(), None  # of each thread, innermost last

    def __enter__(self):
        with self.changing:
            if not self.listening:
                Listener.show, warnings._showwarnmsg = warnings._showwarnmsg, tell
            self.listening[threading.get_ident()].append(self)
        return self

    def __exit__(self, kind, error, traceback):
        thread = threading.get_ident()
        with self.changing:
            self.listening[thread].pop()
            if not self.listening[thread]:
                del self.listening[thread]
            if not self.listening:
                warnings._showwarnmsg = Listener.show


def tell(message):
    """Warnings of other threads go where they went."""
    listeners = Listener.listening.get(threading.get_ident())
    if not listeners or not listeners[-1].hear(message):
        return Listener.show(message)
    forget(message)


def forget(message):
    """It was not shown: the next one from the same place shall be."""
    text, frame = str(message.message), sys._getframe(1)
    while frame is not None:
        if frame.f_code.co_filename == message.filename:
            for line in (message.lineno, 0):
                frame.f_globals.get("__warningregistry__", {}).pop((text, message.category, line), None)
        frame = frame.f_back
    warnings.onceregistry.pop((text, message.category), None)


class WarningsAreBreaks(Listener):
    def __enter__(self):
        self.message = None
        super().__enter__()

    def hear(self, message):
        self.message = message
        return True

    def __exit__(self, kind, error, traceback):
        super().__exit__(kind, error, traceback)
        if self.message is not None or (kind is not None and issubclass(kind, Warning)):
            text = error if self.message is None else self.message.message
            unsupported("function left to eager", f"it warns: {text}")


# --- operators --------------------------------------------------------------------------------------------
@dataclasses.dataclass(frozen=True)
class OperatorWarning:
    """What an operator of the graph said, and the line that eager names: the caller's, or one of its own."""

    text: str
    category: type
    filename: str
    line: int
    module: str

    def again(self):
        """As `warnings.warn` does at each call."""
        registry = vars(sys.modules.get(self.module, warnings)).setdefault("__warningregistry__", {})
        warnings.warn_explicit(self.text, self.category, self.filename, self.line, self.module, registry)


class OperatorWarnings(Listener):
    """Around the operator `target` on fake tensors: its warnings go to `output.warnings`."""

    def __init__(self, tx, target):
        self.tx, self.own_module = tx, getattr(target, "__module__", None)
        self.own_file = getattr(getattr(target, "__code__", None), "co_filename", None)

    def hear(self, message):
        frame = self.tx
        if message.filename == self.own_file:
            place = message.filename, message.lineno, self.own_module
        else:
            place = frame.code.co_filename, frame.current.line, frame.globals_dict.get("__name__", "")
        self.tx.output.warnings.append(OperatorWarning(str(message.message), message.category, *place))
        return True


class WarnedBefore(Listener):
    """Around a graph, or its compilation: not what the new bytecode says already."""

    def __init__(self, said):
        self.texts = {warning.text for warning in said}

    def hear(self, message):
        return str(message.message) in self.texts


def without_warnings(said, function):
    """The function, or one that does not say this again."""

    @functools.wraps(function, updated=())
    def quiet(*args):
        with WarnedBefore(said):
            return function(*args)

    return quiet if said else function
