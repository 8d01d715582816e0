"""What objects say of themselves to `copy`, whose own functions are inlined: `__reduce_ex__`, written in Python.

See polyfills/__init__.py.
"""

import collections
import copyreg
import operator
import struct

import torch

from . import attributes_of


def reduce_ex(self, protocol, /):
    """`object.__reduce_ex__`."""
    protocol = operator.index(protocol)
    if not -(2**31) <= protocol < 2**31:
        raise OverflowError("Python int too large to convert to C int")
    cls, reduce = type(self), self.__reduce__
    if cls.__reduce__ is not object.__reduce__:
        return reduce()
    if protocol < 2 or not is_all_told(cls):
        return reduced_in_c(self, protocol)
    args, kwargs = new_arguments(self, cls)
    made = (copyreg.__newobj_ex__, (cls, args, kwargs)) if kwargs else (copyreg.__newobj__, (cls, *args))
    items = iter(self) if issubclass(cls, list) else None
    return *made, self.__getstate__(), items, iter(self.items()) if issubclass(cls, dict) else None


def new_arguments(self, cls):
    """What `__new__` of the class is to be given, by position and by name: checked, as the C code does."""
    if not hasattr(cls, "__getnewargs_ex__"):
        args = self.__getnewargs__() if hasattr(cls, "__getnewargs__") else ()
        return of_type(tuple, args, "__getnewargs__ should return a tuple"), {}
    both = of_type(tuple, self.__getnewargs_ex__(), "__getnewargs_ex__ should return a tuple")
    if len(both) != 2:
        raise ValueError(f"__getnewargs_ex__ should return a tuple of length 2, not {len(both)}")
    item = "item of the tuple returned by __getnewargs_ex__ must be a"
    return of_type(tuple, both[0], f"first {item} tuple"), of_type(dict, both[1], f"second {item} dict")


def of_type(cls, value, expectation):
    if not isinstance(value, cls):
        raise TypeError(f"{expectation}, not '{type(value).__name__:.200}'")
    return value


def reduced_in_c(value, protocol):
    """Folded for constants; what is no constant breaks the graph."""
    return object.__reduce_ex__(value, protocol)


def is_all_told(cls):
    """Whether attributes, slots and contents are all that its objects have: nothing is hidden in C.

    The size of an object tells, which is what CPython goes by before it says that it cannot pickle one.
    """
    base = next(base for base in cls.__mro__ if base in (dict, list, tuple, object))
    pointers = len(copyreg._slotnames(cls)) + (cls.__weakrefoffset__ > 0)
    pointers += cls.__dictoffset__ != 0 and not cls.__flags__ & MANAGED_DICT
    return cls.__basicsize__ <= base.__basicsize__ + pointers * struct.calcsize("P")


MANAGED_DICT = 1 << 4  # Py_TPFLAGS_MANAGED_DICT: it lies before the object


def get_state(self, /):
    """`object.__getstate__`."""
    try:
        attributes = attributes_of(self) or None
    except AttributeError:
        attributes = None
    slots = {}
    for name in copyreg._slotnames(type(self)):
        try:
            slots[name] = getattr(self, name)
        except AttributeError:
            continue
    return (attributes, slots) if slots else attributes


def reduce_deque(self, /):
    return type(self), () if self.maxlen is None else ((), self.maxlen), self.__getstate__(), iter(self)


def reduce_ordered_dict(self, /):
    return type(self), (), self.__getstate__(), None, iter(self.items())


def reduce_default_dict(self, /):
    factory = self.default_factory
    return type(self), () if factory is None else (factory,), None, None, iter(self.items())


def reduce_set(self, /):
    return type(self), (list(self),), self.__getstate__()


def reduce_slice(self, /):
    return type(self), (self.start, self.stop, self.step)


def reduce_size(self, /):
    return type(self), (tuple(self),)


POLYFILLS = {
    object.__reduce_ex__: reduce_ex,
    object.__getstate__: get_state,
    collections.deque.__reduce__: reduce_deque,
    collections.OrderedDict.__reduce__: reduce_ordered_dict,
    collections.defaultdict.__reduce__: reduce_default_dict,
    set.__reduce__: reduce_set,
    frozenset.__reduce__: reduce_set,
    slice.__reduce__: reduce_slice,
    torch.Size.__reduce__: reduce_size,
}
