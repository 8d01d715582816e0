"""compile(): torch.compile's signature and behaviour; OptimizedModule; the other public functions."""

import copy
import functools
import gc
import inspect
import pickle

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import minicompile
from minicompile import errors
from minicompile.testing import CompileCounter


def double(x, *, bias=0):
    """Twice x."""
    return x * 2 + bias


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(3, 3)
        self.norm = nn.BatchNorm1d(3)
        self.calls = 0

    def forward(self, x):
        return self.norm(self.linear(x)).relu()


def test_the_signature_is_torch_compiles():
    ours, theirs = inspect.signature(minicompile.compile), inspect.signature(torch.compile)
    assert [(p.name, p.kind) for p in ours.parameters.values()][:4] == [
        (p.name, p.kind) for p in theirs.parameters.values()
    ][:4]
    assert set(ours.parameters) <= set(theirs.parameters)
    for name in ("model", "fullgraph", "dynamic", "mode", "options", "disable"):
        assert ours.parameters[name].default == theirs.parameters[name].default


def test_call_decorator_and_decorator_with_options():
    x = torch.ones(2)
    plain, decorated = minicompile.compile(double), minicompile.compile(fullgraph=True, backend="eager")(double)
    assert plain(x, bias=1).tolist() == decorated(x, bias=1).tolist() == [3.0, 3.0]
    assert plain.__name__ == "double" and plain.__doc__ == "Twice x."
    assert minicompile.compile(double, disable=True) is double


class Doubles:
    def __call__(self, x):
        return x * 2


@pytest.mark.parametrize(
    "function",
    [
        *(F.silu, F.gelu, torch.relu, torch.Tensor.sin, torch.ops.aten.sin.default),
        *(torch.func.vmap(torch.sin), torch.func.grad(lambda x: x.sin().sum())),
        *(functools.partial(torch.mul, 3), torch.no_grad()(lambda x: x.sin() + 1), Doubles(), Doubles().__call__),
    ],
)
def test_whatever_can_be_called_is_captured(function):
    compiled, x = minicompile.compile(function, backend="eager"), torch.randn(5)
    assert torch.equal(compiled(x), function(x)) and torch.equal(compiled(x + 1), function(x + 1))
    assert minicompile.stats()["graphs"] == 1 and minicompile.stats()["graph_breaks"] == 0


def test_a_class_can_be_compiled():
    assert type(minicompile.compile(Doubles)()) is Doubles


def test_many_builtins_do_not_share_a_recompile_limit():
    for name in ("sin", "cos", "tan", "exp", "erf", "tanh", "relu", "abs", "neg", "ceil"):
        minicompile.compile(getattr(torch, name), backend="eager")(torch.ones(3))
    assert minicompile.stats()["graphs"] == 10 and minicompile.stats()["recompiles"] == 0


def test_two_backends_of_one_function_keep_apart():
    seen = []

    def spy(gm, example_inputs):
        seen.append(len(example_inputs))
        return gm.forward

    x = torch.ones(2)
    eager, spied = minicompile.compile(double, backend="eager"), minicompile.compile(double, backend=spy)
    eager(x), spied(x), eager(x), spied(x)
    assert seen == [1] and minicompile.stats()["graphs"] == 2


def test_bad_arguments_name_what_is_known():
    with pytest.raises(errors.InvalidBackend, match="aot_eager, eager, inductor"):
        minicompile.lookup_backend("nope")
    with pytest.raises(errors.InvalidBackend, match="max-autotune"):
        minicompile.compile(double, mode="nope")
    with pytest.raises(AttributeError, match="nope"):
        minicompile.compile(double, options={"nope": 1})
    with pytest.raises(ValueError, match="not both"):
        minicompile.compile(double, mode="default", options={"fusion": False})
    with pytest.raises(TypeError, match="callable"):
        minicompile.compile(3)


def test_options_hold_while_the_graph_is_compiled():
    def spy(gm, example_inputs):
        seen.append(minicompile.config.fusion)
        return gm.forward

    seen = []
    minicompile.compile(double, backend=spy, options={"fusion": False})(torch.ones(1))
    assert seen == [False] and minicompile.config.fusion is True


def test_options_hold_for_the_backward_which_is_compiled_later():
    x = torch.randn(5, requires_grad=True)
    minicompile.compile(lambda x: (x.sin() * x.cos()).sum(), options={"fusion": False})(x).backward()
    (entry,) = minicompile.record.compilations
    forward, backward = entry.artifacts("schedule")
    assert len(backward.groups) > 1 and not any(d.fused for d in forward.decisions + backward.decisions)


