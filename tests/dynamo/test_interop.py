"""Code written for torch.compile means the same here; and a compiled function lives with threads, tasks and tools."""

import asyncio
import copy
import functools
import inspect
import multiprocessing
import pickle
import sys
import threading

import pytest
import torch
import torch._dynamo

import minicompile
from minicompile.testing import CompileCounter


def compiled_with_counter(function, **options):
    counter = CompileCounter()
    return minicompile.compile(function, backend=counter, **options), counter


# --- questions ------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    "ask", [torch.compiler.is_compiling, torch._dynamo.is_compiling, torch.compiler.is_dynamo_compiling]
)
def test_capture_says_that_it_compiles(ask):
    def function(x):
        return x + 1 if ask() else x - 1

    compiled, counter = compiled_with_counter(function, fullgraph=True)
    assert compiled(torch.zeros(1)).item() == 1 and function(torch.zeros(1)).item() == -1
    assert counter.graphs == 1 and not torch.compiler.is_exporting()


def test_what_runs_in_eager_is_not_compiling():
    seen = []

    @minicompile.disable
    def outside():
        seen.append(torch.compiler.is_compiling())

    def function(x):
        outside()
        return x + 1

    minicompile.compile(function, backend="eager")(torch.zeros(1))
    assert seen == [False]


# --- marks ----------------------------------------------------------------------------------------------
def helper(x):
    return x * 2 if torch.compiler.is_compiling() else x * 3


def disablers():
    return {
        "minicompile.disable": minicompile.disable,
        "torch.compiler.disable": torch.compiler.disable,
        "torch._dynamo.disable": torch._dynamo.disable,
        "torch._dynamo.disable()": torch._dynamo.disable(),
        "with a reason": functools.partial(torch.compiler.disable, reason="because"),
        "minicompile with a reason": minicompile.disable(reason="because"),
    }


def double(x):
    return helper(x)


@pytest.mark.parametrize("how", disablers())
def test_a_disabled_function_runs_in_eager_with_all_that_it_calls(how):
    disabled = disablers()[how](lambda x: double(x))

    def function(x):
        return disabled(x + 1) * 10

    compiled, counter = compiled_with_counter(function)
    for _ in range(2):
        assert compiled(torch.ones(1)).item() == 60
    assert counter.graphs == 2 and minicompile.record.break_reasons == {"disabled function": 1}


@pytest.mark.parametrize("disable", [torch.compiler.disable, minicompile.disable])  # ours marks the code, for both
def test_disabling_one_frame_only(disable):
    def inner(x):
        return helper(x) + 1

    @functools.partial(disable, recursive=False)
    def middle(x):
        return inner(x) * (2 if torch.compiler.is_compiling() else 5)

    def function(x):
        return middle(x + 1) - 1

    compiled, counter = compiled_with_counter(function)
    for _ in range(2):
        assert compiled(torch.ones(1)).item() == 24  # (2 * 2 + 1) * 5 - 1
    assert counter.graphs == 3


def test_each_function_whose_frame_torch_disables_is_left_alone():
    """PyTorch's wrappers are functions of one code; what they wrap may be no function of Python at all."""
    alone = functools.partial(torch.compiler.disable, recursive=False)
    first = alone(lambda x: x * (2 if torch.compiler.is_compiling() else 5))
    second = alone(lambda x: x + (20 if torch.compiler.is_compiling() else 50))
    builtin = alone(torch.relu)
    compiled, _ = compiled_with_counter(lambda x: second(first(builtin(x))) + 1)
    assert compiled(torch.ones(1)).item() == 56


