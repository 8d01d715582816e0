"""One call, observed: result, arguments, globals, printed text, exception with its user lines; aliasing included.

Goes in: a function of a program's namespace and the number of a world (a set of arguments).  Comes out: a nested tuple
of plain values, which is equal for two calls that did the same.
"""

import collections
import contextlib
import functools
import io
import itertools
import operator
import re
import traceback
import types

import torch

from . import library, prelude

VIEWS = (types.MappingProxyType, bytearray, *map(type, [{}.keys(), {}.values(), {}.items()]))
ITERATORS = (
    types.GeneratorType,
    *map(type, [iter([]), iter(()), iter({}), iter(set()), iter(range(0)), iter(""), map(int, []), filter(int, [])]),
    *map(type, [zip(), enumerate([]), reversed([]), itertools.count(), itertools.chain(), iter({}.items())]),
    *map(type, [iter({}.values()), itertools.accumulate([]), itertools.islice([], 0), iter(collections.deque())]),
)


LAZY = tuple(kind for kind in vars(itertools).values() if isinstance(kind, type))


class Snapshot:
    """Turns values into plain tuples; the second time an object comes, only its number."""

    def __init__(self):
        self.seen = {}  # id -> (number, the object, kept alive)
        # What waits until all that has an order is numbered: (the list of its elements, a set); and causes and contexts
        # of exceptions, and theirs in their turn, of which there may be thousands.
        self.sets, self.linked = collections.deque(), collections.deque()

    def known(self, value):
        """The number of an object that came before, or None."""
        if id(value) in self.seen:
            return self.seen[id(value)][0]
        self.seen[id(value)] = (len(self.seen), value)
        return None

    def __call__(self, value):
        if isinstance(value, str):
            return "str", re.sub(r" at 0x\w+", "", repr(value))
        if value is None or isinstance(value, (bool, int, complex, range, type, types.ModuleType)):
            return type(value).__name__, repr(value)
        if isinstance(value, (float, slice, bytes, library.PLAIN)) or type(value).__repr__ is type.__repr__:
            return type(value).__name__, repr(value)
        if isinstance(value, (tuple, frozenset)):
            return self.elements(value), self.attributes(value)
        known = self.known(value)
        if known is not None:
            return "seen", known
        if isinstance(value, torch.Tensor):
            return self.tensor(value)
        if isinstance(value, ITERATORS):
            return type(value).__name__, self.drain(value)
        if isinstance(value, (list, set, collections.deque, dict)):
            return self.elements(value), self.attributes(value)
        if isinstance(value, VIEWS):
            return type(value).__name__, [self(item) for item in value]
        if isinstance(value, LAZY):
            return type(value).__name__, self.drain(value)
        return self.instance(value)

    def attributes(self, value):
        """Of an object of a class that is derived from a builtin."""
        return self(dict(held)) if (held := read(value, "__dict__", None)) else None

    def elements(self, value):
        if isinstance(value, (set, frozenset)):
            self.sets.append(([], value))
            return type(value).__name__, self.sets[-1][0]
        if isinstance(value, dict):
            pairs = [(self(k), self(v)) for k, v in value.items()]
            factory = value.default_factory if isinstance(value, collections.defaultdict) else None
            return type(value).__name__, pairs, self(factory)
        maxlen = value.maxlen if isinstance(value, collections.deque) else None
        return type(value).__name__, [self(element) for element in value], maxlen

    def finish(self):
        """How the causes and contexts look; the elements of sets, of which two may look alike where one of them is
        seen elsewhere too, after the set."""
        links = []
        while self.linked or self.sets:
            if self.linked:
                links.append(self(self.linked.popleft()))
            else:
                elements, value = self.sets.popleft()
                elements += map(self, sorted(value, key=self.rank))
        return links

    def rank(self, element):
        """Numbers the elements of a set alike, whatever their addresses: what came before, then by what they are."""
        known = self.seen[id(element)][0] if id(element) in self.seen else len(self.seen)
        apart = Apart()
        looks = apart(element), apart.finish()
        return known, repr(looks)

    def tensor(self, value):
        storage = "storage", value.untyped_storage().data_ptr()
        number = self.seen.setdefault(storage, (len(self.seen), value))[0]
        facts = [value.dtype, tuple(value.shape), value.stride(), value.requires_grad, value.storage_offset()]
        with contextlib.suppress(RuntimeError):  # a view that autograd has given up: it has no such answers
            if value.is_leaf and value.grad is not None:
                facts.append(self(value.grad))
        return type(value).__name__, number, repr(facts), repr(value.detach().tolist())

    def drain(self, iterator):
        """What an iterator still gives, and how it ends."""
        items = []
        try:
            for item in itertools.islice(iterator, 20):
                items.append(self(item))
        except Exception as error:
            items.append(self(error))
        return items

    def instance(self, value):
        name = type(value).__qualname__
        if isinstance(value, BaseException):
            self.linked += value.__cause__, value.__context__
            chain = value.__suppress_context__
            groups = self(list(value.exceptions) if isinstance(value, BaseExceptionGroup) else ())
            return name, self(value.args), chain, groups, self(dict(vars(value)))
        if isinstance(value, types.FunctionType):
            cells = [self(contents(cell)) for cell in value.__closure__ or ()]
            defaults = self(value.__defaults__), self(value.__kwdefaults__)
            return name, value.__qualname__, value.__code__.co_firstlineno, cells, defaults, self(dict(vars(value)))
        if isinstance(value, types.MethodType):
            return name, self(value.__self__), value.__func__.__qualname__
        if isinstance(value, (functools.partial, functools.partialmethod)):
            return name, self(value.func), self(value.args), self(value.keywords)
        if isinstance(value, torch.nn.Module):
            state = {k: v for k, v in vars(value).items() if not k.startswith("_")}
            return name, self(state), self(dict(value.named_parameters())), self(dict(value.named_buffers()))
        slots = [self(read(value, slot, "unset")) for slot in getattr(type(value), "__slots__", ()) if slot[:2] != "__"]
        return name, self(dict(read(value, "__dict__", {}))), slots


