"""Handlers of the builtins that make values: constructors, iterators, text, sum, min, max, sorted, copies.

Goes in: trackers (lazy or not).  Comes out: a tracker.  See builtins.py for the rest.
Mirrors parts of `torch/_dynamo/variables/builtin.py`.  Taught in chapter 03.
"""

import collections
import itertools
import operator
import types

import torch

from .. import polyfills
from . import composed_iterators as composed
from .base import as_observed, can_change, complain, refuse_arguments, stand_in, unsupported
from .constant import FALSE, NONE, ConstantVariable, boolean
from .containers import DequeVariable, ListVariable
from .descriptors import class_lookup, type_lookup
from .dict_views import MappingProxyVariable
from .dicts import DictVariable, pairs_of
from .elements import Element, contains_itself, each, is_none, iterator_of, next_or_none, plain, sort
from .functions import BoundMethodVariable
from .iterators import IndexIterator, SequenceIterator
from .refusals import answered, refuse
from .sets import SetVariable, read_from
from .tensor import TensorVariable
from .tuples import RangeVariable, SizeVariable, SliceVariable, TupleVariable

HANDLERS = {}


def handles(*functions):
    def register(handler):
        for function in functions:
            HANDLERS[function] = handler
        return handler

    return register


# --- containers -----------------------------------------------------------------------------------------
EMPTY = TupleVariable([])  # the default of an argument


def int_or_none(tx, variable):
    """For C code that asks for no `__index__`; what is neither stays what it is, and will be refused."""
    cls = variable.python_type()
    return plain(tx, variable) if issubclass(cls, (int, types.NoneType)) else stand_in(cls)


@handles(list)
def make_list(tx, iterable=EMPTY, /):
    return ListVariable(iterable.listed(tx))


@handles(tuple)
def make_tuple(tx, iterable=EMPTY, /):
    if type(iterable.realize()) is TupleVariable:
        return iterable.realize()
    return TupleVariable(iterable.listed(tx))


@handles(torch.Size)
def make_size(tx, iterable=EMPTY, /):
    items = iterable.unpack(tx)
    if all(isinstance(item.realize(), ConstantVariable) for item in items):
        return tx.fold(torch.Size, [ListVariable(items)], {})  # takes ints, and makes ints of bools
    if not all(item.python_type() is int for item in items):
        unsupported("builtin on an unknown value", "torch.Size() of what are no ints")
    return SizeVariable(items)


@handles(collections.deque)
def make_deque(tx, iterable=None, maxlen=NONE):
    maxlen = int_or_none(tx, maxlen)
    with as_observed(tx):
        collections.deque((), maxlen)  # may complain
    made = DequeVariable([], maxlen=maxlen)
    if iterable is not None:
        made.method_extend(tx, iterable)
    return made


for _cls in (dict, collections.OrderedDict, collections.defaultdict):
    HANDLERS[_cls.fromkeys] = lambda tx, iterable, value=NONE, cls=_cls: tx.inline(
        polyfills.fromkeys, [tx.build(cls), iterable, value]
    )


@handles(frozenset)
def make_frozenset(tx, iterable=EMPTY, /):
    return iterable.realize() if iterable.python_type() is frozenset else set_of(tx, iterable, frozenset)


def set_of(tx, iterable, kind):
    if isinstance(iterable := read_from(tx, iterable), SetVariable):
        return iterable.copied(kind)
    made = SetVariable.of(tx, each(tx, iterable), kind)
    if iterable.python_type() is dict:
        made.real = set(dict.fromkeys(made.items))  # CPython makes room for all of its keys first
    return made


@handles(range)
def make_range(tx, *bounds):
    if not 1 <= len(bounds) <= 3:
        refuse_arguments(tx, range, bounds)
    are_ints = [issubclass(bound.python_type(), int) for bound in bounds]
    bounds = [plain(tx, b if is_int else tx.call(operator.index, b)) for b, is_int in zip(bounds, are_ints)]
    with as_observed(tx):
        return RangeVariable(range(*bounds))


@handles(slice)
def make_slice(tx, *bounds):
    if not 1 <= len(bounds) <= 3:
        complain(tx, slice, *bounds)
    start, stop, step = {1: (NONE, *bounds, NONE), 2: (*bounds, NONE)}.get(len(bounds), bounds)
    return SliceVariable([start, stop, step])


# --- iterators ------------------------------------------------------------------------------------------
@handles(iter)
def make_iterator(tx, iterable, sentinel=None, /):
    if sentinel is not None:
        callable_ = tx.truth(tx.call(callable, iterable))
        return composed.CallableIterator([iterable, sentinel]) if callable_ else refuse(tx, iter, iterable, sentinel)
    return iterator_of(tx, iterable) if tx.is_polyfill() else iterable.realize().iterate(tx).realize()


@handles(next)
def take_next(tx, iterator, default=None, /):
    iterator = iterator.realize()
    if not class_lookup(tx, iterator.python_type(), "__next__"):
        return refuse(tx, next, iterator)
    if default is None:
        return iterator.next(tx)
    item = next_or_none(tx, iterator)
    return default if item is None else item


