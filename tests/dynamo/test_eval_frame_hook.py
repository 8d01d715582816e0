"""The frame hook: what it replaces, what it leaves alone, and that nobody else can tell."""

import asyncio
import contextlib
import cProfile
import gc
import inspect
import pstats
import sys
import threading
import traceback
import weakref

import pytest

from minicompile.dynamo import _eval_frame as hook

THIS = __file__


class Thing:
    """Something that a weak reference can watch."""


def codes_of_this_file():
    todo = [value.__code__ for value in globals().values() if inspect.isfunction(value)]
    while todo:
        yield (code := todo.pop())
        todo += [const for const in code.co_consts if inspect.iscode(const)]


@pytest.fixture(autouse=True, params=["morph", "call"])
def way(request):
    """Every test runs in both ways of running a replacement, with empty caches, and must leave the hook off."""
    for code in codes_of_this_file():
        hook.reset(code)
    hook.set_always_call(request.param == "call")
    yield request.param
    hook.set_always_call(False)
    assert hook.set_callback(None) is None


@contextlib.contextmanager
def enabled(callback):
    old = hook.set_callback(callback)
    try:
        yield
    finally:
        hook.set_callback(old)


def copying(only=None, log=None, grow=0, guard=None):
    """A callback that replaces each plain function of this file (or those called `only`) by a copy of its code."""

    def callback(code, function, args):
        if log is not None:
            log.append((code.co_name, args))
        if code.co_filename != THIS or (only is not None and code.co_name not in only):
            return None
        return code.replace(co_stacksize=code.co_stacksize + grow), guard

    return callback


def with_constant(code, new):
    """A copy in which the constant 1000 is another one: a replacement that can be seen."""
    return code.replace(co_consts=tuple(new if c == 1000 else c for c in code.co_consts))


def changing(*names, guard=None):
    """A callback that replaces the functions called `names` by code with 2000 in place of 1000."""

    def callback(code, function, args):
        return (with_constant(code, 2000), guard) if code.co_name in names else None

    return callback


# ---- signatures -----------------------------------------------------------------------------------------------------
def test_plain_function():
    def f(a, b):
        return a + b + 1000

    with enabled(changing("f")):
        assert (f(1, 2), f(3, 4)) == (2003, 2007)
    assert f(1, 2) == 1003


def everything(a, b=2, /, c=3, *args, d, e=5, **kw):
    return a, b, c, args, d, e, kw, 1000


def stars(*args, **kw):
    return args, kw, 1000


def keyword_only(*, k=1):
    return k, 1000


@pytest.mark.parametrize(
    ("function", "args", "kwargs"),
    [
        (everything, (1,), {"d": 4}),
        (everything, (1, 9, 8, 7, 6), {"d": 4, "e": 0, "x": 1, "y": 2}),
        (everything, (1,), {"d": 4, "c": 9, "a": 5, "b": 6}),
        (stars, (), {}),
        (stars, (1, 2, 3), {"a": 1}),
        (keyword_only, (), {}),
        (keyword_only, (), {"k": 7}),
    ],
)
def test_signatures(function, args, kwargs):
    want = function(*args, **kwargs)
    hook.reset(function.__code__)
    with enabled(changing(function.__name__)):
        got = function(*args, **kwargs)
    assert got == (*want[:-1], 2000)


def test_wrong_calls_raise_what_python_raises():
    with enabled(copying()):
        for bad in (everything, lambda: everything(1), lambda: keyword_only(1), lambda: keyword_only(q=1)):
            with pytest.raises(TypeError, match="argument"):
                bad()


def test_callback_sees_the_raw_arguments_themselves():
    def f(p, *rest, kw, **more):
        return rest, more

    log, a, b, c = [], object(), object(), object()
    with enabled(copying({"f"}, log)):
        rest, more = f(a, b, kw=c, z=a)
    (seen,) = (args for name, args in log if name == "f")
    assert len(seen) == 4 and seen[0] is a and seen[1] is c and seen[2] is rest and seen[3] is more


