"""explain(fn)(*args): the whole story of one call, read from the record.

Goes in: a function or module and arguments.  Comes out: an Explanation: graphs, breaks with the user's line and a hint,
guards in words, recompiles with old and new values, kernels, and what each stage cost.
Mirrors `torch._dynamo.explain`.  Taught in chapters 05 and 15.
"""

import dataclasses
import html
import textwrap
import time

from . import record
from .compiler import options_for, with_hook
from .dynamo.eval_frame import frame_states


@dataclasses.dataclass
class Explanation:
    """What happened in one call.  `compilations`: the record's entries, in order; `stats`: the counts of this call."""

    result: object
    compilations: list
    stats: dict
    history: dict = dataclasses.field(default_factory=dict)  # function -> why it was compiled again, ever since

    @property
    def breaks(self):
        return [error for entry in self.compilations for error in entry.breaks]

    @property
    def graphs(self):
        captures = [a for entry in self.compilations for a in entry.artifacts("capture") if a]
        return [capture.graph_module for capture in captures if capture.graph_module is not None]

    @property
    def guards(self):
        return [a.guards for entry in self.compilations for a in entry.artifacts("capture") if a]

    @property
    def recompiles(self):
        return [f"{entry.name}: {entry.recompile_reason}" for entry in self.compilations if entry.recompile_reason]

    def memory(self):
        """What each training graph keeps for its backward, and the most that is alive at one time."""
        graphs = [(entry.name, a) for entry in self.compilations for a in entry.artifacts("aot")]
        return [
            f"memory: {name} saves {graph.saved_bytes:,} bytes, peak {graph.peak_memory():,} besides its inputs"
            for name, graph in graphs
            if getattr(graph, "backward", None) is not None
        ]

    def seconds_by_stage(self):
        """{stage: seconds}, without what a stage spent in the stages below it."""
        totals = dict.fromkeys(record.STAGES, 0.0)
        for entry in self.compilations:
            for snapshot in entry.snapshots:
                inside = [
                    other.seconds
                    for other in entry.snapshots
                    if other is not snapshot and snapshot.start <= other.start < snapshot.start + snapshot.seconds
                ]
                direct = snapshot.seconds - (sum(inside) if snapshot.stage == "capture" else 0.0)
                totals[snapshot.stage] += max(direct, 0.0)
        return totals

    def __repr__(self):
        counts = {name: value for name, value in self.stats.items() if name != "saved_bytes"}
        lines = [", ".join(f"{value} {name.replace('_', ' ')}" for name, value in counts.items()), *self.memory()]
        for number, errors in enumerate(by_place(self.breaks), 1):
            lines.append(f"break {number}: {max(map(str, errors), key=len)}")
            if len(errors) > 1:
                lines.append(f"  counted {len(errors)} times: once by each capture that came here")
        lines += [f"recompile: {reason}" for reason in self.recompiles]
        for name, reasons in self.history.items():
            if len(reasons) > len(self.recompiles):
                lines += [
                    f"{name} was compiled {len(reasons) + 1} times:",
                    *(textwrap.indent(reason, "  ") for reason in reasons),
                ]
        lines.append("seconds: " + ", ".join(f"{name} {value:.3f}" for name, value in self.seconds_by_stage().items()))
        for entry in self.compilations:
            for capture in entry.artifacts("capture"):
                if capture:
                    lines += ["", repr(capture)]
        return "\n".join(lines)

    def _repr_html_(self):
        return f"<pre>{html.escape(repr(self))}</pre>"


def by_place(breaks):
    """Breaks in groups with one cause: a callee's break ends the graph of its caller, then its own."""
    groups = {}
    for error in breaks:
        groups.setdefault((getattr(error, "kind", ""), getattr(error, "user_location", None)), []).append(error)
    return list(groups.values())


def recompile_history():
    """{function: why it was compiled again}, for all code that was."""
    states = ((code.co_qualname, frame_states.get(code)) for code in frame_states.codes())
    return {name: list(state.history) for name, state in states if state.history}


def explain(fn, **options):
    """`explain(fn)(*args)` compiles and runs `fn` once and returns an Explanation.  options: those of `compile`.

    What was compiled before is compiled anew, to be told; later calls of `fn` still find it.
    """
    compile_options = options_for(**options)
    fn = getattr(fn, "_orig_mod", getattr(fn, "_torchdynamo_orig_callable", fn))  # of what is compiled already

    def explained(*args, **kwargs):
        start, before = time.perf_counter(), record.stats()
        anew = dataclasses.replace(compile_options, explained=object())
        result = with_hook(fn, anew)(*args, **kwargs)
        after = record.stats()
        counts = {name: after[name] - before[name] for name in after if isinstance(after[name], int)}
        return Explanation(result, record.since(start), counts, recompile_history())

    return explained
