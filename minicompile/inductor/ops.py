"""The scalar operations: ONE row each.  A new scalar operation is one row here and nothing anywhere else.

Goes in: nothing.  Comes out: `OPS[name]`, an `OpSpec` that the IR (type rule), the interpreter (eager), the code
generators (C++ and Triton text) and the fusion heuristics (cost) all read.  Mirrors `torch/_inductor/ops_handler.py`
and the overrides in `codegen/cpp.py` and `codegen/triton.py`.  Taught in chapter 09.

All operands of a row have one dtype unless its rule says otherwise: promotion is the lowering's work (explicit
`cast`s). bfloat16 and float16 are computed in float32 by the code generators and rounded where they are stored or
cast. `m_...` names are functions of `codegen/cpp_prelude.py`; `{0}` is the first operand, `{err}` an error flag that
is set to `ERROR_DIVISION` when eager would raise, `{type}`/`{src}` the C++ (Triton) type of the result/of the first
operand, `{store}` the C++ type as which the result would be stored.
"""

import dataclasses
import functools
from collections.abc import Callable

import torch

from .. import philox

ERROR_INDEX, ERROR_DIVISION = 1, 2  # bits of the flag that a kernel returns


@dataclasses.dataclass(frozen=True)
class OpSpec:
    """One scalar operation.  rule: how the result's dtype follows from the operands' (see RULES)."""

    name: str
    rule: str
    eager: Callable
    cpp: str
    triton: str
    cost: int  # about one per vector instruction: 0 free, 1 arithmetic, 4 division, 12+ transcendental

    def result_dtype(self, dtypes, dtype=None):
        fits, result = RULES[self.rule]
        named = self.rule == "given"
        if not fits(dtypes) or (named and dtype is None):
            raise TypeError(f"{self.name} ({self.rule}) does not take ({', '.join(str(d) for d in dtypes)})")
        return dtype if named else result or dtypes[-1]


def _alike(dtypes):
    return len(set(dtypes)) == 1


RULES = {  # name -> (do operands of these dtypes fit, the result's dtype where it is not the last operand's)
    "same": (_alike, None),
    "float": (lambda dtypes: _alike(dtypes) and dtypes[0].is_floating_point, None),
    "integer": (lambda dtypes: _alike(dtypes) and not dtypes[0].is_floating_point, None),  # or truth values
    "compare": (_alike, torch.bool),
    "logical": (lambda dtypes: set(dtypes) == {torch.bool}, torch.bool),
    "where": (lambda dtypes: len(dtypes) == 3 and dtypes[0] == torch.bool and _alike(dtypes[1:]), None),
    "draw": (lambda dtypes: dtypes[0] == torch.int64 and dtypes[1] in (torch.int32, torch.int64), torch.float32),
    "given": (lambda dtypes: len(dtypes) == 1, None),  # the dtype that the expression names
}


def _div(mode):
    return functools.partial(torch.div, rounding_mode=mode)


def _math(name, cost=16, triton="libdevice.{name}({{0}})", cpp="m_{name}({{0}})"):
    """A function of one floating number that has the same name everywhere."""
    return (name, "float", getattr(torch, name), cpp.format(name=name), triton.format(name=name), cost)


