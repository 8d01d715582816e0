"""Random masks of compiled code: eager's numbers, and the generator left as eager leaves it."""

import pytest
import torch
import torch.nn.functional as F

import minicompile
from minicompile.inductor.codegen import random_draws


def outcome(draw, seed, words):
    """What is drawn after so many other words, the state behind it, and what comes next."""
    torch.manual_seed(seed)
    torch.rand(words)
    return draw(), torch.get_rng_state(), torch.randn(20)


@pytest.mark.parametrize("p", [0.0, 1.0, 0.5, 0.1, 1 - 0.1, 1e-9, 1 - 2**-53])
def test_masks_are_those_of_eager(p):
    for words, n in ((0, 1024), (1, 4097), (623, 100_003), (624, 5000), (625, 1248), (7, 10)):
        like = torch.empty(n, dtype=torch.bool)
        ours = outcome(lambda like=like: random_draws.bernoulli(like, p), 3, words)
        eager = outcome(lambda like=like: torch.ops.aten.bernoulli.p(like, p), 3, words)
        assert all(map(torch.equal, ours, eager)), (words, n)


def test_other_masks_are_left_to_eager():
    for like in (torch.empty(2000), torch.empty(4000, dtype=torch.bool)[::2], torch.empty(50, 60, dtype=torch.bool).T):
        ours = outcome(lambda like=like: random_draws.bernoulli(like, 0.4), 3, 5)
        eager = outcome(lambda like=like: torch.ops.aten.bernoulli.p(like, 0.4), 3, 5)
        assert all(map(torch.equal, ours, eager)) and ours[0].stride() == eager[0].stride()
    generator = torch.Generator().manual_seed(9)
    before = torch.get_rng_state()
    random_draws.bernoulli(torch.empty(2000, dtype=torch.bool), 0.4, generator=generator)
    assert torch.equal(before, torch.get_rng_state())


def test_dropout_draws_as_eager_does():
    def dropout(x):
        return F.dropout(F.dropout(x, 0.3) + 1, 0.1)

    x = torch.randn(64, 100)
    compiled = minicompile.compile(dropout)
    assert all(map(torch.equal, outcome(lambda: compiled(x), 1, 3), outcome(lambda: dropout(x), 1, 3)))


def test_draws_wait_for_no_value_whose_layout_alone_they_need():
    """What the tensor beside them holds is computed in one kernel with what is done with them."""

    def noise(x):
        y = x.exp()
        drawn = torch.randn_like(y), torch.rand_like(y.mT, dtype=torch.float64).mT, torch.randint_like(y, 3, 9)
        names = "normal_ uniform_ random_ exponential_ log_normal_ cauchy_"
        filled = [getattr(torch.empty_like(y), name)() for name in names.split()]
        return (y * sum([*drawn, *filled, torch.empty_like(y).geometric_(0.3)]), *drawn)

    image = torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last)
    for x in (torch.randn(4, 5), torch.randn(30, 40).t(), image):
        minicompile.reset()
        compiled = minicompile.compile(noise, fullgraph=True)
        (ours, *after), (eager, *wanted) = (outcome(lambda f=f: f(x), 1, 3) for f in (compiled, noise))  # noqa: B023
        assert all(map(torch.equal, after, wanted))
        for mine, its in zip(ours, eager, strict=True):
            assert mine.stride() == its.stride()
            torch.testing.assert_close(mine, its, rtol=1e-5, atol=1e-4)  # exp of float32
        assert (minicompile.stats()["kernels"], minicompile.stats()["fallbacks"]) == (1, 0)
