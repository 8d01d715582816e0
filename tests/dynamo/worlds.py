"""Run one small program eagerly and compiled, each in a world of its own, and compare what it did."""

import copy

import torch

import minicompile
from minicompile import record
from minicompile.testing import differences


@torch.no_grad()
def same(program, fullgraph=True, recompiles=None):
    """program() -> (function, steps, state).

    steps: argument tuples, or functions that change the world between calls.  state(): compared after each call.
    """
    minicompile.reset()
    seen = []
    for compiled in (False, True):
        torch.manual_seed(0)
        function, steps, state = (*program(), lambda: None)[:3]
        if compiled:
            function = minicompile.compile(function, backend="eager", fullgraph=fullgraph)
        results = []
        for step in steps:
            if callable(step):
                step()
                continue
            try:
                output = function(*step)
            except minicompile.errors.MinicompileError:
                raise
            except Exception as error:
                output = (type(error), error.args)
            results.append(copy.deepcopy((output, state())))
        seen.append(results)
    assert not (lines := differences(*seen, exact=True)), "\n".join(lines)
    if recompiles is not None:
        assert record.counters["recompiles"] == recompiles, dict(record.counters)
