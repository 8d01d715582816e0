"""The first cell of every chapter: what runs here, and in one line what is missing.

Goes in: nothing.  Comes out: printed lines.  Mirrors `torch.utils.collect_env`.  Taught nowhere.
"""

import importlib.util
import platform
import shutil

import torch


def print_versions():
    """Python, torch, CPU threads; then one line for each thing that is missing and what happens without it."""
    print(f"Python {platform.python_version()}, torch {torch.__version__}, {torch.get_num_threads()} CPU threads")
    missing = []
    if not (shutil.which("g++") or shutil.which("clang++")):
        missing.append("no C++ compiler (install g++): kernels run through the ATen interpreter")
    if not shutil.which("dot") and importlib.util.find_spec("pygraphviz") is None:
        missing.append("no Graphviz (pip install pygraphviz): graphs appear as DOT text")
    if importlib.util.find_spec("triton") is None:
        missing.append("no Triton (pip install triton): chapters 12 and 13 need it")
    if not torch.cuda.is_available():
        missing.append("no GPU: GPU figures are recordings, with the machine's name")
    for line in missing:
        print("missing:", line)
