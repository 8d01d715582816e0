"""Lowerings against eager on awkward inputs: many cases in one graph, through the IR interpreter and the C++ kernels."""

import itertools

import pytest
import torch
import torch.nn.functional as F
from op_sweep import difference, functional_graph, tensors

from minicompile import config, inductor

nan, inf = float("nan"), float("inf")
BACKENDS = ["interpreter", "cpp"]
INTEGERS = [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64]
HALVES = [torch.float16, torch.bfloat16]


def check(cases, *inputs, backend="interpreter", exact=()):
    """cases: name -> function of the inputs, all in one graph.  Names in `exact` must agree bitwise."""

    def every(*values):
        return [case(*values) for case in cases.values()]

    expected = [tensors(r) for r in every(*inputs)]
    with config.patch(cpu_backend=backend):
        actual = iter(inductor.compile(functional_graph(lambda *v: tensors(every(*v)), inputs), inputs)(*inputs))
    problems = []
    for name, results in zip(cases, expected, strict=True):
        for e in results:
            a = next(actual)
            found = difference(e, a)
            if not found and (name in exact or exact == "all") and not bitwise(e, a):
                found = "not bitwise equal"
            if found:
                problems.append(f"{name}: {found}{examples(e, a)}")
    assert not problems, "\n".join(problems)


def examples(expected, actual):
    """The first few elements that differ."""
    if expected.shape != actual.shape:
        return ""
    wrong = (expected != actual) & ~(expected.isnan() & actual.isnan())
    pairs = zip(wrong.nonzero().tolist()[:3], expected[wrong].tolist(), actual[wrong].tolist(), strict=False)
    return "".join(f"; at {at} {e!r} became {a!r}" for at, e, a in pairs)


def bitwise(a, b):
    same = torch.equal(torch.nan_to_num(a, nan=3.0), torch.nan_to_num(b, nan=3.0))
    return same and (not a.dtype.is_floating_point or torch.equal(a.signbit() & ~a.isnan(), b.signbit() & ~b.isnan()))


def awkward(dtype, wide=True):
    """Values at the edges of a dtype, in an odd number so that vector loops have a tail."""
    if dtype == torch.bool:
        return torch.tensor([True, False, True, True, False])
    if not dtype.is_floating_point:
        info = torch.iinfo(dtype)
        return torch.tensor([info.min, info.min + 1, 0, 1, 2, 3, 7, info.max - 1, info.max, 5, 100], dtype=dtype)
    values = [nan, inf, -inf, -0.0, 0.0, 0.5, -0.5, 1.5, 2.5, -2.5, 1.0, -1.0, 3.7, -3.7, 1e-3, 0.9999, 10.0, -10.0]
    values += [torch.finfo(dtype).tiny, torch.finfo(dtype).max, torch.finfo(dtype).min, 88.5, -104.0] if wide else []
    return torch.cat([torch.tensor(values, dtype=dtype), torch.linspace(-4, 4, 70).to(dtype)])


EXACT = "abs neg sign relu floor ceil trunc round square isnan isinf signbit reciprocal frac logical_not sgn".split()
SMOOTH = """sqrt exp exp2 expm1 log log2 log10 log1p sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh erf erfc
sigmoid rsqrt digamma lgamma erfinv""".split()


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, *HALVES], ids=str)
def test_unary(dtype, backend):
    # trigonometry of huge numbers and gamma functions near their poles are compared on moderate ones
    moderate = {"sin", "cos", "tan", "digamma", "lgamma", "expm1", "sinh", "cosh"}
    cases = {name: (lambda x, y, f=getattr(torch, name): f(x)) for name in EXACT + SMOOTH if name not in moderate}
    cases |= {name: (lambda x, y, f=getattr(torch, name): f(y)) for name in moderate}
    x = awkward(dtype)
    check(cases, x, torch.linspace(0.1, 9, 83).to(dtype), backend=backend, exact=EXACT)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("dtype", [*INTEGERS, torch.bool], ids=str)
