"""Checks for chapter 06: worlds that are the same, one tracker an object, the last writes, reads before writes."""

import gc

from .verdict import expect, judge


class Box:
    """An object with attributes; all of them compare equal, so that only identity tells them apart."""

    def __init__(self, **attributes):
        self.__dict__.update(attributes)

    def __eq__(self, other):
        return isinstance(other, Box)

    __hash__ = None

    def __repr__(self):
        return f"Box({', '.join(f'{name}={value!r}' for name, value in vars(self).items())})"


def check_06_1(same_world):
    """same_world(a, b) -> whether a program that looks at a and at b, also with `is` among lists, sees no difference."""

    def ring(length):
        first = [0]
        last = first
        for _ in range(length - 1):
            last = [last]
        first[0] = last
        return first

    def twice(row):
        return [row, row]

    trials = [
        expect(same_world, ([1, 2], [1, 2]), True, "equal lists"),
        expect(same_world, ([1, 2], [2, 1]), False, "another order"),
        expect(same_world, ([1], [1, 1]), False, "another length"),
        expect(same_world, (twice([1]), twice([1])), True, "one list in two places, in both worlds"),
        expect(same_world, (twice([1]), [[1], [1]]), False, "one list in two places is not two equal lists"),
        expect(same_world, ([[1], [1]], twice([1])), False, "the same the other way round"),
        expect(same_world, ([[], [], []], twice([]) + [[]]), False, "empty lists are objects too"),
        expect(same_world, ([1], [True]), False, "1 and True are equal, but a program can tell them apart"),
        expect(same_world, ([0.0], [0]), False, "0.0 and 0"),
        expect(same_world, ([1], (1,)), False, "a list is no tuple"),
        expect(same_world, ((1, [2]), (1, [2])), True, "tuples"),
        expect(same_world, ({"a": 1, "b": 2}, {"a": 1, "b": 2}), True, "dicts"),
        expect(same_world, ({"a": 1, "b": 2}, {"b": 2, "a": 1}), False, "iterating over a dict shows the order"),
        expect(same_world, ({"a": [1]}, {"a": [1], "b": 0}), False, "a key more"),
        expect(same_world, (ring(1), ring(1)), True, "a list that contains itself"),
        expect(same_world, (ring(2), ring(2)), True, "a ring of two lists"),
        expect(same_world, (ring(1), ring(2)), False, "rings of different length: `x[0] is x` tells"),
        expect(same_world, ("text", "text"), True, "no container at all"),
        expect(same_world, ({1: "a"}, {True: "a"}), False, "a program can tell the keys 1 and True apart, too"),
        expect(same_world, ([0.0], [-0.0]), False, "0.0 and -0.0 are equal; divide by them"),
        expect(same_world, ([float("nan")], [float("nan")]), True, "nan is not equal to itself, and both are nan"),
    ]
    return judge(trials, "this is how the package's tests compare eager with compiled")


def check_06_2(tracker_of):
    """tracker_of(known, value, make) -> the one tracker of value: from the dict `known`, else make(value)."""
    made = []

    def make(value):
        made.append([value])
        return made[-1]

    def trial(about, *values):
        """values: pairs of (value, number of the tracker that is wanted for it)."""

        def run():
            known, numbers = {}, []
            made.clear()
            for value, _ in values:
                got = tracker_of(known, value, make)
                if got is None:
                    return "your function returned None; write its body first"
                numbers.append(next((k for k, each in enumerate(made) if each is got), None))
            wanted = [number for _, number in values]
            return None if numbers == wanted else f"{about}: expected trackers {wanted}, got {numbers}"

        return run

    def short_lived():
        known, seen = {}, []
        for k in range(50):
            tracker = tracker_of(known, [k], lambda value: [value[0]])
            seen.append(tracker[0])
            gc.collect(0)
        if seen == list(range(50)):
            return None
        return "a list died, a new one got its address (its id), and your function took it for the old one"

    def two_worlds():
        value = [1]
        first, second = tracker_of({}, value, make), tracker_of({}, value, make)
        return None if first is not second else "another capture has another `known`: do not remember elsewhere"

    a, b, box, other = [1], [1], Box(n=1), Box(n=1)
    trials = [
        trial("the same list twice", (a, 0), (a, 0)),
        trial("two equal lists are two objects", (a, 0), (b, 1), (a, 0), (b, 1)),
        trial("dicts and lists cannot be hashed", ({}, 0), ([], 1)),
        trial("two objects whose class says that they are equal", (box, 0), (other, 1), (box, 0)),
        trial("None is an object like any other", (None, 0), (None, 0)),
        short_lived,
        two_worlds,
    ]
    return judge(trials, "OutputGraph.remember and known do this; the object is kept so that its id stays its own")


