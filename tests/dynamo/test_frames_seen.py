"""What code sees that looks at frames: its own locals, its callers, tracebacks, stack levels, tracers."""

import inspect
import sys
import traceback
import warnings

import pytest
import torch

import minicompile
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
