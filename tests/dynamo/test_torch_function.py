"""`__torch_function__`: tensor subclasses, other classes and modes see the calls that they see in eager."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

import minicompile
from minicompile.testing import check


class Seen(TorchFunctionMode):
    """Keeps what it is handed."""

    def __init__(self):
        self.calls = []

    def __torch_function__(self, function, types, args=(), kwargs=None):
        kinds = [type(arg).__name__ for arg in args]
        self.calls.append(
            (getattr(function, "__name__", None), [t.__name__ for t in types], kinds, kwargs and [*kwargs])
        )
        return function(*args, **(kwargs or {}))


def calls_of_everything(x):
    y = x + 1 - x * 2 / 3
    y = 1 - y
    y = 2 / y
    y = F.relu(y) + torch.relu(y).sum(0, keepdim=True)
    y[0] = 1
    y += x.shape[0] + len(x) + x.size(1)
    a, b, *_ = x
    y = y + a * (x > 0) + torch.stack([a, b]).mean() + x.T[0, 0] + torch.ones(3)
    return y.relu_() ** 2, x.dtype, -y, abs(y), x @ x.T


@pytest.mark.parametrize("backend", ["eager", "inductor"])
def test_a_mode_sees_what_it_sees_in_eager(backend):
    def run(x):
        with Seen() as seen:
            result = calls_of_everything(x)
        return result, seen.calls

    compiler = lambda fn: minicompile.compile(fn, backend=backend, fullgraph=True)
    check(run, torch.randn(4, 3), compiler=compiler, graphs=1, graph_breaks=0)


@pytest.mark.parametrize("backend", ["eager", "inductor"])
def test_a_mode_that_is_on_at_the_call(backend):
    def run(x, compiled=calls_of_everything):
        with Seen() as seen:
            result = compiled(x)
        return result, seen.calls

    x = torch.randn(4, 3)
    compiled = minicompile.compile(calls_of_everything, backend=backend, fullgraph=True)
    expected = run(x)
    for _ in range(2):
        found = run(x, compiled)
        torch.testing.assert_close(found[0][0], expected[0][0])
    minicompile.reset()
    with Seen() as seen:
        compiled(x)
    assert seen.calls == expected[1]


class Doubled(TorchFunctionMode):
    def __torch_function__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        return result * 2 if function is torch.add else result


def test_modes_nest_and_last_across_breaks():
    def run(x):
        with Doubled():
            y = torch.add(x, 1)
            with Doubled(), Seen() as seen:
                y = torch.add(y, 1)
                minicompile.graph_break()
                y = torch.add(y, x)
            y = torch.add(y, 1)
        return torch.add(y, 1), seen.calls

    check(run, torch.randn(3), graph_breaks=1, graphs=2)


def test_a_mode_of_another_class_needs_another_graph():
    def run(x):
        return torch.add(x, 1)

    compiled, x = minicompile.compile(run, backend="inductor"), torch.ones(2)
    with Seen():
        assert compiled(x).tolist() == [2, 2]
    with Doubled():
        assert compiled(x).tolist() == [4, 4]
    assert compiled(x).tolist() == [2, 2]


def test_a_mode_entered_and_left_behind():
    mode = Doubled()

    def enter(x):
        mode.__enter__()
        return torch.add(x, 1)

    compiled = minicompile.compile(enter, backend="eager", fullgraph=True)
    assert compiled(torch.ones(1)).item() == 4
    try:
        assert torch.add(torch.ones(1), 1).item() == 4
    finally:
        mode.__exit__(None, None, None)
    assert torch._C._len_torch_function_stack() == 0


class Metres(torch.Tensor):
    """A subclass with a constructor, attributes, a property and operators of its own."""

    @staticmethod
    def __new__(cls, data, scale=1.0):
        made = torch.Tensor._make_subclass(cls, data)
        made.scale = scale
        return made

    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        result = super().__torch_function__(function, types, args, kwargs)
        scales = [arg.scale for arg in args if isinstance(arg, Metres)]
        if isinstance(result, Metres) and scales:
            result.scale = max(scales)
        return result

    @property
    def metres(self):
        return self * self.scale

    def __mul__(self, other):
        return super().__mul__(other) + 1


def test_a_subclass_with_state():
    def run(x, length):
        made = Metres(x, 3.0)
        total = (made + length).metres + torch.relu(length) + 2 * made
        total.note = "n"
        return total, total.scale, length.scale, made.shape, torch.cat([made, length]), type(made.sum()).__name__

    length = Metres(torch.randn(4), 2.0)
    expected = run(torch.ones(4), length)
    found = minicompile.compile(run, backend="inductor", fullgraph=True)(torch.ones(4), length)
    assert [type(t) for t in found] == [type(t) for t in expected]
    assert found[1:4] == expected[1:4] and found[5] == expected[5]
    assert found[0].note == "n" and found[0].scale == expected[0].scale
    assert not hasattr(found[4], "scale")
    torch.testing.assert_close(found[0].as_subclass(torch.Tensor), expected[0].as_subclass(torch.Tensor))


def test_writes_to_a_subclass_and_its_gradient():
    class Plain(torch.Tensor):
        pass

    def run(x, weight):
        same = x is x.mul_(2)
        x[0] += 1
        y = (x * weight).exp()
        y = y + 1
        return y, same, y is x

    def fresh():
        return torch.ones(3).as_subclass(Plain), torch.full((3,), 2.0).as_subclass(Plain).requires_grad_()

    results = []
    for function in (run, minicompile.compile(run, backend="inductor", fullgraph=True)):
        x, weight = fresh()
        y, *same = function(x, weight)
        assert type(y) is Plain and same == [True, False]
        y.sum().backward()
        results.append([t.as_subclass(torch.Tensor) for t in (x, y.detach(), weight.grad)])
    torch.testing.assert_close(*results)


class First(torch.Tensor):
    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        return NotImplemented if len(types) > 1 else super().__torch_function__(function, types, args, kwargs)


class Second:
    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        return function.__name__, [t.__name__ for t in types], len(args), kwargs


def test_who_is_asked_first():
    def run(x):
        first, second = x.as_subclass(First), Second()
        return torch.add(first, second, alpha=2), F.linear(second, first), torch.cat([second, first]), F.relu(second)

    check(run, torch.ones(2, 2), graph_breaks=0)


def test_nobody_takes_the_arguments():
    class Never:
        @classmethod
        def __torch_function__(cls, function, types, args=(), kwargs=None):
            return NotImplemented

    def run(x):
        try:
            return torch.add(x, Never())
        except TypeError as error:
            return x - 1, "NotImplemented" in str(error)

    check(run, torch.ones(2))


def test_overriding_switched_off():
    class Plain(torch.Tensor):
        pass

    def run(x):
        y = x.as_subclass(Plain)
        with torch._C.DisableTorchFunctionSubclass():
            a = type(y + 1).__name__, torch.overrides.has_torch_function_unary(y)
            minicompile.graph_break()
            b = type(y + 1).__name__
        with Seen() as seen, torch._C.DisableTorchFunction():
            c = y + 1
        return a, b, type(c).__name__, type(y + 1).__name__, seen.calls, torch._C._is_torch_function_enabled()

    check(run, torch.ones(2), graph_breaks=1)


def test_a_module_with_parameters_of_a_subclass():
    class Plain(torch.Tensor):
        pass

    class Layer(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("table", torch.arange(3.0).as_subclass(Plain))

        def forward(self, x):
            return F.linear(x, self.table[None]) + self.table.sum()

    x, layer = torch.randn(2, 3), Layer()
    found = minicompile.compile(layer, backend="inductor", fullgraph=True)(x)
    assert type(found) is Plain
    torch.testing.assert_close(found.as_subclass(torch.Tensor), layer(x).as_subclass(torch.Tensor))
