"""The backends by name: callables `(GraphModule, example inputs) -> callable`, PyTorch's own protocol.

Goes in: a name, or any such callable.  Comes out: the callable.  "eager" runs the captured graph as it is,
"aot_eager" the traced forward and backward graphs, "inductor" (the default) kernels.  Mirrors
`torch/_dynamo/backends/registry.py`. Taught in chapters 00 and 08.
"""

from . import aot, config, errors, inductor
from .aot.undoing import eager


def aot_eager(gm, example_inputs):
    """The ATen graphs, forward and backward, run operator by operator."""

    def interpret(aten_gm, inputs):
        return aten_gm.forward

    return aot.compile(gm, example_inputs, forward_compiler=interpret)


def inductor_backend(gm, example_inputs):
    """Fused kernels.  The backward is compiled at its first call, under the options that hold now."""
    settings = config.snapshot()
    inductor.expect(example_inputs)

    def backward(aten_gm, inputs):
        with config.patch(**settings):
            return inductor.compile(aten_gm, inputs)

    return aot.compile(gm, example_inputs, forward_compiler=inductor.compile, backward_compiler=backward)


def minicompile_backend(gm, example_inputs, **options):
    """What `torch.compile(f, backend="minicompile")` calls: PyTorch's capture, our aot and inductor."""
    return inductor_backend(gm, example_inputs)


for _backend in (eager, aot_eager, inductor_backend, minicompile_backend):
    _backend.undoes = True  # where their graphs raise, everything is as it was before

BACKENDS = {"eager": eager, "aot_eager": aot_eager, "inductor": inductor_backend}
MODES = {  # mode -> options of config
    "default": {},
    "reduce-overhead": {"cuda_graphs": True},
    "max-autotune": {"cuda_graphs": True, "max_autotune": True},
    "max-autotune-no-cudagraphs": {"max_autotune": True},
}


def list_backends():
    """The names that `compile(backend=...)` knows."""
    return sorted(BACKENDS)


def lookup_backend(backend):
    """A backend by name, or the callable itself.  Raises InvalidBackend, which lists the known names."""
    if callable(backend):
        return backend
    if backend in BACKENDS:
        return BACKENDS[backend]
    raise errors.InvalidBackend(f"unknown backend {backend!r}; known: {', '.join(list_backends())}, or any callable")


def options_of(mode):
    """The options that a mode stands for.  Raises InvalidBackend for a mode that torch.compile does not have either."""
    if mode is not None and mode not in MODES:
        raise errors.InvalidBackend(f"unknown mode {mode!r}; known: {', '.join(MODES)}")
    return MODES[mode or "default"]
