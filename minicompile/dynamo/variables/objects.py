"""Objects of user-defined classes: CPython's attribute protocol on what capture knows.

Goes in: an existing object with its source, or an object that the captured program makes (`value` None).
Comes out: attributes, special methods, writes (recorded in SideEffects), and the object anew where it is needed.
Mirrors `torch/_dynamo/variables/user_defined.py`.  Taught in chapter 06.

Guards: the type of the object once, attributes as they are read, "lacks_attribute" where a class attribute was taken
because the instance has none, "class_lacks" where nobody has it.
"""

import threading
import types

import torch

from .. import polyfills
from ..builder import wraps, wraps_if
from ..guard_checks import slot_is_unset
from ..skip_files import attributes_of, dict_reader
from ..source import AttrSource, CallSource, ConstantSource, ItemSource
from . import descriptors
from .base import ObservedException, VariableTracker, type_name, unsupported
from .descriptors import class_lookup, descriptor_get, dict_source, past_program, type_lookup
from .instance_dict import DictEntry, InstanceDictVariable, entry_key
from .refusals import answered, attribute_name, refuse, refuse_attribute, refuse_none, unset_slot
from .tables import METHOD_POLYFILLS, PLAIN_BASES


def placed(value, source):
    """The source of an existing object; one that was reached without a path is held by the code itself."""
    return source if source is not None else ConstantSource(value, f"<{type(value).__name__} object>")


