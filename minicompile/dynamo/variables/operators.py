"""Operators during capture: `+`, `<`, `in`, `[]`, `-x`, ... by CPython's data model.

Goes in: a function of `operator` (every operator opcode calls one) and the trackers of its operands.
Comes out: a graph operation where a tensor is involved, a folded constant, or what the operands' special methods
answer: the reflected one first where the right operand's class derives from the left one's, NotImplemented passed on.
Mirrors `BuiltinVariable` in `torch/_dynamo/variables/builtin.py`.  Taught in chapter 03.
"""

import collections
import operator

import numpy
import torch

from . import data_numbers, float_questions
from .base import ObservedException, refuse_arguments, unsupported
from .called_back import calls_back
from .constant import BuiltinObject, ConstantVariable, boolean
from .descriptors import class_lookup
from .elements import next_or_none
from .overrides import is_overridden
from .refusals import asks_for_index, refuse
from .symbolic import SymNodeVariable, is_arithmetic, settled
from .tensor import TensorVariable, graph_call
from .varying import VaryingVariable

# function -> (special method, reflected special method)
NAMES = "add sub mul truediv floordiv mod matmul and_ or_ xor lshift rshift pow".split()
BINARY = {
    **{getattr(operator, name): (f"__{name.strip('_')}__", f"__r{name.strip('_')}__") for name in NAMES},
    divmod: ("__divmod__", "__rdivmod__"),
}
IN_PLACE = {
    getattr(operator, f"i{function.__name__.strip('_')}"): (function, f"__i{method[2:]}")
    for function, (method, _) in BINARY.items()
    if function is not divmod
}
COMPARE = {
    operator.eq: ("__eq__", "__eq__"),
    operator.ne: ("__ne__", "__ne__"),
    operator.lt: ("__lt__", "__gt__"),
    operator.le: ("__le__", "__ge__"),
    operator.gt: ("__gt__", "__lt__"),
    operator.ge: ("__ge__", "__le__"),
}
UNARY = {operator.neg: "__neg__", operator.pos: "__pos__", operator.invert: "__invert__", abs: "__abs__"}


def in_graph(tx, methods, *operands):
    """Whether the operation is one of the graph's: some operand is a tensor, or a number that is not known.

    methods: the special method that each operand is asked for; one that is no tensor may have an answer of its own.
    """
    if not any(isinstance(v, TensorVariable) for v in operands):
        return is_arithmetic(operands)
    if is_overridden(tx, *operands) or answers(tx, operands[0], methods[0]):
        return False
    right = operands[-1]
    if not issubclass(right.python_type(), NUMBERS) and answers(tx, right, methods[-1]):
        unsupported("operator argument", f"{right} has a `{methods[-1]}` for what a tensor does not take")
    return True


def answers(tx, operand, method):
    """Whether an operand has code of its own for tensors.  Numbers and sequences have not; `"%s" % tensor` is text."""
    if isinstance(operand, TensorVariable):
        return False
    found = slot(tx, operand.python_type(), method)
    owner = getattr(found, "__objclass__", object)
    return found not in (ABSENT, slot(tx, object, method)) and not (
        issubclass(owner, PASSIVE) and found not in (str.__mod__, bytes.__mod__)
    )


def can_fold(*operands):
    """Constants, but not containers: the result could share their elements."""
    return all(isinstance(v, ConstantVariable) or not isinstance(v, BuiltinObject) for v in operands) and all(
        v.is_python_constant() and not calls_back(v.as_python_constant()) for v in operands
    )


def is_not_implemented(variable):
    return isinstance(variable, ConstantVariable) and variable.value is NotImplemented


ABSENT = object()


def slot(tx, cls, method):
    """The special method of a class, not of its metaclass; ABSENT if there is none."""
    found = class_lookup(tx, cls, method)
    return ABSENT if found is None else found.attribute


def raises_at_once(tx, variable, method, cls):
    """Whether the method, of a sequence, complains in place of answering NotImplemented."""
    if method in ("__mul__", "__rmul__", "__imul__"):
        return is_of_sequence(slot(tx, variable.python_type(), method)) and slot(tx, cls, "__index__") is ABSENT
    is_text = isinstance(variable, ConstantVariable) and isinstance(variable.value, (str, bytes))
    return is_text and method == "__add__" and not issubclass(cls, (str, bytes))


def attempt(tx, variable, method, other):
    """`type(variable).method(variable, other)`, or NotImplemented where the class has none of its own."""
    if isinstance(other, VaryingVariable):
        return other.call_method(tx, method, [variable], {})
    cls = variable.python_type()
    found = slot(tx, cls, method)
    if raises_at_once(tx, variable, method, other.python_type()):
        return ConstantVariable(NotImplemented)  # the other operand is asked first
    if method == "__ne__" and found is object.__ne__ and slot(tx, cls, "__eq__") is not object.__eq__:
        answer = attempt(tx, variable, "__eq__", other)
        return answer if is_not_implemented(answer) else boolean(not tx.truth(answer))
    if found is ABSENT or found is slot(tx, object, method):
        return ConstantVariable(NotImplemented)
    if found is None:  # `__iadd__ = None` in a class takes the operator away
        tx.raise_observed(TypeError, "'NoneType' object is not callable")
    return variable.call_method(tx, method, [other], {}).realize()