def test_callback_and_guard_get_the_function():
    def make(n):
        def f(x, y=n):
            return x + n + 1000

        return f

    one, two, asked, guarded = make(1), make(2), [], []

    def callback(code, function, args):
        if code is not one.__code__:
            return None
        asked.append((function, args))
        return with_constant(code, 2000), lambda fn, x, y: guarded.append((fn, x, y)) or fn is function

    with enabled(callback):
        results = [one(10), one(20), two(10), two(20)]
    assert results == [2011, 2021, 2012, 2022]
    assert asked == [(one, (10, 1)), (two, (10, 2))]
    assert guarded == [(one, 20, 1), (two, 10, 2), (two, 20, 2)]


def test_many_arguments():
    names = [f"a{i}" for i in range(40)]
    space = {}
    exec(compile(f"def f({', '.join(names)}): return ({', '.join(names)}, 1000)", THIS, "exec"), space)
    guard_args = []
    with enabled(changing("f", guard=lambda fn, *args: guard_args.append(args) is None)):
        assert [space["f"](*range(40))[-1] for _ in range(2)] == [2000, 2000]
    assert guard_args == [tuple(range(40))]


# ---- cells, closures, frames that grow ------------------------------------------------------------------------------
@pytest.mark.parametrize("grow", [0, 40, 3000])
def test_closures(grow):
    def outer(x, y):
        n = 0

        def inner(z):
            nonlocal n
            n += x  # x: an argument that is a cell
            return n + y + z, (lambda: (x, z))

        return inner

    with enabled(copying(grow=grow)):
        one, two = outer(1, 10), outer(5, 50)
        (r1, l1), (r2, l2), (r3, l3) = one(100), two(200), one(300)
        assert (r1, r2, r3, l1(), l2(), l3()) == (111, 255, 312, (1, 100), (5, 200), (1, 300))
    assert len(hook.entries(outer.__code__)) == len(hook.entries(one.__code__)) == 1


def test_star_arguments_that_are_cells():
    def f(*args, **kw):
        return lambda: (args, kw)

    with enabled(copying({"f"})):
        g = f(1, 2, k=3)
    assert g() == ((1, 2), {"k": 3})


def test_empty_cell():
    def outer():
        def inner():
            return later

        out = []
        try:
            inner()
        except NameError as error:
            out.append(str(error))
        later = 5
        return [*out, inner()]

    want = outer()
    with enabled(copying({"outer", "inner"})):
        assert outer() == want


def test_replacement_with_more_or_fewer_locals():
    body = "".join(f"    v{i} = a + {i}\n" for i in range(300)) + "    return a, rest, v0, v299\n"
    space = {}
    exec(compile("def big(a, *rest):\n" + body, THIS, "exec"), space)

    def small(a, *rest):
        return None

    def with_locals(a, *rest):
        x = y = z = a
        return x, y, z, rest

    big = space["big"].__code__
    with enabled(lambda code, fn, args: (big, None) if code is small.__code__ else None):
        assert small(7, 8, 9) == (7, (8, 9), 7, 306)
    empty = (lambda a, *rest: None).__code__
    with enabled(lambda code, fn, args: (empty, None) if code is with_locals.__code__ else None):
        assert with_locals(1, 2) is None


def test_super_and_class_cell():
    class A:
        def m(self, x):
            return "A", x

    class B(A):
        def m(self, x):
            return "B", super().m(x), __class__

    class C(B):
        def m(self, *args):
            return "C", super().m(*args)

    want = C().m(1)
    with enabled(copying()):
        assert C().m(1) == want


def test_builtins_of_the_function_are_kept():
    space = {"__builtins__": {"len": lambda x: "other"}}
    exec(compile("def f(x): return len(x)", THIS, "exec"), space)
    with enabled(copying()):
        assert space["f"]([1]) == "other"


@pytest.mark.parametrize(
    "bad", [(lambda a, b: a).__code__, 5, (lambda a: (yield)).__code__], ids=["arguments", "number", "kind"]
)
def test_replacement_that_does_not_fit(bad):
    def f(a):
        return a

    with enabled(lambda code, fn, args: (bad, None) if code is f.__code__ else None):
        with pytest.raises(TypeError, match="does not fit"):
            f(1)
    assert f(3) == 3


