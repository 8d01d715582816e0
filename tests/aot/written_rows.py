"""Programs that write to a tensor between a forward and its backward: eager refuses some of them, and so must we.

A row: (name, function, the tensors it is given, what is written, which gradients are asked for).  Tensors are named by
letters: small ones are data, capital ones want gradients; `h` is no leaf; beside `a`, `v` is a view of it, and `d` of
its `data`.
"""

import torch
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

ROWS = []


def row(name, function, tensors, write, ask=lambda out, t: out.sum().backward()):
    ROWS.append((name, function, tensors, write, ask))


def no_grad_write(name):
    def write(out, t):
        with torch.no_grad():
            t[name].add_(1)

    return write


def write_out(out, t):
    with torch.no_grad():
        out.add_(1)


def nothing(out, t):
    pass


class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, g):
        return 2 * ctx.saved_tensors[0] * g


class Unsaved(torch.autograd.Function):
    """Holds its input as an attribute: nobody counts, and the backward reads what is there then."""

    @staticmethod
    def forward(ctx, x):
        ctx.x = x
        return x * x

    @staticmethod
    def backward(ctx, g):
        return 2 * ctx.x * g


class OfOutput(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        y = x.exp()
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, g):
        return ctx.saved_tensors[0] * g


def through_data(out, t):
    t["a"].data.add_(1)


def through_detach(out, t):
    t["W"].detach().add_(1)


def step(out, t):
    t["W"].grad = torch.ones_like(t["W"])
    torch.optim.SGD([t["W"]], 0.1).step()


def first(out, t):
    out[0].sum().backward()


def second(out, t):
    out[1].sum().backward()


def twice(out, t):
    out.sum().backward(retain_graph=True)
    with torch.no_grad():
        t["W"].add_(1)
    out.sum().backward()


# --- inputs that eager saves, and ours need not -------------------------------------------------------
row("product_data", lambda a, W: a * W, "aW", no_grad_write("a"))
row("product_other", lambda a, W: a * W, "aW", no_grad_write("W"))
row("product_both", lambda V, W: V * W, "VW", no_grad_write("W"))
row("layer_norm_bias", lambda a, W, V: functional.layer_norm(a, (3,), W, V), "aWV", no_grad_write("V"))
row("layer_norm_weight", lambda a, W, V: functional.layer_norm(a, (3,), W, V), "aWV", no_grad_write("W"))
row("linear_weight", lambda H, M, V: functional.linear(H, M, V).sin(), "HMV", no_grad_write("M"))
row("linear_bias", lambda H, M, V: functional.linear(H, M, V).sin(), "HMV", no_grad_write("V"))
row("linear_input", lambda a, M, V: functional.linear(a, M, V).sin(), "aMV", no_grad_write("a"))
row("sin", lambda W: W.sin(), "W", no_grad_write("W"))
row("exp", lambda W: W.exp(), "W", no_grad_write("W"))
row("exp_out", lambda W: W.exp(), "W", write_out)
row("sin_out", lambda W: W.sin(), "W", write_out)
row("relu", lambda W: W.relu(), "W", no_grad_write("W"))
row("relu_out", lambda W: W.relu(), "W", write_out)
row("sigmoid_mid", lambda W: W.sigmoid() * 2, "W", no_grad_write("W"))
row("abs", lambda W: W.abs(), "W", no_grad_write("W"))
row("clamp", lambda W: W.clamp(min=0), "W", no_grad_write("W"))
row("where", lambda a, W, V: torch.where(a > 0, W, V), "aWV", no_grad_write("a"))
row("mask", lambda m, W: W.masked_fill(m, 0.0), "mW", lambda out, t: t["m"].logical_not_())
row("index", lambda W, i: W[i], "Wi", lambda out, t: t["i"].zero_())
row("embedding", lambda M, i: functional.embedding(i, M), "Mi", lambda out, t: t["i"].zero_())
row("cross_entropy", lambda H, i: functional.cross_entropy(H, i), "Hi", lambda out, t: t["i"].zero_())
row("mse", lambda H, a: functional.mse_loss(H, a), "Ha", no_grad_write("a"))
row("division", lambda a, W: a / W, "aW", no_grad_write("W"))
row("pow", lambda W: W**2, "W", no_grad_write("W"))
row("max", lambda W: W.max(), "W", no_grad_write("W"))
row("prod", lambda W: W.prod(), "W", no_grad_write("W"))
row("norm", lambda W: W.norm(), "W", no_grad_write("W"))
row("matmul", lambda H, M: H @ M, "HM", no_grad_write("H"))
row("view_saved", lambda H, M: H @ M.t(), "HM", lambda out, t: t["M"].detach()[0].zero_())
row("constant_zero_gradient", lambda a, W: (a * W).detach() + W, "aW", no_grad_write("a"))
row("dead", lambda a, W: ((a * W), W + 1)[1], "aW", no_grad_write("a"))

