"""Small programs that hold, together, every opcode which the compilers of CPython 3.11 to 3.13 write into functions.

Goes in: nothing.  Comes out: PROGRAMS, source texts that define `f(x)`; `opcodes_of(code)`, nested code included.
"""

import dis
import sys
import types

PROGRAMS = {
    "arithmetic": """
def f(x, n=3):
    return +x, -x, ~n, not n, x + n, x @ x, n ** 2 // 3 % 5 << 1 >> 1 & 7 | 8 ^ 1, n < 4 <= 9, n is None, n in (1, 3)
""",
    "in place": """
def f(x, n=3):
    x = x * 1
    x += 1; n -= 1; n *= 2; n @= M; x[0] = 5
    return x, n
class Matrix:
    def __rmatmul__(self, other): return other
M = Matrix()
""",
    "containers": """
def f(x, *rest, k=1, **named):
    a, (b, *c), [d] = 1, (2, 3, 4), [5]
    table = {"k": k, a: b, **named}
    table["s"] = table.pop("k")
    words = [*rest, a, *c]
    words[0:1] = [9]
    del words[0], table["s"]
    keyed = {"p": x, "q": a}
    a, b = b, a
    text = f"{a}{b!r}{d:>{a}}"
    return x + a, {a, b, *c}, words[0:1], words[0:1:1], text, slice(a, b), keyed, [1, 2, 3], {1, 2, 3}, (*c, a), table
""",
    "comprehensions": """
def f(x):
    n = 4
    lists = [i + n for i in range(n) if i]
    sets, tables = {i for i in range(n)}, {i: i * n for i in range(n)}
    return x, lists, sets, tables, list(i for i in lists), [[j for j in range(i)] for i in range(3)]
""",
    "closures": """
def f(x, n=1):
    def inner(m, *, k: int = 2) -> int:
        nonlocal n
        n += m
        return n + k
    late = lambda: box
    box = inner(3)
    value = late()
    del box
    try:
        late()
    except NameError as error:
        value += len(type(error).__name__)
    return x, value, inner(1, k=0), inner.__annotations__
""",
    "names": """
def f(x):
    global counter, fleeting
    counter = 1
    fleeting = 2
    del fleeting
    import math as mathematics
    from math import floor, pi
    import os.path
    return x, counter, floor(pi), mathematics.sqrt(4.0), os.path.sep, len([1])
""",
    "attributes": """
class Holder:
    def __init__(self): self.a = 1
    def method(self, n, k=2): return self.a + n + k
class Derived(Holder):
    def method(self, n, **named): return super().method(n, **named) * 2
    def bare(self): return super().__init__, super(Derived, self).a
def f(x):
    h = Derived()
    h.b = h.a
    del h.a
    h.a = 5
    return x, h.method(1), h.method(1, k=3), h.b, callable(h.bare()[0]) if False else h.a
""",
    "jumps": """
def f(x, n=3, missing=None):
    found = []
    while n:
        n -= 1
        if n == 1 and missing is None or n > 5:
            continue
        found.append(n if missing is None else 0)
    for i in range(300):
        if i == 2:
            break
    else:
        found.append("else")
    while True:
        if missing is not None: break
        missing = n or 1
    k = 0
    while k is not None:
        k = None if k > 2 else k + 1
    k = None
    while k is None:
        k = 1
    return x, found, n or missing, n and missing, i
""",
    "far jumps": "def f(x, n=3):\n    for i in range(2):\n        if n:\n"
    + "".join(f"            n = n + {k}; n = n - {k}\n" for k in range(300, 420))
    + "    return x, n, i\n",
    "exceptions": """
def f(x):
    found = []
    for kind in (KeyError, ValueError, None):
        try:
            try:
                if kind: raise kind("text") from None
            except KeyError as error:
                found.append(str(error))
                raise
            except (ValueError, TypeError):
                found.append("value")
            else:
                found.append("none")
            finally:
                found.append("finally")
        except LookupError:
            found.append("lookup")
    try:
        assert not found, "message"
    except AssertionError as error:
        found.append(str(error))
    return x, found
""",
    "unbound": """
def f(x, n=0):
    if n: late = 1
    try:
        return late
    except UnboundLocalError as error:
        message = str(error)
    y = 1
    del y
    [y for y in (1, 2)]
    return x, message
""",
    "with": """
class Manager:
    def __enter__(self): return 3
    def __exit__(self, *error): return True
def f(x):
    with Manager() as a, Manager():
        x = x + a
    with Manager():
        raise ValueError
    return x
""",
    "match": """
class Point:
    __match_args__ = ("a", "b")
    def __init__(self, a, b): self.a, self.b = a, b
def kind(value):
    match value:
        case [a, *rest]: return "sequence", a, rest
        case {"k": a, **others}: return "mapping", a, others
        case Point(1, b=2) | Point(3, 4): return "point"
        case str() as text: return text
        case None: return "none"
        case _: return "other"
def f(x):
    return x, [kind(v) for v in ([1, 2], {"k": 1, "j": 2}, Point(1, 2), Point(3, 4), Point(5, 6), "text", None, 7)]
""",
    "generators": """
def inner(n):
    got = yield n
    try:
        yield got
    finally:
        yield "closing"
    return n
def outer(n):
    result = yield from inner(n)
    yield result
    yield from [1, 2]
def f(x):
    made = outer(5)
    return x, next(made), made.send("sent"), list(made), [a for a in (b * 2 for b in range(3))]
""",
    "calls": """
def show(*args, **named): return args, named
def f(x):
    some, more = [1, 2], {"k": 1}
    called = show(1, k=2), show(*some), show(*some, **more), show(1, *some, j=0, **more, **{"l": 2})
    return x, called, "a".join(["b", "c"])
""",
    "class statement": """
def f(x, outer=2):
    class Made(list, metaclass=type):
        "A text."
        __slots__ = ()
        kind: int = outer
        other = kind + outer
        del kind
        def size(self): return len(self), __class__
    return x, Made([1]).size()[0], Made.other, Made.__annotations__
""",
    "groups of exceptions": """
def f(x):
    found = []
    try:
        raise ExceptionGroup("several", [ValueError(1), TypeError(2)])
    except* ValueError as group:
        found.append([error.args for error in group.exceptions])
    except* TypeError:
        found.append("type")
    return x, found
""",
    "coroutines": """
class Manager:
    async def __aenter__(self): return 3
    async def __aexit__(self, *error): return True
async def numbers(n):
    for i in range(n):
        yield i
class Awaitable:
    def __await__(self):
        yield "asked"
        return 4
async def work(n):
    async with Manager() as three:
        found = [i + three async for i in numbers(n)]
        raise ValueError
    async for i in numbers(2):
        found.append(i)
    return found, await Awaitable()
def f(x):
    made = work(3)
    asked = made.send(None)
    try:
        made.send(None)
    except StopIteration as stop:
        return x, asked, stop.value
""",
}
if sys.version_info >= (3, 12):
    PROGRAMS["type parameters"] = """
def f(x):
    def first[T: int, *Ts, **P](items: list[T]) -> T: return items[0]
    class Box[T](list):
        def get[S: int](self, other: str = "") -> T: return self[0]
    type Pair[A] = tuple[A, A]
    return x, first([1]), Box([2]).get(), [p.__name__ for p in first.__type_params__], str(Pair.__value__)
"""


def opcodes_of(code):
    """The names of all opcodes of a code object and of those inside it."""
    names = {instruction.opname for instruction in dis.get_instructions(code)}
    if any(instruction.opname == "EXTENDED_ARG" for instruction in dis.get_instructions(code)):
        names.add("EXTENDED_ARG")
    return names.union(*(opcodes_of(const) for const in code.co_consts if isinstance(const, types.CodeType)))
