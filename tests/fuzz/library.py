"""What random programs use, part five: modules of the standard library, NumPy, a module with branches, recursion."""

# ruff: noqa: F401 (imported for the programs)

import array
import datetime
import decimal
import fractions
import io
import json
import numbers
import random
import statistics
import string
import struct
import sys
import textwrap
import threading
import traceback
import typing

import numpy as np
import torch

__all__ = (
    "array datetime decimal fractions io json numbers random statistics string struct sys textwrap threading traceback "
    "typing np nest Branch"
).split()
PLAIN = (fractions.Fraction, decimal.Decimal, datetime.date, datetime.timedelta, array.array, np.ndarray, np.generic)


def nest(x, depth):
    """Calls itself around an operation."""
    return nest(x * 2, depth - 1) + depth if depth > 0 else x


class Branch(torch.nn.Module):
    """Takes another way by a number, and remembers it."""

    def __init__(self, way=0):
        super().__init__()
        self.way, self.taken = way, []
        self.ways = torch.nn.ModuleDict({"odd": torch.nn.ReLU(), "even": torch.nn.Identity()})

    def forward(self, x):
        name = "odd" if self.way % 2 else "even"
        self.taken.append(name)
        return self.ways[name](x) + len(self.taken)
