"""Side effects as a picture: the objects before a call, the recorded writes, the objects after it.

Goes in: a function and example arguments; the SideEffects of a real capture are read at its end, before their replay.
Comes out: a Picture.  Mirrors nothing in PyTorch.  Taught in chapter 06.
"""

import dataclasses
import types
from html import escape

from ..dynamo.eval_frame import CompileOptions, run_compiled
from ..dynamo.variables.base import LazyVariable, VariableTracker
from ..dynamo.variables.cells import CellVariable, cell_contents
from ..dynamo.variables.containers import Sequence
from ..dynamo.variables.dicts import DictVariable
from ..dynamo.variables.objects import UserDefinedObjectVariable, attributes_of
from ..dynamo.variables.sets import SetVariable
from ..dynamo.variables.tensor import TensorVariable
from . import style
from .graphs import describe, render
from .trackers import KIND_COLOURS, describe_tracker

MUTABLE = (list, dict, set, types.CellType)
CHANGED = KIND_COLOURS["container"]


def recorded_writes(side_effects):
    """[(tracker or None, attribute or None, text)] in the order of their replay: `log[:] = [1, 2]`, `self.n = 3`."""
    writes = []
    for tracker in sorted(side_effects.order, key=lambda t: getattr(t, "replay_order", 0)):
        name = name_of(tracker)
        if tracker in side_effects.mutated_containers:
            target = f"{name}[:]" if isinstance(tracker, Sequence) else f"contents of {name}"
            writes.append((tracker, None, f"{target} = {describe_tracker(tracker)[1]}"))
        for attribute, value in side_effects.pending_attributes(tracker).items():
            target = name if isinstance(tracker, CellVariable) else f"{name}.{attribute}"
            writes.append((tracker, attribute, written(side_effects, target, value)))
    for _, name, value in side_effects.globals.values():
        writes.append((None, name, written(side_effects, name, value)))
    return writes


def written(side_effects, target, value):
    return f"del {target}" if value is side_effects.DELETED else f"{target} = {describe_tracker(value)[1]}"


def name_of(tracker):
    if isinstance(tracker, CellVariable):
        return tracker.frame_name or "cell"
    return tracker.source.name if tracker.source is not None else describe_tracker(tracker)[1]


# --- the object graph -----------------------------------------------------------------------------------
@dataclasses.dataclass
class Box:
    """One mutable object.  rows: (label, text, Box or None, number of the write that made it what it is, or None)."""

    title: str
    new: bool = False
    rows: list = dataclasses.field(default_factory=list)