@handles(enumerate)
def make_enumerate(tx, iterable, start=ConstantVariable(0)):  # noqa: B008 (immutable)
    start = tx.call(operator.index, start)
    start = start if start.python_type() is int else tx.call(int, start)
    return composed.EnumerateVariable([iterator_of(tx, iterable), start])


@handles(map)
def make_map(tx, *arguments):
    if len(arguments) < 2:
        complain(tx, map, *arguments)
    function, *iterables = arguments
    return composed.MapVariable([function, *(iterator_of(tx, i) for i in iterables)])


@handles(reversed)
def make_reversed(tx, sequence):
    sequence = sequence.realize()
    cls = sequence.python_type()
    if isinstance(sequence, ConstantVariable) and not can_change(cls):
        complain(tx, reversed, sequence.value)  # unless it is a text: `re.match("a", "a")` has items, and no length
        return SequenceIterator(sequence, len(sequence.value) - 1, -1)
    if class_lookup(tx, cls, "__reversed__") or hasattr(sequence, "method___reversed__"):
        return sequence.call_method(tx, "__reversed__", [], {})
    if class_lookup(tx, cls, "__getitem__") and not issubclass(cls, (set, frozenset)):
        length = plain(tx, tx.call(len, sequence))
        return IndexIterator(sequence, length - 1, -1)
    return refuse(tx, reversed, sequence)


def combinatorial(function):
    def handler(tx, /, *args, **kwargs):
        count = 1 if function is not itertools.product else len(args)
        if len(args) > count + 1:
            refuse_arguments(tx, function, args)
        pools = [tx.build_tuple(pool.unpack(tx)) for pool in args[:count]]
        take = int_or_none if function is itertools.permutations else plain
        rest = {name: take(tx, value) for name, value in (dict(zip("r", args[count:])) | kwargs).items()}
        with as_observed(tx):
            return composed.CombinatorialIterator(function, pools, rest)

    return handler


for _name in ("product", "permutations", "combinations", "combinations_with_replacement"):
    HANDLERS[getattr(itertools, _name)] = combinatorial(getattr(itertools, _name))


# --- numbers and text -----------------------------------------------------------------------------------
def conversion(cls, *methods):
    """`int(x)`, `float(x)`, ... : folded, or by the first special method that the class of x has."""

    def handler(tx, /, *args, **kwargs):
        if tx.can_fold(None, args, kwargs):
            return tx.fold(cls, args, kwargs)
        value = args[0].realize() if len(args) == 1 and not kwargs else None
        for method in methods if value is not None else ():
            if class_lookup(tx, value.python_type(), method):
                made = value.call_method(tx, method, [], {}).realize()
                if made.python_type() not in (int, float, complex, bytes):  # CPython warns of subclasses
                    unsupported("builtin on an unknown value", f"{method} of {value} returns no {cls.__name__}")
                if method != methods[0]:
                    return tx.call(cls, made)
                if made.python_type() is not cls:
                    unsupported("builtin on an unknown value", f"{method} of {value} returns no {cls.__name__}")
                return made
        unsupported("builtin on an unknown value", f"{cls.__name__}() of {[*args, *kwargs.values()]}")

    return handler


HANDLERS[int] = conversion(int, "__int__", "__index__")  # of `__trunc__` CPython warns
HANDLERS[float] = conversion(float, "__float__", "__index__")
HANDLERS[complex] = conversion(complex, "__complex__", "__float__", "__index__")
HANDLERS[bytes] = conversion(bytes, "__bytes__")
for _cls in (torch.device, torch.finfo, torch.iinfo):
    HANDLERS[_cls] = conversion(_cls)


@handles(round)
def make_round(tx, number, ndigits=None):
    digits = [ndigits] if ndigits is not None else []
    if tx.can_fold(None, [number, *digits], {}):
        return tx.fold(round, [number, *digits], {})
    if not class_lookup(tx, number.python_type(), "__round__"):
        return refuse(tx, round, number)
    return number.call_method(tx, "__round__", digits, {})


@handles(str)
def make_text(tx, /, *args, **kwargs):
    if tx.can_fold(None, args, kwargs):
        return tx.fold(str, args, kwargs)
    if len(args) != 1 or kwargs:
        unsupported("builtin on an unknown value", f"str() of {[*args, *kwargs.values()]}")
    value = args[0].realize()
    if value.python_type() in BRACKETS:
        return represent(tx, value)
    return answered(tx, str, "__str__", value.call_method(tx, "__str__", [], {}))


BRACKETS = {list: "[]", tuple: "()", dict: "{}"}


@handles(repr)
def represent(tx, value):
    value = value.realize()
    if value.is_python_constant():
        return tx.fold(repr, [value], {})
    cls = value.python_type()
    if cls not in BRACKETS:
        return answered(tx, repr, "__repr__", value.call_method(tx, "__repr__", [], {}))
    if contains_itself(value, set()):
        unsupported("builtin on an unknown value", "repr() of a container that contains itself")
    if cls is dict:
        pairs = [[represent(tx, part).value for part in pair] for pair in pairs_of(tx, value)]
        inside = ", ".join(f"{key}: {element}" for key, element in pairs)
    else:
        inside = ", ".join(represent(tx, item).as_python_constant() for item in value.unpack(tx))
    comma = "," * (cls is tuple and len(value.items) == 1)
    return ConstantVariable(BRACKETS[cls][0] + inside + comma + BRACKETS[cls][1])


