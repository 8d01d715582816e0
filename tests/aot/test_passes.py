"""Each rule about numbers and pieces: what it makes of a graph, and what it must leave alone."""

import inspect
import math

import pytest
import torch

import minicompile
from minicompile import aot

aten = torch.ops.aten
X = torch.randn(4, 6, generator=torch.Generator().manual_seed(0))


def trace(fn, *inputs, grad=False):
    seen = []

    def backend(gm, examples):
        seen.append(aot.trace(gm, examples, decompositions={}))
        return gm.forward

    minicompile.reset()
    with torch.set_grad_enabled(grad):
        minicompile.compile(fn, backend=backend, fullgraph=True)(*inputs)
    return seen[0]


def targets(graph):
    return [n.target for n in graph.forward.graph.nodes if n.op == "call_function"]


def run(graph, fn, *inputs):
    """(result of the graph, result of eager)"""
    named = dict(zip(inspect.signature(fn).parameters, inputs, strict=True))
    (ours,) = graph.forward(*(named[name] for name in graph.input_names))
    return ours, fn(*inputs)


def runs_equal(graph, fn, *inputs):
    ours, right = run(graph, fn, *inputs)
    assert ours.dtype == right.dtype and ours.stride() == right.stride()
    assert torch.equal(ours.nan_to_num(7), right.nan_to_num(7))
    if right.is_floating_point():
        assert torch.equal(torch.signbit(ours.nan_to_num(7)), torch.signbit(right.nan_to_num(7)))


def changed_by(graph, name):
    (found,) = [(before, after) for rule, before, after in graph.passes if rule == name]
    return found[1] - found[0]


# --- numbers ----------------------------------------------------------------------------------------
SPECIAL = torch.tensor([0.0, -0.0, math.nan, math.inf, -math.inf, 1e-45, 3.0])
INTEGERS = torch.tensor([0, -1, 2**62])


@pytest.mark.parametrize(
    "fn",
    [
        lambda x: (torch.full((7,), 2.0) * 3 + torch.ones(7)) * x,
        lambda x: torch.where(torch.zeros(7) < 1, torch.ones(()), torch.zeros(7)) * x,
        lambda x: x + torch.full((1,), 0.1).double().float().expand(7),
        lambda x: x * -torch.zeros(7),
        lambda x: x * (torch.full((7,), math.inf) - torch.full((7,), math.inf)),
        lambda x: x + (torch.full((7,), 2**62) * 2 + 5),
        lambda x: x + torch.full((7,), 0.1, dtype=torch.bfloat16) * 3,
    ],
)
def test_operators_on_numbers_are_a_number(fn):
    graph = trace(fn, SPECIAL)
    assert targets(graph).count(aten.full.default) == 1 and not {aten.zeros.default, aten.ones.default} & {
        *targets(graph)
    }
    assert len([t for t in targets(graph) if t not in (aten.full.default, aten.expand.default)]) == 1
    runs_equal(graph, fn, SPECIAL)


@pytest.mark.parametrize(
    "fn",
    [
        lambda x: x + torch.full((7,), 0.5).exp(),  # each machine has its own last digit
        lambda x: x + torch.full((7,), math.nan).to(torch.int32),
        lambda x: x + torch.arange(7) * 2,
        lambda x: x + torch.rand(7) * 0,
    ],
)
def test_what_is_no_number_stays(fn):
    graph = trace(fn, SPECIAL)
    assert changed_by(graph, "fold_numbers") == 0 and len(targets(graph)) >= 3


@pytest.mark.parametrize(
    "fn, x",
    [
        (lambda x: (x * 1).sin(), SPECIAL),
        (lambda x: (1.0 * x).sin(), SPECIAL),
        (lambda x: (x / 1).sin(), SPECIAL),
        (lambda x: (x - 0).sin(), SPECIAL),
        (lambda x: (x**1).sin(), SPECIAL),
        (lambda x: (x + -0.0).sin(), SPECIAL),
        (lambda x: (x * torch.ones(7)).sin(), SPECIAL),
        (lambda x: (x + 0).bitwise_not(), INTEGERS),
        (lambda x: (x * 1 - 0).bitwise_not(), INTEGERS),
    ],
)
def test_operators_that_change_nothing(fn, x):
    graph = trace(fn, x)
    assert len(targets(graph)) == 1 and changed_by(graph, "remove_neutral_numbers") < 0
    runs_equal(graph, fn, x)


