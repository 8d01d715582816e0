"""Breaks at classes and objects."""

import collections
import copy
import decimal
import threading

import torch
from torch import nn

from .example import example, mended, one_tensor


class Scale:
    """An ordinary object."""

    factor = 2

    def __init__(self, by=3):
        self.by = by

    def __repr__(self):
        return f"scale by {self.by}"


@example("class definition")
def local_class(x):
    class Local:
        size = 2

    return x * Local.size


@mended(local_class)
def module_class(x):
    return x * Scale.factor


def describe(self):
    return 2


class Described(Scale):
    """A class that the next function changes."""


@example("class changed")
def add_method(x):
    Described.describe = describe
    return x * Described().describe()


@mended(add_method)
def call_function(x):
    return x * describe(Described())


@example("class written in C")
def with_decimal(x):
    price = decimal.Decimal("0.5")
    return x + 1, price


@mended(with_decimal, lambda k: (*one_tensor(k), decimal.Decimal("0.5")))
def given_decimal(x, price):
    return x + 1, price


def with_price(k):
    return (*one_tensor(k), decimal.Decimal(k))


@example("method written in C", with_price)
def add_price(x, price):
    return x + len(price.to_eng_string())


@mended(add_price, lambda k: (*one_tensor(k), str(decimal.Decimal(k))))
def add_price_of(x, price):
    return x + len(price)


class Settings(threading.local):
    """What each thread sets for itself."""


def with_settings(k):
    settings = Settings()
    settings.factor = k
    return (*one_tensor(k), settings)


@example("attribute written in C", with_settings)
def scale_by_setting(x, settings):
    return x * settings.factor


@mended(scale_by_setting, lambda k: (*one_tensor(k), k))
def scale_by_value(x, factor):
    return x * factor


class Session:
    """An object that wants to know when it dies."""

    closed = 0

    def __del__(self):
        Session.closed += 1


@example("object with a finalizer")
def in_session(x):
    session = Session()
    return x * 2 if session else x


class Block:
    """The same with an end that is written down."""

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        return None


@mended(in_session)
def in_block(x):
    with Block():
        return x * 2


@example("identity as a number")
def by_address(x):
    y = x * 2
    return y if hash(y) != hash(x) else x


@mended(by_address)
def by_identity(x):
    y = x * 2
    return y if y is not x else x


@example("object copy")
def copied(x):
    y = x * 2
    kept = copy.deepcopy(y)
    return kept + y.mul_(2)


@mended(copied)
def cloned(x):
    y = x * 2
    kept = y.clone()
    return kept + y.mul_(2)


@example("instance __dict__")
def forget_all(x):
    scale = Scale()
    scale.__dict__.clear()
    return x * scale.factor


@mended(forget_all)
def forget_one(x):
    scale = Scale()
    del scale.by
    return x * scale.factor


def helper(x):
    return x + 1


def other_helper(x):
    return x + 2


@example("attribute write")
def exchange_code(x):
    helper.__code__ = other_helper.__code__
    return helper(x)


@mended(exchange_code)
def choose_function(x):
    chosen = other_helper
    return chosen(x)


def noting(k):
    return *one_tensor(k), NOTES.append


NOTES = []


@example("key with its own equality", noting)
def keyed_by_method(x, note):
    factors = {note: 2}
    return x * factors[note]


@mended(keyed_by_method)
def keyed_by_name(x, note):
    factors = {note.__name__: 2}
    return x * factors[note.__name__]


@example("builtin on an unknown value")
def text_of_deque(x):
    scales = collections.deque([Scale(2), Scale(3)])
    return x + len(repr(scales)) - len("deque()")


@mended(text_of_deque)
def text_of_list(x):
    scales = [Scale(2), Scale(3)]
    return x + len(repr(scales))


@example("lazy module", lambda k: (*one_tensor(k), nn.LazyLinear(2)))
def scale_in_training(x, layer):
    return x * 2 if layer.training else x


def called_once(k):
    x, layer = *one_tensor(k), nn.LazyLinear(2)
    layer(x)
    return x, layer


@mended(scale_in_training, called_once)
def scale_in_training_now(x, layer):
    return x * 2 if layer.training else x
