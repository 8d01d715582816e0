"""Frozen parameters: folded into the graph, right when they are written, and left alone where a gradient needs them."""

import copy

import pytest
import torch

import minicompile
from minicompile import record

nn, F = torch.nn, torch.nn.functional
aten = torch.ops.aten


def randomised(model):
    """In eval mode, with statistics and weights that are no one's defaults."""
    generator = torch.Generator().manual_seed(0)
    for module in model.modules():
        for name, tensor in [*module.named_parameters(recurse=False), *module.named_buffers(recurse=False)]:
            if tensor.is_floating_point():
                values = torch.randn(tensor.shape, generator=generator)
                tensor.data.copy_(values.abs() + 0.5 if name == "running_var" else values)
    return model.eval()


def frozen(model, **options):
    minicompile.reset()
    return minicompile.compile(model, options={"freeze": True}, **options)


def graph():
    return record.compilations[-1].artifacts("aot")[0]


def targets():
    return [n.target for n in graph().forward.graph.nodes if n.op == "call_function"]


def close(model, x, out):
    """Within three times eager's own error."""
    right = copy.deepcopy(model).double()(x.double())
    assert (out.double() - right).abs().max() <= 3 * (model(x).double() - right).abs().max() + 1e-6


# In channels last: else the image and the result of a convolution are copied, by intention.
IMAGE, ROWS = torch.randn(2, 4, 6, 6).to(memory_format=torch.channels_last), torch.randn(5, 4)
convolution, addmm, mm = aten.convolution.default, aten.addmm.default, aten.mm.default


class Scaled(nn.Module):
    """A matmul without bias, scaled and shifted by parameters and numbers."""

    def __init__(self):
        super().__init__()
        self.weight, self.scale = nn.Parameter(torch.empty(4, 3)), nn.Parameter(torch.empty(3))

    def forward(self, x):
        return 2.0 + self.scale * (x @ self.weight) / 3 - self.scale


class Layers(nn.Module):
    """Some function of the parameters of some layers."""

    def __init__(self, function, *layers):
        super().__init__()
        self.layers, self.function = nn.ModuleList(layers), function

    def forward(self, x):
        return self.function(x, *self.layers)


@pytest.mark.parametrize(
    "make, x, expected",
    [
        (
            lambda: nn.Sequential(nn.Conv2d(4, 6, 3), nn.BatchNorm2d(6), nn.ReLU()),
            IMAGE,
            [convolution, aten.relu.default],
        ),
        (lambda: nn.Sequential(nn.Conv2d(4, 6, 3, bias=False), nn.BatchNorm2d(6)), IMAGE, [convolution]),
        (lambda: nn.Sequential(nn.Conv2d(4, 6, 3, groups=2), nn.BatchNorm2d(6, affine=False)), IMAGE, [convolution]),
        (lambda: nn.Sequential(nn.Conv1d(6, 6, 3, groups=6), nn.BatchNorm1d(6)), IMAGE[0], [convolution]),
        (lambda: nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3)), ROWS, [addmm]),
        (lambda: nn.Sequential(nn.Linear(4, 3, bias=False), nn.BatchNorm1d(3)), ROWS, [addmm]),
        (Scaled, ROWS, [addmm]),
        (lambda: nn.utils.parametrizations.weight_norm(nn.Linear(4, 3)), ROWS, [addmm]),
        (lambda: Layers(lambda x, a: x @ (a.weight.t() @ a.weight).exp(), nn.Linear(4, 3)), ROWS, [mm]),
        (lambda: Layers(lambda x, e: x + e(torch.arange(5)), nn.Embedding(9, 4)), ROWS, [aten.add.Tensor]),
    ],
)
@torch.no_grad()
def test_what_is_made_of_parameters_is_folded(make, x, expected):
    model = randomised(make())
    compiled = frozen(model, fullgraph=True)
    out = compiled(x)
    close(model, x, out)
    assert out.stride() == model(x).stride()
    assert [t for t in targets() if t not in (aten.view.default, aten.squeeze.dim, aten.unsqueeze.default)] == expected
    name, before, after = graph().passes[-1]
    assert name == "freeze" and after < before
    compiled(x)
    assert len(record.compilations) == 1


@pytest.mark.parametrize(
    "make, x, stays",
    [
        (lambda: nn.Sequential(nn.ConvTranspose2d(4, 6, 3), nn.BatchNorm2d(6)), IMAGE, aten.mul.Tensor),
        (lambda: Layers(lambda x, c: (lambda y: y * 2 + y.sum())(c(x)), nn.Conv2d(4, 6, 3)), IMAGE, aten.mul.Tensor),
        (
            lambda: Layers(
                lambda x, c: c(x) * c.weight[0, 0],
                nn.Conv2d(4, 6, 3, padding=1),
            ),
            IMAGE[:, :, :3, :3],
            aten.mul.Tensor,
        ),
        (lambda: Layers(lambda x, c: c(x) * x.mean(), nn.Linear(4, 4)), ROWS, aten.mul.Tensor),
        (lambda: Layers(lambda x, c: 1 - c(x), nn.Linear(4, 4)), ROWS, aten.sub.Tensor),
        (lambda: Layers(lambda x, c: 1 / c(x), nn.Linear(4, 4)), ROWS, aten.reciprocal.default),
        (lambda: Layers(lambda x, c: c(x) + c(x).mean(0), nn.Linear(4, 4)), ROWS, aten.add.Tensor),
        (lambda: Layers(lambda x, c: c(x) / 0.0, nn.Linear(4, 4)), ROWS, aten.div.Tensor),
        (
            lambda: Layers(lambda x, c: c(x) + c.weight.expand(2, 4, 4)[:, :1], nn.Linear(4, 4)),
            ROWS[:2],
            aten.add.Tensor,
        ),
        (lambda: Layers(lambda x, c: torch.add(c(x), c.bias, alpha=3), nn.Linear(4, 4)), ROWS, aten.add.Tensor),
    ],
)
@torch.no_grad()
def test_what_is_no_scale_of_channels_stays(make, x, stays):
    model = randomised(make())
    out = frozen(model, fullgraph=True)(x)
    torch.testing.assert_close(out, model(x), rtol=1e-4, atol=1e-4, equal_nan=True)
    assert stays in targets()


