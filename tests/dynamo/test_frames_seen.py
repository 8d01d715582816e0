"""What code sees that looks at frames: its own locals, its callers, tracebacks, stack levels, tracers."""

import inspect
import sys
import traceback
import types
import warnings

import pytest
import torch

import minicompile
from minicompile import config, record
from minicompile.dynamo.code_table import CodeTable
from minicompile.testing import CompileCounter


def breaking():
    print(end="")


def callers():
    """(function, line) of the frames above; the two of minicompile's own wrapper left out."""
    frame, found = sys._getframe(1), []
    while frame is not None and frame.f_code.co_filename in (__file__, minicompile.compiler.__file__):
        if frame.f_code.co_filename == __file__:
            found.append((frame.f_code.co_name, frame.f_lineno))
        frame = frame.f_back
    return found[:-1]  # without the test itself, which calls from two lines


def with_locals(x):
    a = x + 1
    b, unused = 2, 3  # noqa: F841
    breaking()
    c = a * b
    del b
    for k in range(2):  # noqa: B007
        breaking()
    return {name: value for name, value in locals().items()}, c * 2


def with_locals_and_cells(x):
    a = x + 1
    z = 5

    def inner():
        return a + z

    y = inner()
    return sorted(locals()), y * 2


def with_eval(x):
    scale, y = 3, x + 1
    breaking()
    return y * eval("scale + y.ndim")


def with_vars(x):
    y = x + 1
    return sorted(vars()), y * 2


def with_dir(x):
    y = x + 1
    breaking()
    return dir(), y * 2


def with_dir_of_an_object(x):
    return (
        [name for name in dir(torch.nn.Identity()) if name == "forward"],
        x + 1,
        vars(torch.nn.Identity())["training"],
    )


def with_exec(x):
    y = x + 1
    exec("q = 3")
    return y * locals().get("q", 4)


def with_frame(x):
    y = x + 1
    breaking()
    frame = sys._getframe()
    return frame.f_lineno, sorted(frame.f_locals), frame.f_code.co_name, y * 2


def with_current_frame(x):
    y = x + 1
    return inspect.currentframe().f_lineno, y * 2


def with_callers(x):
    first = callers()
    x = x + 1
    breaking()
    second = callers()
    for _ in range(3):
        x = x + 1
        breaking()
    return first, second, callers(), x


def with_nested_callers(x):
    return with_callers(x + 1)


def with_globals(x):
    return globals()["__name__"], x + 1


PROGRAMS = {  # function: graphs
    with_locals: 3,
    with_locals_and_cells: 2,
    with_eval: 2,
    with_vars: 2,
    with_dir: 2,
    with_dir_of_an_object: 1,
    with_exec: 0,
    with_frame: 0,
    with_current_frame: 0,
    with_callers: None,
    with_nested_callers: None,
    with_globals: 1,
}


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda f: f.__name__)
def test_code_that_looks_at_frames(program):
    expected = program(torch.ones(2))
    counter = CompileCounter()
    compiled = minicompile.compile(program, backend=counter)
    for _ in range(2):
        assert repr(compiled(torch.ones(2))) == repr(expected)
    if PROGRAMS[program] is not None:
        assert counter.graphs == PROGRAMS[program]


# --- tracebacks -----------------------------------------------------------------------------------------
def raises_at_depth_two(x):
    y = x + 1
    breaking()
    return raises(y * 2)


def raises(x):
    x = x + 1
    breaking()
    for k in range(3):
        x = x * 2
        breaking()
        if k == 1:
            raise KeyError("k")


def raises_from_another(x):
    try:
        raises(x)
    except KeyError as error:
        breaking()
        raise ValueError("again") from error


def wrong_shapes(x):
    y = x + 1
    breaking()
    return y + torch.ones(3)


def in_a_generator(x):
    def numbers():
        yield x + 1
        breaking()
        raise OSError("gone")

    return sum(numbers())


def frames_of(error):
    files = (minicompile.compiler.__file__,)
    entries = traceback.extract_tb(error.__traceback__)[1:]
    return [(f.name, f.lineno) for f in entries if f.filename not in files]


