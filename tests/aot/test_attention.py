"""Attention that is written out becomes one operator; what only looks like it does not."""

import math

import pytest
import torch
from aot_helpers import run_gm

import minicompile
from minicompile import aot, record
from minicompile.aot import attention

F = torch.nn.functional
SDPA = "scaled_dot_product"
CAUSAL = torch.ones(5, 5).tril()[None, None]


def tensors(*shape, grad=True):
    generator = torch.Generator().manual_seed(1)
    return [torch.randn(shape, generator=generator).requires_grad_(grad) for _ in range(3)]


def plain(q, k, v):
    return F.softmax(q @ k.transpose(-2, -1) / math.sqrt(q.size(-1)), dim=-1) @ v


def scaled_before(q, k, v):
    return torch.matmul(torch.softmax(torch.matmul(q * 0.3, k.mT), -1), v)


def scale_on_the_left(q, k, v):
    return (0.25 * (q @ k.transpose(2, 3))).softmax(3) @ v


def not_scaled(q, k, v):
    return torch.nn.Softmax(dim=-1)(q @ k.mT) @ v


def causal(q, k, v):
    scores = (q @ k.mT) * (1.0 / math.sqrt(k.size(-1)))
    scores = scores.masked_fill(CAUSAL[:, :, :5, :5] == 0, float("-inf"))
    weights = F.dropout(F.softmax(scores, dim=-1), 0.1, training=False)
    return (weights @ v).transpose(1, 2).contiguous().view(2, 5, 24)


def where_lowest(q, k, v):
    scores = torch.matmul(q, k.transpose(-1, -2)) / torch.full([], 8**0.5, dtype=q.dtype)
    lowest = torch.full([], torch.finfo(scores.dtype).min, dtype=scores.dtype)
    scores = torch.where(CAUSAL.bool(), scores, lowest)
    weights = F.softmax(scores, dim=-1, dtype=torch.float32).to(q.dtype)
    return torch.matmul(F.dropout(weights, p=0.0), v)


def two_masks(q, k, v):
    lowest = torch.tensor(torch.finfo(q.dtype).min, dtype=q.dtype)
    scores = torch.where(CAUSAL == 0, lowest, q @ k.mT) + CAUSAL[0] * 0.5
    return scores.softmax(-1).type(v.dtype) @ v


def added_mask(q, k, v):
    return torch.softmax(CAUSAL + (q @ k.mT) / 2, dim=-1) @ v


def three_dimensions(q, k, v):
    q, k, v = q.reshape(6, 5, 8), k.reshape(6, 5, 8), v.reshape(6, 5, 8)
    return torch.bmm(torch.bmm(q, k.transpose(1, 2)).div(3).add(CAUSAL[0]).softmax(-1), v)


def baddbmm(q, k, v):
    q, k, v = q.reshape(6, 5, 8), k.reshape(6, 5, 8), v.reshape(6, 5, 8)
    scores = torch.baddbmm(CAUSAL[0].expand(6, 5, 5), q, k.transpose(1, 2), beta=1, alpha=0.5)
    return torch.bmm(F.softmax(scores, dim=-1), v)


def shorter_query(q, k, v):
    return F.softmax(q[:, :, 2:] @ k.mT, dim=-1) @ v


MATCHES = [
    plain,
    scaled_before,
    scale_on_the_left,
    not_scaled,
    causal,
    where_lowest,
    two_masks,
    added_mask,
    three_dimensions,
    baddbmm,
    shorter_query,
]


def forward_text(entry):
    (graph,) = [a for c in entry for a in c.artifacts("aot")]
    return repr(graph)


def run(fn, inputs, backend="aot_eager"):
    """(outputs, gradients, text of the graph) of the compiled function."""
    minicompile.reset()
    out = minicompile.compile(fn, backend=backend, fullgraph=True)(*inputs)
    text = forward_text(record.compilations)
    return *results(out, inputs), text


def results(out, inputs):
    outs = out if isinstance(out, tuple) else (out,)
    wanted = [t for t in inputs if t.requires_grad]
    loss = sum((o * torch.linspace(-1, 1, o.numel()).view(o.shape).to(o.dtype)).sum() for o in outs)
    return outs, torch.autograd.grad(loss, wanted, materialize_grads=True) if wanted else ()


def in_float64(fn, inputs):
    wide = [t.detach().double().requires_grad_(t.requires_grad) for t in inputs]
    global CAUSAL
    kept, CAUSAL = CAUSAL, CAUSAL.double()
    try:
        return results(fn(*wide), wide)
    finally:
        CAUSAL = kept


def error(values, right):
    return max((a.double() - b).abs().max().item() for a, b in zip(values, right, strict=True))


@pytest.mark.parametrize("train", [True, False])
@pytest.mark.parametrize("fn", MATCHES, ids=lambda f: f.__name__)
def test_spellings(fn, train):
    inputs = tensors(2, 3, 5, 8, grad=train)
    outs, grads, text = run(fn, inputs, "inductor")
    assert SDPA in text and "softmax" not in text and (not train or f"{SDPA}_flash_attention_for_cpu_backward" in text)
    eager, eager_grads = results(fn(*inputs), inputs)
    right, right_grads = in_float64(fn, inputs)
    assert outs[0].stride() == eager[0].stride()
    assert error(outs, right) <= 3 * error(eager, right) + 1e-6
    if train:
        assert error(grads, right_grads) <= 3 * error(eager_grads, right_grads) + 1e-6


