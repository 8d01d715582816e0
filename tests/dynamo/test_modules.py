"""nn.Module and Python modules during capture, against eager."""

import math

import torch
import torch.nn.functional as F
from torch import nn
from worlds import same

X = torch.linspace(-1, 1, 8).reshape(2, 4)


def parameters_of(module):
    return lambda: [(n, p.detach()) for n, p in [*module.named_parameters(), *module.named_buffers()]]


class Net(nn.Module):
    scale = 2

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(4, 4), nn.Sequential(nn.ReLU(), nn.Linear(4, 4))])
        self.table = nn.ModuleDict({"a": nn.Tanh(), "b": nn.Identity()})
        self.weights = nn.ParameterList([nn.Parameter(torch.ones(4)), nn.Parameter(torch.zeros(4))])
        self.named = nn.ParameterDict({"w": nn.Parameter(torch.full((4,), 2.0))})
        self.register_buffer("count", torch.zeros(1))
        self.register_parameter("bias", None)
        self.calls = 0

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        for i, w in enumerate(self.weights):
            x = x + w * i
        for name, module in self.table.items():
            x = module(x) if name in self.table else x
        if self.bias is not None:
            x = x + self.bias
        self.calls += 1
        return x * self.named["w"] + self.layers[-1][0](x) + len(self.layers) + self.weights[0] + self.scale


def test_containers():
    def program():
        m = Net()
        return m, [(X,), (X,)], lambda: m.calls

    same(program)


def test_slices_and_queries():
    def program():
        m = Net()

        def f(x):
            for layer in m.layers[:1]:
                x = layer(x)
            names = [n for n, _ in m.named_parameters()]
            kinds = [type(k).__name__ for k in m.modules()] + [n for n, _ in m.named_children()]
            total = sum(p.numel() for p in m.parameters())
            return x, names, kinds, total, [n for n, _ in m.named_buffers()], m.training, len(list(m.children()))

        return f, [(X,), (X,)]

    same(program)


def test_training_flag_and_replaced_parts():
    def program():
        m = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5), nn.BatchNorm1d(4))

        def replace():
            m[0] = nn.Linear(4, 4, bias=False)

        def parameter():
            m[0].weight = nn.Parameter(torch.ones(4, 4))

        def append():
            m.append(nn.ReLU())

        return m, [(X,), m.eval, (X,), replace, (X,), parameter, (X,), append, (X,), m.train, (X,)], parameters_of(m)

    same(program)


def test_buffers_written_in_forward():
    class Tracker(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("mean", torch.zeros(4))
            self.register_buffer("steps", torch.tensor(0))
            self.number = 0
            self.last = None

        def forward(self, x):
            self.mean = self.mean * 0.5 + x.mean(0)
            self.steps += 1
            self.number += 1
            self.last = x * 2
            return x + self.mean + self.number

    def program():
        m = Tracker()
        return m, [(X,), (X,)], lambda: (m.mean, m.steps, m.number, m.last, list(m._buffers), list(m.__dict__))

    same(program)


def test_registrations_in_forward():
    class Grower(nn.Module):
        def forward(self, x):
            if not hasattr(self, "cache"):
                self.register_buffer("cache", x * 2, persistent=False)
            return x + self.cache

    def program():
        m = Grower()
        return m, [(X,), (X,)], lambda: (dict(m._buffers), m._non_persistent_buffers_set)

    same(program)


def test_wrong_assignment_raises():
    def program():
        m = nn.Linear(4, 4)

        def f(x):
            try:
                m.weight = 3
            except TypeError as e:
                return x, str(e)

        return f, [(X,)]

    same(program)


def test_module_made_in_forward():
    class Scale(nn.Module):
        def __init__(self, k):
            super().__init__()
            self.k = k
            self.act = nn.ReLU()

        def forward(self, x):
            return self.act(x * self.k)

    def f(x):
        return Scale(3)(x) + nn.Sequential(Scale(2), nn.Identity())(x)

    same(lambda: (f, [(X,), (X,)]))


def test_hooks():
    def program():
        m, seen, handles = nn.Sequential(nn.Linear(4, 4), nn.ReLU()), [], []

        def pre(module, args):
            seen.append("pre")
            return (args[0] + 1,)

        def post(module, args, output):
            seen.append("post")
            return output * 2

        def with_kwargs(module, args, kwargs, output):
            seen.append(sorted(kwargs))

        def add():
            handles.append(m[0].register_forward_pre_hook(pre))
            handles.append(m[1].register_forward_hook(post))
            handles.append(m.register_forward_hook(with_kwargs, with_kwargs=True))

        def remove():
            [h.remove() for h in handles]

        def add_global():
            handles.append(nn.modules.module.register_module_forward_hook(lambda m, i, o: o + 3))

        return m, [(X,), add, (X,), remove, (X,), add_global, (X,), remove, (X,)], lambda: list(seen)

    same(program)


def test_instance_forward_and_call():
    def program():
        class Called(nn.Module):
            def forward(self, x):
                return x * 3

            def __call__(self, x):
                return super().__call__(x) + 1

        m, c = nn.Sequential(nn.Identity()), Called()

        def f(x):
            return m(x) + c(x)

        def swap():
            m[0].forward = lambda x: x * 3

        def swap_class():
            Called.forward = lambda self, x: x * 5

        return f, [(X,), swap, (X,), swap_class, (X,)]

    same(program)


def test_parametrized_module():
    class Symmetric(nn.Module):
        def forward(self, w):
            return w.triu() + w.triu(1).T

    def program():
        m = nn.Linear(4, 4)
        nn.utils.parametrize.register_parametrization(m, "weight", Symmetric())
        return m, [(X,), (X,)]

    same(program)


def test_shared_and_tied_parameters():
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 4)
            self.b.weight = self.a.weight
            self.again = self.a

        def forward(self, x):
            return self.again(self.b(self.a(x))), self.a.weight is self.b.weight, self.again is self.a

    def program():
        m = Tied()

        def untie():
            m.b.weight = nn.Parameter(torch.ones(4, 4))

        return m, [(X,), untie, (X,)]

    same(program)


def test_names_in_guards_and_graph():
    import minicompile
    from minicompile.testing import CompileCounter

    counter, m = CompileCounter(), Net()
    minicompile.compile(m, backend=counter, fullgraph=True)(X)
    names = [n.name for n in counter.graph_modules[0].graph.nodes if n.op == "placeholder"]
    assert "self_layers_0__weight" in names, names


def test_python_modules():
    def program():
        def f(x):
            import torch.nn.functional as G

            return torch.nn.functional.relu(x) + math.pi + G.gelu(x) + F.silu(x), hasattr(math, "nothing")

        return f, [(X,), (X,)]

    same(program)


def test_module_as_dict_key_and_in_set():
    def program():
        a, b = nn.Linear(4, 4), nn.ReLU()

        def f(x):
            table, seen = {a: 2, b: 3}, {a}
            return x * table[a] + table[b], a in seen, b in seen, a == b, a != b

        return f, [(X,)]

    same(program)


def test_parts_that_are_compiled_by_themselves():
    import minicompile

    class Nested(nn.Module):
        def __init__(self):
            super().__init__()
            self.part = minicompile.compile(nn.Linear(4, 4), backend="eager")
            self.theirs = torch.compile(nn.Linear(4, 4), backend="eager")
            self.function = minicompile.compile(lambda x: x + 1, backend="eager")

        def forward(self, x):
            self.part.note = 3
            return self.function(self.part(x)) + self.part.weight.sum() + self.theirs(x)

    def program():
        m = Nested()
        return m, [(X,), (X,)], lambda: m.part.note

    same(program)
