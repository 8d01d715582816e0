"""Functions that capture can see into: Python functions, closures made during capture, bound methods.

Goes in: a call with trackers.  Comes out: code, globals, defaults and cells, with which the translator runs the
callee's frame in place of calling it: inlining.  Mirrors `torch/_dynamo/variables/functions.py`.  Taught in chapters
03 and 06.
"""

import functools
import itertools
import types

import torch

from ..builder import wraps, wraps_if
from ..source import AttrSource, ConstantSource, ItemSource
from .base import ValueVariable, VariableTracker, complain, stand_in, unsupported
from .descriptors import descriptor_get, type_lookup
from .instance_dict import InstanceDictVariable, entry_key
from .wrong_calls import check_count


class FunctionVariable(VariableTracker):
    """Base of the functions that can be inlined: gives code, globals, defaults and closure cells."""

    cls = types.FunctionType
    has_identity = True

    def call_function(self, tx, args, kwargs):
        return tx.inline_call(self, list(args), dict(kwargs))

    def method___get__(self, tx, instance, owner=None):
        instance = instance.realize()
        if instance.is_python_constant() and instance.as_python_constant() is None:
            return self
        return BoundMethodVariable(self, instance)


DEFAULTS = ("__defaults__", "__kwdefaults__")
PARTS = ("__code__", "__globals__", "__closure__", "__dict__")  # not changed during capture


def is_something(value):
    return value.python_type() is not type(None)


def named_values(tx, mapping):
    """What a dict holds under its constant keys."""
    pairs = mapping.realize().builtin_part(tx).look(tx).values()
    return {key.as_python_constant(): value for key, value in pairs if key.is_python_constant()}


def refuse_attribute(tx, change, name, *values):
    """The program hears what CPython says of `f.__name__ = 3` and the like.  change: setattr or delattr."""
    if name in vars(types.FunctionType) and name not in PARTS:
        given = [stand_in(value.python_type()) if is_something(value) else None for value in values]
        complain(tx, change, lambda: None, name, *given)


class UserFunctionVariable(ValueVariable, FunctionVariable):
    """A function object that exists; its code is guarded, what it closes over is guarded where it is used."""

    def __init__(self, value, source=None):
        super().__init__(value, source)
        self.code, self.function_name = value.__code__, value.__qualname__
        self.globals_dict, self.builtins_dict = value.__globals__, value.__builtins__

    @property
    def place(self):
        return self.source or ConstantSource(self.value, self.function_name)

    def defaults(self, tx):
        source = AttrSource(self.place, "__defaults__")
        values = self.value.__defaults__
        if values is None:
            tx.guard("is", source, None)
            return []
        tx.guard("length", source, len(values))
        return [tx.output.lazy(value, ItemSource(source, k)) for k, value in enumerate(values)]

    def kw_defaults(self, tx):
        source, values = AttrSource(self.place, "__kwdefaults__"), self.value.__kwdefaults__
        if (looked_at := tx.output.known(values)) is not None:
            return named_values(tx, looked_at)
        if values is None and self.code.co_kwonlyargcount:
            tx.guard("is", source, None)
        return {key: tx.output.lazy(value, ItemSource(source, key)) for key, value in (values or {}).items()}

    def cells(self, tx):
        """The closure: the frame's own function shares its cells with the frame."""
        root = tx.output.root_cells
        if self.value is tx.output.function:
            return [root[name] for name in self.code.co_freevars]
        closure_source = AttrSource(self.place, "__closure__")
        closure = enumerate(self.value.__closure__ or ())
        return [tx.output.wrap(cell, ItemSource(closure_source, index)) for index, cell in closure]

    def var_getattr(self, tx, name):
        pending = tx.side_effects.load_attr(self, name)
        if pending is not None and pending is not tx.side_effects.DELETED:
            return pending
        if pending is not None or name == "__dict__" and tx.side_effects.pending_attributes(self):
            unsupported("instance __dict__", f"`{name}` of {self}, whose attributes were changed before")
        if name == "__get__":
            return BuiltinMethodVariable(self, "__get__")
        try:
            value = getattr(self.value, name)
        except AttributeError as error:
            tx.guard("lacks_attribute", self.place, name)
            tx.raise_observed(AttributeError, *error.args)
        found = type_lookup(types.FunctionType, name)
        if found is not None and isinstance(found.attribute, types.ClassMethodDescriptorType):
            return descriptor_get(tx, found, self)  # each look makes another object
        return tx.output.wrap(value, AttrSource(self.place, name)).realize()

    def var_setattr(self, tx, name, value):
        refuse_attribute(tx, setattr, name, value)
        if name in DEFAULTS or name in PARTS:
            unsupported("attribute write", f"assignment to {self.function_name}.{name}")
        tx.side_effects.store_attr(self, name, value)