def is_of_sequence(method):
    """Whether it is the `+` or `*` of a sequence written in C, which CPython tries when no operand is a number."""
    return getattr(method, "__objclass__", None) in SEQUENCES


SEQUENCES = (list, tuple, str, bytes, bytearray, collections.deque, torch.Size)
NUMBERS = (int, float, complex, numpy.generic, numpy.ndarray)  # which a tensor takes for the right operand
PASSIVE = (*NUMBERS, *SEQUENCES, type(None), torch.dtype, torch.device)  # whose operators know nothing of tensors


def by_protocol(tx, left, right, method, reflected, as_numbers=False):
    """The two attempts of a binary operator, in the order that CPython makes them: a sequence comes behind numbers."""
    left_type, right_type = left.python_type(), right.python_type()
    attempts = [(left, method, right)]
    if left_type is not right_type or reflected in COMPARE_METHODS:
        attempts.append((right, reflected, left))
        if left_type is not right_type and left_type in right_type.__mro__:
            overrides = slot(tx, right_type, reflected) is not slot(tx, left_type, reflected)
            if overrides or reflected in COMPARE_METHODS:
                attempts.reverse()
    if method in ("__add__", "__mul__") and is_of_sequence(slot(tx, left_type, method)):
        attempts.sort(key=lambda attempt: attempt[0] is left)
    answer = ConstantVariable(NotImplemented)
    for variable, name, other in attempts:
        if as_numbers and is_of_sequence(slot(tx, variable.python_type(), name)):
            continue
        answer = attempt(tx, variable, name, other)
        if not is_not_implemented(answer):
            return answer
    return answer


COMPARE_METHODS = frozenset(method for method, _ in COMPARE.values())


def binary(function):
    method, reflected = BINARY[function]

    def handler(tx, left, right):
        left, right = settled(function, left.realize(), right.realize())
        if in_graph(tx, (method, reflected), left, right):
            return graph_call(tx, function, [left, right], {})
        if can_fold(left, right):
            return tx.fold(function, [left, right], {})
        answer = by_protocol(tx, left, right, method, reflected)
        return refuse(tx, function, left, right) if is_not_implemented(answer) else answer

    return handler


def divide(tx, left, right):
    """`divmod(left, right)`: a SymInt has none."""
    if is_arithmetic([left.realize(), right.realize()]):
        return tx.build_tuple([HANDLERS[operator.floordiv](tx, left, right), HANDLERS[operator.mod](tx, left, right)])
    return binary(divmod)(tx, left, right)


def in_place(function):
    plain, method = IN_PLACE[function]
    forward, reflected = BINARY[plain]

    def handler(tx, left, right):
        left, right = settled(plain, left.realize(), right.realize())
        if in_graph(tx, (forward, reflected), left, right) and not answers(tx, left, method):
            return graph_call(tx, function if isinstance(left, TensorVariable) else plain, [left, right], {})
        if can_fold(left, right):
            return tx.fold(function, [left, right], {})
        answer = ConstantVariable(NotImplemented)
        cls = left.python_type()
        if cls in SEQUENCES or (method == "__imul__" and is_of_sequence(slot(tx, cls, method))):
            answer = by_protocol(tx, left, right, forward, reflected, as_numbers=True)
        if is_not_implemented(answer):
            answer = attempt(tx, left, method, right)
        if is_not_implemented(answer):
            answer = by_protocol(tx, left, right, forward, reflected)
        return refuse(tx, function, left, right) if is_not_implemented(answer) else answer

    return handler


def compare(function):
    method, reflected = COMPARE[function]

    def handler(tx, left, right):
        answered = float_questions.answer(tx, function, left, right)
        if answered is not None:
            return answered
        left, right = settled(function, left.realize(), right.realize())
        if in_graph(tx, (method, reflected), left, right):
            return graph_call(tx, function, [left, right], {})
        if can_fold(left, right):
            return tx.fold(function, [left, right], {})
        answer = by_protocol(tx, left, right, method, reflected)
        if not is_not_implemented(answer):
            return answer
        if function in (operator.eq, operator.ne):
            return boolean(tx.is_same(left, right) is (function is operator.eq))
        return refuse(tx, function, left, right)

    return handler


def unary(function):
    method = UNARY[function]

    def handler(tx, operand):
        operand = operand.realize()
        found = float_questions.absolute(tx, operand) if function is abs else None
        if found is not None:
            return found
        (operand,) = settled(function, operand)
        if in_graph(tx, (method,), operand):
            return graph_call(tx, function, [operand], {})
        if can_fold(operand):
            return tx.fold(function, [operand], {})
        if not class_lookup(tx, operand.python_type(), method):
            return refuse(tx, function, operand)
        return operand.call_method(tx, method, [], {})

    return handler


