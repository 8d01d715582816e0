"""Attribute lookup on classes and the descriptor protocol, as CPython's `type_getattro` and friends do it.

Goes in: a class, a name, and what the class lookup found.  Comes out: the tracker that `__get__` would give (functions
bound, property getters inlined, slots read), and writes and deletes sent to `__set__` and `__delete__`.
Mirrors parts of `torch/_dynamo/variables/user_defined.py`.  Taught in chapter 06.

The lookup runs no user code.  What it finds on a class that can change is guarded once for all instances, through a
source that starts at the class: `Layer.forward.__code__ is ...`.
"""

import collections
import functools
import types

from ... import errors
from ..builder import guarded, wraps_if
from ..skip_files import attributes_of, dict_reader
from ..source import AttrSource, CallSource, ConstantSource, ItemSource
from .base import ValueVariable, VariableTracker, can_change, complain, is_made, stand_in, unsupported
from .warned import WarningsAreBreaks
from .wrong_calls import check_count

mro_of = type.__dict__["__mro__"].__get__
dict_of = type.__dict__["__dict__"].__get__

# owner: the class whose dict holds `attribute`; cls: the class the search began at
Found = collections.namedtuple("Found", "cls name owner attribute")


def type_lookup(cls, name, after=None):
    """CPython's `_PyType_Lookup`: a Found, or None.  after: begin behind this class of the MRO (`super`)."""
    mro = mro_of(cls)
    if after is not None:
        mro = mro[mro.index(after) + 1 :]
    for owner in mro:
        namespace = dict_of(owner)
        if name in namespace:
            return Found(cls, name, owner, namespace[name])
    return None


def past_program(cls, name):
    """The interpreter's own `name` (`__setattr__`, ...) for such objects, if the program has put another before it."""
    own = [namespace[name] for namespace in map(dict_of, mro_of(cls)) if name in namespace]
    plain = next(m for m in own if isinstance(m, types.WrapperDescriptorType) and m.__name__ == name)
    return None if plain is own[0] else plain


def dict_source(source, cls):
    """Where the `__dict__` of an instance is read, past any code of the program's; None for one without a path."""
    if source is None:
        return None
    if type_lookup(cls, "__dict__").attribute is dict_reader(cls) and past_program(cls, "__getattribute__") is None:
        return AttrSource(source, "__dict__")
    return CallSource(source, attributes_of)


def check_names(cls):
    """A lookup runs no code of the program, unless a name in the class is no plain string and compares by itself."""
    for owner in filter(can_change, mro_of(cls)):
        if set(map(type, dict_of(owner))) != {str}:
            unsupported("key with its own equality", f"`{owner.__name__}` has an attribute whose name is no string")


def class_lookup(tx, cls, name, after=None):
    """`type_lookup` that also sees attributes which the captured program wrote to classes (then a tracker)."""
    found = type_lookup(cls, name, after)
    effects = tx.side_effects
    for owner in mro_of(cls):
        tracker = tx.output.known(owner)
        pending = effects.load_attr(tracker, name) if tracker is not None else None
        if pending is effects.DELETED:
            unsupported("class changed", f"`{owner.__name__}.{name}` is read after it was deleted")
        if pending is not None:
            if type_lookup(pending.realize().python_type(), "__get__") is not None:
                unsupported("class changed", f"`{owner.__name__}.{name}` is set and used")
            return Found(cls, name, owner, pending)
        if found is not None and owner is found.owner:
            break
    guard_lookup(tx, cls, name, after, found)
    return found


C_METHODS = (types.WrapperDescriptorType, types.MethodDescriptorType, types.BuiltinFunctionType, type(None))


def stays(cls):
    """Whether the class is there at each call, and a program may change it."""
    return can_change(cls) and not is_made(cls)