class NestedFunctionVariable(FunctionVariable):
    """A function that capture itself made (MAKE_FUNCTION): a lambda, a `def` inside the function, a comprehension.

    given: `__defaults__` and `__kwdefaults__`, trackers of a tuple and of a dict (which may change) or of None.
    """

    def __init__(self, code, globals_dict, globals_source, defaults, kw_defaults, cells, annotations=None):
        super().__init__()
        self.code, self.globals_dict, self.globals_source = code, globals_dict, globals_source
        self.given, self._cells = dict(zip(DEFAULTS, (defaults, kw_defaults))), cells
        self.annotations = annotations
        self.function_name = code.co_qualname

    @functools.cached_property
    def view(self):
        return InstanceDictVariable(self)  # a cycle, which would keep alive what the function has closed over

    @property
    def builtins_dict(self):
        cells = tuple(map(types.CellType, self.code.co_freevars))
        return types.FunctionType(self.code, self.globals_dict, closure=cells).__builtins__

    def defaults(self, tx):
        values = self.given["__defaults__"]
        return values.builtin_part(tx).unpack(tx) if is_something(values) else []

    def kw_defaults(self, tx):
        values = self.given["__kwdefaults__"]
        return named_values(tx, values) if is_something(values) else {}

    def cells(self, tx):
        return self._cells

    def var_getattr(self, tx, name):
        pending = tx.side_effects.load_attr(self, name)
        if pending is not None and pending is not tx.side_effects.DELETED:
            return pending
        simple = {
            "__name__": self.code.co_name,
            "__qualname__": self.function_name,
            "__code__": self.code,
            "__module__": self.globals_dict.get("__name__"),
            "__doc__": self.code.co_consts[0]
            if self.code.co_consts and isinstance(self.code.co_consts[0], str)
            else None,
        }
        if name in simple:
            return tx.build(simple[name])
        if name in DEFAULTS:
            return self.given[name]
        if name == "__closure__":
            return tx.build_tuple(self._cells) if self._cells else tx.build(None)
        if name == "__annotations__":  # one dict, which the program may change
            made = tx.build_dict(self.annotations or {})
            self.var_setattr(tx, name, made)
            return made
        if name == "__type_params__" and hasattr(types.FunctionType, name):
            return tx.build(())  # a generic function is no captured instruction
        if name in ("__get__", "__call__"):
            return BuiltinMethodVariable(self, name)
        if name == "__dict__":
            tx.side_effects.new_object(self)
            return self.view
        if hasattr(types.FunctionType, name):
            unsupported("attribute written in C", f"`{name}` of {self!r}")
        tx.raise_observed(AttributeError, f"'function' object has no attribute '{name}'")

    def var_setattr(self, tx, name, value):
        refuse_attribute(tx, setattr, name, value)
        if name in DEFAULTS:
            self.given[name] = value.realize()
        elif name in PARTS:
            unsupported("attribute write", f"assignment to {self.function_name}.{name}")
        else:
            made = tx.build_dict({}) if name == "__annotations__" and not is_something(value) else value
            tx.side_effects.new_object(self)
            tx.side_effects.store_attr(self, name, made)

    def var_delattr(self, tx, name):
        refuse_attribute(tx, delattr, name)
        if name in vars(types.FunctionType):
            self.var_setattr(tx, name, tx.build(None))
        elif self.stored_attribute(tx, name) is None:
            tx.raise_observed(AttributeError, f"'function' object has no attribute '{name}'")
        else:
            self.forget(tx, name)

    # --- what its `__dict__` asks -----------------------------------------------------------------------
    def instance_dict(self):
        return {}

    def stored_attribute(self, tx, name):
        return tx.side_effects.load_attr(self, entry_key(self.cls, name))

    def guard_lacks(self, tx, name):
        """Nothing was there before."""

    def forget(self, tx, name):
        del tx.side_effects.pending_attributes(self)[name]

    def children(self):
        return [*self.given.values(), *(self.annotations or {}).values()]

    def reconstruct(self, codegen):
        annotations = list(itertools.chain(*(self.annotations or {}).items()))
        if self.globals_source is not None:  # made in an inlined frame: it keeps the globals of its own module
            parts = [*self.given.values(), annotations, list(self._cells)]
            return codegen.call(make_function, self.code, self.globals_source, *parts)
        flags = 0
        for flag, value in zip((1, 2), self.given.values()):
            if is_something(value):
                flags |= flag
                codegen(value)
        for flag, values in ((4, annotations), (8, self._cells)):
            if values:
                flags |= flag
                codegen.push_all(values)
                codegen.build_tuple(len(values))
        codegen.load_const(self.code)
        codegen.emit("MAKE_FUNCTION", arg=flags)

    def __repr__(self):
        return f"NestedFunctionVariable({self.function_name})"


def make_function(code, globals_dict, defaults, keywords, annotations, cells):
    """What MAKE_FUNCTION does, for globals other than the running frame's.  Annotated names and values take turns."""
    function = types.FunctionType(code, globals_dict, None, defaults, cells or None)
    function.__kwdefaults__ = keywords
    function.__annotations__ = dict(zip(annotations[::2], annotations[1::2]))
    return function


