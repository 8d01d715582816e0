"""What CPython's own regression tests found different, one test a kind: see tests/cpython."""

import abc
import sys
import traceback

import pytest
import torch
from worlds import same

import minicompile

X = torch.ones(2)


@minicompile.disable
def breaking(*values):
    return values


def both(function, *args, fullgraph=False):
    """What it returns, in eager and compiled."""
    compiled = minicompile.compile(function, backend="eager", fullgraph=fullgraph)
    return function(*args), compiled(*args)


# --- exceptions ---------------------------------------------------------------------------------------------------
def raises_while_its_caller_handles(x):
    try:
        raise KeyError(1)
    except KeyError as error:
        return x + 1, error.__context__


def test_the_exception_that_the_caller_handles_is_the_context():
    compiled = minicompile.compile(raises_while_its_caller_handles, backend="eager", fullgraph=True)
    assert compiled(X)[1] is None
    for _ in range(2):
        try:
            raise ValueError
        except ValueError as error:
            assert compiled(X)[1] is error
    assert compiled(X)[1] is None


def reraises(x):
    try:
        raise
    except RuntimeError as error:
        return x, str(error)
    except ZeroDivisionError as error:
        return x + 1, str(error)


def test_a_bare_raise_raises_what_the_caller_handles():
    want = both(reraises, X)
    assert want[0][1] == want[1][1] == "No active exception to reraise"
    compiled = minicompile.compile(reraises, backend="eager")
    try:
        1 / 0  # noqa: B018
    except ZeroDivisionError:
        assert compiled(X)[1] == "division by zero"


def test_contexts_of_exceptions_that_operations_raise():
    def f(x):
        found = []
        try:
            try:
                raise IndexError("first")
            except IndexError:
                {}["missing"]
        except KeyError as error:
            found += [type(error.__context__), error.__cause__]
        try:
            try:
                raise TypeError("first")
            except TypeError as first:
                try:
                    raise ValueError
                except ValueError:
                    raise first
        except TypeError as error:
            found += [type(error.__context__), error.__context__.__context__]
        return x + len(found), found

    same(lambda: (f, [(X,)]))


def test_a_break_in_the_handler_of_what_was_raised_in_a_handler():
    def f(x):
        try:
            try:
                raise TypeError("inner")
            except TypeError:
                raise ValueError("outer") from None
        except ValueError as error:
            breaking(error)
            return x, type(error.__context__), error.__cause__, error.__suppress_context__

    want, got = both(f, X)
    assert want[1:] == got[1:] == (TypeError, None, True)


def test_only_exception_classes_can_be_caught():
    def catches(kind):
        def f(x):
            try:
                try:
                    raise KeyError
                except kind:
                    return x
            except TypeError as error:
                return x, str(error)

        return f

    for kind in ("text", (ValueError, int), ValueError()):
        same(lambda kind=kind: (catches(kind), [(X,)]))


def test_exceptions_that_look_at_their_arguments():
    def f(x):
        found = []
        for make in (UnicodeDecodeError, lambda: OSError(2, "gone"), lambda: FileNotFoundError(13, "x")):
            try:
                raise make()
            except Exception as error:
                found += [type(error), str(error)]
        return x, found

    same(lambda: (f, [(X,)]))

    def group(x):
        try:
            breaking(BaseExceptionGroup())
        except TypeError as error:
            return x, str(error)

    want, got = both(group, X)
    assert want[1] == got[1]


def looks_up(key):
    table = {}
    return table[key]


def test_a_kept_exception_has_its_traceback():
    def f(x):
        try:
            looks_up(3)
        except KeyError as error:
            kept = error
        try:
            raise kept
        except KeyError:
            pass
        return x + 1, kept

    def story(result):
        entries = traceback.extract_tb(result[1].__traceback__)
        return [(entry.name, entry.lineno, entry.end_lineno, entry.colno, entry.end_colno) for entry in entries]

    want, got = map(story, both(f, X, fullgraph=True))
    assert want == got and [entry[0] for entry in got] == ["f", "f", "looks_up"]


def test_the_traceback_is_never_none_where_there_is_one():
    class Manager:
        def __enter__(self):
            return self

        def __exit__(self, kind, error, trace):
            self.seen = trace is None, isinstance(trace, type(None))
            return True

    def f(x):
        manager = Manager()
        with manager:
            raise KeyError
        try:
            raise KeyError
        except KeyError:
            info = sys.exc_info()[2] is None
        return x, manager.seen, info

    same(lambda: (f, [(X,)]))