class ObjectGraph:
    """The objects within reach of some names, as they were before the call, or as they will be after it.

    A value is a tracker, or an object that nobody looked at, which is then unchanged.
    """

    def __init__(self, tx, after):
        self.output, self.after = tx.output, after
        self.writes = recorded_writes(tx.side_effects) if after else []
        self.boxes = {}  # id -> Box
        cells = dict(zip(tx.code.co_freevars, tx.output.function.__closure__ or ()))
        self.roots = {name: self.show(value) for name, value in {**tx.arguments, **cells}.items()}
        for number, (tracker, name, _) in enumerate(self.writes, 1):
            if tracker is None and tx.side_effects.globals:
                value = next(v for _, n, v in tx.side_effects.globals.values() if n == name)
                self.roots[f"{number}  {name}"] = self.show(value)

    def show(self, value):
        """(text, Box or None)."""
        if isinstance(value, LazyVariable):
            value = value.variable if value.variable is not None and self.after else value.value
        if not isinstance(value, VariableTracker):
            known = self.output.known(value)
            if isinstance(known, VariableTracker if self.after else TensorVariable):
                value = known
        rows = self.rows_of(value)
        if rows is None:
            return (describe_tracker(value)[1] if isinstance(value, VariableTracker) else plain_text(value)), None
        if id(value) not in self.boxes:
            self.boxes[id(value)] = box = Box(*self.title_of(value))
            for label, item in rows:
                box.rows.append((label, *self.show(item), self.number_of(value, label)))
        return "", self.boxes[id(value)]

    def title_of(self, value):
        if not isinstance(value, VariableTracker):
            return type(value).__name__, False
        return value.python_type().__name__, value.source is None and not getattr(value, "frame_name", None)

    def rows_of(self, value):
        """[(label, value)] of a mutable object's contents; None for anything else."""
        if isinstance(value, VariableTracker):
            return self.rows_of_tracker(value)
        if isinstance(value, list):
            return [(f"[{k}]", item) for k, item in enumerate(value)]
        if isinstance(value, dict):
            return [(f"[{key!r}]", item) for key, item in value.items()]
        if isinstance(value, set):
            return [("", item) for item in value]
        if isinstance(value, types.CellType):
            contents = cell_contents(self.output, value, None)  # None while it is empty
            return [] if contents is None else [("cell_contents", contents)]
        return [(f".{name}", item) for name, item in attributes_of(value).items()] if is_mutable(value) else None

    def rows_of_tracker(self, tracker):
        pending = self.output.side_effects.pending_attributes(tracker)
        if isinstance(tracker, CellVariable):
            contents = pending.get("cell_contents", tracker.contents)
            empty = contents is None or contents is self.output.side_effects.DELETED
            return [] if empty else [("cell_contents", contents)]
        if isinstance(tracker, UserDefinedObjectVariable):
            attributes = {**tracker.instance_dict(), **pending}
            return [(f".{n}", v) for n, v in attributes.items() if v is not self.output.side_effects.DELETED]
        if isinstance(tracker, DictVariable):
            return [(f"[{describe_tracker(key)[1]}]", item) for key, item in tracker.items.values()]
        if isinstance(tracker, SetVariable):
            return [("", item) for item in tracker.items.values()]
        if isinstance(tracker, Sequence) and tracker.python_type() is not tuple:
            return [(f"[{k}]", item) for k, item in enumerate(tracker.items)]
        return None

    def number_of(self, value, label):
        for number, (tracker, attribute, _) in enumerate(self.writes, 1):
            if tracker is value and (attribute is None or label in (f".{attribute}", attribute)):
                return number
        return None

    def lines(self):
        """The graph as text."""
        numbers = {id(box): f"#{k}" for k, box in enumerate(self.boxes.values(), 1)}

        def say(text, box):
            return text or f"{numbers[id(box)]} {box.title}"

        out = [f"  {name} -> {say(*shown)}" for name, shown in self.roots.items()]
        for box in self.boxes.values():
            out.append(f"  {numbers[id(box)]} {'new ' if box.new else ''}{box.title}")
            for label, text, target, number in box.rows:
                mark = f"   <- write {number}" if number else ""
                out.append(f"      {label} = {say(text, target)}{mark}")
        return out

    def dot(self, prefix, title):
        """A cluster of tables."""
        names = {id(box): f"{prefix}{k}" for k, box in enumerate(self.boxes.values())}
        yield f'subgraph cluster_{prefix} {{ label="{title}"; labeljust=l; color="{style.RULE}"; style=rounded;'
        yield f"{{ rank=same; {' '.join(f'{prefix}r{k};' for k in range(len(self.roots)))} }}"
        for k, (name, (text, box)) in enumerate(self.roots.items()):
            label = escape(text if text.startswith(f"{name}:") else f"{name} = {text}" if text else name)
            yield f'{prefix}r{k} [label=<<B>{label}</B>>, shape=plaintext, fontname="DejaVu Sans Mono"];'
            if box is not None:
                yield f"{prefix}r{k} -> {names[id(box)]}:title;"
        for box in self.boxes.values():
            yield f"{names[id(box)]} [shape=plaintext, label=<{''.join(table(box))}>];"
            for k, (_, _, target, _) in enumerate(box.rows):
                if target is not None:
                    yield f"{names[id(box)]}:p{k} -> {names[id(target)]}:title;"
        yield "}"


