"""VariableTracker: what the translator knows about one Python value while it runs a frame on stand-ins.

Goes in: a value with the `Source` it came from (guarded), or a value that capture itself made (`source is None`).
Comes out: answers to what Python can ask of a value (attribute, call, item, truth, iteration), each either a new
VariableTracker, an `ObservedException` (the program raises here), or `Unsupported` (the graph breaks here).
Mirrors `torch/_dynamo/variables/base.py`.  Taught in chapters 03 and 06.

One Python object is one VariableTracker: `a is b` is answered by comparing trackers, and mutable trackers are changed
in place after `tx.side_effects.mutated(self)`.  A break re-runs capture from the start of the frame, so nothing has to
be undone.
"""

import collections
import reprlib
import weakref

import torch

from ... import errors
from ..break_kinds import BREAK_KINDS, break_error
from ..guard_checks import spelled
from ..polyfills.text import type_name


class ObservedException(Exception):
    """The captured program raises: `variable` is the tracker of its exception object.

    again: the frame that raises anew what it caught, which leaves context and traceback as they are.
    stated: by a `raise`, so that an object is raised; 3.11 makes that of other errors only where one is caught.
    """

    def __init__(self, variable, again=None, stated=False):
        super().__init__(repr(variable))
        self.variable, self.again = variable, again
        self.stated = stated or again is not None
        self.has_context = again is not None


class NotConstant(errors.Unsupported):
    """`as_python_constant` on a value that is not known at capture time: a break, where nobody expects it."""

    def __init__(self, variable):
        kind = "builtin on an unknown value"
        super().__init__(kind, f"a constant is needed, not a {type(variable).__name__}", BREAK_KINDS[kind].hint)


_questions = []


HEAP_TYPE, IMMUTABLE_TYPE = 1 << 9, 1 << 8  # Py_TPFLAGS_*
flags_of = type.__dict__["__flags__"].__get__  # past a metaclass that says something else


def can_change(cls):
    """Whether a program may give the class other attributes: not those written in C."""
    return flags_of(cls) & (HEAP_TYPE | IMMUTABLE_TYPE) == HEAP_TYPE


_made = weakref.WeakValueDictionary()  # by id: what a metaclass of the user's compares or hashes is not asked


def mark_made(cls):
    """The class is a model of one that the program makes anew at each call."""
    _made[id(cls)] = cls


def is_made(cls):
    return _made.get(id(cls)) is cls


KEYWORDS = {  # of exceptions: what their `__init__` takes by name
    ImportError: [name for name in ("name", "path", "name_from") if hasattr(ImportError, name)],
    AttributeError: ("name", "obj"),
    NameError: ("name",),
}


def fields_of(cls):
    """The names of the fields that an exception of this class can be given by keyword."""
    return next((names for base, names in KEYWORDS.items() if issubclass(cls, base)), ())


# they say by themselves what they cannot add, or be made of
OWN_WORDS = (int, str, bytes, bytearray, list, tuple, set, dict, collections.deque)


def stand_in(cls, **namespace):
    """An object that can nothing, of a class with this one's name."""
    if cls is torch.Size:  # nothing can derive from it
        return cls()
    base = next((base for base in OWN_WORDS if issubclass(cls, base)), object)
    return type(type_name(cls), (base,), {"__slots__": (), **namespace})()


class as_observed:
    """What CPython says of wrong arguments, the captured program hears.  Keep the block to one call into C.

    No generator: the frame that throws into one would keep the error, and so all frames of capture, in a cycle.
    """

    HEARD = (TypeError, ValueError, LookupError, ArithmeticError, AttributeError, MemoryError)

    def __init__(self, tx):
        self.tx = tx

    def __enter__(self):
        return self

    def __exit__(self, kind, error, traceback):
        if isinstance(error, self.HEARD):
            self.tx.raise_observed(kind, *error.args)


def complain(tx, function, /, *args, **kwargs):
    """The program hears what CPython says of these arguments, or of some that stand for them."""
    with as_observed(tx):
        function(*args, **kwargs)


def refuse_arguments(tx, function, args):
    """The program hears what CPython says of so many."""
    complain(tx, function, *[()] * len(args))


def is_question():
    """Whether somebody only asks if a value is a constant: then nothing becomes a guard."""
    return bool(_questions)


def unsupported(kind, explanation, hint=""):
    """Break the graph here.  kind: a row of break_kinds.py, which knows a hint too.  explanation: what was met here."""
    raise break_error(kind, explanation, hint)


# Methods that do more than to answer: they are not to be called during capture.
ACTS = ("__call__", "__setattr__", "__delattr__", "__setstate__", "__set__", "__delete__", "__set_name__")


