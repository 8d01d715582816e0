"""Rows of the guard table: objects, classes, functions, globals, closures, modules."""

from guard_rows import due, kept, row

# --- globals and builtins ---------------------------------------------------------------------------------
row(
    "how an object is copied",
    "class C: pass\nc = C()\nc.v = 1\nimport copyreg",
    "lambda x, c, copy: x + copy.copy(c).v",
    due("copyreg.pickle(C, lambda c: (C, (), {'v': 5}))"),
    kept("del copyreg.dispatch_table[C]"),
)
row("a global is rebound", "S = 'a'", "lambda x: x + len(S)", due("S = 'ab'"), kept("S = 'a'"), kept("T = 1"))
row("a global appears", "", "lambda x: x + len('abc')", due("len = lambda s: 7"), kept("del len"))
row("a global goes away", "def len(s): return 7", "lambda x: x + len('abc')", due("del len"))
row("a global function", "def g(x): return x + 1", "lambda x: g(x)", due("def g(x): return x - 1"))
row("a global of a function that is inlined", "S = 'a'\ndef g(x): return x + len(S)", "lambda x: g(x)", due("S = 'ab'"))
row(
    "a global of another module",
    "import string",
    "lambda x: x + len(string.digits)",
    due("later(setattr, string, 'digits', string.digits); string.digits = '1'"),
)
row(
    "what a module has not",
    "import string",
    "lambda x: x + getattr(string, 'fewest', 1)",
    due("later(vars(string).pop, 'fewest', None); string.fewest = 5"),
    kept("later(vars(string).pop, 'most', None); string.most = 5"),
)
row(
    "an attribute of a module that nobody reads",
    "import string",
    "lambda x: x + len(string.digits)",
    kept("later(setattr, string, 'hexdigits', string.hexdigits); string.hexdigits = '1'"),
)
row(
    "a function of torch is replaced",
    "",
    "lambda x: torch.sin(x)",
    due("later(setattr, torch, 'sin', torch.sin); torch.sin = torch.cos"),
)
row(
    "a function of torch.nn is replaced",
    "",
    "lambda x: F.relu(x)",
    due("later(setattr, F, 'relu', F.relu); F.relu = torch.cos"),
)

# --- closures, defaults, code --------------------------------------------------------------------------------
CLOSURE = (
    "def make(k):\n    def f(x): return x + len(k)\n    def set(v):\n        nonlocal k\n        k = v\n"
    "    return f, set\nf, set_k = make('a')"
)
row(
    "no defaults, and defaults that are empty",
    "def g(a): return a\ng.__defaults__ = ()",
    "lambda x: g(x) + len(g.__defaults__ or 'ab')",
    due("g.__defaults__ = (1,)"),
    due("g.__defaults__ = None"),
    kept("g.__defaults__ = ()"),
)
row("a closure cell", CLOSURE, "", due("set_k('ab')"), kept("set_k('a')"))
row(
    "a closure cell of a callee",
    CLOSURE.replace("f, set_k", "g, set_k"),
    "lambda x, g: g(x)",
    due("set_k('ab')"),
    kept("set_k('a')"),
)
row(
    "a cell is emptied",
    "def make():\n    k = 'a'\n    def f(x):\n        try: return x + len(k)\n"
    "        except NameError: return x\n    def cut():\n        nonlocal k\n        del k\n"
    "    return f, cut\nf, cut = make()",
    "",
    due("cut()"),
)
row(
    "a cell becomes another",
    CLOSURE + "\nh, _ = make('abc')\ndef g(x): return f(x)",
    "lambda x, f=f: f(x)",
    due("__f = None; g = None; f.__defaults__ = (h,)"),
)
row(
    "defaults are replaced",
    "def f(x, s='a'): return x + len(s)",
    "",
    due("f.__defaults__ = ('ab',)"),
    kept("f.__defaults__ = ('a',)"),
)
row("keyword defaults are replaced", "def f(x, *, s='a'): return x + len(s)", "", due("f.__kwdefaults__ = {'s': 'ab'}"))
row(
    "a callee's defaults",
    "def g(x, s='a'): return x + len(s)",
    "lambda x, g: g(x)",
    due("g.__defaults__ = ('ab',)"),
    due("g.__defaults__ = (1, 'ab')"),
)
row(
    "a callee's defaults go away",
    "def g(x, s='a'): return x + len(s)",
    "lambda x, g: g(x)",
    due("g.__defaults__ = None"),
    fullgraph=False,
)
row(
    "a callee's default that is not used",
    "def g(x, s='a'): return x + len(s)",
    "lambda x, g: g(x, 'q')",
    kept("g.__defaults__ = ('ab',)"),
)
row(
    "a callee's keyword default",
    "def g(x, *, s='a'): return x + len(s)",
    "lambda x, g: g(x)",
    due("g.__kwdefaults__ = {'s': 'ab'}"),
    kept("g.__kwdefaults__['s'] = 'a'"),
)
row(
    "a callee's keyword defaults go away",
    "def g(x, *, s='a'): return x + len(s)",
    "lambda x, g: g(x)",
    due("g.__kwdefaults__ = None"),
    fullgraph=False,
)
row(
    "a callee gets keyword defaults",
    "def g(x, *, s): return x + len(s)",
    "lambda x, g: g(x)",
    due("g.__kwdefaults__ = {'s': 'a'}"),
    fullgraph=False,
)
row(
    "a callee's code",
    "def g(x): return x + 1\ndef h(x): return x - 1",
    "lambda x, g: g(x)",
    due("g.__code__ = h.__code__"),
)
row(
    "the code of the function itself",
    "def f(x): return x + 1\ndef h(x): return x - 1",
    "",
    due("f.__code__ = h.__code__"),
    kept("x = x + 1"),
)
row(
    "an attribute of a function",
    "def g(): pass\ng.scale = 'a'",
    "lambda x, g: x + len(g.scale)",
    due("g.scale = 'ab'"),
    kept("g.other = 3"),
)
row("an absent attribute of a function", "def g(): pass", "lambda x, g: x + hasattr(g, 'scale')", due("g.scale = 1"))
row(
    "a function's wrapped one",
    "def g(x): return x + 1\n@functools.wraps(g)\ndef h(x): return h.__wrapped__(x)",
    "lambda x, h: h(x)",
    due("h.__wrapped__ = torch.cos"),
)

