"""Exceptions as values: their classes are ordinary classes, their instances know args, cause and context.

Goes in: `raise`, `except ... as e`, and calls of exception classes.  Comes out: the exception object's tracker, which
ObservedException carries through the captured program, and which is built anew where it must really exist.
Mirrors `torch/_dynamo/variables/misc.py` (ExceptionVariable).  Taught in chapter 06.
"""

import sys
import types

from .. import _eval_frame
from ..builder import wraps_if
from ..bytecode import CallArguments, Instruction, assemble
from ..source import AttrSource, CallSource, ItemSource
from .base import KEYWORDS, VariableTracker, can_change, complain, fields_of, type_name, unsupported
from .descriptors import type_lookup
from .objects import UserDefinedObjectVariable, placed, share_attributes
from .refusals import refuse

POSITIONS = {(StopIteration, "value"): 0, (SystemExit, "code"): 0, (StopAsyncIteration, "value"): 0}
NOTED = {"__cause__": None, "__context__": None, "__suppress_context__": False, "__traceback__": None}
C_ATTRIBUTES = (types.MemberDescriptorType, types.GetSetDescriptorType)
LINKS = {"__cause__": BaseException, "__context__": BaseException, "__traceback__": types.TracebackType}


class ExceptionVariable(UserDefinedObjectVariable):
    """An exception object.  `args`: the trackers that it was made with, or what `e.args = ...` set."""

    def __init__(self, cls, args, value=None, source=None):
        super().__init__(cls, value, source)
        self.args = list(args)
        self.frames = []  # of its traceback: (code, positions, globals), outermost first
        self.initialised = value is not None  # whether the builtin base's `__init__` has seen the arguments

    def __repr__(self):
        return f"{self.cls.__name__}({', '.join(map(repr, self.args))})"

    def __str__(self):
        return f"{self.cls.__name__}({', '.join(map(str, self.args))})"

    def truth(self, tx):
        return True if type_lookup(self.cls, "__bool__") is None else super().truth(tx)

    # --- attributes in C ----------------------------------------------------------------------------
    def c_attribute(self, tx, found):
        name = found.name
        if name == "__traceback__" and self.frames:
            unsupported("introspection", "the traceback of an exception is not known during capture")
        pending = tx.side_effects.load_attr(self, name)
        if pending is not None and pending is not tx.side_effects.DELETED:
            return pending
        if name == "args":
            shortened = issubclass(self.cls, OSError) and len(self.args) > 2  # the name of the file is left out
            return tx.build(self.example(tx).args) if shortened else tx.build_tuple(list(self.args))
        if name in NOTED and self.value is None:
            return tx.build(NOTED[name])
        if (found.owner, name) in POSITIONS and self.value is None:
            position = POSITIONS[found.owner, name]
            return self.args[position] if position < len(self.args) else tx.build(None)
        if name in KEYWORDS.get(found.owner, ()) and self.value is None:
            return tx.build(None)
        if self.value is None and issubclass(found.owner, Exception):
            return tx.build(getattr(self.example(tx), name))
        return super().c_attribute(tx, found)

    def example(self, tx):
        """A real exception of the builtin base with the same arguments and fields, for what C code makes of them."""
        pending = tx.side_effects.pending_attributes(self)
        fields = {name: value for name, value in pending.items() if self.is_field(name)}
        if not all(value.is_python_constant() for value in (*self.args, *fields.values())):
            unsupported("attribute written in C", f"{self} depends on values not known during capture")
        base, args = base_of(self.cls), [arg.as_python_constant() for arg in self.args]
        try:
            made = base(*args) if self.initialised else base.__new__(base, *args)
        except TypeError as error:
            unsupported("attribute written in C", str(error))
        for name, value in fields.items():
            setattr(made, name, value.as_python_constant())
        return made

    def is_field(self, name):
        """Whether C code makes something of this attribute, for this kind of exception."""
        descriptor = getattr(base_of(self.cls), name, None)
        return name not in (*NOTED, *fields_of(self.cls), "args") and isinstance(descriptor, C_ATTRIBUTES)

    def store_c_attribute(self, tx, found, *values):
        if not values:
            unsupported("attribute written in C", f"deleting `{found.name}` of {self}")
        name, value = found.name, values[0].realize()
        if name == "args":
            if issubclass(self.cls, (*PARTICULAR, StopIteration, StopAsyncIteration, SystemExit)):
                unsupported("attribute written in C", f"setting `args` of {self}, whose fields stay")
            self.args = value.unpack(tx)
        elif name not in LINKS:
            complain(tx, found.attribute.__set__, self.example(tx), value.as_python_constant())
        elif not tx.is_none(value) and not issubclass(value.python_type(), LINKS[name]):
            complain(tx, found.attribute.__set__, Exception(), 0)
        if name == "__cause__":
            tx.side_effects.store_attr(self, "__suppress_context__", tx.build(True))
        tx.side_effects.store_attr(self, name, value)

    def set_context(self, tx, name, value):
        """The interpreter sets `__context__` or `__cause__`: value is a tracker (None: `raise ... from None`)."""
        found = type_lookup(BaseException, name)
        self.store_c_attribute(tx, found, value if value is not None else tx.build(None))

    def lacked(self, tx, owner, name):
        """An AttributeError that leaves the look-up: the interpreter notes what of whom, unless something is noted."""
        fields = [type_lookup(AttributeError, field) for field in KEYWORDS[AttributeError]]
        if all(tx.is_none(self.c_attribute(tx, field)) for field in fields):
            for field, value in zip(fields, (tx.build(name), owner)):
                tx.side_effects.store_attr(self, field.name, value)

    def passed(self, frame, instruction):
        """A frame that it leaves, or that catches it, comes in front of those that it has left before."""
        if frame.side_effects.load_attr(self, "__traceback__") is not None:
            unsupported("introspection", "an exception with a traceback is raised")
        frame.side_effects.mutated(self)
        self.frames.insert(0, (frame.code, instruction.positions, frame.globals_dict))

    # --- methods in C -------------------------------------------------------------------------------
    def call_descriptor(self, tx, descriptor, args, kwargs):
        name, owner = descriptor.__name__, descriptor.__objclass__
        if not issubclass(owner, BaseException):
            return super().call_descriptor(tx, descriptor, args, kwargs)
        if name == "__init__":
            return self.c_init(tx, args, kwargs)
        if name == "with_traceback":
            if not issubclass(args[0].realize().python_type(), (types.TracebackType, types.NoneType)):
                refuse(tx, BaseException().with_traceback, args[0].realize())
            tx.side_effects.store_attr(self, "__traceback__", args[0])
            return self
        if name == "add_note":
            return self.add_note(tx, *args)
        if name in ("__str__", "__repr__"):
            return self.text(tx, descriptor)
        if name in ("__setattr__", "__getattribute__"):
            return super().call_descriptor(tx, getattr(object, name), args, kwargs)
        unsupported("method written in C", f"`{descriptor.__qualname__}` of {self}")

    def c_init(self, tx, args, kwargs):
        allowed = fields_of(self.cls)
        for name in kwargs:
            if name not in allowed:
                tx.raise_observed(TypeError, f"{type_name(self.cls)}() takes no keyword arguments")
        new = type_lookup(self.cls, "__new__").attribute
        is_seen = self.initialised and not can_change(type_lookup(self.cls, "__init__").owner)
        if issubclass(self.cls, OSError) and (is_seen or not isinstance(new, types.BuiltinFunctionType)):
            self.initialised = True  # `__new__` has set everything
            return tx.build(None)
        if issubclass(self.cls, PARTICULAR):
            make_real(tx, self.cls, args, kwargs)  # complains
        if self.value is not None:
            unsupported("method written in C", f"`__init__` of {self}, which exists already")
        self.args, self.initialised = list(args), True
        for name in allowed:
            if name in kwargs or tx.side_effects.load_attr(self, name) is not None:
                tx.side_effects.store_attr(self, name, kwargs.get(name, tx.build(None)))
        return tx.build(None)

    def add_note(self, tx, note):
        if not issubclass(note.python_type(), str):
            tx.raise_observed(TypeError, f"note must be a str, not '{type_name(note.python_type())}'")
        if self.stored_attribute(tx, "__notes__") is None:
            self.generic_setattr(tx, "__notes__", tx.build_list([]))
        notes = self.stored_attribute(tx, "__notes__").realize()
        if not issubclass(notes.python_type(), list):
            tx.raise_observed(TypeError, "Cannot add note: __notes__ is not a list")
        notes.call_method(tx, "append", [note], {})
        return tx.build(None)

    def text(self, tx, descriptor):
        """`str(e)` or `repr(e)` of constant arguments, by CPython's own code."""
        if self.value is not None:
            return self.text_now(tx, descriptor)
        text = descriptor(self.example(tx))
        if descriptor.__name__ == "__repr__":
            text = self.cls.__name__ + text[text.index("(") :]
        return tx.build(text)

    def text_now(self, tx, descriptor):
        """Of an existing one: its fields may be others than those that its arguments gave it."""
        if tx.side_effects.pending_attributes(self) or not all(arg.is_python_constant() for arg in self.args):
            unsupported("method written in C", f"`{descriptor.__qualname__}` of {self}")
        text = descriptor(self.value)
        tx.guard("equals", CallSource(self.source, descriptor), text)
        return tx.build(text)

    # --- how to have it again -----------------------------------------------------------------------
    def reconstruct(self, codegen):
        """`cls.__new__(cls, *args)` as the builtin base does it; attributes of the instance are set afterwards."""
        base = base_of(self.cls)
        if self.frames:
            codegen.load_const(with_traceback)
        if base is self.cls and self.initialised:
            codegen.call(base, *self.args)
        else:
            codegen.call(new_like, self.cls, base, self.initialised, *self.args)
        if self.frames:
            codegen.load_const(self.frames_again())
            codegen.call_function(2)

    def frames_again(self):
        return tuple(stand_in(*frame) for frame in self.frames)

    def replay(self, codegen):
        """An existing one gets the frames that it passed during capture."""
        codegen.run(with_traceback, self, self.frames_again())

    def children(self):
        return tuple(self.args)


