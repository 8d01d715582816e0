"""Examples: collections, sets, dicts and their views, copies."""

import collections
import copy
import types

import torch
from corpus import V, X, Y, example

Pair = collections.namedtuple("Pair", ["a", "b"], defaults=[3])


# --- collections ----------------------------------------------------------------------------------------
@example("collections.OrderedDict")
def ordered_dict(x):
    table = collections.OrderedDict(a=x, b=x + 1)
    table["c"] = x * 2
    table.move_to_end("a")
    table.popitem(last=False)
    return table, list(table)


@example("collections.OrderedDict", collections.OrderedDict(a=X, b=Y))
def ordered_dict_argument(table):
    return sum(table.values()), next(iter(table)), list(reversed(table))


@example("collections.defaultdict", [("a", X), ("b", Y), ("a", Y)])
def defaultdict_groups(pairs):
    groups = collections.defaultdict(list)
    for name, tensor in pairs:
        groups[name].append(tensor)
    return {name: torch.stack(tensors).sum(0) for name, tensors in groups.items()}


@example("collections.defaultdict", X, collections.defaultdict(int))
def defaultdict_counter_argument(x, counts):
    for size in x.shape:
        counts[size] += 1
    counts["calls"] += 1
    return x + counts["calls"], counts


@example("collections.deque")
def deque_with_maxlen(x):
    window = collections.deque(maxlen=2)
    for k in range(4):
        window.append(x + k)
    return sum(window), len(window)


@example("collections.deque", X, collections.deque([1, 2]))
def deque_both_ends(x, queue):
    queue.appendleft(0)
    queue.append(x.shape[0])
    first = queue.popleft()
    queue.rotate(1)
    return x * queue[0] + first, list(queue)


@example("collections.namedtuple", Pair(X, Y))
def namedtuple_argument(pair):
    a, b = pair
    return Pair(a + pair.b, b=pair[0] - b), pair._fields


@example("collections.namedtuple")
def namedtuple_defaults(x):
    pair = Pair(x)
    return pair._replace(a=x * pair.b), Pair._make([1, 2]), pair._asdict()["b"]


@example("collections.Counter")
def counter(x):
    counts = collections.Counter("abracadabra")
    counts.update("a")
    return x * counts["a"] + counts["missing"], counts.most_common(1), sorted(counts.elements())[:2]


@example("collections.ChainMap")
def chain_map(x):
    settings = collections.ChainMap({"rate": 3}, {"rate": 1, "steps": 2})
    return x * settings["rate"] + settings["steps"], sorted(settings)


@example("collections.UserDict")
def user_dict(x):
    class Lower(collections.UserDict):
        def __setitem__(self, key, value):
            super().__setitem__(key.lower(), value)

    table = Lower()
    table["RATE"] = x
    return table["rate"] + 1


@example("collections.SimpleNamespace", X, types.SimpleNamespace(rate=2, tensor=V))
def simple_namespace(x, options):
    options.rate += 1
    made = types.SimpleNamespace(y=x * options.rate)
    return made.y + options.tensor, options == types.SimpleNamespace()


PROXY = types.MappingProxyType({"a": 2})


@example("collections.MappingProxyType")
def mapping_proxy(x):
    return x * PROXY["a"] + len(PROXY)


# --- sets -----------------------------------------------------------------------------------------------
@example("sets")
def set_algebra(x):
    a, b = {1, 2, 3}, {2, 3, 4}
    a.add(5)
    a.discard(1)
    sizes = len(a | b), len(a & b), len(a - b), len(a ^ b), {2} <= a, a.isdisjoint({9})
    return x * sum(sizes), sizes


@example("sets", X, {"a", "b"})
def set_argument(x, names):
    if "a" in names and "c" not in names:
        names.add("c")
        return x + len(names)
    return x


@example("sets", [X, Y, X])
def set_of_tensors(tensors):
    unique = list(dict.fromkeys(tensors))
    return sum(unique), len(set(tensors))


@example("sets")
def frozenset_as_key(x):
    table = {frozenset({1, 2}): 5}
    return x * table[frozenset([2, 1])]


# --- dicts and views ------------------------------------------------------------------------------------
@example("dict views and ordering", {"w": X, "b": V})
def dict_iteration(parameters):
    total = 0
    for name, value in parameters.items():
        total = total + value * len(name)
    return total, list(parameters.keys()), [*parameters.values()][0] + 1


@example("dict views and ordering")
def dict_view_algebra(x):
    a, b = {"p": 1, "q": 2}, {"q": 3, "r": 4}
    return x + len(a.keys() & b.keys()), sorted(a.keys() | b.keys()), a.items() <= {"p": 1, "q": 2, "z": 0}.items()