@pytest.mark.parametrize(
    "fn, x",
    [
        (lambda x: (x + 0).sin(), SPECIAL),  # -0.0 + 0 is 0.0
        (lambda x: (x - -0.0).sin(), SPECIAL),
        (lambda x: (x * 0).sin(), SPECIAL),
        (lambda x: (0 - x).sin(), SPECIAL),
        (lambda x: (1**x).sin(), SPECIAL),
        (lambda x: (x * 1.0).sin(), INTEGERS),  # becomes float
        (lambda x: (x / 1).sin(), INTEGERS),
        (lambda x: (x * 1).sin(), torch.tensor([True, False])),
        (lambda x: (x * torch.ones(2, 7)).sin(), SPECIAL),  # becomes larger
        (lambda x: (x * torch.ones(7, dtype=torch.float64)).sin(), SPECIAL),
        (lambda x: (x * 1).sin(), torch.tensor([complex(math.inf, 1)])),  # has a NaN in it
        (lambda x: (torch.add(x, 1, alpha=0)).sin(), INTEGERS),
        (lambda x: (x * 1).sin(), X.t()[::2]),  # the product has no holes
    ],
)
def test_operators_that_change_something(fn, x):
    graph = trace(fn, x)
    assert changed_by(graph, "remove_neutral_numbers") == 0
    runs_equal(graph, fn, x)


def test_product_with_one_that_is_returned_is_a_new_tensor():
    assert targets(trace(lambda x: x * 1, SPECIAL)) == [aten.mul.Tensor]
    assert len(targets(trace(lambda x: (lambda y: (y, y * 1))(x.sin()), SPECIAL))) == 2


def test_product_with_one_protects_what_backward_needs():
    """As in eager, the user may write to x before the backward."""
    leaf = X.clone().requires_grad_()
    graph = trace(lambda x, w: (x * 1) @ w, X, leaf[:, :6].t() * 1, grad=True)
    assert aten.mul.Tensor in targets(graph)


# --- pieces -----------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "fn",
    [
        lambda x: torch.cat(x.split(2, 1), 1) * 2,
        lambda x: torch.cat(x.split([1, 2, 3], -1), 1) * 2,
        lambda x: torch.cat(x.chunk(3, 1), -1) * 2,
        lambda x: torch.cat([x[:, :4], x[:, 4:]], 1) * 2,
        lambda x: torch.cat([x[:1], x[1:-1], x[-1:]]) * 2,
    ],
)
def test_split_then_cat_is_nothing(fn):
    graph = trace(fn, X)
    assert targets(graph) == [aten.mul.Tensor]
    runs_equal(graph, fn, X)


@pytest.mark.parametrize(
    "fn",
    [
        lambda x: torch.cat(x.split(2, 1)[::-1], 1) * 2,
        lambda x: torch.cat(x.split(2, 1)[:2], 1) * 2,
        lambda x: torch.cat(x.split(2, 1), 0) * 2,
        lambda x: torch.cat([x[:, :4], x[:, 3:]], 1) * 2,
        lambda x: torch.cat([x[:, :3], (x + 1)[:, 3:]], 1) * 2,
        lambda x: torch.cat([x[:, :3:2], x[:, 3:]], 1) * 2,
        lambda x: torch.cat([x[:, :3], x[:, 3:].double()], 1) * 2,
        lambda x: torch.cat(x.t().split(2, 1), 1) * 2,  # the same numbers in another order of memory
    ],
)
def test_other_cats_stay(fn):
    graph = trace(fn, X)
    assert aten.cat.default in targets(graph)
    runs_equal(graph, fn, X)


@pytest.mark.parametrize(
    "fn",
    [
        lambda x, y: (lambda a, b: a * b.sin())(*torch.cat([x, y]).chunk(2)),
        lambda x, y: (lambda a, b: a * b.sin())(*torch.cat([x, y], 1).split([6, 6], 1)),
        lambda x, y: torch.cat([x, y], 1)[:, 6:].reshape(-1).sin(),
        lambda x, y: torch.cat([x, y], 1)[:, 7:9].sin(),
        lambda x, y: torch.cat([x, y, x])[-3:].view(-1).sin(),
        lambda x, y: torch.cat([x[:2], y, y[:0]])[:2].sin(),
    ],
)
def test_piece_of_a_cat_is_a_piece_of_its_input(fn):
    graph = trace(fn, X, X + 1)
    assert aten.cat.default not in targets(graph) and changed_by(graph, "cat_then_split") < 0
    runs_equal(graph, fn, X, X + 1)


