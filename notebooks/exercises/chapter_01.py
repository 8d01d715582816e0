"""Checks for chapter 01: frames entered, argument slots, and two callbacks: other constants, results remembered."""

import textwrap

from minicompile.dynamo import _eval_frame as hook
from minicompile.dynamo.bytecode import Instruction, assemble, decode

from .verdict import judge


def fresh(source, name="f", **names):
    """A function of newly compiled source: the hook has not seen its code objects before."""
    exec(compile(textwrap.dedent(source), "<exercise>", "exec"), names)
    return names[name]


def returning(code, value):
    """Code that takes what `code` takes, does nothing, and returns `value`."""
    instructions = decode(code)
    start = next(k for k, instruction in enumerate(instructions) if instruction.opname == "RESUME") + 1
    return assemble([*instructions[:start], Instruction("LOAD_CONST", argval=value), Instruction("RETURN_VALUE")], code)


def hook_was_left_on():
    """Whether a callback is still set on this thread; takes it away."""
    return hook.set_callback(None) is not None


NOTHING = "your function returned None; write its body first"


def check_01_1(frames_entered):
    """frames_entered(fn, *args) -> names of the plain Python functions entered, in order."""

    def trial(about, wanted, source, *args):
        def run():
            got = frames_entered(fresh(source), *args)
            if hook_was_left_on():
                return "the hook is still on after your function returned; `hook.call` switches it off by itself"
            if got is None:
                return NOTHING
            return None if list(got) == wanted else f"{about}: expected {wanted}, got {list(got)}"

        return run

    def raising():
        try:
            frames_entered(fresh("def f(): raise ValueError('on purpose')"))
        except ValueError:
            pass
        return "fn raised, and the hook stayed on; `hook.call` switches it off" if hook_was_left_on() else None

    chain = "def h(): pass\ndef g(): h()\ndef f(): g()"
    by_sorted = "def key(v): return v\ndef f(): sorted([1], key=key)"
    trials = [
        trial("one function", ["f"], "def f(): return 1"),
        trial("a function with an argument", ["f"], "def f(x): return x", 3),
        trial("f calls g calls h", ["f", "g", "h"], chain),
        trial("g called twice", ["f", "g", "g"], "def g(): pass\ndef f(): g(); g()"),
        trial("a recursion is a frame for each call", ["f"] * 4, "def f(n): return n and f(n - 1)", 3),
        trial("a function called from C, by sorted", ["f", "key"], by_sorted),
        trial("a generator is no plain function", ["f"], "def g(): yield 1\ndef f(): return list(g())"),
        trial("the next count starts again from nothing", ["f"], "def f(): return 2"),
        raising,
    ]
    return judge(trials, "None asks again next time; False would have hidden the second call")


def check_01_2(slots):
    """slots(function, args, kwargs) -> tuple of what stands in the argument slots of the frame of function."""

    def trial(about, wanted, function, *args, **kwargs):
        def run():
            got = slots(function, args, kwargs)
            if hook_was_left_on():
                return "the hook is still on after your function returned; `hook.call` switches it off by itself"
            if got is None:
                return NOTHING
            return None if got == wanted else f"{about}: expected {wanted}, got {got}"

        return run

    many = "def f(a, b=2, *rest, k=3, **more): return a"
    inside = "def g(z): return z\ndef f(x, y): return g(x + y)"
    bound = fresh("class C:\n  def m(self, x): return x\nf = C().m")
    trials = [
        trial("two arguments", (1, 2), fresh("def f(a, b): return a"), 1, 2),
        trial("arguments by name, in another order", (1, 2), fresh("def f(a, b): return a"), b=2, a=1),
        trial("a default that nobody passed", (1, 7), fresh("def f(a, b=7): return a"), 1),
        trial("f calls another function, whose frame does not count", (1, 2), fresh(inside), 1, 2),
        trial("keyword-only slots come before *rest and **more", (1, 2, 3, (), {}), fresh(many), 1),
        trial("more than f names", (1, 9, 5, (8, 7), {"z": 6}), fresh(many), 1, 9, 8, 7, k=5, z=6),
        trial("a bound method has its object in slot 0", (bound.__self__, 4), bound, 4),
        trial("no arguments, no slots", (), fresh("def f(): return 1")),
    ]
    return judge(trials, "the frame has its arguments sorted before anybody can ask")