class VariableTracker:
    """Base class; every answer here is the one for a value that supports nothing.

    Subclasses add `method_<name>(self, tx, *args, **kwargs)` to support a method (`method_append`,
    `method___getitem__`, ...): `call_method` finds it by name.
    """

    source = None
    cls = None  # the class of the value
    has_identity = False  # whether the program can tell it from another one that is equal
    whole = None  # of the contents of an object that derives from list, dict or set: the object
    holds = ()  # names of its attributes that are trackers
    maker = None  # what makes the value anew, called with `children()`

    def __init__(self, source=None):
        self.source = source

    # --- what it is ---------------------------------------------------------------------------------
    def realize(self):
        """The tracker behind a LazyVariable; itself otherwise.  Looking at a value guards it."""
        return self

    def python_type(self):
        return self.cls

    def is_python_constant(self):
        _questions.append(self)
        try:
            self.as_python_constant()
            return True
        except NotConstant:
            return False
        finally:
            _questions.pop()

    def as_python_constant(self):
        """The Python value itself, for constants and containers of constants.  Raises NotConstant."""
        raise NotConstant(self)

    def as_proxy(self):
        """The argument of an FX node: a Proxy, a constant, or a list, tuple, dict or slice of those."""
        if self.is_python_constant():
            return self.as_python_constant()
        unsupported("operator argument", f"{self} cannot be an argument of a graph operation")

    def as_item(self):
        """The same in a list, tuple or slice that is an argument."""
        return self.as_proxy()

    def builtin_part(self, tx):
        """What C code reads of it: the contents, where its class derives from a builtin (no `__iter__` is asked)."""
        return self

    def as_operand(self):
        """What the methods of a number or a text see of it as an argument."""
        return self

    def is_immutable(self):
        """True where identity does not matter (numbers, strings, ...): such values need no alias guard."""
        return not self.has_identity and self.is_python_constant()

    def has_torch_function(self):
        """Whether its class (or that of an element) has a `__torch_function__` of its own."""
        return False

    def is_literal(self):
        """Whether bytecode can load it as a constant."""
        return self.is_immutable() and self.is_python_constant()

    def key(self):
        """What stands for this value as a dict key or set element: hashable, equal where the values are equal."""
        if self.is_python_constant():
            return self.as_python_constant()
        cls = self.python_type()
        if self.has_identity and cls.__hash__ is object.__hash__ and cls.__eq__ is object.__eq__:
            return self  # equal only to itself
        unsupported("key with its own equality", f"{self}, whose class compares, as a key or set element")

    # --- what Python can do with it -----------------------------------------------------------------
    def var_getattr(self, tx, name):
        """`self.name`.  Raises ObservedException(AttributeError) where the value has no such attribute."""
        if hasattr(type(self), f"method_{name}"):
            from .functions import BuiltinMethodVariable

            return BuiltinMethodVariable(self, name)
        if self.is_python_constant():
            return tx.constant_getattr(self, name)
        unsupported("attribute written in C", f"attribute `{name}` of {self}")

    def special_method(self, tx, name):
        """The method that a statement calls, such as `__enter__`; None where there is none."""
        return self.var_getattr(tx, name) if hasattr(self.python_type(), name) else None

    def var_setattr(self, tx, name, value):
        unsupported("attribute write", f"setting attribute `{name}` of {self}")

    def has_instance_dict(self):
        """Whether it holds attributes of its own in a plain `__dict__`."""
        return False

    def var_delattr(self, tx, name):
        unsupported("attribute write", f"deleting attribute `{name}` of {self}")

    def call_function(self, tx, args, kwargs):
        """`self(*args, **kwargs)` with trackers (args: list, kwargs: dict by name)."""
        from .descriptors import class_lookup

        if class_lookup(tx, cls := self.python_type(), "__call__") is None:
            tx.raise_observed(TypeError, f"'{type_name(cls)}' object is not callable")
        unsupported("function written in C", f"calling {self}")

    def call_method(self, tx, name, args, kwargs):
        """`self.name(*args, **kwargs)`: the `method_<name>` handler, or constant folding, or a break."""
        handler = getattr(self, f"method_{name}", None)
        if handler is not None:
            return handler(tx, *args, **kwargs)
        if name in ACTS:
            return self.act(tx, name, args, kwargs)
        if tx.can_fold(self, args, kwargs):
            return tx.fold(getattr(self.as_python_constant(), name), args, kwargs)
        method = self.var_getattr(tx, name)
        if getattr(method, "instance", None) is self and getattr(method, "name", "") == name:  # would ask here again
            unsupported("method written in C", f"`{name}` of {self} with a value that is not known during capture")
        return method.call_function(tx, args, kwargs)

    def act(self, tx, name, args, kwargs):
        """One of ACTS, written in C, called by its name."""
        if name == "__call__":
            return self.call_function(tx, list(args), kwargs)
        attribute = args[0].realize() if args else self
        if name not in ("__setattr__", "__delattr__") or attribute.python_type() is not str:
            unsupported("method written in C", f"`{name}` of {self}")
        change = self.var_setattr if name == "__setattr__" else self.var_delattr
        change(tx, attribute.as_python_constant(), *args[1:])
        return tx.build(None)

    def call_descriptor(self, tx, descriptor, args, kwargs):
        """A method taken from the class (`list.append`), called with this object first."""
        if getattr(self.python_type(), descriptor.__name__, None) is not descriptor:  # `object.__repr__(5)`
            unsupported("method written in C", f"`{descriptor.__qualname__}` of {self}, whose class has its own")
        return self.call_method(tx, descriptor.__name__, args, kwargs)

    def truth(self, tx):
        """`bool(self)` as a Python bool; a tensor raises Unsupported("data-dependent branch")."""
        if hasattr(self, "method___len__"):  # of a container nothing else is looked at
            return bool(self.method___len__(tx).as_python_constant())
        return bool(self.as_python_constant()) if self.is_python_constant() else True

    def iterate(self, tx):
        """`iter(self)`: a tracker with `next(tx)`, which raises ObservedException(StopIteration) at the end."""
        tx.raise_observed(TypeError, f"'{type_name(self.python_type())}' object is not iterable")

    def next(self, tx):
        tx.raise_observed(TypeError, f"'{type_name(self.python_type())}' object is not an iterator")

    def unpack(self, tx):
        """`list(self)`: the trackers of all elements.  Containers override this by their own list."""
        return self.iterate(tx).drain(tx)

    def drain(self, tx):
        """The elements that this iterator has yet."""
        items = []
        while True:
            try:
                items.append(self.next(tx))
            except ObservedException as stop:
                if not tx.exception_matches(stop, StopIteration):
                    raise
                return items

    def listed(self, tx):
        """`[*self]`: as `unpack`, where an object is asked how many there will be."""
        self.measure(tx)
        return self.unpack(tx)

    def measure(self, tx):
        """What a list or tuple asks of what it is made of: how much room it will need.  Only a method can tell."""

    # --- how to have it again -----------------------------------------------------------------------
    def reconstruct(self, codegen):
        """Emit bytecode that makes the value anew (only asked when there is no source and no temporary)."""
        if self.maker is not None:
            return codegen.call(self.maker, *self.children())
        if self.is_python_constant():
            return codegen.load_const(self.as_python_constant())
        unsupported("value across a break", f"{self} is needed after a graph break")

    def children(self):
        """Trackers that `reconstruct` will ask for (graph outputs are collected through this)."""
        return [getattr(self, name) for name in self.holds]

    def held(self):
        """Trackers of all that a container holds."""
        return self.children()

    def __repr__(self):
        return f"{type(self).__name__}({self.source.name if self.source else ''})"

    def __str__(self):
        """In the user's words, for reports: `3`, `Linear`, `self.layer` (a Linear), a tensor."""
        value = self.as_python_constant() if self.is_python_constant() else None
        if isinstance(value, (int, float, complex, str, bytes, tuple)):
            return spelled(value, reprlib.repr)
        if hasattr(value, "__qualname__"):
            return f"`{value.__qualname__}`"
        kind = f"a value of type {self.python_type().__name__}"
        return kind if self.source is None else f"`{self.source.name}` ({kind})"


