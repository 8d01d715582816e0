"""The guard check as a program for `_guards.c`: what Python would ask line by line, in C.

Goes in: guards in the order in which they are to be asked, and the tensors that were there during capture.
Comes out: a `_guards.Program`.  Kinds without an operation of their own are asked by the Python of their row in
GUARD_KINDS; all tensors are compared at once, by PyTorch's own `TensorGuards` (which also sees that they are distinct).
Mirrors `torch/_dynamo/guards.py` (GuardBuilder).  Taught in chapter 04.
"""

import torch

from . import _guards
from .guard_checks import ambient_state, no_global_hooks
from .source import AttrSource, CallSource, ConstantSource, FunctionSource, GlobalSource, ItemSource, LocalSource

DIRECT = {  # kind of guard -> operation on the value and what is expected
    "type": _guards.TYPE,
    "is": _guards.IS,
    "length": _guards.LENGTH,
    "has_key": _guards.HAS_KEY,
    "lacks_key": _guards.LACKS_KEY,
    "lacks_attribute": _guards.LACKS_ATTRIBUTE,
    "plain_call": _guards.PLAIN_CALL,
}
SMALL = {int: _guards.EQUALS, str: _guards.EQUALS, bool: _guards.IS, type(None): _guards.IS}


def ambient_is(expected):
    return ambient_state() == expected


class ProgramWriter:
    """Registers are ("argument", k), ("constant", k) and ("found", k) until all are known."""

    def __init__(self, arguments, namespace, rows, examples):
        self.arguments = {name: ("argument", k) for k, name in enumerate(arguments, 1)}
        self.namespace, self.rows, self.examples = namespace, rows, examples
        self.constants, self.constant_at = [], {}  # values, and their places by id
        self.steps, self.found = [], {}  # (operation, source, target, operand, registers); source -> register

    # --- registers ----------------------------------------------------------------------------------
    def constant(self, value):
        place = self.constant_at.setdefault(id(value), len(self.constants))
        if place == len(self.constants):
            self.constants.append(value)
        return "constant", place

    def read(self, key, operation, source, operand=None, registers=()):
        """A new register for what a reading step finds, remembered under `key`."""
        self.found[key] = target = "found", len(self.found)
        self.steps.append((operation, source, target, operand, tuple(registers)))
        return target

    def value(self, source):
        """The register that holds the value at `source`, reading it first if need be."""
        if source in self.found:
            return self.found[source]
        if isinstance(source, LocalSource):
            return self.arguments[source.local]
        if isinstance(source, FunctionSource):
            return "argument", 0
        if isinstance(source, ConstantSource):
            return self.constant(source.value)
        parent = self.value(source.parent) if source.parent is not None else ("argument", 0)
        if isinstance(source, AttrSource):
            return self.read(source, _guards.ATTRIBUTE, parent, source.attribute)
        if isinstance(source, ItemSource):
            return self.read(source, _guards.ITEM, parent, source.key)
        if isinstance(source, GlobalSource):
            namespace = self.value(AttrSource(FunctionSource(), "__globals__"))
            return self.read(source, _guards.ITEM, namespace, source.global_name)
        if isinstance(source, CallSource):
            registers = [parent, *map(self.constant, source.arguments)]
            return self.read(source, _guards.CALL, parent, source.function, registers)
        return self.read(
            source, _guards.CALL, parent, self.python("__function", source.expression("__function")), [parent]
        )

    def python(self, parameters, text):
        return eval(f"lambda {parameters}: {text}", self.namespace)

    # --- questions ----------------------------------------------------------------------------------
    def check(self, operation, source, operand):
        self.steps.append((operation, source, ("argument", 0), operand, ()))

    def ask(self, function, registers):
        self.steps.append((_guards.ASK, ("argument", 0), ("argument", 0), function, tuple(registers)))

    def add(self, guard):
        if guard.kind == "shape":
            names = [f"v{k}" for k in range(len(guard.sources))]
            function = self.python(", ".join(names), guard.code.format(*names))
            return self.ask(function, map(self.value, guard.sources))
        if guard.kind == "alias":
            first, *others = map(self.value, guard.sources)
            if guard.same:
                return [self.ask(self.python("a, b", "a is b"), (first, other)) for other in others]
            return self.ask(self.namespace["all_distinct"], (first, *others))
        value, expected = self.value(guard.source), guard.expected
        if guard.kind == "equals" and type(expected) in SMALL:
            self.check(SMALL[type(expected)], value, expected)
        elif guard.kind in DIRECT:
            self.check(DIRECT[guard.kind], value, expected)
        elif guard.kind != "present":
            self.ask(
                self.python("s, e", self.rows[guard.kind].code.format(s="s", e="e")), (value, self.constant(expected))
            )

    def add_tensors(self, guards):
        """Those whose tensors are at hand in one question, the rest one by one.  Returns the sources of the former."""
        together = [g for g in guards if g.source in self.examples]
        for guard in guards:
            if guard.source not in self.examples:
                self.add(guard)
        if together:
            sizes, strides = ([list(g.expected[place]) for g in together] for place in (2, 3))
            tensors = [self.examples[g.source] for g in together]
            same = torch._C._dynamo.guards.TensorGuards(
                *tensors, dynamic_dims_sizes=sizes, dynamic_dims_strides=strides
            )
            self.ask(same.check, [self.value(g.source) for g in together])
        return {g.source for g in together}

    def finish(self):
        offsets = {"argument": 0, "constant": 1 + len(self.arguments)}
        offsets["found"] = offsets["constant"] + len(self.constants)

        def number(register):
            return offsets[register[0]] + register[1]

        steps = [
            (operation, number(source), number(target), operand, tuple(map(number, registers)))
            for operation, source, target, operand, registers in self.steps
        ]
        count = offsets["found"] + len(self.found)
        return _guards.Program(steps, tuple(self.constants), 1 + len(self.arguments), count)


def guard_program(guard_set, guards, arguments, namespace, rows, examples):
    """guards: in the order of asking.  rows: GUARD_KINDS.  examples: source -> the tensor during capture."""
    writer = ProgramWriter(arguments, namespace, rows, examples)
    writer.ask(ambient_is, [writer.constant(guard_set.ambient)])
    if guard_set.global_hooks:
        writer.ask(no_global_hooks, [])
    tensors = [g for g in guards if g.kind == "tensor"]
    for guard in guards:
        if guard.kind not in ("tensor", "alias", "shape"):
            writer.add(guard)
    distinct = writer.add_tensors(tensors)
    for guard in guards:
        if guard.kind == "shape" or (guard.kind == "alias" and (guard.same or not distinct.issuperset(guard.sources))):
            writer.add(guard)
    return writer.finish()
