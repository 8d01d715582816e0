"""What the guard check of a compiled frame costs: minicompile against torch.compile, interleaved in one run.

Goes in: nothing (`python scripts/guard_time.py [rounds]`).  Comes out: a table of microseconds a check and their ratio,
for five functions, for models of the zoo, and for modules of 20 to 300 parameters.  Both are called from Python, theirs
at its C++ root.  Samples are short and many, so that on a busy machine most of them are left in peace.
"""

import inspect
import statistics
import sys

import torch
import torch.nn.functional as F
from call_overhead import COLUMNS
from torch import nn
from torch._dynamo.eval_frame import _debug_get_cache_entry_list

import minicompile
from minicompile.bench.models import ZOO
from minicompile.bench.tables import table
from minicompile.bench.timing import interleaved
from minicompile.dynamo.eval_frame import frame_states
from minicompile.dynamo.guards import frame_arguments

SCALE, TABLE = 2.0, {"first": 1, "second": 2}


def one_tensor(x):
    return x + 1


def numbers_and_text(x, n, scale=2.0, mode="relu"):
    return getattr(F, mode)(x * n) * scale * SCALE + TABLE["first"]


def eight_tensors(a, b, c, d, e, f, g, h):
    return a + b + c + d + e + f + g + h


def a_dict_of_a_list(batch, options):
    return sum(batch["inputs"]) * batch["weight"] if options["training"] else batch["weight"]


def changing_sizes(x, y):
    return torch.cat([x, y]) * (x.shape[0] + y.shape[0])


class Layers(nn.Module):
    """A module with 4 parameters a layer, which computes next to nothing."""

    def __init__(self, layers):
        super().__init__()
        self.linears = nn.ModuleList(nn.Linear(1, 1) for _ in range(layers))
        self.norms = nn.ModuleList(nn.LayerNorm(1) for _ in range(layers))

    def forward(self, x):
        for linear, norm in zip(self.linears, self.norms):
            x = x + linear.weight + linear.bias + norm.weight + norm.bias
        return x


def arguments(function):
    x = torch.ones(4, 4)
    if function is numbers_and_text:
        return x, 3
    if function is eight_tensors:
        return tuple(torch.ones(4) for _ in range(8))
    if function is a_dict_of_a_list:
        return {"inputs": [torch.ones(4) for _ in range(4)], "weight": x}, {"training": True}
    return (x, torch.ones(3, 4)) if function is changing_sizes else (x,)


FUNCTIONS = (one_tensor, numbers_and_text, eight_tensors, a_dict_of_a_list, changing_sizes)
MODELS = ("gpt", "resnet18", "bert_encoder", "mlp_mixer")


def both_checks(call, function, args, kwargs):
    """The check of the newest entry for `function`, as calls without arguments."""
    options = {"dynamic": True} if function is changing_sizes else {}
    bound = inspect.signature(function).bind(*(() if call is function else (call,)), *args, **kwargs)
    bound.apply_defaults()
    local_variables = bound.arguments
    minicompile.compile(call, backend="eager", **options)(*args, **kwargs)
    torch.compile(call, backend="eager", **options)(*args, **kwargs)
    code = function.__code__
    _, check = frame_states.get(code).compiled[-1]
    theirs = _debug_get_cache_entry_list(code)[0].guard_manager.root
    ours = [local_variables[name] for name in frame_arguments(code)]
    local_variables = dict(local_variables)
    assert check(function, *ours) and theirs.check(local_variables)
    return {"ours": lambda: check(function, *ours), "theirs": lambda: theirs.check(local_variables)}


def row(what, call, function, args, kwargs, rounds):
    checks = both_checks(call, function, args, kwargs)
    times = interleaved(checks, rounds=rounds, sample_ms=0.5)
    ours, theirs = (times[name].samples for name in ("ours", "theirs"))
    minicompile.reset()
    torch._dynamo.reset()
    ratio = statistics.median(a / b for a, b in zip(ours, theirs))
    return {
        "what": what,
        "ours": statistics.median(ours) * 1e3,
        "theirs": statistics.median(theirs) * 1e3,
        "ratio": ratio,
    }


def rows(rounds):
    for function in FUNCTIONS:
        yield row(function.__name__, function, function, arguments(function), {}, rounds)
    for name in MODELS:
        model, batch = ZOO[name].build("small", "cpu", 0)
        yield row(name, model.eval(), type(model).forward, batch.args, batch.kwargs, rounds)
    for layers in (5, 25, 75):
        yield row(f"{4 * layers} parameters", Layers(layers), Layers.forward, (torch.ones(1, 1),), {}, rounds)


if __name__ == "__main__":
    torch.set_num_threads(1)
    print(table(list(rows(int(sys.argv[1]) if len(sys.argv) > 1 else 200)), COLUMNS))
