"""Objects of user classes that derive from list, dict, tuple, str, int, ...: a builtin's contents plus attributes.

Goes in: such an object, existing or made by `base.__new__`.  Comes out: the attribute protocol of objects.py, where a
method written in C works on `base`, the tracker of the contents alone.  Hugging Face's ModelOutput (an OrderedDict and
a dataclass) is one.  Mirrors UserDefinedDictVariable and its like in `torch/_dynamo/variables/user_defined.py`.
Taught in chapter 06.
"""

import collections
import functools

from ..builder import wraps_if
from ..skip_files import attributes_of
from ..source import CallSource, ItemSource
from .base import can_change, complain, stand_in, unsupported
from .constant import ConstantVariable
from .containers import ListVariable, wrap_deque
from .descriptors import class_lookup, descriptor_set, dict_reader, type_lookup
from .dicts import wrap_dict
from .objects import UserDefinedObjectVariable, placed, share_attributes
from .tuples import NamedTupleVariable, TupleVariable, is_named_tuple_class
from .wrong_calls import check_count

SEQUENCES = (list, tuple, collections.deque)
MAPPINGS = (dict, collections.OrderedDict, collections.defaultdict)
SETS = (set, frozenset)
SCALARS = {int: int.__int__, float: float.__float__, str: str.__str__}  # each gives the plain value
BASES = (*SEQUENCES, *MAPPINGS, *SETS, *SCALARS)
KEEP_CLASS = (collections.deque, collections.OrderedDict, collections.defaultdict)  # their copies have the subclass
IMMUTABLE = (tuple, frozenset, *SCALARS)
ASKING = ("__init__", "update", "setdefault", "pop", "popitem", "__ior__")  # of OrderedDict: they ask the object itself


class DerivedText(str):
    pass


# Methods of str that answer with the very text of a subclass where it stays as it is, and arguments that tell.
FORMATS = {"__format__": None, "partition": None, "rpartition": None, "__mod__": [()], "format": [], "format_map": [{}]}


def with_own_text(tx, text, name, args, result):
    """`result`, of a method of str; in it, the object `text` itself where CPython has it."""
    derived = DerivedText(text.contents.value)
    arguments = FORMATS[name] if FORMATS[name] is not None else [arg.realize().as_python_constant() for arg in args]
    try:
        answer = getattr(str, name)(derived, *arguments)
    except (LookupError, TypeError, ValueError):
        return result  # it has fields
    if type(answer) is tuple:
        return tx.build_tuple([text if part is derived else tx.build(part) for part in answer])
    return text if answer is derived else result


def iterator_of_derived_text(text):
    """A plain text of ASCII characters has an iterator of another class."""
    return iter(DerivedText(text))


def builtin_base(cls):
    """The class written in C whose contents the objects have, or None."""
    return next((base for base in cls.__mro__ if base in BASES), None)