def guard_lookup(tx, cls, name, after, found):
    """That nothing was found, or a method written in C, is a fact of its own; what else was found is guarded by use."""
    if not can_change(cls):
        return
    of_super, meta_has_it = after is not None, found is None and type_lookup(type(cls), name)
    if of_super or meta_has_it or is_made(cls):
        guard_mro(tx, cls)
        mro = mro_of(cls)
        between = mro[mro.index(after) + 1 if after else 0 : mro.index(found.owner) if found else None]
        for owner in filter(stays, between):
            tx.guard("lacks_key", namespace_source(owner), name)
    elif found is None:
        tx.guard("class_lacks", ConstantSource(cls, cls.__qualname__), name)
    elif isinstance(found.attribute, C_METHODS) and getattr(cls, name) is found.attribute:
        guard_attribute(tx, cls, name)


def guard_attribute(tx, cls, name):
    """The attribute that the class has, by itself or from a base, stays the same object."""
    if stays(cls):
        tx.guard("is", AttrSource(ConstantSource(cls, cls.__qualname__), name), getattr(cls, name))


def guard_mro(tx, cls):
    """The bases of the class, and theirs, stay."""
    guard_attribute(tx, cls, "__mro__")
    for base in cls.__bases__ if is_made(cls) else ():
        guard_mro(tx, base)


def class_source(found):
    """Where to read the attribute again; None on a builtin class.  Plain `C.name` where that gives it unbound."""
    start = found.owner if is_made(found.cls) else found.cls
    if not stays(start):
        return None
    plain = isinstance(found.attribute, (types.FunctionType, property, staticmethod, classmethod))
    plain = plain or type_lookup(type(found.attribute), "__get__") is None
    first = type_lookup(found.cls, found.name)  # another class's attribute when `super` looked
    reader = start if first is not None and first.owner is found.owner else found.owner
    if plain and type_lookup(type(reader), found.name) is None:
        return AttrSource(ConstantSource(reader, reader.__qualname__), found.name)
    return entry_source(found)


def entry_source(found):
    """The entry of the class's dict, which no descriptor answers for."""
    return ItemSource(namespace_source(found.owner), found.name)


def namespace_source(cls):
    """The dict of a class, past a metaclass's property of that name."""
    source, plain = ConstantSource(cls, cls.__qualname__), type_lookup(type(cls), "__dict__").owner is type
    return AttrSource(source, "__dict__") if plain else CallSource(source, dict_of)


def value_at(tx, value, source):
    return tx.build(value) if source is None else tx.output.lazy(value, source)


def is_data_descriptor(attribute):
    if isinstance(attribute, VariableTracker):
        return False
    kind = type(attribute)
    return type_lookup(kind, "__set__") is not None or type_lookup(kind, "__delete__") is not None


def goes_first(found):
    """Whether what was found on the class is read before what the instance holds."""
    if found is None or not is_data_descriptor(found.attribute):
        return False
    return type_lookup(type(found.attribute), "__get__") is not None


# --- reading ----------------------------------------------------------------------------------------
def bound_method(function, instance):
    from .functions import BoundMethodVariable

    return BoundMethodVariable(function, instance)


def get_function(tx, found, instance):
    function = value_at(tx, found.attribute, class_source(found))
    return function if instance is None else bound_method(function, instance)


def get_property(tx, found, instance):
    source = class_source(found)
    if instance is None:
        return value_at(tx, found.attribute, source)
    return call_accessor(tx, found, "__get__", instance)


ACCESSORS = {"__get__": "fget", "__set__": "fset", "__delete__": "fdel"}


def call_accessor(tx, found, method, instance, *values):
    """A property that has not got it says so itself, of an object whose class has the same name."""
    function, source = getattr(found.attribute, ACCESSORS[method]), class_source(found)
    if function is None:
        named_alike = type("", (), {"__qualname__": instance.python_type().__qualname__})()
        complain(tx, getattr(property, method), found.attribute, named_alike, *(None for _ in values))
    function = value_at(tx, function, source and AttrSource(source, ACCESSORS[method]))
    return function.call_function(tx, [instance, *values], {})


def get_static(tx, found, instance):
    source = class_source(found)
    if isinstance(source, ItemSource):
        source = AttrSource(source, "__func__")
    return value_at(tx, found.attribute.__func__, source)


CLASS_METHODS_CHAIN = classmethod(property(lambda cls: True)).__get__(None, object) is True  # until 3.12


