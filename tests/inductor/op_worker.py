"""Runs the cases of one operator, eager against compiled, in a forked child with limits of time and memory.

Goes in: one JSON request a line.  Comes out: one JSON answer a line: {dtype: {"status", "cases", "why", "problems"}}.
PyTorch and minicompile are imported once, in the parent.  When a child crashes or hangs, the dtype that it was in has
that as its outcome, and another child goes on behind it.
"""

import collections
import contextlib
import copy
import json
import os
import pathlib
import resource
import signal
import sys
import tempfile
import time
import traceback
import warnings

import op_cases
import torch
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils import _pytree as pytree

import minicompile
from minicompile import config, record, testing

MEMORY_LIMIT = 12 << 30
UNDEFINED_PARTS = ("values", "infinity", "signs", *"0123456789")  # of problems
UNDEFINED = """empty empty_like new_empty empty_strided new_empty_strided empty_permuted resize_ resize_as_""".split()
BY_DENORMAL = "by 2 ** -1024 eager's vectors (AVX2) give nan, its scalars 0"
# (operator, beginning of what differs) -> why that is accepted
ACCEPTED = {
    ("unsafe_", "aliases"): "these are made to be told apart from their base: a graph gives tensors of their own",
    ("native_group_norm", "exception"): "the kernel insists on contiguous inputs, from which group_norm keeps users",
    ("nn.functional.pixel_unshuffle", "torch."): "eager gives an empty tensor the wrong shape",
    ("new_empty_strided", "strides"): "strides that interleave two dimensions become contiguous",
    ("nn.functional.multi_margin_loss", "infinity"): "the mean over no rows: eager gives what is in memory",
    ("cat", "exception RuntimeError: unsupported operation: some elements of the input"): "out= is one of the inputs",
    ("linalg.cond", "11."): "LAPACK's routine for singular values alone is another one than with the vectors",
    ("linalg.eig", "exception RuntimeError: linalg_eig_backward"): "eager looks at the numbers to refuse such a loss",
    ("fmod", "infinity or nan (4 of 250: nan became 0.0)"): BY_DENORMAL,
    ("remainder", "infinity or nan (4 of 250: nan became 0.0)"): BY_DENORMAL,
    ("__rmod__", "infinity or nan (8 of 250: nan became 0.0)"): BY_DENORMAL,
}


def full_name(op):
    return op.name + (f".{op.variant_test_name}" if op.variant_test_name else "")


def dtypes_of(op):
    """The names of the dtypes that the operator says it supports on the CPU; then "errors", its bad inputs, and
    "gradient", the backward of float32."""
    known = sorted(str(dtype).removeprefix("torch.") for dtype in op.supported_dtypes("cpu") if dtype is not None)
    errors = ["errors"] if known and op.error_inputs_func is not None else []
    gradient = op.supports_autograd and torch.float32 in op.supported_backward_dtypes("cpu")
    return known + errors + ["gradient"] * gradient


class Attempt:
    """What one call did: result or exception, the inputs after it, and which of all share memory."""

    def __init__(self, call, cases):
        copied = [case.copied() for case in cases]
        inputs = [t for case in copied for t in case.inputs]
        if cases[0].gradient:
            inputs = [t.requires_grad_(t.dtype.is_floating_point) for t in inputs]
        self.result = self.error = None
        torch.manual_seed(0)
        try:
            self.result = call(*inputs)
            if cases[0].gradient:
                self.result = self.result, gradients(self.result, inputs)
        except Exception as error:
            self.error = error
        self.inputs, self.aliases = inputs, {}
        strided = all(t.layout == torch.strided for t in inputs)
        if self.error is None and strided and not cases[0].gradient:  # what becomes .grad is copied where it is shared
            self.aliases = testing.alias_pattern(inputs=inputs, result=self.result)