# --- lookup of methods --------------------------------------------------------------------------------------------
def test_a_method_of_super_stays_the_one_of_super_behind_a_break():
    class Base(list):
        def __init__(self, *args):
            breaking()
            super().__init__(*breaking(args)[0])
            self.extra = len(self)

    def f(x):
        made = Base([1, 2])
        convert = int.from_bytes
        breaking()
        return x, list(made), made.extra, convert(b"\x02", "little")

    want, got = both(f, X)
    assert want[1:] == got[1:] == ([1, 2], 2, 2)


def test_a_special_method_that_is_none_takes_the_operator_away():
    class Base:
        def __add__(self, other):
            return "added"

    class Without(Base):
        __iadd__ = None

    def f(x):
        value = Without()
        try:
            value += 1
        except TypeError as error:
            return x, str(error), value + 1

    same(lambda: (f, [(X,)]))


def test_a_virtual_subclass_does_not_go_first_in_a_comparison():
    order = []

    class Left(abc.ABC):  # noqa: B024
        def __eq__(self, other):
            order.append("left")
            return NotImplemented

    class Right:
        def __eq__(self, other):
            order.append("right")
            return NotImplemented

    Left.register(Right)

    def f(x):
        return x, Left() == Right(), isinstance(Right(), Left)

    (_, *want), (_, *got) = both(f, X)
    assert want == got == [False, True] and order == ["left", "right"] * 2


# --- classes ------------------------------------------------------------------------------------------------------
def test_what_is_no_subclass_may_become_one():
    class Abstract(abc.ABC):  # noqa: B024
        pass

    class Late:
        pass

    compiled = minicompile.compile(lambda x, value: (x, isinstance(value, Abstract)), backend="eager")
    assert compiled(X, Late())[1] is False
    Abstract.register(Late)
    assert compiled(X, Late())[1] is True


def test_a_subclass_hook_of_the_program_runs_as_part_of_it():
    asked = []

    class Abstract(abc.ABC):  # noqa: B024
        @classmethod
        def __subclasshook__(cls, other):
            asked.append(other)
            return other is int

    def f(x):
        return x, issubclass(int, Abstract), issubclass(str, Abstract), issubclass(Abstract, Abstract)

    want, got = both(f, X)
    assert want[1:] == got[1:] == (True, False, False)
    assert len(asked) == 3  # the answers are remembered by the class


def test_attributes_of_classes_that_are_not_set():
    class Plain:
        pass

    def f(x):
        return x, hasattr(Plain, "__abstractmethods__"), getattr(Plain, "__abstractmethods__", 3)

    same(lambda: (f, [(X,)]))


# --- names --------------------------------------------------------------------------------------------------------
def test_a_global_that_is_set_and_deleted_again():
    def f(x):
        global _fleeting
        _fleeting = x
        del _fleeting
        sys.fleeting = 1
        del sys.fleeting
        return x + 1

    (want, got) = both(f, X)
    assert torch.equal(want, got) and "_fleeting" not in globals() and not hasattr(sys, "fleeting")


@pytest.mark.parametrize("name", ["self", "tx", "args", "iterable", "function"])
def test_keywords_may_have_any_name(name):
    def f(x):
        table = dict(**{name: 1})
        table.update(**{name: 2})
        return x, table

    same(lambda: (f, [(X,)]))


def test_a_cell_that_is_emptied_again():
    def f(x):
        late = lambda: box  # noqa: F821
        box = 1
        value = late()
        del box
        try:
            late()
        except NameError as error:
            return x, value, str(error)

    want, got = both(f, X)
    assert want[1:] == got[1:]


# --- functions made inside ----------------------------------------------------------------------------------------
def decorated(**attributes):
    def decorate(function):
        for name, value in attributes.items():
            setattr(function, name, value)
        return function

    return decorate


def test_the_dict_and_the_annotations_of_a_function_made_inside():
    import functools

    def f(x):
        @decorated(label="kept", gone=1)
        def inner(n: int, *, k: str = "a") -> list:
            return n

        @functools.wraps(inner)
        def outer(n):
            return inner(n)

        outer.__dict__["more"] = 2
        del outer.gone
        return x, outer, outer.label, sorted(outer.__dict__)

    want, got = both(f, X, fullgraph=True)
    assert want[2:] == got[2:] and want[1].__annotations__ == got[1].__annotations__
    assert got[1].__dict__.keys() == want[1].__dict__.keys() and got[1].more == 2


# --- conversions --------------------------------------------------------------------------------------------------
class Odd(int):
    pass


