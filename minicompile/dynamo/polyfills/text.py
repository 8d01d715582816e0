"""`str.format` and `%` where an argument is an object whose text capture has to work out.

Goes in and comes out: what the originals take and give; with plain constants capture calls the originals themselves.
Mirrors parts of `torch/_dynamo/polyfills/`.  Taught in chapter 06.
"""

import _string
import operator
import re
import string
import sys

from .iterators import defines


def type_name(cls):
    """Folded: the class in the messages of CPython, where many that are written in C go by their module too."""
    stranger = list if issubclass(cls, int) else int
    try:
        stranger.__new__(cls)
    except TypeError as error:
        return str(error).removeprefix(f"{stranger.__name__}.__new__(").partition("): ")[0]


def match_no_class(pattern):
    """Folded: complains."""
    match None:
        case pattern():
            pass


PERCENT = re.compile(
    r"%(?:\((?P<key>[^)]*)\))?[#0\- +]*(?P<width>\*|\d+)?(?:\.(?P<precision>\*|\d*))?[hlL]?(?P<kind>.)"
)


def fields(template):
    """Folded: [(literal, field name, spec, conversion)] of a `str.format` template."""
    return tuple(_string.formatter_parser(template))


def field_path(name):
    """Folded: `a.b[0]` as ("a", ((True, "b"), (False, 0)))."""
    first, rest = _string.formatter_field_name_split(name)
    return first, tuple(rest)


def conversions(template):
    """Folded: [(text, key, number of `*`, kind)] of a `%` template, `%%` left out."""
    found = [m for m in PERCENT.finditer(template) if m["kind"] != "%"]
    return tuple((m.group(), m["key"], [m["width"], m["precision"]].count("*"), m["kind"]) for m in found)


class Formatter(string.Formatter):
    """The parts of the standard library's formatter that are written in C."""

    def parse(self, template):
        return fields(template)

    def get_value(self, key, args, kwargs):
        if isinstance(key, int) and key >= len(args):
            raise IndexError(f"Replacement index {key} out of range for positional args tuple")
        return super().get_value(key, args, kwargs)

    def get_field(self, name, args, kwargs):
        first, rest = field_path(name)
        value = self.get_value(first, args, kwargs)
        for is_attribute, key in rest:
            value = getattr(value, key) if is_attribute else value[key]
        return value, first


def format_template(template, args, kwargs):
    return Formatter().vformat(template, args, kwargs)


PLAIN = (int, float, complex, bool, str, bytes, type(None))
CONVERSIONS = {"s": str, "r": repr, "a": ascii, **dict.fromkeys("diu", int), **dict.fromkeys("oxXc", operator.index)}
CONVERSIONS.update(dict.fromkeys("eEfFgG", float))


def converted(value, kind):
    """A plain value that `%kind` prints alike."""
    if kind not in "ra" and type(value) in PLAIN:
        return value
    if kind in "diuoxXc" and isinstance(value, int):  # whatever its class makes of `__int__`
        return int.__index__(value)
    if kind in "eEfFgG" and isinstance(value, float):
        return float.__pos__(value)
    try:
        return CONVERSIONS[kind](value) if kind in CONVERSIONS else None
    except Exception:
        if kind != "c":
            raise
    return None  # it says what it wants, whatever went wrong


def percent(template, values):
    """`template % values`, with the arguments made plain first."""
    found = conversions(template)
    mapping = not isinstance(values, (tuple, str)) and defines(values, "__getitem__")
    if any(key is not None for _, key, _, _ in found):
        if not mapping:
            raise TypeError("format requires a mapping")
        made = [converted(values[key], kind) for _, key, _, kind in found]
        return percent_of_constants(plain_text(template), tuple(made))
    given, made = list(tuple.__iter__(values)) if isinstance(values, tuple) else [values], []
    for _, _, stars, kind in found:
        for expected in ["d"] * stars + [kind]:
            if len(made) < len(given):
                made.append(converted(given[len(made)], expected))
    unused = 0 if mapping else len(given) - len(made)  # of a mapping, or a list, nothing need be used
    return percent_of_constants(plain_text(template), (*made, *[None] * unused))


def plain_text(template):
    """Folded: the template for arguments in a row, of which `%r` and `%a` are texts already."""

    def replace(match):
        text = match.group().replace(f"({match['key']})", "", 1)
        return text[:-1] + "s" if match["kind"] in "ra" else text

    return PERCENT.sub(replace, template)


def percent_of_constants(template, values):
    """Folded."""
    return template % values


# --- regular expressions --------------------------------------------------------------------------------
def matches(pattern, *where):
    """Folded: all matches."""
    return tuple(pattern.finditer(*where))


def replaced(pattern, template, text, count):
    """Folded: `pattern.subn` with a template."""
    return pattern.subn(template, text, count)


def finditer(self, string, pos=0, endpos=sys.maxsize):
    return iter(matches(self, string, pos, endpos))


def sub(self, repl, string, count=0):
    return subn(self, repl, string, count)[0]


def subn(self, repl, string, count=0):
    if isinstance(count, int):
        count = 0 + count  # 3.13 gives an instance of a class of its own where there is none
    if not callable(repl):
        return replaced(self, repl, string, count)
    parts, end, found = [], 0, matches(self, string)
    if count > 0:
        found = found[:count]
    for match in found:
        if end < match.start():
            parts.append(string[end : match.start()])
        part = repl(match)
        if part is not None:
            parts.append(part)
        end = match.end()
    if end < len(string):
        parts.append(string[end:])
    return string[:0].join(parts), len(found)


METHODS = {re.Pattern.finditer: finditer, re.Pattern.sub: sub, re.Pattern.subn: subn}