# --- inputs that eager does not save, and ours might ----------------------------------------------------
row("sum_then_sin", lambda a, W: (a + W).sin(), "aW", no_grad_write("a"))
row("sum_then_sin_leaf", lambda a, W: (a + W).sin(), "aW", no_grad_write("W"))
row("sum_then_sin_step", lambda a, W: (a + W).sin(), "aW", step)
row("shifted", lambda a, W: ((a - 1) * W).sin().sum(), "aW", no_grad_write("a"))
row("cast", lambda a, W: a.double() * W, "aW", no_grad_write("a"))
row("mean_of_data", lambda a, W: (W - a.mean()).exp(), "aW", no_grad_write("a"))
row("data_of_input", lambda a, W: a.data * W, "aW", no_grad_write("a"))
row("data_written", lambda a, W: (a + W).sin(), "aW", through_data)
row("data_written_saved", lambda a, W: a * W, "aW", through_data)
row("exp_then_more", lambda W: (W * 2).exp().sum(), "W", no_grad_write("W"))
row("relu_sum", lambda W: (W + 1).relu().sum(), "W", no_grad_write("W"))
row("tanh_kept", lambda W: W.tanh(), "W", no_grad_write("W"))
row("bool_mask_of_data", lambda a, W: (W * (a > 0)).sum(), "aW", no_grad_write("a"))
row("arange_mask", lambda W: (W * (W > 0)).sum(), "W", no_grad_write("W"))

# --- ways to write --------------------------------------------------------------------------------------
row("detach_written", lambda a, W: a * W, "aW", through_detach)
row("step", lambda a, W: a * W, "aW", step)
row("view_written", lambda a, W: a * W, "aW", lambda out, t: t["a"][0].zero_())
row("resized_view", lambda a, W: a[0] * W, "aW", lambda out, t: t["a"][1].zero_())
row("not_leaf", lambda h, W: h * W, "hW", lambda out, t: t["h"].add_(1))
row("retain_graph", lambda a, W: (a * W).exp(), "aW", nothing, twice)
row("alias_of_out", lambda W: (W.exp(), W.cos()), "W", lambda out, t: out[0].detach().add_(1), first)
row("alias_of_out_other", lambda W: (W.exp(), W.cos()), "W", lambda out, t: out[0].detach().add_(1), second)

# --- several outputs, partial backward ------------------------------------------------------------------
row("partial_first", lambda a, V, W: ((a * V), W.sin() * V), "aVW", no_grad_write("a"), first)
row("partial_second", lambda a, V, W: ((a * V), W.sin() * V), "aVW", no_grad_write("a"), second)


def shared_head(a, V, W):
    hidden = (a * V).tanh()
    return hidden * W, hidden.exp()


row("heads_first", shared_head, "aVW", no_grad_write("W"), first)
row("heads_second", shared_head, "aVW", no_grad_write("W"), second)


def wanted(name):
    return lambda out, t: out.sum().backward(inputs=[t[name]])


row("wanted", lambda a, V, W: V * a + W, "aVW", no_grad_write("a"), wanted("W"))
row("wanted_not", lambda a, V, W: V * a + W, "aVW", no_grad_write("a"), wanted("V"))


def layers(a, V, M, W):
    return ((a * V).exp() @ M.t()).tanh() * W


for name in "VMW":
    for written in "aVMW":
        row(f"wanted_{name}_of_layers_{written}", layers, "aVMW", no_grad_write(written), wanted(name))
row("wanted_computed_again", lambda a, V, W: (a * V).relu() * W, "aVW", no_grad_write("a"), wanted("W"))


def both_in_turn(out, t):
    torch.autograd.grad(out.sum(), t["W"], retain_graph=True)
    out.sum().backward()


def each_in_turn(out, t):
    for _ in range(2):
        for name in "VW":
            t[name].grad = sum(torch.autograd.grad(out.sum(), [t[name]], retain_graph=True))


row("wanted_in_turn", lambda a, V, W: V * a + W, "aVW", no_grad_write("a"), both_in_turn)
row("wanted_each", layers, "aVMW", nothing, each_in_turn)
row(
    "wanted_of_two",
    lambda a, V, W: ((a * V).exp(), W * V),
    "aVW",
    no_grad_write("a"),
    lambda out, t: (out[0] * out[1]).sum().backward(inputs=[t["W"]]),
)
row(
    "wanted_of_two_first",
    lambda a, V, W: ((a * V).exp(), W * V),
    "aVW",
    no_grad_write("a"),
    lambda out, t: out[1].sum().backward(inputs=[t["V"]]),
)


