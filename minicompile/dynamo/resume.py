"""Graph breaks: the new bytecode of a frame, and the resume functions that go on behind a break.

Goes in: the translator at a return, or before the instruction that cannot be captured.
Comes out: new code: graph call -> stack and locals again -> side effects -> the one instruction in eager -> a call of
the resume function, which is an ordinary function that the hook captures in its turn. Mirrors
`torch/_dynamo/resume_execution.py` and `output_graph.py`.  Taught in chapter 05.

Resume functions do not nest: a frame that breaks returns a `Continuation`, [resume function, *arguments], and the frame
hook calls that in the frame's place: whoever looks at the stack sees one frame of the user's function, as in eager.
"""

import functools
import traceback

import torch

from .. import config, record
from . import _eval_frame, lifetimes
from .bytecode import CallArguments, ExceptionHandler, Instruction
from .bytecode_analysis import copy_instructions, placed_at, prologue_length, reachable, stack_effect
from .codegen import PyCodegen
from .guards import frame_arguments
from .nested_breaks import CallerContinuation, emit_call, may_be_missed
from .resume_code import PIECE, last_loads, looks_at_own_frame, origin_of, piece_code, resume_code, resumes_in_loop
from .symbolic_convert import RestartAnalysis, UnboundVariable, live_in
from .variables.base import LazyVariable
from .variables.generators import GeneratorVariable

hooks_of_saved = torch._C._autograd._top_saved_tensors_default_hooks


def prologue_of(tx):
    return [instruction.copy() for instruction in tx.instructions[: prologue_length(tx.instructions)]]


def finish(tx, codegen):
    """Replay the side effects, and put the compiled graph's call in front of all that was emitted.

    Returns what belongs at the end of the code: where an exception from the graph goes.
    """
    output = tx.output
    if output.assumed is not None and output.changed_inputs():  # the frame could not run again
        raise RestartAnalysis(*output.assumed)
    tx.side_effects.replay(codegen)
    codegen.fill_new_objects()
    draws, call = codegen.draws(output.draws), codegen.warnings(output.warnings)
    if not output.has_operations():
        codegen.instructions[:0] = draws + call
        return []
    compiled, inputs = output.compile_graph(codegen.graph_outputs)
    call += codegen.graph_call(compiled, inputs)
    changed = output.changed_inputs()
    without_version = [i for i in changed if output.has_no_version(i) or i.source.parent in output.array_sources]
    if without_version and not output.undoes:
        codegen.instructions[:0] = draws + call
        return []
    changed = [graph_input for graph_input in changed if graph_input not in without_version]
    before = _versions(tx, changed)
    before.store_fast("__versions")
    if draws:
        before.generator_states(output.draws)
        before.store_fast("__states")
    codegen.instructions[:0] = before.instructions + draws + call
    return _run_in_eager_after_error(tx, call, changed)


def _versions(tx, inputs):
    """Code that pushes how often each of these tensors was changed."""
    codegen = PyCodegen(tx.output, tx.code)
    for graph_input in inputs:
        codegen.load_source(graph_input.source)
        codegen.load_attr("_version")
    codegen.build_tuple(len(inputs))
    return codegen


def _run_in_eager_after_error(tx, call, changed):
    """A graph that raises (a division by zero, an index out of bounds) before it changed anything: the frame starts
    again in eager, so that the exception comes from the user's line and meets the user's handlers."""
    original = copy_instructions(tx.instructions)
    handler = PyCodegen(tx.output, tx.code)
    handler.emit("PUSH_EXC_INFO")
    handler.store_fast("__error")
    handler.load_const(note_graph_error)
    handler.load_fast("__error")
    handler.load_fast("__versions")
    handler.instructions += _versions(tx, changed).instructions
    handler.call_function(3)
    handler.store_fast("__error")
    handler.set_generator_states(tx.output.draws, "__states")
    cleanup = [Instruction("COPY", 3), Instruction("POP_EXCEPT"), Instruction("RERAISE", 1)]
    for instruction in handler.instructions[1:]:  # if it raises, the caller handles again what it handled before
        instruction.exc = ExceptionHandler(cleanup[0], 1, True)
    handler.emit("POP_EXCEPT")
    handler.emit("JUMP", original[prologue_length(original)])
    handler.instructions += cleanup
    for instruction in call:
        if instruction.opname == "CALL":
            instruction.exc = ExceptionHandler(handler.instructions[0], 0)
    return placed_at(reachable(handler.instructions + original), tx.instructions[0].positions)


OUR_MISTAKES = (NameError, TypeError, AttributeError, AssertionError)  # no operator raises these for its data


