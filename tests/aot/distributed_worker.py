"""One of the two processes of test_distributed.py: runs every scenario, eager beside compiled, and writes what differs.

    python distributed_worker.py RANK FOLDER

FOLDER has the file by which the two processes find each other; this writes RANK.json there: {scenario: what differs}.
"""

import contextlib
import copy
import datetime
import json
import pathlib
import signal
import sys
import traceback

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.nn.parallel import DistributedDataParallel
from torch.utils.checkpoint import checkpoint

import minicompile
from minicompile import aot, config, record

SECONDS = 240  # then the process ends, whatever it waits for
WIDTH, BLOCKS = 32, 3
BUCKET_MB = 0.008  # less than a block, so that there is a bucket for each
rank = 0


class Block(nn.Module):
    def __init__(self, norm):
        super().__init__()
        self.linear, self.norm, self.drop = nn.Linear(WIDTH, WIDTH, bias=False), norm(WIDTH), nn.Dropout(0.2)

    def forward(self, x):
        return x + self.drop(torch.tanh(self.norm(self.linear(x))))


class Tower(nn.Module):
    def __init__(self, norm=nn.BatchNorm1d):
        super().__init__()
        self.blocks, self.head = nn.ModuleList([Block(norm) for _ in range(BLOCKS)]), nn.Linear(WIDTH, 4)
        self.spare = nn.Linear(WIDTH, 4)  # which only some calls use

    def forward(self, x, spare=False):
        for block in self.blocks:
            x = block(x)
        return self.head(x) + self.spare(x) if spare else self.head(x)


def tower():
    torch.manual_seed(rank)  # DDP sends the parameters and buffers of the first process to the others
    return Tower().double()


def without_spare(norm=nn.BatchNorm1d):
    torch.manual_seed(rank)
    model = Tower(norm).double()
    del model.spare
    return model


class Checkpointed(nn.Module):
    def __init__(self, block):
        super().__init__()
        self.block = block

    def forward(self, x):
        return checkpoint(self.block, x, use_reentrant=False)


def with_checkpoints(change=lambda block: block):
    """Its batch norms write their statistics once more in the backward."""
    model = without_spare()
    for i, block in enumerate(model.blocks):
        model.blocks[i] = Checkpointed(change(block))
    return model


# --- one training run -------------------------------------------------------------------------------
def local(tensor):
    return getattr(tensor, "to_local", lambda: tensor)()


def plain_step(model, x, number):
    loss = model(x).square().mean()
    loss.backward()
    return loss


def train(model, step=plain_step, steps=4):
    """What can be compared of some steps: losses, gradients, buffers, and the parameters in the end."""
    torch.manual_seed(10 + rank)
    optimizer, seen = torch.optim.SGD(model.parameters(), 0.1), []
    for number in range(steps):
        optimizer.zero_grad()
        seen.append(step(model, torch.randn(8, WIDTH, dtype=torch.float64), number).detach())
        seen += [None if p.grad is None else local(p.grad).clone() for p in model.parameters()]
        seen += [b.detach().clone() for b in model.buffers()]
        optimizer.step()
    return seen + [local(p).detach().clone() for p in model.parameters()]


def assert_same(expected, actual, **tolerance):
    assert len(expected) == len(actual)
    for a, b in zip(expected, actual):
        torch.testing.assert_close(b, a, **tolerance)


def ddp(model, **options):
    return DistributedDataParallel(model, bucket_cap_mb=BUCKET_MB, **options)


def compile_it(model, backend="aot_eager"):
    return minicompile.compile(model, backend=backend)


ORDERS = {  # who is inside
    "compiled in ddp": lambda model, wrap, compiler: wrap(compiler(model)),
    "ddp in compiled": lambda model, wrap, compiler: compiler(wrap(model)),
}


