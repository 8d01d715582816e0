"""The expressions and simple statements of random programs: one row each, by kind of value.

A row is a template.  `<I>`: any expression of kind I.  `<I.>`: one without parts (a name or a constant).  `<$I>`: an
existing variable of the kind; `<=I>`: one that may be assigned to here.  `<I|i:I>`: an expression that may use the
name `i` of kind I.  The first rows of a kind are the simplest: failing programs shrink towards them.

Kinds: T tensor, I small int, F float, B bool, C text, L list of ints, A list of anything, D dict of text to ints, E
dict of anything, S set of ints, Q deque, P tuple, O object, U one of the objects of classes.py, FN function of an int,
G iterable of ints, W parameter, N module, X anything.
"""

EXPRESSIONS = {
    "T": """
        <$T> ; <T.> + <T> ; <T> * <I> ; <T> - 1.5 ; torch.relu(<T>) ; <T> @ <T> ; <T>.t() ; <T>.sum() + <T> ; -<T>
        torch.where(<T.> > 0, <T>, <T>) ; torch.cat([<T.>[:1], <T.>[1:]]) ; <T>.clone()
        <T> + torch.rand(()) ; torch.randn_like(<T>) * <T> ; <$T>[:] ; <T>.abs().clamp(max=<F>)
        <T> / (<I> + 7) ; <T>.reshape(-1).reshape(<T.>.shape) ; torch.stack(list(<T>)) ; (<T> if <B> else <T>)
        torch.stack([row * 2 for row in <T>]) ; sum([<T>, <T>]) ; functools.reduce(torch.add, [<T>, <T>]) ; 2 - <T>
        torch.full_like(<T>, <I>) ; <T>.masked_fill(<T.> > <I>, 0.5) ; <T>.max(0)[0] + <T> ; <T> * <O> ; <O> * <T>
        torch.zeros_like(<T>).add_(<T>) ; <T>[:, [*range(len(<T.>))]] ; <T>[::1] ; <T> * <$T>.shape[0]
        <O>.scale(<T>) ; <T>.sort(0).values ; <$N>(<T>) ; h0(<T>, <I>, <L>) ; torch.maximum(<T>, <T>)
        <T>.mean(0, keepdim=True) + <T> ; [<T>, <T>][<I> % 2] ; {'t': <T>}['t'] ; <T>.to(torch.float64).to(<T.>.dtype)
        twice(<T>) ; <T>.detach() ; torch.stack(torch.unbind(<T>, dim=<I> % 2)) ; (lambda t, k=2: t * k)(<T>)
        getattr(<T>, 'exp')() ; <T>.view(-1)[0] + <T> ; <T>[..., None].squeeze(-1) ; <T>.T ; torch.einsum('ij->ji', <T>)
        torch.cat(<T>.chunk(2)) ; torch.softmax(<T>, <I> % 2) ; <T>.cumsum(0) ; torch.cat(<T>.split([1, len(<T.>) - 1]))
        torch.full((<I> % 3 + 1, 1), <F>).sum() + <T> ; <T> + torch.arange(len(<T.>)) ; torch.eye(len(<T.>)) * <T>
        <T>.to(torch.int64) + <T> ; <T>.bool() | (<T> > 0) ; torch.nn.functional.dropout(<T>, 0.5)
        <T>[<T.>.shape[0] - 1]
        doubled(<T>) ; <$N>.deep(<T>) ; hooked(<$N>, <T>) ; torch.func.grad(lambda t: (t * <T.>).sum())(<T>)
        torch.vmap(lambda t: t * <I>)(<T>)
        torch.utils.checkpoint.checkpoint(lambda t: t * 2 + <T.>, <T>, use_reentrant=False) ; untraced(<T>)
        torch.stack([*<T>, <T.>[0]])[1:] ; torch.tensor([<I>, <F>]).sum() + <T> ; <T>.new_zeros(<T.>.shape) + <I>
        torch.nn.functional.layer_norm(<T>, (<T.>.shape[1],)) ; <T>.flip(0) ; <T>.roll(<I>, 0) ; <T>.data ; <T>[::2]
        <$T>.expand(2, *<$T>.shape)[1] ; torch.where(<T> > <F>, <I>, <F>) * <T> ; <T>.unfold(0, 1, 1)[..., 0]
    """,
    "I": """
        <$I> ; 0 ; 1 ; 2 ; -1 ; len(<L>) ; (<I> + <I>) % 5 ; <I> - <I> ; -<I> ; <I> * <I> % 7 ; <I> // 2 ; <I> % 3
        <I> & 3 ; <I> ^ 1 ; max(<I>, <I>) ; min(<L>, default=<I>) ; sum(<L>) % 7 ; <D>.get(<C>, 0) ; <FN>(<I>)
        len({*<L>}) ; <O>.v ; (<I> if <B> else <I>) ; ord(<C>[:1] or 'z') % 5 ; <T>.shape[0] ; <T>.dim() ; abs(<I>)
        sum(<G>) % 5 ; len(<D>) ; int(<F> > 1) ; int(<T>.sum() > 0) ; <O>.double ; <O>(<I>) ; <L>.count(<I>)
        total_of(*<L>, <I>, k=<I>) ; next(<G!>, <I>) ; <O>.clip(<I>) ; len(<Q>) ; bool(<L>) + 1 ; <C>.count('k')
        h1(<I>, *<L>) ; round(<F> * 4) % 9 ; Box.shared ; Color.BLUE.value ; math.gcd(<I>, 6) ; ~<I> ; <I> << 1 & 7
        sum(v for v in <D>.values()) % 9 ; Record(<I>).grow(<I>).size ; Pair(<I>, <I>).right
        {**<D>, 'k9': <I>}.pop('k9') ; (lambda p=<I>: p)() ; (lambda *p, **k: len(p) + len(k))(*<L>, **<D>) ; len(<T>)
        G0 ; functools.reduce(lambda p, i: (p * 2 + <I|i:I>) % 9, <L>, <I>) ; [*<L>, 7][0]
        ([k for k, v in enumerate(<L>) if v > 1] or [5])[0] ; G1 ; GM.level ; GF(<I>) ; (lambda *p: sum(p))(*<L>, *<L>)
        operator.add(<I>, <I>) % 5 ; <C>.find('1') ; <I>.bit_length() ; functools.reduce(operator.xor, <L>, <I>)
        bisect.bisect(sorted(<L>), <I>) ; len(<T>.shape) ; sum(map(len, [<C>, <L>])) ; int(bool(<X>))
        [*map(abs, <L>)].pop()
        (lambda: (yield))() and 1 ; len(<A>) % 4 ; pow(<I>, 2, 7) ; <T>.stride(0) ; <T>.numel()
        getattr(<U>, 'act', abs)(<I>) ; heapq.nsmallest(1, [<I>, *<L>])[0] ; int(<C> == <C>) ; int(f"{<I.>}")
    """,
    "I!": """
        <L>[<I>] ; <D>['k1'] ; <P>[0] ; <O>[-1] ; <L>.index(<I>) ; <A>.index(<X>) ; operator.itemgetter(0)(<L>)
        int(<C.> or 5) ; <E>['e'] ; <U>.value ; <U>.act(<I>) ; <U>(<I>) ; <U>[<I>] ; len(<U>) ; operator.index(<U>)
        int(<U>)
        next(<U>) ; max(<U>) ; <T>.argmax().item() % 5 ; list(<U>)[0] ; sum(<U>) ; functools.reduce(max, <U>) ; <FN>()
        <U>.act() ; round(<U>) ; <U>.made_up
    """,
    "F": """
        <$F> ; 0.5 ; float(<I>) ; <I> / 4 ; <F> - <F> ; round(<F>, 1) ; <F> * 0.5 ; <T>.sum().item() ; max(<F>, <I>)
        <F> % 3 ; math.sqrt(abs(<F>)) ; float('1.5') ; sum(<L>, 0.5) ; complex(<I>, <F>).imag ; abs(complex(<I>, 1))
        math.floor(<F>) / 2 ; divmod(<F>, 2)[1] ; <F> // 1 ; min(<F>, <I>) * 1.0 ; (<F>).as_integer_ratio()[0] / 4
    """,
    "B": """
        True ; <I> > <I> ; <I> in <L> ; not <B> ; <B> and <B> ; <B> or <B> ; <L> is <L> ; 0 < <I> <= 3 ; <C> in <D>
        <C> == <C> ; isinstance(<X>, int) ; <O> == <O> ; hasattr(<O>, 'extra') ; any(<B|i:I> for i in <L>)
        all(<B|i:I> for i in <L>) ; <L> == <L> ; bool(<T>.sum() > <I>) ; <X> is None ; <I> not in <S> ; <L> ; <D>
        <C> ; <I> ; <O> ; callable(<X>) ; <X> == <X> ; <O> < <O> ; <S> <= <S> ; <P> < (1, 2) ; type(<X>) is list
        <T>.is_contiguous() ; <T>.dtype == torch.float32 ; <I> in <O> ; <T> is <T> ; issubclass(type(<O>), Box)
        <X> != <X> ; <D>.keys() == <D>.keys() ; <C>.startswith('k') ; Color(1) is Color.RED ; <U> == <U> ; bool(<U>)
        isinstance(<X>, collections.abc.Iterable) ; <P> == <P> ; <I> == <F> ; <I> < <F> <= <I> != <I>
        isinstance(<U>, (int, str, Tagged)) ; torch.is_tensor(<X>) ; torch.equal(<T>, <T>) ; Perm.READ in Perm.BOTH
        <T>.requires_grad ; <S> == <S> ; <E> == <E> ; <I> is <I> ; <C> < <C> <= 'z'
        <X> is not <X> is not None ; issubclass(type(<U>), collections.abc.Sized) ; hasattr(<U>, 'value')
    """,
    "C": """
        <$C> ; 'k1' ; 'k2' ; str(<I>) ; <C>.upper() ; <C>[::-1] ; (<C> + <C>)[:5] ; ','.join(map(str, <L>))[:9]
        '%s=%d' % (<C>, <I>) ; f"{<I.>:03d}" ; f"{<L.>!r}|{<C.>:>4}" ; f"{<F.>:.2f}" ; '{}:{!r}'.format(<I>, <C>)
        repr(<P>)[:9] ; type(<X>).__name__ ; <C>.replace('k', <C.>)[:6] ; str(<L>)[:8] ; <C> * (<I> % 2)
        chr(97 + <I> % 5) ; <C>.split('k')[0] ; <C>.strip('k') ; 'abc'[<I> % 3] ; f"{<D.>}"[:9] ; f"{<O.>.v}{<I.>=}"
        Color.RED.name ; 'k%d' % (<I>,) ; ''.join(sorted(<C>)) ; ('a' if <B> else 'b')
        next((k for k in <D>), 'none') ; f"{<I.>:>{3}}" ; str(<A.>)[:3] ; <C>.title().center(5, '*') ; <C>.zfill(3)
        <C>.translate({107: 'j'}) ; <C>.removeprefix('k') ; <C>.encode().hex()[:4] ; '-'.join([<C>, <C>])[:6]
        f"{<U.>!s:.5}"
        re.sub('k', <C>, <C>)[:5] ; '{x}{0}'.format(<I>, x=<C>)[:6] ; <C>.rsplit('k', 1)[-1] ; <C>.swapcase()
        ascii(<C>)
        format(<I>, '03d') ; 'abc'[<I>:] ; <C>.join('ab')[:5] ; min(<C>, 'b') ; shown(<U>)[0] ; '%(a)s' % {'a': <C>}
        <C>.expandtabs() if <C>.isalnum() else <C>.casefold() ; type(<U>).__name__ ; f"{<X.>!r:.1}"
        bytes([97]).decode()
    """,
    "L": """
        <$L> ; [] ; [<I>, <I>] ; list(range(<I> % 4)) ; (<L> + <L>)[:6] ; <L>[::-1] ; [<I|i:I> for i in <L>]
        [*<L>, <I>][:6] ; sorted(<L>) ; list(map(<FN>, <L>)) ; [i for i in <L> if <B|i:I>] ; list(<G>)[:6]
        list(<D>.values()) ; <L>.copy() ; <O>.items ; list(<Q>) ; <L>[<I>:<I>] ; [i - j for i, j in zip(<L>, <L>)]
        list(dict.fromkeys(<L>)) ; sorted(<L>, key=lambda i: <I|i:I>) ; [i for row in [<L>, <L>] for i in row][:6]
        sorted(<S>, reverse=True) ; (<L> if <B> else <L>) ; [[i, <I|i:I>][0] for i in <L>] ; pause(<L>)
        swallow(<L>)[:6] ; (<L> or [3]) ; [v for k, v in sorted(<D>.items())] ; list(filter(None, <L>))
        [<FN|i:I>(i) for i in <L>] ; list(<P>[1:1]) ; (<L> * 2)[:5] ; copy.copy(<L>)
        list(itertools.chain(<L>, <G>))[:6] ; [f() for f in [lambda i=i: <I|i:I> for i in <L>]]
        [f() for f in [lambda: <I|i:I> for i in <L>]] ; [len(list(g)) for _, g in itertools.groupby(<L>)]
        [i + j for i, j in itertools.zip_longest(<L>, <L>, fillvalue=<I>)][:6]
        [max(p) for p in itertools.pairwise(<L>)]
        list(itertools.starmap(max, zip(<L>, <L>))) ; list(itertools.compress(<L>, <L>))
        [*itertools.dropwhile(bool, <L>)]
        [sum(p) for p in itertools.combinations(<L>[:4], 2)] ; sorted(<L>, key=functools.cmp_to_key(lambda i, j: j - i))
        [i for i, j in itertools.product(<L>[:2], <L>[:2]) if i < j]
        <S> and [*<S>][:0]
        list(map(operator.itemgetter(0), enumerate(<L>))) ; heapq.nlargest(2, <L>) ; [i for i in <L> for _ in [<I|i:I>]]
        [(lambda: i)() for i in <L>] ; [i for row in [[j] * 2 for j in <L>] for i in row][:6]
        list(bytes([1, 2, <I> & 3]))
        [*itertools.chain.from_iterable([<L>, <L>])][:6] ; next(iter([<L>])) ; sorted([*<L>], key=<FN>)
        [*<L>[1:], *<L>[:1]]
    """,
    "A": """
        <$A> ; [<X>] ; [<X>, <X>] ; list(<E>) ; [<U>] ; sorted(<D>.items()) ; drive(<G!>, [<I>, Failure, <I>]) ; [*<P>]
        [*<A>, <X>][-4:] ; list(zip(<L>, <A>)) ; [<X|i:I> for i in <L>]
        list(<D>.items()) ; [<L>] * 2
    """,
    "D": """
        <$D> ; {} ; {<C>: <I>} ; {**<D>, <C>: <I>} ; dict(<D>, k0=<I>) ; {str(i): <I|i:I> for i in <L>} ; <D> | <D>
        dict(zip('abc', <L>)) ; dict(<D>) ; collections.Counter('aab') ; dict.fromkeys('ab', <I>)
        {k: v for k, v in <D>.items() if v != <I>} ; collections.OrderedDict(<D>) ; collections.defaultdict(int, <D>)
        dict(sorted(<D>.items(), key=lambda pair: pair[1])) ; copy.copy(<D>) ; {k: v for k, v in zip(<C>, <L>)}
        collections.Counter(<C>) ; dict(collections.ChainMap({'k1': <I>}, <D>)) ; {**<D>, **<D>}
        collections.defaultdict(lambda: <I>) ; dict([('y', <I>)], k2=<I>)
    """,
    "E": """
        <$E> ; {<I>: <X>} ; {'u': <X>, 2: <X>} ; {**<E>} ; dict(<E>, z=<X>) ; {i: <X|i:I> for i in <L>} ; {<P>: <X>}
        {Alike(<I>): <X>} ; {Frozen(<I>): <X>, Color.RED: <X>} ; {'v': <U>, **<D>}
    """,
    "S": """
        <$S> ; set() ; {<I>, <I>} ; <S> | <S> ; <S> & <S> ; set(<L>) ; {i % 3 for i in <L>} ; <S> - <S> ; <S> ^ <S>
        frozenset(<L>) ; {<I|i:I> for i in <L>} ; <S>.union(<L>) ; <S>.copy()
        <S>.difference(<L>, <L>) ; <S>.intersection(<L>) ; {*<L>, *<S>} ; set(map(abs, <L>))
        <S>.symmetric_difference(<L>)
    """,
    "Q": "<$Q> ; collections.deque(<L>, 4) ; <Q>.copy() ; collections.deque(<L>)",
    "P": """
        <$P> ; () ; (<I>, <I>) ; (*<L>, <I>) ; tuple(<L>) ; divmod(<I>, 3) ; (<I>,) + <P> ; Pair(<I>, <X>)
        tuple(<T>.shape) ; (<X>, <X>) ; <P>[::-1] ; tuple(i for i in <L>) ; <T>.shape
        Pair(<X>, <I>)._replace(left=<I>) ; tuple(map(<FN>, <L>)) ; <C>.partition('k')
        Pair(*<L>[:2], *[0, 1][len(<L>):]) ; Place(<I>) ; Couple(<I>, <I>) ; tuple(sorted(<L>)) ; (<I>, *<P>)
        tuple(<T>.stride()) ; (*<C>, <X>) ; collections.namedtuple('Made', 'u v')(<I>, <X>) ; (<U>,) ; <P> * (<I> % 2)
    """,
    "O": """
        <$O> ; Box(<I>) ; <O> + <I> ; <I> + <O> ; <O> + <O> ; Box.make(<I>) ; Loud(<I>) ; -<O> ; (<O> or <O>)
        K0(<I>) ; copy.copy(<O>) ; (<O> if <B> else <O>) ; min([<O>, <O>]) ; sum([<O>, <O>], Box(1)) ; type(<O>)(<I>)
        copy.deepcopy(Box(<I>)) ; K0.make(<I>) ; max(<O>, <O>) ; [<O>][-1]
        dataclasses.replace(Record(<I>), size=<I>) and <O>
    """,
    "U": """
        <$U> ; Point(<I>) ; Heat(<I>) ; Tagged(<I>) ; Frozen(<I>) ; Options(value=<I>) ; Bottom(<I>, left=<I>)
        Square(<I>)
        Perm.READ | Perm.WRITE ; Level(<I> % 2) ; Row(*<L>) ; Table(<D>) ; Couple(<I>, <X>) ; Word(<C>) ; Number(<I>)
        Money(<I>) ; Chain(<I>) ; Steps(<I>) ; Chameleon(<I>) ; Methods(<I>) ; Quiet(<I>) ; Copied(<I>) ; Place(<I>)
        Alike(<I>) ; Sealed(<I>) ; Bag(<L>) ; Fallback(<I>) ; copy.copy(<U>) ; Tagged
        types.SimpleNamespace(value=<I>)
        collections.UserDict(<D>) ; collections.Counter(<L>) ; bytearray(<C>.encode()) ; Color.RED ; Frozen(<I>, <P>)
        <U>
        collections.ChainMap(<D>, <D>) ; weakref.ref(<$O>) ; range(<I>) ; (<U> if <B> else <U>) ; complex(<I>, <I>)
    """,
    "FN": """
        <$FN> ; (lambda p: <I|p:I>) ; h1 ; functools.partial(max, <I>) ; <O> ; abs ; operator.neg ; Box.clip
        <O>.clip ; (lambda p, by=<I>: (p + by) % 9) ; traced(lambda p: <I|p:I>) ; scaled(2, offset=<I>)(<FN>)
        functools.partial(h1, <I>) ; <D>.__len__ if False else int ; functools.lru_cache(abs)
        GF ; Methods(<I>).act ; Methods(<I>).add ; Methods.double ; operator.methodcaller('bit_length')
        functools.partial(functools.partial(max, <I>), <I>) ; (lambda p, *q, k=<I>: p + k + len(q))
        functools.wraps(abs)(lambda p: <I|p:I>) ; (lambda p: (lambda: p + <I>)())
        contextlib.nullcontext(abs).enter_result
    """,
    "G": """
        <L> ; range(<I> % 4) ; iter(<L>) ; (<I|i:I> for i in <L>) ; g0(<I>, <L>) ; map(<FN>, <L>) ; filter(None, <L>)
        reversed(<L>) ; <Q> ; <S> ; <$G> ; countdown(<I> % 4) ; itertools.accumulate(<L>)
        itertools.islice(itertools.count(<I>), 3) ; <O> ; <D>.values() ; Chain(<I>) ; Row(*<L>) ; Steps(<I>)
        Bag(<L>) ; itertools.chain(<L>, <L>)
        range(<I>, -2, -1) ; {*<L>} ; K0(<I>) ; itertools.takewhile(lambda i: <B|i:I>, <L>) ; itertools.repeat(<I>, 2)
        (v for row in [<L>, <L>] for v in row) ; map(max, <L>, <L>) ; itertools.filterfalse(None, <L>) ; enumerate(<L>)
        itertools.zip_longest(<L>, <L>) ; itertools.islice(itertools.cycle([<I>, 1]), 3) ; itertools.tee(<L>)[0]
        map(lambda i, j: i - j, <L>, <G>) ; (i for i in <G>) ; iter(<L>.__len__, len(<L>)) ; sorted(<G>)
        dict.fromkeys(<L>)
    """,
    "G!": """
        <$G> ; iter(<L>) ; (<I|i:I> for i in <L>) ; g0(<I>, <L>) ; map(<FN>, <L>) ; countdown(<I> % 4) ; relay(<G!>)
        reversed(<L>) ; zip(<L>) ; filter(<FN>, <L>) ; relay(countdown(<I> % 4)) ; Steps(<I>)
    """,
    "X": """
        <I> ; None ; <C> ; <L> ; <T> ; <D> ; <P> ; <A> ; <E> ; <F> ; <B> ; <O> ; <S> ; <Q> ; <FN> ; <G!>
        slice(<I>, <I>) ; <$X> ; Color.RED ; range(<I>) ; Record(<I>, <L>) ; enumerate(<L>) ; zip(<L>, <C>)
        (lambda: <X>) ; type(<X>) ; {<X.>: <X.>}.keys() ; Failure(<I>) ; functools.partial(<FN>, <I>) ; str.upper
        [<X>, <X>] ; <C>.encode() ; torch.float32 ; complex(<I>, 1) ; bytes([1, 2]) ; <P> + <P> ; <L>.pop ; 1 << 70
        ... ; NotImplemented ; <U> ; <U> ; Place ; GM.level ; list[int] ; int | None ; bytearray(b'a') ; <D>.items()
        <C>.upper
        (<X> if <B> else <X>) ; {'n': [<X>]} ; <T>.dtype ; <T>.shape ; frozenset(<L>)
        <B> and <X>
        operator.add ; len ; <O>.v ; Failure ; collections.deque(<L>) ; inspect.signature(h1) ; (<X> for _ in <L>)
    """,
}

