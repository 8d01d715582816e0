"""Rows of the guard table: numbers, strings and other constants, by type and value."""

from guard_rows import due, kept, row

# --- ints and bools -------------------------------------------------------------------------------------
row("an int becomes another, then any", "n = 5", "lambda x, n: x * n", due("n = 7"), kept("n = 9"), kept("n = -4"))
row("an int becomes True", "n = 1", "lambda x, n: (x, n + 1)", due("n = True"), kept("n = 1"))
row("True becomes 1", "n = True", "lambda x, n: (x, str(n))", due("n = 1"), due("n = False"), kept("n = True"))
row("an int becomes a float", "n = 2", "lambda x, n: (x * n, n)", due("n = 2.0"), kept("n = 2"))
row("an int becomes 0 or 1", "n = 5", "lambda x, n: x * n", due("n = 1"), due("n = 0"), kept("n = 1"))
row("an int that nobody reads", "n = 5", "lambda x, n: x + 1", kept("n = 6"), kept("n = 'six'"), kept("n = None"))
row("an int becomes its subclass", "class I(int): pass\nn = 3", "lambda x, n: (x * n, n + 1)", due("n = I(3)"))
row(
    "a subclass becomes its int",
    "class I(int):\n    def __add__(self, o): return 70\nn = I(3)",
    "lambda x, n: x * (n + 1)",
    due("n = 3"),
    kept("n = I(3)"),
)
row("a subclass of int has another value", "class I(int): pass\nn = I(3)", "lambda x, n: x * (n + 1)", due("n = I(4)"))
row("a huge int", "n = 2 ** 80", "lambda x, n: (x, n % 7)", kept("n = 2 ** 80"), due("n = 2 ** 80 + 1"))
row(
    "an int under a condition",
    "n = 5",
    "lambda x, n: x + 1 if n > 3 else x - 1",
    due("n = 6"),
    kept("n = 8"),
    due("n = 2"),
)
row("an int as an index", "n = 1", "lambda x, n: x[n]", due("n = 0"), kept("n = 1"))
row("an int in a string", "n = 2", "lambda x, n: (x, f'{n} of them')", due("n = 3"), kept("n = 2"))
row("a bool decides", "b = True", "lambda x, b: x + 1 if b else x - 1", due("b = False"), kept("b = True"))
row(
    "a truth where only truth is asked", "b = [1]", "lambda x, b: x + 1 if b else x - 1", due("b = []"), kept("b = [2]")
)

# --- floats and complex numbers ---------------------------------------------------------------------------
row("0.0 becomes -0.0", "a = 0.0", "lambda x, a: (x * a, math.copysign(1.0, a))", due("a = -0.0"), kept("a = 0.0"))
row("NaN is itself", "a = float('nan')", "lambda x, a: x * a", kept("a = float('nan')"), due("a = 1.0"))
row("an equal float", "a = 0.5", "lambda x, a: x * a", kept("a = 1 / 2"))
row("a float becomes an int", "a = 2.0", "lambda x, a: (x * a, a)", due("a = 2"))
row("a float decides", "a = 0.5", "lambda x, a: x + 1 if a > 0.1 else x", due("a = 0.6"), due("a = 0.0"))
row("a float that nobody reads", "a = 0.5", "lambda x, a: x + 1", kept("a = 0.6"), kept("a = None"))
row("a subclass of float", "class R(float): pass\na = 0.5", "lambda x, a: (x * a, a + 1)", due("a = R(0.5)"))
row("a complex number", "a = 1j", "lambda x, a: x * a", due("a = 2j"), kept("a = 1j"))
row("the sign of a complex zero", "a = complex(1, 0.0)", "lambda x, a: (x, a.imag)", due("a = complex(1, -0.0)"))
row(
    "inf becomes -inf",
    "a = math.inf",
    "lambda x, a: x if a > 0 else -x",
    due("a = -math.inf"),
    kept("a = float('inf')"),
)

# --- strings and bytes ------------------------------------------------------------------------------------
row("another string", "s = 'sum'", "lambda x, s: getattr(x, s)()", due("s = 'mean'"), kept("s = 'sum'"))
row("an equal string, not the same", "s = 'sum'", "lambda x, s: getattr(x, s)()", kept("s = ''.join(['s', 'um'])"))
row("a string that nobody reads", "s = 'a'", "lambda x, s: x + 1", kept("s = 'b'"), kept("s = 3"))
row("a string becomes bytes", "s = 'ab'", "lambda x, s: (x, s[0])", due("s = b'ab'"), kept("s = 'ab'"))
row("a subclass of str", "class S(str): pass\ns = 'a'", "lambda x, s: (x, s + '!')", due("s = S('a')"))
row(
    "a subclass of str with a method",
    "class S(str):\n    def upper(self): return 'no'\ns = 'a'",
    "lambda x, s: (x, s.upper())",
    due("s = S('a')"),
    due("S.upper = lambda self: 'new'"),
)

