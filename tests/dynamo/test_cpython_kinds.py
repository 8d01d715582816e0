"""Kinds of differences that CPython's own tests brought to light: small programs, eager against compiled."""

import collections
import copy
import functools
import importlib
import inspect
import io
import itertools
import random
import sys
import types
import weakref

import torch
from worlds import same

from minicompile import record

X = torch.tensor([1.0, 2.0, 3.0])


def test_looking_at_an_object_runs_no_code_of_its_class():
    def program():
        log = []

        class Watchful:
            def __init__(self):
                object.__setattr__(self, "scale", 2.0)

            def __getattribute__(self, name):
                log.append(name)
                return object.__getattribute__(self, name)

        watchful, others = Watchful(), [Watchful()]

        def f(x):
            print(end="")
            return x * watchful.scale, len(others)

        return f, [(X,), (X,)], lambda: list(log)

    same(program, fullgraph=False)


def test_a_list_asks_how_long_it_will_be():
    def program():
        log = []

        class Hinted:
            def __iter__(self):
                log.append("iter")
                return iter([1, 2])

            def __length_hint__(self):
                log.append("hint")
                return NotImplemented

        class Sized(Hinted):
            def __len__(self):
                log.append("len")
                return 2

        class Refusing(Hinted):
            def __length_hint__(self):
                return -1

        def f(x):
            found = [*Hinted()]
            found.extend(Sized())
            try:
                tuple(Refusing())
            except ValueError as error:
                found.append(str(error))
            return x + 1, list(Hinted()), tuple(Sized()), found

        return f, [(X,), (X,)], lambda: list(log)

    same(program)


def test_a_descriptor_that_only_takes_writes_is_read_past():
    def program():
        class Writer:
            def __set__(self, instance, value):
                instance.__dict__["a"] = value + 1

        class Owner:
            a = Writer()

        class Meta(type):
            b = Writer()

        class Made(metaclass=Meta):
            b = 5

        def f(x, owner):
            before = type(owner.a).__name__
            owner.a = 4
            return x + 1, before, owner.a, Made.b

        return f, [(X, Owner()), (X, Owner())]

    same(program)


def test_bases_and_subclasses_of_a_class_that_changes():
    def program():
        class First:
            pass

        class Second:
            pass

        class Child(First):
            pass

        def f(x):
            return x + 1, Child.__bases__ == (First,), len(Second.__subclasses__()), Child.__name__

        def change():
            Child.__bases__ = (Second,)
            Child.__name__ = "Other"

        return f, [(X,), change, (X,)]

    same(program, fullgraph=False)


def test_with_asks_the_class_and_asks_once():
    def program():
        log = []

        class Told:
            def __init__(self, name):
                self.name = name

            def __get__(self, instance, owner):
                log.append((self.name, instance is None))
                return lambda *arguments: log.append(len(arguments))

        class Manager:
            __enter__, __exit__ = Told("enter"), Told("exit")

        def f(x):
            manager = Manager()
            manager.__enter__ = manager.__exit__ = None
            with manager:
                return x + 1

        return f, [(X,), (X,)], lambda: list(log)

    same(program)


def test_a_module_whose_class_takes_what_is_set():
    def program():
        class Special(types.ModuleType):
            kept = 0

            @property
            def scale(self):
                return self.kept + 1

            @scale.setter
            def scale(self, value):
                self.kept = value

        module = Special("special")
        plain = types.ModuleType("plain")

        def f(x):
            module.scale = 3
            plain.__class__ = Special
            return x * module.scale, plain.scale, hasattr(plain, "kept")

        return f, [(X,), (X,)], lambda: sorted(vars(module))

    same(program, fullgraph=False)


def test_iterators_are_put_into_a_state():
    class Two:
        def __index__(self):
            return 2

    def program():
        def f(x):
            joined = itertools.chain()
            joined.__setstate__((iter(["ab", "c"]), iter([1])))
            turning = itertools.cycle("de")
            turning.__setstate__((["a"], 0))
            first, second = itertools.tee("xyz")
            next(first)
            third = type(first)(first)
            again = itertools.tee(second)[0] is second
            turned = [next(turning) for _ in range(6)]
            return x + 1, list(joined), turned, list(third), list(first), again, list(itertools.islice("abcd", Two()))

        return f, [(X,), (X,)]

    same(program)


def test_a_namespace_is_not_equal_to_what_only_says_that_it_is_one():
    def program():
        class Claims(str):
            __class__ = types.SimpleNamespace

        def f(x):
            return x + 1, types.SimpleNamespace() == Claims(), types.SimpleNamespace() == types.SimpleNamespace()

        return f, [(X,)]

    same(program)


def test_a_name_that_compares_by_code_of_its_own():
    def program():
        class Name:
            def __hash__(self):
                return hash("late")

            def __eq__(self, other):
                return other == "late"

        made = type("Made", (), {Name(): 5})

        def f(x):
            return x + 1, made.late

        return f, [(X,), (X,)]

    same(program, fullgraph=False)


