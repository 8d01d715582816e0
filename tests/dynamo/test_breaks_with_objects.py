"""Graph breaks with objects, exceptions, methods and modules alive, against eager."""

import collections
import contextlib
import copy
import dataclasses
import enum
import sys

import pytest
import torch
from torch import nn
from worlds import same

import minicompile

X = torch.tensor([1.0, 2.0, 3.0])


def breaks():
    print("", end="", file=sys.stderr)


def twice(function):
    same(lambda: (function, [(X,), (X,)]), fullgraph=False)


class P:
    def __init__(self, a):
        self.a = a


@dataclasses.dataclass
class D:
    t: object
    l: list = dataclasses.field(default_factory=list)


def test_new_objects_across_break():
    def program():
        keep = []

        def f(x):
            p = P(x * 2)
            q = P(p)
            p.q = q
            d = D(p.a, [p])
            keep.append(d)
            breaks()
            p.a = p.a + 1
            d.l.append(q)
            q.b = 3
            breaks()
            return p.a, p.q is q, q.a is p, d.l[0] is p, d.t, len(d.l), q.b

        return f, [(X,), (X,)], lambda: (len(keep), keep[-1].t, keep[-1].l[0].a, keep[-1].l[1].b)

    same(program, fullgraph=False)


def test_existing_object_writes_once():
    def program():
        p = P(1)
        p.log = []

        def f(x):
            p.a += 1
            p.log.append("a")
            breaks()
            p.a += 1
            p.log.append("b")
            y = x * p.a
            breaks()
            del p.log[0]
            p.log.append("c")
            return y + len(p.log)

        return f, [(X,), (X,)], lambda: (p.a, list(p.log))

    same(program, fullgraph=False)


def test_break_in_init_property_iter():
    class Q:
        def __init__(self, x):
            self.x = x
            breaks()
            self.y = x + 1

        @property
        def pr(self):
            breaks()
            return self.y * 2

        def __iter__(self):
            yield self.x
            breaks()
            yield self.y

        def __call__(self, z):
            z = z * 2
            breaks()
            return z + self.y

        def __getattr__(self, n):
            breaks()
            return 5

        def __enter__(self):
            breaks()
            return self

        def __exit__(self, *a):
            breaks()
            return True

        def __add__(self, o):
            breaks()
            return self.y + o

    def f(x):
        q = Q(x)
        t = q.pr
        l = list(q)
        z = q(x) + q.nope
        with q as r:
            z = z + r.y
            raise KeyError(1)
        return z + t, l, q + 1

    twice(f)


def test_break_with_live_exception():
    def f(x):
        out = []
        try:
            raise ValueError("v", 1)
        except ValueError as e:
            breaks()
            out.append(e.args)
            x = x + 1
            try:
                raise KeyError("k") from e
            except KeyError as k:
                breaks()
                out.append((type(k.__cause__).__name__, type(k.__context__).__name__))
        try:
            try:
                raise ValueError("w")
            finally:
                breaks()
                x = x * 2
        except ValueError as e:
            out.append(str(e))
        return x, out

    twice(f)


def test_break_in_user_cm():
    def program():
        log = []

        @contextlib.contextmanager
        def cm(n):
            log.append(n)
            try:
                yield n
            finally:
                log.append(-n)

        class C:
            def __enter__(self):
                log.append("in")
                return 2

            def __exit__(self, t, v, tb):
                log.append(t.__name__ if t else "out")
                return t is KeyError

        def f(x):
            with C() as c:
                x = x * c
                breaks()
                x = x + 1
                raise KeyError
            with C():
                breaks()
            with cm(3) as n:
                x = x + n
                breaks()
                x = x * 2
            for i in range(2):
                with C():
                    if i:
                        breaks()
                        continue
                    x = x + i
            return x

        return f, [(X,), (X,)], lambda: list(log)

    same(program, fullgraph=False)


def test_module_break():
    class M(nn.Module):
        def __init__(s):
            super().__init__()
            s.l = nn.Linear(3, 3)
            s.n = 0
            s.register_buffer("b", torch.zeros(3))

        def forward(s, x):
            s.n += 1
            y = s.l(x)
            breaks()
            s.b = s.b + y
            s.b.add_(1)
            s.n += 1
            breaks()
            s.last = y * 2
            return y + s.b + s.n

    def program():
        m = M()
        return m, [(X,), (X,)], lambda: (m.n, m.b.clone(), m.last)

    same(program, fullgraph=False)


