"""Examples: control flow, names and scopes, match."""

import torch
from corpus import X, Y, example

scale = 2.0
calls = 0


# --- names and scopes -----------------------------------------------------------------------------------
@example("classes defined inside functions")
def class_in_function(x):
    class Scaler:
        factor = 3

        def __call__(self, t):
            return t * self.factor

    return Scaler()(x)


@example("classes defined inside functions", X, 2)
def class_that_closes_over_an_argument(x, n):
    class Adder:
        def add(self, t):
            return t + n

    return Adder().add(x)


@example("closures shared between functions")
def two_closures_one_cell(x):
    total = 0

    def add(n):
        nonlocal total
        total += n

    def read():
        return total

    for k in range(3):
        add(k)
    return x * read()


@example("closures shared between functions", make=True)
def closure_with_state():
    steps = [0]

    def step(x):
        steps[0] += 1
        return x + steps[0]

    return step, steps


@example("nonlocal", make=True)
def nonlocal_counter():
    count = 0

    def forward(x):
        nonlocal count
        count += 1
        return x + 1, count

    return forward


@example("nonlocal")
def nonlocal_tensor(x):
    best = x

    def visit(t):
        nonlocal best
        best = torch.maximum(best, t)

    visit(x * 2)
    visit(-x)
    return best


@example("nonlocal")
def nonlocal_through_two_functions(x):
    depth = 0

    def outer(t):
        def inner(u):
            nonlocal depth
            depth += 1
            return u + depth

        return inner(inner(t))

    return outer(x), depth


@example("global")
def global_read(x):
    return x * scale


@example("global", make=True)
def global_write():
    global calls
    calls = 0

    def forward(x):
        global calls
        calls += 1
        return x + calls

    return forward


@example("walrus")
def walrus_in_condition(x):
    if (n := x.shape[0]) > 2:
        return x * n
    return x


@example("walrus")
def walrus_in_comprehension(x):
    sizes = [last := s + 1 for s in x.shape]
    return x + last, sizes


@example("walrus")
def walrus_in_while(x):
    items = [1, 2, 3]
    while (item := items.pop()) > 1:
        x = x + item
    return x, item


# --- match ----------------------------------------------------------------------------------------------
@example("match", X, "relu", also=[(X, "tanh"), (X, "other")])
def match_literal(x, name):
    match name:
        case "relu":
            return torch.relu(x)
        case "tanh" | "sigmoid":
            return torch.tanh(x)
        case _:
            return x


@example("match", X, [1, 2, 3], also=[(X, []), (X, [5])])
def match_sequence(x, items):
    match items:
        case []:
            return x
        case [one]:
            return x + one
        case [first, *rest]:
            return x * first + sum(rest)


@example("match", X, {"op": "scale", "by": 3}, also=[(X, {"op": "shift", "by": 2, "more": 1})])
def match_mapping(x, config):
    match config:
        case {"op": "scale", "by": by}:
            return x * by
        case {"op": "shift", **rest}:
            return x + rest["by"], rest
    return x


class Point:
    __match_args__ = ("a", "b")

    def __init__(self, a, b):
        self.a, self.b = a, b


@example("match", X, Point(1, 2), also=[(X, Point(0, 7))])
def match_class(x, point):
    match point:
        case Point(0, b):
            return x - b
        case Point(a, b=other) if a < other:
            return x * a + other
    return x


@example("match")
def match_shape(x):
    match x.shape:
        case (batch, features):
            return x.reshape(batch * features)
        case _:
            return x


# --- loops and expressions ------------------------------------------------------------------------------
@example("star-expressions", [X, Y, X])
def star_unpack(tensors):
    first, *rest = tensors
    return torch.cat([first, *rest], dim=0)


@example("star-expressions", X, {"dim": 1})
def star_star_call(x, options):
    def total(t, *others, dim=0, keepdim=False):
        return t.sum(dim, keepdim) + sum(others)

    return total(x, *[1, 2], **options, keepdim=True)


@example("star-expressions")
def star_merge(x):
    a, b = {"p": 1, "q": 2}, {"q": 5}
    merged = {**a, **b, "r": 7}
    return x * merged["q"] + merged["r"], [*a, *b], {*a, *b}


@example("chained comparisons", X, 3, also=[(X, 30)])
def chained_comparison(x, n):
    if 0 < n <= 10 != 5:
        return x * n
    return x - n


@example("chained comparisons")
def chained_comparison_of_sizes(x):
    return x + (1 <= x.shape[0] <= x.numel() < 100)


@example("comprehension scoping of 3.12")
def nested_comprehension(x):
    n = 2
    table = [[x[i, j] * n for j in range(3)] for i in range(2)]
    return torch.stack([torch.stack(row) for row in table])


@example("comprehension scoping of 3.12")
def comprehension_with_closure(x):
    functions = [lambda t, k=k: t * k for k in range(3)]
    late = [lambda: k for k in range(3)]
    k = 10
    return functions[2](x), [f() for f in late], k


@example("comprehension scoping of 3.12", [X, Y])
def comprehension_of_each_kind(tensors):
    sizes = {t.shape[1] for t in tensors}
    named = {f"t{k}": t for k, t in enumerate(tensors) if k >= 0}
    return named["t0"] + named["t1"], sizes, sum(s for s in sizes)


@example("loops")
def while_else(x):
    k = 0
    while k < 3:
        k += 1
        if k == 7:
            break
    else:
        x = x + 100
    return x * k


@example("loops")
def for_else_continue(x):
    for row in x:
        if row.shape[0] != 3:
            continue
        x = x + row
    else:
        x = -x
    return x


@example("loops", [X, Y, X])
def loop_over_zip_and_enumerate(tensors):
    total = 0
    for k, (a, b) in enumerate(zip(tensors, reversed(tensors))):
        total = total + k * a * b
    return total