# --- None, enums, types -----------------------------------------------------------------------------------
row("None becomes 0", "n = None", "lambda x, n: x if n is None else x * n", due("n = 0"), kept("n = None"))
row("None becomes a tensor", "n = None", "lambda x, n: x if n is None else x * n", due("n = x + 1"), kept("n = x - 1"))
row(
    "another enum member",
    "class E(enum.Enum):\n    A = 1\n    B = 2\ne = E.A",
    "lambda x, e: x * e.value",
    due("e = E.B"),
)
row(
    "an int enum becomes its number",
    "class E(enum.IntEnum):\n    A = 1\n    B = 2\ne = E.B",
    "lambda x, e: (x * e, e + 1)",
    due("e = 2"),
    kept("e = E.B"),
)
row("a flag", "class E(enum.Flag):\n    A = 1\n    B = 2\ne = E.A", "lambda x, e, E: x + bool(e & E.A)", due("e = E.B"))
row(
    "an equal member of another enum",
    "class E(enum.IntEnum):\n    A = 1\nclass G(enum.IntEnum):\n    A = 1\ne = E.A",
    "lambda x, e: (x, type(e).__name__)",
    due("e = G.A"),
)
row("a dtype", "t = torch.float64", "lambda x, t: x.to(t)", due("t = torch.float16"), kept("t = torch.float64"))
row(
    "a device",
    "d = torch.device('cpu')",
    "lambda x, d: x.to(d) + 1",
    kept("d = torch.device('cpu')"),
    due("d = torch.device('meta')"),
)
row(
    "a memory format",
    "m = torch.contiguous_format",
    "lambda x, m: x.clone(memory_format=m)",
    due("m = torch.preserve_format"),
)
row("a class", "t = int", "lambda x, t: (x, t(2.0))", due("t = float"), kept("t = int"))
row("Ellipsis becomes None", "i = ...", "lambda x, i: x[i]", due("i = None"), kept("i = ..."))
row("a slice", "i = slice(0, 2)", "lambda x, i: x[:, i]", kept("i = slice(0, 2)"), due("i = slice(1, 2)"))
row("a range", "r = range(3)", "lambda x, r: x + sum(r)", kept("r = range(0, 3)"), due("r = range(1, 3)"))
row("a size", "s = x.shape", "lambda x, s: x.new_zeros(s)", kept("s = torch.Size([2, 3])"), due("s = (2, 3)"))
row("an object's identity", "o = p = object()", "lambda x, o, p: x + (o is p)", due("o = object()"))

# --- functions as values ------------------------------------------------------------------------------------
row("a function of other code", "g = lambda x: x + 1", "lambda x, g: g(x)", due("g = lambda x: x - 1"))
row(
    "another function of the same code",
    "make = lambda: lambda x: x + 1\ng = make()",
    "lambda x, g: g(x)",
    kept("g = make()"),
)
row(
    "the same code, another closure",
    "make = lambda k: lambda x: x * k\ng = make(2.5)",
    "lambda x, g: g(x)",
    kept("g = make(2.5)"),
    due("g = make('ab' and 3.5)"),
)
row(
    "the same code, another default",
    "def make(k):\n    def g(x, n=k): return x + len(n)\n    return g\ng = make('ab')",
    "lambda x, g: g(x)",
    kept("g = make('ab')"),
    due("g = make('abc')"),
)
row("a function becomes a class", "g = abs", "lambda x, g: (x, g(-1))", due("g = float"), kept("g = abs"))
row("a builtin function", "g = min", "lambda x, g: (x, g(1, 2))", due("g = max"), kept("g = min"))
row("a torch function", "g = torch.sin", "lambda x, g: g(x)", due("g = torch.cos"), kept("g = torch.sin"))
row("a partial's function", "g = partial(torch.add, 1)", "lambda x, g: g(x)", due("g = partial(torch.sub, 1)"))
row(
    "a partial's argument",
    "g = partial(torch.add, other='no' and 2)",
    "lambda x, g: g(x)",
    due("g = partial(torch.add, other=3)"),
)
row(
    "a partial's keyword",
    "g = partial(torch.sum, dim=0)",
    "lambda x, g: g(x)",
    due("g = partial(torch.sum, keepdim=True, dim=0)"),
)
row(
    "a bound method's object",
    "a, b = [1], [1, 2]\ng = a.count",
    "lambda x, g: x + g(1)",
    kept("g = [1].count"),
    due("g = [1, 1].count"),
)
row(
    "a bound method of another function",
    "class C:\n    def a(self, x): return x + 1\n    def b(self, x): return x - 1\nc = C()\ng = c.a",
    "lambda x, g: g(x)",
    kept("g = C().a"),
    due("g = c.b"),
)
row(
    "another float",
    "a = 0.5",
    "lambda x, a: x * a",
    due("a = 0.25"),
    kept("a = 0.75"),
    kept("a = -0.0"),
    due("a = math.inf"),
)
row(
    "a float that is looked at", "a = 0.5", "lambda x, a: (x, f'{a}')", due("a = 0.0"), due("a = -0.0"), kept("a = 0.0")
)
row("a float of which more is computed", "a = 0.5", "lambda x, a: x + (a * 3 - 1) / 7", due("a = 2.5"), kept("a = 0.1"))
row(
    "a float that a condition compares",
    "a = 0.5",
    "lambda x, a: x if a > 1 else -x",
    due("a = 0.25"),
    kept("a = 0.75"),
    due("a = 7.5"),
)
