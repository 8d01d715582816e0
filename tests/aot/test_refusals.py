"""Numbers and dtypes that kernels refuse, and overlapping writes: compiled, they raise what eager raises."""

import warnings

import pytest
import torch
import torch.nn.functional as F

import minicompile
from minicompile.aot import refusals

INT8, FLOAT = torch.ones(2, dtype=torch.int8), torch.ones(2)
REFUSED = {  # PyTorch's issues 195675, 198071, 183762, 178480, 194501 and their kin
    "clamp": (lambda x: torch.clamp(x, -1000, 1000) + 1, INT8),
    "clamp_max": (lambda x: x.clamp(max=300), INT8),
    "clamp of floats": (lambda x: torch.clamp(x * 2, min=-3.4e39), FLOAT),
    "add": (lambda x: torch.add(x, x, alpha=1000), INT8),
    "full": (lambda x: x + torch.full((2,), 300, dtype=torch.int8), INT8),
    "full_like": (lambda x: torch.full_like(x, float("nan")), INT8),
    "masked_fill": (lambda x: x.masked_fill(x > 0, 300), INT8),
    "where": (lambda x: torch.where(x > 0, x, 300), INT8),
    "scalar_tensor": (lambda x: x + torch.scalar_tensor(300, dtype=torch.int8), INT8),
    "pad": (lambda x: F.pad(x, (1, 1), value=300), INT8),
    "pow": (lambda x: x**-1, INT8),
    "leaky_relu": (lambda x: F.leaky_relu(x, 1e39), FLOAT),
    "celu": (lambda x: F.celu(x, 0.0), FLOAT),
    "celu_": (lambda x: torch.celu_(x.clone(), 0.0), FLOAT),
    "smooth_l1_loss": (lambda x: F.smooth_l1_loss(x, x + 1, beta=-1.0), FLOAT),
    "abs": (lambda x: (x > 0).abs(), FLOAT),
    "relu": (lambda x: torch.relu(x > 0), FLOAT),
    "argmax": (lambda x: (x > 0).argmax(), FLOAT),
    "clamp of bools": (lambda x: torch.clamp(x > 0, x > 1, x > 2), FLOAT),
    "sub": (lambda x: x - True, FLOAT),
    "mul_": (lambda x: (x > 0).mul_(2), FLOAT),
    "ldexp_": (lambda x: x.ldexp_(x), INT8),
    "logit_": (lambda x: x.logit_(), INT8),
    "remainder": (lambda x: (x > 0) % True, FLOAT),
    "bitwise_and": (lambda x: x & 1, FLOAT),
    "bool pow": (lambda x: True ** (x > 0), FLOAT),
    "expanded copy_": (lambda x: x.expand(3, 2).copy_(torch.arange(6.0).view(3, 2)), FLOAT),
}


@pytest.mark.graph_errors
@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
@pytest.mark.parametrize("name", REFUSED)
def test_raises_as_eager(name, backend):
    function, x = REFUSED[name]
    with pytest.raises(RuntimeError) as eager:
        function(x.clone())
    with pytest.raises(RuntimeError) as compiled:
        minicompile.compile(function, backend=backend)(x.clone())
    assert (type(compiled.value), str(compiled.value)) == (type(eager.value), str(eager.value))


def test_numbers_that_are_taken_stay_in_the_graph():
    def function(x, y):
        bounds = y.clamp(-128, 127), x.clamp(-1e38, float("inf")), torch.full((2,), -1, dtype=torch.uint8)
        return (
            *bounds,
            F.celu(x, 0.5),
            (x > 0) * 2,
            (x > 0).sum(),
            y.sign() / 2,
            x.half() + 1,
            x.masked_fill(y > 0, 3.0),
            y**2,
            F.pad(x, (-1, 3), value=2.0),
            x.norm(-1),
        )

    compiled = minicompile.compile(function, fullgraph=True)
    for want, got in zip(function(FLOAT, INT8), compiled(FLOAT, INT8), strict=True):
        assert torch.equal(want, got) and want.dtype == got.dtype
    assert minicompile.stats()["graphs"] == 1


@pytest.mark.parametrize("gradient", [False, True])
def test_no_warning_of_one_element(gradient):
    """One element has no variance: kernels that would warn of it are not asked."""
    refusals.refusal.cache_clear()
    x = torch.rand(2, 3, requires_grad=gradient)
    moments = lambda x: (x.var(1), x.std(0, correction=0), x.var(), *torch.var_mean(x, 0), *torch.std_mean(x, 1, False))  # noqa: E731
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        results = minicompile.compile(moments)(x)
        expected = moments(x)
    assert not heard and all(map(torch.allclose, results, expected))


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_overlapping_write_runs_in_eager(backend):
    def function(x):
        y = x.unfold(0, 3, 1)
        y.mul_(2)
        return y

    want, got = torch.arange(5.0), torch.arange(5.0)
    function(want)
    minicompile.compile(function, backend=backend)(got)
    assert torch.equal(want, got)
