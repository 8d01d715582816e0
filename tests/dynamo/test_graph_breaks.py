"""Graph breaks: eager's values and effects, each effect once, in every kind of block."""

import contextlib

import pytest
import torch

import minicompile
from minicompile import testing

LOG = []


def breaking(value=0):
    """A print is something no graph can hold."""
    print(end="")
    return value


def at_top(x):
    x = x + 1
    breaking()
    return x * 2


def in_expression(x):
    return (x + 1) * breaking(3) + x


def in_loop(x):
    for k in range(3):
        x = x + k
        breaking()
    return x


def in_loop_over_list(x):
    total = 0
    for value in [x, x + 1, x + 2]:
        total = total + value * breaking(2)
    return total


def in_enumerate_zip(x):
    for k, (a, b) in enumerate(zip([1, 2], (x, x * 2))):
        x = x + a * b + breaking(k)
    return x


def in_while(x):
    n = 0
    while n < 3:
        breaking()
        n += 1
        x = x * n
    return x


def in_no_grad(x):
    with torch.no_grad():
        a = x * 2
        breaking()
        b = a * x
    return b, x * 3, torch.is_grad_enabled()


def in_try(x):
    try:
        x = x + 1
        breaking()
        raise ValueError("no")
    except ValueError as error:
        x = x * len(error.args)
    finally:
        x = x - 1
    return x


def in_finally(x):
    try:
        x = x + 1
    finally:
        breaking()
        x = x * 2
    return x


@contextlib.contextmanager
def noted(name):
    LOG.append(name)
    try:
        yield name
    finally:
        LOG.append(f"-{name}")


def in_user_context(x):
    with noted("a") as name:
        x = x + 1
        breaking()
        x = x * len(name)
    return x, list(LOG)


def helper(x):
    y = x * 2
    breaking()
    return y + 1


def in_callee(x):
    return helper(x + 1) * helper(x)


def data_dependent(x):
    y = x * 2
    if y.sum() > 0:
        return y + 1
    return y - 1


def data_dependent_loop(x):
    while x.sum() < 10:
        x = x + 1
    return x


def item(x):
    scale = x.sum().item()
    return x * scale


def with_closure(x):
    total = [x]

    def add(value):
        total[0] = total[0] + value
        return breaking()

    add(1)
    add(2)
    return total[0]


def rebinds_cell(x):
    count = 0

    def bump():
        nonlocal count
        count += 1
        return count

    bump()
    breaking()
    bump()
    return x + count


def objects_across(x):
    class_free = {"x": [x, x + 1]}
    alias = class_free["x"]
    breaking()
    alias.append(x + 2)
    return class_free, alias is class_free["x"]


def in_comprehension(x):
    return sum([x * breaking(k) for k in range(3)])


def conditional_expression(x):
    return x + (1 if breaking(1) else 2) * (x if breaking(0) else x * 2)


def boolean_operators(x):
    return (breaking(0) or x) + (breaking(1) and x * 2)


def twice_on_one_line(x):
    return breaking(1) + x + breaking(2)


FUNCTIONS = [value for name, value in list(globals().items()) if getattr(value, "__module__", "") == __name__]
FUNCTIONS = [f for f in FUNCTIONS if f not in (breaking, noted, helper)]


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_a_break_costs_only_speed(function, sign):
    x = torch.full((2,), sign, requires_grad=True)
    LOG.clear()
    expected = function(x)
    compiled = minicompile.compile(function, backend="eager")
    for _ in range(3):
        LOG.clear()
        assert not testing.differences(expected, compiled(x))
    stats = minicompile.stats()
    assert stats["graph_breaks"] >= 1 and stats["graphs"] >= 1


def test_the_report_names_kind_and_line():
    compiled = minicompile.compile(at_top, backend="eager")
    compiled(torch.ones(1))
    (error,) = [error for entry in minicompile.record.compilations for error in entry.breaks]
    assert minicompile.stats()["graphs"] == 2
    assert f"{__file__}:" in error.user_location


def test_a_loop_of_a_thousand_breaks_needs_no_deep_stack():
    items = [torch.ones(1) for _ in range(1000)]

    def total(values):
        result = torch.zeros(1)
        for value in values:
            result = result + value
            breaking()
        return result

    assert minicompile.compile(total, backend="eager")(items).item() == 1000.0


def test_an_exception_in_the_eager_instruction_reaches_the_users_handler():
    def fails(value):
        print(end="")
        raise ValueError(value)

    def guarded(x):
        try:
            x = x + 1
            fails("boom")
        except ValueError as error:
            return x * 2, str(error)
        return x

    compiled = minicompile.compile(guarded, backend="eager")
    for _ in range(2):
        value, text = compiled(torch.ones(1))
        assert value.item() == 4.0 and text == "boom"


def test_traceback_of_an_exception_behind_a_break_has_the_users_lines():
    def fails(x):
        breaking()
        return x[5]

    compiled = minicompile.compile(fails, backend="eager")
    with pytest.raises(IndexError) as caught:
        compiled(torch.ones(2))
    assert "return x[5]" in str(caught.getrepr(style="long"))


def test_disable_and_graph_break():
    @minicompile.disable
    def outside(x):
        return x + 1

    def uses(x):
        x = outside(x * 2)
        minicompile.graph_break()
        return x * 3

    compiled = minicompile.compile(uses, backend="eager")
    assert compiled(torch.ones(1)).item() == uses(torch.ones(1)).item() == 9.0
    stats = minicompile.stats()
    assert stats["graph_breaks"] == 2 and stats["graphs"] == 2
