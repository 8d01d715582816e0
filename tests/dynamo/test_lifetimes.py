"""When objects die: a value that the program drops dies then, also around graph breaks; one that it keeps lives."""

import collections
import functools
import gc
import inspect
import itertools
import re
import subprocess
import sys
import weakref

import pytest
import torch

import minicompile
from minicompile import record


class Box:
    pass


class Noisy:
    def __init__(self, log):
        self.log = log

    def __del__(self):
        self.log.append("died")


def breaking():
    print(end="")


def make(value):
    """A new object from outside of the graph."""
    print(end="")
    return value()


def deleted_local(x, log):
    box = Box()
    ref = weakref.ref(box)
    breaking()
    del box
    log.append(ref() is None)
    breaking()
    log.append(ref() is None)
    return x + 1


def overwritten_tensor(x, log):
    t = x * 2
    ref = weakref.ref(t)
    breaking()
    z = t + 1
    t = None
    breaking()
    log.append(ref() is None)
    return z


def cleared_list(x, log):
    items = [x + 1, Box()]
    refs = [weakref.ref(item) for item in items]
    breaking()
    items.clear()
    log.append([ref() is None for ref in refs])
    breaking()
    log.append([ref() is None for ref in refs])
    return x


def ending(log):
    try:
        yield 1
        yield 2
    finally:
        log.append("ended")


def left_loop(x, log):
    for _ in ending(log):
        breaking()
        break
    log.append("left")
    return x + 1


def left_loops(x, log):
    for _ in ending(log):
        for _ in ending(log):
            breaking()
            break
        log.append("left")
        return x + 1


def in_a_loop(x, log):
    ref = None
    for _ in range(4):
        box = Box()
        log.append(ref is None or ref() is None)
        ref = weakref.ref(box)
        breaking()
        x = x + 1
    log.append(ref() is None)
    box = None
    log.append(ref() is None)
    return x


def unread_but_kept(x, log):
    keeper = make(lambda: Noisy(log))  # noqa: F841 (its death is what counts)
    x = x + 1
    breaking()
    x = x * 2
    breaking()
    log.append("end")
    return x


def dropped_from_the_stack(x, log):
    make(lambda: Noisy(log))
    log.append("after")
    breaking()
    return x + len([make(lambda: Noisy(log)), x + 1])


def of_an_exception(x, log):
    try:
        breaking()
        raise ValueError(make(lambda: Noisy(log)))
    except ValueError as error:
        log.append(type(error.args[0]).__name__)
        breaking()
    log.append("after")
    return x + 1


def shown(x, log):
    """Until 3.12, what `locals()` has shown lives as long as the frame."""
    box = Noisy(log)
    names = sorted(locals())
    del box
    log.append("deleted")
    breaking()
    log.append("end")
    return x + len(names)


PROGRAMS = [
    deleted_local,
    overwritten_tensor,
    cleared_list,
    left_loop,
    left_loops,
    in_a_loop,
    unread_but_kept,
    dropped_from_the_stack,
    of_an_exception,
    shown,
]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda f: f.__name__)
def test_objects_die_when_they_do_in_eager(program):
    gc.disable()
    try:
        expected, found = [], []
        result = program(torch.ones(2), expected)
        compiled = minicompile.compile(program, backend="eager")
        for _ in range(3):
            assert torch.equal(compiled(torch.ones(2), found), result)
            assert found == expected
            found.clear()
    finally:
        gc.enable()


