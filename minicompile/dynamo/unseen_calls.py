"""Unseen calls: whether anybody can see when a function runs; and a call for which the frame hook has the answer.

Goes in: a function and the values that it is to be called with.  Comes out: None, or what shows when it runs.
The call is captured by itself, as the root frame of an OutputGraph of which nothing is kept.  It may compute, and make
objects and tensors; it may not raise, change what was there before, draw random numbers, do what capture cannot
follow, or look at what the program around it has changed so far.
PyTorch has no such file.  Taught in chapter 06.
"""

import dataclasses
import itertools
import types

import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from .. import errors
from . import _eval_frame
from .bytecode import CallArguments, Instruction, assemble
from .variables.base import ObservedException


class WatchingFakeMode(FakeTensorMode):
    """drew: whether an operator has drawn random numbers."""

    drew = False

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.drew |= torch.Tag.nondeterministic_seeded in func.tags
        return super().__torch_dispatch__(func, types, args, kwargs)


def call(function, args, named):
    return function(*args, **named)


def why_seen(outer, function, args, named):
    """What would show if this call were made now, in the middle of the capture `outer` (an OutputGraph), or None."""
    from .eval_frame import FrameState
    from .output_graph import OutputGraph
    from .symbolic_convert import InstructionTranslator

    if outer.side_effects.function_modes:
        return "it is called under a torch function mode"
    options = dataclasses.replace(outer.options, watch=None, dynamic=False)
    output = OutputGraph(call.__code__, call, options, FrameState(), outer.function_modes)
    output.fake_mode = WatchingFakeMode(allow_non_fake_inputs=False, shape_env=output.sizes.env)
    output.is_trial = True
    arguments = {"function": function, "args": args, "named": named}
    translator = InstructionTranslator(output, call.__code__, call, arguments)
    try:
        translator.run_until_return()
        return what_it_did(output) or what_it_saw(output, outer)
    except errors.Unsupported as error:
        return f"it breaks the graph ({error.kind})"
    except ObservedException as observed:
        return f"it raises {observed.variable.python_type().__name__}"
    finally:
        output.side_effects.restore_modes()
        output.forget_values()


def what_it_did(output):
    effects = output.side_effects
    if effects.order or effects.globals or output.changed_inputs():
        return "it changes what was there before"
    if effects.changed_modes() or effects.function_modes:
        return "it switches a mode"
    if output.draws or output.fake_mode.drew:
        return "it draws random numbers"
    return "it warns" if output.warnings else "it leaves a generator" if output.generators else None


def what_it_saw(output, outer):
    """Whether it looked at something that is changed by the program up to here."""
    effects = outer.side_effects
    changed = {id(value): value for value, tracker, _ in outer.variables_by_id.values() if tracker in effects.order}
    written = outer.changed_inputs()
    everywhere = effects.globals or any(issubclass(type(v), (type, types.ModuleType)) for v in changed.values())
    if everywhere or not changed.keys().isdisjoint(output.variables_by_id) or (written and output.tensor_inputs()):
        return "it can see what the program works on"
    return None


# --- a call that is answered ----------------------------------------------------------------------------
def answer_for(code, answer, function, args, named):
    """`function(*args, **named)`, in C, where a frame of this code does not run, but returns `answer`."""

    def answering(frame_code, *_):
        return (returning(code, answer), always) if frame_code is code else None

    def always(*_):
        return True

    if not _eval_frame.entries(code):
        _eval_frame.reset(code)  # perhaps it was to be left alone
    _eval_frame.call(answering, function, *args, **named)
    _eval_frame.invalidate(code, always)


def returning(code, answer):
    """New code for a frame of `code`."""
    from .symbolic_convert import instructions_of

    prologue = itertools.takewhile(lambda i: i.opname != "RESUME", instructions_of(code)[0])
    call = [("LOAD_CONST", lambda: answer), ("CALL", CallArguments(0)), ("RETURN_VALUE", None)]
    return assemble(
        [*prologue, Instruction("RESUME", 0), *(Instruction(name, None, value) for name, value in call)], code
    )
