"""Operators of PyTorch's own table of sample inputs (OpInfo) through single stages: decompositions, interpreter, C++.

A result may differ from eager by a few units in the last place; or, where it differs more, its error against float64
may be three times eager's own.  The whole pipeline, over the whole table: `run_op_db.py`.
"""

import collections
import dataclasses
import fnmatch
import math

import torch
from torch._dispatch.python import enable_python_dispatcher
from torch._subclasses import FakeTensorMode
from torch._subclasses.fake_tensor import DataDependentOutputException, DynamicOutputShapeException
from torch._subclasses.functional_tensor import FunctionalTensor, FunctionalTensorMode
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils import _pytree as pytree

from minicompile import config, inductor
from minicompile.aot.decompositions import decomposition_table
from minicompile.inductor import ir

ULPS = 4
# Random, uninitialised, or not a function of its inputs; the last ones seed a generator inside the call.
SKIP = """sparse* *nested* *jiterator* *empty* to_sparse* *rand* normal* *bernoulli* multinomial* *poisson* *dropout*
uniform* exponential* cauchy* geometric* log_normal* *rrelu* *fractional_max* resize_* *scaled_dot_product_attention
*multi_head_attention* svd_lowrank pca_lowrank""".split()
# Capture cannot hold these: their sizes or branches depend on data, and the graph breaks there.
NO_GRAPH = (DataDependentOutputException, DynamicOutputShapeException)


def functional_graph(function, inputs, table=None):
    """The functional ATen graph of a function of tensors."""
    mode = FakeTensorMode(allow_non_fake_inputs=True)
    fakes = [mode.from_tensor(t, static_shapes=True).requires_grad_(t.requires_grad) for t in inputs]

    def run(*values):
        with FunctionalTensorMode(), enable_python_dispatcher():
            outputs = function(*[FunctionalTensor.to_functional(v) for v in values])
            return pytree.tree_map_only(FunctionalTensor, lambda t: t.from_functional(), outputs)

    with mode:
        gm = make_fx(run, decomposition_table=decomposition_table() if table is None else table)(*fakes)
    gm.graph.eliminate_dead_code()
    gm.recompile()
    return gm


def tensors(tree):
    return [t for t in pytree.tree_leaves(tree) if isinstance(t, torch.Tensor)]


@dataclasses.dataclass
class Sample:
    """One call of an operator as a function of its tensors."""

    op: object
    leaves: list
    spec: object
    grad: bool

    @property
    def places(self):
        return [k for k, leaf in enumerate(self.leaves) if isinstance(leaf, torch.Tensor)]

    @property
    def inputs(self):
        return [self.leaves[k] for k in self.places]

    def __call__(self, *inputs):
        leaves = list(self.leaves)
        for k, t in zip(self.places, inputs, strict=True):
            leaves[k] = t
        x, args, kwargs = pytree.tree_unflatten(leaves, self.spec)
        outputs = tensors(self.op(x, *args, **kwargs))
        if not self.grad:
            return outputs
        roots = [t for t in outputs if t.requires_grad]
        wanted = [t for t in inputs if t.requires_grad]
        seeds = [((torch.arange(t.numel()) % 7 + 1) * 0.1).to(t.dtype).view(t.shape) for t in roots]
        grads = torch.autograd.grad(roots, wanted, seeds, allow_unused=True) if roots else ()
        return [t.detach() for t in outputs] + [g for g in grads if g is not None]

    def in_double(self):
        """The same call on float64 copies: the referee."""
        leaves = [torch.float64 if isinstance(x, torch.dtype) and x.is_floating_point else x for x in self.leaves]
        return dataclasses.replace(self, leaves=leaves)(*map(to_double, self.inputs))

    def with_inputs(self, change):
        leaves = [change(x) if isinstance(x, torch.Tensor) else x for x in self.leaves]
        return dataclasses.replace(self, leaves=leaves)


def to_double(t):
    return t.detach().double().requires_grad_(t.requires_grad) if t.dtype.is_floating_point else t


def special(t):
    """A third of the values become nan, infinities, zeros of both signs and the like."""
    if not t.dtype.is_floating_point or t.numel() == 0:
        return t
    values = [float("nan"), float("inf"), -float("inf"), -0.0, 0.0, torch.finfo(t.dtype).tiny, 3.0, -3.0, 0.5, 2.5]
    flat = t.detach().clone().flatten()
    for k, place in enumerate(range(0, flat.numel(), 3)):
        flat[place] = values[k % len(values)]
    return flat.view(t.shape).requires_grad_(t.requires_grad)


def relayout(how, t):
    y = t.detach()
    if how == "transposed" and y.dim() >= 2:
        y = y.transpose(-1, -2).contiguous().transpose(-1, -2)
    elif how == "channels_last" and y.dim() == 4:
        y = y.contiguous(memory_format=torch.channels_last)
    elif how == "strided" and y.dim() and y.numel():
        y = torch.stack([y, y], -1)[..., 0]
    return y.requires_grad_(t.requires_grad)


