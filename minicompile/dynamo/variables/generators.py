"""Generators made during capture: a translator that stops at each YIELD_VALUE and goes on when asked.

Goes in: a call of a generator function.  Comes out: `next`, `send`, `throw` and `close`, as lazy as Python's own.
Mirrors `torch/_dynamo/variables/functions.py` (LocalGeneratorObjectVariable).  Taught in chapter 06.
"""

import sys
import types

from .base import ObservedException, VariableTracker, type_name, unsupported


class GeneratorVariable(VariableTracker):
    """frame: the callee's translator, not started, suspended at a yield, or finished."""

    cls = types.GeneratorType
    has_identity = True

    def __init__(self, frame):
        super().__init__()
        self.frame = frame
        frame.run_prologue()
        frame.output.generators.append(self)
        self.names = names_of(frame.function, frame.side_effects)
        self.started = self.finished = self.running = False

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

    def method_send(self, tx, value):
        return self.send(tx, value.realize())

    def method_throw(self, tx, kind, *rest):
        thrown = [kind.realize(), *rest]
        if self.finished or not self.started:
            self.finished = True
            raise exception_thrown(tx, *thrown)
        return self.resume(tx, thrown)

    def method_close(self, tx):
        if self.finished or not self.started:
            self.finished = True
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
            codegen.push_function(exhausted_generator)
            return codegen.call_function(0)
        emit_suspended_generator(codegen, self.frame, self.started, self.names)

    def __repr__(self):
        return f"GeneratorVariable({self.frame.code.co_qualname})"


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


def exhausted_generator():
    """What a finished generator looks like from outside."""
    generator = (item for item in ())
    for _ in generator:
        pass
    return generator
