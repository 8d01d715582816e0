"""The generator's statements and blocks: a Writer turns choices into lines.

Goes in: bytes, drawn by Hypothesis: each choice takes one or two of them, and behind their end every choice is the
first one, the simplest.  (One draw a program: a draw a choice took as long as compiling the program.)  Comes out:
lines.  Variables have a kind for life (grammar.py), so that most programs run to their end; a method for each block.
"""

import contextlib
import dataclasses
import re

from . import corner_rows, grammar, library_rows
from .corner_rows import Corners
from .definitions import Definitions


def rows(text):
    return tuple(row.strip() for line in text.strip().splitlines() for row in line.split(" ; ") if row.strip())


PLACEHOLDER = re.compile(r"<([$=]?)([A-Z]+!?)(\.?)(?:\|(\w+):(\w))?>")
ALONE_BEFORE, ALONE_BEHIND = re.compile(r"([(\[{,]|[^<>=!]=) *$|^$"), re.compile(r" *([)\]},]|$)")


def bracketed(text, alone):
    """The text of an expression, in parentheses unless it stands alone or needs none."""
    return text if alone or (" " not in text and text[0] not in "-~0123456789") else f"({text})"


def table(name):
    """The rows of a table in all files that have it."""
    return sum((rows(getattr(module, name)) for module in MODULES if hasattr(module, name)), ())


MODULES = (grammar, corner_rows, library_rows)
ROWS = {k: sum((rows(module.EXPRESSIONS.get(k, "")) for module in MODULES), ()) for k in grammar.EXPRESSIONS}
LEAVES = {kind: tuple(row for row in all_ if "<" not in row or row == f"<${kind}>") for kind, all_ in ROWS.items()}
LEAVES |= {
    "T": ("<$T>",),
    "O": ("Box(1)", "<$O>"),
    "FN": ("h1", "abs", "<$FN>"),
    "Q": ("<$Q>",),
    "P": ("(1, 2)", "<$P>"),
}
LEAVES |= {
    "G!": ("iter([1, 2])", "<$G>"),
    "G": ("range(2)", "<$L>"),
    "E": ("{}", "<$E>"),
    "X": ("7", "None", "<$I>", "<$A>", "<$L>"),
}
LEAVES |= {"W": ("torch.ones(2, 2, requires_grad=True)",), "A": ("[]", "<$A>"), "B": ("True", "<$I>", "<$L>")}
SIMPLE_ROWS, RISKY_ROWS, RAISING_ROWS, BREAKING_ROWS = map(table, ("SIMPLE", "RISKY", "RAISING", "BREAKING"))
ERRORS = "ValueError,LookupError,(TypeError, ValueError),Exception,Failure,KeyError,ArithmeticError,AttributeError"
ERRORS = (*re.findall(r"\([^)]*\)|\w+", ERRORS), "(Failure, AssertionError)", "RuntimeError")
MAX_DEPTH, MAX_LINES = 3, 26


@dataclasses.dataclass
class Scope:
    """The names that a place in the program can see, and may assign to, by kind."""

    visible: dict
    assignable: dict
    in_loop: bool = False
    in_function: bool = True
    yields: bool = False  # whether this is a generator's body
    result: str = "I"  # the kind that `return` gives
    nested: int = 0  # functions around this one

    def names(self, mode, kind):
        return (self.assignable if mode == "=" else self.visible).get(kind.rstrip("!"), ())