@pytest.mark.parametrize("disable", [minicompile.disable, torch.compiler.disable])
def test_disabled_methods_and_classes(disable):
    class Model(torch.nn.Module):
        def forward(self, x):
            return self.part(x + 1) * 10

        @disable
        def part(self, x):
            return helper(x)

    class Whole(torch.nn.Module):
        def forward(self, x):
            return helper(x)

    Whole = disable(Whole)
    whole = Whole()

    def function(x):
        return whole(x + 1) * 10

    for target in (Model(), function):
        minicompile.reset()
        compiled, counter = compiled_with_counter(target)
        assert compiled(torch.ones(1)).item() == 60
        assert counter.graphs == 2


@pytest.mark.parametrize("graph_break", [minicompile.graph_break, torch._dynamo.graph_break])
def test_graph_break(graph_break):
    def function(x):
        x = x + 1
        graph_break()
        return x * 2

    compiled, counter = compiled_with_counter(function)
    assert compiled(torch.ones(1)).item() == 4
    assert counter.graphs == 2
    with pytest.raises(minicompile.errors.Unsupported):
        minicompile.compile(function, backend="eager", fullgraph=True)(torch.ones(1))


@pytest.mark.parametrize("allow", [minicompile.allow_in_graph, torch.compiler.allow_in_graph])
def test_allow_in_graph(allow):
    calls = []

    @allow
    def opaque(x, scale):
        calls.append(1)
        if x.sum().item() > 0 if not isinstance(x, torch._subclasses.FakeTensor) else True:
            return x * scale, x + 1
        return x, x

    def function(x):
        a, b = opaque(x + 1, 3)
        return a + b

    compiled, counter = compiled_with_counter(function, fullgraph=True)
    for _ in range(3):
        assert compiled(torch.ones(1)).item() == 9
    targets = [node.target for node in counter.graph_modules[0].graph.nodes if node.op == "call_function"]
    assert counter.graphs == 1 and opaque in targets
    assert len(calls) == 4  # once on fake tensors


@pytest.mark.parametrize("assume", [minicompile.assume_constant_result, torch.compiler.assume_constant_result])
def test_assume_constant_result(assume):
    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.calls, self.table = 0, torch.full((2,), 5.0)

        @assume
        def setting(self, key):
            print("not captured", end="")
            self.calls += 1
            return {"scale": 3}[key]

        @assume
        def tensor(self):
            return self.table

        def forward(self, x):
            return x * self.setting("scale") + self.tensor()

    model = Model()
    compiled, counter = compiled_with_counter(model, fullgraph=True)
    for _ in range(3):
        assert compiled(torch.ones(2)).tolist() == [8.0, 8.0]
    assert model.calls == 1 and counter.graphs == 1


def test_marks_on_tensors_inside():
    def function(x):
        torch._dynamo.mark_static(x, 0)
        return x + 1

    compiled, counter = compiled_with_counter(function)
    assert compiled(torch.ones(2)).tolist() == [2.0, 2.0]


def test_forced_to_eager():
    def function(x):
        return helper(x)

    compiled, counter = compiled_with_counter(function)
    model = minicompile.compile(torch.nn.Identity(), backend=counter)
    assert compiled(torch.ones(1)).item() == 2
    with torch.compiler.set_stance("force_eager"):
        assert compiled(torch.ones(1)).item() == 3
        model(torch.ones(1))
    assert compiled(torch.ones(1)).item() == 2
    assert counter.graphs == 1


def test_torch_check():
    def function(x, n):
        torch._check(x.shape[0] == n, lambda: f"n is {n}")
        torch._check_value(n > 0)
        torch._check_type(isinstance(n, int), lambda: "int")
        torch._check_index(n < 100)
        return x * 2

    compiled, counter = compiled_with_counter(function)
    assert compiled(torch.ones(2), 2).tolist() == [2.0, 2.0]
    assert counter.graphs == 1 and not minicompile.record.break_reasons
    with pytest.raises(RuntimeError, match="n is 3"):
        compiled(torch.ones(2), 3)


