"""Chapter 06: plausible wrong answers to its exercises fail, with a message that helps."""

import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "notebooks"))

from exercises import chapter_06  # noqa: E402
from exercises.chapter_06 import Read  # noqa: E402


def equal(a, b):
    return a == b


def equal_text(a, b):
    return repr(a) == repr(b)


def shape(value, seen):
    """Numbers objects as they are met, but forgets that empty lists are objects and that tuples have a type."""
    if not isinstance(value, (list, tuple, dict)):
        return type(value), value
    if id(value) in seen:
        return seen[id(value)]
    if value:
        seen[id(value)] = len(seen)
    items = value.items() if isinstance(value, dict) else value
    return [shape(item, seen) for item in items]


def numbers_what_is_not_empty(a, b):
    return shape(a, {}) == shape(b, {})


def one_way(a, b):
    """Remembers the partner of a's lists only."""
    partner = {}

    def same(a, b):
        if type(a) is not type(b):
            return False
        if not isinstance(a, (list, tuple, dict)):
            return a == b
        if id(a) in partner:
            return partner[id(a)] == id(b)
        partner[id(a)] = id(b)
        if isinstance(a, dict):
            return list(a) == list(b) and all(same(a[k], b[k]) for k in a)
        return len(a) == len(b) and all(map(same, a, b))

    return same(a, b)


def keys_by_equality(a, b):
    """Pairs lists one to one, and takes keys that are equal for the same."""
    there, back = {}, {}

    def same(a, b):
        if type(a) is not type(b):
            return False
        if not isinstance(a, (list, tuple, dict)):
            return repr(a) == repr(b)
        if id(a) in there or id(b) in back:
            return there.get(id(a)) == id(b) and back.get(id(b)) == id(a)
        there[id(a)], back[id(b)] = id(b), id(a)
        if isinstance(a, dict):
            return list(a) == list(b) and all(same(a[k], b[k]) for k in a)
        return len(a) == len(b) and all(map(same, a, b))

    return same(a, b)


def by_value(known, value, make):
    for each, tracker in known.items():
        if each == repr(value):
            return tracker
    known[repr(value)] = make(value)
    return known[repr(value)]


def by_hash(known, value, make):
    return known.setdefault(value, None) or known.update({value: make(value)}) or known[value]


def by_id_alone(known, value, make):
    if id(value) not in known:
        known[id(value)] = make(value)
    return known[id(value)]


EVERYWHERE = {}


def one_table_for_all(known, value, make):
    return EVERYWHERE.setdefault(id(value), (value, make(value)))[1]


def makes_each_time(known, value, make):
    known[id(value)] = (value, make(value))
    return known[id(value)][1]


def everything(log):
    return log


def flat(log):
    last = {(id(o), name): (o, name, value) for o, name, value in log}
    return list(last.values())


def by_equality(log):
    out = []
    for o, name, value in log:
        out = [row for row in out if (row[0], row[1]) != (o, name)] + [(o, name, value)]
    return out


def newest_first(log):
    out = {}
    for o, name, value in log:
        out.pop((id(o), name), None)
        out[id(o), name] = (o, name, value)
    return list(out.values())


def drops_none(log):
    objects, writes = {}, {}
    for o, name, value in log:
        objects[id(o)] = o
        if value is not None:
            writes.setdefault(id(o), {})[name] = value
    return [(objects[k], n, v) for k, names in writes.items() for n, v in names.items()]


def value_of(source):
    return getattr(value_of(source.object), source.name) if isinstance(source, Read) else source


def one_after_the_other(writes):
    for target, name, source in writes:
        setattr(value_of(target), name, value_of(source))


def values_only(writes):
    ready = [(target, name, value_of(source)) for target, name, source in writes]
    for target, name, value in ready:
        setattr(value_of(target), name, value)


def one_step(writes):
    ready = [(t, n, getattr(s.object, s.name) if isinstance(s, Read) else s) for t, n, s in writes]
    for target, name, value in ready:
        setattr(target, name, value)


def backwards(writes):
    one_after_the_other(writes[::-1])


WRONG = [  # (check, wrong answer, what the message must speak of)
    (chapter_06.check_06_1, equal, "not two equal lists"),
    (chapter_06.check_06_1, equal_text, "not two equal lists"),
    (chapter_06.check_06_1, numbers_what_is_not_empty, "empty lists are objects"),
    (chapter_06.check_06_1, one_way, "other way round"),
    (chapter_06.check_06_1, keys_by_equality, "the keys 1 and True"),
    (chapter_06.check_06_2, by_value, "two equal lists are two objects"),
    (chapter_06.check_06_2, by_hash, "unhashable"),
    (chapter_06.check_06_2, by_id_alone, "got its address"),
    (chapter_06.check_06_2, one_table_for_all, "do not remember elsewhere|expected trackers"),
    (chapter_06.check_06_2, makes_each_time, "the same list twice"),
    (chapter_06.check_06_3, everything, "only the last value"),
    (chapter_06.check_06_3, flat, "stand together"),
    (chapter_06.check_06_3, by_equality, "two objects"),
    (chapter_06.check_06_3, newest_first, "stand together|keeps the place"),
    (chapter_06.check_06_3, drops_none, "None is a value"),
    (chapter_06.check_06_4, one_after_the_other, "a.x, a.y = a.y, a.x"),
    (chapter_06.check_06_4, values_only, "found by a path of before"),
    (chapter_06.check_06_4, one_step, "Read"),
    (chapter_06.check_06_4, backwards, "a.x, a.y = a.y, a.x"),
]


@pytest.mark.parametrize("check, answer, about", WRONG, ids=lambda v: getattr(v, "__name__", None))
def test_a_wrong_answer_fails_and_hears_why(check, answer, about):
    verdict = check(answer)
    assert not verdict.passed
    assert any(part in verdict.message for part in about.split("|")), verdict.message