def test_what_only_a_weak_reference_knows_lives_as_long_as_its_name():
    def program():
        class Number(float):
            pass

        def f(x):
            number, function = Number(2.0), lambda: 3
            proxy, reference = weakref.proxy(number), weakref.ref(function)
            print(end="")
            return x + 1, proxy + 1.0, reference()()

        return f, [(X,), (X,)]

    same(program, fullgraph=False)


def test_an_object_that_is_let_go_of_is_gone_for_its_callback():
    def program():
        class Owner:
            pass

        log = []

        def f(x, made):
            owner = made()
            ending = weakref.finalize(owner, log.append, "gone")
            number = id(owner)
            print(end="")
            del owner
            alive = ending.alive
            return x + 1, alive, len(log), number == number

        return f, [(X, Owner), (X, Owner)], lambda: list(log)

    same(program, fullgraph=False)


def test_a_copy_of_an_ordered_dict_has_its_attributes():
    def program():
        def f(x, mapping):
            mapping.seen = True
            return x + 1, copy.copy(mapping).note, copy.deepcopy(mapping).note, hasattr(mapping.copy(), "note")

        given = collections.OrderedDict(a=1)
        given.note = "here"
        return f, [(X, given), (X, given)]

    same(program, fullgraph=False)


def test_an_ordered_dict_changed_behind_its_back():
    def program():
        def f(x):
            mapping = collections.OrderedDict(a=1, b=2)
            dict.pop(mapping, "a")
            return x + 1, list(mapping.items())

        return f, [(X,)]

    same(program, fullgraph=False)


def test_a_random_generator_whose_methods_are_replaced():
    def program():
        numbers = iter([0.25, 0.5])

        def replace():
            random.Random.random = lambda self: next(numbers)

        def restore():
            del random.Random.random

        generator = random.Random(0)

        def f(x):
            return x + 1, generator.random() < 2, generator.uniform(0, 1) if "random" in vars(random.Random) else 0

        return f, [(X,), replace, (X,), restore, (X,)]

    same(program, fullgraph=False)


def test_what_a_fold_cannot_see_in_a_function():
    def program():
        def inner(a, b=2):
            pass

        def f(x):
            inner.__signature__ = inspect.Signature()
            return x + 1, str(inspect.signature(inner)), int.real is vars(int)["real"]

        return f, [(X,), (X,)]

    same(program, fullgraph=False)


def test_a_cached_property_of_a_class():
    def program():
        class Meta(type):
            @functools.cached_property
            def answer(self):
                return 42

        class Made(metaclass=Meta):
            pass

        def f(x):
            return x + 1, Made.answer

        return f, [(X,)]

    same(program, fullgraph=False)


def test_a_dict_that_is_emptied_while_another_takes_its_items():
    def program():
        class Key:
            def __hash__(self):
                return 0

            def __eq__(self, other):
                given.clear()
                return False

        given = {}

        def f(x):
            given.update(dict.fromkeys(range(1, 50)))
            given[Key()] = 0
            taking = {Key(): 0, 1: 1}
            try:
                taking.update(given)
            except RuntimeError as error:
                return x + 1, str(error), len(given)

        return f, [(X,), (X,)]

    same(program, fullgraph=False)


def test_an_own_cell_without_a_value():
    def program():
        def f(x, early):
            if early:
                try:
                    return value  # noqa: F821
                except UnboundLocalError as error:
                    return str(error)
            value = 12
            print(end="", file=None if early else io.StringIO())

            def inner():
                return value  # noqa: F821

            del value
            try:
                inner()
            except NameError as error:
                found = type(error), str(error)
            return x + 1, found, value  # noqa: F821

        return f, [(X, True), (X, False), (X, False)]

    same(program, fullgraph=False)


def test_what_super_misses():
    def program():
        def none():
            super()

        def outside(x):
            super()

        def deleted(x):
            del x
            super()

        class Owner:
            def emptied(x):
                nonlocal __class__
                del __class__
                super()

        def f(x):
            found = []
            for function in (none, outside, deleted, Owner.emptied):
                try:
                    function(*[x] * function.__code__.co_argcount)
                except RuntimeError as error:
                    found.append(str(error))
            return x + 1, found

        return f, [(X,), (X,)]

    same(program, fullgraph=False)


def test_a_cell_that_is_filled_or_emptied_between_calls():
    def program():
        def fill():
            nonlocal value
            value = 5

        def empty():
            nonlocal value
            del value

        def read():
            return value + 1

        def f(x):
            try:
                return x + 1, value, read()
            except NameError as error:
                return str(error)

        return f, [(X,), fill, (X,), empty, (X,)]
        value = 3

    same(program)


def test_the_dict_of_a_function():
    def given():
        pass

    def program():
        def f(x):
            given.note = [1]

            def made():
                pass

            made.__dict__.update({"__name__": "other", "kept": 2})
            names = made.__name__, sorted(made.__dict__)
            found = dict(given.__dict__), names
            del given.note
            return x + 1, found, hasattr(given, "note")

        return f, [(X,), (X,)]

    same(program, fullgraph=False)


