"""Classes: reading their attributes, making objects, and `super`.

Goes in: a class that capture met.  Comes out: attributes by the metaclass protocol, new objects by `type.__call__`
(`__new__`, then `__init__`, both inlined where they are written in Python).
Mirrors `torch/_dynamo/variables/user_defined.py` and `super` of `misc.py`.  Taught in chapter 06.
"""

import _random
import enum
import operator
import types

import numpy
import torch

from .. import polyfills
from ..builder import WRAPPERS, guarded, wraps_if
from ..source import AttrSource, CallSource, ConstantSource, ItemSource
from . import builtin_subclasses, descriptors, exceptions, random_numbers, tensor_subclasses
from .base import (
    ValueVariable,
    VariableTracker,
    as_observed,
    can_change,
    complain,
    is_made,
    stand_in,
    type_name,
    unsupported,
)
from .constant import wrap_constant
from .descriptors import class_lookup, descriptor_get, dict_of, type_lookup, value_at
from .dict_views import MappingProxyVariable, proxied
from .dicts import DictVariable
from .modules import NNModuleVariable, nn
from .objects import UserDefinedObjectVariable
from .questions import attribute_name, claimed_class
from .refusals import truth_by_method
from .tables import PLAIN_BASES
from .torch_functions import make_typed_tensor

FOLDED_CLASSES = (property, numpy.generic, numpy.dtype)  # objects of these are constants
C_FUNCTIONS = (types.WrapperDescriptorType, types.MethodDescriptorType, types.BuiltinFunctionType)


