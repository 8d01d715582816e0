"""From a frame to a cache entry: decides what to capture, captures it, assembles the new code, counts recompiles.

Goes in: the hook's question `(code, function, arguments)`.  Comes out: `(new code, guard)`, None (run it as it is this
time), False (never ask again) or AS_IT_IS (ask the guards that there are, and nobody else).
Mirrors `torch/_dynamo/eval_frame.py` and `convert_frame.py`.  Taught in chapter 01.
"""

import builtins
import collections
import contextlib
import dataclasses
import functools
import itertools
import sys
import threading

import torch

from .. import config, errors, record
from . import _eval_frame, builder
from .break_kinds import break_error
from .bytecode import CallArguments, Instruction, assemble
from .bytecode_analysis import format_instructions
from .code_table import CodeTable
from .distinct_objects import add_closing_guards
from .dynamic_shapes import SizeHistory
from .guard_reports import recompile_reason
from .guards import GuardSet, frame_arguments
from .output_graph import OutputGraph
from .resume_code import resumes_in_loop
from .skip_files import TORCH_FOLDER, concerns_tensors, is_generated_for_skipped, never_capture
from .symbolic_convert import InstructionTranslator, RestartAnalysis, instructions_of
from .variables.overrides import FunctionModesOff
from .variables.varying import add_varying

builder.load_all()
record.at_end_of_call = _eval_frame.at_end


@dataclasses.dataclass(frozen=True)
class CompileOptions:
    """What `compile()` was asked for; frames compiled under other options are other cache entries."""

    backend: object
    backend_name: str
    fullgraph: bool = False
    dynamic: bool | None = None
    settings: tuple = ()  # (name, value) of config, while the backend compiles
    watch: object = None  # watch(translator, instruction) before each captured instruction; with None after it
    explained: object = None  # a mark: this call compiles everything anew, also what the cache has

    @property
    def shared(self):
        """The options under which later calls look for what was compiled."""
        return self if self.explained is None else dataclasses.replace(self, explained=None)


@dataclasses.dataclass
class Capture:
    """What capture made of one frame: the record's artifact of the stage "capture"."""

    code: object
    graph_module: object  # FX graph, or None where the frame had no operations before it ended or broke
    guards: object
    instructions: list
    break_error: errors.Unsupported | None

    def __repr__(self):
        graph = self.graph_module.code.strip() if self.graph_module is not None else "no graph"
        error = self.break_error
        broke = f"\ngraph break: {error.kind}, at {error.user_location}" if error is not None else ""
        return f"capture of {self.code.co_qualname}\n{graph}\nguards:\n{self.guards!r}{broke}"

    @property
    def bytecode(self):
        return format_instructions(self.instructions)


# --- which frames ---------------------------------------------------------------------------------------
def is_our_graph(arguments):
    """A backward graph, which autograd runs while the program is inside a compiled region."""
    return arguments and issubclass(type(arguments[0]), torch.fx.GraphModule) and "minicompile" in arguments[0].meta


# --- one frame ------------------------------------------------------------------------------------------
class FrameState:
    """What is remembered for each code object: its guard functions (for failure reports) and how often it compiled."""

    def __init__(self):
        self.compiled = []  # [(CompileOptions, guard check)], oldest first
        self.history = []  # texts of recompile reasons
        self.varying = {}  # source -> None: what changed between the rounds of a loop
        self.sizes = collections.defaultdict(SizeHistory)  # for each CompileOptions


AS_IT_IS = None, False  # what the hook remembers: without a guard that holds, run the frame as it is
frame_states = CodeTable()
_lock = threading.RLock()


def leave_frame(function):
    """`torch.compiler.disable(recursive=False)`: this frame is left alone, or the one that it wraps, and no other."""
    if not hasattr(function, "_torchdynamo_orig_callable"):
        return False
    wrapped = function._torchdynamo_orig_callable
    if hasattr(wrapped, "__code__"):
        _eval_frame.skip(wrapped.__code__)
    return None  # all wrappers have the same code: the next one is to be asked, too


