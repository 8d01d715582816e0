"""Devices, old constructors, versions, `.data`, branches on data: what torch.compile captures whole, and so do we."""

import collections
import contextlib
import threading

import pytest
import torch

import minicompile
from minicompile import config
from minicompile.dynamo import symbolic_convert
from minicompile.testing import check, differences

X = torch.randn(4, 3, generator=torch.Generator().manual_seed(0))


def whole(fn, *args, backend="eager", **options):
    compiler = lambda f: minicompile.compile(f, backend=backend, fullgraph=True)
    return check(fn, *args, compiler=compiler, graphs=1, graph_breaks=0, **options)


# --- devices ------------------------------------------------------------------------------------------
def test_a_device_as_a_block():
    def run(x):
        with torch.device("meta") as device:
            made, like = torch.ones(3), torch.ones_like(x)
            inside = torch.get_default_device()
        return made.device, like + 1, str(device), inside, torch.get_default_device(), torch.zeros(2)

    whole(run, X)


def test_the_default_device():
    def switch(x):
        before = torch.get_default_device()
        torch.set_default_device("meta")
        made = torch.ones(3)
        torch.set_default_device(None)
        return x + torch.ones(3), made.device, before, torch.get_default_device()

    whole(switch, X)

    def make(x):
        return torch.ones(3).device, torch.get_default_device()

    compiled = minicompile.compile(make, backend="eager", fullgraph=True)
    assert str(compiled(X)[0]) == "cpu"
    torch.set_default_device("meta")
    try:
        assert [str(d) for d in compiled(X)] == ["meta", "meta"]
    finally:
        torch.set_default_device(None)
    assert str(compiled(X)[0]) == "cpu"


def test_a_default_device_that_stays():
    def switch(x):
        torch.set_default_device("meta")
        return x + 1

    try:
        minicompile.compile(switch, backend="eager", fullgraph=True)(X)
        assert str(torch.ones(1).device) == "meta"
    finally:
        torch.set_default_device(None)
    assert torch._C._len_torch_function_stack() == 0


LOCAL = threading.local()


def test_a_threads_own_values():
    def run(x):
        count = getattr(LOCAL, "count", 0)
        LOCAL.count = count + 1
        return x + count, hasattr(LOCAL, "other")

    compiled = minicompile.compile(run, backend="eager", fullgraph=True)
    assert [compiled(X)[0].equal(X + k) for k in range(3)] == [True] * 3 and LOCAL.count == 3
    seen = []
    thread = threading.Thread(target=lambda: seen.append(compiled(X)[0].equal(X)))
    thread.start()
    thread.join()
    assert seen == [True] and LOCAL.count == 3


# --- old constructors -----------------------------------------------------------------------------------
def test_old_constructors():
    def run(x):
        empty = torch.FloatTensor(4, 3).zero_()
        lists = torch.FloatTensor([1, 2, 3]), torch.LongTensor([[1, 2]]), torch.Tensor([1]), torch.BoolTensor([True])
        same = torch.FloatTensor(x)
        same.add_(1)
        return empty, lists, same, torch.DoubleTensor(torch.Size([0, 2])), torch.IntTensor().shape, x

    whole(run, X)


def test_old_constructors_refuse_other_dtypes():
    def run(x):
        try:
            return torch.LongTensor(x)
        except TypeError as error:
            return "expected" in str(error), x + 1

    check(run, X, compiler=lambda f: minicompile.compile(f, backend="eager"))


# --- versions and memory --------------------------------------------------------------------------------
@pytest.mark.parametrize("backend", ["eager", "inductor"])
def test_versions(backend):
    def run(x):
        before = x._version
        x.add_(1).mul_(2)
        y = x + 1
        y.relu_()
        return x * (x._version - before), y._version, x._version

    compiled, x = minicompile.compile(run, backend=backend, fullgraph=True), X.clone()
    for _ in range(3):
        before, expected = x._version, x.add(1).mul(2)
        result, of_y, of_x = compiled(x)
        assert result.equal(expected * 2) and of_y == 1 and of_x == before + 2
    assert minicompile.record.stats()["graphs"] == 1


