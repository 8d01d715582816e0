"""Views of a dict (`d.keys()`, `d.values()`, `d.items()`) and read-only proxies during capture.

Goes in: the tracker of the dict.  Comes out: answers that see its later changes.
Mirrors `torch/_dynamo/variables/dicts.py`.  Taught in chapter 06.
"""

import gc
import operator
import types

from ..builder import wraps
from ..source import CallSource
from .base import VariableTracker, complain, unsupported
from .constant import COMPARISONS, BuiltinObject, ConstantVariable
from .iterators import IteratorVariable, KeyedIterator, dict_element

COMPARISON_METHODS = {f"__{name}__" for name in COMPARISONS}
SET_METHODS = {"isdisjoint", *COMPARISON_METHODS}
SET_METHODS |= {f"__{reflected}{name}__" for name in ("and", "or", "sub", "xor") for reflected in ("", "r")}
SETS = (set, frozenset, type({}.keys()), type({}.items()))  # a view is equal to nothing else


class DictView(BuiltinObject):
    """`d.keys()`, `d.values()`, `d.items()`: sees later changes of the dict."""

    holds = ("owner",)

    def __init__(self, owner, kind):
        super().__init__()
        self.owner, self.kind = owner, kind

    def python_type(self):
        return type(getattr(self.owner.cls(), self.kind)())

    def unpack(self, tx):
        return [self.element(tx, pair) for pair in self.owner.look(tx).values()]

    def element(self, tx, pair):
        return tx.build_tuple(list(pair)) if self.kind == "items" else pair[self.kind == "values"]

    def iterate(self, tx):
        return KeyedIterator(tx, self.owner, self.kind)

    method___iter__ = iterate

    def method___len__(self, tx):
        return self.owner.method___len__(tx)

    def method___reversed__(self, tx):
        return KeyedIterator(tx, self.owner, self.kind, backwards=True)

    def method___contains__(self, tx, item):
        if self.kind == "keys":
            return self.owner.method___contains__(tx, item)
        return tx.build_list(self.unpack(tx)).method___contains__(tx, item)

    def call_method(self, tx, name, args, kwargs):
        """Keys and items are sets in that they compare and combine."""
        if self.kind == "values" or name not in SET_METHODS:
            return super().call_method(tx, name, args, kwargs)
        from .sets import SetVariable

        if name in COMPARISON_METHODS and not issubclass(args[0].python_type(), SETS):
            return ConstantVariable(NotImplemented)
        args = [a.realize() if isinstance(a.realize(), SetVariable) else tx.call(set, a) for a in args]
        answer = SetVariable.of(tx, self.unpack(tx)).call_method(tx, name, args, kwargs)
        if isinstance(answer, SetVariable):
            answer = answer.copied(set)
            if self.kind == "keys":  # in what order, CPython says
                answer.real = getattr(dict.fromkeys(self.owner.items).keys(), name)(args[0].real)
        return answer

    @property
    def maker(self):
        return getattr(self.owner.cls, self.kind)


class InstanceDictView(VariableTracker):
    """`vars(obj).keys()` and its like: each question is answered by the contents as they are then."""

    has_identity = True
    holds = ("owner",)

    def __init__(self, owner, kind):
        super().__init__()
        self.owner, self.kind, self.maker = owner, kind, getattr(dict, kind)

    def python_type(self):
        return type(self.maker({}))

    def now(self, tx):
        """The view of a dict with the same contents."""
        return DictView(self.owner.snapshot(tx), self.kind)

    def truth(self, tx):
        return self.now(tx).truth(tx)

    def iterate(self, tx):
        return InstanceDictIterator(tx, self)

    def var_getattr(self, tx, name):
        return self.now(tx).var_getattr(tx, name)

    def call_method(self, tx, name, args, kwargs):
        return self.iterate(tx) if name == "__iter__" else self.now(tx).call_method(tx, name, args, kwargs)


class InstanceDictIterator(IteratorVariable):
    """Hears when the attributes change: `names` are those at its start; `inner` is what it is across a break."""

    def __init__(self, tx, view):
        super().__init__()
        self.view, self.names, self.inner = view, view.owner.names(tx), view.now(tx).iterate(tx)

    def python_type(self):
        return self.inner.python_type()

    def advance(self, tx):
        position, names = self.inner.position, self.view.owner.names(tx)
        if position is not KeyedIterator.EXHAUSTED and len(names) != len(self.names):
            tx.raise_observed(RuntimeError, "dictionary changed size during iteration")
        if position is not KeyedIterator.EXHAUSTED and names != self.names:
            unsupported("instance __dict__", f"other attributes of {self.view.owner.owner} while it is iterated over")
        if self.inner.advance(tx) is None:
            return None
        name = names[position]
        value = self.view.owner.owner.stored_attribute(tx, name)
        return dict_element(tx, (tx.build(name), value), self.view.kind)

    def children(self):
        return (self.inner,)

    def reconstruct(self, codegen):
        codegen(self.inner)


class MappingProxyVariable(BuiltinObject):
    """`types.MappingProxyType(d)`: reads go to the dict."""

    cls = maker = types.MappingProxyType
    holds = ("owner",)

    def __init__(self, owner, source=None):
        super().__init__(source)
        self.owner = owner

    def truth(self, tx):
        return self.owner.truth(tx)

    def iterate(self, tx):
        return self.owner.iterate(tx)

    def unpack(self, tx):
        return self.owner.unpack(tx)

    def call_method(self, tx, name, args, kwargs):
        if name not in vars(types.MappingProxyType):
            return super().call_method(tx, name, args, kwargs)
        if name == "__ior__":
            complain(tx, operator.ior, types.MappingProxyType({}), {})
        if name in COMPARISON_METHODS:
            return tx.call(getattr(operator, name.strip("_")), self.owner, *args)
        if name in ("__or__", "__ror__"):  # CPython asks one proxy, then the other
            args = [a.realize().owner if isinstance(a.realize(), MappingProxyVariable) else a for a in args]
            return tx.call(operator.or_, *([self.owner, *args] if name == "__or__" else [*args, self.owner]))
        return self.owner.call_method(tx, name, args, kwargs)


@wraps(types.MappingProxyType)
def wrap_mapping_proxy(output, value, source):
    owner = proxied(value)
    if not isinstance(owner, dict):
        unsupported("builtin on an unknown value", "a mapping proxy of a mapping that is no dict")
    output.guard("type", source, types.MappingProxyType)
    return MappingProxyVariable(output.wrap(owner, CallSource(source, proxied) if source is not None else None), source)


def proxied(proxy):
    """The mapping behind a mapping proxy."""
    return gc.get_referents(proxy)[0]
