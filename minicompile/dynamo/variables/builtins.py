"""Builtin functions and classes during capture: one row of HANDLERS each.

Goes in: a function or class written in C (or one of the standard library that is better not inlined), and trackers.
Comes out: what its handler makes of them; its polyfill, inlined; a folded constant, where it is pure; or a graph break.
Mirrors `torch/_dynamo/variables/builtin.py`.  Taught in chapters 03 and 05.

A handler is `handler(tx, *args, **kwargs)` on trackers that may be lazy.  Rows: `@handles(function)` here, HANDLERS of
operators.py, POLYFILLS and FOLDED below.
"""

import operator
import types

import torch

from ..builder import guarded, wraps, wraps_if
from ..polyfills import heaps, tensors
from ..polyfills import overrides as overriding
from ..source import AttrSource
from . import (
    autograd_functions,
    backward_hooks,
    conversions,
    float_questions,
    higher_order,
    made_classes,
    numpy_arrays,
    operators,
    overrides,
    questions,
    random_numbers,
    tensor_subclasses,
    torch_functions,
    weak_references,
)
from .base import ValueVariable, VariableTracker, complain, stand_in, unsupported
from .classes import UserDefinedClassVariable
from .descriptors import UNBOUND, BoundDescriptorVariable, dict_of, mro_of
from .functions import BuiltinMethodVariable, UserFunctionVariable
from .symbolic import GRAPH_FUNCTIONS, SymNodeVariable, is_arithmetic
from .tables import BREAKS, FOLDED, FOLDED_MODULES, POLYFILLS
from .tensor import graph_call
from .wrong_calls import call_handler, check_signature


def inlined(original, polyfill):
    """The handler of a function with a polyfill: of a wrong call it says what the original says."""

    def handler(tx, /, *args, **kwargs):
        check_signature(tx, original, polyfill, args, kwargs)
        return tx.inline(polyfill, list(args), kwargs)

    return handler


def inlined_for_lists(original, polyfill):
    """C would act on the list inside of one that has methods of its own."""
    handler = inlined(original, polyfill)

    def of_list(tx, given, /, *args):
        cls = given.realize().python_type()
        if not issubclass(cls, list):
            complain(tx, original, stand_in(cls), *args)
        if cls is not list:
            unsupported("subclass of a builtin", f"{original.__name__}() of a {cls.__name__}")
        return handler(tx, given, *args)

    return of_list


GIVEN = {**POLYFILLS, **heaps.POLYFILLS, **tensors.POLYFILLS, **overriding.POLYFILLS}
FAMILIES = [operators, conversions, questions, autograd_functions, backward_hooks, higher_order]
FAMILIES += [tensor_subclasses, numpy_arrays, weak_references, random_numbers, made_classes]
HANDLERS = {
    **{original: inlined(original, polyfill) for original, polyfill in GIVEN.items()},
    **{original: inlined_for_lists(original, polyfill) for original, polyfill in heaps.OF_LISTS.items()},
    **{function: handler for family in FAMILIES for function, handler in family.HANDLERS.items()},
    torch.Tensor: torch_functions.make_tensor,
    torch.nn.Parameter: torch_functions.make_parameter,
}


def is_graph_arithmetic(function, args, kwargs):
    """Whether the call is a graph operation on numbers that change from call to call."""
    if function not in GRAPH_FUNCTIONS or kwargs or not is_arithmetic([a.realize() for a in args]):
        return False
    floats = [a.realize() for a in args if isinstance(a.realize(), SymNodeVariable) and a.realize().floats()]
    if function is int and floats and not floats[0].is_known():
        return floats[0].symbol.node.expr.is_symbol
    if function is not float and floats:
        return False
    # The graph's min and max take two numbers and give a float if one is: Python gives one of the two, as it is.
    # Its round does not look at the digits.
    ints = all(a.python_type() is int for a in args)
    return len(args) == 2 and ints if function in (min, max) else len(args) == 1


def call_of_numbers(tx, function, args, kwargs):
    """The result of a call on numbers that change from call to call; None for all other calls."""
    answered = float_questions.answer(tx, function, *args) if not kwargs else None
    if answered is None and is_graph_arithmetic(function, args, kwargs):
        return graph_call(tx, GRAPH_FUNCTIONS[function], args, kwargs)
    return answered


class BuiltinVariable(ValueVariable):
    """`value`: a function written in C, or one with a row in HANDLERS."""

    def call_function(self, tx, args, kwargs):
        of_numbers = call_of_numbers(tx, self.value, args, kwargs)
        if of_numbers is not None:
            return of_numbers
        handler = HANDLERS.get(self.value)
        if handler is not None:
            return call_handler(tx, self.value, handler, args, kwargs)
        return self.call_unknown(tx, args, kwargs)

    def call_unknown(self, tx, args, kwargs):
        name = getattr(self.value, "__qualname__", repr(self.value))
        module = getattr(self.value, "__module__", None) or ""
        pure = self.value in FOLDED or module in FOLDED_MODULES
        if pure and tx.can_fold(None, args, kwargs):
            return tx.fold(self.value, args, kwargs)
        if isinstance(self.value, types.FunctionType):
            return UserFunctionVariable(self.value, self.source).call_function(tx, args, kwargs)
        if self.value in BREAKS:
            unsupported(BREAKS[self.value], f"{name}() is called in the compiled function")
        unsupported("function written in C", f"{module}.{name} is not followed during capture".lstrip("."))


