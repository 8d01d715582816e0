"""Objects that are equal only to themselves, and weak references, as keys: what was looked for may be there next time.

The first call captures, found or not.
"""

import gc
import weakref

import pytest
import torch

import minicompile


class Plain:
    pass


class First:
    pass


class Second:
    pass


class Equal:
    def __init__(self, number):
        self.number = number

    def __eq__(self, other):
        return isinstance(other, Equal) and self.number == other.number

    def __hash__(self):
        return hash(self.number)

    def act(self):
        pass


ref = weakref.ref
OBJECTS, NONE_OF_THEM = [Plain(), Plain()], Plain()
CLASSES, NUMBERS = [First, Second], [Equal(1), Equal(2)]
METHODS = [each.act for each in NUMBERS]


def added(container, key):
    copied = set(container)
    copied.add(key)
    return len(copied)


PROGRAMS = {
    "get": lambda d, k: d.get(k),
    "in": lambda d, k: k in d,
    "in a tuple": lambda d, k: ((1, (k, 2)) in {(1, (each, 2)) for each in d}, (k, 1) in {(each, 1): 0 for each in d}),
    "setdefault": lambda d, k: (d.setdefault(k, 5), len(d)),
    "pop": lambda d, k: (d.pop(k, None), len(d)),
    "set": lambda d, k: ({k} & set(d) == {k}, {k} <= set(d), len({k} - set(d)), added(d, k)),
    "by id": lambda d, k: id(k) in {id(each) for each in d},
    "list": lambda d, k: (k in list(d), list(d).count(k)),
    "reference": lambda d, k: (ref(k) in {ref(each) for each in d}, ref(k) in [ref(each) for each in d]),
    "equal": lambda d, k: [(ref(k) == ref(each), ref(k) != ref(each), ref(k) is ref(each), k is each) for each in d],
    "returned": lambda d, k: (ref(k), ref(k)() is k),
}
CONTAINERS = {
    "dict": lambda keys: {key: i for i, key in enumerate(keys)},
    "set": set,
    "list": list,
    "WeakKeyDictionary": lambda keys: weakref.WeakKeyDictionary({key: i for i, key in enumerate(keys)}),
    "WeakSet": weakref.WeakSet,
}
KEYS = {
    "objects": [*OBJECTS, NONE_OF_THEM],
    "classes": [*CLASSES, Plain],
    "equal objects": [*NUMBERS, Equal(1), Equal(3)],
    "references": [*map(ref, OBJECTS), ref(NONE_OF_THEM)],
    "references to classes": [*map(ref, CLASSES), ref(Plain)],
    "methods": [*METHODS, Equal(3).act],
}
ORDERS = [(0, 2, 1), (1, 0, 2), (2, 0, 1)]  # each is captured once
OF_MAPPINGS = ("get", "setdefault", "pop")
OF_STRONG = ("references", "references to classes", "methods")  # a weak container takes none of these


@pytest.mark.parametrize("keys", KEYS)
@pytest.mark.parametrize("container", CONTAINERS)
def test_found_or_not(container, keys):
    if "Weak" in container and keys in OF_STRONG:
        pytest.skip("what is asked for is gone at once")
    for name, program in PROGRAMS.items():
        if (name in OF_MAPPINGS and not hasattr(CONTAINERS[container]([]), "get")) or (
            name in ("reference", "equal", "returned") and keys in OF_STRONG
        ):
            continue

        def called(function, key, container=container, keys=keys):
            return function(CONTAINERS[container](KEYS[keys][:2]), key, torch.ones(1))[1]

        def captured(d, k, x, program=program):
            return x + 1, program(d, k)

        for order in ORDERS:
            minicompile.reset()
            compiled = minicompile.compile(captured, backend="eager")
            expected = [called(captured, KEYS[keys][i]) for i in order]
            assert [called(compiled, KEYS[keys][i]) for i in order] == expected, (name, order)


def test_a_class_that_no_module_keeps_dies():
    def program(x):
        class Local:
            pass

        reference = ref(Local)
        minicompile.graph_break()
        return x + 1, reference

    made = minicompile.compile(program, backend="eager")(torch.ones(1))[1]
    gc.collect()
    assert made() is None


def test_an_argument_on_the_stack_that_dies():
    def make():
        return Plain()

    def program(x):
        made = minicompile.disable(make)()
        reference = ref(made)
        del made
        return x + 1, reference() is None

    assert minicompile.compile(program, backend="eager")(torch.ones(1))[1]


def test_the_order_of_a_set_where_addresses_come_between_values():
    def program(x, a):
        a.append(x)
        return x + 1, [each for each in {*a} if each is not x]

    x, compiled = torch.ones(1), minicompile.compile(program, backend="eager")
    for values in ([2, 0, 1], [9, 8, 1, 0]):
        assert compiled(x, list(values))[1] == program(x, list(values))[1]


def test_an_iterator_that_has_met_its_sentinel():
    def program(x):
        iterator = iter(lambda: 1, 1)
        for _ in iterator:
            pass
        return x + 1, iterator

    compiled = minicompile.compile(program, backend="eager")
    first, second = compiled(torch.ones(1))[1], compiled(torch.ones(1))[1]
    assert type(first) is type(iter(int, 1)) and list(first) == [] and first is not second