def note_graph_error(error, versions_before, versions):
    """Count that a graph raised.  Interpreter stops are not for eager to repeat, nor (strict) mistakes of ours, nor
    what was done already."""
    if not isinstance(error, Exception) or (config.strict and isinstance(error, OUR_MISTAKES)):
        raise error
    if versions != versions_before or came_from_hook(error):
        raise error
    if isinstance(error, OUR_MISTAKES):
        record.warn_once(f"internal error in a compiled graph: {type(error).__name__}: {error}; it runs in eager")
    record.counters["graph_errors"] += 1


def came_from_hook(error):
    """Did the program's hook for what autograd saves raise it?  So checkpoint stops when it has what it needs."""
    code = getattr((hooks_of_saved(True) or (None,))[0], "__code__", None)
    return code is not None and any(frame.f_code is code for frame, _ in traceback.walk_tb(error.__traceback__))


def compile_return(tx):
    """The whole rest of the frame was captured: graph, side effects, return value."""
    codegen = PyCodegen(tx.output, tx.code)
    for cell in tx.cells.values():
        if cell.frame_name in tx.code.co_cellvars:
            tx.side_effects.ends_with_frame(cell)
    codegen(tx.return_value)
    error_path = finish(tx, codegen)
    codegen.emit("RETURN_VALUE")
    return prologue_of(tx) + placed_at(codegen.instructions, tx.current.positions) + error_path


def compile_break(tx, frames):
    """Code for the root frame `tx` if the graph breaks in the last of `frames`, each of which calls the next."""
    codegen = PyCodegen(tx.output, tx.code)
    instruction, callees = tx.current, frames[1:]
    for tracker in tx.stack:
        if isinstance(tracker, UnboundVariable):
            codegen.emit("LOAD_FAST_AND_CLEAR", "__unbound")
        else:
            codegen(tracker)
    names = names_kept(tx)
    for name in names:
        codegen(tx.locals[name])
    if callees:
        emit_call(codegen, callees, functools.partial(_piece_of_callee, tx))
    for cell in tx.cells.values():
        if cell.frame_name is not None and tx.side_effects.load_cell(cell) is not None:
            codegen.save(cell)
    error_path = finish(tx, codegen)
    ours = {i.argval: None for i in codegen.instructions if i.opname == "STORE_FAST"}
    if callees:
        codegen.store_fast(PIECE)
    for name in reversed(names):
        codegen.store_fast(name)
    for name in (*frame_arguments(tx.code), *ours):  # the program has dropped these
        if name not in names and name not in tx.code.co_cellvars:
            codegen.delete_fast(name)
    tail = _tail(tx, tx, bool(callees))
    return prologue_of(tx) + placed_at(codegen.instructions, instruction.positions) + tail + error_path


def _piece_of_callee(tx, frame, is_caller):
    """What a callee's frame does at the break: names of its locals, which stack values are bound, and the code."""
    names, bound = tuple(names_kept(frame)), _bound(frame)
    code = piece_code(frame.code, bound, names, is_caller, _tail(tx, frame, is_caller))
    _eval_frame.skip(code)
    return names, bound, code


def _bound(frame):
    return tuple(not isinstance(tracker, UnboundVariable) for tracker in frame.stack)


SHOW_LOCALS = {"exception leaves the frame", "operator raised", "introspection"}  # a traceback has them all


def names_kept(tx, number=None):
    """The locals needed from this instruction on, and those that hold an object whose death the program might see."""
    number = tx.index_of[id(tx.current)] if number is None else number
    live, order = live_in(tx.code)[number], {name: k for k, name in enumerate(tx.code.co_varnames)}
    own = sorted(tx.locals, key=order.get)
    if looks_at_own_frame(tx.code) or (own and tx.output.break_at.error.kind in SHOW_LOCALS):
        return own
    first = tx.code.co_varnames[:1] if "__class__" in tx.code.co_freevars else ()  # super() reads the first argument
    made_here = [tracker for tracker in tx.stack if not isinstance(tracker, LazyVariable)]
    handed_on = [tracker for tracker in made_here if not tracker.is_immutable()]  # `weakref.ref(made_here)`
    kept = {name for name in own if is_mortal(tx.locals[name]) or tx.locals[name] in handed_on}
    return [name for name in own if name in live or name in first or name in kept]


def is_mortal(tracker):
    if isinstance(tracker, GeneratorVariable):
        return not tracker.finished
    if isinstance(tracker, LazyVariable):
        return tracker.source is not None and may_be_missed(tracker.value)
    return tracker.source is None and any(map(lifetimes.is_mortal, tracker.children()))


