"""Capture end to end with backend="eager": one graph, eager's values, for the language that model code uses."""

import math
import types

import pytest
import torch
from torch import nn

import minicompile
from minicompile import errors, testing

CONSTANT = 3
SETTINGS = {"scale": 2.0, "names": ["a", "b"]}


def arithmetic(x):
    y = x * 2 + 1
    return y - x / 3


def loop_over_range(x):
    for k in range(4):
        x = x + k
    return x


def comprehension(x):
    parts = [x * k for k in range(3) if k != 1]
    named = {name: part for name, part in zip("ab", parts)}
    return named["a"] + named["b"], {len(parts)}


def uses_globals(x):
    return x * SETTINGS["scale"] + CONSTANT + len(SETTINGS["names"])


def star_arguments(x):
    def inner(first, *rest, scale=1, **named):
        return first * scale + sum(rest) + named["bias"]

    return inner(x, 1, 2, scale=3, bias=x)


def closure(x):
    total = x

    def add(value):
        nonlocal total
        total = total + value
        return total

    add(1)
    add(2)
    return total


def known_branch(x):
    if x.dim() == 2 and x.shape[0] > 1:
        return x.t()
    return x


def shapes(x):
    n, m = x.shape
    return x.view(m, n) + x.size(0), x.reshape(-1, 1).shape, x.numel()


def strings(x):
    name = f"{x.dtype}-{x.dim():03d}"
    return x + len(name), name.upper()


def unpacking(x):
    first, *middle, last = (x, x + 1, x + 2, x + 3)
    return first + last, middle


def exceptions(x):
    try:
        {}["missing"]
    except KeyError as error:
        x = x + len(error.args)
    else:
        x = x - 1
    finally:
        x = x * 2
    return x


def no_grad_block(x):
    with torch.no_grad():
        y = x * 2
    return y, x * 3


def generator(x):
    def produce():
        for k in range(3):
            yield x * k

    return sum(produce()), max(k for k in range(3))


def in_place(x):
    y = x.clone()
    y += 1
    y.mul_(2)
    y[0] = 5
    return y


def math_and_builtins(x):
    return x * math.sqrt(4) + max(1, 2) + abs(-3) + round(2.5), isinstance(x, torch.Tensor), callable(len)


def lambda_sorting(x):
    order = sorted([3, 1, 2], key=lambda v: -v)
    return x + order[0], order


def while_loop(x):
    n = 0
    while n < 3:
        n += 1
        if n == 2:
            continue
        x = x + n
    return x


def walrus_and_chain(x):
    if 0 < (n := x.dim()) <= 2:
        return x * n
    return x


FUNCTIONS = [
    arithmetic,
    loop_over_range,
    comprehension,
    uses_globals,
    star_arguments,
    closure,
    known_branch,
    shapes,
    strings,
    unpacking,
    exceptions,
    no_grad_block,
    generator,
    in_place,
    math_and_builtins,
    lambda_sorting,
    while_loop,
    walrus_and_chain,
]


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
def test_one_graph_and_the_values_of_eager(function):
    x = torch.randn(2, 3, requires_grad=function is no_grad_block)
    expected = function(x)
    compiled = minicompile.compile(function, backend="eager", fullgraph=True)
    for _ in range(2):
        assert not testing.differences(expected, compiled(x))
    assert minicompile.stats()["graphs"] == 1


def test_a_module_is_captured_as_one_graph_and_its_parameters_are_inputs():
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
    x = torch.randn(3, 4)
    compiled = minicompile.compile(model, backend="eager", fullgraph=True)
    assert not testing.differences(model(x), compiled(x))
    with torch.no_grad():
        model[0].weight.zero_()
    assert not testing.differences(model(x), compiled(x))
    assert minicompile.stats()["graphs"] == 1


