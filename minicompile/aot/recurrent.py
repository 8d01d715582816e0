"""Recurrent layers, one at a time, so that the dropout between them is in the graph.

Goes in: a call of `torch.lstm`, `torch.gru` or `torch.rnn_tanh`/`rnn_relu` with several layers and dropout.  Comes out:
the same results from one call a layer, and `torch.dropout` between them.  PyTorch's own decomposition of the whole call
leaves that dropout out (torch/_decomp/decompositions.py, `_rnn_helper`, as of 2.13).  Taught in chapter 09.
"""

import functools

import torch
from torch.utils import _pytree as pytree

from ..errors import Unsupported
from ..philox import define

aten = torch.ops.aten
LSTM = 2  # oneDNN's number of this kind


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
    if layers == 1 or not (train and dropout or function is onednn):
        x, *finals = function(x, *sizes, *args)  # PyTorch's rule for CUDA gives the last states a dimension too many
        pairs = zip(finals, states)
        return (x, *(final if final.shape == state.shape else final.reshape(state.shape) for final, state in pairs))
    if batch_first == [True]:
        x = x.transpose(0, 1)
    directions, each = 2 if bidirectional else 1, len(params) // layers
    for i in range(layers):
        own = [state[i * directions : (i + 1) * directions] for state in states]
        own = own if len(states) > 1 else own[0]
        weights, time_first = params[i * each : (i + 1) * each], [False] * len(batch_first)
        x, *last = function(x, *sizes, own, weights, has_biases, 1, 0.0, train, bidirectional, *time_first)
        finals.append(last)
        if i < layers - 1 and dropout:
            x = torch.dropout(x, dropout, train)
    x = x.transpose(0, 1) if batch_first == [True] else x
    return (x, *(torch.cat(parts) for parts in zip(*finals)))


def onednn(x, hidden, weights, has_biases, layers, dropout, train, bidirectional, batch_first):
    """An LSTM of one layer as eager calls it."""
    x = (x.transpose(0, 1) if batch_first else x).contiguous()
    each, results = 4 if has_biases else 2, []
    for direction, states in enumerate(zip(*hidden, strict=True)):
        own = weights[direction * each : (direction + 1) * each]
        own = own if has_biases else (*own, *map(torch.zeros_like, own))
        rest = [bool(direction), [], LSTM, states[0].shape[-1], 1, has_biases, bidirectional, False, train]
        results.append(aten.mkldnn_rnn_layer.default(x, *own, *(s.contiguous() for s in states), *rest)[:3])
    outputs, *finals = zip(*results, strict=True)
    x = torch.cat(outputs, -1) if bidirectional else outputs[0]
    return (x.transpose(0, 1) if batch_first else x, *map(torch.stack, finals))


def is_onednns(args):
    """Is it a call of `torch.lstm` that eager gives to oneDNN?"""
    if isinstance(args[3], list | tuple) or args[1][0].shape != args[1][1].shape:  # packed, or with projections
        return False
    tensors = [args[0], *args[1], *args[2]]
    known = all(t.device.type == "cpu" and t.dtype == torch.float32 and static(t) for t in tensors)
    return known and args[0].numel() != 0 and torch._C._get_mkldnn_enabled() and torch.backends.mkldnn.is_available()


def static(tensor):
    return all(isinstance(n, int) for n in tensor.shape)


def layers_of(function, *args, **kwargs):
    """PyTorch's rule leaves a layer to oneDNN where no gradient is wanted, but asks the sequence only."""
    tensors = [value for value in pytree.tree_leaves((args, kwargs)) if isinstance(value, torch.Tensor)]
    if not (torch.is_grad_enabled() and any(t.requires_grad for t in tensors)):
        return by_layer(function, *args, **kwargs)
    if function is torch.lstm and not kwargs and is_onednns(args):
        return by_layer(onednn, *args)
    enabled = torch._C._get_mkldnn_enabled()
    torch._C._set_mkldnn_enabled(False)
    try:
        return by_layer(function, *args, **kwargs)
    finally:
        torch._C._set_mkldnn_enabled(enabled)


# --- oneDNN -------------------------------------------------------------------------------------------
def kept(*args):
    """oneDNN's forward keeps what its backward needs in grad mode only, in which no compiled forward runs."""
    with torch.enable_grad():
        return aten.mkldnn_rnn_layer.default(*(a.detach() if isinstance(a, torch.Tensor) else a for a in args))


def rnn_layer(*args):
    """In the trace of a backward."""
    return torch.ops.minicompile.rnn_layer.default(*args) if torch.is_grad_enabled() else NotImplemented


define(
    str(aten.mkldnn_rnn_layer.default._schema).replace("aten::mkldnn_", ""),
    kept,
    aten.mkldnn_rnn_layer.default,
    torch.Tag.pt2_compliant_tag,
)


RECURRENT = {
    function: functools.partial(layers_of, function)
    for function in (torch.lstm, torch.gru, torch.rnn_tanh, torch.rnn_relu)
}