def _tail(tx, frame, is_caller):
    """What a frame does at the break: its instruction, then a call of the resume function for each way it can go on.

    is_caller: the instruction is a call of a frame that goes on too.
    """
    instruction, origin = frame.current, origin_of(frame.code)
    number = frame.index_of[id(instruction)]
    everything = copy_instructions(frame.instructions)
    eager = everything[number].copy()  # `everything` keeps its own, for a handler that loops back to it
    bound = _bound(frame)
    if is_caller:
        place, names = origin.places[number] + 1, tuple(names_kept(frame))  # a handler may read them yet
        eager.opname, eager.arg, eager.argval = "CALL", None, CallArguments(2)
        body = [Instruction("LOAD_CONST", None, _eval_frame.call_piece), *last_loads([PIECE])]
        body += [Instruction("LOAD_CONST", None, torch.Tensor), eager]
        body += _call_resume(tx, origin, place, (*bound, True), names, CallerContinuation(origin, place, bound, names))
    else:
        body = [eager, *_ways_on(tx, frame, eager, everything, number, bound, origin)]
    placed_at(body, instruction.positions)
    handlers = _handler_copy(everything, eager) if eager.exc is not None else []
    return body + handlers


def _ways_on(tx, frame, eager, everything, number, bound, origin):
    instruction, body, fall_through = frame.current, [], number + 1
    if not instruction.is_terminal:
        effect = stack_effect(instruction)
        after = _depth(instruction, bound, (*bound[: len(bound) + min(effect, 0)], *[True] * max(effect, 0)))
        if everything[fall_through].opname == "POP_TOP":  # what nobody wants dies at once
            body.append(everything[fall_through].copy())
            body[0].exc = None
            fall_through, after = fall_through + 1, after[:-1]
        unbinds = instruction.opname == "DELETE_FAST" or instruction.opname == "STORE_FAST" and not bound[-1]
        gone = instruction.argval if unbinds else None  # a comprehension ends: its variable is unbound again
        fall_through = past_jumps(frame, fall_through)
        names = tuple(name for name in names_kept(frame, fall_through) if name != gone)
        body += _call_resume(tx, origin, origin.places[fall_through], after, names)
    if instruction.is_jump:
        effect = stack_effect(instruction, jump=True)
        target = past_jumps(frame, frame.index_of[id(instruction.argval)])
        after = (*bound[: len(bound) + min(effect, 0)], *[True] * max(effect, 0))
        stub = _call_resume(tx, origin, origin.places[target], after, tuple(names_kept(frame, target)))
        eager.argval = stub[0]
        body += stub
    return body


def past_jumps(frame, number):
    """Where an instruction leads that only jumps: from 3.12 on, the last line of a loop jumps to its first."""
    seen = set()
    while frame.instructions[number].opname == "JUMP" and number not in seen:
        seen.add(number)
        number = frame.index_of[id(frame.instructions[number].argval)]
    return number


def _depth(instruction, bound, after):
    """The stack behind an instruction; SWAP and COPY may move an "unbound"."""
    if instruction.opname == "SWAP":
        swapped = list(bound)
        swapped[-1], swapped[-instruction.arg] = swapped[-instruction.arg], swapped[-1]
        return tuple(swapped)
    return (*bound, bound[-instruction.arg]) if instruction.opname == "COPY" else after


def _handler_copy(everything, eager):
    """The original handlers (and all they can reach), for an exception that the eager instruction raises."""
    start = [Instruction("JUMP", None, eager.exc.target)]
    keep = reachable(start + everything)
    return [instruction for instruction in keep if instruction is not start[0]]


def _call_resume(tx, origin, place, bound, names, make=_eval_frame.Continuation):
    """Store the stack, and return what goes on at this place with stack and locals.

    make: called with the list of the resume function and its arguments; what it returns the frame returns.
    """
    code, arguments = resume_code(origin.code, place, bound, names)
    if tx.output.break_at.error.kind == "long loop" and resumes_in_loop(code):  # it would break at every turn
        _eval_frame.skip(code)
    codegen = PyCodegen(tx.output, tx.code)
    for k in reversed(range(len(bound))):
        codegen.store_fast(f"__stack_{k}")
    codegen.load_const(make)
    shows_locals = bool(looks_at_own_frame(origin.code))
    if shows_locals:
        codegen.load_const(_eval_frame.keep_locals)
    for name in code.co_freevars:
        codegen.emit("LOAD_CLOSURE", name)
    if code.co_freevars:
        codegen.build_tuple(len(code.co_freevars))
    codegen.load_const(code)
    codegen.emit("MAKE_FUNCTION", arg=8 if code.co_freevars else 0)
    if shows_locals:
        codegen.call_function(1)
    codegen.instructions += last_loads(arguments)
    codegen.build_list(1 + len(arguments))
    codegen.call_function(1)
    codegen.emit("RETURN_VALUE")
    return codegen.instructions