def convert_frame(options, code, function, arguments):
    """The hook's callback, bound to `options`."""
    if builtins_were_replaced() or type(function.__globals__) is not dict:
        return None
    if code.co_qualname == TORCH_DISABLED and code.co_filename.startswith(TORCH_FOLDER):
        return call_with_hook_off(code), lambda *frame: True
    if getattr(function, "_torchdynamo_disable", False):
        return leave_frame(function)
    if never_capture(code) or is_generated_for_skipped(code, function) or is_our_graph(arguments):
        return False
    if torch.compiler.is_compiling() or torch._C._len_torch_dispatch_stack():
        return None  # another compiler is tracing us, or a dispatch mode is to see the operations one by one
    if torch._C._functorch.peek_interpreter_stack() is not None or torch.autograd.forward_ad._current_level >= 0:
        return None  # a function transform that was left to eager; or tensors that may have tangents
    if not concerns_tensors(code, function, arguments):
        return None
    with _lock:
        state = frame_states.get(code) or frame_states.set(code, FrameState())
        known = [check for known_options, check in state.compiled if known_options == options.shared]
        fitting = next((check for check in known if check(function, *arguments)), None)
        if fitting is not None and options.explained is None:  # another thread compiled it while this one waited
            entries = _eval_frame.entries(code)
            return next(((new_code, check) for check, new_code in entries if check is fitting), None)
        why = recompile_reason(known, function, arguments) if fitting is None else None
        if known and resumes_in_loop(code):
            add_varying(state.varying, known[-1].guards.failures(function, arguments))
        if len(known) >= config.recompile_limit and fitting is None:
            warn_limit(code, why)
            return AS_IT_IS
        with record.compilation(code.co_qualname, f"{code.co_filename}:{code.co_firstlineno}") as entry:
            if why is not None:
                entry.recompile_reason = reason = str(why)
                state.history.append(reason)
                record.counters["recompiles"] += 1
                record.log("recompiles", "%s recompiles: %s", code.co_qualname, reason)
            compiled = compile_frame(options, code, function, arguments, state, entry)
            if compiled is not None and fitting is None:
                state.compiled.append((options.shared, compiled[1]))
            return compiled


REPLACEABLE = {"_", "breakpoint", "copyright", "credits", "exit", "help", "input", "license", "open", "print", "quit"}
OWN_BUILTINS = {name: value for name, value in vars(builtins).items() if name not in REPLACEABLE}


BUILTINS_NOW = vars(builtins)


def builtins_were_replaced(now=BUILTINS_NOW, own=OWN_BUILTINS):
    """Whether `builtins.len` or its like is another one now: the compiler itself cannot work then."""
    for name in now:
        if type(name) is not str:  # its `==` may do anything
            return True
    for name in own:
        if name not in now or now[name] is not own[name]:
            return True
    return False


TORCH_DISABLED = "DisableContext.__call__.<locals>._fn"  # what `torch.compiler.disable(fn)` returns


def call_with_hook_off(code):
    """For the frame of such a wrapper: nothing is captured in the function behind it, which checkpoint relies on."""
    prologue = itertools.takewhile(lambda i: i.opname != "RESUME", instructions_of(code)[0])
    call = [("LOAD_CONST", run_disabled), ("LOAD_DEREF", "fn"), ("LOAD_FAST", "args"), ("LOAD_FAST", "kwargs")]
    return assemble(
        [
            *prologue,
            Instruction("RESUME", 0),
            *(Instruction(opname, None, value) for opname, value in call),
            Instruction("CALL", None, CallArguments(3)),
            Instruction("RETURN_VALUE"),
        ],
        code,
    )