def test_callback_that_returns_nonsense():
    def f(a):
        return a

    with enabled(lambda code, fn, args: 17 if code is f.__code__ else None):
        with pytest.raises(TypeError, match="None, False or"):
            f(1)


# ---- what the hook leaves alone -------------------------------------------------------------------------------------
def test_generators_and_coroutines_are_left_alone():
    log = []

    def helper(i):
        return i * 10

    def gen(n):
        for i in range(n):
            got = yield helper(i)
            if got:
                yield got

    async def co(x):
        await asyncio.sleep(0)
        return helper(x)

    async def agen():
        for i in range(3):
            yield helper(i)

    async def main():
        return await co(4), [v async for v in agen()], await asyncio.gather(co(1), co(2))

    with enabled(copying({"helper", "gen", "co", "agen", "main"}, log)):
        g = gen(3)
        assert [next(g), g.send("s"), next(g), *g] == [0, "s", 10, 20]
        g = gen(3)
        next(g)
        with pytest.raises(KeyError):
            g.throw(KeyError("k"))
        g = gen(3)
        next(g)
        g.close()
        assert list(map(helper, range(4))) == [0, 10, 20, 30]
        assert tuple(helper(i) for i in range(2)) == (0, 10)
        assert asyncio.run(main()) == (40, [0, 10, 20], [10, 20])
    names = {name for name, _ in log}
    assert "helper" in names
    assert not names & {"gen", "co", "agen", "main", "<genexpr>"}


def test_class_bodies_exec_and_eval_are_left_alone():
    log = []
    with enabled(copying(log=log)):

        class K:
            x = 1

            def m(self):
                return __class__, self.x

        space = {}
        exec("def q(a):\n    return a + 1\nz = q(1)\nw = [q(i) for i in range(3)]", space)
        assert eval("space['q'](5) + k", {"space": space}, {"k": 1}) == 7
        assert K().m() == (K, 1)
    assert (space["z"], space["w"]) == (2, [1, 2, 3])
    names = {name for name, _ in log}
    assert {"q", "m"} <= names and not names & {"K", "<module>"}


def test_every_kind_of_python_call_is_seen():
    class M:
        def __init__(self, v):
            self.v = v

        @property
        def prop(self):
            return self.v + 1

        def meth(self):
            return self.v

        def __getitem__(self, i):
            return i + self.v

        def __getattr__(self, name):
            return name

        def __lt__(self, other):
            return self.v < other.v

        def __call__(self, x):
            return x

        def __enter__(self):
            return self

        def __exit__(self, *exc):
            return True

        @classmethod
        def cm(cls):
            return cls

    def leaf(x):
        return -x

    def body():
        m = M(3)
        with m:
            raise ValueError
        by_c = list(map(leaf, [1, 2])), sorted([1, 2], key=leaf), sorted([M(2), M(1)])[0].v
        return m.meth(), m.prop, m[4], m.zzz, m(9), m.cm(), leaf(1), by_c

    want = [body() for _ in range(50)][0]  # also warms up the specialiser
    log = []
    with enabled(lambda code, fn, args: log.append(code.co_name)):
        assert [body() for _ in range(50)] == [want] * 50
    for name in ("body", "meth", "prop", "__getitem__", "__getattr__", "__lt__", "__call__", "__enter__", "cm"):
        assert log.count(name) == 50, name
    assert log.count("leaf") == 250
    with enabled(copying()):
        assert body() == want


# ---- the cache ------------------------------------------------------------------------------------------------------
def test_none_asks_again_and_false_never():
    def f():
        return 1

    log = []
    with enabled(lambda code, fn, args: log.append(code.co_name)):
        assert (f(), f()) == (1, 1)
    assert log.count("f") == 2
    with enabled(lambda code, fn, args: log.append(code.co_name) or False):
        assert (f(), f()) == (1, 1)
    assert log.count("f") == 3
    hook.reset(f.__code__)
    with enabled(lambda code, fn, args: log.append(code.co_name)):
        f()
    assert log.count("f") == 4
    hook.skip(f.__code__)
    with enabled(lambda code, fn, args: log.append(code.co_name)):
        f()
    assert log.count("f") == 4 and hook.entries(f.__code__) == []


