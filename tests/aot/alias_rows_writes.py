"""The rows of the aliasing table that change their inputs: elements, buffers, shape, storage, autograd state."""

import torch
from alias_worlds import (
    World,
    after,
    buffer_and_leaf,
    channels_last,
    expanded_and_plain,
    integers,
    laid_out,
    leaf,
    leaves,
    made_in,
    module_and,
    module_and_leaf,
    non_leaves,
    numbers,
    of_base,
    plain,
    strided,
    then,
    transposed,
    view_of_leaf,
)


# --- writes to inputs -------------------------------------------------------------------------------
def set_row(x, *_):
    x[0] = 5.0


def swap(x, y):
    t = x.clone()
    x.copy_(y)
    y.copy_(t)


def write_view_return_base(x):
    v = x[1:]
    v.mul_(2)
    return x, v


def write_then_views(x, w):
    x.mul_(w)
    return x[0], x, x.t()


def write_twice(x):
    a = x * 1
    x.add_(1)
    b = x * 1
    x.add_(1)
    return a, b, x * 1


def read_before_and_after(x, w):
    y = x * w
    x.add_(1)
    return y + x


def write_data(x):
    x.data.add_(1)
    return x * 2


def write_detach(x):
    x.detach().add_(1)
    return x * 2


def view_before_write(x):
    v = x[0]
    x.add_(1)
    return v, v * 2


def no_grad_row(t):
    with torch.no_grad():
        return (t * 1)[0]


def add_one(x, *_):
    x.add_(1)


def double(x, *_):
    x.mul_(2)


BOTH = {
    "same tensor": lambda t: [t, t],
    "base and view": lambda t: [t, t[1:]],
    "view and base": lambda t: [t[1:], t],
    "overlapping": lambda t: [t[:3], t[1:]],
    "halves": lambda t: [t[:2], t[2:]],
    "interleaved": lambda t: [t[:, ::2], t[:, 1::2]],
    "transposed": lambda t: [t, t.t()],
    "detached": lambda t: [t, t.detach()],
    "view of another type": lambda t: [t, t.view(torch.int32)],
}


def pair(kind, grad):
    def make():
        root = leaf(4, 4) if grad else numbers(4, 4)
        base = root * 1 if grad else root
        return World(BOTH[kind](base), [root, base] if grad else [base])

    return make


