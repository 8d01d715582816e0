"""The guard table: after each change of a world the value is eager's, and a compile happens if and only if one is due.

The rows are in guard_rows_*.py; guard_rows.py tells how to read them.
"""

import guard_rows_constants
import guard_rows_containers
import guard_rows_modes
import guard_rows_modules
import guard_rows_objects
import guard_rows_tensors
import pytest
import torch
from guard_rows import ROWS, World

import minicompile
from minicompile import record
from minicompile.testing import differences

FILES = (
    guard_rows_constants,
    guard_rows_containers,
    guard_rows_modes,
    guard_rows_modules,
    guard_rows_objects,
    guard_rows_tensors,
)


def call(function, arguments):
    """What a call returns or raises, and what it left in its arguments."""
    try:
        return function(**arguments)
    except minicompile.errors.MinicompileError:
        raise
    except Exception as error:
        return type(error), str(error)


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_value_and_recompile(row):
    eager, compiled = World(row.setup, row.function), World(row.setup, row.function)
    function = compiled.names["f"]
    options = {"backend": "eager", "fullgraph": True, **row.options}
    code = getattr(function, "__code__", None) or type(function).forward.__code__
    run = minicompile.compile(function, **options)
    with eager.stack, compiled.stack:
        for number, change in enumerate([None, *row.changes]):
            if change is not None:
                eager.run(change.text)
                compiled.run(change.text)
            for turn in ("first", "second"):  # what was compiled for a state serves it when it comes again
                before = len(record.compilations)
                found = call(run, compiled.arguments(code))
                expected = call(eager.names["f"], eager.arguments(code))
                assert not (lines := differences(expected, found, exact=True)), "\n".join([str(change), *lines])
                compiles = len(record.compilations) - before
                wanted = turn == "first" and (change is None or change.compiles)
                reasons = [entry.recompile_reason for entry in record.compilations][before:]
                assert bool(compiles) == wanted, f"{turn} call after {change}: compiled {compiles} times, {reasons}"


def test_the_table_is_large():
    assert len(ROWS) >= 150
    assert sum(change.compiles for row in ROWS for change in row.changes) >= 100
    assert sum(not change.compiles for row in ROWS for change in row.changes) >= 80
    assert not torch.is_inference_mode_enabled()
