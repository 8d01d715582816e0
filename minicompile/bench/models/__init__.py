"""The model zoo: one registry of everything that the end-to-end tests check and the benchmark times.

Goes in: a name.  Comes out: `ZOO[name]`, an `Entry` that builds the model and a batch for it, the same every time.
`MODELS` has those of `timm` and more of `transformers` too, where these are installed; the benchmark times them.
Mirrors `benchmarks/dynamo/` in the PyTorch repository.  Taught in chapter 16.
"""

from . import gpt, huggingface, sequence, small, vision
from .further import FURTHER
from .registry import SIZES, Batch, Entry

ZOO = {entry.name: entry for family in (gpt, vision, sequence, small, huggingface) for entry in family.ENTRIES}
MODELS = {**ZOO, **FURTHER}

__all__ = ["MODELS", "SIZES", "ZOO", "Batch", "Entry"]
