"""Is the compiled model as accurate as eager?  Both are measured against the same model in float64.

Goes in: a model, a batch, a loss, and the compile function under test.  Comes out: the compiled model, or an
AssertionError that names every output, gradient and buffer whose error is more than 3 times eager's own.
Mirrors the accuracy check of `benchmarks/dynamo/common.py` in the PyTorch repository.  Taught in chapter 16.
"""

import contextlib
import copy
import dataclasses

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map

from .testing import default_compiler, differences, seed_everything, tensors


class _NarrowDraws(TorchDispatchMode):
    """Random operators on float64 tensors draw in `dtype`, so that they draw what they draw there."""

    def __init__(self, dtype):
        super().__init__()
        self.dtype = dtype

    def narrow(self, value):
        return value.to(self.dtype) if isinstance(value, torch.Tensor) and value.dtype == torch.float64 else value

    def widen(self, value):
        return value.double() if isinstance(value, torch.Tensor) and value.dtype == self.dtype else value

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if torch.Tag.nondeterministic_seeded not in func.tags or "attention" in func.__name__:
            return func(*args, **kwargs)
        if kwargs.get("dtype") == torch.float64:
            kwargs = {**kwargs, "dtype": self.dtype}
        outputs = func(*tree_map(self.narrow, args), **tree_map(self.narrow, kwargs))
        if func._schema.is_mutable:  # an in-place draw, such as bernoulli_
            return args[0].copy_(outputs)
        return tree_map(self.widen, outputs)


class _NarrowAttention(TorchFunctionMode):
    """Attention with dropout runs in `dtype`: which kernel is chosen, and with it the draws, depends on the type."""

    def __init__(self, dtype):
        super().__init__()
        self.dtype = dtype

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if func is torch.nn.functional.scaled_dot_product_attention and args[0].is_cuda and kwargs.get("dropout_p"):
            to = {torch.float64: self.dtype}
            narrow = lambda x: x.to(to.get(x.dtype, x.dtype)) if isinstance(x, torch.Tensor) else x  # noqa: E731
            return func(*map(narrow, args), **{name: narrow(x) for name, x in kwargs.items()}).double()
        return func(*args, **kwargs)


@contextlib.contextmanager
def same_draws(dtype=torch.float32):
    """Inside, float64 models draw the random numbers that they would draw in `dtype`."""
    with _NarrowAttention(dtype), _NarrowDraws(dtype):
        yield


def double(value):
    """A deep copy with every floating-point tensor, parameter and buffer in float64."""
    if isinstance(value, torch.nn.Module):
        return copy.deepcopy(value).double()
    is_float = lambda x: isinstance(x, torch.Tensor) and x.is_floating_point()  # noqa: E731
    return tree_map(lambda x: x.detach().double() if is_float(x) else x, value)


def _dtype_of(model):
    return next((p.dtype for p in model.parameters() if p.is_floating_point()), torch.float32)


def excess_error(name, actual, eager, reference, factor=3.0, scale=0.0):
    """A line that says how much `actual` misses, or None where its error is within `factor` times eager's own.

    Both errors are the largest absolute difference to the float64 reference.  A few units of rounding of `scale`, or of
    the tensor's largest value, are allowed to both: eager is exact by luck now and then, compiled code need not be.
    """
    if actual is None or eager is None:
        return None if actual is eager else f"{name}: eager has {_kind(eager)}, compiled {_kind(actual)}"
    if actual.shape != eager.shape or actual.dtype != eager.dtype:
        return f"{name}: eager has {_kind(eager)}, compiled {_kind(actual)}"
    if not eager.dtype.is_floating_point or not eager.numel():
        return None if torch.equal(actual, eager) else f"{name}: {eager.tolist()} in eager, {actual.tolist()} compiled"
    reference, finite = reference.detach(), torch.isfinite(eager)
    if not torch.equal(actual[~finite].nan_to_num(), eager[~finite].nan_to_num()):
        return f"{name}: inf and nan are in other places, {int(finite.sum())} of {finite.numel()} are finite in eager"
    errors = [torch.where(finite, t.detach().double() - reference, 0.0).abs() for t in (actual, eager)]
    largest = torch.where(finite, reference, 0.0).abs().max().item()
    rounding = 8 * torch.finfo(eager.dtype).eps * max(largest, scale)
    if errors[1].max().item() > 0.1 * max(largest, scale):
        return f"{name}: eager itself is {errors[1].max().item():.3g} away from float64 ({largest:.3g}): no reference"
    got, allowed = errors[0].max().item(), factor * errors[1].max().item() + rounding
    if got <= allowed:
        return None
    index = tuple(torch.unravel_index(errors[0].argmax(), errors[0].shape))
    values = [f"{t[index].item():.6g}" for t in (actual, eager, reference)]
    place = f"at {tuple(int(i) for i in index)}: compiled {values[0]}, eager {values[1]}, float64 {values[2]}"
    return f"{name}: error {got:.3g} against float64, eager's own is {errors[1].max().item():.3g}; {place}"