def get_class_method(tx, found, instance):
    source, wrapped = class_source(found), found.attribute.__func__
    if CLASS_METHODS_CHAIN and type_lookup(type(wrapped), "__get__") and not isinstance(wrapped, types.FunctionType):
        get = value_at(tx, wrapped, source and AttrSource(entry_source(found), "__func__")).var_getattr(tx, "__get__")
        return get.call_function(tx, [tx.build(found.cls), tx.build(found.cls)], {})
    return bound_method(value_at(tx, wrapped, source and AttrSource(source, "__func__")), tx.build(found.cls))


def get_cached_property(tx, found, instance):
    if instance is None:
        return value_at(tx, found.attribute, class_source(found))
    if not instance.has_instance_dict():
        unsupported("attribute write", f"the cached property `{found.name}` has no plain __dict__ to go to")
    name = found.attribute.attrname
    function = value_at(tx, found.attribute.func, AttrSource(class_source(found), "func"))
    value = function.call_function(tx, [instance], {})
    tx.side_effects.store_attr(instance, name, value)
    return value


def get_c_attribute(tx, found, instance):
    """A slot or an attribute implemented in C."""
    if instance is None:
        return value_at(tx, found.attribute, class_source(found))
    return instance.c_attribute(tx, found)


def get_c_method(tx, found, instance):
    if instance is None:
        return tx.build(found.attribute)
    return BoundDescriptorVariable(instance, found.attribute)


def get_c_class_method(tx, found, instance):
    return BoundDescriptorVariable(tx.build(found.cls), found.attribute)


GETTERS = {
    types.FunctionType: get_function,
    property: get_property,
    staticmethod: get_static,
    classmethod: get_class_method,
    functools.cached_property: get_cached_property,
    types.MemberDescriptorType: get_c_attribute,
    types.GetSetDescriptorType: get_c_attribute,
    collections._tuplegetter: get_c_attribute,
    types.MethodDescriptorType: get_c_method,
    types.WrapperDescriptorType: get_c_method,
    types.ClassMethodDescriptorType: get_c_class_method,
}


def descriptor_get(tx, found, instance):
    """The value of an attribute found on the class.  instance: its tracker, or None when read from the class."""
    attribute = found.attribute
    if isinstance(attribute, VariableTracker):
        return attribute
    for kind in mro_of(type(attribute)):
        if kind in GETTERS:
            return GETTERS[kind](tx, found, instance)
    hook = class_lookup(tx, type(attribute), "__get__")
    return value_at(tx, attribute, class_source(found)) if hook is None else call_get(tx, found, instance, hook)


def call_get(tx, found, instance, hook):
    attribute, getter, source = found.attribute, hook.attribute, class_source(found)
    value = value_at(tx, attribute, source)
    tx.guard("is", source, attribute)
    if isinstance(getter, types.FunctionType):
        arguments = [value, instance or tx.build(None), tx.build(found.cls)]
        return tx.inline(value_at(tx, getter, class_source(hook)), arguments, {})
    if not isinstance(getter, (types.WrapperDescriptorType, types.MethodDescriptorType)):
        unsupported("attribute written in C", f"`__get__` of attribute `{found.name}` is a {type(getter).__name__}")
    probe = None if instance is None else object()  # written in C: does it bind like a function, or give itself?
    try:
        with WarningsAreBreaks():
            bound = attribute.__get__(probe, object)
    except errors.Unsupported:
        raise
    except Exception as error:
        unsupported(
            "attribute written in C", f"`__get__` of `{found.name}` raises {type(error).__name__} for a stranger"
        )
    if bound is attribute or instance is None:
        return value
    if isinstance(bound, types.MethodType) and bound.__self__ is probe and bound.__func__ is attribute:
        return bound_method(value, instance)
    unsupported("attribute written in C", f"attribute `{found.name}` is a {type(attribute).__name__} written in C")


# --- writing ----------------------------------------------------------------------------------------
def descriptor_set(tx, found, instance, value):
    """Send a write to the descriptor found on the class; False where there is none that takes it."""
    return _descriptor_write(tx, found, instance, "__set__", value)


def descriptor_delete(tx, found, instance):
    return _descriptor_write(tx, found, instance, "__delete__")