def test_a_function_with_an_assert_is_captured_also_in_a_pytest_file():
    def checked(x):
        assert x.dim() == 1, f"dim {x.dim()}"
        return x * 2

    compiled = minicompile.compile(checked, backend="eager", fullgraph=True)
    assert compiled(torch.ones(2)).tolist() == [2.0, 2.0]
    assert minicompile.stats()["graphs"] == 1
    with pytest.raises(AssertionError, match="dim 2"):
        minicompile.compile(checked, backend="eager")(torch.ones(2, 2))


def test_changed_constant_recompiles_and_says_why():
    def scale(x, factor):
        return x * factor

    compiled = minicompile.compile(scale, backend="eager", fullgraph=True)
    x = torch.ones(2)
    assert compiled(x, 2).tolist() == [2.0, 2.0]
    assert compiled(x, 3).tolist() == [3.0, 3.0]
    assert compiled(x, 2).tolist() == [2.0, 2.0]
    assert minicompile.stats()["graphs"] == 2
    assert minicompile.stats()["recompiles"] == 1
    reasons = [c.recompile_reason for c in minicompile.record.compilations if c.recompile_reason]
    assert len(reasons) == 1 and reasons[0].startswith("factor == 2: was 2, is 3")


def test_the_cache_limit_falls_back_to_eager_with_one_warning():
    def scale(x, factor):
        return x * factor

    compiled = minicompile.compile(scale, backend="eager", dynamic=False)
    x = torch.ones(1)
    with minicompile.config.patch(recompile_limit=3):
        with pytest.warns(UserWarning, match="factor"):
            values = [compiled(x, k / 2).item() for k in range(6)]
    assert values == [0.0, 0.5, 1.0, 1.5, 2.0, 2.5]
    assert minicompile.stats()["graphs"] == 3


def test_writes_are_replayed_once():
    class Counter:
        def __init__(self):
            self.count, self.seen, self.last = 0, [], None

    counter = Counter()

    def step(x, state):
        state.count += 1
        state.seen.append(state.count)
        state.last = x * 2
        return x + state.count

    compiled = minicompile.compile(step, backend="eager", fullgraph=True)
    x = torch.ones(2)
    seen = counter.seen
    assert compiled(x, counter).tolist() == [2.0, 2.0]
    assert compiled(x, counter).tolist() == [3.0, 3.0]
    assert counter.count == 2 and counter.seen == [1, 2] and counter.seen is seen
    assert counter.last.tolist() == [2.0, 2.0]


def test_a_shape_error_is_eagers_error_at_the_users_line():
    def wrong(x, y):
        z = x + 1
        return z @ y

    x, y = torch.ones(2, 3), torch.ones(2, 3)
    with pytest.raises(RuntimeError) as eager:
        wrong(x, y)
    compiled = minicompile.compile(wrong, backend="eager")
    with pytest.raises(RuntimeError) as ours:
        compiled(x, y)
    assert str(ours.value) == str(eager.value)
    assert "return z @ y" in str(ours.getrepr(style="long"))


def test_fullgraph_raises_unsupported_with_kind_explanation_hint_and_line():
    def reads(x):
        return x * x.sum().item()

    compiled = minicompile.compile(reads, backend="eager", fullgraph=True)
    with pytest.raises(errors.Unsupported) as caught:
        compiled(torch.ones(2))
    error = caught.value
    assert error.kind == "tensor read as a number" and error.explanation and error.hint
    assert error.user_location.startswith(f"{__file__}:") and error.user_location.endswith("in reads")


def test_unknown_backend_and_mode_name_the_known_ones():
    with pytest.raises(errors.InvalidBackend, match="aot_eager, eager, inductor"):
        minicompile.compile(arithmetic, backend="nonsense")
    with pytest.raises(errors.InvalidBackend, match="max-autotune"):
        minicompile.compile(arithmetic, mode="fastest")


def test_inputs_with_names_that_look_alike_are_two():
    box = types.SimpleNamespace(x=torch.ones(2))
    program = minicompile.compile(lambda box, box_x: box.x + 2 * box_x, backend="eager")
    assert torch.equal(program(box, torch.full((2,), 3.0)), torch.full((2,), 7.0))
