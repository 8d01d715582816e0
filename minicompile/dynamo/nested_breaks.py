"""Nested breaks: a break inside a callee that capture runs in place of its call.

Goes in: the translators of the frames from the root to the instruction that cannot be captured.  Comes out: which of
them the break can cut in two, and the code that each frame between runs meanwhile.

The graph goes up to the instruction.  Then all frames are there again, on the interpreter's own stack: the root's new
code calls a piece of its callee, that one a piece of the next, and the last runs the instruction in eager.  Each
returns a `Continuation`, what is left of its frame to do, which its caller puts into its own.  So the root goes on in
one function which, captured in its turn, has the rest of every frame in one graph.

Mirrors `nested_graph_breaks` in `torch/_dynamo/symbolic_convert.py`.  Taught in chapter 05.
"""

import dataclasses
import types

import torch

from .. import config
from . import _eval_frame
from .skip_files import has_tensor, never_capture
from .variables.base import LazyVariable
from .variables.cells import CellVariable
from .variables.tensor import TensorVariable

WHOLE_FRAME = {"long loop", "deep recursion"}  # kinds of breaks: the rest of the callee would break again and again


def breaking_frame(frame, kind):
    """The innermost frame that a break of this kind, in `frame`, can cut in two."""
    root, *callees = frames = ancestry(frame)
    if not config.nested_graph_breaks or frame.output.nested or kind in WHOLE_FRAME:
        return root
    from .resume_code import is_resume_code

    codes = {origin_code(root)}
    for caller, callee in zip(frames, callees):
        code = origin_code(callee)
        captured = is_resume_code(callee.code) or (not never_capture(callee.code) and reaches_tensors(callee))
        in_two = callee.is_called_directly and callee.started and not (caller.handling or callee.handling)
        if not in_two or not captured or code in codes:
            return caller
        codes.add(code)
    return frame


def step_to_break_at(frame):
    """The step, now, before which a break must come that leaves to eager what is done here."""
    while frame.is_polyfill():
        frame = frame.parent
    return breaking_frame(frame, "value across a break").current_step()


def reaches_tensors(frame):
    """Whether a callee would be captured if it were called in eager: see `skip_files.concerns_tensors`."""
    if any(has_tensor(frame.globals_dict.get(name), 3) for name in frame.code.co_names):
        return True
    cells = [contents for cell in frame.cells.values() if (contents := cell.load(frame)) is not None]
    return any(holds_tensor(tracker, 3) for tracker in (*frame.arguments.values(), *cells))


def holds_tensor(tracker, depth):
    if isinstance(tracker, LazyVariable) and tracker.variable is None:
        return has_tensor(tracker.value, depth)
    tracker = tracker.realize()
    if isinstance(tracker, TensorVariable):
        return True
    if tracker.source is not None and hasattr(tracker, "value"):
        return has_tensor(tracker.value, depth)
    return depth > 0 and any(holds_tensor(child, depth - 1) for child in tracker.children())


def ancestry(frame):
    frames = []
    while frame is not None:
        frames.insert(0, frame)
        frame = frame.parent
    return frames


def origin_code(frame):
    from .resume_code import origin_of

    return origin_of(frame.code).code


def frames_down_to(frame):
    """The frames that stand on the interpreter's stack at a break in `frame`, the root first."""
    frames = ancestry(frame)
    return [piece for caller in frames[:-1] for piece in (caller, *caller.skipped_frames)] + [frame]


class SkippedFrame:
    """A frame between a caller and a callee that capture does not run, since it only hands on the call.

    function: its function; number: which of its CALL_FUNCTION_EX hands on.
    """

    def __init__(self, function, number):
        from .symbolic_convert import instructions_of

        self.code, self.globals_dict = function.__code__, function.__globals__
        self.globals_source = None
        self.instructions, self.index_of = instructions_of(self.code)
        self.current = [i for i in self.instructions if i.opname == "CALL_FUNCTION_EX"][number]
        self.stack, self.locals = [], {}  # nothing of it is needed any more

    @property
    def cells(self):
        return {name: CellVariable() for name in (*self.code.co_cellvars, *self.code.co_freevars)}


def emit_call(codegen, frames, describe):
    """Push what runs the pieces of these frames, each of which calls the next: a Continuation.

    describe(frame, whether it calls another): names of the locals, which stack values are bound, the piece's code.
    """
    frame, *inner = frames
    names, bound, code = describe(frame, bool(inner))
    codegen.load_const(_eval_frame.Continuation)
    cells = [frame.cells[name] for name in code.co_freevars]
    codegen.call(types.FunctionType, code, frame.globals_source or frame.globals_dict, None, None, cells)
    values = [frame.locals[name] for name in names] + [t for t, is_bound in zip(frame.stack, bound) if is_bound]
    codegen.push_all(values)
    if inner:
        emit_call(codegen, inner, describe)
    codegen.build_list(1 + len(values) + bool(inner))
    codegen.call_function(1)


IMMORTAL = {int, bool, float, complex, str, bytes, type(None), types.ModuleType}  # not so what derives from these


def may_be_missed(value):
    """Whether the program might see that the value dies: see _deaths.h."""
    return type(value) not in IMMORTAL and not issubclass(type(value), torch.Tensor)


@dataclasses.dataclass(frozen=True)
class CallerContinuation:
    """What is left to do in a frame whose callee has broken: the callee's rest, then the frame's own.

    Called with [function, *locals, *stack, the callee's result]: of the function only globals and closure count where
    the result is a Continuation; where the callee has ended, it is what the frame goes on with.
    """

    origin: object  # ResumeOrigin of the frame's code
    place: int  # behind the call
    bound: tuple
    names: tuple
    codes: list = dataclasses.field(default_factory=list)  # that go on with a callee's rest, made so far

    def __call__(self, parts):
        from .resume_code import resume_code

        function, *arguments, result = parts
        if type(result) is not _eval_frame.Continuation:
            return _eval_frame.Continuation(parts)
        callee, *callee_arguments = result
        code, _ = resume_code(self.origin.code, self.place, self.bound, self.names, callee.__code__)
        if not any(code is known for known in self.codes):  # they compare by value
            self.codes.append(code)
        function = types.FunctionType(code, function.__globals__, None, None, function.__closure__)
        return _eval_frame.Continuation([function, *arguments, callee, tuple(callee_arguments)])
