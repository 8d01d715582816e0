"""Inputs that share memory with an input that the graph writes: do they, and how?

Goes in: the inputs of a call.  Comes out: whether any share memory with a written one; if so, the groups in which they
do: who is where in the memory, who is a view of whom for autograd; and each group's memory, as flat tensors.
Mirrors `merge_view_inputs` in `torch/_functorch/_aot_autograd/runtime_wrappers.py`.  Taught in chapter 08.
"""

import contextlib
import dataclasses
import operator
import threading

import torch
from torch._subclasses import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import ShapeEnv

from .. import config, record
from ..errors import Unsupported
from .graph import Examples
from .outputs import share_version, storage_key


def refuse(why):
    raise Unsupported("inputs that share memory", why, "give clones, or separate tensors, to the compiled function")


# --- what is found out ------------------------------------------------------------------------------
@dataclasses.dataclass(frozen=True)
class Member:
    """An input.  family: which one it belongs to.  offset: its first element in storage.  bits: conjugate, negative.

    size, stride: as they are now; if they are symbols in the graph, size is only their number.
    """

    index: int
    family: int
    offset: int
    dtype: torch.dtype
    needs_grad: bool
    bits: tuple
    size: tuple
    stride: tuple


@dataclasses.dataclass(frozen=True)
class Family:
    """What is for autograd one tensor and its views.  counter: which version counter they have.

    memory: which of the group's memories takes its gradient, if it wants one.
    """

    counter: int
    needs_grad: bool
    memory: int = None


@dataclasses.dataclass(frozen=True)
class Group:
    """Inputs that share the memory from `first` to `end` in storage, in elements of `dtype`.

    memories: how many flat tensors stand for it: the memory itself, and one for each family that wants a gradient.
    last: which member ends last.
    """

    members: tuple
    families: tuple
    dtype: torch.dtype
    first: int
    end: int
    last: int
    memories: int

    def without_sizes(self):
        members = tuple(dataclasses.replace(m, size=len(m.size), stride=None) for m in self.members)
        return dataclasses.replace(self, members=members, end=None)


# --- is there any? ----------------------------------------------------------------------------------
class OverlapCheck:
    """Does an input that the graph writes share memory with another input?

    Addresses that were found safe are remembered, so that a call looks only at the inputs that moved since.
    """

    def __init__(self, graph, tensors):
        self.pick, self.indices = operator.itemgetter(*tensors), tensors
        self.constants, self.safe = tuple(graph.constants.values()), [None] * len(tensors)
        written = {m.index for m in graph.mutations}
        self.written = {k for k, index in enumerate(tensors) if index in written}
        self.extents, self.static = graph.extents, graph.extents is not None
        self.track = graph.grad_enabled

    def __call__(self, inputs):
        tensors = self.pick((*inputs, *self.constants))
        starts = [t.data_ptr() for t in tensors]
        if starts == self.safe and self.static:
            return False
        spans = self.spans(starts, tensors)
        moved = [k for k, start in enumerate(starts) if start != self.safe[k] or not self.static]
        if any(self.meets(spans, k) for k in moved) if len(moved) < 8 else bool(self.sharing(spans)):
            return True
        self.safe = starts
        return False

    def spans(self, starts, tensors):
        """(first byte, byte behind the last) of each."""
        extents = self.extents or [extent(t) for t in tensors]
        return [(start, start + size) for start, size in zip(starts, extents, strict=True)]

    def meets(self, spans, k):
        """Does input `k` share memory with another, and is one of the two written?"""
        start, end = spans[k]
        others = range(len(spans)) if k in self.written else self.written
        return any(start < spans[i][1] and spans[i][0] < end for i in others if i != k)

    def sharing(self, spans):
        """Lists of inputs that share memory, directly or through another, where one of them is written."""
        found, end = [], 0
        for first, last, k in sorted((*span, k) for k, span in enumerate(spans) if span[0] < span[1]):
            if first >= end:
                found.append([])
            found[-1].append(k)
            end = max(end, last)
        return [sorted(group) for group in found if len(group) > 1 and not self.written.isdisjoint(group)]

    def groups(self, inputs):
        """(the groups, the memories of all of them)."""
        tensors = self.pick((*inputs, *self.constants))
        spans = self.spans([t.data_ptr() for t in tensors], tensors)
        found = [group_of({self.indices[k]: tensors[k] for k in ks}, self.track) for ks in self.sharing(spans)]
        return tuple(group for group, _ in found), [memory for _, memories in found for memory in memories]


