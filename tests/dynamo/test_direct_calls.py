"""Methods of C classes that a program calls by name, names of attributes of every kind, and what `*` and `**` take from
objects that answer for themselves: values and complaints, against eager."""

import collections
import enum
import functools
import json
import operator
import re
import sys
import types
import typing

import pytest
import torch
from fuzz import builtin_classes, classes, prelude

import minicompile
from minicompile.testing import check

NAMESPACE = {
    **{name: getattr(classes, name) for name in (*classes.__all__, *builtin_classes.__all__)},
    **{name: getattr(prelude, name) for name in ("Box", "Loud", "Pair", "Color", "Failure")},
    **dict(collections=collections, torch=torch, types=types),
}
TOGETHER = 12  # expressions in a program
X = torch.tensor([[1.0, 2.0], [3.0, 4.0]])


def rows(text):
    return [row.strip() for line in text.strip().splitlines() for row in line.split(" ; ")]


def given(answer):
    """What a test compares: a tensor by its contents, everything else by what it says of itself."""
    if isinstance(answer, torch.Tensor):
        return answer.tolist()
    fields = vars(answer) if isinstance(answer, Exception) else {}
    return type(answer).__name__, str(answer).split(" at ")[0], str(fields)


def same_answers(expressions, **names):
    """Each expression, in a frame with a graph: its value, or what is raised."""
    expressions = list(expressions)
    for start in range(0, len(expressions), TOGETHER):
        lines = ["def program(x, n=1):", "    y, answers = x + 1, []"]
        for expression in expressions[start : start + TOGETHER]:
            lines.append(f"    try: answers.append({expression})")
            lines.append("    except Exception as error: answers.append(error)")
        namespace = {**NAMESPACE, **names}
        exec("\n".join([*lines, "    return y, answers"]), namespace)
        minicompile.reset()
        expected = list(map(given, namespace["program"](X)[1]))
        found = map(given, minicompile.compile(namespace["program"], backend="eager")(X)[1])
        for expression, *answers in zip(expressions[start:], found, expected, strict=False):
            assert answers[0] == answers[1], expression


STRANGERS = (
    "x ; [1] ; (1,) ; 1 ; 1.5 ; 'a' ; None ; x.shape ; {1: 2} ; {1} ; slice(1) ; Couple(1) ; Number(2) ; Chain(2)"
)
OWNERS = {
    "x.shape": "add radd mul rmul eq lt getitem contains",
    "(1,)": "add mul rmul eq ge getitem contains",
    "[1]": "add iadd mul imul eq le getitem delitem contains",
    "collections.deque([1])": "add iadd mul eq lt",
    "{1: 2}": "or ror ior eq ne lt",
    "{1}": "or ror ior and rsub xor isub le eq",
    "{1: 2}.keys()": "or and rand sub rsub eq le",
    "'a'": "add mul rmul rmod eq lt getitem contains",
    "b'a'": "add mul eq lt getitem",
    "(1)": "add radd mul truediv rpow divmod and lshift eq lt",
    "1.5": "add radd rsub mod eq le",
    "slice(1, 2)": "eq ne lt le gt ge",
    "range(3)": "eq lt getitem",
}


@pytest.mark.parametrize("owner", OWNERS)
def test_an_operators_method_that_is_called_by_name_answers_not_implemented_where_eager_does(owner):
    same_answers(f"{owner}.__{name}__({other})" for name in OWNERS[owner].split() for other in rows(STRANGERS))


TAKEN = """
object.__eq__(x, x) ; object.__eq__(1, 1) ; object.__ne__([], []) ; tuple.__add__(x.shape, (1,)) ; str.__mul__('a', x)
torch.Size.__add__(x.shape, x) ; int.__add__('a', 1) ; int.__add__(True, 1) ; torch.Tensor.__add__(x, 'a')
object.__lt__(x, 1) ; object.__repr__(1)[:4] ; slice(1) < slice(2) ; slice(1) < slice('a') ; slice(n) >= slice(None)
x.shape + x ; x.shape + [1] ; [1] + x.shape ; ('a',) + x.shape ; x.shape * x ; sum([x.shape, [1]], ())
"""


