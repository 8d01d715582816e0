"""The guard check as a program for `_guards.cpp`: what Python would ask line by line, in C++.

Goes in: guards in the order in which they are to be asked.  Comes out: a `_guards.Program`.
A value that many guards need (`self`, `self.layers`, its dict of modules) is read once, before the first that needs it.
Kinds without an operation of their own are asked by the Python of their row in GUARD_KINDS.
Mirrors `torch/_dynamo/guards.py` (GuardBuilder).  Taught in chapter 04.
"""

import collections
import inspect
import operator

from . import _guards
from .guard_checks import GLOBAL_HOOKS, KeyOfType
from .guard_conditions import condition_program, names_of
from .source import (
    AttrSource,
    CallSource,
    CellSource,
    ConstantSource,
    FunctionSource,
    GlobalSource,
    ItemSource,
    LocalSource,
    ModuleEntrySource,
    SizeSource,
)

DIRECT = {  # kind of guard -> operation on the value and what is expected
    "type": _guards.TYPE,
    "is": _guards.IS,
    "equals": _guards.EQUALS,
    "length": _guards.LENGTH,
    "keys": _guards.KEYS,
    "has_key": _guards.HAS_KEY,
    "lacks_key": _guards.LACKS_KEY,
    "lacks_attribute": _guards.LACKS_ATTRIBUTE,
    "class_lacks": _guards.CLASS_LACKS,
    "tensor": _guards.TENSOR,
}
LACKED = {
    "no_hooks": ("_call_impl", "_compiled_call_impl"),
    "plain_call": ("forward", "_call_impl", "_compiled_call_impl"),
}
SIZES = {"shape": _guards.SIZE, "stride": _guards.STRIDE, "storage_offset": _guards.STORAGE_OFFSET}


def compared_in_cpp(expected):
    """Whether C++ says of such a constant, or of such keys, what `same_constant` or `same_keys` says."""
    if type(expected) is KeyOfType:
        return False
    if isinstance(expected, (tuple, list)):
        return all(map(compared_in_cpp, expected))
    return not isinstance(expected, (set, frozenset, dict))


class ProgramWriter:
    """Registers are ("argument", k), ("constant", k) and ("found", k) until all are known."""

    def __init__(self, arguments, namespace, rows):
        self.arguments = {name: ("argument", k) for k, name in enumerate(arguments, 1)}
        self.namespace, self.rows = namespace, rows
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
            return self.arguments[source.name]
        if isinstance(source, FunctionSource):
            return "argument", 0
        if isinstance(source, ConstantSource):
            return self.constant(source.value)
        if isinstance(source, GlobalSource):
            namespace = self.value(AttrSource(FunctionSource(), "__globals__"))
            return self.read(source, _guards.ITEM, namespace, source.name)
        if isinstance(source, CellSource):
            place = self.namespace["__freevars"].index(source.name)
            cell = self.value(ItemSource(AttrSource(FunctionSource(), "__closure__"), place))
            return self.read(source, _guards.ATTRIBUTE, cell, "cell_contents")
        parent = self.value(source.parent)
        if isinstance(source, AttrSource):
            operation = _guards.FUNCTION_PART if source.attribute in _guards.FUNCTION_PARTS else _guards.ATTRIBUTE
            return self.read(source, operation, parent, source.attribute)
        if isinstance(source, ItemSource):
            if isinstance(source, ModuleEntrySource):
                self.check(_guards.LACKS_ATTRIBUTE, self.value(source.parent.parent), source.key)
            return self.read(source, _guards.ITEM, parent, source.key)
        if isinstance(source, SizeSource):
            return self.read(source, SIZES[source.kind], parent, source.index)
        assert isinstance(source, CallSource)
        if source.function is type:
            return self.read(source, _guards.CLASS, parent)
        if source.function is operator.call and isinstance(source.parent, ConstantSource):
            return self.read(source, _guards.CALL, parent, source.parent.value)
        registers = [parent, *map(self.constant, source.arguments)]
        return self.read(source, _guards.CALL, parent, source.function, registers)

    def python(self, parameters, text):
        return eval(f"lambda {parameters}: {text}", self.namespace)

    # --- questions ----------------------------------------------------------------------------------
    def check(self, operation, value, operand=None, other=("argument", 0), registers=()):
        self.steps.append((operation, value, other, operand, tuple(registers)))

    def ask(self, function, registers):
        self.check(_guards.ASK, ("argument", 0), function, registers=registers)

    def add(self, guard):
        """A question about the value at one source."""
        if guard.kind == "present":
            return self.value(guard.source)
        if guard.kind == "code":
            return self.check(_guards.IS, self.value(AttrSource(guard.source, "__code__")), guard.expected)
        value, expected = self.value(guard.source), guard.expected
        if guard.kind in LACKED:
            for name in LACKED[guard.kind]:
                self.check(_guards.LACKS_ATTRIBUTE, value, name)
            return self.check(_guards.NO_HOOKS, value)
        if guard.kind in DIRECT and (guard.kind not in ("equals", "keys") or compared_in_cpp(expected)):
            self.check(DIRECT[guard.kind], value, expected)
        else:
            code = self.rows[guard.kind].code.format(s="s", e="e")
            self.ask(self.python("s, e", code), (value, self.constant(expected)))

    def add_alias(self, guard):
        first, *others = registers = [self.value(source) for source in guard.sources]
        if not guard.same:
            return self.check(_guards.DISTINCT, first, registers=registers)
        for other in others:
            self.check(_guards.SAME, first, other=other)

    def add_shape(self, guard):
        found = condition_program(guard)
        names = names_of(guard)
        function = self.python(", ".join(names), guard.code.format(*names))
        if found is None:
            return self.ask(function, map(self.value, guard.sources))
        sources, description = found
        self.check(_guards.CONDITION, ("argument", 0), (function, *description), registers=map(self.value, sources))

    def finish(self, ambient):
        offsets = {"argument": 0, "constant": 1 + len(self.arguments)}
        offsets["found"] = offsets["constant"] + len(self.constants)

        def number(register):
            return offsets[register[0]] + register[1]

        steps = [
            (operation, number(source), number(target), operand, tuple(map(number, registers)))
            for operation, source, target, operand, registers in in_blocks(self.steps, self.constants)
        ]
        count = offsets["found"] + len(self.found)
        return _guards.Program(ambient, steps, tuple(self.constants), 1 + len(self.arguments), count)


