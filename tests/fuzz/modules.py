"""The whole module of a random program: a class, helpers, a generator, a context manager, and `fn` that uses them."""

import dataclasses
import textwrap

from hypothesis import strategies as st

from .observe import PARAMETERS, WORLDS
from .programs import Scope, Writer

KINDS_OF = {"T": "x y w", "I": "n m", "F": "r", "C": "c", "L": "a al", "A": "b", "D": "d", "E": "e", "S": "s", "Q": "q"}
KINDS_OF |= {"O": "o ob", "P": "p", "G": "it gi", "FN": "f", "X": "z v", "N": "net", "W": "w", "U": "u"}
KINDS_OF = {kind: tuple(names.split()) for kind, names in KINDS_OF.items()}
GLOBALS = {
    "I": ("G0", "G1", "GM.level"),
    "L": ("GL",),
    "A": ("GL",),
    "D": ("GD",),
    "E": ("GD",),
    "T": ("GT",),
    "N": ("NET",),
    "FN": ("abs", "GF"),
}
HEADER = """\
from fuzz.prelude import *

G0, GL, GD, GT, NET = 1, [1, 2], {"k1": 1}, torch.zeros(2, 2), Net()
CV = contextvars.ContextVar("CV", default=0)
G1, GF, GM = 1, abs, types.ModuleType("GM")  # another value before each call

"""
CLOSED = """\
def make(held=1, kept=()):
{text}
    def turn(value):
        nonlocal held
        held = value

    return fn, turn


fn, turn = make()
"""
CLASS_TEMPLATE = """\
class K0({base}):
    count, log = 0, []

    def __init__(self, v=1):
        super().__init__(v)
{init}

    def {method}(self, other=1):
{body}
        return {result}

"""


@dataclasses.dataclass(frozen=True)
class Program:
    text: str
    worlds: tuple  # of the calls, in turn

    def __str__(self):
        return f"# worlds of the calls: {self.worlds}\n{self.text}"


class ModuleWriter(Writer):
    """Adds the top level to the Writer of blocks."""

    def body(self, scope, at_most, indent="    "):
        self.scope, self.lines_left = scope, 2 * at_most
        return "\n".join(indent + line for line in self.block(1, at_most))

    def local(self, visible, assignable=None, **changes):
        visible = {kind: tuple(names.split()) for kind, names in visible.items()}
        assignable = visible if assignable is None else {k: tuple(v.split()) for k, v in assignable.items()}
        return Scope({**GLOBALS, **visible}, assignable, **changes)

    def helpers(self):
        """The class and the functions: mostly their simplest form, which is an empty body."""
        scope = self.local({"I": "v", "L": "self.items", "A": "GL", "O": "self"}, {"I": "v"}, in_function=False)
        init = self.body(scope, 2, " " * 8) if self.chance(3) else "        pass"
        method, result = self.pick(
            [("scale", "T"), ("__call__", "I"), ("__add__", "O"), ("clip", "I"), ("__len__", "I"), ("__iter__", "G!")]
        )
        scope = self.local(
            {"I": "other", "L": "self.items", "A": "GL", "T": "GT" if method != "scale" else "other", "O": "self"}, {}
        )
        if method in ("scale", "__add__", "__iter__"):
            scope.visible["I"] = ("self.v",)
        scope.result = result
        body = self.body(scope, 2, " " * 8) if self.chance(3) else "        pass"
        if method in ("__iter__", "__len__"):
            body = body.replace("self.items", "GL")
        self.scope = scope
        answer = {"T": "other", "I": "other % 5", "O": "K0(self.v)", "G!": "iter(self.items)"}[result]
        yield CLASS_TEMPLATE.format(
            base=self.pick(["Box", "Loud", "Box"]), init=init, method=method, body=body, result=answer
        )
        for head, visible, result, last in (
            ("h0(x, n, a)", {"T": "x", "I": "n", "L": "a", "A": "GL"}, "T", "return x + n"),
            ("h1(n, *others)", {"I": "n", "P": "others", "A": "GL", "L": "GL"}, "I", "return n % 6"),
        ):
            scope = self.local(visible, {k: v for k, v in visible.items() if k in "TI"}, result=result)
            lines = self.body(scope, 3) if self.chance(3) else "    pass"
            yield f"def {head}:\n{lines}\n    {last}\n\n"
        for decorator, head, last in (
            ("", "g0(n, a)", "yield n"),
            ("@contextlib.contextmanager\n", "c0(n)", "yield n"),
        ):
            scope = self.local(
                {"I": "n", "A": "GL", "L": "a" if "a" in head[3:] else "GL"},
                {"I": "n"},
                yields=head[0] == "g",
                result="I",
            )
            lines = self.body(scope, 2) if self.chance(3) else "    pass"
            yield f"{decorator}def {head}:\n{lines}\n    {last}\n{self.closing(head)}\n"

    def closing(self, head):
        return "    GL.append(n)\n" if head[0] == "c" and self.chance(2) else ""

    def main(self):
        closed = self.chance(4)
        visible = {**KINDS_OF, "I": (*KINDS_OF["I"], *["held"] * 3 * closed), "P": (*KINDS_OF["P"], *["kept"] * closed)}
        scope = Scope(visible, {**KINDS_OF, "A": ("b",), "I": (*KINDS_OF["I"], "G0")}, result="A")
        first = "    global G0\n    al, ob, f, z, gi = a, o, lambda p: p + n, None, iter([4, 5])\n    y = x + y\n"
        lines = self.body(scope, 7)
        names = PARAMETERS.split() + ["al", "ob", "f", "z", "gi"]
        text = f"def fn({', '.join(PARAMETERS.split())}):\n{first}{lines}\n    return {', '.join(names)}\n"
        return CLOSED.format(text=textwrap.indent(text, "    ")) if closed else text


def program(choices):
    writer = ModuleWriter(choices)
    worlds = (0, *(writer.below(WORLDS) for _ in range(3)))[: 2 + writer.below(3)]
    return Program(HEADER + "".join(writer.helpers()) + writer.main(), worlds)


programs = st.binary(min_size=300, max_size=700).map(program)
