"""The registry of graph breaks against the places that break and the gallery of examples."""

import ast
import pathlib

import pytest

from minicompile.dynamo import variables
from minicompile.dynamo.break_kinds import BREAK_KINDS, ROWS
from minicompile.dynamo.variables.tables import BREAKS
from minicompile.dynamo.variables.tensor import BREAKING_METHODS

DYNAMO = pathlib.Path(variables.__file__).parents[1]
TABLES = {"BREAKS[self.value]": BREAKS, "BREAKING_METHODS[name]": BREAKING_METHODS}  # what the sites without a literal look up


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


@pytest.mark.parametrize("name", BREAK_KINDS)
def test_the_place_may_say_it_better_than_the_row(name):
    from minicompile.dynamo.break_kinds import break_error

    assert break_error(name, "met here").hint == BREAK_KINDS[name].hint
    assert break_error(name, "met here", "do this").hint == "do this"
