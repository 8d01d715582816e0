"""Objects that refer to each other, copies, functions with attributes, modules of unusual shape, against eager."""

import collections
import copy
import enum
import functools
import types
import typing
import weakref

import pytest
import torch
from torch import nn
from worlds import same

import minicompile

X = torch.tensor([1.0, 2.0, 3.0])


def twice(function, **options):
    same(lambda: (function, [(X,), (X,)]), **options)


class Impl:
    def go(self):
        return 3


def test_alias_and_cycles():
    def program():
        a, b = Impl(), Impl()
        a.items = [1]
        b.items = a.items
        a.me = a

        def f(x):
            a.items.append(2)
            b.items.append(3)
            n = Impl()
            n.me = n
            n.other = a
            a.new = n
            return x + len(a.items), a.items is b.items, a.me is a, n.me.me is n

        return f, [(X,), (X,)], lambda: (a.items, a.items is b.items, a.new.me is a.new, a.new.other is a)

    same(program)


def test_returned_objects_share():
    def program():
        a = Impl()
        a.l = [X]

        def f(x):
            n = Impl()
            n.t = x * 2
            n.l = a.l
            m = Impl()
            m.n = n
            m.t = n.t
            return m, n, n.t

        def g(x):
            m, n, t = f(x)
            return m.n is n, m.t is n.t, n.t is t, n.l is a.l, t

        return f if 0 else g, [(X,), (X,)]

    same(program)

    # whole frame returning objects
    def program2():
        a = Impl()
        a.l = [X]

        def f(x):
            n = Impl()
            n.t = x * 2
            n.l = a.l
            m = Impl()
            m.n = n
            m.t = n.t
            return [m.n is n, m, n, n.t]

        return f, []

    fn, _ = program2()
    import minicompile

    out = minicompile.compile(fn, backend="eager", fullgraph=True)(X)
    assert out[1].n is out[2] and out[1].t is out[3] and out[2].t is out[3] and type(out[1]) is Impl


class WR:
    pass


def test_weakref():
    def program():
        o = WR()
        o.v = 2
        r = weakref.ref(o)

        def f(x):
            return x + r().v

        def ch():
            o.v = 3

        return f, [(X,), ch, (X,)]

    same(program)


