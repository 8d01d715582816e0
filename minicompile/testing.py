"""Eager against compiled: what tests of minicompile, and of code that uses it, call.

Goes in: a function or module, its arguments, and the compile function under test (ours unless told otherwise; the tests
of this file pass `torch.compile` and broken ones).  Comes out: nothing, or an AssertionError that lists every
difference by its path (`output[0].hidden`, `gradient of head.weight`).
Mirrors `torch/_dynamo/testing.py` and `same()` in `torch/_dynamo/utils.py`.  Taught in chapter 16.
"""

import collections
import copy
import dataclasses
import random
import traceback
from collections.abc import Mapping

import numpy
import torch

from . import record
from .backends import eager


class CompileCounter:
    """A backend that counts graphs and their operations, keeps the graphs, and runs them as backend="eager" does."""

    undoes = eager.undoes

    def __init__(self):
        self.graphs, self.ops, self.graph_modules = 0, 0, []

    def __call__(self, gm, example_inputs):
        self.graphs += 1
        self.ops += sum(node.op.startswith("call") for node in gm.graph.nodes)
        self.graph_modules.append(gm)
        return eager(gm, example_inputs)

    def stats(self):
        return {"graphs": self.graphs, "ops": self.ops}


# --- what differs ------------------------------------------------------------------------------------
def tensors(value, path, seen=None):
    """Yield (path, tensor) for every tensor inside containers, dataclasses and plain objects."""
    seen = set() if seen is None else seen
    if isinstance(value, torch.Tensor):
        yield path, value
    elif id(value) not in seen and (children := _children(value)):
        seen.add(id(value))
        for name, child in children:
            yield from tensors(child, path + name, seen)


def _children(value):
    """[(".name" or "[key]", child)] of a container or plain object; empty for a leaf."""
    if isinstance(value, Mapping):
        return [(f"[{key!r}]", child) for key, child in value.items()]
    if isinstance(value, list | tuple | collections.deque):
        return [(f"[{i}]", child) for i, child in enumerate(value)]
    if isinstance(value, torch.nn.Module | type) or callable(value):
        return []
    return [(f".{name}", child) for name, child in getattr(value, "__dict__", {}).items()]


def differences(expected, actual, path="output", seen=None, **options):
    """Every difference between two values as a list of readable lines; empty when they are the same.

    options: `exact` (bitwise), `rtol`, `atol`, `strides=False`, `values=False` (all but the numbers).
    """
    seen = set() if seen is None else seen
    if type(expected) is not type(actual):
        return [f"{path}: eager has a {type(expected).__name__}, compiled a {type(actual).__name__}"]
    if isinstance(expected, numpy.ndarray):
        expected, actual = torch.as_tensor(expected), torch.as_tensor(actual)
    if isinstance(expected, torch.Tensor):
        return _tensor_differences(expected, actual, path, **options)
    if id(expected) in seen:
        return []
    children, others = _children(expected), _children(actual)
    if children or others:
        seen.add(id(expected))
        if (names := [name for name, _ in children]) != (other_names := [name for name, _ in others]):
            return [f"{path}: eager has the parts {names}, compiled {other_names}"]
        pairs = zip(children, others, strict=True)
        return [line for (n, a), (_, b) in pairs for line in differences(a, b, path + n, **options, seen=seen)]
    same = expected is actual or expected == actual or (expected != expected and actual != actual)  # NaN is NaN
    opaque = type(expected).__eq__ is object.__eq__ or callable(expected)  # equal types is all that can be asked
    return [] if same or opaque else [f"{path}: eager has {expected!r}, compiled {actual!r}"]


def _tensor_differences(expected, actual, path, exact=False, rtol=None, atol=None, strides=True, values=True):
    lines = []
    for name in ("dtype", "device", "shape", "layout", "requires_grad"):
        if (a := getattr(expected, name)) != (b := getattr(actual, name)):
            lines.append(f"{path}: eager's {name} is {a}, compiled {b}")
    if expected.shape != actual.shape or expected.layout != torch.strided:
        return lines
    if strides and (a := _strides(expected)) != (b := _strides(actual)):
        lines.append(f"{path}: eager's strides are {a}, compiled {b} (shape {tuple(expected.shape)})")
    if not values or expected.is_meta:
        return lines
    expected, actual = expected.detach(), actual.detach()
    if exact and expected.dtype == actual.dtype:
        same = (expected == actual) | ((expected != expected) & (actual != actual))
        if not expected.dtype.is_complex:
            same &= (expected != expected) | (torch.signbit(expected) == torch.signbit(actual))
        if not same.all():
            lines.append(f"{path}: not bitwise equal, {_worst(expected, actual, ~same)}")
    else:
        try:
            torch.testing.assert_close(actual, expected, rtol=rtol, atol=atol, equal_nan=True, check_dtype=False)
        except AssertionError as error:
            lines.append(f"{path}: {' '.join(str(error).split())}")
    return lines


def _strides(tensor):
    """Strides of the dimensions in which a step can be taken; nothing of an empty tensor."""
    if tensor.numel() == 0:
        return ()
    return tuple(stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True) if size > 1)


def _worst(expected, actual, where):
    index = tuple(where.nonzero()[0].tolist())
    return f"{int(where.sum())} of {where.numel()} elements, first {index}: {expected[index]} against {actual[index]}"


def alias_pattern(**roots):
    """{path: the first path that is the same tensor, or else shares its memory}: equal where aliasing is equal."""
    first, pattern = {}, {}
    for path, tensor in (pair for name, root in roots.items() for pair in tensors(root, name)):
        keys = [("is", id(tensor))]
        if tensor.layout == torch.strided and tensor.numel():
            keys.append(("shares memory with", tensor.untyped_storage().data_ptr()))
        pattern[path] = next((f"{key[0]} {first[key]}" for key in keys if key in first), "own")
        for key in keys:
            first.setdefault(key, path)
    return pattern


