"""How a call's arguments become the locals of the callee's frame.

Goes in: a code object, trackers of arguments and defaults.  Comes out: locals by name, or the TypeError that CPython
raises.  Mirrors `bind_args` in `torch/_dynamo/variables/functions.py`.  Taught in chapter 03.
"""

import inspect

from .variables.base import as_observed


def bind_arguments(tx, name, code, args, kwargs, defaults, kw_defaults):
    """The callee's locals by name, as CPython binds them; a wrong call is an observed TypeError with CPython's text."""
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
    optional = dict(zip(positional[len(positional) - len(defaults) :], defaults)) | kw_defaults
    bound = optional | bound
    if wrong or not all(key in bound for key in (*positional, *keyword_only)):
        complain(tx, name, code, optional, args, kwargs)
    if star:
        bound[star] = tx.build_tuple(args[len(positional) :])
    if double_star:
        bound[double_star] = tx.build_dict(surplus)
    return bound


def complain(tx, name, code, optional, args, kwargs):
    """CPython's own words about a wrong call, said of a function with the same parameters."""
    count = code.co_argcount
    names = [key + "=None" * (key in optional) for key in code.co_varnames[: count + code.co_kwonlyargcount]]
    star = ["*rest"] if code.co_flags & inspect.CO_VARARGS else ["*"] * bool(code.co_kwonlyargcount)
    double_star = ["**others"] * bool(code.co_flags & inspect.CO_VARKEYWORDS)
    only = ["/"] * bool(code.co_posonlyargcount)
    parts = [*names[: code.co_posonlyargcount], *only, *names[code.co_posonlyargcount : count]]
    function = eval(f"lambda {', '.join([*parts, *star, *names[count:], *double_star])}: None")
    function.__qualname__ = name
    with as_observed(tx):
        function(*[None] * len(args), **dict.fromkeys(kwargs))
