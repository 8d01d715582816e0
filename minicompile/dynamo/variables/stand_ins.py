"""Objects of classes written in C whose polyfill is a class: `itertools.chain`, what `functools.lru_cache` makes.

Goes in: a call of the polyfill's class, in place of the original one.  Comes out: an object that behaves by the
polyfill's methods, says that it is one of the original class, and is one of that class where it leaves the frame.
Mirrors `torch/_dynamo/variables/iter.py` (ItertoolsVariable).  Taught in chapter 06.
"""

from ..break_kinds import break_error
from ..builder import wraps_if
from ..nested_breaks import step_to_break_at
from ..polyfills.originals import ORIGINALS
from .base import type_name, unsupported
from .classes import UserDefinedClassVariable, wrap_class
from .descriptors import class_lookup, descriptor_get, is_data_descriptor, type_lookup
from .functions import BuiltinMethodVariable
from .objects import UserDefinedObjectVariable
from .wrong_calls import check_count


def is_descriptor(found):
    return type_lookup(type(found.attribute), "__get__") is not None


class PolyfillClassVariable(UserDefinedClassVariable):
    """A class of a polyfill with a row in ORIGINALS."""

    def call_function(self, tx, args, kwargs):
        check_count(tx, ORIGINALS[self.value].cls, args, kwargs)
        made = StandInVariable(self.value, step_to_break_at(tx))
        descriptor_get(tx, class_lookup(tx, self.value, "__init__"), made).call_function(tx, args, kwargs)
        return made


@wraps_if(lambda value: type(value) is type and value in ORIGINALS, order=80)
def wrap_polyfill_class(output, value, source):
    return PolyfillClassVariable(value, wrap_class(output, value, source).source)


class StandInVariable(UserDefinedObjectVariable):
    """cls: the polyfill's class; state: what only its methods see; made_at: the step before which a break must come
    for the original to be made in eager."""

    def __init__(self, cls, made_at):
        super().__init__(cls)
        self.original, self.made_at, self.state = ORIGINALS[cls], made_at, {}

    def python_type(self):
        return self.original.cls

    def has_instance_dict(self):
        return type_lookup(self.original.cls, "__dict__") is not None

    # --- attributes ---------------------------------------------------------------------------------
    def var_getattr(self, tx, name):
        if tx.is_polyfill():
            return self.state[name] if name in self.state else super().var_getattr(tx, name)
        if name == "__class__":
            return tx.build(self.original.cls)
        if name == "__dict__" and self.has_instance_dict():
            tx.side_effects.new_object(self)
            return self.view()
        stored = self.stored_attribute(tx, name)
        if stored is not None:
            return stored
        original = type_lookup(self.original.cls, name)
        if original is None:
            message = f"'{type_name(self.original.cls)}' object has no attribute '{name}'"
            tx.raise_observed(AttributeError, message)
        if name in self.state:
            return self.state[name]
        if not is_descriptor(original):  # `__doc__`
            return tx.build(original.attribute)
        if class_lookup(tx, self.cls, name) is None:
            unsupported("attribute written in C", f"`{name}` of {self}")
        return BuiltinMethodVariable(self, name)

    def var_setattr(self, tx, name, value):
        if tx.is_polyfill():
            tx.side_effects.mutated(self)
            self.state[name] = value
            return
        found = type_lookup(self.original.cls, name)
        if not self.has_instance_dict() or (found is not None and is_data_descriptor(found.attribute)):
            unsupported("attribute write", f"setting `{name}` of {self}")
        tx.side_effects.new_object(self)
        tx.side_effects.store_attr(self, name, value)

    def var_delattr(self, tx, name):
        unsupported("attribute write", f"deleting `{name}` of {self}")

    def call_method(self, tx, name, args, kwargs):
        """Of the original's methods, those that the polyfill has."""
        found = None if self.stored_attribute(tx, name) is not None else class_lookup(tx, self.cls, name)
        original = type_lookup(self.original.cls, name)
        if found is not None and original is not None and not tx.is_polyfill():
            if name == "__init__" and original.owner is object:  # which has nothing to do
                return tx.build(None)
            if found.owner is object and original.owner is not object:
                unsupported("method written in C", f"`{name}` of {self}")
        if found is None or not (tx.is_polyfill() or (original is not None and is_descriptor(original))):
            return self.var_getattr(tx, name).call_function(tx, list(args), kwargs)
        return descriptor_get(tx, found, self).call_function(tx, list(args), kwargs)

    def call_descriptor(self, tx, descriptor, args, kwargs):
        has_it = descriptor.__objclass__ is self.original.cls and class_lookup(tx, self.cls, descriptor.__name__)
        if has_it or descriptor is object.__init__:
            return self.call_method(tx, descriptor.__name__, args, kwargs)
        return super().call_descriptor(tx, descriptor, args, kwargs)

    # --- how to have it again -----------------------------------------------------------------------
    def children(self):
        return [self.state[name] for name in self.original.state]

    def reconstruct(self, codegen):
        if "results" in self.state and self.has_cached():
            text = "a cache cannot be filled with what it has got during capture"
            error = break_error("value across a break", text)
            error.step = self.made_at
            raise error
        codegen.call(self.original.again, *self.children())

    def has_cached(self):
        """Whether a cache has been used."""
        return any(self.state[name].as_python_constant() for name in ("hits", "misses")) or self.state["results"].items

    def __repr__(self):
        return f"StandInVariable({self.original.cls.__qualname__})"
