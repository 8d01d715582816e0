"""Recurrent layers, one at a time, so that the dropout between them is in the graph.

Goes in: a call of `torch.lstm`, `torch.gru` or `torch.rnn_tanh`/`rnn_relu` with several layers and dropout.  Comes out:
the same results from one call a layer, and `torch.dropout` between them.  PyTorch's own decomposition of the whole call
leaves that dropout out (torch/_decomp/decompositions.py, `_rnn_helper`, as of 2.13).  Taught in chapter 09.
"""

import functools

import torch
from torch.utils import _pytree as pytree

from ..errors import Unsupported


def by_layer(function, *args, **kwargs):
    """The call `function(input, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first)`.

    The other overload takes (data, batch_sizes, hx, ...) of a packed sequence, and no `batch_first`.
    """
    if kwargs:
        raise Unsupported("recurrent layers called by keyword", "it is followed by position only", "use nn.LSTM")
    packed = isinstance(args[3], list | tuple)
    x, sizes, args = args[0], args[1:2] if packed else (), args[2:] if packed else args[1:]
    hidden, params, has_biases, layers, dropout, train, bidirectional, *batch_first = args
    states, finals = hidden if isinstance(hidden, list | tuple) else (hidden,), []
    if not (train and dropout and layers > 1):
        x, *finals = function(x, *sizes, *args)  # PyTorch's rule for CUDA gives the last states a dimension too many
        return (x, *(final.reshape(state.shape) for final, state in zip(finals, states)))
    if batch_first == [True]:
        x = x.transpose(0, 1)
    directions, each = 2 if bidirectional else 1, len(params) // layers
    for i in range(layers):
        own = [state[i * directions : (i + 1) * directions] for state in states]
        own = own if function is torch.lstm else own[0]
        weights, time_first = params[i * each : (i + 1) * each], [False] * len(batch_first)
        x, *last = function(x, *sizes, own, weights, has_biases, 1, 0.0, train, bidirectional, *time_first)
        finals.append(last)
        if i < layers - 1:
            x = torch.dropout(x, dropout, True)
    x = x.transpose(0, 1) if batch_first == [True] else x
    return (x, *(torch.cat(parts) for parts in zip(*finals)))


def layers_of(function, *args, **kwargs):
    """oneDNN's forward keeps what its backward needs only in grad mode, in which no compiled forward runs."""
    tensors = [value for value in pytree.tree_leaves((args, kwargs)) if isinstance(value, torch.Tensor)]
    enabled = torch._C._get_mkldnn_enabled()
    torch._C._set_mkldnn_enabled(enabled and not (torch.is_grad_enabled() and any(t.requires_grad for t in tensors)))
    try:
        return by_layer(function, *args, **kwargs)
    finally:
        torch._C._set_mkldnn_enabled(enabled)


RECURRENT = {
    function: functools.partial(layers_of, function)
    for function in (torch.lstm, torch.gru, torch.rnn_tanh, torch.rnn_relu)
}
