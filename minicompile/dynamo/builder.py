"""Which VariableTracker stands for an existing Python value: a registry by type.

Goes in: a value and the `Source` that it was read from.  Comes out: its one tracker, guarded as far as it was looked
at. Mirrors `torch/_dynamo/variables/builder.py` (a 3,000-line if-chain there).  Taught in chapter 03.

A family of values registers its own wrapper beside its tracker class:

    @wraps(list)
    def wrap_list(output, value, source): ...

`source is None` means that capture itself made the value (or that it is a constant of the code): nothing is guarded.
"""

import importlib
import pkgutil

from . import variables
from .variables.varying import can_vary, wrap_varying

WRAPPERS = {}  # exact type -> wrapper
PREDICATES = []  # (predicate on the value, wrapper), asked in order after the exact types


def wraps(*types):
    """Register a wrapper for these exact types."""

    def register(wrapper):
        for cls in types:
            assert cls not in WRAPPERS, cls
            WRAPPERS[cls] = wrapper
        return wrapper

    return register


def wraps_if(predicate, order=50):
    """Register a wrapper for values that satisfy `predicate`; lower `order` is asked first, 100 is the catch-all."""

    def register(wrapper):
        PREDICATES.append((order, len(PREDICATES), predicate, wrapper))
        PREDICATES.sort(key=lambda row: row[:2])
        return wrapper

    return register


def guarded(kind, variable_class):
    """A wrapper that guards the value itself ("is" or "equals") and makes a tracker of this class of it."""

    def wrapper(output, value, source):
        output.guard(kind, source, value)
        return variable_class(value, source)

    return wrapper


def load_all():
    """Import every file of `variables/` once, so that each family has registered its wrappers."""
    for module in pkgutil.iter_modules(variables.__path__):
        importlib.import_module(f"{variables.__name__}.{module.name}")


def wrap(output, value, source):
    """The tracker of `value`; one mutable object has one tracker, and reaching it by a second path is guarded."""
    known = output.known(value)
    if known is not None:
        before = output.path_to(value)
        if source is not None and before is not None and before != source:
            output.guards.add_alias((before, source), same=True, user_location=output.user_location)
        return known
    wrapper = find_wrapper(value)
    if source in output.varying and can_vary(value) and not output.sizes.is_changing(value, source):
        wrapper = wrap_varying
    tracker = wrapper(output, value, source)
    if tracker.source is not None and not tracker.is_immutable():  # also one that is reached without a path
        output.remember(value, tracker, source)
    return tracker


def find_wrapper(value):
    wrapper = WRAPPERS.get(type(value))
    if wrapper is not None:
        return wrapper
    if type.__dict__["__mro__"].__get__(type(value)) is None:  # 3.11's code iterators: asking an ABC of them crashes
        object.__getattribute__(value, "__class__")  # CPython completes a class when an attribute is read
    return next(candidate for _, _, predicate, candidate in PREDICATES if predicate(value))  # the last takes anything
