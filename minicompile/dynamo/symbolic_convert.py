"""InstructionTranslator: runs a frame's bytecode on trackers in place of values.

Goes in: a code object and trackers of its arguments.  Comes out: an FX graph, guards and new bytecode (root frame),
or the tracker of the return value (inlined frame).  Mirrors `torch/_dynamo/symbolic_convert.py`.  Taught in chapter
03.

This file is the machine: the loop, the policy for graph breaks, exceptions, inlining.  The opcodes are one method
each in `opcodes.py`; what trackers ask of the translator is in `translator_services.py`.

The policy for breaks: `Unsupported` comes to name a step, in the innermost frame that a break can cut in two
(`nested_breaks.py`).  Capture starts again from the top of the root frame with the order to stop before that step, so
nothing ever has to be undone.
"""

import gc

from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode

from .. import config, errors
from . import polyfills
from .break_kinds import break_error
from .bytecode import decode
from .bytecode_analysis import live_sets
from .code_table import CodeTable
from .lifetimes import StackArguments, same
from .nested_breaks import breaking_frame, frames_down_to
from .opcodes import Opcodes
from .opcodes_calls import bind_arguments
from .source import AttrSource, CellSource, FunctionSource, ItemSource, LocalSource
from .translator_services import TranslatorServices
from .variables.base import LazyVariable, ObservedException, unsupported
from .variables.cells import CellVariable
from .variables.generators import GeneratorVariable, close_dropped
from .variables.overrides import existing_modes
from .variables.symbolic import refuse_question

_decoded, _live = CodeTable(), CodeTable()


def instructions_of(code):
    """The normalised instructions of a code object, decoded once, and the index of each."""
    known = _decoded.get(code)
    if known is None:
        instructions = decode(code)
        known = _decoded.set(code, (instructions, {id(instruction): k for k, instruction in enumerate(instructions)}))
    return known


def live_in(code):
    """The slots that may still be read, before each of its instructions."""
    return _live.get(code) or _live.set(code, live_sets(instructions_of(code)[0]))


class BrokenFrame(Exception):
    """Carries the new instructions of the root frame out of the frame at which the graph breaks."""

    def __init__(self, instructions):
        super().__init__()
        self.instructions = instructions


class RestartAnalysis(Exception):
    """Capture the frame again and break before the step with this number."""

    def __init__(self, step, error):
        super().__init__(step)
        self.step, self.error = step, error

    def forget_frames(self):
        """The frames it came through hold all that the program holds; the error is kept in the record."""
        for error in (self, self.error):
            error.__traceback__ = error.__context__ = error.__cause__ = None


class UnboundVariable(LazyVariable):
    """The "unbound" that LOAD_FAST_AND_CLEAR leaves on the stack for an unbound local."""

    def __init__(self):
        self.source = self.variable = None

    def realize(self):
        return self

    def __repr__(self):
        return "UnboundVariable()"


