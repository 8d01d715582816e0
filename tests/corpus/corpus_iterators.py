"""Examples: generators, iteration protocols, itertools."""

import itertools

import torch
from corpus import X, Y, example

X4 = torch.randn(1, 2, 4, 8, generator=torch.Generator().manual_seed(3))


# --- generators -----------------------------------------------------------------------------------------
def rows(x):
    for k in range(x.shape[0]):
        yield x[k] * k


@example("generators and generator expressions")
def generator_consumed(x):
    return torch.stack(list(rows(x)))


@example("generators and generator expressions")
def generator_lazy(x):
    seen = []

    def noisy():
        for k in range(5):
            seen.append(k)
            yield x + k

    stream = noisy()
    return next(stream) + next(stream), seen


@example("generators and generator expressions")
def generator_expression_sum(x):
    return sum(row.sum() for row in x if row.shape[0] == 3)


@example("generators and generator expressions")
def generator_returned_partly_used(x):
    stream = rows(x)
    first = next(stream)
    return first, sum(stream)


@example("generators and generator expressions")
def any_all_over_generators(x):
    if any(s > 3 for s in x.shape) and all(s > 0 for s in x.shape):
        return x + 1
    return x


def accumulator():
    total = 0
    while True:
        value = yield total
        if value is None:
            return "done"
        total = total + value


@example("send/throw/close")
def generator_send(x):
    running = accumulator()
    next(running)
    running.send(x)
    return running.send(x * 2)


@example("send/throw/close")
def generator_return_value(x):
    running = accumulator()
    next(running)
    running.send(x)
    try:
        running.send(None)
    except StopIteration as stop:
        return x, stop.value


def guarded(log):
    try:
        yield 1
        yield 2
    except ValueError as error:
        log.append(str(error))
        yield 3
    finally:
        log.append("closed")


@example("send/throw/close")
def generator_throw(x):
    log = []
    stream = guarded(log)
    first = next(stream)
    third = stream.throw(ValueError("thrown"))
    return x * first + third, log


@example("send/throw/close")
def generator_close(x):
    log = []
    stream = guarded(log)
    x = x + next(stream)
    stream.close()
    return x, log


def tree(x, depth):
    if depth == 0:
        yield x
        return
    yield from tree(x + depth, depth - 1)
    yield from tree(x - depth, depth - 1)


@example("yield from")
def yield_from_recursive(x):
    return sum(tree(x, 2))


@example("yield from")
def yield_from_result(x):
    def inner():
        yield 1
        return 5

    def outer():
        result = yield from inner()
        yield result

    return x * sum(outer())


# --- iteration ------------------------------------------------------------------------------------------
class Countdown:
    def __init__(self, n):
        self.n = n

    def __iter__(self):
        return self

    def __next__(self):
        if self.n == 0:
            raise StopIteration
        self.n -= 1
        return self.n


@example("iteration protocols", X, Countdown(3))
def user_iterator(x, countdown):
    for n in countdown:
        x = x + n
    return x


class Pages:
    def __init__(self, tensors):
        self.tensors = tensors

    def __getitem__(self, k):
        return self.tensors[k]

    def __len__(self):
        return len(self.tensors)


@example("iteration protocols", Pages([X, Y]))
def iteration_by_getitem(pages):
    total = 0
    for page in pages:
        total = total + page
    return total, len(pages), bool(pages)


@example("iteration protocols")
def iter_with_sentinel(x):
    values = [3, 2, 1, 0, 5]
    for value in iter(lambda: values.pop(0), 0):
        x = x + value
    return x, values


@example("itertools")
def itertools_chain_islice(x):
    for k in itertools.islice(itertools.chain([1, 2], range(10)), 1, 5):
        x = x + k
    return x


@example("itertools")
def itertools_product_pairs(x):
    for i, j in itertools.product(range(2), repeat=2):
        x = x + i * j
    for a, b in itertools.pairwise([1, 2, 3]):
        x = x * (b - a)
    return x, list(itertools.combinations("abc", 2)), list(itertools.permutations([1, 2]))


@example("itertools")
def itertools_accumulate_groupby(x):
    sums = list(itertools.accumulate([1, 2, 3]))
    groups = {key: len(list(items)) for key, items in itertools.groupby("aabbb")}
    return x * sums[-1] + groups["b"]


@example("itertools")
def itertools_count_cycle_repeat(x):
    for k, sign, two in zip(itertools.count(1), itertools.cycle([1, -1]), itertools.repeat(2, 3)):
        x = x + k * sign * two
    return x


@example("itertools")
def itertools_rest(x):
    kept = list(itertools.compress([1, 2, 3], [1, 0, 1]))
    low = list(itertools.takewhile(lambda v: v < 3, [1, 2, 3, 1]))
    high = list(itertools.dropwhile(lambda v: v < 3, [1, 2, 3, 1]))
    total = sum(itertools.starmap(lambda a, b: a * b, [(1, 2), (3, 4)]))
    return x + total, kept, low, high, list(itertools.zip_longest([1], [2, 3], fillvalue=0))


@example("itertools")
def itertools_tee(x):
    a, b = itertools.tee(k * 2 for k in range(3))
    return x + sum(a) - max(b), list(itertools.filterfalse(lambda v: v % 2, range(4)))
