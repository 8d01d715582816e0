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
from torch.utils._pytree import tree_leaves, tree_map

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
        leaves = tree_leaves((args, kwargs))
        wide = any(x is torch.float64 or isinstance(x, torch.Tensor) and x.dtype == torch.float64 for x in leaves)
        whole_kernel = "attention" in func.__name__ or "rnn" in func.__name__  # their backward reads what they keep
        if torch.Tag.nondeterministic_seeded not in func.tags or whole_kernel or not wide:
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


def excess_errors(group, factor=3.0, scale=0.0):
    """What is wrong in a group of (name, actual, eager, reference), as lines; empty where compiled is as good as eager.

    Together, the tensors' error (root of the summed squares of the differences to float64) must be within `factor`
    times eager's.  Each by itself must be within 3 * `factor`, in its largest difference: one small tensor is a small
    sample, and eager is almost exact in some by luck.  So no tensor's own error counts as smaller than what is usual in
    its group (upper decile of the relative errors), or than a few units of rounding of `scale` and its largest value.
    A tensor that eager has wrong by more than a tenth (in half precision: wrong altogether) tells nothing: a line, too.
    """
    lines, measured = [], []
    for name, actual, eager, reference in group:
        if actual is None or eager is None or actual.shape != eager.shape or actual.dtype != eager.dtype:
            same, values = actual is eager, [_kind(eager), _kind(actual)]
        elif not eager.is_floating_point() or not eager.numel():
            same, values = torch.equal(actual, eager), [eager.tolist(), actual.tolist()]
        else:
            finite = torch.isfinite(eager)
            same = torch.equal(actual[~finite].nan_to_num(), eager[~finite].nan_to_num())
            values = [f"inf or nan in {int((~torch.isfinite(t)).sum())} of {t.numel()} places" for t in (eager, actual)]
            measured.append((name, actual, eager, torch.where(finite, reference.detach(), 0.0), finite))
        if not same:
            lines.append(f"{name}: eager has {values[0]}, compiled {values[1]}")
    return lines + _above_allowance(measured, factor, scale)


def _above_allowance(measured, factor, scale):
    """The second half of `excess_errors`: all are comparable by now, and `reference` is 0 where eager is not finite."""
    errors, squares = [], torch.zeros(3, dtype=torch.float64)
    for _, actual, eager, reference, finite in measured:
        both = [torch.where(finite, t.detach().double(), 0.0).sub_(reference).abs_() for t in (actual, eager)]
        errors.append((both[0], both[1].max().item(), reference.abs().max().item()))
        squares += torch.tensor([t.square().sum().item() for t in (*both, reference)], dtype=torch.float64)
    noise = 1 if measured and measured[0][2].dtype in (torch.float16, torch.bfloat16) else 0.1
    relative = sorted(own / largest for _, own, largest in errors if largest > scale)
    usual, lines = relative[len(relative) * 9 // 10] if relative else 0.0, []
    for (name, actual, eager, reference, _), (error, own, largest) in zip(measured, errors, strict=True):
        if own > noise * max(largest, scale):
            lines.append(f"{name}: eager is {own:.3g} away from float64's {largest:.3g}: nothing to compare with")
        got, rounding = error.max().item(), 8 * torch.finfo(eager.dtype).eps
        allowed = 3 * factor * max(own, usual * largest) + rounding * max(largest, scale)
        if not got <= allowed:
            place = tuple(int(i) for i in torch.unravel_index(error.argmax(), error.shape))
            values = [f"{t[place].item():.6g}" for t in (actual, eager, reference)]
            where = f"at {place}: compiled {values[0]}, eager {values[1]}, float64 {values[2]}"
            lines.append(f"{name}: error {got:.3g}, eager's own is {own:.3g}, allowed {allowed:.3g}; {where}")
    if measured and not lines:
        got, own, size = squares.sqrt().tolist()
        if not got <= factor * own + rounding * size:
            lines.append(f"{measured[0][0]} to {measured[-1][0]}, together: error {got:.3g}, eager's own is {own:.3g}")
    return lines


def _kind(value):
    return "none" if value is None else f"{value.dtype} {tuple(value.shape)}"


def check_inference(model, args=(), kwargs=None, compiler=None, calls=2, factor=3.0, strides=True):
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
            lines = differences(eager, output, values=False, strides=strides)
            trios = zip(*(tensors(value, "output") for value in (output, eager, reference)), strict=True)
            if not lines:
                lines = excess_errors([(n, a, e, r) for (n, a), (_, e), (_, r) in trios], factor)
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
        lines = excess_errors([("loss", actual.loss, eager.loss, reference.loss)], factor)
        for part, label in (("gradients", "gradient of "), ("buffers", "buffer ")):
            actual_part, eager_part, reference_part = (getattr(s, part) for s in (actual, eager, reference))
            if actual_part.keys() != eager_part.keys():
                lines.append(f"{part}: eager has {list(eager_part)}, compiled {list(actual_part)}")
                continue
            # Beside the largest gradient, one that is zero in theory (a bias before a norm) is only noise; batch norm's
            # statistics are sums over values much larger than their mean.
            floats = [t for t in reference_part.values() if t is not None and t.is_floating_point()]
            scale = max((t.abs().max().item() for t in floats), default=0.0) / (100 if part == "gradients" else 1)
            names = [(label + name, actual_part[name], eager_part[name], reference_part[name]) for name in eager_part]
            lines += excess_errors(names, factor, scale)
        _raise_if_any(lines, f"{type(model).__name__}, training, step {seed + 1}")
    return compiled


def _raise_if_any(lines, title):
    if lines:
        raise AssertionError("\n".join([f"{title}: {len(lines)} differences", *lines]))