SIMPLE = """
    <=T> = <T> ; <=T> += <T> ; <=T> -= <I> ; <$T>.add_(<T>) ; <$T>[:, 0] *= 2 ; <=T> = <=T> = <T> ; <$T>.mul_(<I>)
    <$T>.copy_(<T>) ; <=T>, <=I> = <T>, <I> ; <$T>.data.zero_() ; <=T> = <$N>(<T>) ; <=T> /= 2 ; <=I> = <I>
    <=I> += <I> ; <=I> -= 1 ; <=I>, <=I> = <$I>, <$I> ; <=I> = <=I> = <I> ; k7: int = <I> ; <=I> ^= <I>
    <=I> //= 2 ; <=I> %= 5 ; <=I> |= 1 ; <=F> = <F> ; <=F> += <I> ; <=C> = <C> ; <=C> += <C>[:2] ; <=C> *= <I> % 2
    <=P> += (<X>,) ; <=FN> = <FN> ; <=G> = <G!> ; <=X> = <X> ; <=O> = <O> ; <$L>.append(<I>)
    <$L>.extend(itertools.islice(<G>, 4))
    <$L>.insert(<I>, <I>) ; <$L>[<I>:] = <L> ; <=L> += <L> ; <=L> = <L> ; <$L>.reverse() ; <$L>.clear()
    <=L> = <=L> = <L> ; <$L>[:] = <L> ; <$A>.append(<X>) ; <$A>.insert(0, <X>) ; <$A>.append(<$A>) ; <=A> = <A>
    <$A>.extend(<P>) ; <=A> += <A> ; <$A>.append(<$T>) ; <$D>[<C>] = <I> ; <$D>.update(<D>)
    <$D>.setdefault(<C>, <I>) ; <$D>.pop(<C>, None) ; <=D> |= <D> ; <=D> = <D> ; <$E>[<P>] = <X>
    <$E>.setdefault('l', []).append(<X>) ; <$E>.pop(<I>, None) ; <=E> = <E> ; <$E>.clear() ; <$E>['e'] = <$E>
    <$E>.update(z=<X>) ; <$S>.add(<I>) ; <=S> |= <S> ; <$S>.discard(<I>) ; <=S> = <S> ; <=S> -= <S>
    <$S>.update(<L>) ; <=S> &= <S> ; <=S> ^= {<I>} ; <$Q>.append(<I>) ; <$Q>.appendleft(<I>) ; <$Q>.rotate(<I>)
    <$Q>.extend(<L>) ; <=Q> = <Q> ; <=Q> += <L> ; <$O>.v = <I> ; <$O>.items.append(<I>) ; <$O>.extra = <X>
    <=O> += <I> ; setattr(<$O>, 'z', <X>) ; <$O>.v += <I> ; <$O>.items = <L> ; <=O> = <=O> = <O> ; <$O>.t = <T>
    <$A>.append(<$O>) ; <$A>.append(<X>) ; <$A>.append(<I>) ; <$A>.append(<C>) ; <$A>.append(<L>)
    <$A>.append(<B>) ; <$A>.append(<F>) ; <$A>.append(<D>) ; GL.append(<I>) ; GD[<C>] = <X>
    GT.add_(1) ; GD.clear() ; K0.count = <I> ; K0.count += 1 ; K0.log.append(<I>) ; <=L>, <=I> = [<I>], <I>
    [<=I>, <=C>] = <I>, <C> ; <=I> = next(<$G>, <I>) ; <$A>.append(list(<$G>)) ; <$A>.append(next(<$G>, 'end'))
    import math as maths ; <$A>.append((<=I> := <I>)) ; <$A>.append(twice(<X.>)) ; <$A>.append(len(<$A>))
    <$A>.append({**<D>}) ; <$A>.append(lambda: <I>) ; <$A>.append(<FN>(<I>)) ; <$N>.calls += 1 ; <$N>.scale = <F>
    <$N>.extra = <X> ; <$N>.seen.mul_(2) ; <$N>.seen = <T>.sum().detach() ; <$A>.append(<$N>.training)
    <$N>.train(<B>) ; pass ; <=U> = <U> ; <=U> = <U> ; <=U>, <=I> = <U>, <I> ; <$A>.append(<U>) ; <$A>.append(<$U>)
    GM.level = <I> ; GM.level += 1 ; <$A>.append((<C>, <P>))
    <$A>.append(drive(<G!>, [<I>, <I>]))
    <$A>.append(drive(<G!>, [None, ValueError, 'close', <I>])) ; <=X>, *<=L> = <X>, *<L>
    <$A>.append([*<L>, *<P>]) ; <$A>.append({**<D>, **<E>}) ; <$A>.append(total_of(*<P>[:0], **<D>))
    <$A>.append(f"{<C.>=}")
    <$A>.append([k5 := <I>, k5 * 2]) ; <$A>.append([i for i in <L> if (k4 := i) > 0])
    <=D> = {(k3 := 'w'): <I>, k3 + 'x': 1}
    <$T>.t_() ; <=I> = <=X> = <I> ; <$A>.append((k6 := <B>) or k6) ; <$A>.append(<T>.max()) ; <$A>.append(<$T>[0])
    <$A>.append(next(iter(<G!>), <I>)) ; <$A>.append(copy.copy(<X>))
    <$A>.append(<U> is <U>)
    <$A>.append(isinstance(<U>, collections.abc.Hashable)) ; <$A>.append(shown(<U>)) ; <$A>.append(match_of(<X>))
    <$A>.append(match_of(<U>)) ; <$A>.append([<I> for _ in <T>]) ; <$T>.view(-1)[::2].mul_(2)
    <$T>[0].add_(<I>)
    <$T>.zero_().add_(<T>) ; <$T>.clamp_(<I>, 5) ; <=T>, <=T> = <T>, <T> ; <$T>.tagged = <X>
    <=T> = torch.sub(<T>, <T>, alpha=3) ; <$T>.index_fill_(0, torch.tensor([0]), <I>)
    <$T>.fill_(<F>) ; <$A>.append(<T>.shape[0] * <T>.size(-1)) ; <=I> = len(<T>)
    <$A>.append(getattr(<T>, 'tagged', 0)) ; <$T>.swapaxes_(0, 1)
    <$A>.append(torch.is_grad_enabled()) ; <$A>.append([p.shape for p in <$N>.parameters()])
    <$A>.append(<$N>.state_dict()['seen'])
    <$N>.register_buffer('late', <T>) ; <$N>.part = torch.nn.Tanh() ; <$A>.append(len(list(<$N>.modules())))
    <$N>.eval() ; <$A>.append(<$N>.training and <$N>.calls)
    <$A>.append(list(dict(<$N>.named_buffers())))
"""
RISKY = """
    (<$W> * <T>).sum().backward() ; <$A>.append(<$W>.grad) ; <$W>.grad = None ; (<$W> * <T>).sum().backward()
    <$D>.move_to_end('k1') ; <$A>.append(sorted(<D>.keys() & <D>.keys())) ; <=L> *= <I> % 3 ; <$Q>[<I>] = <I>
    <$A>.append(<L>[<I>:<I>:-1]) ; <$D>[<C>].append(<I>) ; <$Q>.insert(<I>, <I>) ; <$A>.remove(<X>) ; <$Q>.remove(<I>)
    <$A>.append(list(<D>.items())) ; <$A>.append(<E>.popitem()) ; <$A>.append(sorted(<A>)) ; <$A>.append(max(<A>))
    <=T> *= <F> ; <$T>[0] = <I> ; <$T>[<I> % 2] += <T.>[0] ; torch.add(<T>, <T>, out=<=T>) ; <=P> = <P>
    <$L>.pop() ; <$L>[<I>] = <I> ; del <$L>[<I>:] ; <$L>.sort() ; <$L>.remove(<I>) ; del <$L>[<I>]
    <$L>[0] += <I> ; <$L>[::2] = <L> ; <$A>[-1] = <X> ; <$A>.pop(<I>) ; del <$D>[<C>] ; <$D>.popitem()
    <$D>['k1'] += <I> ; <$E>[<I>] = <X> ; <$S>.remove(<I>) ; <$Q>.popleft() ; <$Q>.pop() ; <$Q>[0] = <I>
    del <$O>.extra ; <$O>[0] = <I> ; <$O>.double = <I> ; del <$O>[<I>] ; <$A>.append(getattr(<$O>, 'extra', <I>))
    <$A>.append(<O>.made_up) ; vars_ = <$O>.__dict__ ; del GL[<I>:] ; GT[0] = <I> ; <=I>, *<=L> = (*<L>, <I>)
    *<=L>, <=I> = [<I>, *<L>] ; (<=I>, <=I>), <=C> = <P>, <C> ; <=I>, <=I> = <P> ; <=I>, *<=L>, <=I> = <L>
    <=I> = next(<$G>) ; <$A>.append(<$G>.send(None)) ; <$G>.close() ; <$G>.throw(Failure(<I>)) ; k9 = <I> ; del k9
    <$A>.append(k9) ; assert <B>, <C> ; <$A>.append(maths.floor(<F>)) ; from math import pi, floor as down
    <$A>.append(sorted(<D>)) ; <$A>.append(<$A>[-1]()) ; <=I> = <I!> ; <$A>.append(<I!>) ; <=I> += <I!>
    <$U>.value = <I> ; del <$U>.value ; <$U>.extra = <X> ; <$U>[<I>] = <I> ; del <$U>[<I>] ; <$A>.append(<U> + <I>)
    <$A>.append(<I> + <U>) ; <$A>.append(<U> - <U>) ; <$A>.append(<U> * <I>) ; <$A>.append(<I> in <U>)
    <$A>.append(str(<U>))
    <$A>.append(f"{<U.>}") ; <$A>.append((lambda *u: hash(u[0]) == hash(u[1]))(<U>, <U>))
    <$A>.append(-<U>) ; <$A>.append(abs(<U>))
    <=U> += <I>
    <$A>.append(divmod(<U>, <I>)) ; <$A>.append(<U> < <U>) ; <$A>.append(sorted([<U>, <U>])) ; <$A>.append({<U>: <X>})
    <$A>.append(copy.deepcopy(<U>)) ; <$A>.append(list(reversed(<U>))) ; <$A>.append(list(<U>))
    <$A>.append(float(<U>))
    <$A>.append(dataclasses.asdict(<U>)) ; <$A>.append(dataclasses.replace(<U>, value=<I>)) ; <$A>.append(<U>['k1'])
    <$A>.append(vars(<U>)) ; <$A>.append(<U> | <U>) ; <$A>.append(<U> ** 2) ; <$A>.append(<U>[:1]) ; <=U> -= <U>
    <$A>.append(<C> + <U>)
    <$A>.append(<$U>()) ; <$A>.append(<U>.kind(<X>)) ; <$U>.append(<I>) ; <$U>.update(<D>) ; <$E>[<U>] = <X>
    <$A>.append(<E>[<U>])
    <=I>, <=I> = <U> ; <=I>, *<=L> = <U> ; <$A>.append(<$G>.send(<I>)) ; <$A>.append(<$G>.throw(ValueError))
    <$A>.append(<X> < <X>)
    <$A>.append(<T> * <U>) ; <$T>[<T.> > <I>] = 0 ; torch.add(<T>, 1, out=<$T>) ; <$T>.requires_grad_(<B>)
    <$A>.append(<X> in <A>) ; <$A>.append(<U> in <A>) ; <$A>.append(tuple(<U>)) ; <=U> = type(<U>)(<I>)
    <$A>.append([*<U>])
    <$A>.append(<X> + <X>) ; <$A>.append(<X>[<I>]) ; <$A>.append(len(<X>)) ; <$A>.append(<X>(<I>))
    <$A>.append(<X>.v) ; <$A>.append(*<L>)
    <$A>.append(Color[<C>]) ; <$A>.append(Level(<I>)) ; <$A>.append(<C>.index('1')) ; <$A>.append(bytes(<L>))
    <$A>.append(int(<C>, 16))
    <$A>.append(zip(<L>, <L>, strict=True).__next__()) ; <$A>.append([*zip(<L>, <G>, strict=True)])
    <$A>.append(collections.deque(<L>)[<I>])
    <$A>.append('%d %s' % <P>) ; <$A>.append('{0[0]}{1}'.format(<P>, <X>)) ; <$T>.resize_(1, 2)
    <$A>.append(<T>[<I>][<I>])
    <$A>.append(math.sqrt(<F>)) ; <$A>.append(<F> ** <I>) ; <$A>.append(round(<F> / <I>)) ; <$A>.append(<X> @ <X>)
    <$N>.gone
    <$T>.add_(<T>.sum(0)) ; <=T> = <T>.reshape(2, -1) ; <$A>.append(torch.tensor(<L>).sum()) ; <=T> = <T>[<L>]
    del <$N>.calls
    <$A>.append(functools.reduce(operator.add, <A>)) ; <$A>.append(sum(<P>)) ; del <$T>.tagged ; GM.other = <X>
    <$A>.append(GM.other)
    h0.__defaults__ = (<L>,) ; <$A>.append(h0(<T>, <I>)) ; setattr(h1, 'note', <X>) ; <$A>.append(h1.note)
    <$A>.append(<$O>.items.pop())
"""
BREAKING = """
    minicompile.graph_break() ; print(<I>, <C>, sep='-') ; <=I> = pause(<I>) ; <$A>.append(pause(<X>))
    print(<L>) ; <=T> = pause(<T>) ; swallow(<$L>) ; print('-', end='')
    <=I> = int(<T>.sum().clamp(-3, 3).nan_to_num().item()) ; <$A>.append(<T>.sum().item())
    <$A>.append(<T>.tolist()) ; pause(lambda: <$A>.append(<I>))() ; print(len(<$A>), <$A>[-1:] == [])
    <$A>.append(pause(<$O>).v) ; <=G> = pause(<G!>) ; <$A>.append([pause(i) for i in <L>])
    <$A>.append({pause(i): <I|i:I> for i in <L>}) ; <$A>.append(sum(pause(i) for i in <L>)) ; <=I> += pause(<I>)
    <$A>.append(f"{pause(<I.>)}") ; <$L>[pause(<I>)] += <I> ; <$A>.append(sorted(<L>, key=pause))
    <$A>.append((<I>, pause(<I>), <T>)) ; <$A>.append(max(<I>, pause(<I>))) ; <=FN> = pause(<FN>)
    <$A>.append(pause(<I>) < <I> < pause(<I>)) ; <$A>.append(list(map(pause, <L>)))
    <$A>.append(<B> and pause(<B>)) ; <$A>.append([i for i in <L> if pause(i) > 0]) ; print(f"{<C.>}", <T>.sum())
    torch.manual_seed(pause(1)) ; pause(<$O>).v = <I> ; <$D>[<C>] = pause(<I>) ; <=U> = pause(<U>) ; <=X> = pause(<X>)
    <$A>.append(pause(<U>) is None or <U> == <U>) ; <$A>.append([*pause(<L>), *<L>])
    <$A>.append(h1(*pause(<L>), pause(<I>)))
    <$A>.append(<T>[<T.> > <I>].sum()) ; <$A>.append(<T>.nonzero().shape) ; <$A>.append(<T>.unique())
    <$A>.append(float(<T>.max()))
    if <T>.sum() > <F>: <$A>.append(<I>) ; <$A>.append(1 if (<T> > <I>).any() else <X>)
    <$A>.append(<T>.sum() > 0 and <I>)
    <$A>.append([i for i in <L> if <T>.sum() > i]) ; warnings.warn(<C>) ; <=P> = pause(<P>) ; <=E> = pause(<E>)
    <=D> = pause(<D>)
    <$A>.append({**pause(<D>)}) ; <$A>.append((lambda p: pause(p) + <I>)(<I>)) ; <$A>.append(slice(pause(<I>), <I>))
    <$A>.append(f"{pause(<U.>)!s:.3}") ; <$A>.append(pause(<O>) + pause(<I>)) ; <=T> = pause(<$T>.add_(1))
    <$A>.append(pause(<$G>))
    <$A>.append([next(pause(<$G>), 0), <I>]) ; <=I>, <=L> = pause((<I>, <L>)) ; <$A>.append(any(pause(i) for i in <L>))
"""
RAISING = """
    raise ValueError(<C>) ; raise Failure(<I>, <X>) ; raise KeyError ; raise SubFailure
    raise RuntimeError(<I>) from Failure(<I>) ; raise TypeError(<C>) from None ; next(iter([])) ; [][<I>]
    {}[<C>] ; int('z') ; <T> + <C> ; assert not <L>, <C> ; <I> / 0 ; <$O>.missing ; raise StopIteration(<I>)
    <T>.missing ; raise <C> ; <T> @ torch.ones(7) ; <$L>.missing ; missing ; raise Failure ; <C> + <I> ; len(<I>)
    <I>() ; torch.ones(2)[9] ; raise Failure(<X>) from <$E>.get('cause') ; <U>.nothing
    raise ExceptionGroup('g', [Failure(<I>), KeyError()])
    raise type(<X>) ; pause(<I>).missing ; Place() ; Frozen(<I>).value = 2 ; h1() ; h0(<T>, by=2) ; int(<X>, <X>)
"""