def check_01_3(replacing):
    """replacing(old, new) -> a callback for the hook that puts constant `new` where the code has `old`."""
    empty = fresh("def f(x): return x")

    def trial(about, old, new, wanted, source, *args):
        def run():
            callback = replacing(old, new)
            if callback is None:
                return NOTHING
            got = hook.call(callback, fresh(source), *args)
            same = repr(got) == repr(wanted)
            return None if same else f"{about}: replacing {old!r} by {new!r} should give {wanted!r}, got {got!r}"

        return run

    def untouched():
        hook.call(replacing(2, 3), empty, 1)
        made = len(hook.entries(empty.__code__))
        hook.reset(empty.__code__)
        return "a function without the constant was replaced by a copy of itself; answer False there" if made else None

    kinds = "def f():\n  a = 1\n  b = True\n  c = 1.0\n  return a, b, c"
    trials = [
        trial("one constant", 2, 3, 30, "def f(x): return x * 2", 10),
        trial("in a function that f calls", 2, 3, 31, "def g(x): return x * 2\ndef f(x): return g(x) + 1", 10),
        trial("in a recursion", 2, 3, 27, "def f(n): return 2 * f(n - 1) if n else 1", 3),
        trial("in a function made by f", 2, 3, 30, "def f(x): return (lambda y: y * 2)(x)", 10),
        trial("1 == True == 1.0 in Python, yet they are three constants", 1, 5, (5, True, 1.0), kinds),
        trial("the other two stay as they are too", True, 5, (1, 5, 1.0), kinds),
        trial("CPython folds (2, 7) into one constant, a tuple", 2, 3, (3, 7), "def f(): return (2, 7)"),
        trial("a text", "a", "b", "bb", "def f(): return 'a' * len('xx')"),
        untouched,
    ]
    return judge(trials, "a new code object, from the old one, for every frame that needs it")


def check_01_4(remember):
    """remember(code, function, args) -> (code that returns the known result, guard): a callback that memoises."""
    ran = []

    def calls(function, *all_args):
        return [hook.call(remember, function, *args) for args in all_args]

    def trial(about, source, wanted, runs, *all_args):
        def run():
            ran.clear()
            function = fresh(source, ran=ran)
            got = calls(function, *all_args)
            if not hook.entries(function.__code__):
                return "your callback never replaced anything; return (returning(code, result), guard)"
            if repr(got) != repr(wanted):
                return f"{about}: expected {wanted}, got {got}"
            return None if len(ran) == runs else f"{about}: the body should run {runs} times, it ran {len(ran)} times"

        return run

    def closures():
        make = fresh("def f(n):\n  def g(x): return x + n\n  return g")
        one, two = make(1), make(100)
        got = [hook.call(remember, each, 5) for each in (one, two, one)]
        return None if got == [6, 105, 6] else f"two closures share their code but not their cells: got {got}"

    def changed_list():
        function, values = fresh("def f(v): return sum(v)"), [1, 2]
        got = [hook.call(remember, function, values)]
        values.append(10)
        got.append(hook.call(remember, function, values))
        return None if got == [3, 13] else f"the same list, changed between two calls: expected [3, 13], got {got}"

    square = "def f(x):\n  ran.append(x)\n  return x * x"
    show = "def f(x):\n  ran.append(x)\n  return repr(x)"
    trials = [
        trial("one call", square, [9], 1, (3,)),
        trial("the same argument again", square, [9, 9, 9], 1, (3,), (3,), (3,)),
        trial("another argument", square, [9, 16], 2, (3,), (4,)),
        trial("there and back", square, [9, 16, 9, 16], 2, (3,), (4,), (3,), (4,)),
        trial("1, True and 1.0 are equal, and not the same", show, ["1", "True", "1.0"], 3, (1,), (True,), (1.0,)),
        closures,
        changed_list,
        trial("0.0 == -0.0, and not the same", show, ["0.0", "-0.0"], 2, (0.0,), (-0.0,)),
        trial("two arguments", "def f(a, b):\n  ran.append(a)\n  return a - b", [1, -1, 1], 2, (3, 2), (2, 3), (3, 2)),
    ]
    return judge(trials, "that is what minicompile does, with graphs in place of results")