class UserDefinedClassVariable(ValueVariable):
    """`value`: the class."""

    def is_enum(self):
        return issubclass(type(self.value), enum.EnumMeta)

    def canonical(self, tx):
        """The one tracker of this class that side effects are recorded for."""
        return tx.output.known(self.value) or tx.output.remember(self.value, self)

    # --- attributes ---------------------------------------------------------------------------------
    def var_getattr(self, tx, name):
        cls = self.value
        meta = class_lookup(tx, type(cls), name)
        if descriptors.goes_first(meta):
            return descriptor_get(tx, meta, self)
        found = class_lookup(tx, cls, name)
        if found is not None:
            return descriptor_get(tx, found, None)
        if meta is not None:
            return descriptor_get(tx, meta, self)
        fallback = class_lookup(tx, type(cls), "__getattr__")
        if fallback is not None:
            return descriptor_get(tx, fallback, self).call_function(tx, [tx.build(name)], {})
        tx.raise_observed(AttributeError, f"type object '{type_name(cls)}' has no attribute '{name}'")

    def c_attribute(self, tx, found):
        """`__name__`, `__mro__`, `__doc__`, ... of `type`; slots of a metaclass."""
        if found.name == "__dict__":
            return self.namespace(tx)
        if found.name == "__annotations__" and found.name not in self.value.__dict__:
            unsupported("attribute written in C", f"the annotations of {self} are made when they are first read")
        with as_observed(tx):
            value = getattr(self.value, found.name)
        if not descriptors.stays(self.value):
            return tx.build(value)
        return tx.output.lazy(value, AttrSource(ConstantSource(self.value, self.value.__qualname__), found.name))

    def namespace(self, tx):
        """The class's own `__dict__`, guarded as a dict is."""
        if tx.side_effects.pending_attributes(tx.output.known(self.value)):
            unsupported("class changed", f"the __dict__ of {self} is read after that")
        if is_made(self.value):
            unsupported("class definition", f"the __dict__ of {self}, which is made here, is read")
        cls, items = self.value, {}
        source = descriptors.namespace_source(cls) if can_change(cls) else None
        for name, attribute in cls.__dict__.items():
            items[name] = tx.build(name), value_at(tx, attribute, source and ItemSource(source, name))
        inside = CallSource(source, proxied) if source is not None else None
        return MappingProxyVariable(DictVariable(items, inside), source)

    def var_setattr(self, tx, name, value):
        hook = class_lookup(tx, type(self.value), "__setattr__")
        if not isinstance(hook.attribute, C_FUNCTIONS):
            descriptor_get(tx, hook, self).call_function(tx, [tx.build(name), value], {})
            return
        self.store(tx, name, value)

    def store(self, tx, name, value):
        if not can_change(self.value):
            message = f"cannot set '{name}' attribute of immutable type '{type_name(self.value)}'"
            tx.raise_observed(TypeError, message)
        if type_lookup(type(self.value), name) is not None or (name.startswith("__") and name.endswith("__")):
            unsupported("class changed", f"setting `{name}` of {self}")
        tx.side_effects.store_attr(self.canonical(tx), name, value)

    def var_delattr(self, tx, name):
        unsupported("class changed", f"deleting `{name}` of {self}")

    # --- methods of the metaclass -------------------------------------------------------------------
    def call_method(self, tx, name, args, kwargs):
        if self.is_enum() and hasattr(type(self.value), name) and tx.can_fold(self, args, kwargs):
            return tx.fold(getattr(type(self.value), name), [self, *args], kwargs)
        if name.startswith("__") and name.endswith("__"):
            found = class_lookup(tx, type(self.value), name)
            if found is not None:
                return descriptor_get(tx, found, self).call_function(tx, list(args), kwargs)
            if name == "__getitem__" and (self.value is type or hasattr(self.value, "__class_getitem__")):
                return tx.fold(operator.getitem, [self, *args], kwargs)
            if name == "__getitem__":
                complain(tx, operator.getitem, type(stand_in(self.value)), None)
        return self.var_getattr(tx, name).call_function(tx, list(args), kwargs)

    def call_descriptor(self, tx, descriptor, args, kwargs):
        """A method of `type` (or `object`) written in C, on this class."""
        if descriptor in (object.__setattr__, object.__delattr__, object.__getattribute__):
            unsupported("class changed", f"`{descriptor.__qualname__}` of {self}")
        handler = TYPE_METHODS.get(descriptor.__name__)
        if handler is None:
            if descriptor.__name__ != "__subclasses__" and tx.can_fold(self, args, kwargs):
                return tx.fold(descriptor, [self, *args], kwargs)
            unsupported("method written in C", f"`{descriptor.__qualname__}` of {self}")
        return handler(self, tx, args, kwargs)

    def type_setattr(self, tx, args, kwargs):
        self.store(tx, attribute_name(tx, args[0]), args[1])
        return tx.build(None)

    def type_init(self, tx, args, kwargs):
        if len(args) not in (1, 3):
            complain(tx, type.__init__, type, *[()] * len(args))
        return tx.build(None)

    def type_eq(self, tx, args, kwargs):
        other = args[0].realize()
        same = other.is_python_constant() and other.as_python_constant() is self.value
        return tx.build(True if same else NotImplemented)

    def type_instancecheck(self, tx, args, kwargs):
        cls = claimed_class(tx, args[0].realize())
        descriptors.guard_mro(tx, cls)
        return tx.build(self.value in cls.__mro__)

    def truth(self, tx):
        return truth_by_method(tx, self)

    def iterate(self, tx):
        return tx.build_list(self.unpack(tx)).iterate(tx) if self.is_enum() else self.iterate_by_method(tx)

    def iterate_by_method(self, tx):
        found = class_lookup(tx, type(self.value), "__iter__")
        if found is None:
            tx.raise_observed(TypeError, f"'{type_name(type(self.value))}' object is not iterable")
        return descriptor_get(tx, found, self).call_function(tx, [], {}).realize()

    def unpack(self, tx):
        return [tx.build(member) for member in self.value] if self.is_enum() else super().unpack(tx)

    # --- making objects -----------------------------------------------------------------------------
    def call_function(self, tx, args, kwargs):
        if self.is_enum() and not kwargs and tx.can_fold(self, args, kwargs) and self.has_member(args):
            return tx.fold(self.value, args, kwargs)
        if self.value is super:
            return make_super(tx, *args)
        found = class_lookup(tx, type(self.value), "__call__")
        if not isinstance(found.attribute, types.WrapperDescriptorType) or found.attribute.__name__ != "__call__":
            return descriptor_get(tx, found, self).call_function(tx, list(args), kwargs)
        return self.construct(tx, args, kwargs)

    def has_member(self, args):
        """Whether a call of the enum looks up a member, or ends in code of enum's own."""
        cls, values = self.value, [a.as_python_constant() for a in args]
        if type(cls).__call__ is not enum.EnumMeta.__call__ or not cls._member_map_:
            return False
        members = [member._value_ for member in cls] if len(values) == 1 else []
        return cls._missing_.__func__.__module__ == "enum" or any(m == v for m in members for v in values)

    def construct(self, tx, args, kwargs):
        """`type.__call__(cls, *args, **kwargs)`."""
        if isinstance(self.value, type(torch.FloatTensor)):
            return make_typed_tensor(tx, self.value, args, kwargs)
        constant = id(self.value) in CONSTANT_CLASSES or issubclass(self.value, FOLDED_CLASSES)
        if constant and tx.can_fold(None, args, kwargs):
            return tx.fold(self.value, args, kwargs)
        if self.value.__flags__ & DISALLOW_INSTANTIATION:
            complain(tx, self.value)
        new = class_lookup(tx, self.value, "__new__")
        instance = descriptor_get(tx, new, None).call_function(tx, [self, *args], kwargs).realize()
        cls = instance.python_type()
        if self.value in cls.__mro__:
            init = class_lookup(tx, cls, "__init__")
            result = descriptor_get(tx, init, instance).call_function(tx, list(args), kwargs).realize()
            if not result.is_python_constant() or result.as_python_constant() is not None:
                message = f"__init__() should return None, not '{type_name(result.python_type())}'"
                tx.raise_observed(TypeError, message)
        return instance