class BuiltinSubclassVariable(UserDefinedObjectVariable):
    """`base`: the tracker of the contents; its source is the object's own, so that its changes are replayed there."""

    def __init__(self, cls, base_type, base=None, value=None, source=None):
        super().__init__(cls, value, source)
        self.base_type, self.contents = base_type, None
        if base is not None:
            self.hold(base)

    def hold(self, contents):
        self.contents = contents
        if self.base_type not in IMMUTABLE:
            contents.whole = self  # they are one object at run time

    def base(self, tx):
        """The contents; those of an existing mapping or set are read when somebody asks."""
        if self.contents is None:
            self.hold(read_contents(tx, self))
            if self.base_type not in IMMUTABLE:
                self.contents.source = self.source
            if self.base_type in MAPPINGS:
                self.contents.original = dict(self.contents.items)  # what replay compares with
        return self.contents

    builtin_part = base

    def call_descriptor(self, tx, descriptor, args, kwargs):
        owner, name = descriptor.__objclass__, descriptor.__name__
        if owner is object or not issubclass(self.base_type, owner):
            return super().call_descriptor(tx, descriptor, args, kwargs)
        if self.base_type is collections.OrderedDict and name in ASKING and (args or kwargs or name == "popitem"):
            if self.overrides("__setitem__", "__getitem__", "__delitem__", "__contains__"):
                unsupported("subclass of a builtin", f"`{name}` of {self} calls methods that {self.cls.__name__} has")
        base = self.base(tx)
        if name == "__init__":
            return self.c_init(tx, base, args, kwargs)
        if name in ("__setattr__", "__getattribute__", "__delattr__"):
            return super().call_descriptor(tx, getattr(object, name), args, kwargs)
        if name == "__sizeof__" or (name == "__repr__" and not base.is_python_constant()):
            unsupported("builtin on an unknown value", f"`{name}` of {self}")
        if name == "__format__" and self.base_type in SCALARS and args[0].realize().as_python_constant() == "":
            return tx.call(str, self)
        if name == "__getitem__" and self.python_method(tx, "__missing__") is not None:
            if not tx.truth(base.call_method(tx, "__contains__", list(args), {})):
                return self.call_special(tx, "__missing__", args)
        result = base.call_method(tx, name, list(args), kwargs)
        if self.base_type is str and name in FORMATS:
            return with_own_text(tx, self, name, args, result)
        if name == "__iter__" and self.base_type is str:
            result.opener = iterator_of_derived_text
        if self.base_type in KEEP_CLASS and type(result) is type(base) and result is not base:
            unsupported("subclass of a builtin", f"`{name}` of {self} makes another {self.cls.__name__}")
        return self if result is base and self.base_type not in IMMUTABLE else result

    def c_init(self, tx, base, args, kwargs):
        """`dict.__init__(self, ...)` and its like: the contents anew."""
        if self.base_type in IMMUTABLE:
            return tx.build(None)
        named = () if self.base_type in (*MAPPINGS, collections.deque) else kwargs
        if len(args) > 1 and self.base_type in (list, set) or named:
            complain(tx, type(stand_in(self.cls)), *[()] * len(args), **dict.fromkeys(named))
            unsupported("subclass of a builtin", f"making a {self.cls.__name__} of {len(args) + len(named)} arguments")
        return base.call_method(tx, "__init__", list(args), kwargs)

    def c_attribute(self, tx, found):
        if found.owner in BASES and found.name not in ("__class__", "__dict__"):
            return self.base(tx).var_getattr(tx, found.name)
        return super().c_attribute(tx, found)

    def store_c_attribute(self, tx, found, *values):
        """`self.__dict__ = self`, of one that has no attributes yet."""
        is_own = found.name == "__dict__" and len(values) == 1 and values[0].realize() is self
        if not is_own or self.base_type is collections.OrderedDict or self.dict_view or self.view().names(tx):
            return super().store_c_attribute(tx, found, *values)
        tx.side_effects.store_attr(self, "__dict__", self)
        self.__class__ = OwnDictVariable

    def overrides(self, *names):
        """Whether a class written in Python defines one of these methods."""
        return any(can_change(found.owner) for found in (type_lookup(self.cls, name) for name in names) if found)

    def unpack(self, tx):
        plain = type_lookup(self.cls, "__iter__") is not None and not self.overrides("__iter__")
        return self.base(tx).unpack(tx) if plain else super().unpack(tx)

    def as_operand(self):
        return self.contents if self.base_type in SCALARS else self

    def key(self):
        if self.contents is None or self.overrides("__eq__", "__hash__"):
            return super().key()
        if self.base_type in SCALARS:  # an object of its own: `{2}` and `{Number(2)}` hold different ones
            return self.base_type.__new__(self.cls, self.contents.as_python_constant())
        return self.contents.key()

    def as_proxy(self):
        if self.contents is None:
            return super().as_proxy()
        return self.contents.as_proxy()

    # --- how to have it again -----------------------------------------------------------------------
    def reconstruct(self, codegen):
        codegen.call(self.base_type.__new__, self.cls, *([self.contents] if self.base_type in IMMUTABLE else []))

    def fill(self, codegen):
        """The contents of a mutable object that capture made."""
        if self.base_type not in IMMUTABLE:
            self.contents.replay(codegen)
        if self.base_type is collections.defaultdict:
            codegen(self.contents.factory)
            codegen(self)
            codegen.store_attr("default_factory")

    def children(self):
        return self.contents.children() if self.contents is not None else ()


def new(tx, base_type, cls, args, kwargs):
    """`base_type.__new__(cls, *args, **kwargs)`; the arguments of mutable types are for `__init__`."""
    if cls is base_type:
        return tx.build(cls).call_function(tx, *((args, kwargs) if cls in IMMUTABLE else ([], {})))
    base_type = builtin_base(cls)
    if base_type not in IMMUTABLE:
        contents = tx.build(base_type())
    elif is_named_tuple_class(cls):
        return NamedTupleVariable(args[0].unpack(tx) if args else [], cls)
    else:
        own_init = can_change(type_lookup(cls, "__init__").owner) and base_type not in (int, str)
        kwargs = {} if own_init else kwargs
        check_count(tx, subclass_of(base_type, cls.__name__), args, kwargs)
        contents = tx.build(base_type).call_function(tx, args, kwargs)
    instance = BuiltinSubclassVariable(cls, base_type, contents)
    tx.side_effects.new_object(instance)
    return instance


