"""When objects die: which deaths a program hears of, and who lets go of such an object during capture.

Goes in: existing values, and what capture knows of their owners.  Comes out: a break in front of the instruction at
which an object goes whose death the program hears of: its `__del__`, or the callback of a weak reference, is to run
right then, and not when the graph has ended.  Taught in chapter 05.
"""

import collections
import gc
import inspect
import itertools
import sys
import types
import weakref

import torch

from .nested_breaks import may_be_missed
from .skip_files import attributes_of, held_by
from .variables.base import LazyVariable, can_change, unsupported
from .variables.cells import CellVariable, is_empty
from .variables.descriptors import type_lookup
from .variables.instance_dict import DictEntry

SHARED = (type, torch.Tensor, types.ModuleType, types.FrameType, types.CodeType)  # others hold them, or what they hold
CALLBACK_OF = weakref.ref.__callback__.__get__
CONTAINERS = (list, set, frozenset, collections.deque, dict, collections.OrderedDict, collections.defaultdict)
LOOKED_AT = 1000  # parts of a value, at most


def has_finalizer(value):
    """Whether code of the program may run when the value dies, or one that it holds."""
    if not may_be_missed(value):
        return False
    todo, seen = collections.deque([value]), set()
    while todo and len(seen) < LOOKED_AT:
        part = todo.popleft()
        if part is not value and is_held_by_name(part):  # the value's owner may be the one that holds it by name
            continue
        if type_lookup(type(part), "__del__") or has_callback(part):
            return True
        if id(part) not in seen:
            seen.add(id(part))
            todo.extend(itertools.islice(parts_of(part), LOOKED_AT))
    return False


def is_held_by_name(value):
    """Whether it is a function or method that its module or class holds: it outlives what else held it."""
    if type(value) is not types.FunctionType:
        return False
    found = sys.modules.get(value.__module__) if type(value.__module__) is str else None
    for name in value.__qualname__.split("."):
        found = inspect.getattr_static(found, name, None)
    return value is (found.__func__ if type(found) in (staticmethod, classmethod) else found)


def parts_of(value):
    """What a value may be the only one to hold."""
    cls = type(value)
    if any(cls is kind for kind in CONTAINERS):  # `is`: a metaclass may compare
        # the dict itself: an OrderedDict's order may name keys that it has not
        return itertools.chain(dict.keys(value), dict.values(value)) if issubclass(cls, dict) else value
    if issubclass(cls, types.FunctionType):
        cells = [cell.cell_contents for cell in value.__closure__ or () if not is_empty(cell)]
        return [*cells, value.__defaults__, value.__kwdefaults__, attributes_of(value)]
    if issubclass(cls, SHARED):
        return ()
    # Of a tuple too: one that belongs to an iterator may have holes, and only the collector knows how to pass them.
    return held_by(value) if can_change(cls) else gc.get_referents(value)


def has_callback(value):
    """Whether a weak reference tells the program of the value's death.  Those to tensors and code are not its own."""
    references = () if issubclass(type(value), SHARED) else weakref.getweakrefs(value)
    return any(not isinstance(r, weakref.ref) or is_heard(CALLBACK_OF(r)) for r in references)  # a proxy hides it


def is_heard(callback):
    """Not one of torch.compile's, which counts the modules that it met."""
    of_torch_compile = type(callback) is types.FunctionType and callback.__module__ == "torch._dynamo.utils"
    return callback is not None and not of_torch_compile


def refuse_drop(value, name, following=None):
    """The owner of a value lets go of it; following: the tracker of what is in its place then."""
    if has_finalizer(value) and getattr(following, "value", None) is not value:
        unsupported("object with a finalizer", f"`{name}` goes, an object whose death the program hears of")


def refuse_drop_of(tracker):
    if is_existing(tracker) and not getattr(same(tracker), "finished", False):  # a generator with nothing left to do
        refuse_drop(tracker.value, tracker.source.name)


def is_existing(tracker):
    return getattr(tracker, "source", None) is not None and hasattr(tracker, "value")


def is_mortal(tracker):
    """Whether it stands for an existing value whose death the program hears of."""
    return is_existing(tracker) and has_finalizer(tracker.value)


def refuse_overwriting(owner, name, following):
    """An attribute of an existing object, or the contents of a cell, becomes another one."""
    if isinstance(owner, CellVariable):
        return refuse_drop_of(owner.contents)
    value = getattr(owner, "value", None)
    found = type_lookup(type(value), name)
    if found is not None and isinstance(found.attribute, types.MemberDescriptorType):
        try:
            refuse_drop(found.attribute.__get__(value), name, following)
        except AttributeError:
            return  # it is not set
    elif (entry := name.name if isinstance(name, DictEntry) else name) in (attributes := attributes_of(value)):
        refuse_drop(attributes[entry], entry, following)


class StackArguments:
    """The values on the stack of a resume function, which nobody else holds, and whose death the program hears of."""

    def __init__(self, arguments):
        self.waiting = [t for name, t in arguments.items() if name.startswith("__stack_") and is_mortal(t)]
        self.waiting = [t for t in self.waiting if sys.getrefcount(t.value) <= OWN_REFERENCES]
        self.pushed = []

    def refuse_lost(self, frame):
        """After each instruction, which may have taken one from the stack."""
        held = set()
        while frame is not None:
            held.update(map(same, (*frame.stack, *frame.locals.values(), frame.return_value, frame.yielded)))
            frame = frame.parent
        for tracker in self.pushed:
            if same(tracker) not in held:
                refuse_drop_of(tracker)
        self.pushed = [tracker for tracker in self.waiting if same(tracker) in held]


OWN_REFERENCES = 5  # to an argument, of frame, hook and capture


def same(tracker):
    """The one tracker of a value that was looked at."""
    return tracker.variable if isinstance(tracker, LazyVariable) and tracker.variable is not None else tracker