# --- written inside -----------------------------------------------------------------------------------
def written_then_saved(a, W):
    a.mul_(2)
    return a * W


def leaf_written_inside(a, W):
    with torch.no_grad():
        W.mul_(2)
    return W * a


def saved_and_copy(a, W):
    b = a.clone()
    a.add_(1)
    return b * W


row("written_inside", written_then_saved, "aW", nothing)
row("written_inside_and_after", written_then_saved, "aW", no_grad_write("a"))
row("leaf_written_inside", leaf_written_inside, "aW", nothing)
row("leaf_written_inside_and_after", leaf_written_inside, "aW", no_grad_write("W"))
row("copy_saved", saved_and_copy, "aW", no_grad_write("a"))
row("not_leaf_written", lambda h, W: h.mul_(W), "hW", lambda out, t: t["h"].add_(1))


# --- inputs that share memory -----------------------------------------------------------------------------
def view_written(a, v, W):
    v.add_(1)
    return a[0] * W


def view_saved(a, v, W):
    a[0].mul_(2)
    return v * W


def other_written(a, v, W):
    y = v.clone() * W
    a.add_(1)
    return y


def data_written(a, v, d, W):
    d.mul_(3)
    return v * W


for name in "av":
    row(f"shared_view_written_{name}", view_written, "avW", no_grad_write(name))
    row(f"shared_view_saved_{name}", view_saved, "avW", no_grad_write(name))
    row(f"shared_not_saved_{name}", other_written, "avW", no_grad_write(name))
for name in "avd":
    row(f"shared_data_{name}", data_written, "avdW", no_grad_write(name))
row("shared_nothing", view_written, "avW", nothing)
row("shared_saved_nothing", view_saved, "avW", nothing)
row("shared_and_wanted", lambda a, v, V, W: view_saved(a, v, V) + W, "avVW", no_grad_write("v"), wanted("W"))
row("shared_and_wanted_not", lambda a, v, V, W: view_saved(a, v, V) + W, "avVW", no_grad_write("v"), wanted("V"))

# --- custom functions and checkpoints ---------------------------------------------------------------------
row("function_saved", lambda W: Square.apply(W), "W", no_grad_write("W"))
row("function_attribute", lambda W: Unsaved.apply(W), "W", no_grad_write("W"))
row("function_attribute_data", lambda W: Unsaved.apply(W + 0), "W", no_grad_write("W"))
row("function_output", lambda W: OfOutput.apply(W), "W", write_out)
row("function_output_input", lambda W: OfOutput.apply(W), "W", no_grad_write("W"))


def checkpointed(reentrant):
    def run(a, V, W):
        return checkpoint(lambda a, V: (a * V).sin() * W, a, V, use_reentrant=reentrant)

    return run


for reentrant in (False, True):
    for name in "aVW":
        row(f"checkpoint_{reentrant}_{name}", checkpointed(reentrant), "aVW", no_grad_write(name))


# --- modules ------------------------------------------------------------------------------------------
def batch_norm(training):
    def run(H, W, V, r, v):
        return functional.batch_norm(H, r, v, W, V, training)

    return run


row("batch_norm_train", batch_norm(True), "HWVrv", lambda out, t: t["r"].zero_())
row("batch_norm_train_nothing", batch_norm(True), "HWVrv", nothing)
row("batch_norm_eval", batch_norm(False), "HWVrv", lambda out, t: t["r"].zero_())
row("batch_norm_eval_weight", batch_norm(False), "HWVrv", no_grad_write("W"))
row("dropout", lambda W: functional.dropout(W, 0.5) * 2, "W", no_grad_write("W"))
row("softmax", lambda W: W.softmax(-1), "W", no_grad_write("W"))
row("softmax_out", lambda W: W.softmax(-1), "W", write_out)
row("gelu", lambda W: functional.gelu(W), "W", no_grad_write("W"))
row("silu_mid", lambda a, W: functional.silu(W + a), "aW", no_grad_write("a"))
row("same_twice", lambda a, W: a * W + a, "aW", no_grad_write("a"))
row("attention", lambda H, M, a: functional.softmax(H @ M.t() + a, -1) @ M, "HMa", no_grad_write("a"))
row("attention_query", lambda H, M, a: functional.softmax(H @ M.t() + a, -1) @ M, "HMa", no_grad_write("H"))