class InstructionTranslatorBase(Opcodes, TranslatorServices):
    """One frame being run: instructions, a stack of trackers, locals and cells by name."""

    def __init__(self, output, code, namespaces, globals_source, local_variables, cells, parent=None):
        """namespaces: the dicts of the function's globals and builtins."""
        self.output, self.side_effects = output, output.side_effects
        self.code, self.globals_source = code, globals_source
        self.globals_dict, self.builtins_dict = namespaces
        self.instructions, self.index_of = instructions_of(code)
        self.arguments, self.locals, self.cells = local_variables, dict(local_variables), dict(cells)
        self.stack = []
        self.pointer = 0
        self.started = False  # whether RESUME was passed: cells made before belong to the frame itself
        self.current = self.instructions[0]
        self.handling = []  # exceptions of this frame whose handlers are running
        self.raised_at = {}  # root frame: exception tracker -> step at which the frame saw it first
        self.parent = parent
        self.depth = 0 if parent is None else parent.depth + 1
        self.step_number = 0
        self.result_of, self.skipped_frames = None, ()  # see `call_directly`
        self.return_value = None
        self.yielded = None

    # --- the loop -----------------------------------------------------------------------------------
    def step(self):
        """Run one instruction.  An exception of the captured program goes to its handler, as in CPython."""
        self.current = instruction = self.instructions[self.pointer]
        self.output.steps += 1
        self.step_number = self.output.steps
        if self.output.break_at is not None and self.step_number == self.output.break_at.step:
            self.break_here()
        watch = self.output.watch
        if watch is not None:
            watch(self, instruction)
        self.pointer += 1
        self.output.current_translator = self
        method = getattr(self, instruction.opname, None)
        try:
            if method is None:
                unsupported("instruction not captured", f"the instruction {instruction.opname} is not captured")
            self.run_instruction(method, instruction)
        except ObservedException as observed:
            self.output.current_translator = self
            self.passes_through(instruction, observed)
            if not self.unwind(instruction, observed):
                raise  # here: a frame that held the exception by a name would keep all values alive in a cycle
        except errors.Unsupported as error:
            self.passes_break(error)
            raise
        if watch is not None:
            watch(self, None)
        if self.output.generators:
            close_dropped(self)

    def run_instruction(self, method, instruction):
        self.output.check_patience()
        try:
            method(instruction)
            if self.side_effects.mortals:
                self.side_effects.refuse_lost_elements()
            if self.output.stack_arguments.waiting:
                self.output.stack_arguments.refuse_lost(self)
        except GuardOnDataDependentSymNode as asked:
            refuse_question(self.output, asked.cond)

    def passes_break(self, error):
        """The graph has to break at this instruction, or at one in what it called."""
        if not self.is_polyfill():
            error.places.append(self.place())
        if error.step is None:
            frame = breaking_frame(self, error.kind)
            error.step = frame.current_step()
            error.instruction = frame.current if error.step == frame.step_number else None

    def run_until_return(self):
        while self.return_value is None and self.yielded is None:
            self.step()

    def current_step(self):
        """Where a break must come if the instruction that is running is the cause."""
        return self.step_number

    def break_here(self):
        """Make the code that runs the instruction in eager.  Raises BrokenFrame with it."""
        from .resume import compile_break

        root, cause = self.root(), self.output.break_at.error
        if self.output.break_at.step == cause.step and cause.instruction not in (None, self.current):
            raise errors.InternalError(f"captured again, {self.location()} comes where the graph broke before")
        try:
            instructions = compile_break(root, frames_down_to(self))
        except errors.Unsupported as error:
            if self is root or error.step is not None:
                raise
            raise RestartAnalysis(root.step_number, cause) from None  # the callee as a whole then
        raise BrokenFrame(instructions)

    def jump(self, target):
        source, self.pointer = self.pointer, self.index_of[id(target)]
        if self.pointer < source:
            self.output.rounds[id(target)] += 1
            if self.output.rounds[id(target)] > config.loop_limit:
                unsupported("long loop", f"a loop went round {config.loop_limit} times during capture")

    def unwind(self, instruction, observed):
        """Cut the stack and go to the handler that covers the instruction; False where there is none."""
        handler = instruction.exc
        if handler is None:
            return False
        del self.stack[handler.depth :]
        if handler.lasti:
            self.push(self.build(0))
        self.push(observed.variable)
        self.jump(handler.target)
        return True

    # --- the stack ----------------------------------------------------------------------------------
    def push(self, tracker):
        self.stack.append(tracker)

    def pop(self):
        """The top of the stack, looked at."""
        return self.stack.pop().realize()

    def pop_lazy(self):
        """The top of the stack, only moved."""
        return self.stack.pop()

    def pop_lazies(self, count):
        if count == 0:
            return []
        values = self.stack[-count:]
        del self.stack[-count:]
        return values

    # --- inlining -----------------------------------------------------------------------------------
    def root(self):
        """The translator of the frame whose bytecode is replaced."""
        return self if self.parent is None else self.parent.root()

    def inline_call(self, function, args, kwargs):
        """Run a Python function symbolically in place of calling it.  A generator function returns its generator."""
        code = function.code
        check_can_inline(self, function)
        is_direct, self.result_of = function is self.result_of, None
        arguments = bind_arguments(self, function, args, kwargs)
        child = InliningInstructionTranslator(self, function, arguments)
        if code.co_flags & 0x20:
            return GeneratorVariable(child)
        child.is_called_directly = is_direct
        return child.run()

    def call_directly(self, function, args, kwargs):
        """For an instruction that does nothing else than to push what a call of `function` returns."""
        self.result_of, self.skipped_frames = function, ()
        try:
            return function.call_function(self, args, kwargs)
        finally:
            self.result_of = None

    def hands_on(self, function, other, skipped=()):
        """A call of `function` returns what a call of `other` returns.

        skipped: the frames (SkippedFrame) between ours and the function's, of which capture makes a short cut.
        """
        if self.result_of is function:
            self.result_of, self.skipped_frames = other, (*self.skipped_frames, *skipped)

    def is_polyfill(self):
        """Whether this frame runs what stands for C code."""
        return (self.globals_dict.get("__name__") or "").startswith(polyfills.__name__)

    def place(self):
        """Where the instruction being run stands."""
        return errors.UserPlace(self.code.co_filename, self.code.co_name, (self.line(), *self.current.positions[1:]))

    def line(self):
        """The line of the instruction being run; where it has none, that of the nearest one before it."""
        if self.current.line:
            return self.current.line
        before = self.instructions[: self.instructions.index(self.current)]
        return next((i.line for i in reversed(before) if i.line), self.code.co_firstlineno)

    def location(self):
        """file:line in function, of the instruction being run."""
        return str(self.place())


NEVER_INLINED = ("logging", "threading", "multiprocessing", "unittest", "asyncio", "concurrent")
FINDERS = "<frozen importlib._bootstrap_external>"  # their caches change when the compiler itself imports something
FRAME_READERS = ("pdb", "traceback")

