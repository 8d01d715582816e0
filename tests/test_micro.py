"""The micro benchmark: every pattern is right with both code generators, and what a row says of its timing."""

import pytest
import torch

from minicompile import config
from minicompile.bench import micro, patterns, suite, tables


@pytest.mark.parametrize("target", ["cpp", "triton"])
@pytest.mark.parametrize("name", patterns.PATTERNS)
def test_a_micro_pattern_is_right(name, target):
    """With C++ kernels, and with Triton's, run by its interpreter."""
    with config.patch(cpu_backend=target):
        row = micro.run(name, suite.Settings(timed=False))
    assert row["correct"] == "yes", row["note"]
    assert row["graphs"] == 1 and row["graph_breaks"] == 0 and row["ideal_mb"] > 0


def test_a_micro_pattern_is_timed_beside_a_copy_of_as_many_bytes():
    row = micro.run("relu_add_mul", suite.Settings(rounds=3))
    assert (row["kernels"], row["ideal_mb"], row["moved_mb"]) == (1, 32 * 64 * 8 / 1e6, 32 * 64 * 8 / 1e6)
    assert row["ratio"] > 0 and row["share"] > 0 and len(row["copy_samples_ms"]) == 3
    lines = tables.summary([row, {"pattern": "other", "ratio": row["ratio"] / 2, "share": 0.5}])
    assert "over 2; least" in lines[0] and "(other)" in lines[0] and "under 70%: " in lines[-1] and "other" in lines[-1]


def test_random_draws_are_checked_by_what_they_must_be():
    x, y = torch.randn(2, 100, 100).unbind()
    right = torch.where(torch.rand(100, 100) < 0.5, y, 2 * x + y)
    assert patterns.dropout_differs([right], (x, y)) is None
    assert "neither" in patterns.dropout_differs([right + 1], (x, y))
    assert "kept" in patterns.dropout_differs([2 * x + y], (x, y))
