"""nn.Module instances and Python modules.

Goes in: a module of the user's model, or `torch.nn` and its like.  Comes out: parameters, buffers and submodules as
attributes (read from the module's own tables, no `__getattr__` run), and calls: straight to `forward` where no hook is
set and that is guarded, else through `nn.Module._call_impl`, inlined, so that hooks run.
Mirrors `torch/_dynamo/variables/nn_module.py`.  Taught in chapter 06.
"""

import dataclasses
import functools
import types

from torch import nn

from ..builder import guarded, wraps, wraps_if
from ..guard_checks import has_no_hooks, no_global_hooks
from ..nested_breaks import SkippedFrame
from ..skip_files import SKIPPED_LIBRARIES
from ..source import AttrSource, CallSource, ConstantSource, ModuleAttrSource, ModuleEntrySource
from .base import ValueVariable, VariableTracker, type_name, unsupported
from .descriptors import class_lookup, guard_attribute, is_data_descriptor, type_lookup
from .objects import UserDefinedObjectVariable, placed, share_attributes, wrapped_as
from .refusals import refuse_attribute
from .tensor import TensorVariable

TABLES = ("_parameters", "_buffers", "_modules")  # in the order in which nn.Module.__getattr__ asks them


@dataclasses.dataclass(frozen=True)
class ModuleTableSource(AttrSource):
    """`self._modules` and its like: an entry prints as the user writes it, `self.layers[0].weight`."""

    def item_name(self, key):
        return f"{self.parent.name}[{key}]" if key.isdigit() else f"{self.parent.name}.{key}"


class NNModuleVariable(UserDefinedObjectVariable):
    """An nn.Module."""

    def attribute_source(self, name):
        source = super().attribute_source(name)
        kind = ModuleTableSource if name in TABLES else ModuleAttrSource
        return kind(self.source, name) if type(source) is AttrSource else source

    # --- attributes ---------------------------------------------------------------------------------
    def missing_attribute(self, tx, name):
        """`__getattr__`: nn.Module's own is answered from the tables."""
        if not is_modules_own(tx, self.cls, "__getattr__"):
            return super().missing_attribute(tx, name)
        for table_name in TABLES:
            found = self.table_entry(tx, table_name, name)
            if found is not None:
                return found
        tx.raise_observed(AttributeError, f"'{type_name(self.cls)}' object has no attribute '{name}'")

    def table_entry(self, tx, table_name, name):
        """The tracker of `self._modules[name]` or None; a table nobody has tracked yet stays untracked."""
        table, existing = self.stored_attribute(tx, table_name), self.instance_dict().get(table_name)
        if table is None:
            return None
        untouched = tx.side_effects.load_attr(self, table_name) is None and tx.output.known(existing) is None
        if untouched and name in existing:
            return tx.output.lazy(existing[name], ModuleEntrySource(self.attribute_source(table_name), name))
        if untouched:
            tx.guard("lacks_key", self.attribute_source(table_name), name)
            return None
        key = tx.build(name)
        if not tx.truth(table.realize().call_method(tx, "__contains__", [key], {})):
            return None
        return table.realize().call_method(tx, "__getitem__", [key], {})

    def generic_getattr(self, tx, name):
        """What is in a table is not in the class or in the instance, so that the order of the search may be turned."""
        attributes = self.instance_dict()
        table_name = next((table for table in TABLES if name in attributes.get(table, ())), None)
        if table_name is not None and name not in attributes and tx.side_effects.load_attr(self, name) is None:
            if class_lookup(tx, self.cls, name) is None and is_modules_own(tx, self.cls, "__getattr__"):
                return self.table_entry(tx, table_name, name) or super().generic_getattr(tx, name)
        return super().generic_getattr(tx, name)

    def var_setattr(self, tx, name, value):
        """An ordinary value under a name that is in no table skips nn.Module's long `__setattr__`."""
        if is_modules_own(tx, self.cls, "__setattr__"):
            cls = value.realize().python_type()
            plain = cls in (int, float, bool, str, tuple, list, dict)
            if plain and all(self.table_entry(tx, table, name) is None for table in TABLES):
                return self.generic_setattr(tx, name, value)
        return super().var_setattr(tx, name, value)

    # --- calls --------------------------------------------------------------------------------------
    def call_function(self, tx, args, kwargs):
        if not is_modules_own(tx, self.cls, "__call__") or not self.is_plain_call(tx):
            return super().call_function(tx, args, kwargs)
        pending = tx.side_effects.load_attr(self, "forward")
        if "forward" in self.instance_dict() or pending is not None or not self.is_plain_getattr(tx):
            tx.guard("no_hooks", self.source, "none")
            forward = self.var_getattr(tx, "forward").realize()
            tx.hands_on(self, forward, call_frames())
            return forward.call_function(tx, list(args), kwargs)
        tx.guard("plain_call", self.source, "none")
        return self.call_special(tx, "forward", list(args), kwargs, skipped=call_frames())

    def is_plain_getattr(self, tx):
        return self.python_method(tx, "__getattribute__") is None and class_lookup(tx, self.cls, "forward") is not None

    def is_plain_call(self, tx):
        """No hook of any kind, nothing overridden: a call is `forward`.  Guarded if so."""
        own = ("_wrapped_call_impl", "_call_impl")
        if not all(is_modules_own(tx, self.cls, name) for name in own) or not no_global_hooks():
            return False
        pending = tx.side_effects.pending_attributes(self)
        if self.value is None or any(name in pending for name in (*own, *HOOK_TABLES, "_compiled_call_impl")):
            return False
        attributes = self.instance_dict()
        if not has_no_hooks(self.value):
            return False
        if any(tx.output.known(attributes[name]) is not None for name in HOOK_TABLES):
            return False
        tx.output.guards.global_hooks = True
        return True


