"""Marks that a user puts on functions or calls inside them: `disable`, `graph_break`.

Goes in: a function.  Comes out: the function, run outside capture.  Mirrors `torch/_dynamo/decorators.py`.
Taught in chapter 05.
"""

import functools

import torch

from .eval_frame import run_disabled


def disable(fn=None, recursive=True):
    """Never capture `fn` (a function, method or nn.Module), nor (with `recursive`) what it calls.

    Works as `disable(fn)`, `@disable` and `@disable(recursive=False)`.
    """
    if fn is None:
        return functools.partial(disable, recursive=recursive)
    if isinstance(fn, torch.nn.Module):
        fn.forward = disable(fn.forward, recursive)
        return fn

    @functools.wraps(fn)
    def disabled(*args, **kwargs):
        return run_disabled(fn, args, kwargs) if recursive else fn(*args, **kwargs)

    disabled._minicompile_disabled = True
    return disabled


@disable
def graph_break(msg=""):
    """Break the graph here.  Does nothing outside a compiled region."""
