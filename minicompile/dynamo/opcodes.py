"""The opcodes: one method each, named like the (normalised) instruction, acting on a stack of trackers.

Goes in: an `Instruction` of the set that the head of `bytecode.py` describes.  Comes out: changed stack, locals, cells,
or a jump.  Mirrors the opcode methods of `torch/_dynamo/symbolic_convert.py`.  Taught in chapter 03.

A new opcode is one method.  Operators share one table each.
"""

import importlib.util
import operator
import sys
import types

from .lifetimes import refuse_drop
from .opcodes_blocks import BlockOpcodes
from .opcodes_calls import CallOpcodes
from .opcodes_containers import ContainerOpcodes
from .skip_files import is_installed
from .source import AttrSource, ConstantSource, GlobalSource, ItemSource
from .variables.base import LazyVariable, ObservedException, unsupported
from .variables.cells import CellVariable
from .variables.data_numbers import assumed_truth
from .variables.elements import iterator_of


def import_from(module, name):
    """`from module import name` where the module has no such attribute: a submodule, or what the interpreter says."""
    empty = types.ModuleType(module.__name__)
    vars(empty).update({key: vars(module).get(key) for key in ("__file__", "__spec__")})
    namespace = {"__builtins__": {"__import__": lambda *args: empty}}
    exec(f"from it import {name}", namespace)
    return namespace[name]


def names_to_import(name, names, level, namespace):
    """The modules that an import statement asks for, as `sys.modules` knows them."""
    package = namespace.get("__package__")
    if level and package:
        name = importlib.util.resolve_name("." * level + name, package)
    yield name
    module = sys.modules.get(name)
    parts = vars(module) if type(module) is types.ModuleType else {}
    if "__path__" in parts and "__getattr__" not in parts:
        yield from (f"{name}.{part}" for part in names or () if part != "*" and part not in parts)


MODULES = ConstantSource(sys.modules, "sys.modules")


SYMBOLS = "+ - * / // % ** @ & | ^ << >>".split()
NAMES = "add sub mul truediv floordiv mod pow matmul and_ or_ xor lshift rshift".split()
BINARY_OPERATORS = {symbol: getattr(operator, name) for symbol, name in zip(SYMBOLS, NAMES)}
BINARY_OPERATORS |= {f"{symbol}=": getattr(operator, f"i{name.strip('_')}") for symbol, name in zip(SYMBOLS, NAMES)}
COMPARISONS = {s: getattr(operator, n) for s, n in zip("< <= == != > >=".split(), "lt le eq ne gt ge".split())}


UNBOUND = "cannot access local variable '{}' where it is not associated with a value"


def unary(function):
    def method(self, instruction):
        self.push(self.call(function, self.pop()))

    return method