ROWS = [
    # name, rule, eager, C++, Triton, cost ---- arithmetic
    ("add", "same", torch.add, "{0} + {1}", "{0} + {1}", 1),
    ("sub", "same", torch.sub, "{0} - {1}", "{0} - {1}", 1),
    ("mul", "same", torch.mul, "{0} * {1}", "{0} * {1}", 1),
    ("neg", "same", torch.neg, "-{0}", "rt.neg({0})", 1),
    ("abs", "same", torch.abs, "m_abs({0})", "rt.abs({0})", 1),
    ("square", "same", lambda x: x * x, "{0} * {0}", "{0} * {0}", 1),
    ("truediv", "float", torch.div, "{0} / {1}", "rt.div({0}, {1})", 4),
    ("reciprocal", "float", torch.reciprocal, "{type}(1) / {0}", "rt.reciprocal({0})", 4),
    ("floordiv", "same", _div("floor"), "m_floordiv({0}, {1}, {err})", "rt.floordiv({0}, {1})", 8),
    ("truncdiv", "same", _div("trunc"), "m_truncdiv({0}, {1}, {err})", "rt.truncdiv({0}, {1})", 8),
    ("remainder", "same", torch.remainder, "m_remainder({0}, {1}, {err})", "rt.remainder({0}, {1})", 8),
    ("fmod", "same", torch.fmod, "m_fmod({0}, {1}, {err})", "rt.fmod({0}, {1})", 8),
    ("maximum", "same", torch.maximum, "m_maximum({0}, {1})", "rt.maximum({0}, {1})", 2),
    ("minimum", "same", torch.minimum, "m_minimum({0}, {1})", "rt.minimum({0}, {1})", 2),
    ("fmax", "same", torch.fmax, "m_fmax({0}, {1})", "rt.fmax({0}, {1})", 2),
    ("fmin", "same", torch.fmin, "m_fmin({0}, {1})", "rt.fmin({0}, {1})", 2),
    ("relu", "same", torch.relu, "({0} < {type}(0) ? {type}(0) : {0})", "tl.where({0} < 0, 0, {0}).to({0}.dtype)", 1),
    ("sign", "same", torch.sign, "m_sign({0})", "rt.sign({0})", 2),
    # ---- comparisons, logic, choice
    ("eq", "compare", torch.eq, "{0} == {1}", "{0} == {1}", 1),
    ("ne", "compare", torch.ne, "{0} != {1}", "{0} != {1}", 1),
    ("lt", "compare", torch.lt, "{0} < {1}", "{0} < {1}", 1),
    ("le", "compare", torch.le, "{0} <= {1}", "{0} <= {1}", 1),
    ("gt", "compare", torch.gt, "{0} > {1}", "{0} > {1}", 1),
    ("ge", "compare", torch.ge, "{0} >= {1}", "{0} >= {1}", 1),
    ("logical_and", "logical", torch.logical_and, "{0} & {1}", "{0} & {1}", 1),
    ("logical_or", "logical", torch.logical_or, "{0} | {1}", "{0} | {1}", 1),
    ("logical_xor", "logical", torch.logical_xor, "{0} ^ {1}", "{0} ^ {1}", 1),
    ("logical_not", "logical", torch.logical_not, "!{0}", "~{0}", 1),
    ("where", "where", torch.where, "{0} ? {1} : {2}", "tl.where({0}, {1}, {2})", 1),
    ("isnan", "compare", torch.isnan, "m_isnan({0})", "{0} != {0}", 1),
    ("isinf", "compare", torch.isinf, "m_isinf({0})", "rt.isinf({0})", 1),
    ("signbit", "compare", torch.signbit, "m_signbit({0})", "rt.signbit({0})", 1),
    # ---- bits
    ("bitwise_and", "integer", torch.bitwise_and, "{0} & {1}", "{0} & {1}", 1),
    ("bitwise_or", "integer", torch.bitwise_or, "{0} | {1}", "{0} | {1}", 1),
    ("bitwise_xor", "integer", torch.bitwise_xor, "{0} ^ {1}", "{0} ^ {1}", 1),
    ("bitwise_not", "integer", torch.bitwise_not, "m_not({0})", "rt.bitwise_not({0})", 1),
    ("left_shift", "integer", torch.bitwise_left_shift, "m_shl({0}, {1})", "rt.shl({0}, {1})", 2),
    ("right_shift", "integer", torch.bitwise_right_shift, "m_shr({0}, {1})", "rt.shr({0}, {1})", 2),
    # ---- types.  `cast` converts as `Tensor.to` does; `bitcast` reads the same bits as another dtype of the same size
    ("cast", "given", None, "m_cast<{type}, {src}>({0})", "rt.cast({0}, {type})", 1),
    ("bitcast", "given", None, "m_bitcast<{type}>({0})", "rt.bitcast({0}, {src}, {type})", 0),
    # ---- rounding (round: half to even)
    ("floor", "float", torch.floor, "m_floor({0})", "libdevice.floor({0})", 1),
    ("ceil", "float", torch.ceil, "m_ceil({0})", "libdevice.ceil({0})", 1),
    ("trunc", "float", torch.trunc, "m_trunc({0})", "libdevice.trunc({0})", 1),
    ("round", "float", torch.round, "m_round({0})", "libdevice.nearbyint({0})", 1),
    # ---- floating functions of one number
    _math("sqrt", cost=4, triton="rt.{name}({{0}})"),
    ("rsqrt", "float", torch.rsqrt, "{type}(1) / m_sqrt({0})", "libdevice.rsqrt({0})", 8),
    ("sigmoid", "float", torch.sigmoid, "{type}(1) / ({type}(1) + m_exp(-{0}))", "rt.sigmoid({0})", 20),
    _math("exp", cpp="m_exp_tiny({{0}})"),
    *map(_math, "exp2 expm1 log log2 log10 log1p sin cos".split()),
    *(_math(name, cost=20) for name in "tan asin acos atan sinh cosh tanh asinh acosh atanh erf".split()),
    _math("erfc", cost=24),
    _math("erfinv", cost=40),
    _math("lgamma", cost=60),
    _math("digamma", cost=60, triton="rt.{name}({{0}})"),
    # ---- floating functions of two numbers
    ("pow", "same", torch.pow, "m_pow({0}, {1})", "rt.pow({0}, {1})", 30),
    ("atan2", "float", torch.atan2, "m_atan2({0}, {1})", "libdevice.atan2({0}, {1})", 24),
    ("hypot", "float", torch.hypot, "m_hypot({0}, {1})", "libdevice.hypot({0}, {1})", 12),
    ("copysign", "float", torch.copysign, "m_copysign({0}, {1})", "libdevice.copysign({0}, {1})", 1),
    ("nextafter", "float", torch.nextafter, "m_nextafter<{store}>({0}, {1})", "libdevice.nextafter({0}, {1})", 20),
    # ---- random numbers (see philox.py; C++ kernels get eager's)
    ("uniform", "draw", philox.uniform_at, "", "rt.uniform({0}, {1})", 30),
    ("uniform_0", "draw", lambda seed, i: philox.uniform_at(seed, i, 0), "", "rt.uniform_word({0}, {1}, 0)", 30),
    ("uniform_1", "draw", lambda seed, i: philox.uniform_at(seed, i, 1), "", "rt.uniform_word({0}, {1}, 1)", 30),
]  # fmt: skip