def test_an_optimized_module_is_its_module_with_a_prefix():
    torch.manual_seed(0)
    model = Net()
    compiled = minicompile.compile(model, backend="eager")
    assert isinstance(compiled, minicompile.OptimizedModule) and compiled._orig_mod is model
    assert list(compiled.state_dict()) == [f"_orig_mod.{name}" for name in model.state_dict()]
    assert [p.data_ptr() for p in compiled.parameters()] == [p.data_ptr() for p in model.parameters()]
    assert compiled.linear is model.linear
    compiled.calls = 5
    assert model.calls == 5
    compiled.eval()
    assert not model.training and not compiled.training
    compiled.train()
    assert model.norm.training
    x = torch.randn(4, 3)
    twin = copy.deepcopy(model)
    assert torch.equal(compiled(x), twin(x)) and torch.equal(model.norm.running_mean, twin.norm.running_mean)


def test_what_the_class_of_the_wrapper_has_is_set_on_the_wrapper():
    """As `fully_shard` does, which exchanges the class."""
    model, x = Net().eval(), torch.randn(2, 3)
    compiled = minicompile.compile(model, backend="eager")
    compiled.__class__ = type("Wrapped", (minicompile.OptimizedModule,), {})
    assert type(compiled).__name__ == "Wrapped" and type(model) is Net and torch.equal(compiled(x), model(x))
    compiled.forward = lambda x: x + 1
    assert torch.equal(compiled(x), x + 1) and "forward" not in vars(model)
    del compiled.forward, compiled.calls
    assert torch.equal(compiled(x), model(x)) and not hasattr(model, "calls")


def test_the_truth_and_the_length_are_the_originals():
    """#102315 and #196253."""
    empty, two, plain = (
        minicompile.compile(m) for m in (nn.ModuleList(), nn.Sequential(nn.ReLU(), nn.ReLU()), nn.ReLU())
    )
    assert not empty and two and plain and len(empty) == 0 and len(two) == 2
    with pytest.raises(TypeError, match=r"object of type 'ReLU' has no len\(\)"):
        len(plain)


def test_an_optimized_module_can_be_copied_and_pickled():
    compiled = minicompile.compile(Net(), backend="eager").eval()
    x = torch.randn(2, 3)
    for twin in (copy.deepcopy(compiled), pickle.loads(pickle.dumps(compiled))):
        assert twin._orig_mod is not compiled._orig_mod
        assert torch.equal(twin(x), compiled(x))


def test_forward_hooks_of_the_module_run():
    model, seen = Net().eval(), []
    model.register_forward_hook(lambda module, args, output: seen.append(output.shape))
    model.linear.register_forward_hook(lambda module, args, output: output + 1)
    x = torch.randn(2, 3)
    expected = model(x)
    assert torch.equal(minicompile.compile(model, backend="eager")(x), expected)
    assert seen == [(2, 3), (2, 3)]


def test_forward_hooks_of_the_wrapper_run():
    model, seen = Net().eval(), []
    compiled = minicompile.compile(model, backend="eager")
    handle = compiled.register_forward_hook(lambda module, args, output: seen.append(module) or output + 1)
    x = torch.randn(2, 3)
    assert torch.equal(compiled(x), model(x) + 1) and seen == [compiled]
    handle.remove()
    assert torch.equal(compiled(x), model(x))


def test_backward_hooks_of_the_wrapper_run():
    """torch.compile's wrapper gives a part of what a registration notes to the original, and calls none."""
    seen = []
    for make in (lambda model: model, lambda model: minicompile.compile(model, backend="eager")):
        module = make(torch.nn.Linear(3, 2))
        module.register_full_backward_hook(lambda module, of_inputs, of_outputs: seen.append(of_outputs[0] * 1))
        module.register_full_backward_pre_hook(lambda module, of_outputs: (of_outputs[0] * 2,))
        module(torch.ones(2, 3, requires_grad=True)).sum().backward()
    assert [gradient.tolist() for gradient in seen] == [[[2.0, 2.0]] * 2] * 2