# --- called back ----------------------------------------------------------------------------------------
@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")
def test_scripted_functions_are_inlined_and_traced_ones_keep_what_was_traced():
    @torch.jit.script
    def scaled(x, k: int):
        if x.size(0) > 2:
            return x * k
        return x - k

    branching = torch.jit.trace(lambda x: x + 1 if x.sum() > 0 else x - 1, torch.ones(2))  # adds, from now on
    cases = [(lambda x: scaled(x, 3) + 1, 2), (lambda x: branching(x) * 2, None)]
    cases += [(lambda x: scaled(x, 3) + scaled(x, 2), 2)]  # the second time the path leads to what is known already
    for number, (function, graphs) in enumerate(cases):
        compiled, counter = compiled_with_counter(function)
        for x in (torch.ones(4), -torch.ones(4), torch.ones(2)):
            assert torch.equal(compiled(x), function(x)), number
        assert graphs is None or counter.graphs == graphs


def test_functions_called_back_from_c():
    def key(t):
        print(end="")
        return t.sum().item()

    def function(x):
        ordered = sorted([x * 3, x, x * 2], key=key)
        return torch.stack(list(map(lambda t: t + 1, ordered)))

    compiled = minicompile.compile(function, backend="eager")
    for _ in range(2):
        assert torch.equal(compiled(torch.ones(2)), function(torch.ones(2)))


def test_hooks_of_modules_and_of_autograd():
    seen = []

    def run(model, x, call):
        seen.clear()
        model.zero_grad()
        handles = [
            model.register_forward_hook(lambda m, a, out: seen.append("forward") or out * 2),
            model.weight.register_hook(lambda g: seen.append("gradient") or g * 3),
            model.register_full_backward_hook(lambda m, gi, go: seen.append("module backward")),
        ]
        call(x).sum().backward()
        for handle in handles:
            handle.remove()
        return list(seen), model.weight.grad.clone()

    model, x = torch.nn.Linear(2, 2), torch.ones(3, 2, requires_grad=True)
    expected = run(model, x, model)
    for _ in range(2):
        found = run(model, x, minicompile.compile(model, backend="aot_eager"))
        assert found[0] == expected[0] and torch.equal(found[1], expected[1])


# --- threads and tasks ----------------------------------------------------------------------------------
def layered(x, k):
    for _ in range(3):
        x = helper(x) + k
    print(end="")
    return x * k


def test_threads_compile_and_call_at_once():
    compiled, errors, results = minicompile.compile(layered, backend="eager"), [], {}
    start = threading.Barrier(6)

    def work(k):
        try:
            start.wait()
            for _ in range(20):
                results[k] = compiled(torch.ones(k % 3 + 1), k % 2)
        except BaseException as error:  # noqa: BLE001 (reported below)
            errors.append(error)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not errors
    for k, found in results.items():
        single = minicompile.compile(layered, backend="eager")(torch.ones(k % 3 + 1), k % 2)
        assert torch.equal(found, single)


def test_our_own_code_is_not_captured_when_a_backward_is_compiled_inside():
    def step(x):
        (x * 2).sum().backward()
        return x.grad + 1

    assert minicompile.compile(step)(torch.ones(2, requires_grad=True)).tolist() == [3.0, 3.0]
    assert all("step" in entry.name for entry in minicompile.record.compilations)


def test_threads_that_want_the_same_graph_compile_it_once():
    compiled, counter = compiled_with_counter(lambda x: x.sin() + 1)
    start, results = threading.Barrier(8), []

    def work():
        start.wait()
        results.append(compiled(torch.zeros(3)))

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert [result.tolist() for result in results] == [[1.0] * 3] * 8
    assert counter.graphs == 1


def test_a_thread_without_a_compiled_call_is_not_captured():
    outside = []
    inside, leave = threading.Event(), threading.Event()

    @minicompile.disable
    def wait():
        inside.set()
        leave.wait(30)

    def function(x):
        wait()
        return x + 1

    compiled = minicompile.compile(function, backend="eager")
    thread = threading.Thread(target=lambda: outside.append(compiled(torch.ones(1))))
    thread.start()
    inside.wait(30)
    assert helper(torch.ones(1)).item() == 3
    leave.set()
    thread.join(30)
    assert outside[0].item() == 2


