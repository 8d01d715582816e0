"""Generators made during capture: a translator that stops at each YIELD_VALUE and goes on when asked.

Goes in: a call of a generator function.  Comes out: `next`, `send`, `throw` and `close`, as lazy as Python's own.
Mirrors `torch/_dynamo/variables/functions.py` (LocalGeneratorObjectVariable).  Taught in chapter 06.
"""

import sys
import types

from .. import _eval_frame
from ..break_kinds import break_error
from ..builder import wraps
from ..nested_breaks import step_to_break_at
from ..source import AttrSource, CallSource, FunctionSource, ItemSource
from .base import ObservedException, VariableTracker, type_name, unsupported
from .constant import NONE
from .functions import NestedFunctionVariable
from .objects import wrap_object


class GeneratorVariable(VariableTracker):
    """frame: the callee's translator, not started, suspended at a yield, or finished; None of one that was found so."""

    cls = types.GeneratorType
    has_identity = True

    def __init__(self, frame, source=None):
        super().__init__(source)
        self.frame = frame
        self.finished, self.running = frame is None, False
        self.started = self.finished or frame.started  # an existing one may be under way
        if not self.started:
            frame.run_prologue()
        if source is None:
            frame.output.generators.append(self)
            self.names = names_of(frame.function, frame.side_effects)

    def var_getattr(self, tx, name):
        if not hasattr(types.GeneratorType, name):
            tx.raise_observed(AttributeError, f"'generator' object has no attribute '{name}'")
        return super().var_getattr(tx, name)

    def iterate(self, tx):
        return self

    def next(self, tx):
        return self.send(tx, tx.build(None))

    method___iter__, method___next__ = iterate, next

    def send(self, tx, value):
        """Run to the next yield.  The frame's stack gets `value` as the result of the yield it stands at."""
        self.check_not_running(tx)
        if self.finished:
            tx.raise_observed(StopIteration)
        if not self.started:
            if not tx.is_none(value):
                tx.raise_observed(TypeError, "can't send non-None value to a just-started generator")
        else:
            self.frame.push(value)
        return self.resume(tx)

    def check_not_running(self, tx):
        if self.running:
            tx.raise_observed(ValueError, "generator already executing")

    def resume(self, tx, thrown=()):
        """thrown: the arguments of `throw`."""
        frame = self.frame
        self.check_not_running(tx)
        tx.side_effects.mutated(self)
        frame.parent, frame.depth = tx, tx.depth + 1
        self.started, self.running, frame.yielded = True, True, None
        try:
            if thrown:
                self.throw_inside(*thrown)
            frame.run_until_return()
        except ObservedException as observed:
            self.finished = True
            if tx.exception_matches(observed, StopIteration):
                self.stop_iteration_inside(tx, observed)
            raise
        finally:
            self.running = False
            tx.output.current_translator = tx
        if frame.yielded is not None:
            if frame.handling:
                self.resumed_at = step_to_break_at(tx)
            return frame.yielded
        self.finished = True
        none = tx.is_none(frame.return_value.realize())
        tx.raise_observed(StopIteration, *([] if none else [frame.return_value]))

    def throw_inside(self, kind, *rest):
        """The exception comes to the iterator that a `yield from` stands at, if that can take it, or to the yield."""
        frame, inner = self.frame, self.delegate()
        cls = kind.python_type()
        is_exit = issubclass(kind.as_python_constant() if issubclass(cls, type) else cls, GeneratorExit)
        name, arguments = ("close", []) if is_exit else ("throw", [kind, *rest])
        try:
            if inner is not None and frame.truth(frame.call(hasattr, inner, frame.build(name))):
                result = inner.call_method(frame, name, arguments, {})
                if not is_exit:
                    frame.yielded = result
                    return
            thrown = exception_thrown(frame, kind, *rest)
        except ObservedException as raised:
            if frame.exception_matches(raised, StopIteration) and not is_exit:
                return frame.end_of_send(frame.send_before(frame.current), raised)
            thrown = raised
        if frame.handling:
            frame.set_context(thrown.variable)
        frame.push(frame.build(None))  # as the value that the yield gets
        frame.passes_through(frame.current, thrown)
        if not frame.unwind(frame.current, thrown):
            try:
                raise thrown
            finally:
                del thrown  # it knows this frame, which would keep it alive

    def delegate(self):
        """What `yield from` runs through, where the generator stands at one."""
        return None if self.frame.send_before(self.frame.current) is None else self.frame.stack[-1].realize()

    def stop_iteration_inside(self, tx, observed):
        """PEP 479: StopIteration that leaves a generator's body is a RuntimeError."""
        try:
            tx.raise_observed(RuntimeError, "generator raised StopIteration")
        except ObservedException as wrapped:
            wrapped.variable.set_context(tx, "__cause__", observed.variable)
            wrapped.variable.set_context(tx, "__context__", observed.variable)
            wrapped.has_context = True
            raise

    # --- methods ------------------------------------------------------------------------------------

    def end_at_once(self, tx):
        if not self.finished:
            tx.side_effects.mutated(self)
            self.finished = True

    def method_send(self, tx, value):
        return self.send(tx, value.realize())

    def method_throw(self, tx, kind, *rest):
        thrown = [kind.realize(), *rest]
        if self.finished or not self.started:
            self.end_at_once(tx)
            raise exception_thrown(tx, *thrown)
        return self.resume(tx, thrown)

    def method_close(self, tx):
        if self.finished or not self.started:
            self.end_at_once(tx)
            return tx.build(None)
        exit_ = tx.build(GeneratorExit).call_function(tx, [], {}).realize()
        try:
            self.resume(tx, [exit_])
        except ObservedException as observed:
            if tx.exception_matches(observed, StopIteration):
                return observed.variable.var_getattr(tx, "value") if CLOSE_RETURNS else tx.build(None)
            if tx.exception_matches(observed, GeneratorExit):
                return tx.build(None)
            raise
        tx.raise_observed(RuntimeError, "generator ignored GeneratorExit")

    def reconstruct(self, codegen):
        from ..resume_code import emit_suspended_generator

        if self.finished:
            return codegen.call(exhausted_generator, self.frame.code, self.names)
        self.refuse_handling()
        emit_suspended_generator(codegen, self.frame, self.started, self.names)

    def refuse_handling(self):
        """In an exception handler there is no going on: then the break comes before it went there, in eager."""
        if self.frame.handling:
            error = break_error("value across a break", "a generator stands in an exception handler at the break")
            error.step = self.resumed_at
            raise error

    # --- one that a graph break left behind ---------------------------------------------------------
    def slots(self):
        """What its frame holds, as CPython lays it out; None where nothing is."""
        frame, code = self.frame, self.frame.code
        return [*map(frame.locals.get, code.co_varnames), *map(frame.cells.get, code.co_freevars), *frame.stack]

    def children(self):
        return () if self.source is None or self.finished else [value for value in self.slots() if value is not None]

    def replay(self, codegen):
        """Move the real one to where the translator of its frame stands."""
        if self.finished:
            return codegen.run(_eval_frame.end_generator, self)
        self.refuse_handling()
        codegen.run(_eval_frame.move_generator, self, place_of(self.frame, self.slots()), self.slots())

    def __repr__(self):
        return f"GeneratorVariable({self.frame and self.frame.code.co_qualname})"