class Writer(Corners, Definitions):
    """Draws choices and writes lines; `self.scope` changes while it is inside functions and loops."""

    simple_rows = SIMPLE_ROWS

    def __init__(self, choices):
        self.choices, self.position = choices, 0
        self.count, self.scope, self.lines_left = 0, None, MAX_LINES

    # --- choices ------------------------------------------------------------------------------------
    def below(self, count):
        """A number from 0 to count - 1."""
        size = 1 if count < 32 else 2
        chosen = self.choices[self.position : self.position + size]
        self.position += size
        return int.from_bytes(chosen, "little") % count

    def pick(self, options):
        return options[self.below(len(options))]

    def chance(self, one_in):
        """True once in `one_in` times; failing programs shrink towards False."""
        return self.below(one_in) == one_in - 1

    def new_name(self, prefix):
        self.count += 1
        return f"{prefix}{self.count}"

    # --- expressions --------------------------------------------------------------------------------
    def expression(self, kind, depth=0):
        """A random expression of the kind; the deeper, the more often a name or a constant."""
        if depth >= 2 or not self.chance(2):
            names = self.scope.names("$", kind)
            if names and (kind in "TLAEDQSG!" or not self.chance(3)):
                return self.pick(names)
            row = self.pick(LEAVES.get(kind) or ROWS[kind])
        else:
            row = self.pick(ROWS[kind])
        return self.fill(row, depth + 1)

    def fill(self, template, depth=0):
        """Random choices in the place of the placeholders; None where a name is wanted and there is none."""
        parts, end = [], 0
        for found in PLACEHOLDER.finditer(template):
            parts.append(template[end : found.start()])
            end = found.end()
            mode, kind, leaf, bound, bound_kind = found.groups()
            alone = ALONE_BEFORE.search(template[: found.start()]) and ALONE_BEHIND.match(template, end)
            if mode:
                names = self.scope.names(mode, kind)
                if not names:
                    names = [row for row in LEAVES[kind] if "<" not in row] or ["None"]
                parts.append(self.pick(names))
            elif bound:
                with self.bound(bound_kind, bound):
                    parts.append(bracketed(self.expression(kind, depth), alone))
            else:
                parts.append(bracketed(self.expression(kind, 9 if leaf else depth), alone))
        return "".join(parts) + template[end:]

    @contextlib.contextmanager
    def bound(self, kind, name):
        before = self.scope
        visible = {**before.visible, kind: (*before.visible.get(kind, ()), name, name)}
        self.scope = dataclasses.replace(before, visible=visible)
        try:
            yield
        finally:
            self.scope = before

    def statement_row(self, table):
        row = self.pick(table)
        missing = [kind for mode, kind, *_ in PLACEHOLDER.findall(row) if mode and not self.scope.names(mode, kind)]
        return "pass" if missing else self.fill(row)

    # --- blocks -------------------------------------------------------------------------------------
    def block(self, depth, at_most=3):
        """Lines of one to `at_most` statements."""
        lines = self.statement(depth)
        for _ in range(at_most - 1):
            if not self.below(4) or self.lines_left < 0:
                break
            lines += self.statement(depth)
        self.lines_left -= 1
        return lines

    def statement(self, depth):
        self.lines_left -= 1
        what = self.below(20)
        if what < 8 or (what >= 13 and (depth >= MAX_DEPTH or self.lines_left < 0)):
            return [self.statement_row(SIMPLE_ROWS)]
        if what < 10:
            return [self.statement_row(BREAKING_ROWS)]
        if what == 10:
            return self.leave()
        if what < 13:
            row = self.statement_row(self.pick([RISKY_ROWS, RISKY_ROWS, RAISING_ROWS]))
            if self.chance(12):
                return [row]
            return ["try:", f"    {row}", *self.handler(depth, simple=True)]
        return getattr(self, self.pick(COMPOUND))(depth)

    def leave(self):
        """return, break, continue, yield or raise, mostly under a condition."""
        options = ["pass", "raise"]
        if self.scope.in_function:
            options.append("return")
        if self.scope.in_loop:
            options += ["break", "continue", "break", "continue"]
        if self.scope.yields:
            options += ["yield"] * 4
        what = self.pick(options)
        line = what
        if what == "raise":
            line = self.statement_row(RAISING_ROWS)
        elif what == "return":
            line = f"return {self.expression(self.scope.result)}"
        elif what == "yield":
            return [self.yielding()]
        return [f"if {self.expression('B')}:", f"    {line}"]

    def yielding(self):
        return self.statement_row(["yield <I>", "<=I> = yield <I>", "yield from <L>", "<$A>.append((yield <I>))"])

    def indented(self, depth, at_most=3, **changes):
        before = self.scope
        self.scope = dataclasses.replace(before, **changes)
        try:
            return ["    " + line for line in self.block(depth + 1, at_most)]
        finally:
            self.scope = before

    def if_(self, depth):
        test = self.pick(
            ["<B>", "<B>", "<T>.sum() > <I>", "<I> > <I>", "(k8 := <I>) > 1", "pause(<B>)", "(<T.> > 0).all()"]
        )
        lines = [f"if {self.fill(test)}:", *self.indented(depth)]
        if self.chance(3):
            lines += [f"elif {self.fill(test)}:", *self.indented(depth, 2)]
        if self.chance(2):
            lines += ["else:", *self.indented(depth, 2)]
        return lines

    def for_(self, depth):
        heads = [
            "for i in <L>:",
            "for i in range(<I> % 4):",
            "for i in <G>:",
            "for i, j in enumerate(<L>):",
            "for i in <S>:",
        ]
        heads += [
            "for i, j in zip(<L>, <L>):",
            "for k, i in <D>.items():",
            "for i in <$G>:",
            "for i, *rest in [<P>, (1, 2)]:",
        ]
        head, name = self.fill(self.pick(heads)), self.new_name("i")
        head = re.sub(r"^for i\b|^for k, i\b", lambda m: m[0][:-1] + name, head)
        with self.bound("I", name):
            body = self.indented(depth, in_loop=True)
        lines = [head, f"    if {self.sizes()} > 24: break", *body]
        return lines + (["else:", *self.indented(depth, 1)] if self.chance(3) else [])

    def sizes(self):
        """What grows while a loop runs over it."""
        names = {*self.scope.visible.get("L", ()), *self.scope.visible.get("A", ())}
        return " + ".join(f"len({name})" for name in sorted(names))

    def while_(self, depth):
        counter = self.new_name("t")
        test = self.pick([f"{counter} > 0", f"{counter} > 0 and <B>", f"({counter} := {counter} - 1) > 0"])
        body = self.indented(depth, in_loop=True)
        lines = [f"{counter} = 3", f"while {self.fill(test)}:", f"    {counter} -= 1", *body]
        return lines + (["else:", *self.indented(depth, 1)] if self.chance(3) else [])

    def handler(self, depth, simple=False):
        name = self.new_name("err")
        kind = "Exception" if simple else self.pick(ERRORS)
        body = [
            self.fill(
                self.pick([f"<$A>.append({name})", f"<$A>.append((type({name}).__name__, str({name})[:60]))", "pass"])
            )
        ]
        if not simple:
            body += self.block(depth + 1, 2)
            if self.chance(6):
                body.append(
                    self.fill(self.pick(["raise", f"raise Failure(<I>) from {name}", f"raise Failure({name})"]))
                )
        return [f"except {kind} as {name}:", *("    " + line for line in body)]

    def try_(self, depth):
        form = self.below(6)
        lines = ["try:", *self.indented(depth)]
        if self.chance(2):
            lines.append(f"    {self.statement_row(RAISING_ROWS)}")
        if form == 5:
            kind = self.pick(ERRORS[:2])
            return [
                *lines,
                f"except* {kind} as group:",
                self.fill("    <$A>.append(len(group.exceptions))"),
                "except* Exception:",
                "    pass",
            ]
        if form != 4:
            for _ in range(1 + self.chance(3)):
                lines += self.handler(depth)
            if form != 3:
                lines += ["except Exception as other:", self.fill("    <$A>.append(repr(type(other)))")]
        if form in (2, 3) and self.chance(2):
            lines += ["else:", *self.indented(depth, 1)]
        if form >= 2:
            lines += ["finally:", *self.indented(depth, 2, yields=False)]
        return lines


COMPOUND = "if_ for_ try_ with_ def_ while_ match_ for_ try_ if_ class_ corner_ corner_ corner_".split()