def span(tensor):
    """Elements from the first to the last, with those between."""
    return 1 + sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))


def extent(tensor):
    """Bytes from the first element to the end of the last."""
    return span(tensor) * tensor.element_size() if tensor.numel() else 0


# --- one group --------------------------------------------------------------------------------------
def group_of(tensors, track):
    """(the `Group`, its memories) of inputs by index.  track: whether autograd records what the graph does.

    What is refused runs in eager.  PyTorch compiles it: wrong numbers for two storages, no hooks, an error for two
    histories.  A memory is one tensor: it reaches no further than a storage, and autograd gives it one history.
    """
    first = next(iter(tensors.values()))
    if any(storage_key(t) != storage_key(first) for t in tensors.values()):
        refuse("two storages are one memory")
    roots = []
    for t in tensors.values():
        root = root_of(t)
        if not any(root is known for known in roots):
            roots.append(root)
    counters = counters_of(roots)
    with_history = [k for k, root in enumerate(roots) if track and root.requires_grad and not root.is_leaf]
    if len(with_history) > 1:
        refuse("two of them have a history of their own")
    if track and any(t is not root_of(t) and (t._backward_hooks or t.retains_grad) for t in tensors.values()):
        refuse("one has a hook, or keeps its gradient, which the gradient of its base does not pass")
    wanted = [*with_history, *(k for k, root in enumerate(roots) if track and root.requires_grad and root.is_leaf)]
    places = [*with_history, *(k for k in wanted if k not in with_history)]
    start = 0 if with_history else 1
    memory_of = {k: start + n for n, k in enumerate(places)}
    families = [Family(counters[k], root.requires_grad, memory_of.get(k)) for k, root in enumerate(roots)]
    members = [member(i, t, next(k for k, r in enumerate(roots) if r is root_of(t))) for i, t in tensors.items()]
    dtype = min((m.dtype for m in members), key=lambda d: d.itemsize)
    bounds = [bounds_of(m, dtype) for m in members]
    begin, end = min(b for b, _ in bounds), max(e for _, e in bounds)
    size = first.untyped_storage().nbytes() // dtype.itemsize
    if end > size:
        refuse("the rows of one end behind its storage")
    last = max(range(len(bounds)), key=lambda k: bounds[k][1])
    memories = [flat(roots[k], dtype, begin, end) for k in places]
    if not with_history:
        memories.insert(0, plain(first, dtype, begin, end))
    return Group(tuple(members), tuple(families), dtype, begin, end, last, len(memories)), memories


def root_of(tensor):
    """What autograd sees written if the tensor is: what it is a view of, or itself."""
    return tensor._base if tensor._is_view() and not (tensor.requires_grad and tensor.is_leaf) else tensor


def counters_of(roots):
    """For each the number of its version counter."""
    found = []
    for root in roots:
        known = [k for k, other in enumerate(roots[: len(found)]) if root.is_inference() or share_version(root, other)]
        found.append(found[known[0]] if known else len(found))
    return found


def member(index, t, family):
    bits = t.is_conj(), t.is_neg()
    return Member(index, family, t.storage_offset(), t.dtype, t.requires_grad, bits, tuple(t.shape), t.stride())


def bounds_of(m, dtype):
    """Where it begins and ends, in elements of `dtype`; where it has holes, whole rows, so that views lead to it."""
    ratio, shift = divmod(m.dtype.itemsize, dtype.itemsize)
    if shift:
        refuse("elements of one type are no multiples of another's")
    rows = rows_of(m.size, m.stride)
    begin, length = m.offset, 1 + sum((n - 1) * step for n, step in rows)
    if len(rows) > 1 and not is_compact(rows):
        n, step = rows[0]
        begin, length = m.offset - place_in_row(m.offset, rows), n * step
    return begin * ratio, (begin + length) * ratio


def rows_of(size, stride):
    """(size, stride) of the dimensions that lead to different elements, the longest steps first."""
    return sorted(((n, s) for n, s in zip(size, stride) if n > 1 and s), key=lambda row: -row[1])


def place_in_row(offset, rows):
    """Where in the rows of the first dimension those of the others begin: as in a matrix, or else in front."""
    place, inner = offset % rows[0][1], 1 + sum((n - 1) * step for n, step in rows[1:])
    return place if place + inner <= rows[0][1] else 0


def is_compact(rows):
    """No holes, and no element twice."""
    expected = 1
    for n, step in reversed(rows):
        if step != expected:
            return False
        expected *= n
    return True


