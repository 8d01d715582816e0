"""Where a value came from: enough to read it again at run time, to guard it, and to name it as the user does.

Goes in: the path that capture took to a value (a local, a global, an attribute of one of those, ...).
Comes out: `name` (what a report prints), `expression` (Python for the guard function) and `reconstruct` (bytecode that
loads it in the compiled frame).  Mirrors `torch/_dynamo/source.py`.  Taught in chapter 04.

Sources are frozen dataclasses: equal paths are equal, so guards and graph inputs are made once for each.
"""

import dataclasses
import re


class Source:
    """Base class.  `parent` is the source that this one is read from, or None for a root.

    `name`: the text that guards and reports print, such as `self.layers[0].weight`.
    """

    def item_name(self, key):
        """The text for `self[key]`."""
        return f"{self.name}[{key!r}]"

    def expression(self, parent):
        """Python that computes the value in the guard function, given the parent's expression."""
        raise NotImplementedError(type(self).__name__)

    def reconstruct(self, codegen):
        """Emit bytecode that pushes the value.  Runs before any side effect is replayed."""
        raise NotImplementedError(type(self).__name__)


class RootSource(Source):
    """A path starts here."""

    parent = None


@dataclasses.dataclass(frozen=True)
class LocalSource(RootSource):
    """An argument of the frame, read before the frame changes it."""

    name: str

    def expression(self, parent):
        return argument_name(self.name)

    def reconstruct(self, codegen):
        codegen.load_original_local(self.name)


@dataclasses.dataclass(frozen=True)
class CellSource(RootSource):
    """The contents of a closure cell of the frame's own function (`LOAD_DEREF name`)."""

    name: str

    def expression(self, parent):
        return f"__function.__closure__[__freevars.index({self.name!r})].cell_contents"

    def reconstruct(self, codegen):
        codegen.load_deref(self.name)


@dataclasses.dataclass(frozen=True)
class FunctionSource(RootSource):
    """The function object whose frame is compiled."""

    name = "<function>"

    def expression(self, parent):
        return "__function"

    def reconstruct(self, codegen):
        raise AssertionError("a frame cannot load its own function object")


@dataclasses.dataclass(frozen=True)
class GlobalSource(RootSource):
    """`name` in the globals of the compiled frame.  Globals of inlined functions: an ItemSource on their dict."""

    name: str

    def expression(self, parent):
        return f"__function.__globals__[{self.name!r}]"

    def reconstruct(self, codegen):
        codegen.load_global(self.name)


@dataclasses.dataclass(frozen=True, eq=False)
class ConstantSource(RootSource):
    """An object that needs no path: a module, a class, an imported function.  Held by the guard and by the code."""

    value: object
    name: str

    def __eq__(self, other):
        return type(other) is ConstantSource and other.value is self.value

    def __hash__(self):
        return hash((ConstantSource, id(self.value)))

    def expression(self, parent):
        return None  # the guard builder binds the object itself

    def reconstruct(self, codegen):
        codegen.load_const(self.value)


@dataclasses.dataclass(frozen=True)
class AttrSource(Source):
    """`parent.attribute`, a plain read (no property or `__getattr__` runs user code)."""

    parent: Source
    attribute: str

    @property
    def name(self):
        return f"{self.parent.name}.{self.attribute}"

    def expression(self, parent):
        return f"{parent}.{self.attribute}"

    def reconstruct(self, codegen):
        codegen.load_source(self.parent)
        codegen.load_attr(self.attribute)


@dataclasses.dataclass(frozen=True)
class ModuleAttrSource(AttrSource):
    """Of an nn.Module: a number there is its configuration, worth a graph of its own."""


@dataclasses.dataclass(frozen=True)
class ItemSource(Source):
    """`parent[key]` with a constant key, on a builtin container."""

    parent: Source
    key: object

    def __eq__(self, other):
        return type(other) is type(self) and (self.parent, type(self.key), self.key) == (
            other.parent,
            type(other.key),
            other.key,
        )

    def __hash__(self):
        return hash((ItemSource, self.parent, self.key))

    @property
    def name(self):
        return self.parent.item_name(self.key)

    def expression(self, parent):
        return f"{parent}[{self.key!r}]"

    def reconstruct(self, codegen):
        codegen.load_source(self.parent)
        codegen.load_const(self.key)
        codegen.binary_subscr()


class ModuleEntrySource(ItemSource):
    """`module.name` from a table of the module (`_modules`): only as long as its `__dict__` has no such name."""


@dataclasses.dataclass(frozen=True)
class SizeSource(Source):
    """`parent.shape[index]`, `parent.stride(index)` or `parent.storage_offset()` of a tensor; kind: the name of it."""

    parent: Source
    kind: str
    index: int | None = None

    @property
    def name(self):
        return self.expression(self.parent.name)

    def expression(self, parent):
        if self.kind == "shape":
            return f"{parent}.shape[{self.index}]"
        return f"{parent}.{self.kind}({'' if self.index is None else self.index})"

    def reconstruct(self, codegen):
        raise AssertionError("a size is rebuilt from the graph's output")


@dataclasses.dataclass(frozen=True)
class CallSource(Source):
    """`function(parent)` for a pure C function: `type(x)`, `list(x)`, `vars(x)`."""

    parent: Source
    function: object
    arguments: tuple = ()

    @property
    def name(self):
        rest = "".join(f", {a!r}" for a in self.arguments)
        return f"{self.function.__name__}({self.parent.name}{rest})"

    def expression(self, parent):
        return None  # the guard builder binds the function

    def reconstruct(self, codegen):
        codegen.call(self.function, self.parent, *self.arguments)


def argument_name(local):
    """The guard function's name for an argument of the frame (`.0` and pytest's `@py_assert1` are no identifiers)."""
    return "local_" + re.sub(r"\W", lambda match: f"_{ord(match.group())}_", local)


def root_of(source):
    """The first source of the path."""
    while source.parent is not None:
        source = source.parent
    return source


def path_of(source):
    """The source and all that it is read through."""
    while source is not None:
        yield source
        source = source.parent
