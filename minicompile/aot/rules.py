"""Rules about numbers and about pieces: constants that are known, operators with 1 and 0, cat and split, addmm.

Goes in: a functional graph, and `escape`, the base nodes that the user receives.  Comes out: the same graph, changed in
place, with equal results, bit for bit (`form_addmm`: up to rounding).  Each rule is one loop over the nodes.
Mirrors `torch/_inductor/fx_passes/joint_graph.py` and `split_cat.py`.  Taught in chapter 08.
"""

import itertools
import math
import operator

import torch
from torch import fx

from .nodes import base_of, can_be_one, computed, hinted, is_view, replace, same_tensor, tensor_type

aten = torch.ops.aten
CREATE = {  # operators whose result is one number throughout -> where that number stands
    aten.full.default: lambda node: node.args[1],
    aten.full_like.default: lambda node: node.args[1],
    aten.new_full.default: lambda node: node.args[2],
    aten.scalar_tensor.default: lambda node: node.args[0],
    **{op.default: lambda node: 0 for op in (aten.zeros, aten.zeros_like, aten.new_zeros)},
    **{op.default: lambda node: 1 for op in (aten.ones, aten.ones_like, aten.new_ones)},
}
EXACT = {  # one right answer on every machine, whatever is given
    overload
    for name in "add sub mul div neg abs eq ne lt le gt ge logical_and logical_or logical_not where".split()
    for overload in (getattr(getattr(aten, name), each) for each in getattr(aten, name).overloads())
    if not overload._schema.is_mutable
} | {aten._to_copy.default, aten.clone.default}
NEUTRAL = {  # operator -> (the number that changes nothing, may it also stand on the left)
    aten.mul.Tensor: (1.0, True),
    aten.div.Tensor: (1.0, False),
    aten.sub.Tensor: (0.0, False),  # but x + 0.0 makes 0.0 of -0.0
    aten.add.Tensor: (-0.0, True),
    aten.pow.Tensor_Scalar: (1.0, False),
}
SHAPE_ONLY = {  # backward operators -> the arguments of which they do not read the values
    **{
        getattr(aten, name).default: lambda node: (1,)
        for name in """
            max_pool2d_with_indices_backward max_pool3d_with_indices_backward avg_pool2d_backward avg_pool3d_backward
            _adaptive_avg_pool2d_backward _adaptive_avg_pool3d_backward adaptive_max_pool2d_backward
            adaptive_max_pool3d_backward reflection_pad1d_backward reflection_pad2d_backward reflection_pad3d_backward
            replication_pad1d_backward replication_pad2d_backward replication_pad3d_backward
        """.split()
    },
    aten.convolution_backward.default: lambda node: [2 - k for k in (0, 1) if not node.args[10][k]],
}
BOUNDS = {  # operators whose second result are indices -> their number of places, by the shape of what they look at
    operator.attrgetter(name)(aten): places
    for names, places in {
        "max_pool2d_with_indices.default adaptive_max_pool2d.default": lambda shape: math.prod(shape[-2:]),
        "max_pool3d_with_indices.default adaptive_max_pool3d.default": lambda shape: math.prod(shape[-3:]),
        """max.dim min.dim median.dim nanmedian.dim sort.default sort.stable topk.default kthvalue.default mode.default
        cummax.default cummin.default""": lambda shape: max(shape, default=1),
    }.items()
    for name in names.split()
}


# --- numbers ----------------------------------------------------------------------------------------
def is_static(node):
    value = node.meta.get("val")
    return isinstance(value, torch.Tensor) and all(isinstance(n, int) for n in value.shape)


def small(node, numbers):
    """A real tensor with one element that stands for a tensor of one number throughout."""
    value = node.meta["val"]
    return torch.full([1] * value.dim(), numbers[node], dtype=value.dtype)


def known_numbers(graph):
    """{node: the number that all its elements are}"""
    numbers = {}
    for node in graph.nodes:
        if not is_static(node) or node.meta["val"].is_complex():
            continue
        if node.target in CREATE and isinstance(CREATE[node.target](node), int | float):
            numbers[node] = torch.full((), CREATE[node.target](node), dtype=node.meta["val"].dtype).item()
        elif (
            is_view(node)
            and node.args[0] in numbers
            and tensor_type(node.meta["val"]) == tensor_type(node.args[0].meta["val"])
        ):
            numbers[node] = numbers[node.args[0]]
    return numbers