LOSSES = {  # what is lost: (before a break, behind it)
    "an item": ("kept = {1: Noisy(log)}", "kept[1] = 3"),
    "a deleted item": ("kept = {1: Noisy(log)}", "del kept[1]"),
    "a key": ("kept = {Noisy(log): 1}", "kept.clear()"),
    "popped": ("kept = [Noisy(log), 2]", "first = kept.pop(0); log.append('popped'); del first"),
    "asked and gone": ("kept = [Noisy(log)]", "y = x + len(kept.pop().log)"),
    "cut off": ("kept = [1, Noisy(log)]", "kept[:] = [1]"),
    "pushed out": ("kept = collections.deque([Noisy(log)], 1)", "kept.append(3)"),
    "an element": ("kept = {Noisy(log)}", "kept.clear()"),
    "an attribute": ("kept = Box(); kept.item = Noisy(log)", "kept.item = 3"),
    "in __dict__": ("kept = Box(); kept.item = Noisy(log)", "vars(kept)['item'] = 3"),
    "a slot": ("kept = Slotted(); kept.item = Noisy(log)", "del kept.item"),
    "of a module": ("kept = torch.nn.Identity(); kept.item = Noisy(log)", "kept.item = 3"),
    "in a cell": ("kept = Noisy(log); held = lambda: kept", "kept = 3"),
    "a global": ("globals()['kept'] = Noisy(log)", "global kept; kept = 3"),
    "deeper": ("kept = [[Box(), Box()]]; kept[0][1].item = [Noisy(log)]", "kept.pop()"),
    "held by a function": ("kept = [(lambda held: lambda: held)(Noisy(log))]", "kept.clear()"),
    "on the stack": ("pass", "kept = [make(lambda: Noisy(log)), 1]; kept.clear()"),
    "a default": ("kept = lambda held=Noisy(log): held", "kept = 3"),
    "in an iterator": ("kept = iter([Noisy(log), 1])", "kept = 3"),
    "of an argument": ("kept = len", "y = isinstance(zip([Noisy(log)]), int); log.append(y)"),
    "at an iterator's end": ("kept = enumerate((Noisy(log), 1))", "y = [k for k, _ in kept]; log.append(y)"),
    "in a new cell": ("kept = len", "kept = (lambda held: lambda: held)(Noisy(log)); kept = 3"),
    "round by round": ("kept = [Noisy(log), [Noisy(log)]]", "y = [1 for k in ([Noisy(log)], 1)]; log.append(y)"),
    "a frame's": ("kept = (k for k in [Noisy(log)])", "y = list(kept); kept = 3; log.append(len(y)); y = 3"),
    "a generator": ("kept = [ending(log)]; next(kept[0])", "kept[0] = 3"),
}


class Slotted:
    __slots__ = ("item",)


@pytest.mark.parametrize("before, behind", LOSSES.values(), ids=LOSSES)
def test_what_is_overwritten_dies_at_once(before, behind):
    lines = [before, "breaking()", behind, "log.append('after')", "breaking()", "return x + 1"]
    namespace = {**globals(), "collections": collections}
    exec("def program(x, log):\n" + "\n".join(f"    {line}" for line in lines), namespace)
    test_objects_die_when_they_do_in_eager(namespace["program"])


def test_guards_keep_no_key_alive():
    """A guard on the keys of a dict, or the elements of a set, takes another object of the same class too."""

    def program(x, table, boxes):
        return x + len(table) + sum(1 for box in boxes if box in table)

    compiled = minicompile.compile(program, backend="eager", fullgraph=True)
    for _ in range(4):
        key, weight = Box(), torch.ones(1)
        refs = [weakref.ref(value) for value in (key, weight)]
        assert compiled(torch.ones(1), {key: 1, weight: 2}, {key}).item() == 4.0
        key = weight = None
        assert [ref() for ref in refs] == [None, None]
    assert record.counters["recompiles"] == 0


def missing(box):
    return box.missing


class Seeing(torch.Tensor):
    """Its `__torch_function__`, of torch.Tensor, sees each operator."""


