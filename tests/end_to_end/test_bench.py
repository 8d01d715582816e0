"""The benchmark and the demo: timing arithmetic, tables, the command line, and the stage report."""

import json
import multiprocessing
import os
import pathlib
import runpy
import signal
import subprocess
import sys
import time

import pytest
import torch

from minicompile import bench, record
from minicompile.bench import __main__ as command
from minicompile.bench import demo, suite, tables, timing, worker
from minicompile.bench.models import MODELS, ZOO
from minicompile.bench.models.further import FURTHER

ROOT = pathlib.Path(__file__).resolve().parents[2]


def test_a_sleep_is_measured_and_variants_take_turns():
    order = []

    def variant(name, seconds):
        def run():
            order.append(name)
            time.sleep(seconds)

        return run

    timings = timing.interleaved({"slow": variant("slow", 0.02), "fast": variant("fast", 0.005)}, rounds=4, sample_ms=1)
    assert 19 < timings["slow"].median < 60 and 4.9 < timings["fast"].median < 19
    middle, low, high = timing.ratio(timings["slow"], timings["fast"])
    assert 1.5 < middle < 8 and low <= middle <= high
    turns = order[8::2]
    assert turns == order[9::2], "the first call of a turn is not measured"
    assert turns == ["slow", "fast", "fast", "slow", "fast", "slow", "slow", "fast"], "nobody always follows another"


def test_the_ratio_is_of_rounds_not_of_medians():
    """A machine that is half as fast in one round slows both variants down; the ratio does not move."""
    base, other = timing.Timing([2.0, 4.0, 2.0, 2.0]), timing.Timing([1.0, 2.0, 1.0, 1.0])
    assert timing.ratio(base, other)[0] == 2.0


def test_table_is_aligned_markdown():
    rows = [{"model": "gpt", "graphs": 1, "ratio": 2.345}, {"model": "resnet18", "graphs": 12, "ratio": None}]
    assert tables.table(rows).splitlines() == [
        "| model    | graphs | × eager |",
        "|----------|-------:|--------:|",
        "| gpt      |      1 |    2.35 |",
        "| resnet18 |     12 |       – |",
    ]


def test_a_row_is_checked_counted_and_timed():
    row = suite.run("vae", "inference", suite.Settings(rounds=3))
    assert row["correct"] == "yes", row
    assert (row["graphs"], row["torch_graphs"], row["graph_breaks"]) == (1, 1, 0)
    assert row["kernels"] > 0 and row["ratio"] > 0 and len(row["ours_samples_ms"]) == 3
    assert row["cache_hits"] == 1, "another process has compiled it"


@pytest.mark.slow
def test_a_row_beside_torch_compile():
    row = suite.run("vae", "inference", suite.Settings(rounds=3, torch_compile=True))
    assert row["correct"] == "yes", row
    assert row["torch_kernels"] > 0
    nothing = {**row, "torch_cold_s": 1e-3, "torch_kernels": 0}  # torch.compile gave up, and ran in eager
    lines = tables.summary([row, {**row, "mode": "training", "ours_cold_s": row["torch_cold_s"]}, nothing])
    assert lines[3].endswith("caches empty over 2; least 1.00 (vae, training)") and "filled over 2" in lines[4]


def test_a_wrong_model_is_a_row_not_a_crash(monkeypatch):
    monkeypatch.setattr(suite.minicompile, "compile", lambda model, **options: Wrong(model))
    row = suite.run("mlp_mixer", "inference", suite.Settings(timed=False))
    assert row["correct"] == "no" and "output: error" in row["note"] and "AssertionError" in row["traceback"]


class Wrong(torch.nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, x):
        return self.model(x) * 1.01


def test_the_command_line(tmp_path, capsys):
    file = tmp_path / "numbers.json"
    arguments = ["--models", "vae", "--mode", "training", "--size", "small", "--no-time", "--json", str(file)]
    assert command.main(arguments) == 0
    printed, found = capsys.readouterr().out, json.loads(file.read_text())
    assert "| vae   | training | yes     |" in printed
    assert found["torch"] == torch.__version__ and found["cpu"] and found["size"] == "small"
    assert [row["model"] for row in found["rows"]] == ["vae"]
    for wrong, text in ((["--models", "no_such"], "no name in models matches"), (["--mode", "x"], "the modes are")):
        with pytest.raises(SystemExit):
            command.main(wrong)
        assert text in capsys.readouterr().err


def die_or_hang_or_answer(file):
    """The first call kills the process, the second takes too long, the third is good."""
    calls = len(file.read_text())
    file.write_text("x" * (calls + 1))
    if calls == 0:
        os.kill(os.getpid(), signal.SIGSEGV)
    if calls == 1:
        time.sleep(60)
    return {"model": "vae", "correct": "yes", "note": ""}


def test_a_broken_worker_is_replaced(tmp_path):
    file = tmp_path / "counter"
    file.write_text("")
    benchmark = worker.Worker(worker.quiet, limit=4)
    rows = [benchmark.run(die_or_hang_or_answer, file, model="vae") for _ in range(3)]
    benchmark.stop()
    assert rows[0]["correct"] == rows[1]["correct"] == "error" and rows[0]["model"] == "vae"
    assert "exit code -11" in rows[0]["note"] and "no result in 4 s" in rows[1]["note"]
    assert rows[2]["correct"] == "yes"