def test_unary_of_integers(dtype, backend):
    names = "sqrt exp sin tanh sigmoid sign isnan logical_not bitwise_not reciprocal".split()
    cases = {name: getattr(torch, name) for name in names}
    if dtype != torch.bool:
        cases |= {
            "abs": torch.abs,
            "neg": torch.neg,
            "floor": torch.floor,
            "ceil": torch.ceil,
            "relu": torch.relu,
            "square": torch.square,
        }
    check(cases, awkward(dtype), backend=backend)


BINARY = {
    "add": torch.add,
    "sub": torch.sub,
    "mul": torch.mul,
    "div": torch.div,
    "floor": lambda a, b: torch.div(a, b, rounding_mode="floor"),
    "trunc": lambda a, b: torch.div(a, b, rounding_mode="trunc"),
    "remainder": torch.remainder,
    "fmod": torch.fmod,
    "maximum": torch.maximum,
    "minimum": torch.minimum,
    "eq": torch.eq,
    "lt": torch.lt,
    "ge": torch.ge,
    "logical_xor": torch.logical_xor,
    "where": lambda a, b: torch.where(a > b, a, b),
    "atan2": torch.atan2,
}


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, *HALVES, torch.int32, torch.uint8], ids=str)
def test_binary(dtype, backend):
    x = awkward(dtype, wide=False)
    y = x.roll(7)
    if not dtype.is_floating_point:
        y = torch.where(y == 0, 3, y)  # eager raises on a division by zero
        x = torch.where(x == torch.iinfo(dtype).min, 9, x)  # and min / -1 is undefined
    cases = {n: f for n, f in BINARY.items() if n != "atan2" or dtype.is_floating_point}
    check(cases, x, y, backend=backend, exact="all" if not dtype.is_floating_point else ())


@pytest.mark.parametrize("name", ["add", "sub", "mul", "div", "maximum", "lt", "where", "remainder", "floor"])
def test_type_promotion(name):
    """Every pair of dtypes, as tensors, 0-dim tensors and Python numbers: the result's dtype and value are eager's."""
    dtypes = [
        torch.bool,
        torch.uint8,
        torch.int32,
        torch.int64,
        torch.float16,
        torch.bfloat16,
        torch.float32,
        torch.float64,
    ]
    values = {
        d: torch.tensor([1, 0, 1, 1], dtype=d) if d == torch.bool else torch.tensor([1, 2, 3, 7]).to(d) for d in dtypes
    }
    inputs = [*values.values(), *(v[3].clone() for v in values.values())]
    n, function, cases = len(dtypes), BINARY[name], {}
    for (i, a), (j, b) in itertools.product(enumerate(dtypes), enumerate(dtypes)):
        if torch.bool in (a, b) and name in ("sub", "remainder", "floor"):
            continue  # eager refuses
        if b != torch.bool or name not in ("remainder", "floor"):  # no division by False
            cases[f"{a} {b}"] = lambda *v, i=i, j=j: function(v[i], v[j])
        cases[f"{a} 0-dim {b}"] = lambda *v, i=i, j=j: function(v[i], v[n + j])
    for i, a in enumerate(dtypes):
        for number in (2, 1.3, True):
            if (torch.bool == a or number is True) and name in ("sub", "remainder", "floor") or name == "maximum":
                continue
            cases[f"{a} {number}"] = lambda *v, i=i, k=number: function(v[i], k)
    check(cases, *inputs, exact="all")


def test_numbers_beside_half_tensors():
    """Eager rounds a number to the half type before it adds, but multiplies by the number itself."""
    x = torch.randn(301).bfloat16()
    cases = {
        "add": lambda x: x + 0.1,
        "rsub": lambda x: 0.1 - x,
        "mul": lambda x: x * 0.1,
        "div": lambda x: x / 0.3,
        "alpha": lambda x: torch.add(x, x, alpha=0.3),
        "addcmul": lambda x: torch.addcmul(x, x, x, value=0.1),
        "lerp": lambda x: torch.lerp(x, x * 2, 0.1),
        "leaky_relu": lambda x: F.leaky_relu(x, 0.1),
        "compare": lambda x: x > 0.1,
        "fill": lambda x: x.masked_fill(x > 0, 0.1),
        "power": lambda x: x.abs() ** 1.3,
    }
    check(cases, x, exact="all")


