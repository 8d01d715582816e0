"""Examples: what is rare by itself and stands in many programs: registries, random numbers, proxies, NumPy."""

import collections
import contextlib
import copy
import dataclasses
import enum
import functools
import importlib.util
import inspect
import operator
import random
import typing
import warnings
import weakref

import numpy
import torch
from corpus import X, example
from torch import nn


def told(call):
    """What a call gives, or what it says where it raises."""
    try:
        return call()
    except Exception as error:
        return type(error).__name__, str(error)


# --- indices ----------------------------------------------------------------------------------------------
@example("indices", X, torch.tensor(1), also=[(X, torch.tensor(2)), (X, torch.tensor(-1))])
def index_in_a_tensor(x, i):
    return x[i] * 2, x[:, i], x[i:]


@example("indices", X, numpy.array(1))
def index_in_an_array(x, i):
    return x[i] + 1


@example("indices")
def indices_of_numpys(x):
    y = x.clone()
    y[numpy.array(1)] = 0
    y[numpy.array([0, 2], numpy.int32)] = 5
    return y, x[numpy.array(1)], x[:, numpy.int32(2)], x[numpy.int64(1) :]


def noise_by_lookup():
    alphas = torch.cumprod(1 - torch.linspace(0.01, 0.2, 10), 0)

    def add_noise(x, t):
        alpha = alphas[t] ** 0.5
        while alpha.dim() < x.dim():
            alpha = alpha.unsqueeze(-1)
        return alpha * x + (1 - alpha**2) ** 0.5

    return add_noise


example("indices", X, torch.tensor(3), make=True)(noise_by_lookup)


# --- random numbers -----------------------------------------------------------------------------------------
@example("random numbers")
def random_scale(x):
    return x * random.uniform(0, 1) + random.randint(0, 3)


@example("random numbers")
def random_of_each_kind(x):
    return x * random.gauss(0, 1) + random.expovariate(2.0) + random.betavariate(0.5, 0.5) * random.normalvariate(0, 1)


@example("random numbers")
def random_of_an_own_generator(x):
    generator = random.Random(0)
    places = list(range(4))
    generator.shuffle(places)
    return x[places] * generator.uniform(1, 2) + generator.sample([1, 2, 3], 2)[0]


# --- what stands for others ---------------------------------------------------------------------------------
class Child(nn.Module):
    def __init__(self, parent):
        super().__init__()
        self.parent = weakref.proxy(parent)
        self.linear = nn.Linear(3, 3)

    def forward(self, x):
        return self.linear(x) * self.parent.scale + self.parent.shifted(x)