class BoundMethodVariable(VariableTracker):
    """`instance.method`: a function (any callable tracker) with its first argument."""

    cls = maker = types.MethodType
    holds = ("function", "instance")

    def __init__(self, function, instance, source=None):
        super().__init__(source)
        self.function, self.instance = function, instance

    def is_immutable(self):
        return self.source is None

    def key(self):
        return (BoundMethodVariable, self.function.key(), self.instance.realize())

    def call_function(self, tx, args, kwargs):
        function = self.function.realize()
        tx.hands_on(self, function)
        return function.call_function(tx, [self.instance, *args], kwargs)

    def var_getattr(self, tx, name):
        if name == "__self__":
            return self.instance
        if name == "__func__":
            return self.function
        if name == "__call__":
            return BuiltinMethodVariable(self, name)
        if name == "__class__":
            return tx.build(types.MethodType)
        if name != "__doc__" and type_lookup(types.MethodType, name) is not None:
            unsupported("method written in C", f"`{name}` of a bound method")
        return self.function.var_getattr(tx, name)

    def method___call__(self, tx, *args, **kwargs):
        return self.call_function(tx, args, kwargs)

    def call_method(self, tx, name, args, kwargs):
        if name in ("__str__", "__repr__", "__format__"):
            unsupported("method written in C", f"`{name}` of a bound method")
        return super().call_method(tx, name, args, kwargs)

    def method___eq__(self, tx, other):
        other = other.realize()
        if not isinstance(other, BoundMethodVariable):
            return tx.build(NotImplemented)
        return tx.build(tx.is_same(self.instance, other.instance) and tx.equals(self.function, other.function))

    def method___ne__(self, tx, other):
        equal = self.method___eq__(tx, other)
        return equal if equal.as_python_constant() is NotImplemented else tx.build(not tx.truth(equal))

    def __repr__(self):
        return f"BoundMethodVariable({self.function!r} of {self.instance!r})"


class BuiltinMethodVariable(VariableTracker):
    """`value.name` of a value whose methods are C code: `items.append`, `x.relu`."""

    holds = ("instance",)

    def __init__(self, instance, name, source=None):
        super().__init__(source)
        self.instance, self.name = instance, name

    def python_type(self):
        found = type_lookup(self.instance.python_type(), self.name)
        is_slot = found is not None and isinstance(found.attribute, types.WrapperDescriptorType)
        return types.MethodWrapperType if is_slot else types.BuiltinMethodType

    def is_immutable(self):
        return self.source is None

    def call_function(self, tx, args, kwargs):
        cls = self.instance.python_type()
        found = type_lookup(cls, self.name)
        if found is not None:
            check_count(tx, found.attribute, args, kwargs, cls)
        return self.instance.call_method(tx, self.name, list(args), dict(kwargs))

    def var_getattr(self, tx, name):
        if name == "__self__":
            return self.instance
        if name == "__name__":
            return tx.build(self.name)
        if name == "__qualname__":
            return tx.build(f"{self.instance.python_type().__qualname__}.{self.name}")
        return super().var_getattr(tx, name)

    def reconstruct(self, codegen):
        codegen(self.instance)
        codegen.load_attr(self.name)

    def __repr__(self):
        return f"BuiltinMethodVariable({self.instance!r}.{self.name})"


# --- wrapping -------------------------------------------------------------------------------------------
@wraps(types.FunctionType)
def wrap_function(output, value, source):
    from .builtins import has_handler, wrap_handled
    from .marks import wrap_marked
    from .torch_functions import is_tracked, wrap_torch_function

    if is_tracked(value):  # some functions of torch are marked for torch.compile, which knows less of them
        return wrap_torch_function(output, value, source)
    marked = wrap_marked(output, value, source)
    if marked is not None:
        return marked
    if hasattr(value, "_torchdynamo_orig_callable"):  # compiled by itself: here it is inlined
        original = AttrSource(source, "_torchdynamo_orig_callable") if source is not None else None
        return output.wrap(value._torchdynamo_orig_callable, original)
    if has_handler(value):
        return wrap_handled(output, value, source)
    output.guard("code", source, value.__code__)
    return UserFunctionVariable(value, source)


# What torch.jit.trace makes has no name, and need not do what its Python says.
@wraps_if(lambda value: type(value) is torch.jit.ScriptFunction and hasattr(value, "__name__"))
def wrap_script(output, value, source):
    """A function that `torch.jit.script` compiled is inlined as it was written."""
    output.guard("is", source, value)
    original = AttrSource(source, "_torchdynamo_inline") if source is not None else None
    return output.wrap(value._torchdynamo_inline, original)


@wraps(types.MethodType)
def wrap_method(output, value, source):
    if source is None:
        function, instance = output.wrap(value.__func__, None), output.wrap(value.__self__, None)
        return BoundMethodVariable(function, instance)
    output.guard("type", source, types.MethodType)
    function = output.wrap(value.__func__, AttrSource(source, "__func__"))
    return BoundMethodVariable(function, output.lazy(value.__self__, AttrSource(source, "__self__")), source)
