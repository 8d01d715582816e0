"""Random calls with random changes of the world between them: always eager's value, and as few compiles as states."""

import copy
import math

import hypothesis
import torch
from hypothesis import strategies

import minicompile
from minicompile import record
from minicompile.testing import differences


class Settings:
    kind = "class"

    def __init__(self):
        self.name, self.flag, self.rate, self.sizes, self.table = "a", True, 0.5, [1, 2], {"a": 1}


SCALE = 2


class World:
    """What the compiled function sees; a change is a (name, value) that is written into it."""

    def __init__(self):
        self.settings, self.x, self.n, self.mode, self.grad = Settings(), torch.arange(6.0).view(2, 3), 5, None, True

    def call(self, function):
        with torch.set_grad_enabled(self.grad):
            return function(self.x, self.settings, self.n, self.mode)


def program(x, settings, n, mode):
    x = x * settings.rate + n + len(settings.name) + len(settings.sizes)
    if settings.flag:
        x = x + settings.table["a"]
    if mode is not None:
        x = getattr(x, mode)()
    return x.sum(-1) if x.dim() > 1 else x + len(settings.kind)


def tensor(sizes, dtype, transposed):
    x = torch.arange(float(math.prod(sizes))).view(sizes).to(dtype)
    return x.t() if transposed and len(sizes) == 2 else x


TENSORS = strategies.builds(
    tensor,
    strategies.sampled_from([(2, 3), (4, 3), (4, 7), (9, 7), (5,), (8,)]),
    strategies.sampled_from([torch.float32, torch.float64]),
    strategies.booleans(),
)
CHANGES = {
    "x": TENSORS,
    "n": strategies.integers(2, 50),
    "mode": strategies.sampled_from([None, "sin", "relu"]),
    "grad": strategies.booleans(),
    "settings.name": strategies.sampled_from(["a", "bb", "ccc"]),
    "settings.flag": strategies.booleans(),
    "settings.rate": strategies.floats(-4, 4, width=32),
    "settings.sizes": strategies.lists(strategies.integers(0, 9), max_size=3),
    "settings.table": strategies.fixed_dictionaries(
        {"a": strategies.integers(2, 3)}, optional={"b": strategies.none()}
    ),
    "settings.unread": strategies.integers(),
}
CHANGE = strategies.sampled_from(sorted(CHANGES)).flatmap(
    lambda name: strategies.tuples(strategies.just(name), CHANGES[name])
)


def change(world, name, value):
    owner = world.settings if name.startswith("settings.") else world
    setattr(owner, name.removeprefix("settings."), copy.copy(value))


def state(world):
    """What must be the same for one graph to do, but for sizes, ints and floats that change."""
    s, x = world.settings, world.x
    kinds = (x.dtype, x.dim(), x.dim() == 2 and x.stride(0) == 1, world.mode, world.grad)
    table = s.table["a"] if s.flag else None
    return kinds, s.name, s.flag, len(s.sizes), table


def numbers(world):
    """Those that become symbols: each is a constant first, and again where it is special."""
    n, rate = world.n, world.settings.rate
    return (tuple(world.x.shape), tuple(world.x.stride()), n, rate, world.settings.table["a"])


@hypothesis.settings(max_examples=40, derandomize=True, deadline=None, database=None)
@hypothesis.given(strategies.lists(CHANGE, min_size=1, max_size=12))
def test_calls_with_changes(changes):
    minicompile.reset()
    world, seen, limit = World(), set(), 100
    compiled = minicompile.compile(program, backend="eager", fullgraph=True)
    with minicompile.config.patch(recompile_limit=limit):
        for name, value in [("n", 5), *changes]:
            change(world, name, value)
            before, known = len(record.compilations), (state(world), numbers(world)) in seen
            expected, found = world.call(program), world.call(compiled)
            assert not (lines := differences(expected, found, exact=True)), lines
            compiles = len(record.compilations) - before
            assert compiles <= 1 and not (known and compiles), "a state that was there before was compiled again"
            seen.add((state(world), numbers(world)))
    # each kind of state once, and once more for each number that was found to change (of sizes: two, and one stride)
    most = len({kinds for kinds, _ in seen}) + 6
    assert len(record.compilations) <= min(most, len(seen)), (len(record.compilations), most, len(seen))