HOOK_TABLES = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")


@functools.cache
def call_frames():
    """The frames between the call of a module without hooks and its `forward`."""
    return SkippedFrame(nn.Module._wrapped_call_impl, -1), SkippedFrame(nn.Module._call_impl, 0)


OWN = dict(vars(nn.Module))  # before any program changes them


def is_modules_own(tx, cls, name):
    """Whether the class has nn.Module's own method of this name, which is guarded then."""
    found = class_lookup(tx, cls, name)
    if found is None or found.attribute is not OWN[name]:
        return False
    guard_attribute(tx, cls, name)
    return True


class OptimizedModuleVariable(NNModuleVariable):
    """A module that is compiled by itself, met inside the program: its calls and attributes are the original's."""

    def original(self, tx):
        return self.table_entry(tx, "_modules", "_orig_mod").realize()

    def call_function(self, tx, args, kwargs):
        original = self.original(tx)
        tx.hands_on(self, original)
        return original.call_function(tx, args, kwargs)

    def missing_attribute(self, tx, name):
        return self.original(tx).var_getattr(tx, name)

    def var_setattr(self, tx, name, value):
        self.original(tx).var_setattr(tx, name, value)

    def var_delattr(self, tx, name):
        self.original(tx).var_delattr(tx, name)


def is_optimized(value):
    return type(value).__name__ == "OptimizedModule" and issubclass(type(value), nn.Module)


wraps_if(is_optimized, order=39)(wrapped_as(OptimizedModuleVariable))


@wraps_if(lambda value: issubclass(type(value), nn.Module), order=40)
def wrap_nn_module(output, value, source):
    cls = type(value)
    if issubclass(cls, nn.modules.lazy.LazyModuleMixin) and value.has_uninitialized_params():
        return LazyModuleVariable(cls, value, source)
    output.guard("type", source, cls)
    return share_attributes(output, NNModuleVariable(cls, value, placed(value, source)))


