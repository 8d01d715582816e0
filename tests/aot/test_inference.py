"""Graphs without gradients carry nothing that is there for training."""

import pytest
import torch

import minicompile
from minicompile import record
from minicompile.bench.models import ZOO

aten = torch.ops.aten
NO_GRAD = {"no_grad": torch.no_grad, "inference_mode": torch.inference_mode}
# What only training needs.  A clone that changes the layout is work that eager does too.
BAGGAGE = {aten.detach.default, aten.alias.default, aten.native_dropout.default, aten.bernoulli.p}


def graphs_of(fn, *args, mode="no_grad", **kwargs):
    minicompile.reset()
    with NO_GRAD[mode]():
        out = minicompile.compile(fn, backend="aot_eager")(*args, **kwargs)
    return out, [graph for c in record.compilations for graph in c.artifacts("aot")]


def nodes(graph):
    return [n for n in graph.forward.graph.nodes if n.op == "call_function"]


def is_layout_change(node):
    source, value = node.args[0].meta["val"], node.meta["val"]
    return source.stride() != value.stride()


@pytest.mark.parametrize("mode", NO_GRAD)
@pytest.mark.parametrize("name", ["gpt", "gpt_manual", "bert_encoder", "resnet18"])
def test_models(name, mode):
    model, batch = ZOO[name].build("small")
    out, graphs = graphs_of(model, *batch.args, mode=mode, **batch.kwargs)
    assert graphs
    for graph in graphs:
        assert graph.backward is None and graph.joint is None and not graph.saved and not graph.recomputed
        assert len(graph.forward.graph.output_node().args[0]) == graph.result_count
        assert not BAGGAGE & {n.target for n in nodes(graph)}
        assert all(is_layout_change(n) for n in nodes(graph) if n.target is aten.clone.default)


class Everything(torch.nn.Module):
    """All that training brings along, in one function."""

    def __init__(self):
        super().__init__()
        self.linear, self.norm, self.dropout = torch.nn.Linear(4, 4), torch.nn.BatchNorm1d(4), torch.nn.Dropout(0.5)

    def forward(self, x):
        y = self.dropout(self.norm(self.linear(x))).detach().clone()
        y = torch.nn.functional.dropout(y, 0.5, self.training).contiguous()
        return torch.utils.checkpoint.checkpoint(torch.nn.functional.gelu, y, use_reentrant=False)


@pytest.mark.parametrize("mode", NO_GRAD)
def test_only_what_computes_remains(mode):
    model, x = Everything().eval(), torch.randn(3, 4)
    out, (graph,) = graphs_of(model, x, mode=mode)
    torch.testing.assert_close(out, model(x))
    assert out.is_inference() == (mode == "inference_mode") and not out.requires_grad
    kept = {n.target for n in nodes(graph)}
    assert not (BAGGAGE | {aten.clone.default, aten._to_copy.default}) & kept
    assert not graph.mutations and len(nodes(graph)) <= 20


def test_gradients_that_nobody_wants():
    """Grad mode is on, and nothing requires grad: the same graph."""
    model, x = Everything().eval().requires_grad_(False), torch.randn(3, 4)
    minicompile.reset()
    minicompile.compile(model, backend="aot_eager")(x)
    (graph,) = record.compilations[-1].artifacts("aot")
    assert graph.backward is None and not BAGGAGE & {n.target for n in nodes(graph)}
