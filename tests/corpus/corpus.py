"""The corpus: small functions as users of torch.compile write them, each under the point of issue 3 that it stands for.

Goes in: functions marked `@example("point", *arguments)` in the files named below.  Comes out: `load()`, all of them by
name; `run(example, compile)`, what the calls of one returned, raised and left behind; `ours(example)`, the counts.
The table that compares ours with torch.compile: `python tests/corpus/against_torch.py`.
"""

import copy
import dataclasses
import importlib
from collections.abc import Callable

import torch

import minicompile
from minicompile import record
from minicompile.testing import CompileCounter, differences, observe, tensors

FILES = (
    *("control", "exceptions", "blocks", "iterators", "functions", "stdlib", "objects", "classes", "subclasses"),
    *("collections", "data", "modules", "hooks", "layers", "tensors", "torch", "effects", "breaks", "nested_breaks"),
    *("state", "library", "surface", "everyday", "rare"),
    *("models", "networks", "copies", "training", "arrays", "texts"),
)

X = torch.randn(4, 3, generator=torch.Generator().manual_seed(0))
Y = torch.randn(4, 3, generator=torch.Generator().manual_seed(1))
V = torch.randn(3, generator=torch.Generator().manual_seed(2))
I = torch.arange(12).reshape(4, 3)

NOTHING = type("NOTHING", (), {})  # the function takes no arguments

EXAMPLES = {}


@dataclasses.dataclass
class Example:
    """A function, the arguments of its first two calls (in the second with other numbers), and those of later ones."""

    point: str
    function: Callable
    arguments: tuple
    also: tuple = ()
    make: bool = False  # `function` takes nothing and returns the callable, or (callable, the state it changes)

    def calls(self):
        """The arguments of each call, never shared between calls."""
        changed = copy.deepcopy(self.arguments)
        return [copy.deepcopy(each) for each in (self.arguments, _changed(changed), *self.also)]


def example(point, *arguments, also=(), make=False):
    """Put a function into the corpus.  Without arguments it is called with X."""
    arguments = () if arguments and arguments[0] is NOTHING else arguments or (X,)

    def register(function):
        name = function.__name__
        assert name not in EXAMPLES, f"two examples are called {name}"
        EXAMPLES[name] = Example(point, function, arguments, also, make)
        return function

    return register


@torch.no_grad()
def _changed(arguments):
    """The same arguments, their floating-point tensors with other numbers (and other signs)."""
    for tensor in {id(tensor): tensor for _, tensor in tensors(arguments, "")}.values():
        if tensor.is_floating_point():
            tensor.mul_(-1.5).add_(0.25)
    return arguments


def run(example, compiler):
    """One `Observed` (minicompile.testing) for each call of the example, its state among the arguments."""
    torch.manual_seed(0)  # two modules that it makes are alike
    made = example.function() if example.make else example.function
    function, state = made if isinstance(made, tuple) else (made, None)
    owner = function if isinstance(function, torch.nn.Module) else None
    compiled, found = compiler(function), []
    for number, arguments in enumerate(example.calls()):
        seen = observe(compiled, owner, arguments, {}, seed=number)
        seen.arguments = copy.deepcopy((seen.arguments, state))  # as they are now: a later call may change the state
        found.append(seen)
    return found


def wrong(expected, found):
    """What differs between the calls in eager and those compiled, one line each."""
    lines = []
    for number, (eager, compiled) in enumerate(zip(expected, found, strict=True)):
        errors = [f"{type(seen.error).__name__}: {seen.error}" for seen in (eager, compiled) if seen.error is not None]
        if eager.error is not None or compiled.error is not None:
            same = type(eager.error) is type(compiled.error) and str(eager.error) == str(compiled.error)
            lines += [] if same else [f"call {number}: one raised {', the other '.join(errors)}"]
        for part in ("output", "arguments", "gradients", "buffers", "aliases"):
            lines += differences(getattr(eager, part), getattr(compiled, part), f"call {number}: {part}")
    return lines


def ours(example):
    """(counts, what is wrong) of an example under minicompile.compile."""
    expected, counter = run(example, lambda function: function), CompileCounter()
    minicompile.reset()
    found = run(example, lambda function: minicompile.compile(function, backend=counter))
    stats = record.stats()
    counts = {"graphs": counter.graphs, "breaks": stats["graph_breaks"], "operations": counter.ops}
    return {**counts, "reasons": stats["break_reasons"]}, wrong(expected, found)


def load():
    for name in FILES:
        importlib.import_module(f"corpus_{name}")
    return EXAMPLES
