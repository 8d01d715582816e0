"""Floats that change from call to call: symbols from the second value on, to the last bit what eager computes."""

import math

import pytest
import torch
import torch.nn.functional as F

import minicompile
from minicompile.testing import CompileCounter, differences

VALUES = (0.3, 0.7, 0.1 + 0.2, -2.5, 0.0, -0.0, 1.0, 3e38)
IN_GRAPH = {
    "product": lambda x, f: x * f,
    "of a half": lambda x, f: x.half() * f,
    "of a double": lambda x, f: x.double() * f,
    "of an int": lambda x, f: x.int() * f,
    "in place": lambda x, f: x.clone().mul_(f),
    "reflected": lambda x, f: f - x,
    "power": lambda x, f: x**f,
    "limit": lambda x, f: x.clamp(max=f),
    "filled": lambda x, f: torch.full((3,), f) + x,
    "masked": lambda x, f: x.masked_fill(x > 1, f),
    "where": lambda x, f: torch.where(x > 1, x, f),
    "compared": lambda x, f: x > f,
    "arithmetic": lambda x, f: (x + (f * 3 - 1) / 7, f * 3, -f, f),
    "with a size": lambda x, f: x * (f + x.shape[0]),
    "slope": lambda x, f: F.leaky_relu(x - 2, f),
    "never": lambda x, f: x * f if f * 0.5 - 1 < 1e39 else x,
}
LOOKED_AT = {
    "text": lambda x, f: (x, f"{f}"),
    "rounded": lambda x, f: x + round(f * 1e-30, 2),
    "root": lambda x, f: x * math.sqrt(abs(f)),
    "remainder": lambda x, f: x * (f % 0.25),
    "times zero": lambda x, f: x * (f * 0),
}


def compare(fn, backend, exact=True):
    """The number of compiles."""
    compiled, x = minicompile.compile(fn, backend=backend, fullgraph=True), torch.tensor([1.3, 2.7, 0.9])
    for value in VALUES:
        assert not (lines := differences(fn(x, value), compiled(x, value), exact=exact)), (value, lines)
    return minicompile.stats()["graphs"]


@pytest.mark.parametrize("name", IN_GRAPH)
def test_a_float_in_the_graph_needs_two_compiles(name):
    assert compare(IN_GRAPH[name], CompileCounter()) == 2


@pytest.mark.parametrize("name", LOOKED_AT)
def test_a_float_that_is_looked_at_is_guarded(name):
    with minicompile.config.patch(recompile_limit=len(VALUES)):
        assert compare(LOOKED_AT[name], "eager") <= len(VALUES)


@pytest.mark.parametrize("name", IN_GRAPH)
@pytest.mark.parametrize("target", ["aot", "cpp", "triton"])
def test_a_float_through_aot_and_both_code_generators(name, target):
    if target == "triton":
        pytest.importorskip("triton")
    with minicompile.config.patch(cpu_backend="cpp" if target == "aot" else target):
        assert compare(IN_GRAPH[name], "aot_eager" if target == "aot" else "inductor", exact=False) == 2


def test_gradients_of_a_product_with_a_float():
    def loss(x, f):
        return (x * f).sum() * f

    compiled, x = minicompile.compile(loss, fullgraph=True), torch.randn(5, requires_grad=True)
    for value in VALUES[:-1]:
        expected, found = (torch.autograd.grad(call(x, value), x)[0] for call in (loss, compiled))
        assert torch.equal(found, expected)
    assert minicompile.stats()["graphs"] == 2


def test_a_condition_on_a_float_is_a_guard():
    def step(x, rate):
        return x * rate if rate > 0.25 else x

    counter, x = CompileCounter(), torch.ones(3)
    compiled = minicompile.compile(step, backend=counter)
    for rate in (0.5, 0.3, 0.9, 0.26, 0.25, 0.1, -1.0):
        assert torch.equal(compiled(x, rate), step(x, rate))
    assert counter.graphs == 3
    entries = minicompile.record.compilations
    texts = [[str(guard) for guard in entry.artifacts("capture")[0].guards] for entry in entries]
    assert "rate > 0.25" in texts[1] and "rate <= 0.25" in texts[2] and len(texts) == 3