def by_type(function, made):
    """A callback that compiles `function` once per type of its argument, numbering the results from 1001."""

    def callback(code, fn, args):
        if code is not function.__code__:
            return None
        made.append(type(args[0]))
        kind = type(args[0])
        return with_constant(code, 1000 + len(made)), lambda fn, x: type(x) is kind

    return callback


def test_guards_choose_the_entry_and_the_last_hit_comes_first():
    def f(x):
        return 1000

    made = []
    with enabled(by_type(f, made)):
        assert [f(1), f("a"), f(2), f(2.0), f("b"), f(3.0)] == [1001, 1002, 1001, 1003, 1002, 1003]
        assert made == [int, str, float]
        order = [next(c for c in code.co_consts if c) for _, code in hook.entries(f.__code__)]
        assert order == [1003, 1002, 1001]
        f(5)
    assert [next(c for c in code.co_consts if c) for _, code in hook.entries(f.__code__)] == [1001, 1003, 1002]


def test_invalidate_removes_one_entry():
    def f(x):
        return 1000

    made = []
    with enabled(by_type(f, made)):
        f(1), f("a"), f(2.0)
        entries = hook.entries(f.__code__)
        assert hook.invalidate(f.__code__, entries[1][0]) is True
        assert hook.invalidate(f.__code__, entries[1][0]) is False
        assert hook.entries(f.__code__) == [entries[0], entries[2]]
        assert f("b") == 1004
        for guard, _ in hook.entries(f.__code__):
            hook.invalidate(f.__code__, guard)
        assert hook.entries(f.__code__) == []
        assert f(1) == 1005


def test_guard_may_change_the_cache_under_itself():
    def f(x):
        return 1000

    def resets(fn, x):
        hook.reset(f.__code__)
        gc.collect()
        return True

    with enabled(changing("f", guard=resets)):
        assert [f(1) for _ in range(4)] == [2000] * 4


def test_entry_may_look_at_the_cache_when_it_dies():
    def f(x):
        return 1000

    class Guard:
        def __call__(self, fn, x):
            return True

        def __del__(self):
            seen.append(hook.entries(f.__code__))

    seen = []
    with enabled(changing("f", guard=Guard())):
        f(1)
    hook.reset(f.__code__)
    assert seen == [[]]


def test_guard_exception_reaches_the_caller():
    def f(x):
        return x

    def bad(fn, x):
        raise LookupError("from the guard")

    with enabled(copying({"f"}, guard=bad)):
        f(1)
        with pytest.raises(LookupError, match="from the guard"):
            f(1)
    assert f(1) == 1


def test_cache_dies_with_its_code():
    space = {}
    exec(compile("def f(x): return x", THIS, "exec"), space)

    class Guard:
        def __call__(self, fn, x):
            return True

    guard = Guard()
    watch = weakref.ref(guard)
    with enabled(copying({"f"}, guard=guard)):
        space["f"](1), space["f"](2)
    del guard
    assert watch() is not None
    del space  # not cleared: nothing in the cache may hold on to the function's globals
    gc.collect()
    assert watch() is None


# ---- exceptions and recursion ---------------------------------------------------------------------------------------
def test_traceback():
    def a(x):
        y = x
        return b(y)

    def b(x):
        try:
            c(x)
        finally:
            x = 0

    def c(x):
        raise ValueError("boom", x)

    def story():
        try:
            a(1)
        except ValueError as error:
            frames = traceback.extract_tb(error.__traceback__)
            return [(f.name, f.lineno, f.colno, f.end_colno) for f in frames], error.args

    want = story()
    with enabled(copying()):
        assert story() == want
    assert len(hook.entries(c.__code__)) == 1