PLAIN = (int, float, bool, str, type(None))
READS = {_guards.CLASS_STANDS: _guards.ATTRIBUTE, _guards.TUPLE_STANDS: _guards.ITEM}
ASKED_IN_BLOCKS = (_guards.TYPE, _guards.LENGTH, _guards.IS, _guards.EQUALS, _guards.CLASS_LACKS)
IMMUTABLE_CLASS = 1 << 8  # Py_TPFLAGS_IMMUTABLETYPE: its objects cannot become descriptors


def in_blocks(steps, constants):
    """The steps, with those about one thing that mostly stays as it is in a block that `_guard_steps.h` may skip."""
    looks = collections.defaultdict(list)  # register -> the steps that look at it
    for step in steps:
        for register in {step[1], *step[4], *([step[2]] if step[0] == _guards.SAME else ())}:
            looks[register].append(step)

    def is_read(step):
        """Whether it reads something of a class or a tuple for comparisons with what cannot change."""
        operation, _, target, name, _ = step
        if operation == _guards.ATTRIBUTE and inspect.isdatadescriptor(vars(type).get(name)):
            return False  # a class's `__name__`, say, is not in it
        return (
            operation in READS.values()
            and target in looks
            and all(
                each[0] in (_guards.IS, _guards.EQUALS)
                and (type(each[3]) in PLAIN or (each[0] == _guards.IS and type(each[3]).__flags__ & IMMUTABLE_CLASS))
                for each in looks[target]
            )
        )

    def is_known_tuple(register):
        """Whether it holds a tuple, all of whose elements are compared."""
        facts = {step[0]: step[3] for step in looks[register]}
        items = [step[3] for step in looks[register] if step[0] == _guards.ITEM and is_read(step)]
        every = facts.get(_guards.TYPE) is tuple and all(k in items for k in range(facts.get(_guards.LENGTH, -1)))
        return every and len(items) == facts.get(_guards.LENGTH) == len(looks[register]) - 2

    about = {register: (_guards.TUPLE_STANDS, register) for register in list(looks) if is_known_tuple(register)}
    for place, constant in enumerate(constants):
        if type(constant) is type:
            about["constant", place] = _guards.CLASS_STANDS, ("constant", place)
    blocks = {}  # what a block is about, or the place of a step that is in none -> steps
    for place, step in enumerate(steps):
        operation, source, target, operand, _ = step
        subject = about.get(source)
        if operation == _guards.LACKS_ATTRIBUTE and type(operand) is str:
            subject = _guards.KEYS_STAND, source
        elif subject is not None and operation == READS[subject[0]] and is_read(step):
            about[target] = subject
        elif operation not in ASKED_IN_BLOCKS:
            subject = None
        blocks.setdefault(subject or place, []).append(step)
    for subject, block in blocks.items():
        if isinstance(subject, tuple):
            operation, source = subject
            first, last = ((which, source, source, len(block) + 1, ()) for which in (operation, _guards.REMEMBER))
            block = [first, *block, last]
        yield from block


def guard_program(guard_set, guards, arguments, namespace, rows):
    """guards: in the order of asking.  rows: GUARD_KINDS."""
    writer = ProgramWriter(arguments, namespace, rows)
    if guard_set.global_hooks:
        for hooks in GLOBAL_HOOKS:
            writer.check(_guards.LENGTH, writer.constant(hooks), 0)
    for guard in guards:
        add = {"alias": writer.add_alias, "shape": writer.add_shape}.get(guard.kind, writer.add)
        add(guard)
    return writer.finish(guard_set.ambient)