@functools.cache
def subclass_of(base_type, name):
    """One that is asked what CPython says of wrong arguments: it may be another text than the builtin class has."""
    return type(name, (base_type,), {})


READERS = ("__iter__", "__len__", "__getitem__", "__contains__", "keys", "values", "items")


def is_own_dict(value):
    return attributes_of(value) is value


class OwnDictVariable(BuiltinSubclassVariable):
    """A dict with `self.__dict__ = self`: its items are its attributes (`config.size`, `config["size"]`)."""

    def view(self):
        return self

    def instance_dict(self):
        return {}

    def stored_attribute(self, tx, name):
        contents, key = self.base(tx), tx.build(name)
        held = tx.truth(contents.call_method(tx, "__contains__", [key], {}))
        return contents.call_method(tx, "__getitem__", [key], {}) if held else None

    def guard_lacks(self, tx, name):
        """The contents were asked."""

    def generic_setattr(self, tx, name, value):
        if not descriptor_set(tx, class_lookup(tx, self.cls, name), self, value):
            self.base(tx).call_method(tx, "__setitem__", [tx.build(name), value], {})

    def forget(self, tx, name):
        self.base(tx).call_method(tx, "__delitem__", [tx.build(name)], {})


def read_contents(tx, instance):
    """The contents of an existing mapping or set; where its readers are overridden, guarded by a plain copy's keys."""
    value, source = instance.value, instance.source
    if instance.base_type in MAPPINGS and not instance.overrides(*READERS):
        contents = wrap_dict(tx.output, value, source)
        contents.cls = instance.base_type
        return contents
    source = CallSource(source, plain_copy)
    if instance.base_type in SETS:
        return tx.output.wrap(plain_copy(value), CallSource(instance.source, plain_copy)).realize()
    contents = tx.build(instance.base_type())
    tx.guard("keys", source, list(plain_copy(value)))
    for key, item in plain_copy(value).items():
        item = tx.output.lazy(item, ItemSource(source, key))
        contents.call_method(tx, "__setitem__", [tx.build(key), item], {})
    return contents


def plain_copy(value):
    """The contents as a plain builtin; no method of the subclass runs."""
    cls = type(value)
    if issubclass(cls, collections.OrderedDict):
        return dict(collections.OrderedDict.items(value))
    if issubclass(cls, dict):
        return dict(dict.items(value))
    if issubclass(cls, tuple):
        return tuple.__getitem__(value, slice(None))
    base = next(base for base in (list, collections.deque, set, frozenset) if issubclass(cls, base))
    return base(base.__iter__(value))


def wrap_contents(output, value, base_type, source):
    """The contents of an existing sequence or scalar."""
    if base_type in SCALARS:
        plain = SCALARS[base_type]
        output.guard("equals", source and CallSource(source, plain), plain(value))
        return ConstantVariable(plain(value), None)
    if base_type not in SEQUENCES:
        return None
    items = plain_copy(value)
    readers = source
    if any(can_change(type_lookup(type(value), name).owner) for name in ("__getitem__", "__len__")):
        readers = source and CallSource(source, plain_copy)
    output.guard("length", readers, len(items))
    items = [output.lazy(item, readers and ItemSource(readers, index)) for index, item in enumerate(items)]
    if base_type is collections.deque:
        return wrap_deque(output, value, items, source)
    return {list: ListVariable, tuple: TupleVariable}[base_type](items)


@wraps_if(lambda value: builtin_base(type(value)) is not None and type(value) not in BASES, order=70)
def wrap_builtin_subclass(output, value, source):
    cls = type(value)
    output.guard("type", source, cls)
    base_type = builtin_base(cls)
    contents = wrap_contents(output, value, base_type, source)
    if contents is not None and base_type not in IMMUTABLE:
        contents.source = source
    source = placed(value, source)
    if issubclass(cls, dict) and dict_reader(cls) is not None and is_own_dict(value):
        output.guard("equals", CallSource(source, is_own_dict), True)
        if base_type is collections.OrderedDict:
            unsupported("instance __dict__", f"what is set as an attribute of `{source.name}` goes past its order")
        return OwnDictVariable(cls, base_type, contents, value, source)
    return share_attributes(output, BuiltinSubclassVariable(cls, base_type, contents, value, source))
