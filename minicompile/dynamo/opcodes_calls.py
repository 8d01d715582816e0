"""The opcodes that call functions and make them.

Goes in: an `Instruction`.  Comes out: the tracker of a result, or of a new function.
Mirrors `torch/_dynamo/symbolic_convert.py` (CALL, MAKE_FUNCTION).  Taught in chapter 03.
"""

import builtins

from .variables.base import type_name
from .variables.functions import NestedFunctionVariable
from .variables.refusals import function_text, is_iterable


class CallOpcodes:
    """Mixin of every translator."""

    # --- calls and functions ------------------------------------------------------------------------
    def CALL(self, instruction):
        call = instruction.argval
        values = self.pop_lazies(call.nargs)
        split = len(values) - len(call.kwnames)
        kwargs = dict(zip(call.kwnames, values[split:]))
        function = self.pop()
        self.push(self.call_directly(function, values[:split], kwargs))

    def CALL_FUNCTION_EX(self, instruction):
        kwargs = self.pop() if instruction.argval else None
        args = self.pop()
        if not is_iterable(args.python_type()):
            function, kind = function_text(self.pop()), type_name(args.python_type())
            self.raise_observed(TypeError, f"{function} argument after * must be an iterable, not {kind}")
        args = args.unpack(self)
        named = {}
        if kwargs is not None:
            for key in self.call(list, kwargs).unpack(self):
                if not issubclass(key.python_type(), str):
                    self.raise_observed(TypeError, "keywords must be strings")
                value = kwargs.call_method(self, "__getitem__", [key], {})
                named[key.realize().as_python_constant()] = value
        self.push(self.call_directly(self.pop(), args, named))

    def MAKE_FUNCTION(self, instruction):
        flags, code = instruction.arg or 0, self.pop().as_python_constant()
        cells = self.pop().unpack(self) if flags & 8 else []
        annotations = self.pop_lazy() if flags & 4 else None
        kw_defaults = self.pop() if flags & 2 else None
        defaults = self.pop().unpack(self) if flags & 1 else []
        named = {}
        if kw_defaults is not None:
            for key in self.call(list, kw_defaults).unpack(self):
                named[key.as_python_constant()] = kw_defaults.call_method(self, "__getitem__", [key], {})
        self.push(
            NestedFunctionVariable(
                code, self.globals_dict, self.globals_source, defaults, named, cells, self.annotations_of(annotations)
            )
        )

    def annotations_of(self, tracker):
        """MAKE_FUNCTION gets a flat tuple of names and values; kept as a dict by name."""
        if tracker is None:
            return None
        items = tracker.realize().unpack(self)
        return {k.as_python_constant(): v for k, v in zip(items[::2], items[1::2])}

    def LOAD_BUILD_CLASS(self, instruction):
        self.push(self.build(builtins.__build_class__))
