"""Texts of objects: `%`, `str.format` and f-strings, with values and errors as in eager."""

import pytest
import torch

import minicompile


class V:
    def __init__(self, v):
        self.v = v
        self.items = [v, Echo()]

    def __str__(self):
        return f"V{self.v}"

    def __repr__(self):
        return f"<V{self.v}>"

    def __format__(self, spec):
        return f"F{self.v}{spec}"

    def __index__(self):
        return 65

    def __float__(self):
        return 2.5

    def __int__(self):
        return 7


class Echo:
    def __getitem__(self, key):
        return str(key)


class Bracketed(str):
    """Whose text of itself is in brackets: once more where C code hands back the object, not its text."""

    def __format__(self, spec):
        return f"[{super().__format__(spec)}]"


class Name(str):
    pass


class OwnText(str):
    def __str__(self):
        return self


def classes(*texts):
    """Of texts, and of those in a tuple."""
    return [classes(*text) if type(text) is tuple else (type(text).__name__, text) for text in texts]


TEXTS = [
    lambda: (f"{Bracketed('abcd'):>3}", f"{Bracketed('ab'):>3}", f"{Bracketed('abcd')}", {f"{Bracketed([1]):2}": 1}),
    lambda: "%s %r %d %5.2f" % (V(1), V(2), 3, 4.0),
    lambda: "%s" % V(3),
    lambda: "%(a)s %(b)5.1f%%" % {"a": V(1), "b": 2},
    lambda: "%d %x %f %*d %-10s|" % (V(1), V(1), V(1), 4, 3, V(1)),
    lambda: "%c%c%c" % ("a", 66, V(1)),
    lambda: "%s" % [1, V(1)],
    lambda: "%r %s" % ((1, V(1)), {1: V(2)}),
    lambda: "%(k)s %(k)r" % Echo(),
    lambda: "{} {!r} {:>3}".format(V(1), V(2), V(3)),
    lambda: "{0} {1.v} {0.items[0]} {k:{w}}".format(V(1), V(2), k=V(3), w=5),
    lambda: "{:{}}".format(V(1), V(2)),
    lambda: "{{}} {}".format(V(1)),
    lambda: f"{V(1)} {V(2)!r} {V(3):q}",
    lambda: "%s %s" % V(1),
    lambda: "%s" % (V(1), V(2)),  # noqa: F507
    lambda: "%d" % "a",
    lambda: "{} {}".format(V(1)),
    lambda: "{a}".format(b=V(1)),
    lambda: "%(k)s" % {"j": V(1)},  # noqa: F504, F505
    lambda: "%(k)s" % V(2),
    lambda: "all" % Echo() + "all" % [V(1)],  # noqa: F507
    lambda: "none" % V(1),  # noqa: F507
    lambda: "%y" % V(1),  # noqa: F509
]
OF_DERIVED_CLASSES = [
    lambda: classes(f"{Name('abc'):>3}", f"{Name('abc'):>4}", f"{Name('abc'):.2}", f"{Name('abc')}", f"{Name(''):s}"),
    lambda: classes(
        "{:>3}".format(Name("abc")), format(Name("abc"), "s"), "%s" % Name("abc"), "{}".format(Name("abc"))
    ),
    lambda: classes(
        Name("abc").format(1), Name("a{}").format(1), Name("a{{").format(), Name("ab").format_map({"a": 1})
    ),
    lambda: classes(Name("abc") % (), Name("ab%%") % (), Name("a%s") % 1, Name("abc") % {"a": 1}, Name("abc") % []),
    lambda: classes(Name("abc").partition("z"), Name("abc").rpartition("z"), Name("abc").partition("b")),
    lambda: classes(f"{OwnText('abc'):>3}", str(OwnText("abc")), format(OwnText("abc")), OwnText("abc") % ()),
]


def outcome(make):
    try:
        return make()
    except (TypeError, ValueError, KeyError, IndexError) as error:
        return type(error), str(error)


@pytest.mark.parametrize("number", range(len(TEXTS)))
def test_texts_of_objects_are_captured(number):
    make = TEXTS[number]

    def program(x):
        return outcome(make), x + 1

    assert minicompile.compile(program, backend="eager", fullgraph=True)(torch.ones(2))[0] == outcome(make)


@pytest.mark.parametrize("number", range(len(OF_DERIVED_CLASSES)))
def test_c_code_hands_back_the_text_itself_where_it_adds_nothing(number):
    make = OF_DERIVED_CLASSES[number]

    def program(x):
        return make(), x + 1

    assert minicompile.compile(program, backend="eager")(torch.ones(2))[0] == make()
