"""An object and its `__dict__`, a module and its globals: one store each, against eager."""

import types
import weakref

import torch
from torch import nn
from worlds import same

X = torch.tensor([1.0, 2.0, 3.0])


class P:
    def __init__(self, a):
        self.a = a


def test_dict_and_object_are_one_store():
    def program():
        p = P(1)
        d = p.__dict__

        def f(x, p, d):
            p.a = 2
            d["b"] = d["a"] + 1
            p.c = p.b + 1
            del d["a"]
            return x + d["c"], d is p.__dict__, hasattr(p, "a"), sorted(d), vars(p) is d

        def restore():
            p.a = 1

        return f, [(X, p, d), restore, (X, p, d)], lambda: dict(p.__dict__)

    same(program)


def test_dict_first():
    def program():
        p = P(1)
        d = p.__dict__

        def f(x, d, p):
            d["a"] = d["a"] + 1
            return x + p.a

        return f, [(X, d, p), (X, d, p)], lambda: dict(p.__dict__)

    same(program, fullgraph=False)


def test_different_dict():
    def program():
        p = P(1)
        q = P(2)

        def f(x, p, d):
            d["a"] = 5
            return x + p.a

        return (
            f,
            [(X, p, p.__dict__), (X, p, q.__dict__), (X, p, p.__dict__)],
            lambda: (dict(p.__dict__), dict(q.__dict__)),
        )

    same(program, fullgraph=False)


mod = types.ModuleType("modtest")
exec("val=1\ndef get(): return val\ndef put(v):\n    global val\n    val=v\n", mod.__dict__)


def test_module_attributes_are_globals():
    def program():
        mod.val = 1

        def f(x):
            mod.val = 5
            a = mod.get()
            mod.put(7)
            b = mod.val
            del mod.val
            c = hasattr(mod, "val")
            mod.val = b + 1
            return x + a, b, c, mod.get()

        return f, [(X,), (X,)], lambda: mod.val

    same(program)


def test_weak_proxy():
    def program():
        p = P(3)
        w = weakref.proxy(p)

        def f(x):
            return x + w.a

        return f, [(X,), (X,)], lambda: p.a

    same(program, fullgraph=False)


def test_module_dict():
    def program():
        m = nn.Linear(3, 3)

        def f(x):
            d = m.__dict__
            t = d["training"]
            d["extra"] = 4
            m.more = 5
            return m(x) + m.extra, t, "_parameters" in d, len(d["_parameters"]), d["more"]

        return f, [(X,), (X,)], lambda: (m.extra, m.more)

    same(program)


def test_a_class_replaced_in_a_module_is_noticed():
    class First:
        k = 1

    class Second:
        k = 2

    def program():
        mod.Impl = First

        def f(x):
            return x + mod.Impl.k

        def swap():
            mod.Impl = Second

        return f, [(X,), swap, (X,)]

    same(program)


class OwnDict(dict):
    def __init__(self, **items):
        super().__init__(**items)
        self.__dict__ = self


class Borg:
    state = {"a": 1}

    def __init__(self):
        self.__dict__ = Borg.state


def test_a_dict_that_is_its_own_attributes_and_objects_that_share_theirs():
    def program():
        d, Borg.state = OwnDict(a=1, b=2), {"a": 1}
        first, second = Borg(), Borg()

        def f(x):
            d["a"] = d.b + 1
            d.c = 5
            first.a += 1
            return x + d.a + d["c"] + second.a + Borg().a

        return f, [(X,), (X,)], lambda: (dict(d), Borg.state)

    same(program, fullgraph=False)
