"""More blocks: iterators, views and generators that live across other statements; state of tensors and of modules.

The blocks are like those of corner_rows.py, to which they are added.
"""

BLOCKS = r"""
def NAME(k8: int = <I>, k9=<X>, *, k7=<L>):
    return k8, k9, k7
NAME_named, NAME_it = NAME.__kwdefaults__, NAME.__defaults__
NAME_named['k7'] = <X>
BODY
try:
    setattr(NAME, ['__name__', '__doc__', '__kwdefaults__', '__annotations__'][<I> % 4], <X>)
except TypeError as NAME_error:
    <$A>.append(str(NAME_error))
NAME_named['k7'] = <X>
NAME.__defaults__ = <P>
<$A>.append((NAME(), NAME_named is NAME.__kwdefaults__, NAME_it is NAME.__defaults__))

NAME = {'a': <I>}
NAME_views = NAME.keys(), NAME.values(), NAME.items()
BODY
NAME[<C>] = <I>
<$A>.append(([list(k8) for k8 in NAME_views], NAME_views[0] & {'a'}, ('a', <I>) in NAME_views[2], NAME_views[0] | <S>))

NAME = iter(<$L>)
<$A>.append(next(NAME, 'none'))
BODY
<$A>.append((operator.length_hint(NAME), list(NAME), list(NAME)))

NAME = reversed(<$L>), enumerate(<$L>, <I>), zip(<$L>, itertools.count(<I>)), itertools.accumulate(<L>, initial=<I>)
<$A>.append([next(k8, 'none') for k8 in NAME])
BODY
<$A>.append([list(itertools.islice(k8, 5)) for k8 in NAME])

NAME = itertools.cycle(<L>), itertools.pairwise(<L>), itertools.islice(<G>, 1, None), itertools.count(<I>, 2)
<$A>.append([next(k8, 'none') for k8 in NAME])
BODY
<$A>.append([list(itertools.islice(k8, 4)) for k8 in NAME])

NAME = itertools.tee(iter(<$L>), 3)
<$A>.append(next(NAME[0], 'none'))
BODY
<$A>.append((list(NAME[1]), list(NAME[0]), next(NAME[2], 'none'), list(copy.copy(NAME[2]))))

NAME = itertools.groupby(<L>, key=lambda k8: k8 % 2)
NAME_key, NAME_group = next(NAME, (None, []))
BODY
<$A>.append((NAME_key, list(NAME_group), [(k8, list(k9)) for k8, k9 in NAME]))

def NAME(k8):
    BODY
    if k8 > <I>:
        raise Failure(k8)
    return k8
NAME_map = map(NAME, [0, 9, <I>])
for k8 in range(3):
    try:
        <$A>.append(next(NAME_map, 'none'))
    except Failure as NAME_error:
        <$A>.append(repr(NAME_error))

class NAME:
    def __init__(self, k8):
        self.k8 = k8
    def __iter__(self):
        return self
    def __next__(self):
        self.k8 -= 1
        if self.k8 < 0:
            raise StopIteration(self.k8)
        BODY
        return self.k8
<$A>.append(([*NAME(2)], max(NAME(3)), 2 in NAME(3), sum(NAME(3)), dict(zip(NAME(2), NAME(3))), sorted(NAME(3))))
NAME_first, *NAME_rest = NAME(3)
<$A>.append(NAME_rest)

def NAME(k8):
    try:
        for k9 in range(k8):
            BODY
            yield k9
    finally:
        <$A>.append('done')
for k8 in NAME(3):
    if k8 == <I>:
        break
<$A>.append(([*NAME(2)], dict.fromkeys(NAME(2)), any(NAME(3)), next(NAME(1)), *NAME(1)))

def NAME():
    k8 = yield
    while True:
        try:
            k8 = yield k8
            BODY
        except LookupError as k9:
            k8 = repr(k9)
NAME_it = NAME()
<$A>.append((next(NAME_it), NAME_it.send(<X>)))
BODY
<$A>.append((NAME_it.send(<I>), NAME_it.throw(KeyError(<I>)), inspect.getgeneratorstate(NAME_it), NAME_it.close()))

class NAME:
    @property
    def part(self):
        BODY
        return self.__dict__.get('kept', <I>)
    @part.setter
    def part(self, value):
        BODY
        self.kept = value
    @part.deleter
    def part(self):
        del self.kept
NAME_it = NAME()
NAME_it.part = <X>
<$A>.append((NAME_it.part, dict(vars(NAME_it))))
del NAME_it.part
<$A>.append((NAME_it.part, hasattr(NAME_it, 'kept')))

class NAME:
    def __getitem__(self, key):
        BODY
        return key
    def __setitem__(self, key, value):
        <$A>.append((key, value))
    def __delitem__(self, key):
        BODY
    def __iadd__(self, other):
        <$A>.append(other)
        return self
NAME_it = [NAME()]
NAME_it[0][<I>:] = <X>
NAME_it[0][<I>, ...] += 1
NAME_it[0] += <X>
del NAME_it[0][<X>]

class NAME:
    def __init__(self):
        self.__own = <I>
    def all_of(self):
        BODY
        return [self.__own for _ in range(2)], (lambda: self.__own)(), __class__.__name__
class NAME_b(NAME):
    def all_of(self):
        return [super(NAME_b, self).all_of() for _ in range(2)], (lambda: super(__class__, self).all_of())()
<$A>.append((NAME_b().all_of(), vars(NAME_b())))

class NAME:
    def __enter__(self):
        BODY
        return self
    def __exit__(self, *error):
        <$A>.append((error[0], str(error[1]), error[2] is None))
        BODY
        return <B>
with NAME(), NAME():
    raise Failure(<I>) from KeyError(<C>)
for k8 in range(3):
    with NAME():
        if k8 == <I>:
            break
        continue

@contextlib.contextmanager
def NAME(k8):
    <$A>.append('in')
    try:
        yield k8
    except ValueError as k9:
        BODY
    finally:
        <$A>.append('out')
@NAME(2)
def NAME_f(k8=<I>):
    BODY
    raise ValueError(k8)
<$A>.append((NAME_f(), NAME_f()))

with contextlib.ExitStack() as NAME:
    NAME.callback(<$A>.append, <X>)
    NAME.enter_context(Manager(<$A>, (LookupError,)))
    NAME.push(lambda *error: <$A>.append(error[0]))
    BODY
    raise KeyError(<I>)
<$A>.append('behind')

try:
    raise KeyError(<I>)
except KeyError as NAME:
    NAME.extra = <X>
    NAME.add_note(<C>)
    BODY
    try:
        raise ValueError from NAME
    except ValueError as NAME_2:
        <$A>.append((NAME_2.__cause__.__notes__, NAME_2.__context__ is NAME_2.__cause__, vars(NAME_2.__cause__)))
    <$A>.append(repr(sys.exc_info()[1]))

def NAME():
    try:
        BODY
        return <T>.sum()
    finally:
        BODY
        <$A>.append('finally')
<$A>.append(NAME())

NAME = torch.nn.BatchNorm1d(2)
<$A>.append(NAME(torch.arange(6.0).view(3, 2) * <F>).detach())
BODY
NAME.train(<B>)
<$A>.append((NAME(torch.ones(3, 2)).detach(), NAME.running_mean, NAME.num_batches_tracked))

NAME = torch.zeros(4)
NAME_a, NAME_b = NAME.split([1, 3])
BODY
NAME_a.add_(<I>)
NAME_b[1:].mul_(2).add_(NAME_a)
NAME.index_put_((torch.tensor([3]),), torch.tensor([<F>]))
<$A>.append((NAME, NAME_b, NAME._version))

NAME = torch.ones(2, requires_grad=True)
NAME_double = NAME * 2
NAME_double.register_hook(lambda grad: grad * <I>)
BODY
NAME_double.sum().backward()
BODY
<$A>.append(NAME.grad)
NAME.grad.zero_()
NAME_grad = torch.autograd.grad((NAME**3).sum(), NAME, create_graph=True)[0]
<$A>.append((NAME.grad, torch.autograd.grad(NAME_grad.sum(), NAME)))

NAME = torch.ones(2, requires_grad=True)
try:
    BODY
    NAME.add_(1)
except RuntimeError as NAME_error:
    <$A>.append(str(NAME_error)[:30])
with torch.no_grad():
    NAME.add_(<I>)
    BODY
<$A>.append((NAME, NAME._version))

NAME = <T>.clone()
NAME.kept = [<X>]
BODY
NAME.kept.append(NAME.sum())
<$A>.append((NAME.kept, hasattr(NAME.clone(), 'kept'), vars(NAME).keys() if <B> else 0))
del NAME.kept

NAME = torch.Generator().manual_seed(3)
NAME_state = NAME.get_state()
BODY
<$A>.append((torch.rand(2, generator=NAME), torch.randperm(3, generator=NAME)))
BODY
NAME.set_state(NAME_state)
<$A>.append(torch.rand(2, generator=NAME))

NAME = torch.get_rng_state()
<$A>.append(torch.rand(2))
BODY
torch.set_rng_state(NAME)
with torch.random.fork_rng():
    torch.manual_seed(<I>)
    BODY
    <$A>.append(torch.rand(1))
<$A>.append(torch.randn(1))

with torch.autocast('cpu', dtype=torch.bfloat16, enabled=<B>):
    NAME = <T>.float() @ torch.ones(len(<T.>), 2)
    BODY
    <$A>.append((NAME.dtype, torch.is_autocast_enabled('cpu')))

with torch.inference_mode(<B>):
    NAME = <T> + 1
    BODY
    NAME_2 = NAME * 2
<$A>.append((NAME.is_inference(), NAME_2.is_inference(), torch.is_inference_mode_enabled()))

NAME = torch.nn.Module()
NAME.kids = torch.nn.ModuleList([torch.nn.Identity(), torch.nn.Tanh()])
NAME.held = torch.nn.ParameterDict({'a': torch.nn.Parameter(torch.ones(2))})
BODY
NAME.kids[0] = torch.nn.ReLU()
NAME.kids.insert(<I>, torch.nn.ELU())
NAME.held['b'] = torch.nn.Parameter(torch.zeros(1))
<$A>.append((list(NAME.state_dict()), [type(k8).__name__ for k8 in NAME.modules()], len(NAME.kids)))
del NAME.held
<$A>.append(hasattr(NAME, 'held'))

NAME = copy.deepcopy(<$N>)
NAME.calls += 5
BODY
<$A>.append((NAME.calls, <$N>.calls, NAME.weight is <$N>.weight, NAME(<T>)))

class NAME(torch.Tensor):
    pass
NAME_it = torch.ones(2).as_subclass(NAME)
BODY
<$A>.append((type(NAME_it + 1).__name__, isinstance(NAME_it, NAME), (NAME_it * <I>).sum().item()))

NAME = collections.deque([1, 2, <I>], maxlen=3)
NAME_it = iter(NAME)
<$A>.append(next(NAME_it))
BODY
NAME.append(<I>)
try:
    <$A>.append(next(NAME_it))
except RuntimeError as NAME_error:
    <$A>.append(str(NAME_error))
NAME.extendleft(<L>)
<$A>.append((NAME, NAME.count(<I>), list(reversed(NAME)), NAME == collections.deque(<L>)))

NAME = collections.OrderedDict(a=<I>, b=<X>)
NAME.move_to_end('a')
BODY
NAME[<C>] = 1
NAME.move_to_end(<C>, last=False) if <C> in NAME else None
<$A>.append((list(NAME.items()), NAME.popitem(last=<B>), list(reversed(NAME)), NAME == {'b': 1}))

NAME = collections.Counter(<C>)
NAME.update({'a': <I>})
NAME.subtract(<C>)
BODY
<$A>.append((NAME, NAME + collections.Counter('z'), -NAME, NAME['none'], NAME.total(), list(NAME.elements())))

NAME = weakref.WeakKeyDictionary(), weakref.WeakValueDictionary(), weakref.WeakSet()
NAME_it = Alike(<I>)
NAME[0][NAME_it], NAME[1]['a'] = <X>, NAME_it
NAME[2].add(NAME_it)
BODY
<$A>.append([len(k8) for k8 in NAME])
del NAME_it
<$A>.append([len(k8) for k8 in NAME])
"""