@handles(format)
def make_format(tx, value, spec=ConstantVariable("")):  # noqa: B008 (immutable)
    value = value.realize()
    if value.is_python_constant():
        return tx.fold(format, [value, spec], {})
    if value.python_type() in BRACKETS:
        return make_text(tx, value)
    if not issubclass(spec.python_type(), str):
        return tx.fold_python(format, ["", spec.as_python_constant()], {})  # complains
    return answered(tx, format, "__format__", value.call_method(tx, "__format__", [spec], {}))


# --- over all elements ----------------------------------------------------------------------------------
@handles(sum)
def make_sum(tx, iterable, /, start=ConstantVariable(0)):  # noqa: B008 (immutable)
    if isinstance(start.realize(), ConstantVariable) and isinstance(start.realize().value, (str, bytes)):
        tx.fold(sum, [TupleVariable([]), start], {})  # complains
    numbers, total = [], start.realize()
    are_numbers = is_number(total)
    for item in each(tx, iterable):
        if are_numbers and is_number(item):
            numbers.append(item)
            continue
        if are_numbers:
            total, are_numbers = add_numbers(tx, numbers, total), False
        total = tx.call(operator.add, total, item)
    return add_numbers(tx, numbers, total) if are_numbers else total


def is_number(item):
    return isinstance(item.realize(), ConstantVariable) and type(item.realize().value) in (int, float, bool)


def add_numbers(tx, numbers, start):
    """CPython adds them by themselves: floats with a correction, from 3.12 on."""
    return tx.fold(sum, [TupleVariable(numbers), start], {})


def _some(tx, iterable, wanted):
    """Whether some element's truth is `wanted`; looks no further than the first such."""
    return any(tx.truth(item) is wanted for item in each(tx, iterable))


def extreme(function):
    """min and max, by CPython's own."""

    def handler(tx, *args, key=NONE, default=None):
        if not args or (len(args) > 1 and default is not None):
            complain(tx, function, *(0 for _ in args), **{} if default is None else {"default": 0})
        by = None if is_none(key) else lambda e: Element(tx, key.realize().call_function(tx, [e.variable], {}))

        def candidates():
            tensors = False
            for count, item in enumerate(args if len(args) > 1 else each(tx, args[0])):
                tensors = tensors or isinstance(item.realize(), TensorVariable)
                if tensors and count and by is None:
                    unsupported("data-dependent branch", f"{function.__name__}() of tensors compares their data")
                yield Element(tx, item)

        found = function(candidates(), key=by, default=None)
        if found is None and default is None:
            complain(tx, function, ())
        return default if found is None else found.variable

    return handler


HANDLERS[min], HANDLERS[max] = extreme(min), extreme(max)


@handles(sorted)
def make_sorted(tx, iterable, /, *, key=NONE, reverse=FALSE):
    items = iterable.listed(tx)
    sort(tx, items, key, reverse)
    return ListVariable(items)


def mapping_proxy(tx, mapping):
    cls = mapping.realize().python_type()
    if type_lookup(cls, "__getitem__") is None or issubclass(cls, (list, tuple, collections.deque)):
        complain(tx, types.MappingProxyType, stand_in(cls))
    return MappingProxyVariable(mapping.realize())


def bound_method(tx, function, instance):
    function, instance = function.realize(), instance.realize()
    is_callable = type_lookup(function.python_type(), "__call__") is not None
    complain(tx, types.MethodType, len if is_callable else 0, None if is_none(instance) else 0)  # unless all is well
    return BoundMethodVariable(function, instance)


# --- in a line each -------------------------------------------------------------------------------------
def dict_maker(cls):
    def make(tx, /, *args, **kwargs):
        made = DictVariable(cls=cls)
        made.method___init__(tx, *args, **kwargs)
        return made

    return make


HANDLERS |= {
    dict: dict_maker(dict),
    collections.OrderedDict: dict_maker(collections.OrderedDict),
    collections.defaultdict: dict_maker(collections.defaultdict),
    types.MappingProxyType: mapping_proxy,
    types.MethodType: bound_method,
    set: lambda tx, iterable=EMPTY, /: set_of(tx, iterable, set),
    bool: lambda tx, value=FALSE, /: boolean(tx.truth(value)),
    any: lambda tx, iterable: boolean(_some(tx, iterable, True)),
    all: lambda tx, iterable: boolean(not _some(tx, iterable, False)),
    zip: lambda tx, *iterables, strict=FALSE: composed.ZipVariable(
        [iterator_of(tx, i) for i in iterables], strict=tx.truth(strict)
    ),
    filter: lambda tx, function, iterable: composed.FilterVariable([function, iterator_of(tx, iterable)]),
}
