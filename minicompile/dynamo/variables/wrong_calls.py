"""What CPython says where a function written in C is called with too many arguments, too few, or a wrong keyword.

Goes in: the function, and the trackers of its arguments.  Comes out: nothing, or the TypeError of the captured program,
in the words of the running version: the function is really called, a method on some object of its class.
PyTorch has no such file: torch.compile leaves the frame to eager there.  Taught in chapter 06.
"""

import collections
import contextlib
import functools
import itertools
import re
import types

import torch

KEYED = [view for d in ({}, collections.OrderedDict()) for view in (d, d.keys(), d.values(), d.items())]
ITERATED = [[], (), set(), range(0), "", "\xe9", b"", bytearray(), collections.deque(), *KEYED]
MADE = [  # one of each class whose methods are asked
    *(object(), 0, 0.0, 0j, True, None, frozenset(), slice(0), collections.defaultdict(), types.SimpleNamespace()),
    *(iter(range(1 << 70)), *ITERATED, *map(iter, ITERATED), *(reversed(each) for each in ([], *KEYED))),
    *(enumerate(()), zip(), map(id, ()), filter(None, ()), reversed(()), (each for each in ()), callable, lambda: None),
    *(types.MappingProxyType({}), property(), staticmethod(id), classmethod(id), functools.partial(id), re.compile("")),
    *(BaseException(), BaseExceptionGroup("", [Exception()]), functools.lru_cache(id), torch.Size()),
    *([].append, [].__len__, functools.cmp_to_key(id)(0)),
    *(itertools.count(), itertools.repeat(0), itertools.chain(), itertools.islice((), 1), itertools.cycle(())),
    *(itertools.accumulate(()), itertools.groupby(()), itertools.pairwise(()), itertools.zip_longest()),
    *(itertools.compress((), ()), itertools.starmap(id, ()), itertools.filterfalse(id, ()), *itertools.tee(())),
    *(itertools.takewhile(id, ()), itertools.dropwhile(id, ()), itertools._grouper(itertools.groupby(()), 0)),
    *([itertools.batched((), 1)] if hasattr(itertools, "batched") else []),
]
EXAMPLES = {type(each): each for each in MADE}
ABOUT_COUNTS = re.compile(r"(takes|expected) .*argument|missing .*argument|keyword argument|must have at least")

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
    with contextlib.suppress(Exception):  # what it says of the arguments themselves is asked of the real ones
        try:
            function(*first, *(object() for _ in range(count)), **dict.fromkeys(names, object()))
        except TypeError as error:
            return str(error) if ABOUT_COUNTS.search(str(error)) else None
    return None


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
            tx.raise_observed(TypeError, text)
