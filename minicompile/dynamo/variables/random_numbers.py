"""Python's random numbers: those of a generator that the program makes are known, those of an existing one are drawn.

Goes in: `random.Random(seed)` made by the program; `random.random()`, `random.randint(1, 6)`, ... of an existing one.
Comes out: constants; or numbers that are another at each call.  The new bytecode draws these in front of the graph, in
the program's order, and gives them to it; who needs to know one breaks the graph.
Mirrors RandomVariable in `torch/_dynamo/variables/user_defined.py`.  Taught in chapter 06.
"""

import _random
import dataclasses
import random

from ..builder import wraps
from ..source import RootSource
from .base import unsupported
from .descriptors import guard_attribute
from .functions import BuiltinMethodVariable, UserFunctionVariable
from .objects import UserDefinedObjectVariable, wrapped_as

DRAWS = {"random", "getrandbits", "randrange", "randint", "_randbelow"}
MADE_OF_DRAWS = ("uniform", "gauss", "normalvariate", "expovariate", "gammavariate", "betavariate")
KNOWN = {"random", "getrandbits", "seed", "getstate", "setstate"}  # written in C
ORIGINAL = {name: getattr(random.Random, name) for name in DRAWS}


@dataclasses.dataclass(frozen=True)
class DrawSource(RootSource):
    """The number of a draw, in a local of the new bytecode.  It cannot be guarded."""

    index: int

    @property
    def name(self):
        return f"random_number_{self.index}"

    @property
    def local(self):
        return f"__draw_{self.index}"

    def reconstruct(self, codegen):
        codegen.load_fast(self.local)


class ExistingRandomVariable(UserDefinedObjectVariable):
    """A generator of which nobody knows where it stands.  ahead: a copy that runs ahead of it, for examples."""

    def __init__(self, cls, value, source):
        super().__init__(cls, value, source)
        self.ahead = random.Random()
        self.ahead.setstate(value.getstate())

    def var_getattr(self, tx, name):
        if name not in DRAWS:
            return super().var_getattr(tx, name)
        for each, method in ORIGINAL.items():  # some draw by means of others
            if getattr(random.Random, each) is not method:
                unsupported("class changed", f"`random.Random.{each}` is another one now")
            guard_attribute(tx, random.Random, each)
            if self.stored_attribute(tx, each) is not None:  # `generator.random = ...`, which the others call
                return super().var_getattr(tx, name)
            self.guard_lacks(tx, each)
        return BuiltinMethodVariable(self, name)

    def call_method(self, tx, name, args, kwargs):
        if name not in DRAWS:
            return super().call_method(tx, name, args, kwargs)
        return self.draw(tx, name, args, kwargs)

    def draw(self, tx, name, args, kwargs):
        if kwargs or not all(arg.is_python_constant() for arg in args):
            unsupported("method written in C", f"`{name}` of a random generator, with unknown arguments")
        arguments = [arg.as_python_constant() for arg in args]
        try:
            example = getattr(self.ahead, name)(*arguments)
        except (TypeError, ValueError) as error:
            tx.raise_python_exception(error)
        return tx.output.add_draw(self.source, name, arguments, example)


class NewRandomVariable(UserDefinedObjectVariable):
    """A generator that the program makes: `state` is a real one."""

    def __init__(self):
        super().__init__(random.Random)
        self.state = _random.Random(0)

    def call_descriptor(self, tx, descriptor, args, kwargs):
        name = descriptor.__name__
        if name not in KNOWN:
            return super().call_descriptor(tx, descriptor, args, kwargs)
        if not tx.can_fold(None, args, kwargs) or name == "seed" and tx.is_none(args[0].realize()):
            unsupported("method written in C", f"`{name}` of a random generator: the number is not known")
        return tx.fold(getattr(self.state, name), args, kwargs)

    def reconstruct(self, codegen):
        codegen.call(random.Random.__new__, random.Random)

    def fill(self, codegen):
        codegen.run(_random.Random.setstate, self, self.state.getstate())


def new_random(tx, cls):
    """`random.Random.__new__(cls, ...)`."""
    if cls is not random.Random:
        unsupported("class written in C", f"a {cls.__name__} draws random numbers in its own way")
    made = NewRandomVariable()
    tx.side_effects.new_object(made)
    return made


def made_of_draws(name):
    """A method that computes a number of others that it draws: of an existing generator, one draw."""
    original = getattr(random.Random, name)

    def handler(tx, generator, /, *args, **kwargs):
        generator, known = generator.realize(), not kwargs and all(arg.is_python_constant() for arg in args)
        if known and isinstance(generator, ExistingRandomVariable):
            if getattr(generator.var_getattr(tx, "random").realize(), "instance", None) is generator:  # its own still
                return generator.draw(tx, name, args, kwargs)
        return UserFunctionVariable(original).call_function(tx, [generator, *args], kwargs)

    return handler


HANDLERS = {getattr(random.Random, name): made_of_draws(name) for name in MADE_OF_DRAWS}
wraps(random.Random)(wrapped_as(ExistingRandomVariable))