ASKED = {  # question -> (how many answers these values have, the guard that the last one leads to)
    "product": (lambda x, f: x * f if f * 2 > 0.7 else -x, 2, "not (f * (2)) > (0.7)"),
    "difference": (lambda x, f: x - f if 1 - f <= 0.5 else -x, 2, "not ((1) - f) <= (0.5)"),
    "two floats": (lambda x, f: -x if f + f == f * 2 else x * f, 1, "(f + f) == (f * (2))"),
    "lost digits": (
        lambda x, f: x * f if (f * 1e-20 + 1) - 1 > 0 else -x,
        1,
        "not (((f * (1e-20)) + (1)) - (1)) > (0)",
    ),
    "size": (lambda x, f: x * f if f * x.shape[0] >= 1.5 else -x, 2, "not (f * (3)) >= (1.5)"),
    "truth": (lambda x, f: x * f if f - 0.25 else -x, 2, "not bool((f - (0.25)))"),
    "whole part": (lambda x, f: x * int(f * 4), 3, "int((f * (4))) == 1"),
    "rounded": (lambda x, f: x * round(f), 2, "round(f) == 0"),
    "floor": (lambda x, f: x * math.floor(f * 2), 2, "math.floor((f * (2))) == 0"),
    "no number": (
        lambda x, f: x * f if math.isfinite(f) and not math.isnan(f * 2) else x,
        1,
        "not math.isnan((f * (2)))",
    ),
    "sign": (lambda x, f: x * abs(f - 0.5), 2, "(f - (0.5)) < (0)"),
    "largest": (lambda x, f: x * max(f, 0.5), 2, "f < 0.5"),
}


@pytest.mark.parametrize("name", ASKED)
def test_a_question_about_a_float_is_a_guard_on_its_answer(name):
    function, answers, guard = ASKED[name]
    counter, x = CompileCounter(), torch.tensor([1.3, 2.7, 0.9])
    compiled = minicompile.compile(function, backend=counter)
    for value in (0.9, 0.75, 0.8, 0.625, 0.7, 0.375, 0.3, 0.25, 0.9, 0.26, 0.375, 0.25):
        assert not (lines := differences(function(x, value), compiled(x, value), exact=True)), (value, lines)
    assert counter.graphs == 1 + answers, "one for the first value, and one for each answer"
    newest = minicompile.record.compilations[-1].artifacts("capture")[0].guards
    assert guard in [str(each) for each in newest], newest


def test_questions_about_floats_through_the_kernels():
    def program(x, f):
        x = x * abs(f) * 3
        return x + int(f * 10) if f * 2 > 0.5 else x

    for backend in ("aot_eager", "inductor"):
        minicompile.reset()
        compiled, x = minicompile.compile(program, backend=backend, fullgraph=True), torch.tensor([1.3, 2.7, 0.9])
        for value in (0.93, 0.71, 0.74, 0.72, 0.2, 0.1, 0.15, -0.3, -0.4):
            torch.testing.assert_close(compiled(x, value), program(x, value))
        assert minicompile.stats()["graphs"] == 4


def test_an_error_of_float_arithmetic_is_the_programs():
    def program(x, f):
        return x * f if 1 / (f - 0.5) > 2 else x

    compiled, x = minicompile.compile(program, backend="eager"), torch.ones(2)
    for value in (0.9, 0.8, 0.7):
        assert torch.equal(compiled(x, value), program(x, value))
    with pytest.raises(ZeroDivisionError, match="float division by zero"):
        compiled(x, 0.5)


