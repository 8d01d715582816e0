"""The registry of graph breaks against the places that break and the gallery of examples."""

import ast
import pathlib
import sys

import pytest

import minicompile
from minicompile import config, record, testing
from minicompile.dynamo import variables
from minicompile.dynamo.break_kinds import BREAK_KINDS, ROWS, break_error
from minicompile.dynamo.variables.tables import BREAKING_METHODS, BREAKS
from minicompile.errors import Unsupported

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "notebooks"))

from break_gallery import EXAMPLES, GALLERY  # noqa: E402

DYNAMO = pathlib.Path(variables.__file__).parents[1]
TABLES = {
    "BREAKS[self.value]": BREAKS,
    "BREAKING_METHODS[name]": BREAKING_METHODS,
}  # what the sites without a literal look up


def call_sites():
    """(file:line, the source of the kind, its value where it is a literal) of every break in capture."""
    for path in sorted(DYNAMO.rglob("*.py")):
        if path.name == "break_kinds.py":
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            name = getattr(getattr(node, "func", None), "id", None) or getattr(
                getattr(node, "func", None), "attr", None
            )
            if isinstance(node, ast.Call) and name in ("unsupported", "break_error", "Unsupported"):
                yield f"{path.relative_to(DYNAMO)}:{node.lineno}", name, node.args[0] if node.args else None


def test_every_call_site_has_a_row_in_the_registry():
    complaints, used = [], {kind for table in TABLES.values() for kind in table.values()}
    for where, function, kind in call_sites():
        if function == "Unsupported":
            complaints.append(f"{where} raises Unsupported itself: call unsupported(kind, explanation)")
        elif isinstance(kind, ast.Constant):
            used.add(kind.value)
            if kind.value not in BREAK_KINDS:
                complaints.append(f"{where} breaks with {kind.value!r}, which has no row")
        elif ast.unparse(kind) not in TABLES and "base.py" not in where:
            complaints.append(f"{where} computes its kind: use a literal, or a table named in this test")
    complaints += [
        f"{kind!r} of a table has no row" for table in TABLES.values() for kind in {*table.values()} - {*BREAK_KINDS}
    ]
    assert not complaints, (
        "Use a kind that is there, or add a row (name, explanation, hint) to minicompile/dynamo/break_kinds.py and an "
        "example of that name to notebooks/break_gallery:\n" + "\n".join(complaints)
    )
    unused = set(BREAK_KINDS) - used
    assert not unused, f"no place breaks with these any more: take their rows and examples away: {sorted(unused)}"


def test_rows_are_written_for_a_reader():
    assert len(ROWS) == len(BREAK_KINDS)
    for kind in BREAK_KINDS.values():
        assert kind.explanation.endswith(".") and len(kind.explanation) > 30, kind.name
        assert kind.hint and not kind.hint.endswith("."), kind.name


def test_the_place_may_say_it_better_than_the_row():
    kind = BREAK_KINDS["file access"]
    assert break_error(kind.name, "met here").hint == kind.hint
    assert break_error(kind.name, "met here", "do this").hint == "do this"
    with pytest.raises(KeyError):
        break_error("a kind that nobody wrote down", "met here")


# --- the gallery ----------------------------------------------------------------------------------------
NOTHING_TO_MEND = {"exception leaves the frame"}


def outcome(function, arguments):
    """What a call returns or raises; the arguments are new ones, so that a call that changes them is no trouble."""
    try:
        return function(*arguments)
    except ValueError as error:
        return type(error), error.args


def breaks_of_calls(function, arguments, **settings):
    """The graph breaks of three calls with other arguments each time, whose values are eager's."""
    compiled = minicompile.compile(function, backend="eager")
    for k in range(3):
        expected = outcome(function, arguments(k))
        with config.patch(**settings):
            assert not testing.differences(expected, outcome(compiled, arguments(k)))
    return [error for entry in record.compilations for error in entry.breaks]


def test_every_kind_has_an_example_and_a_mend():
    assert set(EXAMPLES) == set(GALLERY) == set(BREAK_KINDS), (
        "Give every kind a function that breaks with it (@example), and the function mended (@mended), in "
        "notebooks/break_gallery."
    )
    assert {kind for kind, row in EXAMPLES.items() if row.mended is None} == NOTHING_TO_MEND


@pytest.mark.parametrize("kind", EXAMPLES)
def test_the_example_breaks_with_just_its_kind(kind):
    row = EXAMPLES[kind]
    errors = breaks_of_calls(row.function, row.arguments, **row.settings)
    assert {kind} <= {error.kind for error in errors} <= {kind, *row.also}
    for error in errors:
        assert error.hint and str(error).startswith(f"{error.kind}: {error.explanation}")
        assert error.user_location
    minicompile.reset()
    with pytest.raises(Exception) as raised, config.patch(**row.settings):
        minicompile.compile(row.function, backend="eager", fullgraph=True)(*row.arguments(0))
    if kind == "operator raised":  # the operator's own exception says more, and is what eager raises
        assert errors[0].user_location in raised.value.__notes__[0] and str(raised.value) in errors[0].explanation
    elif kind == "value across a break":  # the graph broke for another reason
        assert raised.value.kind in row.also
    else:
        assert isinstance(raised.value, Unsupported) and str(raised.value) == str(errors[0])


@pytest.mark.parametrize("kind", [kind for kind in EXAMPLES if kind not in NOTHING_TO_MEND])
def test_the_mended_example_does_not_break(kind):
    row = EXAMPLES[kind]
    assert not breaks_of_calls(row.mended, row.mended_arguments, **row.settings)
    for k in range(3):
        expected = outcome(row.function, row.arguments(k))
        assert not testing.differences(expected, outcome(row.mended, row.mended_arguments(k)))
