"""Trace a graph for inputs that share memory: the memory is its input, flat, and they are views of it.

Goes in: the groups that `overlap.py` found, and functional tensors.  Comes out: for each such input a functional tensor
that is a view of its group's memory, so that a write to one is seen by all; and afterwards, which of them were written.
What autograd knows as different tensors are different tensors here too, on the same memory.  And the other way round:
inputs that the program moves to other memory.
Mirrors `torch/_functorch/_aot_autograd/input_output_analysis.py`.  Taught in chapter 08.
"""

import dataclasses

import torch
from torch._subclasses.functional_tensor import FunctionalTensor
from torch.utils._pytree import tree_leaves

from ..errors import Unsupported
from .nodes import hinted
from .outputs import is_dense, storage_key
from .overlap import place_in_row, refuse, rows_of, span

OTHER_MEMORY = (
    "other memory for an input",
    "`input.data = value`, where the value, or what the input was, is seen by others or by the backward",
    "write the elements in place (`input.copy_(value)`), or assign outside the compiled function",
)


# --- before the run ---------------------------------------------------------------------------------
@dataclasses.dataclass
class Sharing:
    """groups: as found.  values: of the inputs and constants, fake.  memories: those of a call, as examples."""

    groups: tuple
    values: list
    memories: list

    @property
    def members(self):
        return {m.index for group in self.groups for m in group.members}

    def names(self):
        return [f"memory_{k}" for k in range(len(self.memories))]

    def fakes(self, fake_mode):
        """A fake tensor for each memory."""
        found = []
        for group in self.groups:
            last = group.members[group.last]
            ratio = last.dtype.itemsize // group.dtype.itemsize
            end = group.end if group.end is not None else (last.offset + span(self.values[last.index])) * ratio
            for memory in self.memories[len(found) : len(found) + group.memories]:
                with fake_mode:
                    found.append(torch.empty((end - group.first,), dtype=group.dtype, device=memory.device))
        return found

    def connect(self, leaves, primals, aliases):
        """Put views of the memories in the place of the inputs, in both lists; `leaves` are what has gradients."""
        place = len(leaves) - len(self.memories)
        for group in self.groups:
            roots = self.roots(group, leaves, primals[place], place)
            for m in group.members:
                # a view that was made under no_grad remembers that
                with torch.set_grad_enabled(m.needs_grad or not group.families[m.family].needs_grad):
                    primals[m.index] = view_of(roots[m.family], m, self.values[m.index], group)
                counter = place, group.families[m.family].counter
                aliases.add(m.index, primals[m.index], roots[m.family], counter)
            place += group.memories

    def roots(self, group, leaves, memory, place):
        """For each family what its members are views of: one memory, other version counters, other gradients."""
        found, counters = {}, {}
        for k, family in sorted(enumerate(group.families), key=lambda pair: pair[1].memory != 0):
            if family.memory == 0:
                root = memory
            elif family.counter in counters or not counters:
                root = counters.get(family.counter, memory).detach()
            else:
                root = memory.data
            if family.memory != 0 and family.needs_grad:
                root.requires_grad_()
            if family.memory:
                leaves[place + family.memory] = root
            counters.setdefault(family.counter, root)
            found[k] = root
        return found


