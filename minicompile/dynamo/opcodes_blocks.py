"""The opcodes of blocks: exceptions, `with`, `match`, and generators.

Goes in: an `Instruction`.  Comes out: changed stack, or an ObservedException that the translator takes to its handler.
Mirrors `torch/_dynamo/symbolic_convert.py` (ExceptionStack, RAISE_VARARGS, SETUP_WITH).  Taught in chapters 03 and 05.
"""

from . import polyfills
from .variables.base import ObservedException, type_name, unsupported
from .variables.exception_groups import match_group
from .variables.exceptions import TracebackVariable


class BlockOpcodes:
    """Mixin of every translator."""

    # --- exceptions ---------------------------------------------------------------------------------
    def handled_exception(self):
        """What `raise` without arguments raises again: the innermost exception being handled here or by a caller.

        None where there is none; what the caller of the compiled frame itself handles is guarded.
        """
        frame = self
        while frame is not None:
            if frame.handling:
                return frame.handling[-1]
            frame = frame.parent
        outer = self.output.outer_exception
        return None if self.is_none(outer.realize()) else outer

    def RAISE_VARARGS(self, instruction):
        cause = self.pop() if instruction.arg == 2 else None
        if instruction.arg == 0:
            current = self.handled_exception()
            if current is None:
                self.raise_observed(RuntimeError, "No active exception to reraise")
            raise ObservedException(current.realize(), again=self)
        raise ObservedException(self.as_exception(self.pop(), cause), stated=True)

    def as_exception(self, value, cause):
        """`raise value from cause`: a class is called; anything but an exception is a TypeError."""
        value = self.exception_instance(value, "exceptions must derive from BaseException")
        if cause is not None:
            wrong = "exception causes must derive from BaseException"
            value.set_context(self, "__cause__", None if self.is_none(cause) else self.exception_instance(cause, wrong))
        return value

    def passes_through(self, instruction, observed):
        """An exception was raised by this instruction, or by what it called: the frame joins its traceback."""
        if observed.again is not self:
            observed.variable.passed(self, instruction)
        if not observed.has_context:
            observed.has_context = True
            self.set_context(observed.variable)

    def set_context(self, value):
        """The exception being handled is the context of a new one (and no longer has that one among its own)."""
        handled = self.handled_exception()
        if handled is None or handled.realize() is value:
            return
        link = handled = handled.realize()
        chain = []
        while not self.is_none(context := link.var_getattr(self, "__context__").realize()) and link not in chain:
            if context is value:
                link.set_context(self, "__context__", None)
                break
            chain.append(link)
            link = context
        value.set_context(self, "__context__", handled)

    def exception_instance(self, value, complaint):
        """The exception that an object stands for which is raised: itself, or what the class makes."""
        if issubclass(value.python_type(), type) and issubclass(value.as_python_constant(), BaseException):
            value = value.call_function(self, [], {}).realize()
        if not issubclass(value.python_type(), BaseException):
            self.raise_observed(TypeError, complaint)
        return value

    def PUSH_EXC_INFO(self, instruction):
        exception = self.pop_lazy()
        self.push(self.handled_exception() or self.build(None))
        self.push(exception)
        self.handling.append(exception)

    def POP_EXCEPT(self, instruction):
        self.pop_lazy()
        self.handling.pop()

    def CHECK_EXC_MATCH(self, instruction):
        wanted = self.pop()
        classes = wanted.unpack(self) if issubclass(wanted.python_type(), tuple) else [wanted]
        for cls in classes:
            if not issubclass(cls.python_type(), type) or not issubclass(cls.as_python_constant(), BaseException):
                text = "catching classes that do not inherit from BaseException is not allowed"
                self.raise_observed(TypeError, text)
        mro = self.stack[-1].realize().python_type().__mro__
        self.push(self.build(any(cls.as_python_constant() in mro for cls in classes)))

    def CHECK_EG_MATCH(self, instruction):
        """`except* wanted`.  Stack: exception, wanted; then the rest and what matches, or the exception and None."""
        wanted, exception = self.pop(), self.pop()
        match, rest = match_group(self, exception, wanted)
        self.push(rest if rest is not None else self.build(None))
        self.push(match if match is not None else self.build(None))
        if match is not None:
            if self.handling[-1] in self.raised_at:
                self.raised_at[match] = self.raised_at[self.handling[-1]]
            self.handling[-1] = match

    def PREP_RERAISE_STAR(self, instruction):
        """What is left when all `except*` are done.  Stack: the exception, those that they raised or left over."""
        left, _ = self.pop().unpack(self), self.pop_lazy()
        if not all(self.is_none(item.realize()) for item in left):
            unsupported("instruction not captured", "`except*` raises, or leaves something to raise")
        self.push(self.build(None))

    def RERAISE(self, instruction):
        raise ObservedException(self.pop(), again=self)

    def CALL_INTRINSIC_1(self, instruction):
        """Number 3 ends a generator's body from 3.12 on: a StopIteration that would leave it becomes a RuntimeError."""
        if instruction.arg != 3:
            unsupported("instruction not captured", f"CALL_INTRINSIC_1 {instruction.arg} is not captured")
        error = self.pop()
        if issubclass(error.python_type(), StopIteration):
            cause, error = error, self.call(RuntimeError, self.build("generator raised StopIteration"))
            error.set_context(self, "__cause__", cause)
            error.set_context(self, "__context__", cause)
        self.push(error)

    def BEFORE_WITH(self, instruction):
        manager = self.pop()
        text = f"'{type_name(manager.python_type())}' object does not support the context manager protocol"
        enter_method = manager.special_method(self, "__enter__")
        if enter_method is None:
            self.raise_observed(TypeError, text)
        exit_method = manager.special_method(self, "__exit__")
        if exit_method is None:
            self.raise_observed(TypeError, text + " (missed __exit__ method)")
        self.push(exit_method)
        self.push(enter_method.call_function(self, [], {}))

    def WITH_EXCEPT_START(self, instruction):
        """Stack: exit, lasti, previous exception, exception."""
        exception = self.stack[-1].realize()
        arguments = [self.build(exception.python_type()), exception, TracebackVariable()]
        self.push(self.stack[-4].realize().call_function(self, arguments, {}))

    # --- match statements ---------------------------------------------------------------------------
    def GET_LEN(self, instruction):
        self.push(self.call(len, self.stack[-1]))

    def MATCH_SEQUENCE(self, instruction):
        self.push(self.build(bool(self.stack[-1].realize().python_type().__flags__ & (1 << 5))))

    def MATCH_MAPPING(self, instruction):
        self.push(self.build(bool(self.stack[-1].realize().python_type().__flags__ & (1 << 6))))

    def MATCH_KEYS(self, instruction):
        self.push(self.call_polyfill(polyfills.match_keys, self.stack[-2], self.stack[-1]))

    def MATCH_CLASS(self, instruction):
        names, cls, subject = self.pop(), self.pop(), self.pop()
        count = self.build(instruction.arg)
        self.push(self.call_polyfill(polyfills.match_class, subject, cls, count, names))

    # --- generators (run by GeneratorVariable) ------------------------------------------------------
    def RETURN_GENERATOR(self, instruction):
        self.push(self.build(None))  # what the POP_TOP behind it removes

    def YIELD_VALUE(self, instruction):
        self.yielded = self.pop_lazy()

    def GET_YIELD_FROM_ITER(self, instruction):
        value = self.pop()
        self.push(value if hasattr(value, "send") else self.call(iter, value))

    def SEND(self, instruction):
        """`yield from`: pass the sent value on.  At the end the result, over the receiver where END_SEND comes."""
        value, receiver = self.pop(), self.stack[-1].realize()
        try:
            if hasattr(receiver, "send"):
                self.push(receiver.send(self, value))
            elif self.is_none(value):
                self.push(receiver.next(self))
            else:
                self.push(receiver.call_method(self, "send", [value], {}))
        except ObservedException as stop:
            if not self.exception_matches(stop, StopIteration):
                raise
            self.end_of_send(instruction, stop)

    def end_of_send(self, instruction, stop):
        """The receiver is on top of the stack."""
        if instruction.argval.opname != "END_SEND":
            self.pop_lazy()
        self.push(self.call(getattr, stop.variable, self.build("value")))
        self.jump(instruction.argval)

    def send_before(self, instruction):
        """The SEND whose result this instruction yields, or None."""
        before = self.instructions[self.index_of[id(instruction)] - 1]
        return before if before.opname == "SEND" else None

    def CLEANUP_THROW(self, instruction):
        """An exception came through `yield from`: a StopIteration is its result.  Stack: receiver, sent, exception."""
        exception, _, _ = self.pop(), self.pop_lazy(), self.pop_lazy()
        if not issubclass(exception.python_type(), StopIteration):
            raise ObservedException(exception, again=self)
        self.push(self.build(None))
        self.push(self.call(getattr, exception, self.build("value")))

    def END_SEND(self, instruction):
        result = self.pop_lazy()
        self.pop_lazy()
        self.push(result)
