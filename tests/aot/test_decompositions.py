"""The decomposition table against eager, and what is left of real models after it."""

import sys
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from minicompile.aot.decompositions import CALLED, LOWERED, OURS, decomposition_table, overloads
from minicompile.bench.models import ZOO
from minicompile.inductor.lowering import LOWERINGS

sys.path.insert(0, str(Path(__file__).parent.parent / "inductor"))
import op_sweep  # noqa: E402

# Operators that call ATen on purpose when they occur in the models below.
DELIBERATE = {
    "aten.randn_like.default",
    "minicompile.rnn_layer.default",  # oneDNN's call of a layer, whose backward is asked for
}


def test_table_is_of_aten_overloads():
    table = decomposition_table()
    assert all(isinstance(op, torch._ops.OpOverload) and op.namespace == "aten" for op in table)
    for op in overloads(CALLED + LOWERED):
        assert op not in table, op
    assert set(OURS) <= set(table)


def test_lowered_operators_have_a_lowering():
    missing = [op for op in overloads(LOWERED) if not {op, op.overloadpacket} & LOWERINGS.keys()]
    assert missing == [torch.ops.aten._unsafe_index.Tensor_hacked_twin]  # TorchScript's


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_decompositions_agree_with_eager(dtype):
    names = """softmax log_softmax nn.functional.gelu nn.functional.silu nn.functional.hardswish nn.functional.mish
    nn.functional.layer_norm nn.functional.group_norm nn.functional.batch_norm native_layer_norm native_batch_norm
    nn.functional.nll_loss nn.functional.mse_loss nn.functional.soft_margin_loss nn.functional.huber_loss addcmul
    addcdiv lerp var std_mean nn.functional.glu nn.functional.softplus logsumexp linalg.vector_norm
    nn.functional.logsigmoid nn.functional.elu""".split()
    wrong = {
        name: problems
        for name, problems, _, _ in op_sweep.sweep(names, dtype, grad=True, count=2, stage="decompositions")
        if problems
    }
    assert not wrong, wrong


def test_dropout_draws_eagers_numbers():
    x = torch.randn(37, 4, 11).permute(2, 0, 1)
    graph = op_sweep.functional_graph(lambda x: torch.native_dropout(x, 0.3, True), [x])
    torch.manual_seed(5)
    expected = F.dropout(x, 0.3)
    torch.manual_seed(5)
    result, mask = graph(x)
    torch.testing.assert_close(result, expected)
    assert torch.equal(mask, expected != 0) and result.stride() == expected.stride()


@pytest.mark.parametrize(
    ("kwargs", "weighted"),
    [({}, False), ({"ignore_index": 2}, True), ({"reduction": "sum", "label_smoothing": 0.1}, True)],
)
def test_cross_entropy(kwargs, weighted):
    logits, target, weight = torch.randn(9, 5, requires_grad=True), torch.randint(5, (9,)), torch.rand(5)

    def gradient(logits, target, weight):
        loss = F.cross_entropy(logits, target, weight if weighted else None, **kwargs)
        return loss.detach(), torch.autograd.grad(loss, logits)[0]

    inputs = (logits, target, weight)
    for e, a in zip(gradient(*inputs), op_sweep.functional_graph(gradient, inputs)(*inputs), strict=True):
        torch.testing.assert_close(a, e)


def models():
    for name in ("gpt", "resnet18", "mobile_cnn", "unet", "bert_encoder", "mlp_mixer", "vae", "lstm_cell"):
        yield pytest.param(lambda name=name: zoo(name), id=name)
    yield pytest.param(lambda: (nn.LSTM(6, 5, 2, batch_first=True), (torch.randn(3, 4, 6),)), id="nn.LSTM")
    yield pytest.param(lambda: (nn.GRU(6, 5, bidirectional=True), (torch.randn(3, 4, 6),)), id="nn.GRU")


def zoo(name):
    model, batch = ZOO[name].build()
    return model, batch.args


def buffers(model):
    """Copies that the functional graph may write: batch norm's statistics."""
    functional = op_sweep.FunctionalTensor.to_functional
    return {n: functional(b.clone()) for n, b in model.named_buffers()}


@pytest.mark.parametrize("train", [False, True])
@pytest.mark.parametrize("build", models())
def test_what_is_left_of_models(build, train):
    """After decomposition every operator has a lowering, or is called on purpose."""
    model, args = build()
    model.train(train)
    parameters = [p for p in model.parameters() if p.requires_grad]

    def step(*values):
        names = [n for n, p in model.named_parameters() if p.requires_grad]
        state = dict(zip(names, values[len(args) :], strict=True)) | buffers(model)
        output = torch.func.functional_call(model, state, values[: len(args)])
        outputs = [t for t in op_sweep.tensors(output) if t.dtype.is_floating_point]
        if not train:
            return [t.detach() for t in outputs]
        return torch.autograd.grad(sum(t.square().mean() for t in outputs), values[len(args) :], allow_unused=True)

    graph = op_sweep.functional_graph(step, (*args, *parameters))
    operators = {n.target for n in graph.graph.nodes if isinstance(n.target, torch._ops.OpOverload)}
    left = {str(op) for op in operators if op not in LOWERINGS and op.overloadpacket not in LOWERINGS}
    assert left <= DELIBERATE, left
