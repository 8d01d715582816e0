"""Which ATen operators are rewritten into smaller ones before loops are made of them, and how.

Goes in: nothing.  Comes out: `decomposition_table()`, a dict from OpOverload to a function of the same signature, which
`make_fx` applies while it traces.  Mirrors `torch/_inductor/decomposition.py`.  Taught in chapter 09.

Most rules are torch's own (`torch._decomp`).  CALLED and LOWERED name what inductor has its own way with although torch
has a rule.  The functions below replace rules that are missing, slower or less exact than the eager kernel.
"""

import contextlib
import functools
import threading

import torch
import torch._decomp
import torch._decomp.decompositions
from torch._C import DispatchKey
from torch._prims_common import get_computation_dtype, suggest_memory_format

from . import random_rules, recurrent

aten = torch.ops.aten

# Rules that torch ships and that are not in its "core ATen" set.
EXTRA = """
    _batch_norm_no_update _batch_norm_with_update_functional _native_batch_norm_legit
    _native_batch_norm_legit_functional _native_batch_norm_legit_no_training _log_softmax _softmax addmv
    batch_norm_backward dist elu gelu hardtanh lcm linalg_vector_norm native_batch_norm native_group_norm
    native_layer_norm permute_copy rrelu_with_noise_backward tril_indices triu_indices unbind_copy
"""

# Kernels that are called, not rewritten.
CALLED = """
    addmm mm bmm baddbmm convolution convolution_backward _scaled_dot_product_flash_attention_for_cpu
    bernoulli.default multilabel_margin_loss_forward resize_as
"""

NEAREST = [f"{kind}{n}d" for kind in ("upsample_nearest", "_upsample_nearest_exact") for n in (1, 2, 3)]

# Operators that have a lowering of their own.
LOWERED = """
    _unsafe_index _unsafe_masked_index _unsafe_masked_index_put_accumulate all any cat embedding
    embedding_dense_backward empty_like eye flip index_add index_copy index_select leaky_relu masked_fill
    max_pool2d_with_indices max_pool2d_with_indices_backward new_empty reflection_pad1d.default reflection_pad2d.default
    reflection_pad3d.default repeat replication_pad1d.default replication_pad2d.default replication_pad3d.default
    roll select_scatter slice_scatter squeeze sum take tril triu unbind
""" + " ".join(f"{name}.default" for name in NEAREST)

# Operators for which torch has a Python rule above autograd: the table never sees them, nor eager's own backward.
HIDDEN = """
    hardshrink.default softshrink.default multi_margin_loss.default multilabel_margin_loss_forward.default
    upsample_bilinear2d.default upsample_bicubic2d.default
""" + " ".join(f"{name}.default" for name in NEAREST)
# ... and those of which that rule is the only one that takes symbolic sizes.
RESIZED = [*NEAREST, *"upsample_linear1d upsample_bilinear2d upsample_bicubic2d upsample_trilinear3d".split()]

# Their kernels lay the result out as a known memory format; torch's rules keep the input's strides, or none.
FORMATTED = """
    _batch_norm_no_update.default _batch_norm_with_update_functional.default _native_batch_norm_legit.default
    _native_batch_norm_legit.no_stats _native_batch_norm_legit_functional.default
    _native_batch_norm_legit_no_training.default max_unpool2d.default native_batch_norm.default
"""

# OpOverload -> function
OURS = {**random_rules.RULES, aten.mkldnn_rnn_layer.default: recurrent.rnn_layer}


def overloads(names):
    """Every overload of the operators named in a text; `name.overload` is that one."""
    for name in names.split():
        packet, _, overload = name.partition(".")
        for each in [overload] if overload else getattr(aten, packet).overloads():
            yield getattr(getattr(aten, packet), each)


@functools.cache
def decomposition_table():
    """dict[OpOverload, function]"""
    table = dict(torch._decomp._core_aten_decompositions_post_autograd())
    table.update(torch._decomp.get_decompositions(list(overloads(EXTRA))))
    for op in overloads(CALLED + LOWERED):
        table.pop(op, None)
    for op in overloads(FORMATTED):
        table[op] = in_eagers_format(table[op])
    table.update({op: in_float32(table[op]) for op in overloads(NORMALIZATIONS) if op in table})
    table.update(OURS)
    return {op: rule for op, rule in table.items() if op.namespace == "aten"}