def test_tasks_interleave_around_compiled_functions():
    compiled, counter = compiled_with_counter(helper)

    async def work(x, k):
        for _ in range(3):
            x = compiled(x) + k
            await asyncio.sleep(0)
        return x

    async def all_of_them():
        return await asyncio.gather(*(work(torch.ones(1), k) for k in range(4)))

    assert [x.item() for x in asyncio.run(all_of_them())] == [8.0 + 7 * k for k in range(4)]
    assert counter.graphs == 1


def test_a_compiled_coroutine_function_works():
    async def work(x):
        y = helper(x)
        await asyncio.sleep(0)
        return y + 1

    compiled = minicompile.compile(work, backend="eager")
    assert asyncio.run(compiled(torch.ones(1))).item() in (3.0, 4.0)


# --- nested compilers -----------------------------------------------------------------------------------
def test_compiled_inside_compiled():
    inner = minicompile.compile(helper, backend="eager")
    compiled, counter = compiled_with_counter(lambda x: inner(x) + 1, fullgraph=True)
    assert compiled(torch.ones(1)).item() == 3
    assert counter.graphs == 1 and counter.ops == 2


def test_torch_compile_inside_ours_and_ours_inside_torch_compile():
    torch._dynamo.reset()
    theirs = torch.compile(helper, backend="eager")
    ours = minicompile.compile(lambda x: theirs(x + 1) * 10, backend="eager")
    for _ in range(2):
        assert ours(torch.ones(1)).item() == 40
    inner = minicompile.compile(helper, backend="eager")
    outer = torch.compile(lambda x: inner(x + 1) * 10, backend="eager")
    for _ in range(2):
        assert outer(torch.ones(1)).item() == 40


def test_torch_compile_called_in_eager_inside_ours():
    """Its hook lies over ours, and ours is switched off and on beneath it: they must not call each other for ever."""
    torch._dynamo.reset()
    theirs = torch.compile(helper, backend="eager")
    theirs(torch.ones(1))

    @minicompile.disable(recursive=False)
    def call(x):
        return theirs(x)

    ours = minicompile.compile(lambda x: call(x + 1) * 10, backend="eager")
    for _ in range(3):
        assert ours(torch.ones(1)).item() == 40
        assert theirs(torch.ones(1)).item() == 2


# --- copies and questions about the function ------------------------------------------------------------
class Scale(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.full((2,), 3.0))

    def forward(self, x, *, bias=1):
        """Scaled."""
        return x * self.weight + bias


def test_compiled_modules_are_copied_and_pickled():
    model = minicompile.compile(Scale(), backend="eager")
    model(torch.ones(2))
    for other in (copy.deepcopy(model), copy.copy(model), pickle.loads(pickle.dumps(model))):
        assert type(other) is type(model)
        assert other(torch.ones(2)).tolist() == [4.0, 4.0]
        assert list(other.state_dict()) == ["_orig_mod.weight"]
    changed = copy.deepcopy(model)
    with torch.no_grad():
        changed.weight.zero_()
    assert changed(torch.ones(2)).tolist() == [1.0, 1.0] and model(torch.ones(2)).tolist() == [4.0, 4.0]


def documented(x, scale: int = 2, *, bias=0) -> torch.Tensor:
    """What it does."""
    return x * scale + bias


def test_a_compiled_function_describes_itself_as_the_original():
    compiled = minicompile.compile(documented, backend="eager")
    assert inspect.signature(compiled) == inspect.signature(documented)
    assert inspect.getsource(compiled) == inspect.getsource(documented)
    assert inspect.getdoc(compiled) == "What it does." and inspect.unwrap(compiled) is documented
    for name in ("__name__", "__qualname__", "__module__", "__annotations__"):
        assert getattr(compiled, name) == getattr(documented, name)
    method = minicompile.compile(Scale().forward, backend="eager")
    assert list(inspect.signature(method).parameters) == ["x", "bias"] and method.__doc__ == "Scaled."
    assert method(torch.ones(2)).tolist() == [4.0, 4.0]


