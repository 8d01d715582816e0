"""Attention that is written out becomes one operator, which has a kernel that never stores the scores.

Goes in: the captured graph, before it is traced, so that autograd differentiates the one operator.  Comes out: the same
graph, or a copy in which `softmax(query @ key.mT * scale + mask, -1) @ value`, in the spellings of SPELLINGS, is
`scaled_dot_product_attention`; and a mask that masks nothing, as some programs make when they are traced, is gone.
Mirrors `torch/_inductor/fx_passes/fuse_attention.py`.  Taught in chapter 08.

Side conditions: nobody else reads the scores or the weights; no dropout; the mask needs no gradient; nothing that is
read is written in place.  A row in which every place is masked with -inf is NaN in eager, and stays so.  What
differs: a row in which every product overflows to -inf is NaN in eager, and 0 from the kernel.
"""

import dataclasses
import math
import operator

import torch
from torch import fx
from torch._subclasses.fake_tensor import unset_fake_temporarily
from torch.fx.experimental.symbolic_shapes import statically_known_true

from ..lazy_graph import LazyGraphModule
from .provenance import last_of, nodes_since

F = torch.nn.functional
SPELLINGS = {  # (kind of step, names of its parameters) -> the functions and methods that are it
    ("matmul", "input other"): (torch.matmul, torch.bmm, operator.matmul, "matmul", "bmm"),
    ("baddbmm", "input batch1 batch2 beta alpha"): (torch.baddbmm, "baddbmm"),
    ("scale", "input other"): (torch.mul, operator.mul, "mul"),
    ("divide", "input other"): (torch.div, operator.truediv, "div"),
    ("add", "input other"): (torch.add, operator.add, "add"),
    ("fill", "input condition value"): (torch.masked_fill, "masked_fill"),
    ("where", "condition input other"): (torch.where,),
    ("softmax", "input dim dtype"): (torch.softmax, "softmax"),
    ("softmax", "input dim _stacklevel dtype"): (F.softmax,),
    ("dropout", "input p training inplace"): (F.dropout, torch.dropout),
    ("cast", "input"): ("float", "to", "type", "type_as", "half", "bfloat16"),
}
KINDS = {target: key for key, targets in SPELLINGS.items() for target in targets}
MODES = ("_set_grad_enabled", "_enter_autocast", "_exit_autocast", "_enter_inference_mode", "_exit_inference_mode")


@dataclasses.dataclass
class Attention:
    """What was found.  masks: ("add", tensor) or ("fill", condition, number, where), the innermost first."""

    query: fx.Node
    key: fx.Node  # transposed already
    value: fx.Node
    scale: float
    masks: list
    inner: list  # nodes that go


class NoMatch(Exception):
    """Raised by whatever does not hold."""


def require(holds):
    if not holds:
        raise NoMatch


def value_of(node):
    return node.meta.get("example_value") if isinstance(node, fx.Node) else None


def is_tensor(node):
    return isinstance(value_of(node), torch.Tensor)


def same_shape(a, b):
    return len(a) == len(b) and all(statically_known_true(m == n) for m, n in zip(a, b, strict=True))


def step(node):
    """(kind, arguments by name) of a node; kind None: none of SPELLINGS."""
    kind, names = KINDS.get(node.target, (None, "")) if node.op in ("call_function", "call_method") else (None, "")
    names = names.split()
    arguments = {**dict(zip(names, node.args, strict=False)), **node.kwargs}
    known = kind == "cast" or len(node.args) <= len(names) and set(arguments) <= {*names, "mask", "train"}
    return (kind if known else None), arguments


def number(value):
    """A plain number, also one that was put into a tensor without dimensions; else None."""
    if isinstance(value, fx.Node) and value.target in (torch.full, torch.tensor) and value_of(value).dim() == 0:
        value = value.args[-1]
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def scores_and_number(kind, arguments):
    """`scores * 2`, `2 * scores`, `scores / 2` -> (scores, factor)."""
    first, second = arguments["input"], arguments["other"]
    if kind == "scale" and number(second) is None:
        first, second = second, first
    factor = number(second)
    require(is_tensor(first) and factor is not None and math.isfinite(factor) and factor > 0)
    return first, factor if kind == "scale" else 1 / factor


def filled(kind, arguments):
    """`scores.masked_fill(condition, -inf)` or `where(condition, scores, -inf)` -> (scores, mask).

    The number must swallow any score that it is added to: with -1e9, a row that is masked throughout would differ.
    """
    if kind == "fill":
        scores, condition = arguments["input"], arguments.get("condition", arguments.get("mask"))
        fill, where = number(arguments["value"]), True
    else:
        condition, scores, fill = arguments["condition"], arguments["input"], number(arguments["other"])
        where = fill is None
        if where:
            scores, fill = arguments["other"], number(arguments["input"])
    require(is_tensor(scores) and is_tensor(condition) and value_of(condition).dtype == torch.bool and fill is not None)
    require(fill in (-math.inf, torch.finfo(value_of(scores).dtype).min))
    return scores, ("fill", condition, fill, where)


