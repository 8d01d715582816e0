"""DistributedDataParallel and fully_shard around and inside compiled modules: two processes, eager beside compiled."""

import json
import pathlib
import subprocess
import sys

import pytest
import torch.distributed
from distributed_worker import SCENARIOS, SECONDS

WORKER = pathlib.Path(__file__).with_name("distributed_worker.py")

pytestmark = pytest.mark.skipif(
    not (torch.distributed.is_available() and torch.distributed.is_gloo_available()), reason="needs gloo"
)


@pytest.fixture(scope="module")
def what_differs(tmp_path_factory):
    """{scenario: traceback} of each process, which are gone when the tests begin."""
    folder = tmp_path_factory.mktemp("distributed")
    workers = [
        subprocess.Popen([sys.executable, WORKER, str(rank), folder], stderr=subprocess.PIPE, text=True)
        for rank in range(2)
    ]
    try:
        errors = [worker.communicate(timeout=SECONDS)[1] for worker in workers]
    finally:
        for worker in workers:
            worker.kill()
            worker.wait()
    assert [worker.returncode for worker in workers] == [0, 0], "\n".join(errors)
    return [json.loads((folder / f"{rank}.json").read_text()) for rank in range(2)]


@pytest.mark.parametrize("scenario", [scenario.__name__ for scenario in SCENARIOS])
def test_two_processes(what_differs, scenario):
    assert not any(scenario in wrong for wrong in what_differs), [wrong.get(scenario) for wrong in what_differs]
