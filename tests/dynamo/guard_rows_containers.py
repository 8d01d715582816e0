"""Rows of the guard table: containers, by type, length, keys and their order, and the elements that were read."""

from guard_rows import due, kept, row

# --- lists and tuples -----------------------------------------------------------------------------------
row("an item that is read", "v = ['a', 'b']", "lambda x, v: x + len(v[0])", due("v[0] = 'aa'"), kept("v[0] = 'a'"))
row(
    "an item that nobody reads",
    "v = ['a', 'b']",
    "lambda x, v: x + len(v[0])",
    kept("v[1] = 'bb'"),
    kept("v[1] = None"),
)
row("a list grows", "v = [1.5]", "lambda x, v: x + len(v)", due("v.append(0)"), kept("v.pop()"))
row("a list that nobody reads", "v = [1]", "lambda x, v: x + 1", kept("v.append(2)"), kept("v = None"))
row("a list becomes a tuple", "v = [1, 2]", "lambda x, v: (x, v * 2)", due("v = (1, 2)"))
row("a list becomes its subclass", "class L(list): pass\nv = [1, 2]", "lambda x, v: (x, len(v))", due("v = L([1, 2])"))
row(
    "a subclass of list changes a method",
    "class L(list): pass\nv = L([1, 2])",
    "lambda x, v: x + len(v)",
    kept("v[0] = 7"),
    due("L.__len__ = lambda self: 9"),
)
row("True for 1 in a list", "v = [1, 2]", "lambda x, v: (x, str(v[0]))", due("v[0] = True"))
row("a list in a list", "v = [['a'], ['b']]", "lambda x, v: x + len(v[1][0])", kept("v[0] = 3"), due("v[1] = ['cc']"))
row("a list is sorted otherwise", "v = ['a', 'bb']", "lambda x, v: x + len(v[0])", due("v.reverse()"), kept("v.sort()"))
row("a tuple's value", "v = (1, 'a')", "lambda x, v: x * len(v[1])", kept("v = (1, 'a')"), due("v = (1, 'bb')"))
row(
    "a tuple inside a tuple",
    "v = (1, (2, 0.0))",
    "lambda x, v: (x, str(v))",
    due("v = (1, (2, -0.0))"),
    due("v = (True, (2, 0.0))"),
)
row("a tuple of tensors", "v = (x, x + 1)", "lambda v: v[0] + v[1]", kept("v = (x * 2, x * 3)"), due("v = (x, x)"))
row(
    "a named tuple's field",
    "N = collections.namedtuple('N', 'a b')\nv = N('a', 'b')",
    "lambda x, v: x + len(v.a)",
    due("v = N('aa', 'b')"),
    kept("v = N('a', 'b')"),
)
row(
    "another named tuple",
    "N, M = collections.namedtuple('N', 'a b'), collections.namedtuple('M', 'b a')\nv = N('a', 'bb')",
    "lambda x, v: x + len(v.a)",
    due("v = M('a', 'bb')"),
    kept("v = N('a', 'bb')"),
)
row(
    "a deque turns",
    "v = collections.deque(['a', 'bb'])",
    "lambda x, v: x + len(v[0])",
    due("v.rotate()"),
    kept("v.rotate()"),
)
row(
    "a deque's limit",
    "v = collections.deque([1], 3)",
    "lambda x, v: (x, v.maxlen)",
    due("v = collections.deque([1], 4)"),
)
row(
    "a list of modules",
    "v = [nn.ReLU(), nn.Tanh()]",
    "lambda x, v: v[1](v[0](x))",
    due("v.reverse()"),
    kept("v.reverse()"),
)