def test_powers():
    x = torch.cat([torch.rand(40) * 3, torch.tensor([0.0, -0.0, inf, nan, -2.0, -inf])])
    i = torch.tensor([0, 1, 2, -3, 5])
    powers = [0, 1, 2, 3, 0.5, -0.5, -1, -2, 4, 2.5, -3]
    cases = {f"x**{p}": (lambda x, i, p=p: x**p) for p in powers}
    cases |= {f"i**{p}": (lambda x, i, p=p: i**p) for p in (0, 1, 2, 3, 5, 0.5)}
    cases |= {"1**x": lambda x, i: 1**x, "2**x": lambda x, i: 2.0**x, "2**i": lambda x, i: 2 ** i.abs()}
    check(cases, x, i)


VIEWS = {
    "view": lambda x: x.view(4, 15, 2),
    "merge": lambda x: x.view(2, 60),
    "reshape copy": lambda x: x.transpose(0, 2).reshape(10, 12),
    "minus one": lambda x: x.view(-1, 5),
    "permute": lambda x: x.permute(2, 0, 3, 1),
    "expand": lambda x: x[:, :1].expand(2, 7, 4, 5),
    "slice": lambda x: x[:, 1:, ::2, -3:],
    "empty slice": lambda x: x[:, 3:1],
    "select": lambda x: x[1, -1],
    "unsqueeze": lambda x: x.unsqueeze(-1).unsqueeze(0),
    "squeeze": lambda x: x[:1, :, :1].squeeze(),
    "diagonal": lambda x: x.diagonal(1, 2, 3),
    "diagonal below": lambda x: x.diagonal(-1, -1, 0),
    "unfold": lambda x: x.unfold(3, 3, 2),
    "as_strided": lambda x: x.as_strided((3, 4), (7, 2), 5),
    "as_strided of a view": lambda x: x[1].as_strided((2, 3), (1, 4)),
    "flip": lambda x: x.flip(0, 3),
    "roll": lambda x: x.roll((1, -7), (0, 3)),
    "roll all": lambda x: x.roll(5),
    "repeat": lambda x: x.repeat(2, 1, 3, 1, 1),
    "tile": lambda x: x.tile((2, 2)),
    "repeat_interleave": lambda x: x.repeat_interleave(3, 1),
    "split": lambda x: x.split(2, 3),
    "chunk": lambda x: x.chunk(3, 1),
    "unbind": lambda x: x.unbind(2),
    "movedim": lambda x: x.movedim(0, -1),
    "bitcast": lambda x: x.view(torch.int32) + 1,
    "cat": lambda x: torch.cat([x, x[:, :, :1], x[:, :, 2:]], 2),
    "cat many": lambda x: torch.cat([x[:, :, :1]] * 11, 2),
    "cat types": lambda x: torch.cat([x, x.double(), x.int()], -1),
    "cat empty": lambda x: torch.cat([x.new_empty(0), x, x[:, :, :0]], 2),
    "stack": lambda x: torch.stack([x, x * 2], 2),
    "pad": lambda x: F.pad(x, (1, 2, -1, 3), value=7.0),
    "pad reflect": lambda x: F.pad(x, (1, 2, 0, 1), mode="reflect"),
    "pad circular": lambda x: F.pad(x, (1, 2, 0, 1), mode="circular"),
    "tril": lambda x: x.tril(1),
    "triu": lambda x: x.triu(-1),
    "slice_scatter": lambda x: x.slice_scatter(x[:, :, :2] * 2, 2, 0, 4, 2),
    "select_scatter": lambda x: x.select_scatter(x[0] * 2, 0, -1),
    "diagonal_scatter": lambda x: x.diagonal_scatter(torch.zeros(2, 3, 4), 1, 2, 3),
    "clone": lambda x: x.permute(0, 2, 3, 1).clone(memory_format=torch.contiguous_format),
    "channels_last": lambda x: (x * 2).contiguous(memory_format=torch.channels_last),
    "pixel_shuffle": lambda x: F.pixel_shuffle(x.reshape(1, 12, 2, 5), 2),
}


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("layout", ["contiguous", "channels_last", "sliced"])
def test_views(layout, backend):
    x = torch.randn(2, 3, 4, 5)
    cases = dict(VIEWS)
    if layout != "contiguous":  # eager itself cannot view these
        cases = {k: v for k, v in cases.items() if k not in ("view", "merge", "minus one", "as_strided")}
        x = (
            x.contiguous(memory_format=torch.channels_last)
            if layout == "channels_last"
            else torch.randn(2, 3, 4, 10)[..., ::2]
        )
    if layout == "sliced":
        cases.pop("as_strided of a view")
    if layout == "channels_last":
        cases.pop("bitcast")
    computed = {f"{name} of a result": (lambda x, f=f: f(x * 2)) for name, f in cases.items()}
    check(cases | computed if layout == "contiguous" else cases, x, backend=backend, exact="all")


