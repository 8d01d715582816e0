"""Rows of the guard table: what a graph knows of nn.Modules."""

from guard_rows import due, kept, row

M = (
    "class M(nn.Module):\n    def __init__(self):\n        super().__init__()\n        self.l = nn.Linear(3, 3)\n"
    "        self.d = nn.Dropout(0.0)\n        self.b = nn.BatchNorm1d(3)\n        self.s = 'a'\n"
    "    def forward(self, x): return self.b(self.d(self.l(x))) + len(self.s)\n"
    "torch.manual_seed(0)\nf = M()\n"
)
row("training", M, "", due("f.eval()"), kept("f.train()"))
row("training of one layer", M, "", due("f.b.eval()"), kept("f.b.train()"))
row("training of a layer that does not ask", M, "", kept("f.l.eval()"))
row("an attribute of a module", M, "", due("f.s = 'ab'"), kept("f.t = 1"))
row("a forward hook", M, "", due("f.l.register_forward_hook(lambda m, a, r: r + 1)"))
row(
    "a forward hook that goes again",
    M,
    "",
    due("h = f.l.register_forward_hook(lambda m, a, r: r + 1)"),
    kept("h.remove()"),
)
row(
    "a second hook",
    M + "f.l.register_forward_hook(lambda m, a, r: r + 1)",
    "",
    due("f.l.register_forward_hook(lambda m, a, r: r * 2)"),
)
row(
    "a hook in another's place",
    M + "h = f.l.register_forward_hook(lambda m, a, r: r + 1)",
    "",
    due("h.remove(); f.l.register_forward_hook(lambda m, a, r: r * 2)"),
)
row("a hook before", M, "", due("f.b.register_forward_pre_hook(lambda m, a: (a[0] + 1,))"))
row("a hook of the gradient", M, "", due("f.l.register_full_backward_hook(lambda *a: None)"), fullgraph=False)
row("another weight", M, "", kept("f.l.weight = nn.Parameter(torch.ones(3, 3))"), kept("f.l.bias.data.fill_(3)"))
row("a weight of another dtype", M, "", due("f.double(); x = x.double()"))
row("a weight of another size", M, "", due("f.l = nn.Linear(4, 3); x = torch.ones(2, 4)"))
row("a frozen weight", M, "", due("f.l.weight.requires_grad_(False)"))
row("a weight that becomes a tensor", M, "", due("w = f.l.weight.detach(); del f.l.weight; f.l.weight = w"))
row("two weights become one", M + "f.l.bias = nn.Parameter(torch.zeros(3))", "", due("f.b.bias = f.l.bias"))
row("no bias", M, "", due("f.l.bias = None"))
row(
    "a buffer is rebound",
    M,
    "",
    kept("f.b.running_mean = torch.ones(3)"),
    due("f.b.running_mean = torch.ones(1).expand(3).clone()[::1].as_strided((3,), (0,))"),
)
row("no running statistics", M, "", due("f.b.running_mean = f.b.running_var = None; f.b.track_running_stats = False"))
row("a layer of the same class", M, "", kept("torch.manual_seed(1); f.l = nn.Linear(3, 3)"))
row("a layer of another class", M, "", due("f.l = nn.Identity()"), due("f.d = nn.Tanh()"))
row("a layer's own forward", M, "", due("f.l.forward = lambda x: x + 1"), kept("del f.l.forward"))
row("a layer's own _call_impl", M, "", due("f.l._call_impl = lambda x: x + 1"), kept("del f.l._call_impl"))
row(
    "a layer with a forward of its own, and then a _call_impl",
    M + "f.l.forward = lambda x: x + 1",
    "",
    due("f.l._call_impl = lambda x: x * 2"),
)
row("a layer that torch has compiled", M, "", due("f.l._compiled_call_impl = lambda x: x + 1"))
row("tensors that are swapped", M, "", kept("torch.utils.swap_tensors(f.l.bias, nn.Parameter(torch.ones(3)))"))
row("forward of the class", M, "", due("M.forward = lambda self, x: self.l(x)"))
row(
    "__call__ of the class",
    M + "class L(nn.Linear): pass\nf.l = L(3, 3)",
    "",
    due("L.__call__ = lambda self, x: x + 1"),
)
row("an unread layer", M, "", kept("f.extra = nn.Linear(2, 2)"), kept("f.extra = None"))
row("dropout's probability", M, "", due("f.d.p = 1.0"))
row("a layer through _modules", M, "", due("f._modules['l'] = nn.Identity()"))
row("a weight through _parameters", M, "", due("f.l._parameters['bias'] = None"))
S = "torch.manual_seed(0)\nf = nn.Sequential(nn.Linear(3, 3), nn.ReLU())\n"
SEQUENCE = (
    "class M(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
    "        self.s = nn.Sequential(nn.Tanh(), nn.ReLU())\n"
    "    def forward(self, x): return self.s(x) + len(self.s)\nf = M()"
)
row("a sequence grows", SEQUENCE, "", due("f.s.append(nn.Tanh())"), kept("f.s._modules['2'] = nn.Tanh()"))
row("a sequence in another order", SEQUENCE, "", due("f.s[0], f.s[1] = f.s[1], f.s[0]"))
DICT = (
    "class M(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
    "        self.s = nn.ModuleDict({'a': nn.Tanh(), 'b': nn.ReLU()})\n"
    "    def forward(self, x, k): return self.s[k](x)\nf = M()\nk = 'a'"
)
row("a key of a module dict", DICT, "", due("k = 'b'"), kept("f.s['c'] = nn.ELU()"), kept("k = 'a'"))
row(
    "a module as an argument",
    "g = nn.ReLU()",
    "lambda x, g: g(x)",
    due("g = nn.Tanh()"),
    kept("g = nn.ReLU()"),
    due("g = nn.ReLU(inplace=True)"),
)
row(
    "a module's activation",
    "class M(nn.Module):\n    act = staticmethod(torch.sin)\n    def forward(self, x): return self.act(x)\nf = M()",
    "",
    due("f.act = torch.cos"),
    due("M.act = None; f.act = torch.tanh"),
)
row("a parametrization", M, "", due("nn.utils.parametrizations.weight_norm(f.l)"))
row("a module's __getattr__", M + "f.q = 'a'", "", kept("M.zzz = 1"))
row(
    "a parameter list",
    "class M(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
    "        self.p = nn.ParameterList([torch.ones(3), torch.ones(3)])\n"
    "    def forward(self, x): return sum(self.p, x)\nf = M()",
    "",
    due("f.p.append(torch.ones(3))"),
    kept("f.p[0] = nn.Parameter(torch.zeros(3))"),
)
