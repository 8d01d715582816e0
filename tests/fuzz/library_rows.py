"""More rows: the standard library, NumPy, modules and classes that a program defines, targets of every kind.

The rows and blocks are like those of corner_rows.py, to which they are added (programs.py, corner_rows.py).
"""

EXPRESSIONS = {
    "T": """
        torch.from_numpy(np.asarray([<F>, 1.0])).sum() + <T> ; torch.as_tensor(np.ones(2)).sum() + <T>
        nest(<T>, <I> % 4) ; functools.reduce(lambda t, i: t + i, <L>, <T>) ; <T> + random.Random(<I>).randint(0, 3)
        torch.stack(torch.meshgrid(torch.arange(2), torch.arange(2), indexing='ij'))[0].sum() + <T>
        <T> + np.int64(<I>) ; torch.nn.functional.one_hot(torch.tensor([0, 1]), 3).sum() + <T>
        torch.as_tensor(<F>) + <T> ; Branch(<I>)(<T>) ; <T>.detach().numpy().sum() + <T>
        <T>.detach().apply_(lambda i: i) ; torch.tensor([[<I>]], dtype=<T>.dtype) + <T>
        torch.nn.ModuleDict({'a': torch.nn.Identity(), 'b': Branch(<I>)})['b'](<T>) ; <T> * fractions.Fraction(1, 2)
    """,
    "I": """
        int(fractions.Fraction(<I>, 4) * 3) ; len(json.dumps(<L>)) % 9 ; json.loads('[1, [2]]')[1][0]
        random.Random(<I>).randint(0, 5) ; int(decimal.Decimal(<I>) / 4) ; array.array('i', <L>).count(<I>)
        datetime.timedelta(days=<I>).days ; int(np.sum(<L>)) % 7 ; operator.length_hint(<L>)
        string.digits.index('3')
        (lambda f, k: f(f, k))(lambda f, k: k if k < 2 else f(f, k - 1) + f(f, k - 2), <I> % 5) ; np.asarray(<L>).size
        struct.calcsize('<ih') ; math.comb(5, abs(<I>)) % 7 ; math.isqrt(abs(<I>)) ; int(statistics.mean([<I>, *<L>]))
        sys.getrecursionlimit() and 2 ; int(re.sub('[a-z]', '', <C>) or 3) % 9 ; typing.cast(int, <I>)
        len(io.StringIO(<C>).read())
    """,
    "F": """
        statistics.fmean([<F>, <I>]) ; random.Random(<I>).random() ; float(fractions.Fraction(<I>, 8))
        math.fsum(<L>) ; math.hypot(<F>, <I>) ; float(np.mean([<F>, <I>])) ; math.copysign(<F>, <I>)
        float(decimal.Decimal('0.25') * <I>) ; math.dist([<F>], [<I>]) ; float(np.float32(<F>)) ; <F>.__add__(<F>)
        math.prod(<L>, start=<F>) ; <I>.__truediv__(4)
    """,
    "B": """
        isinstance(<X>, typing.Hashable) ; isinstance(<X>, numbers.Number) ; re.match('k', <C>)
        math.isclose(<F>, <F>) ; bool(np.any(np.asarray(<L>) > <I>)) ; operator.contains(<L>, <I>)
        isinstance(<U>, typing.Sized) ; <C>.isidentifier() ; fractions.Fraction(<I>, 2) < <F>
        decimal.Decimal(<I>) == <I> ; issubclass(type(<X>), collections.abc.Mapping)
    """,
    "C": """
        json.dumps(<D>, sort_keys=True)[:9] ; string.Template('$a-$b').safe_substitute(a=<C>)
        textwrap.shorten(<C>, 5) ; str(fractions.Fraction(<I>, 3)) ; str(decimal.Decimal(<I>) / 8)[:5]
        re.split('[k1]', <C>)[-1] ; string.capwords(<C>) ; re.sub('([a-z])', lambda m: m[0].upper(), <C>)
        datetime.date(2020, 1, 1 + <I> % 9).isoformat() ; io.StringIO(<C>).read(2) ; struct.pack('<h', <I> % 99).hex()
        str(typing.Optional[int])[:9] ; f"{fractions.Fraction(<I.>, 2)!s:>5}" ; <C>.__add__(<C>)[:5]
        f"{datetime.date(2020, 1, 1 + <I.> % 9):%d/%m}" ; np.array2string(np.asarray(<L>))[:7]
        <C>.__mod__(()) if '%' not in <C> else ''
    """,
    "L": """
        list(itertools.accumulate(<L>, max)) ; list(heapq.merge(sorted(<L>), sorted(<L>)))[:5]
        np.asarray(<L>).tolist() ; random.Random(<I>).sample(range(9), 3) ; np.sort(<L>).tolist()
        list(array.array('i', <L>)) ; np.flatnonzero(<L>).tolist() ; list(struct.unpack('<2b', b'ab'))
        [m.start() for m in re.finditer('k', <C>)] ; [*map(operator.attrgetter('real'), <L>)]
        list(collections.Counter(<L>).elements())[:4] ; [k for k, _ in collections.Counter(<L>).most_common(2)]
        [max(p) for p in itertools.permutations(<L>[:2], 2)] ; [*itertools.islice(<G>, 1, 4, 2)]
        sorted(<L>, key=operator.neg) ; [i for i in reversed(<L>)]
        [len(p) for p in itertools.combinations_with_replacement(<L>[:2], 2)] ; [*filter(<FN>, <L>)]
        np.asarray(<L> or [1])[::-1].cumsum().tolist() ; json.loads(json.dumps(<L>)) ; [*itertools.repeat(<I>, 2)]
    """,
    "X": """
        fractions.Fraction(<I>, 3) ; decimal.Decimal(<I>) ; datetime.date(2020, 1, 2) ; array.array('b', [1])
        np.float32(<F>) ; np.arange(<I> % 4) ; datetime.timedelta(<I>) ; typing.Optional[int] ; re.compile('k')
        random.Random(<I>).choice([<X>, 2]) ; json.loads(json.dumps(<D>)) ; np.asarray(<L>) + <I>
        operator.attrgetter('v')(<O>) ; np.float64(<F>) * <F> ; struct.unpack('<h', b'ab') ; string.ascii_letters[<I>]
        typing.NamedTuple('Made', [('u', int)])(<I>) ; <O>.__class__
    """,
    "U": """
        fractions.Fraction(<I>, 2) ; decimal.Decimal(<I>) ; np.int64(<I>) ; array.array('i', <L>) ; Branch(<I>)
        np.asarray(<L>)
    """,
}
SIMPLE = """
    <$O>.v, <=I> = <I>, <I> ; [<$O>.extra, *<=L>] = <X>, *<L> ; <$E>['k'], <=C> = <X>, <C> ; <$A>[len(<$A>):] = <L>
    for <$O>.v in <L>: pass ; for <$E>['i'], <=I> in [(1, 2), <P>][:1]: pass ; <$A>.append([<X> for <=I> in ()])
    <$A>.append(random.Random(<I>).shuffle(<$L>)) ; heapq.heapify(<$L>) ; heapq.heappush(<$L>, <I>)
    bisect.insort(<$L>, <I>) ; <$A>.append(json.dumps(<D>)) ; <$O>.t = <$O>.u = <X>
    <$A>.append(np.asarray(<L>).sum()) ; <$A>.append(str(<X>)[:0]) ; <$A>.append(Branch(<I>)(<T>))
    <$N>.extra = Branch(<I>) ; <$A>.append(<$N>.parts[0]) ; <$N>.parts.append(torch.nn.Tanh())
    <$A>.append(re.findall('.1?', <C>)) ; <$A>.append(fractions.Fraction(<I>, 7)) ; <$E>[None] = <$E>[True] = <X>
    <$A>.append(operator.setitem(<$E>, <I>, <X>)) ; <$A>.append(list(map(<$A>.append, (*<L>,))))
    <$A>.append(any(map(<$A>.append, (*<L>,)))) ; <$A>.append({**<E>, **{}} == <E>) ; <=L>[:] = <L>,
    <$A>.append(sum([<L>, <L>], [])) ; <$A>.append([*map(list, [<L>, <P>])])
"""
RISKY = """
    <$A>.append(<U> / <I>) ; <$A>.append(<I> / <U>) ; <$A>.append(<F> + <U>) ; <$A>.append(<U> // 2)
    <$A>.append(hash(<U>)) ; <$A>.append(math.floor(<U>)) ; <$A>.append(math.sqrt(<U>)) ; <$A>.append(json.dumps(<X>))
    <$A>.append(<T> + <U>) ; <$A>.append(re.match('k', <C>)[0]) ; <$A>.append(heapq.heappop(<$L>))
    <$A>.append(statistics.mode(<L>)) ; <$A>.append(struct.pack('b', <I>)) ; <$A>.append(np.asarray(<L>)[<I>])
    <$A>.append(np.asarray(<X>)) ; <$A>.append(fractions.Fraction(<X>)) ; <$A>.append(torch.as_tensor(<L>))
    <$A>.append(torch.tensor((*<L>, <I>))) ; <$A>.append(decimal.Decimal(<C>)) ; <$A>.append(int(<X>))
    <$A>.append(datetime.date(2020, <I>, 1)) ; <$A>.append(string.Template('$k1').substitute(<D>))
    <$A>.append(max(<U>, <U>)) ; <$A>.append(operator.itemgetter(<I>, 0)(<L>))
    <$A>.append(operator.attrgetter('v.real')(<O>)) ; <$A>.append(<X>.__add__(<X>)) ; <$A>.append(<X>.__eq__(<X>))
    <$A>.append(<X>.__hash__()) ; <$A>.append(<L>.__getitem__(<X>)) ; <$A>.append(<X>.__class__.__name__)
    del <$O>.v, <$E>[<I>] ; <$A>.append(type(<X>)()) ; <$A>.append(type(<X>)(<X>))
    <$A>.append(list(itertools.batched(<L>, 2))) ; <$A>.append('%s' % <X>) ; <$A>.append('%r|%s' % (<X>, <X>))
    <$A>.append(<X> | <X>) ; <$A>.append(typing.TypeVar('V') | <X>) ; <$A>.append(<X> == <U>) ; <$A>.append(<U> + <T>)
    <$A>.append(dict([<X>, <X>])) ; <$A>.append({}.update([<X>])) ; <$A>.append(<X>.__hash__() == hash(<X>))
    <$A>.append(<X>.__reduce_ex__(2)[0])
    <$L>.__init__(<G>) ; <$D>.__init__(<D>) ; list.__init__(<$L>, <X>)
    <$A>.append(<X>.__mul__(<X>)) ; <$A>.append(<X>.__or__(<X>)) ; <$A>.append(<X>.__lt__(<X>)) ; {**<X>}
    object.__setattr__(<$U>, <X.>, <I>) ; object.__getattribute__(<U>, <X.>) ; setattr(<$O>, <X.>, <I>)
    <$A>.append(total_of(*<X>)) ; <$A>.append(total_of(**<X>)) ; <$L>[<I>:] = <X> ; <$E>.update(<X>) ; <=S> |= <X>
    <$A>.append(operator.countOf(<X>, <I>)) ; <$A>.append(functools.cmp_to_key(<FN>)(<I>) < <X>) ; <$L>.extend(<X>)
    <$A>.append(collections.OrderedDict(<X>)) ; <$A>.append(re.compile(<C>)) ; <$A>.append(re.match('(', <C>))
    <$A>.append(torch.add(<T>, 1, out=<X>)) ; <$A>.append(<X>.__getitem__(<X>)) ; <$A>.append(<C>.join(<X>))
"""
BLOCKS = r"""
class NAME(torch.nn.Module):
    def __init__(self, size=<I>):
        super().__init__()
        self.parts = torch.nn.ModuleDict({'a': torch.nn.ReLU(), 'b': torch.nn.Identity()})
        self.size, self.seen = size, []
        self.register_buffer('total', torch.zeros(()), persistent=False)
    def forward(self, p):
        for key, part in self.parts.items():
            p = part(p) + self.size
            self.seen.append(key)
        BODY
        self.total = self.total + 1
        return p
NAME_it = NAME(<I>)
<$A>.append((NAME_it(<T>), NAME_it(<T>), NAME_it.total, NAME_it.seen))

class NAME:
    @functools.cached_property
    def held(self):
        BODY
        return <I>
    @functools.singledispatchmethod
    def of(self, p):
        return 'any'
    @of.register
    def _(self, p: int):
        return p + 1
    @of.register(str)
    def _(self, p):
        return p * 2
    half = functools.partialmethod(of, 2)
NAME_it = NAME()
<$A>.append((NAME_it.held, NAME_it.held, NAME_it.of(<X>), NAME_it.half(), vars(NAME_it)))

class NAME(dict):
    def __missing__(self, key):
        BODY
        self[key] = len(self)
        return key
NAME_it = NAME(<D>)
<$A>.append((NAME_it[<C>], NAME_it[<X.>] if <B> else None, NAME_it.get('none'), dict(NAME_it)))

class NAME:
    def __getattribute__(self, name):
        if name.startswith('of_'):
            return <I>, name
        return object.__getattribute__(self, name)
    def __setattr__(self, name, value):
        BODY
        object.__setattr__(self, name + '_', value)
NAME_it = NAME()
NAME_it.held = <X>
<$A>.append((NAME_it.of_x, NAME_it.held_, hasattr(NAME_it, 'held')))

class NAME(type):
    def __instancecheck__(cls, value):
        BODY
        return <B>
    def __getitem__(cls, item):
        return item, cls.__name__
    def __contains__(cls, item):
        return item
class NAME_of(metaclass=NAME):
    pass
<$A>.append((isinstance(<X>, NAME_of), NAME_of[<X>], <X> in NAME_of, isinstance(NAME_of(), NAME_of)))

random.seed(<I>)
BODY
<$A>.append((random.random(), random.choice('abc'), random.getrandbits(5)))

NAME = random.Random(<I>)
BODY
<$A>.append((NAME.random(), NAME.sample([1, 2, 3], 2), NAME.gauss(0, 1)))

NAME = io.StringIO()
with contextlib.redirect_stdout(NAME):
    print(<C>, <I>)
    BODY
    print(end='')
<$A>.append(NAME.getvalue())

try:
    BODY
    raise Failure(<I>) from KeyError(<C>)
except Failure as NAME:
    <$A>.append((sys.exc_info()[0].__name__, sys.exc_info()[1] is NAME, traceback.format_exc().splitlines()[-1]))
<$A>.append(sys.exc_info()[0])

NAME = re.match(r'(?P<k>k)(\d?)', <C>)
BODY
if NAME:
    <$A>.append((NAME['k'], NAME.groups(), NAME.span(2), NAME.groupdict(), NAME.end()))

NAME = <$W> * 2
NAME.retain_grad()
NAME_seen = []
NAME_handle = NAME.register_hook(lambda grad: NAME_seen.append(grad.sum()))
BODY
(NAME * 3).sum().backward()
NAME_handle.remove()
<$A>.append((NAME.grad, NAME_seen, <$W>.grad))

NAME = torch.optim.SGD([<$W>], lr=0.5, momentum=0.5)
for k8 in range(2):
    NAME.zero_grad(set_to_none=k8 > 0)
    (<$W> * <$W>).sum().backward()
    BODY
    NAME.step()
<$A>.append(<$W>.grad)

NAME = np.arange(6).reshape(2, 3)
NAME[0] += <I>
BODY
<$A>.append((NAME.sum(), NAME.T.tolist(), NAME[:, 1].max()))

NAME = torch.zeros(2)
NAME_np = NAME.numpy()
NAME_np[0] = <I>
BODY
NAME.add_(1)
<$A>.append((NAME, NAME_np.tolist()))

def NAME(t, k):
    if k < 1:
        BODY
        return t
    return NAME(t * 2, k - 1) + k
<$A>.append(NAME(<T>, <I> % 4))

def NAME(k):
    return k < 1 or NAME_odd(k - 1)
def NAME_odd(k):
    BODY
    return k > 0 and NAME(k - 1)
<$A>.append((NAME(4), NAME_odd(<I> % 5)))

NAME = [<I>, *<L>]
for k8 in NAME:
    if len(NAME) > 8:
        break
    NAME.append(k8)
    BODY
<$A>.append(NAME)

NAME = {k8: <I> for k8 in <L>}
try:
    for k8 in NAME:
        BODY
        NAME[k8 + 10] = 2
except RuntimeError as NAME_error:
    <$A>.append(str(NAME_error))
<$A>.append(NAME)

NAME = [3, 1, <I>, 2]
def NAME_key(k):
    BODY
    NAME_seen = list(NAME)
    return -k
<$A>.append((sorted(NAME, key=NAME_key), NAME.sort(key=NAME_key), NAME))

class NAME:
    __hash__ = None
    __iter__ = None
    def __eq__(self, other):
        BODY
        return True
for k8 in (hash, iter, list, lambda k9: k9 == <X>, lambda k9: <X> in [k9], lambda k9: {k9}, lambda k9: k9 != 1):
    try:
        <$A>.append(k8(NAME()) is True)
    except TypeError as NAME_error:
        <$A>.append(str(NAME_error))

global NAME
NAME = <X>
BODY
<$A>.append('NAME' in globals())
del NAME

with Manager(<$A>) as <$O>.extra, given(<$A>, <I>) as <$E>['given']:
    BODY
<$A>.append(<$E>['given'])

for <$O>.v, *NAME in [(1, 2, 3), <P> or (4,)]:
    BODY
<$A>.append((NAME, <$O>.v))

NAME = threading.local()
NAME.held = <I>
NAME_thread = threading.Thread(target=lambda: <$A>.append(hasattr(NAME, 'held')))
BODY
NAME_thread.start()
NAME_thread.join()
<$A>.append(NAME.held)

NAME = types.FunctionType(h1.__code__, globals(), 'NAME', (<I>,))
NAME.__kwdefaults__ = None
BODY
<$A>.append((NAME(), NAME.__name__, NAME.__defaults__))

NAME = collections.ChainMap({}, <D>)
NAME[<C>] = <I>
BODY
<$A>.append((dict(NAME), NAME.maps[0], len(NAME), list(NAME.new_child({'z': 1}))))

@dataclasses.dataclass(order=True, slots=<B>)
class NAME:
    size: int
    items: list = dataclasses.field(default_factory=list, compare=False)
    kind: typing.ClassVar[str] = 'k'
    late: dataclasses.InitVar[int] = 3
    def __post_init__(self, late):
        BODY
        self.items.append(late)
<$A>.append((repr(NAME(<I>)), NAME(1) < NAME(<I>, late=2), dataclasses.astuple(NAME(2)), NAME(<I>) == NAME(<I>)))

class NAME(enum.Enum):
    ONE = enum.auto()
    TWO = enum.auto()
    @classmethod
    def _missing_(cls, value):
        return cls.ONE
    @property
    def next(self):
        return NAME((self.value % 2) + 1)
BODY
<$A>.append((NAME(<I>).name, NAME.ONE.next.name, list(NAME.__members__), NAME['TWO'] is NAME.TWO, NAME.ONE in NAME))
"""
