"""Functions that between them use the whole language; each takes (x, *args, k, **kw) and returns something to compare.

Written for the variety of their bytecode: ruff's advice on how to simplify them is off (see pyproject.toml).
"""

import types

import emit

from minicompile.dynamo.bytecode import assemble, decode


def rebuilt(fn, exact=False):
    """The same function with its code taken apart and put together again."""
    code = assemble(decode(fn.__code__, exact), fn.__code__, exact)
    new = types.FunctionType(code, fn.__globals__, fn.__name__, fn.__defaults__, fn.__closure__)
    new.__kwdefaults__ = fn.__kwdefaults__
    return new


def build(instructions, args=0, **changes):
    """A function made of nothing but `instructions`, with arguments a, b, c, .."""
    template = (lambda: None).__code__
    for instruction in instructions:
        if instruction.line is None:
            instruction.positions = (template.co_firstlineno, template.co_firstlineno, None, None)
    names = tuple("abcdefgh"[:args])
    changes = {"co_varnames": names, "co_argcount": args, "co_consts": (None,), "co_names": ()} | changes
    return types.FunctionType(assemble([*emit.prologue(), *instructions], template, **changes), {"g": "global"})


def calls(x, *args, k=1, **kw):
    def inner(*a, **b):
        return a, b

    return (
        inner(),
        inner(x),
        inner(k=x),
        inner(x, *args, k=k, **kw),
        inner(*args),
        inner(a=1, b=x),
        str(x).upper().join(["a", "b"]),
        (inner if x else calls)(k, j=x),
        dict(a=1, **kw),
        [*map(lambda v: v + x, [1, 2])],
    )


def loops(x, *args, k=3, **kw):
    out, n = [], 0
    for i in range(10):
        if i == k:
            continue
        if i > 7:
            break
        for j, l in zip(range(i), args, strict=False):
            out.append((i, j, l))
    else:
        out.append("never")
    for i in ():
        out.append(i)
    else:
        out.append("else")
    while n < 5:
        n += 1
        if n == 2:
            continue
        out.append(n)
    while True:
        n -= 1
        if not n:
            break
    return out, [i * j for i in range(3) for j in range(i)], {i: x for i in range(2)}, {i for i in args}


def handlers(x, *args, k=0, **kw):
    out = []
    for value in (0, 1, "a", None, *args):
        try:
            try:
                out.append(10 / value)
            except ZeroDivisionError as error:
                out.append(str(error))
                if k:
                    raise ValueError(x) from error
            finally:
                out.append("finally")
        except TypeError:
            out.append("type")
            continue
        except ValueError as error:
            out.append((str(error), str(error.__cause__)))
            break
        else:
            out.append("else")
    return out


def contexts(x, *args, k=0, **kw):
    out = []

    class Context:
        def __init__(self, name):
            self.name = name

        def __enter__(self):
            out.append(("enter", self.name))
            return self

        def __exit__(self, kind, value, tb):
            out.append(("exit", self.name, kind))
            return kind is KeyError

    with Context("a") as a, Context("b"):
        out.append(a.name)
    with Context("c"):
        raise KeyError(x)
    for i in range(3):
        with Context(i):
            if i == 1:
                break
    try:
        with Context("d"):
            raise IndexError
    except IndexError:
        out.append("index")
    return out


def operators(x, *args, k=2, **kw):
    a, b = [1, 2, 3, 4], 0 or None or x
    a[1:3] = [9]
    a[0], a[-1] = a[-1], a[0]
    b += 1
    first, *rest = args or (1, 2)
    del a[0]
    text = f"{x}{x!r:>{k + 5}}{x:03}{'s'!s}{'ä'!a} {x=}"
    tests = x < 2 <= k != 5, x is None, x is not None, 1 in a, 1 not in a, not x, -x, +x, ~x, x and k or b
    return (
        a,
        b,
        first,
        rest,
        text,
        tests,
        x if k else b,
        k if not x else a[::2],
        (x := 5),
        x,
        {**kw, "z": x},
        [*a, *args],
    )


def matching(x, *args, k=0, **kw):
    out = []
    for value in (1, "s", [1, 2, 3], {"a": 1, "b": 2}, (), None, *args):
        match value:
            case int(n) if n > k:
                out.append(("int", n))
            case str() | bytes():
                out.append("text")
            case [first, *rest]:
                out.append((first, rest))
            case {"a": a, **others}:
                out.append((a, others))
            case None:
                out.append("none")
            case _:
                out.append("other")
    return out


def scopes(x, *args, k=1, **kw):
    total = 0

    def add(n):
        nonlocal total
        total += n + x
        return lambda: (total, x, k)

    peek = add(k)
    x += 1
    add(10)
    inner = [lambda: i for i in range(2)]
    nested = [[(i, j, x) for j in range(i)] for i in range(3)]
    del add
    return peek(), [f() for f in inner], nested, total, sorted(kw), list(v for v in args if v != x)


def defaults(x, *args, k=1, **kw):
    def f(a, b=x, *, c=k, d: int = 3) -> str:
        return a, b, c, d, x

    class Base:
        def m(self, n):
            return n, type(self).__name__

    class Derived(Base):
        def m(self, n):
            return super().m(n), super().m(n + 1), __class__.__name__

    return f(1), f(1, 2, c=3, d=4), f.__annotations__, Derived().m(x)


def asserts(x, *args, k=1, **kw):
    import os.path as path
    from sys import maxsize

    try:
        assert x > 100, f"{x} is small"
    except AssertionError as error:
        return str(error), path.sep, maxsize


SAMPLES = [calls, loops, handlers, contexts, operators, matching, scopes, defaults, asserts]
