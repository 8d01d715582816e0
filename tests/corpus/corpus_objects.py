"""Examples: instances: attributes, operators, dataclasses, enums."""

import dataclasses
import enum

import torch
from corpus import V, X, Y, example


# --- attribute access -----------------------------------------------------------------------------------
class Config:
    def __init__(self, **values):
        self.__dict__.update(values)

    def __getattr__(self, name):
        if name.startswith("use_"):
            return False
        raise AttributeError(name)


@example("__getattr__/__getattribute__/__setattr__", X, Config(rate=3))
def getattr_default_of_config(x, config):
    if config.use_bias or hasattr(config, "other"):
        return x
    return x * config.rate


class Watched:
    def __init__(self):
        object.__setattr__(self, "log", [])

    def __setattr__(self, name, value):
        self.log.append(name)
        object.__setattr__(self, name, value)

    def __delattr__(self, name):
        self.log.append(f"-{name}")
        object.__delattr__(self, name)


@example("__getattr__/__getattribute__/__setattr__", X, Watched())
def setattr_of_user(x, watched):
    watched.a = x + 1
    watched.b = 2
    del watched.b
    return watched.a * 2


class Shouting:
    def __init__(self):
        self.value = 2

    def __getattribute__(self, name):
        found = object.__getattribute__(self, name)
        return found * 10 if name == "value" else found


@example("__getattr__/__getattribute__/__setattr__", X, Shouting())
def getattribute_of_user(x, shouting):
    return x * shouting.value


class Namespace(dict):
    __setattr__ = dict.__setitem__

    def __getattr__(self, name):
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name) from None


@example("__getattr__/__getattribute__/__setattr__", X, Namespace(a=1))
def attribute_dict(x, values):
    values.b = x + values.a
    return values.b * values["a"], sorted(values)


@example("__getattr__/__getattribute__/__setattr__", X)
def setattr_by_name(x):
    class Bag:
        pass

    bag = Bag()
    for k, name in enumerate(["a", "b"]):
        setattr(bag, name, x * k)
    delattr(bag, "a")
    return bag.b, hasattr(bag, "a"), vars(bag).keys()


class Temperature:
    def __init__(self, celsius):
        self._celsius = celsius

    @property
    def kelvin(self):
        return self._celsius + 273

    @kelvin.setter
    def kelvin(self, value):
        self._celsius = value - 273


@example("properties", X, Temperature(3))
def property_read(x, temperature):
    return x + temperature.kelvin


@example("properties", X, Temperature(3))
def property_written(x, temperature):
    temperature.kelvin = 300
    temperature.kelvin += 1
    return x * temperature._celsius


class Clamped:
    def __set_name__(self, owner, name):
        self.name = "_" + name

    def __get__(self, instance, owner=None):
        return self if instance is None else getattr(instance, self.name, 0)

    def __set__(self, instance, value):
        setattr(instance, self.name, min(value, 10))


class Dial:
    level = Clamped()


@example("descriptors", X, Dial())
def descriptor(x, dial):
    dial.level = 30
    return x * dial.level, Dial.level.name


class Lazily:
    def __init__(self, function):
        self.function = function

    def __get__(self, instance, owner):
        value = instance.__dict__[self.function.__name__] = self.function(instance)
        return value


class Mesh:
    @Lazily
    def points(self):
        return torch.arange(3.0)


@example("descriptors", X, Mesh())
def descriptor_that_caches(x, mesh):
    return x + mesh.points + mesh.points, list(mesh.__dict__)


class Vector:
    __slots__ = ("x", "y")

    def __init__(self, x, y):
        self.x, self.y = x, y

    def __eq__(self, other):
        return isinstance(other, Vector) and torch.equal(self.x, other.x)


@example("__slots__")
def slots(x):
    vector = Vector(x, x + 1)
    vector.y = vector.y * 2
    return vector.x + vector.y, hasattr(vector, "__dict__")


# --- calls and operators --------------------------------------------------------------------------------
class Affine:
    def __init__(self, scale, shift):
        self.scale, self.shift = scale, shift

    def __call__(self, x, *, again=False):
        x = x * self.scale + self.shift
        return self(x) if again else x


@example("__call__", X, Affine(2, V))
def callable_object(x, affine):
    return affine(x, again=True)


@example("__call__", X, [Affine(2, 1), Affine(3, 0)])
def list_of_callables(x, layers):
    for layer in layers:
        x = layer(x)
    return x


class Units:
    """A number with a unit: both sides of operators."""

    def __init__(self, value, unit):
        self.value, self.unit = value, unit

    def __add__(self, other):
        if not isinstance(other, Units):
            return NotImplemented
        return Units(self.value + other.value, self.unit)

    def __mul__(self, other):
        return Units(self.value * other, self.unit)

    __rmul__ = __mul__

    def __rsub__(self, other):
        return Units(other - self.value, self.unit)

    def __neg__(self):
        return Units(-self.value, self.unit)

    def __bool__(self):
        return self.unit != ""

    def __iadd__(self, other):
        self.value = self.value + other
        return self

    def __lt__(self, other):
        return self.unit < other.unit

    def __getitem__(self, index):
        return self.value[index]

    def __len__(self):
        return self.value.shape[0]

    def __contains__(self, unit):
        return unit == self.unit


