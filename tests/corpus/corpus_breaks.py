"""Examples: breaks in straight code, loops, `with`, `try` and comprehensions, and what causes them."""

import contextlib
import os
import sys

import torch
from corpus import X, Y, example


def show(value=""):
    """A call that has to happen while the program runs."""
    print(value, end="\r")


# --- causes ---------------------------------------------------------------------------------------------
@example("causes")
def print_in_the_middle(x):
    y = x + 1
    print("shape", tuple(y.shape), end="\r")
    return y * 2


@example("causes", also=[(-X,), (X * 3,)])
def branch_on_data(x):
    if x.sum() > 0:
        return x + 1
    return x - 1


@example("causes", also=[(-X,)])
def branch_on_data_with_elif(x):
    y = x * 2
    if y.max() > 100:
        y = y / 100
    elif y.min() < -1:
        y = y + 1
    return y * 3


@example("causes")
def item_used_as_number(x):
    n = x.argmax().item()
    return x + n


@example("causes")
def float_of_tensor(x):
    scale = float(x.abs().max())
    return x / scale


@example("causes")
def tolist_of_tensor(x):
    sizes = torch.tensor([1, 3]).tolist()
    return x.split(sizes)[1] * 2


@example("causes")
def nonzero_and_mask(x):
    chosen = x[x > 0]
    return chosen.sum() + torch.nonzero(x).shape[1]


@example("causes")
def unique_values(x):
    values = torch.unique((x > 0).long())
    return values.sum() + x


@example("causes")
def tensor_in_f_string(x):
    text = f"{x.sum():.1f}"
    return x + 1, text


@example("causes", X, [])
def tensor_formatted_then_changed(x, log):
    total = x.sum()
    text = f"{total:.2f} of {tuple(x.shape)}"
    total.add_(1)
    log.append(f"{x.mean():8.3f}|")
    return x + 1, text, total


@example("causes")
def text_of_tensor_looked_at(x):
    text = f"v={x.sum():.1f}"
    return x + 1, text.split("="), text + "!", text == "v=0.0"


@example("causes")
def assert_on_data(x):
    assert x.isfinite().all(), "not finite"
    return x + 1


@example("causes")
def bool_of_tensor_in_expression(x):
    flag = bool((x > 100).any()) or x.shape[0] == 4
    return x + flag


@example("causes", also=[(X * 10,)])
def while_on_data(x):
    n = 0
    while x.norm() > 1:
        x = x / 2
        n += 1
    return x, n


@example("causes")
def environment_and_files(x):
    flag = os.environ.get("CORPUS_FLAG", "0") == "1"
    return x + 1 if flag else x - 1


@example("causes")
def version_checks(x):
    if sys.version_info >= (3, 11) and torch.__version__ >= "2.0":
        return x + 1
    return x


@example("causes")
def backward_inside(x):
    w = torch.ones(3, requires_grad=True)
    (x * w).sum().backward()
    return w.grad + 1


@example("causes")
def c_function_callback(x):
    return x.clone().apply_(lambda v: v * 2) + 1


@example("causes")
def tensor_indexed_by_python_number_of_tensor(x):
    k = int(x[0, 0] > 0)
    return x[k] + 1


# --- in loops -------------------------------------------------------------------------------------------
@example("inside loops")
def break_in_for_loop(x):
    for k in range(3):
        x = x + k
        show(k)
        x = x * 2
    return x


@example("inside loops")
def break_in_while_loop(x):
    k = 0
    while k < 2:
        x = x + 1
        show()
        k += 1
    return x * k


@example("inside loops", [X, Y])
def break_in_loop_over_tensors(tensors):
    total = 0
    for k, t in enumerate(tensors):
        total = total + t * k
        show()
    return total


@example("inside loops")
def early_exit_from_loop(x):
    for k in range(4):
        x = x + 1
        if x.sum() > 10:
            break
    return x * k


@example("inside loops")
def nested_loops_with_break(x):
    for i in range(2):
        for j in range(2):
            x = x + i * j
        show()
    return x


# --- in with --------------------------------------------------------------------------------------------
@example("inside with", X.clone().requires_grad_())
def break_in_no_grad(x):
    with torch.no_grad():
        y = x + 1
        show()
        y = y * 2
    return y + x


@example("inside with")
def break_in_autocast(x):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = x @ x.T
        show()
        y = y @ y
    return y


class Manager:
    def __init__(self):
        self.log = []

    def __enter__(self):
        self.log.append("enter")
        return self

    def __exit__(self, *error):
        self.log.append(error[0] is None)


@example("inside with")
def break_in_user_context_manager(x):
    with Manager() as manager:
        y = x + 1
        show()
        y = y * 2
    return y + len(manager.log)


@example("inside with", X, Manager())
def break_in_manager_from_outside(x, manager):
    with manager:
        show()
        x = x + 1
    return x


@example("inside with")
def break_in_suppress(x):
    with contextlib.suppress(ValueError):
        y = x + 1
        show()
        y = y * 2
    return y


@example("inside with")
def break_in_nested_with(x):
    with torch.no_grad(), Manager() as manager:
        y = x + 1
        show()
    return y * len(manager.log)


# --- in try ---------------------------------------------------------------------------------------------
@example("inside try")
def break_in_try(x):
    try:
        y = x + 1
        show()
        return y * 2
    except ValueError:
        return x


@example("inside try")
def break_in_except(x):
    try:
        raise ValueError("reason")
    except ValueError as error:
        show(error)
        x = x + 1
    return x * 2


@example("inside try")
def break_in_finally(x):
    try:
        x = x + 1
    finally:
        show()
        x = x * 2
    return x


@example("inside try")
def eager_call_raises(x):
    y = x + 1
    try:
        open("")
    except OSError:
        y = y * 2
    return y


@example("inside try")
def exception_after_break(x):
    try:
        show()
        raise KeyError("a")
    except KeyError as error:
        return x + len(error.args)


# --- in comprehensions and expressions ------------------------------------------------------------------
@example("inside comprehensions", [X, Y])
def break_in_comprehension(tensors):
    return sum([t + (show() or 1) for t in tensors])


@example("inside comprehensions")
def break_in_the_middle_of_expression(x):
    return (x + 1) * (show() or 2) + [x, x * 3][(show() or 1)]


@example("inside comprehensions", [X, Y])
def break_in_generator_expression(tensors):
    return torch.stack(list(t * 2 + (show() or 0) for t in tensors))


@example("inside comprehensions")
def break_in_argument_list(x):
    return torch.add(x * 2, show() or x, alpha=2)
