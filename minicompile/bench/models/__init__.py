"""The model zoo: one registry of everything that the end-to-end tests check and the benchmark times.

Goes in: a name.  Comes out: `ZOO[name]`, an `Entry` that builds the model and a batch for it, the same every time.
Mirrors `benchmarks/dynamo/` in the PyTorch repository.  Taught in chapter 16.
"""

from . import gpt, huggingface, sequence, vision
from .registry import SIZES, Batch, Entry

ZOO = {entry.name: entry for family in (gpt, vision, sequence, huggingface) for entry in family.ENTRIES}

__all__ = ["SIZES", "ZOO", "Batch", "Entry"]
