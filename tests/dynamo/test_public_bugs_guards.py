"""Small programs after public bug reports of torch.compile: what changes between calls is noticed, nothing else is.

See test_public_bugs.py.
"""

import functools

import pytest
import torch
from torch import nn
from worlds import same

import minicompile

X = torch.tensor([2.0])


class Shadowed(nn.Module):
    def __init__(self):
        super().__init__()
        self.sub, self.weight = nn.Identity(), nn.Parameter(torch.ones(1))
        self.register_buffer("offset", torch.zeros(1))

    def forward(self, x):
        return self.sub(x) * self.weight + self.offset


def names_shadowed_by_the_instance():
    module = Shadowed()
    attributes = module.__dict__
    changes = [
        lambda: object.__setattr__(module, "sub", nn.Hardtanh()),
        lambda: attributes.update(weight=5.0),
        lambda: attributes.update(offset=torch.ones(1)),
        lambda: (attributes.pop("sub"), attributes.pop("offset")),
        lambda: attributes.update(unrelated=1),
    ]
    return module, [(X,), *(step for change in changes for step in (change, (X,)))]


def methods_of_all_modules_replaced():
    call, implementation = nn.Module.__call__, nn.Module._call_impl
    changes = [
        lambda: setattr(nn.Module, "__call__", lambda module, x: call(module, x) * 10),
        lambda: setattr(nn.Module, "__call__", call),
        lambda: setattr(nn.Module, "_call_impl", lambda module, *x: implementation(module, *x) + 5),
        lambda: setattr(nn.Module, "_call_impl", implementation),
    ]
    module = nn.Sequential(nn.Identity())
    return lambda x: module(x) + 1, [(X,), *(step for change in changes for step in (change, (X,)))]


def contents_of_classes():
    class Settings:
        first = 1

        def method(self):
            return 2

    def function(x):
        names = [name for name in vars(Settings) if name[0] != "_"]
        return (
            x + len(names),
            names,
            "extra" in Settings.__dict__,
            vars(Settings)["first"],
            Settings.__dict__["method"](0),
        )

    changes = [
        lambda: setattr(Settings, "second", 5),
        lambda: setattr(Settings, "first", 7),
        lambda: setattr(Settings, "extra", 8),
        lambda: delattr(Settings, "second"),
        lambda: setattr(Settings, "method", lambda self: 9),
    ]
    return function, [(X,), *(step for change in changes for step in (change, (X,)))]


def caches_cleared_between_calls():
    @functools.lru_cache
    def cached(number, by=1):
        return [number * by]

    def function(x):
        return x + cached(1)[0], cached(1.0), cached(1.0) is cached(1.0), cached(2, by=torch.float32.itemsize)

    return function, [(X,), (X,), cached.cache_clear, (X,), (X,)], lambda: tuple(cached.cache_info())


def same_numbers(found, expected):
    found, expected = torch.view_as_real(found), torch.view_as_real(expected)
    torch.testing.assert_close(found, expected, equal_nan=True, rtol=0, atol=0)
    return torch.equal(found.signbit() | found.isnan(), expected.signbit() | expected.isnan())


@pytest.mark.parametrize("backend", ["eager", "inductor"])
def test_complex_constants_keep_their_parts(backend):
    """192604: the text of a complex number loses the signs of its zeros, and NaN has none."""

    def function(x, number):
        return x * number, torch.full((1,), number)

    compiled = minicompile.compile(function, backend=backend)
    parts = [0.0, -0.0, float("nan"), float("inf"), -2.0]
    numbers = [complex(real, imaginary) for real in parts for imaginary in parts]
    with minicompile.config.patch(recompile_limit=len(numbers)):
        for number in numbers:
            assert all(map(same_numbers, compiled(X, number), function(X, number))), number


PROGRAMS = [
    (176851, contents_of_classes, 4),
    (98372, methods_of_all_modules_replaced, 2),
    (146598, caches_cleared_between_calls, 1),
    (197859, names_shadowed_by_the_instance, 4),
]


@pytest.mark.parametrize(
    "program, recompiles", [pytest.param(p, n, id=f"{number}-{p.__name__}") for number, p, n in PROGRAMS]
)
def test_public_bug(program, recompiles):
    same(program, recompiles=recompiles)
