"""What the functional form cannot hold runs in eager: metadata changes, subclasses, memory shared by written inputs."""

import pytest
import torch
from aot_helpers import compiled, run_gm

from minicompile import aot, record
from minicompile.errors import Unsupported


def untraceable(x):
    return x.t_() * 2


def resize(x):
    x.resize_(2)
    return x + 1


def set_storage(x):
    x.set_(torch.zeros_like(x) + 3)
    return x + 1


def requires_grad(x):
    x.requires_grad_()
    return x * 2


def new_leaf(x):
    w = (x * 1).requires_grad_()
    return w, (w * x).sum()


def from_new_leaf(x):
    return (x.detach() * 1).requires_grad_().sin()


KINDS = {
    untraceable: "input metadata mutation",
    resize: "input metadata mutation",
    set_storage: "input metadata mutation",
    requires_grad: "input autograd mutation",
    new_leaf: "leaf made in the graph",
    from_new_leaf: "leaf made in the graph",
}


@pytest.mark.parametrize("fn", KINDS, ids=lambda f: f.__name__)
def test_rejected_graph_runs_in_eager(fn):
    gm = torch.fx.symbolic_trace(fn)
    with pytest.raises(Unsupported) as info:
        aot.trace(gm, [torch.ones(3, 4)])
    assert info.value.kind == KINDS[fn] and info.value.hint
    record.reset()
    with record.compilation("fn") as entry:
        function = aot.compile(gm, [torch.ones(3, 4)], forward_compiler=run_gm)
    assert record.counters["aot_rejected"] == 1 and entry.artifacts("aot")[0].kind == KINDS[fn]
    ours, theirs = torch.ones(3, 4), torch.ones(3, 4)
    out, expected = function(ours), fn(theirs)
    expected = expected if isinstance(expected, tuple) else (expected,)
    assert all(torch.equal(a, b) for a, b in zip(out, expected, strict=True))
    assert torch.equal(ours, theirs) and ours.shape == theirs.shape and ours.requires_grad == theirs.requires_grad


def test_subclass_is_rejected():
    class Mine(torch.Tensor):
        pass

    with pytest.raises(Unsupported, match="Mine"):
        aot.trace(torch.fx.symbolic_trace(lambda x: x + 1), [torch.ones(3).as_subclass(Mine)])


def test_as_strided_reads_memory():
    def fn(x):
        x.add_(1)
        return torch.as_strided_copy(x, (2,), (2,))

    for make in (lambda: torch.arange(10)[::2], lambda: torch.arange(10)):
        assert torch.equal(compiled(fn)(make()), fn(make()))


def write_first(x, y):
    x.add_(1)
    return x * y


PAIRS = {
    "same tensor": lambda base: (base, base),
    "overlapping": lambda base: (base[:4], base[2:6]),
    "view": lambda base: (base, base.view(2, 4).view(-1)),
    "interleaved": lambda base: (base[::2], base[1::2]),
    "neighbours": lambda base: (base[:4], base[4:]),
    "apart": lambda base: (base, base.clone()),
}


@pytest.mark.parametrize("pair", PAIRS)
def test_inputs_that_share_memory(pair):
    """Compiled for separate tensors, called with tensors that share memory: as in eager, also when it alternates."""
    gm = torch.fx.symbolic_trace(write_first)
    shape = PAIRS[pair](torch.arange(8.0))[0].shape
    examples = [torch.ones(shape), torch.ones(shape)]
    function = aot.compile(gm, examples, forward_compiler=run_gm)
    for chosen in ("apart", pair, "apart", pair):
        ours, theirs = torch.arange(8.0), torch.arange(8.0)
        make = PAIRS[chosen]
        inputs, expected = (
            tuple(t[: shape[0]] if chosen == "apart" else t for t in make(base)) for base in (ours, theirs)
        )
        assert torch.equal(function(*inputs)[0], write_first(*expected)), chosen
        assert torch.equal(ours, theirs), chosen


