"""The expressions and simple statements of random programs: one row each, by kind of value.

A row is a template.  `<I>`: any expression of kind I.  `<I.>`: one without parts (a name or a constant).  `<$I>`: an
existing variable of the kind; `<=I>`: one that may be assigned to here.  `<I|i:I>`: an expression that may use the
name `i` of kind I.  The first rows of a kind are the simplest: failing programs shrink towards them.

Kinds: T tensor, I small int, F float, B bool, C text, L list of ints, A list of anything, D dict of text to ints, E
dict of anything, S set of ints, Q deque, P tuple, O object, FN function of an int, G iterable of ints, W parameter, X
anything.
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
        getattr(<T>, 'exp')() ; <T>.view(-1)[0] + <T>
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
        ([k for k, v in enumerate(<L>) if v > 1] or [5])[0]
    """,
    "I!": """
        <L>[<I>] ; <D>['k1'] ; <P>[0] ; <O>[-1] ; <L>.index(<I>) ; <A>.index(<X>) ; operator.itemgetter(0)(<L>)
        int(<C.> or 5) ; <E>['e']
    """,
    "F": """
        <$F> ; 0.5 ; float(<I>) ; <I> / 4 ; <F> - <F> ; round(<F>, 1) ; <F> * 0.5 ; <T>.sum().item() ; max(<F>, <I>)
        <F> % 3 ; math.sqrt(abs(<F>)) ; float('1.5') ; sum(<L>, 0.5)
    """,
    "B": """
        True ; <I> > <I> ; <I> in <L> ; not <B> ; <B> and <B> ; <B> or <B> ; <L> is <L> ; 0 < <I> <= 3 ; <C> in <D>
        <C> == <C> ; isinstance(<X>, int) ; <O> == <O> ; hasattr(<O>, 'extra') ; any(<B|i:I> for i in <L>)
        all(<B|i:I> for i in <L>) ; <L> == <L> ; bool(<T>.sum() > <I>) ; <X> is None ; <I> not in <S> ; <L> ; <D>
        <C> ; <I> ; <O> ; callable(<X>) ; <X> == <X> ; <O> < <O> ; <S> <= <S> ; <P> < (1, 2) ; type(<X>) is list
        <T>.is_contiguous() ; <T>.dtype == torch.float32 ; <I> in <O> ; <T> is <T> ; issubclass(type(<O>), Box)
        <X> != <X> ; <D>.keys() == <D>.keys() ; <C>.startswith('k') ; Color(1) is Color.RED
    """,
    "C": """
        <$C> ; 'k1' ; 'k2' ; str(<I>) ; <C>.upper() ; <C>[::-1] ; (<C> + <C>)[:5] ; ','.join(map(str, <L>))[:9]
        '%s=%d' % (<C>, <I>) ; f"{<I.>:03d}" ; f"{<L.>!r}|{<C.>:>4}" ; f"{<F.>:.2f}" ; '{}:{!r}'.format(<I>, <C>)
        repr(<P>)[:9] ; type(<X>).__name__ ; <C>.replace('k', <C.>)[:6] ; str(<L>)[:8] ; <C> * (<I> % 2)
        chr(97 + <I> % 5) ; <C>.split('k')[0] ; <C>.strip('k') ; 'abc'[<I> % 3] ; f"{<D.>}"[:9] ; f"{<O.>.v}{<I.>=}"
        Color.RED.name ; 'k%d' % (<I>,) ; ''.join(sorted(<C>)) ; ('a' if <B> else 'b')
        next((k for k in <D>), 'none') ; f"{<I.>:>{3}}" ; str(<A.>)[:3]
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
        [f() for f in [lambda: <I|i:I> for i in <L>]]
    """,
    "A": """
        <$A> ; [<X>] ; [<X>, <X>] ; list(<E>) ; [*<A>, <X>][-4:] ; list(zip(<L>, <A>)) ; [<X|i:I> for i in <L>]
        list(<D>.items()) ; [<L>] * 2
    """,
    "D": """
        <$D> ; {} ; {<C>: <I>} ; {**<D>, <C>: <I>} ; dict(<D>, k0=<I>) ; {str(i): <I|i:I> for i in <L>} ; <D> | <D>
        dict(zip('abc', <L>)) ; dict(<D>) ; collections.Counter('aab') ; dict.fromkeys('ab', <I>)
        {k: v for k, v in <D>.items() if v != <I>} ; collections.OrderedDict(<D>) ; collections.defaultdict(int, <D>)
        dict(sorted(<D>.items(), key=lambda pair: pair[1])) ; copy.copy(<D>)
    """,
    "E": """
        <$E> ; {<I>: <X>} ; {'u': <X>, 2: <X>} ; {**<E>} ; dict(<E>, z=<X>) ; {i: <X|i:I> for i in <L>} ; {<P>: <X>}
    """,
    "S": """
        <$S> ; set() ; {<I>, <I>} ; <S> | <S> ; <S> & <S> ; set(<L>) ; {i % 3 for i in <L>} ; <S> - <S> ; <S> ^ <S>
        frozenset(<L>) ; {<I|i:I> for i in <L>} ; <S>.union(<L>) ; <S>.copy()
    """,
    "Q": "<$Q> ; collections.deque(<L>, 4) ; <Q>.copy() ; collections.deque(<L>)",
    "P": """
        <$P> ; () ; (<I>, <I>) ; (*<L>, <I>) ; tuple(<L>) ; divmod(<I>, 3) ; (<I>,) + <P> ; Pair(<I>, <X>)
        tuple(<T>.shape) ; (<X>, <X>) ; <P>[::-1] ; tuple(i for i in <L>) ; <T>.shape
        Pair(<X>, <I>)._replace(left=<I>) ; tuple(map(<FN>, <L>)) ; <C>.partition('k')
    """,
    "O": """
        <$O> ; Box(<I>) ; <O> + <I> ; <I> + <O> ; <O> + <O> ; Box.make(<I>) ; Loud(<I>) ; -<O> ; (<O> or <O>)
        K0(<I>) ; copy.copy(<O>) ; (<O> if <B> else <O>) ; min([<O>, <O>]) ; sum([<O>, <O>], Box(1)) ; type(<O>)(<I>)
        copy.deepcopy(Box(<I>)) ; K0.make(<I>)
    """,
    "FN": """
        <$FN> ; (lambda p: <I|p:I>) ; h1 ; functools.partial(max, <I>) ; <O> ; abs ; operator.neg ; Box.clip
        <O>.clip ; (lambda p, by=<I>: (p + by) % 9) ; traced(lambda p: <I|p:I>) ; scaled(2, offset=<I>)(<FN>)
        functools.partial(h1, <I>) ; <D>.__len__ if False else int ; functools.lru_cache(abs)
    """,
    "G": """
        <L> ; range(<I> % 4) ; iter(<L>) ; (<I|i:I> for i in <L>) ; g0(<I>, <L>) ; map(<FN>, <L>) ; filter(None, <L>)
        reversed(<L>) ; <Q> ; <S> ; <$G> ; countdown(<I> % 4) ; itertools.accumulate(<L>)
        itertools.islice(itertools.count(<I>), 3) ; <O> ; <D>.values() ; itertools.chain(<L>, <L>)
        range(<I>, -2, -1) ; {*<L>} ; K0(<I>) ; itertools.takewhile(lambda i: <B|i:I>, <L>) ; itertools.repeat(<I>, 2)
        (v for row in [<L>, <L>] for v in row) ; map(max, <L>, <L>)
    """,
    "G!": """
        <$G> ; iter(<L>) ; (<I|i:I> for i in <L>) ; g0(<I>, <L>) ; map(<FN>, <L>) ; countdown(<I> % 4)
    """,
    "X": """
        <I> ; None ; <C> ; <L> ; <T> ; <D> ; <P> ; <A> ; <E> ; <F> ; <B> ; <O> ; <S> ; <Q> ; <FN> ; <G!>
        slice(<I>, <I>) ; <$X> ; Color.RED ; range(<I>) ; Record(<I>, <L>) ; enumerate(<L>) ; zip(<L>, <C>)
        (lambda: <X>) ; type(<X>) ; {<X.>: <X.>}.keys() ; Failure(<I>) ; functools.partial(<FN>, <I>) ; str.upper
        [<X>, <X>] ; <C>.encode() ; torch.float32 ; complex(<I>, 1) ; bytes([1, 2]) ; <P> + <P> ; <L>.pop ; 1 << 70
        ... ; NotImplemented
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
    <$N>.train(<B>) ; pass
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
    torch.manual_seed(pause(1)) ; pause(<$O>).v = <I> ; <$D>[<C>] = pause(<I>)
"""
RAISING = """
    raise ValueError(<C>) ; raise Failure(<I>, <X>) ; raise KeyError ; raise SubFailure
    raise RuntimeError(<I>) from Failure(<I>) ; raise TypeError(<C>) from None ; next(iter([])) ; [][<I>]
    {}[<C>] ; int('z') ; <T> + <C> ; assert not <L>, <C> ; <I> / 0 ; <$O>.missing ; raise StopIteration(<I>)
    <T>.missing ; raise <C> ; <T> @ torch.ones(7) ; <$L>.missing ; missing ; raise Failure ; <C> + <I> ; len(<I>)
    <I>() ; torch.ones(2)[9]
"""