def test_a_float_of_an_object_and_of_a_module():
    class Optimizer:
        rate = 0.5

    class Scale(torch.nn.Module):
        factor, places = 0.5, 2

        def forward(self, x):
            return x * self.factor + self.places

    settings, x = Optimizer(), torch.ones(3)
    step = minicompile.compile(lambda x, o: x - o.rate * x, backend="eager")
    module = Scale()
    compiled = minicompile.compile(module, backend="eager")
    for number in range(1, 20):
        settings.rate = module.factor = 1.0 / number
        assert torch.equal(step(x, settings), x - settings.rate * x)
        assert torch.equal(compiled(x), x * module.factor + 2)
    assert len(minicompile.record.compilations) == 4


def test_nan_infinity_and_huge_floats_are_constants():
    def scale(x, f):
        return x * f

    compiled, x = minicompile.compile(scale, backend="eager"), torch.tensor([1.0, -2.0])
    for value in (0.5, 0.25, math.nan, math.inf, -math.inf, 1e300, math.nan, math.inf, 0.75):
        assert not differences(scale(x, value), compiled(x, value), exact=True)
    assert len(minicompile.record.compilations) == 6


def test_dynamic_false_keeps_floats_constant():
    compiled, x = minicompile.compile(lambda x, f: x * f, backend="eager", dynamic=False), torch.ones(2)
    for value in (0.5, 0.25, 0.75):
        assert torch.equal(compiled(x, value), x * value)
    assert len(minicompile.record.compilations) == 3


def test_a_float_and_an_int_that_change_together():
    def run(x, f, n):
        return x + n * f, torch.full((1,), f / n)

    compiled, x = minicompile.compile(run), torch.ones(3)
    for f, n in ((1.5, 2), (2.5, 3), (-0.75, 7)):
        assert not differences(run(x, f, n), compiled(x, f, n), exact=True)
    assert minicompile.stats()["graphs"] == 2


OF_INTS = {  # question about a float that is computed of ints -> how many answers these have
    "tenths": (lambda x, n: x if n * 0.1 + n * 0.2 == n * 0.3 else -x, 2),
    "tenths of a size": (lambda x, n: x if len(x) * 0.1 + len(x) * 0.2 == len(x) * 0.3 else -x, 2),
    "back and forth": (lambda x, n: x if n / 49 * 49 == n else -x, 2),
    "truth": (lambda x, n: x if n * 0.1 + n * 0.2 - n * 0.3 else -x, 2),
    "power": (lambda x, n: x if (n / 3) ** 2 > n * n / 9 else -x, 2),
    "root": (lambda x, n: x if math.sqrt(n) ** 2 == n else -x, 2),
    "remainder": (lambda x, n: x if (n + 2.5) % 9 == 8.5 else -x, None),
    "remainder of a remainder": (lambda x, n: x if (n + 0.5) % 9 % 2 > 1 else -x, None),
    "key": (lambda x, n: x + {(n + 2.5) % 9: 1}.get(8.5, 2), None),
    "key of a quotient": (lambda x, n: x + len({-((n / 7) % 3): 1, -((6 / 7) % 3): 2}), None),
    "text": (lambda x, n: x + len(f"{n * 0.1 + n * 0.2}"), None),
    "membership": (lambda x, n: x + (n * 0.1 + n * 0.2 in (0.9, 1.8, 1.2)), None),
}


@pytest.mark.parametrize("name", OF_INTS)
def test_a_float_computed_of_ints_is_asked_in_pythons_arithmetic(name):
    function, answers = OF_INTS[name]
    counter = CompileCounter()
    compiled = minicompile.compile(function, backend=counter, fullgraph=True)
    for n in (2, 6, 4, 17, 49, 93, 5, 7, 14):
        x = torch.ones(n)
        with minicompile.config.patch(recompile_limit=9):
            assert torch.equal(compiled(x, n), function(x, n)), n
    assert answers is None or counter.graphs == 1 + answers


def test_a_whole_number_of_a_float_computed_of_ints_stays_in_the_graph():
    counter = CompileCounter()
    compiled = minicompile.compile(lambda x: x[: int(len(x) * 0.5)] * round(len(x) * 0.29), backend=counter)
    for n in (3, 6, 17, 100):
        assert torch.equal(compiled(torch.ones(n)), torch.full((n // 2,), float(round(n * 0.29))))
    assert counter.graphs == 2