# --- dicts ----------------------------------------------------------------------------------------------
row(
    "a value that is read",
    "d = {'a': 'x', 'b': 'y'}",
    "lambda x, d: x + len(d['a'])",
    due("d['a'] = 'xx'"),
    kept("d['a'] = 'x'"),
)
row(
    "a value that nobody reads",
    "d = {'a': 'x', 'b': 'y'}",
    "lambda x, d: x + len(d['a'])",
    kept("d['b'] = 3"),
    kept("del d['b']"),
)
row("a key that nobody asks for", "d = {'a': 'x'}", "lambda x, d: x + len(d['a'])", kept("d['c'] = 3"))
row(
    "an absent key appears",
    "d = {'a': 1}",
    "lambda x, d: x + len(d.get('b', ''))",
    kept("d['c'] = 3"),
    due("d['b'] = 'zz'"),
)
row(
    "membership",
    "d = {'a': 1}",
    "lambda x, d: x + ('b' in d)",
    kept("d['c'] = 3"),
    due("d['b'] = 0"),
    kept("del d['b']"),
)
row(
    "a key goes away",
    "d = {'a': 'x'}",
    "lambda x, d: x + len(d['a'])",
    due("d.clear()"),
    kept("d['a'] = 'x'"),
    fullgraph=False,
)
row("the number of keys", "d = {'a': 1}", "lambda x, d: x + len(d)", due("d['b'] = 1"), kept("del d['b']"))
row(
    "the order of keys",
    "d = {'a': 1.5, 'b': 2.5}",
    "lambda x, d: (x, list(d))",
    due("d['a'] = d.pop('a')"),
    kept("d = {'b': 0, 'a': 9}"),
)
row("True for 1 as a key", "d = {1: 'a'}", "lambda x, d: (x, list(d))", due("d = {True: 'a'}"))
row("a tensor in a dict", "d = {'a': x}", "lambda d: d['a'] * 2", kept("d['a'] = x + 1"), due("d['a'] = x.double()"))
row(
    "the order of tensors in a dict",
    "d = {'a': x, 'b': x + 1}",
    "lambda d: [v * 2 for v in d.values()]",
    due("d['a'] = d.pop('a')"),
)
row(
    "a dict becomes an ordered one",
    "d = {'a': 'x'}",
    "lambda x, d: (x, d.copy())",
    due("d = collections.OrderedDict(d)"),
)
row(
    "a dict's subclass",
    "class D(dict):\n    def __missing__(self, k): return 5\nd = {'a': 'x'}",
    "lambda x, d: x + len(d['a'])",
    due("d = D(a='x')"),
)
row(
    "a default factory",
    "d = collections.defaultdict(list)",
    "lambda x, d: (x, d['q'], d.clear())",
    due("d = collections.defaultdict(dict)"),
)
row("a counter", "d = collections.Counter('aab')", "lambda x, d: x + d['a']", due("d['a'] += 1"), kept("d['z'] += 1"))
row(
    "a nested dict",
    "d = {'a': {'b': 'x'}}",
    "lambda x, d: x + len(d['a']['b'])",
    kept("d['a']['c'] = 1"),
    due("d['a'] = {'b': 'xy'}"),
)
row(
    "keys that are objects",
    "k, l = object(), object()\nd = {k: 'a'}",
    "lambda x, d, k: x + len(d[k])",
    due("d[k] = 'aa'"),
    due("k = l; d[k] = 'b'"),
)
row(
    "a key whose hash has changed",
    "class K:\n    def __hash__(self): return self.v\nk = K()\nk.v = 1\nd = {k: 1}",
    "lambda x, d, k: (x, k in d)",
    due("k.v = 2"),
    kept("d = {k: 1}"),
    fullgraph=False,
)
row(
    "an enum as a key",
    "class E(enum.Enum):\n    A = 1\n    B = 2\nd = {E.A: 'a'}",
    "lambda x, d, E: x + len(d[E.A])",
    due("d[E.A] = 'aa'"),
    kept("d[E.A] = 'a'"),
)
row(
    "a mapping proxy",
    "d = {'a': 'x'}\np = types.MappingProxyType(d)",
    "lambda x, p: x + len(p['a'])",
    due("d['a'] = 'xx'"),
)
row("a dict's view", "d = {'a': 'x'}", "lambda x, d: (x, 'b' in d.keys())", due("d['b'] = 1"), kept("del d['b']"))

# --- sets -----------------------------------------------------------------------------------------------
row("an element of a set", "s = {'a'}", "lambda x, s: x + ('b' in s)", due("s.add('b')"), kept("s.discard('b')"))
row("the size of a set", "s = {'a'}", "lambda x, s: x + len(s)", due("s.add('b')"))
row("an equal set", "s = {'a'}", "lambda x, s: x + len(s)", kept("s = {'a'}"))
row("a set becomes frozen", "s = {1}", "lambda x, s: (x, s | {2})", due("s = frozenset({1})"))
row(
    "a frozen set's elements",
    "s = frozenset({1})",
    "lambda x, s: x + (1 in s)",
    kept("s = frozenset([1])"),
    due("s = frozenset({2})"),
)
row("True for 1 in a set", "s = {1}", "lambda x, s: (x, list(s))", due("s = {True}"))

# --- identity -------------------------------------------------------------------------------------------
CHANGED = "lambda x, v, w: (v.append(1), x + len(w), v.pop())[1]"
row("one list becomes two", "v = w = ['a']", CHANGED, due("v, w = ['a'], ['a']"), kept("v = w"))
row("two lists become one", "v, w = ['a'], ['a']", CHANGED, due("v = w"), kept("v = ['a']"))
row("two lists become one, read only", "v, w = ['a'], ['a']", "lambda x, v, w: x + len(v + w)", kept("v = w"))
row(
    "two objects become one",
    "o, p = object(), object()",
    "lambda x, o, p: x + (o is p)",
    due("o = p"),
    kept("o = object()"),
)
row("a list among lists", "v, w = [], []", "lambda x, v, w: x + any(v is u for u in [w])", due("v = w"), kept("v = []"))
row("two functions become one", "g, h = [lambda: 1 for _ in 'ab']", "lambda x, g, h: x + (g is h)", due("g = h"))
row(
    "a key that is another object",
    "k, d = object(), {object(): 1}",
    "lambda x, k, d: x + (k in d)",
    due("k, = d"),
    kept("k = object()"),
)
