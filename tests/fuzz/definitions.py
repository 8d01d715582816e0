"""The generator's blocks that name things: with, match, nested functions and classes.

Goes in: the choices of a Writer (programs.py), whose mixin this is.  Comes out: lines.
"""

MANAGERS = """
Manager(<$A>, Failure) ; Manager(<$A>) as cm ; contextlib.suppress(LookupError, ValueError) ; torch.no_grad()
given(<$A>, <I>) as i ; contextlib.nullcontext(<X>) ; torch.enable_grad(), Manager(<$A>, (TypeError, KeyError))
c0(<I>) ; torch.set_grad_enabled(<B>) ; contextlib.ExitStack() as stack ; torch.inference_mode(False)
Quiet(<I>) as cm, Manager(<$A>) ; contextlib.closing(<G!>) as cm ; Quiet()
(Manager(<$A>), given(<$A>, <I>) as i) ; contextlib.ExitStack() as stack, Manager(<$A>, Failure) ; <U> as cm
torch.autocast('cpu', enabled=<B>) ; torch.autograd.set_grad_enabled(not <B>)
"""
ON_STACK = """
stack.callback(<$A>.append, <X>) ; <=I> = stack.enter_context(given(<$A>, <I>)) ; stack.push(Manager(<$A>, Failure))
stack.enter_context(Manager(<$A>, (ValueError, Failure))) ; stack.pop_all().close() ; stack.close()
stack.push(lambda *exc: <$A>.append(exc[0])) ; stack.enter_context(torch.no_grad()) ; stack.enter_context(c0(<I>))
"""
SUBJECTS = """
<X> ; <P> ; <L> ; <D> ; <O> ; Record(<I>, <L>) ; Pair(<I>, <X>) ; <I> ; <U> ; (<X>, <P>) ; {'k1': <X>, **<D>} ; <C>
"""
PATTERNS = """
0 | 1 ; int() ; [i8] ; [i8, *rest8] ; {'k1': i8} ; {'k1': i8, **rest8} ; Box(v=i8) ; Pair(i8, j8) ; str() as c8
Record(i8, [*rest8]) ; None | True ; (i8, j8) if i8 ; Color.RED ; [int(), str() as c8] ; [_, ([i8, *_] | i8)]
{'k1': [i8, *_] | (int() as i8)} ; Place(i8) | Frozen(i8) ; object(value=int(i8)) ; [*_, i8] ; 'k1' | 'k2' ; -1 | 2.5
list([i8, j8]) ; (Box() | Row()) as j8 ; {} if not i8 ; [] ; [Couple(), *rest8]
"""
SIGNATURES = (
    ("p", "(<I>)"),
    ("p, by=<I>", "(by=<I>, p=<I>)"),
    ("p, *others, k=<I>, **named", "(<I>, *<L>, k=<I>, z=1)"),
    ("p, /", "(<I>)"),
    ("p=<I>, /, *, by=<I>", "(by=<I>)"),
    ("p, *others, **named", "(*[<I>, *<L>], **{'k1': <I>, **<D>})"),
)
DECORATORS = """
@traced ; @scaled(2) ; @functools.lru_cache ; @functools.wraps(abs) ; @torch.no_grad() ; @Quiet(<I>) ; @functools.cache
@(lambda f: functools.partial(f)) ; @minicompile.disable ; @traced@scaled() ; @functools.singledispatch ; @staticmethod
"""
GENERATOR_USES = """
<$A>.append(list({})[:5]) ; <=G> = {} ; <$A>.append(next({}, 'none')) ; <$A>.append(drive({}, [None, <I>, Failure, 1]))
<=L> = [*{}][:4] ; <$A>.append([i for i, _ in zip({}, range(2))])
<$A>.append(drive({}, [None, ValueError, 'close', 1]))
<$A>.append(list(relay({}))[:5]) ; <$A>.append(sum(i for i in {} if isinstance(i, int))) ; <$A>.append(3 in {})
"""
FUNCTION_USES = "<$A>.append({}) ; <=I> = {} % 9 ; <=FN> = NAME ; <$A>.append([{} for _ in <L>]) ; <$A>.append(NAME)"
CLASSES = """
class NAME(BASE): ; class NAME(BASE, Top): ; class NAME(metaclass=Meta): ; @dataclasses.dataclass^class NAME:
class NAME(Shape, sides=<I>): ; class NAME(enum.Enum): ; @functools.total_ordering^class NAME(Box):
"""
MEMBERS = """
field = <I> ; __slots__ = ('only',) ; "doc" ; field: int = <I> ; made = [<I|i:I> for i in range(2)]
field, other = <I>, <X>
"""
METHODS = """
def act(self, p=1):^    return <I|p:I>
@property^def act(self):^    return lambda p=1: p + <I>
@classmethod^def act(cls, p=1):^    return len(cls.__name__) + p
@staticmethod^def act(p=1):^    return <I|p:I>
def act(self, p=1):^    self.kept = <X>^    return self.kept
def act(self, p=1):^    self.__hidden = p^    return sorted(vars(self))
def __getattr__(self, name):^    return lambda *args: (name, len(args))
def __call__(self, p=1):^    return <I|p:I>^act = __call__
def act(self, p=1):^    return [__class__.__name__, p, <X>]
def __new__(cls, *args):^    made = super().__new__(cls)^    made.act = lambda p=1: p + <I>^    return made
"""


