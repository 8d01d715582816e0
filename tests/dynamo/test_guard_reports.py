"""What a user reads of guards: predicates with lines, what changed, a function's history, what helps at the limit."""

import pytest
import torch

import minicompile


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