class UserDefinedObjectVariable(VariableTracker):
    """An object whose class may be written in Python.  value: the object, or None when capture made it."""

    has_identity = True

    def __init__(self, cls, value=None, source=None):
        super().__init__(source)
        self.cls, self.value, self.dict_view = cls, value, None

    def has_torch_function(self):
        return type_lookup(self.cls, "__torch_function__") is not None

    def __repr__(self):
        return f"{type(self).__name__}({self.cls.__qualname__}{', ' + self.source.name if self.source else ''})"

    # --- special methods ----------------------------------------------------------------------------
    def python_method(self, tx, name):
        """The Found of special method `name` if a class written in Python defines it, else None.

        `__setattr__ = dict.__setitem__` does so too: a method written in C, but not under its own name.
        """
        found = class_lookup(tx, self.cls, name)
        c_method = (types.WrapperDescriptorType, types.MethodDescriptorType, types.BuiltinFunctionType)
        if found is None or isinstance(found.attribute, c_method) and found.attribute.__name__ == name:
            return None
        return found

    def special_method(self, tx, name):
        """`type(self).name`, bound; None if there is none.  What the object itself holds does not count."""
        found = class_lookup(tx, self.cls, name)
        if found is not None and found.attribute is None:
            refuse_none(tx, self.cls, name)
        if found is None or found.attribute is None:
            return None
        return descriptor_get(tx, found, self)

    def call_special(self, tx, name, args=(), kwargs=None, skipped=None):
        """`type(self).name(self, *args)`, looked up on the type as the interpreter does; None if there is none.

        skipped: of a method that a call of the object hands on to, the frames in between.
        """
        method = self.special_method(tx, name)
        if method is None:
            return None
        if skipped is not None:
            tx.hands_on(self, method, skipped)
        return method.call_function(tx, list(args), kwargs or {})

    def call_method(self, tx, name, args, kwargs):
        if name.startswith("__") and name.endswith("__"):
            result = self.call_special(tx, name, args, kwargs)
            if result is None:
                tx.raise_observed(AttributeError, f"'{type_name(self.cls)}' object has no attribute '{name}'")
            return result
        return self.var_getattr(tx, name).call_function(tx, args, kwargs)

    def call_function(self, tx, args, kwargs):
        result = self.call_special(tx, "__call__", args, kwargs, skipped=())
        if result is None:
            tx.raise_observed(TypeError, f"'{type_name(self.cls)}' object is not callable")
        return result

    def truth(self, tx):
        for name in ("__bool__", "__len__"):
            answer = self.call_special(tx, name)
            if answer is not None:
                return tx.truth(answered(tx, bool, name, answer))
        return True

    def iterate(self, tx):
        iterator = self.call_special(tx, "__iter__")
        if iterator is not None:
            kind = iterator.realize().python_type()
            if class_lookup(tx, kind, "__next__") is None:
                tx.raise_observed(TypeError, f"iter() returned non-iterator of type '{type_name(kind)}'")
            return iterator.realize()
        if class_lookup(tx, self.cls, "__getitem__") is not None:
            from .iterators import IndexIterator

            return IndexIterator(self, 0, 1)
        tx.raise_observed(TypeError, f"'{type_name(self.cls)}' object is not iterable")

    def next(self, tx):
        result = self.call_special(tx, "__next__")
        if result is None:
            tx.raise_observed(TypeError, f"'{type_name(self.cls)}' object is not an iterator")
        return result

    def listed(self, tx):
        iterator = self.iterate(tx)
        self.measure(tx)
        return iterator.drain(tx)

    def measure(self, tx):
        if self.python_method(tx, "__len__") is not None or self.python_method(tx, "__length_hint__") is not None:
            tx.inline(polyfills.measure, [self])

    def hashes_by_method(self, tx):
        """Whether a `__hash__` or `__eq__` written in Python decides which keys are equal."""
        found = [class_lookup(tx, self.cls, name) for name in ("__hash__", "__eq__")]
        return any(isinstance(f.attribute, types.FunctionType) for f in found)

    # --- attributes ---------------------------------------------------------------------------------
    def var_getattr(self, tx, name):
        try:
            if self.python_method(tx, "__getattribute__") is not None:
                return self.call_special(tx, "__getattribute__", [tx.build(name)])
            return self.generic_getattr(tx, name)
        except ObservedException as error:
            if self.python_method(tx, "__getattr__") is None or not tx.exception_matches(error, AttributeError):
                raise
        return self.missing_attribute(tx, name)

    def missing_attribute(self, tx, name):
        return self.call_special(tx, "__getattr__", [tx.build(name)])

    def generic_getattr(self, tx, name):
        """`object.__getattribute__(self, name)`."""
        found = class_lookup(tx, self.cls, name)
        if descriptors.goes_first(found):
            return descriptor_get(tx, found, self)
        stored = self.stored_attribute(tx, name)
        if stored is not None:
            return stored
        self.guard_lacks(tx, name)
        if found is not None:
            return descriptor_get(tx, found, self)
        untouched = self.value is not None and tx.side_effects.load_attr(self, name) is None
        in_python = any(self.python_method(tx, n) is not None for n in ("__getattr__", "__getattribute__"))
        if untouched and not in_python and hasattr(self.value, name):
            unsupported("attribute written in C", f"`{name}` of {self} is found by C code")
        tx.raise_observed(AttributeError, f"'{type_name(self.cls)}' object has no attribute '{name}'")

    def instance_dict(self):
        """The `__dict__` that the existing object had before capture."""
        return attributes_of(self.value) if self.value is not None else {}

    def view(self):
        """The tracker of the `__dict__` itself."""
        if self.dict_view is None:
            self.dict_view = InstanceDictVariable(self, dict_source(self.source, self.cls))
        return self.dict_view

    def has_instance_dict(self):
        found = dict_reader(self.cls) is not None
        if not found and self.cls.__dictoffset__:  # of a TypeVarTuple, or of a class with a `__dict__` of its own
            unsupported("attribute written in C", f"{self} has a __dict__ that is hidden")
        return found

    def stored_attribute(self, tx, name):
        """What the instance itself holds under `name`, pending writes first; None if nothing."""
        key = entry_key(self.cls, name)
        pending = tx.side_effects.load_attr(self, key)
        if pending is not None:
            return None if pending is tx.side_effects.DELETED else pending
        attributes = self.instance_dict()
        if name not in attributes:
            return None
        plain = key == name
        source = self.attribute_source(name) if plain else ItemSource(dict_source(self.source, self.cls), name)
        return tx.output.lazy(attributes[name], source)

    def attribute_source(self, name):
        """Where the instance attribute can be read again without running user code."""
        getter = past_program(self.cls, "__getattribute__")
        return AttrSource(self.source, name) if getter is None else CallSource(self.source, getter, (name,))

    def guard_lacks(self, tx, name):
        if self.source is not None and self.has_instance_dict() and name not in self.instance_dict():
            tx.guard("lacks_attribute", self.source, name)

    def c_attribute(self, tx, found):
        """Read a slot, `__dict__`, `__class__`, or an attribute implemented in C."""
        name = found.name
        if name == "__class__":
            return tx.build(self.cls)
        if name == "__dict__":
            return self.view()
        pending = tx.side_effects.load_attr(self, name)
        if pending is None and self.value is not None:
            try:
                value = found.attribute.__get__(self.value, self.cls)
            except AttributeError:
                if isinstance(found.attribute, types.MemberDescriptorType):
                    tx.guard("slot_unset", self.source, found.attribute)
                pending = tx.side_effects.DELETED
            except Exception as error:  # such as one of a user's method that the C code asks
                unsupported("attribute written in C", f"reading `{name}` raises {type(error).__name__}")
            else:
                return tx.output.lazy(value, self.attribute_source(name))
        if pending is tx.side_effects.DELETED or isinstance(found.attribute, types.MemberDescriptorType):
            if pending is None or pending is tx.side_effects.DELETED:
                unset_slot(tx, self.cls, name)
        if pending is None:
            unsupported("attribute written in C", f"`{name}` of a {self.cls.__name__} made during capture")
        return pending

    def var_setattr(self, tx, name, value):
        if self.python_method(tx, "__setattr__") is not None:
            self.call_special(tx, "__setattr__", [tx.build(name), value])
        else:
            self.generic_setattr(tx, name, value)

    def generic_setattr(self, tx, name, value):
        """`object.__setattr__(self, name, value)`."""
        found = class_lookup(tx, self.cls, name)
        if descriptors.descriptor_set(tx, found, self, value):
            return
        if not self.has_instance_dict():
            refuse_attribute(tx, setattr, self, name, None)
        tx.side_effects.store_attr(self, name, value)

    def store_c_attribute(self, tx, found, *values):
        """Write a slot, or a field of an autograd context (no value: delete it)."""
        slot = isinstance(found.attribute, types.MemberDescriptorType) and descriptors.can_change(found.owner)
        field = slot or found.owner is torch._C._FunctionBase  # others may be read-only
        if not field or found.name.startswith("__"):
            unsupported("attribute written in C", f"setting `{found.name}` of {self}")
        if values:
            tx.side_effects.store_attr(self, found.name, values[0])
        else:
            try:
                self.c_attribute(tx, found)
            except ObservedException:  # it is not set
                unset_slot(tx, self.cls, found.name, delattr)
            self.forget(tx, found.name)

    def var_delattr(self, tx, name):
        if self.python_method(tx, "__delattr__") is not None:
            self.call_special(tx, "__delattr__", [tx.build(name)])
        else:
            self.generic_delattr(tx, name)

    def generic_delattr(self, tx, name):
        found = class_lookup(tx, self.cls, name)
        if descriptors.descriptor_delete(tx, found, self):
            return
        if self.stored_attribute(tx, name) is None:
            self.guard_lacks(tx, name)
            if not self.has_instance_dict():
                refuse_attribute(tx, delattr, self, name)
            tx.raise_observed(AttributeError, f"'{type_name(self.cls)}' object has no attribute '{name}'")
        self.forget(tx, name)

    def forget(self, tx, name):
        """Delete an attribute that the instance holds (or a DictEntry); one that capture gave it just goes away."""
        found = type_lookup(self.cls, name)
        slot = found is not None and isinstance(found.attribute, types.MemberDescriptorType)
        entry = name.name if isinstance(name, DictEntry) else name
        if not slot and entry in self.instance_dict():
            tx.guard("has_key", dict_source(self.source, self.cls), entry)
        elif slot and self.value is not None and not slot_is_unset(self.value, found.attribute):
            tx.guard("present", self.source and self.attribute_source(name))
        else:
            tx.guard("slot_unset", self.source, found.attribute) if slot else self.guard_lacks(tx, entry)
            del tx.side_effects.pending_attributes(self)[name]
            return
        tx.side_effects.delete_attr(self, name)

    # --- methods that `object` itself defines --------------------------------------------------------
    def call_descriptor(self, tx, descriptor, args, kwargs):
        """A method written in C, called with this object as `self`."""
        handler = OBJECT_METHODS.get(descriptor.__name__) if descriptor.__objclass__ is object else None
        if descriptor in METHOD_POLYFILLS:
            return tx.inline(METHOD_POLYFILLS[descriptor], [self, *args], kwargs)
        if handler is None:
            unsupported("method written in C", f"`{descriptor.__qualname__}` of {self}")
        return handler(self, tx, *(a.realize() for a in args), **kwargs)

    def object_init(self, tx, /, *args, **kwargs):
        new, init = type_lookup(self.cls, "__new__"), type_lookup(self.cls, "__init__")
        if (args or kwargs) and (init.owner is not object or new.owner is object):
            word = "object" if init.owner is not object else type_name(self.cls)
            tx.raise_observed(TypeError, f"{word}.__init__() takes exactly one argument (the instance to initialize)")
        return tx.build(None)

    def object_setattr(self, tx, name, value):
        self.generic_setattr(tx, attribute_name(tx, name), value)
        return tx.build(None)

    def object_delattr(self, tx, name):
        self.generic_delattr(tx, attribute_name(tx, name))
        return tx.build(None)

    def object_ne(self, tx, other):
        equal = self.call_special(tx, "__eq__", [other])
        if equal.is_python_constant() and equal.as_python_constant() is NotImplemented:
            return equal
        return tx.build(not tx.truth(equal))

    def object_format(self, tx, spec):
        if not issubclass(spec.python_type(), str):
            refuse(tx, object().__format__, spec)
        if spec.as_python_constant():
            message = f"unsupported format string passed to {type_name(self.python_type())}.__format__"
            tx.raise_observed(TypeError, message)
        return tx.call(str, self)

    # --- how to have it again -----------------------------------------------------------------------
    def reconstruct(self, codegen):
        """`object.__new__(cls)`; its attributes are set when every new object is there."""
        codegen.call(next(base for base in self.cls.__mro__ if base in PLAIN_BASES).__new__, self.cls)