def test_exception_in_the_callback_reaches_the_caller():
    def f(x):
        return x

    def callback(code, fn, args):
        if code is f.__code__:
            raise ZeroDivisionError("from the callback")

    thing = Thing()
    watch = weakref.ref(thing)
    with enabled(callback):
        for _ in range(100):
            with pytest.raises(ZeroDivisionError, match="from the callback") as caught:
                f(thing)
    assert [frame.name for frame in caught.traceback][1:] == ["callback"]
    del thing, caught
    gc.collect()
    assert watch() is None and f(2) == 2


def test_where_the_compiler_has_no_room_the_frame_runs_as_it_is():
    def f(x):
        return x

    def no_room(*arguments):
        return no_room(*arguments)

    def room_once(code, fn, args):
        return copying({"f"}, guard=no_room)(code, fn, args) if not hook.entries(code) else no_room()

    for callback in (no_room, room_once):
        with enabled(callback):
            assert [f(1), f(2), f(3)] == [1, 2, 3]
        hook.reset(f.__code__)


@contextlib.contextmanager
def recursion_limit(limit):
    old = sys.getrecursionlimit()
    sys.setrecursionlimit(limit)
    try:
        yield
    finally:
        sys.setrecursionlimit(old)


def endless(n):
    return endless(n + 1)


CALLBACKS = {
    "pass": lambda code, fn, args: None,
    "copy": copying({"endless"}),
    "grow": copying({"endless"}, grow=300),
    "guard": copying({"endless"}, guard=lambda fn, n: n >= 0),
}


@pytest.mark.parametrize("limit", [600, 1000, 30_000])
@pytest.mark.parametrize("kind", CALLBACKS)
def test_recursion_error(limit, kind):
    hook.reset(endless.__code__)
    with recursion_limit(len(inspect.stack()) + limit), enabled(CALLBACKS[kind]):
        for _ in range(2):
            with pytest.raises(RecursionError) as caught:
                endless(0)
            depth, tb = 0, caught.value.__traceback__
            while tb is not None:
                depth, tb = depth + 1, tb.tb_next
            assert depth > min(limit, 2000) * 0.8


@pytest.mark.parametrize("kind", ["pass", "copy", "skip"])
def test_depth_that_works_without_the_hook(kind):
    def down(n):
        return 0 if n == 0 else 1 + down(n - 1)

    callback = {"skip": lambda code, fn, args: False, "copy": copying({"down"})}.get(kind, CALLBACKS["pass"])
    with recursion_limit(len(inspect.stack()) + 1000), enabled(callback):
        assert down(900) == 900


def test_recursion_error_in_a_thread():
    hook.reset(endless.__code__)
    out = []

    def run():
        with enabled(copying({"endless"})):
            try:
                endless(0)
            except RecursionError:
                out.append(True)

    with recursion_limit(20_000):
        thread = threading.Thread(target=run)
        thread.start()
        thread.join()
    assert out == [True]


# ---- frames, tracing, profiling -------------------------------------------------------------------------------------
def test_frames_look_the_same():
    def f(x):
        frame = sys._getframe()
        return frame.f_code.co_name, frame.f_back.f_code.co_name, dict(frame.f_locals)["x"], frame.f_lineno, frame

    def caller():
        return f(5)

    want = caller()
    with enabled(copying()):
        got = caller()
    assert got[:4] == want[:4]
    assert got[4].f_code is not want[4].f_code and got[4].f_locals["x"] == 5  # the frame outlives the call


def test_locals(way):
    def g(a, *b, **c):
        return inspect.getargvalues(sys._getframe())[:3], locals()

    want = g(1, 2, z=3)
    with enabled(copying()):
        got = g(1, 2, z=3)
    assert got[1] == want[1]
    if way == "morph":  # the flattened function of the other way has plain arguments only
        assert got[0] == want[0]