def test_a_method_that_is_taken_from_a_class_is_that_of_the_class():
    same_answers(rows(TAKEN))


RAISED = """
re.compile('(') ; re.sub('[', 'a', 'k') ; re.match('k', 'k').group(3) ; json.loads('{') ; Failure(1, 2)
OSError(2, 'a')
'\\xe9'.encode('ascii') ; compile('(', 'f', 'exec') ; json.JSONDecodeError('a', 'b', 0)
functools.cmp_to_key(sub)(1) < 2 ; functools.cmp_to_key(sub)(1) == 2 ; 2 > functools.cmp_to_key(sub)(1)
functools.cmp_to_key(sub)(1) < functools.cmp_to_key(sub) ; functools.cmp_to_key(sub).obj
functools.cmp_to_key(sub)(1) != functools.cmp_to_key(sub)(2) ; functools.cmp_to_key(sub)(None).obj
"""


def test_what_c_code_and_the_library_raise_has_its_fields():
    same_answers(rows(RAISED), functools=functools, json=json, re=re, sub=lambda a, b: a - b)


class Text(str, enum.Enum):
    NAME = "held"


class Slotted:
    __slots__ = ("held",)


class Handing:
    """Its hooks hand on another name than they were given."""

    def __init__(self, name):
        self.__dict__["name"] = name

    def __setattr__(self, name, value):
        object.__setattr__(self, self.name, value)

    def __delattr__(self, name):
        object.__delattr__(self, self.name)


NAMES = "n ; None ; x ; b'a' ; 'gone' ; (1,) ; Heat(1) ; Text.NAME"
USES = """
object.__setattr__(Heat(1), @, n) ; object.__delattr__(Heat(1), @) ; object.__getattribute__(Heat(1), @)
Heat(1).__setattr__(@, n) ; Heat(1).__getattribute__(@) ; setattr(Slotted(), @, n) ; object.__delattr__(Slotted(), @)
getattr(Heat(1), @) ; hasattr(Heat(1), @) ; delattr(Heat(1), @) ; setattr(Handing(@), 'a', 1) ; delattr(Handing(@), 'a')
object.__setattr__(Row(1), @, n) ; object.__setattr__(Failure(1), @, n) ; object.__setattr__(Chameleon(1), @, n)
super(Loud, Loud(1)).__setattr__(@, 3) ; object.__setattr__(types.SimpleNamespace(), @, n) ; getattr(Fallback(1), @)
"""


@pytest.mark.parametrize("name", rows(NAMES))
def test_what_names_an_attribute_is_a_text(name):
    same_answers([use.replace("@", name) for use in rows(USES)], Slotted=Slotted, Text=Text, Handing=Handing)


@pytest.mark.parametrize("write", ["setattr(made, Text.NAME, 3)", "vars(made).update({Text.NAME: 3})"])
def test_a_name_that_is_more_than_a_text_is_kept_as_it_is(write):
    namespace = {"Heat": classes.Heat, "Text": Text}
    exec(f"def program(x):\n    made = Heat(2)\n    {write}\n    return x + made.held, made", namespace)
    result, made = minicompile.compile(namespace["program"], backend="eager")(X)
    assert torch.equal(result, X + 3)
    assert [type(name) for name in made.__dict__] == [str, Text]


# --- `*` and `**` ---------------------------------------------------------------------------------------
LOG = []


class Keys:
    def __init__(self, *keys):
        self.given = keys

    def keys(self):
        LOG.append("keys")
        return self.given[0] if len(self.given) == 1 else self.given

    def __getitem__(self, key):
        LOG.append(key)
        if key == "z" or key == 2:
            raise AttributeError("no z") if key == "z" else IndexError(key)
        return [key]


class Hinting:
    """An iterator that says how many are left."""

    left = 2

    def __iter__(self):
        LOG.append("iter")
        return self

    def __next__(self):
        if not self.left:
            raise StopIteration
        self.left -= 1
        return f"k{self.left}"

    def __length_hint__(self):
        LOG.append("hint")
        return 1


class Raising:
    def __init__(self, error):
        self.error = error

    @property
    def keys(self):
        raise self.error

    def __iter__(self):
        raise self.error