# --- one call, observed ------------------------------------------------------------------------------
@dataclasses.dataclass
class Observed:
    """All that one call did: what it returned or raised, and what it left in arguments, gradients and buffers."""

    output: object = None
    error: BaseException | None = None
    arguments: object = None
    gradients: dict = dataclasses.field(default_factory=dict)
    buffers: dict = dataclasses.field(default_factory=dict)
    aliases: dict = dataclasses.field(default_factory=dict)


def seed_everything(seed):
    random.seed(seed)
    torch.manual_seed(seed)


def _owner(fn):
    """The module whose parameters and buffers `fn` uses, or None."""
    owner = getattr(fn, "__self__", fn)
    return owner if isinstance(owner, torch.nn.Module) else None


def observe(call, owner, args, kwargs, seed=0, backward=True):
    """Run `call(*args, **kwargs)` from a known random state, backward too where it can; return an `Observed`."""
    seed_everything(seed)
    seen = Observed(arguments=(args, kwargs))
    try:
        seen.output = call(*args, **kwargs)
        seen.aliases = alias_pattern(args=args, kwargs=kwargs, output=seen.output)
        roots = [t for _, t in tensors(seen.output, "") if t.requires_grad and t.grad_fn is not None]
        if backward and roots:
            torch.autograd.backward(roots, [_cotangent(t) for t in roots])
    except Exception as error:
        seen.error = error
    leaves = [pair for name, root in (("args", args), ("kwargs", kwargs)) for pair in tensors(root, name)]
    leaves += list(owner.named_parameters()) if owner is not None else []
    seen.gradients = {name: t.grad for name, t in leaves if t.is_leaf and t.requires_grad}
    seen.buffers = dict(owner.named_buffers()) if owner is not None else {}
    return seen


def _cotangent(tensor):
    """Not all ones, which would hide transposed and permuted gradients."""
    return torch.cos(torch.arange(tensor.numel(), device=tensor.device)).view(tensor.shape).to(tensor.dtype)


def _compare_observed(eager, compiled, fn, where, aliasing, **options):
    if eager.error is not None or compiled.error is not None:
        return _error_differences(eager.error, compiled.error, fn, where)
    lines = differences(eager.output, compiled.output, f"{where}output", **options)
    for part in ("arguments", "gradients", "buffers"):
        label = f"{where}{part} after the call"
        lines += differences(getattr(eager, part), getattr(compiled, part), label, **options)
    if aliasing and not lines:
        lines += differences(eager.aliases, compiled.aliases, f"{where}which tensor shares memory with which:")
    return lines


def _error_differences(expected, actual, fn, where):
    if type(expected) is not type(actual) or str(expected) != str(actual):
        text = "".join(traceback.format_exception(actual)) if actual is not None else ""
        return [f"{where}eager raised {expected!r}, compiled {actual!r}\n{text}"]
    lines = [[f for f in traceback.extract_tb(e.__traceback__) if f.filename == _file(fn)] for e in (expected, actual)]
    last = [(found[-1].name, found[-1].lineno) if found else None for found in lines]
    return [] if last[0] == last[1] else [f"{where}{expected!r} came from {last[0]} in eager, {last[1]} compiled"]


def _file(fn):
    code = getattr(getattr(fn, "__func__", fn), "__code__", None) or type(fn).forward.__code__
    return code.co_filename


def default_compiler():
    from .compiler import compile  # late: one stage by itself is testable without the others

    return compile


def forget_everything():
    """Counts start from zero, and functions that were compiled before are compiled again."""
    from .compiler import reset

    reset()


def check(fn, *args, kwargs=None, also=(), calls=2, compiler=None, stats=None, backward=True, aliasing=True, **options):
    """Assert that `compiler(fn)` does what `fn` does, and that the counts are exactly those given.

    Compared: output (values with NaN, dtype, strides, requires_grad, containers), exception and its user line, mutated
    arguments, gradients, buffers, and who shares memory with whom.  What was compiled before is forgotten; then the
    first arguments are used `calls` times, and each tuple in `also` once.  options: `exact=True` (bitwise), `rtol`,
    `atol`, `strides=False`, and counts that `stats()` must report in the end: `graphs=1, kernels=1, graph_breaks=0,
    recompiles=0, ...`.  Returns the stats.
    """
    compare = {name: options.pop(name) for name in ("exact", "rtol", "atol", "strides") if name in options}
    compiler = compiler or default_compiler()
    forget_everything()
    eager_fn, compiled_fn = copy.deepcopy(fn), copy.deepcopy(fn)
    compiled, lines = compiler(compiled_fn), []
    for number, these in enumerate([args] * calls + list(also)):
        results = []
        for call, owner in ((eager_fn, _owner(eager_fn)), (compiled, _owner(compiled_fn))):
            copied_args, copied_kwargs = copy.deepcopy((these, kwargs or {}))
            if owner is not None:
                owner.zero_grad()
            results.append(observe(call, owner, copied_args, copied_kwargs, seed=number, backward=backward))
        lines += _compare_observed(*results, fn, f"call {number + 1}: ", aliasing, **compare)
    counted = (stats or record.stats)()
    lines += [f"{k}: expected {v}, counted {counted.get(k)}" for k, v in options.items() if counted.get(k) != v]
    if lines:
        raise AssertionError("\n".join([f"compiled {getattr(fn, '__name__', type(fn).__name__)} differs:", *lines]))
    return counted