def test_capture_leaves_no_cycles_behind():
    def program(x, box):
        asked = lambda: missing(box)  # noqa: E731
        try:
            asked()
        except AttributeError:
            pass
        try:
            ending([x]).throw(KeyError(1))
        except KeyError:
            pass
        y = x * 2 + len([box.missing, box] if hasattr(box, "missing") else [box])
        y = (y.as_subclass(Seeing) + 1).as_subclass(torch.Tensor)
        breaking()
        return y + 1

    gc.disable()
    try:
        for optimizer in ("eager", "aot_eager"):
            minicompile.reset()
            x, box = torch.ones(2), Box()
            refs = [weakref.ref(x), weakref.ref(box)]
            minicompile.compile(program, backend=optimizer)(x, box)
            del x, box
            assert [ref() for ref in refs] == [None, None]
    finally:
        gc.enable()


def test_the_variable_of_a_comprehension_is_unbound_again_behind_a_break():
    """From 3.12 on the comprehension runs in this frame; `_` dies at its end, which breaks the graph just there."""

    def listed(x, a, b):
        return [x + 1 for _ in (a, b)]

    log = []
    first, second = Noisy(log), Noisy(log)
    (one, two) = minicompile.compile(listed, backend="eager")(torch.ones(2), first, second)
    assert one.tolist() == two.tolist() == [2.0, 2.0] and log == []
    del first, second
    assert log == ["died", "died"]


def test_a_module_that_its_container_holds_does_not_break_the_graph():
    layers = torch.nn.ModuleList(torch.nn.Linear(2, 2) for _ in range(3))
    heard = [weakref.ref(layer, print) for layer in layers]

    def forward(x):
        for layer in layers:
            x = layer(x)
        return x

    x = torch.randn(1, 2)
    assert torch.equal(minicompile.compile(forward, backend="eager", fullgraph=True)(x), forward(x)) and heard


def test_what_eager_makes_anew_is_another_object_each_time():
    def f(x, kept):
        kept += [int | None, list[int], re.match("a", "ab"), inspect.signature(breaking)]
        again = kept[-4]
        breaking()
        return x + 1, again is kept[-4]

    kept, compiled = [], minicompile.compile(f, backend="eager")
    assert all(compiled(torch.ones(2), kept)[1] for _ in range(3))
    assert len(set(map(id, kept))) == 12 and kept[0] == kept[4] == int | None and kept[10].group() == "a"


def test_looking_for_what_an_object_holds_makes_no_dict():
    """A partial whose `__dict__` nobody has asked for is taken apart by the next one."""

    class Own(functools.partial):
        pass

    def function(kind, x):
        inner = kind(print, 1)
        print(end="")
        return kind(inner, end="").func, x + 1

    x = torch.ones(2)
    for kind in (functools.partial, Own):
        assert function(kind, x)[0] is minicompile.compile(function, backend="eager")(kind, x)[0] is print


def test_what_a_partial_holds_dies_with_it():
    def function(x, make, log):
        held = functools.partial(print, make())
        print(end="")
        held = x + 1
        log.append("gone")
        return held

    logs = [], []
    for run, log in zip((function, minicompile.compile(function, backend="eager")), logs, strict=True):
        run(torch.ones(2), lambda log=log: Noisy(log), log)
    assert logs == (["died", "gone"], ["died", "gone"])


def test_what_the_frame_of_an_error_held_dies_with_the_frame():
    """CPython's own words about a wrong call come from an error that capture made: it keeps no frame alive."""

    def wrong(action):
        try:
            action()
        except TypeError:
            pass

    def function(x, action, log):
        def stream():
            try:
                wrong(action)
                yield x
            finally:
                log.append("closed")

        for _ in stream():
            break
        noisy = Noisy(log)
        print(end="")
        wrong(action)
        del noisy
        log.append("end")
        return x + 1

    for action in (lambda: Noisy(), lambda: Noisy(1, a=2), lambda: max([1, "a"]), lambda: [].append(1, 2)):
        log = []
        minicompile.reset()
        minicompile.compile(function, backend="eager")(torch.ones(2), action, log)
        assert log == ["closed", "died", "end"]