class TracebackVariable(VariableTracker):
    """The traceback that `__exit__` and `sys.exc_info()` give: there is one, and capture knows nothing else of it."""

    cls = types.TracebackType

    def reconstruct(self, codegen):
        unsupported("introspection", "the traceback of an exception is not known during capture")


def stand_in(code, positions, globals_dict):
    """A function that returns its frame, which looks as one of `code` at these positions."""
    body = [Instruction("RESUME", 0), Instruction("LOAD_CONST", None, sys._getframe)]
    body += [Instruction("CALL", None, CallArguments(0)), Instruction("RETURN_VALUE")]
    for instruction in body:
        instruction.positions = positions
    names = {name: getattr(code, name) for name in ("co_name", "co_qualname", "co_filename", "co_firstlineno")}
    fake = assemble(body, with_traceback.__code__, co_argcount=0, co_varnames=(), co_consts=(), **names)
    _eval_frame.skip(fake)
    return types.FunctionType(fake, globals_dict)


def with_traceback(exception, frames):
    """What capture raised and caught gets the traceback that it would have: the same lines of the same functions."""
    traceback = exception.__traceback__
    for function in reversed(frames):
        frame = function()
        traceback = types.TracebackType(traceback, frame, frame.f_lasti, frame.f_lineno)
    return exception.with_traceback(traceback)


