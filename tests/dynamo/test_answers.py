"""What special methods may answer, and what C code makes of their answers."""

import collections
import copy
import copyreg
import operator
import types

import pytest
import torch
from worlds import same

import minicompile

X = torch.ones(2)


class Two:
    def __index__(self):
        return 2


class Text(str):
    pass


class Number(int):
    pass


ANSWERS = [
    2.5,
    -1,
    2**70,
    Two(),
    True,
    None,
    "a",
    Text("b"),
    b"x",
    [1],
    (),
    Number(-1),
    0,
    1j,
    NotImplemented,
    range(2),
]
USES = {
    "__len__": [len, bool, lambda v: not v, lambda v: 1 if v else 0, operator.length_hint],
    "__bool__": [bool, lambda v: not v, lambda v: 1 if v else 0, lambda v: v and 3, lambda v: any([v])],
    "__hash__": [hash, lambda v: {v: 1}[v], lambda v: (1, v) in {(1, v): 2}],
    "__str__": [str, format, lambda v: f"{v}"],
    "__repr__": [repr, str, lambda v: f"{v!r}"],
    "__format__": [format, lambda v: f"{v:3}", "{}".format],
    "__iter__": [lambda v: type(iter(v)), list, lambda v: 1 in v, lambda v: [*v], sum],
    "__index__": [operator.index, lambda v: [1, 2, 3][v], lambda v: "abc"[v]],
}


@pytest.mark.parametrize("method", USES)
@pytest.mark.filterwarnings("ignore:__index__ returned non-int:DeprecationWarning")
def test_answers_of_special_methods(method):
    def program():
        def f(x, objects):
            found = []
            for made in objects:
                for use in uses:
                    try:
                        result = use(made)
                        found.append((type(result).__name__, str(result)))
                    except (TypeError, ValueError, OverflowError, IndexError) as error:
                        found.append((type(error).__name__, str(error)))
            return x + 1, found

        uses = USES[method]
        answering = [type("Answers", (), {method: lambda self, *rest, value=value: value})() for value in ANSWERS]
        return f, [(X, answering), (X, answering)]

    same(program, fullgraph=False)


class Falsy(type):
    def __bool__(cls):
        return False


class Empty(type):
    def __len__(cls):
        return 0


class OfFalsy(metaclass=Falsy):
    pass


class OfEmpty(metaclass=Empty):
    pass


def test_the_truth_of_a_class_is_its_metaclasses_word():
    def f(x):
        classes = [OfFalsy, OfEmpty, Text]
        return x + 1, [bool(cls) for cls in classes], [1 if cls else 2 for cls in classes], any(classes[:2])

    same(lambda: (f, [(X,)]))
    assert f(X)[1:] == ([False, False, True], [2, 2, 1], False)


class Restored:
    """Answers what the copy module asks."""

    def __init__(self, hook, log):
        self.hook, self.log = hook, log

    def __getattr__(self, name):
        if name != self.__dict__.get("hook"):
            raise AttributeError(name)
        self.log.append(name)
        return lambda state: self.__dict__.update(restored=True)


def test_a_getattr_that_has_hooks_for_copies():
    def f(x, log):
        asked = [Restored("__setstate__", log), Restored("__deepcopy__", log), Restored("other", log)]
        return x + 1, [type(copy.copy(each)) for each in asked], [type(copy.deepcopy(each)) for each in asked]

    logs = [], []
    results = f(X, logs[0])[1:], minicompile.compile(f, backend="eager")(X, logs[1])[1:]
    assert results[0] == results[1] and logs[0] == logs[1] == ["__deepcopy__"]


ASKED = []


class Asked:
    """Notes what it is asked and set; some names of attributes mean others, as in a configuration of `transformers`."""

    __slots__ = ("kept", "unset", "__dict__")
    other_names = {"width": "size"}

    def __init__(self, **attributes):
        self.kept = [5]
        self.__dict__.update(attributes)

    def __getattribute__(self, name):
        ASKED.append(name)
        found = super().__getattribute__("other_names").get(name, name)
        return super().__getattribute__(found)

    def __setattr__(self, name, value):
        ASKED.append((name, value))
        super().__setattr__(self.other_names.get(name, name), value)


@pytest.mark.parametrize("make_copy", [copy.copy, copy.deepcopy])
def test_a_getattribute_that_has_no_hooks_for_copies(make_copy):
    """One graph, in which the object and its copy are asked what eager asks them, in its order."""

    def program():
        ASKED.clear()
        full, empty = Asked(size=2, parts=[Asked(size=3)]), Asked()
        del empty.kept

        def f(x):
            copies = make_copy(full), make_copy(empty)
            copies[0].width = 4
            copies[0].parts.append(1)
            return x + copies[0].size, copies[0].kept, full.width, len(full.parts), copies[0].parts[0].size

        return f, [(X,), (X,)], lambda: list(ASKED)

    same(program)