# by their ids: no metaclass of the user's compares or hashes
CONSTANT_CLASSES = {id(cls) for cls, wrapper in WRAPPERS.items() if wrapper is wrap_constant}
TYPE_METHODS = {
    "__call__": UserDefinedClassVariable.construct,
    "__setattr__": UserDefinedClassVariable.type_setattr,
    "__getattribute__": lambda self, tx, args, kwargs: self.var_getattr(tx, attribute_name(tx, args[0])),
    "__eq__": UserDefinedClassVariable.type_eq,
    "__instancecheck__": UserDefinedClassVariable.type_instancecheck,
    "__init__": UserDefinedClassVariable.type_init,
    "fromkeys": lambda self, tx, args, kwargs: tx.inline(polyfills.fromkeys, [self, *args], kwargs),
}


FACTS = ("__getattribute__", "__mro__", "__name__", "__qualname__", "__flags__", "__dictoffset__")


def hides_facts(cls):
    """Whether its metaclass has code of its own for what capture reads of every class."""
    written_in_c = types.WrapperDescriptorType, types.GetSetDescriptorType, types.MemberDescriptorType
    meta = type(cls)
    return meta is not type and not all(isinstance(type_lookup(meta, n).attribute, written_in_c) for n in FACTS)


@wraps_if(lambda value: hides_facts(value if issubclass(type(value), type) else type(value)), order=1)
def refuse_class(output, value, source):
    unsupported("introspection", f"a metaclass says by itself what `{', '.join(FACTS)}` of its classes are")


@wraps_if(lambda value: value is super, order=5)
@wraps_if(lambda value: issubclass(type(value), type), order=90)
def wrap_class(output, value, source):
    output.guard("is", source, value)
    if value.__mro__ is None:
        unsupported("class definition", f"`{value.__qualname__}` is being made and has no bases yet")
    descriptors.check_names(value)
    return UserDefinedClassVariable(value, source)


class NewVariable(ValueVariable):
    """`X.__new__` of a class written in C, such as `object.__new__` or `tuple.__new__`."""

    def call_function(self, tx, args, kwargs):
        if not args:
            tx.raise_observed(TypeError, f"{type_name(self.value.__self__)}.__new__(): not enough arguments")
        cls, base = args[0].realize(), self.value.__self__
        if not issubclass(cls.python_type(), type):
            message = f"{type_name(base)}.__new__(X): X is not a type object ({type_name(cls.python_type())})"
            tx.raise_observed(TypeError, message)
        cls = cls.as_python_constant()
        if not issubclass(cls, base) or new_in_c(cls) is not self.value:
            complain(tx, self.value, cls)  # unless it is the same under another name
        return new_object(tx, base, cls, list(args[1:]), kwargs)


def new_in_c(cls):
    """The `__new__` of the class, or of the first base that has one in C; None where that makes no objects."""
    while not is_new(dict_of(cls).get("__new__")):
        if cls.__flags__ & DISALLOW_INSTANTIATION:
            return None
        cls = cls.__base__
    return dict_of(cls)["__new__"]


def is_new(value):
    is_method = issubclass(type(value), types.BuiltinFunctionType) and isinstance(value.__self__, type)
    return is_method and value.__name__ == "__new__"


wraps_if(is_new, order=10)(guarded("is", NewVariable))