@contextlib.contextmanager
def rules_above_autograd():
    """HIDDEN operators go through autograd as in eager; RESIZED ones find their sizes and call those."""
    keys = (DispatchKey.Autograd, DispatchKey.CompositeImplicitAutograd)
    ours = {op: {} for op in overloads(HIDDEN)}
    ours |= {getattr(aten, name).vec: dict.fromkeys(keys, resize_rule(getattr(aten, name))) for name in RESIZED}
    ours[aten.dropout.default] = dict.fromkeys(keys, dropout)
    theirs = {op: dict(op.py_kernels) for op in ours}
    try:
        for op, rules in ours.items():
            set_rules(op, {key: rule for key, rule in theirs[op].items() if key not in keys} | rules)
        yield
    finally:
        for op, rules in theirs.items():
            set_rules(op, rules)


def set_rules(op, rules):
    op.py_kernels.clear()
    op.py_kernels.update(rules)
    op._dispatch_cache.clear()


def dropout(x, p, train):
    """Where it has nothing to do the result is the input itself, to which the program may write."""
    return aten.native_dropout(x, p, train)[0] if train and p != 0 and x.numel() != 0 else x


def resize_rule(packet):
    """The overload `vec` of a resizing operator: either the sizes or the factors are given."""

    def resize(x, output_size, *align_corners_and_factors):
        *align_corners, factors = align_corners_and_factors
        size = torch._decomp.decompositions.upsample_compute_output_size(x.size(), output_size, factors)
        return packet.default(x, size, *align_corners, *(factors or [None] * len(size)))

    return resize


def decompose(*targets):
    """Decorator: our rule for these overloads."""

    def decorate(function):
        for target in targets:
            OURS[target] = function
        return function

    return decorate


def in_eagers_format(rule):
    """The (first) result is channels last if the input is, else contiguous."""

    @functools.wraps(rule)
    def wrapper(x, *args, **kwargs):
        result = rule(x, *args, **kwargs)
        memory_format = suggest_memory_format(x)
        if isinstance(result, torch.Tensor):
            return result.contiguous(memory_format=memory_format)
        return result[0].contiguous(memory_format=memory_format), *result[1:]

    return wrapper


def in_opmath(function):
    """Half tensors are computed in float32 and rounded once, as eager's kernels do."""

    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        dtype = args[0].dtype
        wide = get_computation_dtype(dtype)
        args = [a.to(wide) if isinstance(a, torch.Tensor) and a.dtype == dtype else a for a in args]
        result = function(*args, **kwargs)
        return result.to(dtype) if dtype != wide else result

    return wrapper


@decompose(aten.transpose.int)
def transpose(x, first, second):
    """Half of a trace is of these: torch's rule calls an operator that has a rule that does."""
    order = list(range(x.dim()))
    if x.dim() < 2 or order[first] == order[second]:
        return aten.alias.default(x)
    order[first], order[second] = order[second], order[first]
    return aten.permute.default(x, order)


@decompose(aten.t.default)
def t(x):
    return transpose(x, 0, -1) if x.dim() == 2 else aten.alias.default(x)


@decompose(aten.silu.default)
@in_opmath
def silu(x):
    return x / (1 + torch.exp(-x))


@decompose(aten.upsample_linear1d.default, aten.upsample_bilinear2d.default, aten.upsample_trilinear3d.default)
def upsample_linear(x, size, align_corners, *scales):
    """Along one dimension after the other, the last one first, in the arithmetic of eager's kernel.

    Each is half as many elements picked, and for rows and planes it is whole rows that are picked.
    """
    if not x.is_floating_point():
        return NotImplemented  # sums in fixed point
    dtype, result = get_computation_dtype(x.dtype), x
    scales = [*scales, *[None] * (len(size) - len(scales))]
    for dim, length, scale in reversed(list(zip(range(2, x.ndim), size, scales, strict=True))):
        last = x.shape[dim] - 1
        ratio = torch._decomp.decompositions._compute_scale(last + 1, length, align_corners, scale)
        place = torch.arange(length, device=x.device).to(dtype)
        place = place * ratio if align_corners else ((place + 0.5) * ratio - 0.5).clamp(min=0)
        low = place.to(torch.int64).clamp(max=last)
        weight = (place - low).clamp(0, 1).view(-1, *[1] * (x.ndim - dim - 1))
        ends = (low, (low + 1).clamp(max=last))
        a, b = (aten._unsafe_index(result, [*[None] * dim, at]).to(dtype) for at in ends)
        result = a * (1 - weight) + b * weight
    return result.to(x.dtype).contiguous(memory_format=suggest_memory_format(x))


