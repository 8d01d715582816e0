"""Where the graph of a model under DDP is cut, and that the pieces together do what the model does: in one process."""

import contextlib
import copy
import types

import pytest
import torch
from aot_helpers import assert_same
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.checkpoint import checkpoint

import minicompile
from minicompile import config, record

WIDTH = 8
LAYER = 4 * (WIDTH * WIDTH + WIDTH)  # bytes


@contextlib.contextmanager
def in_ddp(bucket_bytes=LAYER):
    """As inside of DDP's forward: a bucket holds one linear layer."""
    like_ddp = types.SimpleNamespace(bucket_bytes_cap_default=False, bucket_bytes_cap=bucket_bytes)
    DistributedDataParallel._active_ddp_module = like_ddp
    try:
        yield
    finally:
        DistributedDataParallel._active_ddp_module = None


class Layers(nn.Module):
    """`body(self, x)` is the forward; `self[i]` are linear layers."""

    def __init__(self, body, count=4):
        super().__init__()
        self.body, self.layers = body, nn.ModuleList([nn.Linear(WIDTH, WIDTH) for _ in range(count)])
        self.norm = nn.BatchNorm1d(WIDTH, affine=False)
        self.register_buffer("total", torch.zeros(WIDTH))
        self.table = nn.Embedding(4, WIDTH)

    def __getitem__(self, i):
        return self.layers[i]

    def forward(self, x):
        return self.body(self, x)


def chain(m, x):
    for layer in m.layers:
        x = layer(x).relu()
    return x


def no_grad_region(m, x):
    x = m[1](m[0](x))
    with torch.no_grad():
        y = m[3](m[2](x))
    return x + y


def other_precision(m, x):
    x = m[1](m[0](x))
    with torch.autocast("cpu", torch.bfloat16):
        y = m[3](m[2](x))
    return x + y.float()


def tuple_in_between(m, x):
    values, order = torch.max(m[0](x), 1, keepdim=True)
    a, b = m[1](x).chunk(2, 1)
    return m[3](torch.cat([m[2](x), order * 0.5], 1)[:, :WIDTH]) + values + torch.cat([b, a], 1)


def shared(m, x):
    return m[0](m[2](m[1](m[0](x).relu()).relu()).relu())


def written_in_between(m, x):
    y = m[0](x)
    z = m[1](x) + y
    y.mul_(2)
    y[:, 0].add_(z[:, 0])
    return m[3](m[2](y + z)), y


def buffers(m, x):
    x = m.norm(m[0](x))
    m.total.add_(x.detach().sum(0))
    x = m.norm(m[1](x) + m.total)
    m.total.mul_(0.5)
    return m[3](m[2](x)) * m.total


def dropped(m, x):
    for layer in m.layers:
        x = nn.functional.dropout(layer(x), 0.5)
    return x + torch.rand_like(x)


def checkpointed(m, x):
    for layer in m.layers:
        x = checkpoint(lambda x, layer=layer: layer(x).tanh().sin(), x, use_reentrant=False)
    return x


def constants_and_views(m, x):
    c = torch.tensor([1.0, 2.0] * (WIDTH // 2))
    y = m[1](m[0](x) * c)
    z = m[3](m[2](y) + c)
    return z.t(), y[0], x, z


def size_in_between(m, x):
    n = x.shape[0] * 2
    y = m[1](m[0](x)).view(n, -1)
    return m[3](m[2](y.view(-1, WIDTH))).view(n, WIDTH // 2) + n


CASES = {  # body -> in how many pieces
    chain: 4,
    no_grad_region: 3,
    other_precision: 3,
    tuple_in_between: 4,
    shared: 3,
    written_in_between: 4,
    buffers: 4,
    dropped: 4,
    checkpointed: 4,
    constants_and_views: 4,
    size_in_between: 4,
}


def run(model, call, sizes=(4, 6, 10)):
    torch.manual_seed(1)
    seen = []
    for size in sizes:
        model.zero_grad()
        outputs = call(torch.randn(size, WIDTH))
        outputs = outputs if isinstance(outputs, tuple) else (outputs,)
        sum(out.square().sum() for out in outputs).backward()
        seen += [[o.detach().clone() for o in outputs], [p.grad for p in model.parameters()]]
        seen += [[b.clone() for b in model.buffers()]]
    return seen


@pytest.mark.parametrize("backend", ["aot_eager", "inductor", "eager"])
@pytest.mark.parametrize("body", CASES, ids=lambda body: body.__name__)
def test_pieces_do_what_the_model_does(body, backend):
    model = Layers(body)
    twin = copy.deepcopy(model)
    compiled = minicompile.compile(twin, backend=backend, fullgraph=True)
    with in_ddp():
        assert_same(run(model, model), run(twin, compiled), False, "the run")
    if backend != "eager":
        assert {len(entry.artifacts("aot")) for entry in record.compilations} == {CASES[body]}


def test_there_is_nothing_to_cut_outside_of_ddp_or_without_gradients_or_for_a_large_bucket():
    def pieces():
        minicompile.reset()
        minicompile.compile(model, backend="aot_eager")(torch.ones(2, WIDTH))
        return [len(entry.artifacts("aot")) for entry in record.compilations]

    model = Layers(chain)
    assert pieces() == [1]
    with in_ddp():
        assert pieces() == [4]
        with torch.no_grad():
            assert pieces() == [1]
    with in_ddp(2 * LAYER):
        assert pieces() == [2]
    with in_ddp(4 * LAYER):
        assert pieces() == [1]
    model[3].requires_grad_(False)
    with in_ddp():
        assert pieces() == [3]


def look_up(m, x):
    x = nn.functional.dropout(m.norm(m[1](m[0](x))), 0.5)
    m.total.add_(1)
    return m[2](m.table(m.index)) + x


@pytest.mark.graph_errors
@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_what_pieces_did_before_one_raises_is_undone(backend):
    """Eager runs the frame again from its beginning."""
    model = Layers(look_up)
    model.index = torch.tensor([0, 3])
    twin = copy.deepcopy(model)
    compiled = minicompile.compile(twin, backend=backend)
    for index in (2, 9, 1):
        for each, call in ((model, model), (twin, compiled)):
            torch.manual_seed(2)
            each.index[0] = index
            with in_ddp(), pytest.raises(IndexError) if index > 3 else contextlib.nullcontext():
                call(torch.ones(2, WIDTH) * index)
            each.drawn = torch.rand(1)
        assert model.total[0] == twin.total[0]
        assert torch.equal(model.drawn, twin.drawn)
        assert_same(list(model.norm.buffers()), list(twin.norm.buffers()), False, f"index {index}")


def test_a_number_that_is_read_from_data_stays_in_its_piece():
    def body(m, x):
        x = m[1](m[0](x))
        count = (x > 0).sum().item()
        torch._check(count >= 0)
        y = torch.zeros(count)
        return m[3](m[2](x)) * count + y.sum()

    model = Layers(body)
    with in_ddp(), config.patch(capture_scalar_outputs=True):
        compiled = minicompile.compile(copy.deepcopy(model), backend="aot_eager", fullgraph=True)
        x = torch.randn(3, WIDTH)
        torch.testing.assert_close(compiled(x), model(x))
    assert [len(entry.artifacts("aot")) for entry in record.compilations] == [3]