class Converts:
    def __init__(self, answer):
        self.answer = answer

    def __index__(self):
        return 7

    def __complex__(self):
        return self.answer

    __int__ = __bytes__ = __complex__


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("answer", [3, 3.5, 2j, True, Odd(4), None, b"text"], ids=repr)
def test_conversions_by_special_methods(answer):
    def f(x):
        found, value = [], Converts(answer)
        for convert in (int, float, complex, bytes):
            try:
                made = convert(value)
                found += [made, type(made)]
            except TypeError as error:
                found.append(str(error))
        try:
            found.append(bytes(value, "ascii"))
        except TypeError as error:
            found.append(str(error))
        return x, found

    want, got = both(f, X)
    assert want[1] == got[1]


def test_a_descriptor_whose_get_is_any_callable():
    class Callable:
        calls = 0

        def __call__(self, *args):
            Callable.calls += 1
            return len(args)

    class Descriptor:
        __get__ = Callable()

    class Holder:
        attribute = Descriptor()

    want, got = both(lambda x: (x, Holder().attribute), X)
    assert want[1] == got[1] and Callable.calls == 2


def test_attributes_of_builtin_containers():
    import collections

    def f(x):
        table = collections.defaultdict()
        table.default_factory = list
        table[1].append(2)
        queue = collections.deque([1], 3)
        try:
            queue.maxlen = 4
        except AttributeError as error:
            return x, table, str(error)

    want, got = both(f, X)
    assert want[1:] == got[1:]


def test_a_class_method_around_a_descriptor():
    class Wrapper:
        def __init__(self, wrapped):
            self.wrapped = wrapped

        def __call__(self, cls):
            return "called", cls

        def __get__(self, instance, owner):
            return lambda: ("bound", self.wrapped(), instance, owner)

    class Holder:
        name = classmethod(Wrapper(lambda: "inner"))

    want, got = both(lambda x: (x, Holder.name(), Holder().name()), X)
    assert want[1:] == got[1:]


# --- objects and containers ---------------------------------------------------------------------------------------
class Hashed:
    def __init__(self, value):
        self.value = value

    def __hash__(self):
        return hash(self.value)

    def __eq__(self, other):
        return self.value == other.value


def test_new_keys_have_their_attributes_before_they_are_hashed():
    def f(x):
        key = Hashed(3)
        table, both_ = {key: 4}, {Hashed(5), key}
        breaking(table, both_)
        return x, table[Hashed(3)], Hashed(5) in both_, len(both_)

    want, got = both(f, X)
    assert want[1:] == got[1:] == (4, True, 2)


def test_comparing_must_not_change_a_deque():
    import collections

    class Clears:
        def __eq__(self, other):
            queue.clear()
            return NotImplemented

    queue = collections.deque()

    def f(x):
        found = []
        for ask in (lambda: 3 in queue, lambda: queue.count(3)):
            queue.extend([Clears(), Clears()])
            try:
                ask()
            except RuntimeError as error:
                found.append(str(error))
        queue.extend([1, 2])
        queue.__imul__(2)
        return x, found, list(queue), queue.count(1)

    (_, *want), (_, *got) = both(f, X)
    assert want == got and want[1] == [1, 2] * 2


def test_the_namespace_of_a_class_is_complete():
    class Plain:
        attribute = 1

    def f(x):
        return x, sorted(Plain.__dict__), "__weakref__" in Plain.__dict__, Plain.__dict__["attribute"]

    want, got = both(f, X)
    assert want[1:] == got[1:]


def test_a_metaclass_with_setattr_of_its_own_is_asked_once():
    calls = []

    class Meta(type):
        def __setattr__(cls, name, value):
            calls.append(name)
            super().__setattr__(name, value)

        def __delattr__(cls, name):
            calls.append(name)
            type.__delattr__(cls, name)

    class Made(metaclass=Meta):
        pass

    def f(x):
        Made.attribute = 3
        return x, Made.attribute

    want, got = both(f, X)
    assert want[1] == got[1] and calls == ["attribute"] * 2


def test_weak_proxies_and_weak_references_to_what_is_made_here():
    import weakref

    class Thing:
        value = 3

    def f(x):
        thing, other = Thing(), Thing()
        proxy, reference = weakref.proxy(thing), weakref.ref(other)
        breaking()
        found = [proxy.value, bool(proxy), reference() is not None]
        del thing
        breaking()
        try:
            found.append(proxy.value)
        except ReferenceError:
            found.append("dead")
        return x, found

    want, got = both(f, X)
    assert want[1] == got[1] == [3, True, True, "dead"]


def test_a_generator_that_asks_itself():
    def f(x):
        def outer():
            yield 0
            yield from inner()
            yield 3

        def inner():
            yield 1
            try:
                yield from asked
            except ValueError as error:
                yield str(error)

        asked = outer()
        breaking(asked)
        found = [next(asked), next(asked)]
        breaking()
        return x, found, list(asked)

    want, got = both(f, X)
    assert want[1:] == got[1:]