def test_what_lay_on_the_stack_at_a_break_is_not_held_where_the_rest_runs_in_eager():
    def shown(log):
        noisy = Noisy(log)
        log.append  # noqa: B018
        noisy = None  # noqa: F841
        log.append("behind")

    def taken(log):
        [Noisy(log), breaking()].pop(0)
        log.append("behind")

    def in_a_loop(log):
        for _ in iter([Noisy(log), breaking()]):
            breaking()
            break
        log.append("behind")

    def run(x, one, log):
        return sorted(range(12), key=lambda _: one(log) or 0), x + 1

    for one in (shown, taken, in_a_loop):
        expected, found = [], []
        minicompile.compile(run, backend="eager")(torch.ones(2), one, found)
        run(torch.ones(2), one, expected)
        assert found == expected, one
    assert sorted(found) == ["behind"] * 12 + ["died"] * 12


FIRST = """
import gc, sys, torch, minicompile
died = []
class Noisy:
    def __del__(self):
        died.append(1)
gc.disable()
minicompile.compile(lambda x, noisy: x + 1, backend="eager")(torch.ones(1), Noisy())
sys.exit(0 if died else 5)
"""


def test_the_first_capture_of_a_process_keeps_no_frame():
    """It imports parts of PyTorch that keep the frame they are imported from in a cycle."""
    assert subprocess.run([sys.executable, "-c", FIRST]).returncode == 0


def test_what_torch_compile_hears_is_none_of_the_programs():
    from torch._dynamo.utils import ExactWeakKeyDictionary

    known, layers = ExactWeakKeyDictionary(), [torch.nn.Linear(3, 3) for _ in range(2)]
    for layer in layers:  # as torch.compile does with modules that it meets
        known[layer] = 1
    assert weakref.getweakrefs(layers[1])
    compiled = minicompile.compile(lambda x: layers.pop()(x), backend="eager", fullgraph=True)
    assert compiled(torch.ones(2, 3)).shape == (2, 3) and len(layers) == 1


def test_a_method_that_its_class_holds_does_not_die():
    """torch.compile has it in a weak dictionary, as a program may."""
    known, layer = weakref.WeakKeyDictionary({torch.nn.Linear.forward: 1}), torch.nn.Linear(3, 3)
    layer.forward = layer.forward

    def f(x):
        old, layer.forward = layer.forward, torch.nn.functional.relu
        try:
            return layer(x)
        finally:
            layer.forward = old

    x = torch.randn(2, 3)
    assert torch.equal(minicompile.compile(f, backend="eager", fullgraph=True)(x), x.relu()) and len(known) == 1
    assert layer.forward.__func__ is torch.nn.Linear.forward


def test_of_a_function_that_is_dropped_only_its_own_parts_count():
    """Not its globals, and not its code, which capture itself refers to weakly."""
    scope = {"noisy": Noisy([])}
    exec("def step(x): return x + 1", scope)
    steps = [scope["step"], scope["step"]]
    assert torch.equal(minicompile.compile(steps[0], backend="eager")(torch.ones(1)), torch.tensor([2.0]))
    compiled = minicompile.compile(lambda x: steps.pop()(x), backend="eager", fullgraph=True)
    assert torch.equal(compiled(torch.ones(1)), torch.tensor([2.0])) and len(steps) == 1
    del scope["noisy"]


class Pairs(itertools.zip_longest):
    pass


@pytest.mark.parametrize("cls", [itertools.zip_longest, Pairs])
def test_a_tuple_with_holes_is_looked_through(cls):
    """zip_longest keeps its iterators in a tuple, and takes those out of it that have ended."""

    def f(x, pairs):
        seen = []
        for pair in pairs:
            seen.append(pair)
            minicompile.graph_break()
        return x + 1, seen

    pairs = cls([1, 2, 3], [4])
    assert [next(pairs), next(pairs)] == [(1, 4), (2, None)]
    y, seen = minicompile.compile(f, backend="eager")(torch.ones(1), pairs)
    assert torch.equal(y, torch.tensor([2.0])) and seen == [(3, None)]
