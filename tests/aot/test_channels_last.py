"""Convolutions in channels last: the decision, what follows from it in a graph, and that users notice nothing.

A GPU is not needed: CPUs are such devices, too, by a rule of their own.
"""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import minicompile
from minicompile import config, record
from minicompile.aot import channels_last
from minicompile.bench.models import ZOO

aten = torch.ops.aten


def graphs():
    return [a for entry in record.compilations for a in entry.artifacts("aot")]


def convolutions(graph, backward=False):
    part = graph.backward if backward else graph.forward
    return [n for n in part.graph.nodes if n.target in channels_last.IMAGES]


def are_last(graph, backward=False):
    """Does every convolution read channels last, and make it?"""
    found = convolutions(graph, backward)
    values = [n.args[i].meta["val"] for n in found for i in channels_last.IMAGES[n.target]]
    values += [n.meta["val"] for n in found if not backward]
    return bool(found) and all(v.is_contiguous(memory_format=torch.channels_last) for v in values)


def network(channels=16):
    return nn.Sequential(
        nn.Conv2d(3, channels, 3, padding=1),
        nn.BatchNorm2d(channels),
        nn.ReLU(),
        nn.Conv2d(channels, channels, 3, groups=channels),
        nn.Conv2d(channels, 2 * channels, 1, bias=False),
        nn.GroupNorm(4, 2 * channels),
        nn.SiLU(),
        nn.Upsample(scale_factor=2),
        nn.ConvTranspose2d(2 * channels, channels, 2, 2),
        nn.MaxPool2d(2),
        nn.Dropout2d(0.0),
    )


def compare(model, x, train):
    compiled = minicompile.compile(model)
    model.zero_grad()
    expected = model(x)
    if train:
        expected.square().sum().backward()
    gradients = {name: p.grad for name, p in model.named_parameters()}
    model.zero_grad()
    got = compiled(x)
    torch.testing.assert_close(got, expected, rtol=1e-4, atol=1e-4)
    assert got.stride() == expected.stride()
    if train:
        got.square().sum().backward()
        for name, p in model.named_parameters():
            scale = gradients[name].abs().max().item()
            torch.testing.assert_close(p.grad, gradients[name], rtol=1e-3, atol=1e-4 * max(scale, 1), msg=name)
            assert p.grad.stride() == gradients[name].stride(), name


@pytest.mark.parametrize("form", ["contiguous", "channels_last", "transposed"])
def test_inference(form):
    x = torch.randn(2, 3, 16, 16)
    x = x.to(memory_format=torch.channels_last) if form == "channels_last" else x.mT if form == "transposed" else x
    with torch.no_grad():
        compare(network().eval(), x, train=False)
    (graph,) = graphs()
    assert are_last(graph)


def test_training():
    compare(network().train(), torch.randn(2, 3, 16, 16), train=True)
    (graph,) = graphs()
    assert are_last(graph) and are_last(graph, backward=True)
    copies = [n for n in graph.forward.graph.nodes if n.target is aten.clone.default]
    assert len([n for n in copies if n.meta["val"].shape[0] == 2]) <= 5  # the pointwise operators follow


@pytest.mark.parametrize("name", ["resnet18", "mobile_cnn", "unet"])
def test_models(name):
    model, batch = ZOO[name].build()
    model.eval()
    with torch.no_grad():
        torch.manual_seed(0)
        expected = model(*batch.args)
        torch.manual_seed(0)
        got = minicompile.compile(model)(*batch.args)
    expected, got = ((t,) if isinstance(t, torch.Tensor) else tuple(t) for t in (expected, got))
    for a, b in zip(got, expected, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-3)
        assert a.stride() == b.stride()
    assert are_last(graphs()[0])


def test_weights_are_converted_once_where_parameters_are_frozen():
    x, model = torch.randn(2, 3, 16, 16), network().eval()
    with torch.no_grad(), config.patch(freeze=True):
        out, expected = minicompile.compile(model)(x), model(x)
    torch.testing.assert_close(out, expected, rtol=1e-4, atol=1e-4)
    assert out.stride() == expected.stride()
    (graph,) = graphs()
    weights = [n.args[1] for n in convolutions(graph)]
    assert are_last(graph) and all(w.op == "placeholder" for w in weights)


