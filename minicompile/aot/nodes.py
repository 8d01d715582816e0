"""What the passes and the partitioner ask about a node of a functional graph.

Goes in: an FX node of an ATen graph.  Comes out: whose memory it is, whether it draws or has an effect, whether two
nodes are the same tensor.  Mirrors `torch/_inductor/fx_utils.py`.  Taught in chapter 08.
"""

import functools
import operator

import torch
from torch import fx
from torch.fx.experimental.symbolic_shapes import statically_known_true


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
    return node.op == "call_function" and draws(node.target) and draws_with(node.target, node.args, node.kwargs)


def draws_with(target, args, kwargs):
    """Attention draws too, unless its dropout is off."""
    names = [argument.name for argument in target._schema.arguments]
    if "dropout_p" not in names:
        return True
    position = names.index("dropout_p")
    default = target._schema.arguments[position].default_value
    return (*args[position : position + 1], kwargs.get("dropout_p", default))[0] != 0


@functools.cache
def is_pure(target):
    """An ATen operator that writes nothing and asserts nothing: what it is called with makes no difference."""
    return (
        isinstance(target, torch._ops.OpOverload)
        and target.namespace == "aten"
        and not (target._schema.is_mutable or "assert" in str(target) or "sym_constrain" in str(target))
    )


def has_effect(node):
    """Must the node run although nobody reads it?  Assertions do, and random draws: they advance the generator."""
    if is_random(node) or (isinstance(node.target, torch._ops.OpOverload) and not node.target._schema.returns):
        return True
    pure = node.op == "call_function" and (node.target is operator.getitem or is_pure(node.target))
    return not pure and node.is_impure()


def escaping(graph, result_count):
    """Base nodes of what the user receives or what is copied into the user's tensors: no two may become one."""
    results = graph.output_node().args[0][:result_count]
    owners = {base_of(n) for n in results if isinstance(n, fx.Node)}
    return owners | {n.args[0] for n in owners if n.target is operator.getitem}  # the operator that returns several


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


def drop_dead_code(graph):
    """Erase what nobody reads."""
    for node in reversed(graph.nodes):
        if not node.users and node.op not in ("placeholder", "output") and not has_effect(node):
            graph.erase_node(node)


def computed(node):
    """What a new node computes of the values of others."""
    return node.target(*fx.map_arg(node.args, lambda n: n.meta["val"]))


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


# --- sizes and dependence ---------------------------------------------------------------------------
UNKNOWN = 1024  # what a size counts as that is read from data


def hinted(number):
    """A size; a symbolic one counts as what it was in the example."""
    if isinstance(number, int):
        return number
    expression, env = number.node.expr, number.node.shape_env
    known = env.backed_var_to_val if hasattr(env, "backed_var_to_val") else env.var_to_val  # its older name
    return int(expression.xreplace({s: known.get(s, UNKNOWN) for s in expression.free_symbols}))


def brings_symbol(node):
    """Does it read a number, or the size of its result, from data?  Made again it would be another unknown."""
    return node.target is torch.ops.aten._local_scalar_dense.default or bool(node.meta.get("unbacked_bindings"))


def is_tensor(node):
    return isinstance(node.meta.get("val"), torch.Tensor)


def size_in_bytes(node):
    """Bytes of a value; symbolic sizes count as what they were in the example."""
    value = node.meta.get("val")
    if not is_tensor(node):
        return 8
    return hinted(value.numel()) * value.element_size()


def needed_for(outputs, stop):
    """Every node that `outputs` depend on, without the nodes in `stop` and what only they need."""
    found, todo = set(), [n for n in outputs if isinstance(n, fx.Node)]
    while todo:
        node = todo.pop()
        if node not in found and node not in stop:
            found.add(node)
            todo.extend(node.all_input_nodes)
    return found