def test_explain_tells_breaks_guards_and_stages():
    def reads(x):
        y = x * 2
        return y + y.sum().item()

    explanation = minicompile.explain(reads)(torch.ones(2))
    assert explanation.result.tolist() == [6.0, 6.0]
    assert explanation.stats["graphs"] == 2 and explanation.stats["graph_breaks"] == 1
    assert [error.kind for error in explanation.breaks] == ["tensor read as a number"]
    text = repr(explanation)
    assert "tensor read as a number" in text and "float32[2] stride (1,) on cpu" in text and "hint:" in text
    assert explanation.seconds_by_stage()["capture"] > 0


@pytest.mark.parametrize("make", [lambda: lambda x: x * 2 + 1, lambda: torch.nn.Linear(2, 2)])
def test_explain_tells_what_was_compiled_before(make):
    fn, counter, x = make(), CompileCounter(), torch.ones(3, 2)
    compiled = minicompile.compile(fn, backend=counter)
    compiled(x)
    for told in (fn, compiled, fn):  # what is compiled already, too
        explanation = minicompile.explain(told, backend=counter)(x)
        assert explanation.stats["graphs"] == 1 and explanation.stats["recompiles"] == 0
        assert len(explanation.compilations) == 1 and torch.equal(explanation.result, fn(x))
    assert counter.graphs == 4
    wider = minicompile.explain(compiled, backend=counter)(torch.ones(4, 2))  # a second size is a recompile
    assert wider.stats["recompiles"] == 1 and "shape[0]: was 3, is 4" in repr(wider)
    compiled(x)
    compiled(torch.ones(5, 2))  # calls find what was compiled for explain
    assert counter.graphs == 5


def test_torch_compile_takes_our_backend_and_ours_any_callable():
    x = torch.randn(3, 3)
    assert torch.allclose(torch.compile(double, backend="minicompile")(x), double(x))
    assert minicompile.list_backends() == ["aot_eager", "eager", "inductor"]


def test_an_internal_error_warns_once_and_runs_eager():
    def broken(gm, example_inputs):
        raise RuntimeError("planted")

    def unique(x):
        return x + 41

    with minicompile.config.patch(strict=False), pytest.warns(UserWarning, match="planted") as caught:
        compiled = minicompile.compile(unique, backend=broken)
        assert compiled(torch.ones(1)).item() == compiled(torch.ones(1)).item() == 42
    assert len(caught) == 1
    with pytest.raises(errors.BackendCompilerFailed, match="planted"):
        minicompile.compile(unique, backend=broken)(torch.ones(2))


def test_a_redefined_function_starts_counting_afresh():
    def define():
        namespace = {}
        exec(compile("def scaled(x, k):\n    return x * k\n", "<cell>", "exec"), namespace)
        return namespace["scaled"]

    for attempt in range(4):
        compiled = minicompile.compile(define(), backend="eager")
        for k in range(3):
            assert compiled(torch.ones(1), k).item() == k
    assert minicompile.stats()["graphs"] == 12


def test_compiled_functions_and_models_can_be_freed():
    import gc
    import weakref

    def make():
        model = Net()

        def call(x):
            y = model(x)
            print(end="")
            return y + 1

        minicompile.compile(call, backend="eager")(torch.randn(2, 3))
        return weakref.ref(model), weakref.ref(call)

    references = make()
    minicompile.record.reset()
    gc.collect()
    assert [reference() for reference in references] == [None, None]


@pytest.mark.parametrize("frozen", [False, True])
@pytest.mark.parametrize("enabled", [False, True])
def test_the_collector_waits_while_we_compile_and_is_the_programs_again_afterwards(enabled, frozen, monkeypatch):
    seen, asked = [], []
    monkeypatch.setattr(minicompile.record, "_frozen", set())

    def backend(gm, inputs):
        seen.append(gc.isenabled())
        return gm.forward

    gc.unfreeze()  # Python 3.12 begins with some frozen
    try:
        if frozen:
            gc.freeze()
        if not enabled:
            gc.disable()
        before = gc.get_freeze_count()
        minicompile.compile(lambda x: x + 1, backend=backend)(torch.ones(2))
        assert seen == [False] and gc.isenabled() == enabled
        assert (gc.get_freeze_count() > 0) == frozen == (before > 0)
        monkeypatch.setattr(gc, "get_freeze_count", lambda: asked.append("asked"))
        for number in range(3):  # counting them goes through them all
            minicompile.compile(lambda x, number=number: x + number, backend="eager")(torch.ones(2))
        assert asked == ([] if frozen or not enabled else ["asked"] * 3)
    finally:
        gc.enable()
        gc.unfreeze()
