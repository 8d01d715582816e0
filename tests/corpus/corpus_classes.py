"""Examples: classes: inheritance, super(), metaclasses, class and static methods, abstract classes, registries."""

import abc

import torch.nn.functional as F
from corpus import X, example


# --- inheritance ----------------------------------------------------------------------------------------
class Base:
    scale = 2
    instances = 0

    def __init__(self, bias=0):
        self.bias = bias

    def __call__(self, x):
        return self.finish(x * self.scale)

    def finish(self, x):
        return x + self.bias


class Child(Base):
    scale = 3

    def __init__(self, bias, extra):
        super().__init__(bias)
        self.extra = extra

    def finish(self, x):
        return super().finish(x) * self.extra


@example("super()", X, Child(1, 2))
def super_methods(x, child):
    return child(x)


@example("super()")
def super_init_inside(x):
    child = Child(bias=x, extra=2)
    return child(x), isinstance(child, Base), type(child).__name__


class Left(Base):
    def finish(self, x):
        return super().finish(x) + 10


class Right(Base):
    def finish(self, x):
        return super().finish(x) * 10


class Both(Left, Right):
    pass


@example("multiple inheritance", X, Both(1))
def diamond(x, both):
    return both(x), [c.__name__ for c in type(both).__mro__]


class Tagged:
    def tag(self):
        return f"<{self.name()}>"

    def name(self):
        return type(self).__name__


class TaggedList(Tagged, list):
    pass


@example("multiple inheritance")
def mixin_with_list(x):
    items = TaggedList([1, 2])
    items.append(3)
    return x * sum(items), items.tag(), items


@example("super()", X, Child(1, 2))
def super_with_arguments(x, child):
    return super(Child, child).finish(x), Base.finish(child, x)


# --- class and static methods ---------------------------------------------------------------------------
class Counter:
    made = 0

    def __init__(self, k):
        self.k = k

    @classmethod
    def from_tensor(cls, x):
        return cls(x.shape[0])

    @staticmethod
    def double(x):
        return x * 2

    @classmethod
    def count(cls):
        cls.made += 1
        return cls.made


class SubCounter(Counter):
    pass


@example("class and static methods")
def class_and_static_methods(x):
    counter = SubCounter.from_tensor(x)
    return counter.double(x) + counter.k + Counter.double(3), type(counter) is SubCounter


@example("class and static methods", make=True)
def class_attribute_counted():
    Counter.made = 0

    def forward(x):
        return x + Counter.count(), Counter.made

    return forward


@example("class and static methods", X, Base(3))
def class_attribute_shadowed(x, base):
    before = base.scale
    base.scale = 7
    return base(x), before, Base.scale


@example("class and static methods", X, Base(3))
def bound_methods_as_values(x, base):
    finish, function = base.finish, Base.finish
    return finish(function(base, x)), finish.__self__ is base, base.finish == finish


# --- metaclasses ----------------------------------------------------------------------------------------
class Registry(type):
    known = {}

    def __new__(meta, name, bases, namespace):
        made = super().__new__(meta, name, bases, namespace)
        meta.known[name.lower()] = made
        return made

    def __getitem__(cls, k):
        return cls.factor * k

    def __len__(cls):
        return 4


class Scale(metaclass=Registry):
    factor = 2

    def __call__(self, x):
        return x * self.factor


class Singleton(type):
    _instances = {}

    def __call__(cls, *args):
        if cls not in cls._instances:
            cls._instances[cls] = super().__call__(*args)
        return cls._instances[cls]


class Settings(metaclass=Singleton):
    def __init__(self):
        self.rate = 5


@example("metaclasses")
def registry_of_classes(x):
    return Registry.known["scale"]()(x)


@example("metaclasses")
def metaclass_operators(x):
    return x * Scale[3] + len(Scale), isinstance(Scale, Registry)


@example("metaclasses")
def metaclass_call_singleton(x):
    return x * Settings().rate, Settings() is Settings()


class Plugin:
    plugins = {}

    def __init_subclass__(cls, /, name, **kwargs):
        super().__init_subclass__(**kwargs)
        cls.plugins[name] = cls


class Relu(Plugin, name="relu"):
    def __call__(self, x):
        return F.relu(x)


@example("metaclasses", X, "relu")
def init_subclass_registry(x, name):
    return Plugin.plugins[name]()(x)


class Activation(abc.ABC):
    @abc.abstractmethod
    def apply(self, x): ...

    def __call__(self, x):
        return self.apply(x)


class Square(Activation):
    def apply(self, x):
        return x * x


@example("metaclasses", X, Square())
def abstract_base_class(x, square):
    if isinstance(square, Activation):
        return square(x)
    return x


@example("metaclasses")
def abstract_class_cannot_be_made(x):
    try:
        Activation()
    except TypeError:
        return Square()(x)
    return x


class WithNew:
    def __new__(cls, kind):
        made = object.__new__(Relu if kind == "relu" else cls)
        return made

    def __init__(self, kind):
        self.kind = kind


@example("metaclasses")
def new_that_chooses(x):
    return WithNew("relu")(x), WithNew("other").kind


@example("metaclasses")
def class_getitem(x):
    class Shaped:
        def __class_getitem__(cls, n):
            return n + 1

    return x * Shaped[3]


@example("metaclasses")
def type_questions(x):
    kinds = (int is int, isinstance(True, int), type(x).__name__, Child.__bases__ == (Base,), Child.__name__)
    return x + len(kinds), kinds, issubclass(Both, Right)
