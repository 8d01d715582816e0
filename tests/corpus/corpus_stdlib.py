"""Examples: sorting, inspect, typing, warnings, logging, and plain calls."""

import inspect
import logging
import typing
import warnings

import torch
from corpus import V, X, Y, example
from corpus_functions import Methods, with_everything

logger = logging.getLogger("corpus")


# --- sorting --------------------------------------------------------------------------------------------
@example("sorted(key=)", [X, V, X[:, :1]])
def sorted_by_size(tensors):
    ordered = sorted(tensors, key=lambda t: t.numel(), reverse=True)
    return ordered[0] + 1, [t.dim() for t in ordered]


@example("sorted(key=)", X, {"b": 2, "a": 3, "c": 1})
def sorted_dict_items(x, table):
    for name, value in sorted(table.items(), key=lambda item: (item[1], item[0])):
        x = x * value + len(name)
    return x, max(table, key=table.get), min(table.values())


@example("sorted(key=)")
def list_sort_in_place(x):
    names = ["bb", "a", "ccc"]
    names.sort(key=len, reverse=True)
    pairs = sorted([(2, "x"), (1, "y")])
    return x + len(names[0]), names, pairs


@example("sorted(key=)")
def map_and_filter(x):
    sizes = list(map(lambda s: s * 2, filter(lambda s: s > 3, x.shape)))
    return x * sizes[0], list(map(max, [1, 5], [4, 2]))


# --- inspect, typing, warnings, logging -----------------------------------------------------------------
@example("inspect.signature")
def signature_of_function(x):
    names = list(inspect.signature(with_everything).parameters)
    return x + len(names), names


@example("inspect.signature", X, {"alpha": 2, "beta": 5})
def filter_arguments_by_signature(x, options):
    def layer(t, alpha=1):
        return t * alpha

    accepted = inspect.signature(layer).parameters
    return layer(x, **{k: v for k, v in options.items() if k in accepted})


@example("inspect.signature", X, Methods())
def inspect_questions(x, methods):
    if inspect.isfunction(with_everything) and not inspect.isclass(methods) and callable(methods.scale):
        return methods.scale(x, 2)
    return x


@example("typing constructs")
def typing_cast(x):
    numbers: list[int] = [1, 2]
    y = typing.cast(torch.Tensor, x * numbers[1])
    return y


class Output(typing.NamedTuple):
    hidden: torch.Tensor
    size: int = 1


@example("typing constructs")
def typing_named_tuple(x):
    output = Output(x + 1, x.shape[0])
    hidden, size = output
    return output._replace(size=size + 1), hidden * output.size


class Settings(typing.TypedDict):
    rate: float


@example("typing constructs")
def typed_dict(x):
    settings = Settings(rate=0.5)
    return x * settings["rate"]


T = typing.TypeVar("T")


class Box(typing.Generic[T]):
    def __init__(self, value: T):
        self.value = value


@example("typing constructs")
def generic_class(x):
    box = Box[torch.Tensor](x)
    return box.value * 2


@example("typing constructs", X, 3, also=[(X, None), (X, 2.5)])
def optional_argument(x, n: float | None = None):
    if n is None:
        return x
    return x * n if isinstance(n, int | float) else x


@typing.runtime_checkable
class HasScale(typing.Protocol):
    def scale(self, x, by): ...


@example("typing constructs", X, Methods())
def runtime_protocol(x, methods):
    return methods.scale(x, 3) if isinstance(methods, HasScale) else x


@example("warnings")
def warning_inside(x):
    if x.shape[0] == 4:
        warnings.warn("four rows")
    return x + 1


@example("warnings")
def warnings_caught(x):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        y = x * 2
    return y


@example("logging")
def logging_debug(x):
    y = x + 1
    logger.debug("shape %s", tuple(y.shape))
    return y * 2


@example("logging")
def logging_guarded_by_level(x):
    if logger.isEnabledFor(logging.DEBUG):
        logger.debug("never")
    return x * 2


# --- plain calls ----------------------------------------------------------------------------------------
@example("typing constructs", X, torch.relu, also=[(X, torch.tanh)])
def function_as_argument(x, activation):
    return activation(x)


@example("typing constructs", X, "sigmoid", also=[(X, "tanh")])
def function_by_name(x, name):
    return getattr(torch, name)(x) + x.abs()


@example("typing constructs")
def isinstance_and_type(x):
    kinds = [isinstance(x, (list, torch.Tensor)), type(x) is torch.Tensor, issubclass(bool, int), callable(x)]
    return x * sum(kinds)


@example("typing constructs", X, [Y, {"a": V, "b": (X, 3)}])
def recursive_map(x, nested):
    def apply(function, value):
        if isinstance(value, torch.Tensor):
            return function(value)
        if isinstance(value, dict):
            return {k: apply(function, v) for k, v in value.items()}
        if isinstance(value, (list, tuple)):
            return type(value)(apply(function, v) for v in value)
        return value

    return apply(lambda t: t + 1, nested)