@pytest.mark.parametrize("program", [raises, raises_at_depth_two, raises_from_another, wrong_shapes, in_a_generator])
def test_tracebacks_show_the_lines_of_the_user_and_no_others(program):
    seen = []
    for function in (program, *[minicompile.compile(program, backend="eager")] * 2):
        with pytest.raises(Exception) as caught:  # noqa: PT011 (which one is compared)
            function(torch.ones(2))
        error = caught.value
        seen.append([(type(e).__name__, str(e), frames_of(e)) for e in (error, error.__cause__) if e is not None])
    assert seen[1] == seen[0]
    assert seen[2] == seen[0]


# --- warnings -------------------------------------------------------------------------------------------
def warns(x, level):
    breaking()
    x = x + 1
    breaking()
    warnings.warn("here", stacklevel=level)
    return x


def calls_what_warns(x, level):
    x = x * 2
    return warns(x, level)


@pytest.mark.parametrize("level", [1, 2])
def test_warnings_point_at_the_same_line(level):
    seen = []
    for function in (calls_what_warns, *[minicompile.compile(calls_what_warns, backend="eager")] * 2):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            function(torch.ones(2), level)
        seen.append([(w.filename, w.lineno) for w in caught])
    assert seen[0] == seen[1] == seen[2]
    assert len(seen[0]) == 1


def catches(x, k, stop, action):
    """With another `k`, what comes behind `stop()` is compiled again, under filters of the program's own."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter(action)
        stop()
        x = x + 10 // k
    return x, [str(w.message) for w in caught]


@pytest.mark.parametrize("action", ["always", "error"])
def test_what_the_compiler_warns_about_is_not_for_the_program(action):
    """Neither where the rest meets the limit, nor a function that is compiled in there by itself."""
    minicompile.record._warned.clear()
    inner = minicompile.compile(lambda x, k: x * k, backend="eager")
    compiled = minicompile.compile(catches, backend="eager")
    x = torch.ones(2)
    with minicompile.config.patch(recompile_limit=1), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for k in (1, 2, 5):
            stop = minicompile.disable(lambda k=k: inner(x, k))
            expected = catches(x, k, lambda: None, action)
            found, line = compiled(x, k, stop, action), sys._getframe().f_lineno
            assert torch.equal(found[0], expected[0]) and found[1] == expected[1] == []
        with pytest.raises(ZeroDivisionError):
            compiled(x, 0, breaking, action)
    assert [(w.filename, w.lineno) for w in caught] == [(__file__, line)] * 2
    assert sorted("<lambda>" in str(w.message).split(" (")[0] for w in caught) == [False, True]


def test_a_warning_that_is_an_error_comes_when_the_call_has_ended():
    done = []

    def f(x, k):
        x = x + k
        done.append(k)
        return x

    compiled = minicompile.compile(f, backend="eager")
    with minicompile.config.patch(recompile_limit=1), warnings.catch_warnings():
        warnings.simplefilter("error")
        compiled(torch.ones(2), 1)
        with pytest.raises(UserWarning, match="compiled 1 times"):
            compiled(torch.ones(2), 2)
    assert done == [1, 2]


def raises_name_error(x, k):
    a, unused, box = k, [k], (k, x * 2)  # noqa: F841
    return x + missing  # noqa: F821


def raises_in_operator(x, k):
    a = k * x  # noqa: F841
    return x.reshape(7)


def calls_one_that_raises(x, k):
    a = k  # noqa: F841
    return raises_name_error(x, k)


def extracts(x, k):
    a, unused = x * 2, [k]  # noqa: F841
    return x, traceback.StackSummary.extract(traceback.walk_stack(None), capture_locals=True, limit=1)[0].locals


@pytest.mark.parametrize("function", [raises_name_error, raises_in_operator, calls_one_that_raises])
def test_a_traceback_has_all_locals(function):
    """Also those that nothing reads any more: for a debugger, and for what NameError suggests."""

    def locals_of(call):
        try:
            call(torch.ones(2), 3)
        except (NameError, RuntimeError) as error:
            frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
            return [repr(frame.f_locals) for frame in frames if frame.f_code.co_filename == __file__][1:]

    assert locals_of(minicompile.compile(function, backend="eager")) == locals_of(function) != []


def test_a_stack_summary_has_all_locals():
    compiled = minicompile.compile(extracts, backend="eager")
    assert compiled(torch.ones(2), 3)[1] == extracts(torch.ones(2), 3)[1] != {}


OLD = types.ModuleType("old")
OLD_SOURCE = """
import warnings