WRITES = [
    ("add_", then(add_one, lambda x: x * 2), plain((4, 4))),
    ("add_ to non-leaf", then(add_one, lambda x: x * 2), non_leaves((4, 4))),
    ("add_ to leaf raises", then(add_one, lambda x: x * 2), leaves((4, 4))),
    ("add_ to leaf under no_grad", after(torch.no_grad, add_one, lambda x: x * 2), leaves((4, 4))),
    ("add_ to non-leaf under no_grad", after(torch.no_grad, add_one, lambda x: x * 2), non_leaves((4, 4))),
    ("add_ to view of leaf raises", then(lambda x: x[0].add_(1), lambda x: x * 2), leaves((4, 4))),
    (
        "add_ to an input that is a view of a leaf raises",
        then(add_one, lambda x: x * 2),
        view_of_leaf(lambda t: t[0]),
    ),
    ("written and returned", lambda x: x.add_(1), plain((4, 4))),
    ("written and returned, non-leaf", lambda x: (x.add_(1), x), non_leaves((4, 4))),
    ("written twice", write_twice, plain((4, 4))),
    ("written twice, non-leaf", write_twice, non_leaves((4, 4))),
    ("written only", lambda x: add_one(x), plain((4, 4))),
    ("setitem", then(set_row, lambda x: x.sum()), non_leaves((4, 4))),
    ("view written, base returned", write_view_return_base, plain((4, 4))),
    ("view written, base returned, non-leaf", write_view_return_base, non_leaves((4, 4))),
    ("view before write", view_before_write, non_leaves((4, 4))),
    ("views after write", write_then_views, buffer_and_leaf((4, 4), (4, 4))),
    ("buffer gets a history", lambda b, w: b.add_(w), buffer_and_leaf((4, 4), (4, 4))),
    ("buffer gets a detached value", lambda b, w: (b.add_(w.detach()), w * 2), buffer_and_leaf((4, 4), (4, 4))),
    ("read before and after", read_before_and_after, non_leaves((4, 4), (4, 4))),
    ("data written", write_data, leaves((4, 4))),
    ("data written, non-leaf", write_data, non_leaves((4, 4))),
    ("detached alias written", write_detach, leaves((4, 4))),
    ("swap", then(swap, lambda x, y: x - y), non_leaves((4, 4), (4, 4))),
    ("swap leaves under no_grad", after(torch.no_grad, swap, lambda x, y: x - y), leaves((4, 4), (4, 4))),
    ("zero_", then(lambda x: x.zero_(), lambda x: x + 1), non_leaves((4, 4))),
    ("copy_ with broadcast", then(lambda x, y: x.copy_(y), lambda x, y: x * 2), non_leaves((4, 4), (4,))),
    ("copy_ of another type", then(lambda x, y: x.copy_(y.long()), lambda x, y: x * 2), plain((4, 4), (4, 4))),
    ("transposed written", then(add_one, lambda x: (x, x.t())), laid_out(transposed, (4, 4), grad=True)),
    ("channels_last written", then(add_one, lambda x: (x, x * 2)), laid_out(channels_last, (2, 3, 4, 4), grad=True)),
    ("strided written", then(double, lambda x: (x, x * 2)), laid_out(strided, (4, 4))),
    ("view of unseen base written", then(double, lambda x: x.sum()), of_base(lambda b: b[1], grad=True)),
    ("view of unseen plain base written", then(double, lambda x: x.sum()), of_base(lambda b: b[:, 1])),
    ("expanded written raises", then(add_one, lambda x: x * 2), of_base(lambda b: b[:1].expand(4, 4))),
    ("expanded written raises, grad", then(add_one, lambda x: x * 2), of_base(lambda b: b[:1].expand(4, 4), grad=True)),
    (
        "expanded read, other written",
        then(lambda x, y: y.add_(x), lambda x, y: y * 1),
        expanded_and_plain,
    ),
    (
        "split of unseen base written raises",
        then(add_one, lambda x: x * 1),
        view_of_leaf(lambda t: t.unbind(0)[0]),
    ),
    (
        "no_grad view written in grad mode raises",
        then(add_one, lambda x: x * 1),
        view_of_leaf(no_grad_row),
    ),
    ("bernoulli_", lambda x: x.bernoulli_(0.5), plain((4, 4))),
    ("normal_ of non-leaf", then(lambda x: x.normal_(), lambda x: x * 2), non_leaves((4, 4))),
    ("inference tensor written", then(add_one, lambda x: x * 2), made_in(torch.inference_mode, plain((4, 4)))),
    ("int input written", then(add_one, lambda x: x * 2), integers),
    (
        "written input is needed by backward",
        lambda x, w: ((x * w).sum(), x.zero_())[0],
        buffer_and_leaf((4, 4), (4, 4)),
    ),
    ("clone protects", lambda x, w: ((x.clone() * w).sum(), x.zero_())[0], buffer_and_leaf((4, 4), (4, 4))),
    ("error after a write", lambda x: (x.add_(1), x.view(3, 3)), plain((4, 4))),
    *(
        (f"{kind}: first written{', grad' * grad}", then(add_one, lambda x, y: (x * 2, y * 1)), pair(kind, grad))
        for kind in BOTH
        for grad in (False, True)
        if not (grad and kind == "view of another type")
    ),
    *(
        (
            f"{kind}: both written{', grad' * grad}",
            then(lambda x, y: (x.add_(1), y.mul_(2)), lambda x, y: (x, y)),
            pair(kind, grad),
        )
        for kind in ("same tensor", "base and view", "overlapping", "halves", "interleaved")
        for grad in (False, True)
    ),
]


# --- modules ----------------------------------------------------------------------------------------
def update_state(m, x):
    m.state.add_(x)
    m.steps += 1
    return m.state * m.weight, m.row


def replace_state(m, x):
    m.state = m.state * 0.5 + x
    return m.state.sum()


def update_row(m, x):
    m.row.zero_()
    return m.state + x


def ema(m, x):
    with torch.no_grad():
        m.state.mul_(0.9).add_(x, alpha=0.1)
    return (x * m.weight).sum() + m.state.sum()


def write_weight(m, x):
    with torch.no_grad():
        m.weight.add_(1)
    return x * m.weight


MODULES = [
    ("buffer written", update_state, module_and_leaf((3, 4))),
    ("buffer written by plain", update_state, module_and((3, 4))),
    ("buffer replaced", replace_state, module_and((3, 4))),
    ("buffer's view written", update_row, module_and_leaf((3, 4))),
    ("moving average", ema, module_and_leaf((3, 4))),
    ("weight written under no_grad", write_weight, module_and_leaf((3, 4))),
    ("weight written raises", lambda m, x: (m.weight.add_(1), x * m.weight), module_and((3, 4))),
    ("batch norm", lambda m, x: (m.norm(x), m.norm.running_mean), module_and_leaf((3, 4))),
    ("batch norm twice", lambda m, x: m.norm(m.norm(x)), module_and_leaf((3, 4))),
    (
        "weight's data replaced",
        lambda m, x: (setattr(m.weight, "data", m.weight.data * 2), x * m.weight)[1],
        module_and((3, 4)),
    ),
    ("grad read", lambda m, x: (x * m.weight, m.weight.grad), module_and((3, 4))),
]


# --- shape, storage and autograd state of inputs ----------------------------------------------------
def set_memory(x, value):
    x.data = value


def move_and_use(x, y):
    x.data = x.detach() * 0.5
    return x, (x * y).sum(), x[1:]


