"""A small run of the fuzz in every test run, and tests of the fuzz itself: what it generates, finds and shrinks."""

import ast
import collections
import random

import pytest

import minicompile
from fuzz import prelude
from fuzz.modules import Program, program
from fuzz.observe import PARAMETERS, Snapshot
from fuzz.runner import FILE, failure_of, is_steady, namespaces, run, run_batch, shrunk, timed

PROGRAMS = 40
pytestmark = pytest.mark.graph_errors  # programs may divide by zero


def test_random_programs():
    total = collections.Counter()
    failures = run_batch(1, PROGRAMS, total)
    assert not failures, "\n\n".join(failures)
    shares = {name: count / total["programs"] for name, count in total.items()}
    assert total["programs"] >= 0.9 * PROGRAMS, total  # a few may not end
    assert shares["graph"] > 0.95 and shares["break"] > 0.4 and 0.05 < shares["exception"] < 0.4, shares


def test_every_kind_of_statement_and_expression_comes():
    kinds = set()
    for seed in range(400):
        tree = ast.parse(program(random.Random(seed).randbytes(700)).text)
        kinds |= {type(node).__name__ for node in ast.walk(tree)}
    wanted = {cls.__name__ for base in (ast.stmt, ast.expr, ast.pattern) for cls in base.__subclasses__()}
    not_in_functions_or_new = {"AsyncFor", "AsyncFunctionDef", "AsyncWith", "Await", "TypeAlias"}
    assert wanted - kinds - not_in_functions_or_new == set()


def test_behind_the_end_of_the_choices_a_program_is_the_simplest():
    assert len(program(b"").text) < len(program(bytes(range(256))).text)
    assert failure_of(program(b"")) is None


def broken_compiler(function):
    """The caller's first argument keeps its contents, whatever the function does to it."""

    def broken(x, *rest):
        return function(x.clone(), *rest)

    return minicompile.compile(broken, backend="eager")


FAULTY = f"""\
GM = types.ModuleType("GM")
def fn({PARAMETERS.replace(" ", ", ")}):
    y = x + y
    for i in range(n):
        if a:
            x.add_(y)
        a.append(i)
    return x, y, a
"""


def test_a_fault_is_shrunk_to_the_statement_that_shows_it():
    found = failure_of(Program(FAULTY, (1, 0)), broken_compiler)
    assert "call 1 (world 1) differs" in str(found) and found.parts == ("arguments",)
    small = shrunk(Program(FAULTY, (1, 0)), found.parts, broken_compiler)
    assert failure_of(small, broken_compiler).parts == found.parts and failure_of(small) is None
    assert len(small.worlds) == 1 and len(small.text.strip().splitlines()) <= 5, small


def test_what_is_seen_of_a_set_is_no_matter_of_addresses():
    def seen():
        known, kept = prelude.Heat(2), [object() for _ in range(random.randrange(50))]  # noqa: F841 (move addresses)
        snapshot = Snapshot()
        looks = snapshot([{prelude.Tagged(), known, prelude.Heat(2), prelude.Tagged(1), (prelude.Heat(3), 1)}, known])
        snapshot.finish()
        return looks

    assert len({repr(seen()) for _ in range(30)}) == 1


def test_a_long_chain_of_exceptions_is_seen_whole():
    def seen(last):
        first = error = ValueError(0)
        for number in range(1, 5000):
            error.__context__ = error = ValueError(number)
        error.__context__ = first if last is None else last
        snapshot = Snapshot()
        return snapshot([first]), snapshot.finish()

    assert seen(None) == seen(None)
    assert seen(KeyError(1)) == seen(KeyError(1)) != seen(KeyError(2))


ASKED = """
G1, GF, GM = 1, abs, types.ModuleType("GM")

def fn(x, y, w, n, *others):
    view = x[0]
    x.add_(w)
    pause()
    view.add_(n)
    return n
"""


LUCKY = """
G1, GF, GM = 1, abs, types.ModuleType("GM")

def fn(x, *others):
    return Registered()
"""


def test_what_comes_again_only_by_chance_counts_for_nothing(monkeypatch):
    answers = iter([8738795088285, 8738795088285, 8738773241287])
    monkeypatch.setattr(prelude, "Registered", lambda: next(answers))
    eager, _ = namespaces(LUCKY)
    expected = timed("eager", eager["fn"], eager, FILE, 0)
    assert not is_steady(Program(LUCKY, (0,)), (0,), expected)


class Willing(list):
    """Has each attribute that is asked for."""

    __slots__ = ("only",)

    def __getattr__(self, name):
        return lambda *args: name


def test_what_is_seen_is_not_what_a_program_answers():
    assert Snapshot()(Willing("a")) == (("Willing", [("str", "'a'")], None), None)
    bare = type("Bare", (), {"__slots__": "o", "__getattr__": Willing.__getattr__})
    assert Snapshot()(bare()) == ("Bare", (("dict", [], ("NoneType", "None")), None), [("str", "'unset'")])


def test_what_pytorch_does_only_where_nobody_looks_counts_for_nothing():
    assert run(Program(ASKED, (0,))) == {"unsteady": 1}


def test_what_recursion_says_at_its_end_counts_for_nothing():
    raised = "no result", ("tuple", [("RecursionError", "its text")], "and lines")
    assert not is_steady(program(b""), (0,), raised)
