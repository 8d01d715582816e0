"""Random calls with random changes of the world between them: always eager's value, and exactly the compiles due.

`Expected` is a second, short account of the whole cache: which facts an entry holds to, and which numbers it takes as
they come.  It says of each call whether it compiles.
"""

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
    strategies.sampled_from([(2, 3), (4, 3), (4, 7), (9, 7), (5,), (8,), (1,)]),
    strategies.sampled_from([torch.float32, torch.float64]),
    strategies.booleans(),
)
CHANGES = {
    "x": TENSORS,
    "n": strategies.integers(0, 50),
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


def facts(world):
    """What must be the same for one graph to do."""
    s, x = world.settings, world.x
    layout = x.dim() == 2 and x.stride(0) == 1
    return x.dtype, x.dim(), layout, world.mode, world.grad, s.name, s.flag, len(s.sizes)


def numbers(world):
    """What becomes a symbol where it is found to change."""
    read = {"x": tuple(world.x.shape), "n": (world.n,), "rate": (world.settings.rate,)}
    return {**read, "a": (world.settings.table["a"],)} if world.settings.flag else read


ANY = "any number"


def is_special(name, value):
    """Sizes 0 and 1 are never symbols, and no symbol takes them; ints 0 and 1 are none, but a symbol takes them."""
    return type(value) is int and value in (0, 1)


def takes(name, wanted, value):
    if wanted is ANY:
        return name != "x" or not is_special(name, value)
    return wanted == value and math.copysign(1, wanted) == math.copysign(1, value)


class Expected:
    """Entries: (facts, {name: numbers, ANY for a symbol}); seen: what a number was at all compiles so far, or ANY."""

    def __init__(self):
        self.entries, self.seen = [], {}

    def compiles(self, world):
        """Whether this call does."""
        known, now = facts(world), numbers(world)
        for others, wanted in self.entries:
            if others == known and all(takes(n, w, v) for n in now for w, v in zip(wanted[n], now[n])):
                return False
        self.entries.append((known, {name: self.note(name, values) for name, values in now.items()}))
        return True

    def note(self, name, values):
        before = self.seen.get(name, values)
        if len(before) == len(values):  # another rank starts afresh
            pairs = zip(before, values)
            self.seen[name] = [old if old is not ANY and takes(name, old, new) else ANY for old, new in pairs]
        else:
            self.seen[name] = list(values)
        return [ANY if old is ANY and not is_special(name, v) else v for old, v in zip(self.seen[name], values)]


@hypothesis.settings(max_examples=60, derandomize=True, deadline=None, database=None)
@hypothesis.given(strategies.lists(CHANGE, min_size=1, max_size=14))
def test_calls_with_changes(changes):
    minicompile.reset()
    world, model = World(), Expected()
    compiled = minicompile.compile(program, backend="eager", fullgraph=True)
    with minicompile.config.patch(recompile_limit=100):
        for name, value in [("n", 5), *changes]:
            change(world, name, value)
            before, due = len(record.compilations), model.compiles(world)
            expected, found = world.call(program), world.call(compiled)
            assert not (lines := differences(expected, found, exact=True)), lines
            reasons = [entry.recompile_reason for entry in list(record.compilations)[before:]]
            assert len(reasons) == due, (reasons, model.entries)
