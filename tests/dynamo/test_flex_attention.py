"""`flex_attention` is one operation of the graph, with its functions captured; results are those of the eager call."""

import warnings

import pytest
import torch
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

import minicompile
from minicompile.testing import CompileCounter

torch.manual_seed(0)
Q, K, V = torch.randn(3, 2, 4, 16, 8)
BIAS, SLOPES, DOCUMENT = torch.randn(4, 16, 16), torch.randn(4), torch.tensor([0] * 5 + [1] * 6 + [2] * 5)


def causal(b, h, q_index, kv_index):
    return q_index >= kv_index


def same_document(b, h, q_index, kv_index):
    return (DOCUMENT[q_index] == DOCUMENT[kv_index]) & (q_index >= kv_index)


def scored(score_mod, **options):
    return lambda q: flex_attention(q.relu(), K, V, score_mod=score_mod, **options).transpose(1, 2) + 1


PROGRAMS = {
    "plain": lambda q: flex_attention(q, K, V),
    "where": scored(lambda s, b, h, i, j: torch.where(i >= j, s, -float("inf"))),
    "slopes of heads": scored(lambda s, b, h, i, j: s + SLOPES[h] * (j - i)),
    "a bias by three indices": scored(lambda s, b, h, i, j: s + BIAS[h, i, j]),
    "a bias in two steps": scored(lambda s, b, h, i, j: s + BIAS[h][i, j]),
    "soft cap and scale": scored(lambda s, b, h, i, j: 20 * torch.tanh(s / 20), scale=0.3),
    "both functions": lambda q: flex_attention(
        q, K, V, lambda s, b, h, i, j: s * 2, create_block_mask(same_document, 2, None, 16, 16, device="cpu")
    ),
    "fewer heads of keys": lambda q: flex_attention(q, K[:, :2], V[:, :2], enable_gqa=True),
    "log-sum-exp": lambda q: flex_attention(q, K, V, return_lse=True),
}


@pytest.mark.parametrize("backend", ["eager", "inductor"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_in_one_graph_as_in_eager(name, backend):
    program = PROGRAMS[name]
    with warnings.catch_warnings(action="ignore"):  # PyTorch's, that it is called without torch.compile
        expected = program(Q)
    found = minicompile.compile(program, backend=backend, fullgraph=True)(Q)
    torch.testing.assert_close(found, expected)


def test_what_the_functions_read_is_guarded():
    scale, counter = [2.0], CompileCounter()
    compiled = minicompile.compile(
        lambda q, bias: flex_attention(q, K, V, lambda s, b, h, i, j: s * scale[0] + bias[h, i, j]), backend=counter
    )
    for bias in (BIAS, BIAS + 1, BIAS.half().float()):
        expected = torch.softmax(Q @ K.transpose(-2, -1) * 8**-0.5 * scale[0] + bias, -1) @ V
        torch.testing.assert_close(compiled(Q, bias), expected)
    assert counter.graphs == 1
    scale[0] = 3.0
    expected = torch.softmax(Q @ K.transpose(-2, -1) * 8**-0.5 * scale[0] + BIAS, -1) @ V
    torch.testing.assert_close(compiled(Q, BIAS), expected)
    assert counter.graphs == 2


def test_bad_arguments_raise_as_in_eager():
    for arguments in [(Q, K[:, :, :, :4], V), (Q[0], K, V), (Q.clone().requires_grad_(), K, V)]:
        errors = []
        for program in (flex_attention, minicompile.compile(lambda *qkv: flex_attention(*qkv), backend="eager")):
            with pytest.raises(Exception) as caught, warnings.catch_warnings(action="ignore"):
                program(*arguments)
            errors.append((caught.type, str(caught.value)))
        assert errors[0] == errors[1]