@pytest.mark.parametrize("setter", [sys.settrace, sys.setprofile], ids=["settrace", "setprofile"])
def test_tracers_see_the_same_events(setter):
    def leaf(x):
        y = x + 1
        return y

    def top(x):
        return leaf(x) + leaf(x)

    def events():
        seen = []

        def tracer(frame, event, arg):
            if frame.f_code.co_filename == THIS:
                seen.append((frame.f_code.co_name, event, frame.f_lineno))
            return tracer

        setter(tracer)
        try:
            top(3)
        finally:
            setter(None)
        return [event for event in seen if event[0] != "events"]

    want = events()
    with enabled(copying({"leaf", "top"})):
        events()  # compiles: the callback is seen
    with enabled(copying({"leaf", "top"}, guard=lambda fn, x: True)):
        hook.reset(leaf.__code__), hook.reset(top.__code__)
        top(3)
        assert events() == want  # guards are not
    assert len(want) > 5


def test_profiler_counts_the_same():
    def leaf(x):
        return x + 1

    def top(x):
        return leaf(x) + leaf(x)

    def counts():
        profile = cProfile.Profile()
        profile.enable()
        for _ in range(10):
            top(1)
        profile.disable()
        stats = pstats.Stats(profile).stats
        return {key[2]: value[:2] for key, value in stats.items() if key[2] in ("leaf", "top")}

    want = counts()
    with enabled(copying({"leaf", "top"}, guard=lambda fn, x: True)):
        assert counts() == want
    assert want == {"leaf": (20, 20), "top": (10, 10)}


@pytest.mark.skipif(sys.version_info < (3, 12), reason="sys.monitoring")
def test_monitoring_sees_the_same_events():
    def leaf(x):
        return x + 1

    tool, events, seen = 3, sys.monitoring.events, []

    def record(kind):
        return lambda code, offset, *value: code.co_name == "leaf" and seen.append((kind, *value)) or None

    sys.monitoring.use_tool_id(tool, "test")
    sys.monitoring.register_callback(tool, events.PY_START, record("start"))
    sys.monitoring.register_callback(tool, events.PY_RETURN, record("return"))
    sys.monitoring.set_events(tool, events.PY_START | events.PY_RETURN)
    try:
        with enabled(copying({"leaf"})):
            leaf(1), leaf(2)
    finally:
        sys.monitoring.set_events(tool, 0)
        sys.monitoring.free_tool_id(tool)
    assert seen == [("start",), ("return", 2), ("start",), ("return", 3)]


# ---- threads, re-entrancy, call -------------------------------------------------------------------------------------
@contextlib.contextmanager
def switch_interval(seconds):
    old = sys.getswitchinterval()
    sys.setswitchinterval(seconds)
    try:
        yield
    finally:
        sys.setswitchinterval(old)


def run_threads(*targets):
    threads = [threading.Thread(target=target) for target in targets]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def test_threads_without_a_callback_are_left_alone():
    def f(x):
        return x + 1000

    results, start = {}, threading.Barrier(4)

    def work(number):
        start.wait()
        with enabled(changing("f") if number % 2 else None):
            results[number] = {f(k) - k for k in range(10_000)}

    with switch_interval(1e-5):
        run_threads(*(lambda n=n: work(n) for n in range(4)))
    assert results == {0: {1000}, 1: {2000}, 2: {1000}, 3: {2000}}


def test_threads_race_on_one_cache():
    def f(x):
        return x

    def callback(code, fn, args):
        if code is not f.__code__:
            return None
        value = args[0] % 50
        return code.replace(), lambda fn, x: x % 50 == value

    errors = []

    def work():
        try:
            with enabled(callback):
                for k in range(3000):
                    assert f(k) == k
                    if k % 997 == 0:
                        hook.reset(f.__code__)
        except BaseException as error:
            errors.append(error)

    with switch_interval(1e-6):
        run_threads(*[work] * 4)
    assert errors == []


def test_hook_is_off_inside_the_callback():
    asked = []

    def helper():
        return 1

    def f():
        return helper()

    def callback(code, fn, args):
        asked.append(code.co_name)
        helper(), f()

    with enabled(callback):
        f()
    assert [name for name in asked if name in ("f", "helper")] == ["f", "helper"]