def _kind(value):
    return "none" if value is None else f"{value.dtype} {tuple(value.shape)}"


def check_inference(model, args=(), kwargs=None, compiler=None, calls=2, factor=3.0):
    """Assert that every output of the compiled model is within `factor` times eager's own error.  Returns it."""
    kwargs, compiled = kwargs or {}, (compiler or default_compiler())(model)
    with torch.no_grad():
        seed_everything(0)
        eager = model(*args, **kwargs)
        seed_everything(0)
        with same_draws(_dtype_of(model)):
            reference = double(model)(*double(args), **double(kwargs))
        for number in range(calls):
            seed_everything(0)
            output = compiled(*args, **kwargs)
            lines = differences(eager, output, values=False)
            trios = zip(*(tensors(value, "output") for value in (output, eager, reference)), strict=True)
            lines += [excess_error(n, a, e, r, factor) for (n, a), (_, e), (_, r) in trios]
            _raise_if_any(lines, f"{type(model).__name__}, inference, call {number + 1}")
    return compiled


@dataclasses.dataclass
class Step:
    """One training step: loss, gradient by parameter name, buffers after it."""

    loss: torch.Tensor
    gradients: dict
    buffers: dict


def training_step(model, args, kwargs, loss, call=None, seed=0):
    """Forward, loss and backward once; `call` is what runs the forward (the compiled model)."""
    seed_everything(seed)
    model.zero_grad()
    value = loss((model if call is None else call)(*args, **kwargs))
    value.backward()
    gradients = {name: p.grad for name, p in model.named_parameters()}
    return Step(value.detach(), gradients, {name: b.clone() for name, b in model.named_buffers()})


def check_training(model, loss, args=(), kwargs=None, compiler=None, steps=2, factor=3.0):
    """Assert that loss, gradients and buffers are within `factor` times eager's own error, `steps` times in a row.

    The parameters stay as they are; buffers move on, and random numbers differ from step to step.  Returns the
    compiled model.  `loss(output)` is called outside of the compiled region.
    """
    kwargs, twin, exact = kwargs or {}, copy.deepcopy(model), double(model)
    compiled = (compiler or default_compiler())(twin)
    for seed in range(steps):
        eager = training_step(model, args, kwargs, loss, seed=seed)
        with same_draws(_dtype_of(model)):
            reference = training_step(exact, double(args), double(kwargs), loss, seed=seed)
        actual = training_step(twin, args, kwargs, loss, compiled, seed=seed)
        lines = [excess_error("loss", actual.loss, eager.loss, reference.loss, factor)]
        for part, label in (("gradients", "gradient of "), ("buffers", "buffer ")):
            actual_part, eager_part, reference_part = (getattr(s, part) for s in (actual, eager, reference))
            if actual_part.keys() != eager_part.keys():
                lines.append(f"{part}: eager has {list(eager_part)}, compiled {list(actual_part)}")
                continue
            largest = max((t.abs().max().item() for t in reference_part.values() if t is not None), default=0.0)
            least = largest / 100  # beside it, what is zero in theory (a bias before a norm) is only noise
            for name, value in eager_part.items():
                lines.append(excess_error(label + name, actual_part[name], value, reference_part[name], factor, least))
        _raise_if_any(lines, f"{type(model).__name__}, training, step {seed + 1}")
    return compiled


def _raise_if_any(lines, title):
    lines = [line for line in lines if line]
    if lines:
        raise AssertionError("\n".join([f"{title}: {len(lines)} differences", *lines]))
