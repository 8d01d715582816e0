"""What a loop nest reads and writes, as addresses; and how two loop nests can be laid on top of each other.

Goes in: IR buffers and layouts.  Comes out: `SchedulerNode`s in a normal form (loops ordered by memory, split where a
reshape needs it, merged where contiguous), and `match_loops`, which finds the renaming of loop variables under which
two nests touch a shared buffer at the same address at the same time.  Mirrors `torch/_inductor/dependencies.py` and
`SizeVarAllocator`.  Taught in chapter 10.
"""

import dataclasses

from . import ir
from .indexing import Quotient, Var, delinearize, flatten, hint, index
from .ir import Buffer, Expr, Fetch, IndexExpr, Load


@dataclasses.dataclass
class SchedulerNode:
    """One buffer's loop nest in normal form.

    `outer` run over the result, `inner` are reduced away (empty: pointwise).
    """

    buffer: Buffer
    outer: tuple
    inner: tuple
    body: Expr
    store: object  # Index: the address written, over `outer`
    kind: str = "pointwise"  # or the reduction's kind

    @property
    def name(self):
        return self.buffer.name

    @property
    def is_reduction(self):
        return self.kind != "pointwise"

    def renamed(self, mapping, outer, inner, memo=None):
        body = ir.transform(self.body, mapping, memo=memo)
        return dataclasses.replace(self, outer=outer, inner=inner, body=body, store=self.store.substitute(mapping))

    def __str__(self):
        return f"{self.name}[{self.store}] = {self.kind}({ir.ranges_text(self.outer, self.inner)}): {self.body}"


class Addresses:
    """Where the loads of expressions point: layouts applied to positions."""

    def __init__(self, layouts):
        self.layouts = layouts

    def of(self, load):
        if type(load) is Fetch:
            return load.position[0]
        return self.layouts[load.buffer].address(load.position)

    def reads(self, node):
        """(buffer, address) of every load of a node, each once, in a fixed order."""
        return list(dict.fromkeys((load.buffer, self.of(load)) for load in ir.loads(node.body)))

    def flat(self, expr):
        """The expression with every load's position replaced by its address: all that loops need to know."""

        def replace(node):
            return Fetch(node.buffer, self.of(node), node.dtype) if type(node) is Load else None

        return ir.transform(expr, {}, replace)


def node_indices(node, addresses):
    """Every index that the loops of a node evaluate: addresses, and numbers made from loop variables."""
    parts = [e for e in ir.walk(node.body) if isinstance(e, (Load, IndexExpr))]
    found = (addresses.of(e) if isinstance(e, Load) else e.index for e in parts)
    return list(dict.fromkeys([node.store, *found]))


def make_node(buffer, addresses):
    """The normal form of a Pointwise or Reduction buffer."""
    data = buffer.data
    inner, kind, body = (), "pointwise", data.body
    if isinstance(data, ir.Reduction) and any(v.size != 1 for v in data.reduced):
        inner, kind = data.reduced, data.kind
    node = SchedulerNode(buffer, data.vars, inner, addresses.flat(body), buffer.layout.address(data.vars), kind)
    node = order_loops(split_loops(node, addresses), addresses)
    return merge_loops([node], addresses)[0]


# --- the normal form --------------------------------------------------------------------------------


def _splits(node, addresses):
    """A loop variable and the divisor at which an index asks for it to be split, or None."""
    for value in node_indices(node, addresses):
        for atom in value.atoms():
            if isinstance(atom, Quotient) and len(atom.index.terms) == 1 and atom.index.constant == 0:
                var, c = atom.index.terms[0]
                if isinstance(var, Var) and c == 1 and all(isinstance(n, int) for n in (var.size, atom.divisor)):
                    if var.size % atom.divisor == 0:
                        return var, atom.divisor
    return None


