"""Calls of a function with the frame hook on, as time lines: asked, compiled, guard checked, graph run.

Goes in: a function, and the arguments of each call.  Comes out: a CallTimeline: what the hook did in every call and how
long it took, recorded from the real hook, cache and compiler.  Mirrors nothing in PyTorch.  Taught in chapter 01.
"""

import contextlib
import dataclasses
import time

from ..dynamo import _eval_frame, eval_frame
from . import style
from .costs import readable
from .graphs import describe
from .picture import Canvas

COLOURS = {  # what belongs to dynamo has tints of dynamo's colour
    "call": "#c3c8ce",
    "guard": "#123a5c",
    "left alone": "#e0ac69",
    "compile": style.STAGE_COLOURS["capture"],
    "graph": style.STAGE_COLOURS["load"],
}
MEANINGS = {
    "guard": "guard checked",
    "compile": "asked, compiled",
    "left alone": "asked, left alone",
    "graph": "the graph runs",
    "call": "Python around it",
}


@dataclasses.dataclass
class Span:
    """`start`, `stop`: seconds.  kind: a key of COLOURS."""

    kind: str
    name: str
    start: float
    stop: float = 0.0

    @property
    def seconds(self):
        return self.stop - self.start


@dataclasses.dataclass
class CallTimeline:
    """`calls`: [(Span of the call, [Spans inside it])]."""

    calls: list = dataclasses.field(default_factory=list)

    @property
    def story(self):
        """What happened in each call, in order, without times: the same text on every run."""
        parts = [[f"{span.kind} {span.name}" for span in inside] for _, inside in self.calls]
        return "\n".join(f"{k}. {', '.join(part)}" for k, part in enumerate(parts, 1))

    def __repr__(self):
        lines = []
        for k, (call, inside) in enumerate(self.calls, 1):
            parts = ", ".join(f"{span.kind} {span.name} {readable(span.seconds)}" for span in inside)
            lines.append(f"{k}. {call.name}: {readable(call.seconds)} = {parts}")
        return "\n".join(lines)


class Recorder:
    """A backend and a callback like those of `compile(fn, backend="eager")`, which also write down when they ran."""

    def __init__(self):
        self.timeline, self.spans = CallTimeline(), []
        self.options = eval_frame.CompileOptions(self.backend, "eager")
        self.callback = self.convert_frame  # one object: the hook knows an entry's callback by identity

    @contextlib.contextmanager
    def span(self, kind, name):
        span = Span(kind, name, time.perf_counter())
        self.spans.append(span)
        try:
            yield span
        finally:
            span.stop = time.perf_counter()

    def timed(self, kind, name, function):
        def run(*args):
            with self.span(kind, name) as span:
                answer = function(*args)
                if kind == "guard":
                    span.name += ": holds" if answer else ": fails"
                return answer

        return run

    def backend(self, gm, example_inputs):
        operations = sum(node.op.startswith("call") for node in gm.graph.nodes)
        return self.timed("graph", f"of {operations} operations", gm.forward)

    def convert_frame(self, code, function, arguments):
        with self.span("left alone", code.co_name) as span:
            answer = eval_frame.convert_frame(self.options, code, function, arguments)
            if not answer:
                return answer
            span.kind = "compile"
            return answer[0], self.timed("guard", code.co_name, answer[1])

    def call(self, function, arguments):
        call = Span("call", ", ".join(describe(each) or repr(each) for each in arguments), time.perf_counter())
        _eval_frame.call(self.callback, function, *arguments)
        call.stop = time.perf_counter()
        self.timeline.calls.append((call, self.spans))
        self.spans = []


def record_calls(function, *calls):
    """Run `function(*arguments)` for each tuple of arguments in `calls` under the hook.  Returns a CallTimeline."""
    recorder = Recorder()
    for arguments in calls:
        recorder.call(function, arguments)
    return recorder.timeline


def draw_calls(timeline, title="What the hook does in each call"):
    """A bar over all calls to scale, then a lane for each call, every lane stretched to the full width."""
    left, right, lane, first = 16, 900, 58, 152
    canvas = Canvas(right + 16, first + lane * len(timeline.calls) + 34, title)
    total = sum(call.seconds for call, _ in timeline.calls)
    canvas.text(left, 62, f"all {len(timeline.calls)} calls, to scale: {readable(total)}", 13, style.MUTED)
    x, scale = left, (right - left) / total
    for k, (call, inside) in enumerate(timeline.calls, 1):
        _bar(canvas, call, inside, x, scale, 72)
        if call.seconds * scale > 16:
            canvas.text(x + call.seconds * scale / 2, 89, str(k), 12, "#ffffff", "middle", bold=True)
        x += call.seconds * scale
    canvas.text(left, 126, "each call by itself, stretched to the full width", 13, style.MUTED)
    for k, (call, inside) in enumerate(timeline.calls):
        y, scale = first + k * lane, (right - left) / call.seconds
        canvas.text(left, y, f"{k + 1}", 13, bold=True)
        canvas.text(left + 16, y, f"{call.name}:  {' → '.join(map(_label, inside))}", 12)
        canvas.text(right, y, readable(call.seconds), 13, anchor="end", bold=True)
        _bar(canvas, call, inside, left, scale, y + 8)
    kinds = {"call", *(span.kind for _, inside in timeline.calls for span in inside)}
    meanings = [(COLOURS[kind], meaning) for kind, meaning in MEANINGS.items() if kind in kinds]
    canvas.legend(meanings, left, first + lane * len(timeline.calls) + 8)
    alt = f"{len(timeline.calls)} calls of one function: compiled when new, found in the cache after that"
    return canvas.picture(repr(timeline), alt)


def _label(span):
    if span.kind == "guard":
        return f"guard {span.name.partition(': ')[2]}"
    return f"{span.kind} {'' if span.kind == 'graph' else span.name + ' '}{readable(span.seconds)}"


def _bar(canvas, call, inside, x, scale, y):
    canvas.box(x, y, max(call.seconds * scale, 1), 24, COLOURS["call"], radius=0)
    for span in inside:
        start = x + (span.start - call.start) * scale
        canvas.box(start, y, max(span.seconds * scale, 1), 24, COLOURS[span.kind], radius=0)