def test_views_of_nothing_and_of_one():
    cases = {
        "empty view": lambda e, s: e.view(3, 0, 2),
        "empty flip": lambda e, s: e.flip(0) + 1,
        "empty roll": lambda e, s: e.roll(1, 0),
        "empty cat": lambda e, s: torch.cat([e, e]),
        "empty sum": lambda e, s: (e.sum(0), e.sum(), e.prod(1), e.mean(1), e.any(), e.all(0)),
        "empty softmax": lambda e, s: F.softmax(e, 1),
        "empty index": lambda e, s: s.view(1)[torch.zeros(0, dtype=torch.long)],
        "scalar view": lambda e, s: s.view(1, 1).expand(2, 3),
        "scalar sum": lambda e, s: (s.sum(), s.amax(0), s.softmax(0), s.argmax(), s.cumsum(0)),
        "scalar squeeze": lambda e, s: s.squeeze().unsqueeze(0),
    }
    check(cases, torch.empty(0, 6), torch.tensor(2.5))


REDUCTIONS = {
    "sum": torch.sum,
    "mean": torch.mean,
    "amax": torch.amax,
    "amin": torch.amin,
    "var": torch.var,
    "logsumexp": torch.logsumexp,
    "norm": torch.linalg.vector_norm,
    "any": torch.any,
    "all": torch.all,
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, *HALVES], ids=str)
def test_reductions(dtype):
    cases = {
        f"{name} {dims} {keep}": (lambda x, f=f, d=dims, k=keep: f(x, d, keepdim=k))
        for name, f in REDUCTIONS.items()
        for dims in ((0,), (1, -1), (0, 1, 2))
        for keep in (False, True)
    }
    for name in ("argmax", "argmin", "max", "min", "prod"):
        for dim in (0, -1):
            cases[f"{name} {dim}"] = lambda x, f=getattr(torch, name), d=dim: tensors(f(x, d))
    cases |= {
        "max all": lambda x: torch.max(x),
        "argmin all": lambda x: x.argmin(),
        "sum type": lambda x: x.sum(dtype=torch.float64),
    }
    check(cases, torch.randn(5, 4, 7).to(dtype).transpose(0, 2))


def test_reductions_of_integers_and_nan():
    cases = {
        "sums": lambda i, b, x: (i.sum(0), b.sum(), b.sum(1), i.prod(1), i.sum(dtype=torch.float32), b.float().mean()),
        "extremes": lambda i, b, x: (
            i.amax(1),
            b.amax(0),
            i.max(1),
            i.argmin(0),
            b.any(1),
            i.all(),
            b.long().cumsum(1),
        ),
        "nan": lambda i, b, x: (
            x.amax(1),
            x.argmax(1),
            x.argmin(0),
            x.max(1),
            x.min(0),
            x.sum(1),
            x.any(1),
            x.cumsum(0),
        ),
        "ties": lambda i, b, x: (i.clamp(0, 1).argmax(1), i.clamp(0, 1).max(0)),
    }
    x = torch.randn(4, 6)
    x[1, 2] = x[1, 4] = nan
    x[2, 0] = inf
    check(cases, torch.randint(-5, 9, (4, 6)), torch.randn(4, 6) > 0, x)