def test_builtin_subclass_break():
    class L(list):
        def __init__(self, *a):
            super().__init__(a)
            self.t = 1

    class DD(dict):
        pass

    N = collections.namedtuple("N", "a b")

    class E(enum.Enum):
        A = 1

    def f(x):
        l = L(x, 2)
        d = DD(k=x)
        d.z = 4
        n = N(x, 1)
        e = E.A
        sup = super(L, l)
        breaks()
        l.append(3)
        d["j"] = n
        return (
            l[0] + len(l) + l.t,
            d["k"],
            d.z,
            d["j"].a is x,
            n.b,
            e is E.A,
            type(l).__name__,
            type(d).__name__,
            len(d),
            sup.__len__(),
        )

    twice(f)


def test_bound_methods_and_supers_across_break():
    class A:
        def __init__(self):
            self.k = 2

        def go(self, x):
            return x * self.k

        @classmethod
        def cm(cls, x):
            return x + len(cls.__name__)

        @staticmethod
        def sm(x):
            return x + 1

    def f(x):
        a = A()
        g = a.go
        c = a.cm
        st = A.sm
        h = a.__init__
        ap = [].append
        breaks()
        a.k = 3
        y = g(x) + c(x) + st(x)
        breaks()
        h()
        return y, a.k, g.__self__ is a

    twice(f)


def test_class_writes_and_break():
    def program():
        class C:
            n = 0

            @classmethod
            def inc(cls):
                cls.n += 1
                return cls.n

        def f(x):
            C.inc()
            a = C.n
            breaks()
            C.inc()
            C.m = 5
            return x + a + C.n

        return f, [(X,), (X,)], lambda: (C.n, C.m)

    same(program, fullgraph=False)


def test_del_attr_break():
    def program():
        p = P(1)

        def f(x):
            p.t = x
            del p.t
            p.a = 5
            breaks()
            r = hasattr(p, "t")
            p.u = 1
            breaks()
            del p.u
            return x + p.a, r, hasattr(p, "u")

        return f, [(X,), (X,)], lambda: dict(p.__dict__)

    same(program, fullgraph=False)


def test_data_dependent_branch_in_method():
    class Gate(nn.Module):
        def __init__(s):
            super().__init__()
            s.count = 0

        def forward(s, x):
            if x.sum() > 0:
                s.count += 1
                return x * 2
            s.count -= 1
            return x - 1

    class Top(nn.Module):
        def __init__(s):
            super().__init__()
            s.g = Gate()
            s.l = nn.Linear(3, 3)

        def forward(s, x):
            return s.g(s.l(x) * 0 + x) + s.g(-x)

    def program():
        m = Top()
        return m, [(X,), (-X,), (X,)], lambda: m.g.count

    same(program, fullgraph=False)


def test_instance_dict_across_break():
    def program():
        p = P(1)

        def f(x):
            d = p.__dict__
            d["z"] = x * 2
            breaks()
            d["w"] = 3
            v = vars(p)
            return p.z, d is p.__dict__, sorted(v), p.w

        return f, [(X,), (X,)], lambda: sorted(p.__dict__)

    same(program, fullgraph=False)


def test_generator_objects_in_attrs():
    def program():
        p = P(None)

        def f(x):
            p.a = (x * i for i in range(3))
            y = next(p.a)
            breaks()
            z = next(p.a)
            return y + z

        return f, [(X,), (X,)], lambda: list(p.a)

    same(program, fullgraph=False)


@pytest.mark.graph_errors
def test_a_graph_that_raises_before_it_changes_an_argument_runs_again_in_eager():
    def f(x, index, found):
        try:
            x[index] = 5
            x.add_(1)
        except IndexError as error:
            found.append(str(error)[:20])
        minicompile.graph_break()
        x.mul_(2)
        return x, found

    steps = [(X.clone(), torch.tensor([0]), []), (X.clone(), torch.tensor([9]), []), (X.clone(), torch.tensor([1]), [])]
    same(lambda: (f, copy.deepcopy(steps)), fullgraph=False)


@pytest.mark.graph_errors
def test_a_graph_that_raises_after_it_changed_an_argument_runs_again_in_eager():
    def f(x, index, weight, found):
        found.append(len(found))
        x.add_(torch.rand(()))
        weight = weight + 0
        y = weight * weight
        x.mul_(y)
        found.append(x.requires_grad)
        try:
            return x[index] * 2
        except IndexError:
            found.append("caught")
        return torch.rand(()), x, found

    def step(index):
        weight = torch.full_like(X, 2.0, requires_grad=True)
        return X.clone(), torch.tensor([index]), weight, []

    for index in (0, 9, 1):
        torch.manual_seed(0)
        x, index, weight, found = step(index)
        expected = f(x, index, weight, found)
        torch.manual_seed(0)
        again, index, weight_again, found_again = step(index)
        actual = minicompile.compile(f, backend="eager")(again, index, weight_again, found_again)
        assert torch.equal(x, again) and found == found_again and torch.equal(expected[0], actual[0])
        x.sum().backward(), again.sum().backward()
        assert torch.equal(weight.grad, weight_again.grad)