def added(arguments, shape):
    """`scores + mask`, `mask + scores` -> (scores, mask).  The scores are what has a history of one reader."""
    for scores, mask in ((arguments["input"], arguments["other"]), (arguments["other"], arguments["input"])):
        if is_tensor(scores) and is_tensor(mask) and step(scores)[0] and same_shape(value_of(scores).shape, shape):
            require(value_of(mask).dtype == value_of(scores).dtype)
            return scores, ("add", mask)
    raise NoMatch


def match(output):
    """The Attention that ends with the product `output`; raises NoMatch."""
    kind, arguments = step(output)
    require(kind == "matmul" and is_tensor(output))
    node, value, softmax, scale, masks, inner = arguments["input"], arguments["other"], None, 1.0, [], []
    while True:
        unread = [user for user in node.users if returns_argument(user) and not user.users]
        require(is_tensor(node) and len(node.users) == 1 + len(unread) and value_of(node).is_floating_point())
        inner += [node, *unread]
        kind, arguments = step(node)
        require(softmax is None or same_shape(value_of(node).shape, value_of(softmax).shape))
        if kind == "cast" or kind == "dropout" and is_off(arguments):
            node = arguments["input"]
        elif kind == "softmax" and softmax is None:
            require(arguments.get("dim") in (-1, value_of(node).dim() - 1))
            softmax, node = node, arguments["input"]
        elif softmax is None:
            raise NoMatch
        elif kind in ("scale", "divide"):
            node, factor = scores_and_number(kind, arguments)
            scale *= factor
        elif kind in ("fill", "where", "add") and scale == 1:
            shape = value_of(node).shape
            node, mask = added(arguments, shape) if kind == "add" else filled(kind, arguments)
            masks.insert(0, mask)
        elif kind == "baddbmm" and scale == 1 and number(arguments.get("beta", 1)) in (0, 1):
            query, key, scale = arguments["batch1"], arguments["batch2"], number(arguments.get("alpha", 1))
            if arguments.get("beta", 1):
                masks.insert(0, ("add", arguments["input"]))
            break
        elif kind == "matmul":
            query, key = arguments["input"], arguments["other"]
            break
        else:
            raise NoMatch
    found = Attention(query, key, value, scale, masks, inner)
    check(found, output)
    return found


def returns_argument(node):
    """Such as dropout that is off: capture goes on with its argument, and the node is left without a reader."""
    kind, arguments = step(node)
    passes = kind == "cast" or kind == "dropout" and is_off(arguments)
    return passes and value_of(node) is value_of(arguments["input"])


def may_write(node):
    """A call that gives back one of its arguments, or nothing at all: for inference tensors, which have no version."""
    if not node.op.startswith("call") or returns_argument(node) or node.target == "contiguous":
        return False
    return value_of(node) is None or any(value_of(node) is value_of(i) for i in node.all_input_nodes)


def is_off(arguments):
    return arguments.get("p", 0.5) == 0 or arguments.get("training", arguments.get("train", True)) is False


def check(found, output):
    """What the operator's kernels ask for, and what makes it the same program."""
    operands = [found.query, found.key, found.value]
    require(all(map(is_tensor, operands)) and all(is_tensor(m[1]) for m in found.masks))
    query, key, value = values = [value_of(n) for n in operands]
    require(query.dim() in (3, 4) and query.is_floating_point() and found.scale is not None and found.scale > 0)
    require(all(t.dtype == query.dtype and t.device == query.device for t in values))
    require(all(statically_known_true(n != 0) for t in values for n in t.shape))
    require(all(same_shape(t.shape[:-2], query.shape[:-2]) for t in values))
    require(same_shape(query.shape[-1:], value.shape[-1:]) and value_of(output).is_contiguous())
    require(query.stride(-1) == key.stride(-2) == value.stride(-1) == 1)
    masks = [value_of(m[1]) for m in found.masks]
    if masks:
        require(not torch._C._is_any_autocast_enabled())  # it would cast the mask, and its smallest numbers to -inf
        scores = [value_of(n) for n in found.inner if step(n)[0] in ("fill", "where", "add", "baddbmm")]
        require(all(t.dtype == query.dtype for t in scores))
    for mask in masks:
        require(not mask.requires_grad and mask.device == query.device and mask.dim() <= query.dim())
        require(mask.dtype in (torch.bool, query.dtype))
    read = (*values, *masks)  # which matters when, if something is written in place
    if any(t.is_inference() for t in read):
        require(not any(map(may_write, output.graph.nodes)))
    else:
        require(all(t._version == 0 for t in read))


# --- masks that mask nothing ------------------------------------------------------------------------
# What may be computed here, as it depends on no input and draws nothing.
OF_NUMBERS = {torch.arange, torch.ones, torch.full, torch.logical_and, "expand", "new_ones", "unsqueeze", "view"}
OF_NUMBERS |= {getattr(operator, name) for name in "add sub ge gt le lt eq and_ or_ getitem".split()}
MOST = 1 << 26  # elements of such a mask