def test_callback_may_switch_the_hook():
    def inner():
        return 1000

    def g():
        with enabled(None):
            x = inner()
        return x, inner()

    with enabled(changing("g", "inner")):
        assert g() == (1000, 2000)

    compiled = []

    def callback(code, fn, args):
        if code.co_name == "g":
            with enabled(changing("inner")):  # the compiler runs compiled code
                compiled.append(inner())
            hook.set_callback(changing("inner"))  # and leaves a callback behind

    hook.reset(g.__code__)
    with enabled(callback):
        assert g() == (1000, 1000) and compiled == [2000]  # an entry serves the callback that made it


def test_call():
    def f(a, *, k):
        return a, k, 1000, outer_is_off()

    def outer_is_off():
        return 1000

    assert hook.call(changing("f"), f, 1, k=2) == (1, 2, 2000, 1000)
    with pytest.raises(TypeError):
        hook.call(changing("f"), f)
    with pytest.raises(TypeError):
        hook.call(changing("f"))
    assert hook.set_callback(None) is None
    with enabled(changing("outer_is_off")):
        assert hook.call(None, f, 1, k=2) == (1, 2, 1000, 1000)
        assert outer_is_off() == 2000  # the earlier callback is back


def test_nested_callbacks_end_in_order():
    log = []

    def callback(code, fn, args):
        log.append(code.co_name)

    with enabled(callback):
        with enabled(copying({"nothing"})):
            keyword_only()
        assert "keyword_only" not in log
        keyword_only()
    keyword_only()
    assert log.count("keyword_only") == 1


# ---- lifetimes ------------------------------------------------------------------------------------------------------
def test_arguments_die_with_the_call():
    def f(*args):
        return weakref.ref(args[0])

    with enabled(copying({"f"})):
        watch = f(Thing())
    assert watch() is None


def lifetime_functions():
    def plain(a, b=2):
        return a

    def variadic(*args, **kw):
        return args

    def outer(x):
        def inner(y):
            return x

        return inner

    def boom(x):
        raise ValueError

    return plain, variadic, outer, outer(1), boom


def test_references_balance():
    plain, variadic, outer, inner, boom = lifetime_functions()

    def loop(n):
        thing = Thing()
        for _ in range(n):
            plain(thing), plain(thing, b=thing), variadic(thing, thing, k=thing), inner(thing), outer(thing)(thing)
            with contextlib.suppress(ValueError):
                boom(thing)
        return sys.getrefcount(thing)

    def measure(n):
        count = loop(n)
        gc.collect()
        watched = (plain, variadic, inner, outer, boom, plain.__code__, inner.__closure__[0], boom.__code__, globals())
        return (count, *map(sys.getrefcount, watched)), len(gc.get_objects()), sys.getallocatedblocks()

    with enabled(copying({"plain", "variadic", "outer", "inner", "boom"})):
        loop(100), measure(1)
        few, *few_totals = measure(10)
        many, *many_totals = measure(3000)
    assert few == many
    grown = [b - a for a, b in zip(few_totals, many_totals, strict=True)]
    assert max(grown) < 1000, grown  # a leak is one a round; the runner's threads and earlier tests move some meanwhile


def resident_kilobytes():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("guard", [None, lambda fn, *args: True], ids=["no guard", "guard"])
def test_a_million_calls_leak_nothing(guard):
    """A million calls in the four runs of this test together; each kind of function in turn."""
    plain, variadic, outer, inner, boom = lifetime_functions()

    def loop(n):
        thing = Thing()
        for _ in range(n):
            plain(thing), variadic(thing, k=thing), inner(thing), outer(thing)
            with contextlib.suppress(ValueError):
                boom(thing)

    with enabled(copying({"plain", "variadic", "outer", "inner", "boom"}, guard=guard, grow=20)):
        loop(1000)
        gc.collect()
        before = resident_kilobytes(), sys.getallocatedblocks()
        loop(50_000)
        gc.collect()
        after = resident_kilobytes(), sys.getallocatedblocks()
    assert after[1] - before[1] < 100 and after[0] - before[0] < 2000