class Made:
    """Its `keys` is made up by `__getattr__`."""

    def __getattr__(self, name):
        LOG.append(name)
        if name != "keys":
            raise AttributeError(name)
        return lambda: ["g"]

    def __getitem__(self, key):
        if key == 2:
            raise IndexError(key)
        return key


class Held(Made):
    def __init__(self):
        self.keys = lambda: ["h", "a"]


class ByItems:
    def items(self):
        return [("a", 1)]


class OtherKeys(dict):
    def keys(self):
        return ["other"]

    def __getitem__(self, key):
        return key


class OtherOrder(collections.OrderedDict):
    keys, __getitem__ = OtherKeys.keys, OtherKeys.__getitem__


class OtherElements(OtherKeys):
    def __iter__(self):
        return iter(["one"])


MAPPINGS = """
Fallback() ; Keys('a', 'b') ; Keys('a', 'z') ; Keys(1, 2) ; Keys(5) ; Keys(Hinting()) ; Raising(AttributeError('no'))
Raising(TypeError('no')) ; Raising(ValueError('no')) ; Keys(Raising(TypeError('no'))) ; Made() ; Held() ; ByItems()
OtherKeys(a=1) ; OtherOrder(a=1) ; OtherElements(a=1) ; Heat(1) ; x ; 1 ; None ; 'aa' ; ['ab'] ; Tagged ; Row(1)
Chain(2) ; collections.OrderedDict(a=1) ; collections.UserDict(a=1) ; types.SimpleNamespace(keys=lambda: ['s'])
len ; Failure(1)
"""
TAKERS = """
{**@} ; {'a': 0, **@} ; keywords(**@) ; keywords(a=0, **@) ; rest(*@) ; rest(1, *@) ; [*@] ; {*@} ; dict(@) ; dict(**@)
dict(@, z=1) ; {'a': 0} | @ ; collections.OrderedDict(@) ; collections.Counter(@) ; set(@) ; {1}.union(@)
{1}.issubset(@) ; {1, 'one'} - {*@} ; {'one'}.isdisjoint(@) ; {}.update(@) ; keywords(**{'a': 1}, **@)
"""
CLASSES = dict(Keys=Keys, Hinting=Hinting, Raising=Raising, Made=Made, Held=Held, ByItems=ByItems, OtherKeys=OtherKeys)
CLASSES |= dict(OtherOrder=OtherOrder, OtherElements=OtherElements)


@pytest.mark.parametrize("mapping", rows(MAPPINGS))
def test_what_stars_take_from_an_object(mapping):
    asked = [f"LOG.clear() or ({taker.replace('@', mapping)}, LOG)" for taker in rows(TAKERS)]
    asked = [row for taker in asked for row in (taker, "LOG")]
    same_answers(asked, **CLASSES, LOG=LOG, keywords=lambda **named: named, rest=lambda *rest: rest)


def failing(error):
    class Failing(Keys):
        def __getitem__(self, key):
            raise error(key)

    return Failing("a")


class LookedUp(Keys):
    def __getitem__(self, key):
        return {}[key]


class CaughtFirst(LookedUp):
    def __getitem__(self, key):
        try:
            return super().__getitem__(key)
        finally:
            LOG.append(key)


OwnKeyError = type("OwnKeyError", (KeyError,), {})


FAILING = [failing(KeyError), failing(OwnKeyError), CaughtFirst("a"), LookedUp("a")]


@pytest.mark.parametrize("mapping", FAILING)
@pytest.mark.parametrize("before", [{}, {"b": 1}])
def test_a_key_error_of_what_gives_keywords(mapping, before):
    def program(x):
        try:
            keywords(**before, **mapping)
        except (KeyError, TypeError) as error:
            return x + 1, type(error), str(error), error.__context__, error.__cause__

    breaks = int(mapping is FAILING[-1] and sys.version_info < (3, 12))
    check(program, X, graphs=1 - breaks, graph_breaks=breaks, calls=1)


def keywords(**named):
    return named


UserId = typing.NewType("UserId", int)


def test_calls_of_a_new_type():
    def program(x, number):
        return x + UserId(number), UserId

    check(program, X, 3, graphs=1, graph_breaks=0)