@decompose(getattr(aten.random, "from"))
def random_from(x, low, high, *, generator=None):
    """The same draws by an operator whose name FX can write as Python, in which `from` is a word of its own."""
    return NotImplemented if high is None or generator is not None else aten.randint_like.low_dtype(x, low, high)


@decompose(aten.soft_margin_loss_backward.default)
@in_opmath
def soft_margin_loss_backward(grad, x, target, reduction=1):
    """z / (1 + z) keeps its digits where sigmoid(-x) - 1 loses them."""
    z = torch.exp(-target * x)
    result = -target * z / (1 + z) * grad
    return result / x.numel() if reduction == 1 else result


@decompose(aten.nll_loss_backward.default, aten.nll_loss2d_backward.default)
def nll_loss_backward(grad, x, target, weight, reduction, ignore_index, total_weight):
    """Each row's own class gets a gradient, and nothing else does, whatever the gradient is (inf, NaN, negative)."""
    dim = 1 if x.dim() > 1 else 0
    if reduction == 1:
        grad = grad / total_weight
    if x.dim() == 1 and target.dim() > 0:
        target = target[0]
    target = target.unsqueeze(dim)
    value = -(grad.unsqueeze(dim) if x.dim() > grad.dim() > 0 else grad)
    shape = [-1 if d == dim else 1 for d in range(x.dim())]
    if weight is not None:
        value = value * weight.reshape(shape)
    classes = torch.arange(x.shape[dim], device=x.device).reshape(shape)
    return torch.where((classes == target) & (target != ignore_index), value, 0)


NORMALIZATIONS = """
    native_layer_norm native_group_norm native_batch_norm _native_batch_norm_legit _native_batch_norm_legit_functional
    _batch_norm_with_update_functional
"""
inside = threading.local()  # `.normalization`: a rule of those is at work on this thread


def in_float32(rule):
    """Eager's kernels for normalization take the moments in float32, those of `var` and `std` (on a CPU) in float64."""

    @functools.wraps(rule)
    def wrapper(*args, **kwargs):
        before, inside.normalization = getattr(inside, "normalization", False), True
        try:
            return rule(*args, **kwargs)
        finally:
            inside.normalization = before

    return wrapper


def moments(x, dim, correction, keepdim):
    """Variance and mean in two passes: exact where the one-pass formula cancels.

    In float64, half of whose digits float32 does not need, one pass will do: distances to the first element, which is
    never further from the mean than the root of their number times the deviation, cancel no more digits than that.
    """
    dims = list(range(x.dim())) if not dim else [d % x.dim() for d in dim] if x.dim() else []
    double = x.device.type == "cpu" and not getattr(inside, "normalization", False)
    wide = x.to(torch.float64 if double else get_computation_dtype(x.dtype))
    count = 1
    for d in dims:
        count = count * x.shape[d]
    if double and x.dtype != torch.float64 and count > 0:
        first = wide
        for d in dims:
            first = first.narrow(d, 0, 1)
        centered = wide - first
        offset = centered.sum(dims, keepdim=True) / count
        mean = first + offset
        total = (centered * centered).sum(dims, keepdim=True) - offset * offset * count
    else:
        mean = wide.mean(dims, keepdim=True)
        centered = wide - mean
        total = (centered * centered).sum(dims, keepdim=True)
    if double and count > 0:
        mean = wide if count == 1 else updated_mean(wide, dims, total, mean)
    divisor = count - (1 if correction is None else correction)
    spread = total / (divisor if divisor > 0 else 0)
    return (spread, mean) if keepdim else (spread.squeeze(dims), mean.squeeze(dims))


def updated_mean(x, dims, total, mean):
    """Eager updates the mean with every element: an infinity becomes NaN when the next one comes."""
    first = last = x
    for d in dims:
        first, last = first.narrow(d, 0, 1), last.narrow(d, x.shape[d] - 1, 1)
    return torch.where(total.isnan() & ~(first.isfinite() & last.isinf()), torch.nan, mean)


def variance(x, dim=None, *, correction=None, keepdim=False, root=False, with_mean=False):
    if x.is_complex():
        return NotImplemented
    spread, mean = moments(x, dim, correction, keepdim)
    spread = (spread.sqrt() if root else spread).to(x.dtype)
    return (spread, mean.to(x.dtype)) if with_mean else spread


for _name in ("var", "std"):
    _options = {"root": _name == "std"}
    OURS[getattr(aten, _name).correction] = functools.partial(variance, **_options)
    OURS[getattr(aten, f"{_name}_mean").correction] = functools.partial(variance, **_options, with_mean=True)