def weights_returned(q, k, v):
    weights = F.softmax(q @ k.mT, dim=-1)
    return weights @ v, weights


def scores_read_elsewhere(q, k, v):
    scores = q @ k.mT
    return F.softmax(scores, dim=-1) @ v + scores.sum()


def other_dimension(q, k, v):
    return F.softmax(q @ k.mT, dim=-2) @ v


def dropped(q, k, v):
    return F.dropout(F.softmax(q @ k.mT, dim=-1), 0.5) @ v


def masked_by_a_number_that_can_be_told(q, k, v):
    return F.softmax((q @ k.mT).masked_fill(CAUSAL == 0, -1e9), dim=-1) @ v


def scaled_after_the_mask(q, k, v):
    return F.softmax((q @ k.mT + CAUSAL) * 0.5, dim=-1) @ v


def multiplied_weights(q, k, v):
    return (F.softmax(q @ k.mT, dim=-1) * 2) @ v


def negative_scale(q, k, v):
    return F.softmax(q @ k.mT * -0.5, dim=-1) @ v


def scale_is_a_tensor(q, k, v):
    return F.softmax(q @ k.mT * v.mean(), dim=-1) @ v


def learned_mask(q, k, v):
    return F.softmax(q @ k.mT + v[..., :5], dim=-1) @ v


def one_head_of_keys(q, k, v):
    return F.softmax(q @ k[:, :1].mT, dim=-1) @ v


def wider_value(q, k, v):
    return F.softmax(q @ k.mT, dim=-1) @ torch.cat([v, v], -1)


def mask_makes_it_larger(q, k, v):
    return F.softmax(q[:1] @ k[:1].mT + CAUSAL.expand(2, 3, 5, 5), dim=-1) @ v


def scores_without_gradient(q, k, v):
    with torch.no_grad():
        scores = q @ k.mT
    return F.softmax(scores, dim=-1) @ v


def weights_detached(q, k, v):
    return F.softmax(q @ k.mT, dim=-1).detach() @ v


def mask_of_another_type(q, k, v):
    return F.softmax(q @ k.mT + CAUSAL.bool(), dim=-1) @ v


def scores_twice(q, k, v):
    return F.softmax(q @ k.mT + (q @ k.mT), dim=-1) @ v


NEAR_MISSES = [f for name, f in list(globals().items()) if callable(f) and getattr(f, "__module__", "") == __name__]
NEAR_MISSES = NEAR_MISSES[NEAR_MISSES.index(weights_returned) :]


@pytest.mark.parametrize("fn", NEAR_MISSES, ids=lambda f: f.__name__)
def test_near_misses(fn):
    inputs = tensors(2, 3, 5, 8)
    torch.manual_seed(0)
    outs, grads, text = run(fn, inputs)
    assert SDPA not in text
    torch.manual_seed(0)
    eager, eager_grads = results(fn(*inputs), inputs)
    torch.testing.assert_close(outs, eager)
    torch.testing.assert_close(grads, eager_grads)


def key_is_written(q, k, v):
    k = k * 1
    scores = q @ k.mT
    k.zero_()
    return F.softmax(scores, dim=-1) @ v


def mask_is_written(q, k, v):
    mask = CAUSAL * 1
    scores = q @ k.mT + mask
    mask.zero_()
    return F.softmax(scores, dim=-1) @ v


def value_is_written_through_data(q, k, v):
    k = k * 1
    scores = q @ k.mT
    k.data.zero_()
    return F.softmax(scores, dim=-1) @ v


def written_by_an_item(q, k, v):
    k = k * 1
    scores = q @ k.mT
    k[0] = 0
    return F.softmax(scores, dim=-1) @ v


def written_by_relu(q, k, v):
    v = v * 1
    scores = q @ v.mT
    F.relu(v, True)
    return F.softmax(scores, dim=-1) @ k


WRITTEN = [key_is_written, mask_is_written, value_is_written_through_data, written_by_an_item, written_by_relu]


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
@pytest.mark.parametrize("fn", WRITTEN)
def test_what_is_written_after_it_was_read(fn, mode):
    with mode():
        inputs = tensors(2, 3, 5, 8, grad=False)
        outs, _, text = run(fn, inputs)
        assert SDPA not in text
        torch.testing.assert_close(outs[0], fn(*inputs))


@pytest.mark.parametrize("fn", MATCHES, ids=lambda f: f.__name__)
def test_inference_mode(fn):
    """Its tensors have no version."""
    with torch.inference_mode():
        inputs = tensors(2, 3, 5, 8, grad=False)
        outs, _, text = run(fn, inputs)
        assert SDPA in text
        torch.testing.assert_close(outs[0], fn(*inputs))