def fold_numbers(graph, escape):
    """`full([3], 2.0) * 3` is `full([3], 6.0)`; the operator itself says what the number is."""
    numbers = known_numbers(graph)
    for node in list(graph.nodes):
        inputs, value = node.all_input_nodes, node.meta.get("val")
        if node.target not in EXACT or not is_static(node) or not value.is_contiguous() or value.is_complex():
            continue
        if not inputs or any(i not in numbers for i in inputs):
            continue
        if not value.is_floating_point() and any(i.meta["val"].is_floating_point() for i in inputs):
            if node.target is aten._to_copy.default:
                continue  # what becomes of NaN and of large numbers depends on the machine
        args = fx.map_arg(node.args, lambda i: small(i, numbers))
        kwargs = {k: v for k, v in node.kwargs.items() if k not in ("device", "layout", "memory_format", "pin_memory")}
        number = node.target(*args, **fx.map_arg(kwargs, lambda i: small(i, numbers))).item()
        with graph.inserting_before(node):
            options = {"dtype": value.dtype, "device": value.device}
            new = graph.call_function(aten.full.default, (list(value.shape), number), options)
        new.meta, numbers[new] = dict(node.meta), number
        replace(graph, node, new)


def is_number(value, wanted):
    """Also the sign of zero counts."""
    return isinstance(value, int | float) and value == wanted and math.copysign(1, value) == math.copysign(1, wanted)


def remove_neutral_numbers(graph, escape):
    """`x * 1`, `x / 1`, `x - 0`, `x ** 1`, and for integers `x + 0`, are x where the type stays the same."""
    numbers = known_numbers(graph)
    for node in list(graph.nodes):
        if node.target not in NEUTRAL or node.kwargs:
            continue
        wanted, also_left = NEUTRAL[node.target]
        value = node.meta["val"]
        if not value.is_floating_point():
            wanted = abs(wanted)  # integers have one zero
        first, second = node.args
        for source, other in ((first, second), (second, first))[: 1 + also_left]:
            if isinstance(source, fx.Node) and is_number(numbers.get(other, other), wanted) and not value.is_complex():
                if same_tensor(node, source) and may_be_one(graph, node, source, escape):
                    replace(graph, node, source)
                    break


def is_users(graph, source):
    """An input, to which the user may write before the backward reads it."""
    return base_of(source).op == "placeholder" and any(n.meta.get("backward") for n in graph.nodes)


def may_be_one(graph, node, source, escape):
    return not is_users(graph, source) and can_be_one(node, source, escape)


# --- shapes -----------------------------------------------------------------------------------------
def forget_values(graph, escape):
    """Where the backward asks a value of the forward only for its shape, memory that nobody fills does.

    The value need not be saved then.  An input is there anyway.
    """
    for node in list(graph.nodes):
        for position in SHAPE_ONLY[node.target](node) if node.target in SHAPE_ONLY and node.meta["backward"] else ():
            source = node.args[position]
            if source.meta["backward"] or source.op == "placeholder" or not is_static(source):
                continue
            value = source.meta["val"]
            with graph.inserting_before(node):
                options = {"dtype": value.dtype, "device": value.device}
                new = graph.call_function(aten.empty_strided.default, (list(value.shape), value.stride()), options)
            new.meta = {**node.meta, "val": value}
            node.update_arg(position, new)


def narrow_indices(graph, escape):
    """Indices that the backward reads again could be kept in fewer bytes: where they are made it is known how large."""
    for node in list(graph.nodes):
        source = node.args[0] if node.target is operator.getitem and node.args[1] == 1 else None
        later = [user for user in node.users if user.meta.get("backward")]
        if source is None or source.target not in BOUNDS or not later or node in escape or source in escape:
            continue
        image = source.args[0]
        if not is_static(image) or node.meta["backward"]:
            continue
        largest = BOUNDS[source.target](image.meta["val"].shape) - 1
        dtype = next(t for t in (torch.int8, torch.int16, torch.int32, torch.int64) if largest <= torch.iinfo(t).max)
        with graph.inserting_after(node):
            small = graph.call_function(aten._to_copy.default, (node,), {"dtype": dtype})
        with graph.inserting_before(next(n for n in graph.nodes if n in later)):
            wide = graph.call_function(aten._to_copy.default, (small,), {"dtype": node.meta["val"].dtype})
        small.meta = {**node.meta, "val": node.meta["val"].to(dtype)}
        wide.meta = {**node.meta, "backward": True}
        for user in later:
            user.replace_input_with(node, wide)


