"""Exceptions as values during capture, against eager."""

import pytest
import torch
from worlds import same

import minicompile

X = torch.tensor([1.0, 2.0, 3.0])


class Custom(ValueError):
    def __init__(self, code, detail="none"):
        super().__init__(f"code {code}")
        self.code, self.detail = code, detail

    def __str__(self):
        return f"<{self.code}>"


class Plain(Exception):
    pass


def test_attributes_and_text():
    def f(x):
        found = []
        try:
            raise Custom(3, detail="x")
        except ValueError as e:
            found += [e.args, e.code, e.detail, str(e), isinstance(e, Custom), type(e).__name__]
        try:
            raise Plain
        except Plain as e:
            found += [e.args, str(e), repr(e), e.__cause__, e.__context__, e.__suppress_context__]
        try:
            raise KeyError("k")
        except (IndexError, LookupError) as e:
            found += [str(e), repr(e), e.args[0]]
        return x + len(found), found

    same(lambda: (f, [(X,), (X,)]))


def test_cause_context_and_reraise():
    def f(x):
        try:
            try:
                raise KeyError("inner")
            except KeyError as inner:
                raise Custom(1) from inner
        except Custom as e:
            a = type(e.__cause__), e.__context__ is e.__cause__, e.__suppress_context__
        try:
            try:
                {}["missing"]
            except KeyError:
                try:
                    raise
                finally:
                    x = x + 1
        except KeyError as e:
            b = e.args, e.__cause__
        try:
            try:
                [].pop()
            except IndexError:
                raise Plain("second") from None
        except Plain as e:
            c = type(e.__context__), e.__cause__, e.__suppress_context__
        return x, a, b, c

    same(lambda: (f, [(X,), (X,)]))


def test_exception_objects_outlive_the_frame():
    def program():
        log = []

        def f(x):
            try:
                raise Custom(5)
            except Custom as e:
                e.extra = x * 2
                log.append(e)
            return x + 1

        def state():
            e = log[-1]
            return len(log), type(e), e.args, e.code, e.detail, e.extra

        return f, [(X,), (X,)], state

    same(program)


def test_else_finally_order_and_loops():
    def f(x):
        order = []
        for i in range(4):
            try:
                order.append(("try", i))
                if i == 1:
                    continue
                if i == 2:
                    raise Plain(i)
                if i == 3:
                    break
            except Plain as e:
                order.append(("except", e.args))
            else:
                order.append("else")
            finally:
                order.append("finally")
        return x, order

    same(lambda: (f, [(X,)]))


def test_caught_by_a_caller():
    def inner(d, k):
        return d[k]

    def middle(d, k):
        try:
            return inner(d, k)
        finally:
            d["seen"] = True

    def f(x):
        d = {}
        try:
            middle(d, "a")
        except KeyError as e:
            return x + 1, e.args, d

    same(lambda: (f, [(X,)]))


def test_escaping_exception_is_eagers():
    def f(x, k):
        y = x + 1
        if k > 1:
            raise Custom(k, detail="out")
        return y

    same(lambda: (f, [(X, 1), (X, 2), (X, 1)]), fullgraph=False)


def test_stop_iteration_value_and_notes():
    def gen():
        yield 1
        return 7

    def f(x):
        g = gen()
        next(g)
        try:
            next(g)
        except StopIteration as stop:
            stop.add_note("hello")
            return x + stop.value, stop.__notes__

    same(lambda: (f, [(X,)]))


def test_exceptions_as_values():
    def f(x, given):
        made = ValueError("a", 2)
        kinds = (KeyError, Custom)
        return x, made.args, isinstance(made, kinds), issubclass(Custom, kinds), given.args[0] + 1, made

    def g(x, given):
        *rest, made = f(x, given)
        return rest, type(made), made.args

    same(lambda: (g, [(X, ValueError(3)), (X, ValueError(4))]))


def test_whatever_raises_in_a_handler_has_the_handled_exception_as_context():
    def f(x):
        found = []
        for raises in (lambda: [][1], lambda: next(iter([])), lambda: int("z"), lambda: x.missing, lambda: 1 / 0):
            try:
                try:
                    {}["a"]
                except KeyError:
                    raises()
            except Exception as error:
                found.append((type(error), type(error.__context__), error.__context__.__context__))
        try:
            try:
                {}["a"]
            except KeyError as first:
                try:
                    [][1]
                except IndexError:
                    raise first  # noqa: B904 (no cycle: the context of the IndexError is cut)
        except KeyError as error:
            found.append((type(error.__context__), error.__context__.__context__))
        return x + 1, found

    same(lambda: (f, [(X,), (X,)]))


def test_bad_except_clauses_and_errors_on_the_way_out():
    def f(x, n):
        found = []
        for bad in (n, int, (KeyError, 3), [KeyError], x):
            try:
                try:
                    [][0]
                except bad:
                    pass
            except TypeError as error:
                found.append((str(error), type(error.__context__)))
        return x + 1, found

    def leaves(x, n):
        try:
            0[n]
        finally:
            try:
                x.missing
            finally:
                n()

    def contexts(x, n):
        try:
            leaves(x, n)
        except Exception as error:
            found = []
            while error is not None:
                found.append(repr(error))
                error = error.__context__
            return found

    same(lambda: (f, [(X, 1), (X, 2)]))
    same(lambda: (contexts, [(X, 1), (X, 2)]), fullgraph=False)


