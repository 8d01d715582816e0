"""What trackers ask of the translator: making values, folding constants, raising, calling, comparing.

Goes in: Python values and trackers.  Comes out: trackers.  Mirrors the helper methods of
`torch/_dynamo/symbolic_convert.py`.  Taught in chapter 03.
"""

import enum
import operator
import sys
import typing

from .. import errors
from . import builder
from .guard_checks import same_constant
from .skip_files import attributes_of
from .source import AttrSource, ConstantSource, GlobalSource, ItemSource
from .variables.base import NotConstant, ObservedException, VariableTracker, fields_of, unsupported
from .variables.called_back import calls_back
from .variables.constant import HAVE_COPIES, MADE_ANEW, BuiltinObject, ConstantVariable, MadeConstantVariable
from .variables.containers import ListVariable
from .variables.dicts import DictVariable
from .variables.functions import BuiltinMethodVariable
from .variables.tuples import TupleVariable, build_sequence
from .variables.varying import VaryingVariable
from .variables.warned import WarningsAreBreaks

ENUM_ATTRIBUTES = ("_name_", "_value_", "_sort_order_", "__objclass__")  # nobody changes these


EVALUATED = {"__bound__", "__constraints__", "__default__", "__value__"}  # when they are read, from 3.12 on
TYPE_PARAMETERS = (typing.TypeVar, typing.ParamSpec, getattr(typing, "TypeAliasType", typing.TypeVar))


def is_container(tracker):
    return isinstance(tracker, BuiltinObject) and not isinstance(tracker, ConstantVariable)


def mutable_parts(value):
    """The lists, dicts and sets in the value of a constant, and the tuples that hold such."""
    inside = value.values() if isinstance(value, dict) else value if isinstance(value, (list, tuple, set)) else ()
    parts = [part for item in inside for part in mutable_parts(item)]
    return [value, *parts] if parts or isinstance(value, (list, dict, set)) else []


