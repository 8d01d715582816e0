"""Every exercise: the stub fails, plausible wrong answers fail with a message that helps, the solution passes."""

import json
import pathlib
import sys

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

NOTEBOOKS = pathlib.Path(__file__).parents[2] / "notebooks"
sys.path.insert(0, str(NOTEBOOKS))

from exercises import chapter_00  # noqa: E402


class Counter(TorchDispatchMode):
    count = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        Counter.count += 1
        return func(*args, **(kwargs or {}))


def count_without_reset(fn, *args):
    with Counter():
        fn(*args)
    return Counter.count


def count_lines(fn, *args):
    return fn.__code__.co_code.count(122)  # the BINARY_OP instructions of the function


def whole_storage(x, k):
    once = 2 * x.untyped_storage().nbytes()
    return k * once, once


def only_float32(x, k):
    return 8 * x.numel() * k, 8 * x.numel()


def reads_only(x, k):
    once = x.numel() * x.element_size()
    return k * once, once


def always_eager(fn, toy):
    return fn


def always_toy(fn, toy):
    return toy


def forgets_grad(fn, toy):
    return lambda x: toy(x) if x.dtype == torch.float32 and x.is_contiguous() else fn(x)


def forgets_dtype(fn, toy):
    return lambda x: toy(x) if x.is_contiguous() and not x.requires_grad else fn(x)


def ignores_no_grad(fn, toy):
    plain = lambda x: x.dtype == torch.float32 and x.is_contiguous() and not x.requires_grad
    return lambda x: toy(x) if plain(x) else fn(x)


WRONG = [  # (check, wrong answer, what the message must speak of)
    (chapter_00.check_00_1, count_without_reset, "start again from zero|runs three times"),
    (chapter_00.check_00_1, count_lines, "expected 1, got|runs three times|in place"),
    (chapter_00.check_00_1, lambda fn, *args: 1, "runs three times"),
    (chapter_00.check_00_2, whole_storage, "a view reads its own elements"),
    (chapter_00.check_00_2, only_float32, "float64 takes 8 bytes"),
    (chapter_00.check_00_2, reads_only, "1,000 float32"),
    (chapter_00.check_00_3, lambda dispatch, rate: dispatch * rate / 8, "whole"),
    (chapter_00.check_00_3, lambda dispatch, rate: int(dispatch * rate / 4) + 1, "not the least"),
    (chapter_00.check_00_3, lambda dispatch, rate: round(dispatch * rate / 8), "do not take the memory longer"),
    (chapter_00.check_00_4, always_eager, "always called eager"),
    (chapter_00.check_00_4, always_toy, "the toy would read the ones between"),
    (chapter_00.check_00_4, forgets_grad, "leaves no history"),
    (chapter_00.check_00_4, forgets_dtype, "integers"),
    (chapter_00.check_00_4, ignores_no_grad, "no_grad"),
]


@pytest.mark.parametrize("check, answer, about", WRONG, ids=lambda v: getattr(v, "__name__", None))
def test_a_wrong_answer_fails_and_hears_why(check, answer, about):
    Counter.count = 0
    verdict = check(answer)
    assert not verdict.passed
    assert any(part in verdict.message for part in about.split("|")), verdict.message


def code_cells(path):
    cells = json.loads(path.read_text())["cells"]
    return [("".join(cell["source"]), cell["metadata"]) for cell in cells if cell["cell_type"] == "code"]


CHAPTERS = sorted(path.name for path in NOTEBOOKS.glob("[0-9]*.ipynb"))


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_stubs_fail_and_solutions_pass(chapter):
    stubs = [source for source, metadata in code_cells(NOTEBOOKS / chapter) if "exercise" in metadata.get("tags", ())]
    solutions = [source for source, _ in code_cells(NOTEBOOKS / "solutions" / chapter) if "check_" in source]
    solutions = [source for source in solutions if "import check_" not in source]
    assert len(stubs) == len(solutions) >= 3
    number = chapter[:2]
    checks = vars(__import__(f"exercises.chapter_{number}", fromlist=["*"]))
    for stub, solution in zip(stubs, solutions):
        assert last_value(stub, checks).passed is False
        verdict = last_value(solution, {**checks, "torch": torch, "TorchDispatchMode": TorchDispatchMode})
        assert verdict.passed, verdict


def last_value(source, names):
    """Run a cell; the value of its last line."""
    *body, last = source.rstrip().split("\n")
    namespace = dict(names)
    exec("\n".join(body), namespace)
    return eval(last, namespace)


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_the_chapter_keeps_the_rules_of_the_course(chapter):
    cells = json.loads((NOTEBOOKS / chapter).read_text())["cells"]
    words = sum(len("".join(c["source"]).split()) for c in cells if c["cell_type"] == "markdown")
    assert 60 <= len(cells) <= 110 and 1500 <= words <= 3000
    for cell in cells:
        if cell["cell_type"] == "code":
            assert len(cell["source"] if isinstance(cell["source"], list) else cell["source"].split("\n")) <= 25
            assert cell["execution_count"] and not any(o["output_type"] == "error" for o in cell["outputs"])
            assert "!pip" not in "".join(cell["source"])