@pytest.mark.parametrize("alias", [torch.Tensor.detach, lambda x: x[1:].detach(), lambda x: x[1:], lambda x: x.data])
def test_versions_of_two_names_of_one_memory(alias):
    """A detached tensor shares the count of writes and is no view; `.data` counts its own."""

    def run(x, other):
        before = other._version
        other.add_(1)
        x.mul_(2)
        return before, x._version, other._version, x + 1

    def made_before_a_break(x, other):
        other = alias(x)
        minicompile.graph_break()
        return other._version, x._version

    for function in (run, made_before_a_break):
        results = []
        for each in (function, minicompile.compile(function, backend="eager")):
            x = X.clone()
            other = alias(x)
            results.append([each(x, other), each(x, other), each(other, x)])
        assert not differences(*results)
    assert results[1] == [(0, 0)] * 3


def test_a_function_of_python_for_each_element():
    """It reads the memory, which fake tensors do not have."""

    def run(x, n):
        try:
            x.detach().apply_(n)
        except TypeError:
            n += 1
        try:
            x.map_(x, n).map2_(x, x, n)
        except TypeError:
            n += 1
        return x.clone().apply_(lambda value: value + n).map_(x, lambda a, b: a - b), n

    check(run, X.clone(), 3)


@pytest.mark.parametrize("backend", ["eager", "inductor"])
def test_other_memory(backend):
    def run(x, p):
        x.data = x * 2
        p.data = p.data[:2] + 1
        return x + 1, p * 2, x

    results = []
    for function in (run, minicompile.compile(run, backend=backend, fullgraph=True)):
        x, p, alias = X.clone(), torch.nn.Parameter(torch.arange(3.0)), None
        alias, held = x.view(-1), p
        y, z, same = function(x, p)
        z.sum().backward()
        assert same is x and held is p
        results.append((y, z.detach(), x, alias, p.detach(), p.grad))
    assert not differences(*results)


# --- branches on data -------------------------------------------------------------------------------------
@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
def test_cond(backend):
    def run(x, w, v):
        y = torch.cond(x.sum() > 0, lambda t: (t * w, t.sum()), lambda t: (t - v, t.mean()), (x,))
        return y[0] * 2 + y[1]

    w, v = (torch.full((3,), k, requires_grad=True) for k in (2.0, 3.0))
    check(
        run,
        X.abs(),
        w,
        v,
        also=[(-X.abs(), w, v), (X.abs() * 2, w, v)],
        compiler=lambda f: minicompile.compile(f, backend=backend, fullgraph=True),
        graph_breaks=0,
    )
    assert minicompile.record.stats()["graphs"] == 1


def test_cond_of_a_known_predicate():
    def run(x, flag):
        return torch.cond(flag, lambda t: t + 1, lambda t: t - 1, (x,)), torch.cond(
            x.shape[0] > 3, torch.sin, torch.cos, (x,)
        )

    check(run, X, True, also=[(X, False)], compiler=lambda f: minicompile.compile(f, backend="eager", fullgraph=True))


# --- subclasses of defaultdict ------------------------------------------------------------------------------
class Registry(collections.defaultdict):
    def __init__(self):
        super().__init__(list)

    def register(self, key, value):
        self[key].append(value)
        return value


def test_a_subclass_of_defaultdict():
    def run(x, existing):
        made = Registry()
        made.register("a", x)
        made.register("a", x + 1)
        existing["new"].append(x)
        return made["a"][1] * len(made["a"]), len(made["b"]), made, existing["old"], made.default_factory is list

    existing = Registry()
    existing.register("old", 1)
    minicompile.reset()
    compiled = minicompile.compile(run, backend="eager", fullgraph=True)
    expected, found = run(X, existing), compiled(X, existing)
    assert not differences(expected, found) and type(found[2]) is Registry and len(existing["new"]) == 2


@pytest.mark.parametrize("backend", ["eager", "inductor"])
def test_a_gradient_that_is_retained(backend):
    def run(x):
        y = x * 2
        y.retain_grad()
        return y, (y * y).sum()

    x = torch.ones(2, requires_grad=True)
    y, total = minicompile.compile(run, backend=backend)(x)
    total.backward()
    assert y.grad.tolist() == [4.0, 4.0] and x.grad.tolist() == [8.0, 8.0]


@pytest.mark.graph_errors
def test_a_graph_that_raises_after_a_write_to_data_does_not_write_twice():
    """The version of a tensor does not count what is written to its `data`."""

    def program(x):
        x.data.mul_(2)
        return x.index_select(0, (x.sum() * 0 + 5).long().reshape(1))

    compiled, x = minicompile.compile(program, backend="eager"), torch.ones(2)
    for _ in range(2):
        with pytest.raises(IndexError):
            compiled(x)
    assert x.tolist() == [4.0, 4.0]


