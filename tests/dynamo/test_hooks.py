"""Hooks, freezing, swapped and pruned parameters, custom autograd functions, against eager with gradients."""

import pytest
import torch
from torch import nn

import minicompile
from minicompile.testing import differences

X = torch.randn(2, 4)


def same_training(program, fullgraph=False):
    seen = []
    for comp in (0, 1):
        minicompile.reset()
        torch.manual_seed(0)
        m, steps, state = program()
        f = minicompile.compile(m, backend="eager", fullgraph=fullgraph) if comp else m
        res = []
        for st in steps:
            if callable(st):
                st()
                continue
            x = X.clone().requires_grad_()
            torch.manual_seed(1)
            o = f(x)
            o.sum().backward()
            res.append(
                (
                    o.detach().clone(),
                    x.grad.clone(),
                    {n: p.grad.clone() for n, p in m.named_parameters() if p.grad is not None},
                    list(state()),
                )
            )
        seen.append(res)
    d = differences(*seen)
    assert not d, d


class Inner(nn.Module):
    def __init__(s):
        super().__init__()
        s.l = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4))

    def forward(s, x):
        return s.l(x) * 2


def test_backward_hooks():
    def program():
        m = Inner()
        log = []
        h = []

        def add():
            h.append(m.l[0].register_full_backward_hook(lambda mod, gi, go: log.append(("b", len(gi)))))
            h.append(m.l[2].register_full_backward_pre_hook(lambda mod, go: (go[0] * 2,)))

        def rem():
            [k.remove() for k in h]

        return m, [(1,), add, (1,), (1,), rem, (1,)], lambda: log

    same_training(program)


def test_root_hooks():
    def program():
        m = Inner()
        log = []
        h = []

        def add():
            h.append(m.register_forward_hook(lambda mod, i, o: (log.append("f"), o * 3)[1]))
            h.append(m.register_forward_pre_hook(lambda mod, i: (i[0] + 1,)))
            h.append(m.register_full_backward_hook(lambda mod, gi, go: log.append("bw")))

        def rem():
            [k.remove() for k in h]

        return m, [(1,), add, (1,), (1,), rem, (1,)], lambda: log

    same_training(program)


def test_kwargs_hooks_and_always():
    class K(nn.Module):
        def __init__(s):
            super().__init__()
            s.l = nn.Linear(4, 4)

        def forward(s, x, *, scale=1.0):
            return s.l(x) * scale

    class R(nn.Module):
        def __init__(s):
            super().__init__()
            s.k = K()

        def forward(s, x):
            return s.k(x, scale=2.0)

    def program():
        m = R()
        log = []
        h = []

        def add():
            h.append(
                m.k.register_forward_pre_hook(lambda mod, a, kw: (a, {"scale": kw["scale"] * 2}), with_kwargs=True)
            )
            h.append(
                m.k.register_forward_hook(
                    lambda mod, a, kw, o: (log.append(kw["scale"]), o + 1)[1], with_kwargs=True, always_call=True
                )
            )
            h.append(nn.modules.module.register_module_forward_pre_hook(lambda mod, a: log.append(type(mod).__name__)))

        def rem():
            [k.remove() for k in h]

        return m, [(1,), add, (1,), (1,), rem, (1,)], lambda: log

    same_training(program)


def test_tensor_hooks():
    class R(nn.Module):
        def __init__(s):
            super().__init__()
            s.l = nn.Linear(4, 4)
            s.log = []

        def forward(s, x):
            y = s.l(x)
            if y.requires_grad:
                y.register_hook(lambda g: g * 2)
            return y * 3

    def program():
        m = R()
        return m, [(1,), (1,)], lambda: []

    same_training(program)


def test_prune():
    import torch.nn.utils.prune as prune

    def program():
        m = Inner()
        prune.l1_unstructured(m.l[0], "weight", amount=0.5)

        def more():
            prune.random_unstructured(m.l[2], "bias", amount=0.5)

        return m, [(1,), more, (1,)], lambda: []

    same_training(program, fullgraph=True)


def test_freeze_and_swap():
    def program():
        m = Inner()

        def freeze():
            m.l[0].weight.requires_grad_(False)
            m.zero_grad()

        def double():
            with torch.no_grad():
                m.l[2].weight.mul_(2)

        def rep():
            m.l[1] = nn.Tanh()

        def load():
            m.load_state_dict({k: v * 0.5 for k, v in m.state_dict().items()})

        def data():
            m.l[0].bias.data = torch.ones(4)

        return m, [(1,), freeze, (1,), double, (1,), rep, (1,), load, (1,), data, (1,)], lambda: []

    same_training(program, fullgraph=True)


def test_custom_function():
    class Sq(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx, g):
            return 3 * ctx.saved_tensors[0] * g

    class R(nn.Module):
        def __init__(s):
            super().__init__()
            s.l = nn.Linear(4, 4)

        def forward(s, x):
            return Sq.apply(s.l(x) * 2) + 1

    same_training(lambda: (R(), [(1,), (1,)], lambda: []))


def test_optimizer_step_like():
    class Ema(nn.Module):
        def __init__(s):
            super().__init__()
            s.l = nn.Linear(4, 4)
            s.shadow = [p.detach().clone() for p in s.l.parameters()]
            s.decay = 0.9

        def forward(s, x):
            with torch.no_grad():
                for sh, p in zip(s.shadow, s.l.parameters()):
                    sh.mul_(s.decay).add_(p, alpha=1 - s.decay)
            return s.l(x) + s.shadow[1]

    def program():
        m = Ema()
        return m, [(1,), (1,)], lambda: [t.clone() for t in m.shadow]

    same_training(program, fullgraph=True)


class Pair(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(3, 3)

    def forward(self, x, scale, y=None):
        z = self.linear(x) * scale
        return z, z.detach() + 1, "text"


class WithBackwardHooks(nn.Module):
    def __init__(self, log):
        super().__init__()
        torch.manual_seed(0)
        self.pair, self.last = Pair(), nn.Linear(3, 2)
        self.pair.register_full_backward_hook(lambda m, gi, go: log.append([g is not None for g in (*gi, *go)]))
        self.pair.register_full_backward_hook(lambda m, gi, go: (gi[0] * 2, *gi[1:]))
        self.last.register_full_backward_pre_hook(lambda m, go: (go[0] * 3,))
        self.last.register_full_backward_hook(lambda m, gi, go: log.append(go[0].sum().item()))

    def forward(self, x):
        z, _, text = self.pair(x * 1, 2.0)
        return self.last(z.relu()) + len(text)


@pytest.mark.parametrize("backend", ["eager", "inductor"])
def test_full_backward_hooks(backend):
    outcomes = []
    for wrap in (lambda m: m, lambda m: minicompile.compile(m, backend=backend, fullgraph=True)):
        log = []
        module = WithBackwardHooks(log)
        compiled, results = wrap(module), []
        for k in range(3):
            x = torch.full((2, 3), k + 1.0, requires_grad=True)
            y = compiled(x)
            y.sum().backward()
            with torch.no_grad():
                results += [y.detach(), x.grad, compiled(x)]
        outcomes.append((results, log, [p.grad for p in module.parameters()]))
    assert not differences(*outcomes)
    assert len(outcomes[0][1]) == 6


def test_hooks_of_another_module_are_others():
    logs = [], []
    modules = [WithBackwardHooks(log) for log in logs]

    def run(module, x):
        return module(x)

    compiled = minicompile.compile(run, backend="eager", fullgraph=True)
    for module in modules:
        compiled(module, torch.ones(2, 3, requires_grad=True)).sum().backward()
    assert [len(log) for log in logs] == [2, 2]