def _descriptor_write(tx, found, instance, method, *values):
    if found is None or not is_data_descriptor(found.attribute):
        return False
    attribute = found.attribute
    hook = class_lookup(tx, type(attribute), method)
    if isinstance(attribute, property) and not isinstance(getattr(hook, "attribute", None), types.FunctionType):
        call_accessor(tx, found, method, instance, *values)
    elif isinstance(attribute, (types.MemberDescriptorType, types.GetSetDescriptorType)):
        instance.store_c_attribute(tx, found, *values)
    elif hook is not None and isinstance(hook.attribute, types.FunctionType):
        arguments = [value_at(tx, attribute, class_source(found)), instance, *values]
        tx.inline(value_at(tx, hook.attribute, class_source(hook)), arguments, {})
    elif hook is None:
        tx.raise_observed(AttributeError, method)
    else:
        unsupported("attribute written in C", f"writing `{found.name}`, a {type(attribute).__name__} written in C")
    return True


class BoundDescriptorVariable(VariableTracker):
    """A method written in C, bound to an object of a user-defined class (`object.__setattr__`, `OrderedDict.keys`)."""

    holds = ("instance",)

    def __init__(self, instance, descriptor, source=None):
        super().__init__(source)
        self.instance, self.descriptor = instance, descriptor

    def python_type(self):
        return types.MethodWrapperType if self.is_slot() else types.BuiltinMethodType

    def is_method_of_class(self):
        return self.descriptor.__objclass__ is type and not self.is_slot()

    def is_slot(self):
        return isinstance(self.descriptor, types.WrapperDescriptorType)

    def call_function(self, tx, args, kwargs):
        is_class = isinstance(self.descriptor, types.ClassMethodDescriptorType) or self.is_method_of_class()
        owner = self.instance.as_python_constant() if is_class else None
        check_count(tx, self.descriptor, args, kwargs, owner)
        return self.instance.call_descriptor(tx, self.descriptor, args, kwargs)

    def var_getattr(self, tx, name):
        if name == "__self__":
            return self.instance
        kind = self.python_type()
        if type_lookup(kind, name) is None:
            tx.raise_observed(AttributeError, f"'{kind.__name__}' object has no attribute '{name}'")
        if name in SHARED or self.is_slot() and name == "__qualname__":
            return tx.build(self.descriptor).var_getattr(tx, name)
        if name == "__qualname__":
            is_class = self.instance.is_python_constant() and isinstance(self.instance.as_python_constant(), type)
            owner = self.instance.as_python_constant() if is_class else self.instance.python_type()
            return tx.build(f"{owner.__qualname__}.{self.descriptor.__name__}")
        if name in ("__module__", "__class__"):
            return tx.build(kind if name == "__class__" else None)
        return super().var_getattr(tx, name)

    def reconstruct(self, codegen):
        # by its name an override would be found; without the class CPython crashes for some (METH_METHOD)
        class_method = isinstance(self.descriptor, types.ClassMethodDescriptorType)
        owner = (None, self.instance) if class_method else (self.instance, self.instance.python_type())
        codegen.call(self.descriptor.__get__, *owner)


SHARED = ("__name__", "__doc__", "__text_signature__", "__objclass__")  # attributes that it has from the descriptor


class MethodDescriptorVariable(ValueVariable):
    """A method written in C, taken from its class and not bound: `dict.__setitem__`, `object.__init__`."""

    def call_function(self, tx, args, kwargs):
        owner = self.value.__objclass__
        if not args or not issubclass(args[0].realize().python_type(), owner):
            complain(tx, self.value, *(stand_in(argument.realize().python_type()) for argument in args[:1]))
        instance = args[0].realize()
        check_count(tx, self.value, args[1:], kwargs)
        if owner is dict and issubclass(instance.python_type(), collections.OrderedDict):
            unsupported("subclass of a builtin", f"`{self.value.__qualname__}` goes past the order of {instance}")
        return instance.call_descriptor(tx, self.value, list(args[1:]), kwargs)


UNBOUND = (types.MethodDescriptorType, types.WrapperDescriptorType)
wraps_if(lambda value: issubclass(type(value), UNBOUND))(guarded("is", MethodDescriptorVariable))