def test_rows_are_compiled_side_by_side_and_timed_in_turn(tmp_path):
    """Each process waits for its turn until the others have compiled; a row that fails keeps nobody waiting."""
    file = tmp_path / "numbers.json"
    arguments = ["micro", "--size", "small", "--rounds", "3", "--together", "2", "--json", str(file), "--only"]
    assert command.main([*arguments, "gelu,sum_all,swiglu"]) == 0
    rows = json.loads(file.read_text())["rows"]
    assert sorted(row["pattern"] for row in rows) == ["gelu", "sum_all", "swiglu"]
    assert all(row["correct"] == "yes" and row["ratio"] > 0 for row in rows)


def hold(file, events, name, seconds, both):
    with suite.turns(file) as wait:
        both.wait()
        time.sleep(seconds)
        events.put(f"{name} ready")
        wait()
        events.put(f"{name} timed")
        time.sleep(0.2)
        events.put(f"{name} done")


def test_nobody_is_timed_before_all_are_ready(tmp_path):
    file, context = tmp_path / "lock", multiprocessing.get_context("fork")
    file.touch()
    events = context.SimpleQueue()  # whose order is that of the events
    both = context.Barrier(2)  # on a busy machine one could be done before the other begins
    each = [context.Process(target=hold, args=(file, events, *how, both)) for how in (("a", 0.1), ("b", 0.6))]
    for process in each:
        process.start()
    seen = [events.get() for _ in range(6)]
    assert set(seen[:2]) == {"a ready", "b ready"}
    assert seen[2][0] == seen[3][0] and seen[4][0] == seen[5][0] != seen[2][0]


def test_an_interrupted_run_goes_on(tmp_path, capsys):
    file = tmp_path / "numbers.json"
    arguments = ["micro", "--size", "small", "--no-time", "--json", str(file), "--only"]
    assert command.main([*arguments, "gelu"]) == 0
    first = json.loads(file.read_text())["rows"]
    assert command.main([*arguments, "gelu,sum_all"]) == 0
    both = json.loads(file.read_text())["rows"]
    assert both[0] == first[0] and [row["pattern"] for row in both] == ["gelu", "sum_all"]
    with pytest.raises(SystemExit, match="other settings"):
        command.main([*arguments, "gelu", "--dtype", "bfloat16"])


def test_the_demo_writes_a_report_of_every_stage(tmp_path):
    assert demo.main(["--size", "small", "--rounds", "3", "--device", "cpu", "--out", str(tmp_path)]) == 0
    frames = sorted(path for path in tmp_path.iterdir() if path.is_dir())
    assert [path.name for path in frames] == ["01_GPT.forward", "02_GPT.forward"]
    names = {path.name for path in frames[0].iterdir()}
    assert {"1_graph.py", "1_guards.txt", "1_bytecode.txt", "2_aten.txt", "3_loops.txt", "4_fusion.txt"} <= names
    assert {"5_kernels.cpp", "6_wrapper.py"} <= names
    assert {"5_kernels_forward.cpp", "5_kernels_backward.cpp"} <= {path.name for path in frames[1].iterdir()}
    text = (frames[0] / "1_graph.py").read_text()
    assert "scaled_dot_product_attention" in text and "layer_norm" in text
    assert "training" in (frames[0] / "1_guards.txt").read_text()
    page = (tmp_path / "index.html").read_text()
    assert "02_GPT.forward/5_kernels_backward.cpp" in page and "<script" not in page
    for line in (tmp_path / "index.md").read_text().splitlines():
        if line.startswith("- ["):
            assert (tmp_path / line.split("](")[1].split(")")[0]).is_file(), line


def test_a_report_of_a_break_and_a_recompile(tmp_path):
    import minicompile

    @minicompile.compile
    def f(x, scale):
        y = x * scale
        print(end="")
        return y + 1

    for scale in (2, 3):
        f(torch.ones(3), scale)
    bench.report.write(tmp_path, record.compilations, summary="two calls")
    text = (tmp_path / "index.md").read_text()
    assert "two calls" in text and "graph break: " in text and "recompiled because " in text


def test_python_dash_m_names_its_commands():
    done = subprocess.run([sys.executable, "-m", "minicompile", "no_such"], capture_output=True, text=True)
    assert done.returncode == 2 and "usage: python -m minicompile {demo,bench}" in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("name", ["hf_deberta", "timm_convnext_atto"])
def test_models_of_installed_packages_are_rows(name):
    if name not in FURTHER:
        pytest.skip(f"{name} needs a package that is not installed")
    settings = suite.Settings(timed=False, backend="aot_eager")
    for mode in suite.MODES:
        row = suite.run(name, mode, settings)
        assert row["correct"] == "yes", row
        assert row["graphs"] <= row["torch_graphs"] and row["graph_breaks"] == 0
        assert name in MODELS and name not in ZOO


@pytest.mark.parametrize("script", ["call_overhead", "dynamic_cost"])
def test_tables_of_the_scripts(script):
    columns = runpy.run_path(str(ROOT / "scripts" / f"{script}.py"))["COLUMNS"]
    head, rule, row = tables.table([dict.fromkeys(columns, 1.5)], columns).splitlines()
    assert [name.strip() for name in head.strip("|").split("|")] == [title for title, _ in columns.values()]
    assert row.count("1.5") == len(columns)


def test_the_script_that_measures_a_call():
    run = subprocess.run([sys.executable, ROOT / "scripts/call_overhead.py", "3"], capture_output=True, text=True)
    assert run.returncode == 0 and "| a call of x + 1 adds |" in run.stdout, run.stdout + run.stderr
