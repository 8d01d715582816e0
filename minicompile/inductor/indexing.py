"""Index arithmetic: where a loop nest reads and writes, in a small form of our own.

Goes in: loop variables and sizes (`int`, or a SymPy expression where a size is symbolic).  Comes out: `Index` values,
sums `coefficient * atom + ... + constant` in one canonical form, so that equal addresses are the same object.  An
atom is a loop variable `Var`, a `FloorDiv` or `Mod` of an index (reshapes make these), a `Symbol` (a symbolic size)
or an `Indirect` (an integer that the kernel loads and uses as an address).  SymPy is slow, so it is used for symbolic
sizes only. Mirrors `torch/_inductor/sizevars.py` and `torch/utils/_sympy/functions.py`.  Taught in chapter 09.
"""

import weakref
from math import gcd

import sympy


class SizeSymbol(sympy.Dummy):
    """A size that is known only when the kernels run.

    hint: what it was when the graph was captured.  from_data: nobody knew it then, it is read from a tensor.
    """

    __slots__ = ("hint", "from_data")

    def __new__(cls, name, hint, from_data=False, **assumptions):
        made = super().__new__(cls, name, **assumptions)
        made.hint, made.from_data = hint, from_data
        return made

    def _sympystr(self, printer):
        return self.name

    _torch_sympystr = _sympystr  # what PyTorch's printers ask for


def hint(value):
    """A size as it was when the graph was captured: what heuristics go by."""
    return value if isinstance(value, int) else int(value.xreplace({s: s.hint for s in value.free_symbols}))


def from_data(*values):
    """Whether one of these numbers is made of what is read from a tensor."""
    return any(s.from_data for value in values if isinstance(value, sympy.Expr) for s in value.free_symbols)


class Interned(type):
    """Hash-consing:

    constructing equal things gives one object, so that equality is identity and hashing costs nothing.
    """

    def __init__(cls, *args):
        super().__init__(*args)
        cls._table = weakref.WeakValueDictionary()

    def __call__(cls, *args):
        key = cls.key(*args)
        found = cls._table.get(key)
        if found is None:
            found = cls._table[key] = super().__call__(*args)
        return found

    def key(cls, *args):
        """What makes two of them equal."""
        return args


class Atom(metaclass=Interned):
    """What an index is a sum of."""

    __slots__ = ("text", "__weakref__")

    def __repr__(self):
        return self.text


class Var(Atom):
    """A loop variable: 0 <= name < size."""

    __slots__ = ("name", "size")

    def __init__(self, name, size):
        # A number of SymPy's is equal to Python's, and whoever asks for this variable next gets the same object.
        self.name, self.size, self.text = name, int(size) if isinstance(size, sympy.Integer) else size, name


class Quotient(Atom):
    """A part of a division of an index that does not simplify."""

    __slots__ = ("index", "divisor")

    def __init__(self, index, divisor):
        self.index, self.divisor, self.text = index, divisor, f"({index}){self.sign}{divisor}"


class FloorDiv(Quotient):
    """index // divisor."""

    __slots__ = ()
    sign = "//"


class Mod(Quotient):
    """index % divisor (never negative)."""

    __slots__ = ()
    sign = "%"


class Indirect(Atom):
    """An integer expression of the IR used as an address, 0 <= value < size.

    wrap: negative values count from the end.
    check: a value out of range is eager's IndexError (else it is promised in range).
    """

    __slots__ = ("expr", "size", "wrap", "check")

    def __init__(self, expr, size, wrap=True, check=True):
        self.expr, self.size, self.wrap, self.check, self.text = expr, size, wrap, check, f"at<{size}>({expr})"


def _nonnegative(value):
    """True when value >= 0 is certain."""
    if isinstance(value, int):
        return value >= 0
    return bool(sympy.expand(value).is_nonnegative)


def divides(divisor, value):
    """value / divisor when that is exact, else None."""
    if isinstance(value, int) and isinstance(divisor, int):
        return value // divisor if value % divisor == 0 else None
    quotient = sympy.cancel(sympy.sympify(value) / divisor)
    if quotient.free_symbols:
        whole = quotient.as_numer_denom()[1] == 1 and all(c.is_integer for c in sympy.Poly(quotient).coeffs())
    else:
        whole = quotient.is_integer
    return _plain(quotient) if whole else None