def __getattr__(name):
    if name == "gone":
        warnings.warn("gone is old", DeprecationWarning, stacklevel=2)
        return 3
    if name == "seven":
        return 7
    raise AttributeError(f"no {name} here")
"""
exec(OLD_SOURCE, vars(OLD))


def warned(x, yes):
    try:
        return x + OLD.gone, OLD.seven, ~yes, not NotImplemented, OLD.other
    except AttributeError as error:
        return x, OLD.seven, ~yes, str(error), hasattr(OLD, "more")


def test_what_warns_warns_at_each_call_and_names_the_line_of_the_program():
    """A module's `__getattr__`; what is computed during capture: (from 3.12 on) `~True`, the truth of a constant."""
    seen = []
    for function in (warned, minicompile.compile(warned, backend="eager")):
        for _ in range(2):
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                result = function(torch.ones(1), True)
            seen.append((repr(result), [(str(w.message), w.filename, w.lineno) for w in caught]))
    assert seen[1:] == seen[:-1] and len(seen[0][1]) >= 1


def losses(x, module):
    y = torch.nn.functional.mse_loss(x, x[:1])
    return y + module(x, x[:1]), torch.nn.functional.kl_div(x, x)


@pytest.mark.parametrize("action", ["always", "default", "error"])
@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
def test_what_an_operator_warns_about_is_said_once_for_each_time_that_it_runs(backend, action):
    """At the program's line (or that of the module which calls the operator), whoever runs the graph."""
    seen, module, x = [], torch.nn.MSELoss(), torch.rand(3)
    for function in (losses, minicompile.compile(losses, backend=backend)):
        vars(sys.modules["torch.nn.modules.loss"]).pop("__warningregistry__", None)
        globals().pop("__warningregistry__", None)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter(action)
            try:
                results = [function(x, module) for _ in range(3)]
            except UserWarning as error:
                results = str(error)
        seen.append(([(str(w.message), w.filename, w.lineno) for w in caught], results))
    assert seen[0][0] == seen[1][0] and len(seen[0][0]) == {"always": 9, "default": 3, "error": 0}[action]
    assert str(seen[0][1]) == str(seen[1][1])


def test_no_code_of_the_program_runs_where_a_class_has_a_property_called_dict():
    class Sly(dict):
        @property
        def __dict__(self):
            raise AssertionError("not to be asked")

        scale = 3

    def f(x, sly):
        breaking()
        return x * sly.scale, sly["a"]

    assert minicompile.compile(f, backend="eager")(torch.ones(1), Sly(a=2))[1] == 2


def test_nothing_of_the_compiler_is_captured_where_a_backward_is_compiled():
    """The hook is on there: the backward runs inside a compiled function."""
    w = torch.randn(3, requires_grad=True)

    def step(x):
        (x * w).sin().sum().backward()
        return w.grad * 2

    with config.patch(graph_cache=True):
        minicompile.compile(step, backend="inductor")(torch.ones(3))
    assert all(entry.location.startswith(__file__) for entry in record.compilations)


def test_an_entry_that_outlived_its_code_is_not_that_of_the_next_one():
    """A signal may have raised in the callback that was to remove it."""
    table, (first, second) = CodeTable(), (compile("1", name, "eval") for name in ("first", "second"))
    table.set(first, "of the first")
    table._entries[id(second)] = table._entries[id(first)]
    assert table.get(first) == "of the first" and first in table
    assert table.get(second) is None and second not in table
