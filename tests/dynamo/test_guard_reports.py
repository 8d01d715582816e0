"""What a user reads of guards: predicates with lines, what changed, a function's history, what helps at the limit."""

import pytest
import torch

import minicompile
from minicompile.testing import CompileCounter


class Settings:
    def __init__(self):
        self.name, self.sizes = "a", [1, 2]


def step(x, settings, scale, mode):
    y = x * scale + len(settings.name) + len(settings.sizes)
    return y if mode is None else y.relu()


LINE = step.__code__.co_firstlineno + 1


def guards_of(*arguments):
    minicompile.compile(step, backend="eager")(*arguments)
    return minicompile.record.compilations[-1].artifacts("capture")[0].guards


def test_a_guard_is_a_python_predicate_with_the_users_line():
    lines = repr(guards_of(torch.ones(2), Settings(), 3, None)).splitlines()
    for text in ("scale == 3", "settings.name == 'a'", "len(settings.sizes) == 2", "type(settings) is Settings"):
        assert f"{text}  # test_guard_reports.py:{LINE} in step" in lines
    assert f"mode == None  # test_guard_reports.py:{LINE + 1} in step" in lines


class Doubled(torch.nn.Module):
    def forward(self, x):
        return torch.mul(x, 2)


def around(module, x):
    return module(x)


def test_modules_go_by_their_names_and_hooks_are_none_or_some():
    module, x = Doubled(), torch.ones(2)
    minicompile.compile(around, backend="eager")(module, x)
    guards = minicompile.record.compilations[-1].artifacts("capture")[0].guards
    assert "torch is <module torch>" in [str(guard) for guard in guards]
    hook = module.register_forward_hook(lambda module, inputs, result: result * 2)
    minicompile.compile(around, backend="eager")(module, x)
    hook.remove()
    report = minicompile.record.compilations[-1].recompile_reason
    assert report.startswith("module has no hooks and no forward of its own: was 'none', is 'some'")


def test_predicates_can_be_evaluated():
    settings = Settings()
    predicates = [str(g) for g in guards_of(torch.ones(2), settings, 3, None) if g.kind in ("equals", "length", "type")]
    world = {**globals(), "settings": settings, "scale": 3, "mode": None}
    assert len(predicates) >= 4
    for text in predicates:
        if "__builtins__" not in text:
            assert eval(text, world), text


@pytest.mark.parametrize(
    "change, report",
    [
        (lambda a: a[0].resize_(3), "x.shape[0]: was 2, is 3"),
        (lambda a: setattr(a[1], "name", "bb"), "settings.name == 'a': was 'a', is 'bb'"),
        (lambda a: a[1].sizes.append(3), "len(settings.sizes) == 2: was 2, is 3"),
        (lambda a: a.__setitem__(2, 3.5), "scale == 3: was 3, is 3.5"),
        (lambda a: a.__setitem__(3, "relu"), "mode == None: was None, is 'relu'"),
        (
            lambda a: a.__setitem__(0, torch.ones(2, dtype=torch.float64)),
            "x.dtype: was torch.float32, is torch.float64",
        ),
    ],
)
def test_a_failure_says_what_was_and_what_is(change, report):
    arguments = [torch.ones(2), Settings(), 3, None]
    compiled = minicompile.compile(step, backend="eager")
    compiled(*arguments)
    change(arguments)
    compiled(*arguments)
    reason = minicompile.record.compilations[-1].recompile_reason
    assert reason.startswith(report) and "test_guard_reports.py:" in reason


def test_explain_shows_the_history_of_the_function():
    for value in ("a", "bb", "ccc"):
        settings = Settings()
        settings.name = value
        explanation = minicompile.explain(step, backend="eager")(torch.ones(2), settings, 3, None)
    assert len(explanation.recompiles) == 1
    assert [reason.split(" (")[0] for reason in explanation.history["step"]] == [
        "settings.name == 'a': was 'a', is 'bb'",
        "settings.name == 'bb': was 'bb', is 'ccc'",
    ]
    text = repr(explanation)
    assert "step was compiled 3 times:" in text and "settings.name == 'a': was 'a', is 'bb'" in text


@pytest.mark.parametrize(
    "function, calls, mend",
    [
        (lambda x: x + 1, [torch.ones(n) for n in (2, 3, 4)], r"mark_dynamic\(x, 0\) or dynamic=True"),
        (lambda x, n="a": x + len(n), ["a", "bb", "ccc"], "make that value a tensor, or keep it constant"),
        (
            lambda x: x + 1,
            [torch.ones(2, dtype=t) for t in (torch.float32, torch.float64, torch.int32)],
            "convert that",
        ),
        (lambda x, n: x + len(n), [[1], [1, 2], [1, 2, 3]], "keep its length"),
        (lambda x, n: x + n.count, [type("A", (), {"count": k}) for k in (1, 2, 3)], "make that object once"),
    ],
)
def test_the_limit_names_the_guard_and_its_mend(function, calls, mend):
    compiled = minicompile.compile(function, backend="eager", dynamic=False)
    with minicompile.config.patch(recompile_limit=2), pytest.warns(UserWarning, match=f"What helps: .*{mend}"):
        for value in calls:
            compiled(value) if isinstance(value, torch.Tensor) else compiled(torch.ones(1), value)


