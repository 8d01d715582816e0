"""Guards: the facts that a compiled frame relies on, checked before each reuse.

Goes in: `add(kind, source, expected)` wherever capture looked at something.
Comes out: one Python function `guard(function, *arguments) -> bool`, its readable form, and, when it fails, the first
guard that does not hold, with the old and the new value.
Mirrors `torch/_dynamo/guards.py`.  Taught in chapter 04.

A guard kind is one row in GUARD_KINDS.  Shared parents are read once: `self.layers` is one local of the guard function
however many guards lie below it.
"""

import dataclasses
import math
import os
import reprlib
import types

import torch

from .guard_checks import (
    AMBIENT_NAMES,
    Frozen,
    KeyOfType,
    all_distinct,
    ambient_state,
    has_no_hooks,
    no_global_hooks,
    same_constant,
    same_elements,
    same_keys,
    slot_is_unset,
    spelled,
    tensor_matches,
    tensor_properties,
)
from .guard_program import guard_program
from .guard_reports import KEEP, MENDS, GuardFailure, tensor_difference
from .skip_files import attributes_of
from .source import ConstantSource, LocalSource, ModuleEntrySource, Source, argument_name, path_of


@dataclasses.dataclass(frozen=True)
class GuardKind:
    """`code` is Python with `{s}` for the value and `{e}` for the expected one; `text` is what a user reads.

    `cost` orders the checks, cheapest first.  `show` maps the value to what a failure report prints.
    """

    code: str
    text: str
    cost: int = 1
    show: object = staticmethod(lambda value: value)


PLAIN_CALL = """not ((d := attributes_of({s}))["_forward_hooks"] or d["_forward_pre_hooks"] or d["_backward_hooks"]
        or d["_backward_pre_hooks"] or "forward" in d or "_call_impl" in d or "_compiled_call_impl" in d)"""
GUARD_KINDS = {
    "type": GuardKind("type({s}) is {e}", "type({n}) is {t}", 1, type),
    "is": GuardKind("{s} is {e}", "{n} is {t}", 1),
    "equals": GuardKind("({s} is {e} or same_constant({s}, {e}))", "{n} == {r}", 2),
    "elements": GuardKind("same_elements({s}, {e})", "{n} == {t}", 4),
    "length": GuardKind("len({s}) == {e}", "len({n}) == {r}", 1, len),
    "keys": GuardKind("same_keys({s}, {e})", "list({n}) == {k}", 4, list),
    "has_key": GuardKind("{e} in {s}", "{r} in {n}", 2),
    "lacks_key": GuardKind("{e} not in {s}", "{r} not in {n}", 2),
    "lacks_attribute": GuardKind("{e} not in attributes_of({s})", "{r} not in {n}.__dict__", 2),
    "present": GuardKind("True", "{n} exists", 1),
    "class_lacks": GuardKind("not hasattr({s}, {e})", "not hasattr({n}, {r})", 2),
    "slot_unset": GuardKind("slot_is_unset({s}, {e})", "{t} is not set on {n}", 3),
    "code": GuardKind("{s}.__code__ is {e}", "{n}.__code__ is {t}", 2, lambda f: getattr(f, "__code__", f)),
    "no_hooks": GuardKind("has_no_hooks({s})", "{n} has no hooks", 3, lambda m: "some"),
    "plain_call": GuardKind(PLAIN_CALL, "{n} has no hooks and no forward of its own", 3, lambda m: "some"),
    "unwritten": GuardKind("{s}.unwritten() is {e}", "{n} are unwritten", 3, Frozen.written),
    "tensor": GuardKind("tensor_matches({s}, {e})", "{n} is {p}", 5, tensor_properties),
}
INLINE_VALUES = (int, bool, str, type(None))  # values that the generated code can spell


def is_spelled(value):
    return type(value) in INLINE_VALUES and not (type(value) is int and value.bit_length() > 64)


