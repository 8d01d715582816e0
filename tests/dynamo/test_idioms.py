"""Idioms of real programs: registries, configurations, tensor wrappers, modules with state, against eager."""

import abc
import collections
import copy
import enum
import functools

import torch
from torch import nn
from worlds import same

import minicompile

X = torch.tensor([1.0, 2.0, 3.0])


def twice(function):
    same(lambda: (function, [(X,), (X,)]))


class Reg:
    items = {}

    @classmethod
    def register(cls, name):
        def deco(f):
            cls.items[name] = f
            return f

        return deco


@Reg.register("a")
def fa(x):
    return x + 1


class Lazy:
    _t = None

    @property
    def table(self):
        if Lazy._t is None:
            Lazy._t = torch.arange(3.0)
        return Lazy._t


class Cfg:
    def __init__(self, **k):
        self.__dict__.update(k)

    def __contains__(self, k):
        return k in self.__dict__

    def get(self, k, d=None):
        return getattr(self, k, d)

    def items(self):
        return self.__dict__.items()

    def copy_with(self, **k):
        c = copy.copy(self)
        c.__dict__.update(k)
        return c

    def __eq__(self, o):
        return self.__dict__ == o.__dict__

    def to_dict(self):
        return {k: (v.to_dict() if isinstance(v, Cfg) else v) for k, v in vars(self).items()}


class Ten:
    "wraps tensor with operators"

    def __init__(self, t):
        self.t = t

    def __add__(self, o):
        return Ten(self.t + (o.t if isinstance(o, Ten) else o))

    __radd__ = __add__

    def __mul__(self, o):
        return Ten(self.t * (o.t if isinstance(o, Ten) else o))

    def __getitem__(self, i):
        return Ten(self.t[i])

    def __setitem__(self, i, v):
        self.t[i] = v

    def __len__(self):
        return len(self.t)

    def __iter__(self):
        return (Ten(a) for a in self.t)

    def __matmul__(self, o):
        return Ten(self.t @ o.t)

    def __getattr__(self, n):
        a = getattr(self.t, n)
        return (lambda *p, **k: Ten(a(*p, **k))) if callable(a) else a


def test_registry():
    twice(lambda x: Reg.items["a"](x) + len(Reg.items))


def test_lazy_class_attr():
    def program():
        Lazy._t = None
        return (lambda x: x + Lazy().table), [(X,), (X,)], lambda: Lazy._t

    same(program)


def test_cfg():
    def program():
        c = Cfg(a=1, b=Cfg(z=2))

        def f(x):
            c.n = c.get("q", 5)
            d = c.copy_with(a=9)
            return (
                x + c.a + d.a,
                "a" in c,
                sorted(c.to_dict()),
                d == c,
                [k for k, v in c.items()],
                c.b.to_dict(),
                d.b is c.b,
            )

        return f, [(X,), (X,)], lambda: sorted(c.__dict__)

    same(program)


def test_ten():
    def f(x):
        t = Ten(x) + 1
        u = 2 + t * Ten(x)
        u = u.relu().sum()
        v = [a.t for a in t]
        t2 = Ten(x.clone())
        t2[0] = 5.0
        return t.t, u.t, v, len(t), t[1].t, (t @ t).t, t.shape, t.dtype, t2.t

    twice(f)


class Stateful(nn.Module):
    def __init__(self):
        super().__init__()
        self.hist = collections.deque(maxlen=2)
        self.cache = {}
        self.stats = collections.defaultdict(int)
        self.cnt = collections.Counter()
        self.flag = False
        self.lin = nn.Linear(3, 3)

    def forward(self, x, key="k"):
        self.hist.append(x.shape[0])
        self.stats[key] += 1
        self.cnt.update("ab")
        self.flag = not self.flag
        if key not in self.cache:
            self.cache[key] = self.lin(x)
        return x + self.cache[key] + len(self.hist)


def test_stateful():
    def program():
        m = Stateful()
        return (
            m,
            [(X,), (X,), (X, "z"), (X,)],
            lambda: (list(m.hist), dict(m.stats), dict(m.cnt), m.flag, list(m.cache)),
        )

    same(program)


class Base(abc.ABC):
    registry = []

    def __init_subclass__(cls, **k):
        super().__init_subclass__(**k)
        Base.registry.append(cls)

    @property
    @abc.abstractmethod
    def size(self): ...
    def describe(self):
        return f"{type(self).__name__}:{self.size}"


