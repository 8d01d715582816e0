"""step(fn, *args): symbolic execution as a film, one frame an instruction, forward and back.

Goes in: a function and example arguments; a real capture of them is watched.  Comes out: a FilmStrip, which is text in
a terminal and has a slider in a notebook.  Mirrors `torch/_dynamo/symbolic_convert.py`'s trace_bytecode log.  Taught in
chapter 03.
"""

import dataclasses
import inspect

from .. import record
from ..dynamo.bytecode_analysis import format_instructions
from ..dynamo.eval_frame import CompileOptions, run_compiled
from ..dynamo.resume_code import is_resume_code
from .effects import recorded_writes
from .film_strip_html import film_strip_html
from .graphs import describe, target_name
from .trackers import describe_tracker


@dataclasses.dataclass
class Step:
    """One instruction, and what is there behind it.  Descriptions are (kind, text), see trackers.py."""

    code: object  # of the frame that runs it: the captured function, or one that is inlined
    index: int  # of the instruction in the normalised instructions of `code`
    opname: str
    text: str  # `LOAD_FAST x`
    line: int | None
    depth: int  # 0: the captured frame; 1: a call that is inlined in it; ...
    stack: list = dataclasses.field(default_factory=list)
    locals: dict = dataclasses.field(default_factory=dict)
    effects: list = dataclasses.field(default_factory=list)  # texts of the writes that are to be replayed
    shown: object = None  # the code object whose stack and locals these are: another one where a call begins or ends
    note: str = ""  # on the last step of a frame: how it ended


@dataclasses.dataclass
class RecordedFrame:
    """What happened to one frame: the function's own, or a resume function's."""

    entry: object  # its record.Compilation
    output: object  # the OutputGraph of the last attempt
    steps: list = dataclasses.field(default_factory=list)
    born: dict = dataclasses.field(default_factory=dict)  # FX node -> number of the step that made it
    upcoming: list = dataclasses.field(default_factory=list)  # the frame's next instruction; none behind the last

    @property
    def title(self):
        return name_of(self.output.code)

    @property
    def operations(self):
        return sum(node.op.startswith("call") for node in self.born)

    @property
    def nodes(self):
        """[(text, number of the step that made it)], in the order of the graph."""
        order = {node: k for k, node in enumerate(self.output.graph.nodes)}
        kept = sorted((node for node in self.born if node in order), key=order.get)
        return [(node_text(node), self.born[node]) for node in kept]


class Recorder:
    """Watches translators.  An attempt that ended in a break is forgotten when its frame is captured again."""

    def __init__(self):
        self.frames = []
        self.listings = {}  # code -> a line of text for each instruction

    def __call__(self, tx, instruction):
        frame = self.frame_of(tx.output)
        if frame.steps:
            self.look(frame, tx)
        if instruction is not None:
            index = tx.index_of[id(instruction)]
            words = self.listing(tx)[index].split("#")[0].split()
            text = " ".join(words[words.index(instruction.opname) :])
            frame.steps.append(Step(tx.code, index, instruction.opname, text, instruction.line, tx.depth))
        root = tx.root()
        frame.upcoming = root.instructions[root.pointer : root.pointer + 1]

    def frame_of(self, output):
        entry, last = record.current(), self.frames[-1] if self.frames else None
        if last is None or last.output is not output:
            if last is not None and last.entry is entry:
                self.frames.pop()
            self.frames.append(RecordedFrame(entry, output))
        return self.frames[-1]

    def listing(self, tx):
        if tx.code not in self.listings:
            self.listings[tx.code] = format_instructions(tx.instructions).split("\n")
        return self.listings[tx.code]

    def look(self, frame, tx):
        """What is there behind the last step."""
        step = frame.steps[-1]
        step.shown = tx.code
        step.stack = [describe_tracker(value) for value in tx.stack]
        step.locals = {name: describe_tracker(value) for name, value in tx.locals.items()}
        for name, cell in tx.cells.items():
            pending = tx.side_effects.load_cell(cell)
            contents = cell.contents if pending is None else pending
            if contents is not None and contents is not tx.side_effects.DELETED:
                step.locals[f"{name} (cell)"] = describe_tracker(contents)
        step.effects = [text for _, _, text in recorded_writes(tx.side_effects)]
        if len(tx.output.graph.nodes) != len(frame.born):
            for node in tx.output.graph.nodes:
                frame.born.setdefault(node, len(frame.steps) - 1)