def test_the_limit_in_another_mode():
    compiled = minicompile.compile(lambda x: x + 1, backend="eager")
    with minicompile.config.patch(recompile_limit=1), pytest.warns(UserWarning, match="around all calls"):
        compiled(torch.ones(1))
        with torch.no_grad():
            compiled(torch.ones(1))


def test_each_entry_says_what_failed_newest_first():
    def scaled(x, scale, mode):
        return x * len(mode) * scale

    compiled = minicompile.compile(scaled, backend="eager", dynamic=False)
    x, wide = torch.ones(2), torch.ones(2, dtype=torch.float64)
    for arguments in ((x, 2, "a"), (wide, 2, "a"), (x, 2, "bb"), (torch.ones(3), 2, "bb")):
        compiled(*arguments)
    reasons = [entry.recompile_reason.splitlines() for entry in minicompile.record.compilations]
    line = f"test_guard_reports.py:{scaled.__code__.co_firstlineno + 1} in scaled)"
    assert all(each.endswith(line) for reason in reasons for each in reason)
    assert [[each.split(" (")[0] for each in reason] for reason in reasons] == [
        [],
        ["x.dtype: was torch.float32, is torch.float64"],
        ["mode == 'a': was 'a', is 'bb'", "    entry 1: mode == 'a': was 'a', is 'bb'"],
        ["x.shape[0]: was 2, is 3", "    entries 2, 1: mode: was 'a', is 'bb'"],
    ]
    text = repr(minicompile.explain(scaled, backend="eager", dynamic=False)(torch.ones(4), 2, "bb"))
    assert "scaled was compiled 5 times:" in text and "\n  x.shape[0]: was 3, is 4" in text
    assert "\n      entry 3: x.shape[0]: was 2, is 4" in text and "\n      entries 2, 1: mode: was 'a', is 'bb'" in text


def test_entries_that_fail_for_one_value_share_a_line():
    compiled = minicompile.compile(lambda x, name: x + len(name), backend="eager", dynamic=False)
    for size, name in ((2, "a"), (3, "a"), (4, "a"), (4, "b"), (4, "c"), (5, "c")):
        compiled(torch.ones(size), name)
    lines = minicompile.record.compilations[-1].recompile_reason.splitlines()
    assert [line.split(" (")[0] for line in lines] == [
        "x.shape[0]: was 4, is 5",
        "    entries 4, 3, 2, 1: name: was 'b', 'a', is 'c'",
    ]


def test_the_first_failure_is_found_where_a_value_cannot_be_read():
    compiled = minicompile.compile(step, backend="eager")
    settings = Settings()
    compiled(torch.ones(2), settings, 3, None)
    del settings.sizes
    with pytest.raises(AttributeError):
        compiled(torch.ones(2), settings, 3, None)
    reason = minicompile.record.compilations[-1].recompile_reason
    assert reason.startswith("type(settings.sizes) is list: was <class 'list'>, is 'unreadable (AttributeError)' (")


class CallCounter(CompileCounter):
    """Counts the calls of its graphs too."""

    calls = 0

    def __call__(self, gm, example_inputs):
        run = super().__call__(gm, example_inputs)

        def counted(*inputs):
            self.calls += 1
            return run(*inputs)

        return counted


def test_at_the_limit_of_one_set_of_options_the_others_go_on():
    def double(x):
        return x * 2

    counters = [CallCounter() for _ in range(3)]
    few, others, later = (minicompile.compile(double, backend=c, dynamic=False) for c in counters)
    vectors = [torch.arange(float(n)) for n in range(2, 8)]
    with minicompile.config.patch(recompile_limit=2), pytest.warns(UserWarning, match="where none of these fits"):
        others(vectors[0])
        for x in vectors * 2:
            assert torch.equal(few(x), x * 2)
        for x in vectors[:2] * 2:
            assert torch.equal(others(x), x * 2) and torch.equal(later(x), x * 2)
    assert [(counter.graphs, counter.calls) for counter in counters] == [(2, 4), (2, 5), (2, 4)]


def test_at_the_limit_a_function_that_is_called_is_still_captured():
    def inner(x):
        return x + 1

    def outer(x, n):
        minicompile.graph_break()
        return inner(x) * len(n)

    counter = CompileCounter()
    compiled = minicompile.compile(outer, backend=counter)
    with minicompile.config.patch(recompile_limit=1), pytest.warns(UserWarning, match="runs in eager"):
        for n in ("a", "bb", "ccc"):
            assert torch.equal(compiled(torch.ones(2), n), torch.full((2,), 2.0 * len(n)))
    assert minicompile.stats()["graphs"] >= 2, "inner has a graph of its own"