HOOKS = {
    "__deepcopy__": lambda memo: "deep",
    "__reduce_ex__": lambda protocol: (list, ()),
    "__getstate__": lambda: {"state": 1},
    "__reduce__": lambda: "ignored",
}


class Answering:
    def __init__(self, name):
        self.name = name

    def __getattribute__(self, name):
        return (
            HOOKS[name]
            if name in HOOKS and name == super().__getattribute__("name")
            else super().__getattribute__(name)
        )


class Plain:
    pass


class Registered:
    pass


copyreg.pickle(Registered, lambda value: (list, ()))


@pytest.mark.parametrize("name", HOOKS)
def test_hooks_for_copies_that_an_object_has_itself(name):
    def f(x):
        plain, found = Plain(), []
        plain.__dict__[name] = HOOKS[name]
        for value in (plain, Answering(name), Registered()):
            for made in (copy.copy(value), copy.deepcopy(value)):
                found.append((type(made), made if type(made) is str else sorted(getattr(made, "__dict__", ()))))
        return x + 1, found

    same(lambda: (f, [(X,)]), fullgraph=False)


# --- which of two values is asked whether they are equal ------------------------------------------------
class Equal:
    def __init__(self, name, log):
        self.name, self.log = name, log

    def __eq__(self, other):
        self.log.append(self.name)
        return True

    def __hash__(self):
        return 1


class Fails:
    def __eq__(self, other):
        raise KeyError("asked")


class Mapping(dict):
    pass


EQUALITIES = """
{1: a} == {1: b} ; {1: a} != {1: b} ; {1: a, 2: 2} == {1: b, 3: 3} ; {2: 2, 1: a} == {1: b, 3: 3}
{1: a} == {1: b, 2: 2} ; {1: a}.items() == {1: b}.items() ; {1: a, 2: 1}.items() >= {1: b}.items()
{a: 1}.keys() == {b: 1}.keys() ; collections.OrderedDict({1: a, 2: 2}) == collections.OrderedDict({2: 2, 1: b})
{1: a} == collections.OrderedDict({1: b}) ; Mapping({1: a}) == {1: b} ; {1: a} == Mapping({1: b})
types.MappingProxyType({1: a}) == {1: b} ; {a: 1} == {b: 1}
collections.Counter({1: a}) == collections.Counter({1: b}) ; types.SimpleNamespace(v=a) == types.SimpleNamespace(v=b)
slice(a) == slice(b) ; (a, 1) == (b,) ; [a, 1] == [b] ; collections.deque([a, 1]) == collections.deque([b])
[a] < [b] ; {a} == {b} ; {a} <= {b} ; {a} - {b} ; {a}.isdisjoint({b}) ; a in {b} ; a in {1: b}.values()
(1, a) in {1: b}.items() ; a in [b] ; a in (b,) ; a in iter([b]) ; [b].index(a) ; (b,).count(a) ; [b].remove(a)
collections.deque([b]).remove(a) ; operator.countOf([b], a) ; operator.indexOf([b], a) ; {b}.discard(a)
{b: 1}.pop(a) ; {b: 1}.get(a) ; (1, a) != (1, b, 2) ; {1: fails, 2: 0} == {1: 2, 3: 1}
{2: fails, 1: 0} == {1: 2, 3: 1} ; {1: fails} == {1: 2, 3: 1} ; (1, fails) == (1, 2, 3) ; [1, fails] == [1, 2, 3]
(1, fails) == (2, 3) ; {1: x} == {1: y, 2: 2} ; {1: x, 2: 2} == {1: y, 3: 2} ; (x, 1) == (y,)
"""


@pytest.mark.parametrize("question", [q for line in EQUALITIES.strip().splitlines() for q in line.split(" ; ")])
def test_which_is_asked_first(question):
    namespace = dict(collections=collections, operator=operator, types=types, Mapping=Mapping)
    exec(f"def program(a, b, fails, x, y, log):\n    return x + 1, {question}, log", namespace)

    def observed(function):
        log = []
        try:
            _, answer, _ = function(Equal("a", log), Equal("b", log), Fails(), torch.ones(2), torch.zeros(2), log)
            return type(answer), answer if type(answer) is bool else None, log
        except (KeyError, RuntimeError) as error:
            return type(error), error.args, log

    minicompile.reset()
    assert observed(minicompile.compile(namespace["program"], backend="eager")) == observed(namespace["program"])
