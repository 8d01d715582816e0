"""Elementwise and creation lowerings against eager on awkward inputs, by the IR interpreter and the C++ kernels."""

import itertools

import pytest
import torch
import torch.nn.functional as F
from lowering_checks import BACKENDS, HALVES, INTEGERS, awkward, check, inf, nan

from minicompile import record

EXACT = "abs neg sign relu floor ceil trunc round square isnan isinf signbit reciprocal frac logical_not sgn".split()
SMOOTH = """sqrt exp exp2 expm1 log log2 log10 log1p sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh erf
erfc sigmoid rsqrt digamma lgamma erfinv""".split()


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
    check(cases, x, exact=[n for n in cases if n != "alpha"])  # there eager's vector loop fuses the multiplication


def test_powers():
    x = torch.cat([torch.rand(40) * 3, torch.tensor([0.0, -0.0, inf, nan, -2.0, -inf])])
    i = torch.tensor([0, 1, 2, -3, 5])
    powers = [0, 1, 2, 3, 0.5, -0.5, -1, -2, 4, 2.5, -3]
    cases = {f"x**{p}": (lambda x, i, p=p: x**p) for p in powers}
    cases |= {f"i**{p}": (lambda x, i, p=p: i**p) for p in (0, 1, 2, 3, 5, 0.5)}
    cases |= {"1**x": lambda x, i: 1**x, "2**x": lambda x, i: 2.0**x, "2**i": lambda x, i: 2 ** i.abs()}
    check(cases, x, i)


@pytest.mark.parametrize("dtype", HALVES, ids=str)
def test_roots_of_half_types(dtype):
    """Eager's powers of float16 have no roots: -inf to the 0.5 is inf, and -0.0 is 0.0."""
    x = torch.tensor([-inf, -0.0, 0.0, 4.0, -1.0, inf, nan] * 9, dtype=dtype)
    cases = {f"x**{p}": (lambda x, p=p: x**p) for p in (0.5, -0.5, 1.5, -1, -2)}
    check(cases, x, backend="cpp", exact="all")


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, *HALVES], ids=str)
def test_sums_begin_with_zero(dtype):
    """A sum or mean of -0.0 alone is 0.0."""
    x = -torch.zeros(3, 1, 4, 4, dtype=dtype)
    cases = {
        "sum": lambda x: x.sum(1),
        "sum of a scalar": lambda x: x[0, 0, 0, 0].sum(),
        "mean": lambda x: x.mean(1, keepdim=True),
        "avg_pool": lambda x: F.avg_pool2d(x, 2),
        "avg_pool, one element": lambda x: F.avg_pool2d(x, 1),
        "adaptive_avg_pool": lambda x: F.adaptive_avg_pool2d(x, 4),
        "product": lambda x: x.prod(1),
    }
    check(cases, x, backend="cpp", exact="all")


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
    check(cases, torch.randn(3), exact=[n for n in cases if n not in ("linspace", "arange half")])


def test_fallback_calls_aten():
    """What has no lowering is one ATen call in the graph, and the record counts it."""
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
