"""Constants whose classes the program wrote: folding a call of C code on one would run the program's methods once,
during capture.

Goes in: a constant.  Comes out: whether its class, or its metaclass, has special methods that C code may ask for.  Such
calls are inlined, or break.  PyTorch has no such file: torch.compile has no constants of this kind.
Taught in chapter 06.
"""

import sys
import types

from .base import can_change
from .descriptors import dict_of, mro_of

NOT_ASKED = (  # by what is folded; those of texts are looked after where texts are made
    "__init__ __new__ __call__ __prepare__ __getattr__ __getattribute__ __setattr__ __delattr__ __class_getitem__ "
    "__instancecheck__ __subclasscheck__ __init_subclass__ __set_name__ __dir__ __str__ __repr__ __format__ __reduce__ "
    "__reduce_ex__ __copy__ __deepcopy__ __enter__ __exit__ __get__ __set__ __delete__"
).split()
PURE = {*sys.stdlib_module_names, "torch"}


def calls_back(value):
    """Whether C code that gets this constant may run methods of the program: those of an enum, or of a metaclass."""
    cls = type(value)
    if cls in (tuple, list, set, frozenset):
        return any(map(calls_back, value))
    if cls is dict:
        return any(map(calls_back, (*value, *value.values())))
    return cls is not type and can_change(cls) and any(map(has_own_methods, mro_of(cls)))


def has_own_methods(owner):
    """An enum has those of `enum.Flag` and the like in its own `__dict__`."""
    written = [(name, value) for name, value in dict_of(owner).items() if type(value) is types.FunctionType]
    special = [value for name, value in written if name[:2] == "__" and name not in NOT_ASKED]
    return any(str(method.__module__).partition(".")[0] not in PURE for method in special)
