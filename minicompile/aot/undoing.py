"""A captured graph run as it is, that leaves everything as it was where an operator raises for its data.

Goes in: the graph, and which of its inputs it writes to.  Comes out: a callable after which, where it raises, the frame
can start again in eager.  Graphs that were made functional write last, and need no such care.
PyTorch has no such file: an exception leaves what torch.compile's graph has done.  Taught in chapter 08.
"""

import re

import torch

# Functions that may draw, some only in training.  By name: at this level a node is a Python function, without tags.
DRAWS = re.compile(
    "rand|dropout|bernoulli|normal|uniform|multinomial|poisson|exponential|geometric|cauchy|gumbel"
    "|rrelu|fractional|attention|lstm|gru|rnn"
)


def may_draw(gm):
    return any(DRAWS.search(str(node.target)) for node in gm.graph.nodes)


def written_inputs(gm, example_inputs):
    """The numbers of the inputs that the graph writes to: capture tells, or the examples that it ran the program on."""
    if "written" in gm.meta:
        return gm.meta["written"]
    tensors = [(k, fake) for k, fake in enumerate(example_inputs) if isinstance(fake, torch.Tensor)]
    return [k for k, fake in tensors if not fake.is_inference() and fake._version > 0]


class Before:
    """What a tensor was before the graph ran.  Neither an inference tensor nor a write to `.data` counts versions."""

    def __init__(self, tensor):
        self.tensor, self.grad_fn = tensor, tensor.grad_fn
        self.version = None if tensor.is_inference() else tensor._version
        self.memory, self.contents = tensor.data, tensor.detach().clone()

    def drop_history(self):
        if self.grad_fn is None and self.tensor.grad_fn is not None and not self.tensor._is_view():
            self.tensor.detach_()

    def put_back(self):
        tensor = self.tensor
        if tensor.grad_fn is not self.grad_fn:
            return
        if place_of(tensor) != place_of(self.memory):  # `tensor.data` was assigned, or `tensor.t_()` called
            tensor.data = self.memory
        with torch.inference_mode(self.version is None):
            tensor.detach().copy_(self.contents)
        if self.version is not None:
            torch._C._autograd._unsafe_set_version_counter((tensor,), (self.version,))


def place_of(tensor):
    """Which elements of which memory it shows."""
    return tensor.untyped_storage()._cdata, tensor.storage_offset(), tensor.size(), tensor.stride()


def undone_where_it_raises(run, written, draws):
    """`run`, which writes to the inputs with these numbers, or draws random numbers, as it goes."""
    if not written and not draws:
        return run

    def run_or_undo(*inputs):
        before = [Before(inputs[k]) for k in written]
        random_state = torch.get_rng_state() if draws else None
        try:
            return run(*inputs)
        except Exception:
            if draws:
                torch.set_rng_state(random_state)
            for each in before:
                each.drop_history()
            for each in before:  # views share versions
                each.put_back()
            raise

    return run_or_undo


def eager(gm, example_inputs):
    """The captured graph, run by the Python that FX wrote: `gm(...)` prints a traceback of its own when it raises."""
    return undone_where_it_raises(gm.forward, written_inputs(gm, example_inputs), may_draw(gm))
