"""How a call's arguments become the locals of the callee's frame.

Goes in: a code object, trackers of arguments and defaults.  Comes out: locals by name, or the TypeError that CPython
raises.  Mirrors `bind_args` in `torch/_dynamo/variables/functions.py`.  Taught in chapter 03.
"""

import inspect


def bind_arguments(tx, name, code, args, kwargs, defaults, kw_defaults):
    """The callee's locals by name, as CPython binds them; a wrong call is an observed TypeError with CPython's text."""
    positional = list(code.co_varnames[: code.co_argcount])
    keyword_only = list(code.co_varnames[code.co_argcount : code.co_argcount + code.co_kwonlyargcount])
    rest = code.co_varnames[code.co_argcount + code.co_kwonlyargcount :]
    star = rest[0] if code.co_flags & inspect.CO_VARARGS else None
    double_star = rest[bool(star)] if code.co_flags & inspect.CO_VARKEYWORDS else None
    bound = dict(zip(positional, args))
    extra = args[len(positional) :]
    if star:
        bound[star] = tx.build_tuple(extra)
    elif extra:
        plural = "" if len(positional) == 1 else "s"
        least = f"from {len(positional) - len(defaults)} to " if defaults else ""
        given = "1 was given" if len(args) == 1 else f"{len(args)} were given"
        takes = f"takes {least}{len(positional)} positional argument{plural} but {given}"
        tx.raise_observed(TypeError, f"{name}() {takes}")
    surplus = {}
    for key, value in kwargs.items():
        if key in bound and key in positional[code.co_posonlyargcount :]:
            tx.raise_observed(TypeError, f"{name}() got multiple values for argument '{key}'")
        if key in keyword_only or key in positional[code.co_posonlyargcount :]:
            bound[key] = value
        elif double_star:
            surplus[key] = value
        else:
            tx.raise_observed(TypeError, f"{name}() got an unexpected keyword argument '{key}'")
    if double_star:
        bound[double_star] = tx.build_dict(surplus)
    for key, value in zip(positional[len(positional) - len(defaults) :], defaults):
        bound.setdefault(key, value)
    for key, value in kw_defaults.items():
        bound.setdefault(key, value)
    missing = [repr(key) for key in [*positional, *keyword_only] if key not in bound]
    if missing:
        kind = "positional" if missing[0][1:-1] in positional else "keyword-only"
        plural = "" if len(missing) == 1 else "s"
        listed = missing[0] if len(missing) == 1 else ", ".join(missing[:-1]) + f" and {missing[-1]}"
        tx.raise_observed(TypeError, f"{name}() missing {len(missing)} required {kind} argument{plural}: {listed}")
    return bound