# --- pieces -----------------------------------------------------------------------------------------
def piece(node):
    """(source, dim, start, end) if the node is a part of `source` along one dimension; else None."""
    if node.target is operator.getitem and node.args[0].target in (aten.split.Tensor, aten.split_with_sizes.default):
        source, sizes, dim = (*node.args[0].args, 0)[:3]
        if isinstance(sizes, int):
            start = node.args[1] * sizes
        elif all(isinstance(n, int) for n in sizes):
            start = sum(sizes[: node.args[1]])
        else:
            return None
    elif node.target is aten.slice.Tensor and len(node.args) < 5:  # step 1
        source, dim, start, _ = (*node.args, 0, None, None)[:4] if len(node.args) < 4 else node.args
        start = start or 0
    else:
        return None
    if not is_static(node) or not is_static(source) or not isinstance(start, int):
        return None
    rank, size = source.meta["val"].dim(), source.meta["val"].shape[dim]
    start = max(start + size, 0) if start < 0 else min(start, size)
    return source, dim % rank, start, start + node.meta["val"].shape[dim]


def parts_of(cat):
    """(dim, [(input, start, end)]) of a concatenation of static tensors of one type; else None."""
    if cat.target is not aten.cat.default or not all(map(is_static, (cat, *cat.args[0]))):
        return None
    value, inputs, dim = cat.meta["val"], cat.args[0], (*cat.args, 0)[1] % cat.meta["val"].dim()
    if any(tensor_type(i.meta["val"]) != tensor_type(value) or i.meta["val"].dim() != value.dim() for i in inputs):
        return None
    ends = list(itertools.accumulate(i.meta["val"].shape[dim] for i in inputs))
    return dim, list(zip(inputs, [0, *ends], ends, strict=False))


def split_then_cat(graph, escape):
    """All the pieces of x, put together in their order, are x."""
    for node in list(graph.nodes):
        parts = parts_of(node)
        if parts is None:
            continue
        dim, places = parts
        pieces = [piece(part) for part, _, _ in places]
        source = pieces[0] and pieces[0][0]
        in_order = all(p == (source, dim, start, end) for p, (_, start, end) in zip(pieces, places, strict=True))
        if source and in_order and same_tensor(node, source) and may_be_one(graph, node, source, escape):
            replace(graph, node, source)


def cat_then_split(graph, escape):
    """A piece of a concatenation that lies in one of its inputs is a piece of that input.

    Its strides differ, so nobody may see them: not the user, nor `as_strided`; views of a contiguous tensor all work.
    """
    for node in list(graph.nodes):
        found = piece(node)
        parts = found and found[0] not in escape and parts_of(found[0])
        if not parts or parts[0] != found[1] or any("as_strided" in str(user.target) for user in node.users):
            continue
        _, dim, start, end = found
        for source, first, last in parts[1]:
            value, whole = node.meta["val"], source.meta["val"]
            if not (first <= start < end <= last and whole.is_contiguous() and descending(value)):
                continue
            if is_users(graph, source):
                continue
            if (start, end) == (first, last):
                replace(graph, node, source)
            elif node.target is aten.slice.Tensor:
                node.args = (source, dim, start - first, end - first)
                node.meta["val"] = aten.slice.Tensor(whole, *node.args[1:])
            break


def descending(value):
    """Strides in the order in which a contiguous tensor has them."""
    strides = [stride for stride, size in zip(value.stride(), value.shape, strict=True) if size != 1]
    return all(a >= b for a, b in itertools.pairwise(strides))