@pytest.mark.parametrize("how", ["fill", "add"])
def test_rows_masked_throughout_stay_nan(how):
    """The kernel gives zeros for them."""
    dead = torch.zeros(5, 5, dtype=torch.bool)
    dead[2] = dead[0, 1] = True

    def fn(q, k, v):
        scores = q @ k.mT
        mask = torch.zeros(5, 5).masked_fill(dead, -math.inf)
        scores = scores.masked_fill(dead, -math.inf) if how == "fill" else scores + mask
        return F.softmax(scores, dim=-1) @ v

    inputs = tensors(2, 3, 5, 8)
    outs, grads, text = run(fn, inputs, "inductor")
    eager, eager_grads = results(fn(*inputs), inputs)
    assert SDPA in text and outs[0].isnan().any(-1).sum() == 6
    torch.testing.assert_close(outs, eager, equal_nan=True)
    if how == "fill":  # eager's query and key have finite gradients in such a step, its value has none: here none has
        assert eager_grads[2].isnan().all()
        eager_grads = [torch.where(g.isnan(), g, e) for g, e in zip(grads, eager_grads, strict=True)]
    torch.testing.assert_close(grads, tuple(eager_grads), equal_nan=True)


def test_rows_filled_with_the_lowest_number_are_means():
    dead = torch.ones(5, 5, dtype=torch.bool)

    def fn(q, k, v):
        return F.softmax((q @ k.mT).masked_fill(dead, torch.finfo(torch.float32).min), dim=-1) @ v

    inputs = tensors(2, 3, 5, 8, grad=False)
    outs, _, text = run(fn, inputs)
    assert SDPA in text
    torch.testing.assert_close(outs[0], inputs[2].mean(2, keepdim=True).expand(2, 3, 5, 8))


@pytest.mark.parametrize("fn, matches", [(plain, True), (causal, False)])
def test_autocast(fn, matches):
    """Types as in eager.  A mask would be cast too, and its lowest number become -inf."""
    inputs = tensors(2, 3, 5, 8)
    with torch.autocast("cpu", torch.bfloat16):
        outs, grads, text = run(fn, inputs)
        eager, eager_grads = results(fn(*inputs), inputs)
    assert (SDPA in text) == matches and outs[0].dtype == torch.bfloat16
    torch.testing.assert_close(outs, eager, rtol=0.05, atol=0.05)
    torch.testing.assert_close(grads, eager_grads, rtol=0.05, atol=0.05)


def test_symbolic_sizes():
    minicompile.reset()
    own = lambda x: not_scaled(x, x, x)  # noqa: E731
    compiled = minicompile.compile(own, dynamic=True, fullgraph=True)
    for size in (5, 7, 9):
        x = tensors(2, 3, size, 8, grad=False)[0]
        torch.testing.assert_close(compiled(x), own(x))
    assert len(record.compilations) == 1 and SDPA in forward_text(record.compilations)


def test_graph_of_the_user_is_not_changed():
    """Where the compiled graph cannot run, the captured one does."""
    seen = []

    def backend(gm, inputs):
        before = str(gm.graph)
        compiled = aot.compile(gm, inputs, forward_compiler=run_gm)
        seen.append((before, str(gm.graph)))
        return compiled

    minicompile.compile(plain, backend=backend)(*tensors(2, 3, 5, 8))
    ((before, after),) = seen
    assert before == after and "softmax" in after


def idle_mask(q, k, v, extra=None):
    mask = torch.arange(5)[None, None, :, None] + 0 >= 0
    return F.scaled_dot_product_attention(q, k, v, mask.expand(2, -1, 5, 5))


def mask_of_one_place(q, k, v, extra=None):
    return F.scaled_dot_product_attention(q, k, v, attn_mask=torch.arange(5)[None, :] > 0)


def mask_that_is_added(q, k, v, extra=None):
    return F.scaled_dot_product_attention(q, k, v, attn_mask=torch.ones(5, 5))


def mask_that_is_written(q, k, v, extra=None):
    mask = torch.ones(5, 5, dtype=torch.bool)
    mask[0, 1] = False
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)


def mask_that_is_given(q, k, v, extra=None):
    return F.scaled_dot_product_attention(q, k, v, attn_mask=extra)


OTHER_MASKS = [
    mask_of_one_place,
    mask_that_is_added,
    mask_that_is_written,
    mask_that_is_given,
]


@pytest.mark.parametrize("fn", [idle_mask, *OTHER_MASKS], ids=lambda fn: fn.__name__)
def test_a_mask_of_numbers_that_masks_nothing_goes(fn):
    graphs = []

    def backend(gm, inputs):
        graphs.append(attention.rewrite(gm))
        return gm

    inputs = [*tensors(2, 3, 5, 8), torch.ones(5, 5, dtype=torch.bool)]
    minicompile.compile(fn, backend=backend)(*inputs)
    (call,) = graphs[0].graph.find_nodes(op="call_function", target=F.scaled_dot_product_attention)
    gone = call.kwargs.get("attn_mask") is None and (len(call.args) < 4 or call.args[3] is None)
    assert gone == (fn is idle_mask)
    torch.testing.assert_close(minicompile.compile(fn)(*inputs), fn(*inputs))