@example("dict views and ordering", {"a": X, "b": Y})
def dict_mutated(table):
    table["c"] = table.pop("a") + 1
    table.setdefault("d", table["b"] * 2)
    table.update({"e": table["d"]}, f=1)
    del table["b"]
    return table["e"] + table["c"], list(table)


@example("dict views and ordering", X, {"lr": 0.1})
def dict_get_and_defaults(x, options):
    rate = options.get("lr", 1.0) * options.get("scale", 2)
    return x * rate, "lr" in options, dict(options, lr=3), options | {"k": 1}


@example("dict views and ordering")
def dict_keyed_by_odd_things(x):
    table = {(1, 2): x, torch.float32: 3, x.shape: 4, None: 5, torch.relu: 6, int: 7}
    return table[1, 2] * table[x.dtype] + table[torch.Size([4, 3])] + table[torch.relu] + table[int]


@example("dict views and ordering")
def dict_view_is_live(x):
    table = {"a": 1}
    keys, values = table.keys(), table.values()
    table["b"] = 2
    return x * sum(values), list(keys), len(keys)


@example("dict views and ordering", {"b": X, "a": Y})
def dict_reordered(table):
    ordered = {k: table[k] for k in sorted(table)}
    first = next(iter(ordered.values()))
    return first, dict(zip(ordered, range(2))), dict(reversed(list(table.items()))).popitem()[0]


# --- lists and tuples -----------------------------------------------------------------------------------
@example("lists and tuples", [X, Y])
def list_methods(items):
    items.append(items[0] + 1)
    items.insert(0, items.pop())
    items.extend([items[-1]] * 2)
    items.reverse()
    return sum(items[1:3]), len(items)


@example("lists and tuples")
def slices_of_lists(x):
    numbers = list(range(10))
    numbers[2:4] = [20, 30, 40]
    del numbers[::3]
    return x * numbers[-1], numbers[::-1][:3], numbers.index(20), numbers.count(5)


@example("lists and tuples", (X, (Y, [V])))
def nested_unpacking(nested):
    a, (b, [c]) = nested
    return a * c + b


@example("lists and tuples", [1, 2], [1, 3])
def comparing_lists(a, b):
    return torch.ones(2) * (a < b) + (a == [1, 2]) + (tuple(a) <= (1, 2)), a + b, a * 2


@example("lists and tuples", [X, X])
def aliased_elements(items):
    items[0].add_(1)
    return items[1], items[0] is items[1]


@example("lists and tuples")
def list_of_lists_aliased(x):
    row = [0]
    table = [row] * 3
    table[0].append(x)
    return table[2][1] + 1, table[0] is table[1]


@example("lists and tuples")
def stack_machine(x):
    stack = []
    for token in "x 2 * x +".split():
        if token == "x":
            stack.append(x)
        elif token.isdigit():
            stack.append(int(token))
        else:
            b, a = stack.pop(), stack.pop()
            stack.append(a * b if token == "*" else a + b)
    return stack.pop()


@example("lists and tuples")
def range_questions(x):
    numbers = range(2, 20, 3)
    return (
        x * numbers[2],
        len(numbers),
        5 in numbers,
        list(reversed(numbers))[:2],
        numbers[1:3],
        range(3) == range(0, 3),
    )


# --- copy -----------------------------------------------------------------------------------------------
class Options:
    def __init__(self):
        self.names, self.rate = ["a"], 2


@example("copy", X, Options())
def shallow_copy(x, options):
    other = copy.copy(options)
    other.rate = 5
    other.names.append("b")
    return x * options.rate + other.rate, options.names is other.names


@example("copy", X, {"a": [1, 2], "b": {"c": 3}})
def deep_copy_of_containers(x, table):
    other = copy.deepcopy(table)
    other["a"].append(9)
    return x * sum(other["a"]) + len(table["a"])


@example("copy", [X, Y])
def deep_copy_of_tensors(tensors):
    mine = copy.deepcopy(tensors)
    mine[0].add_(1)
    return mine[0] + tensors[0]


@example("copy", X, Options())
def deep_copy_of_object(x, options):
    other = copy.deepcopy(options)
    other.names.append("b")
    return x + len(other.names), options.names


@example("copy", {"a": X})
def dict_and_list_copies(table):
    other, items = table.copy(), [1, 2].copy()
    other["a"] = other["a"] + len(items)
    return other["a"] - table["a"], list(table) is table
