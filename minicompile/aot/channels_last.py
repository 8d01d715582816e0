"""Convolutions in channels last: a decision for a whole graph, before it is split and before kernels are made.

Goes in: a functional graph whose images are laid out channel by channel, as eager has them.  Comes out: where it wins,
the same graph with copies in front of the convolutions, and with the strides that follow for everything behind them.
Tensor cores, and oneDNN, read the channels of a pixel side by side: else the images are turned around at each call.
Copies of weights are folded where parameters are frozen; pointwise kernels follow the strides of what they read; the
user gets eager's strides.  Mirrors `decide_layout_opt` in `torch/_inductor/graph.py`.  Taught in chapter 13.
"""

import operator

import torch
from torch import fx
from torch._dispatch.python import enable_python_dispatcher
from torch.utils import _pytree as pytree

from .nodes import base_of, is_pure, is_random

aten = torch.ops.aten
_onednn = torch._C._get_mkldnn_enabled
HALF = (torch.float16, torch.bfloat16)
DEVICES = {  # device -> whether its kernels of a dtype take channels last as they are
    "cuda": lambda dtype: dtype in HALF or dtype == torch.float32 and torch.backends.cudnn.allow_tf32,
    "cpu": lambda dtype: dtype in (*HALF, torch.float32) and torch.backends.mkldnn.is_available() and _onednn(),
}
IMAGES = {aten.convolution.default: (0, 1), aten.convolution_backward.default: (0, 1, 2)}  # x and w; and the gradient
CHANNELS_LAST = (0, 2, 3, 1)
FOLLOWS = {aten.max_pool2d_with_indices_backward.default}  # its result lies as its input does
# These are defined by the strides of what they view: it gets those back that eager gives it.
BY_STRIDES = {aten.view.default, aten._unsafe_view.default, aten.as_strided.default, aten.view.dtype}


def is_convolution(node):
    """Of images whose size is known."""
    if node.op != "call_function" or node.target not in IMAGES:
        return False
    values = [node.args[i].meta["val"] for i in IMAGES[node.target]]
    return all(v.dim() == 4 and all(isinstance(n, int) for n in v.shape) for v in values)


def work(node):
    """Multiplications of a convolution."""
    *gradient, x, w = (node.args[i].meta["val"] for i in IMAGES[node.target])
    result = gradient[0] if gradient else node.meta["val"]
    transposed = node.args[-3] if not gradient else node.args[-4]
    pixels = (x if transposed else result).numel()
    return pixels * w.numel() // w.shape[0]


def suits(node):
    """Are there fast kernels for this one?  Not for groups of several channels, nor on a GPU for float32 proper."""
    x = node.args[len(IMAGES[node.target]) - 2].meta["val"]
    groups = node.args[8] if node.target is aten.convolution.default else node.args[9]
    return x.device.type in DEVICES and DEVICES[x.device.type](x.dtype) and groups in (1, x.shape[1])


def overruns(node):
    """oneDNN (of torch 2.11 to 2.13) writes past its memory here, in eager too: a weight's gradient, channels last, of
    a 1x1 kernel that skips pixels, of fewer channels than a vector has.  Seen for no other kind."""
    if node.target is not aten.convolution_backward.default:
        return False
    (_, x, w), stride = (node.args[i].meta["val"] for i in IMAGES[node.target]), node.args[4]
    return x.device.type == "cpu" and w.shape[1] < 16 and w.shape[2:].numel() == 1 and any(s != 1 for s in stride)


def wins(convolutions):
    """Is most of the work in convolutions that gain?  Where nothing would change, nothing is to be gained."""
    gain = sum(work(node) for node in convolutions if suits(node))
    return 2 * gain > sum(map(work, convolutions)) and any(
        not node.args[i].meta["val"].is_contiguous(memory_format=torch.channels_last)
        for node in convolutions
        for i in IMAGES[node.target]
    )


def places(value, order):
    """The strides of a dense tensor whose dimensions lie in this order, the slowest first."""
    strides, step = [0] * value.dim(), 1
    for d in reversed(order):
        strides[d], step = step, step * value.shape[d]
    return tuple(strides)


def same_layout(a, b):
    if isinstance(a, (tuple, list)):
        return all(map(same_layout, a, b))
    return not isinstance(a, torch.Tensor) or a.stride() == b.stride()