@dataclasses.dataclass
class Guard:
    """One fact: `kind` (a row of GUARD_KINDS) about the value at `source`, and the user's line that needed it."""

    kind: str
    source: Source
    expected: object
    user_location: str = ""

    def __str__(self):
        row, name = GUARD_KINDS[self.kind], self.source.name
        expected = self.expected
        title = (
            getattr(expected, "__qualname__", None)
            or (isinstance(expected, types.ModuleType) and f"<module {expected.__name__}>")
            or getattr(expected, "co_name", None)
            or spelled(expected, reprlib.repr)
        )
        keys = (
            [k if isinstance(k, INLINE_VALUES) else class_of_key(k).__name__ for k in expected]
            if self.kind == "keys"
            else ""
        )
        text = row.text.format(n=name, r=spelled(expected), t=title, k=keys, p=describe_tensor(expected, self.kind))
        return text

    def __repr__(self):
        return f"{self}  # {os.path.basename(self.user_location)}" if self.user_location else str(self)


def class_of_key(key):
    return key.cls if type(key) is KeyOfType else type(key)


def describe_tensor(expected, kind):
    """`float32[2, 3] stride (3, 1) on cpu, requires_grad=False`, from tensor_properties."""
    if kind != "tensor":
        return ""
    cls, dtype, shape, stride, requires_grad, _, device = expected
    return f"{cls.__name__} {str(dtype)[6:]}{list(shape)} stride {stride} on {device}, requires_grad={requires_grad}"


@dataclasses.dataclass
class AliasGuard:
    """Two sources are one tensor (`same`), or all of these sources are different tensors."""

    sources: tuple
    same: bool
    user_location: str = ""
    kind = "alias"

    def __str__(self):
        if self.same:
            return " is ".join(s.name for s in self.sources)
        return f"{', '.join(s.name for s in self.sources)} are different tensors"

    __repr__ = __str__


@dataclasses.dataclass(frozen=True)
class ShapeGuard:
    """An assumption about symbolic sizes: a Python condition with `{0}`, `{1}`, ... for the values at `sources`.

    real: it is about floats.
    """

    code: str
    sources: tuple
    user_location: str = dataclasses.field(default="", compare=False)
    real: bool = False
    kind = "shape"

    def __str__(self):
        return self.code.format(*(source.name for source in self.sources))

    __repr__ = Guard.__repr__


def asking_order(guard):
    """Arguments first, the cheapest questions before others: what a model keeps changes less from call to call.

    The rest in capture's order: each path before those that go on from it, each object's facts together.
    """
    if guard.kind in GUARD_KINDS and isinstance(guard.source, LocalSource):
        return 0, GUARD_KINDS[guard.kind].cost
    return 2 if guard.kind in ("shape", "alias") else 1, 0


class GuardSet:
    """The guards of one compiled frame, in the order in which capture needed them."""

    def __init__(self, ambient):
        """ambient: the `ambient_state()` in which the frame was entered."""
        self.guards, self.ambient = {}, ambient
        self.global_hooks = False  # whether some module call relied on there being none

    def add(self, kind, source, expected=None, user_location=""):
        told_apart = hex if type(expected) is int else repr  # a huge number has no decimal text
        key = (kind, source, id(expected) if kind in ("is", "code", "type") else told_apart(expected))
        self.guards.setdefault(key, Guard(kind, source, expected, user_location))

    def add_alias(self, sources, same, user_location=""):
        self.guards.setdefault(("alias", sources, same), AliasGuard(sources, same, user_location))

    def include(self, other):
        """The guards of another attempt at this frame."""
        self.guards = {**other.guards, **self.guards}
        self.global_hooks |= other.global_hooks

    def add_shape(self, guard):
        self.guards.setdefault(guard, guard)

    def __iter__(self):
        return iter(self.guards.values())

    def __len__(self):
        return len(self.guards)

    def __repr__(self):
        lines = [f"{name} is {value}" for name, value in zip(AMBIENT_NAMES[:3], self.ambient)]
        return "\n".join(lines + [repr(g) for g in self])

    def build(self, code):
        """Compile the checks for frames of `code` into one function.  Returns a GuardFunction."""
        return GuardFunction(self, code)