def test_the_users_results_and_random_numbers_are_eagers():
    convolution, x = nn.Conv2d(3, 8, 3), torch.randn(2, 3, 10, 10)

    def program(x):
        y = convolution(x)
        z = F.dropout(y.relu(), 0.5)
        return y, y.mT, y.flatten(1), y.sum((2, 3)), z, torch.rand_like(y), y.as_strided((2, 4), (8, 2)), y[:, ::2] + 1

    with torch.no_grad():
        torch.manual_seed(1)
        expected = program(x)
        torch.manual_seed(1)
        got = minicompile.compile(program)(x)
    for a, b in zip(got, expected, strict=True):
        torch.testing.assert_close(a, b)
        assert a.stride() == b.stride()


# --- the decision ---------------------------------------------------------------------------------------


def decided(model, x, autocast=None):
    minicompile.reset()
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16, enabled=autocast is not None):
        minicompile.compile(model.eval())(x)
    return are_last(graphs()[0])


def test_where_it_wins():
    x = torch.randn(1, 16, 8, 8)
    assert decided(nn.Conv2d(16, 16, 3), x)
    assert decided(nn.Conv2d(16, 16, 3, groups=16), x)
    assert not decided(nn.Conv2d(16, 16, 3, groups=4), x)  # slow kernels
    mixed = nn.Sequential(nn.Conv2d(16, 16, 3, groups=4), nn.Conv2d(16, 32, 3))
    assert decided(mixed, x)  # most of the work gains
    assert decided(nn.Conv2d(16, 16, 3).double(), x.double()) is False
    with torch.backends.mkldnn.flags(enabled=False):
        assert not decided(nn.Conv2d(16, 16, 3), x)


def test_where_it_wins_on_a_gpu(monkeypatch):
    """Float32 proper has no tensor cores."""
    monkeypatch.setitem(channels_last.DEVICES, "cpu", channels_last.DEVICES["cuda"])
    x = torch.randn(1, 16, 8, 8)
    assert decided(nn.Conv2d(16, 16, 3), x)
    with torch.backends.cudnn.flags(allow_tf32=False):
        assert not decided(nn.Conv2d(16, 16, 3), x)
        assert decided(nn.Conv2d(16, 16, 3), x, autocast=True)


def test_other_dimensions_and_sizes_that_change_are_left_alone():
    with torch.no_grad():
        minicompile.compile(nn.Conv1d(4, 4, 3))(torch.randn(2, 4, 9))
        minicompile.compile(nn.Conv2d(4, 4, 3), dynamic=True)(torch.randn(2, 4, 9, 9))
    for graph in graphs():
        assert not any(n.target is aten.clone.default for n in graph.forward.graph.nodes)


class Branches(nn.Module):
    """The stem of RepVGG: two convolutions of the same image, one of them of a pixel in four."""

    def __init__(self, channels, stride):
        super().__init__()
        self.wide = nn.Conv2d(channels, 48, 3, stride, 1, bias=False)
        self.narrow = nn.Conv2d(channels, 48, 1, stride, bias=False)
        self.norm = nn.BatchNorm2d(48)

    def forward(self, x):
        return self.norm(self.wide(x) + self.narrow(x)).relu()


@pytest.mark.parametrize("stride", [(2, 2), (2, 1)])
@pytest.mark.parametrize("before", [False, True])
def test_no_convolution_for_which_onednn_writes_past_its_memory(stride, before):
    """Asked of the graph: such a call ends the process, or some later one."""
    model = Branches(8, stride)
    model = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), model) if before else model
    compare(model, torch.randn(2, 3 if before else 8, 32, 32), train=True)
    (graph,) = graphs()
    narrow = [n for n in convolutions(graph, backward=True) if channels_last.overruns(n)]
    assert narrow and are_last(graph)
    for node in narrow:
        assert all(node.args[i].meta["val"].is_contiguous() for i in (1, 2))
