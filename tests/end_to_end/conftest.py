"""Which compile function the end-to-end tests try: ours, or, to test the tests themselves, another one.

`MINICOMPILE_TEST_SUBJECT=identity`, `torch:eager`, `torch:aot_eager` or `torch:inductor` takes the place of ours.
"""

import dataclasses
import os
from collections.abc import Callable

import pytest

SUBJECT = os.environ.get("MINICOMPILE_TEST_SUBJECT", "minicompile")


@dataclasses.dataclass
class Subject:
    """A compile function, with its counts since the last reset (None where it counts nothing)."""

    name: str
    compile: Callable
    reset: Callable = lambda: None
    stats: Callable = lambda: None
    cannot_yet: Callable = lambda reason: (
        None
    )  # ours is expected to fail the test that says so; if it passes, that fails

    def assert_counts(self, **expected):
        """The counts that the subject keeps must be exactly these."""
        counted = self.stats() or {}
        wrong = {k: (v, counted[k]) for k, v in expected.items() if k in counted and counted[k] != v}
        assert not wrong, f"expected against counted: {wrong}; all counts: {counted}"


def _torch(backend):
    """torch.compile; its graphs are counted as they arrive at the backend."""
    import torch
    import torch._dynamo.utils

    graphs = []

    def counting(gm, example_inputs):
        graphs.append(gm)
        return torch._dynamo.lookup_backend(backend)(gm, example_inputs)

    def reset():
        graphs.clear()
        torch.compiler.reset()
        torch._dynamo.utils.counters.clear()

    def stats():
        return {"graphs": len(graphs), "graph_breaks": sum(torch._dynamo.utils.counters["graph_break"].values())}

    return Subject(f"torch:{backend}", lambda fn, **o: torch.compile(fn, **{"backend": counting, **o}), reset, stats)


@pytest.fixture
def subject(request):
    """The compile function under test, freshly reset and strict: an internal error fails the test."""
    if SUBJECT == "identity":
        yield Subject("identity", lambda fn, **options: fn)
    elif SUBJECT.startswith("torch:"):
        import torch._inductor.config as inductor

        made = _torch(SUBJECT.removeprefix("torch:"))
        made.reset()
        with inductor.patch(fallback_random=True, compile_threads=1):
            yield made
    else:
        import minicompile
        from minicompile import config

        minicompile.reset()
        with config.patch(strict=True, verify_ir=True):
            xfail = lambda reason: request.applymarker(pytest.mark.xfail(reason=reason, strict=True))  # noqa: E731
            yield Subject("minicompile", minicompile.compile, minicompile.reset, minicompile.stats, xfail)
        minicompile.reset()


@pytest.fixture(autouse=True)
def quiet_transformers():
    """`transformers` logs advice about configurations; here it would only hide what a failing test says."""
    try:
        from transformers.utils import logging
    except ModuleNotFoundError:
        return
    logging.set_verbosity_error()