def compare(make=without_spare, step=plain_step, pieces=3, compiler=compile_it, steps=4, **options):
    """Both orders against eager DDP; the graph is in so many pieces."""
    expected = train(ddp(make(), **options), step, steps)
    for order in ORDERS.values():
        minicompile.reset()
        assert_same(expected, train(order(make(), lambda model: ddp(model, **options), compiler), step, steps))
        assert {len(entry.artifacts("aot")) for entry in record.compilations} == {pieces}


# --- DistributedDataParallel ------------------------------------------------------------------------
def losses_gradients_and_buffers():
    compare()


def kernels():
    compare(compiler=lambda model: minicompile.compile(model))


def gradients_are_views_of_buckets():
    compare(gradient_as_bucket_view=True)


def static_graph():
    compare(static_graph=True)


def buffers_of_each_process():
    compare(broadcast_buffers=False)


def gradients_that_add_up():
    def step(model, x, number):
        with model.no_sync() if number % 2 == 0 else contextlib.nullcontext():
            for part in x.chunk(2):
                loss = model(part).square().mean()
                loss.backward()
        return loss

    compare(step=step)


def checkpoints():
    compare(with_checkpoints)


def compiled_blocks_in_checkpoints():
    expected = train(ddp(with_checkpoints()))
    assert_same(expected, train(ddp(with_checkpoints(compile_it))))


def unused_parameters():
    """`spare` is used by the first process only, and not at each step."""

    def step(model, x, number):
        loss = model(x, spare=rank == 0 and number % 2 == 1).square().mean()
        loss.backward()
        return loss

    compare(tower, step, find_unused_parameters=True)


def a_step_that_is_compiled_as_a_whole():
    def step(model, x, number):
        loss = model(x).square().mean()
        loss.backward()
        return loss

    expected = train(ddp(without_spare()), step)
    compiled = minicompile.compile(step, backend="aot_eager")
    assert_same(expected, train(ddp(without_spare()), compiled))
    assert 3 in {len(entry.artifacts("aot")) for entry in record.compilations}


def evaluation():
    """Without gradients there is nothing to cut."""
    model = without_spare().eval()
    for order in ORDERS.values():
        minicompile.reset()
        with torch.no_grad():
            wrapped = order(copy.deepcopy(model), ddp, compile_it)
            x = torch.ones(2, WIDTH, dtype=torch.float64)
            torch.testing.assert_close(wrapped(x), ddp(model)(x))
        assert [len(entry.artifacts("aot")) for entry in record.compilations] == [1]


def names_in_the_state_dict():
    names, model = list(without_spare().state_dict()), without_spare()
    inside, outside = ddp(compile_it(model)), compile_it(ddp(model))
    assert list(inside.state_dict()) == [f"module._orig_mod.{name}" for name in names]
    assert list(outside.state_dict()) == [f"_orig_mod.module.{name}" for name in names]
    outside._orig_mod.module.load_state_dict(inside.module._orig_mod.state_dict())


def buckets_leave_while_the_backward_runs():
    """The order of events, without a clock: a piece's backward, then its bucket, then the piece before it."""
    events = []

    def logged(gm, examples):
        name = f"backward of {len([n for n in events if n.startswith('compiled')])}"
        events.append(f"compiled {name}")
        return lambda *inputs: events.append(name) or gm.forward(*inputs)

    def backend(gm, examples):
        return aot.compile(gm, examples, forward_compiler=lambda gm, _: gm.forward, backward_compiler=logged)

    def hook(state, bucket):
        events.append(f"bucket {bucket.index()}")
        return dist.all_reduce(bucket.buffer(), async_op=True).get_future().then(lambda f: f.value()[0] / 2)

    expected = train(ddp(without_spare()))
    for order in ORDERS.values():
        events.clear()
        minicompile.reset()
        model = order(without_spare(), ddp, lambda model: minicompile.compile(model, backend=backend))
        (model if isinstance(model, DistributedDataParallel) else model._orig_mod).register_comm_hook(None, hook)
        assert_same(expected, train(model))
        # the pieces' backwards are compiled last piece first; DDP makes its buckets in the first step; bucket 3 has
        # what was too much for the others
        first, second = ["backward of 0", "bucket 0"], ["backward of 1", "bucket 1"]
        assert events[-14:] == [*first, *second, "backward of 2", "bucket 2", "bucket 3"] * 2, events