@example("operator overloading with reflected forms", X)
def overloaded_operators(x):
    a, b = Units(x, "m"), Units(x + 1, "m")
    total = a + b
    total += 5
    return (2 * -total).value, total.unit, a < b


@example("operator overloading with reflected forms", X, Units(Y, "s"))
def reflected_operators(x, units):
    difference = 3 - units
    try:
        units + 1
    except TypeError:
        return difference.value * x if units else x
    return x


@example("operator overloading with reflected forms", Units(X, "kg"))
def overloaded_indexing(units):
    first, rest = units[0], units[1:]
    return first + rest, len(units), "kg" in units, "m" in units


class Wrapped:
    """What a library does that wraps tensors."""

    def __init__(self, tensor):
        self.tensor = tensor

    def __matmul__(self, other):
        return Wrapped(self.tensor @ other.tensor)

    def __truediv__(self, n):
        return Wrapped(self.tensor / n)

    def __pow__(self, n):
        return Wrapped(self.tensor**n)

    def __eq__(self, other):
        return isinstance(other, Wrapped) and self.tensor is other.tensor

    def __hash__(self):
        return id(self.tensor)


@example("operator overloading with reflected forms", Wrapped(X), Wrapped(X.T.clone()))
def wrapped_tensors(a, b):
    c = (a @ b / 2) ** 2
    return c.tensor, a == b, a == Wrapped(a.tensor), a != b


# --- dataclasses ----------------------------------------------------------------------------------------
@dataclasses.dataclass
class Batch:
    ids: torch.Tensor
    weight: float = 1.0
    names: list = dataclasses.field(default_factory=list)

    def scaled(self):
        return self.ids * self.weight


@example("dataclasses", Batch(X, 2.0))
def dataclass_argument(batch):
    batch.names.append("seen")
    return batch.scaled() + 1


@example("dataclasses")
def dataclass_made_inside(x):
    batch = Batch(ids=x, names=["a"])
    batch.weight = 3.0
    return batch, batch.scaled()


@example("dataclasses", Batch(X, 2.0))
def dataclass_replace_and_fields(batch):
    other = dataclasses.replace(batch, weight=5.0)
    names = [field.name for field in dataclasses.fields(other)]
    return other.scaled(), names, dataclasses.is_dataclass(other)


@dataclasses.dataclass(frozen=True)
class Frozen:
    rate: float
    steps: int = 2


@example("dataclasses (frozen)", X, Frozen(0.5), also=[(X, Frozen(0.5, 3))])
def frozen_dataclass(x, frozen):
    table = {frozen: 3}
    for _ in range(frozen.steps):
        x = x * frozen.rate
    return x * table[Frozen(frozen.rate, frozen.steps)]


@example("dataclasses (frozen)", X, Frozen(0.5))
def frozen_dataclass_is_frozen(x, frozen):
    try:
        frozen.rate = 2.0
    except dataclasses.FrozenInstanceError as error:
        return x * 2, str(error)
    return x


@dataclasses.dataclass(order=True, slots=True)
class Ranked:
    score: float
    tensor: torch.Tensor = dataclasses.field(compare=False)

    def __post_init__(self):
        self.score = self.score * 2


@example("dataclasses")
def dataclass_ordered(x):
    best = max(Ranked(1.0, x), Ranked(3.0, x + 1))
    return best.tensor, best.score, repr(Frozen(1.0))


@example("dataclasses", Batch(X, 2.0))
def dataclass_asdict(batch):
    values = dataclasses.asdict(batch)
    return values["ids"] * values["weight"]


# --- enums ----------------------------------------------------------------------------------------------
class Reduce(enum.Enum):
    MEAN = "mean"
    SUM = "sum"

    @property
    def function(self):
        return torch.mean if self is Reduce.MEAN else torch.sum


@example("enums", X, Reduce.MEAN, also=[(X, Reduce.SUM)])
def enum_argument(x, reduce):
    if reduce == Reduce.MEAN:
        return reduce.function(x)
    return reduce.function(x), reduce.value, reduce.name


class Flags(enum.IntFlag):
    BIAS = 1
    NORM = 2


class Mode(enum.IntEnum):
    FAST = 1
    SLOW = 2


@example("enums", X, Flags.BIAS | Flags.NORM, also=[(X, Flags.NORM)])
def enum_flags(x, flags):
    if flags & Flags.BIAS:
        x = x + 1
    return x * Mode.SLOW, Flags.NORM in flags


@example("enums", X, "sum")
def enum_by_value(x, text):
    reduce = Reduce(text)
    table = {Reduce.SUM: 2, Reduce.MEAN: 3}
    return x * table[reduce], [r.name for r in Reduce], Reduce["MEAN"].value