def exception_thrown(tx, kind, value=None, traceback=None):
    """For the arguments of `throw`.  It gets no context: nobody raises it."""
    thrown = (kind if value is None else value).realize()
    wrong = "exceptions must be classes or instances deriving from BaseException, not "
    observed = ObservedException(tx.exception_instance(thrown, wrong + type_name(thrown.python_type())))
    observed.has_context = True
    return observed


CLOSE_RETURNS = sys.version_info >= (3, 13)  # what the generator returns
NAMES = ("__name__", "__qualname__")


def names_of(function, effects):
    """The names of a function as they are now: its generators take them over."""
    pending, existing = effects.pending_attributes(function), getattr(function, "value", None)
    own = (function.code.co_name, function.code.co_qualname)
    if existing is not None:
        own = (existing.__name__, existing.__qualname__)
    return tuple(pending[n].as_python_constant() if n in pending else old for n, old in zip(NAMES, own))


def close_dropped(tx):
    """CPython closes a generator when nobody holds it any more.  Who holds its tracker here, holds it there."""
    generators, k = tx.output.generators, 0
    while k < len(generators):
        if k == 0:
            tx.side_effects.forget_dead()
        if not generators[k].finished and sys.getrefcount(generators[k]) != NOBODY_ELSE:
            k += 1
            continue
        generator, k = generators.pop(k), 0  # what it held may be gone too
        if not generator.finished and generator.started and generator.frame.current.exc is not None:
            try:
                generator.method_close(tx)
            except ObservedException as observed:
                unsupported("object with a finalizer", f"{generator!r} raises {observed.variable!r} when it dies")
        generator.frame.release()