# --- tools ----------------------------------------------------------------------------------------------
def traced(x):
    y = x + 1
    print(end="")
    z = y * 2
    return z


def lines_traced(call):
    seen, outer = [], sys.gettrace()

    def tracer(frame, event, argument):
        if frame.f_code.co_name == "traced":
            if event in ("line", "exception"):
                seen.append(frame.f_lineno - traced.__code__.co_firstlineno)
            return tracer
        return None

    sys.settrace(tracer)
    try:
        call(torch.ones(1))
    finally:
        sys.settrace(outer)
    return seen


def test_a_tracer_sees_user_lines_only_and_changes_nothing():
    assert lines_traced(traced) == [1, 2, 3, 4]
    compiled = minicompile.compile(traced, backend="eager")
    for _ in range(2):
        seen = lines_traced(compiled)
        assert set(seen) <= {0, 1, 2, 3, 4}
    assert compiled(torch.ones(1)).item() == 4


def test_profilers_and_debuggers_run_along():
    import cProfile
    import pdb

    compiled = minicompile.compile(traced, backend="eager")
    profile = cProfile.Profile()
    assert profile.runcall(compiled, torch.ones(1)).item() == 4
    assert profile.runcall(compiled, torch.ones(1)).item() == 4

    class Silent(pdb.Pdb):
        def interaction(self, frame, traceback):
            visited.append(frame.f_code.co_name)
            self.set_continue()

    visited = []

    def with_breakpoint(x):
        y = x + 1
        Silent(nosigint=True).set_trace(sys._getframe())
        return y * 2

    assert minicompile.compile(with_breakpoint, backend="eager")(torch.ones(1)).item() == 4
    sys.settrace(None)
    assert visited and visited[0] == "with_breakpoint"


@pytest.mark.skipif(sys.version_info < (3, 12), reason="sys.monitoring is new in 3.12")
def test_monitoring_tools_run_along():
    monitoring, seen = sys.monitoring, []
    monitoring.use_tool_id(3, "test")
    monitoring.register_callback(3, monitoring.events.LINE, lambda code, line: seen.append(line))
    monitoring.set_events(3, monitoring.events.LINE)
    try:
        compiled = minicompile.compile(traced, backend="eager")
        assert compiled(torch.ones(1)).item() == 4
        assert compiled(torch.ones(1)).item() == 4
    finally:
        monitoring.set_events(3, 0)
        monitoring.free_tool_id(3)
    assert seen


# --- the process ----------------------------------------------------------------------------------------
@pytest.mark.graph_errors  # the limit may be reached inside the graph
def test_the_recursion_limit_counts_as_in_eager():
    def deep(x, n):
        return x if n == 0 else deep(x + 1, n - 1)

    compiled = minicompile.compile(deep, backend="eager")
    assert compiled(torch.zeros(1), 300).item() == 300
    with pytest.raises(RecursionError):
        compiled(torch.zeros(1), 10**6)
    assert compiled(torch.zeros(1), 3).item() == 3


def in_a_child(queue):
    compiled = minicompile.compile(layered, backend="eager")
    queue.put(compiled(torch.ones(2), 2).tolist())


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_processes(method):
    torch.set_num_threads(1)
    minicompile.compile(layered, backend="eager")(torch.ones(2), 2)
    context = multiprocessing.get_context(method)
    queue = context.Queue()
    child = context.Process(target=in_a_child, args=(queue,))
    child.start()
    assert queue.get(timeout=120) == [44.0, 44.0]
    child.join(30)
    assert child.exitcode == 0
