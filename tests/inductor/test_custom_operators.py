"""Operators of the user's own that write into their arguments: called on copies, which then are the tensors' values."""

from collections.abc import Sequence

import pytest
import torch

from minicompile.testing import check


@torch.library.custom_op("minicompile_test::increase", mutates_args={"x"})
def increase(x: torch.Tensor, by: float = 1.0) -> None:
    x.add_(by)


@torch.library.custom_op("minicompile_test::double_into", mutates_args={"x", "out"})
def double_into(x: torch.Tensor, y: torch.Tensor, out: torch.Tensor) -> torch.Tensor:
    x.mul_(2)
    out.copy_(x + y)
    return out.clone() + 1


@double_into.register_fake
def _(x, y, out):
    return torch.empty_like(out)


@torch.library.custom_op("minicompile_test::increase_all", mutates_args={"tensors"})
def increase_all(tensors: Sequence[torch.Tensor]) -> None:
    for tensor in tensors:
        tensor.add_(5)


def of_inputs_and_intermediates(x, y):
    increase(x, by=2.5)
    z = x * 2
    increase(z)
    increase(z.view(-1)[1:])
    return z, x + 1


def with_results(x, y):
    out = torch.zeros_like(x)
    result = double_into(x, y, out)
    return result, out * 2, x, y


def of_lists_and_views(x, y):
    made = [y + 1, x + 2]
    increase_all(made)
    increase_all([x, y * 1])
    increase(x.t()[:1])
    return made, x, y


@pytest.mark.parametrize("function", [of_inputs_and_intermediates, with_results, of_lists_and_views])
def test_operators_that_write(function):
    pair, triple = ((torch.ones(rows, 2), torch.arange(2.0 * rows).reshape(rows, 2)) for rows in (2, 3))
    check(function, *pair, also=[triple], exact=True, graphs=2, graph_breaks=0)