ITERABLES = "Raising(TypeError('no')) ; NoIterator() ; Raising(ValueError('no')) ; 5 ; None ; [1] ; Chain(2) ; 'ab'"
SEARCHES = """
''.join(@) ; b''.join(@) ; made.__setitem__(slice(1), @) ; made.__setitem__(slice(0, 2, 2), @) ; made.extend(@)
operator.countOf(@, 1) ; operator.indexOf(@, 1) ; 1 in @ ; made.__init__(@) ; set().__init__(@) ; {}.__init__(@)
list.__init__(made, @) ; (made, list(@)) ; (1,).__init__(@) ; Rows(@) ; collections.deque(@)
"""


class NoIterator:
    def __iter__(self):
        return 5


@pytest.mark.parametrize("iterable", rows(ITERABLES))
def test_who_takes_an_iterable_says_in_its_own_words_that_it_is_none(iterable):
    names = dict(Raising=Raising, NoIterator=NoIterator, operator=operator, Rows=type("Rows", (list,), {}))
    same_answers((row.replace("@", iterable) for row in rows(SEARCHES)), **names, made=[1, 2])


def test_a_second_init_of_a_container_fills_it_anew():
    def program(x, existing):
        items, keyed, apart, ordered = [1, 2], {1: 2}, {1}, collections.OrderedDict(a=1)
        counted = collections.defaultdict(int, a=1)
        list.__init__(items, [3])
        existing.__init__("ab")
        keyed.__init__({3: 4}, five=6)
        set.__init__(apart, [2])
        ordered.__init__(b=2)
        counted.__init__(list, b=2)
        return x + 1, items, keyed, apart, ordered, counted, counted["made"], items.__init__()

    minicompile.reset()
    compiled, existing, other = minicompile.compile(program, backend="eager"), [1], [1]
    assert given(compiled(X, existing)[1:]) == given(program(X, other)[1:])
    assert existing == other == ["a", "b"]


def test_a_finished_generator_keeps_its_name_and_code():
    def counting(stop, *, step=1):
        yield from range(0, stop, step)

    def program(x):
        made, expression = counting(2), (item for item in [x])
        first = next(made), list(expression)
        made.close()
        minicompile.graph_break()
        return x + first[0], made, expression

    minicompile.reset()
    for generator, name in zip(minicompile.compile(program, backend="eager")(X)[1:], ("counting", "<genexpr>")):
        assert generator.__name__ == generator.gi_code.co_name == name
        assert generator.gi_frame is None and list(generator) == []


def test_no_guard_asks_a_method_of_the_users_for_a_dict():
    class Refusing:
        def __getattribute__(self, name):
            raise RuntimeError(name)

        def __setattr__(self, name, value):
            object.__setattr__(self, name, value)

    class Hiding:
        @property
        def __dict__(self):
            raise RuntimeError("hidden")

        def __setattr__(self, name, value):
            object.__setattr__(self, name, value)

    for cls in (Refusing, Hiding):

        def program(x, made):
            made.held = x
            minicompile.graph_break()
            object.__setattr__(made, "more", {"a": x})
            object.__delattr__(made, "held")
            return x + len(object.__getattribute__(made, "more"))

        minicompile.reset()
        for _ in range(2):
            assert torch.equal(minicompile.compile(program, backend="eager")(X, cls()), X + 1)


# --- what classes have, and their instances do not ----------------------------------------------------
INSTANCES = [[1], (1,), {1: 2}, {1}, 3, "s", None, range(3), slice(1, 2), collections.deque([1]), torch.Size([1])]
INSTANCES += [types.MappingProxyType({1: 2}), {}.keys(), iter([1]), functools.partial(len), X.long(), ValueError()]


@pytest.mark.parametrize("value", INSTANCES, ids=lambda value: type(value).__name__)
@pytest.mark.parametrize("name", ["__or__", "__ror__", "mro", "__name__", "__call__", "__bases__", "__instancecheck__"])
def test_what_a_metaclass_has_is_no_attribute_of_an_instance(value, name):
    def read(x):
        try:
            found = getattr(value, name)
        except AttributeError as error:
            return x + 1, str(error)
        try:
            return x + 2, type(found(1)).__name__
        except TypeError as error:
            return x + 3, str(error)

    check(read, torch.ones(2))