def difference(expected, actual, reference=None):
    """What is wrong with a result, in words; "" when nothing is."""
    e, a = expected, actual
    if (e.shape, e.dtype) != (a.shape, a.dtype):
        return f"{e.dtype} {tuple(e.shape)} became {a.dtype} {tuple(a.shape)}"
    if e.numel() and any(s != t for s, t, n in zip(e.stride(), a.stride(), e.shape, strict=True) if n > 1):
        return f"strides {e.stride()} became {a.stride()}"
    if e.is_complex():
        return difference(torch.view_as_real(e.resolve_conj()), torch.view_as_real(a.resolve_conj()))
    if not e.dtype.is_floating_point:
        return "" if torch.equal(e, a) else "values"
    x, y = e.double(), a.double()
    same = (x == y) | (x.isnan() & y.isnan())
    if same.all():
        return ""
    if not (x.isfinite() & y.isfinite())[~same].all():
        return "infinity or nan"
    eps = torch.finfo(e.dtype).eps
    gap = (x - y).abs()[~same]
    units = (gap / torch.maximum(x.abs(), y.abs())[~same].clamp_min(torch.finfo(e.dtype).tiny) / eps).max().item()
    largest = x[x.isfinite()].abs().max().item()
    units = min(units, gap.max().item() / (eps * largest) if largest else math.inf)
    if units <= ULPS:
        return ""
    if reference is not None:
        t = reference.double()
        finite = t.isfinite() & x.isfinite() & y.isfinite()
        ours, eager = ((v - t)[finite].abs().max().item() for v in (y, x))
        if ours <= 3 * eager + 4 * eps * t[finite].abs().max().item():
            return ""
    return f"{units:.3g} units in the last place"


def execute(gm, inputs, stage, calls):
    """Run a graph by one of our stages; count its ATen calls by kind."""
    inputs = [t.detach() for t in inputs]
    if stage == "decompositions":
        return tensors(gm(*inputs))
    with config.patch(cpu_backend=stage):
        compiled = inductor.compile(gm, inputs)
    for buffer in compiled.graph.buffers if hasattr(compiled, "graph") else inductor.lower(gm, inputs).buffers:
        if isinstance(buffer.data, ir.Extern):
            calls[buffer.data.kind][str(buffer.data.target)] += 1
    return tensors(compiled(*inputs))


def samples(op, dtype, grad, count):
    """Up to `count` calls, spread over the operator's samples; those that eager itself refuses are left out."""
    found = [s for s in op.sample_inputs("cpu", dtype, requires_grad=grad)]
    for s in found[:: max(1, len(found) // count)][:count]:
        leaves, spec = pytree.tree_flatten((s.input, s.args, s.kwargs))
        sample = Sample(op.op, leaves, spec, grad)
        if all(t.layout == torch.strided for t in sample.inputs):
            yield sample


def check(sample, stage, calls, operators):
    """Problems of one call, as words; None when no graph can hold it."""
    expected = sample(*sample.inputs)
    try:
        gm = functional_graph(sample, sample.inputs)
    except NO_GRAPH:
        return None
    except AssertionError as error:
        if "Could not find a token for effect" in str(error):  # aten._linalg_check_errors: needs aot's own handling
            return None
        raise
    operators.update(str(n.target) for n in gm.graph.nodes if isinstance(n.target, torch._ops.OpOverload))
    actual = execute(gm, sample.inputs, stage, calls)
    if len(actual) != len(expected):
        return [f"{len(expected)} results became {len(actual)}"]
    problems = [difference(e, a) for e, a in zip(expected, actual, strict=True)]
    if any(problems) and expected[0].dtype != torch.float64:
        try:
            reference = sample.in_double()
        except (RuntimeError, TypeError):  # the operator mixes types in a way that float64 does not allow
            reference = [None] * len(expected)
        problems = [difference(e, a, r) for e, a, r in zip(expected, actual, reference, strict=True)]
    return [p for p in problems if p]


def full_name(op):
    return op.name + (f".{op.variant_test_name}" if op.variant_test_name else "")


def operator_table(patterns=()):
    from torch.testing._internal.common_methods_invocations import op_db

    for op in op_db:
        name = full_name(op)
        if any(fnmatch.fnmatch(name, p) for p in patterns or ["*"]):
            if patterns or not any(fnmatch.fnmatch(name, p) for p in SKIP):
                yield name, op


def sweep(patterns=(), dtype=torch.float32, grad=False, count=4, stage="interpreter", change=None):
    """Yields (name, problems or None, Counter of kinds of calls, operators) for each operator."""
    for name, op in operator_table(patterns):
        dtypes = op.supported_backward_dtypes("cpu") if grad else op.supported_dtypes("cpu")
        if dtype not in dtypes or (grad and not op.supports_autograd):
            continue
        calls = {"extern": collections.Counter(), "fallback": collections.Counter()}
        problems, operators = [], collections.Counter()
        for sample in samples(op, dtype, grad, count):
            sample = sample.with_inputs(change) if change else sample
            try:
                problems += check(sample, stage, calls, operators) or []
            except Exception as error:
                problems.append(f"{type(error).__name__}: {str(error)[:200]}")
        yield name, problems, calls, operators