def _plain(value):
    return int(value) if isinstance(value, sympy.Integer) else value


_SIGNS = {1: "", -1: "-"}


class Index(metaclass=Interned):
    """sum(coefficient * atom for atom, coefficient in terms) + constant.

    Build with `index(...)` and operators, not directly.
    """

    __slots__ = ("terms", "constant", "_text", "_bounds", "__weakref__")

    def __init__(self, terms, constant):
        self.terms, self.constant, self._text, self._bounds = terms, constant, None, None

    def __repr__(self):
        if self._text is None:
            parts = [
                f"{_SIGNS[c]}{atom}" if c in _SIGNS else f"{c}*{atom}" if isinstance(c, int) else f"({c})*{atom}"
                for atom, c in self.terms
            ]
            if not (isinstance(self.constant, int) and self.constant == 0) or not parts:
                parts.append(str(self.constant))
            self._text = " + ".join(parts).replace("+ -", "- ")
        return self._text

    def __add__(self, other):
        other = index(other)
        return _build([*self.terms, *other.terms], self.constant + other.constant)

    def __neg__(self):
        return self * -1

    def __sub__(self, other):
        return self + index(other) * -1

    def __mul__(self, factor):
        if isinstance(factor, Index):
            if factor.terms and self.terms:
                raise TypeError(f"not affine: ({self}) * ({factor})")
            self, factor = (self, factor.constant) if not factor.terms else (factor, self.constant)
        return _build([(atom, c * factor) for atom, c in self.terms], self.constant * factor)

    __radd__, __rmul__ = __add__, __mul__

    def __rsub__(self, other):
        return index(other) - self

    def __floordiv__(self, divisor):
        return _floordiv(self, divisor)

    def __mod__(self, divisor):
        return _mod(self, divisor)

    @property
    def is_constant(self):
        return not self.terms

    def bounds(self):
        """(smallest, largest) value over the loop ranges."""
        if self._bounds is None:
            low = high = self.constant
            for atom, c in self.terms:
                first, last = _atom_bounds(atom)
                a, b = c * first, c * last
                if not _nonnegative(c):
                    a, b = b, a
                low, high = low + a, high + b
            self._bounds = (low, high)
        return self._bounds

    def within(self, size):
        """True when 0 <= self < size is certain (and the loops are not empty)."""
        low, high = self.bounds()
        return _nonnegative(low) and _nonnegative(size - 1 - high)

    def atoms(self):
        """Every atom, nested ones included, outermost first."""
        for atom, _ in self.terms:
            yield atom
            if isinstance(atom, Quotient):
                yield from atom.index.atoms()

    def vars(self):
        """The loop variables that the address itself names (not those inside an Indirect's expression)."""
        return {atom for atom in self.atoms() if isinstance(atom, Var)}

    def is_affine(self):
        return all(isinstance(atom, Var) for atom, _ in self.terms)

    def coefficient(self, var):
        return next((c for atom, c in self.terms if atom is var), 0)

    def substitute(self, mapping, expr_substitute=None):
        """Replace loop variables: mapping Var -> Index.  expr_substitute rewrites the expression inside an Indirect."""
        terms, constant = [], self.constant
        for atom, c in self.terms:
            new = _substitute_atom(atom, mapping, expr_substitute)
            terms += [(a, k * c) for a, k in new.terms] if c != 1 else new.terms
            constant = constant + new.constant * c
        return _build(terms, constant)