class Layouts:
    """One graph, changed in place."""

    def __init__(self, graph, fake_mode):
        self.graph, self.fake_mode = graph, fake_mode
        self.eager = {}  # node -> its value as eager lays it out, where it is another now
        self.copies = {}  # (node, order of its dimensions, half of the graph or None) -> its copy
        self.possible = True

    def run(self, target, args, kwargs):
        values = fx.map_arg((args, kwargs), lambda n: n.meta["val"])
        with self.fake_mode, enable_python_dispatcher(), torch.no_grad():
            return target(*values[0], **values[1])

    def last(self, value):
        with self.fake_mode:
            return value.contiguous(memory_format=torch.channels_last) if value.dim() == 4 else value

    def call(self, user, target, *args, **kwargs):
        """A new node in front of a user, in that user's half of the graph."""
        with self.graph.inserting_before(user):
            node = self.graph.call_function(target, args, kwargs)
        meta = args[0].meta if user.op == "output" else user.meta
        node.meta = {**meta, "val": self.run(target, args, kwargs), "stands_for_input": False}
        return node

    def copy(self, source, order, user):
        """A dense copy with the dimensions in this order: permuted, copied, permuted back."""
        if source.target is aten.empty_strided.default:  # stands for a value of which only the shape is asked
            value = source.meta["val"]
            return self.call(user, source.target, list(value.shape), places(value, order), **source.kwargs)
        # An input is there in the backward anyway: copied again then, its copy is not kept.
        half = user.meta.get("backward") if base_of(source).op == "placeholder" else None
        if (key := (source, order, half)) not in self.copies:
            copied = self.call(user, aten.permute.default, source, list(order))
            copied = self.call(user, aten.clone.default, copied, memory_format=torch.contiguous_format)
            back = [order.index(d) for d in range(len(order))]
            self.copies[key] = self.call(user, aten.permute.default, copied, back)
        return self.copies[key]

    def as_in_eager(self, source, user):
        """A node's value with eager's strides."""
        if source not in self.eager:
            return source
        value = self.eager[source]
        order = tuple(sorted(range(value.dim()), key=lambda d: -value.stride(d)))
        strides = zip(value.shape, value.stride(), places(value, order), strict=True)
        self.possible &= all(n == 1 or a == b for n, a, b in strides)
        return self.copy(source, order, user)

    def images_last(self, node):
        """The images and the weight of a convolution, channels last."""
        for i in IMAGES[node.target]:
            if not node.args[i].meta["val"].is_contiguous(memory_format=torch.channels_last):
                node.update_arg(i, self.copy(node.args[i], CHANNELS_LAST, node))

    def follow(self, convolutions):
        """Copies in front of the convolutions; behind them the strides that are now, where an operator takes any."""
        for node in list(self.graph.nodes):
            if node in convolutions:
                self.images_last(node)
            elif not any(n in self.eager for n in node.all_input_nodes):
                continue
            elif node.op == "output" or not takes_any_strides(node):
                args, kwargs = fx.map_arg((node.args, node.kwargs), lambda n, user=node: self.as_in_eager(n, user))
                node.args, node.kwargs = args, kwargs
                continue
            made, before = self.run(node.target, node.args, node.kwargs), node.meta["val"]
            if node in convolutions or node.target in FOLLOWS:  # whatever the rule for fake tensors says
                made = pytree.tree_map_only(torch.Tensor, self.last, made)
            if not same_layout(made, before):
                self.eager[node], node.meta["val"] = before, made
        return self.possible


def takes_any_strides(node):
    """Random numbers are drawn in the order of memory; what is not ATen's may look at the strides."""
    return node.target is operator.getitem or (
        is_pure(node.target) and node.target not in BY_STRIDES and not is_random(node) and not overruns(node)
    )


def rewrite(graph, fake_mode):
    """The graph with its convolutions in channels last where that wins; or the graph itself."""
    if not wins([node for node in graph.nodes if is_convolution(node)]):
        return graph
    copied = fx.Graph()
    copied.output(copied.graph_copy(graph, {}))
    copied.output_node().meta = dict(graph.output_node().meta)
    convolutions = {node for node in copied.nodes if is_convolution(node) and not overruns(node)}
    return copied if Layouts(copied, fake_mode).follow(convolutions) else graph
