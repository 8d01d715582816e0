"""Exception groups, and what `except*` does with them.

Goes in: `ExceptionGroup(message, exceptions)` made by the program, raised and taken apart.  Comes out: the groups of
what matches and of the rest.  Subclasses of a user's, and groups that exist already, break the graph.
Mirrors `torch/_dynamo/variables/misc.py` (ExceptionVariable).  Taught in chapter 06.
"""

from .base import unsupported
from .descriptors import type_lookup
from .exceptions import ExceptionVariable
from .questions import is_instance

CLASSES = (BaseExceptionGroup, ExceptionGroup)


class ExceptionGroupVariable(ExceptionVariable):
    """`args`: message and exceptions, as they were given; `exceptions`: the trackers of these."""

    def __init__(self, cls, args, exceptions):
        super().__init__(cls, args)
        self.exceptions = exceptions

    def c_attribute(self, tx, found):
        parts = {"exceptions": lambda: tx.build_tuple(self.exceptions), "message": lambda: self.args[0]}
        return parts[found.name]() if found.name in parts else super().c_attribute(tx, found)

    def call_descriptor(self, tx, descriptor, args, kwargs):
        handler = METHODS.get(descriptor.__name__)
        if handler is None or descriptor.__objclass__ is not BaseExceptionGroup:
            return super().call_descriptor(tx, descriptor, args, kwargs)
        return handler(self, tx, *args, **kwargs)

    def text(self, tx, descriptor):
        unsupported("method written in C", f"`{descriptor.__qualname__}` of {self}")

    def derive(self, tx, exceptions):
        return tx.call(BaseExceptionGroup, self.args[0], exceptions)

    def parts(self, tx, condition):
        """(the group of those of its leaves that match, that of the others); None for an empty one."""
        condition = condition.realize()
        if not issubclass(condition.python_type(), (type, tuple)):
            unsupported("function written in C", "exceptions of a group are chosen by a function")
        if tx.truth(is_instance(tx, self, condition)):
            return self, None
        matching, others = [], []
        for exception in self.exceptions:
            if isinstance(exception, ExceptionGroupVariable):
                match, rest = exception.parts(tx, condition)
            else:
                matches = tx.truth(is_instance(tx, exception, condition))
                match, rest = (exception, None) if matches else (None, exception)
            matching += [] if match is None else [match]
            others += [] if rest is None else [rest]
        return self.subset(tx, matching), self.subset(tx, others)

    def subset(self, tx, exceptions):
        """A group of some of the exceptions, with what is known of how this one came about."""
        if not exceptions:
            return None
        made = self.derive(tx, tx.build_list(exceptions)).realize()
        made.frames = list(self.frames)
        for name in ("__context__", "__cause__", "__notes__"):
            noted = tx.side_effects.load_attr(self, name)
            if noted is not None:
                tx.side_effects.store_attr(made, name, tx.call(list, noted) if name == "__notes__" else noted)
        tx.side_effects.store_attr(made, "__suppress_context__", tx.build(True))  # setting a cause does so, even None
        return made

    def split(self, tx, condition):
        match, rest = self.parts(tx, condition)
        return tx.build_tuple([match or tx.build(None), rest or tx.build(None)])

    def subgroup(self, tx, condition):
        return self.parts(tx, condition)[0] or tx.build(None)


METHODS = {name: getattr(ExceptionGroupVariable, name) for name in ("derive", "split", "subgroup")}


def new_group(tx, cls, args):
    """`BaseExceptionGroup.__new__(cls, message, exceptions)`."""
    if cls not in CLASSES:
        unsupported("class written in C", f"a {cls.__name__} says by itself what it is split into")
    exceptions = [e.realize() for e in args[1].unpack(tx)] if are_message_and_sequence(args) else []
    classes = [e.python_type() for e in exceptions]
    if not exceptions or not all(issubclass(kind, BaseException) for kind in classes):
        unsupported("class written in C", f"{cls.__name__} refuses its arguments")
    if all(issubclass(kind, Exception) for kind in classes):
        cls = ExceptionGroup
    elif cls is ExceptionGroup:
        unsupported("class written in C", f"{cls.__name__} refuses its arguments")
    group = ExceptionGroupVariable(cls, args, exceptions)
    tx.side_effects.new_object(group)
    return group


def are_message_and_sequence(args):
    kinds = [argument.python_type() for argument in args]
    if len(kinds) != 2 or not issubclass(kinds[0], str) or issubclass(kinds[1], dict) or args[1].is_python_constant():
        return False
    return type_lookup(kinds[1], "__getitem__") is not None


def match_group(tx, exception, wanted):
    """What `except* wanted` catches of the exception, and what it leaves; None for nothing."""
    classes = wanted.unpack(tx) if issubclass(wanted.python_type(), tuple) else [wanted]
    for cls in (c.as_python_constant() for c in classes):
        if not isinstance(cls, type) or not issubclass(cls, BaseException) or issubclass(cls, BaseExceptionGroup):
            unsupported("instruction not captured", "`except*` of what it cannot catch")
    if isinstance(exception, ExceptionGroupVariable):
        return exception.parts(tx, wanted)
    if issubclass(exception.python_type(), BaseExceptionGroup):
        unsupported("instruction not captured", "`except*` of a group that exists already")
    if not tx.truth(is_instance(tx, exception, wanted)):
        return None, exception
    group = tx.call(BaseExceptionGroup, tx.build(""), tx.build_tuple([exception])).realize()
    group.frames = list(exception.frames)
    return group, None
