"""Marks that a user puts on functions or calls inside them: `disable`, `graph_break`, `allow_in_graph`, ...

Goes in: a function.  Comes out: the function, or one that runs outside capture.  What the marks do to capture is in
variables/marks.py.  Mirrors `torch/_dynamo/decorators.py`.  Taught in chapter 05.
"""

import functools
import inspect
import weakref

import torch

from . import _eval_frame

ALLOWED = {}  # id of a callable -> weak reference to it


def disable(fn=None, recursive=True, *, reason=None):
    """Never capture `fn` (a function, method, class or nn.Module), nor (with `recursive`) what it calls.

    Works as `disable(fn)`, `@disable` and `@disable(recursive=False)`.  reason: for the reader.
    """
    if fn is None:
        return functools.partial(disable, recursive=recursive, reason=reason)
    if isinstance(fn, torch.nn.Module):
        fn.forward = disable(fn.forward, recursive)
        return fn
    if inspect.isclass(fn):
        for name in ("__init__", "__call__") if issubclass(fn, torch.nn.Module) else ("__init__",):
            setattr(fn, name, disable(getattr(fn, name), recursive))
        return fn
    if not recursive and hasattr(fn, "__code__"):
        _eval_frame.skip(fn.__code__)

    @functools.wraps(fn)
    def disabled(*args, **kwargs):
        return _eval_frame.call(None, fn, *args, **kwargs) if recursive else fn(*args, **kwargs)

    disabled._minicompile_disabled = True
    return disabled


@disable
def graph_break(msg=""):
    """Break the graph here.  Does nothing outside a compiled region."""


def allow_in_graph(fn):
    """Put calls of `fn` (a callable, or a list of such) into the graph as they are: it is traced by the backend only.

    It must take and return tensors and constants, and do nothing else.
    """
    if isinstance(fn, (list, tuple)):
        return [allow_in_graph(each) for each in fn]
    if not callable(fn):
        raise TypeError(f"allow_in_graph() takes a callable, not {type(fn).__name__}")
    key = id(fn)
    ALLOWED[key] = weakref.ref(fn, lambda _: ALLOWED.pop(key, None))
    return fn


def assume_constant_result(fn):
    """Call `fn` once, during capture, and take its result for constant from then on.  Nothing checks that it is."""
    fn._dynamo_marked_constant = True  # torch.compile reads the same mark
    return fn


# --- sizes: torch.compile reads the same marks ----------------------------------------------------------
def mark_dynamic(tensor, index):
    """Capture these dimensions (an int or several) with symbolic sizes from the first call on.

    A program that needs such a size to be one number raises errors.ConstraintViolated when it is captured.
    """
    _mark(tensor, "_dynamo_dynamic_indices", index)


def maybe_mark_dynamic(tensor, index):
    """As mark_dynamic, but a program that needs one number gets a graph for that number."""
    _mark(tensor, "_dynamo_weak_dynamic_indices", index)


def mark_static(tensor, index=None):
    """Never capture these dimensions (all of them by default) with symbolic sizes."""
    _mark(tensor, "_dynamo_static_indices", range(tensor.dim()) if index is None else index)


def _mark(tensor, name, index):
    known = getattr(tensor, name, set())
    setattr(tensor, name, known | {index} if isinstance(index, int) else known | set(index))