class Impl(Base):
    size = 4


class Impl2(Base):
    @property
    def size(self):
        return 5


def test_abc():
    twice(
        lambda x: (
            x + sum(c().size for c in Base.registry),
            [c().describe() for c in Base.registry],
            issubclass(Impl, Base),
            isinstance(Impl(), Base),
        )
    )


def test_closures_over_objects():
    def program():
        c = Cfg(n=0)

        def make(k):
            def g(x):
                c.n += k
                return x * k

            return g

        gs = [make(1), make(2)]

        def f(x):
            for g in gs:
                x = g(x)
            h = make(3)
            return h(x)

        return f, [(X,), (X,)], lambda: c.n

    same(program)


def test_warn_and_type_checks():
    def f(x):
        if not isinstance(x, torch.Tensor):
            raise TypeError
        if type(x) is not torch.Tensor:
            return None
        return (
            x + 1,
            isinstance(x, (int, torch.Tensor)),
            hasattr(x, "shape"),
            callable(x.sum),
            getattr(x, "nope", 3),
            x.__class__.__name__,
        )

    twice(f)


def test_sub_modules_protocol():
    class Res(nn.Module):
        def __init__(self, f):
            super().__init__()
            self.f = f

        def forward(self, x, *a, **k):
            return x + self.f(x, *a, **k)

        def extra_repr(self):
            return "res"

        def __len__(self):
            return 7

        def __getitem__(self, i):
            return self.f

    class Norm(nn.Sequential):
        def forward(self, x):
            return super().forward(x) * 2

    m = Res(Norm(nn.Linear(3, 3), Res(nn.Identity())))

    def program():
        return m, [(X,), (X,)]

    same(program)
    twice(lambda x: (m[0](x), len(m), bool(m), m.f[1].f(x)))


def test_functional_call_like():
    m = nn.Linear(3, 3)

    def f(x):
        ps = dict(m.named_parameters())
        b = {k: v * 2 for k, v in ps.items()}
        return (
            nn.functional.linear(x, b["weight"], b["bias"]),
            sum(p.numel() for p in m.parameters()),
            [tuple(p.shape) for p in m.parameters()],
        )

    twice(f)


def test_mutable_default():
    def program():
        def g(x, acc=[]):
            acc.append(1)
            return x + len(acc)

        return (lambda x: g(x)), [(X,), (X,)], lambda: g.__defaults__

    same(program)


def test_star_attr_targets():
    def program():
        c = Cfg(a=0, b=0, l=[0, 0])

        def f(x):
            c.a, c.b = 1, 2
            c.l[0], *c.rest = [5, 6, 7]
            for c.i in range(3):
                pass
            with torch.no_grad():
                c.w = x * 2
            return x + c.a + c.i, c.rest

        return f, [(X,), (X,)], lambda: (c.a, c.b, c.l, c.i, c.w)

    same(program)


def test_singledispatch():
    @functools.singledispatch
    def describe(value):
        return 1

    @describe.register
    def _(value: int):
        return value * 10

    @describe.register(torch.Tensor)
    def _(value):
        return value + 5

    def run(x):
        return describe(x) * describe(3) + describe("text") + describe(2.5)

    compiled = minicompile.compile(run, backend="eager", fullgraph=True)
    for _ in range(3):
        assert compiled(X).equal(run(X))

    @describe.register
    def _(value: str):
        return 7

    assert compiled(X).equal(run(X)) and describe("text") == 7


def test_a_comprehension_has_cells_of_its_own():
    def run(x):
        k = 1
        late = [lambda: k for k in range(3)]
        before = k
        nested = [[(lambda: (j, k)) for j in range(2)] for k in range(2)]
        k = 10
        own = lambda: k
        k += 1
        inner = [f() for row in nested for f in row]
        return x + before, [f() for f in late], inner, k, own(), {k: (lambda: k)() for k in range(2)}, k

    twice(run)


def test_an_enum_asks_its_missing_at_each_call():
    def world():
        asked = []

        class Activation(enum.Enum):
            RELU = "relu"

            @classmethod
            def _missing_(cls, value):
                asked.append(value)
                return cls.RELU if value == "RELU" else None

        def choose(x):
            try:
                Activation("gelu")
            except ValueError as error:
                told = str(error)
            return getattr(x, Activation("RELU").value)(), Activation("relu").name, told, list(asked)

        return choose, [(X,), (X,)]

    same(world)