# --- matmul and bias --------------------------------------------------------------------------------
def form_addmm(graph, escape):
    """`x @ w + bias`, where the product is read nowhere else and the bias is one row, is one call."""
    for node in list(graph.nodes):
        if node.target is not aten.add.Tensor or node.kwargs:
            continue
        for product, bias in (node.args, node.args[::-1]):
            if not isinstance(bias, fx.Node) or getattr(product, "target", None) is not aten.mm.default:
                continue
            a, b = product.meta["val"], bias.meta["val"]
            row = b.dim() == 1 and b.shape[0] == a.shape[1] if isinstance(b, torch.Tensor) else False
            if row and len(product.users) == 1 and a.is_floating_point() and tensor_type(a) == tensor_type(b):
                node.target, node.args = aten.addmm.default, (bias, *product.args)
                break


# --- sums of products -------------------------------------------------------------------------------
VIEWS = (aten.view.default, aten._unsafe_view.default)


def terms_of(node, inside):
    """What a chain of additions of equal tensors adds up: every sum within it, put into `inside`, is read once only."""
    terms, todo = [], list(node.args)
    while todo:
        term = todo.pop()
        if not isinstance(term, fx.Node) or not same_tensor(term, node):
            return []
        if term.target is aten.add.Tensor and not term.kwargs and len(term.users) == 1:
            inside.add(term)
            todo += term.args
        else:
            terms.append(term)
    return terms if len(set(terms)) == len(terms) else []


def product_in(term, total):
    """The matrix product that a term of a sum is, or is a view of, if it is read nowhere else."""
    source = term.args[0] if term.target in VIEWS else term
    once = len(term.users) == len(source.users) == 1
    if not once or source.target is not aten.mm.default or not source.meta["val"].is_floating_point():
        return None
    return source if source.meta["backward"] == total.meta["backward"] else None


def sum_products(graph, escape):
    """`a @ b + c @ d`, where neither product is read elsewhere: one product of `[a c]` and `[b d]` in the sum's place,

    if its operands are copied in fewer bytes than the sum is read and written in (as of a weight that each step of a
    recurrent network uses); else each product is added into the sum of those before it: `addmm`.
    """
    numbers, inside = {node: k for k, node in enumerate(graph.nodes)}, set()
    for node in reversed(list(graph.nodes)):
        if node.target is not aten.add.Tensor or node.kwargs or node in inside:
            continue
        terms = terms_of(node, inside)
        found = {product: term for term in terms if (product := product_in(term, node))}
        products = sorted(found, key=numbers.__getitem__)
        if len(products) < 2 or not all(same_tensor(p, products[0]) for p in products):
            continue
        with graph.inserting_before(node):
            total = joined_product(graph, products) if is_cheap_to_join(products) else accumulated(graph, products)
            shaped = next((term for product, term in found.items() if term is not product), None)
            if shaped:
                total = new_node(graph, shaped.target, (total, shaped.args[1]), node)
            for term in terms:
                if term not in found.values():
                    total = new_node(graph, aten.add.Tensor, (total, term), node)
        replace(graph, node, total)


def is_cheap_to_join(products):
    rows, columns = map(hinted, products[0].meta["val"].shape)
    inner = sum(hinted(p.args[0].meta["val"].shape[1]) for p in products)
    return inner * (rows + columns) <= len(products) * rows * columns


def joined_product(graph, products):
    operands = [joined(graph, [p.args[k] for p in products], 1 - k, products[-1]) for k in (0, 1)]
    return new_node(graph, aten.mm.default, tuple(operands), products[-1])


def joined(graph, parts, dim, like):
    """Matrices side by side, in the order in memory that they have."""
    turned = all(part.meta["val"].stride(0) == 1 for part in parts)
    if not turned:
        return new_node(graph, aten.cat.default, (parts, dim), like)
    sources = [transposed(graph, part, like) for part in parts]
    return transposed(graph, new_node(graph, aten.cat.default, (sources, 1 - dim), like), like)


def transposed(graph, node, like):
    if node.target is aten.permute.default and node.args[1] == [1, 0]:
        return node.args[0]
    return new_node(graph, aten.permute.default, (node, [1, 0]), like)


def accumulated(graph, products):
    """Where each product was, it is added to the sum of those before."""
    total = products[0]
    for product in products[1:]:
        with graph.inserting_before(product):
            total = new_node(graph, aten.addmm.default, (total, *product.args), product)
    return total


def new_node(graph, target, args, like):
    node = graph.call_function(target, args)
    node.meta = {**like.meta, "val": computed(node)}
    return node