@pytest.mark.graph_errors
@pytest.mark.parametrize("backend, breaks", [("eager", 0), (lambda gm, example_inputs: gm.forward, 1)])
def test_a_graph_that_raises_after_a_write_to_data_meets_the_handlers(backend, breaks):
    """Our backends undo what a graph did; before others it ends in front of what a handler stands around."""

    def program(x, place, log):
        log.append("before")
        with torch.no_grad():
            x.data.mul_(2)
            y = x + 1
        try:
            log.append("inside")
            return x[place], y
        except IndexError as error:
            return str(error), y, log
        finally:
            log.append("finally")

    results = []
    for function in (program, minicompile.compile(program, backend=backend)):
        minicompile.record.counters.clear()
        for place in (1, 7):
            x, log = torch.ones(2), []
            results.append((str(function(x, torch.tensor([place]), log)), x.tolist(), log))
    assert results[2:] == results[:2] and minicompile.record.counters["graph_breaks"] == breaks


def nesting():
    torch.autocast_increment_nesting()
    return torch.autocast_decrement_nesting()


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
@pytest.mark.parametrize("breaks", [False, True])
def test_autocast_casts_a_weight_anew_in_the_next_block(backend, breaks):
    """Its cache lives until the outermost block ends: blocks are counted, also those that a break stands in."""
    layer, x = torch.nn.Linear(2, 2), torch.ones(1, 2)

    def program(x):
        with torch.autocast("cpu"):
            y = layer(x)
            if breaks:
                print(end="")
            return y + layer(x), nesting()

    compiled = minicompile.compile(program, backend=backend)
    for outside in (0, 0, 0, 1, 1):
        with torch.autocast("cpu") if outside else contextlib.nullcontext():
            expected, found = program(x), compiled(x)
        assert nesting() == 0 and found[1] == expected[1] == outside + 1
        torch.testing.assert_close(found[0], expected[0])
        with torch.no_grad():
            layer.weight.add_(1)


def test_what_comes_out_otherwise_when_it_is_captured_again_is_left_to_eager(monkeypatch):
    """A break is put before a step by its number."""
    run = symbolic_convert.InstructionTranslator.run

    def later(translator):
        translator.output.steps += translator.output.break_at is not None
        return run(translator)

    monkeypatch.setattr(symbolic_convert.InstructionTranslator, "run", later)
    program = lambda x: (x + 1, print(end=""), x + 2)  # noqa: E731
    with config.patch(strict=False):
        assert str(minicompile.compile(program, backend="eager")(torch.ones(1))) == str(program(torch.ones(1)))
    with config.patch(strict=True), pytest.raises(minicompile.errors.InternalError, match="captured again"):
        minicompile.reset()
        minicompile.compile(program, backend="eager")(torch.ones(1))


@pytest.mark.graph_errors
@pytest.mark.parametrize("data_is_written", [False, True])
def test_a_graph_that_raises_where_it_has_switched_a_mode_leaves_it_as_it_was(data_is_written):
    def program(x, place):
        if data_is_written:
            x.data.mul_(2)
        with torch.set_grad_enabled(False), torch.autocast("cpu"), torch.inference_mode(False):
            return x[place]

    for function in (program, minicompile.compile(program, backend="eager")):
        assert function(torch.ones(2), torch.tensor([1])).shape == (1,)
        for enabled in (True, False):
            with torch.set_grad_enabled(enabled):
                with pytest.raises(IndexError):
                    function(torch.ones(2), torch.tensor([7]))
                assert torch.is_grad_enabled() is enabled and not torch.is_autocast_enabled("cpu") and nesting() == 0


@pytest.mark.graph_errors
@pytest.mark.parametrize("writes", [False, True])
def test_a_graph_of_inference_tensors_that_raises_meets_the_handlers(writes):
    """They have no version: capture watches what is written.  Where nothing is, the frame can start again."""

    def program(x, place):
        y = x * 2
        y.add_(1)
        if writes:
            x[:1].add_(1)
        try:
            return torch.add(y[place], 1, out=torch.empty(1))
        except IndexError:
            return "caught", y, x

    results = []
    for function in (program, minicompile.compile(program, backend="eager")):
        minicompile.record.counters.clear()
        with torch.inference_mode():
            for place in (1, 7, 0):
                x = torch.ones(2)
                results.append((str(function(x, torch.tensor([place]))), x.tolist()))
    assert results[3:] == results[:3] and minicompile.record.counters["graph_breaks"] == 0