class TranslatorServices:
    """Mixin of every translator; `self` is the `tx` of the trackers' methods."""

    # --- making values ------------------------------------------------------------------------------
    def build(self, value):
        """The tracker of a Python value that needs no source."""
        if isinstance(value, VariableTracker):
            return value
        return builder.wrap(self.output, value, None)

    def build_tuple(self, items):
        return TupleVariable(list(items))

    def build_list(self, items):
        return ListVariable(list(items))

    def build_dict(self, items):
        """From a Python dict whose values are trackers; keys are Python constants."""
        result = DictVariable()
        for key, value in items.items():
            result.method___setitem__(self, self.build(key), value)
        return result

    def build_sequence(self, cls, items):
        """What a graph operation returned: list, tuple, or one of torch's named tuples."""
        return build_sequence(cls, items)

    def globals_source_of(self, globals_dict):
        """The source of another module's globals: the dict itself, held by guard and code."""
        return ConstantSource(globals_dict, globals_dict.get("__name__", "globals"))

    def load_global(self, name):
        """A global as the running frame sees it: pending write, module global, then builtin."""
        if self.output.known(self.globals_dict) in self.side_effects.mutated_containers:
            unsupported("introspection", f"the global `{name}` is read after globals() was changed as a dict")
        pending = self.side_effects.load_global(self.globals_dict, name)
        if pending is not None and pending is not self.side_effects.DELETED:
            return pending
        if name in self.globals_dict and pending is None:
            return self.output.lazy(self.globals_dict[name], self.global_source(name))
        if pending is None:
            self.output.guard("lacks_key", self.globals_of_frame(), name)
        return self.load_builtin(name)

    def has_global(self, globals_dict, name, source):
        """Whether a name is among the globals now (`source`: theirs); guarded."""
        pending = self.side_effects.load_global(globals_dict, name)
        if pending is not None:
            return pending is not self.side_effects.DELETED
        self.guard("has_key" if name in globals_dict else "lacks_key", source, name)
        return name in globals_dict

    def load_builtin(self, name):
        pending = self.side_effects.load_global(self.builtins_dict, name)
        source = ConstantSource(self.builtins_dict, "__builtins__")
        if pending is None and name in self.builtins_dict:
            self.output.guard("is", ItemSource(source, name), self.builtins_dict[name])
            return self.build(self.builtins_dict[name])
        if pending is None:
            self.output.guard("lacks_key", source, name)
        if pending is None or pending is self.side_effects.DELETED:
            self.raise_observed(NameError, f"name '{name}' is not defined", name=name)
        return pending

    def globals_of_frame(self):
        return self.globals_source or self.globals_source_of(self.globals_dict)

    def global_source(self, name):
        return GlobalSource(name) if self.globals_source is None else ItemSource(self.globals_source, name)

    # --- facts and errors ---------------------------------------------------------------------------
    def guard(self, kind, source, expected=None):
        self.output.guard(kind, source, expected)

    def raise_observed(self, exc_type, *args, **fields):
        """The captured program raises `exc_type(*args, **fields)` here."""
        named = {name: self.build(value) for name, value in fields.items()}
        raise ObservedException(self.build(exc_type).call_function(self, [self.build(a) for a in args], named))

    def exception_matches(self, observed, exc_type):
        return issubclass(observed.variable.python_type(), exc_type)

    # --- constants ----------------------------------------------------------------------------------
    def can_fold(self, receiver, args, kwargs):
        values = [value.realize() for value in (*args, *kwargs.values())]
        if not all(value.is_python_constant() for value in (*values, *([] if receiver is None else [receiver]))):
            return False
        return not any(calls_back(value.as_python_constant()) for value in values)

    def fold(self, function, args, kwargs):
        """Call a pure Python callable on constants."""
        constants = [a.as_python_constant() for a in args]
        named = {k: v.as_python_constant() for k, v in kwargs.items()}
        if any(map(calls_back, (*constants, *named.values()))):
            unsupported("function written in C", f"{getattr(function, '__qualname__', function)} calls back")
        pairs = zip((*args, *kwargs.values()), (*constants, *named.values()))
        copies = [part for tracker, value in pairs if is_container(tracker.realize()) for part in mutable_parts(value)]
        return self.fold_python(function, constants, named, copies)

    def fold_python(self, function, constants, named, copies=()):
        """copies: what stands in the arguments for objects of the program."""
        before = list(map(sys.getrefcount, copies))
        try:
            with WarningsAreBreaks():
                result = function(*constants, **named)
        except errors.Unsupported:
            raise
        except Exception as error:  # whatever it raises, the captured program sees
            self.raise_python_exception(error)
        made = any(map(self.output.made_class, (*constants, *named.values())))
        if made and type(result) not in (bool, int, str, type(None)):  # such as `Pair | None`
            unsupported(
                "class definition", f"{getattr(function, '__qualname__', function)} of a class that is made here"
            )
        if list(map(sys.getrefcount, copies)) != before:  # as in `list[a_list]`, which is to hold the program's own
            unsupported("function written in C", f"{getattr(function, '__qualname__', function)} keeps an argument")
        if hasattr(type(result), "__next__"):  # of its own, and under way once it was used
            unsupported("function written in C", f"{getattr(function, '__qualname__', function)} makes an iterator")
        if type(result) in MADE_ANEW:
            return MadeConstantVariable(result, function, constants, named)
        return self.build(result)

    def raise_python_exception(self, error):
        """The captured program raises what a folded call really raised."""
        fields = {name: getattr(error, name) for name in fields_of(type(error)) if getattr(error, name) is not None}
        try:
            args, named = [self.build(a) for a in error.args], {name: self.build(fields[name]) for name in fields}
        except errors.Unsupported:
            args, named = [self.build(str(error))], {}
        if not vars(error):
            raise ObservedException(self.build(type(error)).call_function(self, args, named))
        made = self.build(type(error).__new__).call_function(self, [self.build(type(error)), *args], {})
        for name, value in vars(error).items():  # of one that is written in Python, such as re.error
            made.generic_setattr(self, name, self.build(value))
        raise ObservedException(made)

    def constant_getattr(self, tracker, name):
        """An attribute of a constant: a method to be called later, or a constant."""
        value = tracker.as_python_constant()
        if name in EVALUATED and isinstance(value, TYPE_PARAMETERS):
            unsupported("attribute written in C", f"`{name}` of {tracker} runs code of the program when it is read")
        source, own = tracker.source or ConstantSource(value, str(tracker)), attributes_of(value)
        try:
            attribute = getattr(value, name)
        except AttributeError as error:
            if own:
                self.guard("lacks_attribute", source, name)
            self.raise_observed(AttributeError, *error.args)
        if callable(attribute) and getattr(attribute, "__self__", attribute) is value:
            return BuiltinMethodVariable(tracker, name)
        changes = name in own and not (isinstance(value, enum.Enum) and name in ENUM_ATTRIBUTES)
        if not changes and (made := self.build(attribute)).is_immutable():
            return made
        return self.output.lazy(attribute, AttrSource(source, name)).realize()

    # --- calls --------------------------------------------------------------------------------------
    def call(self, function, *trackers):
        """Call a Python object (a builtin, `operator.add`, ...) on trackers."""
        return self.build(function).call_function(self, list(trackers), {})

    def call_tracker(self, function, args, kwargs=None):
        return function.realize().call_function(self, list(args), kwargs or {})

    def inline(self, function, args, kwargs=None):
        """Run a Python function (an object, or its tracker) symbolically."""
        return self.call_tracker(self.build(function), args, kwargs)

    def call_polyfill(self, function, *trackers):
        return self.inline(function, trackers)

    # --- comparisons --------------------------------------------------------------------------------
    def truth(self, tracker):
        return tracker.realize().truth(self)

    def equals(self, left, right):
        """Python's `left == right`, then its truth."""
        return self.truth(self.call(operator.eq, left, right))

    def is_same(self, left, right):
        """Python's `left is right`."""
        left, right = left.realize(), right.realize()
        if left is right:
            return True
        if left.is_immutable() and right.is_immutable() and left.python_type() is not right.python_type():
            return False
        if left.python_type() is right.python_type():
            for variable in (left, right):
                if isinstance(variable, VaryingVariable):
                    variable.call_method(self, "is", [], {})
            if left.is_literal() and right.is_literal():
                return self.is_same_literal(left, right)
            if not (left.source is None or right.source is None or left.is_immutable() or right.is_immutable()):
                self.output.guards.add_alias((left.source, right.source), False, self.output.user_location)
        try:
            return left.as_python_constant() is right.as_python_constant()
        except NotConstant:
            return False

    def is_same_literal(self, left, right):
        """Guards on equal values do not say whether they are one object: `float("nan")` is another one each time."""
        values = [variable.as_python_constant() for variable in (left, right)]
        same = values[0] is values[1]
        if type(values[0]) in (int, *HAVE_COPIES) and same_constant(*values) and (left.source or right.source):
            sources = [v.source or ConstantSource(value, repr(value)) for v, value in zip((left, right), values)]
            self.output.guards.add_alias(tuple(sources), same, self.output.user_location)
        return same