class GuardFunction:
    """Callable as `guard(function, *arguments)`; keeps the Python text that it was made of."""

    def __init__(self, guard_set, code):
        self.guard_set = guard_set
        self.arguments = frame_arguments(code)
        self.writer = GuardWriter(code)
        ordered = sorted(guard_set, key=asking_order)
        self.source_text = self.writer.function_text(ordered, self.arguments, guard_set)
        self.finder = None  # the function that finds the first guard that fails, once it is needed
        self.check = guard_program(guard_set, ordered, self.arguments, self.writer.namespace, GUARD_KINDS)

    def failures(self, function, arguments):
        """The guards that do not hold."""
        failed, others = [], set()
        for guard in self.guard_set:
            sources = guard.sources if guard.kind in ("shape", "alias") else (guard.source,)
            if any(part in others for source in sources for part in path_of(source)):
                continue  # reading on from an object of another class, or for a key that is not there, may run its code
            if self._evaluate(guard, function, arguments) is not None:
                failed.append(guard)
                others |= {guard.source} if guard.kind in ("type", "keys", "has_key") else set()
        return failed

    def first_failure(self, function, arguments):
        """The GuardFailure of the first check that does not hold, in capture's order, or None."""
        for name, old, new in zip(AMBIENT_NAMES, self.guard_set.ambient, ambient_state()):
            if old != new:
                return GuardFailure(name, old, new, mend="enter that mode once, around all calls")
        guards = list(self.guard_set)
        if self.finder is None:
            writer = GuardWriter(self.writer.code)
            exec(compile(writer.finder_text(guards, self.arguments), "<guards>", "exec"), writer.namespace)
            self.finder = writer.namespace["first"]
        position = self.finder(function, *arguments)
        if position < len(guards):
            return self._evaluate(guards[position], function, arguments)
        if self.guard_set.global_hooks and not no_global_hooks():
            return GuardFailure("global module hooks", "none", "some")
        return None

    def _evaluate(self, guard, function, arguments):
        writer = GuardWriter(self.writer.code)
        text = writer.function_text([guard], self.arguments, None)
        exec(compile(text, "<guards>", "exec"), writer.namespace)
        if writer.namespace["guard"](function, *arguments):
            return None
        if guard.kind == "alias":
            states = ("one object", "different") if guard.same else ("different", "one object")
            return GuardFailure(str(guard), *states, guard.user_location)
        if guard.kind == "shape":
            return GuardFailure(str(guard), True, False, guard.user_location)
        reader = GuardWriter(self.writer.code)
        text = reader.value_text(guard.source, self.arguments)
        exec(compile(text, "<guards>", "exec"), reader.namespace)
        try:
            value = GUARD_KINDS[guard.kind].show(reader.namespace["value"](function, *arguments))
        except GUARD_READ_ERRORS as error:
            value = f"unreadable ({type(error).__name__})"
        if guard.kind == "tensor" and isinstance(value, tuple):
            return tensor_difference(guard, value)
        subject, mend = guard.source.name if guard.kind == "equals" else "", MENDS.get(guard.kind, KEEP)
        return GuardFailure(str(guard), guard.expected, value, guard.user_location, mend, subject)


QUESTIONS = (same_constant, same_elements, same_keys, tensor_matches, has_no_hooks, slot_is_unset, attributes_of)
QUESTIONS += (no_global_hooks, all_distinct, ambient_state)
GUARD_READ_ERRORS = (AttributeError, KeyError, IndexError, TypeError, ValueError, ArithmeticError)


def frame_arguments(code):
    """The argument names of a frame in the order of its first locals: positional, keyword-only, *args, **kwargs."""
    count = code.co_argcount + code.co_kwonlyargcount + bool(code.co_flags & 4) + bool(code.co_flags & 8)
    return code.co_varnames[:count]


