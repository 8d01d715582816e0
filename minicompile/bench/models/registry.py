"""What a zoo entry is, and the batches and losses that several families share.

Goes in: a table row per model.  Comes out: `Entry.build(size)` -> (model, batch), equal for equal arguments.
Weights and data are random, never zeros: some kernels are faster on zeros, and wrong ones look right.
"""

import dataclasses
import types
from collections.abc import Callable

import torch
import torch.nn.functional as F

SIZES = ("small", "medium", "large")  # tests; benchmark on a CPU; benchmark on a GPU


def sizes(**options):
    """{size: options}: a tuple holds an option's values for the three SIZES; any other value is the same for all."""
    pick = lambda value, k: value[k] if isinstance(value, tuple) else value  # noqa: E731
    return {size: {name: pick(value, k) for name, value in options.items()} for k, size in enumerate(SIZES)}


@dataclasses.dataclass
class Batch:
    """One batch: the model is called with `*args, **kwargs`; `target` is what the loss compares with."""

    args: tuple = ()
    kwargs: dict = dataclasses.field(default_factory=dict)
    target: torch.Tensor | None = None


@dataclasses.dataclass(frozen=True)
class Entry:
    """A model of the zoo.  `sizes[size]` holds the options that `model` and `batch` read as attributes.

    loss(output, target) -> scalar.  target_name: the keyword by which the model itself takes the target in training
    (it then returns the loss), or "" where the loss is computed outside.
    """

    name: str
    model: Callable
    batch: Callable
    loss: Callable
    sizes: dict
    target_name: str = ""

    def options(self, size="small", **changes):
        return types.SimpleNamespace(**{**self.sizes[size], **changes})

    def build(self, size="small", device="cpu", seed=0, **changes):
        """Model (in eval mode) and batch.  Leaves the caller's random state as it was."""
        options = self.options(size, **changes)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            model, batch = self.model(options), self.batch(options)
        return model.eval().to(device), move(batch, device)

    def training_kwargs(self, batch):
        return {**batch.kwargs, self.target_name: batch.target} if self.target_name else dict(batch.kwargs)


def move(batch, device):
    """The batch on another device."""

    def to(value):
        return value.to(device) if isinstance(value, torch.Tensor) else value

    kwargs = {name: to(value) for name, value in batch.kwargs.items()}
    return Batch(tuple(map(to, batch.args)), kwargs, to(batch.target))


def images(o):
    """(batch, channels, image, image) of noise, and a class for each."""
    return Batch((torch.randn(o.batch, o.channels, o.image, o.image),), target=torch.randint(o.classes, (o.batch,)))


def tokens(o):
    """(batch, length) of token numbers; the target is the next token at every place."""
    text = torch.randint(o.vocab, (o.batch, o.length + 1))
    return Batch((text[:, :-1].contiguous(),), target=text[:, 1:].contiguous())


def classify(output, target):
    return F.cross_entropy(output, target)


def predict_tokens(output, target):
    """Cross-entropy over every place of a sequence.  output: (batch, length, vocab), first of a tuple if it is one."""
    logits = output[0] if isinstance(output, tuple) else output
    return F.cross_entropy(logits.flatten(0, 1), target.flatten())


def own_loss(output, target):
    """The loss that the model computed itself from the target that it was given."""
    return output.loss if hasattr(output, "loss") else output[1]