class Apart(Snapshot):
    """Looks without touching: iterators keep what they have."""

    def drain(self, iterator):
        return []


def read(value, name, default):
    """An attribute that lies in the object itself: `__getattr__` of the program would answer for any name."""
    try:
        return object.__getattribute__(value, name)
    except AttributeError:
        return default


def contents(cell):
    try:
        return cell.cell_contents
    except ValueError:
        return "empty cell"


# --- worlds: the sets of arguments ----------------------------------------------------------------------
PARAMETERS = "x y w n m r c a b d e s q o p u v it net"
WORLDS = 7
NUMBERS = (  # n, m, r, c of each world
    (2, 1, 1.5, "k1"),
    (2, 1, 1.5, "k1"),
    (3, -1, -0.25, "zz"),
    (True, 4, 2, ""),
    (0, 0, 0.5, "k0"),
    (5, 2, float("inf"), "k12"),
    (1, prelude.Number(2), -0.0, prelude.Word("k")),
)
OBJECTS = (prelude.Heat, prelude.Heat, prelude.Point, prelude.Money, prelude.Chain, prelude.Tagged, prelude.Chameleon)


def tensors(world):
    size, dtype = {3: (3, torch.float64), 5: (4, torch.float32)}.get(world, (2, torch.float32))
    x = torch.arange(size * size, dtype=dtype).reshape(size, size) - (6 if world == 1 else 1)
    y = x if world == 4 else x.t().clone() / 2
    if world == 6:
        base = torch.arange(12.0).reshape(3, 4)
        x, y = base[:2, 1:3], base[1:, :2]
    return x, y, torch.full((size, size), 0.5, dtype=dtype, requires_grad=world != 6)


