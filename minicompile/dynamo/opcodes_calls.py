"""The opcodes that call functions and make them, and how a call's arguments become the locals of the callee's frame.

Goes in: an `Instruction`; a code object, trackers of arguments and defaults.  Comes out: the tracker of a result, or of
a new function; locals by name, or the TypeError that CPython raises.
Mirrors `torch/_dynamo/symbolic_convert.py` (CALL, MAKE_FUNCTION) and `bind_args` in `variables/functions.py` there.
Taught in chapter 03.
"""

import builtins
import inspect

from .variables.base import complain, type_name
from .variables.constant import NONE
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
            function, kind = function_text(self, self.pop()), type_name(args.python_type())
            self.raise_observed(TypeError, f"{function} argument after * must be an iterable, not {kind}")
        args = args.listed(self)
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
        named = self.pop() if flags & 2 else NONE
        defaults = self.pop() if flags & 1 else NONE
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


def bind_arguments(tx, function, args, kwargs):
    """The callee's locals by name, as CPython binds them; a wrong call is an observed TypeError with CPython's text."""
    code, defaults, kw_defaults = function.code, function.defaults(tx), function.kw_defaults(tx)
    positional = list(code.co_varnames[: code.co_argcount])
    keyword_only = list(code.co_varnames[code.co_argcount : code.co_argcount + code.co_kwonlyargcount])
    rest = code.co_varnames[code.co_argcount + code.co_kwonlyargcount :]
    star = rest[0] if code.co_flags & inspect.CO_VARARGS else None
    double_star = rest[bool(star)] if code.co_flags & inspect.CO_VARKEYWORDS else None
    bound, surplus = dict(zip(positional, args)), {}
    wrong = len(args) > len(positional) and not star
    for key, value in kwargs.items():
        if key in keyword_only or key in positional[code.co_posonlyargcount :]:
            wrong |= key in bound
            bound[key] = value
        else:
            wrong |= not double_star
            surplus[key] = value
    optional = dict(zip(reversed(positional), reversed(defaults)))
    optional |= {name: kw_defaults[name] for name in keyword_only if name in kw_defaults}
    bound = optional | bound
    if wrong or not all(key in bound for key in (*positional, *keyword_only)):
        refuse_call(tx, function, optional, args, kwargs)
    if star:
        bound[star] = tx.build_tuple(args[len(positional) :])
    if double_star:
        bound[double_star] = tx.build_dict(surplus)
    return bound


def refuse_call(tx, called, optional, args, kwargs):
    """CPython's own words about a wrong call, said of a function with the same parameters."""
    code, count = called.code, called.code.co_argcount
    names = [key + "=None" * (key in optional) for key in code.co_varnames[: count + code.co_kwonlyargcount]]
    star = ["*rest"] if code.co_flags & inspect.CO_VARARGS else ["*"] * bool(code.co_kwonlyargcount)
    double_star = ["**others"] * bool(code.co_flags & inspect.CO_VARKEYWORDS)
    only = ["/"] * bool(code.co_posonlyargcount)
    parts = [*names[: code.co_posonlyargcount], *only, *names[code.co_posonlyargcount : count]]
    function = eval(f"lambda {', '.join([*parts, *star, *names[count:], *double_star])}: None")
    function.__qualname__ = called.var_getattr(tx, "__qualname__").as_python_constant()
    complain(tx, function, *[None] * len(args), **dict.fromkeys(kwargs))
