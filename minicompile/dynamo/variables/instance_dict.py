"""`obj.__dict__` as a live view of what an instance holds.

Goes in: the tracker of the object.  Comes out: dict methods that read and write its attributes past any `__setattr__`.
Single names are guarded as "has_key" or "lacks_attribute", a look at all of it as "keys".
Mirrors the `__dict__` handling of `torch/_dynamo/variables/user_defined.py`.  Taught in chapter 06.
"""

import dataclasses

from ..skip_files import attributes_of
from .base import VariableTracker, refuse_arguments, unsupported
from .descriptors import is_data_descriptor, type_lookup


@dataclasses.dataclass(frozen=True)
class DictEntry:
    """Among the attributes that were written: `__dict__[name]`, where a descriptor of the class answers for `name`."""

    name: str


def entry_key(cls, name):
    """The key among the attributes that were written of `__dict__[name]`, of an instance."""
    found = type_lookup(cls, name)
    return DictEntry(name) if found is not None and is_data_descriptor(found.attribute) else name


class InstanceDictVariable(VariableTracker):
    """`obj.__dict__`: a view of the attributes that the instance holds; writes are attribute writes."""

    cls = dict
    has_identity = True
    holds = ("owner",)

    def __init__(self, owner, source=None):
        super().__init__(source)
        self.owner = owner

    def names(self, tx):
        """The attribute names in order, pending writes included; guards the existing ones."""
        existing = self.owner.instance_dict()
        tx.guard("keys", self.source, list(existing))
        pending, moved = tx.side_effects.pending_attributes(self.owner), tx.side_effects.moved.get(self.owner, ())
        stayed = [key for key in map(self.key, existing) if key not in moved]
        written = [key for key in pending if isinstance(key, DictEntry) or self.key(key) == key]  # else it is a slot
        kept = [key for key in dict.fromkeys((*stayed, *written)) if pending.get(key) is not tx.side_effects.DELETED]
        return [key.name if isinstance(key, DictEntry) else key for key in kept]

    def key(self, name):
        """Of an entry, among the attributes that were written."""
        return entry_key(self.owner.cls, name)

    def lookup(self, tx, name):
        """The attribute's tracker or None; guarded either way."""
        name = name.as_python_constant()
        found = self.owner.stored_attribute(tx, name)
        if found is None:
            self.owner.guard_lacks(tx, name)
        elif tx.side_effects.load_attr(self.owner, self.key(name)) is None:
            tx.guard("has_key", self.source, name)
        return found

    def snapshot(self, tx):
        """An ordinary dict with the same contents."""
        result = tx.build({})
        for name in self.names(tx):
            result.call_method(tx, "__setitem__", [tx.build(name), self.owner.stored_attribute(tx, name)], {})
        return result

    def call_method(self, tx, name, args, kwargs):
        handler = getattr(self, f"method_{name}", None)
        if handler is not None:
            return handler(tx, *args, **kwargs)
        if name in ("popitem", "clear", "__ior__"):
            unsupported("instance __dict__", f"`{name}` on the __dict__ of {self.owner}")
        return self.snapshot(tx).call_method(tx, name, args, kwargs)

    def var_getattr(self, tx, name):
        from .functions import BuiltinMethodVariable

        return BuiltinMethodVariable(self, name)

    def method___getitem__(self, tx, name):
        found = self.lookup(tx, name)
        if found is None:
            tx.raise_observed(KeyError, name.as_python_constant())
        return found

    def method_get(self, tx, name, default=None):
        return self.lookup(tx, name) or default or tx.build(None)

    def method___contains__(self, tx, name):
        return tx.build(self.lookup(tx, name) is not None)

    def method___setitem__(self, tx, name, value):
        tx.side_effects.store_attr(self.owner, self.key(name.as_python_constant()), value)
        return tx.build(None)

    def method___delitem__(self, tx, name):
        self.method___getitem__(tx, name)
        self.owner.forget(tx, self.key(name.as_python_constant()))
        return tx.build(None)

    def method_setdefault(self, tx, name, default=None):
        found = self.lookup(tx, name)
        if found is None:
            found = default or tx.build(None)
            self.method___setitem__(tx, name, found)
        return found

    def method_pop(self, tx, name, default=None):
        found = self.lookup(tx, name)
        if found is not None:
            self.method___delitem__(tx, name)
        elif default is None:
            tx.raise_observed(KeyError, name.as_python_constant())
        return found or default

    def method_update(self, tx, /, *args, **kwargs):
        if len(args) > 1:
            refuse_arguments(tx, {}.update, args)
        changes = tx.call(dict, *args)
        for name in changes.unpack(tx):
            self.method___setitem__(tx, name, changes.call_method(tx, "__getitem__", [name], {}))
        for name, value in kwargs.items():
            self.method___setitem__(tx, tx.build(name), value)
        return tx.build(None)

    def method_copy(self, tx):
        return self.snapshot(tx)

    method___copy__ = method_copy

    def method___len__(self, tx):
        return tx.build(len(self.names(tx)))

    def view(self, kind):
        from .dict_views import InstanceDictView

        return InstanceDictView(self, kind)

    def method_keys(self, tx):
        return self.view("keys")

    def method_values(self, tx):
        return self.view("values")

    def method_items(self, tx):
        return self.view("items")

    def iterate(self, tx):
        return self.view("keys").iterate(tx)

    def unpack(self, tx):
        return [tx.build(name) for name in self.names(tx)]

    def reconstruct(self, codegen):
        codegen.call(attributes_of, self.owner)  # which no method or property of the user's answers for
