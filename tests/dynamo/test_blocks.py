"""Exceptions and `with` blocks of the less usual kinds during capture, against eager."""

import contextlib

import pytest
import torch
from worlds import same

import minicompile
from minicompile.dynamo.polyfills.tensors import _entered as entered

X = torch.tensor([1.0, 2.0, 3.0])


def twice(function, **options):
    same(lambda: (function, [(X,), (X,)]), **options)


def test_contextlib():
    def program():
        log = []

        @contextlib.contextmanager
        def cm(n):
            log.append(n)
            try:
                yield n * 2
            except ValueError as e:
                log.append(str(e))
            finally:
                log.append(-n)

        class CM:
            def __enter__(self):
                log.append("e")
                return self

            def __exit__(self, t, v, tb):
                log.append(t.__name__ if t else None)
                return t is ZeroDivisionError

        def f(x):
            with cm(1) as a, CM() as b, contextlib.nullcontext(5) as c:
                x = x + a + c
            with cm(2):
                raise ValueError("v")
            with CM():
                1 / 0
            with contextlib.suppress(KeyError):
                {}["a"]
            with contextlib.ExitStack() as st:
                st.enter_context(cm(3))
                st.callback(log.append, "cb")
                x = x * 2
            try:
                with CM():
                    raise KeyError(3)
            except KeyError as e:
                log.append(e.args)
            for i in range(3):
                with cm(10 + i):
                    if i == 1:
                        continue
                    x = x + i
            return x

        return f, [(X,), (X,)], lambda: list(log)

    same(program)


def test_cm_decorator():
    @contextlib.contextmanager
    def cm():
        yield

    @cm()
    def g(x):
        return x * 2

    @torch.no_grad()
    def h(x):
        return x * 3

    class D(contextlib.ContextDecorator):
        def __enter__(self):
            return self

        def __exit__(self, *a):
            return False

    @D()
    def k(x):
        return x * 4

    twice(lambda x: (g(x), h(x), k(x)))


def test_exc_more():
    def f(x):
        out = []

        def g(n):
            try:
                if n == 0:
                    raise ValueError("zero", n)
                if n == 1:
                    return "one"
                if n == 2:
                    raise AssertionError(f"n is {n}")
            except ValueError as e:
                return e.args
            finally:
                out.append(n)

        for n in range(4):
            try:
                out.append(g(n))
            except AssertionError as e:
                out.append(str(e))

        def gen():
            try:
                yield 1
            except KeyError as e:
                yield ("caught", e.args)
            finally:
                out.append("closed")

        it = gen()
        next(it)
        out.append(it.throw(KeyError("k")))
        it.close()
        try:
            try:
                raise KeyError(1)
            except KeyError:
                raise TypeError("t")
        except TypeError as e:
            out.append((repr(e.__context__), e.__cause__))
        try:
            int("a")
        except ValueError as e:
            out.append(str(e))
        try:
            [][1]
        except IndexError as e:
            out.append(str(e))
        try:
            None.foo
        except AttributeError as e:
            out.append(str(e))
        try:
            1 + "a"
        except TypeError as e:
            out.append(str(e))
        try:
            undefined_name
        except NameError as e:
            out.append(str(e))
        try:
            a, b = [1]
        except ValueError as e:
            out.append(str(e))
        try:
            g(1, 2)
        except TypeError as e:
            out.append(str(e))
        try:
            {}["q"]
        except LookupError as e:
            out.append(repr(e))
        return x, out

    twice(f)


def test_exc_objects():
    class E1(Exception):
        pass

    class E2(E1):
        def __init__(self, t):
            self.t = t

        def __bool__(self):
            return False

    def program():
        keep = []

        def f(x):
            try:
                raise E2(x * 2)
            except E1 as e:
                keep.append(e)
                y = e.t + 1
                z = not e
                a = e.args
            e3 = E2(1)
            e3.args = (5, 6)
            return (
                y,
                z,
                len(a),
                e3.args,
                str(e3),
                isinstance(e3, E1),
                e3 == e3,
                OSError(2, "no").errno,
                StopIteration(3).value,
                SystemExit(4).code,
                KeyError("a").args,
                str(KeyError("a")),
                UnicodeDecodeError("utf8", b"a", 0, 1, "r").reason,
            )

        return f, [(X,), (X,)], lambda: (keep[-1].t, type(keep[-1]), len(keep))

    same(program, fullgraph=False)


def test_exc_group():
    def f(x):
        try:
            raise ExceptionGroup("g", [ValueError(1), KeyError(2)])
        except* ValueError as e:
            x = x + len(e.exceptions)
        except* KeyError:
            x = x * 2
        return x

    twice(f)