class ValueVariable(VariableTracker):
    """Stands for one object that is there during capture: `value`, a function, a class, a module."""

    def __init__(self, value, source=None):
        super().__init__(source)
        self.value = value

    def python_type(self):
        return type(self.value)

    def as_python_constant(self):
        return self.value

    def __repr__(self):
        name = getattr(self.value, "__qualname__", None)
        return f"{type(self).__name__}({name})" if name else super().__repr__()


class LazyVariable(VariableTracker):
    """A value nobody has looked at yet: not guarded, not wrapped.  Moving it about keeps it lazy."""

    def __init__(self, output, value, source):
        super().__init__(source)
        self.output, self.value, self.variable = output, value, None

    def realize(self):
        if self.variable is None:
            self.variable = self.output.wrap(self.value, self.source).realize()
        return self.variable

    def __repr__(self):
        return repr(self.variable) if self.variable is not None else f"LazyVariable({self.source and self.source.name})"

    def __str__(self):
        untouched = self.variable is None and self.source is not None
        return f"`{self.source.name}`" if untouched else str(self.realize())


def _delegate(name):
    def method(self, *args, **kwargs):
        return getattr(self.realize(), name)(*args, **kwargs)

    method.__name__ = name
    return method


for _name in (
    "python_type is_python_constant as_operand builtin_part is_immutable has_torch_function is_literal "
    "as_python_constant as_proxy as_item key "
    "var_getattr var_setattr var_delattr call_function call_method truth iterate next unpack listed drain measure "
    "reconstruct children"
).split():
    setattr(LazyVariable, _name, _delegate(_name))
