"""Calls of what is written in C with too many arguments, too few, or a wrong keyword: the texts are eager's."""

import collections
import functools
import itertools  # noqa: F401
import operator  # noqa: F401
import types  # noqa: F401
import weakref  # noqa: F401

import pytest
import torch

import minicompile

SOURCES = """
iter([]).__next__(1)                 iter({}).__next__(zzz=1)          iter(range(3)).__length_hint__(1)
enumerate([]).__next__(1)            zip().__iter__(1)                 map(int, []).__next__(1)
(i for i in []).send()               (i for i in []).close(1)          (i for i in []).__next__(1)
[].append()                          [].append(1, 2)                   [].pop(1, 2)
[].sort(1)                           [].index()                        {}.get()
{}.keys(1)                           {}.popitem(1)                     {}.__contains__()
{}.keys().isdisjoint()               {1: 2}.values().__len__(1)        {}.fromkeys()
{1}.add()                            {1}.union(zzz=1)                  frozenset().copy(1)
(1, 2).count()                       "ab".split(1, 2, 3)               "ab".find(zzz=1)
(3).__add__()                        (3).__eq__(1, 2)                  (2.5).is_integer(1)
deque().rotate(1, 2)                 defaultdict(1)                    OrderedDict().move_to_end()
OrderedDict.fromkeys(zzz=1)          itertools.count().__next__(1)     itertools.count(1, 2, 3)
itertools.islice([])                 itertools.tee([])[0].__copy__(1)  itertools.repeat(zzz=1)
type(cached)(2)                      cached.cache_info(1)              functools.partial()
Plain().__eq__()                     Plain().__ne__(1, 2)              Plain().__init__(1)
Plain.__eq__()                       ValueError(1).with_traceback()    ValueError(1).with_traceback(1)
ValueError(1).add_note(1, 2)         types.SimpleNamespace(a=1).__eq__()
types.MappingProxyType({}).items(1)  slice(1).indices()                torch.Size([1]).numel(1)
operator.itemgetter(1)()             Ours([1]).append()                Ours().sort(1)
{}.keys().__format__(2)              Plain().__format__(None)          KeyError(1).__str__(2)
OSError(2, "no").__str__(2)          Plain().run.__eq__(1, 2)          type.__instancecheck__(Plain)
type.__init__(Plain, 0, 1)           type.__getattribute__(Plain, {})  itertools.permutations([1]).__iter__(2)
torch.device("cpu").__enter__(1)     {}.items().__reduce_ex__(2)       {}.keys().__reduce_ex__("a")
itertools.count(1).__format__("a")   {}.keys().__setattr__(0, 1)       itertools.count().__format__([])
types.MappingProxyType({}).__ior__(1)
types.MappingProxyType({}).__gt__([])
group.subgroup(a=1)                  group.split()                     group.derive(1, 2)
weakref.ref(Plain).__ne__(1, 2)      weakref.ref(Plain).__eq__()       itertools.chain([1]).__doc__(2)
spread.__subclasshook__(1)(2)        itertools.count().__doc__[0](1)   spread.__init_subclass__(1)
int.mro(1)                           type.mro(int, 1)                  str.__subclasses__(1)
deque([1]).__delitem__("a")          deque([1]).__getitem__(None)      deque([1]).__setitem__("a", 1)
itertools.chain().__setstate__(1)    itertools.chain().__setstate__(())
itertools.cycle([]).__setstate__(1)  itertools.cycle([]).__setstate__((1,))
itertools.chain().__setstate__((1,))  itertools.chain().__setstate__((1, 2, 3))
itertools.cycle([]).__setstate__((1, 2))  itertools.cycle([]).__setstate__(([], "a"))
"""


class Plain:
    def run(self):
        return 1


class Ours(list):
    pass


@pytest.mark.parametrize("text", [part for line in SOURCES.splitlines() for part in line.split("  ") if part])
def test_complaints(text):
    namespace = {name: getattr(collections, name) for name in ("deque", "defaultdict", "OrderedDict")}
    namespace |= globals()
    lines = f"""
        def program(x):
            cached, group = functools.lru_cache(Plain), ExceptionGroup("", [KeyError()])
            try:
                {text}
            except TypeError as error:
                return str(error), x + 1
    """
    exec(lines.replace("\n        ", "\n"), namespace)
    program = namespace["program"]
    (said, _), (heard, _) = program(1), minicompile.compile(program, backend="eager")(torch.ones(1))
    assert said == heard


def spread(wrap, name):
    """A function made in the frame, under a name that the program gives it."""

    def function(x, f):
        def called(a, *, b=1):
            return a

        if wrap is not None:
            functools.wraps(wrap)(called)
        if name is not None:
            called.__qualname__ = name
        texts = []
        for call in (lambda: called(), lambda: called(1, c=2), lambda: called(*1), lambda: called(**{"a": 1}, **x), f):
            try:
                call()
            except TypeError as error:
                texts.append(str(error))
        return texts

    return function


@pytest.mark.parametrize("name", [None, "given"])
@pytest.mark.parametrize("wrap", [None, abs, torch.relu])
def test_a_wrong_call_names_the_function_as_the_program_does(wrap, name):
    function = spread(wrap, name)
    compiled = minicompile.compile(function, backend="eager")
    for wrapped in (abs, len, abs):  # one code, several names

        def given(f=None):
            pass

        given.__qualname__ = wrapped.__name__
        arguments = {"a": 2}, functools.partial(given, 1, 2)
        texts = function(*arguments)
        assert compiled(*arguments) == texts and len(texts) == 5 and wrapped.__name__ in texts[-1]
        assert (name or getattr(wrap, "__qualname__", "called")) in texts[0]


MADE = [(int, 3), (str, 4), (float, 2), (tuple, 2), (list, 2), (dict, 2), (set, 2), (frozenset, 2), (complex, 3)]


@pytest.mark.parametrize("base, count", MADE, ids=[base.__name__ for base, _ in MADE])
def test_a_subclass_complains_in_its_own_words(base, count):
    """Of Python 3.13's `int` and of all `frozenset` these are others than the builtin's."""

    def function(x, arguments):
        class Derived(base):
            pass

        try:
            return Derived(*arguments)
        except TypeError as error:
            return str(error)

    arguments = (torch.ones(1), (1,) * count)
    expected = function(*arguments)
    assert isinstance(expected, str) and minicompile.compile(function, backend="eager")(*arguments) == expected
