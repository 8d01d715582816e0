"""Sizes and numbers that are read from data, through forward and backward: gradients are eager's, in one graph."""

import pytest
import torch
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint

import minicompile
from minicompile import config, record
from minicompile.testing import differences

BACKENDS = ["aot_eager", "cpp", "triton"]
T = torch.tensor


def masked_loss(x, weight, n):
    """The mean over those that count."""
    return x[x > 0].pow(2).mean() * weight.sum()


def experts(x, weight, n):
    """A mixture of experts: each takes the rows that choose it."""
    gate = (x @ weight[:, :2]).softmax(-1)
    chosen, result = gate.argmax(-1), torch.zeros_like(x)
    for k in range(2):
        rows = torch.where(chosen == k)[0]
        result = result.index_add(0, rows, F.gelu(x[rows] @ weight) * gate[rows, k, None])
    return result.square().sum()


def without_overlaps(x, weight, n):
    """Of boxes that overlap, the best: suppression in one step."""
    scores, order = x.sum(1).sort(descending=True)
    boxes = x[order] @ weight
    close = ((boxes[:, None] - boxes[None]).abs().sum(-1) < 2).triu(1)
    kept = torch.nonzero(~close.any(0))[:, 0]
    return (boxes[kept] * scores[kept, None]).sum(), kept.shape[0], order[kept]


def first_rows(x, weight, n):
    count = n.item()
    rows = x[:count] @ weight
    return F.softmax(rows, -1).sum() * count + (rows.exp() * torch.arange(count)[:, None]).sum(), rows.t() * 2, count


def scaled(x, weight, n):
    scale = x[0, 0].item()
    return ((x * scale) @ weight).sum() * scale


def normalised(x, weight, n):
    count = n.item()
    torch._check(2 <= count)
    torch._check(count <= 8)
    return F.layer_norm(x[:count], (4,)).pow(3).sum() + x[:count].std(1).sum() * weight.mean()


def cached(x, weight, n):
    """In a checkpoint: its backward runs again what is cheap, not what reads data."""

    def inside(x):
        return F.gelu(x[x[:, 0] > 0] @ weight).sum(0)

    return checkpoint(inside, x, use_reentrant=False).sum()


PROGRAMS = [masked_loss, experts, without_overlaps, scaled, normalised, cached, first_rows]


def with_gradients(function, x, weight, n):
    leaves = [x.clone().requires_grad_(), weight.clone().requires_grad_()]
    results = function(*leaves, n)
    first = results[0] if isinstance(results, tuple) else results
    return results, torch.autograd.grad(first, leaves, allow_unused=True)


def settings(backend):
    return {"capture_scalar_outputs": True, "cpu_backend": "cpp" if backend == "aot_eager" else backend}


def compiled_for(backend, function):
    return minicompile.compile(function, backend=backend if backend == "aot_eager" else "inductor", fullgraph=True)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_gradients_of_one_graph_for_all_data(program, backend):
    compiled = compiled_for(backend, program)
    with config.patch(**settings(backend)):
        for shift, n in ((0.0, 3), (9.0, 2), (-9.0, 8), (0.5, 5)):  # some, none, all
            x, weight = torch.randn(8, 4).double() - shift, torch.randn(4, 4).double() / 2
            expected, found = (with_gradients(f, x, weight, T(n)) for f in (program, compiled))
            lines = differences(expected, found, exact=False)
            assert not lines, (shift, lines)
    assert minicompile.stats()["graphs"] == 1 and not record.counters["aot_rejected"]


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_padded_batch_is_packed(backend):
    def program(x, weight, lengths):
        tokens = torch.cat([row[:length] for row, length in zip(x.view(-1, 4, 4), lengths.tolist())])
        return (tokens @ weight).tanh().sum(), tokens.shape[0]

    compiled = compiled_for(backend, program)
    with config.patch(**settings(backend)):
        for lengths in ([3, 1], [4, 0], [0, 0], [1, 1]):
            x, weight = torch.randn(8, 4), torch.randn(4, 3)
            expected, found = (with_gradients(f, x, weight, T(lengths)) for f in (program, compiled))
            assert not (lines := differences(expected, found, exact=False)), lines
    assert minicompile.stats()["graphs"] == 1 and not record.counters["aot_rejected"]


def traced(program, *arguments):
    with config.patch(capture_scalar_outputs=True):
        compiled_for("aot_eager", program)(*arguments)
    return record.compilations[-1].artifacts("aot")[0]


def operators(gm):
    return [str(node.target) for node in gm.graph.nodes if node.op == "call_function"]


def test_what_reads_data_runs_once_and_sizes_are_saved_as_numbers():
    weight = torch.randn(4, 4, requires_grad=True)
    graph = traced(first_rows, torch.randn(8, 4, requires_grad=True), weight, T(3))
    assert operators(graph.forward).count("aten._local_scalar_dense.default") == 1
    assert "aten._local_scalar_dense.default" not in operators(graph.backward)
    assert [
        entry.dtype for entry in graph.saved if not entry.is_tensor
    ] and "_local_scalar_dense" not in graph.recomputed

    minicompile.reset()
    graph = traced(cached, torch.randn(8, 4, requires_grad=True), weight, T(3))
    assert operators(graph.forward).count("aten.index.Tensor") == 1
    assert "aten.index.Tensor" not in operators(graph.backward)


def test_what_operators_state_is_asserted_in_the_graph():
    def program(x, n):
        n = n.item()
        return x.narrow(0, 0, n) * 2, torch.zeros(n) + x[: x.shape[0] - 3, 0]

    graph = traced(program, torch.randn(8, 4), T(5))
    targets = operators(graph.forward)
    assert targets.index("aten._assert_scalar.default") < targets.index("aten.slice.Tensor")
    stated = [n.args[1] for n in graph.forward.graph.nodes if "_assert_scalar" in str(n.target)]
    assert len(stated) == len(set(stated)) and any("<= 8" in text for text in stated)
    assert any(text.startswith("the data does not give Eq(") for text in stated)


@pytest.mark.graph_errors
@pytest.mark.parametrize("backend", BACKENDS)
def test_a_statement_of_an_operator_that_fails_is_eagers_error(backend):
    def program(x, weight, n):
        n = n.item()
        return (x.narrow(0, 0, n) @ weight).sum()

    compiled = compiled_for(backend, program)
    with config.patch(**settings(backend)):
        for n in (3, 9, 8, -1):
            x, weight, n = torch.randn(8, 4), torch.randn(4, 3), T(n)
            try:
                expected = with_gradients(program, x, weight, n)
            except RuntimeError as error:
                with pytest.raises(RuntimeError) as raised:
                    with_gradients(compiled, x, weight, n)
                assert str(raised.value) == str(error)
            else:
                assert not differences(expected, with_gradients(compiled, x, weight, n), exact=False)
    assert minicompile.stats()["graphs"] == 1


def test_by_default_the_loss_of_a_mask_breaks_and_trains():
    compiled = minicompile.compile(masked_loss)
    for shift in (0.0, 0.5):
        x, weight = torch.randn(8, 4) - shift, torch.randn(4, 4)
        expected, found = (with_gradients(f, x, weight, None) for f in (masked_loss, compiled))
        assert not differences(expected, found, exact=False)
    assert {e.kind for c in record.compilations for e in c.breaks} == {"data-dependent operator"}