def check_06_3(final_writes):
    """final_writes(log) -> [(object, name, value)]: last values, objects in order of their first write."""
    a, b = Box(label="a"), Box(label="b")

    def trial(log, wanted, about):
        def run():
            got = final_writes(list(log))
            if got is None:
                return "your function returned None; write its body first"
            same = [(id(o), n, v) for o, n, v in got] == [(id(o), n, v) for o, n, v in wanted]
            show = lambda rows: [f"{o.label}.{n} = {v!r}" for o, n, v in rows]
            return None if same else f"{about}: expected {show(wanted)}, got {show(got)}"

        return run

    trials = [
        trial([], [], "nothing was written"),
        trial([(a, "x", 1)], [(a, "x", 1)], "one write"),
        trial([(a, "x", 1), (a, "x", 2)], [(a, "x", 2)], "only the last value can be seen from outside"),
        trial([(a, "x", 1), (b, "x", 2)], [(a, "x", 1), (b, "x", 2)], "equal objects are still two objects"),
        trial(
            [(b, "x", 1), (a, "x", 2), (b, "y", 3)],
            [(b, "x", 1), (b, "y", 3), (a, "x", 2)],
            "the writes of one object stand together, at the place of its first",
        ),
        trial(
            [(a, "x", 1), (b, "x", 2), (a, "x", None)],
            [(a, "x", None), (b, "x", 2)],
            "a later write keeps the place of the first, and None is a value",
        ),
        trial(
            [(a, "y", 1), (a, "x", 2), (a, "y", 3)], [(a, "y", 3), (a, "x", 2)], "names in order of their first write"
        ),
    ]
    return judge(trials, "two nested dicts that keep their order do it: SideEffects.attributes")


def check_06_4(perform):
    """perform(writes): each is (object, name, source), source is a value or a Read(object, name) of before."""

    def trial(build, about):
        def run():
            objects, writes, wanted = build()
            perform(writes)
            got = [dict(vars(each)) for each in objects]
            return None if got == wanted else f"{about}: expected {wanted}, got {got}"

        return run

    def plain():
        a = Box(x=1)
        return [a], [(a, "x", 5), (a, "y", 6)], [{"x": 5, "y": 6}]

    def swap():
        a = Box(x=1, y=2)
        return [a], [(a, "x", Read(a, "y")), (a, "y", Read(a, "x"))], [{"x": 2, "y": 1}]

    def rotate():
        a, b, c = Box(v=1), Box(v=2), Box(v=3)
        writes = [(a, "v", Read(b, "v")), (b, "v", Read(c, "v")), (c, "v", Read(a, "v"))]
        return [a, b, c], writes, [{"v": 2}, {"v": 3}, {"v": 1}]

    def fan():
        a, b = Box(v=1), Box(v=0)
        return [a, b], [(a, "v", 9), (b, "v", Read(a, "v")), (b, "w", Read(a, "v"))], [{"v": 9}, {"v": 1, "w": 1}]

    def through():
        inner, other = Box(v=1), Box(v=2)
        outer = Box(part=inner)
        writes = [(outer, "part", other), (outer, "copy", Read(Read(outer, "part"), "v"))]
        return [outer], writes, [{"part": other, "copy": 1}]

    def target():
        inner, other = Box(v=1), Box(v=2)
        outer = Box(part=inner)
        return [inner, other], [(outer, "part", other), (Read(outer, "part"), "v", 7)], [{"v": 7}, {"v": 2}]

    def does_something():
        a = Box(x=1)
        perform([(a, "x", 2)])
        return None if a.x == 2 else "nothing was written; write its body first"

    trials = [
        does_something,
        trial(plain, "two values"),
        trial(swap, "a.x, a.y = a.y, a.x"),
        trial(rotate, "three objects hand their values round"),
        trial(fan, "a.v is read twice, and written first"),
        trial(through, "a path of two steps, whose first step is written to"),
        trial(target, "the object that is written to is itself found by a path of before"),
    ]
    return judge(trials, "SideEffects.replay saves every value and every object first; then it writes")


class Read:
    """`object.name`, as it is before any write; `object` may be a Read itself."""

    def __init__(self, object, name):
        self.object, self.name = object, name

    def __repr__(self):
        return f"Read({self.object!r}.{self.name})"
