"""Infinities, NaN, zeros of both signs, subnormal and huge numbers through every function of single numbers.

Goes in: functions, edge values, tensors of lengths that make scalar code, vectors and both.  Held: the compiled
function has infinities, NaN, zeros and signs where eager has them.  Eager's own scalar and vector code differ in places
(an infinite `gelu`, `fmod` by a subnormal number), and so does what it gives in float64: each answer is right.
"""

import functools

import pytest
import torch
import torch.nn.functional as F

import minicompile

EDGES = [float("inf"), float("nan"), 0.0, 1e-310, 1e-40, 6e-8, 0.5, 1.0, 2.5, 4.5, 20.0, 88.7, 88.73, 103.0, 65504.0]
EDGES += [709.8, 3.4e38, 1e300]
EDGES += [-x for x in EDGES]
FEW = [x for x in EDGES if abs(x) not in (4.5, 20.0, 88.7, 103.0, 709.8, 6e-8, 1e300)]  # of them pairs are made
LENGTHS = (1, 7, 64, 67)
DTYPES = (torch.float32, torch.float64, torch.bfloat16, torch.float16)
COLUMNS = 12  # functions that are compiled at once

ONE = "abs acos acosh asin asinh atan atanh ceil cos cosh deg2rad digamma erf erfc erfinv exp exp2 expm1 floor frac"
ONE += " isfinite isinf isnan isneginf isposinf lgamma log log10 log1p log2 logical_not logit nan_to_num neg rad2deg"
ONE += " reciprocal relu round rsqrt sgn sigmoid sign signbit sin sinc sinh sqrt square tan tanh trunc"
ACTIVATIONS = "celu elu gelu hardshrink hardsigmoid hardswish hardtanh leaky_relu logsigmoid mish relu6 selu silu"
ACTIVATIONS += " softplus softshrink softsign tanhshrink"
OF_ONE = {name: getattr(torch, name) for name in ONE.split()}
OF_ONE |= {name: getattr(torch.special, name) for name in "entr erfcx i0e log_ndtr ndtr".split()}
OF_ONE |= {name: getattr(F, name) for name in ACTIVATIONS.split()}
OF_ONE |= {
    "gelu, by tanh": functools.partial(F.gelu, approximate="tanh"),
    "threshold": lambda x: F.threshold(x, 0.1, 20.0),
    "clamp": lambda x: x.clamp(-1, 1),
    "clamp from 0": lambda x: x.clamp(min=0),
    "clamp to 0": lambda x: x.clamp(max=0.0),
    **{f"power {n}": lambda x, n=n: x**n for n in (2, 3, 0.5, -1, -0.5, 1.7)},
    "of 2": lambda x: 2**x,
    "of 0": lambda x: 0.0**x,
    "by 0": lambda x: x / 0.0,
    "floor of a third": lambda x: x // 3,
    "rest of threes": lambda x: x % 3,
    "fmod 3": lambda x: torch.fmod(x, 3.0),
    "two digits": lambda x: torch.round(x, decimals=2),
    **{str(dtype): lambda x, dtype=dtype: x.to(dtype) for dtype in (*DTYPES, torch.bool)},
}
TWO = (
    "add sub mul div maximum minimum fmax fmin pow atan2 hypot copysign nextafter fmod remainder floor_divide eq ne lt"
)
TWO += " le gt ge logaddexp xlogy heaviside logical_and logical_xor"
OF_TWO = {name: getattr(torch, name) for name in TWO.split()}
OF_TWO |= {
    "quotient, towards 0": lambda x, y: torch.div(x, y, rounding_mode="trunc"),
    "choice": lambda x, y: torch.where(x > y, x, y),
    "clamp by tensors": lambda x, y: x.clamp(y, x + 1),
    "lerp": lambda x, y: torch.lerp(x, y, 0.3),
    "addcmul": lambda x, y: torch.addcmul(x, x, y),
    "addcdiv": lambda x, y: torch.addcdiv(x, x, y),
    "xlog1py": torch.special.xlog1py,
    **{
        name: functools.partial(getattr(F, name), reduction="none")
        for name in "binary_cross_entropy_with_logits huber_loss mse_loss smooth_l1_loss".split()
    },
}
GROUPS = [
    {name: table[name] for name in list(table)[k : k + COLUMNS]}
    for table in (OF_ONE, OF_TWO)
    for k in range(0, len(table), COLUMNS)
]


def kinds(result):
    """Of each number: NaN, or its sign with whether it is 0, finite or infinite."""
    if not result.dtype.is_floating_point:
        return result.long()
    size = torch.where(result.isinf(), 3, torch.where(result == 0, 1, 2))
    return torch.where(result.isnan(), 0, torch.where(result.signbit(), -size, size))


def inputs(dtype, count):
    """All values, or all pairs of some, as flat tensors."""
    values = torch.tensor(EDGES if count == 1 else FEW, dtype=torch.float64).to(dtype).unique(sorted=False)
    return torch.meshgrid(*[values] * count, indexing="ij") if count > 1 else (values,)


def known(function, dtype, count):
    """Has eager this function in this dtype?"""
    try:
        function(*[torch.ones(1, dtype=dtype)] * count)
    except NotImplementedError:
        return False
    return True


def check(group, dtype, length):
    count = 2 if next(iter(group)) in OF_TWO else 1
    group = {name: f for name, f in group.items() if known(f, dtype, count)}
    flat, functions, wrong = [x.flatten() for x in inputs(dtype, count)], list(group.values()), {}
    every = minicompile.compile(lambda *args: [f(*args) for f in functions], dynamic=False)
    for first in range(0, len(flat[0]), length):
        args = [x.roll(-first).repeat(-(-length // len(x)))[:length] for x in flat]
        for name, f, ours in zip(group, functions, every(*args), strict=True):
            eager = f(*args)
            assert ours.dtype == eager.dtype, name
            for place in (kinds(ours) != kinds(eager)).nonzero().flatten().tolist():
                numbers = [x[place : place + 1].clone() for x in args]
                others = f(*numbers), f(*(x.double() for x in numbers)).to(eager.dtype)
                if kinds(ours)[place] not in [kinds(other)[0] for other in others]:
                    case = tuple(x.item() for x in numbers)
                    wrong[name, case] = eager[place].item(), ours[place].item()
    assert not wrong


@pytest.mark.parametrize("number", range(len(GROUPS)))
def test_edge_values(number):
    check(GROUPS[number], torch.float32, 67)


@pytest.mark.slow
@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("number", range(len(GROUPS)))
def test_every_edge_value(number, dtype, length):
    check(GROUPS[number], dtype, length)