INDEXING = {
    "one": lambda x, i, j, m: x[i],
    "second": lambda x, i, j, m: x[:, i],
    "both": lambda x, i, j, m: x[i, j],
    "apart": lambda x, i, j, m: x[i, :, j],
    "broadcast": lambda x, i, j, m: x[i.view(-1, 1), j],
    "with slice": lambda x, i, j, m: x[1:, None, i, ..., j],
    "two-dim": lambda x, i, j, m: x[:, i.view(2, 2)],
    "int32": lambda x, i, j, m: x[i.int()],
    "number": lambda x, i, j, m: x[1, i],
    "list": lambda x, i, j, m: x[[0, -1]],
    "index_select": lambda x, i, j, m: x.index_select(2, i.abs()),
    "take": lambda x, i, j, m: x.take(i * 7),
    "gather": lambda x, i, j, m: x.gather(1, i.abs().view(1, 4, 1).expand(2, 4, 2)),
    "embedding": lambda x, i, j, m: F.embedding(i.abs(), x[0], padding_idx=1),
    "masked_fill": lambda x, i, j, m: x.masked_fill(m, -1.0),
    "mask put": lambda x, i, j, m: x.index_put((m,), torch.tensor(3.0)),
    "put": lambda x, i, j, m: x.index_put((i, j), torch.ones(4, 3)),
    "put none": lambda x, i, j, m: torch.ops.aten.index_put(x, [None, i], torch.ones(4, 3)),
    "accumulate": lambda x, i, j, m: x.index_put((i.view(-1, 1), j), torch.tensor(1.0), accumulate=True),
    "index_add": lambda x, i, j, m: x.index_add(1, i.abs(), torch.ones(3, 4, 3), alpha=2.0),
    "index_copy": lambda x, i, j, m: x.index_copy(0, i.abs()[:2], torch.ones(2, 3, 3)),
    "index_fill": lambda x, i, j, m: x.index_fill(2, i.abs(), 5.0),
    "scatter": lambda x, i, j, m: x.scatter(0, i.abs().view(1, 2, 2), 4.0),
    "scatter_add": lambda x, i, j, m: x.scatter_add(2, i.abs().view(2, 2, 1).expand(2, 2, 3), x),
    "scatter_reduce": lambda x, i, j, m: x.scatter_reduce(1, i.abs().view(1, 4, 1), x[:1, :1].expand(1, 4, 3), "amax"),
    "scatter_mean": lambda x, i, j, m: x.scatter_reduce(1, i.abs().view(1, 4, 1), x[:1, :1].expand(1, 4, 3), "mean"),
    "one_hot": lambda x, i, j, m: F.one_hot(i.abs(), 4),
    "isin": lambda x, i, j, m: torch.isin(i, j),
}


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_indexing(dtype, backend):
    i, j = torch.tensor([0, -1, 2, 1]), torch.tensor([1, 2, -3, 0])
    cases = {n: (lambda x, i, j, m, f=f: f(x, i, j, m)) for n, f in INDEXING.items()}
    if dtype != torch.float32:
        cases = {n: f for n, f in cases.items() if n in ("one", "apart", "gather", "masked_fill", "scatter", "take")}
    check(cases, torch.randn(3, 3, 3).to(dtype), i, j, torch.randn(3, 3, 3) > 0, backend=backend)


BAD = {
    "index": lambda x, i: x[i],
    "embedding": lambda x, i: F.embedding(i, x),
    "gather": lambda x, i: x.gather(0, i.view(1, -1)),
    "index_select": lambda x, i: x.index_select(0, i),
    "take": lambda x, i: x.take(i),
    "scatter": lambda x, i: x.scatter(0, i.view(1, -1), 1.0),
    "index_put": lambda x, i: x.index_put((i,), torch.zeros(2, 4)),
    "division": lambda x, i: i // (i - i),
}


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", BAD)
def test_bad_values_raise_as_in_eager(name, backend):
    """An index out of range and an integer division by zero raise what eager raises."""
    x, function = torch.randn(3, 4), BAD[name]
    good, bad = torch.tensor([0, 1]), torch.tensor([0, 77])
    with pytest.raises((IndexError, RuntimeError)) as expected:
        function(x, bad)
    with config.patch(cpu_backend=backend):
        call = inductor.compile(functional_graph(lambda *v: [function(*v)], (x, good)), (x, good))
    with pytest.raises((IndexError, RuntimeError)) as actual:
        call(x, bad)
    assert issubclass(actual.type, expected.type) or issubclass(expected.type, actual.type), (
        actual.type,
        expected.type,
    )