def made_of_numbers(node, made):
    """The value of a node; `made` remembers those of others."""
    if node not in made:
        require(node.target in OF_NUMBERS and is_tensor(node))
        value = value_of(node)
        require(not value.is_inference() and value._version == 0)
        args, kwargs = fx.node.map_arg((node.args, node.kwargs), lambda n: made_of_numbers(n, made))
        function = node.target
        if node.op == "call_method":
            function, args = getattr(args[0], node.target), args[1:]
        made[node] = function(*args, **kwargs)
    return made[node]


def needless_mask(node, made):
    """Is this attention with a mask of numbers that is true everywhere?  Fewer kernels take a mask than none."""
    names = ("query", "key", "value", "attn_mask", "dropout_p", "is_causal")
    arguments = {**dict(zip(names, node.args, strict=False)), **node.kwargs}
    mask = arguments.get("attn_mask")
    if node.target is not F.scaled_dot_product_attention or not is_tensor(mask) or arguments.get("is_causal"):
        return False
    size, query, key = value_of(mask).shape, value_of(arguments["query"]).shape, value_of(arguments["key"]).shape
    whole = (*query[:-1], key[-2])
    if not all(isinstance(n, int) for n in (*size, *whole)) or len(size) > len(whole) or math.prod(size) > MOST:
        return False
    if any(n not in (1, m) for n, m in zip(size[::-1], whole[::-1], strict=False)):  # another shape, or an error
        return False
    try:
        with unset_fake_temporarily(), torch.no_grad():
            value = made_of_numbers(mask, made)
            return value.dtype == torch.bool and not value.is_meta and bool(value.all())
    except NoMatch:
        return False


# --- the rewritten graph ----------------------------------------------------------------------------
def additive(call, found, environment, query):
    """One floating-point mask from all: what the steps make of zero."""
    mask, options = None, {"dtype": query.dtype, "device": query.device}
    for how, operand, *rest in found.masks:
        operand = environment[operand]
        if how == "add":
            mask = operand if mask is None else call(torch.add, mask, operand)
            continue
        fill, where = rest
        fill = call(torch.full, (), fill, **options)
        kept = call(torch.full, (), 0.0, **options) if mask is None else mask
        mask = call(torch.where, operand, *((fill, kept) if where else (kept, fill)))
    dims = max(value_of(m[1]).dim() for m in found.masks)
    for _ in range(query.dim() - dims):
        mask = call(torch.unsqueeze, mask, 0)
    return mask


def emit(graph, found, environment):
    """The nodes of the one operator.  Returns its result."""
    query = value_of(found.query)

    def call(function, *args, **kwargs):
        return graph.call_function(function, args, kwargs)

    operands = [environment[n] for n in (found.query, found.key, found.value)]
    operands[1] = call(torch.transpose, operands[1], -2, -1)
    mask = additive(call, found, environment, query) if found.masks else None
    if any(m[0] == "add" or m[2] == -math.inf for m in found.masks):
        nan = call(torch.full, (), math.nan, dtype=query.dtype, device=query.device)
        dead = call(torch.all, call(torch.eq, mask, -math.inf), dim=-1, keepdim=True)
        mask = call(torch.where, dead, nan, mask)  # the operator would give zeros; so it is NaN, as all gradients then
    inputs = [n if n is None or query.dim() == 4 else call(torch.unsqueeze, n, 1) for n in (*operands, mask)]
    result = call(F.scaled_dot_product_attention, *inputs[:3], attn_mask=inputs[3], scale=found.scale)
    if query.dim() == 3:
        result = call(torch.squeeze, result, 1)
    return graph.call_method("contiguous", (result,))


def rewrite(gm):
    """The graph with attention as an operator; the graph itself where there is none."""
    if any(getattr(n.target, "__name__", "") in MODES or n.args[1:] == ("data",) for n in gm.graph.nodes):
        return gm
    found = {}
    for node in gm.graph.nodes:
        try:
            found[node] = match(node)
        except NoMatch:
            pass
    inner = {n for attention in found.values() for n in attention.inner}
    found = {node: attention for node, attention in found.items() if node not in inner}  # scores made by another one
    inner = {n for attention in found.values() for n in attention.inner}
    made = {}
    needless = {node for node in gm.graph.nodes if needless_mask(node, made)}
    if not found and not needless:
        return gm
    graph, environment = fx.Graph(), {}
    for node in gm.graph.nodes:
        if node in inner:
            continue
        last = last_of(graph)
        if node in found:
            environment[node] = emit(graph, found[node], environment)
            for new in nodes_since(last, graph):
                new.meta = {k: v for k, v in node.meta.items() if k == "stack_trace"}
        else:
            environment[node] = new = graph.node_copy(node, environment.__getitem__)
            if node in needless:
                new.args = (*new.args[:3], None, *new.args[4:]) if len(new.args) > 3 else new.args
                new.kwargs = {name: value for name, value in new.kwargs.items() if name != "attn_mask"}
    return LazyGraphModule(gm, graph, type(gm).__name__)