@pytest.mark.parametrize(
    "fn",
    [
        lambda x, y: torch.cat([x, y])[3:5].sin(),  # across the border
        lambda x, y: torch.cat([x, y])[::2].sin(),
        lambda x, y: torch.cat([x, y], 1)[:4].sin(),
        lambda x, y: torch.cat([x, y], 1)[:, :6].as_strided((2, 2), (12, 1)).sin(),
        lambda x, y: torch.cat([x.t(), y.t()])[:6].sin(),
        lambda x, y: torch.cat([x, y.double()])[:4].sin(),
    ],
)
def test_other_pieces_stay(fn):
    graph = trace(fn, X, X + 1)
    assert aten.cat.default in targets(graph)
    runs_equal(graph, fn, X, X + 1)


def test_cat_that_the_user_receives_stays():
    """A view of it is rebuilt from it."""
    for fn in (lambda x, y: torch.cat([x, y])[:4], lambda x, y: (lambda c: (c, c[:4].sin()))(torch.cat([x, y]))):
        graph = trace(fn, X, X + 1)
        assert aten.cat.default in targets(graph) and changed_by(graph, "cat_then_split") == 0


def test_cat_protects_what_backward_needs():
    fn = lambda x, y, w: torch.cat([x, y])[:4] @ w  # noqa: E731
    weight = torch.randn(6, 5)
    assert aten.cat.default not in targets(trace(fn, X, X + 1, weight, grad=True))
    assert aten.cat.default in targets(trace(fn, X, X + 1, weight.requires_grad_(), grad=True))


# --- matmul and bias --------------------------------------------------------------------------------
W, ROW = torch.randn(6, 5), torch.randn(5)


def test_matmul_and_bias_are_addmm():
    for fn in (lambda x, w, b: x @ w + b, lambda x, w, b: b + x @ w):
        graph = trace(fn, X, W, ROW)
        assert targets(graph) == [aten.addmm.default]
        torch.testing.assert_close(*run(graph, fn, X, W, ROW))


@pytest.mark.parametrize(
    "fn, inputs",
    [
        (lambda x, w, b: x @ w + b, (X, W, torch.randn(4, 5))),
        (lambda x, w, b: x @ w + b, (X, W, torch.randn(4, 1))),
        (lambda x, w, b: x @ w + b, (X, W, torch.randn(1))),
        (lambda x, w, b: x @ w + b, (X, W, torch.randn(3, 1, 5))),
        (lambda x, w, b: x @ w + b, (X, W, ROW.double())),
        (lambda x, w, b: torch.add(x @ w, b, alpha=2), (X, W, ROW)),
        (lambda x, w, b: (lambda p: p + b + p.sum())(x @ w), (X, W, ROW)),
        (lambda x, w, b: x @ w - b, (X, W, ROW)),
        (lambda x, w, b: x @ w + b, (torch.ones(2, 2, dtype=torch.int64), torch.eye(2).long(), torch.tensor([1, 2]))),
    ],
)
def test_other_sums_stay(fn, inputs):
    graph = trace(fn, *inputs)
    assert aten.mm.default in targets(graph)
    torch.testing.assert_close(*run(graph, fn, *inputs))


# --- the record -------------------------------------------------------------------------------------
def test_every_pass_is_in_the_table():
    graph = trace(lambda x: (x * 1).view(4, 6).sin() + x.sin(), X)
    lines = graph.pass_table().splitlines()
    assert lines[0].split() == ["attention", "7", "->", "7"] and lines[1].split()[0] == "dead_code"
    counts = {line.split()[0]: line.split()[1:] for line in lines}
    assert counts["remove_views_that_change_nothing"] == ["7", "->", "6"]
    assert counts["remove_neutral_numbers"] == ["6", "->", "5"]
    assert counts["share_common_subexpressions"] == ["5", "->", "4"]
    assert int(lines[-1].split()[-1]) == graph.node_counts["optimized"]


