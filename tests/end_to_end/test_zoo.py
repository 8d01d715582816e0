"""Every model of the zoo, compiled: values, graphs, gradients and buffers against eager.

Graph counts are those of torch.compile, recorded in torch_graphs.json (record_torch_graphs.py writes it).
"""

import json
import pathlib

import pytest

from minicompile.accuracy import check_inference, check_training
from minicompile.bench.models import ZOO

MODES = ("inference", "training")
TORCH = json.loads(pathlib.Path(__file__).with_name("torch_graphs.json").read_text())["models"]


def build(name):
    if name.startswith("hf_"):
        pytest.importorskip("transformers", reason="the Hugging Face models need the `test` extra")
    return ZOO[name], *ZOO[name].build()


def expected(name, mode):
    """As many graphs as torch.compile makes in two calls, each a whole frame.  Where it breaks, ours is held to one."""
    counts = TORCH[name][mode]
    graphs = 1 if counts["graph_breaks"] else max(1, counts["graphs"])
    return {"graphs": graphs, "graph_breaks": 0, "recompiles": graphs - 1}


@pytest.mark.parametrize("name", ZOO)
def test_inference(name, subject):
    entry, model, batch = build(name)
    strides = subject.name != "torch:inductor"  # which does not keep the layout of what it returns in a cache object
    check_inference(model, batch.args, batch.kwargs, subject.compile, strides=strides)
    subject.assert_counts(**expected(name, "inference"))


@pytest.mark.parametrize("name", ZOO)
def test_training(name, subject):
    entry, model, batch = build(name)
    loss = lambda output: entry.loss(output, batch.target)  # noqa: E731
    check_training(model.train(), loss, batch.args, entry.training_kwargs(batch), subject.compile)
    subject.assert_counts(**expected(name, "training"))


def test_the_record_covers_the_zoo():
    assert set(TORCH) == {*ZOO, "gpt_sampling"}
    without = {name for name, modes in TORCH.items() if not modes["inference"]["graphs"]}
    assert without == {"lstm"}  # torch.compile leaves frames that call nn.LSTM alone


@pytest.mark.parametrize("name", ZOO)
def test_models_are_the_same_every_time(name):
    """Equal seeds give equal weights and data, and building leaves the caller's random state alone."""
    import torch

    before = torch.get_rng_state()
    entry, first, batch = build(name)
    _, second, again = build(name)
    assert torch.equal(torch.get_rng_state(), before)
    for (label, a), b in zip(first.state_dict().items(), second.state_dict().values(), strict=True):
        assert torch.equal(a, b), label
    assert all(torch.equal(a, b) for a, b in zip(batch.args, again.args, strict=True))
    assert torch.equal(batch.target, again.target)
    other, _ = entry.build(seed=1)
    assert any(not torch.equal(a, b) for a, b in zip(first.parameters(), other.parameters(), strict=True))
