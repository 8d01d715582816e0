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
    assert row["ratio"] > 0 and row["floor_share"] > 0 and row["traffic_share"] > 0 and len(row["copy_samples_ms"]) == 3
    lines = tables.summary([row, {"pattern": "other", "ratio": row["ratio"] / 2, "share": 0.5}])
    assert "over 2; least" in lines[0] and "(other)" in lines[0]
    assert any("copy's speed: median" in line and "other" in line.split("under 70%: ")[1] for line in lines)


def test_what_computes_for_longer_than_it_moves_bytes_is_not_measured_by_a_copy():
    """The floor is measured: fifty sines in a row wait for no memory."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        row = micro.run("tiny_operations", suite.Settings(rounds=3))
    finally:
        torch.set_num_threads(before)
    assert len(set(row["arithmetic_samples_ms"])) == len(row["arithmetic_samples_ms"]), "measured in each round"
    assert row["arithmetic_ms"] > row["copy_ms"] and not row["memory_bound"] and "share" not in row
    assert 0.5 < row["floor_share"] <= 1.5


def test_random_draws_are_checked_by_what_they_must_be():
    x, y = torch.randn(2, 100, 100).unbind()
    right = torch.where(torch.rand(100, 100) < 0.5, y, 2 * x + y)
    assert patterns.dropout_differs([right], (x, y)) is None
    assert "neither" in patterns.dropout_differs([right + 1], (x, y))
    assert "kept" in patterns.dropout_differs([2 * x + y], (x, y))
