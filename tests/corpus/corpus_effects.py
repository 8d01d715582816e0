"""Examples: side effects: replayed exactly once and in order, aliases, identity, iterators, across breaks."""

import collections
import contextlib

import torch
from corpus import X, example
from torch import nn

LOG = []
TABLE = {}
counter = 0


def note(value):
    LOG.append(value)
    return value


class Cell:
    def __init__(self, value=None):
        self.value = value
        self.others = []


def break_here():
    """What neither compiler can see through."""
    print(end="")


# --- exactly once and in order --------------------------------------------------------------------------
@example("exactly once and in order", make=True)
def global_list_appended():
    LOG.clear()

    def forward(x):
        LOG.append(len(LOG))
        return x + len(LOG)

    return forward, LOG


@example("exactly once and in order", make=True)
def evaluation_order():
    LOG.clear()

    def forward(x):
        total = note(1) + note(2) * note(3)
        table = {note("k"): note("v"), note("k2"): note("v2")}
        return x + total + [note(4), note(5)][note(0)], table

    return forward, LOG


@example("exactly once and in order", X, Cell())
def attribute_written_twice(x, cell):
    cell.value = x + 1
    cell.value = cell.value * 2
    cell.others.append(cell.value)
    return cell.value


@example("exactly once and in order", make=True)
def global_dict_written():
    TABLE.clear()

    def forward(x):
        TABLE["sum"] = x.sum()
        TABLE.setdefault("calls", []).append(len(TABLE))
        return x * 2

    return forward, TABLE


@example("exactly once and in order", X, {"a": 1, "b": 2})
def dict_order_kept(x, table):
    value = table.pop("a")
    table["c"] = x
    table["a"] = value
    return x + 1


@example("exactly once and in order", X, [3, 1, 2])
def list_sorted_and_cleared(x, items):
    items.sort()
    first = items[0]
    items.clear()
    items += [first, x.shape[0]]
    return x * first


@example("exactly once and in order", [X], X)
def tensors_stored_in_argument(items, x):
    items.append(x * 2)
    items[0] = items[1] + 1
    return items[0].sum()


@example("exactly once and in order", X, collections.deque([1], maxlen=2))
def deque_argument_filled(x, queue):
    queue.append(x)
    queue.append(x + 1)
    return queue[0] * 2


@example("exactly once and in order", X, set())
def set_argument_filled(x, seen):
    for n in (1, 2, 1):
        seen.add(n)
    seen.discard(2)
    return x + len(seen)


# --- aliases and identity -------------------------------------------------------------------------------
@example("aliases")
def alias_of_new_list(x):
    a = []
    b = a
    b.append(x)
    return a[0] + 1, a is b


@example("aliases", [1])
def alias_of_argument(items):
    other = items
    other.append(5)
    holder = Cell(items)
    holder.value.append(6)
    return torch.ones(2) * sum(items), holder.value is items


@example("aliases", X)
def alias_of_view(x):
    row = x[0]
    row.add_(10)
    return x, row


@example("aliases", make=True)
def same_list_twice():
    shared = [1]

    def forward(x, a, b):
        a.append(2)
        return x * len(b)

    return lambda x: forward(x, shared, shared), shared


@example("aliases", Cell([1]), X)
def returned_object_is_argument(cell, x):
    cell.value.append(2)
    return cell, cell.value, x


@example("identity kept", X)
def tensor_returned_unchanged(x):
    y = x
    z = y.view(4, 3)
    return [x, y, {"x": x}], x is y, z is x


@example("identity kept", Cell(), X)
def new_objects_linked(cell, x):
    child = Cell(x)
    child.others.append(cell)
    cell.others.append(child)
    return child.others[0] is cell


@example("identity kept", make=True)
def object_kept_between_calls():
    cell = Cell([])

    def forward(x):
        cell.value.append(x.shape[0])
        return x + len(cell.value)

    return forward, cell.value


@example("identity kept", X)
def same_new_tensor_in_two_places(x):
    y = x + 1
    return {"a": y, "b": [y, y]}, (y,)


@example("identity kept", X, Cell())
def closure_stored(x, cell):
    cell.value = lambda t: t + x
    return cell.value(x)


# --- iterators ------------------------------------------------------------------------------------------
@example("iterators advanced", make=True)
def list_iterator_advanced():
    stream = iter([1, 2, 3, 4, 5])

    def forward(x):
        return x * next(stream)

    return forward


@example("iterators advanced", make=True)
def generator_from_outside_advanced():
    stream = (k * k for k in range(10))

    def forward(x):
        return x + next(stream) + next(stream)

    return forward


@example("iterators advanced", make=True)
def zip_iterator_advanced():
    stream = zip([1, 2, 3], "abc")

    def forward(x):
        number, letter = next(stream)
        return x * number, letter

    return forward


@example("iterators advanced", make=True)
def enumerate_iterator_rest():
    stream = enumerate(range(10, 20))

    def forward(x):
        for k, n in stream:
            if k % 3 == 2:
                break
            x = x + n
        return x

    return forward


# --- across breaks, exceptions --------------------------------------------------------------------------
@example("across breaks", X, [])
def list_appended_around_break(x, log):
    log.append("before")
    y = x + 1
    break_here()
    log.append("after")
    return y * len(log)


@example("across breaks", X, Cell(0))
def attributes_around_break(x, cell):
    cell.value += 1
    y = x * cell.value
    break_here()
    cell.value += 1
    return y * cell.value


@example("across breaks", X)
def buffer_around_break(x):
    x.add_(1)
    break_here()
    x.mul_(2)
    return x


@example("across breaks", X)
def nonlocal_around_break(x):
    total = 0

    def add(n):
        nonlocal total
        total += n

    add(1)
    break_here()
    add(2)
    return x * total


@example("across breaks", X, [])
def iterator_around_break(x, log):
    stream = iter([1, 2, 3])
    x = x + next(stream)
    break_here()
    log.extend(stream)
    return x * len(log)


@example("across breaks", X)
def generator_around_break(x):
    stream = (k + 1 for k in range(4))
    y = x * next(stream)
    break_here()
    return y + sum(stream)


@example("across breaks", X)
def aliases_around_break(x):
    a = [x]
    b = {"a": a}
    break_here()
    b["a"].append(x + 1)
    return a[1] + len(a), b["a"] is a


@example("across exceptions", X, [])
def effects_before_exception(x, log):
    log.append("before")
    x.add_(1)
    raise ValueError(f"after {len(log)}")


@example("across exceptions", X, [])
def effects_in_handlers(x, log):
    try:
        log.append("try")
        raise KeyError("k")
    except KeyError as error:
        log.append(error.args[0])
    finally:
        log.append("finally")
    return x + len(log)


@example("across exceptions", X, [])
def effects_of_context_manager(x, log):
    @contextlib.contextmanager
    def noting():
        log.append("enter")
        yield
        log.append("exit")

    with noting():
        y = x + 1
        break_here()
        y = y * 2
    return y


# --- modules and modes ----------------------------------------------------------------------------------
@example("exactly once and in order", make=True)
def running_statistics():
    module = nn.BatchNorm1d(3)
    return module, module._buffers


@example("exactly once and in order", make=True)
def parameter_updated_in_place():
    weight = nn.Parameter(torch.ones(3))

    def forward(x):
        with torch.no_grad():
            weight.mul_(0.5)
        return x * weight

    return forward, [weight]


@example("exactly once and in order")
def grad_mode_left_changed(x):
    torch.set_grad_enabled(False)
    y = x + 1
    torch.set_grad_enabled(True)
    return y, torch.is_grad_enabled()
