"""Make the traced graph smaller: operators that do nothing, common subexpressions, casts there and back, dead code.

Goes in: a functional graph.  Comes out: the same graph, changed in place, with equal results.  The graph has no
mutation, so equal expressions may share a tensor, except where the user would see two tensors become one: `escaping`.
Mirrors `torch/_functorch/compile_utils.py` and the joint passes of `torch/_inductor/fx_passes`.  Taught in chapter 08.
"""

import functools
import operator

import torch
from torch import fx
from torch.fx.experimental.symbolic_shapes import statically_known_true

aten = torch.ops.aten
COPIES = {aten.clone.default: 0, aten._to_copy.default: 0, aten.copy.default: 1}  # which argument is copied
LOSSLESS = {  # casting to any of these and back gives the same bits
    torch.bfloat16: {torch.float32, torch.float64},
    torch.float16: {torch.float32, torch.float64},
    torch.float32: {torch.float64},
    torch.int32: {torch.int64, torch.float64},
}


@functools.cache
def returns_view(target):
    """Does this operator return memory of its first argument, which it does not write?"""
    schema = getattr(target, "_schema", None)
    if schema is None or not schema.arguments or schema.arguments[0].alias_info is None:
        return False
    return not schema.arguments[0].alias_info.is_write and any(r.alias_info is not None for r in schema.returns)


def is_view(node):
    """A view of its first argument; so is an item of a split."""
    if node.op != "call_function" or not node.args or not isinstance(node.args[0], fx.Node):
        return False
    return is_view(node.args[0]) if node.target is operator.getitem else returns_view(node.target)


def base_of(node):
    """The node whose memory this is."""
    while is_view(node):
        node = node.args[0]
    return node


@functools.cache
def draws(target):
    return isinstance(target, torch._ops.OpOverload) and torch.Tag.nondeterministic_seeded in target.tags


def is_random(node):
    return node.op == "call_function" and draws(node.target)


@functools.cache
def is_pure(target):
    """An ATen operator that neither writes nor draws: what it is called with makes no difference."""
    return (
        isinstance(target, torch._ops.OpOverload)
        and target.namespace == "aten"
        and not (
            target._schema.is_mutable or draws(target) or "assert" in str(target) or "sym_constrain" in str(target)
        )
    )


def has_effect(node):
    """Must the node run although nobody reads it?  Assertions do, and random draws: they advance the generator."""
    if node.op == "call_function" and (node.target is operator.getitem or is_pure(node.target)):
        return False
    return node.is_impure() or is_random(node)


def escaping(graph, result_count):
    """Base nodes of what the user receives or what is copied into the user's tensors: no two may become one."""
    results = graph.output_node().args[0][:result_count]
    return {base_of(n) for n in results if isinstance(n, fx.Node)}


def tensor_type(value):
    return (value.dtype, value.device, value.is_conj(), value.is_neg())


def tensor_layout(value):
    return (value.shape, value.stride(), *tensor_type(value))


def same_tensor(node, source):
    a, b = node.meta.get("val"), source.meta.get("val")
    if not isinstance(a, torch.Tensor) or not isinstance(b, torch.Tensor) or a.layout != torch.strided:
        return False
    numbers = [(*t.shape, *t.stride(), t.storage_offset()) for t in (a, b)]
    same = tensor_type(a) == tensor_type(b) and a.dim() == b.dim()
    return same and all(statically_known_true(m == n) for m, n in zip(*numbers, strict=True))  # which assumes nothing


# --- the passes -------------------------------------------------------------------------------------
def replace(graph, node, source):
    node.replace_all_uses_with(source)
    graph.erase_node(node)


def can_be_one(node, source, escape):
    """May `node`, a new tensor, become `source`?  Not if the user receives the one and owns or receives the other."""
    base = base_of(source)
    if node not in escape:
        return True
    if base in escape or base.op in ("placeholder", "get_attr"):
        return False
    escape.add(base)
    return True


