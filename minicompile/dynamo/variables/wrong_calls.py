"""What CPython says where a function written in C is called with too many arguments, too few, or a wrong keyword.

Goes in: the function, and the trackers of its arguments.  Comes out: nothing, or the TypeError of the captured program,
in the words of the running version: the function is really called, a method on some object of its class; of what is
no method, a call that the handler's own signature does not take.
PyTorch has no such file: torch.compile leaves the frame to eager there.  Taught in chapter 06.
"""

import collections
import functools
import inspect
import itertools
import operator
import re
import types
import weakref

import torch

from .base import complain, stand_in

KEYED = [view for d in ({}, collections.OrderedDict()) for view in (d, d.keys(), d.values(), d.items())]
ITERATED = [[], (), set(), range(0), "", "\xe9", b"", bytearray(), collections.deque(), *KEYED]
MADE = [  # one of each class whose methods are asked
    *(object(), 0, 0.0, 0j, True, None, frozenset(), slice(0), collections.defaultdict(), types.SimpleNamespace()),
    *(iter(range(1 << 70)), *ITERATED, *map(iter, ITERATED), *(reversed(each) for each in ([], *KEYED))),
    *(enumerate(()), zip(), map(id, ()), filter(None, ()), reversed(()), (each for each in ()), callable, lambda: None),
    *(types.MappingProxyType({}), property(), staticmethod(id), classmethod(id), functools.partial(id), re.compile("")),
    *(BaseException(), KeyError(), OSError(), ImportError(), SyntaxError(), BaseExceptionGroup("", [Exception()])),
    *(BaseExceptionGroup("", [BaseException()]), weakref.ref(object)),
    *([].append, [].__len__, types.MethodType(id, 0), object, functools.cmp_to_key(id)(0), functools.lru_cache(id)),
    *(torch.Size(), types.ModuleType("")),
    *(itertools.count(), itertools.repeat(0), itertools.chain(), itertools.islice((), 1), itertools.cycle(())),
    *(itertools.accumulate(()), itertools.groupby(()), itertools.pairwise(()), itertools.zip_longest()),
    *(itertools.compress((), ()), itertools.starmap(id, ()), itertools.filterfalse(id, ()), *itertools.tee(())),
    *(itertools.product(), itertools.permutations(()), itertools.combinations((), 0)),
    *(itertools.takewhile(id, ()), itertools.dropwhile(id, ()), itertools._grouper(itertools.groupby(()), 0)),
    *([itertools.batched((), 1)] if hasattr(itertools, "batched") else []),
]
EXAMPLES = {type(each): each for each in MADE}
ABOUT_COUNTS = re.compile(r"(takes|expected) .*argument|missing .*argument|keyword argument|must have at least")

# `deque["a"]` says something else
BY_POSITION = (collections.deque.__getitem__, collections.deque.__setitem__, collections.deque.__delitem__)
COMPLAINING = (types.MethodDescriptorType, types.WrapperDescriptorType, type)


@functools.cache
def complaint(function, count, names):
    """What CPython says of so many arguments, whatever they are, and these keywords; None where it takes them.

    function: a class, a class method, or a method as its class has it.
    """
    first = ()
    if not isinstance(function, (type, types.BuiltinMethodType)):
        if function.__objclass__ not in EXAMPLES or function.__name__ in ("__call__", "__init__"):
            return None
        first = (EXAMPLES[function.__objclass__],)
    text = words(function, [*first, *(object() for _ in range(count))], dict.fromkeys(names, object()), TypeError)
    return text if ABOUT_COUNTS.search(text) else None  # what it says of arguments themselves is asked of the real ones


def words(function, args, kwargs, kind=Exception):
    """Of what a function complains that is called with these; "" where of nothing of this kind."""
    try:
        function(*args, **kwargs)
    except Exception as error:  # only its text is wanted
        return str(error) if isinstance(error, kind) else ""
    return ""


def check_count(tx, function, args, kwargs, cls=None):
    """Before a call: the captured program raises where CPython would complain of the arguments that there are.

    cls: that of the object, or the class itself, for a class method.
    """
    is_class_method = isinstance(function, types.ClassMethodDescriptorType)
    if is_class_method:
        function = function.__get__(None, cls)
    if is_class_method or isinstance(function, COMPLAINING):
        text = complaint(function, len(args), tuple(kwargs))
        if text is not None:
            if cls is not None and getattr(function, "__objclass__", None) is type:  # `int.mro(1)`
                text = text.replace("type.", f"{cls.__qualname__}.", 1)
            tx.raise_observed(TypeError, text)
    if function in BY_POSITION:
        kind = args[0].realize().python_type()
        if not any("__index__" in vars(base) for base in kind.__mro__):
            complain(tx, operator.index, stand_in(kind))


signature_of = functools.lru_cache(256)(inspect.signature)


def takes(handler, /, *args, **kwargs):
    """Whether it has parameters for these."""
    try:
        signature_of(handler).bind(*args, **kwargs)
    except TypeError:
        return False
    return True


def check_signature(tx, original, taker, args, kwargs):
    """The program hears what CPython says of a call of `original` that `taker` does not take."""
    try:
        signature_of(taker).bind(*args, **kwargs)
    except TypeError as error:
        tx.raise_observed(TypeError, words_of_call(original, args, kwargs) or str(error))


def words_of_call(function, args, kwargs):
    """CPython's functions look at their arguments in their turn."""
    named = {name: stand_in(each.python_type()) for name, each in kwargs.items()}
    return words(function, [stand_in(each.python_type()) for each in args], named)


def has_signature(function):
    """Whether a function written in C says what it takes."""
    try:
        return getattr(function, "__text_signature__", None) is not None and bool(signature_of(function))
    except ValueError:  # not in Python's words
        return False


def call_handler(tx, original, handler, args, kwargs):
    """Call a handler; a call that its signature does not take is the program's TypeError, with CPython's text."""
    if kwargs and has_signature(original):  # names that are the handler's own are no keywords
        check_signature(tx, original, original, args, kwargs)
    elif kwargs and "no keyword arguments" in (text := words_of_call(original, args, kwargs)):
        tx.raise_observed(TypeError, text)
    try:
        return handler(tx, *args, **kwargs)
    except TypeError:
        check_signature(tx, original, functools.partial(handler, tx), args, kwargs)
        raise
