"""Calls of one operator of PyTorch's own table (OpInfo) as functions to compile, and what differs between two results.

Goes in: an OpInfo and a dtype.  Comes out: `Case`s: the operator's samples as they are, then relaid (transposed,
strided, at an offset, channels last), emptied, made 0-d, in place, with special values; and its bad inputs.
"""

import copy
import dataclasses
import math

import torch
from torch.utils import _pytree as pytree

ULPS, ULPS_OF_DOUBLES = 4, 1024  # a double has no referee, and eager's long sums of doubles are that inexact
PER_GRAPH = 24  # cases that are compiled together


@dataclasses.dataclass
class Case:
    """One call: `op(*args, **kwargs)`, whose leaves are in `leaves`."""

    name: str
    op: object
    leaves: list
    spec: object
    signs: bool = False  # those of zeros in the results count: one operation, not a formula
    gradient: bool = False  # the backward runs too

    @classmethod
    def of(cls, name, op, args, kwargs, signs=False):
        return cls(name, op, *pytree.tree_flatten((tuple(args), dict(kwargs))), signs)

    @property
    def inputs(self):
        return [leaf for leaf in self.leaves if isinstance(leaf, torch.Tensor)]

    def changed(self, name, change):
        leaves = [change(leaf) if isinstance(leaf, torch.Tensor) else leaf for leaf in self.leaves]
        return dataclasses.replace(self, name=f"{self.name} {name}", leaves=leaves)

    def copied(self):
        """The same call on copies; what shares memory shares it again."""
        copies = {}
        for t in self.inputs:
            copies[id(t)] = copy.deepcopy(t, copies) if t.layout == torch.strided else t.clone()
        return dataclasses.replace(self, leaves=[copies.get(id(leaf), leaf) for leaf in self.leaves])

    def in_double(self):
        """The same call on float64 copies: the referee."""
        wide = {torch.complex32: torch.complex128, torch.complex64: torch.complex128}
        wide |= dict.fromkeys((torch.float16, torch.bfloat16, torch.float32), torch.float64)
        leaves = [wide.get(x, x) if isinstance(x, torch.dtype) else x for x in self.leaves]
        return dataclasses.replace(self, leaves=leaves).changed("float64", lambda t: t.to(wide.get(t.dtype, t.dtype)))


# --- from an OpInfo to cases ----------------------------------------------------------------------------------------
def relayout(how, t):
    """The same values with other strides or storage."""
    if t.layout != torch.strided or t.numel() == 0 or t.dim() == 0:
        return t
    if how == "transposed" and t.dim() >= 2:
        return t.transpose(-1, -2).contiguous().transpose(-1, -2)
    if how == "channels_last" and t.dim() in (4, 5):
        return t.contiguous(memory_format=torch.channels_last if t.dim() == 4 else torch.channels_last_3d)
    if how == "offset":
        return torch.cat([t.new_zeros(3), t.flatten()])[3:].view(t.shape)
    return torch.stack([t, t], -1)[..., 0]


# Of 0.0 and -0.0 eager gives one in its vector loop and the other in the loop behind it.
ZEROS_MEET = ("maximum", "minimum", "fmax", "fmin", "nn.functional.softshrink")
LAYOUTS = ("transposed", "strided", "channels_last", "offset")


def relaid(case, how):
    return case.changed(how, lambda t: relayout(how, t))


def emptied(t):
    return t[:0] if t.layout == torch.strided and t.dim() else t


def first_element(t):
    return t.flatten()[0].clone() if t.layout == torch.strided and t.numel() else t


def special(t):
    """A third of the values become those at the edges of the dtype."""
    if t.layout != torch.strided or t.dtype == torch.bool or t.is_complex():
        return t
    if t.dtype.is_floating_point:
        info = torch.finfo(t.dtype)
        values = [math.nan, math.inf, -math.inf, -0.0, 0.0, info.tiny, info.max, info.tiny / 4, 3.0, -3.0, 0.5, 2.5]
    else:
        values = [torch.iinfo(t.dtype).min, min(torch.iinfo(t.dtype).max, 2**63 - 1), 0, 1]
    flat = t.clone().flatten()
    for k, place in enumerate(range(0, flat.numel(), 3)):
        flat[place] = values[k % len(values)]
    return flat.view(t.shape)


