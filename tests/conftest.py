"""What every test shares: errors raise, the IR is verified, nothing is left over from another test or session."""

import os
import tempfile

import pytest

# Before minicompile is imported: config reads the environment once.
_cache = tempfile.TemporaryDirectory(prefix="minicompile-test-cache-")
os.environ["MINICOMPILE_CACHE_DIR"] = _cache.name

import torch  # noqa: E402

import minicompile  # noqa: E402
from minicompile import config, record  # noqa: E402

config.strict = True
config.verify_ir = True
config.cache_dir = _cache.name


@pytest.fixture(autouse=True)
def fresh_start(request):
    """Each test starts with empty records and caches, and with the same random numbers."""
    getattr(minicompile, "reset", record.reset)()
    torch.manual_seed(0)
    yield
    assert config.strict and config.verify_ir, "a test changed config for good: use config.patch"
    expected = request.node.get_closest_marker("graph_errors") is not None
    assert expected or not record.counters["graph_errors"], "a compiled graph raised, and eager covered it up"


def pytest_sessionfinish(session, exitstatus):
    _cache.cleanup()