def written_as_data(tensor, x):
    tensor.data.add_(1)


def written_in_inference_mode(tensor, x):
    with torch.inference_mode():
        tensor.mul_(2)


def given_other_memory(tensor, x):
    tensor.data = x * 3


def written_in_no_mode(tensor, x):
    tensor.add_(1)


def written_through_an_array(tensor, x):
    torch.from_numpy(tensor.numpy()).add_(1)


WRITES = [written_as_data, written_in_inference_mode, given_other_memory, written_in_no_mode, written_through_an_array]


@pytest.mark.graph_errors
@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
@pytest.mark.parametrize("caught", [False, True])
@pytest.mark.parametrize("write", WRITES)
def test_what_came_before_an_operator_that_raises_is_done_once(write, caught, backend):
    def run(compiled):
        tensor, seen = torch.ones(3), []

        def program(x, place):
            seen.append("before")
            write(tensor, x)
            seen.append(len(seen))
            try:
                y = x[place]
            except IndexError:
                if not caught:
                    raise
                y = x
            seen.append("after")
            return y + 1

        function = minicompile.compile(program, backend=backend) if compiled else program
        for place in (1, 7, 2, 7):
            try:
                seen.append(function(torch.ones(3), torch.tensor([place])).tolist())
            except IndexError as error:
                seen.append(str(error))
            seen.append(tensor.tolist())
        return seen

    assert run(True) == run(False)


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
def test_inference_tensors_are_written_in_a_mode_of_the_program(backend):
    def run(compile_):
        with torch.inference_mode():
            state = torch.ones(3)

        def program(x):
            with torch.inference_mode():
                state.add_(1)
                return x * 2 + state

        function = compile_(program)
        return [function(torch.ones(3)).tolist() for _ in range(2)], state.tolist(), state.is_inference()

    assert run(lambda f: minicompile.compile(f, backend=backend)) == run(lambda f: f)


@pytest.mark.graph_errors
@pytest.mark.parametrize("turned", ["t_", "squeeze_", "unsqueeze_"])
def test_a_graph_that_raises_leaves_the_layout_as_it_was(turned):
    def program(x, index):
        getattr(x, turned)(*[0] * (turned == "unsqueeze_"))
        x.add_(1)
        return x[..., 0][index]

    compiled = minicompile.compile(program, backend="eager")
    for index in (torch.tensor([0]), torch.tensor([7])):
        seen = []
        for function in (program, compiled):
            x = torch.arange(3.0).reshape(1, 3)
            with contextlib.suppress(IndexError):
                seen.append(function(x, index))
            seen.append((x, x.shape, x.stride(), x._version))
        assert not differences(seen[: len(seen) // 2], seen[len(seen) // 2 :], exact=True)


def test_a_view_that_autograd_refuses_is_left_to_eager():
    def views(base_changes):
        base = torch.full((2, 2), 0.5, requires_grad=True) * 2
        first, _ = base.unbind()
        if base_changes:
            base.mul_(2)
        return first

    def said(function, *args):
        try:
            return str(function(*args))
        except RuntimeError as error:
            return str(error)

    for action in (lambda x: x.max(), lambda x: x.add_(1), lambda x: (x.shape, x.requires_grad), lambda x: x.is_leaf):
        for changes in ((False, True, False), (True, False, True)):
            minicompile.reset()
            compiled = minicompile.compile(action, backend="eager")
            for base_changes in changes:
                assert said(compiled, views(base_changes)) == said(action, views(base_changes))


@pytest.mark.parametrize("other", [None, "a", [1], (1,), {}, {1}, slice(1), torch.float32, 2, True, 1j])
def test_a_tensor_knows_no_answer_about_what_is_no_number(other):
    def program(x):
        return x + 1, x.__eq__(other), torch.Tensor.__ne__(x, other), x == other, x != other

    assert not differences(minicompile.compile(program, backend="eager")(X)[1:], program(X)[1:], exact=True)


QUESTIONS = "__hash__ __getstate__ __dir__ _typed_storage storage_type type dim_order element_size stride"


@pytest.mark.parametrize("name", [*QUESTIONS.split(), "__reduce_ex__", "is_leaf", "_backward_hooks"])
def test_a_question_is_answered_of_the_real_tensor(name):
    def program(x):
        asked = getattr(x, name)
        return asked(2) if name == "__reduce_ex__" else asked() if callable(asked) else asked

    x = torch.ones(2)
    assert repr(minicompile.compile(program, backend="eager")(x)) == repr(program(x))
