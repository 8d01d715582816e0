"""CUDA graphs on a GPU: mode="reduce-overhead" against eager, over loops that change what a recording relies on.

    python3 scripts/gpu_graphs.py [name of a program below, or of a model of the zoo ...]

Comes out: one line a program: the largest difference to eager over its steps, and how often graphs were recorded,
replayed and refused.  Exit status 1: a difference above the tolerance, or nothing was replayed.
"""

import copy
import sys

import torch
import torch.nn.functional as F
from torch import nn

import minicompile
from minicompile import record
from minicompile.bench.models import ZOO

torch.set_float32_matmul_precision("highest")
torch.backends.cudnn.allow_tf32 = False


def mlp():
    return nn.Sequential(nn.Linear(64, 128), nn.GELU(), nn.LayerNorm(128), nn.Linear(128, 64)).cuda()


def cnn():
    return nn.Sequential(nn.Conv2d(3, 16, 3), nn.BatchNorm2d(16), nn.ReLU(), nn.Flatten(), nn.LazyLinear(8)).cuda()


def batches(shape, steps, seed=1):
    generator = torch.Generator("cuda").manual_seed(seed)
    return [torch.randn(shape, generator=generator, device="cuda") for _ in range(steps)]


def train(model, call, data, accumulate=1, keep_grads=False):
    """Losses, and the parameters at the end."""
    optimizer, losses = torch.optim.SGD(model.parameters(), 0.05, momentum=0.9), []
    for k, x in enumerate(data):
        loss = call(x).square().mean()
        loss.backward()
        losses.append(loss.detach())
        if k % accumulate == accumulate - 1:
            optimizer.step()
            optimizer.zero_grad(set_to_none=not keep_grads)
    return [*losses, *model.parameters(), *model.buffers()]


def inference(model, call, data):
    with torch.no_grad():
        return [call(x) for x in data]


def same_input(model, call, data):
    """The same tensor, written in place between the calls; then another one."""
    x, results = data[0].clone(), []
    with torch.no_grad():
        for k, each in enumerate(data):
            results.append(call(x.copy_(each) if k < 6 else each))
    return results


def moved_parameters(model, call, data):
    results = []
    with torch.no_grad():
        for k, x in enumerate(data):
            if k == 5:
                for p in model.parameters():
                    p.data = p.data.clone() * 2
            results.append(call(x))
    return results


def two_forwards(model, call, data):
    """Two forwards are alive when the first backward comes."""
    grads = []
    for a, b in zip(data[::2], data[1::2], strict=True):
        first, second = call(a).square().sum(), call(b).square().sum()
        (second - first).backward()
        grads += [p.grad for p in model.parameters()]
        model.zero_grad()
    return grads


def shapes(model, call, data):
    with torch.no_grad():
        return [call(x[: 1 + k % 3 * 2]) for k, x in enumerate(data)]


def held_gradients(model, call, data):
    held = []
    for x in data:
        call(x).square().mean().backward()
        held.append([p.grad for p in model.parameters()])
        for p in model.parameters():
            p.grad = None
    return [g for each in held for g in each]


PROGRAMS = {
    "inference": (mlp, (32, 64), inference),
    "same input": (mlp, (32, 64), same_input),
    "moved parameters": (mlp, (32, 64), moved_parameters),
    "shapes": (mlp, (32, 64), shapes),
    "training": (mlp, (32, 64), train),
    "training cnn": (cnn, (4, 3, 10, 10), train),
    "accumulation": (mlp, (32, 64), lambda *a: train(*a, accumulate=3)),
    "gradients set to zero": (mlp, (32, 64), lambda *a: train(*a, keep_grads=True)),
    "two forwards": (mlp, (32, 64), two_forwards),
    "held gradients": (mlp, (32, 64), held_gradients),
}


def zoo(name, steps=6):
    """Training steps of a model of the zoo: how far losses and parameters are off, and eager's own from run to run."""

    def run(wrap):
        model, batch = ZOO[name].build("small", device="cuda")
        call, kwargs = wrap(model.train()), ZOO[name].training_kwargs(batch)
        optimizer, losses = torch.optim.SGD(model.parameters(), 0.01), []
        for step in range(steps):
            torch.manual_seed(step)
            loss = ZOO[name].loss(call(*batch.args, **kwargs), batch.target)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            losses.append(loss.detach())
        return [*losses, *model.parameters()]

    expected = run(lambda m: m)
    itself = largest(run(lambda m: m), expected)  # some of cuDNN's kernels add in another order each time
    return largest(run(lambda m: minicompile.compile(m, mode="reduce-overhead")), expected), itself


def largest(actual, expected):
    return max((a - e).abs().max().item() / (1 + e.abs().max().item()) for a, e in zip(actual, expected, strict=True))


def check(name, steps=12):
    if name in ZOO:
        return zoo(name)
    make, shape, loop = PROGRAMS[name]
    torch.manual_seed(0)
    model = make()
    model(batches(shape, 1)[0])  # lazy layers
    twin = copy.deepcopy(model)
    expected = loop(model, model, batches(shape, steps))
    actual = loop(twin, minicompile.compile(twin, mode="reduce-overhead"), batches(shape, steps))
    return largest(actual, expected), 0.0


def dropout():
    """Every replay draws anew, the same numbers after the same seed; forward and backward agree."""
    call = minicompile.compile(lambda x: F.dropout(x.sin(), 0.5), mode="reduce-overhead")
    masks = []
    for k in range(8):
        torch.manual_seed(k % 4)
        x = torch.ones(1000, device="cuda", requires_grad=True)
        y = call(x)
        y.sum().backward()
        torch.testing.assert_close(x.grad, y.detach() / x.sin().detach() * x.cos().detach())
        masks.append(y.detach() != 0)
    assert all(torch.equal(masks[k], masks[k + 4]) for k in range(4)) and not torch.equal(masks[5], masks[6])
    return 0.0, 0.0


def main(chosen):
    failed = False
    for name in chosen or [*PROGRAMS, "dropout"]:
        minicompile.reset()
        try:
            (error, itself), note = dropout() if name == "dropout" else check(name), ""
        except Exception as problem:
            error, itself, note = float("inf"), 0.0, f"{type(problem).__name__}: {str(problem)[:200]}"
        counts = [record.counters[f"cuda_graph{kind}"] for kind in ("s", "_replays", "s_refused")]
        note += f"eager differs from itself by {itself:.1e}" if itself else ""
        good = error < max(1e-4, 3 * itself) and counts[1] > 0
        failed |= not good
        print(
            f"{'ok  ' if good else 'FAIL'} {name:24} {error:.1e}  recorded, replayed, refused: {counts} {note}",
            flush=True,
        )
    return failed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