class MyMod(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(3, 3)
        self.extra = {"k": nn.ReLU()}
        self.lst = [nn.Linear(3, 3)]
        self.layer0 = nn.Tanh()
        self.layer1 = nn.Sigmoid()
        self.shape = (3,)
        self.fn = torch.relu
        self.cfg = types.SimpleNamespace(scale=2.0, act="relu")

    def __getattr__(self, n):
        if n == "magic":
            return 42
        return super().__getattr__(n)

    def __setattr__(self, n, v):
        super().__setattr__(n, v)

    @property
    def w2(self):
        return self.lin.weight * 2

    def helper(self, x):
        return x + 1

    def forward(self, x):
        x = self.lin(x) + self.magic
        for i in range(2):
            x = getattr(self, f"layer{i}")(x)
        x = self.extra["k"](x) + self.lst[0](x)
        for n, m in self._modules.items():
            x = x + len(n)
        for n, m in self.named_modules():
            x = x + isinstance(m, nn.Linear)
        y = []
        self.apply(lambda m: y.append(type(m).__name__))
        self.note = len(y)
        act = getattr(nn.functional, self.cfg.act)
        return (
            self.helper(act(x)).reshape(self.shape) * self.cfg.scale + self.w2.sum(),
            y,
            self.lin.weight.shape,
            self.lin.weight.requires_grad,
            next(self.parameters()).dtype,
        )


def test_mymod():
    def program():
        m = MyMod()

        def ch():
            m.cfg.scale = 3.0

        def ch2():
            m.extra["k"] = nn.Tanh()

        def ch3():
            m.lst.append(nn.Linear(3, 3))

        return m, [(X,), ch, (X,), ch2, (X,), ch3, (X,)], lambda: m.note

    same(program)


def test_module_misc():
    def program():
        m = nn.Sequential(nn.Linear(3, 3), nn.ReLU())

        def f(x):
            y = m(x)
            z = m[0].weight.data.sum()
            m[0].weight.data.mul_(1.5) if 0 else None
            a = m[:1](x)
            b = m[-1](x)
            e = [t for t in m]
            return y + z, a, b, len(e), m[0].in_features, nn.Linear in [type(k) for k in m], m is m, hash(1)

        return f, [(X,), (X,)]

    same(program)


def test_module_list_ops():
    def program():
        ml = nn.ModuleList([nn.Linear(3, 3)])
        md = nn.ModuleDict({"a": nn.ReLU()})

        def f(x):
            if len(ml) < 2:
                ml.append(nn.Identity())
            for l in ml:
                x = l(x)
            for k in md:
                x = md[k](x)
            for k, v in md.items():
                x = v(x)
            return (
                x,
                "a" in md,
                list(md.keys()),
                len(ml),
                [i for i, _ in enumerate(ml)],
                [type(a).__name__ for a in reversed(ml)],
            )

        return f, [(X,), (X,)], lambda: (len(ml), list(ml._modules))

    same(program, fullgraph=False)


def test_module_attr_write():
    mod = types.ModuleType("modx")
    mod.val = 1
    mod.helper = lambda x: x + mod.val

    def program():
        mod.val = 1

        def f(x):
            mod.val += 1
            return x + mod.helper(1)

        def ch():
            mod.val = 10

        return f, [(X,), ch, (X,)], lambda: mod.val

    same(program)


def test_functions_attrs():
    def g(x):
        return x * g.k

    g.k = 3

    def program():
        g.k = 3

        def f(x):
            g.calls = getattr(g, "calls", 0) + 1

            def h(y):
                return y + h.z

            h.z = 5
            return g(x) + h(x), h.__name__, g.__name__, g.__module__

        def ch():
            g.k = 4

        return f, [(X,), ch, (X,)], lambda: g.__dict__.pop("calls", None)

    same(program)


def test_callable_objects_and_partial():
    class Call:
        def __init__(self, k):
            self.k = k

        def __call__(self, x, m=1):
            return x * self.k * m

    def program():
        c = Call(2)
        p = functools.partial(c, m=3)
        table = {"a": c, "b": torch.relu}

        def f(x):
            return (
                c(x) + p(x) + table["a"](x) + list(map(Call(3), [x]))[0] + functools.reduce(lambda a, b: a + b, [x, x]),
                callable(c),
                p.func is c,
            )

        def ch():
            c.k = 5

        return f, [(X,), ch, (X,)]

    same(program)


def test_getstate_copy():
    def program():
        o = Impl()
        o.a = [1]
        o.t = 3

        def f(x):
            c = copy.copy(o)
            d = copy.deepcopy(o)
            c.t = 4
            d.a.append(2)
            return x + c.t, c.a is o.a, d.a, type(d) is Impl, o.t

        return f, [(X,), (X,)], lambda: o.__dict__

    same(program)


def test_text_of_a_function_made_inside_breaks():
    def f(x):
        def inner():
            pass

        found = []
        for text in (lambda: repr(inner), lambda: str([inner]), lambda: f"{inner}", lambda: inner.__repr__()):
            found.append(text().split(" at ")[0])
        try:
            inner.missing
        except AttributeError as error:
            found.append(str(error))
        return x + 1, found

    same(lambda: (f, [(X,)]), fullgraph=False)


class Slotted:
    __slots__ = ("kept", "unset")

    def __init__(self, kept):
        self.kept = kept


class WithDict(Slotted):
    def __init__(self, kept, other):
        super().__init__(kept)
        self.other = other


def test_copies_have_the_slots():
    def f(x, obj):
        out = []
        for copied in (copy.copy(obj), copy.deepcopy(obj), copy.copy(WithDict(1, [x]))):
            out.append((copied.kept, copied.other, hasattr(copied, "unset")))
        out[0][0].append(7)
        return x + 1, out, copy.copy(obj)

    def call(x, obj):
        y, out, copied = f(x, obj)
        return y, out, copied.kept, copied.other, obj.kept

    same(lambda: (call, [(X, WithDict([3], 4))]))


def test_method_objects_that_exist_are_the_same_wherever_they_go():
    class Box:
        def scale(self):
            return 2

    def program(x, items, box):
        items += ["a".upper, box.scale, box.scale]
        minicompile.graph_break()
        copied = list(items)
        same = items[1] is items[1], items[1] is items[2], items[1] == items[2], copied[0] is items[0]
        return x * items[1](), copied, same

    items = []
    _, copied, same = minicompile.compile(program, backend="eager")(torch.ones(2), items, Box())
    assert [new is old for new, old in zip(copied, items, strict=True)] == [True] * 3
    assert same == (True, False, True, True)


# --- the order of attributes --------------------------------------------------------------------------
def holder(make):
    """An object with attributes a, b and c, in this order."""
    made = make()
    made.a, made.b, made.c = 1, 2, 3
    return made


@pytest.mark.parametrize(
    "make",
    [
        Impl,
        types.SimpleNamespace,
        lambda: types.ModuleType("made"),
        nn.Module,
        ValueError,
        type("List", (list,), {}),
        lambda: X.clone().as_subclass(type("Tensor", (torch.Tensor,), {})),
        lambda: functools.partial(int),
        lambda: lambda: None,
        lambda: type("Class", (), {}),
    ],
)
def test_attributes_that_are_deleted_and_set_again_come_behind_all_others(make):
    def program():
        made = holder(make)

        def f(x):
            made.d = x
            del made.a
            made.e = 5
            made.a = x + 1
            del made.d
            made.d = 6
            del made.e
            return x * made.b

        return f, [(X,), (X,)], lambda: [name for name in vars(made) if len(name) == 1]

    same(program, fullgraph=False)
    assert program()[2]() == ["a", "b", "c"]


def test_order_is_seen_during_capture_too():
    def program():
        made = holder(Impl)

        def f(x):
            vars(made)["a"] = vars(made).pop("a")
            first = list(vars(made))
            del made.b
            made.b = x
            del made.b
            made.d = x
            return first, list(vars(made).items())

        return f, [(X,), lambda: setattr(made, "b", 2), (X,)], lambda: list(vars(made))

    same(program)


def test_globals_that_are_deleted_and_set_again_come_behind_all_others():
    def program():
        namespace = {"first": 1, "second": 2, "third": 3}

        def f(x):
            global first, second, fourth
            del first
            fourth = 1
            first = x
            del second
            second = 4
            del second
            del fourth
            fourth = x + 1
            return first + fourth

        restore = lambda: namespace.update(second=5)  # noqa: E731
        step = types.FunctionType(f.__code__, namespace, closure=f.__closure__)
        return step, [(X,), restore, (X,)], lambda: [name for name in namespace if name[0] != "_"]

    same(program)


def test_globals_that_may_be_there_or_not():
    def program():
        namespace, module = {"held": 1}, types.ModuleType("made")
        namespace["module"], module.held = module, 1

        def f(x, name):
            global held, new, range
            try:
                if name == "held":
                    del held
                    del module.held
                elif name == "new":
                    new = x
                    module.new = x
                    del new
                    del module.new
                    del module.new
                else:
                    del range
            except (NameError, AttributeError) as error:
                return x + 1, type(error), error.args, getattr(error, "name", None)
            return x + 2

        restore = lambda: (namespace.update(new=5), vars(module).update(new=5))  # noqa: E731
        steps = [(X, name) for name in ("held", "held", "new", "range")] + [restore, (X, "new")]
        step = types.FunctionType(f.__code__, namespace, closure=f.__closure__)
        return step, steps, lambda: [name for name in (*namespace, *vars(module)) if name[0] != "_"]

    same(program)


KEEPERS = [
    lambda a: list[a].__args__[0],
    lambda a: dict[int, (1, a)].__args__[1][1],
    lambda a: typing.Annotated[int, a].__metadata__[0],
    lambda a: collections.abc.Callable[[int], a].__args__[1],
    lambda a: types.GenericAlias(list, a).__args__[0],
    lambda a: enum.Enum("Made", {"A": a}).A.value,
    lambda a: property(a).fget,
    lambda a: staticmethod(a).__func__,
    lambda a: functools.partial(len, a).args[0],
]


@pytest.mark.parametrize("number", range(len(KEEPERS)))
def test_what_keeps_an_argument_keeps_the_programs_own(number):
    def program(x, given):
        made = [1, 2]
        kept = KEEPERS[number](given), KEEPERS[number](made)
        made.append(3)
        return x + 1, kept[0] is given, kept[1] is made, kept[1]

    assert minicompile.compile(program, backend="eager")(torch.ones(2), [1])[1:] == (True, True, [1, 2, 3])