@contextlib.contextmanager
def recursion_limit(limit):
    """At least this limit: a call that is inlined takes the translator some ten Python calls."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(max(before, limit))
    try:
        yield
    finally:
        sys.setrecursionlimit(before)


@contextlib.contextmanager
def saving_hooks_off():
    """Inside, no `saved_tensors_hooks` of the caller: they are for what compiled code saves, not for fakes."""
    hooks, autograd = [], torch._C._autograd
    while (top := autograd._top_saved_tensors_default_hooks(True)) is not None:
        autograd._pop_saved_tensors_default_hooks()
        hooks.append(top)
    try:
        yield
    finally:
        for pack, unpack in reversed(hooks):
            autograd._push_saved_tensors_default_hooks(pack, unpack)


CAPTURE_RECURSION_LIMIT = 10_000


def compile_frame(options, code, function, arguments, state, entry, again=False):
    try:
        with record.stage("capture") as snapshot:
            with recursion_limit(CAPTURE_RECURSION_LIMIT), saving_hooks_off(), FunctionModesOff() as function_modes:
                capture = capture_frame(options, code, function, arguments, state, function_modes)
            snapshot.artifact = capture
        new_code = assemble(capture.instructions, code)
    except OnlyError as only:
        raise only.error from None
    except errors.ConstraintViolated:
        raise
    except errors.MinicompileError as error:
        if options.fullgraph or (config.strict and not isinstance(error, errors.Unsupported)):
            raise
        note_break(entry, error)
        return None
    except RecursionError:
        error = break_error("deep recursion", f"Python's recursion limit ended the capture of {code.co_qualname}")
        if options.fullgraph:
            raise error from None
        note_break(entry, error)
        return None
    except Exception as error:  # a bug of ours: eager is still right
        where = f"{code.co_filename}:{code.co_firstlineno} in {code.co_name}"
        message = f"internal error while capturing {where}: {type(error).__name__}: {error}"
        if config.strict or options.fullgraph:
            raise errors.InternalError(message) from error
        record.warn_once(message + "; it runs in eager")
        return None
    guard = capture.guards.build(code)
    check = guard.check
    check.guards = guard
    if not check(function, *arguments):
        if not again:  # what capture imports, for the first time in a process, can change what it has looked at
            return compile_frame(options, code, function, arguments, state, entry, again=True)
        failure = str(guard.first_failure(function, arguments))[:500]
        message = f"a guard does not hold when it is made, so it never will: {failure}"
        if config.strict:
            raise errors.InternalError(message)
        record.warn_once(message)
    if capture.break_error is not None:
        note_break(entry, capture.break_error)
    record.log("guards", "%s\n%s", code.co_qualname, capture.guards)
    if "bytecode" in config.logs:  # a listing takes longer than the assembler
        record.log("bytecode", "%s\n%s", code.co_qualname, capture.bytecode)
    return new_code, check


ENTRY_ONLY = ("exception leaves the frame", "cached function")  # kinds of breaks that may be gone at another call


def capture_frame(options, code, function, arguments, state, function_modes):
    """Run the translator over the frame, again after each `RestartAnalysis`.  Returns a Capture."""
    named = dict(zip(frame_arguments(code), arguments))
    break_at, attempts, carried = None, 0, GuardSet(function_modes.ambient)
    while True:
        output = OutputGraph(code, function, options, state, function_modes)
        translator = InstructionTranslator(output, code, function, named, break_at, function_modes.stack)
        try:
            instructions = translator.run()
        except RestartAnalysis as restart:
            if restart.error.kind in ENTRY_ONLY:  # what it took to come there holds for this entry
                carried = output.guards
            attempts += 1
            if options.fullgraph:
                raise OnlyError(original_error(translator, restart)) from None
            restart.forget_frames()
            if break_at is not None and restart.step >= break_at.step or attempts > 3:
                raise restart.error from None
            break_at = restart
            continue
        else:
            add_closing_guards(output)
            output.guards.include(carried)
        finally:
            output.side_effects.restore_modes()
            output.forget_values()
        error = break_at.error if break_at is not None else None
        return Capture(code, output.graph_module, output.guards, instructions, error)


class OnlyError(Exception):
    """Carries what fullgraph=True raises past the handlers of what goes wrong in capture itself."""

    def __init__(self, error):
        super().__init__(str(error))
        self.error = error


def original_error(translator, restart):
    """With fullgraph=True: the exception that the user's own operation raised, or else Unsupported."""
    if restart.error.kind == "operator raised" and translator.output.operator_error is not None:
        translator.output.operator_error.add_note(f"raised while capturing {restart.error.user_location}")
        return translator.output.operator_error
    return restart.error


def note_break(entry, error):
    """Count a graph break once, with its reason.  The record keeps it, but not the frames that it came through."""
    error.__traceback__ = error.__context__ = error.__cause__ = None
    entry.breaks.append(error)
    kind = getattr(error, "kind", type(error).__name__)
    record.counters["graph_breaks"] += 1
    record.break_reasons[kind] += 1
    record.log("graph_breaks", "%s", error)


def warn_limit(code, why):
    _, newest = why.failures[0]
    record.warn_once(
        f"{code.co_qualname} ({code.co_filename}:{code.co_firstlineno}) was compiled {config.recompile_limit} times; "
        f"from now on it runs in eager where none of these fits. The guard that kept failing: {newest}. "
        f"What helps: {newest.mend}; or raise minicompile.config.recompile_limit."
    )


# --- entering compiled regions --------------------------------------------------------------------------
@functools.cache
def callback_for(options):
    return functools.partial(convert_frame, options)


def forced_to_eager(modules=sys.modules):
    """Whether `torch.compiler.set_stance("force_eager")` holds: torch keeps it in a module that it imports for that."""
    return "torch._dynamo.eval_frame" in modules and modules["torch._dynamo.eval_frame"]._stance.stance == "force_eager"


call_with_hook = _eval_frame.call  # (callback or None, function, *args, **kwargs)


def run_compiled(options, function, args, kwargs):
    """Call `function` with the hook on."""
    return call_with_hook(callback_for(options), function, *args, **kwargs)


def run_disabled(function, args, kwargs):
    """Call `function` with the hook off."""
    return _eval_frame.call(None, function, *args, **kwargs)


def reset():
    """Forget every compiled frame."""
    for code in frame_states.codes():
        _eval_frame.reset(code)
    frame_states.clear()
