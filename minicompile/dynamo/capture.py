"""capture(fn, *args): dynamo by itself, for notebooks and tests.

Goes in: a function and example arguments.  Comes out: what capture made of the frame and of each resume function, with
graphs, guards, breaks and new bytecode.  Mirrors `torch._dynamo.explain`.  Taught in chapters 03 to 05.
"""

import dataclasses
import time

from .. import record
from .eval_frame import CompileOptions, FrameState, run_compiled
from .output_graph import OutputGraph
from .symbolic_convert import InstructionTranslator
from .variables.overrides import FunctionModesOff


@dataclasses.dataclass
class CapturedFunction:
    """`frames`: a Capture for each frame: the function's own, then its resume functions in the order they ran."""

    result: object
    frames: list
    breaks: list

    @property
    def graphs(self):
        """The FX GraphModules, one for each frame that had operations."""
        return [frame.graph_module for frame in self.frames if frame.graph_module is not None]

    @property
    def guards(self):
        """The GuardSets, one for each frame."""
        return [frame.guards for frame in self.frames]

    @property
    def bytecode(self):
        """{qualified name: listing of the new bytecode}."""
        return {frame.code.co_qualname: frame.bytecode for frame in self.frames}

    def __repr__(self):
        parts = [f"{len(self.graphs)} graphs, {len(self.breaks)} graph breaks"]
        parts += [f"break {k}: {error}" for k, error in enumerate(self.breaks, 1)]
        return "\n\n".join([*parts, *map(repr, self.frames)])


def capture(fn, *args, **kwargs):
    """Run `fn(*args, **kwargs)` captured, with graphs run by eager.  Nothing of it stays in the cache of `fn`.

    Raises what `fn` raises.
    """
    options = CompileOptions(lambda gm, example_inputs: gm.forward, "eager")
    start = time.perf_counter()
    result = run_compiled(options, fn, args, kwargs)
    entries = record.since(start)
    frames = [artifact for entry in entries for artifact in entry.artifacts("capture") if artifact is not None]
    return CapturedFunction(result, frames, [error for entry in entries for error in entry.breaks])


def translator_of(fn, **arguments):
    """The translator of `fn`'s frame before its first instruction, to be driven by hand: `tx.step()`."""
    options = CompileOptions(lambda gm, example_inputs: gm.forward, "eager")
    output = OutputGraph(fn.__code__, fn, options, FrameState(), FunctionModesOff())
    return InstructionTranslator(output, fn.__code__, fn, arguments)
