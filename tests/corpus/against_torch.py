"""The table that compares ours with torch.compile: graphs and breaks of every function of the corpus.

`python tests/corpus/against_torch.py` prints it; `--record [names]` counts torch.compile again and writes
torch_counts.json, which holds what each Python version counted (after the first, only what differs from the first).
"""

import json
import pathlib
import sys

import corpus
import torch

from minicompile.testing import CompileCounter

PATH = pathlib.Path(__file__).with_name("torch_counts.json")
VERSION = "{}.{}".format(*sys.version_info)


def recorded():
    """{name: {"graphs", "breaks", "operations", "given_up"}} of torch.compile on this Python version."""
    by_version = json.loads(PATH.read_text())["counts"]
    first = next(iter(by_version.values()))
    return {**first, **by_version.get(VERSION, {})}


def torch_counts(example):
    """What torch.compile does with an example.  Its counter leaves out breaks at branches: its log is counted."""
    from torch._dynamo.convert_frame import ConvertFrame
    from torch._dynamo.symbolic_convert import InstructionTranslatorBase

    breaks, given_up = [], []
    log_graph_break, convert_frame = InstructionTranslatorBase.log_graph_break, ConvertFrame.__call__

    def counted(self, code_options, reason, exc):
        if not exc.logged:
            breaks.append(reason)
        return log_graph_break(self, code_options, reason, exc)

    def converted(self, frame, *args, **kwargs):
        result = convert_frame(self, frame, *args, **kwargs)
        if result.guarded_code is None:  # its code runs in eager from now on
            given_up.append(frame.f_code)
        return result

    expected, counter = corpus.run(example, lambda function: function), CompileCounter()
    torch.compiler.reset()
    InstructionTranslatorBase.log_graph_break, ConvertFrame.__call__ = counted, converted
    try:
        found = corpus.run(example, lambda function: torch.compile(function, backend=counter))
    finally:
        InstructionTranslatorBase.log_graph_break, ConvertFrame.__call__ = log_graph_break, convert_frame
    counts = {"graphs": counter.graphs, "breaks": len(breaks), "operations": counter.ops, "given_up": len(given_up)}
    if wrong := corpus.wrong(expected, found):
        counts["wrong"] = " ".join(wrong[0].split())[:120]
    return counts


def record(names):
    """Count torch.compile for these examples (all, when there are none) and write the file."""
    examples = corpus.load()
    by_version = json.loads(PATH.read_text())["counts"] if PATH.exists() else {}
    first = next(iter(by_version), VERSION)
    found = by_version.setdefault(VERSION, {})
    for name in names or examples:
        found[name] = torch_counts(examples[name])
        if VERSION != first and found[name] == by_version[first].get(name):
            del found[name]
    text = ",\n".join(
        f' "{version}": {{\n' + ",\n".join(f"  {json.dumps(n)}: {json.dumps(c)}" for n, c in counts.items()) + "\n }"
        for version, counts in by_version.items()
    )
    PATH.write_text(f'{{"torch": "{torch.__version__.split("+")[0]}", "counts": {{\n{text}\n}}}}\n')


def more(ours, theirs):
    """In words, where ours has more graphs or breaks; "" where it has not.

    torch.compile leaves whole frames to eager where ours captures pieces (a loop with a break in it: one break, no
    graph), and code that once gave no graph.  There ours has to capture more operations.
    """
    if theirs["given_up"] and ours["operations"] > theirs["operations"]:
        return ""
    if ours["breaks"] > theirs["breaks"]:
        return f"{ours['breaks']} breaks against {theirs['breaks']}: {ours['reasons']}"
    if ours["graphs"] > theirs["graphs"]:
        return f"{ours['graphs']} graphs of {ours['operations']} operations against {theirs['graphs']}"
    return ""


def table():
    theirs, totals, longer = recorded(), [0] * 4, []
    print(f"{'function':44} {'graphs':>14} {'breaks':>14}\n{'':44} {'ours':>6} {'torch':>7} {'ours':>6} {'torch':>7}")
    point = None
    for name, example in sorted(corpus.load().items(), key=lambda item: item[1].point):
        counts, wrong = corpus.ours(example)
        if example.point != point:
            point = example.point
            print(f"\n{point}")
        other = theirs[name]
        row = [counts["graphs"], other["graphs"], counts["breaks"], other["breaks"]]
        totals = [a + b for a, b in zip(totals, row)]
        remarks = [f"WRONG: {wrong[0]}"] if wrong else []
        if reason := more(counts, other):
            remarks.append(reason)
            longer.append(name)
        remarks += ["torch.compile gives another result"] if "wrong" in other else []
        print(f"  {name:42} {row[0]:6} {row[1]:7} {row[2]:6} {row[3]:7}  {'; '.join(remarks)}")
    print(f"\n{len(theirs)} functions{'':30} {totals[0]:6} {totals[1]:7} {totals[2]:6} {totals[3]:7}")
    print(f"ours has more graphs or breaks in {len(longer)}: {', '.join(longer)}")


if __name__ == "__main__":
    record(sys.argv[2:]) if sys.argv[1:2] == ["--record"] else table()