def gradients(result, inputs):
    roots = [t for t in pytree.tree_leaves(result) if isinstance(t, torch.Tensor) and t.requires_grad]
    wanted = [t for t in inputs if t.requires_grad]
    seeds = [torch.cos(torch.arange(t.numel())).to(t.dtype).view(t.shape) for t in roots]  # not all ones
    found = torch.autograd.grad(roots, wanted, seeds, allow_unused=True) if roots and wanted else ()
    return [None if g is None else g.contiguous() for g in found]  # what .grad gets is laid out as its tensor anyway


def compare(eager, compiled, reference=None, signs=True):
    """What is wrong between two attempts at the same call, in words; "" when nothing is."""
    if eager.error is not None or compiled.error is not None:
        (a, b) = ((type(x.error).__name__, str(x.error).split("Exception raised from")[0]) for x in (eager, compiled))
        return "" if a == b else f"exception {a[0]}: {a[1][:200]} became {b[0]}: {b[1][:200]}"
    found = op_cases.problem(eager.result, compiled.result, reference and reference.result, signs)
    if not found and (changed := op_cases.problem(eager.inputs, compiled.inputs, reference and reference.inputs)):
        found = f"inputs afterwards: {changed}"
    if not found and eager.aliases != compiled.aliases:
        different = [path for path in eager.aliases if eager.aliases[path] != compiled.aliases.get(path)]
        found = f"aliases: {different[0]} {eager.aliases[different[0]]} became {compiled.aliases.get(different[0])}"
    return found


def reference_of(case):
    """The same attempt in float64, or None where that is not allowed."""
    wide = case.in_double()
    attempt = Attempt(op_cases.function_of([wide]), [wide])
    return None if attempt.error is not None else attempt


def reasons():
    """What was not compiled in the graphs since the last reset."""
    found = collections.Counter({f"break: {kind}": count for kind, count in record.break_reasons.items()})
    for compilation in record.compilations:
        for graph in compilation.artifacts("lower"):
            for buffer in getattr(graph, "buffers", ()):
                if getattr(buffer.data, "kind", None) == "fallback":
                    found[str(buffer.data.target)] += 1
    return found


def attempt_compiled(cases, calls=2):
    """Compile the cases as one function, call it; the last attempt and the reasons of what fell back."""
    minicompile.reset()
    compiled = minicompile.compile(op_cases.function_of(cases))
    attempts = [Attempt(compiled, cases) for _ in range(calls)]
    return attempts, reasons()


def check_one(case, undefined):
    """(what is wrong, reasons) of one case by itself."""
    eager = Attempt(op_cases.function_of([case]), [case])
    if eager.error is not None:  # no graph has to hold it: what fails inside the compiler leads to eager too
        with config.patch(strict=False):
            attempts, _ = attempt_compiled([case])
        return next(filter(None, (compare(eager, attempt) for attempt in attempts)), ""), collections.Counter()
    attempts, why = attempt_compiled([case])
    found = [compare(eager, attempt, None, case.signs) for attempt in attempts]
    if any(found) and not any(attempt.error for attempt in attempts):
        reference = reference_of(case)
        found = [compare(eager, attempt, reference, case.signs) for attempt in attempts]
        if any(found):  # half precision is kept wider inside a kernel, but not under this option
            with config.patch(emulate_precision_casts=True):
                emulated, _ = attempt_compiled([case])
            narrow = [compare(eager, attempt, reference, case.signs) for attempt in emulated]
            found = found if any(narrow) else []
    found = [text for text in found if text and not (undefined and text.startswith(UNDEFINED_PARTS))]
    return (found[0] if found else ""), why


def check_all(cases, undefined):
    """({case name: what is wrong}, reasons).  Cases that eager can run are compiled together."""
    problems, why = {}, collections.Counter()
    fine, alone = [], []
    for case in cases:
        eager = Attempt(op_cases.function_of([case]), [case])
        again = Attempt(op_cases.function_of([case]), [case])
        steady = eager.error is None and not op_cases.problem(eager.result, again.result)
        (fine if steady else alone).append(case)
    for start in range(0, len(fine), op_cases.PER_GRAPH):
        found, reason = check_together(fine[start : start + op_cases.PER_GRAPH], undefined)
        why += reason
        problems.update(found)
    for case in alone:
        found, reason = check_one(case, undefined)
        why += reason
        if found:
            problems[case.name] = found
    return problems, why