class Opcodes(CallOpcodes, BlockOpcodes, ContainerOpcodes):
    """Mixin of every translator."""

    # --- stack and locals ---------------------------------------------------------------------------
    def NOP(self, instruction):
        pass

    COPY_FREE_VARS = SETUP_ANNOTATIONS = NOP

    def RESUME(self, instruction):
        self.started = True

    def POP_TOP(self, instruction):
        dropped = self.pop_lazy()
        if isinstance(dropped, LazyVariable):
            self.check_drop(dropped, self.locals.values())

    def END_FOR(self, instruction):
        self.pop_lazy()

    def COPY(self, instruction):
        self.push(self.stack[-instruction.arg])

    def SWAP(self, instruction):
        stack, depth = self.stack, instruction.arg
        stack[-1], stack[-depth] = stack[-depth], stack[-1]

    def LOAD_CONST(self, instruction):
        self.push(self.build(instruction.argval))

    def LOAD_FAST(self, instruction):
        name = instruction.argval
        if name not in self.locals:
            self.raise_unbound(name)
        self.push(self.locals[name])

    def raise_unbound(self, name):
        self.raise_observed(UnboundLocalError, UNBOUND.format(name))

    def STORE_FAST(self, instruction):
        from .symbolic_convert import UnboundVariable

        name, value = instruction.argval, self.pop_lazy()
        self.check_drop(self.locals.get(name))
        if name in self.code.co_cellvars:  # the end of a comprehension with a cell of the same name
            self.cells.pop(name, None)
        if isinstance(value, UnboundVariable):
            self.locals.pop(name, None)
        elif isinstance(value, CellVariable) and name in self.code.co_cellvars:
            self.cells[name] = value
        else:
            self.locals[name] = value

    def DELETE_FAST(self, instruction):
        if instruction.argval not in self.locals:
            self.raise_unbound(instruction.argval)
        self.check_drop(self.locals[instruction.argval])
        del self.locals[instruction.argval]

    def check_drop(self, dropped, holders=()):
        """The frame lets go of a value: if it dies, its finalizer must run now."""
        source = dropped.source if isinstance(dropped, LazyVariable) else None
        if source is None or isinstance(source, AttrSource | ItemSource | GlobalSource):
            return  # what it was read from still holds it, or the graph has broken where it let go (lifetimes.py)
        if any(tracker is dropped for tracker in (*self.stack, *holders)):
            return
        refuse_drop(dropped.value, source.name)

    def LOAD_FAST_AND_CLEAR(self, instruction):
        from .symbolic_convert import UnboundVariable

        name = instruction.argval
        cell = self.cells.pop(name, None) if name in self.code.co_cellvars else None
        self.push(cell or self.locals.pop(name, None) or UnboundVariable())

    # --- cells --------------------------------------------------------------------------------------
    def MAKE_CELL(self, instruction):
        key = instruction.argval
        frame_name = key if self.parent is None and not self.started else None
        self.cells[key] = cell = CellVariable(frame_name=frame_name)
        if frame_name is None:
            self.side_effects.new_object(cell)
        if key in self.locals:  # an argument moves into its cell
            value = self.locals.pop(key)
            if frame_name is not None:
                cell.contents = value  # the frame's own prologue does the same
            else:
                self.side_effects.store_cell(cell, value)

    def cell(self, key):
        return self.cells[key[0] if isinstance(key, tuple) else key]

    def LOAD_CLOSURE(self, instruction):
        self.push(self.cell(instruction.argval))

    def LOAD_DEREF(self, instruction):
        contents = self.cell(instruction.argval).load(self)
        if contents is None:
            self.raise_empty(instruction.argval)
        self.push(contents)

    def raise_empty(self, name):
        """Of a cell without a value: the function's own is a local variable."""
        if name in self.code.co_cellvars:
            self.raise_unbound(name)
        text = f"cannot access free variable '{name}' where it is not associated with a value in enclosing scope"
        self.raise_observed(NameError, text, name=name)

    def STORE_DEREF(self, instruction):
        self.side_effects.store_cell(self.cell(instruction.argval), self.pop_lazy())

    def DELETE_DEREF(self, instruction):
        contents = self.cell(instruction.argval).load(self)
        if contents is None:
            self.raise_empty(instruction.argval)
        self.guard("present", contents.source)
        self.side_effects.store_cell(self.cell(instruction.argval), self.side_effects.DELETED)

    # --- globals and imports ------------------------------------------------------------------------
    def LOAD_GLOBAL(self, instruction):
        self.push(self.load_global(instruction.argval))

    LOAD_NAME = LOAD_GLOBAL

    def STORE_GLOBAL(self, instruction):
        self.store_global(instruction.argval, self.pop_lazy())

    def DELETE_GLOBAL(self, instruction):
        name = instruction.argval
        if not self.has_global(self.globals_dict, name, self.globals_of_frame()):
            self.raise_observed(NameError, f"name '{name}' is not defined", name=name)
        self.store_global(name, self.side_effects.DELETED)

    def store_global(self, name, value):
        self.side_effects.store_global(self.globals_dict, name, self.globals_source, value)

    def IMPORT_NAME(self, instruction):
        names, level = self.pop().as_python_constant(), self.pop_constant_below()
        for name in names_to_import(instruction.argval, names, level, self.globals_dict):
            if not (name in sys.modules or self.output.options.fullgraph or is_installed(name)):
                self.output.guard("lacks_key", MODULES, name)
                hint = "import it at the top of the file; the next call finds it, and is captured anew"
                unsupported("file access", f"the program's module {name} is not imported yet", hint)
        self.push(self.fold_python(__import__, [instruction.argval, self.globals_dict, None, names, level], {}))

    def pop_constant_below(self):
        return self.pop().as_python_constant()

    def IMPORT_FROM(self, instruction):
        try:
            self.push(self.stack[-1].realize().var_getattr(self, instruction.argval))
        except ObservedException as observed:
            if not self.exception_matches(observed, AttributeError):
                raise
            self.push(self.fold_python(import_from, [self.stack[-1].as_python_constant(), instruction.argval], {}))

    def LOAD_ASSERTION_ERROR(self, instruction):
        self.push(self.build(AssertionError))

    # --- attributes and items -----------------------------------------------------------------------
    def LOAD_ATTR(self, instruction):
        self.push(self.call(getattr, self.pop(), self.build(instruction.argval)))

    def STORE_ATTR(self, instruction):
        target, value = self.pop(), self.pop_lazy()
        self.call(setattr, target, self.build(instruction.argval), value)

    def DELETE_ATTR(self, instruction):
        self.call(delattr, self.pop(), self.build(instruction.argval))

    def LOAD_SUPER_ATTR(self, instruction):
        name, _ = instruction.argval
        instance, cls, super_ = self.pop(), self.pop(), self.pop()
        self.push(self.call(getattr, super_.call_function(self, [cls, instance], {}), self.build(name)))

    def BINARY_SUBSCR(self, instruction):
        key, container = self.pop(), self.pop()
        self.push(self.call(operator.getitem, container, key))

    def STORE_SUBSCR(self, instruction):
        key, container, value = self.pop(), self.pop(), self.pop_lazy()
        self.call(operator.setitem, container, key, value)

    def DELETE_SUBSCR(self, instruction):
        key, container = self.pop(), self.pop()
        self.call(operator.delitem, container, key)

    # --- operators ----------------------------------------------------------------------------------
    def BINARY_OP(self, instruction):
        right, left = self.pop(), self.pop()
        self.push(self.call(BINARY_OPERATORS[instruction.argval], left, right))

    def COMPARE_OP(self, instruction):
        right, left = self.pop(), self.pop()
        self.push(self.call(COMPARISONS[instruction.argval], left, right))

    def IS_OP(self, instruction):
        right, left = self.pop(), self.pop()
        self.push(self.build(self.is_same(left, right) is not bool(instruction.arg)))

    def CONTAINS_OP(self, instruction):
        container, item = self.pop(), self.pop()
        found = self.call(operator.contains, container, item)
        self.push(self.build(not self.truth(found)) if instruction.arg else found)

    UNARY_POSITIVE = unary(operator.pos)
    UNARY_NEGATIVE = unary(operator.neg)
    UNARY_INVERT = unary(operator.invert)
    UNARY_NOT = unary(operator.not_)

    def GET_ITER(self, instruction):
        self.push(iterator_of(self, self.pop()))

    def TO_BOOL(self, instruction):
        self.push(self.build(self.truth(self.pop())))

    # --- control ------------------------------------------------------------------------------------
    def JUMP(self, instruction):
        self.jump(instruction.argval)

    def branch_truth(self, instruction):
        condition = self.pop()
        truth = assumed_truth(self, instruction, condition)
        return self.truth(condition) if truth is None else truth

    def POP_JUMP_IF_TRUE(self, instruction):
        if self.branch_truth(instruction):
            self.jump(instruction.argval)

    def POP_JUMP_IF_FALSE(self, instruction):
        if not self.branch_truth(instruction):
            self.jump(instruction.argval)

    def is_none(self, tracker):
        return tracker.is_python_constant() and tracker.as_python_constant() is None

    def POP_JUMP_IF_NONE(self, instruction):
        if self.is_none(self.pop()):
            self.jump(instruction.argval)

    def POP_JUMP_IF_NOT_NONE(self, instruction):
        if not self.is_none(self.pop()):
            self.jump(instruction.argval)

    def FOR_ITER(self, instruction):
        try:
            self.push(self.stack[-1].realize().next(self))
        except ObservedException as stop:
            if not self.exception_matches(stop, StopIteration):
                raise
            self.pop_lazy()
            self.jump(instruction.argval)

    def RETURN_VALUE(self, instruction):
        self.return_value = self.pop_lazy()

    # --- strings ------------------------------------------------------------------------------------
    def FORMAT_VALUE(self, instruction):
        conversion, has_spec = instruction.argval
        spec = self.pop() if has_spec else self.build("")
        value = self.pop()
        if conversion is not None:
            value = self.call(conversion, value)
        self.push(self.call(format, value, spec))

    def CONVERT_VALUE(self, instruction):
        self.push(self.call(instruction.argval, self.pop()))