def name_of(code):
    return f"resume function of {code.co_name}" if is_resume_code(code) else code.co_name


def ending(frame):
    """How the frame ended, in words."""
    if not frame.entry.breaks:
        return "the frame returns: the graph is complete"
    error = frame.entry.breaks[-1]
    kind = getattr(error, "kind", type(error).__name__)
    if not any(frame.entry.artifacts("capture")):
        return f"not captured: {kind}. The frame runs in eager"
    opname = frame.upcoming[0].opname
    return f"graph break before {opname}: {kind}. Eager runs this one instruction, a resume function what follows"


def node_text(node):
    """`mul = mul(x, 2): float32[3]`."""
    facts = describe(node.meta.get("example_value")).replace(" ", "", 1)
    if node.op == "placeholder":
        return f"input {node.name}: {facts}"
    words = [str(argument) for argument in node.args] + [f"{name}={value}" for name, value in node.kwargs.items()]
    if node.op == "call_method":
        return f"{node.name} = {words[0]}.{node.target}({', '.join(words[1:])})"
    return f"{node.name} = {target_name(node.target)}({', '.join(words)})" + (f": {facts}" if facts else "")


def source_lines(code):
    """(lines, number of the first); one line that says so where there is no source."""
    try:
        lines, first = inspect.getsourcelines(code)
    except OSError:
        return ["(no source)"], code.co_firstlineno
    return [line.rstrip("\n") for line in lines], max(first, 1)


class FilmStrip:
    """`frames`: RecordedFrames; `steps`: all their steps in one row; `result`: what the call returned."""

    def __init__(self, result, recorder):
        self.result, self.listings = result, recorder.listings
        # what eager calls at a break (print, in a notebook) may be Python whose frames hold nothing of interest
        self.frames = [f for f in recorder.frames if f is recorder.frames[0] or f.operations or f.entry.breaks]
        for frame in self.frames:
            frame.steps[-1].note = ending(frame)

    @property
    def steps(self):
        return [step for frame in self.frames for step in frame.steps]

    def __len__(self):
        return len(self.steps)

    def __getitem__(self, number):
        return self.steps[number]

    def __repr__(self):
        parts, number, effects = [], 0, []
        for frame in self.frames:
            parts.append(f"{frame.title}: {len(frame.steps)} instructions, {frame.operations} graph operations")
            parts.append("   #  line  instruction                     stack (top right), {locals}, + graph, ! writes")
            before, nodes = {}, frame.nodes
            for k, step in enumerate(frame.steps):
                number += 1
                happened = " | ".join(text for _, text in step.stack)
                if step.shown is step.code:  # else these are the locals of another frame
                    happened += changes(before.get(step.code, {}), step.locals)
                    before[step.code] = step.locals
                happened += "".join(f"   + {text}" for text, born in nodes if born == k)
                happened += "".join(f"   ! {text}" for text in step.effects if text not in effects)
                effects = step.effects
                instruction = "  " * step.depth + step.text
                parts.append(f"{number:>4} {step.line or '':>5}  {instruction:<30}  {happened}".rstrip())
            parts.append(f"      {frame.steps[-1].note}")
        return "\n".join(parts)

    def code_data(self, code):
        """For the slider: name, source and listing of a code object."""
        source, first = source_lines(code)
        return {"name": name_of(code), "source": source, "first": first, "listing": self.listings[code]}

    def _repr_html_(self):
        return film_strip_html(self)


def changes(before, after):
    """The locals that are new or other than before, as text."""
    changed = [f"{name} = {value[1]}" for name, value in after.items() if before.get(name) != value]
    return f"   {{{', '.join(changed)}}}" if changed else ""


def step(fn, *args, **kwargs):
    """Run `fn(*args, **kwargs)` captured, with graphs run by eager, and return the film of its symbolic execution.

    The film goes through calls that are inlined; at a graph break it shows why, and goes on with the resume function.
    Raises what `fn` raises.
    """

    recorder = Recorder()
    options = CompileOptions(lambda gm, example_inputs: gm.forward, "eager", watch=recorder)
    result = run_compiled(options, fn, args, kwargs)
    if not recorder.frames:
        raise ValueError(f"nothing to film: no frame of {fn!r} was captured (does it get or use a tensor?)")
    return FilmStrip(result, recorder)