# --- sums of products -------------------------------------------------------------------------------
LONG, SHORT = torch.randn(4, 40), torch.randn(40, 5)


def test_products_that_are_added_up_are_one_of_longer_rows():
    fn = lambda x, y, w: x @ w + (y.abs() @ w.sin() + x[:, :1].cos() * w[0] + x.cos() @ w)  # noqa: E731
    inputs = torch.randn(30, 2), torch.randn(30, 2), torch.randn(2, 30)
    graph = trace(fn, *inputs)
    found = targets(graph)
    assert (found.count(aten.mm.default), found.count(aten.cat.default), found.count(aten.addmm.default)) == (1, 2, 0)
    torch.testing.assert_close(*run(graph, fn, *inputs))


def test_operands_are_put_together_in_the_order_that_they_have_in_memory():
    fn = lambda x, y: x.cos().t() @ x + y.sin().t() @ y  # noqa: E731
    inputs = torch.randn(3, 20), torch.randn(3, 20)
    graph = trace(fn, *inputs)
    cats = [node for node in graph.forward.graph.nodes if node.target is aten.cat.default]
    assert [(cat.args[1], tuple(cat.meta["val"].shape)) for cat in cats] == [(0, (6, 20)), (0, (6, 20))]
    torch.testing.assert_close(*run(graph, fn, *inputs))


def test_a_product_of_long_rows_is_added_into_the_sum_of_those_before():
    fn = lambda x, w: ((x @ w).view(2, 2, 5) + (x.sin() @ w.sin()).view(2, 2, 5)) + (x.cos() @ w.cos()).view(2, 2, 5)  # noqa: E731
    graph = trace(fn, LONG, SHORT)
    products = [t for t in targets(graph) if t not in (aten.sin.default, aten.cos.default)]
    assert products == [aten.mm.default, aten.addmm.default, aten.addmm.default, aten.view.default]
    torch.testing.assert_close(*run(graph, fn, LONG, SHORT))


@pytest.mark.parametrize(
    "fn",
    [
        lambda x, w: (lambda p: p + p)(x @ w),
        lambda x, w: (lambda p: p + x.sin() @ w + p.sum())(x @ w),
        lambda x, w: torch.add(x @ w, x.sin() @ w, alpha=2),
        lambda x, w: x @ w + (x.sin() @ w)[:1],
        lambda x, w: x @ w - x.sin() @ w,
        lambda x, w: (x * 4).long() @ w.long() + (x * 8).long() @ w.long(),
    ],
)
def test_other_products_stay(fn):
    graph = trace(fn, LONG, SHORT)
    found = targets(graph)
    assert aten.mm.default in found and aten.addmm.default not in found and aten.cat.default not in found
    torch.testing.assert_close(*run(graph, fn, LONG, SHORT))


# --- copies -----------------------------------------------------------------------------------------
def test_a_copy_in_rows_of_what_was_copied_in_rows_is_one_copy_or_none():
    heads = torch.randn(2, 5, 3, 4, generator=torch.Generator().manual_seed(1)).transpose(1, 2)  # (2, 3, 5, 4)

    def joined(x):  # rows of x's memory
        return (x * 2).contiguous().permute(0, 2, 1, 3).contiguous().view(10, 12) + 1

    graph = trace(joined, heads)
    assert changed_by(graph, "remove_copies_of_copies") == -1 and aten.clone.default not in targets(graph)
    runs_equal(graph, joined, heads)

    def turned(x):  # not the order of x's memory: a copy it is
        return x.contiguous().unsqueeze(0).permute(0, 1, 3, 2, 4).contiguous().view(6, 20) + 1

    rows = heads.permute(0, 2, 3, 1).contiguous().permute(0, 3, 1, 2)
    graph = trace(turned, rows)
    assert changed_by(graph, "remove_copies_of_copies") == -1 and targets(graph).count(aten.clone.default) == 1
    runs_equal(graph, turned, rows)


def test_a_copy_that_others_read_too_stays():
    def fn(x):
        rows = x.t().contiguous()
        return rows.view(-1) + rows.t().contiguous().view(-1)

    graph = trace(fn, X)
    assert changed_by(graph, "remove_copies_of_copies") == 0 and aten.clone.default in targets(graph)
    runs_equal(graph, fn, X)