class GuardWriter:
    """Writes the text of a guard function: one local for each source that is read, each parent before its child."""

    def __init__(self, code):
        self.code = code
        self.lines, self.read, self.bound = [], {}, {}
        self.namespace = {question.__name__: question for question in QUESTIONS}
        self.namespace |= {"math": math, "torch": torch, "GUARD_READ_ERRORS": GUARD_READ_ERRORS}
        self.namespace["__freevars"] = code.co_freevars

    def bind(self, value, hint):
        """The name of `value` in the guard function's globals."""
        key = id(value)
        if key not in self.bound:
            name = f"{hint}_{len(self.bound)}"
            self.bound[key] = name
            self.namespace[name] = value
        return self.bound[key]

    def spelled(self, value, hint):
        return repr(value) if is_spelled(value) else self.bind(value, hint)

    def value(self, source):
        """The local that holds the value at `source`, reading it first if need be."""
        if source not in self.read:
            if isinstance(source, ConstantSource):
                return self.bind(source.value, "object")
            parent = self.value(source.parent) if source.parent is not None else None
            expression = source.expression(parent)
            if expression is None:  # a CallSource
                arguments = "".join(f", {self.spelled(argument, 'argument')}" for argument in source.arguments)
                expression = f"{self.bind(source.function, 'function')}({parent}{arguments})"
            if isinstance(source, LocalSource):
                return expression
            if isinstance(source, ModuleEntrySource):
                module = self.value(source.parent.parent)
                self.lines.append(f"if {source.key!r} in attributes_of({module}): raise KeyError({source.key!r})")
            name = f"value_{len(self.read)}"
            self.read[source] = name
            self.lines.append(f"{name} = {expression}")
        return self.read[source]

    def condition(self, guard):
        if guard.kind == "shape":
            return guard.code.format(*map(self.value, guard.sources)).join("()")
        if guard.kind == "alias":
            values = [self.value(s) for s in guard.sources]
            return " is ".join(values) if guard.same else f"all_distinct({', '.join(values)})"
        subject, expected = self.value(guard.source), guard.expected
        spelled = self.spelled(expected, "expected")
        if guard.kind == "equals" and is_spelled(expected):
            if expected is None or isinstance(expected, bool):
                return f"{subject} is {spelled}"
            same = f"{subject} is {self.bind(expected, 'expected')}"  # what a model keeps is mostly the same object
            return f"({same} or type({subject}) is {type(expected).__name__} and {subject} == {spelled})"
        return GUARD_KINDS[guard.kind].code.format(s=subject, e=spelled)

    def function_text(self, guards, arguments, guard_set):
        for guard in guards:
            condition = self.condition(guard)
            self.lines.append(f"if not {condition}: return False")
        if guard_set is not None:
            self.lines.insert(0, f"if ambient_state() != {self.bind(guard_set.ambient, 'ambient')}: return False")
            if guard_set.global_hooks:
                self.lines.insert(1, "if not no_global_hooks(): return False")
        return self._definition("guard", arguments, "return True", "return False")

    def finder_text(self, guards, arguments):
        """A function that answers which of these guards is the first that does not hold; their number if all do."""
        for position, guard in enumerate(guards):
            self.lines.append(f"at = {position}")
            condition = self.condition(guard)
            self.lines.append(f"if not {condition}: return at")
        return self._definition("first", arguments, f"return {len(guards)}", "return at")

    def value_text(self, source, arguments):
        result = self.value(source)
        return self._definition("value", arguments, f"return {result}", "raise")

    def _definition(self, name, arguments, last, on_error):
        parameters = ", ".join(["__function", *map(argument_name, arguments)])
        body = "\n".join(f"        {line}" for line in [*self.lines, last])
        return f"def {name}({parameters}):\n    try:\n{body}\n    except GUARD_READ_ERRORS:\n        {on_error}\n"
