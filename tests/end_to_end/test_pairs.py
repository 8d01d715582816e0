"""PyTorch's backend protocol both ways: our capture with PyTorch's backends, PyTorch's capture with ours."""

import pytest
import torch
import torch._dynamo

import minicompile
from minicompile.accuracy import check_inference, check_training
from minicompile.bench.models import ZOO
from minicompile.testing import CompileCounter

PAIRS = {
    "ours with PyTorch's aot_eager": lambda m: minicompile.compile(
        m, backend=torch._dynamo.lookup_backend("aot_eager")
    ),
    "ours with eager": lambda m: minicompile.compile(m, backend="eager"),
    "ours with our aot_eager": lambda m: minicompile.compile(m, backend="aot_eager"),
    "PyTorch's with ours": lambda m: torch.compile(m, backend="minicompile"),
}


@pytest.fixture(autouse=True)
def forget_what_pytorch_compiled():
    torch.compiler.reset()
    yield
    torch.compiler.reset()


@pytest.mark.parametrize("name", ["gpt", pytest.param("mobile_cnn", marks=pytest.mark.slow)])
@pytest.mark.parametrize("pair", PAIRS)
def test_pair(pair, name):
    entry = ZOO[name]
    model, batch = entry.build()
    check_inference(model, batch.args, batch.kwargs, PAIRS[pair])
    loss = lambda output: entry.loss(output, batch.target)  # noqa: E731
    check_training(model.train(), loss, batch.args, entry.training_kwargs(batch), PAIRS[pair])


def test_both_captures_hold_the_same_operations():
    """The graphs of the two captures of a GPT compute the same, in about as many nodes."""
    model, batch = ZOO["gpt"].build()
    ours, theirs = CompileCounter(), CompileCounter()
    with torch.no_grad():
        minicompile.compile(model, backend=ours)(*batch.args)
        torch.compile(model, backend=theirs)(*batch.args)
    assert ours.graphs == theirs.graphs == 1
    assert abs(ours.ops - theirs.ops) <= theirs.ops // 5