def share_attributes(output, tracker):
    """The object and its `__dict__` are one store: whoever meets the dict later gets the view of the object."""
    if dict_reader(tracker.cls) is not None and isinstance(attributes_of(tracker.value), dict):
        if any(type(name) is not str for name in attributes_of(tracker.value)):
            unsupported("instance __dict__", f"the __dict__ of {tracker} has keys that are no plain strings")
        if output.known(attributes_of(tracker.value)) is not None:
            unsupported("instance __dict__", f"the __dict__ of {tracker} is also used as a dict")
        output.remember(attributes_of(tracker.value), tracker.view())
    return tracker


def wrapped_as(tracker_class):
    """A wrapper that guards the class of an object; what else is of it is guarded where it is looked at."""

    def wrapper(output, value, source):
        output.guard("type", source, type(value))
        return tracker_class(type(value), value, placed(value, source))

    return wrapper


@wraps_if(lambda value: True, order=100)
def wrap_object(output, value, source):
    output.guard("type", source, type(value))
    descriptors.check_names(type(value))
    return share_attributes(output, UserDefinedObjectVariable(type(value), value, placed(value, source)))


OBJECT_METHODS = {
    "__init__": UserDefinedObjectVariable.object_init,
    "__getattribute__": lambda self, tx, name: self.generic_getattr(tx, attribute_name(tx, name)),
    "__setattr__": UserDefinedObjectVariable.object_setattr,
    "__delattr__": UserDefinedObjectVariable.object_delattr,
    "__eq__": lambda self, tx, other: tx.build(True if self is other else NotImplemented),
    "__ne__": UserDefinedObjectVariable.object_ne,
    **dict.fromkeys(("__lt__", "__le__", "__gt__", "__ge__"), lambda self, tx, other: tx.build(NotImplemented)),
    "__str__": lambda self, tx: self.call_special(tx, "__repr__"),
    "__format__": UserDefinedObjectVariable.object_format,
}


def kept_by_thread(local):
    return threading.local.__getattribute__(local, "__dict__")


class ThreadLocalVariable(UserDefinedObjectVariable):
    """A `threading.local()` (torch's default device): what this thread keeps, in a dict that C code finds."""

    def instance_dict(self):
        return kept_by_thread(self.value) if self.value is not None else {}

    def has_instance_dict(self):
        return True

    def guard_lacks(self, tx, name):
        tx.guard("equals", CallSource(CallSource(self.source, kept_by_thread), dict.__contains__, (name,)), False)


wraps(threading.local)(wrapped_as(ThreadLocalVariable))
