"""The checks must be able to fail: every kind of fault is planted once, and must be named.

The compile function under test is `torch.compile` or one that breaks what it is given; ours plays no part here.
"""

import copy
import dataclasses

import pytest
import torch
import torch.nn as nn
import torch.nn.functional as F

from minicompile.testing import CompileCounter, alias_pattern, check, differences


def identity(fn):
    return fn


def no_stats():
    return {}


def with_output(change):
    """A compile function whose result is changed by `change` before it is returned."""
    return lambda fn: lambda *args, **kwargs: change(fn(*args, **kwargs))


def fails_with(text, fn, *args, compiler, **options):
    with pytest.raises(AssertionError) as error:
        check(fn, *args, compiler=compiler, stats=no_stats, **options)
    assert text in str(error.value), str(error.value)


def square(x):
    return x * x


def test_a_faithful_compiler_passes():
    x = torch.randn(3, 4, requires_grad=True)
    check(square, x, compiler=identity, stats=no_stats)
    check(square, x, compiler=identity, stats=no_stats, exact=True, also=[(torch.randn(5, 5),)])
    counter = CompileCounter()
    check(square, x, compiler=lambda fn: torch.compile(fn, backend=counter), stats=counter.stats, graphs=1, ops=1)
    torch.compiler.reset()


def test_counts_are_exact():
    fails_with("graphs: expected 1, counted None", square, torch.ones(2), compiler=identity, graphs=1)
    counter = CompileCounter()
    with pytest.raises(AssertionError, match="graphs: expected 2, counted 1"):
        compiler = lambda fn: torch.compile(fn, backend=counter)  # noqa: E731
        check(square, torch.randn(3), compiler=compiler, stats=counter.stats, graphs=2)
    torch.compiler.reset()


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (lambda y: y + 1e-3, "Tensor-likes are not close"),
        (lambda y: y.double(), "eager's dtype is torch.float32, compiled torch.float64"),
        (lambda y: y.t().contiguous().t(), "eager's strides are (4, 1), compiled (1, 3)"),
        (lambda y: y[:2], "eager's shape is torch.Size([3, 4]), compiled torch.Size([2, 4])"),
        (lambda y: y.detach(), "eager's requires_grad is True, compiled False"),
        (lambda y: (y,), "eager has a Tensor, compiled a tuple"),
        (lambda y: torch.where(y > 1, torch.nan, y), "Tensor-likes are not close"),
    ],
)
def test_a_changed_output_is_named(change, text):
    x = torch.arange(12.0).view(3, 4).requires_grad_()
    fails_with(f"call 1: output: {text}", square, x, compiler=with_output(change))


def test_bitwise_sees_signed_zeros_and_nan():
    zero = lambda x: x * 0.0  # noqa: E731
    check(zero, torch.tensor([-1.0, torch.nan]), compiler=identity, stats=no_stats, exact=True)
    fails_with("not bitwise equal", zero, torch.tensor([-1.0, 1.0]), compiler=with_output(torch.abs), exact=True)
    check(zero, torch.tensor([-1.0, 1.0]), compiler=with_output(torch.abs), stats=no_stats)


class WrongGradient(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, factor):
        ctx.factor = factor
        return x.clone()

    @staticmethod
    def backward(ctx, gradient):
        return gradient * ctx.factor, None


def test_wrong_gradients_are_named():
    x = torch.randn(3, 4, requires_grad=True)
    wrong = with_output(lambda y: WrongGradient.apply(y, 1.001))
    fails_with("gradients after the call['args[0]']", square, x, compiler=wrong)
    cut = lambda fn: lambda x: fn(x.detach()).requires_grad_()  # noqa: E731
    fails_with("eager has a Tensor, compiled a NoneType", square, x, compiler=cut)
    model = nn.Linear(4, 4)
    fails_with("gradients after the call['weight']", model, x, compiler=wrong)
    transposed = with_output(lambda y: y + (y.t() - y.t().detach()) - (y - y.detach()))
    fails_with("gradients after the call", square, torch.randn(3, 3, requires_grad=True), compiler=transposed)


def test_mutation_of_arguments_is_seen():
    def add_one(x, log):
        x.add_(1)
        log.append("added")
        return x

    check(add_one, torch.ones(2), [], compiler=identity, stats=no_stats)
    copied = lambda fn: lambda *args: fn(*copy.deepcopy(args))  # noqa: E731
    fails_with("arguments after the call[0][0]", add_one, torch.ones(2), [], compiler=copied)
    fails_with("arguments after the call[0][1]: eager has the parts", add_one, torch.ones(2), [], compiler=copied)


def test_aliasing_is_seen():
    def views(x):
        return x.view(-1), x[0]

    x = torch.randn(3, 4)
    check(views, x, compiler=identity, stats=no_stats)
    cloned = with_output(lambda pair: tuple(t.clone() for t in pair))
    fails_with("which tensor shares memory with which", views, x, compiler=cloned)
    check(views, x, compiler=cloned, stats=no_stats, aliasing=False)
    assert alias_pattern(a=[x, x, x.t()]) == {"a[0]": "own", "a[1]": "is a[0]", "a[2]": "shares memory with a[0]"}


def test_buffers_are_seen():
    norm = nn.BatchNorm1d(4)
    check(norm, torch.randn(8, 4), compiler=identity, stats=no_stats)

    def frozen(module):
        return lambda x: F.batch_norm(x, None, None, module.weight, module.bias, training=True)

    fails_with("buffers after the call['running_mean']", norm, torch.randn(8, 4), compiler=frozen)


def raise_value_error(x):
    raise ValueError(f"sum is {x.sum().item()}")


def test_exceptions_are_compared():
    def other_type(fn):
        def run(x):
            raise TypeError("sum is 2.0")

        return run

    check(raise_value_error, torch.ones(2), compiler=identity, stats=no_stats)
    text = "eager raised ValueError('sum is 2.0'), compiled TypeError"
    fails_with(text, raise_value_error, torch.ones(2), compiler=other_type)
    fails_with("compiled None", raise_value_error, torch.ones(2), compiler=lambda fn: square)

    def elsewhere(fn):
        def run(x):
            raise ValueError("sum is 2.0")

        return run

    fails_with("came from ('raise_value_error'", raise_value_error, torch.ones(2), compiler=elsewhere)


def test_plain_objects_are_walked():
    @dataclasses.dataclass
    class Pair:
        a: object
        b: object

    one, other = Pair(torch.ones(2), {"k": [1, float("nan")]}), Pair(torch.ones(2), {"k": [1, float("nan")]})
    assert differences(one, other) == []
    other.b["k"][0] = 2
    assert differences(one, other) == ["output.b['k'][0]: eager has 1, compiled 2"]
    one.a = one  # a cycle
    other.a = other
    assert len(differences(one, other)) == 1


def test_random_numbers_are_the_same_in_both():
    check(lambda x: F.dropout(x, 0.5), torch.ones(64), compiler=identity, stats=no_stats, exact=True)
    drawn = lambda fn: lambda x: (torch.rand(1), fn(x))[1]  # noqa: E731
    fails_with("call 1: output", lambda x: F.dropout(x, 0.5), torch.ones(64), compiler=drawn)
