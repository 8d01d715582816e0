"""Methods written in C of user-defined objects and classes: bound (`object.__setattr__` of an object) and not.

Goes in: what an attribute lookup found.  Comes out: a call of the instance's `call_descriptor`.
Mirrors `torch/_dynamo/variables/misc.py` (MethodWrapperVariable, GetAttrVariable).  Taught in chapter 06.
"""

import collections
import types

from ..builder import wraps_if
from .base import ValueVariable, VariableTracker, as_observed, stand_in, unsupported


class BoundDescriptorVariable(VariableTracker):
    """A method written in C, bound to an object of a user-defined class (`object.__setattr__`, `OrderedDict.keys`)."""

    def __init__(self, instance, descriptor):
        super().__init__()
        self.instance, self.descriptor = instance, descriptor

    def python_type(self):
        return types.MethodWrapperType if self.is_slot() else types.BuiltinMethodType

    def is_slot(self):
        return isinstance(self.descriptor, types.WrapperDescriptorType)

    def call_function(self, tx, args, kwargs):
        return self.instance.call_descriptor(tx, self.descriptor, args, kwargs)

    def var_getattr(self, tx, name):
        if name == "__self__":
            return self.instance
        return tx.build(self.descriptor).var_getattr(tx, name)

    def reconstruct(self, codegen):
        codegen.push_function(self.descriptor.__get__)  # by its name an override would be found
        class_method = isinstance(self.descriptor, types.ClassMethodDescriptorType)
        if class_method:
            codegen.load_const(None)
        codegen(self.instance)
        if not class_method:
            codegen.load_const(self.instance.python_type())  # without it CPython crashes for some (METH_METHOD)
        codegen.call_function(2)

    def children(self):
        return (self.instance,)


class MethodDescriptorVariable(ValueVariable):
    """A method written in C, taken from its class and not bound: `dict.__setitem__`, `object.__init__`."""

    def call_function(self, tx, args, kwargs):
        owner = self.value.__objclass__
        if not args or not issubclass(args[0].realize().python_type(), owner):
            with as_observed(tx):
                self.value(*(stand_in(argument.realize().python_type()) for argument in args[:1]))  # complains
        instance = args[0].realize()
        if owner is dict and issubclass(instance.python_type(), collections.OrderedDict):
            unsupported("subclass of a builtin", f"`{self.value.__qualname__}` goes past the order of {instance}")
        if hasattr(instance, "call_descriptor"):
            return instance.call_descriptor(tx, self.value, list(args[1:]), kwargs)
        return instance.call_method(tx, self.value.__name__, list(args[1:]), kwargs)


@wraps_if(lambda value: issubclass(type(value), (types.MethodDescriptorType, types.WrapperDescriptorType)))
def wrap_method_descriptor(output, value, source):
    output.guard("is", source, value)
    return MethodDescriptorVariable(value, source)
