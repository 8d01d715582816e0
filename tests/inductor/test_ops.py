"""Every row of the scalar table in C++ against its eager column, over dtypes and values that break naive code."""

import itertools

import pytest
import torch

from minicompile import inductor
from minicompile.inductor import ir
from minicompile.inductor.graph import IRGraph
from minicompile.inductor.interpreter import Interpreter
from minicompile.inductor.ir import Buffer, Layout, Load, Op, Pointwise, View
from minicompile.inductor.ops import OPS

FLOATS = (torch.float32, torch.float64, torch.bfloat16, torch.float16)
INTEGERS = (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)
SPECIAL = [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, 2.5, -2.5, 3.0, 7.25, -7.25, 1e-3, 1e-40, 300.0, -300.0, 1e30, -1e30]
SPECIAL += [float("inf"), -float("inf"), float("nan"), 88.0, -104.0, 0.9999, -0.9999]
DIVISIONS = ("floordiv", "truncdiv", "remainder", "fmod")


def samples(dtype):
    if dtype == torch.bool:
        return torch.tensor([True, False])
    if dtype.is_floating_point:
        return torch.tensor(SPECIAL, dtype=torch.float64).to(dtype)
    info = torch.iinfo(dtype)
    return torch.tensor([info.min, info.min + 1, info.max, info.max - 1, 0, 1, 2, 3, 5, 7, info.max // 3], dtype=dtype)


def run(*cases):
    """One graph, a buffer for each case (expression builder, inputs, dtype): C++ and interpreter results."""
    inputs, layouts, buffers, outputs = [], {}, [], []
    for build, tensors, dtype in cases:
        variables = ir.loop_vars(tensors[0].shape)
        position = tuple(map(ir.index, variables))
        loads = []
        for tensor in tensors:
            name = f"arg{len(inputs)}"
            inputs.append(tensor)
            layouts[name] = Layout.contiguous(tensor.device, tensor.dtype, tensor.shape)
            loads.append(Load(name, position, tensor.dtype))
        layout = Layout.contiguous(tensors[0].device, dtype, tensors[0].shape)
        buffers.append(Buffer(f"buf{len(buffers)}", layout, Pointwise(variables, build(*loads))))
        outputs.append(View(buffers[-1].name, layout))
    graph = IRGraph(layouts, {}, buffers, outputs)
    call = inductor.load(inductor.codegen(inductor.schedule(graph)))
    return call(*inputs), Interpreter(graph)(*inputs)


def dtypes_of(spec):
    if spec.rule == "float":
        return FLOATS
    if spec.rule == "integer":
        return INTEGERS if "shift" in spec.name else (*INTEGERS, torch.bool)
    return (torch.bool,) if spec.rule == "logical" else (*FLOATS, *INTEGERS)


def operands(spec, dtype):
    count = {"where": 3, "fma": 3}.get(spec.name) or (2 if "{1}" in spec.cpp else 1)
    value = samples(dtype)
    columns = list(zip(*itertools.product(*[range(len(value))] * min(count, 2)), strict=True))
    tensors = [value[list(c)] for c in columns]
    if spec.name in DIVISIONS and not dtype.is_floating_point:
        keep = tensors[1] != 0  # eager raises: tested below
        keep &= ~((tensors[0] == torch.iinfo(dtype).min) & (tensors[1] == -1))  # and dies of SIGFPE here
        tensors = [t[keep] for t in tensors]
    if spec.name in ("fmod", "remainder") and dtype.is_floating_point:  # eager's vectors give NaN for huge quotients
        keep = (tensors[0] / tensors[1]).abs().double() < 1e6
        tensors = [t[keep] for t in tensors]
    if spec.name == "pow" and not dtype.is_floating_point:
        tensors[1] = tensors[1].clamp(0, 5)
    if spec.name == "where":
        tensors = [tensors[0] > tensors[1], *tensors]
    if spec.name == "fma":
        tensors.append(tensors[1].flip(0).contiguous())
    return [t.contiguous() for t in tensors]


def expected_of(spec, inputs):
    try:
        return spec.eager(*inputs)
    except RuntimeError as error:  # some functions have no half kernel
        assert "not implemented" in str(error)
        return None


@pytest.mark.parametrize("name", [n for n, s in OPS.items() if s.cpp and s.rule != "given" and n != "fma"])
def test_row(name):
    spec, cases = OPS[name], []
    for dtype in dtypes_of(spec):
        inputs = operands(spec, dtype)
        expected = expected_of(spec, inputs)
        if expected is not None:
            cases.append((dtype, inputs, spec.result_dtype([t.dtype for t in inputs]), expected))
    results = run(*((lambda *loads, to=to: Op(name, loads, to), inputs, to) for _, inputs, to, _ in cases))
    for (dtype, _, _, expected), compiled, interpreted in zip(cases, *results, strict=True):
        check_row(spec, dtype, compiled, expected)
        torch.testing.assert_close(interpreted, expected, equal_nan=True, rtol=0, atol=0)


def check_row(spec, dtype, compiled, expected):
    exact = spec.cost < 8 and dtype != torch.float16 and spec.name != "sqrt"  # eager's is one bit off
    error = {"rtol": 0, "atol": 0} if exact else {}
    if spec.name in ("erfinv", "digamma", "lgamma", "tan") and dtype == torch.float32:
        error = {"rtol": 2e-4, "atol": 1e-5}
    message = f"{spec.name} {dtype}: "
    torch.testing.assert_close(compiled, expected, equal_nan=True, msg=lambda m: message + m, **error)
    if exact and expected.is_floating_point() and spec.rule != "same":
        same = torch.signbit(compiled) == torch.signbit(expected)
        assert (same | expected.isnan()).all(), f"{message}a zero has the wrong sign"


def castable(source, target):
    x = samples(source)
    if source.is_floating_point and not target.is_floating_point and target != torch.bool:
        x = torch.tensor([0.0, -0.0, 1.5, -1.5, 100.0, 127.9, 3.99]).to(source)  # the rest is undefined in C++
        x = x.abs() if target == torch.uint8 else x
    return x


@pytest.mark.parametrize("source", (*FLOATS, *INTEGERS, torch.bool))
def test_cast(source):
    targets = (*FLOATS, *INTEGERS, torch.bool)
    inputs = [castable(source, target) for target in targets]
    cases = (
        (lambda load, to=to: ir.op("cast", load, dtype=to), [x], to) for x, to in zip(inputs, targets, strict=True)
    )
    for x, target, compiled, interpreted in zip(inputs, targets, *run(*cases), strict=True):
        expected = x.to(target)
        torch.testing.assert_close(
            compiled, expected, rtol=0, atol=0, equal_nan=True, msg=lambda m, t=target: f"{t}: {m}"
        )
        torch.testing.assert_close(interpreted, expected, rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("source", FLOATS)
def test_a_cast_to_an_integer_and_back_is_not_a_rounding(source):
    """GCC has one instruction for both casts: it keeps the sign of a zero, and values beyond the integer's range."""
    x = torch.tensor([-0.3, 0.3, -0.0, 300.0, -300.0, 40000.0] * 6 + [2.0**33, -(2.0**33)] * (source in FLOATS[:3]))
    x = x.to(source)
    cases = [
        (lambda load, to=to: ir.op("cast", ir.op("cast", load, dtype=to), dtype=source), [x], source) for to in INTEGERS
    ]
    for target, compiled in zip(INTEGERS, run(*cases)[0], strict=True):
        expected = x.to(target).to(source)
        assert torch.equal(compiled, expected) and torch.equal(compiled.signbit(), expected.signbit()), target


@pytest.mark.parametrize(
    "pair", [(torch.float32, torch.int32), (torch.float64, torch.int64), (torch.bfloat16, torch.int16)]
)
def test_bitcast(pair):
    for source, target in (pair, pair[::-1]):
        x = torch.tensor([0.0, -0.0, 1.5, -3.25, float("inf")]).to(pair[0])
        x = x if source == pair[0] else x.view(pair[1])
        (compiled,), _ = run((lambda load, to=target: ir.op("bitcast", load, dtype=to), [x], target))
        assert torch.equal(compiled, x.view(target))


@pytest.mark.parametrize("name", DIVISIONS)
def test_integer_division_by_zero_raises(name):
    inputs = [torch.tensor([1, 2, 3]), torch.tensor([1, 0, 2])]
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        compiled_only(name, inputs)


def test_division_of_the_smallest_integer_by_minus_one_does_not_die():
    inputs = [torch.tensor([-(2**63), 7]), torch.tensor([-1, -1])]
    for name in DIVISIONS:
        assert compiled_only(name, inputs)[1].item() == {"floordiv": -7, "truncdiv": -7}.get(name, 0)


def compiled_only(name, inputs):
    layouts = {f"arg{k}": Layout.contiguous(t.device, t.dtype, t.shape) for k, t in enumerate(inputs)}
    variables = ir.loop_vars(inputs[0].shape)
    loads = tuple(Load(n, tuple(map(ir.index, variables)), torch.int64) for n in layouts)
    layout = Layout.contiguous(torch.device("cpu"), torch.int64, inputs[0].shape)
    buffer = Buffer("buf0", layout, Pointwise(variables, Op(name, loads, torch.int64)))
    graph = IRGraph(layouts, {}, [buffer], [View("buf0", layout)])
    return inductor.load(inductor.codegen(inductor.schedule(graph)))(*inputs)[0]


def test_type_rules_refuse_mixed_operands():
    for name, dtypes in {
        "add": (torch.float32, torch.int32),
        "exp": (torch.int64,),
        "where": (torch.int8,) * 3,
    }.items():
        with pytest.raises(TypeError, match=name):
            OPS[name].result_dtype(dtypes)