def table(box):
    """An object as an HTML table of Graphviz."""
    head = f"{'new ' if box.new else ''}{box.title}{'' if box.rows else ', empty'}"
    colour = KIND_COLOURS["tensor"] if box.new else "#eceff2"
    yield f'<TABLE BORDER="0" CELLBORDER="1" CELLSPACING="0" CELLPADDING="4" COLOR="{style.MUTED}">'
    yield f'<TR><TD PORT="title" BGCOLOR="{colour}" COLSPAN="2"><B>{escape(head)}</B></TD></TR>'
    for k, (label, text, target, number) in enumerate(box.rows):
        fill = CHANGED if number else style.CARD
        mark = f"<B>{number}</B>  " if number else ""
        content = escape(text) if target is None else "&#8226;"
        yield f'<TR><TD BGCOLOR="{fill}" ALIGN="LEFT">{mark}{escape(label)}</TD>'
        yield f'<TD BGCOLOR="{fill}" ALIGN="LEFT" PORT="p{k}">{content}</TD></TR>'
    yield "</TABLE>"


def is_mutable(value):
    """A builtin container, or an object with attributes that is no class, function or module."""
    if isinstance(value, MUTABLE):
        return True
    closed = (type, types.FunctionType, types.ModuleType, types.MethodType, VariableTracker)
    return not isinstance(value, closed) and not describe(value) and bool(attributes_of(value))


def plain_text(value):
    """The same text on every run: no addresses."""
    if isinstance(value, tuple):
        return f"({', '.join(map(plain_text, value))})"
    if isinstance(value, (int, float, complex, str, bytes, type(None))):
        return repr(value)
    return describe(value).replace(" ", "", 1) or getattr(value, "__name__", None) or type(value).__name__


def draw_effects(fn, *args):
    """Run `fn(*args)` captured and draw what its frame changed: before, the writes in order, after."""
    graphs = []

    def watch(tx, instruction):
        if instruction is None and tx.parent is None and tx.return_value is not None:
            graphs.extend((ObjectGraph(tx, after=False), ObjectGraph(tx, after=True)))

    run_compiled(CompileOptions(lambda gm, inputs: gm.forward, "eager", watch=watch), fn, args, {})
    if not graphs:
        raise ValueError(f"no frame of {fn!r} was captured from beginning to end")
    before, after = graphs[:2]
    writes = [f"{number}. {text}" for number, (_, _, text) in enumerate(after.writes, 1)]
    font = 'FACE="DejaVu Sans Mono" POINT-SIZE="11"'
    rows = "".join(
        f'<TR><TD ALIGN="LEFT" BGCOLOR="{CHANGED}"><FONT {font}>{escape(text)}</FONT></TD></TR>' for text in writes
    )
    rows = rows or "<TR><TD>nothing to replay</TD></TR>"
    head = '<TR><TD ALIGN="LEFT">recorded writes, in order</TD></TR>'
    dot = [
        'node [fontname="DejaVu Sans Mono", fontsize=11, margin=0.02];',
        f'edge [color="{style.MUTED}", arrowsize=0.6];',
        # Graphviz stacks from below; a label, unlike a node, pushes nothing to the side
        f'subgraph cluster_b {{ label=<<TABLE BORDER="0" CELLBORDER="0" CELLSPACING="3">{head}{rows}</TABLE>>;',
        f'labeljust=l; color="{style.CARD}";',
        *after.dot("c", "after the replay"),
        "}",
        *before.dot("a", "before the call"),
    ]
    text = ["before the call", *before.lines(), "recorded writes", *(f"  {w}" for w in writes)]
    text += ["after the replay", *after.lines()]
    look = "rankdir=LR; nodesep=0.18; ranksep=0.35; fontsize=13; compound=true"
    return render(dot, text, f"Objects before and after {len(writes)} replayed writes", look=look)