def test_the_text_of_a_bound_method():
    class Named:
        def method(self):
            pass

        def __repr__(self):
            return "named"

    want, got = both(lambda x: (x, repr(Named().method)), X)
    assert want[1] == got[1] and "bound method" in got[1]

    def compares(x):
        a, b = Named(), Named()
        same = [a.method == a.method, a.method != a.method, a.method == b.method, hash(a.method) == hash(a.method)]
        return x, same, Named.method != a.method, a.method != Named.method, a.method == 3

    want, got = both(compares, X)
    assert want[1:] == got[1:]


def test_format_takes_any_keyword():
    want, got = both(lambda x: (x, "{self}{tx}".format(self=1, tx=len(x))), X)
    assert want[1] == got[1] == "12"


def test_super_finds_an_argument_that_is_not_read_again():
    class Meta(type):
        def __new__(cls, name, bases, namespace):
            breaking()
            made = super().__new__(*breaking(Meta, name, bases, namespace))
            breaking()
            return made

    want, got = both(lambda x: (x, Meta("Made", (), {"a": 1}).a), X)
    assert want[1] == got[1]


class Index:
    def __index__(self):
        return 3


def test_what_counts_and_indexes_as_in_cpython():
    class Number(int):
        def __index__(self):
            return 8

    def f(x):
        import operator

        huge = 10**5000
        return x, "ab".__mul__(Index()), b"a" * Index(), operator.index(Number(7)), operator.index(Index()), huge % 7

    want, got = both(f, X)
    assert want[1:] == got[1:]
    want, got = both(lambda x, huge: (x, huge % 7), X, 10**5000)
    assert want[1] == got[1]


def test_super_of_what_is_no_class_or_no_instance():
    def f(x):
        found = []
        for arguments in ((1, int), (int, "text"), (dict, [])):
            try:
                super(*arguments)
            except TypeError as error:
                found.append(str(error))
        return x, found

    want, got = both(f, X)
    assert want[1] == got[1] and len(got[1]) == 3


def test_globals_changed_as_a_dict():
    space = {"__name__": "space"}
    exec("def inner():\n    return len([1, 2])", space)

    def f(x):
        before = space["inner"]()
        space["len"] = lambda value: 7
        try:
            return x, before, space["inner"]()
        finally:
            del space["len"]

    want, got = both(f, X)
    assert want[1:] == got[1:] == (2, 7)


def test_an_os_error_with_a_new_of_its_own():
    class Own(OSError):
        def __new__(cls, message, extra):
            made = OSError.__new__(cls, message)
            made.extra = extra
            return made

    def f(x):
        try:
            raise Own("text", 1)
        except Own as error:
            return x, error.args, error.extra, [].append.__qualname__

    want, got = both(f, X)
    assert want[1:] == got[1:]


def test_a_guard_that_divides_by_a_number_that_is_zero_now():
    def f(x, a, b):
        return x + 1, a % b if b else 0

    compiled = minicompile.compile(f, backend="eager")
    for numbers in ((5, 3), (7, 4), (8, 0), (9, 5), (6, 0)):
        assert compiled(X, *numbers)[1] == f(X, *numbers)[1]


def test_a_mode_that_refuses_its_argument_is_not_switched():
    def f(x):
        try:
            with torch.set_grad_enabled(0):
                pass
        except TypeError:
            return x + 1
        return x + 2

    assert torch.equal(minicompile.compile(f, backend="eager")(torch.ones(2)), f(torch.ones(2)))
    assert torch.is_grad_enabled()


def test_what_is_no_index():
    def f(x, key):
        try:
            return [1, 2][key], x + 1
        except TypeError as error:
            return str(error), x + 1

    for key in ([1], 1.5, "a", None, (0,)):
        assert minicompile.compile(f, backend="eager")(torch.ones(2), key)[0] == f(torch.ones(2), key)[0]


def test_views_of_dicts_compare_with_sets_only():
    def f(x, d):
        keys, items = d.keys(), d.items()
        same = keys == [1], keys == {1}, keys == {1: 5}.keys(), keys != [1], items == [(1, 2)], items == {(1, 2)}
        return same, keys & [1, 3], x + 1

    assert minicompile.compile(f, backend="eager")(torch.ones(2), {1: 2})[:2] == f(torch.ones(2), {1: 2})[:2]


@pytest.mark.graph_errors
def test_what_a_graph_raises_is_not_handled_for_ever():
    def program(x, index):
        x.add_(1)  # so the frame cannot run again
        return x[index] * 2

    compiled = minicompile.compile(program, backend="eager")
    compiled(torch.ones(3), torch.tensor([1]))
    with pytest.raises(IndexError):
        compiled(torch.ones(3), torch.tensor([7]))
    assert sys.exception() is None
