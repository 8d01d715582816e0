"""What every test shares: errors raise, the IR is verified, nothing is left over from another test or session."""

import os
import tempfile

import pytest

# Before minicompile is imported: config reads the environment once.  One cache for all worker processes of a session,
# or one that who runs several sessions names.
_is_worker = "PYTEST_XDIST_WORKER" in os.environ
_cache = None
if "MINICOMPILE_CACHE_DIR" not in os.environ:
    _cache = tempfile.TemporaryDirectory(prefix="minicompile-test-cache-")
    os.environ["MINICOMPILE_CACHE_DIR"] = _cache.name

import torch  # noqa: E402
from torch._dynamo.eval_frame import TorchPatcher  # noqa: E402

import minicompile  # noqa: E402
from minicompile import config, record  # noqa: E402

# The first torch.compile of a process changes optimizers and distributions for good: no test may depend on its turn.
TorchPatcher.patch = staticmethod(lambda: None)
config.strict = True
config.verify_ir = True
config.graph_cache = False  # no test is to be given what another one compiled
torch.set_num_threads(1 if _is_worker else torch.get_num_threads())  # the workers share the cores


@pytest.fixture(autouse=True)
def fresh_start(request):
    """Each test starts with empty records and caches, and with the same random numbers."""
    minicompile.reset()
    torch.manual_seed(0)
    yield
    assert config.strict and config.verify_ir, "a test changed config for good: use config.patch"
    left_on, _ = torch.is_grad_enabled(), torch.set_grad_enabled(True)
    assert left_on, "a test left the grad mode switched off"
    expected = request.node.get_closest_marker("graph_errors") is not None
    assert expected or not record.counters["graph_errors"], "a compiled graph raised, and eager covered it up"


def pytest_collection_modifyitems(items):
    """Workers must agree on the names of tests: an address in one is another in each process."""
    wandering = [item.nodeid for item in items if " at 0x" in item.nodeid]
    if wandering:
        raise pytest.UsageError(f"tests are named by addresses: {wandering}")


def pytest_sessionfinish(session, exitstatus):
    if _cache:
        _cache.cleanup()