def remove_views_that_change_nothing(graph, escape):
    """A view with the shape, strides, offset and type of something that it is a view of, is that."""
    for node in list(graph.nodes):
        if not is_view(node) or node.target is operator.getitem:
            continue
        source = node.args[0]
        while not same_tensor(node, source) and is_view(source):
            source = source.args[0]
        if same_tensor(node, source):
            replace(graph, node, source)


def remove_copies(graph, escape):
    """A copy with the same layout and type as its source, if nobody can tell the two apart.

    The user's own copy of an input stays: it protects what backward needs from later writes to that input.
    """
    for node in list(graph.nodes):
        source = node.args[COPIES[node.target]] if node.target in COPIES else None
        if not isinstance(source, fx.Node) or not same_tensor(node, source):
            continue
        protects = base_of(source).op == "placeholder" and not node.meta.get("stands_for_input")
        if not protects and can_be_one(node, source, escape):
            replace(graph, node, source)


def remove_casts_there_and_back(graph, escape):
    """`bfloat16 -> float32 -> bfloat16` is the value itself."""
    for node in list(graph.nodes):
        if node.target is not aten._to_copy.default or getattr(node.args[0], "target", None) != node.target:
            continue
        middle, source = node.args[0], node.args[0].args[0]
        dtypes = [n.meta["val"].dtype for n in (source, middle, node)]
        lossless = dtypes[1] in LOSSLESS.get(dtypes[0], ()) and dtypes[0] == dtypes[2]
        plain = set(node.kwargs) <= {"dtype"} and set(middle.kwargs) <= {"dtype"}
        same_layout = tensor_layout(node.meta["val"]) == tensor_layout(source.meta["val"])
        if lossless and plain and same_layout and can_be_one(node, source, escape):
            replace(graph, node, source)


def key_of(value):
    """A hashable form of an argument in which 1, 1.0 and True, 0.0 and -0.0 differ."""
    if isinstance(value, tuple | list):
        return tuple(key_of(v) for v in value)
    if isinstance(value, dict):
        return tuple((k, key_of(v)) for k, v in sorted(value.items()))
    return value if isinstance(value, fx.Node) else (type(value), repr(value))


def share_common_subexpressions(graph, escape):
    """Equal operators on equal arguments are computed once.  Never random ones, nor two results of the user's."""
    seen = {}
    for node in list(graph.nodes):
        if node.op != "call_function" or has_effect(node) or base_of(node) in escape:
            continue
        key = (node.target, key_of(node.args), key_of(node.kwargs))
        first = seen.setdefault(key, node)
        if first is not node:
            replace(graph, node, first)


def separate_results(graph, result_count):
    """Two results never are the same memory, and none is an input's."""
    output, seen = graph.output_node(), set()
    values = list(output.args[0])
    for i, node in enumerate(values[:result_count]):
        if not isinstance(node.meta.get("val"), torch.Tensor):
            continue
        base = base_of(node)
        if base in seen or base.op in ("placeholder", "get_attr"):
            with graph.inserting_after(node if node.op != "placeholder" else last_placeholder(graph)):
                values[i] = graph.call_function(aten.clone.default, (node,))
            values[i].meta = {**node.meta, "backward": False}
        seen.add(base_of(values[i]))
    output.args = (values,)


def last_placeholder(graph):
    return [n for n in graph.nodes if n.op == "placeholder"][-1]


PASSES = (
    remove_views_that_change_nothing,
    remove_copies,
    remove_casts_there_and_back,
    share_common_subexpressions,
)


def optimize(graph, result_count):
    """Run every pass.  The first `result_count` outputs go to the user: they must stay separate tensors."""
    graph.eliminate_dead_code(has_effect)
    for run in PASSES:
        run(graph, escaping(graph, result_count))
    separate_results(graph, result_count)
    graph.eliminate_dead_code(has_effect)