def check_together(cases, undefined):
    """The same of cases in one graph; where it differs, of its halves."""
    eager = Attempt(op_cases.function_of(cases), cases)
    attempts, why = attempt_compiled(cases)
    if not any(compare(eager, attempt, None, cases[0].signs) for attempt in attempts):
        return {}, why
    if len(cases) == 1:
        found, why = check_one(cases[0], undefined)
        return ({cases[0].name: found} if found else {}), why
    half = len(cases) // 2
    problems, why = check_together(cases[:half], undefined)
    others, more = check_together(cases[half:], undefined)
    return problems | others, why + more


def outcome_of(op, dtype, count):
    """One cell of the table."""
    special = {"errors": lambda: op_cases.error_cases(op), "gradient": lambda: op_cases.gradient_cases(op, count)}
    cases = special[dtype]() if dtype in special else op_cases.cases_of(op, getattr(torch, dtype), count)
    problems, why = check_all(cases, full_name(op) in UNDEFINED)
    accepted = {name for name, text in problems.items() if is_accepted(full_name(op), text)}
    status = "failed" if problems.keys() - accepted else "accepted" if accepted else "fell back" if why else "passed"
    return {"status": status, "cases": len(cases), "why": dict(why), "problems": problems}


def is_accepted(name, text):
    return any(name.startswith(start) and text.startswith(kind) for start, kind in ACCEPTED)


def run_child(op, dtypes, count, events):
    """Fork; the child writes a line when it starts a dtype and one with its outcome.  Returns the child's id."""
    child = os.fork()
    if child:
        return child
    status = 1
    try:
        os.setsid()
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_LIMIT, MEMORY_LIMIT))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        with open(events, "a") as stream:
            for dtype in dtypes:
                stream.write(json.dumps([dtype, None]) + "\n")
                stream.flush()
                try:
                    outcome = outcome_of(op, dtype, count)
                except Exception:
                    outcome = {"status": "failed", "cases": 0, "why": {}, "problems": {"": traceback.format_exc()}}
                stream.write(json.dumps([dtype, outcome]) + "\n")
                stream.flush()
        status = 0
    finally:
        os._exit(status)


def wait_for(child, events, seconds):
    """Until the child ends, or one dtype takes too long.  Returns None, "crash" or "timeout"."""
    while True:
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            return f"crash {status}" if status else None
        if time.time() - os.path.getmtime(events) > seconds:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child, signal.SIGKILL)
            os.waitpid(child, 0)
            return "timeout"
        time.sleep(0.02)


def run_operator(name, dtypes=(), count=0, seconds=120):
    """{dtype: outcome} of an operator; of all its dtypes by default."""
    op = next(op for op in op_db if full_name(op) == name)
    left, table = list(dtypes or dtypes_of(op)), {}
    with tempfile.TemporaryDirectory() as folder:
        events = pathlib.Path(folder, "events")
        while left:
            events.write_text("")
            end = wait_for(run_child(op, left, count, events), events, seconds)
            for dtype, outcome in map(json.loads, events.read_text().splitlines()):
                table[dtype] = outcome or {"status": "failed", "cases": 0, "why": {}, "problems": {"": end}}
            left = [dtype for dtype in left if dtype not in table]
            if end is None:
                break
    return table


def warm_up():
    """What the first capture imports is imported once for all children."""
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    config.strict = config.verify_ir = True
    minicompile.compile(lambda x: copy.copy(x) + 1)(torch.ones(1))


def main():
    out = os.fdopen(os.dup(1), "w")
    warm_up()
    for line in sys.stdin:
        out.write(json.dumps(run_operator(**json.loads(line))) + "\n")
        out.flush()


if __name__ == "__main__":
    main()