NOBODY_ELSE = 2  # references: the list, and the argument of getrefcount


def exhausted_generator(code, names):
    """What a finished generator looks like from outside: one that was closed before it began."""
    function = types.FunctionType(code, {}, None, None, tuple(types.CellType() for _ in code.co_freevars))
    keywords = code.co_varnames[code.co_argcount : code.co_argcount + code.co_kwonlyargcount]
    generator = function(*(None for _ in range(code.co_argcount)), **dict.fromkeys(keywords))
    generator.__name__, generator.__qualname__ = names
    generator.close()
    return generator


# --- existing generators ----------------------------------------------------------------------------------
def place_of(frame, slots):
    """As `_eval_frame.suspended_state` tells it."""
    return frame.instructions[frame.pointer].offset, bytes(value is not None for value in slots)


@wraps(types.GeneratorType)
def wrap_generator(output, value, source):
    """What a break left behind goes on behind it; any other one, or in a loop, is at another place at each call."""
    from ..resume_code import is_resume_code, resumes_in_loop

    state, code = _eval_frame.suspended_state(value), value.gi_code
    goes_on = is_resume_code(output.code) and is_resume_code(code) and not resumes_in_loop(output.code)
    if source is None or state is None or not goes_on or code.co_cellvars:
        return wrap_object(output, value, source)
    output.guard("type", source, types.GeneratorType)
    return GeneratorVariable(suspended_frame(output, state, CallSource(source, _eval_frame.suspended_state)), source)


def suspended_frame(output, state, source):
    """The translator of a generator's frame that stands where the real one stands; None at its end.

    source: of its state.
    """
    from ..symbolic_convert import InliningInstructionTranslator

    if not state:
        return output.guard("equals", source, state)
    (offset, bound), code, globals_dict, builtins_dict, *values = state
    output.guard("equals", ItemSource(source, 0), state[0])
    output.guard("is", ItemSource(source, 1), code)
    output.guard("is", ItemSource(source, 3), builtins_dict)
    tx = output.current_translator
    own = globals_dict is output.function.__globals__
    namespace = AttrSource(FunctionSource(), "__globals__") if own else tx.globals_source_of(globals_dict)
    output.guards.add_alias((namespace, ItemSource(source, 2)), same=True, user_location=output.user_location)
    slots = [output.lazy(value, ItemSource(source, 4 + k)) if bound[k] else None for k, value in enumerate(values)]
    count, free = len(code.co_varnames), len(code.co_varnames) + len(code.co_freevars)
    cells = [cell.realize() for cell in slots[count:free]]
    function = NestedFunctionVariable(code, globals_dict, None if own else namespace, NONE, NONE, cells)
    arguments = {name: value for name, value in zip(code.co_varnames, slots) if value is not None}
    frame = InliningInstructionTranslator(tx, function, arguments)
    frame.builtins_dict = builtins_dict  # those of when its function was made, which the globals may have replaced
    place = next(k for k, instruction in enumerate(frame.instructions) if instruction.offset == offset)
    if frame.instructions[place].opname == "RESUME":  # behind a `yield`
        frame.started, frame.pointer, frame.stack = True, place, slots[free:]
        frame.current = frame.instructions[place - 1]
    return frame