def arguments(world):
    """Fresh arguments.  Worlds differ in values (1), lengths and ints (2), sizes and types (3), aliasing (4), sizes,
    numbers and classes of containers (5), layout, flags and classes derived from builtins (6)."""
    x, y, w = tensors(world)
    n, m, r, c = NUMBERS[world]
    a = [[1, 2, 3], [1, 2, 3], [5], [], [2, 0, 2, 1], [4, 4, 1, 3, 0], prelude.Row(1, 2)][world]
    b = a if world == 4 else [n, "s", None, a, x]
    d = {"k1": 1, "k2": 2} if world < 2 else {"zz": 0}
    d = {5: collections.OrderedDict(k2=1, k1=3), 6: prelude.Table(k1=2)}.get(world, d)
    e = {"a": a, 1: x, (1, 2): "t"}
    s, q = {1, 2, n}, collections.deque([3, 4, m], 4 if world != 5 else None)
    o = (prelude.Loud if world == 3 else prelude.Box)(m)
    p = prelude.Pair(n, a) if world != 2 else (n, a)
    v = [None, None, 1, x, "v", (1, n), o][world]
    it = iter([7, 8, 9]) if world != 5 else prelude.countdown(2)
    return [x, y, w, n, m, r, c, a, b, d, e, s, q, o, p, OBJECTS[world](2), v, it, prelude.Net().train(world != 6)]


def turn(namespace, world):
    """What a call finds changed outside of its arguments: globals, a module's attribute, the cell of a closure."""
    namespace["G1"] = namespace["GM"].level = [1, 1, 2, 1.5, 0, True, -1][world]
    namespace["GF"] = abs if world < 4 else operator.neg
    if "turn" in namespace:
        namespace["turn"]([1, 1, 3, 2.5, 0, True, 4][world])


def observe(function, namespace, file, world):
    """Everything that one call does that a user can see."""
    given, printed, snapshot = arguments(world), io.StringIO(), Snapshot()
    kept = list(given)  # a snapshot of all these, whatever the program does to them
    result = raised = None
    torch.manual_seed(0)
    turn(namespace, world)
    with contextlib.redirect_stdout(printed):
        try:
            result = function(*given)
        except Exception as error:
            raised = error, user_lines(error.__traceback__, (file, prelude.__file__))
    left = {name: namespace[name] for name in sorted(namespace) if name.isupper()}
    grad_mode = torch.is_grad_enabled()
    torch.set_grad_enabled(True)
    with contextlib.redirect_stdout(printed):
        seen = snapshot(result), snapshot(raised), [snapshot(value) for value in kept], snapshot(left)
        chains = snapshot.finish()
    return *seen, grad_mode, printed.getvalue(), chains


def user_lines(tb, files):
    """(function, line) of each frame of these files.  A function in several pieces (resume functions) is one."""
    lines = []
    for frame, line in traceback.walk_tb(tb):
        if frame.f_code.co_filename in files:
            if lines and lines[-1][0] == frame.f_code.co_name:
                lines.pop()
            lines.append((frame.f_code.co_name, line))
    return lines


PARTS = ("result", "exception", "arguments", "globals", "grad mode", "printed", "causes and contexts")


def difference(expected, actual):
    """The parts in which two observations differ, and readable lines about each."""
    lines, parts = [], []
    for part, left, right in zip(PARTS, expected, actual, strict=True):
        if left != right:
            where, old, new = first_difference(left, right, "")
            parts.append(part)
            lines.append(f"{part}{where}:\n  eager    {str(old)[:400]}\n  compiled {str(new)[:400]}")
    return tuple(parts), lines


def first_difference(left, right, path):
    if type(left) is type(right) and isinstance(left, (tuple, list)) and len(left) == len(right):
        for k, (old, new) in enumerate(zip(left, right)):
            if old != new:
                return first_difference(old, new, f"{path}[{k}]")
    return path, left, right