COMPILER_PARTS = ("dynamo", "aot", "inductor", "compiler", "backends", "record", "explain", "viz")


def check_can_inline(tx, function):
    module = (function.globals_dict.get("__name__") or "").split(".")
    if tx.depth >= config.inline_depth_limit:
        unsupported("deep recursion", f"{function.function_name} is {tx.depth} calls deep")
    if module[0] in FRAME_READERS:
        unsupported("introspection", f"{function.function_name} of module {module[0]} reads the frames that run")
    if module[0] in NEVER_INLINED:
        unsupported("function left to eager", f"{function.function_name} of module {module[0]} is left to eager")
    if function.code.co_filename == FINDERS:
        unsupported("file access", f"{function.function_name} looks for modules in files")
    if module[0] == "minicompile" and module[1] in COMPILER_PARTS and "polyfills" not in module:
        unsupported("function left to eager", f"{function.function_name} is part of minicompile itself")
    if function.code.co_flags & (0x80 | 0x200):
        unsupported("coroutine", f"{function.function_name} is asynchronous")
    if not set(function.code.co_cellvars).isdisjoint(function.code.co_freevars):
        unsupported(
            "instruction not captured", f"a comprehension in {function.function_name} takes over a free variable"
        )


class InliningInstructionTranslator(InstructionTranslatorBase):
    """A callee's frame."""

    is_called_directly = False  # the caller's instruction pushes our result as it is

    def __init__(self, parent, function, arguments):
        code = function.code
        cells = dict(zip(code.co_freevars, function.cells(parent)))
        same_globals = function.globals_dict is parent.output.function.__globals__
        source = None if same_globals else parent.globals_source_of(function.globals_dict)
        namespaces = function.globals_dict, function.builtins_dict
        super().__init__(parent.output, code, namespaces, source, arguments, cells, parent)
        self.function = function

    def run_prologue(self):
        """Up to RESUME, which makes the cells: a generator's frame does this when it is called."""
        while not self.started:
            self.step()
        self.output.current_translator = self.parent

    def run(self):
        try:
            self.run_until_return()
            return self.return_value
        finally:
            self.output.current_translator = self.parent
            self.release()

    def release(self):
        """The frame has ended: what only it held is gone."""
        self.arguments, self.locals, self.cells, self.stack, self.return_value = {}, {}, {}, [], None


class InstructionTranslator(InstructionTranslatorBase):
    """The root frame: the one whose bytecode is replaced."""

    def __init__(self, output, code, function, arguments, break_at=None, function_modes=()):
        local_variables = {name: output.lazy(value, LocalSource(name)) for name, value in arguments.items()}
        output.stack_arguments, cells = StackArguments(local_variables), {}
        for index, (name, cell) in enumerate(zip(code.co_freevars, function.__closure__ or ())):
            place = ItemSource(AttrSource(FunctionSource(), "__closure__"), index)
            cells[name] = output.remember(cell, CellVariable(frame_contents(output, cell, name), None, name, place))
        output.root_cells, output.current_translator = cells, self
        super().__init__(output, code, (function.__globals__, function.__builtins__), None, local_variables, cells)
        self.function = function
        output.break_at = break_at
        self.side_effects.function_modes = existing_modes(output, function_modes)
        self.side_effects.first_function_modes = tuple(self.side_effects.function_modes)

    def run(self):
        """Capture the frame.  Returns the new instructions; raises RestartAnalysis where the graph must break."""
        from .resume import compile_return

        try:
            self.run_until_return()
            self.locals = {n: value for n, value in self.locals.items() if value is self.arguments.get(n)}
            close_dropped(self)
            return compile_return(self)
        except BrokenFrame as broken:
            return broken.instructions
        except errors.Unsupported as error:
            if not error.places:  # the code behind the break could not be made
                error.places.append(self.place())
            raise RestartAnalysis(error.step or self.current_step(), error) from error
        except ObservedException as observed:
            error = break_error(
                "exception leaves the frame", f"the program raises {observed.variable} here, and eager shall raise it"
            )
            error.places.append(self.place())
            step = self.raised_at.get(observed.variable, self.current_step())  # a key may raise when it is put in anew
            raise RestartAnalysis(step, error) from observed

    def current_step(self):
        """Where a break must come: in a handler, before the exception was raised."""
        return self.raised_at[self.handling[0]] if self.handling else self.step_number

    def has_dropped_an_argument(self):
        """Also one that lay on the stack of a resume function."""
        held = set(map(same, (*self.stack, *self.locals.values())))
        return any(same(t) not in held and gc.is_tracked(t.value) for t in self.arguments.values())

    def unwind(self, instruction, observed):
        """One that is raised in a handler counts for the exception that brought us there: a break must come before."""
        self.raised_at.setdefault(observed.variable, self.current_step())
        return super().unwind(instruction, observed)


def frame_contents(output, cell, name):
    """The lazy contents of a free variable of the root frame; None while the cell is empty."""
    try:
        return output.lazy(cell.cell_contents, CellSource(name))
    except ValueError:
        return None