def test_separate_inputs_are_not_taken_for_shared():
    gm = torch.fx.symbolic_trace(write_first)
    function = aot.compile(gm, [torch.ones(4), torch.ones(4)], forward_compiler=run_gm)
    record.reset()
    base = torch.arange(8.0)
    function(base[:4], base[4:])
    assert record.counters["alias_graphs"] == 0
    function(base[:4], base[1:5])
    assert record.counters["alias_graphs"] == 1 and record.counters["alias_fallbacks"] == 0


@pytest.mark.parametrize("count", [3, 20])
def test_overlap_among_many_inputs(count):
    """Few moved inputs are compared one by one, many are swept in the order of their addresses: equal answers."""

    def fn(*tensors):
        tensors[1].add_(1)
        return sum(tensors)

    names = ", ".join(f"a{i}" for i in range(count))
    gm = torch.fx.symbolic_trace(eval(f"lambda {names}: fn({names})", {"fn": fn}))
    function = aot.compile(gm, [torch.ones(4)] * count, forward_compiler=run_gm)
    base = torch.arange(4.0 * count + 4)
    apart = [base[4 * i : 4 * i + 4] for i in range(count)]
    cases = [
        (apart, 0),
        (list(reversed(apart)), 0),
        ([apart[0]] * 1 + [apart[1]] + [apart[2]] * (count - 2), 0),  # shared, but only read
        ([apart[1]] + apart[1:], 1),
        (apart[:2] + [base[5:9]] + apart[3:], 1),
        (apart[:1] + [base[2:6]] + apart[2:], 1),
        (apart, 0),
    ]
    for inputs, graphs in cases:
        record.reset()
        twin = base.clone()
        copies = [twin[t.storage_offset() : t.storage_offset() + 4] for t in inputs]
        assert torch.equal(function(*inputs)[0], fn(*copies)) and torch.equal(base, twin)
        assert record.counters["alias_graphs"] == graphs and record.counters["alias_fallbacks"] == 0


def test_examples_that_are_the_same_tensor():
    x = torch.arange(4.0)
    function = aot.compile(torch.fx.symbolic_trace(write_first), [x, x], forward_compiler=run_gm)
    twin, out = torch.arange(4.0), function(x, x)
    assert torch.equal(out[0], write_first(twin, twin)) and torch.equal(x, twin)


def test_read_only_duplicates():
    x = torch.randn(3, requires_grad=True)
    function = aot.compile(torch.fx.symbolic_trace(lambda a, b: a * b.sin()), [x, x], forward_compiler=run_gm)
    function(x, x)[0].sum().backward()
    torch.testing.assert_close(x.grad, x.detach().sin() + x.detach() * x.detach().cos())


def test_constants_of_the_graph():
    """Tensors that the graph holds itself are inputs of the compiled graphs; writes reach them."""

    class Holder(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = torch.nn.Linear(3, 3)
            self.register_buffer("mean", torch.zeros(3))

        def forward(self, x):
            self.mean.mul_(0.5).add_(x.mean(0))
            return self.inner(x) + self.mean

    module, twin = Holder(), Holder()
    twin.load_state_dict(module.state_dict())
    tracer = torch.fx.Tracer()
    tracer.proxy_buffer_attributes = True
    gm = torch.fx.GraphModule(module, tracer.trace(module))
    x = torch.randn(2, 3)
    function = aot.compile(gm, [x], forward_compiler=run_gm)
    for _ in range(2):
        (out,), expected = function(x), twin(x)
        torch.testing.assert_close(out, expected)
    out.sum().backward()
    expected.sum().backward()
    assert torch.equal(gm.mean, twin.mean)
    torch.testing.assert_close(gm.inner.weight.grad, twin.inner.weight.grad)


def test_checks_of_linear_algebra_are_in_the_graph():
    """A matrix without an inverse raises what eager raises, also where nobody reads the result."""

    def fn(a, b):
        torch.linalg.inv(a)
        return torch.linalg.solve(a, b) * 2

    function, b = compiled(fn), torch.ones(2, 1)
    good = torch.tensor([[2.0, 1.0], [1.0, 3.0]])
    torch.testing.assert_close(function(good, b), fn(good, b))
    for each in (fn, function):
        with pytest.raises(torch.linalg.LinAlgError, match="singular"):
            each(torch.zeros(2, 2), b)