def test_a_report_of_an_object_that_cannot_tell_its_text():
    def program():
        class Half:
            def __repr__(self):
                raise AttributeError("not yet")

        def f(x, part):
            return x + 1 if part is None else x + 2

        return f, [(X, None), (X, Half()), (X, Half())]

    same(program)


def test_a_key_that_raises_when_it_is_put_in_anew():
    def program():
        class Key:
            asked = 0

            def __hash__(self):
                return 1

            def __eq__(self, other):
                raise ZeroDivisionError

        def f(x):
            first, second = {Key()}, {Key()}
            try:
                first.update(second)
            except ZeroDivisionError:
                return x + 1, len(first), len(second)

        return f, [(X,), (X,)]

    same(program, fullgraph=False)


def test_a_frozen_set_is_its_own_copy():
    def program():
        def f(x):
            given = frozenset("abc")
            return x + 1, given.copy() is given, frozenset(given) is given

        return f, [(X,)]

    same(program)


def test_what_code_says_of_its_lines_and_positions():
    def program():
        def f(x):
            code = program.__code__
            return x + 1, list(code.co_lines()), list(code.co_positions())

        return f, [(X,), (X,)]

    same(program, fullgraph=False)


def test_a_deque_of_a_subclass_keeps_its_bound():
    class Bounded(collections.deque):
        maxlen = property(lambda self: "no bound")

    class Plain(collections.deque):
        pass

    def program():
        existing, watched = Plain("abc", 4), Bounded("abc", 4)
        iterator = iter(existing)

        def f(x, given):
            made = Plain("abcd", maxlen=3)
            made.append(made.maxlen)
            print(end="")
            made.append(given.maxlen)
            given.extend("xyz")
            watched.extend("xyz")
            existing.__init__("pq", 2)
            existing.append("r")
            try:
                next(iterator)
            except RuntimeError as error:
                made.append(str(error))
            try:
                Plain("ab", -1)
            except ValueError as error:
                made.append(str(error))
            return x + 1, made, made.maxlen, watched.maxlen

        return f, [(X, Plain("ab", 2)), (X, Plain("ab", 2)), (X, Plain("ab", 3)), (X, Plain("ab"))], lambda: existing

    same(program, fullgraph=False)


def test_equal_constants_are_not_one_object():
    def program():
        nan, other = float("nan"), float("nan")
        text, copied = "ab" * 3, "".join(["ab"] * 3)

        def f(x, a, b, given):
            kept = [a, b]
            questions = a is b, kept == [b, a], a in [b], [a].count(b), {a} == {b}, (a,) == (b,), kept[0] is given[0]
            print(end="")
            return x + 1, questions, kept[0] is given[0], kept == given

        steps = [(X, a, b, [a, b]) for a in (nan, other) for b in (nan, other)]
        steps += [(X, a, b, [b, a]) for a in (text, copied, 2.5) for b in (text, copied, 2.5)]
        return f, steps + steps[::-1]

    same(program, fullgraph=False)


def test_a_module_is_imported_when_the_program_comes_to_it(tmp_path):
    (tmp_path / "noting_module.py").write_text("import sys\nsys.noted_imports.append(1)\nvalue = 2\n")

    def program():
        sys.noted_imports = []
        sys.modules.pop("noting_module", None)

        def f(x):
            before = len(sys.noted_imports)
            sys.path.insert(0, str(tmp_path))
            try:
                from noting_module import value
            finally:
                sys.path.remove(str(tmp_path))
            return x * value, before, len(sys.noted_imports)

        return f, [(X,), (X,), (X,)]

    same(program, fullgraph=False, recompiles=1)
    assert record.counters["graph_breaks"] == 1


def test_where_modules_are_found_is_left_to_eager():
    """Between two attempts at capture the compiler may import something, and these caches are others then."""

    def program():
        def f(x):
            importlib.invalidate_caches()
            first = importlib.import_module("math")
            print(end="")
            return x + 1, first.__name__, sys.path_hooks[-1].__name__

        return f, [(X,), (X,)]

    same(program, fullgraph=False)
    assert record.break_reasons["file access"] == 1


def test_an_installed_module_is_imported_by_capture():
    def program():
        for name in ("wsgiref.util", "wsgiref"):
            sys.modules.pop(name, None)

        def f(x):
            from wsgiref import util

            return x + 1, util.__name__

        return f, [(X,), (X,)]

    same(program, fullgraph=False, recompiles=0)
    assert record.counters["graph_breaks"] == 0


REPLACED_BUILTINS = """
def f(x):
    numbers = (len("abc") + k for k in range(9))
    first = next(numbers)
    pause()
    namespace["__builtins__"] = {"len": lambda text: 7}
    pause()
    second = numbers.__next__()
    namespace["__builtins__"] = before
    return x + 1, first, second
"""


def test_a_generator_keeps_the_builtins_of_its_function():
    def program():
        namespace = {"pause": lambda: print(end="")}
        exec(REPLACED_BUILTINS, namespace)
        namespace.update(namespace=namespace, before=namespace["__builtins__"])
        return namespace["f"], [(X,), (X,)]

    same(program, fullgraph=False)
