"""Breaks at containers, iterators, and the frame itself."""

import collections

from .example import example, mended, one_tensor


class Counts(collections.OrderedDict):
    """A dict that could have methods of its own."""


@example("subclass of a builtin")
def count_words(x):
    counts = Counts(a=1, b=2).copy()
    return x * len(counts)


@mended(count_words)
def count_words_in_a_dict(x):
    counts = collections.OrderedDict(a=1, b=2).copy()
    return x * len(counts)


@example("large container")
def many_zeros(x):
    return x + len([0] * 10_000_000)


@mended(many_zeros)
def number_of_zeros(x):
    return x + 10_000_000


def generator_in_a_handler(x):
    try:
        raise ValueError
    except ValueError:
        yield x + 1
        yield x + 2


@example("value across a break", also=("print or input", "method written in C"))
def generator_in_handler(x):
    values = generator_in_a_handler(x)
    y = next(values)
    print(end="")
    return y + next(values)


@mended(generator_in_handler)
def list_before_the_break(x):
    first, second = generator_in_a_handler(x)
    return first + second


def started(k):
    return (*one_tensor(k), enumerate(map(abs, [1, 2])))


@example("iterator from outside", started)
def take_one(x, pairs):
    k, value = next(pairs)
    return x + k * value


@mended(take_one, lambda k: (*one_tensor(k), [1, 2]))
def take_first(x, values):
    k, value = next(enumerate(map(abs, values)))
    return x + k * value


@example("exception leaves the frame")
def refuse(x):
    if x.shape[0] == 2:
        raise ValueError("two rows")
    return x + 1


@example("instruction not captured")
def except_star(x):
    try:
        try:
            raise ExceptionGroup("two", [ValueError(), KeyError()])
        except* ValueError:
            x = x + 2
    except* KeyError:
        x = x * 2
    return x


@mended(except_star)
def except_plain(x):
    for error in (ValueError(), KeyError()):
        try:
            raise error
        except ValueError:
            x = x + 2
        except KeyError:
            x = x * 2
    return x


@example("long loop")
def count_very_far(x):
    for k in range(10_500):
        last = k
    return x + last


@mended(count_very_far)
def last_number(x):
    return x + range(10_500)[-1]


@example("value that varies in a loop", also=("print or input",))
def pile_up(x):
    pile = []
    while len(pile) < 20:
        pile.append("brick")
        print(end="")
        x = x * 2
    return x


@mended(pile_up)
def pile_up_quietly(x):
    pile = []
    while len(pile) < 20:
        pile.append("brick")
        x = x * 2
    return x