def _atom_bounds(atom):
    if isinstance(atom, (Var, Indirect)):
        return 0, atom.size - 1
    if isinstance(atom, Mod):
        return 0, atom.divisor - 1
    low, high = atom.index.bounds()
    return (
        (low // atom.divisor, high // atom.divisor)
        if isinstance(high, int) and isinstance(atom.divisor, int)
        else (0, high)
    )


def _substitute_atom(atom, mapping, expr_substitute):
    if isinstance(atom, Var):
        return mapping[atom] if atom in mapping else index(atom)
    if isinstance(atom, FloorDiv):
        return atom.index.substitute(mapping, expr_substitute) // atom.divisor
    if isinstance(atom, Mod):
        return atom.index.substitute(mapping, expr_substitute) % atom.divisor
    return index(Indirect(expr_substitute(atom.expr), atom.size, atom.wrap, atom.check) if expr_substitute else atom)


def index(value):
    """An Index from an int, a SymPy size, a loop variable or another atom."""
    if isinstance(value, Index):
        return value
    if isinstance(value, Var) and isinstance(value.size, int) and value.size == 1:
        return Index((), 0)
    if isinstance(value, Atom):
        return Index(((value, 1),), 0)
    return Index((), _plain(value))


def _build(terms, constant):
    """Collect equal atoms, put `a*(x//a) + x%a` together again, sort."""
    total = {}
    for atom, c in terms:
        total[atom] = total.get(atom, 0) + c
    for atom in [a for a in total if type(a) is Mod]:
        quotient = atom.index // atom.divisor
        if len(quotient.terms) == 1 and quotient.terms[0][1] == 1 and quotient.constant == 0:
            partner, c = quotient.terms[0][0], total[atom]
            if partner in total and total[partner] == c * atom.divisor:
                rest = [(a, k) for a, k in total.items() if a is not atom and a is not partner]
                return _build([*rest, *((a, k * c) for a, k in atom.index.terms)], constant + atom.index.constant * c)
    kept = [(a, c if type(c) is int else _plain(c)) for a, c in total.items() if c != 0]
    if len(kept) > 1:
        kept.sort(key=lambda term: term[0].text)
    return Index(tuple(kept), constant if type(constant) is int else _plain(constant))


def _split(value, divisor):
    """value = divisor * whole + rest, moving into `whole` all that is exactly divisible."""
    whole, rest = [], []
    for atom, c in value.terms:
        quotient = divides(divisor, c)
        (rest if quotient is None else whole).append((atom, c if quotient is None else quotient))
    if isinstance(value.constant, int) and isinstance(divisor, int):
        k, left = divmod(value.constant, divisor)
    else:
        k = divides(divisor, value.constant)
        k, left = (0, value.constant) if k is None else (k, 0)
    return _build(whole, k), _build(rest, left)


def _floordiv(value, divisor):
    if isinstance(divisor, int) and divisor <= 1:  # by zero: the loop is empty
        return value
    whole, rest = _split(value, divisor)
    if rest.within(divisor):
        return whole
    if isinstance(divisor, int) and isinstance(rest.constant, int) and all(isinstance(c, int) for _, c in rest.terms):
        common = gcd(divisor, *(c for _, c in rest.terms))
        if common > 1:
            rest = _build([(a, c // common) for a, c in rest.terms], rest.constant // common)
            return whole + _floordiv(rest, divisor // common)
        if len(rest.terms) == 1 and rest.constant == 0 and rest.terms[0][1] == 1:
            atom = rest.terms[0][0]
            if isinstance(atom, FloorDiv):  # (x // a) // b
                return whole + _floordiv(atom.index, atom.divisor * divisor)
            if isinstance(atom, Mod) and isinstance(atom.divisor, int) and atom.divisor % divisor == 0:  # (x % ab) // a
                return whole + _mod(_floordiv(atom.index, divisor), atom.divisor // divisor)
    return whole + index(FloorDiv(rest, divisor))


def _mod(value, divisor):
    if isinstance(divisor, int) and divisor <= 1:
        return index(0)
    _, rest = _split(value, divisor)
    if rest.within(divisor):
        return rest
    if len(rest.terms) == 1 and isinstance(rest.terms[0][0], Mod) and rest.terms[0][1] == 1 and rest.constant == 0:
        atom = rest.terms[0][0]
        if divides(divisor, atom.divisor) is not None:  # (x % ab) % b
            return _mod(atom.index, divisor)
    return index(Mod(rest, divisor))


def flatten(position, size):
    """Row-major number of a position: the address in a contiguous tensor."""
    address = index(0)
    for i, n in zip(position, size, strict=True):
        address = address * n + i
    return address


def delinearize(address, size):
    """The position whose row-major number is `address`."""
    position = []
    for n in reversed(size[1:]):
        position.append(address % n)
        address = address // n
    return (address, *reversed(position)) if size else ()
