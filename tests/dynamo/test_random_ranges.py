"""Branches on a random number: which are decided before it is drawn, and that the draw is made all the same."""

import functools
import operator

import pytest
import torch

import minicompile
from minicompile import config

DRAWS = torch.tensor([0.0, 0.25, 0.5, 1 - 2**-24])  # the least and the greatest that torch.rand gives, and two between
NUMBERS = (-1.5, -1, -0.25, -1e-50, -0.0, 0, 0.0, 1e-50, 0.5, 0.999999999999, 1, 1.0, 1.5, float("inf"), float("nan"))


def branches(compare):
    def skip(x):
        draw = torch.rand([])
        return x * 2 if compare(draw) else x + 1

    return skip


def outcome(function):
    """(results of eight calls, the next number drawn)."""
    torch.manual_seed(3)
    return [function(torch.ones(2)).tolist() for _ in range(8)], torch.rand([]).item()


@pytest.mark.parametrize("number", NUMBERS, ids=str)
@pytest.mark.parametrize("name", ["lt", "le", "gt", "ge"])
def test_only_what_all_draws_agree_on_is_decided(name, number):
    for space in (operator, torch, torch.Tensor):
        minicompile.reset()
        compare = functools.partial(apply, getattr(space, name), number)
        skip = branches(compare)
        compiled = minicompile.compile(skip, backend="eager")
        assert outcome(compiled) == outcome(skip)
        agree = len({bool(compare(draw)) for draw in DRAWS}) == 1
        decided = minicompile.stats()["graph_breaks"] == 0
        left_open = number in (-0.25, -1e-50, 1e-50, 0.999999999999) or number != number
        assert decided <= agree if left_open else decided == agree


def apply(comparison, number, draw):
    return comparison(draw, number)


def written_to(x):
    draw = torch.rand([])
    draw.sub_(2)
    return x * 2 if draw < 0 else x + 1


def written_through_a_view(x):
    draw = torch.rand([])
    draw.view(1).sub_(2)
    return x * 2 if draw < 0 else x + 1


def condition_written_to(x):
    below = torch.rand([]) < 0
    below.logical_not_()
    return x * 2 if below else x + 1


def drawn_into(x):
    draw = torch.zeros([])
    torch.rand([], out=draw).neg_()
    return x * 2 if draw <= 0 else x + 1


def mirrored(x):
    draw = torch.rand([])
    return x * 2 if 0 > draw else x * 3 if draw >= 1 else x + draw


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
@pytest.mark.parametrize(
    "program, breaks",
    [(written_to, 1), (written_through_a_view, 1), (condition_written_to, 1), (drawn_into, 1), (mirrored, 0)],
)
def test_only_an_untouched_draw_is_known(program, breaks, backend):
    minicompile.reset()
    with config.patch(fallback_random=True):
        assert outcome(minicompile.compile(program, backend=backend)) == outcome(program)
    assert minicompile.stats()["graph_breaks"] == breaks


def test_elements_raise_as_in_eager():
    def ask(x):
        return x if torch.rand(2) < 0 else x + 1

    with pytest.raises(RuntimeError, match="more than one value is ambiguous"):
        minicompile.compile(ask, backend="eager")(torch.ones(2))
