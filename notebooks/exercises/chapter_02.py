"""Checks for chapter 02: count operators, measure the stack, and two rewrites that have to keep jumps and handlers."""

import contextlib
import textwrap
import traceback
import types

from minicompile.dynamo.bytecode import decode
from minicompile.dynamo.bytecode_analysis import stack_depths

from .verdict import judge

NOTHING = "your function returned None; write its body first"


def fresh(source, name="f", **names):
    """A function of newly compiled source."""
    exec(compile(textwrap.dedent(source), "<exercise>", "exec"), names)
    return names[name]


def with_code(function, code):
    """The function with another body."""
    if not isinstance(code, types.CodeType):
        raise TypeError(f"return a code object, not {type(code).__name__}")
    return types.FunctionType(code, function.__globals__, "f", function.__defaults__, function.__closure__)


def check_02_1(count_operators):
    """count_operators(code) -> {operator: how often it stands in the code and in all code inside it}."""

    def trial(about, wanted, source):
        def run():
            got = count_operators(fresh(source).__code__)
            if got is None:
                return NOTHING
            return None if dict(got) == wanted else f"{about}: expected {wanted}, got {dict(got)}"

        return run

    inner = "def f(a):\n  def g(b):\n    return lambda c: a * b * c\n  return g(a) - 1"
    trials = [
        trial("two operators", {"+": 1, "*": 1}, "def f(a, b): return a + b * a"),
        trial("none at all", {}, "def f(a): return a"),
        trial("`+=` is a `+`", {"+": 2}, "def f(a):\n  a += 1\n  return a + a"),
        trial("in the code, not while it runs", {"-": 1}, "def f(n):\n  while n: n = n - 1"),
        trial("a minus sign in front of a value is no operator between two", {}, "def f(a): return -a < 3"),
        trial("functions inside functions, at any depth", {"*": 2, "-": 1}, inner),
        trial("2 * 3 was computed when the source was compiled", {"@": 1}, "def f(a): return a @ (2 * 3)"),
        trial("the next count starts again from nothing", {"+": 1}, "def f(a): return a + 1"),
    ]
    return judge(trials, "and what CPython had already computed is not in the code any more")


def check_02_2(deepest):
    """deepest(instructions) -> the most values that are on the stack before any instruction."""

    def trial(about, source):
        def run():
            instructions = decode(fresh(source).__code__)
            wanted = max(stack_depths(instructions))
            got = deepest(instructions)
            if got is None:
                return NOTHING
            return None if got == wanted else f"{about}: expected {wanted}, got {got}"

        return run

    handler = "def f(a):\n  try:\n    a()\n  except ValueError:\n    return [a, a, a, a, a, a]"
    trials = [
        trial("no branches", "def f(a, b): return a + b * (a - b)"),
        trial("nothing on the stack but None", "def f(): pass"),
        trial("after a branch the stack is as before, on both ways", "def f(a, b): return (a if b else b) + (b or a)"),
        trial("a loop: do not walk around it for ever", "def f(v):\n  for x in v:\n    for y in x: print(y)"),
        trial("the deepest place is in an exception handler", handler),
        trial("a handler may begin with one number more (lasti)", "def f(m):\n  with m: pass"),
    ]
    return judge(trials, "co_stacksize is that number, found the same way")


def check_02_3(reverse_minus):
    """reverse_minus(code) -> code in which every `a + b` is `b - a`; the same in all other respects."""

    def trial(about, wanted, source, *args):
        def run():
            function = fresh(source)
            code = reverse_minus(function.__code__)
            if code is None:
                return NOTHING
            new = with_code(function, code)
            try:
                got = new(*args)
            except Exception as error:
                got = error
            return None if got == wanted else f"{about}: f{args} should give {wanted!r}, got {got!r}"

        return run

    def line_of_error():
        function = fresh("def f(a, b):\n  c = a\n  return c + b")
        new = with_code(function, reverse_minus(function.__code__))
        try:
            new(1, "x")
        except TypeError as error:
            line = traceback.extract_tb(error.__traceback__)[-1].lineno
        return None if line == 3 else f"the error should come from line 3, not {line}: keep the positions"

    branch = "def f(a, b, c):\n  d = (a + (b if c else -b)) * 10\n  return [d, d, d]"
    caught = "def f(a, b):\n  try:\n    return a + b\n  except TypeError:\n    return 'caught'"
    trials = [
        trial("one plus", -2, "def f(a, b): return a + b", 5, 3),
        trial("three of them", 2, "def f(a, b): return a + b + a + 1", 3, 7),
        trial("times stays times, += stays +=", 16, "def f(a, b):\n  a += b\n  return a * 2", 5, 3),
        trial("a plus behind a branch", [-80] * 3, branch, 5, 3, False),
        trial("a plus that is jumped to: the jump must find the swap", [-20] * 3, branch, 5, 3, True),
        trial("in a loop", 2, "def f(v):\n  t = 0\n  for x in v: t = t + x\n  return t", (1, 2, 3)),
        trial("in a try: the handler must still cover it", "caught", caught, 1, "x"),
        line_of_error,
    ]
    return judge(trials, "jumps, handlers and lines are where they belong")


def check_02_4(trace_returns):
    """trace_returns(code, log) -> code that calls log(value) before it returns value."""

    def trial(about, wanted, source, *args, raises=None):
        def run():
            function, seen = fresh(source, suppress=contextlib.suppress), []
            code = trace_returns(function.__code__, seen.append)
            if code is None:
                return NOTHING
            new = function.__globals__["f"] = with_code(function, code)
            try:
                got = new(*args)
            except ZeroDivisionError:
                return None if raises and not seen else f"{about}: the log is {seen}"
            if got != wanted[-1]:
                return f"{about}: f{args} should still return {wanted[-1]!r}, got {got!r}"
            return None if seen == wanted else f"{about}: f{args} should log {wanted}, the log is {seen}"

        return run

    two = "def f(a):\n  if a:\n    return 'yes'\n  return 'no'"
    managed = "def f(a):\n  with suppress(ZeroDivisionError):\n    return 1 / a\n  return 'managed'"
    trials = [
        trial("one return", [8], "def f(a): return a * 2", 4),
        trial("two returns, the first", ["yes"], two, 1),
        trial("two returns, the second", ["no"], two, 0),
        trial("no return at all gives None", [None], "def f(a): a * 2", 1),
        trial("a return that is jumped to", [0], "def f(a, b): return a and b", 0, 5),
        trial("the same one, fallen into", [5], "def f(a, b): return a and b", 1, 5),
        trial("a recursion", [1, 1, 2, 6], "def f(n): return n * f(n - 1) if n else 1", 3),
        trial("from a loop in a with block", [0.5], managed, 2),
        trial("behind a with block", ["managed"], managed, 0),
        trial("a function that raises returns nothing", None, "def f(a): return 1 / a", 0, raises=True),
    ]
    return judge(trials, "you have written a tracer that costs nothing where it is not used")