WINDOWS = {
    "max": lambda x: F.max_pool2d(x, 3, 2, 1, return_indices=True),
    "max ceil": lambda x: F.max_pool2d(x, 2, ceil_mode=True, return_indices=True),
    "max dilated": lambda x: F.max_pool2d(x, 2, 1, dilation=2, return_indices=True),
    "max big": lambda x: F.max_pool2d(x, 6, return_indices=True),
    "average": lambda x: F.avg_pool2d(x, 2),
    "average padded": lambda x: F.avg_pool2d(x, 3, 2, 1),
    "average inside": lambda x: F.avg_pool2d(x, 3, 2, 1, count_include_pad=False),
    "average ceil": lambda x: F.avg_pool2d(x, (2, 3), ceil_mode=True),
    "average divisor": lambda x: F.avg_pool2d(x, 2, divisor_override=3),
    "adaptive": lambda x: F.adaptive_avg_pool2d(x, (4, 2)),
    "adaptive odd": lambda x: F.adaptive_avg_pool2d(x, 3),
    "global": lambda x: F.adaptive_avg_pool2d(x, 1),
    "nearest": lambda x: F.interpolate(x, scale_factor=2),
    "nearest thrice": lambda x: F.interpolate(x, scale_factor=3),
    "nearest odd": lambda x: F.interpolate(x, size=(11, 3)),
    "nearest scale": lambda x: F.interpolate(x, scale_factor=1.7),
    "exact": lambda x: F.interpolate(x, size=(5, 13), mode="nearest-exact"),
    "bilinear": lambda x: F.interpolate(x, size=(5, 13), mode="bilinear"),
    "bilinear corners": lambda x: F.interpolate(x, scale_factor=2, mode="bilinear", align_corners=True),
}


@pytest.mark.parametrize("backend", BACKENDS)
def test_windows(backend):
    check(WINDOWS, torch.randn(2, 3, 8, 6).round(decimals=1), backend=backend)


@pytest.mark.parametrize("name", [n for n in WINDOWS if n != "exact"])
def test_windows_backward(name):
    def gradient(x):
        out = tensors(WINDOWS[name](x))[0]
        weight = (torch.arange(out.numel()) % 5 + 1.0).view(out.shape)
        return torch.autograd.grad((out * weight).sum(), x)[0]

    check({name: gradient}, torch.randn(2, 3, 8, 6).round(decimals=1).requires_grad_())


def test_creation():
    cases = {
        "full": lambda x: x + torch.full((3,), 2),
        "arange": lambda x: torch.arange(2, 11, 3),
        "arange float": lambda x: torch.arange(0.1, 7, 0.3),
        "arange half": lambda x: torch.arange(0, 1, 0.01, dtype=torch.bfloat16),
        "linspace": lambda x: torch.linspace(-1, 1, 17),
        "eye": lambda x: torch.eye(3, 4),
        "like": lambda x: (torch.zeros_like(x), torch.ones_like(x, dtype=torch.int64), torch.full_like(x, inf)),
        "like strides": lambda x: torch.ones_like(x.expand(2, 3).t()),
        "new": lambda x: (x.new_zeros(2, 2), x.new_full((2,), 3), x.new_ones(())),
        "scalar": lambda x: torch.tensor(3) * x,
        "tri": lambda x: (torch.tril_indices(3, 4), torch.triu_indices(3, 3, 1)),
    }
    check(cases, torch.randn(3), exact=[n for n in cases if n != "linspace"])


def test_fallback_calls_aten():
    """What has no lowering is one ATen call in the graph, and the record counts it."""
    from minicompile import record

    x = torch.randn(6, 6)
    check(
        {
            "sort": lambda x: x.sort(1),
            "svd": lambda x: torch.linalg.svdvals(x),
            "fft": lambda x: torch.fft.rfft(x).abs(),
        },
        x,
    )
    assert record.counters["fallbacks"] >= 3
