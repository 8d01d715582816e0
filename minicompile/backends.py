"""The backends by name: callables `(GraphModule, example inputs) -> callable`, PyTorch's own protocol.

Goes in: a name, or any such callable.  Comes out: the callable.  "eager" runs the captured graph as it is,
"aot_eager" the traced forward and backward graphs, "inductor" (the default) kernels.  Mirrors
`torch/_dynamo/backends/registry.py`. Taught in chapters 00 and 08.
"""

import re

import torch

from . import aot, config, errors, inductor


def eager(gm, example_inputs):
    """The captured graph, run by the FX-generated Python."""
    written = [k for k, fake in enumerate(example_inputs) if is_written(fake)]
    draws = may_draw(gm)
    return undone_where_it_raises(gm.forward, written, draws) if written or draws else gm.forward


def is_written(fake):
    return isinstance(fake, torch.Tensor) and not fake.is_inference() and fake._version > 0


# Functions that may draw, some only in training.  By name: at this level a node is a Python function, without tags.
DRAWS = re.compile(
    "rand|dropout|bernoulli|normal|uniform|multinomial|poisson|exponential|geometric|cauchy|gumbel"
    "|rrelu|fractional|attention|lstm|gru|rnn"
)


def may_draw(gm):
    return any(DRAWS.search(str(node.target)) for node in gm.graph.nodes)


def undone_where_it_raises(run, written, draws):
    """`run`, which writes to the inputs with these numbers as it goes: an operator that raises for its data leaves
    them, and the random numbers, as they were, so that the frame can start again in eager."""

    def run_or_undo(*inputs):
        tensors = [inputs[k] for k in written]
        before = [(tensor.detach().clone(), tensor._version, tensor.grad_fn) for tensor in tensors]
        random_state = torch.get_rng_state() if draws else None
        try:
            return run(*inputs)
        except Exception:
            if draws:
                torch.set_rng_state(random_state)
            for tensor, (_, _, grad_fn) in zip(tensors, before):
                if grad_fn is None and tensor.grad_fn is not None and not tensor._is_view():
                    tensor.detach_()
            changed = [tensor._version != version for tensor, (_, version, _) in zip(tensors, before)]  # views share it
            for tensor, is_changed, (contents, version, grad_fn) in zip(tensors, changed, before):
                if is_changed and tensor.grad_fn is grad_fn:
                    tensor.detach().copy_(contents)
                    torch._C._autograd._unsafe_set_version_counter((tensor,), (version,))
            raise

    return run_or_undo


def aot_eager(gm, example_inputs):
    """The ATen graphs, forward and backward, run operator by operator."""

    def interpret(aten_gm, inputs):
        return aten_gm.forward

    return aot.compile(gm, example_inputs, forward_compiler=interpret)


def inductor_backend(gm, example_inputs):
    """Fused kernels.  The backward is compiled at its first call, under the options that hold now."""
    settings = config.snapshot()

    def backward(aten_gm, inputs):
        with config.patch(**settings):
            return inductor.compile(aten_gm, inputs)

    return aot.compile(gm, example_inputs, forward_compiler=inductor.compile, backward_compiler=backward)


def minicompile_backend(gm, example_inputs, **options):
    """What `torch.compile(f, backend="minicompile")` calls: PyTorch's capture, our aot and inductor."""
    return inductor_backend(gm, example_inputs)


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