def base_of(cls):
    """The builtin class that `cls` derives from."""
    return next(c for c in cls.__mro__ if not c.__flags__ & (1 << 9))


def new_like(cls, base, initialised, *args):
    """An exception of a user's class, without running its `__new__` and `__init__` again."""
    exception = base.__new__(cls, *args)
    if initialised:
        base.__init__(exception, *args)
    return exception


PARTICULAR = (UnicodeError, OSError, SyntaxError)  # these look at their arguments


def make_real(tx, cls, args, kwargs):
    """The exception of the builtin base itself, which the program hears refuse its arguments."""
    if not tx.can_fold(None, args, kwargs):
        unsupported("class written in C", f"{cls.__name__} of values that are not known during capture")
    try:
        return base_of(cls)(
            *(a.as_python_constant() for a in args), **{k: v.as_python_constant() for k, v in kwargs.items()}
        )
    except Exception as error:
        tx.raise_python_exception(error)


def new_exception(tx, cls, args):
    """`BaseException.__new__(cls, *args)`; an OSError becomes the class for its number."""
    if issubclass(cls, BaseExceptionGroup):
        from .exception_groups import new_group

        return new_group(tx, cls, args)
    if cls is OSError:
        cls = type(make_real(tx, cls, args, {}))
    exception = ExceptionVariable(cls, args)
    tx.side_effects.new_object(exception)
    return exception


@wraps_if(lambda value: issubclass(type(value), BaseException), order=60)
def wrap_exception(output, value, source):
    output.guard("type", source, type(value))
    arguments = AttrSource(source, "args") if source is not None else None
    output.guard("length", arguments, len(value.args))
    args = [output.lazy(arg, arguments and ItemSource(arguments, i)) for i, arg in enumerate(value.args)]
    return share_attributes(output, ExceptionVariable(type(value), args, value, placed(value, source)))