def new_object(tx, base, cls, args, kwargs):
    """`base.__new__(cls, *args, **kwargs)` for a `base` written in C: an object without attributes yet."""
    if can_change(cls) and type_lookup(cls, "__del__") is not None:
        unsupported("object with a finalizer", f"{cls.__name__} defines __del__, which runs when an object dies")
    if base in PLAIN_BASES:
        return new_plain_object(tx, cls, args, kwargs)
    if issubclass(base, BaseException):
        return exceptions.new_exception(tx, cls, args)
    if base is _random.Random:
        return random_numbers.new_random(tx, cls)
    if base is torch._C.TensorBase:
        return tensor_subclasses.new_tensor(tx, cls, args, kwargs)
    if base in builtin_subclasses.BASES:
        return builtin_subclasses.new(tx, base, cls, args, kwargs)
    unsupported("class written in C", f"making a {cls.__name__} calls `{base.__name__}.__new__`, which is written in C")


def new_plain_object(tx, cls, args, kwargs):
    if args or kwargs:
        new, init = class_lookup(tx, cls, "__new__"), class_lookup(tx, cls, "__init__")
        if new.owner not in PLAIN_BASES or init.owner is object:
            message = f"{type_name(cls)}() takes no arguments"
            if new.owner is not object:
                message = "object.__new__() takes exactly one argument (the type to instantiate)"
            tx.raise_observed(TypeError, message)
    if cls.__flags__ & IS_ABSTRACT:
        try:
            object.__new__(cls)
        except TypeError as error:
            tx.raise_observed(TypeError, *error.args)
    instance = (NNModuleVariable if issubclass(cls, nn.Module) else UserDefinedObjectVariable)(cls)
    tx.side_effects.new_object(instance)
    return instance


IS_ABSTRACT, DISALLOW_INSTANTIATION = 1 << 20, 1 << 7  # CPython's Py_TPFLAGS


# --- super ------------------------------------------------------------------------------------------
class SuperVariable(VariableTracker):
    """`super(cls, instance)`: attributes from the classes behind `cls` in the MRO."""

    holds = ("instance",)

    def __init__(self, cls, instance):
        super().__init__()
        self.cls, self.instance = cls, instance

    def python_type(self):
        return super

    def var_getattr(self, tx, name):
        """What is behind `cls`, else what the object `super(...)` has itself."""
        instance, start = self.instance, self.instance.python_type()
        if self.cls not in start.__mro__:  # `super(C, cls)` in a class method or in `__new__`
            instance, start = None, self.instance.as_python_constant()
        found = class_lookup(tx, start, name, after=self.cls) if name != "__class__" else None
        if found is not None:
            return descriptor_get(tx, found, instance)
        own = {"__class__": super, "__thisclass__": self.cls, "__self_class__": start, "__self__": self.instance}
        if name in own:
            return tx.build(own[name]) if name != "__self__" else self.instance
        if type_lookup(super, name) is not None:
            unsupported("method written in C", f"`{name}` of {self}")
        tx.raise_observed(AttributeError, f"'super' object has no attribute '{name}'")

    def call_method(self, tx, name, args, kwargs):
        return self.var_getattr(tx, name).call_function(tx, list(args), kwargs)

    def call_descriptor(self, tx, descriptor, args, kwargs):
        unsupported("method written in C", f"`{descriptor.__qualname__}` of {self}, not of what is behind it")

    def reconstruct(self, codegen):
        codegen.call(super, self.cls, self.instance)


def arguments_of_super(tx):
    """What `super()` takes from its frame: the class that the function was written in, and its first argument."""
    if not tx.code.co_argcount:
        tx.raise_observed(RuntimeError, "super(): no arguments")
    first, cells = tx.code.co_varnames[0], tx.cells
    instance = tx.locals.get(first) or (first in cells and cells[first].load(tx))
    if not instance:
        tx.raise_observed(RuntimeError, "super(): arg[0] deleted")
    if "__class__" not in cells:
        tx.raise_observed(RuntimeError, "super(): __class__ cell not found")
    cls = cells["__class__"].load(tx)
    if cls is None:
        tx.raise_observed(RuntimeError, "super(): empty __class__ cell")
    return cls, instance


def make_super(tx, *args):
    """`super()` or `super(cls, instance)`."""
    if not args:
        args = arguments_of_super(tx)
    if len(args) != 2:
        unsupported("builtin on an unknown value", "`super(cls)` with one argument")
    cls, instance = args[0].realize(), args[1].realize()
    if not issubclass(cls.python_type(), type):
        tx.raise_observed(TypeError, f"super() argument 1 must be a type, not {type_name(cls.python_type())}")
    value = cls.as_python_constant()
    if value not in instance.python_type().__mro__:
        if not issubclass(instance.python_type(), type) or value not in instance.as_python_constant().__mro__:
            unsupported(
                "builtin on an unknown value", f"`super({value.__name__}, ...)` of what may be no instance of it"
            )
    return SuperVariable(value, instance)