def write_move_write(x, y):
    x.add_(1)
    x.data = x * y.detach()
    x.mul_(2)
    return x.sum()


def views_and_move(x, y):
    old = x[1:]
    x.data = y.detach() * 2
    old.add_(1)
    return x.view(2, 2), x * y


def exchange_memories(x, y):
    x.data, y.data = y.data, x.data
    return x * 2, y


def average_by_data(m, x):
    """As self-supervised training keeps the second encoder."""
    with torch.no_grad():
        m.state.data = m.state.data * 0.9 + m.weight.data * 0.1
    return (m.state * x).sum()


METADATA = [
    ("t_", then(lambda x: x.t_(), lambda x: x * 2), plain((4, 3))),
    ("t_ of non-leaf", then(lambda x: x.t_(), lambda x: x * 2), non_leaves((4, 3))),
    ("unsqueeze_", then(lambda x: x.unsqueeze_(0), lambda x: x.sum(0)), plain((4, 3))),
    ("squeeze_", then(lambda x: x.squeeze_(), lambda x: x * 1), plain((4, 1, 3))),
    ("transpose_ and written", then(lambda x: x.transpose_(0, 1).add_(1), lambda x: x * 1), plain((4, 3))),
    ("as_strided_", then(lambda x: x.as_strided_((2, 2), (1, 2)), lambda x: x * 1), plain((4, 3))),
    ("resize_", then(lambda x: x.resize_(2), lambda x: x * 1), plain((4,))),
    ("resize_ larger", then(lambda x: x.resize_(8).zero_(), lambda x: x * 1), plain((4,))),
    ("resize_ of leaf raises", then(lambda x: x.resize_(2), lambda x: x * 1), leaves((4,))),
    ("data replaced", then(lambda x, y: setattr(x, "data", y), lambda x, y: x * 2), plain((4,), (4,))),
    (
        "data replaced, leaf",
        then(lambda x, y: setattr(x, "data", y.detach() * 2), lambda x, y: x * 2),
        leaves((4,), (4,)),
    ),
    ("data replaced by other shape", then(lambda x, y: setattr(x, "data", y), lambda x, y: x * 2), plain((4,), (3, 2))),
    ("other memory", move_and_use, buffer_and_leaf((4,), (4,))),
    ("other memory for a leaf", move_and_use, leaves((4,), (4,))),
    (
        "other memory for a leaf that was used",
        lambda x, y: (x.exp() * y).sum() + move_and_use(x, y)[1],
        leaves((4,), (4,)),
    ),
    ("other memory, and written before and after", write_move_write, buffer_and_leaf((4,), (4,))),
    ("other memory, and views of the old and the new", views_and_move, buffer_and_leaf((4,), (4,))),
    (
        "other memory in columns",
        lambda x, y: (set_memory(x, (y.detach() * 2).t()), x, x[0]),
        buffer_and_leaf((3, 2), (2, 3)),
    ),
    ("other memory twice", lambda x, y: (move_and_use(x, y), move_and_use(x, y))[1], buffer_and_leaf((4,), (4,))),
    (
        "other memory, whose value is returned",
        lambda x, y: (lambda v: (set_memory(x, v), v, x))(y.detach() * 2),
        buffer_and_leaf((4,), (4,)),
    ),
    ("two memories exchanged", exchange_memories, plain((4,), (4,))),
    ("moving average by data", average_by_data, module_and_leaf((3, 4))),
    ("set_", then(lambda x, y: x.set_(y), lambda x, y: (x * 2, x)), plain((4,), (4,))),
    ("requires_grad_", then(lambda x: x.requires_grad_(), lambda x: x * 2), plain((4,))),
    ("requires_grad_(False)", then(lambda x: x.requires_grad_(False), lambda x: x * 2), leaves((4,))),
    ("requires_grad set", then(lambda x: setattr(x, "requires_grad", True), lambda x: (x, x * 2)), plain((4,))),
    (
        "requires_grad_(False) of non-leaf raises",
        then(lambda x: x.requires_grad_(False), lambda x: x * 2),
        non_leaves((4,)),
    ),
    (
        "requires_grad_ of integers raises",
        then(lambda x: x.requires_grad_(), lambda x: x * 2),
        integers,
    ),
    ("detach_ of leaf", then(lambda x: x.detach_(), lambda x: x * 2), leaves((4,))),
    ("detach_ of non-leaf", then(lambda x: x.detach_(), lambda x: (x * 2, x)), non_leaves((4,))),
    ("detach_ of a view raises", then(lambda x: x.detach_(), lambda x: x * 2), of_base(lambda b: b[0], grad=True)),
    ("requires_grad_ and written", lambda x, w: x.mul_(w).detach_().add_(1), buffer_and_leaf((4,), (4,))),
]

WRITING = {"writes": WRITES, "modules": MODULES, "metadata": METADATA}