class LazyModuleVariable(VariableTracker):
    """A module whose first call makes its parameters.  That happens during capture, from the example's shapes."""

    has_identity = True

    def __init__(self, cls, value, source):
        super().__init__(source)
        self.cls, self.value = cls, value

    def var_getattr(self, tx, name):
        unsupported("lazy module", f"{self.cls.__name__}.{name} is read before there are parameters")

    def call_function(self, tx, args, kwargs):
        if any(not isinstance(a.realize(), TensorVariable) for a in [*args, *kwargs.values()]):
            unsupported("lazy module", f"{self.cls.__name__} is called with something else than tensors")
        fakes = {name: value.realize().fake for name, value in kwargs.items()}
        self.value._infer_parameters(self.value, tuple(a.realize().fake for a in args), fakes)
        initialised = wrap_nn_module(tx.output, self.value, self.source)
        return tx.output.remember(self.value, initialised).call_function(tx, args, kwargs)


# --- Python modules ---------------------------------------------------------------------------------
class PythonModuleVariable(ValueVariable):
    """An imported module: its attributes are read from its namespace."""

    def __repr__(self):
        return f"PythonModuleVariable({self.name})"

    @property
    def name(self):
        return vars(self.value).get("__name__", "module")

    def var_getattr(self, tx, name):
        pending = tx.side_effects.load_global(vars(self.value), name)
        if pending is tx.side_effects.DELETED:
            tx.raise_observed(AttributeError, f"module '{self.name}' has no attribute '{name}'")
        if pending is not None:
            return pending
        parent = ConstantSource(self.value, self.name)
        hook = vars(self.value).get("__getattr__")
        if name not in vars(self.value) and not hasattr(type(self.value), name) and is_programs_own(hook):
            tx.guard("lacks_attribute", parent, name)
            return tx.inline(tx.output.lazy(hook, AttrSource(parent, "__getattr__")), [tx.build(name)])
        computed = type(self.value) is not types.ModuleType and name not in vars(self.value)  # as in `torch._VF`
        source = CallSource(parent, getattr, (name,)) if computed else AttrSource(parent, name)
        try:
            value = getattr(self.value, name)  # a module's `__getattr__` only imports something
        except AttributeError as error:
            tx.guard("lacks_attribute", parent, name)
            tx.raise_observed(AttributeError, *error.args)
        if isinstance(value, types.ModuleType) and vars(value).get("__name__") == f"{self.name}.{name}":
            return tx.build(value)  # a submodule under its own name stays
        return tx.output.lazy(value, source)

    def var_setattr(self, tx, name, value):
        """The attributes of a module are the globals of its functions."""
        found = type_lookup(type(self.value), name)
        if found is not None and is_data_descriptor(found.attribute):
            unsupported("attribute write", f"setting `{name}` of module {self.name}, which its class takes")
        namespace = vars(self.value)
        tx.side_effects.store_global(namespace, name, tx.globals_source_of(namespace), value)

    def var_delattr(self, tx, name):
        namespace = vars(self.value)
        if not tx.has_global(namespace, name, tx.globals_source_of(namespace)):
            refuse_attribute(tx, delattr, self, name, made=types.ModuleType(self.name))
        self.var_setattr(tx, name, tx.side_effects.DELETED)


def is_programs_own(hook):
    """Whether it is a `__getattr__` to be run as any function; torch's only imports something."""
    return isinstance(hook, types.FunctionType) and not hook.__code__.co_filename.startswith(SKIPPED_LIBRARIES)


def keeps_attributes_plainly(cls):
    """Whether what is written to such a module is found in its namespace, by no code of the class's own."""
    names = ("__getattribute__", "__setattr__", "__delattr__", "__dict__")
    return all(type_lookup(cls, name).owner in (types.ModuleType, object) for name in names)


def is_plain_module(value):
    return issubclass(type(value), types.ModuleType) and keeps_attributes_plainly(type(value))


wraps_if(is_plain_module, order=40)(wraps(types.ModuleType)(guarded("is", PythonModuleVariable)))