class BuiltinClassVariable(UserDefinedClassVariable):
    """A class whose call has a row in HANDLERS: `list`, `int`, `zip`, `collections.deque`."""

    def call_function(self, tx, args, kwargs):
        of_numbers = call_of_numbers(tx, self.value, args, kwargs)
        if of_numbers is not None:
            return of_numbers
        return call_handler(tx, self.value, HANDLERS[self.value], args, kwargs)

    def call_descriptor(self, tx, descriptor, args, kwargs):
        """A class method written in C: `dict.fromkeys`."""
        bound = getattr(self.value, descriptor.__name__)
        if isinstance(bound, types.BuiltinFunctionType) and bound in HANDLERS:
            return call_handler(tx, bound, HANDLERS[bound], args, kwargs)
        return super().call_descriptor(tx, descriptor, args, kwargs)


def has_handler(value):
    cls = type(value)  # asking the value for its `__class__` might run code
    if cls is types.FunctionType:
        return value in HANDLERS or value in FOLDED
    if issubclass(cls, type) and cls.__hash__ is not type.__hash__:
        return False  # a metaclass of the user's
    kinds = (type, types.BuiltinFunctionType, torch._ops.HigherOrderOperator, *numpy_arrays.FUNCTION_TYPES)
    return issubclass(cls, kinds) and value in HANDLERS


@wraps_if(has_handler, order=7)
def wrap_handled(output, value, source):
    output.guard("is", source, value)
    return (BuiltinClassVariable if isinstance(value, type) else BuiltinVariable)(value, source)


@wraps_if(lambda value: issubclass(type(value), types.BuiltinFunctionType), order=60)
def wrap_c_function(output, value, source):
    owner = value.__self__
    if owner is None or isinstance(owner, (types.ModuleType, type)) or not hasattr(owner, value.__name__):  # pybind11
        output.guard("is", source, value)
        return BuiltinVariable(value, source)
    return wrap_bound(output, value, source)


def is_bound_from(value, descriptor):
    """Without the class CPython crashes for some methods (METH_METHOD)."""
    owner = value.__self__
    return issubclass(type(descriptor), UNBOUND) and descriptor.__get__(owner, type(owner)) == value


@wraps(types.MethodWrapperType)
def wrap_bound(output, value, source):
    """A method written in C of some object."""
    if isinstance(value.__self__, types.GetSetDescriptorType) and value.__self__.__objclass__ is torch._C.TensorBase:
        output.guard("equals", source, value)
        return overrides.TensorAttributeVariable(value, source)
    output.guard("type", source, type(value))
    output.guard("equals", source and AttrSource(source, "__name__"), value.__name__)
    owner = output.wrap(value.__self__, source and AttrSource(source, "__self__"))
    owners = [cls for cls in mro_of(type(value.__self__)) if value.__name__ in dict_of(cls)]
    if len(owners) > 1:
        output.guard("equals", source, value)
        found = [dict_of(cls)[value.__name__] for cls in owners]
        if not is_bound_from(value, found[0]):  # `list.append`, of an object whose class has its own
            descriptor = next((each for each in found if is_bound_from(value, each)), None)
            if descriptor is None:
                unsupported("method written in C", f"`{value.__qualname__}`, which the class of its object has not")
            return BoundDescriptorVariable(owner.realize(), descriptor, source)
    return BuiltinMethodVariable(owner.realize(), value.__name__, source)


class MadeGetterVariable(VariableTracker):
    """`operator.itemgetter(...)` made by the program; what it does stands in its polyfill."""

    has_identity = True

    def __init__(self, cls, args, kwargs, function):
        super().__init__()
        self.cls, self.args, self.kwargs, self.function = cls, args, kwargs, function

    def call_function(self, tx, args, kwargs):
        return call_handler(
            tx, self.cls("name"), lambda tx, obj, /: tx.call_tracker(self.function, [obj]), args, kwargs
        )

    def children(self):
        return [*self.args, *self.kwargs.values()]

    def reconstruct(self, codegen):
        codegen.call(self.cls, *self.children(), kw_names=self.kwargs)


def make_getter(cls):
    def handler(tx, first, /, *others, **kwargs):
        args = [first, *others]
        return MadeGetterVariable(cls, args, kwargs, tx.inline(POLYFILLS[cls], args, kwargs))

    return handler


GETTERS = (operator.itemgetter, operator.attrgetter, operator.methodcaller)
HANDLERS.update((cls, make_getter(cls)) for cls in GETTERS)


class GetterVariable(BuiltinVariable):
    """An existing `operator.itemgetter(1)`: what made it is known, so it is made again from its polyfill."""

    def call_function(self, tx, args, kwargs):
        cls, arguments = self.value.__reduce__()[:2]
        return tx.call(cls, *map(tx.build, arguments)).call_function(tx, args, kwargs)


wraps(*GETTERS)(guarded("is", GetterVariable))