def test_what_groups_do():
    class Special(ExceptionGroup):
        def derive(self, exceptions):
            return Special(self.message, exceptions)

    def nested(x):
        log = []
        try:
            raise ExceptionGroup(
                "outer", [ValueError(1), ExceptionGroup("inner", [TypeError(2), ValueError(3)]), OSError()]
            )
        except* (ValueError, OSError) as group:
            names = [type(part).__name__ for part in (group, *group.exceptions)]
            log.append((group.message, len(group.exceptions), names))
        except* TypeError as group:
            log += [group.exceptions[0].message, group.exceptions[0].exceptions[0].args, x.sum() * 2]
        return log

    def naked(x):
        try:
            raise ValueError("v")
        except* ValueError as group:
            found = x + len(group.exceptions), group.message, type(group.exceptions[0]).__name__
        return found

    def split(x):
        group = ExceptionGroup("g", [ValueError(1), TypeError(2)])
        match, rest = group.split(ValueError)
        everything, nothing = group.split((ValueError, TypeError))
        alone = BaseExceptionGroup("b", [KeyboardInterrupt()])
        parts = match.message, rest.exceptions[0].args, nothing, len(everything.exceptions), type(alone).__name__
        return x + len(match.exceptions), parts, group.subgroup(KeyError), everything

    for function in (nested, naked, split):
        twice(function)

    def left_over(x):
        try:
            try:
                raise ExceptionGroup("g", [ValueError(1), KeyError(2)])
            except* ValueError:
                x = x + 1
        except ExceptionGroup as group:
            return x * 2, len(group.exceptions), group.message

    def raises_inside(x):
        try:
            try:
                raise ExceptionGroup("g", [ValueError(1)])
            except* ValueError:
                raise KeyError("k")
        except ExceptionGroup as group:
            return x * 2, len(group.exceptions), group.message

    def of_a_users_class(x):
        try:
            raise Special("s", [ValueError(1)])
        except* ValueError as group:
            x, name = x + 1, type(group).__name__
        return x, name

    def refused(x):
        try:
            raise ExceptionGroup("g", [])
        except ValueError as error:
            return x, str(error)

    for function in (left_over, raises_inside, of_a_users_class, refused):
        twice(function, fullgraph=False)


def test_with_what_is_no_context_manager():
    class HalfManager:
        def __enter__(self):
            return self

    def f(x):
        texts = []
        for value in (3, HalfManager()):
            try:
                with value:
                    pass
            except TypeError as e:
                texts.append(str(e))
        return x, texts

    twice(f)


@pytest.mark.parametrize("backend", ["eager", "inductor"])
def test_inference_mode(backend):
    @torch.inference_mode()
    def double(x):
        return x * 2

    def f(x, broken):
        states = [torch.is_inference_mode_enabled()]
        with torch.inference_mode():
            y = x + 1
            if broken:
                minicompile.graph_break()
            z = double(y).relu_()
            states += [torch.is_inference_mode_enabled(), torch.is_grad_enabled()]
            with torch.inference_mode(False):
                states += [torch.is_inference_mode_enabled(), torch.is_grad_enabled()]
        states += [torch.is_inference_mode_enabled(), torch.is_grad_enabled()]
        w = x * 3
        return y, z, w, x.view(-1), states, y

    for broken in (False, True):
        compiled = minicompile.compile(f, backend=backend, fullgraph=not broken)
        for _ in range(2):
            x = torch.randn(3, requires_grad=True)
            expected, found = f(x, broken), compiled(x, broken)
            for a, b in zip(expected[:4], found[:4]):
                assert a.equal(b) and a.is_inference() == b.is_inference() and a.requires_grad == b.requires_grad
            assert found[4] == expected[4] and found[0] is found[5]
        assert not torch.is_inference_mode_enabled() and torch.is_grad_enabled()


def test_an_inference_tensor_is_refused_by_autograd():
    def f(x):
        with torch.inference_mode():
            y = x + 1
        try:
            return x * y
        except RuntimeError as error:
            return str(error)[:40]

    x = torch.randn(3, requires_grad=True)
    assert minicompile.compile(f, backend="eager")(x) == f(x)


def inference_modes():
    def broken(x, w):
        with torch.inference_mode():
            print(end="")
            return x + 1

    def module_made(x, w):
        with torch.inference_mode():
            return torch.nn.Linear(2, 2)(x).shape

    def around_no_grad(x, w):
        with torch.no_grad():
            with torch.inference_mode():
                print(end="")
                with torch.no_grad():
                    y = x + 1
            print(end="")
            return y, torch.is_grad_enabled()

    def grad_set_inside(x, w):
        with torch.inference_mode():
            torch.set_grad_enabled(True)
            print(end="")
            inside = torch.is_grad_enabled()
        return inside, torch.is_grad_enabled(), (w * 2).requires_grad

    def switched_off_inside(x, w):
        with torch.inference_mode():
            y = x + 1
            with torch.inference_mode(False):
                print(end="")
                z = w * 2
        return y, z, torch.is_grad_enabled()

    def raising(x, w):
        with torch.inference_mode():
            print(end="")
            raise ValueError

    def raising_in_the_graph(x, w):
        with torch.inference_mode():
            return x[x.long() + 7]

    return [*locals().values()]


@pytest.mark.graph_errors
@pytest.mark.parametrize("function", inference_modes(), ids=lambda function: function.__name__)
def test_inference_mode_leaves_the_grad_mode_as_it_was(function):
    def outcome(run):
        try:
            torch.manual_seed(0)
            return str(run(torch.ones(2, 2), torch.ones(2, requires_grad=True)))
        except (ValueError, IndexError) as error:
            return type(error)
        finally:
            assert torch.is_grad_enabled() and not torch.is_inference_mode_enabled()
            assert not vars(entered).get("modes")

    compiled = minicompile.compile(function, backend="eager")
    for _ in range(2):
        assert outcome(compiled) == outcome(function)