class Parent(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = 3.0
        self.child = Child(self)

    def shifted(self, x):
        return x + 1

    def forward(self, x):
        return self.child(x)


def parent_by_weak_proxy():
    return Parent()


example("proxies", make=True)(parent_by_weak_proxy)


def weak_proxy_written():
    parent = Parent()
    proxy = weakref.proxy(parent)

    def write(x):
        proxy.scale = 5
        return x * parent.scale, isinstance(proxy, Parent), hasattr(proxy, "nothing")

    return write


example("proxies", make=True)(weak_proxy_written)


class Options(dict):
    """A dict whose items are its attributes."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.__dict__ = self

    def doubled(self):
        return self.scale * 2


def options_read():
    options = Options(scale=2, inner=Options(shift=3))

    def read(x):
        total = x * options.scale + options.inner.shift + options["scale"] + options.doubled()
        return total, options.get("nothing"), hasattr(options, "nothing"), list(options), vars(options) is options

    return read


example("proxies", make=True)(options_read)


def options_written():
    options = Options(scale=2, gone=1, dropped=1)

    def write(x):
        options.step = options.get("step", 0) + 1
        options["shift"] = 5
        if hasattr(options, "gone"):
            del options.gone
        options.pop("dropped", None)
        options.seen = x + 1
        return x * options.scale + options.shift + options["step"], sorted(options), "gone" in options

    return write, options


example("proxies", make=True)(options_written)


# --- enums and classes --------------------------------------------------------------------------------------
class Kind(enum.StrEnum):
    MEAN = "mean"
    SUM = enum.auto()


@example("enums and classes")
def string_enum_chosen(x):
    reduced = x.mean() if Kind("mean") == "mean" else x.sum()
    return (
        reduced + len(f"{Kind.SUM}-{Kind.MEAN.value.upper()}"),
        [kind.value for kind in Kind],
        "SUM" in Kind.__members__,
    )


@example("enums and classes")
def questions_about_aliases(x):
    pairs = [(list[int], int), (int, list[int]), (typing.List[int], int), (3, int), (int, 3), (int | str, int)]
    return x + 1, [told(lambda a=a, b=b: issubclass(a, b)) for a, b in pairs], told(lambda: isinstance(1, list[int]))


@example("enums and classes")
def errors_of_operators(x):
    names = "add mul mod getitem contains countOf indexOf iadd matmul lt concat iconcat".split()
    return x, [told(lambda name=name: getattr(operator, name)("a", object())) for name in names], told(typing.Generic)


@example("enums and classes")
def named_tuple_made_inside(x):
    box = collections.namedtuple("Box", "low high step", defaults=(3,))
    made = box(x + 1, high=x * 2)._replace(low=x)
    return made.low + made.high * made.step, box._fields, tuple(made), type(made) is box


class Registered:
    made = {}

    def __init_subclass__(cls, key=None, **kwargs):
        super().__init_subclass__(**kwargs)
        Registered.made[key] = cls

    @classmethod
    def create(cls, key, *args, **kwargs):
        return cls.made[key](*args, **kwargs)


class Scaled(Registered, key="scaled"):
    def __init__(self, scale=1):
        self.scale = scale

    def __call__(self, x):
        return x * self.scale


@example("enums and classes")
def made_by_a_registry(x):
    return Registered.create("scaled", scale=3)(x) + len(Registered.made)


# --- modules and packages -----------------------------------------------------------------------------------
@example("packages")
def packages_that_are_there(x):
    found = [importlib.util.find_spec(name) is not None for name in ("torch", "there_is_no_such_package")]
    return x + 1 if found == [True, False] else x


@example("packages")
def import_that_fails(x):
    try:
        import there_is_no_such_package  # noqa: F401
    except ImportError:
        return x + 2
    return x


# --- decorators and keyword arguments -----------------------------------------------------------------------
def renamed(old, new):
    def decorator(function):
        @functools.wraps(function)
        def wrapper(*args, **kwargs):
            if old in kwargs:
                warnings.warn(f"{old} is now {new}", FutureWarning, stacklevel=2)
                kwargs[new] = kwargs.pop(old)
            return function(*args, **kwargs)

        return wrapper

    return decorator


@renamed("size", "scale")
def scaled(x, scale=1):
    return x * scale


@example("decorators")
def renamed_keyword(x):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return scaled(x, size=2) + scaled(x, scale=3)


@example("decorators")
def keywords_by_signature(x):
    given = {"scale": 3, "other": 1}
    known = inspect.signature(scaled.__wrapped__).parameters
    bound = inspect.signature(scaled.__wrapped__).bind(x)
    bound.apply_defaults()
    return scaled(x, **{name: v for name, v in given.items() if name in known}) + scaled(*bound.args, **bound.kwargs)


class InFloat:
    """A decorator: outside of autocast, in float32."""

    def __call__(self, function):
        @functools.wraps(function)
        def inner(*args):
            with torch.autocast("cpu", enabled=False):
                return function(*[arg.float() if torch.is_tensor(arg) else arg for arg in args])

        return inner


@InFloat()
def softmax_in_float(x):
    return x.softmax(-1)


@example("decorators")
def precision_by_decorator(x):
    return softmax_in_float(x.half())


@contextlib.contextmanager
def evaluating(module):
    before = module.training
    try:
        yield module.eval()
    finally:
        module.train(before)


def evaluated_for_a_while():
    module = nn.Sequential(nn.Linear(3, 3), nn.Dropout(0.5))

    def run(x):
        with evaluating(module) as quiet, torch.no_grad():
            return quiet(x), module.training

    return run


example("decorators", make=True)(evaluated_for_a_while)


# --- configurations -----------------------------------------------------------------------------------------
@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Spec:
    width: int = 3
    names: tuple = ("a",)

    def replace(self, **changes):
        return dataclasses.replace(self, **changes)


@example("configurations", X, Spec())
def frozen_specification(x, spec):
    wider = spec.replace(width=4)
    return x * wider.width, wider == Spec(width=4), {spec: 1}[Spec()]


@dataclasses.dataclass
class Config:
    width: int = 3
    heads: int = 1
    more: dict = dataclasses.field(default_factory=dict)

    @property
    def head_width(self):
        return getattr(self, "_head_width", None) or self.width // self.heads


@example("configurations", X, Config())
def configuration_copied(x, config):
    shallow, deep = copy.copy(config), copy.deepcopy(config)
    shallow.width = 5
    deep.more["extra"] = 2
    return x * shallow.width + deep.more["extra"] + config.head_width, dataclasses.asdict(config)


Step = collections.namedtuple("Step", "state reward")


@example("configurations", [Step(X, 1.0), Step(X * 2, 2.0)])
def steps_transposed(steps):
    batch = Step(*zip(*steps))
    return torch.stack(batch.state).sum(0) * torch.tensor(batch.reward).sum()