# --- instances -------------------------------------------------------------------------------------------------
C = "class C:\n    kind = 'class'\n    def __init__(self): self.s = 'a'\n    def g(self, x): return x + 1\nc = C()\n"
row("an attribute that is read", C, "lambda x, c: x + len(c.s)", due("c.s = 'ab'"), kept("c.s = 'a'"))
row("an attribute that nobody reads, of an object", C, "lambda x, c: x + len(c.s)", kept("c.t = 3"), kept("C.u = 5"))
row("an attribute through __dict__", C, "lambda x, c: x + len(c.s)", due("c.__dict__['s'] = 'ab'"))
row("the __dict__ is replaced", C, "lambda x, c: x + len(c.s)", due("c.__dict__ = {'s': 'ab'}"))
row("the __dict__ is read", C, "lambda x, c: x + len(c.__dict__)", due("c.t = 3"), kept("del c.t"))
row("another object of the class", C, "lambda x, c: x + len(c.s)", kept("c = C()"), due("c = C(); c.s = 'ab'"))
row(
    "the class of an object",
    C + "class D(C):\n    def g(self, x): return x - 1",
    "lambda x, c: c.g(x)",
    due("c.__class__ = D"),
)
row("an attribute goes away", C, "lambda x, c: x + hasattr(c, 's')", due("del c.s"), kept("c.s = 'a'"))
row(
    "an instance hides a class attribute", C, "lambda x, c: x + len(c.kind)", due("c.kind = 'mine'"), kept("del c.kind")
)
row("a class attribute", C, "lambda x, c: x + len(c.kind)", due("C.kind = 'other'"), kept("C.kind = 'class'"))
row("a method on the class", C, "lambda x, c: c.g(x)", due("C.g = lambda self, x: x - 1"))
row("a method on the instance", C, "lambda x, c: c.g(x)", due("c.g = lambda x: x - 1"), kept("del c.g"))
row("a method's code", C, "lambda x, c: c.g(x)", due("C.g.__code__ = (lambda self, x: x - 1).__code__"))
row("a method that is not called", C, "lambda x, c: x + len(c.s)", kept("C.g = None"))
row(
    "a base's method is hidden",
    C + "class D(C): pass\nc = D()",
    "lambda x, c: c.g(x)",
    due("D.g = lambda self, x: x - 1"),
    kept("del D.g"),
)
row(
    "the bases change",
    C + "class B(C):\n    def g(self, x): return x - 1\nclass A(C): pass\nclass D(A): pass\nc = D()",
    "lambda x, c: c.g(x)",
    due("D.__bases__ = (B,)"),
)
row(
    "the bases change an attribute",
    C + "class A(C): kind = 'aa'\nclass B(C): kind = 'b'\nclass D(A): pass\nc = D()",
    "lambda x, c: x + len(c.kind)",
    due("D.__bases__ = (B,)"),
)
row(
    "super finds another",
    C + "class A(C): pass\nclass D(A):\n    def g(self, x): return super().g(x) * 2\nc = D()",
    "lambda x, c: c.g(x)",
    due("A.g = lambda self, x: x - 1"),
)
row(
    "isinstance after a change of bases",
    C + "class A: pass\nclass B(C): pass\nclass D(B): pass\nc = D()",
    "lambda x, c: x + isinstance(c, C)",
    due("class E: pass\nB.__bases__ = (E,)"),
)
row("isinstance", C + "class D(C): pass", "lambda x, c: x + isinstance(c, C)", due("c = D()"), kept("c = C()"))
row(
    "a property's getter",
    C + "C.p = property(lambda self: len(self.s))",
    "lambda x, c: x + c.p",
    due("C.p = property(lambda self: 7)"),
)
row(
    "what a property reads",
    C + "C.p = property(lambda self: len(self.s))",
    "lambda x, c: x + c.p",
    due("c.s = 'ab'"),
    kept("c.t = 1"),
)
row(
    "a property in place of an attribute",
    C,
    "lambda x, c: x + len(c.s)",
    due("C.s = property(lambda self: 'property')"),
)
row(
    "a static method",
    C + "C.h = staticmethod(lambda: 'a')",
    "lambda x, c: x + len(c.h())",
    due("C.h = staticmethod(lambda: 'ab')"),
)
row(
    "a class method",
    C + "C.h = classmethod(lambda cls: cls.kind)",
    "lambda x, c: x + len(c.h())",
    due("C.h = classmethod(lambda cls: 'ab')"),
    due("C.h = classmethod(lambda cls: cls.kind); C.kind = 'q'"),
)
row(
    "a cached property",
    C + "def p(self): return len(self.s)\nC.p = functools.cached_property(p); C.p.__set_name__(C, 'p')",
    "lambda x, c: (x + c.p, c.__dict__.pop('p'))[0]",
    due("c.s = 'ab'"),
)
row(
    "a slot",
    "class C: __slots__ = ('s', 't')\nc = C(); c.s = 'a'",
    "lambda x, c: x + len(c.s)",
    due("c.s = 'ab'"),
    kept("c.t = 1"),
)
row(
    "a slot that is not set",
    "class C: __slots__ = ('s', 't')\nc = C()",
    "lambda x, c: x + hasattr(c, 's')",
    due("c.s = 'ab'"),
    kept("del c.s"),
)
row(
    "a slot hidden by the class",
    "class C: __slots__ = ('s',)\nc = C(); c.s = 'a'",
    "lambda x, c: x + len(c.s)",
    due("C.s = 'abc'"),
)
row(
    "a descriptor",
    "class P:\n    def __get__(self, o, t): return len(o.s)\nclass C: p = P()\nc = C(); c.s = 'a'",
    "lambda x, c: x + c.p",
    due("P.__get__ = lambda self, o, t: 5"),
    due("C.p = 4"),
)
row(
    "an attribute becomes a descriptor",
    "class P:\n    k = 3\nclass C: p = P()\nc = C()",
    "lambda x, c: (x, type(c.p).__name__)",
    due("P.__get__ = lambda self, o, t: 5"),
)
row("__getattr__ is added", C, "lambda x, c: x + getattr(c, 'q', 1)", due("C.__getattr__ = lambda self, n: 5"))
row(
    "__getattr__ is replaced",
    C + "C.__getattr__ = lambda self, n: 5",
    "lambda x, c: x + c.q",
    due("C.__getattr__ = lambda self, n: 6"),
    due("c.q = 7"),
)
row("__getattribute__ is added", C, "lambda x, c: x + len(c.s)", due("C.__getattribute__ = lambda self, n: 'abcd'"))
row(
    "__call__ is replaced",
    C + "C.__call__ = lambda self, x: x + 1",
    "lambda x, c: c(x)",
    due("C.__call__ = lambda self, x: x - 1"),
)
row("__len__ is added", C, "lambda x, c: x + 1 if c else x", due("C.__len__ = lambda self: 0"))
row(
    "__bool__ is added",
    C + "C.__len__ = lambda self: 1",
    "lambda x, c: x + 1 if c else x",
    due("C.__bool__ = lambda self: False"),
)
row("__eq__ is added", C + "d = C()", "lambda x, c, d: x + (c == d)", due("C.__eq__ = lambda self, o: True"))
row(
    "__add__ is replaced",
    C + "C.__add__ = lambda self, o: 3",
    "lambda x, c: x * (c + 1)",
    due("C.__add__ = lambda self, o: 4"),
)
row(
    "__radd__ of a subclass is added",
    C + "C.__add__ = lambda self, o: 3\nclass D(C): pass\nd = D()",
    "lambda x, c, d: x * (c + d)",
    due("D.__radd__ = lambda self, o: 4"),
)
row(
    "__iter__ in place of __getitem__",
    "class C:\n    def __getitem__(self, i):\n        if i > 2: raise IndexError\n        return i\nc = C()",
    "lambda x, c: x + sum(c)",
    due("C.__iter__ = lambda self: iter([9])"),
)
row(
    "__contains__ is added",
    "class C:\n    def __iter__(self): return iter([1])\nc = C()",
    "lambda x, c: x + (3 in c)",
    due("C.__contains__ = lambda self, v: True"),
)
row(
    "__setattr__ is added",
    C,
    "lambda x, c: (setattr(c, 't', 1), x + c.t)",
    due("C.__setattr__ = lambda self, n, v: object.__setattr__(self, n, 5)"),
)
row("__init__ is replaced", C, "lambda x, C: x + len(C().s)", due("C.__init__ = lambda self: setattr(self, 's', 'ab')"))
row(
    "__new__ is added",
    C,
    "lambda x, C: x + len(C().s)",
    due("class D(C): s = 'abc'\nD.__init__ = lambda self: None\nC.__new__ = lambda cls: object.__new__(D)"),
)
row(
    "__hash__ is added",
    C + "d, k = {c: 'a'}, C()",
    "lambda x, k, d: (x, k in d)",
    due("C.__hash__ = lambda self: 3; C.__eq__ = lambda s, o: True; d = {c: 1}"),
)
row(
    "__format__ is added",
    C + "C.__str__ = lambda self: 'a'",
    "lambda x, c: (x, f'{c}')",
    due("C.__format__ = lambda self, s: 'b'"),
)
row(
    "a metaclass's attribute",
    "class M(type): k = 'a'\nclass C(metaclass=M): pass",
    "lambda x, C: x + len(C.k)",
    due("M.k = 'ab'"),
    due("C.k = 'abc'"),
)
row("an attribute of a class", C, "lambda x, C: x + len(C.kind)", due("C.kind = 'a'"), kept("C.other = 1"))
row("an attribute of a class appears", C, "lambda x, C: x + hasattr(C, 'q')", due("C.q = 1"), kept("del C.q"))
row(
    "a dataclass's field",
    "@dataclass\nclass C:\n    s: str = 'a'\n    t: int = 1\nc = C()",
    "lambda x, c: x + len(c.s)",
    due("c.s = 'ab'"),
    kept("c.t = 9"),
)
row("a float of an object", C + "c.lr = 0.5", "lambda x, c: x * c.lr", due("c.lr = 0.25"), kept("c.lr = 0.125"))
row("an int of an object", C + "c.n = 5", "lambda x, c: x * c.n", due("c.n = 6"), kept("c.n = 9"))
row("an object that dies", C, "lambda x, c: x + len(c.s)", kept("del c; c = C()"), due("del c; c = C(); c.s = 'abc'"))
row(
    "an identity that comes again",
    "class K: pass\nk = K()\nwhere = id(k)",
    "lambda x, k, d=None: (x, k is d)",
    kept("k = K()"),
)

# --- a compiled method, generators ---------------------------------------------------------------------------
row(
    "a set of methods in a table",
    C + "t = {'g': C.g}",
    "lambda x, c, t: t['g'](c, x)",
    due("t['g'] = lambda c, x: x - 1"),
)
row("a generator function's global", "S = 'a'\ndef g():\n    yield len(S)", "lambda x: x + sum(g())", due("S = 'ab'"))
row(
    "a builtin is rebound",
    "import builtins\nbuiltins.help_me = lambda: 1\nlater(builtins.__dict__.pop, 'help_me', None)",
    "lambda x: x + help_me()",
    due("builtins.help_me = lambda: 2"),
)
row(
    "a builtin is added",
    "import builtins",
    "lambda x: x + late",
    due("builtins.late = 3; later(builtins.__dict__.pop, 'late', None)"),
    fullgraph=False,
)
