"""Make the traced graph smaller: operators that do nothing, common subexpressions, casts there and back, dead code.

Goes in: a functional graph.  Comes out: the same graph, changed in place, with equal results.  The graph has no
mutation, so equal expressions may share a tensor, except where the user would see two tensors become one: `escaping`.
Mirrors `torch/_functorch/compile_utils.py` and the joint passes of `torch/_inductor/fx_passes`.  Taught in chapter 08.
"""

import operator

import torch
from torch import fx

from . import rules
from .nodes import (
    base_of,
    can_be_one,
    computed,
    drop_dead_code,
    escaping,
    has_effect,
    is_view,
    replace,
    same_tensor,
    tensor_layout,
)

aten = torch.ops.aten
COPIES = {aten.clone.default: 0, aten._to_copy.default: 0, aten.copy.default: 1}  # which argument is copied
STRIDED_VIEWS = {aten.permute.default, aten.transpose.int, aten.unsqueeze.default, aten.expand.default}
LOSSLESS = {  # casting to any of these and back gives the same bits
    torch.bfloat16: {torch.float32, torch.float64},
    torch.float16: {torch.float32, torch.float64},
    torch.float32: {torch.float64},
    torch.int32: {torch.int64, torch.float64},
}


# --- the passes -------------------------------------------------------------------------------------
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
        protects = rules.is_users(graph, source) and not node.meta.get("stands_for_input")
        if not protects and can_be_one(node, source, escape):
            replace(graph, node, source)


def copies_in_rows(node):
    return node.target is aten.clone.default and node.kwargs.get("memory_format") is torch.contiguous_format


def remove_copies_of_copies(graph, escape):
    """What is copied in rows once it is seen from another side need not be in rows before."""
    for node in filter(copies_in_rows, list(graph.nodes)):
        views, source = [], node.args[0]
        while source.target in STRIDED_VIEWS and len(source.users) == 1:
            views.append(source)
            source = source.args[0]
        if copies_in_rows(source) and len(source.users) == 1 and not rules.is_users(graph, source.args[0]):
            replace(graph, source, source.args[0])
            for view in reversed(views):
                view.meta["val"] = computed(view)


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
        if first is not node and not node.meta.get("unbacked_bindings"):  # others have the sizes that it brings
            replace(graph, node, first)


def separate_results(graph, result_count, gradients):
    """Two results never are the same memory, and none is an input's.

    Nor are two gradients: autograd makes them the `grad` of two leaves as they are.  It sees the same tensor twice, as
    the operators gave it: only that may stay, and what was given in for another's.
    gradients: what they were before, each with its base.
    """
    output, seen = graph.output_node(), {}
    values = list(output.args[0])
    for i, (node, (before, base)) in enumerate(zip(values[result_count:], gradients), result_count):
        first = seen.setdefault(base_of(node), i) if isinstance(node, fx.Node) else i
        same = values[first] is node and gradients[first - result_count][0] is before
        given = isinstance(node, fx.Node) and base_of(node).op == "placeholder" and base_of(node) is not base
        if given or not same:
            with graph.inserting_before(output):
                values[i] = graph.call_function(aten.clone.default, (node,))
            values[i].meta = {**node.meta, "backward": True}
    seen = set()
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
    remove_copies_of_copies,
    remove_copies,
    remove_casts_there_and_back,
    rules.fold_numbers,
    rules.remove_neutral_numbers,
    rules.split_then_cat,
    rules.cat_then_split,
    rules.sum_products,
    rules.form_addmm,
    rules.forget_values,
    rules.narrow_indices,
    share_common_subexpressions,
)


def optimize(graph, result_count, inner=0):
    """Run every pass.  The first `result_count` outputs go to the user: they must stay separate tensors.

    inner: so many of the last outputs are values inside the graph that must be kept.

    Returns [(name of the pass, nodes before, nodes after)].
    """
    gradients = [(n, isinstance(n, fx.Node) and base_of(n)) for n in graph.output_node().args[0][result_count:]]
    gradients = gradients[: len(gradients) - inner]
    counts = [run_pass(graph, "dead_code", lambda: None)]
    with torch._C._DisableAutocast():  # the casts are in the graph already
        for rule in PASSES:
            counts.append(run_pass(graph, rule.__name__, lambda rule=rule: rule(graph, escaping(graph, result_count))))
    counts.append(run_pass(graph, "separate_results", lambda: separate_results(graph, result_count, gradients)))
    return counts


def run_pass(graph, name, run):
    """Run one pass, and remove what nobody reads after it."""
    before = len(graph.nodes)
    run()
    drop_dead_code(graph)
    return name, before, len(graph.nodes)
