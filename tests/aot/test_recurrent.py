"""Recurrent layers with dropout between them draw and compute what eager does, forward and backward."""

import pytest
import torch
import torch.nn as nn

import minicompile
from minicompile.testing import check


def aot_eager(fn):
    return minicompile.compile(fn, backend="aot_eager")


@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN"])
@pytest.mark.parametrize(("bidirectional", "batch_first"), [(False, True), (True, False)])
def test_dropout_between_layers(kind, bidirectional, batch_first):
    layer = getattr(nn, kind)(4, 6, 3, dropout=0.5, bidirectional=bidirectional, batch_first=batch_first)
    check(layer, torch.randn(3, 5, 4, requires_grad=True), compiler=aot_eager, strides=False, aliasing=False)
    check(layer.eval(), torch.randn(3, 5, 4, requires_grad=True), compiler=aot_eager, strides=False, aliasing=False)


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
@pytest.mark.parametrize("kind", ["LSTM", "GRU"])
def test_weights_learn_from_data_without_gradients(kind, backend):
    layer = getattr(nn, kind)(4, 3, bidirectional=True, batch_first=True)
    compiler = lambda fn: minicompile.compile(fn, backend=backend)
    check(layer, torch.randn(2, 3, 4), compiler=compiler, strides=False, aliasing=False, graph_breaks=0)


def test_projections_and_given_states():
    layer = nn.LSTM(4, 6, 2, dropout=0.5, proj_size=3)
    states = torch.randn(2, 5, 3), torch.randn(2, 5, 6)
    check(layer, torch.randn(3, 5, 4), states, compiler=aot_eager, strides=False, aliasing=False)


def test_relu_layers():
    layer = nn.RNN(4, 6, 2, dropout=0.5, nonlinearity="relu")
    check(layer, torch.randn(3, 5, 4), compiler=aot_eager, strides=False, aliasing=False)


@pytest.mark.parametrize("kind", ["LSTM", "GRU"])
def test_packed_sequences(kind):
    layer = getattr(nn, kind)(4, 6, 2, dropout=0.5)

    def run(x):
        packed = nn.utils.rnn.pack_padded_sequence(x, [4, 2])
        return layer(packed)[0].data

    check(run, torch.randn(4, 2, 4), compiler=aot_eager, strides=False, aliasing=False)


def test_masks_differ_between_calls():
    layer = nn.GRU(4, 6, 2, dropout=0.5)
    compiled, x = aot_eager(layer), torch.randn(3, 5, 4)
    torch.manual_seed(1)
    assert not torch.allclose(compiled(x)[0], compiled(x)[0])


@pytest.mark.parametrize("options", [{}, {"bidirectional": True}, {"batch_first": True}, {"bias": False}])
def test_an_lstm_that_learns_is_a_call_a_layer_and_direction(options):
    """oneDNN's, as in eager; of its steps one by one there would be as many calls as the sequence is long."""
    layer = nn.LSTM(4, 6, 2, dropout=0.5, **options)
    for x in (torch.randn(30, 5, 4), torch.randn(30, 5, 4, requires_grad=True)):
        states = [torch.randn(2 + 2 * layer.bidirectional, 30 if layer.batch_first else 5, 6) for _ in range(2)]
        states[0].requires_grad_(x.requires_grad)
        check(lambda x, *states: layer(x, states), x, *states, strides=False, aliasing=False, graph_breaks=0)
        calls = 4 + 4 * layer.bidirectional  # forward and backward of each, and a mask
        assert (minicompile.stats()["extern_calls"], minicompile.stats()["fallbacks"]) == (calls + 2, 0)
        minicompile.reset()


def test_part_of_what_an_lstm_returns():
    layer = nn.LSTM(4, 6)
    for part in (lambda out: out[0], lambda out: out[1][0], lambda out: out[1][1]):
        check(lambda x, part=part: part(layer(x)), torch.randn(3, 5, 4, requires_grad=True), strides=False)


def test_the_last_states_are_no_views():
    layer, x = nn.LSTM(4, 6), torch.randn(3, 5, 4, requires_grad=True)
    for function in (layer, aot_eager(layer)):
        _, states = function(x)
        assert not any(state._is_view() for state in states)