@torch.no_grad()
def test_casts_of_weights_are_folded():
    model = randomised(nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2)))
    with torch.autocast("cpu", torch.bfloat16):
        out = frozen(model)(ROWS)
        assert targets().count(aten._to_copy.default) == 1 and torch.equal(out, model(ROWS))  # only x is cast


# --- writes -----------------------------------------------------------------------------------------
def write_weight(model):
    model[0].weight.add_(1)


def write_statistics(model):
    model[1].running_mean.fill_(3)


def write_through_a_view(model):
    model[0].weight[0].zero_()


def replace_parameter(model):
    model[0].bias = nn.Parameter(torch.ones(6))


def replace_memory(model):
    model[0].weight.data = torch.ones_like(model[0].weight)


def load(model):
    model.load_state_dict({k: v + 1 for k, v in model.state_dict().items()})


def change_type_and_back(model):
    model.double().float()[0].weight.data.mul_(2)


def train_a_step(model):
    with torch.enable_grad():
        model(IMAGE).sum().backward()
    torch.optim.SGD(model.parameters(), 0.1).step()


WRITES = [write_weight, write_statistics, write_through_a_view, replace_parameter, replace_memory, load]
WRITES += [change_type_and_back, train_a_step]


@pytest.mark.parametrize("write", WRITES, ids=lambda f: f.__name__)
@torch.no_grad()
def test_a_write_is_seen(write):
    model = randomised(nn.Sequential(nn.Conv2d(4, 6, 3), nn.BatchNorm2d(6)))
    compiled = frozen(model, fullgraph=True)
    before = compiled(IMAGE)
    write(model)
    after = compiled(IMAGE)
    assert not torch.allclose(before, after)
    close(model, IMAGE, after)
    assert minicompile.stats()["recompiles"] == 1 and targets() == [convolution]
    compiled(IMAGE)
    assert minicompile.stats()["recompiles"] == 1


@torch.no_grad()
def test_the_guard_says_what_was_written():
    model = randomised(nn.Sequential(nn.Linear(4, 4)))
    compiled = frozen(model)
    compiled(ROWS)
    model[0].weight.add_(1)
    compiled(ROWS)
    assert (
        "frozen parameters are unwritten: was True, is ['self[0].weight']" in record.compilations[-1].recompile_reason
    )
    model[0].bias = nn.Parameter(torch.ones(4))
    compiled(ROWS)
    assert "self[0].bias is the frozen self[0].bias: was 'one object'" in record.compilations[-1].recompile_reason


@torch.no_grad()
def test_results_are_the_users():
    """A result that is made of parameters alone is a new tensor each time, and a parameter is itself."""
    model = randomised(Layers(lambda x, a: (x + 1, a.weight * 2, a.weight.t(), a.weight), nn.Linear(4, 3)))
    compiled = frozen(model, fullgraph=True)
    for _ in range(3):
        out, right = compiled(ROWS), model(ROWS)
        torch.testing.assert_close(out, right)
        assert out[3] is right[3] and out[2].data_ptr() == right[2].data_ptr()
        out[1].zero_()


@torch.no_grad()
def test_a_buffer_that_the_graph_writes_is_not_frozen():
    def count(x, norm):
        norm.num_batches_tracked.add_(1)
        return norm(x) + norm.num_batches_tracked

    model = randomised(Layers(count, nn.BatchNorm1d(4)))
    twin, compiled = copy.deepcopy(model), frozen(model, fullgraph=True)
    for _ in range(3):
        torch.testing.assert_close(compiled(ROWS), twin(ROWS))
    assert len(record.compilations) == 1 and model.layers[0].num_batches_tracked == 3


# --- gradients --------------------------------------------------------------------------------------
def test_nothing_is_frozen_where_a_gradient_may_be_wanted():
    def inner_grad(x, a):
        with torch.enable_grad():
            return a(x)

    for model, mode in (
        (randomised(nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3))), torch.enable_grad()),
        (randomised(nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3))).train(), torch.enable_grad()),
        (randomised(Layers(inner_grad, nn.Linear(4, 3))), torch.no_grad()),
    ):
        twin = copy.deepcopy(model)
        with mode:
            out, right = frozen(model)(ROWS), twin(ROWS)
        out.sum().backward()
        right.sum().backward()
        torch.testing.assert_close(out, right)
        for p, q in zip(model.parameters(), twin.parameters(), strict=True):
            torch.testing.assert_close(p.grad, q.grad)
        assert not graph().constants


def test_with_and_without_gradients_in_turn():
    model = randomised(nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3)))
    compiled = frozen(model)
    for _ in range(2):
        with torch.no_grad():
            close(model, ROWS, compiled(ROWS))
        assert compiled(ROWS).requires_grad
    assert len(record.compilations) == 2


@torch.no_grad()
def test_training_mode_normalises_with_the_batch():
    model = randomised(nn.Sequential(nn.Conv2d(4, 6, 3), nn.BatchNorm2d(6))).train()
    twin = copy.deepcopy(model)
    compiled = frozen(model)
    for _ in range(2):
        torch.testing.assert_close(compiled(IMAGE), twin(IMAGE), rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(model[1].running_mean, twin[1].running_mean)
    assert len(record.compilations) == 1