def test_an_exception_with_computed_text_leaves_the_frame():
    def f(x, items):
        assert not items, ",".join(map(str, items)).split(",")[0]
        return x + 1

    same(lambda: (f, [(X, [1, 2]), (X, [])]), fullgraph=False)


def test_one_argument_was_given_two_were():
    def texts(x):
        found = []
        for arguments in ((1,), (1, 2)):
            try:
                (lambda: x)(*arguments)
            except TypeError as error:
                found.append(str(error).split("takes ")[1])
        return x + 1, found

    wanted = ["0 positional arguments but 1 was given", "0 positional arguments but 2 were given"]
    assert minicompile.compile(texts, backend="eager", fullgraph=True)(torch.ones(2))[1] == wanted


@pytest.mark.graph_errors
def test_a_graph_that_raises_leaves_overlapping_inputs_as_they_were():
    """Both views count the same writes: restoring one must not hide that the other was written."""

    def halved(x, y, place):
        total = y + 3
        x /= 2
        return x[place], total

    base = torch.arange(12.0).reshape(3, 4)
    with pytest.raises(IndexError):
        minicompile.compile(halved, backend="eager")(base[:2, 1:3], base[1:, :2], (1, 2))
    assert base.tolist() == [[0.0, 0.5, 1.0, 3.0], [4.0, 2.5, 3.0, 7.0], [8.0, 9.0, 10.0, 11.0]]


class Bare:
    __slots__ = ()


def looked_up(x, bare):
    yield lambda: bare.gone
    yield lambda: Bare.gone
    yield lambda: [].gone
    yield lambda: x.gone
    yield lambda: getattr(bare, "gone")
    yield lambda: super(Bare, bare).gone
    yield lambda: pytest.gone
    yield lambda: setattr(bare, "new", 1)
    yield lambda: delattr(bare, "new")
    yield lambda: gone  # noqa: F821


def test_what_was_looked_up_is_noted():
    def f(x, bare):
        found = []
        for look in looked_up(x, bare):
            try:
                look()
            except (AttributeError, NameError) as e:
                owner = getattr(e, "obj", None)
                found.append((str(e), e.name, owner is bare, owner is Bare, owner is x, owner is pytest))
        return x + 1, found

    x, bare = torch.ones(2), Bare()
    expected, (_, found) = f(x, bare)[1], minicompile.compile(f, backend="eager")(x, bare)
    assert found == expected and found[0][1:] == ("gone", True, False, False, False) and found[-1][1] == "gone"


def test_fields_of_builtin_exceptions():
    def f(x):
        found = []
        try:
            from math import gone  # noqa: F401
        except ImportError as e:
            found += [str(e), e.name, e.path, e.msg]
        try:
            import gone.gone  # noqa: F401
        except ImportError as e:
            found += [str(e), e.name, e.path]
        error = OSError(2, "no such", "the file")
        return x + 1, [*found, error.args, error.filename, AttributeError("m", name="n", obj=3).obj]

    _, found = minicompile.compile(f, backend="eager")(X)
    assert found == f(X)[1] and found[1] == "math" and found[5] == "gone" and found[7] == (2, "no such")


def test_the_parts_of_a_group_know_how_they_came_about():
    def f(x):
        def known(group):
            return repr(group), group.__suppress_context__, repr(group.__cause__), repr(group.__context__)

        group, found = ExceptionGroup("g", [ValueError(1), TypeError(2)]), []
        found += [known(part) for part in (*group.split(ValueError), group.derive([KeyError()]))]
        try:
            try:
                raise group from KeyError(1)
            except* ValueError as part:
                found.append(known(part))
                raise
            except* TypeError as part:
                raise KeyError(3) from part
        except ExceptionGroup as error:
            found += map(known, (error, *error.exceptions))
        try:
            raise KeyError(4)
        except* KeyError as part:
            found.append(type(part.args[1]))
        return x + 1, found

    found = minicompile.compile(f, backend="eager")(X)[1]
    assert found == f(X)[1] and [each[1] for each in found[:4]] == [True, True, False, True] and found[-1] is tuple


@pytest.mark.parametrize(
    "make", [lambda: OSError(2, "no", "file"), lambda: StopIteration(4), lambda: SystemExit(5), lambda: KeyError(6)]
)
def test_other_args_leave_the_fields_of_an_exception(make):
    def f(x):
        error, names = make(), ("errno", "strerror", "filename", "value", "code")
        error.args = (3,)
        return x + 1, [getattr(error, name, None) for name in names], str(error), error.args

    assert minicompile.compile(f, backend="eager")(torch.ones(1))[1:] == f(torch.ones(1))[1:]