def concatenate(function):
    """`operator.concat` is `+` between sequences only."""

    def handler(tx, left, right):
        classes = [operand.python_type() for operand in (left, right)]
        sequences = all(class_lookup(tx, cls, "__getitem__") and not issubclass(cls, dict) for cls in classes)
        adds = any(class_lookup(tx, cls, name) for cls, name in zip(classes, ("__add__", "__radd__")))
        return HANDLERS[function](tx, left, right) if sequences and adds else refuse(tx, operator.concat, left, right)

    return handler


# --- items and membership -------------------------------------------------------------------------------
TENSOR_ITEMS = {
    operator.getitem: data_numbers.getitem,
    operator.setitem: data_numbers.setitem,
    operator.delitem: lambda tx, tensor, index: graph_call(tx, operator.delitem, [tensor, index], {}),
}


def item(function, method):
    """getitem, setitem, delitem."""

    def handler(tx, container, *arguments):
        if len(arguments) != 1 + (function is operator.setitem):
            refuse_arguments(tx, function, [container, *arguments])
        container = container.realize()
        if isinstance(container, TensorVariable):
            arguments = [argument.realize() for argument in arguments]
            if not is_overridden(tx, container, *arguments):
                return TENSOR_ITEMS[function](tx, container, *arguments)
        cls = container.python_type()
        if not class_lookup(tx, cls, method) and not (issubclass(cls, type) and function is operator.getitem):
            if class_lookup(tx, arguments[0].python_type(), "__index__") and asks_for_index(function, container):
                arguments = [tx.call(operator.index, arguments[0]), *arguments[1:]]
            return refuse(tx, function, container, *arguments)
        return container.call_method(tx, method, list(arguments), {})

    return handler


def contains(tx, container, wanted):
    container = container.realize()
    if isinstance(container, ConstantVariable) and wanted.is_python_constant():
        return tx.fold(operator.contains, [container, wanted], {})
    if class_lookup(tx, container.python_type(), "__contains__"):
        return boolean(tx.truth(container.call_method(tx, "__contains__", [wanted], {})))
    try:
        iterator = container.iterate(tx)
    except ObservedException as observed:
        if not tx.exception_matches(observed, TypeError):
            raise
        return refuse(tx, operator.contains, container, wanted)
    while (candidate := next_or_none(tx, iterator)) is not None:
        if tx.is_same(candidate, wanted) or tx.equals(candidate, wanted):
            return boolean(True)
    return boolean(False)


def index(tx, value):
    value = value.realize()
    if isinstance(value, SymNodeVariable) and value.python_type() is int:
        return value
    if can_fold(value):
        return tx.fold(operator.index, [value], {})
    if not class_lookup(tx, value.python_type(), "__index__"):
        return refuse(tx, operator.index, value)
    if issubclass(value.python_type(), int):
        unsupported("builtin on an unknown value", "operator.index() of an int that is more than an int")
    made = value.call_method(tx, "__index__", [], {}).realize()
    if made.python_type() is not int:
        unsupported("builtin on an unknown value", f"__index__ returns a {made.python_type().__name__}")
    return made


def power(tx, base, exponent, mod=None):
    """`pow(base, exponent[, mod])`."""
    if mod is None:
        return HANDLERS[operator.pow](tx, base, exponent)
    if not tx.can_fold(None, [base, exponent, mod], {}):
        unsupported("builtin on an unknown value", "pow(base, exponent, mod) of values that are not known")
    return tx.fold(pow, [base, exponent, mod], {})


HANDLERS = {
    **{function: binary(function) for function in BINARY},
    **{function: in_place(function) for function in IN_PLACE},
    **{function: compare(function) for function in COMPARE},
    **{function: unary(function) for function in UNARY},
    divmod: divide,
    pow: power,
    operator.getitem: item(operator.getitem, "__getitem__"),
    operator.setitem: item(operator.setitem, "__setitem__"),
    operator.delitem: item(operator.delitem, "__delitem__"),
    operator.contains: contains,
    operator.index: index,
    operator.not_: lambda tx, value: boolean(not tx.truth(value)),
    operator.call: lambda tx, function, /, *args, **kwargs: function.realize().call_function(tx, list(args), kwargs),
    operator.truth: lambda tx, value: boolean(tx.truth(value)),
    operator.is_: lambda tx, a, b: boolean(tx.is_same(a, b)),
    operator.is_not: lambda tx, a, b: boolean(not tx.is_same(a, b)),
}
HANDLERS[operator.inv], HANDLERS[operator.abs] = HANDLERS[operator.invert], HANDLERS[abs]
HANDLERS[operator.concat], HANDLERS[operator.iconcat] = concatenate(operator.add), concatenate(operator.iadd)
