"""More rows for the grammar: rarer expressions and statements, and whole blocks.

The rows are like those of grammar.py.  In a block NAME is a new name, and a line BODY is a block of its own.
Goes in: the choices of a Writer (programs.py), whose mixin this is.  Comes out: lines.
"""

import sys

from . import library_rows, state_rows

EXPRESSIONS = {
    "T": """
        <T>.view(-1)[1:].sum() + <T> ; torch.add(<T>, <T>, out=torch.empty_like(<T.>)) ; <T>.clone().t_().t()
        torch.cat([*<T>.unbind(0)]).reshape(<T.>.shape) ; <T>.diagonal().sum() + <T> ; <T>[<T> > 9].sum() + <T>
        torch.stack([t + i for i, t in enumerate(<T>)]) ; <T>.as_strided(<T.>.shape, (1, 1)) ; <T>.select(0, 0) + <T>
        torch.autograd.grad((<$W> * <T>).sum(), <$W>)[0].detach() + <T> ; <T>.index_select(0, torch.tensor([0]))
        torch.nn.Linear(len(<T.>), 2)(<T>.float()).detach().sum() + <T> ; <T>.new_tensor([<I>]) + <T> ; <T>.mT
        torch.func.functional_call(<$N>, {'weight': torch.tensor(<F>)}, (<T>,)) ; torch.lerp(<T>, <T>, 0.5)
        next(iter(<T>)) + <T> ; <T>.addmm(<T>, <T>) ; torch.linalg.norm(<T>) + <T> ; <T>.narrow(0, 0, 1) + <T>
        torch.tril(<T>) ; <T>.repeat(2, 1)[:len(<T.>)] ; torch.tensor(<F>) * <T> ; <T>.pow(2) ; <T> ** <I> ; +<T>
    """,
    "I": """
        [*<G>, <I>][-1] % 7 ; len(f"{<I.>:>{<I.>}}")
        sum(1 for i in <L> for j in <L> if i < j) % 9 ; int('12', base=3) ; max(<L>, key=lambda i: -i, default=<I>)
        awaited(later(<I>))[0] ; thrice(<FN>, <I>)[0] % 9 ; CV.get() ; sum(map(operator.mul, <L>, <L>)) % 9
        (lambda i, /, j=<I>, *, k=1: i - j + k)(<I>, k=<I>) ; len([*zip(*[<L>, <L>])]) ; <I>.__add__(<I>) % 9
        (lambda: [i for i in range(3)])()[<I> % 3] ; dict(a=<I>)['a'] ; <P>.__len__() ; type(<I>)(<I>)
        h0.__code__.co_argcount
    """,
    "B": """
        <X> in (<X>, <X>) ; not <U> ; (<B> if <B> else <B>) is <B> ; <P> > <P> ; <L> < <L>
        isinstance(<X>, int | str)
        all([<B>, *<L>]) ; <C> in <C> ; 1 < len(<L>) <= len(<A>) > 0 ; <F> is <F> ; <T>.shape == <T>.shape
        isinstance(<X>, (list, tuple | dict)) ; <D> == <E> ; hasattr(<X>, '__len__') ; <T>._version > 1
    """,
    "C": """
        f"{<I.>:#06x}" ; f"{<F.>:+.2e}" ; f"{<X.>!r:>9.9}" ; f"{<C.>:*^7}" ; f"{<I.>:,}{<F.>:%}"[:9] ; f"{<B.>!s:<6}"
        f"{<L.>}{<P.>!r}"[:12] ; Typewriter(<C>) + <I> ; f"{Typewriter(<C.>):>5}" ; str(Typewriter(<C>))[1:]
        '%r' % [<I>]
        '%(k)-4s|' % {'k': <C>} ; '{0.v}'.format(<O>) ; '{:{}}'.format(<I>, 4) ; f"{<I.>!r}{<C.>=}"[:9]
        repr(<F>)[:5]
        type(<X>).__qualname__ ; ''.join(reversed(<C>)) ; <C>.join(map(str, <L>))[:6] ; f"{(lambda: <I.>)()}"
    """,
    "L": """
        [*range(<I> % 4), *<L>][:5] ; [i for i in <L> if (lambda j: j > <I>)(i)]
        [*map(lambda i, j: i * j, <L>, <L>)]
        [(yield_, i)[1] for yield_, i in enumerate(<L>)] ; [i for i, in zip(<L>)]
        [[j for j in range(i % 3)] for i in <L>]
        list(nested_scopes(<$A>, <I>)) ; list(iter(lambda: <I>, 1))[:0] ; sorted(<L>, key=lambda i: (-i, i))
        <L>[-2:]
        awaited(collect(<I>))[0] ; list(dict(enumerate(<L>)).values()) ; [i % 4 for i in {*<L>}]
    """,
    "P": """
        (*<L>, *<P>)[:4] ; tuple(i for i in <P> if i) ; tuple(zip(<L>, <L>)) ; (<X>, <P>) ; (lambda *i: i)(*<L>)
        tuple(<D>) ; <P>[<I>:] ; awaited(later(<X>, 2))
    """,
    "X": """
        {<P>: <I>}.get(<P>) ; (i for i in <L>) ; Odd(<I>) ; Swap(<I>) ; Typewriter(<C>) ; {**<D>}.keys()
        memoryview(b'ab')[0]
        Counted(<FN>) ; counted(<FN>)(<I>) ; h1.__name__ ; <T>.dtype.itemsize ; {'a': {'b': <X>}}['a'] ; [<X>][0]
        (<X>,)[-1]
        functools.reduce(lambda i, j: [i, j], <L>, <X>) ; type('Made', (Box,), {'v': <I>})(<I>).v
        super(Loud, Loud(<I>)).double
        contextvars.copy_context().run(lambda: CV.get()) ; Registered().act(<I>) ; <E>.get(<X.>) ; [*<D>] or <X>
    """,
    "U": "Odd(<I>) ; Odd(<I>) ; Swap(<I>) ; Typewriter(<C>) ; Registered() ; Counted(<FN>) ; Swap(<I>).forget()",
    "FN": """
        Counted(<FN>) ; counted(<FN>) ; (lambda p, q=<L>: q.append(p) or len(q)) ; Odd(<I>).__add__ if False else abs
        functools.partial(operator.mul, <I>) ; <L>.__getitem__ ; <D>.get
    """,
    "G": """
        noisy(<$A>, <I>) ; nested_scopes(<$A>, <I>) ; (i for i in <L> if i != <I>)
        (<I|i:I> for i, j in zip(<L>, <L>))
        iter(<$L>.pop, <I>) ; map(int, map(str, <L>)) ; enumerate(<L>, <I>) ; zip(*[iter(<L>)] * 2)
    """,
    "G!": "noisy(<$A>, <I>) ; nested_scopes(<$A>, <I>) ; (lambda: (yield <I>))() ; iter(lambda: <I>, <I>)",
}
SIMPLE = """
    <$A>.append(CV.get()) ; CV.set(<I>) ; <$T>[0].mul_(2) ; <$T>.t()[0].add_(<I>) ; <$T>.view(-1)[:2].zero_()
    <=T> = <$T>[1:] ; <=T> = <$T>.t() ; <=T> = <$T>.view(-1)[: 4].view(2, 2) ; <$T>.diagonal().add_(<I>)
    <=T>, *_ = <T>.unbind(0) ; <=T> = <$T>.detach() ; <$A>.append((<T> is <$T>, <$T>._version > 0))
    torch.mul(<T>, 2, out=<$T>) ; torch.cumsum(<T>, 0, out=<$T>) ; <$T>.copy_(<T.>.t()) ; <$T>.add_(<T>, alpha=2)
    <$A>.append({<$T>: <I>}.get(<$T>)) ; <$E>[<$T>] = <X> ; <$A>.append(<$T> in <E>) ; <$A>.append(len({<$T>, <$T>}))
    <$A>.append((<=I> := <I>) + (<=I> := <I>)) ; <$A>.append(awaited(collect(<I>))) ; <$L>[len(<$L>):] = [<I>]
    <$L>[:0] = <L> ; <=L> = <=A> = [<I>] ; <=I>, <=A> = <I>, [*<A>, <I>] ; (<=I>), [<=C>, *_] = <I>, [<C>, <I>]
    for <=I> in <L>: pass ; <$A>.append(<$L>.append(<I>)) ; h0.__kwdefaults__ ; h1.calls = getattr(h1, 'calls', 0) + 1
    <$A>.append([(lambda: (i, <I>)) for i in <L>]) ; <$A>.append((lambda *, k=<L>: k)()) ; <$A>.append([<L>, <L>])
    torch.nn.functional.relu(<$T>, inplace=True) ; <$N>.weight.data.mul_(2) ; <$A>.append([*<$N>.state_dict()])
    <$N>.weight.grad = None ; <$N>.apply(lambda module: <$A>.append(type(module).__name__)) ; <$N>.zero_grad()
    <$A>.append(type(<U>)) ; <$A>.append(<U> and <I>) ; <$A>.append((<X>,) * 2) ; <$A>.append(f"{<X.>}"[:5])
"""
RISKY = """
    <$A>.append([*<U>, *<U>]) ; <$A>.append(<U> == <X>) ; <$A>.append(<X> == <U>) ; <$A>.append(<U> < <X>)
    <=U> += <X>
    <$A>.append([<U>, <U>] == [<U>, <X>]) ; <$A>.append(max([<U>, <X>])) ; <$A>.append({<U>, <U>})
    <$A>.append([<U>].index(<X>))
    <$A>.append(<L>[<U>]) ; <$A>.append(<L>[<U>:]) ; <$A>.append(range(<U>)) ; <$A>.append(<L> * <U>)
    <$A>.append(<C> % <U>)
    <$A>.append(dict(<U>)) ; <$A>.append({**<U>}) ; <$A>.append(h1(*<U>)) ; <$A>.append(total_of(**<U>))
    <$A>.append(<C>.join(<U>))
    <$A>.append(isinstance(<X>, <X>)) ; <$A>.append(<U>(<I>, k=<I>)) ; <$A>.append(<U>.forget())
    <$U>.__dict__['k'] = <X>
    <$U>.__class__ = Swap ; <$A>.append(<$U>.__dict__.pop('value')) ; <$A>.append(next(<U>, <I>))
    <$A>.append(<U> @ <I>)
    <$A>.append(bytes(<U>)) ; <$A>.append(round(<U>, <I>)) ; <$A>.append(complex(<U>)) ; <$A>.append(<I> ** <U>)
    <$A>.append(setattr(<U>, <C>, <I>)) ; <$A>.append(getattr(<U>, <C>)) ; <$A>.append(delattr(<$U>, 'value'))
    <$A>.append(sorted(<A>, key=str)[:0]) ; <$A>.append(sum(<A>, <I>)) ; <$A>.append(<X>[<X>]) ; <$A>.append(<X>(<X>))
    <$A>.append(<$G>.gi_running) ; <$A>.append(<T>[<I>, <I>]) ; <$T>[<I>] += <I> ; <$T>[<T> > <I>] += 1
    <$T>[:, <I>] = <T>
    <$T>.requires_grad_().mul_(2) ; <$A>.append(<T>.grad_fn is None) ; <$T>.expand(2, 2, 2)[0].add_(1)
    <$A>.append(<T> + <A>)
    torch.add(<T>, <T>, out=<$W>) ; <$A>.append(torch.zeros(<I>, <I>)) ; <$A>.append(<T>.reshape(<I>, -1))
    <$A>.append(<T>.view(<L>))
    torch.optim.SGD([<$W>], lr=0.1).step() ; (<$N>(<T>) * <$N>.weight).sum().backward()
    <$A>.append(<$N>.weight.grad)
    <$A>.append(eval('n')) ; exec('k8 = 1') ; <$A>.append(sorted(locals())[:2]) ; <$A>.append(globals()['G0'])
    <$A>.append(vars()['n']) ; <$A>.append(dir(<U>)[:1]) ; <$A>.append(torch.equal(<T>, <X>))
    <$A>.append(<T> == <X>)
    <$A>.append(int(<C>)) ; <$A>.append(<C>[<I>]) ; <$A>.append(<C>.encode('ascii')) ; <$A>.append(<I> << <I>)
    <$A>.append(chr(<I>))
    <$A>.append(<D>[<C>]) ; <$A>.append(<Q>[<I>]) ; <$A>.append(h0(<X>)) ; <$A>.append(h1(k=<I>))
    <$A>.append(<FN>(<I>, <I>))
    <$A>.append(K0(<I>, <I>)) ; <$A>.append(functools.partial(<FN>, <I>)(<I>)) ; <$A>.append(next(<G!>))
    <$A>.append(<X> | <X>)
"""
RAISING = """
    raise Failure(<U>) ; raise <$E>['none']
    raise ExceptionGroup('g', [KeyError(<C>), ExceptionGroup('h', [ValueError(<I>)])])
    raise UnicodeError ; getattr(<O>, <C>) ; assert <B>, (<I>, <X>) ; raise OSError(<I>, <C>) ; <U>.act(<I>, <I>, <I>)
    thrice(<L>.__getitem__, 99) ; import gone_8 ; from math import gone_8 ; awaited(<I>) ; later(<I>).gone
    raise AttributeError(<C>, name=<C>, obj=<I>) ; raise KeyError(<P>) from KeyError(<X>) ; raise StopIteration
    h1(<I>, n=<I>)
"""
BLOCKS = """
async def NAME(p, q=<I>):
    async with AsyncLog(<$A>, LookupError) as k8:
        BODY
        return await later(p), k8
<$A>.append(awaited(NAME(<I>)))

async def NAME(p):
    async for k8 in ticks(p, <$A>):
        BODY
    else:
        <$A>.append('else')
    return [i async for i in ticks(2)]
<$A>.append(awaited(NAME(<I>)))

NAME = noisy(<$A>, 3)
<$A>.append(next(NAME, 'none'))
BODY
del NAME
<$A>.append('gone')

for NAME in noisy(<$A>, 3):
    BODY
    break
<$A>.append('left')

NAME = Box(<I>)
NAME_ref = weakref.ref(NAME)
BODY
del NAME
<$A>.append(NAME_ref() is None)

NAME = Finalized(<$A>, <C>)
BODY
NAME = None
<$A>.append('behind')

try:
    raise ExceptionGroup('g', [ValueError(<I>), KeyError(<C>), ExceptionGroup('h', [TypeError(<I>)])])
except* (ValueError, KeyError) as NAME:
    <$A>.append([repr(each) for each in NAME.exceptions])
    BODY
except* TypeError as NAME:
    <$A>.append(NAME.exceptions)

with held_open(CV, <I>) as NAME:
    BODY
    <$A>.append((NAME, CV.get()))

class NAME:
    held = [<I|i:I> for i in <L>]
    def get(self, p=<I>):
        return [p, n, len(self.held)]
    total = sum(held) % 9
<$A>.append((NAME().get(), NAME.total))

class NAME(metaclass=Prepared, extra=<I>):
    first = <I>
    def act(self, p=1):
        return self.extra + p
<$A>.append((NAME.order, NAME().act(<I>), NAME.first))

class NAME(Registered, kind=<C>):
    place = Named(<I>)
    other = Named()
NAME_it = NAME()
NAME_it.place = <X>
<$A>.append((NAME.place, NAME_it.place, NAME_it.other, NAME.line, NAME_it.act(<I>)))

class NAME(Box):
    @Counted
    def scale(self, x):
        return x
<$A>.append((NAME(<I>).scale(<I>), NAME.scale.calls))

@counted
def NAME(p):
    return p if p < 1 else NAME(p - 1)
<$A>.append((NAME(<I>), NAME.calls, NAME.seen, NAME.__name__))

NAME = <$L>
NAME += <L>
<$A>.append(NAME is <$L>)

NAME = <$T>[0]
BODY
NAME.add_(<I>)
<$A>.append(<T>.sum())

NAME = <$T>.view(-1)
NAME[1:].mul_(2)
BODY
<$A>.append(NAME)

NAME = {<$T>: 'first'}
BODY
<$A>.append(NAME.get(<$T>))

for NAME in range(4):
    try:
        if NAME == <I>:
            continue
        BODY
        if NAME == <I>:
            break
    finally:
        <$A>.append(NAME)
else:
    <$A>.append('whole')

def NAME():
    for k8 in range(3):
        try:
            return k8
        finally:
            if k8 < <I>:
                continue
    return 'end'
<$A>.append(NAME())

def NAME():
    k8 = <I>
    def inner():
        nonlocal k8
        k8 += 1
        yield k8
        k8 += 1
        yield from (k8, p) if (p := k8) else ()
    k9 = inner()
    next(k9)
    k8 += 10
    return [*k9], k8
<$A>.append(NAME())

try:
    with Failing(<$A>, <I>) as NAME, Failing(<$A>, <I>):
        BODY
        raise LookupError(NAME)
except (ValueError, LookupError) as NAME:
    <$A>.append((repr(NAME), repr(NAME.__context__)))

try:
    NAME = <I>
    BODY
    del NAME
    NAME += 1
except NameError as NAME:
    <$A>.append(str(NAME))

try:
    <U>.gone
except AttributeError as NAME:
    <$A>.append((NAME.name, str(NAME)[:40], type(NAME.obj).__name__))

try:
    <L>[<U>]
except Exception as NAME:
    <$A>.append(NAME)

def NAME(p, *, k=<I>):
    return (lambda: p + k)() if p else NAME(p + 1, k=k)
<$A>.append(NAME(0))
<$A>.append(inspect.signature(NAME).parameters.keys())

def NAME(p=[<I>]):
    p.append(len(p))
    BODY
    return p
<$A>.append((NAME(), NAME(), NAME.__defaults__))

NAME = [(lambda: k8) for k8 in <L>]
BODY
<$A>.append([k9() for k9 in NAME])

while True:
    BODY
    if len(<$A>) > <I>:
        break
    <$A>.append('round')

NAME = copy.copy(<$A>)
NAME.append(NAME)
BODY
<$A>.append(len(NAME))

NAME = <U>
match NAME:
    case Odd(value=int(k8)) | Swap(value=k8) if k8:
        <$A>.append(k8)
        BODY
    case str() | Typewriter():
        <$A>.append(NAME.upper())
    case Registered(line=[first8, *rest8]) | [first8, *rest8]:
        <$A>.append(first8)
    case _:
        BODY

NAME = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.ReLU())
BODY
<$A>.append(NAME(torch.ones(2, 2)).sum().detach())
<$A>.append([k8 for k8, _ in NAME.named_parameters()])

NAME = <$N>.register_forward_pre_hook(lambda module, args: (args[0] + 1,))
try:
    BODY
    <$A>.append(<$N>(<T>))
finally:
    NAME.remove()

with torch.no_grad():
    NAME = <$W>.mul_(1)
    BODY
<$A>.append(NAME is <$W>)

with warnings.catch_warnings(record=True) as NAME:
    warnings.simplefilter('always')
    warnings.warn(<C>)
    BODY
<$A>.append(len(NAME))
"""
SINCE_3_12 = """
def NAME[S](p: S, q: S = <I>) -> S:
    BODY
    return p + q
<$A>.append((NAME(<I>), len(NAME.__type_params__)))

class NAME[S](Box):
    held: list[S]
    def act(self, p: S = <I>) -> S:
        return p
<$A>.append((NAME(<I>).act(), NAME[int](<I>).v))

type NAME = list[int]
<$A>.append((NAME.__name__, NAME.__value__))
"""


class Corners:
    """Mixin of the Writer."""

    blocks = (BLOCKS + library_rows.BLOCKS + state_rows.BLOCKS).strip().split("\n\n")
    blocks += SINCE_3_12.strip().split("\n\n") * (sys.version_info >= (3, 12))

    def corner_(self, depth):
        """One of BLOCKS."""
        lines, in_function, name = [], False, self.new_name("c")
        for line in self.pick(self.blocks).replace("NAME", name).splitlines():
            indent = line[: len(line) - len(line.lstrip())]
            in_function = bool(indent) and (in_function or lines[-1].lstrip().startswith(("def ", "async def ")))
            if line.strip() == "BODY":
                assigned = {"assignable": {}} if in_function else {}  # else its names would be local there
                body = self.indented(depth, 2, in_loop=False, in_function=False, yields=False, **assigned)
                lines += [indent + each[4:] for each in body]
            else:
                lines.append(self.fill(line))
        return lines