def split_loops(node, addresses):
    """Split loop variables until `v // d` and `v % d` are variables of their own."""
    while found := _splits(node, addresses):
        var, divisor = found
        high, low = Var(f"{var.name}a", var.size // divisor), Var(f"{var.name}b", divisor)
        mapping = {var: index(high) * divisor + index(low)}
        outer, inner = (
            tuple(w for v in vs for w in ((high, low) if v is var else (v,))) for vs in (node.outer, node.inner)
        )
        node = node.renamed(mapping, outer, inner)
    return node


def order_loops(node, addresses):
    """Outer loops by the strides of the store; reduced loops by the strides of the widest load."""

    def step(address, var):
        return hint(address.coefficient(var))

    outer = sorted((v for v in node.outer if v.size != 1), key=lambda v: -step(node.store, v))
    inner = [v for v in node.inner if v.size != 1]
    reads = [(len(a.vars()), a) for _, a in addresses.reads(node)]
    if inner and reads:
        widest = max(reads, key=lambda pair: pair[0])[1]
        inner.sort(key=lambda v: -step(widest, v))
    return dataclasses.replace(node, outer=tuple(outer), inner=tuple(inner))


def merge_loops(nodes, addresses):
    """Merge neighbouring loops wherever every index of every node allows it: contiguous tensors become one loop.

    All nodes share their loops, except that a node may lack the inner ones.
    """
    full = max(nodes, key=lambda n: len(n.inner))
    outer, inner = _merge(nodes, full.outer, addresses), _merge(nodes, full.inner, addresses)
    mapping, loops = {}, []
    for prefix, runs in (("x", outer), ("r", inner)):
        variables = []
        for run in runs:
            var = Var(f"{prefix}{len(variables)}", ir.product(v.size for v in run))
            variables.append(var)
            mapping.update(zip(run, delinearize(index(var), tuple(v.size for v in run)), strict=True))
        loops.append(tuple(variables))
    memo = {}
    return [n.renamed(mapping, loops[0], loops[1] if n.inner else (), memo) for n in nodes]


def _merge(nodes, variables, addresses):
    """Group variables into runs that can become one loop."""
    values = list(dict.fromkeys(i for n in nodes for i in node_indices(n, addresses)))
    nested = {a for i in values for atom in i.atoms() if isinstance(atom, Quotient) for a in atom.index.vars()}
    runs = []
    for var in variables:
        last = runs[-1][-1] if runs else None
        if last is not None and not {last, var} & nested:
            if all(i.coefficient(last) == i.coefficient(var) * var.size for i in values):
                runs[-1].append(var)
                continue
        runs.append([var])
    return runs


# --- laying two nests on top of each other -----------------------------------------------------------


def refine(a, b):
    """The coarsest sizes that both lists of sizes can be split into, with the split of each; None if there are none."""
    left, common, splits, parts = (list(a)[::-1], list(b)[::-1]), [], ([], []), ([], [])
    while all(left):  # from the left: a common piece is what divides both
        low, high = sorted((sizes[-1] for sizes in left), key=hint)
        divides = isinstance(low, int) and isinstance(high, int) and low > 0 and high % low == 0
        if low != high and not divides:
            return None
        common.append(low)
        for sizes, split, part in zip(left, splits, parts, strict=True):
            part.append(len(common) - 1)
            size = sizes.pop()
            if size == low:
                split.append([*part])
                part.clear()
            else:
                sizes.append(size // low)
    return None if any(left) else (common, *splits)


def _sorted_vars(address, variables):
    """Variables by descending stride, when the address is affine and names every one of them."""
    if not address.is_affine() or any(address.coefficient(v) == 0 for v in variables):
        return None
    return sorted(variables, key=lambda v: -hint(address.coefficient(v)))


def match_loops(first, second, address_first, address_second):
    """Rename the loops of two nests so that the two addresses become one.

    first, second: lists of variables.  Returns (mapping of first's variables, mapping of second's, the pieces that
    each of first's was split into), or None.
    """
    order_a, order_b = _sorted_vars(address_first, first), _sorted_vars(address_second, second)
    if order_a is None or order_b is None:
        return None
    return pair_loops(order_a, order_b)


def pair_loops(order_a, order_b, prefix="m"):
    """Lay two loop orders of equal total size on top of each other, splitting loops where needed."""
    refined = refine([v.size for v in order_a], [v.size for v in order_b])
    if refined is None:
        return None
    common, split_a, split_b = refined
    fresh = [Var(f"{prefix}{k}", n) for k, n in enumerate(common)]
    maps, pieces = ({}, {}), {}
    for mapping, order, split in ((maps[0], order_a, split_a), (maps[1], order_b, split_b)):
        for var, part in zip(order, split, strict=True):
            mapping[var] = flatten(tuple(index(fresh[k]) for k in part), tuple(common[k] for k in part))
            if mapping is maps[0]:
                pieces[var] = [fresh[k] for k in part]
    return maps[0], maps[1], pieces


def common_loops(lead, other, pair, whole):
    """Loops for two groups, split after the leader's: (outer, inner, renaming of the leader's, of the other's) or None.

    whole: the other's loops lie on all of the leader's; else on its outer ones (and, if it has any, inner on inner).
    """
    full, target = lead.outer + lead.inner, other.outer + other.inner
    if whole or not lead.inner:
        if (not whole) or not _equal(full, target):
            return None
        paired = pair(full, target)
        if paired is None:
            return None
        map_lead, map_other, pieces = paired
        return _flat(pieces, lead.outer), _flat(pieces, lead.inner), map_lead, map_other
    outer = pair(lead.outer, other.outer) if _equal(lead.outer, other.outer) else None
    if outer is None:
        return None
    kept = {v: Var(f"q{k}", v.size) for k, v in enumerate(lead.inner)}
    inner = ({v: index(w) for v, w in kept.items()}, {}, {v: [w] for v, w in kept.items()})
    if other.inner:
        inner = pair_loops(lead.inner, other.inner, "q") if _equal(lead.inner, other.inner) else None
        if inner is None:
            return None
    return _flat(outer[2], lead.outer), _flat(inner[2], lead.inner), outer[0] | inner[0], outer[1] | inner[1]


def _flat(pieces, variables):
    return tuple(p for v in variables for p in pieces[v])


def _equal(a, b):
    return ir.product(v.size for v in a) == ir.product(v.size for v in b)


def levels(nodes, together=()):
    """The pass in which each node of a group runs: a full node that needs a reduction's result runs one pass later.

    Outer nodes run at the end of the pass of what they need; before the first (-1) when they need no pass.  together:
    name of a reduction -> the one that it needs but is found with (see online.py).
    """
    by_name, result, pairs = {n.name: n for n in nodes}, {}, dict(together).items()
    for node in nodes:
        level = 0 if node.inner else -1
        for name in dict.fromkeys(load.buffer for load in ir.loads(node.body)):
            source = by_name.get(name)
            if source is not None and source is not node:
                after = node.inner and (source.is_reduction or not source.inner) and (node.name, name) not in pairs
                level = max(level, result[name] + (1 if after else 0))
        result[node.name] = level
    return result