def spread(found, count):
    return found if not count or len(found) <= count else [found[k * len(found) // count] for k in range(count)]


# A segmentation fault, a floating point exception, and as many steps as the largest integer.
EAGER_DIES = {("_chunk_cat", "0-d"), ("lcm", "special"), ("special.laguerre_polynomial_l", "special")}


def cases_of(op, dtype, count=0):
    """Up to `count` samples (0: all), each once as it is and once relaid; then the variants of the first."""
    samples = spread(list(op.sample_inputs("cpu", dtype)), count)
    one_operation = type(op).__name__ in ("UnaryUfuncInfo", "BinaryUfuncInfo") and op.name not in ZEROS_MEET
    cases = [Case.of(f"sample {k}", op.op, (s.input, *s.args), s.kwargs, one_operation) for k, s in enumerate(samples)]
    with_tensors = [case for case in cases if case.inputs]
    variants = [relaid(case, LAYOUTS[k % len(LAYOUTS)]) for k, case in enumerate(with_tensors)]
    for case in with_tensors[:1]:
        variants += [case.changed("empty", emptied), case.changed("0-d", first_element)]
        if op.inplace_variant is not None:
            variants.append(dataclasses.replace(case, name=f"{case.name} in place", op=op.inplace_variant))
    if type(op).__name__ in ("UnaryUfuncInfo", "BinaryUfuncInfo", "ReductionOpInfo"):
        variants += [case.changed("special", special) for case in cases[:2]]
    return [case for case in cases + variants if (op.name, case.name.split(" ")[-1]) not in EAGER_DIES]


def gradient_cases(op, count=0):
    """Samples of float32, as they are and relaid, whose backward runs too."""
    samples = spread(list(op.sample_inputs("cpu", torch.float32)), count)
    cases = [Case.of(f"sample {k}", op.op, (s.input, *s.args), s.kwargs) for k, s in enumerate(samples)]
    cases = [dataclasses.replace(case, gradient=True) for case in cases if case.inputs]
    return cases + [relaid(case, LAYOUTS[k % len(LAYOUTS)]) for k, case in enumerate(cases)]


def error_cases(op):
    """Calls that eager refuses."""
    if op.error_inputs_func is None:
        return []
    found = [error.sample_input for error in op.error_inputs("cpu")]
    return [Case.of(f"bad input {k}", op.op, (s.input, *s.args), s.kwargs) for k, s in enumerate(found)]


# --- from cases to a function ---------------------------------------------------------------------------------------
class _Text(str):
    __repr__ = str.__str__


def function_of(cases):
    """A new function, with a code object of its own, of all inputs of the cases in a row: a tuple, one result a case.

    Numbers and strings stand in its text, as in a user's program; what has no text is a global.
    """
    names, lines, parameters = {"nan": math.nan, "inf": math.inf}, [], []
    for k, case in enumerate(cases):
        names[f"op{k}"], texts = case.op, []
        for j, leaf in enumerate(case.leaves):
            if isinstance(leaf, torch.Tensor):
                parameters.append(f"x{k}_{j}")
                texts.append(_Text(parameters[-1]))
            elif type(leaf) in (int, float, str, bool, type(None)):
                texts.append(_Text(repr(leaf)))
            else:
                names[f"c{k}_{j}"] = leaf
                texts.append(_Text(f"c{k}_{j}"))
        args, kwargs = pytree.tree_unflatten(texts, case.spec)
        written = [repr(a) for a in args] + [f"{name}={value!r}" for name, value in kwargs.items()]
        lines.append(f"    r{k} = op{k}({', '.join(written)})\n")
    results = "".join(f"r{k}, " for k in range(len(cases)))
    exec(f"def calls({', '.join(parameters)}):\n{''.join(lines)}    return ({results})\n", names)
    return names["calls"]


# --- what differs ---------------------------------------------------------------------------------------------------
def difference(expected, actual, reference=None, signs=True):
    """What is wrong with a result, in words; "" when nothing is.  signs: those of zeros count."""
    e, a = expected, actual
    if (e.shape, e.dtype, e.layout) != (a.shape, a.dtype, a.layout):
        return f"{e.dtype} {tuple(e.shape)} {e.layout} became {a.dtype} {tuple(a.shape)} {a.layout}"
    if e.layout != torch.strided:
        return difference(e.to_dense(), a.to_dense(), reference, signs)
    if e.numel() and any(s != t for s, t, n in zip(e.stride(), a.stride(), e.shape, strict=True) if n > 1):
        return f"strides {e.stride()} became {a.stride()}"
    if e.is_complex():
        parts = [None if t is None else torch.view_as_real(t.resolve_conj()) for t in (e, a, reference)]
        return difference(*parts, signs=False)
    if not e.dtype.is_floating_point:
        return "" if torch.equal(e, a) else f"values{_first_wrong(e, a, e != a)}"
    x, y = e.detach().double(), a.detach().double()
    same = (x == y) | (x.isnan() & y.isnan())
    if not same.all():
        return _float_difference(x, y, same, torch.finfo(e.dtype), reference)
    zeros = (x == 0) & (x.signbit() != y.signbit())
    return f"signs of zeros{_first_wrong(e, a, zeros)}" if signs and zeros.any() else ""


def _float_difference(x, y, same, info, reference):
    infinite = ~same & ~(x.isfinite() & y.isfinite())
    if infinite.any():  # eager's vector loops overflow in places where float64 does not
        right = reference is not None and reference.shape == x.shape and _close(y, reference.double(), infinite, info)
        return "" if right else f"infinity or nan{_first_wrong(x, y, infinite)}"
    gap = (x - y).abs()[~same]
    sizes = torch.maximum(x.abs(), y.abs())[~same].clamp_min(info.tiny)
    unit = info.eps * x[x.isfinite()].abs().max().item()
    units = min((gap / sizes / info.eps).max().item(), gap.max().item() / unit if unit else math.inf)
    if units <= (ULPS if info.bits < 64 else ULPS_OF_DOUBLES):
        return ""
    if reference is not None and reference.shape == x.shape:
        t = reference.double()
        finite = t.isfinite() & x.isfinite() & y.isfinite()
        ours, eager = ((v - t)[finite].abs().max().item() for v in (y, x))
        if ours <= 3 * eager + 4 * info.eps * t[finite].abs().max().item():
            return ""
    return f"{units:.3g} units in the last place{_first_wrong(x, y, ~same)}"


def _close(actual, reference, where, info):
    a, r = actual[where], reference[where]
    r = torch.where(r.abs() > info.max, r * math.inf, r)
    return bool(((a == r) | (a.isnan() & r.isnan()) | ((a - r).abs() <= ULPS * info.eps * r.abs() + info.tiny)).all())


def _first_wrong(expected, actual, wrong):
    place = tuple(wrong.nonzero()[0].tolist())
    return f" ({int(wrong.sum())} of {wrong.numel()}: {expected[place].item()!r} became {actual[place].item()!r})"


def problem(expected, actual, reference=None, signs=True):
    """What is wrong with the result of a case, which may be a tree; "" when nothing is."""
    (e, e_spec), (a, a_spec) = pytree.tree_flatten(expected), pytree.tree_flatten(actual)
    if e_spec != a_spec:
        return f"structure {e_spec} became {a_spec}"
    r = pytree.tree_leaves(reference) if reference is not None else []
    r = r if len(r) == len(e) else [None] * len(e)
    for each, other, referee in zip(e, a, r, strict=True):
        if type(each) is not type(other):
            return f"a {type(each).__name__} became a {type(other).__name__}"
        if isinstance(each, torch.Tensor):
            found = difference(each, other, referee, signs)
        else:
            found = "" if each == other or each != each else f"{each!r} became {other!r}"
        if found:
            return found
    return ""
