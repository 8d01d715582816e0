"""Closure cells.

Goes in: a cell that exists, or one that capture makes for a nested function.  Comes out: its contents, and their
replay. Mirrors `torch/_dynamo/variables/misc.py` (CellVariable).  Taught in chapter 06.
"""

import types

from ..builder import wraps
from ..source import AttrSource, CallSource
from .base import VariableTracker


class CellVariable(VariableTracker):
    """A closure cell.  `frame_name`: its name in the compiled frame itself, where STORE_DEREF reaches it."""

    cls = types.CellType
    has_identity = True

    def __init__(self, contents=None, source=None, frame_name=None, place=None):
        """place: the source of a cell that exists already."""
        super().__init__(source)
        self.contents, self.frame_name, self.place = contents, frame_name, place or source

    def load(self, tx):
        """The tracker in the cell, or None while it is empty."""
        pending = tx.side_effects.load_cell(self)
        if pending is None:
            if self.contents is None and self.place is not None:
                tx.guard("equals", CallSource(self.place, is_empty), True)
            return self.contents
        return None if pending is tx.side_effects.DELETED else pending

    def var_getattr(self, tx, name):
        if name != "cell_contents":
            return super().var_getattr(tx, name)
        contents = self.load(tx)
        if contents is None:
            tx.raise_observed(ValueError, "Cell is empty")
        return contents

    def reconstruct(self, codegen):
        if self.frame_name is not None:
            return codegen.emit("LOAD_CLOSURE", self.frame_name)
        codegen.call(types.CellType)

    def replay_attributes(self, codegen, pending):
        for value in pending.values():
            deleted = value is codegen.side_effects.DELETED
            if self.frame_name is None:
                codegen.write_attribute(self, "cell_contents", value)
            elif deleted:
                if self.contents is not None:  # else it was set and deleted again
                    codegen.emit("DELETE_DEREF", self.frame_name)
            else:
                codegen(value)
                codegen.emit("STORE_DEREF", self.frame_name)


def is_empty(cell):
    try:
        cell.cell_contents  # noqa: B018 (reading it is the question)
    except ValueError:
        return True
    return False


def cell_contents(output, cell, source):
    """A lazy tracker of what is in an existing cell; None while it is empty."""
    try:
        return output.lazy(cell.cell_contents, AttrSource(source, "cell_contents"))
    except ValueError:
        return None


@wraps(types.CellType)
def wrap_cell(output, value, source):
    return CellVariable(cell_contents(output, value, source), source)
