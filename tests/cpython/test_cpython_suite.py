"""A few of CPython's own test modules, run plain and compiled; and the figures of all, as they were recorded."""

import json

import pytest
import run_cpython
from cpython_modules import FAST, LEFT_OUT, MODULES


@pytest.fixture(scope="module")
def worker(tmp_path_factory):
    worker = run_cpython.Worker(run_cpython.sys.executable, str(tmp_path_factory.mktemp("cpython")))
    yield worker
    worker.close()


@pytest.mark.parametrize("name", FAST)
def test_the_same_outcomes(worker, name):
    row, stories, _, _ = run_cpython.compare(worker, name)
    assert not row["different"], "\n\n".join(stories.values())
    assert row["same"] == row["tests"] - len(row["left out"]) > 0 and not row["out of time"]
    assert row["frames"]["whole"] + row["frames"]["broken"] > 0  # the hook did capture


def test_what_is_left_out_is_of_modules_that_run():
    assert {name.split(".")[0] for name in LEFT_OUT} <= set(MODULES) and set(FAST) <= set(MODULES)
    assert all(LEFT_OUT.values())


@pytest.mark.parametrize("version", run_cpython.VERSIONS)
def test_the_figures_are_of_the_listed_modules(version):
    figures = json.loads((run_cpython.HERE / f"figures-{version}.json").read_text())
    assert figures["total"] == run_cpython.total(figures["modules"])
    assert len(figures["modules"]) >= 60 and set(figures["modules"]) <= set(MODULES)