# --- its memory, flat ---------------------------------------------------------------------------------
def plain(tensor, dtype, begin, end):
    """Without gradients."""
    with torch.no_grad():
        made = torch.empty(0, dtype=dtype, device=tensor.device)
        return made.set_(tensor.untyped_storage(), begin, (end - begin,), (1,))


def flat(root, dtype, begin, end):
    """As a view of what autograd knows, so that gradients get there."""
    if root.dtype != dtype or root.is_conj() or root.is_neg():
        refuse("the one that wants a gradient is of another type")
    offset = root.storage_offset()
    with torch.enable_grad():
        if root.is_contiguous() and offset <= begin and end <= offset + root.numel():
            return root.view(-1)[begin - offset : end - offset]
        return root.as_strided((end - begin,), (1,), begin)


# --- a graph for each relation ----------------------------------------------------------------------
class SharedMemory:
    """Runs the calls in which inputs share memory, each by a graph for inputs that share it so.

    compile_shared: (groups, fake inputs, examples, memories) -> callable(memories, *inputs).  Beyond twice
    `config.recompile_limit` of them, calls run in eager.
    """

    def __init__(self, graph, eager, compile_shared):
        self.tensors = [i for i, is_tensor in enumerate(graph.input_is_tensor) if is_tensor]
        self.possible = bool(graph.mutations) and len(self.tensors) > 1
        if not self.possible:
            return
        self.check, self.eager, self.compile_shared = OverlapCheck(graph, self.tensors), eager, compile_shared
        self.values = Examples(graph.forward)
        self.constants, self.fake_mode = list(graph.constants.values()), graph.fake_mode
        self.known, self.lock = {}, threading.Lock()
        self.compilation, self.settings = record.current(), config.snapshot()

    def __call__(self, inputs):
        try:
            groups, memories = self.check.groups(inputs)
        except Unsupported:
            return self.in_eager(inputs)
        run = self.graph_for(groups, [*inputs, *self.constants], memories)
        return self.in_eager(inputs) if run is None else run(memories, *inputs)

    def in_eager(self, inputs):
        record.counters["alias_fallbacks"] += 1
        return self.eager(*inputs)

    def graph_for(self, groups, given, memories):
        """The callable, or None if there is none: for all sizes where sizes are symbols, or else for these."""
        run = None
        if not self.check.static:
            anywhere = tuple(g.without_sizes() for g in groups)
            run = self.compiled(anywhere, anywhere, self.values, given, memories)
        elif all(lies_as(m, self.values[m.index]) for g in groups for m in g.members):
            return self.compiled(groups, groups, self.values, given, memories)
        if run is None:
            sizes = tuple((t.shape, t.stride()) if isinstance(t, torch.Tensor) else t for t in given)
            run = self.compiled((groups, sizes), groups, static(given), given, memories)
        return run

    def compiled(self, key, groups, values, given, memories):
        with self.lock:
            if key not in self.known:
                if len(self.known) >= 2 * config.recompile_limit:
                    return None
                with record.reopen(self.compilation), config.patch(**self.settings):
                    self.known[key] = self.compile(groups, values, given, memories)
        return self.known[key]

    def compile(self, groups, values, given, memories):
        """None where it cannot be, or would hold for these sizes only."""
        examples = [g if isinstance(g, torch.Tensor) else v for g, v in zip(given, values)]
        env = next(v.fake_mode.shape_env for v in values if isinstance(v, torch.Tensor))
        try:
            with nothing_assumed(env) as assumed:
                run = self.compile_shared(groups, values, examples, memories)
        except Unsupported as reason:
            record.log("aot", "%s", reason)
            return None
        record.counters["alias_graphs"] += not assumed()
        return None if assumed() else run


def lies_as(m, example):
    return m.size == example.shape and m.stride == example.stride()


def static(given):
    """Fake values with the sizes that these have."""
    mode = FakeTensorMode(shape_env=ShapeEnv(), allow_non_fake_inputs=True)
    return [mode.from_tensor(t.detach(), static_shapes=True) if isinstance(t, torch.Tensor) else t for t in given]


@contextlib.contextmanager
def nothing_assumed(env):
    """Inside, no guard is added: nobody would check it.  Gives a function that tells whether one was asked for."""
    if env is None:
        yield lambda: False
        return
    before, was = env.counter["ignored_backward_guard"], env.frozen
    env.frozen = True
    try:
        yield lambda: env.counter["ignored_backward_guard"] > before
    finally:
        env.frozen = was
