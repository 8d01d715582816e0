"""Writes torch_graphs.json: into how many graphs torch.compile captures each model of the zoo, and where it breaks.

Run it when the zoo changes: `python tests/end_to_end/record_torch_graphs.py` (`architectures` counts those beside the
zoo only).  The tests hold ours to these counts.
"""

import json
import pathlib
import sys

import architectures
import torch
import torch._dynamo.utils
from test_gpt import SAMPLING
from test_zoo import MODES

from minicompile.accuracy import check_inference, check_training
from minicompile.bench.models import ZOO
from minicompile.bench.models.gpt import sample
from minicompile.testing import CompileCounter, seed_everything

PATH = pathlib.Path(__file__).with_name("torch_graphs.json")


def counted(run):
    """{"graphs": n, "graph_breaks": {reason: n}} of `run(compile)`."""
    torch.compiler.reset()
    torch._dynamo.utils.counters.clear()
    counter = CompileCounter()
    seed_everything(0)
    run(lambda model: torch.compile(model, backend=counter))
    reasons = {" ".join(k.split())[:100]: n for k, n in torch._dynamo.utils.counters["graph_break"].items()}
    return {"graphs": counter.graphs, "graph_breaks": reasons}


def two_calls(entry, mode):
    """What the tests do: a model may change itself in the first call, and need another graph in the second."""
    model, batch = entry.build()
    if mode == "inference":
        return counted(lambda compiler: check_inference(model, batch.args, batch.kwargs, compiler))
    loss, kwargs = lambda output: entry.loss(output, batch.target), entry.training_kwargs(batch)
    return counted(lambda compiler: check_training(model.train(), loss, batch.args, kwargs, compiler))


def sampling():
    model, batch = ZOO["gpt"].build()

    def run(compiler):
        compiled = compiler(model)
        for seed in range(2):
            seed_everything(seed)
            sample(compiled, batch.args[0][:, :4], **SAMPLING)

    return counted(run)


def architecture(name):
    model, calls = architectures.build(name)

    def run(compiler):
        compiled = compiler(model)
        for kwargs in calls:
            with torch.no_grad():
                compiled(**kwargs)

    return counted(run)


if __name__ == "__main__":
    more = {name: architecture(name) for name in architectures.ARCHITECTURES}
    if sys.argv[1:] == ["architectures"]:
        PATH.write_text(json.dumps({**json.loads(PATH.read_text()), "architectures": more}, indent=1) + "\n")
        sys.exit()
    found = {name: {mode: two_calls(entry, mode) for mode in MODES} for name, entry in ZOO.items()}
    found["gpt_sampling"] = {"inference": sampling()}
    record = {"torch": torch.__version__, "python": sys.version.split()[0], "models": found, "architectures": more}
    PATH.write_text(json.dumps(record, indent=1) + "\n")
    print(PATH.read_text())