# --- fully_shard ------------------------------------------------------------------------------------
def shard(model, change=lambda block: block, **options):
    mesh = init_device_mesh("cpu", (2,))
    for i, block in enumerate(model.blocks):
        model.blocks[i] = change(block)
    for block in (*model.blocks, model):
        fully_shard(block, mesh=mesh, **options)
    return model


def shard_then_compile_blocks(model, **options):
    shard(model, **options)
    for i, block in enumerate(model.blocks):
        model.blocks[i] = compile_it(block)
    return model


SHARDED = {
    "compiled blocks in fully_shard": lambda model, **options: shard(model, compile_it, **options),
    "fully_shard in compiled blocks": shard_then_compile_blocks,
    "fully_shard in compiled model": lambda model, **options: compile_it(shard(model, **options)),
}


def compare_sharded(step=plain_step, norm=nn.BatchNorm1d, tolerance=(), **options):
    expected = train(shard(without_spare(norm), **options), step)
    for make in SHARDED.values():
        minicompile.reset()
        assert_same(expected, train(make(without_spare(norm), **options), step), **dict(tolerance))
        assert minicompile.stats()["graphs"] > 0


def sharded():
    compare_sharded()


def sharded_until_the_backward():
    compare_sharded(reshard_after_forward=False)


def sharded_with_low_precision():
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    compare_sharded(norm=nn.LayerNorm, tolerance={"rtol": 0.05, "atol": 5e-3}, mp_policy=policy)


def sharded_gradients_that_add_up():
    def step(model, x, number):
        for i, part in enumerate(x.chunk(2)):
            model.set_requires_gradient_sync(i == 1)
            loss = model(part).square().mean()
            loss.backward()
        return loss

    compare_sharded(step)


def sharded_checkpoints():
    expected = train(shard(with_checkpoints()))
    for make in SHARDED.values():
        assert_same(expected, train(make(with_checkpoints())))


def names_in_the_state_dict_of_shards():
    names, made = list(without_spare().state_dict()), {k: f(without_spare()) for k, f in SHARDED.items()}
    assert list(made["fully_shard in compiled model"].state_dict()) == [f"_orig_mod.{name}" for name in names]
    in_blocks = [n.replace(".linear", "._orig_mod.linear").replace(".norm", "._orig_mod.norm") for n in names]
    assert list(made["compiled blocks in fully_shard"].state_dict()) == in_blocks
    assert list(made["fully_shard in compiled blocks"].state_dict()) == in_blocks


SCENARIOS = (
    losses_gradients_and_buffers,
    kernels,
    gradients_are_views_of_buckets,
    static_graph,
    buffers_of_each_process,
    gradients_that_add_up,
    checkpoints,
    compiled_blocks_in_checkpoints,
    unused_parameters,
    a_step_that_is_compiled_as_a_whole,
    evaluation,
    names_in_the_state_dict,
    buckets_leave_while_the_backward_runs,
    sharded,
    sharded_until_the_backward,
    sharded_with_low_precision,
    sharded_gradients_that_add_up,
    sharded_checkpoints,
    names_in_the_state_dict_of_shards,
)


def main(folder):
    signal.alarm(SECONDS)
    torch.set_num_threads(1)
    config.strict = True
    dist.init_process_group(
        "gloo",
        init_method=(folder / "store").as_uri(),
        rank=rank,
        world_size=2,
        timeout=datetime.timedelta(seconds=SECONDS // 2),
    )
    wrong = {}
    for scenario in SCENARIOS:
        minicompile.reset()
        try:
            scenario()
        except Exception:
            wrong[scenario.__name__] = traceback.format_exc()
    (folder / f"{rank}.json").write_text(json.dumps(wrong))
    dist.destroy_process_group()


if __name__ == "__main__":
    rank = int(sys.argv[1])
    main(pathlib.Path(sys.argv[2]))