OPS = {row[0]: OpSpec(*row) for row in ROWS}


@dataclasses.dataclass(frozen=True)
class ReductionSpec:
    """One reduction.

    combine: the scalar operation that joins two partial results; identity: its neutral element by dtype.
    """

    name: str
    combine: str
    identity: Callable
    eager: Callable  # (tensor, dim) -> tensor
    cost: int = 1


def lowest(dtype):
    """The neutral element of max."""
    return False if dtype == torch.bool else float("-inf") if dtype.is_floating_point else torch.iinfo(dtype).min


def highest(dtype):
    """The neutral element of min."""
    return True if dtype == torch.bool else float("inf") if dtype.is_floating_point else torch.iinfo(dtype).max


def _number(value):
    """The neutral element that is this number in each dtype."""
    return lambda dtype: torch.tensor(value, dtype=dtype).item()


# How a scatter combines -> the scalar operation.
COMBINES = {"add": "add", "prod": "mul", "max": "maximum", "min": "minimum"}
# A NaN wins max, min, argmax and argmin; the first of equal elements wins the arg ones, whose result is an int64 index.
REDUCTIONS = {
    spec.name: spec
    for spec in (
        ReductionSpec("sum", "add", _number(0), lambda x, dim: torch.sum(x, dim, dtype=x.dtype)),
        ReductionSpec("prod", "mul", _number(1), lambda x, dim: torch.prod(x, dim, dtype=x.dtype)),
        ReductionSpec("max", "maximum", lowest, torch.amax, 2),
        ReductionSpec("min", "minimum", highest, torch.amin, 2),
        ReductionSpec("any", "logical_or", lambda dtype: False, torch.any),
        ReductionSpec("all", "logical_and", lambda dtype: True, torch.all),
        ReductionSpec("argmax", "maximum", lowest, torch.argmax, 3),
        ReductionSpec("argmin", "minimum", highest, torch.argmin, 3),
    )
}