def view_of(root, m, like, group):
    """The member as a view of its family's flat root.  like: its fake value, whose sizes may be symbolic."""
    ratio = m.dtype.itemsize // group.dtype.itemsize
    size, stride, start = like.shape, like.stride(), m.offset * ratio - group.first
    if is_dense(like):
        order = sorted(range(like.dim()), key=lambda d: -hinted(stride[d]))
        part = root.narrow(0, start, like.numel() * ratio)
        part = part.view(m.dtype) if m.dtype != root.dtype else part
        made = part.view([size[d] for d in order]).permute([order.index(d) for d in range(like.dim())])
    else:
        made = with_holes(root.view(m.dtype) if m.dtype != root.dtype else root, start // ratio, m)
    for bit, change in zip(m.bits, (torch.conj, torch._neg_view)):
        made = change(made) if bit else made
    return made


def with_holes(flat, start, m):
    """Rows of rows, of which each but its beginning is left out; then the dimensions that lead nowhere."""
    if not isinstance(m.size, tuple):
        refuse("one with holes has symbolic sizes")
    order = sorted((d for d in range(len(m.size)) if m.size[d] > 1 and m.stride[d]), key=lambda d: -m.stride[d])
    rows, offset = rows_of(m.size, m.stride), m.offset
    for k, (n, step) in enumerate(rows):
        if 1 + sum((n - 1) * step for n, step in rows[k + 1 :]) > step:
            refuse("the rows of one overlap")
        if k == len(rows) - 1:
            flat = flat[..., start : start + (n - 1) * step + 1 : step]
        else:
            offset = place_in_row(offset, rows[k:])
            flat, start = flat.narrow(-1, start - offset, n * step).unflatten(-1, (n, step)), offset
    made = flat.permute([order.index(d) for d in sorted(order)]) if order else flat.select(-1, start)
    for d in range(len(m.size)):
        made = made if d in order else made.unsqueeze(d)
    return made if made.shape == m.size else made.expand(m.size)


# --- during the run -----------------------------------------------------------------------------------
class Aliases:
    """By which inputs the program came to a tensor that shares memory, and which inputs it wrote."""

    def __init__(self):
        self.known, self.owners, self.counters, self.storages, self.written = {}, {}, {}, set(), set()

    def add(self, index, primal, root, counter):
        self.owners[index], self.counters[index] = root, counter
        self.storages.add(storage_key(primal))
        self.known[id(primal)] = primal, frozenset([index])

    def follow(self, func, args, kwargs, result):
        """Note what an operator did.  The tensors are kept, so that an id stays what it is."""
        named = zip(func._schema.arguments, args)
        named = [*named, *((a, kwargs[a.name]) for a in func._schema.arguments if a.name in kwargs)]
        sources = {}
        for argument, value in named:
            for t in tree_leaves(value):
                if not isinstance(t, FunctionalTensor) or storage_key(t) not in self.storages:
                    continue
                _, origins = self.known.get(id(t), (t, frozenset()))
                sources[storage_key(t)] = sources.get(storage_key(t), frozenset()) | origins
                if argument.alias_info is not None and argument.alias_info.is_write:
                    if not origins:
                        refuse("the graph writes one by a way that is not known")
                    self.written |= origins
        for t in tree_leaves(result) if sources else ():
            if isinstance(t, FunctionalTensor) and id(t) not in self.known and storage_key(t) in sources:
                self.known[id(t)] = t, sources[storage_key(t)]

    def is_written(self, index):
        """Also an input that shares no memory counts, for what happened to it is its own."""
        return index not in self.owners or index in self.written

    def input_of(self, tensor):
        """The input that a tensor on shared memory is a view of."""
        _, origins = self.known.get(id(tensor), (tensor, ()))
        if not origins:
            refuse("a result shares memory with one by a way that is not known")
        return min(origins)

    def mutations(self, found):
        """What happened to inputs, where each write is counted once by each version counter, whoever has it."""
        for counter in {self.counters[m.index] for m in found if m.index in self.owners}:
            same = [m for m in found if self.counters.get(m.index) == counter]
            recorded = sum(m.how == "copy_" for m in same)
            same.sort(key=lambda m: m.how != "copy_")
            found = [m for m in found if m not in same]
            for k, m in enumerate(same):
                how = "copy_" if m.how == "copy_" else "data"
                uncounted = m.writes - recorded if k == 0 else 0
                found.append(dataclasses.replace(m, how=how, writes=uncounted + (how == "copy_")))
        return sorted(found, key=lambda m: m.index)


# --- inputs that get other memory -------------------------------------------------------------------
class Memories:
    """Inputs that get other memory, by `input.data = value`.

    From then on another tensor stands for the input, a leaf if that is one, on the memory of the value.
    current: what stands for each input.
    """

    def __init__(self, primals, aliases, count=0):
        self.current, self.aliases, self.replaced, self.writes = list(primals), aliases, {}, {}
        self.count = count  # of inputs; constants follow them
        self.taken = {storage_key(p) for p in primals if isinstance(p, torch.Tensor)}
        self.left = set()  # memory that belonged to one

    def replace(self, tensor, name, value, environment):
        index = next((i for i, p in enumerate(self.current[: self.count]) if p is tensor), None)
        # in place of a leaf's a functional tensor has a gradient function that only says that there is none
        leaf = type(tensor.grad_fn).__name__ in ("NoneType", "Error")
        fits = not tensor.requires_grad or leaf and like(tensor, value)
        if index is None or not fits or self.aliases.storages or storage_key(value) in self.taken:
            raise Unsupported(*OTHER_MEMORY)
        self.writes[index] = self.written(index)
        self.left.add(storage_key(tensor))
        self.taken.add(storage_key(value))
        stand_in = value.data.requires_grad_(tensor.requires_grad)
        self.current[index] = self.replaced[index] = stand_in
        environment.update({node: stand_in for node, each in environment.items() if each is tensor})

    def written(self, index):
        return self.writes.get(index, 0) + (self.replaced[index]._version if index in self.replaced else 0)

    def check(self, outputs, written):
        """No output may be on memory that was replaced, or on its replacement but the input and its views.

        written: inputs, by number, whose first memory the program writes.
        """
        if any(index in self.replaced for index in written):
            raise Unsupported(*OTHER_MEMORY)
        inputs = [*self.replaced.values()]
        memory = {storage_key(t) for t in inputs}
        for t in (t for t in outputs if isinstance(t, FunctionalTensor)):
            own = any(t is each or t._base is each for each in inputs)
            if storage_key(t) in self.left or storage_key(t) in memory and not own:
                raise Unsupported(*OTHER_MEMORY)


def like(a, b):
    return (a.shape, a.dtype, a.device) == (b.shape, b.dtype, b.device)