def rows(text):
    return tuple(row.strip() for line in text.strip().splitlines() for row in line.split(" ; "))


class Definitions:
    """Mixin of the Writer."""

    def with_(self, depth):
        head = self.fill(self.pick(rows(MANAGERS)))
        body = self.indented(depth)
        if " as stack" in head:
            body = ["    " + self.statement_row(rows(ON_STACK)), *body, "    " + self.statement_row(rows(ON_STACK))]
        return [f"with {head}:", *body]

    def match_(self, depth):
        lines = [f"match {self.fill(self.pick(rows(SUBJECTS)))}:"]
        for _ in range(2):
            pattern = self.pick(rows(PATTERNS))
            lines += [f"    case {pattern}:", *("    " + line for line in self.indented(depth, 1))]
        return [*lines, "    case other8:", self.fill("        <$A>.append(other8)")]

    def def_(self, depth):
        """A nested function, and a use of it."""
        if self.scope.nested > 1:
            return [self.statement_row(self.simple_rows)]
        generator, name = self.chance(4), self.new_name("f")
        signature, call = self.pick(SIGNATURES)
        head = [f"def {name}({self.fill(signature)}):"]
        if self.chance(4):
            decorators = ["@(lambda f: f)", "@Quiet()"] if generator else rows(DECORATORS)
            head = [*("@" + each for each in self.fill(self.pick(decorators)).split("@")[1:]), *head]
        shared = self.shared_names()
        assignable = {"I": ("p",), **{kind: () for kind in "TLC"}}
        for kind, each in shared:
            assignable[kind] = (*assignable[kind], each)
        of_module = self.chance(6)
        if of_module:
            assignable["I"] = (*assignable["I"], "G0", "G0")
        visible = {**self.scope.visible, "I": (*self.scope.visible.get("I", ()), "p")}
        changes = dict(visible=visible, assignable=assignable, nested=self.scope.nested + 1)
        body = self.indented(depth, yields=generator, result="I", in_loop=False, in_function=True, **changes)
        last = ["    return p"]
        if generator:
            last = self.pick([["    yield p"], ["    yield p", "    return p"], ["    return (yield p)"]])
            if self.chance(3):
                body = [
                    "    try:",
                    *("    " + line for line in body),
                    "    finally:",
                    self.fill("        <$A>.append(7)"),
                ]
        if shared:
            body = ["    nonlocal " + ", ".join(each for _, each in shared), *body]
        if of_module:
            body = ["    global G0", *body]
        use = self.pick(rows(GENERATOR_USES if generator else FUNCTION_USES))
        use = self.statement_row([use.replace("{}", name + call).replace("NAME", name)])
        return [*head, *body, *last, use]

    def shared_names(self):
        """(kind, name) of variables of the functions around that the new function assigns to."""
        if not self.chance(2) or (self.scope.nested and not self.scope.assignable):
            return []
        kinds = {"n": "I", "m": "I", "x": "T", "a": "L", "c": "C"}
        outer = {each for kind in "ITLC" for each in self.scope.assignable.get(kind, ())}
        return [(kinds[each], each) for each in sorted(outer & set(kinds)) if self.chance(2)]

    def class_(self, depth):
        if self.scope.nested:
            return [self.statement_row(self.simple_rows)]
        name = self.new_name("Local")
        base = self.pick(["Box", "Loud", "object", "list", "Failure", "Heat", "dict", "Bag", "int", "Options"])
        head = self.pick(rows(CLASSES)).replace("NAME", name).replace("BASE", base)
        parts = [
            self.pick(rows(MEMBERS)),
            *(self.pick(METHODS.strip().splitlines()) for _ in range(1 + self.chance(3))),
        ]
        lines = [self.fill(line) for line in head.split("^")]
        for part in parts:
            lines += ["    " + self.fill(line) for line in part.split("^")]
        if "Enum" in head:
            lines = [lines[0], "    ONE, TWO = 1, 2", *lines[2:]]
        arguments = "1" if "Enum" in head else self.fill(self.pick(["<I>", "<I>", "", "*<L>"]))
        use = self.pick(
            ["<$A>.append({}.act(<I>))", "<=U> = {}", "<$A>.append({})", "<$A>.append(isinstance({}, Box))"]
        )
        use = self.statement_row([use.replace("{}", f"{name}({arguments})")])
        return [*lines, "try:", f"    {use}", *self.handler(depth, simple=True)]
